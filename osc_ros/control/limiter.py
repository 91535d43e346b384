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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bounds import BEFORE
from osc_ros.control.limiting import add, PLAN, ROOM, STATE
from osc_ros.control.limits import Limits
from osc_ros.control.load import bodies_of, require_bodies
from osc_ros.control.record import Recorded
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]
Sides = NDArray[np.int64]


class Limiter(Recorded):
    """
    Brings the torques of a law within the limits of the joints.

    Its state from tick to tick: the last torque, for the rate limit; a change of the limits in
    progress; the share of the posture that damping replaces. The attributes describe the last
    tick.

    Attributes
    ----------
    accelerations : (ACCELERATION_ROWS, n) [rad/s²; m/s²]
        Row 3, the acceleration of the posture; the others: see `osc_ros.control.bounds.exceeds`.
    table : (8, n)
        The limits in force: `Limits.table`, or values on the way to it after a change.
    added : (n,) [N·m; N for prismatic]
        Torques that are added after the limits; the limits hold for the sum.
    shares : (2,)
        Shares of the accelerations of tasks and posture that remain within the limits, 0 to 1.

    Parameters
    ----------
    robot : Robot
    limits : Limits
    blend_time : float
        Duration over which changed limits come into force [s].
    records : tuple of arrays
        See `Recorded`.
    is_guided : bool
        Whether the arm is in free drive.

    """

    TABLES = PLAN, STATE, ROOM
    CONNECTED = 'views', 'table', 'accelerations', 'shares', 'added'

    def __init__(self, robot: Robot, limits: Limits, blend_time: float,
                 records: tuple[Array, ...], is_guided: bool = False) -> None:
        n = robot.n
        if limits.velocity.shape != (n,):
            raise InputError(f'limits are for {len(limits.velocity)} joints: accepted are {n}')
        super().__init__(n, records)
        plan, self.views[1].reckons[0] = self.views[0], 1.0
        plan.table[:], plan.blend_time[0] = limits.table, blend_time
        plan.bodies[:], plan.is_guided[0] = bodies_of(robot), is_guided
        self.forget()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state; InputError for records that are none of a limiter."""
        super().__setstate__(state)
        require_bodies(self.views[0].bodies)

    def _connect(self) -> None:
        super()._connect()
        state = self.views[1]
        self.table: Array = state.table
        self.accelerations: Array = state.accelerations
        self.shares: Array = state.shares
        self.added: Array = state.added

    @property
    def record(self) -> Array:
        """Record of the state."""
        return self.records[1]

    @property
    def sides(self) -> Sides:
        """-1 or 1 for joints whose acceleration is at its lower or upper bound, else 0 (n,)."""
        return self._sides(0)

    @property
    def load_sides(self) -> Sides:
        """The same (n,) for the bounds of the joints' loads, see `osc_ros.control.load`."""
        return self._sides(2)

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Whether each joint's torque is at its limit, or in free drive that of its rate (n,)."""
        return np.asarray(self._sides(1) != 0)

    def _sides(self, row: int) -> Sides:
        return np.asarray(self.views[1].sides[row].view(np.int64))

    @property
    def calm(self) -> float:
        """Share of the posture that damping replaces, after a bound was active, 0 to 1."""
        return float(self.views[1].calm[0])

    @property
    def rate_share(self) -> float:
        """Share of the change of the torques that their rate limits allowed, 0 to 1."""
        return float(self.views[1].rate_share[0])

    @property
    def is_at_work(self) -> bool:
        """Whether the limits changed the torques of the law."""
        return bool(self.views[1].is_at_work[0])

    def go_on_from(self, before: Limiter) -> None:
        """Copy another limiter's state; change its limits to this one's within `blend_time`."""
        plan, at, old = self.views[0], self.views[1], before.views[1]
        for name in ('sides', 'guided', 'calm', 'is_at_work', 'has_last', 'last', 'offset', 'time',
                     'added'):
            getattr(at, name)[:] = getattr(old, name)
        at.was_at_bound[0] = 1.0
        at.accelerations[BEFORE:] = old.accelerations[BEFORE:]
        if not np.array_equal(old.table, plan.table):
            at.begin[:], at.is_changing[0], at.since[0] = old.table, 1.0, np.inf
            at.table[:] = np.where(np.isfinite(old.table) & np.isfinite(plan.table), old.table,
                                   plan.table)

    def forget(self) -> None:
        """Reset the state: the rate limit does not apply to the next torque."""
        plan, at, _ = self.views
        reckons, added = at.reckons[0], at.added.copy()
        self.records[1][:] = 0.0
        at.added[:] = added
        at.table[:], at.reckons[0], at.shares[:], at.rate_share[0] = plan.table, reckons, 1.0, 1.0
        at.guided[0] = plan.is_guided[0]

    def add(self, torques: Array) -> None:
        """Note torques (n,) [N·m] that are sent in addition, see `limiting.add`."""
        add(*self.records[1:], torques)
