# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The posture: set-point of the joint positions, and the acceleration towards it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.fade import settling
from osc_ros.control.limits import LOWER, SPEED, UPPER, ZONE
from osc_ros.dynamics.compiled import kernel
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

ARRIVED = 1e-9  # nearer than this the set-point has reached its goal [rad, m]


@dataclass(frozen=True, eq=False)
class Posture:
    """
    Gains of the posture, which acts in the nullspace of the tasks.

    Attributes
    ----------
    natural_frequency : float [rad/s]
        0 leaves only the damping.
    damping_ratio : float
    damping : float [1/s]
        Least rate 2ζω, so that joints are damped where the natural frequency is low.

    Raises
    ------
    InputError
        A number that is negative or not finite.

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


@kernel
def posture_acceleration(q, qd, posture, wraps, table, frequency, rate, push, qdd):
    """
    Write the accelerations towards a posture, and out of the soft zones of the joints.

    Parameters
    ----------
    q, qd, posture : (n,)
    wraps : (n,)
        1 for continuous joints: they take the shorter way.
    table : (8, n)
        See `Limits.table`. The speed of approach is at most the velocity limit.
    frequency, rate : float [rad/s], [1/s]
        Natural frequency ω and damping rate 2ζω.
    push : float [rad/s]
        Natural frequency of the push out of the soft zones.
    qdd : (n,), written

    """
    for i in range(len(q)):
        away, fastest, zone = posture[i] - q[i], table[SPEED, i], table[ZONE, i]
        if wraps[i] > 0.0:
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


class PostureSetPoint:
    """
    Set-point of the joint positions, which moves smoothly to its goal.

    Attributes
    ----------
    wanted : (n,)
        The goal.
    numbers : (2, n)
        What the kernels take: `now` and `wraps`.
    now : (n,)
        The set-point of the last tick.
    wraps : (n,)
        1 for continuous joints: their set-point takes the shorter way.
    is_moving : bool
        Whether the set-point is not yet at the goal.

    Parameters
    ----------
    robot : Robot
    q : (n,)
        The first set-point.

    """

    def __init__(self, robot: Robot, q: Array) -> None:
        self.numbers = np.zeros((2, robot.n))
        self.wraps[:] = ~(np.isfinite(robot.position_limits).any(axis=1) | robot.prismatic)
        self.latch(q)

    @property
    def now(self) -> Array:
        """The set-point (n,) of the last tick."""
        return np.asarray(self.numbers[0])

    @property
    def wraps(self) -> Array:
        """Which joints are continuous (n,)."""
        return np.asarray(self.numbers[1])

    def copied(self) -> PostureSetPoint:
        """Return a set-point that goes on by itself."""
        other = copy(self)
        other.numbers = self.numbers.copy()
        return other

    def latch(self, q: Array) -> None:
        """Set both the goal and the set-point to q (n,), at rest."""
        self.wanted, self.now[:] = q, q
        self._offset, self._rate = np.zeros(len(q)), np.zeros(len(q))
        self.is_moving = False

    def take(self, posture: ArrayLike, robot: Robot) -> None:
        """
        Set another goal (n,); the set-point moves there from its present value.

        Raises
        ------
        InputError
            A shape that does not fit, or a position outside the joint's limits.

        """
        wanted = np.array(posture, dtype=np.float64)
        if wanted.shape != self.wanted.shape or not np.isfinite(wanted).all():
            raise InputError(f'posture {wanted.tolist()}: accepted are {robot.n} finite joint '
                             'positions')
        lower, upper = robot.position_limits.T
        for i in np.flatnonzero((wanted < lower) | (wanted > upper)).tolist():
            raise InputError(f"posture of joint '{robot.joint_names[i]}' is {wanted[i]:g}: "
                             f'accepted is {lower[i]:g} to {upper[i]:g}')
        self.lead_to(wanted)

    def lead_to(self, wanted: Array) -> None:
        """Set the goal (n,) without checks."""
        away = self.wanted + self._offset - wanted
        turns = np.round(away / (2.0 * np.pi)) * (2.0 * np.pi)
        self.wanted, self._offset = wanted, away - self.wraps * turns
        self.now[:], self.is_moving = wanted + self._offset, True

    def advance(self, dt: float, blend_time: float) -> None:
        """Advance the set-point by dt [s]; it arrives at its goal within `blend_time` [s]."""
        self._offset, self._rate = settling(self._offset, self._rate, blend_time, dt)
        self.is_moving = bool((np.abs(self._offset) > ARRIVED).any())
        if not self.is_moving:
            self._offset, self._rate = np.zeros_like(self._offset), np.zeros_like(self._rate)
        self.now[:] = self.wanted + self._offset
