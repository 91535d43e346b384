# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torque of a setup from the joint state in one compiled call, with or without supervision."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bandwidth import PERIOD_CHANGE, RECKONED
from osc_ros.control.block import block_in, block_of, OWN, views_of
from osc_ros.control.bounds import POSTURE, TOTAL
from osc_ros.control.causes import replaces_law
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
from osc_ros.control.law_memory import delay_views, LawMemory, leave, note_period
from osc_ros.control.limiting import limit, near_bounds, ROOM, STATE
from osc_ros.control.motion import put_targets
from osc_ros.control.posture import posture_acceleration
from osc_ros.control.reference import memory_in, note_tick, put_forces, put_motion
from osc_ros.control.safety import (
    accept,
    answer,
    cause_views,
    CHANGED,
    gate_views,
    REJECTED,
    TAKEN,
    update,
)
from osc_ros.control.sample import CLOCK_STEPS
from osc_ros.control.tables import SAMPLE
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

UNBLENDED = 0.0, np.zeros(0)
# The kernels return the number of solves, which is positive, or a negative code: REJECTED, CHANGED
# or TAKEN of `osc_ros.control.safety`; REFUSED if the state, the motion of the tips or the torques
# are not finite; REFUSED - request, with the request that `put_targets` has returned.
REFUSED = TAKEN - 1
UNSUPERVISED = (np.zeros(0),) * 4

_limiter_views = STATE.only('table', 'accelerations', 'is_at_work', 'reckons')
_now_views = SAMPLE.only('now')
_room_views, _own_views = ROOM.only('M_inv', 'unit', 'tau'), OWN.views


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


@inlined
def _conclude(integers, numbers, model, model_numbers, model_room, friction, law, plan, state,
              sample, result, time, q, qd, tau):
    """Do what follows the limits; return False if supervised torques are not finite."""
    finish(integers, numbers, model, model_numbers, model_room, friction, q, qd, tau)
    if len(state) == 0:  # not supervised
        return True
    if not leave(law, block_in(integers, numbers).limiter, time, q, qd, tau):
        return False
    answer(model, model_numbers, model_room, plan, state, result,
           _now_views(sample, len(q)).now[0], tau)
    return True


@kernel
def admit(integers, numbers, law, plan, state, sample, result):
    """Check a sample; return DONE if the law answers it now, or a code of `safety`."""
    n = int(plan[0])
    gate, own = gate_views(state, n), _own_views(block_in(integers, numbers).own, n)
    before, at = gate.time[0], delay_views(law, n)
    if not accept(plan, state, sample, result):
        return REJECTED
    period = note_period(law, n, gate.time[0])
    if update(plan, state, _now_views(sample, n).now[0]):
        return CHANGED
    if (replaces_law(cause_views(state, n))
            or gate.time[0] < before + CLOCK_STEPS[0]
            or max(period, own.period[0]) > own.longest_period[0]
            and abs(period - own.period[0]) > PERIOD_CHANGE * period):
        return TAKEN
    _limiter_views(block_in(integers, numbers).limiter, n).reckons[0] = (
        1.0 if at.delay[0] <= RECKONED else 0.0)
    return DONE


@kernel
def chain_torque(chain, integers, numbers, model, model_numbers, model_room, friction, law,
                 posture, wraps, weight, other, plan, state, sample, result, time, q, qd, tau):
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
    friction, law : array
        Records of `osc_ros.control.friction.IN_FORCE` and `osc_ros.control.law_memory.STATE`.
    posture, wraps : (n,)
        See `osc_ros.control.posture.posture_acceleration`.
    weight, other : float, (n,) [N·m]
        Weight of the torques of another setup, and these torques; weight 0: none.
    plan, state, sample, result
        Records of a supervisor, see `osc_ros.control.tables`: the state is checked first, and the
        torques to be sent, within all limits, are written to `result`. Empty: no supervision.
    time : float
        Stamp of the state [s].
    q, qd : (n,)
    tau : (n,), written [N·m]

    Returns
    -------
    int
        Number of solves, or another code: see REFUSED. The supervisor has taken the state over, in
        a supervised call, unless the code is REJECTED.

    """
    if len(state) > 0:  # supervised
        code = admit(integers, numbers, law, plan, state, sample, result)
        if code != DONE:
            return code
        time = gate_views(state, len(q)).time[0]
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
    loads = near_bounds(parts.limits, parts.limiter, parts.room, ends[:3], time, q, qd, tau)
    if loads >= 0:
        inverse_mass_matrix(chain, own.unit, own.M_inv)
        limit(parts.limiter, parts.room, parts.buffer, integers, parts.solver, count, loads,
              _own_views(parts.own, n).damping[0], time, qd, tau)
    is_fit = _conclude(integers, numbers, model, model_numbers, model_room, friction, law, plan,
                       state, sample, result, time, q, qd, tau)
    return count if is_fit else REFUSED


@kernel
def tree_torque(constants, parameters, memory, integers, numbers, model, model_numbers, model_room,
                friction, law, posture, wraps, weight, other, plan, state, sample, result, time, q,
                qd, tau):
    """
    Write the torques of a setup for a robot that is a tree; see `chain_torque`.

    Parameters
    ----------
    constants, parameters, memory : `Tree.arrays`

    """
    if len(state) > 0:  # supervised
        code = admit(integers, numbers, law, plan, state, sample, result)
        if code != DONE:
            return code
        time = gate_views(state, len(q)).time[0]
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
    loads = near_bounds(parts.limits, parts.limiter, parts.room, robot.gravity, time, q, qd, tau)
    if loads >= 0:
        tree.inverse_mass_matrix(constants, parameters, memory, own.M_inv)
        limit(parts.limiter, parts.room, parts.buffer, integers, parts.solver, count, loads,
              _own_views(parts.own, n).damping[0], time, qd, tau)
    is_fit = _conclude(integers, numbers, model, model_numbers, model_room, friction, law, plan,
                       state, sample, result, time, q, qd, tau)
    return count if is_fit else REFUSED


def _rehearse(tick: Kernel, dynamics: Sweep | Tree) -> Kernel:
    """Compile a kernel, or load it from the cache; return it."""
    x, (integers, numbers) = np.ones(1), block_of([0], 1, 1)
    parts = views_of(integers, numbers)
    parts.tasks[:] = -1.0  # TURNS_WITH = -1: the frame turns with no link
    plain(priority.level_rows)(integers, parts.solver)[:, level_row.FRAME:] = 1.0
    friction, model, at_rest = FrictionInForce(1), CommandModel(dynamics.robot), Guide(np.eye(4))
    parts.guides[:] = at_rest.addresses
    tick(*dynamics.arrays, integers, numbers, *model.arrays, friction.record,
         LawMemory(1).record, x, np.zeros(1, dtype=np.bool_), *UNBLENDED, *UNSUPERVISED, 0.0, x, x,
         x.copy())
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
