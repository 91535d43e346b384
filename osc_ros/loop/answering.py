# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Kernels that answer joint states with torques without Python, and their records."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
from osc_ros.control.step.entries import example
from osc_ros.control.step.law_record import step_at, watch_at
from osc_ros.control.step.step import sense, step, watch
from osc_ros.dynamics.algebra.vectors import assign

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
