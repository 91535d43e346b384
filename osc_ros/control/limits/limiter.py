# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Limiter: changes the law's torques, as little as possible, so that the joints keep their limits.

Limits of position and velocity become bounds of the accelerations (`limits.bounds`). With the
bounds of the torques and of the gravity loads (`limits.load`) they define the admissible
accelerations. The limiter commands the admissible acceleration nearest to the law's, in a norm
that weights the tasks more than the posture (`limits.nearest`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.obstacles import Obstacles
from osc_ros.compile.compiled import inlined, kernel, stage
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.limits.bodies import bodies_of, BODY_WIDTH
from osc_ros.control.limits.bounds import (
    ACCELERATION_ROWS,
    BEFORE,
    COMMANDED,
    EARLIER,
    exceeds,
    TOTAL,
    UNEXPLAINED,
)
from osc_ros.control.limits.clearance import KeepingClear, Near
from osc_ros.control.limits.limits import EFFORT, EFFORT_RATE, Limits, payload_ratio, ROWS
from osc_ros.control.limits.load import bounded_loads, IDLE, INDEX, LOADS, MOST_NEAR
from osc_ros.control.limits.near_rows import near_rows
from osc_ros.control.limits.nearest import MEMORY, narrow, PUSH, torques_within
from osc_ros.dynamics.algebra.fade import smoothed
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

PLAN = Table(
    'LimiterPlan',
    Slot('table', (ROWS, 'n'), 'see limits', 'the limits after a change: `Limits.table`'),
    Slot('blend_time', (1,), 's', 'duration over which changed limits come into force'),
    Slot('bodies', ('n', BODY_WIDTH), 'see bodies', 'of the robot: `bodies.bodies_of`'),
    Slot('ratio', (1,), '', 'see `limits.payload_ratio`'),
    Slot('is_guided', (1,), '', '1 in free drive'))

STATE = Table(
    'LimiterState',
    Slot('table', (ROWS, 'n'), 'see limits', 'the limits in force'),
    Slot('is_changing', (1,), '', '1 while the limits change'),
    Slot('since', (1,), 's', 'when the change began; infinite until the next tick'),
    Slot('begin', (ROWS, 'n'), 'see limits', 'the limits when the change began'),
    Slot('accelerations', (ACCELERATION_ROWS, 'n'), 'rad/s², m/s²; row VELOCITY rad/s, m/s',
         'see bounds.exceeds'),
    Slot('sides', (3, 'n'), '', '-1 or 1 for accelerations, torques and loads at a bound, else 0; '
         'as integers'),
    Slot('near', (MOST_NEAR, 2), '', 'rows of near pairs: INDEX of the row, and its side, like '
         '`sides`'),
    Slot('gentle', (1,), 's', 'time for which the rate of the torques is still limited to '
         'nearest.GENTLE_RATE, because of near pairs or new settings'),
    Slot('guided', (1,), '', 'share of the rules of free drive in the limits'),
    Slot('damping_share', (1,), '', 'share of the posture that damping replaces'),
    Slot('keeps_posture', (1,), '', '1 in a joint drive: damping replaces no posture'),
    Slot('idle', (1,), '', 'ticks until the loads are computed again'),
    Slot('are_low', (1,), '', '1 if no load was near its bound when they were computed last'),
    Slot('counts_unexplained', (1,), '', '1 if the bounds count accelerations that torques do '
         'not explain, as of a push; 0 if torques act so late that these come from earlier ones'),
    Slot('is_at_work', (1,), '', '1 if the limits changed the torques of the law'),
    Slot('was_at_bound', (1,), '', '1 if a bound was active, or the limits are new'),
    Slot('has_last', (1,), '', '1 after the first torque'),
    Slot('time', (1,), 's', 'stamp of the state of the last torque'),
    Slot('last', ('n',), 'N·m, N', 'the last torque'),
    Slot('added', ('n',), 'N·m, N', 'torques that are added after the limits, within which their '
         'sum stays: those that make up for what the model lacks'),
    Slot('offset', ('n',), 'N·m, N', 'part of the last torque that the limits do not count: '
         'compensation of friction, less what the driver adds, and what a blend adds'),
    Slot('shares', (2,), '', 'shares of the accelerations of tasks and posture that remain'),
    Slot('rate_share', (1,), '', 'share of the wanted change of the torques that the '
         'limits of rates allowed'))

ROOM = Table(
    'LimiterRoom',
    *LOADS.slots,
    Slot('window', (2, 'n'), 'N·m, N', 'lowest and highest torques, within the effort limits'),
    Slot('M_inv', ('n', 'n'), '', 'inverse of the inertia matrix'),
    Slot('unit', ('n',), '', 'memory for the inverse'),
    Slot('tau', ('n',), 'N·m, N', 'torques added to the law, then torques before the limits'),
    *MEMORY)

_plan_views, _state_views, _room_views = (table.views for table in (PLAN, STATE, ROOM))
_note_views, _inverse_views = STATE.only('accelerations', 'offset'), ROOM.only('M_inv')
_loss_views = ROOM.only('rows', 'of', 'vectors', 'joint_vectors', 'M_inv', 'there')
_bound_views = ROOM.only('rows', 'most', 'of', 'work', 'window')
_rate_views = STATE.only('table', 'accelerations', 'counts_unexplained', 'is_at_work', 'has_last',
                         'time', 'last', 'rate_share')


@inlined
def _advance(settings, at, time):
    """Advance a change of the limits to a time [s], C¹; infinite limits change at once."""
    at.since[0] = min(at.since[0], time)
    share = smoothed((time - at.since[0]) / settings.blend_time[0])
    for row in range(len(at.table)):
        for i in range(at.table.shape[1]):
            begin, end = at.begin[row, i], settings.table[row, i]
            at.table[row, i] = (begin + share * (end - begin)
                                if np.isfinite(begin) and np.isfinite(end) else end)
    if share == 1.0:
        at.is_changing[0] = 0.0


@inlined
def _since_last(at, time):
    """Time since the last torque [s]; 0 at the first, and if the time does not advance."""
    return time - at.time[0] if at.has_last[0] > 0.0 and time > at.time[0] else 0.0


@inlined
def _put_window(at, duration, guided, window):
    """
    Write the lowest and highest torques; in free drive they also satisfy the rate limits.

    `duration` is the time since the last torque [s]. Outside of free drive only `limit_rate`
    bounds the rates, by one factor for all joints. In free drive that would delay the light
    joints, which a person may push beyond their speed limits, until the torques of the heavy
    joints have changed.

    """
    for i in range(len(at.last)):
        most, rate = at.table[EFFORT, i], at.table[EFFORT_RATE, i]
        window[0, i], window[1, i] = -most, most
        if guided > 0.0 and duration > 0.0 and rate < np.inf:
            narrow(window, i, at.last[i] - at.offset[i], rate * duration / guided)


@stage
def near_bounds(records, clear, gravity, time, q, qd, tau):
    """
    Compute the bounds of a tick; return -1 if tau is within them, and `limit` is not needed.

    Otherwise return the number of rows, of gravity loads and near pairs; the caller then writes
    the inverse of the inertia matrix to the record ROOM, and calls `limit`. In `accelerations`,
    row POSTURE must have the acceleration of the posture, and row TOTAL all other accelerations
    due to tau. `records` are those of the limiter, `clear` the first two arrays of `near_rows`,
    gravity is (3,) [m/s²], `time` is the stamp of the state [s].

    """
    plan, state, room = records
    n, count = len(q), 0
    settings, at, own = _plan_views(plan, n), _state_views(state, n), _bound_views(room, n)
    if at.is_changing[0] > 0.0:
        _advance(settings, at, time)
    dt = _since_last(at, time)
    step = dt / settings.blend_time[0]
    at.guided[0] += min(max(settings.is_guided[0] - at.guided[0], -step), step)
    is_beyond = exceeds(at.accelerations, q, qd, at.table, 0.5 / dt if dt > 0.0 else 0.0,
                        at.guided[0], settings.ratio[0])
    _put_window(at, dt, at.guided[0], own.window)
    for i in range(n):
        is_beyond = is_beyond or not own.window[0, i] <= tau[i] + at.added[i] <= own.window[1, i]
    at.idle[0] -= 1.0
    if at.idle[0] < 0.0:
        count = bounded_loads(settings.bodies, gravity, q, qd, at.added, at.table[EFFORT], room)
        at.are_low[0], at.idle[0] = (1.0, IDLE) if count < 0 else (0.0, 0.0)
        count = max(count, 0)
    count += near_rows(clear, settings.bodies, (time, dt), q, qd,
                       (at.table, at.accelerations), own.work,
                       (own.rows, own.most, own.of, count))
    if not (is_beyond or count > 0 or at.was_at_bound[0] > 0.0):
        at.is_at_work[0] = 0.0
        return -1
    at.shares[:] = 1.0
    is_beyond = is_beyond or at.damping_share[0] != 0.0 or at.gentle[0] > 0.0
    for k in range(count):
        load = 0.0
        for i in range(n):
            load += own.rows[k, i] * at.accelerations[TOTAL, i]
        is_beyond = is_beyond or load > own.most[k]
    if not is_beyond:
        at.sides[:] = at.near[:] = 0.0
        at.is_at_work[0] = at.was_at_bound[0] = 0.0
        return -1
    return count


@stage
def limit(state, room, tasks, count, time, qd, tau):
    """
    Bring torques tau (n,) within all limits except the rates; call it after `near_bounds`.

    `tasks` are the `nearest.Tasks`, `count` is the result of `near_bounds`, `time` is the stamp of
    the state [s].

    """
    n = len(qd)
    at, own = _state_views(state, n), _room_views(room, n)
    assign(own.tau, tau)
    at.was_at_bound[0] = 1.0
    for i in range(n):
        tau[i] += at.added[i]
    at.is_at_work[0] = torques_within(at, own, tasks, count, _since_last(at, time), qd, tau)
    for i in range(n):
        tau[i] -= at.added[i]
    for i in range(n):
        for j in range(n):
            at.accelerations[COMMANDED, i] += own.M_inv[i, j] * (tau[j] - own.tau[j])


@stage
def put_near_loss(room, count, lost):
    """
    Write the accelerations `lost` (n,) that near pairs took from the law; call it after `limit`.

    `count` is the result of `near_bounds`. Return whether there are any.

    """
    n, is_held = len(lost), False
    own = _loss_views(room, n)
    push, x = own.vectors[PUSH], own.joint_vectors[0]
    x[:] = 0.0
    for k in range(count):
        if own.of[k, INDEX] >= n and push[2 * n + k] != 0.0:
            is_held = True
            for i in range(n):
                x[i] += own.rows[k, i] * push[2 * n + k]
    if is_held:
        y = own.joint_vectors[1]
        for i in range(n):
            y[i] = 0.0
            for j in range(n):
                y[i] += own.M_inv[i, j] * x[j]
        for i in range(n):
            lost[i] = -y[i]
            for j in range(n):
                lost[i] += own.there[i, j] * y[j]
    return is_held


@kernel
def add(state, room, torques):
    """
    Record torques (n,) [N·m] that are sent in addition to the torques that this law computed.

    Call it after the law has computed its torques for a state. The added torques count in the
    commanded acceleration, but not in the next window of the torques, which is relative to the
    computed torques. The record `room` must contain M⁻¹.

    """
    n = len(torques)
    at, M_inv = _note_views(state, n), _inverse_views(room, n).M_inv
    for i in range(n):
        at.offset[i] += torques[i]
        for j in range(n):
            at.accelerations[COMMANDED, i] += M_inv[i, j] * torques[j]


@inlined
def keep(state, time, tau):
    """Store tau (n,) [N·m], commanded at a time [s], for the limits of the next tick."""
    at = _rate_views(state, len(tau))
    at.has_last[0], at.time[0] = 1.0, time
    assign(at.last, tau)
    assign(at.accelerations[EARLIER + 1], at.accelerations[EARLIER])
    assign(at.accelerations[EARLIER], at.accelerations[BEFORE + 2])
    for row in range(3):
        assign(at.accelerations[BEFORE + row], at.accelerations[UNEXPLAINED + row])
    if at.counts_unexplained[0] == 0.0:
        at.accelerations[BEFORE, :] = np.nan


@kernel
def limit_rate(state, time, tau):
    """
    Limit the step from the last torques to tau (n,) to the effort rates; store tau.

    One factor shortens the steps of all joints, so their ratios stay. Return whether all torques
    are finite.

    """
    at = _rate_views(state, len(tau))
    share = 1.0
    if at.has_last[0] > 0.0 and time >= at.time[0]:
        for i in range(len(tau)):
            step, rate = np.abs(tau[i] - at.last[i]), at.table[EFFORT_RATE, i]
            if step > 0.0 and rate < np.inf:
                share = min(share, rate * (time - at.time[0]) / step)
    at.rate_share[0], is_finite = share, True
    if share < 1.0:
        at.is_at_work[0] = 1.0
        for i in range(len(tau)):
            tau[i] = at.last[i] + share * (tau[i] - at.last[i])
    for i in range(len(tau)):
        is_finite = is_finite and np.isfinite(tau[i])
    keep(state, time, tau)
    return is_finite


Sides = NDArray[np.int64]


class Limiter(Recorded):
    """
    Brings the torques of a law within the limits of the joints.

    It stores from tick to tick: the last torque, for the rate limit; a change of the limits in
    progress; the share of nullspace damping. The attributes describe the last tick.

    Attributes
    ----------
    accelerations : (ACCELERATION_ROWS, n) [rad/s²; m/s²]
        See `osc_ros.control.limits.bounds.exceeds`.
    table : (8, n)
        The limits in force: `Limits.table`, or values on the way to it after a change.
    added : (n,) [N·m; N for prismatic]
        Torques that are added after the limits; the limits hold for the sum.
    shares : (2,)
        Shares of the accelerations of tasks and posture that remain within the limits, 0 to 1.
    clearance : KeepingClear
        Default: without settings.

    Parameters
    ----------
    robot, limits, records, clearance
    blend_time : float
        Duration over which changed limits come into force [s].
    is_guided, keeps_posture : bool
        Whether the arm is in free drive; whether it is in a joint drive.

    """

    TABLES = PLAN, STATE, ROOM

    def __init__(self, robot: Robot, limits: Limits, blend_time: float,
                 records: tuple[Array, ...], is_guided: bool = False,
                 keeps_posture: bool = False, clearance: KeepingClear | None = None) -> None:
        n = robot.n
        if limits.velocity.shape != (n,):
            raise InputError(f'limits are for {len(limits.velocity)} joints: give {n}')
        super().__init__(n, records)
        self.clearance = clearance or KeepingClear(robot, None, Obstacles())
        self.views[1].keeps_posture[0] = keeps_posture
        plan, self.views[1].counts_unexplained[0] = self.views[0], 1.0
        plan.table[:], plan.blend_time[0] = limits.table, blend_time
        plan.bodies[:], plan.is_guided[0] = bodies_of(robot), is_guided
        plan.ratio[0] = payload_ratio(robot)
        self.forget()

    def _connect(self) -> None:
        super()._connect()
        state = self.views[1]
        self.table: Array = state.table
        self.accelerations: Array = state.accelerations
        self.shares: Array = state.shares
        self.added: Array = state.added

    @property
    def record(self) -> Array:
        """The record of STATE."""
        return self.records[1]

    @property
    def sides(self) -> Sides:
        """-1 or 1 for joints whose acceleration is at its lower or upper bound, else 0 (n,)."""
        return self._sides(0)

    @property
    def load_sides(self) -> Sides:
        """1 for joints whose gravity load is at its bound, else 0 (n,); see `limits.load`."""
        return self._sides(2)

    @property
    def near(self) -> list[Near]:
        """Pairs whose distance bounds the accelerations at the last tick, nearest first."""
        return self.clearance.near(self.views[1].near)

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Whether each joint's torque (n,) is at its limit, in free drive also of its rate."""
        return np.asarray(self._sides(1) != 0)

    def _sides(self, row: int) -> Sides:
        return np.asarray(self.views[1].sides[row].view(np.int64))

    @property
    def damping_share(self) -> float:
        """Share of the posture that nullspace damping replaces, 0 to 1."""
        return float(self.views[1].damping_share[0])

    @property
    def rate_share(self) -> float:
        """Share of the change of the torques that the rate limits allowed, 0 to 1."""
        return float(self.views[1].rate_share[0])

    @property
    def is_at_work(self) -> bool:
        """Whether the limits changed the torques of the law."""
        return bool(self.views[1].is_at_work[0])

    def go_on_from(self, before: Limiter) -> None:
        """
        Copy the state of another limiter.

        Within `blend_time` the limits in force change from the limits of `before` to those of this
        one.

        """
        plan, at, old = self.views[0], self.views[1], before.views[1]
        for name in ('sides', 'near', 'gentle', 'guided', 'damping_share', 'is_at_work',
                     'has_last', 'last', 'offset', 'time', 'added'):
            getattr(at, name)[:] = getattr(old, name)
        at.was_at_bound[0] = 1.0
        at.accelerations[BEFORE:] = old.accelerations[BEFORE:]
        if not np.array_equal(old.table, plan.table):
            at.begin[:], at.is_changing[0], at.since[0] = old.table, 1.0, np.inf
            at.table[:] = np.where(np.isfinite(old.table) & np.isfinite(plan.table), old.table,
                                   plan.table)

    def change_gently(self, duration: float) -> None:
        """Limit the rate to `nearest.GENTLE_RATE` for a time [s]; in free drive do nothing."""
        if not self.views[0].is_guided[0]:
            self.views[1].gentle[0] = duration

    def forget(self) -> None:
        """Reset the state; the rate limit does not apply to the next torque."""
        plan, at, _ = self.views
        counts, added = at.counts_unexplained[0], at.added.copy()
        keeps_posture = at.keeps_posture[0]
        self.records[1][:] = 0.0
        at.added[:] = added
        at.table[:], at.counts_unexplained[0] = plan.table, counts
        at.shares[:], at.rate_share[0] = 1.0, 1.0
        at.guided[0], at.keeps_posture[0] = plan.is_guided[0], keeps_posture

    def add(self, torques: Array) -> None:
        """Record torques (n,) [N·m] that are sent in addition; see the kernel `add`."""
        add(*self.records[1:], torques)
