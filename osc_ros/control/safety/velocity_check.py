# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Comparison of the measured velocities with the positions, for each joint.

The integral of a velocity must be the change of the position, over the last 10 to 300 ms: a
velocity may lag by LAG and a period, may be wrong by SHARE, and both may have noise. Also the path
lengths of both are compared. A regression of the steps of the positions on the velocities before
and after them finds a constant factor within some states, because velocities that are too large,
or turned, let an arm vibrate: such velocities are divided by the factor, and compared further.
Other velocities that do not fit are replaced by estimates from the positions.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.data import INTERVALS, MOST
from osc_ros.control.safety.estimate import (
    forget_positions,
    put_estimate,
    put_position,
)
from osc_ros.control.safety.sample import (
    FROZEN_LONG,
    JUMP_FACTOR,
    longest_step,
    resolution,
    short_step,
)
from osc_ros.dynamics.algebra.vectors import assign

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
# Time constant of the path lengths [s], their largest ratio, and their floor relative to that.
RECENT, RATIO, PATH_FLOOR = 0.02, 8.0, 0.3
# If the positions of a joint change at more than FAST of its speed limit, and its velocity is less
# than UNDERREPORTED of that speed, in UNDERREPORTED_STATES successive states, then the velocity is
# wrong. The second numbers hold after the velocity of another joint has failed. A light joint that
# is controlled with such a velocity becomes unstable within some ms, before the windows find it.
FAST, UNDERREPORTED, UNDERREPORTED_STATES = (0.35, 0.1), (0.2, 0.5), 3
# Least ratio to the speed of the positions by which velocities are divided, largest residual of
# its regression relative to the steps of the positions, largest standard deviation relative to the
# ratio, and error of the regression that is always assumed.
LEAST_FACTOR, RESIDUAL, UNCERTAIN, MODEL_ERROR = 1.7, 0.05, 0.2, 1e-3
# States that show a factor, of one joint and of all together: their velocity is more than SHOWN of
# the speed limit, and LEAST_FACTOR times the recent highest speed of the positions, which decays
# with PEAK [s], because a late velocity is a multiple of the speed of a joint that stops.
EVIDENCE, COMMON_EVIDENCE, SHOWN, PEAK = 4.0, 2.5, 0.03, 0.03
# Velocities are multiplied only by a constant up to 1 / SMALLEST, which explains at least
# LEAST_ROWS intervals up to ROW_RESIDUAL.
SMALLEST, LEAST_ROWS, ROW_RESIDUAL = 0.2, 5, 0.03
ALSO = 0.25  # largest residual of a joint with the factor of all
TOLD_JUMPS = 6  # a jump of a velocity is reported at this one: before it, its kind may be found
# Duration of the positions of an estimate [s]: shorter than without measured velocities, because
# it takes over from wrong ones in full motion.
PROMPT = 0.012
# Kinds of velocities that do not fit.
(FITS, UNKNOWN, DEGREES, SIGN, ZERO, SCALED, EXCHANGED, LATE, JUMPED) = range(9)
# Ratios to the speed of the positions that count as degrees.
DEGREE, IN_DEGREES = 180.0 / np.pi, (30.0, 110.0)
TURNED = -1.6, -0.6  # ratios that count as a wrong sign
ALIKE = 0.2  # largest residual of an explanation, relative to the velocities
LATEST = 12  # largest delay that is tried [intervals]


@inlined
def _median(a, b, c):
    return max(min(a, b), min(max(a, b), c))


@inlined
def _begin(d, time, q, qd):
    """Begin a comparison, at the first state or after a gap."""
    d.states_seen, d.rows, d.stamps[0] = 1, 0, time
    d.factor_sums[:] = 0.0
    for i in range(len(q)):
        d.measured[0, i] = d.typical[i] = qd[i]
        d.recent_paths[0, i] = d.recent_paths[1, i] = d.travel_step[i] = d.rough[i] = 0.0
        d.travel[i] = d.integral[i] = d.path[i] = d.noise[i] = 0.0
        d.underreported[i] = 0


@inlined
def _over(rows, k, i):
    """Change of a column of the ring buffer `rows` over the interval k."""
    return rows[(k + 1) % INTERVALS, i] - rows[k % INTERVALS, i]


@inlined
def _is_compared(d, i):
    return (d.velocity_kind[i] == FITS or d.gain[i] != 0.0) and d.velocity_error[i] == 0.0


@stage
def _divide(d, i, factor, qd):
    """Divide the velocities of a joint by a factor from now on; compare these."""
    d.velocity_kind[i] = SIGN if TURNED[0] < factor < TURNED[1] else SCALED
    if IN_DEGREES[0] < factor < IN_DEGREES[1]:
        d.velocity_kind[i], factor = DEGREES, DEGREE
    d.gain[i] = d.kind_figures[i, 0] = factor
    d.kind_figures[i, 1], d.kind_figures[i, 2] = qd[i], qd[i] / factor
    qd[i] /= factor
    d.measured[0, i], d.measured[1, i] = d.measured[0, i] / factor, d.measured[1, i] / factor
    d.typical[i] /= factor
    d.factor_sums[i] = 0.0
    d.integral[i], d.recent_paths[0, i] = d.travel[i], d.recent_paths[1, i]
    for row in range(INTERVALS):
        d.row_integral[row, i], d.row_noise[row, i] = d.row_travel[row, i], d.noise[i]


@inlined
def _weights(sums, count):
    """
    Return the weights of the velocities before and after a step of the position that explain it.

    Their sum is the inverse of the factor of the velocities. They are two, because the times of
    velocities and positions may differ by a part of a period: at a vibration with a period of two
    states that looks like a factor. They are 0 if they are too uncertain for `count` states.

    """
    aa, ab, bb, sa, sb, ss = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    ridge = 1e-6 * (aa + bb)
    aa, ab, bb = aa + ridge, ab - ridge, bb + ridge
    det = aa * bb - ab * ab
    if not det > 1e-9 * aa * bb:
        return 0.0, 0.0
    before, after = (sa * bb - sb * ab) / det, (sb * aa - sa * ab) / det
    left = ss - before * sa - after * sb
    variance = (aa + bb - 2.0 * ab) / det * (max(left, 0.0) + MODEL_ERROR * ss) / count
    if left > RESIDUAL * ss or variance > (UNCERTAIN * (before + after))**2:
        return 0.0, 0.0
    return before, after


@stage
def _fits_rows(d, i, factor):
    """
    Return whether a factor explains all intervals.

    Velocities are multiplied only then: late ones of a joint that speeds up look too small, too.

    """
    count, left, ii = min(d.rows, INTERVALS), 0.0, 0.0
    for k in range(d.rows - count, d.rows - 1):
        said, went = _over(d.row_integral, k, i), _over(d.row_travel, k, i)
        left, ii = left + (said - factor * went)**2, ii + said * said
    return count >= LEAST_ROWS and SMALLEST < np.abs(factor) and left < ROW_RESIDUAL * ii


@inlined
def _is_of_another(d, i, ahead):
    """
    Return whether the integral of a velocity is the travel of another joint.

    `ahead` is 1.0 if the travel is a state ahead of the integral, else 0.0.

    """
    first, rows = max(d.rows - INTERVALS, 0) % INTERVALS, min(d.rows, 1)
    said = d.integral[i] - rows * d.row_integral[first, i]
    for k in range(d.n):
        went = d.travel[k] - ahead * d.travel_step[k] - rows * d.row_travel[first, k]
        if k != i and np.abs(said - went) < ALIKE * np.abs(said):
            return True
    return False


@stage
def _name_kind(d, i, ratio, qd):
    """Find the likeliest reason why the velocities of a joint do not fit; store it."""
    n, count = d.n, min(d.rows, INTERVALS)
    d.is_told[i] = 0
    before, after = _weights(d.factor_sums[i], 1.0)
    inverse = before + after
    is_factor = np.abs(inverse) > 1e-3 and not 0.75 < inverse < 1.33 and (
        not _is_of_another(d, i, 0.0))
    if d.gain[i] == 0.0 and is_factor and (
            np.abs(inverse) < 1.0 or _fits_rows(d, i, 1.0 / inverse)):
        _divide(d, i, 1.0 / inverse, qd)
        return
    was_divided, d.gain[i] = d.gain[i] != 0.0, 0.0
    first, last = d.rows - count, d.rows - 1
    qq = iq = ii = 0.0
    for k in range(first, last):
        said, went = _over(d.row_integral, k, i), _over(d.row_travel, k, i)
        qq, iq, ii = qq + went * went, iq + said * went, ii + said * said
    d.velocity_kind[i], d.kind_figures[i, 0] = UNKNOWN, ratio
    if IN_DEGREES[0] < ratio < IN_DEGREES[1]:
        d.velocity_kind[i] = DEGREES
        return
    if qq > 0.0 and ii <= 1e-6 * qq:
        d.velocity_kind[i] = ZERO
        return
    best = ALIKE * ii
    gain = iq / qq if qq > 0.0 else 0.0
    if not was_divided and (gain > 0.0 or TURNED[0] < gain < TURNED[1]) and (
            ii - iq * gain < best):
        d.kind_figures[i, 0] = gain
        d.velocity_kind[i] = (DEGREES if IN_DEGREES[0] < gain < IN_DEGREES[1] else
                      SIGN if TURNED[0] < gain < TURNED[1] else SCALED)
        best = 0.5 * (ii - iq * gain)  # it has a parameter more than the following ones
    for other in range(n):
        left = 0.0
        for k in range(first, last):
            left += (_over(d.row_integral, k, i) - _over(d.row_travel, k, other))**2
        if other != i and left < best:
            best, d.velocity_kind[i], d.kind_figures[i, 0] = left, EXCHANGED, other
    for late in range(2, LATEST):
        left = 0.0
        for k in range(first, last):
            went = _over(d.row_travel, k - late, i) if k - late >= first else 0.0
            left += (_over(d.row_integral, k, i) - went)**2
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
def _compare(m, d, count, qd):
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
        if not _is_compared(d, i):
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
            _name_kind(d, i, 0.0, qd)
            d.kind_figures[i, 1], d.kind_figures[i, 2] = said, went
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
def _compare_paths(m, d, keeps, qd):
    """Return whether the recent path of a velocity is much longer than that of the position."""
    has_failed, factor = False, PATH_FLOOR * _strictness(d)
    for i in range(d.n):
        said, went = keeps * d.recent_paths[0, i], keeps * d.recent_paths[1, i]
        d.recent_paths[0, i], d.recent_paths[1, i] = said, went
        if not _is_compared(d, i):
            continue
        # the resolution of a position that has not changed yet is unknown
        if said > RATIO * went + (factor if went > 0.0 else 1.0) * _floor(m, d, i):
            _name_kind(d, i, said / (went + 1e-9), qd)
            has_failed, d.kind_figures[i, 1], d.kind_figures[i, 2] = True, said, went
    return has_failed


@inlined
def _underreports(m, d, qd, spacing):
    """Find joints that are fast by their positions and not by their velocities."""
    has_failed, k = False, 0 if _strictness(d) == 1.0 else 1
    for i in range(len(qd)):
        step = d.travel_step[i]
        is_fast = np.abs(step) > FAST[k] * m.fastest[i] * spacing + STEPS * resolution(d, i)
        if not is_fast or qd[i] * step * spacing >= UNDERREPORTED[k] * step * step:
            d.underreported[i] = 0
        elif step > 0.0:
            d.underreported[i] = max(d.underreported[i], 0) + 1
        else:
            d.underreported[i] = min(d.underreported[i], 0) - 1
        if np.abs(d.underreported[i]) >= UNDERREPORTED_STATES and _is_compared(d, i):
            has_failed = True
            _name_kind(d, i, 0.0, qd)
            d.kind_figures[i, 1], d.kind_figures[i, 2] = qd[i] * spacing, step
    return has_failed


@inlined
def _was_faster(m, d, i, speed):
    """Return whether the positions show more than this speed for as long as velocities may lag."""
    last, began = d.fit_newest, d.fit_times[d.fit_newest] - LAG - d.stamp_spacing
    for k in range(1, d.fit_count):
        row = (d.fit_newest - k) % MOST
        dt = d.fit_times[last] - d.fit_times[row]
        if not np.abs(short_step(m, i, d.fit_q[last, i] - d.fit_q[row, i])) > speed * dt:
            return False
        last = row
        if d.fit_times[row] <= began:
            return True
    return False


@inlined
def _add_step(m, d, i, after, spacing, keeps):
    """Add the last step of a position to the sums of the regression of factors."""
    sums, scale = d.factor_sums[i], 1.0 / (m.fastest[i] * spacing)
    step, a, b = d.travel_step[i] * scale, d.measured[1, i] / m.fastest[i], after / m.fastest[i]
    for k in range(8):
        sums[k] *= keeps
    if not (np.abs(a) + np.abs(b) < 1e3):  # corrupt
        return
    sums[0], sums[1], sums[2] = sums[0] + a * a, sums[1] + a * b, sums[2] + b * b
    sums[3], sums[4], sums[5] = sums[3] + step * a, sums[4] + step * b, sums[5] + step * step
    sums[8] = max(np.abs(step), sums[8] * (1.0 - spacing / PEAK))
    said = max(np.abs(a), np.abs(b))
    if np.abs(d.travel_step[i]) <= STEPS * resolution(d, i):
        return
    if said > max(SHOWN, LEAST_FACTOR * sums[8]) or (
            np.abs(step) > SHOWN and (a + b) * step < -SHOWN * np.abs(step)):
        sums[6] += 1.0
    elif np.abs(step) > LEAST_FACTOR * max(said, SHOWN) and _was_faster(
            m, d, i, LEAST_FACTOR * max(said, SHOWN) * m.fastest[i]):
        sums[7] += 1.0


@inlined
def _shown_weights(sums, evidence):
    """Return the weights, if enough states show velocities too large, too small or turned."""
    before, after = _weights(sums, max(sums[6], sums[7]))
    if (sums[6] >= evidence and (0.0 < LEAST_FACTOR * (before + after) < 1.0
                                 or -LEAST_FACTOR < before + after < -1.0 / LEAST_FACTOR)
            or sums[7] >= evidence and before + after > LEAST_FACTOR):
        return before, after
    return 0.0, 0.0


@inlined
def _is_explained(sums, before, after):
    """Return whether these weights explain the steps of the position of a joint, too."""
    return sums[5] - 2.0 * (before * sums[3] + after * sums[4]) + (
        before * before * sums[0] + 2.0 * before * after * sums[1]
        + after * after * sums[2]) <= ALSO * sums[5]


@inlined
def _shows_motion(sums):
    return max(sums[6], sums[7]) > 0.5


@inlined
def _is_constant(d, i, inverse):
    """Return whether velocities may be divided by 1 / inverse, see `_fits_rows`."""
    return inverse < 1.0 or _fits_rows(d, i, 1.0 / inverse)


@stage
def _divide_common(d, qd):
    """Divide velocities by a common factor, except where it contradicts; return whether."""
    total, agree, contradict, found = d.factor_total, 0, 0, False
    total[:] = 0.0
    for i in range(d.n):
        for k in range(8):
            total[k] += d.factor_sums[i, k]
    before, after = _shown_weights(total, COMMON_EVIDENCE)
    if before + after == 0.0 and total[6] > COMMON_EVIDENCE:
        # no difference of the times explains as much as degrees
        said, product = 0.25 * (total[0] + 2.0 * total[1] + total[2]), 0.5 * (total[3] + total[4])
        if IN_DEGREES[0] * total[5] < product < IN_DEGREES[1] * total[5] and (
                product * product > (1.0 - ALIKE) * said * total[5]):
            before = after = 0.5 / DEGREE
    if before + after == 0.0:
        return False
    for i in range(d.n):
        if _shows_motion(d.factor_sums[i]):
            if _is_explained(d.factor_sums[i], before, after):
                agree += 1
            else:
                contradict += 1
    if 2 * agree < d.n:
        return False
    for i in range(d.n):
        sums = d.factor_sums[i]
        is_alike = _is_explained(sums, before, after) if _shows_motion(sums) else contradict == 0
        if d.velocity_kind[i] == FITS and is_alike and _is_constant(d, i, before + after):
            found = True
            _divide(d, i, 1.0 / (before + after), qd)
    return found


@inlined
def _find_factors(m, d, qd, spacing):
    """Find velocities that are a multiple of the speed of the positions; divide them."""
    for i in range(len(qd)):
        _add_step(m, d, i, qd[i], spacing, 1.0 - spacing / RECENT)
    has_failed = _divide_common(d, qd)
    for i in range(len(qd)):
        before, after = _shown_weights(d.factor_sums[i], EVIDENCE)
        can = d.velocity_kind[i] == FITS or d.velocity_kind[i] == SCALED and d.gain[i] == 0.0
        if before + after != 0.0 and can and not _is_of_another(d, i, 1.0) and (
                _is_constant(d, i, before + after)):
            has_failed = True
            _divide(d, i, 1.0 / (before + after), qd)
    return has_failed


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
            rough = said - d.travel_step[i]
            if d.states_seen > 2:
                d.noise[i] += 0.5 * (rough - d.rough[i])**2
            d.rough[i] = rough
            d.recent_paths[0, i] += np.abs(said)
            d.recent_paths[1, i] += np.abs(d.travel_step[i])
    has_failed = False
    if d.states_seen > 1 and compares:
        has_failed = dt <= RARE and _compare_paths(m, d, 1.0 - dt / RECENT, qd)
        if d.rows == 0 or d.stamps[0] - d.row_times[
                (d.rows - 1) % INTERVALS] >= INTERVAL * (1.0 - 1e-6):
            _add_interval(d, d.stamps[0])
        # two windows at each state; all of them, more strictly, if a joint has failed
        turn = d.states_seen % HALF
        has_failed = _compare(m, d, WINDOWS[turn], qd) or has_failed
        has_failed = _compare(m, d, WINDOWS[turn + HALF], qd) or has_failed
        if has_failed:
            for count in WINDOWS:
                _compare(m, d, count, qd)
    for i in range(len(q)):
        d.travel_step[i] = short_step(m, i, q[i] - d.fit_q[last, i])
        d.travel[i] += d.travel_step[i]
        d.measured[1, i], d.measured[0, i] = d.measured[0, i], qd[i]
    spacing = time - d.stamps[0]
    if compares and d.states_seen > 1 and spacing > 0.5 * d.stamp_spacing:
        has_failed = _underreports(m, d, qd, spacing) or has_failed
        if spacing <= RARE:
            has_failed = _find_factors(m, d, qd, spacing) or has_failed
    d.stamp_spacing += (0.1 if d.stamp_spacing > 0.0 else 1.0) * (spacing - d.stamp_spacing)
    d.stamps[1], d.stamps[0] = d.stamps[0], time
    d.states_seen += 1
    return has_failed


@inlined
def _follow(m, d, time, q, qd):
    """
    Take a state with a new stamp; return whether velocities no longer fit.

    Nothing is compared while no position changes, because a driver may repeat its last values.
    There is one exception. If no position has changed since the start, and the velocities have
    been in doubt for FROZEN_LONG, the arm is at rest, and its velocities are compared.

    """
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
        if d.states_seen > 0 and dt > 0.0:
            d.stamp_spacing += 0.1 * (min(dt, LONGEST) - d.stamp_spacing)
        _begin(d, time, q, qd)
        has_failed = False
    else:
        has_failed = _advance(m, d, time, q, qd, not is_repeated or rests)
    put_position(m, d, time, q)
    return has_failed


@inlined
def replace_jumps(m, d, q, qd):
    """
    Replace velocities by estimates if one has jumped and no position; return the joint, its jump.

    The joint is -1 if there is none, or it need not be reported. If the state was rejected, the
    law would go on with the velocities of an earlier one, which may be wrong, too.

    """
    joint, jump, dt = -1, 0.0, d.sample_time - d.time
    if not d.is_open or not 0.0 < dt < GAP or _has_jumped(m, d, d.changed_q, q, dt):
        return -1, 0.0
    for i in range(len(q)):
        if np.abs(qd[i] - d.qd[i]) > max(jump, JUMP_FACTOR * m.fastest[i]):
            joint, jump = i, np.abs(qd[i] - d.qd[i])
    if joint < 0 or not put_estimate(m, d, PROMPT):
        return -1, 0.0
    assign(qd, d.estimate)
    d.speed_jumps += 1
    return joint if d.speed_jumps == TOLD_JUMPS else -1, jump


@inlined
def fit_velocities(m, d, time, q, qd):
    """
    Replace velocities in qd (n,) that do not fit the positions q (n,); return if that is possible.

    A state that is not finite changes nothing.

    """
    for i in range(len(q)):
        if not (np.isfinite(q[i]) and np.isfinite(qd[i])):
            return True
    for i in range(len(q)):
        if d.gain[i] != 0.0:
            qd[i] /= d.gain[i]
    has_failed = time != d.stamps[0] and _follow(m, d, time, q, qd)
    if has_failed:
        d.replaced_at = d.now
    uses = False
    for i in range(len(q)):
        uses = uses or d.velocity_kind[i] != FITS and d.gain[i] == 0.0
    if uses and not put_estimate(m, d, PROMPT):
        return False
    for i in range(len(q)):
        if d.velocity_kind[i] != FITS:
            if d.gain[i] == 0.0:
                qd[i] = d.estimate[i]
            if has_failed and d.is_told[i] == 0:  # the last velocity did not fit either
                d.qd[i] = d.changed_qd[i] = qd[i]
    return True
