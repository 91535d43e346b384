# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Synchronous client of an arm: in simulation, in a real-time loop, or over ROS topics."""
