# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Joint motion of an arm under the controller, with its tasks switched off: commands and a guard.

With the activation of all tasks at 0 the posture controls all joints, by a second-order system of
natural frequency ω and damping ratio ζ. The goal q + 2ζ/ω q̇ + q̈/ω² makes it follow a motion q(t).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.errors import InputError
from osc_ros.identification.excitation import DRY, Extent, MotionLimits, Trajectory
from osc_ros.identification.fit.joint_recording import Recording
from osc_ros.identification.fit.regressor import link_positions, sweep
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# 2 ζ ω below the rate of the joint limits' reaction (25/s): faster feedback of one joint would be
# scaled down at its velocity limit, with that of all others.
FREQUENCY, DAMPING = 12.0, 1.0  # of the posture during the motion [rad/s], 1
BLEND = 0.05  # blend_time during the motion [s]
# The guard stops the motion beyond these: distance of a tip from its box [m], speed relative to
# the limit, distance of a joint from its planned position [rad, m].
BOX_MARGIN, SPEED_MARGIN, TRACKING = 0.05, 1.5, 0.4
SETTLE = 0.5  # rest before and after a trajectory [s]


class StoppedError(InputError):
    """A motion that was stopped: says when and why."""


class Mover(Protocol):
    """An arm, simulated or real, that executes trajectories; `text` is its description."""

    robot: Robot
    text: str

    def positions(self) -> Array:
        """Return the present joint positions (n,) [rad, m]."""

    def perform(self, trajectory: Trajectory, guard: Guard) -> Recording:
        """Execute a trajectory that starts at the present positions; return its recording."""

    def close(self) -> None:
        """End the connection to the arm."""

    def facts(self) -> dict[str, Any]:
        """Return what is known about the true arm, if anything."""


def compensated(robot: Robot) -> Disturbance:
    """
    Return the largest errors of the model that the controller compensates during the motion.

    They are an unknown payload, wrong masses of the links, and dry friction. For the first minute
    all of the missing torque counts as load.

    """
    effort = robot.effort_limits
    friction = DRY * float(np.max(effort, where=np.isfinite(effort), initial=0.0))
    return Disturbance(payload=3.0, masses=0.3, friction=max(3.0, friction), free=60.0)


def posture_goal(trajectory: Trajectory, time: float, robot: Robot) -> Array:
    """Return the posture (n,) that lets the joints follow a trajectory at a time [s]."""
    q, qd, qdd = (x[0] for x in trajectory.at(time))
    if not 0.0 <= time <= trajectory.duration:
        qd, qdd = np.zeros_like(qd), np.zeros_like(qdd)
    goal = q + 2.0 * DAMPING / FREQUENCY * qd + qdd / FREQUENCY ** 2
    lower, upper = robot.position_limits.T
    return np.asarray(np.clip(goal, lower, upper))


@dataclass(frozen=True, eq=False)
class Guard:
    """
    Decides whether a motion must be stopped.

    Attributes
    ----------
    robot : Robot
    limits : MotionLimits
    trajectory : Trajectory

    """

    robot: Robot
    limits: MotionLimits
    trajectory: Trajectory

    def objection(self, time: float, q: Array, qd: Array) -> str:
        """
        Return why the motion must be stopped; empty if it may go on.

        Parameters
        ----------
        time : float
            Since the start of the trajectory [s].
        q, qd : (n,)
            Measured state.

        """
        if not (np.isfinite(q).all() and np.isfinite(qd).all()):
            return 'a joint state is not finite'
        names = self.robot.joint_names
        for i in np.flatnonzero(np.abs(qd) > SPEED_MARGIN * self.limits.velocity).tolist():
            return (f"joint '{names[i]}' moves at {qd[i]:.2f} rad/s, accepted are "
                    f'{SPEED_MARGIN * self.limits.velocity[i]:.2f}')
        away = q - self.trajectory.at(time)[0][0]
        for i in np.flatnonzero(np.abs(away) > TRACKING).tolist():
            return (f"joint '{names[i]}' is {away[i]:.2f} rad away from its planned position: it "
                    'is blocked, or the model is far off')
        motion = sweep(self.robot, q[None], np.zeros((1, self.robot.n)),
                       np.zeros((1, self.robot.n)))
        for tip in self.robot.tips:
            at = link_positions(self.robot, motion, tip)[0]
            if (at < self.limits.box[0] - BOX_MARGIN).any() or (
                    at > self.limits.box[1] + BOX_MARGIN).any():
                return f"'{tip}' is at {np.round(at, 3).tolist()} m, outside of its box"
        return ''


def announcement(robot: Robot, extent: Extent, duration: float) -> str:
    """Return what a motion will do, in words, to be confirmed by the user."""
    lines = [f'For {duration:g} s all joints move at once, and return to where they are now:']
    for i, name in enumerate(robot.joint_names):
        lines.append(f'  {name}: {extent.lower[i]:.2f} to {extent.upper[i]:.2f} rad, up to '
                     f'{extent.speed[i]:.2f} rad/s, {100.0 * extent.torque[i]:.0f} % of its '
                     'torque')
    for what, box in (('tip', extent.box), ('origins of all links', extent.bodies)):
        ranges = ', '.join(f'{axis} {low:.2f} to {high:.2f}'
                           for axis, low, high in zip('xyz', *box))
        lines.append(f'  {what}: {ranges} m')
    return '\n'.join(lines)
