# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
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
from osc_ros.control.data import ANSWERED, SENT
from osc_ros.control.limits.complementarity import nearest_within
from osc_ros.control.model_error.command_model import put_command
from osc_ros.dynamics.algebra.vectors import assign

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
INTERVAL, MOVING, REMEMBERED, WEIGHT = 4, 0.02, 1.0, 0.25


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
            lacking = d.directed[side, i] + WEIGHT * (lacking - d.directed[side, i])
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
