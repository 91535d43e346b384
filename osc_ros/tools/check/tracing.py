# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Inverse kinematics along a path: reachability, joint speeds and torques."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.setpoint.trajectory import Path
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.freedoms import Freedoms, Selection
from osc_ros.dynamics.algebra.conditioning import conditioning, scaled_jacobian
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.trees.articulated import Articulated
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

WELL = 0.06  # smallest accepted conditioning
CLOSE = 1e-3  # largest error of a reached pose [rad, m]
MARGIN = 0.05  # distance from a joint limit, as a share of the range
LEAST_MARGIN = 0.02  # smallest distance from a joint limit [rad, m]
SAMPLE = 0.04  # time between two samples of a path [s]


@dataclass(frozen=True)
class Usage:
    """Largest speeds and torques of the joints in a motion, as shares of their limits."""

    speed: Array  # (n,); 0 for a joint without a limit
    torque: Array  # (n,); 0 for a joint without a limit

    @property
    def most(self) -> float:
        """Largest of the shares of all joints."""
        return float(max(self.speed.max(), self.torque.max()))


class Tracer:
    """Inverse kinematics of the tip along the controlled axes."""

    def __init__(self, robot: Robot, freedoms: Freedoms) -> None:
        self.robot, self.freedoms = robot, freedoms
        self._selection = Selection(robot, freedoms)
        self._space, self._model = OperationalSpace(robot), Articulated(robot)
        self._rest, self._M_inv = np.zeros(robot.n), np.empty((robot.n, robot.n))
        lower, upper = robot.position_limits.T
        span = np.where(np.isfinite(upper - lower), upper - lower, 0.0)
        margin = np.minimum(np.maximum(MARGIN * span, LEAST_MARGIN), 0.25 * span)
        self.lower, self.upper = lower + margin, upper - margin

    def pose(self, q: Array) -> Array:
        """Return the pose (4, 4) of the tip at q (n,)."""
        return self._space.outward(q, self._rest).pose.copy()

    def conditioning(self, q: Array) -> float:
        """Return the smallest divided by the largest singular value of the scaled Jacobian."""
        self._space.outward(q, self._rest)
        return conditioning(self._selection.part(q, scaled_jacobian(self._space.jacobian())))

    def reached_positions(self, q: Array, pose: Array) -> Array | None:
        """Return joint positions (n,) near q that reach a pose; None if none were found."""
        for _ in range(20):
            T = self._space.outward(q, self._rest).pose
            away = self._selection.part(q, pose_error(T, pose))
            J = self._selection.part(q, self._space.jacobian())
            if np.abs(away).max() < CLOSE:
                return q if self._is_good(q, J) else None
            away *= min(1.0, 0.2 / np.abs(away).max())
            q = q + np.linalg.lstsq(J, away, rcond=1e-3)[0]
        return None

    def worst_conditioning(self, q: Array, poses: Iterable[Array]) -> float:
        """Return the smallest conditioning at successive poses; 0 if one is out of reach."""
        worst, at = 1.0, q
        for pose in poses:
            reached = self.reached_positions(at, pose)
            if reached is None:
                return 0.0
            at, worst = reached, min(worst, self.conditioning(reached))
        return worst

    def usage(self, q: Array, path: Path) -> Usage | None:
        """Return the largest shares of the joint limits along a path from q (n,)."""
        # The joint velocities have the smallest kinetic energy. None if a part is out of reach.
        times = np.linspace(path.times[0], path.times[-1],
                            max(3, round(float(np.ptp(path.times)) / SAMPLE)))
        states, speeds = np.empty((len(times), len(q))), np.empty((len(times), len(q)))
        step = times[1] - times[0]
        for k, time in enumerate(times):
            target = path.at(time)
            T = self._space.outward(q, self._rest).pose
            J = self._selection.part(q, self._space.jacobian())
            if not self._is_good(q, J):
                return None
            W = self._model.M_inv(q, self._M_inv)
            J_inv = W @ J.T @ np.linalg.inv(J @ W @ J.T)
            away = self._selection.part(q, pose_error(T, target.pose))
            speeds[k] = J_inv @ self._selection.part(q, target.twist)
            states[k] = q
            q = q + J_inv @ away + step * speeds[k]
        accelerations = np.gradient(speeds, times, axis=0)
        robot = self.robot
        torques = np.array([self._model.inverse_dynamics(*state)
                            for state in zip(states, speeds, accelerations)])
        torques += (robot.coulomb_friction * np.sign(speeds) + robot.viscous_friction * speeds)
        return Usage(np.abs(speeds).max(axis=0) / robot.velocity_limits,
                     np.abs(torques).max(axis=0) / robot.effort_limits)

    def _is_good(self, q: Array, J: Array) -> bool:
        """Return whether q has its margin to the limits, and J (k, n) is well conditioned."""
        if ((q < self.lower) | (q > self.upper)).any():
            return False
        turning = sum(self.freedoms.controlled[:3])
        return conditioning(scaled_jacobian(J, turning)) > WELL
