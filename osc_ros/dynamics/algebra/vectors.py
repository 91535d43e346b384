# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Small operations on arrays for kernels, and values that approach others smoothly."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined

# Largest rate of a torque that changes from one source to another, relative to the joint's
# effort limit [1/s].
CHANGE_RATE = 1.0
LONGEST_TICK = 0.02  # longest time by which a change advances in one tick [s]
SETTLED = 6.64  # ω t after which 1 % of a critically damped step remains


@inlined
def smoothed(x: float) -> float:
    """Smooth step (C¹): 0 for x ≤ 0, 1 for x ≥ 1."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)


@inlined
def step_share(age, dt, duration, is_smoother):
    """Share of the rest of a smooth step that passes in dt [s] after an age [s]; 1 at its end."""
    # C¹, or C² if `is_smoother`: for what drives joints, as the activation of a task.
    if age + dt >= duration:
        return 1.0
    x, y = age / duration, (age + dt) / duration
    if is_smoother:
        return 1.0 - (1.0 - y * y * y * (10.0 - 15.0 * y + 6.0 * y * y)) / (
            1.0 - x * x * x * (10.0 - 15.0 * x + 6.0 * x * x))
    return 1.0 - (1.0 - smoothed(y)) / (1.0 - smoothed(x))


@inlined
def move_towards(values, wanted, share):
    """Move values (n,) by a share of the way to others (n,); infinite ones change at once."""
    for i in range(len(values)):
        now, end = values[i], wanted[i]
        is_gradual = share < 1.0 and np.isfinite(now) and np.isfinite(end)
        values[i] = now + share * (end - now) if is_gradual else end


@inlined
def damped(now, slope, wanted, time, dt):
    """Value and slope after dt [s] of an approach, critically damped, by a time constant [s]."""
    decay, push = np.exp(-dt / time), slope + (now - wanted) / time
    return wanted + (now - wanted + push * dt) * decay, (slope - push * dt / time) * decay


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
