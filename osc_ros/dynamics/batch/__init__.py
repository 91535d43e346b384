# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Dynamics of many states in one call, on the processor or on a GPU."""
