# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Moves the arm of a running osc_controller along a trajectory, by posture goals over ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import GetState
import numpy as np
from numpy.typing import NDArray
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from osc_ros.control.model_error.driver import Driver
from osc_ros.errors import InputError
from osc_ros.identification.drive import (
    BLEND,
    compensated_errors,
    DAMPING,
    FREQUENCY,
    Guard,
    posture_goal,
    SETTLE,
    StoppedError,
)
from osc_ros.identification.excitation import Trajectory
from osc_ros.identification.fit.joint_recording import Recording
from osc_ros.model.robot import Robot
from osc_ros.ros.messages import messages
from osc_ros.ros.messages.qos import LATCHED_QOS
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.process.node_process import EventsExecutor
from osc_ros.setting import parameters

Array = NDArray[np.float64]

PATIENCE = 5.0  # timeout for a service response or the first joint state [s]
SILENCE = 1.0  # timeout of the joint states during a motion [s]
COMMAND_PERIOD, GUARD_PERIOD = 0.008, 0.02  # [s]
LARGEST_STEP = 2.5 * COMMAND_PERIOD  # largest trajectory time between two goals [s]
PREPARED = 4.0  # wait after a change of parameters: compilation and blend [s]
SLOWDOWN = 5.0  # largest duration on the wall clock, relative to the planned one
NAMES = tuple(entry.name for entry in (*robot_parameters.ENTRIES, *robot_parameters.LOAD_ENTRIES))


def parameters_of_motion(robot: Robot) -> dict[str, Any]:
    """Return the parameters for the motion, without activations of additional tasks."""
    errors = compensated_errors(robot)
    return {'task.activation': 0.0, 'posture.natural_frequency': FREQUENCY,
            'posture.damping_ratio': DAMPING, 'blend_time': BLEND, 'disturbance.mode': 'observer',
            **{entry.name: getattr(errors, name)
               for name, (entry,) in parameters(type(errors)).items()}}


class RunningArm:
    """The arm of a running controller; `text` is the URDF of `robot`, which has no payload."""

    # `controller`: node name; `torques`: 'efforts' of the joint states, or 'commands', with the
    # torque that the driver adds (parameter driver_compensates). InputError if the controller does
    # not run or is not active, or joint states or torques are missing.

    def __init__(self, controller: str, torques: str) -> None:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._node, self._controller = Node('osc_identify'), controller
        self._executor = EventsExecutor()
        self._executor.add_node(self._node)
        try:
            self._connect(torques)
        except BaseException:
            self.close()
            raise

    def _connect(self, torques: str) -> None:
        node, name = self._node, self._controller
        self._received, self._state, self._has_torques = '', None, False
        self._recent: deque[tuple[float, Array, Array]] = deque(maxlen=100)  # with efforts
        self._from_commands = torques == 'commands'
        self._get, self._set, self._lifecycle = (
            node.create_client(kind, f'{name}/{service}') for kind, service in (
                (GetParameters, 'get_parameters'),
                (SetParametersAtomically, 'set_parameters_atomically'),
                (GetState, 'get_state')))
        node.create_subscription(String, 'robot_description', self._on_description, LATCHED_QOS)
        node.create_subscription(JointState, f'{name}/commands_stamped', self._on_command, 1000)
        if not self._from_commands:
            node.create_subscription(JointState, 'joint_states', self._on_state, 1000)
        self._postures = node.create_publisher(JointState, f'{name}/target_posture', 10)
        if not self._get.wait_for_service(PATIENCE):
            raise InputError(f"no controller '{name}' is running: give the name of an "
                             'osc_controller, by --controller')
        values = self._parameters(NAMES)
        self._tasks = [f'{task}.activation' for task in self._parameters(('tasks',))['tasks']]
        self._wait(lambda: True, 0.5)  # for a description by topic
        self.text = robot_parameters.description(values, self._received)
        self.robot = robot_parameters.robot(values, self.text)
        self._driver = Driver(robot_parameters.with_load(values, self.robot)[1],
                              values['driver_compensates'])
        self._names, self._rows = self.robot.joint_names, []
        self._require_active(2.0 * PATIENCE)
        if not self._wait(lambda: self._state is not None, PATIENCE):
            raise InputError(f"'{name}' answers no joint states of {', '.join(self._names)}")
        if not self._wait(lambda: self._has_torques, 1.0):
            raise InputError('joint_states have no finite efforts of all joints: give --torques '
                             'commands in their place')

    def close(self) -> None:
        """Destroy the node and shut rclpy down."""
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown()

    def true_parameters(self) -> dict[str, Any]:
        """Return {}: the true parameters of a real arm are unknown."""
        return {}

    def positions(self) -> Array:
        """Return the present joint positions (n,) [rad, m]."""
        return self._last()[1]

    def _last(self) -> tuple[float, Array, Array]:
        if self._state is None:
            raise InputError('no joint state has come')
        return self._state

    def perform(self, trajectory: Trajectory, guard: Guard) -> Recording:
        """Execute a trajectory, restore the controller's parameters, and return the recording."""
        # If StoppedError (guard, missing joint states, motion too slow), the arm holds its joint
        # positions and the parameters stay: the tasks would pull the arm back to their targets.
        # InputError before any motion if the controller is not active, or refuses the parameters.
        self._require_active()
        wanted = parameters_of_motion(self.robot) | dict.fromkeys(self._tasks, 0.0)
        before = self._parameters(tuple(wanted))
        self._publish(self.positions())
        self._change(wanted)
        self._wait(lambda: False, PREPARED)
        self._rows = []
        begin = self._last()[0] + SETTLE
        self._follow(trajectory, guard, begin, ', '.join(wanted))
        self._change({'blend_time': before.pop('blend_time')})
        self._change(before)
        time, q, tau = (np.array(column) for column in zip(*self._rows))
        return Recording(self._names, time, q, tau)

    def _follow(self, trajectory: Trajectory, guard: Guard, begin: float, changed: str) -> None:
        """Publish posture goals, timed by the joint states, until SETTLE after the motion."""
        # `changed` names the changed parameters, for the error message.
        guarded = -np.inf
        seen, started = perf_counter(), perf_counter()
        last = sent = self._last()[0]
        phase, end = sent - begin, trajectory.duration + SETTLE
        while phase < end:
            self._executor.spin_once(0.05)
            time, q, qd = self._last()
            if time > last:
                last, seen = time, perf_counter()
            reason = ''
            if perf_counter() - seen > SILENCE:
                reason = f'no joint state for {SILENCE} s'
            elif perf_counter() - started > SLOWDOWN * (end + SETTLE) + PATIENCE:
                reason = 'the arm runs too slowly'
            elif time - guarded > GUARD_PERIOD:
                guarded, reason = time, guard.stop_reason(phase, q, qd)
            if reason:
                self._publish(q)
                raise StoppedError(
                    f'stopped at {phase:.2f} s: {reason}. The arm holds its joint '
                    f"positions; {self._controller}'s parameters {changed} are still "
                    'those of the motion: restart the controller, or deactivate it, set them and '
                    'activate it')
            if time - sent > COMMAND_PERIOD:
                # a late program slows the motion down; the goal does not jump
                phase += min(time - sent, LARGEST_STEP)
                sent = time
                self._publish(posture_goal(trajectory, phase, self.robot))

    def _publish(self, posture: Array) -> None:
        lower, upper = self.robot.position_limits.T
        message = JointState(name=list(self._names))
        message.position = np.clip(posture, lower, upper).tolist()
        self._postures.publish(message)

    # topics and services

    def _on_description(self, message: String) -> None:
        self._received = message.data

    def _ordered(self, message: JointState, values: Any) -> Array | None:
        """Return values (n,) in the robot's joint order; None if one is missing or not finite."""
        if len(values) != len(message.name):
            return None
        by_name = dict(zip(message.name, values, strict=True))
        found = np.array([by_name.get(name, np.nan) for name in self._names])
        return found if np.isfinite(found).all() else None

    def _on_state(self, message: JointState) -> None:
        """Store the efforts of a joint state, which may be of any publisher."""
        if not hasattr(self, '_names'):
            return
        q, effort = (self._ordered(message, one) for one in (message.position, message.effort))
        if q is not None and effort is not None and effort.any():
            self._recent.append((messages.seconds(message.header.stamp), q, effort))

    def _on_command(self, message: JointState) -> None:
        """Take the state that the controller has answered, with its command or its efforts."""
        if not hasattr(self, '_names'):
            return
        q, qd, tau = (self._ordered(message, one)
                      for one in (message.position, message.velocity, message.effort))
        if q is None or qd is None or tau is None:
            return
        time = messages.seconds(message.header.stamp)
        self._state = time, q, qd
        found = [tau + self._driver.torque(q, qd)] if self._from_commands else [
            effort for at, there, effort in self._recent
            if at == time and np.array_equal(there, q)]
        if found and (not self._rows or time > self._rows[-1][0]):
            self._rows.append((time, q, found[0]))
        self._has_torques |= bool(found)

    def _wait(self, happened: Callable[[], bool], patience: float) -> bool:
        """Spin at least once, until `happened()`, at most `patience` s; return `happened()`."""
        end = perf_counter() + patience
        while True:
            self._executor.spin_once(0.05)
            if happened() or perf_counter() > end:
                return happened()

    def _answer(self, client: Any, request: Any, what: str) -> Any:
        future = client.call_async(request)
        if not self._wait(future.done, PATIENCE):
            raise InputError(f"'{self._controller}' does not answer to {what}: its log says "
                             'whether it compiles kernels, as at the first start')
        return future.result()

    def _require_active(self, patience: float = 0.0) -> None:
        """Raise InputError if the controller is not active within `patience` seconds."""
        end = perf_counter() + patience
        while True:
            state = self._answer(self._lifecycle, GetState.Request(), 'get_state').current_state
            if state.id == State.PRIMARY_STATE_ACTIVE:
                return
            if perf_counter() > end:
                raise InputError(f"'{self._controller}' is {state.label}: activate it first")
            self._wait(lambda: False, 0.1)

    def _parameters(self, names: tuple[str, ...]) -> dict[str, Any]:
        answer = self._answer(self._get, GetParameters.Request(names=list(names)),
                              'get_parameters')
        if len(answer.values) != len(names):
            raise InputError(f"'{self._controller}' lacks one of the parameters "
                             f"{', '.join(names)}: give an osc_controller")
        found = [parameter_value_to_python(value) for value in answer.values]
        return {name: list(value) if isinstance(value, (tuple, list)) or hasattr(value, 'tolist')
                else value for name, value in zip(names, found, strict=True)}

    def _change(self, values: dict[str, Any]) -> None:
        """Set all parameters of the controller; if it refuses one, none is set."""
        request = SetParametersAtomically.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()])
        result = self._answer(self._set, request, 'set_parameters_atomically').result
        if not result.successful:
            raise InputError(f"'{self._controller}' refuses {', '.join(values)}: {result.reason}")
