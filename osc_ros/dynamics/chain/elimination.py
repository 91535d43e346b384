# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Elimination of the constraint force of one joint of a plain chain, compiled.

'Inside' means towards the base. H is the joint axis, +z of the body, and W (6 × 5) the other five
directions. The rotor inertia d adds a column: W̃ = [W, √d H] (6 × 6). The kernels factor
W̃ᵀ G W̃ + diag(0,0,0,0,0,1) = L D Lᵀ, where G is the mobility between the two sides of the joint.
In the order 'axis first' the half of a spatial vector that contains the joint axis comes first
(angular for a revolute joint, linear for a prismatic joint), so that one code serves both types of
joint. K is the mobility of the body inside the joint, C the coupling of that body to an unknown
force farther inside.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.dynamics.algebra.spatial import (
    add_matrix,
    add_outer,
    along,
    compose,
    cross_rows,
    linear_first,
    plus,
    rank_one_downdate,
    transpose,
    ZERO,
)
from osc_ros.dynamics.chain.chain_bodies import inverse_inertia, is_prismatic, ROTOR


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
    """Update the response to an unknown force on the first body, after one more elimination."""
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
