# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled reader of serialized trajectories, which makes no Python object for each point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import MultiDOFJointTrajectory

from osc_ros.compile.compiled import kernel, released
from osc_ros.errors import InputError
from osc_ros.recording import cdr

Array = NDArray[np.float64]

SMALLEST_POINT = 20  # [bytes]: three empty sequences and a duration
MOST_POINTS = 10_000  # to plan a path through them takes the node's thread 0.2 s
POSE, TWIST = 7, 6  # numbers: position and quaternion x y z w; linear and angular


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A MultiDOFJointTrajectory as arrays, in the frame and the order of the message."""

    frame: str
    stamp: float  # [s]
    # (m, 3): number of transforms, velocities, accelerations; the arrays have the first of each
    counts: NDArray[np.int64]
    times: Array  # (m,) since the stamp [s]
    poses: Array  # (m, 7): x y z [m] and quaternion x y z w
    twists: Array  # (m, 6): linear, then angular
    accelerations: Array  # (m, 6): linear, then angular


def trajectory(data: bytes) -> Trajectory:
    """Return a serialized trajectory, in 0.1 µs per point; InputError: cut short or too long."""
    if data[:2] != cdr.LITTLE_ENDIAN:
        data = serialize_message(deserialize_message(data, MultiDOFJointTrajectory))
    m, at = _number_of_points(data)
    if m > MOST_POINTS:
        raise InputError(f'the trajectory has {m} points: must be at most {MOST_POINTS}; '
                         'send a longer one in parts')
    counts, times = np.zeros((max(m, 0), 3), dtype=np.int64), np.zeros(max(m, 0))
    rows = [np.zeros((max(m, 0), width)) for width in (POSE, TWIST, TWIST)]
    if m < 0 or not _reads_points(data, at, counts, times, *(one.view(np.uint64) for one in rows)):
        raise InputError('target_trajectory: the serialized message is cut short')
    seconds, nanoseconds = cdr.stamp(data)
    begin = cdr.HEAD + 12
    end = begin + int.from_bytes(data[begin - 4:begin], 'little') - 1
    frame = data[begin:end].decode('utf-8', 'replace')
    return Trajectory(frame, seconds + 1e-9 * nanoseconds, counts, times, *rows)


@kernel
def _number_of_points(data):
    """Return the number of points, and the byte of the first; -1 if the message is cut short."""
    at, end = cdr.end_of_header(data)
    names, at = cdr.counted(data, at, end)
    for _ in range(names):
        length, at = cdr.counted(data, at, end)
        if length < 0:
            return -1, at
        at += length
    count, at = cdr.counted(data, at, end)
    return (count if count * SMALLEST_POINT <= end - at else -1), at


@released
def _reads_points(data, at, counts, times, poses, twists, accelerations):
    """Read the points from byte `at` on, as bits (uint64); return whether the message has all."""
    _, end = cdr.end_of_header(data)
    for k in range(len(times)):
        for part in range(3):
            rows = poses if part == 0 else twists if part == 1 else accelerations
            width = rows.shape[1]
            count, at = cdr.counted(data, at, end)
            if count < 0:
                return False
            counts[k, part] = count
            if count > 0:
                at = cdr.aligned(at, 8)
                if at + 8 * width * count > end:
                    return False
                for i in range(width):
                    rows[k, i] = cdr.bits(data, at + 8 * i)
                at += 8 * width * count
        at = cdr.aligned(at, 4)
        if at + 8 > end:
            return False
        times[k] = np.int32(cdr.word(data, at)) + 1e-9 * cdr.word(data, at + 4)
        at += 8
    return True
