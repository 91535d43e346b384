# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torque of a setup from the joint state, in one compiled call."""

from __future__ import annotations

from osc_ros.control.block import block_in, OWN
from osc_ros.control.bounds import POSTURE, TOTAL
from osc_ros.control.command_model import put_driver
from osc_ros.control.feedback import put_feedback_torque, put_task_forces
from osc_ros.control.free import damping_rate, guide, guides, put_friction
from osc_ros.control.friction import (
    advance_friction,
    gain_of,
    in_force_views,
    is_compensated,
    put_compensation,
)
from osc_ros.control.limiting import limit, near_bounds, ROOM, STATE
from osc_ros.control.motion import look
from osc_ros.control.posture import posture_acceleration
from osc_ros.control.reference import memory_in, note_tick, put_forces, put_motion
from osc_ros.control.safety import TAKEN
from osc_ros.control.task_reference import put_references, put_wrenches
from osc_ros.control.tick_arrays import given_in, integers_of, numbers_of
from osc_ros.dynamics import priority
from osc_ros.dynamics.chain import bodies
from osc_ros.dynamics.chain.layout import A0, FORCE, parts_of, POSE, TWIST
from osc_ros.dynamics.chain.passes import (
    acceleration_response,
    inverse_mass_matrix,
    inward,
    jacobian,
    outward,
)
from osc_ros.dynamics.compiled import inlined, kernel, view
from osc_ros.dynamics.method import DONE
from osc_ros.dynamics.trees import tree
from osc_ros.dynamics.trees.bodies import put_motion_torques
from osc_ros.dynamics.trees.layout import constants_in
from osc_ros.dynamics.trees.layout import memory_in as memory_of_tree
from osc_ros.dynamics.vectors import assign

REFUSED = TAKEN - 1  # what a tick returns if the state or the motion of the tips is not finite

_limiter_views = STATE.only('table', 'accelerations', 'is_at_work', 'offset')
_room_views, _own_views = ROOM.only('M_inv', 'unit', 'tau'), OWN.views


@inlined
def _put_difference(own, tau, more):
    """Blend tau (n,) with the torques of another setup; write to `more` (n,) what this adds."""
    for i in range(len(tau)):
        more[i] = own.weight[0] * (own.other[i] - tau[i]) if own.weight[0] > 0.0 else 0.0
        tau[i] += more[i]


@kernel
def begin(integers, numbers, Lambda_inv, friction, posture, time, q, qd):
    """
    Advance what does not depend on the dynamics; write the acceleration of the posture.

    The arrays are those of `Given`, time and state those of `chain_torque`; Λ⁻¹ (6 m, 6 m) is that
    of the last tick.

    """
    parts, n = block_in(integers, numbers), len(q)
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    put_references(integers, parts.task_plans, parts.task_states, parts.tasks,
                   priority.level_rows(integers, parts.solver), Lambda_inv,
                   memory_in(integers, parts.reference).rates, time, own.period[0])
    advance_friction(friction, time)
    if guides(parts.drive):
        own.posture[0] = 0.0
        own.posture[1] = damping_rate(parts.drive, parts.guided, qd,
                                      view(parts.J, 6 * n * integers[3], (6, n)))
    posture_acceleration(q, qd, view(posture, 0, (n,)), view(posture, n, (n,)), limits.table,
                         own.posture[0], own.posture[1], own.posture[2],
                         limits.accelerations[POSTURE])


@kernel
def put_links(integers, numbers, poses, twists, Lambda_inv, a0, time):
    """
    Write the forces of the tasks on their links, after `outward` and `jacobian`.

    Parameters
    ----------
    integers, numbers, time
        Arrays of `Given`; stamp of the state [s].
    poses, twists, Lambda_inv, a0 : (m, 4, 4), (6 m,), (6 m, 6 m), (6 m,)
        Of the m links.

    Returns
    -------
    int
        Number of solves.

    """
    parts = block_in(integers, numbers)
    n, k = integers[2], integers[3]
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    if own.has_force[0] > 0.0:
        put_wrenches(parts.task_plans, parts.task_states, parts.tasks,
                     priority.level_rows(integers, parts.solver), poses, time,
                     limits.is_at_work[0] > 0.0)
    count = put_task_forces(integers, parts.solver, parts.tasks, poses, twists, parts.J,
                            Lambda_inv, a0, own.damping[0], own.damping[1], own.damping[2])
    if guides(parts.drive):
        guide(parts.drive, parts.guided, k, poses[k], twists, Lambda_inv, a0, parts.tasks[0],
              priority.link_forces(integers, parts.solver))
    if own.integrates[0] > 0.0:
        put_feedback_torque(parts.tasks[0], k, Lambda_inv, parts.J, own.room, own.feedback)
    return count


@kernel
def begin_reference(integers, numbers, posture, count, time, q):
    """Write the forces that bring the tasks up to their speeds; arrays as in `Given`."""
    parts, n = block_in(integers, numbers), len(q)
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    at = memory_in(integers, parts.reference)
    put_forces(integers, parts.solver, count, q, time - at.clock[0], view(posture, 0, (n,)),
               view(posture, n, (n,)), own.posture[0], own.posture[1], own.posture[2],
               limits.table, parts.J, at.buffer, at.motion, at.forces)


@kernel
def end_reference(integers, numbers, Lambda_inv, time):
    """Advance the reference motion by the response to these forces."""
    parts = block_in(integers, numbers)
    at, limits = memory_in(integers, parts.reference), _limiter_views(parts.limiter, integers[2])
    at.rate[0] = put_motion(integers, time - at.clock[0], at.change, limits.table, Lambda_inv,
                            at.rates, at.buffer, at.motion)
    note_tick(at.clock, time)


@kernel
def finish(integers, numbers, model, model_numbers, model_room, friction, q, qd, tau):
    """Add the compensation of friction to torques within the limits, subtract the driver's."""
    parts, n = block_in(integers, numbers), len(q)
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    at, moved = in_force_views(friction, n), memory_in(integers, parts.reference)
    own.asks[0] = 1.0 if look(parts.guides, parts.tasks) else 0.0
    assign(own.within, tau)
    if not is_compensated(at):
        own.friction[:] = 0.0
    elif guides(parts.drive):
        put_friction(parts.drive, qd, at.coefficients, own.friction)
    else:
        put_compensation(q, qd, moved.motion, tau, gain_of(moved.rate[0], moved.clock[1]),
                         at.coefficients, at.velocity[0], own.least_inertia, limits.table,
                         own.friction)
    put_driver(model, model_numbers, model_room, q, qd, own.driver)
    for i in range(n):
        limits.offset[i] = own.friction[i] - own.driver[i]
        tau[i] += limits.offset[i]


@kernel
def chain_torque(table, time, q, qd, tau):
    """
    Write the torques of a setup: within all limits except rates, with friction, less the driver's.

    Before the call, write the targets and the turning axes of the tasks for this state. Every
    array argument of a compiled call takes 0.1 µs, so the kernel finds its arrays by a table of
    their addresses.

    Parameters
    ----------
    table : (12 or more, 2) int
        Addresses and sizes of arrays: `Sweep.arrays`, two empty ones, then those of `Given`. The
        record OWN of the setup has the torques of another one for a blend.
    time : float
        Stamp of the state [s].
    q, qd : (n,)
    tau : (n,), written [N·m]

    Returns
    -------
    int
        Number of solves, which is positive, or REFUSED.

    """
    given, chain = given_in(table), numbers_of(table, 0)
    integers, numbers, posture = given.integers, given.numbers, given.posture
    links, ends, work, factor, tip = parts_of(chain)
    Lambda_inv = view(tip, 0, (6, 6))
    begin(integers, numbers, Lambda_inv, given.friction, posture, time, q, qd)
    parts, n = block_in(integers, numbers), len(q)
    limits, room = _limiter_views(parts.limiter, n), _room_views(parts.room, n)
    accelerations, qdd, own = limits.accelerations, limits.accelerations[POSTURE], _own_views(
        parts.own, n)
    if outward(chain, q, qd, None, qdd) != DONE:
        return REFUSED
    jacobian(chain, parts.J)
    count = put_links(integers, numbers, view(tip, POSE, (1, 4, 4)), tip[TWIST:FORCE], Lambda_inv,
                      tip[A0:POSE], time)
    F = priority.link_forces(integers, parts.solver)
    inward(chain, None, qdd, F, tau)
    if is_compensated(in_force_views(given.friction, n)):
        at = memory_in(integers, parts.reference)
        begin_reference(integers, numbers, posture, count, time, q)
        acceleration_response(chain, at.rest, at.forces, at.change)
        end_reference(integers, numbers, Lambda_inv, time)
        bodies.put_motion_torques(links, ends, qd, at.motion[1], work, factor, at.motion[2])
    _put_difference(own, tau, room.tau)
    acceleration_response(chain, room.tau, F, accelerations[TOTAL])
    loads = near_bounds(parts.limits, parts.limiter, parts.room, ends[:3], time, q, qd, tau)
    if loads >= 0 or own.blends[0] > 0.0:
        inverse_mass_matrix(chain, room.unit, room.M_inv)
    if loads >= 0:
        limit(parts.limiter, parts.room, parts.buffer, integers, parts.solver, count, loads,
              own.damping[0], time, qd, tau)
    finish(integers, numbers, given.model, given.model_numbers, given.model_room, given.friction,
           q, qd, tau)
    return count


@kernel
def tree_torque(table, time, q, qd, tau):
    """Write the torques of a setup for a tree; as `chain_torque`, with the 3 `Tree.arrays`."""
    given, constants = given_in(table), integers_of(table, 0)
    parameters, memory = numbers_of(table, 1), numbers_of(table, 2)
    integers, numbers, posture = given.integers, given.numbers, given.posture
    store, found = memory_of_tree(constants, memory)
    robot = constants_in(constants, parameters)
    begin(integers, numbers, found.Lambda_inv, given.friction, posture, time, q, qd)
    parts, n = block_in(integers, numbers), len(q)
    limits, room = _limiter_views(parts.limiter, n), _room_views(parts.room, n)
    accelerations, qdd, own = limits.accelerations, limits.accelerations[POSTURE], _own_views(
        parts.own, n)
    none = qdd[:0]
    if tree.outward(constants, parameters, memory, q, qd, none, qdd) != DONE:
        return REFUSED
    tree.motions(constants, parameters, memory, parts.J)
    count = put_links(integers, numbers, view(found.poses, 0, (len(found.poses), 4, 4)),
                      found.twists, found.Lambda_inv, found.a0, time)
    F = priority.link_forces(integers, parts.solver)
    tree.torques(constants, parameters, memory, none, qdd, F, tau)
    if is_compensated(in_force_views(given.friction, n)):
        at = memory_in(integers, parts.reference)
        begin_reference(integers, numbers, posture, count, time, q)
        tree.acceleration_response(constants, parameters, memory, at.rest, at.forces, at.change)
        end_reference(integers, numbers, found.Lambda_inv, time)
        put_motion_torques(robot.tree, robot.bodies, robot.gravity, robot.rotors, at.motion[1],
                           store.work, at.motion[2])
    _put_difference(own, tau, room.tau)
    tree.acceleration_response(constants, parameters, memory, room.tau, F, accelerations[TOTAL])
    loads = near_bounds(parts.limits, parts.limiter, parts.room, robot.gravity, time, q, qd, tau)
    if loads >= 0 or own.blends[0] > 0.0:
        tree.inverse_mass_matrix(constants, parameters, memory, room.M_inv)
    if loads >= 0:
        limit(parts.limiter, parts.room, parts.buffer, integers, parts.solver, count, loads,
              own.damping[0], time, qd, tau)
    finish(integers, numbers, given.model, given.model_numbers, given.model_room, given.friction,
           q, qd, tau)
    return count
