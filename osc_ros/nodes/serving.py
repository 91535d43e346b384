# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Joint states answered over DDS in one compiled function, without the interpreter and its lock.

It waits for a state, takes and reads the message, computes the torques, publishes them, and goes
on until Python has work: another thread waits, or a state cannot be answered by the compiled tick.
If no state comes in time, it sends the torques of the supervisor. What was answered stands in a
ring, from which Python concludes it. The functions of rcl are called by their addresses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.answered import ANSWER
from osc_ros.control.answering import is_plain, put_answer, put_watch
from osc_ros.control.safety import ENDS, NEEDED, REJECTED
from osc_ros.control.tick_arrays import TABLE_ROWS
from osc_ros.control.velocity import find_velocity, FOUND, undo_velocity, VELOCITY
from osc_ros.dynamics.addresses import (
    bytes_at,
    c_at,
    integers_at,
    numbers_at,
    sense_at,
)
from osc_ros.dynamics.compiled import ahead, inlined, lock, released, view
from osc_ros.dynamics.vectors import assign
from osc_ros.nodes.serialized_states import BAD, COUNTS, FINITE, NAMES, NANOSEC, READ, read, SEC

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

NANO_DIGITS = 10  # characters of a label after its seconds
MONOTONIC = np.int64(1)  # the clock of `time.perf_counter`, for clock_gettime
# Entries of the plan of a call: functions, then objects of rcl, then kernels.
PLAN = (WAIT, CLEAR, ADD_SUBSCRIPTION, ADD_GUARD, TAKE, PUBLISH, IS_VALID, CLOCK, LOCK, UNLOCK,
        CONTEXT, WAIT_SET, SUBSCRIPTION, GUARD, PUBLISHER, INBOUND, OUTBOUND, UNASKED_OUTBOUND,
        TIME, MUTEX, STEP, SENSE, WATCH, REACT, UNASKED_VALUES, LABEL, LENGTH, VALUES,
        ) = range(28)
# Entries of the shared counters: 1 if the call must end; answers that were written, and concluded;
# steps that were begun, and ended: while they differ, the records of the controller change.
COUNTERS = LEAVE, WRITTEN, CONCLUDED, BEGUN, ENDED = range(5)
# Why `serve` returns: another thread wants it, or the context of ROS has ended; Python must read
# the message that was taken; Python must conclude the last answer before the next one; the ring is
# full; a function of rcl has failed.
ASKED, UNREAD, LEFT, FULL, FAILED, GO_ON = range(6)

_views = ANSWER.views


class Reading(NamedTuple):
    """Arrays of `osc_ros.nodes.serialized_states.read`, then of `velocity.find_velocity`."""

    known: NDArray[np.uint8]
    places: Integers
    words: NDArray[np.uint64]
    record: Integers
    velocity: Array


@inlined
def _clock(plan):
    """Time on the clock of the loop [s]."""
    c_at(plan[CLOCK], (MONOTONIC, plan[TIME]))
    found = integers_at(plan[TIME], 2)
    return found[0] + 1e-9 * found[1]


@inlined
def _wait(plan, seconds):
    """Wait for a message or the guard condition; return the status of rcl."""
    waiting, nothing = plan[WAIT_SET], np.int64(0)
    status = c_at(plan[CLEAR], (waiting,))
    status |= c_at(plan[ADD_SUBSCRIPTION], (waiting, plan[SUBSCRIPTION], nothing))
    status |= c_at(plan[ADD_GUARD], (waiting, plan[GUARD], nothing))
    if status != 0:
        return status
    return c_at(plan[WAIT], (waiting, np.int64(1e9 * max(seconds, 0.0))))


@inlined
def _reads(plan, reading):
    """Read the message that was taken; return whether it is a plain state."""
    inbound = integers_at(plan[INBOUND], 2)
    data, record = bytes_at(inbound[0], inbound[1]), reading.record
    if len(data) < 4 or data[0] != 0 or data[1] != 1:  # not plain little-endian CDR
        return False
    if read(data, reading.known, reading.places, reading.words, record) != READ:
        return False
    return _has(record, 0)


@inlined
def _has(record, field):
    """Whether the message has finite numbers of a field for all its names."""
    return record[COUNTS + field] == record[NAMES] and record[BAD + field] == FINITE


@inlined
def _puts_state(reading, at, arrived):
    """Write the state that was read to its answer; return whether its velocities are known."""
    n, record, values = len(at.q), reading.record, reading.words.view(np.float64)
    at.sec[0], at.nanosec[0], at.arrived[0] = record[SEC], record[NANOSEC], arrived
    at.time[0] = record[SEC] + 1e-9 * record[NANOSEC]
    assign(at.q, values[0])
    for i in range(n):
        at.effort[i] = values[2, i] if record[COUNTS + 2] == record[NAMES] else np.nan
    return FOUND == find_velocity(
        reading.velocity, at.time[0], at.q,
        view(values[1], 0, (n if _has(record, 1) else 0,)), False, at.qd)


@inlined
def _puts_label(plan, record):
    """Write the label of a command; return False if it has another length than before."""
    out, seconds = bytes_at(plan[LABEL], plan[LENGTH]), record[SEC]
    digits = plan[LENGTH] - NANO_DIGITS
    if seconds < 0:
        return False
    for k in range(digits):
        out[digits - 1 - k] = 48 + seconds % 10
        seconds //= 10
    if seconds > 0 or digits > 1 and out[0] == 48:
        return False
    nano = record[NANOSEC]
    for k in range(9):
        out[digits + 9 - k] = 48 + nano % 10
        nano //= 10
    return True


@inlined
def _publish(plan, message, values, order, tau):
    """Publish torques tau (n,) in a message whose numbers are at an address; return the status."""
    sent = numbers_at(values, len(order))
    for i in range(len(order)):
        sent[i] = tau[order[i]]
    return c_at(plan[PUBLISH], (plan[PUBLISHER], message, np.int64(0)))


@inlined
def _answer(plan, reading, order, table, at):
    """Answer a state; return the number of the reason to leave, or GO_ON."""
    n, status = len(order), 0
    at.now[0] = _clock(plan)
    code = put_answer(plan[STEP], table, at, n)
    if code == REJECTED:
        undo_velocity(reading.velocity, n)
    if code >= 0:
        status = _publish(plan, plan[OUTBOUND], plan[VALUES], order, at.tau)
    at.done[0] = _clock(plan)
    if code < 0:
        return LEFT
    at.touch[0] = sense_at(plan[SENSE], table)
    if status != 0:
        return FAILED
    return GO_ON if is_plain(at) else LEFT


@inlined
def _watch(plan, order, table, at):
    """Look for a reaction although no state has come; return the reason to leave, or GO_ON."""
    status = 0
    at.now[0] = _clock(plan)
    found = put_watch(plan[WATCH], plan[REACT], table, at, len(order))
    if found & NEEDED:
        status = _publish(plan, plan[UNASKED_OUTBOUND], plan[UNASKED_VALUES], order, at.tau)
    at.done[0] = _clock(plan)
    if status != 0:
        return FAILED
    return LEFT if found & ENDS else GO_ON


@released
def serve(plan, reading, order, table, ring, shared, times):
    """
    Answer joint states until Python has work; return why.

    Parameters
    ----------
    plan : (28,) int
        See PLAN: addresses, the last ones of the label and the values of the command; the length
        of the label.
    reading : Reading
    order : (n,) int
        For each entry of a command, the index of its joint.
    table : (TABLE_ROWS, 2) int
        See `osc_ros.control.step.step`.
    ring : (ROWS, …)
        Records of ANSWER.
    shared : (5,) int
        See COUNTERS.
    times : (4,)
        When to look for a reaction if no state comes; how long to wait for one after a state;
        the period of further looks; the longest time for a torque [s].

    """
    n, until, nothing = len(order), times[0], np.int64(0)
    while True:
        if shared[LEAVE] > 0:
            return ASKED
        if shared[WRITTEN] - shared[CONCLUDED] >= len(ring):
            return FULL
        status = _wait(plan, until - _clock(plan))
        if status != 0 and status != 2:  # not RCL_RET_OK, nor RCL_RET_TIMEOUT
            return FAILED
        if shared[LEAVE] > 0:
            return ASKED
        has_come = c_at(plan[TAKE], (plan[SUBSCRIPTION], plan[INBOUND], nothing, nothing)) == 0
        arrived = _clock(plan)
        if has_come:
            if not (_reads(plan, reading) and _puts_label(plan, reading.record)):
                return UNREAD
        elif arrived < until:
            continue
        elif c_at(plan[IS_VALID], (plan[CONTEXT],)) & 1 == 0:
            return ASKED
        c_at(plan[LOCK], (plan[MUTEX],))  # while Python changes the records
        at = _views(ring[shared[WRITTEN] % len(ring)], n)
        if shared[LEAVE] > 0 or has_come and not _puts_state(reading, at, arrived):
            c_at(plan[UNLOCK], (plan[MUTEX],))
            return UNREAD if has_come else ASKED
        shared[BEGUN] += 1
        if has_come:
            why, until = _answer(plan, reading, order, table, at), arrived + times[1]
        else:
            why, until = _watch(plan, order, table, at), arrived + times[2]
        shared[ENDED] += 1
        if has_come or at.changed[0] != 0.0 or np.isfinite(at.tau[0]):
            shared[WRITTEN] += 1
        c_at(plan[UNLOCK], (plan[MUTEX],))
        if why != GO_ON:
            return why
        if at.done[0] - at.now[0] > times[3]:
            return LEFT


@ahead
def compile_serve() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    reading = Reading(np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64),
                      np.zeros((3, 1), dtype=np.uint64), np.zeros(10, dtype=np.int64),
                      VELOCITY.zeros(1))
    integers = np.zeros((TABLE_ROWS, 2), dtype=np.int64)
    shared = np.array([1, 0, 0, 0, 0])  # interrupted: returns at once
    serve(np.zeros(len(PLAN), dtype=np.int64), reading, integers[:1, 0].copy(), integers,
          np.zeros((1, ANSWER.size(1))), shared, np.zeros(4))
    lock(serve)
