# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Variable impedance: commands change stiffness, damping ratio and wrench of an acting spring.

The values approach the commanded ones behind two first-order low-pass filters in series, so they
are C¹ and never leave the range of the commands. A rising stiffness adds energy: ½ eᵀ ΔK e for an
error e of the spring. An energy tank pays for it, after F. Ferraguti, C. Secchi, C. Fantuzzi,
"A tank-based approach to impedance control with variable stiffness", ICRA 2013. The valve that
closes as the tank runs empty is that of M. Franken, S. Stramigioli, S. Misra, C. Secchi,
A. Macchelli, "Bilateral telemanipulation with time delays: a two-layer approach combining
passivity and transparency", IEEE Trans. Robotics 27 (2011):

    tank += STORED · energy dissipated by the damper + energy freed by a falling stiffness
    tank -= energy needed by a rising stiffness;  0 ≤ tank ≤ capacity

If the tank has too little energy, the stiffness waits or rises more slowly. So the energy added by
all changes of the stiffness is at most the capacity plus the dissipated energy, for any signal.

Kronander and Billard, "Stability considerations for variable impedance control", IEEE Trans.
Robotics 32 (2016), bound the rate of the stiffness by a rule without state. It needs a constant
inertia and slows the stiffness also where the error is zero; the tank does neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import inlined
from osc_ros.compile.record import Slot
from osc_ros.control.tasks.bandwidth import largest_natural_frequency
from osc_ros.control.tasks.task_numbers import AXES, GAIN, MOVES, RATIO, SHAPE
from osc_ros.dynamics.algebra.fade import LONGEST_TICK, SETTLED, smoothed
from osc_ros.dynamics.algebra.vectors import interval_of
from osc_ros.dynamics.priority import level_row
from osc_ros.errors import InputError

Array = NDArray[np.float64]

SOFTEST, STIFFEST = 1e-3, 1e6  # range of the stiffness; 0 is replaced by SOFTEST [N/m, N·m/rad]
LEAST_RATIO, LARGEST_RATIO = 1e-2, 1e2  # range of a damping ratio
STORED = 0.9  # fraction of the dissipated energy that is stored in the tank
VALVE = 0.25  # fraction of the capacity below which the valve closes
RATIOS = 100  # number of damping ratios in the table `carried`
STIFFNESS, DAMPING_RATIO, WRENCH = range(3)  # rows of a 3 × 6 slot
TANK, ADDED, FREED, DISSIPATED, CARRIED = range(5)  # entries of the slot `energy`

# slots of the plan and of the state of a task, see `osc_ros.control.tasks.task_reference`
COMMANDED = (
    Slot('is_commanded', (1,), '', '1 if an impedance was commanded'),
    Slot('impedance', (3, 6), 'N·m/rad, N/m; –; N·m, N', 'commanded stiffness, damping ratio and '
         'feedforward wrench, axes of the task'),
    Slot('stamp', (1,), 's', 'latest stamp of the commands'),
    Slot('change_time', (1,), 's', 'time after which 1 % of a step of the impedance remains'),
    Slot('capacity', (1,), 'J', 'capacity of the energy tank; infinite: no limit'),
    Slot('carried', (2, RATIOS), '–; –', 'damping ratios, and for each the largest stable product '
         'of natural frequency and period'))
IN_FORCE = (
    Slot('first', (3, 6), 'N·m/rad, N/m; –; N·m, N', 'impedance behind the first filter'),
    Slot('now', (3, 6), 'N·m/rad, N/m; –; N·m, N', 'impedance in force'),
    Slot('before', (6,), 'N·m/rad, N/m', 'stiffness in force at the tick before'),
    Slot('energy', (5,), 'J; the last: –', 'energy in the tank, added by rises of the stiffness, '
         'freed by falls, dissipated; share of the commanded stiffness that the loop can carry'),
    Slot('impedance_time', (1,), 's', 'time of the last tick of the impedance; -infinite before '
         'the first'))


@dataclass(frozen=True, eq=False)
class Impedance:
    """
    Commanded impedance of a task, per axis of its frame, [angular; linear].

    Attributes
    ----------
    stiffness : (6,) [N·m/rad, N/m]
        0 or more; at most STIFFEST.
    damping_ratio : (6,), optional
        LEAST_RATIO to LARGEST_RATIO; 1 is critical. None: unchanged.
    wrench : (6,), optional [N·m, N]
        Feedforward wrench by the robot on the environment. None: unchanged.
    stamp : float [s]
        A command with an earlier stamp than the last one is refused; without a stamp it is
        accepted.

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
                raise InputError(f'{name} {value.tolist()}: give six finite numbers')
            if not ((value >= least) & (value <= most)).all():
                raise InputError(f'{name} {value.tolist()}: must be {least:g} to {most:g}')
            object.__setattr__(self, name, value)


@inlined
def _carried_at(plan, ratio):
    """
    Interpolate the largest stable ω T for a damping ratio, from the slot `carried` of the plan.

    ω is a natural frequency [rad/s], T the control period [s].

    """
    x, y = plan.carried[0], plan.carried[1]
    if ratio >= x[-1]:
        return y[-1]
    k = interval_of(x, ratio)
    return y[k] + (y[k + 1] - y[k]) / (x[k + 1] - x[k]) * (max(ratio, x[0]) - x[k])


@inlined
def _fastest(plan, state, period):
    """Square of the largest stable natural frequency [1/s²]."""
    least, most = np.inf, 0.0
    for ratio in state.now[DAMPING_RATIO]:
        least, most = min(least, ratio), max(most, ratio)
    # with a growing ratio the product rises to a maximum and then falls, so its least value within
    # a range of ratios is at one of the two ends
    product = min(_carried_at(plan, least), _carried_at(plan, most))
    return (product / period) ** 2 if period > 0.0 else np.inf


@inlined
def _mobility_along(task, mobility, link, i):
    """Mobility of a link, whose block of Λ⁻¹ begins at row `link`, along an axis of motion."""
    half, k, along = link + 3 * (i // 3), i % 3, 0.0
    for a in range(3):
        for b in range(3):
            along += (task[AXES + 3 * a + k] * mobility[half + a, half + b]
                      * task[AXES + 3 * b + k])
    return task[SHAPE + 6 * MOVES + i] * along


@inlined
def _find_shares(plan, state, task, mobility, link, fastest):
    """
    Return the stable fractions of the commanded stiffness for rotation and for translation.

    Also returns a bound of the squared natural frequencies in force. The largest squared frequency
    of the task is at most the sum of those of rotation and translation, so each gets half of the
    stable limit, or the part that the other does not use.

    """
    turning = moving = least = 0.0
    for i in range(6):
        along = _mobility_along(task, mobility, link, i)
        least += state.now[STIFFNESS, i] * along
        if i < 3:
            turning += plan.impedance[STIFFNESS, i] * along
        else:
            moving += plan.impedance[STIFFNESS, i] * along
    for_turning, for_moving = 1.0, 1.0
    if turning + moving > fastest:
        if turning > 0.5 * fastest:
            for_turning = max(fastest - moving, 0.5 * fastest) / turning
        if moving > 0.5 * fastest:
            for_moving = max(fastest - turning, 0.5 * fastest) / moving
    return for_turning, for_moving, least


@inlined
def _dissipation(row, least, fastest):
    """
    Lower bound of the power that the damper dissipates [W].

    The damper is D = 2 S √ζ V a^(-1/2) Vᵀ √ζ S; its squared natural frequencies a are at most
    `least` [1/s²].

    """
    power = 0.0
    for i in range(6):
        power += (row[level_row.WEIGHT + i] * row[level_row.RATE + i]) ** 2
    return power * min(1.0, np.sqrt(fastest / least)) / np.sqrt(least) if least > 0.0 else power


@inlined
def _filter(plan, state, for_turning, for_moving, dt):
    pace = SETTLED / plan.change_time[0]
    decay = np.exp(-pace * dt)
    for i in range(6):
        state.before[i] = state.now[STIFFNESS, i]
        for r in range(3):
            goal = plan.impedance[r, i]
            if r == STIFFNESS:
                goal = max(goal * (for_turning if i < 3 else for_moving), SOFTEST)
            away = state.first[r, i] - goal
            state.first[r, i] = goal + decay * away
            state.now[r, i] = goal + decay * (state.now[r, i] - goal + pace * dt * away)


@inlined
def _pay(plan, state, task, row, dissipated, dt):
    """Take the energy for rises of the stiffness from the tank; reduce rises if it is too low."""
    energy, capacity, cost, freed = state.energy, plan.capacity[0], 0.0, 0.0
    for i in range(6):
        e = row[level_row.SPRING + i] / state.before[i]
        ahead = e + dt * row[level_row.RATE + i]
        rise = 0.5 * task[SHAPE + 6 * MOVES + i] * (state.now[STIFFNESS, i] - state.before[i])
        if rise > 0.0:
            cost += rise * max(e * e, ahead * ahead)
        else:
            freed -= rise * min(e * e, ahead * ahead)
    energy[DISSIPATED] += dissipated
    energy[FREED] += freed
    energy[TANK] = min(energy[TANK] + freed + STORED * dissipated, capacity)
    share = 1.0
    if cost > 0.0 and capacity < np.inf:
        share = min(smoothed(energy[TANK] / (VALVE * capacity)), energy[TANK] / cost)
    if capacity < np.inf:
        energy[TANK] -= share * cost
    energy[ADDED] += share * cost
    for i in range(6):
        rise = state.now[STIFFNESS, i] - state.before[i]
        if rise > 0.0:
            state.now[STIFFNESS, i] = state.before[i] + share * rise


@inlined
def advance(plan, state, task, row, mobility, link, time, period):
    """
    Advance the impedance to a time [s], and write it to the rows of the task.

    `plan` and `state` are views of the task's records. `task` (TASK_WIDTH,) and `row` (WIDTH,),
    its rows of numbers and of `Priorities` of the last tick, are changed. `mobility` (6 m, 6 m) is
    Λ⁻¹ of the links in base axes; the block of the task's link begins at row `link`. The gains are
    bounded for `period` [s].

    """
    dt = min(max(time - state.impedance_time[0], 0.0), LONGEST_TICK)
    if state.impedance_time[0] == -np.inf:
        dt = 0.0
    state.impedance_time[0] = time
    fastest = _fastest(plan, state, period)
    row[level_row.FASTEST] = fastest
    for_turning, for_moving, least = _find_shares(plan, state, task, mobility, link, fastest)
    state.energy[CARRIED] = min(for_turning, for_moving)
    dissipated = _dissipation(row, least, fastest) * dt
    _filter(plan, state, for_turning, for_moving, dt)
    _pay(plan, state, task, row, dissipated, dt)
    for i in range(6):
        task[SHAPE + 6 * GAIN + i] = state.now[STIFFNESS, i]
        task[SHAPE + 6 * RATIO + i] = state.now[DAMPING_RATIO, i]
        row[level_row.WRENCH + i] = task[SHAPE + 6 * MOVES + i] * state.now[WRENCH, i]


@cache
def carried() -> Array:
    """
    Damping ratios, and for each the largest stable ω T (2, RATIOS).

    ω is the natural frequency [rad/s], T the control period [s]. The first call is slow; its
    result is kept.

    """
    ratios = np.geomspace(LEAST_RATIO, LARGEST_RATIO, RATIOS)
    return np.array([ratios, [largest_natural_frequency(one, 1.0) for one in ratios.tolist()]])


class VariableImpedance:
    """
    The impedance in force of one task: commands and reports.

    `plan` and `state` are views of the task's records, see `osc_ros.control.tasks.task_reference`.

    """

    def __init__(self, plan: Any, state: Any) -> None:
        self._plan, self._state = plan, state

    def begin(self, stiffness: Array, damping_ratio: Array, change_time: float, capacity: float
              ) -> None:
        """
        Begin with a stiffness (6,), a damping ratio (6,) and a full tank.

        1 % of a step remains after `change_time` [s]. `capacity` is that of the energy tank [J];
        infinite: the stiffness follows every command.

        """
        plan, state = self._plan, self._state
        plan.impedance[:] = np.maximum(stiffness, SOFTEST), damping_ratio, np.zeros(6)
        plan.stamp[0], plan.carried[:] = -np.inf, carried()
        state.first[:] = state.now[:] = plan.impedance
        state.energy[:] = capacity, 0.0, 0.0, 0.0, 1.0
        state.impedance_time[0] = -np.inf
        plan.is_commanded[0], plan.change_time[0], plan.capacity[0] = 1.0, change_time, capacity

    def go_on_as(self, before: VariableImpedance, change_time: float, capacity: float) -> None:
        """Copy `before`, with another change time and capacity; a full tank stays full."""
        for slot in COMMANDED:
            getattr(self._plan, slot.name)[:] = getattr(before._plan, slot.name)
        for slot in IN_FORCE:
            getattr(self._state, slot.name)[:] = getattr(before._state, slot.name)
        plan, energy = self._plan, self.energy
        if capacity != plan.capacity[0]:
            was_full = energy[TANK] == plan.capacity[0]
            energy[TANK] = capacity if was_full else min(energy[TANK], capacity)
        plan.change_time[0], plan.capacity[0] = change_time, capacity

    def end(self) -> None:
        """Return to the gains of the settings."""
        self._plan.is_commanded[0] = 0.0

    @property
    def wanted(self) -> Array:
        """Commanded stiffness, damping ratio and wrench (3, 6)."""
        return np.asarray(self._plan.impedance)

    @property
    def now(self) -> Array:
        """Stiffness, damping ratio and wrench in force (3, 6)."""
        return np.asarray(self._state.now)

    @property
    def energy(self) -> Array:
        """Entries TANK, ADDED, FREED and DISSIPATED [J], and CARRIED, a fraction; see IN_FORCE."""
        return np.asarray(self._state.energy)

    @property
    def source(self) -> str:
        """Text for reports, which says whether the tank slows rises of the stiffness."""
        waits = self.energy[TANK] < VALVE * self._plan.capacity[0] < np.inf
        return 'commands, which wait for energy' if waits else 'commands'

    def command(self, impedance: Impedance) -> None:
        """Set the values to approach; InputError if the stamp is earlier than the last one."""
        last = float(self._plan.stamp[0])
        if -np.inf < impedance.stamp < last:
            raise InputError(f'its stamp, {impedance.stamp:.3f} s, is before that of the last '
                             f'one, {last:.3f} s')
        self._plan.stamp[0] = max(last, impedance.stamp)
        for row, given in enumerate((impedance.stiffness, impedance.damping_ratio,
                                     impedance.wrench)):
            if given is not None:
                self._plan.impedance[row] = given
