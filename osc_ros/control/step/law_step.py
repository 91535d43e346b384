# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques of a law for a joint state, without supervision, in one compiled call."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.addresses import integers_at, numbers_at, tick_at
from osc_ros.compile.compiled import inlined, kernel, released, stage, view
from osc_ros.control.limits.limiter import keep, ROOM
from osc_ros.control.limits.limiter import STATE as LIMITER
from osc_ros.control.model_error import disturbance
from osc_ros.control.model_error.command_model import put_driver
from osc_ros.control.model_error.observer import observe
from osc_ros.control.setpoint.motion import any_waits, put_targets
from osc_ros.control.setpoint.posture import advance_posture
from osc_ros.control.step import blend
from osc_ros.control.step.block import block_in, OWN
from osc_ros.control.step.law_memory import leave, note_period, PAUSE, tick_views
from osc_ros.control.step.law_memory import views as law_views
from osc_ros.control.step.places import copy_row
from osc_ros.control.step.setup_step import REFUSED
from osc_ros.control.step.tick_arrays import entry_in, given_in, law_in, POSTURE
from osc_ros.control.tasks.bandwidth import COUNTED_DELAY, PERIOD_CHANGE
from osc_ros.control.tasks.task_numbers import AXES
from osc_ros.dynamics.algebra.kinematics import put_link_axes
from osc_ros.dynamics.algebra.vectors import assign

# Largest rate of change of gravity in the model [m/s³]; a base that rotates at 2 rad/s causes it.
GRAVITY_RATE = 20.0


@inlined
def advance_gravity(now, wanted, dt):
    """Move gravity `now` (3,) towards `wanted` (3,) for dt [s]; return whether it has changed."""
    far = 0.0
    for i in range(3):
        far += (wanted[i] - now[i]) * (wanted[i] - now[i])
    if far == 0.0:
        return False
    far, step = np.sqrt(far), GRAVITY_RATE * max(dt, 0.0)
    for i in range(3):
        now[i] = wanted[i] if far <= step else now[i] + step / far * (wanted[i] - now[i])
    return True


@inlined
def put_gravity(gravities, gravity):
    """Write gravity (3,) to all copies, whose addresses are `gravities` (k,)."""
    for i in range(len(gravities)):
        assign(numbers_at(gravities[i], 3), gravity)


INFINITE = REFUSED - 1  # code of the kernels for torques that are not finite

_limiter_views = LIMITER.only('counts_unexplained', 'added')
_room_views, _own_views = ROOM.only('tau'), OWN.only(
    'posture', 'asks', 'period', 'longest_period', 'friction', 'driver')
_blend_views = blend.BLEND.only('before', 'driver', 'has_load')


@inlined
def _is_slow(parts, n, counts_unexplained, period):
    """
    Return whether Python must reduce gains for this period of the states [s].

    Also write `counts_unexplained` to the record of the limiter.

    """
    own = _own_views(parts.own, n)
    _limiter_views(parts.limiter, n).counts_unexplained[0] = counts_unexplained
    return (max(period, own.period[0]) > own.longest_period[0]
            and abs(period - own.period[0]) > PERIOD_CHANGE * period)


@kernel
def put_axes(turning, q, tasks):
    """Write the axes of the tasks (k, …) whose frames turn with other links; see `Given`."""
    for i in range(len(turning)):
        m = turning[i, 1]
        put_link_axes(view(numbers_at(turning[i, 2], 9 * m), 0, (m, 3, 3)),
                      integers_at(turning[i, 3], m), integers_at(turning[i, 4], m), q,
                      view(tasks[turning[i, 0]], AXES, (3, 3)))


@stage
def _begin(table, given, own, time, q):
    """
    Update period, targets, set-points, gravity and the weight of the blend, before the ticks.

    Return whether Python must reduce gains for the period of the states.

    """
    n = len(q)
    parts, at = block_in(given.integers, given.numbers), law_views(own.law, n)
    is_blended = len(own.other) > 0
    old = given_in(own.other if is_blended else table)
    replaced = block_in(old.integers, old.numbers)
    counts_unexplained = 1.0 if at.delay[0] <= COUNTED_DELAY else 0.0
    period = note_period(own.law, n, time)
    is_slow = _is_slow(parts, n, counts_unexplained, period)
    put_targets(parts.guides, time, at.speed[0], parts.tasks)
    put_axes(given.turning, q, parts.tasks)
    dt = time - at.time[0]
    advance_posture(given.posture, q, dt if dt <= PAUSE else 0.0, at.speed[0])
    is_new = advance_gravity(at.gravity, at.gravity_wanted, dt if dt <= PAUSE else np.inf)
    if is_new:
        put_gravity(given.gravities, at.gravity)
    if is_blended:
        is_slow = _is_slow(replaced, n, counts_unexplained, period) or is_slow
        put_targets(replaced.guides, time, at.speed[0], replaced.tasks)
        put_axes(old.turning, q, replaced.tasks)
        if own.other[POSTURE, 0] != table[POSTURE, 0]:
            advance_posture(old.posture, q, dt if dt <= PAUSE else 0.0, at.speed[0])
        if is_new:
            put_gravity(old.gravities, at.gravity)
        blend.advance(own.blend, n, time)
    return is_slow


@inlined
def _ask(given, n):
    """Request Python to plan before the next tick."""
    _own_views(block_in(given.integers, given.numbers).own, n).asks[0] = 1.0


@stage
def _blended(table, given, own, time, q, qd, tau):
    """Write the torques for the settings in force, blended with those for the replaced ones."""
    old, before = given_in(own.other), _blend_views(own.blend, len(q)).before
    blend.put_limits(old.integers, old.numbers, given.integers, given.numbers)
    count = tick_at(entry_in(own.other), own.other, time, q, qd, before)
    if count < 0:
        return count
    count = tick_at(entry_in(table), table, time, q, qd, tau)
    blend.mix(own.blend, old.integers, old.numbers, given.integers, given.numbers, tau)
    if _own_views(block_in(old.integers, old.numbers).own, len(q)).asks[0] > 0.0:
        _ask(given, len(q))
    return count


@stage
def _compensate(own, parts, time, qd, tau):
    """Add the compensation of model errors to the torques of the law."""
    n = len(tau)
    setup, room, at = (_own_views(parts.own, n), _room_views(parts.room, n),
                       disturbance.state_views(own.compensation_state, n))
    limits, driver = _limiter_views(parts.limiter, n), setup.driver
    is_loading = False  # the estimate has the new load at once, the torques gradually
    if len(own.other) > 0:
        blended = _blend_views(own.blend, n)
        driver, is_loading = blended.driver, blended.has_load[0] > 0.0
    is_joint_drive = setup.posture[3] > 0.0  # targets then wait for a tip that is not theirs
    is_held = (is_loading
               or law_views(own.law, n).in_contact[0] > 0.0 and at.free[0] <= 0.0
               or not is_joint_drive and any_waits(parts.guides))
    plan = disturbance.plan_views(own.compensation_plan, n)
    for i in range(n):
        room.tau[i] = tau[i] + driver[i]
    disturbance.compensate(
        (own.compensation_plan, own.compensation_state, own.compensation_result),
        (own.observer, own.forces, own.estimate), time, room.tau, qd,
        view(parts.tasks, AXES, (3, 3)), is_held,
        view(setup.friction, 0, (n if plan.knows_friction[0] > 0.0 else 0,)))
    for i in range(n):
        tau[i] += at.torque[i]
    assign(limits.added, at.torque)


@stage
def _end(given, own, time, q, qd, tau):
    """
    Add the compensation, limit the rate of the torques tau (n,), and store the tick.

    Return whether the torques are finite.

    """
    n = len(q)
    parts = block_in(given.integers, given.numbers)
    if len(own.compensation_state) > 0:
        _compensate(own, parts, time, qd, tau)
    is_finite = leave(own.law, parts.limiter, time, q, qd, tau)
    if len(own.other) > 0:
        old = given_in(own.other)
        limiter = block_in(old.integers, old.numbers).limiter
        assign(_limiter_views(limiter, n).added, _limiter_views(parts.limiter, n).added)
        keep(limiter, time, tau)
    return is_finite


@kernel
def law_torque(table, time, q, qd, tau):
    """
    Write the torques of a law for a state, within all limits.

    Parameters
    ----------
    table : (…, 2) int
        Addresses and sizes of arrays: the arrays of `setup_step.setup_torque`, then those of
        `LawArrays` (more may follow). The last row has the address of `setup_torque`.
    time : float
        Stamp of the state [s].
    q, qd : (n,)
    tau : (n,), written [N·m]

    Returns
    -------
    int
        Number of solves, which is positive; REFUSED or INFINITE if there are no torques.

    """
    given, own = given_in(table), law_in(table)
    is_slow = _begin(table, given, own, time, q)
    if len(own.other) > 0:
        count = _blended(table, given, own, time, q, qd, tau)
    else:
        count = tick_at(entry_in(table), table, time, q, qd, tau)
    if is_slow:
        _ask(given, len(q))
    if count >= 0 and not _end(given, own, time, q, qd, tau):
        return INFINITE
    return count


@inlined
def _observe_last(own, given, setup, time, q, qd, effort, tau):
    """Estimate the external torques at a state, with the last torques of the law."""
    n = len(q)
    before = tick_views(own.law, n)
    for j in range(n):
        tau[j] = before.tau[0, j] if before.ticks[0] > 0.0 else np.nan
    put_driver(given.model, given.model_numbers, given.model_room, q, qd, setup.driver)
    observe((own.robot, own.robot_numbers), (own.observer, own.forces, own.estimate), time, q, qd,
            tau, effort, setup.driver)


@released
def put_torques(of_law, memory, states, tau, found, first, last):
    """
    Write the torques of controllers `first` to `last` - 1, with estimates of external torques.

    Parameters
    ----------
    of_law : tuple of int, (…, 2) int, (…, 3) int
        Address of `law_torque`, its table, and `Places.spans`, of a law that computes for one
        controller after the other.
    memory : (k, …) int
        A row for each controller, with the numbers of these places.
    states : tuple of (k,), (k, n), (k, n), (n,)
        Stamps [s], positions, velocities, and NaN for each joint: no effort is measured.
    tau : (k, n), written
    found : (2, k) int, written
        Result of `law_torque`, and 1 if Python must plan a target before the next state.
    first, last : int

    """
    (entry, table, spans), (time, q, qd, unknown) = of_law, states
    given, own = given_in(table), law_in(table)
    setup = _own_views(block_in(given.integers, given.numbers).own, q.shape[1])
    for i in range(first, last):
        copy_row(spans, memory[i], False)
        if len(own.forces) > 0:
            _observe_last(own, given, setup, time[i], q[i], qd[i], unknown, tau[i])
        found[0, i] = tick_at(entry, table, time[i], q[i], qd[i], tau[i])
        found[1, i] = np.int64(setup.asks[0])
        copy_row(spans, memory[i], True)
