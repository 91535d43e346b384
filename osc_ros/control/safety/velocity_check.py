# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Comparison of the measured velocities with the positions, for each joint.

The integral of a velocity must be the change of the position, over the last 10 to 300 ms: a
velocity may lag by LAG and a period, may be wrong by SHARE, and both may have noise. Also the path
lengths of both are compared, because velocities in degrees let an arm vibrate at every state; a
regression over all joints finds degrees at the first motion. A joint whose velocities do not fit
has estimates from the positions from then on.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.data import INTERVALS
from osc_ros.control.safety.estimate import forget_positions, put_estimate, put_position
from osc_ros.control.safety.sample import FROZEN_LONG, JUMP_FACTOR, longest_step, short_step

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
# Duration of the positions of an estimate [s]: shorter than without measured velocities, because
# it takes over from wrong ones in full motion.
PROMPT = 0.012
# Kinds of velocities that do not fit.
(FITS, UNKNOWN, DEGREES, SIGN, ZERO, SCALED, EXCHANGED, LATE) = range(8)
IN_DEGREES = 30.0, 110.0  # ratios to the speed of the positions that count as degrees
# Least velocities [rad/s] of all joints, and least number of states, that show degrees.
LEAST_SPEED, LEAST_COUNT = 0.05, 3
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
    d.degrees[:] = 0.0
    for i in range(len(q)):
        d.measured[0, i] = d.typical[i] = qd[i]
        d.recent_paths[0, i] = d.recent_paths[1, i] = d.travel_step[i] = d.rough[i] = 0.0
        d.travel[i] = d.integral[i] = d.path[i] = d.noise[i] = 0.0
        d.underreported[i] = 0


@stage
def _name_kind(d, i, ratio):
    """Find the likeliest reason why the velocities of a joint do not fit; store it."""
    n, count = d.n, min(d.rows, INTERVALS)
    first, last = d.rows - count, d.rows - 1
    qq = iq = ii = 0.0
    for k in range(first, last):
        a, b = k % INTERVALS, (k + 1) % INTERVALS
        went = d.row_travel[b, i] - d.row_travel[a, i]
        said = d.row_integral[b, i] - d.row_integral[a, i]
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
    if (gain > 0.0 or TURNED[0] < gain < TURNED[1]) and ii - iq * gain < best:
        d.kind_figures[i, 0] = gain
        d.velocity_kind[i] = (DEGREES if IN_DEGREES[0] < gain < IN_DEGREES[1] else
                      SIGN if TURNED[0] < gain < TURNED[1] else SCALED)
        best = 0.5 * (ii - iq * gain)  # it has a parameter more than the following ones
    for other in range(n):
        left = 0.0
        for k in range(first, last):
            a, b = k % INTERVALS, (k + 1) % INTERVALS
            left += (d.row_integral[b, i] - d.row_integral[a, i]
                     - d.row_travel[b, other] + d.row_travel[a, other])**2
        if other != i and left < best:
            best, d.velocity_kind[i], d.kind_figures[i, 0] = left, EXCHANGED, other
    for late in range(2, LATEST):
        left = 0.0
        for k in range(first, last):
            a, b = k % INTERVALS, (k + 1) % INTERVALS
            went = 0.0
            if k - late >= first:
                c, e = (k - late) % INTERVALS, (k - late + 1) % INTERVALS
                went = d.row_travel[e, i] - d.row_travel[c, i]
            left += (d.row_integral[b, i] - d.row_integral[a, i] - went)**2
        if left < best:
            best, d.velocity_kind[i], d.kind_figures[i, 0] = left, LATE, late * INTERVAL


@inlined
def _floor(m, d, i):
    slow = 1.0 + max(d.stamp_spacing - SLOW, 0.0) / SLOWER
    return slow * min(FLOOR_TIME * m.fastest[i], FLOOR) + STEPS * d.steps[i]


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
            _name_kind(d, i, 0.0)
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
def _compare_paths(m, d, keeps):
    """
    Return whether the recent path of a velocity is much longer than that of the position.

    If a regression over all joints shows degrees, the floor of the paths does not count.

    """
    has_failed, factor = False, PATH_FLOOR * _strictness(d)
    for k in range(3):
        d.degrees[k] *= keeps
    ss, sq, qq = d.degrees[0], d.degrees[1], d.degrees[2]
    are_degrees = (d.states_seen > LEAST_COUNT and ss > (LEAST_SPEED * RECENT)**2 * (1.0 - keeps)
                   and IN_DEGREES[0] * qq < sq < IN_DEGREES[1] * qq
                   and sq * sq > (1.0 - ALIKE) * ss * qq)
    for i in range(d.n):
        said, went = keeps * d.recent_paths[0, i], keeps * d.recent_paths[1, i]
        d.recent_paths[0, i], d.recent_paths[1, i] = said, went
        if d.velocity_kind[i] != FITS:
            continue
        if are_degrees and said >= RATIO * went:
            d.velocity_kind[i], d.kind_figures[i, 0] = DEGREES, sq / qq
        # the resolution of a position that has not changed yet is unknown
        elif said > RATIO * went + (factor if went > 0.0 else 1.0) * _floor(m, d, i):
            _name_kind(d, i, said / (went + 1e-9))
        else:
            continue
        has_failed, d.kind_figures[i, 1], d.kind_figures[i, 2] = True, said, went
    return has_failed


@inlined
def _underreports(m, d, qd, spacing):
    """Find joints that are fast by their positions and not by their velocities."""
    has_failed, k = False, 0 if _strictness(d) == 1.0 else 1
    for i in range(len(qd)):
        step = d.travel_step[i]
        is_fast = np.abs(step) > FAST[k] * m.fastest[i] * spacing + STEPS * d.steps[i]
        if not is_fast or qd[i] * step * spacing >= UNDERREPORTED[k] * step * step:
            d.underreported[i] = 0
        elif step > 0.0:
            d.underreported[i] = max(d.underreported[i], 0) + 1
        else:
            d.underreported[i] = min(d.underreported[i], 0) - 1
        if np.abs(d.underreported[i]) >= UNDERREPORTED_STATES and d.velocity_kind[i] == FITS:
            has_failed = True
            _name_kind(d, i, 0.0)
            d.kind_figures[i, 1], d.kind_figures[i, 2] = qd[i] * spacing, step
    return has_failed


@inlined
def _has_jumped(m, d, q, dt):
    last = d.fit_newest
    for i in range(len(q)):
        step = np.abs(short_step(m, i, q[i] - d.fit_q[last, i]))
        if not step <= longest_step(m, i, dt):
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
                    m.fastest[i] + d.steps[i] / max(dt, 1e-4)):
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
            d.degrees[0] += said * said
            d.degrees[1] += said * d.travel_step[i]
            d.degrees[2] += d.travel_step[i] * d.travel_step[i]
    has_failed = False
    if d.states_seen > 1 and compares:
        has_failed = dt <= RARE and _compare_paths(m, d, 1.0 - dt / RECENT)
        if d.rows == 0 or d.stamps[0] - d.row_times[
                (d.rows - 1) % INTERVALS] >= INTERVAL * (1.0 - 1e-6):
            _add_interval(d, d.stamps[0])
        # two windows at each state; all of them, more strictly, if a joint has failed
        turn = d.states_seen % HALF
        has_failed = _compare(m, d, WINDOWS[turn]) or has_failed
        has_failed = _compare(m, d, WINDOWS[turn + HALF]) or has_failed
        if has_failed:
            for count in WINDOWS:
                _compare(m, d, count)
    for i in range(len(q)):
        d.travel_step[i] = short_step(m, i, q[i] - d.fit_q[last, i])
        d.travel[i] += d.travel_step[i]
        d.measured[1, i], d.measured[0, i] = d.measured[0, i], qd[i]
    spacing = time - d.stamps[0]
    if compares and d.states_seen > 1 and spacing > 0.5 * d.stamp_spacing:
        has_failed = _underreports(m, d, qd, spacing) or has_failed
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
    if d.states_seen > 0 and 0.0 < dt < LONGEST and _has_jumped(m, d, q, dt):
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
def fit_velocities(m, d, time, q, qd):
    """
    Replace velocities in qd (n,) that do not fit the positions q (n,); return if that is possible.

    A state that is not finite changes nothing.

    """
    for i in range(len(q)):
        if not (np.isfinite(q[i]) and np.isfinite(qd[i])):
            return True
    has_failed = time != d.stamps[0] and _follow(m, d, time, q, qd)
    uses = False
    for i in range(len(q)):
        uses = uses or d.velocity_kind[i] != FITS
    if not uses:
        return True
    if not put_estimate(m, d, PROMPT):
        return False
    for i in range(len(q)):
        if d.velocity_kind[i] != FITS:
            qd[i] = d.estimate[i]
            if has_failed and d.is_told[i] == 0:  # the last velocity did not fit either
                d.qd[i] = d.changed_qd[i] = qd[i]
    return True
