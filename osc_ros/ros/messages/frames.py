# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Poses of frames: of links from the kinematics, of others from tf2 if it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.time import Time

from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.ros.messages import messages

Array = NDArray[np.float64]


class Frames:
    """Poses of frames in the robot's base frame; it listens to tf2 if tf2_ros is installed."""

    def __init__(self, node: Node) -> None:
        try:
            import tf2_ros
        except ImportError:
            self._tf2: Any = None
        else:
            self._tf2, self._buffer = tf2_ros, tf2_ros.Buffer()
            self._listener = tf2_ros.TransformListener(self._buffer, node)

    def pose(self, robot: Robot, q: Array, frame: str) -> Array:
        """Return the pose (4, 4) of a frame in the base frame, with the joints at q (n,)."""
        # A frame is a link (empty: the base), or one of tf2; for others InputError has the links.
        if frame in ('', robot.base):
            return np.eye(4)
        try:
            return link_pose(robot, q, frame)
        except InputError as error:
            if self._tf2 is None:
                raise InputError(f'{error}; tf2_ros, which knows other frames, is not installed'
                                 ) from None
            return self._pose_by_tf2(robot.base, frame, error)

    def _pose_by_tf2(self, base: str, frame: str, refusal: InputError) -> Array:
        try:
            found = self._buffer.lookup_transform(base, frame, Time()).transform
        except self._tf2.TransformException as error:
            raise InputError(f'{refusal}; and by tf2: {error}') from None
        return messages.transform_array(found)
