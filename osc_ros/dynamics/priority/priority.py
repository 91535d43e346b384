# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The forces of several tasks with priorities.

A task does not disturb the tasks of higher priority: it acts in their dynamically consistent null
space. Task i of k, highest priority first, is level i. J (6 k, n) is the Jacobian of all levels,
W = Λ⁻¹ (6 k, 6 k) their mobility, r = u - a⁰ (6 k,) the accelerations that the forces must cause
(u commanded, a⁰ without these forces). A block LDLᵀ factorization of W eliminates level after
level, for i = 1 … k:

    Λᵢ = E (Eᵀ Wᵢᵢ E + D)⁻¹ Eᵀ,  fᵢ = Λᵢ rᵢ + the added wrench (WRENCH)
    for j > i:  Lⱼᵢ = Wⱼᵢ Λᵢ,  Wⱼₖ -= Lⱼᵢ Wᵢₖ,  rⱼ -= Lⱼᵢ rᵢ,  Jⱼ -= Lⱼᵢ Jᵢ

Back substitution then gives the force of each level, Fᵢ = fᵢ - Σⱼ Lⱼᵢᵀ Fⱼ. After the elimination
of the higher levels, Wⱼⱼ is the mobility of task j while the accelerations of these levels do not
change, and Jⱼ is its Jacobian in their null space. E fades out the singular directions of the
scaled Jⱼ, and D is 0 if no direction is faded out: see `osc_ros.dynamics.priority.level_inertia`.

Of a direction that level i fades out, with share s of control, a residual of about 1 - s remains
in Jⱼ of a lower level. That level controls it with the share 1 - s at most: otherwise it would
take the whole direction over as soon as the residual exceeds its own threshold, while level i
still controls nearly all of it, and in conflict the torques would jump.

The velocity of some tasks is not their link's twist, but S times this twist (S: MAP of the row).
Such a level has S J in place of J, its W and a⁰ are mapped too, and the force on its link is Sᵀ F.

An activation a between 0 and 1 is not a weight in this solve: a task with a small weight would
still override all tasks below it. Instead the solutions with and without the task are blended: F
is the mean over θ in (0, 1) of the solutions that control only the axes with a > θ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, part, plain, view, viewing
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.priority.level_inertia import (
    add_spring,
    fades,
    OfLevel,
    put_block,
    put_gram,
    put_held_part,
    put_inertia,
    put_ratios,
    rotate_to_base,
    scaled_mobility,
    scratch_of,
    SCRATCH_WIDTH,
)
from osc_ros.dynamics.priority.level_map import add_link_force, map_level, put_link_force
from osc_ros.dynamics.priority.level_row import (
    ACTIVATION,
    FASTEST,
    FRAME,
    MAP,
    MAPPED,
    ROOT,
    U,
    VELOCITY,
    WIDTH,
    WRENCH,
)

Array = NDArray[np.float64]


@inlined
def _gather(links, room, J, W, memory):
    """Copy J, W and r = u - a⁰ from the arrays `links` (J, W, a⁰) to the arrays of the levels."""
    links_J, links_W, a0 = links
    at, rows, r, x, y = room.at, room.rows, room.r, memory.x, memory.y
    for i in range(len(rows)):
        own = 6 * at[i]
        for a in range(6):
            x[a] = rows[i, U + a]
        rotate_to_base(rows[i], x, y)
        for a in range(6):
            r[6 * i + a] = y[a] - a0[own + a]
            for k in range(J.shape[1]):
                J[6 * i + a, k] = links_J[own + a, k]
            for j in range(len(rows)):
                for b in range(6):
                    W[6 * i + a, 6 * j + b] = links_W[own + a, 6 * at[j] + b]
    for i in range(len(rows)):
        if rows[i, MAPPED] != 0.0:
            own = 6 * at[i]
            map_level(rows[i, MAP:MAP + 36], i, a0[own:own + 6], J, W, r, x)


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


@part
def _solve(links, damping, weight, room, c):
    """
    Compute the forces of the levels in the axes with mask 1; write them to `parts` of `room`.

    Also writes J, W and inertias to index c of these arrays of `room`; the inertias are multiplied
    by `weight`.

    """
    rows, masks, r, forces, length = room.rows, room.masks, room.r, room.parts, damping[0]
    J, W, mobility, most, levels = room.J[c], room.W[c], room.mobility, room.most, len(room.rows)
    memory = scratch_of(room.scratch)
    A, B, V, X, Lambda, K, C, _, x, y = memory
    is_shared = False
    _gather(links, room, J, W, memory)
    for i in range(1, levels):
        # references for small values: largest singular value and mobility before the elimination
        most[i] = put_gram(rows[i], masks[i], J, i, length, A, X)
        put_block(rows[i], W, i, B, X)
        mobility[i] = scaled_mobility(masks[i], B, length)
    for i in range(levels):
        row, mask = rows[i], masks[i]
        put_block(row, W, i, B, X)
        stiff, count = 0.0, 0.0
        for a in range(6):
            stiff += row[ROOT + a]
            count += mask[a]
        if stiff > 0.0:
            add_spring(row, A, B, V, x, y, r, i)
        largest = put_gram(row, mask, J, i, length, A, X)
        if i == 0:
            most[0], mobility[0] = largest, scaled_mobility(mask, B, length)
        if is_shared:
            put_gram(row, mask, room.held, i, length, K, X)
        level = OfLevel(row, mask, room.ratios[i], room.shares[i], most[i], mobility[i])
        if mobility[i] > 0.0 and most[i] > 0.0:
            put_inertia(level, damping, max(most[i], largest), memory, is_shared)
        else:
            for k in range(36):
                Lambda[k] = 0.0
            for k in range(6):
                room.shares[i, k] = 0.0 if count > 0.0 else 1.0
        for a in range(6):
            x[a] = mask[a] * row[WRENCH + a]
        rotate_to_base(row, x, y)
        for a in range(6):
            forces[6 * i + a] = y[a]
            for b in range(6):
                forces[6 * i + a] += Lambda[6 * a + b] * r[6 * i + b]
        if (i < levels - 1 and mobility[i] > 0.0 and most[i] > 0.0
                and fades(room.shares[i])):
            if not is_shared:
                is_shared = True
                for j in range(6 * levels):
                    for k in range(J.shape[1]):
                        room.held[j, k] = 0.0
            put_held_part(level, W, i, length, memory)
            _add_held(i, levels, C, J, W, room.held, x)
        _eliminate(i, levels, Lambda, J, W, r, x)
        if is_shared:
            _eliminate_held(i, levels, W, room.held)
        for k in range(36):
            room.inertias[c, i, k // 6, k % 6] = weight * Lambda[k]
    for i in range(6 * levels - 7, -1, -1):
        for j in range(6 * (i // 6) + 6, 6 * levels):
            forces[i] -= W[j, i] * forces[j]


class Room(NamedTuple):
    """
    Input, results and memory of a solve, as views into one array: see `room_of`.

    Attributes
    ----------
    at : (k,) int
        Index of the link of each level.
    rows, F, forces, ratios, shares, directions
        See `Priorities`.
    J, W, inertias : (c, 6 k, n), (c, 6 k, 6 k), (c, k, 6, 6)
        Results of c solves, one for each value of the activations. J: the Jacobian of each level
        in the null space of the higher levels, base axes. W: Lⱼᵢ in the blocks below the diagonal.
        inertias: Λ of the controlled directions, times the weight of the solve. A joint
        acceleration q̈ needs the torques Σ JᵢᵀΛᵢJᵢ q̈ against the tasks.
    masks, most, mobility, r, parts, scratch, held
        Working memory.

    """

    at: Array
    rows: Array
    F: Array
    forces: Array
    ratios: Array
    shares: Array
    directions: Array
    J: Array
    W: Array
    inertias: Array
    masks: Array
    most: Array
    mobility: Array
    r: Array
    parts: Array
    scratch: Array
    held: Array


@inlined
def room_of(integers, numbers):
    """
    Return the memory of a solve, with its input and results, as a `Room`.

    Its arrays are views into `integers` and `numbers`, the two arrays of `Priorities`.

    """
    k, m, n = integers[0], integers[1], integers[2]
    c, i = 6 * k + 1, 0
    F, i = numbers[i:i + 6 * m], i + 6 * m
    rows, i = view(numbers, i, (k, WIDTH)), i + WIDTH * k
    forces, i = numbers[i:i + 6 * k], i + 6 * k
    ratios, i = view(numbers, i, (k, 6)), i + 6 * k
    shares, i = view(numbers, i, (k, 6)), i + 6 * k
    directions, i = view(numbers, i, (k, 6, 6)), i + 36 * k
    masks, i = view(numbers, i, (k, 6)), i + 6 * k
    most, mobility, i = numbers[i:i + k], numbers[i + k:i + 2 * k], i + 2 * k
    J, i = view(numbers, i, (c, 6 * k, n)), i + c * 6 * k * n
    W, i = view(numbers, i, (c, 6 * k, 6 * k)), i + c * 36 * k * k
    inertias, i = view(numbers, i, (c, k, 6, 6)), i + c * 36 * k
    r, parts, i = numbers[i:i + 6 * k], numbers[i + 6 * k:i + 12 * k], i + 12 * k
    scratch, i = numbers[i:i + SCRATCH_WIDTH], i + SCRATCH_WIDTH
    return Room(integers[3:], rows, F, forces, ratios, shares, directions, J, W, inertias, masks,
                most, mobility, r, parts, scratch, view(numbers, i, (6 * k, n)))


@viewing
def link_forces(integers, numbers):
    """View of the forces F (6 m,) on the m links, in the arrays of `Priorities`."""
    return numbers[:6 * integers[1]]


@viewing
def level_rows(integers, numbers):
    """View of the rows (k, WIDTH) of the levels, in the arrays of `Priorities`."""
    return view(numbers, 6 * integers[1], (integers[0], WIDTH))


@viewing
def first_force(integers, numbers):
    """View of the force (6,) of the first task on its link, in the arrays of `Priorities`."""
    return view(numbers, 6 * integers[1] + WIDTH * integers[0], (6,))


def solver_size(k: int, m: int, n: int) -> int:
    """Length of the array `numbers` of `Priorities`, for k levels, m links and n joints."""
    c = 6 * k + 1
    return results_size(k, m, n) + c * (36 * k * k + 36 * k) + 12 * k + SCRATCH_WIDTH + 6 * k * n


def results_size(k: int, m: int, n: int) -> int:
    """Length of the part of `numbers` that is read after a solve: up to W in `room_of`."""
    return k * (WIDTH + 62) + 6 * m + (6 * k + 1) * 6 * k * n


@part
def put_solution(integers, numbers, links_J, links_W, a0, length, low, high):
    """
    Write the forces of the levels, and their sum for each link, to the memory of the solve.

    For this memory see `room_of`. Returns the number of solves: one for each different value of
    the activations.

    """
    room = room_of(integers, numbers)
    rows, masks = room.rows, room.masks
    for k in range(len(room.forces)):
        room.forces[k] = 0.0
    upper, count = 1.0, 0
    while upper > 0.0:
        lower = 0.0
        for i in range(len(rows)):
            for a in range(6):
                activation = rows[i, ACTIVATION + a]
                masks[i, a] = 1.0 if activation >= upper else 0.0
                if activation < upper:
                    lower = max(lower, activation)
        _solve((links_J, links_W, a0), (length, low, high), upper - lower, room, count)
        for k in range(len(room.forces)):
            room.forces[k] += (upper - lower) * room.parts[k]
        upper, count = lower, count + 1
    for k in range(len(room.F)):
        room.F[k] = 0.0
    for i in range(len(rows)):
        if rows[i, MAPPED] != 0.0:
            put_link_force(rows[i], room.forces[6 * i:6 * i + 6], room.scratch)
        for a in range(6):
            room.F[6 * room.at[i] + a] += room.forces[6 * i + a]
    return count


solve = kernel(plain(put_solution))


@kernel
def _put_conditioning(integers, numbers, count, length):
    """Write the singular values and directions of all levels, from the last of `count` solves."""
    room = room_of(integers, numbers)
    A, X = room.scratch[:36], room.scratch[36:72]
    for i in range(len(room.rows)):
        V, axes = view(room.directions[i], 0, (36,)), 0.0
        for a in range(6):
            axes += room.masks[i, a]
        if room.mobility[i] > 0.0 and room.most[i] > 0.0:
            largest = max(room.most[i], put_gram(room.rows[i], room.masks[i], room.J[count - 1], i,
                                              length, A, X))
            for a in range(6):
                A[7 * a] += room.most[i] * (1.0 - room.masks[i, a])
            put_ratios(A, V, largest, room.ratios[i])
        else:
            for k in range(36):
                V[k] = 0.0
            for k in range(6):
                room.ratios[i, k] = 0.0 if axes > 0.0 else 1.0


@inlined
def velocity_wanted(row, x, y, start):
    """Write the velocity of a level's target (base axes) to y[start:start + 6]; overwrites x."""
    for a in range(6):
        x[a] = row[VELOCITY + a]
    rotate_to_base(row, x, y[start:])


@inlined
def forces_for(room, count, r, parts, F):
    """
    Write to F (6 m,) the forces on the m links that accelerate the k levels by r (6 k,).

    The factors are those of the last solve, so F is valid for the state and the activations of
    that solve. `count` is the number of solves, r is in base axes, and `parts` (6 k,) is working
    memory.

    """
    at, W, inertias, size = room.at, room.W, room.inertias, len(r)
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
            add_link_force(room.rows[i // 6], parts[i:i + 6], F[6 * at[i // 6]:])


class Priorities:
    """
    Solver for the forces of tasks on links, with the results of its last call.

    Parameters
    ----------
    at : sequence of int, length k
        Index of the link of each level, highest priority first.
    links : int
    n : int
        Number of joints.
    arrays : (integers, numbers), optional
        Memory: integers that begin with k, links, n and `at`; numbers that begin with
        `solver_size` zeros. Default: new arrays.

    Attributes
    ----------
    rows : (k, WIDTH)
        Commands of the levels, see `level_row`; the caller fills them before each call.
    forces : (6 k,)
        Force of each level, base axes [N·m, N]; it also compensates the forces of lower levels.
    shares : (k, 6)
        Controlled share of each singular direction, 0 to 1.

    """

    def __init__(self, at: Sequence[int], links: int, n: int,
                 arrays: tuple[Array, Array] | None = None) -> None:
        k = len(at)
        self._integers, self._numbers = arrays or (
            np.array([k, links, n, *at]), np.zeros(solver_size(k, links, n)))
        self._room: Room = Room(*plain(room_of)(self._integers, self._numbers))
        self.rows: Array = self._room.rows
        self.rows[:, FRAME:] = np.eye(3).ravel()
        self.rows[:, FASTEST] = np.inf
        self.forces: Array = self._room.forces
        self.shares: Array = self._room.shares
        self.shares[:] = self._room.ratios[:] = 1.0
        self.F: Array = self._room.F
        self._solves, self._length = 0, 1.0

    @property
    def arrays(self) -> tuple[Array, Array]:
        """First arguments of every kernel of this module: `integers` and `numbers`."""
        return self._integers, self._numbers

    def solve(self, J: Array, Lambda_inv: Array, a0: Array, damping: SingularityDamping) -> Array:
        """
        Forces (6 m,) on the m links, base axes [N·m, N], for J (6 m, n) and Λ⁻¹ (6 m, 6 m).

        a0 (6 m,) are the accelerations of the links under τ⁰ alone [rad/s², m/s²].

        """
        self.note(solve(self._integers, self._numbers, J, Lambda_inv, a0, damping.length,
                        damping.low, damping.high), damping.length)
        return self.F

    def note(self, solves: int, length: float) -> None:
        """Record `solves`, the result of a call of `solve`, and its characteristic length [m]."""
        self._solves, self._length = solves, length

    @property
    def ratios(self) -> Array:
        """
        Singular values (k, 6) of each level in the last `solve`, relative to the largest.

        Only controlled axes count. Every read computes the values again.

        """
        return self._conditioning()[0]

    @property
    def directions(self) -> Array:
        """
        Singular directions (k, 6, 6) of each level, in the columns, in the axes of its frame.

        The linear parts are in units of the characteristic length.

        """
        return self._conditioning()[1]

    def _conditioning(self) -> tuple[Array, Array]:
        """Ratios and directions, from a copy of the numbers, which a control tick may be using."""
        if self._solves == 0:
            return self._room.ratios, self._room.directions
        numbers = self._numbers.copy()
        _put_conditioning(self._integers, numbers, self._solves, self._length)
        room = plain(room_of)(self._integers, numbers)
        return room.ratios, room.directions

    def weakest(self, level: int = 0) -> Array:
        """
        Direction (6,) of a task's smallest singular value: its control fades out first.

        It is in the axes of the task's frame, [angular; linear]; its norm is 1 if the linear part
        is in units of the characteristic length.

        """
        ratios, directions = self._conditioning()
        return np.asarray(directions[level][:, np.argmin(ratios[level])])
