# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Estimate of joint velocities: the slope of a parabola through the last stamped positions."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.safety.sample import longest_step, short_step
from osc_ros.control.safety.tables import MOST
from osc_ros.dynamics.algebra.vectors import assign

WINDOW, LEAST = 0.03, 5  # duration [s], and least number, of the positions of a fit
LONGEST_GAP = 0.1  # longest time between two positions of one window [s]
SHORTEST = 1e-3  # least time that is assumed between two positions in the search of jumps [s]
# Positions in steps of more than COARSE have a longer fit, in which older positions count less.
# Its memory is MEMORY [s] for steps of COARSEST or more, and goes with their cube root: a longer
# one would let the control loop oscillate, a shorter one lets torques step. SMOOTH: time constant
# of the differences of position and fit [s]. Smaller steps than FINE are due to rounding [rad, m].
# DIVISIBLE: remainder of the division of two steps, relative to the divisor, that counts as 0.
COARSE, COARSEST, MEMORY, SMOOTH = 1.2e-4, 1.75e-3, 0.017, 0.003
FINE, DIVISIBLE = 1e-6, 0.02
NOISE = 18.0  # of the external torques for steps of COARSEST, relative to the default thresholds
SAME = 1e-4  # largest difference of two estimates from the same positions [rad/s, m/s]
# number of steps after which the resolution is learned anew, and from which different ones count
BLOCK, CERTAIN = 30, 8
# The fit begins with a memory of YOUNG times its age, and is used from GROWN [s] on.
YOUNG, GROWN = 0.3, 0.02


@inlined
def _learn_step(at, i, step):
    """
    Update the resolution of a joint: Euclid's common divisor of the steps of its positions.

    It is learned anew after BLOCK steps, so that one odd step does not count for ever. Steps that
    are all alike are those of a constant velocity, unless the position stands in between.

    """
    left, known = np.abs(step), at.divisor[i]
    if left <= FINE:
        at.varied[i] = 1.0
        return
    at.divided[i] += 1.0
    if known > 0.0:
        count = np.rint(left / known)
        left = np.abs(left - known * count)
        if count != 1.0 and at.divided[i] > CERTAIN:
            at.varied[i] = 1.0
    if left > max(FINE, DIVISIBLE * known):
        at.divisor[i] = left
    is_complete = at.divided[i] >= BLOCK
    if at.varied[i] > 0.0 and (
            is_complete or at.steps[i] == 0.0 or at.divisor[i] < at.steps[i]):
        at.steps[i] = at.divisor[i]
    if is_complete:
        at.divided[i] = at.divisor[i] = at.varied[i] = 0.0


@inlined
def _filter(at, robot, time, q):
    """
    Update the longer fit: a parabola through all positions, whose weights decay exponentially.

    It is the fading-memory filter of degree 2; N. Morrison, Introduction to Sequential Smoothing
    and Prediction, 1969. One position that jumps is skipped; after
    two in a row the fit begins anew.

    """
    dt = time - at.filter_time[0]
    is_new, jumps = not 0.0 < dt <= LONGEST_GAP, False
    for i in range(len(q)):
        left = short_step(robot, i, q[i] - at.filter[0, i] - dt * at.filter[1, i])
        jumps = jumps or not np.abs(left) <= longest_step(robot, i, max(dt, SHORTEST))
    if jumps and not is_new and at.filter_time[0] == at.times[int(at.newest[0])]:
        return
    is_new = is_new or jumps
    at.filter_time[0] = time
    if is_new:
        at.filter_begin[0] = time
        for i in range(len(q)):
            at.filter[0, i] = q[i]
            at.filter[1, i] = at.filter[2, i] = at.filter[3, i] = 0.0
        return
    coarsest = 0.0
    for i in range(len(q)):
        coarsest = max(coarsest, at.steps[i])
    share = min(coarsest / COARSEST, 1.0) if coarsest > 0.0 else 1.0
    memory = min(MEMORY * np.cbrt(share), YOUNG * (time - at.filter_begin[0]))
    keeps, takes = np.exp(-dt / memory), 1.0 - np.exp(-dt / min(SMOOTH, memory))
    g, h, k = 1.0 - keeps**3, 1.5 * (1.0 - keeps)**2 * (1.0 + keeps), (1.0 - keeps)**3
    for i in range(len(q)):
        x, v, a, left = at.filter[0, i], at.filter[1, i], at.filter[2, i], at.filter[3, i]
        x, v = x + dt * (v + 0.5 * dt * a), v + dt * a
        left += takes * (short_step(robot, i, q[i] - x) - left)
        at.filter[0, i], at.filter[1, i] = x + g * left, v + h * left / dt
        at.filter[2, i], at.filter[3, i] = a + k * left / dt**2, left


@inlined
def _uses_longer_fit(at, i):
    return at.steps[i] > COARSE and at.filter_time[0] - at.filter_begin[0] > GROWN


@inlined
def noise_factor(at, i, qd):
    """Factor on the thresholds of a joint: more than 1 if qd is the estimate of the longer fit."""
    if _uses_longer_fit(at, i) and np.abs(qd - at.filter[1, i]) <= SAME:
        return 1.0 + NOISE * min(at.steps[i] / COARSEST, 1.0)**0.6
    return 1.0


@inlined
def smooth_positions(at, robot, q):
    """Replace positions in coarse steps in q (n,), the newest ones, by those of the longer fit."""
    for i in range(len(q)):
        if _uses_longer_fit(at, i):
            q[i] += short_step(robot, i, at.filter[0, i] - q[i])


@inlined
def put_position(at, robot, time, q):
    """Store positions (n,) with a stamp that advances; `robot` has `fastest` and `turns`."""
    last, row = int(at.newest[0]), (int(at.newest[0]) + 1) % MOST
    if at.kept[0] > 0.0:
        for i in range(len(q)):
            step = short_step(robot, i, q[i] - at.positions[last, i])
            if np.abs(step) <= longest_step(robot, i, max(time - at.times[last], SHORTEST)):
                _learn_step(at, i, step)
    _filter(at, robot, time, q)
    at.newest[0], at.kept[0], at.times[row] = row, min(at.kept[0] + 1.0, MOST), time
    assign(at.positions[row], q)


@inlined
def forget_positions(at):
    """Begin anew, because the stamps have gone back."""
    at.kept[0] = 0.0


@inlined
def _is_jump(at, robot, row, last, gap):
    """Whether the joints cannot have moved from one stored position to the other in `gap` [s]."""
    for i in range(len(robot.fastest)):
        step = short_step(robot, i, at.positions[last, i] - at.positions[row, i])
        if not np.abs(step) <= longest_step(robot, i, max(gap, SHORTEST)):
            return True
    return False


@stage
def put_estimate(at, robot, window):
    """
    Estimate the velocities at the newest position; return whether there are enough positions.

    A parabola is fitted to the positions of the last `window` seconds, at least LEAST, by its
    normal equations; times are relative to WINDOW, positions to the newest one. The loop goes back
    in time. It skips a position from which the joints cannot have reached the next one; after two
    such positions in a row it ends, because the jump is permanent.

    """
    n, newest, last, count, out = len(robot.fastest), int(at.newest[0]), int(at.newest[0]), 1, 0
    way, sums, s1, s2, s3, s4 = at.estimate, at.sums, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        way[i] = sums[0, i] = sums[1, i] = sums[2, i] = 0.0
    for k in range(1, int(at.kept[0])):
        row = (newest - k) % MOST
        gap, x = at.times[last] - at.times[row], (at.times[row] - at.times[newest]) / WINDOW
        if gap > LONGEST_GAP or count >= LEAST and x * WINDOW < -window - 1e-9:
            break
        if _is_jump(at, robot, row, last, gap):
            out += 1
            if out > 1:
                break
            continue
        for i in range(n):
            way[i] -= short_step(robot, i, at.positions[last, i] - at.positions[row, i])
            sums[0, i] += way[i]
            sums[1, i] += x * way[i]
            sums[2, i] += x * x * way[i]
        s1, s2, s3, s4 = s1 + x, s2 + x**2, s3 + x**3, s4 + x**4
        last, out, count = row, 0, count + 1
    if count < LEAST:
        return False
    weights = s2 * s3 - s1 * s4, count * s4 - s2**2, s1 * s2 - count * s3
    scale = WINDOW * (s1 * weights[0] + s2 * weights[1] + s3 * weights[2])
    for i in range(n):
        way[i] = (weights[0] * sums[0, i] + weights[1] * sums[1, i] + weights[2] * sums[2, i]
                  ) / scale
        if _uses_longer_fit(at, i):
            way[i] = at.filter[1, i]
    return True
