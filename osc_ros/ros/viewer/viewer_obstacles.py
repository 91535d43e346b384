# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Connection of osc_viewer to the obstacles of a controller."""

from __future__ import annotations

from dataclasses import replace
import math
from time import monotonic
from typing import Any

from builtin_interfaces.msg import Time
import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node

from osc_ros.collision.obstacles import Obstacle
from osc_ros.dynamics.algebra.kinematics import link_pose, placement
from osc_ros.errors import InputError
from osc_ros.ros.messages.markers import Marker, marker_of, MarkerArray, ORANGE
from osc_ros.ros.messages.obstacle_markers import (
    AGAIN,
    DELETE_ALL,
    MarkerObstacles,
    markers_of,
    moves,
)
from osc_ros.viewer.scene.obstacle_scene import is_own, OWN
from osc_ros.viewer.scene.reading import ABSENT, MARGIN, Reading

Array = NDArray[np.float64]

RADIUS = 0.06  # of a sphere that the page adds [m]
# Its centre is farther from the base than the tip, and lower, so that its handle does not cover
# that of the target [m].
FARTHER, LOWER = 0.3, 0.15
REST = 0.1  # time without a new position after which a sphere is sent at rest [s]


class ObstacleLink:
    """Stores the obstacles of a controller in `reading`, and publishes those of the page."""

    # Markers become obstacles as in the controller, which forgets them when it is not configured.

    def __init__(self, node: Node, controller: str, reading: Reading) -> None:
        self._reading, self.stamp = reading, Time()  # `stamp` of the newest joint state
        self._markers, self._chosen = self._no_markers(), -math.inf
        self._found: dict[str, Obstacle] = {}
        self._moving: dict[str, tuple[Array, float]] = {}  # positions, and when they were sent
        if MarkerArray is not None:
            self._publisher = node.create_publisher(MarkerArray, f'{controller}/obstacles', 10)
            node.create_subscription(MarkerArray, f'{controller}/obstacles', self._on_markers, 10,
                                     raw=True)

    def _no_markers(self) -> MarkerObstacles:
        return MarkerObstacles(self._frame_pose, self._arm, self._moves)

    @property
    def is_offered(self) -> bool:
        """Whether the controller keeps clear of obstacles."""
        return (MarkerArray is not None and 'obstacles' in self._reading.control.status
                and self._reading.parameters.get(MARGIN, 0.0) > 0.0)

    def add(self) -> None:
        """Publish another sphere beside the tip."""
        pose = self._reading.control.pose
        if pose is not None:
            taken = [int(name.removeprefix(f'{OWN}/'))
                     for name in filter(is_own, self._reading.obstacles)]
            way = np.arctan2(pose[1, 3], pose[0, 3])
            self.move(f'{OWN}/{max(taken, default=0) + 1}', pose[:3, 3] + np.array(
                [FARTHER * np.cos(way), FARTHER * np.sin(way), -LOWER]))

    def move(self, name: str, position: Array) -> None:
        """Publish the sphere of this name at a position (3,) in the base frame [m]."""
        self._moving[name] = position, monotonic()
        self._send(name, position)

    def delete(self) -> None:
        """Delete all obstacles that a page has added."""
        self._moving = {}
        marker = self._marker(f'{OWN}/0')
        marker.action = DELETE_ALL
        self._publisher.publish(MarkerArray(markers=[marker]))

    def update(self) -> None:
        """Store the obstacles of now in `reading`; send those at rest that a user let go."""
        for name, (position, sent) in list(self._moving.items()):
            if monotonic() - sent > REST:  # otherwise its last velocity would stay
                del self._moving[name]
                self._send(name, position)
        if self._reading.lifecycle in (ABSENT, 'unconfigured'):
            self._markers, self._found = self._no_markers(), {}
        now = monotonic()
        if not self._markers.left_out or now - self._chosen > AGAIN:
            self._chosen = now
            for name, one in self._markers.changes(now)[0].items():
                self._found.pop(name, None)
                if one is not None:
                    self._found[name] = one
        robot, q = self._reading.robot, self._reading.q
        self._reading.obstacles = {  # things on links move with them
            name: one if not one.link or robot is None or q is None else replace(
                one, pose=link_pose(robot, q, one.link) @ one.pose, link='')
            for name, one in self._found.items()}

    def _send(self, name: str, position: Array) -> None:
        self._publisher.publish(markers_of(
            {name: Obstacle.at('sphere', RADIUS, position)}, MarkerArray(), self._marker))

    def _marker(self, name: str) -> Any:
        found = marker_of('', self.stamp, OWN, Marker.SPHERE, ORANGE,
                          int(name.removeprefix(f'{OWN}/')))
        found.lifetime.sec = found.lifetime.nanosec = 0  # for ever
        return found

    def _on_markers(self, data: bytes) -> None:
        self._markers.take(data, monotonic())  # the controller reports those that are refused

    def _frame_pose(self, frame: str) -> Array:
        robot, q = self._reading.robot, self._reading.q
        if not frame or robot is not None and frame == robot.base:
            return np.eye(4)
        if robot is None or q is None or frame not in robot.frames:
            raise InputError(f"frame '{frame}'")
        return link_pose(robot, q, frame)

    def _moves(self, frame: str) -> bool:
        return self._reading.robot is not None and moves(self._reading.robot, frame)

    def _arm(self) -> Array:
        robot, q = self._reading.robot, self._reading.q
        return np.zeros((1, 3)) if robot is None or q is None else placement(robot, q).p
