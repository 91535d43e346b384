# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Torques of a law for one joint state, with one robot and one choice of settings, compiled.

One call computes the dynamics, the tasks, the limits and the friction compensation. `law_step`
adds the compensation of model errors, the rate limits and the blend after a change of settings;
`step` adds the supervision.
"""

from __future__ import annotations

from osc_ros.compile.compiled import kernel, stage, view
from osc_ros.control.limits.limiter import limit, near_bounds, put_near_loss
from osc_ros.control.model_error.command_model import put_driver
from osc_ros.control.model_error.friction import (
    advance_friction,
    gain_of,
    is_compensated,
    put_compensation,
)
from osc_ros.control.safety.safety import REJECTED
from osc_ros.control.setpoint.motion import look, note_loss
from osc_ros.control.setpoint.posture import posture_acceleration, put_springs
from osc_ros.control.step.parts import stage_at
from osc_ros.control.step.reference import integrate, note_tick, put_forces, put_motion
from osc_ros.control.step.stages import (
    INVERSE_MASS,
    INWARD,
    JACOBIAN,
    MOTION,
    OUTWARD,
    RESPONSE,
)
from osc_ros.control.tasks.feedback import Links, put_task_forces
from osc_ros.control.tasks.free import guide, put_damping, put_friction
from osc_ros.control.tasks.task_reference import put_references, put_wrenches
from osc_ros.dynamics.contract.method import DONE

REFUSED = REJECTED - 1  # code of a tick if the state or the motion of the links is not finite


@stage
def begin(m, d, run, posture, Lambda_inv, time, q, qd):
    """
    Advance task references and friction; write acceleration of the posture and joint springs.

    This runs before the dynamics of the tick, so Λ⁻¹ (6 m, 6 m) is that of the last tick.

    """
    put_references(m, d, Lambda_inv, time)
    advance_friction(run, time)
    if m.is_guided:
        put_damping(m, d, qd)
    posture_acceleration(m, d, q, qd, posture, d.qdd_posture)
    put_springs(d, posture, q, qd)


@stage
def put_links(m, d, links, time):
    """
    Write the forces of the tasks on the links, after `outward` and `jacobian`.

    `links` has the `Links` of this state; `time` is its stamp [s]. Return the number of solves.

    """
    if m.has_force:
        put_wrenches(m, d, links.poses, time)
    count = put_task_forces(m, d, links)
    if m.is_guided:
        guide(m, d, links)
    return count


@stage
def finish(law, q, qd, tau):
    """Add the friction compensation to torques within the limits; subtract the driver's."""
    m, d, run = law.m, law.d, law.run
    d.plans = look(m, d)
    if not is_compensated(run):
        d.tau_friction[:] = 0.0
    elif m.is_guided:
        put_friction(m, d, qd, run.friction)
    else:
        put_compensation(run, d, q, qd, tau, gain_of(d.highest_rate, d.longest_tick))
    put_driver(law.model, q, qd, d.tau_driver)
    for i in range(d.n):
        d.offset[i] = d.tau_friction[i] - d.tau_driver[i]
        tau[i] += d.offset[i]


@stage
def _follow(law, Lambda_inv, count, time, q, qd):
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


@kernel
def setup_torque(law, time, q, qd, tau):
    """
    Write the torques for one robot and one choice of settings, within all limits except rates.

    The torques include the friction compensation; the torques that the driver adds are subtracted.

    The caller first writes the targets of the tasks for this state, and the axes that turn with
    other links.

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
        Number of solves, which is positive, or REFUSED.

    """
    m, d, run, entry, n = law.m, law.d, law.run, law.stage, len(q)
    a0 = law.a0
    rows = len(a0)
    links = Links(view(law.pose, 0, (d.m, 4, 4)), law.twist, d.J,
                  view(law.Lambda_inv, 0, (rows, rows)), a0)
    begin(m, d, run, law.posture, links.Lambda_inv, time, q, qd)
    if stage_at(entry, (law, OUTWARD, q, qd, d.qdd_posture)) != DONE:
        return REFUSED
    status = stage_at(entry, (law, JACOBIAN, view(d.J, 0, (rows * n,)), q, qd))
    count = put_links(m, d, links, time)
    status |= stage_at(entry, (law, INWARD, d.qdd_posture, d.link_F, tau))
    if is_compensated(run):
        status |= _follow(law, links.Lambda_inv, count, time, q, qd)
    for i in range(n):
        tau[i] += d.tau_springs[i]
    status |= stage_at(entry, (law, RESPONSE, d.tau_springs, d.link_F, d.qdd_law))
    near = near_bounds(m, d, law.clearance, law.obstacles, law.gravity, time, q, qd, tau)
    if near >= 0 or d.is_blended:
        status |= stage_at(entry, (law, INVERSE_MASS, d.unit, view(d.M_inv, 0, (n * n,)), qd))
    if near >= 0:
        limit(m, d, count, near, time, qd, tau)
        if put_near_loss(d, near, d.tau_before):
            note_loss(m, d, d.tau_before)
    finish(law, q, qd, tau)
    return count if status == DONE else REFUSED
