# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""Messages of joint torques, and labels that name the joint states they were computed from."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
import struct

from builtin_interfaces.msg import Time
import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.nodes.messages import stamp
from osc_ros.nodes.serialized import LITTLE_ENDIAN

Array = NDArray[np.float64]

HOLD_LABEL = 'hold'  # label of a command that was not computed from a joint state
_LABEL_AT = 12  # byte of a serialized command


def command_message(names: Sequence[str], tau: Array, time: Time | float) -> JointState:
    """
    Return torques (n,) as a joint state of n joints that has only efforts.

    `time` is the stamp of the joint state from which the torques were computed. If there was no
    such state, it is a time on the same clock [s], and the frame_id is HOLD_LABEL.

    """
    message = JointState(name=list(names), effort=array('d', tau.tobytes()))
    if isinstance(time, Time):
        message.header.stamp = time
    else:
        message.header.stamp, message.header.frame_id = stamp(max(0.0, time)), HOLD_LABEL
    return message


class Command:
    """
    A serialized message of joint torques in a buffer that is filled for every command.

    The layout is that of a Float64MultiArray with one dimension in plain little-endian CDR.

    Parameters
    ----------
    size : int
        Number of joints.

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
        """Allocate the buffer for labels of this length."""
        n, self._length = self._size, len(text)
        head = struct.pack(f'<4sII{len(text) + 1}s', LITTLE_ENDIAN, 1, len(text) + 1, text)
        # the alignment counts from the end of the encapsulation, which has 4 bytes
        head += bytes(-len(head) % 4) + struct.pack('<IIII', n, n, 0, n)
        head += bytes((4 - len(head)) % 8 if n else 0)
        self._buffer = bytearray(head + bytes(8 * n))
        self._values = np.frombuffer(self._buffer, '<f8', n, len(head))


def label(message: Float64MultiArray) -> str:
    """Return the label of a command, which names its joint state; empty if it has none."""
    return str(message.layout.dim[0].label) if message.layout.dim else ''


def labelled_time(label: str) -> float | None:
    """Return the time of the joint state that a label names [s], or None if it names none."""
    return float(label) if label.replace('.', '', 1).isdecimal() else None
