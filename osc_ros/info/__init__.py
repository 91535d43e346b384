# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What the controller makes of a robot description: osc_info, without ROS."""
