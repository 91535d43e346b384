# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Joint motion of an arm under the controller with inactive tasks: commands and a guard.

If the activation of all tasks is 0, the posture controls all joints as a second-order system with
natural frequency ω and damping ratio ζ. Joints follow a motion q(t) if the posture's goal is q +
2ζ/ω q̇ + q̈/ω².
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

# 2 ζ ω is below the rate of the joint limits' reaction (25/s). At a velocity limit, the limits
# would scale down faster feedback of one joint, and with it the feedback of all joints.
FREQUENCY, DAMPING = 12.0, 1.0  # of the posture during the motion [rad/s], 1
BLEND = 0.05  # blend_time during the motion [s]
# The guard stops the motion above these: distance of a tip from its box [m], speed relative to
# the limit, distance of a joint from its planned position [rad, m].
BOX_MARGIN, SPEED_MARGIN, TRACKING = 0.05, 1.5, 0.4
SETTLE = 0.5  # pause before and after a trajectory [s]


class StoppedError(InputError):
    """The guard has stopped a motion."""


class Mover(Protocol):
    """Interface of a simulated or real arm that executes trajectories; `text` is its URDF."""

    robot: Robot
    text: str

    def positions(self) -> Array:
        """Return the present joint positions (n,) [rad, m]."""

    def perform(self, trajectory: Trajectory, guard: Guard) -> Recording:
        """Execute a trajectory that starts at the present positions; return its recording."""

    def close(self) -> None:
        """Close the connection to the arm."""

    def true_parameters(self) -> dict[str, Any]:
        """Return the true parameters of a simulated arm, {} for a real one."""


def compensated_errors(robot: Robot) -> Disturbance:
    """Return the largest model errors that the controller compensates during the motion."""
    # These are an unknown payload, wrong masses of the links, and dry friction. During the first
    # minute the controller attributes every missing torque to the load.
    effort = robot.effort_limits
    friction = DRY * float(np.max(effort, where=np.isfinite(effort), initial=0.0))
    return Disturbance(payload=3.0, masses=0.3, friction=max(3.0, friction), free=60.0)


def posture_goal(trajectory: Trajectory, time: float, robot: Robot) -> Array:
    """Return the posture goal (n,) with which the joints follow a trajectory at `time` [s]."""
    q, qd, qdd = (x[0] for x in trajectory.at(time))
    if not 0.0 <= time <= trajectory.duration:
        qd, qdd = np.zeros_like(qd), np.zeros_like(qdd)
    goal = q + 2.0 * DAMPING / FREQUENCY * qd + qdd / FREQUENCY ** 2
    lower, upper = robot.position_limits.T
    return np.asarray(np.clip(goal, lower, upper))


@dataclass(frozen=True, eq=False)
class Guard:
    """Checks whether a motion must be stopped."""

    robot: Robot
    limits: MotionLimits
    trajectory: Trajectory

    def stop_reason(self, time: float, q: Array, qd: Array) -> str:
        """Return the reason to stop the motion, '' if there is none."""
        # `time` [s] from the start of the trajectory; `q`, `qd` (n,): measured state
        if not (np.isfinite(q).all() and np.isfinite(qd).all()):
            return 'a joint state is not finite'
        names = self.robot.joint_names
        for i in np.flatnonzero(np.abs(qd) > SPEED_MARGIN * self.limits.velocity).tolist():
            return (f"joint '{names[i]}' moves at {qd[i]:.2f} rad/s: must be at most "
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
    """Return a text that describes a motion, for the user to confirm."""
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
