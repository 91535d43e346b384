# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Connection of osc_viewer to a simulator and its gripper."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from time import monotonic
from typing import Any

from geometry_msgs.msg import WrenchStamped
import numpy as np
from numpy.typing import NDArray
from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from osc_ros.ros.messages import messages
from osc_ros.ros.messages.markers import LIFETIME, Marker, MarkerArray
from osc_ros.viewer.scene.reading import Reading, Solid

Array = NDArray[np.float64]

# Only the newest message; best effort, so that the publisher need not handle acknowledgements.
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


MOST_SOLIDS = 200  # largest number of objects that are drawn


def tolerant(callback: Callable[..., None], reading: Reading) -> Callable[..., None]:
    """Return a callback that shows its errors; an invalid message must not end the node."""
    @wraps(callback)  # keeps the signature: rclpy 9 passes the time to a callback that accepts it
    def called(*arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception as error:  # any error: the page must go on
            reading.say('refused', f'a message that cannot be used: {error}')

    return called


class SimulatorLink:
    """Subscriptions to objects and gripper of a simulator; publishes pushes of its arm."""

    def __init__(self, node: Node, name: str, reading: Reading) -> None:
        self._node, self._name, self._reading = node, name, reading
        self._seen = self._gripped = -np.inf
        self._parameters = node.create_client(GetParameters, f'{name}/get_parameters')
        self._start: Any = None  # answer with the initial positions
        self._pushes = node.create_publisher(WrenchStamped, f'{name}/push', 10)

    def subscribe(self) -> list[Any]:
        """Create and return the subscriptions."""
        topics = [(JointState, 'gripper/state', self._on_gripper)]
        if MarkerArray is not None:
            topics.append((MarkerArray, 'markers', self._on_markers))
        return [self._node.create_subscription(
            kind, f'{self._name}/{topic}', tolerant(callback, self._reading), NEWEST)
            for kind, topic, callback in topics]

    @property
    def takes_pushes(self) -> bool:
        """Whether a simulator subscribes to pushes."""
        return bool(self._pushes.get_subscription_count())

    def push(self, force: Array) -> None:
        """Publish the force (3,) of a push at the tip, in base axes [N]."""
        robot = self._reading.robot
        if robot is not None:
            self._pushes.publish(messages.wrench_message(
                np.array([0.0, 0.0, 0.0, *force]), robot.base, messages.stamp(0.0)))

    def forget_old(self) -> None:
        """Drop objects and the width of the gripper if they are no longer published."""
        oldest = monotonic() - LIFETIME
        if self._seen < oldest:
            self._reading.solids = {}
        if self._gripped < oldest:
            self._reading.gripper = None

    def find_home(self) -> None:
        """Store the initial positions of the simulator, or else the first measured positions."""
        reading = self._reading
        if reading.robot is None:
            return
        if not self._parameters.service_is_ready():
            self._start = None
        elif self._start is None:
            self._start = self._parameters.call_async(
                GetParameters.Request(names=['initial_positions']))
        elif self._start.done() and (answer := self._start.result()) is not None:
            for value in answer.values:
                if len(value.double_array_value) == reading.robot.n:
                    reading.home = np.array(value.double_array_value)
        if reading.home is None and reading.q is not None:
            reading.home = reading.q.copy()

    def _on_gripper(self, message: JointState) -> None:
        if message.position and message.effort and np.isfinite(message.position[0]):
            self._gripped = monotonic()
            self._reading.gripper = message.position[0], message.effort[0]

    def _on_markers(self, message: Any) -> None:
        self._seen = monotonic()
        self._reading.solids = {
            one.ns: (Solid('sphere' if one.type == Marker.SPHERE else 'box',
                           (one.scale.x, one.scale.y, one.scale.z),
                           (one.color.r, one.color.g, one.color.b, one.color.a)),
                     messages.pose_array(one.pose)) for one in message.markers[:MOST_SOLIDS]}
