# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The posture: set-point of the joint positions, and the acceleration towards it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.addresses import address_of, numbers_at
from osc_ros.compile.compiled import inlined, kernel, plain, view
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.safety.sample import continuous_joints
from osc_ros.control.setpoint.joint_motion import motion_to_goal, unit_hint
from osc_ros.control.setpoint.motion import (
    advance_rate,
    first_rate,
    FULL,
    LAG,
    PHASE,
    put_slowed,
    SLOWEST_STOP,
    stand,
    waits,
)
from osc_ros.control.setpoint.pieces import Pieces, put_state
from osc_ros.dynamics.algebra.spatial import assign, smoothed
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

# a goal so little beyond a position limit, as that of a joint that rests there, is at it [rad, m]
AT_LIMIT = 1e-3
TURN, MANY = 2.0 * np.pi, 2.0  # a full turn [rad]; from so many turns on, degrees are likely
# Time constant with which the clock of a motion stops while a joint lags, and goes on [s].
PAUSING = 0.06
# Depth of the set-point beyond a limit from which its velocity does not count [rad, m].
DEEP = 0.1
# Time constant of another change of this clock, relative to the time in which a motion reaches its
# speed: at full speed the change uses at most 0.74 of the acceleration of the motion.
CALM = 0.5


@dataclass(frozen=True, eq=False)
class Posture(Group, group='posture'):
    """
    Gains of the posture, which acts in the nullspace of the tasks.

    Raises
    ------
    InputError
        A number that is not accepted.

    """

    natural_frequency: float = setting(
        5.0, 'Natural frequency of the joints in the nullspace [rad/s]; at most 116 at a `rate` '
        'of 500 Hz', lower=0.0, upper=1e3)
    damping_ratio: float = setting(1.0, 'Damping ratio of the joints in the nullspace', lower=0.0,
                                   upper=1e2)
    damping: float = setting(
        1.0, 'Least damping rate in the nullspace, whatever posture.natural_frequency and '
        'posture.damping_ratio [1/s]; at most half of `rate`', lower=0.0, upper=1e3)


SET_POINT = Table(
    'PostureSetPoint',
    Slot('state', (3, 'n'), 'rad, m; per s; per s²', 'the set-point of the last tick: position, '
         'velocity, acceleration'),
    *(Slot(name, ('n',), unit, f'{name} of the set-point', row=('state', i))
      for i, (name, unit) in enumerate((
          ('now', 'rad, m'), ('velocity', 'rad/s, m/s'), ('acceleration', 'rad/s², m/s²')))),
    Slot('course', ('n',), 'rad/s, m/s', 'its velocity at full speed'),
    Slot('wraps', ('n',), '', 'whether a joint is continuous: it takes the shorter way', bool),
    Slot('wanted', ('n',), 'rad, m', 'the goal'),
    Slot('is_moving', (), '', 'whether a motion is in progress', bool),
    Slot('elapsed', (), 's', 'time on the clock of this motion'),
    *PHASE,
    Slot('leash', ('n',), 'rad, m', 'lag of a joint at which it pauses; 0: it does not pause'),
    Slot('time_count', (), '', 'number of times of the motion, see `pieces.Pieces`',
         int),
    Slot('times_at', (), '', 'address of these times', int),
    Slot('coefficients_at', (), '', 'address of the coefficients', int))


@inlined
def lag_of(q, now, wraps):
    """Way from a position to a set-point; of a continuous joint, the shorter way."""
    away = now - q
    return (away + np.pi) % (2.0 * np.pi) - np.pi if wraps else away


@kernel
def posture_acceleration(m, d, posture, qd, qdd):
    """Write the accelerations towards a posture, and out of the soft zones, at qd (n,)."""
    # `posture` is a record SET_POINT. In a joint drive the deceleration limits bound the feedback:
    # one that the torques do not permit would be given up as a whole, for damping.
    frequency, rate, push, q = d.posture_frequency, d.posture_rate, d.push_frequency, d.q
    for i in range(d.n):
        now, velocity, qdd[i] = posture.now[i], posture.velocity[i], posture.acceleration[i]
        lower, upper, fastest, zone = d.least_q[i], d.most_q[i], d.most_speed[i], d.soft_zone[i]
        if m.drives_joints and not lower <= now <= upper:  # hold at the limit
            inside = min(max(now, lower), upper)
            share = 1.0 - smoothed(np.abs(now - inside) / DEEP)
            now, velocity, qdd[i] = inside, share * velocity, share * qdd[i]
        away = lag_of(q[i], now, posture.wraps[i])
        if rate == 0.0:
            qdd[i] += frequency * frequency * away
        else:
            hardest, stoppable = np.inf, fastest
            if m.drives_joints:
                hardest = d.deceleration[i]
                stoppable = min(np.sqrt(hardest * np.abs(away)), fastest)
            approach = min(max(frequency * frequency / rate * away, -stoppable), stoppable)
            approach = min(max(approach + velocity, -fastest), fastest)
            qdd[i] += min(max(rate * (approach - qd[i]), -hardest), hardest)
        if zone > 0.0:
            for side in range(2):
                distance = upper - q[i] if side else q[i] - lower
                depth = min(max(1.0 - distance / zone, 0.0), 1.0)
                pushed = push * push * zone * depth * depth
                qdd[i] += -pushed if side else pushed


@inlined
def put_springs(d, posture):
    """Write the torques of the springs between the set-point `posture` and the joints."""
    for i in range(d.n):
        away = lag_of(d.q[i], posture.now[i], posture.wraps[i])
        d.tau_springs[i] = (d.joint_stiffness[i] * away
                            + d.joint_damping[i] * (posture.velocity[i] - d.qd[i]))


@inlined
def advance_posture(posture, q, dt, speed):
    """Advance the set-point along its motion by dt [s]; `speed` is the speed override, 0 to 1."""
    posture.override = speed
    if not posture.is_moving:
        stand(posture, speed)
    if not posture.is_moving or dt <= 0.0:
        return
    # the clock pauses while a joint lags by over `leash`, and the set-point leads away from it
    lags = False
    for i in range(len(q)):
        away, leash = lag_of(q[i], posture.now[i], posture.wraps[i]), posture.leash[i]
        lags = lags or leash > 0.0 and np.abs(away) > leash and away * posture.course[i] > 0.0
    posture.elapsed += advance_rate(posture, speed, 0.0 if lags else 1.0, LAG, PAUSING, dt)
    m = posture.time_count
    times = numbers_at(posture.times_at, m)
    time = min(posture.elapsed, times[-1])
    put_state(times, view(numbers_at(posture.coefficients_at, 6 * len(q) * (m - 1)), 0,
                          (m - 1, len(q), 6)), time, posture.state)
    assign(posture.course, posture.velocity)
    put_slowed(posture, posture.velocity, posture.acceleration)
    if time == times[-1]:
        posture.is_moving = False
        assign(posture.now, posture.wanted)
        for i in range(len(q)):
            posture.velocity[i] = posture.acceleration[i] = 0.0


class PostureSetPoint:
    """Set-point of the joints, C¹ in time across changes of its motion; at rest in q at first."""

    def __init__(self, robot: Robot, q: Array) -> None:
        self.record = at = SET_POINT.new(n=robot.n)
        self.motion: Pieces | None = None  # the last one
        at.wraps[:], at.calm = continuous_joints(robot), PAUSING
        at.rate = at.override = 1.0
        self.hold(q)

    @property
    def wanted(self) -> Array:
        """Goal (n,)."""
        return np.array(self.record.wanted)

    @property
    def now(self) -> Array:
        """Set-point (n,) of the last tick."""
        return np.asarray(self.record.now)

    @property
    def state(self) -> Array:
        """Position, velocity and acceleration (3, n) of the set-point at the last tick."""
        return np.array(self.record.state)

    @property
    def full_speed_state(self) -> Array:
        """State (3, n) at the last tick as at full speed, from which a path is planned."""
        at = self.record
        if not self.is_moving or self.motion is None or (at.rate, at.rate_slope) == (1.0, 0.0):
            return self.state
        if at.rate == at.rate_slope == 0.0:  # 0 %, or a pause: the joints rest
            return np.array(at.now * [[1.0], [0.0], [0.0]])
        return self.motion.at(float(self.record.elapsed))

    def beginning(self, bounds: Array) -> tuple[Array, float | None]:
        """Return state (3, n) and rate, see `first_rate`, for a motion within bounds (3, n)."""
        q, v, a = self.state
        rate = first_rate(self.record, float(np.abs(v / bounds[0]).max()),
                          float(np.abs(a / bounds[1]).max()))
        if rate is None:
            return self.full_speed_state, None
        return np.array([q, v / rate, a / rate ** 2] if rate else [q, v, a]), rate

    @property
    def is_moving(self) -> bool:
        """Whether a motion is in progress."""
        return bool(self.record.is_moving)

    @property
    def waits(self) -> bool:
        """Whether the motion pauses because a joint lags."""
        return self.is_moving and bool(plain(waits)(self.record))

    @property
    def left(self) -> float:
        """Duration of the rest of the motion at full speed [s]; 0 without a motion."""
        return 0.0 if not self.is_moving or self.motion is None else max(
            0.0, self.motion.duration - float(self.record.elapsed))

    def take(self, other: PostureSetPoint) -> None:
        """Copy the set-point and the motion of another one."""
        self.record.words[:], self.motion = other.record.words, other.motion

    def hold(self, q: Array) -> None:
        """Set both the goal and the set-point to q (n,), at rest."""
        at = self.record
        at.wanted[:], at.state[:], at.now[:] = q, 0.0, q
        at.is_moving = False

    def start_from(self, q: Array, qd: Array, bounds: Array) -> None:
        """Set the set-point to q (n,), qd (n,), and stop within `bounds` (3, n)."""
        self.hold(q)
        at = self.record
        at.velocity[:], at.rate, at.rate_slope = qd, 1.0, 0.0
        self.stop(bounds)

    def pause_beyond(self, leash: Array, ramp: float) -> None:
        """Set the lag (n,) at which a motion pauses [rad, m]; 0: motions do not pause."""
        # `ramp` is the time in which a motion reaches its speed [s].
        self.record.leash[:], self.record.calm = leash, CALM * ramp

    def stop(self, bounds: Array) -> None:
        """Stop within `bounds` (3, n), see `motion_to_goal`, whatever the speed override."""
        rate = max(float(self.record.rate), SLOWEST_STOP)
        bounds = bounds / np.array([[1.0], [rate ** 2], [rate ** 3]])
        self.follow(motion_to_goal(self.full_speed_state, None, bounds))
        self.record.stops = True

    @property
    def wraps(self) -> Array:
        """1 for continuous joints, whose set-point takes the shorter way (n,)."""
        return np.asarray(self.record.wraps)

    def follow(self, motion: Pieces, goal: Array | None = None, rate: float | None = None) -> None:
        """Begin a motion to a goal (n,) with the state and the rate of `beginning`."""
        at = self.record
        at.wanted[:] = motion.end if goal is None else goal
        at.is_moving, at.elapsed, at.stops = True, 0.0, False
        at.course[:] = motion.at(0.0)[1]
        if rate is not None:
            at.rate, at.rate_slope, at.reason = rate, 0.0, FULL
        self.use_motion(motion)

    def use_motion(self, motion: Pieces | None) -> None:
        """Own a motion; write the addresses of its segments, which compiled code uses."""
        at = self.record
        if motion is not None and motion.coefficients.shape[1] != len(at.now):
            raise InputError(f'a motion of {motion.coefficients.shape[1]} joints: must be one '
                             f'of {len(at.now)}')
        self.motion, at.is_moving = motion, at.is_moving and motion is not None
        at.time_count, at.times_at, at.coefficients_at = (0, 0, 0) if motion is None else (
            len(motion.times), address_of(motion.times), address_of(motion.coefficients))


def nearest_turn(goal: Array, start: Array, robot: Robot) -> Array:
    """Turns (n,) [rad] that bring a goal (n,) of continuous joints nearest to `start`."""
    # InputError if a goal has more than MANY turns, and is more than MANY turns away.
    away = continuous_joints(robot) * (start - goal) / TURN
    for i in np.flatnonzero((np.abs(away) > MANY) & (np.abs(goal) > MANY * TURN)).tolist():
        raise InputError(
            f"goal of joint '{robot.joint_names[i]}' is {goal[i]:g} rad, {abs(away[i]):.4g} turns "
            f'away (degrees? Then it is {np.radians(goal[i]):.4g} rad): it must be at most '
            f'{MANY:g} turns away')
    return np.asarray(np.round(away) * TURN)


def goal_positions(goal: ArrayLike, robot: Robot, what: str = 'posture') -> Array:
    """Return a goal (n,) within the position limits; InputError if it is beyond, or no goal."""
    wanted = np.array(goal, dtype=np.float64)
    if wanted.shape != (robot.n,) or not np.isfinite(wanted).all():
        raise InputError(f'{what} {wanted.tolist()}: give {robot.n} finite joint '
                         'positions')
    lower, upper = robot.position_limits.T
    inside = np.clip(wanted, lower, upper)
    for i in np.flatnonzero(np.abs(wanted - inside) > AT_LIMIT).tolist():
        hint = unit_hint(float(wanted[i]), robot, i)
        raise InputError(f"{what} of joint '{robot.joint_names[i]}' is {wanted[i]:g}: "
                         f'it must be {lower[i]:g} to {upper[i]:g}{hint}')
    return inside
