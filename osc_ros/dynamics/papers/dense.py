# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Textbook formulas with M, J, h and Cholesky: the reference for all other methods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE
from osc_ros.dynamics.papers import newton_euler
from osc_ros.dynamics.papers.numpy_method import NumpyMethod

Array = NDArray[np.float64]


class Dense(NumpyMethod):
    """The method 'dense': joint-space inertia, its Cholesky factor, and products with it."""

    # Except `task_inertia`, it shares no code with the compiled methods.

    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        robot = self.robot
        at = placement(robot, q)
        rest = np.zeros((robot.n, 1))
        h = newton_euler.inverse_dynamics(robot, q, qd, rest, self.gravity)[:, 0]
        M = newton_euler.mass_matrix(robot, q)
        self._M_factor = cho_factor(M)
        self._J = newton_euler.jacobian(robot, at)
        *_, self.twist[:], Jdot_qd = newton_euler.motion(robot, at, qd, rest, self.gravity)
        self._tau = np.zeros(robot.n) if tau is None else tau.copy()
        if qdd is not None:
            self._tau += M @ qdd + h
        self.pose[:] = at.T_tip if len(at.T_tips) == 1 else at.T_tips
        Lambda_inv = self._J @ cho_solve(self._M_factor, self._J.T)
        self.Lambda_inv[:] = 0.5 * (Lambda_inv + Lambda_inv.T)
        free = cho_solve(self._M_factor, self._tau - h, check_finite=False)
        self.a0[:] = self._J @ free + Jdot_qd[:, 0]
        return DONE if np.isfinite(self.a0).all() else NOT_FINITE

    def inward(self, F: Array, out: Array) -> None:
        """Write τ⁰ + JᵀF, with J and τ⁰ of the last `outward`, to out (n,)."""
        out[:] = self._tau + self._J.T @ F

    def jacobian(self, out: Array) -> None:
        """Write the Jacobian J of the last `outward` to out (6 m, n)."""
        out[:] = self._J

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """Write M⁻¹(τ + JᵀF), with M and J of the last `outward`, to out (n,) [rad/s²]."""
        out[:] = cho_solve(self._M_factor, tau + self._J.T @ F, check_finite=False)

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques (n,) and forces F (6 m,) on the tips."""
        rest = np.zeros((self.robot.n, 1))
        h = newton_euler.inverse_dynamics(self.robot, q, qd, rest, self.gravity)[:, 0]
        J = newton_euler.jacobian(self.robot, placement(self.robot, q))
        return self.apply_M_inv(q, tau + J.T @ F - h)

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """The product M⁻¹ x (n,)."""
        M = newton_euler.mass_matrix(self.robot, q)
        return np.asarray(cho_solve(cho_factor(M), x, check_finite=False), dtype=np.float64)
