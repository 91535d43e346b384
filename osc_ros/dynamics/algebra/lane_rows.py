# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Copy rows of arrays, one per state, to SIMD lanes and back."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.compile.either import lane_array, lane_number, select
from osc_ros.compile.lane_arrays import WIDTH


@inlined
def load_rows(rows, first, values):
    """Copy rows[first:first + WIDTH] to the SIMD lanes `values`; no effect if `rows` is None."""
    # One row per lane. If fewer than WIDTH rows remain, each surplus lane gets the last row.
    if rows is not None:
        for lane in range(WIDTH):
            row, numbers = min(first + lane, len(rows) - 1), lane_array(values, lane)
            for i in range(len(numbers)):
                numbers[i] = rows[row, i]


@inlined
def store_rows(rows, first, values, good):
    """Write lanes to the existing rows[first:first + WIDTH]; NaN in lanes where `good` is 0."""
    for lane in range(min(WIDTH, len(rows) - first)):
        is_good, numbers = lane_number(good, lane) > 0.0, lane_array(values, lane)
        for i in range(len(numbers)):
            rows[first + lane, i] = numbers[i] if is_good else np.nan


@inlined
def mark_rows(valid, first, good):
    """Write whether `good` is 1, per lane, to the existing entries valid[first:first + WIDTH]."""
    for lane in range(min(WIDTH, len(valid) - first)):
        valid[first + lane] = lane_number(good, lane) > 0.0


@inlined
def zero_if_finite(numbers):
    """Return 0 in the lanes in which all numbers of an array are finite, else NaN."""
    total = 0.0
    for i in range(len(numbers)):
        total += 0.0 * numbers[i]
    return total


@inlined
def is_zero(total):
    """Return 1 in the lanes in which `total`, a sum of `zero_if_finite`, is 0; else 0."""
    return select(total == 0.0, 1.0, 0.0)
