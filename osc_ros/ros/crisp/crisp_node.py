# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Node osc_crisp: clients of CRISP, such as crisp_py, command osc_controller through it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.clock import Clock, ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.qos import qos_profile_system_default
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from osc_ros.errors import InputError
from osc_ros.ros.crisp.crisp_parameters import controller_parameters, mode, TABLE
from osc_ros.ros.parameters.parameters import declare, Entry, refuse_bad_sets, values
from osc_ros.ros.process.node_process import run_and_exit

try:
    from controller_manager_msgs.msg import ControllerState
    from controller_manager_msgs.srv import (
        ConfigureController,
        ListControllers,
        LoadController,
        SwitchController,
    )
except ImportError:  # not on PyPI
    ControllerState = None

CARTESIAN, JOINTS = 'cartesian_impedance_controller', 'joint_trajectory_controller'
# what osc_controller and the driver always publish
BROADCASTERS = 'joint_state_broadcaster', 'pose_broadcaster', 'twist_broadcaster'
ANSWER_TIME = 10.0  # longest time for an answer of osc_controller [s]
CONTROLLER = Entry('osc_controller', 'osc_controller', 'Name of the node that is commanded; read '
                   'when the node starts', fixed=True)


class ControllerCalls:
    """Calls of the services of osc_controller, each of which waits for the answer."""

    def __init__(self, node: Node, name: str) -> None:
        self._name = name
        # a hidden node of its own, so that a callback of another node can wait
        self._node = Node(f'_{node.get_name()}_calls', namespace=node.get_namespace(),
                          context=node.context, use_global_arguments=False,
                          start_parameter_services=False, enable_rosout=False)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)
        client = self._node.create_client
        self._set = client(SetParametersAtomically, f'{name}/set_parameters_atomically')
        self._get = client(GetParameters, f'{name}/get_parameters')
        self._hold = client(Trigger, f'{name}/hold')

    @property
    def is_ready(self) -> bool:
        """Whether a configured osc_controller offers its services."""
        return all(one.service_is_ready() for one in (self._set, self._get, self._hold))

    def _call(self, client: Any, request: Any) -> Any:
        if client.service_is_ready():
            future = client.call_async(request)
            self._executor.spin_until_future_complete(future, ANSWER_TIME)
            if future.done():
                return future.result()
            client.remove_pending_request(future)
        raise InputError(f"'{self._name}' does not answer: start and configure an "
                         'osc_controller')

    def set(self, ours: Mapping[str, Any]) -> None:
        """Set parameters; raise InputError with the reason if they are refused."""
        result = self._call(self._set, SetParametersAtomically.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg() for name, value in ours.items()]))
        if not result.result.successful:
            raise InputError(result.result.reason)

    def get(self, name: str) -> Any:
        """Return the value of a parameter."""
        return parameter_value_to_python(
            self._call(self._get, GetParameters.Request(names=[name])).values[0])

    def hold(self) -> bool:
        """Let the arm hold its pose; return whether the controller is active."""
        return bool(self._call(self._hold, Trigger.Request()).success)

    def close(self) -> None:
        """Destroy the hidden node."""
        self._executor.shutdown()
        self._node.destroy_node()


class Crisp(Node):
    """CRISP's Cartesian controller and a controller_manager, in front of osc_controller."""

    # It passes on the parameters of crisp_controllers, and the targets without their stamps while
    # the Cartesian controller is active: a client that repeats its targets must not disturb
    # joint_trajectory_controller.

    def __init__(self, **arguments: Any) -> None:
        if ControllerState is None:
            raise InputError('the package controller_manager_msgs is not installed; with ROS: '
                             'apt install ros-$ROS_DISTRO-controller-manager-msgs')
        super().__init__(CARTESIAN, **arguments)
        declare(self, (*TABLE, CONTROLLER))
        refuse_bad_sets(self, (*TABLE, CONTROLLER), lambda: self._active is not None, self._apply)
        name = values(self, [CONTROLLER])[CONTROLLER.name]
        self._calls = ControllerCalls(self, name)
        self._active: set[str] | None = None  # None: osc_controller does not have the parameters
        self._tip, self._sent = '', dict[str, Any]()
        self._relay(name)
        for kind, service, callback in (
                (ListControllers, 'list_controllers', self._on_list),
                (LoadController, 'load_controller', self._on_name),
                (ConfigureController, 'configure_controller', self._on_name),
                (SwitchController, 'switch_controller', self._on_switch)):
            self.create_service(kind, f'controller_manager/{service}', callback)
        self._starter = self.create_timer(0.05, self._start,
                                          clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _relay(self, name: str) -> None:
        """Subscribe to CRISP's targets, and publish them for osc_controller."""
        for kind, theirs, ours in (
                (PoseStamped, 'target_pose', 'target_pose'),
                (JointState, 'target_joint', 'target_posture'),
                (WrenchStamped, 'target_wrench', 'target_wrench'),
                (Float64MultiArray, 'target_stiffness', 'target_impedance')):
            publisher = self.create_publisher(kind, f'{name}/{ours}', 10)
            self.create_subscription(kind, theirs, partial(self._pass_on, publisher),
                                     qos_profile_system_default)

    def _pass_on(self, publisher: Any, message: Any) -> None:
        if self.get_name() not in (self._active or ()):
            return
        if hasattr(message, 'header'):
            message.header.stamp = Time()  # now: CRISP ignores stamps, too
        elif not self.get_parameter('variable_stiffness.enabled').value:
            self.get_logger().warning('target_stiffness ignored: variable_stiffness.enabled is '
                                      'false', throttle_duration_sec=1.0)
            return
        publisher.publish(message)

    # parameters

    def _start(self) -> None:
        """Give osc_controller the parameters, and activate the Cartesian controller."""
        if not self._calls.is_ready:
            self.get_logger().info('waiting for a configured osc_controller',
                                   throttle_duration_sec=10.0)
            return
        try:
            self._tip = self._calls.get('tip')
            self._give(values(self, TABLE), has_mode=True)
        except InputError as error:
            self.get_logger().error(f'osc_controller refuses the parameters: {error}',
                                    throttle_duration_sec=10.0)
            return
        self._active = {self.get_name()}
        self._starter.cancel()
        self.get_logger().info(f"'{self.get_name()}' is active")

    def _apply(self, found: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        if found['stop_commands']:
            raise InputError("parameter 'stop_commands' is true: must be false")
        self._give(found, has_mode=self.get_name() in (self._active or ()))

    def _give(self, found: Mapping[str, Any], has_mode: bool) -> None:
        """Set what has changed in osc_controller; `mode` only if `has_mode`."""
        ours = controller_parameters(found, self._tip)
        if has_mode:
            ours['mode'] = mode(found)
        changed = {name: value for name, value in ours.items() if self._sent.get(name) != value}
        if changed:
            self._calls.set(changed)
            self._sent |= changed

    # controller_manager

    def _states(self) -> dict[str, str]:
        """Return the state of each controller by name."""
        active = {*(self._active or ()), *BROADCASTERS}
        return {name: 'active' if name in active else 'inactive'
                for name in (self.get_name(), JOINTS, *BROADCASTERS)}

    def _on_list(self, request: Any, response: Any) -> Any:
        response.controller = [
            ControllerState(name=name, state=state, type=f'osc_ros/{name}')
            for name, state in self._states().items()]
        return response

    def _on_name(self, request: Any, response: Any) -> Any:
        """Load or configure a controller: all that there are, are loaded and configured."""
        response.ok = request.name in self._states()
        if not response.ok:
            self.get_logger().error(self._unknown(request.name))
        return response

    def _unknown(self, name: str) -> str:
        return f"there is no controller '{name}': give one of {', '.join(self._states())}"

    def _on_switch(self, request: Any, response: Any) -> Any:
        try:
            self._switch(request.activate_controllers, request.deactivate_controllers)
            response.ok = True
        except InputError as error:
            self.get_logger().error(f'switch_controller refused: {error}')
            response.message = str(error)
        return response

    def _switch(self, begin: Iterable[str], end: Iterable[str]) -> None:
        """Activate and deactivate controllers; the arm holds its pose if that changes anything."""
        states = self._states()
        for name in (*begin, *end):
            if name not in states:
                raise InputError(self._unknown(name))
        if self._active is None:
            raise InputError('osc_controller does not answer: configure it first')
        active = (self._active - set(end) | set(begin)) - set(BROADCASTERS)
        if len(active) > 1:
            raise InputError(f"{' and '.join(sorted(active))} need the same joints: give "
                             'one of them')
        if active == self._active:
            return
        if not self._calls.hold() and active:
            raise InputError('osc_controller is not active: activate it first')
        if self.get_name() in active:
            self._sent.pop('mode', None)  # a motion of the joints has changed it
            self._give(values(self, TABLE), has_mode=True)
        self._active = active

    def stop(self) -> None:
        """End the calls of osc_controller; the arm keeps its last target."""
        self._calls.close()


def main(arguments: list[str] | None = None) -> None:
    """Run the node until SIGINT or SIGTERM."""
    run_and_exit(Crisp, arguments)


if __name__ == '__main__':
    main()
