# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Rules of CDR, the serialization of ROS messages, without ROS.

CDR (OMG DDS-XTypes 7.4): a message begins with its encapsulation, numbers lie at multiples of
their size, and a sequence or string begins with its length. Kernels read a message by the compiled
operations; the other functions write messages of a few types.
"""

from __future__ import annotations

from collections.abc import Sequence
import struct

import numpy as np
from numpy.typing import ArrayLike

from osc_ros.compile.compiled import inlined
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
    """Return the definition of a message type: `own`, then the definitions of its parts."""
    # a part has the name of its type, in which `__` stands for a slash
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
LITTLE_ENDIAN = b'\x00\x01'  # first bytes of the encapsulation of plain little-endian CDR
HEAD = 4  # bytes of the encapsulation; alignment counts from its end
LABEL_AT = HEAD + 8  # byte of the label in a Float64MultiArray of one dimension
_PLAIN = LITTLE_ENDIAN + bytes(2)
_EMPTY_LAYOUT = struct.pack('<II', 0, 0)


@inlined
def word(data, at):
    """Return the unsigned number in the 4 bytes of a message from byte `at` on."""
    k = np.uint64(at)  # an index without sign: the four reads become one
    return (np.int64(data[k]) | np.int64(data[k + np.uint64(1)]) << 8
            | np.int64(data[k + np.uint64(2)]) << 16 | np.int64(data[k + np.uint64(3)]) << 24)


@inlined
def bits(data, at):
    """Return the bits of the float64 in the 8 bytes of a message from byte `at` on (uint64)."""
    return np.uint64(word(data, at)) | np.uint64(word(data, at + 4)) << np.uint64(32)


@inlined
def aligned(at, size):
    """Return the next byte at a multiple of `size`, counted from the end of the encapsulation."""
    return HEAD + (at - HEAD + size - 1) // size * size


@inlined
def counted(data, at, end):
    """Length of the sequence or string from byte `at` on, and the byte after this length."""
    # the length is -1 if the message, which has `end` bytes, is cut short
    at = aligned(at, 4)
    return (word(data, at) if at + 4 <= end else -1), at + 4


@inlined
def end_of_header(data):
    """Return the end of a message's Header, and of the message, which is -1 if it is too short."""
    end = len(data)
    if end < HEAD + 12:
        return HEAD, -1
    if end % 4 == 0:  # two bits of the options: padding at the end (DDS-XTypes 7.6.3.1.2)
        end -= data[3] & 3
    return HEAD + 12 + word(data, HEAD + 8), end


def stamp(data: bytes) -> tuple[int, int]:
    """Return the stamp of a message with a header, also big-endian: seconds and nanoseconds."""
    if len(data) < 12:
        return 0, 0
    seconds, nanoseconds = struct.unpack_from('<iI' if data[:2] == LITTLE_ENDIAN else '>iI',
                                              data, HEAD)
    return seconds, nanoseconds


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
                velocity: ArrayLike = (), effort: ArrayLike = (), frame: str = '') -> bytes:
    """Return a serialized JointState of n joints; quantities (n,) or empty."""
    found = bytearray(_header(stamp, frame))
    found += _padding(found, 4) + struct.pack('<I', len(names))
    for name in names:
        found += _padding(found, 4) + _string(name)
    for numbers in (position, velocity, effort):
        _append(found, numbers)
    return _PLAIN + bytes(found)


def float_array(label: str, numbers: ArrayLike) -> bytes:
    """Return a serialized Float64MultiArray of numbers (n,), in one dimension with a label."""
    found, n = bytearray(struct.pack('<I', 1) + _string(label)), np.size(numbers)
    found += _padding(found, 4) + struct.pack('<III', n, n, 0)
    _append(found, numbers)
    return _PLAIN + bytes(found)


def stamped_message(stamp: tuple[int, int], frame: str, numbers: ArrayLike) -> bytes:
    """Return a serialized PoseStamped (7 numbers) or TwistStamped (6 numbers)."""
    found = bytearray(_header(stamp, frame))
    return _PLAIN + bytes(found + _padding(found, 8)
                          + np.ascontiguousarray(numbers, dtype='<f8').tobytes())


def _header(stamp: tuple[int, int], frame: str) -> bytes:
    return struct.pack('<iI', *stamp) + _string(frame)


def _string(content: str) -> bytes:
    data = content.encode() + b'\0'
    return struct.pack('<I', len(data)) + data


def _append(found: bytearray, numbers: ArrayLike) -> None:
    """Append a sequence of float64 to what follows the encapsulation."""
    values = np.ascontiguousarray(numbers, dtype='<f8')
    found += _padding(found, 4) + struct.pack('<I', len(values))
    if len(values):
        found += _padding(found, 8) + values.tobytes()


def _padding(before: bytes | bytearray, size: int) -> bytes:
    """Return padding to a multiple of `size` after bytes that follow the encapsulation."""
    return bytes(-len(before) % size)
