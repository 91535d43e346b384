# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torque of posture and tasks from the joint state in one compiled call, unchecked or checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bounds import passes, POSTURE, TOTAL
from osc_ros.control.feedback import put_task_forces
from osc_ros.control.limiting import limit, near_bounds, PLAN, ROOM, STATE
from osc_ros.control.nearest import room_for
from osc_ros.control.posture import posture_acceleration
from osc_ros.control.reference import memory_in, NO_REFERENCE, put_forces, put_motion
from osc_ros.control.sample import doubts, REPEATED
from osc_ros.control.task_numbers import TASK_WIDTH
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
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.compiled import inlined, kernel, view
from osc_ros.dynamics.method import DONE, Method
from osc_ros.dynamics.trees import tree
from osc_ros.dynamics.trees.bodies import put_motion_torques
from osc_ros.dynamics.trees.layout import constants_in, EXTENDED, pendulum
from osc_ros.dynamics.trees.layout import memory_in as memory_of_tree
from osc_ros.dynamics.trees.tree import Tree

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
LONGEST_STEP = 1.0  # longest time between two states of normal motion [s]

_limiter_views, _room_views = STATE.only('table', 'accelerations'), ROOM.only(
    'M_inv', 'unit', 'tau')


@kernel
def follows(known, times, time, q, qd):
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
def chain_torque(chain, plan, state, room, buffer, integers, numbers, tasks, J, length, low, high,
                 reference, dt, posture, wraps, frequency, rate, push, weight, other, known,
                 times, time, q, qd, tau):
    """
    Write the torques of posture and tasks within all limits except rates.

    Every array argument of a compiled call takes 0.05 µs, a matrix 0.1 µs, so this one call
    replaces up to fifteen calls; the results are the same.

    Parameters
    ----------
    chain : `Sweep.arrays`
    plan, state, room, buffer
        Records of `osc_ros.control.limiting`, and `osc_ros.control.nearest.room_for`.
    posture, wraps, frequency, rate, push
        See `osc_ros.control.posture.posture_acceleration`.
    integers, numbers, tasks, J, length, low, high
        See `osc_ros.control.feedback.put_task_forces`.
    reference : array
        `osc_ros.control.reference.Reference.numbers`, to be advanced by `dt`; empty if friction
        is not compensated.
    dt : float [s]
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
        Number of solves; -1 if the motion of the tip is not finite, or if the state or its torques
        need a closer look: see `known`.

    """
    if len(known) > 0 and not follows(known, times, time, q, qd):
        return -1
    limits, own = _limiter_views(state, len(q)), _room_views(room, len(q))
    table, accelerations = limits.table, limits.accelerations
    qdd = accelerations[POSTURE]
    posture_acceleration(q, qd, posture, wraps, table, frequency, rate, push, qdd)
    if outward(chain, q, qd, None, qdd) != DONE:
        return -1
    jacobian(chain, J)
    links, ends, work, factor, tip = parts_of(chain)
    Lambda_inv = view(tip, 0, (6, 6))
    count = put_task_forces(
        integers, numbers, tasks, view(tip, POSE, (1, 4, 4)), tip[TWIST:FORCE], J, Lambda_inv,
        tip[A0:POSE], length, low, high)
    F = priority.link_forces(integers, numbers)
    inward(chain, None, qdd, F, tau)
    if len(reference) > 0:
        at = memory_in(integers, reference)
        put_forces(integers, numbers, count, q, dt, posture, wraps, frequency, rate, push, table,
                   J, at.buffer, at.motion, at.forces)
        acceleration_response(chain, at.rest, at.forces, at.change)
        at.rate[0] = put_motion(integers, dt, at.change, table, Lambda_inv, at.rates, at.buffer,
                                at.motion)
        bodies.put_motion_torques(links, ends, qd, at.motion[1], work, factor, at.motion[2])
    _put_difference(weight, other, tau, own.tau)
    acceleration_response(chain, own.tau, F, accelerations[TOTAL])
    if len(known) > 0:
        is_fit = _may_be_sent(known, times, time, q, qd, table, accelerations, tau)
        return count if is_fit else -1
    loads = near_bounds(plan, state, room, ends[:3], time, q, qd, tau)
    if loads >= 0:
        inverse_mass_matrix(chain, own.unit, own.M_inv)
        limit(state, room, buffer, integers, numbers, count, loads, length, time, qd, tau)
    return count


@kernel
def tree_torque(constants, parameters, memory, plan, state, room, buffer, integers, numbers, tasks,
                J, length, low, high, reference, dt, posture, wraps, frequency, rate, push, weight,
                other, known, times, time, q, qd, tau):
    """
    Compute one tick of the law for a robot that is a tree; see `chain_torque`.

    Parameters
    ----------
    constants, parameters, memory : `Tree.arrays`

    """
    if len(known) > 0 and not follows(known, times, time, q, qd):
        return -1
    limits, own = _limiter_views(state, len(q)), _room_views(room, len(q))
    table, accelerations = limits.table, limits.accelerations
    qdd = accelerations[POSTURE]
    none = qdd[:0]
    posture_acceleration(q, qd, posture, wraps, table, frequency, rate, push, qdd)
    if tree.outward(constants, parameters, memory, q, qd, none, qdd) != DONE:
        return -1
    tree.motions(constants, parameters, memory, J)
    store, found = memory_of_tree(constants, memory)
    robot = constants_in(constants, parameters)
    count = put_task_forces(
        integers, numbers, tasks, view(found.poses, 0, (len(found.poses), 4, 4)), found.twists, J,
        found.Lambda_inv, found.a0, length, low, high)
    F = priority.link_forces(integers, numbers)
    tree.torques(constants, parameters, memory, none, qdd, F, tau)
    if len(reference) > 0:
        at = memory_in(integers, reference)
        put_forces(integers, numbers, count, q, dt, posture, wraps, frequency, rate, push, table,
                   J, at.buffer, at.motion, at.forces)
        tree.acceleration_response(constants, parameters, memory, at.rest, at.forces, at.change)
        at.rate[0] = put_motion(integers, dt, at.change, table, found.Lambda_inv, at.rates,
                                at.buffer, at.motion)
        put_motion_torques(robot.tree, robot.bodies, robot.gravity, robot.rotors, at.motion[1],
                           store.work, at.motion[2])
    _put_difference(weight, other, tau, own.tau)
    tree.acceleration_response(constants, parameters, memory, own.tau, F,
                               accelerations[TOTAL])
    if len(known) > 0:
        is_fit = _may_be_sent(known, times, time, q, qd, table, accelerations, tau)
        return count if is_fit else -1
    loads = near_bounds(plan, state, room, robot.gravity, time, q, qd, tau)
    if loads >= 0:
        tree.inverse_mass_matrix(constants, parameters, memory, own.M_inv)
        limit(state, room, buffer, integers, numbers, count, loads, length, time, qd, tau)
    return count


def _rehearse(tick: Kernel, dynamics: Sweep | Tree) -> Kernel:
    """Compile a kernel, or load it from the cache; return it."""
    x, solver = np.ones(1), priority.Priorities([0], 1, 1)
    tasks = -np.ones((1, TASK_WIDTH))  # TURNS_WITH = -1: the frame turns with no link
    tick(*dynamics.arrays, *(table.zeros(1) for table in (PLAN, STATE, ROOM)), room_for(1),
         *solver.arrays, tasks, np.ones((6, 1)), 1.0, 0.1, 0.2, NO_REFERENCE, 0.0, x,
         np.zeros(1, dtype=np.bool_), 1.0, 1.0, 1.0, *UNBLENDED, *UNCHECKED, 0.0, x, x, x.copy())
    follows(np.zeros((ROWS, 1)), np.zeros(TIMES), 0.0, x, x)
    return tick


@cache
def _chain_kernel() -> Kernel:
    return _rehearse(chain_torque, Sweep(pendulum()))


@cache
def _tree_kernel() -> Kernel:
    return _rehearse(tree_torque, Tree(pendulum(), EXTENDED))


def compiled_tick(dynamics: Method) -> tuple[Kernel, tuple[Array, ...]] | None:
    """The compiled tick of a method and its first arguments; None if the method has none."""
    if isinstance(dynamics, Sweep) and type(dynamics).outward is Sweep.outward:  # not a team
        return _chain_kernel(), dynamics.arrays
    if type(dynamics) is Tree:
        return _tree_kernel(), dynamics.arrays
    return None
