# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Calls of the kernels of a team: by the leader, by a follower, or all members in one process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.lane_arrays import WIDTH
from osc_ros.dynamics.chain.chain_bodies import WORK_WIDTH
from osc_ros.dynamics.segments.lane_segments import lane_memory, Split
from osc_ros.dynamics.segments.roles import (
    compile_kernels,
    compile_lane_kernels,
    follow,
    lead,
    lead_back,
)
from osc_ros.dynamics.segments.signals import (
    COMMAND,
    INWARD,
    LAST,
    MOVE,
    PROGRESS_WIDTH,
    REST,
    STAGE,
    WAITING,
    words,
)
from osc_ros.dynamics.segments.slots import QDD, SLOT_WIDTH, TAU
from osc_ros.dynamics.segments.team_memory import Shared

Array = NDArray[np.float64]

# Variants of a call: bit 0 is set if τ⁰ is given, bit 1 if a posture acceleration is given.
VARIANTS = range(4)


def compile_for(split: Split) -> None:
    """Compile or load the kernels of a team once per process."""
    if not split.lengths:
        compile_kernels()
        return
    for with_qdd in (False, True):
        compile_lane_kernels(with_qdd, by_team=True)


def follower_arguments(shared: Shared, split: Split, k: int, progress: NDArray[np.int64],
                       looks: int) -> list[tuple[Any, ...]]:
    """Arguments of `roles.follow` for member k: one tuple for each variant of a call."""
    # Variants differ in which of τ⁰ and q̈ₚ are given; a member in lanes always gets τ⁰.
    bounds = split.bounds
    lanes = (lane_memory(shared.links[bounds[0, k]:bounds[0, k + 1]], split.lengths[k])
             if split.lengths else None)
    arguments = []
    for variant in VARIANTS:
        mine = slice(*bounds[variant, k:k + 2])
        q, qd, tau, qdd, out = shared.state[:, mine]
        own = shared._replace(links=shared.links[mine], work=shared.work[mine])
        arguments.append((
            (*own,), (k, len(q), progress, looks), lanes, q, qd,
            tau if variant & 1 or lanes else None, qdd if variant & 2 else None, out))
    return arguments


class Leader(ABC):
    """Member 0 of a team, in the process that owns the team."""

    # shared: memory of all members, links and ends set. progress (PROGRESS_WIDTH,): of member 0.
    # looks: number of reads of a signal before a kernel returns.

    def __init__(self, shared: Shared, split: Split, progress: NDArray[np.int64],
                 looks: int) -> None:
        self.shared, self.progress = shared, progress
        bodies = split.bounds[:, 1].tolist()
        self._places = [(0, count, progress, looks) for count in bodies]
        self._lanes = (lane_memory(shared.links[:bodies[0]], split.lengths[0])
                       if split.lengths else None)
        self._no_torque = np.zeros(len(shared.links)) if split.lengths else None
        self._variant = 0

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None,
                tip: Array) -> int:
        """Outward pass with the other members, see `roles.lead`; raises Fault if one fails."""
        if tau is None:
            tau = self._no_torque
        self._variant = (tau is not None) + 2 * (qdd is not None)
        return self._run(lead, (*self.shared,), self._places[self._variant], self._lanes, q, qd,
                         tau, qdd, tip)

    def inward(self, F: Array, out: Array) -> int:
        """Inward pass with the other members, see `roles.lead_back`; raises Fault if one fails."""
        return self._run(lead_back, (*self.shared,), self._places[self._variant], self._lanes,
                         *self.torques, F, out)

    @property
    def torques(self) -> tuple[Array | None, Array | None]:
        """τ⁰ and q̈ₚ of the last `outward`, in the memory of all members; None if not given."""
        return (self.shared.state[TAU] if self._variant & 1 else None,
                self.shared.state[QDD] if self._variant & 2 else None)

    @abstractmethod
    def _run(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """Call a kernel of the leader until it is done; return its status."""


class ByTurns(Leader):
    """Evaluates the segments of all members in this process, one member after the other."""

    # The results are bit-identical to the results of a team.

    def __init__(self, links: Array, ends: Array, split: Split) -> None:
        n, members = len(links), split.bounds.shape[1] - 1
        # `work` has rows for the bodies before the lanes only; the others have theirs in lanes
        shared = Shared(links, ends.copy(), np.zeros((5, n)), np.zeros((WIDTH, WORK_WIDTH)),
                        np.zeros((members, SLOT_WIDTH)), np.zeros(6),
                        np.zeros(words(members), np.int64))
        super().__init__(shared, split, np.zeros(PROGRESS_WIDTH, np.int64), 0)
        self._followers = []
        for k in range(members - 1, 0, -1):
            progress = np.zeros(PROGRESS_WIDTH, np.int64)
            progress[STAGE] = REST
            self._followers.append((progress, follower_arguments(shared, split, k, progress, 0)))

    def _run(self, kernel: Callable[..., int], *arguments: Any) -> int:
        status = kernel(*arguments)
        while status == WAITING:
            command = int(self.shared.flags[COMMAND])
            for progress, variants in self._followers:
                if command % INWARD != progress[LAST] % INWARD:
                    begin(progress, command)
                follow(*variants[command % INWARD])
            status = kernel(*arguments)
        return status


def begin(progress: NDArray[np.int64], command: int) -> None:
    """Set the progress of a follower so that it begins a command of another variant."""
    progress[LAST], progress[STAGE] = command, MOVE
