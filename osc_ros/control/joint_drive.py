# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Joint drive: the joints follow a motion of their own, and the tasks give no forces.

With the set-point q_d of the posture, its error e = q_d - q and the inertia M, the torques are

    τ = M (q̈_d + r ė + ω² e) + C + G,

or, as a joint impedance with the stiffness K and the damping D of each joint,

    τ = M (q̈_d + r ė) + K e + D ė + C + G.

Without a given D, the rate r damps: it acts on the whole inertia, so it is stable also for light
wrists, for which a damper of each joint that suits the load of the arm would be unstable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.limits.limits import Limits, sampled_loads
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.tasks.bandwidth import (
    largest_damping_rate,
    largest_natural_frequency,
    longest_period,
)
from osc_ros.control.tasks.task import Task
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, Numbers, setting

Array = NDArray[np.float64]

UNLIMITED = 2.0  # assumed speed limit of joints without one [rad/s, m/s]
JERK_SHARE = 0.25  # share of `JointDrive.ramp` in which the acceleration builds up
BUILD_UP = 0.1  # but not in less time: it may need all torque there is [s]
STRONGEST = 1e3  # largest accepted damping rate of a posture [1/s]
REFUSAL = ('the joints follow a motion of their own: accepted again after a change to settings '
           'without `joints` (in ROS: after ~/hold)')


@dataclass(frozen=True, eq=False)
class JointDrive(Group, group='joints'):
    """
    Gains of a motion in the joints, and the bounds within which it is planned.

    Gains that would be unstable at the loop's period are reduced. With a stiffness each joint is a
    spring, which yields to a hand. Without damping, all joints then have one damping rate: that of
    `damping_ratio` and the geometric mean of their natural frequencies as springs. Without springs
    the law compensates friction, an unknown payload and errors of the masses (see `Disturbance`),
    because these gains alone are too weak to move light joints against their friction.

    Raises
    ------
    InputError
        A number that is not accepted, damping without stiffness.

    """

    natural_frequency: float = setting(
        20.0, 'Natural frequency of the joint errors in mode joints [rad/s]; reduced where the '
        'loop is too slow for it', lower=1e-3, upper=1e3)
    damping_ratio: float = setting(1.0, 'Damping ratio of the joint errors in mode joints',
                                   lower=0.1, upper=5.0)
    stiffness: Numbers = setting(
        None, 'Stiffness of each joint as a spring in mode joints [N m/rad, N/m], one for each '
        'joint or one for all; empty: joints.natural_frequency', lower=0.0, upper=1e6)
    damping: Numbers = setting(
        None, 'Damping of each spring [N m s/rad, N s/m]; empty: by joints.damping_ratio',
        lower=0.0, upper=1e6)
    speed: float = setting(
        0.5, 'Share of the velocity limits that planned motions of the joints use', lower=1e-3,
        upper=1.0)
    ramp: float = setting(0.4, 'Least time in which they reach this speed [s]', lower=0.01,
                          upper=60.0)
    leash: float = setting(0.2, 'Lag of a joint at which a motion of the joints pauses [rad, m]',
                           lower=1e-3, upper=100.0)
    friction: float = setting(
        1.0, 'Largest unknown dry friction of a joint [N m, N], which mode joints compensates '
        'without joints.stiffness, as disturbance.mode does; 0: it compensates nothing',
        lower=0.0, upper=1e3)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.damping is not None and self.stiffness is None:
            raise InputError('joint drive: damping is given without stiffness: give both')

    def posture(self, robot: Robot) -> Posture:
        """Gains of the posture while this drive is in force."""
        if self.stiffness is None:
            return Posture(self.natural_frequency, self.damping_ratio)
        if self.damping is not None:
            return Posture(natural_frequency=0.0)
        stiffness, inertia = self._of_joints('stiffness', robot.n), sampled_loads(robot)[0]
        squares = (stiffness / inertia.mean(axis=0))[stiffness > 0.0]
        typical = math.exp(0.5 * float(np.log(squares).mean())) if len(squares) else 0.0
        rate = 2.0 * self.damping_ratio * typical  # the law lowers it to what the loop can carry
        return Posture(0.0, damping=min(max(rate, 1.0), STRONGEST))

    @property
    def compensated(self) -> Disturbance | None:
        """Model errors that this drive compensates; None with springs, which yield to loads."""
        if self.stiffness is not None or self.friction == 0.0:
            return None
        return Disturbance(friction=self.friction)

    def tasks(self, given: tuple[Task, ...]) -> tuple[Task, ...]:
        """Return tasks that give no forces while this drive is in force."""
        return tuple(replace(task, activation=0.0) for task in given)

    def springs(self, inertia: Array) -> Springs | None:
        """
        Springs for joints whose smallest inertia is `inertia` (n,); None without a stiffness.

        InputError if a shape does not fit.

        """
        if self.stiffness is None:
            return None
        n = len(inertia)
        return Springs(self._of_joints('stiffness', n), self._of_joints('damping', n), inertia)

    def _of_joints(self, name: str, n: int) -> Array:
        """Return `stiffness` or `damping` of each joint (n,); 0 if it is None."""
        value = getattr(self, name)
        if value is not None and len(value) not in (1, n):
            raise InputError(f'joint drive: {name} has {len(value)} numbers: give one, '
                             f'or {n}, one for each joint')
        return np.asarray((0.0 if value is None else value) * np.ones(n))


class Springs(NamedTuple):
    """Stiffness and damping of the joints as set, and the least inertia of each joint (n,)."""

    stiffness: Array
    damping: Array
    inertia: Array

    @property
    def longest_period(self) -> float:
        """Longest period of the states at which these springs are stable as set [s]."""
        # the largest eigenvalue of M⁻¹ K is at most the sum of its diagonal
        frequency = math.sqrt(float((self.stiffness / self.inertia).sum()))
        return longest_period(frequency, max(float((self.damping / self.inertia).sum()),
                                             2.0 * frequency))

    def within(self, period: float) -> tuple[Array, Array]:
        """Stable stiffness, damping (n,) at a period [s]; highest frequencies reduced first."""
        if period <= 0.0:
            return self.stiffness, self.damping
        squares = self.stiffness / self.inertia
        within = _capped(squares, largest_natural_frequency(1.0, period) ** 2)
        shares = within / np.where(squares > 0.0, squares, 1.0)
        rates = np.sqrt(shares) * self.damping / self.inertia
        most = largest_damping_rate(period, natural_frequency=math.sqrt(float(within.sum())))
        return shares * self.stiffness, _capped(rates, most) * self.inertia


def _capped(values: Array, total: float) -> Array:
    """Return values (n,) of 0 or more, the largest ones lowered to one value, of a sum ≤ total."""
    left, rest = total, len(values)
    for value in np.sort(values).tolist():
        if value * rest > left:
            return np.asarray(np.minimum(values, left / rest))
        left, rest = left - value, rest - 1
    return values


def motion_bounds(limits: Limits, drive: JointDrive, speed: ArrayLike = np.nan) -> Array:
    """Return bounds (3, n) of speed, acceleration and jerk for planned motions of the joints."""
    # `speed` is a number or (n,) [rad/s, m/s], at most the velocity limits; NaN: `drive.speed`. It
    # is reached in `drive.ramp` or later: the accelerations are at most those that the joints can
    # reach in every configuration.
    most, ramp = np.where(np.isinf(limits.velocity), UNLIMITED, limits.velocity), drive.ramp
    fastest = np.where(np.isnan(speed), drive.speed * most, np.minimum(speed, limits.velocity))
    acceleration = np.minimum(fastest / ramp, limits.deceleration)
    return np.array([fastest, acceleration, acceleration / max(JERK_SHARE * ramp, BUILD_UP)])
