# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Compiled computation of a task's target from records: a motion plus an offset.

`osc_ros.control.setpoint.set_point_generator.SetPointGenerator` defines both, and owns the knots
of a path. Python changes a PLAN between ticks and ahead of time, so no tick waits for it. If
Python is late, the target continues on the present plan, and comes to rest at its end.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.addresses import numbers_at
from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.compile.record import Slot, Table
from osc_ros.control.setpoint.trajectory import put_segment
from osc_ros.control.tasks.task_numbers import AXES, axes_of, LAG, MOVES, SHAPE
from osc_ros.dynamics.algebra.rotation import (
    body_acceleration,
    body_rate,
    exponential,
    rotation_of,
)
from osc_ros.dynamics.algebra.spatial import add, compose, cross, rotate, unrotate
from osc_ros.dynamics.algebra.vectors import assign, interval_of

PIECES = 12  # segments of constant jerk: 2 to brake into the limits, 7, 1 after the end, 2 spare
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
SETTLED = 1e-9  # deviation of this rate from 1 that is neglected
# Time constant of a change of the speed override: at full speed it uses half of the default limit
# of the acceleration, and all of that of the jerk [s].
CALM = 0.15
LENGTH = 0.2  # length that weights a rotation of 1 rad like a translation [m]
SLOWEST_STOP = 0.1  # least speed override for which a stop uses all of the acceleration limit
SLOWEST = 1e-4  # speed of a path below which the direction of the path counts less [m/s]

HOLD, DRIFT, COAST, PATH = range(4)  # kinds of motions

PLAN = Table(
    'MotionPlan',
    Slot('kind', (1,), '', 'kind of the motion: 0 a pose, 1 a twist, 2 coming to rest, 3 a path'),
    Slot('pose', (4, 4), '–, m', 'pose of the motion at its start, base axes'),
    Slot('twist', (6,), 'rad/s, m/s', 'twist of the motion at its start, base axes'),
    Slot('rates', (2,), '1/s', 'rates at which rotation and translation come to rest'),
    Slot('since', (1,), 's', 'start of the motion, on its clock'),
    Slot('begin', (1,), 's', 'start of the offset on this clock; infinite: there is none'),
    Slot('end', (1,), 's', 'end of the offset on this clock'),
    Slot('pieces', (6, PIECES, 5), 's, and rad, m with derivatives', 'of each component of the '
         'offset: start of each piece, position, velocity, acceleration and jerk there'),
    Slot('bounds', (2, 3), 'm', 'lowest and highest position of the target'),
    Slot('event', (1,), 's', 'end of this plan on this clock, at which Python goes on; infinite: '
         'none'),
    Slot('until', (1,), 's', 'end of a twist, on the clock of the states'),
    Slot('wakes', (1,), 's', 'stamp from which `SetPointGenerator.plan` has work after a '
         'tick: the start of the next scheduled motion, or of a look whether the arm comes; '
         '-infinite if the target goes on from another pose; infinite: none'),
    Slot('stops', (1,), '', '1 if this motion only stops: then the speed override does not change '
         'its rate'),
    Slot('calm', (1,), 's', 'time constant of a change of the speed override'),
    Slot('reach', (2,), 'rad, m', 'largest errors of the arm before the target waits for it'),
    Slot('knots', (4,), '', 'number of the knots of the path, addresses of their times (m,), '
         'poses (m, 4, 4) and coefficients (m - 1, 6, 6), as integers'))

STATE = Table(
    'MotionState',
    Slot('pose', (4, 4), '–, m', 'pose of the last target, base axes'),
    Slot('twist', (6,), 'rad/s, m/s', 'twist of the last target'),
    Slot('acceleration', (6,), 'rad/s², m/s²', 'acceleration of the last target'),
    Slot('now', (1,), 's', 'time of the last tick; -infinite before the first one'),
    Slot('pace', (1,), 's', 'step from the tick before it'),
    Slot('late', (1,), 's', 'delay of the clock of the motion: the pauses'),
    Slot('waits', (1,), '', '1 if the target pauses because the arm lags'),
    Slot('stopped', (1,), 's', 'start of this pause, on the clock of the motion'),
    Slot('is_open', (1,), '', '1 if Python has not looked at the last target yet'),
    Slot('went_back', (1,), '', '1 if the clock went back far since Python looked'),
    Slot('course', (6,), 'rad/s, m/s', 'twist of the last target, if time had not been slowed'),
    Slot('loss', (1,), '', 'acceleration along the path that near pairs took at the last tick, '
         'relative to LARGEST_LOSS; 0 after its use'),
    Slot('slow', (2,), '1, 1/s', '1 - rate at which the time of the path passes; its derivative'),
    Slot('speed', (3,), '1, 1/s, 1', 'speed override in force, which multiplies this rate; its '
         'derivative; the speed override that is set'))

PLAN_SIZE, STATE_SIZE = PLAN.size(0), STATE.size(0)
_plan_views, _state_views = PLAN.views, STATE.views


@inlined
def put_drift(pose, twist, time, out):
    """Write the pose (4, 4) reached from a pose by a constant twist in a time [s]."""
    R = compose(exponential((time * twist[0], time * twist[1], time * twist[2])),
                rotation_of(pose))
    for i in range(3):
        out[i, 0], out[i, 1], out[i, 2] = R[3 * i], R[3 * i + 1], R[3 * i + 2]
        out[i, 3] = pose[i, 3] + time * twist[3 + i]
        out[3, i] = 0.0
    out[3, 3] = 1.0


@inlined
def _component_at(pieces, time):
    """Position, velocity and acceleration at a time [s] of a component with pieces (k, 5)."""
    k = 0
    while k + 1 < len(pieces) and pieces[k + 1, 0] <= time:
        k += 1
    h, p, v, a, j = time - pieces[k, 0], pieces[k, 1], pieces[k, 2], pieces[k, 3], pieces[k, 4]
    return (p + h * (v + h * (0.5 * a + h / 6.0 * j)), v + h * (a + 0.5 * h * j), a + h * j)


@inlined
def add_offset(pose, twist, acceleration, pieces, time, to_pose, to_twist, to_acceleration):
    """
    Write the state of base ⊕ offset (6, k, 5) at a time [s] after the offset's start.

    The output arrays may be those of the base.

    """
    x, dx, ddx = _component_at(pieces[0], time)
    y, dy, ddy = _component_at(pieces[1], time)
    z, dz, ddz = _component_at(pieces[2], time)
    phi, rate = (x, y, z), (dx, dy, dz)
    R = compose(rotation_of(pose), exponential(phi))
    v = rotate(R, body_rate(phi, rate))
    a = add(rotate(R, body_acceleration(phi, rate, (ddx, ddy, ddz))),
            cross((twist[0], twist[1], twist[2]), v))
    for i in range(3):
        to_pose[i, 0], to_pose[i, 1], to_pose[i, 2] = R[3 * i], R[3 * i + 1], R[3 * i + 2]
        to_pose[3, i] = 0.0
        to_twist[i], to_acceleration[i] = twist[i] + v[i], acceleration[i] + a[i]
        x, dx, ddx = _component_at(pieces[3 + i], time)
        to_pose[i, 3] = pose[i, 3] + x
        to_twist[3 + i] = twist[3 + i] + dx
        to_acceleration[3 + i] = acceleration[3 + i] + ddx
    to_pose[3, 3] = 1.0


@inlined
def _put_path(knots, now, pose, twist, acceleration):
    """
    Write pose, twist and acceleration of a path at a time [s].

    A path that ends in motion is extrapolated until Python plans the next motion, see
    `_is_overdue`. A path that begins in motion is extrapolated backwards, because its plan may be
    used a tick early.

    """
    m = knots[0]
    times, poses = numbers_at(knots[1], m), view(numbers_at(knots[2], 16 * m), 0, (m, 4, 4))
    inside = min(max(now, times[0]), times[-1])
    over = now - inside
    if over >= -LONGEST_STEP:
        coefficients = view(numbers_at(knots[3], 36 * (m - 1)), 0, (m - 1, 6, 6))
        k = interval_of(times, inside)
        duration = times[k + 1] - times[k]
        put_segment(poses[k], coefficients[k], (inside - times[k]) / duration, duration, pose,
                    twist, acceleration)
        if over != 0.0:
            for i in range(6):
                twist[i] += 0.5 * over * acceleration[i]
            put_drift(pose, twist, over, pose)
            for i in range(6):
                twist[i] += 0.5 * over * acceleration[i]
    else:
        for i in range(4):
            assign(pose[i], poses[0, i])


@inlined
def _put_motion(plan, now, pose, twist, acceleration):
    """Write pose, twist, acceleration of motion ⊕ offset at a time on the motion's clock [s]."""
    kind = plan.kind[0]
    for i in range(6):
        twist[i] = acceleration[i] = 0.0
    if kind == PATH:
        _put_path(plan.knots.view(np.int64), now, pose, twist, acceleration)
    elif kind == DRIFT:
        put_drift(plan.pose, plan.twist, now - plan.since[0], pose)
        assign(twist, plan.twist)
    elif kind == COAST:
        for i in range(6):  # displacement so far
            twist[i] = (1.0 - np.exp(-plan.rates[i // 3] * (now - plan.since[0]))) / plan.rates[
                i // 3] * plan.twist[i]
        put_drift(plan.pose, twist, 1.0, pose)
        for i in range(6):
            rate = plan.rates[i // 3]
            twist[i] = np.exp(-rate * (now - plan.since[0])) * plan.twist[i]
            acceleration[i] = -rate * twist[i]
    else:
        for i in range(4):
            assign(pose[i], plan.pose[i])
    if plan.begin[0] < np.inf:
        latest = plan.end[0] + LONGEST_BACK  # extrapolate an offset up to here
        add_offset(pose, twist, acceleration, plan.pieces, min(now, latest) - plan.begin[0],
                   pose, twist, acceleration)
        for i in range(3):
            position = pose[i, 3]
            pose[i, 3] = min(max(position, plan.bounds[0, i]), plan.bounds[1, i])
            if abs(position - pose[i, 3]) > AT_THE_EDGE:
                twist[3 + i] = acceleration[3 + i] = 0.0


@inlined
def _longest_step(state):
    """Longest step to the next tick that does not count as a pause of the clock [s]."""
    return min(max(LONGEST_STEP, LONGEST_STEPS * state.pace[0]), LONGEST_BACK)


@inlined
def approached(value, slope, wanted, dt, time):
    """Value and slope after dt [s], critically damped with a time constant [s] to `wanted`."""
    fade, push = np.exp(-dt / time), slope + (value - wanted) / time
    return wanted + (value - wanted + push * dt) * fade, (slope - push * dt / time) * fade


@inlined
def advanced_rate(rate, slope, wanted, dt, time):
    """Rate of a clock, 0 to 1, and its slope, see `approached`; it arrives at `wanted`."""
    if rate == wanted and slope == 0.0:
        return rate, slope
    rate, slope = approached(rate, slope, wanted, dt, time)
    if abs(rate - wanted) + time * abs(slope) < SETTLED or rate < 0.0 or rate > 1.0:
        return min(max(wanted if 0.0 <= rate <= 1.0 else rate, 0.0), 1.0), 0.0
    return rate, slope


@inlined
def _slow_down(plan, state, dt):
    """
    Advance the rate of the time of a path by dt [s], critically damped, and delay the motion.

    The time stands where near pairs take LARGEST_LOSS, and runs back where they take more.

    """
    wanted = state.loss[0] if plan.kind[0] == PATH else 0.0
    state.loss[0], before = 0.0, state.slow[0]
    if wanted == 0.0 and before == 0.0 and state.slow[1] == 0.0:
        return
    if wanted > 1.0:  # the time runs back, but not to before the path or the offset
        knots = plan.knots.view(np.int64)
        begin = max(numbers_at(knots[1], knots[0])[0],
                    plan.begin[0] if plan.begin[0] < np.inf else -np.inf)
        passed = state.now[0] - state.late[0] - begin
        wanted = min(wanted, 2.0) if passed > LONGEST_STEP + SLOWING else 1.0
    state.slow[0], state.slow[1] = approached(before, state.slow[1], wanted, dt, SLOWING)
    if wanted == 0.0 and abs(state.slow[0]) + SLOWING * abs(state.slow[1]) < SETTLED:
        state.slow[0] = state.slow[1] = 0.0
    state.late[0] += 0.5 * (before + state.slow[0]) * dt


@inlined
def _advance_clock(plan, state, speed, dt):
    """Delay the motion in a tick of dt [s] by the speed override, 0 to 1, and by near pairs."""
    before, kind = state.speed[0], plan.kind[0]
    if kind == HOLD and plan.begin[0] == np.inf:  # nothing moves
        state.speed[0], state.speed[1] = speed, 0.0
    else:
        wanted = before if plan.stops[0] > 0.0 or kind == COAST else speed
        state.speed[0], state.speed[1] = advanced_rate(before, state.speed[1], wanted, dt,
                                                       plan.calm[0])
    passed = 0.5 * (before + state.speed[0]) * dt
    state.late[0] += dt - passed
    _slow_down(plan, state, passed)


@inlined
def put_slowed(slow, twist, acceleration):
    """Convert twist and acceleration (6,) of a motion to those with its time slowed by `slow`."""
    rate = 1.0 - slow[0]
    for i in range(6):
        acceleration[i] = rate * rate * acceleration[i] - slow[1] * twist[i]
        twist[i] *= rate


@inlined
def _went_back(plan, state, time, speed):
    """
    Set the time of the tick [s]; delay the motion by a pause of the clock, see `_advance_clock`.

    Return whether the clock went back by more than LONGEST_BACK.

    """
    step = time - state.now[0]
    if step == 0.0:
        return False
    if 0.0 < step <= _longest_step(state):
        _advance_clock(plan, state, speed, step)
    elif state.now[0] > -np.inf:
        state.late[0] += step
    else:
        state.speed[0], state.speed[1] = speed, 0.0
    state.pace[0], state.now[0] = step, time
    return -np.inf < step < -LONGEST_BACK


@inlined
def _is_overdue(plan, state):
    """Whether the motion ended at least `_longest_step` ago without a new plan."""
    late = state.now[0] - _longest_step(state)
    kind, knots = plan.kind[0], plan.knots.view(np.int64)
    if kind == DRIFT:
        return late > plan.until[0]
    if kind == PATH:
        return late - state.late[0] > numbers_at(knots[1], knots[0])[-1]
    return kind == HOLD and late - state.late[0] > plan.event[0]


@inlined
def _coast(plan, state):
    """Bring the target to rest from the last tick on, until Python plans."""
    plan.kind[0], plan.since[0], plan.begin[0] = COAST, state.now[0] - state.late[0], np.inf
    for i in range(6):
        plan.twist[i] = (1.0 - state.slow[0]) * state.course[i]
    state.slow[0] = state.slow[1] = 0.0
    for i in range(4):
        assign(plan.pose[i], state.pose[i])
    plan.rates[0] = plan.rates[1] = RATE / max(state.speed[0], SLOWEST_STOP)


@inlined
def ahead(state):
    """Expected time from the last tick to the next one [s]; 0 if unknown."""
    pace = state.pace[0]
    return pace + ROUNDING if 0.0 < pace <= LONGEST_BACK else 0.0


@inlined
def clock_after(state, passed):
    """Time on the clock of the motion [s] when a time [s] has passed since the last tick."""
    rate = state.speed[0] * (1.0 - state.slow[0])
    return state.now[0] - state.late[0] + max(rate, 0.0) * passed


@inlined
def _is_due(plan, state):
    """Whether Python must plan before the next tick."""
    soon = state.now[0] + ahead(state)
    return (state.went_back[0] > 0.0 or soon >= plan.wakes[0] or soon > plan.until[0]
            or clock_after(state, soon - state.now[0]) >= plan.event[0])


@kernel
def put_target(plan, state, time, speed, row):
    """
    Write the target at a time [s] on the clock of the states to the state and the task's row.

    `speed` is the speed override, 0 to 1. `plan` and `state` are records of PLAN and STATE; `row`
    (AXES or more,) is described in `osc_ros.control.tasks.task_numbers`.

    """
    plan, at = _plan_views(plan, 0), _state_views(state, 0)
    at.speed[2] = speed
    if _is_overdue(plan, at):
        _coast(plan, at)
    if _went_back(plan, at, time, speed):
        at.went_back[0] = at.is_open[0] = 1.0
    _put_motion(plan, time - at.late[0], at.pose, at.twist, at.acceleration)
    assign(at.course, at.twist)
    if at.slow[0] != 0.0:
        put_slowed(at.slow, at.twist, at.acceleration)
    for i in range(6):
        at.acceleration[i] = (at.speed[0] * at.speed[0] * at.acceleration[i]
                              + at.speed[1] * at.twist[i])
        at.twist[i] *= at.speed[0]
    for i in range(AXES):  # both begin with pose, twist and acceleration
        row[i] = state[i]
    if plan.kind[0] != HOLD or plan.begin[0] < np.inf or _is_due(plan, at):
        at.is_open[0] = 1.0


@inlined
def leaves(error, twist, reach):
    """Whether an error (6,) exceeds a limit (2,), and the target still moves away from the arm."""
    for part in range(2):
        ahead = going = 0.0
        for i in range(3 * part, 3 * part + 3):
            ahead += error[i] * error[i]
            going += error[i] * twist[i]
        if ahead > reach[part] * reach[part] and going > 0.0:
            return True
    return False


@kernel
def look(guides, tasks):
    """
    Check the targets of all tasks after a tick; return whether Python must plan for one.

    Python need not plan while the targets move, the arm follows, and no motion ends before the
    next tick. For the parameters see `put_targets`.

    """
    asks = False
    for i in range(len(tasks)):
        plan = _plan_views(numbers_at(guides[i, 0], PLAN_SIZE), 0)
        at = _state_views(numbers_at(guides[i, 1], STATE_SIZE), 0)
        if not _is_due(plan, at) and not leaves(tasks[i, LAG:], at.twist, plan.reach):
            at.is_open[0] = 0.0
        asks = asks or at.is_open[0] > 0.0
    return asks


@inlined
def note_loss(guides, tasks, links, J, lost):
    """
    Note which acceleration along the paths of all tasks near pairs take; axes of motion count.

    Parameters
    ----------
    guides, tasks
        See `put_targets`.
    links : (k,) int
        Index of the link of each task.
    J : (6 m, n)
        Jacobian of the links.
    lost : (n,) [rad/s², m/s²]
        Accelerations of the joints that near pairs took from the law.

    """
    for i in range(len(tasks)):
        if _plan_views(numbers_at(guides[i, 0], PLAN_SIZE), 0).kind[0] != PATH:
            continue
        at, R = _state_views(numbers_at(guides[i, 1], STATE_SIZE), 0), axes_of(tasks[i])
        speed, along = SLOWEST * SLOWEST, 0.0
        for part in range(0, 6, 3):
            rows = J[6 * links[i] + part:]
            way = unrotate(R, (at.course[part], at.course[part + 1], at.course[part + 2]))
            taken = unrotate(R, (_product(rows[0], lost), _product(rows[1], lost),
                                 _product(rows[2], lost)))
            for a in range(3):
                unit = tasks[i, SHAPE + 6 * MOVES + part + a] * (
                    LENGTH * LENGTH if part == 0 else 1.0)
                speed += unit * way[a] * way[a]
                along += unit * way[a] * taken[a]
        if along > 0.0:  # not NaN either
            at.loss[0] = along / np.sqrt(speed) / LARGEST_LOSS


@inlined
def _product(row, x):
    """Return the scalar product of two arrays (n,)."""
    total = 0.0
    for j in range(len(x)):
        total += row[j] * x[j]
    return total


@inlined
def _share_loss(guides):
    """
    Note the largest loss of targets on one schedule for each of them.

    Paths with the same first and last time, delayed equally, are one schedule.

    """
    for i in range(len(guides)):
        one = _state_views(numbers_at(guides[i, 1], STATE_SIZE), 0)
        if one.loss[0] == 0.0:
            continue
        for j in range(len(guides)):
            if _have_one_schedule(guides, i, j):
                other = _state_views(numbers_at(guides[j, 1], STATE_SIZE), 0)
                other.loss[0] = max(other.loss[0], one.loss[0])


@inlined
def _have_one_schedule(guides, i, j):
    """Whether two targets are on paths that begin and end together and have equal delays."""
    one, other = (_plan_views(numbers_at(guides[i, 0], PLAN_SIZE), 0),
                  _plan_views(numbers_at(guides[j, 0], PLAN_SIZE), 0))
    if one.kind[0] != PATH or other.kind[0] != PATH:
        return False
    a, b = one.knots.view(np.int64), other.knots.view(np.int64)
    times, others = numbers_at(a[1], a[0]), numbers_at(b[1], b[0])
    return (times[0] == others[0] and times[-1] == others[-1]
            and _state_views(numbers_at(guides[i, 1], STATE_SIZE), 0).late[0]
            == _state_views(numbers_at(guides[j, 1], STATE_SIZE), 0).late[0])


@inlined
def any_waits(guides):
    """Whether a target waits for the arm; for `guides` see `put_targets`."""
    waits = False
    for i in range(len(guides)):
        waits = waits or _state_views(numbers_at(guides[i, 1], STATE_SIZE), 0).waits[0] > 0.0
    return waits


@kernel
def put_motion(plan, slow, now, pose, twist, acceleration):
    """
    Write the target of a plan at a time on the clock of its motion [s], at full speed.

    See `put_target`; `slow` (2,) is that of STATE.

    """
    _put_motion(_plan_views(plan, 0), now, pose, twist, acceleration)
    put_slowed(slow, twist, acceleration)


@kernel
def put_targets(guides, time, speed, tasks):
    """
    Write the targets of all tasks at a time [s] to their rows (k, …), see `put_target`.

    `guides` (k, 2) are the addresses of each task's records of PLAN and STATE.

    """
    _share_loss(guides)
    for i in range(len(tasks)):
        put_target(numbers_at(guides[i, 0], PLAN_SIZE), numbers_at(guides[i, 1], STATE_SIZE),
                   time, speed, tasks[i])
