# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Serialized messages of topics, for a thread that waits for them without an executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, ExitStack
from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile


def hidden_node(owner: Node, name: str) -> Node:
    """Return a node '_owner_name' for a thread of the owner; do not add it to an executor."""
    return Node(f'_{owner.get_name()}_{name}', namespace=owner.get_namespace(),
                context=owner.context, use_global_arguments=False, enable_rosout=False,
                start_parameter_services=False)


class Inbox:
    """Subscriptions to one or several topics, whose messages one thread takes."""

    def __init__(self, node: Node, *topics: tuple[type, str, QoSProfile]) -> None:
        # `node` has no executor: DDS wakes the thread directly. An executor would add latency, and
        # need a further thread for timers; here the caller waits until its next deadline.
        self.node, self._kinds = node, [kind for kind, *_ in topics]
        self.context = node.context.handle
        self.subscriptions = [node.create_subscription(
            kind, topic, lambda data: None, qos, raw=True).handle for kind, topic, qos in topics]
        self.guard: Any = rclpy_implementation.GuardCondition(self.context)
        self.waiting: Any = rclpy_implementation.WaitSet(len(topics), 1, 0, 0, 0, 0, self.context)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Return a context in which messages can be received; rclpy keeps the subscriptions."""
        with ExitStack() as stack:
            for handle in (self.context, *self.subscriptions, self.guard, self.waiting):
                stack.enter_context(handle)
            yield

    def wait(self, seconds: float) -> None:
        """Return when a message has come or the time [s] has passed."""
        self.waiting.clear_entities()
        for subscription in self.subscriptions:
            self.waiting.add_subscription(subscription)
        self.waiting.wait(max(0, int(1e9 * seconds)))

    def take(self, topic: int = 0) -> bytes | None:
        """Return the oldest message of a topic, given by its index; None if there is none."""
        taken = self.subscriptions[topic].take_message(self._kinds[topic], True)
        return None if taken is None else taken[0]
