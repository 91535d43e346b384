# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Limit: the nearest torques within all limits, and their rates."""

from __future__ import annotations

from osc_ros.compile.compiled import stage, view
from osc_ros.control.limits.limiter import keep, limit, limit_rate, near_bounds, put_near_loss
from osc_ros.control.setpoint.motion import note_loss
from osc_ros.control.step.law_record import stage_at
from osc_ros.control.step.stages import INVERSE_MASS, RESPONSE
from osc_ros.dynamics.algebra.vectors import assign


@stage
def limit_torque(law, count):
    """Write `tau_limited` for the torques of tasks, posture and springs; return a status."""
    m, d = law.m, law.d
    status = stage_at(law.stage, (law, RESPONSE, d.tau_springs, d.link_F, d.qdd_law))
    for i in range(d.n):
        d.tau_limited[i] = d.tau_motion[i] + d.tau_springs[i]
    near = near_bounds(m, d, law.clearance, law.gravity)
    if near >= 0 or d.is_blended:
        status |= stage_at(law.stage, (law, INVERSE_MASS, d.unit,
                                       view(d.M_inv, 0, (d.n * d.n,)), d.qd))
    if near >= 0:
        limit(m, d, count, near)
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
