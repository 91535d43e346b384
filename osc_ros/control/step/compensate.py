# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compensate: friction, the torques of the driver, and model errors."""

from __future__ import annotations

from osc_ros.compile.compiled import stage, view
from osc_ros.control.model_error.command_model import put_driver
from osc_ros.control.model_error.disturbance import compensate, FALLS, FOLLOWS, HELD
from osc_ros.control.model_error.friction import gain_of, put_compensation
from osc_ros.control.setpoint.motion import any_waits
from osc_ros.control.step.law_record import stage_at
from osc_ros.control.step.reference import integrate, note_tick, put_forces, put_motion
from osc_ros.control.step.stages import MOTION, RESPONSE
from osc_ros.control.tasks.free import put_friction
from osc_ros.dynamics.algebra.vectors import assign


@stage
def follow(law, Lambda_inv, count, time, q, qd):
    """Advance the reference motion for the friction compensation; return a status code."""
    entry, m, d = law.stage, law.m, law.d
    dt = time - d.reference_time
    integrate(m, d, q, dt, law.posture)
    # forces that change the tasks' velocities to those of their targets, and the response to them
    put_forces(m, d, count)
    status = stage_at(entry, (law, RESPONSE, d.zeros, d.rate_forces, d.reference_change))
    put_motion(m, d, dt, Lambda_inv)
    note_tick(d, time)
    return status | stage_at(entry, (law, MOTION, qd, d.reference[1], d.reference[2]))


@stage
def compensate_friction(law, q, qd, tau):
    """Add the friction compensation to torques within the limits; subtract those of the driver."""
    m, d = law.m, law.d
    if not m.compensates_friction:
        d.tau_friction[:] = 0.0
    elif m.is_guided:
        put_friction(m, d, qd)
    else:
        put_compensation(m, d, q, qd, tau, gain_of(d.highest_rate, d.longest_tick))
    put_driver(law.model, q, qd, d.tau_driver)
    for i in range(d.n):
        d.offset[i] = d.tau_friction[i] - d.tau_driver[i]
        tau[i] += d.offset[i]


@stage
def compensate_errors(law, time, qd, tau):
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
