# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Serialized commands, whose labels name the joint states that they answer."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
import struct

import numpy as np
from numpy.typing import NDArray
from rclpy.publisher import Publisher
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.loop.engine import Stamp
from osc_ros.ros.messages.messages import stamp
from osc_ros.ros.messages.serialized import LITTLE_ENDIAN

Array = NDArray[np.float64]

# Labels of a command that was not computed from a joint state, and of the last command.
HOLD_LABEL, LAST_LABEL = 'hold', 'last'
_LABEL_AT = 12  # byte of a serialized command
_STAMP_AT = 4  # byte of a serialized message with a header


class StampedCommand:
    """
    Writer of serialized JointState messages of n joints with the torques as efforts.

    The messages have no positions and velocities. The constructor serializes one message without
    and one with HOLD_LABEL as frame_id; `fill` writes only the stamp and the efforts. Message
    objects at 1 kHz would take 10 % of a core, and hold the GIL while the control loop needs it.

    """

    def __init__(self, names: Sequence[str]) -> None:
        self._answer, self._hold = (self._prepared(names, label) for label in ('', HOLD_LABEL))

    def fill(self, tau: Array, answered: Stamp | None, time: float) -> bytes:
        """
        Return the message with torques tau (n,) [N·m, N].

        Its stamp is the stamp `answered` of the joint state from which the torques were
        computed; if `answered` is None, the stamp is `time` [s] on the same clock.

        """
        if answered is None:
            now = stamp(max(0.0, time))
            (data, efforts), answered = self._hold, (now.sec, now.nanosec)
        else:
            data, efforts = self._answer
        struct.pack_into('=iI', data, _STAMP_AT, *answered)
        efforts[:] = tau
        return bytes(data)

    @staticmethod
    def _prepared(names: Sequence[str], label: str) -> tuple[bytearray, Array]:
        """Return a serialized message, and a view of its efforts (n,)."""
        marks = np.arange(1.0, len(names) + 1.0)
        message = JointState(name=list(names), effort=array('d', marks.tobytes()))
        message.header.frame_id = label
        data = bytearray(serialize_message(message))
        at = data.rindex(marks.tobytes())
        del data[at + marks.nbytes:]  # unused bytes after the message
        return data, np.frombuffer(data, np.float64, len(names), at)


class Command:
    """
    Writer of serialized Float64MultiArray messages with torques of `size` joints.

    The layout is plain little-endian CDR, with one dimension. The buffer is reused.

    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._prepare(HOLD_LABEL.encode())

    def fill(self, tau: Array, label: str) -> bytes:
        """Return the message with torques (n,) and a label, see `messages.stamp_label`."""
        text = label.encode()
        if len(text) != self._length:
            self._prepare(text)
        self._buffer[_LABEL_AT:_LABEL_AT + len(text)] = text
        self._values[:] = tau
        return bytes(self._buffer)

    def _prepare(self, text: bytes) -> None:
        """Allocate the buffer for labels as long as `text`."""
        n, self._length = self._size, len(text)
        data, _, values_at = empty_command(n, len(text))
        self._buffer = bytearray(data)
        self._values = np.frombuffer(self._buffer, '<f8', n, values_at)


class CommandOutput:
    """Publisher of the commands; `order` (n,) has for each entry the index of its joint."""

    def __init__(self, publisher: Publisher, order: NDArray[np.intp]) -> None:
        self.publisher, self.order, self._command = publisher, order, Command(len(order))

    def publish(self, tau: Array, label: str) -> None:
        """Publish torques (n,), base first [N·m, N], with a label."""
        self.publisher.publish(self._command.fill(tau[self.order], label))


def empty_command(n: int, length: int) -> tuple[NDArray[np.uint8], int, int]:
    """
    Return a serialized command of n zeros, and the byte positions of its label and its numbers.

    `length` is the number of characters of the label.

    """
    head = struct.pack(f'<4sII{length + 1}s', LITTLE_ENDIAN, 1, length + 1, b'')
    # the alignment counts from the end of the encapsulation, which has 4 bytes
    head += bytes(-len(head) % 4) + struct.pack('<IIII', n, n, 0, n)
    head += bytes((4 - len(head)) % 8 if n else 0)
    return np.frombuffer(head + bytes(8 * n), np.uint8), _LABEL_AT, len(head)


def label(message: Float64MultiArray) -> str:
    """Return the label of a command; empty if it has none."""
    return str(message.layout.dim[0].label) if message.layout.dim else ''


def labelled_time(label: str) -> float | None:
    """Return the time [s] of the joint state that a label names; None if there is none."""
    return float(label) if label.replace('.', '', 1).isdecimal() else None
