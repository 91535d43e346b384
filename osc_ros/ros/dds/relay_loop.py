# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Loop of osc_relay: the loop of a controller whose torques are those of another controller."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
import math
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from std_msgs.msg import Float64MultiArray

from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.safety.answered import (
    Answered,
    Answers,
    FORWARDED,
    is_sent,
    stamp_of,
    UNASKED,
)
from osc_ros.control.safety.command_check import CommandCheck
from osc_ros.control.safety.safety import REJECTED
from osc_ros.control.safety.stopping import LAW, RESUMED, SOURCES
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.step.relayed import (
    check_state,
    NONSENSE,
    OTHER_PUBLISHER,
    relay_example,
    relay_record,
    sense_nothing,
    SILENCE,
    watch_commands,
)
from osc_ros.errors import InputError
from osc_ros.loop.cycle import ACTIVE, Cycle, ENDING, IDLE, Kernels, NOTHING, Stamp
from osc_ros.model.robot import Robot
from osc_ros.ros.dds.ros_loop import Loop, NOT_COMPILED
from osc_ros.ros.dds.serving import COMMAND
from osc_ros.ros.messages import commands
from osc_ros.ros.messages.publishers import gids, KNOWN, NEW, publishers, SEVERAL, Source, UNCLEAR

Array = NDArray[np.float64]

# depth > 1, so that a command of one publisher does not displace a command of another one
INPUT_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE)
OF_RELAY = Kernels(check_state, watch_commands, sense_nothing, relay_example)
FORWARDS = SOURCES[LAW], SOURCES[RESUMED]  # sources of torques of the other controller
COMMANDS = 1  # index of the topic of the commands
COMMAND_TOPIC = 'osc_controller/commands'


class RelayEngine(Cycle):
    """Sends the torques of another controller, or stops the arm if they are missing or refused."""

    kernels, fault = OF_RELAY, NONSENSE

    def __init__(self, robot: Robot, model: CommandModel, supervision: Supervision, period: float,
                 check: CommandCheck, send: Callable[[Array, Stamp | None], None],
                 post: Callable[..., None]) -> None:
        # The first watchdogs of `supervision` are those of the commands. The event 'change' has
        # the results of `describe` as its last arguments. For the other arguments see `Engine`.
        super().__init__(robot, model, supervision, period, send, post)
        self._record = relay_record(model, self.guard.m, self.guard.d)
        # Nothing is sent before the first good command after a good joint state. From then on a
        # command is always sent, because the hardware would keep applying the last torque.
        self.check, self.has_command = check, False
        # state as a text; whether the reaction in force is for a fault
        self.describe: Callable[[], tuple[str, bool]] = lambda: ('', True)
        # number of forwarded commands, of torques of reactions, and of refused commands
        self.forwarded = self.reaction_count = self.refused = 0
        self.refusal = ''  # reason of the last one
        self._sent_last: Array | None = None  # torques from which the first command continues

    @property
    def record(self) -> Any:
        """The record CONTROLLER."""
        return self._record

    def state(self) -> str:
        """Return the state of the loop as a text."""
        return self.describe()[0]

    def update(self, time: float, q: Array, qd: Array, stamp: Stamp, arrived: float,
               effort: Array | None = None) -> bool:
        """Take a state, see `Cycle.update`."""
        self.check.record.sec, self.check.record.nanosec = stamp
        return super().update(time, q, qd, stamp, arrived, effort)

    def forward(self, tau: Array) -> None:
        """Send the torques (n,) of a good command, unless a reaction is in force."""
        if not self.acts:
            self.guard.begin(self._sent_last)
            self.guard.accept_state(self.time, self.q, self.qd)
            self.mode, self.has_command, self.is_last = ACTIVE, True, False
        self._process_answer(self._unasked(math.inf, tau))

    def stops(self) -> bool:
        """Find the reaction now; return whether one is in force."""
        self.watch(math.inf)
        return self.acts and self.guard.replaces_law

    def deactivate(self) -> None:
        """Begin to stop the arm."""
        if self.mode == ACTIVE:
            self.mode = ENDING
            self.guard.stop()

    def release(self) -> bool:
        """Release latched causes; return whether no reaction remains."""
        if not self.has_command:
            return False
        gave_up = bool(self.guard.runaway)
        self.guard.release()
        if gave_up:  # send nothing before a new joint state and command
            self.mode, self.has_command = IDLE, False
            self._sent_last, self.q = self.guard.answer_torque, np.zeros(0)
            self.check.forget()
            self.guard.begin(self._sent_last)
        return not self.guard.reaction

    def conclude(self, done: Answers, is_plain: bool) -> bool:
        """See `Engine.conclude`."""
        if not is_plain:
            return self._process_answer(done[0])
        is_command = done.code == FORWARDED
        for one in np.flatnonzero(is_command).tolist():
            self._note_forwarded(done[one])
        states = np.flatnonzero(~is_command)
        return len(states) > 0 and self._process_answer(done[states[-1]])

    def _process_answer(self, done: Answered) -> bool:
        is_valid = done.code not in (UNASKED, FORWARDED, REJECTED)
        self.guard.explain(done)
        if is_valid:
            self._take(float(done.accepted), done.q, done.qd, stamp_of(done), float(done.arrived),
                       done.effort)
        if done.has_changed:
            self._on_change(done)
        if done.code == FORWARDED:
            self._note_forwarded(done)
        elif is_sent(done):
            self.reaction_count += 1
        if done.asks:
            self._leave_if_finished()
        return is_valid

    def _note_forwarded(self, done: Answered) -> None:
        self.forwarded += 1
        self.counts.updates.add(float(done.done - done.arrived))

    def _on_change(self, done: Answered | None = None) -> None:
        acting = self.guard.acting(done)
        found = (acting.cause, acting.reaction) if self.has_command else ('', '')
        self._post('change', *found, *self.describe())


class RelayLoop(Loop):
    """Connects a `RelayEngine` to the topics of joint states, and of commands in and out."""

    def __init__(self, owner: Any, robot: Robot, model: CommandModel, supervision: Supervision,
                 check: CommandCheck, output: commands.CommandOutput, velocity: str,
                 states_from: Any, handlers: Any) -> None:
        # Compiled code passes on plain states and commands of the chosen publisher. Python handles
        # all other messages.
        self.source, self._label, self._check = Source(check.record), '', check
        self.topic = str(owner.resolve_topic_name(COMMAND_TOPIC))
        engine = partial(RelayEngine, robot, model, supervision, supervision.period, check)
        super().__init__(owner, engine, robot, output, supervision.period, velocity, states_from,
                         handlers, (Float64MultiArray, self.topic, INPUT_QOS))

    def _relayed(self) -> Any:
        self.engine.describe = self._describe
        return self._check.record

    def _describe(self) -> tuple[str, bool]:
        engine = self.engine
        if not engine.has_command:
            return 'waits for a joint state and a command', True
        if self.source.has_ended and engine.guard.cause == SILENCE:
            return self._ended_text, False
        return engine.guard.acting().text('forwards', '~/forward forwards'), True

    @property
    def _ended_text(self) -> str:
        return (f'the last command of {gids(self.source.names)} has come: '
                f'{self.engine.guard.reaction}')

    @property
    def heard(self) -> float:
        """Time of the last good command [s]."""
        engine = self.engine
        return float(engine.guard.last_feed(SILENCE)) if engine.has_command else -np.inf

    def publisher_count(self) -> int:
        """Return the number of matched publishers of commands."""
        handle = self._inbox.subscriptions[COMMANDS]
        with handle:
            return int(handle.get_publisher_count())

    def release(self) -> tuple[bool, str]:
        """Release latched causes, see `RelayEngine.release`; return the state as a text, too."""
        if names := self.replace_ended_publishers():
            self._post('warning', f'uses the joint states of {names} from now on')
        return self.request(lambda engine: (engine.release(), engine.state()))

    # in the thread of the loop

    def _controller(self) -> Any:
        is_chosen = self.source.has_one and self.source.gid.any()
        return super()._controller() if is_chosen else None

    def _take_others(self, why: int) -> None:
        data = None
        if self.engine.acts and not self.source.has_one:
            self._call(self.engine.guard.report_fault, OTHER_PUBLISHER, SEVERAL)
        if why == COMMAND:
            data = self._calls.message(COMMANDS)
        elif why == NOT_COMPILED:
            data = self._calls.take(COMMANDS)
        if data is not None:
            gid = self._calls.gid
            self._call(self._on_command, data, gid if any(gid) else b'')

    def _on_command(self, data: bytes, gid: bytes) -> None:
        now, engine = perf_counter(), self.engine
        guard = engine.guard
        if guard.runaway or guard.d.stops:
            return
        if not len(engine.q):
            self._post('warning', 'commands are not forwarded before there is a good joint state')
            return
        was_stopping = engine.stops()
        if was_stopping and guard.last_feed(SILENCE) < guard.began:
            engine.check.forget()  # the arm has the torques of the reaction, not commands
        if not engine.acts and not self._fixes_publishers():
            return
        found = self._accepted(data, now) if self._is_of_the_source(gid, now) else None
        if found is not None and found[0] != commands.LAST_LABEL:
            self._label, tau = found
            try:
                engine.forward(tau)
            finally:
                self._label = ''
            return
        if found is not None:
            self._begin_silence(was_stopping)
        if not was_stopping:
            engine.watch(0.0)

    def _fixes_publishers(self) -> bool:
        """Choose the publishers of joint states; return whether that was possible."""
        self.publishers.resolve()
        try:
            self.publishers.fix(self.publishers.choice(perf_counter()))
        except InputError as error:
            self._post('error', f'not forwarded: {error}')
            return False
        return True

    def _begin_silence(self, was_stopping: bool) -> None:
        """Begin the reaction to silence after the last command; another publisher may follow."""
        guard, timeout = self.engine.guard, self._timeout(SILENCE)
        # as if the last command had come one time-out before the reaction: SILENCE begins now
        guard.reset_timeout(SILENCE, guard.began - guard.clock() - timeout)
        self.source.end()
        if was_stopping:  # the present reaction goes on, so no change is reported
            self._post('warning', self._ended_text)

    def _timeout(self, cause: str) -> float:
        return float(self.engine.guard.settings.watchdogs[cause].timeout)

    def _is_of_the_source(self, gid: bytes, now: float) -> bool:
        """Return whether a command is of the chosen publisher; stop the arm if that is unclear."""
        engine = self.engine
        where = self.source.classify(gid, self.publisher_count(), now, self._timeout(SILENCE))
        if where == KNOWN:
            return True
        if where == NEW:
            self._take_publisher()
            return True
        if where == UNCLEAR and engine.acts:
            engine.guard.report_fault(OTHER_PUBLISHER, SEVERAL)
        if self.source.may_name_others(now):
            text = self.source.refusal(where, publishers(self._owner, self.topic))
            self._post('error', f'not forwarded: {text}')
        return False

    def _take_publisher(self) -> None:
        """Accept a new publisher, and hold the arm until its commands are forwarded."""
        engine = self.engine
        self.source.take_names(publishers(self._owner, self.topic))
        engine.check.forget()
        latches = engine.acts and engine.guard.settings.watchdogs[OTHER_PUBLISHER].latched
        self._post('info', f'accepts the commands of {gids(self.source.names)}'
                   + (': forwards them after a call of ~/forward' if latches else ''))
        if engine.acts and not engine.stops():
            engine.guard.report_fault(
                OTHER_PUBLISHER, f'commands come from {gids(self.source.names)} now')

    def _accepted(self, data: bytes, now: float) -> tuple[str, Array] | None:
        """Return label and torques (n,) of a command, base first; None if it is refused."""
        engine = self.engine
        try:
            try:
                message = deserialize_message(data, Float64MultiArray)
            except Exception as error:  # rclpy does not document the types of its errors
                raise InputError(f'command of {len(data)} bytes cannot be read: {error}') from None
            label = commands.label(message)
            if label == commands.LAST_LABEL and engine.acts:  # its torques are not used
                engine.check.forget()
                return label, NOTHING
            if label == commands.HOLD_LABEL and not engine.guard.is_stale:
                return None  # the controller has no states, but this node has
            time = commands.labelled_time(label)
            # Only differences between the times of two commands are used, so the clock of the
            # sender need not agree with ours. When the source of the time changes, the command
            # counts as late.
            tau = engine.check.torque(message.data, now if time is None else time,
                                      engine.guard.spacing)
        except InputError as error:
            engine.refused += 1
            engine.refusal = str(error)
            engine.guard.report_fault(NONSENSE, engine.refusal)
            self._post('error', f'not forwarded: {error}')
            return None
        command = np.empty(len(tau))
        command[self._output.order] = tau
        return label, command

    def _publish(self, tau: Array, stamp: Stamp | None) -> None:
        engine, found = self.engine, self._check.record
        label = self._label if engine.guard.source in FORWARDS else ''
        if stamp is None and not label and not engine.is_last:
            is_known = found.sec >= 0 and not (engine.guard.is_stale or engine.guard.doubts_clock)
            stamp = (found.sec, found.nanosec) if is_known else None
        if not label:
            super()._publish(tau, stamp)
        else:
            self._output.publish(tau, label)
