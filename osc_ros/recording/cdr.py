# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Serialization of the few ROS message types in recordings, without ROS."""

from __future__ import annotations

from collections.abc import Sequence
import struct

import numpy as np
from numpy.typing import ArrayLike

from osc_ros.errors import InputError

BYTES, STATES, POSE, TWIST, TEXT = (
    'std_msgs/msg/UInt8MultiArray', 'sensor_msgs/msg/JointState', 'geometry_msgs/msg/PoseStamped',
    'geometry_msgs/msg/TwistStamped', 'std_msgs/msg/String')
RULE = '=' * 80  # line between the definitions of message types in MCAP files
TIME = 'int32 sec\nuint32 nanosec\n'
HEADER = 'builtin_interfaces/Time stamp\nstring frame_id\n'
VECTOR = 'float64 x\nfloat64 y\nfloat64 z\n'
QUATERNION = 'float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n'


def definition(own: str, **parts: str) -> str:
    """
    Return the definition of a message type: `own`, then the definitions of its parts.

    A part is given by the name of its type, in which `__` stands for a slash.

    """
    return own + ''.join(f"{RULE}\nMSG: {name.replace('__', '/')}\n{text}"
                         for name, text in parts.items())


STAMPED = {'std_msgs__Header': HEADER, 'builtin_interfaces__Time': TIME}
DEFINITIONS = {
    BYTES: definition(
        'MultiArrayLayout layout\nuint8[] data\n',
        std_msgs__MultiArrayLayout='MultiArrayDimension[] dim\nuint32 data_offset\n',
        std_msgs__MultiArrayDimension='string label\nuint32 size\nuint32 stride\n'),
    STATES: definition(
        'std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\n'
        'float64[] effort\n', **STAMPED),
    POSE: definition(
        'std_msgs/Header header\nPose pose\n', **STAMPED,
        geometry_msgs__Pose='Point position\nQuaternion orientation\n',
        geometry_msgs__Point=VECTOR, geometry_msgs__Quaternion=QUATERNION),
    TWIST: definition(
        'std_msgs/Header header\nTwist twist\n', **STAMPED,
        geometry_msgs__Twist='Vector3 linear\nVector3 angular\n',
        geometry_msgs__Vector3=VECTOR),
    TEXT: 'string data\n'}
_PLAIN = b'\x00\x01\x00\x00'  # encapsulation: little-endian CDR
_EMPTY_LAYOUT = struct.pack('<II', 0, 0)


def byte_array(data: bytes) -> bytes:
    """Return a serialized UInt8MultiArray."""
    return _PLAIN + _EMPTY_LAYOUT + struct.pack('<I', len(data)) + data


def bytes_of(message: bytes) -> bytes:
    """Return the data of a UInt8MultiArray without dimensions; InputError for another message."""
    start = len(_PLAIN) + len(_EMPTY_LAYOUT) + 4
    if len(message) < start or message[:2] != _PLAIN[:2] or message[4:12] != _EMPTY_LAYOUT:
        raise InputError('not a UInt8MultiArray without dimensions in little-endian CDR')
    size, = struct.unpack_from('<I', message, start - 4)
    return message[start:start + size]


def text(content: str) -> bytes:
    """Return a serialized String."""
    return _PLAIN + _string(content)


def joint_state(stamp: tuple[int, int], names: Sequence[str], position: ArrayLike = (),
                velocity: ArrayLike = (), effort: ArrayLike = ()) -> bytes:
    """Return a serialized JointState of n joints; quantities (n,) or empty."""
    found = bytearray(_header(stamp, ''))
    found += _aligned(found, 4) + struct.pack('<I', len(names))
    for name in names:
        found += _aligned(found, 4) + _string(name)
    for numbers in (position, velocity, effort):
        values = np.ascontiguousarray(numbers, dtype='<f8')
        found += _aligned(found, 4) + struct.pack('<I', len(values))
        if len(values):
            found += _aligned(found, 8) + values.tobytes()
    return _PLAIN + bytes(found)


def stamped_message(stamp: tuple[int, int], frame: str, numbers: ArrayLike) -> bytes:
    """Return a serialized PoseStamped (7 numbers) or TwistStamped (6 numbers)."""
    found = bytearray(_header(stamp, frame))
    return _PLAIN + bytes(found + _aligned(found, 8)
                          + np.ascontiguousarray(numbers, dtype='<f8').tobytes())


def _header(stamp: tuple[int, int], frame: str) -> bytes:
    return struct.pack('<iI', *stamp) + _string(frame)


def _string(content: str) -> bytes:
    data = content.encode() + b'\0'
    return struct.pack('<I', len(data)) + data


def _aligned(before: bytes | bytearray, size: int) -> bytes:
    """Return padding to a multiple of `size` after bytes that follow the encapsulation."""
    return bytes(-len(before) % size)
