"""The control loop: joint states in, joint torques out, in a thread of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from threading import RLock, Thread
from time import perf_counter
from time import time as wall_time
from typing import Any

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
from osc_ros.nodes import commands
from osc_ros.nodes.run import EventsExecutor
from osc_ros.nodes.states import StateInput
from osc_ros.nodes.statistics import Window

Array = NDArray[np.float64]

IDLE, ACTIVE, ENDING = 'idle', 'active', 'ending'
POST_PERIOD = 0.005  # period of the owner's thread for running queued calls [s]
MOST_POSTED = 1000
OLDEST = 1.0  # median age of states; stamps that are older are of another clock [s]
AGED = 8  # the age is measured at every AGED-th state
WATCH_PERIOD = 0.01  # longest wall time between checks of the state's age [s]


class Loop:
    """
    Computes torques from joint states by a law; a supervisor checks them.

    It has a thread, in which an executor spins a node of its own: nothing that other threads do,
    such as parsing a message or building a model, delays a command. Other threads touch the law,
    the supervisor and `mode` only while they hold `lock`, for some microseconds: what takes
    longer is prepared before.

    In the modes ACTIVE and ENDING the loop sends a command for each state. When the arm is at rest
    in mode ENDING, the loop sends the idle command as the last one, and the mode becomes IDLE.

    Attributes
    ----------
    lock : RLock
    mode : str
        IDLE, ACTIVE or ENDING.
    time, stamp : float [s], Time
        Of the newest good state.
    q, qd : (n,)
        Of that state; of no entries before the first one.
    rest : Rest
        States and efforts while idle, for the start-up check.
    updates, periods : Window
        Times from state to command, and between states [s].
    missed, refused : int
    refusal : str
        Why the last state was refused.
    torque_use : (n,) or float
        Largest torques as shares of the limits.
    joints : tuple of n str
        In the order of a command.
    listener : callable or None
        Called in the owner's thread with (time, command (n,)) for each command, within
        POST_PERIOD; the time is the stamp of the state, or seconds on its clock if the command
        answers none.

    Parameters
    ----------
    owner : Node
        Whose names, context and clock are used; its executor runs what is posted.
    law : Law
    guard : Supervisor
    reader : StateInput
    commands : Publisher
    order : (n,) int
        Place, base first, of the joint that entry i of a command is for.
    period : float
        Expected between states [s].
    on_timer : bool
        Whether the newest state is answered every period, and not each when it comes.
    watch : callable
        Called in this thread every period, WATCH_PERIOD at most, before the supervisor is asked.
    report : callable
        Called in the owner's thread with (stamp, pose, error, F) every `report_period`.
    stopped : callable
        Called in the owner's thread when the arm was stopped and left with the idle command.

    """

    def __init__(self, owner: Node, law: Law, guard: Supervisor,
                 reader: StateInput, commands: Publisher, order: NDArray[np.intp],
                 period: float, on_timer: bool, watch: Callable[[], None],
                 report: Callable[..., None], stopped: Callable[[], None]) -> None:
        self.law, self.guard, self.reader = law, guard, reader
        self.lock, self.mode, self.rest = RLock(), IDLE, Rest()
        self.q = self.qd = np.zeros(0)
        self.time, self.stamp, self.report_period = 0.0, None, np.inf
        self._owner, self._commands, self._order = owner, commands, order
        self._command = commands.Command(law.robot.n)
        self.joints = tuple(law.robot.joint_names[i] for i in order)
        self.listener: Callable[[Any, Array], None] | None = None
        self._sent: deque[tuple[Any, Array]] = deque(maxlen=MOST_POSTED)
        self._period, self._on_timer = period, on_timer
        self._watch_more, self._report, self._stopped = watch, report, stopped
        self._last_good, self._is_new = -np.inf, False
        # not by the owner's executor, which is not safe to be called from another thread; of
        # bounded length, in case that the owner's thread is blocked
        self._posted: deque[tuple[Callable[..., None], Any]] = deque(maxlen=MOST_POSTED)
        self.reset_counts()
        self._node = Node(
            f'_{owner.get_name()}_loop', namespace=owner.get_namespace(), context=owner.context,
            use_global_arguments=False, enable_rosout=False, start_parameter_services=False)
        self._node.create_subscription(
            JointState, owner.resolve_topic_name('joint_states'),
            self._guarded(self._on_joint_states), qos_profile_sensor_data)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._node.create_timer(min(WATCH_PERIOD, period), self._guarded(self._watch),
                                clock=steady)
        if on_timer:
            self._node.create_timer(period, self._guarded(self._update), clock=steady)
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
        """Time since the newest good state came [s]."""
        return perf_counter() - self._last_good

    @property
    def state_delay(self) -> float:
        """
        Median time from the stamp of a state to its arrival [s].

        0 if the stamps are of another clock: in simulated time, or where the median is negative
        or more than OLDEST.

        """
        age = self._ages.percentile(50)[0]
        return age if 0.0 <= age <= OLDEST else 0.0

    @property
    def acts(self) -> bool:
        """Whether the loop sends commands for joint states."""
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
            self.guard.begin(self.guard.sent if self.mode == ENDING else None)
            self.guard.see(self.time, self.q, self.qd)
            self.mode = ACTIVE

    def deactivate(self) -> None:
        """Begin to stop the arm."""
        with self.lock:
            self.mode = ENDING
            self.guard.stop()

    def leave(self) -> None:
        """Send the idle command as the last one, and stop sending commands."""
        with self.lock:
            self._publish(self.guard.last())
            self.mode = IDLE

    def post(self, act: Callable[..., None], *arguments: Any) -> None:
        """Queue a call for the owner's thread, which runs it within POST_PERIOD [s]."""
        self._posted.append((act, arguments))

    def do_posted(self) -> None:
        """Run the queued calls in their order, and the listener, in the owner's thread."""
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

    def _guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Return the callback under the lock; whatever it raises, the arm gets a torque."""
        @wraps(callback)
        def called(*arguments: Any) -> None:
            with self.lock:
                try:
                    callback(*arguments)
                except Exception as error:  # of any kind: a defect must not silence the loop
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
        if self.acts and not self.guard.see(time, q, qd):
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
        """Discard an invalid joint state; one that lacks joints may be of another robot."""
        self.refused += 1
        self.refusal = reason
        self.post(self._log_refusal, reason)
        if set(self.reader.names) <= set(message.name):
            self.guard.trip(NOT_FINITE, reason)

    # rclpy takes one severity from one line: `do_posted` must not be the line that logs

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
        self._is_new = False
        self._publish(self.guard.torque(self._ask_law), self.stamp)
        self._count(perf_counter() - began)
        try:
            self.law.plan()
        except OscError as error:
            self.post(self._log_error, f'target dropped: {error}')
        # backwards too: a simulation may begin again
        if self.mode == ACTIVE and abs(self.time - self._reported) >= self.report_period:
            self._reported = self.time
            self.post(self._report, self.stamp, self.law.pose, self.law.error.copy(),
                      self.law.F.copy())
        self._conclude()

    def _ask_law(self) -> Array:
        return self.law.torque(self.time, self.q, self.qd)

    def _publish(self, tau: Array, stamp: Any = None) -> None:
        """Send torques (n,), base first, that answer the state with this stamp, if any."""
        ordered = tau[self._order]
        self._commands.publish(self._command.fill(
            ordered, commands.HOLD_LABEL if stamp is None else commands.label_of(stamp)))
        if self.listener is not None:
            self._sent.append((stamp, ordered) if stamp is not None else
                              (self.time + self.state_age, ordered))
        self.torque_use = np.maximum(
            self.torque_use, np.abs(tau) / self.law.settings.limits.effort)

    def _watch(self) -> None:
        """Send the supervisor's command if no joint state arrives in time."""
        if not self.acts:
            return
        self._watch_more()
        if self.guard.watch() and (self.guard.blind or self.state_age > WATCH_PERIOD):
            self._publish(self.guard.torque())
        self._conclude()

    def _conclude(self) -> None:
        """Send the idle command and end, if the supervisor has finished stopping the arm."""
        if self.guard.finished:
            self.leave()
            self.post(self._stopped)

    def _count(self, took: float) -> None:
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
