# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Whether joints at their limits, or a singular posture, keep the tip from its goal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.tasks.pose_error import pose_error
from osc_ros.dynamics.algebra.conditioning import conditioning, scaled_jacobian
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

AT_LIMIT = 0.02  # distance from a position limit at which a joint counts as being there [rad, m]
SINGULAR = 0.06  # relative singular value below which a posture is singular: `SingularityDamping`
LAGGING = 2e-3  # least error to the set-point of an arm that is stuck [rad, m]
STALL = 1.0  # time without progress after which the arm is stuck [s]
PROGRESS = 0.99  # ratio of the way to the goal to the least one before that counts as progress
LENGTH = 0.3  # displacement for which a rotation by 1 rad counts [m]
_STEP = 1e-6  # of the numerical Jacobian [rad, m]


class Stall:
    """Detects that the tip comes no nearer to its goal, and its set-point is elsewhere."""

    def __init__(self) -> None:
        self._least, self._since = np.inf, np.inf

    def update(self, time: float, way: Array, error: Array) -> bool:
        """
        Return whether the arm has been stuck for STALL.

        `time` is that of the state [s], `way` (6,) leads from the tip to its goal, and `error`
        (6,) to its set-point.

        """
        left = float(np.linalg.norm(way[3:]) + LENGTH * np.linalg.norm(way[:3]))
        if left < PROGRESS * self._least or np.linalg.norm(error) < LAGGING:
            self._least, self._since = left, time
        return time - self._since >= STALL


def block_reason(robot: Robot, q: Array) -> str:
    """
    Why the tip cannot move freely at q (n,): joints at their limits, or a singular posture.

    Empty if neither is the case.

    """
    lower, upper = robot.position_limits.T
    at_limits = [
        f"'{robot.joint_names[i]}' ({q[i]:.3g} of {lower[i]:.3g} to {upper[i]:.3g})"
        for i in np.flatnonzero(np.minimum(q - lower, upper - q) < AT_LIMIT).tolist()]
    if at_limits:
        return f"joint{'s' * (len(at_limits) > 1)} at the limit: {', '.join(at_limits)}"
    here = link_pose(robot, q, robot.tip)
    J = np.array([pose_error(here, link_pose(robot, q + step, robot.tip)) / _STEP
                  for step in _STEP * np.eye(robot.n)]).T
    if robot.n >= 6 and conditioning(scaled_jacobian(J)) < SINGULAR:
        return 'the posture is singular: the tip can hardly move in one direction'
    return ''
