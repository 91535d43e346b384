# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Serialized messages of a topic, for a thread that waits for them without an executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile


class Inbox:
    """
    Messages of a topic, taken by one thread.

    DDS wakes the thread itself. An executor would do more between a message and the callback, and
    would need a further thread for timers; here the caller waits until its next deadline.

    Attributes
    ----------
    context, subscription, guard, waiting
        Objects of rcl: the last one is the set that waits for the two before it.

    Parameters
    ----------
    node : Node
        Must not be added to an executor.
    kind : type
        Type of the messages.
    topic : str
    qos : QoSProfile

    """

    def __init__(self, node: Node, kind: type, topic: str, qos: QoSProfile) -> None:
        self.context, self._kind = node.context.handle, kind
        self.subscription = node.create_subscription(
            kind, topic, lambda data: None, qos, raw=True).handle
        self.guard: Any = rclpy_implementation.GuardCondition(self.context)
        self.waiting: Any = rclpy_implementation.WaitSet(1, 1, 0, 0, 0, 0, self.context)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Within this context, messages can be received, and rclpy keeps the subscription."""
        with self.context, self.subscription, self.guard, self.waiting:
            yield

    def wait(self, seconds: float) -> None:
        """Return when a message has come, or the time is over."""
        self.waiting.clear_entities()
        self.waiting.add_subscription(self.subscription)
        self.waiting.wait(max(0, int(1e9 * seconds)))

    def take(self) -> bytes | None:
        """Return the oldest message; None if there is none."""
        taken = self.subscription.take_message(self._kind, True)
        return None if taken is None else taken[0]
