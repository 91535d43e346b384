# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torque of a setup from the joint state in one compiled call, unchecked or checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.block import block_in, block_of, OWN, views_of
from osc_ros.control.bounds import passes, POSTURE, TOTAL
from osc_ros.control.command_model import CommandModel, put_driver
from osc_ros.control.feedback import put_task_forces
from osc_ros.control.free import damping_rate, guide, guides, put_friction
from osc_ros.control.friction import (
    advance_friction,
    FrictionInForce,
    gain_of,
    in_force_views,
    is_compensated,
    put_compensation,
)
from osc_ros.control.guide import Guide
from osc_ros.control.limiting import limit, near_bounds, ROOM, STATE
from osc_ros.control.motion import put_targets
from osc_ros.control.posture import posture_acceleration
from osc_ros.control.reference import memory_in, note_tick, put_forces, put_motion
from osc_ros.control.sample import doubts, REPEATED
from osc_ros.control.task_reference import put_references, put_wrenches
from osc_ros.dynamics import level_row, priority
from osc_ros.dynamics.chain import bodies
from osc_ros.dynamics.chain.layout import A0, FORCE, parts_of, POSE, TWIST
from osc_ros.dynamics.chain.passes import (
    acceleration_response,
    inverse_mass_matrix,
    inward,
    jacobian,
    outward,
)
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.compiled import inlined, kernel, plain, view
from osc_ros.dynamics.method import DONE, Method
from osc_ros.dynamics.trees import tree
from osc_ros.dynamics.trees.bodies import put_motion_torques
from osc_ros.dynamics.trees.layout import constants_in, EXTENDED, pendulum
from osc_ros.dynamics.trees.layout import memory_in as memory_of_tree
from osc_ros.dynamics.trees.tree import Tree
from osc_ros.dynamics.vectors import assign

Array = NDArray[np.float64]
Kernel: TypeAlias = Callable[..., int]

# What a state and its torque are compared with: rows of an array (ROWS, n), and entries of an
# array (TIMES,) [s].
(BEFORE_Q, BEFORE_QD, CHANGED_Q, CHANGED_QD, FASTEST, SLACK, LAST, SENT, EFFORT_LIMIT,
 EFFORT_RATE) = range(10)
ROWS = EFFORT_RATE + 1
BEFORE, CHANGED, PERIOD, LONGEST = range(4)
TIMES = LONGEST + 1
UNCHECKED = np.zeros((0, 0)), np.zeros(0)
UNBLENDED = 0.0, np.zeros(0)
REFUSED = -1  # what the kernels return for a state or torques that they do not accept
LONGEST_STEP = 1.0  # longest time between two states of normal motion [s]

_limiter_views = STATE.only('table', 'accelerations', 'is_at_work')
_room_views, _own_views = ROOM.only('M_inv', 'unit', 'tau'), OWN.views


@inlined
def _follows(known, times, time, q, qd):
    """Whether a state follows the last one in normal motion; parameters as of `chain_torque`."""
    dt = time - times[BEFORE]
    return 0.0 < dt <= LONGEST_STEP and not doubts(
        q, qd, known[BEFORE_Q], known[BEFORE_QD], known[CHANGED_Q], known[CHANGED_QD],
        known[FASTEST], known[SLACK], dt, times[PERIOD], time - times[CHANGED]) & ~REPEATED


@inlined
def _may_be_sent(known, times, time, q, qd, table, accelerations, tau):
    """Whether no limit changes torques of the law, and all are finite."""
    dt = time - times[BEFORE]
    if not passes(accelerations, q, qd, tau, table, 0.5 / dt, known[LAST], dt):
        return False
    dt = min(dt, times[LONGEST])
    for i in range(len(tau)):
        step, limit = known[EFFORT_RATE, i] * dt, known[EFFORT_LIMIT, i]
        if not (-limit <= tau[i] <= limit
                and known[SENT, i] - step <= tau[i] <= known[SENT, i] + step):
            return False
    return True


@inlined
def _put_difference(weight, other, tau, more):
    """Blend tau (n,) with the torques of another setup; write to `more` (n,) what this adds."""
    for i in range(len(tau)):
        more[i] = weight * (other[i] - tau[i]) if weight > 0.0 else 0.0
        tau[i] += more[i]


@kernel
def begin(integers, numbers, Lambda_inv, friction, posture, wraps, time, q, qd):
    """
    Advance what does not depend on the dynamics; write the acceleration of the posture.

    Parameters are those of `chain_torque`; Λ⁻¹ (6 m, 6 m) is that of the last tick. Returns DONE,
    or what `put_targets` returns.

    """
    parts, n = block_in(integers, numbers), len(q)
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    request = put_targets(parts.guides, parts.task_plans, time, parts.tasks)
    if request != DONE:
        return request
    put_references(integers, parts.task_plans, parts.task_states, parts.tasks,
                   priority.level_rows(integers, parts.solver), Lambda_inv,
                   memory_in(integers, parts.reference).rates, time, own.period[0])
    advance_friction(friction, time)
    if guides(parts.drive):
        own.posture[0] = 0.0
        own.posture[1] = damping_rate(parts.drive, parts.guided, qd,
                                      view(parts.J, 6 * n * integers[3], (6, n)))
    posture_acceleration(q, qd, posture, wraps, limits.table, own.posture[0], own.posture[1],
                         own.posture[2], limits.accelerations[POSTURE])
    return DONE


@kernel
def put_links(integers, numbers, poses, twists, Lambda_inv, a0, time):
    """
    Write the forces of the tasks on their links, after `outward` and `jacobian`.

    Parameters
    ----------
    integers, numbers, time
        See `chain_torque`.
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
    return count


@kernel
def begin_reference(integers, numbers, posture, wraps, count, time, q):
    """Write the forces that bring the tasks up to their speeds; parameters of `chain_torque`."""
    parts, n = block_in(integers, numbers), len(q)
    own, limits = _own_views(parts.own, n), _limiter_views(parts.limiter, n)
    at = memory_in(integers, parts.reference)
    put_forces(integers, parts.solver, count, q, time - at.clock[0], posture, wraps,
               own.posture[0], own.posture[1], own.posture[2], limits.table, parts.J, at.buffer,
               at.motion, at.forces)


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
        tau[i] = tau[i] + own.friction[i] - own.driver[i]


@kernel
def chain_torque(chain, integers, numbers, model, model_numbers, model_room, friction, posture,
                 wraps, weight, other, known, times, time, q, qd, tau):
    """
    Write the torques of a setup: within all limits except rates, with friction, less the driver's.

    Every array argument of a compiled call takes 0.05 µs, a matrix 0.1 µs, so this one call
    replaces up to twenty calls; the results are the same.

    Parameters
    ----------
    chain : `Sweep.arrays`
    integers, numbers
        See `osc_ros.control.block`.
    model, model_numbers, model_room
        See `osc_ros.control.command_model.CommandModel.arrays`.
    friction : array
        Record of `osc_ros.control.friction.IN_FORCE`.
    posture, wraps : (n,)
        See `osc_ros.control.posture.posture_acceleration`.
    weight, other : float, (n,) [N·m]
        Weight of the torques of another setup, and these torques; weight 0: none.
    known : (ROWS, n)
        Checks: the last state, and the last one with new positions; velocity limits and speeds
        that are too fast; the law's last torque, the one sent last, and limits of the next one
        and of its rate [N·m, N·m/s]. Empty: nothing is checked.
    times : (TIMES,) [s]
        Stamps of these two states, expected period, longest time step of the limit of the rate.
    time : float
        Stamp of the state [s].
    q, qd : (n,)
    tau : (n,), written [N·m]

    Returns
    -------
    int
        Number of solves; REFUSED if the motion of the tip is not finite, or if the state or its
        torques need a closer look: see `known`; REFUSED - r if Python must do something before
        another call: r is what `osc_ros.control.motion.put_targets` returned.

    """
    if len(known) > 0 and not _follows(known, times, time, q, qd):
        return REFUSED
    links, ends, work, factor, tip = parts_of(chain)
    Lambda_inv = view(tip, 0, (6, 6))
    request = begin(integers, numbers, Lambda_inv, friction, posture, wraps, time, q, qd)
    if request != DONE:
        return REFUSED - request
    parts, n = block_in(integers, numbers), len(q)
    limits, own = _limiter_views(parts.limiter, n), _room_views(parts.room, n)
    accelerations, qdd = limits.accelerations, limits.accelerations[POSTURE]
    if outward(chain, q, qd, None, qdd) != DONE:
        return REFUSED
    jacobian(chain, parts.J)
    count = put_links(integers, numbers, view(tip, POSE, (1, 4, 4)), tip[TWIST:FORCE], Lambda_inv,
                      tip[A0:POSE], time)
    F = priority.link_forces(integers, parts.solver)
    inward(chain, None, qdd, F, tau)
    if is_compensated(in_force_views(friction, n)):
        at = memory_in(integers, parts.reference)
        begin_reference(integers, numbers, posture, wraps, count, time, q)
        acceleration_response(chain, at.rest, at.forces, at.change)
        end_reference(integers, numbers, Lambda_inv, time)
        bodies.put_motion_torques(links, ends, qd, at.motion[1], work, factor, at.motion[2])
    _put_difference(weight, other, tau, own.tau)
    acceleration_response(chain, own.tau, F, accelerations[TOTAL])
    if len(known) > 0:
        is_fit = _may_be_sent(known, times, time, q, qd, limits.table, accelerations, tau)
        return count if is_fit else REFUSED
    loads = near_bounds(parts.limits, parts.limiter, parts.room, ends[:3], time, q, qd, tau)
    if loads >= 0:
        inverse_mass_matrix(chain, own.unit, own.M_inv)
        limit(parts.limiter, parts.room, parts.buffer, integers, parts.solver, count, loads,
              _own_views(parts.own, n).damping[0], time, qd, tau)
    finish(integers, numbers, model, model_numbers, model_room, friction, q, qd, tau)
    return count


@kernel
def tree_torque(constants, parameters, memory, integers, numbers, model, model_numbers, model_room,
                friction, posture, wraps, weight, other, known, times, time, q, qd, tau):
    """
    Write the torques of a setup for a robot that is a tree; see `chain_torque`.

    Parameters
    ----------
    constants, parameters, memory : `Tree.arrays`

    """
    if len(known) > 0 and not _follows(known, times, time, q, qd):
        return REFUSED
    store, found = memory_of_tree(constants, memory)
    robot = constants_in(constants, parameters)
    request = begin(integers, numbers, found.Lambda_inv, friction, posture, wraps, time, q, qd)
    if request != DONE:
        return REFUSED - request
    parts, n = block_in(integers, numbers), len(q)
    limits, own = _limiter_views(parts.limiter, n), _room_views(parts.room, n)
    accelerations, qdd = limits.accelerations, limits.accelerations[POSTURE]
    none = qdd[:0]
    if tree.outward(constants, parameters, memory, q, qd, none, qdd) != DONE:
        return REFUSED
    tree.motions(constants, parameters, memory, parts.J)
    count = put_links(integers, numbers, view(found.poses, 0, (len(found.poses), 4, 4)),
                      found.twists, found.Lambda_inv, found.a0, time)
    F = priority.link_forces(integers, parts.solver)
    tree.torques(constants, parameters, memory, none, qdd, F, tau)
    if is_compensated(in_force_views(friction, n)):
        at = memory_in(integers, parts.reference)
        begin_reference(integers, numbers, posture, wraps, count, time, q)
        tree.acceleration_response(constants, parameters, memory, at.rest, at.forces, at.change)
        end_reference(integers, numbers, found.Lambda_inv, time)
        put_motion_torques(robot.tree, robot.bodies, robot.gravity, robot.rotors, at.motion[1],
                           store.work, at.motion[2])
    _put_difference(weight, other, tau, own.tau)
    tree.acceleration_response(constants, parameters, memory, own.tau, F,
                               accelerations[TOTAL])
    if len(known) > 0:
        is_fit = _may_be_sent(known, times, time, q, qd, limits.table, accelerations, tau)
        return count if is_fit else REFUSED
    loads = near_bounds(parts.limits, parts.limiter, parts.room, robot.gravity, time, q, qd, tau)
    if loads >= 0:
        tree.inverse_mass_matrix(constants, parameters, memory, own.M_inv)
        limit(parts.limiter, parts.room, parts.buffer, integers, parts.solver, count, loads,
              _own_views(parts.own, n).damping[0], time, qd, tau)
    finish(integers, numbers, model, model_numbers, model_room, friction, q, qd, tau)
    return count


def _rehearse(tick: Kernel, dynamics: Sweep | Tree) -> Kernel:
    """Compile a kernel, or load it from the cache; return it."""
    x, (integers, numbers) = np.ones(1), block_of([0], 1, 1)
    parts = views_of(integers, numbers)
    parts.tasks[:] = -1.0  # TURNS_WITH = -1: the frame turns with no link
    plain(priority.level_rows)(integers, parts.solver)[:, level_row.FRAME:] = 1.0
    friction, model, at_rest = FrictionInForce(1), CommandModel(dynamics.robot), Guide(np.eye(4))
    parts.guides[:] = at_rest.addresses
    tick(*dynamics.arrays, integers, numbers, *model.arrays, friction.record, x,
         np.zeros(1, dtype=np.bool_), *UNBLENDED, *UNCHECKED, 0.0, x, x, x.copy())
    return tick


@cache
def _chain_kernel() -> Kernel:
    return _rehearse(chain_torque, Sweep(pendulum()))


@cache
def _tree_kernel() -> Kernel:
    return _rehearse(tree_torque, Tree(pendulum(), EXTENDED))


def compiled_tick(dynamics: Method) -> tuple[Kernel | None, tuple[Array, ...]]:
    """The compiled tick of a method, None if it has none, and its first arguments."""
    if isinstance(dynamics, Sweep) and type(dynamics).outward is Sweep.outward:  # not a team
        return _chain_kernel(), dynamics.arrays
    if type(dynamics) is Tree:
        return _tree_kernel(), dynamics.arrays
    return None, ()
