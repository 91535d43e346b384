# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The forces of several tasks with priorities.

A task does not disturb the tasks of higher priority: it acts in their dynamically consistent null
space. Task i of k, highest priority first, is level i. J (6 k, n) is the Jacobian of all levels,
W = Λ⁻¹ (6 k, 6 k) their mobility, r = u - a⁰ (6 k,) the accelerations that the forces must cause
(u commanded, a⁰ without these forces). A block LDLᵀ factorization of W eliminates level after
level, for i = 1 … k:

    Λᵢ = E (Eᵀ Wᵢᵢ E + D)⁻¹ Eᵀ,  fᵢ = Λᵢ rᵢ + the added wrench (`level_wrench`)
    for j > i:  Lⱼᵢ = Wⱼᵢ Λᵢ,  Wⱼₖ -= Lⱼᵢ Wᵢₖ,  rⱼ -= Lⱼᵢ rᵢ,  Jⱼ -= Lⱼᵢ Jᵢ

Back substitution then gives the force of each level, Fᵢ = fᵢ - Σⱼ Lⱼᵢᵀ Fⱼ. After the elimination
of the higher levels, Wⱼⱼ is the mobility of task j while the accelerations of these levels do not
change, and Jⱼ is its Jacobian in their null space. E fades out the singular directions of the
scaled Jⱼ, and D is 0 if no direction is faded out: see `osc_ros.dynamics.priority.level_inertia`.

Of a direction that level i fades out, with share s of control, a residual of about 1 - s remains
in Jⱼ of a lower level. That level controls it with the share 1 - s at most: otherwise it would
take the whole direction over as soon as the residual exceeds its own threshold, while level i
still controls nearly all of it, and in conflict the torques would jump.

The velocity of some tasks is not their link's twist, but S times this twist (S: `level_map`).
Such a level has S J in place of J, its W and a⁰ are mapped too, and the force on its link is Sᵀ F.

An activation a between 0 and 1 is not a weight in this solve: a task with a small weight would
still override all tasks below it. Instead the solutions with and without the task are blended: F
is the mean over θ in (0, 1) of the solutions that control only the axes with a > θ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import ahead, inlined, kernel, part, plain, view
from osc_ros.compile.record_type import Table
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.priority.level_inertia import (
    add_spring,
    fades,
    put_block,
    put_gram,
    put_held_part,
    put_inertia,
    put_ratios,
    rotate_to_base,
    scaled_mobility,
)
from osc_ros.dynamics.priority.level_map import add_link_force, map_level, put_link_force
from osc_ros.dynamics.priority.level_slots import LEVELS_D, LEVELS_M, LEVELS_ROOM

Array = NDArray[np.float64]

# Records for `Priorities` alone; those of a law have the same slots, and more.
PRIORITY_M, PRIORITY_D = Table('PriorityM', *LEVELS_M), Table('PriorityD', *LEVELS_D,
                                                              room=LEVELS_ROOM)


@inlined
def _gather(m, d, links, J, W):
    """Copy J, W and r = u - a⁰ from the arrays `links` (J, W, a⁰) to the arrays of the levels."""
    links_J, links_W, a0 = links
    at, r, x, y = m.level_link, d.level_r, d.work_x, d.work_y
    for i in range(d.k):
        own = 6 * at[i]
        for a in range(6):
            x[a] = d.level_u[i, a]
        rotate_to_base(d.level_frame[i], x, y)
        for a in range(6):
            r[6 * i + a] = y[a] - a0[own + a]
            for k in range(J.shape[1]):
                J[6 * i + a, k] = links_J[own + a, k]
            for j in range(d.k):
                for b in range(6):
                    W[6 * i + a, 6 * j + b] = links_W[own + a, 6 * at[j] + b]
    for i in range(d.k):
        if d.is_mapped[i] != 0:
            own = 6 * at[i]
            map_level(d.level_map[i], i, a0[own:own + 6], J, W, r, x)


@inlined
def _put_row(W, j, i, M, x):
    """Write to x (6,) row j of the columns of level i of W, times M (6 × 6, flat)."""
    for b in range(6):
        x[b] = 0.0
        for c in range(6):
            x[b] += W[j, 6 * i + c] * M[6 * c + b]


@inlined
def _eliminate(i, levels, Lambda, J, W, r, x):
    """Project J, W and r of levels below i into the null space of level i; Lⱼᵢ overwrites Wⱼᵢ."""
    for j in range(6 * i + 6, 6 * levels):
        _put_row(W, j, i, Lambda, x)
        for b in range(6):
            W[j, 6 * i + b] = x[b]
            r[j] -= x[b] * r[6 * i + b]
            for k in range(J.shape[1]):
                J[j, k] -= x[b] * J[6 * i + b, k]
    for j in range(6 * i + 6, 6 * levels):
        for k in range(6 * i + 6, 6 * levels):
            for c in range(6):
                W[j, k] -= W[j, 6 * i + c] * W[6 * i + c, k]


@inlined
def _add_held(i, levels, C, J, W, held, x):
    """Add Wⱼᵢ C Jᵢ to `held`: parts of the Jacobians of lower levels j that higher levels hold."""
    for j in range(6 * i + 6, 6 * levels):
        _put_row(W, j, i, C, x)
        for b in range(6):
            for k in range(J.shape[1]):
                held[j, k] += x[b] * J[6 * i + b, k]


@inlined
def _eliminate_held(i, levels, W, held):
    """Project what higher levels hold into the null space of level i, by the factors Lⱼᵢ in W."""
    for j in range(6 * i + 6, 6 * levels):
        for b in range(6):
            for k in range(held.shape[1]):
                held[j, k] -= W[j, 6 * i + b] * held[6 * i + b, k]


@inlined
def _note_scales(d, J, W, length):
    """Write largest singular value and mobility of the lower levels before the elimination."""
    for i in range(1, d.k):
        d.level_most[i] = put_gram(d.level_frame[i], d.level_mask[i], J, i, length, d.work_A,
                                   d.work_X)
        put_block(d.level_frame[i], W, i, d.work_B, d.work_X)
        d.level_mobility[i] = scaled_mobility(d.level_mask[i], d.work_B, length)


@inlined
def _put_level_inertia(m, d, i, J, W, is_shared):
    """Write the inertia of level i to `work_Lambda`; 0 if the level moves nothing."""
    T, mask, length, A, B, X = (d.level_frame[i], d.level_mask[i], m.singularity[0], d.work_A,
                                d.work_B, d.work_X)
    put_block(T, W, i, B, X)
    stiff, count = 0.0, 0.0
    for a in range(6):
        stiff += d.level_root[i, a]
        count += mask[a]
    if stiff > 0.0:
        add_spring(d, i)
    largest = put_gram(T, mask, J, i, length, A, X)
    if i == 0:
        d.level_most[0], d.level_mobility[0] = largest, scaled_mobility(mask, B, length)
    if is_shared:
        put_gram(T, mask, d.level_held, i, length, d.work_K, X)
    if d.level_mobility[i] > 0.0 and d.level_most[i] > 0.0:
        put_inertia(m, d, i, max(d.level_most[i], largest), is_shared)
        return
    for k in range(36):
        d.work_Lambda[k] = 0.0
    for k in range(6):
        d.level_shares[i, k] = 0.0 if count > 0.0 else 1.0


@inlined
def _put_level_force(d, i):
    """Write the force of level i, of its own error and wrench alone: wrench + Λ r."""
    x, y, forces = d.work_x, d.work_y, d.level_parts
    for a in range(6):
        x[a] = d.level_mask[i, a] * d.level_wrench[i, a]
    rotate_to_base(d.level_frame[i], x, y)
    for a in range(6):
        forces[6 * i + a] = y[a]
        for b in range(6):
            forces[6 * i + a] += d.work_Lambda[6 * a + b] * d.level_r[6 * i + b]


@part
def _put_forces_of_mask(m, d, links, weight, c):
    """Write the forces of the levels in the axes with mask 1 to `level_parts`."""
    # By block elimination. Also writes index c of `level_J`, `level_W` and `level_Lambda`, the
    # last times `weight`.
    length, levels, is_shared = m.singularity[0], d.k, False
    J, W, Lambda, forces, x = (d.level_J[c], d.level_W[c], d.work_Lambda, d.level_parts, d.work_x)
    _gather(m, d, links, J, W)
    _note_scales(d, J, W, length)
    for i in range(levels):
        _put_level_inertia(m, d, i, J, W, is_shared)
        _put_level_force(d, i)
        if (i < levels - 1 and d.level_mobility[i] > 0.0 and d.level_most[i] > 0.0
                and fades(d.level_shares[i])):
            if not is_shared:
                is_shared = True
                for j in range(6 * levels):
                    for k in range(J.shape[1]):
                        d.level_held[j, k] = 0.0
            put_held_part(d, i, W, length)
            _add_held(i, levels, d.work_C, J, W, d.level_held, x)
        _eliminate(i, levels, Lambda, J, W, d.level_r, x)
        if is_shared:
            _eliminate_held(i, levels, W, d.level_held)
        for k in range(36):
            d.level_Lambda[c, i, k // 6, k % 6] = weight * Lambda[k]
    for i in range(6 * levels - 7, -1, -1):
        for j in range(6 * (i // 6) + 6, 6 * levels):
            forces[i] -= W[j, i] * forces[j]


@part
def put_solution(m, d, links_J, links_W, a0):
    """Write the forces of the levels, and their sum for each link; return the number of solves."""
    # There is one solve for each different value of the activations.
    for k in range(6 * d.k):
        d.level_F[k] = 0.0
    upper, count = 1.0, 0
    while upper > 0.0:
        lower = 0.0
        for i in range(d.k):
            for a in range(6):
                activation = d.level_activation[i, a]
                d.level_mask[i, a] = 1.0 if activation >= upper else 0.0
                if activation < upper:
                    lower = max(lower, activation)
        _put_forces_of_mask(m, d, (links_J, links_W, a0), upper - lower, count)
        for k in range(6 * d.k):
            d.level_F[k] += (upper - lower) * d.level_parts[k]
        upper, count = lower, count + 1
    for k in range(len(d.link_F)):
        d.link_F[k] = 0.0
    for i in range(d.k):
        if d.is_mapped[i] != 0:
            put_link_force(d.level_map[i], d.level_F[6 * i:6 * i + 6], d.work_x)
        for a in range(6):
            d.link_F[6 * m.level_link[i] + a] += d.level_F[6 * i + a]
    return count


solve = kernel(plain(put_solution))


@kernel
def _put_conditioning(m, d, count):
    """Write the singular values and directions of all levels, from the last of `count` solves."""
    A, X = d.work_A, d.work_X
    for i in range(d.k):
        V, axes, most = view(d.level_directions[i], 0, (36,)), 0.0, d.level_most[i]
        for a in range(6):
            axes += d.level_mask[i, a]
        if d.level_mobility[i] > 0.0 and most > 0.0:
            largest = max(most, put_gram(d.level_frame[i], d.level_mask[i], d.level_J[count - 1],
                                         i, m.singularity[0], A, X))
            for a in range(6):
                A[7 * a] += most * (1.0 - d.level_mask[i, a])
            put_ratios(A, V, largest, d.level_ratios[i])
        else:
            for k in range(36):
                V[k] = 0.0
            for k in range(6):
                d.level_ratios[i, k] = 0.0 if axes > 0.0 else 1.0


@inlined
def velocity_wanted(d, i, x, y):
    """Write the velocity of the target of level i (base axes) to y[6 i:6 i + 6]; overwrites x."""
    for a in range(6):
        x[a] = d.level_velocity[i, a]
    rotate_to_base(d.level_frame[i], x, y[6 * i:])


@inlined
def forces_for(m, d, count, r, parts, F):
    """Write to F (6 m,) the forces on the m links that accelerate the k levels by r (6 k,)."""
    # By the factors of the last `count` solves: valid for their state and activations. r is in
    # base axes; `parts` (6 k,) is working memory.
    at, W, inertias, size = m.level_link, d.level_W, d.level_Lambda, len(r)
    for k in range(len(F)):
        F[k] = 0.0
    for c in range(count):
        for j in range(size):
            parts[j] = r[j]
            for k in range(6 * (j // 6)):
                parts[j] -= W[c, j, k] * parts[k]
        for i in range(size - 6, -1, -6):
            Lambda = inertias[c, i // 6]
            x = (parts[i], parts[i + 1], parts[i + 2], parts[i + 3], parts[i + 4], parts[i + 5])
            for a in range(6):
                total = 0.0
                for b in range(6):
                    total += Lambda[a, b] * x[b]
                for j in range(i + 6, size):
                    total -= W[c, j, i + a] * parts[j]
                parts[i + a] = total
            add_link_force(d, i // 6, parts[i:i + 6], F[6 * at[i // 6]:])


class Priorities:
    """Solver for the forces of tasks on links, with the results of its last call."""

    # at: index of the link of each of k levels, highest priority first. links, n: numbers of links
    # and joints. records: (m, d) with the slots of `level_slots`; default: new ones. The caller
    # writes the commands of the levels to d before each call.

    def __init__(self, at: Sequence[int], links: int, n: int, records: Any = None) -> None:
        sizes = {'n': n, 'k': len(at), 'm': links}
        if records is None:
            _compile()
        self.m, self.d = records or (PRIORITY_M.new(**sizes), PRIORITY_D.new(**sizes))
        self.m.level_link[:] = at
        self.d.level_frame[:] = np.eye(3).ravel()
        self.d.level_fastest[:] = np.inf
        # Forces (6 k,), base axes [N·m, N], which also compensate those of lower levels;
        # controlled share of each singular direction (k, 6), 0 to 1.
        self.forces: Array = self.d.level_F
        self.shares: Array = self.d.level_shares
        self.shares[:] = self.d.level_ratios[:] = 1.0
        self.F: Array = self.d.link_F
        self._solves = 0

    def solve(self, J: Array, Lambda_inv: Array, a0: Array, damping: SingularityDamping) -> Array:
        """Forces (6 m,) on m links, base axes [N·m, N], for J (6 m, n) and Λ⁻¹ (6 m, 6 m)."""
        # a0 (6 m,): accelerations of the links under τ⁰ alone [rad/s², m/s²].
        self.m.singularity[:] = damping.length, damping.low, damping.high
        self.note(solve(self.m, self.d, J, Lambda_inv, a0))
        return self.F

    def note(self, solves: int) -> None:
        """Record `solves`, the result of a call of `solve`."""
        self._solves = solves

    @property
    def ratios(self) -> Array:
        """Singular values (k, 6) of each level in the last `solve`, relative to the largest."""
        # Only controlled axes count. Every read computes the values again.
        return self._conditioning()[0]

    @property
    def directions(self) -> Array:
        """Singular directions (k, 6, 6) of each level: columns, in the axes of its frame."""
        # The linear parts are in units of the characteristic length.
        return self._conditioning()[1]

    def _conditioning(self) -> tuple[Array, Array]:
        """Ratios and directions, from a copy of the record, which a control tick may be using."""
        if self._solves == 0:
            return self.d.level_ratios, self.d.level_directions
        d = self.d.copy()
        _put_conditioning(self.m, d, self._solves)
        return d.level_ratios, d.level_directions

    def weakest(self, level: int = 0) -> Array:
        """Direction (6,) of a task's smallest singular value: its control fades out first."""
        # Axes of the task's frame, [angular; linear]; norm 1 if the linear part is in units of the
        # characteristic length.
        ratios, directions = self._conditioning()
        return np.asarray(directions[level][:, np.argmin(ratios[level])])


@ahead
def _compile() -> None:
    """Compile or load the kernels for records of `Priorities` alone, also beside a loop."""
    m, d = PRIORITY_M.new(n=1, k=1, m=1), PRIORITY_D.new(n=1, k=1, m=1)
    m.singularity[:] = 1.0, 0.1, 0.2
    solve(m, d, np.zeros((6, 1)), np.zeros((6, 6)), np.zeros(6))
    _put_conditioning(m, d, 1)
