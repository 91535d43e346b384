# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The control law of an arm: tasks, posture, limits and watchdogs, without ROS."""
