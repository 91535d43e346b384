# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Block cyclic reduction of the papers' matrix over segments of a chain, compiled.

The constraint forces solve 𝒜 F_S = -r (paper 000, eqs. 39-55; `papers/schur.py` uses the paper's
symbols; `ldl.py` packs the blocks). The tip's Λ⁻¹ and a⁰ need only the last block. So
every other block can be eliminated in parallel, then every other one of the remaining blocks, and
so on: ⌈log₂ n⌉ levels. With few processors (papers 001, 004) each reduces the joints of its own
segment, level by level, to the last joint; the tree of joins in `reduced_segments.py` then reduces
these joints.

Elimination of block j = L D Lᵀ, with its neighbours i inward and k outward, and the blocks U above
the diagonal:

    Z = L⁻¹ Uᵢⱼᵀ      Y = L⁻¹ Uⱼₖ      y = L⁻¹ rⱼ
    Aᵢᵢ - ZᵀD⁻¹Z      Uᵢₖ = -ZᵀD⁻¹Y    Aₖₖ - YᵀD⁻¹Y
    rᵢ - ZᵀD⁻¹y                        rₖ - YᵀD⁻¹y

The block inward of a segment's first joint belongs to another segment: its update is stored, and
added when the two segments are joined. Besides this a segment needs only the data of the link
inward of its first joint.

Blocks are six wide, axis first, the row of the axis times √d, as in `ldl.py`. The 1 of a rotor is
added by `elimination.ldl_factors`; where there is no rotor, the sixth row is zero.
"""

from __future__ import annotations

from osc_ros.dynamics.chain.bodies import (
    along_axis,
    body_motion,
    inverse_inertia,
    momentum,
    placement,
)
from osc_ros.dynamics.chain.elimination import (
    across_axis,
    axis_first,
    axis_first_pair,
    back_projection,
    coupling_product,
    coupling_rows,
    forward_substitution,
    ldl_factors,
    schur_complement,
)
from osc_ros.dynamics.chain.layout import ROTOR
from osc_ros.dynamics.chain.ldl import block_at, through_joint, vector_through_joint
from osc_ros.dynamics.compiled import inlined
from osc_ros.dynamics.spatial import (
    add_mobility,
    along,
    coupling_at,
    coupling_transposed,
    force_cross,
    force_to_body,
    matrix_at,
    minus,
    mobility_at,
    mobility_times,
    motion_to_body,
    plus,
    put,
    put_coupling,
    put_mobility,
    spatial_at,
    vector_at,
    ZERO,
)

# Columns of `rows`, one row per joint: its diagonal block, its residual r, and the block that
# couples it to the next remaining joint towards the base.
BLOCK, RESIDUAL, COUPLING = 0, 21, 27
ROW_WIDTH = 63


@inlined
def _to_outer(L, y, U, A, r):
    """
    Eliminate a block: return A and r of its outer neighbour, updated, and the rows za, zc of Z.

    L and y are the factors and the solved right-hand side of the eliminated block. U couples it
    to the neighbour; for the inner neighbour pass Uᵀ.

    """
    a, c = coupling_rows(U, 1.0)
    A, za, zc = schur_complement(A, L, a, c)
    return A, minus(r, back_projection(L, y, za, zc)), za, zc


@inlined
def eliminate_between(A, r, inner, U_inner, outer, U_outer):
    """
    Eliminate a block between two others; return what remains of the two.

    Parameters
    ----------
    A, r : the block, and its right-hand side
    inner, outer : (A, r) of its neighbours
    U_inner, U_outer : couplings of the inner neighbour to the block, of the block to the outer one

    Returns
    -------
    inner, outer, and the coupling between the two

    """
    L = ldl_factors(A, 1.0)
    y = forward_substitution(L, *across_axis(1.0, r))
    A_outer, r_outer, za, zc = _to_outer(L, y, U_outer, outer[0], outer[1])
    A_inner, r_inner, ua, uc = _to_outer(L, y, coupling_transposed(U_inner), inner[0], inner[1])
    U = coupling_product(L, ua, uc, za, zc)
    return (A_inner, r_inner), (A_outer, r_outer), (_opposite(U[0]), _opposite(U[1]),
                                                    _opposite(U[2]), _opposite(U[3]))


@inlined
def eliminate_innermost(A, r, outer, U_outer):
    """Eliminate the innermost block; return the updated (A, r) of its outer neighbour."""
    L = ldl_factors(A, 1.0)
    y = forward_substitution(L, *across_axis(1.0, r))
    A_outer, r_outer, _, _ = _to_outer(L, y, U_outer, outer[0], outer[1])
    return A_outer, r_outer


@inlined
def _opposite(M):
    return (-M[0], -M[1], -M[2], -M[3], -M[4], -M[5], -M[6], -M[7], -M[8])


@inlined
def at_tip(tip_block, A, r, free):
    """𝒟 - ℰᵀ𝒜⁻¹ℰ about the last body's origin, and the acceleration of that body under τ⁰."""
    L = ldl_factors(A, 1.0)
    y = forward_substitution(L, *across_axis(1.0, r))
    D, E_a, E_c = block_at(tip_block)
    Lambda_inv, za, zc = schur_complement(D, L, E_a, E_c)
    return Lambda_inv, minus(free, back_projection(L, y, za, zc))


@inlined
def free_acceleration(link, tau, qdd, v):
    """Acceleration of a body without neighbours, under its joint torque tau (1,) at velocity v."""
    f = (ZERO, ZERO)
    if qdd is None:
        f = minus(f, force_cross(v, momentum(link, v)))
    if tau is not None:
        f = plus(f, along_axis(link, tau[0]))
    return mobility_times(inverse_inertia(link), f)


@inlined
def _with_root(s, G):
    """G (axis first), with the row and the column of the joint axis multiplied by s."""
    A, B, C = G
    return ((A[0], A[1], s * A[2], A[3], s * A[4], s * s * A[5]),
            (B[0], B[1], B[2], B[3], B[4], B[5], s * B[6], s * B[7], s * B[8]), C)


@inlined
def _coupling(link, c, s, q, root, V_a, V_c):
    """
    Return -V Zᵀ with its column along the joint axis multiplied by root, and this column alone.

    The column that is returned alone is not multiplied. V_a and V_c are columns 0-2 and 3-5 of
    the six rows of V.

    """
    a0, c0 = vector_through_joint(link, c, s, q, (V_a[0], V_c[0]))
    a1, c1 = vector_through_joint(link, c, s, q, (V_a[1], V_c[1]))
    a2, c2 = vector_through_joint(link, c, s, q, (V_a[2], V_c[2]))
    a3, c3 = vector_through_joint(link, c, s, q, (V_a[3], V_c[3]))
    a4, c4 = vector_through_joint(link, c, s, q, (V_a[4], V_c[4]))
    a5, c5 = vector_through_joint(link, c, s, q, (V_a[5], V_c[5]))
    U = (_opposite((a3[0], a3[1], root * a3[2], a4[0], a4[1], root * a4[2],
                    a5[0], a5[1], root * a5[2])), _opposite(c3 + c4 + c5),
         _opposite((a0[0], a0[1], root * a0[2], a1[0], a1[1], root * a1[2],
                    a2[0], a2[1], root * a2[2])), _opposite(c0 + c1 + c2))
    return U, ((-a3[2], -a4[2], -a5[2]), (-a0[2], -a1[2], -a2[2]))


@inlined
def assemble(links, blocks, q, qd, tau, qdd, v, a, free, work, rows):
    """
    Write the blocks of 𝒜, r, and couplings of consecutive bodies to `rows`.

    The placements of the bodies must be in `work`.

    Parameters
    ----------
    v, a, free
        Velocity and posture acceleration of the link before the first one, and the result of
        `free_acceleration` for this link.

    Returns
    -------
    v, a, free of the last body; contribution of the first joint's drive to the r of the joint
    inside it; sum of the Newton-Euler forces, as one force on the last body

    """
    f = pushed = (ZERO, ZERO)
    for i in range(len(q)):
        link, store, row = links[i], work[i], rows[i]
        R, p = matrix_at(store, 0), vector_at(store, 9)
        _, _, c, s = placement(link, q[i])
        v, a, zeta, bias = body_motion(link, R, p, i, qd, qdd, v, a, store)
        I_inv, root = inverse_inertia(link), (link[ROTOR]) ** 0.5
        T, V_a, V_c = block_at(blocks[i])
        inside = through_joint(link, c, s, q[i], T)
        U, along_joint = _coupling(link, c, s, q[i], root, V_a, V_c)
        pulled = plus(motion_to_body(R, p, free), zeta)
        Ht = (ZERO, ZERO) if tau is None else along_axis(link, tau[i])
        free = mobility_times(I_inv, minus(Ht, bias))
        r = axis_first_pair(link, minus(free, pulled))
        if tau is not None:
            A, B, _ = inside
            r = (along(tau[i], (A[2], A[4], A[5]), r[0]),
                 along(tau[i], (B[6], B[7], B[8]), r[1]))
            push = (along(tau[i], along_joint[0], ZERO), along(tau[i], along_joint[1], ZERO))
            if i == 0:
                pushed = push
            else:
                before = plus(spatial_at(rows[i - 1], RESIDUAL), push)
                put(rows[i - 1], RESIDUAL, before[0] + before[1])
        put_mobility(row, BLOCK, _with_root(root, add_mobility(axis_first(link, I_inv), inside)))
        put(row, RESIDUAL, (r[0][0], r[0][1], root * r[0][2]) + r[1])
        put_coupling(row, COUPLING, U)
        if qdd is not None:
            f = plus(force_to_body(R, p, f), spatial_at(store, 12))
    return v, a, free, pushed, f


@inlined
def block(rows, i):
    """Diagonal block and right-hand side (A, r) of a joint."""
    return mobility_at(rows[i], BLOCK), spatial_at(rows[i], RESIDUAL)


@inlined
def coupling(rows, i):
    """Coupling block between a joint and the next joint inside it."""
    return coupling_at(rows[i], COUPLING)


@inlined
def _put_block(row, block):
    put_mobility(row, BLOCK, block[0])
    put(row, RESIDUAL, block[1][0] + block[1][1])


@inlined
def reduce_rows(rows, inside):
    """
    Eliminate all blocks but the last, level by level.

    Parameters
    ----------
    inside : (A, r), or None
        Block and right-hand side of the joint before the first one; None at the base.

    Returns
    -------
    `inside` after the reduction

    """
    left = inside
    n, step = len(rows), 1
    while step < n:
        # every other remaining block, from the last but one inward: no two of them are neighbours
        for j in range(n - 1 - step, -1, -2 * step):
            k, i = j + step, j - step
            A, r = block(rows, j)
            if i >= 0:
                inner, outer, U = eliminate_between(A, r, block(rows, i), coupling(rows, j),
                                          block(rows, k), coupling(rows, k))
                _put_block(rows[i], inner)
                put_coupling(rows[k], COUPLING, U)
            elif inside is not None:
                left, outer, U = eliminate_between(A, r, left, coupling(rows, j),
                                         block(rows, k), coupling(rows, k))
                put_coupling(rows[k], COUPLING, U)
            else:
                outer = eliminate_innermost(A, r, block(rows, k), coupling(rows, k))
            _put_block(rows[k], outer)
        step *= 2
    return left
