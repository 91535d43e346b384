# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""React: the torques that are sent, those of the law or of a reaction, and what Python must do."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, view
from osc_ros.control.data import PLANS, WAITS
from osc_ros.control.limits.near_rows import is_too_near
from osc_ros.control.safety.causes import replaces_law, report_fault
from osc_ros.control.safety.safety import answer, COMPUTED, ends, fail, REJECTED, STOPPED
from osc_ros.control.safety.sample import CLOCK_STEPS
from osc_ros.dynamics.algebra.spatial import assign


@inlined
def note_result(law, m, d, code):
    """Report a fault if the law has no torques, or if a pair of bodies is too near."""
    if code != COMPUTED:
        d.has_changed = fail(m, d, d.now) or d.has_changed
    elif is_too_near(law.clearance):
        report_fault(d, m.too_near_watchdog, d.now)


@inlined
def use_model(law, d):
    """Choose the model of a reaction's torques: in a blend of loads, that of the larger weight."""
    if law.replaces and law.run.blends_load and law.run.blend_weight > 0.5:
        d.model = law.other.model
    else:
        d.model = law.model


@inlined
def react(law, m, d, code, before, now):
    """Write the torque to send, and what Python must do, after the result `code` of the law."""
    # `before` is the time of the state before, `now` that of this answer [s].
    is_replaced = replaces_law(d)
    d.asks = WAITS if ends(d) else 0
    if code == REJECTED and not is_replaced:
        for i in range(d.n):
            d.tau[i] = np.nan
        return
    use_model(law, d)
    answer(m, d, now, view(law.d.tau, 0, (d.n if code == COMPUTED else 0,)))
    has_ended = law.replaces and law.run.blend_weight == 0.0
    resumes = code == STOPPED and not is_replaced
    plans = has_ended or code == COMPUTED and law.d.plans
    went_back = d.time < before + CLOCK_STEPS[0]
    waits = resumes or went_back or code < REJECTED or ends(d)
    d.asks = WAITS if waits else PLANS if plans else 0


@inlined
def report(law_d, d):
    """Copy pose, error and force of the first task for a report."""
    assign(view(d.tip_pose, 0, (16,)), view(law_d.task_pose, 0, (16,)))
    assign(d.tip_error, law_d.task_error[0])
    assign(d.tip_F, law_d.level_F[:6])
