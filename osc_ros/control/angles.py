# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Positions of continuous joints, which are angles: differences take the shorter way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class ShortWay:
    """
    Wraps position differences of continuous joints to [-π, π).

    Attributes
    ----------
    continuous : (n,) bool
        Revolute joints without position limits.

    Parameters
    ----------
    robot : Robot

    """

    def __init__(self, robot: Robot) -> None:
        self.continuous: NDArray[np.bool_] = ~(
            np.isfinite(robot.position_limits).any(axis=1) | robot.prismatic)
        self._is_used = bool(self.continuous.any())

    def of(self, steps: Array) -> Array:
        """Return the steps (…, n) [rad, m], those of continuous joints wrapped to [-π, π)."""
        if not self._is_used:
            return steps
        # not by subtraction of whole turns: for a garbled step such as 1e300 the result would be 0
        wrapped = np.remainder(steps + np.pi, 2.0 * np.pi) - np.pi
        return np.where(self.continuous, wrapped, steps)
