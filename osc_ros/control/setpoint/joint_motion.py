# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Motions of all joints over time: to a goal as early as limits allow, or through given points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import kernel
from osc_ros.control.setpoint.pieces import (
    keep_shape,
    Pieces,
    planned,
    put_cubics,
    SHORTEST,
    spline_rates,
)
from osc_ros.control.setpoint.stamps import FARTHEST
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SLOW = 0.2  # least duration of a motion that Ruckig does not find [s]
AT_REST = 1e-3  # larger velocities or accelerations at the end are refused
NEAR = 0.05  # a path may begin this far from the set-point [rad, m]
# Shares of the duration of a motion to a goal at which its torques are compared with the limits:
# while the joints accelerate, and while they brake.
HARD = 0.12, 0.25, 0.75, 0.88
ROUNDING = 1.0 + 1e-6  # relative tolerance of checks
# A joint that must brake from a higher speed or acceleration than its bounds gets this share more.
MORE = 1.0 + 1e-9


def motion_to_goal(start: Array, goal: Array, bounds: Array, duration: float = 0.0) -> Pieces:
    """Return the motion to a goal (n,) at rest on which all joints arrive together (Ruckig)."""
    # `start` (3, n): position, velocity and acceleration. `bounds` (3, n): limits of the speed,
    # acceleration and jerk. `duration`: least duration [s]. InputError if no motion is found.
    speed, acceleration, jerk = bounds
    # a joint with this acceleration was, or will be, faster by a² / 2 jerk
    acceleration = np.maximum(acceleration, MORE * np.abs(start[2]))
    speed = np.maximum(speed, MORE * (np.abs(start[1]) + 0.5 * start[2] ** 2 / jerk))
    end = np.zeros(start.shape)
    end[0] = goal
    found = planned(start, end, np.array([speed, acceleration, jerk]), duration)
    if found is not None:
        return found
    # a quintic within the bounds, for goals so near that Ruckig fails
    time = max(duration, SLOW)
    for _ in range(20):
        motion = motion_through(start, [time], goal[None])
        fastest = np.abs(motion.samples()[1][:, 1:]).max(axis=0)
        if (fastest <= ROUNDING * np.array([speed, acceleration])).all():
            return motion
        time *= 1.5
    raise InputError(f'no joint motion to {goal.tolist()} was found within the bounds')


def stopping_motion(start: Array, bounds: Array) -> Pieces:
    """Return the motion that stops each joint as fast as `bounds` allow, see `motion_to_goal`."""
    n = start.shape[1]
    times, coefficients = np.empty(9 * n + 2), np.empty((9 * n + 1, n, 6))
    m = _put_stop(start, np.full(n, np.nan), bounds, np.zeros((n, 2, 9)), times, coefficients)
    return Pieces(times[:m], coefficients[:m - 1])


@kernel
def _put_stop(start, free, bounds, parts, times, coefficients):
    """Write the cubics of a stop; return the number of times."""
    # For the arguments see `put_cubics`: `free` (n,) is its goal, NaN; `parts` are zeros.
    # The acceleration rises to a peak against the speed, stays there, and falls to zero.
    total = 0.0
    for i in range(len(parts)):
        v, a, jerk = start[1, i], start[2, i], bounds[2, i]
        side = -1.0 if v + 0.5 * a * np.abs(a) / jerk > 0.0 else 1.0
        change, a, most = -side * v, side * a, max(bounds[1, i], np.abs(a))
        peak = max(a, min(np.sqrt(max(jerk * change + 0.5 * a * a, 0.0)), most))
        parts[i, 0, 0], parts[i, 0, 2] = (peak - a) / jerk, peak / jerk
        if peak == most:
            parts[i, 0, 1] = max(change / peak - (peak - 0.5 * a * a / peak) / jerk, 0.0)
        parts[i, 1, 0], parts[i, 1, 2] = side * jerk, -side * jerk
        total = max(total, parts[i, 0, 0] + parts[i, 0, 1] + parts[i, 0, 2])
    return put_cubics(parts, start, free, total, times, coefficients)


def motion_through(start: Array, times: ArrayLike, points: Array, velocities: Array | None = None,
                   accelerations: Array | None = None) -> Pieces:
    """Return the C² motion from `start` (3, n) through points (m, n) to rest."""
    # `times` (m,) [s] increase from more than 0. Default velocities are those of splines through
    # the points, lower where these swing, see `keep_shape`; default accelerations those of splines
    # through points or velocities; the last ones of both must be 0.
    t = np.concatenate([[0.0], np.asarray(times, dtype=np.float64)])
    q = np.vstack([start[0], points])
    if velocities is None:
        v, a = spline_rates(t, q, ((1, start[1]), (1, np.zeros(q.shape[1]))))
        keep_shape(t, np.diff(q, axis=0), v, a, 1)
    else:
        v = np.vstack([start[1], velocities])
        a = spline_rates(t, v, ('not-a-knot', 'not-a-knot'))[0] if len(t) > 2 else (
            np.zeros(v.shape))
    if accelerations is not None:
        a[1:] = accelerations
    v[0], a[0], v[-1], a[-1] = start[1], start[2], 0.0, 0.0
    return Pieces.between(t, q, v, a)


def rehearse(n: int) -> None:
    """Plan each kind of motion of n joints once, which compiles the kernels."""
    start, bounds = np.zeros((3, n)), np.ones((3, n))
    motion_to_goal(start, np.ones(n), bounds).at(0.0)
    stopping_motion(start, bounds)
    motion = motion_through(start, [1.0, 2.0], np.ones((2, n)))
    motion.samples()
    _ = motion.extremes


def joint_path(start: Array, times: ArrayLike, positions: ArrayLike,
               velocities: ArrayLike | None = None, accelerations: ArrayLike | None = None
               ) -> Pieces:
    """Return `motion_through` for points of a user; InputError names the first wrong one."""
    n = start.shape[1]
    t = np.array(times, dtype=np.float64)
    m = t.size
    if not (t.shape == (m,) and m >= 1 and np.isfinite(t).all()
            and (np.diff(t, prepend=-SHORTEST) >= SHORTEST).all()):
        raise InputError(f'times {t.ravel().tolist()[:8]}: give one or more, increasing '
                         'from 0 or later, finite')
    if t[0] > FARTHEST:
        raise InputError(f'the first point is for {t[0]:g} s after now: it must be at most '
                         f'{FARTHEST:g} s (times on another clock? Give those from now on)')
    given: list[Array | None] = []
    for name, values in (('positions', positions), ('velocities', velocities),
                         ('accelerations', accelerations)):
        rows = None if values is None else np.array(values, dtype=np.float64, order='C')
        if rows is not None and (rows.shape != (m, n) or not np.isfinite(rows).all()):
            raise InputError(f'{name} have the shape {rows.shape}: must be finite numbers of '
                             f'the shape ({m}, {n}), for {m} times and {n} joints')
        given.append(rows)
    if accelerations is not None and velocities is None:
        raise InputError('accelerations are given without velocities: give both')
    for name, rows in zip(('velocities', 'accelerations'), given[1:]):
        if rows is not None and np.abs(rows[-1]).max() > AT_REST:
            raise InputError(f'the last {name} are {rows[-1].tolist()}: must be 0, a motion '
                             'that ends at rest')
    if t[0] < SHORTEST:  # a point at the time 0 must be at the position of `start`: leave it out
        far = float(np.abs(given[0][0] - start[0]).max())  # type: ignore[index]
        if far > NEAR:
            raise InputError(f'the motion begins {far:.3g} rad or m from the set-point of a '
                             f'joint: give {NEAR:g}, or a later time of the first point')
        t, given = t[1:], [None if rows is None else rows[1:] for rows in given]
        if not len(t):
            raise InputError('there is only a point at the time 0: give later ones')
    q, v, a = given
    return motion_through(start, t, q, v, a)  # type: ignore[arg-type]


def require_within(motion: Pieces, robot: Robot, velocity: Array, first: Array) -> None:
    """Raise InputError for the first joint that leaves its limits on a motion."""
    # `velocity` (n,): speed limits; `first` (n,): start, from which a joint outside its limits may
    # return.
    position = robot.position_limits
    lower, upper = np.minimum(position[:, 0], first), np.maximum(position[:, 1], first)
    for part in motion.parts():
        times, states = part.samples()
        for what, row, least, most, unit in (
                ('position', 0, lower, upper, ''),
                ('speed', 1, -velocity, velocity, ' in a second')):
            slack = (ROUNDING - 1.0) * (1.0 + np.where(np.isfinite(most), np.abs(most), 0.0))
            outside = (states[:, row] < least - slack) | (states[:, row] > most + slack)
            if outside.any():
                k, i = np.argwhere(outside)[0].tolist()
                value = float(states[k, row, i])
                hint = unit_hint(value, robot, i) if row == 0 else ''
                raise InputError(
                    f"joint '{robot.joint_names[i]}' has the {what} {value:.4g}{unit} after "
                    f'{times[k]:.3g} s: it must be {least[i]:.4g} to {most[i]:.4g}{unit}{hint}')


def unit_hint(position: float, robot: Robot, i: int) -> str:
    """Return a question about a position outside of the limits of joint i; or empty text."""
    (lower, upper), asks = robot.position_limits[i].tolist(), []
    if robot.prismatic[i]:
        return ''
    nearest = position - 2.0 * np.pi * np.round((position - 0.5 * (lower + upper)) / (2.0 * np.pi))
    turned = np.radians(position)
    if abs(position - nearest) < 2.1 * np.pi and lower <= nearest <= upper:
        more = 'much' if position > nearest else 'little'
        asks.append(f'2π too {more}? Then it is {nearest:.4g} rad')
    if abs(position) > 2.0 * np.pi and lower <= turned <= upper:
        asks.append(f'degrees? Then it is {turned:.4g} rad')
    return f" ({'; '.join(asks)})" if asks else ''


def slowed_to_effort(motion: Pieces, start: Array, bounds: Array, effort: Array,
                     torque: Callable[[Array, Array, Array], Array]) -> Pieces:
    """Return a motion to the same goal with torques of at most `effort` (n,), if one is found."""
    # Up to four longer durations are tried. `torque` gives the model's torques (n,) for q, q̇, q̈;
    # `start` and `bounds` are those of `motion_to_goal`.
    for _ in range(4):
        needed = np.array([torque(*motion.at(share * motion.duration)) for share in HARD])
        if not (np.abs(needed) > effort).any():
            break
        rest = np.zeros(len(effort))
        room = np.maximum(effort - np.abs(torque(motion.end, rest, rest)), 0.1 * effort)
        excess = float(((np.abs(needed) - effort) / room).max())
        motion = motion_to_goal(start, motion.end, bounds,
                                     motion.duration * min(np.sqrt(1.0 + excess) + 0.05, 2.0))
    return motion
