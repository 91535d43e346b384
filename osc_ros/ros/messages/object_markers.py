# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Markers of the objects around a simulated arm, for osc_viewer, RViz and Foxglove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Vector3
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from osc_ros.ros.messages import messages
from osc_ros.ros.messages.markers import Marker, marker_of, MarkerArray
from osc_ros.sim.objects import solids
from osc_ros.sim.plant import Plant

HELD = 'cube'  # the object that a gripper holds, no obstacle
RATE = 20.0  # [Hz] of wall time, so that the objects are shown before simulated time starts


class ObjectMarkers:
    """Publisher of the objects, if any: on `~/markers`, and on the topics `obstacles`."""

    def __init__(self, node: Node, plant: Plant, base: str, obstacles: Sequence[str] = ()
                 ) -> None:
        self._plant, self._base, self._sent = plant, base, list[Any]()
        if MarkerArray is None or not solids(plant):
            return
        self._sent = [node.create_publisher(MarkerArray, topic, 10) for topic in obstacles]
        self._publisher = node.create_publisher(MarkerArray, '~/markers', 1)
        node.create_timer(1.0 / RATE, self._publish, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def publish_obstacles(self, stamp: Time) -> None:
        """Publish the objects that are fixed or move freely, with a stamp, for controllers."""
        if not self._sent:
            return
        message = self.message()
        message.markers = [one for one in message.markers if one.ns != HELD]
        for marker in message.markers:
            marker.header.stamp, marker.lifetime = stamp, Duration()
        for publisher in self._sent:
            publisher.publish(message)

    def message(self) -> Any:
        """Return a MarkerArray of all objects; the namespace of a marker is the name."""
        found = []
        for solid in solids(self._plant):
            # stamp 0, so that a viewer with another fixed frame uses the newest transform
            marker = marker_of(self._base, Time(), solid.name,
                               Marker.SPHERE if solid.is_round else Marker.CUBE, solid.color)
            marker.pose = messages.pose_message(solid.pose, '', Time()).pose
            x, y, z = solid.size.tolist()
            marker.scale = Vector3(x=x, y=y, z=z)
            found.append(marker)
        return MarkerArray(markers=found)

    def _publish(self) -> None:
        if self._publisher.get_subscription_count():
            self._publisher.publish(self.message())
