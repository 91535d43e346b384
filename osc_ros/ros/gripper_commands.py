# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Topics and action of a gripper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.errors import OscError
from osc_ros.model.gripper_state import FASTEST, FORCE, goal_of, GripperState, HandGoal
from osc_ros.ros.messages import messages

try:
    from control_msgs.action import GripperCommand
except ImportError:  # not on PyPI
    GripperCommand = None


class GripperAction:
    """
    Action server for a gripper, which does not block the thread of its node.

    The position of a goal is the width [m]; a largest effort of 0 means the default [N]. A goal
    succeeds when the fingers rest: at the width (`reached_goal`), or because something stops them
    (`stalled`), as in gripper_controllers with allow_stalling. A new goal aborts the previous one.
    Without control_msgs there is no server. `move` commands the gripper, and raises OscError if
    the gripper refuses a goal.

    """

    def __init__(self, node: Node, name: str, move: Callable[[HandGoal], None]) -> None:
        self._node, self._move = node, move
        self._goal: Any = None  # handle of the goal in progress
        self._state = GripperState(0.0, 0.0, 0.0, 0.0, 0.0)
        if GripperCommand is not None:
            self._server = ActionServer(
                node, GripperCommand, name, lambda handle: None, goal_callback=self._accept,
                handle_accepted_callback=self._begin,
                cancel_callback=lambda handle: CancelResponse.ACCEPT)

    def _accept(self, request: Any) -> GoalResponse:
        """Command the gripper; reject the goal if the gripper refuses it."""
        command = request.command
        try:
            self._move(HandGoal(command.position, command.max_effort or FORCE))
        except OscError as error:
            self._node.get_logger().error(f'gripper: the goal is refused: {error}')
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _begin(self, handle: Any) -> None:
        if self._goal is not None:
            self._end('abort')
        self._goal = handle

    def _end(self, how: str) -> None:
        """End the goal in progress: 'succeed', 'abort' or 'canceled'."""
        result = self._fill_state(GripperCommand.Result())

        def execute(handle: Any) -> Any:
            getattr(handle, how)()
            return result

        goal, self._goal = self._goal, None
        goal.execute(execute)  # at the end only: an execution that waits would block the thread

    def _fill_state(self, message: Any) -> Any:
        """Fill a result or feedback from the last state."""
        message.position, message.effort = self._state.width, self._state.force
        message.reached_goal = self._state.is_at_goal
        message.stalled = self._state.is_stalled
        return message

    def update(self, state: GripperState) -> None:
        """Publish feedback on a goal in progress; end the goal if the fingers rest."""
        self._state = state
        if self._goal is None:
            return
        if self._goal.is_cancel_requested:
            self._move(HandGoal(max(state.width, 0.0), state.commanded_force))  # stop here
            self._end('canceled')
        elif not state.is_moving:
            self._end('succeed')
        else:
            self._goal.publish_feedback(self._fill_state(GripperCommand.Feedback()))


class GripperTopics:
    """
    Topics `~/gripper/…` of a gripper, and the action `~/gripper/gripper_cmd`.

    A command is a std_msgs/Float64MultiArray on `command`: the width [m], then optionally the
    largest force [N] and the speed [m/s]. The answer on `answers` repeats the label of the
    command's dimension; if the gripper refuses, it has the reason. `state` is a JointState with
    two names: 'width', with the rate and the force, and 'goal', with the commanded speed and
    force. For `move` see `GripperAction`.

    """

    def __init__(self, node: Node, move: Callable[[HandGoal], None]) -> None:
        self._node, self._send = node, move
        self._time, self._speed = 0.0, FASTEST
        self._states = node.create_publisher(JointState, '~/gripper/state', 10)
        self._answers = node.create_publisher(DiagnosticStatus, '~/gripper/answers', 10)
        node.create_subscription(Float64MultiArray, '~/gripper/command', self._on_command, 10)
        self._action = GripperAction(node, '~/gripper/gripper_cmd', self._move)

    def publish(self, state: GripperState, stamp: Any) -> None:
        """Publish a state, and pass it to the action."""
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
