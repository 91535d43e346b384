# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Articulated-body inertias of a tree, and the accelerations that torques and forces cause.

I is the articulated-body inertia of body i, U = I H and D = HᵀU + rotor inertia. No inertia of a
single body is inverted (as in paper 004 for branches), so a body may be massless if each joint
moves some mass. `store` is the row of a body in `work`, see `tree_layout`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import ahead, inlined, kernel, lock, plain
from osc_ros.dynamics.algebra.arrays import kernel_array
from osc_ros.dynamics.algebra.spatial import (
    add,
    add_mobility,
    along,
    compose,
    dot,
    full,
    inertia_to_parent,
    inverse,
    mobility_at,
    mobility_times,
    plus,
    put,
    rank_one_downdate,
    rotate,
    spatial_at,
    sub,
    sub_matrix,
    symmetric_at,
    times,
    transpose,
    unrotate,
    upper,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.trees.tree_bodies import (
    along_joint,
    axis_part,
    carried_acceleration,
    gather_to_parent,
    locate,
    placement_at,
    push_tips,
    put_torques,
)
from osc_ros.dynamics.trees.tree_layout import (
    ACCELERATION,
    ARTICULATED,
    constants_in,
    D_INV,
    DRIVE,
    FACTORED,
    FIRST_MOMENT,
    GATHERED,
    INERTIA,
    KIND,
    MASS,
    memory_in,
    OWN_FORCE,
    packed_robot,
    PARENT,
    parts_of,
    pendulum,
    PRISMATIC,
    PROPAGATED,
    room_for,
    ROTOR_SHARE,
    SPHERICAL,
    V_AT,
    ZETA,
)
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@inlined
def column_of(kind, I):
    """U = I H, for a joint with one degree of freedom."""
    A, B, C = I
    if kind == PRISMATIC:
        return (B[2], B[5], B[8]), (C[2], C[4], C[5])
    return (A[2], A[4], A[5]), (B[6], B[7], B[8])


@inlined
def put_own_inertia(body, store):
    """Set the articulated-body inertia in `store` to the inertia of the body alone."""
    m, mc = body[MASS], vector_at(body, FIRST_MOMENT)
    put(store, ARTICULATED, symmetric_at(body, INERTIA))
    put(store, ARTICULATED + 6,
        (0.0, -mc[2], mc[1], mc[2], 0.0, -mc[0], -mc[1], mc[0], 0.0))
    put(store, ARTICULATED + 15, (m, 0.0, 0.0, m, 0.0, m))


@inlined
def passed_inertia(tree, rotors, store, i):
    """Articulated-body inertia that body i adds to its parent; also writes D⁻¹ to `store`."""
    kind, k = tree[i, KIND], tree[i, V_AT]
    I = mobility_at(store, ARTICULATED)
    if kind == SPHERICAL:
        A, B, C = I
        D_inv = inverse((A[0] + rotors[k], A[1], A[2], A[3] + rotors[k + 1], A[4],
                         A[5] + rotors[k + 2]))
        put(store, D_INV, D_inv)
        put(store, ROTOR_SHARE, vector_at(rotors, k))
        A_full, D_full = full(A), full(D_inv)
        DA, DB = compose(D_full, A_full), compose(D_full, B)
        return (upper(sub_matrix(A_full, compose(A_full, DA))),
                sub_matrix(B, compose(A_full, DB)),
                upper(sub_matrix(full(C), compose(transpose(B), DB))))
    U = column_of(kind, I)
    d = 1.0 / (axis_part(kind, U) + rotors[k])
    store[D_INV], store[ROTOR_SHARE] = d, d * rotors[k]
    return rank_one_downdate(I, d, U[0], U[1])


@kernel
def put_articulated_inertias(robot, work):
    """Write articulated-body inertias and D⁻¹ of all bodies to `work`, from the tips inward."""
    tree = robot.tree
    for i in range(len(tree)):
        put_own_inertia(robot.bodies[i], work[i])
    for i in range(len(tree) - 1, -1, -1):
        store, parent = work[i], tree[i, PARENT]
        passed = passed_inertia(tree, robot.rotors, store, i)
        if parent >= 0:
            R, p = placement_at(store)
            total = add_mobility(mobility_at(work[parent], ARTICULATED),
                                 inertia_to_parent(R, p, passed))
            put(work[parent], ARTICULATED, total[0] + total[1] + total[2])


@inlined
def Ut_times(kind, I, x):
    """Uᵀ x as three numbers; the last two are 0 for a joint with one degree of freedom."""
    if kind == SPHERICAL:
        return add(times(I[0], x[0]), rotate(I[1], x[1]))
    U = column_of(kind, I)
    return dot(U[0], x[0]) + dot(U[1], x[1]), 0.0, 0.0


@inlined
def D_inv_times(kind, store, x):
    """D⁻¹ x as three numbers; the last two are 0 for a joint with one degree of freedom."""
    if kind == SPHERICAL:
        return times(symmetric_at(store, D_INV), x)
    return store[D_INV] * x[0], 0.0, 0.0


@inlined
def U_times(kind, I, x):
    """U x: the spatial force for x, one number per degree of freedom."""
    if kind == SPHERICAL:
        return times(I[0], x), unrotate(I[1], x)
    U = column_of(kind, I)
    return along(x[0], U[0], ZERO), along(x[0], U[1], ZERO)


@inlined
def passed_force(tree, tau, still, store, i):
    """Force that body i needs from its parent if the parent does not accelerate."""
    # p is the bias force of the body plus the forces that its children need. The acceleration of
    # the joint while the parent does not accelerate, D⁻¹(τ - Hᵀp - Uᵀζ), is written to DRIVE in
    # `store`. If `still`, the bias force and ζ are zero.
    kind, k = tree[i, KIND], tree[i, V_AT]
    I, zeta, force = mobility_at(store, ARTICULATED), (ZERO, ZERO), (ZERO, ZERO)
    if not still:
        zeta, force = spatial_at(store, ZETA), spatial_at(store, OWN_FORCE)
    force = plus(force, spatial_at(store, GATHERED))
    if kind == SPHERICAL:
        u = sub((tau[k], tau[k + 1], tau[k + 2]), force[0])
    else:
        u = (tau[k] - axis_part(kind, force), 0.0, 0.0)
    drive = D_inv_times(kind, store, sub(u, Ut_times(kind, I, zeta)))
    put(store, DRIVE, drive)
    return plus(force, plus(mobility_times(I, zeta), U_times(kind, I, drive)))


@inlined
def put_acceleration(robot, still, work, i, qdd):
    """Write q̈ of joint i and the acceleration of body i, from its parent's and from DRIVE."""
    tree, store = robot.tree, work[i]
    kind, k, placed = tree[i, KIND], tree[i, V_AT], placement_at(store)
    I = mobility_at(store, ARTICULATED)
    a = (ZERO, ZERO)
    if tree[i, PARENT] >= 0 or not still:
        a = carried_acceleration(robot, placed, work, i)
    # DRIVE already includes ζ
    x = sub(vector_at(store, DRIVE), D_inv_times(kind, store, Ut_times(kind, I, a)))
    if not still:
        a = plus(a, spatial_at(store, ZETA))
    if kind == SPHERICAL:
        a = add(a[0], x), a[1]
        for j in range(3):
            qdd[k + j] = x[j]
    else:
        qdd[k] = x[0]
        a = plus(a, along_joint(tree, qdd, i))
    put(store, ACCELERATION, a[0] + a[1])


@kernel
def put_response(robot, tau, F, still, work, qdd):
    """Write q̈ (n,) and the accelerations of all bodies under torques and forces on the tips."""
    # Call `put_articulated_inertias` first. If `still`, velocities and gravity count as zero.
    tree = robot.tree
    push_tips(robot, work, F, -1.0)
    for i in range(len(tree) - 1, -1, -1):
        placed = placement_at(work[i])
        gather_to_parent(tree, work, i, placed, passed_force(tree, tau, still, work[i], i))
    for i in range(len(tree)):
        put_acceleration(robot, still, work, i, qdd)


@kernel
def inverse_dynamics(arrays, q, qd, qdd, out):
    """Write the joint torques M q̈ + C + G to out (n,) [N·m], by Newton-Euler recursion."""
    robot, memory = parts_of(arrays)
    locate(robot, q, qd, memory.work)
    put_torques(robot, qdd, memory.work, out)


@kernel
def accelerations(arrays, q, qd, tau, F, still, qdd):
    """Write q̈ (n,) by `locate`, `put_articulated_inertias` and `put_response`, in one call."""
    robot, memory = parts_of(arrays)
    locate(robot, q, qd, memory.work)
    put_articulated_inertias(robot, memory.work)
    put_response(robot, tau, F, still, memory.work, qdd)


@kernel
def inverse_mass_matrix_at(arrays, q, M_inv):
    """Write M⁻¹ (n, n) at q (nq,), exactly symmetric."""
    robot, memory = parts_of(arrays)
    locate(robot, q, memory.rest, memory.work)
    put_articulated_inertias(robot, memory.work)
    put_inverse_mass_matrix(robot, memory, M_inv)


@inlined
def put_inverse_mass_matrix(robot, memory, M_inv):
    """Write M⁻¹ (n, n): row i is q̈ at rest, without gravity, under a unit torque of joint i."""
    unit = memory.driven
    for i in range(len(unit)):
        unit[i] = 0.0
    for i in range(len(unit)):
        unit[i] = 1.0
        put_response(robot, unit, memory.no_force, True, memory.work, M_inv[i])
        unit[i] = 0.0
        for j in range(i):
            M_inv[i, j] = M_inv[j, i] = 0.5 * (M_inv[i, j] + M_inv[j, i])


class Articulated:
    """Forward and inverse dynamics and M⁻¹ of one robot, and their memory: use one per thread."""

    # The memory is sufficient for `algorithm` of `Tree`: EXTENDED, PROPAGATED or FACTORED.
    # `arrays` is the first argument of every kernel, see `tree_layout.parts_of`.

    def __init__(self, robot: Robot, algorithm: int = PROPAGATED) -> None:
        _compile_articulated()
        self.robot = robot
        integers, numbers = packed_robot(robot, algorithm)
        self.arrays = integers, numbers, room_for(integers)
        self._memory = plain(memory_in)(integers, self.arrays[2])
        self.gravity: Array = plain(constants_in)(integers, numbers).gravity
        self._rest: Array = self._memory.rest

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques (n,) and forces F (6 m,) on the tips."""
        return self._accelerations(q, qd, tau, F, still=False)

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Joint torques M q̈ + C + G (n,)."""
        tau = np.empty(self.robot.n)
        inverse_dynamics(self.arrays, kernel_array(q), kernel_array(qd), kernel_array(qdd), tau)
        return tau

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """The product M⁻¹ x (n,)."""
        return self.response(q, x, self._memory.no_force)

    def response(self, q: Array, tau: Array, F: Array) -> Array:
        """M⁻¹(τ + JᵀF) (n,) at q (nq,), for torques τ (n,) and forces F (6 m,) on the tips."""
        return self._accelerations(q, self._rest, tau, F, still=True)

    def M_inv(self, q: Array, out: Array) -> Array:
        """Write M⁻¹ to out (n, n)."""
        inverse_mass_matrix_at(self.arrays, q, out)
        return out

    def _accelerations(self, q: Array, qd: Array, tau: Array, F: Array, still: bool) -> Array:
        qdd = np.empty(self.robot.n)
        accelerations(self.arrays, q, qd, tau, F, still, qdd)
        return qdd


@ahead
def _compile_articulated() -> None:
    integers, numbers = packed_robot(pendulum(), FACTORED)
    arrays, x, u = (integers, numbers, room_for(integers)), np.zeros(1), np.zeros(6)
    accelerations(arrays, x, x, x, u, True, x.copy())
    inverse_mass_matrix_at(arrays, x, np.zeros((1, 1)))
    inverse_dynamics(arrays, x, x, x, x.copy())
    for one_kernel in (accelerations, inverse_mass_matrix_at, inverse_dynamics):
        lock(one_kernel)
