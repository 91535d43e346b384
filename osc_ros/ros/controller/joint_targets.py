# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Topics and action by which the joints of osc_controller are commanded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from osc_ros.control.accepted import FULL_SPEED
from osc_ros.control.law import Law
from osc_ros.control.setpoint.joint_motion import AT_REST
from osc_ros.control.setpoint.stamps import require_timely, SOON, start_of
from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.loop.cycle import ACTIVE
from osc_ros.ros.messages import messages

try:
    from control_msgs.action import FollowJointTrajectory
except ImportError:  # not on PyPI
    FollowJointTrajectory = None

Array = NDArray[np.float64]

TOLERANCE = 0.01  # accepted error at the goal, if the client gives none [rad, m]
PATIENCE = 2.0  # time in which the goal must be reached, if the client gives none [s]
# error codes of control_msgs/action/FollowJointTrajectory
SUCCESSFUL, INVALID_GOAL, PATH_VIOLATED, GOAL_VIOLATED = 0, -1, -4, -5


class Tolerances(NamedTuple):
    """Accepted errors of the joints (n,) on the way and at the goal, and a time [s]."""

    path: Array
    goal: Array
    time: float


class JointTargets:
    """Topics ~/target_joint and ~/joint_trajectory, and the action ~/follow_joint_trajectory."""

    def __init__(self, node: Node, loop: Any, law: Law, lead: Callable[[], None],
                 answer: Callable[..., None]) -> None:
        self._node, self._loop, self._law = node, loop, law
        self._names = law.robot.joint_names
        # `lead` sets the parameter `mode` to 'joints', or raises InputError. `answer` gets the
        # topic, the stamp of the message, why it is refused or None, a warning, and its start.
        self._lead, self._answer = lead, answer
        self.subscriptions = [
            node.create_subscription(JointState, '~/target_joint', self._on_goal, 10),
            node.create_subscription(JointTrajectory, '~/joint_trajectory', self._on_trajectory,
                                     10)]
        self._goal: Any = None  # handle of the action's goal in progress
        self._tolerances = Tolerances(np.zeros(0), np.zeros(0), 0.0)
        self._end = np.inf  # time on the clock of the states at which the motion should end [s]
        self._server = None if FollowJointTrajectory is None else ActionServer(
            node, FollowJointTrajectory, '~/follow_joint_trajectory', lambda handle: None,
            goal_callback=lambda request: GoalResponse.ACCEPT,
            handle_accepted_callback=self._begin,
            cancel_callback=lambda handle: CancelResponse.ACCEPT)

    def close(self) -> None:
        """End a goal in progress, and destroy the subscriptions and the server."""
        self.preempt('the controller shuts down')
        for one in self.subscriptions:
            self._node.destroy_subscription(one)
        if self._server is not None:
            self._server.destroy()

    # topics

    def _on_goal(self, message: JointState) -> None:
        def command() -> tuple[str, float]:
            goal = self._columns(message.name, 'positions', [message.position])[0]
            speed = None if not len(message.velocity) else self._columns(
                message.name, 'velocities', [message.velocity])[0]
            start_of(messages.seconds(message.header.stamp), self._loop.time, SOON)
            self._go(goal, speed)
            return '', 0.0

        self._command('target_joint', message.header.stamp, command)

    def _on_trajectory(self, message: JointTrajectory) -> None:
        self._command('joint_trajectory', message.header.stamp, lambda: self._follow(message)[1:])

    def _command(self, topic: str, sent: Any, command: Callable[[], tuple[str, float]]) -> None:
        """Execute a command of a topic, which preempts a goal of the action, and answer."""
        # it returns a warning, and its start [s], 0: now
        try:
            text, start = command()
        except InputError as error:
            self._answer(topic, sent, error)
            return
        self.preempt(f'a command on {topic} has replaced it')
        self._answer(topic, sent, None, text, start)

    def _go(self, goal: Array, speed: Array | None = None) -> float:
        """Move to a goal (n,) from now on; return the duration [s]."""
        self._require_active()
        self._law.require_joint_goal(goal, speed, self._loop.q)
        self._lead()
        return float(self._loop.request(requests.move_joints, goal, None, speed))

    def _require_active(self) -> None:
        if self._loop.mode != ACTIVE:
            raise InputError('the controller is not active')

    def _columns(self, names: Sequence[str], what: str, rows: Sequence[Sequence[float]]) -> Array:
        """Return rows (m, n) in the order of the joints; NaN: no column, the joint holds."""
        if not names or len(set(names)) < len(names):
            raise InputError(f"joints {', '.join(names) or '(none)'}: give one or more "
                             'names, each once')
        for name in names:
            if name not in self._names:
                raise InputError(f"there is no joint '{name}': give one of "
                                 + ', '.join(self._names))
        found = np.full((len(rows), len(self._names)), np.nan)
        order = [self._names.index(name) for name in names]
        for k, row in enumerate(rows):
            if len(row) != len(names) or not np.isfinite(row).all():
                raise InputError(f'point {k} has the {what} {list(row)}: give '
                                 f"{len(names)} finite numbers, for {', '.join(names)}")
            found[k, order] = row
        return found

    def _follow(self, message: JointTrajectory) -> tuple[float, str, float]:
        """Command a trajectory; return its end [s], a warning, and its start if it waits, or 0."""
        self._require_active()
        points: Sequence[JointTrajectoryPoint] = message.points
        if not points:
            raise InputError('the trajectory has no points: give one or more')
        now, start = self._loop.time, messages.seconds(message.header.stamp)
        times = np.array([messages.seconds(point.time_from_start) for point in points])
        if (np.diff(times) <= 0.0).any() or times[0] < 0.0:
            k = int(np.argmax(np.diff(times, prepend=-1.0) <= 0.0))
            raise InputError(f'point {k} is at {times[k]:g} s: give increasing times')
        columns = []
        for what in ('positions', 'velocities', 'accelerations'):
            rows = [getattr(point, what) for point in points]
            is_given = what == 'positions' or any(len(row) for row in rows)
            columns.append(self._columns(message.joint_names, what, rows) if is_given else None)
        positions, wait = columns[0], 0.0
        if start > 0.0:
            require_timely(start + float(times[0]), start + float(times[-1]), now)
            wait = start - now if start - now > SOON and times[-1] > 0.0 else 0.0
            times += start - now - wait
            if times[-1] > 0.0:
                is_left = times > 0.0
                times, columns = times[is_left], [
                    None if rows is None else rows[is_left] for rows in columns]
        if times[-1] <= 0.0:
            return now + self._go(positions[-1]), (
                f'the last point was for {-times[-1]:.3g} s ago: it is a goal for now'), 0.0
        if len(times) == 1 and columns[1] is columns[2] is None and not wait:
            self._law.require_joint_goal(positions[-1], None, self._loop.q)
            self._lead()
            return now + float(self._loop.request(
                requests.reach_joints, float(times[0]), positions[-1])), '', 0.0
        state, held = self._loop.read(requests.joint_set_point)
        motion = self._law.joint_path(state, held, times, *columns)
        if wait:
            if np.abs(state[1:]).max() > AT_REST:
                raise InputError(f'the joints move, and the trajectory begins in {wait:.3g} s: '
                                 f'send it when they rest, or at most {SOON:g} s before it begins')
            motion = motion.after(wait * self._loop.read(requests.speed_override) / FULL_SPEED)
        self._lead()
        return (now + float(self._loop.request(requests.follow_joints, motion)), '',
                start if wait else 0.0)

    # action

    def _begin(self, handle: Any) -> None:
        """Begin an accepted goal, which preempts the one in progress; abort it if refused."""
        self.preempt('a new goal has replaced it')
        request, self._goal = handle.request, handle
        try:
            if request.multi_dof_trajectory.points:
                raise InputError('multi_dof_trajectory: give a trajectory of joints')
            self._tolerances = self._tolerances_of(request)
            self._end, *_ = self._follow(request.trajectory)
        except InputError as error:
            self._node.get_logger().error(f'follow_joint_trajectory refused: {error}')
            self._finish('abort', INVALID_GOAL, str(error))

    def _tolerances_of(self, request: Any) -> Tolerances:
        """Return the tolerances of a goal: 0 is a default, a negative number none."""
        found = np.array([np.full(len(self._names), np.inf), np.full(len(self._names), TOLERANCE)])
        for row, given in zip(found, (request.path_tolerance, request.goal_tolerance)):
            for one in given:
                if one.name not in self._names or not np.isfinite(one.position):
                    raise InputError(f"tolerance {one.position} of joint '{one.name}': must "
                                     'be finite numbers for ' + ', '.join(self._names))
                if one.position != 0.0:
                    row[self._names.index(one.name)] = abs(one.position) if (
                        one.position > 0.0) else np.inf
        return Tolerances(*found, messages.seconds(request.goal_time_tolerance) or PATIENCE)

    def preempt(self, reason: str) -> None:
        """Abort the goal in progress, if there is one."""
        if self._goal is not None:
            self._finish('abort', INVALID_GOAL, reason)

    def update(self) -> None:
        """Publish feedback on a goal in progress, and end it if it is reached or fails."""
        if self._goal is None:
            return
        found = self._loop.read(requests.joint_progress)
        if found is None:
            self._finish('abort', INVALID_GOAL, 'the joints do not lead any more: '
                         + self._loop.read(requests.status).text)
            return
        error = found.way()
        if self._goal.is_cancel_requested:
            self._loop.request(requests.hold)
            self._finish('canceled', SUCCESSFUL, 'canceled: the joints stop and hold')
            return
        self._goal.publish_feedback(self._feedback(found, error))
        off = np.abs(error) > self._tolerances.path
        if off.any():
            self._loop.request(requests.hold)
            self._violated(off, error, self._tolerances.path, PATH_VIOLATED, 'on the way')
        elif not found.is_moving and (np.abs(error) <= self._tolerances.goal).all():
            self._finish('succeed', SUCCESSFUL, '')
        elif not found.is_moving and found.time > self._end + self._tolerances.time:
            self._violated(np.abs(error) > self._tolerances.goal, error, self._tolerances.goal,
                           GOAL_VIOLATED, 'at the goal')

    def _violated(self, off: NDArray[np.bool_], error: Array, accepted: Array, code: int,
                  where: str) -> None:
        """Abort the goal, because of the joints `off` (n,)."""
        self._finish('abort', code, f'error {where}: ' + ', '.join(
            f"joint '{self._names[i]}' {error[i]:.4g}, accepted {accepted[i]:.4g}"
            for i in np.flatnonzero(off).tolist()))

    def _feedback(self, found: requests.JointProgress, error: Array) -> Any:
        feedback = FollowJointTrajectory.Feedback(joint_names=list(self._names))
        feedback.header.stamp = messages.stamp(found.time)
        for point, row in (
                (feedback.desired, found.desired), (feedback.actual, (found.q, found.qd)),
                (feedback.error, (error,))):
            for name, values in zip(('positions', 'velocities', 'accelerations'), row):
                setattr(point, name, values.tolist())
        return feedback

    def _finish(self, how: str, code: int, text: str) -> None:
        """End the goal in progress: 'succeed', 'abort' or 'canceled'."""
        result = FollowJointTrajectory.Result(error_code=code, error_string=text)

        def execute(handle: Any) -> Any:
            getattr(handle, how)()
            return result

        goal, self._goal = self._goal, None
        goal.execute(execute)  # at the end only: an execution that waits would block the thread
