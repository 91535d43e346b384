# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Plausibility check of a joint state against the last accepted one.

- A state farther away than the joints can move is rejected. If the next state agrees with it, that
  next state is accepted.
- A change of the clock needs CLOCK_STATES consecutive states that agree, because the states of two
  arms may arrive in turn.
- A state with an earlier stamp than the last one is rejected.
- If a state has the stamp of the last one but different contents, its time advances by the time
  since this stamp arrived. If the time is then ahead of the next stamp, it advances by SLOWED
  until the stamps catch up. If no stamp advances for STANDING, this is a fault, and earlier stamps
  are treated in the same way.
- Frozen positions of a moving arm are rejected until a position changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined
from osc_ros.control.safety.tables import CHANGES, GATE, GATE_PLAN, GATE_RESULT, ROBOT, SAMPLE
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

JUMP_FACTOR = 2.0  # multiple of the velocity limit; a faster change of the position is a jump
JUMP_FLOOR = 2e-3  # a smaller step is noise, not a jump [rad, m]
# A state in doubt is confirmed if position step and velocities of the next one differ by at most
# CONFIRMED of the larger one, and by CONFIRMED_FLOOR and the resolution of the positions [rad, m].
CONFIRMED, CONFIRMED_FLOOR = 0.5, 3e-4
CLOCK_STEPS = -1.0, 10.0  # range of stamp steps; outside it the clock was changed [s]
CLOCK_STATES = 10  # number of consecutive states that confirm a change of the clock
STANDING = 0.04  # time without an advancing stamp after which it is a fault [s]
SLOWED = 0.5  # rate of the time while it is ahead of the stamps
LATE_PERIODS = 4.0  # number of mean intervals between states after which a state is missing
INTERVAL_SHARE = 0.125  # weight of the last interval in the mean
# A joint is too fast if its speed exceeds OVERSPEED_TWICE times its limit in two consecutive
# states, or OVERSPEED_ONCE times its limit in one, each plus OVERSPEED_FLOOR for noise
# [rad/s, m/s].
OVERSPEED_TWICE, OVERSPEED_ONCE, OVERSPEED_FLOOR = 1.2, 1.5, 0.05

# Positions are frozen if none changes although a joint should have moved by FROZEN [rad, m] and by
# FROZEN_COUNTS encoder counts. This travel is the time since the last change, at most FROZEN_TIME
# [s], times the speed at that change. The speed is the reported one, at most the mean speed of the
# last FROZEN_TIME, because a driver that differentiates encoder counts may report a multiple. A
# fault is reported only after FROZEN_LONG [s], because a driver may publish more often than its
# hardware measures.
FROZEN, FROZEN_COUNTS, FROZEN_TIME, FROZEN_LONG = 2e-3, 3.0, 0.05, 0.025
ROUNDING = 1e-9  # smaller differences of positions are due to rounding [rad, m]

# flags that `_doubts` returns
_NUMBERS, _STEP, _SPEED, REPEATED, _STUCK = 1, 2, 4, 8, 16
# codes of faults
(STANDS, RUNS_BACK, NUMBERS, CLOCK, STEP, SPEED_STEP, IS_FROZEN, TOO_FAST, UNFIT) = range(9)

_sample_views, _robot_views, _settings_views, _state_views, _result_views = (
    table.views for table in (SAMPLE, ROBOT, GATE_PLAN, GATE, GATE_RESULT))


@inlined
def _doubts(robot, gate, state, time, q, qd):
    """Return the flags of a state that needs further checks; 0 for a state of normal motion."""
    found, is_repeated, is_stuck = 0, True, False
    dt = max(time - state.time[0], gate.period[0])
    lasted = min(time - state.changed_time[0], FROZEN_TIME)
    for i in range(len(q)):
        if not (np.isfinite(q[i]) and np.isfinite(qd[i])):
            return _NUMBERS
        jump = JUMP_FACTOR * robot.fastest[i]
        if not (np.abs(q[i] - state.q[i]) <= JUMP_FLOOR + jump * dt
                and np.abs(qd[i] - state.qd[i]) <= jump):
            found |= _STEP
        if not np.abs(qd[i]) <= state.slack[i]:
            found |= _SPEED
        is_repeated = is_repeated and q[i] == state.changed_q[i]
        is_stuck = is_stuck or np.abs(state.changed_qd[i]) * lasted > FROZEN
    if is_repeated:
        found |= REPEATED | (_STUCK if is_stuck else 0)
    return found


@inlined
def _report(result, code, joint, one, two, three):
    """Add a fault to the result: its code, joint (-1: none) and up to three numbers."""
    row = result.faults[int(result.count[0])]
    row[0], row[1], row[2], row[3], row[4] = code, joint, one, two, three
    result.count[0] += 1.0


@inlined
def _is_regular(dt):
    return CLOCK_STEPS[0] <= dt <= CLOCK_STEPS[1]


def continuous_joints(robot: Robot) -> NDArray[np.bool_]:
    """Return for each joint (n,) whether it is revolute without position limits."""
    return ~(np.isfinite(robot.position_limits).any(axis=1) | robot.prismatic)


@inlined
def longest_step(robot, i, dt):
    """Longest plausible step of a joint in a time [s]: a longer one is a jump."""
    return JUMP_FLOOR + JUMP_FACTOR * robot.fastest[i] * dt


@inlined
def short_step(robot, i, step):
    """Step of a position; for a continuous joint the shorter way round, in [-π, π)."""
    # subtracting whole turns would return 0 for a corrupt step such as 1e300
    return (step + np.pi) % (2.0 * np.pi) - np.pi if robot.turns[i] > 0.0 else step


@inlined
def _timed(sample, state, result):
    """Return the time of a state [s], which advances even if the stamp does not; NaN: reject."""
    before, stamp, now = state.time[0], sample.time[0], sample.now[0]
    if state.is_open[0] == 0.0 or not CLOCK_STEPS[0] <= stamp - before <= 0.0:
        state.stamp[0], state.advanced[0] = stamp, now
        return stamp
    is_same = stamp == state.stamp[0]
    for i in range(len(sample.q)):
        is_same = is_same and sample.q[i] == state.q[i] and sample.qd[i] == state.qd[i]
    if is_same:  # the same state again, for example from a paused simulation
        state.advanced[0] = now
        return before
    is_older, has_advanced = stamp < state.stamp[0], stamp > state.stamp[0]
    lasted = now - state.advanced[0]
    if is_older and lasted <= STANDING:
        return np.nan
    state.stamp[0] = stamp
    if has_advanced:
        state.advanced[0], lasted = now, 0.0
    elif lasted > STANDING:
        _report(result, RUNS_BACK if is_older else STANDS, -1, lasted, stamp, 0.0)
    return max(stamp + lasted, before + SLOWED * (now - state.came[0]))


@inlined
def _resolution(robot, state, i):
    """
    Resolution of the last positions of a joint, such as an encoder count; infinite if unknown.

    It is the smallest of all steps, and of all differences between consecutive steps.

    """
    count = int(min(state.changes[0], CHANGES))
    first, least, last = int(state.changes[0]) - count, np.inf, 0.0
    for k in range(1, count):
        step = short_step(robot, i, state.change_q[(first + k) % CHANGES, i]
                      - state.change_q[(first + k - 1) % CHANGES, i])
        if np.abs(step) > ROUNDING:
            least = min(least, np.abs(step))
        if k > 1 and np.abs(step - last) > ROUNDING:
            least = min(least, np.abs(step - last))
        last = step
    return least


@inlined
def _begin_of_mean(state):
    """Ring index of the positions that the arm had FROZEN_TIME before their last change."""
    count = int(min(state.changes[0], CHANGES))
    first = int(state.changes[0]) - count
    found = first % CHANGES
    for k in range(count):
        at = (first + k) % CHANGES
        if (state.change_times[at] > state.changed_time[0] - FROZEN_TIME
                and state.change_times[at] > state.change_times[found]):
            break
        found = at
    return found


@inlined
def _is_frozen(robot, state, result, time):
    """Return whether repeated positions are frozen, and the arm is not at rest; report it."""
    since = time - state.changed_time[0]
    lasted = min(since, FROZEN_TIME)
    if state.is_at_rest[0] > 0.0:
        return False
    begin = _begin_of_mean(state)
    duration = min(state.changed_time[0] - state.change_times[begin], FROZEN_TIME)
    farthest, joint, fastest, is_moving = 0.0, 0, 0.0, False
    for i in range(len(state.q)):
        speed = np.abs(state.changed_qd[i])
        is_moving = is_moving or speed * lasted > FROZEN
        mean = 0.0
        if duration > 0.0:
            mean = np.abs(short_step(robot, i, state.changed_q[i] - state.change_q[begin, i])
                          ) / duration
        speed = min(speed, mean)
        travel = speed * lasted
        if travel > farthest and travel > FROZEN and (
                travel > FROZEN_COUNTS * _resolution(robot, state, i)):
            farthest, joint, fastest = travel, i, speed
    if not is_moving:
        return False
    if farthest == 0.0:
        # after FROZEN_TIME the result does not change any more, so store it
        state.is_at_rest[0] = 1.0 if lasted == FROZEN_TIME else 0.0
        return False
    if since > FROZEN_LONG:
        _report(result, IS_FROZEN, joint, since, fastest, 0.0)
    if state.is_changed[0] == 0.0:  # go back to the last state before the freeze
        state.time[0], state.came[0] = state.changed_time[0], state.changed_came[0]
        assign(state.q, state.changed_q)
        assign(state.qd, state.changed_qd)
        state.is_changed[0] = result.has_frozen[0] = 1.0
    return True


@inlined
def _jumps(robot, gate, state, result, time, q, qd):
    """Return whether a state cannot follow the last accepted one; report it."""
    dt = time - state.time[0]
    if not _is_regular(dt):
        _report(result, CLOCK, -1, state.time[0], time, 0.0)
        return True
    for code in (STEP, SPEED_STEP):
        worst, joint, went, accepted = 0.0, 0, 0.0, 0.0
        for i in range(len(q)):
            allowed = JUMP_FACTOR * robot.fastest[i]
            if code == STEP:
                step = np.abs(short_step(robot, i, q[i] - state.q[i]))
                allowed = JUMP_FLOOR + allowed * max(dt, gate.period[0])
            else:
                step = np.abs(qd[i] - state.qd[i])
            if step - allowed > worst:
                worst, joint, went, accepted = step - allowed, i, step, allowed
        if worst > 0.0:
            _report(result, code, joint, went, dt, accepted)
            return True
    return False


@inlined
def _contradicts(robot, gate, state, time, q, qd):
    """
    Return whether a state contradicts the last state in doubt.

    It does if the position step from the one to the other is not the mean velocity times dt.

    Any speed is accepted, so that an arm far beyond its velocity limits is braked; but the
    position step must agree with the velocities, and the velocities with each other.

    """
    dt = time - state.doubted_time[0]
    if not _is_regular(dt):
        return True
    longest = max(dt, gate.period[0])
    for i in range(len(q)):
        before = state.doubted_qd[i]
        mean, step = 0.5 * (qd[i] + before), short_step(robot, i, q[i] - state.doubted_q[i])
        count = _resolution(robot, state, i)
        if (np.abs(step - dt * mean) > CONFIRMED_FLOOR + (count if count < JUMP_FLOOR else 0.0)
                + CONFIRMED * max(np.abs(step), np.abs(mean) * longest)
                + np.abs(mean) * (longest - dt)
                or np.abs(qd[i] - before) > JUMP_FACTOR * max(
                    robot.fastest[i], min(np.abs(qd[i]), np.abs(before)))):
            return True
    return False


@inlined
def _withstands(robot, gate, state, result, found, time, q, qd):
    """Return whether a state that `_doubts` has flagged is plausible after all."""
    was_doubted, state.is_doubted[0] = state.is_doubted[0], 0.0
    if found & REPEATED and time >= state.changed_time[0] and _is_frozen(
            robot, state, result, time):
        return False
    if _jumps(robot, gate, state, result, time, q, qd):
        agrees = was_doubted > 0.0 and not _contradicts(robot, gate, state, time, q, qd)
        state.agreed[0] = state.agreed[0] + 1.0 if agrees else 0.0
        if state.agreed[0] < (1 if _is_regular(time - state.time[0]) else CLOCK_STATES):
            state.is_doubted[0], state.doubted_time[0] = 1.0, time
            assign(state.doubted_q, q)
            assign(state.doubted_qd, qd)
            return False
        result.has_jumped[0] = 1.0
    return True


@inlined
def _average(state, interval, spacing):
    """Update the mean interval between arrivals, and the mean interval between stamps [s]."""
    if spacing > 0.0:
        interval = min(interval, LATE_PERIODS * state.interval[0])
        state.interval[0] += INTERVAL_SHARE * (interval - state.interval[0])
        spacing = min(spacing, LATE_PERIODS * state.spacing[0])
        state.spacing[0] += INTERVAL_SHARE * (spacing - state.spacing[0])


@inlined
def _record_change(state, time, now, q, qd):
    state.changed_time[0], state.changed_came[0], state.is_at_rest[0] = time, now, 0.0
    assign(state.changed_q, q)
    assign(state.changed_qd, qd)
    at = int(state.changes[0]) % CHANGES
    state.change_times[at] = time
    assign(state.change_q[at], q)
    state.changes[0] += 1.0
    state.is_changed[0] = 1.0


@inlined
def _put_limits(state, gate, kept):
    """Set the speed limits to those of the plan, or `kept` times the last ones if higher."""
    for i in range(len(state.limits)):
        before = kept * state.limits[i]
        limit = gate.limits[i]
        state.limits[i] = before if np.isfinite(before) and before > limit else limit
        state.slack[i] = OVERSPEED_TWICE * state.limits[i] + OVERSPEED_FLOOR


@inlined
def _check_speeds(gate, state, result, found, qd, now):
    """Compare the speeds with the limits; lowered limits come into force gradually."""
    is_other = False
    for i in range(len(qd)):
        is_other = is_other or state.limits[i] != gate.limits[i]
    if is_other:
        _put_limits(state, gate, np.exp(-(now - state.limits_time[0]) / gate.blend_time[0]))
    state.limits_time[0] = now
    was_fast, state.was_fast[0] = state.was_fast[0], 0.0
    if not (is_other or found & _SPEED):
        return
    worst, joint = 0.0, -1
    for i in range(len(qd)):
        speed = np.abs(qd[i])
        if speed > state.slack[i] and (joint < 0 or speed / state.limits[i] > worst):
            worst, joint = speed / state.limits[i], i
    if joint < 0:
        return
    state.was_fast[0], speed, limit = 1.0, np.abs(qd[joint]), state.limits[joint]
    if was_fast > 0.0 or speed > OVERSPEED_ONCE * limit + OVERSPEED_FLOOR:
        _report(result, TOO_FAST, joint, speed, limit, 0.0)


@inlined
def check_sample(plan, state, sample, result):
    """
    Return whether a joint state is plausible; update the state of the check, and report faults.

    `plan`, `state`, `sample` and `result` are records of `osc_ros.control.safety.tables`.

    """
    n = int(plan[0])
    robot, gate, at = _robot_views(plan, n), _settings_views(plan, n), _state_views(state, n)
    given, found = _sample_views(sample, n), _result_views(result, n)
    found.has_jumped[0] = found.has_frozen[0] = found.count[0] = 0.0
    now, q, qd, is_open = given.now[0], given.q, given.qd, at.is_open[0] > 0.0
    time = _timed(given, at, found)
    if np.isnan(time) and not np.isnan(given.time[0]):
        return False
    bits = _doubts(robot, gate, at, time, q, qd)
    if bits & _NUMBERS:
        _report(found, NUMBERS, -1, 0.0, 0.0, 0.0)
        return False
    if is_open and (bits & (_STEP | _STUCK) or not _is_regular(time - at.time[0])
                    ) and not _withstands(robot, gate, at, found, bits, time, q, qd):
        return False
    at.is_doubted[0] = 0.0
    is_again = is_open and time == at.time[0]
    is_changed = not (bits & REPEATED and is_open and time >= at.changed_time[0])
    if is_open:
        _average(at, now - at.came[0], time - at.time[0])
    at.is_open[0], at.time[0], at.came[0], at.is_changed[0] = 1.0, time, now, 0.0
    assign(at.q, q)
    assign(at.qd, qd)
    if is_changed:
        _record_change(at, time, now, q, qd)
    if not is_again:  # a repeated state must not count as two states that are too fast
        _check_speeds(gate, at, found, bits, qd, now)
    return True
