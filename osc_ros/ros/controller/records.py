# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Recordings of osc_controller: topic ~/journal, and the files of the black box."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from time import perf_counter
from time import time as wall_time
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import UInt8MultiArray

from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.loop.journal import Piece
from osc_ros.recording.export import JOURNAL, versions
from osc_ros.recording.replay import PARAMETERS
from osc_ros.ros.controller.black_box import BlackBox

PERIOD = 0.1  # period at which the journal is published and files are written [s]
LOST = 10.0  # a subscriber that has been gone for this time has ended [s]
JOURNAL_QOS = QoSProfile(depth=200, reliability=ReliabilityPolicy.RELIABLE)


class Records:
    """Recordings of a configured controller; all methods run in the node's thread."""

    def __init__(self, node: Node, loop: Any, values: Mapping[str, Any], urdf: str,
                 names: tuple[str, ...]) -> None:
        self._node, self._loop = node, loop
        self._at: tuple[int, int, int] | None = None
        self._subscribers, self._counted = 0, 0.0
        duration = values['black_box.duration'] if values['workers'] == 1 else 0.0
        facts = {
            'node': node.get_fully_qualified_name(), 'versions': versions(), 'urdf': urdf,
            PARAMETERS: dict(values), 'joints': tuple(loop.joints), 'robot joints': names,
            'joint_states': node.resolve_topic_name('joint_states'),
            'clock offset': wall_time() - perf_counter()}
        self._box = BlackBox(node.get_fully_qualified_name(), self._pieces, facts,
                             node.get_logger().warning)
        self._publisher = node.create_publisher(UInt8MultiArray, f'~/{JOURNAL}', JOURNAL_QOS)
        if duration > 0.0:
            loop.request(requests.begin_journal, duration,
                         int(1e6 * values['black_box.megabytes']), facts)
            self._box.apply(values)
        else:
            self._box.text = ('off (black_box.duration is 0)' if values['workers'] == 1
                              else 'off (workers is not 1)')
        self._timer = node.create_timer(PERIOD, self._update,
                                        clock=Clock(clock_type=ClockType.STEADY_TIME))

    def close(self) -> None:
        """Write a file that is due, and destroy the publisher."""
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None
            self._box.close()
            self._node.destroy_publisher(self._publisher)

    def apply(self, values: Mapping[str, Any]) -> None:
        """Record new values of the parameters; call this before they come into force."""
        self._loop.request(requests.tell_journal, {PARAMETERS: dict(values)})

    def on_change(self, cause: str, reaction: str) -> None:
        """Prepare a file if a watchdog has replaced the law."""
        self._box.on_change(cause, reaction)

    def values(self) -> Iterator[tuple[str, object]]:
        """Yield the keys and values of the diagnostics."""
        failure = self._loop.read(requests.journal_failure)
        yield 'black box', f'off: {failure}' if failure else self._box.text

    def _update(self) -> None:
        if self._timer is None:  # the executor may still call a timer that has been destroyed
            return
        try:
            self._publish()
            self._box.update()
        except InputError:
            pass  # the process of the loop has ended; the node reports that elsewhere

    def _publish(self) -> None:
        count, now = self._publisher.get_subscription_count(), perf_counter()
        if not self._subscribers and now > self._counted + LOST:
            self._at = None
        if count > self._subscribers:  # a new subscriber needs the beginning of a segment
            newest = self._loop.request(requests.renew_journal)
            self._at = self._at or newest  # earlier subscribers need the end of their segment
        self._subscribers = count
        if count:
            self._counted = now
        if not count or self._at is None:
            return
        for piece in self._following(self._at):
            self._at = piece.following
            try:
                data = array('B', piece.dumped())
            except InputError as error:
                self._node.get_logger().error(f'a part of the journal is not published: {error}')
                continue
            self._publisher.publish(UInt8MultiArray(data=data))

    def _pieces(self) -> list[Piece]:
        """Return all pieces of the journal."""
        return list(self._following(None))

    def _following(self, at: tuple[int, int, int] | None) -> Iterator[Piece]:
        """Yield the pieces after a position in the journal, up to its present end."""
        while (piece := self._loop.read(requests.journal_piece, at)) is not None:
            yield piece
            at = piece.following
            if piece.is_last:
                return
