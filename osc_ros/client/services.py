# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Services of a controller, and answers to commands, with time-outs, for the client over ROS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition
from time import monotonic
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
import rclpy
from rclpy.exceptions import InvalidTopicNameException
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.validate_full_topic_name import validate_full_topic_name
from std_srvs.srv import SetBool, Trigger

from osc_ros.client.backend import warn
from osc_ros.errors import ArmError, ArmTimeoutError, InputError, require_type
from osc_ros.loop.engine import WAITS_TEXT

ANSWERED = 2.0  # longest time until a service or a command is answered [s]
CHANGED = 10.0  # longest time until a service that changes settings answers [s]
PATIENCE = 1.0  # longest time in which `recover` waits for the end of a cause [s]
STOPPING = 2.0  # longest time in which an arm comes to rest [s]
STARTING = 30.0  # longest time until a service that starts or recovers the arm answers [s]
START = ('start one: `ros2 launch osc_ros simulation.launch.py` simulates an arm; without ros2, '
         '`osc_simulator` and `osc_controller`, each with `--ros-args --params-file '
         'config/panda.yaml`; for a real arm see doc/real_arm.md and doc/arm.md')
KINDS = {'hold': Trigger, 'release': Trigger, 'recover': Trigger, 'free_drive': SetBool,
         'get_state': GetState, 'change_state': ChangeState,
         'set_parameters_atomically': SetParametersAtomically, 'get_parameters': GetParameters}


class AnswerTopic:
    """Subscription of the answers to commands on a topic; another thread spins the node."""

    def __init__(self, node: Node, topic: str, news: Condition) -> None:
        self._news = news  # notified by each answer
        self._answers: list[DiagnosticStatus] = []
        self._subscription = node.create_subscription(
            DiagnosticStatus, topic, self._on_answer, 100)

    @property
    def name(self) -> str:
        """Full name of the topic."""
        return str(self._subscription.topic_name)

    def _on_answer(self, message: DiagnosticStatus) -> None:
        with self._news:
            self._answers = [*self._answers[-99:], message]
            self._news.notify_all()

    def refusal(self, label: str) -> str:
        """Return the newest refusal of the command with this stamp; empty if there is none."""
        return next((str(one.message) for one in reversed(self._answers)
                     if one.level == DiagnosticStatus.ERROR
                     and any(pair.value == label for pair in one.values)), '')

    def to(self, publish: Callable[[], None], key: str, label: str, command: str = '',
           timeout: float = ANSWERED) -> tuple[DiagnosticStatus, float] | None:
        """Publish a command, and wait for the answer; return the answer and its time [s]."""
        # The answer is the first message in which `key` has the value `label` and whose name is
        # `command`, unless this is empty. None if it does not come within the time-out [s].
        with self._news:
            self._answers = []
            publish()
            deadline = monotonic() + timeout
            while monotonic() <= deadline:
                for answer in self._answers:
                    found = {pair.key: pair.value for pair in answer.values}
                    if answer.name == (command or answer.name) and found.get(key) == label:
                        return answer, float(found['time'])
                self._news.wait(0.05)
        return None


class Services:
    """Clients of the services of a controller (`name`, with namespace), which wait for answers."""

    # Another thread spins the node. Every method raises ArmTimeoutError if no answer comes, and
    # ArmError or InputError, with the reason, if the controller refuses the request.

    def __init__(self, node: Node, name: str, news: Condition) -> None:
        self._name, self._news, self._label = name, news, 'unknown'  # each message notifies news
        self._clients = {service: node.create_client(kind, f'{name}/{service}')
                         for service, kind in KINDS.items()}

    def are_there(self) -> bool:
        """Return whether the controller offers the service get_state."""
        return bool(self._clients['get_state'].service_is_ready())

    def call(self, service: str, request: Any, timeout: float = ANSWERED) -> Any:
        """Return the response to a request."""
        future = self._clients[service].call_async(request)
        deadline = monotonic() + timeout
        while not future.done():
            if monotonic() > deadline:
                raise ArmTimeoutError(f"the controller '{self._name}' does not answer to "
                                      f'{service}; {START}')
            with self._news:
                self._news.wait(0.002)
        return future.result()

    def trigger(self, service: str, timeout: float = ANSWERED) -> str:
        """Call a service std_srvs/Trigger; return the message of its response."""
        answer = self.call(service, Trigger.Request(), timeout)
        if not answer.success:
            raise ArmError(f"the controller '{self._name}' says: {answer.message}")
        return str(answer.message)

    def lifecycle(self) -> str:
        """Return the state of the node: 'active', 'inactive', …; 'busy' if it does not answer."""
        try:
            self._label = str(self.call('get_state', GetState.Request()).current_state.label)
        except ArmTimeoutError:
            self._label = 'busy'
        return self._label

    def advice(self) -> str:
        """Return a text for the user: the state that `lifecycle` found last, and what to do."""
        how = {'inactive': 'its parameter autostart activates it when joint states come, or: '
                           f'`ros2 lifecycle set {self._name} activate`',
               'unconfigured': 'its log says why; its parameter autostart configures it, or: '
                               f'`ros2 lifecycle set {self._name} configure`',
               'busy': 'it does not answer, because it compiles kernels for the first time, '
                       'connects, or hangs'}.get(self._label, 'its log says more')
        return f"the controller '{self._name}' is {self._label}: {how}"

    def parameters(self, names: Sequence[str]) -> dict[str, Any]:
        """Return parameters of the controller by name; InputError if one of them is missing."""
        found = self.call('get_parameters', GetParameters.Request(names=list(names))).values
        if len(found) != len(names):
            raise InputError(f"'{self._name}' lacks one of the parameters {', '.join(names)}: "
                             'give an osc_controller or osc_arm')
        read = [rclpy.parameter.parameter_value_to_python(value) for value in found]
        return {name: list(value) if hasattr(value, '__len__') and not isinstance(value, str)
                else value for name, value in zip(names, read)}

    def set_parameters(self, values: dict[str, Any]) -> None:
        """Set parameters, either all or none of them; warn if the controller changes a value."""
        request = SetParametersAtomically.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()])
        result = self.call('set_parameters_atomically', request, CHANGED).result
        if not result.successful:
            raise InputError(result.reason)
        warn(result.reason.removesuffix(WAITS_TEXT).removesuffix('; '))

    def recover(self) -> str:
        """Release latched watchdogs, or clear an error and activate; return a text on this."""
        label = self.lifecycle()
        if label == 'busy':
            raise ArmTimeoutError(f'{self.advice()}; {START}')
        if label == 'active':
            return self._retry('release', PATIENCE)
        if label == 'unconfigured':  # a new connection to the arm has no error
            self._change('configure', Transition.TRANSITION_CONFIGURE)
        elif self._clients['recover'].service_is_ready():  # only osc_arm has this service
            self._retry('recover', STOPPING, STARTING)
        with suppress(ArmError):  # a controller that has given the arm up activates only then
            self.trigger('release')
        self._change('activate', Transition.TRANSITION_ACTIVATE)
        return 'activated: the law controls the arm, and holds its pose'

    def _retry(self, service: str, patience: float, timeout: float = ANSWERED) -> str:
        """Call a service std_srvs/Trigger until it succeeds, for up to `patience` [s]."""
        deadline = monotonic() + patience
        while True:
            try:
                return self.trigger(service, timeout)
            except ArmTimeoutError:
                raise
            except ArmError:
                if monotonic() > deadline:
                    raise
            with self._news:
                self._news.wait(0.05)

    def _change(self, name: str, transition: int) -> None:
        request = ChangeState.Request(transition=Transition(id=transition))
        if not self.call('change_state', request, STARTING).success:
            raise ArmError(f"the controller '{self._name}' refuses to {name}: its log says why")


def full_name(node: str) -> str:
    """Return the name of a node with its namespace; InputError if it is not a valid name."""
    require_type('node', node, str, "the name of a controller, such as 'osc_controller'")
    name = '/' + node.strip('/')
    try:
        validate_full_topic_name(name)
    except InvalidTopicNameException as error:
        raise InputError(f"node '{node}': give the name of a controller with its "
                         "namespace, such as '/left/osc_controller' "
                         f"({' '.join(str(error).split())})") from None
    return name
