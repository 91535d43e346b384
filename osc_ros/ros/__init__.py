# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The ROS 2 nodes: osc_controller, osc_arm, osc_relay, osc_simulator and others."""

from importlib.util import find_spec

from osc_ros.errors import installation

if find_spec('rclpy') is None:  # an import of rclpy here would be slow, see osc_ros.start
    raise ModuleNotFoundError('osc_ros.ros needs ROS 2: source an installation of it, or '
                              + installation('jazzy'))
