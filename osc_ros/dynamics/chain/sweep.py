"""The method 'sweep' of a plain chain: the whole law in one outward and one inward pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.chain_method import ChainMethod
from osc_ros.dynamics.chain.passes import accelerations, evaluations, law, outward
from osc_ros.dynamics.method import on_all_cores, Terms

Array = NDArray[np.float64]


class Sweep(ChainMethod):
    """The method 'sweep' of a plain chain: one robot and the memory of its kernels."""

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

    def evaluate_batch(self, q: Array, qd: Array) -> Terms:
        """Terms at k states, q and qd (k, n), on all cores."""
        found = Terms.empty(self.robot, len(q))

        def part(first: int, last: int) -> None:
            evaluations(self._links, self._ends, q[first:last], qd[first:last], self._rest,
                        np.zeros(6), np.empty_like(self._work), np.empty_like(self._tip),
                        *(values[first:last] for values in found))

        on_all_cores(len(q), part)
        return found

    def _accelerations(self, ends: Array, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        qdd = np.empty(self.robot.n)
        accelerations(self._links, ends, q, qd, tau, F, self._work, self._factor, self._tip, qdd)
        return qdd
