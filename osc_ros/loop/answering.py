# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Kernels that answer joint states with torques without Python, and a buffer of records."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import answer_at, entry_of, sense_at, step_at, watch_at
from osc_ros.compile.compiled import inlined, kernel, lock, plain, unlocked, view
from osc_ros.control.model_error.contact import CONTACT, NOT_TOUCHED
from osc_ros.control.safety.answered import (
    ANSWER,
    Answers,
    doubts_clock,
    UNASKED,
    WATCH_PERIOD,
)
from osc_ros.control.safety.safety import CHANGED, ENDS, gate_views, NEEDED, REJECTED
from osc_ros.control.safety.tables import CAUSES, GATE, GATE_RESULT, SAMPLE, SILENT, TORQUE, WAITS
from osc_ros.control.step.step import example_table, sense, step
from osc_ros.control.step.tick_arrays import given_in, guarded_in
from osc_ros.dynamics.algebra.vectors import assign

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

ROWS = 16  # number of answered states after which Python must process their records

_views, _sample_views = ANSWER.views, SAMPLE.views
_fault_views, _torque_views = GATE_RESULT.only('count', 'faults'), TORQUE.views
_cause_views = CAUSES.only('cause', 'reaction', 'watches')
_newest_views, _met_views = GATE.only('time', 'came'), CONTACT.only('value')


@inlined
def _put_acting(state, at, n):
    """Write the active cause, its reaction, and the time since its watchdog had an input [s]."""
    causes = _cause_views(state, n)
    number = int(causes.cause[0])
    at.acting[0], at.acting[1] = number, causes.reaction[0]
    at.acting[2] = causes.watches[number, SILENT] if number >= 0 else 0.0


@inlined
def put_answer(entry, table, at, n):
    """
    Answer the state of a record by `step`; write the results to the record; return step's code.

    `entry` is the address of `osc_ros.control.step.step.step`; `at` are views of ANSWER, of which
    `time`, `q`, `qd`, `effort` and `now` are read; n joints. The caller writes `done`, and calls
    `put_touch` unless the code is REJECTED. `tau` is NaN if there are no torques to send.

    """
    guarded = guarded_in(table)
    sample, found = _sample_views(guarded.sample, n), _torque_views(guarded.result, n)
    sample.time[0], sample.now[0] = at.time[0], at.now[0]
    assign(sample.q, at.q)
    assign(sample.qd, at.qd)
    assign(sample.effort, at.effort)
    code = step_at(entry, table, at.tau)
    at.accepted[0] = gate_views(guarded.state, n).time[0]
    gate = _fault_views(guarded.result, n)
    _put_acting(guarded.state, at, n)
    at.code[0], at.count[0] = code, gate.count[0]
    for k in range(int(gate.count[0])):
        assign(at.faults[k], gate.faults[k])
    at.touch[0], at.changed[0], at.asks[0] = found.touch[0], found.has_changed[0], found.asks[0]
    assign(at.tau, found.tau)
    if code != REJECTED:
        assign(view(at.pose, 0, (16,)), view(found.pose, 0, (16,)))
        assign(at.error, found.error)
        assign(at.F, found.F)
    return code


@inlined
def put_watch(watch_entry, answer_entry, table, at, n):
    """
    Find the reaction, and its torques, if no state has come: the compiled `Engine.watch`.

    The entries are the addresses of `watch` and `answer` of `osc_ros.control.safety.safety`; `at`
    are views of ANSWER, of which `now` is read. The caller writes `done`. Returns the code of
    `watch`.

    """
    given, guarded, now = given_in(table), guarded_in(table), at.now[0]
    found = watch_at(watch_entry, guarded.plan, guarded.state, now, WATCH_PERIOD)
    at.code[0], at.changed[0] = UNASKED, found & CHANGED
    at.touch[0], at.count[0] = NOT_TOUCHED, 0.0
    at.asks[0] = WAITS if found & ENDS else 0.0
    _put_acting(guarded.state, at, n)
    gate = _newest_views(guarded.state, n)
    at.accepted[0], at.arrived[0] = gate.time[0], gate.came[0]
    for i in range(n):
        at.tau[i] = np.nan
    if found & NEEDED:
        answer_at(answer_entry, (given.model, given.model_numbers, given.model_room, guarded.plan,
                                 guarded.state, guarded.result, now, view(at.tau, 0, (0,))))
        assign(at.tau, _torque_views(guarded.result, n).tau)
    return found


@inlined
def put_touch(entry, table, at, n):
    """Detect a contact by `sense` of `control.step.step`, after the torques have been sent."""
    at.touch[0] = sense_at(entry, table)
    at.met[0] = _met_views(guarded_in(table).contact, n).value[0]


@kernel
def answer(entry, table, row, n):
    """Call `put_answer` with a row of ANSWER; return whether torques must be sent."""
    at = _views(row, n)
    put_answer(entry, table, at, n)
    return np.isfinite(at.tau[0])


@kernel
def is_done(entry, table, row, n):
    """Detect a contact after the torques were sent; return whether Python need not do anything."""
    at = _views(row, n)
    if at.code[0] == REJECTED:
        return False
    put_touch(entry, table, at, n)
    return at.count[0] == 0.0 and at.touch[0] == NOT_TOUCHED and at.asks[0] == 0.0


class Answering:
    """Answers joint states of n joints in compiled code, and buffers ROWS answers for Python."""

    def __init__(self, n: int) -> None:
        _compile()
        self._n, self._entry, self._sense, self._count = n, entry_of(step), entry_of(sense), 0
        self._rows = np.zeros((ROWS, ANSWER.size(n)))
        self._at = [ANSWER.of(row, n) for row in self._rows]

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full: call `take_answers` before the next state."""
        return self._count == ROWS

    def answer(self, table: Integers, state: tuple[float, Array, Array, tuple[int, int], float],
               effort: Array | None, now: float) -> Array | None:
        """
        Return the torques (n,) for a state [N·m, N]; None if none are to be sent.

        Call `is_plain` after sending them. `state` is (time, q, qd, stamp, arrived), see
        `osc_ros.loop.engine.Engine.update`; `now` is the present time on the clock of the loop
        [s].

        """
        at = self._at[self._count]
        at.time[0], at.q[:], at.qd[:], (at.sec[0], at.nanosec[0]), at.arrived[0] = state
        at.effort[:] = np.nan if effort is None else effort
        at.now[0] = at.done[0] = now
        has_torques = answer(self._entry, table, self._rows[self._count], self._n)
        self._count += 1
        return at.tau if has_torques else None

    @property
    def answered_stamp(self) -> tuple[int, int] | None:
        """Stamp of the newest answered state; None if its clock is in doubt (`doubts_clock`)."""
        at = self._at[self._count - 1]
        return (None if plain(doubts_clock)(at.code[0], at.faults, at.count[0])
                else (int(at.sec[0]), int(at.nanosec[0])))

    def is_plain(self, table: Integers, done: float) -> bool:
        """
        Store the time at which torques were sent [s]; detect a contact.

        Return whether Python need not do anything for the state before the next one.

        """
        self._at[self._count - 1].done[0] = done
        return bool(is_done(self._sense, table, self._rows[self._count - 1], self._n))

    def take_answers(self) -> Answers | None:
        """
        Return copies of the buffered records of answered states, and empty the buffer.

        None if there are no records.

        """
        count, self._count = self._count, 0
        return Answers(self._rows[:count].copy(), self._n) if count else None


@cache
def _compile() -> None:
    """Compile or load the kernels once per process; other argument types then raise TypeError."""
    table, row = example_table(), ANSWER.zeros(1)
    with unlocked():
        answer(entry_of(step), table, row, 1)
        is_done(entry_of(sense), table, row, 1)
    lock(answer)
    lock(is_done)
