# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled reader of serialized trajectories, which makes no Python object for each point."""

from __future__ import annotations

from dataclasses import dataclass
import struct

import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import MultiDOFJointTrajectory

from osc_ros.compile.compiled import released
from osc_ros.errors import InputError

Array = NDArray[np.float64]

LITTLE_ENDIAN = b'\x00\x01'  # first bytes of the encapsulation of plain little-endian CDR
SMALLEST_POINT = 20  # [bytes]: three empty sequences and a duration
MOST_POINTS = 10_000  # a path through more would block the node's thread for more than 3 s
POSE, TWIST = 7, 6  # numbers: position and quaternion x y z w; linear and angular
_READ, _CUT_SHORT = 0, 1


@dataclass(frozen=True, eq=False)
class Trajectory:
    """
    A MultiDOFJointTrajectory as arrays, in the frame and the order of the message.

    Attributes
    ----------
    frame : str
    stamp : float [s]
    counts : (m, 3) int
        Numbers of transforms, velocities and accelerations of each point. The arrays below contain
        only the first of each.
    times : (m,)
        Times since the stamp [s].
    poses : (m, 7)
        x y z [m] and quaternion x y z w.
    twists, accelerations : (m, 6)
        Linear, then angular.

    """

    frame: str
    stamp: float
    counts: NDArray[np.int64]
    times: Array
    poses: Array
    twists: Array
    accelerations: Array


def stamp(data: bytes) -> tuple[int, int]:
    """Return the stamp of a serialized message with a header: seconds and nanoseconds."""
    if len(data) < 12:
        return 0, 0
    seconds, nanoseconds = struct.unpack_from('<iI' if data[:2] == LITTLE_ENDIAN else '>iI',
                                              data, 4)
    return seconds, nanoseconds


def trajectory(data: bytes) -> Trajectory:
    """
    Return a trajectory from its serialized message, in 0.1 µs for each point.

    For the layout see `JointStateReader`. InputError is raised if the message is cut short or has
    more than MOST_POINTS points.

    """
    if data[:2] != LITTLE_ENDIAN:
        data = serialize_message(deserialize_message(data, MultiDOFJointTrajectory))
    body = np.frombuffer(data[4:] + bytes(-len(data) % 8 + 8), dtype=np.uint8)
    words = body[:len(body) // 8 * 8].view(np.uint32)
    numbers = body[:len(body) // 8 * 8].view(np.float64)
    size = len(data) - 4
    if size > 0 and size % 4 == 0:  # two option bits: padding at the end (DDS-XTypes 7.6.3.1.2)
        size -= data[3] & 3
    seconds, nanoseconds, length = words[:3].tolist()
    end = 12 + length
    frame = body[12:end - 1].tobytes().decode('utf-8', 'replace')
    at = _align(end)
    names, at = _word(words, at, size), at + 4
    for _ in range(names):
        at = _align(at)
        at += 4 + _word(words, at, size)
    at = _align(at)
    m = _word(words, at, size)
    if m * SMALLEST_POINT > size - at:
        raise _cut_short()
    if m > MOST_POINTS:
        raise InputError(f'the trajectory has {m} points: accepted are at most {MOST_POINTS}; '
                         'send a longer one in parts')
    found = (np.zeros((m, 3), dtype=np.int64), np.zeros(m), np.zeros((m, POSE)),
             np.zeros((m, TWIST)), np.zeros((m, TWIST)))
    if _points(words, numbers, at + 4, size, *found) != _READ:
        raise _cut_short()
    return Trajectory(frame, _to_signed(seconds) + 1e-9 * nanoseconds, *found)


def _align(at: int) -> int:
    return (at + 3) // 4 * 4


def _word(words: NDArray[np.uint32], at: int, size: int) -> int:
    if at + 4 > size:
        raise _cut_short()
    return int(words[at // 4])


def _to_signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


def _cut_short() -> InputError:
    return InputError('target_trajectory: the serialized message is cut short')


@released
def _points(words, numbers, at, size, counts, times, poses, twists, accelerations):
    """Read all points into the arrays, from byte `at` on; return a status."""
    for k in range(len(times)):
        for part in range(3):
            width = 7 if part == 0 else 6
            at = (at + 3) // 4 * 4
            if at + 4 > size:
                return _CUT_SHORT
            count = np.int64(words[at // 4])
            at += 4
            counts[k, part] = count
            if count > 0:
                at = (at + 7) // 8 * 8
                if count > size or at + 8 * width * count > size:
                    return _CUT_SHORT
                first = at // 8
                for i in range(width):
                    if part == 0:
                        poses[k, i] = numbers[first + i]
                    elif part == 1:
                        twists[k, i] = numbers[first + i]
                    else:
                        accelerations[k, i] = numbers[first + i]
                at += 8 * width * count
        at = (at + 3) // 4 * 4
        if at + 8 > size:
            return _CUT_SHORT
        times[k] = np.int32(words[at // 4]) + 1e-9 * words[at // 4 + 1]
        at += 8
    return _READ
