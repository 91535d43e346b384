# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Control loop of osc_controller in its own thread: joint states in, joint torques out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import current_thread, get_native_id, RLock, Thread
from time import perf_counter, sleep
from time import time as wall_time
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data, QoSProfile
from sensor_msgs.msg import JointState

from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.safety.answered import (
    answered_stamp,
    Answers,
    FORWARDED,
    is_sent,
    UNASKED,
    WATCH_PERIOD,
)
from osc_ros.control.safety.command_check import RELAYED
from osc_ros.control.safety.supervision import STALE_STATE, Supervision
from osc_ros.errors import InputError
from osc_ros.loop.cycle import Stamp
from osc_ros.loop.engine import Engine
from osc_ros.loop.rest_check import ENOUGH, STILL
from osc_ros.loop.statistics import call_handlers
from osc_ros.model.robot import Robot
from osc_ros.ros.dds.compiled_answers import CompiledAnswers
from osc_ros.ros.dds.inbox import hidden_node, Inbox
from osc_ros.ros.dds.rcl_calls import RclCalls
from osc_ros.ros.dds.serving import FAILED, LEFT, MORE_ENTRIES, UNREAD
from osc_ros.ros.dds.state_publishers import StatePublishers
from osc_ros.ros.messages import commands, messages
from osc_ros.ros.messages.publishers import publishers
from osc_ros.ros.messages.serialized_states import Reading
from osc_ros.ros.parameters.state_input import StateInput

Array = NDArray[np.float64]
Command = tuple[Array, Stamp | None, float, Array, Array]  # see `Loop.listener`
R = TypeVar('R')

# Periods at which the owner's thread handles events of the loop, and its commands if there is a
# listener [s]. With a longer period, a burst of commands would occupy the subscriber for longer.
POST_PERIOD, LISTEN_PERIOD = 0.02, 0.005
# With a simulated clock, or a `state_timeout` of at least this time, the loop answers the next
# state only after the targets are planned, so that the motion is the same in each run [s].
LOCKSTEP_TIMEOUT = 5.0
MOST_POSTED = 1000  # largest number of events in the queue
ATTEMPTS = 20  # number of attempts to read without a state in between
LONGEST_MARGIN = 0.02  # longest time ahead for which motions are planned [s]
AGED = 8  # the age of every AGED-th state is measured
NOT_COMPILED = -1  # instead of a reason of `CompiledAnswers.run`: Python answers the next state


class Loop:
    """Connection of an engine to the topics of joint states and of commands, in its own thread."""

    # Work of other threads does not delay a command: they do slow work first, and then use the
    # engine for some microseconds by `request`. A further thread plans the motions of the targets.

    def __init__(self, owner: Node, new_engine: Callable[..., Any], robot: Robot,
                 output: commands.CommandOutput, period: float, velocity: str,
                 states_from: Iterable[str], handlers: Mapping[str, Callable[..., None]],
                 *topics: tuple[type, str, QoSProfile]) -> None:
        # The executor of `owner` calls the handlers of events, within POST_PERIOD. `new_engine`
        # gets the last two arguments of `Engine`. For `velocity` and `states_from` see
        # `StateInput` and `StatePublishers`. `_take_others` takes the messages of further topics.
        self._period = period  # expected time between states [s]
        # A queue, because another thread must not call the owner's executor. Its length is
        # bounded, because the owner's thread may be blocked.
        self._posted: deque[tuple[str, Any]] = deque(maxlen=MOST_POSTED)
        self.engine = new_engine(self._publish, self._post)
        self._owner, self._output = owner, output
        self._reader = StateInput(robot, velocity, partial(self._post, 'velocity'),
                                  partial(self._post, 'unrelated'))
        self.publishers = StatePublishers(owner, robot.joint_names, states_from)  # under the lock
        guard, topic = self.engine.guard, self.publishers.topic
        guard.states = f'joint states on {topic}'
        guard.silence_reason = lambda: (
            self._reader.lack or self.publishers.silence(perf_counter())
            or f'is the driver running? ros2 topic hz {topic}')
        self._lock, self._handlers = RLock(), handlers
        self._depth = 0  # number of `_parked` contexts that this thread is in
        self.joints = tuple(robot.joint_names[i] for i in output.order)  # order of a command
        self._listener: Callable[..., None] | None = None
        self._sent: deque[Command] = deque(maxlen=MOST_POSTED)
        self._motion = np.zeros((2, robot.n))  # q, qd of the state that Python answers
        self._aged = 0  # number of states whose age may be measured
        self._came = 0.0  # time at which the newest message arrived; 0 before the first one
        self._inbox = Inbox(hidden_node(owner, 'loop'), (
            JointState, owner.resolve_topic_name('joint_states'), qos_profile_sensor_data),
            *topics)
        self._calls = RclCalls(self._inbox, output.publisher, len(self.joints), MORE_ENTRIES)
        self._compiled = CompiledAnswers(
            self._calls, output.order, period, self.engine.kernels, self._relayed())
        self._poster = owner.create_timer(POST_PERIOD, self.do_posted,
                                          clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._is_open = True
        self._threads = [Thread(target=self._spin, name='control loop', daemon=True),
                         Thread(target=self._plan, name='plans', daemon=True)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads of the loop, even if the arm moves."""
        self._owner.destroy_timer(self._poster)
        with self._lock:  # so that `_serve` does not begin after its check of `_is_open`
            self._is_open = False
            self._compiled.interrupt()
            self._compiled.wake()
        for thread in self._threads:
            thread.join()
        self._calls.close()
        self._inbox.node.destroy_node()

    def _relayed(self) -> Any:
        """Return the record of the commands of another controller."""
        return RELAYED.new(n=len(self.joints))

    @property
    def mode(self) -> str:
        """Mode of the engine."""
        return self.engine.mode

    @property
    def time(self) -> float:
        """Stamp of the newest valid state [s], including states that compiled code answered."""
        self._process_answers_meanwhile()
        return self.engine.time

    @property
    def q(self) -> Array:
        """Positions (n,) of the newest valid state; empty before the first one."""
        return self.engine.q

    @property
    def state_age(self) -> float:
        """Time since the newest valid state arrived [s]."""
        return self.engine.state_age

    @property
    def has_enough_states(self) -> bool:
        """Whether there are enough states for the start-up check, see `StartupStatistics`."""
        return self.engine.rest.is_enough

    @property
    def listener(self) -> Callable[..., None] | None:
        """Callback for each command, in the owner's thread within LISTEN_PERIOD, or None."""
        # Arguments: command (n,); stamp of the state that it answers, or None; time [s] on the
        # same clock; q, qd (n,) of that state, which mean nothing without a stamp. All in the
        # order of a command.
        return self._listener

    @listener.setter
    def listener(self, listener: Callable[..., None] | None) -> None:
        if (listener is None) != (self._listener is None):
            period = POST_PERIOD if listener is None else LISTEN_PERIOD
            self._poster.timer_period_ns = round(1e9 * period)
        self._listener = listener

    def request(self, what: Callable[..., R], *arguments: Any) -> R:
        """Call `what(engine, *arguments)` between two states; return its result, or raise."""
        with self._parked():
            return what(self.engine, *arguments)

    def read(self, what: Callable[..., R], *arguments: Any) -> R:
        """Call `what(engine, *arguments)`, which only reads; return its result, or raise."""
        # The loop continues. If it answered a state during the call, the result may be
        # inconsistent, and the call is repeated; after ATTEMPTS calls, `request` makes it.
        self._process_answers_meanwhile()
        for _ in range(ATTEMPTS):
            with self._lock:
                steps, failure = self._compiled.steps, None
                try:
                    found = what(self.engine, *arguments)
                except Exception as error:  # any error, from inconsistent numbers
                    failure = error
                if 0 <= steps == self._compiled.steps:
                    if failure is not None:
                        raise failure
                    return found
        return self.request(what, *arguments)

    def _process_answers_meanwhile(self) -> None:
        """Call `_process_answers` while compiled code may be answering another state."""
        with self._lock:
            errors = self._process_answers()
        if errors:
            self.request(lambda engine: self._fail_after(errors))

    @contextmanager
    def _parked(self) -> Iterator[None]:
        """Return a context in which no state is answered, and this thread may use the engine."""
        kept = self.engine.setups  # until a state is answered again: freeing one takes 3 ms
        with self._lock, ExitStack() as stack:
            errors: list[str] = []
            if self._depth == 0:
                # before, because in the context a state may have to wait
                stack.enter_context(self._compiled.held(
                    lambda: errors.extend(self._process_answers())))
                stack.callback(self._end_parked)
            self._depth += 1
            try:
                self._fail_after([*errors, *self._process_answers()])
                yield
            finally:
                self._depth -= 1
        del kept

    def _end_parked(self) -> None:
        """Let compiled code go on with the next state as the engine is now."""
        self._compiled.use(self._controller(), self.engine.guard.settings.deadline)

    def _controller(self) -> Any:
        """Return the record with which compiled code computes the next torques."""
        # None while the engine is idle, or before a state with all joints: Python handles the
        # states.
        return (self.engine.controller() if self._reader.reader.knows_names
                and self.publishers.is_single else None)

    def activate(self, missing: Array | None = None) -> None:
        """Hold the pose of the newest state (`Engine.activate`); fix each joint's publisher."""
        # For the errors see also `StatePublishers.choice`.
        self.publishers.resolve()
        with self._parked():
            chosen = self.publishers.choice(perf_counter())
            self.engine.activate(missing)
            self.publishers.fix(chosen)

    @property
    def is_simulated(self) -> bool:
        """Whether `use_sim_time` is set, or the node that sends the states sends /clock, too."""
        clock = self._owner.resolve_topic_name('/clock')
        with self._lock:
            names = self.publishers.used_nodes()
        return self._owner.get_clock().ros_time_is_active or bool(names) and names <= set(
            publishers(self._owner, clock).values())

    def require_publishers(self) -> None:
        """Raise InputError unless each joint has one publisher, see `StatePublishers.choice`."""
        self.publishers.resolve()
        with self._lock:
            self.publishers.choice(perf_counter())

    def publisher_names(self, wanted: Iterable[str]) -> tuple[str, str, int]:
        """Return publishers of used and of ignored states, and the number of ignored states."""
        # `wanted` is the value of the parameter `state_publishers.FROM`.
        self.publishers.resolve()
        with self._lock:
            self.publishers.wanted = tuple(wanted)
            return (self.publishers.used_names(), self.publishers.ignored_names(perf_counter()),
                    int(self.publishers.known.ignored[0]))

    def replace_ended_publishers(self) -> str:
        """Replace publishers of states that have ended; return the new names, or ''."""
        # For errors see `StatePublishers.choice`.
        self.publishers.resolve()
        with self._parked():
            return self.publishers.replace_ended(
                perf_counter(), self.engine.guard.settings.watchdogs[STALE_STATE].timeout)

    def use_setup(self, setup: CompiledLaw, supervision: Supervision) -> bool:
        """See `Engine.use_setup`."""
        return self.request(Engine.use_setup, setup, supervision)

    def set_velocity_source(self, mode: str) -> None:
        """Set the source of the velocities; see `StateInput`."""
        with self._parked():
            self._reader.mode = mode

    @property
    def required(self) -> str:
        """Required content of a joint state, for messages."""
        return (f"positions of {', '.join(self._reader.reader.names)}"
                + (', and velocities' if self._reader.mode == 'measured' else ''))

    @property
    def velocity_used(self) -> str:
        """Source of the velocities in use."""
        return self._reader.used

    @property
    def refusal(self) -> str:
        """Reason why the last joint states were not used; empty if there is none."""
        return self._reader.lack or self.engine.counts.refusal

    def lack_of_states(self) -> str:
        """Return the reason why no valid joint states arrive."""
        topic = self._owner.resolve_topic_name('joint_states')
        if self.refusal:
            return self.refusal
        if lack := self.publishers.lack():
            return lack
        if self._came > 0.0:
            return (f"the newest of '{topic}' came {perf_counter() - self._came:.1f} s ago" + (
                '' if self.has_enough_states else
                f': waiting until {ENOUGH} of them differ by less than {STILL:g} rad or m'))
        count = self._owner.count_publishers(topic)
        return f"'{topic}' has {count} publishers" + (
            ", but nothing arrives from them; if a node was killed before: see 'After a kill' in "
            'doc/relay.md' if count else '')

    def do_posted(self) -> None:
        """Call the handlers of events in order, then the listener; in the owner's thread."""
        self._process_answers_meanwhile()
        self._renew()
        call_handlers([self._posted.popleft() for _ in range(len(self._posted))], self._handlers)
        for _ in range(len(self._sent)):
            command = self._sent.popleft()
            if self._listener is not None:
                self._listener(*command)

    def _renew(self) -> None:
        """Begin a new segment of the journal if it is due."""
        with self._lock:
            if (journal := self.engine.journal) is not None and journal.is_due:
                journal.prepare()
                with self._parked():
                    dropped = journal.renew_if_due()
                del dropped

    def _post(self, event: str, *arguments: Any) -> None:
        """Queue an event for the owner's thread."""
        self._posted.append((event, arguments))

    def _spin(self) -> None:
        """Pass each state to the engine when it comes; regularly let it check the watchdogs."""
        _show_name()
        watch_period, watched = min(WATCH_PERIOD, self._period), perf_counter()
        watch_at = watched + watch_period
        with self._inbox.opened():
            while self._is_open and self._owner.context.ok():
                why = self._serve(watch_at)
                data = None
                if why == NOT_COMPILED:
                    self._inbox.wait(watch_at - perf_counter())
                    data = self._calls.take()
                elif why == UNREAD:
                    data = self._calls.message()
                if data is not None:
                    self._came = perf_counter()
                    self._call(self._on_joint_states, data, self._calls.gid)
                self._take_others(why)
                if data is not None or why != NOT_COMPILED:
                    if self.engine.state_age < watch_period:  # the next state may come in time
                        watch_at = min(watched + WATCH_PERIOD,
                                       perf_counter() + 2.0 * watch_period)
                now = perf_counter()
                if why == LEFT:  # compiled code has just checked for a reaction
                    watched, watch_at = now, now + watch_period
                if now >= watch_at:
                    self._call(self.engine.watch, WATCH_PERIOD)
                    watched, watch_at = now, now + watch_period

    def _take_others(self, why: int) -> None:
        """Handle messages of further topics, for the reason `why` for which Python has work."""

    def _serve(self, until: float) -> int:
        """Answer states in compiled code until Python has work; see `CompiledAnswers.run`."""
        compiled = self._compiled
        with self._lock:
            self._fail_after(self._process_answers())
            if self.engine.asks:
                self._call(self.engine.plan)
            compiled.begin(self._controller() if self._is_open else None,
                           self.engine.guard.settings.deadline, self._pauses)
            if compiled.controller is None:
                return NOT_COMPILED
        error = 'a function of rcl has failed'
        try:
            why = compiled.run(Reading(*self._reader.reader.arrays, self._reader.record),
                               self.publishers.known, until)
        except Exception as failure:  # any error: the commands must not stop
            why, error = FAILED, f'{type(failure).__name__}: {failure}'
        with self._lock:
            self._fail_after(self._process_answers())
        if why == FAILED and self._owner.context.ok():
            self._call(self.engine.fail, error)
            sleep(WATCH_PERIOD)  # it may fail again at once
        return why

    @property
    def _pauses(self) -> bool:
        """Whether states wait for plans, because a simulation may be faster than real time."""
        stale = self.engine.guard.settings.watchdogs[STALE_STATE]
        return (stale.timeout >= LOCKSTEP_TIMEOUT
                or bool(self._owner.get_clock().ros_time_is_active))

    def _plan(self) -> None:
        """Plan motions when compiled code requests it; states are answered meanwhile."""
        _show_name()
        took = 0.001  # time of the last plans [s]
        while True:
            self._compiled.wait_for_wake()
            if not self._is_open:
                return
            began = perf_counter()
            try:
                margin = min(2.0 * took, LONGEST_MARGIN)
                while (drafts := self.request(Engine.begin_plans, margin)) is None:
                    began = perf_counter()
                for draft in drafts:
                    draft.make()
                if drafts:
                    self.request(Engine.put_plans)
                    took = max(0.9 * took, perf_counter() - began)
            except Exception as error:  # any error: later plans must be made
                self._post('error', f'control loop: {type(error).__name__}: {error}')

    def _process_answers(self) -> list[str]:
        """Process the answers of compiled code in Python, under the lock; return error texts."""
        errors: list[str] = []
        if (answers := self._compiled.take_answers()) is None:
            return errors
        for done, is_plain in answers.groups(self.engine.guard.settings.deadline):
            try:
                self._process_group(done, is_plain)
            except Exception as error:  # any error: the commands must not stop
                errors.append(f'{type(error).__name__}: {error}')
        return errors

    def _fail_after(self, errors: list[str]) -> None:
        """Send a safe torque after each error; compiled code must not be answering."""
        for error in errors:
            self.engine.fail(error)

    def _process_group(self, done: Answers, is_plain: bool) -> None:
        times, arrived = done.time.tolist(), done.arrived.tolist()
        if not np.isin(done.code, (UNASKED, FORWARDED)).all():
            self._came, self._reader.lack = arrived[-1], ''
        if self.engine.conclude(done, is_plain):
            for time, since in zip(times, arrived):
                self._add_age(time, perf_counter() - since)
        if self._listener is not None:
            order = self._output.order
            for one in done:
                if is_sent(one):
                    self._sent.append((one.tau[order], answered_stamp(one),
                                       one.accepted + one.done - one.arrived,
                                       one.q[order], one.qd[order]))

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call a function under the lock; send a safe torque if it raises."""
        with self._lock:
            try:
                callback(*arguments)
            except Exception as error:  # any error: the commands must not stop
                self.engine.fail(f'{type(error).__name__}: {error}')

    def _on_joint_states(self, data: bytes, gid: bytes) -> None:
        arrived, engine, states = perf_counter(), self.engine, self._reader.reader
        if not engine.acts:
            self.publishers.free()
        row = self.publishers.note(gid, arrived)
        try:
            state = self._reader.read(data, partial(self.publishers.used_joints, row))
        except InputError as error:
            if self.publishers.uses(row):
                engine.refuse(str(error), states.has_joints)
            return
        if state is None:
            return
        time, q, qd = state
        self._motion[:] = q, qd
        efforts = states.efforts()
        acted = engine.acts
        if not acted:  # before the update: another thread checks whether there are enough states
            engine.rest.add(q, efforts)
        if not engine.update(time, q, qd, states.stamp, arrived, efforts):
            self._reader.reject()
        elif acted:
            self._add_age(time, perf_counter() - arrived)

    def _add_age(self, time: float, since: float) -> None:
        """Record the age of every AGED-th state, which arrived `since` [s] ago."""
        self._aged += 1
        if self._aged % AGED == 0 and not self._owner.get_clock().ros_time_is_active:
            self.engine.counts.ages.add(wall_time() - since - time)

    def _publish(self, tau: Array, stamp: Stamp | None) -> None:
        """Publish torques (n,), base first; `stamp` is that of the state they answer, or None."""
        label = (messages.stamp_label(stamp) if stamp is not None else
                 commands.LAST_LABEL if self.engine.is_last else commands.HOLD_LABEL)
        self._output.publish(tau, label)
        if self._listener is not None:
            order = self._output.order
            self._sent.append((tau[order], stamp, self.engine.time + self.engine.state_age,
                               *self._motion[:, order]))


def _show_name() -> None:
    """Set the name of the thread also in the operating system, for programs such as top."""
    with suppress(OSError):
        Path(f'/proc/self/task/{get_native_id()}/comm').write_text(current_thread().name)
