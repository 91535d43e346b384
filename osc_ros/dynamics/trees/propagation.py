# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Λ⁻¹ of several tips by propagation of forces (EFPA) or mobilities (RJKA) of paper 003, compiled.

Call `articulated.put_articulated_inertias` before either. X is the motion transform from the frame
of a body's parent to the frame of the body. If the parent has the motion V, the body has the
motion X V if its joint is locked, and L X V if its joint can move and has no torque, with
L = 1 - H D⁻¹Uᵀ (H, D and U: see `articulated.py`). 𝒳, the product of L X over the joints between a
body and a tip, maps the motion of the body to the motion of the tip. Ω is the mobility of a body
of the robot: its acceleration for a force on it, if all joints can move and have no torque. For b
bodies, depth d and m tips:

    propagate_forces      computes 𝒳 from the tips inward, then Λ⁻¹ from the base outward, with
                          the blocks of two tips at their last common body; O(b + m d + m²)
    propagate_mobilities  computes Ω of all bodies on paths, from the base outward, and takes Ω of
                          the last common body of two tips along both of their branches;
                          O(b + m² d); on a chain these are the recursions of paper 002
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.dynamics.algebra.spatial import (
    add,
    add_matrix,
    add_symmetric,
    along,
    compose,
    cross_rows,
    dot,
    full,
    matrix_at,
    mobility_at,
    mobility_shifted,
    mobility_times,
    mobility_unrotated,
    put,
    sub_matrix,
    symmetric_at,
    transpose,
    unrotate,
    upper,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.trees.articulated import column_of
from osc_ros.dynamics.trees.tree_bodies import placement_at
from osc_ros.dynamics.trees.tree_layout import (
    ARTICULATED,
    D_INV,
    IN_BASE,
    KIND,
    OMEGA,
    PARENT,
    PRISMATIC,
    ROTOR_SHARE,
    SPHERICAL,
)

Array = NDArray[np.float64]


@inlined
def block_at(row, k):
    """The 6 × 6 matrix in row[k:k + 36], as four 3 × 3 blocks in the order [[0, 1], [2, 3]]."""
    return (matrix_at(row, k), matrix_at(row, k + 9),
            matrix_at(row, k + 18), matrix_at(row, k + 27))


@inlined
def put_block(matrix, i, j, Y):
    for r in range(3):
        for c in range(3):
            matrix[i + r, j + c] = Y[0][3 * r + c]
            matrix[i + r, j + 3 + c] = Y[1][3 * r + c]
            matrix[i + 3 + r, j + c] = Y[2][3 * r + c]
            matrix[i + 3 + r, j + 3 + c] = Y[3][3 * r + c]


@inlined
def block_product(X, Y):
    """The product X Y of two 6 × 6 matrices, each given as four 3 × 3 blocks."""
    return (add_matrix(compose(X[0], Y[0]), compose(X[1], Y[2])),
            add_matrix(compose(X[0], Y[1]), compose(X[1], Y[3])),
            add_matrix(compose(X[2], Y[0]), compose(X[3], Y[2])),
            add_matrix(compose(X[2], Y[1]), compose(X[3], Y[3])))


@inlined
def block_transpose(X):
    """The transpose of a 6 × 6 matrix X, given as four 3 × 3 blocks."""
    return transpose(X[0]), transpose(X[2]), transpose(X[1]), transpose(X[3])


@inlined
def motions_at(R, p, Y):
    """The columns of Y, motions, at the point p, with components turned by R."""
    a, b, c, d = Y
    return (compose(R, a), compose(R, b),
            compose(R, add_matrix(c, transpose(cross_rows(transpose(a), p)))),
            compose(R, add_matrix(d, transpose(cross_rows(transpose(b), p)))))


@inlined
def with_row(kind, Y, x, y):
    """The 6 × 6 matrix Y with its row along the axis of a joint (one freedom) set to [x, y]."""
    a, b, c, d = Y
    if kind == PRISMATIC:
        return (a, b, (c[0], c[1], c[2], c[3], c[4], c[5], x[0], x[1], x[2]),
                (d[0], d[1], d[2], d[3], d[4], d[5], y[0], y[1], y[2]))
    return ((a[0], a[1], a[2], a[3], a[4], a[5], x[0], x[1], x[2]),
            (b[0], b[1], b[2], b[3], b[4], b[5], y[0], y[1], y[2]), c, d)


@inlined
def row_of(kind, Y):
    """Row Hᵀ Y, for a joint with one degree of freedom: its columns 0-2, and columns 3-5."""
    k = 1 if kind == PRISMATIC else 0
    a, b = (Y[2], Y[3]) if k else (Y[0], Y[1])
    return (a[6], a[7], a[8]), (b[6], b[7], b[8])


@inlined
def free_joint_row(kind, store, I):
    """Row Hᵀ L of L = 1 - H D⁻¹Uᵀ, columns 0-2 and 3-5, for a joint of one degree of freedom."""
    # The entry at the axis, 1 - D⁻¹HᵀU, is D⁻¹ times the rotor inertia: exactly 0 without a rotor,
    # and without cancellation.
    U, d, kept = column_of(kind, I), store[D_INV], store[ROTOR_SHARE]
    x, y = along(-d, U[0], ZERO), along(-d, U[1], ZERO)
    if kind == PRISMATIC:
        return x, (y[0], y[1], kept)
    return (x[0], x[1], kept), y


@inlined
def free_joint_rows(store, I):
    """Rows HᵀL = [P, Q] of L = 1 - H D⁻¹Uᵀ, for a spherical joint; see `free_joint_row`."""
    D_full, share = full(symmetric_at(store, D_INV)), vector_at(store, ROTOR_SHARE)
    P = (D_full[0] * share[0], D_full[1] * share[1], D_full[2] * share[2],
         D_full[3] * share[0], D_full[4] * share[1], D_full[5] * share[2],
         D_full[6] * share[0], D_full[7] * share[1], D_full[8] * share[2])
    DB = compose(D_full, I[1])
    return P, (-DB[0], -DB[1], -DB[2], -DB[3], -DB[4], -DB[5], -DB[6], -DB[7], -DB[8])


@inlined
def motions_beyond(tree, store, i, Y):
    """Return L X Y: motions of body i, if its joint can move and has no torque."""
    # Columns of Y: motions of its parent; X transforms them to the frame of body i, L = 1 - H
    # D⁻¹Uᵀ removes the part that the joint does not transmit.
    R, p = placement_at(store)
    kind, I = tree[i, KIND], mobility_at(store, ARTICULATED)
    Y = motions_at(transpose(R), p, Y)
    if kind == SPHERICAL:
        P, Q = free_joint_rows(store, I)
        return (add_matrix(compose(P, Y[0]), compose(Q, Y[2])),
                add_matrix(compose(P, Y[1]), compose(Q, Y[3])), Y[2], Y[3])
    r = free_joint_row(kind, store, I)
    return with_row(kind, Y, add(unrotate(Y[0], r[0]), unrotate(Y[2], r[1])),
                    add(unrotate(Y[1], r[0]), unrotate(Y[3], r[1])))


@inlined
def motions_at_tip(store, end, Y):
    """Motions of a tip, base axes; the columns of Y are motions of the body that carries it."""
    return motions_at(matrix_at(store, IN_BASE), vector_at(end, 9), Y)


@inlined
def put_pair(Lambda_inv, k, j, Y):
    """Write Y to block (k, j) of Λ⁻¹ and Yᵀ to block (j, k), for tips k and j."""
    put_block(Lambda_inv, 6 * k, 6 * j, Y)
    put_block(Lambda_inv, 6 * j, 6 * k, block_transpose(Y))


@inlined
def axis_column(kind, Y):
    """Y H: the column of a 6 × 6 matrix Y along the axis of a revolute or prismatic joint."""
    a, b, c, d = Y
    if kind == PRISMATIC:
        return (b[2], b[5], b[8]), (d[2], d[5], d[8])
    return (a[2], a[5], a[8]), (c[2], c[5], c[8])


@inlined
def without_column(Y):
    """Copy of the 3 × 3 matrix Y, with zeros in its last column."""
    return Y[0], Y[1], 0.0, Y[3], Y[4], 0.0, Y[6], Y[7], 0.0


@inlined
def plus_outer(Y, x, y):
    """The sum Y + x yᵀ, for a 3 × 3 matrix Y and vectors x and y."""
    return (Y[0] + x[0] * y[0], Y[1] + x[0] * y[1], Y[2] + x[0] * y[2],
            Y[3] + x[1] * y[0], Y[4] + x[1] * y[1], Y[5] + x[1] * y[2],
            Y[6] + x[2] * y[0], Y[7] + x[2] * y[1], Y[8] + x[2] * y[2])


@kernel
def propagate_forces(robot, X, work, Lambda_inv):
    """Write Λ⁻¹ (6 m, 6 m), by extended force propagators (paper 003, table I)."""
    # X (Σ d, 36) is memory.
    tree, ends, common, m = robot.tree, robot.ends, robot.common, len(robot.ends)
    paths, starts = robot.paths, robot.starts
    for k in range(m):
        last = starts[k + 1] - 1
        R, p = matrix_at(work[paths[last]], IN_BASE), vector_at(ends[k], 9)
        # `reach` maps motions of the body (its axes) to motions of the tip (base axes)
        Rp = cross_rows(R, p)
        reach = (R, ZERO + ZERO + ZERO,
                 (-Rp[0], -Rp[1], -Rp[2], -Rp[3], -Rp[4], -Rp[5], -Rp[6], -Rp[7], -Rp[8]), R)
        for at in range(last, starts[k] - 1, -1):
            i = paths[at]
            store, kind = work[i], tree[i, KIND]
            put(X[at], 0, reach[0] + reach[1] + reach[2] + reach[3])
            if at == starts[k]:
                break
            a, b, c, d = reach
            I = mobility_at(store, ARTICULATED)
            if kind == SPHERICAL:
                P, Q = free_joint_rows(store, I)
                b, d = add_matrix(b, compose(a, Q)), add_matrix(d, compose(c, Q))
                a, c = compose(a, P), compose(c, P)
            else:
                r = free_joint_row(kind, store, I)
                x, y = axis_column(kind, reach)
                if kind == PRISMATIC:
                    b, d = without_column(b), without_column(d)
                else:
                    a, c = without_column(a), without_column(c)
                a, b = plus_outer(a, x, r[0]), plus_outer(b, x, r[1])
                c, d = plus_outer(c, y, r[0]), plus_outer(d, y, r[1])
            R, p = placement_at(store)
            Rt = transpose(R)
            b, d = compose(b, Rt), compose(d, Rt)
            a = sub_matrix(compose(a, Rt), cross_rows(b, p))
            c = sub_matrix(compose(c, Rt), cross_rows(d, p))
            reach = (a, b, c, d)
    for k in range(m):
        zero = ZERO + ZERO + ZERO
        Y = (zero, zero, zero, zero)
        for j in range(k):
            if common[j, k] == 0:
                put_pair(Lambda_inv, j, k, Y)
        for at in range(starts[k], starts[k + 1]):
            i = paths[at]
            store, kind = work[i], tree[i, KIND]
            if at > starts[k]:
                Y = motions_beyond(tree, store, i, Y)
            reach = block_at(X[at], 0)
            if kind == SPHERICAL:
                D_full = full(symmetric_at(store, D_INV))
                Y = (add_matrix(Y[0], compose(D_full, transpose(reach[0]))),
                     add_matrix(Y[1], compose(D_full, transpose(reach[2]))), Y[2], Y[3])
            else:
                (x, y), own = axis_column(kind, reach), row_of(kind, Y)
                w = store[D_INV]
                Y = with_row(kind, Y, along(w, x, own[0]), along(w, y, own[1]))
            for j in range(k):
                if common[j, k] == at - starts[k] + 1:
                    there = starts[j] + at - starts[k]
                    put_pair(Lambda_inv, j, k, block_product(block_at(X[there], 0), Y))
        Y = motions_at_tip(work[paths[starts[k + 1] - 1]], ends[k], Y)
        put_block(Lambda_inv, 6 * k, 6 * k, Y)
        for r in range(6 * k, 6 * k + 6):
            for other in range(6 * k, r):
                mean = 0.5 * (Lambda_inv[r, other] + Lambda_inv[other, r])
                Lambda_inv[r, other] = Lambda_inv[other, r] = mean


@inlined
def beyond_joint(tree, store, i, Y):
    """Mobility Ω of body i, L Y Lᵀ + H D⁻¹Hᵀ, for Y = X Ω Xᵀ with the mobility Ω of its parent."""
    kind, I = tree[i, KIND], mobility_at(store, ARTICULATED)
    A, B, C = Y
    if kind == SPHERICAL:
        P, Q = free_joint_rows(store, I)
        top = add_matrix(compose(P, full(A)), compose(Q, transpose(B)))
        side = add_matrix(compose(P, B), compose(Q, full(C)))
        own = add_matrix(compose(top, transpose(P)), compose(side, transpose(Q)))
        return add_symmetric(symmetric_at(store, D_INV), upper(own)), side, C
    r = free_joint_row(kind, store, I)
    x, y = mobility_times(Y, r)
    own = dot(r[0], x) + dot(r[1], y) + store[D_INV]
    if kind == PRISMATIC:
        return (A, (B[0], B[1], x[0], B[3], B[4], x[1], B[6], B[7], x[2]),
                (C[0], C[1], y[0], C[3], y[1], own))
    return ((A[0], A[1], x[0], A[3], x[1], own),
            (B[0], B[1], B[2], B[3], B[4], B[5], y[0], y[1], y[2]), C)


@kernel
def propagate_mobilities(robot, work, Lambda_inv):
    """Write Λ⁻¹ (6 m, 6 m), by propagation of mobilities (RJKA; paper 002, eq. 58)."""
    tree, ends, common = robot.tree, robot.ends, robot.common
    paths, starts = robot.paths, robot.starts
    for at in range(len(robot.carriers)):
        i = robot.carriers[at]
        store, parent = work[i], tree[i, PARENT]
        carried = (ZERO + ZERO, ZERO + ZERO + ZERO, ZERO + ZERO)
        if parent >= 0:
            R, p = placement_at(store)
            carried = mobility_unrotated(
                R, mobility_shifted(p, mobility_at(work[parent], OMEGA)))
        Omega = beyond_joint(tree, store, i, carried)
        put(store, OMEGA, Omega[0] + Omega[1] + Omega[2])
    for k in range(len(ends)):
        store = work[paths[starts[k + 1] - 1]]
        # Ω of the body that carries tip k, at the tip, base axes
        A, B, C = mobility_unrotated(
            transpose(matrix_at(store, IN_BASE)),
            mobility_shifted(vector_at(ends[k], 9), mobility_at(store, OMEGA)))
        put_block(Lambda_inv, 6 * k, 6 * k, (full(A), B, transpose(B), full(C)))
        for j in range(k):
            zero = ZERO + ZERO + ZERO
            Y = (zero, zero, zero, zero)
            if common[j, k] > 0:
                A, B, C = mobility_at(work[paths[starts[j] + common[j, k] - 1]], OMEGA)
                Y = (full(A), B, transpose(B), full(C))
                for at in range(starts[j] + common[j, k], starts[j + 1]):
                    Y = motions_beyond(tree, work[paths[at]], paths[at], Y)
                Y = block_transpose(motions_at_tip(work[paths[starts[j + 1] - 1]], ends[j], Y))
                for at in range(starts[k] + common[j, k], starts[k + 1]):
                    Y = motions_beyond(tree, work[paths[at]], paths[at], Y)
                Y = motions_at_tip(store, ends[k], Y)
            put_pair(Lambda_inv, k, j, Y)
