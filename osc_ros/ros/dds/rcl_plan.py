# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled calls of rcl functions: wait for messages, take them, publish torques."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.addresses import bytes_at, c_at, integers_at, numbers_at
from osc_ros.compile.compiled import inlined

# Entries of a plan, the array of addresses that compiled code gets: functions; objects of rcl and
# of the system; number of topics; for each topic its subscription, and the message that was taken;
# message to publish; length (a number) and address of its label; address of its torques. The owner
# of the plan has the entries from MORE on.
(WAIT, CLEAR, ADD_SUBSCRIPTION, ADD_GUARD, TAKE, PUBLISH, IS_VALID, CLOCK, LOCK, UNLOCK, CONTEXT,
 WAIT_SET, GUARD, PUBLISHER, TIME, MUTEX, INFO, TOPICS, FIRST, INBOUND, SECOND, SECOND_INBOUND,
 OUTBOUND, LENGTH, LABEL, VALUES, MORE) = range(27)
NANO_DIGITS = 10  # characters of a label after its seconds
MONOTONIC = np.int64(1)  # the clock of `time.perf_counter`, for clock_gettime
TIMED_OUT = 2  # RCL_RET_TIMEOUT
INFO_SIZE = 16  # size of the memory for an rmw_message_info_t [integers]
GID = 5  # index of its integer at which the publisher's GID begins


@inlined
def clock(plan):
    """Return the time of `time.perf_counter` [s]."""
    c_at(plan[CLOCK], (MONOTONIC, plan[TIME]))
    found = integers_at(plan[TIME], 2)
    return found[0] + 1e-9 * found[1]


@inlined
def wait(plan, seconds):
    """Wait up to a time [s] for a message or the guard condition; return False if rcl fails."""
    waiting, nothing = plan[WAIT_SET], np.int64(0)
    status = c_at(plan[CLEAR], (waiting,))
    for k in range(plan[TOPICS]):
        status |= c_at(plan[ADD_SUBSCRIPTION], (waiting, plan[FIRST + 2 * k], nothing))
    status |= c_at(plan[ADD_GUARD], (waiting, plan[GUARD], nothing))
    if status != 0:
        return False
    status = c_at(plan[WAIT], (waiting, np.int64(1e9 * max(seconds, 0.0))))
    return status == 0 or status == TIMED_OUT


@inlined
def take(plan, k):
    """Take the oldest message of topic k; return False if there is none."""
    return 0 == c_at(plan[TAKE], (plan[FIRST + 2 * k], plan[INBOUND + 2 * k], plan[INFO],
                                  np.int64(0)))


@inlined
def puts_label(plan, seconds, nano):
    """Write the label of a command; return False if its length differs from the previous label."""
    out = bytes_at(plan[LABEL], plan[LENGTH])
    digits = plan[LENGTH] - NANO_DIGITS
    if seconds < 0 or digits < 1:
        return False
    for k in range(digits):
        out[digits - 1 - k] = 48 + seconds % 10
        seconds //= 10
    if seconds > 0 or digits > 1 and out[0] == 48:
        return False
    out[digits] = 46  # a point
    for k in range(9):
        out[digits + 9 - k] = 48 + nano % 10
        nano //= 10
    return True


@inlined
def publish(plan, message, values, order, tau):
    """Write torques tau (n,) to the address `values`, and publish; return whether this failed."""
    sent = numbers_at(values, len(order))
    for i in range(len(order)):
        sent[i] = tau[order[i]]
    return 0 != c_at(plan[PUBLISH], (plan[PUBLISHER], message, np.int64(0)))
