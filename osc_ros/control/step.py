# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A joint state answered under supervision in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control import blend, compensation
from osc_ros.control.bandwidth import PERIOD_CHANGE, RECKONED
from osc_ros.control.block import block_in, block_of, OWN, views_of
from osc_ros.control.causes import replaces_law
from osc_ros.control.command_model import CommandModel, put_driver
from osc_ros.control.compiled_tick import chain_torque, REFUSED, tree_torque
from osc_ros.control.external import observe
from osc_ros.control.friction import FrictionInForce
from osc_ros.control.guide import Guide
from osc_ros.control.law_memory import delay_views, leave, note_period
from osc_ros.control.law_memory import STATE as LAW
from osc_ros.control.limiting import keep, ROOM
from osc_ros.control.limiting import STATE as LIMITER
from osc_ros.control.motion import any_waits, put_targets
from osc_ros.control.safety import (
    accept,
    answer,
    cause_views,
    CHANGED,
    gate_views,
    load_views,
    meet,
    output_views,
    REJECTED,
    state_views,
    TAKEN,
    update,
)
from osc_ros.control.sample import CLOCK_STEPS
from osc_ros.control.tables import PLAN, RESULT, SAMPLE, STATE, TORQUE
from osc_ros.control.task_numbers import AXES, ERROR, SEEN
from osc_ros.control.tick_arrays import (
    entry_in,
    given_in,
    guarded_in,
    NONE,
    UNBLENDED,
    UNOBSERVED,
)
from osc_ros.control.touching import CONTACT, contact_views, NOT_TOUCHED, touched
from osc_ros.dynamics import level_row, priority
from osc_ros.dynamics.addresses import entry_of, Pointers, tick_at
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.compiled import inlined, kernel, plain, stage, view
from osc_ros.dynamics.method import DONE, Method
from osc_ros.dynamics.trees.layout import EXTENDED, pendulum
from osc_ros.dynamics.trees.tree import Tree
from osc_ros.dynamics.vectors import assign

Array = NDArray[np.float64]
Kernel: TypeAlias = Callable[..., int]

# `step` returns the number of solves, which is positive, or a negative code: REJECTED, CHANGED or
# TAKEN of `osc_ros.control.safety`, or what `compiled_tick.chain_torque` returns.

_limiter_views, _room_views = LIMITER.only('reckons', 'added'), ROOM.only('tau')
_now_views, _sense_views = SAMPLE.only('now'), SAMPLE.only('now', 'effort')
_torque_views, _own_views = TORQUE.only('asks', 'touch', 'pose', 'error', 'F'), OWN.views
_blend_views = blend.BLEND.only('weight', 'before', 'driver')


@stage
def _estimate(table):
    """
    Estimate the external torques at the newest state; look for a contact, and report it.

    Returns a code of `osc_ros.control.touching.touched`.

    """
    given, guarded = given_in(table), guarded_in(table)
    n = int(guarded.plan[0])
    gate, output, now = (state_views(guarded.state, n), output_views(guarded.state, n),
                         _sense_views(guarded.sample, n))
    observe(guarded.robot, guarded.robot_numbers, guarded.observer, guarded.forces,
            guarded.estimate, gate.time[0], gate.q, gate.qd, output.before, now.effort,
            _own_views(block_in(given.integers, given.numbers).own, n).driver)
    found = touched(guarded.contact, guarded.forces, guarded.estimate, n)
    if found != NOT_TOUCHED:
        meet(guarded.plan, guarded.state, now.now[0])
    return found


@inlined
def _sense_first(table, given, guarded, n):
    """Estimate the external torques, and look for a contact, before the torques of the law."""
    gate, output, contact = (state_views(guarded.state, n), output_views(guarded.state, n),
                             contact_views(guarded.contact, n))
    for i in range(n):
        output.before[i] = output.tau[i] if output.has_sent[0] > 0.0 else np.nan
    if len(guarded.compensation_state) > 0:
        torque = compensation.state_views(guarded.compensation_state, n).torque
        assign(contact.compensation, torque)
        assign(load_views(guarded.plan, n).load, torque)
    put_driver(given.model, given.model_numbers, given.model_room, gate.q, gate.qd,
               _own_views(block_in(given.integers, given.numbers).own, n).driver)
    return _estimate(table)


@inlined
def _is_too_slow(own, period):
    """Whether gains must be reduced for a period of the states [s]."""
    return (max(period, own.period[0]) > own.longest_period[0]
            and abs(period - own.period[0]) > PERIOD_CHANGE * period)


@inlined
def _admit(table, given, guarded, parts):
    """Check a sample; return DONE if the law answers it now, or a code of `safety`."""
    n = int(guarded.plan[0])
    gate, found = gate_views(guarded.state, n), _torque_views(guarded.result, n)
    before, late = gate.time[0], delay_views(guarded.law, n).delay[0] > RECKONED
    found.touch[0] = NOT_TOUCHED
    if not accept(guarded.plan, guarded.state, guarded.sample, guarded.result):
        return REJECTED
    period = note_period(guarded.law, n, gate.time[0])
    if contact_views(guarded.contact, n).comes_first[0] > 0.0 and len(guarded.forces) > 0:
        found.touch[0] = _sense_first(table, given, guarded, n)
    if update(guarded.plan, guarded.state, _now_views(guarded.sample, n).now[0]):
        return CHANGED
    is_slow = _is_too_slow(_own_views(parts.own, n), period)
    _limiter_views(parts.limiter, n).reckons[0] = 0.0 if late else 1.0
    if len(guarded.other) > 0:
        old = block_in(guarded.other_integers, guarded.other_numbers)
        is_slow = is_slow or _is_too_slow(_own_views(old.own, n), period)
        _limiter_views(old.limiter, n).reckons[0] = 0.0 if late else 1.0
    if (replaces_law(cause_views(guarded.state, n)) or gate.time[0] < before + CLOCK_STEPS[0]
            or is_slow):
        return TAKEN
    return DONE


@inlined
def _request(parts, time):
    """What Python must do before the tick of a setup; DONE if nothing."""
    return put_targets(parts.guides, parts.task_plans, time, parts.tasks)


@stage
def _blended(table, given, guarded, parts, time, q, qd, tau):
    """Write the torques of the setup in force, blended with those of the one it replaces."""
    old = block_in(guarded.other_integers, guarded.other_numbers)
    request = _request(old, time)
    if request == DONE:
        request = _request(parts, time)
    if request != DONE:
        return REFUSED - request
    blend.advance(guarded.blend, len(q), time)
    count = tick_at(entry_in(guarded.other), guarded.other, time, q, qd,
                    _blend_views(guarded.blend, len(q)).before)
    if count < 0:
        return count
    blend.prepare(guarded.blend, guarded.other_integers, guarded.other_numbers, given.integers,
                  given.numbers)
    count = tick_at(entry_in(table), table, time, q, qd, tau)
    blend.mix(guarded.blend, guarded.other_integers, guarded.other_numbers, given.integers,
              given.numbers, tau)
    return count


@stage
def _compensate(guarded, parts, driver, touch, time, tau):
    """Add to the torques of the law the compensation of what its model lacks."""
    n = len(tau)
    own, room, at = (_own_views(parts.own, n), _room_views(parts.room, n),
                     compensation.state_views(guarded.compensation_state, n))
    is_held = touch != NOT_TOUCHED and at.free[0] <= 0.0 or any_waits(parts.guides)
    plan = compensation.plan_views(guarded.compensation_plan, n)
    count = n if plan.knows_friction[0] > 0.0 else 0
    for i in range(n):
        room.tau[i] = tau[i] + driver[i]
    compensation.compensate(
        guarded.compensation_plan, guarded.compensation_state, guarded.compensation_result,
        guarded.observer, guarded.forces, guarded.estimate, time, room.tau,
        view(parts.tasks, AXES, (3, 3)), is_held, view(own.friction, 0, (0,)),
        view(own.friction, 0, (count,)))
    for i in range(n):
        tau[i] += at.torque[i]
    assign(_limiter_views(parts.limiter, n).added, at.torque)


@inlined
def _leave(guarded, parts, time, q, qd, tau):
    """Limit the rate of the torques, and remember the tick; return whether they are finite."""
    n = len(tau)
    is_finite = leave(guarded.law, parts.limiter, time, q, qd, tau)
    if len(guarded.other) > 0:
        old = block_in(guarded.other_integers, guarded.other_numbers)
        assign(_limiter_views(old.limiter, n).added, _limiter_views(parts.limiter, n).added)
        keep(old.limiter, time, tau)
    return is_finite


@kernel
def step(table, tau):
    """
    Answer the state of a sample under supervision: check it, compute, limit and keep the torques.

    The torques to be sent, within all limits, are written to the result, with what a report needs.

    Parameters
    ----------
    table : (TABLE_ROWS, 2) int
        The table of `chain_torque` or `tree_torque`, then the arrays of `Guarded`, and in the last
        row the address of that function.
    tau : (n,), written [N·m]
        The torques of the law.

    Returns
    -------
    int
        Number of solves, or another code. The supervisor has taken the state over, unless the code
        is REJECTED.

    """
    given, guarded, n = given_in(table), guarded_in(table), len(tau)
    parts, now = block_in(given.integers, given.numbers), state_views(guarded.state, n)
    own, found = _own_views(parts.own, n), _torque_views(guarded.result, n)
    code = _admit(table, given, guarded, parts)
    if code != DONE:
        return code
    is_blended, time, driver = len(guarded.other) > 0, now.time[0], own.driver
    if is_blended:
        count = _blended(table, given, guarded, parts, time, now.q, now.qd, tau)
        driver = _blend_views(guarded.blend, n).driver
    else:
        count = tick_at(entry_in(table), table, time, now.q, now.qd, tau)
    if count < 0:
        return count
    if len(guarded.compensation_state) > 0:
        _compensate(guarded, parts, driver, found.touch[0], time, tau)
    if not _leave(guarded, parts, time, now.q, now.qd, tau):
        return REFUSED
    answer(given.model, given.model_numbers, given.model_room, guarded.plan, guarded.state,
           guarded.result, _now_views(guarded.sample, n).now[0], tau)
    has_ended = is_blended and _blend_views(guarded.blend, n).weight[0] == 0.0
    found.asks[0] = 1.0 if has_ended else own.asks[0]
    assign(view(found.pose, 0, (16,)), view(parts.tasks, SEEN, (16,)))
    assign(found.error, view(parts.tasks, ERROR, (6,)))
    assign(found.F, priority.first_force(given.integers, parts.solver))
    return count


@kernel
def sense(table):
    """
    Estimate the external torques at the state that was answered last; look for a contact.

    Call it after the torques have been sent, with the table of `step`. Returns a code of
    `osc_ros.control.touching.touched`. For the supervisor, a contact is present from now on. If
    `step` has done this already, nothing is computed.

    """
    guarded = guarded_in(table)
    n = int(guarded.plan[0])
    if len(guarded.forces) == 0:
        return NOT_TOUCHED
    if contact_views(guarded.contact, n).comes_first[0] > 0.0:
        return int(_torque_views(guarded.result, n).touch[0])
    return _estimate(table)


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
    records = [table.zeros(1) for table in (LAW, PLAN, STATE, SAMPLE, RESULT, CONTACT)]
    records[1][0] = 1.0  # joint of the plan
    table = Pointers(entry_of(torque)).to(
        *arrays, *UNOBSERVED, blend.BLEND.zeros(1), *UNBLENDED, *records)
    step(table, x.copy())
    sense(table)
    return torque, entry_of(torque)


def three(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The arrays of a method of the dynamics, and as many empty ones as make them three."""
    return *arrays, *(NONE,) * (3 - len(arrays))


@cache
def _chain_kernel() -> tuple[Kernel, int]:
    return _rehearse(chain_torque, Sweep(pendulum()))


@cache
def _tree_kernel() -> tuple[Kernel, int]:
    return _rehearse(tree_torque, Tree(pendulum(), EXTENDED))


def tick_of(dynamics: Method) -> tuple[Kernel | None, int, tuple[Array, ...]]:
    """
    The compiled torques of a method, their address, and three arrays for their table.

    None and nothing if the method has none.

    """
    if isinstance(dynamics, Sweep) and type(dynamics).outward is Sweep.outward:  # not a team
        return *_chain_kernel(), three(dynamics.arrays)
    if type(dynamics) is Tree:
        return *_tree_kernel(), three(dynamics.arrays)
    return None, 0, ()
