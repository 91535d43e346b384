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
from osc_ros.control.data import LAW_D, LAW_M
from osc_ros.control.limits.bodies import axis_of, put_bodies, put_motions, put_poses
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
# Softness of the bound of a load. A firmness of 0 is a load at the share HEAVY of the limit, 1 a
# load at the share BOUNDED.
SOFT_LOAD = 1e-3


@inlined
def _arm(d, i):
    """First moment of all bodies from body i outward, about its origin."""
    return sub(vector_at(d.outward_moment[i], 0),
               along(d.outward_mass[i], vector_at(d.body_origin[i], 0), ZERO))


@inlined
def _add_row(rows, i, to):
    """Add row i (3,) to row `to`."""
    for k in range(3):
        rows[to, k] += rows[i, k]


@kernel
def gravity_torques(m, d, gravity):
    """Write `gravity_load`, the torques that hold the robot at rest in gravity (3,) [m/s²]."""
    g = vector_at(gravity, 0)
    put_poses(m, d)
    for i in range(d.n):
        d.outward_mass[i] = m.body_mass[i]
        put(d.outward_moment[i], 0,
            along(m.body_mass[i], vector_at(d.body_origin[i], 0),
                  rotate(matrix_at(d.body_axes[i], 0), vector_at(m.body_moment[i], 0))))
    for i in range(d.n - 1, -1, -1):
        parent, z = m.body_parent[i], axis_of(d, i)
        d.gravity_load[m.body_joint[i]] = (
            -d.outward_mass[i] * dot(g, z) if m.body_slides[i] else dot(g, cross(_arm(d, i), z)))
        if parent >= 0:
            d.outward_mass[parent] += d.outward_mass[i]
            _add_row(d.outward_moment, i, parent)


@inlined
def _put_momenta(m, d):
    """Write the momenta and their rates for q̈ = 0, after `put_motions`."""
    for i in range(d.n):
        omega, alpha = vector_at(d.body_omega[i], 0), vector_at(d.body_alpha[i], 0)
        mc = rotate(matrix_at(d.body_axes[i], 0), vector_at(m.body_moment[i], 0))
        put(d.outward_momentum[i], 0,
            along(m.body_mass[i], vector_at(d.body_velocity[i], 0), cross(omega, mc)))
        put(d.outward_force[i], 0,
            along(m.body_mass[i], vector_at(d.body_acceleration[i], 0),
                  add(cross(alpha, mc), cross(omega, cross(omega, mc)))))
    for i in range(d.n - 1, -1, -1):
        parent = m.body_parent[i]
        if parent >= 0:
            _add_row(d.outward_momentum, i, parent)
            _add_row(d.outward_force, i, parent)


@inlined
def _bend(m, d, i, g):
    """Second derivative of the load of body i in time for q̈ = 0 [N·m/s², N/s²]."""
    z, omega, alpha = axis_of(d, i), vector_at(d.body_omega[i], 0), vector_at(d.body_alpha[i], 0)
    turning = cross(omega, z)
    bending, mass = add(cross(alpha, z), cross(omega, turning)), d.outward_mass[i]
    if m.body_slides[i]:
        return -mass * dot(g, bending)
    rate = along(-mass, vector_at(d.body_velocity[i], 0), vector_at(d.outward_momentum[i], 0))
    force = along(-mass, vector_at(d.body_acceleration[i], 0), vector_at(d.outward_force[i], 0))
    return dot(g, add(add(cross(_arm(d, i), bending), along(2.0, cross(rate, turning), ZERO)),
                      cross(force, z)))


@inlined
def _put_gradient(m, d, g, i, sign, row):
    """Write sign · ∂g_i/∂q (n,), g_i the gravity torque of joint i; return the largest |entry|."""
    largest = 0.0
    for j in range(d.n):
        row[m.body_joint[j]] = 0.0
    for j in range(d.n):
        # a rotation of the inner joint rotates gravity the other way for the outer joint
        inner, outer = min(i, j), max(i, j)
        k = outer
        while k > inner:
            k = m.body_parent[k]
        if k != inner or m.body_slides[inner]:
            continue
        turned = cross(axis_of(d, inner), g)
        entry = sign * (
            d.outward_mass[outer] * dot(turned, axis_of(d, outer)) if m.body_slides[outer]
            else -dot(turned, cross(_arm(d, outer), axis_of(d, outer))))
        row[m.body_joint[j]] = entry
        largest = max(largest, np.abs(entry))
    return largest


@kernel
def bounded_loads(m, d, gravity):
    """Write bounds of q̈ that keep the joints' loads within limits; return the number of rows."""
    # A load includes `tau_disturbance`. -1: every load is below the share NEAR of its limit.
    gravity_torques(m, d, gravity)
    count, is_near, g, load = 0, False, vector_at(gravity, 0), d.gravity_load
    for i in range(d.n):
        load[i] += d.tau_disturbance[i]
        size = np.abs(load[i])
        is_near = is_near or size > NEAR * d.most_effort[i]
        count += size > HEAVY * d.most_effort[i]
    if count == 0:
        return 0 if is_near else -1
    put_motions(m, d)
    _put_momenta(m, d)
    count = 0
    for i in range(d.n):
        at, row = m.body_joint[i], d.row_of_q[count]
        size, sign, effort = np.abs(load[at]), np.copysign(1.0, load[at]), d.most_effort[at]
        if not size > HEAVY * effort:
            continue
        if not _put_gradient(m, d, g, i, sign, row) > _CONSTANT * size:
            continue
        d.row_number[count], d.softness[count], d.large_excess[count] = at, SOFT_LOAD, effort
        d.firmness[count] = min((size / effort - HEAVY) / (BOUNDED - HEAVY), 1.0)
        pace = 0.0
        for j in range(d.n):
            pace += row[j] * d.qd[j]
        d.row_most[count] = (PACE * (PACE * (FULL * effort - size) - 2.0 * pace)
                             - sign * _bend(m, d, i, g))
        count += 1
    return count


class Weight:
    """Computes gravity torques of a robot whose joints have one degree of freedom each."""

    def __init__(self, robot: Robot) -> None:
        self._m, self._d = LAW_M.new(n=robot.n), LAW_D.new(n=robot.n)
        put_bodies(self._m, robot)

    def torque(self, q: Array, gravity: Array) -> Array:
        """Torques (n,) [N·m; N] that hold the robot at rest at q (n,) in gravity (3,) [m/s²]."""
        self._d.q[:] = q
        gravity_torques(self._m, self._d, gravity)
        return np.array(self._d.gravity_load)
