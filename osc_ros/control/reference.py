"""The velocity that the joints would have if every task followed its target."""

from __future__ import annotations

from collections.abc import Sequence
import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.level import Level
from osc_ros.control.limits import SPEED
from osc_ros.control.posture import posture_acceleration
from osc_ros.control.task import Gains
from osc_ros.dynamics.compiled import kernel
from osc_ros.dynamics.priority import forces_for, Priorities, velocity_wanted
from osc_ros.dynamics.trees.tree import (
    Articulated,
    articulated,
    located,
    opened,
    opened_room,
    responded,
    torques_for,
)

Array = NDArray[np.float64]

PAUSE = 0.1  # a longer tick is no tick: the motion begins anew [s]


@kernel
def _advance(integers, numbers, room, q, qd, dt, posture, wraps, frequency, damping, push, table,
              at, W, inertias, count, rows, J, mobility, rates, memory, motion, model):
    """
    Bring the motion (2, n) to the next tick, and put the torques that it takes into model (n,).

    Returns the highest rate of the velocity feedback [1/s].

    """
    tree, bodies, tips, ends, gravity, rotors, _, _, _, _, _ = opened(integers, numbers)
    (work, _, _, _, rest, change, _, _), (_, _, _, _, F) = opened_room(integers, room)
    velocity, acceleration = motion[0], motion[1]
    n, size = len(q), 6 * len(rows)
    before, r, parts = memory[:n], memory[n:n + size], memory[n + size:n + 2 * size]
    ticks = 0.0 < dt <= PAUSE
    if ticks:
        posture_acceleration(q, velocity, posture, wraps, table, frequency, damping, push, change)
    for j in range(n):
        before[j] = velocity[j]
        if ticks:
            velocity[j] += dt * change[j]
    for i in range(len(rows)):
        own, link = 6 * i, 6 * at[i]
        velocity_wanted(rows[i], parts, r, own)
        for a in range(6):
            for j in range(n):
                r[own + a] -= J[link + a, j] * velocity[j]
    forces_for(at, W, inertias, count, r, parts, F)
    located(tree, bodies, q, qd, work)
    articulated(tree, bodies, rotors, work)
    responded(tree, tips, ends, gravity, rest, F, True, work, change)
    for j in range(n):
        velocity[j] = min(max(velocity[j] + change[j], -table[SPEED, j]), table[SPEED, j])
        if ticks:
            acceleration[j] = (velocity[j] - before[j]) / dt
        elif dt != 0.0:
            acceleration[j] = 0.0
    torques_for(tree, bodies, gravity, rotors, acceleration, work, model)
    highest = 0.0
    for i in range(len(rates)):
        highest = max(highest, rates[i, 6])
        for a in range(6):
            spring = 6 * at[i] + a
            highest = max(highest, rates[i, a] * np.sqrt(mobility[spring, spring]))
    return highest


class Reference:
    """
    Velocity and acceleration of the joints without what the state adds to them by itself.

    The null-space motion is integrated from the posture's law, then the velocities of the tasks'
    links are set to those of their targets, by the least change in kinetic energy (Gauss), in the
    order of priority, and with singular directions given up, as the law does with accelerations:
    by the factors of its last solve. Of the measured state only the positions enter, in the
    Jacobian and in the posture's error.

    Attributes
    ----------
    motion : (2, n) [rad/s], [rad/s²]
        Velocity and acceleration; written over by the next `advance`.
    model : (n,) [N·m]
        Torques of this acceleration at the measured state, with C and G.
    tick : float [s]
        Time between the last two different times.
    rate : float [1/s]
        Highest rate of the velocity feedback of the tasks.

    Parameters
    ----------
    levels : sequence of Level
        Highest priority first.
    n : int
        Number of joints.

    """

    def __init__(self, levels: Sequence[Level], n: int) -> None:
        self.motion: Array = np.zeros((2, n))
        self.model: Array = np.zeros(n)
        self._memory = np.zeros(n + 12 * len(levels))
        self._rates = np.array([_feedback_rates(level) for level in levels])
        self.forget()

    def forget(self) -> None:
        """Begin at rest."""
        self.motion[:] = 0.0
        self.rate, self.tick, self._time = 0.0, 0.0, -math.inf

    def go_on_as(self, before: Reference) -> None:
        """Take over the motion of the one before."""
        self.motion[:] = before.motion
        self.tick, self._time = before.tick, before._time

    def advance(self, time: float, q: Array, qd: Array, J: Array, Lambda_inv: Array,
                solver: Priorities, dynamics: Articulated, table: Array, posture: Array,
                wraps: NDArray[np.bool_], posture_gains: tuple[float, float, float]) -> None:
        """
        Bring the motion to a time [s].

        Parameters
        ----------
        q, qd : (n,)
        J, Lambda_inv : (6 m, n), (6 m, 6 m)
        solver : Priorities
            That has just solved for this state.
        dynamics : Articulated
        table : (8, n)
            Of `Limits`: no joint is asked to be faster.
        posture, wraps, posture_gains
            See `osc_ros.control.posture.posture_acceleration`.

        """
        dt = time - self._time
        self.rate = _advance(*dynamics.arrays, q, qd, dt, posture, wraps, *posture_gains, table,
                              *solver.factors(), solver.rows, J, Lambda_inv, self._rates,
                              self._memory, self.motion, self.model)
        if 0.0 < dt <= PAUSE:
            self.tick = dt
        self._time = time


def _feedback_rates(level: Level) -> list[float]:
    """
    Rates of a level's velocity feedback (7,): of its spring, by axis, and the others' highest.

    Those of the spring are for a mobility of 1: they grow with its root.

    """
    gains = level.task.gains
    spring = (np.zeros(6) if isinstance(gains, Gains) else
              2.0 * gains.damping_ratio * np.sqrt(gains.stiffness))
    return [*spring.tolist(), level.rate]
