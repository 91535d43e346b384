# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Addresses of the functions, objects and messages of rcl that compiled loops use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import ctypes
from pathlib import Path
import sys
from time import sleep

import numpy as np
from numpy.typing import NDArray
from rclpy.publisher import Publisher

from osc_ros.compile.addresses import address_of
from osc_ros.errors import OscError
from osc_ros.ros.dds.inbox import Inbox
from osc_ros.ros.dds.rcl_plan import (
    FIRST,
    GID,
    INBOUND,
    INFO,
    INFO_SIZE,
    LENGTH,
    MORE,
    NANO_DIGITS,
    VALUES,
)
from osc_ros.ros.messages.commands import empty_command

MOST_TOPICS = 2
LARGEST = 2**16  # initial capacity of a received message [bytes]
NUMBER = 8  # [bytes]
MUTEX_SIZE = 16  # size of the memory for a pthread_mutex_t [integers]
SEMAPHORE_SIZE = 8  # size of the memory for a sem_t [integers]
BUSY = 5e-5  # time until another attempt to lock the mutex [s]
STALE = 2e-4  # more than the usual switch interval [s]
UNDISTURBED = 0.002  # switch interval of Python's threads while one of them has the mutex [s]
INHERITS = 1  # PTHREAD_PRIO_INHERIT: the owner of the mutex gets the priority of a waiting thread


class _Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in (
        'allocate', 'deallocate', 'reallocate', 'zero_allocate', 'state')]


class Message(ctypes.Structure):
    """rcutils_uint8_array_t, of which rcl_serialized_message_t is another name."""

    _fields_ = [('buffer', ctypes.c_void_p), ('length', ctypes.c_size_t),
                ('capacity', ctypes.c_size_t), ('allocator', _Allocator)]


def _library(name: str) -> ctypes.CDLL:
    """Return a library that this process has loaded; OscError if there is none of that name."""
    for line in Path('/proc/self/maps').read_text(encoding='utf-8').splitlines():
        if f'/{name}.so' in line:
            return ctypes.CDLL(line.split(maxsplit=5)[-1])
    raise OscError(f'the library {name} is not loaded: its functions answer the joint states')


def _addresses(library: ctypes.CDLL, *names: str) -> list[int]:
    """Return the addresses of functions; OscError if the library lacks one."""
    if missing := [name for name in names if not hasattr(library, name)]:
        raise OscError(f"{library._name} lacks {', '.join(missing)}: joint states are answered by "
                       'the functions of rcl of ROS 2 Humble and later')
    return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]


_usual = sys.getswitchinterval()  # switch interval outside of `_undisturbed`


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Context in which other threads wait for UNDISTURBED before they request the GIL."""
    global _usual
    if (interval := sys.getswitchinterval()) < 0.5 * UNDISTURBED:
        _usual = interval  # a longer one was set by another thread in this context
    sys.setswitchinterval(UNDISTURBED)
    try:
        yield
    finally:
        sys.setswitchinterval(_usual)


class RclCalls:
    """Addresses by which compiled code takes an inbox's messages, and publishes n torques."""

    def __init__(self, inbox: Inbox, publisher: Publisher, n: int, more: int) -> None:
        # The publisher must exist as long as this object. OscError: librcl is not loaded, or lacks
        # a function.
        self._n, self._inbox, self._publisher = n, inbox, publisher.handle
        rcl, self._utilities = _library('librcl'), _library('librcutils')
        self._system, self._mutex = _library('libc'), np.zeros(MUTEX_SIZE, dtype=np.int64)
        attributes = ctypes.byref(ctypes.c_int64())
        self._system.pthread_mutexattr_init(attributes)
        self._system.pthread_mutexattr_setprotocol(attributes, INHERITS)
        self._at_mutex = ctypes.c_void_p(address_of(self._mutex))
        self._system.pthread_mutex_init(self._at_mutex, attributes)
        self._locking = ctypes.PyDLL(self._system._name)
        self._semaphore = np.zeros(SEMAPHORE_SIZE, dtype=np.int64)
        self._at_semaphore = ctypes.c_void_p(address_of(self._semaphore))
        self._system.sem_init(self._at_semaphore, 0, 0)
        default = self._utilities.rcutils_get_default_allocator
        default.restype = _Allocator
        self._default, self._take = default, rcl.rcl_take_serialized_message
        self._inbound = [self.new_message() for _ in range(MOST_TOPICS)]
        for message in self._inbound:
            if self._utilities.rcutils_uint8_array_resize(ctypes.byref(message),
                                                          ctypes.c_size_t(LARGEST)):
                raise OscError('no memory for a message')
        self._outbound, self._time = self.new_message(), np.zeros(2, dtype=np.int64)
        self._labelled: list[tuple[Message, NDArray[np.uint8]]] = []
        self._info = np.zeros(INFO_SIZE, dtype=np.int64)
        self.plan = np.zeros(MORE + more, dtype=np.int64)  # from MORE on: of the caller
        topics = [0] * (2 * MOST_TOPICS)
        topics[:2 * len(inbox.subscriptions):2] = [one.pointer for one in inbox.subscriptions]
        topics[1::2] = map(ctypes.addressof, self._inbound)
        self.plan[:LENGTH] = (
            *_addresses(rcl, 'rcl_wait', 'rcl_wait_set_clear', 'rcl_wait_set_add_subscription',
                        'rcl_wait_set_add_guard_condition', 'rcl_take_serialized_message',
                        'rcl_publish_serialized_message', 'rcl_context_is_valid'),
            *_addresses(self._system, 'clock_gettime', 'pthread_mutex_lock',
                        'pthread_mutex_unlock'), inbox.context.pointer, inbox.waiting.pointer,
            inbox.guard.pointer, self._publisher.pointer, address_of(self._time),
            self._at_mutex.value, address_of(self._info), len(inbox.subscriptions), *topics,
            ctypes.addressof(self._outbound))
        # addresses of sem_post, and of the semaphore of `wait`
        self.semaphore = *_addresses(self._system, 'sem_post'), address_of(self._semaphore)
        self.prepare(10 + NANO_DIGITS)

    def close(self) -> None:
        """Release the memory; no call may be in progress."""
        for message in self._inbound:
            self._utilities.rcutils_uint8_array_fini(ctypes.byref(message))

    def new_message(self) -> Message:
        """Return an empty message."""
        message = Message()
        message.allocator = self._default()
        return message

    def prepare(self, length: int) -> None:
        """Allocate the message of commands whose labels have `length` characters."""
        self._out, label, values = self.fill_message(self._outbound, length)
        digits = length - NANO_DIGITS
        if digits > 0:
            self._out[label + digits] = ord('.')
        self.plan[LENGTH:VALUES + 1] = length, address_of(self._out) + label, values

    def fill_message(self, message: Message, length: int) -> tuple[NDArray[np.uint8], int, int]:
        """Let a message point to a new command of zeros, whose label has `length` characters."""
        # Returns the memory, which the caller must keep; index of the label in it; address of the
        # torques.
        data, label_at, values_at = empty_command(self._n, length)
        start = -values_at % NUMBER  # numbers lie at multiples of their size
        out = np.zeros(start + len(data), dtype=np.uint8)
        out[start:] = data
        message.buffer = address_of(out) + start
        message.length = message.capacity = len(data)
        return out, start + label_at, address_of(out) + start + values_at

    def labelled_command(self, label: str) -> tuple[int, int]:
        """Return the addresses of a new command with this label, and of its torques."""
        # Both are valid as long as this object exists.
        message = self.new_message()
        out, at, values = self.fill_message(message, len(label))
        out[at:at + len(label)] = list(label.encode())
        self._labelled.append((message, out))
        return ctypes.addressof(message), values

    @contextmanager
    def publisher_kept(self) -> Iterator[None]:
        """Return a context in which rclpy does not destroy the publisher."""
        with self._publisher:
            yield

    def message(self, topic: int = 0) -> bytes:
        """Return the message of a topic that was taken last."""
        found = self._inbound[topic]
        return ctypes.string_at(found.buffer, found.length)

    def take(self, topic: int = 0) -> bytes | None:
        """Take the oldest message of a topic within `Inbox.opened`; None if there is none."""
        status = self._take(*map(ctypes.c_void_p, (
            *self.plan[[FIRST + 2 * topic, INBOUND + 2 * topic, INFO]].tolist(), None)))
        return None if status else self.message(topic)

    @property
    def gid(self) -> bytes:
        """GID (16 bytes) of the publisher of the message that was taken last."""
        return self._info[GID:GID + 2].tobytes()

    def wake(self) -> None:
        """Make a waiting call of compiled code check whether it must return."""
        self._inbox.guard.trigger_guard_condition()

    @contextmanager
    def held(self, prepare: Callable[[], None]) -> Iterator[None]:
        """Return a context in which compiled code handles no message; new messages wait."""
        # `prepare` is called before each attempt to lock the mutex. The thread must keep the GIL,
        # or the message would wait for other threads, too: PyDLL locks the mutex without releasing
        # the GIL. Call nothing in this context that releases it.
        with _undisturbed():
            # Other threads may have the GIL before, and not after, this one has the mutex: by now
            # they wait with the new interval, also those that had begun to wait before.
            sleep(STALE)
            prepare()
            while self._locking.pthread_mutex_trylock(self._at_mutex):
                sleep(BUSY)
                prepare()
            try:
                yield
            finally:
                self._locking.pthread_mutex_unlock(self._at_mutex)
        sleep(0.0)

    def wait(self) -> None:
        """Wait on the semaphore: each call of `post` lets one wait return."""
        while self._system.sem_wait(self._at_semaphore):
            pass  # interrupted by a signal

    def post(self) -> None:
        """Let `wait` return once."""
        self._system.sem_post(self._at_semaphore)
