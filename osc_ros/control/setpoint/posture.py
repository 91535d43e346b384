# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The posture: set-point of the joint positions, and the acceleration towards it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.limits.limits import LOWER, SPEED, UPPER, ZONE
from osc_ros.control.safety.sample import continuous_joints
from osc_ros.dynamics.algebra.fade import SETTLED
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

ARRIVED = 1e-9  # largest distance at which the set-point has reached its goal [rad, m]


@dataclass(frozen=True, eq=False)
class Posture:
    """
    Gains of the posture, which acts in the nullspace of the tasks.

    Attributes
    ----------
    natural_frequency : float [rad/s]
        With 0, only the damping remains.
    damping_ratio : float
    damping : float [1/s]
        Least rate 2ζω, so that joints are damped also at a low natural frequency.

    Raises
    ------
    InputError
        A number is negative or not finite.

    """

    natural_frequency: float = 5.0
    damping_ratio: float = 1.0
    damping: float = 1.0

    def __post_init__(self) -> None:
        """Raise for negative and non-finite numbers."""
        for name in ('natural_frequency', 'damping_ratio', 'damping'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f'posture {name} {value}: accepted is 0 or more')


SET_POINT = Table(
    'PostureSetPoint',
    Slot('now', ('n',), 'rad, m', 'the set-point of the last tick'),
    Slot('wraps', ('n',), '', '1 for continuous joints: they take the shorter way'),
    Slot('wanted', ('n',), 'rad, m', 'the goal'),
    Slot('offset', ('n',), 'rad, m', 'from the goal to the set-point'),
    Slot('rate', ('n',), 'rad/s, m/s', 'of this offset'),
    Slot('is_moving', (1,), '', '1 while the set-point is not at the goal'))

_views, _now_views = SET_POINT.views, SET_POINT.only('now', 'wraps')


@kernel
def posture_acceleration(q, qd, posture, gains, table, qdd):
    """
    Write the accelerations towards a posture, and out of the soft zones of the joints.

    The speed of approach is at most the velocity limit.

    Parameters
    ----------
    q, qd : (n,)
    posture : flat array
        Record of SET_POINT.
    gains : (3,) [rad/s; 1/s; rad/s]
        Natural frequency ω and damping rate 2ζω; natural frequency of the push out of the soft
        zones.
    table : (8, n)
        See `Limits.table`.
    qdd : (n,), written

    """
    at, frequency, rate, push = _now_views(posture, len(q)), gains[0], gains[1], gains[2]
    for i in range(len(q)):
        away, fastest, zone = at.now[i] - q[i], table[SPEED, i], table[ZONE, i]
        if at.wraps[i] > 0.0:
            away = (away + np.pi) % (2.0 * np.pi) - np.pi
        if rate == 0.0:
            qdd[i] = frequency * frequency * away
        else:
            approach = min(max(frequency * frequency / rate * away, -fastest), fastest)
            qdd[i] = rate * (approach - qd[i])
        if zone > 0.0:
            for side in range(2):
                distance = table[UPPER, i] - q[i] if side else q[i] - table[LOWER, i]
                depth = min(max(1.0 - distance / zone, 0.0), 1.0)
                pushed = push * push * zone * depth * depth
                qdd[i] += -pushed if side else pushed


@inlined
def advance_posture(record, n, blend_time, dt):
    """
    Advance a set-point by dt [s]; it arrives at its goal within `blend_time` [s].

    Its offset from the goal decays to 0 as an exactly solved, critically damped second-order
    system: C¹, and 1 % of an initial offset remains after `blend_time`.

    """
    at, is_moving, pace = _views(record, n), False, SETTLED / blend_time
    if at.is_moving[0] == 0.0:
        return
    decay = np.exp(-pace * dt)
    for i in range(n):
        bend = at.rate[i] + pace * at.offset[i]
        at.offset[i] = decay * (at.offset[i] + dt * bend)
        at.rate[i] = decay * (at.rate[i] - pace * dt * bend)
        is_moving = is_moving or np.abs(at.offset[i]) > ARRIVED
    for i in range(n):
        if not is_moving:
            at.offset[i] = at.rate[i] = 0.0
        at.now[i] = at.wanted[i] + at.offset[i]
    at.is_moving[0] = 1.0 if is_moving else 0.0


class PostureSetPoint(Recorded):
    """Set-point of the joint positions, which moves smoothly from q (n,) to its goal."""

    TABLES = SET_POINT,

    def __init__(self, robot: Robot, q: Array) -> None:
        super().__init__(robot.n)
        self.views[0].wraps[:] = continuous_joints(robot)
        self.hold(q)

    @property
    def wanted(self) -> Array:
        """Goal (n,)."""
        return np.array(self.views[0].wanted)

    @property
    def now(self) -> Array:
        """Set-point (n,) of the last tick."""
        return np.asarray(self.views[0].now)

    @property
    def wraps(self) -> Array:
        """1 for continuous joints, whose set-point takes the shorter way (n,)."""
        return np.asarray(self.views[0].wraps)

    def copied(self) -> PostureSetPoint:
        """Return an independent copy."""
        found = copy(self)
        found.records = tuple(one.copy() for one in self.records)
        found._connect()
        return found

    def hold(self, q: Array) -> None:
        """Set both the goal and the set-point to q (n,), at rest."""
        [at] = self.views
        at.wanted[:], at.now[:], at.offset[:], at.rate[:], at.is_moving[0] = q, q, 0.0, 0.0, 0.0

    def set_goal(self, posture: ArrayLike, robot: Robot) -> None:
        """
        Set another goal (n,); the set-point moves there from its present value.

        InputError if the shape does not fit, or a position is outside the joint's limits.

        """
        wanted = np.array(posture, dtype=np.float64)
        if wanted.shape != self.now.shape or not np.isfinite(wanted).all():
            raise InputError(f'posture {wanted.tolist()}: accepted are {robot.n} finite joint '
                             'positions')
        lower, upper = robot.position_limits.T
        for i in np.flatnonzero((wanted < lower) | (wanted > upper)).tolist():
            raise InputError(f"posture of joint '{robot.joint_names[i]}' is {wanted[i]:g}: "
                             f'accepted is {lower[i]:g} to {upper[i]:g}')
        self.set_goal_unchecked(wanted)

    def set_goal_unchecked(self, wanted: Array) -> None:
        """Set the goal (n,) without checks."""
        [at] = self.views
        away = at.wanted + at.offset - wanted
        turns = np.round(away / (2.0 * np.pi)) * (2.0 * np.pi)
        at.wanted[:], at.offset[:] = wanted, away - at.wraps * turns
        at.now[:], at.is_moving[0] = at.wanted + at.offset, 1.0
