# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Transforms of a simulated robot's links on /tf."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped, Vector3
import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile

from osc_ros.model import urdf
from osc_ros.ros.messages import messages

try:
    from tf2_msgs.msg import TFMessage
except ImportError:  # only ROS installations have it; PyPI has no wheel
    TFMessage = None

if TYPE_CHECKING:
    from osc_ros.sim.plant import Plant

RATE = 30.0  # [Hz] of simulated time
LOOK_PERIOD = 1.0  # wall time between two checks for another publisher [s]
OTHER = 'robot_state_publisher'


class LinkTransforms:
    """Publisher of each link's pose in its parent's frame, unless robot_state_publisher runs."""

    def __init__(self, node: Node, plant: Plant, urdf_text: str) -> None:
        tree = urdf.description(urdf_text)
        self._node, self._plant = node, plant
        self._links, self._parents = tree.links, tree.parent[1:].tolist()
        self._transforms = [TransformStamped(child_frame_id=link) for link in tree.links[1:]]
        for transform, parent in zip(self._transforms, self._parents):
            transform.header.frame_id = tree.links[parent]
        self._has_other, self._looked = False, -np.inf
        self._publisher = TFMessage and node.create_publisher(
            TFMessage, '/tf', QoSProfile(depth=100))

    def publish(self, stamp: Time) -> None:
        """Publish the present transforms."""
        if self._publisher is not None and not self._another_publishes():
            self._publisher.publish(TFMessage(transforms=self.transforms(stamp)))

    def transforms(self, stamp: Time) -> list[TransformStamped]:
        """Return the present transforms; the next call overwrites these messages."""
        poses = [self._plant.pose(link) for link in self._links]
        for message, parent, pose in zip(self._transforms, self._parents, poses[1:]):
            found = messages.pose_message(np.linalg.inv(poses[parent]) @ pose, '', stamp).pose
            message.header.stamp = stamp
            p, message.transform.rotation = found.position, found.orientation
            message.transform.translation = Vector3(x=p.x, y=p.y, z=p.z)
        return self._transforms

    def _another_publishes(self) -> bool:
        if perf_counter() - self._looked > LOOK_PERIOD:
            self._looked, before = perf_counter(), self._has_other
            self._has_other = any(
                OTHER in info.node_name
                for info in self._node.get_publishers_info_by_topic(self._publisher.topic_name))
            if self._has_other and not before:
                self._node.get_logger().info(f'{OTHER} publishes the transforms of the links')
        return self._has_other
