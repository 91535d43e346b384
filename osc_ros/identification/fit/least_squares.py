# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Weighted least squares of torques; standard deviations include correlated errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError

Array = NDArray[np.float64]

PASSES = 3  # number of solutions, each with weights from the previous residuals
SMALLEST = 1e-9  # singular values below this share of the largest count as zero


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of a regression."""

    values: Array  # (p,) estimates
    deviations: Array  # (p,) standard deviations; infinite if not determined by the data
    covariance: Array  # (p, p)
    residual: Array  # (k, n) measured minus predicted torques; NaN in excluded rows [N m]
    sigma: Array  # (n,) standard deviation of the residual of each joint [N m]
    inflation: float  # factor of the variances due to the correlation of the residuals in time
    condition: float  # condition number of the whitened columns, each scaled to a norm of 1
    A: Array  # (rows, p) whitened columns
    y: Array  # (rows,) whitened torques


def fit(columns: Array, torque: Array, use: NDArray[np.bool_]) -> Fit:
    """Return the weighted least-squares estimate of the parameters of columns (k, n, p)."""
    # `torque` (k, n) [N m]; `use` (k, n): rows. Weights: inverse standard deviations of a joint's
    # residuals; their autocorrelation gives the number of samples per independent sample, a factor
    # of the variances. InputError if there are not more rows than parameters.
    k, n, count = columns.shape
    if np.count_nonzero(use) <= count:
        raise InputError(f'{np.count_nonzero(use)} samples of torques for {count} parameters: '
                         'give a longer motion')
    sigma = np.array([np.std(torque[use[:, i], i]) if use[:, i].any() else 1.0
                      for i in range(n)])
    sigma = np.maximum(sigma, 1e-6 * max(float(sigma.max()), 1e-9))
    for _ in range(PASSES):
        A = (columns / sigma[:, None])[use]
        y = (torque / sigma)[use]
        norms = np.linalg.norm(A, axis=0)
        norms[norms == 0.0] = 1.0
        U, s, V = np.linalg.svd(A / norms, full_matrices=False)
        known = s > SMALLEST * s[0]
        values = (V[known].T @ ((U[:, known].T @ y) / s[known])) / norms
        residual = np.where(use, torque - columns @ values, np.nan)
        share = (len(y) - np.count_nonzero(known)) / len(y)
        sigma = np.array([
            np.sqrt(np.nanmean(residual[:, i] ** 2) / share) if use[:, i].any() else sigma[i]
            for i in range(n)])
        sigma = np.maximum(sigma, 1e-9 * max(float(sigma.max()), 1e-9))
    A, y = (columns / sigma[:, None])[use], (torque / sigma)[use]
    inflation = max(_samples_per_independent_sample(residual[:, i]) for i in range(n))
    half = V[known].T / s[known] / norms[:, None]
    covariance = inflation * half @ half.T
    deviations = np.sqrt(np.diagonal(covariance))
    unknown = (np.abs(V[~known]) > 1e-6).any(axis=0)
    return Fit(values, np.where(unknown, np.inf, deviations), covariance, residual, sigma,
               inflation, float(s[0] / max(s[-1], 1e-300)), A, y)


def _samples_per_independent_sample(residual: Array) -> float:
    """Return 1 + 2 Σ ρ_k; the sum ends before the first negative autocorrelation ρ_k."""
    x = residual[np.isfinite(residual)]
    if len(x) < 10 or not x.any():
        return 1.0
    x = x - x.mean()
    correlation = np.correlate(x, x, 'full')[len(x) - 1:]
    correlation /= correlation[0]
    negative = np.flatnonzero(correlation < 0.0)
    end = int(negative[0]) if len(negative) else len(correlation)
    return float(max(1.0, 1.0 + 2.0 * correlation[1:min(end, len(x) // 4)].sum()))
