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
    """Writer of serialized JointState messages with torques of n joints as efforts only."""

    def __init__(self, names: Sequence[str]) -> None:
        # Both are serialized once: message objects at 1 kHz would take 10 % of a core, and hold
        # the GIL while the control loop needs it.
        self._answer, self._hold = (self._prepared(names, label) for label in ('', HOLD_LABEL))

    def fill(self, tau: Array, answered: Stamp | None, time: float) -> bytes:
        """Return the message of tau (n,) [N·m, N]; its stamp is `answered`, or else `time` [s]."""
        if answered is None:
            now = stamp(max(0.0, time))
            (data, efforts), answered = self._hold, (now.sec, now.nanosec)
        else:
            data, efforts = self._answer
        struct.pack_into('<iI', data, cdr.HEAD, *answered)
        efforts[:] = tau
        return bytes(data)

    @staticmethod
    def _prepared(names: Sequence[str], label: str) -> tuple[bytearray, Array]:
        """Return a serialized message, and a view of its efforts (n,)."""
        n = len(names)
        data = bytearray(cdr.joint_state((0, 0), names, effort=np.zeros(n), frame=label))
        return data, np.frombuffer(data, '<f8', n, len(data) - 8 * n)


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
