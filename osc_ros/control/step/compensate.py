# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compensate: friction, the torques of the driver, and model errors."""

from __future__ import annotations

from osc_ros.compile.compiled import stage, view
from osc_ros.control.model_error.command_model import put_driver
from osc_ros.control.model_error.disturbance import compensate, FALLS, FOLLOWS, HELD
from osc_ros.control.model_error.friction import gain_of, put_compensation
from osc_ros.control.setpoint.motion import any_waits
from osc_ros.control.step.blend import blended_driver, own_torque
from osc_ros.control.step.law_record import stage_at
from osc_ros.control.step.reference import integrate, note_tick, put_forces, put_motion
from osc_ros.control.step.stages import MOTION, RESPONSE
from osc_ros.control.tasks.feedback import mobility_of
from osc_ros.control.tasks.free import put_friction
from osc_ros.dynamics.algebra.spatial import assign


@stage
def follow(law):
    """Advance the reference motion for the friction compensation; return a status code."""
    entry, m, d = law.stage, law.m, law.d
    dt = d.time - d.reference_time
    integrate(m, d, dt, law.posture)
    # forces that change the tasks' velocities to those of their targets, and the response to them
    put_forces(m, d)
    status = stage_at(entry, (law, RESPONSE, d.zeros, d.rate_forces, d.reference_change))
    put_motion(m, d, dt, mobility_of(law))
    note_tick(d)
    return status | stage_at(entry, (law, MOTION, d.qd, d.reference_qdd, d.reference_tau))


@stage
def compensate_friction(law):
    """Write the friction compensation for `tau_limited`, and the torques of the driver."""
    m, d = law.m, law.d
    if not m.compensates_friction:
        d.tau_friction[:] = 0.0
    elif m.is_guided:
        put_friction(m, d)
    else:
        put_compensation(m, d, gain_of(d.highest_rate, d.longest_tick))
    put_driver(law.model, d.q, d.qd, d.tau_driver)


@stage
def compensate_errors(law):
    """Write the compensation of model errors."""
    m, d, run, c = law.m, law.d, law.run, law.compensation
    falls = (run.in_contact and c.free <= 0.0
             # targets of a joint drive wait for a tip that is not theirs
             or not m.drives_joints and any_waits(m))
    # of a load that changes, the estimate has the new one at once, the torques gradually
    hold = HELD if law.replaces and run.blends_load else FALLS if falls else FOLLOWS
    for i in range(d.n):
        d.tau_acting[i] = own_torque(d, i) + d.tau_fading[i] + blended_driver(law, i)
    compensate(c, law.observer, d.time, d.tau_acting, d.qd, view(d.task_axes, 0, (3, 3)), hold,
               view(d.tau_friction, 0, (d.n if c.knows_friction else 0,)))
    assign(d.tau_disturbance, c.torque)
