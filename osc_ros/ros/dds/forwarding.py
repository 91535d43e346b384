# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Compiled loop that forwards commands over DDS without the GIL.

`forward` checks joint states and commands, and publishes the commands of the chosen publisher or
the torques of the present reaction. It leaves messages that it cannot handle to Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import bytes_at, c_at, integers_at, numbers_at
from osc_ros.compile.compiled import ahead, inlined, lock, released, view
from osc_ros.control.data import D, M
from osc_ros.control.safety.causes import replaces_law, report_fault
from osc_ros.control.safety.command_check import find_fault, GOOD, remember
from osc_ros.control.safety.safety import accept, answer_at, update
from osc_ros.loop.velocity import undo_velocity, VELOCITY
from osc_ros.recording.cdr import LABEL_AT
from osc_ros.ros.dds.rcl_plan import (
    clock,
    CONTEXT,
    GID,
    INBOUND,
    INFO,
    INFO_SIZE,
    IS_VALID,
    LABEL,
    LENGTH,
    LOCK,
    MORE,
    MUTEX,
    NANO_DIGITS,
    OUTBOUND,
    publish,
    puts_label,
    SECOND_INBOUND,
    take,
    UNLOCK,
    VALUES,
    wait,
)
from osc_ros.ros.dds.state_publishers import IGNORED, Known, source_of, USED
from osc_ros.ros.messages.serialized_states import NANOSEC, puts_motion, Reading, reads, SEC

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Further entries of the plan, all addresses: of `osc_ros.control.safety.safety.answer`; of the
# message for torques without a state, and of its numbers.
ANSWER, UNASKED_OUTBOUND, UNASKED_VALUES = range(MORE, MORE + 3)
# Entries of the shared counters: 1 if the call must end; 1 if the reaction or its cause has
# changed, and Python has not noted it; number of forwarded commands; stamp of the newest state;
# number of published torques of reactions.
COUNTERS = LEAVE, CHANGED, FORWARDED, NEWEST_SEC, NEWEST_NANOSEC, OWN = range(6)
# Reasons why `forward` returns. ASKED: another thread wants it, or the context of ROS has ended.
# STATE, COMMAND: Python must handle the message that was taken. REJECTED: a state was not
# plausible. LABELLED: the label of a state has another length than before. GIVEN_UP: the
# supervisor has given up control of the arm. FAILED: a function of rcl has failed.
ASKED, STATE, COMMAND, REJECTED, LABELLED, GIVEN_UP, FAILED, GO_ON = range(8)


class Guarded(NamedTuple):
    """The records of the supervisor."""

    m: Any
    d: Any


class Expected(NamedTuple):
    """
    Data for the check of commands.

    Attributes
    ----------
    gid, heard
        See `osc_ros.ros.messages.publishers.Source`.
    bounds, memory
        See `osc_ros.control.safety.command_check.CommandCheck`.
    order : (n,) int
        For each entry of a command, the index of its joint in the robot.
    watchdogs : (3,) int
        Indices of the watchdogs of silence, of refused commands, and of other publishers.

    """

    gid: Integers
    heard: Array
    bounds: Array
    memory: Array
    order: Integers
    watchdogs: Integers


@inlined
def _looks(guarded, expected, shared, now):
    """
    Update the reaction of the watchdogs; return whether a reaction is in force.

    A reaction to a fault of the commands lasts until a good command comes.

    """
    m, d = guarded.m, guarded.d
    if d.fed[expected.watchdogs[0]] < d.reaction_began:
        for number in expected.watchdogs:
            if d.cause == number:
                report_fault(d, number, now)
    if update(m, d, now):
        shared[CHANGED] = 1
    return replaces_law(d)


@inlined
def _brake(plan, guarded, expected, shared, now, message, values):
    """
    Publish the torques of a reaction; return the reason to leave `forward`, or GO_ON.

    `message` is the address of the outgoing message, `values` that of the numbers in it.

    """
    d = guarded.d
    answer_at(plan[ANSWER], (guarded.m, d, now, view(d.tau, 0, (0,))))
    if d.given_up != 0:
        return GIVEN_UP
    shared[OWN] += 1
    return FAILED if publish(plan, message, values, expected.order, d.tau) else GO_ON


@inlined
def _pass_state(plan, reading, guarded, expected, shared, now):
    """
    Check a joint state; publish torques for it if a reaction is in force.

    Returns the reason to leave `forward`, or GO_ON.

    """
    record, d = reading.record, guarded.d
    if not reads(plan[INBOUND], reading):
        return STATE
    d.sample_time, d.now = puts_motion(reading, d.sample_q, d.sample_qd), now
    if np.isnan(d.sample_time):
        return STATE
    shared[NEWEST_SEC], shared[NEWEST_NANOSEC] = record[SEC], record[NANOSEC]
    if not accept(guarded.m, d):
        undo_velocity(reading.velocity)
        return REJECTED
    if not _looks(guarded, expected, shared, now):
        return GO_ON
    if not puts_label(plan, record[SEC], record[NANOSEC]):
        return LABELLED
    return _brake(plan, guarded, expected, shared, now, plan[OUTBOUND], plan[VALUES])


@inlined
def _copies(plan, n):
    """Copy the received command to the outgoing message; return False if the layouts differ."""
    inbound, outbound = integers_at(plan[SECOND_INBOUND], 2), integers_at(plan[OUTBOUND], 2)
    data, out = bytes_at(inbound[0], inbound[1]), bytes_at(outbound[0], outbound[1])
    values, end = plan[VALUES] - outbound[0], LABEL_AT + plan[LENGTH]
    count = (end + 4) // 4 * 4 + 12  # after the zero of the label, size, stride and offset
    if len(data) < len(out) or data[end] != 0:
        return False
    for k in range(LABEL_AT):
        if data[k] != out[k]:
            return False
    for k in range(count, count + 4):
        if data[k] != out[k]:
            return False
    for k in range(LABEL_AT, end):
        out[k] = data[k]
    for k in range(values, values + 8 * n):
        out[k] = data[k]
    return True


@inlined
def _labelled_time(plan):
    """Return the time [s] of the state that the command's label names; NaN if it names none."""
    text = bytes_at(plan[LABEL], plan[LENGTH])
    seconds, nano, digits = np.int64(0), np.int64(0), len(text) - NANO_DIGITS
    if digits < 1 or text[digits] != 46:  # a point
        return np.nan
    for k in range(len(text)):
        if k != digits and not 48 <= text[k] <= 57:
            return np.nan
        if k < digits:
            seconds = 10 * seconds + text[k] - 48
        elif k > digits:
            nano = 10 * nano + text[k] - 48
    return seconds + 1e-9 * nano


@inlined
def _pass_command(plan, guarded, expected, shared, took, now):
    """Check and forward a command; return the reason to leave `forward`, or GO_ON."""
    n, d, info = len(expected.order), guarded.d, integers_at(plan[INFO], INFO_SIZE)
    for k in range(2):
        if info[GID + k] != expected.gid[k]:
            return COMMAND
    if not _copies(plan, n):
        return COMMAND
    time, wanted = _labelled_time(plan), numbers_at(plan[VALUES], n)
    if not np.isfinite(time) or find_fault(
            expected.bounds, expected.memory, time, d.spacing, wanted) != GOOD:
        return COMMAND
    is_held = _looks(guarded, expected, shared, now)
    remember(expected.memory, time, wanted)
    d.fed[expected.watchdogs[0]] = expected.heard[0] = now
    if is_held and _looks(guarded, expected, shared, now):
        return GO_ON  # the reaction's torques are published with the next state
    for i in range(n):
        d.tau[expected.order[i]] = wanted[i]
    answer_at(plan[ANSWER], (guarded.m, d, now, d.tau))
    if d.given_up != 0:
        return GIVEN_UP
    if publish(plan, plan[OUTBOUND], plan[VALUES], expected.order, d.tau):
        return FAILED
    took[shared[FORWARDED] % len(took)] = clock(plan) - now
    shared[FORWARDED] += 1
    return GO_ON


@inlined
def _watch(plan, guarded, expected, shared, now):
    """
    Without a new state: update the reaction; publish its torques if they are due.

    They are due if the reaction has just begun, or if no joint states arrive. Returns the
    reason to leave `forward`, or GO_ON.

    """
    d, before = guarded.d, guarded.d.reaction
    if not _looks(guarded, expected, shared, now) or not d.is_blind and d.reaction == before:
        return GO_ON  # if there is a reaction, the next state is answered
    seconds = shared[NEWEST_SEC]
    if not d.is_blind and seconds >= 0 and (
            puts_label(plan, seconds, shared[NEWEST_NANOSEC])):
        return _brake(plan, guarded, expected, shared, now, plan[OUTBOUND], plan[VALUES])
    return _brake(plan, guarded, expected, shared, now, plan[UNASKED_OUTBOUND],
                  plan[UNASKED_VALUES])


@inlined
def _look(plan, reading, known, guarded, expected, shared, took, times, now):
    """Take and handle the messages that have arrived; return the reason to leave, or GO_ON."""
    why, source = GO_ON, IGNORED
    if take(plan, 0):
        source = source_of(plan, known, now)
    if source != IGNORED:
        why = STATE
        if source == USED:
            why = _pass_state(plan, reading, guarded, expected, shared, now)
        if why != STATE:
            times[0] = now + times[1]
    if why == GO_ON and take(plan, 1):
        why = _pass_command(plan, guarded, expected, shared, took, clock(plan))
    if why == GO_ON and now >= times[0]:
        times[0] = now + times[1]
        if c_at(plan[IS_VALID], (plan[CONTEXT],)) & 1 == 0:
            return ASKED
        return _watch(plan, guarded, expected, shared, now)
    return why


@released
def forward(plan, reading, known, guarded, expected, shared, took, times):
    """
    Forward commands until Python has work; return the reason.

    Parameters
    ----------
    plan : (MORE + 3,) int
        See ANSWER and `osc_ros.ros.dds.rcl_plan`; the topics are joint states and commands.
    reading : Reading
    known : Known
    guarded : Guarded
    expected : Expected
    shared : (6,) int
        See COUNTERS.
    took : (k,)
        For each of the newest commands, the time from its arrival to its publication [s].
    times : (2,)
        Time of the next check for a reaction of the watchdogs, and longest time between two
        checks [s].

    """
    if shared[LEAVE] > 0:
        return ASKED
    while True:
        if not wait(plan, times[0] - clock(plan)):
            return FAILED
        c_at(plan[LOCK], (plan[MUTEX],))  # while Python changes the records
        why = ASKED if shared[LEAVE] > 0 else _look(
            plan, reading, known, guarded, expected, shared, took, times, clock(plan))
        c_at(plan[UNLOCK], (plan[MUTEX],))
        if why != GO_ON:
            return why


@ahead
def compile_forward() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    x, k = np.zeros(0), np.zeros(0, dtype=np.int64)
    reading = Reading(np.zeros(0, dtype=np.uint8), k, np.zeros((3, 1), dtype=np.uint64), k,
                      VELOCITY.new(n=1))
    shared = np.array([1, 0, 0, 0, 0, 0])  # interrupted: returns at once
    forward(k, reading, Known.empty(), Guarded(M.new(n=1), D.new(n=1)),
            Expected(k, x, np.zeros((2, 1)), x, k, k), shared, x, x)
    lock(forward)
