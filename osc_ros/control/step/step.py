# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Torques for one joint state under supervision, in one compiled call.

The state is checked; then the torques of the law are computed, or, if a watchdog has reacted, the
torques of its reaction.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import entry_of, Pointers, tick_at
from osc_ros.compile.compiled import inlined, kernel, plain, stage, view
from osc_ros.control.limits.near_rows import is_too_near
from osc_ros.control.model_error import disturbance
from osc_ros.control.model_error.command_model import CommandModel, put_driver
from osc_ros.control.model_error.contact import CONTACT, contact_views, NOT_TOUCHED, touched
from osc_ros.control.model_error.friction import FrictionInForce
from osc_ros.control.model_error.observer import observe
from osc_ros.control.safety.causes import replaces_law
from osc_ros.control.safety.safety import (
    accept,
    answer,
    cause_views,
    ends,
    fail,
    load_views,
    output_views,
    REJECTED,
    report_contact,
    report_too_near,
    state_views,
    STOPPED,
    update,
)
from osc_ros.control.safety.sample import CLOCK_STEPS
from osc_ros.control.safety.tables import PLAN, PLANS, RESULT, SAMPLE, STATE, TORQUE, WAITS
from osc_ros.control.setpoint.posture import SET_POINT
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator
from osc_ros.control.step import blend
from osc_ros.control.step.block import block_in, block_of, OWN, views_of
from osc_ros.control.step.law_memory import LawMemory
from osc_ros.control.step.law_memory import views as law_views
from osc_ros.control.step.law_step import law_torque
from osc_ros.control.step.setup_step import setup_torque
from osc_ros.control.step.stages import stages_of
from osc_ros.control.step.tick_arrays import (
    given_in,
    guarded_in,
    law_entry_in,
    law_in,
    NO_INTEGERS,
    NONE,
    UNOBSERVED,
)
from osc_ros.control.tasks.task_numbers import ERROR, SEEN
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.dynamics.priority import level_row, priority
from osc_ros.dynamics.trees.tree import Tree
from osc_ros.dynamics.trees.tree_layout import pendulum, PROPAGATED

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_now_views, _sense_views = SAMPLE.only('now'), SAMPLE.only('now', 'effort')
_torque_views = TORQUE.views
_own_views, _blend_views = OWN.only('asks', 'driver'), blend.BLEND.only('weight', 'has_load')


@stage
def _estimate(table):
    """
    Estimate the external torques at the newest state; report a contact to the supervisor.

    Return a code of `osc_ros.control.model_error.contact.touched`.

    """
    given, own, guarded = given_in(table), law_in(table), guarded_in(table)
    n = int(guarded.plan[0])
    gate, output, now = (state_views(guarded.state, n), output_views(guarded.state, n),
                         _sense_views(guarded.sample, n))
    observe((own.robot, own.robot_numbers), (own.observer, own.forces, own.estimate),
            gate.time[0], gate.q, gate.qd, output.before, now.effort,
            _own_views(block_in(given.integers, given.numbers).own, n).driver)
    found = touched(guarded.contact, own.forces, own.estimate, n)
    law_views(own.law, n).in_contact[0] = 1.0 if found != NOT_TOUCHED else 0.0
    if found != NOT_TOUCHED:
        report_contact(guarded.plan, guarded.state, now.now[0])
    return found


@inlined
def _sense_first(table, given, own, guarded, n):
    """Estimate the external torques, and detect a contact, before the torques of the law."""
    gate, output, contact = (state_views(guarded.state, n), output_views(guarded.state, n),
                             contact_views(guarded.contact, n))
    for i in range(n):
        output.before[i] = output.tau[i] if output.has_sent[0] > 0.0 else np.nan
    if len(own.compensation_state) > 0:
        torque = disturbance.state_views(own.compensation_state, n).torque
        assign(contact.compensation, torque)
        assign(load_views(guarded.plan, n).load, torque)
    put_driver(given.model, given.model_numbers, given.model_room, gate.q, gate.qd,
               _own_views(block_in(given.integers, given.numbers).own, n).driver)
    return _estimate(table)


@inlined
def _admit(table, given, own, guarded, n):
    """
    Check a state, find the reaction, and return which torques must be sent.

    REJECTED: the state is not plausible. STOPPED: torques of a reaction that is in force or has
    just ended. 1: those of the law, which must then be computed.

    """
    found, causes = _torque_views(guarded.result, n), cause_views(guarded.state, n)
    found.touch[0], now = NOT_TOUCHED, _now_views(guarded.sample, n).now[0]
    if not accept(guarded.plan, guarded.state, guarded.sample, guarded.result):
        found.has_changed[0] = 1.0 if update(guarded.plan, guarded.state, now) else 0.0
        return REJECTED
    if contact_views(guarded.contact, n).comes_first[0] > 0.0 and len(own.forces) > 0:
        found.touch[0] = _sense_first(table, given, own, guarded, n)
    found.has_changed[0] = 1.0 if update(guarded.plan, guarded.state, now) else 0.0
    return STOPPED if replaces_law(causes) or causes.stopped[0] > 0.0 else 1


@inlined
def _given_for_stop(table, own, n):
    """Return the `Given` for a reaction: during a blend of loads, that of the larger weight."""
    is_old = False
    if len(own.other) > 0:
        fading = _blend_views(own.blend, n)
        is_old = fading.has_load[0] > 0.0 and fading.weight[0] > 0.5
    return given_in(own.other if is_old else table)


@kernel
def step(table, tau):
    """
    Compute the torques for a state under supervision; write them to the result.

    The state is read from the record `sample` of the supervisor. The torques are within all
    limits; NaN if there are none. The result also gets the pose, error and force of the first
    task, for a report.

    Parameters
    ----------
    table : (TABLE_ROWS, 2) int
        Addresses and sizes of arrays: the table for `law_torque`, with rows for the arrays of
        `Guarded` inserted before its last row.
    tau : (n,), written [N·m]
        The torques of the law.

    Returns
    -------
    int
        Positive: the number of solves; the torques to send are those of the law. STOPPED: the
        torques are those of a reaction that is in force or has just ended. REJECTED: the state is
        not plausible, and the supervisor has not stored it; there are torques only if a reaction
        is in force. Any other negative number is a code of `law_torque`: the law has no torques,
        which is a fault, and the torques of a reaction are sent.

    """
    given, own, guarded, n = given_in(table), law_in(table), guarded_in(table), len(tau)
    parts, now = block_in(given.integers, given.numbers), state_views(guarded.state, n)
    setup, found = _own_views(parts.own, n), _torque_views(guarded.result, n)
    before = now.time[0]
    count = _admit(table, given, own, guarded, n)
    if count > 0:
        count = tick_at(law_entry_in(table), table, now.time[0], now.q, now.qd, tau)
        if count < 0:
            found.has_changed[0] = 1.0 if fail(guarded.plan, guarded.state, _now_views(
                guarded.sample, n).now[0]) else found.has_changed[0]
        elif is_too_near(given.clearance, n):
            report_too_near(guarded.plan, guarded.state, _now_views(guarded.sample, n).now[0])
    is_replaced = replaces_law(cause_views(guarded.state, n))
    found.asks[0] = WAITS if ends(guarded.state, n) else 0.0
    if count == REJECTED and not is_replaced:
        for i in range(n):
            found.tau[i] = np.nan
        return count
    of_stop = _given_for_stop(table, own, n)
    answer(of_stop.model, of_stop.model_numbers, of_stop.model_room, guarded.plan, guarded.state,
           guarded.result, _now_views(guarded.sample, n).now[0],
           view(tau, 0, (n if count > 0 else 0,)))
    has_ended = len(own.other) > 0 and _blend_views(own.blend, n).weight[0] == 0.0
    resumes = count == STOPPED and not is_replaced
    plans = has_ended or count > 0 and setup.asks[0] > 0.0
    went_back = now.time[0] < before + CLOCK_STEPS[0]
    waits = resumes or went_back or count < 0 and count != REJECTED or ends(guarded.state, n)
    found.asks[0] = WAITS if waits else PLANS if plans else 0.0
    assign(view(found.pose, 0, (16,)), view(parts.tasks, SEEN, (16,)))
    assign(found.error, view(parts.tasks, ERROR, (6,)))
    assign(found.F, priority.first_force(given.integers, parts.solver))
    return count


@kernel
def sense(table):
    """
    Estimate the external torques at the last state, and detect a contact; return its code.

    Call it after the torques have been sent, with the table of addresses that `step` gets. For
    the code see `osc_ros.control.model_error.contact.touched`; a contact is reported to the
    supervisor. If `step` has done this already, nothing is computed.

    """
    own, guarded = law_in(table), guarded_in(table)
    n = int(guarded.plan[0])
    if len(own.forces) == 0:
        return NOT_TOUCHED
    if contact_views(guarded.contact, n).comes_first[0] > 0.0:
        return int(_torque_views(guarded.result, n).touch[0])
    return _estimate(table)


def entries() -> tuple[int, int]:
    """
    Addresses of `setup_torque` and `law_torque`.

    The first call compiles these kernels and those of this module, or loads them from the cache.

    """
    return _example()[0]


def example_table() -> Integers:
    """Return the table of addresses that `step` gets, for a pendulum at rest: an example."""
    return _example()[1]


@cache
def _example() -> tuple[tuple[int, int], Integers, object]:
    """
    Compile the kernels by running them once on a pendulum at rest, a robot with one joint.

    Return three results: the addresses that `entries` returns; the table (TABLE_ROWS, 2) with the
    addresses and sizes of the arrays of `step`; and the objects that own these arrays, which must
    exist as long as the table is used.

    """
    x, (integers, numbers) = np.ones(1), block_of([0], 1, 1)
    parts = views_of(integers, numbers)
    parts.tasks[:] = -1.0  # TURNS_WITH = -1: the frame turns with no link
    plain(priority.level_rows)(integers, parts.solver)[:, level_row.FRAME:] = 1.0
    dynamics, at_rest = Tree(pendulum(), PROPAGATED), SetPointGenerator(np.eye(4))
    model, stages = CommandModel(dynamics.robot), stages_of(dynamics)
    parts.guides[:] = at_rest.addresses
    arrays = (*stages.rows, integers, numbers, *model.arrays, NO_INTEGERS, NO_INTEGERS,
              NONE, NONE, FrictionInForce(1).record, SET_POINT.zeros(1))
    setup_torque(Pointers().to(*arrays), 0.0, x, x, x.copy())
    of_law = (*arrays, *UNOBSERVED, blend.BLEND.zeros(1), NO_INTEGERS,
              LawMemory(1, np.zeros(3)).record)
    of_setup = entry_of(setup_torque)
    law_torque(Pointers(of_setup, 0).to(*of_law), 0.0, x, x, x.copy())
    found = of_setup, entry_of(law_torque)
    records = [table.zeros(1) for table in (PLAN, STATE, SAMPLE, RESULT, CONTACT)]
    records[0][0] = 1.0  # number of joints in the plan
    pointers = Pointers(*found)
    table = pointers.to(*of_law, *records)
    step(table, x.copy())
    sense(table)
    return found, table, (pointers, dynamics, at_rest, model, stages)
