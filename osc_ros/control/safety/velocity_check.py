# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Estimated velocities, and comparison of the measured ones with the positions, for each joint.

Without measured velocities the estimate is the slope of a parabola through the last stamped
positions. For measured ones that do not fit it comes from an observer: a fit with decaying weights
(`filter`), to which the model adds how much the torques change the accelerations. The comparison
has two steps.

At each state a velocity that differs from the slope of the last positions by more than noise is
bounded to the estimate: a wrong velocity of any kind differs little from the true one at once,
before anything is known of it.

The integral of a velocity must be the change of the position, over the last 10 to 300 ms: a
velocity may lag by LAG and a period, may be wrong by SHARE, and both may have noise. Velocities
that do not fit are named, and divided by their factor if there is one, else replaced by estimates.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel, stage
from osc_ros.control.data import INTERVALS, MOST
from osc_ros.control.limits.complementarity import put_inverse
from osc_ros.control.model_error.command_model import put_command
from osc_ros.control.safety.sample import (
    FROZEN_LONG,
    JUMP_FACTOR,
    JUMP_FLOOR,
    longest_step,
    resolution,
    short_step,
)
from osc_ros.control.safety.stopping import put_inertia
from osc_ros.dynamics.algebra.spatial import assign

WINDOW, LEAST = 0.03, 5  # duration [s], and least number, of the positions of a fit
LONGEST_GAP = 0.1  # longest time between two positions of one window [s]
SHORTEST = 1e-3  # least time that is assumed between two positions in the search of jumps [s]
# Positions in steps of more than COARSE have a longer fit, in which older positions count less.
# Its time constant is MEMORY [s] for steps of COARSEST or more [rad, m], and goes with the square
# root of the step: a longer one lets the control loop oscillate, a shorter one torques step.
# SMOOTH: time constant of the differences of position and fit [s].
COARSE, COARSEST, MEMORY, SMOOTH = 4.5e-4, 1.75e-3, 0.0175, 0.003
# The time since the first position is at least SETTLES time constants; these shrink from state to
# state by the factor SHRINKS, because a short fit would exaggerate the errors of a long one.
SETTLES, SHRINKS = 3.0, 0.8
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
def _known_steps(d, i):
    """Resolution of the positions of a joint, as far as it is learned, or their noise [rad, m]."""
    return max(d.steps[i] if d.is_learned[i] else 0.0, d.noise_steps[i])


@inlined
def _is_coarse(d, i):
    """Whether the estimate of a joint needs the longer fit."""
    return _resolution(d, i) > COARSE and d.filter_time - d.filter_begin > LONGEST_GAP


@inlined
def _memory(d, i):
    """Time constant of the fit of a joint [s]."""
    steps = _resolution(d, i) if _is_coarse(d, i) else _known_steps(d, i)
    return MEMORY * np.sqrt(min(steps / COARSEST, 1.0))


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
            is_own = d.filter_time == d.sample_time and _is_coarse(d, i) and (
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
    for i in range(len(q)):
        x, v, a = d.filter[0, i], d.filter[1, i], d.filter[2, i]
        is_coarse = _is_coarse(d, i)
        a += 0.0 if is_coarse else d.model_change[i]
        x, v = x + dt * (v + 0.5 * dt * a), v + dt * a
        left, d.model_change[i] = short_step(m, i, q[i] - x), 0.0
        d.fit_memory[i] = max(_memory(d, i), SHRINKS * d.fit_memory[i])
        memory, steps = d.fit_memory[i], COARSEST * (d.fit_memory[i] / MEMORY)**2
        memory = min(memory, (time - d.filter_begin) / SETTLES)
        if is_coarse:
            left = d.filter[3, i] + (1.0 - np.exp(-dt / SMOOTH)) * (left - d.filter[3, i])
        elif np.abs(left) > steps > 0.0:  # not noise, but an unknown force
            shortest = dt * (steps / (BAND * m.fastest[i] * dt))**(2.0 / 3.0)
            memory = min(memory, max(memory * (steps / left)**2, shortest))
        keeps = np.exp(-dt / memory)
        g, h, k = 1.0 - keeps**3, 1.5 * (1.0 - keeps)**2 * (1.0 + keeps), (1.0 - keeps)**3
        d.filter[0, i], d.filter[1, i] = x + g * left, v + h * left / dt
        d.filter[2, i], d.filter[3, i] = a + k * left / dt**2, left


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
    """Begin anew, because the stamps have gone back: it may be another driver."""
    d.fit_count = d.noise_count = 0
    for i in range(d.n):
        d.steps[i] = d.divisor[i] = d.noise_steps[i] = d.noise_sums[i] = 0.0
        d.divided[i], d.is_varied[i], d.is_learned[i] = 0, False, False


@inlined
def _store(m, d, time, q, qd):
    """Store a state unless it is stored."""
    if d.fit_count > 0 and time < d.fit_times[d.fit_newest]:
        forget_positions(d)
    if d.fit_count == 0 or time > d.fit_times[d.fit_newest]:
        put_position(m, d, time, q, qd)


@inlined
def is_jump(m, d, row, last, gap):
    """Whether the joints cannot have moved from one stored position to the other in `gap` [s]."""
    for i in range(d.n):
        step = short_step(m, i, d.fit_q[last, i] - d.fit_q[row, i])
        if not np.abs(step) <= longest_step(m, d, i, max(gap, SHORTEST)):
            return True
    return False


@stage
def put_estimate(m, d):
    """Estimate velocities at the newest position; return whether there are enough positions."""
    # Parabola through the positions of the last WINDOW [s], at least LEAST, by normal equations;
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
        if gap > LONGEST_GAP or count >= LEAST and x < -1.0 - 1e-9:
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
        if _is_coarse(d, i):
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
BETWEEN = 2.0  # number of such steps that two positions may differ
# Intervals between states above SLOW [s] increase FLOOR_TIME and FLOOR, twofold at SLOWER + SLOW,
# because impacts and reversals between two states are unknown.
SLOW, SLOWER = 0.002, 0.004
NOISE = 3.0  # tolerated standard deviations of the noise, which add at most FLOOR
SUSPECT = 0.3  # factor on LAG and FLOOR after the velocities of a joint have failed
# A velocity is compared with the positions over the last intervals: the least number of FITTED for
# which the noise of their slope is at most BAND of the velocity limit, in at most LONGEST_FIT [s].
# A velocity that does not fit them is bounded to the estimate, within STRICT times BAND of the
# velocity limit and SHARE of the speed, and that noise, but moved by at most MISFITS times what
# does not fit.
FITTED, LONGEST_FIT, BAND, STRICT, MISFITS = (2, 4, 8, 16, 32), 0.033, 0.15, 0.1, 10.0
WATCHED = 0.3  # time after a velocity did not fit in which the model helps to estimate [s]
# A velocity is wrong if the sum of its errors exceeds EXCEEDED. In this sum, an error of SUSPECT
# times BAND and SHARE counts EACH, a larger one at most MOST_EACH, and each state takes 1 away.
EACH, MOST_EACH, EXCEEDED = 2.0, 8.0, 16.0
FAST = 1.0  # a joint whose velocity limit is higher is compared as if this were its limit [rad/s]
# Numbers of intervals that show the kind of wrong velocities: of degrees, and of another factor.
LEAST_ROWS, FACTOR_ROWS = 1, 2
IRREGULAR = 2.5  # after a longer time, relative to the mean, stamps show no velocity
# Velocities have a factor if the squared steps of the positions are CLEAR times their noise.
CLEAR = 4.0
# This jump of velocities is reported; before it, their kind may be found.
TOLD_JUMPS = 6
# Kinds of velocities that do not fit.
(FITS, UNKNOWN, DEGREES, SIGN, ZERO, SCALED, EXCHANGED, LATE, JUMPED) = range(9)
IN_DEGREES = 30.0, 110.0  # ratios to the speed of the positions that count as degrees
TURNED = -1.6, -0.6  # ratios that count as a wrong sign
NOTHING = 1e-3  # square of the largest ratio that counts as zero
ALIKE = 0.2  # largest residual of an explanation, relative to the velocities
PAIR = 0.01  # the same for two joints that have each other's velocities
SMALLEST = 0.05  # velocities are not divided by a smaller factor
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
        d.travel_step[i] = d.rough[i] = 0.0


@inlined
def _residuals(d, i, other, late, gain):
    """Compare integrals of joint i with `gain` times the earlier travel of joint `other`."""
    # The travel is that `late` intervals before. Return sums over all intervals, and the time
    # since the last one: of the squared difference, of travel², integral · travel and integral².
    first, left, qq, iq, ii = max(d.rows - INTERVALS, 0), 0.0, 0.0, 0.0, 0.0
    for k in range(first, d.rows):
        after, row, before = (k + 1) % INTERVALS, k % INTERVALS, (k - late) % INTERVALS
        went = (d.row_travel[(before + 1) % INTERVALS, other] - d.row_travel[before, other]
                if 0 < late <= k - first or k < d.rows - 1 else 0.0)
        said = d.row_integral[after, i] - d.row_integral[row, i]
        if k == d.rows - 1:
            said = d.integral[i] - d.row_integral[row, i]
            if late == 0:
                went = d.travel[other] - d.travel_step[other] - d.row_travel[row, other]
            else:
                went *= (d.stamps[1] - d.row_times[row]) / INTERVAL
        elif late > k - first:
            went = 0.0
        left, qq = left + (said - gain * went)**2, qq + went * went
        iq, ii = iq + said * went, ii + said * said
    return left, qq, iq, ii


@stage
def _name_kind(d, i):
    """Find the likeliest reason why velocities of a joint do not fit; return if it is clear."""
    _, qq, iq, ii = _residuals(d, i, i, 0, 1.0)
    said = d.integral[i] - d.row_integral[max(d.rows - INTERVALS, 0) % INTERVALS, i]
    noise = min(d.rows, INTERVALS) * d.noise_steps[i]**2 / 6.0
    qq = max(qq - noise, 0.0)
    if qq < CLEAR * noise and max(said * said, ii) < CLEAR * noise * IN_DEGREES[1]**2:
        return False  # noise may hide that the joint moves
    gain = iq / qq if qq > 0.0 else 0.0
    has_factor = (gain > 0.0 or TURNED[0] < gain < TURNED[1]) and ii - iq * gain < ALIKE * ii
    if has_factor and d.rows <= FACTOR_ROWS and ii > NOTHING * qq and (
            np.abs(np.radians(gain) - 1.0) > ALIKE):
        return False  # motions begin alike: the velocities may be another's
    d.is_told[i], d.velocity_kind[i], d.kind_figures[i, 1] = 0, UNKNOWN, said
    d.kind_figures[i, 0], d.kind_figures[i, 2] = gain, 0.0
    if qq > 0.0 and ii <= NOTHING * qq:
        d.velocity_kind[i] = ZERO
        return True
    best = ALIKE * ii
    if has_factor:
        d.kind_figures[i, 2] = gain
        d.velocity_kind[i] = (DEGREES if IN_DEGREES[0] < gain < IN_DEGREES[1] else
                      SIGN if TURNED[0] < gain < TURNED[1] else SCALED)
        if d.velocity_kind[i] == DEGREES:
            d.kind_figures[i, 2] = 180.0 / np.pi
            return True
        best = 0.5 * (ii - iq * gain)  # it has a parameter more than the following ones
    for other in range(d.n):
        # a factor fits joints with each other's velocities, too, while they move alike
        left, _, _, _ = _residuals(d, i, other, 0, 1.0)
        back, _, _, also = _residuals(d, other, i, 0, 1.0)
        is_pair = left < PAIR * ii and back < PAIR * also and np.abs(gain + 1.0) > SHARE
        if other != i and (left < best or is_pair):
            best, d.velocity_kind[i] = min(left, best), EXCHANGED
            d.kind_figures[i, 0], d.kind_figures[i, 2] = other, 1.0
    for late in range(2, LATEST):
        left, _, _, _ = _residuals(d, i, i, late, 1.0)
        if left < best:
            best, d.velocity_kind[i] = left, LATE
            d.kind_figures[i, 0], d.kind_figures[i, 2] = late * INTERVAL, 0.0
    if d.velocity_kind[i] == SCALED and np.abs(gain - 1.0) < SHARE:  # they fit in the mean
        d.velocity_kind[i], d.exceeded[i] = FITS, 0.0
        return False
    return True


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
    """Compare integral and travel since an earlier row; mark joints that fail by `exceeded`."""
    newest, time = d.rows - 1, d.stamps[0]
    first, earlier = (newest - count) % INTERVALS, (newest - count - 1) % INTERVALS
    if count + 1 > min(newest, INTERVALS - 1) or time - d.row_times[earlier] > LONGEST:
        return
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
            d.exceeded[i] = EXCEEDED


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
    """Integrate up to the last state but one, and compare."""
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
            rough = said - d.travel_step[i]
            if d.states_seen > 2:
                d.noise[i] += 0.5 * (rough - d.rough[i])**2
            d.rough[i] = rough
    if d.states_seen > 1 and compares:
        if d.rows == 0 or d.stamps[0] - d.row_times[
                (d.rows - 1) % INTERVALS] >= INTERVAL * (1.0 - 1e-6):
            _add_interval(d, d.stamps[0])
        turn = d.states_seen % HALF  # two windows at each state
        _compare(m, d, WINDOWS[turn])
        _compare(m, d, WINDOWS[turn + HALF])
    for i in range(len(q)):
        d.travel_step[i] = short_step(m, i, q[i] - d.fit_q[last, i])
        d.travel[i] += d.travel_step[i]
        d.measured[1, i], d.measured[0, i] = d.measured[0, i], qd[i]
    spacing = time - d.stamps[0]
    d.stamp_spacing += (0.1 if d.stamp_spacing > 0.0 else 1.0) * (spacing - d.stamp_spacing)
    d.stamps[1], d.stamps[0] = d.stamps[0], time
    d.states_seen += 1


@inlined
def _follow(m, d, time, q, qd):
    """Take a state with a new stamp."""
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
            return
        d.states_seen = 0
    d.jumped = 0
    rests = d.changes <= 1 and d.is_doubted and (
        time - d.changed_time > FROZEN_LONG)
    was_quiet = not is_repeated and time - d.changed_time > max(QUIET, 2.0 * dt)
    if d.states_seen == 0 or dt < 0.0 or dt > max(GAP, PERIODS * d.stamp_spacing) or was_quiet:
        if d.states_seen > 0 and dt > 0.0:
            d.stamp_spacing += 0.1 * (min(dt, LONGEST) - d.stamp_spacing)
        _begin(d, time, q, qd)
    else:
        _advance(m, d, time, q, qd, not is_repeated or rests)
    _store(m, d, time, q, qd)


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


@stage
def _share_factor(d):
    """Use the factor of two joints for all others to which it fits better than none."""
    for i in range(d.n):
        kind, factor, count = d.velocity_kind[i], d.kind_figures[i, 2], 0
        if kind not in (DEGREES, SIGN, SCALED) or np.abs(factor) <= SMALLEST:
            continue
        for other in range(d.n):
            count += d.velocity_kind[other] == kind and (
                np.abs(d.kind_figures[other, 2] - factor) < ALIKE * np.abs(factor))
        for other in range(d.n if count > 1 else 0):
            if d.velocity_kind[other] not in (FITS, UNKNOWN):
                continue
            left, _, _, _ = _residuals(d, other, other, 0, factor)
            usual, _, _, ii = _residuals(d, other, other, 0, 1.0)
            if left <= (usual * factor**2 if d.velocity_kind[other] == FITS else ALIKE * ii):
                d.velocity_kind[other], d.is_told[other] = kind, 0
                d.kind_figures[other, 0] = d.kind_figures[other, 2] = factor


@inlined
def _is_usable(d, i):
    """Whether the velocities of a joint are used, corrected if their kind says how."""
    return d.velocity_kind[i] == FITS or np.abs(d.kind_figures[i, 2]) > SMALLEST


@inlined
def _corrected(d, row, i):
    """Return the stored velocity of a joint, divided by its factor or that of another joint."""
    if d.velocity_kind[i] == FITS or not _is_usable(d, i):
        return d.fit_qd[row, i]
    of = int(d.kind_figures[i, 0]) if d.velocity_kind[i] == EXCHANGED else i
    return d.fit_qd[row, of] / d.kind_figures[i, 2]


@inlined
def _rested(d):
    """Time for which no position has changed, as far as they are stored [s]."""
    newest, row = d.fit_newest, d.fit_newest
    for k in range(1, d.fit_count):
        before = (newest - k) % MOST
        for i in range(d.n):
            if d.fit_q[before, i] != d.fit_q[newest, i]:
                return d.fit_times[newest] - d.fit_times[row]
        row = before
    return d.fit_times[newest] - d.fit_times[row]


@stage
def _compare_slopes(m, d):
    """Compare velocities and slopes of the last positions; return the number of positions."""
    # Writes estimates, their error, and how much the velocities differ from the positions in the
    # mean, or in the last interval, less what noise and stamps explain.
    n, newest, last, count = d.n, d.fit_newest, d.fit_newest, 1
    way, said, rough = d.fit_way, d.fit_said, d.fit_rough
    spacing, jitter, least, repeats = max(d.stamp_spacing, SHORTEST), 0.0, np.inf, False
    unsure = 1.0 + LEAST / max(d.noise_count, 1)
    for i in range(n):
        way[i] = said[i] = rough[i] = d.fit_step[i] = 0.0
        d.estimate[i], d.fit_error[i] = d.filter[1, i], np.inf
    for k in range(1, d.fit_count):
        row = (newest - k) % MOST
        gap, lasted = d.fit_times[last] - d.fit_times[row], d.fit_times[newest] - d.fit_times[row]
        if gap > min(GAP, IRREGULAR * spacing) or k > 2 and lasted > LONGEST_FIT or (
                is_jump(m, d, row, last, gap)):
            break
        is_repeated, jitter, least = True, max(jitter, np.abs(gap - spacing)), min(least, gap)
        for i in range(n):
            step = short_step(m, i, d.fit_q[last, i] - d.fit_q[row, i])
            is_repeated = is_repeated and step == 0.0
            way[i] -= step
            before, after = _corrected(d, row, i), _corrected(d, last, i)
            said[i] += 0.5 * gap * (before + after)
            if k == 1:
                d.fit_first[i] = said[i] / gap - step / gap
            else:
                rough[i] = max(rough[i], np.abs(step / gap - d.fit_slope[i]))
            d.fit_slope[i], d.fit_step[i] = step / gap, max(d.fit_step[i], np.abs(step))
        last, is_complete, repeats = row, True, repeats or is_repeated
        if k not in FITTED:
            continue
        count = k + 1
        for i in range(n):
            if d.fit_error[i] <= BAND * m.fastest[i]:
                continue
            # one step of unknown resolution may be a count, or of several intervals
            noise, step = unsure * d.noise_steps[i], d.steps[i]
            error = STEPS * max(step if d.is_learned[i] else 0.0, noise)
            is_one = repeats and d.fit_step[i] > 0.0 or step == 0.0
            noise = BETWEEN * max(d.fit_step[i] if is_one else step, noise)
            mean, irregular = -way[i] / lasted, jitter / spacing
            d.fit_error[i] = error * (3.0 / count)**1.5 / least + irregular * np.abs(d.estimate[i])
            if _is_coarse(d, i) and np.abs(d.fit_qd[newest, i] - d.filter[1, i]) <= SAME:
                d.fit_error[i] = _resolution(d, i) / _memory(d, i)
                noise += lasted * d.fit_error[i]
            # changes of the acceleration between two states are unknown
            noise += least * (irregular * np.abs(mean) + 0.25 * rough[i])
            now, differs = d.fit_first[i], said[i] / lasted - mean
            left = max(np.abs(differs) - noise / lasted, 0.0)
            d.fit_left[i] = left if differs > 0.0 else -left
            left = max(np.abs(now) - noise / least, 0.0)
            if left > np.abs(d.fit_left[i]):
                d.fit_left[i] = left if now > 0.0 else -left
            # errors of both signs cancel in the mean
            found = _corrected(d, newest, i)
            differs = found - d.estimate[i]
            least_error = (BAND * min(m.fastest[i], FAST) + SHARE * np.abs(d.estimate[i])
                           + d.fit_error[i] + 1.5 * rough[i] + STEPS * step / least)
            if np.abs(differs) > max(least_error, np.abs(d.fit_left[i])) and np.abs(
                    found - _earlier_slope(m, d, i, 0.0)) > least_error:
                d.fit_left[i] = differs
            is_complete = is_complete and d.fit_error[i] <= BAND * m.fastest[i]
        if is_complete:
            break
    return count


@stage
def bound_velocities(m, d, q, qd):
    """Correct qd (n,) by the last positions; return a joint to report, or -1, and its jump."""
    # A joint is reported if velocities jump often. Positions that repeat for a short time show
    # nothing, because a driver may send its last ones again: only jumps of velocities are bounded.
    newest, row, joint, jump = d.fit_newest, (d.fit_newest - 1) % MOST, -1, 0.0
    moves, is_stored, is_bounded, watches = False, d.fit_count > 1, False, False
    for i in range(len(q)):
        moves = moves or q[i] != d.fit_q[row, i]
        is_stored = is_stored and q[i] == d.fit_q[newest, i]
    for i in range(len(q)):
        if is_stored and d.velocity_kind[i] != FITS:
            qd[i] = _corrected(d, newest, i) if _is_usable(d, i) else d.qd[i]
    if not is_stored or _compare_slopes(m, d) < 3:
        return -1, 0.0
    # positions that have repeated since long before the activation are those of an arm at rest
    since = d.sample_time - d.changed_time if d.is_open else 0.0
    rested = 0.0 if moves or d.changes > 1 else _rested(d) - since
    for i in range(len(q)):
        speed, error, off = d.estimate[i], d.fit_error[i], d.fit_left[i]
        left = BAND * m.fastest[i] + SHARE * np.abs(speed)
        differs = qd[i] - speed
        jumps = np.abs(differs) > JUMP_FACTOR * (m.fastest[i] + error)
        if jumps and np.abs(differs) > jump:
            joint, jump = i, np.abs(differs)
        if jumps:
            qd[i] = speed
        elif rested > FROZEN_LONG:
            most = STRICT * left + STEPS * _resolution(d, i) / rested
            qd[i] = min(max(qd[i], -most), most)
        elif moves and not _is_usable(d, i):
            qd[i] = speed
        elif moves and off != 0.0:
            # after an impact `off` is small, but the estimate is late: keep the measured velocity
            most = max(STRICT * left + error, np.abs(differs) - MISFITS * np.abs(off))
            qd[i], watches = min(max(qd[i], speed - most), speed + most), True
        if not moves:
            continue
        if min(np.abs(off), np.abs(differs)) > left:  # one velocity that jumped counts once
            is_bounded = True
            if d.velocity_kind[i] != FITS:  # not by a factor only
                d.kind_figures[i, 2] = 0.0
        if d.velocity_kind[i] == FITS:
            # a velocity may be late
            late = speed - _earlier_slope(m, d, i, LAG + d.stamp_spacing)
            left += BAND * (min(m.fastest[i], FAST) - m.fastest[i])
            tolerated = SUSPECT * left + np.abs(late)
            if min(np.abs(off), np.abs(differs)) > tolerated:  # noise exceeds it to both sides
                d.exceeded[i] += np.sign(speed) * min(max(
                    EACH * off / tolerated, -MOST_EACH), MOST_EACH)
            d.exceeded[i] -= min(max(d.exceeded[i], -1.0), 1.0)
            d.exceeded[i] = min(max(d.exceeded[i], -EXCEEDED), EXCEEDED)
    for i in range(len(q)):
        watches = watches or not _is_usable(d, i)
    if watches:
        d.watched_until = d.sample_time + WATCHED
    if is_bounded:  # the response of the joints can be compared after this state
        d.pairs, d.compared_time = 0, d.sample_time
    is_new, d.has_leapt = joint >= 0 and not d.has_leapt, joint >= 0
    d.speed_jumps += is_new
    return joint if is_new and d.speed_jumps == TOLD_JUMPS else -1, jump


@stage
def _put_model_change(d):
    """Write how much the last torques changed the accelerations (n,) that the model gives."""
    n, rows, bias = d.n, d.room_rows, d.room_rows[3]
    put_inertia(d.model, d.q, rows, bias, d.room_matrix)
    put_inverse(d.room_matrix, d.room_chosen, d.room_factor, d.room_inverse)
    put_command(d.model, d.q, d.qd, rows[0], bias)
    is_next = d.model_time == d.stamps[1]
    d.model_time = d.stamps[0]
    for i in range(n):
        found = 0.0
        for k in range(n):
            found += d.room_inverse[i, k] * (d.sent[k] - bias[k])
        change = found - d.model_qdd[i]
        d.model_qdd[i] = found
        d.model_change[i] = change if is_next and np.isfinite(change) else 0.0


@inlined
def fit_velocities(m, d, time, q, qd):
    """Compare velocities with positions; return whether a state has enough positions before it."""
    # A state that is not finite changes nothing.
    for i in range(len(q)):
        if not (np.isfinite(q[i]) and np.isfinite(qd[i])):
            return True
    if time != d.stamps[0]:
        if d.has_sent and time < d.watched_until:
            _put_model_change(d)
        _follow(m, d, time, q, qd)
        for i in range(len(q)):
            if d.velocity_kind[i] == FITS and np.abs(d.exceeded[i]) >= EXCEEDED and (
                    d.rows > LEAST_ROWS) and _name_kind(d, i):
                d.exceeded[i], d.replaced_at = 0.0, d.now
        if d.replaced_at == d.now:
            _share_factor(d)
    for i in range(len(q)):
        if not _is_usable(d, i) and d.fit_count < 3:
            return False
    return True


@kernel
def observe(m, d):
    """Store the sample of an arm that is not controlled: its noise is known at an activation."""
    for i in range(d.n):
        if not (np.isfinite(d.sample_q[i]) and np.isfinite(d.sample_qd[i])):
            return
    _store(m, d, d.sample_time, d.sample_q, d.sample_qd)
