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
scaled Jⱼ, and D is 0 if no direction is faded out.

Of a direction that level i fades out, with share s of control, a residual of about 1 - s remains
in Jⱼ of a lower level. That level controls it with the share 1 - s at most: otherwise it would
take the whole direction over as soon as the residual exceeds its own threshold, while level i
still controls nearly all of it, and in conflict the torques would jump.

The velocity of some tasks is not their link's twist, but S times this twist (S: `level_map`).
Such a level has S J in place of J, its W and a⁰ are mapped too, and the force on its link is Sᵀ F.

An activation a between 0 and 1 is not a weight in this solve: a task with a small weight would
still override all tasks below it. Instead the solutions with and without the task are blended: F
is the mean over θ in (0, 1) of the solutions that control only the axes with a > θ.

There are k levels on m links with n joints. Commands are in the axes of the level's frame if no
other axes are named; S is in base axes, and the identity where `is_mapped` is 0. Λ acts in the
controlled axes of the level only: `mask` (6,) is 1 for these. Matrices are 6 × 6, flat; A, B, V
and X, and the slots work_A … work_D, are working memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import ahead, inlined, kernel, part, plain, view
from osc_ros.compile.record_type import Slot, Table
from osc_ros.dynamics.algebra.task_inertia import (
    diagonalize,
    EXACT_HIGH,
    share,
    SingularityDamping,
)

SOLVES = '6k + 1'  # largest number of solves: of different values of the activations

LEVELS_M = (
    Slot('level_link', ('k',), '', 'index of the link of each level', int),
    Slot('singular_length', (), 'm', 'length of `SingularityDamping`'),
    Slot('singular_low', (), '', 'its low'),
    Slot('singular_high', (), '', 'its high'))

LEVELS_D = (
    # commands
    Slot('level_activation', ('k', 6), '', 'share of each axis that is controlled'),
    Slot('level_u', ('k', 6), 'rad/s², m/s²', 'commanded accelerations'),
    Slot('level_spring', ('k', 6), 'N·m, N', 'forces of the springs'),
    Slot('level_root', ('k', 6), '', '√K of the stiffness K'),
    Slot('level_weight', ('k', 6), '', '√(2 ζ K) of each axis, for the damping of a spring with '
         'the damping ratio ζ and the stiffness K'),
    Slot('level_rate', ('k', 6), 'rad/s, m/s', 'velocity errors'),
    Slot('level_wrench', ('k', 6), 'N·m, N', 'additional forces'),
    Slot('level_fastest', ('k',), 'rad²/s²', 'squares of the highest natural frequencies of '
         'spring and mobility'),
    Slot('level_velocity', ('k', 6), 'rad/s, m/s', 'velocities of the targets along the axes of '
         'motion; `solve` does not read them'),
    Slot('is_mapped', ('k',), '', 'whether the velocity of the coordinates of a level is '
         '`level_map` times the twist of its link', bool),
    Slot('level_map', ('k', 36), '', '6 × 6, base axes'),
    Slot('level_frame', ('k', 9), '', 'rotations of the frames to base axes'),
    # results
    Slot('link_F', ('6m',), 'N·m, N', 'forces of the tasks on the links, base axes'),
    Slot('solves', (), '', 'number of the last solves: one for each different value of the '
         'activations', int),
    Slot('level_F', ('6k',), 'N·m, N', 'forces of the levels, base axes'),
    Slot('level_ratios', ('k', 6), '', 'singular values, relative to the largest'),
    Slot('level_shares', ('k', 6), '', 'controlled share of each singular direction'),
    Slot('level_directions', ('k', 6, 6), '', 'singular directions, in columns'),
    Slot('level_mask', ('k', 6), '', '1 for the axes that the last solve controls'),
    Slot('level_most', ('k',), '', 'largest squared singular value before the elimination'),
    Slot('level_mobility', ('k',), '', 'scaled mobility before the elimination'),
    Slot('level_J', (SOLVES, '6k', 'n'), '', 'of each solve, the Jacobian of each level in the '
         'null space of the higher levels, base axes'))

LEVELS_ROOM = (
    Slot('level_W', (SOLVES, '6k', '6k'), '', 'of each solve, the mobility; Lⱼᵢ in the blocks '
         'below the diagonal'),
    Slot('level_Lambda', (SOLVES, 'k', 6, 6), '', 'of each solve, Λ of the controlled directions, '
         'times the weight of the solve. A joint acceleration q̈ needs the torques Σ JᵢᵀΛᵢJᵢ q̈ '
         'against the tasks'),
    Slot('level_r', ('6k',), '', 'memory for accelerations'),
    Slot('level_parts', ('6k',), '', 'memory for forces'),
    Slot('level_held', ('6k', 'n'), '', 'parts of the Jacobians that higher levels hold'),
    *(Slot(f'work_{one}', (36,), '', 'memory for a matrix')
      for one in ('A', 'B', 'V', 'X', 'Lambda', 'K', 'C', 'D')),
    *(Slot(f'work_{one}', (6,), '', 'memory for a vector') for one in ('x', 'y')))


@inlined
def map_level(S, i, a0, J, W, r, x):
    """Convert J, W and r = u - a⁰ of level i from the twist of its link to S times the twist."""
    own = 6 * i
    for a in range(6):
        r[own + a] += a0[a]
        for c in range(6):
            r[own + a] -= S[6 * a + c] * a0[c]
    for k in range(J.shape[1]):
        _multiply(S, J[own:own + 6, k], x)
    for k in range(W.shape[1]):
        _multiply(S, W[own:own + 6, k], x)
    for k in range(len(W)):
        _multiply(S, W[k, own:own + 6], x)


@inlined
def _multiply(S, y, x):
    """Replace y (6,) by S y; overwrites x."""
    for a in range(6):
        x[a] = y[a]
    for a in range(6):
        y[a] = 0.0
        for c in range(6):
            y[a] += S[6 * a + c] * x[c]


@inlined
def put_link_force(S, force, x):
    """Replace a level's force f (6,) by the wrench Sᵀ f on its link, in place; overwrites x."""
    for a in range(6):
        x[a] = force[a]
    for a in range(6):
        force[a] = 0.0
        for c in range(6):
            force[a] += S[6 * c + a] * x[c]


@inlined
def subtract_velocity(d, i, twist, y):
    """Subtract a level's velocity, S times the twist of its link, from y[6 i:6 i + 6]."""
    for a in range(6):
        if d.is_mapped[i] != 0:
            for c in range(6):
                y[6 * i + a] -= d.level_map[i, 6 * a + c] * twist[c]
        else:
            y[6 * i + a] -= twist[a]


@inlined
def add_link_force(d, i, force, total):
    """Add the wrench Sᵀ f on a level's link to `total`; f (6,) is in the level's coordinates."""
    for a in range(6):
        if d.is_mapped[i] != 0:
            for c in range(6):
                total[a] += d.level_map[i, 6 * c + a] * force[c]
        else:
            total[a] += force[a]


_SMALLEST_PIVOT = 1e-14  # relative to the trace: a smaller pivot is a rounding error
# Modes whose eigenvalue of √K W √K is smaller than this, relative to the largest, are not damped.
_STIFFEST = 1e-12


@inlined
def rotate_to_frame(T, x, y, start):
    """Write Tᵀ x (6,) to y[start:start + 6]: x is in base axes, y in the frame's axes."""
    for half in range(0, 6, 3):
        for i in range(3):
            y[start + half + i] = (T[i] * x[half] + T[3 + i] * x[half + 1]
                                   + T[6 + i] * x[half + 2])


@inlined
def rotate_to_base(T, x, y):
    """Write T x (6,) to y: x is in the frame's axes, y in base axes."""
    for half in range(0, 6, 3):
        for i in range(3):
            y[half + i] = (T[3 * i] * x[half] + T[3 * i + 1] * x[half + 1]
                           + T[3 * i + 2] * x[half + 2])


@inlined
def _put_inverse(A, X):
    """Write X = A⁻¹ (6 × 6, flat, symmetric) by LDLᵀ with bounded pivots; overwrites A."""
    trace = 0.0
    for i in range(6):
        trace += A[7 * i]
    for k in range(6):
        A[7 * k] = max(A[7 * k], _SMALLEST_PIVOT * trace)
        for i in range(k + 1, 6):
            row = A[6 * i + k] / A[7 * k]
            for j in range(k + 1, i + 1):
                A[6 * i + j] -= row * A[6 * j + k]
        for i in range(k + 1, 6):
            A[6 * i + k] /= A[7 * k]
    for c in range(6):
        for i in range(6):
            total = 1.0 if i == c else 0.0
            for j in range(i):
                total -= A[6 * i + j] * X[6 * j + c]
            X[6 * i + c] = total
        for i in range(5, -1, -1):
            total = X[6 * i + c] / A[7 * i]
            for j in range(i + 1, 6):
                total -= A[6 * j + i] * X[6 * j + c]
            X[6 * i + c] = total


@inlined
def _add_impedance(d, i, W, A, V, x, r):
    """Add to r the acceleration by the spring and modal damping of a level, frame's axes."""
    # Modes: eigenvectors of √K W √K = V a Vᵀ; natural frequencies √a. The stiffness of a mode with
    # a > f, f = `level_fastest`, is reduced: K becomes √K V min(1, f/a) Vᵀ √K, and the damping of
    # the mode is computed from the reduced stiffness.
    stiffest = 0.0
    root, weight, spring = d.level_root[i], d.level_weight[i], d.level_spring[i]
    rate, fastest = d.level_rate[i], d.level_fastest[i]
    for a in range(6):
        for j in range(6):
            A[6 * a + j] = root[a] * W[6 * a + j] * root[j]
    diagonalize(A, V, 6)
    for k in range(6):
        stiffest = max(stiffest, A[7 * k])
        x[k] = spring[k]
    for k in range(6):
        if A[7 * k] > _STIFFEST * stiffest:
            along = 0.0
            for a in range(6):
                along += V[6 * a + k] * weight[a] * rate[a]
            less = min(1.0, fastest / A[7 * k])
            along *= np.sqrt(less / A[7 * k])
            pull = 0.0
            if less < 1.0:
                for a in range(6):
                    if root[a] > 0.0:
                        pull += V[6 * a + k] * spring[a] / root[a]
                pull *= less - 1.0
            for a in range(6):
                x[a] += V[6 * a + k] * (weight[a] * along + root[a] * pull)
    for a in range(6):
        for j in range(6):
            r[a] += W[6 * a + j] * x[j]


@inlined
def _in_frame(T, B, X):
    """Replace B (6 × 6, flat, base axes) by Tᵀ B T (frame's axes); overwrites X."""
    for a in range(6):
        part = 3 * (a // 3)
        for b in range(6):
            X[6 * a + b] = (T[a % 3] * B[6 * part + b]
                            + T[3 + a % 3] * B[6 * part + 6 + b]
                            + T[6 + a % 3] * B[6 * part + 12 + b])
    for a in range(6):
        for b in range(6):
            part = 3 * (b // 3)
            B[6 * a + b] = (X[6 * a + part] * T[b % 3]
                            + X[6 * a + part + 1] * T[3 + b % 3]
                            + X[6 * a + part + 2] * T[6 + b % 3])


@inlined
def _put_in_base(T, X, A, Y):
    """Write Y = T X Tᵀ (6 × 6, flat): X is in the frame's axes, Y in base axes; overwrites A."""
    for a in range(6):
        part = 3 * (a // 3)
        for b in range(6):
            A[6 * a + b] = (T[3 * (a % 3)] * X[6 * part + b]
                            + T[3 * (a % 3) + 1] * X[6 * part + 6 + b]
                            + T[3 * (a % 3) + 2] * X[6 * part + 12 + b])
    for a in range(6):
        for b in range(6):
            part = 3 * (b // 3)
            Y[6 * a + b] = (A[6 * a + part] * T[3 * (b % 3)]
                            + A[6 * a + part + 1] * T[3 * (b % 3) + 1]
                            + A[6 * a + part + 2] * T[3 * (b % 3) + 2])


@inlined
def put_block(T, W, i, B, X):
    """Write block (i, i) of W, in the frame's axes of level i, to B (6 × 6); overwrites X."""
    for a in range(6):
        for b in range(6):
            B[6 * a + b] = W[6 * i + a, 6 * i + b]
    _in_frame(T, B, X)


@inlined
def put_gram(T, mask, J, i, length, G, X):
    """Write Gram matrix G = A Aᵀ (6 × 6, flat) of level i; return its largest diagonal entry."""
    # A = S Tᵀ J: T is the level's frame, S scales by the mask, and linear axes also by 1 / length.
    # Overwrites X.
    most = 0.0
    for a in range(6):
        for b in range(a + 1):
            total = 0.0
            for k in range(J.shape[1]):
                total += J[6 * i + a, k] * J[6 * i + b, k]
            G[6 * a + b] = G[6 * b + a] = total
    _in_frame(T, G, X)
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else 1.0 / length) * (1.0 if b < 3 else 1.0 / length)
            G[6 * a + b] *= units * mask[a] * mask[b]
        most = max(most, G[7 * a])
    return most


@inlined
def _is_regular(A, largest, high, X):
    """Return True only if all eigenvalues of A (6 × 6, flat) exceed high² times the largest."""
    # Conservative: the largest is replaced by an upper bound, the Frobenius norm, or `largest` if
    # larger. By a Cholesky factorization of A - c 1, in a tenth of the time of an eigenvalue
    # decomposition. Overwrites X.
    norm = 0.0
    for k in range(36):
        norm += A[k] * A[k]
    least = high * high * max(np.sqrt(norm), largest)
    for i in range(6):
        for j in range(i + 1):
            total = A[6 * i + j] - (least if i == j else 0.0)
            for k in range(j):
                total -= X[6 * i + k] * X[6 * j + k]
            if i == j:
                if not total > _SMALLEST_PIVOT * norm:
                    return False
                X[7 * i] = np.sqrt(total)
            else:
                X[6 * i + j] = total / X[7 * j]
    return True


@inlined
def _exact_inverse(d, i, length):
    """Write Λ of a level (base axes) if no direction of its controlled axes is singular."""
    # work_B contains W in the frame's axes. Overwrites work_A and work_X.
    mask, A, B, X, count = d.level_mask[i], d.work_A, d.work_B, d.work_X, 0.0
    for k in range(6):
        count += mask[k]
    typical = d.level_mobility[i] / count  # diagonal entry of axes that are not controlled
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else 1.0 / length) * (1.0 if b < 3 else 1.0 / length)
            A[6 * a + b] = units * mask[a] * mask[b] * B[6 * a + b]
        A[7 * a] += typical * (1.0 - mask[a])
    _put_inverse(A, X)
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else 1.0 / length) * (1.0 if b < 3 else 1.0 / length)
            X[6 * a + b] *= units * mask[a] * mask[b]
    _put_in_base(d.level_frame[i], X, A, d.work_Lambda)


@inlined
def _damped_inverse(d, i, shares, length, Lambda):
    """Write Λ of a level (base axes), with singular directions faded out."""
    # Λ = E (√s Vᵀ (S W S + N) V √s + D)⁻¹ Eᵀ, E = T S V √s: columns of V: singular directions, s:
    # their shares of control (0: no force), S as in `put_gram`, T the frame, N diagonal. work_B
    # contains W in the frame's axes. Overwrites work_A, work_B and work_X.
    T, mask, ratios = d.level_frame[i], d.level_mask[i], d.level_ratios[i]
    A, B, V, X = d.work_A, d.work_B, d.work_V, d.work_X
    count, squares = 0.0, 0.0
    for k in range(6):
        count += mask[k]
        squares += ratios[k] * ratios[k]
    typical = d.level_mobility[i] / count  # diagonal entry of axes that are not controlled
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else 1.0 / length) * (1.0 if b < 3 else 1.0 / length)
            X[6 * a + b] = units * mask[a] * mask[b] * B[6 * a + b]
        X[7 * a] += typical * (1.0 - mask[a])
    for k in range(6):
        for a in range(6):
            B[6 * k + a] = 0.0
            for b in range(6):
                B[6 * k + a] += V[6 * b + k] * X[6 * b + a]
    for k in range(6):
        for m in range(6):
            total = 0.0
            for a in range(6):
                total += B[6 * k + a] * V[6 * a + m]
            A[6 * k + m] = np.sqrt(shares[k] * shares[m]) * total
        # D: (1 - s) times an estimate of the direction's mobility; 0 if all s are 1: Λ is exact.
        # Equal ratios have equal estimates: Λ is the same for every V of equal singular values.
        size = max(ratios[k] * ratios[k] / squares, EXACT_HIGH) * 6.0 * typical
        A[7 * k] += size * (1.0 - shares[k])
    _put_inverse(A, X)
    for a in range(6):
        half = 3 * (a // 3)
        unit = 1.0 if a < 3 else 1.0 / length
        for k in range(6):
            total = 0.0
            for b in range(half, half + 3):
                total += T[3 * (a - half) + b - half] * mask[b] * V[6 * b + k]
            B[6 * a + k] = unit * np.sqrt(shares[k]) * total
    for a in range(6):
        for m in range(6):
            A[6 * a + m] = 0.0
            for k in range(6):
                A[6 * a + m] += B[6 * a + k] * X[6 * k + m]
    for a in range(6):
        for b in range(6):
            Lambda[6 * a + b] = 0.0
            for m in range(6):
                Lambda[6 * a + b] += A[6 * a + m] * B[6 * b + m]


@inlined
def put_ratios(A, V, largest, ratios):
    """Write singular directions V and relative singular values, from the Gram matrix A."""
    diagonalize(A, V, 6)
    for k in range(6):
        largest = max(largest, A[7 * k])
    for k in range(6):
        ratios[k] = np.sqrt(max(A[7 * k], 0.0) / largest)


@inlined
def scaled_mobility(mask, B, length):
    """Trace of W (6 × 6, in B) over the axes in `mask`; linear entries are divided by length²."""
    total = 0.0
    for a in range(6):
        unit = 1.0 if a < 3 else 1.0 / length
        total += mask[a] * unit * unit * B[7 * a]
    return total


@inlined
def add_spring(d, i):
    """Add the acceleration by spring and damper of level i to `level_r`; work_B is its W."""
    T, x, y, r = d.level_frame[i], d.work_x, d.work_y, d.level_r
    for a in range(6):
        x[a] = r[6 * i + a]
    rotate_to_frame(T, x, y, 0)
    _add_impedance(d, i, d.work_B, d.work_A, d.work_V, x, y)
    rotate_to_base(T, y, x)
    for a in range(6):
        r[6 * i + a] = x[a]


@inlined
def put_inertia(m, d, i, largest, is_shared):
    """Write Λ of a level, with singular directions faded out, and its shares and ratios."""
    # Overwrites work_A (its Gram matrix), work_B (W, frame's axes), work_V and work_X. If
    # `is_shared`, work_K is the Gram matrix of the part of its Jacobian that higher levels hold:
    # of a direction that they fade out, the level gets only what they give up.
    length, low, high = m.singular_length, m.singular_low, m.singular_high
    A, V, K, shares, ratios = d.work_A, d.work_V, d.work_K, d.level_shares[i], d.level_ratios[i]
    # an axis that is not controlled must not look singular: it gets the largest value
    for a in range(6):
        A[7 * a] += d.level_most[i] * (1.0 - d.level_mask[i, a])
    if not is_shared and _is_regular(A, largest, high, d.work_X):
        for k in range(6):
            shares[k] = 1.0
        _exact_inverse(d, i, length)
    else:
        put_ratios(A, V, largest, ratios)
        for k in range(6):
            shares[k] = share(ratios[k], low, high)
            if is_shared and shares[k] > 0.0:
                held = 0.0
                for a in range(6):
                    for b in range(6):
                        held += V[6 * a + k] * K[6 * a + b] * V[6 * b + k]
                shares[k] *= 1.0 - min(1.0, np.sqrt(max(held, 0.0) / A[7 * k]))
        _damped_inverse(d, i, shares, length, d.work_Lambda)


@inlined
def fades(shares):
    """Whether a level controls a direction in part (shares (6,))."""
    for k in range(6):
        if 0.0 < shares[k] < 1.0:
            return True
    return False


@inlined
def put_held_part(d, i, W, length):
    """Write C (6 × 6, base axes) of level i: it holds the part Wⱼᵢ C Jᵢ of a lower level's Jⱼ."""
    # C = Σ sₖ (Λₖ - Λₖ₋₁), continuous where sₖ becomes 0 or 1. Λ₀ = work_Lambda; Λₖ fully controls
    # one more faded direction than Λₖ₋₁, largest ratio first: in the null space of level i, Jⱼ has
    # the part Wⱼᵢ (Λₖ - Λₖ₋₁) Jᵢ along it. work_V: V. Overwrites work_A, _B, _X, _D, _x.
    C, D, x, shares, ratios = d.work_C, d.work_D, d.work_x, d.level_shares[i], d.level_ratios[i]
    for a in range(6):
        x[a] = shares[a]
    for a in range(36):
        C[a], D[a] = 0.0, d.work_Lambda[a]
    k = 0
    while k >= 0:
        k = -1
        for a in range(6):
            if 0.0 < x[a] < 1.0 and (k < 0 or ratios[a] > ratios[k]):
                k = a
        if k >= 0:
            for a in range(36):
                C[a] -= x[k] * D[a]
            x[k] = 1.0
            put_block(d.level_frame[i], W, i, d.work_B, d.work_X)
            _damped_inverse(d, i, x, length, D)
            for a in range(36):
                C[a] += shares[k] * D[a]


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
    T, mask, length, A, B, X = (d.level_frame[i], d.level_mask[i], m.singular_length, d.work_A,
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
    length, levels, is_shared = m.singular_length, d.k, False
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
    """Write the forces of the levels, and their sum for each link."""
    for k in range(6 * d.k):
        d.level_F[k] = 0.0
    upper, d.solves = 1.0, 0
    while upper > 0.0:
        lower = 0.0
        for i in range(d.k):
            for a in range(6):
                activation = d.level_activation[i, a]
                d.level_mask[i, a] = 1.0 if activation >= upper else 0.0
                if activation < upper:
                    lower = max(lower, activation)
        _put_forces_of_mask(m, d, (links_J, links_W, a0), upper - lower, d.solves)
        for k in range(6 * d.k):
            d.level_F[k] += (upper - lower) * d.level_parts[k]
        upper = lower
        d.solves += 1
    for k in range(len(d.link_F)):
        d.link_F[k] = 0.0
    for i in range(d.k):
        if d.is_mapped[i] != 0:
            put_link_force(d.level_map[i], d.level_F[6 * i:6 * i + 6], d.work_x)
        for a in range(6):
            d.link_F[6 * m.level_link[i] + a] += d.level_F[6 * i + a]


solve = kernel(plain(put_solution))


@kernel
def _put_conditioning(m, d):
    """Write the singular values and directions of all levels, from the last solve."""
    A, X = d.work_A, d.work_X
    for i in range(d.k):
        V, axes, most = view(d.level_directions[i], 0, (36,)), 0.0, d.level_most[i]
        for a in range(6):
            axes += d.level_mask[i, a]
        if d.level_mobility[i] > 0.0 and most > 0.0:
            J = d.level_J[d.solves - 1]
            largest = max(most, put_gram(d.level_frame[i], d.level_mask[i], J, i,
                                         m.singular_length, A, X))
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
def forces_for(m, d, r, parts, F):
    """Write to F (6 m,) the forces on the m links that accelerate the k levels by r (6 k,)."""
    # By the factors of the last solves: valid for their state and activations. r is in base axes;
    # `parts` (6 k,) is working memory.
    at, W, inertias, size = m.level_link, d.level_W, d.level_Lambda, len(r)
    for k in range(len(F)):
        F[k] = 0.0
    for c in range(d.solves):
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
    # and joints. records: (m, d) with the slots LEVELS_M and LEVELS_D; default: new ones. The
    # caller writes the commands of the levels to d before each call.

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

    def solve(self, J: Array, Lambda_inv: Array, a0: Array, damping: SingularityDamping) -> Array:
        """Forces (6 m,) on m links, base axes [N·m, N], for J (6 m, n) and Λ⁻¹ (6 m, 6 m)."""
        # a0 (6 m,): accelerations of the links under τ⁰ alone [rad/s², m/s²].
        put_singularity(self.m, damping)
        solve(self.m, self.d, J, Lambda_inv, a0)
        return self.F

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
        d = self.d.copy()
        if d.solves > 0:
            _put_conditioning(self.m, d)
        return d.level_ratios, d.level_directions

    def weakest(self, level: int = 0) -> Array:
        """Direction (6,) of a task's smallest singular value: its control fades out first."""
        # Axes of the task's frame, [angular; linear]; norm 1 if the linear part is in units of the
        # characteristic length.
        ratios, directions = self._conditioning()
        return np.asarray(directions[level][:, np.argmin(ratios[level])])


def put_singularity(m: Any, damping: SingularityDamping) -> None:
    """Write the thresholds of singular directions to a record LAW_M or PRIORITY_M."""
    m.singular_length, m.singular_low, m.singular_high = damping.length, damping.low, damping.high


@ahead
def _compile() -> None:
    """Compile or load the kernels for records of `Priorities` alone, also beside a loop."""
    m, d = PRIORITY_M.new(n=1, k=1, m=1), PRIORITY_D.new(n=1, k=1, m=1)
    m.singular_length, m.singular_low, m.singular_high = 1.0, 0.1, 0.2
    solve(m, d, np.zeros((6, 1)), np.zeros((6, 6)), np.zeros(6))
    _put_conditioning(m, d)
