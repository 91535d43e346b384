"""The linear complementarity problem of bounds: the least change that satisfies all of them."""

from __future__ import annotations

import numpy as np

from osc_ros.dynamics.compiled import inlined, kernel

_ROUNDING = 1e-12  # relative tolerance of a bound


@inlined
def _put_cholesky(K, chosen, count, factor):
    """Cholesky factor of the chosen rows and columns of a symmetric positive definite K."""
    for a in range(count):
        for b in range(a + 1):
            total = K[chosen[a], chosen[b]]
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            factor[a, b] = np.sqrt(total) if a == b else total / factor[b, b]


@inlined
def _solve_by_cholesky(factor, count, x):
    """x = K⁻¹ x, by the factor of K."""
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
    """A⁻¹, symmetric positive definite; its rows are those of its transpose."""
    n = len(A)
    for i in range(n):
        chosen[i] = i
    _put_cholesky(A, chosen, n, factor)
    for i in range(n):
        for j in range(n):
            inverse[i, j] = 1.0 if i == j else 0.0
        _solve_by_cholesky(factor, n, inverse[i])


@kernel
def nearest_within(K, qdd, lower, upper, side, chosen, factor, push, change):
    """
    Least change Kλ of q̈ that brings it within bounds, in the norm of K⁻¹.

    This is the linear complementarity problem of bounds and pushes λ. K is positive definite, so
    it has one solution, which is continuous in q̈ and the bounds. Principal pivoting finds it: all
    rows that violate a condition change sides together while their number falls, otherwise only
    the last of them, which terminates (Murty; Júdice and Pires). It starts with the given sides:
    from one tick to the next one iteration is mostly enough.

    Parameters
    ----------
    K : (n, n)
    qdd, lower, upper : (n,)
    side : (n,) int, overwritten
        -1 at the lower bound, 1 at the upper bound, 0 between them.
    chosen, factor : (n,) int, (n, n), overwritten
    push, change : (n,), written
        λ, not positive at an upper bound nor negative at a lower one, and Kλ.

    Returns
    -------
    Whether it was found.

    """
    n = len(qdd)
    fewest, patience = n + 1, 3
    for _ in range(100 + 10 * n):
        count = 0
        for i in range(n):
            push[i] = 0.0
        for i in range(n):
            if side[i] != 0:
                chosen[count] = i
                push[count] = (upper[i] if side[i] > 0 else lower[i]) - qdd[i]
                count += 1
        _put_cholesky(K, chosen, count, factor)
        _solve_by_cholesky(factor, count, push)
        for a in range(count - 1, -1, -1):  # chosen[a] ≥ a: nothing is lost
            value, push[a] = push[a], 0.0
            push[chosen[a]] = value
        for i in range(n):
            change[i] = 0.0
            for a in range(count):
                change[i] += K[i, chosen[a]] * push[chosen[a]]
        wrong, last = 0, -1
        for i in range(n):
            margin = _ROUNDING * (1.0 + np.abs(qdd[i]))
            if side[i] == 0:
                off = qdd[i] + change[i] > upper[i] + margin or (
                    qdd[i] + change[i] < lower[i] - margin)
            else:
                off = push[i] * side[i] > 0.0
            if off:
                wrong, last = wrong + 1, i
        if wrong == 0:
            return True
        if wrong < fewest:
            fewest, patience = wrong, 3
        else:
            patience -= 1
        for i in range(last if patience < 0 else 0, last + 1):
            if side[i] != 0:
                if push[i] * side[i] > 0.0:
                    side[i] = 0
            elif qdd[i] + change[i] > upper[i]:
                side[i] = 1
            elif qdd[i] + change[i] < lower[i]:
                side[i] = -1
    return False
