# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Python side of `serve`: it provides the arrays of the compiled loop, and reads its results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.safety.answered import ANSWER, Answers, WATCH_PERIOD
from osc_ros.loop.cycle import Answering, Kernels
from osc_ros.model.robot import Robot
from osc_ros.ros.dds.rcl_calls import RclCalls
from osc_ros.ros.dds.rcl_plan import LENGTH, NANO_DIGITS
from osc_ros.ros.dds.serving import (
    BEGUN,
    compile_serve,
    CONCLUDED,
    COUNTERS,
    ENDED,
    LEAVE,
    PAUSES,
    POST,
    SEMAPHORE,
    SENSE,
    serve,
    STEP,
    UNASKED_OUTBOUND,
    UNASKED_VALUES,
    WOKEN,
    WRITTEN,
)
from osc_ros.ros.dds.state_publishers import Known
from osc_ros.ros.messages.commands import HOLD_LABEL
from osc_ros.ros.messages.serialized_states import Reading, SEC
from osc_ros.ros.parameters.state_input import compile_velocity

Integers = NDArray[np.int64]

ROWS = 4096  # rows of the ring: 8 s at 500 Hz


def compile_kernels(robot: Robot) -> None:
    """Compile or load all kernels that answer joint states over DDS, except those of the law."""
    compile_velocity(robot)
    Answering(robot.n)
    compile_serve()


class CompiledAnswers:
    """Compiled answers to joint states."""

    def __init__(self, calls: RclCalls, order: NDArray[np.intp], period: float, kernels: Kernels,
                 relayed: Any) -> None:
        # calls with MORE_ENTRIES; joint index (n,) of each entry of a command; expected time
        # between states [s]; record RELAYED, of which a controller uses only the stamp
        compile_serve()
        self._n, self._order = len(order), np.array(order, dtype=np.int64)
        self._calls, self._relayed = calls, relayed
        calls.plan[STEP:SENSE + 1] = kernels.addresses
        calls.plan[UNASKED_OUTBOUND:UNASKED_VALUES + 1] = calls.labelled_command(HOLD_LABEL)
        calls.plan[POST:SEMAPHORE + 1] = calls.semaphore
        self._ring = np.array([ANSWER.new(n=self._n).words] * ROWS)
        self._shared = np.zeros(len(COUNTERS), dtype=np.int64)
        between = min(WATCH_PERIOD, period)
        self._times = np.array([0.0, 2.0 * between, between, np.inf])
        self.controller: Any = None  # record CONTROLLER; None: Python computes the torques

    def begin(self, controller: Any, longest: float, pauses: bool) -> None:
        """Set the record for `run`; from now on change the engine's records only within `held`."""
        # `pauses`: if targets must be planned, `run` returns, and the next state waits for the
        # plans. Otherwise `run` continues, and `wait_for_wake` returns in the thread that plans.
        self.controller, self._times[3] = controller, longest
        self._shared[LEAVE], self._shared[PAUSES] = 0, pauses

    def use(self, controller: Any, longest: float) -> None:
        """From the next state on compute with `controller`, compiled; None: in Python."""
        # `run` returns after a torque whose computation took more than `longest` [s].
        is_other, self._times[3] = controller is not self.controller, longest
        self.controller = controller
        if is_other:
            self.interrupt()

    def wait_for_wake(self) -> None:
        """Wait until there are plans to be made, or `wake` is called."""
        self._calls.wait()
        self._shared[WOKEN] = 0

    def wake(self) -> None:
        """Let `wait_for_wake` return."""
        self._calls.post()

    def run(self, reading: Reading, known: Known, until: float) -> int:
        """Run `serve` until Python has work; return the reason."""
        length = len(str(max(reading.record[SEC], 0))) + NANO_DIGITS
        if length != self._calls.plan[LENGTH]:
            self._calls.prepare(length)
        # [s] of `perf_counter`: if no state comes, `serve` checks for a reaction then
        self._times[0] = until
        with self._calls.publisher_kept():
            return int(serve(self._calls.plan, reading, known, self._order, self.controller,
                             self._relayed, self._ring, self._shared, self._times))

    def interrupt(self) -> None:
        """Make the present call of `run` return at once, and each later one until `begin`."""
        self._shared[LEAVE] = 1
        self._calls.wake()

    def held(self, prepare: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `prepare`; then return a context in which a state that comes waits."""
        return self._calls.held(prepare)

    @property
    def steps(self) -> int:
        """Number of finished steps; -1 during a step, which changes the records of the engine."""
        ended = int(self._shared[ENDED])
        return ended if self._shared[BEGUN] == ended else -1

    def take_answers(self) -> Answers | None:
        """Return copies of the answers since the last call; None if there are none."""
        last = int(self._shared[WRITTEN])
        if last == self._shared[CONCLUDED]:
            return None
        # row by row: NumPy releases the GIL when it copies more than 500 numbers at once
        rows = np.array([self._ring[k % ROWS] for k in range(int(self._shared[CONCLUDED]), last)])
        self._shared[CONCLUDED] = last
        return Answers(rows, self._n)
