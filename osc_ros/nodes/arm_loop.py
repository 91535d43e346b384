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

"""The node's side of osc_arm's control loop, which is a process of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
import os
import pickle
import subprocess
import sys
from threading import RLock
from time import perf_counter, sleep
from typing import Any, TypeVar

from builtin_interfaces.msg import Time
import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState

from osc_ros.arm.channel import Channel, Record, rehearse
from osc_ros.arm.process import ANSWER, ArmEngine, EVENT, OPENED, Start
from osc_ros.control.engine import IDLE, MODES, Stamp
from osc_ros.control.law import Law
from osc_ros.control.setup import Setup
from osc_ros.control.supervision import Supervision
from osc_ros.errors import InputError
from osc_ros.nodes import messages
from osc_ros.nodes.loop import POST_PERIOD

Array = NDArray[np.float64]
R = TypeVar('R')

OPENING = 120.0  # longest time from the start of the process until the arm is open [s]
ANSWERED = 2.0  # longest time until a request is answered [s]
STARTING = 20.0  # the same for requests that start or recover the arm [s]
ENDING_TIME = 5.0  # longest time until the process has ended [s]
ONE_THREAD = {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'}  # no threads of BLAS
PAUSE = 1e-4  # between two looks for an answer [s]
STATES_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)  # lose no message


class LoopError(InputError):
    """The process of the control loop has ended, or does not answer."""


class ArmLoop:
    """
    Starts the process of the control loop, and exchanges requests, events and states with it.

    It has the attributes and methods of `osc_ros.nodes.loop.Loop` that the node uses; see there.

    Attributes
    ----------
    description : Description
        What the arm says about itself.
    system : str
        What the operating system granted to the process, for the log.
    has_ended : bool
        Whether the process has ended.

    Parameters
    ----------
    owner : Node
        Its executor calls the handlers, and publishes joint_states.
    law : Law
        Does no ticks; it gets the robot and the settings of the law in the process.
    start : Start
    rate : float
        Rate of joint_states [Hz].
    handlers : mapping of str to callable
        What is called in the owner's thread, within POST_PERIOD, for each event: those of
        `osc_ros.control.engine.Engine`, 'lost' (text) when the arm fails, and 'ended' (text) when
        the process has ended without a request.

    Raises
    ------
    OscError
        The arm cannot be opened, or does not fit the robot.

    """

    def __init__(self, owner: Node, law: Law, start: Start, rate: float,
                 handlers: Mapping[str, Callable[..., None]]) -> None:
        self.joints = start.robot.joint_names
        self.listener: Callable[[Stamp | None, float, Array], None] | None = None
        self._owner, self._handlers = owner, handlers
        self._law, self._robot = law, start.robot
        self._lock = RLock()
        self._posted: deque[tuple[str, Any]] = deque()
        self._answers: dict[int, tuple[int, Any]] = {}
        self._number = self._read = 0
        self._since: tuple[int, str] = 0, IDLE  # the mode from this cycle on
        self.has_ended = False
        rehearse()
        self._channel = Channel(len(self.joints))
        self._process = subprocess.Popen(
            [sys.executable, '-c', 'from osc_ros.arm.process import main; main()',
             str(len(self.joints)), str(self._channel.file)],
            pass_fds=(self._channel.file,), stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, **ONE_THREAD})
        try:
            self._channel.requests.put(pickle.dumps(start))
            self.description, self.system = self._opened()
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._channel.close()
            raise
        self._spacing, self._next_state = 1.0 / rate, -np.inf
        self._tolerance = 0.5 * self.description.period
        self._states = owner.create_publisher(JointState, 'joint_states', STATES_QOS)
        self._clock = (owner.create_publisher(ClockMessage, '/clock', 10)
                       if self.description.clock == 'simulated' else None)
        self._poster = owner.create_timer(POST_PERIOD, self.do_posted,
                                          clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _opened(self) -> Any:
        """Wait until the arm is open; return what the process says then."""
        deadline = perf_counter() + OPENING
        while perf_counter() < deadline:
            self._take_events()
            if self._posted:
                event, arguments = self._posted.popleft()
                if event == OPENED:
                    return arguments
                raise InputError(*arguments)
            if self._process.poll() is not None:
                raise InputError('the process of the control loop ended with status '
                                 f'{self._process.returncode} before the arm was open')
            sleep(0.01)
        raise InputError(f'the arm was not open after {OPENING:g} s')

    def close(self) -> None:
        """End the process, after the arm has come to rest or ENDING_TIME has passed."""
        self._owner.destroy_timer(self._poster)
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(ENDING_TIME)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.has_ended = True
        for publisher in (self._states, self._clock):
            if publisher is not None:
                self._owner.destroy_publisher(publisher)
        self._channel.close()

    # states

    def _newest(self) -> Record | None:
        return self._channel.at(self._channel.count - 1)

    @property
    def mode(self) -> str:
        """The mode of the engine."""
        if self.has_ended:
            return IDLE
        newest = self._newest()
        since, mode = self._since
        return mode if newest is None or newest.number < since else MODES[newest.mode]

    @property
    def time(self) -> float:
        """Stamp of the newest state [s]."""
        newest = self._newest()
        return 0.0 if newest is None else newest.stamp[0] + 1e-9 * newest.stamp[1]

    @property
    def q(self) -> Array:
        """Positions (n,) of the newest state; empty before the first one."""
        newest = self._newest()
        return np.zeros(0) if newest is None else newest.q

    @property
    def state_age(self) -> float:
        """Time since the newest state arrived [s]."""
        newest = self._newest()
        return np.inf if newest is None else perf_counter() - newest.arrived

    @property
    def has_enough_states(self) -> bool:
        """Whether states for the start-up check have come."""
        return not self.has_ended and self.request(ArmEngine.has_enough_states)

    @property
    def required(self) -> str:
        """What a state must contain."""
        return f"positions and velocities of {', '.join(self.joints)}"

    @property
    def refusal(self) -> str:
        """Why the last states were not used; empty if that is not known."""
        return 'the process of the control loop has ended' if self.has_ended else ''

    def lack_of_states(self) -> str:
        """Reason why no valid states arrive, if it is known."""
        return self.refusal or f'{self.description.name} has sent none'

    # requests

    def request(self, what: Callable[..., R], *arguments: Any) -> R:
        """
        Have the process call `what(engine, *arguments)` between two states; return its result.

        Raises
        ------
        LoopError
            The process has ended, or does not answer.
        OscError
            As `what`.

        """
        return self._request(ANSWERED, what, *arguments)

    def _request(self, patience: float, what: Callable[..., R], *arguments: Any) -> R:
        with self._lock:  # `ready_to_stop` may be called in another thread
            self._number += 1
            number, deadline = self._number, perf_counter() + patience
            message = pickle.dumps((number, what, arguments))
            while not self._channel.requests.put(message):
                self._wait(deadline)
            while number not in self._answers:
                self._take_events()
                if number not in self._answers:
                    self._wait(deadline)
            kind, (answer, *since) = self._answers[number]
            self._answers.clear()
            self._since = tuple(since)
        if kind == ANSWER:
            return answer
        raise answer

    def _wait(self, deadline: float) -> None:
        if self.has_ended or self._process.poll() is not None:
            raise LoopError('the process of the control loop has ended')
        if perf_counter() > deadline:
            raise LoopError('the process of the control loop does not answer')
        sleep(PAUSE)

    def activate(self) -> None:
        """Begin to control the arm, and hold its present pose."""
        self._request(STARTING, ArmEngine.activate)

    def recover(self) -> None:
        """Clear an error of the arm."""
        self._request(STARTING, ArmEngine.recover)

    def use(self, setup: Setup, supervision: Supervision) -> None:
        """Use the settings and the robot of a setup, and other settings of the watchdogs."""
        # several requests, because each must take less than the rest of a period
        if setup.robot is not self._robot:
            self.request(ArmEngine.use_robot, setup.robot)
            self._robot = setup.robot
        self.request(ArmEngine.prepare, setup.settings, setup.known)
        self.request(ArmEngine.use_prepared, supervision)
        self._law.use_setup(setup)

    def set_velocity_source(self, mode: str) -> None:
        """Do nothing: the arm measures its velocities."""

    # events and states for the node

    def _take_events(self) -> None:
        while (message := self._channel.events.take()) is not None:
            kind, name, content = pickle.loads(message)
            if kind == EVENT:
                self._posted.append((name, content))
            else:
                self._answers[name] = kind, content

    def do_posted(self) -> None:
        """Publish new states, and call the handlers of events; in the owner's thread."""
        self._take_events()
        self._publish_states()
        while self._posted:
            event, arguments = self._posted.popleft()
            self._handlers[event](*arguments)
        if not self.has_ended and self._process.poll() is not None:
            self.has_ended = True
            self._take_events()
            self._handlers['ended'](f'with status {self._process.returncode}')

    def _publish_states(self) -> None:
        count = self._channel.count
        for number in range(max(self._read, count - 1000), count):
            record = self._channel.at(number)
            if record is None:
                continue
            stamp = messages.time_of(record.stamp)
            time = messages.seconds(stamp)
            if self.listener is not None and record.sent:
                self.listener(record.stamp, time, record.command)
            late = time - self._next_state + self._tolerance
            if late >= 0.0 or late < -2.0 * self._spacing:
                self._next_state = self._spacing + (
                    self._next_state if 0.0 <= late < self._spacing else time)
                self._publish_state(record, stamp)
        self._read = count

    def _publish_state(self, record: Record, stamp: Time) -> None:
        message = messages.joint_state(self.joints, 0.0, record.q, record.qd, record.tau)
        message.header.stamp = stamp
        self._states.publish(message)
        if self._clock is not None:
            self._clock.publish(ClockMessage(clock=stamp))
