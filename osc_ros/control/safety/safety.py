# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled supervisor: checks a joint state, finds the reaction, and writes the torque to send."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel, stage
from osc_ros.control.data import FAULTS
from osc_ros.control.safety.causes import (
    ABANDONS,
    DEACTIVATE,
    replaces_law,
    REPORT,
    report_fault,
    update_causes,
)
from osc_ros.control.safety.response import add_resistance, BRISK, examine, watch_response
from osc_ros.control.safety.sample import (
    check_sample,
    CLOCK_STEPS,
    JUMP_FACTOR,
    LATE_PERIODS,
    longest_step,
    NUMBERS,
    report,
    short_step,
    TOO_FAST,
    UNFIT,
)
from osc_ros.control.safety.stopping import (
    begin_source,
    BRAKE,
    compare_directions,
    forget_states_after,
    GRAVITY,
    HOLD,
    LAW,
    move_anchor,
    NONE,
    predict,
    put_stop_torque,
    record_answer,
    record_torque,
    record_way,
    RESUMED,
    RETRACT,
    SOURCE_OF,
    WEIGHT,
    ZERO,
)
from osc_ros.control.safety.supervision import REACTIONS
from osc_ros.control.safety.velocity_check import (
    bound_velocities,
    fit_velocities,
    FITS,
    JUMPED,
    put_velocity_errors,
    smooth_positions,
)
from osc_ros.dynamics.algebra.spatial import (
    all_finite,
    any_beyond,
    assign,
    move_towards,
    smoothed,
    step_share,
)

LONGEST_TICK = 0.05  # longest time step of a change of limits [s]
# After a change of the clock, a joint farther from its prediction is that of another arm [rad, m].
ELSEWHERE = 0.02
# Shares of the speed limit between which what remains of a fade stops driving a joint.
UNDRIVEN = 1.0, 1.2
HASTE = 0.1  # factor on `fade_time` while a joint is faster than its limit


@inlined
def advance_limits(m, d, dt):
    """Advance a gradual change of the effort limits by dt [s]; infinite limits change at once."""
    for i in range(d.n):
        if m.effort_limits[i] != d.effort_wanted[i]:
            d.effort_wanted[i], d.effort_age = m.effort_limits[i], 0.0
    if d.effort_age <= m.blend_time:
        share = step_share(d.effort_age, dt, m.blend_time, False)
        d.effort_age += dt
        move_towards(d.effort_limits, d.effort_wanted, share)


@inlined
def begin_fade(d, duration):
    """Start a fade from the last sent torque to the wanted torque of another source."""
    d.fade_duration, d.fade_age = duration, 0.0
    for i in range(d.n):
        d.fade_from[i] = d.sent[i] - d.wanted[i]


@inlined
def fade(m, d, dt):
    """Advance the fade by dt [s], and add its remaining difference to the wanted torque."""
    # It belongs to the state in which it began: it drives no joint that is too fast (UNDRIVEN).
    if d.fade_duration > 0.0:
        age = d.fade_age = min(d.fade_age + dt, d.fade_duration)
        rest = 1.0 - smoothed(age / d.fade_duration)
        for i in range(d.n):
            part = rest * d.fade_from[i]
            if part * d.qd[i] > 0.0:
                fast = np.abs(d.qd[i]) / m.fastest[i]
                part *= 1.0 - smoothed((fast - UNDRIVEN[0]) / (UNDRIVEN[1] - UNDRIVEN[0]))
            d.wanted[i] += part
        if age >= d.fade_duration:
            d.fade_duration = 0.0


@inlined
def bound(m, d, dt):
    """Send the wanted torque, within limits of torque and rate over dt [s]; always finite."""
    for i in range(d.n):
        last, limit = d.sent[i], d.effort_limits[i]
        found = min(max(d.wanted[i], -limit), limit)
        if d.has_sent and m.effort_rates[i] < np.inf:
            step = m.effort_rates[i] * dt
            found = min(max(found, last - step), last + step)
        d.sent[i] = found if np.isfinite(found) else (last if np.isfinite(last) else 0.0)
    d.has_sent = True


# Codes that a compiled step returns. COMPUTED: the torques are those of the law. STOPPED: they are
# those of a reaction, or of one that has just ended. REJECTED: the state is not plausible, and
# torques are sent only if a reaction is in force.
COMPUTED, STOPPED, REJECTED = 1, 0, -1
# What the law does after a reaction. REJOINS: its motions continue from the present pose of the
# arm. HOLDS: it holds the pose, so that the arm does not return to the place of a contact.
REJOINS, HOLDS = 1, 2
AT_REST = 0.01  # a lower speed counts as rest [rad/s, m/s]
PATIENCE = 2.0  # during a deactivation, commands end after this time even if the arm moves [s]
REACTION_GRAVITY, REACTION_ZERO = REACTIONS.index('gravity'), REACTIONS.index('zero')


@inlined
def _is_elsewhere(m, d, elapsed):
    """Return whether the arm is farther from its last position than it can move in `elapsed`."""
    # Then the last torques were not applied to this arm, and a fade from them would accelerate it.
    # So the next torques begin without a fade, as at an activation.
    for i in range(d.n):
        near = ELSEWHERE if d.predicts else longest_step(m, d, i, elapsed)
        if np.abs(short_step(m, i, d.q[i] - d.predicted_q[i])) > near:
            return True
    return False


@inlined
def _report_velocities(m, d):
    """Report that velocities do not fit, and the next joint of which this was not reported."""
    is_told = True
    for i in range(d.n):
        if d.velocity_kind[i] == FITS:
            continue
        report_fault(d, m.fault_watchdog[UNFIT], d.now)
        if is_told and d.is_told[i] == 0 and d.fault_count < FAULTS:
            row, is_told, d.is_told[i] = d.faults[d.fault_count], False, 1
            row[0], row[1], row[2] = UNFIT, i, d.velocity_kind[i]
            row[3], row[4] = d.kind_figures[i, 0], d.kind_figures[i, 1]
            d.fault_count += 1


@kernel
def accept(m, d):
    """Return whether the sample is plausible; report its faults, and store a plausible state."""
    # Velocities of the sample that do not fit the positions are bounded, divided or replaced. If
    # they are estimates from coarse positions, the positions are stored smoothed.
    before, came = d.time, d.came
    if not d.predicts:
        assign(d.predicted_q, d.q)
    if not fit_velocities(m, d, d.sample_time, d.sample_q, d.sample_qd):
        d.has_jumped, d.has_frozen, d.fault_count = False, False, 0
        return False  # too few positions for an estimate
    joint, jump = bound_velocities(m, d, d.sample_q, d.sample_qd)
    put_velocity_errors(d, d.sample_q, d.sample_qd)
    too_fast = m.fault_watchdog[TOO_FAST]
    if d.replaced_at == d.now and too_fast >= 0:
        d.seen[too_fast] = -np.inf  # the speed was that of wrong velocities
    accepted = check_sample(m, d)
    if joint >= 0:
        report(d, UNFIT, joint, JUMPED, jump, JUMP_FACTOR * m.fastest[joint])
    for k in range(d.fault_count):
        report_fault(d, m.fault_watchdog[int(d.faults[k, 0])], d.now)
    _report_velocities(m, d)
    if not accepted:
        if d.has_frozen:  # the prediction starts at the last state before the freeze
            forget_states_after(d, d.time)
        return False
    smooth_positions(m, d, d.q)
    if d.has_jumped:
        d.source = NONE  # so that the next torque fades in from the last one
    if d.source != RETRACT:
        record_way(d, m.retreat, d.q)
    if d.time < before + CLOCK_STEPS[0]:
        d.stopped = HOLDS
        if _is_elsewhere(m, d, d.now - came):
            d.has_sent, d.fade_duration = False, 0.0
    d.is_blind = d.predicts = False
    if m.stale_watchdog >= 0:
        d.fed[m.stale_watchdog] = d.now
    return True


@inlined
def _update(m, d, now):
    """Find the reaction at a time [s]; return whether it or its cause has changed."""
    has_changed = update_causes(m, d, now)
    if replaces_law(d) and (d.source == LAW or d.source == RESUMED):
        # the law fades in again even if the reaction ends before it has sent a torque
        d.source = NONE
    return has_changed


@inlined
def fail(m, d, now):
    """Record that the law has no torques at a time [s]; return the result of `update`."""
    report_fault(d, m.fault_watchdog[NUMBERS], now)
    return _update(m, d, now)


@kernel
def update(m, d, now):
    """Find the reaction at a time [s]; return whether it or its cause has changed."""
    return _update(m, d, now)


@inlined
def ends(d):
    """Return whether the arm is being deactivated or was given up, so that commands must end."""
    return d.reaction == DEACTIVATE or d.reaction == ABANDONS


@inlined
def _state_for_stop(d):
    """Return q and qd (n,) for stopping: the last accepted state, or the predicted one."""
    if d.is_blind and d.predicts:
        return d.predicted_q, d.predicted_qd
    return d.q, d.qd


@inlined
def _source_of_stop(m, d):
    """Return the source of the torque while the law is replaced, as an index in SOURCES."""
    if d.reaction == REACTION_ZERO:
        return ZERO
    if d.reaction == DEACTIVATE:
        _, qd = _state_for_stop(d)
        fastest = 0.0
        for i in range(d.n):
            fastest = max(fastest, np.abs(qd[i]))
        if fastest < AT_REST:
            d.rests = True
        if d.rests:
            return m.idle_source
    if d.reaction == REACTION_GRAVITY:
        return GRAVITY
    if d.is_blind:
        return WEIGHT if d.is_over else BRAKE
    return int(SOURCE_OF[d.reaction]) if 0 <= d.reaction < ABANDONS else HOLD


@stage
def _put_stop(m, d, source):
    """Write the torque of a source to `wanted`; the last sent torque if it is not finite."""
    q, qd = _state_for_stop(d)
    if d.is_blind:  # use the estimate of the prediction
        assign(d.stop_load, d.predicted_load)
    else:
        assign(d.stop_load, d.load)
        if (d.cause < 0 or d.cause != m.contact_watchdog) and any_beyond(qd, m.fastest, BRISK):
            examine(m, d)
            add_resistance(m, d, q, qd, d.stop_load)
    put_stop_torque(m, d, source, q, qd)
    if not all_finite(d.wanted):  # overflow, for a position such as 1e200
        assign(d.wanted, d.sent)


@inlined
def _time_step(d, now):
    """Time since the last torque [s]: by the stamps, or by the clock without a new state."""
    # If the stamps advance more slowly than the clock (a slow simulation), the time by the clock
    # is multiplied by the ratio of their speeds. The next state counts its time less this one.
    dt = d.time - d.sent_time
    if dt != 0.0:
        used, d.unasked = d.unasked, 0.0
        return max(dt - used, 0.0) if 0.0 < dt < PATIENCE else 0.0
    dt = (now - d.sent_at) * min(1.0, d.spacing / d.interval)
    d.unasked += dt
    return dt


@inlined
def _put_wanted(m, d, source, dt, is_of_law):
    """Advance the motion of a source; write its torque, without fade, if it is a reaction."""
    if source != d.source:
        begin_source(m, d, d.source, source, d.q, d.qd)
    elif source == HOLD and any_beyond(d.qd, m.fastest, 1.0):
        begin_source(m, d, NONE, source, d.q, d.qd)  # limits let it stop farther away
    elif source == RETRACT:
        move_anchor(m, d, dt)
    advance_limits(m, d, dt)
    if not is_of_law:
        _put_stop(m, d, source)


@inlined
def _begin_fade_if_other(m, d, now, source, dt):
    """Fade from the last torque if the source, the model or the state is another one."""
    is_blind = d.is_blind
    # the predicted state changes much in a gap between calls, so the torque must fade
    is_late = is_blind and dt > LATE_PERIODS * m.period
    was_wrong = d.replaced_at == d.now and d.fade_duration > 0.0
    if d.has_sent and (source != d.source or is_late or was_wrong
                       or d.was_blind != (1 if is_blind else 0)):
        # torques of wrong velocities must not last either
        is_hasty = not is_blind and (d.hit == 0 and any_beyond(d.qd, m.fastest, 1.0)
                                     or now - d.replaced_at < m.fade_time)
        is_other = d.was_blind == -1 and source == d.source and not is_hasty
        begin_fade(d, m.blend_time if is_other else
                   m.fade_time * (HASTE if is_hasty else 1.0))


@inlined
def _record(m, d, now, is_answer):
    """Store the torque that is sent, for predictions and for watching how the joints respond."""
    record_torque(d, now, d.sent)
    if is_answer:
        record_answer(d, d.time, d.q, d.qd, d.sent)
        compare_directions(m, d)
        if any_beyond(d.qd, m.fastest, BRISK):
            watch_response(m, d)


@inlined
def _put_faded(m, d, now, source, is_of_law):
    """Write the wanted torque of a source, faded from the last one."""
    dt = d.elapsed = _time_step(d, now)
    for i in range(d.n):
        d.sent_before[i] = d.sent[i] if d.has_sent else np.nan
    _put_wanted(m, d, source, min(dt, LONGEST_TICK), is_of_law)
    _begin_fade_if_other(m, d, now, source, dt)
    # during a gap the joints had the last torque, so the fade advances by one period at most
    fade(m, d, min(dt, m.period))


@kernel
def send(m, d, now, source):
    """Write the torque to send, of a source: the wanted one within limits of torque and rate."""
    dt = d.elapsed
    is_answer = d.time != d.sent_time and not d.is_blind
    d.was_blind, d.source, d.sent_time, d.sent_at = 1 if d.is_blind else 0, source, d.time, now
    # after a gap, or if the stamps jump ahead, the rate limit allows no more than after one period
    bound(m, d, min(dt, max(d.spacing, m.period)))
    assign(d.tau, d.sent)
    _record(m, d, now, is_answer)


@inlined
def _predict(m, d, now):
    if d.is_blind and d.has_sent:
        predict(m, d, now)


@inlined
def _put_idle(m, d, now):
    """Write to the result the last torque of a deactivation."""
    _predict(m, d, now)
    _put_stop(m, d, m.idle_source)
    for i in range(d.n):
        d.tau[i] = min(max(d.wanted[i], -m.effort_limits[i]), m.effort_limits[i])


@kernel
def put_wanted(m, d, now, tau):
    """Write the torque of the law or a reaction, faded, to `wanted`; return its source."""
    # tau: the finite torque (n,) of the law, or (0,) if there is none. The source is an index in
    # `SOURCES`, for `send`; after the final stop NONE: `tau` of D has the torque already.
    source = d.source
    if d.leaves:
        _put_idle(m, d, now)
        return NONE
    is_of_law = len(tau) == d.n and not replaces_law(d)
    if is_of_law:
        # After an interruption the law's first torque is for a long time step, and its second one
        # may differ much. With a source of its own for the first, the torque fades between them.
        source = LAW if source in (NONE, LAW, RESUMED) else RESUMED
        assign(d.wanted, tau)
    else:
        _predict(m, d, now)
        if replaces_law(d) or source in (NONE, LAW, RESUMED):
            source = _source_of_stop(m, d)
        # else the reaction has ended: its source continues until the law has a torque
        if d.reaction > REPORT and not d.is_blind:
            is_contact = d.cause >= 0 and d.cause == m.contact_watchdog
            d.stopped = max(d.stopped, HOLDS if is_contact else REJOINS)
    _put_faded(m, d, now, source, is_of_law)
    return source
