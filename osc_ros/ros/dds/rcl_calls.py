# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The functions, objects and messages of rcl that compiled loops use, by their addresses."""

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
LARGEST = 2**16  # bytes for which a message has room from the start
NUMBER = 8  # bytes
MUTEX_SIZE = 16  # integers: room for a pthread_mutex_t
SEMAPHORE_SIZE = 8  # integers: room for a sem_t
BUSY = 5e-5  # time until another attempt to get the mutex [s]
UNDISTURBED = 0.005  # switch interval of Python's threads while one of them has the mutex [s]
INHERITS = 1  # PTHREAD_PRIO_INHERIT: who holds the mutex has the priority of who waits for it


class _Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in (
        'allocate', 'deallocate', 'reallocate', 'zero_allocate', 'state')]


class Message(ctypes.Structure):
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


_usual = sys.getswitchinterval()  # switch interval outside of `_undisturbed`


@contextmanager
def _undisturbed() -> Iterator[Callable[[float], None]]:
    """Within this context, no thread is asked for the lock; yields a `sleep` without that."""
    def begin() -> None:
        global _usual
        if (interval := sys.getswitchinterval()) < 0.5 * UNDISTURBED:
            _usual = interval  # else a thread in such a context has given the lock up
        sys.setswitchinterval(UNDISTURBED)

    def wait(time: float) -> None:
        sys.setswitchinterval(_usual)
        sleep(time)
        begin()

    begin()
    try:
        yield wait
    finally:
        sys.setswitchinterval(_usual)


class RclCalls:
    """
    The plan by which compiled code takes the messages of an inbox, and publishes commands.

    Attributes
    ----------
    plan : (MORE + k,) int
        See `osc_ros.ros.dds.rcl_plan`; the caller writes the k last entries.
    semaphore : (int, int)
        Addresses of sem_post and of the semaphore for which `wait` waits.

    Parameters
    ----------
    inbox : Inbox
        Of one or two topics.
    publisher : rclpy.publisher.Publisher
        Publisher of the commands; it must exist as long as this object.
    n : int
        Number of torques of a command.
    more : int
        Number k.

    Raises
    ------
    OSError, AttributeError
        This process has not loaded librcl, or a function is missing in it.

    """

    def __init__(self, inbox: Inbox, publisher: Publisher, n: int, more: int) -> None:
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
                raise OSError('no memory for a message')
        self._outbound, self._time = self.new_message(), np.zeros(2, dtype=np.int64)
        self._labelled: list[tuple[Message, NDArray[np.uint8]]] = []
        self._info = np.zeros(INFO_SIZE, dtype=np.int64)
        self.plan = np.zeros(MORE + more, dtype=np.int64)
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
        """Allocate the message of a command whose label has this number of characters."""
        self._out, label, values = self.filled(self._outbound, length)
        digits = length - NANO_DIGITS
        if digits > 0:
            self._out[label + digits] = ord('.')
        self.plan[LENGTH:VALUES + 1] = length, address_of(self._out) + label, values

    def filled(self, message: Message, length: int) -> tuple[NDArray[np.uint8], int, int]:
        """
        Let a message point to a new command of zeros.

        Returns the memory of this command, which the caller keeps; the index of the label in it;
        the address of the numbers.

        Parameters
        ----------
        message : Message
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

    def labelled(self, label: str) -> tuple[int, int]:
        """Addresses of the message of a command with a label, and of its numbers; they last."""
        message = self.new_message()
        out, at, values = self.filled(message, len(label))
        out[at:at + len(label)] = list(label.encode())
        self._labelled.append((message, out))
        return ctypes.addressof(message), values

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Within this context rclpy keeps the publisher."""
        with self._publisher:
            yield

    def message(self, topic: int = 0) -> bytes:
        """The message of a topic that was taken last."""
        found = self._inbound[topic]
        return ctypes.string_at(found.buffer, found.length)

    def take(self, topic: int = 0) -> bytes | None:
        """Take the oldest message of a topic; None if there is none. See `Inbox.opened`."""
        status = self._take(*map(ctypes.c_void_p, (
            *self.plan[[FIRST + 2 * topic, INBOUND + 2 * topic, INFO]].tolist(), None)))
        return None if status else self.message(topic)

    @property
    def gid(self) -> bytes:
        """GID (16 bytes) of the publisher of the message that was taken last."""
        return self._info[GID:GID + 2].tobytes()

    def wake(self) -> None:
        """Let a call that waits look whether it must return."""
        self._inbox.guard.trigger_guard_condition()

    @contextmanager
    def held(self) -> Iterator[None]:
        """
        Within this context compiled code handles no message: one that comes waits.

        This thread must not wait for the interpreter's lock meanwhile: another thread may keep it
        for long, and the message would wait, too. So this thread keeps the lock while it takes
        the mutex (PyDLL does not release it), and Python does not ask it for the lock during the
        context, for up to UNDISTURBED. Calls that release the lock must not be made in it.

        """
        sleep(0.0)  # threads that wait for the interpreter's lock since before count from here
        with _undisturbed() as wait:
            while self._locking.pthread_mutex_trylock(self._at_mutex):
                wait(BUSY)
            try:
                yield
            finally:
                self._locking.pthread_mutex_unlock(self._at_mutex)
        sleep(0.0)

    def wait(self) -> None:
        """Wait for a call of `post`; each call lets one wait return."""
        while self._system.sem_wait(self._at_semaphore):
            pass  # a signal has interrupted it

    def post(self) -> None:
        """Let `wait` return once."""
        self._system.sem_post(self._at_semaphore)
