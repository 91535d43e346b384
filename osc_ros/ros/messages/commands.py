# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Serialized commands, whose labels name the joint states that they answer."""

from __future__ import annotations

from collections.abc import Sequence
import struct

import numpy as np
from numpy.typing import NDArray
from rclpy.publisher import Publisher
from std_msgs.msg import Float64MultiArray

from osc_ros.loop.cycle import Stamp
from osc_ros.recording import cdr
from osc_ros.ros.messages.messages import stamp

Array = NDArray[np.float64]

# Labels of a command that was not computed from a joint state, and of the last command.
HOLD_LABEL, LAST_LABEL = 'hold', 'last'


class StampedCommand:
    """Writer of serialized JointState messages: torques of n joints, and the answered state."""

    def __init__(self, names: Sequence[str]) -> None:
        # Both are serialized once: message objects at 1 kHz would take 10 % of a core, and hold
        # the GIL while the control loop needs it.
        n, self._hold = len(names), bytearray(cdr.joint_state(
            (0, 0), names, effort=np.zeros(len(names)), frame=HOLD_LABEL))
        self._answer = bytearray(cdr.joint_state((0, 0), names, *np.zeros((3, n))))
        self._efforts = np.frombuffer(self._hold, '<f8', n, len(self._hold) - 8 * n)
        # three sequences, each after its length, which fills 8 bytes
        step = 8 * (n + 1)
        self._motion = [np.frombuffer(self._answer, '<f8', n, len(self._answer) - k * step + 8)
                        for k in (3, 2, 1)]

    def fill(self, tau: Array, answered: Stamp | None, time: float, q: Array, qd: Array) -> bytes:
        """Return the message of tau (n,) [N·m, N]; its stamp is `answered`, or else `time` [s]."""
        # q, qd (n,): the state with the stamp `answered`; a message without it has no state
        if answered is None:
            now = stamp(max(0.0, time))
            data, answered, self._efforts[:] = self._hold, (now.sec, now.nanosec), tau
        else:
            data = self._answer
            for place, numbers in zip(self._motion, (q, qd, tau)):
                place[:] = numbers
        struct.pack_into('<iI', data, cdr.HEAD, *answered)
        return bytes(data)


class Command:
    """Writer of serialized Float64MultiArray messages with torques of `size` joints."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._prepare(HOLD_LABEL.encode())

    def fill(self, tau: Array, label: str) -> bytes:
        """Return the message with torques (n,) and a label, see `messages.stamp_label`."""
        text = label.encode()
        if len(text) != self._length:
            self._prepare(text)
        self._buffer[cdr.LABEL_AT:cdr.LABEL_AT + len(text)] = text
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
    """Return a serialized command of n zeros, and the bytes where label and zeros begin."""
    # `length` is the number of characters of the label
    data = cdr.float_array('\0' * length, np.zeros(n))
    return np.frombuffer(data, np.uint8), cdr.LABEL_AT, len(data) - 8 * n


def label(message: Float64MultiArray) -> str:
    """Return the label of a command; empty if it has none."""
    return str(message.layout.dim[0].label) if message.layout.dim else ''


def labelled_time(label: str) -> float | None:
    """Return the time [s] of the joint state that a label names; None if there is none."""
    return float(label) if label.replace('.', '', 1).isdecimal() else None
