# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Gravity loads of the joints, and bounds of the accelerations that keep the loads within limits.

The load of a joint is the torque that holds it against gravity; it depends on the configuration. A
joint whose load is near its effort limit has no torque left to brake with; if the load exceeds the
limit, the arm falls. So the load is bounded like a position: its second derivative in time, ∇gᵢ q̈
+ q̇ᵀ∇²gᵢ q̇, is limited so that the load can at most converge to FULL of the limit.

For a joint with axis z and origin p, m is the mass of all bodies outward of the joint, and s is
their first moment about p. The load is g·(s × z), or -m g·z for a prismatic joint. A revolute
joint further inward rotates these bodies as a single rigid body. This is equivalent to a rotation
of gravity the other way, which gives the gradient. The gradients of all loads form a symmetric
matrix, the Hessian of the potential energy. q̇ᵀ∇²gᵢ q̇ is the second derivative of the load for
q̈ = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.compile.record import Slot, Table
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    compose,
    cross,
    dot,
    matrix_at,
    put,
    rotate,
    sub,
    vector_at,
    ZERO,
)
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Shares of a joint's effort limit. A load above HEAVY gets a bound, which gets firm up to BOUNDED;
# the value of the bound is FULL.
HEAVY, BOUNDED, FULL = 0.75, 0.85, 0.97
PACE = 10.0  # rate of convergence of a load to its bound, critically damped [1/s]
# If all loads are below the share NEAR of their limits, they are not computed for IDLE ticks.
IDLE = 10
NEAR = 0.6
# A gradient smaller than this, relative to the load, counts as 0 (a vertical prismatic joint).
_CONSTANT = 1e-9
# Columns of `bodies`, one row per body: parent, index of its joint in q, whether the joint is
# prismatic, pose in the parent (rotation, position), mass, first moment.
_PARENT, _AT, _SLIDES, _R, _P, _MASS, _MC, BODY_WIDTH = 0, 1, 2, 3, 12, 15, 16, 19
# Columns of `work`, one row per body, base axes: rotation and origin of the body; mass, and first
# moment about the base's origin, of all bodies from this one outward; angular velocity and
# acceleration of the body, velocity and acceleration of its origin; momentum of all bodies from
# this one outward, and its rate.
_TURN, _ORIGIN, _MASSES, _MOMENT, _OMEGA, _ALPHA = 0, 9, 12, 13, 16, 19
_VELOCITY, _ACCELERATION, _MOMENTUM, _FORCE, WORK_WIDTH = 22, 25, 28, 31, 34

LOADS = Table(
    'Loads',
    Slot('rows', ('n', 'n'), '', 'bounds rows · q̈ ≤ most, a row for every joint whose load is '
         'bounded, from the first row on'),
    Slot('most', ('n',), '', 'bounds of these products'),
    Slot('joints', ('n', 2), '', 'joint of each row; firmness of its bound, which rises from 0 '
         'for a load at the share HEAVY of the limit to 1 for a load at the share BOUNDED'),
    Slot('work', ('n', WORK_WIDTH), '', 'a row of numbers for each body'),
    Slot('load', ('n',), 'N·m, N', 'torques that hold the joints against gravity'))

_views = LOADS.views


@inlined
def _axis(store):
    """Unit vector along the axis of the joint of a body (row of `work`), base axes."""
    return store[_TURN + 2], store[_TURN + 5], store[_TURN + 8]


@inlined
def _arm(store):
    """First moment of all bodies from this one outward, about the joint's origin."""
    return sub(vector_at(store, _MOMENT), along(store[_MASSES], vector_at(store, _ORIGIN), ZERO))


@kernel
def gravity_torques(bodies, gravity, q, work, load):
    """
    Write the torques `load` (n,) that hold a robot at rest at q (n,) [N·m; N if prismatic].

    `bodies` is the result of `bodies_of`, `gravity` is (3,) [m/s²], `work` (n, WORK_WIDTH) is
    written.

    """
    n, g = len(bodies), vector_at(gravity, 0)
    for i in range(n):
        body, store = bodies[i], work[i]
        R, p, x = matrix_at(body, _R), vector_at(body, _P), q[int(body[_AT])]
        if body[_SLIDES] != 0.0:
            p = add(p, (x * R[2], x * R[5], x * R[8]))
        else:
            c, s = np.cos(x), np.sin(x)
            R = (c * R[0] + s * R[1], c * R[1] - s * R[0], R[2],
                 c * R[3] + s * R[4], c * R[4] - s * R[3], R[5],
                 c * R[6] + s * R[7], c * R[7] - s * R[6], R[8])
        parent = int(body[_PARENT])
        if parent >= 0:
            R_parent = matrix_at(work[parent], _TURN)
            p = add(vector_at(work[parent], _ORIGIN), rotate(R_parent, p))
            R = compose(R_parent, R)
        put(store, _TURN, R)
        put(store, _ORIGIN, p)
        store[_MASSES] = body[_MASS]
        put(store, _MOMENT, along(body[_MASS], p, rotate(R, vector_at(body, _MC))))
    for i in range(n - 1, -1, -1):
        body, store, parent = bodies[i], work[i], int(bodies[i, _PARENT])
        z = _axis(store)
        load[int(body[_AT])] = (-store[_MASSES] * dot(g, z) if body[_SLIDES] != 0.0
                                else dot(g, cross(_arm(store), z)))
        if parent >= 0:
            for k in range(_MASSES, _OMEGA):
                work[parent, k] += store[k]


@inlined
def _put_motions(bodies, qd, work):
    """Write to `work`, for q̈ = 0, the columns from _OMEGA on: motions and momenta."""
    for i in range(len(bodies)):
        body, store, parent = bodies[i], work[i], int(bodies[i, _PARENT])
        omega, alpha, v, a = ZERO, ZERO, ZERO, ZERO
        slides, rate = body[_SLIDES] != 0.0, along(qd[int(body[_AT])], _axis(store), ZERO)
        if parent >= 0:
            outer = work[parent]
            omega, alpha = vector_at(outer, _OMEGA), vector_at(outer, _ALPHA)
            d = sub(vector_at(store, _ORIGIN), vector_at(outer, _ORIGIN))
            v = add(vector_at(outer, _VELOCITY), cross(omega, d))
            a = add(vector_at(outer, _ACCELERATION),
                    add(cross(alpha, d), cross(omega, cross(omega, d))))
        if slides:
            v, a = add(v, rate), along(2.0, cross(omega, rate), a)
        else:
            omega, alpha = add(omega, rate), add(alpha, cross(omega, rate))
        put(store, _OMEGA, omega + alpha + v + a)
        m, mc = body[_MASS], rotate(matrix_at(store, _TURN), vector_at(body, _MC))
        put(store, _MOMENTUM, along(m, v, cross(omega, mc)))
        put(store, _FORCE, along(m, a, add(cross(alpha, mc), cross(omega, cross(omega, mc)))))
    for i in range(len(bodies) - 1, -1, -1):
        parent = int(bodies[i, _PARENT])
        if parent >= 0:
            for k in range(_MOMENTUM, WORK_WIDTH):
                work[parent, k] += work[i, k]


@inlined
def _bend(body, store, g):
    """Second derivative of a load in time for q̈ = 0 [N·m/s², N/s²]."""
    z, omega, alpha = _axis(store), vector_at(store, _OMEGA), vector_at(store, _ALPHA)
    turning = cross(omega, z)
    bending = add(cross(alpha, z), cross(omega, turning))
    m = store[_MASSES]
    if body[_SLIDES] != 0.0:
        return -m * dot(g, bending)
    rate = along(-m, vector_at(store, _VELOCITY), vector_at(store, _MOMENTUM))
    force = along(-m, vector_at(store, _ACCELERATION), vector_at(store, _FORCE))
    return dot(g, add(add(cross(_arm(store), bending), along(2.0, cross(rate, turning), ZERO)),
                      cross(force, z)))


@inlined
def _put_gradient(bodies, work, g, i, sign, row):
    """Write sign · ∂g_i/∂q (n,), g_i the gravity torque of joint i; return the largest |entry|."""
    n, largest = len(bodies), 0.0
    for j in range(n):
        row[int(bodies[j, _AT])] = 0.0
    for j in range(n):
        # a rotation of the inner joint rotates gravity the other way for the outer joint
        inner, outer = min(i, j), max(i, j)
        k = outer
        while k > inner:
            k = int(bodies[k, _PARENT])
        if k != inner or bodies[inner, _SLIDES] != 0.0:
            continue
        store = work[outer]
        turned = cross(_axis(work[inner]), g)
        entry = sign * (
            store[_MASSES] * dot(turned, _axis(store)) if bodies[outer, _SLIDES] != 0.0
            else -dot(turned, cross(_arm(store), _axis(store))))
        row[int(bodies[j, _AT])] = entry
        largest = max(largest, np.abs(entry))
    return largest


@kernel
def bounded_loads(bodies, gravity, q, qd, added, effort, loads):
    """
    Write bounds of the accelerations that keep the joints' loads within their limits.

    Parameters
    ----------
    bodies, gravity, q
        See `gravity_torques`.
    qd, added, effort : (n,)
        Velocities; loads in addition to those of the model; effort limits, which may be infinite.
    loads : flat array, written
        Record of LOADS, or one that begins with its slots.

    Returns
    -------
    int
        Number of rows; -1 if every load is below the share NEAR of its limit.

    """
    own = _views(loads, len(q))
    work, load, rows = own.work, own.load, own.rows
    gravity_torques(bodies, gravity, q, work, load)
    count, is_near, g = 0, False, vector_at(gravity, 0)
    for i in range(len(q)):
        load[i] += added[i]
        size = np.abs(load[i])
        is_near = is_near or size > NEAR * effort[i]
        count += size > HEAVY * effort[i]
    if count == 0:
        return 0 if is_near else -1
    _put_motions(bodies, qd, work)
    count = 0
    for i in range(len(bodies)):
        at = int(bodies[i, _AT])
        size, sign = np.abs(load[at]), np.copysign(1.0, load[at])
        if not size > HEAVY * effort[at]:
            continue
        if not _put_gradient(bodies, work, g, i, sign, rows[count]) > _CONSTANT * size:
            continue
        own.joints[count, 0] = at
        own.joints[count, 1] = min((size / effort[at] - HEAVY) / (BOUNDED - HEAVY), 1.0)
        pace = 0.0
        for j in range(len(q)):
            pace += rows[count, j] * qd[j]
        own.most[count] = (PACE * (PACE * (FULL * effort[at] - size) - 2.0 * pace)
                           - sign * _bend(bodies[i], work[i], g))
        count += 1
    return count


def bodies_of(robot: Robot) -> Array:
    """Mass properties (n, BODY_WIDTH) of a robot whose joints have one degree of freedom each."""
    bodies = np.zeros((robot.n, BODY_WIDTH))
    bodies[:, _PARENT], bodies[:, _AT] = robot.parent, robot.v_index
    bodies[:, _SLIDES] = robot.prismatic
    bodies[:, _R:_P] = robot.T_parent_body[:, :3, :3].reshape(-1, 9)
    bodies[:, _P:_MASS] = robot.T_parent_body[:, :3, 3]
    bodies[:, _MASS] = robot.inertia[:, 5, 5]
    bodies[:, _MC:] = robot.inertia[:, [2, 0, 1], [4, 5, 3]]
    return bodies


class Weight:
    """Computes gravity torques of a robot whose joints have one degree of freedom each."""

    def __init__(self, robot: Robot) -> None:
        self._bodies, self._work = bodies_of(robot), np.zeros((robot.n, WORK_WIDTH))

    def torque(self, q: Array, gravity: Array) -> Array:
        """Torques (n,) [N·m; N] that hold the robot at rest at q (n,) in gravity (3,) [m/s²]."""
        load = np.empty(len(q))
        gravity_torques(self._bodies, gravity, q, self._work, load)
        return load
