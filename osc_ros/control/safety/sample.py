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
from osc_ros.control.data import CHANGES
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

JUMP_FACTOR = 2.0  # multiple of the velocity limit; a faster change of the position is a jump
# A smaller step is noise, not a jump [rad, m]; so are NOISE_STEPS times `noise_steps` more.
JUMP_FLOOR, NOISE_STEPS = 2e-3, 5.0
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
UNSURE = 3.0  # errors of an estimated velocity that do not count
ROUNDING = 1e-9  # smaller differences of positions are due to rounding [rad, m]

# flags that `_doubts` returns
_NUMBERS, _STEP, _SPEED, REPEATED, _STUCK = 1, 2, 4, 8, 16
# codes of faults
(STANDS, RUNS_BACK, NUMBERS, CLOCK, STEP, SPEED_STEP, IS_FROZEN, TOO_FAST, UNFIT) = range(9)


@inlined
def _doubts(m, d, time, q, qd):
    """Return the flags of a state that needs further checks; 0 for a state of normal motion."""
    found, is_repeated, is_stuck = 0, True, False
    dt = max(time - d.time, m.period)
    lasted = min(time - d.changed_time, FROZEN_TIME)
    for i in range(len(q)):
        if not (np.isfinite(q[i]) and np.isfinite(qd[i])):
            return _NUMBERS
        jump = JUMP_FACTOR * m.fastest[i]
        if not (np.abs(q[i] - d.q[i]) <= longest_step(m, d, i, dt)
                and np.abs(qd[i] - d.qd[i]) <= jump):
            found |= _STEP
        if not np.abs(qd[i]) <= d.speed_slack[i]:
            found |= _SPEED
        is_repeated = is_repeated and q[i] == d.changed_q[i]
        is_stuck = is_stuck or np.abs(d.changed_qd[i]) * lasted > FROZEN
    if is_repeated:
        found |= REPEATED | (_STUCK if is_stuck else 0)
    return found


@inlined
def report(d, code, joint, one, two, three):
    """Add a fault to the result: its code, joint (-1: none) and up to three numbers."""
    row = d.faults[d.fault_count]
    row[0], row[1], row[2], row[3], row[4] = code, joint, one, two, three
    d.fault_count += 1


@inlined
def _is_regular(dt):
    return CLOCK_STEPS[0] <= dt <= CLOCK_STEPS[1]


def continuous_joints(robot: Robot) -> NDArray[np.bool_]:
    """Return for each joint (n,) whether it is revolute without position limits."""
    return ~(np.isfinite(robot.position_limits).any(axis=1) | robot.prismatic)


@inlined
def resolution(d, i):
    """Resolution of the positions of a joint, or steps with the variance of their noise."""
    return max(d.steps[i], d.noise_steps[i])


@inlined
def longest_step(m, d, i, dt):
    """Longest plausible step of a joint in a time [s]: a longer one is a jump."""
    return JUMP_FLOOR + NOISE_STEPS * d.noise_steps[i] + JUMP_FACTOR * m.fastest[i] * dt


@inlined
def short_step(m, i, step):
    """Step of a position; for a continuous joint the shorter way round, in [-π, π)."""
    # subtracting whole turns would return 0 for a corrupt step such as 1e300
    return (step + np.pi) % (2.0 * np.pi) - np.pi if m.turns[i] else step


@inlined
def _timed(d):
    """Return the time of a state [s], which advances even if the stamp does not; NaN: reject."""
    before, stamp, now = d.time, d.sample_time, d.now
    if not d.is_open or not CLOCK_STEPS[0] <= stamp - before <= 0.0:
        d.stamp, d.advanced = stamp, now
        return stamp
    is_same = stamp == d.stamp
    for i in range(d.n):
        is_same = is_same and d.sample_q[i] == d.changed_q[i] and d.sample_qd[i] == d.qd[i]
    if is_same:  # the same state again, for example from a paused simulation
        d.advanced = now
        return before
    is_older, has_advanced = stamp < d.stamp, stamp > d.stamp
    lasted = now - d.advanced
    if is_older and lasted <= STANDING:
        return np.nan
    d.stamp = stamp
    if has_advanced:
        d.advanced, lasted = now, 0.0
    elif lasted > STANDING:
        report(d, RUNS_BACK if is_older else STANDS, -1, lasted, stamp, 0.0)
    return max(stamp + lasted, before + SLOWED * (now - d.came))


@inlined
def _resolution(m, d, i):
    """Resolution of the last positions of a joint, such as an encoder count; inf: unknown."""
    # It is the smallest of all steps, and of all differences between consecutive steps.
    count = min(d.changes, CHANGES)
    first, least, last = d.changes - count, np.inf, 0.0
    for k in range(1, count):
        step = short_step(m, i, d.change_q[(first + k) % CHANGES, i]
                      - d.change_q[(first + k - 1) % CHANGES, i])
        if np.abs(step) > ROUNDING:
            least = min(least, np.abs(step))
        if k > 1 and np.abs(step - last) > ROUNDING:
            least = min(least, np.abs(step - last))
        last = step
    return least


@inlined
def _begin_of_mean(d):
    """Ring index of the positions that the arm had FROZEN_TIME before their last change."""
    count = min(d.changes, CHANGES)
    first = d.changes - count
    found = first % CHANGES
    for k in range(count):
        at = (first + k) % CHANGES
        if (d.change_times[at] > d.changed_time - FROZEN_TIME
                and d.change_times[at] > d.change_times[found]):
            break
        found = at
    return found


@inlined
def _is_frozen(m, d, time):
    """Return whether repeated positions are frozen, and the arm is not at rest; report it."""
    since = time - d.changed_time
    lasted = min(since, FROZEN_TIME)
    if d.is_at_rest:
        return False
    begin = _begin_of_mean(d)
    duration = min(d.changed_time - d.change_times[begin], FROZEN_TIME)
    farthest, joint, fastest, is_moving, count = 0.0, 0, 0.0, False, 0
    for i in range(d.n):
        speed = max(np.abs(d.changed_qd[i]) - UNSURE * d.velocity_error[i], 0.0)
        is_moving = is_moving or speed * lasted > FROZEN
        mean = 0.0
        if duration > 0.0:
            mean = np.abs(short_step(m, i, d.changed_q[i] - d.change_q[begin, i])
                          ) / duration
        speed = min(speed, mean)
        travel = speed * lasted
        if travel > FROZEN and travel > FROZEN_COUNTS * _resolution(m, d, i):
            count += 1
            if travel > farthest:
                farthest, joint, fastest = travel, i, speed
    if not is_moving:
        return False
    if farthest == 0.0 or count == 1 and d.velocity_error[joint] > 0.0:
        # friction may stop one joint, which an estimated velocity shows late;
        # after FROZEN_TIME the result does not change any more, so store it
        d.is_at_rest = lasted == FROZEN_TIME
        return False
    if since > FROZEN_LONG:
        report(d, IS_FROZEN, joint, since, fastest, 0.0)
    if not d.is_changed:  # go back to the last state before the freeze
        d.time, d.came = d.changed_time, d.changed_came
        assign(d.q, d.changed_q)
        assign(d.qd, d.changed_qd)
        d.is_changed = d.has_frozen = True
    return True


@inlined
def _jumps(m, d, time, q, qd):
    """Return whether a state cannot follow the last accepted one; report it."""
    dt = time - d.time
    if not _is_regular(dt):
        report(d, CLOCK, -1, d.time, time, 0.0)
        return True
    for code in (STEP, SPEED_STEP):
        worst, joint, went, accepted = 0.0, 0, 0.0, 0.0
        for i in range(len(q)):
            allowed = JUMP_FACTOR * m.fastest[i]
            if code == STEP:
                step = np.abs(short_step(m, i, q[i] - d.changed_q[i]))  # d.q may be smoothed
                allowed = longest_step(m, d, i, max(dt, m.period))
            else:
                step = np.abs(qd[i] - d.qd[i])
            if step - allowed > worst:
                worst, joint, went, accepted = step - allowed, i, step, allowed
        if worst > 0.0:
            report(d, code, joint, went, dt, accepted)
            return True
    return False


@inlined
def _contradicts(m, d, time, q, qd):
    """Return whether a state contradicts the last state in doubt."""
    # The position step must be the mean velocity times dt, and the velocities must agree with each
    # other. Any speed is accepted, so that an arm far beyond its velocity limits is braked.
    dt = time - d.doubted_time
    if not _is_regular(dt):
        return True
    longest = max(dt, m.period)
    for i in range(len(q)):
        before = d.doubted_qd[i]
        mean, step = 0.5 * (qd[i] + before), short_step(m, i, q[i] - d.doubted_q[i])
        count = _resolution(m, d, i)
        if (np.abs(step - dt * mean) > CONFIRMED_FLOOR + (count if count < JUMP_FLOOR else 0.0)
                + NOISE_STEPS * d.noise_steps[i]
                + CONFIRMED * max(np.abs(step), np.abs(mean) * longest)
                + np.abs(mean) * (longest - dt)
                or np.abs(qd[i] - before) > JUMP_FACTOR * max(
                    m.fastest[i], min(np.abs(qd[i]), np.abs(before)))):
            return True
    return False


@inlined
def _withstands(m, d, found, time, q, qd):
    """Return whether a state that `_doubts` has flagged is plausible after all."""
    was_doubted, d.is_doubted = d.is_doubted, False
    if found & REPEATED and time >= d.changed_time and _is_frozen(
            m, d, time):
        return False
    if _jumps(m, d, time, q, qd):
        agrees = was_doubted and not _contradicts(m, d, time, q, qd)
        d.agreed = d.agreed + 1 if agrees else 0
        if d.agreed < (1 if _is_regular(time - d.time) else CLOCK_STATES):
            d.is_doubted, d.doubted_time = True, time
            assign(d.doubted_q, q)
            assign(d.doubted_qd, qd)
            return False
        d.has_jumped = True
    return True


@inlined
def _average(d, interval, spacing):
    """Update the mean interval between arrivals, and the mean interval between stamps [s]."""
    if spacing > 0.0:
        interval = min(interval, LATE_PERIODS * d.interval)
        d.interval += INTERVAL_SHARE * (interval - d.interval)
        spacing = min(spacing, LATE_PERIODS * d.spacing)
        d.spacing += INTERVAL_SHARE * (spacing - d.spacing)


@inlined
def _record_change(d, time, now, q, qd):
    d.changed_time, d.changed_came, d.is_at_rest = time, now, False
    assign(d.changed_q, q)
    assign(d.changed_qd, qd)
    at = d.changes % CHANGES
    d.change_times[at] = time
    assign(d.change_q[at], q)
    d.changes += 1
    d.is_changed = True


@inlined
def _put_limits(m, d, kept):
    """Set the speed limits to those of the settings, or `kept` times the last ones if higher."""
    for i in range(d.n):
        before = kept * d.speed_limits[i]
        limit = m.speed_limits[i]
        d.speed_limits[i] = before if np.isfinite(before) and before > limit else limit
        d.speed_slack[i] = OVERSPEED_TWICE * d.speed_limits[i] + OVERSPEED_FLOOR


@inlined
def _check_speeds(m, d, found, qd, now):
    """Compare the speeds with the limits; lowered limits come into force gradually."""
    is_other = False
    for i in range(len(qd)):
        is_other = is_other or d.speed_limits[i] != m.speed_limits[i]
    if is_other:
        _put_limits(m, d, np.exp(-(now - d.speed_time) / m.blend_time))
    d.speed_time = now
    was_fast, d.was_fast = d.was_fast, False
    if not (is_other or found & _SPEED):
        return
    worst, joint = 0.0, -1
    for i in range(len(qd)):
        speed = np.abs(qd[i])
        if speed > d.speed_slack[i] and (joint < 0 or speed / d.speed_limits[i] > worst):
            worst, joint = speed / d.speed_limits[i], i
    if joint < 0:
        return
    d.was_fast, speed, limit = True, np.abs(qd[joint]), d.speed_limits[joint]
    if was_fast or speed > OVERSPEED_ONCE * limit + OVERSPEED_FLOOR:
        report(d, TOO_FAST, joint, speed, limit, 0.0)


@inlined
def check_sample(m, d):
    """Return whether the sample is plausible; then it is the state in force. Report faults."""
    d.has_jumped, d.has_frozen, d.fault_count = False, False, 0
    now, q, qd, is_open = d.now, d.sample_q, d.sample_qd, d.is_open
    time = _timed(d)
    if np.isnan(time) and not np.isnan(d.sample_time):
        return False
    bits = _doubts(m, d, time, q, qd)
    if bits & _NUMBERS:
        report(d, NUMBERS, -1, 0.0, 0.0, 0.0)
        return False
    if is_open and (bits & (_STEP | _STUCK) or not _is_regular(time - d.time)
                    ) and not _withstands(m, d, bits, time, q, qd):
        return False
    d.is_doubted = False
    is_again = is_open and time == d.time
    is_changed = not (bits & REPEATED and is_open and time >= d.changed_time)
    if is_open:
        _average(d, now - d.came, time - d.time)
    d.is_open, d.time, d.came, d.is_changed = True, time, now, False
    assign(d.q, q)
    assign(d.qd, qd)
    if is_changed:
        _record_change(d, time, now, q, qd)
    if not is_again:  # a repeated state must not count as two states that are too fast
        _check_speeds(m, d, bits, qd, now)
    return True
