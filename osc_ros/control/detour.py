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
AT_REST = 0.02  # speed of the joints below which the arm rests [rad/s, m/s]
LAGGING = 2e-3  # least error to the set-point of an arm that is stuck [rad, m]
STALL = 0.5  # time at rest after which the arm is stuck [s]
_STEP = 1e-6  # of the numerical Jacobian [rad, m]


class Stall:
    """Detects that an arm rests although its set-point is elsewhere."""

    def __init__(self) -> None:
        self._since = np.inf

    def update(self, time: float, qd: Array, error: Array) -> bool:
        """
        Return whether the arm has been stuck for STALL.

        `time` is that of the state [s], qd (n,) its velocities, `error` (6,) that of the tip to
        its set-point.

        """
        rests = bool((np.abs(qd) < AT_REST).all() and np.linalg.norm(error) > LAGGING)
        self._since = min(self._since, time) if rests else np.inf
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
