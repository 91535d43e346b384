# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The way of a torque, a stage a line: from a joint state to the torques that are sent for it.

`step` has the supervision, and `watch` that without a state. `law_torque` is what a law does
whatever its settings, `setup_torque` what it does for one choice of settings; during a change of
settings both choices compute, and `law_torque` blends. The stages are in `check`, `evaluate` (and
`approach`), `stages` (the sweeps of the dynamics: outward, inward), `tasks.feedback` (forces),
`limit`, `blend`, `compensate` (with `reference`), `react`.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel, stage, view
from osc_ros.control.data import WAITS
from osc_ros.control.model_error.contact import NOT_TOUCHED
from osc_ros.control.safety.causes import replaces_law
from osc_ros.control.safety.safety import COMPUTED, ends, update
from osc_ros.control.setpoint.motion import look
from osc_ros.control.step.blend import blend, own_torque
from osc_ros.control.step.check import check, estimate, is_repeated, observes_first
from osc_ros.control.step.compensate import compensate_errors, compensate_friction, follow
from osc_ros.control.step.evaluate import approach, evaluate
from osc_ros.control.step.law_record import INFINITE, REFUSED, stage_at, torque_at
from osc_ros.control.step.limit import limit_rates, limit_torque, take_state
from osc_ros.control.step.react import answer, note_result, react, report, use_model
from osc_ros.control.step.stages import INWARD, JACOBIAN, OUTWARD
from osc_ros.control.tasks.feedback import poses_of, put_task_forces, put_wrenches
from osc_ros.control.tasks.free import guide
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.dynamics.contract.method import DONE


@kernel
def step(controller):
    """Write the torques for the sample of D to `tau` of D: within all limits, or NaN."""
    # Return COMPUTED: they are those of the law, `tau` of LAW_D. STOPPED: those of a reaction.
    # REJECTED: the sample is not plausible and not stored; torques only if a reaction is in force.
    # REFUSED, INFINITE: the law has no torques, a fault; those of a reaction.
    law, m, d = controller.law, controller.m, controller.d
    before, now = d.time, d.now
    use_model(law, d)  # that of the last state may be gone
    code = check(controller, law, m, d)
    if code == COMPUTED and is_repeated(law.run, d):
        assign(law.d.tau, law.run.tick_tau[0])
        now = d.sent_at  # no time has passed for the arm, whatever the clock says
    elif code == COMPUTED:
        take_state(law.d, d.time, d.q, d.qd)
        code = torque_at(law.law_torque, (law,))
        note_result(law, m, d, code)
    react(law, m, d, code, before, now)
    report(law.d, d)
    return code


@inlined
def add_up(d):
    """Write the torque of the law: the sum of all its parts."""
    for i in range(d.n):
        d.tau[i] = own_torque(d, i) + d.tau_fading[i] + d.tau_disturbance[i]


@kernel
def law_torque(law):
    """Write the torques for the state in LAW_D; return COMPUTED, REFUSED or INFINITE."""
    # They are within the limits of the law, but for friction and
    # what the driver adds, which the supervisor bounds in `react`.
    d, is_slow, code = law.d, evaluate(law), COMPUTED
    if law.replaces:
        code = torque_at(law.other.setup_torque, (law.other,))
    if code == COMPUTED:
        code = torque_at(law.setup_torque, (law,))
    d.plans = d.plans or is_slow or law.replaces and law.other.d.plans
    if code != COMPUTED:
        return code
    blend(law)
    if law.m.compensates:
        compensate_errors(law)
    add_up(d)
    return COMPUTED if limit_rates(law) else INFINITE


@stage
def put_forces_of_tasks(law):
    """Write the forces of the tasks on the links: u from the errors, F = Λ(u − a⁰) by priority."""
    if law.m.has_force:
        put_wrenches(law.m, law.d, poses_of(law))
    put_task_forces(law)
    if law.m.is_guided:
        guide(law)


@kernel
def setup_torque(law):
    """Write the parts of the torque for one robot and settings; return COMPUTED or REFUSED."""
    # The caller writes targets and axes first. Rates are not limited.
    m, d, entry = law.m, law.d, law.stage
    approach(law)
    if stage_at(entry, (law, OUTWARD, d.q, d.qd, d.qdd_posture)) != DONE:
        return REFUSED
    status = stage_at(entry, (law, JACOBIAN, view(d.J, 0, (d.J.size,)), d.q, d.qd))
    put_forces_of_tasks(law)
    status |= stage_at(entry, (law, INWARD, d.qdd_posture, d.link_F, d.tau_motion))
    if m.compensates_friction:
        status |= follow(law)
    status |= limit_torque(law)
    compensate_friction(law)
    d.plans = look(m, d)
    return COMPUTED if status == DONE else REFUSED


@kernel
def watch(controller, now, longest, command):
    """Find the reaction at `now` [s] without a new state; write the torques to send, or NaN."""
    # Return whether torques must be sent. A reaction is sent if no accepted state arrived for
    # `longest` [s]; before that, the next state triggers it. `longest` < 0: send in any case.
    # `command`: torques (n,) of another controller for the newest state, sent if no reaction is in
    # force; else (0,).
    law, m, d = controller.law, controller.m, controller.d
    use_model(law, d)
    d.has_changed = update(m, d, now)
    d.asks = WAITS if ends(d) else 0
    is_due = longest < 0.0 or len(command) == d.n
    if replaces_law(d):
        is_due = longest < 0.0 or d.is_blind or now - d.came >= longest
    if d.leaves or d.is_open and is_due:
        answer(law, m, d, now, command, False)
        return 1
    for i in range(d.n):
        d.tau[i] = np.nan
    return 0


@kernel
def torque_for(law, time, q, qd, tau):
    """Write the torques tau (n,) of a law for a state, by `law_torque`; return its result."""
    take_state(law.d, time, q, qd)
    code = torque_at(law.law_torque, (law,))
    assign(tau, law.d.tau)
    return code


@kernel
def sense(controller):
    """Estimate external torques after sending, unless `step` has; return a `touched` code."""
    if not controller.law.m.observes:
        return NOT_TOUCHED
    if observes_first(controller.law, controller.m):
        return controller.d.touch
    return estimate(controller, controller.law.d.tau_driver)
