"""
The whole operational-space law in one outward and one inward sweep, compiled.

Going outward, the constraint forces of joint after joint are eliminated (the Schur complement
of 000, eqs. 39-46, taken block by block). What survives after body i is

    K  inverse operational-space inertia of the chain cut after body i, at its origin
    b  acceleration of body i under the joint torques τ⁰, with nothing touching it

so the tip's K is Λ⁻¹ and its acceleration is a⁰ = J M⁻¹(τ⁰ - h) + J̇q̇, and the law is
F = Λ(u - a⁰), τ = τ⁰ + JᵀF. With a posture acceleration, τ⁰ = ID(q, q̇, q̈_p) and a⁰ is plain
kinematics; b then carries only a torque that is added on top.

Notation: body i is reached from body i-1 by the placement (R, p); H is the joint axis, +z of the
body, W the other five directions; v, a spatial velocity and acceleration; d the rotor inertia,
which makes W six wide: W̃ = [W, √d H] and W̃ᵀ G W̃ + diag(0,0,0,0,0,1).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import inlined, kernel, released
from osc_ros.dynamics.method import DONE, Method, NOT_FINITE, on_all_cores, Terms, WRONG_SHAPE
from osc_ros.dynamics.spatial import (
    add,
    add_matrix,
    add_mobility,
    all_finite,
    along,
    compose,
    cross,
    cross_rows,
    dot,
    downdated,
    force_cross,
    force_to_body,
    force_to_parent,
    full,
    matrix_at,
    minus,
    mobility_shifted,
    mobility_times,
    mobility_unrotated,
    motion_cross,
    motion_to_body,
    outer_added,
    plus,
    put,
    rotate,
    spatial_at,
    sub,
    swapped,
    symmetric_at,
    times,
    transpose,
    unrotate,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.task_inertia import (
    applied_pseudo_inverse,
    EXACT_HIGH,
    pseudo_inverse,
    SCRATCH_WIDTH,
    solved,
)
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Columns of `links`, a row a body: everything about it that never changes.
PRISMATIC, ROTOR, _R, _P, _MASS, _MC, _IO, _A, _B, _C = 0, 1, 2, 11, 14, 15, 18, 24, 30, 39
LINK_WIDTH = 45
# `ends`: gravity (3), tip rotation (9), tip position (3).
ENDS_WIDTH = 15
# Columns of `work`, a row a body: placement (12), Newton-Euler force (6).
WORK_WIDTH = 18
# Columns of `factor`, a row a body: L and D (21), residual (6), G H (6), for forward dynamics.
FACTOR_WIDTH = 33
# `tip`: Λ⁻¹ (36), a⁰ (6), pose (16), twist (6), F (6), scratch of task_inertia.
A0, POSE, TWIST, FORCE, _SCRATCH = 36, 42, 58, 64, 70
TIP_WIDTH = 70 + SCRATCH_WIDTH


def packed(robot: Robot) -> tuple[Array, Array]:
    """
    Constants of the robot as the kernels read them.

    Returns
    -------
    links : (n, LINK_WIDTH)
    ends : (ENDS_WIDTH,)

    """
    upper = np.triu_indices(3)
    links = np.zeros((robot.n, LINK_WIDTH))
    inverse = np.linalg.inv(robot.inertia)
    links[:, PRISMATIC] = robot.prismatic
    links[:, ROTOR] = robot.rotor_inertia
    links[:, _R:_P] = robot.T_parent_body[:, :3, :3].reshape(-1, 9)
    links[:, _P:_MASS] = robot.T_parent_body[:, :3, 3]
    links[:, _MASS] = robot.inertia[:, 5, 5]
    links[:, _MC:_IO] = robot.inertia[:, [2, 0, 1], [4, 5, 3]]
    links[:, _IO:_A] = robot.inertia[:, :3, :3][:, upper[0], upper[1]]
    links[:, _A:_B] = inverse[:, :3, :3][:, upper[0], upper[1]]
    links[:, _B:_C] = inverse[:, :3, 3:].reshape(-1, 9)
    links[:, _C:] = inverse[:, 3:, 3:][:, upper[0], upper[1]]
    ends = np.concatenate([robot.gravity, robot.T_body_tip[:3, :3].ravel(),
                           robot.T_body_tip[:3, 3]])
    return links, ends


@inlined
def factors_at(row, k):
    """L and D of `factored`, from a row."""
    return (matrix_at(row, k) + matrix_at(row, k + 9)
            + (row[k + 18], row[k + 19], row[k + 20]))


@inlined
def placement(link, q):
    """(R, p) of a body in its parent at joint position q, and cos and sin of its turn."""
    R, p = matrix_at(link, _R), vector_at(link, _P)
    if link[PRISMATIC]:
        return R, (p[0] + q * R[2], p[1] + q * R[5], p[2] + q * R[8]), 1.0, 0.0
    c, s = np.cos(q), np.sin(q)
    return (c * R[0] + s * R[1], c * R[1] - s * R[0], R[2],
            c * R[3] + s * R[4], c * R[4] - s * R[3], R[5],
            c * R[6] + s * R[7], c * R[7] - s * R[6], R[8]), p, c, s


@inlined
def along_axis(link, s):
    """H s."""
    return (ZERO, (0.0, 0.0, s)) if link[PRISMATIC] else ((0.0, 0.0, s), ZERO)


@inlined
def axis_part(link, f):
    """Hᵀ f."""
    return f[1][2] if link[PRISMATIC] else f[0][2]


@inlined
def momentum(link, v):
    """I v."""
    mc = vector_at(link, _MC)
    return (add(times(symmetric_at(link, _IO), v[0]), cross(mc, v[1])),
            along(link[_MASS], v[1], cross(v[0], mc)))


@inlined
def factored(G, s):
    """
    L D Lᵀ of W̃ᵀ G W̃ + diag(0,0,0,0,0,1), the joint axis being the third angular one.

    The order of elimination is linear x y z, angular x y, then s = √d times the axis.

    """
    A, B, C = G
    d0 = 1.0 / C[0]
    l10, l20, l30, l40, l50 = C[1] * d0, C[2] * d0, B[0] * d0, B[3] * d0, s * B[6] * d0
    d1 = 1.0 / (C[3] - l10 * C[1])
    g21, g31 = C[4] - l20 * C[1], B[1] - l30 * C[1]
    g41, g51 = B[4] - l40 * C[1], s * B[7] - l50 * C[1]
    l21, l31, l41, l51 = g21 * d1, g31 * d1, g41 * d1, g51 * d1
    d2 = 1.0 / (C[5] - l20 * C[2] - l21 * g21)
    g32 = B[2] - l30 * C[2] - l31 * g21
    g42 = B[5] - l40 * C[2] - l41 * g21
    g52 = s * B[8] - l50 * C[2] - l51 * g21
    l32, l42, l52 = g32 * d2, g42 * d2, g52 * d2
    d3 = 1.0 / (A[0] - l30 * B[0] - l31 * g31 - l32 * g32)
    g43 = A[1] - l40 * B[0] - l41 * g31 - l42 * g32
    g53 = s * A[2] - l50 * B[0] - l51 * g31 - l52 * g32
    l43, l53 = g43 * d3, g53 * d3
    d4 = 1.0 / (A[3] - l40 * B[3] - l41 * g41 - l42 * g42 - l43 * g43)
    g54 = s * A[4] - l50 * B[3] - l51 * g41 - l52 * g42 - l53 * g43
    l54 = g54 * d4
    d5 = 1.0 / (s * s * A[5] + 1.0 - l50 * s * B[6] - l51 * g51 - l52 * g52 - l53 * g53
                - l54 * g54)
    return (l10, l20, l30, l40, l50, l21, l31, l41, l51, l32, l42, l52, l43, l53, l54,
            d0, d1, d2, d3, d4, d5)


@inlined
def forward_solved(L, r0, r1, r2, r3, r4, r5):
    """L⁻¹ r."""
    r1 = r1 - L[0] * r0
    r2 = r2 - L[1] * r0 - L[5] * r1
    r3 = r3 - L[2] * r0 - L[6] * r1 - L[9] * r2
    r4 = r4 - L[3] * r0 - L[7] * r1 - L[10] * r2 - L[12] * r3
    r5 = r5 - L[4] * r0 - L[8] * r1 - L[11] * r2 - L[13] * r3 - L[14] * r4
    return r0, r1, r2, r3, r4, r5


@inlined
def factor_solved(L, r0, r1, r2, r3, r4, r5):
    """(L D Lᵀ)⁻¹ r."""
    r0, r1, r2, r3, r4, r5 = forward_solved(L, r0, r1, r2, r3, r4, r5)
    r5 = L[20] * r5
    r4 = L[19] * r4 - L[14] * r5
    r3 = L[18] * r3 - L[12] * r4 - L[13] * r5
    r2 = L[17] * r2 - L[9] * r3 - L[10] * r4 - L[11] * r5
    r1 = L[16] * r1 - L[5] * r2 - L[6] * r3 - L[7] * r4 - L[8] * r5
    r0 = L[15] * r0 - L[0] * r1 - L[1] * r2 - L[2] * r3 - L[3] * r4 - L[4] * r5
    return r0, r1, r2, r3, r4, r5


@inlined
def across_rows(G, s):
    """The rows of W̃ᵀ G, as their two halves, in the order of `factored`."""
    A, B, C = G
    return (((B[0], B[3], B[6]), (B[1], B[4], B[7]), (B[2], B[5], B[8]),
             (A[0], A[1], A[2]), (A[1], A[3], A[4]), (s * A[2], s * A[4], s * A[5])),
            ((C[0], C[1], C[2]), (C[1], C[3], C[4]), (C[2], C[4], C[5]),
             (B[0], B[1], B[2]), (B[3], B[4], B[5]), (s * B[6], s * B[7], s * B[8])))


@inlined
def eliminated(G, L, a, c):
    """
    G - ZᵀD⁻¹Z, with Z = L⁻¹ [a, c] for the six rows [a, c]; and the rows of Z.

    With [a, c] = W̃ᵀ I⁻¹ and G = I⁻¹ it is K: the body joined to all that is inside it.

    """
    a0, c0 = a[0], c[0]
    a1, c1 = along(-L[0], a0, a[1]), along(-L[0], c0, c[1])
    a2, c2 = along(-L[1], a0, a[2]), along(-L[1], c0, c[2])
    a2, c2 = along(-L[5], a1, a2), along(-L[5], c1, c2)
    a3, c3 = along(-L[2], a0, a[3]), along(-L[2], c0, c[3])
    a3, c3 = along(-L[6], a1, a3), along(-L[6], c1, c3)
    a3, c3 = along(-L[9], a2, a3), along(-L[9], c2, c3)
    a4, c4 = along(-L[3], a0, a[4]), along(-L[3], c0, c[4])
    a4, c4 = along(-L[7], a1, a4), along(-L[7], c1, c4)
    a4, c4 = along(-L[10], a2, a4), along(-L[10], c2, c4)
    a4, c4 = along(-L[12], a3, a4), along(-L[12], c3, c4)
    a5, c5 = along(-L[4], a0, a[5]), along(-L[4], c0, c[5])
    a5, c5 = along(-L[8], a1, a5), along(-L[8], c1, c5)
    a5, c5 = along(-L[11], a2, a5), along(-L[11], c2, c5)
    a5, c5 = along(-L[13], a3, a5), along(-L[13], c3, c5)
    a5, c5 = along(-L[14], a4, a5), along(-L[14], c4, c5)
    K = downdated(G, L[15], a0, c0)
    K = downdated(K, L[16], a1, c1)
    K = downdated(K, L[17], a2, c2)
    K = downdated(K, L[18], a3, c3)
    K = downdated(K, L[19], a4, c4)
    K = downdated(K, L[20], a5, c5)
    return K, (a0, a1, a2, a3, a4, a5), (c0, c1, c2, c3, c4, c5)


@inlined
def carried_back(L, y, za, zc):
    """Zᵀ D⁻¹ y."""
    angular, linear = ZERO, ZERO
    for k in range(6):
        w = L[15 + k] * y[k]
        angular, linear = along(w, za[k], angular), along(w, zc[k], linear)
    return angular, linear


@inlined
def axis_first(link, G):
    """The mobility with the joint axis among its 'angular' directions, and back again."""
    return swapped(G) if link[PRISMATIC] else G


@inlined
def axis_first_pair(link, f):
    """As `axis_first`, for a spatial vector."""
    return (f[1], f[0]) if link[PRISMATIC] else f


@inlined
def across_axis(s, z):
    """W̃ᵀ z, axis first, in the order of `factored`."""
    return z[1] + (z[0][0], z[0][1], s * z[0][2])


@inlined
def from_across_axis(s, x):
    """W̃ x, axis first."""
    return (x[3], x[4], s * x[5]), (x[0], x[1], x[2])


@inlined
def inverse_inertia(link):
    """I⁻¹."""
    return symmetric_at(link, _A), matrix_at(link, _B), symmetric_at(link, _C)


@inlined
def _joined(link, G, z):
    """
    Eliminate the constraint force of a joint.

    Returns K, what z takes off the acceleration, L, L⁻¹ W̃ᵀ z, and the rows of Z in two halves.

    """
    s = np.sqrt(link[ROTOR])
    I_inv = axis_first(link, inverse_inertia(link))
    z = axis_first_pair(link, z)
    L = factored(axis_first(link, G), s)
    a, c = across_rows(I_inv, s)
    K, za, zc = eliminated(I_inv, L, a, c)
    y = forward_solved(L, *across_axis(s, z))
    return (axis_first(link, K), axis_first_pair(link, carried_back(L, y, za, zc)), L, y, za, zc)


@inlined
def _across(link, R, p, K):
    """G = I⁻¹ + X K Xᵀ: the mobility between the two sides of a joint."""
    return add_mobility(inverse_inertia(link), mobility_unrotated(R, mobility_shifted(p, K)))


@inlined
def _to_base(R, v):
    return rotate(R, v[0]), rotate(R, v[1])


@inlined
def put_tip(ends, R, p, v, a, K, tip):
    """Shift what the last body has to the tip, turn it to base axes, give gravity back."""
    R_tip, p_tip = matrix_at(ends, 3), vector_at(ends, 12)
    v = _to_base(R, (v[0], add(v[1], cross(v[0], p_tip))))
    a = _to_base(R, (a[0], add(a[1], cross(a[0], p_tip))))
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
def put_placement(R, p, R_base, p_base, store):
    """Keep the placement of a body for the way in; its (R, p) in the base from its parent's."""
    put(store, 0, R)
    put(store, 9, p)
    return compose(R_base, R), add(p_base, rotate(R_base, p))


@inlined
def moved(link, R, p, i, qd, qdd, v, a, store):
    """
    Velocity v and acceleration a of a body from its parent's; ζ and v ×* I v.

    With a posture acceleration the Newton-Euler force is kept for the way in, and ζ and v ×* I v,
    which are in it, are 0; without one a is left as it is.

    """
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
def coupling_to_body(R, p, C):
    """X C, for C from forces to motions, as four blocks: [[C0, C1], [C2, C3]]."""
    R_t = transpose(R)
    return (compose(R_t, C[0]), compose(R_t, C[1]),
            compose(R_t, add_matrix(C[2], transpose(cross_rows(transpose(C[0]), p)))),
            compose(R_t, add_matrix(C[3], transpose(cross_rows(transpose(C[1]), p)))))


@inlined
def rows_first(link, C):
    """The coupling with the joint axis among the first three of its rows, and back again."""
    return (C[2], C[3], C[0], C[1]) if link[PRISMATIC] else C


@inlined
def coupling_rows(C, s):
    """The rows of W̃ᵀ C, axis first, as their two halves, in the order of `factored`."""
    T, U, V, W = C
    return (((V[0], V[1], V[2]), (V[3], V[4], V[5]), (V[6], V[7], V[8]),
             (T[0], T[1], T[2]), (T[3], T[4], T[5]), (s * T[6], s * T[7], s * T[8])),
            ((W[0], W[1], W[2]), (W[3], W[4], W[5]), (W[6], W[7], W[8]),
             (U[0], U[1], U[2]), (U[3], U[4], U[5]), (s * U[6], s * U[7], s * U[8])))


@inlined
def coupled(L, za, zc, ua, uc):
    """Zᵀ D⁻¹ U, for the rows of Z and U in halves, as four blocks."""
    empty = ZERO + ZERO + ZERO
    T, U, V, W = empty, empty, empty, empty
    for k in range(6):
        a = (L[15 + k] * za[k][0], L[15 + k] * za[k][1], L[15 + k] * za[k][2])
        c = (L[15 + k] * zc[k][0], L[15 + k] * zc[k][1], L[15 + k] * zc[k][2])
        T, U = outer_added(a, ua[k], T), outer_added(a, uc[k], U)
        V, W = outer_added(c, ua[k], V), outer_added(c, uc[k], W)
    return T, U, V, W


@inlined
def inner_handle(link, R, p, tau, i, L, y, za, zc, handle):
    """
    What the unknown force on the first body does, after one more joint was eliminated.

    Parameters
    ----------
    handle : (C, K_a, b_a, f)
        From that force to the acceleration of the last body and of the first; what else
        accelerates the first; all Newton-Euler forces, as one on the last body (left alone).

    Returns
    -------
    The handle, the rows of C as the halves of Z are

    """
    C, K_a, b_a, f = handle
    s = np.sqrt(link[ROTOR])
    XC = rows_first(link, coupling_to_body(R, p, C))
    ua, uc = coupling_rows(XC, s)
    K_a, ua, uc = eliminated(K_a, L, ua, uc)
    b_a = plus(b_a, carried_back(L, y, ua, uc))
    if tau is not None:
        T, U = XC[0], XC[1]
        b_a = (along(-tau[i], (T[6], T[7], T[8]), b_a[0]),
               along(-tau[i], (U[6], U[7], U[8]), b_a[1]))
    return coupled(L, za, zc, ua, uc), K_a, b_a, f


@inlined
def swept(links, q, qd, tau, qdd, R_base, p_base, v, a, b, K, work, factor, placed, handle):
    """
    Go outward over bodies in a row, from what is known of the one inside them.

    Parameters
    ----------
    placed : None, or anything else
        Whether the placements are in `work` already; R_base and p_base are then left alone.
    handle : None, or as in `inner_handle`
        Where the bodies inside hang from a force that is not known yet.

    Returns
    -------
    R_base, p_base, v, a, b, K, handle of the last body

    """
    carried = handle
    for i in range(len(q)):
        link, store = links[i], work[i]
        if placed is None:
            R, p, _, _ = placement(link, q[i])
            R_base, p_base = put_placement(R, p, R_base, p_base, store)
        else:
            R, p = matrix_at(store, 0), vector_at(store, 9)
        v, a, zeta, bias = moved(link, R, p, i, qd, qdd, v, a, store)
        G, I_inv = _across(link, R, p, K), inverse_inertia(link)
        Ht = (ZERO, ZERO) if tau is None else along_axis(link, tau[i])
        residual = minus(
            minus(mobility_times(G, Ht), mobility_times(I_inv, bias)),
            plus(motion_to_body(R, p, b), zeta))
        # where nothing reads b, the compiler drops all that leads to it
        K, correction, L, y, za, zc = _joined(link, G, residual)
        b = minus(mobility_times(I_inv, minus(Ht, bias)), correction)
        if factor is not None:
            across = mobility_times(G, along_axis(link, 1.0))
            put(factor[i], 0, L)
            put(factor[i], 21, residual[0] + residual[1])
            put(factor[i], 27, across[0] + across[1])
        if handle is not None:
            C, K_a, b_a, f = inner_handle(link, R, p, tau, i, L, y, za, zc, carried)
            if qdd is not None:
                f = plus(force_to_body(R, p, f), spatial_at(store, 12))
            carried = rows_first(link, C), K_a, b_a, f
    return R_base, p_base, v, a, b, K, carried


@inlined
def at_base(ends, qdd):
    """What is known of the base: R, p, v, a, b and K; without a posture b is its acceleration."""
    gravity = vector_at(ends, 0)
    a = (ZERO, (-gravity[0], -gravity[1], -gravity[2]))
    return ((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), ZERO, (ZERO, ZERO), a,
            (ZERO, ZERO) if qdd is not None else a, (ZERO + ZERO, ZERO + ZERO + ZERO, ZERO + ZERO))


@inlined
def tip_acceleration(tau, qdd, a, b):
    """Acceleration of the last body under τ⁰, from the posture's and the elimination's."""
    if qdd is None:
        return b
    return a if tau is None else plus(a, b)


@inlined
def _outward(links, ends, q, qd, tau, qdd, work, factor, tip):
    R, p, v, a, b, K = at_base(ends, qdd)
    R, p, v, a, b, K, _ = swept(links, q, qd, tau, qdd, R, p, v, a, b, K, work, factor, None, None)
    put_tip(ends, R, p, v, tip_acceleration(tau, qdd, a, b), K, tip)


@inlined
def on_last_body(ends, tip, F):
    """A force at the tip, base axes, as one on the last body, about its origin."""
    # the last body's axes in base axes: the tip's pose less the tip's own rotation
    R = compose((tip[POSE], tip[POSE + 1], tip[POSE + 2], tip[POSE + 4], tip[POSE + 5],
                 tip[POSE + 6], tip[POSE + 8], tip[POSE + 9], tip[POSE + 10]),
                transpose(matrix_at(ends, 3)))
    moment, force = unrotate(R, vector_at(F, 0)), unrotate(R, vector_at(F, 3))
    return add(moment, cross(vector_at(ends, 12), force)), force


@inlined
def inward_from(links, tau, qdd, f, work, out):
    """Joint torques of bodies in a row, f acting on the last of them from outside."""
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
def inward_pass(links, ends, tau, qdd, F, work, tip, out):
    """The body of `inward`."""
    inward_from(links, tau, qdd, on_last_body(ends, tip, F), work, out)


@inlined
def task_force(u, tip, F):
    """F = Λ(u - a⁰), exactly; damped only where rounding is all that there is to invert."""
    scratch = tip[_SCRATCH:]
    A, r = scratch[:36], scratch[72:78]
    for k in range(36):
        A[k] = tip[k]
    for i in range(6):
        F[i] = r[i] = u[i] - tip[A0 + i]
    if not solved(A, F, 6) > EXACT_HIGH:
        applied_pseudo_inverse(tip[:36], r, scratch, F, 6)


@inlined
def fit(links, q, qd, tau, qdd):
    """Whether every joint has its number."""
    n = len(links)
    fits = len(q) == n and len(qd) == n
    if tau is not None:
        fits = fits and len(tau) == n
    if qdd is not None:
        fits = fits and len(qdd) == n
    return fits


@kernel
def outward(links, ends, q, qd, tau, qdd, work, factor, tip):
    """
    Everything that the tip needs to know, from the base outward.

    Parameters
    ----------
    links, ends : from `packed`
    q, qd : (n,)
    tau : (n,) or None
        Joint torques τ⁰ [N·m]; beside a posture acceleration, torques on top of it.
    qdd : (n,) or None
        Posture acceleration [rad/s²]; τ⁰ is then its inverse dynamics.
    work : (n, WORK_WIDTH), written for `inward`
    factor : (n, FACTOR_WIDTH), written for `acceleration_response`
    tip : (TIP_WIDTH,), written: Λ⁻¹, a⁰, pose and twist of the tip in base axes

    Returns
    -------
    DONE, or WRONG_SHAPE (nothing written), or NOT_FINITE

    """
    if not fit(links, q, qd, tau, qdd):
        return WRONG_SHAPE
    _outward(links, ends, q, qd, tau, qdd, work, factor, tip)
    return DONE if all_finite(tip[:FORCE]) else NOT_FINITE


@kernel
def inward(links, ends, tau, qdd, F, work, tip, out):
    """
    Joint torques τ⁰ + JᵀF, from the tip inward, after `outward` with the same tau and qdd.

    Parameters
    ----------
    F : (6,)
        Task force at the tip, base axes, [moment; force] [N·m, N].
    out : (n,), written [N·m]

    """
    inward_pass(links, ends, tau, qdd, F, work, tip, out)


@kernel
def law(links, ends, q, qd, u, tau, qdd, work, tip, out):
    """
    Joint torques τ = τ⁰ + JᵀΛ(u - a⁰): `outward`, the task force and `inward` in one call.

    Parameters
    ----------
    u : (6,)
        Commanded tip acceleration, base axes, [angular; linear] [rad/s², m/s²].
    out : (n,), written [N·m]

    Returns
    -------
    DONE, or WRONG_SHAPE (nothing written), or NOT_FINITE

    """
    if not fit(links, q, qd, tau, qdd) or len(u) != 6 or len(out) != len(links):
        return WRONG_SHAPE
    _outward(links, ends, q, qd, tau, qdd, work, None, tip)
    F = tip[FORCE:FORCE + 6]
    task_force(u, tip, F)
    inward_pass(links, ends, tau, qdd, F, work, tip, out)
    return DONE if all_finite(out) else NOT_FINITE


@kernel
def accelerations(links, ends, q, qd, tau, F, work, factor, tip, qdd):
    """
    Forward dynamics by the constraint-force algorithm.

    Outward the constraint forces are eliminated as in `outward`; inward they are found, joint
    after joint, and with each the acceleration across its joint.

    Parameters
    ----------
    tau : (n,)
        Joint torques [N·m].
    F : (6,)
        Force of the environment on the tip, base axes, [moment; force] [N·m, N].
    work, factor, tip : (n, WORK_WIDTH), (n, FACTOR_WIDTH), (TIP_WIDTH,), overwritten
    qdd : (n,), written [rad/s²]

    """
    _outward(links, ends, q, qd, tau, None, work, factor, tip)
    substituted(links, ends, tau, F, work, factor, tip, qdd)


@inlined
def substituted(links, ends, tau, F, work, factor, tip, qdd):
    """Back substitution: q̈ from the tip inward, from the residuals and factors in `factor`."""
    outer = on_last_body(ends, tip, F)
    for i in range(len(links) - 1, -1, -1):
        link, store = links[i], factor[i]
        gap = plus(spatial_at(store, 21), mobility_times(inverse_inertia(link), outer))
        s, r = np.sqrt(link[ROTOR]), axis_first_pair(link, gap)
        x = factor_solved(factors_at(store, 0), *across_axis(s, minus((ZERO, ZERO), r)))
        constraint = axis_first_pair(link, from_across_axis(s, x))
        across = spatial_at(store, 27)
        qdd[i] = (axis_part(link, gap) + dot(across[0], constraint[0])
                  + dot(across[1], constraint[1]))
        f = force_to_parent(matrix_at(work[i], 0), vector_at(work[i], 9),
                            plus(constraint, along_axis(link, tau[i])))
        # what the joint gives to this body it takes from the one inside
        outer = minus((ZERO, ZERO), f)


@kernel
def acceleration_response(links, ends, tau, F, work, factor, tip, qdd):
    """
    M⁻¹(τ + JᵀF) from the factors that `outward` left: forward and back substitution.

    Parameters
    ----------
    tau : (n,)
        Joint torques [N·m].
    F : (6,)
        Force on the tip, base axes, [moment; force] [N·m, N].
    work, tip : as `outward` left them
    factor : (n, FACTOR_WIDTH)
        As `outward` left it; its residuals are overwritten.
    qdd : (n,), written [rad/s²]

    """
    responded(links, ends, tau, F, work, factor, tip, qdd)


@inlined
def responded(links, ends, tau, F, work, factor, tip, qdd):
    """The body of `acceleration_response`."""
    b = (ZERO, ZERO)
    for i in range(len(links)):
        link, store = links[i], factor[i]
        across = spatial_at(store, 27)
        inside = motion_to_body(matrix_at(work[i], 0), vector_at(work[i], 9), b)
        residual = (along(tau[i], across[0], (-inside[0][0], -inside[0][1], -inside[0][2])),
                    along(tau[i], across[1], (-inside[1][0], -inside[1][1], -inside[1][2])))
        put(store, 21, residual[0] + residual[1])
        s = np.sqrt(link[ROTOR])
        x = factor_solved(factors_at(store, 0),
                          *across_axis(s, axis_first_pair(link, residual)))
        constraint = axis_first_pair(link, from_across_axis(s, x))
        b = mobility_times(inverse_inertia(link), minus(along_axis(link, tau[i]), constraint))
    substituted(links, ends, tau, F, work, factor, tip, qdd)


@kernel
def inverse_mass_matrix(links, ends, work, factor, tip, unit, M_inv):
    """
    M⁻¹ from the factors that `outward` left, symmetric to the last bit.

    Parameters
    ----------
    work, tip : as `outward` left them
    factor : (n, FACTOR_WIDTH)
        As `outward` left it; its residuals are overwritten.
    unit : (n,), overwritten
    M_inv : (n, n), written

    """
    n, no_force = len(links), tip[_SCRATCH:_SCRATCH + 6]
    for k in range(6):
        no_force[k] = 0.0
    for i in range(n):
        unit[i] = 0.0
    for i in range(n):
        unit[i] = 1.0
        responded(links, ends, unit, no_force, work, factor, tip, M_inv[i])
        unit[i] = 0.0
        for j in range(i):
            M_inv[i, j] = M_inv[j, i] = 0.5 * (M_inv[i, j] + M_inv[j, i])


@inlined
def _jacobian(links, work, tip, J):
    R, p = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), ZERO
    p_tip = (tip[POSE + 3], tip[POSE + 7], tip[POSE + 11])
    for i in range(len(work)):
        p = add(p, rotate(R, vector_at(work[i], 9)))
        R = compose(R, matrix_at(work[i], 0))
        z = (R[2], R[5], R[8])
        angular, linear = (ZERO, z) if links[i, PRISMATIC] else (z, cross(z, sub(p_tip, p)))
        for k in range(3):
            J[k, i], J[k + 3, i] = angular[k], linear[k]


@kernel
def jacobian(links, work, tip, J):
    """
    Natural Jacobian of the tip, base axes, [angular; linear], after `outward`.

    Parameters
    ----------
    J : (6, n), written

    """
    _jacobian(links, work, tip, J)


@released
def evaluations(links, ends, q, qd, rest, F, work, tip, poses, twists, J, Jdot_qd, h, Lambda_inv,
                Lambda):
    """
    The terms of the law at k states, one after the other.

    Parameters
    ----------
    q, qd : (k, n)
    rest, F : (n,), (6,)
        Zeros.
    work, tip : (n, WORK_WIDTH), (TIP_WIDTH,), overwritten
    poses, twists, J, Jdot_qd, h, Lambda_inv, Lambda : written
        (k, 4, 4), (k, 6), (k, 6, n), (k, 6), (k, n), (k, 6, 6), (k, 6, 6).

    """
    for k in range(len(q)):
        _outward(links, ends, q[k], qd[k], None, rest, work, None, tip)
        for i in range(4):
            for j in range(4):
                poses[k, i, j] = tip[POSE + 4 * i + j]
        for i in range(6):
            twists[k, i], Jdot_qd[k, i] = tip[TWIST + i], tip[A0 + i]
            for j in range(6):
                Lambda_inv[k, i, j] = tip[6 * i + j]
        pseudo_inverse(tip[:A0], tip[_SCRATCH:], Lambda[k], 6)
        _jacobian(links, work, tip, J[k])
        inward_pass(links, ends, None, rest, F, work, tip, h[k])


class Sweep(Method):
    """
    The kernels on one robot, with the memory that they work in.

    Not to be shared between threads. `Lambda_inv` (6, 6), `a0` (6,), `pose` (4, 4) and `twist`
    (6,) are views of what the last `outward` found, in base axes, [angular; linear].
    `gravity` (3,) may be written to.

    """

    def __init__(self, robot: Robot) -> None:
        compile_kernels()
        self.robot = robot
        self._links, self._ends = packed(robot)
        self._weightless = self._ends.copy()
        self._weightless[:3] = 0.0
        self.gravity: Array = self._ends[:3]
        self._work = np.zeros((robot.n, WORK_WIDTH))
        self.factored = np.zeros((robot.n, FACTOR_WIDTH))
        self._tip = np.zeros(TIP_WIDTH)
        self._rest, self._unit = np.zeros(robot.n), np.zeros(robot.n)
        self.Lambda_inv: Array = self._tip[:A0].reshape(6, 6)
        self.a0: Array = self._tip[A0:POSE]
        self.pose: Array = self._tip[POSE:TWIST].reshape(4, 4)
        self.twist: Array = self._tip[TWIST:FORCE]

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        """Arrays of the kernels of this module: links, ends, work, factor and tip."""
        return self._links, self._ends, self._work, self.factored, self._tip

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Joint torques of the law into out; DONE, WRONG_SHAPE or NOT_FINITE."""
        return int(law(self._links, self._ends, q, qd, u, tau, qdd, self._work, self._tip, out))

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Λ⁻¹, a⁰, pose and twist under τ⁰; DONE, WRONG_SHAPE or NOT_FINITE."""
        self._tau, self._qdd = tau, qdd
        return int(outward(self._links, self._ends, q, qd, tau, qdd, self._work, self.factored,
                           self._tip))

    def inward(self, F: Array, out: Array) -> None:
        """Joint torques τ⁰ + JᵀF into out, for the τ⁰ of the last `outward`."""
        inward(self._links, self._ends, self._tau, self._qdd, F, self._work, self._tip, out)

    def jacobian(self, out: Array) -> None:
        """J (6, n) at the last `outward`, into out."""
        jacobian(self._links, self._work, self._tip, out)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """M⁻¹(τ + JᵀF) (n,) at the last `outward`, into out [rad/s²]."""
        acceleration_response(self._links, self._ends, tau, F, self._work, self.factored,
                              self._tip, out)

    def inverse_mass_matrix(self, out: Array) -> None:
        """M⁻¹ (n, n) at the last `outward`, into out."""
        inverse_mass_matrix(self._links, self._ends, self._work, self.factored, self._tip,
                            self._unit, out)

    def evaluate_batch(self, q: Array, qd: Array) -> Terms:
        """Terms at k states, q and qd (k, n), on all cores."""
        found = Terms.empty(self.robot, len(q))

        def part(first: int, last: int) -> None:
            evaluations(self._links, self._ends, q[first:last], qd[first:last], self._rest,
                        np.zeros(6), np.empty_like(self._work), np.empty_like(self._tip),
                        *(values[first:last] for values in found))

        on_all_cores(len(q), part)
        return found

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques and a force on the tip."""
        qdd = np.empty(self.robot.n)
        accelerations(self._links, self._ends, q, qd, tau, F, self._work, self.factored,
                      self._tip, qdd)
        return qdd

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""
        qdd = np.empty(self.robot.n)
        accelerations(self._links, self._weightless, q, self._rest, x, np.zeros(6), self._work,
                      self.factored, self._tip, qdd)
        return qdd


@cache
def compile_kernels() -> None:
    """Compile or load every kernel for every use, once a process, and let no other one in."""
    links, ends = np.ones((1, LINK_WIDTH)), np.ones(ENDS_WIDTH)
    work, factor, tip = np.ones((1, WORK_WIDTH)), np.ones((1, FACTOR_WIDTH)), np.ones(TIP_WIDTH)
    x, F, J = np.ones(1), np.ones(6), np.ones((6, 1))
    for tau, qdd in ((None, None), (x, None), (None, x), (x, x)):
        law(links, ends, x, x, F, tau, qdd, work, tip, x)
        outward(links, ends, x, x, tau, qdd, work, factor, tip)
        inward(links, ends, tau, qdd, F, work, tip, x)
    accelerations(links, ends, x, x, x, F, work, factor, tip, x)
    acceleration_response(links, ends, x, F, work, factor, tip, x)
    inverse_mass_matrix(links, ends, work, factor, tip, x, np.ones((1, 1)))
    jacobian(links, work, tip, J)
    X, Y, Z, poses = np.ones((1, 1)), np.ones((1, 6)), np.ones((1, 6, 6)), np.ones((1, 4, 4))
    evaluations(links, ends, X, X, x, F, work, tip, poses, Y, Z[:, :, :1].copy(), Y, X, Z, Z)
    for one in (law, outward, inward, accelerations, acceleration_response,
                inverse_mass_matrix, jacobian, evaluations):
        one.disable_compile()
