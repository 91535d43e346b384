# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The functions that all methods of a plain chain have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.algebra.arrays import kernel_array
from osc_ros.dynamics.chain.chain_bodies import A0, chain_of, FORCE, POSE, TWIST
from osc_ros.dynamics.chain.passes import (
    acceleration_response,
    compile_kernels,
    inverse_dynamics,
    inverse_mass_matrix,
    inward,
    jacobian,
)
from osc_ros.dynamics.contract.method import Method
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class ChainMethod(Method):
    """Base class: subclasses define `torque`, `outward` and `forward_dynamics`."""

    def __init__(self, robot: Robot) -> None:
        compile_kernels()
        self.robot = robot
        self._chain, parts = chain_of(robot)
        self._links, self._ends, _, self._factor, self._tip = parts
        self.gravity: Array = self._ends[:3]
        self._rest = np.zeros(robot.n)
        self._tau: Array | None = None
        self._qdd: Array | None = None
        self.Lambda_inv: Array = self._tip[:A0].reshape(6, 6)
        self.a0: Array = self._tip[A0:POSE]
        self.pose: Array = self._tip[POSE:TWIST].reshape(4, 4)
        self.twist: Array = self._tip[TWIST:FORCE]

    def inward(self, F: Array, out: Array) -> None:
        """Write τ⁰ + JᵀF, with J and τ⁰ of the last `outward`, to out (n,)."""
        inward(self._chain, self._tau, self._qdd, F, out)

    def jacobian(self, out: Array) -> None:
        """Write the Jacobian J of the last `outward` to out (6, n)."""
        jacobian(self._chain, out)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """Write M⁻¹(τ + JᵀF), with M and J of the last `outward`, to out (n,) [rad/s²]."""
        acceleration_response(self._chain, tau, F, out)

    def inverse_mass_matrix(self, out: Array) -> None:
        """Write M⁻¹ of the last `outward` to out (n, n)."""
        inverse_mass_matrix(self._chain, out)

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Joint torques M q̈ + C + G (n,)."""
        tau = np.empty(self.robot.n)
        inverse_dynamics(self._chain, kernel_array(q), kernel_array(qd), kernel_array(qdd), tau)
        return tau

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """The product M⁻¹ x (n,)."""
        gravity = self.gravity.copy()
        self.gravity[:] = 0.0
        try:
            return self.forward_dynamics(q, self._rest, x, np.zeros(6))
        finally:
            self.gravity[:] = gravity
