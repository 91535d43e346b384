# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Vectors, rotations, spatial quantities and small matrices, in compiled functions."""
