# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Node osc_controller: its lifecycle and parameters, around the control loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from time import perf_counter, time_ns
from typing import Any

import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from std_msgs.msg import Float64MultiArray, String

from osc_ros.compile.compilation import compile_in_parallel
from osc_ros.compile.compiled import on_demand
from osc_ros.control.accepted import FULL_SPEED
from osc_ros.control.law import Law
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.task import Stiffness
from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.loop.cycle import ACTIVE, ENDING, IDLE
from osc_ros.loop.engine import Engine, WAITS_TEXT
from osc_ros.loop.process import realtime
from osc_ros.loop.process.process_start import careful_override, careful_text
from osc_ros.loop.process.reaction_log import ReactionLog
from osc_ros.loop.session import Session
from osc_ros.loop.startup import NOTE
from osc_ros.ros.controller.claims import Claims
from osc_ros.ros.controller.contact_learning import Contacts
from osc_ros.ros.controller.diagnosis import Diagnosis, state_delay
from osc_ros.ros.controller.goal_topics import Goals
from osc_ros.ros.controller.managed import ManagedNode, SUCCESS, TooEarlyError
from osc_ros.ros.controller.records import Records
from osc_ros.ros.controller.targets import Targets
from osc_ros.ros.dds.compiled_answers import compile_kernels
from osc_ros.ros.dds.ros_loop import Loop
from osc_ros.ros.messages.commands import CommandOutput
from osc_ros.ros.messages.compilation_report import CompilationReport
from osc_ros.ros.messages.frames import Frames
from osc_ros.ros.messages.publishers import log_states_of, Senders
from osc_ros.ros.messages.qos import COMMAND_QOS, LATCHED_QOS, RECEIPT
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.controller_parameters import (
    ON_ACTIVATION,
    OTHER_PUBLISHER,
    SPEED,
    TASKS,
    with_tasks,
)
from osc_ros.ros.parameters.gains import DELAY, require_bandwidth
from osc_ros.ros.parameters.node_settings import (
    law_of,
    law_settings,
    LoadedRobot,
    supervision,
    with_load,
)
from osc_ros.ros.parameters.parameters import (
    declare,
    Entry,
    initial_value,
    refuse_bad_sets,
    values,
)
from osc_ros.ros.parameters.state_input import FROM
from osc_ros.ros.process.node_process import run_and_exit

UPDATES_FOR_DELAY = 100  # fewest updates from which their duration is estimated
# Parameters of the impedance that ~/target_impedance changes, too.
COMMANDED = ('rotation.stiffness', 'translation.stiffness', 'rotation.damping_ratio',
             'translation.damping_ratio')
DELAY_CHANGE = 0.05  # smaller changes of the delay are not passed to the loop [periods]


def law_in_loop(found: dict[str, Any], urdf: str) -> tuple[LoadedRobot, Law]:
    """Return the result of `law_of`, and also compile the kernels that a `Loop` needs."""
    loaded, law = law_of(found, urdf)
    compile_kernels(law.robot)
    return loaded, law


class Controller(ManagedNode):
    """Lifecycle node around one `Law` and the `Supervisor` that watches it."""

    # A `Loop` in a thread of its own sends one command for each joint state, when it arrives. An
    # active node always sends commands: if a watchdog acts, the supervisor computes
    # them; after `deactivate` they go on until the arm is at rest. All other work runs in the
    # thread that spins the node: slow work first, then it interrupts the loop to pass the result.

    _build = staticmethod(law_in_loop)

    def __init__(self, **arguments: Any) -> None:
        super().__init__('osc_controller', **arguments)
        self._table = self._entries()
        declare(self, self._table, self._ignored_names())
        refuse_bad_sets(self, self._table, lambda: self._law is not None, self._apply,
                        self._commanded_values)
        self._started = time_ns()
        self._law: Law | None = None
        self._loop: Any = None  # a `Loop`, or an object with its interface
        self._diagnosis: Diagnosis | None = None
        self._made = ExitStack()
        self._is_new = True  # until the first activation
        self._cleans_up_at_rest = False
        self._urdf = ''
        self._frames = Frames(self)
        self._reactions = ReactionLog(self.get_logger(), 'active')
        self.create_subscription(String, 'robot_description', self._on_description, LATCHED_QOS)
        self._starter = self.create_timer(0.05, self._start,
                                          clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _entries(self) -> tuple[Entry, ...]:
        """Return the parameters of the node."""
        return with_tasks(initial_value(self, TASKS))

    def _ignored_names(self) -> set[str]:
        """Return the names of parameters that are accepted without effect."""
        return set()

    # transitions

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read the robot description, compile the kernels, and create the law and the loop."""
        return self._transition('configure', self._configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Hold the present pose; from now on, send a command for every joint state."""
        return self._transition('activate', self._activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to stop the arm; commands go on until it is at rest."""
        return self._transition('deactivate', self._deactivate)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Discard the robot model as soon as the arm is at rest."""
        return self._transition('clean up', self._clean_up)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop as on deactivation, and discard the robot model as soon as the arm is at rest."""
        was_active = self._active
        self._transition('deactivate', self._deactivate)
        if was_active and self._active:  # the transition failed
            self._transition('leave the arm', self._leave)
        return self._transition('clean up', self._clean_up)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop as on deactivation, and go back to unconfigured."""
        return self.on_shutdown(state)

    def ready_to_stop(self) -> bool:
        """Begin to stop the arm; return whether it is at rest. Any thread may call this."""
        self._starter.cancel()
        self._deactivate()
        return not self._ending

    def stop(self) -> None:
        """End now, even if the arm moves: the last command is the idle command."""
        self.ready_to_stop()
        if self._ending:
            self._leave()
        if self._loop is not None:
            self._loop.do_posted()
        if self._loop is not None:  # a queued call may have destroyed the loop
            self._records.close()
            self._claims.close()
            self._loop.close()
            # else the last command can be lost when the publisher ends
            self._commands.wait_for_all_acked(RECEIPT)
        if self._law is not None:
            self._law.close()
        realtime.collect_garbage_as_usual(self)

    @property
    def _period(self) -> float:
        """Expected time between two joint states [s]; constant while configured."""
        return 1.0 / float(self.get_parameter('rate').value)

    @property
    def _state_timeout(self) -> float:
        return float(self.get_parameter('state_timeout').value)

    @property
    def _active(self) -> bool:
        return self._loop is not None and self._loop.mode == ACTIVE

    @property
    def _ending(self) -> bool:
        return self._loop is not None and self._loop.mode == ENDING

    # configuration and clean-up

    def _configure(self) -> None:
        if self._ending:
            raise InputError('the arm is still being stopped')
        found = values(self, self._table)
        require_bandwidth(found, 1.0 / found['rate'])
        urdf, started = robot_parameters.description(found, self._urdf), perf_counter()
        with ExitStack() as made:
            self._claim(found['autostart'], made)
            with CompilationReport(self) as report, compile_in_parallel(
                    self._build, found, urdf, tell=report.tell, by_several=found['workers'] == 1):
                self._loaded, law = self._build(found, urdf)
                took = perf_counter() - started
                robot = law.robot
                self._make(law, found, urdf, made)
            self._made, self._law = made.pop_all(), law
        self._use_realtime(found)
        self.get_logger().info(
            f"configured '{robot.name}' from '{robot.base}' to "
            f"{' and '.join(map(repr, robot.tips))}, {robot.n} joints, "
            f"method '{law.space.method}', {law.space.plan}; kernels ready in {took:.2f} s")

    def _claim(self, is_coming: bool, made: ExitStack) -> None:
        """Create the publisher of commands, and the claims that announce its use to others."""
        self._commands = self.create_publisher(Float64MultiArray, '~/commands', COMMAND_QOS)
        made.callback(self.destroy_publisher, self._commands)
        made.callback(self._commands.wait_for_all_acked, RECEIPT)
        self._claims = self._make_claims(is_coming)
        made.callback(self._claims.close)

    def _make(self, law: Law, found: dict[str, Any], urdf: str, made: ExitStack) -> None:
        """Create all parts of a configured node; `made` gets the functions that close them."""
        made.callback(law.close)
        loop = self._make_loop(law, found, urdf)
        made.callback(loop.close)
        goals = Goals(self, loop, law)
        made.callback(goals.close)
        diagnosis = Diagnosis(self, loop, law, goals)
        made.callback(diagnosis.close)
        self._targets = Targets(self, loop, law, self._frames, goals)
        made.callback(self._targets.close)
        self._records = records = Records(self, loop, found, urdf, law.robot.joint_names)
        made.callback(records.close)
        policy = self._targets.policy
        self._senders = senders = Senders(self, {'commanded by': self._targets.topics})
        self._states_of = '', '', 0
        diagnosis.inputs = lambda: (*policy.values(), *self._targets.obstacles.values(),
                                    *records.values(), *senders.values(), *zip((
                                        'joint states of', 'ignored joint states of',
                                        'ignored joint states'), self._states_of))
        self._targets.obstacles.renew = partial(self._apply, found, found)
        self._session = Session(law, loop, lambda load: self._targets.obstacles.renew(),
                                self._tell_finding)
        self._contacts = Contacts(self, loop)
        made.callback(self._contacts.close)
        self._apply_times(found, loop)
        timer = self.create_timer(1.0, self._every_second,
                                  clock=Clock(clock_type=ClockType.STEADY_TIME))
        made.callback(self.destroy_timer, timer)
        self._loop, self._diagnosis = loop, diagnosis
        self._told: tuple[str, float] = '', DELAY

    def _make_loop(self, law: Law, found: dict[str, Any], urdf: str) -> Any:
        """Return a `Loop`, or another object with its interface."""
        engine = partial(Engine, law, supervision(found, law.robot, law.settings.limits),
                         self._period)
        return Loop(self, engine, law.robot,
                    CommandOutput(self._commands,
                                  robot_parameters.command_order(found, law.robot)),
                    self._period, found['velocity'], found[FROM.name], self._handlers())

    def _make_claims(self, is_coming: bool) -> Any:
        """Return the claims, which decide which of several controllers may be active."""
        return Claims(self, self._commands.topic_name, self._started,
                      lambda: self._active or self._ending, is_coming, self._yield)

    def _handlers(self) -> dict[str, Callable[..., None]]:
        """Return the callbacks for the loop's events by name; they run in the node's thread."""
        log, each_second = self.get_logger(), {'throttle_duration_sec': 1.0}
        # one line for each event: rclpy accepts only one severity and one period per source line
        return {'report': self._report, 'stopped': self._on_stopped, 'change': self._log_change,
                'error': lambda text: log.error(text),
                'warning': lambda text: log.warning(text), 'dropped': self._on_dropped,
                'refusal': lambda text: log.error(f'joint state refused: {text}', **each_second),
                'velocity': lambda text: log.warning(text, **each_second),
                'unrelated': lambda text: log.info(text),
                'learned': self._on_learned}

    def _use_realtime(self, found: dict[str, Any]) -> None:
        realtime.switch_threads_quickly()
        if found['realtime.priority']:
            self.get_logger().info(realtime.prioritize(found['realtime.priority']))
        if found['realtime.lock_memory']:
            self.get_logger().info(realtime.lock_memory())
        realtime.keep_garbage_out(self)  # before the loop runs, because it takes long

    def _clean_up(self) -> None:
        self._cleans_up_at_rest = self._ending
        if self._ending:
            return
        self._made.close()
        self._law = self._loop = self._diagnosis = None
        self._cleans_up_at_rest = False
        realtime.collect_garbage_as_usual(self)

    # activation, start-up check and deactivation

    def _activate(self) -> None:
        self._require_states()
        self._claims.require()
        self._check()
        self._check_efforts()
        self._slow_down()
        self._session.activate()
        self._show_publishers()
        self.get_logger().info('active: holding the present pose')
        if (speed := self.get_parameter(SPEED).value) < FULL_SPEED:
            self.get_logger().warning(f'{careful_text(speed)} (parameter {SPEED}, ~/speed)')

    def _require_states(self) -> None:
        loop = self._loop
        self._show_publishers()
        if loop.state_age <= self._state_timeout:
            loop.require_publishers()
            return
        text = f'required are {loop.required} ({loop.lack_of_states()})'
        if np.isinf(loop.state_age) and not loop.refusal:
            raise TooEarlyError(f'no joint_states have come yet: {text}')
        raise InputError(f'no good joint_states for {self._state_timeout} s: {text}')

    def _check(self) -> None:
        """Compare the driver's efforts with the model, see parameter startup_check."""
        try:
            self._session.check(self.get_parameter('startup_check').value)
        finally:
            self._diagnosis.finding = self._session.finding

    def _tell_finding(self, level: str, text: str) -> None:
        if level == NOTE:  # rclpy accepts only one severity per call in the source
            self.get_logger().info(text)
        else:
            self.get_logger().warning(text)

    def _slow_down(self) -> None:
        """At the first activation, lower the speed override if the user has not given it."""
        is_new, self._is_new = self._is_new, False
        if is_new and SPEED not in self._parameter_overrides and not self._loop.is_simulated:
            careful = careful_override(self._law.settings, self._law.robot)
            self.set_parameters_atomically([Parameter(SPEED, value=min(
                careful, self.get_parameter(SPEED).value))])

    def _check_efforts(self) -> None:
        """Warn if external torques need measured efforts, but some joints have none."""
        efforts = self.get_parameter('external_force.efforts').value
        if efforts != 'commanded' and not self._loop.read(requests.has_efforts):
            self.get_logger().warning(
                f"external_force.efforts is '{efforts}', but joint_states have no effort of every "
                'joint: the commanded torques are used for the others')

    def _deactivate(self) -> None:
        if self._active:
            self._loop.request(Engine.deactivate)
            self._targets.answer_dropped('the controller stops the arm')
            self._diagnosis.publish_status()
            self.get_logger().info('inactive: stopping the arm')

    def _leave(self) -> None:
        """Send the idle command as the last command, even if the arm is not at rest."""
        self._loop.request(requests.leave)
        self._log_stopped()

    def _yield(self, names: str) -> None:
        """Stop sending commands at once, because these active controllers started earlier."""
        self._loop.request(Engine.lose)
        self.get_logger().error(f'{names} is active, too, and started earlier: this node stops '
                                'sending commands at once')
        if self._state_machine.current_state[1] == 'active':
            self.trigger_deactivate()
        self._starter.reset()  # with autostart, this node waits for its turn again

    def _on_stopped(self) -> None:
        """Finish a requested deactivation or clean-up after the loop has stopped the arm."""
        if self._loop is None or self._loop.mode != IDLE:
            return
        if self._state_machine.current_state[1] == 'active':
            self.trigger_deactivate()
        self._log_stopped()
        if self._cleans_up_at_rest:
            self._clean_up()

    def _log_stopped(self) -> None:
        carries = self.get_parameter('idle').value == 'gravity'
        self.get_logger().info('the arm is stopped: the last command '
                               + ('carries the weight here; without brakes or friction the arm '
                                  'drifts from here' if carries else 'is zero'))

    # autostart

    def _start(self) -> None:
        """With parameter autostart, try to configure and activate the node."""
        if not self.get_parameter('autostart').value:
            return
        try:
            if self._law is None:
                found = values(self, self._table)
                robot_parameters.description(found, self._urdf)
        except InputError as error:
            self.get_logger().warning(f'waiting: {error}', throttle_duration_sec=5.0)
            return
        if self._law is None and self.trigger_configure() != SUCCESS:
            self._starter.cancel()
            return
        if self._state_age() > self._state_timeout or not self._loop.has_enough_states:
            self.get_logger().info(f'waiting for joint_states ({self._loop.lack_of_states()})',
                                   throttle_duration_sec=5.0, skip_first=True)
            return
        if not self._claims.be_ready():
            return
        if text := self._claims.blocking_reason():
            self.get_logger().warning(f'waiting: {text}', throttle_duration_sec=5.0)
            return
        try:
            self._loop.require_publishers()
        except InputError as error:
            self.get_logger().warning(f'waiting: {error}', throttle_duration_sec=5.0)
            return
        self._starter.cancel()
        self.trigger_activate()

    def _on_description(self, message: String) -> None:
        self._urdf = message.data
        if self._law is None and self._starter.is_canceled():
            self._starter.reset()

    def _state_age(self) -> float:
        return np.inf if self._loop is None else self._loop.state_age

    # live parameters

    def _apply(self, found: dict[str, Any], before: dict[str, Any]) -> str:
        changed = {name for name in found if found[name] != before[name]}
        if changed == {SPEED}:  # needs no setup
            self._targets.obstacles.renew = partial(self._apply, found, found)
            self._loop.request(requests.set_speed_override, found[SPEED])
            return ''
        delay = self._delay(self._loop.read(requests.timing))
        require_bandwidth(found, self._period, delay, before)
        q, given = self._loop.q, found
        found = with_load(found, self._session.load)
        with on_demand():  # otherwise a model would compile all kernels of its method
            robot, driver = self._loaded.of(found)
            if 'gravity' in changed:
                self._law.checked_gravity(robot.gravity, None, self._active or self._ending)
            settings = law_settings(found, robot, driver)
            settings = replace(settings, clearance=self._targets.obstacles.with_things(
                settings.clearance, robot))
            text = self._targets.reduced_stiffness(settings)
            prepared = self._law.new_setup(settings, robot, q if len(q) else None)
        self._records.apply(found)
        spring, old = (one.tasks[0].gains for one in (settings, self._law.settings))
        waits = self._loop.use_setup(prepared, supervision(found, robot, prepared.settings.limits))
        if 'gravity' in changed:
            self._loop.request(requests.set_gravity, robot.gravity)
            self._law.use_gravity(robot.gravity)
        if (not changed.isdisjoint(COMMANDED) and isinstance(spring, Stiffness)
                and isinstance(old, Stiffness) and all(np.array_equal(*pair) for pair in (
                    (spring.stiffness, old.stiffness),
                    (spring.damping_ratio, old.damping_ratio)))):  # else the setup begins so
            self._loop.request(requests.set_impedance, Impedance(
                spring.stiffness, spring.damping_ratio, np.zeros(6)), next(iter(self._law.levels)))
        # the node has these values only after this call, but it may renew the settings within it
        self._targets.obstacles.renew = partial(self._apply, given, given)
        self._apply_times(found, self._loop)
        return '; '.join(filter(None, (text, WAITS_TEXT if waits else '')))

    def _commanded_values(self) -> dict[str, Any]:
        """Return values by parameter that a message has set; they last until one is set."""
        gravity, impedance = self._loop.read(requests.commanded_values)
        found = {'gravity': gravity}
        if impedance is not None:
            found |= zip(COMMANDED, impedance[:2].reshape(4, 3))
        return {name: tuple(value.tolist()) for name, value in found.items()}

    def _delay(self, timing: requests.Timing) -> float:
        """Return the median time from a state's stamp to its command, at least DELAY [periods]."""
        if timing.updates.count < UPDATES_FOR_DELAY:
            return DELAY
        # median, because a single late command acts like a lost state and adds no phase lag; the
        # states of a slow simulation wait for the commands
        late = state_delay(timing) + timing.updates.percentile(50)[0]
        return max(DELAY, late / max(self._period, timing.periods.percentile(50)[0]))

    def _apply_times(self, found: dict[str, Any], loop: Any) -> None:
        loop.set_velocity_source(found['velocity'])
        loop.request(requests.set_report_period,
                     1.0 / found['report_rate'] if found['report_rate'] else np.inf)
        loop.request(requests.set_speed_override, found[SPEED])
        self._claims.accepts_others = found[ON_ACTIVATION] == 'accept'
        self._targets.apply(found)

    # events of the loop

    def _log_change(self, cause: str, reaction: str, state: str) -> None:
        self._reactions.change(cause, reaction, state)
        self._records.on_change(cause, reaction)
        if self._diagnosis is not None:
            self._diagnosis.publish_status()

    def _on_dropped(self, text: str, *scheduled: Any) -> None:
        self.get_logger().warning(text)
        if self._diagnosis is not None:
            self._targets.answer_dropped(text, *scheduled)
            if not scheduled:
                self._targets.joints.preempt(text)

    def _on_learned(self, *found: Any) -> None:
        self._contacts.store_thresholds(*found)

    def _report(self, *tick: Any) -> None:
        if self._diagnosis is not None:
            self._targets.policy.record(*tick[:2])
            self._targets.joints.update()
            self._targets.obstacles.update()
            self._diagnosis.publish_tick(*tick)

    def _show_publishers(self) -> None:
        """Log the publishers of joint states if they have changed."""
        names = self.get_parameter(FROM.name).value or ()
        self._states_of = log_states_of(self, self._states_of, self._loop.publisher_names(names))

    def _every_second(self) -> None:
        if self._law is None:  # the executor may still call the timer after the clean-up
            return
        self._senders.update()
        self._show_publishers()
        self._targets.joints.update()
        self._targets.obstacles.update()
        (others, told), timing = self._told, self._loop.read(requests.timing)
        if (found := ', '.join(self._claims.others())) != others:
            self._loop.request(requests.set_present, {
                OTHER_PUBLISHER: f'{found} publishes there too'} if found else {})
        delay = self._delay(timing)
        if abs(delay - told) > DELAY_CHANGE:
            self._loop.request(requests.set_delay, told := delay)
        self._told = found, told
        self._diagnosis.publish_status(timing)
        self._reactions.conclude()
        realtime.collect_garbage()


def main(arguments: list[str] | None = None) -> None:
    """Run the node until SIGINT or SIGTERM."""
    run_and_exit(Controller, arguments)


if __name__ == '__main__':
    main()
