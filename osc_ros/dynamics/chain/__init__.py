# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled methods for plain chains: bodies with mass in a row, one tip on the last body."""
