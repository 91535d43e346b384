# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""The control loop: joint states in, joint torques out, in a thread of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from threading import RLock, Thread
from time import perf_counter
from time import time as wall_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from osc_ros.control.check import Rest
from osc_ros.control.law import Law
from osc_ros.control.supervisor import CLOCK_STEPS, NOT_FINITE, Supervisor
from osc_ros.errors import InputError, OscError
from osc_ros.nodes import commands, messages
from osc_ros.nodes.run import EventsExecutor
from osc_ros.nodes.states import StateInput
from osc_ros.nodes.statistics import Window

Array = NDArray[np.float64]

IDLE, ACTIVE, ENDING = 'idle', 'active', 'ending'
POST_PERIOD = 0.005  # period of the owner's thread for running queued calls [s]
MOST_POSTED = 1000  # length of the queue of these calls
OLDEST = 1.0  # largest median age of states; if larger, the stamps are of another clock [s]
AGED = 8  # the age of every AGED-th state is measured
WATCH_PERIOD = 0.01  # longest wall time between checks of the state's age [s]


class Output(NamedTuple):
    """
    Publisher of the commands, and the order of their entries.

    Attributes
    ----------
    publisher : Publisher
    order : (n,) int
        For each entry of a command, the index of its joint in the robot.

    """

    publisher: Publisher
    order: NDArray[np.intp]


class Callbacks(NamedTuple):
    """
    Functions that the loop calls.

    Attributes
    ----------
    watch : callable
        Called in the loop's thread at least every WATCH_PERIOD, before the supervisor's checks.
    report : callable
        Called in the owner's thread with (stamp, pose, error, F) every `report_period`.
    stopped : callable
        Called in the owner's thread when the arm has stopped and the idle command was sent.

    """

    watch: Callable[[], None]
    report: Callable[..., None]
    stopped: Callable[[], None]


class Loop:
    """
    Computes torques from joint states by a law; a supervisor checks them.

    The loop has its own thread, in which an executor spins the loop's own node. So work of other
    threads, such as parsing a message or building a model, does not delay a command. Other threads
    use the law, the supervisor and `mode` only while they hold `lock`, for some microseconds; they
    do all slow work before they take the lock.

    In the modes ACTIVE and ENDING the loop sends a command for each state. When the arm is at rest
    in mode ENDING, the loop sends the idle command as the last one, and the mode becomes IDLE.

    Attributes
    ----------
    lock : RLock
    mode : str
        IDLE, ACTIVE or ENDING.
    time, stamp : float [s], Time
        Stamp of the newest valid state.
    q, qd : (n,)
        Positions and velocities of that state; empty before the first one.
    rest : Rest
        States and efforts while idle, for the start-up check.
    updates, periods : Window
        Times from state to command, and between states [s].
    missed, refused : int
        Number of states that did not arrive in time, and of refused states.
    refusal : str
        Reason of the last refusal of a state.
    torque_use : (n,) or float
        Largest torques so far, relative to the effort limits.
    joints : tuple of n str
        Names of the joints in the order of a command.
    listener : callable or None
        Called in the owner's thread with (time, command (n,)) for each command, within
        POST_PERIOD. The time is the stamp of the state; for a command that was not computed from
        a state, it is in seconds on the same clock.

    Parameters
    ----------
    owner : Node
        Node whose name, context and clock the loop uses; its executor runs queued calls.
    law : Law
    guard : Supervisor
    reader : StateInput
    output : Output
    period : float
        Expected time between states [s].
    on_timer : bool
        Whether a timer computes a command every period from the newest state, rather than every
        state when it arrives.
    callbacks : Callbacks

    """

    def __init__(self, owner: Node, law: Law, guard: Supervisor, reader: StateInput,
                 output: Output, period: float, on_timer: bool, callbacks: Callbacks) -> None:
        self.law, self.guard, self.reader = law, guard, reader
        self.lock, self.mode, self.rest = RLock(), IDLE, Rest()
        self.q = self.qd = np.zeros(0)
        self.time, self.stamp, self.report_period = 0.0, None, np.inf
        self._owner, self._output, self._callbacks = owner, output, callbacks
        self._command = commands.Command(law.robot.n)
        self.joints = tuple(law.robot.joint_names[i] for i in output.order)
        self.listener: Callable[[Any, Array], None] | None = None
        self._sent: deque[tuple[Any, Array]] = deque(maxlen=MOST_POSTED)
        self._period, self._on_timer = period, on_timer
        self._last_good, self._is_new = -np.inf, False
        # a queue, because the owner's executor must not be called from another thread; of bounded
        # length, in case the owner's thread is blocked
        self._posted: deque[tuple[Callable[..., None], Any]] = deque(maxlen=MOST_POSTED)
        self.reset_counts()
        self._node = Node(
            f'_{owner.get_name()}_loop', namespace=owner.get_namespace(), context=owner.context,
            use_global_arguments=False, enable_rosout=False, start_parameter_services=False)
        self._node.create_subscription(
            JointState, owner.resolve_topic_name('joint_states'),
            self._safe_callback(self._on_joint_states), qos_profile_sensor_data)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._node.create_timer(min(WATCH_PERIOD, period), self._safe_callback(self._watch),
                                clock=steady)
        if on_timer:
            self._node.create_timer(period, self._safe_callback(self._update), clock=steady)
        self._poster = owner.create_timer(POST_PERIOD, self.do_posted, clock=steady)
        self._executor = EventsExecutor(context=owner.context)
        self._executor.add_node(self._node)
        self._is_open = True
        self._thread = Thread(target=self._spin, name='control loop', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread of the loop, even if the arm moves."""
        self._owner.destroy_timer(self._poster)
        self._is_open = False
        self._executor.wake()
        self._thread.join()
        self._executor.remove_node(self._node)
        self._executor.shutdown()
        self._node.destroy_node()

    @property
    def state_age(self) -> float:
        """Time since the newest valid state arrived [s]."""
        return perf_counter() - self._last_good

    @property
    def state_delay(self) -> float:
        """
        Median time from the stamp of a state to its arrival [s].

        0 if the stamps are of another clock: always in simulated time; else, if the median is
        negative or more than OLDEST.

        """
        age = self._ages.percentile(50)[0]
        return age if 0.0 <= age <= OLDEST else 0.0

    @property
    def acts(self) -> bool:
        """Whether the loop answers each joint state with a command."""
        return self.mode != IDLE

    def reset_counts(self) -> None:
        """Reset the counters and the timing statistics."""
        self.updates, self.periods, self._ages = Window(), Window(), Window(1000)
        self.missed = self.refused = 0
        self.refusal = ''
        self.torque_use: Any = 0.0
        self._counted = self._reported = -np.inf

    def activate(self) -> None:
        """Hold the pose of the newest state, and send a command for every state from now on."""
        with self.lock:
            self.reset_counts()
            self.law.latch(self.q)
            self.guard.begin(self.guard.last_torque if self.mode == ENDING else None)
            self.guard.accept_state(self.time, self.q, self.qd)
            self.mode = ACTIVE

    def deactivate(self) -> None:
        """Begin to stop the arm."""
        with self.lock:
            self.mode = ENDING
            self.guard.stop()

    def leave(self) -> None:
        """Send the idle command as the last one, and stop sending commands."""
        with self.lock:
            self._publish(self.guard.idle_torque())
            self.mode = IDLE

    def post(self, act: Callable[..., None], *arguments: Any) -> None:
        """Queue a call for the owner's thread, which runs it within POST_PERIOD [s]."""
        self._posted.append((act, arguments))

    def do_posted(self) -> None:
        """Run the queued calls in order, then the listener; called in the owner's thread."""
        while self._posted:
            act, arguments = self._posted.popleft()
            act(*arguments)
        while self._sent:
            command = self._sent.popleft()
            if self.listener is not None:
                self.listener(*command)

    def _spin(self) -> None:
        while self._is_open and self._owner.context.ok():
            self._executor.spin_once(timeout_sec=0.1)

    def _safe_callback(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Return a callback that holds the lock, and sends a safe torque if the call raises."""
        @wraps(callback)
        def called(*arguments: Any) -> None:
            with self.lock:
                try:
                    callback(*arguments)
                except Exception as error:  # any kind: an error must not stop the commands
                    self._fail(f'{type(error).__name__}: {error}')
        return called

    def _fail(self, reason: str) -> None:
        self.post(self._log_error, f'control loop: {reason}')
        if self.acts:
            self.guard.trip(NOT_FINITE, reason)
            self._publish(self.guard.torque())

    def _on_joint_states(self, message: JointState) -> None:
        arrived = perf_counter()
        try:
            state = self.reader.read(message)
        except InputError as error:
            self._refuse(message, str(error))
            return
        if state is None:
            return
        time, q, qd = state
        if self.acts and not self.guard.accept_state(time, q, qd):
            self.reader.reject()
            if self.guard.watch():
                self._publish(self.guard.torque(), message.header.stamp)
            return
        before, self.time, self._is_new = self.time, time, True
        self.q, self.qd, self.stamp = q, qd, message.header.stamp
        self._last_good = arrived
        if not self.acts:
            self.rest.add(q, self.reader.efforts(message))
            return
        if self.mode == ACTIVE and time < before + CLOCK_STEPS[0]:
            self.post(self._log_warning,
                      f'time went back from {before:.3f} s to {time:.3f} s: holding the present '
                      'pose')
            self.law.latch(q)
        if not self._on_timer:
            self._answer(arrived)

    def _refuse(self, message: JointState, reason: str) -> None:
        """Count a refused joint state; trip a watchdog if it has all joints of this robot."""
        self.refused += 1
        self.refusal = reason
        self.post(self._log_refusal, reason)
        if set(self.reader.names) <= set(message.name):
            self.guard.trip(NOT_FINITE, reason)

    # rclpy accepts only one severity per source line, so each severity has its own function

    def _log_error(self, text: str) -> None:
        self._owner.get_logger().error(text)

    def _log_warning(self, text: str) -> None:
        self._owner.get_logger().warning(text)

    def _log_refusal(self, reason: str) -> None:
        self._owner.get_logger().error(f'joint state refused: {reason}',
                                       throttle_duration_sec=1.0)

    def _update(self) -> None:
        """Compute and send the command for the newest joint state, once per state."""
        if self._is_new and self.acts:
            self._answer(perf_counter())

    def _answer(self, began: float) -> None:
        """Send the command for the newest state, arrived at `began` [s]; then plan the targets."""
        self._is_new = False
        self._publish(self.guard.torque(self._law_torque), self.stamp)
        self._count(perf_counter() - began)
        try:
            self.law.plan()
        except OscError as error:
            self.post(self._log_error, f'target dropped: {error}')
        # abs: the clock of a simulation may restart
        if self.mode == ACTIVE and abs(self.time - self._reported) >= self.report_period:
            self._reported = self.time
            self.post(self._callbacks.report, self.stamp, self.law.pose, self.law.error.copy(),
                      self.law.F.copy())
        self._conclude()

    def _law_torque(self) -> Array:
        return self.law.torque(self.time, self.q, self.qd)

    def _publish(self, tau: Array, stamp: Any = None) -> None:
        """Send torques (n,), base first, computed from the state with this stamp, if any."""
        ordered = tau[self._output.order]
        self._output.publisher.publish(self._command.fill(
            ordered, commands.HOLD_LABEL if stamp is None else messages.label_of(stamp)))
        if self.listener is not None:
            self._sent.append((stamp, ordered) if stamp is not None else
                              (self.time + self.state_age, ordered))
        self.torque_use = np.maximum(
            self.torque_use, np.abs(tau) / self.law.settings.limits.effort)

    def _watch(self) -> None:
        """Send the supervisor's command if no joint state arrives in time."""
        if not self.acts:
            return
        self._callbacks.watch()
        if self.guard.watch() and (self.guard.blind or self.state_age > WATCH_PERIOD):
            self._publish(self.guard.torque())
        self._conclude()

    def _conclude(self) -> None:
        """Send the idle command and end, if the supervisor has finished stopping the arm."""
        if self.guard.finished:
            self.leave()
            self.post(self._callbacks.stopped)

    def _count(self, took: float) -> None:
        """Add the duration of an update and the time between states to the statistics [s]."""
        if self.mode != ACTIVE:
            return
        self.updates.add(took)
        if self.updates.count % AGED == 0 and not self._owner.get_clock().ros_time_is_active:
            self._ages.add(wall_time() - took - self.time)
        gap = self.time - self._counted
        if 0.0 < gap < np.inf:
            self.periods.add(gap)
            if gap < CLOCK_STEPS[1]:
                self.missed += max(0, round(gap / self._period) - 1)
        self._counted = self.time
