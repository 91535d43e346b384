# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The outward and the inward pass of the sweep over a plain chain, and the kernels made of them.

The outward pass eliminates the constraint forces of one joint after another (the Schur complement
of paper 000, eqs. 39-46, block by block). After body i it has

    K  inverse operational-space inertia of the chain cut after body i, at its origin
    b  acceleration of body i under the joint torques τ⁰, if the next body exerts no force on it

so the tip's K is Λ⁻¹ and its acceleration is a⁰ = J M⁻¹(τ⁰ - h) + J̇q̇, and the law is
F = Λ(u - a⁰), τ = τ⁰ + JᵀF. With a posture acceleration q̈_p and added torques τ_a,
τ⁰ = M q̈_p + h + τ_a. Then the acceleration by q̈_p follows from kinematics alone, and b is only
the acceleration by τ_a.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import ahead, inlined, kernel, lock
from osc_ros.dynamics.algebra.spatial import (
    add_matrix,
    add_mobility,
    add_outer,
    all_finite,
    along,
    compose,
    cross_rows,
    dot,
    force_to_body,
    force_to_parent,
    linear_first,
    matrix_at,
    minus,
    mobility_at,
    mobility_shifted,
    mobility_times,
    mobility_unrotated,
    motion_to_body,
    plus,
    put,
    put_mobility,
    rank_one_downdate,
    spatial_at,
    transpose,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.algebra.task_inertia import replace_singular, solve_in_place
from osc_ros.dynamics.chain.chain_bodies import (
    A0,
    along_axis,
    at_base,
    axis_part,
    body_motion,
    empty_chain,
    factors_at,
    FORCE,
    force_on_last_body,
    HOLD,
    inverse_inertia,
    inward_sweep,
    is_prismatic,
    Joints,
    parts_of,
    placement,
    put_jacobian,
    put_motion_torques,
    put_placement,
    put_tip,
    RESIDUAL,
    ROTOR,
    SCRATCH,
    tip_acceleration,
    value_at,
)
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE, WRONG_SHAPE


@inlined
def ldl_factors(G, s):
    """Factors L D Lᵀ of W̃ᵀ G W̃ + diag(0,0,0,0,0,1); the joint axis is row and column 2 of G."""
    # Returns the 15 elements of L below the diagonal, column by column, then the six of D⁻¹. Order
    # of elimination: linear x y z, angular x y, then the joint axis times s = √d.
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
def forward_substitution(L, r0, r1, r2, r3, r4, r5):
    """L⁻¹ r for the numbers r0 to r5 of r; L is a result of `ldl_factors`."""
    r1 = r1 - L[0] * r0
    r2 = r2 - L[1] * r0 - L[5] * r1
    r3 = r3 - L[2] * r0 - L[6] * r1 - L[9] * r2
    r4 = r4 - L[3] * r0 - L[7] * r1 - L[10] * r2 - L[12] * r3
    r5 = r5 - L[4] * r0 - L[8] * r1 - L[11] * r2 - L[13] * r3 - L[14] * r4
    return r0, r1, r2, r3, r4, r5


@inlined
def ldl_solution(L, r0, r1, r2, r3, r4, r5):
    """(L D Lᵀ)⁻¹ r for the numbers r0 to r5 of r; L is a result of `ldl_factors`."""
    r0, r1, r2, r3, r4, r5 = forward_substitution(L, r0, r1, r2, r3, r4, r5)
    r5 = L[20] * r5
    r4 = L[19] * r4 - L[14] * r5
    r3 = L[18] * r3 - L[12] * r4 - L[13] * r5
    r2 = L[17] * r2 - L[9] * r3 - L[10] * r4 - L[11] * r5
    r1 = L[16] * r1 - L[5] * r2 - L[6] * r3 - L[7] * r4 - L[8] * r5
    r0 = L[15] * r0 - L[0] * r1 - L[1] * r2 - L[2] * r3 - L[3] * r4 - L[4] * r5
    return r0, r1, r2, r3, r4, r5


@inlined
def across_rows(G, s):
    """The six rows of W̃ᵀ G, in the order of `ldl_factors`: their columns 0-2, and columns 3-5."""
    A, B, C = G
    return (((B[0], B[3], B[6]), (B[1], B[4], B[7]), (B[2], B[5], B[8]),
             (A[0], A[1], A[2]), (A[1], A[3], A[4]), (s * A[2], s * A[4], s * A[5])),
            ((C[0], C[1], C[2]), (C[1], C[3], C[4]), (C[2], C[4], C[5]),
             (B[0], B[1], B[2]), (B[3], B[4], B[5]), (s * B[6], s * B[7], s * B[8])))


@inlined
def schur_complement(G, L, a, c):
    """Return G - ZᵀD⁻¹Z, where Z = L⁻¹ [a, c], and the six rows of Z."""
    # [a, c] has six rows: a columns 0-2, c columns 3-5. L, with D⁻¹: of `ldl_factors`. For [a, c]
    # = W̃ᵀ I⁻¹ and G = I⁻¹ the result is K of the body after it was joined to the chain inside it.
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
    K = rank_one_downdate(G, L[15], a0, c0)
    K = rank_one_downdate(K, L[16], a1, c1)
    K = rank_one_downdate(K, L[17], a2, c2)
    K = rank_one_downdate(K, L[18], a3, c3)
    K = rank_one_downdate(K, L[19], a4, c4)
    K = rank_one_downdate(K, L[20], a5, c5)
    return K, (a0, a1, a2, a3, a4, a5), (c0, c1, c2, c3, c4, c5)


@inlined
def back_projection(L, y, za, zc):
    """Zᵀ D⁻¹ y for six numbers y, with the factors L and the rows [za, zc] of Z."""
    # no loop: in lanes, the first rows are of type number, the others of type lanes
    f = _added_row(L[15] * y[0], za[0], zc[0], (ZERO, ZERO))
    f = _added_row(L[16] * y[1], za[1], zc[1], f)
    f = _added_row(L[17] * y[2], za[2], zc[2], f)
    f = _added_row(L[18] * y[3], za[3], zc[3], f)
    f = _added_row(L[19] * y[4], za[4], zc[4], f)
    return _added_row(L[20] * y[5], za[5], zc[5], f)


@inlined
def _added_row(w, a, c, f):
    return along(w, a, f[0]), along(w, c, f[1])


@inlined
def axis_first(link, G):
    """Exchange angular and linear parts of the mobility G if the joint is prismatic."""
    return linear_first(G) if is_prismatic(link) else G


@inlined
def axis_first_pair(link, f):
    """Exchange angular and linear parts of the vector f if the joint is prismatic."""
    return (f[1], f[0]) if is_prismatic(link) else f


@inlined
def across_axis(s, z):
    """W̃ᵀ z (6 numbers, in the order of `ldl_factors`), for z in the order 'axis first'."""
    return z[1] + (z[0][0], z[0][1], s * z[0][2])


@inlined
def from_across_axis(s, x):
    """W̃ x in the order 'axis first', for x with 6 numbers in the order of `ldl_factors`."""
    return (x[3], x[4], s * x[5]), (x[0], x[1], x[2])


@inlined
def joint_elimination(link, G, z):
    """Eliminate the constraint force of a joint; G is the mobility, z the residual across it."""
    # Returns K of the body, the acceleration due to z, and the factors L, L⁻¹ W̃ᵀ z, and columns
    # 0-2 and 3-5 of the six rows of Z (see `schur_complement`).
    s = np.sqrt(link[ROTOR])
    I_inv = axis_first(link, inverse_inertia(link))
    z = axis_first_pair(link, z)
    L = ldl_factors(axis_first(link, G), s)
    a, c = across_rows(I_inv, s)
    K, za, zc = schur_complement(I_inv, L, a, c)
    y = forward_substitution(L, *across_axis(s, z))
    correction = axis_first_pair(link, back_projection(L, y, za, zc))
    return axis_first(link, K), correction, (L, y, za, zc)


@inlined
def joint_hold(link, L):
    """-W̃ (L D Lᵀ)⁻¹ W̃ᵀ, which maps a gap of accelerations at a joint to its constraint force."""
    none, empty = ZERO + ZERO, ZERO + ZERO + ZERO
    s = np.sqrt(link[ROTOR])
    x, y, z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
    hold, _, _ = schur_complement((none, empty, none), L, (
        ZERO, ZERO, ZERO, x, y, (0.0, 0.0, s)), (x, y, z, ZERO, ZERO, ZERO))
    return axis_first(link, hold)


@inlined
def coupling_to_body(placed, C):
    """X C: the coupling C (force to motion), its motions transformed to the body's frame."""
    R, p = placed
    R_t = transpose(R)
    return (compose(R_t, C[0]), compose(R_t, C[1]),
            compose(R_t, add_matrix(C[2], transpose(cross_rows(transpose(C[0]), p)))),
            compose(R_t, add_matrix(C[3], transpose(cross_rows(transpose(C[1]), p)))))


@inlined
def rows_first(link, C):
    """Exchange the upper and lower rows of the coupling C if the joint is prismatic."""
    return (C[2], C[3], C[0], C[1]) if is_prismatic(link) else C


@inlined
def coupling_rows(C, s):
    """The six rows of W̃ᵀ C, in the order of `ldl_factors`: their columns 0-2, and columns 3-5."""
    T, U, V, W = C
    return (((V[0], V[1], V[2]), (V[3], V[4], V[5]), (V[6], V[7], V[8]),
             (T[0], T[1], T[2]), (T[3], T[4], T[5]), (s * T[6], s * T[7], s * T[8])),
            ((W[0], W[1], W[2]), (W[3], W[4], W[5]), (W[6], W[7], W[8]),
             (U[0], U[1], U[2]), (U[3], U[4], U[5]), (s * U[6], s * U[7], s * U[8])))


@inlined
def coupling_product(L, za, zc, ua, uc):
    """Zᵀ D⁻¹ U as four 3 × 3 blocks, for the rows [za, zc] of Z and [ua, uc] of U."""
    # no loop, as in `back_projection`
    empty = ZERO + ZERO + ZERO
    C = _added_product(L[15], za[0], zc[0], ua[0], uc[0], (empty, empty, empty, empty))
    C = _added_product(L[16], za[1], zc[1], ua[1], uc[1], C)
    C = _added_product(L[17], za[2], zc[2], ua[2], uc[2], C)
    C = _added_product(L[18], za[3], zc[3], ua[3], uc[3], C)
    C = _added_product(L[19], za[4], zc[4], ua[4], uc[4], C)
    return _added_product(L[20], za[5], zc[5], ua[5], uc[5], C)


@inlined
def _added_product(w, za, zc, ua, uc, C):
    a, c = (w * za[0], w * za[1], w * za[2]), (w * zc[0], w * zc[1], w * zc[2])
    return (add_outer(a, ua, C[0]), add_outer(a, uc, C[1]),
            add_outer(c, ua, C[2]), add_outer(c, uc, C[3]))


@inlined
def inner_handle(link, placed, tau, i, factors, handle):
    """Eliminate one more joint from the response of the chain to a force on its first body."""
    # `handle` is (C, K_a, b_a, f): C maps the force to the acceleration of the last body (returned
    # in the order of `rows_first`), K_a to that of the first; b_a is the latter without it; f is
    # the sum of the Newton-Euler forces, as one force on the last body, returned unchanged.
    L, y, za, zc = factors
    C, K_a, b_a, f = handle
    s = np.sqrt(link[ROTOR])
    XC = rows_first(link, coupling_to_body(placed, C))
    ua, uc = coupling_rows(XC, s)
    K_a, ua, uc = schur_complement(K_a, L, ua, uc)
    b_a = plus(b_a, back_projection(L, y, ua, uc))
    if tau is not None:
        T, U = XC[0], XC[1]
        b_a = (along(-tau[i], (T[6], T[7], T[8]), b_a[0]),
               along(-tau[i], (U[6], U[7], U[8]), b_a[1]))
    return coupling_product(L, za, zc, ua, uc), K_a, b_a, f


@inlined
def outward_sweep(links, joints, inside, work, factor, placed, handle):
    """Go outward over bodies; return R, p, v, a, b and K of the last one, and its handle."""
    # `inside`: results of the body before them. `placed`: None, or True if the placements are in
    # `work`; then R and p in the base are returned unchanged. `handle`: None, or that of
    # `inner_handle` if an unknown force acts on the first of the bodies.
    R_base, p_base, v, a, b, K = inside
    tau, qd, qdd, carried = joints.tau, joints.qd, joints.qdd, handle
    for i in range(len(qd)):
        link, store = links[i], work[i]
        if placed is None:
            R, p, _, _ = placement(link, joints.q[i])
            R_base, p_base = put_placement(R, p, R_base, p_base, store)
        else:
            R, p = matrix_at(store, 0), vector_at(store, 9)
        v, a, zeta, bias = body_motion(link, (R, p), i, qd, qdd, v, a, store)
        I_inv = inverse_inertia(link)
        # mobility between the two sides of the joint, I⁻¹ + X K Xᵀ
        G = add_mobility(I_inv, mobility_unrotated(R, mobility_shifted(p, K)))
        Ht = along_axis(link, value_at(tau, i))
        residual = minus(
            minus(mobility_times(G, Ht), mobility_times(I_inv, bias)),
            plus(motion_to_body(R, p, b), zeta))
        # if b is not read, the compiler removes its whole computation
        K, correction, factors = joint_elimination(link, G, residual)
        b = minus(mobility_times(I_inv, minus(Ht, bias)), correction)
        if factor is not None:
            across = mobility_times(G, along_axis(link, 1.0))
            put(factor[i], 0, factors[0])
            put(factor[i], 27, across[0] + across[1])
            if qdd is None:  # with a posture, forward dynamics does not follow
                put(factor[i], RESIDUAL, residual[0] + residual[1])
        if handle is not None:
            C, K_a, b_a, f = inner_handle(link, (R, p), tau, i, factors, carried)
            if qdd is not None:
                f = plus(force_to_body(R, p, f), spatial_at(store, 12))
            carried = rows_first(link, C), K_a, b_a, f
    return (R_base, p_base, v, a, b, K), carried


@inlined
def outward_pass(at, joints, factor):
    """Write the results of the tip, see `outward`; `at` is the `Parts`, `factor` may be None."""
    (R, p, v, a, b, K), _ = outward_sweep(at.links, joints, at_base(at.ends, joints.qdd), at.work,
                                          factor, None, None)
    put_tip(at.ends, (R, p, v, tip_acceleration(joints.tau, joints.qdd, a, b), K), at.tip)


@inlined
def inward_pass(at, joints, F, out):
    """Write τ⁰ + JᵀF to `out`; see `inward`."""
    inward_sweep(at.links, joints.tau, joints.qdd, force_on_last_body(at, F), at.work, out)


@inlined
def task_force(u, tip, F):
    """Write F = Λ(u - a⁰), with the pseudo-inverse if Λ⁻¹ is singular to working precision."""
    scratch = tip[SCRATCH:]
    A, r = scratch[:36], scratch[72:78]
    for k in range(36):
        A[k] = tip[k]
    for i in range(6):
        F[i] = r[i] = u[i] - tip[A0 + i]
    replace_singular(solve_in_place(A, F, 6), tip[:36], r, scratch, F, 6)


@inlined
def put_force_and_torques(at, joints, u, out):
    """Write F = Λ(u - a⁰) to `at.tip`, and τ⁰ + JᵀF to out (n,), after an outward pass."""
    F = at.tip[FORCE:FORCE + 6]
    task_force(u, at.tip, F)
    inward_pass(at, joints, F, out)


@inlined
def shapes_fit(links, q, qd, tau, qdd):
    """Whether q, qd, tau and qdd have an entry for every joint."""
    n = len(links)
    fits = len(q) == n and len(qd) == n
    if tau is not None:
        fits = fits and len(tau) == n
    if qdd is not None:
        fits = fits and len(qdd) == n
    return fits


@inlined
def back_substitution(at, tau, F, qdd):
    """Write q̈ (n,), from the tip inward, by back substitution with the rows of `at.factor`."""
    outer = force_on_last_body(at, F)
    for i in range(len(at.links) - 1, -1, -1):
        link, store = at.links[i], at.factor[i]
        gap = plus(spatial_at(store, RESIDUAL), mobility_times(inverse_inertia(link), outer))
        s, r = np.sqrt(link[ROTOR]), axis_first_pair(link, gap)
        x = ldl_solution(factors_at(store, 0), *across_axis(s, minus((ZERO, ZERO), r)))
        constraint = axis_first_pair(link, from_across_axis(s, x))
        across = spatial_at(store, 27)
        qdd[i] = (axis_part(link, gap) + dot(across[0], constraint[0])
                  + dot(across[1], constraint[1]))
        f = force_to_parent(matrix_at(at.work[i], 0), vector_at(at.work[i], 9),
                            plus(constraint, along_axis(link, tau[i])))
        # the force through the joint acts on this body, and with opposite sign on its parent
        outer = minus((ZERO, ZERO), f)


@kernel
def acceleration_response(chain, tau, F, qdd):
    """Write M⁻¹(τ + JᵀF) to qdd (n,) [rad/s²], from the factors of the last `outward`."""
    # By forward and back substitution; overwrites the residuals in `factor`. F (6,): force on the
    # tip, base axes, [moment; force] [N·m, N].
    at, b, first = parts_of(chain), (ZERO, ZERO), 0
    while first < len(tau) and tau[first] == 0.0:  # most often all torques are 0
        first += 1
    for i in range(first):
        put(at.factor[i], RESIDUAL, ZERO + ZERO)
    for i in range(first, len(at.links)):
        link, store = at.links[i], at.factor[i]
        across = spatial_at(store, 27)
        inside = motion_to_body(matrix_at(at.work[i], 0), vector_at(at.work[i], 9), b)
        residual = (along(tau[i], across[0], (-inside[0][0], -inside[0][1], -inside[0][2])),
                    along(tau[i], across[1], (-inside[1][0], -inside[1][1], -inside[1][2])))
        put(store, RESIDUAL, residual[0] + residual[1])
        s = np.sqrt(link[ROTOR])
        x = ldl_solution(factors_at(store, 0),
                          *across_axis(s, axis_first_pair(link, residual)))
        constraint = axis_first_pair(link, from_across_axis(s, x))
        b = mobility_times(inverse_inertia(link), minus(along_axis(link, tau[i]), constraint))
    back_substitution(at, tau, F, qdd)


@kernel
def outward(chain, q, qd, tau, qdd):
    """Write Λ⁻¹, a⁰, pose and twist of the tip to the flat array `chain` (`chain_bodies`)."""
    # tau: τ⁰ (n,) [N·m] or None. qdd: posture acceleration (n,) [rad/s²] or None; with it τ⁰ is
    # its inverse dynamics plus tau. Returns DONE, WRONG_SHAPE (nothing written) or NOT_FINITE.
    at = parts_of(chain)
    if not shapes_fit(at.links, q, qd, tau, qdd):
        return WRONG_SHAPE
    outward_pass(at, Joints(q, qd, tau, qdd), at.factor)
    return DONE if all_finite(at.tip[:FORCE]) else NOT_FINITE


@kernel
def inward(chain, tau, qdd, F, out):
    """Write τ⁰ + JᵀF to out (n,) [N·m], after `outward` with the same tau and qdd."""
    # F (6,): task force at the tip, base axes, [moment; force] [N·m, N].
    inward_pass(parts_of(chain), Joints(None, None, tau, qdd), F, out)


@kernel
def law(chain, q, qd, u, tau, qdd, out):
    """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,) [N·m] in one call; return the status of `outward`."""
    # u (6,): commanded tip acceleration, base axes, [angular; linear] [rad/s², m/s²].
    at, joints = parts_of(chain), Joints(q, qd, tau, qdd)
    if not shapes_fit(at.links, q, qd, tau, qdd) or len(u) != 6 or len(out) != len(at.links):
        return WRONG_SHAPE
    outward_pass(at, joints, None)
    put_force_and_torques(at, joints, u, out)
    return DONE if all_finite(out) else NOT_FINITE


@kernel
def accelerations(chain, q, qd, tau, F, qdd):
    """Write q̈ (n,) [rad/s²] under torques and a tip force, by the constraint-force algorithm."""
    # The outward pass eliminates the constraint forces as in `outward`; the inward pass computes
    # them, with the joint accelerations. Overwrites all memory. F (6,): force of the environment
    # on the tip, base axes, [moment; force] [N·m, N].
    at = parts_of(chain)
    outward_pass(at, Joints(q, qd, tau, None), at.factor)
    back_substitution(at, tau, F, qdd)


@kernel
def inverse_dynamics(chain, q, qd, qdd, out):
    """Write joint torques M q̈ + h to out (n,) [N·m]; overwrites placements and residuals."""
    at = parts_of(chain)
    for i in range(len(at.links)):
        R, p, _, _ = placement(at.links[i], q[i])
        put(at.work[i], 0, R + p)
    put_motion_torques(at, qd, qdd, out)


@inlined
def put_inverse_row(at, i, row):
    """Write the entries from i of row i of M⁻¹, with HOLD: q̈ under a unit torque of joint i."""
    b, outer = (ZERO, ZERO), (ZERO, ZERO)
    for j in range(i, len(row)):
        link, store = at.links[j], at.factor[j]
        gap, force = spatial_at(store, 27), along_axis(link, 1.0)
        if j > i:
            inside = motion_to_body(matrix_at(at.work[j], 0), vector_at(at.work[j], 9), b)
            gap, force = minus((ZERO, ZERO), inside), (ZERO, ZERO)
        put(store, RESIDUAL, gap[0] + gap[1])
        force = plus(force, mobility_times(mobility_at(store, HOLD), gap))
        b = mobility_times(inverse_inertia(link), force)
    for j in range(len(row) - 1, i - 1, -1):
        link, store = at.links[j], at.factor[j]
        gap = plus(spatial_at(store, RESIDUAL), mobility_times(inverse_inertia(link), outer))
        constraint, across = mobility_times(mobility_at(store, HOLD), gap), spatial_at(store, 27)
        row[j] = (axis_part(link, gap) + dot(across[0], constraint[0])
                  + dot(across[1], constraint[1]))
        f = force_to_parent(matrix_at(at.work[j], 0), vector_at(at.work[j], 9), constraint)
        outer = minus((ZERO, ZERO), f)


@kernel
def inverse_mass_matrix(chain, M_inv):
    """Write M⁻¹ (n, n), exactly symmetric, from the factors of the last `outward`."""
    # Overwrites the residuals and HOLD in `factor`.
    at = parts_of(chain)
    n = len(at.links)
    for i in range(n):
        put_mobility(at.factor[i], HOLD, joint_hold(at.links[i], factors_at(at.factor[i], 0)))
    for i in range(n):
        put_inverse_row(at, i, M_inv[i])
        for j in range(i + 1, n):
            M_inv[j, i] = M_inv[i, j]


@kernel
def jacobian(chain, J):
    """Write the Jacobian J (6, n) of the tip, base axes, [angular; linear], after `outward`."""
    links, _, work, _, tip = parts_of(chain)
    put_jacobian(links, work, tip, J)


@ahead
def compile_kernels() -> None:
    """Compile or load the kernels once per process; other argument types then raise TypeError."""
    chain, _ = empty_chain(1)
    chain[:] = 1.0
    x, F, J = np.ones(1), np.ones(6), np.ones((6, 1))
    for tau, qdd in ((None, None), (x, None), (None, x), (x, x)):
        law(chain, x, x, F, tau, qdd, x)
        outward(chain, x, x, tau, qdd)
        inward(chain, tau, qdd, F, x)
    accelerations(chain, x, x, x, F, x.copy())
    inverse_dynamics(chain, x, x, x, x.copy())
    acceleration_response(chain, x, F, x.copy())
    inverse_mass_matrix(chain, np.ones((1, 1)))
    jacobian(chain, J)
    for one in (law, outward, inward, accelerations, inverse_dynamics, acceleration_response,
                inverse_mass_matrix, jacobian):
        lock(one)
