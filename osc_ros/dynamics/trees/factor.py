# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Branch-induced factor of the joint-space inertia (SFA of paper 003), compiled.

M = LᵀL. Entries of M for two joints on different branches are zero; these entries of L are zero
too, and Y = J L⁻¹ is zero for joints off the path to the tip. Λ⁻¹ = Y Yᵀ. The effort is
O(n d² + m d² + m² d) for n degrees of freedom, depth d, m tips.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    compose,
    cross,
    dot,
    force_to_parent,
    full,
    put,
    rotate,
    symmetric_at,
    times,
    transpose,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.trees.tree_bodies import axis_of, axis_part, freedoms_of, placement_at
from osc_ros.dynamics.trees.tree_layout import ARTICULATED, KIND, MASS, PARENT, SPHERICAL, V_AT

Array = NDArray[np.float64]


@inlined
def joint_part(kind, f, c):
    """Element c of Hᵀ f: the part of a spatial force f along axis c of the joint."""
    if kind == SPHERICAL:
        return f[0][0] if c == 0 else f[0][1] if c == 1 else f[0][2]
    return axis_part(kind, f)


@kernel
def factorize(robot, work, M):
    """Write L with M = LᵀL to the lower half of M (n, n), by the composite-body algorithm."""
    # Only entries of joints on one path to the base are computed: the others are zero. Call
    # `locate` before; the articulated-body inertias in `work` are overwritten.
    tree, before = robot.tree, robot.before
    for i in range(len(tree)):
        for k in range(10):
            work[i, ARTICULATED + k] = robot.bodies[i, MASS + k]
    for i in range(len(tree) - 1, -1, -1):
        store, kind, parent = work[i], tree[i, KIND], tree[i, PARENT]
        m, mc = store[ARTICULATED], vector_at(store, ARTICULATED + 1)
        I = symmetric_at(store, ARTICULATED + 4)
        for c in range(freedoms_of(kind)):
            H = axis_of(kind, c)
            f = (add(times(I, H[0]), cross(mc, H[1])), along(m, H[1], cross(H[0], mc)))
            row = tree[i, V_AT] + c
            for k in range(c + 1):
                M[row, tree[i, V_AT] + k] = joint_part(kind, f, k)
            M[row, row] += robot.rotors[row]
            j = i
            while tree[j, PARENT] >= 0:
                R, p = placement_at(work[j])
                f = force_to_parent(R, p, f)
                j = tree[j, PARENT]
                for k in range(freedoms_of(tree[j, KIND])):
                    M[row, tree[j, V_AT] + k] = joint_part(tree[j, KIND], f, k)
        if parent >= 0:
            R, p = placement_at(store)
            turned, mc = compose(R, compose(full(I), transpose(R))), rotate(R, mc)
            # parallel-axis theorem: mc / m is the centre of mass from the body's origin, p the
            # body's origin from the parent's
            x, pc, mp = 2.0 * dot(p, mc) + m * dot(p, p), mc, along(m, p, ZERO)
            outer = work[parent]
            put(outer, ARTICULATED + 4, (
                outer[ARTICULATED + 4] + turned[0] + x - 2.0 * p[0] * pc[0] - p[0] * mp[0],
                outer[ARTICULATED + 5] + turned[1] - p[0] * pc[1] - pc[0] * p[1] - p[0] * mp[1],
                outer[ARTICULATED + 6] + turned[2] - p[0] * pc[2] - pc[0] * p[2] - p[0] * mp[2],
                outer[ARTICULATED + 7] + turned[4] + x - 2.0 * p[1] * pc[1] - p[1] * mp[1],
                outer[ARTICULATED + 8] + turned[5] - p[1] * pc[2] - pc[1] * p[2] - p[1] * mp[2],
                outer[ARTICULATED + 9] + turned[8] + x - 2.0 * p[2] * pc[2] - p[2] * mp[2]))
            outer[ARTICULATED] += m
            for k in range(3):
                outer[ARTICULATED + 1 + k] += mc[k] + mp[k]
    for k in range(len(M) - 1, -1, -1):
        M[k, k] = np.sqrt(M[k, k])
        i = before[k]
        while i >= 0:
            M[k, i] /= M[k, k]
            i = before[i]
        i = before[k]
        while i >= 0:
            j = i
            while j >= 0:
                M[i, j] -= M[k, i] * M[k, j]
                j = before[j]
            i = before[i]


@kernel
def solve_by_factors(L, before, x):
    """Replace x (n,) by M⁻¹x = L⁻¹ L⁻ᵀ x."""
    for i in range(len(x) - 1, -1, -1):
        x[i] /= L[i, i]
        j = before[i]
        while j >= 0:
            x[j] -= L[i, j] * x[i]
            j = before[j]
    for i in range(len(x)):
        j = before[i]
        while j >= 0:
            x[i] -= L[i, j] * x[j]
            j = before[j]
        x[i] /= L[i, i]


@inlined
def put_inverse_by_factors(L, before, M_inv):
    """Write M⁻¹ (n, n), exactly symmetric, from the factor L of M."""
    for i in range(len(M_inv)):
        for k in range(len(M_inv)):
            M_inv[i, k] = 1.0 if i == k else 0.0
        solve_by_factors(L, before, M_inv[i])
        for j in range(i):
            M_inv[i, j] = M_inv[j, i] = 0.5 * (M_inv[i, j] + M_inv[j, i])


@kernel
def square_factor(robot, L, Y, Lambda_inv):
    """Replace J (6 m, n), which Y contains at the call, by J L⁻¹; write Λ⁻¹ = Y Yᵀ."""
    tree, paths, starts, before = robot.tree, robot.paths, robot.starts, robot.before
    m = len(starts) - 1
    for k in range(m):
        body = paths[starts[k + 1] - 1]
        last = tree[body, V_AT] + freedoms_of(tree[body, KIND]) - 1
        for r in range(6 * k, 6 * k + 6):
            i = last
            while i >= 0:
                Y[r, i] /= L[i, i]
                j = before[i]
                while j >= 0:
                    Y[r, j] -= L[i, j] * Y[r, i]
                    j = before[j]
                i = before[i]
        for j in range(k + 1):
            last = -1
            if robot.common[j, k] > 0:
                body = paths[starts[j] + robot.common[j, k] - 1]
                last = tree[body, V_AT] + freedoms_of(tree[body, KIND]) - 1
            for r in range(6 * k, 6 * k + 6):
                for c in range(6 * j, min(6 * j + 6, r + 1)):
                    total = 0.0
                    i = last
                    while i >= 0:
                        total += Y[r, i] * Y[c, i]
                        i = before[i]
                    Lambda_inv[r, c] = Lambda_inv[c, r] = total
