# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Bounds of the joint accelerations that keep links clear of each other, of obstacles and fences.

Links are capsules (`osc_ros.collision.link_shapes`). A pair is a capsule and a second solid: a
capsule of another link, an obstacle, or a plane of the fence. The distance d of a near pair may
shrink only as fast as the arm can still stop at the margin. With the unit normal n and the
witness points x on both bodies, ḋ = n · ẋ and

    d̈ = (Jₐ - J_b)ᵀn · q̈ + n · (relative acceleration for q̈ = 0) + ṅ · ẋ.

-d̈ is bounded like the acceleration of a joint towards its position limit (`bounds.ceiling`), with
the deceleration that the joints reach along this direction, Σ |row| · deceleration. This gives a
row for `nearest`, which solves one problem for all limits. A pair of long parallel shapes gives
two rows, see `osc_ros.collision.distance`. An acceleration of approach that the torques do not
explain, due for example to a payload, friction or a person, lowers the bound.

Most pairs are far apart. Each has the length of travel before which it cannot come near, from its
last distance; an odometer sums upper bounds of the travel of the links and the obstacles.
"""

from __future__ import annotations

import numpy as np

from osc_ros.collision.distance import (
    bound_of,
    height_and_bend,
    near_points,
    relative_motion,
    SEGMENT,
)
from osc_ros.collision.obstacles import ABSENT, LEAVING, MOST_OBSTACLES, SOLIDS
from osc_ros.compile.compiled import inlined, stage
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.data import MOST_NEAR
from osc_ros.control.limits.bodies import axis_of, put_motions, put_poses
from osc_ros.control.limits.bounds import ceiling
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    cross,
    dot,
    matrix_at,
    put,
    rotate,
    smoothed,
    sub,
    unrotate,
    vector_at,
    ZERO,
)

# Softness of the bounds, see `nearest`: of two links, of a link and an obstacle, of a link and the
# fence. If they contradict each other, the softer ones are violated first.
SOFT_SELF, SOFT_OBSTACLE, SOFT_FENCE = 3e-4, 1e-3, 3e-3
FADE_IN = 0.2  # time in which the bounds of an obstacle come into force, and end [s]
LEAST_BRAKING = 0.3  # deceleration below which a bound becomes soft [m/s²]
TOO_NEAR_SHARE = 0.25  # share of the margin below which a distance is a fault
BEND_RATE = 100.0  # largest rate of change of the acceleration of a distance for q̈ = 0 [m/s³]
LONGEST_GAP = 0.1  # time between two ticks after which all pairs are compared [s]
AHEAD = 0.25  # longest time for which an obstacle moves on with its velocity [s]
LOOK_AHEAD = 0.1  # time of travel, beside braking, at which pairs become near [s]
AVERAGING = 0.02  # time constant of the accelerations that torques do not explain [s]
RETREAT = 0.25  # largest speed of separation that a bound demands [m/s]
# If more than MOST_NEAR witness points are urgent, the bounds of those that are less urgent than
# FADE_OUT above the most urgent excluded one are softer, so the choice changes gradually.
FADE_OUT = 2.0
SMOOTH = 0.05  # time constant of the accelerations of the joints that count in the urgency [s]
AROUND = 0.05  # pairs are near at this distance beyond the margin even at rest [m]

UPRIGHT = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)  # axes of the base

CLEARANCE = Table(  # for k capsules and m planes of the fence; none: the arm does not keep clear
    'Clearance',
    Slot('margin', (), 'm', 'distance at which the approach ends'),
    Slot('share', (), '', 'of the decelerations of the joints that is used'),
    Slot('odometer', (), 'm', 'sum of upper bounds of the travel of two bodies'),
    Slot('fastest', (), 'm/s', 'upper bound of the speed of approach of two bodies'),
    Slot('zone', (), 'm', 'distance at which pairs are near'),
    Slot('accelerations', ('n',), '', 'of the joints, averaged over AVERAGING'),
    Slot('nearest', (), 'm', 'smallest distance of the near pairs; infinite without one'),
    # capsules of the links
    Slot('capsule_body', ('k',), '', 'body of each capsule; -1: the base', int),
    Slot('capsule_ends', ('k', 6), 'm', 'its ends in the frame of the body'),
    Slot('capsule_radius', ('k',), 'm', 'its radius'),
    Slot('may_touch', ('k',), '', 'whether it may touch obstacles that may be touched', bool),
    Slot('capsule_start', ('k', 3), 'm', 'its first end in the base frame'),
    Slot('capsule_way', ('k', 3), 'm', 'from there to the second end'),
    # pairs of a capsule and a second solid, which has the number of another capsule; of a plane of
    # the fence, plus k; or of an obstacle, plus k + m
    Slot('pair_count', (), '', 'number of pairs without obstacles', int),
    Slot('pair_first', ('kk + km',), '', 'capsule of each pair', int),
    Slot('pair_second', ('kk + km',), '', 'its second solid', int),
    Slot('pair_due', ('kk + km',), 'm', 'odometer before which the pair is not near'),
    Slot('obstacle_due', ('k', MOST_OBSTACLES), 'm', 'the same for each capsule and obstacle'),
    # witness points of near pairs, which bound accelerations
    Slot('count', (), '', 'number of them', int),
    Slot('rows_before', (), '', 'number of rows of `row_of_q` before theirs', int),
    Slot('excluded', (), '', 'largest urgency of the witness points that are left out'),
    Slot('near_first', (MOST_NEAR,), '', 'capsule', int),
    Slot('near_second', (MOST_NEAR,), '', 'second solid', int),
    Slot('near_distance', (MOST_NEAR,), 'm', 'distance of the pair'),
    Slot('near_approach', (MOST_NEAR,), 'm/s', 'speed at which the distance shrinks'),
    Slot('near_number', (MOST_NEAR,), '', 'number of the witness point', int),
    Slot('near_bias', (MOST_NEAR,), 'm/s²', 'acceleration of the distance for q̈ = 0'),
    Slot('near_driven', (MOST_NEAR,), 'm/s²', 'acceleration of approach that the torques do not '
         'explain'),
    room=(
        Slot('obstacles', (), '', 'the obstacles', SOLIDS),
        Slot('fence', (), '', 'the planes of the fence', SOLIDS),
        Slot('urgency', (MOST_NEAR,), '', 'see `_put_row`'),
        Slot('last_number', (MOST_NEAR,), '', '`near_number` of the last tick; -1: none', int),
        Slot('last_bias', (MOST_NEAR,), 'm/s²', '`near_bias` of the last tick'),
        Slot('last_driven', (MOST_NEAR,), 'm/s²', '`near_driven` of the last tick'),
        Slot('row', ('n',), '', 'memory for a row')))


@inlined
def is_too_near(c):
    """Return whether a pair was much nearer than the margin at the last tick."""
    return c.k > 0 and c.nearest < TOO_NEAR_SHARE * c.margin


@inlined
def _put_capsules(c, d):
    """Write the capsules in the base frame; return the largest upper bound of their speeds."""
    fastest = 0.0
    for i in range(c.k):
        k = c.capsule_body[i]
        a, b = vector_at(c.capsule_ends[i], 0), vector_at(c.capsule_ends[i], 3)
        if k >= 0:
            R, o = matrix_at(d.body_axes[k], 0), vector_at(d.body_origin[k], 0)
            omega, v = vector_at(d.body_omega[k], 0), vector_at(d.body_velocity[k], 0)
            a, b = rotate(R, a), rotate(R, b)
            # the speed is convex along the capsule, so it is largest at an end
            va, vb = add(v, cross(omega, a)), add(v, cross(omega, b))
            fastest = max(fastest, np.sqrt(max(dot(va, va), dot(vb, vb))))
            a, b = add(o, a), add(o, b)
        put(c.capsule_start[i], 0, a)
        put(c.capsule_way[i], 0, sub(b, a))
    return fastest


@inlined
def _advance_obstacles(c, d):
    """Note when obstacles come and go; return the largest speed of the obstacles."""
    fastest, solids = 0.0, c.obstacles
    for k in range(solids.k):
        if solids.state[k] == ABSENT:
            continue
        if solids.stamp[k] == -np.inf:
            solids.stamp[k] = d.time
        if solids.since[k] == -np.inf:
            solids.since[k] = d.time
        if solids.state[k] == LEAVING and d.time - solids.since[k] > FADE_IN:
            solids.state[k] = ABSENT
            continue
        v, omega, size = (vector_at(solids.velocity[k], 0),
                          vector_at(solids.angular_velocity[k], 0), 0.0)
        for i in range(6):
            size += np.abs(solids.size[k, i])
        size += np.abs(solids.radius[k])
        fastest = max(fastest, np.sqrt(dot(v, v)) + np.sqrt(dot(omega, omega)) * size)
    return fastest


@inlined
def _place_of(d, solids, k):
    """Position of a solid at the time of the state, with its velocity since its stamp."""
    return along(min(max(d.time - solids.stamp[k], 0.0), AHEAD), vector_at(solids.velocity[k], 0),
                 vector_at(solids.place[k], 0))


@inlined
def _place_in_solids(c, second):
    """Records SOLIDS of a second solid that is no capsule, and its place there."""
    k = second - c.k
    return (c.fence, k) if k < c.m else (c.obstacles, k - c.m)


@inlined
def _solid(c, d, second):
    """Kind, size, radius, axes and place of a pair's second solid; links are in base axes."""
    if second < c.k:
        a, u = vector_at(c.capsule_start[second], 0), vector_at(c.capsule_way[second], 0)
        b = add(a, u)
        return (SEGMENT, (a[0], a[1], a[2], b[0], b[1], b[2]), c.capsule_radius[second], UPRIGHT,
                ZERO)
    solids, k = _place_in_solids(c, second)
    of = solids.size[k]
    return (solids.kind[k], (of[0], of[1], of[2], of[3], of[4], of[5]), solids.radius[k],
            matrix_at(solids.axes[k], 0), _place_of(d, solids, k))


@inlined
def _motion_of(d, k, x):
    """Velocity and acceleration for q̈ = 0 of the point x of a body, base axes; 0 for the base."""
    if k < 0:
        return ZERO, ZERO
    omega, away = vector_at(d.body_omega[k], 0), sub(x, vector_at(d.body_origin[k], 0))
    across = cross(omega, away)
    return (add(vector_at(d.body_velocity[k], 0), across),
            add(vector_at(d.body_acceleration[k], 0),
                add(cross(vector_at(d.body_alpha[k], 0), away), cross(omega, across))))


@inlined
def _relative_motion(c, d, first, second, x):
    """Velocity and acceleration for q̈ = 0 of the point x of a capsule, from the second solid."""
    v, a = _motion_of(d, c.capsule_body[first], x)
    if second < c.k:
        k = c.capsule_body[second]
        if k < 0:
            return v, a
        return relative_motion(x, v, a, (
            vector_at(d.body_origin[k], 0), vector_at(d.body_omega[k], 0),
            vector_at(d.body_alpha[k], 0), vector_at(d.body_velocity[k], 0),
            vector_at(d.body_acceleration[k], 0)))
    solids, k = _place_in_solids(c, second)
    return relative_motion(x, v, a, (
        _place_of(d, solids, k), vector_at(solids.angular_velocity[k], 0), ZERO,
        vector_at(solids.velocity[k], 0), ZERO))


@inlined
def _add_row(m, d, k, x, normal, sign, row):
    """Add sign · normal · J to a row (n,), J the Jacobian (3, n) of the point x of body k."""
    while k >= 0:
        z = axis_of(d, k)
        if m.body_slides[k]:
            row[m.body_joint[k]] += sign * dot(normal, z)
        else:
            row[m.body_joint[k]] += sign * dot(
                normal, cross(z, sub(x, vector_at(d.body_origin[k], 0))))
        k = m.body_parent[k]


@inlined
def _gradual(c, d, number, bias, driven):
    """Return the bias and the unexplained approach of a row, continued from the last tick."""
    # The curvature jumps where the witness point passes from a face to an edge: BEND_RATE limits
    # the change of the bias. The unexplained approach is averaged over AVERAGING, from 0 in a new
    # row.
    for k in range(MOST_NEAR):
        if c.last_number[k] == number:
            step, share = BEND_RATE * d.tick, min(d.tick / AVERAGING, 1.0)
            return (min(max(bias, c.last_bias[k] - step), c.last_bias[k] + step),
                    c.last_driven[k] + share * (driven - c.last_driven[k]))
    return bias, 0.0


@inlined
def _place_for(c, urgency):
    """Return the place of a witness point; -1 if MOST_NEAR are there that are more urgent."""
    if c.count < MOST_NEAR:
        c.count += 1
        return c.count - 1
    k = 0
    for other in range(1, MOST_NEAR):
        k = other if c.urgency[other] < c.urgency[k] else k
    c.excluded = max(c.excluded, min(c.urgency[k], urgency))
    return -1 if c.urgency[k] >= urgency else k


@stage
def _put_row(m, d, c, first, second, number, firmness, distance, s):
    """Write the row of a witness point, unless MOST_NEAR more urgent ones are there."""
    # `number`: of the point, which is the share s along the capsule; `firmness`: of its bound;
    # `distance`: of the pair [m].
    kind, size, _, R, p = _solid(c, d, second)
    x = along(s, vector_at(c.capsule_way[first], 0), vector_at(c.capsule_start[first], 0))
    v, a = _relative_motion(c, d, first, second, x)
    _, _, normal, bend = height_and_bend(kind, size, unrotate(R, sub(x, p)), unrotate(R, v))
    normal = rotate(R, normal)
    approach, row = -dot(normal, v), c.row
    for i in range(d.n):
        row[i] = 0.0
    _add_row(m, d, c.capsule_body[first], x, normal, -1.0, row)
    if second < c.k:
        _add_row(m, d, c.capsule_body[second], x, normal, 1.0, row)
    deceleration, rate, driven, last = 0.0, np.inf, 0.0, 0.0
    for i in range(d.n):
        driven += row[i] * d.unexplained[i]
        last += row[i] * c.accelerations[i]
        deceleration += c.share * np.abs(row[i]) * d.deceleration[i]
        rate = min(rate, d.reaction_rate[i])
    # the bound is soft where the joints hardly change the distance: a firm one would demand
    # arbitrarily large accelerations
    firmness *= min(deceleration / LEAST_BRAKING, 1.0)
    deceleration = max(deceleration, LEAST_BRAKING)
    room = max(distance - c.margin, -RETREAT / rate)
    bias, driven = _gradual(c, d, number, dot(normal, a) + bend, driven)
    bound = bias + ceiling(room, approach, np.inf, deceleration, rate,
                           0.5 / d.tick if d.tick > 0.0 else 0.0, 0.0) - max(driven, 0.0)
    # bounds saturate, so depth decides between solids that are within the margin
    urgency = (max(last, 0.0) - bound) / deceleration + max(1.0 - distance / c.margin, 0.0)
    k = _place_for(c, urgency)
    if k < 0:
        return
    c.urgency[k], c.near_first[k], c.near_second[k] = urgency, first, second
    c.near_distance[k], c.near_approach[k], c.near_number[k] = distance, approach, number
    c.near_bias[k], c.near_driven[k] = bias, driven
    k += c.rows_before
    for i in range(d.n):
        d.row_of_q[k, i] = row[i]
    d.row_most[k], d.row_number[k], d.firmness[k] = bound, number, firmness
    d.softness[k] = (SOFT_SELF if second < c.k else SOFT_FENCE if second < c.k + c.m
                     else SOFT_OBSTACLE)
    d.large_excess[k] = deceleration


@stage
def _put_pair(m, d, c, first, second, number, firmness):
    """Write the rows of a pair if it is near; return the odometer before which it is not."""
    # `number`: of its first witness point; `firmness`: of the bounds.
    kind, size, radius, R, p = _solid(c, d, second)
    thickness = c.capsule_radius[first] + radius
    a = unrotate(R, sub(vector_at(c.capsule_start[first], 0), p))
    u = unrotate(R, vector_at(c.capsule_way[first], 0))
    least = bound_of(kind, size, a, u) - thickness
    if least > c.zone + AROUND:
        return c.odometer + least
    height, low, high = near_points(kind, size, a, u)
    distance = height - thickness
    if distance > c.zone:
        return c.odometer + distance
    c.nearest = min(c.nearest, distance)
    _put_row(m, d, c, first, second, number, firmness, distance, low)
    if (high - low) * np.sqrt(dot(u, u)) > 1e-3:
        _put_row(m, d, c, first, second, number + 1, firmness, distance, high)
    return c.odometer


@inlined
def _soften(d, c):
    """Soften bounds of many deep pairs, and of rows hardly more urgent than one left out."""
    # many deep pairs together must not outweigh a speed limit
    most, crowd = -np.inf, 0.0
    for k in range(c.count):
        most = max(most, c.urgency[k])
        deep = min(max(1.0 - c.near_distance[k] / c.margin, 0.0), 1.0)
        crowd += deep * min(max(c.urgency[k], 0.0), 1.0) * d.firmness[c.rows_before + k]
    for k in range(c.count):
        d.softness[c.rows_before + k] *= max(crowd, 1.0)
    # an excluded row that is far from taking effect softens none, and the most urgent stays firm
    width = min(min(c.excluded + 1.0, FADE_OUT), most - c.excluded)
    if width > 0.0:
        for k in range(c.count):
            d.firmness[c.rows_before + k] *= smoothed((c.urgency[k] - c.excluded) / width)


@inlined
def _begin(m, d, c):
    """Move bodies, capsules, obstacles and odometer to this state; forget the near pairs."""
    put_poses(m, d)
    put_motions(m, d)
    fastest = 2.0 * _put_capsules(c, d) + _advance_obstacles(c, d)
    c.odometer += max(fastest, c.fastest) * d.tick
    for k in range(MOST_NEAR):
        is_old = k < c.count and d.tick > 0.0
        c.last_number[k] = c.near_number[k] if is_old else -1
        c.last_bias[k], c.last_driven[k] = c.near_bias[k], c.near_driven[k]
    c.fastest, c.count, c.nearest, c.excluded = fastest, 0, np.inf, -np.inf
    share = min(d.tick / SMOOTH, 1.0)
    for i in range(d.n):
        last = d.commanded[1, i] if d.tick > 0.0 and np.isfinite(d.commanded[1, i]) else 0.0
        c.accelerations[i] += share * (last - c.accelerations[i])
    longest, rate = 0.0, np.inf  # longest time in which a joint stops
    for i in range(d.n):
        longest = max(longest, np.abs(d.qd[i]) / (c.share * d.deceleration[i]))
        rate = min(rate, d.reaction_rate[i])
    c.zone = c.margin + AROUND + fastest * (0.5 * longest + 1.0 / rate + LOOK_AHEAD)


@stage
def near_rows(m, d, c, before):
    """Write the rows of the near pairs after `before` other rows; return their number."""
    # `c` is a record CLEARANCE.
    if c.k == 0:
        return 0
    c.rows_before = before
    _begin(m, d, c)
    # after a gap without ticks the arm may have come from anywhere
    due = c.odometer + c.zone if 0.0 < d.tick <= LONGEST_GAP else np.inf
    for k in range(c.pair_count):
        if c.pair_due[k] <= due:
            c.pair_due[k] = _put_pair(m, d, c, c.pair_first[k], c.pair_second[k], d.n + 2 * k, 1.0)
    solids = c.obstacles
    for o in range(solids.k):
        if solids.state[o] == ABSENT:
            continue
        firmness = min(max((d.time - solids.since[o]) / FADE_IN, 0.0), 1.0)
        if solids.state[o] == LEAVING:
            firmness = 1.0 - firmness
        for i in range(c.k):
            if solids.has_changed[o]:
                c.obstacle_due[i, o] = 0.0
            if c.obstacle_due[i, o] > due or c.capsule_body[i] < 0 or (
                    solids.may_be_touched[o] and c.may_touch[i]):
                continue
            number = d.n + 2 * (c.pair_count + i * MOST_OBSTACLES + o)
            c.obstacle_due[i, o] = _put_pair(m, d, c, i, c.k + c.m + o, number, firmness)
        solids.has_changed[o] = False
    _soften(d, c)
    return c.count
