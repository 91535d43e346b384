# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques that keep the joints within their limits."""
