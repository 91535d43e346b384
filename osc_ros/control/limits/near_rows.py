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
from osc_ros.compile.record import Slot, Table
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
from osc_ros.control.limits.bounds import BEFORE, ceiling, UNEXPLAINED
from osc_ros.control.limits.limits import DECELERATION, RATE
from osc_ros.control.limits.load import FIRMNESS, INDEX, MOST_NEAR, SOFTNESS, UNIT
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

CLEARANCE = Table(
    'Clearance',
    Slot('sizes', (3,), '', 'number of capsules, of planes, of pairs without obstacles'),
    Slot('margin', (1,), 'm', 'distance at which the approach ends'),
    Slot('share', (1,), '', 'of the decelerations of the joints that is used'),
    Slot('odometer', (1,), 'm', 'sum of upper bounds of the travel of two bodies'),
    Slot('fastest', (1,), 'm/s', 'upper bound of the speed of approach of two bodies'),
    Slot('zone', (1,), 'm', 'distance at which pairs are near'),
    Slot('number', (1,), '', 'number of rows of `found`'),
    Slot('nearest', (1,), 'm', 'smallest distance of the pairs in `found`; infinite without one'),
    Slot('found', (MOST_NEAR, FOUND_WIDTH), '', 'the witness points that bound accelerations'),
    Slot('before', (MOST_NEAR, 3), '', 'ROW, BIAS and DRIVEN of `found` at the last tick'),
    Slot('urgency', (MOST_NEAR,), '', 'by how much the accelerations of the last tick exceed each '
         'bound, in decelerations'),
    Slot('row', (1, 'n'), '', 'memory for a row'))

_views, _near_views = CLEARANCE.views, CLEARANCE.only('margin', 'nearest')


@inlined
def parts_in(numbers, n, sizes):
    """
    Return shapes, planes, pairs and the grid of capsules with obstacles, after the record.

    `sizes` is the first slot of CLEARANCE.

    """
    S, F, P, k = int(sizes[0]), int(sizes[1]), int(sizes[2]), START_OF_PARTS + n
    return (view(numbers, k, (S, SHAPE_WIDTH)),
            view(numbers, k + S * SHAPE_WIDTH, (F, SOLID_WIDTH)),
            view(numbers, k + S * SHAPE_WIDTH + F * SOLID_WIDTH, (P, PAIR_WIDTH)),
            view(numbers, k + S * SHAPE_WIDTH + F * SOLID_WIDTH + P * PAIR_WIDTH,
                 (S, MOST_OBSTACLES)))


START_OF_PARTS = CLEARANCE.size(0)


@inlined
def is_too_near(numbers, n):
    """Return whether a pair was much nearer than the margin at the last tick of n joints."""
    if len(numbers) == 0:
        return False
    at = _near_views(numbers, n)
    return at.nearest[0] < TOO_NEAR_SHARE * at.margin[0]


def size_of(n: int, shapes: int, planes: int, pairs: int) -> int:
    """Length of the array of a clearance for n joints."""
    return (CLEARANCE.size(n) + shapes * (SHAPE_WIDTH + MOST_OBSTACLES) + planes * SOLID_WIDTH
            + pairs * PAIR_WIDTH)


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
def _solid(shapes, solid, time, is_shape):
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
def _put_candidate(at, bodies, work, shapes, solid, pair, numbers, loads):
    """
    Write the row of a witness point, unless MOST_NEAR more urgent ones are there.

    Parameters
    ----------
    at, bodies, work, shapes
    solid : array
        Row of the second solid.
    pair : (int, int, bool, float, float, float)
        First and second of `found`; whether the second is a capsule of a link; distance without
        the radii; s of the point on the capsule; firmness of the bound.
    numbers : (float, float, float, float, float)
        Time of the state; time of one tick, 0 at the first; softness; index of the row; radii.
    loads : (rows, most, of, table, accelerations, first)
        Arrays to which the row is written, see `load.LOADS`; limits, and accelerations of the
        joints, see `bounds.exceeds`; number of rows before.

    """
    first, second, is_shape, distance, s, firmness = pair
    time, dt, softness, index, thickness = numbers
    rows, most, of, table, accelerations, before = loads
    kind, size, _, R, p = _solid(shapes, solid, time, is_shape)
    capsule = shapes[first]
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
    _, c, normal, bend = height_and_bend(kind, size, unrotate(R, sub(x, p)), unrotate(R, v))
    normal, c = rotate(R, normal), add(p, rotate(R, c))
    approach, row = -dot(normal, v), at.row[0]
    for i in range(len(row)):
        row[i] = 0.0
    _add_row(bodies, work, int(capsule[BODY]), x, normal, -1.0, row)
    _add_row(bodies, work, other, x, normal, 1.0, row)
    deceleration, rate, driven, last = 0.0, np.inf, 0.0, 0.0
    for i in range(len(row)):
        driven += row[i] * accelerations[UNEXPLAINED, i]
        last += row[i] * accelerations[BEFORE + 2, i]
        deceleration += at.share[0] * np.abs(row[i]) * table[DECELERATION, i]
        rate = min(rate, table[RATE, i])
    # the bound is soft where the joints hardly change the distance: a firm one would demand
    # arbitrarily large accelerations
    firmness *= min(deceleration / LEAST_BRAKING, 1.0)
    deceleration = max(deceleration, LEAST_BRAKING)
    room = max(distance - at.margin[0], -RETREAT / rate)
    bias, driven = _gradual(at.before, index, dt, dot(normal, a) + bend, driven)
    bound = bias + ceiling(room, approach, np.inf, deceleration, rate,
                           0.5 / dt if dt > 0.0 else 0.0, 0.0) - max(driven, 0.0)
    urgency = (max(last if np.isfinite(last) else 0.0, 0.0) - bound) / deceleration
    k = int(at.number[0])
    if k < MOST_NEAR:
        at.number[0] += 1.0
    else:
        k = 0
        for m in range(1, MOST_NEAR):
            k = m if at.urgency[m] < at.urgency[k] else k
        if at.urgency[k] >= urgency:
            return
    at.urgency[k], here = urgency, at.found[k]
    here[FIRST], here[SECOND], here[DISTANCE], here[APPROACH], here[SHARE] = (
        first, second, distance, approach, s)
    put(here, POINT_AT, c)
    here[ROW], here[BIAS], here[DRIVEN], most[before + k] = index, bias, driven, bound
    for i in range(len(row)):
        rows[before + k, i] = row[i]
    of[before + k, INDEX], of[before + k, FIRMNESS], of[before + k, SOFTNESS] = (
        index, firmness, softness)
    of[before + k, UNIT] = deceleration


@stage
def _look(at, bodies, work, shapes, solid, pair, numbers, loads):
    """
    Write the rows of a pair if it is near; return the odometer before which it cannot be near.

    For the arguments see `_put_candidate`; the distance and s of `pair`, and the radii, are
    found here.

    """
    zone = at.zone[0]
    first, second, is_shape, _, _, firmness = pair
    time, dt, softness, index, _ = numbers
    kind, size, radius, R, p = _solid(shapes, solid, time, is_shape)
    capsule = shapes[first]
    thickness = capsule[THICK] + radius
    a, u = unrotate(R, sub(vector_at(capsule, START), p)), unrotate(R, vector_at(capsule, WAY))
    least = bound_of(kind, size, a, u) - thickness
    if least > zone + AROUND:
        return at.odometer[0] + least
    height, low, high = near_points(kind, size, a, u)
    distance = height - thickness
    if distance > zone:
        return at.odometer[0] + distance
    at.nearest[0] = min(at.nearest[0], distance)
    _put_candidate(at, bodies, work, shapes, solid,
                   (first, second, is_shape, distance, low, firmness),
                   (time, dt, softness, index, thickness), loads)
    if (high - low) * np.sqrt(dot(u, u)) > 1e-3:
        _put_candidate(at, bodies, work, shapes, solid,
                       (first, second, is_shape, distance, high, firmness),
                       (time, dt, softness, index + 1.0, thickness), loads)
    return at.odometer[0]


@stage
def near_rows(clear, bodies, times, q, qd, limits, work, loads):
    """
    Write the rows of the near pairs, see `load.LOADS`; return their number.

    Parameters
    ----------
    clear : flat array, flat array
        Record of CLEARANCE and the parts after it; empty: nothing is done. `Obstacles.record`.
    bodies : (n, BODY_WIDTH)
    times : float, float [s]
        Stamp of the state; time since the last tick, 0 at the first.
    q, qd : (n,)
    limits : (8, n), (ACCELERATION_ROWS, n)
        `Limits.table`; accelerations of the joints, see `bounds.exceeds`.
    work : (n, …), written
        See `bodies`.
    loads : (rows, most, of, first)
        Where the rows are written, and the number of rows that are there.

    """
    (numbers, obstacles), (time, dt), (table, accelerations), n = clear, times, limits, len(q)
    if len(numbers) == 0:
        return 0
    at = _views(numbers, n)
    shapes, planes, pairs, grid = parts_in(numbers, n, at.sizes)
    rows, most, of, before = loads
    S, F = len(shapes), len(planes)
    put_poses(bodies, q, work)
    put_motions(bodies, qd, work)
    solids = view(obstacles, 0, (MOST_OBSTACLES, SOLID_WIDTH))
    of_arm, of_obstacles = _put_shapes(shapes, work), _advance_obstacles(solids, time)
    fastest = 2.0 * of_arm + of_obstacles
    at.odometer[0] += max(fastest, at.fastest[0]) * dt
    for k in range(MOST_NEAR):
        is_old = k < at.number[0] and dt > 0.0
        at.before[k, 0] = at.found[k, ROW] if is_old else -1.0
        at.before[k, 1], at.before[k, 2] = at.found[k, BIAS], at.found[k, DRIVEN]
    at.fastest[0], at.number[0], at.nearest[0] = fastest, 0.0, np.inf
    longest, rate = 0.0, np.inf  # longest time in which a joint stops
    for i in range(n):
        longest = max(longest, np.abs(qd[i]) / (at.share[0] * table[DECELERATION, i]))
        rate = min(rate, table[RATE, i])
    at.zone[0] = at.margin[0] + AROUND + fastest * (0.5 * longest + 1.0 / rate + LOOK_AHEAD)
    # after a gap without ticks the arm may have come from anywhere
    due = at.odometer[0] + at.zone[0] if 0.0 < dt <= LONGEST_GAP else np.inf
    place = rows, most, of, table, accelerations, before
    for k in range(len(pairs)):
        pair = pairs[k]
        if pair[DUE] > due:
            continue
        first, second = int(pair[FIRST]), int(pair[SECOND])
        is_shape = second < S
        solid = shapes[second] if is_shape else planes[second - S]
        pair[DUE] = _look(at, bodies, work, shapes, solid,
                          (first, second, is_shape, 0.0, 0.0, 1.0),
                          (time, dt, SOFT_SELF if is_shape else SOFT_FENCE,
                           float(n + 2 * k), 0.0), place)
    for m in range(MOST_OBSTACLES):
        solid = solids[m]
        if solid[USED] == 0.0:
            continue
        firmness = min(max((time - solid[SINCE]) / FADE_IN, 0.0), 1.0)
        if solid[USED] == LEAVING:
            firmness = 1.0 - firmness
        for i in range(S):
            if solid[CHANGED] > 0.0:
                grid[i, m] = 0.0
            if grid[i, m] > due or shapes[i, BODY] < 0.0 or (
                    solid[TOUCH] > 0.0 and shapes[i, TOUCHES] > 0.0):
                continue
            grid[i, m] = _look(at, bodies, work, shapes, solid,
                               (i, S + F + m, False, 0.0, 0.0, firmness),
                               (time, dt, SOFT_OBSTACLE,
                                float(n + 2 * (len(pairs) + i * MOST_OBSTACLES + m)), 0.0), place)
        solid[CHANGED] = 0.0
    return int(at.number[0])
