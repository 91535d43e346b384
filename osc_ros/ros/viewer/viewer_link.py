# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Connection of osc_viewer to a controller: stores its messages in a `Reading`, sends requests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PointStamped, PoseStamped, TwistStamped, WrenchStamped
from lifecycle_msgs.msg import State, Transition, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetState
import numpy as np
from numpy.typing import NDArray
from rcl_interfaces.msg import Log, Parameter, ParameterEvent, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, ListParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger

from osc_ros.errors import InputError, OscError
from osc_ros.ros.dds.inbox import Inbox
from osc_ros.ros.messages import compilation_report, messages
from osc_ros.ros.messages.publishers import sends_whole_states
from osc_ros.ros.messages.qos import LATCHED_QOS
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.viewer.viewer_obstacles import ObstacleLink
from osc_ros.ros.viewer.viewer_simulator import NEWEST, SimulatorLink, tolerant
from osc_ros.viewer.scene.reading import ABSENT, Follower, Reading, STALE
from osc_ros.viewer.sliders import shown_parameters

Array = NDArray[np.float64]

EVENTS = QoSProfile(depth=100)
WARN = 30  # level of rcl_interfaces/Log
LEVELS = {30: 'warning', 40: 'error', 50: 'fatal'}
SILENT = 3.0  # time without diagnostics after which a configured controller is reported [s]
PATIENCE = 5.0  # time-out of a request [s]
OLD = 0.5  # time without a goal error after which the controller has no goal [s]
JOINTS = 'target_joint'  # topic of joint motions
NOT_TORQUES = ('predicted', 'met')  # rows of ~/terms that are accelerations
ROBOT = tuple(entry.name for entry in robot_parameters.ENTRIES)


class ControllerLink:
    """Subscriptions and service clients of one controller; use it only in the node's thread."""

    def __init__(self, node: Node, states: Node, controller: str, simulator: str) -> None:
        self.reading = Reading()
        # `states` has no executor, so that joint states cause no callbacks: `update` polls them
        self._node, self._states, self._name = node, states, controller
        self._heard: list[Any] = []  # subscriptions while a browser shows the page
        self._stack = ExitStack()
        self._inbox: Inbox | None = None
        self._goal_heard: dict[str, float] = {}
        self._pending: dict[str, Any] = {}  # values to set when the present request has ended
        self._in_flight: dict[str, tuple[Any, float, Callable[[Any], None]]] = {}
        self._diagnosed = monotonic()
        self._transitions: list[int] = []  # transitions to request next
        self._is_loaded = False
        self._publishers: dict[tuple[str, Any], Any] = {}
        self._description = ''
        self._simulator = SimulatorLink(node, simulator, self.reading)
        self.push = self._simulator.push
        self.obstacles = ObstacleLink(node, controller, self.reading)
        subscribe, client = self._new_subscription, node.create_client
        subscribe(DiagnosticArray, '/diagnostics', self._on_diagnostics, EVENTS)
        subscribe(ParameterEvent, '/parameter_events', self._on_parameters, EVENTS)
        subscribe(Log, '/rosout', self._on_log, EVENTS)
        subscribe(TransitionEvent, f'{controller}/transition_event', self._on_transition, EVENTS)
        subscribe(String, 'robot_description', self._on_description, LATCHED_QOS)
        self._clients = {name: client(kind, f'{controller}/{name}') for name, kind in (
            ('get_state', GetState), ('change_state', ChangeState), ('hold', Trigger),
            ('release', Trigger), ('recover', Trigger), ('free_drive', SetBool),
            ('get_parameters', GetParameters),
            ('list_parameters', ListParameters), ('set_parameters', SetParameters))}

    def listen(self, is_watched: bool) -> None:
        """Subscribe to the controller's reports; unsubscribe while no browser shows the page."""
        if is_watched == bool(self._heard):
            return
        if not is_watched:
            for one in self._heard:
                self._node.destroy_subscription(one)
            self._heard = []
            self._stack.close()
            self._inbox = None
            return
        self._inbox = Inbox(self._states, (JointState, 'joint_states', NEWEST),
                            (JointState, f'{self._name}/commands_stamped', NEWEST))
        self._stack.enter_context(self._inbox.opened())
        self._subscribe()

    def _subscribe(self) -> None:
        subscribe, name = self._new_subscription, self._name
        self._heard = [
            subscribe(PoseStamped, f'{name}/pose', self._on_pose, NEWEST),
            subscribe(TwistStamped, f'{name}/pose_error', self._on_error, NEWEST),
            subscribe(WrenchStamped, f'{name}/wrench', self._on_wrench, NEWEST),
            subscribe(WrenchStamped, f'{name}/external_wrench', self._on_external, NEWEST),
            subscribe(Float64MultiArray, f'{name}/inertia', self._on_inertia, NEWEST),
            subscribe(Float64MultiArray, f'{name}/terms', self._on_terms, NEWEST),
            *self._simulator.subscribe()]
        for task in ('', *(one.name for one in self.reading.followers)):
            self._heard.append(subscribe(
                TwistStamped, '/'.join(filter(None, (name, task, 'goal_error'))),
                lambda message, task=task: self._on_goal_error(task, message), NEWEST))

    def _new_subscription(self, kind: Any, topic: str, callback: Callable[..., None],
                          qos: QoSProfile) -> Any:
        return self._node.create_subscription(
            kind, topic, tolerant(callback, self.reading), qos)

    def close(self) -> None:
        """Unsubscribe from the reports."""
        self.listen(False)

    # every tick

    def update(self) -> None:
        """Poll the joint states, handle answers, and notice if the controller comes or goes."""
        self._take_state()
        self._finish_requests()
        reading, is_there = self.reading, self._clients['get_state'].service_is_ready()
        offers = {name for name in ('hold', 'release', 'free_drive')
                  if self._clients[name].service_is_ready()}
        if is_there and self._clients['change_state'].service_is_ready():
            offers.add('lifecycle')
        if self._simulator.takes_pushes:
            offers.add('push')
        if self._node.count_subscribers(f'{self._name}/{JOINTS}'):
            offers.add('joints')
        if self.obstacles.is_offered:
            offers.add('obstacles')
        reading.offers = frozenset(offers)
        if not is_there and reading.lifecycle != ABSENT:
            reading.lifecycle, self._is_loaded = ABSENT, False
            reading.forget_motion()
        is_late = reading.lifecycle == 'active' and reading.control.text == 'inactive'
        if is_there and (reading.lifecycle == ABSENT or is_late):
            self._ask('get_state', GetState.Request(), self._on_state)
        if is_there and not self._is_loaded:
            self._load()
        for task, heard in self._goal_heard.items():
            if monotonic() - heard > OLD:
                reading.control.goal_errors.pop(task, None)
        self.obstacles.update()
        self._simulator.forget_old()
        self._simulator.find_home()
        silence = monotonic() - self._diagnosed
        if reading.lifecycle in ('active', 'inactive') and silence > SILENT:
            reading.control.level = STALE
            reading.control.text = f'no diagnostics for {silence:.0f} s'

    def _take_state(self) -> None:
        """Take the newest joint state; beside a second publisher, that of the newest command."""
        states, command = self._newest(0), self._newest(1)
        robot = self.reading.robot
        if states is None or robot is None:
            return
        message = deserialize_message(states, JointState)
        self.obstacles.stamp = message.header.stamp
        if not sends_whole_states(self._states, 'joint_states', message.name, robot.joint_names):
            if command is None:
                return
            message = deserialize_message(command, JointState)
        place = {name: i for i, name in enumerate(message.name)}
        if (len(message.position) == len(message.name)
                and all(name in place for name in robot.joint_names)):
            order = [place[name] for name in robot.joint_names]
            if np.isfinite(message.position).all():
                self.reading.q = np.array(message.position)[order]
            self.reading.effort = (np.array(message.effort)[order]
                                   if len(message.effort) == len(message.name) else None)

    def _newest(self, topic: int) -> bytes | None:
        """Take all messages that have come on a topic; return the newest, or None without one."""
        data = newest = None if self._inbox is None else self._inbox.take(topic)
        while self._inbox is not None and data is not None:
            newest, data = data, self._inbox.take(topic)
        return newest

    # parameters and the robot

    def _load(self) -> None:
        """Get the robot's parameters and the names of the tasks, then the tasks' parameters."""
        def listed(answer: Any) -> None:
            known = set(answer.result.names)

            def load_tasks(parameters: dict[str, Any]) -> None:
                tasks = list(parameters.get('tasks') or [])
                more = {f'{task}.{part}' for task in tasks
                        for part in ('link', 'kind', 'axis', 'activation')}
                self._get(sorted(more & known),
                          lambda found: self._use({**parameters, **found}, tasks))

            self._get(sorted({*ROBOT, 'tasks', *shown_parameters(())} & known), load_tasks)

        self._ask('list_parameters', ListParameters.Request(), listed)

    def _get(self, names: list[str], then: Callable[[dict[str, Any]], None]) -> None:
        """Get parameters, and pass them to `then`; if one is not declared, the answer is empty."""
        def done(answer: Any) -> None:
            then({name: parameter_value_to_python(value)
                  for name, value in zip(names, answer.values)})

        if names:
            self._ask('get_parameters', GetParameters.Request(names=names), done)
        else:
            then({})

    def _use(self, parameters: dict[str, Any], tasks: list[str]) -> None:
        """Build the robot and its further tasks from the controller's parameters."""
        reading, self._is_loaded = self.reading, True
        try:
            values = {entry.name: entry.default if parameters.get(entry.name) is None
                      else entry.checked_value(parameters[entry.name])
                      for entry in robot_parameters.ENTRIES}
            reading.parameters = parameters
            try:
                text = robot_parameters.description(values, self._description)
            except OscError:  # the file exists only on the controller's machine
                text = robot_parameters.description({**values, 'robot_description_file': ''},
                                               self._description)
            robot = robot_parameters.robot(values, text)
        except OscError as error:
            self._is_loaded = False
            reading.control.text = f'the viewer cannot draw the arm: {error}'
            return
        if reading.robot is None or text != reading.urdf_text or robot.tips != reading.robot.tips:
            reading.robot, reading.urdf_text, reading.q, reading.home = robot, text, None, None
        links = [parameters.get(f'{task}.link') or robot.tip for task in tasks]
        reading.followers = tuple(
            Follower(task, link, parameters.get(f'{task}.kind') == 'look_at',
                     tuple(parameters.get(f'{task}.axis') or (0.0, 0.0, 1.0)))
            for task, link in zip(tasks, links) if link in robot.frames)
        if self._heard:
            for one in self._heard:
                self._node.destroy_subscription(one)
            self._subscribe()

    def set_parameter(self, name: str, value: Any) -> None:
        """Set a parameter; while a request for it is in progress, the newest value waits."""
        if f'set {name}' in self._in_flight:
            self._pending[name] = value
            return
        has = self.reading.parameters.get(name)
        if isinstance(value, str):
            sent = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=value)
        elif hasattr(has, '__len__'):
            sent = ParameterValue(type=ParameterType.PARAMETER_DOUBLE_ARRAY,
                                  double_array_value=[float(value)] * len(has))
        else:
            sent = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=float(value))

        def done(answer: Any) -> None:
            self.reading.refusals.pop(name, None)
            for result in answer.results:
                if not result.successful:
                    self.reading.refusals[name] = result.reason
            if name in self._pending:
                self.set_parameter(name, self._pending.pop(name))

        self._ask('set_parameters', SetParameters.Request(
            parameters=[Parameter(name=name, value=sent)]), done, f'set {name}')

    # requests

    def start(self) -> None:
        """Configure the controller if necessary, and activate it."""
        unconfigured = self.reading.lifecycle == 'unconfigured'
        self._change([Transition.TRANSITION_CONFIGURE] * unconfigured
                     + [Transition.TRANSITION_ACTIVATE])

    def recover(self) -> None:
        """Release latched watchdogs; clear an error of the arm, and activate the controller."""
        if self.reading.lifecycle == 'active':
            self.trigger('release')
            return

        def activate(_: Any = None) -> None:
            self._ask('release', Trigger.Request(), lambda _: self.start())

        if self._clients['recover'].service_is_ready():  # only osc_arm has this service
            self._ask('recover', Trigger.Request(), activate)
        else:
            activate()

    def stop(self) -> None:
        """Deactivate the controller: it brings the arm to rest."""
        self._change([Transition.TRANSITION_DEACTIVATE])

    def _change(self, transitions: list[int]) -> None:
        """Request transitions in turn, after the transition that is in progress, if any."""
        if 'change_state' in self._in_flight:
            self._transitions = transitions
            return
        first, self._transitions = transitions[0], transitions[1:]

        def done(answer: Any) -> None:
            if not answer.success:
                self._transitions = []
            if self._transitions:
                self._change(self._transitions)
            self._ask('get_state', GetState.Request(), self._on_state)

        self._ask('change_state', ChangeState.Request(transition=Transition(id=first)), done,
                  patience=180.0)  # a configuration may compile kernels

    def trigger(self, name: str) -> None:
        """Call a service of type std_srvs/Trigger, ~/hold or ~/release."""
        self._ask(name, Trigger.Request(), self._on_answer(name))

    def set_free_drive(self, is_on: bool) -> None:
        """Call the service ~/free_drive."""
        self._ask('free_drive', SetBool.Request(data=is_on), self._on_answer('free_drive'))

    def target(self, task: str, pose: Array) -> None:
        """Publish a target pose (4, 4), or only its position for a task of kind look_at."""
        robot = self.reading.robot
        if robot is None:
            return
        is_point = any(one.name == task and one.is_point for one in self.reading.followers)
        message = messages.pose_message(pose, robot.base, messages.stamp(0.0))
        if is_point:
            point = PointStamped(header=message.header, point=message.pose.position)
            self._publish(PointStamped, f'{task}/target_point', point)
        else:
            self._publish(PoseStamped, '/'.join(filter(None, (task, 'target_pose'))), message)

    def move_joints(self, positions: dict[str, float]) -> None:
        """Publish target positions of these joints [rad, m]."""
        self._publish(JointState, JOINTS, JointState(
            name=list(positions), position=[float(x) for x in positions.values()]))

    def move_home(self) -> None:
        """Publish the posture in which the arm started as the target of the joints."""
        robot, home = self.reading.robot, self.reading.home
        if robot is not None and home is not None:
            self.move_joints(dict(zip(robot.joint_names, home)))

    def _publish(self, kind: Any, topic: str, message: Any) -> None:
        key = topic, kind
        if key not in self._publishers:
            self._publishers[key] = self._node.create_publisher(kind, f'{self._name}/{topic}', 10)
        self._publishers[key].publish(message)

    def _ask(self, service: str, request: Any, done: Callable[[Any], None], key: str = '',
             patience: float = PATIENCE) -> None:
        """Call a service, unless a call with this key is in progress; `update` calls `done`."""
        key = key or service
        if key in self._in_flight or not self._clients[service].service_is_ready():
            return
        self._in_flight[key] = (self._clients[service].call_async(request),
                                monotonic() + patience, done)

    def _finish_requests(self) -> None:
        for key, (future, deadline, done) in list(self._in_flight.items()):
            if future.done():
                del self._in_flight[key]
                if future.result() is not None:
                    done(future.result())
            elif monotonic() > deadline:
                del self._in_flight[key]
                self._pending.pop(key.removeprefix('set '), None)

    def _on_answer(self, name: str) -> Callable[[Any], None]:
        def done(answer: Any) -> None:
            if not answer.success:
                self.reading.say('refused', f'{name}: {answer.message}')

        return done

    # callbacks of topics and services

    def _on_state(self, answer: Any) -> None:
        self._set_lifecycle(answer.current_state)

    def _on_transition(self, message: TransitionEvent) -> None:
        self._set_lifecycle(message.goal_state)

    def _set_lifecycle(self, state: State) -> None:
        if state.label != 'active':
            self.reading.forget_motion()
        self._diagnosed = monotonic()
        self.reading.lifecycle = state.label

    def _on_description(self, message: String) -> None:
        if message.data != self._description:
            self._description, self._is_loaded = message.data, False

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name.endswith(f'{self._name}: control'):
                self._diagnosed = monotonic()
                self.reading.control.level = int.from_bytes(status.level, 'little')
                self.reading.control.text = status.message
                self.reading.control.status = {pair.key: pair.value for pair in status.values}
            elif (status.name.endswith(f'{self._name}: {compilation_report.NAME}')
                  and self.reading.lifecycle != 'active'):
                self.reading.control.text = status.message

    def _on_log(self, message: Log) -> None:
        if message.level >= WARN and message.name.split('.')[-1] == self._name.split('/')[-1]:
            self.reading.say(LEVELS.get(message.level, 'error'), message.msg)

    def _on_parameters(self, message: ParameterEvent) -> None:
        if message.node != self._node.resolve_service_name(self._name):
            return
        if any(one.name in ROBOT or one.name.endswith(('.link', '.kind', '.axis'))
               for one in (*message.new_parameters, *message.changed_parameters)):
            self._is_loaded = False  # the robot has changed, or the controller has just started
        for one in message.changed_parameters:
            if one.name in self.reading.parameters:
                self.reading.parameters[one.name] = parameter_value_to_python(one.value)

    def _on_pose(self, message: PoseStamped) -> None:
        self.reading.control.pose = messages.pose_array(message.pose)

    def _on_error(self, message: TwistStamped) -> None:
        self.reading.control.error = _six(message.twist.angular, message.twist.linear)

    def _on_goal_error(self, task: str, message: TwistStamped) -> None:
        self._goal_heard[task] = monotonic()
        self.reading.control.goal_errors[task] = _six(message.twist.angular, message.twist.linear)

    def _on_wrench(self, message: WrenchStamped) -> None:
        self.reading.control.force = _six(message.wrench.torque, message.wrench.force)

    def _on_external(self, message: WrenchStamped) -> None:
        self.reading.control.external = _six(message.wrench.torque, message.wrench.force)

    def _on_inertia(self, message: Float64MultiArray) -> None:
        if len(message.data) == 36 and np.isfinite(message.data).all():
            self.reading.control.Lambda = np.array(message.data).reshape(6, 6)

    def _on_terms(self, message: Float64MultiArray) -> None:
        rows, columns = (one.label.split(' ') for one in message.layout.dim[:2])
        if len(message.data) != len(rows) * len(columns) or not np.isfinite(message.data).all():
            return
        table = np.array(message.data).reshape(len(rows), len(columns))
        self.reading.control.terms = {row: values for row, values in zip(rows, table)
                              if row not in NOT_TORQUES}


def _six(angular: Any, linear: Any) -> Array:
    found = np.concatenate([messages.vector_array(angular), messages.vector_array(linear)])
    if not np.isfinite(found).all():
        raise InputError(f'{found.tolist()}: must be finite numbers')
    return found
