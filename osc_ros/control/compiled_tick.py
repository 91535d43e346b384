# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torque of a setup from the joint state in one compiled call, with or without supervision."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bandwidth import PERIOD_CHANGE, RECKONED
from osc_ros.control.block import block_in, block_of, OWN, views_of
from osc_ros.control.bounds import POSTURE, TOTAL
from osc_ros.control.causes import replaces_law
from osc_ros.control.command_model import CommandModel, put_driver
from osc_ros.control.external import observe
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
from osc_ros.control.law_memory import delay_views, leave, note_period
from osc_ros.control.law_memory import STATE as LAW
from osc_ros.control.limiting import limit, near_bounds, ROOM
from osc_ros.control.limiting import STATE as LIMITER
from osc_ros.control.motion import look, put_targets
from osc_ros.control.posture import posture_acceleration
from osc_ros.control.reference import memory_in, note_tick, put_forces, put_motion
from osc_ros.control.safety import (
    accept,
    answer,
    before_views,
    cause_views,
    CHANGED,
    gate_views,
    meet,
    REJECTED,
    state_views,
    TAKEN,
    update,
)
from osc_ros.control.sample import CLOCK_STEPS
from osc_ros.control.tables import PLAN, RESULT, SAMPLE, STATE, TORQUE
from osc_ros.control.task_numbers import ERROR, SEEN
from osc_ros.control.task_reference import put_references, put_wrenches
from osc_ros.control.touching import NOT_TOUCHED, touched
from osc_ros.dynamics import level_row, priority
from osc_ros.dynamics.addresses import entry_of, integers_at, numbers_at, Pointers, tick_at
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
from osc_ros.dynamics.compiled import inlined, kernel, plain, view, viewing
from osc_ros.dynamics.method import DONE, Method
from osc_ros.dynamics.trees import tree
from osc_ros.dynamics.trees.bodies import put_motion_torques
from osc_ros.dynamics.trees.layout import constants_in, EXTENDED, pendulum
from osc_ros.dynamics.trees.layout import memory_in as memory_of_tree
from osc_ros.dynamics.trees.tree import Tree
from osc_ros.dynamics.vectors import assign

Array = NDArray[np.float64]
Kernel: TypeAlias = Callable[..., int]

# The kernels return the number of solves, which is positive, or a negative code: REJECTED, CHANGED
# or TAKEN of `osc_ros.control.safety`; REFUSED if the state, the motion of the tips or the torques
# are not finite; REFUSED - request, with the request that `put_targets` has returned.
REFUSED = TAKEN - 1
NO_NUMBERS = np.zeros(0)
UNOBSERVED = np.zeros(0, dtype=np.int64), *(NO_NUMBERS,) * 4

_limiter_views = LIMITER.only('table', 'accelerations', 'is_at_work', 'reckons', 'offset')
_now_views, sense_views = SAMPLE.only('now'), SAMPLE.only('now', 'effort')
_torque_views = TORQUE.only('asks', 'pose', 'error', 'F')
_room_views, _own_views = ROOM.only('M_inv', 'unit', 'tau'), OWN.views


class Given(NamedTuple):
    """
    Arrays of a tick in the order of its table, after the three of the dynamics.

    Attributes
    ----------
    integers, numbers
        See `osc_ros.control.block`.
    model, model_numbers, model_room
        See `osc_ros.control.command_model.CommandModel.arrays`.
    friction : array
        Record of `osc_ros.control.friction.IN_FORCE`.
    posture : (2 n,)
        `osc_ros.control.posture.PostureSetPoint.numbers`.

    """

    integers: Array
    numbers: Array
    model: Array
    model_numbers: Array
    model_room: Array
    friction: Array
    posture: Array


class Guarded(NamedTuple):
    """
    Further arrays of a tick under supervision, in the order of its table.

    Attributes
    ----------
    robot, robot_numbers, observer, forces, estimate : arrays
        See `osc_ros.control.external.observe`: integers and numbers of the robot, then records of
        PLAN, STATE and RESULT. Empty: no observer.
    law : array
        Record of `osc_ros.control.law_memory.STATE`.
    plan, state, sample, result
        Records of a supervisor, see `osc_ros.control.tables`.
    contact : array
        Record of `osc_ros.control.touching.CONTACT`.

    """

    robot: Array
    robot_numbers: Array
    observer: Array
    forces: Array
    estimate: Array
    law: Array
    plan: Array
    state: Array
    sample: Array
    result: Array
    contact: Array


@viewing
def _numbers(table, k):
    return numbers_at(table[k, 0], table[k, 1])


@viewing
def _integers(table, k):
    return integers_at(table[k, 0], table[k, 1])


@viewing
def given_in(table):
    """The `Given` of a table, see `chain_torque`."""
    return Given(_integers(table, 3), _numbers(table, 4), _integers(table, 5), _numbers(table, 6),
                 _numbers(table, 7), _numbers(table, 8), _numbers(table, 9))


@viewing
def guarded_in(table):
    """The `Guarded` of a table, see `step`."""
    return Guarded(_integers(table, 10), _numbers(table, 11), _numbers(table, 12),
                   _numbers(table, 13), _numbers(table, 14), _numbers(table, 15),
                   _numbers(table, 16), _numbers(table, 17), _numbers(table, 18),
                   _numbers(table, 19), _numbers(table, 20))


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
    of the last tick. Returns DONE, or what `put_targets` returns.

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
    posture_acceleration(q, qd, view(posture, 0, (n,)), view(posture, n, (n,)), limits.table,
                         own.posture[0], own.posture[1], own.posture[2],
                         limits.accelerations[POSTURE])
    return DONE


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


@inlined
def _admit(parts, guarded):
    """Check a sample; return DONE if the law answers it now, or a code of `safety`."""
    n = int(guarded.plan[0])
    gate, own = gate_views(guarded.state, n), _own_views(parts.own, n)
    before, at = gate.time[0], delay_views(guarded.law, n)
    if not accept(guarded.plan, guarded.state, guarded.sample, guarded.result):
        return REJECTED
    period = note_period(guarded.law, n, gate.time[0])
    if update(guarded.plan, guarded.state, _now_views(guarded.sample, n).now[0]):
        return CHANGED
    if (replaces_law(cause_views(guarded.state, n))
            or gate.time[0] < before + CLOCK_STEPS[0]
            or max(period, own.period[0]) > own.longest_period[0]
            and abs(period - own.period[0]) > PERIOD_CHANGE * period):
        return TAKEN
    _limiter_views(parts.limiter, n).reckons[0] = 1.0 if at.delay[0] <= RECKONED else 0.0
    return DONE


@kernel
def chain_torque(table, time, q, qd, tau):
    """
    Write the torques of a setup: within all limits except rates, with friction, less the driver's.

    Every array argument of a compiled call takes 0.1 µs, so the kernel finds its arrays by a table
    of their addresses.

    Parameters
    ----------
    table : (10 or more, 2) int
        Addresses and sizes of arrays: `Sweep.arrays`, two empty ones, then those of `Given`. The
        record OWN of the setup has the torques of another one for a blend.
    time : float
        Stamp of the state [s].
    q, qd : (n,)
    tau : (n,), written [N·m]

    Returns
    -------
    int
        Number of solves, or another code: see REFUSED.

    """
    given, chain = given_in(table), _numbers(table, 0)
    integers, numbers, posture = given.integers, given.numbers, given.posture
    links, ends, work, factor, tip = parts_of(chain)
    Lambda_inv = view(tip, 0, (6, 6))
    request = begin(integers, numbers, Lambda_inv, given.friction, posture, time, q, qd)
    if request != DONE:
        return REFUSED - request
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
    if loads >= 0:
        inverse_mass_matrix(chain, room.unit, room.M_inv)
        limit(parts.limiter, parts.room, parts.buffer, integers, parts.solver, count, loads,
              own.damping[0], time, qd, tau)
    finish(integers, numbers, given.model, given.model_numbers, given.model_room, given.friction,
           q, qd, tau)
    return count


@kernel
def tree_torque(table, time, q, qd, tau):
    """Write the torques of a setup for a tree; as `chain_torque`, with the 3 `Tree.arrays`."""
    given, constants = given_in(table), _integers(table, 0)
    parameters, memory = _numbers(table, 1), _numbers(table, 2)
    integers, numbers, posture = given.integers, given.numbers, given.posture
    store, found = memory_of_tree(constants, memory)
    robot = constants_in(constants, parameters)
    request = begin(integers, numbers, found.Lambda_inv, given.friction, posture, time, q, qd)
    if request != DONE:
        return REFUSED - request
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
    if loads >= 0:
        tree.inverse_mass_matrix(constants, parameters, memory, room.M_inv)
        limit(parts.limiter, parts.room, parts.buffer, integers, parts.solver, count, loads,
              own.damping[0], time, qd, tau)
    finish(integers, numbers, given.model, given.model_numbers, given.model_room, given.friction,
           q, qd, tau)
    return count


@kernel
def step(table, tau):
    """
    Answer the state of a sample under supervision: check it, compute, limit and keep the torques.

    The torques to be sent, within all limits, are written to the result, with what a report needs.

    Parameters
    ----------
    table : (22, 2) int
        The table of `chain_torque` or `tree_torque`, then the arrays of `Guarded`, and in the last
        row the address of that function.
    tau : (n,), written [N·m]
        The torques of the law.

    Returns
    -------
    int
        Number of solves, or another code: see REFUSED. The supervisor has taken the state over,
        unless the code is REJECTED.

    """
    given, guarded, n = given_in(table), guarded_in(table), len(tau)
    parts, now = block_in(given.integers, given.numbers), state_views(guarded.state, n)
    code = _admit(parts, guarded)
    if code != DONE:
        return code
    count = tick_at(table[len(table) - 1, 0], table, now.time[0], now.q, now.qd, tau)
    if count < 0:
        return count
    if not leave(guarded.law, parts.limiter, now.time[0], now.q, now.qd, tau):
        return REFUSED
    answer(given.model, given.model_numbers, given.model_room, guarded.plan, guarded.state,
           guarded.result, _now_views(guarded.sample, n).now[0], tau)
    found = _torque_views(guarded.result, n)
    found.asks[0] = _own_views(parts.own, n).asks[0]
    assign(view(found.pose, 0, (16,)), view(parts.tasks, SEEN, (16,)))
    assign(found.error, view(parts.tasks, ERROR, (6,)))
    assign(found.F, priority.first_force(given.integers, parts.solver))
    return count


@kernel
def sense(table):
    """
    Estimate the external torques at the state that was answered last; look for a contact.

    Call it after the torques have been sent, with the table of `step`. Returns a code of
    `osc_ros.control.touching.touched`. For the supervisor, a contact is present from now on.

    """
    given, guarded = given_in(table), guarded_in(table)
    n = int(guarded.plan[0])
    if len(guarded.forces) == 0:
        return NOT_TOUCHED
    gate, output = state_views(guarded.state, n), before_views(guarded.state, n)
    now = sense_views(guarded.sample, n)
    observe(guarded.robot, guarded.robot_numbers, guarded.observer, guarded.forces,
            guarded.estimate, gate.time[0], gate.q, gate.qd, output.before, now.effort,
            _own_views(block_in(given.integers, given.numbers).own, n).driver)
    found = touched(guarded.contact, guarded.forces, guarded.estimate, n)
    if found != NOT_TOUCHED:
        meet(guarded.plan, guarded.state, now.now[0])
    return found


def _rehearse(torque: Kernel, dynamics: Sweep | Tree) -> tuple[Kernel, int]:
    """Compile a kernel, or load it from the cache; return it and its address."""
    x, (integers, numbers) = np.ones(1), block_of([0], 1, 1)
    parts = views_of(integers, numbers)
    parts.tasks[:] = -1.0  # TURNS_WITH = -1: the frame turns with no link
    plain(priority.level_rows)(integers, parts.solver)[:, level_row.FRAME:] = 1.0
    friction, model, at_rest = FrictionInForce(1), CommandModel(dynamics.robot), Guide(np.eye(4))
    parts.guides[:] = at_rest.addresses
    arrays = (*three(dynamics.arrays), integers, numbers, *model.arrays, friction.record,
              np.zeros((2, 1)))
    torque(Pointers().to(*arrays), 0.0, x, x, x.copy())
    records = [table.zeros(1) for table in (LAW, PLAN, STATE, SAMPLE, RESULT)]
    records[1][0] = 1.0  # joint of the plan
    table = Pointers(entry_of(torque)).to(*arrays, *UNOBSERVED, *records, NO_NUMBERS)
    step(table, x.copy())
    sense(table)
    return torque, entry_of(torque)


def three(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The arrays of a method of the dynamics, and as many empty ones as make them three."""
    return *arrays, *(NO_NUMBERS,) * (3 - len(arrays))


@cache
def _chain_kernel() -> tuple[Kernel, int]:
    return _rehearse(chain_torque, Sweep(pendulum()))


@cache
def _tree_kernel() -> tuple[Kernel, int]:
    return _rehearse(tree_torque, Tree(pendulum(), EXTENDED))


def compiled_tick(dynamics: Method) -> tuple[Kernel | None, int, tuple[Array, ...]]:
    """
    The compiled torques of a method, their address, and three arrays for their table.

    None and nothing if the method has none.

    """
    if isinstance(dynamics, Sweep) and type(dynamics).outward is Sweep.outward:  # not a team
        return *_chain_kernel(), three(dynamics.arrays)
    if type(dynamics) is Tree:
        return *_tree_kernel(), three(dynamics.arrays)
    return None, 0, ()
