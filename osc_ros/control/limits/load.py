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
from osc_ros.control.data import BODY_WORK
from osc_ros.control.limits.bodies import (
    ACCELERATION,
    ALPHA,
    AT,
    axis_of,
    bodies_of,
    MASS,
    MC,
    MOTION_WIDTH,
    OMEGA,
    ORIGIN,
    PARENT,
    put_motions,
    put_poses,
    SLIDES,
    TURN,
    VELOCITY,
)
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
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
# Columns of `work`, one row per body, beside those of `bodies`: mass, and first moment about the
# base's origin, of all bodies from this one outward; momentum of these bodies, and its rate.
_MASSES, _MOMENT, _MOMENTUM, _FORCE = (
    MOTION_WIDTH, MOTION_WIDTH + 1, MOTION_WIDTH + 4, MOTION_WIDTH + 7)

# Columns of `row_facts`: joint of a load, or number of a witness point; firmness, which rises from
# 0 to 1 as the bound comes into force; softness, see `nearest`; the excess that counts as large.
INDEX, FIRMNESS, SOFTNESS, UNIT = range(4)
# Softness of the bound of a load. A firmness of 0 is a load at the share HEAVY of the limit, 1 a
# load at the share BOUNDED.
SOFT_LOAD = 1e-3


@inlined
def _arm(store):
    """First moment of all bodies from this one outward, about the joint's origin."""
    return sub(vector_at(store, _MOMENT), along(store[_MASSES], vector_at(store, ORIGIN), ZERO))


@kernel
def gravity_torques(bodies, gravity, q, work, load):
    """
    Write the torques `load` (n,) that hold a robot at rest at q (n,) [N·m; N if prismatic].

    `bodies` is the result of `bodies_of`, `gravity` is (3,) [m/s²], `work` (n, BODY_WORK) is
    written.

    """
    n, g = len(bodies), vector_at(gravity, 0)
    put_poses(bodies, q, work)
    for i in range(n):
        body, store = bodies[i], work[i]
        store[_MASSES] = body[MASS]
        put(store, _MOMENT, along(body[MASS], vector_at(store, ORIGIN),
                                  rotate(matrix_at(store, TURN), vector_at(body, MC))))
    for i in range(n - 1, -1, -1):
        body, store, parent = bodies[i], work[i], int(bodies[i, PARENT])
        z = axis_of(store)
        load[int(body[AT])] = (-store[_MASSES] * dot(g, z) if body[SLIDES] != 0.0
                                else dot(g, cross(_arm(store), z)))
        if parent >= 0:
            for k in range(_MASSES, _MOMENTUM):
                work[parent, k] += store[k]


@inlined
def _put_momenta(bodies, work):
    """Write the momenta and their rates for q̈ = 0 to `work`, after `put_motions`."""
    for i in range(len(bodies)):
        body, store = bodies[i], work[i]
        omega, alpha = vector_at(store, OMEGA), vector_at(store, ALPHA)
        m, mc = body[MASS], rotate(matrix_at(store, TURN), vector_at(body, MC))
        put(store, _MOMENTUM, along(m, vector_at(store, VELOCITY), cross(omega, mc)))
        put(store, _FORCE, along(m, vector_at(store, ACCELERATION),
                                 add(cross(alpha, mc), cross(omega, cross(omega, mc)))))
    for i in range(len(bodies) - 1, -1, -1):
        parent = int(bodies[i, PARENT])
        if parent >= 0:
            for k in range(_MOMENTUM, BODY_WORK):
                work[parent, k] += work[i, k]


@inlined
def _bend(body, store, g):
    """Second derivative of a load in time for q̈ = 0 [N·m/s², N/s²]."""
    z, omega, alpha = axis_of(store), vector_at(store, OMEGA), vector_at(store, ALPHA)
    turning = cross(omega, z)
    bending = add(cross(alpha, z), cross(omega, turning))
    m = store[_MASSES]
    if body[SLIDES] != 0.0:
        return -m * dot(g, bending)
    rate = along(-m, vector_at(store, VELOCITY), vector_at(store, _MOMENTUM))
    force = along(-m, vector_at(store, ACCELERATION), vector_at(store, _FORCE))
    return dot(g, add(add(cross(_arm(store), bending), along(2.0, cross(rate, turning), ZERO)),
                      cross(force, z)))


@inlined
def _put_gradient(bodies, work, g, i, sign, row):
    """Write sign · ∂g_i/∂q (n,), g_i the gravity torque of joint i; return the largest |entry|."""
    n, largest = len(bodies), 0.0
    for j in range(n):
        row[int(bodies[j, AT])] = 0.0
    for j in range(n):
        # a rotation of the inner joint rotates gravity the other way for the outer joint
        inner, outer = min(i, j), max(i, j)
        k = outer
        while k > inner:
            k = int(bodies[k, PARENT])
        if k != inner or bodies[inner, SLIDES] != 0.0:
            continue
        store = work[outer]
        turned = cross(axis_of(work[inner]), g)
        entry = sign * (
            store[_MASSES] * dot(turned, axis_of(store)) if bodies[outer, SLIDES] != 0.0
            else -dot(turned, cross(_arm(store), axis_of(store))))
        row[int(bodies[j, AT])] = entry
        largest = max(largest, np.abs(entry))
    return largest


@kernel
def bounded_loads(m, d, gravity, q, qd):
    """
    Write bounds of the accelerations that keep the joints' loads within their limits.

    `added` are loads in addition to those of the model. Return the number of rows; -1 if every
    load is below the share NEAR of its limit.

    """
    bodies, work, load, rows, of = m.bodies, d.body_work, d.gravity_load, d.row_of_q, d.row_facts
    gravity_torques(bodies, gravity, q, work, load)
    count, is_near, g = 0, False, vector_at(gravity, 0)
    for i in range(d.n):
        load[i] += d.added[i]
        size = np.abs(load[i])
        is_near = is_near or size > NEAR * d.most_effort[i]
        count += size > HEAVY * d.most_effort[i]
    if count == 0:
        return 0 if is_near else -1
    put_motions(bodies, qd, work)
    _put_momenta(bodies, work)
    count = 0
    for i in range(d.n):
        at = int(bodies[i, AT])
        size, sign, effort = np.abs(load[at]), np.copysign(1.0, load[at]), d.most_effort[at]
        if not size > HEAVY * effort:
            continue
        if not _put_gradient(bodies, work, g, i, sign, rows[count]) > _CONSTANT * size:
            continue
        of[count, INDEX], of[count, SOFTNESS], of[count, UNIT] = at, SOFT_LOAD, effort
        of[count, FIRMNESS] = min((size / effort - HEAVY) / (BOUNDED - HEAVY), 1.0)
        pace = 0.0
        for j in range(d.n):
            pace += rows[count, j] * qd[j]
        d.row_most[count] = (PACE * (PACE * (FULL * effort - size) - 2.0 * pace)
                             - sign * _bend(bodies[i], work[i], g))
        count += 1
    return count


class Weight:
    """Computes gravity torques of a robot whose joints have one degree of freedom each."""

    def __init__(self, robot: Robot) -> None:
        self._bodies, self._work = bodies_of(robot), np.zeros((robot.n, BODY_WORK))

    def torque(self, q: Array, gravity: Array) -> Array:
        """Torques (n,) [N·m; N] that hold the robot at rest at q (n,) in gravity (3,) [m/s²]."""
        load = np.empty(len(q))
        gravity_torques(self._bodies, gravity, q, self._work, load)
        return load
