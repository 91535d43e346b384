# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Torques that stop an arm, hold it, or compensate its gravity, without the law.

Prediction of the joint state while no states arrive: forward dynamics, midpoint method.

Its input is the torques sent since the last state. The unmodelled torque is assumed constant: the
mean, over the last states, of the sent torque minus the inverse dynamics of the measured motion;
below NEGLIGIBLE of the effort limit it is noise. It has two parts. The load is compensated, and
keeps its sign when a joint reverses: the unmodelled torque then changes by twice the friction. Dry
friction is predicted but not compensated, because it brings the arm to rest and keeps it there.

If a joint has not moved in both directions, its friction is a share of its effort limit: the
median share of the joints whose friction is known, at most FRICTION. If the unmodelled torque of
such a joint acts against its motion, zero friction is assumed. The friction of a joint at rest is
not observable; its share is the median of those of the joints that move.
"""

from __future__ import annotations

import math

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.data import ANSWERED, SENT, WAY
from osc_ros.control.limits.complementarity import nearest_within, put_inverse
from osc_ros.control.model_error.command_model import put_command
from osc_ros.control.safety.sample import short_step
from osc_ros.control.safety.supervision import REACTIONS
from osc_ros.dynamics.algebra.spatial import any_beyond, assign

TRUST = 1.0  # longest prediction after the last state [s]
STEP = 0.002  # integration step; longer if one call would need more than MOST_STEPS [s]
MOST_STEPS = 25
LEAST = 4  # least number of pairs of consecutive states for an estimate
LONGEST_PAIR = 0.05  # longest time between the two states of a pair [s]
NEGLIGIBLE = 0.01  # share of the effort limit; a smaller unmodelled torque counts as noise
FRICTION = 0.05  # largest friction of a joint, as a share of its effort limit
LARGEST = 0.3  # largest estimate of the unmodelled torque, as a share of the effort limit
FASTEST = 2.0  # highest predicted speed, as a multiple of the velocity limit
# When friction is estimated, a joint is at rest below this share of its velocity limit, or of
# 1 rad/s (m/s) if the limit is higher.
RESTING = 0.01
STILL = 1e-3  # a lower predicted speed counts as rest [rad/s, m/s]
# Friction from the two directions of motion of a joint: interval of the updates [states], least
# speed (a share like RESTING), longest time between the two directions [s], and weight of a new
# torque in the mean.
INTERVAL, MOVING, REMEMBERED, RENEWAL = 4, 0.02, 1.0, 0.25


@inlined
def record_torque(d, now, tau):
    """Record a torque (n,) [N·m] that is sent at `now` [s]."""
    k = d.log_count % SENT
    d.log_times[k] = now
    assign(d.log_tau[k], tau)
    d.log_count += 1


@inlined
def record_answer(d, time, q, qd, tau):
    """Record a state (n,), (n,), its time [s], and the torque (n,) sent for it."""
    k = d.answers % ANSWERED
    d.answer_times[k] = time
    assign(d.answer_q[k], q)
    assign(d.answer_qd[k], qd)
    assign(d.answer_tau[k], tau)
    d.answers += 1
    d.answers_kept = min(d.answers_kept + 1, ANSWERED)


@inlined
def forget_states_after(d, time):
    """Discard the recorded states that are newer than `time` [s], because they were wrong."""
    while d.answers_kept > 0 and d.answer_times[
            (d.answers - 1) % ANSWERED] > time:
        d.answers_kept -= 1
        d.answers -= 1


@inlined
def put_acting(d, k, after, rows, out):
    """Write to out (n,) the torques that moved the arm from the recorded state k to `after`."""
    # They are the inverse dynamics at the mean of both states; rows (3, n) are overwritten. Return
    # the time between the states [s]; if it is not positive, nothing is written.
    dt = d.answer_times[after] - d.answer_times[k]
    if dt > 0.0:
        for i in range(len(out)):
            before, now = d.answer_qd[k, i], d.answer_qd[after, i]
            rows[0, i] = 0.5 * (d.answer_q[k, i] + d.answer_q[after, i])
            rows[1, i] = 0.5 * (before + now)
            rows[2, i] = (now - before) / dt
        put_command(d.model, rows[0], rows[1], rows[2], out)
    return dt


@inlined
def _put_mean(d, rows, mean):
    """Write the mean unmodelled torque (n,) [N·m]; return: enough states, all numbers finite."""
    kept, last = min(d.answers_kept, ANSWERED), d.answers
    duration, count = 0.0, 0
    mean[:] = 0.0
    for k in range(last - kept, last - 1):
        at = k % ANSWERED
        dt = put_acting(d, at, (k + 1) % ANSWERED, rows, rows[3])
        if 0.0 < dt <= LONGEST_PAIR:
            for i in range(len(mean)):
                mean[i] += dt * (d.answer_tau[at, i] - rows[3, i])
            duration, count = duration + dt, count + 1
    is_finite = True
    for i in range(len(mean)):
        mean[i] /= duration
        is_finite = is_finite and np.isfinite(mean[i])
    return count >= LEAST, is_finite


@inlined
def _median(values, count):
    """Sort the first `count` values in place and return their median; 0 if there are none."""
    for i in range(1, count):
        value, k = values[i], i
        while k > 0 and values[k - 1] > value:
            values[k] = values[k - 1]
            k -= 1
        values[k] = value
    if count == 0:
        return 0.0
    return 0.5 * (values[(count - 1) // 2] + values[count // 2])


@inlined
def _usual_share(d, bound, shares):
    """Median ratio of known friction to the effort limits `bound` (n,); at most FRICTION."""
    count = 0
    for i in range(len(bound)):
        if d.known_friction[i] >= 0.0 and bound[i] > 0.0:
            shares[count] = d.known_friction[i] / bound[i]
            count += 1
    return min(_median(shares, count), FRICTION) if count > 0 else FRICTION


@inlined
def _beyond(size, noise):
    """Torque without noise: 0 below `noise`, unchanged above 2 · noise, a ramp in between."""
    return min(max(2.0 * (size - noise), 0.0), size)


@inlined
def _estimate(m, d):
    """Estimate unmodelled torque and friction; with too few states, keep the last estimate."""
    rows, fastest, limits = d.room_rows, m.fastest, m.effort_limits
    mean, bound, shares = rows[4], rows[5], rows[6]
    is_known, is_finite = _put_mean(d, rows, mean)
    if not is_known:
        return
    if not is_finite:
        d.predicted_load[:] = 0.0
        return
    for i in range(len(mean)):
        bound[i] = limits[i] if np.isfinite(limits[i]) else 0.0
        mean[i] = mean[i] if bound[i] > 0.0 else 0.0
    usual, count = _usual_share(d, bound, shares), 0
    for i in range(len(mean)):
        speed, d.dry_friction[i] = d.predicted_qd[i], -1.0
        if np.abs(speed) > RESTING * min(fastest[i], 1.0):
            friction = usual * bound[i]
            if d.known_friction[i] >= 0.0:
                friction = min(friction, d.known_friction[i])
            elif mean[i] * speed <= 0.0:
                friction = 0.0
            d.dry_friction[i] = min(np.abs(mean[i]), friction)
            if bound[i] > 0.0:
                shares[count] = d.dry_friction[i] / bound[i]
                count += 1
    share = _median(shares, count)
    for i in range(len(mean)):
        size, noise = np.abs(mean[i]), NEGLIGIBLE * bound[i]
        if d.dry_friction[i] < 0.0:  # at rest
            d.dry_friction[i], size = share * bound[i], size - noise
        elif mean[i] * d.predicted_qd[i] > 0.0:
            size = _beyond(size - d.dry_friction[i], noise)
            d.dry_friction[i] = min(np.abs(mean[i]) - size, FRICTION * bound[i])
        else:
            size = _beyond(size + d.dry_friction[i], noise)
        size = min(max(size, 0.0), LARGEST * bound[i])
        d.predicted_load[i] = np.sign(mean[i]) * size


@inlined
def forget_directions(d):
    """Reset the unmodelled torques of both directions of motion, and the friction."""
    d.moved_time[:], d.known_friction[:] = -np.inf, -1.0


@stage
def compare_directions(m, d):
    """Update the friction of the joints; call this after every `record_answer`."""
    # The oldest recorded states are used: newer ones may still turn out to be frozen.
    n, fastest, rows = d.n, m.fastest, d.room_rows
    if d.answers_kept < ANSWERED or d.answers % INTERVAL != 0:
        return
    first = d.answers % ANSWERED
    last = (first + INTERVAL) % ANSWERED
    dt, time = put_acting(d, first, last, rows, rows[3]), d.answer_times[last]
    if not 0.0 < dt <= LONGEST_PAIR:
        return
    for i in range(n):
        lacking = -rows[3, i]
        for k in range(INTERVAL):
            lacking += d.answer_tau[(first + k) % ANSWERED, i] / INTERVAL
        if np.abs(rows[1, i]) <= MOVING * min(fastest[i], 1.0) or not np.isfinite(lacking):
            continue
        side = 0 if rows[1, i] > 0.0 else 1
        if d.moved_time[side, i] > d.moved_time[1 - side, i]:
            lacking = d.directed[side, i] + RENEWAL * (lacking - d.directed[side, i])
        d.directed[side, i], d.moved_time[side, i] = lacking, time
        if 0.0 <= time - d.moved_time[1 - side, i] < REMEMBERED:
            d.known_friction[i] = max(0.5 * (d.directed[0, i] - d.directed[1, i]), 0.0)


@inlined
def _put_mean_torque(d, begin, end, out):
    """Write the mean of the torques (n,) that were sent between `begin` and `end` [s]."""
    out[:] = 0.0
    sent, after = d.log_count, end
    count = min(sent, SENT)
    for k in range(count):
        j = (sent - 1 - k) % SENT
        # the oldest recorded torque is assumed to act before its time, too
        at = begin if k == count - 1 else max(d.log_times[j], begin)
        if at < after:
            for i in range(len(out)):
                out[i] += (after - at) / (end - begin) * d.log_tau[j, i]
            after = at
        if at == begin:
            break


@inlined
def put_inertia(model, q, rows, weight, M):
    """Write inertia matrix M (n, n) and gravity torques `weight` (n,); rows (3, n) are memory."""
    rest, unit, column = rows[0], rows[1], rows[2]
    rest[:], unit[:] = 0.0, 0.0
    put_command(model, q, rest, rest, weight)
    for k in range(len(q)):
        unit[k] = 1.0
        put_command(model, q, rest, unit, column)
        unit[k] = 0.0
        for i in range(len(q)):
            M[k, i] = column[i] - weight[i]


@stage
def _put_velocity(d, dt, q, out):
    """Replace velocities `out` (n,) by those dt [s] later; return whether they were found."""
    # M, C and G are those at q and the given velocities. The impulses p of dry friction, at most
    # friction · dt, satisfy M q̇ = M q̇_before + (τ - C - G) dt + p, with p opposite to q̇, and
    # smaller only where q̇ = 0: a linear complementarity problem (Moreau, Unilateral contact and
    # dry friction in finite freedom dynamics, 1988).
    n, rows, M = d.n, d.room_rows, d.room_matrix
    momentum, least, most, push, bias = rows[8], rows[9], rows[10], rows[11], rows[12]
    put_inertia(d.model, q, rows, bias, M)
    rows[0, :] = 0.0
    put_command(d.model, q, out, rows[0], bias)
    for i in range(n):
        momentum[i] = dt * (bias[i] - d.driving[i])
        for k in range(n):
            momentum[i] -= M[i, k] * d.predicted_qd[k]
        most[i] = dt * d.dry_friction[i]
        least[i] = -most[i]
        out[i] = 0.0
    return nearest_within(M, momentum, least, most, d.friction_sides, d.room_chosen,
                          d.room_factor, out, push)


@inlined
def _advance_step(m, d, dt):
    """Advance the prediction by dt [s]; return whether a finite solution was found."""
    n, rows = d.n, d.room_rows
    half, whole, middle = rows[13], rows[14], rows[15]
    assign(half, d.predicted_qd)
    if not _put_velocity(d, 0.5 * dt, d.predicted_q, half):
        return False
    for i in range(n):
        middle[i], whole[i] = d.predicted_q[i] + 0.5 * dt * d.predicted_qd[i], half[i]
    if not _put_velocity(d, dt, middle, whole):
        return False
    for i in range(n):
        most = FASTEST * m.fastest[i]
        q, qd = d.predicted_q[i] + dt * half[i], min(max(whole[i], -most), most)
        if not (np.isfinite(q) and np.isfinite(qd)):
            return False
        # a joint at its position limit is stopped by its end stop
        held = min(max(q, min(m.lower[i], d.predicted_q[i])), max(m.upper[i], d.predicted_q[i]))
        d.predicted_q[i], d.predicted_qd[i] = held, qd if held == q else 0.0
    return True


@inlined
def _begin(m, d):
    d.predicts, d.is_over, d.predicted_from, d.predicted_now = True, False, d.came, d.came
    assign(d.predicted_q, d.q)
    assign(d.predicted_qd, d.qd)
    d.dry_friction[:] = 0.0
    _estimate(m, d)
    d.answers_kept = 0


@stage
def predict(m, d, now):
    """Advance the prediction to `now` [s] with the torques recorded as sent until then."""
    # The prediction ends when the arm is at rest, TRUST after the last state, or when the model
    # returns a number that is not finite; from then on the predicted positions are constant.
    n = d.n
    if not d.predicts:
        _begin(m, d)
    before, d.predicted_now = d.predicted_now, now
    if d.is_over or not now > before:
        return
    before = max(before, now - TRUST)
    count = min(max(1, int(math.ceil((now - before) / STEP - 1e-6))), MOST_STEPS)
    dt, tau, is_moving = (now - before) / count, d.driving, False
    for k in range(count):
        _put_mean_torque(d, before + k * dt, before + (k + 1) * dt, tau)
        for i in range(n):
            tau[i] -= d.predicted_load[i]
        if not _advance_step(m, d, dt):
            d.is_over = True
            break
    for i in range(n):
        is_moving = is_moving or np.abs(d.predicted_qd[i]) > STILL
    if d.is_over or now - d.predicted_from >= TRUST or not is_moving:
        d.is_over = True
        d.predicted_qd[:] = 0.0


# Least motion between two recorded positions, of the joint that moves most [rad, m].
SPACING = 0.005
# Largest number of positions on the way back of 'retract', so that WAY positions are enough.
PIECES = 400


@inlined
def _distance(q, other):
    """Largest motion of a joint between two positions [rad, m]."""
    farthest = 0.0
    for i in range(len(q)):
        farthest = max(farthest, np.abs(q[i] - other[i]))
    return farthest


@inlined
def record_way(d, longest, q):
    """Record a position (n,) far enough from the last one; `longest` is the way back [rad, m]."""
    count = d.way_count
    if count == 0 or _distance(q, d.way[(count - 1) % WAY]) > max(
            SPACING, longest / PIECES):
        assign(d.way[count % WAY], q)
        d.way_count = count + 1


@inlined
def begin_way_back(d, distance, q):
    """Start the way back at q (n,), over a distance [rad, m] of the joint that moves most."""
    assign(d.way_at, q)
    assign(d.anchor, q)
    d.way_left, d.way_next = distance, d.way_count - 1


@inlined
def go_back(d, distance):
    """Advance the position `way_at` by a distance [rad, m] along the way back."""
    distance = min(distance, d.way_left)
    oldest = max(0, d.way_count - WAY)
    while distance > 0.0 and d.way_next >= oldest:
        goal = d.way[d.way_next % WAY]
        step = _distance(goal, d.way_at)
        share = distance / step if step > distance else 1.0
        for i in range(len(goal)):
            d.way_at[i] += share * (goal[i] - d.way_at[i])
        d.way_left -= min(step, distance)
        distance -= step
        if share == 1.0:
            d.way_next -= 1


# Least braking rate of 'brake', which stops the arm before the prediction ends (TRUST) [1/s].
BLIND_RATE = 10.0
# After a gap of the states, a new anchor is set if a joint would stop farther from it [rad, m].
SAGGED = 0.05
TOO_FAST = 1.3, 1.6  # multiples of the speed limit between which the braking rate rises
# While a joint is beyond its speed limit: if the effort limits leave less than this share of the
# wanted braking, each joint is braked separately, and the motion changes its direction.
EXACT = 0.3
# Share of a torque limit. As C + G rises through this range below the limit, braking changes
# gradually from one factor for all joints to separate torques.
NEAR = 0.1

# Sources of the torque. 'resumed': first torque of the law after an interruption. 'zero': zero
# torque. 'gravity', 'weight': compensate gravity; 'gravity' also damps joints faster than their
# limits. 'damp', 'brake': brake with the stop rate, 'brake' at least with BLIND_RATE. 'hold',
# 'retract': move to a position, the anchor, and hold it. 'comply': brake, and move to the anchor
# slowly.
SOURCES = ('', 'law', 'resumed', 'zero', 'gravity', 'weight', 'brake', 'damp', 'hold', 'comply',
           'retract')
(NONE, LAW, RESUMED, ZERO, GRAVITY, WEIGHT, BRAKE, DAMP, HOLD, COMPLY, RETRACT) = range(
    len(SOURCES))
SOURCE_OF = np.array([SOURCES.index(one) if one in ('comply', 'retract', 'damp') else HOLD
                      for one in REACTIONS])  # default source of the torque, for each reaction


@inlined
def _goes_on(m, d, source, q, qd):
    """Return whether `source` has set the anchor, and all joints will stop within SAGGED of it."""
    for i in range(len(q)):
        if np.abs(q[i] + qd[i] / m.stop_rate - d.anchor[i]) > SAGGED:
            return False
    return d.anchor_source == source


@inlined
def begin_source(m, d, before, source, q, qd):
    """Set the anchor (n,) when the source of the torque changes from `before` to `source`."""
    # The anchor is the position to which the new source moves the arm from its state q, qd (n,),
    # and where it holds the arm [rad, m].
    was_blind = before == BRAKE or before == WEIGHT
    if source == BRAKE or source == WEIGHT:
        if not was_blind and before != d.anchor_source:
            d.anchor_source = NONE
        return
    if was_blind and _goes_on(m, d, source, q, qd):
        return
    d.anchor_source = source
    if source == HOLD:  # where the arm stops
        for i in range(d.n):
            d.anchor[i] = min(max(q[i] + qd[i] / m.stop_rate, m.lower[i]),
                               m.upper[i])
    elif source in (COMPLY, RETRACT):
        begin_way_back(d, m.retreat, q)


@inlined
def move_anchor(m, d, dt):
    """Advance the anchor of 'retract', the position to move to, by a time dt [s]."""
    go_back(d, dt * m.retreat_speed)
    for i in range(d.n):
        d.anchor[i] = min(max(d.way_at[i], m.lower[i]), m.upper[i])


@inlined
def _extra_rate(m, i, q, qd):
    """Damping rate of a joint in addition to the stop rate [1/s]."""
    # It stops the joint before its position limit, and rises to `hardest_rate` for a joint far
    # beyond its speed limit, see TOO_FAST.
    speed = np.abs(qd)
    space = m.upper[i] - q if qd > 0.0 else q - m.lower[i]
    # a constant deceleration of q̇²/(2 space) stops at the limit
    needed = speed / max(2.0 * space, speed / m.hardest_rate + 1e-12)
    beyond = (speed / m.fastest[i] - TOO_FAST[0]) / (TOO_FAST[1] - TOO_FAST[0])
    needed = max(needed, min(max(beyond, 0.0), 1.0) * m.hardest_rate)
    return max(needed - m.stop_rate, 0.0)


@inlined
def _put_accelerations(m, d, source, q, qd, qdd):
    """Write the accelerations (n,) [rad/s²] that brake the arm, or move it to the anchor."""
    rate = m.stop_rate
    if source == BRAKE:
        rate = max(rate, BLIND_RATE)
    for i in range(len(q)):
        away = short_step(m, i, d.anchor[i] - q[i])
        if source in (HOLD, RETRACT):
            # with the anchor at q + q̇/ω this is q̈ = -ω q̇: an exponential, without overshoot
            qdd[i] = rate * (rate * away - 2.0 * qd[i])
        elif source == COMPLY:
            qdd[i] = m.comply_frequency * m.comply_frequency * away - rate * qd[i]
        else:
            qdd[i] = -rate * qd[i]
        qdd[i] -= _extra_rate(m, i, q[i], qd[i]) * qd[i]


@inlined
def _share_within(h, limits, tau):
    """Largest factor, at most 1, with which h + factor · (tau - h) is within the limits (n,)."""
    share = 1.0
    for i in range(len(tau)):
        room = limits[i] - h[i] if tau[i] > h[i] else limits[i] + h[i]
        if tau[i] != h[i] and room > 0.0:
            share = min(share, room / np.abs(tau[i] - h[i]))
    return share


@inlined
def _put_within(m, d, q, qd):
    """Reduce the braking torques `wanted` (n,) to the limits (n,)."""
    # One factor for all joints reduces the part beyond the bias torques, so that the kinetic
    # energy falls. If Coriolis torques take up the limits (factor below EXACT), each joint is
    # gradually braked separately, with `hardest_rate`: this takes energy from the arm at any
    # speed, as long as the limits carry its weight.
    rows, tau, limits, unmodelled = d.room_rows, d.wanted, d.effort_limits, d.stop_load
    rest, h, weight = rows[4], rows[5], rows[6]
    rest[:] = 0.0
    put_command(d.model, q, qd, rest, h)
    for i in range(len(q)):
        h[i] += unmodelled[i]
    share = _share_within(h, limits, tau)
    for i in range(len(q)):
        tau[i] = h[i] + share * (tau[i] - h[i])
    if not any_beyond(qd, m.fastest, 1.0):
        return
    for i in range(len(q)):
        room = (1.0 - np.abs(h[i]) / limits[i]) / NEAR
        if room < 1.0:
            share = min(share, EXACT * max(0.0, room))
    if share < EXACT:
        put_inertia(d.model, q, rows, weight, d.room_matrix)
        put_inverse(d.room_matrix, d.room_chosen, d.room_factor, d.room_inverse)
        for i in range(len(q)):
            alone = (weight[i] + unmodelled[i]
                     - m.hardest_rate * qd[i] / d.room_inverse[i, i])
            alone = min(max(alone, -limits[i]), limits[i])
            tau[i] = alone + share / EXACT * (tau[i] - alone)


@stage
def put_stop_torque(m, d, source, q, qd):
    """Write the torque (n,) of a source in SOURCES that needs no law to `wanted` [N·m]."""
    # It includes `stop_load`, and is within the effort limits in force. q, qd (n,): state.
    n = d.n
    qdd, rest, tau = d.room_rows[7], d.room_rows[4], d.wanted
    rest[:], tau[:] = 0.0, 0.0
    if source == ZERO:
        return
    if source in (GRAVITY, WEIGHT):
        for i in range(n):  # damping of joints beyond their speed limit only
            beyond = qd[i] - min(max(qd[i], -m.fastest[i]), m.fastest[i])
            qdd[i] = -m.hardest_rate * beyond if source == GRAVITY else 0.0
        qd = rest
    else:
        _put_accelerations(m, d, source, q, qd, qdd)
    put_command(d.model, q, qd, qdd, tau)
    for i in range(n):
        tau[i] += d.stop_load[i]
    if source not in (GRAVITY, WEIGHT) and any_beyond(tau, d.effort_limits, 1.0):
        _put_within(m, d, q, qd)
