# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Comparison of the measured velocities with the positions, for each joint, in two steps.

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
from osc_ros.control.safety.estimate import (
    forget_positions,
    is_jump,
    LEAST,
    put_estimate,
    put_position,
    SHORTEST,
)
from osc_ros.control.safety.sample import (
    FROZEN_LONG,
    JUMP_FACTOR,
    longest_step,
    resolution,
    short_step,
)

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
