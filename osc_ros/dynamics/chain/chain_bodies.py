# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Motions and forces of the bodies of a plain chain and of its tip, compiled.

(R, p) is the pose of body i in body i-1; the joint axis H is +z of body i. Motions and forces are
in the axes of the body, [angular; linear]. `link` is a body's row of `links`, `store` its row of
`work`. All is in one flat array, which is fast to pass: an array argument costs 0.05 µs in each
call of a compiled function, a matrix 0.1 µs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, plain, view, viewing
from osc_ros.compile.either import lane_number
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    compose,
    cosine_and_sine,
    cross,
    force_cross,
    force_to_parent,
    full,
    matrix_at,
    mobility_shifted,
    mobility_unrotated,
    motion_cross,
    motion_to_body,
    plus,
    put,
    rotate,
    spatial_at,
    sub,
    symmetric_at,
    times,
    transpose,
    unrotate,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.algebra.task_inertia import SCRATCH_WIDTH
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Columns of `links`, one row per body: 1 for a prismatic joint, rotor inertia, placement in the
# parent at q = 0, mass, first moment, inertia about the origin, and the inverse of the spatial
# inertia, [[A, B], [Bᵀ, C]].
PRISMATIC, ROTOR, ROTATION, POSITION, MASS, FIRST_MOMENT, INERTIA = 0, 1, 2, 11, 14, 15, 18
INVERSE_A, INVERSE_B, INVERSE_C, LINK_WIDTH = 24, 30, 39, 45
# `ends`: gravity (3), tip rotation (9), tip position (3).
ENDS_WIDTH = 15
# Columns of `work`, one row per body: placement (12), Newton-Euler force (6).
WORK_WIDTH = 18
# Columns of `factor`, one row per body, for back substitution: L, D (21), residual (6), G H (6),
# and what `elimination.joint_hold` returns (21), for M⁻¹ only.
RESIDUAL, HOLD, FACTOR_WIDTH = 21, 33, 54
# `tip`: Λ⁻¹ (36), a⁰ (6), pose (16), twist (6), F (6), scratch of task_inertia.
A0, POSE, TWIST, FORCE, SCRATCH = 36, 42, 58, 64, 70
TIP_WIDTH = 70 + SCRATCH_WIDTH
_LINKS = ENDS_WIDTH + TIP_WIDTH  # where `links` begin in the flat array
_BODY_WIDTH = LINK_WIDTH + WORK_WIDTH + FACTOR_WIDTH


class Joints(NamedTuple):
    """State of the joints (n,), τ⁰ and posture acceleration; None if they are not needed."""

    q: Array | None
    qd: Array | None
    tau: Array | None
    qdd: Array | None


@viewing
def part_of(values, first, last):
    """Return values[first:last], or None if `values` is None."""
    return None if values is None else values[first:last]


@inlined
def part_of_joints(joints, first, last):
    """`Joints` of the bodies first, …, last - 1."""
    return Joints(joints.q[first:last], joints.qd[first:last], part_of(joints.tau, first, last),
                  part_of(joints.qdd, first, last))


class Parts(NamedTuple):
    """Views into the flat array of a chain of n bodies."""

    links: Array  # (n, LINK_WIDTH), constants
    ends: Array  # (ENDS_WIDTH,), constants
    work: Array  # (n, WORK_WIDTH)
    factor: Array | None  # (n, FACTOR_WIDTH), None where a kernel needs none
    tip: Array  # (TIP_WIDTH,), results


@inlined
def parts_of(chain):
    """The `Parts` of a chain's flat array."""
    n = (len(chain) - _LINKS) // _BODY_WIDTH
    work = _LINKS + n * LINK_WIDTH
    return Parts(view(chain, _LINKS, (n, LINK_WIDTH)), chain[:ENDS_WIDTH],
                 view(chain, work, (n, WORK_WIDTH)),
                 view(chain, work + n * WORK_WIDTH, (n, FACTOR_WIDTH)), chain[ENDS_WIDTH:_LINKS])


def empty_chain(n: int) -> tuple[Array, Parts]:
    """Return a flat array of zeros for n bodies, and its `Parts`."""
    chain = np.zeros(_LINKS + n * _BODY_WIDTH)
    return chain, Parts(*plain(parts_of)(chain))


def chain_of(robot: Robot) -> tuple[Array, Parts]:
    """Return the flat array of a robot (constants set, memory zero), and its `Parts`."""
    chain, parts = empty_chain(robot.n)
    parts.links[:], parts.ends[:] = packed_robot(robot)
    return chain, parts


def packed_robot(robot: Robot) -> tuple[Array, Array]:
    """Constants of the robot for the kernels: links (n, LINK_WIDTH) and ends (ENDS_WIDTH,)."""
    upper = np.triu_indices(3)
    links = np.zeros((robot.n, LINK_WIDTH))
    inverse = np.linalg.inv(robot.inertia)
    links[:, PRISMATIC] = robot.prismatic
    links[:, ROTOR] = robot.rotor_inertia
    links[:, ROTATION:POSITION] = robot.T_parent_body[:, :3, :3].reshape(-1, 9)
    links[:, POSITION:MASS] = robot.T_parent_body[:, :3, 3]
    links[:, MASS] = robot.inertia[:, 5, 5]
    links[:, FIRST_MOMENT:INERTIA] = robot.inertia[:, [2, 0, 1], [4, 5, 3]]
    links[:, INERTIA:INVERSE_A] = robot.inertia[:, :3, :3][:, upper[0], upper[1]]
    links[:, INVERSE_A:INVERSE_B] = inverse[:, :3, :3][:, upper[0], upper[1]]
    links[:, INVERSE_B:INVERSE_C] = inverse[:, :3, 3:].reshape(-1, 9)
    links[:, INVERSE_C:] = inverse[:, 3:, 3:][:, upper[0], upper[1]]
    ends = np.concatenate([robot.gravity, robot.T_body_tip[:3, :3].ravel(),
                           robot.T_body_tip[:3, 3]])
    return links, ends


@inlined
def factors_at(row, k):
    """The result of `ldl_factors` that row[k:k + 21] contains."""
    return (matrix_at(row, k) + matrix_at(row, k + 9)
            + (row[k + 18], row[k + 19], row[k + 20]))


@inlined
def is_prismatic(link):
    """Whether the joint is prismatic; all lanes have the same type of joint."""
    return lane_number(link[PRISMATIC], 0) > 0.0


@inlined
def placement(link, q):
    """Return R and p of a body at q, then cos q and sin q (1 and 0 for a prismatic joint)."""
    R, p = matrix_at(link, ROTATION), vector_at(link, POSITION)
    if is_prismatic(link):
        return R, (p[0] + q * R[2], p[1] + q * R[5], p[2] + q * R[8]), 1.0, 0.0
    c, s = cosine_and_sine(q)
    return (c * R[0] + s * R[1], c * R[1] - s * R[0], R[2],
            c * R[3] + s * R[4], c * R[4] - s * R[3], R[5],
            c * R[6] + s * R[7], c * R[7] - s * R[6], R[8]), p, c, s


@inlined
def along_axis(link, s):
    """H s: spatial motion at the rate s about or along the joint axis."""
    return (ZERO, (0.0, 0.0, s)) if is_prismatic(link) else ((0.0, 0.0, s), ZERO)


@inlined
def axis_part(link, f):
    """Hᵀ f: moment about the axis of a revolute joint, or force along that of a prismatic one."""
    return f[1][2] if is_prismatic(link) else f[0][2]


@inlined
def value_at(values, i):
    """Return values[i], or 0 if `values` is None."""
    return 0.0 if values is None else values[i]


@inlined
def momentum(link, v):
    """I v: spatial momentum of a body with the spatial velocity v."""
    mc = vector_at(link, FIRST_MOMENT)
    return (add(times(symmetric_at(link, INERTIA), v[0]), cross(mc, v[1])),
            along(link[MASS], v[1], cross(v[0], mc)))


@inlined
def inverse_inertia(link):
    """I⁻¹: inverse spatial inertia of a body, as a mobility."""
    return symmetric_at(link, INVERSE_A), matrix_at(link, INVERSE_B), symmetric_at(link, INVERSE_C)


@inlined
def in_base(R, v):
    return rotate(R, v[0]), rotate(R, v[1])


@inlined
def put_placement(R, p, R_base, p_base, store):
    """Write a body's R and p to `store` for the inward pass; return its R and p in the base."""
    put(store, 0, R + p)
    return compose(R_base, R), add(p_base, rotate(R_base, p))


@inlined
def at_base(ends, qdd):
    """R, p, v, a, b and K of the base: a is -gravity; b is a, or 0 if `qdd` is given."""
    gravity = vector_at(ends, 0)
    a = (ZERO, (-gravity[0], -gravity[1], -gravity[2]))
    return ((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), ZERO, (ZERO, ZERO), a,
            (ZERO, ZERO) if qdd is not None else a, (ZERO + ZERO, ZERO + ZERO + ZERO, ZERO + ZERO))


@inlined
def body_motion(link, placed, i, qd, qdd, v, a, store):
    """Return v, a, ζ = v × H q̇ and v ×* I v of a body, from v and a of its parent."""
    # `placed`: its (R, p). With a posture acceleration qdd, the Newton-Euler force, which includes
    # ζ and v ×* I v, is written to `store` for the inward pass, and these two are returned as 0.
    # Without qdd, a is unchanged.
    R, p = placed
    Hqd = along_axis(link, qd[i])
    v = plus(motion_to_body(R, p, v), Hqd)
    zeta, bias = motion_cross(v, Hqd), force_cross(v, momentum(link, v))
    if qdd is not None:
        a = plus(plus(motion_to_body(R, p, a), zeta), along_axis(link, qdd[i]))
        f = plus(momentum(link, a), bias)
        put(store, 12, f[0] + f[1])
        zeta, bias = (ZERO, ZERO), (ZERO, ZERO)
    return v, a, zeta, bias


@inlined
def tip_acceleration(tau, qdd, a, b):
    """Acceleration of the last body: b without qdd, a with qdd alone, a + b with tau and qdd."""
    if qdd is None:
        return b
    return a if tau is None else plus(a, b)


@inlined
def put_tip(ends, body, tip):
    """Write pose, twist, Λ⁻¹ and a⁰ of the tip, base axes, from R, p, v, a, K of the last body."""
    R, p, v, a, K = body
    R_tip, p_tip = matrix_at(ends, 3), vector_at(ends, 12)
    v = in_base(R, (v[0], add(v[1], cross(v[0], p_tip))))
    a = in_base(R, (a[0], add(a[1], cross(a[0], p_tip))))
    K_tip = mobility_unrotated(transpose(R), mobility_shifted(p_tip, K))
    A, B, B_t, C = full(K_tip[0]), K_tip[1], transpose(K_tip[1]), full(K_tip[2])
    for i in range(3):
        put(tip, 6 * i, (A[3 * i], A[3 * i + 1], A[3 * i + 2],
                         B[3 * i], B[3 * i + 1], B[3 * i + 2]))
        put(tip, 6 * i + 18, (B_t[3 * i], B_t[3 * i + 1], B_t[3 * i + 2],
                              C[3 * i], C[3 * i + 1], C[3 * i + 2]))
    put(tip, A0, a[0])
    put(tip, A0 + 3, add(add(a[1], cross(v[0], v[1])), vector_at(ends, 0)))
    put(tip, TWIST, v[0])
    put(tip, TWIST + 3, v[1])
    R_tip, p_tip = compose(R, R_tip), add(p, rotate(R, p_tip))
    put(tip, POSE, (R_tip[0], R_tip[1], R_tip[2], p_tip[0],
                    R_tip[3], R_tip[4], R_tip[5], p_tip[1],
                    R_tip[6], R_tip[7], R_tip[8], p_tip[2], 0.0, 0.0, 0.0, 1.0))


@inlined
def force_on_last_body(at, F):
    """Wrench on the last body (body axes) that is equivalent to F (6,) at the tip (base axes)."""
    ends, tip = at.ends, at.tip
    # rotation of the last body in the base: rotation of the tip, times the inverse of the tip's
    # rotation in the body
    R = compose((tip[POSE], tip[POSE + 1], tip[POSE + 2], tip[POSE + 4], tip[POSE + 5],
                 tip[POSE + 6], tip[POSE + 8], tip[POSE + 9], tip[POSE + 10]),
                transpose(matrix_at(ends, 3)))
    moment, force = unrotate(R, vector_at(F, 0)), unrotate(R, vector_at(F, 3))
    return add(moment, cross(vector_at(ends, 12), force)), force


@inlined
def inward_sweep(links, tau, qdd, f, work, out):
    """Write the joint torques of consecutive bodies; f is the external force on the last body."""
    for i in range(len(out) - 1, -1, -1):
        link, store = links[i], work[i]
        applied = 0.0
        if qdd is not None:
            f = plus(f, spatial_at(store, 12))
            applied += link[ROTOR] * qdd[i]
        if tau is not None:
            applied += tau[i]
        out[i] = applied + axis_part(link, f)
        f = force_to_parent(matrix_at(store, 0), vector_at(store, 9), f)


@inlined
def put_motion_torques(at, qd, qdd, out):
    """Write joint torques M q̈ + h to out (n,), from the placements in `work`."""
    # The residuals in `factor` are overwritten.
    links, work, factor, gravity = at.links, at.work, at.factor, vector_at(at.ends, 0)
    v, a = (ZERO, ZERO), (ZERO, (-gravity[0], -gravity[1], -gravity[2]))
    for i in range(len(links)):
        link, R, p = links[i], matrix_at(work[i], 0), vector_at(work[i], 9)
        Hqd = along_axis(link, qd[i])
        v = plus(motion_to_body(R, p, v), Hqd)
        a = plus(plus(motion_to_body(R, p, a), motion_cross(v, Hqd)), along_axis(link, qdd[i]))
        f = plus(momentum(link, a), force_cross(v, momentum(link, v)))
        put(factor[i], RESIDUAL, f[0] + f[1])
    f = (ZERO, ZERO)
    for i in range(len(links) - 1, -1, -1):
        f = plus(f, spatial_at(factor[i], RESIDUAL))
        out[i] = axis_part(links[i], f) + links[i, ROTOR] * qdd[i]
        f = force_to_parent(matrix_at(work[i], 0), vector_at(work[i], 9), f)


@inlined
def put_jacobian(links, work, tip, J):
    R, p = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), ZERO
    p_tip = (tip[POSE + 3], tip[POSE + 7], tip[POSE + 11])
    for i in range(len(work)):
        p = add(p, rotate(R, vector_at(work[i], 9)))
        R = compose(R, matrix_at(work[i], 0))
        z = (R[2], R[5], R[8])
        angular, linear = (ZERO, z) if links[i, PRISMATIC] else (z, cross(z, sub(p_tip, p)))
        for k in range(3):
            J[k, i], J[k + 3, i] = angular[k], linear[k]
