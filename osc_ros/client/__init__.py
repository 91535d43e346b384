# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One synchronous client of an arm: a simulation, a real-time loop, or ROS topics."""
