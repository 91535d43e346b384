# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Backend of `Arm.ros`: an arm that a running osc_controller or osc_arm controls."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from itertools import count
import os
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Any

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
import numpy as np
from numpy.typing import NDArray
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint, MultiDOFJointTrajectory

from osc_ros.client.backend import ArmState, CLOSED, distance_text, joint_text, warn
from osc_ros.client.gripper import GRIPPER
from osc_ros.client.gripper_topics import GripperTopics
from osc_ros.client.inputs import positive
from osc_ros.client.services import ANSWERED, AnswerTopic, CHANGED, full_name, Services, START
from osc_ros.collision.obstacles import changed_obstacles, Obstacle
from osc_ros.control.accepted import checked_override
from osc_ros.control.law import TOO_SHORT
from osc_ros.control.limits.attached import require_moving
from osc_ros.control.reasons import KEY, Reason, TITLES, UNEXPLAINED, watchdog_reason
from osc_ros.control.safety.sample import continuous_joints
from osc_ros.control.setpoint.posture import TURN
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import Stiffness
from osc_ros.errors import ArmError, ArmTimeoutError, InputError, ReachError
from osc_ros.model.gripper_state import GripperState
from osc_ros.model.robot import Robot
from osc_ros.ros.messages import messages
from osc_ros.ros.messages.markers import Marker, marker_of, MarkerArray, ORANGE
from osc_ros.ros.messages.obstacle_markers import markers_of, moved_back
from osc_ros.ros.messages.publishers import sends_whole_states
from osc_ros.ros.messages.qos import LATCHED_QOS
from osc_ros.ros.parameters import robot_parameters

Array = NDArray[np.float64]

REPORTED = 2.5  # longest time between two diagnostics of a controller [s]
SILENCE = 5.0  # longest time between two joint states, and between two torques [s]
GAINS = ('mode', 'translation.stiffness', 'rotation.stiffness', 'translation.damping_ratio',
         'rotation.damping_ratio')
TOUCH, SPEED, MARGIN = 'obstacles.touch', 'target.translation.speed', 'clearance.margin'
OVERRIDE = 'speed_override'
SHORTEST = 0.1  # a motion of the joints is not quicker, and its message is there by then [s]
BACK = 10_000_000  # time between the two markers that give a velocity [ns]
SAME_JOINT = 2e-3  # tolerance for a joint at its goal [rad, m]
SAME = 1e-6  # tolerance for equal times [s] and equal entries of poses
CLIENTS = count()  # numbers of the clients of this process
_LOCK = Lock()
_nodes: list[Node] = []  # the last node keeps the DDS participant of all clients


def shared_context() -> Context:
    """Return the context of rclpy of all clients; its participant lasts until the process ends."""
    # A new participant has the GUID of an old one. A Fast DDS peer that missed the end of the old
    # one does not send its topics again, so a hidden node ('_…') keeps the participant.
    with _LOCK:
        if not _nodes or not _nodes[-1].context.ok():  # a signal shuts down all contexts
            context = Context()
            rclpy.init(context=context)
            _nodes.append(rclpy.create_node(
                f'_osc_clients_{os.getpid()}_{len(_nodes)}', context=context, enable_rosout=False,
                use_global_arguments=False, start_parameter_services=False))
        return _nodes[-1].context


@dataclass
class _Newest:
    """The newest message of each topic, None before the first one."""

    joints: JointState | None = None
    command: JointState | None = None
    pose: PoseStamped | None = None
    error: TwistStamped | None = None
    reached: PoseStamped | None = None
    external: WrenchStamped | None = None
    description: String | None = None
    reasons: tuple[Reason, ...] = ()
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict)  # of this client
    reports: int = 0  # number of diagnostics of the controller
    state_at: float = -np.inf  # time at which the newest state arrived [s]
    command_at: float = -np.inf  # time at which the newest command arrived [s]


@dataclass
class _Motion:
    """The last motion that was commanded."""

    goal: Array | None = None  # pose (4, 4) or joint positions (n,) at its end; None: no goal
    is_changed: bool = False  # whether the controller has changed it, perhaps its goal
    since: float = np.inf  # time in the answer to the command [s]; infinite without a goal
    # newest on `goal_reached` before the command; later than `since` if the clock was reset
    reached_before: PoseStamped | None = None
    label: str = ''  # stamp of the command; empty if no goal is expected to be reached


class TopicBackend:
    """Client node in a thread of its own, in the context of all clients of this process."""

    # Every command is a message on a topic of doc/ros.md; the client waits for the answer on
    # `~/answers`. For the arguments and errors see `Arm.ros`.

    def __init__(self, node: str, timeout: float, gripper: str = GRIPPER) -> None:
        self._name = full_name(node)
        timeout = positive('timeout', timeout, 's')
        self._news = Condition()
        self._newest, self._motion = _Newest(), _Motion()
        self._trouble, self._said = '', 'nothing'
        self._mark = 1 + (7 * os.getpid() + next(CLIENTS)) % 997  # shift of the stamps [ns]
        self._listener: Callable[[ArmState], None] | None = None
        self._set: dict[str, Any] = {}  # parameters before this client changed them
        self._is_direct = False  # `sends_whole_states` of joint_states; else up to 5 ms later
        self.joint_names: tuple[str, ...] = ()
        self._names: list[str] = []  # names in the joint states
        self._order: list[int] = []
        self._is_open, self._process = True, os.getpid()
        context = shared_context()
        self._node = rclpy.create_node(
            f'osc_client_{os.getpid()}_{id(self) % 100000}', context=context,
            enable_rosout=False, start_parameter_services=False)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self._node)
        self.services = Services(self._node, self._name, self._news)
        self._connect()
        self._gripper = GripperTopics(
            self._node, gripper if gripper.startswith('/')
            else f"{self._name.rpartition('/')[0]}/{gripper}", self._news)
        self._thread = Thread(target=self._spin, daemon=True, name='osc_client')
        self._thread.start()
        atexit.register(self.close)  # a thread that runs at the exit would abort the program
        try:
            self._open(monotonic() + timeout, timeout)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        node, name = self._node, self._name
        self._publishers = {topic: node.create_publisher(kind, f'{name}/{topic}', 10)
                            for kind, topic in ((PoseStamped, 'target_pose'),
                                                (TwistStamped, 'target_twist'),
                                                (WrenchStamped, 'target_wrench'),
                                                (MultiDOFJointTrajectory, 'target_trajectory'),
                                                (MultiDOFJointTrajectory, 'target_chunk'),
                                                (JointState, 'target_joint'),
                                                (JointTrajectory, 'joint_trajectory'))}
        self._answers = AnswerTopic(node, f'{name}/answers', self._news)
        namespace = name.rpartition('/')[0]
        for kind, topic, kept, qos in (
                (PoseStamped, f'{name}/pose', 'pose', 10),
                (TwistStamped, f'{name}/pose_error', 'error', 10),
                (WrenchStamped, f'{name}/external_wrench', 'external', 10),
                (PoseStamped, f'{name}/goal_reached', 'reached', LATCHED_QOS)):
            node.create_subscription(kind, topic, self._keeper(kept), qos)
        node.create_subscription(JointState, f'{name}/commands_stamped', self._on_command, 100)
        self._states = node.create_subscription(
            JointState, f'{namespace}/joint_states', self._on_joints, qos_profile_sensor_data)
        node.create_subscription(String, f'{namespace}/robot_description',
                                 self._keeper('description'), LATCHED_QOS)
        node.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)

    def _keeper(self, field: str) -> Callable[[Any], None]:
        """Return a callback that stores its message in a field of `_Newest`."""
        def keep(message: Any) -> None:
            with self._news:
                setattr(self._newest, field, message)
                self._news.notify_all()
        return keep

    def _spin(self) -> None:
        while self._is_open:
            self._executor.spin_once(timeout_sec=0.1)

    def _open(self, deadline: float, timeout: float) -> None:
        """Wait until the controller is active and has sent all parts of a state."""
        def until(condition: Callable[[], bool], error: Callable[[], str]) -> None:
            while not condition():
                if monotonic() > deadline:
                    raise ArmTimeoutError(f'{error()} within {timeout:g} s')
                with self._news:
                    self._news.wait(0.05)

        until(self.services.are_there,
              lambda: f"no controller '{self._name}' answers; {START}; in ROS domain "
              f"{os.environ.get('ROS_DOMAIN_ID', '0')}, this program sees {self._others()}, and "
              'no controller came')
        until(lambda: self.services.lifecycle() == 'active',
              lambda: f'{self.services.advice()}; it was not active')
        until(lambda: all(
            publisher.get_subscription_count() for publisher in self._publishers.values())
            and self._node.count_publishers(self._answers.name) > 0,
            lambda: f"the topics of '{self._name}' were not all there")
        until(lambda: not self._missing(), lambda: f"{', '.join(self._missing())} did not come")

    @property
    def robot(self) -> Robot:
        """Model of the arm, from the parameters of the controller and robot_description."""
        found = self.services.parameters([entry.name for entry in (
            *robot_parameters.ENTRIES, *robot_parameters.LOAD_ENTRIES)])
        bare = robot_parameters.robot(found, robot_parameters.description(
            found, self.description()))
        return robot_parameters.with_load(found, bare)[0]

    def _others(self) -> str:
        """Return the names of the other nodes that this program has discovered."""
        return ', '.join(sorted(
            f"{namespace.rstrip('/')}/{name}"
            for name, namespace in self._node.get_node_names_and_namespaces()
            if name != self._node.get_name() and not name.startswith('_'))) or 'no other node'

    def _missing(self) -> list[str]:
        """Return the topics of the state from which no message has come."""
        newest, name = self._newest, self._name
        return [topic for topic, message in (
            ('joint_states', newest.joints), (f'{name}/commands_stamped', newest.command),
            (f'{name}/pose (see report_rate)', newest.pose),
            (f'{name}/pose_error', newest.error)) if message is None]

    # messages

    def _on_command(self, message: JointState) -> None:
        with self._news:
            self._newest.command, self._newest.command_at = message, monotonic()
            if not self.joint_names:
                self.joint_names = tuple(message.name)
            self._news.notify_all()
        if message.position and not self._is_direct:
            self._use(message)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        with self._news:
            for status in message.status:
                if status.name == f'{self._name[1:]}: control':
                    is_bad = status.level == DiagnosticStatus.ERROR or status.message in (
                        'inactive', 'idle')
                    self._trouble = status.message if is_bad else ''
                    self._said = status.message
                    self._newest.reports += 1
                    self._newest.reasons = tuple(
                        Reason.of(one.key.removeprefix(KEY), one.value)
                        for one in status.values if one.key.startswith(KEY))
            self._news.notify_all()

    def _on_joints(self, message: JointState) -> None:
        self._is_direct = sends_whole_states(
            self._node, self._states.topic_name, message.name, self.joint_names)
        if self._is_direct:
            self._use(message)

    def _use(self, message: JointState) -> None:
        """Take a joint state as the newest one."""
        with self._news:
            self._newest.joints, self._newest.state_at = message, monotonic()
            if list(message.name) != self._names:
                self._names = list(message.name)
                self._order = [self._names.index(name) for name in self.joint_names]
            self._news.notify_all()
        if (listener := self._listener) is not None and not self._missing():
            listener(self._newest_state())  # another thread may end listening meanwhile

    def state(self) -> ArmState:
        """Return the newest state; pose, error, force come at the controller's report_rate."""
        self._require_open()
        return self._newest_state()

    def _newest_state(self) -> ArmState:
        with self._news:
            newest = copy(self._newest)
        joints, n = newest.joints, len(self._order)
        velocity = joints.velocity if joints.velocity else [np.nan] * len(joints.position)
        return ArmState(
            messages.seconds(joints.header.stamp), np.array(joints.position)[self._order],
            np.array(velocity)[self._order], np.array(newest.command.effort)[:n],
            messages.pose_array(newest.pose.pose), messages.twist_array(newest.error.twist),
            np.full(3, np.nan) if newest.external is None
            else messages.wrench_array(newest.external.wrench)[3:])

    # commands

    def _require_open(self) -> None:
        if not self._is_open:
            raise ArmError(CLOSED)

    def _send(self, topic: str, message: Any, stamp: Any = None, goal: Array | None = None
              ) -> str:
        """Publish a command whose motion ends at `goal`; return the text of its answer."""
        # The stamp of a command identifies its answer. Two clients may send commands for the same
        # state, so each client shifts its stamps by its own short time, less than 1 µs.
        self._require_open()
        message.header.stamp = self._marked(
            self._newest.joints.header.stamp if stamp is None else stamp)
        with self._news:
            before = self._newest.reached
            text = self._accepted(*self._answer(
                topic, self._publishers[topic], message, message.header.stamp),
                self._near_turn(goal))
            if topic != 'target_wrench':
                self._motion.reached_before = before  # the clock may have been reset since
                self._motion.label = messages.label_of(message.header.stamp)
            return text

    def _near_turn(self, goal: Array | None) -> Array | None:
        """Positions of the joints, those of continuous joints at most half a turn away."""
        if goal is None or goal.ndim > 1:
            return goal
        turns = np.round((self.state().q - goal) / TURN)
        if not np.nan_to_num(turns).any():
            return goal
        robot = self.robot  # requests parameters
        wraps = dict(zip(robot.joint_names, continuous_joints(robot)))
        return goal + TURN * turns * [wraps[name] for name in self.joint_names]

    def _answer(self, topic: str, publisher: Any, message: Any, stamp: Time,
                timeout: float = ANSWERED) -> tuple[DiagnosticStatus, float]:
        """Publish a command; return its answer and the time of the answer [s]."""
        found = self._answers.to(partial(publisher.publish, message), 'stamp',
                                 messages.label_of(stamp), topic, timeout)
        if found is None:
            raise ArmTimeoutError(f"the controller '{self._name}' did not answer to "
                                  f'{topic} within {timeout:g} s; {START}')
        return found

    @property
    def obstacles(self) -> Mapping[str, Obstacle]:
        """Obstacles of this client; see `LawBackend`."""
        self._require_open()
        return self._newest.obstacles

    def change_obstacles(self, changes: Mapping[str, Obstacle | None]) -> None:
        """Publish obstacles as markers; see `LawBackend`."""
        self._require_open()
        if MarkerArray is None:
            raise InputError('obstacles over ROS need the package visualization_msgs')
        if not changes:
            return
        after = changed_obstacles(self.obstacles, changes)
        for name, one in changes.items():
            if one is not None and one.link:
                require_moving(name, one.link, self.robot)
        touch = self._touch(after, {*after, *changes})
        answer = self._publish_obstacles(changes)
        if answer.level != DiagnosticStatus.OK:
            self._publish_obstacles({name: self.obstacles.get(name) for name in changes})
            raise InputError(answer.message)
        self._newest.obstacles = after
        if touch is not None:
            self.services.set_parameters({TOUCH: touch})

    def _publish_obstacles(self, changes: Mapping[str, Obstacle | None]) -> DiagnosticStatus:
        """Publish two markers for each obstacle, which give its velocity; return the answer."""
        stamp = self._marked(self._newest.joints.header.stamp)
        later = stamp.sec * 1_000_000_000 + stamp.nanosec + BACK

        def marker(stamp: Time, name: str) -> Any:
            found = marker_of('', stamp, name, Marker.CUBE, ORANGE)
            found.lifetime.sec = found.lifetime.nanosec = 0  # for ever
            return found

        message = markers_of({name: None if one is None else moved_back(one, 1e-9 * BACK)
                              for name, one in changes.items()}, MarkerArray(),
                             partial(marker, stamp))
        markers_of({name: one for name, one in changes.items() if one is not None}, message,
                   partial(marker, messages.time_of(divmod(later, 1_000_000_000))))
        publisher = self._publishers.get('obstacles')
        if publisher is None:  # not from the start, because few clients have obstacles
            publisher = self._publishers['obstacles'] = self._node.create_publisher(
                MarkerArray, f'{self._name}/obstacles', 10)
        with self._news:
            self._news.wait_for(publisher.get_subscription_count, ANSWERED)
            return self._answer('obstacles', publisher, message, stamp, CHANGED)[0]

    def _touch(self, after: Mapping[str, Obstacle], own: Iterable[str]) -> list[str] | None:
        """Add the obstacles that the tips may touch to the parameter obstacles.touch."""
        # Returns its value without the other obstacles of this client; None if it is in force.
        if not any(one.touch for one in (*self.obstacles.values(), *after.values())):
            return None
        present = self.services.parameters([TOUCH])[TOUCH]
        names = [f'{name}/0' for name, one in after.items() if one.touch]
        if more := [name for name in names if name not in present]:
            self.services.set_parameters({TOUCH: [*present, *more]})
        others = {f'{name}/0' for name in own} - {*names}
        return None if others.isdisjoint(present) else [
            name for name in (*present, *more) if name not in others]

    def _marked(self, stamp: Time) -> Time:
        """Return a stamp that is shifted by the short time of this client, less than 1 µs."""
        time = stamp.sec * 1_000_000_000 + stamp.nanosec
        time += self._mark if time < self._mark else -self._mark  # never 0, which means now
        return messages.time_of(divmod(time, 1_000_000_000))

    def _accepted(self, answer: DiagnosticStatus, time: float, goal: Array | None) -> str:
        if answer.level == DiagnosticStatus.ERROR:
            raise InputError(answer.message)
        if answer.level == DiagnosticStatus.WARN:
            values = {pair.key: pair.value for pair in answer.values}
            if messages.REACH in values:  # nothing moves
                raise ReachError(answer.message, float(values[messages.DISTANCE]),
                                 float(values[messages.REACH]))
            warn(answer.message)
        if answer.name != 'target_wrench':
            self._motion.since, self._motion.goal = time, goal
            self._motion.is_changed = answer.level == DiagnosticStatus.WARN
        return str(answer.message)

    @property
    def fastest(self) -> float:
        """Largest speed of the set-point of the tip [m/s]."""
        return float(self.services.parameters([SPEED])[SPEED])

    def go_to(self, pose: Array, duration: float | None) -> None:
        """Set a goal; see `LawBackend`."""
        if duration is None:
            self._send('target_pose', messages.pose_message(
                pose, '', self._newest.joints.header.stamp), goal=pose)
        else:
            self._send('target_trajectory', messages.chunk_message(
                np.array([duration]), pose[None], 0.0, ''), goal=pose)

    def move_joints(self, goal: Array, duration: float | None, speed: float | None) -> None:
        """Move the joints to a goal; see `LawBackend`."""
        names = [name for name, value in zip(self.joint_names, goal) if np.isfinite(value)]
        values = goal[np.isfinite(goal)].tolist()
        if duration is not None:
            try:
                self._send('joint_trajectory', _trajectory(
                    names, [max(duration, SHORTEST)], [values]), goal=goal)
                return
            except InputError as error:
                if TOO_SHORT not in str(error):
                    raise
                warn(f'duration {duration:g} s is too short: {TOO_SHORT}'
                     + str(error).partition(TOO_SHORT)[2])
        self._send('target_joint', JointState(
            name=names, position=values, velocity=[] if speed is None else [speed] * len(names)),
            goal=goal)

    def follow_joints(self, times: Array, positions: Array) -> None:
        """Move the joints through positions; see `LawBackend`."""
        self._send('joint_trajectory', _trajectory(
            self.joint_names, times.tolist(), positions.tolist()), goal=positions[-1])

    def follow_chunk(self, times: Array, poses: Array, observed_at: float) -> str:
        """Follow a chunk; see `LawBackend`."""
        message = messages.chunk_message(times, poses, observed_at, '')
        return self._send('target_chunk', message, message.header.stamp, poses[-1])

    def jog(self, twist: Array) -> None:
        """Move with a twist; see `LawBackend`."""
        self._send('target_twist',
                   messages.twist_message(twist, '', self._newest.joints.header.stamp))
        self._motion.since = np.inf

    def require_active(self) -> None:
        """Raise InputError if the controller is not active; see `LawBackend`."""
        self._require_open()
        if self.services.lifecycle() != 'active':
            raise InputError('the controller is not active')

    def set_wrench(self, wrench: Array) -> None:
        """Apply a wrench; see `LawBackend`."""
        self._send('target_wrench', messages.wrench_message(
            wrench, '', self._newest.joints.header.stamp))

    def keeps_clear(self) -> bool:
        """Whether the arm keeps clear of obstacles; see `LawBackend`."""
        return bool(self.services.parameters([MARGIN])[MARGIN])

    def use_axes(self, axes: tuple[str, ...]) -> None:
        """Control motion or force along the axes of the tip; see `LawBackend`."""
        self._require_open()
        self.services.set_parameters({'rotation.axes': axes[:3], 'translation.axes': axes[3:]})

    def set_free_drive(self, is_on: bool) -> str:
        """Switch free drive; return the message of the controller. InputError if it refuses."""
        self._require_open()
        answer = self.services.call('free_drive', SetBool.Request(data=is_on), CHANGED)
        if not answer.success:
            raise InputError(f"the controller '{self._name}' says: {answer.message}")
        self._motion = _Motion()
        return str(answer.message)

    def description(self) -> str:
        """Return the URDF from the topic robot_description; empty if none has come."""
        return '' if self._newest.description is None else str(self._newest.description.data)

    def use_gains(self, spring: Stiffness | None) -> None:
        """Set the stiffness of the tip, or reset its gains; see `LawBackend`."""
        before = self._before(GAINS)
        self.services.set_parameters(before if spring is None else dict(zip(GAINS, (
            'impedance', *(part.tolist() for row in (spring.stiffness, spring.damping_ratio)
                           for part in (row[3:], row[:3]))))))

    def _before(self, names: Sequence[str]) -> dict[str, Any]:
        """Return parameters by name, as they were before this client changed them."""
        if new := [name for name in names if name not in self._set]:
            self._set.update(self.services.parameters(new))
        return {name: self._set[name] for name in names}

    def use_payload(self, mass: float, center_of_mass: Array, inertia: Array) -> None:
        """Set the payload; see `LawBackend`."""
        upper = inertia[np.triu_indices(3)]
        self.services.set_parameters({'payload.mass': mass, 'payload.link': '',
                              'payload.center_of_mass': center_of_mass.tolist(),
                              'payload.inertia': upper.tolist()})

    def move_gripper(self, command: list[float]) -> None:
        """Move the gripper; see `LawBackend`."""
        self._require_open()
        self._gripper.move(command)

    def gripper_state(self) -> GripperState:
        """Return the state of the gripper; see `LawBackend`."""
        self._require_open()
        return self._gripper.state()

    @property
    def speed_override(self) -> float:
        """Speed of all motions relative to their own [%]; see `LawBackend`."""
        self._require_open()
        return float(self.services.parameters([OVERRIDE])[OVERRIDE])

    def set_speed_override(self, percent: float) -> None:
        """Set the speed override; see `LawBackend`."""
        self._require_open()
        self.services.set_parameters({OVERRIDE: checked_override(percent)})

    def hold(self) -> None:
        """Stop; see `LawBackend`."""
        self._require_open()
        self.services.trigger('hold')
        self._motion = _Motion()

    def recover(self) -> str:
        """Get the arm under control again; see `LawBackend`."""
        self._require_open()
        message = self.services.recover()
        self._motion = _Motion()
        with self._news:
            self._trouble, self._newest.command_at = '', monotonic()
        return message

    def has_goal(self) -> bool:
        """Whether the last motion has a goal; see `LawBackend`."""
        return bool(self._motion.since < np.inf)

    def is_at_goal(self) -> bool:
        """Whether the goal has been reached; see `LawBackend`."""
        if self._newest.reached is None or self._newest.reached is self._motion.reached_before:
            return False
        time = messages.seconds(self._newest.reached.header.stamp)
        if any(messages.seconds(one.header.stamp) < time - SAME
               for one in (self._newest.pose, self._newest.joints)):
            return False  # the newest state is older than the arrival
        later = time - self._motion.since
        if later < -SAME:
            return False
        goal, there = self._motion.goal, messages.pose_array(self._newest.reached.pose)
        if goal is not None and goal.ndim == 1:
            return bool(later > SAME or np.nanmax(np.abs(goal - self.state().q)) < SAME_JOINT)
        is_same = goal is not None and np.allclose(there, goal, rtol=0.0, atol=SAME)
        if later > SAME and goal is not None and not (is_same or self._motion.is_changed):
            raise ArmError(f"{TITLES['replaced']}: the arm has reached the one at "
                           f'{np.round(there[:3, 3], 3).tolist()}')
        # The goal was reached in the state in which the command was accepted: it can be this goal
        # or the previous one.
        return bool(is_same or later > SAME)

    def distance(self) -> str:
        """Return a text on the distance to the goal; see `LawBackend`."""
        if (goal := self._motion.goal) is None:
            return 'the motion has no goal'
        if goal.ndim == 1:
            return joint_text(self.joint_names, goal - self.state().q)
        return distance_text(*np.linalg.norm(
            pose_error(self.state().pose, goal).reshape(2, 3), axis=1))

    def reasons(self) -> list[Reason]:
        """Return the reasons that the controller reports next; see `LawBackend`."""
        with self._news:
            before = self._newest.reports
            self._news.wait_for(lambda: self._newest.reports > before, REPORTED)
        return list(self._newest.reasons) or [
            UNEXPLAINED if self._said == 'active' else watchdog_reason(self._said)]

    # time

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """Wait until a condition holds; see `LawBackend`."""
        self._require_open()
        now, passed = messages.seconds(self._newest.joints.header.stamp), 0.0
        with self._news:
            self._trouble = ''
            while not until():
                if self._trouble:
                    raise ArmError(f"the controller '{self._name}' says: {self._trouble}")
                if text := self._answers.refusal(self._motion.label):
                    raise ArmError(f"the controller '{self._name}' says: {text}")
                self._require_messages()
                before, now = now, messages.seconds(self._newest.joints.header.stamp)
                passed += max(0.0, now - before)  # the clock may be reset
                if passed >= timeout - SAME:
                    return False
                self._news.wait(0.1)
        return True

    def _require_messages(self) -> None:
        """Raise ArmTimeoutError if the arm or the controller sends no messages."""
        silent = [topic for topic, last in (('joint_states', self._newest.state_at), (
            f'{self._name}/commands_stamped', self._newest.command_at))
            if monotonic() - last > SILENCE]
        if silent:
            raise ArmTimeoutError(
                f"no message on {' and '.join(silent)} for {SILENCE:g} s: has the "
                + ('driver or simulator' if silent == ['joint_states'] else 'controller')
                + f' ended? {START}')

    def listen(self, listener: Callable[[ArmState], None] | None) -> None:
        """Call a function with every state, in the node's thread; see `LawBackend`."""
        self._listener = listener

    def close(self) -> None:
        """End the thread and the node."""
        if not self._is_open or os.getpid() != self._process:  # a fork has no thread to join
            return
        self._listener, self._is_open = None, False
        atexit.unregister(self.close)
        self._thread.join()
        self._executor.shutdown()
        self._node.destroy_node()


def _trajectory(names: Sequence[str], times: list[float], positions: list[list[float]]
                ) -> JointTrajectory:
    """Return a trajectory of joints that begins when it arrives."""
    return JointTrajectory(joint_names=list(names), points=[
        JointTrajectoryPoint(positions=row, time_from_start=messages.duration(time))
        for time, row in zip(times, positions)])
