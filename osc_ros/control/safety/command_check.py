# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Plausibility check of torque commands from another controller, for the relay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, lock, plain
from osc_ros.compile.record_type import Slot, Table
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.errors import InputError

Array = NDArray[np.float64]

ROUNDING = 1e-9  # relative tolerance of the limits
# Faults of a command, in the order of the checks. The check returns fault · n + index of the
# joint, or GOOD.
NOT_FINITE, TOO_LARGE, TOO_STEEP = range(3)
GOOD = -1
LONGEST_GAP = 2.0  # largest time step of the rate limit [mean intervals between states]

RELAYED = Table(
    'Relayed',
    Slot('gid', (2,), '', 'GID of the publisher whose commands are forwarded', int),
    Slot('heard', (), 's', 'when the last of its commands came'),
    Slot('largest_tau', ('n',), 'N·m, N', 'greatest torques that are accepted'),
    Slot('largest_rate', ('n',), 'N·m/s, N/s', 'greatest rates that are accepted'),
    Slot('period', (), 's', 'expected time between two commands'),
    Slot('is_known', (), '', 'whether there is a last command', bool),
    Slot('last_time', (), 's', 'time of the state of the last command'),
    Slot('last_tau', ('n',), 'N·m, N', 'torques of the last command, in the order of its topic'),
    Slot('command', ('n',), 'N·m, N', 'the same torques, in the order of the joints'),
    Slot('sec', (), 's', 'whole seconds of the stamp of the newest state; -1: not to be named',
         int),
    Slot('nanosec', (), 'ns', 'its nanoseconds', int))


@inlined
def time_between(relayed, time, spacing):
    """Time step of the rate limit [s]: at least one period, at most LONGEST_GAP · spacing."""
    return min(max(time - relayed.last_time, relayed.period),
               LONGEST_GAP * max(spacing, relayed.period))


@inlined
def find_fault(relayed, time, spacing, tau):
    """Return the first fault of the torques tau (n,), or GOOD; see `CommandCheck.torque`."""
    n = len(tau)
    for i in range(n):
        if not np.isfinite(tau[i]):
            return NOT_FINITE * n + i
    for i in range(n):
        if np.abs(tau[i]) > relayed.largest_tau[i]:
            return TOO_LARGE * n + i
    if relayed.is_known:
        dt = time_between(relayed, time, spacing)
        for i in range(n):
            if np.abs(tau[i] - relayed.last_tau[i]) > relayed.largest_rate[i] * dt:
                return TOO_STEEP * n + i
    return GOOD


@inlined
def remember(relayed, time, tau):
    """Store the torques tau (n,) of a time [s] as the last command."""
    relayed.is_known, relayed.last_time = True, time
    assign(relayed.last_tau, tau)


@kernel
def check(relayed, time, spacing, tau):
    """Return the result of `find_fault`; store a command of finite torques as the last one."""
    found = find_fault(relayed, time, spacing, tau)
    if found == GOOD or found >= len(tau):
        remember(relayed, time, tau)
    return found


class CommandCheck:
    """Refuses commands of a wrong size, with numbers that are not finite, or beyond a limit."""

    def __init__(self, names: Sequence[str], effort_limits: Array, effort_rates: Array,
                 period: float) -> None:
        # `names` are in the order of a command; limits [N·m] and rates [N·m/s] (n,) may be
        # infinite; `period`: expected time between two commands, least step of the rate limit [s]
        self._names = tuple(names)
        self.record = RELAYED.new(n=len(self._names))
        check(self.record, 0.0, 0.0, np.array(self.record.last_tau))
        lock(check)
        self.record.clear()
        self.record.largest_tau[:] = (1.0 + ROUNDING) * effort_limits
        self.record.largest_rate[:] = (1.0 + ROUNDING) * effort_rates
        self.record.period, self.record.heard, self.record.sec = period, -np.inf, -1

    def torque(self, values: Sequence[float], time: float, spacing: float) -> Array:
        """Return the torques (n,) of a command [N·m]; InputError if it is refused."""
        # `time`: when it was computed, or came [s]; `spacing`: mean time between two states [s].
        # The rate is computed from the previous command, even a refused one: a step to a new level
        # is refused once; after a single outlier the next command is refused too.
        tau, n = np.array(values, dtype=np.float64), len(self._names)
        if tau.shape != (n,):
            raise InputError(f'command has {tau.size} torques: give {n}, '
                             f"for {', '.join(self._names)}")
        before = self.record.copy()
        if (found := check(self.record, time, spacing, tau)) != GOOD:
            fault, i = divmod(found, n)
            dt = float(plain(time_between)(before, time, spacing))
            raise InputError(self._fault_text(fault, i, float(tau[i]), dt, before))
        return tau

    def _fault_text(self, fault: int, i: int, tau: float, dt: float, before: Any) -> str:
        name = self._names[i]
        if fault == NOT_FINITE:
            return f"torque for '{name}' is {tau}: must be finite numbers"
        limit, rate = float(before.largest_tau[i]), float(before.largest_rate[i])
        if fault == TOO_LARGE:
            return f"torque for '{name}' is {tau:.4g} N m: must be at most {limit:g} N m"
        return (f"torque for '{name}' steps by {tau - before.last_tau[i]:.4g} N m in {dt:.4f} s: "
                f'must be at most {rate * dt:g} N m')

    def forget(self) -> None:
        """Forget the last command, so that the rate of the next one is not checked."""
        self.record.is_known = False
