# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Measured time per body, and the split of a chain with equal times for all members of a team.

A team splits a plain chain into segments; member 0, the leader, has the segment at the base. The
phases of a call are those of `segments.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.chain_bodies import packed_robot, TIP_WIDTH
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.segments import roles, signals
from osc_ros.dynamics.segments.members import VARIANTS
from osc_ros.dynamics.segments.roles import follow, lead
from osc_ros.dynamics.segments.signals import ELIMINATE, PROGRESS_WIDTH, START, STOP
from osc_ros.dynamics.segments.team_memory import shared_arrays, size_in_bytes
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

_SAMPLE, _REPEATS = 512, 15  # largest number of bodies, and repetitions, of a measurement


class Costs(NamedTuple):
    """Measured computing time per body of a chain [s], for the four variants of a call."""

    serial: float  # one process, all phases
    place: Array  # phase 1 (4,)
    base: Array  # phase 2, in the segment at the base (4,)
    segment: Array  # phase 2, in other segments (4,)

    def bounds(self, n: int, members: int) -> NDArray[np.intp]:
        """The `bounds` of a `Split` (4, members + 1) with which all members take equally long."""
        found = np.zeros((4, members + 1), np.intp)
        ratio = self.segment / self.base
        others = members - 1
        base = np.clip(np.rint(n * ratio / (ratio + others)), 1, n - others).astype(np.intp)
        for variant in VARIANTS:
            first = base[variant]
            found[variant, 1:] = first + np.rint(np.linspace(0, n - first, members))
        return found

    def bodies(self, n: int, members: int) -> tuple[int, ...]:
        """Number of bodies of every member in calls of variant 0 (no τ⁰, no posture)."""
        return tuple(int(count) for count in np.diff(self.bounds(n, members)[0]))

    def expected(self, n: int, members: int) -> float:
        """Predicted duration of a call of variant 0 [s], without the times of waiting."""
        base = self.bounds(n, members)[0, 1]
        return float(base * (self.place[0] + self.base[0]))


def law_call(sweep: Sweep) -> Callable[[], float]:
    """Return a function that calls `sweep.torque` once and returns the duration [s]."""
    q, out = np.zeros(sweep.robot.n), np.zeros(sweep.robot.n)
    u = np.zeros(6)

    def call() -> float:
        started = perf_counter()
        sweep.torque(q, q, u, None, None, out)
        return perf_counter() - started

    return call


def measured_costs(robot: Robot) -> Costs:
    """Costs on this machine at present, measured by this process alone."""
    roles.compile_kernels()
    n = min(robot.n, _SAMPLE)
    links, ends = packed_robot(robot)
    x = np.zeros(n)
    shared = shared_arrays(bytearray(size_in_bytes(n, 2)), n, 2)._replace(links=links[:n],
                                                                          ends=ends)
    progress, tip = np.zeros(PROGRESS_WIDTH, np.int64), np.zeros(TIP_WIDTH)

    def prepare(stage: int) -> None:
        # no member sleeps, and every signal has arrived
        shared.flags[:], shared.flags[:3 * signals.LINE] = 0, STOP
        progress[:] = stage, 0, 0, 0, 0

    def leading(variant: int, m: int, stage: int) -> float:
        tau, qdd = x if variant & 1 else None, x if variant & 2 else None
        prepare(stage)
        started = perf_counter()
        lead((*shared,), (0, m, progress, 0), None, x, x, tau, qdd, tip)
        return perf_counter() - started

    def following(variant: int, m: int) -> float:
        tau, qdd = x[:m] if variant & 1 else None, x[:m] if variant & 2 else None
        own = shared._replace(links=links[:m], work=shared.work[:m])
        prepare(ELIMINATE)
        started = perf_counter()
        follow((*own,), (1, m, progress, 0), None, x[:m], x[:m], tau, qdd, x[:m])
        return perf_counter() - started

    sweep = Sweep(robot)
    call = law_call(sweep)
    serial = min(call() for _ in range(_REPEATS)) / robot.n
    times = np.array([[(leading(variant, n, START), leading(variant, n, ELIMINATE),
                        leading(variant, 1, ELIMINATE), following(variant, n),
                        following(variant, 1)) for variant in VARIANTS]
                      for _ in range(_REPEATS)]).min(axis=0)
    whole, base, base_one, segment, segment_one = times.T / max(1, n - 1)
    return Costs(serial, whole - base, base - base_one, segment - segment_one)
