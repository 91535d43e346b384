# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Response of the joints to the sent torques: disobedience, external pushes, resistance to them.

Two torques of each joint are compared: the sent torque, and the acting torque, which is the
inverse dynamics of the measured motion. They are equal if the model is right and there is neither
friction nor an external force. If the sent torque changes and the acting torque is its opposite,
the joint does not obey: its motor turns the other way, or it gets the torques of another joint. If
the acting torque changes like the sent torque, the joint obeys, even if an external force drives
it too: a person who pushes an arm beyond its speed limits is no reason to give the arm up.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.data import ANSWERED, ENERGIES, LAGS, PAIRS
from osc_ros.control.limits.bounds import unexplained_weight
from osc_ros.control.limits.complementarity import put_inverse
from osc_ros.control.model_error.command_model import put_command
from osc_ros.control.safety.causes import abandon, DISOBEYS, REPORT, SPEEDS_UP
from osc_ros.control.safety.sample import OVERSPEED_ONCE
from osc_ros.control.safety.stopping import put_acting, put_inertia
from osc_ros.control.safety.supervision import REACTIONS
from osc_ros.dynamics.algebra.spatial import all_finite, any_beyond, assign

BRISK = 0.5  # share of the speed limit; the response is examined if a joint is faster
# A joint moves against its torques if the last MIRRORED acting torques are the opposite of the
# sent ones, each within the relative TOLERANCE.
MIRRORED, TOLERANCE = PAIRS - LAGS, 0.25
# A joint obeys if the ratio of the changes of its acting torque to those of the sent torque is
# between the two numbers of OBEYS, and their correlation exceeds CORRELATED. It contradicts if the
# ratio is below the first number by DOUBT standard errors. Both need changes of the sent torque
# above VARIED of the effort limit. Each period, older changes are multiplied by KEPT.
OBEYS, CORRELATED, VARIED, KEPT, DOUBT = (0.5, 2.0), 0.6, 0.02, 0.96, 2.0
LONGEST_PAIR = 0.02  # longest time between two states that are compared [s]
LARGE = 0.005  # share of the effort limit; smaller sent torques show no disobedience
MOVING = 0.05  # share of the speed limit; a slower joint shows no disobedience
# A hit is a change of the external torque by the share HIT of the effort limit; external torques
# are then not resisted for HITTING states.
HIT, HITTING = 0.1, 5
EXAMINED = 4.0  # multiple of the speed limit above which external torques are not resisted
EXTERNAL = 2  # number of last states over which external torques are averaged
# Time after which a reaction must have slowed an arm that is too fast [s]: ESCALATION, or PUSHED
# if the joints obey, because then an external force drives the arm.
ESCALATION, PUSHED = 0.02, 0.25
GROWTH = 1.1  # growth of the kinetic energy in this time that counts as speeding up
GRAVITY = REACTIONS.index('gravity'), REACTIONS.index('zero')  # reactions that do not brake


@inlined
def _add_pair(d, sent, acting):
    """Record the sent and the acting torque (n,) of a period, and detect a hit on the arm."""
    limits, count, is_hit = d.effort_limits, d.pairs, False
    before = (count - 1 if count > 0 else 0) % PAIRS
    k = count % PAIRS
    if count == 0:
        assign(d.pair_sent[k], sent)
        assign(d.pair_acting[k], acting)
    for i in range(len(sent)):
        change = acting[i] - sent[i] - d.pair_acting[before, i] + d.pair_sent[before, i]
        is_hit = is_hit or np.abs(change) > HIT * limits[i]
    assign(d.pair_sent[k], sent)
    assign(d.pair_acting[k], acting)
    d.pairs = count + 1
    d.hit = HITTING if is_hit else max(0, d.hit - 1)
    _compare_changes(d)


@inlined
def _compare_changes(d):
    """Add the last changes of the torques to the sums of RESPONSE, except for a joint just hit."""
    limits, count = d.effort_limits, d.pairs
    for i in range(d.n):
        d.acting_varied[i] *= KEPT
        for lag in range(LAGS + 1):
            d.varied[lag, i] *= KEPT
            d.followed[lag, i] *= KEPT
        if count < 2:
            continue
        k, before = (count - 1) % PAIRS, (count - 2) % PAIRS
        change = d.pair_acting[k, i] - d.pair_acting[before, i]
        if np.abs(change - d.pair_sent[k, i] + d.pair_sent[before, i]) > HIT * limits[i]:
            continue
        d.acting_varied[i] += change * change
        for lag in range(min(LAGS, count - 2) + 1):
            part = (d.pair_sent[(k - lag) % PAIRS, i]
                    - d.pair_sent[(k - lag - 1) % PAIRS, i])
            d.varied[lag, i] += part * part
            d.followed[lag, i] += part * change


@inlined
def _obeys(d, i):
    """Return whether the acting torque changes like the sent one, at most LAGS periods later."""
    for lag in range(LAGS + 1):
        varied, followed = d.varied[lag, i], d.followed[lag, i]
        if (varied > (VARIED * d.effort_limits[i]) ** 2
                and OBEYS[0] * varied < followed < OBEYS[1] * varied
                and followed > CORRELATED * np.sqrt(varied * d.acting_varied[i])):
            return True
    return False


@inlined
def _is_pushed(d, joint):
    """Return whether an external force drives the arm: `joint` obeys, and none contradicts."""
    for i in range(d.n):
        is_varied, follows = False, False
        for lag in range(LAGS + 1):
            varied, followed = d.varied[lag, i], d.followed[lag, i]
            if varied == 0.0:
                continue
            is_varied = is_varied or varied > (VARIED * d.effort_limits[i]) ** 2
            rest = max(d.acting_varied[i] - followed * followed / varied, 0.0)
            doubt = DOUBT * np.sqrt((1.0 - KEPT) * rest * varied)
            follows = follows or followed + doubt > OBEYS[0] * varied
        if is_varied and not follows:
            return False
    return _obeys(d, joint)


@inlined
def _residuals(d, i, lag, sign):
    """Compare the last acting torques with `sign` times the sent ones, `lag` states older."""
    # Return whether all differences are within TOLERANCE, and the sums of their squared first and
    # second differences.
    is_like, first, second, difference, change = True, 0.0, 0.0, 0.0, 0.0
    for k in range(MIRRORED):
        at = d.pairs - MIRRORED + k
        part, before, last = d.pair_sent[(at - lag) % PAIRS, i], difference, change
        difference = d.pair_acting[at % PAIRS, i] - sign * part
        change = difference - before
        is_like = is_like and np.abs(difference) < TOLERANCE * np.abs(part)
        if k > 0:
            first += change * change
        if k > 1:
            second += (change - last)**2
    return is_like, first, second


@inlined
def _mirrored_joint(m, d, qd):
    """Return the first joint whose acting torques are the opposite of the sent ones, or -1."""
    # If a person pushes twice as hard as the joint resists, they are opposite, too. But then a
    # push that rises evenly explains the changes of the acting torques better.
    count = d.pairs
    for i in range(d.n if count >= MIRRORED else 0):
        if np.abs(qd[i]) < MOVING * m.fastest[i] or _obeys(d, i):
            continue
        opposite = evenly = np.inf
        for lag in range(min(LAGS, min(count, PAIRS) - MIRRORED) + 1):
            is_like, first, _ = _residuals(d, i, lag, -1.0)
            opposite = min(opposite, first) if is_like else opposite
            is_like, _, second = _residuals(d, i, lag, 1.0)
            evenly = 0.0 if is_like else min(evenly, second)
        if not opposite < evenly:
            continue
        least, most, largest = np.inf, -np.inf, 0.0
        for k in range(count - MIRRORED, count):
            sent = d.pair_sent[k % PAIRS, i]
            least, most = min(least, sent), max(most, sent)
            largest = max(largest, np.abs(sent))
        if most - least > TOLERANCE * largest and largest > LARGE * d.effort_limits[i]:
            return i
    return -1


@stage
def examine(m, d):
    """Compare states and torques recorded since the last call; store a joint that disobeys."""
    # A joint without an effort limit in force is not examined.
    rows, last = d.room_rows, d.answers
    kept = min(d.answers_kept, ANSWERED)
    for one in range(last - kept, last - 1):
        k, after = one % ANSWERED, (one + 1) % ANSWERED
        if d.answer_times[after] <= d.compared_time:
            continue
        d.compared_time = d.answer_times[after]
        dt = put_acting(d, k, after, rows, rows[3])
        if not (0.0 < dt <= LONGEST_PAIR and all_finite(rows[3])):
            d.pairs = 0
            continue
        _add_pair(d, d.answer_tau[k], rows[3])
        if any_beyond(d.answer_qd[after], m.fastest, 1.0):
            d.disobeys = _mirrored_joint(m, d, d.answer_qd[after]) + 1


@inlined
def _kinetic_energy(model, q, qd, rows):
    rows[0, :] = 0.0
    put_command(model, q, rows[0], qd, rows[1])
    put_command(model, q, rows[0], rows[0], rows[2])
    energy = 0.0
    for i in range(len(q)):
        energy += 0.5 * qd[i] * (rows[1, i] - rows[2, i])
    return energy


@inlined
def _speeds_up(d, within):
    """Record the kinetic energy; return whether it grew by the factor GROWTH in `within` [s]."""
    count, newest = d.energies, d.energies % ENERGIES
    d.energy_times[newest] = d.time
    d.kinetic[newest] = _kinetic_energy(d.model, d.q, d.qd, d.room_rows)
    d.energies, d.energies_kept = count + 1, min(d.energies_kept + 1, ENERGIES)
    for k in range(1, d.energies_kept):
        before = (count - k) % ENERGIES
        if d.energy_times[before] <= d.time - within or k == ENERGIES - 1:
            return d.kinetic[newest] > GROWTH * d.kinetic[before]
    return False


@stage
def watch_response(m, d):
    """Give the arm up if a joint does not obey, or if a reaction does not slow a fast arm."""
    examine(m, d)
    if d.disobeys > 0:
        abandon(d, DISOBEYS, d.disobeys - 1, 0.0)
        return
    share, joint, newest = 0.0, 0, (d.energies - 1) % ENERGIES
    for i in range(d.n):
        if np.abs(d.qd[i]) / m.fastest[i] > share:
            share, joint = np.abs(d.qd[i]) / m.fastest[i], i
    if (d.reaction <= REPORT or d.reaction in GRAVITY or share < OVERSPEED_ONCE
            or d.energies_kept > 0 and d.energy_times[newest] >= d.time):
        d.energies_kept = 0
        return
    if _speeds_up(d, PUSHED if _is_pushed(d, joint) else ESCALATION):
        abandon(d, SPEEDS_UP, joint, np.abs(d.qd[joint]))


@stage
def add_resistance(m, d, q, qd, out):
    """Add torques to `out` (n,) against external ones that drive a joint too fast."""
    # They are zero if no joint that the external torques speed up is above WEIGHT_RANGE[0] of its
    # speed limit (see `limits.bounds`); if a joint is faster than EXAMINED times its limit: the
    # estimate is useless; and for HITTING states after a hit, which is over before torques can
    # act. All external torques are cancelled together: to cancel the acceleration of one joint
    # alone, others would need large torques.
    n, count, fastest = d.n, d.pairs, m.fastest
    recent = min(min(count, PAIRS), EXTERNAL)
    if recent == 0 or d.hit > 0 or any_beyond(qd, fastest, EXAMINED):
        return
    rows, share = d.room_rows, 0.0
    external, weight, inverse = rows[3], rows[4], d.room_inverse
    for i in range(n):
        external[i] = 0.0
        for k in range(count - recent, count):
            external[i] += (d.pair_acting[k % PAIRS, i] - d.pair_sent[k % PAIRS, i]) / recent
    put_inertia(d.model, q, rows, weight, d.room_matrix)
    put_inverse(d.room_matrix, d.room_chosen, d.room_factor, inverse)
    for i in range(n):
        driven = 0.0
        for k in range(n):
            driven += inverse[i, k] * external[k]
        if driven * qd[i] > 0.0:
            share = max(share, unexplained_weight(np.abs(qd[i]), fastest[i]))
    for i in range(n):
        out[i] -= share * external[i]
