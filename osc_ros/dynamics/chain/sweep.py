# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The method 'sweep' of a plain chain: all results in one outward and one inward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.parallel_parts import in_parallel
from osc_ros.dynamics.chain.chain_method import ChainMethod
from osc_ros.dynamics.chain.passes import accelerations, law, outward
from osc_ros.dynamics.contract.method import States, Terms
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Sweep(ChainMethod):
    """The method 'sweep' for a plain chain."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self._on_gpu: dict[tuple[Any, int], Any] = {}

    @property
    def arrays(self) -> tuple[Array]:
        """First argument of the kernels of `passes`: the flat array of `chain_bodies`."""
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

    def torque_batch(self, states: States, out: Array, valid: NDArray[np.bool_],
                     threads: int | None) -> None:
        """Write torques to out (k, n), and `valid` (k,), in SIMD lanes and threads."""
        from osc_ros.compile.lane_arrays import zeros
        from osc_ros.dynamics.chain.chain_batch import laws, room_size

        given = states.with_gravity()

        def part(first: int, last: int) -> None:
            laws(self._links, self._ends, given.part(first, last), zeros(room_size(self.robot.n)),
                 out[first:last], valid[first:last])

        in_parallel(len(out), part, threads, (laws, *(
            values is None for values in (states.tau, states.qdd, states.payload))))

    def evaluate_batch(self, states: States, found: Terms, threads: int | None) -> None:
        """Write `found.valid` and the requested terms, in SIMD lanes and threads."""
        from osc_ros.compile.lane_arrays import zeros
        from osc_ros.dynamics.chain.chain_batch import room_size, terms

        given, flat = states.with_gravity(), found.flat()

        def part(first: int, last: int) -> None:
            terms(self._links, self._ends, given.part(first, last), zeros(room_size(self.robot.n)),
                  flat.part(first, last))

        in_parallel(len(found.valid), part, threads, (terms, states.payload is None))

    def on_gpu(self, number: type[np.floating[Any]], device: int) -> Any:
        """Return the `ChainOnGpu` of the GPU in use, which has the index `device`."""
        from osc_ros.dynamics.chain.gpu import ChainOnGpu

        if (number, device) not in self._on_gpu:
            self._on_gpu[number, device] = ChainOnGpu(self._links, self._ends, number)
        return self._on_gpu[number, device]

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques (n,) and a force F (6,) on the tip."""
        qdd = np.empty(self.robot.n)
        accelerations(self._chain, q, qd, tau, F, qdd)
        return qdd
