# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Estimate of joint velocities: the slope of a parabola through the last stamped positions."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.data import MOST
from osc_ros.control.safety.sample import (
    JUMP_FACTOR,
    JUMP_FLOOR,
    longest_step,
    resolution,
    short_step,
)
from osc_ros.dynamics.algebra.vectors import assign

WINDOW, LEAST = 0.03, 5  # duration [s], and least number, of the positions of a fit
LONGEST_GAP = 0.1  # longest time between two positions of one window [s]
SHORTEST = 1e-3  # least time that is assumed between two positions in the search of jumps [s]
# Positions in steps of more than COARSE have a longer fit, in which older positions count less.
# Its time constant is MEMORY [s] for steps of COARSEST or more [rad, m], and goes with the square
# root of the step: a longer one lets the control loop oscillate, a shorter one torques step.
# SMOOTH: time constant of the differences of position and fit [s].
COARSE, COARSEST, MEMORY, SMOOTH = 4.5e-4, 1.75e-3, 0.0175, 0.003
# Smaller steps than FINE are due to rounding [rad, m]. DIVISIBLE: remainder of the division of two
# steps, relative to the divisor, that counts as 0. SAME: largest difference of two estimates from
# the same positions [rad/s, m/s].
FINE, DIVISIBLE, SAME = 1e-6, 0.02, 1e-6
BLOCK = 30  # number of steps from which the resolution is learned
# The noise of positions is learned from blocks of NOISE_BLOCK states, first from NOISE_LEAST.
# It grows by at most GROWTH from block to block, but at once to FINE: a vibration is not noise.
NOISE_BLOCK, NOISE_LEAST, GROWTH = 24, 8, 1.25


@inlined
def _learn_step(d, i, step):
    """Update the resolution of a joint: Euclid's common divisor of its last position steps."""
    # It is learned anew from each BLOCK steps, so that one odd step does not count for ever. Steps
    # that are all alike come from a constant velocity, unless some states in between repeat.
    left, known = np.abs(step), d.divisor[i]
    if left <= FINE:
        d.is_varied[i] = d.is_varied[i] or d.divided[i] > 0
        return
    d.divided[i] += 1
    if known > 0.0:
        count = np.rint(left / known)
        left = np.abs(left - known * count)
        d.is_varied[i] = d.is_varied[i] or count != 1.0
    if left > max(FINE, DIVISIBLE * known):
        d.divisor[i] = left
    is_complete = d.divided[i] >= BLOCK
    if d.is_varied[i] and (is_complete or not d.is_learned[i]):
        d.steps[i], d.is_learned[i] = d.divisor[i], is_complete
    if is_complete:
        d.divided[i], d.divisor[i], d.is_varied[i] = 0, 0.0, False


@stage
def _learn_noise(m, d):
    """Update the noise of all joints: third differences of the last positions show it."""
    # What the integrals of the velocities show, too, is motion, even if velocities are wrong. If
    # there are only three positions, second differences are used.
    last, c = d.fit_newest, (d.fit_newest - 1) % MOST
    b, a = (d.fit_newest - 2) % MOST, (d.fit_newest - 3) % MOST
    dt, second = d.fit_times[last] - d.fit_times[c], d.fit_times[c] - d.fit_times[b]
    first = d.fit_times[b] - d.fit_times[a] if d.fit_count > 3 else second
    if not max(dt, second, first) < LONGEST_GAP:
        return
    # weights of the steps before the last one: -2 and 1 if the times are equal
    ratio = (dt + second) / (second + first) if d.fit_count > 3 else 0.0
    v, w = -dt / second * (1.0 + ratio), dt / first * ratio
    squares = 1.0 + (v - 1.0)**2 + (w - v)**2 + w * w
    d.noise_count += 1
    count = min(d.noise_count, NOISE_BLOCK)
    is_complete = d.noise_count % NOISE_BLOCK == 0
    for i in range(d.n):
        left = (short_step(m, i, d.fit_q[last, i] - d.fit_q[c, i])
                + v * short_step(m, i, d.fit_q[c, i] - d.fit_q[b, i])
                + w * short_step(m, i, d.fit_q[b, i] - d.fit_q[a, i]))
        # the integrals of the velocities, twice
        also = (dt * (d.fit_qd[last, i] + d.fit_qd[c, i])
                + v * second * (d.fit_qd[c, i] + d.fit_qd[b, i])
                + w * first * (d.fit_qd[b, i] + d.fit_qd[a, i]))
        left = max(np.abs(left) - 0.5 * np.abs(also), 0.0)
        left = min(left, JUMP_FLOOR + JUMP_FACTOR * m.fastest[i] * dt)
        d.noise_sums[i] += left * left / squares
        # rounding has a variance of 1/12 of the squared step
        found, known = np.sqrt(12.0 * d.noise_sums[i] / count), d.noise_steps[i]
        if d.noise_count <= NOISE_LEAST:
            d.noise_steps[i] = found
        elif d.noise_count <= NOISE_BLOCK:
            d.noise_steps[i] = min(found, known)
        elif is_complete:
            d.noise_steps[i] = min(found, GROWTH * max(known, FINE))
        if is_complete:
            d.noise_sums[i] = 0.0


@inlined
def _resolution(d, i):
    """Resolution of the positions of a joint; COARSEST before its first change [rad, m]."""
    return resolution(d, i) if d.steps[i] > 0.0 else COARSEST


@inlined
def _memory(d, i):
    """Time constant of the longer fit of a joint [s]."""
    return MEMORY * np.sqrt(min(_resolution(d, i) / COARSEST, 1.0))


@inlined
def _uses_longer_fit(d, i):
    return _resolution(d, i) > COARSE and d.filter_time - d.filter_begin > LONGEST_GAP


@inlined
def put_velocity_errors(d, q, qd):
    """Find which velocities (n,) are estimates from coarse positions; write their errors."""
    # The largest error is a step of the positions, divided by the time constant of the fit. While
    # positions (n,) repeat, the fit says 0, and so do drivers that differentiate.
    is_changed, d.velocity_memory = d.filter_time != d.sample_time, 0.0  # the fit skips jumps
    for i in range(len(q)):
        is_changed = is_changed or q[i] != d.changed_q[i]
    for i in range(len(q)):
        if is_changed or d.steps[i] == d.divisor[i] == 0.0:
            is_own = d.filter_time == d.sample_time and _uses_longer_fit(d, i) and (
                np.abs(qd[i] - d.filter[1, i]) <= SAME)
            d.velocity_error[i] = _resolution(d, i) / _memory(d, i) if is_own else 0.0
        if d.velocity_error[i] > 0.0:
            d.velocity_memory = max(d.velocity_memory, _memory(d, i))


@inlined
def smooth_positions(m, d, q):
    """Replace the positions in q (n,) whose velocities are such estimates by those of the fit."""
    for i in range(len(q)):
        if d.velocity_error[i] > 0.0:
            q[i] += short_step(m, i, d.filter[0, i] - q[i])


@inlined
def _filter(m, d, time, q):
    """Update the longer fit: a parabola through all positions, with decaying weights."""
    # It is the fading-memory filter of degree 2; N. Morrison, Introduction to Sequential Smoothing
    # and Prediction, 1969. One position that jumps is skipped; after two the fit begins anew.
    dt = time - d.filter_time
    is_new, jumps = not 0.0 < dt <= LONGEST_GAP, False
    for i in range(len(q)):
        left = short_step(m, i, q[i] - d.filter[0, i] - dt * d.filter[1, i])
        jumps = jumps or not np.abs(left) <= longest_step(m, d, i, max(dt, SHORTEST))
    if jumps and not is_new and d.filter_time == d.fit_times[d.fit_newest]:
        return
    is_new = is_new or jumps
    d.filter_time = time
    if is_new:
        d.filter_begin = time
        for i in range(len(q)):
            d.filter[:, i] = 0.0
            d.filter[0, i] = q[i]
        return
    smooths = 1.0 - np.exp(-dt / SMOOTH)
    for i in range(len(q)):
        keeps = np.exp(-dt / _memory(d, i))
        g, h, k = 1.0 - keeps**3, 1.5 * (1.0 - keeps)**2 * (1.0 + keeps), (1.0 - keeps)**3
        x, v, a = d.filter[0, i], d.filter[1, i], d.filter[2, i]
        x, v = x + dt * (v + 0.5 * dt * a), v + dt * a
        left = d.filter[3, i] + smooths * (short_step(m, i, q[i] - x) - d.filter[3, i])
        d.filter[3, i] = left
        d.filter[0, i], d.filter[1, i] = x + g * left, v + h * left / dt
        d.filter[2, i] = a + k * left / dt**2


@inlined
def put_position(m, d, time, q, qd):
    """Store positions and measured velocities (n,) with a stamp that advances."""
    last, row = d.fit_newest, (d.fit_newest + 1) % MOST
    if d.fit_count > 0:
        for i in range(len(q)):
            step = short_step(m, i, q[i] - d.fit_q[last, i])
            if np.abs(step) <= longest_step(m, d, i, max(time - d.fit_times[last], SHORTEST)):
                _learn_step(d, i, step)
    _filter(m, d, time, q)
    d.fit_newest, d.fit_count, d.fit_times[row] = row, min(d.fit_count + 1, MOST), time
    assign(d.fit_q[row], q)
    assign(d.fit_qd[row], qd)
    if d.fit_count > 2:
        _learn_noise(m, d)


@inlined
def forget_positions(d):
    """Begin anew, because the stamps have gone back."""
    d.fit_count = 0


@inlined
def is_jump(m, d, row, last, gap):
    """Whether the joints cannot have moved from one stored position to the other in `gap` [s]."""
    for i in range(d.n):
        step = short_step(m, i, d.fit_q[last, i] - d.fit_q[row, i])
        if not np.abs(step) <= longest_step(m, d, i, max(gap, SHORTEST)):
            return True
    return False


@stage
def put_estimate(m, d, window):
    """Estimate velocities at the newest position; return whether there are enough positions."""
    # Parabola through the positions of the last `window` [s], at least LEAST, by normal equations;
    # times relative to WINDOW. The loop goes back in time. It skips a position from which the
    # joints cannot have reached the next one; after two in a row it ends, because the jump is
    # permanent.
    n, newest, last, count, out = d.n, d.fit_newest, d.fit_newest, 1, 0
    way, sums, s1, s2, s3, s4 = d.estimate, d.fit_sums, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        way[i] = sums[0, i] = sums[1, i] = sums[2, i] = 0.0
    for k in range(1, d.fit_count):
        row = (newest - k) % MOST
        gap = d.fit_times[last] - d.fit_times[row]
        x = (d.fit_times[row] - d.fit_times[newest]) / WINDOW
        if gap > LONGEST_GAP or count >= LEAST and x * WINDOW < -window - 1e-9:
            break
        if is_jump(m, d, row, last, gap):
            out += 1
            if out > 1:
                break
            continue
        for i in range(n):
            way[i] -= short_step(m, i, d.fit_q[last, i] - d.fit_q[row, i])
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
        if _uses_longer_fit(d, i):
            way[i] = d.filter[1, i]
    return True
