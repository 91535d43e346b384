# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The record of a joint state that a compiled tick has answered without Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.record import Slot, Table

Array = NDArray[np.float64]

ANSWER = Table(
    'Answer',
    Slot('accepted', (1,), 's', 'its time for the supervisor: the stamp, if stamps advance'),
    Slot('sec', (1,), 's', 'seconds of the stamp of the joint state'),
    Slot('nanosec', (1,), 'ns', 'nanoseconds of this stamp'),
    Slot('arrived', (1,), 's', 'when it was taken, on the clock of the loop'),
    Slot('now', (1,), 's', 'when its computation began'),
    Slot('done', (1,), 's', 'when the torques had been published'),
    Slot('code', (1,), '', 'what the tick returned'),
    Slot('touch', (1,), '', 'what `sense` returned'),
    Slot('faults', (1,), '', 'number of faults of the state'),
    Slot('q', ('n',), 'rad, m', 'positions'),
    Slot('qd', ('n',), 'rad/s, m/s', 'velocities'),
    Slot('effort', ('n',), 'N·m, N', 'measured torques'),
    Slot('tau', ('n',), 'N·m, N', 'torques that were sent'),
    Slot('pose', (4, 4), '–, m', 'pose of the first task'),
    Slot('error', (6,), 'rad, m', 'error of the first task'),
    Slot('F', (6,), 'N·m, N', 'force of the first task'))
_NUMBERS = 9  # slots of a single number


class Answered(NamedTuple):
    """A joint state that a compiled tick has answered, see ANSWER, and what came of it."""

    time: float
    accepted: float
    stamp: tuple[int, int]
    arrived: float
    now: float
    done: float
    code: int
    touch: int
    has_faults: bool
    q: Array
    qd: Array
    effort: Array
    tau: Array
    pose: Array
    error: Array
    F: Array


def answered(row: Array, n: int) -> Answered:
    """Return the views of a record of ANSWER, which the caller does not change any more."""
    at = ANSWER.of(row, n)
    accepted, sec, nanosec, arrived, now, done, code, touch, faults = (
        float(one[0]) for one in at[:_NUMBERS])
    return Answered(sec + 1e-9 * nanosec, accepted, (int(sec), int(nanosec)), arrived, now, done,
                    int(code), int(touch), faults > 0.0, *at[_NUMBERS:])
