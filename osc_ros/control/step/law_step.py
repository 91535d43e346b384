# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques of a law for a joint state, without supervision, in one compiled call."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.addresses import integers_at, numbers_at
from osc_ros.compile.compiled import inlined, kernel, released, stage, view
from osc_ros.control.limits.limiter import keep
from osc_ros.control.model_error.command_model import put_driver
from osc_ros.control.model_error.disturbance import compensate, FALLS, FOLLOWS, HELD
from osc_ros.control.model_error.observer import observe
from osc_ros.control.setpoint.motion import any_waits, put_targets
from osc_ros.control.setpoint.posture import advance_posture
from osc_ros.control.step import blend
from osc_ros.control.step.law_memory import leave, note_period, PAUSE
from osc_ros.control.step.parts import torque_at, TURNING
from osc_ros.control.step.places import copy_row
from osc_ros.control.step.setup_step import REFUSED
from osc_ros.control.tasks.bandwidth import COUNTED_DELAY, PERIOD_CHANGE
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


@inlined
def _is_slow(law, counts_unexplained, period):
    """
    Return whether Python must reduce gains for this period of the states [s].

    Also write `counts_unexplained` to its record.

    """
    m, d = law.m, law.d
    d.counts_unexplained = counts_unexplained
    return (max(period, d.gain_period) > m.longest_period
            and abs(period - d.gain_period) > PERIOD_CHANGE * period)


@kernel
def put_axes(d, turning, q):
    """Write the axes of the tasks whose frames turn with other links; see `turning` of LAW."""
    for i in range(0, len(turning), TURNING):
        m = turning[i + 1]
        put_link_axes(view(numbers_at(turning[i + 2], 9 * m), 0, (m, 3, 3)),
                      integers_at(turning[i + 3], m), integers_at(turning[i + 4], m), q,
                      view(d.task_axes[turning[i]], 0, (3, 3)))


@stage
def _begin(law, time, q):
    """
    Update period, targets, set-points, gravity and the weight of the blend, before the ticks.

    Return whether Python must reduce gains for the period of the states.

    """
    m, d, run = law.m, law.d, law.run
    counts_unexplained = run.delay <= COUNTED_DELAY
    period = note_period(run, time)
    is_slow = _is_slow(law, counts_unexplained, period)
    put_targets(m, d, time, run.speed_override)
    put_axes(d, law.turning, q)
    dt = time - run.tick_time
    advance_posture(law.posture, q, dt if dt <= PAUSE else 0.0, run.speed_override)
    is_new = advance_gravity(run.gravity, run.wanted_gravity, dt if dt <= PAUSE else np.inf)
    if is_new:
        put_gravity(law.gravities, run.gravity)
    if law.replaces:
        old = law.other
        is_slow = _is_slow(old, counts_unexplained, period) or is_slow
        put_targets(old.m, old.d, time, run.speed_override)
        put_axes(old.d, old.turning, q)
        if old.posture.address != law.posture.address:
            advance_posture(old.posture, q, dt if dt <= PAUSE else 0.0, run.speed_override)
        if is_new:
            put_gravity(old.gravities, run.gravity)
        blend.advance(run, time)
    return is_slow


@stage
def _blended(law, time, q, qd, tau):
    """Write the torques for the settings in force, blended with those for the replaced ones."""
    old, d, run = law.other, law.d, law.run
    blend.put_limits(old.d, d)
    count = torque_at(old.setup_torque, (old, time, q, qd, run.tau_replaced))
    if count < 0:
        return count
    count = torque_at(law.setup_torque, (law, time, q, qd, tau))
    blend.mix(run, old.d, d, tau)
    if old.d.plans:
        d.plans = True
    return count


@stage
def _compensate(law, time, qd, tau):
    """Add the compensation of model errors to the torques of the law."""
    n, m, d, run = len(tau), law.m, law.d, law.run
    c, driver = law.compensation, d.tau_driver
    is_loading = False  # the estimate has the new load at once, the torques gradually
    if law.replaces:
        driver, is_loading = run.blended_driver, run.blends_load
    falls = (run.in_contact and c.free <= 0.0
             # targets of a joint drive wait for a tip that is not theirs
             or not m.drives_joints and any_waits(m))
    hold = HELD if is_loading else FALLS if falls else FOLLOWS
    for i in range(n):
        d.tau_before[i] = tau[i] + driver[i]
    compensate(c, law.observer, time, d.tau_before, qd, view(d.task_axes, 0, (3, 3)), hold,
               view(d.tau_friction, 0, (n if c.knows_friction else 0,)))
    for i in range(n):
        tau[i] += c.torque[i]
    assign(d.added, c.torque)


@stage
def _end(law, time, q, qd, tau):
    """
    Add the compensation, limit the rate of the torques tau (n,), and store the tick.

    Return whether the torques are finite.

    """
    if law.m.compensates:
        _compensate(law, time, qd, tau)
    is_finite = leave(law.run, law.d, time, q, qd, tau)
    if law.replaces:
        old = law.other.d
        assign(old.added, law.d.added)
        keep(old, time, tau)
    return is_finite


@kernel
def law_torque(law, time, q, qd, tau):
    """
    Write the torques of a law for a state, within all limits.

    Parameters
    ----------
    law : record LAW
    time : float
        Stamp of the state [s].
    q, qd : (n,)
    tau : (n,), written [N·m]

    Returns
    -------
    int
        Number of solves, which is positive; REFUSED or INFINITE if there are no torques.

    """
    is_slow = _begin(law, time, q)
    if law.replaces:
        count = _blended(law, time, q, qd, tau)
    else:
        count = torque_at(law.setup_torque, (law, time, q, qd, tau))
    if is_slow:
        law.d.plans = True
    if count >= 0 and not _end(law, time, q, qd, tau):
        return INFINITE
    return count


@inlined
def _observe_last(law, time, q, qd, effort, tau):
    """Estimate the external torques at a state, with the last torques of the law."""
    run, driver = law.run, law.d.tau_driver
    for j in range(len(q)):
        tau[j] = run.tick_tau[0, j] if run.ticks > 0 else np.nan
    put_driver(law.model, q, qd, driver)
    observe(law.observer, time, q, qd, tau, effort, driver)


@released
def put_torques(of_law, memory, states, tau, found, first, last):
    """
    Write the torques of controllers `first` to `last` - 1, with estimates of external torques.

    Parameters
    ----------
    of_law : record LAW, (…, 3) int
        A law that computes for one controller after the other, and `Places.spans`.
    memory : (k, …) int
        A row for each controller, with the numbers of these places.
    states : tuple of (k,), (k, n), (k, n), (n,)
        Stamps [s], positions, velocities, and NaN for each joint: no effort is measured.
    tau : (k, n), written
    found : (2, k) int, written
        Result of `law_torque`, and 1 if Python must plan a target before the next state.
    first, last : int

    """
    (law, spans), (time, q, qd, unknown) = of_law, states
    m, d = law.m, law.d
    for i in range(first, last):
        copy_row(spans, memory[i], False)
        if m.observes:
            _observe_last(law, time[i], q[i], qd[i], unknown, tau[i])
        found[0, i] = torque_at(law.law_torque, (law, time[i], q[i], qd[i], tau[i]))
        found[1, i] = np.int64(d.plans)
        copy_row(spans, memory[i], True)
