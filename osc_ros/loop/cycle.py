# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
What the loops of a controller and of a relay share: compiled answers, and their supervisor.

Kernels answer joint states with torques without Python; here are their records, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import entry_of
from osc_ros.compile.compiled import inlined, kernel, lock, unlocked, view
from osc_ros.control.model_error.contact import NOT_TOUCHED
from osc_ros.control.safety.answered import (
    ANSWER,
    Answered,
    answered_stamp,
    FORWARDED,
    UNASKED,
)
from osc_ros.control.safety.causes import replaces_law
from osc_ros.control.safety.safety import REJECTED
from osc_ros.control.safety.supervision import NOT_FINITE, Supervision
from osc_ros.control.safety.supervisor import Model, Supervisor
from osc_ros.control.step.entries import example
from osc_ros.control.step.law_record import step_at, watch_at
from osc_ros.control.step.step import sense, step, watch
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.loop.journal import Journal, journaled
from osc_ros.loop.rest_check import StartupStatistics
from osc_ros.loop.statistics import Counts
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

NOTHING: Array = np.zeros(0)  # no command for `put_watch`


class Kernels(NamedTuple):
    """The kernels of one kind of loop."""

    step: Any  # `step`, `watch` and `sense`: as those of `osc_ros.control.step.step`
    watch: Any
    sense: Any
    example: Callable[[], Any]  # compiles the kernels; returns a record CONTROLLER of one joint

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Addresses of the compiled `step`, `watch` and `sense`."""
        asked, unasked, after = map(entry_of, self[:3])
        return asked, unasked, after


OF_LAW = Kernels(step, watch, sense, example)


@inlined
def _put_result(d, at, code):
    """Write the torques, what Python must do, and the cause and the reaction in force."""
    at.accepted, at.code = d.time, code
    at.cause, at.reaction = d.cause, d.reaction
    at.silent = d.silent[d.cause] if d.cause >= 0 else 0.0
    at.has_changed, at.asks = d.has_changed, d.asks
    assign(at.tau, d.tau)


@inlined
def put_answer(entry, controller, at):
    """Answer the state of a record ANSWER by `step`, into the record; return step's code."""
    # `entry`: address of `control.step.step.step`. Reads `time`, `q`, `qd`, `effort`, `now`; the
    # caller writes `done`, and calls `put_touch` unless REJECTED. `tau` is NaN: nothing to send.
    d = controller.d
    d.sample_time, d.now = at.time, at.now
    assign(d.sample_q, at.q)
    assign(d.sample_qd, at.qd)
    assign(d.sample_effort, at.effort)
    code = step_at(entry, (controller,))
    _put_result(d, at, code)
    at.touch, at.fault_count = d.touch, d.fault_count
    for k in range(d.fault_count):
        assign(at.faults[k], d.faults[k])
    if code != REJECTED:
        assign(view(at.pose, 0, (16,)), view(d.tip_pose, 0, (16,)))
        assign(at.error, d.tip_error)
        assign(at.F, d.tip_F)
    return code


@inlined
def put_watch(entry, controller, at, longest, command):
    """Answer without a new state by `watch`; return whether there are torques to send."""
    # `entry`: address of `control.step.step.watch`, whose arguments the others are. Reads `now` of
    # the record ANSWER, and writes the results there; the caller writes `done`.
    d = controller.d
    found = watch_at(entry, (controller, at.now, longest, command))
    is_forwarded = found != 0 and len(command) == at.n and not replaces_law(d)
    _put_result(d, at, FORWARDED if is_forwarded else UNASKED)
    at.arrived, at.touch, at.fault_count = d.came, NOT_TOUCHED, 0
    return found != 0


@inlined
def put_touch(entry, controller, at):
    """Detect a contact by `sense` of `control.step.step`, after the torques have been sent."""
    at.touch = step_at(entry, (controller,))
    at.met = controller.contact.value


@kernel
def answer(entry, controller, at):
    """Call `put_answer`; return whether torques must be sent."""
    put_answer(entry, controller, at)
    return np.isfinite(at.tau[0])


@kernel
def answer_unasked(entry, controller, at, longest, command):
    """Call `put_watch`; return whether torques must be sent."""
    return put_watch(entry, controller, at, longest, command)


@kernel
def finish(entry, controller, at):
    """Detect a contact, after the torques for a plausible state were sent."""
    if at.code != REJECTED and at.code != UNASKED and at.code != FORWARDED:
        put_touch(entry, controller, at)


class Answering:
    """Answers joint states of n joints in compiled code, one call at a time."""

    def __init__(self, n: int, kernels: Kernels = OF_LAW) -> None:
        _compile(kernels)
        self._at = ANSWER.new(n=n)
        self._entry, self._watch, self._sense = kernels.addresses

    def answer(self, controller: Any, state: tuple[float, Array, Array, tuple[int, int], float],
               effort: Array | None, now: float) -> Array | None:
        """Return the torques (n,) for a state [N·m, N], or None; after sending, call `finish`."""
        # `state`: time, q, qd, stamp, arrived, see `Cycle.update`; `now`: on the clock of the loop
        # [s]
        at = self._at
        at.time, at.q[:], at.qd[:], (at.sec, at.nanosec), at.arrived = state
        at.effort[:] = np.nan if effort is None else effort
        at.now = at.done = now
        has_torques = answer(self._entry, controller, at)
        return at.tau if has_torques else None

    def watch(self, controller: Any, now: float, longest: float, command: Array = NOTHING
              ) -> Array | None:
        """Return the torques (n,) to send without a new state [N·m, N], or None."""
        # For the other arguments see `osc_ros.control.step.step.watch`.
        at = self._at
        at.now = at.done = now
        has_torques = answer_unasked(self._watch, controller, at, longest, command)
        return at.tau if has_torques else None

    @property
    def answered_stamp(self) -> tuple[int, int] | None:
        """Stamp of the newest answered state; None if its clock is in doubt (`doubts_clock`)."""
        return answered_stamp(self._at)

    def finish(self, controller: Any, done: float) -> None:
        """Store the time at which torques were sent [s]; detect a contact."""
        self._at.done = done
        finish(self._sense, controller, self._at)

    def taken(self) -> Answered:
        """Return a copy of the record of the last call."""
        return self._at.copy()


@cache
def _compile(kernels: Kernels) -> None:
    """Compile or load the kernels once per process; other argument types then raise TypeError."""
    controller, at = kernels.example(), ANSWER.new(n=1)
    with unlocked():
        asked, unasked, after = kernels.addresses
        answer(asked, controller, at)
        answer_unasked(unasked, controller, at, np.inf, NOTHING)
        finish(after, controller, at)
    for one in (answer, answer_unasked, finish):
        lock(one)


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
    def setups(self) -> tuple[Any, ...]:
        """The setups of the law, which a call may replace."""
        return ()

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
            self.guard.observe(time, q, qd)
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
