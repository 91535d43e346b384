# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Compiled loop that answers joint states over DDS without the GIL.

`serve` waits for a state, reads it, computes the torques and publishes them, until Python has
work: a message or state that compiled code does not handle, or the end of a reaction. In a relay
it also takes the commands of another controller, and publishes them. Another thread makes plans
between two states. If no state comes in time, the loop publishes the torques of the supervisor. It
writes its answers to a ring buffer, and Python processes them later.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import c_at
from osc_ros.compile.compiled import ahead, inlined, lock, released, view
from osc_ros.control.data import PLANS
from osc_ros.control.safety.answered import (
    ANSWER,
    answered_at,
    doubts_clock,
    FORWARDED,
    WATCH_PERIOD,
)
from osc_ros.control.safety.command_check import RELAYED
from osc_ros.control.safety.safety import REJECTED
from osc_ros.control.step.law_record import CONTROLLER
from osc_ros.loop.cycle import put_answer, put_touch, put_watch
from osc_ros.loop.velocity import undo_velocity, VELOCITY
from osc_ros.ros.dds.forwarding import puts_command
from osc_ros.ros.dds.rcl_plan import (
    clock,
    CONTEXT,
    INBOUND,
    IS_VALID,
    LOCK,
    MORE,
    MUTEX,
    OUTBOUND,
    publish,
    puts_label,
    take,
    TOPICS,
    UNLOCK,
    VALUES,
    wait,
)
from osc_ros.ros.dds.state_publishers import IGNORED, Known, source_of, USED
from osc_ros.ros.messages.serialized_states import (
    COUNTS,
    NAMES,
    NANOSEC,
    puts_motion,
    Reading,
    reads,
    SEC,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Further entries of the plan, all addresses: of three kernels; of the message for torques without
# a state, and of its numbers; of sem_post, and of the semaphore of the thread that plans.
(STEP, WATCH, SENSE, UNASKED_OUTBOUND, UNASKED_VALUES, POST, SEMAPHORE, END) = range(
    MORE, MORE + 8)
MORE_ENTRIES = END - MORE
# Entries of the shared counters: 1 if the call must end; number of answers that were written, and
# that Python has processed; number of steps that have begun, and ended (while they differ, the
# records of the controller change); 1 if the thread that plans was woken, and has not begun yet;
# 1 if the next state waits for the plans.
COUNTERS = LEAVE, WRITTEN, CONCLUDED, BEGUN, ENDED, WOKEN, PAUSES = range(7)
# Reasons why `serve` returns. ASKED: another thread wants it, or the context of ROS has ended.
# UNREAD: Python must read the message that was taken. LEFT: Python must process the last answer
# before the next one. FULL: the ring buffer is full. FAILED: a function of rcl has failed.
# COMMAND: Python must handle the command that was taken.
ASKED, UNREAD, LEFT, FULL, FAILED, COMMAND, GO_ON = range(7)


@inlined
def _puts_state(reading, at, arrived):
    """Copy the state that was read into its answer `at`; return whether qd could be computed."""
    record, values = reading.record, reading.words.view(np.float64)
    at.sec, at.nanosec, at.arrived = record[SEC], record[NANOSEC], arrived
    for i in range(at.n):
        at.effort[i] = values[2, i] if record[COUNTS + 2] == record[NAMES] else np.nan
    at.time = puts_motion(reading, at.q, at.qd)
    return np.isfinite(at.time)


@inlined
def _wakes(plan, shared):
    """Wake the thread that plans; if the next state must wait for the plans, only return False."""
    if shared[PAUSES] == 0 and shared[WOKEN] == 0:
        shared[WOKEN] = 1
        c_at(plan[POST], (plan[SEMAPHORE],))
    return shared[PAUSES] == 0


@inlined
def _answer(plan, reading, order, controller, relayed, shared, at):
    """Answer a state; return the reason to leave `serve`, or GO_ON."""
    has_failed = False
    at.now = clock(plan)
    code = put_answer(plan[STEP], controller, at)
    if code == REJECTED:
        undo_velocity(reading.velocity)
    if np.isfinite(at.tau[0]):
        message, values = plan[OUTBOUND], plan[VALUES]
        if doubts_clock(code, at.faults, at.fault_count):
            message, values = plan[UNASKED_OUTBOUND], plan[UNASKED_VALUES]
            relayed.sec = -1
        has_failed = publish(plan, message, values, order, at.tau)
    at.done = clock(plan)
    if has_failed:
        return FAILED
    if code != REJECTED:
        put_touch(plan[SENSE], controller, at)
    return GO_ON if at.asks == 0 or at.asks == PLANS and _wakes(plan, shared) else LEFT


@inlined
def _watch(plan, order, controller, relayed, at):
    """Without a new state, publish the torques of a due reaction; return the reason, or GO_ON."""
    has_failed = False
    at.now = clock(plan)
    if put_watch(plan[WATCH], controller, at, WATCH_PERIOD, view(at.tau, 0, (0,))):
        message, values = plan[UNASKED_OUTBOUND], plan[UNASKED_VALUES]
        if plan[TOPICS] > 1 and not controller.d.is_blind and (
                puts_label(plan, relayed.sec, relayed.nanosec)):  # no command for it has come
            message, values = plan[OUTBOUND], plan[VALUES]
        has_failed = publish(plan, message, values, order, at.tau)
    at.done = clock(plan)
    if has_failed:
        return FAILED
    return LEFT if at.asks != 0 else GO_ON


@inlined
def _forward(plan, order, controller, relayed, at, arrived):
    """Answer a command of another controller; return the reason to leave `serve`, or GO_ON."""
    has_failed = False
    at.now = clock(plan)
    if put_watch(plan[WATCH], controller, at, np.inf, relayed.command):
        message, values = plan[OUTBOUND], plan[VALUES]
        if at.code != FORWARDED:
            message, values = plan[UNASKED_OUTBOUND], plan[UNASKED_VALUES]
        has_failed = publish(plan, message, values, order, at.tau)
    at.time, at.arrived, at.done = relayed.last_time, arrived, clock(plan)
    if has_failed:
        return FAILED
    return LEFT if at.asks != 0 else GO_ON


@released
def serve(plan, reading, known, order, controller, relayed, ring, shared, times):
    """Answer joint states until Python has work; return the reason."""
    # Commands of a second topic are forwarded; then only states during a reaction are answered.
    # times (4,) [s]: first check for a reaction if no state comes; from a state to the next check;
    # between further checks; longest computation of a torque, after which it returns.
    until = times[0]
    while True:
        if shared[LEAVE] > 0:
            return ASKED
        if shared[WRITTEN] - shared[CONCLUDED] >= len(ring):
            return FULL
        if not wait(plan, until - clock(plan)):
            return FAILED
        if shared[LEAVE] > 0:
            return ASKED
        has_come, source = take(plan, 0), IGNORED
        arrived = clock(plan)
        if has_come:
            source = source_of(plan, known, arrived)
            has_come = source != IGNORED
        has_command = not has_come and plan[TOPICS] > 1 and take(plan, 1)
        if has_come:
            record = reading.record
            if not (source == USED and reads(plan[INBOUND], reading)
                    and puts_label(plan, record[SEC], record[NANOSEC])):
                return UNREAD
        elif has_command:
            pass
        elif arrived < until:
            continue
        elif c_at(plan[IS_VALID], (plan[CONTEXT],)) & 1 == 0:
            return ASKED
        c_at(plan[LOCK], (plan[MUTEX],))  # while Python changes the records
        at = answered_at(ring[shared[WRITTEN] % len(ring)].ctypes.data)
        if (shared[LEAVE] > 0 or has_come and not _puts_state(reading, at, arrived)
                or has_command and not puts_command(
                    plan, order, relayed, controller.d.spacing, arrived)):
            c_at(plan[UNLOCK], (plan[MUTEX],))
            return UNREAD if has_come else COMMAND if has_command else ASKED
        shared[BEGUN] += 1
        if has_come:
            relayed.sec, relayed.nanosec = at.sec, at.nanosec
            why = _answer(plan, reading, order, controller, relayed, shared, at)
            until = arrived + times[1]
        elif has_command:
            why = _forward(plan, order, controller, relayed, at, arrived)
        else:
            why, until = _watch(plan, order, controller, relayed, at), arrived + times[2]
        shared[ENDED] += 1
        if has_come or at.has_changed or np.isfinite(at.tau[0]):
            shared[WRITTEN] += 1
        c_at(plan[UNLOCK], (plan[MUTEX],))
        if why != GO_ON:
            return why
        if at.done - at.now > times[3]:
            return LEFT


@ahead
def compile_serve() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    reading = Reading(np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64),
                      np.zeros((3, 1), dtype=np.uint64), np.zeros(10, dtype=np.int64),
                      VELOCITY.new(n=1))
    shared = np.array([1, *[0] * (len(COUNTERS) - 1)])  # interrupted: returns at once
    serve(np.zeros(END, dtype=np.int64), reading, Known.empty(), np.zeros(1, dtype=np.int64),
          CONTROLLER.new(), RELAYED.new(n=1), ANSWER.new(n=1).words[None], shared, np.zeros(4))
    lock(serve)
