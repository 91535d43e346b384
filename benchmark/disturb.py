# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Disturbs a controller for `gaps`: sends messages and requests, and subscribes to its topics.

`python benchmark/disturb.py`; each line of its standard input is a `Wanted` as JSON. The process
prepares, prints 'ready', and sends at the rate until the next line. Then it restores the
parameters that it changed, and answers with the numbers of messages and of responses.

Every message is serialized before the first one is sent, so that sending takes little CPU time.

"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
import json
from select import select
import sys
from threading import Thread
from time import perf_counter, sleep
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import (
    InertiaStamped,
    PoseStamped,
    TwistStamped,
    Vector3Stamped,
    WrenchStamped,
)
import numpy as np
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
import rclpy
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint, MultiDOFJointTrajectory

from osc_ros.control.setpoint.trajectory import figure_of_eight
from osc_ros.ros.messages import messages
from osc_ros.ros.process.node_process import EventsExecutor

CONTROLLER, TOOL = '/osc_controller', 'panda_hand_tcp'
PATIENCE = 60.0  # time for discovery of the controller, and for its answers [s]
DRAIN = 0.5  # time to wait for responses at the end [s]
BEFORE = 0.1  # delay of the first message, so that it is sent after the measurement has begun [s]
DISTANCE, SPEED = 0.03, 0.02  # distance of goals from the held pose [m]; speed of twists [m/s]
TURNS, PERIOD_SHARE = 2.0, 2.25  # number of eights in a path; its duration in periods of an eight
TOPICS = ((PoseStamped, f'{CONTROLLER}/pose'), (TwistStamped, f'{CONTROLLER}/pose_error'),
          (WrenchStamped, f'{CONTROLLER}/wrench'),
          *((Float64MultiArray, f'{CONTROLLER}/{name}') for name in ('terms', 'inertia')),
          (DiagnosticArray, '/diagnostics'))
GAINS = 'translation.natural_frequency', 'rotation.natural_frequency', 'posture.damping'

Send = Callable[[int], object]


@dataclass(frozen=True)
class Wanted:
    """A request: one of KINDS, its rate [Hz], and names and positions of the joints."""

    kind: str
    rate: float
    joints: list[str]
    position: list[float]


class Disturber:
    """A node that sends messages and requests; `answered` counts responses."""

    def __init__(self) -> None:
        self.node = Node('disturber')
        self.answered = 0
        self._pose: Any = None
        self._told = False
        self._executor = EventsExecutor()
        self._executor.add_node(self.node)
        self._listener = Thread(target=self._listen)
        self._listener.start()
        self._set = self.node.create_client(SetParameters, f'{CONTROLLER}/set_parameters')

    def _listen(self) -> None:
        while not self._told:
            self._executor.spin_once(timeout_sec=0.1)

    def close(self) -> None:
        """Stop the node and its thread."""
        self._told = True
        self._listener.join()
        self._executor.remove_node(self.node)
        self.node.destroy_node()
        self._executor.shutdown()

    def pose(self) -> tuple[np.ndarray, str]:
        """Return the present pose (4, 4) of the tip, and the name of its frame."""
        self._pose = None
        listener = self.node.create_subscription(
            PoseStamped, f'{CONTROLLER}/pose', partial(setattr, self, '_pose'), 1)
        _wait(lambda: self._pose is not None, 'pose')
        self.node.destroy_subscription(listener)
        return messages.pose_array(self._pose.pose), self._pose.header.frame_id

    def topics(self) -> dict[str, str]:
        """Return the topics that the controller publishes, with their types, as far as known."""
        try:
            return {topic: kind for topic, (kind, *_) in
                    self.node.get_publisher_names_and_types_by_node(CONTROLLER[1:], '/')}
        except NodeNameNonExistentError:
            return {}

    def set(self, **values: Any) -> None:
        """Set parameters (with double underscores for dots), and wait for the response."""
        request = SetParameters.Request(parameters=_parameters(
            {name.replace('__', '.'): value for name, value in values.items()}))
        _wait(self._set.service_is_ready, 'set_parameters')
        future = self._set.call_async(request)
        _wait(future.done, 'set_parameters')
        for result in future.result().results:
            if not result.successful:
                raise RuntimeError(f'{values}: {result.reason}')

    @contextmanager
    def published(self, kind: type, topic: str, sent: Sequence[Any]) -> Iterator[Send]:
        """Yield a function that publishes the messages in turn, serialized beforehand."""
        packed = [serialize_message(message) for message in sent]
        publisher = self.node.create_publisher(kind, f'{CONTROLLER}/{topic}', 10)
        try:
            _wait(publisher.get_subscription_count, topic)
            yield lambda k: publisher.publish(packed[k % len(packed)])
        finally:
            self.node.destroy_publisher(publisher)

    @contextmanager
    def called(self, *services: tuple[type, str, Sequence[Any]]) -> Iterator[Send]:
        """Yield a function that calls the services in turn, with their requests in turn."""
        clients = [self.node.create_client(kind, f'{CONTROLLER}/{name}')
                   for kind, name, _ in services]

        def send(k: int) -> None:
            which, turn = k % len(services), k // len(services)
            requests = services[which][2]
            future = clients[which].call_async(requests[turn % len(requests)])
            future.add_done_callback(self._count)

        try:
            for client, (_, name, _) in zip(clients, services):
                _wait(client.service_is_ready, name)
            yield send
        finally:
            for client in clients:
                self.node.destroy_client(client)

    def _count(self, future: Any) -> None:
        self.answered += 1

    @contextmanager
    def listened(self, *topics: tuple[type, str]) -> Iterator[Send]:
        """Subscribe to topics; the yielded function does nothing."""
        listeners = [self.node.create_subscription(kind, topic, lambda message: None, 10, raw=True)
                     for kind, topic in topics]
        try:
            yield lambda k: None
        finally:
            for listener in listeners:
                self.node.destroy_subscription(listener)


def _wait(is_there: Callable[[], Any], what: str) -> None:
    latest = perf_counter() + PATIENCE
    while not is_there():
        if perf_counter() > latest:
            raise RuntimeError(f'{what}: nothing within {PATIENCE:g} s')
        sleep(0.01)


def _parameters(values: dict[str, Any]) -> list[ParameterMessage]:
    return [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]


# Every kind is a context manager: it prepares, yields the function that sends, and restores.

@contextmanager
def _nothing(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    yield lambda k: None


def _poses(sender: Disturber) -> list[PoseStamped]:
    held, frame = sender.pose()
    rng, sent = np.random.default_rng(1), []
    for _ in range(16):
        T = held.copy()
        T[:3, 3] += rng.uniform(-DISTANCE, DISTANCE, 3)
        message = messages.pose_message(T, frame, messages.stamp(0.0))
        sent.append(message)
    return sent


def _pose_targets(sender: Disturber, wanted: Wanted) -> Any:
    return sender.published(PoseStamped, 'target_pose', _poses(sender))


def _not_finite(sender: Disturber, wanted: Wanted) -> Any:
    sent = _poses(sender)
    for message in sent:
        message.pose.position.x = float('nan')
    return sender.published(PoseStamped, 'target_pose', sent)


def _unknown_frames(sender: Disturber, wanted: Wanted) -> Any:
    sent = _poses(sender)
    for message in sent:
        message.header.frame_id = 'nowhere'
    return sender.published(PoseStamped, 'target_pose', sent)


def _twists(sender: Disturber, wanted: Wanted) -> Any:
    twists = SPEED * np.random.default_rng(2).uniform(-1.0, 1.0, (16, 6))
    return sender.published(TwistStamped, 'target_twist', [
        messages.twist_message(twist, '', messages.stamp(0.0)) for twist in twists])


def _trajectories(count: int, seconds: float, poses_only: bool = False) -> Any:
    """Return an entry of KINDS that sends a path with `count` points, `seconds` long."""
    def kind(sender: Disturber, wanted: Wanted) -> Any:
        held, frame = sender.pose()
        path = figure_of_eight(held, DISTANCE, DISTANCE, seconds / PERIOD_SHARE, TURNS, 0.0,
                               (count - 1.5) / seconds)
        message = messages.trajectory_message(path, frame, TOOL)
        message.header.stamp = messages.stamp(0.0)
        if len(message.points) != count:
            raise RuntimeError(f'{len(message.points)} points instead of {count}')
        for point in message.points if poses_only else ():
            point.velocities, point.accelerations = [], []
        return sender.published(MultiDOFJointTrajectory, 'target_trajectory', [message])
    return kind


def _joint_trajectories(count: int, seconds: float) -> Any:
    """Return an entry of KINDS that sends a path of the joints with `count` points."""
    def kind(sender: Disturber, wanted: Wanted) -> Any:
        message, times = JointTrajectory(joint_names=wanted.joints), seconds * np.arange(
            1, count + 1) / count
        ways = DISTANCE * (1.0 - np.cos(2.0 * np.pi * times / seconds))
        for time, way in zip(times.tolist(), ways.tolist()):
            point = JointTrajectoryPoint(positions=[one + way for one in wanted.position])
            point.time_from_start = messages.duration(time)
            message.points.append(point)
        return sender.published(JointTrajectory, 'joint_trajectory', [message])
    return kind


@contextmanager
def _in_turn(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    """Send a path of the tip, a path of the joints and a hold in turn."""
    with ExitStack() as stack:
        sends = [stack.enter_context(KINDS[kind](sender, wanted)) for kind in (
            'long_trajectories_of_poses', 'long_joint_trajectories', 'holds')]
        yield lambda k: sends[k % 3](k)


@contextmanager
def _pushing(sender: Disturber, topic: str, frame: str) -> Iterator[Send]:
    """Yield a function that publishes wrenches, with a force axis along z and force feedback."""
    sent = [messages.wrench_message(np.array([0.0, 0.0, 0.0, 0.0, 0.0, force]), frame,
                                    messages.stamp(0.0)) for force in (5.0, 4.0, 3.0, 4.0)]
    sender.set(translation__axes=['motion', 'motion', 'force'], force__gain=0.5)
    try:
        with sender.published(WrenchStamped, topic, sent) as send:
            yield send
    finally:
        sender.set(translation__axes=['motion'] * 3, force__gain=0.0)


def _wrench_targets(sender: Disturber, wanted: Wanted) -> Any:
    return _pushing(sender, 'target_wrench', '')


def _measured_wrenches(sender: Disturber, wanted: Wanted) -> Any:
    return _pushing(sender, 'measured_wrench', TOOL)


def _postures(sender: Disturber, wanted: Wanted) -> Any:
    around = np.random.default_rng(3).uniform(-0.05, 0.05, (16, len(wanted.joints)))
    return sender.published(JointState, 'target_posture', [
        JointState(name=wanted.joints, position=(wanted.position + away).tolist())
        for away in around])


@contextmanager
def _payloads(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    sent = []
    for mass in (0.5, 0.6, 0.7, 0.6):
        message = InertiaStamped()
        message.header.frame_id = TOOL
        message.inertia.m, message.inertia.com.z = mass, 0.03
        sent.append(message)
    try:
        with sender.published(InertiaStamped, 'payload', sent) as send:
            yield send
    finally:
        sender.set(payload__mass=0.0, payload__center_of_mass=[0.0] * 3)


@contextmanager
def _gravities(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    sent = []
    for k in range(17):  # the last vector is the normal gravity, along -z
        message = Vector3Stamped()
        message.vector.x, message.vector.z = 0.2 * np.sin(2.0 * np.pi * k / 16), -9.81
        sent.append(message)
    with sender.published(Vector3Stamped, 'gravity', sent) as send:
        yield send
        send(-1)
        sleep(0.1)


def _changes() -> list[dict[str, Any]]:
    return [{name: 1.0 if name.startswith('posture') else [20.0 + k] * 3 for name in GAINS}
            for k in range(4)]


@contextmanager
def _sets(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    requests = [SetParameters.Request(parameters=_parameters({name: values[name]}))
                for values in _changes() for name in GAINS]
    try:
        with sender.called((SetParameters, 'set_parameters', requests)) as send:
            yield send
    finally:
        sender.set(**{name.replace('.', '__'): value for name, value in _changes()[0].items()})


@contextmanager
def _atomic_sets(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    requests = [SetParametersAtomically.Request(parameters=_parameters(values))
                for values in _changes()]
    try:
        with sender.called((SetParametersAtomically, 'set_parameters_atomically', requests)
                           ) as send:
            yield send
    finally:
        sender.set(**{name.replace('.', '__'): value for name, value in _changes()[0].items()})


def _bad_sets(sender: Disturber, wanted: Wanted) -> Any:
    return sender.called((SetParameters, 'set_parameters', [SetParameters.Request(
        parameters=_parameters({GAINS[0]: [-1.0] * 3}))]))


@contextmanager
def _questions(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    """Get, list and describe all parameters, in turn."""
    client = sender.node.create_client(ListParameters, f'{CONTROLLER}/list_parameters')
    _wait(client.service_is_ready, 'list_parameters')
    future = client.call_async(ListParameters.Request())
    _wait(future.done, 'list_parameters')
    names = list(future.result().result.names)
    sender.node.destroy_client(client)
    with sender.called(
            (GetParameters, 'get_parameters', [GetParameters.Request(names=names)]),
            (ListParameters, 'list_parameters', [ListParameters.Request()]),
            (DescribeParameters, 'describe_parameters',
             [DescribeParameters.Request(names=names)])) as send:
        yield send


def _holds(sender: Disturber, wanted: Wanted) -> Any:
    return sender.called((Trigger, 'hold', [Trigger.Request()]))


def _releases(sender: Disturber, wanted: Wanted) -> Any:
    return sender.called((Trigger, 'release', [Trigger.Request()]))


def _readers(sender: Disturber, wanted: Wanted) -> Any:
    return sender.listened(*TOPICS)


@contextmanager
def _reports(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    sender.set(report_rate=1000.0)
    try:
        with _readers(sender, wanted) as send:
            yield send
    finally:
        sender.set(report_rate=50.0)


@contextmanager
def _everything(sender: Disturber, wanted: Wanted) -> Iterator[Send]:
    """Send poses, change a parameter once a second, subscribe to every topic of the node."""
    with ExitStack() as stack:
        poses = stack.enter_context(_pose_targets(sender, wanted))
        sets = stack.enter_context(_sets(sender, wanted))
        _wait(lambda: f'{CONTROLLER}/pose' in sender.topics(), 'topics')
        stack.enter_context(sender.listened(*((_message(kind), topic)
                                              for topic, kind in sender.topics().items()
                                              if '/msg/' in kind)))  # not of actions

        def send(k: int) -> None:
            poses(k)
            if k % round(wanted.rate) == 0:
                sets(k // round(wanted.rate))
        yield send


def _message(name: str) -> type:
    """Return the class of a message, 'package/msg/Name'."""
    package, _, kind = name.split('/')
    return getattr(import_module(f'{package}.msg'), kind)


KINDS: dict[str, Callable[[Disturber, Wanted], Any]] = {
    'nothing': _nothing, 'poses': _pose_targets, 'twists': _twists,
    'short_trajectories': _trajectories(50, 2.0),
    'long_trajectories': _trajectories(10_000, 20.0),
    'long_trajectories_of_poses': _trajectories(10_000, 20.0, poses_only=True),
    'long_joint_trajectories': _joint_trajectories(10_000, 20.0), 'paths_in_turn': _in_turn,
    'wrenches': _wrench_targets, 'measured_wrenches': _measured_wrenches, 'postures': _postures,
    'payloads': _payloads, 'gravities': _gravities, 'sets': _sets, 'atomic_sets': _atomic_sets,
    'bad_sets': _bad_sets, 'questions': _questions, 'holds': _holds, 'releases': _releases,
    'not_finite': _not_finite, 'unknown_frames': _unknown_frames, 'readers': _readers,
    'reports': _reports,
    'everything': _everything,
}


def disturb(sender: Disturber, wanted: Wanted) -> dict[str, int]:
    """Send until a line of input comes; return the numbers of messages and responses."""
    sender.answered = sent = 0
    period = 1.0 / wanted.rate if wanted.rate else 0.01
    with KINDS[wanted.kind](sender, wanted) as send:
        print('"ready"', flush=True)
        due = perf_counter() + BEFORE
        while not select([sys.stdin], [], [], max(0.0, due - perf_counter()))[0]:
            if wanted.rate:
                send(sent)
                sent += 1
            due = max(due + period, perf_counter() - period)
        sys.stdin.readline()
        sleep(DRAIN if sender.answered else 0.0)
        answered = sender.answered
    return {'sent': sent, 'answered': answered}


if __name__ == '__main__':
    rclpy.init(args=[])
    disturber = Disturber()
    try:
        for line in sys.stdin:
            print(json.dumps(disturb(disturber, Wanted(**json.loads(line)))), flush=True)
    finally:
        disturber.close()
        rclpy.try_shutdown()
