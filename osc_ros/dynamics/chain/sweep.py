# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

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
    def arrays(self) -> tuple[Array]:
        """First argument of the kernels of `passes`: see `layout.Parts`."""
        return (self._chain,)

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,); return DONE, WRONG_SHAPE or NOT_FINITE."""
        status: int = law(self._chain, q, qd, u, tau, qdd, out)
        return status

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Compute Λ⁻¹, a⁰, poses and twists under τ⁰; return DONE, WRONG_SHAPE or NOT_FINITE."""
        self._tau, self._qdd = tau, qdd
        status: int = outward(self._chain, q, qd, tau, qdd)
        return status

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
