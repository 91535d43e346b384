# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Torques for one joint state under supervision, in one compiled call.

The state is checked; then the torques of the law are computed, or, if a watchdog has reacted, the
torques of its reaction.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import entry_of
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
from osc_ros.control.step.parts import CONTROLLER, LAW, torque_at, UNCOMPENSATED, UNOBSERVED
from osc_ros.control.step.setup_step import setup_torque
from osc_ros.control.step.stages import NO_INTEGERS, NONE, use_method
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.trees.tree_layout import pendulum

Array = NDArray[np.float64]


@stage
def _estimate(controller):
    """
    Estimate the external torques at the newest state; report a contact to the supervisor.

    Return a code of `osc_ros.control.model_error.contact.touched`.

    """
    law, m, d = controller.law, controller.m, controller.d
    observe(law.observer, d.time, d.q, d.qd, d.sent_before, d.sample_effort, law.d.tau_driver)
    found = touched(controller.contact, law.observer)
    law.run.in_contact = found != NOT_TOUCHED
    if found != NOT_TOUCHED:
        report_fault(d, m.contact_watchdog, d.now)
    return found


@inlined
def _sense_first(controller, law, d):
    """Estimate the external torques, and detect a contact, before the torques of the law."""
    for i in range(d.n):
        d.sent_before[i] = d.sent[i] if d.has_sent else np.nan
    if law.m.compensates:
        assign(controller.contact.compensation, law.compensation.torque)
        assign(d.load, law.compensation.torque)
    put_driver(law.model, d.q, d.qd, law.d.tau_driver)
    return _estimate(controller)


@inlined
def _admit(controller, law, m, d):
    """
    Check a state, find the reaction, and return which torques must be sent.

    REJECTED: the state is not plausible. STOPPED: torques of a reaction that is in force or has
    just ended. 1: those of the law, which must then be computed.

    """
    d.touch = NOT_TOUCHED
    if not accept(m, d):
        d.has_changed = update(m, d, d.now)
        return REJECTED
    if controller.contact.comes_first and law.m.observes:
        d.touch = _sense_first(controller, law, d)
    d.has_changed = update(m, d, d.now)
    return STOPPED if replaces_law(d) or d.stopped > 0 else 1


@inlined
def use_model(law, d):
    """Choose the model of a reaction's torques: in a blend of loads, that of the larger weight."""
    if law.replaces and law.run.blends_load and law.run.blend_weight > 0.5:
        d.model = law.other.model
    else:
        d.model = law.model


@kernel
def step(controller, tau):
    """
    Compute the torques for a state under supervision; write them to the record D.

    The state is the sample of this record. The torques are within all limits; NaN if there are
    none. The record also gets the pose, error and force of the first task, for a report.

    Parameters
    ----------
    controller : record CONTROLLER
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
    law, m, d = controller.law, controller.m, controller.d
    law_d, n, before = law.d, d.n, d.time
    count = _admit(controller, law, m, d)
    if count > 0:
        count = torque_at(law.law_torque, (law, d.time, d.q, d.qd, tau))
        if count < 0:
            d.has_changed = fail(m, d, d.now) or d.has_changed
        elif is_too_near(law.clearance):
            report_fault(d, m.too_near_watchdog, d.now)
    is_replaced = replaces_law(d)
    d.asks = WAITS if ends(d) else 0
    if count == REJECTED and not is_replaced:
        for i in range(n):
            d.tau[i] = np.nan
        return count
    use_model(law, d)
    answer(m, d, d.now, view(tau, 0, (n if count > 0 else 0,)))
    has_ended = law.replaces and law.run.blend_weight == 0.0
    resumes = count == STOPPED and not is_replaced
    plans = has_ended or count > 0 and law_d.plans
    went_back = d.time < before + CLOCK_STEPS[0]
    waits = resumes or went_back or count < 0 and count != REJECTED or ends(d)
    d.asks = WAITS if waits else PLANS if plans else 0
    assign(view(d.tip_pose, 0, (16,)), view(law_d.task_pose, 0, (16,)))
    assign(d.tip_error, law_d.task_error[0])
    assign(d.tip_F, law_d.level_F[:6])
    return count


@kernel
def sense(controller):
    """
    Estimate the external torques at the last state, and detect a contact; return its code.

    Call it after the torques have been sent. For the code see
    `osc_ros.control.model_error.contact.touched`; a contact is reported to the supervisor. If
    `step` has done this already, nothing is computed.

    """
    if not controller.law.m.observes:
        return NOT_TOUCHED
    if controller.contact.comes_first:
        return controller.d.touch
    return _estimate(controller)


def entries() -> tuple[int, int]:
    """
    Addresses of `setup_torque` and `law_torque`.

    The first call compiles these kernels and those of this module, or loads them from the cache.

    """
    law = example().law
    return law.setup_torque, law.law_torque


@cache
def example() -> Any:
    """
    Return a record CONTROLLER of a pendulum at rest, a robot with one joint.

    The call compiles the kernels by running them once.

    """
    x = np.ones(1)
    at_rest = SetPointGenerator(np.eye(4))
    law, controller = LAW.new(), CONTROLLER.new()
    use_method(law, Sweep(pendulum()))
    law.m, law.d, law.run, controller.m, controller.d = (
        one.new(n=1, k=1, m=1) for one in (LAW_M, LAW_D, RUN, M, D))
    law.m.target_records[:], law.m.turns_with[:] = at_rest.addresses, -1
    law.d.level_frame[:] = 1.0
    law.model, law.clearance, law.posture = (
        CommandModel(pendulum()).record, CLEARANCE.new(), SET_POINT.new(n=1))
    law.gravities, law.turning, law.obstacles = NO_INTEGERS, NO_INTEGERS, NONE
    law.observer, law.compensation = UNOBSERVED, UNCOMPENSATED
    setup_torque(law, 0.0, x, x, x.copy())
    law.setup_torque = entry_of(setup_torque)
    law_torque(law, 0.0, x, x, x.copy())
    law.law_torque = entry_of(law_torque)
    controller.law, controller.contact = law, CONTACT.new(n=1)
    law.kept['targets'] = at_rest  # its records must exist as long as the record
    step(controller, x.copy())
    sense(controller)
    return controller
