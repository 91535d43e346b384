# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Motions of all joints over time: to a goal as early as limits allow, or through given points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
import ruckig
from scipy.interpolate import CubicSpline

from osc_ros.compile.compiled import inlined, kernel, released
from osc_ros.control.setpoint.stamps import FARTHEST
from osc_ros.control.setpoint.trajectory import OVERLAP, PIECE, polynomial, put_quintic
from osc_ros.dynamics.algebra.vectors import interval_of
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SLOW = 0.2  # least duration of a motion that Ruckig does not find [s]
SHORTEST = 1e-7  # shorter segments are left out [s]
AT_REST = 1e-3  # larger velocities or accelerations at the end are refused
NEAR = 0.05  # a path may begin this far from the set-point [rad, m]
SAMPLES = 9  # samples of each segment at which a motion is checked
# Shares of the duration of a motion to a goal at which its torques are compared with the limits:
# while the joints accelerate, and while they brake.
HARD = 0.12, 0.25, 0.75, 0.88
ROUNDING = 1.0 + 1e-6  # relative tolerance of checks
# A joint that must brake from a higher speed or acceleration than its bounds gets this share more.
MORE = 1.0 + 1e-9


class JointMotion:
    """
    A motion of n joints by polynomials of degree five, C¹ with bounded acceleration or smoother.

    Attributes
    ----------
    times : (m,)
        Begin of each segment, and end of the last one, after the start of the motion [s].
    coefficients : (m - 1, n, 6)
        Positions in powers of the share of the segment's duration that has passed, 0 to 1.

    """

    def __init__(self, times: Array, coefficients: Array) -> None:
        self.times, self.coefficients = times, coefficients

    @classmethod
    def of_arrays(cls, times: Array, coefficients: Array) -> JointMotion:
        """Return the motion with these arrays; InputError if their shapes do not fit."""
        m = len(times)
        if not (m >= 2 and times.dtype == coefficients.dtype == float and times.ndim == 1
                and coefficients.ndim == 3 and coefficients.shape[::2] == (m - 1, 6)
                and times.flags.carray and coefficients.flags.carray):
            raise InputError(f'joint motion: times of shape {times.shape} and coefficients of '
                             f'shape {coefficients.shape}: give numbers of shapes (m,) '
                             'and (m - 1, n, 6)')
        return cls(times, coefficients)

    @classmethod
    def to_goal(cls, start: Array, goal: Array | None, bounds: Array, duration: float = 0.0
                ) -> JointMotion:
        """
        Return the motion to a goal at rest on which all joints arrive together (Ruckig).

        Parameters
        ----------
        start : (3, n)
            Position, velocity and acceleration at the start.
        goal : (n,), optional
            None: stop as fast as the bounds allow.
        bounds : (3, n)
            Largest speed, acceleration and jerk of each joint.
        duration : float
            Least duration [s].

        Raises
        ------
        InputError
            Ruckig finds no motion.

        """
        n = start.shape[1]
        ask, plan = ruckig.InputParameter(n), ruckig.Trajectory(n)
        ask.current_position, ask.current_velocity, ask.current_acceleration = start.tolist()
        speed, acceleration, jerk = bounds
        # a joint with this acceleration was, or will be, faster by a² / 2 jerk
        acceleration = np.maximum(acceleration, MORE * np.abs(start[2]))
        speed = np.maximum(speed, MORE * (np.abs(start[1]) + 0.5 * start[2] ** 2 / jerk))
        ask.max_velocity, ask.max_acceleration, ask.max_jerk = (
            speed.tolist(), acceleration.tolist(), jerk.tolist())
        ask.target_velocity = ask.target_acceleration = [0.0] * n
        if goal is None:
            ask.control_interface = ruckig.ControlInterface.Velocity
            ask.synchronization = ruckig.Synchronization.No
        else:
            ask.target_position = goal.tolist()
        if duration > 0.0:
            ask.minimum_duration = float(duration)
        try:
            found = ruckig.Ruckig(n).calculate(ask, plan)
        except (ruckig.RuckigError, ValueError):  # ValueError: unnamed result code
            found = None
        if found == ruckig.Result.Working:
            return cls(*_segments(plan, start, goal))
        if goal is None:
            raise InputError('no motion was found with which the joints stop')
        return cls._slow(start, goal, np.array([speed, acceleration]), duration)

    @classmethod
    def _slow(cls, start: Array, goal: Array, bounds: Array, duration: float) -> JointMotion:
        """Return a quintic within the bounds (2, n); for goals so near that Ruckig fails."""
        time = max(duration, SLOW)
        for _ in range(20):
            motion = cls.through(start, [time], goal[None])
            fastest = np.abs(motion.samples()[1][:, 1:]).max(axis=0)
            if (fastest <= ROUNDING * bounds).all():
                return motion
            time *= 1.5
        raise InputError(f'no joint motion to {goal.tolist()} was found within the bounds')

    @classmethod
    def through(cls, start: Array, times: ArrayLike, points: Array,
                velocities: Array | None = None, accelerations: Array | None = None
                ) -> JointMotion:
        """
        Return the motion from a state through points to rest, C².

        Parameters
        ----------
        start : (3, n)
            Position, velocity and acceleration at the time 0.
        times : (m,)
            Increasing, more than 0 [s].
        points : (m, n)
        velocities, accelerations : (m, n), optional
            Default: those of splines through the points, or through the velocities. The last ones
            must be 0.

        """
        t = np.concatenate([[0.0], np.asarray(times, dtype=np.float64)])
        q = np.vstack([start[0], points])
        if velocities is None:
            v, a = _spline_rates(t, q, (1, start[1]), (1, np.zeros(q.shape[1])))
        else:
            v = np.vstack([start[1], velocities])
            a = _spline_rates(t, v)[0] if len(t) > 2 else np.zeros(v.shape)
        if accelerations is not None:
            a[1:] = accelerations
        v[0], a[0], v[-1], a[-1] = start[1], start[2], 0.0, 0.0
        coefficients = np.empty((len(t) - 1, q.shape[1], 6))
        _put_quintics(t, q, v, a, coefficients)
        return cls(t, coefficients)

    @property
    def end(self) -> Array:
        """Positions (n,) at the end."""
        return np.asarray(self.coefficients[-1].sum(axis=1))

    @property
    def duration(self) -> float:
        """Duration [s]."""
        return float(self.times[-1])

    def at(self, time: float) -> Array:
        """Position, velocity and acceleration (3, n) at a time after the start [s]."""
        found = np.empty((3, self.coefficients.shape[1]))
        _put_state(self.times, self.coefficients, min(max(time, 0.0), self.duration), found)
        return found

    def samples(self) -> tuple[Array, Array]:
        """Times (k,) [s] at SAMPLES points of each segment, and the states (k, 3, n) there."""
        m, n, _ = self.coefficients.shape
        times, states = np.empty(m * SAMPLES), np.empty((m * SAMPLES, 3, n))
        _put_samples(self.times, self.coefficients, times, states)
        return times, states

    @property
    def extremes(self) -> Array:
        """Least and largest position (2, n) of each joint at the samples."""
        first = np.empty((2, self.coefficients.shape[1]))
        _put_extremes(self.coefficients[:1], first)
        return _together([first, self.later_extremes])

    @cached_property
    def later_extremes(self) -> Array:
        """Extremes after the first segment, which `begin_at` changes: slow for a long motion."""
        n = self.coefficients.shape[1]
        found = [np.outer([np.inf, -np.inf], np.ones(n))]
        for k in range(1, len(self.coefficients), PIECE):
            found.append(np.empty((2, n)))
            _put_extremes(self.coefficients[k:k + PIECE], found[-1])
        return _together(found)

    def parts(self) -> Iterator[JointMotion]:
        """Yield the motion in parts of PIECE segments, on the same memory."""
        for k in range(0, len(self.coefficients), PIECE):
            yield JointMotion(self.times[k:k + PIECE + 1], self.coefficients[k:k + PIECE])

    def begin_at(self, state: Array) -> JointMotion:
        """Begin at another state (3, n): change the first segment, C² as before; return it."""
        q, v, a = np.stack([state, self.at(float(self.times[1]))], axis=1)
        _put_quintics(self.times[:2], q, v, a, self.coefficients[:1])
        return JointMotion(self.times[:2], self.coefficients[:1])

    def slowed(self, factor: float) -> JointMotion:
        """Return this motion in `factor` times its duration; the motion must start at rest."""
        return JointMotion(factor * self.times, self.coefficients)


def _together(extremes: list[Array]) -> Array:
    least, most = np.moveaxis(np.array(extremes), 1, 0)
    return np.array([least.min(axis=0), most.max(axis=0)])


def rehearse(n: int) -> None:
    """Plan each kind of motion of n joints once, which compiles the kernels."""
    start, bounds = np.zeros((3, n)), np.ones((3, n))
    JointMotion.to_goal(start, np.ones(n), bounds).at(0.0)
    motion = JointMotion.through(start, [1.0, 2.0], np.ones((2, n)))
    motion.samples()
    _ = motion.extremes


def _spline_rates(times: Array, rows: Array, *ends: Any) -> tuple[Array, Array]:
    """
    First and second derivatives (m, n) at the knots of cubic splines with conditions at both ends.

    They are solved in pieces, because scipy holds the GIL; see `trajectory._put_spline_rates`.

    """
    m, found = len(times), (np.empty(rows.shape), np.empty(rows.shape))
    inside = 2, np.zeros(rows.shape[1])
    for first in range(0, m, PIECE):
        last = min(first + PIECE, m)
        own = slice(max(first - OVERLAP, 0), min(last + OVERLAP, m))
        begin, end = ends or ('not-a-knot', 'not-a-knot')
        spline = CubicSpline(times[own], rows[own], bc_type=(
            begin if own.start == 0 else inside, end if own.stop == m else inside))
        for order, rates in enumerate(found, 1):
            rates[first:last] = spline(times[first:last], order)
    return found


def joint_path(start: Array, times: ArrayLike, positions: ArrayLike,
               velocities: ArrayLike | None = None, accelerations: ArrayLike | None = None
               ) -> JointMotion:
    """
    Return `JointMotion.through` for points of a user; InputError names the first wrong one.

    A first point at the time 0 must be at the position of `start`, and is left out.

    """
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
        rows = None if values is None else np.array(values, dtype=np.float64)
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
    if t[0] < SHORTEST:
        far = float(np.abs(given[0][0] - start[0]).max())  # type: ignore[index]
        if far > NEAR:
            raise InputError(f'the motion begins {far:.3g} rad or m from the set-point of a '
                             f'joint: give {NEAR:g}, or a later time of the first point')
        t, given = t[1:], [None if rows is None else rows[1:] for rows in given]
        if not len(t):
            raise InputError('there is only a point at the time 0: give later ones')
    q, v, a = given
    return JointMotion.through(start, t, q, v, a)  # type: ignore[arg-type]


def require_within(motion: JointMotion, robot: Robot, velocity: Array, first: Array) -> None:
    """
    Raise InputError for the first joint that leaves its limits on a motion.

    `velocity` (n,) are the limits of speed; `first` (n,) are the positions at the start, from
    which a joint outside of its limits may return.

    """
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


def slowed_to_effort(motion: JointMotion, start: Array, bounds: Array, effort: Array,
                     torque: Callable[[Array, Array, Array], Array]) -> JointMotion:
    """
    Return a motion to the same goal that needs at most the torques `effort` (n,), if there is one.

    `torque` returns the torques (n,) of the model for q, q̇, q̈ (n,); for `start` and `bounds` see
    `JointMotion.to_goal`. A longer duration is tried up to four times.

    """
    for _ in range(4):
        needed = np.array([torque(*motion.at(share * motion.duration)) for share in HARD])
        if not (np.abs(needed) > effort).any():
            break
        rest = np.zeros(len(effort))
        room = np.maximum(effort - np.abs(torque(motion.end, rest, rest)), 0.1 * effort)
        excess = float(((np.abs(needed) - effort) / room).max())
        motion = JointMotion.to_goal(start, motion.end, bounds,
                                     motion.duration * min(np.sqrt(1.0 + excess) + 0.05, 2.0))
    return motion


def _segments(plan: ruckig.Trajectory, start: Array, goal: Array | None) -> tuple[Array, Array]:
    """
    Return times (m,) and coefficients (m - 1, n, 6) of a plan, as cubics.

    A segment ends where the jerk of any joint changes.

    """
    n, total = start.shape[1], float(plan.duration)
    parts = np.zeros((2, n, 9))
    for i, axis in enumerate(plan.profiles[0]):
        parts[:, i] = (*axis.brake.t, *axis.t), (*axis.brake.j, *axis.j)
    begins = np.cumsum(parts[0], axis=1).ravel()
    begins.sort()
    begins = begins[(begins > SHORTEST) & (begins < total - SHORTEST)]
    is_new = np.ones(len(begins), dtype=bool)
    np.greater(begins[1:] - begins[:-1], SHORTEST, out=is_new[1:])
    inside = begins[is_new]
    times = np.concatenate([[0.0], inside, [max(total, SHORTEST)]])
    coefficients = np.zeros((len(times) - 1, n, 6))
    _put_cubics(parts, start, times, coefficients)
    if goal is not None:  # without rounding errors of Ruckig
        coefficients[-1, :, 0] += goal - coefficients[-1].sum(axis=1)
    return times, coefficients


@kernel
def _put_cubics(parts, start, times, coefficients):
    """Write coefficients (m - 1, n, 6) of cubics; `parts` are durations and jerks (2, n, 9)."""
    for i in range(parts.shape[1]):
        p, v, a, begin, k = start[0, i], start[1, i], start[2, i], 0.0, 0
        end = parts[0, i, 0]
        for s in range(len(times) - 1):
            middle = 0.5 * (times[s] + times[s + 1])
            while k < 8 and end <= middle:  # go on to the part in which this segment lies
                h, j = end - begin, parts[1, i, k]
                p, v, a = p + h * (v + h * (0.5 * a + h / 6.0 * j)), v + h * (a + 0.5 * h * j), (
                    a + h * j)
                k += 1
                begin, end = end, end + parts[0, i, k]
            h, d, j = times[s] - begin, times[s + 1] - times[s], parts[1, i, k]
            if end <= middle:  # this joint has arrived, or has stopped
                h, j = end - begin, parts[1, i, k]
                c = coefficients[s, i]
                c[0] = p + h * (v + h * (0.5 * a + h / 6.0 * j))
                continue
            c = coefficients[s, i]
            c[0] = p + h * (v + h * (0.5 * a + h / 6.0 * j))
            c[1] = d * (v + h * (a + 0.5 * h * j))
            c[2] = 0.5 * d * d * (a + h * j)
            c[3] = d * d * d / 6.0 * j


@released
def _put_quintics(times, q, v, a, coefficients):
    """Write coefficients (m - 1, n, 6) of the quintics between states q, v, a (m, n)."""
    for k in range(len(times) - 1):
        h = times[k + 1] - times[k]
        for i in range(q.shape[1]):
            put_quintic(coefficients[k, i], q[k + 1, i] - q[k, i], h * v[k, i], h * v[k + 1, i],
                        h * h * a[k, i], h * h * a[k + 1, i])
            coefficients[k, i, 0] = q[k, i]


@inlined
def joint_state(coefficients, s, duration):
    """Position, velocity and acceleration at s, 0 to 1, of a segment of one joint (6,)."""
    value, first, second = polynomial(coefficients, s)
    return coefficients[0] + value, first / duration, second / (duration * duration)


@kernel
def _put_state(times, coefficients, time, state):
    """Write the state (3, n) at a time within the motion [s]."""
    k = interval_of(times, time)
    duration = times[k + 1] - times[k]
    for i in range(coefficients.shape[1]):
        state[0, i], state[1, i], state[2, i] = joint_state(
            coefficients[k, i], (time - times[k]) / duration, duration)


@released
def _put_samples(times, coefficients, at, states):
    """Write the times and states of `JointMotion.samples`."""
    for k in range(len(times) - 1):
        duration = times[k + 1] - times[k]
        for j in range(SAMPLES):
            row, s = k * SAMPLES + j, j / (SAMPLES - 1.0)
            at[row] = times[k] + s * duration
            for i in range(coefficients.shape[1]):
                states[row, 0, i], states[row, 1, i], states[row, 2, i] = joint_state(
                    coefficients[k, i], s, duration)


@kernel
def _put_extremes(coefficients, found):
    """Write the least and the largest position (2, n) at SAMPLES points of each segment."""
    for i in range(coefficients.shape[1]):
        least = most = coefficients[0, i, 0]
        for k in range(len(coefficients)):
            for sample in range(1, SAMPLES + 1):
                value, _, _ = polynomial(coefficients[k, i], sample / SAMPLES)
                least = min(least, coefficients[k, i, 0] + value)
                most = max(most, coefficients[k, i, 0] + value)
        found[0, i], found[1, i] = least, most
