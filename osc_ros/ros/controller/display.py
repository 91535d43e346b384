# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Topics of osc_controller for RViz and Foxglove: markers, and transforms of the links."""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any

from geometry_msgs.msg import TransformStamped
import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile

from osc_ros.control.law import Law
from osc_ros.control.model_error.disturbance import Report
from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.loop.cycle import Stamp
from osc_ros.ros.messages import markers, messages, transforms
from osc_ros.ros.parameters.display_parameters import RATE, TF

Array = NDArray[np.float64]

OTHERS = transforms.OTHER, 'osc_simulator'  # nodes that publish the transforms of the arm
EARLY = 0.1  # fraction of its period by which a marker message may come early


class Display:
    """Publishes markers from the reports of the loop, and transforms on a timer."""

    def __init__(self, node: Node, loop: Any, law: Law) -> None:
        # in the node's thread; reads the newest positions of the loop without a lock
        self._node, self._loop, self._law = node, loop, law
        self._publisher: Any = None
        self._messages: markers.MarkerMessages | None = None
        self._published = -math.inf
        self._transforms: Any = None
        self._other = transforms.OtherPublisher(node, *OTHERS)
        self._timer = node.create_timer(1.0 / transforms.RATE, self.publish_transforms,
                                        clock=Clock(clock_type=ClockType.STEADY_TIME))

    def close(self) -> None:
        """Destroy timer and publishers."""
        self._node.destroy_timer(self._timer)
        for publisher in (self._publisher, self._transforms):
            if publisher is not None:
                self._node.destroy_publisher(publisher)
        self._publisher = self._transforms = None

    def publish_markers(self, stamp: Stamp, pose: Array, error: Array, F: Array,
                        external: Report | None) -> None:
        """Publish the markers of a tick if they are due and the topic has subscribers."""
        rate, now = self._node.get_parameter(RATE).value, perf_counter()
        if not rate:
            if self._publisher is not None:
                self._node.destroy_publisher(self._publisher)
                self._publisher = None
            return
        if self._publisher is None and not self._can_publish_markers():
            return
        if now - self._published < (1.0 - EARLY) / rate:
            return
        if not self._publisher.get_subscription_count() or len(self._loop.q) == 0:
            return
        self._published, robot = now, self._law.robot
        try:
            if self._messages is None or self._messages.robot is not robot:
                self._messages = markers.MarkerMessages(robot, self._law.settings.damping)
            self._publisher.publish(self._messages.message(markers.Tick(
                messages.time_of(stamp), self._loop.q, pose, error, F,
                None if external is None else external.wrench)))
        except Exception as failure:  # any error: markers must not end the node
            self._node.get_logger().error(f'no markers: {type(failure).__name__}: {failure}',
                                          throttle_duration_sec=5.0)

    def _can_publish_markers(self) -> bool:
        """Create the publisher; return False if visualization_msgs is not installed."""
        if markers.MarkerArray is None:
            self._node.get_logger().warning(
                f"{RATE} is set, but there is no package visualization_msgs: pip install "
                "'ros-visualization-msgs==5.3.6' (ROS Jazzy), or apt install "
                'ros-jazzy-visualization-msgs', once=True)
            return False
        self._publisher = self._node.create_publisher(markers.MarkerArray, '~/markers', 1)
        return True

    def publish_transforms(self) -> None:
        """Publish the pose of every link in the base frame, unless another node does."""
        if not self._node.get_parameter(TF).value or len(self._loop.q) == 0:
            return
        if self._transforms is None:
            if transforms.TFMessage is None:
                self._node.get_logger().info(  # not a warning: it is the default of osc_arm
                    f'{TF} is set, but there is no package tf2_msgs: it comes with ROS, not with '
                    'pip', once=True)
                return
            self._transforms = self._node.create_publisher(
                transforms.TFMessage, '/tf', QoSProfile(depth=100))
        try:
            if not self._other.is_there(self._transforms.topic_name):
                self._transforms.publish(transforms.TFMessage(transforms=self.transforms()))
        except Exception as failure:  # any error: transforms must not end the node
            self._node.get_logger().error(f'no transforms: {type(failure).__name__}: {failure}',
                                          throttle_duration_sec=5.0)

    def transforms(self) -> list[TransformStamped]:
        """Return the transforms from the base to every other link of the robot."""
        loop, robot = self._loop, self._law.robot
        at, time, found = placement(robot, loop.q), messages.stamp(loop.time), []
        for link, (body, T_body_link) in robot.frames.items():
            if link == robot.base:
                continue
            T = np.eye(4)
            if body >= 0:
                T[:3, :3], T[:3, 3] = at.R[body], at.p[body]
            found.append(transforms.transform_message(
                T @ T_body_link, robot.base, link, time))
        return found
