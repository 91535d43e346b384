# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Variable impedance: stiffness, damping ratio and force of a spring, streamed while it acts.

The values approach the commanded ones behind two first-order low-pass filters in series, so they
are C¹ and never leave the range of the commands. A rising stiffness does work on the arm: a spring
with the error e gains ½ eᵀ ΔK e from nowhere. An energy tank pays for it, after F. Ferraguti,
C. Secchi, C. Fantuzzi, "A tank-based approach to impedance control with variable stiffness", ICRA
2013; the valve that closes as the tank runs empty is that of M. Franken, S. Stramigioli,
S. Misra, C. Secchi, A. Macchelli, "Bilateral telemanipulation with time delays: a two-layer
approach combining passivity and transparency", IEEE Trans. Robotics 27 (2011):

    tank += share of the energy that the damper dissipates + energy that a falling stiffness frees
    tank -= energy that a rising stiffness needs;  0 ≤ tank ≤ capacity

If the tank cannot pay, the stiffness waits, or rises more slowly. So the energy that changes of
the stiffness have ever added is at most the capacity plus the dissipated energy, for any signal.

Kronander and Billard, "Stability considerations for variable impedance control", IEEE Trans.
Robotics 32 (2016), bound the rate of the stiffness by a rule without state. It needs a constant
inertia and slows the stiffness also where the error is zero; the tank does neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.bandwidth import largest_natural_frequency
from osc_ros.control.task_numbers import AXES, GAIN, MOVES, RATIO, SHAPE, TASK_WIDTH
from osc_ros.dynamics import level_row
from osc_ros.dynamics.compiled import kernel, view
from osc_ros.errors import InputError

Array = NDArray[np.float64]

SOFTEST, STIFFEST = 1e-3, 1e6  # range of a stiffness; 0 counts as SOFTEST [N/m, N·m/rad]
LEAST_RATIO, LARGEST_RATIO = 1e-2, 1e2  # range of a damping ratio
STORED = 0.9  # share of the dissipated energy that the tank takes
VALVE = 0.25  # share of the capacity below which the valve closes
LONGEST_TICK = 0.02  # longest time for which a tick advances the filters [s]
_SETTLED = 6.64  # ω t after which 1 % of a step remains behind both filters
_RATIOS: Array = np.geomspace(LEAST_RATIO, LARGEST_RATIO, 100)
# Rows of `VariableImpedance.state`: first filter of stiffness, damping ratio and wrench, then the
# values in force, then energies [J]: tank, energy added by rises, energy freed by falls,
# dissipated energy; and the share of the commanded stiffness that the loop can carry. The last
# row is working memory.
_FIRST, _NOW, _ENERGY = 0, 3, 6
TANK, ADDED, FREED, DISSIPATED, CARRIED = range(5)


@dataclass(frozen=True, eq=False)
class Impedance:
    """
    Commanded impedance of a task, per axis of its frame, [angular; linear].

    Attributes
    ----------
    stiffness : (6,) [N·m/rad, N/m]
        0 or more; at most STIFFEST.
    damping_ratio : (6,), optional
        LEAST_RATIO to LARGEST_RATIO; 1 is critical. Not given: unchanged.
    wrench : (6,), optional [N·m, N]
        Feedforward wrench by the robot on the environment. Not given: unchanged.
    stamp : float [s]
        An impedance with an earlier stamp than the last one is refused; not given: it is not.

    Raises
    ------
    InputError
        Not six finite numbers each, or a number out of its range.

    """

    stiffness: Array
    damping_ratio: Array | None = None
    wrench: Array | None = None
    stamp: float = -np.inf

    if TYPE_CHECKING:  # sequences are accepted; they become arrays
        def __init__(self, stiffness: ArrayLike, damping_ratio: ArrayLike | None = ...,
                     wrench: ArrayLike | None = ..., stamp: float = ...) -> None: ...

    def __post_init__(self) -> None:
        """Convert to arrays; refuse wrong shapes and numbers."""
        for name, least, most in (('stiffness', 0.0, STIFFEST),
                                  ('damping_ratio', LEAST_RATIO, LARGEST_RATIO),
                                  ('wrench', -np.inf, np.inf)):
            if (given := getattr(self, name)) is None and name != 'stiffness':
                continue
            value = np.array(given, dtype=np.float64)
            if value.shape != (6,) or not np.isfinite(value).all():
                raise InputError(f'{name} {value.tolist()}: accepted are six finite numbers')
            if not ((value >= least) & (value <= most)).all():
                raise InputError(f'{name} {value.tolist()}: accepted is {least:g} to {most:g}')
            object.__setattr__(self, name, value)


@kernel
def _advance(dt, pace, capacity, fastest, mobility, wanted, task, row, state):
    """
    Advance the impedance by dt [s], and write it to the rows of the task.

    Parameters
    ----------
    dt : float [s]
    pace : float [1/s]
        Rate of both filters.
    capacity : float [J]
        May be infinite: then nothing is limited.
    fastest : float [1/s²]
        Square of the largest natural frequency that the loop carries.
    mobility : (6, 6)
        Λ⁻¹ of the link, base axes.
    wanted : (3, 6)
        Stiffness, damping ratio, wrench.
    task, row
        The task's row of numbers, and its row of `Priorities`, of the last tick.
    state : (8, 6), changed

    """
    shape = view(task, SHAPE, (6, 6))
    first, now, energy, before = state[:3], state[3:6], state[6], state[7]
    decay = np.exp(-pace * dt)
    # Sums of the squared natural frequencies of rotation and translation. The largest one of the
    # task is at most their sum, so each gets half of what the loop carries, or what is left.
    turning = moving = least = 0.0
    for i in range(6):
        half, k = 3 * (i // 3), i % 3
        along = 0.0
        for a in range(3):
            for b in range(3):
                along += (task[AXES + 3 * a + k] * mobility[half + a, half + b]
                          * task[AXES + 3 * b + k])
        least += shape[MOVES, i] * now[0, i] * along
        if i < 3:
            turning += shape[MOVES, i] * wanted[0, i] * along
        else:
            moving += shape[MOVES, i] * wanted[0, i] * along
    for_turning, for_moving = 1.0, 1.0
    if turning + moving > fastest:
        if turning > 0.5 * fastest:
            for_turning = max(fastest - moving, 0.5 * fastest) / turning
        if moving > 0.5 * fastest:
            for_moving = max(fastest - turning, 0.5 * fastest) / moving
    energy[4] = min(for_turning, for_moving)
    # Damper: D = 2 S √ζ V a^(-1/2) Vᵀ √ζ S with a ≤ `least`, so its power is at least this.
    power = 0.0
    for i in range(6):
        power += (row[level_row.WEIGHT + i] * row[level_row.RATE + i]) ** 2
    if least > 0.0:
        power *= min(1.0, np.sqrt(fastest / least)) / np.sqrt(least)
    energy[3] += power * dt
    cost = freed = 0.0
    for i in range(6):
        stiffness = before[i] = now[0, i]
        for r in range(3):
            goal = wanted[r, i]
            if r == 0:
                goal = max(goal * (for_turning if i < 3 else for_moving), SOFTEST)
            away = first[r, i] - goal
            first[r, i] = goal + decay * away
            now[r, i] = goal + decay * (now[r, i] - goal + pace * dt * away)
        e = row[level_row.SPRING + i] / stiffness
        ahead = e + dt * row[level_row.RATE + i]
        rise = 0.5 * shape[MOVES, i] * (now[0, i] - stiffness)
        if rise > 0.0:
            cost += rise * max(e * e, ahead * ahead)
        else:
            freed -= rise * min(e * e, ahead * ahead)
    energy[2] += freed
    energy[0] = min(energy[0] + freed + STORED * power * dt, capacity)
    share = 1.0
    if cost > 0.0 and capacity < np.inf:
        x = min(energy[0] / (VALVE * capacity), 1.0)
        share = min(x * x * (3.0 - 2.0 * x), energy[0] / cost)
    if capacity < np.inf:
        energy[0] -= share * cost
    energy[1] += share * cost
    for i in range(6):
        if now[0, i] > before[i]:
            now[0, i] = before[i] + share * (now[0, i] - before[i])
        shape[GAIN, i], shape[RATIO, i] = now[0, i], now[1, i]
        row[level_row.WRENCH + i] = shape[MOVES, i] * now[2, i]


@cache
def _carried() -> Array:
    """Largest stable ω T for each of `_RATIOS`."""
    return np.array([largest_natural_frequency(ratio, 1.0) for ratio in _RATIOS.tolist()])


class VariableImpedance:
    """
    The impedance in force of one task, from tick to tick.

    Attributes
    ----------
    state : (8, 6)
        Rows: see `_FIRST`.

    Parameters
    ----------
    stiffness, damping_ratio : (6,), (6,)
        The first values.
    blend_time : float
        Time after which 1 % of a step remains [s].
    capacity : float
        Of the energy tank, which begins full [J]; infinite: the stiffness follows every command.

    """

    def __init__(self, stiffness: Array, damping_ratio: Array, blend_time: float, capacity: float
                 ) -> None:
        values = np.array([np.maximum(stiffness, SOFTEST), damping_ratio, np.zeros(6)])
        self.state: Array = np.concatenate([values, values, np.zeros((2, 6))])
        self.state[_ENERGY, TANK], self.state[_ENERGY, CARRIED] = capacity, 1.0
        self._wanted = values
        self._pace, self._capacity = _SETTLED / blend_time, capacity
        self._time = self._stamp = -np.inf
        self._product: float = 0.0  # largest stable ω T of the damping ratios in force
        self._product_for: tuple[float, float] = 0.0, 0.0

    @property
    def now(self) -> Array:
        """Stiffness, damping ratio and wrench in force (3, 6)."""
        return np.asarray(self.state[_NOW:_ENERGY])

    @property
    def energy(self) -> Array:
        """Energies [J] at TANK, ADDED, FREED, DISSIPATED; at CARRIED a share (1)."""
        return np.asarray(self.state[_ENERGY])

    @property
    def source(self) -> str:
        """Text that says whether the tank slows rises of the stiffness."""
        waits = self.energy[TANK] < VALVE * self._capacity < np.inf
        return 'commands, which wait for energy' if waits else 'commands'

    def use(self, blend_time: float, capacity: float) -> None:
        """Use another blend time [s] and another capacity [J]; a full tank is full again."""
        if capacity != self._capacity:
            was_full = self.energy[TANK] == self._capacity
            self.energy[TANK] = capacity if was_full else min(self.energy[TANK], capacity)
        self._pace, self._capacity = _SETTLED / blend_time, capacity

    def command(self, impedance: Impedance) -> None:
        """
        Set the values to approach.

        Raises
        ------
        InputError
            Its stamp is earlier than the last one.

        """
        if -np.inf < impedance.stamp < self._stamp:
            raise InputError(f'its stamp, {impedance.stamp:.3f} s, is before that of the last '
                             f'one, {self._stamp:.3f} s')
        self._stamp = max(self._stamp, impedance.stamp)
        self._wanted[0] = impedance.stiffness
        for row, given in ((1, impedance.damping_ratio), (2, impedance.wrench)):
            if given is not None:
                self._wanted[row] = given

    def advance(self, time: float, period: float, mobility: Array, task: Array, row: Array
                ) -> None:
        """
        Advance to a time [s], and write the values to the rows of the task.

        Parameters
        ----------
        time : float
        period : float
            Period that bounds the gains [s].
        mobility : (6, 6)
            Λ⁻¹ of the link, base axes.
        task, row : (TASK_WIDTH,), (WIDTH,)
            The task's row of numbers, and its row of `Priorities`.

        """
        dt = min(max(time - self._time, 0.0), LONGEST_TICK) if self._time > -np.inf else 0.0
        self._time = time
        ratios = self.state[_NOW + 1]
        span = float(ratios.min()), float(ratios.max())
        if span != self._product_for:
            # the product rises to a maximum and falls, so the least one is at an end of the span
            self._product_for = span
            self._product = float(np.interp(span, _RATIOS, _carried()).min())
        fastest = (self._product / period) ** 2 if period > 0.0 else np.inf
        row[level_row.FASTEST] = fastest
        _advance(dt, self._pace, self._capacity, fastest, mobility, self._wanted, task, row,
                 self.state)


def rehearse() -> None:
    """Do everything once, so that the first command takes no longer than later ones."""
    task, row = np.zeros(TASK_WIDTH), np.zeros(level_row.WIDTH)
    spring = VariableImpedance(np.ones(6), np.ones(6), 1.0, 1.0)
    spring.advance(0.0, 1e-3, np.eye(6), task, row)
