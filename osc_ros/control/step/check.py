# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Check: accept or reject a state; find the reaction, and a contact."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.model_error.command_model import put_driver
from osc_ros.control.model_error.contact import NOT_TOUCHED, touched
from osc_ros.control.model_error.observer import observe, put_errors_with_lag, put_noise
from osc_ros.control.safety.causes import replaces_law, REPORT, report_fault
from osc_ros.control.safety.safety import accept, COMPUTED, REJECTED, STOPPED, update
from osc_ros.dynamics.algebra.spatial import assign


@stage
def estimate(controller, driver):
    """Estimate external torques at the newest state, report a contact; return a `touched` code."""
    # `driver` (n,) are the torques that the driver adds [N·m, N].
    law, m, d = controller.law, controller.m, controller.d
    o = law.observer
    for i in range(d.n):
        controller.contact.compensation[i] = law.compensation.torque[i] if law.m.compensates else 0
    was_smoothed, o.memory, dt = o.memory > 0.0, d.velocity_memory, max(d.time - o.time, 0.0)
    observe(o, d.time, d.q, d.qd, d.sent_before, d.sample_effort, driver)
    if was_smoothed or o.memory > 0.0:
        put_errors_with_lag(o, d.velocity_error, law.d.commanded[0], dt)
        put_noise(o, d.q)
    found, contact = touched(controller.contact, o), controller.contact
    learns = contact.learns and d.time < contact.until and d.reaction <= REPORT
    if learns or law.m.is_guided:  # in free drive the user pushes the arm
        found = NOT_TOUCHED
    law.run.in_contact = found != NOT_TOUCHED
    if found != NOT_TOUCHED:
        report_fault(d, m.contact_watchdog, d.now)
    return found


@inlined
def observes_first(law, m):
    """Return whether torques depend on the estimate of external torques at the same state."""
    return law.m.observes and (law.m.compensates or m.reacts_to_contact)


@inlined
def _sense_first(controller, law, d):
    """Estimate the external torques, and detect a contact, before the torques of the law."""
    for i in range(d.n):
        d.sent_before[i] = d.sent[i] if d.has_sent else np.nan
    if law.m.compensates:
        assign(d.load, law.compensation.torque)
    put_driver(law.model, d.q, d.qd, law.d.tau_acting)
    return estimate(controller, law.d.tau_acting)


@inlined
def check(controller, law, m, d):
    """Check a state, find the reaction, and return which torques must be sent."""
    # REJECTED: the state is not plausible. STOPPED: torques of a reaction that is in force or has
    # just ended. COMPUTED: those of the law, which must then be computed.
    d.touch = NOT_TOUCHED
    if not accept(m, d):
        d.has_changed = update(m, d, d.now)
        return REJECTED
    if observes_first(law, m):
        d.touch = _sense_first(controller, law, d)
    d.has_changed = update(m, d, d.now)
    return STOPPED if replaces_law(d) or d.stopped > 0 else COMPUTED


@inlined
def is_repeated(run, d):
    """Return whether the law has had this state: another tick would forget how the arm moved."""
    return run.ticks > 0 and run.tick_time == d.time
