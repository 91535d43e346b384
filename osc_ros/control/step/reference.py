# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Reference velocity of the joints: their velocity if every task followed its target."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, plain, view
from osc_ros.control.limits.limits import SPEED
from osc_ros.control.setpoint.level import Level
from osc_ros.control.setpoint.posture import posture_acceleration
from osc_ros.control.tasks.task import Gains
from osc_ros.dynamics.priority.level_map import subtract_velocity
from osc_ros.dynamics.priority.priority import forces_for, velocity_wanted

Array = NDArray[np.float64]

PAUSE = 0.1  # longest tick; after a longer interval the motion is not integrated [s]
# Time constant [s] with which `Memory.clock[1]` decays after a long interval between two ticks. A
# loop that was interrupted recently may be interrupted again.
MEMORY = 5.0


class Memory(NamedTuple):
    """
    Views into `Reference.numbers`, for k tasks on m links and n joints.

    - motion (3, n): see `Reference`
    - buffer (n + 12 k,): the previous velocity, then memory for the tasks' velocities
    - change (n,): change of the velocity by the tasks [rad/s]
    - rest (n,): zeros, never written
    - forces (6 m,): forces on the links that would cause `change` if it were an acceleration
    - rates (k, 7): see `_feedback_rates`
    - rate (1,): highest rate of the velocity feedback of the tasks [1/s]
    - clock (2,): time of the last tick [s], and the longest of the latest intervals between ticks
      [s], which decays at 1 / MEMORY

    """

    motion: Array
    buffer: Array
    change: Array
    rest: Array
    forces: Array
    rates: Array
    rate: Array
    clock: Array


@inlined
def memory_in(integers, numbers):
    """Return `Memory`, views into `numbers`; `integers` are those of `Priorities`."""
    k, m, n = integers[0], integers[1], integers[2]
    i = 3 * n
    buffer, i = numbers[i:i + n + 12 * k], i + n + 12 * k
    change, rest, i = numbers[i:i + n], numbers[i + n:i + 2 * n], i + 2 * n
    forces, i = numbers[i:i + 6 * m], i + 6 * m
    return Memory(view(numbers, 0, (3, n)), buffer, change, rest, forces,
                  view(numbers, i, (k, 7)), numbers[i + 7 * k:i + 7 * k + 1],
                  numbers[i + 7 * k + 1:i + 7 * k + 3])


def reference_size(k: int, m: int, n: int) -> int:
    """Length of `Reference.numbers`, for k tasks on m links and n joints."""
    return 6 * n + 12 * k + 6 * m + 7 * k + 3


@inlined
def integrate(at, q, dt, posture, gains, table):
    """Integrate the nullspace motion in a `Memory` over dt [s]; see `posture_acceleration`."""
    n, velocity, ticks = len(q), at.motion[0], 0.0 < dt <= PAUSE
    before = at.buffer[:n]
    if ticks:
        posture_acceleration(q, velocity, posture, gains, table, before)
    for j in range(n):
        change = dt * before[j] if ticks else 0.0
        before[j] = velocity[j]
        velocity[j] += change


@inlined
def put_forces(at, room, count, J):
    """
    Write the forces that set the tasks' velocities to those of their targets.

    The forces (6 m,) on the m links change the velocities of the tasks' coordinates, as if
    velocities were accelerations. `at` is the `Memory`; `room` and `count` are the memory and the
    number of the solves, see `Priorities`; J is (6 m, n).

    """
    velocity, size = at.motion[0], 6 * len(room.rows)
    n = len(velocity)
    r, parts = at.buffer[n:n + size], at.buffer[n + size:n + 2 * size]
    for i in range(len(room.rows)):
        own, link = 6 * i, 6 * room.at[i]
        velocity_wanted(room.rows[i], parts, r, own)
        for a in range(6):
            parts[a] = 0.0
            for j in range(n):
                parts[a] += J[link + a, j] * velocity[j]
        subtract_velocity(room.rows[i], parts, r, own)
    forces_for(room, count, r, parts, at.forces)


@inlined
def note_tick(clock, time):
    """Record the time [s] of a tick in which the motion was advanced; see `Memory.clock`."""
    dt = time - clock[0]
    if 0.0 < dt < np.inf:
        dt = min(dt, PAUSE)
        clock[1] = max(dt, clock[1] + (dt - clock[1]) * dt / MEMORY)
    clock[0] = time


@inlined
def put_motion(at, integers, dt, table, mobility):
    """
    Add `change` to the reference velocity, clip it to the velocity limits, and differentiate.

    Also write the highest rate of the velocity feedback. `at` is the `Memory`, `mobility`
    (6 m, 6 m) is Λ⁻¹.

    """
    velocity, acceleration = at.motion[0], at.motion[1]
    for j in range(len(velocity)):
        velocity[j] = min(max(velocity[j] + at.change[j], -table[SPEED, j]), table[SPEED, j])
        if 0.0 < dt <= PAUSE:
            acceleration[j] = (velocity[j] - at.buffer[j]) / dt
        elif dt != 0.0:
            acceleration[j] = 0.0
    highest = 0.0
    for i in range(len(at.rates)):
        highest = max(highest, at.rates[i, 6])
        for a in range(6):
            spring = 6 * integers[3 + i] + a
            highest = max(highest, at.rates[i, a] * np.sqrt(mobility[spring, spring]))
    at.rate[0] = highest


class Reference:
    """
    Reference velocity and acceleration of the joints, independent of the measured velocity.

    The nullspace motion is integrated from the posture's law. Then the velocities of the tasks'
    links are set to those of their targets with the least change in kinetic energy (Gauss), in the
    order of priority. Control of singular directions fades out as in the law, with the factors of
    its last solve. Only the positions of the measured state are used, in the Jacobian and in the
    posture's error.

    Attributes
    ----------
    motion : (3, n) [rad/s], [rad/s²], [N·m]
        Velocity and acceleration, and the torques of the model for this acceleration at the
        measured state, including C and G; overwritten at the next tick.
    numbers : array
        All numbers of the reference, for kernels: see `Memory`.
    rates : (k, 7)
        See `_feedback_rates`; may be changed.

    Parameters
    ----------
    levels : sequence of Level
        Highest priority first.
    integers, numbers : arrays
        Integers of `Priorities`; zeros of length `reference_size`, to be used as memory.

    """

    def __init__(self, levels: Sequence[Level], integers: Array, numbers: Array) -> None:
        self.numbers = numbers
        self._memory = Memory(*plain(memory_in)(integers, numbers))
        self.motion: Array = self._memory.motion
        self._memory.rates[:] = [_feedback_rates(level) for level in levels]
        self.rates: Array = self._memory.rates
        self.forget()

    def forget(self) -> None:
        """Reset the motion to rest."""
        self.motion[:] = 0.0
        self._memory.clock[:] = -math.inf, 0.0

    def go_on_as(self, before: Reference) -> None:
        self.motion[:] = before.motion
        self._memory.clock[:] = before._memory.clock


def _feedback_rates(level: Level) -> list[float]:
    """
    Return seven numbers for the velocity feedback of a task: one for each axis, and a rate.

    The first six are 2 ζ √stiffness of a spring, or 0 without a spring: along an axis with the
    mobility m (1 / inertia) the spring's velocity feedback has the rate 2 ζ √(stiffness · m)
    [1/s]. The seventh number is the highest of all other rates of the task [1/s].

    """
    gains = level.task.gains
    spring = (np.zeros(6) if isinstance(gains, Gains) else
              2.0 * gains.damping_ratio * np.sqrt(gains.stiffness))
    return [*spring.tolist(), level.rate]
