# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The sweep of one long chain by a team of processes: a method that replaces a failed team.

The kernels are in `segments.py`, the processes in `team.py` and `worker.py`. The owner of a team
is its member 0 and works too. The other members are started once, by 'spawn', and share a block of
memory with the owner. The name of the block is removed as soon as all members have opened it, so
nothing remains when a process is killed. A call pickles nothing. A waiting member makes no system
call until it has spun for `Workers.spin` seconds; then it sets its sleep flag, checks once more,
and blocks until another member wakes it. All words are sequentially consistent (`atomic.py`), so
either the member sees the word that it waits for, or the member that writes the word sees the
sleep flag.

If a member ends, or a call takes longer than `Workers.deadline`, the whole team is discarded: the
owner finishes the call alone, and a new team starts in the background. If the members work in SIMD
lanes, the owner then evaluates the segments of all members one after the other (`ByTurns`), with
the same result. The owner also evaluates calls alone while a busy machine makes the team slower
(`pace.py`).
"""

from __future__ import annotations

from collections.abc import Callable
import os
from threading import Thread
from time import perf_counter
import warnings
import weakref

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.chain_bodies import FORCE
from osc_ros.dynamics.chain.passes import outward
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.contract.plan import Workers
from osc_ros.dynamics.segments.lane_segments import Split
from osc_ros.dynamics.segments.members import ByTurns, compile_for, Leader
from osc_ros.dynamics.segments.roles import commanded_force
from osc_ros.dynamics.segments.signals import STAGE, START
from osc_ros.dynamics.segments.slots import Q, QD, QDD, TAU
from osc_ros.dynamics.teams.pace import INWARD, OUTWARD, Pace
from osc_ros.dynamics.teams.team import Team
from osc_ros.dynamics.teams.waiting import Fault
from osc_ros.errors import WorkerWarning
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

_LATE = 20.0  # least deadline, relative to the duration of a serial call
_CALLS = 20  # number of calls by this process alone in a measurement; the shortest counts


class _Keeper:
    """Owner of the team of a `Parallel`; replaces the team after a fault."""

    def __init__(self, start: Callable[[], Team]) -> None:
        self._start = start
        self._thread: Thread | None = None
        self._next: Team | None = None
        self._closed = False
        self._owner = os.getpid()
        self.faults: tuple[str, ...] = ()
        self.team: Team | None = start()

    def ready_team(self) -> Team | None:
        """The team; after a failure the new team, or None until it has started."""
        if self.team is None:
            self.team, self._next = self._next, None
        return self.team

    def replace(self, fault: str) -> None:
        """End the team, start a new one in the background, and warn with the reason."""
        self.faults += (fault,)
        warnings.warn(f'{fault}: one process evaluates this call, and a new team starts',
                      WorkerWarning, stacklevel=2)
        team, self.team = self.team, None
        self._thread = Thread(target=self._restart, args=(team,), daemon=True,
                              name='osc_ros team')
        self._thread.start()

    def _restart(self, team: Team) -> None:
        team.close(kill=True)
        try:
            found = self._start()
        except Exception as error:
            self.faults += (f'no new team could be started: {error}',)
            return
        if self._closed:
            found.close()
        else:
            self._next = found

    def close(self) -> None:
        """End all teams; no effect in a process that was forked from the owner."""
        if os.getpid() != self._owner:
            return
        self._closed = True
        if self._thread is not None:
            self._thread.join()
        for team in (self.team, self._next):
            if team is not None:
                team.close()
        self.team = self._next = None


class Parallel(Sweep):
    """The method 'sweep' of one robot, evaluated by a team of processes."""

    # The team evaluates `torque`, `outward` and `inward`, this process all other calls. Call
    # `close` to end the processes; otherwise they end when Python deletes this object. split:
    # bodies of each member; serial: duration of a call by one process [s].

    def __init__(self, robot: Robot, workers: Workers, split: Split, serial: float) -> None:
        super().__init__(robot)
        compile_for(split)
        deadline = max(workers.deadline, _LATE * serial)
        links, ends = self._links, self._ends
        self._keeper = _Keeper(lambda: Team(links, ends, split, min(workers.spin, deadline),
                                            deadline))
        self._by_turns = ByTurns(links, ends, split) if split.lengths else None
        self._pace: Pace | None = None
        self._led: Leader | None = None  # leader of the last outward pass; None: this process
        self._is_factored = False  # whether the factors belong to the last outward pass
        self._end = weakref.finalize(self, self._keeper.close)
        if self._by_turns is not None:
            self._pace = self._measured_pace(self._by_turns)

    def _measured_pace(self, by_turns: ByTurns) -> Pace:
        """Pace with the shortest durations of several calls by this process alone."""
        times = []
        F, out = np.zeros(6), np.empty(self.robot.n)
        for _ in range(_CALLS):
            started = perf_counter()
            by_turns.outward(self._rest, self._rest, None, None, self._tip)
            between = perf_counter()
            by_turns.inward(F, out)
            times.append((between - started, perf_counter() - between))
        return Pace(*np.min(times, axis=0).tolist())

    def close(self) -> None:
        """End the team; this process alone evaluates all later calls."""
        self._take_over()
        self._end()

    @property
    def faults(self) -> tuple[str, ...]:
        """Failures of the team so far."""
        return self._keeper.faults

    @property
    def team(self) -> Team | None:
        """The present team; None while a new one starts."""
        return self._keeper.ready_team()

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,); return DONE, WRONG_SHAPE or NOT_FINITE."""
        if len(u) != 6 or len(out) != self.robot.n:
            return WRONG_SHAPE
        status = self._outward(q, qd, tau, qdd)
        if status == WRONG_SHAPE:
            return status
        F = self._tip[FORCE:FORCE + 6]
        commanded_force(u, self._tip, F)
        return self._inward(F, out)

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Compute Λ⁻¹, a⁰, poses and twists under τ⁰; return DONE, WRONG_SHAPE or NOT_FINITE."""
        return self._outward(q, qd, tau, qdd)

    def inward(self, F: Array, out: Array) -> None:
        """Write τ⁰ + JᵀF, with J and τ⁰ of the last `outward`, to out (n,)."""
        self._inward(F, out)

    def _leader(self) -> Leader | None:
        """Leader of the next call: the team, `ByTurns`, or None for a sweep by this process."""
        team = self._keeper.ready_team()
        if self._pace is None:
            return team
        self._pace.begin()
        return self._by_turns if team is None or self._pace.is_pause else team

    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        self._led, self._is_factored = self._leader(), False
        if isinstance(self._led, Team):
            try:
                return self._led_outward(self._led, q, qd, tau, qdd)
            except BaseException as error:
                team, self._led = self._led, self._by_turns
                self._handle(team, error)
        if self._led is not None:
            return self._led_outward(self._led, q, qd, tau, qdd)
        self._is_factored = True
        return super().outward(q, qd, tau, qdd)

    def _led_outward(self, leader: Leader, q: Array, qd: Array, tau: Array | None,
                     qdd: Array | None) -> int:
        leader.shared.ends[:3] = self.gravity
        started = perf_counter()
        status = leader.outward(q, qd, tau, qdd, self._tip)
        if self._pace is not None:
            self._pace.add(OUTWARD, perf_counter() - started, isinstance(leader, Team))
        return status

    def _inward(self, F: Array, out: Array) -> int:
        if isinstance(self._led, Team):
            try:
                return self._led_inward(self._led, F, out)
            except BaseException as error:
                team = self._led
                self._take_over()
                self._handle(team, error)
        if self._led is not None:
            return self._led_inward(self._led, F, out)
        super().inward(F, out)
        return DONE if np.isfinite(out).all() else NOT_FINITE

    def _led_inward(self, leader: Leader, F: Array, out: Array) -> int:
        started = perf_counter()
        status = leader.inward(F, out)
        if self._pace is not None:
            self._pace.add(INWARD, perf_counter() - started, isinstance(leader, Team))
        return status

    def _handle(self, team: Team, error: BaseException) -> None:
        """Replace a team that failed or was interrupted in a call; re-raise all but a Fault."""
        if isinstance(error, Fault):
            self._keeper.replace(team.ended_workers() or str(error))
            return
        if team.member.progress[STAGE] != START:
            self._keeper.replace(f'a call was interrupted by {type(error).__name__}')
        raise error

    def _take_over(self) -> None:
        """Repeat the team's last `outward` in this process alone."""
        # A team in SIMD lanes is repeated by `ByTurns`, with the same bits. Another team is
        # replaced by one serial sweep, whose results may differ by rounding.
        team = self._led
        if not isinstance(team, Team):
            return
        state, tip, gravity = team.shared.state.copy(), self._tip.copy(), self.gravity.copy()
        tau, qdd = (None if x is None else state[row]
                    for x, row in zip(team.torques, (TAU, QDD)))
        self._led = self._by_turns
        if self._led is not None:
            self._led.shared.ends[:3] = team.shared.ends[:3]
            self._led.outward(state[Q], state[QD], tau, qdd, self._tip)
        else:
            self.gravity[:] = team.shared.ends[:3]
            super().outward(state[Q], state[QD], tau, qdd)
            self.gravity[:], self._is_factored = gravity, True
        self._tip[:] = tip

    def jacobian(self, out: Array) -> None:
        """Write J of the last `outward` to out (6, n), after an outward pass alone if needed."""
        self._factor_alone()
        super().jacobian(out)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """Write M⁻¹(τ + JᵀF), with M and J of the last `outward`, to out (n,) [rad/s²]."""
        # Members store no factors: the first call after an `outward` makes an outward pass alone.
        self._factor_alone()
        super().acceleration_response(tau, F, out)

    def inverse_mass_matrix(self, out: Array) -> None:
        """Write M⁻¹ of the last `outward` to out (n, n), after an outward pass alone if needed."""
        self._factor_alone()
        super().inverse_mass_matrix(out)

    def _factor_alone(self) -> None:
        """Compute the factors at the position of the last `outward`, by this process alone."""
        if self._led is not None and not self._is_factored:
            tip = self._tip.copy()
            outward(self._chain, self._led.shared.state[Q], self._rest, None, self._rest)
            self._tip[:] = tip
            self._is_factored = True

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques (n,) and a force F (6,) on the tip."""
        self._led = None  # the call overwrites the results of the last `outward`
        return super().forward_dynamics(q, qd, tau, F)

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """The product M⁻¹ x (n,)."""
        self._led = None  # the call overwrites the results of the last `outward`
        return super().apply_M_inv(q, x)
