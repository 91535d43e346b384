# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The way of a torque, a stage a line: from a joint state to the torques that are sent for it.

`step` has the supervision, and `watch` that without a state. `law_torque` is what a law does
whatever its settings, `setup_torque` what it does for one choice of settings; during a change of
settings both choices compute, and `law_torque` blends. The stages are in `check`, `evaluate`,
`approach`, `stages` (the sweeps of the dynamics: outward, inward), `forces`, `limit`,
`compensate`, `react`, in this order.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import kernel, view
from osc_ros.control.data import WAITS
from osc_ros.control.model_error.contact import NOT_TOUCHED
from osc_ros.control.safety.causes import replaces_law
from osc_ros.control.safety.safety import answer, ends, update
from osc_ros.control.setpoint.motion import look
from osc_ros.control.step.approach import add_springs, approach
from osc_ros.control.step.blend import blended_torque
from osc_ros.control.step.check import check, estimate
from osc_ros.control.step.compensate import compensate_errors, compensate_friction, follow
from osc_ros.control.step.evaluate import evaluate
from osc_ros.control.step.forces import links_of, put_forces_of_tasks
from osc_ros.control.step.law_record import INFINITE, REFUSED, stage_at, torque_at
from osc_ros.control.step.limit import limit_rates, limit_torque
from osc_ros.control.step.react import note_result, react, report, use_model
from osc_ros.control.step.stages import INWARD, JACOBIAN, OUTWARD
from osc_ros.dynamics.contract.method import DONE


@kernel
def step(controller, tau):
    """
    Write the torques for the sample of D to `tau` of D: within all limits, NaN if there are none.

    Return the number of solves of the law, whose torques are then written to tau (n,) [N·m] and
    sent. STOPPED: those of a reaction are sent. REJECTED: the sample is not plausible and is not
    stored; there are torques only if a reaction is in force. Other negative numbers: the law has
    no torques (REFUSED, INFINITE), which is a fault; those of a reaction are sent.

    """
    law, m, d = controller.law, controller.m, controller.d
    before = d.time
    count = check(controller, law, m, d)
    if count > 0:
        count = torque_at(law.law_torque, (law, d.time, d.q, d.qd, tau))
        note_result(law, m, d, count)
    react(law, m, d, count, before, tau)
    report(law.d, d)
    return count


@kernel
def law_torque(law, time, q, qd, tau):
    """
    Write the torques tau (n,) [N·m] of a law for a state at a time [s].

    They are within the limits of the law; what is added after these, friction and what the driver
    adds, is bounded by the supervisor, in `react`.

    Return the number of solves; REFUSED or INFINITE if there are no torques.

    """
    is_slow = evaluate(law, time, q)
    if law.replaces:
        count = blended_torque(law, time, q, qd, tau)
    else:
        count = torque_at(law.setup_torque, (law, time, q, qd, tau))
    if is_slow:
        law.d.plans = True
    if count >= 0:
        if law.m.compensates:
            compensate_errors(law, time, qd, tau)
        if not limit_rates(law, time, q, qd, tau):
            return INFINITE
    return count


@kernel
def setup_torque(law, time, q, qd, tau):
    """
    Write the torques tau (n,) for one robot and one choice of settings; rates are not limited.

    The caller writes the targets and the axes for this state before. Return the number of solves,
    or REFUSED.

    """
    m, d, entry, links = law.m, law.d, law.stage, links_of(law)
    approach(m, d, law.posture, links.Lambda_inv, time, q, qd)
    if stage_at(entry, (law, OUTWARD, q, qd, d.qdd_posture)) != DONE:
        return REFUSED
    status = stage_at(entry, (law, JACOBIAN, view(d.J, 0, (d.J.size,)), q, qd))
    count = put_forces_of_tasks(m, d, links, time)
    status |= stage_at(entry, (law, INWARD, d.qdd_posture, d.link_F, tau))
    if m.compensates_friction:
        status |= follow(law, links.Lambda_inv, count, time, q, qd)
    status |= add_springs(law, tau)
    status |= limit_torque(law, count, time, q, qd, tau)
    compensate_friction(law, q, qd, tau)
    d.plans = look(m, d)
    return count if status == DONE else REFUSED


@kernel
def watch(controller, now, longest, command):
    """
    Find the reaction at `now` [s] without a new state; write the torques to send to `tau` of D.

    They are NaN if there are none to send. Those of a reaction are sent if the newest state is
    older than `longest` [s]; before that, the next state triggers them. `longest` < 0: torques are
    sent in any case. `command`: torques (n,) of another controller for the newest state, sent
    unless a reaction replaces them; (0,) if there are none. Return whether torques must be sent.

    """
    law, m, d = controller.law, controller.m, controller.d
    d.has_changed = update(m, d, now)
    d.asks = WAITS if ends(d) else 0
    is_late = replaces_law(d) and (d.is_blind or now - d.came > longest)
    is_due = is_late or longest < 0.0 or len(command) == d.n
    if d.leaves or d.is_open and is_due:
        use_model(law, d)
        answer(m, d, now, command)
        return 1
    for i in range(d.n):
        d.tau[i] = np.nan
    return 0


@kernel
def sense(controller):
    """
    Estimate the external torques after the torques were sent; return a code of `contact.touched`.

    A contact is reported to the supervisor. Nothing is computed if `step` has done it.

    """
    if not controller.law.m.observes:
        return NOT_TOUCHED
    if controller.contact.comes_first:
        return controller.d.touch
    return estimate(controller)
