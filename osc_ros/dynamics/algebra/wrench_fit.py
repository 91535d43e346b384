# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The wrench at a link that explains external joint torques, with a measure of its quality.

τ = JᵀF is solved for F by least squares. With S = diag(1, 1, 1, 1/ℓ, 1/ℓ, 1/ℓ), as in
`task_inertia`, and the torques of prismatic joints times ℓ, all numbers are in N·m:
A = (S J)(S J)ᵀ and b = S J τ. Near a singularity A⁻¹b is unbounded, so the solution is damped, by
Tikhonov's method with one iteration,

    F = S (A + λ²)⁻¹ (b + λ² (A + λ²)⁻¹ b),    λ² = low² |A|,

with the Frobenius norm |A|. The damping removes the share (λ²/(σ² + λ²))² of the part of F along a
singular vector of S J with the singular value σ: 1e-3 for σ = 5.5 λ. F is bounded, and a smooth
function of the state.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.dynamics.algebra.spatial import (
    add_symmetric,
    along,
    compose,
    dot,
    full,
    inverse,
    mobility_times,
    put,
    rank_one_downdate,
    spatial_at,
    transpose,
    upper,
    ZERO,
)


@inlined
def _squared_norm(K):
    """Squared Frobenius norm of a symmetric matrix [[A, B], [Bᵀ, C]]."""
    total = 0.0
    for S in (K[0], K[2]):
        total += (S[0] * S[0] + S[3] * S[3] + S[5] * S[5]
                  + 2.0 * (S[1] * S[1] + S[2] * S[2] + S[4] * S[4]))
    for r in range(0, 9, 3):
        row = K[1][r], K[1][r + 1], K[1][r + 2]
        total += 2.0 * dot(row, row)
    return total


@inlined
def _negative(R):
    return (-R[0], -R[1], -R[2], -R[3], -R[4], -R[5], -R[6], -R[7], -R[8])


@inlined
def _damped_inverse(K, damping):
    """The inverse of K + damping · 1, for a symmetric K = [[A, B], [Bᵀ, C]], by blocks."""
    A, B, C = K
    diagonal = (damping, 0.0, 0.0, damping, 0.0, damping)
    A_inv = inverse(add_symmetric(A, diagonal))
    T = compose(full(A_inv), B)
    outer = upper(compose(transpose(B), _negative(T)))
    C_inv = inverse(add_symmetric(add_symmetric(C, diagonal), outer))
    side = _negative(compose(T, full(C_inv)))
    return (add_symmetric(A_inv, upper(compose(side, _negative(transpose(T))))), side, C_inv)


@inlined
def put_wrench(columns, weights, torque, length, low, wrench, residual):
    """Write the wrench F and the torques τ - JᵀF that it does not explain; return its quality."""
    # columns (n, 6): of the link's J, base axes, [angular; linear]. torque: τ, residual (n,),
    # wrench (6,) [N·m, N]. length: ℓ [m]. weights (n,) of squared errors: 1, ℓ² for prismatic
    # joints. low: threshold of the singular values of S J, relative to their norm.
    n, s = len(torque), 1.0 / length
    A, b = (ZERO + ZERO, ZERO + ZERO + ZERO, ZERO + ZERO), (ZERO, ZERO)
    for k in range(n):
        angular, linear = spatial_at(columns[k], 0)
        linear = s * linear[0], s * linear[1], s * linear[2]
        A = rank_one_downdate(A, -weights[k], angular, linear)
        x = weights[k] * torque[k]
        b = along(x, angular, b[0]), along(x, linear, b[1])
    damping = low * low * np.sqrt(_squared_norm(A))
    observed, F = 0.0, (ZERO, ZERO)
    if 0.0 < damping < np.inf:  # else no joint moves the link
        inverse_of_A = _damped_inverse(A, damping)
        F = mobility_times(inverse_of_A, b)
        again = along(damping, F[0], b[0]), along(damping, F[1], b[1])
        moment, force = mobility_times(inverse_of_A, again)
        F = moment, (s * force[0], s * force[1], s * force[2])
        observed = max(0.0, 1.0 - damping * damping * _squared_norm(inverse_of_A))
    put(wrench, 0, F[0] + F[1])
    squared, unexplained = 0.0, 0.0
    for k in range(n):
        angular, linear = spatial_at(columns[k], 0)
        residual[k] = left = torque[k] - dot(angular, F[0]) - dot(linear, F[1])
        squared += weights[k] * torque[k] * torque[k]
        unexplained += weights[k] * left * left
    explained = 1.0 - unexplained / squared if squared > 0.0 else 1.0
    # Quality, 0 to 1: `observed`, 1 - Σ (λ²/(σ² + λ²))², is a lower bound of the share of F that
    # remains in the most damped direction; `explained` is 1 - |τ - JᵀF|² / |τ|².
    return observed * explained if explained > 0.0 else 0.0
