# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques that stop an arm, hold it, or compensate its gravity, without the law."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.data import WAY
from osc_ros.control.limits.complementarity import put_inverse
from osc_ros.control.model_error.command_model import put_command
from osc_ros.control.safety.prediction import put_inertia
from osc_ros.control.safety.sample import short_step
from osc_ros.control.safety.supervision import REACTIONS
from osc_ros.dynamics.algebra.vectors import any_beyond, assign

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
    """Reduce the braking torques `wanted` (n,) to the limits (n,); return the factor."""
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
        return 1.0
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
    return share


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
        share = _put_within(m, d, q, qd)
        if share < EXACT and source == HOLD:  # the arm stops farther away: set a new anchor
            begin_source(m, d, NONE, source, q, qd)
