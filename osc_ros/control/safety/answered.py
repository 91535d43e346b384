# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Log of joint states: the compiled loop writes a record for each one, Python reads it later."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, plain
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.data import FAULTS
from osc_ros.control.model_error.contact import NOT_TOUCHED
from osc_ros.control.safety.safety import REJECTED, STOPPED
from osc_ros.control.safety.sample import CLOCK

Array = NDArray[np.float64]

ANSWER = Table(
    'Answer',
    Slot('time', (), 's', 'stamp of the joint state'),
    Slot('accepted', (), 's', 'its time for the supervisor: the stamp, if stamps advance'),
    Slot('sec', (), 's', 'whole seconds of the stamp', int),
    Slot('nanosec', (), 'ns', 'its nanoseconds', int),
    Slot('arrived', (), 's', 'when it was taken, on the clock of the loop'),
    Slot('now', (), 's', 'when its computation began'),
    Slot('done', (), 's', 'when the torques had been published'),
    Slot('code', (), '', 'what `step` returned, or UNASKED', int),
    Slot('touch', (), '', 'what `sense` returned', int),
    Slot('met', (), 'N·m, N', 'external torque, force or moment of the contact, if any'),
    Slot('fault_count', (), '', 'number of faults of the state', int),
    Slot('has_changed', (), '', 'whether cause or reaction have changed with it', bool),
    Slot('asks', (), '', 'what Python must do, see `osc_ros.control.data`', int),
    Slot('faults', (FAULTS, 5), 'mixed', 'the faults, as in `osc_ros.control.data`'),
    Slot('cause', (), '', 'cause in force', int),
    Slot('reaction', (), '', 'reaction in force', int),
    Slot('silent', (), 's', 'how long the cause in force had no sign of life'),
    Slot('q', ('n',), 'rad, m', 'positions'),
    Slot('qd', ('n',), 'rad/s, m/s', 'velocities'),
    Slot('effort', ('n',), 'N·m, N', 'measured torques'),
    Slot('tau', ('n',), 'N·m, N', 'torques that were sent; NaN: none'),
    Slot('pose', (4, 4), '–, m', 'pose of the first task'),
    Slot('error', (6,), 'rad, m', 'error of the first task'),
    Slot('F', (6,), 'N·m, N', 'force of the first task'))
answered_at = ANSWER.at  # kernels take the function
Answered: TypeAlias = Any  # a record ANSWER, of one cycle of the compiled loop
# The supervisor checks at least once in this time whether a reaction is needed. During a reaction
# it sends torques even if no joint state has arrived for this time [s].
WATCH_PERIOD = 0.01
# Codes of records that were written without a joint state: torques of a reaction, or none; those
# of another controller.
UNASKED, FORWARDED = -2**31, 2**31


@inlined
def doubts_clock(code: Any, faults: Any, count: Any) -> bool:
    """Whether a state was rejected because its stamp is from another clock."""
    # `code`, `faults`: slots of ANSWER; the first `count` faults are valid. Torques sent after
    # such a state must not carry its stamp: they were not computed from it, and it may come from
    # another arm or from a restarted simulation.
    if code != REJECTED:
        return False
    for k in range(count):
        if faults[k, 0] == CLOCK:
            return True
    return False


def stamp_of(done: Answered) -> tuple[int, int]:
    """Stamp (sec, nanosec) of the joint state."""
    return done.sec, done.nanosec


def answered_stamp(done: Answered) -> tuple[int, int] | None:
    """Stamp (sec, nanosec) of the state for which the torques were computed, or None."""
    has_none = done.code in (UNASKED, FORWARDED) or plain(doubts_clock)(
        done.code, done.faults, done.fault_count)
    return None if has_none else stamp_of(done)


def is_sent(done: Answered) -> bool:
    """Whether torques were sent."""
    return bool(np.isfinite(done.tau[0]))


@cache
def _place(name: str, n: int) -> tuple[slice, tuple[int, ...], bool]:
    start, shape = ANSWER.shape_of(name, {'n': n})
    return slice(start, start + prod(shape)), shape, ANSWER.slots[name].kind is float


class Answers:
    """Copies (k, …) of records ANSWER, one for each cycle of the compiled loop, oldest first."""

    def __init__(self, rows: Array, n: int) -> None:
        self.rows, self._n = rows, n

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Answered:
        return ANSWER.of(self.rows[i])

    def __getattr__(self, name: str) -> NDArray[Any]:
        """Return a slot of all records by its name: (k,) for a scalar, else (k, …)."""
        if name not in ANSWER.slots:
            raise AttributeError(name)
        words, shape, is_float = _place(name, self._n)
        found = self.rows[:, words].reshape(-1, *shape)
        return found if is_float else found.view(np.int64)

    def groups(self, deadline: float) -> Iterator[tuple[Answers, bool]]:
        """Yield the records in order, in groups, each with whether the group is plain."""
        # Plain: state accepted without fault or contact, torque of the law, cause and reaction
        # unchanged, computation of at most `deadline` [s]. Consecutive plain records form one
        # group; any other record is a group of its own.
        is_plain = ((self.code > STOPPED) & (self.fault_count == 0) & (self.touch == NOT_TOUCHED)
                    & (self.has_changed == 0) & (self.done - self.now <= deadline))
        first = 0
        for i in (*np.flatnonzero(~is_plain).tolist(), len(self)):
            for part, has_none in ((self.rows[first:i], True), (self.rows[i:i + 1], False)):
                if len(part):
                    yield Answers(part, self._n), has_none
            first = i + 1
