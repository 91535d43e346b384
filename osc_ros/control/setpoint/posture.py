# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The posture: set-point of the joint positions, and the acceleration towards it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.safety.sample import continuous_joints
from osc_ros.control.setpoint.joint_motion import stopping_motion, unit_hint
from osc_ros.control.setpoint.motion import (
    advance_rate,
    first_rate,
    FULL,
    LAG,
    PHASE,
    put_goal_rate,
    put_slowed,
    SLOWEST_STOP,
    stand,
)
from osc_ros.control.setpoint.pieces import PIECES, Pieces, put_state
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
    Slot('extremes', (2, 'n'), 'rad, m', 'least and largest positions of the motion'),
    *PIECES)


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
    put_goal_rate(posture, speed, 0.0 if lags else 1.0, LAG)
    posture.elapsed += advance_rate(posture, PAUSING, dt)
    last = posture.times[-1]
    time = min(posture.elapsed, last)
    put_state(posture.times, posture.coefficients, time, posture.state)
    assign(posture.course, posture.velocity)
    put_slowed(posture, posture.velocity, posture.acceleration)
    if time == last:
        posture.is_moving = False
        assign(posture.now, posture.wanted)
        for i in range(len(q)):
            posture.velocity[i] = posture.acceleration[i] = 0.0


def set_point_at(robot: Robot, q: Array) -> Any:
    """Return a record SET_POINT at rest in q (n,)."""
    at = SET_POINT.new(n=robot.n)
    at.wraps[:], at.calm, at.rate, at.override = continuous_joints(robot), PAUSING, 1.0, 1.0
    hold_joints(at, q)
    return at


def motion_of(at: Any) -> Pieces | None:
    """Return the last motion of a set-point; None before the first one."""
    return Pieces(at.times, at.coefficients.reshape(-1, at.n, 6)) if len(at.times) else None


def full_speed_state(at: Any) -> Array:
    """State (3, n) at the last tick as at full speed, from which a path is planned."""
    motion = motion_of(at)
    if not at.is_moving or motion is None or (at.rate, at.rate_slope) == (1.0, 0.0):
        return np.array(at.state)
    if at.rate == at.rate_slope == 0.0:  # 0 %, or a pause: the joints rest
        return np.array(at.now * [[1.0], [0.0], [0.0]])
    return motion.at(at.elapsed)


def beginning(at: Any, bounds: Array) -> tuple[Array, float | None]:
    """Return state (3, n) and rate, see `first_rate`, for a motion within bounds (3, n)."""
    q, v, a = at.state
    rate = first_rate(at, float(np.abs(v / bounds[0]).max()), float(np.abs(a / bounds[1]).max()))
    if rate is None:
        return full_speed_state(at), None
    return np.array([q, v / rate, a / rate ** 2] if rate else [q, v, a]), rate


def hold_joints(at: Any, q: Array) -> None:
    """Set the goal and the set-point to q (n,), with zero velocity and acceleration."""
    at.wanted[:], at.state[:], at.now[:], at.is_moving = q, 0.0, q, False


def stop_joints(at: Any, bounds: Array) -> None:
    """Stop within `bounds` (3, n), see `stopping_motion`, whatever the speed override."""
    rate = max(float(at.rate), SLOWEST_STOP)
    bounds = bounds / np.array([[1.0], [rate ** 2], [rate ** 3]])
    begin_motion(at, stopping_motion(full_speed_state(at), bounds))
    at.stops = True


def begin_motion(at: Any, motion: Pieces, goal: Array | None = None, rate: float | None = None
                 ) -> None:
    """Begin a motion to a goal (n,) with the state and the rate of `beginning`."""
    at.wanted[:], at.extremes[:] = motion.end if goal is None else goal, motion.extremes
    at.is_moving, at.elapsed, at.stops = True, 0.0, False
    at.course[:] = motion.at(0.0)[1]
    if rate is not None:
        at.rate, at.rate_slope, at.reason = rate, 0.0, FULL
    refer_to(at, motion)


def refer_to(at: Any, motion: Pieces | None) -> None:
    """Let a set-point refer to the pieces of a motion."""
    at.is_moving = at.is_moving and motion is not None
    if motion is None:
        return
    if motion.coefficients.shape[1] != at.n:
        raise InputError(f'a motion of {motion.coefficients.shape[1]} joints: must be one of '
                         f'{at.n}')
    at.times, at.coefficients = motion.times, motion.coefficients.ravel()


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
