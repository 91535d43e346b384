# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Joint states answered over DDS in compiled code: what Python gives `serve`, and takes of it."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray
from rclpy.publisher import Publisher

from osc_ros.compile.addresses import address_of, entry_of
from osc_ros.control.safety.answered import ANSWER, Answers, WATCH_PERIOD
from osc_ros.control.safety.safety import answer, watch
from osc_ros.control.step.step import sense, step
from osc_ros.loop.answering import Answering
from osc_ros.model.robot import Robot
from osc_ros.ros.dds.inbox import Inbox
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
    REACT,
    SEMAPHORE,
    serve,
    STEP,
    TABLE,
    UNASKED_OUTBOUND,
    UNASKED_VALUES,
    WOKEN,
    WRITTEN,
)
from osc_ros.ros.messages.commands import HOLD_LABEL
from osc_ros.ros.messages.serialized_states import Reading, SEC
from osc_ros.ros.parameters.state_input import StateInput

Integers = NDArray[np.int64]

ROWS = 4096  # of the ring: 8 s at 500 Hz


def compile_kernels(robot: Robot) -> None:
    """Compile or load all kernels that answer joint states over DDS, but for those of a law."""
    StateInput(robot, 'auto', _ignore, _ignore)
    Answering(robot.n)
    compile_serve()


def _ignore(text: str) -> None:
    """Do nothing."""


class Served:
    """
    Answers the joint states of an inbox in compiled code.

    Parameters
    ----------
    inbox : Inbox
        Of serialized joint states.
    publisher : rclpy.publisher.Publisher
        Of the commands; it stays as long as this object.
    order : (n,) int
        For each entry of a command, the index of its joint in the robot.
    period : float
        Expected time between states [s].

    Attributes
    ----------
    table : (TABLE_ROWS, 2) int, optional
        That of `osc_ros.control.step.step.step`, by which `run` answers; None: Python answers.

    Raises
    ------
    OSError, AttributeError
        This process has not loaded librcl, or a function is missing in it.

    """

    def __init__(self, inbox: Inbox, publisher: Publisher, order: NDArray[np.intp],
                 period: float) -> None:
        compile_serve()
        self._n, self._order = len(order), np.array(order, dtype=np.int64)
        self._calls = calls = RclCalls(inbox, publisher, self._n, 8)
        calls.plan[STEP:REACT + 1] = [*map(entry_of, (step, sense, watch, answer))]
        calls.plan[UNASKED_OUTBOUND:UNASKED_VALUES + 1] = calls.labelled(HOLD_LABEL)
        calls.plan[POST:SEMAPHORE + 1] = calls.semaphore
        self._ring = np.zeros((ROWS, ANSWER.size(self._n)))
        self._shared = np.zeros(len(COUNTERS), dtype=np.int64)
        between = min(WATCH_PERIOD, period)
        self._times = np.array([0.0, 2.0 * between, between, np.inf])
        self.table: Integers | None = None

    def close(self) -> None:
        """Release the memory; no call may be in progress."""
        self._calls.close()

    def begin(self, table: Integers | None, longest: float, pauses: bool) -> None:
        """
        Set the table for `run`; the records must not change unless they are held.

        Parameters
        ----------
        table, longest
            See `use`.
        pauses : bool
            What happens if targets must be planned. True: `run` returns, and the next state waits.
            False: `run` goes on answering, and `woken` returns in the thread that plans.

        """
        self._set(table, longest)
        self._shared[LEAVE], self._shared[PAUSES] = 0, pauses

    def use(self, table: Integers | None, longest: float) -> None:
        """
        Answer by another table from the next state on; None: let Python answer it.

        Parameters
        ----------
        table : (TABLE_ROWS, 2) int, optional
        longest : float
            Longest time for a torque [s].

        """
        self._set(table, longest)
        if table is None:
            self.interrupt()

    def _set(self, table: Integers | None, longest: float) -> None:
        self.table, self._times[3] = table, longest
        if table is not None:
            self._shared[TABLE] = address_of(table)

    def woken(self) -> None:
        """Return when there are plans to be made, or after `wake`."""
        self._calls.wait()
        self._shared[WOKEN] = 0

    def wake(self) -> None:
        """Let `woken` return."""
        self._calls.post()

    def run(self, reading: Reading, until: float) -> int:
        """
        Run `serve` until Python has work; return its result, which says what work.

        Parameters
        ----------
        reading : Reading
        until : float
            When to look for a reaction if no state comes, by `perf_counter` [s].

        """
        length = len(str(max(reading.record[SEC], 0))) + NANO_DIGITS
        if length != self._calls.plan[LENGTH]:
            self._calls.prepare(length)
        self._times[0] = until
        with self._calls.kept():
            return int(serve(self._calls.plan, reading, self._order, self._ring, self._shared,
                             self._times))

    @property
    def message(self) -> bytes:
        """The message that was taken last."""
        return self._calls.message()

    def interrupt(self) -> None:
        """Let the present call return at once, and the next one before `begin`."""
        self._shared[LEAVE] = 1
        self._calls.wake()

    def held(self) -> AbstractContextManager[None]:
        """Return a context within which no state is answered: one that comes waits."""
        return self._calls.held()

    @property
    def steps(self) -> int:
        """Number of steps so far; -1 during a step, which changes the records of the engine."""
        ended = int(self._shared[ENDED])
        return ended if self._shared[BEGUN] == ended else -1

    def answered(self) -> Answers | None:
        """Return copies of what was answered since the last time; None if nothing was."""
        last = int(self._shared[WRITTEN])
        if last == self._shared[CONCLUDED]:
            return None
        # row by row: NumPy releases the GIL when it copies more than 500 numbers at once
        rows = np.array([self._ring[k % ROWS] for k in range(int(self._shared[CONCLUDED]), last)])
        self._shared[CONCLUDED] = last
        return Answers(rows, self._n)
