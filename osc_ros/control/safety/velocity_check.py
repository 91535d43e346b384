# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Estimated velocities, and comparison of the measured ones with the positions, for each joint.

The estimate is the slope of a parabola through the last stamped positions. The comparison has two
steps.

At each state a velocity is bounded by that of a parabola through the last three positions: a wrong
velocity of any kind differs little from the true one at once, before anything is known of it.

The integral of a velocity must be the change of the position, over the last 10 to 300 ms: a
velocity may lag by LAG and a period, may be wrong by SHARE, and both may have noise. Velocities
that do not fit are named, and divided by their factor if there is one, else replaced by estimates.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.data import INTERVALS, MOST
from osc_ros.control.safety.sample import (
    FROZEN_LONG,
    JUMP_FACTOR,
    JUMP_FLOOR,
    longest_step,
    resolution,
    short_step,
)
from osc_ros.dynamics.algebra.spatial import assign

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
    # that are all alike come from a constant velocity, unless some states in between repeat. The
    # first change may be a step of the encoder: it is one until others show smaller steps.
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
    if not d.is_learned[i] or d.is_varied[i] and is_complete:
        d.steps[i], d.is_learned[i] = d.divisor[i], d.is_varied[i] and is_complete
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


INTERVAL = 0.01  # interval of the compared integrals [s]
WINDOWS = 1, 2, 4, 8, 15, 30  # numbers of intervals that are compared
HALF = len(WINDOWS) // 2
LONGEST = 0.35  # longest time that is compared [s]
# A longer time between two states, or one longer than PERIODS intervals, is a gap: the comparison
# begins anew [s].
GAP, PERIODS = 0.025, 3.0
# After a longer time without a change of any position, the comparison begins anew [s].
QUIET = 0.008
RARE = 0.0045  # longer intervals between states need a median of three velocities [s]
LAG, LEAD = 0.01, 0.003  # the velocities may be late, and early, by this time and a period [s]
SHARE = 0.1  # tolerated error of a velocity, relative to the path
# Tolerated difference of integral and position: FLOOR_TIME at the joint's fastest, at most FLOOR
# [rad, m], and STEPS of the smallest steps of the positions.
FLOOR_TIME, FLOOR, STEPS = 0.004, 0.012, 3.0
# Intervals between states above SLOW [s] increase FLOOR_TIME and FLOOR, twofold at SLOWER + SLOW,
# because impacts and reversals between two states are unknown.
SLOW, SLOWER = 0.002, 0.004
NOISE = 3.0  # tolerated standard deviations of the noise, which add at most FLOOR
SUSPECT = 0.3  # factor on LAG and FLOOR after the velocities of a joint have failed
# Tolerance of the bounds of a velocity, relative to the velocity limit. After one has exceeded it,
# all velocities are bounded for WATCHED [s] with STRICT times the tolerance, as estimates are.
# A velocity that exceeds it often to the same side does not fit: such a state counts EACH, each
# state takes 1 away, up to EXCEEDED.
BAND, WATCHED, STRICT, EACH, EXCEEDED = 0.15, 0.3, 0.1, 3, 20
# Factor on the noise for these bounds; it is more after few states.
UNSURE = 2.0
LEAST_ROWS = 3  # number of intervals that show the kind of wrong velocities
IRREGULAR = 2.5  # after a longer time, relative to the mean, stamps show no velocity
RECENT = 0.02  # time constant of the regression of integrals on steps of the positions [s]
# This jump of velocities is reported; before it, their kind may be found.
TOLD_JUMPS = 6
# Duration of the positions of an estimate [s]: shorter than without measured velocities, because
# it takes over from wrong ones in full motion.
PROMPT = 0.012
# Kinds of velocities that do not fit.
(FITS, UNKNOWN, DEGREES, SIGN, ZERO, SCALED, EXCHANGED, LATE, JUMPED) = range(9)
IN_DEGREES = 30.0, 110.0  # ratios to the speed of the positions that count as degrees
TURNED = -1.6, -0.6  # ratios that count as a wrong sign
ALIKE = 0.2  # largest residual of an explanation, relative to the velocities
SMALLEST = 0.2  # velocities are not divided by a smaller factor
LATEST = 12  # largest delay that is tried [intervals]


@inlined
def _median(a, b, c):
    return max(min(a, b), min(max(a, b), c))


@inlined
def _begin(d, time, q, qd):
    """Begin a comparison, at the first state or after a gap."""
    d.states_seen, d.rows, d.stamps[0] = 1, 0, time
    for i in range(len(q)):
        d.measured[0, i] = d.typical[i] = qd[i]
        d.travel[i] = d.integral[i] = d.path[i] = d.noise[i] = 0.0
        d.travel_step[i] = d.rough[i] = d.recent_products[0, i] = d.recent_products[1, i] = 0.0


@inlined
def _residuals(d, i, other, late, gain):
    """Compare integrals of joint i with `gain` times the earlier travel of joint `other`."""
    # The travel is that `late` intervals before. Return sums over all intervals: of the squared
    # difference, of travel², integral · travel and integral².
    first, left, qq, iq, ii = max(d.rows - INTERVALS, 0), 0.0, 0.0, 0.0, 0.0
    for k in range(first, d.rows - 1):
        after, row, before = (k + 1) % INTERVALS, k % INTERVALS, (k - late) % INTERVALS
        said = d.row_integral[after, i] - d.row_integral[row, i]
        went = (d.row_travel[(before + 1) % INTERVALS, other] - d.row_travel[before, other]
                if k - late >= first else 0.0)
        left, qq = left + (said - gain * went)**2, qq + went * went
        iq, ii = iq + said * went, ii + said * said
    return left, qq, iq, ii


@stage
def _name_kind(d, i):
    """Find the likeliest reason why the velocities of a joint do not fit; store it."""
    _, qq, iq, ii = _residuals(d, i, i, 0, 1.0)
    ratio = d.recent_products[0, i] / max(d.recent_products[1, i], 1e-18)
    d.is_told[i], d.velocity_kind[i], d.kind_figures[i, 0] = 0, UNKNOWN, ratio
    d.kind_figures[i, 1] = d.integral[i]
    if IN_DEGREES[0] < ratio < IN_DEGREES[1]:
        d.velocity_kind[i], d.kind_figures[i, 2] = DEGREES, 180.0 / np.pi
        return
    if qq > 0.0 and ii <= 1e-6 * qq:
        d.velocity_kind[i] = ZERO
        return
    best = ALIKE * ii
    gain = iq / qq if qq > 0.0 else 0.0
    if (gain > 0.0 or TURNED[0] < gain < TURNED[1]) and ii - iq * gain < best:
        d.kind_figures[i, 0] = d.kind_figures[i, 2] = gain
        d.velocity_kind[i] = (DEGREES if IN_DEGREES[0] < gain < IN_DEGREES[1] else
                      SIGN if TURNED[0] < gain < TURNED[1] else SCALED)
        best = 0.5 * (ii - iq * gain)  # it has a parameter more than the following ones
    for other in range(d.n):
        left, _, _, _ = _residuals(d, i, other, 0, 1.0)
        if other != i and left < best:
            best, d.velocity_kind[i], d.kind_figures[i, 0] = left, EXCHANGED, other
    for late in range(2, LATEST):
        left, _, _, _ = _residuals(d, i, i, late, 1.0)
        if left < best:
            best, d.velocity_kind[i], d.kind_figures[i, 0] = left, LATE, late * INTERVAL


@inlined
def _floor(m, d, i):
    slow = 1.0 + max(d.stamp_spacing - SLOW, 0.0) / SLOWER
    return slow * min(FLOOR_TIME * m.fastest[i], FLOOR) + STEPS * resolution(d, i)


@inlined
def _strictness(d):
    """Factor on the tolerances: what is wrong with one joint is probably wrong with others."""
    for kind in d.velocity_kind:
        if kind != FITS:
            return SUSPECT
    return 1.0


@stage
def _compare(m, d, count):
    """Compare integral and travel since an earlier row; return whether any joint fails."""
    newest, time, has_failed = d.rows - 1, d.stamps[0], False
    first, earlier = (newest - count) % INTERVALS, (newest - count - 1) % INTERVALS
    if count + 1 > min(newest, INTERVALS - 1) or time - d.row_times[earlier] > LONGEST:
        return False
    before = newest % INTERVALS
    if time - d.row_times[before] < 0.5 * INTERVAL:
        before = (newest - 1) % INTERVALS
    factor = _strictness(d)
    late, early = factor * LAG + d.stamp_spacing, LEAD + d.stamp_spacing
    for i in range(d.n):
        if d.velocity_kind[i] != FITS:
            continue
        went = d.travel[i] - d.row_travel[first, i]
        said = d.integral[i] - d.row_integral[first, i]
        change = ((d.travel[i] - d.row_travel[before, i]) / (time - d.row_times[before])
                  - (d.row_travel[first, i] - d.row_travel[earlier, i])
                  / (d.row_times[first] - d.row_times[earlier]))
        low = min(-late * change, early * change)
        high = max(-late * change, early * change)
        differs = said - went
        left = differs - min(max(differs, low), high)
        noise = NOISE * np.sqrt(max(d.noise[i] - d.row_noise[first, i], 0.0))
        path = d.path[i] + np.abs(d.travel[i] - d.row_travel[newest % INTERVALS, i])
        if np.abs(left) > factor * _floor(m, d, i) + min(noise, FLOOR) + SHARE * (
                path - d.row_path[first, i]):
            has_failed = True
            _name_kind(d, i)
            d.kind_figures[i, 1] = said
    return has_failed


@inlined
def _add_interval(d, time):
    """Store travel and integral at a time."""
    row, last = d.rows % INTERVALS, (d.rows - 1) % INTERVALS
    d.row_times[row] = time
    for i in range(d.n):
        if d.rows > 0:
            d.path[i] += np.abs(d.travel[i] - d.row_travel[last, i])
        d.row_travel[row, i], d.row_integral[row, i] = d.travel[i], d.integral[i]
        d.row_path[row, i], d.row_noise[row, i] = d.path[i], d.noise[i]
    d.rows += 1


@inlined
def _has_jumped(m, d, before, q, dt):
    """Return whether no motion leads from the positions `before` to q in a time [s]."""
    for i in range(len(q)):
        if not np.abs(short_step(m, i, q[i] - before[i])) <= longest_step(m, d, i, dt):
            return True
    return False


@inlined
def _advance(m, d, time, q, qd, compares):
    """Integrate up to the last state but one; return whether velocities no longer fit."""
    dt, last = d.stamps[0] - d.stamps[1], d.fit_newest
    for i in range(len(q)):
        if d.states_seen > 1:
            typical = d.measured[0, i]
            # one corrupt state must not count much
            if dt > RARE or not np.abs(typical) <= JUMP_FACTOR * (
                    m.fastest[i] + resolution(d, i) / max(dt, 1e-4)):
                typical = _median(qd[i], typical, d.measured[1, i])
            said = 0.5 * dt * (typical + d.typical[i])
            d.typical[i] = typical
            d.integral[i] += said
            keeps = max(1.0 - dt / RECENT, 0.0)
            d.recent_products[0, i] = keeps * d.recent_products[0, i] + said * d.travel_step[i]
            d.recent_products[1, i] = keeps * d.recent_products[1, i] + d.travel_step[i]**2
            rough = said - d.travel_step[i]
            if d.states_seen > 2:
                d.noise[i] += 0.5 * (rough - d.rough[i])**2
            d.rough[i] = rough
    has_failed = False
    if d.states_seen > 1 and compares:
        if d.rows == 0 or d.stamps[0] - d.row_times[
                (d.rows - 1) % INTERVALS] >= INTERVAL * (1.0 - 1e-6):
            _add_interval(d, d.stamps[0])
        # two windows at each state; all of them, more strictly, if a joint has failed
        turn = d.states_seen % HALF
        has_failed = _compare(m, d, WINDOWS[turn])
        has_failed = _compare(m, d, WINDOWS[turn + HALF]) or has_failed
        if has_failed:
            for count in WINDOWS:
                _compare(m, d, count)
    for i in range(len(q)):
        d.travel_step[i] = short_step(m, i, q[i] - d.fit_q[last, i])
        d.travel[i] += d.travel_step[i]
        d.measured[1, i], d.measured[0, i] = d.measured[0, i], qd[i]
    spacing = time - d.stamps[0]
    d.stamp_spacing += (0.1 if d.stamp_spacing > 0.0 else 1.0) * (spacing - d.stamp_spacing)
    d.stamps[1], d.stamps[0] = d.stamps[0], time
    d.states_seen += 1
    return has_failed


@inlined
def _follow(m, d, time, q, qd):
    """Take a state with a new stamp; return whether velocities no longer fit."""
    # Nothing is compared while no position changes, because a driver may repeat its last values.
    # There is one exception. If no position has changed since the start, and the velocities have
    # been in doubt for FROZEN_LONG, the arm is at rest, and its velocities are compared.
    dt, is_repeated = time - d.stamps[0], True
    for i in range(len(q)):
        is_repeated = is_repeated and q[i] == d.changed_q[i]
    if d.states_seen > 0 and 0.0 < dt < LONGEST and _has_jumped(
            m, d, d.fit_q[d.fit_newest], q, dt):
        d.jumped += 1
        if d.jumped < 2:
            return False
        d.states_seen = 0
    d.jumped = 0
    rests = d.changes <= 1 and d.is_doubted and (
        time - d.changed_time > FROZEN_LONG)
    was_quiet = not is_repeated and time - d.changed_time > max(QUIET, 2.0 * dt)
    if d.states_seen == 0 or dt < 0.0 or dt > max(GAP, PERIODS * d.stamp_spacing) or was_quiet:
        if dt < 0.0:
            forget_positions(d)
            d.bounded_until = time
        if d.states_seen > 0 and dt > 0.0:
            d.stamp_spacing += 0.1 * (min(dt, LONGEST) - d.stamp_spacing)
        _begin(d, time, q, qd)
        has_failed = False
    else:
        has_failed = _advance(m, d, time, q, qd, not is_repeated or rests)
    put_position(m, d, time, q, qd)
    return has_failed


@inlined
def _earlier_slope(m, d, i, lag):
    """Return the slope of the positions of a joint `lag` [s] before the newest state."""
    last, slope = d.fit_newest, 0.0
    for k in range(1, d.fit_count):
        row = (d.fit_newest - k) % MOST
        slope = short_step(m, i, d.fit_q[last, i] - d.fit_q[row, i]) / (
            d.fit_times[last] - d.fit_times[row])
        last = row
        if d.fit_times[row] < d.fit_times[d.fit_newest] - lag:
            break
    return slope


@inlined
def _factor(d, i):
    """Return the factor of the velocities of a joint that is due to its kind; 0: there is none."""
    kind, factor = d.velocity_kind[i], d.kind_figures[i, 2]
    return factor if kind in (DEGREES, SIGN, SCALED) and np.abs(factor) > SMALLEST else 0.0


@stage
def bound_velocities(m, d, q, qd):
    """Bound qd (n,) by the last three positions; return a joint to report, or -1, and its jump."""
    # A joint is reported if velocities jump often. While no position changes, only velocities that
    # jump are bounded.
    joint, jump, newest = -1, 0.0, d.fit_newest
    row, oldest = (newest - 1) % MOST, (newest - 2) % MOST
    dt, before = d.fit_times[newest] - d.fit_times[row], d.fit_times[row] - d.fit_times[oldest]
    spacing, moves, is_stored = max(d.stamp_spacing, SHORTEST), False, d.noise_count > 0
    for i in range(len(q)):
        moves = moves or q[i] != d.fit_q[row, i]
        is_stored = is_stored and q[i] == d.fit_q[newest, i]
    if not is_stored or max(dt, before) > min(GAP, IRREGULAR * spacing) or (
            is_jump(m, d, row, newest, dt) or is_jump(m, d, oldest, row, before)):
        return -1, 0.0
    unsure = UNSURE * (1.0 + LEAST / d.noise_count)
    is_watched, is_bounded = moves and d.sample_time < d.bounded_until, False
    for i in range(len(q)):
        slope = short_step(m, i, q[i] - d.fit_q[row, i]) / dt
        last = short_step(m, i, d.fit_q[row, i] - d.fit_q[oldest, i]) / before
        change = slope - last
        speed = slope + change * dt / (dt + before)
        # the resolution, and stamps that may be wrong
        floor = STEPS * max(d.steps[i], unsure * d.noise_steps[i]) / min(dt, before) + max(
            np.abs(slope * (dt - spacing)), np.abs(last * (before - spacing))) / spacing
        left = BAND * m.fastest[i] + SHARE * np.abs(speed)
        jumps = np.abs(qd[i] - speed) > JUMP_FACTOR * m.fastest[i] + floor
        exceeds = jumps or moves and np.abs(qd[i] - speed) > left + np.abs(change) + floor
        if d.velocity_kind[i] == FITS:
            # a velocity may be late
            is_wrong = np.abs(qd[i] - speed) > (SUSPECT if is_watched else 1.0) * left + (
                floor + np.abs(change) + np.abs(speed - _earlier_slope(m, d, i, LAG + spacing)))
            # noise exceeds the bounds to both sides
            side = np.sign((qd[i] - speed) * speed) if is_wrong else 0.0
            d.exceeded[i] += int(EACH * side - np.sign(d.exceeded[i]))
            if np.abs(d.exceeded[i]) >= EXCEEDED and d.rows > LEAST_ROWS:
                _name_kind(d, i)
                d.exceeded[i], d.replaced_at = 0, d.now
        elif exceeds:  # not by a factor only
            d.kind_figures[i, 2] = 0.0
        if jumps and np.abs(qd[i] - speed) > jump:
            joint, jump = i, np.abs(qd[i] - speed)
        if exceeds or is_watched or moves and d.velocity_kind[i] != FITS and _factor(d, i) == 0.0:
            bounded = 0.0 if jumps else STRICT * left + floor
            bounded = min(max(qd[i], speed - bounded), speed + bounded)
            is_bounded = is_bounded or qd[i] != bounded
            qd[i] = bounded
    if is_bounded:  # the response of the joints can be compared after this state
        d.bounded_until, d.pairs, d.compared_time = d.sample_time + WATCHED, 0, d.sample_time
    is_new, d.has_leapt = joint >= 0 and not d.has_leapt, joint >= 0
    d.speed_jumps += is_new
    return joint if is_new and d.speed_jumps == TOLD_JUMPS else -1, jump


@inlined
def fit_velocities(m, d, time, q, qd):
    """Replace velocities in qd (n,) that do not fit q (n,); return whether that is possible."""
    # A state that is not finite changes nothing.
    for i in range(len(q)):
        if not (np.isfinite(q[i]) and np.isfinite(qd[i])):
            return True
    has_failed = time != d.stamps[0] and _follow(m, d, time, q, qd)
    if has_failed:
        d.replaced_at = d.now
    uses = False
    for kind in d.velocity_kind:
        uses = uses or kind != FITS
    if uses and not put_estimate(m, d, PROMPT):
        return False
    for i in range(len(q)):
        if d.velocity_kind[i] != FITS:
            factor = _factor(d, i)
            qd[i] = d.estimate[i] if factor == 0.0 else qd[i] / factor
            if has_failed and d.is_told[i] == 0:  # the last velocity did not fit either
                d.qd[i] = d.changed_qd[i] = qd[i]
    return True
