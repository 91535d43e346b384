# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques beside the robot's model: driver, friction, external forces, and their compensation."""
