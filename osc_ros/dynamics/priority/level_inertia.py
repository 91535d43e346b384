# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The task-space inertia Λ of one priority level; singular directions are faded out.

Λ acts in the controlled axes of the level only. `osc_ros.dynamics.priority.priority` defines the
mobility W, the frame T (9,) and the Jacobian J of a level. `mask` (6,) is 1 for controlled axes.
Matrices are 6 × 6, flat; A, B, V and X, and the slots work_A … work_D, are working memory.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.dynamics.algebra.task_inertia import diagonalize, EXACT_HIGH, share

_SMALLEST_PIVOT = 1e-14  # relative to the trace: a smaller pivot is a rounding error
# Modes whose eigenvalue of √K W √K is smaller than this, relative to the largest, are not damped.
_STIFFEST = 1e-12


@inlined
def rotate_to_frame(T, x, y, start):
    """Write Tᵀ x (6,) to y[start:start + 6]: x is in base axes, y in the frame's axes."""
    for part in range(0, 6, 3):
        for i in range(3):
            y[start + part + i] = (T[i] * x[part] + T[3 + i] * x[part + 1]
                                   + T[6 + i] * x[part + 2])


@inlined
def rotate_to_base(T, x, y):
    """Write T x (6,) to y: x is in the frame's axes, y in base axes."""
    for part in range(0, 6, 3):
        for i in range(3):
            y[part + i] = (T[3 * i] * x[part] + T[3 * i + 1] * x[part + 1]
                           + T[3 * i + 2] * x[part + 2])


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
    length, low, high = m.singularity[0], m.singularity[1], m.singularity[2]
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
