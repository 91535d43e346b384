# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Limit: the nearest torques within all limits, and their rates.

The limiter changes the law's torques, as little as possible, so that the joints keep their limits.

Limits of position and velocity become bounds of the accelerations (`limits.bounds`). With the
bounds of the torques, of the gravity loads (`limits.load`) and of the distances
(`limits.near_rows`) they define the admissible accelerations. The limiter commands the admissible
acceleration nearest to the law's, in a norm that weights the tasks more than the posture
(`limits.nearest`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.obstacles import Obstacles
from osc_ros.compile.compiled import inlined, kernel, stage, view
from osc_ros.control.data import OF_LIMITS
from osc_ros.control.limits.bodies import put_bodies
from osc_ros.control.limits.bounds import exceeds
from osc_ros.control.limits.clearance import KeepingClear, Near
from osc_ros.control.limits.complementarity import put_inverse
from osc_ros.control.limits.limits import Limits, payload_ratio
from osc_ros.control.limits.load import bounded_loads, IDLE
from osc_ros.control.limits.near_rows import near_rows
from osc_ros.control.limits.nearest import gentle_step, narrow, torques_within
from osc_ros.control.model_error.command_model import put_command, put_driver
from osc_ros.control.safety.stopping import put_inertia
from osc_ros.control.setpoint.motion import note_loss
from osc_ros.control.step.law_record import stage_at
from osc_ros.control.step.stages import INVERSE_MASS, RESPONSE
from osc_ros.dynamics.algebra.spatial import assign, move_towards, step_share
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@inlined
def take_state(d, time, q, qd):
    """Copy a state to a record LAW_D."""
    d.time = time
    assign(d.q, q)
    assign(d.qd, qd)


@inlined
def begin_limits(m, d):
    """Write the time since the last torque, and advance a change of the limits."""
    d.tick = d.time - d.last_time if d.has_last and d.time > d.last_time else 0.0
    if d.limits_age <= m.blend_time:
        share = step_share(d.limits_age, d.tick, m.blend_time, False)
        d.limits_age += d.tick
        for row in range(len(d.limits)):
            move_towards(d.limits[row], m.limits[row], share)


@inlined
def _put_window(d):
    """Write the lowest and highest torques; in free drive they also satisfy the rate limits."""
    # Otherwise `limit_rate` bounds the rates, by one factor for all joints. In free drive that
    # would delay the light joints, which a person may push beyond their speed limits, until the
    # torques of the heavy joints have changed.
    for i in range(d.n):
        most, rate = d.most_effort[i], d.most_effort_rate[i]
        d.window[0, i], d.window[1, i] = -most, most
        if d.guided > 0.0 and d.tick > 0.0 and rate < np.inf:
            narrow(d.window, i, d.last_limited[i], rate * d.tick / d.guided)


@stage
def near_bounds(m, d, clearance, gravity, keeps_clear):
    """Compute the bounds of a tick; return -1 if `tau_limited` is within them, without `limit`."""
    # Otherwise return the number of rows, of gravity loads and near pairs; then write the inverse
    # of the inertia matrix, and call `limit`. On entry `qdd_posture` is the acceleration of the
    # posture, `qdd_law` all others due to the torques. `clearance`: CLEARANCE; gravity [m/s²];
    # `keeps_clear`: whether distances count.
    count = 0
    step = d.tick / m.blend_time
    d.guided += min(max((1.0 if m.is_guided else 0.0) - d.guided, -step), step)
    is_beyond = exceeds(m, d)
    _put_window(d)
    for i in range(d.n):
        tau = d.tau_limited[i] + d.tau_disturbance[i]
        is_beyond = is_beyond or not d.window[0, i] <= tau <= d.window[1, i]
        is_beyond = is_beyond or d.gentle > 0.0 and d.tick > 0.0 and not np.abs(
            tau - d.last_limited[i]) <= gentle_step(d, i, d.tick)
    d.loads_idle -= 1
    if d.loads_idle < 0:
        count = bounded_loads(m, d, gravity)
        d.loads_idle = IDLE if count < 0 else 0
        count = max(count, 0)
    if keeps_clear:
        count += near_rows(m, d, clearance, count)
    d.row_count = count
    if not (is_beyond or count > 0 or d.was_at_bound):
        d.limits_work = False
        return -1
    d.shares[:] = 1.0
    is_beyond = is_beyond or d.damping_share != 0.0 or d.gentle > 0.0
    for k in range(count):
        load = 0.0
        for i in range(d.n):
            load += d.row_of_q[k, i] * d.qdd_law[i]
        is_beyond = is_beyond or load > d.row_most[k]
    if not is_beyond:
        d.sides[:], d.near_numbers[:], d.near_sides[:] = 0, 0, 0
        d.limits_work = d.was_at_bound = False
        return -1
    return count


@stage
def limit(m, d, count):
    """Bring `tau_limited` within all limits except the rates; call it after `near_bounds`."""
    # `count`: result of `near_bounds`. The limits hold for the sum with the compensation of model
    # errors.
    d.was_at_bound = True
    for i in range(d.n):
        d.tau_limited[i] += d.tau_disturbance[i]
    d.limits_work = torques_within(m, d, count)
    for i in range(d.n):
        d.tau_limited[i] -= d.tau_disturbance[i]
    for i in range(d.n):
        for j in range(d.n):
            d.commanded[0, i] += d.M_inv[i, j] * (
                d.tau_limited[j] - (d.tau_motion[j] + d.tau_springs[j]))


@stage
def put_near_loss(d, count):
    """Write `near_loss` after `limit`, whose `count` this is; return whether there is any."""
    n, is_held, push, x = d.n, False, d.bound_push, d.push_torque
    x[:] = 0.0
    for k in range(count):
        if d.row_number[k] >= n and push[2 * n + k] != 0.0:
            is_held = True
            for i in range(n):
                x[i] += d.row_of_q[k, i] * push[2 * n + k]
    if is_held:
        y = d.push_acceleration
        for i in range(n):
            y[i] = 0.0
            for j in range(n):
                y[i] += d.M_inv[i, j] * x[j]
        for i in range(n):
            d.near_loss[i] = -y[i]
            for j in range(n):
                d.near_loss[i] += d.M_inv_B[i, j] * y[j]
    return is_held


@kernel
def count_fading(d, is_loading):
    """Add the acceleration by `tau_fading` to the commanded one; `M_inv` must be of this state."""
    # `is_loading`: the two laws of the blend have different loads, so the bounds count it, too.
    for i in range(d.n):
        found = 0.0
        for j in range(d.n):
            found += d.M_inv[i, j] * d.tau_fading[j]
        d.commanded[0, i] += found
        d.fading_acceleration[i] = found if is_loading else 0.0


@inlined
def keep(d):
    """Store `tau` for the limits of the next tick."""
    d.has_last, d.last_time = True, d.time
    for i in range(d.n):
        d.last_tau[i] = d.tau[i]
        d.last_limited[i] = d.tau[i] - (d.tau_friction[i] - d.tau_driver[i] + d.tau_fading[i])
        for ago in range(3, 0, -1):
            d.commanded[ago, i] = d.commanded[ago - 1, i]
        d.speed_before[i] = d.measured_speed[i]
        d.unexplained_before[i] = d.unexplained[i] if d.counts_unexplained else np.nan


@kernel
def limit_rate(d, period):
    """Limit the step from the last torques to `tau` to the effort rates; store `tau`."""
    # One factor shortens the steps of all joints, so their ratios stay. Stamps may jump ahead: a
    # time step longer than `period`, the mean one [s], counts as `period` (0: unknown). Return
    # whether all torques are finite.
    share, is_finite, tau = 1.0, True, d.tau
    if d.has_last and d.time >= d.last_time:
        dt = d.time - d.last_time
        dt = min(dt, period) if period > 0.0 else dt
        for i in range(d.n):
            step, rate = np.abs(tau[i] - d.last_tau[i]), d.most_effort_rate[i]
            if step > 0.0 and rate < np.inf:
                share = min(share, rate * dt / step)
    d.rate_share = share
    if share < 1.0:
        d.limits_work = True
        for i in range(d.n):
            tau[i] = d.last_tau[i] + share * (tau[i] - d.last_tau[i])
    for i in range(d.n):
        is_finite = is_finite and np.isfinite(tau[i])
    keep(d)
    return is_finite


@inlined
def _put_acceleration(d, tau, bias, out):
    """Write the acceleration (n,) by torques tau (n,), of which `bias` (n,) accelerate nothing."""
    for i in range(d.n):
        out[i] = 0.0
        for j in range(d.n):
            out[i] += d.room_inverse[i, j] * (tau[j] - bias[j])


@stage
def limit_wanted(law, m, d):
    """Bring `wanted` of D, the torque of a reaction, within all limits of the law."""
    # The model is that of the reaction. There are no tasks: B = 0. The window of the torques
    # includes their rates: if each were limited on its own, joints would drive each other.
    own, rows = law.d, d.room_rows
    bias, rest = rows[8], rows[0]
    put_inertia(d.model, d.q, rows, rows[4], d.room_matrix)
    put_inverse(d.room_matrix, d.room_chosen, d.room_factor, d.room_inverse)
    rest[:] = 0.0
    put_command(d.model, d.q, d.qd, rest, bias)
    put_driver(d.model, d.q, d.qd, own.tau_driver)
    take_state(own, d.time, d.q, d.qd)
    begin_limits(law.m, own)
    for i in range(d.n):
        bias[i] += d.load[i]
        own.tau_motion[i] = own.tau_limited[i] = (
            d.wanted[i] + own.tau_driver[i] - own.tau_disturbance[i])
        own.tau_springs[i] = own.qdd_posture[i] = own.fading_acceleration[i] = 0.0
        for j in range(d.n):
            own.M_inv[i, j] = d.room_inverse[i, j]
    _put_acceleration(d, d.wanted, bias, own.qdd_law)
    solves, gentle, share = own.solves, own.gentle, own.damping_share
    own.solves, own.gentle, own.damping_share = 0, 0.0, 0.0
    is_beyond = near_bounds(law.m, own, law.clearance, law.gravity, False) >= 0
    dt = min(d.elapsed, max(d.spacing, m.period))
    for i in range(d.n if d.has_sent else 0):
        last, rate = d.sent[i] + own.tau_driver[i], own.most_effort_rate[i]
        if rate < np.inf:
            narrow(own.window, i, last, rate * dt)
        is_beyond = is_beyond or not own.window[0, i] <= d.wanted[i] + own.tau_driver[i] <= (
            own.window[1, i])
    if is_beyond:
        limit(law.m, own, own.row_count)
        for i in range(d.n):
            found = own.tau_limited[i] + own.tau_disturbance[i] - own.tau_driver[i]
            d.wanted[i] = found if np.isfinite(found) else d.wanted[i]
    own.solves, own.gentle, own.damping_share = solves, gentle, share


@stage
def note_sent(law, d):
    """Store the sent torque for the limits of the next tick, after `limit_wanted`."""
    own = law.d
    assign(own.tau, d.sent)
    _put_acceleration(d, d.sent, d.room_rows[8], own.commanded[0])
    keep(own)


Sides = NDArray[np.int64]


# Slots that a new limiter copies from the limiter that it replaces.
CONTINUED = ('sides', 'near_numbers', 'near_sides', 'gentle', 'guided', 'damping_share',
             'limits_work', 'has_last', 'last_tau', 'last_limited', 'last_time', 'tau_disturbance',
             'unexplained_before', 'speed_before', 'commanded')
FROM_OUTSIDE = 'counts_unexplained',  # slots that the law writes


class Limiter:
    """Brings the torques of a law within the limits of the joints."""

    # m, d: records of the law, see `osc_ros.control.data`; the slots of the limits describe the
    # last tick. Changed limits come into force over `blend_time` [s]. `is_guided`: in free drive;
    # `drives_joints`: in a joint drive.

    def __init__(self, robot: Robot, limits: Limits, blend_time: float, m: Any, d: Any,
                 is_guided: bool = False, drives_joints: bool = False,
                 clearance: KeepingClear | None = None) -> None:
        n = robot.n
        if limits.velocity.shape != (n,):
            raise InputError(f'limits are for {len(limits.velocity)} joints: give {n}')
        self.m, self.d = m, d
        self.clearance = clearance or KeepingClear(robot, None, Obstacles())
        m.limits[:], m.blend_time = limits.table, blend_time
        put_bodies(m, robot)
        m.is_guided, m.drives_joints, m.payload_ratio = (
            is_guided, drives_joints, payload_ratio(robot))
        d.counts_unexplained = True
        self.forget()

    @property
    def near(self) -> list[Near]:
        """Pairs whose distance bounds the accelerations at the last tick, nearest first."""
        return self.clearance.near(self.d.near_numbers[self.d.near_sides != 0])

    def go_on_from(self, before: Limiter) -> None:
        """Copy the state of `before`; its limits change to the new ones within `blend_time`."""
        m, d, old = self.m, self.d, before.d
        d.take(old, CONTINUED)
        d.was_at_bound = True
        if not np.array_equal(old.limits, m.limits):
            d.limits[:], d.limits_age = old.limits, 0.0

    def forget(self) -> None:
        """Reset the state; the rate limit does not apply to the next torque."""
        m, d = self.m, self.d
        d.clear(one.name for one in OF_LIMITS if one.name not in FROM_OUTSIDE)
        d.limits[:] = m.limits
        d.shares[:], d.rate_share, d.guided = 1.0, 1.0, 1.0 if m.is_guided else 0.0
        d.surprise_gain[:] = 1.0


@stage
def limit_torque(law):
    """Write `tau_limited` for the torques of tasks, posture and springs; return a status."""
    m, d = law.m, law.d
    status = stage_at(law.stage, (law, RESPONSE, d.tau_springs, d.link_F, d.qdd_law))
    for i in range(d.n):
        d.tau_limited[i] = d.tau_motion[i] + d.tau_springs[i]
    near = near_bounds(m, d, law.clearance, law.gravity, True)
    if near >= 0 or d.is_blended:
        status |= stage_at(law.stage, (law, INVERSE_MASS, d.q,
                                       view(d.M_inv, 0, (d.n * d.n,)), d.qd))
    if near >= 0:
        limit(m, d, near)
        if put_near_loss(d, near):
            note_loss(m, d)
    return status


@stage
def limit_rates(law):
    """Limit the rate of `tau`, and store the tick; return whether all torques are finite."""
    run, d = law.run, law.d
    is_finite = limit_rate(d, run.mean_period)
    if is_finite:
        run.tick_times[1] = run.tick_times[0]
        for rows in (run.tick_q, run.tick_qd, run.tick_tau):
            assign(rows[1], rows[0])
        run.tick_time = run.tick_times[0] = d.time
        assign(run.tick_q[0], d.q)
        assign(run.tick_qd[0], d.qd)
        assign(run.tick_tau[0], d.tau)
        run.ticks = min(run.ticks + 1, 2)
    if law.replaces:
        old = law.other.d
        assign(old.tau, d.tau)
        for i in range(d.n):
            old.tau_disturbance[i] = d.tau_disturbance[i] + run.tau_carried[i]
        keep(old)
    return is_finite
