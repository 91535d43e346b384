# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled loop of osc_arm: read a state, compute the torques, write them, and again."""

from __future__ import annotations

from collections.abc import Callable
import ctypes
from functools import partial
from typing import Any

import numpy as np

from osc_ros.compile.addresses import c_at, types
from osc_ros.compile.compiled import entry, kernel
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.model_error.contact import NOT_TOUCHED
from osc_ros.control.safety.answered import ANSWER, answered_at, Answers
from osc_ros.control.safety.safety import REJECTED
from osc_ros.control.step.law_record import CONTROLLER
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.loop.cycle import Kernels, put_answer, put_touch
from osc_ros.loop.process.channel import has_request, NO_COUNTERS, put_record, width

# Results of `run_cycles`. FULL: the ring is full. LEFT: Python must process the last cycle, and
# then write its record for the node. FAILED: a call of the arm has failed.
RECORDED, FULL, LEFT, FAILED = range(4)
ROWS = 16  # number of cycles after which Python processes their records
ARM_STATE = Table(
    'ArmState',
    Slot('time', (), 's', 'stamp of the newest state'),
    Slot('numbers', (4,), 'mixed', 'whether torques were sent; index of the mode in MODES; whole '
         'seconds and nanoseconds of the stamp'),
    Slot('arrived', (), 's', 'when `read` returned'),
    Slot('started', (), 's', 'when `write` was called'),
    Slot('done', (), 's', 'when `write` returned'),
    Slot('read', (), '', 'address of a C function that writes the next state here', int),
    Slot('write', (), '', 'address of a C function that sends `tau`', int),
    Slot('step', (), '', 'address of `step`', int),
    Slot('sense', (), '', 'address of `sense`', int),
    Slot('count', (), '', 'number of written records', int),
    Slot('cycle', (), '', 'number of cycles so far', int),
    Slot('q', ('n',), 'rad, m', 'positions'),
    Slot('qd', ('n',), 'rad/s, m/s', 'velocities'),
    Slot('effort', ('n',), 'N·m, N', 'measured torques'),
    Slot('tau', ('n',), 'N·m, N', 'torques for `write`'))


@kernel
def run_cycles(controller, arm, ring, counters, records, times, most, deadline):
    """Run up to `most` cycles, until Python has work; return RECORDED, FULL, LEFT or FAILED."""
    # `ring`: (ROWS, …) words of records ANSWER; `counters`, `records`: see `channel.Channel`;
    # `times`: see `ArmCycles`; `deadline`: longest time to answer a state [s]
    d, nothing = controller.d, np.int64(0)
    for _ in range(most):
        row = times[arm.cycle % len(times)]
        arm.cycle += 1
        if c_at(arm.read, (nothing,)) != 0:
            return FAILED
        at = answered_at(ring[arm.count].ctypes.data)
        at.time, at.arrived, at.now, at.done = arm.time, arm.arrived, arm.arrived, arm.arrived
        at.sec, at.nanosec = int(arm.numbers[2]), int(arm.numbers[3])
        assign(at.q, arm.q)
        assign(at.qd, arm.qd)
        assign(at.effort, arm.effort)
        code = put_answer(arm.step, controller, at)
        arm.count += 1
        is_answered = np.isfinite(at.tau[0])
        arm.numbers[0] = is_answered or d.has_sent  # a state is never left without torques
        row[0], row[1], row[2] = arm.arrived, 0.0, 0.0
        if arm.numbers[0] > 0.0:
            for i in range(at.n):
                arm.tau[i] = at.tau[i] if is_answered else d.sent[i]
            if c_at(arm.write, (nothing,)) != 0:
                return FAILED
            at.done = arm.done
            row[1], row[2] = arm.started, arm.done
        if code == REJECTED:
            return LEFT
        put_touch(arm.sense, controller, at)
        if (at.fault_count > 0 or at.touch != NOT_TOUCHED or at.asks != 0
                or at.done - at.arrived > deadline):
            return LEFT
        put_record(counters, records, arm.arrived, arm.numbers, arm.q, arm.qd, arm.effort, arm.tau)
        if arm.count == len(ring):
            return FULL
        if has_request(counters):
            break
    return RECORDED


def compile_cycles() -> Callable[..., int]:
    """Compile or load the kernel; return a quick callable."""
    records = types.Array(types.float64, 2, 'C')
    return entry(run_cycles, CONTROLLER.numba_type, ARM_STATE.numba_type, records,
                 types.Array(types.int64, 1, 'C'), records, records, types.int64, types.float64)


class ArmCycles:
    """Runs the compiled cycles of an arm with n joints."""

    def __init__(self, n: int, kernels: Kernels, read: Callable[[], None],
                 write: Callable[[], None]) -> None:
        self.arm = arm = ARM_STATE.new(n=n)  # `read` writes the state, `write` sends the torques
        self.failure: BaseException | None = None  # raised by `read` or `write`
        self._run = compile_cycles()
        # where each cycle is recorded, see `Channel.places`; nobody reads these
        self.places = NO_COUNTERS, np.zeros((1, width(n)))
        # (k, 3) of the last k cycles: return of `read`, call and return of `write`, or 0 [s]
        self.times = np.zeros((1, 3))
        self._n, self._ring = n, np.array([ANSWER.new(n=n).words] * ROWS)
        of_c = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)
        self._functions = [of_c(partial(self._call, one)) for one in (read, write)]
        arm.read, arm.write = (ctypes.cast(one, ctypes.c_void_p).value or 0
                               for one in self._functions)
        arm.step, _, arm.sense = kernels.addresses

    def _call(self, what: Callable[[], None], _: int) -> int:
        try:
            what()
        except BaseException as error:  # of any kind: compiled code cannot raise it
            self.failure = error
            return 1
        return 0

    def run(self, controller: Any, most: int, deadline: float) -> int:
        """Return the result of `run_cycles`; raise what a call of the arm has raised."""
        self.failure = None
        why = self._run(controller, self.arm, self._ring, *self.places, self.times, most, deadline)
        if self.failure is not None:
            raise self.failure
        return why

    def take_answers(self) -> Answers:
        """Return copies of the records of the cycles since the last call."""
        count, self.arm.count = self.arm.count, 0
        return Answers(self._ring[:count].copy(), self._n)
