# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Topics and actions of a gripper."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
import math
from typing import Any, NamedTuple

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.errors import InputError, OscError
from osc_ros.model.gripper_state import FASTEST, FORCE, goal_of, GripperState, HandGoal
from osc_ros.ros.messages import messages

try:
    from control_msgs import action as actions
except ImportError:  # not on PyPI
    actions = None

WIDTH = 'width'  # name of the joint in the states


class ActionKind(NamedTuple):
    """An action of control_msgs for grippers."""

    kind: str  # type in control_msgs.action
    name: str  # of the server
    goal: Callable[[Any], HandGoal]  # returns the goal of a request
    fill: Callable[[Any, GripperState], None]  # writes a state to a message
    stops: bool  # whether the feedback has `reached_goal` and `stalled`, as the result has


def _single_goal(command: Any) -> HandGoal:
    return HandGoal(command.position, command.max_effort or FORCE)


def _fill_single(message: Any, state: GripperState) -> None:
    message.position, message.effort = state.width, state.force


def _parallel_goal(command: JointState) -> HandGoal:
    """Return the goal of a JointState with one position; InputError for others."""
    if list(command.name) not in ([], [WIDTH]) or len(command.position) != 1:
        raise InputError(f'joints {list(command.name)} with {len(command.position)} positions: '
                         f"give one position, the width [m], named '{WIDTH}' or not named")
    return goal_of([command.position[0], *((given[0] if len(given) else 0.0) or math.nan
                                           for given in (command.effort, command.velocity))])


def _fill_parallel(message: Any, state: GripperState) -> None:
    message.state = JointState(name=[WIDTH], position=[state.width], velocity=[state.rate],
                               effort=[state.force])


KINDS = (ActionKind('GripperCommand', 'gripper_cmd', _single_goal, _fill_single, True),
         ActionKind('ParallelGripperCommand', 'parallel_gripper_cmd', _parallel_goal,
                    _fill_parallel, False))


class GripperActions:
    """Action servers for a gripper, which do not block the thread of its node."""

    # A goal succeeds when the fingers rest: at the width (`reached_goal`), or because something
    # stops them (`stalled`), as in parallel_gripper_controller with allow_stalling. A new goal of
    # either action aborts the previous one.

    def __init__(self, node: Node, prefix: str, move: Callable[[HandGoal], None]) -> None:
        self._node, self._move = node, move  # OscError if the gripper refuses the goal
        self._goal: Any = None  # handle of the goal in progress
        self._kind = KINDS[0]  # of the goal in progress
        self._state = GripperState(0.0, 0.0, 0.0, 0.0, 0.0)
        self._servers = [ActionServer(
            node, getattr(actions, kind.kind), f'{prefix}/{kind.name}', lambda handle: None,
            goal_callback=partial(self._accept, kind),
            handle_accepted_callback=partial(self._begin, kind),
            cancel_callback=lambda handle: CancelResponse.ACCEPT)
            for kind in KINDS if hasattr(actions, kind.kind)]

    def _accept(self, kind: ActionKind, request: Any) -> GoalResponse:
        """Command the gripper; reject the goal if the gripper refuses it."""
        try:
            self._move(kind.goal(request.command))
        except OscError as error:
            self._node.get_logger().error(f'gripper: the goal is refused: {error}')
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _begin(self, kind: ActionKind, handle: Any) -> None:
        if self._goal is not None:
            self._end('abort')
        self._goal, self._kind = handle, kind

    def _end(self, how: str) -> None:
        """End the goal in progress: 'succeed', 'abort' or 'canceled'."""
        result = self._message('Result')

        def execute(handle: Any) -> Any:
            getattr(handle, how)()
            return result

        goal, self._goal = self._goal, None
        goal.execute(execute)  # at the end only: an execution that waits would block the thread

    def _message(self, part: str) -> Any:
        """Return the 'Result' or the 'Feedback' of the goal in progress, for the last state."""
        message = getattr(getattr(actions, self._kind.kind), part)()
        self._kind.fill(message, self._state)
        if part == 'Result' or self._kind.stops:
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
            self._goal.publish_feedback(self._message('Feedback'))


class GripperTopics:
    """Topics and actions ~/gripper/… of a gripper."""

    # command: width [m], then optionally the largest force [N] and the speed [m/s]. answers: the
    # label of the command's dimension, and the reason of a refusal. state: 'width' with rate and
    # force, 'goal' with the commanded speed and force.

    def __init__(self, node: Node, move: Callable[[HandGoal], None]) -> None:
        self._node, self._send = node, move
        self._time, self._speed = 0.0, FASTEST
        self._states = node.create_publisher(JointState, '~/gripper/state', 10)
        self._answers = node.create_publisher(DiagnosticStatus, '~/gripper/answers', 10)
        node.create_subscription(Float64MultiArray, '~/gripper/command', self._on_command, 10)
        self._actions = GripperActions(node, '~/gripper', self._move)

    def publish(self, state: GripperState, stamp: Any) -> None:
        """Publish a state, and pass it to the action."""
        self._time = messages.seconds(stamp)
        message = JointState(name=[WIDTH, 'goal'], position=[state.width, state.goal],
                             velocity=[state.rate, self._speed],
                             effort=[state.force, state.commanded_force])
        message.header.stamp = stamp
        self._states.publish(message)
        self._actions.update(state)

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
