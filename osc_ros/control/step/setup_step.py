# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Torques of a law for one joint state, with one robot and one choice of settings, compiled.

One call computes the dynamics, the tasks, the limits and the friction compensation. `law_step`
adds the compensation of model errors, the rate limits and the blend after a change of settings;
`step` adds the supervision.
"""

from __future__ import annotations

from osc_ros.compile.addresses import stage_at
from osc_ros.compile.compiled import inlined, kernel, stage, view
from osc_ros.control.limits.bounds import POSTURE, TOTAL
from osc_ros.control.limits.limiter import limit, near_bounds, put_near_loss, ROOM, STATE
from osc_ros.control.limits.nearest import tasks_of
from osc_ros.control.model_error.command_model import put_driver
from osc_ros.control.model_error.friction import (
    advance_friction,
    gain_of,
    in_force_views,
    is_compensated,
    put_compensation,
)
from osc_ros.control.safety.safety import REJECTED
from osc_ros.control.setpoint.motion import look, note_loss
from osc_ros.control.setpoint.posture import posture_acceleration, put_springs
from osc_ros.control.step.block import block_in, OWN
from osc_ros.control.step.reference import integrate, memory_in, note_tick, put_forces, put_motion
from osc_ros.control.step.stages import (
    INVERSE_MASS,
    INWARD,
    JACOBIAN,
    method_in,
    MOTION,
    OUTWARD,
    RESPONSE,
)
from osc_ros.control.step.tick_arrays import given_in
from osc_ros.control.tasks.feedback import Links, put_task_forces
from osc_ros.control.tasks.free import damping_rate, guide, guides, put_friction
from osc_ros.control.tasks.task_reference import put_references, put_wrenches
from osc_ros.dynamics.contract.method import DONE
from osc_ros.dynamics.priority import priority

REFUSED = REJECTED - 1  # code of a tick if the state or the motion of the links is not finite

_limiter_views = STATE.only('table', 'accelerations', 'is_at_work', 'offset')
_room_views, _own_views = ROOM.only('M_inv', 'unit', 'tau'), OWN.views


@inlined
def _of_tasks(integers, parts):
    """Return the arrays that `put_references` and `put_wrenches` change."""
    return (parts.task_plans, parts.task_states, parts.tasks,
            priority.level_rows(integers, parts.solver))


@stage
def begin(given, Lambda_inv, time, q, qd):
    """
    Advance task references and friction; write acceleration of the posture and joint springs.

    This runs before the dynamics of the tick, so Λ⁻¹ (6 m, 6 m) is that of the last tick.

    """
    integers, n = given.integers, len(q)
    parts = block_in(integers, given.numbers)
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    put_references(integers, _of_tasks(integers, parts), Lambda_inv,
                   memory_in(integers, parts.reference).rates, time,
                   own.stretch[0] * own.period[0])
    advance_friction(given.friction, time)
    if guides(parts.drive):
        own.posture[0] = 0.0
        own.posture[1] = damping_rate(parts.drive, parts.guided, qd,
                                      view(parts.J, 6 * n * integers[3], (6, n)))
    posture_acceleration(q, qd, given.posture, own.posture, limits.table,
                         limits.accelerations[POSTURE])
    put_springs(given.posture, own.stiffness, own.spring_damping, q, qd, own.springs)


@stage
def put_links(given, links, time):
    """
    Write the forces of the tasks on the links, after `outward` and `jacobian`.

    `links` has the `Links` of this state; `time` is its stamp [s]. Return the number of solves.

    """
    integers = given.integers
    parts = block_in(integers, given.numbers)
    n, k = integers[2], integers[3]
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    if own.has_force[0] > 0.0:
        put_wrenches(_of_tasks(integers, parts), links.poses, time, limits.is_at_work[0] > 0.0)
    count = put_task_forces(integers, parts.solver, parts.tasks, links, own.damping)
    if guides(parts.drive):
        guide(parts.drive, parts.guided, k, links, parts.tasks[0],
              priority.link_forces(integers, parts.solver))
    return count


@stage
def finish(given, q, qd, tau):
    """Add the friction compensation to torques within the limits; subtract the driver's."""
    parts, n = block_in(given.integers, given.numbers), len(q)
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    at, moved = in_force_views(given.friction, n), memory_in(given.integers, parts.reference)
    own.asks[0] = 1.0 if look(parts.guides, parts.tasks) else 0.0
    if not is_compensated(at):
        own.friction[:] = 0.0
    elif guides(parts.drive):
        put_friction(parts.drive, qd, at.coefficients, own.friction)
    else:
        put_compensation((q, qd), moved.motion, tau, gain_of(moved.rate[0], moved.clock[1]),
                         given.friction, own.least_inertia, limits.table, own.friction)
    put_driver(given.model, given.model_numbers, given.model_room, q, qd, own.driver)
    for i in range(n):
        limits.offset[i] = own.friction[i] - own.driver[i]
        tau[i] += limits.offset[i]


@stage
def _follow(table, given, links, count, time, q, qd):
    """Advance the reference motion for the friction compensation; return a status code."""
    integers, entry, n = given.integers, method_in(table).entry[0], len(q)
    parts = block_in(integers, given.numbers)
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    at = memory_in(integers, parts.reference)
    dt = time - at.clock[0]
    integrate(at, q, dt, given.posture, own.posture, limits.table)
    # forces that change the tasks' velocities to those of their targets, and the response to them
    put_forces(at, priority.room_of(integers, parts.solver), count, links.J)
    status = stage_at(entry, table, RESPONSE, at.rest, at.forces, at.change)
    put_motion(at, integers, dt, limits.table, links.Lambda_inv)
    note_tick(at.clock, time)
    return status | stage_at(entry, table, MOTION, qd, at.motion[1], at.motion[2])


@kernel
def setup_torque(table, time, q, qd, tau):
    """
    Write the torques for one robot and one choice of settings, within all limits except rates.

    The torques include the friction compensation; the torques that the driver adds are subtracted.

    The caller first writes the targets of the tasks for this state, and the axes that turn with
    other links. The kernel finds its arrays by a table of addresses, because each array argument
    of a compiled call takes 0.1 µs.

    Parameters
    ----------
    table : (…, 2) int
        Addresses and sizes of arrays: of the method of the dynamics, see
        `osc_ros.control.step.stages`, then of `Given`.
    time : float
        Stamp of the state [s].
    q, qd : (n,)
    tau : (n,), written [N·m]

    Returns
    -------
    int
        Number of solves, which is positive, or REFUSED.

    """
    given, method = given_in(table), method_in(table)
    integers, entry, n, rows = given.integers, method.entry[0], len(q), len(method.a0)
    parts = block_in(integers, given.numbers)
    links = Links(view(method.pose, 0, (integers[1], 4, 4)), method.twist, parts.J,
                  view(method.Lambda_inv, 0, (rows, rows)), method.a0)
    begin(given, links.Lambda_inv, time, q, qd)
    limits, room = _limiter_views(parts.limiter, n), _room_views(parts.room, n)
    accelerations, qdd, own = limits.accelerations, limits.accelerations[POSTURE], _own_views(
        parts.own, n)
    if stage_at(entry, table, OUTWARD, q, qd, qdd) != DONE:
        return REFUSED
    status = stage_at(entry, table, JACOBIAN, view(parts.J, 0, (rows * n,)), q, qd)
    count = put_links(given, links, time)
    F = priority.link_forces(integers, parts.solver)
    status |= stage_at(entry, table, INWARD, qdd, F, tau)
    if is_compensated(in_force_views(given.friction, n)):
        status |= _follow(table, given, links, count, time, q, qd)
    for i in range(n):
        tau[i] += own.springs[i]
    status |= stage_at(entry, table, RESPONSE, own.springs, F, accelerations[TOTAL])
    near = near_bounds((parts.limits, parts.limiter, parts.room), (
        given.clearance, given.obstacles), method.gravity, time, q, qd, tau)
    if near >= 0 or own.blends[0] > 0.0:
        status |= stage_at(entry, table, INVERSE_MASS, room.unit, view(room.M_inv, 0, (n * n,)),
                           qd)
    if near >= 0:
        tasks = tasks_of(priority.room_of(integers, parts.solver), count, own.damping[0])
        limit(parts.limiter, parts.room, tasks, near, time, qd, tau)
        if put_near_loss(parts.room, near, room.tau):
            note_loss(parts.guides, parts.tasks, integers[3:3 + integers[0]], parts.J, room.tau)
    finish(given, q, qd, tau)
    return count if status == DONE else REFUSED
