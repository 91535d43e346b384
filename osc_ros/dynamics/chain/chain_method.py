"""Common part of the methods of a plain chain: all but their outward passes."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.layout import (
    A0,
    FACTOR_WIDTH,
    FORCE,
    packed_robot,
    POSE,
    TIP_WIDTH,
    TWIST,
    WORK_WIDTH,
)
from osc_ros.dynamics.chain.passes import (
    acceleration_response,
    compile_kernels,
    inverse_mass_matrix,
    inward,
    jacobian,
)
from osc_ros.dynamics.method import Method
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class ChainMethod(Method):
    """
    A method of a plain chain: one robot, and the memory of its kernels.

    A subclass defines `torque`, `outward` and `_accelerations`.

    """

    def __init__(self, robot: Robot) -> None:
        compile_kernels()
        self.robot = robot
        self._links, self._ends = packed_robot(robot)
        self._weightless = self._ends.copy()
        self._weightless[:3] = 0.0
        self.gravity: Array = self._ends[:3]
        self._work = np.zeros((robot.n, WORK_WIDTH))
        self._factor = np.zeros((robot.n, FACTOR_WIDTH))
        self._tip = np.zeros(TIP_WIDTH)
        self._rest, self._unit = np.zeros(robot.n), np.zeros(robot.n)
        self._tau: Array | None = None
        self._qdd: Array | None = None
        self.Lambda_inv: Array = self._tip[:A0].reshape(6, 6)
        self.a0: Array = self._tip[A0:POSE]
        self.pose: Array = self._tip[POSE:TWIST].reshape(4, 4)
        self.twist: Array = self._tip[TWIST:FORCE]

    def inward(self, F: Array, out: Array) -> None:
        """Joint torques τ⁰ + JᵀF at the last `outward`, into out (n,)."""
        inward(self._links, self._ends, self._tau, self._qdd, F, self._work, self._tip, out)

    def jacobian(self, out: Array) -> None:
        """J at the last `outward`, into out (6, n)."""
        jacobian(self._links, self._work, self._tip, out)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """M⁻¹(τ + JᵀF) at the last `outward`, into out (n,) [rad/s²]."""
        acceleration_response(self._links, self._ends, tau, F, self._work, self._factor,
                              self._tip, out)

    def inverse_mass_matrix(self, out: Array) -> None:
        """M⁻¹ at the last `outward`, into out (n, n)."""
        inverse_mass_matrix(self._links, self._ends, self._work, self._factor, self._tip,
                            self._unit, out)

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques and a force on the tip."""
        return self._accelerations(self._ends, q, qd, tau, F)

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""
        return self._accelerations(self._weightless, q, self._rest, x, np.zeros(6))

    @abstractmethod
    def _accelerations(self, ends: Array, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) in the gravity of `ends` [rad/s²]."""
