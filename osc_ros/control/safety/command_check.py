# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Independent plausibility check of torque commands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, lock, plain
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.errors import InputError

Array = NDArray[np.float64]

ROUNDING = 1e-9  # relative: a torque at its limit is within it
# Faults of a command, in the order of their checks. A result is fault · n + joint; GOOD: none.
NOT_FINITE, TOO_LARGE, TOO_STEEP = range(3)
GOOD = -1
LONGEST_GAP = 2.0  # mean intervals: longest time for which the rate limit allows a change
KNOWN, TIME, PERIOD, TORQUES = range(4)  # entries of the memory, which has the last torques


@inlined
def time_between(memory, time, spacing):
    """Time [s] for which the rate limit allows a change from the last command to one at `time`."""
    return min(max(time - memory[TIME], memory[PERIOD]),
               LONGEST_GAP * max(spacing, memory[PERIOD]))


@inlined
def find_fault(bounds, memory, time, spacing, tau):
    """Return the first fault of the torques tau (n,), or GOOD; see `CommandCheck.torque`."""
    n = len(tau)
    for i in range(n):
        if not np.isfinite(tau[i]):
            return NOT_FINITE * n + i
    for i in range(n):
        if np.abs(tau[i]) > bounds[0, i]:
            return TOO_LARGE * n + i
    if memory[KNOWN] > 0.0:
        dt = time_between(memory, time, spacing)
        for i in range(n):
            if np.abs(tau[i] - memory[TORQUES + i]) > bounds[1, i] * dt:
                return TOO_STEEP * n + i
    return GOOD


@inlined
def remember(memory, time, tau):
    """Remember torques tau (n,) of a time [s] as the last command."""
    memory[KNOWN], memory[TIME] = 1.0, time
    assign(memory[TORQUES:], tau)


@kernel
def check(bounds, memory, time, spacing, tau):
    """Return what `find_fault` does; `remember` the command if it is finite."""
    found = find_fault(bounds, memory, time, spacing, tau)
    if found == GOOD or found >= len(tau):
        remember(memory, time, tau)
    return found


class CommandCheck:
    """
    Refuses commands that have a wrong size, are not finite, or exceed limits of torque or rate.

    Parameters
    ----------
    names : sequence of str, length n
        The joints, in the order of a command.
    effort_limits : (n,)
        Largest torques [N·m]; may be infinite.
    effort_rates : (n,)
        Largest rates of change [N·m/s]; may be infinite.
    period : float [s]
        Expected time between two commands; the rate limit takes a shorter time as this period.

    Attributes
    ----------
    bounds : (2, n)
        The largest torques and rates.
    memory : (TORQUES + n,)
        The last command, see KNOWN and the following.

    """

    def __init__(self, names: Sequence[str], effort_limits: Array, effort_rates: Array,
                 period: float) -> None:
        self._names = tuple(names)
        self.bounds = np.array([effort_limits, effort_rates]) * (1.0 + ROUNDING)
        self.memory = np.zeros(TORQUES + len(self._names))
        check(self.bounds, self.memory, 0.0, 0.0, self.memory[TORQUES:].copy())
        lock(check)
        self.memory[:], self.memory[PERIOD] = 0.0, period

    def torque(self, values: Sequence[float], time: float, spacing: float) -> Array:
        """
        Return the torques (n,) of a command [N·m], if it is accepted.

        The rate is computed from the previous command, even if this command was refused: so a step
        to a new level is refused once, and after a single outlier the next command is refused too.

        Parameters
        ----------
        values : sequence of float
        time : float
            Time at which the command was computed, or at which it arrived [s].
        spacing : float
            Mean time between two states [s]. Torques may change by what the rate limit allows in
            LONGEST_GAP times this, however long the last command is ago.

        Raises
        ------
        InputError
            The command is refused; says which joint, why, and what is accepted.

        """
        tau, n = np.array(values, dtype=np.float64), len(self._names)
        if tau.shape != (n,):
            raise InputError(f'command has {tau.size} torques: accepted are {n}, '
                             f"for {', '.join(self._names)}")
        before = self.memory.copy()
        if (found := check(self.bounds, self.memory, time, spacing, tau)) != GOOD:
            fault, i = divmod(found, n)
            dt = float(plain(time_between)(before, time, spacing))
            raise InputError(self._fault_text(fault, i, float(tau[i]), dt, before))
        return tau

    def _fault_text(self, fault: int, i: int, tau: float, dt: float, before: Array) -> str:
        name = self._names[i]
        if fault == NOT_FINITE:
            return f"torque for '{name}' is {tau}: accepted are finite numbers"
        limit, rate = self.bounds[:, i].tolist()
        if fault == TOO_LARGE:
            return f"torque for '{name}' is {tau:.4g} N m: accepted is at most {limit:g} N m"
        return (f"torque for '{name}' steps by {tau - before[TORQUES + i]:.4g} N m in {dt:.4f} s: "
                f'accepted is at most {rate * dt:g} N m')

    def forget(self) -> None:
        """Forget the last command: the rate of the next one is not checked."""
        self.memory[KNOWN] = 0.0
