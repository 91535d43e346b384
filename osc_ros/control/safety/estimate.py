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
# Positions in coarse steps have a longer fit, in which older positions count less: by MEMORY [s].
# Steps are coarse if a joint moves for more than COARSE [s] at its fastest to make one. Smaller
# steps than FINE are due to rounding [rad, m].
# DIVISIBLE: remainder of the division of two steps, relative to the divisor, that counts as 0.
MEMORY, COARSE, FINE, DIVISIBLE = 0.02, 4e-4, 1e-6, 0.02


@inlined
def _learn_step(at, i, step):
    """Update the resolution of a joint: Euclid's common divisor of the steps of its positions."""
    known = at.steps[i]
    left = np.abs(step)
    if known > 0.0:
        left = np.abs(left - known * np.rint(left / known))
    if left > max(FINE, DIVISIBLE * known):
        at.steps[i] = left


@inlined
def _filter(at, robot, time, q):
    """
    Update the longer fit: a parabola through all positions, whose weights decay exponentially.

    It is the fading-memory filter of degree 2; N. Morrison, Introduction to Sequential Smoothing
    and Prediction, 1969. One position that jumps is skipped; after two in a row the fit begins
    anew.

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
            at.filter[0, i], at.filter[1, i], at.filter[2, i] = q[i], 0.0, 0.0
        return
    keeps = np.exp(-dt / MEMORY)
    g, h, k = 1.0 - keeps**3, 1.5 * (1.0 - keeps)**2 * (1.0 + keeps), (1.0 - keeps)**3
    for i in range(len(q)):
        x, v, a = at.filter[0, i], at.filter[1, i], at.filter[2, i]
        x, v = x + dt * (v + 0.5 * dt * a), v + dt * a
        left = short_step(robot, i, q[i] - x)
        # the position was rounded, so the fit is wrong only by what exceeds half a step
        left -= min(max(left, -0.5 * at.steps[i]), 0.5 * at.steps[i])
        at.filter[0, i], at.filter[1, i] = x + g * left, v + h * left / dt
        at.filter[2, i] = a + k * left / dt**2


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
    is_long = at.times[newest] - at.filter_begin[0] > LONGEST_GAP
    for i in range(n):
        way[i] = (weights[0] * sums[0, i] + weights[1] * sums[1, i] + weights[2] * sums[2, i]
                  ) / scale
        if is_long and at.steps[i] > COARSE * robot.fastest[i]:
            way[i] = at.filter[1, i]
    return True
