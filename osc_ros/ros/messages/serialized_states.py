# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Compiled reader of serialized joint states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from osc_ros.compile.addresses import bytes_at, integers_at
from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.errors import InputError
from osc_ros.loop.velocity import find_velocity, FOUND
from osc_ros.recording.cdr import aligned, bits, counted, end_of_header, HEAD, LITTLE_ENDIAN, word

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Accepted number of bytes after the last field. A publisher of Fast DDS adds none,
# `rclpy.serialization.serialize_message` leaves at most 12, other middleware pads to 4.
MOST_TRAILING = 12
# A part of a state is of the period before if its next stamp, one interval later, would be nearer
# to the newest stamp than this share of the interval; see `_drop_former`.
NEAR, MOST_DROPS = 0.4, 3
FIELDS = ('position', 'velocity', 'effort')
READ, CUT_SHORT, TOO_LONG, OTHER_NAMES = range(4)
# Entries of the record of a message: stamp, byte position and number of the names; then for each
# field its length (from COUNTS on), and the joint of its first bad number (from BAD on).
SEC, NANOSEC, NAMES_AT, NAMES, COUNTS, BAD, SIZE = 0, 1, 2, 3, 4, 7, 10
FINITE = -1  # stands in the record if all numbers of a field are finite


class Reading(NamedTuple):
    """Arguments of `read`, and the record of `osc_ros.loop.velocity.find_velocity`."""

    known: NDArray[np.uint8]  # (k,) names of the last message, without the padding between them
    # (n,): index of each joint in the names, -1 if it is missing; empty before the first message
    places: NDArray[np.int64]
    # (3, n): bits of positions, velocities, efforts; a row needs as many numbers as names
    words: NDArray[np.uint64]
    record: NDArray[np.int64]  # (SIZE,)
    velocity: Any


class IncompleteError(InputError):
    """Raised if a joint state has only a part of the robot's joints, and the rest has not come."""


class UnusedError(InputError):
    """Raised if no joint of a joint state is used, because its publisher is ignored."""


class UnrelatedError(InputError):
    """Raised if a joint state has none of the robot's joints; it may be of another device."""


class JointStateReader:
    """Reader of chosen joints from serialized joint states; these may have more, in any order."""

    def __init__(self, names: Sequence[str], topic: str = 'joint_states') -> None:
        # whether the last message names all joints, or a part of them that is used
        self.names, self.has_joints = tuple(names), False
        self.stamp, self.time = (0, 0), 0.0  # of the last message: (s, ns), and the same [s]
        self._topic = topic
        self._values = np.zeros((len(FIELDS), len(self.names)))
        self._words = self._values.view(np.uint64)
        self._record = np.zeros(SIZE, dtype=np.int64)
        # record of the last message; values of the last state
        self._found: list[int] = self._record.tolist()
        self._rows = self._values.copy()
        # of messages with a part of the joints: values of each joint; its last stamp, and the time
        # from the one before [ns]; whether it has come since the last state; the names of all
        # their joints; and how often since two parts were of one period a part was dropped
        self._parts, self._has_come = self._rows.copy(), np.zeros(len(self.names), dtype=bool)
        self._stamps = np.zeros(len(self.names), dtype=np.int64)
        self._intervals, self._others = self._stamps.copy(), dict[str, None]()
        self._drops = 0
        # the names are parsed only if they differ from those of the last message
        self._known, self._places = np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64)
        # compile now, and not when the first message comes
        read(LITTLE_ENDIAN, self._known, self._places, self._words, self._record)

    @property
    def knows_names(self) -> bool:
        """Whether the last message of these joints had all of them."""
        return len(self._places) > 0 and bool((self._places >= 0).all())

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Arguments of `read` after the first one, `data`."""
        return self._known, self._places, self._words, self._record

    def positions(self, data: bytes, chosen: Callable[[Flags], Flags] | None = None) -> Array:
        """Return the positions (n,) [rad, m] from a serialized message, or raise InputError."""
        # With `chosen`, which gets the joints (n,) that the message names and returns those to
        # use, messages with a part of the joints are a state when all have come; its stamp is the
        # oldest.
        self.has_joints = False
        if data[:2] != LITTLE_ENDIAN:
            data = self._converted(data)
        status = read(data, self._known, self._places, self._words, self._record)
        if status != READ:
            self._read_again(data, status, chosen is not None)
        self._found = found = self._record.tolist()
        used = self._places >= 0
        if chosen is not None and not (used := chosen(used)).any():
            raise UnusedError(f'{self._topic}: no joint of this publisher is used')
        self.has_joints = True
        values, stamp = self._values.copy(), (found[SEC], found[NANOSEC])
        for field in (1, 2):
            if found[COUNTS + field] != found[NAMES]:
                values[field] = np.nan
        self._require_numbers(0, values, used)
        if not used.all():
            values, stamp = self._joined(data, values, stamp, used)
        self._rows, self.stamp, self.time = values, stamp, stamp[0] + 1e-9 * stamp[1]
        self._has_come[:] = False
        self._others.clear()
        return values[0]

    def _joined(self, data: bytes, values: Array, stamp: tuple[int, int], used: Flags
                ) -> tuple[Array, tuple[int, int]]:
        """Add a message with some of the joints; return the values (3, n) of all, and a stamp."""
        self._parts[:, used], now = values[:, used], 10**9 * stamp[0] + stamp[1]
        self._intervals[used] = now - self._stamps[used]
        self._stamps[used] = now
        self._has_come |= used
        self._others.update(dict.fromkeys(self._names_in(data)[0]))
        if self._has_come.all():
            self._drop_former()
        if not self._has_come.all():
            missing = self.names[int(self._has_come.argmin())]
            raise IncompleteError(f"{self._topic} lacks '{missing}' (has: "
                                  f"{', '.join(self._others)})")
        seconds, nanoseconds = divmod(int(self._stamps.min()), 10**9)
        return self._parts.copy(), (seconds, nanoseconds)

    def _drop_former(self) -> None:
        """Wait for the next message of joints whose last one is of the period before."""
        # The rest of that period was lost: without this, all later states would have two periods.
        # Clocks may differ by a period, so this is tried only MOST_DROPS times in a row.
        behind = self._stamps.max() - self._stamps
        is_former = np.abs(behind - self._intervals) < NEAR * self._intervals
        if not is_former.any():
            self._drops = 0
        elif self._drops < MOST_DROPS:
            self._drops += 1
            self._has_come &= ~is_former

    def velocities(self) -> Array:
        """Velocities (n,) [rad/s, m/s] of the last state; InputError: missing or not finite."""
        self._require_numbers(1, self._rows, np.ones(len(self.names), dtype=bool))
        return np.asarray(self._rows[1])

    def efforts(self) -> Array:
        """Return the efforts (n,) [N·m; N] of the last message; NaN where it has none."""
        return np.asarray(self._rows[2])

    def _read_again(self, data: bytes, status: int, accepts_parts: bool) -> None:
        """Read a message whose names have changed; raise InputError if it is no joint state."""
        if status == OTHER_NAMES:
            self._learn_names(data, accepts_parts)
            status = read(data, self._known, self._places, self._words, self._record)
        if status == CUT_SHORT:
            raise InputError(f'{self._topic}: the serialized message of {len(data)} bytes is cut '
                             'short')
        if status == TOO_LONG:
            raise InputError(f'{self._topic}: the serialized message of {len(data)} bytes has '
                             f'more than {MOST_TRAILING} bytes after its last field')

    def _converted(self, data: bytes) -> bytes:
        """Return a message of another encoding as plain little-endian CDR."""
        try:
            return serialize_message(deserialize_message(bytes(data), JointState))
        except Exception as error:  # rclpy's RMWError has no public name
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f'{self._topic}: the serialized message of {len(data)} bytes, '
                             f'encapsulation {bytes(data[:2]).hex() or "none"}, cannot be read: '
                             f'{reason}') from error

    def _learn_names(self, data: bytes, accepts_parts: bool) -> None:
        """Store the names of a message, and the places of the joints among them."""
        names, known = self._names_in(data)
        self.has_joints = set(self.names) <= set(names)
        places = self._find(names, accepts_parts)
        self._known = np.array(bytearray().join(known), dtype=np.uint8)
        self._places = np.array(places, dtype=np.int64)

    def _names_in(self, data: bytes) -> tuple[list[str], list[bytes]]:
        """Return the names in a message, and their bytes without padding."""
        at, count = self._record[NAMES_AT:COUNTS].tolist()
        names, known = [], []
        for _ in range(count):
            at += -(at - HEAD) % 4
            begin, at = at, at + 4 + int.from_bytes(data[at:at + 4], 'little')
            known.append(bytes(data[begin:at]))
            # a string ends at its first zero, as in rclpy
            names.append(known[-1][4:].split(b'\0', 1)[0].decode('utf-8', 'replace'))
        return names, known

    def _find(self, names: list[str], accepts_parts: bool) -> list[int]:
        """Return the index (n,) of each joint in `names`; -1 if it is missing."""
        has = ', '.join(names) or 'none'
        is_unrelated = bool(names) and not set(self.names) & set(names)
        for name in self.names:
            if names.count(name) > 1:
                raise InputError(f"{self._topic} has '{name}' more than once (has: {has})")
            if name not in names and (is_unrelated or not names or not accepts_parts):
                raise (UnrelatedError if is_unrelated else InputError)(
                    f"{self._topic} lacks '{name}' (has: {has})")
        return [names.index(name) if name in names else -1 for name in self.names]

    def _require_numbers(self, field: int, values: Array, used: Flags) -> None:
        """Raise InputError unless a field of the values (3, n) is finite for the used joints."""
        names, count = self._found[NAMES], self._found[COUNTS + field]
        if count != names:
            raise InputError(f'{self._topic} has {names} names and {count} '
                             f'entries of {FIELDS[field]}: give one {FIELDS[field]} for each name')
        bad = np.flatnonzero(used & ~np.isfinite(values[field]))
        if len(bad):
            raise InputError(f"{self._topic}: {FIELDS[field]} of '{self.names[bad[0]]}' is "
                             f'{values[field][bad[0]]}: give finite numbers')


@kernel
def read(data, known, places, words, record):
    """Read a message into `words`; return READ, or another status without writing `words`."""
    # `data` has bytes, because converting each message to an array would take time.
    at, size = end_of_header(data)
    names, at = counted(data, at, size)
    if names < 0:
        return CUT_SHORT
    record[SEC], record[NANOSEC] = np.int32(word(data, HEAD)), word(data, HEAD + 4)
    record[NAMES_AT], record[NAMES] = at, names
    is_known, k = len(places) > 0 or words.shape[1] == 0, 0
    for _ in range(names):
        length, at = counted(data, at, size)
        end, at = at + length, at - 4
        if length < 0 or end > size:
            return CUT_SHORT
        is_known = is_known and k + end - at <= len(known)
        if is_known:
            for j in range(end - at):
                if data[at + j] != known[k + j]:
                    is_known = False
                    break
        k += end - at
        at = end
    starts = (np.int64(0), np.int64(0), np.int64(0))
    for field in range(3):
        count, at = counted(data, at, size)
        if count < 0:
            return CUT_SHORT
        if count > 0:
            at = aligned(at, 8)
            if at + 8 * count > size:
                return CUT_SHORT
        record[COUNTS + field] = count
        starts = (starts[1], starts[2], at)
        at += 8 * count
    if size - at > MOST_TRAILING:
        return TOO_LONG
    if not is_known or k != len(known):
        return OTHER_NAMES
    for field in range(3):
        record[BAD + field] = FINITE
        if record[COUNTS + field] == names:
            start = starts[0]
            for i in range(len(places)):
                if places[i] < 0:
                    continue
                number = bits(data, start + 8 * places[i])
                words[field, i] = number
                if np.int64(number >> np.uint64(52)) & 0x7ff == 0x7ff and (
                        record[BAD + field] == FINITE):
                    record[BAD + field] = i
        starts = (starts[1], starts[2], starts[0])
    return READ


@inlined
def reads(message, reading):
    """Read an rcl_serialized_message_t; return whether it is plain CDR with finite positions."""
    inbound = integers_at(message, 2)
    data = bytes_at(inbound[0], inbound[1])
    if len(data) < HEAD or data[0] != 0 or data[1] != 1:  # not plain little-endian CDR
        return False
    if read(data, reading.known, reading.places, reading.words, reading.record) != READ:
        return False
    return _has(reading.record, 0)


@inlined
def _has(record, field):
    """Return whether a field of the last message has one finite number for each joint."""
    return record[COUNTS + field] == record[NAMES] and record[BAD + field] == FINITE


@inlined
def puts_motion(reading, q, qd):
    """Write the state to q (n,) and qd (n,); return its time [s], NaN without velocities."""
    n, record, values = len(q), reading.record, reading.words.view(np.float64)
    time = record[SEC] + 1e-9 * record[NANOSEC]
    assign(q, values[0])
    found = find_velocity(
        reading.velocity, time, q,
        view(values[1], 0, (n if _has(record, 1) else 0,)), False, qd)
    return time if found == FOUND else np.nan
