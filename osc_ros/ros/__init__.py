# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The nodes: the only part of the package that knows ROS."""

from importlib.util import find_spec

from osc_ros.errors import installation

if find_spec('rclpy') is None:  # not imported here: that takes long, see osc_ros.start
    raise ModuleNotFoundError('osc_ros.ros needs ROS 2: source an installation of it, or '
                              + installation('jazzy'))
