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
from numpy.typing import NDArray

from osc_ros.collision.distance import (
    bound_of,
    height_and_bend,
    near_points,
    relative_motion,
    SEGMENT,
)
from osc_ros.collision.obstacles import (
    AXES,
    CHANGED,
    KIND,
    LEAVING,
    MOST_OBSTACLES,
    PLACE,
    RADIUS,
    SINCE,
    SIZE,
    SOLID_WIDTH,
    SPEED,
    SPIN,
    STAMP,
    TOUCH,
    USED,
)
from osc_ros.compile.compiled import inlined, stage, view
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.data import MOST_NEAR
from osc_ros.control.limits.bodies import (
    ACCELERATION,
    ALPHA,
    AT,
    axis_of,
    OMEGA,
    ORIGIN,
    PARENT,
    put_motions,
    put_poses,
    SLIDES,
    TURN,
    VELOCITY,
)
from osc_ros.control.limits.bounds import ceiling
from osc_ros.control.limits.load import FIRMNESS, INDEX, SOFTNESS, UNIT
from osc_ros.dynamics.algebra.fade import smoothed
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    cross,
    dot,
    matrix_at,
    put,
    rotate,
    sub,
    unrotate,
    vector_at,
    ZERO,
)

Array = NDArray[np.float64]

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

# Columns of `shapes`, a row for each capsule: its body, -1 for the base; its ends in the frame of
# the body; its radius; 1 if it may touch obstacles with TOUCH; first end and way to the second one
# in the base frame; upper bound of the speed of its points.
BODY, ENDS, THICK, TOUCHES, START, WAY, PACE, SHAPE_WIDTH = 0, 1, 7, 8, 9, 12, 15, 16
# Columns of `pairs`: index of the capsule; index of the second solid: of another capsule, or of a
# plane of the fence, plus the number of capsules; number on the odometer before which they are not
# near. The pairs of all capsules with all obstacles follow, in this order.
FIRST, SECOND, DUE, PAIR_WIDTH = 0, 1, 2, 3
# Columns of `found`: first and second as in `pairs`, the obstacles after the planes; distance,
# without the radii; approach speed; s of the witness point on the capsule; nearest point of the
# second solid, without its radius; INDEX of its row; acceleration of the distance for q̈ = 0;
# acceleration of approach that the torques do not explain.
DISTANCE, APPROACH, SHARE, POINT_AT, ROW, BIAS, DRIVEN, FOUND_WIDTH = 2, 3, 4, 5, 8, 9, 10, 11

CLEARANCE = Table(  # for k capsules and m planes of the fence; none: the arm does not keep clear
    'Clearance',
    Slot('margin', (), 'm', 'distance at which the approach ends'),
    Slot('share', (), '', 'of the decelerations of the joints that is used'),
    Slot('odometer', (), 'm', 'sum of upper bounds of the travel of two bodies'),
    Slot('fastest', (), 'm/s', 'upper bound of the speed of approach of two bodies'),
    Slot('zone', (), 'm', 'distance at which pairs are near'),
    Slot('count', (), '', 'number of rows of `found`', int),
    Slot('accelerations', ('n',), '', 'of the joints, averaged over AVERAGING'),
    Slot('excluded', (), '', 'largest urgency of the witness points that are not in `found`'),
    Slot('nearest', (), 'm', 'smallest distance of the pairs in `found`; infinite without one'),
    Slot('found', (MOST_NEAR, FOUND_WIDTH), '', 'the witness points that bound accelerations'),
    Slot('before', (MOST_NEAR, 3), '', 'ROW, BIAS and DRIVEN of `found` at the last tick'),
    Slot('urgency', (MOST_NEAR,), '', 'see `_put_candidate`'),
    Slot('shapes', ('k', SHAPE_WIDTH), '', 'capsules; BODY to SHAPE_WIDTH are the columns'),
    Slot('planes', ('m', SOLID_WIDTH), '', 'planes of the fence, see `collision.obstacles`'),
    Slot('pair_count', (), '', 'number of rows of `pairs` that are used', int),
    Slot('pairs', ('kk + km', PAIR_WIDTH), '', 'pairs without obstacles, see FIRST'),
    Slot('due', ('k', MOST_OBSTACLES), 'm', 'as DUE of `pairs`, for each capsule and obstacle'),
    room=(Slot('row', ('n',), '', 'memory for a row'),))
clearance_at = CLEARANCE.at  # kernels take the function


@inlined
def is_too_near(c):
    """Return whether a pair was much nearer than the margin at the last tick."""
    return c.k > 0 and c.nearest < TOO_NEAR_SHARE * c.margin


@inlined
def _put_shapes(shapes, work):
    """Write the capsules in the base frame; return the largest upper bound of their speeds."""
    fastest = 0.0
    for i in range(len(shapes)):
        row, k = shapes[i], int(shapes[i, BODY])
        a, b = vector_at(row, ENDS), vector_at(row, ENDS + 3)
        if k >= 0:
            store = work[k]
            R, o, omega, v = (matrix_at(store, TURN), vector_at(store, ORIGIN),
                              vector_at(store, OMEGA), vector_at(store, VELOCITY))
            a, b = rotate(R, a), rotate(R, b)
            # the speed is convex along the capsule, so it is largest at an end
            va, vb = add(v, cross(omega, a)), add(v, cross(omega, b))
            row[PACE] = np.sqrt(max(dot(va, va), dot(vb, vb)))
            a, b = add(o, a), add(o, b)
            fastest = max(fastest, row[PACE])
        put(row, START, a)
        put(row, WAY, sub(b, a))
    return fastest


@inlined
def _advance_obstacles(rows, time):
    """Note when obstacles come and go; return the largest speed of the obstacles."""
    fastest = 0.0
    for i in range(len(rows)):
        row = rows[i]
        if row[USED] == 0.0:
            continue
        if row[STAMP] == -np.inf:
            row[STAMP] = time
        if row[SINCE] == -np.inf:
            row[SINCE] = time
        if row[USED] == LEAVING and time - row[SINCE] > FADE_IN:
            row[USED] = 0.0
            continue
        v, spin, size = vector_at(row, SPEED), vector_at(row, SPIN), 0.0
        for k in range(SIZE, RADIUS + 1):
            size += np.abs(row[k])
        fastest = max(fastest, np.sqrt(dot(v, v)) + np.sqrt(dot(spin, spin)) * size)
    return fastest


@inlined
def _place_of(row, time):
    """Position of an obstacle at a time, with its velocity since its stamp."""
    return along(min(max(time - row[STAMP], 0.0), AHEAD), vector_at(row, SPEED),
                 vector_at(row, PLACE))


@inlined
def _solid(solid, time, is_shape):
    """
    Return kind and size of the second solid of a pair, its radius, axes and place.

    Capsules of links are segments in base axes.

    """
    identity = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    if is_shape:
        a, u = vector_at(solid, START), vector_at(solid, WAY)
        b = add(a, u)
        return (SEGMENT, (a[0], a[1], a[2], b[0], b[1], b[2]), solid[THICK], identity, ZERO)
    size = (solid[SIZE], solid[SIZE + 1], solid[SIZE + 2], solid[SIZE + 3], solid[SIZE + 4],
            solid[SIZE + 5])
    return (int(solid[KIND]), size, solid[RADIUS], matrix_at(solid, AXES),
            _place_of(solid, time))


@inlined
def _motion_of(work, k, x):
    """Velocity and acceleration for q̈ = 0 of the point x of a body, base axes; 0 for the base."""
    if k < 0:
        return ZERO, ZERO
    store = work[k]
    omega, d = vector_at(store, OMEGA), sub(x, vector_at(store, ORIGIN))
    across = cross(omega, d)
    return (add(vector_at(store, VELOCITY), across),
            add(vector_at(store, ACCELERATION),
                add(cross(vector_at(store, ALPHA), d), cross(omega, across))))


@inlined
def _add_row(bodies, work, k, x, normal, sign, row):
    """Add sign · normal · J to a row (n,), J the Jacobian (3, n) of the point x of body k."""
    while k >= 0:
        body, store = bodies[k], work[k]
        z = axis_of(store)
        if body[SLIDES] != 0.0:
            row[int(body[AT])] += sign * dot(normal, z)
        else:
            row[int(body[AT])] += sign * dot(normal, cross(z, sub(x, vector_at(store, ORIGIN))))
        k = int(body[PARENT])


@inlined
def _gradual(before, index, dt, bias, driven):
    """
    Return the bias and the unexplained approach of a row, continued from the last tick.

    The curvature jumps where the witness point passes from a face to an edge, so the bias changes
    by at most BEND_RATE. The approach that torques do not explain is averaged over AVERAGING, from
    0 when the row is new.

    """
    for k in range(len(before)):
        if before[k, 0] == index:
            step, share = BEND_RATE * dt, min(dt / AVERAGING, 1.0)
            return (min(max(bias, before[k, 1] - step), before[k, 1] + step),
                    before[k, 2] + share * (driven - before[k, 2]))
    return bias, 0.0


@stage
def _put_candidate(c, m, d, solid, pair, numbers):
    """
    Write the row of a witness point, unless MOST_NEAR more urgent ones are there.

    Parameters
    ----------
    c, m, d
    solid : array
        Row of the second solid.
    pair : (int, int, bool, float, float, float)
        First and second of `found`; whether the second is a capsule of a link; distance without
        the radii; s of the point on the capsule; firmness of the bound.
    numbers : (float, float, float, float, float)
        Time of the state; time of one tick, 0 at the first; softness; index of the row; number of
        rows before.

    """
    first, second, is_shape, distance, s, firmness = pair
    time, dt, softness, index, before = numbers
    bodies, work, of = m.bodies, d.body_work, d.row_facts
    kind, size, _, R, p = _solid(solid, time, is_shape)
    capsule = c.shapes[first]
    x = along(s, vector_at(capsule, WAY), vector_at(capsule, START))
    v, a = _motion_of(work, int(capsule[BODY]), x)
    other = -1
    if is_shape:
        other = int(solid[BODY])
        if other >= 0:
            store = work[other]
            v, a = relative_motion(x, v, a, (
                vector_at(store, ORIGIN), vector_at(store, OMEGA), vector_at(store, ALPHA),
                vector_at(store, VELOCITY), vector_at(store, ACCELERATION)))
    else:
        v, a = relative_motion(x, v, a, (p, vector_at(solid, SPIN), ZERO,
                                         vector_at(solid, SPEED), ZERO))
    _, point, normal, bend = height_and_bend(kind, size, unrotate(R, sub(x, p)), unrotate(R, v))
    normal, point = rotate(R, normal), add(p, rotate(R, point))
    approach, row = -dot(normal, v), c.row
    for i in range(len(row)):
        row[i] = 0.0
    _add_row(bodies, work, int(capsule[BODY]), x, normal, -1.0, row)
    _add_row(bodies, work, other, x, normal, 1.0, row)
    deceleration, rate, driven, last = 0.0, np.inf, 0.0, 0.0
    for i in range(len(row)):
        driven += row[i] * d.unexplained[0, i]
        last += row[i] * c.accelerations[i]
        deceleration += c.share * np.abs(row[i]) * d.deceleration[i]
        rate = min(rate, d.reaction_rate[i])
    # the bound is soft where the joints hardly change the distance: a firm one would demand
    # arbitrarily large accelerations
    firmness *= min(deceleration / LEAST_BRAKING, 1.0)
    deceleration = max(deceleration, LEAST_BRAKING)
    room = max(distance - c.margin, -RETREAT / rate)
    bias, driven = _gradual(c.before, index, dt, dot(normal, a) + bend, driven)
    bound = bias + ceiling(room, approach, np.inf, deceleration, rate,
                           0.5 / dt if dt > 0.0 else 0.0, 0.0) - max(driven, 0.0)
    # bounds saturate, so depth decides between solids that are within the margin
    urgency = (max(last, 0.0) - bound) / deceleration + max(1.0 - distance / c.margin, 0.0)
    k = c.count
    if k < MOST_NEAR:
        c.count += 1
    else:
        k = 0
        for other in range(1, MOST_NEAR):
            k = other if c.urgency[other] < c.urgency[k] else k
        c.excluded = max(c.excluded, min(c.urgency[k], urgency))
        if c.urgency[k] >= urgency:
            return
    c.urgency[k], here = urgency, c.found[k]
    here[FIRST], here[SECOND], here[DISTANCE], here[APPROACH], here[SHARE] = (
        first, second, distance, approach, s)
    put(here, POINT_AT, point)
    here[ROW], here[BIAS], here[DRIVEN], d.row_most[before + k] = index, bias, driven, bound
    for i in range(len(row)):
        d.row_of_q[before + k, i] = row[i]
    of[before + k, INDEX], of[before + k, FIRMNESS], of[before + k, SOFTNESS] = (
        index, firmness, softness)
    of[before + k, UNIT] = deceleration


@stage
def _look(c, m, d, solid, pair, numbers):
    """
    Write the rows of a pair if it is near; return the odometer before which it cannot be near.

    For the arguments see `_put_candidate`; the distance and s of `pair` are found here.

    """
    first, second, is_shape, _, _, firmness = pair
    time, dt, softness, index, before = numbers
    kind, size, radius, R, p = _solid(solid, time, is_shape)
    capsule = c.shapes[first]
    thickness = capsule[THICK] + radius
    a, u = unrotate(R, sub(vector_at(capsule, START), p)), unrotate(R, vector_at(capsule, WAY))
    least = bound_of(kind, size, a, u) - thickness
    if least > c.zone + AROUND:
        return c.odometer + least
    height, low, high = near_points(kind, size, a, u)
    distance = height - thickness
    if distance > c.zone:
        return c.odometer + distance
    c.nearest = min(c.nearest, distance)
    _put_candidate(c, m, d, solid, (first, second, is_shape, distance, low, firmness),
                   (time, dt, softness, index, before))
    if (high - low) * np.sqrt(dot(u, u)) > 1e-3:
        _put_candidate(c, m, d, solid,
                       (first, second, is_shape, distance, high, firmness),
                       (time, dt, softness, index + 1.0, before))
    return c.odometer


@inlined
def _fade_out(c, of, before):
    """Soften the bounds of the rows that are hardly more urgent than one that was left out."""
    most = -np.inf
    for k in range(c.count):
        most = max(most, c.urgency[k])
    # an excluded row that is far from taking effect softens none, and the most urgent stays firm
    width = min(min(c.excluded + 1.0, FADE_OUT), most - c.excluded)
    if width > 0.0:
        for k in range(c.count):
            of[before + k, FIRMNESS] *= smoothed((c.urgency[k] - c.excluded) / width)


@stage
def near_rows(m, d, c, obstacles, times, q, qd, before):
    """
    Write the rows of the near pairs after `before` other rows; return their number.

    Parameters
    ----------
    m, d, c : records
        LAW_M, LAW_D, CLEARANCE.
    obstacles : (MOST_OBSTACLES · SOLID_WIDTH,)
        `Obstacles.record`.
    times : float, float [s]
        Stamp of the state; time since the last tick, 0 at the first.
    q, qd : (n,)
    before : int

    """
    (time, dt), n, work = times, d.n, d.body_work
    if c.k == 0:
        return 0
    put_poses(m.bodies, q, work)
    put_motions(m.bodies, qd, work)
    solids = view(obstacles, 0, (MOST_OBSTACLES, SOLID_WIDTH))
    of_arm, of_obstacles = _put_shapes(c.shapes, work), _advance_obstacles(solids, time)
    fastest = 2.0 * of_arm + of_obstacles
    c.odometer += max(fastest, c.fastest) * dt
    for k in range(MOST_NEAR):
        is_old = k < c.count and dt > 0.0
        c.before[k, 0] = c.found[k, ROW] if is_old else -1.0
        c.before[k, 1], c.before[k, 2] = c.found[k, BIAS], c.found[k, DRIVEN]
    c.fastest, c.count, c.nearest = fastest, 0, np.inf
    c.excluded, share = -np.inf, min(dt / SMOOTH, 1.0)
    for i in range(n):
        last = d.commanded[1, i] if dt > 0.0 and np.isfinite(d.commanded[1, i]) else 0.0
        c.accelerations[i] += share * (last - c.accelerations[i])
    longest, rate = 0.0, np.inf  # longest time in which a joint stops
    for i in range(n):
        longest = max(longest, np.abs(qd[i]) / (c.share * d.deceleration[i]))
        rate = min(rate, d.reaction_rate[i])
    c.zone = c.margin + AROUND + fastest * (0.5 * longest + 1.0 / rate + LOOK_AHEAD)
    # after a gap without ticks the arm may have come from anywhere
    due = c.odometer + c.zone if 0.0 < dt <= LONGEST_GAP else np.inf
    for k in range(min(c.pair_count, len(c.pairs))):
        pair = c.pairs[k]
        if pair[DUE] > due:
            continue
        first, second = int(pair[FIRST]), int(pair[SECOND])
        is_shape = second < c.k
        solid = c.shapes[second] if is_shape else c.planes[second - c.k]
        pair[DUE] = _look(c, m, d, solid, (first, second, is_shape, 0.0, 0.0, 1.0),
                          (time, dt, SOFT_SELF if is_shape else SOFT_FENCE, float(n + 2 * k),
                           before))
    for o in range(MOST_OBSTACLES):
        solid = solids[o]
        if solid[USED] == 0.0:
            continue
        firmness = min(max((time - solid[SINCE]) / FADE_IN, 0.0), 1.0)
        if solid[USED] == LEAVING:
            firmness = 1.0 - firmness
        for i in range(c.k):
            if solid[CHANGED] > 0.0:
                c.due[i, o] = 0.0
            if c.due[i, o] > due or c.shapes[i, BODY] < 0.0 or (
                    solid[TOUCH] > 0.0 and c.shapes[i, TOUCHES] > 0.0):
                continue
            c.due[i, o] = _look(c, m, d, solid,
                               (i, c.k + c.m + o, False, 0.0, 0.0, firmness),
                               (time, dt, SOFT_OBSTACLE,
                                float(n + 2 * (c.pair_count + i * MOST_OBSTACLES + o)), before))
        solid[CHANGED] = 0.0
    _fade_out(c, d.row_facts, before)
    return c.count
