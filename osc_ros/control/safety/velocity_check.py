# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Comparison of the measured velocities with the positions, for each joint.

The integral of a velocity must be the change of the position, over the last 10 to 300 ms: a
velocity may lag by LAG and a period, may be wrong by SHARE, and both may have noise. Also the path
lengths of both are compared, because velocities in degrees let an arm vibrate at every state. A
joint whose velocities do not fit has estimates from the positions from then on.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.safety.estimate import forget_positions, put_estimate, put_position
from osc_ros.control.safety.sample import FROZEN_LONG, JUMP_FACTOR, longest_step, short_step
from osc_ros.control.safety.tables import INTERVALS

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
# Duration of the positions of an estimate [s]: shorter than without measured velocities, because
# it takes over from wrong ones in full motion.
PROMPT = 0.012
# Kinds of velocities that do not fit.
(FITS, UNKNOWN, DEGREES, SIGN, ZERO, SCALED, EXCHANGED, LATE) = range(8)
IN_DEGREES = 30.0, 110.0  # ratios to the speed of the positions that count as degrees
TURNED = -1.6, -0.6  # ratios that count as a wrong sign
ALIKE = 0.2  # largest residual of an explanation, relative to the velocities
LATEST = 12  # largest delay that is tried [intervals]


@inlined
def _median(a, b, c):
    return max(min(a, b), min(max(a, b), c))


@inlined
def _begin(at, time, q, qd):
    """Begin a comparison, at the first state or after a gap."""
    at.seen[0], at.rows[0], at.stamps[0] = 1.0, 0.0, time
    for i in range(len(q)):
        at.measured[0, i] = at.typical[i] = qd[i]
        at.recent[0, i] = at.recent[1, i] = at.step[i] = at.rough[i] = 0.0
        at.travel[i] = at.integral[i] = at.path[i] = at.noise[i] = 0.0


@stage
def _name_kind(at, i, ratio):
    """Find the likeliest reason why the velocities of a joint do not fit; store it."""
    n, count = len(at.kind), int(min(at.rows[0], INTERVALS))
    first, last = int(at.rows[0]) - count, int(at.rows[0]) - 1
    qq = iq = ii = 0.0
    for k in range(first, last):
        a, b = k % INTERVALS, (k + 1) % INTERVALS
        went = at.row_travel[b, i] - at.row_travel[a, i]
        said = at.row_integral[b, i] - at.row_integral[a, i]
        qq, iq, ii = qq + went * went, iq + said * went, ii + said * said
    at.kind[i], at.figures[i, 0] = UNKNOWN, ratio
    if IN_DEGREES[0] < ratio < IN_DEGREES[1]:
        at.kind[i] = DEGREES
        return
    if qq > 0.0 and ii <= 1e-6 * qq:
        at.kind[i] = ZERO
        return
    best = ALIKE * ii
    if qq > 0.0 and ii - iq * iq / qq < best:
        gain = at.figures[i, 0] = iq / qq
        at.kind[i] = (DEGREES if IN_DEGREES[0] < gain < IN_DEGREES[1] else
                      SIGN if TURNED[0] < gain < TURNED[1] else SCALED)
        best = 0.5 * (ii - iq * iq / qq)  # it has a parameter more than the following ones
    for other in range(n):
        left = 0.0
        for k in range(first, last):
            a, b = k % INTERVALS, (k + 1) % INTERVALS
            left += (at.row_integral[b, i] - at.row_integral[a, i]
                     - at.row_travel[b, other] + at.row_travel[a, other])**2
        if other != i and left < best:
            best, at.kind[i], at.figures[i, 0] = left, EXCHANGED, other
    for late in range(2, LATEST):
        left = 0.0
        for k in range(first, last):
            a, b = k % INTERVALS, (k + 1) % INTERVALS
            went = 0.0
            if k - late >= first:
                c, d = (k - late) % INTERVALS, (k - late + 1) % INTERVALS
                went = at.row_travel[d, i] - at.row_travel[c, i]
            left += (at.row_integral[b, i] - at.row_integral[a, i] - went)**2
        if left < best:
            best, at.kind[i], at.figures[i, 0] = left, LATE, late * INTERVAL


@inlined
def _floor(at, robot, i):
    slow = 1.0 + max(at.spacing[0] - SLOW, 0.0) / SLOWER
    return slow * min(FLOOR_TIME * robot.fastest[i], FLOOR) + STEPS * at.steps[i]


@inlined
def _strictness(at):
    """Factor on the tolerances: what is wrong with one joint is probably wrong with others."""
    for kind in at.kind:
        if kind != FITS:
            return SUSPECT
    return 1.0


@stage
def _compare(at, robot, count):
    """Compare integral and travel since an earlier row; return whether any joint fails."""
    newest, time, has_failed = int(at.rows[0]) - 1, at.stamps[0], False
    first, earlier = (newest - count) % INTERVALS, (newest - count - 1) % INTERVALS
    if count + 1 > min(newest, INTERVALS - 1) or time - at.row_times[earlier] > LONGEST:
        return False
    before = newest % INTERVALS
    if time - at.row_times[before] < 0.5 * INTERVAL:
        before = (newest - 1) % INTERVALS
    factor = _strictness(at)
    late, early = factor * LAG + at.spacing[0], LEAD + at.spacing[0]
    for i in range(len(at.kind)):
        if at.kind[i] != FITS:
            continue
        went = at.travel[i] - at.row_travel[first, i]
        said = at.integral[i] - at.row_integral[first, i]
        change = ((at.travel[i] - at.row_travel[before, i]) / (time - at.row_times[before])
                  - (at.row_travel[first, i] - at.row_travel[earlier, i])
                  / (at.row_times[first] - at.row_times[earlier]))
        low = min(-late * change, early * change)
        high = max(-late * change, early * change)
        differs = said - went
        left = differs - min(max(differs, low), high)
        noise = NOISE * np.sqrt(max(at.noise[i] - at.row_noise[first, i], 0.0))
        path = at.path[i] + np.abs(at.travel[i] - at.row_travel[newest % INTERVALS, i])
        if np.abs(left) > factor * _floor(at, robot, i) + min(noise, FLOOR) + SHARE * (
                path - at.row_path[first, i]):
            has_failed = True
            _name_kind(at, i, 0.0)
            at.figures[i, 1], at.figures[i, 2] = said, went
    return has_failed


@inlined
def _add_interval(at, time):
    """Store travel and integral at a time."""
    row, last = int(at.rows[0]) % INTERVALS, (int(at.rows[0]) - 1) % INTERVALS
    at.row_times[row] = time
    for i in range(len(at.kind)):
        if at.rows[0] > 0.0:
            at.path[i] += np.abs(at.travel[i] - at.row_travel[last, i])
        at.row_travel[row, i], at.row_integral[row, i] = at.travel[i], at.integral[i]
        at.row_path[row, i], at.row_noise[row, i] = at.path[i], at.noise[i]
    at.rows[0] += 1.0


@inlined
def _compare_paths(at, robot, keeps):
    """Return whether the recent path of a velocity is much longer than that of the position."""
    has_failed, factor = False, PATH_FLOOR * _strictness(at)
    for i in range(len(at.kind)):
        said, went = keeps * at.recent[0, i], keeps * at.recent[1, i]
        at.recent[0, i], at.recent[1, i] = said, went
        if at.kind[i] == FITS and said > RATIO * went + factor * _floor(at, robot, i):
            has_failed = True
            _name_kind(at, i, said / (went + 1e-9))
            at.figures[i, 1], at.figures[i, 2] = said, went
    return has_failed


@inlined
def _has_jumped(at, robot, q, dt):
    last = int(at.newest[0])
    for i in range(len(q)):
        step = np.abs(short_step(robot, i, q[i] - at.positions[last, i]))
        if not step <= longest_step(robot, i, dt):
            return True
    return False


@inlined
def _advance(at, robot, time, q, qd, compares):
    """Integrate up to the last state but one; return whether velocities no longer fit."""
    dt, last = at.stamps[0] - at.stamps[1], int(at.newest[0])
    for i in range(len(q)):
        if at.seen[0] > 1.0:
            typical = at.measured[0, i]
            # one corrupt state must not count much
            if dt > RARE or not np.abs(typical) <= JUMP_FACTOR * (
                    robot.fastest[i] + at.steps[i] / max(dt, 1e-4)):
                typical = _median(qd[i], typical, at.measured[1, i])
            said = 0.5 * dt * (typical + at.typical[i])
            at.typical[i] = typical
            at.integral[i] += said
            rough = said - at.step[i]
            if at.seen[0] > 2.0:
                at.noise[i] += 0.5 * (rough - at.rough[i])**2
            at.rough[i] = rough
            at.recent[0, i] += np.abs(said)
            at.recent[1, i] += np.abs(at.step[i])
    has_failed = False
    if at.seen[0] > 1.0 and compares:
        has_failed = dt <= RARE and _compare_paths(at, robot, 1.0 - dt / RECENT)
        if at.rows[0] == 0.0 or at.stamps[0] - at.row_times[
                int(at.rows[0] - 1.0) % INTERVALS] >= INTERVAL * (1.0 - 1e-6):
            _add_interval(at, at.stamps[0])
        # two windows at each state; all of them, more strictly, if a joint has failed
        turn = int(at.seen[0]) % HALF
        has_failed = _compare(at, robot, WINDOWS[turn]) or has_failed
        has_failed = _compare(at, robot, WINDOWS[turn + HALF]) or has_failed
        if has_failed:
            for count in WINDOWS:
                _compare(at, robot, count)
    for i in range(len(q)):
        at.step[i] = short_step(robot, i, q[i] - at.positions[last, i])
        at.travel[i] += at.step[i]
        at.measured[1, i], at.measured[0, i] = at.measured[0, i], qd[i]
    spacing = time - at.stamps[0]
    at.spacing[0] += (0.1 if at.spacing[0] > 0.0 else 1.0) * (spacing - at.spacing[0])
    at.stamps[1], at.stamps[0] = at.stamps[0], time
    at.seen[0] += 1.0
    return has_failed


@inlined
def _follow(at, robot, gate, time, q, qd):
    """
    Take a state with a new stamp; return whether velocities no longer fit.

    Nothing is compared while no position changes, because a driver may repeat its last values.
    There is one exception. If no position has changed since the start, and the velocities have
    been in doubt for FROZEN_LONG, the arm is at rest, and its velocities are compared.

    """
    dt, is_repeated = time - at.stamps[0], True
    for i in range(len(q)):
        is_repeated = is_repeated and q[i] == gate.changed_q[i]
    if at.seen[0] > 0.0 and 0.0 < dt < LONGEST and _has_jumped(at, robot, q, dt):
        at.jumped[0] += 1.0
        if at.jumped[0] < 2.0:
            return False
        at.seen[0] = 0.0
    at.jumped[0] = 0.0
    rests = gate.changes[0] <= 1.0 and gate.is_doubted[0] > 0.0 and (
        time - gate.changed_time[0] > FROZEN_LONG)
    was_quiet = not is_repeated and time - gate.changed_time[0] > max(QUIET, 2.0 * dt)
    if at.seen[0] == 0.0 or dt < 0.0 or dt > max(GAP, PERIODS * at.spacing[0]) or was_quiet:
        if dt < 0.0:
            forget_positions(at)
        if at.seen[0] > 0.0 and dt > 0.0:
            at.spacing[0] += 0.1 * (min(dt, LONGEST) - at.spacing[0])
        _begin(at, time, q, qd)
        has_failed = False
    else:
        has_failed = _advance(at, robot, time, q, qd, not is_repeated or rests)
    put_position(at, robot, time, q)
    return has_failed


@inlined
def fit_velocities(at, robot, gate, time, q, qd):
    """
    Replace velocities in qd (n,) that do not fit the positions q (n,); return if that is possible.

    `at` are views of VELOCITIES, `robot` of ROBOT with `fastest` and `turns`, `gate` of GATE. A
    state that is not finite changes nothing.

    """
    for i in range(len(q)):
        if not (np.isfinite(q[i]) and np.isfinite(qd[i])):
            return True
    has_failed = time != at.stamps[0] and _follow(at, robot, gate, time, q, qd)
    uses = False
    for i in range(len(q)):
        uses = uses or at.kind[i] != FITS
    if not uses:
        return True
    if not put_estimate(at, robot, PROMPT):
        return False
    for i in range(len(q)):
        if at.kind[i] != FITS:
            qd[i] = at.estimate[i]
            if has_failed and at.is_told[i] == 0.0:  # the last velocity did not fit either
                gate.qd[i] = gate.changed_qd[i] = qd[i]
    return True
