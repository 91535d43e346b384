# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Topics and services by which osc_controller is commanded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import (
    InertiaStamped,
    PointStamped,
    PoseStamped,
    TwistStamped,
    Vector3Stamped,
    WrenchStamped,
)
import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectory

from osc_ros.control.accepted import (
    bounded_stiffness,
    bounded_twist,
    duration_text,
    OUTSIDE,
    require_reach,
)
from osc_ros.control.law import checked_wrench, Law
from osc_ros.control.setpoint.set_point_generator import Motion
from osc_ros.control.setpoint.stamps import begin_text, require_timely, SOON, start_of
from osc_ros.control.setpoint.trajectory import Path, path_through, path_within, PoseGoal
from osc_ros.control.settings import Settings, TASKS
from osc_ros.control.tasks.free import REFUSAL
from osc_ros.control.tasks.impedance import SOFTEST
from osc_ros.control.tasks.task import NO_ROTATION, pose, Stiffness, Target
from osc_ros.errors import InputError, ReachError
from osc_ros.loop import requests
from osc_ros.loop.cycle import ACTIVE, IDLE
from osc_ros.recording import cdr
from osc_ros.ros.controller.goal_topics import Goals, task_prefixes
from osc_ros.ros.controller.joint_targets import JointTargets
from osc_ros.ros.controller.policy import PolicyInput
from osc_ros.ros.dds.ros_loop import Loop
from osc_ros.ros.messages import messages, serialized
from osc_ros.ros.messages.frames import Frames
from osc_ros.ros.messages.obstacle_markers import ObstacleTopic
from osc_ros.ros.parameters.controller_parameters import SPEED

Array = NDArray[np.float64]

Command = tuple[Motion | None, float]  # motion (None: already commanded) and start time [s]

LOGGED = 1.0  # shortest time between two equal lines in the log [s]
ROUNDING = 1e-9  # smaller components of a rotated wrench, relative to the largest one, become 0


class Accepted(NamedTuple):
    """An accepted goal: task, topic, stamp of the message, and start time [s], or 0 for now."""

    task: str
    topic: str
    sent: Time
    start: float


class Targets:
    """Command topics and services of a configured controller."""

    # Each callback runs in the thread that spins the node, plans the command, and requests the
    # loop to execute it. A refused message is logged with the reason and changes nothing.
    # ~/answers has the result of each command, and a second one for a goal that is dropped.

    def __init__(self, node: Node, loop: Loop, law: Law, frames: Frames, goals: Goals) -> None:
        # the loop's law may be in another process; this one has its robot and settings
        self._node, self._loop, self._law = node, loop, law
        self._frames, self._goals, self._told = frames, goals, dict[str, float]()
        self.policy = PolicyInput(loop, law, self._frame_pose)
        self._answers = node.create_publisher(DiagnosticStatus, '~/answers', 100)
        # compile the reader now, and not when the first path comes
        serialized.trajectory(serialize_message(MultiDOFJointTrajectory()))
        prefixes = task_prefixes(law)
        first, *further = prefixes
        self._subscriptions = [
            *(self._subscribe_task(task, prefix, *topic) for topic in (
                (PoseStamped, 'target_pose', self._on_pose),
                (TwistStamped, 'target_twist', self._on_twist),
                # serialized, because rclpy would make an object of every number under the GIL
                (MultiDOFJointTrajectory, 'target_trajectory', self._on_trajectory, 10, True),
                (MultiDOFJointTrajectory, 'target_chunk', self._on_chunk, 10, True),
                (WrenchStamped, 'target_wrench', self._on_wrench),
                (WrenchStamped, 'measured_wrench', self._on_measured_wrench,
                 qos_profile_sensor_data))
              for task, prefix in prefixes.items()),
            # the task of the tip always controls a pose, so it has no target point
            *(self._subscribe_task(task, prefixes[task], PointStamped, 'target_point',
                                   self._on_point) for task in further),
            *(node.create_subscription(kind, f'~/{topic}', callback, 10)
              for kind, topic, callback in (
                  (JointState, 'target_posture', self._on_posture),
                  (InertiaStamped, 'payload', self._on_payload),
                  (Vector3Stamped, 'gravity', self._on_gravity),
                  (Float64, 'speed', self._on_speed),
                  (Float64MultiArray, 'target_impedance', partial(self._on_impedance, first)))),
        ]
        self._services = [node.create_service(Trigger, name, callback) for name, callback in (
            ('~/hold', self._on_hold), ('~/release', self._on_release))]
        self._services.append(
            node.create_service(SetBool, '~/free_drive', self._on_free_drive))
        self._mode = 'acceleration'  # mode to return to after a free or a joint drive
        self._leader = ''  # 'joints' or 'free' during such a drive
        self._stiffest = np.zeros(6)  # checked stiffness of the tip
        self._accepted: list[Accepted] = []  # goals that are not replaced
        self.joints = JointTargets(node, loop, law, partial(self._lead, 'joints'),
                                   self._answer_joints)
        self.obstacles = ObstacleTopic(node, loop, law, self._frame_pose, self._answer_obstacles)

    def _subscribe_task(self, task: str, prefix: str, kind: Any, topic: str,
                        callback: Callable[..., None], qos: Any = 10, raw: bool = False) -> Any:
        return self._node.create_subscription(
            kind, f'~/{prefix}{topic}', partial(callback, task, prefix + topic), qos, raw=raw)

    def close(self) -> None:
        """Destroy subscriptions, services and the publisher."""
        self.joints.close()
        self.obstacles.close()
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        for service in self._services:
            self._node.destroy_service(service)
        self._node.destroy_publisher(self._answers)

    def apply(self, values: Mapping[str, Any]) -> None:
        """Set the parameters that concern targets and goals."""
        self._twist_timeout: float = values['target.twist_timeout']
        self.policy.apply(values)
        self._goals.apply(values)
        self.obstacles.apply(values['obstacles.touch'])
        self._sign = 1.0 if values['force.measured'] == 'by_robot' else -1.0
        leader = values['mode'] if values['mode'] in ('free', 'joints') else ''
        if leader != self._leader:
            self.answer_dropped(f"mode {values['mode']} has replaced it")
        self._leader = leader
        if not leader:
            self._mode: str = values['mode']

    @property
    def topics(self) -> list[str]:
        """Names of the topics that command the arm."""
        return [one.topic_name for one in (*self._subscriptions, *self.joints.subscriptions)]

    @property
    def _active(self) -> bool:
        return bool(self._loop.mode == ACTIVE)

    def _frame_pose(self, frame: str) -> Array:
        """Return the pose (4, 4) of a frame in the base frame, at the newest joint state."""
        q = self._loop.q
        if not len(q):
            raise InputError(f"frame '{frame}' cannot be located: no joint state has come yet")
        return self._frames.pose(self._law.robot, q, frame)

    # joints

    def _lead(self, mode: str) -> None:
        """Change `mode` to or from 'joints'; raise InputError if it is refused."""
        is_joints = self._law.settings.joints is not None
        if mode == 'joints' and self._law.settings.free is not None:
            raise InputError(REFUSAL)
        if is_joints != (mode == 'joints') and (reason := self._set_mode(mode)):
            raise InputError(reason)
        if mode != 'joints':
            self.joints.preempt('a command of the tip has replaced it')

    def _answer_obstacles(self, sent: Time, text: str) -> None:
        """Log and answer a message with obstacles; `text` is about the refused ones."""
        if text and self._is_new(text):
            self._node.get_logger().warning(f'obstacles: {text}')
        self._answer('obstacles', sent, DiagnosticStatus.WARN if text else DiagnosticStatus.OK,
                     text)

    def _answer_joints(self, topic: str, sent: Time, error: InputError | None, text: str = '',
                       start: float = 0.0) -> None:
        """Log and answer a command of the joints; `text` is a warning."""
        if error is not None:
            self._refuse(topic, 'one', error, sent)
            return
        self._accept(Accepted(next(iter(self._law.levels)), topic, sent, start), text)

    # accepted goals

    def _accept(self, goal: Accepted, text: str = '', report: str = '') -> None:
        """Answer an accepted goal; `text` is a warning, `report` is not."""
        now = self._loop.time  # before the goal can be reported as reached
        self._goals.begin(goal.task)
        if text:
            self._node.get_logger().warning(f'{goal.topic}: {text}', throttle_duration_sec=1.0)
        start = goal.start or now
        self._answer(goal.topic, goal.sent, DiagnosticStatus.WARN if text else DiagnosticStatus.OK,
                     '; '.join(one for one in (text or report, begin_text(start, now)) if one),
                     now)
        own = [one for one in self._accepted if one.task == goal.task]  # in order of their start
        for one in own:
            if one.start > now and one.start >= start:
                self._answer(one.topic, one.sent, DiagnosticStatus.ERROR,
                             f'dropped before it began: replaced by a command on {goal.topic}')
        in_progress = [one for one in own if one.start <= now][-1:] if start > now else []
        self._accepted = [
            *(one for one in self._accepted if one.task != goal.task), *in_progress,
            *(one for one in own if now < one.start < start), goal]

    def answer_dropped(self, text: str, task: str = '', start: float | None = None) -> None:
        """Answer accepted goals a second time, because they will not be reached."""
        # the goal of `task` that begins at `start`; without `start`, the goals of `task` ('': of
        # all tasks) that are not reached
        now, kept = self._loop.time, []
        in_progress = {one.task: one for one in self._accepted if one.start <= now}
        for one in self._accepted:
            if task not in ('', one.task) or start not in (None, one.start):
                kept.append(one)
            elif start is not None or one.start > now or (
                    in_progress[one.task] is one and not self._goals.is_reached(one.task)):
                self._answer(one.topic, one.sent, DiagnosticStatus.ERROR, f'dropped: {text}')
        self._accepted = kept

    # motions: `read` raises for messages that are not accepted, before anything changes

    def _on_pose(self, task: str, topic: str, message: PoseStamped) -> None:
        def read() -> Callable[[], Command]:
            T = self._frame_pose(message.header.frame_id) @ messages.pose_array(message.pose)
            self._require_reach(task, T[None])
            start_of(stamp := messages.seconds(message.header.stamp), self._loop.time)
            return lambda: (
                None if self.policy.follow_stream(task, T, stamp) else PoseGoal(T), stamp)

        self._follow(task, topic, message.header.stamp, read)

    def _on_point(self, task: str, topic: str, message: PointStamped) -> None:
        def read() -> Callable[[], Command]:
            point = pose(messages.point_array(message), NO_ROTATION)
            there = self._frame_pose(message.header.frame_id) @ point
            there[:3, :3] = point[:3, :3]
            start_of(stamp := messages.seconds(message.header.stamp), self._loop.time)
            return lambda: (PoseGoal(there), stamp)

        self._follow(task, topic, message.header.stamp, read)

    def _on_chunk(self, task: str, topic: str, data: bytes) -> None:
        def read() -> Callable[[], Command]:
            chunk = self.policy.chunk(task, data)
            self._require_reach(task, chunk[1])

            def command() -> Command:
                entry, late = self.policy.follow_chunk(task, *chunk)
                if late > 0.0:
                    self._node.get_logger().warning(
                        f'{topic} comes {late:.3f} s after the set-point began to slow down: it '
                        f'{entry}', throttle_duration_sec=1.0)
                self._report, self._text = str(entry), entry.warning
                return None, 0.0

            return command

        self._follow(task, topic, messages.time_of(cdr.stamp(data)), read)

    def _on_trajectory(self, task: str, topic: str, data: bytes) -> None:
        def read() -> Callable[[], Command]:
            motion, start = messages.path(data, now := self._loop.time, self._frame_pose,
                                          partial(self._path, task, topic))
            limits = self.policy.task(task).limits
            if isinstance(motion, Path):
                self._require_reach(task, motion.poses)
                require_timely(float(motion.times[0]), float(motion.times[-1]), now)
                fitting = path_within(motion, limits)
                self._log_delay(topic, float(motion.times[-1]), fitting)
                return lambda: (fitting, start)
            self._require_reach(task, motion.pose[None])
            start_of(motion.arrival, now)
            if (present := self._present(task, start)) is not None:
                self._text = duration_text(motion.arrival - max(start, now), present,
                                           limits.inside(motion.pose), limits)
            return lambda: (motion, max(start, now))

        self._follow(task, topic, messages.time_of(cdr.stamp(data)), read)

    def _path(self, task: str, topic: str, times: Array, poses: Array) -> Path:
        """Return the path through poses (m, 4, 4) at times (m,) [s]."""
        # it begins with the twist of the set-point, if that is at the first pose at the first time
        present = self._present(task, float(times[0])) if len(times) else None
        path = path_through(times, poses, self.policy.task(task).limits, present)
        self._log_delay(topic, float(times[-1]), path)
        return path

    def _present(self, task: str, time: float) -> Target | None:
        """State of the set-point of a task at a time [s]; None if the task does not lead."""
        if self._law.settings.leader != TASKS:
            return None
        return self._loop.read(requests.predicted_target, task, time)

    def _on_twist(self, task: str, topic: str, message: TwistStamped) -> None:
        def read() -> Callable[[], Command] | None:
            motion, start = messages.jog(message, self._loop.time, self._twist_timeout,
                                         self._frame_pose)
            start_of(start, self._loop.time)
            twist, self._text = bounded_twist(motion.twist, self.policy.task(task).limits)
            if not twist.any() and (self._law.settings.joints is not None
                                    or self._loop.read(requests.has_goal, task)):
                return None  # a stick at rest ends only its own motion
            return lambda: (replace(motion, twist=twist), start)

        self._follow(task, topic, message.header.stamp, read)

    def _follow(self, task: str, topic: str, sent: Time,
                read: Callable[[], Callable[[], Command] | None]) -> None:
        """Command the motion that the result of `read` returns, and answer; log a refusal."""
        if not self._active:
            self._ignore(topic, sent)
            return
        self._text = self._report = ''
        try:
            self._require_goal(task, topic)
            if (command := read()) is None:  # nothing to command
                self._answer(topic, sent, DiagnosticStatus.OK, '')
                return
            if self._law.settings.free is None:
                self._lead(self._mode)
            motion, stamp = command()
            inside = motion is None or self._loop.request(requests.follow, motion, stamp, task)
        except InputError as error:
            self._refuse(topic, 'target', error, sent)
            return
        if motion is not None and topic.rpartition('/')[2] != 'target_pose':
            self.policy.forget_stream(task)
        if not inside:
            self._text = OUTSIDE
        self._accept(Accepted(task, topic, sent, stamp), self._text, self._report)

    def _require_news(self, stamp: Time) -> None:
        """Raise InputError for the stamp of a command for now, see `start_of`."""
        if self._active:
            start_of(messages.seconds(stamp), self._loop.time, SOON)

    def _ignore(self, topic: str, sent: Time) -> None:
        """Log and answer that the controller is not active."""
        if self._is_new(text := f'{topic} ignored: the controller is not active'):
            self._node.get_logger().warning(text)
        self._answer(topic, sent, DiagnosticStatus.ERROR, 'the controller is not active')

    def _is_new(self, text: str) -> bool:
        """Return whether a text was not logged in the last LOGGED seconds, and record the time."""
        now = perf_counter()
        self._told = {one: at for one, at in self._told.items() if now - at <= LOGGED}
        return self._told.setdefault(text, now) == now

    def _answer(self, topic: str, sent: Time, level: bytes, text: str,
                time: float | None = None, error: ReachError | None = None) -> None:
        """Publish the result of the command with the stamp `sent`, at `time` [s]; None: now."""
        if self._answers.get_subscription_count():
            self._answers.publish(messages.answer_message(
                level, topic, text, sent, self._loop.time if time is None else time, error))

    def _require_reach(self, task: str, poses: Array) -> None:
        """Raise ReachError if one of the poses (m, 4, 4) is beyond the reach of the link."""
        require_reach(self._law.robot, self.policy.task(task), poses[:, :3, 3])

    def _log_delay(self, topic: str, end: float, path: Path) -> None:
        """Warn if the limits have slowed a path down, so that it ends after the time `end` [s]."""
        late = float(path.times[-1]) - end
        if late > 1e-6:
            self._node.get_logger().warning(
                f'{topic} is too fast for the limits, and ends {late:.3g} s later '
                '(see target.too_fast)')

    def _require_goal(self, task: str, topic: str) -> None:
        """Raise InputError if the kind of the task does not accept this command."""
        kind = self.policy.task(task).kind
        if topic.rpartition('target_')[2] not in kind.goals:
            raise InputError(f"task '{task}' is of kind {kind.name}: give one of "
                             + ', '.join(f'target_{goal}' for goal in kind.goals))

    # forces

    def _on_wrench(self, task: str, topic: str, message: WrenchStamped) -> None:
        """Rotate a wrench from its frame to the axes of the task, and pass it to the loop."""
        if not self._active:
            self._ignore(topic, message.header.stamp)
            return
        try:
            self._require_news(message.header.stamp)
            settings = self.policy.task(task)
            R = (self._frame_pose(settings.frame).T
                 @ self._frame_pose(message.header.frame_id))[:3, :3]
            wrench = np.kron(np.eye(2), R) @ messages.wrench_array(message.wrench)
            wrench[np.abs(wrench) < ROUNDING * np.abs(wrench).max()] = 0.0
            wrench = checked_wrench(wrench, settings)
            if self._law.settings.joints is None or wrench.any():  # zero ends no other motion
                if self._law.settings.free is None:
                    self._lead(self._mode)
                self._loop.request(requests.set_wrench, wrench, task)
        except InputError as error:
            self._refuse(topic, 'one', error, message.header.stamp)
            return
        self._answer(topic, message.header.stamp, DiagnosticStatus.OK, '')

    def _on_measured_wrench(self, task: str, topic: str, message: WrenchStamped) -> None:
        """Set a measured wrench; the loop shifts it from the origin of its frame to the link."""
        if not self._active:
            return
        try:
            self._require_news(message.header.stamp)
            T = self._frame_pose(message.header.frame_id)
            wrench = messages.wrench_array(message.wrench).reshape(2, 3) @ T[:3, :3].T
            self._loop.request(requests.set_measured_wrench, self._sign * wrench.ravel(), T[:3, 3],
                               task)
        except InputError as error:
            self._node.get_logger().error(f'{topic} refused: {error}', throttle_duration_sec=1.0)

    def _on_impedance(self, task: str, message: Float64MultiArray) -> None:
        if not self._active:
            self._node.get_logger().warning(
                'target_impedance ignored: the controller is not active',
                throttle_duration_sec=1.0)
            return
        try:
            impedance = messages.impedance(message)
            if not (impedance.stiffness <= self._stiffest).all():
                self._reduced(Stiffness(np.maximum(impedance.stiffness, SOFTEST)))
                self._stiffest = np.maximum(impedance.stiffness, self._stiffest)
            self._loop.request(requests.set_impedance, impedance, task)
        except InputError as error:
            self._node.get_logger().error(
                f'target_impedance refused, the old one stays: {error}',
                throttle_duration_sec=1.0)

    def reduced_stiffness(self, settings: Settings) -> str:
        """Return a text if the new stiffness of settings is too high; see `_reduced`."""
        gains, before = settings.tasks[0].gains, self._law.settings.tasks[0].gains
        is_old = not isinstance(gains, Stiffness) or (
            isinstance(before, Stiffness) and np.array_equal(gains.stiffness, before.stiffness))
        return '' if is_old else self._reduced(gains)

    def _reduced(self, spring: Stiffness) -> str:
        """Return a text if the law must reduce a spring; InputError if in another unit."""
        if not self._active or (inertia := self._loop.request(requests.inertia)) is None:
            return ''
        frame = self._law.settings.tasks[0].frame
        return bounded_stiffness(spring, np.linalg.inv(inertia), self._frame_pose(frame)[:3, :3],
                                 self._loop.read(requests.period))[1]

    # posture, payload and gravity of the arm

    def _on_posture(self, message: JointState) -> None:
        if not self._active:
            self._node.get_logger().warning(
                'target_posture ignored: the controller is not active')
            return
        try:
            self._require_news(message.header.stamp)
            posture = messages.positions(message, self._law.robot.joint_names)
            self._loop.request(requests.set_posture, posture)
        except InputError as error:
            self._refuse('target_posture', 'one', error)

    def _on_payload(self, message: InertiaStamped) -> None:
        try:
            self._require_news(message.header.stamp)
        except InputError as error:
            self._refuse('payload', 'one', error)
            return
        result = self._node.set_parameters_atomically([
            Parameter(name, value=value) for name, value in messages.payload(message).items()])
        if not result.successful:
            self._refuse('payload', 'one', result.reason)

    def _on_speed(self, message: Float64) -> None:
        result = self._node.set_parameters_atomically([Parameter(SPEED, value=message.data)])
        if not result.successful:
            self._refuse('speed', 'one', result.reason)

    def _on_gravity(self, message: Vector3Stamped) -> None:
        try:
            self._require_news(message.header.stamp)
            R = self._frame_pose(message.header.frame_id)[:3, :3]
            gravity = self._law.checked_gravity(R @ messages.vector_array(message.vector),
                                                self._loop.q if len(self._loop.q) else None,
                                                self._loop.mode != IDLE)
            self._loop.request(requests.set_gravity, gravity)
            self._law.use_gravity(gravity)
        except InputError as error:
            self._node.get_logger().error(f'gravity refused, the old one stays: {error}',
                                          throttle_duration_sec=1.0)

    def _refuse(self, topic: str, what: str, reason: object, sent: Time | None = None) -> None:
        if self._is_new(text := f'{topic} refused, the old {what} stays: {reason}'):
            logger = self._node.get_logger()
            if isinstance(reason, ReachError):  # rclpy accepts one severity for each line of code
                logger.warning(text)
            else:
                logger.error(text)
        if sent is not None and isinstance(reason, ReachError):
            self._answer(topic, sent, DiagnosticStatus.WARN, str(reason), error=reason)
        elif sent is not None:
            self._answer(topic, sent, DiagnosticStatus.ERROR, str(reason))

    # services

    def _on_hold(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Stop all targets; end a free drive."""
        response.success = self._active
        if self._active:
            self._loop.request(requests.hold)
        self.answer_dropped('~/hold has stopped it')
        self.joints.preempt('~/hold has stopped it')
        if self._active:
            if self._law.settings.free is not None and (reason := self._set_mode(self._mode)):
                response.success, response.message = False, reason
                return response
        response.message = 'stopping' if self._active else 'not active'
        return response

    def _on_free_drive(self, request: SetBool.Request, response: SetBool.Response
                       ) -> SetBool.Response:
        """Set the parameter `mode` to free, or back to its value before."""
        if request.data and not self._active:
            response.success, response.message = False, 'not active: activate the controller first'
            return response
        reason = self._set_mode('free' if request.data else self._mode)
        response.success = not reason
        response.message = reason or (
            'free drive: the arm follows the hand' if request.data else
            f'free drive is off, mode {self._mode}: the arm holds where it is')
        if response.success and request.data:
            status = self._loop.read(requests.status)
            if status.reaction not in requests.HARMLESS:
                response.message += f', as soon as no watchdog acts ({status.text})'
        return response

    def _set_mode(self, mode: str) -> str:
        """Set the parameter `mode`; return the reason if it is refused, otherwise empty text."""
        result = self._node.set_parameters_atomically([Parameter('mode', value=mode)])
        if result.successful:
            self._node.get_logger().info(
                'free drive: the arm follows the hand' if mode == 'free' else
                'mode joints: the joints follow motions of their own' if mode == 'joints' else
                f'mode {mode}: the arm holds where it is')
        return '' if result.successful else str(result.reason)

    def _on_release(self, request: Trigger.Request, response: Trigger.Response
                    ) -> Trigger.Response:
        try:
            if names := self._loop.replace_ended_publishers():
                self._node.get_logger().warning(f'uses the joint states of {names} from now on')
        except InputError as error:
            response.message = f'not released: {error}'
            return response
        response.success, response.message = self._loop.request(requests.release)
        if names:
            response.success, response.message = True, (
                f'uses the joint states of {names} from now on: the law continues when they have '
                'been valid for settle_time')
        return response
