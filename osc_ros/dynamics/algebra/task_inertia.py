# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The task-space inertia Λ: exact away from singularities, smoothly damped near them.

The distance to a singularity is measured by the Jacobian, not by the inertia: a light wrist on a
heavy arm is not singular. A characteristic length ℓ makes radians and metres comparable: the
measure is the singular values of S J, with S = diag(1, 1, 1, 1/ℓ, 1/ℓ, 1/ℓ), relative to the
largest one. Control fades out along directions with small singular values. The other directions
are controlled with the inertia that they have if no force acts along the faded directions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.compile.either import lane_array, lane_count, lane_number, select
from osc_ros.errors import InputError
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

# Bounds for the eigenvalues of Λ⁻¹, divided by the largest one. An eigenvalue below EXACT_LOW
# counts as zero; above EXACT_HIGH it is used unchanged. Rounding turns a zero eigenvalue into
# about 1e-16 a/b, where a is the largest entry of the inverse inertias of the bodies, and b the
# largest entry of Λ⁻¹. After the division this is 1e-15 for most arms, and 1e-11 for light links
# with a heavy load.
EXACT_LOW, EXACT_HIGH = 1e-10, 1e-8
NEGLIGIBLE = 1e-32  # square of the relative rounding error
_SWEEPS = 30  # limit; Jacobi's method converges in six or seven sweeps for 6 × 6
SCRATCH_WIDTH = 84  # two 6 × 6 matrices and two vectors; in general 2 m² + 2 m


@inlined
def factor_in_place(A, m):
    """Replace A (m × m, flat, symmetric) by its factors A = L D Lᵀ; return its conditioning."""
    # L below the diagonal, D on it, (L⁻¹)ᵀ above. The conditioning is a lower bound of smallest /
    # largest eigenvalue, 1 / (trace A⁻¹ trace A) with trace A⁻¹ = Σ (L⁻¹)ᵢⱼ² / Dᵢ; 0 if A is not
    # definite: then the factors are invalid.
    trace, inverse_trace, definite = 0.0, 0.0, 1.0
    for i in range(m):
        trace += A[(m + 1) * i]
    for k in range(m):
        pivot = A[(m + 1) * k]
        definite = select(pivot > 0.0, definite, 0.0)
        for i in range(k + 1, m):
            row = A[m * i + k] / pivot
            for j in range(k + 1, i + 1):
                A[m * i + j] -= row * A[m * j + k]
        for i in range(k + 1, m):
            A[m * i + k] /= pivot
    for i in range(m):
        total = 1.0
        for j in range(i):
            entry = -A[m * i + j]
            for k in range(j + 1, i):
                entry -= A[m * i + k] * A[m * j + k]
            A[m * j + i] = entry
            total += entry * entry
        inverse_trace += total / A[(m + 1) * i]
    return select(definite > 0.0, 1.0 / (trace * inverse_trace), 0.0)


@inlined
def solve_in_place(A, x, m):
    """Replace x by A⁻¹ x, and A by its factors; return the conditioning (`factor_in_place`)."""
    ratio = factor_in_place(A, m)
    for i in range(m):
        for j in range(i):
            x[i] -= A[m * i + j] * x[j]
    for i in range(m - 1, -1, -1):
        x[i] /= A[(m + 1) * i]
        for j in range(i + 1, m):
            x[i] -= A[m * j + i] * x[j]
    return ratio


@inlined
def diagonalize(A, V, m):
    """Write eigenvalues of A (m × m, flat) to its diagonal, eigenvectors to the columns of V."""
    # Jacobi's method: unlike LAPACK's, it keeps the relative accuracy of small eigenvalues of a
    # positive definite matrix, and allocates nothing.
    for i in range(m * m):
        V[i] = 0.0
    for i in range(m):
        V[(m + 1) * i] = 1.0
    for _ in range(_SWEEPS):
        off = False
        for p in range(m - 1):
            for q in range(p + 1, m):
                a = A[m * p + q]
                if not a * a > NEGLIGIBLE * np.abs(A[(m + 1) * p] * A[(m + 1) * q]):
                    continue
                off = True
                theta = 0.5 * (A[(m + 1) * q] - A[(m + 1) * p]) / a
                t = np.copysign(1.0, theta) / (np.abs(theta) + np.sqrt(theta * theta + 1.0))
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for k in range(m):
                    x, y = A[m * k + p], A[m * k + q]
                    A[m * k + p], A[m * k + q] = c * x - s * y, s * x + c * y
                for k in range(m):
                    x, y = A[m * p + k], A[m * q + k]
                    A[m * p + k], A[m * q + k] = c * x - s * y, s * x + c * y
                    x, y = V[m * k + p], V[m * k + q]
                    V[m * k + p], V[m * k + q] = c * x - s * y, s * x + c * y
                A[m * p + q] = A[m * q + p] = 0.0
        if not off:
            break


@inlined
def share(ratio, low, high):
    """Controlled share of a direction: 0 below low, 1 above high; C² in log(ratio) between."""
    # Biased low (1/3 at mid-range): the joint effort for an error scales with 1/ratio, so an error
    # that built up while the direction was not controlled must be corrected gradually.
    if not ratio > low:
        return 0.0
    if ratio >= high:
        return 1.0
    x = np.log(ratio / low) / np.log(high / low)
    s = x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)
    return s / (2.0 - s)


@inlined
def _diagonalize_inverse(Lambda_inv, A, V, w, m):
    """Write V (flat) and w = 1/λ of Λ⁻¹ = V diag(λ) Vᵀ; w = 0 for λ of about 0."""
    # About 0: zero to working precision. A (flat) is overwritten. No function here returns an
    # array: the GPU's compiler refuses that.
    largest = 0.0
    for k in range(m * m):
        A[k] = Lambda_inv[k]
    diagonalize(A, V, m)
    for k in range(m):
        largest = max(largest, A[(m + 1) * k])
    for k in range(m):
        controlled = share(A[(m + 1) * k] / largest, EXACT_LOW, EXACT_HIGH)
        w[k] = controlled / A[(m + 1) * k] if controlled > 0.0 else 0.0


@inlined
def apply_pseudo_inverse(Lambda_inv, r, scratch, x, m):
    """Write x = Λ r; Λ is the pseudo-inverse of Λ⁻¹, whose eigenvalues near zero count as zero."""
    A, V, w = scratch[:m * m], scratch[m * m:2 * m * m], scratch[2 * m * m + m:]
    _diagonalize_inverse(Lambda_inv, A, V, w, m)
    for i in range(m):
        x[i] = 0.0
    for k in range(m):
        along = 0.0
        for i in range(m):
            along += V[m * i + k] * r[i]
        for i in range(m):
            x[i] += w[k] * along * V[m * i + k]


@inlined
def replace_singular(ratio, Lambda_inv, r, scratch, x, m):
    """Overwrite x with Λ r by the pseudo-inverse of Λ⁻¹ in lanes where Λ⁻¹ is nearly singular."""
    # There `ratio` (of `factor_in_place`) is at most EXACT_HIGH, or NaN.
    for lane in range(lane_count(x)):
        if not lane_number(ratio, lane) > EXACT_HIGH:
            apply_pseudo_inverse(lane_array(Lambda_inv, lane), lane_array(r, lane),
                                 lane_array(scratch, lane), lane_array(x, lane), m)


@inlined
def _put_by_eigenvalues(Lambda_inv, scratch, Lambda, m):
    A, V, w = scratch[:m * m], scratch[m * m:2 * m * m], scratch[2 * m * m + m:]
    _diagonalize_inverse(Lambda_inv, A, V, w, m)
    for i in range(m):
        for j in range(i + 1):
            total = 0.0
            for k in range(m):
                total += w[k] * V[m * i + k] * V[m * j + k]
            Lambda[i, j] = Lambda[j, i] = total


@inlined
def put_pseudo_inverse(Lambda_inv, scratch, Lambda, m):
    """Write the inverse Λ (m, m) of Λ⁻¹ (flat); the pseudo-inverse if it is nearly singular."""
    A = scratch[:m * m]
    for k in range(m * m):
        A[k] = Lambda_inv[k]
    ratio = factor_in_place(A, m)
    for k in range(m):
        scratch[m * m + k] = 1.0 / A[(m + 1) * k]
    for i in range(m):
        for j in range(i + 1):
            w = scratch[m * m + i]
            total = w if i == j else w * A[m * j + i]
            for k in range(i + 1, m):
                total += scratch[m * m + k] * A[m * i + k] * A[m * j + k]
            Lambda[i, j] = Lambda[j, i] = total
    for lane in range(lane_count(scratch)):
        if not lane_number(ratio, lane) > EXACT_HIGH:
            _put_by_eigenvalues(lane_array(Lambda_inv, lane), lane_array(scratch, lane),
                                lane_array(Lambda, lane), m)


@kernel
def _pseudo_inverse(Lambda_inv, scratch, Lambda):
    put_pseudo_inverse(view(Lambda_inv, 0, (Lambda_inv.size,)), scratch, Lambda, len(Lambda))


def task_inertia(Lambda_inv: Array) -> Array:
    """Λ (m, m) [kg m², kg m, kg], in a new array."""
    # It is the pseudo-inverse of Λ⁻¹ if Λ⁻¹ is singular to working precision.
    m = len(Lambda_inv)
    Lambda = np.empty((m, m))
    _pseudo_inverse(Lambda_inv, np.empty(2 * m * (m + 1)), Lambda)
    return Lambda


@inlined
def _put_shares(J, length, low, high, A, V, ratios, shares):
    """Write the relative singular values of the scaled J, and the controlled shares."""
    for i in range(6):
        for j in range(i + 1):
            total = 0.0
            for k in range(J.shape[1]):
                total += J[i, k] * J[j, k]
            units = (1.0 if i < 3 else 1.0 / length) * (1.0 if j < 3 else 1.0 / length)
            A[6 * i + j] = A[6 * j + i] = units * total
    diagonalize(A, V, 6)
    largest = 0.0
    for k in range(6):
        largest = max(largest, A[7 * k])
    for k in range(6):
        ratios[k] = np.sqrt(max(A[7 * k], 0.0) / largest) if largest > 0.0 else 0.0
        shares[k] = share(ratios[k], low, high)


@kernel
def _measure(J, length, low, high, scratch, ratios, shares):
    _put_shares(J, length, low, high, scratch[:36], scratch[36:72], ratios, shares)


@dataclass(frozen=True, eq=False)
class SingularityDamping(Group, group='singularity'):
    """
    Thresholds between which the control of a direction fades out near a singularity.

    The task fully controls directions whose relative singular value is above `high`; τ⁰ controls
    those below `low`. Between the two the controlled share is C² and the force is continuous (see
    `osc_ros.dynamics.priority.priority`). A rotation of 1 rad counts as a displacement of
    `length`. The attributes `ratios` (6,) and `shares` (6,) are results of the last call of
    `conditioning`.

    Raises
    ------
    InputError
        If not length > 0 or not 0 < low < high < 1.

    """

    length: float = setting(0.3, 'Characteristic length of the arm, which scales rotation to '
                            'translation [m]', lower=1e-6, upper=1e6)
    low: float = setting(
        0.02, 'A direction is not controlled if its singular value of the scaled Jacobian, '
        'relative to the largest, is below this', lower=1e-12, upper=1.0)
    high: float = setting(
        0.06, 'A direction is fully controlled if its relative singular value is above this',
        lower=1e-12, upper=1.0)
    ratios: Array = field(init=False, repr=False, default_factory=lambda: np.ones(6))
    shares: Array = field(init=False, repr=False, default_factory=lambda: np.ones(6))
    _scratch: Array = field(init=False, repr=False, default_factory=lambda: np.zeros(72))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high < 1.0:
            raise InputError(f'singularity thresholds low {self.low}, high {self.high}: '
                             'must be 0 < low < high < 1')

    def conditioning(self, J: Array) -> float:
        """Ratio of smallest to largest singular value of the scaled J (6, n); 0 if singular."""
        _measure(J, self.length, self.low, self.high, self._scratch, self.ratios, self.shares)
        return float(self.ratios.min())
