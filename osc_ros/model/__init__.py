# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Robot model: read-only arrays, constructed from a URDF or in code."""

from osc_ros.model.robot import Robot

__all__ = ['Robot']
