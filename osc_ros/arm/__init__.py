# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The control loop of osc_arm: a process with the arm in it, and its connection to a ROS node."""
