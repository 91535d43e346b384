# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Fijany's factors of M⁻¹, Λ⁻¹ and Λ (paper 000), and products with them, in numpy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.algebra.task_inertia import EXACT_LOW
from osc_ros.dynamics.papers.block_tridiagonal import Factor, Factorization
from osc_ros.dynamics.papers.blocks import gather, spread, Tridiagonal
from osc_ros.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SchurBlocks:
    """The factors of M⁻¹, Λ⁻¹ and Λ at one position; 𝒜 and 𝒮 are factored at their first use."""

    # Blocks are m wide: 6 if a joint has a rotor inertia, else 6 minus the least number of degrees
    # of freedom of a joint; k is the largest number.

    # (m, m), positive definite: constraint forces to accelerations along W̃ (eqs. 39, 52, 53).
    A: Tridiagonal
    # B (m, k), C (k, k): joint torques to accelerations across joints, along W̃ and H (eq. 39).
    B: Tridiagonal
    C: Tridiagonal
    # (6, 6): inverse inertia of the last body about the tip, base axes (eqs. 44, 45).
    D: Array
    # E, R (m, 6): last blocks of ℰ and of ℛ = ℰ𝒟⁻¹ (eqs. 43, 49); all other blocks are zero.
    E: Array
    G: Array  # 𝒟⁻¹ (6, 6) (eq. 48) [kg m², kg m, kg]
    R: Array
    # (m, m): ℰℛᵀ - 𝒜 (eq. 50), negative definite if the tip can move in every direction; -𝒮 is the
    # 𝒜 of the chain with its last body fixed.
    S: Tridiagonal
    # (g, k): degrees of freedom of each joint among the n of the path; n where a joint has fewer
    # than k.
    freedoms: NDArray[np.intp] = field(repr=False)
    factorization: Factorization = field(repr=False)

    @cached_property
    def A_factor(self) -> Factor:
        """Factorization of 𝒜."""
        return self.factorization(self.A.diagonal, self.A.upper)

    @cached_property
    def S_factor(self) -> Factor:
        """Factorization of -𝒮; raises InputError if -𝒮 is not positive definite."""
        return self.factorization(-self.S.diagonal, -self.S.upper)

    @cached_property
    def Lambda_inv(self) -> Array:
        """Λ⁻¹ = 𝒟 - ℰᵀ𝒜⁻¹ℰ (eq. 46), (6, 6); only the last block of 𝒜⁻¹ is needed."""
        Lambda_inv = self.D - self.E.T @ self.A_factor.last_inverse_block() @ self.E
        return np.asarray(0.5 * (Lambda_inv + Lambda_inv.T))

    @cached_property
    def Lambda(self) -> Array:
        """Λ = 𝒢 - ℛᵀ𝒮⁻¹ℛ (eq. 51), (6, 6), without Λ⁻¹."""
        # InputError if 𝒮 is singular to working precision: the tip cannot move in every direction.
        try:
            Lambda = self.G + self.R.T @ self.S_factor.last_inverse_block() @ self.R
            singular = not np.linalg.cond(Lambda) < 1.0 / EXACT_LOW
        except (InputError, np.linalg.LinAlgError):
            singular = True
        if singular:
            raise InputError('S is singular: the tip cannot be moved in every direction here, and '
                             'has no task inertia (its inverse, Lambda_inv, exists)')
        return np.asarray(0.5 * (Lambda + Lambda.T))

    def M_inv_times(self, x: Array) -> Array:
        """M⁻¹x = 𝒞x - ℬᵀ𝒜⁻¹ℬx (eq. 39), (n,): one solve with 𝒜."""
        # x (n,): torques of the path's degrees of freedom; those of other joints are 0.
        x_spread = spread(x, self.freedoms)
        X = self.A_factor.solve(self.B.times(x_spread))
        return gather(self.C.times(x_spread) - self.B.T.times(X), self.freedoms, len(x))

    def Lambda_inv_times(self, f: Array) -> Array:
        """Λ⁻¹f = 𝒟f - ℰᵀ𝒜⁻¹ℰf (eq. 46), (6,): one solve with 𝒜."""
        X = self.A_factor.solve(self._in_last_block(self.E @ f))
        return np.asarray(self.D @ f - self.E.T @ X[-1])

    def Lambda_times(self, a: Array) -> Array:
        """Λa = 𝒢a - ℛᵀ𝒮⁻¹ℛa (eq. 51), (6,): one solve with 𝒮; raises InputError as `Lambda`."""
        self.Lambda  # noqa: B018  refuses where S is singular
        X = self.S_factor.solve(self._in_last_block(self.R @ a))
        return np.asarray(self.G @ a + self.R.T @ X[-1])

    def M_inv_times_and_Lambda_inv(self, x: Array) -> tuple[Array, Array]:
        """M⁻¹x (n,) and Λ⁻¹ (6, 6) by one solve with seven right-hand sides (eqs. 54-56)."""
        x_spread = spread(x, self.freedoms)
        rhs = self.B.times(x_spread)[:, :, None]
        solution = self.A_factor.solve(np.concatenate([self._in_last_block(self.E), rhs], axis=2))
        Omega_last, X = solution[-1, :, :6], solution[:, :, 6]
        return (gather(self.C.times(x_spread) - self.B.T.times(X), self.freedoms, len(x)),
                np.asarray(self.D - self.E.T @ Omega_last))

    def _in_last_block(self, block: Array) -> Array:
        whole = np.zeros((len(self.A.diagonal), *block.shape))
        whole[-1] = block
        return whole
