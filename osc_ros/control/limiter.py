# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Changes the law's torques, as little as possible, so that the joints keep their limits.

Limits of position and velocity become bounds of the accelerations (`osc_ros.control.bounds`).
Together with the bounds of the torques and of the gravity loads (`osc_ros.control.load`) they
define the admissible accelerations. The limiter commands the admissible acceleration nearest to
the law's, in a norm that weights the tasks more than the posture (`osc_ros.control.nearest`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bounds import (
    ACCELERATION_ROWS,
    allowed_share,
    BEFORE,
    COMMANDED,
    exceeds,
    UNEXPLAINED,
)
from osc_ros.control.fade import smooth_step
from osc_ros.control.limits import EFFORT, EFFORT_RATE, Limits
from osc_ros.control.load import Loads
from osc_ros.control.nearest import limited_torques, room_for
from osc_ros.dynamics.method import Method
from osc_ros.dynamics.priority import Priorities
from osc_ros.errors import InputError

Array = NDArray[np.float64]
Sides = NDArray[np.int64]


class Limiter:
    """
    Brings the torques of a law within the limits of the joints.

    Its state from tick to tick: the last torque, for the rate limit; a change of the limits in
    progress; the share of the posture that damping replaces. The attributes describe the last
    tick.

    Attributes
    ----------
    sides : (n,) int
        -1 or 1 for joints whose acceleration is at its lower or upper bound, else 0.
    load_sides : (n,) int
        The same for the bounds of the joints' loads, see `osc_ros.control.load`.
    saturated : (n,) bool
        Whether a torque is at its limit.
    shares : (2,)
        Shares of the accelerations of tasks and posture that remain within the limits, 0 to 1.
    rate_share : float
        Share of the change of the torques that their rate limits allowed, 0 to 1.
    is_at_work : bool
        Whether the limits changed the torques of the law.
    reckons : bool
        Whether the bounds count accelerations that the torques do not explain, as of a push. False
        if torques act so late that a measured acceleration comes from earlier torques.
    accelerations : (ACCELERATION_ROWS, n) [rad/s²; m/s²]
        Input of `torque_within`: row 3, the acceleration of the posture; row 0, the other
        accelerations of the law. Output: see `osc_ros.control.bounds.exceeds`.
    table : (8, n)
        The limits in force: `Limits.table`, or values on the way to it after a change.

    Parameters
    ----------
    dynamics : Method
        Dynamics of the robot at the links of the tasks.
    limits : Limits
    blend_time : float
        Duration over which changed limits come into force [s].

    """

    def __init__(self, dynamics: Method, limits: Limits, blend_time: float) -> None:
        n = dynamics.robot.n
        if limits.velocity.shape != (n,):
            raise InputError(f'limits are for {len(limits.velocity)} joints: accepted are {n}')
        self._dynamics, self._wanted, self._blend_time = dynamics, limits.table, blend_time
        self.table: Array = self._wanted.copy()
        self._from: Array | None = None
        self._since = np.inf
        self.accelerations: Array = np.zeros((ACCELERATION_ROWS, n))
        self._M_inv, self._room = np.zeros((n, n)), room_for(n)
        self._chosen: Sides = np.zeros(6 * n + 6, dtype=np.int64)
        self._sides: Sides = np.zeros(3 * n, dtype=np.int64)
        self._torque_sides = self._sides[n:2 * n]
        self._calm = np.zeros(1)
        self.loads: Loads = Loads(dynamics.robot)
        self.sides: Sides = self._sides[:n]
        self.load_sides: Sides = self._sides[2 * n:]
        self.shares: Array = np.ones(2)
        # arguments of `limited_torques`: the arrays stay the same
        self._given = (self._M_inv, self.accelerations, self.table, self._calm, self._sides,
                       self._chosen, self._room, self.shares)
        self.saturated: NDArray[np.bool_] = np.zeros(n, dtype=bool)
        self.rate_share = 1.0
        self.is_at_work, self._was_at_bound, self.reckons = False, False, True
        self._last: Array | None = None
        self._time = 0.0
        self._find_rates()

    @property
    def calm(self) -> float:
        """Share of the posture that damping replaces, after a bound was active, 0 to 1."""
        return float(self._calm[0])

    def _find_rates(self) -> None:
        self._has_rates = bool(np.isfinite(self.table[EFFORT_RATE]).any())

    def go_on_from(self, before: Limiter) -> None:
        """Copy another limiter's state; change its limits to this one's within `blend_time`."""
        self._sides[:], self._calm[:] = before._sides, before._calm
        self.saturated[:] = before.saturated
        self.is_at_work, self._was_at_bound = before.is_at_work, True
        self._last, self._time = before._last, before._time
        self.accelerations[BEFORE:] = before.accelerations[BEFORE:]
        if not np.array_equal(before.table, self._wanted):
            self._from = before.table.copy()
            self.table[:] = self._between(0.0)
            self._find_rates()

    def forget(self) -> None:
        """Reset the state: the rate limit does not apply to the next torque."""
        self._sides[:], self.shares[:], self.saturated[:], self._calm[:] = 0, 1.0, False, 0.0
        self.loads.forget()
        self.rate_share, self.is_at_work, self._was_at_bound = 1.0, False, False
        self._last, self._time = None, 0.0
        self.accelerations[BEFORE:] = 0.0
        self.table[:], self._from = self._wanted, None
        self._find_rates()

    def _between(self, share: float) -> Array:
        """Table (8, n) after a share of the change; limits that are or become infinite jump."""
        if self._from is None:
            return self._wanted
        both = np.isfinite(self._from) & np.isfinite(self._wanted)
        start = np.where(both, self._from, 0.0)
        way = np.where(both, self._wanted, 0.0) - start
        return np.where(both, start + share * way, self._wanted)

    def _blend(self, time: float) -> None:
        """Advance the change of the limits to a time [s], C¹."""
        self._since = min(self._since, time)
        share = smooth_step((time - self._since) / self._blend_time)
        self.table[:] = self._between(share)
        if share == 1.0:
            self._from = None

    def torque_within(self, time: float, q: Array, qd: Array, tau: Array, solver: Priorities,
                      length: float) -> Array:
        """
        Torques (n,) [N·m] within all limits except their rates, nearest to those of the law.

        Requires that the last `outward` of the dynamics was at this state, and that
        `accelerations` are those of tau.

        Parameters
        ----------
        time : float
            Stamp of the state [s].
        q, qd, tau : (n,)
        solver : Priorities
            Solved for this state: provides the inertias of the tasks.
        length : float
            Length [m] that weights a rotation of 1 rad of a task like a translation.

        """
        if self._from is not None:
            self._blend(time)
        table = self.table
        dt = time - self._time if self._last is not None and time > self._time else 0.0
        is_beyond = exceeds(self.accelerations, q, qd, tau, table,
                            0.5 / dt if dt > 0.0 else 0.0)
        loads = self.loads
        count = 0
        if loads.is_due():
            count = loads.update(q, qd, self._dynamics.gravity, table[EFFORT])
        if is_beyond or count or self._was_at_bound:
            return self._torque_at_bounds(qd, tau, dt, is_beyond, count, solver, length)
        self.is_at_work = False
        return tau

    @property
    def is_out_of_the_way(self) -> bool:
        """
        Whether no bound was active or near, and nothing changes the bounds until the next tick.

        A load may come near its bound just then: it is computed at some ticks only.

        """
        return (self._from is None and not self._was_at_bound and self.loads.are_low
                and self._last is not None)

    @property
    def last(self) -> tuple[float, Array | None]:
        """Time [s] and torques (n,) [N·m; N] of the last tick, from which a rate is counted."""
        return self._time, self._last

    def _torque_at_bounds(self, qd: Array, tau: Array, dt: float, is_beyond: bool, count: int,
                          solver: Priorities, length: float) -> Array:
        """Torques (n,) [N·m] within all bounds, for a tick at which a bound may be active."""
        loads, wanted = self.loads, self.accelerations[0]
        self.shares[:] = 1.0
        if not is_beyond and self._calm[0] == 0.0 and not (
                count and (loads.rows[:count] @ wanted > loads.most[:count]).any()):
            self._sides[:], self.saturated[:] = 0, False
            self.is_at_work = self._was_at_bound = False
            return tau
        self._dynamics.inverse_mass_matrix(self._M_inv)
        of_law, tau = tau, tau.copy()
        self._was_at_bound = True
        self.is_at_work = limited_torques(
            *solver.arrays, solver.solves, *self._given, loads.rows, loads.most, loads.joints,
            qd, tau, length, count, dt)
        self.accelerations[COMMANDED] += self._M_inv @ (tau - of_law)
        np.not_equal(self._torque_sides, 0, out=self.saturated)
        return tau

    def torque_at_rate(self, time: float, tau: Array) -> Array:
        """
        Torques (n,) [N·m] between those of the last tick and tau, as near to tau as rates allow.

        One factor scales the change of all joints, so its direction is kept.

        """
        self.rate_share = 1.0
        if self._has_rates and self._last is not None and time >= self._time:
            self.rate_share = allowed_share(self._last, tau, self.table, time - self._time)
            if self.rate_share < 1.0:
                tau = self._last + self.rate_share * (tau - self._last)
                self.is_at_work = True
        self.note(time, tau)
        return tau

    def note(self, time: float, tau: Array) -> None:
        """Go on from a torque tau (n,) [N·m] that was commanded at a time [s]."""
        self._last, self._time = tau, time
        self.accelerations[BEFORE:] = self.accelerations[UNEXPLAINED:BEFORE]
        if not self.reckons:
            self.accelerations[BEFORE] = np.nan

    def add(self, difference: Array) -> None:
        """
        Add torques (n,) [N·m], which are sent in addition, to the commanded acceleration.

        Call after `torque_within`, before another `outward` of the dynamics.

        """
        self._dynamics.inverse_mass_matrix(self._M_inv)
        self.accelerations[COMMANDED] += self._M_inv @ difference

    def rehearse(self) -> None:
        """Call every kernel once, so that all are compiled, and reset; call after `outward`."""
        n = len(self.sides)
        rest, bounds = np.zeros(n), self.accelerations
        bounds[1:3] = [[-1.0], [1.0]]
        self._dynamics.inverse_mass_matrix(self._M_inv)
        exceeds(bounds, rest, rest, rest, self.table, 1.0)
        loads = self.loads
        loads.update(rest, rest, self._dynamics.gravity, self.table[EFFORT])
        limited_torques(*Priorities([0], 1, n).arrays, 1, *self._given, loads.rows, loads.most,
                        loads.joints, rest, rest.copy(), 1.0, 0, 0.0)
        allowed_share(rest, rest, self.table, 0.0)
        self.forget()
