# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Results at one state: `Tip` (the tips under τ⁰ alone) and `TaskState` (all terms)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from osc_ros.dynamics.operational_space import OperationalSpace

Array = NDArray[np.float64]


class Tip(NamedTuple):
    """
    Motion and mobility of m tips under the torques τ⁰ alone, base axes, [angular; linear].

    Attributes
    ----------
    pose : (4, 4), or (m, 4, 4) for m > 1
    twist : (6 m,) [rad/s, m/s]
    Lambda_inv : (6 m, 6 m)
        Inverse operational-space inertia [1/(kg m²), 1/(kg m), 1/kg].
    a0 : (6 m,)
        Acceleration J M⁻¹(τ⁰ - h) + J̇q̇ [rad/s², m/s²].

    """

    pose: Array
    twist: Array
    Lambda_inv: Array
    a0: Array


@dataclass(frozen=True, eq=False)
class TaskState:
    """
    All terms of the operational-space equation of motion at one state, for m tips.

    Attributes
    ----------
    q, qd : (nq,), (n,)
    pose : (4, 4), or (m, 4, 4) for m > 1
        Poses of the tips in the base frame.
    twist : (6 m,)
        J q̇ [rad/s, m/s].
    J : (6 m, n)
        Natural Jacobian of the tips, base axes, [angular; linear].
    Jdot_qd : (6 m,)
        J̇q̇, the classical acceleration of the tips at q̈ = 0 [rad/s², m/s²].
    h : (n,)
        Bias torque C + G [N·m].
    Lambda_inv, Lambda : (6 m, 6 m)
        Inverse operational-space inertia, and operational-space inertia [kg m², kg m, kg]; where
        the arm is singular to working precision, Lambda is the pseudo-inverse of Lambda_inv.

    """

    q: Array
    qd: Array
    pose: Array
    twist: Array
    J: Array
    Jdot_qd: Array
    h: Array
    Lambda_inv: Array
    Lambda: Array
    space: OperationalSpace = field(repr=False)

    @cached_property
    def M_inv(self) -> Array:
        """Inverse joint-space inertia (n, n)."""
        columns = [self.space.apply_M_inv(self.q, e) for e in np.eye(len(self.qd))]
        M_inv = np.array(columns)
        return np.asarray(0.5 * (M_inv + M_inv.T))

    @cached_property
    def J_bar(self) -> Array:
        """Dynamically consistent inverse M⁻¹JᵀΛ (n, 6 m)."""
        return np.asarray(self.M_inv @ self.J.T @ self.Lambda)

    @cached_property
    def N(self) -> Array:
        """Null-space projector I - J̄J (n, n) for velocities; its transpose is for torques."""
        return np.asarray(np.eye(len(self.qd)) - self.J_bar @ self.J)

    @cached_property
    def gravity(self) -> Array:
        """Task-space gravity force Λ J M⁻¹G (6 m,) [N·m, N]; paper 000, eq. 11."""
        return np.asarray(-self.Lambda @ self._a0(np.zeros_like(self.qd)))

    @cached_property
    def coriolis(self) -> Array:
        """Task-space Coriolis force Λ(J M⁻¹C - J̇q̇) (6 m,) [N·m, N]; paper 000, eq. 10."""
        return np.asarray(-self.Lambda @ self._a0(self.qd)) - self.gravity

    def _a0(self, qd: Array) -> Array:
        """Accelerations of the tips without joint torques: J̇q̇ - J M⁻¹h."""
        return self.space.outward(self.q, qd).a0.copy()
