"""The method 'sweep' of a plain chain: the whole law in one outward and one inward pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.arrays import ready
from osc_ros.dynamics.chain.layout import A0, chain_of, FORCE, POSE, TWIST
from osc_ros.dynamics.chain.passes import (
    acceleration_response,
    accelerations,
    compile_kernels,
    evaluations,
    inverse_dynamics,
    inverse_mass_matrix,
    inward,
    jacobian,
    law,
    outward,
)
from osc_ros.dynamics.method import Method, on_all_cores, Terms
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Sweep(Method):
    """The method 'sweep' of a plain chain: one robot and the memory of its kernels."""

    def __init__(self, robot: Robot) -> None:
        compile_kernels()
        self.robot = robot
        self._chain, parts = chain_of(robot)
        self._links, self._ends, self._work, self._factor, self._tip = parts
        self.gravity: Array = self._ends[:3]
        self._rest, self._unit = np.zeros(robot.n), np.zeros(robot.n)
        self.Lambda_inv: Array = self._tip[:A0].reshape(6, 6)
        self.a0: Array = self._tip[A0:POSE]
        self.pose: Array = self._tip[POSE:TWIST].reshape(4, 4)
        self.twist: Array = self._tip[TWIST:FORCE]

    @property
    def arrays(self) -> tuple[Array]:
        """First argument of the kernels of `passes`: see `layout.Parts`."""
        return (self._chain,)

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Joint torques τ⁰ + JᵀΛ(u - a⁰) into out (n,); DONE, WRONG_SHAPE or NOT_FINITE."""
        status: int = law(self._chain, q, qd, u, tau, qdd, out)
        return status

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Λ⁻¹, a⁰, pose and twist under τ⁰; DONE, WRONG_SHAPE or NOT_FINITE."""
        self._tau, self._qdd = tau, qdd
        status: int = outward(self._chain, q, qd, tau, qdd)
        return status

    def inward(self, F: Array, out: Array) -> None:
        """Joint torques τ⁰ + JᵀF at the last `outward`, into out (n,)."""
        inward(self._chain, self._tau, self._qdd, F, out)

    def jacobian(self, out: Array) -> None:
        """J at the last `outward`, into out (6, n)."""
        jacobian(self._chain, out)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """M⁻¹(τ + JᵀF) at the last `outward`, into out (n,) [rad/s²]."""
        acceleration_response(self._chain, tau, F, out)

    def inverse_mass_matrix(self, out: Array) -> None:
        """M⁻¹ at the last `outward`, into out (n, n)."""
        inverse_mass_matrix(self._chain, self._unit, out)

    def evaluate_batch(self, q: Array, qd: Array) -> Terms:
        """Terms at k states, q and qd (k, n), on all cores."""
        found = Terms.empty(self.robot, len(q))

        def part(first: int, last: int) -> None:
            evaluations(self._links, self._ends, q[first:last], qd[first:last], self._rest,
                        np.zeros(6), np.empty_like(self._work), np.empty_like(self._tip),
                        *(values[first:last] for values in found))

        on_all_cores(len(q), part)
        return found

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques and a force on the tip."""
        qdd = np.empty(self.robot.n)
        accelerations(self._chain, q, qd, tau, F, qdd)
        return qdd

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Joint torques M q̈ + C + G (n,)."""
        tau = np.empty(self.robot.n)
        inverse_dynamics(self._chain, ready(q), ready(qd), ready(qdd), tau)
        return tau

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""
        gravity = self.gravity.copy()
        self.gravity[:] = 0.0
        try:
            return self.forward_dynamics(q, self._rest, x, np.zeros(6))
        finally:
            self.gravity[:] = gravity
