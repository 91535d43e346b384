# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Node osc_relay: forwards commands to the hardware, and stops the arm if they fail."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger

from osc_ros.arm.reaction_log import ReactionLog
from osc_ros.control.causes import state_text
from osc_ros.control.command import CommandCheck
from osc_ros.control.command_model import CommandModel
from osc_ros.control.driver import Driver
from osc_ros.control.statistics import Window
from osc_ros.control.supervision import STALE_STATE, Supervision, Watchdog
from osc_ros.control.supervisor import Supervisor
from osc_ros.dynamics.compilation import compile_in_parallel
from osc_ros.dynamics.compiled import on_demand
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.nodes import commands, description, messages
from osc_ros.nodes.compilation_report import CompilationReport
from osc_ros.nodes.parameters import declare, Entry, refuse_bad_sets, values
from osc_ros.nodes.publishers import (
    KNOWN,
    NEW,
    publishers,
    Source,
    UNCLEAR,
    with_info,
)
from osc_ros.nodes.qos import COMMAND_QOS, LATCHED_QOS
from osc_ros.nodes.run import run_and_exit
from osc_ros.nodes.states import StateInput, VELOCITY

# depth > 1, so that a command of one publisher does not displace that of another one
INPUT_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE)
SILENCE, NONSENSE, OTHER_PUBLISHER = 'silence', 'nonsense', 'other_publisher'
SEVERAL = 'several nodes publish commands, and none of them has been the only one'
WATCH_PERIOD = 0.005  # longest wall time between checks of the ages [s]
STEEPEST = 200.0  # default limit of the rate of a torque, relative to the torque limit [1/s]

PARAMETERS = (
    *description.ENTRIES,
    *(replace(entry, live=False) for entry in description.LOAD_ENTRIES),
    VELOCITY,
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
    """
    Forwards the commands of one publisher; if they fail, stops the arm by a model of its own.

    Commands fail if they are missing or invalid.

    Nothing is sent before the first valid command after a valid joint state. From then on the
    relay always sends commands, because the hardware would apply the last torque for ever. Of
    several publishers on the command topic the relay chooses one
    (`osc_ros.nodes.publishers.Source`) and refuses the commands of the others. When it changes to
    another publisher, it holds the arm until it forwards the commands of this publisher.

    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__('osc_relay', **arguments)
        declare(self, PARAMETERS)
        refuse_bad_sets(self, PARAMETERS, lambda: self._guard is not None, self._apply)
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._guard: Supervisor | None = None
        self._acts = self._changed = self._gave_up = False
        self._reactions = ReactionLog(self.get_logger(), 'forwards')
        self._forwarded = self._refused = self._own = self._of_others = 0
        self._refusal, self._took = '', Window()
        self._heard = self._logged = self._refused_other = -np.inf
        self._source = Source(self.get_parameter('rate').value)
        self._taken: dict[str, str] = {}  # publishers that may have sent the commands, by GID
        found = values(self, PARAMETERS)
        self._watch_period = min(WATCH_PERIOD, 1.0 / found['rate'])
        self._create_interface()
        if found['robot_description'] or found['robot_description_file']:
            self._take_robot(found, description.description(found))

    def _create_interface(self) -> None:
        self._commands = self.create_publisher(Float64MultiArray, '~/commands', COMMAND_QOS)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_subscription(String, 'robot_description', self._on_description, LATCHED_QOS)
        self.create_subscription(JointState, 'joint_states', self._on_joint_states,
                                 qos_profile_sensor_data, raw=True)
        self._input = self.create_subscription(
            Float64MultiArray, 'osc_controller/commands', with_info(self._on_command), INPUT_QOS)
        self.create_service(Trigger, '~/forward', self._on_forward)
        # rclpy 9 passes the time to a callback that may have an argument, as `conclude` may
        for period, callback in ((self._watch_period, self._watch), (1.0, self._diagnose),
                                 (1.0, lambda: self._reactions.conclude())):
            self.create_timer(period, callback, clock=self._steady)

    # the robot

    def _on_description(self, message: String) -> None:
        if self._guard is not None:
            return
        try:
            self._take_robot(values(self, PARAMETERS), message.data)
        except InputError as error:
            self.get_logger().error(f'nothing is forwarded: {error}')

    def _take_robot(self, found: dict[str, Any], text: str) -> None:
        robot, known = description.with_load(found, description.robot(found, text))
        settings = _settings(found, robot)
        guard = self._supervisor(robot, Driver(known, found['driver_compensates']), settings)
        self._order = description.command_order(found, robot)
        self._robot, self._wanted = robot, np.zeros(robot.n)
        names = [robot.joint_names[i] for i in self._order]
        rates = description.per_joint(found, 'limits.effort_rate',
                                      STEEPEST * settings.effort_limits, robot)
        self._check = CommandCheck(names, settings.effort_limits[self._order],
                                   rates[self._order], settings.period)
        self._states = StateInput(robot, found['velocity'], self._on_velocity,
                                  self.get_logger().info)
        self._command = commands.Command(robot.n)
        self._label = ''  # of the newest state
        self._guard = guard
        self.get_logger().info(
            f"guards '{robot.name}' from '{robot.base}' to "
            f"{' and '.join(map(repr, robot.tips))}, {robot.n} joints")

    def _supervisor(self, robot: Robot, driver: Driver, settings: Supervision) -> Supervisor:
        """Return the supervisor of a robot, with all its kernels compiled."""
        with on_demand(), CompilationReport(self) as report, compile_in_parallel(
                CommandModel, robot, tell=report.tell, by_several=False):
            return Supervisor(robot, CommandModel(robot, driver), settings, self._on_change)

    def _apply(self, found: dict[str, Any], before: dict[str, Any]) -> None:
        self._guard.settings = _settings(found, self._robot)
        self._states.mode = found['velocity']

    # reception and forwarding of commands

    def _on_joint_states(self, data: bytes) -> None:
        if self._guard is None:
            return
        try:
            state = self._states.read(data)
        except InputError as error:
            self.get_logger().error(f'joint state refused: {error}', throttle_duration_sec=1.0)
            return
        if state is None:
            return
        if not self._guard.accept_state(*state):
            self._states.reject()
        self._label = messages.stamp_label(self._states.reader.stamp)
        if self._acts and self._guard.watch():
            self._send(self._label)

    def _on_velocity(self, text: str) -> None:
        self.get_logger().warning(text, throttle_duration_sec=1.0)

    def _on_command(self, message: Float64MultiArray, info: dict[str, Any]) -> None:
        started = perf_counter()
        if self._guard is None or not self._label:
            self.get_logger().warning(
                'commands are not forwarded before there is '
                + ('a robot' if self._guard is None else 'a good joint state'),
                throttle_duration_sec=5.0)
            return
        label = commands.label(message)
        was_stopping = self._acts and self._guard.watch()
        if not (self._is_of_the_source(info, started) and self._is_good(message, label, started)):
            if not (self._acts and self._guard.watch()):
                return
        if not (was_stopping and self._guard.watch()):
            self._send(label)
            self._took.add(perf_counter() - started)

    def _is_of_the_source(self, info: dict[str, Any], now: float) -> bool:
        """Whether a command is of the chosen publisher; stop the arm if that is not clear."""
        timeout = self._guard.settings.watchdogs[SILENCE].timeout
        where = self._source.judge(info['publication_sequence_number'],
                                   self._input.get_publisher_count(), now, timeout)
        if where == KNOWN:
            return True
        if where == NEW:
            self._take_publisher()
            return True
        self._of_others += 1
        self._refused_other = now
        reason = f'commands of another publisher than {_gids(self._taken)}'
        if where == UNCLEAR:
            reason = SEVERAL
            if self._acts:
                self._guard.trip(OTHER_PUBLISHER, reason)
        if now - self._logged > 1.0:
            self._logged = now
            everybody = publishers(self, self._input.topic_name)
            others = {gid: name for gid, name in everybody.items() if gid not in self._taken}
            self.get_logger().error(f'not forwarded: {reason}: '
                                    f'{_gids(everybody if where == UNCLEAR else others)}')
        return False

    def _take_publisher(self) -> None:
        """Choose another publisher, and hold the arm until its commands are forwarded."""
        before, self._taken = self._taken, publishers(self, self._input.topic_name)
        # The only publisher has not been heard for the time-out, perhaps because this process was
        # late. The watchdog of silence measures from the end of the last callback and decides.
        if len(before) == 1 and self._taken.keys() == before.keys():
            return
        self._check.forget()
        self.get_logger().info(f'forwards the commands of {_gids(self._taken)}')
        if self._acts and not self._guard.watch():
            self._guard.trip(OTHER_PUBLISHER, f'commands come from {_gids(self._taken)} now')

    def _is_good(self, message: Float64MultiArray, label: str, now: float) -> bool:
        """Whether a command is valid; a valid one is stored as the torque to forward."""
        time = commands.labelled_time(label)
        try:
            # Only differences between the times of two commands are used, so the clock of the
            # sender need not agree with ours. When the source of the time changes, the command
            # counts as late.
            tau = self._check.torque(message.data, now if time is None else time)
        except InputError as error:
            self._refused += 1
            self._refusal = str(error)
            self._guard.trip(NONSENSE, self._refusal)
            self.get_logger().error(f'not forwarded: {error}', throttle_duration_sec=1.0)
            return False
        self._guard.feed(SILENCE)
        self._heard = now
        self._wanted[self._order] = tau
        self._acts = True
        return True

    def _send(self, label: str) -> None:
        tau, gave_up = self._guard.torque(lambda: self._wanted), self._gave_up
        self._gave_up = bool(self._guard.runaway)
        if self._gave_up and gave_up:
            return
        if self._gave_up:  # the last command until `~/forward`
            tau = self._guard.idle_torque()
        self._commands.publish(self._command.fill(tau[self._order], label))
        if self._guard.reaction:
            self._own += 1
        else:
            self._forwarded += 1
        if self._changed:
            self._diagnose()

    def _watch(self) -> None:
        if not self._acts:
            return
        was_stopping = bool(self._guard.reaction)
        if not self._source.has_one:
            self._guard.trip(OTHER_PUBLISHER, SEVERAL)
        if self._guard.watch():
            if self._guard.blind:
                self._send(commands.HOLD_LABEL)
            elif not was_stopping:
                self._send(self._label)

    def _on_forward(self, request: Trigger.Request, response: Trigger.Response
                    ) -> Trigger.Response:
        if self._acts:
            self._guard.release()
        response.success = self._acts and not self._guard.reaction
        response.message = self._state()
        return response

    # stop at the end of the process

    def ready_to_stop(self) -> bool:
        """Begin to stop the arm; return whether it is at rest, or was never commanded."""
        if not self._acts:
            return True
        self._guard.stop()
        return self._guard.finished

    def stop(self) -> None:
        """Send the gravity torques as the last command; without brakes the arm drifts."""
        if self._acts:
            self._commands.publish(self._command.fill(
                self._guard.idle_torque()[self._order], commands.HOLD_LABEL))
            self.get_logger().info('ends: the last command carries the weight here; without '
                                   'brakes or friction the arm drifts from here')

    # log and diagnostics

    def _state(self) -> str:
        if self._guard is None:
            return 'waits for a robot description'
        if not self._acts:
            return 'waits for a joint state and a command'
        return state_text(self._guard, 'forwards')

    def _on_change(self) -> None:
        self._changed = True
        self._reactions.change(self._guard.cause, self._guard.reaction, self._state())

    def _diagnose(self) -> None:
        self._changed = False
        level = DiagnosticStatus.OK if self._acts else DiagnosticStatus.WARN
        text, everybody = self._state(), publishers(self, self._input.topic_name)
        # a publisher that has left the topic does not send the present commands
        self._taken = {gid: name for gid, name in everybody.items()
                       if gid in self._taken} or self._taken
        others = {gid: name for gid, name in everybody.items() if gid not in self._taken}
        if self._acts and perf_counter() - self._refused_other < 2.0:
            level = DiagnosticStatus.WARN
            text += ', and refuses the commands of another publisher'
        pairs = [('forwarded', self._forwarded), ('refused', self._refused),
                 ('last refusal', self._refusal), ('sent of its own', self._own),
                 ('commands of', _gids(self._taken)), ('other publishers', _gids(others)),
                 ('refused of other publishers', self._of_others),
                 ('velocity', self._states.used if self._guard is not None else ''),
                 ('command age [s]', f'{perf_counter() - self._heard:.3f}')]
        if self._guard is not None:
            level = DiagnosticStatus.ERROR if self._guard.reaction else level
            pairs.extend(self._guard.counts.items())
        pairs.extend(zip(('relay p50 [us]', 'relay p99 [us]', 'relay max [us]'), (
            f'{1e6 * x:.1f}' for x in self._took.percentile(50, 99, 100))))
        self._diagnostics.publish(messages.diagnostic_message(
            level, f'{self.get_fully_qualified_name()[1:]}: relay', text,
            self._robot.name if self._guard else '', pairs, self.get_clock().now().to_msg()))


def _gids(publishers: dict[str, str]) -> str:
    return ', '.join(sorted(f'{name} (GID {gid})' for gid, name in publishers.items())) or 'none'


def _settings(found: dict[str, Any], robot: Robot) -> Supervision:
    reaction, latched = found['reaction'], found['latched']
    return Supervision(
        {SILENCE: Watchdog(reaction, latched, found['command_timeout']),
         NONSENSE: Watchdog(reaction, latched),
         OTHER_PUBLISHER: Watchdog(reaction, latched),
         STALE_STATE: Watchdog(reaction, latched, found['state_timeout'])},
        effort_limits=description.per_joint(found, 'limits.effort', robot.effort_limits, robot),
        stop_rate=found['stop_rate'], fade_time=found['fade_time'],
        settle_time=found['settle_time'], period=1.0 / found['rate'])


def main(arguments: list[str] | None = None) -> None:
    """Run the node until SIGINT or SIGTERM."""
    run_and_exit(Relay, arguments)


if __name__ == '__main__':
    main()
