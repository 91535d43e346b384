"""The method 'sweep' of a plain chain: the whole law in one outward and one inward pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.layout import (
    A0,
    FACTOR_WIDTH,
    FORCE,
    packed,
    POSE,
    TIP_WIDTH,
    TWIST,
    WORK_WIDTH,
)
from osc_ros.dynamics.chain.passes import (
    acceleration_response,
    accelerations,
    compile_kernels,
    evaluations,
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
        self._links, self._ends = packed(robot)
        self._weightless = self._ends.copy()
        self._weightless[:3] = 0.0
        self.gravity: Array = self._ends[:3]
        self._work = np.zeros((robot.n, WORK_WIDTH))
        self._factor = np.zeros((robot.n, FACTOR_WIDTH))
        self._tip = np.zeros(TIP_WIDTH)
        self._rest, self._unit = np.zeros(robot.n), np.zeros(robot.n)
        self.Lambda_inv: Array = self._tip[:A0].reshape(6, 6)
        self.a0: Array = self._tip[A0:POSE]
        self.pose: Array = self._tip[POSE:TWIST].reshape(4, 4)
        self.twist: Array = self._tip[TWIST:FORCE]

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        """Arrays of the kernels of `passes`: links, ends, work, factor and tip."""
        return self._links, self._ends, self._work, self._factor, self._tip

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Joint torques τ⁰ + JᵀΛ(u - a⁰) into out (n,); DONE, WRONG_SHAPE or NOT_FINITE."""
        return int(law(self._links, self._ends, q, qd, u, tau, qdd, self._work, self._tip, out))

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Λ⁻¹, a⁰, pose and twist under τ⁰; DONE, WRONG_SHAPE or NOT_FINITE."""
        self._tau, self._qdd = tau, qdd
        return int(outward(self._links, self._ends, q, qd, tau, qdd, self._work, self._factor,
                           self._tip))

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
        accelerations(self._links, self._ends, q, qd, tau, F, self._work, self._factor,
                      self._tip, qdd)
        return qdd

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""
        qdd = np.empty(self.robot.n)
        accelerations(self._links, self._weightless, q, self._rest, x, np.zeros(6), self._work,
                      self._factor, self._tip, qdd)
        return qdd
