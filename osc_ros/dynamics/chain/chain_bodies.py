# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Motions and forces of the bodies of a plain chain and of its tip, compiled.

(R, p) is the pose of body i in body i-1; the joint axis H is +z of body i. Motions and forces are
in the axes of the body, [angular; linear]. `link` is a body's row of `links`, `store` its row of
`work`, see `chain_layout`.
"""

from __future__ import annotations

from osc_ros.compile.compiled import inlined
from osc_ros.compile.either import lane_number
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    compose,
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
from osc_ros.dynamics.algebra.trigonometry import cosine_and_sine
from osc_ros.dynamics.chain.chain_layout import (
    A0,
    FIRST_MOMENT,
    INERTIA,
    INVERSE_A,
    INVERSE_B,
    INVERSE_C,
    MASS,
    POSE,
    POSITION,
    PRISMATIC,
    RESIDUAL,
    ROTATION,
    ROTOR,
    TWIST,
)


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
    put(store, 0, R)
    put(store, 9, p)
    return compose(R_base, R), add(p_base, rotate(R_base, p))


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
def put_tip(ends, R, p, v, a, K, tip):
    """Write pose, twist, Λ⁻¹ and a⁰ of the tip, base axes, from R, p, v, a, K of the last body."""
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
def force_on_last_body(ends, tip, F):
    """Wrench on the last body (body axes) that is equivalent to F (6,) at the tip (base axes)."""
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
def put_motion_torques(links, ends, qd, qdd, work, factor, out):
    """Write joint torques M q̈ + h to out (n,), from the placements in `work`."""
    # The residuals in `factor` are overwritten.
    gravity = vector_at(ends, 0)
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
