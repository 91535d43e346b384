# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""
The inertia of one level of tasks: in the axes that it controls, without singular directions.

A level's Λ is E (Eᵀ W E + D)⁻¹ Eᵀ, see `osc_ros.dynamics.priority`. Matrices are 6 × 6, flat.
"""

from __future__ import annotations

import numpy as np

from osc_ros.dynamics.compiled import inlined
from osc_ros.dynamics.level_row import FASTEST, FRAME, RATE, ROOT, SPRING, WEIGHT
from osc_ros.dynamics.task_inertia import diagonalize, EXACT_HIGH, share

_SMALLEST_PIVOT = 1e-14  # relative to the trace: a smaller pivot is a rounding error
_STIFFEST = 1e-12  # eigenvalues of √K W √K relative to the largest, below which nothing is damped


@inlined
def rotate_to_frame(row, x, y, start):
    """Write Tᵀ x (6,) to y[start:start + 6]: x is in base axes, y in the frame's axes."""
    for part in range(0, 6, 3):
        for i in range(3):
            y[start + part + i] = (row[FRAME + i] * x[part] + row[FRAME + 3 + i] * x[part + 1]
                                   + row[FRAME + 6 + i] * x[part + 2])


@inlined
def rotate_to_base(row, x, y):
    """Write T x (6,) to y: x is in the frame's axes, y in base axes."""
    for part in range(0, 6, 3):
        for i in range(3):
            y[part + i] = (row[FRAME + 3 * i] * x[part] + row[FRAME + 3 * i + 1] * x[part + 1]
                           + row[FRAME + 3 * i + 2] * x[part + 2])


@inlined
def _inverted(A, X):
    """X = A⁻¹ (6 × 6, flat, symmetric; overwrites A) by LDLᵀ with a lower bound for pivots."""
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
def _yielded(row, W, A, V, x, r):
    """
    r += W (spring + damping) by double diagonalization; all in the frame's axes.

    A mode whose natural frequency is too high has less stiffness: with √K W √K = V a Vᵀ the
    stiffness becomes √K V min(1, fastest/a) Vᵀ √K, and the damping is that of this stiffness.

    """
    stiffest = 0.0
    for i in range(6):
        for j in range(6):
            A[6 * i + j] = row[ROOT + i] * W[6 * i + j] * row[ROOT + j]
    diagonalize(A, V, 6)
    for k in range(6):
        stiffest = max(stiffest, A[7 * k])
        x[k] = row[SPRING + k]
    for k in range(6):
        if A[7 * k] > _STIFFEST * stiffest:
            along = 0.0
            for i in range(6):
                along += V[6 * i + k] * row[WEIGHT + i] * row[RATE + i]
            less = min(1.0, row[FASTEST] / A[7 * k])
            along *= np.sqrt(less / A[7 * k])
            pull = 0.0
            if less < 1.0:
                for i in range(6):
                    if row[ROOT + i] > 0.0:
                        pull += V[6 * i + k] * row[SPRING + i] / row[ROOT + i]
                pull *= less - 1.0
            for i in range(6):
                x[i] += V[6 * i + k] * (row[WEIGHT + i] * along + row[ROOT + i] * pull)
    for i in range(6):
        for j in range(6):
            r[i] += W[6 * i + j] * x[j]


@inlined
def _in_frame(row, B, X):
    """Replace B (6 × 6, flat, base axes) by Tᵀ B T (the frame's axes); overwrites X."""
    for a in range(6):
        part = 3 * (a // 3)
        for b in range(6):
            X[6 * a + b] = (row[FRAME + a % 3] * B[6 * part + b]
                            + row[FRAME + 3 + a % 3] * B[6 * part + 6 + b]
                            + row[FRAME + 6 + a % 3] * B[6 * part + 12 + b])
    for a in range(6):
        for b in range(6):
            part = 3 * (b // 3)
            B[6 * a + b] = (X[6 * a + part] * row[FRAME + b % 3]
                            + X[6 * a + part + 1] * row[FRAME + 3 + b % 3]
                            + X[6 * a + part + 2] * row[FRAME + 6 + b % 3])


@inlined
def put_block(row, W, i, B, X):
    """Write the block of W of level i, in the frame's axes, to B (6 × 6, flat); overwrites X."""
    for a in range(6):
        for b in range(6):
            B[6 * a + b] = W[6 * i + a, 6 * i + b]
    _in_frame(row, B, X)


@inlined
def put_gram(row, mask, J, i, length, G, X):
    """G = S Tᵀ J (S Tᵀ J)ᵀ of level i where the mask is 1; return the largest of its diagonal."""
    most = 0.0
    for a in range(6):
        for b in range(a + 1):
            total = 0.0
            for k in range(J.shape[1]):
                total += J[6 * i + a, k] * J[6 * i + b, k]
            G[6 * a + b] = G[6 * b + a] = total
    _in_frame(row, G, X)
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else 1.0 / length) * (1.0 if b < 3 else 1.0 / length)
            G[6 * a + b] *= units * mask[a] * mask[b]
        most = max(most, G[7 * a])
    return most


@inlined
def _is_regular(A, largest, high, X):
    """
    Whether all eigenvalues of A (6 × 6, flat) exceed high² times the largest; X is overwritten.

    Sufficient, not necessary: the Frobenius norm bounds the largest eigenvalue, and A - c 1 is
    factored by Cholesky. It takes a tenth of the time of an eigenvalue decomposition.

    """
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
def _exact_inverse(row, mask, mobility, length, A, B, X, Lambda):
    """Λ of a level, base axes, from W (in B, the frame's axes), with all directions controlled."""
    count = 0.0
    for k in range(6):
        count += mask[k]
    typical = mobility / count  # diagonal entry of axes that are not controlled
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else 1.0 / length) * (1.0 if b < 3 else 1.0 / length)
            A[6 * a + b] = units * mask[a] * mask[b] * B[6 * a + b]
        A[7 * a] += typical * (1.0 - mask[a])
    _inverted(A, X)
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else 1.0 / length) * (1.0 if b < 3 else 1.0 / length)
            X[6 * a + b] *= units * mask[a] * mask[b]
    for a in range(6):
        part = 3 * (a // 3)
        for b in range(6):
            A[6 * a + b] = (row[FRAME + 3 * (a % 3)] * X[6 * part + b]
                            + row[FRAME + 3 * (a % 3) + 1] * X[6 * part + 6 + b]
                            + row[FRAME + 3 * (a % 3) + 2] * X[6 * part + 12 + b])
    for a in range(6):
        for b in range(6):
            part = 3 * (b // 3)
            Lambda[6 * a + b] = (A[6 * a + part] * row[FRAME + 3 * (b % 3)]
                                 + A[6 * a + part + 1] * row[FRAME + 3 * (b % 3) + 1]
                                 + A[6 * a + part + 2] * row[FRAME + 3 * (b % 3) + 2])


@inlined
def _damped_inverse(row, mask, shares, ratios, mobility, length, A, V, B, X, Lambda):
    """
    Λ of a level, base axes, from W (in B, the frame's axes) and the singular directions V.

    With B = T S V √s and X = √s Vᵀ S W S V √s + D, the result is B X⁻¹ Bᵀ: the exact inverse for
    s = 1, and no force along the direction for s = 0, whatever D is. D approximates the mobility
    of the direction, but does not depend on the choice of V for equal singular values.

    """
    count, squares = 0.0, 0.0
    for k in range(6):
        count += mask[k]
        squares += ratios[k] * ratios[k]
    typical = mobility / count  # diagonal entry of axes that are not controlled
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
        size = max(ratios[k] * ratios[k] / squares, EXACT_HIGH) * 6.0 * typical
        A[7 * k] += size * (1.0 - shares[k])
    _inverted(A, X)
    for a in range(6):
        half = 3 * (a // 3)
        unit = 1.0 if a < 3 else 1.0 / length
        for k in range(6):
            total = 0.0
            for b in range(half, half + 3):
                total += row[FRAME + 3 * (a - half) + b - half] * mask[b] * V[6 * b + k]
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
    """Singular values relative to the largest, and their directions V, from a Gram matrix."""
    diagonalize(A, V, 6)
    for k in range(6):
        largest = max(largest, A[7 * k])
    for k in range(6):
        ratios[k] = np.sqrt(max(A[7 * k], 0.0) / largest)


@inlined
def scaled_mobility(mask, B, length):
    """Trace of W (in B, the frame's axes) over the controlled axes, lengths scaled."""
    total = 0.0
    for a in range(6):
        unit = 1.0 if a < 3 else 1.0 / length
        total += mask[a] * unit * unit * B[7 * a]
    return total


@inlined
def add_spring(row, A, B, V, x, y, r, i):
    """Add the acceleration by the spring of level i to r (W is in B); overwrites x and y."""
    for a in range(6):
        x[a] = r[6 * i + a]
    rotate_to_frame(row, x, y, 0)
    _yielded(row, B, A, V, x, y)
    rotate_to_base(row, y, x)
    for a in range(6):
        r[6 * i + a] = x[a]


@inlined
def put_inertia(row, mask, most, mobility, length, low, high, largest, scratch, ratios, shares,
                 V, Lambda):
    """Write Λ of a level, with singular directions faded out; Gram matrix in A, W in B."""
    A, B, X = scratch[:36], scratch[36:72], scratch[108:144]
    # an axis that is not controlled must not look singular: it gets the largest value
    for a in range(6):
        A[7 * a] += most * (1.0 - mask[a])
    if _is_regular(A, largest, high, X):
        for k in range(6):
            shares[k] = 1.0
        _exact_inverse(row, mask, mobility, length, A, B, X, Lambda)
    else:
        put_ratios(A, V, largest, ratios)
        for k in range(6):
            shares[k] = share(ratios[k], low, high)
        _damped_inverse(row, mask, shares, ratios, mobility, length, A, V, B, X, Lambda)
