# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled supervisor: checks a joint state, finds the reaction, and writes the torque to send."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel, stage
from osc_ros.control.safety.causes import (
    ABANDONS,
    DEACTIVATE,
    replaces_law,
    REPORT,
    report_fault,
    update_causes,
)
from osc_ros.control.safety.command_check import LONGEST_GAP
from osc_ros.control.safety.prediction import (
    compare_directions,
    forget_states_after,
    predict,
    record_answer,
    record_torque,
)
from osc_ros.control.safety.response import add_resistance, BRISK, examine, watch_response
from osc_ros.control.safety.sample import (
    check_sample,
    CLOCK_STEPS,
    LATE_PERIODS,
    longest_step,
    NUMBERS,
    short_step,
    UNFIT,
)
from osc_ros.control.safety.stopping import (
    begin_source,
    BRAKE,
    GRAVITY,
    HOLD,
    LAW,
    move_anchor,
    NONE,
    put_stop_torque,
    record_way,
    RESUMED,
    RETRACT,
    SOURCE_OF,
    WEIGHT,
    ZERO,
)
from osc_ros.control.safety.supervision import REACTIONS
from osc_ros.control.safety.tables import (
    CAUSES,
    CAUSES_PLAN,
    FAULTS,
    FED,
    GATE,
    GATE_PLAN,
    GATE_RESULT,
    OUTPUT,
    OUTPUT_PLAN,
    PREDICTION,
    RESPONSE,
    ROBOT,
    ROOM,
    SAMPLE,
    STOPPING,
    STOPPING_PLAN,
    TORQUE,
    VELOCITIES,
)
from osc_ros.control.safety.velocity_check import fit_velocities, FITS
from osc_ros.dynamics.algebra.fade import smoothed
from osc_ros.dynamics.algebra.spatial import all_finite
from osc_ros.dynamics.algebra.vectors import any_beyond, assign

LONGEST_TICK = 0.05  # longest time step of a change of limits [s]
# After a change of the clock, a joint farther from its prediction is that of another arm [rad, m].
ELSEWHERE = 0.02
HASTE = 0.1  # factor on `fade_time` while a joint is faster than its limit


@inlined
def advance_limits(settings, blend_time, at, dt):
    """Advance a gradual change of the effort limits by dt [s]; infinite limits change at once."""
    is_new = False
    for i in range(len(at.limits)):
        is_new = is_new or settings.limits[i] != at.limits_wanted[i]
    if is_new:
        at.limits_duration[0], at.limits_age[0] = blend_time, 0.0
        for i in range(len(at.limits)):
            wanted = settings.limits[i]
            both = np.isfinite(at.limits[i]) and np.isfinite(wanted)
            at.limits_wanted[i], at.limits_away[i] = wanted, at.limits[i] - wanted if both else 0.0
    if at.limits_duration[0] > 0.0:
        age = at.limits_age[0] = min(at.limits_age[0] + dt, at.limits_duration[0])
        rest = 1.0 - smoothed(age / at.limits_duration[0])
        for i in range(len(at.limits)):
            at.limits[i] = at.limits_wanted[i] + rest * at.limits_away[i]
        if age >= at.limits_duration[0]:
            at.limits_duration[0] = 0.0


@inlined
def begin_fade(at, duration, tau):
    """Start a fade from the last sent torque to the torque tau (n,) of another source."""
    at.fade_duration[0], at.fade_age[0] = duration, 0.0
    for i in range(len(tau)):
        at.fade_from[i] = at.tau[i] - tau[i]


@inlined
def fade(at, dt, tau):
    """Advance the fade by dt [s], and add its remaining difference to the torque tau (n,)."""
    if at.fade_duration[0] > 0.0:
        age = at.fade_age[0] = min(at.fade_age[0] + dt, at.fade_duration[0])
        rest = 1.0 - smoothed(age / at.fade_duration[0])
        for i in range(len(tau)):
            tau[i] += rest * at.fade_from[i]
        if age >= at.fade_duration[0]:
            at.fade_duration[0] = 0.0


@inlined
def bound(settings, at, dt, tau):
    """Write tau (n,) to `at.tau`, within limits of torque and rate over dt [s]; always finite."""
    for i in range(len(tau)):
        last, limit = at.tau[i], at.limits[i]
        found = min(max(tau[i], -limit), limit)
        if at.has_sent[0] > 0.0 and settings.rates[i] < np.inf:
            step = settings.rates[i] * dt
            found = min(max(found, last - step), last + step)
        at.tau[i] = found if np.isfinite(found) else (last if np.isfinite(last) else 0.0)
    at.has_sent[0] = 1.0


# Codes that a compiled step returns in place of a positive number of solves. STOPPED: the torques
# are those of a reaction, or of one that has just ended. REJECTED: the state is not plausible, and
# torques are sent only if a reaction is in force.
STOPPED, REJECTED = 0, -1
# What the law does after a reaction. REJOINS: its motions continue from the present pose of the
# arm. HOLDS: it holds the pose, so that the arm does not return to the place of a contact.
REJOINS, HOLDS = 1, 2
CHANGED, NEEDED, ENDS = 1, 2, 4  # flags that `watch` returns
AT_REST = 0.01  # a lower speed counts as rest [rad/s, m/s]
PATIENCE = 2.0  # during a deactivation, commands end after this time even if the arm moves [s]
REACTION_GRAVITY, REACTION_ZERO = REACTIONS.index('gravity'), REACTIONS.index('zero')

_robot_views, _gate_plan, _causes_plan, _stopping_plan, _output_plan = (
    table.views for table in (ROBOT, GATE_PLAN, CAUSES_PLAN, STOPPING_PLAN, OUTPUT_PLAN))
_gate_views = GATE.only('is_open', 'time', 'came', 'q', 'qd', 'interval', 'spacing')
_stopping_views, _output_views = STOPPING.views, OUTPUT.views
_causes_views = CAUSES.only('watches', 'cause', 'reaction', 'rests', 'stops', 'is_blind',
                            'given_up', 'stopped')
_prediction_views = PREDICTION.only('is_used', 'is_over', 'at_q', 'at_qd', 'unmodelled')
_records_views = PREDICTION.only('sent', 'sent_times', 'sent_tau', 'answered', 'kept', 'times',
                                 'q', 'qd', 'tau')
_response_views, _room_views = RESPONSE.only('hit'), ROOM.only('wanted', 'unmodelled')
gate_views, state_views = GATE.only('time'), GATE.only('time', 'q', 'qd')
cause_views, output_views = (CAUSES.only('reaction', 'is_blind', 'stopped'),
                             OUTPUT.only('has_sent', 'tau', 'before'))
load_views = STOPPING_PLAN.only('load')
_sample_views, _found_views, _torque_views = SAMPLE.views, GATE_RESULT.views, TORQUE.views
_velocities_views, _fitted_views = VELOCITIES.views, GATE.only(
    'qd', 'changed_time', 'changed_q', 'changed_qd', 'changes', 'is_doubted')


@inlined
def _is_elsewhere(plan, state, n, elapsed):
    """
    Return whether the arm is farther from its last position than it can move in `elapsed` [s].

    Then the last torques were not applied to this arm, and a fade from them would accelerate it.
    So the next torques begin without a fade, as at an activation.

    """
    robot, prediction, gate = (_robot_views(plan, n), _prediction_views(state, n),
                               _gate_views(state, n))
    for i in range(n):
        near = (ELSEWHERE if prediction.is_used[0] > 0.0
                else longest_step(robot, i, elapsed))
        if np.abs(short_step(robot, i, gate.q[i] - prediction.at_q[i])) > near:
            return True
    return False


@inlined
def _report_velocities(plan, state, result, now):
    """Report that velocities do not fit, and the next joint of which this was not reported."""
    n = int(plan[0])
    at, found, is_told = _velocities_views(state, n), _found_views(result, n), True
    for i in range(n):
        if at.kind[i] == FITS:
            continue
        report_fault(_causes_views(state, n), int(_causes_plan(plan, n).of_fault[UNFIT]), now)
        if is_told and at.is_told[i] == 0.0 and found.count[0] < FAULTS:
            row, is_told, at.is_told[i] = found.faults[int(found.count[0])], False, 1.0
            row[0], row[1], row[2] = UNFIT, i, at.kind[i]
            row[3], row[4] = at.figures[i, 0], at.figures[i, 1]
            found.count[0] += 1.0


@kernel
def accept(plan, state, sample, result):
    """
    Return whether a joint state is plausible; report its faults, and store a plausible state.

    `plan`, `state`, `sample` and `result` are records of `osc_ros.control.safety.tables`. In the
    sample, velocities that do not fit the positions are replaced by estimates.

    """
    n = int(plan[0])
    gate, prediction = _gate_views(state, n), _prediction_views(state, n)
    before, came = gate.time[0], gate.came[0]
    if prediction.is_used[0] == 0.0:
        assign(prediction.at_q, gate.q)
    found, causes, settings = _found_views(result, n), _causes_views(state, n), (
        _causes_plan(plan, n))
    given = _sample_views(sample, n)
    now = given.now[0]
    if not fit_velocities(_velocities_views(state, n), _robot_views(plan, n),
                          _fitted_views(state, n), given.time[0], given.q, given.qd):
        found.has_jumped[0] = found.has_frozen[0] = found.count[0] = 0.0
        return False  # too few positions for an estimate
    accepted = check_sample(plan, state, sample, result)
    for k in range(int(found.count[0])):
        report_fault(causes, int(settings.of_fault[int(found.faults[k, 0])]), now)
    _report_velocities(plan, state, result, now)
    if not accepted:
        if found.has_frozen[0] > 0.0:  # the prediction starts at the last state before the freeze
            forget_states_after(_records_views(state, n), gate.time[0])
        return False
    output, stopping = _output_views(state, n), _stopping_views(state, n)
    if found.has_jumped[0] > 0.0:
        output.source[0] = NONE  # so that the next torque fades in from the last one
    if output.source[0] != RETRACT:
        record_way(stopping, _stopping_plan(plan, n).retreat[0], gate.q)
    if gate.time[0] < before + CLOCK_STEPS[0]:
        causes.stopped[0] = HOLDS
        if _is_elsewhere(plan, state, n, now - came):
            output.has_sent[0] = output.fade_duration[0] = 0.0
    causes.is_blind[0] = prediction.is_used[0] = 0.0
    if settings.stale[0] >= 0.0:
        causes.watches[int(settings.stale[0]), FED] = now
    return True


@inlined
def report_contact(plan, state, now):
    """Record a contact at a time [s]."""
    n = int(plan[0])
    report_fault(_causes_views(state, n), int(_causes_plan(plan, n).contact[0]), now)


@inlined
def report_too_near(plan, state, now):
    """Record at a time [s] that a pair is too near."""
    n = int(plan[0])
    report_fault(_causes_views(state, n), int(_causes_plan(plan, n).too_near[0]), now)


@inlined
def _update(plan, state, now):
    """Find the reaction at a time [s]; return whether it or its cause has changed."""
    n = int(plan[0])
    has_changed = update_causes(plan, state, now)
    output = _output_views(state, n)
    if replaces_law(_causes_views(state, n)) and (
            output.source[0] == LAW or output.source[0] == RESUMED):
        # the law fades in again even if the reaction ends before it has sent a torque
        output.source[0] = NONE
    return has_changed


@inlined
def fail(plan, state, now):
    """Record that the law has no torques at a time [s]; return the result of `update`."""
    n = int(plan[0])
    report_fault(_causes_views(state, n), int(_causes_plan(plan, n).of_fault[NUMBERS]), now)
    return _update(plan, state, now)


@kernel
def update(plan, state, now):
    """Find the reaction at a time [s]; return whether it or its cause has changed."""
    return _update(plan, state, now)


@kernel
def watch(plan, state, now, longest):
    """
    Find the reaction while no state has come, at `now` [s] on the clock of the loop.

    Return the sum of CHANGED if the reaction or its cause has changed, NEEDED if `answer` must be
    called now, and ENDS if the commands may have to end. `answer` must be called if a reaction is
    in force and the newest state is older than `longest` [s]; before that, the next state triggers
    the call.

    """
    n = int(plan[0])
    causes, gate = _causes_views(state, n), _gate_views(state, n)
    found = CHANGED if _update(plan, state, now) else 0
    if gate.is_open[0] > 0.0 and replaces_law(causes) and (
            causes.is_blind[0] > 0.0 or now - gate.came[0] > longest):
        found += NEEDED
    return found + ENDS if ends(state, n) else found


@inlined
def ends(state, n):
    """Return whether the arm is being deactivated or was given up, so that commands must end."""
    reaction = _causes_views(state, n).reaction[0]
    return reaction == DEACTIVATE or reaction == ABANDONS


@inlined
def _state_for_stop(state, n):
    """Return q and qd (n,) for stopping: the last accepted state, or the predicted one."""
    prediction, gate = _prediction_views(state, n), _gate_views(state, n)
    if _causes_views(state, n).is_blind[0] > 0.0 and prediction.is_used[0] > 0.0:
        return prediction.at_q, prediction.at_qd
    return gate.q, gate.qd


@inlined
def _source_of_stop(plan, state):
    """Return the source of the torque while the law is replaced, as an index in SOURCES."""
    n = int(plan[0])
    causes, reaction = _causes_views(state, n), int(_causes_views(state, n).reaction[0])
    if reaction == REACTION_ZERO:
        return ZERO
    if reaction == DEACTIVATE:
        _, qd = _state_for_stop(state, n)
        fastest = 0.0
        for i in range(n):
            fastest = max(fastest, np.abs(qd[i]))
        if fastest < AT_REST:
            causes.rests[0] = 1.0
        if causes.rests[0] > 0.0:
            return int(_stopping_plan(plan, n).idle[0])
    if reaction == REACTION_GRAVITY:
        return GRAVITY
    if causes.is_blind[0] > 0.0:
        return WEIGHT if _prediction_views(state, n).is_over[0] > 0.0 else BRAKE
    return int(SOURCE_OF[reaction]) if 0 <= reaction < ABANDONS else HOLD


@stage
def _put_stop(model, plan, state, result, source):
    """Write the torque (n,) of a source to `wanted`; the last sent torque if it is not finite."""
    n = int(plan[0])
    causes, output, own = _causes_views(state, n), _output_views(state, n), (
        _room_views(result, n))
    unmodelled, (q, qd) = own.unmodelled, _state_for_stop(state, n)
    if causes.is_blind[0] > 0.0:  # use the estimate of the prediction
        assign(unmodelled, _prediction_views(state, n).unmodelled)
    else:
        assign(unmodelled, _stopping_plan(plan, n).load)
        if (causes.cause[0] < 0.0 or causes.cause[0] != _causes_plan(plan, n).contact[0]
                ) and any_beyond(qd, _robot_views(plan, n).fastest, BRISK):
            examine(model, plan, state, result)
            add_resistance(model, plan, state, result, q, qd, unmodelled)
    put_stop_torque(model, plan, state, result, source, (q, qd), output.limits, unmodelled)
    if not all_finite(own.wanted):  # overflow, for a position such as 1e200
        assign(own.wanted, output.tau)


@inlined
def _time_step(gate, output, now):
    """
    Time since the last torque [s]: by the stamps, or by the clock without a new state.

    If the stamps advance more slowly than the clock (a slow simulation), the time by the clock is
    multiplied by the ratio of their speeds. The next state then counts its time less this one.

    """
    dt = gate.time[0] - output.time[0]
    if dt != 0.0:
        used, output.unasked[0] = output.unasked[0], 0.0
        return max(dt - used, 0.0) if 0.0 < dt < PATIENCE else 0.0
    dt = (now - output.at[0]) * min(1.0, gate.spacing[0] / gate.interval[0])
    output.unasked[0] += dt
    return dt


@inlined
def _send(model, plan, state, result, now, source, is_of_law):
    """Write the torque of a source; fade from the last torque if the source has changed."""
    n = int(plan[0])
    output, gate, causes = _output_views(state, n), _gate_views(state, n), _causes_views(state, n)
    settings, period, fastest = _output_plan(plan, n), _gate_plan(plan, n).period[0], (
        _robot_views(plan, n).fastest)
    records, is_blind, dt = _records_views(state, n), causes.is_blind[0], _time_step(
        gate, output, now)
    tau = _room_views(result, n).wanted
    for i in range(n):
        output.before[i] = output.tau[i] if output.has_sent[0] > 0.0 else np.nan
    if source != output.source[0]:
        begin_source(plan, state, int(output.source[0]), source, gate.q, gate.qd)
    elif source == RETRACT:
        move_anchor(plan, state, min(dt, LONGEST_TICK))
    advance_limits(settings, _gate_plan(plan, n).blend_time[0], output, min(dt, LONGEST_TICK))
    if not is_of_law:
        _put_stop(model, plan, state, result, source)
    # the predicted state changes much in a gap between calls, so the torque must fade
    is_late = is_blind > 0.0 and dt > LATE_PERIODS * period
    if output.has_sent[0] > 0.0 and (source != output.source[0] or is_late
                                     or is_blind != output.was_blind[0]):
        is_hasty = (is_blind == 0.0 and _response_views(state, n).hit[0] == 0.0
                    and any_beyond(gate.qd, fastest, 1.0))
        is_other = output.was_blind[0] < 0.0 and source == output.source[0] and not is_hasty
        begin_fade(output, _gate_plan(plan, n).blend_time[0] if is_other else
                   settings.fade_time[0] * (HASTE if is_hasty else 1.0), tau)
    is_answer = gate.time[0] != output.time[0] and is_blind == 0.0
    output.was_blind[0], output.source[0] = is_blind, source
    output.time[0], output.at[0] = gate.time[0], now
    # during a gap the joints had the last torque, so the fade advances by one period at most
    fade(output, min(dt, period), tau)
    # after a gap the rate limit allows no more than after LONGEST_GAP intervals
    bound(settings, output, min(dt, LONGEST_GAP * max(gate.spacing[0], period)), tau)
    assign(_torque_views(result, n).tau, output.tau)
    record_torque(records, now, output.tau)
    if is_answer:
        record_answer(records, gate.time[0], gate.q, gate.qd, output.tau)
        compare_directions(model, state, result, fastest)
        if any_beyond(gate.qd, fastest, BRISK):
            watch_response(model, plan, state, result)


@inlined
def _predict(model, plan, state, result, now):
    n = int(plan[0])
    if _causes_views(state, n).is_blind[0] > 0.0 and _output_views(state, n).has_sent[0] > 0.0:
        predict(model, plan, state, result, now)


@inlined
def _put_idle(model, plan, state, result, now):
    """Write to the result the last torque of a deactivation."""
    n = int(plan[0])
    limits, tau = _output_plan(plan, n).limits, _torque_views(result, n).tau
    _predict(model, plan, state, result, now)
    _put_stop(model, plan, state, result, int(_stopping_plan(plan, n).idle[0]))
    wanted = _room_views(result, n).wanted
    for i in range(n):
        tau[i] = min(max(wanted[i], -limits[i]), limits[i])


@kernel
def answer(integers, numbers, memory, plan, state, result, now, tau):
    """
    Write the torque to send: that of the law or of a reaction; return its source.

    tau is the finite torque (n,) of the law, or (0,) if there is none. The source is an index in
    `stopping.SOURCES`. The model's arrays are those of `CommandModel`.

    """
    n, model = int(plan[0]), (integers, numbers, memory)
    if _stopping_plan(plan, n).leaves[0] > 0.0:
        _put_idle(model, plan, state, result, now)
        return int(_stopping_plan(plan, n).idle[0])
    source, causes = int(_output_views(state, n).source[0]), _causes_views(state, n)
    is_of_law = len(tau) == n and not replaces_law(causes)
    if is_of_law:
        # After an interruption the law's first torque is for a long time step, and its second one
        # may differ much. With a source of its own for the first, the torque fades between them.
        source = LAW if source in (NONE, LAW, RESUMED) else RESUMED
        assign(_room_views(result, n).wanted, tau)
    else:
        _predict(model, plan, state, result, now)
        if replaces_law(causes) or source in (NONE, LAW, RESUMED):
            source = _source_of_stop(plan, state)
        # else the reaction has ended: its source continues until the law has a torque
        if causes.reaction[0] > REPORT and causes.is_blind[0] == 0.0:
            is_contact = causes.cause[0] >= 0.0 and causes.cause[0] == _causes_plan(
                plan, n).contact[0]
            causes.stopped[0] = max(causes.stopped[0], HOLDS if is_contact else REJOINS)
    _send(model, plan, state, result, now, source, is_of_law)
    return source
