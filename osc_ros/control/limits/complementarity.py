# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Solver of a linear complementarity problem: smallest change of q̈ that satisfies bounds."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel

_ROUNDING = 1e-12  # tolerance of a bound, relative to 1 + |q̈|
# The search fails when the sum of (rows at a bound)³ over the iterations exceeds _MOST_WORK, after
# at least _PATIENCE iterations. Robots of up to 20 joints never come near it; for chains of more
# than 40 joints at their torque limits the problem can be too ill-conditioned.
_MOST_WORK, _PATIENCE = 3e6, 30


@inlined
def _put_cholesky(K, chosen, count, factor):
    """Write the Cholesky factor of the first `count` chosen rows and columns of K."""
    for a in range(count):
        for b in range(a + 1):
            total = K[chosen[a], chosen[b]]
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            factor[a, b] = np.sqrt(total) if a == b else total / factor[b, b]


@inlined
def _solve_by_cholesky(factor, count, x):
    """Overwrite x (count,) with K⁻¹ x, from the Cholesky factor of K."""
    for a in range(count):
        for c in range(a):
            x[a] -= factor[a, c] * x[c]
        x[a] /= factor[a, a]
    for a in range(count - 1, -1, -1):
        for c in range(a + 1, count):
            x[a] -= factor[c, a] * x[c]
        x[a] /= factor[a, a]


@inlined
def put_inverse(A, chosen, factor, inverse):
    """Write the inverse of a symmetric positive definite A (n, n), by a Cholesky factorization."""
    n = len(A)
    for i in range(n):
        chosen[i] = i
    _put_cholesky(A, chosen, n, factor)
    for i in range(n):  # row by row: the inverse is symmetric
        for j in range(n):
            inverse[i, j] = 1.0 if i == j else 0.0
        _solve_by_cholesky(factor, n, inverse[i])


@inlined
def _solve_chosen(K, qdd, lower, upper, side, chosen, factor, x):
    """Write to x the multipliers with which the rows at a bound reach it, the other rows free."""
    # Return the number of these rows; x and `chosen`, their indices, have as many items.
    count = 0
    for i in range(len(qdd)):
        if side[i] != 0:
            chosen[count] = i
            x[count] = (upper[i] if side[i] > 0 else lower[i]) - qdd[i]
            count += 1
    _put_cholesky(K, chosen, count, factor)
    _solve_by_cholesky(factor, count, x)
    return count


@inlined
def _descends_within(K, qdd, lower, upper, side, chosen, factor, push, change):
    """Do `nearest_within` by an active-set method whose dual objective falls every iteration."""
    # It starts without rows at a bound, adds the most violated row, and drops rows whose
    # multipliers change sign on the way to the optimum of the chosen rows (Lawson and Hanson).
    n, work = len(qdd), 0.0
    for i in range(n):
        side[i], push[i] = 0, 0.0
    for k in range(100 + 10 * n):
        if work > _MOST_WORK and k >= _PATIENCE:
            return False
        worst, row = 0.0, -1
        for i in range(n):
            change[i] = 0.0
            for j in range(n):
                change[i] += K[i, j] * push[j]
            off = max(qdd[i] + change[i] - upper[i], lower[i] - qdd[i] - change[i])
            if side[i] == 0 and off > max(_ROUNDING * (1.0 + np.abs(qdd[i])),
                                          worst * np.sqrt(K[i, i])):
                worst, row = off / np.sqrt(K[i, i]), i
        if row < 0:
            return True
        side[row] = 1 if qdd[row] + change[row] > upper[row] else -1
        first = row
        while first >= 0:
            share, first = 1.0, -1
            count = _solve_chosen(K, qdd, lower, upper, side, chosen, factor, change)
            work += float(count) ** 3
            for a in range(count):
                i = chosen[a]
                if change[a] * side[i] > 0.0 and np.abs(push[i]) < share * np.abs(
                        push[i] - change[a]):
                    share, first = push[i] / (push[i] - change[a]), i
            for a in range(count):
                push[chosen[a]] += share * (change[a] - push[chosen[a]])
            if first >= 0:
                side[first], push[first] = 0, 0.0
    return False


@kernel
def nearest_within(K, qdd, lower, upper, side, chosen, factor, push, change):
    """Write the change K λ of q̈, least in the norm of K⁻¹, that brings q̈ within its bounds."""
    # K (n, n) is positive definite: the solution is unique, and continuous in q̈ and the bounds.
    # `side` (n,): -1, 1 at the lower, upper bound, else 0; from that of the last tick the search
    # mostly needs one iteration. `push` (n,): λ, ≤ 0 at an upper bound, ≥ 0 at a lower one;
    # `change` (n,): K λ. Return whether the solution was found.
    n = len(qdd)
    # block principal pivoting: all rows that violate a condition change sides, as long as their
    # number falls (Júdice and Pires)
    fewest, patience, work = n + 1, 3, 0.0
    for k in range(100 + 10 * n):
        if work > _MOST_WORK and k >= _PATIENCE:
            return False
        for i in range(n):
            push[i] = 0.0
        count = _solve_chosen(K, qdd, lower, upper, side, chosen, factor, push)
        work += float(count) ** 3
        for a in range(count - 1, -1, -1):  # in place: chosen[a] ≥ a, so no value is overwritten
            value, push[a] = push[a], 0.0
            push[chosen[a]] = value
        for i in range(n):
            change[i] = 0.0
            for a in range(count):
                change[i] += K[i, chosen[a]] * push[chosen[a]]
        wrong = 0
        for i in range(n):
            margin = _ROUNDING * (1.0 + np.abs(qdd[i]))
            if side[i] == 0:
                off = qdd[i] + change[i] > upper[i] + margin or (
                    qdd[i] + change[i] < lower[i] - margin)
            else:
                off = push[i] * side[i] > 0.0
            wrong += off
        if wrong == 0:
            return True
        if wrong < fewest:
            fewest, patience = wrong, 3
        else:
            patience -= 1
        if patience < 0:
            return _descends_within(K, qdd, lower, upper, side, chosen, factor, push, change)
        for i in range(n):
            if side[i] != 0:
                if push[i] * side[i] > 0.0:
                    side[i] = 0
            elif qdd[i] + change[i] > upper[i]:
                side[i] = 1
            elif qdd[i] + change[i] < lower[i]:
                side[i] = -1
    return False
