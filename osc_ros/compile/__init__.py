# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compilation of kernels, their cache, and the arrays that they share with Python."""
