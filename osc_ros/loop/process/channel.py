# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Lock-free shared memory between a node and the process of its control loop.

The memory is an anonymous file: it has no name in /dev/shm, and is freed when the last process
closes it. Each of its parts has one writer and one reader. The writer writes the data, then a
counter; the reader reads the counter, then the data. Counters are loaded and stored with
sequential consistency (`osc_ros.compile.atomic`), so a reader that sees a counter also sees the
data written before it, on every processor. Neither process waits for the other: a full queue
refuses a message, and new records overwrite old ones.
"""

from __future__ import annotations

import mmap
import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.atomic import load, store
from osc_ros.compile.compiled import inlined, kernel
from osc_ros.errors import InputError

Array = NDArray[np.float64]

REQUESTS, EVENTS = 2 ** 24, 2 ** 22  # sizes of the queues to the loop and to the node [bytes]
RECORDS = 2 ** 12  # number of stored records, a power of two
_LINE = 8  # words between two counters, so that no two share a cache line
_REQUESTS, _EVENTS, _RECORDS, _COUNTERS = 0, 2 * _LINE, 4 * _LINE, 5 * _LINE
_LENGTH = 8  # bytes before a message, for its length


@kernel
def _value(counters, i):
    return load(counters, i)


@kernel
def _set(counters, i, value):
    store(counters, i, value)


@inlined
def has_request(counters):
    """Return whether a request waits."""
    return load(counters, _REQUESTS) != load(counters, _REQUESTS + _LINE)


@kernel
def put_record(counters, records, time, numbers, q, qd, tau, command):
    """Write a record, then the counter of records."""
    count = load(counters, _RECORDS)
    row, n = records[count % len(records)], len(q)
    row[0], row[1] = count, time
    for k in range(4):
        row[2 + k] = numbers[k]
    for k in range(n):
        row[6 + k], row[6 + n + k] = q[k], qd[k]
        row[6 + 2 * n + k], row[6 + 3 * n + k] = tau[k], command[k]
    store(counters, _RECORDS, count + 1)


def width(n: int) -> int:
    """Return the number of words of a record of n joints."""
    return 6 + 4 * n


NO_COUNTERS = np.zeros(_COUNTERS, dtype=np.int64)  # for records that nobody reads


class Queue:
    """Messages from one process to the other, in order, in a ring of bytes `data`."""

    def __init__(self, counters: NDArray[np.int64], at: int, data: NDArray[np.uint8]) -> None:
        # numbers of bytes: `counters[at]` written, `counters[at + _LINE]` read; the length of
        # `data` is a power of two
        self._counters, self._written, self._read, self._data = counters, at, at + _LINE, data

    def put(self, message: bytes) -> bool:
        """Append a message; return False if there is no room now; InputError if it never fits."""
        size, room = _LENGTH + len(message), len(self._data)
        if size > room:
            raise InputError(f'a message to the control loop has {len(message)} bytes: must be '
                             f'at most {room - _LENGTH}')
        written = int(_value(self._counters, self._written))
        if written + size - int(_value(self._counters, self._read)) > room:
            return False
        self._copy_in(written, len(message).to_bytes(_LENGTH, 'little'))
        self._copy_in(written + _LENGTH, message)
        _set(self._counters, self._written, written + size)
        return True

    def take(self) -> bytes | None:
        """Remove and return the oldest message; None if there is none."""
        read = int(_value(self._counters, self._read))
        if read == int(_value(self._counters, self._written)):
            return None
        size = int.from_bytes(self._copy_out(read, _LENGTH), 'little')
        message = self._copy_out(read + _LENGTH, size)
        _set(self._counters, self._read, read + _LENGTH + size)
        return message

    def _copy_in(self, at: int, message: bytes) -> None:
        at, given = at % len(self._data), np.frombuffer(message, dtype=np.uint8)
        first = min(len(given), len(self._data) - at)
        self._data[at:at + first] = given[:first]
        self._data[:len(given) - first] = given[first:]

    def _copy_out(self, at: int, size: int) -> bytes:
        at = at % len(self._data)
        first = min(size, len(self._data) - at)
        return self._data[at:at + first].tobytes() + self._data[:size - first].tobytes()


class Record(NamedTuple):
    """One cycle of the loop."""

    number: int  # of the cycle, from 0
    arrived: float  # arrival of the state, by `time.perf_counter` [s]
    sent: bool  # whether a command was sent
    mode: int  # index in `osc_ros.loop.cycle.MODES`
    stamp: tuple[int, int]  # [s, ns]
    q: Array  # (n,) positions
    qd: Array  # (n,) velocities
    tau: Array  # (n,) measured torques
    command: Array  # (n,) commanded torques


class Channel:
    """Shared memory with requests to the loop, events to the node, and records of the cycles."""

    def __init__(self, joints: int, file: int | None = None) -> None:
        # file: descriptor of the memory, from the other process; None allocates new memory
        sizes = 8 * _COUNTERS, REQUESTS, EVENTS, 8 * RECORDS * width(joints)
        self.file = os.memfd_create('osc_ros', 0) if file is None else file
        if file is None:
            os.ftruncate(self.file, sum(sizes))
        self._memory = mmap.mmap(self.file, sum(sizes))
        ends = np.cumsum((0, *sizes)).tolist()
        parts = [np.frombuffer(self._memory, np.uint8, size, begin)
                 for size, begin in zip(sizes, ends)]
        self._counters = parts[0].view(np.int64)
        self.requests = Queue(self._counters, _REQUESTS, parts[1])
        self.events = Queue(self._counters, _EVENTS, parts[2])
        self._records = parts[3].view(np.float64).reshape(RECORDS, width(joints))
        self._n = joints

    @property
    def places(self) -> tuple[NDArray[np.int64], Array]:
        """Counters and records, for `put_record` and `has_request`."""
        return self._counters, self._records

    def record(self, arrived: float, numbers: Array, *vectors: Array) -> None:
        """Append a record; numbers: sent, mode, stamp (s, ns); vectors: q, q̇, τ, command."""
        put_record(self._counters, self._records, arrived, numbers, *vectors)

    @property
    def count(self) -> int:
        """Number of records so far."""
        return int(_value(self._counters, _RECORDS))

    def at(self, number: int) -> Record | None:
        """Return the record of a cycle; None if it does not exist yet, or was overwritten."""
        count = self.count
        if not max(0, count - RECORDS + 1) <= number < count:
            return None
        row, n = self._records[number % RECORDS].copy(), self._n
        if self.count - number >= RECORDS:
            return None  # the writer may have begun to overwrite it during the copy
        q, qd, tau, command = row[6:].reshape(4, n)
        return Record(int(row[0]), float(row[1]), bool(row[2]), int(row[3]),
                      (int(row[4]), int(row[5])), q, qd, tau, command)

    def close(self) -> None:
        """Close the file; the memory is freed when the last process has closed it."""
        os.close(self.file)


def rehearse() -> None:
    """Use a channel once, so that its kernels are compiled."""
    channel, one = Channel(1), np.zeros(1)
    channel.requests.put(b'')
    channel.requests.take()
    channel.record(0.0, np.zeros(4), one, one, one, one)
    channel.at(0)
    channel.close()
