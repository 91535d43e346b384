# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One process evaluates a long chain in SIMD lanes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.chain_bodies import FORCE
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.contract.method import WRONG_SHAPE
from osc_ros.dynamics.segments import roles
from osc_ros.dynamics.segments.lane_segments import Split
from osc_ros.dynamics.segments.members import ByTurns
from osc_ros.dynamics.segments.roles import commanded_force
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Segmented(Sweep):
    """The method 'sweep' of a long chain, with one segment in each SIMD lane of one core."""

    # `torque` is computed in lanes; other calls are those of `Sweep`. The first torque with a
    # posture acceleration compiles a kernel, or loads it from the cache. `split`: of `lane_split`
    # for one member.

    def __init__(self, robot: Robot, split: Split) -> None:
        super().__init__(robot)
        roles.compile_lane_kernels(False, by_team=False)
        self._lanes = ByTurns(self._links, self._ends, split)

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,); return DONE, WRONG_SHAPE or NOT_FINITE."""
        if len(u) != 6 or len(out) != self.robot.n:
            return WRONG_SHAPE
        roles.compile_lane_kernels(qdd is not None, by_team=False)
        self._lanes.shared.ends[:3] = self.gravity
        status = self._lanes.outward(q, qd, tau, qdd, self._tip)
        if status == WRONG_SHAPE:
            return status
        F = self._tip[FORCE:FORCE + 6]
        commanded_force(u, self._tip, F)
        return self._lanes.inward(F, out)
