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
from osc_ros.compile.compiled import inlined, kernel, stage, view
from osc_ros.control.data import D, LAW_D, LAW_M, M, PLANS, RUN, WAITS
from osc_ros.control.limits.near_rows import CLEARANCE, is_too_near
from osc_ros.control.model_error.command_model import CommandModel, put_driver
from osc_ros.control.model_error.contact import CONTACT, NOT_TOUCHED, touched
from osc_ros.control.model_error.observer import observe
from osc_ros.control.safety.causes import replaces_law, report_fault
from osc_ros.control.safety.safety import accept, answer, ends, fail, REJECTED, STOPPED, update
from osc_ros.control.safety.sample import CLOCK_STEPS
from osc_ros.control.setpoint.posture import SET_POINT
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator
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
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.trees.tree_layout import pendulum

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@stage
def _estimate(table):
    """
    Estimate the external torques at the newest state; report a contact to the supervisor.

    Return a code of `osc_ros.control.model_error.contact.touched`.

    """
    given, own, (m, d, contact) = given_in(table), law_in(table), guarded_in(table)
    observe(own.observer, (own.robot, own.robot_numbers), d.time, d.q, d.qd, d.sent_before,
            d.sample_effort, given.d.tau_driver)
    found = touched(contact, own.observer)
    given.run.in_contact = found != NOT_TOUCHED
    if found != NOT_TOUCHED:
        report_fault(d, m.contact_watchdog, d.now)
    return found


@inlined
def _sense_first(table, given, own, d, contact):
    """Estimate the external torques, and detect a contact, before the torques of the law."""
    for i in range(d.n):
        d.sent_before[i] = d.sent[i] if d.has_sent else np.nan
    if given.m.compensates:
        assign(contact.compensation, own.compensation.torque)
        assign(d.load, own.compensation.torque)
    put_driver(given.model, given.model_numbers, given.model_room, d.q, d.qd,
               given.d.tau_driver)
    return _estimate(table)


@inlined
def _admit(table, given, own, m, d, contact):
    """
    Check a state, find the reaction, and return which torques must be sent.

    REJECTED: the state is not plausible. STOPPED: torques of a reaction that is in force or has
    just ended. 1: those of the law, which must then be computed.

    """
    d.touch = NOT_TOUCHED
    if not accept(m, d):
        d.has_changed = update(m, d, d.now)
        return REJECTED
    if contact.comes_first and given.m.observes:
        d.touch = _sense_first(table, given, own, d, contact)
    d.has_changed = update(m, d, d.now)
    return STOPPED if replaces_law(d) or d.stopped > 0 else 1


@inlined
def _given_for_stop(table, given, own):
    """Return the `Given` for a reaction: during a blend of loads, that of the larger weight."""
    is_old = len(own.other) > 0 and given.run.blends_load and given.run.blend_weight > 0.5
    return given_in(own.other if is_old else table)


@kernel
def step(table, tau):
    """
    Compute the torques for a state under supervision; write them to the record D.

    The state is the sample of this record. The torques are within all limits; NaN if there are
    none. The record also gets the pose, error and force of the first task, for a report.

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
    given, own, (m, d, contact) = given_in(table), law_in(table), guarded_in(table)
    law, n, before = given.d, d.n, d.time
    count = _admit(table, given, own, m, d, contact)
    if count > 0:
        count = tick_at(law_entry_in(table), (table, d.time, d.q, d.qd, tau))
        if count < 0:
            d.has_changed = fail(m, d, d.now) or d.has_changed
        elif is_too_near(given.clearance):
            report_fault(d, m.too_near_watchdog, d.now)
    is_replaced = replaces_law(d)
    d.asks = WAITS if ends(d) else 0
    if count == REJECTED and not is_replaced:
        for i in range(n):
            d.tau[i] = np.nan
        return count
    of_stop = _given_for_stop(table, given, own)
    answer(of_stop.model, of_stop.model_numbers, of_stop.model_room, m, d, d.now,
           view(tau, 0, (n if count > 0 else 0,)))
    has_ended = len(own.other) > 0 and given.run.blend_weight == 0.0
    resumes = count == STOPPED and not is_replaced
    plans = has_ended or count > 0 and law.plans
    went_back = d.time < before + CLOCK_STEPS[0]
    waits = resumes or went_back or count < 0 and count != REJECTED or ends(d)
    d.asks = WAITS if waits else PLANS if plans else 0
    assign(view(d.tip_pose, 0, (16,)), view(law.task_pose, 0, (16,)))
    assign(d.tip_error, law.task_error[0])
    assign(d.tip_F, law.level_F[:6])
    return count


@kernel
def sense(table):
    """
    Estimate the external torques at the last state, and detect a contact; return its code.

    Call it after the torques have been sent, with the table of addresses that `step` gets. For
    the code see `osc_ros.control.model_error.contact.touched`; a contact is reported to the
    supervisor. If `step` has done this already, nothing is computed.

    """
    guarded = guarded_in(table)
    if not given_in(table).m.observes:
        return NOT_TOUCHED
    if guarded.contact.comes_first:
        return guarded.d.touch
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
    x = np.ones(1)
    dynamics, at_rest = Sweep(pendulum()), SetPointGenerator(np.eye(4))
    model, stages = CommandModel(dynamics.robot), stages_of(dynamics)
    law_m, law_d, run, m, d = (one.new(n=1, k=1, m=1) for one in (LAW_M, LAW_D, RUN, M, D))
    law_m.target_records[:], law_m.turns_with[:], law_d.level_frame[:] = at_rest.addresses, -1, 1.0
    arrays = (*stages.rows, *model.arrays, NO_INTEGERS, NO_INTEGERS, CLEARANCE.new().words, NONE,
              SET_POINT.new(n=1).words, law_m.words, law_d.words, run.words)
    setup_torque(Pointers().to(*arrays), 0.0, x, x, x.copy())
    of_law = *arrays, *UNOBSERVED, NO_INTEGERS
    of_setup = entry_of(setup_torque)
    law_torque(Pointers(of_setup, 0).to(*of_law), 0.0, x, x, x.copy())
    found = of_setup, entry_of(law_torque)
    pointers = Pointers(*found)
    table = pointers.to(*of_law, m.words, d.words, CONTACT.new(n=1).words)
    step(table, x.copy())
    sense(table)
    return found, table, (pointers, dynamics, at_rest, model, stages)
