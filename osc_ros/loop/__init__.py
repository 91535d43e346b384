# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A controller in a control loop: engine, start-up check, journal, without ROS."""
