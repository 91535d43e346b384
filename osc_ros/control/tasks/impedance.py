# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Variable impedance: commands change stiffness, damping ratio and wrench of an acting spring.

The values approach the commanded ones, critically damped, so they are C¹ and never leave the
range of the commands. A rising stiffness adds energy: ½ eᵀ ΔK e for an error e of the spring. An
energy tank pays for it, after F. Ferraguti, C. Secchi, C. Fantuzzi, "A tank-based approach to
impedance control with variable stiffness", ICRA 2013. The valve that closes as the tank runs empty
is that of M. Franken, S. Stramigioli, S. Misra, C. Secchi, A. Macchelli, "Bilateral
telemanipulation with time delays: a two-layer approach combining passivity and transparency", IEEE
Trans. Robotics 27 (2011):

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
from osc_ros.control.data import IMPEDANCE, RATIOS
from osc_ros.control.tasks.bandwidth import largest_natural_frequency
from osc_ros.dynamics.algebra.spatial import damped, interval_of, LONGEST_TICK, SETTLED, smoothed
from osc_ros.errors import InputError

Array = NDArray[np.float64]

SOFTEST, STIFFEST = 1e-3, 1e6  # range of the stiffness; 0 is replaced by SOFTEST [N/m, N·m/rad]
LEAST_RATIO, LARGEST_RATIO = 1e-2, 1e2  # range of a damping ratio
STORED = 0.9  # fraction of the dissipated energy that is stored in the tank
VALVE = 0.25  # fraction of the capacity below which the valve closes
STIFFNESS, DAMPING_RATIO, WRENCH = range(3)  # rows of an impedance (3, 6)


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
def _carried_at(table, ratio):
    """Interpolate the largest stable ω T for a damping ratio, from a row of `carried`."""
    x, y = table[0], table[1]
    if ratio >= x[-1]:
        return y[-1]
    k = interval_of(x, ratio)
    return y[k] + (y[k + 1] - y[k]) / (x[k + 1] - x[k]) * (max(ratio, x[0]) - x[k])


@inlined
def _fastest(m, d, i):
    """Square of the largest stable natural frequency of task i [1/s²]."""
    least, most, period = np.inf, 0.0, m.period_stretch * d.gain_period
    for ratio in d.impedance[i, DAMPING_RATIO]:
        least, most = min(least, ratio), max(most, ratio)
    # with a growing ratio the product rises to a maximum and then falls, so its least value within
    # a range of ratios is at one of the two ends
    product = min(_carried_at(d.carried[i], least), _carried_at(d.carried[i], most))
    return (product / period) ** 2 if period > 0.0 else np.inf


@inlined
def _mobility_along(m, d, i, mobility, axis):
    """Mobility of the link of task i along an axis of motion."""
    half, k, along, R = 6 * m.level_link[i] + 3 * (axis // 3), axis % 3, 0.0, d.task_axes[i]
    for a in range(3):
        for b in range(3):
            along += R[3 * a + k] * mobility[half + a, half + b] * R[3 * b + k]
    return m.moves[i, axis] * along


@inlined
def _find_shares(m, d, i, mobility, fastest):
    """Return the stable fractions of the commanded stiffness for rotation and for translation."""
    # Third: a bound of the squared natural frequencies in force. The task's largest is at most the
    # sum of those of rotation and translation, so each gets half of the stable limit, or the part
    # that the other does not use.
    turning = moving = least = 0.0
    for axis in range(6):
        along = _mobility_along(m, d, i, mobility, axis)
        least += d.impedance[i, STIFFNESS, axis] * along
        if axis < 3:
            turning += d.wanted_impedance[i, STIFFNESS, axis] * along
        else:
            moving += d.wanted_impedance[i, STIFFNESS, axis] * along
    for_turning, for_moving = 1.0, 1.0
    if turning + moving > fastest:
        if turning > 0.5 * fastest:
            for_turning = max(fastest - moving, 0.5 * fastest) / turning
        if moving > 0.5 * fastest:
            for_moving = max(fastest - turning, 0.5 * fastest) / moving
    return for_turning, for_moving, least


@inlined
def _dissipation(d, i, least, fastest):
    """Lower bound of the power that the damper of task i dissipates [W]."""
    # The damper is D = 2 S √ζ V a^(-1/2) Vᵀ √ζ S; its squared natural frequencies a are at most
    # `least` [1/s²].
    power = 0.0
    for a in range(6):
        power += (d.level_weight[i, a] * d.level_rate[i, a]) ** 2
    return power * min(1.0, np.sqrt(fastest / least)) / np.sqrt(least) if least > 0.0 else power


@inlined
def _filter(d, i, for_turning, for_moving, dt):
    time, now, rate = d.impedance_ramp[i] / SETTLED, d.impedance[i], d.impedance_rate[i]
    for a in range(6):
        d.last_stiffness[i, a] = now[STIFFNESS, a]
        for r in range(3):
            goal = d.wanted_impedance[i, r, a]
            if r == STIFFNESS:
                goal = max(goal * (for_turning if a < 3 else for_moving), SOFTEST)
            now[r, a], rate[r, a] = damped(now[r, a], rate[r, a], goal, time, dt)


@inlined
def _pay(m, d, i, dissipated, dt):
    """Take the energy for rises of the stiffness from the tank; reduce rises if it is too low."""
    tank, capacity, cost, freed = d.tank_energy[i], d.tank_capacity[i], 0.0, 0.0
    now, before = d.impedance[i, STIFFNESS], d.last_stiffness[i]
    for a in range(6):
        e = d.level_spring[i, a] / before[a]
        ahead = e + dt * d.level_rate[i, a]
        rise = 0.5 * m.moves[i, a] * (now[a] - before[a])
        if rise > 0.0:
            cost += rise * max(e * e, ahead * ahead)
        else:
            freed -= rise * min(e * e, ahead * ahead)
    d.dissipated_energy[i] += dissipated
    d.freed_energy[i] += freed
    tank = min(tank + freed + STORED * dissipated, capacity)
    share = 1.0
    if cost > 0.0 and capacity < np.inf:
        share = min(smoothed(tank / (VALVE * capacity)), tank / cost)
    d.tank_energy[i] = tank - share * cost if capacity < np.inf else tank
    d.added_energy[i] += share * cost
    for a in range(6):
        rise = now[a] - before[a]
        if rise > 0.0:
            now[a] = before[a] + share * rise


@inlined
def advance(m, d, i, mobility):
    """Advance the impedance of task i to the time of the tick; write its gains and wrench."""
    # Error, rate and `mobility` (6 m, 6 m), Λ⁻¹ of the links in base axes, are of the last tick.
    dt = min(max(d.time - d.impedance_time[i], 0.0), LONGEST_TICK)
    if d.impedance_time[i] == -np.inf:
        dt = 0.0
    d.impedance_time[i] = d.time
    fastest = _fastest(m, d, i)
    d.level_fastest[i] = fastest
    for_turning, for_moving, least = _find_shares(m, d, i, mobility, fastest)
    d.carried_share[i] = min(for_turning, for_moving)
    dissipated = _dissipation(d, i, least, fastest) * dt
    _filter(d, i, for_turning, for_moving, dt)
    _pay(m, d, i, dissipated, dt)
    for a in range(6):
        d.task_gain[i, a] = d.impedance[i, STIFFNESS, a]
        d.task_ratio[i, a] = d.impedance[i, DAMPING_RATIO, a]
        d.level_wrench[i, a] = m.moves[i, a] * d.impedance[i, WRENCH, a]


@cache
def carried() -> Array:
    """Damping ratios, and for each the largest stable ω T (2, RATIOS); the first call is slow."""
    # ω is the natural frequency [rad/s], T the control period [s].
    ratios = np.geomspace(LEAST_RATIO, LARGEST_RATIO, RATIOS)
    return np.array([ratios, [largest_natural_frequency(one, 1.0) for one in ratios.tolist()]])


class VariableImpedance:
    """The impedance in force of task i: commands and reports; `d` is the record LAW_D."""

    def __init__(self, d: Any, i: int) -> None:
        self._d, self._i = d, i
        # stiffness, damping ratio and wrench (3, 6): commanded, and in force
        self.wanted, self.now = d.wanted_impedance[i], d.impedance[i]

    def begin(self, stiffness: Array, damping_ratio: Array, change_time: float, capacity: float
              ) -> None:
        """Begin with a stiffness (6,), a damping ratio (6,) and a full tank of `capacity` [J]."""
        # 1 % of a step remains after `change_time` [s]; with infinite capacity no rise waits.
        d, i = self._d, self._i
        d.wanted_impedance[i] = np.maximum(stiffness, SOFTEST), damping_ratio, np.zeros(6)
        d.impedance_stamp[i], d.carried[i] = -np.inf, carried()
        d.impedance[i], d.impedance_rate[i] = d.wanted_impedance[i], 0.0
        d.tank_energy[i], d.carried_share[i] = capacity, 1.0
        d.added_energy[i] = d.freed_energy[i] = d.dissipated_energy[i] = 0.0
        d.impedance_time[i] = -np.inf
        d.is_commanded[i], d.impedance_ramp[i], d.tank_capacity[i] = True, change_time, capacity

    def go_on_as(self, before: VariableImpedance, change_time: float, capacity: float) -> None:
        """Copy `before`, with another change time and capacity; a full tank stays full."""
        d, i = self._d, self._i
        for slot in IMPEDANCE:
            getattr(d, slot.name)[i] = getattr(before._d, slot.name)[before._i]
        if capacity != d.tank_capacity[i]:
            was_full = d.tank_energy[i] == d.tank_capacity[i]
            d.tank_energy[i] = capacity if was_full else min(d.tank_energy[i], capacity)
        d.impedance_ramp[i], d.tank_capacity[i] = change_time, capacity

    @property
    def tank(self) -> float:
        """Energy in the tank [J]."""
        return float(self._d.tank_energy[self._i])

    @property
    def source(self) -> str:
        """Text for reports, which says whether the tank slows rises of the stiffness."""
        waits = self.tank < VALVE * self._d.tank_capacity[self._i] < np.inf
        return 'commands, which wait for energy' if waits else 'commands'

    def command(self, impedance: Impedance) -> None:
        """Set the values to approach; InputError if the stamp is earlier than the last one."""
        last = float(self._d.impedance_stamp[self._i])
        if -np.inf < impedance.stamp < last:
            raise InputError(f'its stamp, {impedance.stamp:.3f} s, is before that of the last '
                             f'one, {last:.3f} s')
        self._d.impedance_stamp[self._i] = max(last, impedance.stamp)
        for row, given in enumerate((impedance.stiffness, impedance.damping_ratio,
                                     impedance.wrench)):
            if given is not None:
                self.wanted[row] = given
