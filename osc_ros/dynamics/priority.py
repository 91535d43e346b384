"""
The forces of several tasks, each in the dynamically consistent null space of those above it.

With J (6 k, n) and W = Λ⁻¹ (6 k, 6 k) of k levels, highest priority first, and r = u - a⁰, this is
a block LDLᵀ of W from the top, whose pivots are inverted where that can be done well, i = 1 … k:

    Λᵢ = E (Eᵀ Wᵢᵢ E + D)⁻¹ Eᵀ,  fᵢ = Λᵢ rᵢ
    for j > i:  L = Wⱼᵢ Λᵢ,  Wⱼₖ -= L Wᵢₖ,  rⱼ -= L rᵢ,  Jⱼ -= L Jᵢ

and back, Fᵢ = fᵢ - Σ Lⱼᵢᵀ Fⱼ. What is left of Wⱼⱼ is the mobility of task j while the tasks above
hold their accelerations, and what is left of Jⱼ how it can still move. E = √a V √s takes out axes
of the task's frame by their activation a, and singular directions V of the scaled Jⱼ by their
share s, both smoothly (see `osc_ros.dynamics.task_inertia`); D is 0 where both are 1.

"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import inlined, kernel
from osc_ros.dynamics.task_inertia import (
    eigen_decomposed,
    EXACT_HIGH,
    share,
    SingularityDamping,
)

Array = NDArray[np.float64]

# What a level asks for, a row each, all in the axes of its frame: how much of every axis is
# controlled; acceleration; force of the spring, roots of its stiffness, roots of twice damping
# ratio times stiffness, velocity error; force that is added; the frame's rotation to base axes.
ACTIVATION, U, SPRING, ROOT, WEIGHT, RATE, WRENCH, FRAME, WIDTH = 0, 6, 12, 18, 24, 30, 36, 42, 51

_SMALLEST_PIVOT = 1e-14  # of the trace: below it is rounding
_STIFFEST = 1e-12  # eigenvalues of √K W √K relative to the largest, below which nothing is damped


@inlined
def _turned(row, x, y, start):
    """Y = Tᵀ x of six numbers, base axes to the frame's."""
    for part in range(0, 6, 3):
        for i in range(3):
            y[start + part + i] = (row[FRAME + i] * x[part] + row[FRAME + 3 + i] * x[part + 1]
                                   + row[FRAME + 6 + i] * x[part + 2])


@inlined
def _turned_back(row, x, y):
    """Y = T x of six numbers, the frame's axes to base axes."""
    for part in range(0, 6, 3):
        for i in range(3):
            y[part + i] = (row[FRAME + 3 * i] * x[part] + row[FRAME + 3 * i + 1] * x[part + 1]
                           + row[FRAME + 3 * i + 2] * x[part + 2])


@inlined
def _inverted(A, X):
    """X = A⁻¹ (6 × 6, flat, symmetric, A overwritten) by LDLᵀ; a lost pivot counts as none."""
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
    """R += W (spring + damping) by double diagonalization; all in the frame's axes."""
    stiffest = 0.0
    for i in range(6):
        for j in range(6):
            A[6 * i + j] = row[ROOT + i] * W[6 * i + j] * row[ROOT + j]
    eigen_decomposed(A, V, 6)
    for k in range(6):
        stiffest = max(stiffest, A[7 * k])
        x[k] = row[SPRING + k]
    for k in range(6):
        if A[7 * k] > _STIFFEST * stiffest:
            along = 0.0
            for i in range(6):
                along += V[6 * i + k] * row[WEIGHT + i] * row[RATE + i]
            along /= np.sqrt(A[7 * k])
            for i in range(6):
                x[i] += row[WEIGHT + i] * V[6 * i + k] * along
    for i in range(6):
        for j in range(6):
            r[i] += W[6 * i + j] * x[j]


@inlined
def _in_frame(row, B, X):
    """B becomes Tᵀ B T (6 × 6, flat), base axes to the frame's; X is written over."""
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
def _block(row, W, i, B, X):
    """B = Tᵀ W T of level i (6 × 6, flat); X is written over."""
    for a in range(6):
        for b in range(6):
            B[6 * a + b] = W[6 * i + a, 6 * i + b]
    _in_frame(row, B, X)


@inlined
def _gram(row, J, i, length, G, X):
    """G = √a S Tᵀ J (√a S Tᵀ J)ᵀ of level i; return the largest of its diagonal."""
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
            G[6 * a + b] *= units * np.sqrt(row[ACTIVATION + a] * row[ACTIVATION + b])
        most = max(most, G[7 * a])
    return most


@kernel
def _forces(links_J, links_W, a0, at, rows, length, low, high, memory, J, W, r, most, mobility,
            ratios, shares, directions, forces, F):
    levels, n = len(rows), links_J.shape[1]
    A, B, V, X = memory[:36], memory[36:72], memory[72:108], memory[108:144]
    x, y = memory[144:150], memory[150:156]
    for i in range(levels):
        row, own = rows[i], 6 * at[i]
        for a in range(6):
            x[a] = row[U + a]
        _turned_back(row, x, y)
        for a in range(6):
            r[6 * i + a] = y[a] - a0[own + a]
            for k in range(n):
                J[6 * i + a, k] = links_J[own + a, k]
            for j in range(levels):
                for b in range(6):
                    W[6 * i + a, 6 * j + b] = links_W[own + a, 6 * at[j] + b]
    for i in range(levels):
        row = rows[i]
        # before anything is eliminated: what small is measured by, and how mobile the link is
        most[i] = _gram(row, J, i, length, A, X)
        _block(row, W, i, B, X)
        mobility[i] = 0.0
        for a in range(6):
            unit = 1.0 if a < 3 else 1.0 / length
            mobility[i] += row[ACTIVATION + a] * unit * unit * B[7 * a]
    for i in range(levels):
        row = rows[i]
        Lambda = directions[i].ravel()  # on the way to its end, a place to work in
        active = 0.0
        for a in range(6):
            active += row[ACTIVATION + a]
            forces[6 * i + a] = 0.0
        _block(row, W, i, B, X)
        for a in range(6):
            x[a] = r[6 * i + a]
        _turned(row, x, y, 0)
        if row[ROOT] + row[ROOT + 1] + row[ROOT + 2] + row[ROOT + 3] + row[ROOT + 4] \
                + row[ROOT + 5] > 0.0:
            _yielded(row, B, A, V, x, y)
            _turned_back(row, y, x)
            for a in range(6):
                r[6 * i + a] = x[a]
        if not (active > 0.0 and mobility[i] > 0.0 and most[i] > 0.0):
            for a in range(6):
                ratios[i, a], shares[i, a] = (0.0, 0.0) if active > 0.0 else (1.0, 1.0)
            for k in range(36):
                Lambda[k] = 0.0
            continue
        # a freed axis is not ill conditioned: it takes the largest, and no part
        full = _gram(row, J, i, length, A, X)
        for a in range(6):
            A[7 * a] += most[i] * (1.0 - row[ACTIVATION + a])
        eigen_decomposed(A, V, 6)
        largest, squares = max(most[i], full), 0.0
        for k in range(6):
            largest = max(largest, A[7 * k])
        for k in range(6):
            ratios[i, k] = np.sqrt(max(A[7 * k], 0.0) / largest)
            shares[i, k] = share(ratios[i, k], low, high)
            squares += ratios[i, k] * ratios[i, k]
        # X = √a S (T W Tᵀ) S √a + diag(b (1 - a))
        for a in range(6):
            x[a] = np.sqrt(row[ACTIVATION + a]) * (1.0 if a < 3 else 1.0 / length)
        for a in range(6):
            for b in range(6):
                X[6 * a + b] = x[a] * B[6 * a + b] * x[b]
            X[7 * a] += mobility[i] / active * (1.0 - row[ACTIVATION + a])
        # A = √s Vᵀ X V √s + diag(b (1 - s)): for s = 1 the exact inverse, for s = 0 the direction
        # has no force, whatever b. It is about the mobility there, but made of nothing that
        # depends on which basis two equal singular values are given.
        for k in range(6):
            for a in range(6):
                B[6 * k + a] = 0.0
                for b in range(6):
                    B[6 * k + a] += V[6 * b + k] * X[6 * b + a]
        typical = mobility[i] * 6.0 / active
        for k in range(6):
            for m in range(6):
                total = 0.0
                for a in range(6):
                    total += B[6 * k + a] * V[6 * a + m]
                A[6 * k + m] = np.sqrt(shares[i, k] * shares[i, m]) * total
            b = max(ratios[i, k] * ratios[i, k] / squares, EXACT_HIGH) * typical
            A[7 * k] += b * (1.0 - shares[i, k])
        _inverted(A, X)
        # B = T S √a V √s, and Λᵢ = B X Bᵀ in base axes
        for a in range(6):
            part = 3 * (a // 3)
            for k in range(6):
                total = 0.0
                for b in range(3):
                    total += row[FRAME + 3 * (a - part) + b] * x[part + b] * V[6 * (part + b) + k]
                B[6 * a + k] = np.sqrt(shares[i, k]) * total
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
        for a in range(6):
            x[a] = row[ACTIVATION + a] * row[WRENCH + a]
        _turned_back(row, x, y)
        for a in range(6):
            forces[6 * i + a] = y[a]
            for b in range(6):
                forces[6 * i + a] += Lambda[6 * a + b] * r[6 * i + b]
        for j in range(i + 1, levels):
            # L goes where Wⱼᵢ was, which is needed no more
            for a in range(6):
                for b in range(6):
                    x[b] = 0.0
                    for c in range(6):
                        x[b] += W[6 * j + a, 6 * i + c] * Lambda[6 * c + b]
                for b in range(6):
                    W[6 * j + a, 6 * i + b] = x[b]
                    r[6 * j + a] -= x[b] * r[6 * i + b]
                    for k in range(n):
                        J[6 * j + a, k] -= x[b] * J[6 * i + b, k]
        for j in range(i + 1, levels):
            for k in range(i + 1, levels):
                for a in range(6):
                    for b in range(6):
                        total = 0.0
                        for c in range(6):
                            total += W[6 * j + a, 6 * i + c] * W[6 * i + c, 6 * k + b]
                        W[6 * j + a, 6 * k + b] -= total
        for k in range(36):
            Lambda[k] = V[k]
    for i in range(levels - 1, -1, -1):
        for j in range(i + 1, levels):
            for a in range(6):
                for b in range(6):
                    forces[6 * i + b] -= W[6 * j + a, 6 * i + b] * forces[6 * j + a]
    for k in range(len(F)):
        F[k] = 0.0
    for i in range(levels):
        for a in range(6):
            F[6 * at[i] + a] += forces[6 * i + a]


class Priorities:
    """
    The solve for tasks on links, and what it found in the last call.

    Parameters
    ----------
    at : sequence of int, length k
        Which link each level belongs to, highest priority first.
    links : int
    n : int
        Number of joints.

    Attributes
    ----------
    rows : (k, WIDTH)
        What each level asks for; to be filled before each call.
    forces : (6 k,)
        Of each level, base axes [N·m, N]; those of the levels below are made up for.
    ratios, shares : (k, 6)
        Singular values relative to the largest, and how much of them is controlled; 1 for axes
        that are free.
    directions : (k, 6, 6)
        The singular directions, columns, in the frame's axes with lengths scaled.

    """

    def __init__(self, at: Sequence[int], links: int, n: int) -> None:
        k = len(at)
        self.rows: Array = np.zeros((k, WIDTH))
        self.rows[:, FRAME:] = np.eye(3).ravel()
        self.forces: Array = np.zeros(6 * k)
        self.ratios: Array = np.ones((k, 6))
        self.shares: Array = np.ones((k, 6))
        self.directions: Array = np.zeros((k, 6, 6))
        self.F: Array = np.zeros(6 * links)
        self._at = np.array(at, dtype=np.intp)
        self._memory = (np.zeros(156), np.zeros((6 * k, n)), np.zeros((6 * k, 6 * k)),
                        np.zeros(6 * k), np.zeros(k), np.zeros(k))

    def solve(self, J: Array, Lambda_inv: Array, a0: Array, damping: SingularityDamping) -> Array:
        """
        Forces (6 m,) on the m links, base axes [N·m, N].

        Parameters
        ----------
        J : (6 m, n)
        Lambda_inv : (6 m, 6 m)
        a0 : (6 m,)
            Accelerations of the links under τ⁰ alone [rad/s², m/s²].
        damping : SingularityDamping

        """
        _forces(J, Lambda_inv, a0, self._at, self.rows, damping.length, damping.low, damping.high,
                *self._memory, self.ratios, self.shares, self.directions, self.forces, self.F)
        return self.F
