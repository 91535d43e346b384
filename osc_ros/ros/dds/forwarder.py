# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Loop of osc_relay in its own thread: joint states and commands in, commands out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, ExitStack, suppress
from functools import partial
from threading import RLock, Thread
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.compile.addresses import entry_of
from osc_ros.control.safety.command_check import CommandCheck
from osc_ros.control.safety.safety import answer
from osc_ros.control.safety.supervision import STALE_STATE
from osc_ros.control.safety.supervisor import Supervisor
from osc_ros.errors import InputError
from osc_ros.ros.dds.forwarding import (
    ANSWER,
    CHANGED,
    COMMAND,
    COUNTERS,
    Expected,
    FAILED,
    forward,
    FORWARDED,
    GIVEN_UP,
    Guarded,
    LABELLED,
    LEAVE,
    NEWEST_NANOSEC,
    NEWEST_SEC,
    OWN,
    REJECTED,
    STATE,
)
from osc_ros.ros.dds.inbox import hidden_node, Inbox
from osc_ros.ros.dds.rcl_calls import RclCalls
from osc_ros.ros.dds.rcl_plan import LENGTH
from osc_ros.ros.dds.state_publishers import StatePublishers
from osc_ros.ros.messages import commands, messages
from osc_ros.ros.messages.publishers import (
    gids,
    KNOWN,
    NEW,
    publishers,
    SEVERAL,
    Source,
    UNCLEAR,
    UNKNOWN_GID,
)
from osc_ros.ros.messages.serialized_states import Reading
from osc_ros.ros.parameters.state_input import StateInput

Array = NDArray[np.float64]

# depth > 1, so that a command of one publisher does not displace a command of another one
INPUT_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.RELIABLE)
OF_COMMANDS = SILENCE, NONSENSE, OTHER_PUBLISHER = 'silence', 'nonsense', 'other_publisher'
WATCH_PERIOD = 0.005  # longest time between two checks for a reaction [s]
MOST_POSTED = 1000  # largest number of events in the queue for the log
TIMED = 10_000  # number of commands whose times are kept
STATES, COMMANDS = range(2)  # indices of the inbox's topics
WAITED = -1  # returned instead of a reason of `forward` if Python waited for the messages


class Parts(NamedTuple):
    """Objects of the loop that depend on the robot."""

    guard: Supervisor
    states: StateInput
    publishers: StatePublishers
    check: CommandCheck
    output: commands.CommandOutput


class Forwarder:
    """
    Forwards the torque commands of one publisher; stops the arm if commands are missing or wrong.

    It has its own model of the robot to stop the arm. It sends nothing before the first good
    command after a good joint state. From then on it always sends commands, because the hardware
    would keep applying the last torque. The compiled function `forward` handles plain states and
    the chosen publisher's commands; it leaves all other messages to Python. Other threads may use
    the attributes only within `parked`. `rate` is the expected rate of the commands [Hz].

    Attributes
    ----------
    parts : Parts, optional
        None before there is a robot.
    source : Source
        Choice of the publisher whose commands are forwarded.
    has_command : bool
        Whether a good command has come, so that the loop sends commands.
    refused : int
        Number of refused commands.
    refusal : str
        Reason of the last refusal.
    is_open : bool
        Whether the loop runs.
    posted : deque of (str, tuple)
        Events for the log, which the owner's thread writes, so that the log delays no torque:
        'change', with the arguments of `ReactionLog.change`, and 'error', 'warning' or 'info'
        (text).

    """

    def __init__(self, owner: Node, rate: float) -> None:
        self._owner = owner
        self.posted: deque[tuple[str, Any]] = deque(maxlen=MOST_POSTED)
        self.parts: Parts | None = None
        self.source = Source()
        self.has_command = self._gave_up = False
        self.refused, self.refusal = 0, ''
        # label of the newest state; number of nested `parked` contexts
        self._label, self._depth, self._lock = '', 0, RLock()
        self._times = np.array([0.0, min(WATCH_PERIOD, 1.0 / rate)])
        self._took = np.full(TIMED, np.nan)
        self._shared = np.zeros(len(COUNTERS), dtype=np.int64)
        self._arrays: tuple[Guarded, Expected] | None = None
        self._calls: RclCalls | None = None
        self._inbox = Inbox(hidden_node(owner, 'loop'), (
            JointState, owner.resolve_topic_name('joint_states'), qos_profile_sensor_data),
            (Float64MultiArray, self.topic, INPUT_QOS))
        self.is_open = True
        self._thread = Thread(target=self._spin, name='relay loop', daemon=True)
        self._thread.start()

    def use_parts(self, parts: Parts) -> None:
        """Use the parts of a robot from now on."""
        n = len(parts.output.order)
        calls = self._new_calls(parts.output)
        guard = parts.guard
        topic = parts.publishers.topic
        parts.guard.states = f'joint states on {topic}'
        parts.guard.silence_reason = lambda: (
            parts.states.lack or parts.publishers.silence(perf_counter())
            or f'is the driver running? ros2 topic hz {topic}')
        names = list(parts.guard.settings.watchdogs)
        with self.parked():
            self._wanted, self.parts, self._calls = np.zeros(n), parts, calls
            self._arrays = Guarded(guard.m, guard.d), Expected(
                self.source.gid, self.source.heard, parts.check.bounds, parts.check.memory,
                np.array(parts.output.order, dtype=np.int64),
                np.array([*map(names.index, OF_COMMANDS)]))

    def _new_calls(self, output: commands.CommandOutput) -> RclCalls | None:
        try:
            calls = RclCalls(self._inbox, output.publisher, len(output.order), 3)
        except (OSError, AttributeError) as error:
            self.post('warning', 'commands are forwarded by Python, and not in compiled code, '
                       f'and only while there is one publisher of them: {error}')
            return None
        calls.plan[ANSWER:] = entry_of(answer), *calls.labelled_command(commands.HOLD_LABEL)
        return calls

    def close(self) -> None:
        """End the thread of the loop, even if the arm moves."""
        with self.parked():
            self.is_open = False
        self._thread.join()
        if self._calls is not None:
            self._calls.close()
        self._inbox.node.destroy_node()

    @contextmanager
    def parked(self) -> Iterator[None]:
        """Return a context in which the loop is idle, so that this thread may use its records."""
        with self._lock, ExitStack() as stack:
            if self._calls is not None and self._depth == 0:
                self._shared[LEAVE] = 1
                self._calls.wake()
                stack.enter_context(self._calls.held())
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @property
    def topic(self) -> str:
        """Topic of the commands that are forwarded."""
        return str(self._owner.resolve_topic_name('osc_controller/commands'))

    @property
    def forwarded(self) -> int:
        """Number of forwarded commands."""
        return int(self._shared[FORWARDED])

    @property
    def reaction_count(self) -> int:
        """Number of published torques of reactions."""
        return int(self._shared[OWN])

    @property
    def has_ended(self) -> bool:
        """Whether the loop stops the arm because the controller has sent its last command."""
        return self.source.has_ended and self._guard.cause == SILENCE

    def state(self) -> str:
        """Return a text on the state of the loop; call this within `parked`."""
        if self.parts is None:
            return 'waits for a robot description'
        if not self.has_command:
            return 'waits for a joint state and a command'
        return self._ended_text if self.has_ended else self._guard.acting().text(
            'forwards', '~/forward forwards')

    @property
    def _ended_text(self) -> str:
        return f'the last command of {gids(self.source.names)} has come: {self._guard.reaction}'

    def release(self) -> bool:
        """
        Release latched causes; return whether no reaction remains. Call this within `parked`.

        If the supervisor has given up control of the arm, the loop sends no commands before a new
        joint state and command.

        """
        if self.parts is None or not self.has_command:
            return False
        self.note_change()
        if names := self.parts.publishers.replace_ended(
                perf_counter(), self._guard.settings.watchdogs[STALE_STATE].timeout):
            self.post('warning', f'uses the joint states of {names} from now on')
        guard, self.has_command = self._guard, not self._guard.runaway
        guard.release()
        if not self.has_command:
            guard.begin(guard.answer_torque)
            self.parts.check.forget()
            self._label = ''
        return not guard.reaction

    @property
    def heard(self) -> float:
        """Time of the last good command [s]."""
        return self._guard.last_feed(SILENCE) if self.has_command else -np.inf

    def publisher_count(self) -> int:
        """Return the number of matched publishers of commands."""
        handle = self._inbox.subscriptions[COMMANDS]
        with handle:
            return int(handle.get_publisher_count())

    def latencies(self) -> Array:
        """Return the times (k,) from arrival to publication of the newest commands [s]."""
        return self._took[:self.forwarded].copy()

    def send_last(self) -> None:
        """Publish the gravity torques as the last command; call this only if `has_command`."""
        self._publish(self._guard.idle_torque(), commands.LAST_LABEL)

    @property
    def _guard(self) -> Supervisor:
        assert self.parts is not None
        return self.parts.guard

    def on_change(self) -> None:
        """Post a change of the reaction or its cause; the `Supervisor` calls this."""
        found = (self._guard.cause, self._guard.reaction) if self.has_command else ('', '')
        self.posted.append(('change', (*found, self.state(), not self.has_ended)))

    def note_change(self) -> None:
        """
        Post a change of the reaction that compiled code has found.

        Call this often, and before Python changes the reaction.

        """
        if self._shared[CHANGED]:
            with self.parked():
                self._shared[CHANGED], guard = 0, self._guard
                if guard.cause == SILENCE and guard.last_feed(SILENCE) < guard.began:
                    guard.report_fault(SILENCE, guard.reason)  # keeps the text of the reason
                self.on_change()

    def post(self, level: str, text: str) -> None:
        """Post a text for the log: 'error', 'warning' or 'info'."""
        self.posted.append((level, (text,)))

    # the thread

    def _spin(self) -> None:
        with self._inbox.opened():
            while self.is_open and self._owner.context.ok():
                try:
                    why = self._pass()
                    with self._lock:
                        self._handle(why)
                except Exception as error:  # any error: the commands must not stop
                    with self._lock, suppress(Exception):
                        self._fail(f'{type(error).__name__}: {error}')
                        self._watch()
                    sleep(self._times[1])

    def _pass(self) -> int:
        """
        Wait for messages and, if possible, forward them in compiled code.

        Returns the reason for which compiled code has returned, or WAITED.

        """
        with self._lock:
            calls, arrays, is_plain = self._calls, self._arrays, self._is_plain()
            self._shared[LEAVE], self._shared[NEWEST_SEC] = not self.is_open, -1
        if calls is None or arrays is None or not is_plain:
            self._inbox.wait(self._times[0] - perf_counter())
            return WAITED
        assert self.parts is not None
        states = self.parts.states
        try:
            with calls.publisher_kept():
                return int(forward(calls.plan, Reading(*states.reader.arrays, states.record),
                                   self.parts.publishers.known, *arrays, self._shared, self._took,
                                   self._times))
        except Exception as error:  # any error: the commands must not stop
            self.post('error', f'{type(error).__name__}: {error}')
            return FAILED

    def _is_plain(self) -> bool:
        """Return whether compiled code can handle the next messages."""
        return (self.has_command and self.parts is not None and self.source.has_one
                and bool(self.source.gid.any()) and self.parts.states.reader.knows_names
                and self.parts.publishers.is_single and not self._gave_up)

    def _handle(self, why: int) -> None:
        """Handle the reason for which `_pass` returned."""
        self.note_change()
        seconds, nanoseconds = self._shared[[NEWEST_SEC, NEWEST_NANOSEC]].tolist()
        if seconds >= 0 and self.has_command:
            self._label = messages.stamp_label((seconds, nanoseconds))
        if why == WAITED:
            self._take()
        elif why == STATE:
            self._on_state(self._message(STATES), self._gid)
        elif why == COMMAND:
            self._on_command(self._message(COMMANDS), self._gid)
        elif why == REJECTED:
            if self._guard.doubts_clock:
                self._label = commands.HOLD_LABEL
            self._guard.explain()
            self._react()
        elif why == LABELLED:
            self._prepare(self._label)
            self._react()
        elif why == GIVEN_UP and self.has_command:
            self._send(self._label)
        elif why == FAILED and self._owner.context.ok():
            self._arrays = None
            self._fail('a function of rcl has failed; from now on Python forwards the commands')
        if perf_counter() >= self._times[0]:
            self._times[0] = perf_counter() + self._times[1]
            self._watch()

    def _take(self) -> None:
        if (data := self._take_message(STATES)) is not None:
            self._on_state(data, self._gid)
        if (data := self._take_message(COMMANDS)) is not None:
            self._on_command(data, self._gid)

    def _take_message(self, topic: int) -> bytes | None:
        return self._inbox.take(topic) if self._calls is None else self._calls.take(topic)

    def _message(self, topic: int) -> bytes:
        """Return the message that compiled code has taken."""
        assert self._calls is not None
        return self._calls.message(topic)

    @property
    def _gid(self) -> bytes:
        """GID of the publisher of the last message; empty if it is unknown."""
        found = b'' if self._calls is None else self._calls.gid
        return found if any(found) else b''

    def _fail(self, text: str) -> None:
        self.post('error', text)
        if self.parts is not None:
            self._guard.report_fault(NONSENSE, text)

    # states and commands, in Python

    def _on_state(self, data: bytes, gid: bytes) -> None:
        if self.parts is None:
            return
        states, known = self.parts.states, self.parts.publishers
        if not self.has_command:
            known.free()
        row = known.note(gid or UNKNOWN_GID, perf_counter())
        try:
            state = states.read(data, partial(known.used_joints, row))
        except InputError as error:
            if known.uses(row):
                self.post('error', f'joint state refused: {error}')
            return
        if state is None:
            return
        self._label = messages.stamp_label(states.reader.stamp)
        if not self._guard.accept_state(*state):
            states.reject()
            if self._guard.doubts_clock:  # the torques may be for the pose before a clock jump
                self._label = commands.HOLD_LABEL
        self._react()

    def _stops(self) -> bool:
        """
        Update the reaction of the watchdogs; return whether a reaction is in force.

        After a fault of the commands, such as a bad command, the reaction lasts until a
        good command comes.

        """
        guard = self._guard
        if guard.cause in OF_COMMANDS and guard.last_feed(SILENCE) < guard.began:
            guard.report_fault(guard.cause, guard.reason)
        return guard.watch()

    def _react(self) -> None:
        """After a joint state: publish the torques of the reaction, if one is in force."""
        if self.has_command and self._stops():
            self._send(self._label)

    def _on_command(self, data: bytes, gid: bytes) -> None:
        started = perf_counter()
        if self.parts is None or not self._label:
            self.post('warning', 'commands are not forwarded before there is '
                       + ('a robot' if self.parts is None else 'a good joint state'))
            return
        was_stopping = self.has_command and self._stops()
        if was_stopping and self._guard.last_feed(SILENCE) < self._guard.began:
            self.parts.check.forget()  # the arm has the torques of the reaction, not commands
        if not self.has_command and not self._fixes_publishers(self.parts.publishers):
            return
        label = (self._accept_command(data, started)
                 if self._is_of_the_source(gid, started) else None)
        if label is None and not (self.has_command and self._stops()):
            return
        is_last = label == commands.LAST_LABEL
        if is_last:
            self._begin_silence(was_stopping)
        if not (was_stopping and self._stops()):
            place = self.forwarded % TIMED
            self._send(self._label if label is None or is_last else label)
            self._took[place] = perf_counter() - started

    def _fixes_publishers(self, known: StatePublishers) -> bool:
        """Choose the publishers of joint states; return whether that was possible."""
        known.resolve()
        try:
            known.fix(known.choice(perf_counter()))
        except InputError as error:
            self.post('error', f'not forwarded: {error}')
            return False
        return True

    def _begin_silence(self, was_stopping: bool) -> None:
        """
        Begin the reaction to silence, because the publisher has sent its last command.

        From now on another publisher may be chosen.

        """
        guard, timeout = self._guard, self._guard.settings.watchdogs[SILENCE].timeout
        # set the last command to a time-out before the reaction began, so that SILENCE begins now
        guard.reset_timeout(SILENCE, guard.began - guard.clock() - timeout)
        self.source.end()
        if was_stopping:  # the present reaction goes on, so no change is reported
            self.post('warning', self._ended_text)

    def _is_of_the_source(self, gid: bytes, now: float) -> bool:
        """Return whether a command is of the chosen publisher; stop the arm if that is unclear."""
        where = self.source.classify(gid, self.publisher_count(), now,
                                     self._guard.settings.watchdogs[SILENCE].timeout)
        if where == KNOWN:
            return True
        if where == NEW:
            self._take_publisher()
            return True
        if where == UNCLEAR and self.has_command:
            self._guard.report_fault(OTHER_PUBLISHER, SEVERAL)
        if self.source.may_name_others(now):
            text = self.source.refusal(where, publishers(self._owner, self.topic))
            self.post('error', f'not forwarded: {text}')
        return False

    def _take_publisher(self) -> None:
        """Accept a new publisher, and hold the arm until its commands are forwarded."""
        assert self.parts is not None
        self.source.take_names(publishers(self._owner, self.topic))
        self.parts.check.forget()
        latches = self.has_command and self._guard.settings.watchdogs[OTHER_PUBLISHER].latched
        self.post('info', f'accepts the commands of {gids(self.source.names)}'
                  + (': forwards them after a call of ~/forward' if latches else ''))
        if self.has_command and not self._stops():
            self._guard.report_fault(
                OTHER_PUBLISHER, f'commands come from {gids(self.source.names)} now')

    def _accept_command(self, data: bytes, now: float) -> str | None:
        """Check a command; if it is good, store its torques and return its label, else None."""
        assert self.parts is not None
        try:
            try:
                message = deserialize_message(data, Float64MultiArray)
            except Exception as error:  # rclpy does not document the types of its errors
                raise InputError(f'command of {len(data)} bytes cannot be read: {error}') from None
            label = commands.label(message)
            if label == commands.LAST_LABEL and self.has_command:  # its torques are not used
                self.parts.check.forget()
                return label
            if label == commands.HOLD_LABEL and not self._guard.is_stale:
                return None  # the controller has no states, but this node has
            time = commands.labelled_time(label)
            # Only differences between the times of two commands are used, so the clock of the
            # sender need not agree with ours. When the source of the time changes, the command
            # counts as late.
            tau = self.parts.check.torque(message.data, now if time is None else time,
                                          self._guard.spacing)
        except InputError as error:
            self.refused += 1
            self.refusal = str(error)
            self._guard.report_fault(NONSENSE, self.refusal)
            self.post('error', f'not forwarded: {error}')
            return None
        self._guard.reset_timeout(SILENCE)
        self._wanted[self.parts.output.order] = tau
        self.has_command = True
        if time is not None:
            self._prepare(label)
        return label

    def _prepare(self, label: str) -> None:
        """Prepare compiled code for commands whose labels are as long as this label."""
        if self._calls is not None and len(label) != self._calls.plan[LENGTH]:
            self._calls.prepare(len(label))

    def _send(self, label: str) -> None:
        if self._gave_up and self._guard.runaway:
            return
        tau = self._guard.torque(lambda: self._wanted)
        self._gave_up = bool(self._guard.runaway)
        if self._gave_up:  # the last command until `release`
            tau, label = self._guard.idle_torque(), commands.LAST_LABEL
        self._publish(tau, label)
        self._shared[OWN if self._guard.reaction else FORWARDED] += 1

    def _publish(self, tau: Array, label: str) -> None:
        assert self.parts is not None
        self.parts.output.publish(tau, label)

    def _watch(self) -> None:
        """Update the reaction; publish its torques if it has just begun or no states arrive."""
        if not self.has_command:
            return
        was_stopping = bool(self._guard.reaction)
        if not self.source.has_one:
            self._guard.report_fault(OTHER_PUBLISHER, SEVERAL)
        if self._stops() and (self._guard.is_stale or not was_stopping):
            self._send(commands.HOLD_LABEL if self._guard.is_stale else self._label)
