# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Limit: the nearest torques within all limits, and their rates."""

from __future__ import annotations

from osc_ros.compile.compiled import kernel, stage, view
from osc_ros.control.limits.limiter import keep, limit, limit_rate, near_bounds, put_near_loss
from osc_ros.control.setpoint.motion import note_loss
from osc_ros.control.step.law_record import stage_at
from osc_ros.control.step.stages import INVERSE_MASS
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.dynamics.contract.method import DONE


@stage
def limit_torque(law, count, time, q, qd, tau):
    """Bring torques tau (n,) within all limits except the rates; return a status."""
    m, d, status = law.m, law.d, DONE
    near = near_bounds(m, d, law.clearance, law.gravity, time, q, qd, tau)
    if near >= 0 or d.is_blended:
        status = stage_at(law.stage, (law, INVERSE_MASS, d.unit,
                                      view(d.M_inv, 0, (d.n * d.n,)), qd))
    if near >= 0:
        limit(m, d, count, near, time, qd, tau)
        if put_near_loss(d, near, d.tau_before):
            note_loss(m, d, d.tau_before)
    return status


@kernel
def leave(run, d, time, q, qd, tau):
    """
    Limit the rate of the torques tau (n,), and store the tick; return whether all are finite.

    If they are not, the tick is not stored. `time` is in s.

    """
    if not limit_rate(d, time, run.mean_period, tau):
        return False
    run.tick_times[1] = run.tick_times[0]
    for rows in (run.tick_q, run.tick_qd, run.tick_tau):
        assign(rows[1], rows[0])
    run.tick_time = run.tick_times[0] = time
    assign(run.tick_q[0], q)
    assign(run.tick_qd[0], qd)
    assign(run.tick_tau[0], tau)
    run.ticks = min(run.ticks + 1, 2)
    return True


@stage
def limit_rates(law, time, q, qd, tau):
    """Limit the rate of the torques tau (n,), and store the tick; return whether it is finite."""
    is_finite = leave(law.run, law.d, time, q, qd, tau)
    if law.replaces:
        old = law.other.d
        for i in range(len(tau)):
            old.added[i] = law.d.added[i] + law.run.tau_carried[i]
        keep(old, time, tau)
    return is_finite
