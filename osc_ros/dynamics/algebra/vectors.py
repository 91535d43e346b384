# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Small operations on arrays for kernels."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined


@inlined
def assign(out, values):
    """Write values (n,) to out (n,); in a kernel, `out[:] = values` would allocate memory."""
    for i in range(len(out)):
        out[i] = values[i]


@inlined
def any_beyond(values, limits, share):
    """Whether any |values[i]| exceeds share × limits[i]."""
    found = False
    for i in range(len(values)):
        found = found or np.abs(values[i]) > share * limits[i]
    return found


@inlined
def interval_of(knots, x):
    """Index k with knots[k] ≤ x < knots[k + 1]; the first or last interval if x is outside."""
    low, high = 0, len(knots) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle
        else:
            high = middle
    return low
