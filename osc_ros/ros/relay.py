# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Node osc_relay: forwards commands to the hardware, and stops the arm if commands fail."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger

from osc_ros.compile.compilation import compile_in_parallel
from osc_ros.compile.compiled import on_demand
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.safety.command_check import CommandCheck
from osc_ros.control.safety.supervision import STALE_STATE, Supervision, Watchdog
from osc_ros.control.safety.supervisor import Supervisor
from osc_ros.control.step.relayed import NONSENSE, OTHER_PUBLISHER, SILENCE
from osc_ros.errors import InputError
from osc_ros.loop.cycle import Answering, IDLE
from osc_ros.loop.process.reaction_log import ReactionLog
from osc_ros.model.robot import Robot
from osc_ros.ros.dds.relay_loop import (
    COMMAND_TOPIC,
    INPUT_QOS,
    OF_RELAY,
    RelayEngine,
    RelayLoop,
)
from osc_ros.ros.dds.serving import compile_serve
from osc_ros.ros.messages import messages
from osc_ros.ros.messages.commands import CommandOutput
from osc_ros.ros.messages.compilation_report import CompilationReport
from osc_ros.ros.messages.publishers import gids, log_states_of, publishers
from osc_ros.ros.messages.qos import COMMAND_QOS, LATCHED_QOS, RECEIPT
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.parameters import declare, Entry, refuse_bad_sets, values
from osc_ros.ros.parameters.state_input import compile_velocity, FROM, VELOCITY
from osc_ros.ros.process.node_process import run_and_exit
from osc_ros.setting import made

NO_ROBOT = 'waits for a robot description'
LONG = 0.25  # a longer time-out of the commands causes a warning [s]
STEEPEST = 200.0  # default limit of the rate of a torque, relative to the torque limit [1/s]

PARAMETERS = (
    *robot_parameters.ENTRIES,
    *(replace(entry, live=False) for entry in robot_parameters.LOAD_ENTRIES),
    VELOCITY,
    FROM,
    Entry('rate', 500.0, 'Rate at which commands are expected [Hz]', lower=1.0, upper=20000.0),
    Entry('reaction', 'hold', 'Reaction to missing or invalid commands: hold, stop and hold '
          'the pose; damp, stop, and the arm can be pushed; gravity, only carry the weight; zero, '
          'no torque', choices=('hold', 'damp', 'gravity', 'zero'), live=True),
    Entry('latched', False, 'true: commands are forwarded again only after a call of '
          '~/forward',
          live=True),
    Entry('command_timeout', 0.05, 'Time without commands after which the relay stops the arm, '
          'and commands of another publisher are accepted [s]', lower=1e-3, upper=60.0, live=True),
    Entry('state_timeout', 0.1, 'After this time without a valid joint state, the arm is braked '
          'along a state that the model predicts, then its weight is held there [s]',
          lower=1e-3, upper=60.0, live=True),
    Entry('settle_time', 0.1, 'Commands are forwarded again when they have been valid for this '
          'time [s]', lower=1e-3, upper=60.0, live=True),
    Entry('stop_rate', 10.0, 'Decay rate of the speed when the arm is stopped [1/s]', lower=0.1,
          upper=100.0, live=True),
    Entry('fade_time', 0.05, "Time in which the torque changes from the controller's to the "
          "relay's, and back [s]", lower=1e-3, upper=10.0, live=True),
    Entry('limits.effort', (), 'Largest torque of every joint, base first [N m]; empty: those of '
          'the robot description', lower=1e-9),
    Entry('limits.effort_rate', (), 'Largest rate of change of a command, base first [N m/s]; '
          f'empty: {STEEPEST:g} 1/s times the effort limit', lower=1e-9),
)


class Relay(Node):  # type: ignore[misc]
    """Node around a `RelayLoop`, whose thread forwards commands, or stops the arm if they fail."""

    # Services, parameters and diagnostics run in the thread that spins the node. Of several
    # publishers of commands it accepts one (`messages.publishers.Source`). When it changes to
    # another, it holds the arm until it forwards the commands of that one.

    def __init__(self, **arguments: Any) -> None:
        super().__init__('osc_relay', **arguments)
        declare(self, PARAMETERS)
        refuse_bad_sets(self, PARAMETERS, lambda: self._robot is not None, self._apply)
        self._robot: Robot | None = None
        self._states_of = '', '', 0  # see `Loop.publisher_names`
        self._early: list[Subscription] = []
        self._reactions = ReactionLog(self.get_logger(), 'forwards')
        self._loop: RelayLoop | None = None
        self._commands = self.create_publisher(Float64MultiArray, '~/commands', COMMAND_QOS)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        found = values(self, PARAMETERS)
        if found['robot_description'] or found['robot_description_file']:
            self._take_robot(found, robot_parameters.description(found))
        else:
            self._early = self._early_subscriptions()
        self.create_subscription(String, 'robot_description', self._on_description, LATCHED_QOS)
        self.create_service(Trigger, '~/forward', self._on_forward)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(1.0, self._every_second, clock=steady)

    # the robot

    def _early_subscriptions(self) -> list[Subscription]:
        """Subscribe to states and commands before there is a robot, to warn of commands."""
        def warn(message: Float64MultiArray) -> None:
            self.get_logger().warning('commands are not forwarded before there is a robot',
                                      throttle_duration_sec=1.0)
        return [self.create_subscription(Float64MultiArray, COMMAND_TOPIC, warn, INPUT_QOS),
                self.create_subscription(JointState, 'joint_states', lambda message: None,
                                         qos_profile_sensor_data)]

    def _on_description(self, message: String) -> None:
        if self._robot is not None:
            return
        try:
            self._take_robot(values(self, PARAMETERS), message.data)
        except InputError as error:
            self.get_logger().error(f'nothing is forwarded: {error}')

    def _take_robot(self, found: dict[str, Any], text: str) -> None:
        robot, known = robot_parameters.with_load(found, robot_parameters.robot(found, text))
        settings = _settings(found, robot)
        model = self._model(robot, Driver(known, found['driver_compensates']), settings)
        order = robot_parameters.command_order(found, robot)
        names = [robot.joint_names[i] for i in order]
        check = CommandCheck(names, settings.effort_limits[order], settings.effort_rates[order],
                             settings.period)
        log, each_second = self.get_logger(), {'throttle_duration_sec': 1.0}
        # one line for each event: rclpy accepts only one severity and one period per source line
        self._loop = RelayLoop(
            self, robot, model, settings, check, CommandOutput(self._commands, order),
            found['velocity'], found[FROM.name], {
                'change': self._on_change, 'stopped': lambda: None,
                'error': lambda text: log.error(text, **each_second),
                'warning': lambda text: log.warning(text, **each_second),
                'velocity': lambda text: log.warning(text, **each_second),
                'refusal': lambda text: log.error(f'joint state refused: {text}', **each_second),
                'info': lambda text: log.info(text), 'unrelated': lambda text: log.info(text)})
        while self._early:
            self.destroy_subscription(self._early.pop())
        self._robot = robot
        self._warn(found)
        self.get_logger().info(
            f"guards '{robot.name}' from '{robot.base}' to "
            f"{' and '.join(map(repr, robot.tips))}, {robot.n} joints")

    def _model(self, robot: Robot, driver: Driver, settings: Supervision) -> CommandModel:
        """Return the model of a robot, with all kernels compiled."""
        with CompilationReport(self) as report, compile_in_parallel(
                compiled_model, robot, driver, settings, tell=report.tell, by_several=False):
            return compiled_model(robot, driver, settings)

    def _apply(self, found: dict[str, Any], before: dict[str, Any]) -> None:
        self._loop.set_velocity_source(found['velocity'])
        self._loop.request(lambda engine: setattr(engine.guard, 'settings',
                                                  _settings(found, self._robot)))
        self._loop.publisher_names(found[FROM.name])
        self._warn(found)

    def _warn(self, found: dict[str, Any]) -> None:
        if (timeout := found['command_timeout']) > LONG:
            self.get_logger().warning(
                f"parameter 'command_timeout' is {timeout:g} s: if the controller fails, the arm "
                f'has its last torque for so long; advised is at most {LONG:g} s')

    def _on_forward(self, request: Trigger.Request, response: Trigger.Response
                    ) -> Trigger.Response:
        if self._loop is None:
            response.message = NO_ROBOT
            return response
        try:
            response.success, response.message = self._loop.release()
        except InputError as error:
            response.message = f'not released: {error}'
        return response

    # stop at the end of the process

    def ready_to_stop(self) -> bool:
        """Begin to stop the arm; return True if it is at rest or was never commanded."""
        if self._loop is None:
            return True
        self._loop.request(RelayEngine.deactivate)
        return self._loop.mode == IDLE

    def stop(self) -> None:
        """Send the gravity torques as the last command; an arm without brakes then drifts."""
        if (loop := self._loop) is None:
            return
        loop.request(RelayEngine.deactivate)
        if loop.mode != IDLE:
            loop.request(RelayEngine.leave)
        loop.do_posted()
        loop.close()
        if loop.engine.has_command:
            self._commands.wait_for_all_acked(RECEIPT)  # else it can be lost when the node ends
            self.get_logger().info('ends: the last command carries the weight here; without '
                                   'brakes or friction the arm drifts from here')

    # log and diagnostics

    def _on_change(self, *change: Any) -> None:
        self._reactions.change(*change)
        self._diagnose()

    def _every_second(self) -> None:
        self._reactions.conclude()
        self._diagnose()

    def _diagnose(self) -> None:
        loop, level, text, pairs = self._loop, DiagnosticStatus.WARN, NO_ROBOT, []
        if loop is not None:
            everybody = publishers(self, loop.topic)
            if everybody and not loop.publisher_count():
                self.get_logger().warning(
                    f"'{loop.topic}' has publishers, and none of them is reliable: commands of "
                    f'{gids(everybody)} do not arrive', throttle_duration_sec=10.0)
            self._states_of = log_states_of(
                self, self._states_of, loop.publisher_names(loop.publishers.wanted))
            level, text, pairs = loop.request(self._figures, everybody)
        self._diagnostics.publish(messages.diagnostic_message(
            level, f'{self.get_fully_qualified_name()[1:]}: relay', text,
            self._robot.name if self._robot else '', pairs, self.get_clock().now().to_msg()))

    def _figures(self, engine: RelayEngine, everybody: dict[str, str]
                 ) -> tuple[bytes, str, list[tuple[str, Any]]]:
        """Return level, text and (key, value) pairs of the diagnostics."""
        loop, source = self._loop, self._loop.source
        level = DiagnosticStatus.OK if engine.has_command else DiagnosticStatus.WARN
        text = engine.state()
        # forget the names of publishers that have left the topic
        source.names = {gid: name for gid, name in everybody.items()
                        if gid in source.names} or source.names
        if engine.has_command and perf_counter() - source.refused_at < 2.0:
            level = DiagnosticStatus.WARN
            text += ', and refuses the commands of another publisher'
        used, ignored, count = self._states_of
        pairs = [('forwarded', engine.forwarded), ('refused', engine.refused),
                 ('last refusal', engine.refusal), ('sent of its own', engine.reaction_count),
                 ('commands of', gids(source.names)),
                 ('other publishers', gids(source.others(everybody))),
                 ('refused of other publishers', source.refused),
                 ('velocity', loop.velocity_used),
                 ('command age [s]', f'{perf_counter() - loop.heard:.3f}'),
                 ('joint states of', used), ('ignored joint states of', ignored),
                 ('ignored joint states', count), *engine.guard.counts.items(),
                 *zip(('relay p50 [us]', 'relay p99 [us]', 'relay max [us]'),
                      (f'{1e6 * x:.1f}' for x in engine.counts.updates.percentile(50, 99, 100)))]
        return DiagnosticStatus.ERROR if engine.guard.reaction else level, text, pairs


def compiled_model(robot: Robot, driver: Driver, settings: Supervision) -> CommandModel:
    """Return the model of a robot, with all kernels for forwarding compiled."""
    compile_serve()
    with on_demand():
        compile_velocity(robot)
        Answering(robot.n, OF_RELAY)
        model = CommandModel(robot, driver)
        Supervisor(robot, model, settings)
    return model


def _settings(found: dict[str, Any], robot: Robot) -> Supervision:
    reaction, latched = found['reaction'], found['latched']
    effort = robot_parameters.per_joint(found, 'limits.effort', robot.effort_limits, robot)
    watchdogs = {
        SILENCE: Watchdog(reaction, latched, found['command_timeout']),
        NONSENSE: Watchdog(reaction, latched),
        OTHER_PUBLISHER: Watchdog(reaction, latched),
        STALE_STATE: Watchdog(reaction, latched, found['state_timeout'])}
    rates = robot_parameters.per_joint(found, 'limits.effort_rate', STEEPEST * effort, robot)
    return made(Supervision, found, watchdogs=watchdogs, effort_limits=effort, effort_rates=rates,
                period=1.0 / found['rate'])


def main(arguments: list[str] | None = None) -> None:
    """Run the node until SIGINT or SIGTERM."""
    run_and_exit(Relay, arguments)


if __name__ == '__main__':
    main()
