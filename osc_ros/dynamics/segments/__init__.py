# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Kernels for the segments of a long chain, and the calls of a team of processes."""
