# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled reading of the serialized commands of another controller, for a relay."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.addresses import bytes_at, integers_at, numbers_at
from osc_ros.compile.compiled import inlined
from osc_ros.control.safety.command_check import find_fault, GOOD, remember
from osc_ros.recording.cdr import LABEL_AT
from osc_ros.ros.dds.rcl_plan import (
    GID,
    INFO,
    INFO_SIZE,
    LABEL,
    LENGTH,
    NANO_DIGITS,
    OUTBOUND,
    SECOND_INBOUND,
    VALUES,
)


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
def puts_command(plan, order, relayed, spacing, now):
    """Copy a valid command to the outgoing message and `relayed`, or return False."""
    # Python must handle a command of another publisher or layout, or one that is refused.
    # `spacing` is the mean time between two states, `now` the time [s].
    n, info = len(order), integers_at(plan[INFO], INFO_SIZE)
    for k in range(2):
        if info[GID + k] != relayed.gid[k]:
            return False
    if not _copies(plan, n):
        return False
    time, wanted = _labelled_time(plan), numbers_at(plan[VALUES], n)
    if not np.isfinite(time) or find_fault(relayed, time, spacing, wanted) != GOOD:
        return False
    remember(relayed, time, wanted)
    relayed.heard = now
    for i in range(n):
        relayed.command[order[i]] = wanted[i]
    return True
