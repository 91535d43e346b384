# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The posture: set-point of the joint positions, and the acceleration towards it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.addresses import address_of, numbers_at
from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.limits.limits import DECELERATION, LOWER, SPEED, UPPER, ZONE
from osc_ros.control.safety.sample import continuous_joints
from osc_ros.control.setpoint.joint_motion import joint_state, JointMotion, unit_hint
from osc_ros.control.setpoint.motion import advanced_rate, SLOWEST_STOP
from osc_ros.dynamics.algebra.fade import smoothed
from osc_ros.dynamics.algebra.vectors import assign, interval_of
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

TURN, MANY = 2.0 * np.pi, 2.0  # a full turn [rad]; from so many turns on, degrees are likely
# Time constant with which the clock of a motion stops while a joint lags, and goes on [s].
PAUSING = 0.06
# Depth of the set-point beyond a limit from which its velocity does not count [rad, m].
DEEP = 0.1
# Time constant of another change of this clock, relative to the time in which a motion reaches its
# speed: at full speed the change uses at most 0.74 of the acceleration of the motion.
CALM = 0.5


@dataclass(frozen=True, eq=False)
class Posture:
    """
    Gains of the posture, which acts in the nullspace of the tasks.

    Attributes
    ----------
    natural_frequency : float [rad/s]
        With 0, only the damping remains.
    damping_ratio : float
    damping : float [1/s]
        Least rate 2ζω, so that joints are damped also at a low natural frequency.

    Raises
    ------
    InputError
        A number is negative or not finite.

    """

    natural_frequency: float = 5.0
    damping_ratio: float = 1.0
    damping: float = 1.0

    def __post_init__(self) -> None:
        """Raise for negative and non-finite numbers."""
        for name in ('natural_frequency', 'damping_ratio', 'damping'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f'posture {name} {value}: must be 0 or more')


SET_POINT = Table(
    'PostureSetPoint',
    Slot('now', ('n',), 'rad, m', 'the set-point of the last tick'),
    Slot('wraps', ('n',), '', '1 for continuous joints: they take the shorter way'),
    Slot('velocity', ('n',), 'rad/s, m/s', 'of the set-point'),
    Slot('acceleration', ('n',), 'rad/s², m/s²', 'of the set-point'),
    Slot('wanted', ('n',), 'rad, m', 'the goal'),
    Slot('is_moving', (1,), '', '1 while a motion is in progress'),
    Slot('elapsed', (1,), 's', 'time on the clock of this motion'),
    Slot('pace', (3,), '1, 1/s, 1', 'speed of this clock, 0 to 1, and its derivative; the speed '
         'override, which it approaches except while the arm lags'),
    Slot('calm', (1,), 's', 'time constant of a change of this speed'),
    Slot('stops', (1,), '', '1 if this motion only stops: then the speed override does not count'),
    Slot('waits', (1,), '', '1 while a joint lags'),
    Slot('leash', ('n',), 'rad, m', 'lag of a joint at which it pauses; 0: it does not pause'),
    Slot('segments', (3,), '', 'of the motion: number of times, addresses of times and '
         'coefficients of `joint_motion.JointMotion`, as integers'))

_views, _now_views = SET_POINT.views, SET_POINT.only('now', 'wraps', 'velocity', 'acceleration')


@inlined
def lag_of(q, now, wraps):
    """Way from a position to a set-point; of a continuous joint, the shorter way."""
    away = now - q
    return (away + np.pi) % (2.0 * np.pi) - np.pi if wraps > 0.0 else away


@kernel
def posture_acceleration(q, qd, posture, gains, table, qdd):
    """
    Write the accelerations towards a posture, and out of the soft zones of the joints.

    The speed of approach is at most the velocity limit.

    Parameters
    ----------
    q, qd : (n,)
    posture : flat array
        Record of SET_POINT.
    gains : (4,) [rad/s; 1/s; rad/s; 1]
        Natural frequency ω and damping rate 2ζω; natural frequency of the push out of the soft
        zones; 1 if the feedback is bounded by the deceleration limits. A feedback that the torques
        do not permit would be given up as a whole, for damping.
    table : (8, n)
        See `Limits.table`.
    qdd : (n,), written

    """
    at, frequency, rate, push = _now_views(posture, len(q)), gains[0], gains[1], gains[2]
    is_bounded = gains[3] > 0.0
    for i in range(len(q)):
        now, velocity, qdd[i] = at.now[i], at.velocity[i], at.acceleration[i]
        if is_bounded and not table[LOWER, i] <= now <= table[UPPER, i]:  # hold at the limit
            inside = min(max(now, table[LOWER, i]), table[UPPER, i])
            share = 1.0 - smoothed(np.abs(now - inside) / DEEP)
            now, velocity, qdd[i] = inside, share * velocity, share * qdd[i]
        away, fastest, zone = (lag_of(q[i], now, at.wraps[i]), table[SPEED, i], table[ZONE, i])
        if rate == 0.0:
            qdd[i] += frequency * frequency * away
        else:
            hardest, stoppable = np.inf, fastest
            if is_bounded:
                hardest = table[DECELERATION, i]
                stoppable = min(np.sqrt(hardest * np.abs(away)), fastest)
            approach = min(max(frequency * frequency / rate * away, -stoppable), stoppable)
            approach = min(max(approach + velocity, -fastest), fastest)
            qdd[i] += min(max(rate * (approach - qd[i]), -hardest), hardest)
        if zone > 0.0:
            for side in range(2):
                distance = table[UPPER, i] - q[i] if side else q[i] - table[LOWER, i]
                depth = min(max(1.0 - distance / zone, 0.0), 1.0)
                pushed = push * push * zone * depth * depth
                qdd[i] += -pushed if side else pushed


@inlined
def put_springs(posture, stiffness, damping, q, qd, torque):
    """Write the torques (n,) of the springs between the set-point `posture` and q [N·m, N]."""
    at = _now_views(posture, len(q))
    for i in range(len(q)):
        torque[i] = (stiffness[i] * lag_of(q[i], at.now[i], at.wraps[i])
                     + damping[i] * (at.velocity[i] - qd[i]))


@inlined
def advance_posture(record, q, dt, speed):
    """
    Advance the set-point along its motion by dt [s], with the speed override `speed`, 0 to 1.

    Its clock pauses while a joint lags by more than `leash`, and the set-point leads away from it.

    """
    at = _views(record, len(q))
    at.pace[2] = speed
    if at.is_moving[0] == 0.0:
        at.pace[0], at.pace[1], at.waits[0] = speed, 0.0, 0.0
    if at.is_moving[0] == 0.0 or dt <= 0.0:
        return
    m, lags = at.segments.view(np.int64)[0], False
    times = numbers_at(at.segments.view(np.int64)[1], m)
    coefficients = view(numbers_at(at.segments.view(np.int64)[2], 6 * len(q) * (m - 1)), 0,
                        (m - 1, len(q), 6))
    time = min(at.elapsed[0], times[-1])
    k = interval_of(times, time)
    duration = times[k + 1] - times[k]
    for i in range(len(q)):
        away = lag_of(q[i], at.now[i], at.wraps[i])
        _, rate, _ = joint_state(coefficients[k, i], (time - times[k]) / duration, duration)
        lags = lags or at.leash[i] > 0.0 and np.abs(away) > at.leash[i] and away * rate > 0.0
    before, wanted, settling = at.pace[0], speed, at.calm[0]
    waits = lags or at.waits[0] > 0.0 and before < speed  # until the pace is back
    if waits:
        settling = PAUSING
    if lags:
        wanted = 0.0
    elif at.stops[0] > 0.0:
        wanted = before
    pace, slope = advanced_rate(before, at.pace[1], wanted, dt, settling)
    at.pace[0], at.pace[1], at.waits[0] = pace, slope, 1.0 if waits else 0.0
    at.elapsed[0] += 0.5 * (before + pace) * dt
    time = min(at.elapsed[0], times[-1])
    k = interval_of(times, time)
    duration = times[k + 1] - times[k]
    for i in range(len(q)):
        at.now[i], rate, bend = joint_state(
            coefficients[k, i], (time - times[k]) / duration, duration)
        at.velocity[i] = pace * rate
        at.acceleration[i] = pace * pace * bend + slope * rate
    if time == times[-1]:
        at.is_moving[0] = 0.0
        assign(at.now, at.wanted)
        for i in range(len(q)):
            at.velocity[i] = at.acceleration[i] = 0.0


class PostureSetPoint(Recorded):
    """
    Set-point of the joint positions, C¹ in time across changes of its motion.

    It starts at rest at q (n,). `motion` is the last motion; its segments are used by compiled
    code, so the set-point owns them.

    """

    TABLES = SET_POINT,

    def __init__(self, robot: Robot, q: Array) -> None:
        super().__init__(robot.n)
        self.motion: JointMotion | None = None
        self._next_pace: float | None = None  # pace from the next `follow` on
        [at] = self.views
        at.wraps[:], at.pace[0], at.calm[0] = continuous_joints(robot), 1.0, PAUSING
        at.pace[2] = 1.0
        self.hold(q)

    @property
    def wanted(self) -> Array:
        """Goal (n,)."""
        return np.array(self.views[0].wanted)

    @property
    def now(self) -> Array:
        """Set-point (n,) of the last tick."""
        return np.asarray(self.views[0].now)

    @property
    def state(self) -> Array:
        """Position, velocity and acceleration (3, n) of the set-point at the last tick."""
        [at] = self.views
        return np.array([at.now, at.velocity, at.acceleration])

    @property
    def full_speed_state(self) -> Array:
        """State (3, n) at the last tick as at full speed, from which a motion is planned."""
        [at] = self.views
        if not self.is_moving or self.motion is None or tuple(at.pace[:2]) == (1.0, 0.0):
            return self.state
        if not at.pace[:2].any():  # 0 %, or a pause: the joints rest
            return np.array(at.now * [[1.0], [0.0], [0.0]])
        return self.motion.at(self.elapsed)

    def slowed_state(self, bounds: Array) -> Array:
        """
        State (3, n) like `full_speed_state`, for a motion in `bounds` (3, n).

        While the pace is above the speed override, as in a stop, the next `follow` lowers it as
        far as the state then stays within the bounds.

        """
        [at] = self.views
        self._next_pace = None
        rate, _, wanted = at.pace.tolist()
        q, v, a = self.state
        least = max(float(np.abs(v / bounds[0]).max()),
                    math.sqrt(float(np.abs(a / bounds[1]).max())), wanted)
        if not least < rate:
            return self.full_speed_state
        self._next_pace = least
        return np.array([q, v / least, a / least ** 2]) if least else np.array([q, v, a])

    @property
    def is_moving(self) -> bool:
        """Whether a motion is in progress."""
        return bool(self.views[0].is_moving[0])

    @property
    def waits(self) -> bool:
        """Whether the motion pauses because a joint lags."""
        return self.is_moving and bool(self.views[0].waits[0])

    @property
    def left(self) -> float:
        """Duration of the rest of the motion at full speed [s]; 0 without a motion."""
        return 0.0 if not self.is_moving or self.motion is None else max(
            0.0, self.motion.duration - self.elapsed)

    @property
    def elapsed(self) -> float:
        """Time on the clock of the motion [s]."""
        return float(self.views[0].elapsed[0])

    def copied(self) -> PostureSetPoint:
        """Return an independent copy."""
        found = copy(self)
        found.records = tuple(one.copy() for one in self.records)
        found._connect()
        return found

    def hold(self, q: Array) -> None:
        """Set both the goal and the set-point to q (n,), at rest."""
        [at] = self.views
        at.wanted[:], at.now[:], at.velocity[:], at.acceleration[:] = q, q, 0.0, 0.0
        at.is_moving[0] = 0.0

    def start_from(self, q: Array, qd: Array, bounds: Array) -> None:
        """Set the set-point to q (n,), qd (n,), and stop within `bounds` (3, n)."""
        self.hold(q)
        [at] = self.views
        at.velocity[:], at.pace[0], at.pace[1] = qd, 1.0, 0.0
        self.stop(bounds)

    def pause_beyond(self, leash: Array, ramp: float) -> None:
        """
        Set the lag (n,) at which a motion pauses [rad, m]; 0: motions do not pause.

        `ramp` is the time in which a motion reaches its speed [s].

        """
        [at] = self.views
        at.leash[:], at.calm[0] = leash, CALM * ramp

    def stop(self, bounds: Array) -> None:
        """Stop within `bounds` (3, n), see `JointMotion.to_goal`, whatever the speed override."""
        [at] = self.views
        self._next_pace, rate = None, max(float(at.pace[0]), SLOWEST_STOP)
        bounds = bounds / np.array([[1.0], [rate ** 2], [rate ** 3]])
        self.follow(JointMotion.to_goal(self.full_speed_state, None, bounds))
        at.stops[0] = 1.0

    @property
    def wraps(self) -> Array:
        """1 for continuous joints, whose set-point takes the shorter way (n,)."""
        return np.asarray(self.views[0].wraps)

    def follow(self, motion: JointMotion, goal: Array | None = None) -> None:
        """Begin a motion to a goal (n,), which starts at the state of the last tick."""
        [at] = self.views
        at.wanted[:] = motion.end if goal is None else goal
        at.is_moving[0], at.elapsed[0], at.stops[0] = 1.0, 0.0, 0.0
        if self._next_pace is not None:
            at.pace[0], at.pace[1], self._next_pace = self._next_pace, 0.0, None
        self.use_motion(motion)

    def use_motion(self, motion: JointMotion | None) -> None:
        """
        Own a motion, and write the addresses of its segments to the record.

        InputError if the motion is for another number of joints.

        """
        [at] = self.views
        if motion is not None and motion.coefficients.shape[1] != len(at.now):
            raise InputError(f'a motion of {motion.coefficients.shape[1]} joints: must be one '
                             f'of {len(at.now)}')
        self.motion, segments = motion, at.segments.view(np.int64)
        if motion is None:
            segments[:] = at.is_moving[0] = 0
        else:
            segments[:] = (len(motion.times), address_of(motion.times),
                           address_of(motion.coefficients))


def nearest_turn(goal: Array, start: Array, robot: Robot) -> Array:
    """
    Turns (n,) [rad] of continuous joints to add to a goal (n,), half a turn or less from `start`.

    InputError if a goal is more than MANY turns away, and fewer in degrees.

    """
    away = continuous_joints(robot) * (start - goal) / TURN
    for i in np.flatnonzero(np.abs(away) > MANY).tolist():
        turned = float(np.radians(goal[i]))
        if abs(start[i] - turned) <= MANY * TURN:
            raise InputError(
                f"goal of joint '{robot.joint_names[i]}' is {goal[i]:g} rad, {abs(away[i]):.1f} "
                f'turns away (degrees? Then it is {turned:.4g} rad): it must be at most {MANY:g} '
                'turns away')
    return np.asarray(np.round(away) * TURN)


def goal_positions(goal: ArrayLike, robot: Robot, what: str = 'posture') -> Array:
    """
    Return a goal as an array (n,).

    InputError if the shape does not fit, or a position is outside the joint's limits.

    """
    wanted = np.array(goal, dtype=np.float64)
    if wanted.shape != (robot.n,) or not np.isfinite(wanted).all():
        raise InputError(f'{what} {wanted.tolist()}: give {robot.n} finite joint '
                         'positions')
    lower, upper = robot.position_limits.T
    for i in np.flatnonzero((wanted < lower) | (wanted > upper)).tolist():
        hint = unit_hint(float(wanted[i]), robot, i)
        raise InputError(f"{what} of joint '{robot.joint_names[i]}' is {wanted[i]:g}: "
                         f'it must be {lower[i]:g} to {upper[i]:g}{hint}')
    return wanted
