# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Transforms of a simulated robot's links on /tf."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped, Vector3
import numpy as np
from numpy.typing import NDArray
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

Array = NDArray[np.float64]

RATE = 30.0  # [Hz] of simulated time
LOOK_PERIOD = 1.0  # wall time between two checks for another publisher [s]
OTHER = 'robot_state_publisher'


class OtherPublisher:
    """Finds other nodes that publish the transforms: their names contain one of `names`."""

    def __init__(self, node: Node, *names: str) -> None:
        self._node, self._names = node, names
        self._is_there, self._looked = False, -np.inf

    def is_there(self, topic: str) -> bool:
        """Return whether such a node publishes on a topic, checked every LOOK_PERIOD; log it."""
        if perf_counter() - self._looked > LOOK_PERIOD:
            self._looked, before = perf_counter(), self._is_there
            found = [info.node_name for info in self._node.get_publishers_info_by_topic(topic)
                     if any(name in info.node_name for name in self._names)]
            self._is_there = bool(found)
            if found and not before:
                self._node.get_logger().info(f'{found[0]} publishes the transforms of the links')
        return self._is_there


def transform_message(T: Array, parent: str, link: str, stamp: Time) -> TransformStamped:
    """Return a message with the pose (4, 4) of a link in its parent's frame."""
    pose = messages.pose_message(T, parent, stamp)
    p, message = pose.pose.position, TransformStamped(header=pose.header, child_frame_id=link)
    message.transform.rotation = pose.pose.orientation
    message.transform.translation = Vector3(x=p.x, y=p.y, z=p.z)
    return message


class LinkTransforms:
    """Publisher of each link's pose in its parent's frame, unless robot_state_publisher runs."""

    def __init__(self, node: Node, plant: Plant, urdf_text: str) -> None:
        tree = urdf.description(urdf_text)
        self._plant, self._other = plant, OtherPublisher(node, OTHER)
        self._links, self._parents = tree.links, tree.parent[1:].tolist()
        self._publisher = TFMessage and node.create_publisher(
            TFMessage, '/tf', QoSProfile(depth=100))

    def publish(self, stamp: Time) -> None:
        """Publish the present transforms."""
        if self._publisher is not None and not self._other.is_there(self._publisher.topic_name):
            self._publisher.publish(TFMessage(transforms=self.transforms(stamp)))

    def transforms(self, stamp: Time) -> list[TransformStamped]:
        """Return the present transforms."""
        poses = [self._plant.pose(link) for link in self._links]
        return [transform_message(np.linalg.inv(poses[parent]) @ pose, self._links[parent], link,
                                  stamp)
                for link, parent, pose in zip(self._links[1:], self._parents, poses[1:])]
