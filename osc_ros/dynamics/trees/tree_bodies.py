# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Positions, velocities, accelerations and forces of all bodies of a tree, compiled.

(R, p) is the pose of the frame of body i in its parent's frame. The columns of H are the axes
along or about which its joint can move: +z, or all three rotations for a spherical joint. v is the
body's spatial velocity in its own axes, and ζ = v × H q̇. Gravity is modelled by an acceleration
-gravity of the base.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    compose,
    cosine_and_sine,
    cross,
    force_cross,
    force_to_parent,
    matrix_at,
    motion_cross,
    motion_to_body,
    plus,
    put,
    rotate,
    spatial_at,
    sub,
    symmetric_at,
    times,
    unrotate,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.trees.tree_layout import (
    ACCELERATION,
    FIRST_MOMENT,
    GATHERED,
    IN_BASE,
    INERTIA,
    KIND,
    MASS,
    OWN_FORCE,
    PARENT,
    PLACEMENT,
    POSITION,
    PRISMATIC,
    Q_AT,
    REVOLUTE,
    ROTATION,
    SPHERICAL,
    V_AT,
    VELOCITY,
    ZETA,
)

Array = NDArray[np.float64]


@inlined
def relative_placement(tree, body, q, i):
    """Pose (R, p) of a body's frame in its parent's frame, from the joint positions q."""
    R, p, at = matrix_at(body, ROTATION), vector_at(body, POSITION), tree[i, Q_AT]
    if tree[i, KIND] == PRISMATIC:
        x = q[at]
        return R, (p[0] + x * R[2], p[1] + x * R[5], p[2] + x * R[8])
    if tree[i, KIND] == SPHERICAL:
        x, y, z, w = q[at], q[at + 1], q[at + 2], q[at + 3]
        s = 2.0 / (x * x + y * y + z * z + w * w)
        return compose(R, (
            1.0 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w),
            s * (x * y + z * w), 1.0 - s * (x * x + z * z), s * (y * z - x * w),
            s * (x * z - y * w), s * (y * z + x * w), 1.0 - s * (x * x + y * y))), p
    c, s = cosine_and_sine(q[at])
    return (c * R[0] + s * R[1], c * R[1] - s * R[0], R[2],
            c * R[3] + s * R[4], c * R[4] - s * R[3], R[5],
            c * R[6] + s * R[7], c * R[7] - s * R[6], R[8]), p


@inlined
def along_joint(tree, x, i):
    """H x of joint i: the spatial motion for the joint's entries of x (n,)."""
    k = tree[i, V_AT]
    if tree[i, KIND] == REVOLUTE:
        return (0.0, 0.0, x[k]), ZERO
    if tree[i, KIND] == PRISMATIC:
        return ZERO, (0.0, 0.0, x[k])
    return (x[k], x[k + 1], x[k + 2]), ZERO


@inlined
def momentum(body, v):
    """I v: spatial momentum of the body alone, for its spatial velocity v."""
    mc = vector_at(body, FIRST_MOMENT)
    return (add(times(symmetric_at(body, INERTIA), v[0]), cross(mc, v[1])),
            along(body[MASS], v[1], cross(v[0], mc)))


@inlined
def placement_at(store):
    """Pose (R, p) of a body's frame in its parent's frame, from its row of `work`."""
    return matrix_at(store, PLACEMENT), vector_at(store, PLACEMENT + 9)


@inlined
def axis_part(kind, f):
    """Hᵀ f, for a joint with one degree of freedom."""
    return f[1][2] if kind == PRISMATIC else f[0][2]


@kernel
def locate(robot, q, qd, work):
    """Write placements, velocities, ζ and bias forces p = v ×* I v of all bodies to `work`."""
    tree = robot.tree
    for i in range(len(tree)):
        store, body, parent = work[i], robot.bodies[i], tree[i, PARENT]
        R, p = relative_placement(tree, body, q, i)
        put(store, PLACEMENT, R)
        put(store, PLACEMENT + 9, p)
        v = along_joint(tree, qd, i)
        zeta = (ZERO, ZERO)
        R_base, p_base = R, p
        if parent >= 0:
            outer = work[parent]
            R_parent = matrix_at(outer, IN_BASE)
            R_base = compose(R_parent, R)
            p_base = add(vector_at(outer, IN_BASE + 9), rotate(R_parent, p))
            Hqd = v
            v = plus(motion_to_body(R, p, spatial_at(outer, VELOCITY)), Hqd)
            zeta = motion_cross(v, Hqd)
        bias = force_cross(v, momentum(body, v))
        put(store, IN_BASE, R_base)
        put(store, IN_BASE + 9, p_base)
        put(store, VELOCITY, v[0] + v[1])
        put(store, ZETA, zeta[0] + zeta[1])
        put(store, OWN_FORCE, bias[0] + bias[1])


@inlined
def carried_acceleration(robot, placed, work, i):
    """X a: the parent's acceleration a, at the origin and in the axes of body i."""
    (R, p), parent, gravity = placed, robot.tree[i, PARENT], robot.gravity
    if parent >= 0:
        return motion_to_body(R, p, spatial_at(work[parent], ACCELERATION))
    return ZERO, unrotate(R, (-gravity[0], -gravity[1], -gravity[2]))


@kernel
def accelerate(robot, qdd, work):
    """Write the acceleration of each body, for joint accelerations qdd (n,), to `work`."""
    # Also adds the inertial force (spatial inertia times acceleration) to the bias force there.
    tree = robot.tree
    for i in range(len(tree)):
        store = work[i]
        a = plus(plus(carried_acceleration(robot, placement_at(store), work, i),
                      spatial_at(store, ZETA)), along_joint(tree, qdd, i))
        f = plus(momentum(robot.bodies[i], a), spatial_at(store, OWN_FORCE))
        put(store, ACCELERATION, a[0] + a[1])
        put(store, OWN_FORCE, f[0] + f[1])


@inlined
def gather_to_parent(tree, work, i, placed, f):
    """Add force f on body i to GATHERED, the sum of forces, in its parent's row of `work`."""
    (R, p), parent = placed, tree[i, PARENT]
    if parent >= 0:
        total = plus(spatial_at(work[parent], GATHERED), force_to_parent(R, p, f))
        put(work[parent], GATHERED, total[0] + total[1])


@inlined
def push_tips(robot, work, F, sign):
    """Set the external forces on all bodies: sign × F (6 m,) (base axes) at the tips, else 0."""
    for i in range(len(work)):
        for k in range(6):
            work[i, GATHERED + k] = 0.0
    for k in range(len(robot.tips)):
        store = work[robot.tips[k]]
        R = matrix_at(store, IN_BASE)
        moment, force = unrotate(R, vector_at(F, 6 * k)), unrotate(R, vector_at(F, 6 * k + 3))
        moment = add(moment, cross(vector_at(robot.ends[k], 9), force))
        for j in range(3):
            store[GATHERED + j] += sign * moment[j]
            store[GATHERED + 3 + j] += sign * force[j]


@inlined
def collect_forces(robot, tau, qdd, work, out):
    """Write to out (n,) the joint torques due to the forces on the bodies, from tips to base."""
    tree = robot.tree
    for i in range(len(tree) - 1, -1, -1):
        store, kind, first = work[i], tree[i, KIND], tree[i, V_AT]
        placed, f = placement_at(store), spatial_at(store, GATHERED)
        if len(qdd) > 0:
            f = plus(f, spatial_at(store, OWN_FORCE))
        if kind == SPHERICAL:
            for k in range(3):
                out[first + k] = f[0][k]
        else:
            out[first] = axis_part(kind, f)
        gather_to_parent(tree, work, i, placed, f)
    for k in range(len(out)):
        if len(qdd) > 0:
            out[k] += robot.rotors[k] * qdd[k]
        if len(tau) > 0:
            out[k] += tau[k]


@kernel
def inward(robot, tau, qdd, F, work, out):
    """Write τ⁰ + JᵀF to out (n,) [N·m], after `outward` with the same tau and qdd."""
    # tau, qdd: (n,), or (0,) if not given. F (6 m,): forces at the tips, base axes, [moment;
    # force] [N·m, N].
    push_tips(robot, work, F, 1.0)
    collect_forces(robot, tau, qdd, work, out)


@inlined
def put_torques(robot, qdd, work, out):
    """Write joint torques M q̈ + h to out (n,), after `locate`; overwrites the bias forces."""
    accelerate(robot, qdd, work)
    for i in range(len(work)):
        for k in range(6):
            work[i, GATHERED + k] = 0.0
    collect_forces(robot, qdd[:0], qdd, work, out)


@inlined
def put_motion_torques(robot, qdd, work, out):
    """Write joint torques M q̈ + h to out (n,), from placements and velocities in `work`."""
    for i in range(len(robot.tree)):
        v = spatial_at(work[i], VELOCITY)
        bias = force_cross(v, momentum(robot.bodies[i], v))
        put(work[i], OWN_FORCE, bias[0] + bias[1])
    put_torques(robot, qdd, work, out)


@inlined
def freedoms_of(kind):
    """Number of degrees of freedom of a joint."""
    return 3 if kind == SPHERICAL else 1


@inlined
def axis_of(kind, c):
    """Column c of H: the spatial motion axis of degree of freedom c of a joint."""
    if kind == PRISMATIC:
        return ZERO, (0.0, 0.0, 1.0)
    if kind == REVOLUTE or c == 2:
        return (0.0, 0.0, 1.0), ZERO
    return (1.0 - c, 1.0 * c, 0.0), ZERO


@kernel
def jacobian(robot, work, J):
    """Write the Jacobian J (6 m, n) of the tips, base axes, [angular; linear], after `locate`."""
    tree, paths, starts = robot.tree, robot.paths, robot.starts
    J[:] = 0.0
    for k in range(len(robot.ends)):
        store = work[paths[starts[k + 1] - 1]]
        R, p = matrix_at(store, IN_BASE), vector_at(store, IN_BASE + 9)
        p_tip = add(p, rotate(R, vector_at(robot.ends[k], 9)))
        for at in range(starts[k], starts[k + 1]):
            i = paths[at]
            R, p = matrix_at(work[i], IN_BASE), vector_at(work[i], IN_BASE + 9)
            for c in range(freedoms_of(tree[i, KIND])):
                angular, linear = axis_of(tree[i, KIND], c)
                angular = rotate(R, angular)
                linear = add(rotate(R, linear), cross(angular, sub(p_tip, p)))
                for r in range(3):
                    J[6 * k + r, tree[i, V_AT] + c] = angular[r]
                    J[6 * k + 3 + r, tree[i, V_AT] + c] = linear[r]
