# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Starts the process of a control loop, for a node or a client, and communicates with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
import os
import pickle
import subprocess
import sys
from threading import RLock
from time import perf_counter, sleep
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.safety.supervision import Supervision
from osc_ros.errors import InputError
from osc_ros.hardware.contract import Description
from osc_ros.loop.cycle import IDLE, MODES
from osc_ros.loop.process.channel import Channel, Record, rehearse
from osc_ros.loop.process.process import ANSWER, ArmEngine, EVENT, OPENED
from osc_ros.loop.process.process_start import Start

Array = NDArray[np.float64]
R = TypeVar('R')

OPENING = 120.0  # longest time from the start of the process until the arm is open [s]
# Longest time until a request is answered [s]; a busy machine may not run the process for seconds.
ANSWERED = 10.0
STARTING = 20.0  # longest time until a request that starts or recovers the arm is answered [s]
ENDING_TIME = 5.0  # longest time until the process has ended [s]
ONE_THREAD = {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'}  # no threads of BLAS
PAUSE = 1e-4  # polling period of an answer [s]
POLL = 2e-3  # polling period of a setup that is being built [s]


class LoopError(InputError):
    """The process of the control loop has ended, or does not respond."""


class LoopProcess:
    """Starts the process of a control loop, and exchanges requests, events and states with it."""

    # No other object can command this loop. If this program ends without `close`, the loop goes on
    # for an arm with `Description.is_held`; otherwise it ends. OscError: the arm cannot be opened,
    # or does not fit the robot.

    description: Description  # from the arm, when it was opened
    system: str  # settings that the operating system granted to the process, for the log

    def __init__(self, start: Start) -> None:
        self.joints, self._robot = start.robot.joint_names, start.robot
        self._lock = RLock()
        self._posted: deque[tuple[str, Any]] = deque()
        self._answers: dict[int, tuple[int, Any]] = {}
        self._number = 0
        self._since: tuple[int, str] = 0, IDLE  # a cycle, and the mode from it on
        self.has_ended = False
        rehearse()
        self._channel = Channel(len(self.joints))
        self._process = subprocess.Popen(
            [sys.executable, '-c', 'from osc_ros.loop.process.process import main; main()',
             str(len(self.joints)), str(self._channel.file), str(os.getpid())],
            pass_fds=(self._channel.file,), stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, **ONE_THREAD})
        try:
            self._channel.requests.put(pickle.dumps(start))
            self.description, self.system = self._await_open()
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._channel.close()
            raise

    def _await_open(self) -> Any:
        """Wait until the arm is open; return its description and the granted system settings."""
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
        """End the process when the arm has come to rest, or after ENDING_TIME."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(ENDING_TIME)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.has_ended = True
        self._channel.close()

    def unexpected_end(self) -> str:
        """Return once how the process ended if `close` was not called; empty if it runs."""
        if self.has_ended or self._process.poll() is None:
            return ''
        self.has_ended = True
        return f'with status {self._process.returncode}'

    # states

    def _newest(self) -> Record | None:
        return self._channel.at(self._channel.count - 1)

    @property
    def mode(self) -> str:
        """Mode of the engine."""
        if self.has_ended:
            return IDLE
        newest = self._newest()
        since, mode = self._since
        return mode if newest is None or newest.number < since else MODES[newest.mode]

    @property
    def count(self) -> int:
        """Number of cycles so far."""
        return self._channel.count

    @property
    def time(self) -> float:
        """Stamp of the newest state [s]."""
        newest = self._newest()
        return 0.0 if newest is None else newest.stamp[0] + 1e-9 * newest.stamp[1]

    @property
    def stamp(self) -> tuple[int, int]:
        """Seconds and nanoseconds of the newest state."""
        newest = self._newest()
        return (0, 0) if newest is None else newest.stamp

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
        """Whether the start-up check has enough states, see `StartupStatistics.is_enough`."""
        return not self.has_ended and self.request(ArmEngine.has_enough_states)

    # requests

    def request(self, what: Callable[..., R], *arguments: Any) -> R:
        """Return `what(engine, *arguments)`, which the process calls between two states."""
        # LoopError: the process has ended or does not respond; OscError: an error of `what`
        return self._request(ANSWERED, what, *arguments)

    read = request  # `Loop` has a faster method for functions that only read

    def _request(self, patience: float, what: Callable[..., R], *arguments: Any) -> R:
        with self._lock:  # several threads may call this
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
        if kind != ANSWER:
            raise answer
        result: R = answer
        return result

    def _wait(self, deadline: float) -> None:
        if self.has_ended or self._process.poll() is not None:
            raise LoopError('the process of the control loop has ended')
        if perf_counter() > deadline:
            raise LoopError('the process of the control loop does not answer')
        sleep(PAUSE)

    def activate(self, missing: Array | None = None) -> None:
        """Begin to control the arm, and hold its present pose, see `Engine.activate`."""
        self._request(STARTING, ArmEngine.activate, missing)

    def recover(self) -> None:
        """Clear an error of the arm."""
        self._request(STARTING, ArmEngine.recover)

    def use_setup(self, setup: CompiledLaw, supervision: Supervision) -> bool:
        """See `Engine.use_setup`."""
        # several requests, because each must end before the next state
        if setup.robot is not self._robot:
            self.request(ArmEngine.use_robot, setup.robot)
            self._robot = setup.robot
        self.request(ArmEngine.prepare, setup.settings, setup.precomputed)
        while not self.request(ArmEngine.is_prepared):
            sleep(POLL)
        return self.request(ArmEngine.use_prepared, supervision)

    # events

    def _take_events(self) -> None:
        while (message := self._channel.events.take()) is not None:
            kind, name, content = pickle.loads(message)
            if kind == EVENT:
                self._posted.append((name, content))
            else:
                self._answers[name] = kind, content

    def next_event(self) -> tuple[str, Any] | None:
        """Remove and return the oldest event and its arguments; None if there is none."""
        with self._lock:
            if not self._posted:
                self._take_events()
            return self._posted.popleft() if self._posted else None

    def records(self, since: int) -> tuple[int, list[Record]]:
        """Return the number of cycles so far, and at most 1000 records from number `since` on."""
        count = self._channel.count
        found = [self._channel.at(number) for number in range(max(since, count - 1000), count)]
        return count, [record for record in found if record is not None]
