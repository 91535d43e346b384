# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Joint states answered over DDS in compiled code: what Python gives `serve`, and takes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import ctypes
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rclpy.publisher import Publisher

from osc_ros.control.answered import ANSWER, Answers, WATCH_PERIOD
from osc_ros.control.answering import Answering
from osc_ros.control.safety import answer, watch
from osc_ros.control.step import sense, step
from osc_ros.dynamics.addresses import address_of, entry_of
from osc_ros.model.robot import Robot
from osc_ros.nodes.commands import empty_command, HOLD_LABEL
from osc_ros.nodes.inbox import Inbox
from osc_ros.nodes.serialized_states import SEC
from osc_ros.nodes.serving import (
    BEGUN,
    compile_serve,
    CONCLUDED,
    COUNTERS,
    ENDED,
    LABEL,
    LEAVE,
    LENGTH,
    NANO_DIGITS,
    PLAN,
    REACT,
    Reading,
    serve,
    STEP,
    UNASKED_VALUES,
    VALUES,
    WRITTEN,
)
from osc_ros.nodes.states import StateInput

Integers = NDArray[np.int64]

ROWS = 4096  # of the ring: 8 s at 500 Hz
LARGEST = 2**16  # bytes for which a message has room from the start
NUMBER = 8  # bytes
MUTEX_SIZE = 16  # integers: room for a pthread_mutex_t
INHERITS = 1  # PTHREAD_PRIO_INHERIT: who holds the mutex has the priority of who waits for it


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
        if f'/{name}.so' in line:
            return ctypes.CDLL(line.split(maxsplit=5)[-1])
    raise OSError(f'{name} is not loaded')


def _addresses(library: ctypes.CDLL, *names: str) -> list[int]:
    """Addresses of functions; AttributeError if the library lacks one."""
    return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]


def compile_kernels(robot: Robot) -> None:
    """Compile or load all kernels that answer joint states over DDS, but for those of a law."""
    StateInput(robot, 'auto', _ignore, _ignore)
    Answering(robot.n)
    compile_serve()


def _ignore(text: str) -> None:
    """Do nothing."""


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
    period : float
        Expected time between states [s].

    Attributes
    ----------
    table : (TABLE_ROWS, 2) int, optional
        That of `osc_ros.control.step.step`, by which `run` answers; None: Python answers.

    Raises
    ------
    OSError, AttributeError
        This process has not loaded librcl, or a function is missing in it.

    """

    def __init__(self, inbox: Inbox, publisher: Publisher, order: NDArray[np.intp],
                 period: float) -> None:
        compile_serve()
        self._n, self._order = len(order), np.array(order, dtype=np.int64)
        rcl, utilities = _library('librcl'), _library('librcutils')
        default = utilities.rcutils_get_default_allocator
        default.restype = _Allocator
        self._inbound, self._outbound, self._unasked = _Message(), _Message(), _Message()
        for message in (self._inbound, self._outbound, self._unasked):
            message.allocator = default()
        self._utilities, self._guard, self._publisher = utilities, inbox.guard, publisher.handle
        self._system, self._mutex = _library('libc'), np.zeros(MUTEX_SIZE, dtype=np.int64)
        attributes = ctypes.byref(ctypes.c_int64())
        self._system.pthread_mutexattr_init(attributes)
        self._system.pthread_mutexattr_setprotocol(attributes, INHERITS)
        self._at_mutex = ctypes.c_void_p(address_of(self._mutex))
        self._system.pthread_mutex_init(self._at_mutex, attributes)
        if utilities.rcutils_uint8_array_resize(ctypes.byref(self._inbound),
                                                ctypes.c_size_t(LARGEST)):
            raise OSError('no memory for a message')
        self._time, self._plan = np.zeros(2, dtype=np.int64), np.zeros(len(PLAN), dtype=np.int64)
        self._plan[:STEP] = (
            *_addresses(rcl, 'rcl_wait', 'rcl_wait_set_clear', 'rcl_wait_set_add_subscription',
                        'rcl_wait_set_add_guard_condition', 'rcl_take_serialized_message',
                        'rcl_publish_serialized_message', 'rcl_context_is_valid'),
            *_addresses(self._system, 'clock_gettime', 'pthread_mutex_lock',
                        'pthread_mutex_unlock'), inbox.context.pointer, inbox.waiting.pointer,
            inbox.subscription.pointer, inbox.guard.pointer, self._publisher.pointer,
            ctypes.addressof(self._inbound), ctypes.addressof(self._outbound),
            ctypes.addressof(self._unasked), address_of(self._time), self._at_mutex.value)
        self._plan[STEP:REACT + 1] = [*map(entry_of, (step, sense, watch, answer))]
        self._ring = np.zeros((ROWS, ANSWER.size(self._n)))
        self._shared = np.zeros(len(COUNTERS), dtype=np.int64)
        between = min(WATCH_PERIOD, period)
        self._times = np.array([0.0, 2.0 * between, between, np.inf])
        self.table: Integers | None = None
        self._hold, at, self._plan[UNASKED_VALUES] = self._filled(self._unasked, len(HOLD_LABEL))
        self._hold[at:at + len(HOLD_LABEL)] = list(HOLD_LABEL.encode())
        self._prepare(10)

    def close(self) -> None:
        """Release the memory; no call may be in progress."""
        self._utilities.rcutils_uint8_array_fini(ctypes.byref(self._inbound))

    def _prepare(self, digits: int) -> None:
        """Make room for commands whose label has a number of digits before the point."""
        length = digits + NANO_DIGITS
        self._out, label, values = self._filled(self._outbound, length)
        self._out[label + digits] = ord('.')
        self._plan[LABEL:VALUES + 1] = address_of(self._out) + label, length, values

    def _filled(self, message: _Message, length: int) -> tuple[NDArray[np.uint8], int, int]:
        """
        Let a message point to a new command of zeros.

        Returns the memory of this command, which the caller keeps; the index of the label in it;
        the address of the numbers.

        Parameters
        ----------
        message : _Message
        length : int
            Number of characters of the label.

        """
        data, label_at, values_at = empty_command(self._n, length)
        start = -values_at % NUMBER  # numbers lie at multiples of their size
        out = np.zeros(start + len(data), dtype=np.uint8)
        out[start:] = data
        message.buffer = address_of(out) + start
        message.length = message.capacity = len(data)
        return out, start + label_at, address_of(out) + start + values_at

    def begin(self, table: Integers | None) -> None:
        """Set the table for `run`; the records must not change unless they are held."""
        self.table, self._shared[LEAVE] = table, 0

    def run(self, reading: Reading, until: float, longest: float) -> int:
        """
        Run `serve` until Python has work; return its result, which says what work.

        Parameters
        ----------
        reading : Reading
        until : float
            When to look for a reaction if no state comes, by `perf_counter` [s].
        longest : float
            Longest time for a torque [s].

        """
        digits = len(str(max(reading.record[SEC], 0)))
        if digits != self._plan[LENGTH] - NANO_DIGITS:
            self._prepare(digits)
        self._times[0], self._times[3] = until, longest
        with self._publisher:
            return int(serve(self._plan, reading, self._order, self.table, self._ring,
                             self._shared, self._times))

    @property
    def message(self) -> bytes:
        """The message that was taken last."""
        return ctypes.string_at(self._inbound.buffer, self._inbound.length)

    def interrupt(self) -> None:
        """Let the present call return at once, and the next one before `begin`."""
        self._shared[LEAVE] = 1
        self._guard.trigger_guard_condition()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within this context no state is answered: one that comes waits."""
        self._system.pthread_mutex_lock(self._at_mutex)
        try:
            yield
        finally:
            self._system.pthread_mutex_unlock(self._at_mutex)

    @property
    def steps(self) -> int:
        """Number of steps so far; -1 during a step, which changes the records of the engine."""
        ended = int(self._shared[ENDED])
        return ended if self._shared[BEGUN] == ended else -1

    def answered(self) -> Answers | None:
        """Return copies of what was answered since the last time; None if nothing was."""
        last = int(self._shared[WRITTEN])
        if last == self._shared[CONCLUDED]:
            return None
        rows = self._ring[np.arange(self._shared[CONCLUDED], last) % ROWS]
        self._shared[CONCLUDED] = last
        return Answers(rows, self._n)
