"""Reference velocity of the joints: their velocity if every task followed its target."""

from __future__ import annotations

from collections.abc import Sequence
import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.level import Level
from osc_ros.control.limits import SPEED
from osc_ros.control.posture import posture_acceleration, PostureSetPoint
from osc_ros.control.task import Gains
from osc_ros.dynamics.compiled import kernel
from osc_ros.dynamics.level_map import subtract_velocity
from osc_ros.dynamics.method import Method
from osc_ros.dynamics.priority import forces_for, opened, Priorities, velocity_wanted
from osc_ros.dynamics.trees.articulated import Articulated

Array = NDArray[np.float64]

PAUSE = 0.1  # longest tick; after a longer interval the motion is not integrated [s]
# Time constant [s] with which a long interval between two ticks is forgotten: a loop that was
# interrupted a moment ago will be interrupted again.
MEMORY = 5.0


@kernel
def _put_forces(integers, numbers, count, q, dt, posture, wraps, frequency, damping, push, table,
                J, memory, motion, forces):
    """
    Integrate the nullspace motion for a tick; write the forces (6 m,) for the tasks' velocities.

    The memory (n + 12 k,) stores the previous velocity, and buffers for the tasks' velocities.

    """
    room = opened(integers, numbers)
    velocity, n, size = motion[0], len(q), 6 * len(room.rows)
    before, r, parts = memory[:n], memory[n:n + size], memory[n + size:n + 2 * size]
    ticks = 0.0 < dt <= PAUSE
    if ticks:
        posture_acceleration(q, velocity, posture, wraps, table, frequency, damping, push, before)
    for j in range(n):
        change = dt * before[j] if ticks else 0.0
        before[j] = velocity[j]
        velocity[j] += change
    for i in range(len(room.rows)):
        own, link = 6 * i, 6 * room.at[i]
        velocity_wanted(room.rows[i], parts, r, own)
        for a in range(6):
            parts[a] = 0.0
            for j in range(n):
                parts[a] += J[link + a, j] * velocity[j]
        subtract_velocity(room.rows[i], parts, r, own)
    forces_for(room, count, r, parts, forces)


@kernel
def _put_motion(integers, dt, change, table, mobility, rates, memory, motion):
    """
    Add the change (n,) to the velocity, within its limits, and compute the acceleration.

    Returns the highest rate of the velocity feedback [1/s].

    """
    velocity, acceleration, at = motion[0], motion[1], integers[3:]
    for j in range(len(velocity)):
        velocity[j] = min(max(velocity[j] + change[j], -table[SPEED, j]), table[SPEED, j])
        if 0.0 < dt <= PAUSE:
            acceleration[j] = (velocity[j] - memory[j]) / dt
        elif dt != 0.0:
            acceleration[j] = 0.0
    highest = 0.0
    for i in range(len(rates)):
        highest = max(highest, rates[i, 6])
        for a in range(6):
            spring = 6 * at[i] + a
            highest = max(highest, rates[i, a] * np.sqrt(mobility[spring, spring]))
    return highest


class Reference:
    """
    Reference velocity and acceleration of the joints, independent of the measured velocity.

    The nullspace motion is integrated from the posture's law. Then the velocities of the tasks'
    links are set to those of their targets with the least change in kinetic energy (Gauss), in the
    order of priority. Control of singular directions fades out as in the law, with the factors of
    its last solve. Of the measured state only the positions are used, in the Jacobian and in the
    posture's error.

    Attributes
    ----------
    motion : (2, n) [rad/s], [rad/s²]
        Velocity and acceleration; overwritten by the next `advance`.
    model : (n,) [N·m]
        Torques of this acceleration at the measured state, including C and G.
    tick : float [s]
        Longest of the latest intervals between two ticks, forgotten with `MEMORY`.
    rate : float [1/s]
        Highest rate of the velocity feedback of the tasks.

    Parameters
    ----------
    levels : sequence of Level
        Highest priority first.
    dynamics : Method
        Dynamics of the last tick; the solver, J and the table are of the same tick.
    model : Articulated
        Model of the same robot.
    solver : Priorities
    J : (6 m, n)
    table : (8, n)
        Table of `Limits`; the motion is within their velocity limits.

    """

    def __init__(self, levels: Sequence[Level], dynamics: Method, model: Articulated,
                 solver: Priorities, J: Array, table: Array) -> None:
        n = model.robot.n
        self.motion: Array = np.zeros((2, n))
        self.model: Array = np.zeros(n)
        self._dynamics, self._model, self._solver = dynamics, model, solver
        self._J, self._table = J, table
        self._memory = np.zeros(n + 12 * len(levels))
        self._rest, self._change, self._forces = np.zeros(n), np.zeros(n), np.zeros(len(J))
        self._rates = np.array([_feedback_rates(level) for level in levels])
        self.forget()

    def forget(self) -> None:
        """Reset the motion to rest."""
        self.motion[:] = 0.0
        self.rate, self.tick, self._time = 0.0, 0.0, -math.inf

    def go_on_as(self, before: Reference) -> None:
        """Copy the motion of the previous reference."""
        self.motion[:] = before.motion
        self.tick, self._time = before.tick, before._time

    def advance(self, time: float, q: Array, qd: Array, posture: PostureSetPoint,
                posture_gains: tuple[float, float, float]) -> None:
        """
        Advance the motion to a time [s], after the tasks were solved for this state.

        Parameters
        ----------
        q, qd : (n,)
        posture, posture_gains
            See `osc_ros.control.posture.posture_acceleration`.

        """
        dt, arrays = time - self._time, self._solver.arrays
        _put_forces(*arrays, self._solver.solves, q, dt, posture.now, posture.wraps,
                    *posture_gains, self._table, self._J, self._memory, self.motion, self._forces)
        self._dynamics.acceleration_response(self._rest, self._forces, self._change)
        self.rate = _put_motion(arrays[0], dt, self._change, self._table,
                                self._dynamics.Lambda_inv, self._rates, self._memory, self.motion)
        self.model = self._model.inverse_dynamics(q, qd, self.motion[1])
        if 0.0 < dt < math.inf:
            dt = min(dt, PAUSE)
            self.tick = max(dt, self.tick + (dt - self.tick) * dt / MEMORY)
        self._time = time


def _feedback_rates(level: Level) -> list[float]:
    """
    Rates (7,) of a level's velocity feedback: of its spring by axis, and the highest other rate.

    The rates of the spring are for a mobility of 1; they scale with the root of the mobility.

    """
    gains = level.task.gains
    spring = (np.zeros(6) if isinstance(gains, Gains) else
              2.0 * gains.damping_ratio * np.sqrt(gains.stiffness))
    return [*spring.tolist(), level.rate]
