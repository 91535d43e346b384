"""
The forces of several tasks, each in the dynamically consistent null space of those above it.

With J (6 k, n) and W = Λ⁻¹ (6 k, 6 k) of k levels, highest priority first, and r = u - a⁰, this is
a block LDLᵀ of W from the top, whose pivots are inverted where that can be done well, i = 1 … k:

    Λᵢ = E (Eᵀ Wᵢᵢ E + D)⁻¹ Eᵀ,  fᵢ = Λᵢ rᵢ
    for j > i:  L = Wⱼᵢ Λᵢ,  Wⱼₖ -= L Wᵢₖ,  rⱼ -= L rᵢ,  Jⱼ -= L Jᵢ

and back, Fᵢ = fᵢ - Σ Lⱼᵢᵀ Fⱼ. What is left of Wⱼⱼ is the mobility of task j while the tasks above
hold their accelerations, and what is left of Jⱼ how it can still move. E = V √s in the axes of the
task's frame that are controlled; it takes out the singular directions V of the scaled Jⱼ by their
share s, smoothly (see `osc_ros.dynamics.task_inertia`). D is 0 where s is 1.

An activation between 0 and 1 is no weight in there: a task that is held back a little would still
win over all below it, or lose to them. Instead the answers with and without it are mixed. With
several, F is the mean over θ in (0, 1) of the answers in which the axes count that have a > θ.

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
# ratio times stiffness, velocity error; force that is added; square of the highest natural
# frequency that spring and mobility may have together; velocity of the target along the axes of
# motion, which `solve` does not read; the frame's rotation to base axes.
ACTIVATION, U, SPRING, ROOT, WEIGHT, RATE, WRENCH, FASTEST = 0, 6, 12, 18, 24, 30, 36, 42
VELOCITY, FRAME, WIDTH = 43, 49, 58

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
    """
    R += W (spring + damping) by double diagonalization; all in the frame's axes.

    A mode whose natural frequency is too high has less stiffness: with √K W √K = V a Vᵀ the
    stiffness becomes √K V min(1, fastest/a) Vᵀ √K, and the damper that of this stiffness.

    """
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
def _gram(row, mask, J, i, length, G, X):
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
def _gathered(links_J, links_W, a0, at, rows, J, W, r, x, y):
    """J, W and r = u - a⁰ of the levels, from those of the links."""
    for i in range(len(rows)):
        own = 6 * at[i]
        for a in range(6):
            x[a] = rows[i, U + a]
        _turned_back(rows[i], x, y)
        for a in range(6):
            r[6 * i + a] = y[a] - a0[own + a]
            for k in range(J.shape[1]):
                J[6 * i + a, k] = links_J[own + a, k]
            for j in range(len(rows)):
                for b in range(6):
                    W[6 * i + a, 6 * j + b] = links_W[own + a, 6 * at[j] + b]


@inlined
def _damped_inverse(row, mask, shares, ratios, mobility, length, A, V, B, X, Lambda):
    """
    Λ of a level, base axes, from W (in B, the frame's axes) and the singular directions V.

    With B = T S V √s and X = √s Vᵀ S W S V √s + D it is B X⁻¹ Bᵀ: for s = 1 the exact inverse, for
    s = 0 the direction has no force, whatever D. That is about the mobility there, but made of
    nothing that depends on which basis two equal singular values are given.

    """
    count, squares = 0.0, 0.0
    for k in range(6):
        count += mask[k]
        squares += ratios[k] * ratios[k]
    typical = mobility / count  # for axes that do not count, and are 1 in S W S
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
def _eliminated(i, levels, Lambda, J, W, r, x):
    """Take level i out of those below it; L goes where Wⱼᵢ was, which is needed no more."""
    for j in range(6 * i + 6, 6 * levels):
        for b in range(6):
            x[b] = 0.0
            for c in range(6):
                x[b] += W[j, 6 * i + c] * Lambda[6 * c + b]
        for b in range(6):
            W[j, 6 * i + b] = x[b]
            r[j] -= x[b] * r[6 * i + b]
            for k in range(J.shape[1]):
                J[j, k] -= x[b] * J[6 * i + b, k]
    for j in range(6 * i + 6, 6 * levels):
        for k in range(6 * i + 6, 6 * levels):
            for c in range(6):
                W[j, k] -= W[j, 6 * i + c] * W[6 * i + c, k]


@kernel
def _solve(links_J, links_W, a0, at, rows, masks, length, low, high, memory, J, W, r, most,
           mobility, ratios, shares, directions, weight, inertias, forces):
    levels = len(rows)
    A, B, V, X = memory[:36], memory[36:72], memory[72:108], memory[108:144]
    x, y = memory[144:150], memory[150:156]
    _gathered(links_J, links_W, a0, at, rows, J, W, r, x, y)
    for i in range(levels):
        # before anything is eliminated: what small is measured by, and how mobile the link is
        most[i] = _gram(rows[i], masks[i], J, i, length, A, X)
        _block(rows[i], W, i, B, X)
        mobility[i] = 0.0
        for a in range(6):
            unit = 1.0 if a < 3 else 1.0 / length
            mobility[i] += masks[i, a] * unit * unit * B[7 * a]
    for i in range(levels):
        row, mask = rows[i], masks[i]
        Lambda = directions[i].ravel()  # on the way to its end, a place to work in
        _block(row, W, i, B, X)
        stiff, count = 0.0, 0.0
        for a in range(6):
            stiff += row[ROOT + a]
            count += mask[a]
            x[a] = r[6 * i + a]
        if stiff > 0.0:
            _turned(row, x, y, 0)
            _yielded(row, B, A, V, x, y)
            _turned_back(row, y, x)
            for a in range(6):
                r[6 * i + a] = x[a]
        if mobility[i] > 0.0 and most[i] > 0.0:
            # an axis that does not count is not ill conditioned: it takes the largest
            largest = max(most[i], _gram(row, mask, J, i, length, A, X))
            for a in range(6):
                A[7 * a] += most[i] * (1.0 - mask[a])
            eigen_decomposed(A, V, 6)
            for k in range(6):
                largest = max(largest, A[7 * k])
            for k in range(6):
                ratios[i, k] = np.sqrt(max(A[7 * k], 0.0) / largest)
                shares[i, k] = share(ratios[i, k], low, high)
            _damped_inverse(row, mask, shares[i], ratios[i], mobility[i], length, A, V, B, X,
                            Lambda)
        else:
            for k in range(36):
                Lambda[k] = V[k] = 0.0
            for k in range(6):
                ratios[i, k] = shares[i, k] = 0.0 if count > 0.0 else 1.0
        for a in range(6):
            x[a] = mask[a] * row[WRENCH + a]
        _turned_back(row, x, y)
        for a in range(6):
            forces[6 * i + a] = y[a]
            for b in range(6):
                forces[6 * i + a] += Lambda[6 * a + b] * r[6 * i + b]
        _eliminated(i, levels, Lambda, J, W, r, x)
        for k in range(36):
            inertias[i, k // 6, k % 6] = weight * Lambda[k]
            Lambda[k] = V[k]
    for i in range(6 * levels - 7, -1, -1):
        for j in range(6 * (i // 6) + 6, 6 * levels):
            forces[i] -= W[j, i] * forces[j]


@kernel
def _forces(links_J, links_W, a0, at, rows, length, low, high, memory, J, W, ratios, shares,
            directions, inertias, forces, F):
    levels, size = len(rows), 6 * len(rows)
    each = memory[:5 * size].reshape((5, size))
    masks = each[0].reshape((levels, 6))
    r, parts, most, mobility = each[1], each[2], each[3], each[4]
    room = memory[5 * size:]
    for k in range(size):
        forces[k] = 0.0
    upper, count = 1.0, 0
    while upper > 0.0:
        lower = 0.0
        for i in range(levels):
            for a in range(6):
                activation = rows[i, ACTIVATION + a]
                masks[i, a] = 1.0 if activation >= upper else 0.0
                if activation < upper:
                    lower = max(lower, activation)
        _solve(links_J, links_W, a0, at, rows, masks, length, low, high, room, J[count], W[count],
               r, most, mobility, ratios, shares, directions, upper - lower, inertias[count],
               parts)
        for k in range(size):
            forces[k] += (upper - lower) * parts[k]
        upper, count = lower, count + 1
    for k in range(len(F)):
        F[k] = 0.0
    for i in range(levels):
        for a in range(6):
            F[6 * at[i] + a] += forces[6 * i + a]
    return count


@inlined
def velocity_wanted(row, x, y, start):
    """Velocity of a level's target in base axes, into six places of y; x is written over."""
    for a in range(6):
        x[a] = row[VELOCITY + a]
    _turned_back(row, x, y[start:])


@inlined
def forces_for(at, W, inertias, count, r, parts, F):
    """
    Forces F (6 m,) on the links that add accelerations r (6 k,) to those of the levels.

    By the factors of the last solve, see `Priorities.factors`.

    Parameters
    ----------
    at, W, inertias, count
        The factors.
    r, parts : (6 k,), (6 k,)
        Base axes; and written over.

    """
    size = len(r)
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
                F[6 * at[i // 6] + a] += total


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
        Singular values relative to the largest, and how much of them is controlled; axes that are
        free do not count.
    directions : (k, 6, 6)
        The singular directions, columns, in the frame's axes with lengths scaled.

    """

    def __init__(self, at: Sequence[int], links: int, n: int) -> None:
        k = len(at)
        self.rows: Array = np.zeros((k, WIDTH))
        self.rows[:, FRAME:] = np.eye(3).ravel()
        self.rows[:, FASTEST] = np.inf
        self.forces: Array = np.zeros(6 * k)
        self.ratios: Array = np.ones((k, 6))
        self.shares: Array = np.ones((k, 6))
        self.directions: Array = np.zeros((k, 6, 6))
        self.F: Array = np.zeros(6 * links)
        # one solve for every activation that differs from those before it
        self._J: Array = np.zeros((6 * k + 1, 6 * k, n))
        self._W: Array = np.zeros((6 * k + 1, 6 * k, 6 * k))
        self._inertias: Array = np.zeros((6 * k + 1, k, 6, 6))
        self._solves = 0
        self._at = np.array(at, dtype=np.intp)
        self._memory = np.zeros(5 * 6 * k + 156)

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
        self._solves = _forces(
            J, Lambda_inv, a0, self._at, self.rows, damping.length, damping.low, damping.high,
            self._memory, self._J, self._W, self.ratios, self.shares, self.directions,
            self._inertias, self.forces, self.F)
        return self.F

    def factors(self) -> tuple[NDArray[np.intp], Array, Array, int]:
        """
        Return what `forces_for` solves by: for the state and the activations of the last `solve`.

        Returns
        -------
        at : (k,) int
            The link of each level.
        W : (c, 6 k, 6 k)
            With L below the blocks of its diagonal; of c values of the activations.
        inertias : (c, k, 6, 6)
            Λ of each level, times the share of the value.
        count : int
            Of the values that are in use.

        """
        return self._at, self._W, self._inertias, self._solves

    def weakest(self, level: int = 0) -> Array:
        """
        Direction (6,) in which a task can move least: the one lost at a singularity.

        In the axes of its frame, [angular; linear], of length 1 when lengths are divided by the
        characteristic one.

        """
        return np.asarray(self.directions[level][:, np.argmin(self.ratios[level])])

    def resistance(self) -> tuple[Array, Array]:
        """
        With what the tasks of the last `solve` resist other motions: torques Σ JᵢᵀΛᵢJᵢ q̈.

        Returns
        -------
        J : (6 k c, n)
            How each level can move while those above it hold their accelerations, base axes; c
            times, where the activations have c values.
        Lambda : (k c, 6, 6)
            Its inertia as it is controlled, times its share.

        """
        n = self._J.shape[2]
        return (self._J[:self._solves].reshape(-1, n),
                self._inertias[:self._solves].reshape(-1, 6, 6))
