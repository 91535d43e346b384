# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Physically consistent inertial parameters from a regression, near given parameters.

Every body's pseudo-inertia is P = L U Uᵀ Lᵀ, with the Cholesky factor L of the given
pseudo-inertia and a lower triangular U with a positive diagonal. Its ten log-Cholesky parameters
are unconstrained: all their values are physically possible bodies (Rucker and Wensing, "Smooth
parameterization of rigid-body inertia", IEEE Robotics and Automation Letters 7 (2022)). The
distance to the given body is the Bregman divergence of -log det, tr(P₀⁻¹ P) - log det(P₀⁻¹ P) - 4,
which does not depend on units or frames (Lee, Wensing and Park, "Geometric robot dynamic
identification: a convex programming approach", IEEE Trans. Robotics 36 (2020)). As a function of U
it is a sum of squares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.optimize import least_squares

from osc_ros.identification.fit.inertial import (
    made_definite,
    parameters_of_pseudo_inertia,
    pseudo_inertia,
    SIZE,
)
from osc_ros.identification.fit.least_squares import Fit

Array = NDArray[np.float64]

_ROWS, _COLUMNS = np.tril_indices(4, -1)
_DIAGONAL = np.arange(4)


class Bodies:
    """Log-Cholesky parameters of bodies with mass, relative to given parameters (b, 10)."""

    def __init__(self, parameters: Array) -> None:
        self._L = np.linalg.cholesky(np.array([made_definite(P)
                                               for P in pseudo_inertia(parameters)]))

    @staticmethod
    def _factors(x: Array) -> Array:
        """Return the factors U (b, 4, 4) of x (b, 10)."""
        U = np.zeros((len(x), 4, 4))
        U[:, _DIAGONAL, _DIAGONAL] = np.exp(x[:, :4])
        U[:, _ROWS, _COLUMNS] = x[:, 4:]
        return U

    def parameters(self, x: Array) -> Array:
        """Return the inertial parameters (b, 10) for log-Cholesky parameters x (b, 10)."""
        LU = self._L @ self._factors(x)
        return parameters_of_pseudo_inertia(LU @ LU.transpose(0, 2, 1))

    def jacobian(self, x: Array) -> Array:
        """Return the derivatives (b, 10, 10) of `parameters` by x."""
        U = self._factors(x)
        LU, J = self._L @ U, np.empty((len(x), SIZE, SIZE))
        for k in range(SIZE):
            dU = np.zeros_like(U)
            if k < 4:
                dU[:, k, k] = U[:, k, k]
            else:
                dU[:, _ROWS[k - 4], _COLUMNS[k - 4]] = 1.0
            half = (self._L @ dU) @ LU.transpose(0, 2, 1)
            J[:, :, k] = parameters_of_pseudo_inertia(half + half.transpose(0, 2, 1))
        return J

    @staticmethod
    def distances(x: Array) -> tuple[Array, Array]:
        """Return residuals (b, 10) whose squares sum to the divergence, and their derivatives."""
        residuals, slopes = x.copy(), np.ones_like(x)
        d = x[:, :4]
        near = np.abs(d) < 1e-4
        divergence = np.maximum(np.expm1(2.0 * d) - 2.0 * d, 0.0)
        root = np.where(near, np.sqrt(2.0) * d, np.sign(d) * np.sqrt(divergence))
        residuals[:, :4] = root
        slopes[:, :4] = np.where(near, np.sqrt(2.0),
                                 np.expm1(2.0 * d) / np.where(near, 1.0, root))
        return residuals, slopes


def consistent_parameters(found: Fit, given: Array, prior: float) -> tuple[Array, Array]:
    """Return consistent parameters (b, 10), and the values (p - 10 b,) of the other columns."""
    # They minimize the squared, whitened residuals, plus the divergence from the given bodies (b,
    # 10), which have mass, divided by `prior`². The first 10 b columns are inertial parameters.
    # `prior`: expected relative error of the given ones; 1: only the order of magnitude is known.
    size, bodies = given.size, Bodies(given)
    scale = 1.0 / np.sqrt(found.inflation)
    R = qr(np.column_stack([found.A, found.y]) * scale, mode='r')[0][:found.A.shape[1] + 1]
    A, y = R[:, :-1], R[:, -1]

    def residuals(x: Array) -> Array:
        bodies_x = x[:size].reshape(-1, SIZE)
        parameters = np.concatenate([bodies.parameters(bodies_x).ravel(), x[size:]])
        return np.concatenate([A @ parameters - y,
                               bodies.distances(bodies_x)[0].ravel() / prior])

    def jacobian(x: Array) -> Array:
        bodies_x = x[:size].reshape(-1, SIZE)
        J = np.zeros((len(y) + size, len(x)))
        for i, block in enumerate(bodies.jacobian(bodies_x)):
            columns = slice(SIZE * i, SIZE * (i + 1))
            J[:len(y), columns] = A[:, columns] @ block
        J[:len(y), size:] = A[:, size:]
        J[len(y):, :size] = np.diag(bodies.distances(bodies_x)[1].ravel() / prior)
        return J

    start = np.zeros(A.shape[1])
    start[size:] = np.linalg.lstsq(A[:, size:], y - A[:, :size] @ given.ravel(), rcond=None)[0]
    solved = least_squares(residuals, start, jacobian, x_scale='jac', max_nfev=300)
    return bodies.parameters(solved.x[:size].reshape(-1, SIZE)), solved.x[size:]
