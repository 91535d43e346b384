"""
Λ from Λ⁻¹: exact where the arm can move every way, smoothly damped where it cannot.

Radians and metres are made comparable by a characteristic length ℓ: in S Λ⁻¹ S with
S = diag(1, 1, 1, 1/ℓ, 1/ℓ, 1/ℓ) all entries have the unit 1/(kg m²). Its eigenvalues relative to
the largest one say how hard each direction is to move, whatever the size and mass of the arm.

"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import inlined, kernel
from osc_ros.errors import InputError

Array = NDArray[np.float64]

# Relative to the largest eigenvalue: what rounding can make of a zero, and a margin above it.
EXACT_LOW, EXACT_HIGH = 1e-13, 1e-11
# Λ (36), eigenvalues (6), shares (6), and two 6 × 6 for the eigenvectors' sake.
_EIGENVALUES, _SHARES, _MATRICES, SCRATCH_WIDTH = 36, 42, 48, 120
_SWEEPS = 30  # Jacobi converges quadratically; six or seven are enough for 6 × 6


@inlined
def scaled(Lambda_inv, length, A):
    """A = S Λ⁻¹ S, all three flat and by rows."""
    for i in range(6):
        for j in range(6):
            units = (1.0 if i < 3 else 1.0 / length) * (1.0 if j < 3 else 1.0 / length)
            A[6 * i + j] = units * Lambda_inv[6 * i + j]


@inlined
def solved_exactly(A, x):
    """
    Replace x by A⁻¹ x if A (6 × 6, flat) is safely positive definite; say whether it is.

    With λ₁ the smallest eigenvalue and the others at most trace/5 in geometric mean,
    λ₁ ≥ det A (5 / trace A)⁵: what the pivots give for nothing decides. A is overwritten.

    """
    trace, determinant = 0.0, 1.0
    for i in range(6):
        trace += A[7 * i]
    mean = 0.2 * trace
    for k in range(6):
        pivot = A[7 * k]
        if not pivot > 0.0:
            return False
        determinant *= pivot / mean
        for i in range(k + 1, 6):
            row = A[6 * i + k] / pivot
            for j in range(k + 1, i + 1):
                A[6 * i + j] -= row * A[6 * j + k]
        for i in range(k + 1, 6):
            A[6 * i + k] /= pivot
    if not determinant * 0.2 > EXACT_HIGH:
        return False
    for i in range(6):
        for j in range(i):
            x[i] -= A[6 * i + j] * x[j]
    for i in range(5, -1, -1):
        x[i] /= A[7 * i]
        for j in range(i + 1, 6):
            x[i] -= A[6 * j + i] * x[j]
    return True


@inlined
def eigen_decomposed(A, V):
    """
    Jacobi's method: A (6 × 6, flat, symmetric) becomes diagonal, the columns of V its eigenvectors.

    Chosen over LAPACK because it keeps small eigenvalues of a positive definite matrix to
    relative accuracy, and needs no allocation.

    """
    for i in range(36):
        V[i] = 0.0
    for i in range(6):
        V[7 * i] = 1.0
    for _ in range(_SWEEPS):
        off = False
        for p in range(5):
            for q in range(p + 1, 6):
                a = A[6 * p + q]
                if not a * a > 1e-32 * np.abs(A[7 * p] * A[7 * q]):
                    continue
                off = True
                theta = 0.5 * (A[7 * q] - A[7 * p]) / a
                t = np.copysign(1.0, theta) / (np.abs(theta) + np.sqrt(theta * theta + 1.0))
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for k in range(6):
                    x, y = A[6 * k + p], A[6 * k + q]
                    A[6 * k + p], A[6 * k + q] = c * x - s * y, s * x + c * y
                for k in range(6):
                    x, y = A[6 * p + k], A[6 * q + k]
                    A[6 * p + k], A[6 * q + k] = c * x - s * y, s * x + c * y
                    x, y = V[6 * k + p], V[6 * k + q]
                    V[6 * k + p], V[6 * k + q] = c * x - s * y, s * x + c * y
                A[6 * p + q] = A[6 * q + p] = 0.0
        if not off:
            break


@inlined
def share(ratio, low, high):
    """How much of a direction is controlled: 0 below low, 1 above high, C² between, in log."""
    if not ratio > low:
        return 0.0
    if ratio >= high:
        return 1.0
    x = np.log(ratio / low) / np.log(high / low)
    return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)


@inlined
def damped_inverse(Lambda_inv, length, low, high, scratch):
    """
    Λ = S V diag(shareₖ / λₖ) Vᵀ S, with the λₖ and the shares, into scratch.

    A direction whose share is 0 gets no task force: what the joints do there is τ⁰'s affair.

    """
    A, V = scratch[_MATRICES:_MATRICES + 36], scratch[_MATRICES + 36:]
    scaled(Lambda_inv, length, A)
    eigen_decomposed(A, V)
    largest = 0.0
    for k in range(6):
        largest = max(largest, A[7 * k])
    for k in range(6):
        scratch[_EIGENVALUES + k] = A[7 * k]
        scratch[_SHARES + k] = share(A[7 * k] / largest, low, high)
    for i in range(6):
        for j in range(i + 1):
            total = 0.0
            for k in range(6):
                if scratch[_SHARES + k] > 0.0:
                    total += V[6 * i + k] * V[6 * j + k] * scratch[_SHARES + k] / A[7 * k]
            units = (1.0 if i < 3 else 1.0 / length) * (1.0 if j < 3 else 1.0 / length)
            scratch[6 * i + j] = scratch[6 * j + i] = units * total


@inlined
def damped_force(Lambda_inv, a0, u, length, low, high, scratch, F):
    """F = Λ(u - a⁰) with Λ as in `damped_inverse`."""
    damped_inverse(Lambda_inv, length, low, high, scratch)
    for i in range(6):
        F[i] = 0.0
        for j in range(6):
            F[i] += scratch[6 * i + j] * (u[j] - a0[j])


@kernel
def _inverse(Lambda_inv, length, low, high, scratch):
    damped_inverse(Lambda_inv.ravel(), length, low, high, scratch)


@kernel
def _task_force(Lambda_inv, a0, u, length, low, high, scratch, F):
    damped_force(Lambda_inv.ravel(), a0, u, length, low, high, scratch, F)


class TaskInertia:
    """
    Λ of a chain that may be near a singularity, and how near it is.

    Parameters
    ----------
    length : float
        Characteristic length of the arm [m]: a turn of 1 rad counts as a shift by this much.
    low, high : float
        Smallest eigenvalue of the scaled Λ⁻¹ relative to the largest. A direction is given up
        below `low` and fully controlled above `high`, with a C² blend in between.

    Raises
    ------
    InputError
        If not length > 0 or not 0 < low < high < 1.

    """

    def __init__(self, length: float = 1.0, low: float = EXACT_LOW,
                 high: float = EXACT_HIGH) -> None:
        if not (np.isfinite(length) and length > 0.0):
            raise InputError(f'characteristic length {length} m is not positive and finite')
        if not 0.0 < low < high < 1.0:
            raise InputError(f'singularity thresholds low {low}, high {high}: '
                             'accepted is 0 < low < high < 1')
        self.length, self.low, self.high = float(length), float(low), float(high)
        self._scratch = np.zeros(SCRATCH_WIDTH)
        self.Lambda: Array = self._scratch[:36].reshape(6, 6)
        self.eigenvalues: Array = self._scratch[_EIGENVALUES:_SHARES]
        self.shares: Array = self._scratch[_SHARES:_MATRICES]

    def inverse(self, Lambda_inv: Array) -> Array:
        """Λ (6, 6) [kg m², kg m, kg], a fresh array; the attributes describe it."""
        _inverse(Lambda_inv, self.length, self.low, self.high, self._scratch)
        return self.Lambda.copy()

    def force(self, Lambda_inv: Array, a0: Array, u: Array, out: Array) -> Array:
        """
        Task force F = Λ(u - a⁰), into out.

        Parameters
        ----------
        Lambda_inv : (6, 6)
        a0, u : (6,)
            Acceleration under τ⁰ alone, and the commanded one [rad/s², m/s²].
        out : (6,)

        """
        _task_force(Lambda_inv, a0, u, self.length, self.low, self.high, self._scratch, out)
        return out

    @property
    def conditioning(self) -> float:
        """Smallest over largest eigenvalue of the scaled Λ⁻¹: 0 at a singularity, at most 1."""
        largest = self.eigenvalues.max()
        return float(max(self.eigenvalues.min(), 0.0) / largest) if largest > 0.0 else 0.0
