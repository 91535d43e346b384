# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Compiled computation of a task's target from records: a motion plus an offset.

`osc_ros.control.setpoint.set_point_generator.SetPointGenerator` defines both, and owns the knots
of a path. Python makes the next PLAN while states are answered, for the state that the target will
have at a time a little ahead; the first tick at or after that time takes it over. If Python is
late, the target continues on the present plan, and comes to rest at its end.

The phase of a motion: its time passes at a rate, 1 at full speed, and one reason rules the rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import numbers_at
from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.compile.record_type import FLOATS, Slot, Table
from osc_ros.control.setpoint.pieces import add_offset, PIECES, put_displaced, put_state
from osc_ros.control.tasks.feedback import axes_of, guided_by_link
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    assign,
    at_most,
    compose,
    damped,
    dot,
    exponential,
    rotation_of,
    rotation_vector,
    sub,
    transpose,
    unrotate,
    vector_at,
    ZERO,
)

SETTLED = 1e-9  # deviation of the rate from its goal that is neglected
SLOWEST_STOP = 0.1  # least rate from which a stop uses all of the acceleration limit
# Reasons for a rate: full speed or a stop; speed override; a joint lags; near pairs take motion.
FULL, OVERRIDE, LAG, NEAR = range(4)

PHASE = (
    Slot('rate', (), '', 'rate at which the time of the motion passes; negative: it runs back'),
    Slot('rate_slope', (), '1/s', 'time derivative of `rate`'),
    Slot('goal_rate', (), '', 'rate that the present one approaches'),
    Slot('reason', (), '', 'what rules the rate: FULL, OVERRIDE, LAG, NEAR', int),
    Slot('override', (), '', 'speed override of the last tick, 0 to 1'),
    Slot('calm', (), 's', 'time constant with which the rate follows the speed override'),
    Slot('stops', (), '', 'whether this motion only comes to rest: then the speed override does '
         'not change its rate', bool))


@inlined
def put_goal_rate(at, override, allowed, reason):
    """Write the goal of the rate and its reason: the speed override, or less if allowed less."""
    # A `reason` that has allowed less rules until the rate is back.
    wanted = at.rate if at.stops else override
    if allowed < wanted and not at.stops:
        wanted, at.reason = allowed, reason
    elif at.reason <= OVERRIDE or at.rate >= override:
        at.reason = OVERRIDE if wanted < 1.0 and not at.stops else FULL
    at.goal_rate = wanted


@inlined
def advance_rate(at, settling, dt):
    """Move the rate to its goal, critically damped; return the time that the motion passes [s]."""
    # `settling`: time constant if the goal is not the speed override [s]
    before, wanted, time = at.rate, at.goal_rate, settling if at.reason > OVERRIDE else at.calm
    if before != wanted or at.rate_slope != 0.0:
        rate, slope = damped(before, at.rate_slope, wanted, time, dt)
        least = min(wanted, before, 0.0)
        if rate < least or rate > 1.0:
            rate, slope = min(max(rate, least), 1.0), 0.0
        elif abs(rate - wanted) + time * abs(slope) < SETTLED:
            rate, slope = wanted, 0.0
        at.rate, at.rate_slope = rate, slope
    return 0.5 * (before + at.rate) * dt


@inlined
def _shares_within(x, y, most):
    """Middle and half-width of the shares s with |x + s y| ≤ most, or else the nearest s."""
    square = dot(y, y)
    if square == 0.0:
        return 0.0, np.inf
    middle = -dot(x, y) / square
    return middle, np.sqrt(max(most * most - dot(x, x) + middle * middle * square, 0.0) / square)


@inlined
def keep_jerk(plan, state, last, dt):
    """Move the rate to its goal for a tick of dt [s], as fast as the limits of a target allow."""
    # `state` has the twist and the acceleration at full speed, `last` those accelerations of the
    # last target: the new one is |x + slope y|. At the end the rate brakes within the jerk.
    rate, slope = state.rate, state.rate_slope
    then, bend = rate + slope * dt, 1.0 / (PAUSING * state.calm) ** 2
    least, most, low, high = -np.inf, np.inf, -np.inf, np.inf
    for part in range(2):
        a = vector_at(state.acceleration, 3 * part)
        y = along(then * dt, a, vector_at(state.twist, 3 * part))
        x = along(then * rate, a, ZERO)
        middle, width = _shares_within(x, y, plan.acceleration[part])
        least, most = max(least, middle - width), min(most, middle + width)
        middle, width = _shares_within(sub(x, last[part]), y, plan.jerk[part] * dt)
        low, high = max(low, middle - width), min(high, middle + width)
        # jerk: rate³ × that of the motion + 3 rate × slope × its acceleration + bend × velocity
        bent, jerk = 3.0 * abs(rate) * np.sqrt(dot(a, a)), plan.jerk[part]
        width = jerk / max(bent, SMALLEST)
        least, most = max(least, -width), min(most, width)
        bent = max(jerk - bent * abs(slope), GENTLE * jerk)
        bend = min(bend, bent / np.sqrt(max(dot(y, y), SMALLEST)))
    far = rate + 0.5 * slope * dt - state.goal_rate
    # the motion itself may use the whole jerk: even so the slope may fall to 0, and changes
    # towards `wanted` only
    if slope > 0.0:
        low = min(low, slope - 2.0 * GENTLE * bend * dt)
    else:
        high = max(high, slope + bend * dt)
    bend *= GENTLE if far < 0.0 else 1.0
    step = bend * dt
    wanted = 0.5 * (np.sqrt(step * step + 8.0 * bend * abs(far)) - step)
    wanted = min(max(-wanted if far > 0.0 else wanted, least), most)
    after = min(max(min(max(wanted, low), high), min(slope, wanted)), max(slope, wanted))
    found, limit = rate + 0.5 * (slope + after) * dt, min(state.goal_rate, rate, 0.0)
    if found < limit or found > 1.0:
        found, after = min(max(found, limit), 1.0), 0.0
    elif abs(far) <= 0.5 * step * dt and abs(slope) <= step:
        found, after = state.goal_rate, 0.0
    state.rate, state.rate_slope = found, after


@inlined
def stand(at, override):
    """Set the rate of a set-point at rest: the next motion begins with it."""
    at.rate, at.rate_slope, at.reason = override, 0.0, FULL


@inlined
def waits(at):
    """Whether the motion stands, or moves at less than half its speed, as the arm lags."""
    return at.reason == LAG and at.rate < 0.5 * at.override


@inlined
def put_slowed(at, velocity, acceleration):
    """Convert velocity and acceleration (d,) at full speed to those at the rate of the motion."""
    rate, slope = at.rate, at.rate_slope
    for i in range(len(velocity)):
        acceleration[i] = rate * rate * acceleration[i] + slope * velocity[i]
        velocity[i] *= rate


def first_rate(at: Any, fast: float, hard: float) -> float | None:
    """Rate with which the next motion begins; None: with the present rate and its slope."""
    # A rate above the speed override, as in a stop, falls as far as the limits then allow; one
    # that lag or near pairs have lowered rises to the override. `fast`, `hard`: largest ratios of
    # velocity and acceleration to the limits at full speed.
    least = max(fast, hard ** 0.5, at.override)
    return float(min(least, 1.0)) if least < at.rate or at.reason > OVERRIDE else None


AT_THE_EDGE = 1e-9  # tolerance for rounding at a face of the workspace box [m]
# A longer step between two ticks counts as a pause of the clock, which delays the motion.
LONGEST_STEP = 0.04  # [s]
LONGEST_STEPS = 4.0  # longest step at low rates of the states, relative to the previous step
LONGEST_BACK = 0.25  # longest step at any rate; a larger step back stops the target [s]
ROUNDING = 1e-6  # rounding error of stamps and of their differences [s]
RATE = 10.0  # decay rate of the speed if Python is late [1/s]
# The time of a path stands if near pairs take this acceleration along the path from the arm
# [m/s²]. At the default natural frequency, 20 rad/s, the arm is then 2 mm behind the target.
LARGEST_LOSS = 0.8
SLOWING = 0.04  # time constant with which the rate of this time changes [s]
# Least time constant of a slow motion while the arm lags, relative to CALM, or that of these
# limits; a fast one keeps the limits of acceleration and jerk.
PAUSING = 0.5
# Share of the limit of the jerk with which the rate comes back to full speed: the motion itself
# uses the rest.
GENTLE = 0.25
SMALLEST = 1e-12  # least squared speed in a denominator
# Time constant of a change of the speed override: at full speed it uses half of the default limit
# of the acceleration, and all of that of the jerk [s].
CALM = 0.15
LENGTH = 0.2  # length that weights a rotation of 1 rad like a translation [m]
SLOWEST = 1e-4  # speed of a path below which the direction of the path counts less [m/s]

# Largest distance and difference of the velocities of a link and a target that comes to rest with
# it [rad, m; rad/s, m/s]. The arm may need more time than the target, because its torques are
# blended and limited: without a tether it would be pulled back.
TETHER = (0.05, 0.01), (1.5, 0.3)

# Time in which a coasting target comes to rest, relative to 1 / rate at its start, and its way,
# relative to speed × this time, in powers of the passed share: the speed falls as (1 - s)⁴.
COASTED, STOPPING = 4.0, (0.0, 1.0, -2.0, 2.0, -1.0, 0.2)

# Kinds of motions. FOLLOW: as COAST, but the target stays within TETHER of its link.
HOLD, DRIFT, COAST, FOLLOW, PATH = range(5)

PLAN = Table(
    'MotionPlan',
    Slot('kind', (), '', 'kind of the motion: HOLD, DRIFT, COAST, FOLLOW, PATH', int),
    Slot('pose', (4, 4), '–, m', 'pose of the motion at its start, base axes'),
    Slot('span', (2,), 's', 'begin and end of the piece of a motion that is no path'),
    Slot('piece', (1, 6, 6), 'rad, m', 'coefficients of this piece, a displacement from `pose`'),
    Slot('rate', (), '1/s', 'least rate at which a target that follows its link comes to rest'),
    Slot('begin', (), 's', 'start of the offset on this clock; infinite: there is none'),
    Slot('bounds', (2, 3), 'm', 'lowest and highest position of the target'),
    Slot('event', (), 's', 'end of this plan on this clock, at which Python goes on; infinite: '
         'none'),
    Slot('until', (), 's', 'end of a twist, on the clock of the states'),
    Slot('wakes', (), 's', 'stamp from which `SetPointGenerator.plan` has work after a '
         'tick: the start of the next scheduled motion; '
         '-infinite if the target goes on from another pose; infinite: none'),
    Slot('clamped', (), '', 'whether the motion differs from the commanded one, because of the '
         'workspace box or, for a twist, of the speed limit', bool),
    Slot('rejoins', (), '', 'whether the next plan begins the same motion again, from another '
         'pose', bool),
    Slot('posed', (), 's', 'time of the last command of a pose, on the clock of the motion'),
    Slot('leash', (2,), 'rad, m', 'largest lags of the arm before the motion waits for it'),
    Slot('acceleration', (2,), 'rad/s², m/s²', 'limit of the acceleration of the target'),
    Slot('jerk', (2,), 'rad/s³, m/s³', 'limit of its jerk'),
    Slot('next_at', (), '', 'address of the plan that replaces this one; 0: none', int),
    Slot('next_state_at', (), '', 'address of the state with which it begins', int),
    Slot('switch', (), 's', 'stamp from which that plan replaces this one'),
    Slot('expected', (3,), 's; –; 1/s', 'delay, rate and slope of the time in this motion then'),
    Slot('number', (), '', 'number of times that a plan made beforehand was taken over', int),
    *PIECES,
    Slot('poses', (), '–, m', 'poses of a path (m, 4, 4), from which pieces lead, flat', FLOATS),
    Slot('offset_times', (), 's', 'times of the offset, as `times`', FLOATS),
    Slot('offset', (), 'rad, m', 'coefficients of the offset, as `coefficients`', FLOATS))

STATE = Table(
    'MotionState',
    Slot('pose', (4, 4), '–, m', 'pose of the last target, base axes'),
    Slot('twist', (6,), 'rad/s, m/s', 'twist of the last target'),
    Slot('acceleration', (6,), 'rad/s², m/s²', 'acceleration of the last target'),
    Slot('now', (), 's', 'stamp of the last tick; -infinite before the first tick'),
    Slot('pace', (), 's', 'time between the last two ticks'),
    Slot('late', (), 's', 'delay of the clock of the motion: the pauses'),
    Slot('is_open', (), '', 'whether Python has not looked at the last target yet', bool),
    Slot('went_back', (), '', 'whether the clock went back far since Python looked', bool),
    Slot('course', (6,), 'rad/s, m/s', 'twist of the last target, if time had not been slowed'),
    Slot('onset', (6,), 'rad/s, m/s', 'course at the start of a motion that leads back; 0 for '
         'others, and when it has turned'),
    Slot('loss', (), '', 'acceleration along the path that near pairs took at the last tick, '
         'relative to LARGEST_LOSS; 0 after its use'),
    *PHASE,
    room=(Slot('x', (3, 6), 'rad, m; and per s, s²', 'a displacement, see `pieces.add_offset`'),))

_NO_BOX = np.array([[-np.inf] * 3, [np.inf] * 3])
_NO_PIECES = np.zeros(36)  # of a plan that never had a path, or an offset


def records_at(pose: NDArray[np.float64]) -> tuple[Any, Any]:
    """Return records PLAN and STATE of a target at a pose (4, 4), before the first tick."""
    plan, state = PLAN.new(), STATE.new()
    plan.pose[:], state.pose[:], plan.bounds[:] = pose, pose, _NO_BOX
    plan.begin = plan.event = plan.until = plan.wakes = np.inf
    plan.posed = state.now = -np.inf
    state.rate, state.override, state.calm = 1.0, 1.0, CALM
    plan.times = plan.offset_times = np.array([0.0, 1.0])
    plan.poses = plan.coefficients = plan.offset = _NO_PIECES
    return plan, state


plan_at, state_at = PLAN.at, STATE.at  # kernels take the functions
PLAN_WORDS = len(PLAN.new().words)
# The next plan is taken over only if the present motion is where it was expected to be: the time
# on its clock within MOST_OFF [s], and its rate within the share MOST_FASTER of the expected one.
MOST_OFF, MOST_FASTER = 0.005, 0.1


@inlined
def _put_coast(plan, twist, start, rate):
    """Write the piece with which the motion comes to rest, see STOPPING."""
    # It begins at plan.pose with a twist (6,), at the time `start` [s], and slows down at `rate`.
    duration = COASTED / rate
    plan.span[0], plan.span[1] = start, start + duration
    for part in range(2):
        v = vector_at(twist, 3 * part)
        if part == 0:
            v = unrotate(rotation_of(plan.pose), v)
        for i in range(3):
            way = duration * v[i]
            for k in range(6):
                plan.piece[0, 3 * part + i, k] = way * STOPPING[k]


@inlined
def _put_motion(plan, now, state):
    """Write motion ⊕ offset at a time on the motion's clock [s], as at full speed, to a STATE."""
    # Paths and offsets that end in motion are extrapolated until Python plans, see `_is_overdue`;
    # a path that begins in motion also backwards, because its plan may be used a tick early.
    pose, twist, acceleration, x = state.pose, state.twist, state.acceleration, state.x
    knot, moves = plan.pose, plan.kind != HOLD
    if plan.kind == PATH:
        k = put_state(plan.times, plan.coefficients, now, x)
        moves, knot = now - plan.times[0] >= -LONGEST_STEP, view(plan.poses, 16 * k, (4, 4))
    elif moves:
        put_state(plan.span, plan.piece, now, x)
    if moves:
        put_displaced(knot, x, pose, twist, acceleration)
    else:
        for i in range(4):
            assign(pose[i], knot[i])
        for i in range(6):
            twist[i] = acceleration[i] = 0.0
    if plan.begin < np.inf:
        put_state(plan.offset_times, plan.offset, now - plan.begin, x)
        add_offset(pose, twist, acceleration, x, pose, twist, acceleration)
        for i in range(3):
            position = pose[i, 3]
            pose[i, 3] = min(max(position, plan.bounds[0, i]), plan.bounds[1, i])
            if abs(position - pose[i, 3]) > AT_THE_EDGE:
                twist[3 + i] = acceleration[3 + i] = 0.0


@inlined
def _longest_step(state):
    """Longest step to the next tick that does not count as a pause of the clock [s]."""
    return min(max(LONGEST_STEP, LONGEST_STEPS * state.pace), LONGEST_BACK)


@inlined
def _allowed_rate(plan, state):
    """Rate at which the time of a path may pass because of near pairs; < 0: it runs back."""
    # 0 where near pairs take LARGEST_LOSS; < 0 beyond, down to the start of the path or offset
    loss, state.loss = state.loss, 0.0
    if plan.kind == PATH and loss > 1.0:
        begin = max(plan.times[0], plan.begin if plan.begin < np.inf else -np.inf)
        passed = state.now - state.late - begin
        loss = min(loss, 2.0) if passed > LONGEST_STEP + SLOWING else 1.0
    return 1.0 - loss if plan.kind == PATH else 1.0


@inlined
def _product(row, x):
    """Return the scalar product of two arrays (n,)."""
    total = 0.0
    for j in range(len(x)):
        total += row[j] * x[j]
    return total


@inlined
def _leaves(state, lag, leash):
    """Whether a lag (6,) exceeds a leash (2,), and the motion leads away from the arm."""
    # Not while a motion that leads back still brakes: it would never turn. A motion that waits
    # goes on at half of the leash: the arm then need not catch up and follow at once.
    course, onset = state.course, state.onset
    if _product(onset, course) > 0.0:
        return False
    for i in range(6):
        onset[i] = 0.0
    share = 0.5 if waits(state) else 1.0
    for part in range(2):
        ahead, going, most = 0.0, 0.0, share * leash[part]
        for i in range(3 * part, 3 * part + 3):
            ahead += lag[i] * lag[i]
            going += lag[i] * course[i]
        if ahead > most * most and going > 0.0:
            return True
    return False


@inlined
def _went_back(plan, state, lag, time, speed):
    """Set the time of the tick [s]; return whether the clock went back by over LONGEST_BACK."""
    # While the clock pauses, or the rate is below 1, `late` grows: the motion ends later.
    step = time - state.now
    if step == 0.0:
        return False
    if 0.0 < step <= _longest_step(state):
        allowed, reason = _allowed_rate(plan, state), NEAR
        if plan.kind == HOLD and plan.begin == np.inf:  # nothing moves
            stand(state, speed)
        elif _leaves(state, lag, plan.leash):
            allowed, reason = min(allowed, 0.0), LAG
        put_goal_rate(state, speed, allowed, reason)
        if state.reason == LAG:  # `keep_jerk` moves the rate then
            least = min(state.rate, state.goal_rate, 0.0)
            state.late += step - step * max(state.rate + 0.5 * state.rate_slope * step, least)
        else:
            state.late += step - advance_rate(state, SLOWING, step)
    elif state.now > -np.inf:
        state.late += step
    else:
        stand(state, speed)
    state.pace, state.now = step, time
    return -np.inf < step < -LONGEST_BACK


@inlined
def _is_overdue(plan, state):
    """Whether the motion ended at least `_longest_step` ago without a new plan."""
    late = state.now - _longest_step(state)
    if plan.kind == DRIFT:
        return late > plan.until
    if plan.kind == PATH:
        return late - state.late > plan.times[-1]
    return plan.kind == HOLD and late - state.late > plan.event


@inlined
def take_over(plan, state):
    """Replace a plan by the next one, C²; drop that if time passes otherwise than expected."""
    # Both motions agree at `switch` on their clocks, whatever the rate: the new clock begins where
    # the old one is, and its rate is as much higher or lower than expected as the old one.
    # Its beginning is the last tick, `passed` [s] after `switch`, as far as time passes evenly.
    after, passed = state_at(plan.next_state_at), state.now - plan.switch
    slope = plan.expected[2]
    rate, off = plan.expected[1] + slope * passed, plan.expected[0] - state.late
    off += (1.0 - rate + 0.5 * slope * passed) * passed
    share, turn = 1.0, 1.0
    if rate != 0.0:
        share, turn = state.rate / rate, after.rate / rate
    elif state.rate != 0.0:
        share = np.inf
    own = after.rate + after.rate_slope * passed
    if (np.abs(off) > MOST_OFF or np.abs(share - 1.0) > MOST_FASTER
            or share * own > 1.0 + SETTLED):
        plan.next_at, state.is_open = 0, True
        return
    state.late = after.late + (1.0 - own + 0.5 * after.rate_slope * passed) * passed - turn * off
    state.rate_slope = share * share * after.rate_slope + turn * (
        state.rate_slope - share * share * slope)
    state.rate, state.reason, state.stops = min(share * own, 1.0), after.reason, after.stops
    assign(state.onset, after.onset)
    assign(numbers_at(plan.address, PLAN_WORDS), numbers_at(plan.next_at, PLAN_WORDS))


@inlined
def _coast(plan, state):
    """Bring the target to rest from the last tick on, until Python plans."""
    plan.kind, plan.begin, plan.next_at = COAST, np.inf, 0
    side = -1.0 if state.rate < 0.0 else 1.0  # the time ran back
    state.rate, state.rate_slope, state.stops = side * state.rate, side * state.rate_slope, True
    for i in range(6):
        state.course[i] *= side
    for i in range(4):
        assign(plan.pose[i], state.pose[i])
    _put_coast(plan, state.course, state.now - state.late, RATE / max(state.rate, SLOWEST_STOP))


@inlined
def ahead(state):
    """Expected time from the last tick to the next one [s]; 0 if unknown."""
    pace = state.pace
    return pace + ROUNDING if 0.0 < pace <= LONGEST_BACK else 0.0


@inlined
def clock_after(state, passed):
    """Time on the clock of the motion [s] when a time [s] has passed since the last tick."""
    return state.now - state.late + max(state.rate, 0.0) * passed


@inlined
def _is_due(plan, state):
    """Whether Python must plan before the next tick."""
    soon = state.now + ahead(state)
    return state.went_back or plan.next_at == 0 and (
        soon >= plan.wakes or soon > plan.until
        or clock_after(state, soon - state.now) >= plan.event)


@inlined
def _near(x, y, most):
    """The vector nearest to x whose distance from y is at most `most`."""
    away = sub(x, y)
    nearer = at_most(most, away)
    return x if nearer == away else add(nearer, y)


@inlined
def _follow(plan, state, link, passed):
    """Move the target to within TETHER of its link; its motion goes on, but no faster."""
    # `link` is the motion of `guided_by_link`, of the tick before, `passed` [s] ago.
    (turn, way), fastest = TETHER
    R, x, omega, v, arm = link
    way, fastest = max(way, turn * arm), (fastest[0], max(fastest[1], fastest[0] * arm))
    R = compose(exponential((passed * omega[0], passed * omega[1], passed * omega[2])), R)
    away = rotation_vector(compose(rotation_of(state.pose), transpose(R)))
    R = compose(exponential(at_most(turn, away)), R)
    x = _near((state.pose[0, 3], state.pose[1, 3], state.pose[2, 3]), along(passed, v, x), way)
    start = state.now - state.late
    rate = COASTED / max(plan.event - start, LONGEST_STEP)
    for part in range(2):
        before = vector_at(state.twist, 3 * part)
        after = _near(before, omega if part == 0 else v, fastest[part])
        if after != before:  # the link cannot brake as fast: this motion ends later
            rate = min(rate, plan.rate)
            plan.event = start + COASTED / rate
        slow = at_most(np.sqrt(dot(before, before)), after)
        for i in range(3):
            state.twist[3 * part + i] = slow[i]
    for i in range(6):
        state.acceleration[i] = -rate * state.twist[i]
    for i in range(3):
        for j in range(3):
            plan.pose[i, j] = state.pose[i, j] = R[3 * i + j]
        plan.pose[i, 3] = state.pose[i, 3] = x[i]
    _put_coast(plan, state.twist, start, rate)


@kernel
def put_target(plan, state, lag, time, speed):
    """Write the target at a time [s] on the clock of the states to `state`, a record STATE."""
    # `lag` (6,): of the arm behind the last target, base axes [rad, m]
    state.override = speed  # speed override, 0 to 1
    if plan.next_at != 0 and time >= plan.switch:
        take_over(plan, state)
    if _is_overdue(plan, state):
        _coast(plan, state)
    twist, acceleration = state.twist, state.acceleration
    step, last = time - state.now, (vector_at(acceleration, 0), vector_at(acceleration, 3))
    is_tick = 0.0 < step <= _longest_step(state)
    if _went_back(plan, state, lag, time, speed):
        state.went_back = state.is_open = True
    _put_motion(plan, time - state.late, state)
    assign(state.course, twist)
    if is_tick and state.reason == LAG:
        keep_jerk(plan, state, last, step)
    put_slowed(state, twist, acceleration)
    if plan.kind != HOLD or plan.begin < np.inf or _is_due(plan, state):
        state.is_open = True


@kernel
def look(m, d):
    """Check the targets of all tasks after a tick; return whether Python must plan for one."""
    # Not while the targets move, and no motion ends before the next tick.
    asks, guides = False, m.target_records
    for i in range(d.k):
        plan, state = plan_at(guides[i, 0]), state_at(guides[i, 1])
        if not _is_due(plan, state):
            state.is_open = False
        asks = asks or state.is_open
    return asks


@inlined
def note_loss(m, d):
    """Note which part of `near_loss` is along the tasks' paths; only axes of motion count."""
    # `near_loss` (n,) is the acceleration of the joints that near pairs took from the law.
    guides, lost = m.target_records, d.near_loss
    for i in range(d.k):
        if plan_at(guides[i, 0]).kind != PATH:
            continue
        state, R = state_at(guides[i, 1]), axes_of(d, i)
        speed, along = SLOWEST * SLOWEST, 0.0
        for part in range(0, 6, 3):
            rows = d.J[6 * m.level_link[i] + part:]
            way = unrotate(R, (state.course[part], state.course[part + 1], state.course[part + 2]))
            taken = unrotate(R, (_product(rows[0], lost), _product(rows[1], lost),
                                 _product(rows[2], lost)))
            for a in range(3):
                unit = m.moves[i, part + a] * (LENGTH * LENGTH if part == 0 else 1.0)
                speed += unit * way[a] * way[a]
                along += unit * way[a] * taken[a]
        if along > 0.0:  # not NaN either
            state.loss = along / np.sqrt(speed) / LARGEST_LOSS


@inlined
def _share_loss(guides):
    """Give all targets whose paths have the same times, and are equally late, the same loss."""
    for i in range(len(guides)):
        plan, one = plan_at(guides[i, 0]), state_at(guides[i, 1])
        if one.loss == 0.0 or plan.kind != PATH:
            continue
        for j in range(len(guides)):
            path, other = plan_at(guides[j, 0]), state_at(guides[j, 1])
            if (path.kind == PATH and plan.times[0] == path.times[0]
                    and plan.times[-1] == path.times[-1] and one.late == other.late):
                other.loss = max(other.loss, one.loss)


@inlined
def any_waits(m):
    """Whether a target waits for the arm."""
    found, guides = False, m.target_records
    for i in range(len(guides)):
        found = found or waits(state_at(guides[i, 1]))
    return found


@kernel
def put_motion(plan, now, state):
    """Write motion ⊕ offset to a STATE, see `_put_motion`."""
    _put_motion(plan, now, state)


@kernel
def put_targets(m, d, speed):
    """Write the targets of all tasks, see `put_target`."""
    guides, time = m.target_records, d.time
    _share_loss(guides)
    for i in range(d.k):
        plan, state = plan_at(guides[i, 0]), state_at(guides[i, 1])
        passed = time - state.now
        put_target(plan, state, d.task_lag[i], time, speed)
        if plan.kind == FOLLOW:
            _follow(plan, state, guided_by_link(m, d, i, state.pose),
                    passed if 0.0 < passed <= LONGEST_STEP else 0.0)
        for row in range(4):
            assign(d.target_pose[i, row], state.pose[row])
        assign(d.target_twist[i], state.twist)
        assign(d.target_acceleration[i], state.acceleration)
