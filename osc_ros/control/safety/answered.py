# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Log of joint states: the compiled loop writes a record for each one, Python reads it later."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, plain
from osc_ros.compile.record import Slot, Table
from osc_ros.control.model_error.contact import NOT_TOUCHED
from osc_ros.control.safety.safety import REJECTED, STOPPED
from osc_ros.control.safety.sample import CLOCK
from osc_ros.control.safety.tables import FAULTS

Array = NDArray[np.float64]

ANSWER = Table(
    'Answer',
    Slot('time', (1,), 's', 'stamp of the joint state'),
    Slot('accepted', (1,), 's', 'its time for the supervisor: the stamp, if stamps advance'),
    Slot('sec', (1,), 's', 'whole seconds of the stamp'),
    Slot('nanosec', (1,), 'ns', 'its nanoseconds'),
    Slot('arrived', (1,), 's', 'when it was taken, on the clock of the loop'),
    Slot('now', (1,), 's', 'when its computation began'),
    Slot('done', (1,), 's', 'when the torques had been published'),
    Slot('code', (1,), '', 'what `step` returned, or UNASKED'),
    Slot('touch', (1,), '', 'what `sense` returned'),
    Slot('met', (1,), 'N·m, N', 'external torque, force or moment of the contact, if any'),
    Slot('count', (1,), '', 'number of faults of the state'),
    Slot('changed', (1,), '', '1 if cause or reaction have changed with it'),
    Slot('asks', (1,), '', 'what Python must do, see `tables.TORQUE`'),
    Slot('faults', (FAULTS, 5), 'see words', 'the faults, as in `tables.GATE_RESULT`'),
    Slot('acting', (3,), '–, –, s', 'cause and reaction in force, as numbers, and its silence'),
    Slot('q', ('n',), 'rad, m', 'positions'),
    Slot('qd', ('n',), 'rad/s, m/s', 'velocities'),
    Slot('effort', ('n',), 'N·m, N', 'measured torques'),
    Slot('tau', ('n',), 'N·m, N', 'torques that were sent; NaN: none'),
    Slot('pose', (4, 4), '–, m', 'pose of the first task'),
    Slot('error', (6,), 'rad, m', 'error of the first task'),
    Slot('F', (6,), 'N·m, N', 'force of the first task'))
_NUMBERS = 13  # number of scalar slots; they are the first ones of ANSWER
# The supervisor checks at least once in this time whether a reaction is needed. During a reaction
# it sends torques even if no joint state has arrived for this time [s].
WATCH_PERIOD = 0.01
UNASKED = -2**31  # code of a record that was written without a joint state


@inlined
def doubts_clock(code: Any, faults: Any, count: Any) -> bool:
    """
    Return whether a state was rejected because its stamp is from another clock.

    `code` and `faults` are slots of ANSWER; the first `count` faults are valid. The torques sent
    after such a state must not carry its stamp, because they were not computed from this state,
    which may come from another arm or from a restarted simulation.

    """
    if code != REJECTED:
        return False
    for k in range(int(count)):
        if faults[k, 0] == CLOCK:
            return True
    return False


class Answered(NamedTuple):
    """Record of one cycle of the compiled loop, converted to Python; see ANSWER for its fields."""

    time: float
    accepted: float
    stamp: tuple[int, int]
    arrived: float
    now: float
    done: float
    code: int
    touch: int
    met: float
    has_changed: bool
    asks: float
    faults: Array
    acting: Array
    q: Array
    qd: Array
    effort: Array
    tau: Array
    pose: Array
    error: Array
    F: Array

    @property
    def answered_stamp(self) -> tuple[int, int] | None:
        """Stamp (sec, nanosec) of the state for which the torques were computed, or None."""
        has_none = self.code == UNASKED or plain(doubts_clock)(
            self.code, self.faults, len(self.faults))
        return None if has_none else self.stamp

    @property
    def is_sent(self) -> bool:
        """Whether torques were sent."""
        return bool(np.isfinite(self.tau[0]))


class Answers:
    """
    Copies of records of ANSWER, one for each cycle of the compiled loop, oldest first.

    Parameters
    ----------
    rows : (k, …)
    n : int
        Number of joints.

    """

    def __init__(self, rows: Array, n: int) -> None:
        self.rows, self._n = rows, n
        self._places = _places(n)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Answered:
        return record_of(self.rows[i], self._n)

    def __getattr__(self, name: str) -> Array:
        """Return a slot of all records by its name: (k,) for a scalar, else (k, …)."""
        places = getattr(self._places, name)
        return np.asarray(self.rows[:, places[0] if len(places) == 1 else places])

    def groups(self, deadline: float) -> Iterator[tuple[Answers, bool]]:
        """
        Yield the records in order, in groups, each with whether the group is plain.

        A record is plain if its state was accepted without fault or contact, the torque is that of
        the law, cause and reaction have not changed, and the computation took at most `deadline`
        [s]. Consecutive plain records form one group; any other record is a group of its own.

        """
        is_plain = ((self.code > STOPPED) & (self.count == 0.0) & (self.touch == NOT_TOUCHED)
                    & (self.changed == 0.0) & (self.done - self.now <= deadline))
        first = 0
        for i in (*np.flatnonzero(~is_plain).tolist(), len(self)):
            for part, has_none in ((self.rows[first:i], True), (self.rows[i:i + 1], False)):
                if len(part):
                    yield Answers(part, self._n), has_none
            first = i + 1


@cache
def _places(n: int) -> Any:
    """Indices of each slot in a record for n joints."""
    at = ANSWER.of(np.arange(ANSWER.size(n), dtype=np.float64), n)
    return type(at)(*(one.astype(int) for one in at))


def record_of(row: Array, n: int) -> Answered:
    """Return the views of a row of ANSWER; the caller must not change the row any more."""
    at = ANSWER.of(row, n)
    time, accepted, sec, nanosec, arrived, now, done, code, touch, met, count, changed, asks = (
        float(one[0]) for one in at[:_NUMBERS])
    return Answered(time, accepted, (int(sec), int(nanosec)), arrived, now, done,
                    int(code), int(touch), met, changed > 0.0, asks,
                    at.faults[:int(count)], *at[_NUMBERS + 1:])
