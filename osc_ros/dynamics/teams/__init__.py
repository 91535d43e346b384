# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One long chain, evaluated by several processes on one machine or over MPI."""
