# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Rows of arrays, one for each state, to and from lanes."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.compile.either import lane_array, lane_number, select
from osc_ros.compile.lane_arrays import WIDTH


@inlined
def load_rows(rows, first, values):
    """
    Write rows[first:first + WIDTH] to an array of lanes, one row to a lane.

    After the last row, the lanes repeat it.

    """
    for lane in range(WIDTH):
        row, numbers = min(first + lane, len(rows) - 1), lane_array(values, lane)
        for i in range(len(numbers)):
            numbers[i] = rows[row, i]


@inlined
def store_rows(rows, first, values, good):
    """Write lanes to rows[first:first + WIDTH], as far as there are rows: NaN where not `good`."""
    for lane in range(min(WIDTH, len(rows) - first)):
        is_good, numbers = lane_number(good, lane) > 0.0, lane_array(values, lane)
        for i in range(len(numbers)):
            rows[first + lane, i] = numbers[i] if is_good else np.nan


@inlined
def mark_rows(valid, first, good):
    """Write to valid[first:first + WIDTH], as far as there are entries, where `good` is 1."""
    for lane in range(min(WIDTH, len(valid) - first)):
        valid[first + lane] = lane_number(good, lane) > 0.0


@inlined
def zero_if_finite(numbers):
    """0 in the lanes in which all numbers of an array are finite, else NaN."""
    total = 0.0
    for i in range(len(numbers)):
        total += 0.0 * numbers[i]
    return total


@inlined
def goodness(total):
    """1 in the lanes in which a sum of results of `zero_if_finite` is 0, else 0."""
    return select(total == 0.0, 1.0, 0.0)
