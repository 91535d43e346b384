# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Prediction of the joint state while no states arrive, by integration of the forward dynamics.

The input is the torques that were sent since the last state; the integration is the midpoint
method. Dry friction stops joints, and keeps them at rest. The unmodelled torque is assumed
constant. It is estimated from the last states: the mean of the sent torque minus the inverse
dynamics of the measured motion. Below NEGLIGIBLE of the effort limit it counts as noise.

The unmodelled torque has two parts, load and dry friction. The load is compensated. Dry friction
is predicted but not compensated, because it brings the arm to rest. The load keeps its sign when a
joint reverses, so the unmodelled torque then changes by twice the friction.

If a joint has not moved in both directions, its friction is a share of its effort limit: the
median share of the joints whose friction is known, at most FRICTION. If the unmodelled torque of
such a joint acts against its motion, zero friction is assumed. The friction of a joint at rest is
not observable; its share is the median of those of the joints that move.
"""

from __future__ import annotations

import math

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.limits.complementarity import nearest_within
from osc_ros.control.model_error.command_model import put_command
from osc_ros.control.safety.tables import (
    ANSWERED,
    GATE,
    OUTPUT_PLAN,
    PREDICTION,
    ROBOT,
    ROOM,
    SENT,
)
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

_views, _friction_views = PREDICTION.views, PREDICTION.only('at_qd', 'dry_friction', 'sides')
_answer_views = PREDICTION.only('answered', 'kept', 'times', 'q', 'qd', 'tau', 'directed', 'moved',
                                'friction')
_step_views = PREDICTION.only('at_q', 'at_qd')
_gate_views, _output_views = GATE.only('came', 'q', 'qd'), OUTPUT_PLAN.only('limits')
_robot_views = ROBOT.only('fastest', 'lower', 'upper')
_room_views = ROOM.only('matrix', 'factor', 'chosen', 'driving', 'rows')


@inlined
def record_torque(prediction, now, tau):
    """Record a torque (n,) [N·m] that is sent at `now` [s]."""
    k = int(prediction.sent[0]) % SENT
    prediction.sent_times[k] = now
    assign(prediction.sent_tau[k], tau)
    prediction.sent[0] += 1.0


@inlined
def record_answer(prediction, time, q, qd, tau):
    """Record a state (n,), (n,), its time [s], and the torque (n,) sent for it."""
    k = int(prediction.answered[0]) % ANSWERED
    prediction.times[k] = time
    assign(prediction.q[k], q)
    assign(prediction.qd[k], qd)
    assign(prediction.tau[k], tau)
    prediction.answered[0] += 1.0
    prediction.kept[0] = min(prediction.kept[0] + 1.0, ANSWERED)


@inlined
def forget_states_after(prediction, time):
    """Discard the recorded states that are newer than `time` [s], because they were wrong."""
    while prediction.kept[0] > 0.0 and prediction.times[
            int(prediction.answered[0] - 1.0) % ANSWERED] > time:
        prediction.kept[0] -= 1.0
        prediction.answered[0] -= 1.0


@inlined
def put_acting(model, prediction, k, after, rows, out):
    """
    Write to out (n,) the torques that moved the arm between the recorded states k and `after`.

    They are the inverse dynamics at the mean of both states. rows (3, n) are overwritten. Return
    the time between the states [s]; if it is not positive, nothing is written.

    """
    dt = prediction.times[after] - prediction.times[k]
    if dt > 0.0:
        for i in range(len(out)):
            before, now = prediction.qd[k, i], prediction.qd[after, i]
            rows[0, i] = 0.5 * (prediction.q[k, i] + prediction.q[after, i])
            rows[1, i] = 0.5 * (before + now)
            rows[2, i] = (now - before) / dt
        put_command(*model, rows[0], rows[1], rows[2], out)
    return dt


@inlined
def _put_mean(model, prediction, rows, mean):
    """
    Write the mean unmodelled torque (n,) [N·m].

    Return whether there were enough states, and whether all numbers of the mean are finite.

    """
    kept, last = int(min(prediction.kept[0], ANSWERED)), int(prediction.answered[0])
    duration, count = 0.0, 0
    mean[:] = 0.0
    for k in range(last - kept, last - 1):
        at = k % ANSWERED
        dt = put_acting(model, prediction, at, (k + 1) % ANSWERED, rows, rows[3])
        if 0.0 < dt <= LONGEST_PAIR:
            for i in range(len(mean)):
                mean[i] += dt * (prediction.tau[at, i] - rows[3, i])
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
def _usual_share(prediction, bound, shares):
    """Median ratio of known friction to the effort limits `bound` (n,); at most FRICTION."""
    count = 0
    for i in range(len(bound)):
        if prediction.friction[i] >= 0.0 and bound[i] > 0.0:
            shares[count] = prediction.friction[i] / bound[i]
            count += 1
    return min(_median(shares, count), FRICTION) if count > 0 else FRICTION


@inlined
def _beyond(size, noise):
    """Torque without noise: 0 below `noise`, unchanged above 2 · noise, a ramp in between."""
    return min(max(2.0 * (size - noise), 0.0), size)


@inlined
def _estimate(model, prediction, fastest, limits, rows):
    """Estimate unmodelled torque and friction; with too few states, keep the last estimate."""
    mean, bound, shares = rows[4], rows[5], rows[6]
    is_known, is_finite = _put_mean(model, prediction, rows, mean)
    if not is_known:
        return
    if not is_finite:
        prediction.unmodelled[:] = 0.0
        return
    for i in range(len(mean)):
        bound[i] = limits[i] if np.isfinite(limits[i]) else 0.0
        mean[i] = mean[i] if bound[i] > 0.0 else 0.0
    usual, count = _usual_share(prediction, bound, shares), 0
    for i in range(len(mean)):
        speed, prediction.dry_friction[i] = prediction.at_qd[i], -1.0
        if np.abs(speed) > RESTING * min(fastest[i], 1.0):
            friction = usual * bound[i]
            if prediction.friction[i] >= 0.0:
                friction = min(friction, prediction.friction[i])
            elif mean[i] * speed <= 0.0:
                friction = 0.0
            prediction.dry_friction[i] = min(np.abs(mean[i]), friction)
            if bound[i] > 0.0:
                shares[count] = prediction.dry_friction[i] / bound[i]
                count += 1
    share = _median(shares, count)
    for i in range(len(mean)):
        size, noise = np.abs(mean[i]), NEGLIGIBLE * bound[i]
        if prediction.dry_friction[i] < 0.0:  # at rest
            prediction.dry_friction[i], size = share * bound[i], size - noise
        elif mean[i] * prediction.at_qd[i] > 0.0:
            size = _beyond(size - prediction.dry_friction[i], noise)
            prediction.dry_friction[i] = min(np.abs(mean[i]) - size, FRICTION * bound[i])
        else:
            size = _beyond(size + prediction.dry_friction[i], noise)
        size = min(max(size, 0.0), LARGEST * bound[i])
        prediction.unmodelled[i] = np.sign(mean[i]) * size


@inlined
def forget_directions(prediction):
    """Reset the unmodelled torques of both directions of motion, and the friction."""
    prediction.moved[:], prediction.friction[:] = -np.inf, -1.0


@stage
def compare_directions(model, state, room, fastest):
    """
    Update the friction of the joints from the oldest recorded states.

    Newer states are not used, because they may still turn out to be frozen. Call this after every
    `record_answer`. `fastest` (n,) are the velocity limits.

    """
    n = len(fastest)
    at, rows = _answer_views(state, n), _room_views(room, n).rows
    if at.kept[0] < ANSWERED or at.answered[0] % INTERVAL != 0.0:
        return
    first = int(at.answered[0]) % ANSWERED
    last = (first + INTERVAL) % ANSWERED
    dt, time = put_acting(model, at, first, last, rows, rows[3]), at.times[last]
    if not 0.0 < dt <= LONGEST_PAIR:
        return
    for i in range(n):
        lacking = -rows[3, i]
        for k in range(INTERVAL):
            lacking += at.tau[(first + k) % ANSWERED, i] / INTERVAL
        if np.abs(rows[1, i]) <= MOVING * min(fastest[i], 1.0) or not np.isfinite(lacking):
            continue
        side = 0 if rows[1, i] > 0.0 else 1
        if at.moved[side, i] > at.moved[1 - side, i]:
            lacking = at.directed[side, i] + WEIGHT * (lacking - at.directed[side, i])
        at.directed[side, i], at.moved[side, i] = lacking, time
        if 0.0 <= time - at.moved[1 - side, i] < REMEMBERED:
            at.friction[i] = max(0.5 * (at.directed[0, i] - at.directed[1, i]), 0.0)


@inlined
def _put_mean_torque(prediction, begin, end, out):
    """Write the mean of the torques (n,) that were sent between `begin` and `end` [s]."""
    out[:] = 0.0
    sent, after = int(prediction.sent[0]), end
    count = min(sent, SENT)
    for k in range(count):
        j = (sent - 1 - k) % SENT
        # the oldest recorded torque is assumed to act before its time, too
        at = begin if k == count - 1 else max(prediction.sent_times[j], begin)
        if at < after:
            for i in range(len(out)):
                out[i] += (after - at) / (end - begin) * prediction.sent_tau[j, i]
            after = at
        if at == begin:
            break


@inlined
def put_inertia(model, q, rows, weight, M):
    """Write inertia matrix M (n, n) and gravity torques `weight` (n,); rows (3, n) are memory."""
    rest, unit, column = rows[0], rows[1], rows[2]
    rest[:], unit[:] = 0.0, 0.0
    put_command(*model, q, rest, rest, weight)
    for k in range(len(q)):
        unit[k] = 1.0
        put_command(*model, q, rest, unit, column)
        unit[k] = 0.0
        for i in range(len(q)):
            M[k, i] = column[i] - weight[i]


@stage
def _put_velocity(model, state, room, dt, q, out):
    """
    Replace the velocities `out` (n,) by the predicted ones a time step dt [s] later.

    M, C and G are those at q and at the given velocities. Dry friction stops a joint, and keeps it
    at rest as long as it is large enough. Its impulses p, at most friction · dt, and the
    velocities q̇ satisfy M q̇ = M q̇_before + (τ - C - G) dt + p, with p opposite to q̇, and
    smaller only where q̇ = 0: a linear complementarity problem (Moreau, "Unilateral contact and
    dry friction in finite freedom dynamics", 1988). Return whether a solution was found.

    """
    n = len(q)
    prediction, own = _friction_views(state, n), _room_views(room, n)
    rows, M = own.rows, own.matrix
    momentum, within, push, bias = rows[8], rows[9:11], rows[11], rows[12]
    put_inertia(model, q, rows, bias, M)
    rows[0, :] = 0.0
    put_command(*model, q, out, rows[0], bias)
    for i in range(n):
        momentum[i] = dt * (bias[i] - own.driving[i])
        for k in range(n):
            momentum[i] -= M[i, k] * prediction.at_qd[k]
        within[1, i] = dt * prediction.dry_friction[i]
        within[0, i] = -within[1, i]
        out[i] = 0.0
    sides, chosen = prediction.sides.view(np.int64), own.chosen.view(np.int64)
    return nearest_within(M, momentum, within, sides, chosen, own.factor, out, push)


@inlined
def _advance_step(model, state, room, robot, dt):
    """Advance the prediction by dt [s]; return whether a finite solution was found."""
    n = len(robot.lower)
    at, rows = _step_views(state, n), _room_views(room, n).rows
    half, whole, middle = rows[13], rows[14], rows[15]
    assign(half, at.at_qd)
    if not _put_velocity(model, state, room, 0.5 * dt, at.at_q, half):
        return False
    for i in range(n):
        middle[i], whole[i] = at.at_q[i] + 0.5 * dt * at.at_qd[i], half[i]
    if not _put_velocity(model, state, room, dt, middle, whole):
        return False
    for i in range(n):
        most = FASTEST * robot.fastest[i]
        q, qd = at.at_q[i] + dt * half[i], min(max(whole[i], -most), most)
        if not (np.isfinite(q) and np.isfinite(qd)):
            return False
        # a joint at its position limit is stopped by its end stop
        held = min(max(q, min(robot.lower[i], at.at_q[i])), max(robot.upper[i], at.at_q[i]))
        at.at_q[i], at.at_qd[i] = held, qd if held == q else 0.0
    return True


@inlined
def _begin(model, plan, state, room):
    n = int(plan[0])
    at, gate, rows = _views(state, n), _gate_views(state, n), _room_views(room, n).rows
    at.is_used[0], at.is_over[0], at.began[0], at.now[0] = 1.0, 0.0, gate.came[0], gate.came[0]
    assign(at.at_q, gate.q)
    assign(at.at_qd, gate.qd)
    at.dry_friction[:] = 0.0
    _estimate(model, at, _robot_views(plan, n).fastest, _output_views(plan, n).limits, rows)
    at.kept[0] = 0.0


@stage
def predict(model, plan, state, room, now):
    """
    Advance the prediction to the time `now` [s], with the torques recorded as sent until then.

    The prediction ends when the arm is at rest, TRUST after the last state, or when the model
    returns a number that is not finite; from then on the predicted positions are constant. `model`
    is `CommandModel.arrays`.

    """
    n = int(plan[0])
    at, robot = _views(state, n), _robot_views(plan, n)
    if at.is_used[0] == 0.0:
        _begin(model, plan, state, room)
    before, at.now[0] = at.now[0], now
    if at.is_over[0] > 0.0 or not now > before:
        return
    before = max(before, now - TRUST)
    count = min(max(1, int(math.ceil((now - before) / STEP - 1e-6))), MOST_STEPS)
    dt, tau, is_moving = (now - before) / count, _room_views(room, n).driving, False
    for k in range(count):
        _put_mean_torque(at, before + k * dt, before + (k + 1) * dt, tau)
        for i in range(n):
            tau[i] -= at.unmodelled[i]
        if not _advance_step(model, state, room, robot, dt):
            at.is_over[0] = 1.0
            break
    for i in range(n):
        is_moving = is_moving or np.abs(at.at_qd[i]) > STILL
    if at.is_over[0] > 0.0 or now - at.began[0] >= TRUST or not is_moving:
        at.is_over[0] = 1.0
        at.at_qd[:] = 0.0
