# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What the loops of a controller and of a relay share: compiled answers, and their supervisor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.safety.answered import Answered
from osc_ros.control.safety.supervision import NOT_FINITE, Supervision
from osc_ros.control.safety.supervisor import Model, Supervisor
from osc_ros.loop.answering import Answering, NOTHING, OF_LAW
from osc_ros.loop.journal import Journal, journaled
from osc_ros.loop.rest_check import StartupStatistics
from osc_ros.loop.statistics import Counts
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]
Stamp = tuple[int, int]  # seconds and nanoseconds of a ROS time

IDLE, ACTIVE, ENDING = MODES = 'idle', 'active', 'ending'


class Cycle(ABC):
    """Sends compiled answers to joint states; a subclass has the source of the torques."""

    journal: Journal | None
    kernels = OF_LAW
    fault = NOT_FINITE  # cause of an error of the caller

    def __init__(self, robot: Robot, model: Model, supervision: Supervision, period: float,
                 send: Callable[[Array, Stamp | None], None], post: Callable[..., None]) -> None:
        # journal: see `Engine.attach_journal`; rest: states while idle, for the start-up check
        self.counts, self.journal, self.rest = Counts(period), None, StartupStatistics()
        # is_last: the command being sent is the last one; asks: `plan` must be called
        self.mode, self.is_last, self.asks = IDLE, False, False
        self.guard = Supervisor(robot, model, supervision, self._on_change)
        # of the newest valid state; its time advances even if the stamps do not [s]
        self.effort: Array | None = None  # measured; NaN: joint without measurement [N·m, N]
        self.q = self.qd = np.zeros(0)  # (n,); empty before the first state
        self.time, self.stamp = 0.0, (0, 0)
        self._send, self._post = send, post
        self._answering = Answering(robot.n, self.kernels)

    @property
    @abstractmethod
    def record(self) -> Any:
        """The record CONTROLLER."""

    @abstractmethod
    def state(self) -> str:
        """Return the state of the loop as a text, with the reason of an active watchdog."""

    @abstractmethod
    def conclude(self, done: Any, is_plain: bool) -> bool:
        """Do the remaining work for states that compiled code has answered."""

    @abstractmethod
    def _process_answer(self, done: Answered) -> bool:
        """Do the remaining work for one answer; return whether it has a plausible state."""

    @property
    def acts(self) -> bool:
        """Whether the engine sends a command for each joint state."""
        return self.mode != IDLE

    @property
    def state_age(self) -> float:
        """Time since the newest valid state arrived [s]."""
        return perf_counter() - self.counts.arrived

    def controller(self) -> Any:
        """Return the record with which compiled code answers the next state; None while idle."""
        return self.record if self.acts else None

    def update(self, time: float, q: Array, qd: Array, stamp: Stamp, arrived: float,
               effort: Array | None = None) -> bool:
        """Take a state, send a command if the engine acts, and plan; return if it is plausible."""
        # In a reaction, the supervisor answers an implausible state. `arrived`: by `perf_counter`
        # [s]; `effort`: measured torques (n,) [N·m, N].
        accepted = self.respond(time, q, qd, stamp, arrived, effort)
        if self.asks:
            self.plan()
        return accepted

    @journaled
    def respond(self, time: float, q: Array, qd: Array, stamp: Stamp, arrived: float,
                effort: Array | None = None) -> bool:
        """Do the part of `update` up to the command; if `asks` is then True, call `plan`."""
        if (controller := self.controller()) is None:  # idle
            self._take(time, q, qd, stamp, arrived, effort)
            return True
        return self._process_answer(self._finished(self._answering.answer(
            controller, (time, q, qd, stamp, arrived), effort, self.guard.clock())))

    def plan(self) -> None:
        """Do what `asks` requests."""
        self.asks = False

    @journaled
    def watch(self, longest: float) -> None:
        """Send the supervisor's command if the newest state is older than `longest` [s]."""
        if self.acts:
            self._process_answer(self._unasked(longest))

    @journaled
    def refuse(self, reason: str, has_all_joints: bool) -> None:
        """Count a refused joint state; report a fault if it has all joints of this robot."""
        self.counts.add_refusal(reason)
        self._post('refusal', reason)
        if has_all_joints:
            self.guard.report_fault(NOT_FINITE, reason)

    @journaled
    def fail(self, reason: str) -> None:
        """Send a safe torque after an error of the caller."""
        self._post('error', f'control loop: {reason}')
        if self.acts:
            self.guard.report_fault(self.fault, reason)
            self._process_answer(self._unasked(-1.0))

    @journaled
    def leave(self) -> None:
        """Send the idle command as the last one, and stop sending commands."""
        self.is_last = self.guard.d.leaves = True
        try:
            self._unasked(-1.0)
        finally:
            self.guard.d.leaves = False
        self.mode = IDLE

    def _take(self, time: float, q: Array, qd: Array, stamp: Stamp, arrived: float,
              effort: Array | None) -> None:
        """Store a plausible state; while the engine acts, `check_sample` sets `time`."""
        self.time, self.stamp, self.q, self.qd = time, stamp, q, qd
        self.counts.arrived, self.effort = arrived, effort

    def _unasked(self, longest: float, command: Array = NOTHING) -> Answered:
        """Send the torques that `osc_ros.control.step.step.watch` finds; return the record."""
        return self._finished(self._answering.watch(
            self.record, self.guard.clock(), longest, command))

    def _finished(self, tau: Array | None) -> Answered:
        """Send the torques (n,) of a compiled answer, if there are any; return its record."""
        if tau is not None:
            self._command(tau.copy(), self._answering.answered_stamp)
            self._answering.finish(self.record, self.guard.clock())
        return self._answering.taken()

    def _command(self, tau: Array, stamp: Stamp | None) -> None:
        try:
            self._send(tau, stamp)
        finally:
            self._note_command(tau, stamp)

    def _note_command(self, tau: Array, stamp: Stamp | None) -> None:
        if self.journal is not None:
            self.journal.record_torque(tau, stamp)
        self.counts.add_torque(np.abs(tau), self.guard.settings.effort_limits)

    def _leave_if_finished(self) -> None:
        """Send the idle command and end, if the supervisor has finished stopping the arm."""
        if self.guard.is_finished:
            self.leave()
            self._post('stopped')

    def _on_change(self, done: Answered | None = None) -> None:
        """Post the present cause and reaction, or those of an answered state."""
        acting = self.guard.acting(done)
        if self.acts or self.guard.runaway:
            self._post('change', acting.cause, acting.reaction, acting.text('active'))
        else:  # no torques are sent
            self._post('change', '', '', 'inactive')
