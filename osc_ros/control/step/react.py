# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""React: the torques that are sent, those of the law or of a reaction, and what Python must do."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, view
from osc_ros.control.data import ANSWERED, PLANS, WAITS
from osc_ros.control.limits.near_rows import is_too_near
from osc_ros.control.safety.causes import replaces_law, report_fault
from osc_ros.control.safety.safety import (
    COMPUTED,
    ends,
    fail,
    put_wanted,
    REJECTED,
    send,
    STOPPED,
)
from osc_ros.control.safety.sample import CLOCK_STEPS
from osc_ros.control.safety.stopping import NONE, put_acting, ZERO
from osc_ros.control.setpoint.stamps import OLDEST
from osc_ros.control.step.limit import limit_wanted, note_sent
from osc_ros.dynamics.algebra.spatial import assign

# Two loads are compared by the torques that their models lack, averaged over the time AVERAGED
# [s]: the load with less than the share ABSENT of the other's explains the motion, if the other's
# exceed the share NOTICED of the effort limits and, with SURE, the noise. If the law's load does
# not, and a joint is faster than the share FAST of its speed limit, the arm does not carry its
# payload; a slower arm may be putting it down. EVERY: number of states for one comparison.
AVERAGED, ABSENT, NOTICED, SURE, FAST, EVERY = 0.02, 0.5, 0.002, 16.0, 0.3, 4


@inlined
def note_result(law, m, d, code):
    """Report a fault if the law has no torques, or if a pair of bodies is too near."""
    if code != COMPUTED:
        d.has_changed = fail(m, d, d.now) or d.has_changed
    elif is_too_near(law.clearance):
        report_fault(d, m.too_near_watchdog, d.now)


@inlined
def _has_two_loads(law):
    """Return whether the arm may move with another load than that of the law."""
    return law.m.payload_ratio > 1.0 or law.replaces and law.run.blends_load


@inlined
def _other_model(law):
    """Model with the other load: in a blend of loads of the replaced law, else without payload."""
    if law.replaces and law.run.blends_load:
        return law.other.model
    return law.bare


@inlined
def use_model(law, d):
    """Choose the model of a reaction's torques: with the load that explains the motion."""
    if _has_two_loads(law) and law.run.has_other_load:
        d.model = _other_model(law)
        d.load[:] = 0.0  # compensates the errors of the law's model
    else:
        d.model = law.model


@inlined
def judge_load(law, m, d):
    """Find which load explains the motion; report a fault if a fast arm lacks its payload."""
    run, rows, k = law.run, d.room_rows, (d.answers - 2) % ANSWERED
    if not _has_two_loads(law):
        return
    if (d.answers % EVERY != 0 or d.answers_kept < 2
            or d.answer_times[(k + 1) % ANSWERED] != d.time):
        return
    d.model = law.model
    put_acting(d, k, (k + 1) % ANSWERED, rows, rows[3])
    d.model = _other_model(law)
    dt = put_acting(d, k, (k + 1) % ANSWERED, rows, rows[4])
    use_model(law, d)
    share, ours, theirs, is_fast = min(EVERY * dt / AVERAGED, 1.0), 0.0, 0.0, False
    for i in range(d.n):
        off = d.answer_tau[k, i] - rows[3, i] - run.residuals[0, i]
        run.scatter[i] += share * (off * off - run.scatter[i])
        run.residuals[0, i] += share * off
        run.residuals[1, i] += share * (d.answer_tau[k, i] - rows[4, i] - run.residuals[1, i])
        noticed = NOTICED * m.effort_limits[i]
        noise = noticed * noticed + SURE * share * run.scatter[i]
        ours += run.residuals[0, i] * run.residuals[0, i] / noise
        theirs += run.residuals[1, i] * run.residuals[1, i] / noise
        is_fast = is_fast or np.abs(d.qd[i]) > FAST * m.fastest[i]
    if max(ours, theirs) < 1.0:
        return
    had_other = run.has_other_load
    if theirs < ABSENT * ABSENT * ours:
        run.has_other_load = True
        if is_fast and law.m.payload_ratio > 1.0 and law.d.guided == 0.0:
            report_fault(d, m.payload_watchdog, d.now)
    elif ours < ABSENT * ABSENT * theirs:
        run.has_other_load = False
    if run.has_other_load != had_other and replaces_law(d) and d.source != ZERO:
        d.was_blind = -2


@inlined
def answer(law, m, d, now, tau, is_new):
    """Write the torque to send: of the law, tau (n,), or of a reaction; tau may be (0,)."""
    # `is_new`: the state is; else a reaction keeps only the limits of torques and their rates, as
    # nothing is known of the speeds.
    source = put_wanted(m, d, now, tau)
    if source == NONE:
        return
    is_limited = is_new and len(tau) == 0 and source != ZERO and not d.is_blind
    if is_limited:
        limit_wanted(law, m, d)
    send(m, d, now, source)
    if is_limited:
        note_sent(law, d)


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
    is_new = code != REJECTED and d.time != law.d.last_time
    answer(law, m, d, now, view(law.d.tau, 0, (d.n if code == COMPUTED else 0,)), is_new)
    judge_load(law, m, d)
    has_ended = law.replaces and law.run.blend_weight == 0.0
    resumes = code == STOPPED and not is_replaced
    plans = has_ended or code == COMPUTED and law.d.plans
    has_leapt = not before + CLOCK_STEPS[0] <= d.time <= before + OLDEST
    waits = resumes or has_leapt or code < REJECTED or ends(d)
    d.asks = WAITS if waits else PLANS if plans else 0


@inlined
def report(law_d, d):
    """Copy pose, error and force of the first task for a report."""
    assign(view(d.tip_pose, 0, (16,)), view(law_d.task_pose, 0, (16,)))
    assign(d.tip_error, law_d.task_error[0])
    assign(d.tip_F, law_d.level_F[:6])
