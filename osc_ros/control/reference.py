"""The velocity that the joints would have if every task followed its target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.level import Level
from osc_ros.control.limits import SPEED
from osc_ros.control.task import Gains
from osc_ros.dynamics import priority
from osc_ros.dynamics.priority import Priorities
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.dynamics.tree import Articulated

Array = NDArray[np.float64]

PAUSE = 0.1  # a longer tick is no tick: the motion begins anew [s]


class Reference:
    """
    Velocity and acceleration of the joints without what the state adds to them by itself.

    The null-space motion is integrated from the posture's law, then the velocities of the tasks'
    links are set to those of their targets, by the least change in kinetic energy (Gauss), in the
    order of priority, and with singular directions given up, as the law does with accelerations.
    Of the measured state only the positions enter, in the Jacobian and in the posture's error.

    Attributes
    ----------
    velocity, acceleration : (n,) [rad/s], [rad/s²]
    tick : float [s]
        Time between the last two different times.

    Parameters
    ----------
    at : sequence of int
        Which link each level belongs to.
    links, n : int
        Number of links with a task, of joints.

    """

    def __init__(self, at: Sequence[int], links: int, n: int) -> None:
        self._solver = Priorities(at, links, n)
        self._rest = np.zeros(n)
        self.forget()

    def forget(self) -> None:
        """Begin at rest."""
        self.velocity = self.acceleration = self._rest
        self.tick, self._time = 0.0, -math.inf

    def go_on_as(self, before: Reference) -> None:
        """Take over the motion of the one before."""
        self.velocity, self.acceleration = before.velocity, before.acceleration
        self.tick, self._time = before.tick, before._time

    def advance(self, time: float, q: Array, rows: Array, levels: Sequence[Level], J: Array,
                Lambda_inv: Array, damping: SingularityDamping, dynamics: Articulated,
                table: Array, posture: Callable[[Array, Array], Array]) -> None:
        """
        Bring the motion to a time [s].

        Parameters
        ----------
        q : (n,)
        rows : (k, WIDTH)
            What the levels ask for now, see `osc_ros.dynamics.priority`.
        levels : sequence of Level
        J, Lambda_inv : (6 m, n), (6 m, 6 m)
        damping : SingularityDamping
        dynamics : Articulated
        table : (8, n)
            Of `Limits`: no joint is asked to be faster.
        posture : callable
            Acceleration (n,) of the posture for q, q̇.

        """
        dt = time - self._time
        ticks = 0.0 < dt <= PAUSE
        before = self.velocity
        velocity = before + dt * posture(q, before) if ticks else before
        wanted = self._solver.rows
        wanted[:, :priority.U] = rows[:, :priority.U]
        wanted[:, priority.FRAME:] = rows[:, priority.FRAME:]
        for level, row in zip(levels, wanted):
            axes = row[priority.FRAME:].reshape(3, 3)
            twist = level.target.twist
            row[priority.U:priority.U + 3] = twist[:3] @ axes
            row[priority.U + 3:priority.U + 6] = twist[3:] @ axes
            row[priority.U:priority.U + 6] *= level.moves
        F = self._solver.solve(J, Lambda_inv, J @ velocity, damping)
        velocity = velocity + dynamics.response(q, self._rest, F)
        most = table[SPEED]
        self.velocity = np.minimum(np.maximum(velocity, -most), most)
        if ticks:
            self.acceleration, self.tick = (self.velocity - before) / dt, dt
        elif dt != 0.0:
            self.acceleration = self._rest
        self._time = time


def feedback_rate(levels: Sequence[Level], Lambda_inv: Array, at: Sequence[int]) -> float:
    """
    Highest rate of the velocity feedback of the levels [1/s].

    Parameters
    ----------
    levels : sequence of Level
    Lambda_inv : (6 m, 6 m)
        Of the links, for springs: their rate depends on the inertia.
    at : sequence of int
        Which link each level belongs to.

    """
    rate = 0.0
    for level, i in zip(levels, at):
        rate = max(rate, level.rate)
        if not isinstance(level.task.gains, Gains):
            mobility = np.diagonal(Lambda_inv)[6 * i:6 * i + 6]
            rate = max(rate, float((level.task.gains.damping_ratio * 2.0 * np.sqrt(
                level.task.gains.stiffness * mobility)).max()))
    return rate
