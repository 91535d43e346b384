# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Joint states answered over DDS in compiled code, without the interpreter and its lock.

One call waits for a state, takes and reads the message, computes the torques, publishes them, and
goes on until Python has work: another thread waits, a state cannot be answered by the compiled
tick, none has come in time. What was answered stands in a ring, from which Python concludes it.
The functions of rcl are called by their addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
import ctypes
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rclpy.publisher import Publisher

from osc_ros.control.answered import ANSWER, Answered, answered
from osc_ros.control.compiled_tick import given_in, sense, step
from osc_ros.control.tables import GATE_RESULT, SAMPLE, TORQUE
from osc_ros.dynamics.addresses import (
    address_of,
    bytes_at,
    c_at,
    entry_of,
    integers_at,
    numbers_at,
    tick_at,
)
from osc_ros.dynamics.compiled import ahead, inlined, lock, released, view
from osc_ros.dynamics.vectors import assign
from osc_ros.nodes.commands import empty_command
from osc_ros.nodes.inbox import Inbox
from osc_ros.nodes.serialized_states import BAD, COUNTS, FINITE, NAMES, NANOSEC, READ, read, SEC

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

ROWS = 512  # of the ring: one second at 500 Hz
LARGEST = 2**16  # bytes for which a message has room from the start
NANO_DIGITS = 10  # characters of a label after its seconds
NUMBER = 8  # bytes
CLOCK_REALTIME, CLOCK_MONOTONIC = 0, 1
# Entries of the plan of a call: functions, then objects of rcl, then kernels.
PLAN = (WAIT, CLEAR, ADD_SUBSCRIPTION, ADD_GUARD, TAKE, PUBLISH, CLOCK, WAIT_SET, SUBSCRIPTION,
        GUARD, PUBLISHER, INBOUND, OUTBOUND, TIME, TICK, SENSE, LABEL, LENGTH, VALUES, NONZERO
        ) = range(20)
LEAVE, WRITTEN, CONCLUDED = range(3)  # entries of the shared counters
# Why a call returns: another thread waits; no state came in time; the message is left to Python,
# the last state is; the ring is full; a function of rcl has failed.
ASKED, OVERDUE, UNREAD, LEFT, FULL, FAILED, GO_ON = range(7)

_views = ANSWER.views
_sample_views, _fault_views = SAMPLE.views, GATE_RESULT.only('count')
_torque_views = TORQUE.views


class Reading(NamedTuple):
    """Arrays of `osc_ros.nodes.serialized_states.read`."""

    known: NDArray[np.uint8]
    places: Integers
    words: NDArray[np.uint64]
    record: Integers


@inlined
def _clock(plan, which):
    """Time of a clock of the system [s]."""
    c_at(plan[CLOCK], (np.int64(which), plan[TIME]))
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
    """Read the message that was taken; return whether it is a plain state with velocities."""
    inbound = integers_at(plan[INBOUND], 2)
    data, record = bytes_at(inbound[0], inbound[1]), reading.record
    if len(data) < 4 or data[0] != 0 or data[1] != 1:  # not plain little-endian CDR
        return False
    if read(data, reading.known, reading.places, reading.words, record) != READ:
        return False
    for field in range(2):
        if record[COUNTS + field] != record[NAMES] or record[BAD + field] != FINITE:
            return False
    if plan[NONZERO] == 0:
        return True
    for i in range(reading.words.shape[1]):
        if reading.words[1, i] << np.uint64(1) != 0:  # without the sign
            return True
    return False


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
def _answer(plan, reading, order, table, at, arrived):
    """Answer the message that was taken; return the number of the reason to leave, or GO_ON."""
    n, record = len(order), reading.record
    given, values = given_in(table), reading.words.view(np.float64)
    sample, found = _sample_views(given.sample, n), _torque_views(given.result, n)
    at.time[0] = sample.time[0] = record[SEC] + 1e-9 * record[NANOSEC]
    at.sec[0], at.nanosec[0], at.arrived[0] = record[SEC], record[NANOSEC], arrived
    at.wall[0] = _clock(plan, CLOCK_REALTIME)
    assign(at.q, values[0])
    assign(at.qd, values[1])
    for i in range(n):
        at.effort[i] = values[2, i] if record[COUNTS + 2] == record[NAMES] else np.nan
    assign(sample.q, at.q)
    assign(sample.qd, at.qd)
    assign(sample.effort, at.effort)
    at.now[0] = sample.now[0] = _clock(plan, CLOCK_MONOTONIC)
    code = tick_at(plan[TICK], table, 0.0, at.q, at.qd, at.tau)
    status = 0
    if code >= 0:
        sent = numbers_at(plan[VALUES], n)
        for i in range(n):
            sent[i] = found.tau[order[i]]
        status = c_at(plan[PUBLISH], (plan[PUBLISHER], plan[OUTBOUND], np.int64(0)))
    at.done[0] = _clock(plan, CLOCK_MONOTONIC)
    at.code[0], at.faults[0] = code, _fault_views(given.result, n).count[0]
    if code < 0:
        return LEFT
    assign(at.tau, found.tau)
    assign(view(at.pose, 0, (16,)), view(found.pose, 0, (16,)))
    assign(at.error, found.error)
    assign(at.F, found.F)
    at.touch[0] = tick_at(plan[SENSE], table, 0.0, at.q, at.qd, at.tau)
    if status != 0:
        return FAILED
    return LEFT if at.faults[0] > 0.0 or found.asks[0] > 0.0 else GO_ON


@released
def serve(plan, reading, order, table, ring, shared, times):
    """
    Answer joint states until Python has work; return why.

    Parameters
    ----------
    plan : (20,) int
        See PLAN: addresses, the last ones of the label and the values of the command; the length
        of the label; 1 if velocities that are all zero are left to Python.
    reading : Reading
    order : (n,) int
        For each entry of a command, the index of its joint.
    table : (21, 2) int
        Of the tick, see `osc_ros.control.compiled_tick.chain_torque`.
    ring : (ROWS, …)
        Records of ANSWER.
    shared : (3,) int
        LEAVE: number of threads that wait; WRITTEN, CONCLUDED: numbers of answers so far.
    times : (3,)
        When the call ends if no state comes; how long it waits after a state; the longest time
        for a torque [s].

    """
    n, until = len(order), times[0]
    while True:
        if shared[LEAVE] > 0:
            return ASKED
        if shared[WRITTEN] - shared[CONCLUDED] >= len(ring):
            return FULL
        remaining = until - _clock(plan, CLOCK_MONOTONIC)
        if remaining <= 0.0:
            return OVERDUE
        status = _wait(plan, remaining)
        if status != 0 and status != 2:  # not RCL_RET_OK, nor RCL_RET_TIMEOUT
            return FAILED
        if shared[LEAVE] > 0:
            return ASKED
        nothing = np.int64(0)
        if c_at(plan[TAKE], (plan[SUBSCRIPTION], plan[INBOUND], nothing, nothing)) != 0:
            continue
        arrived = _clock(plan, CLOCK_MONOTONIC)
        if not _reads(plan, reading) or not _puts_label(plan, reading.record):
            return UNREAD
        at = _views(ring[shared[WRITTEN] % len(ring)], n)
        why = _answer(plan, reading, order, table, at, arrived)
        shared[WRITTEN] += 1
        if why != GO_ON:
            return why
        if at.done[0] - at.now[0] > times[2]:
            return LEFT
        until = arrived + times[1]


class _Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in (
        'allocate', 'deallocate', 'reallocate', 'zero_allocate', 'state')]


class _Message(ctypes.Structure):
    """rcutils_uint8_array_t, which is rcl_serialized_message_t."""

    _fields_ = [('buffer', ctypes.c_void_p), ('length', ctypes.c_size_t),
                ('capacity', ctypes.c_size_t), ('allocator', _Allocator)]


def _library(name: str) -> ctypes.CDLL:
    """A library that this process has loaded; OSError if it has none of that name."""
    for line in Path('/proc/self/maps').read_text(encoding='utf-8').splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith(f'{name}.so'):
            return ctypes.CDLL(path)
    raise OSError(f'{name} is not loaded')


def _addresses(library: ctypes.CDLL, *names: str) -> list[int]:
    """Addresses of functions; AttributeError if the library lacks one."""
    return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]


class Served:
    """
    Answers the joint states of an inbox in compiled code.

    Parameters
    ----------
    inbox : Inbox
        Of serialized joint states.
    publisher : rclpy.publisher.Publisher
        Of the commands; it stays as long as this object.
    order : (n,) int
        For each entry of a command, the index of its joint in the robot.
    longest : float
        How long a call waits for a state after one [s].

    Raises
    ------
    OSError, AttributeError
        The functions of rcl cannot be called in this process.

    """

    def __init__(self, inbox: Inbox, publisher: Publisher, order: NDArray[np.intp],
                 longest: float) -> None:
        _compile()
        self._n, self._order = len(order), np.array(order, dtype=np.int64)
        rcl, utilities = _library('librcl'), _library('librcutils')
        default = utilities.rcutils_get_default_allocator
        default.restype = _Allocator
        self._inbound, self._outbound = _Message(), _Message()
        self._inbound.allocator = self._outbound.allocator = default()
        self._utilities, self._guard, self._publisher = utilities, inbox.guard, publisher.handle
        if utilities.rcutils_uint8_array_resize(ctypes.byref(self._inbound),
                                                ctypes.c_size_t(LARGEST)):
            raise OSError('no memory for a message')
        self._time, self._plan = np.zeros(2, dtype=np.int64), np.zeros(len(PLAN), dtype=np.int64)
        self._plan[:TICK] = (
            *_addresses(rcl, 'rcl_wait', 'rcl_wait_set_clear', 'rcl_wait_set_add_subscription',
                        'rcl_wait_set_add_guard_condition', 'rcl_take_serialized_message',
                        'rcl_publish_serialized_message'),
            *_addresses(_library('libc'), 'clock_gettime'), inbox.waiting.pointer,
            inbox.subscription.pointer, inbox.guard.pointer, self._publisher.pointer,
            ctypes.addressof(self._inbound), ctypes.addressof(self._outbound),
            address_of(self._time))
        self._plan[TICK], self._plan[SENSE] = entry_of(step), entry_of(sense)
        self._ring = np.zeros((ROWS, ANSWER.size(self._n)))
        self._shared, self._times = np.zeros(3, dtype=np.int64), np.array([0.0, longest, np.inf])
        self._counting = Lock()
        self._prepare(10)

    def close(self) -> None:
        """Release the memory; no call may be in progress."""
        self._utilities.rcutils_uint8_array_fini(ctypes.byref(self._inbound))

    def _prepare(self, digits: int) -> None:
        """Make room for commands whose label has a number of digits before the point."""
        data, label_at, values_at = empty_command(self._n, digits + NANO_DIGITS)
        start = -values_at % NUMBER  # numbers lie at multiples of their size
        self._out = np.zeros(start + len(data), dtype=np.uint8)
        self._out[start:] = data
        self._out[start + label_at + digits] = ord('.')
        first = address_of(self._out) + start
        self._outbound.buffer = first
        self._outbound.length = self._outbound.capacity = len(data)
        self._plan[LABEL:NONZERO] = first + label_at, digits + NANO_DIGITS, first + values_at

    def run(self, reading: Reading, table: Integers, until: float, longest: float,
            takes_zeros: bool) -> int:
        """
        Answer joint states until Python has work; return why, see `serve`.

        Parameters
        ----------
        reading : Reading
        table : (22, 2) int
            See `osc_ros.control.compiled_tick.step`.
        until : float
            When the call ends if no state comes, by `perf_counter` [s].
        longest : float
            Longest time for a torque [s].
        takes_zeros : bool
            Whether velocities that are all zero are taken for those of an arm at rest.

        """
        seconds = reading.record[SEC]
        if len(str(max(seconds, 0))) != self._plan[LENGTH] - NANO_DIGITS:
            self._prepare(len(str(max(seconds, 0))))
        self._times[0], self._times[2], self._plan[NONZERO] = until, longest, not takes_zeros
        with self._publisher:
            return int(serve(self._plan, reading, self._order, table, self._ring, self._shared,
                             self._times))

    @property
    def is_interrupted(self) -> bool:
        """Whether a call would return at once."""
        return bool(self._shared[LEAVE] > 0)

    @property
    def message(self) -> bytes:
        """The message that was taken last."""
        return ctypes.string_at(self._inbound.buffer, self._inbound.length)

    def interrupt(self) -> None:
        """Let the present call and following ones return at once, until `resume`."""
        with self._counting:
            self._shared[LEAVE] += 1
        self._guard.trigger_guard_condition()

    def resume(self) -> None:
        """Undo an `interrupt`."""
        with self._counting:
            self._shared[LEAVE] -= 1

    def answered(self) -> Iterator[Answered]:
        """Yield copies of what was answered since the last time, oldest first."""
        while self._shared[CONCLUDED] < self._shared[WRITTEN]:
            row = self._ring[self._shared[CONCLUDED] % ROWS].copy()
            self._shared[CONCLUDED] += 1
            yield answered(row, self._n)


@ahead
def _compile() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    reading = Reading(np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64),
                      np.zeros((3, 1), dtype=np.uint64), np.zeros(10, dtype=np.int64))
    integers = np.zeros((22, 2), dtype=np.int64)
    shared = np.array([1, 0, 0])  # interrupted: returns at once
    serve(np.zeros(len(PLAN), dtype=np.int64), reading, integers[:1, 0].copy(), integers,
          np.zeros((1, ANSWER.size(1))), shared, np.zeros(3))
    lock(serve)
