# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Topics and action of a gripper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.control.gripper_state import FASTEST, goal_of, GripperState, HandGoal
from osc_ros.errors import OscError
from osc_ros.nodes import messages
from osc_ros.nodes.gripper_action import GripperAction


class GripperTopics:
    """
    Topics and action of a gripper.

    A command is std_msgs/Float64MultiArray on `~/gripper/command`: the width, then the largest
    force, then the speed. The label of its dimension comes back in the answer on
    `~/gripper/answers`, with the reason of a refusal. `~/gripper/state` has 'width' first, with
    its rate and the force, then 'goal', with the commanded speed and force.

    Parameters
    ----------
    node : Node
    move : callable
        Commands the gripper; raises OscError if it refuses a goal.

    """

    def __init__(self, node: Node, move: Callable[[HandGoal], None]) -> None:
        self._node, self._send = node, move
        self._time, self._speed = 0.0, FASTEST
        self._states = node.create_publisher(JointState, '~/gripper/state', 10)
        self._answers = node.create_publisher(DiagnosticStatus, '~/gripper/answers', 10)
        node.create_subscription(Float64MultiArray, '~/gripper/command', self._on_command, 10)
        self._action = GripperAction(node, '~/gripper/gripper_cmd', self._move)

    def publish(self, state: GripperState, stamp: Any) -> None:
        """Publish a state, and tell the action."""
        self._time = messages.seconds(stamp)
        message = JointState(name=['width', 'goal'], position=[state.width, state.goal],
                             velocity=[state.rate, self._speed],
                             effort=[state.force, state.commanded_force])
        message.header.stamp = stamp
        self._states.publish(message)
        self._action.update(state)

    def _move(self, goal: HandGoal) -> None:
        self._send(goal)
        self._speed = goal.speed

    def _on_command(self, message: Float64MultiArray) -> None:
        reason = ''
        try:
            self._move(goal_of(message.data))
        except OscError as error:
            reason = str(error)
            self._node.get_logger().error(f'gripper/command refused, the old one stays: {error}',
                                          throttle_duration_sec=1.0)
        label = message.layout.dim[0].label if message.layout.dim else ''
        self._answers.publish(DiagnosticStatus(
            level=DiagnosticStatus.ERROR if reason else DiagnosticStatus.OK,
            name='gripper/command', message=reason, values=[
                KeyValue(key='label', value=label),
                KeyValue(key='time', value=repr(self._time))]))
