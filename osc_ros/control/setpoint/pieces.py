# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Motions over time by pieces of polynomials, which all motions of targets and joints are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
import ruckig
from scipy.interpolate import CubicSpline

from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.compile.record_type import FLOATS, Slot
from osc_ros.dynamics.algebra.spatial import (
    add,
    body_acceleration,
    body_rate,
    compose,
    cross,
    exponential,
    interval_of,
    rotate,
    rotation_of,
    rotation_vector,
    solved_rate,
    sub,
    transpose,
    unrotate,
)
from osc_ros.errors import InputError

Array = NDArray[np.float64]

# Knots of a spline solved together, or pieces that one call of a kernel computes, because it holds
# the GIL; additional knots of a spline on each side.
PART, OVERLAP = 512, 28
SHORTEST = 1e-7  # shorter pieces of a plan are left out [s]
SAMPLES = 9  # samples of each piece at which a motion is checked
# A spline swings at a point if its velocity there, times the longer of the two durations, is more
# than SWING times the longer of the two ways. Then it is lowered to at most STEADY times the lower
# mean velocity of both pieces.
SWING, STEADY = 4.0, 2.0


PIECES = (  # slots by which a record refers to `Pieces` in force
    Slot('times', (), 's', 'times (m,) of the pieces', FLOATS),
    Slot('coefficients', (), 'rad, m', 'their coefficients (m - 1, d, 6), flat', FLOATS))


class Pieces:
    """A motion of d coordinates by quintic pieces, with bounded acceleration or smoother."""

    def __init__(self, times: Array, coefficients: Array) -> None:
        m = len(times)
        if not (m >= 2 and times.dtype == coefficients.dtype == float and times.ndim == 1
                and coefficients.ndim == 3 and coefficients.shape[::2] == (m - 1, 6)
                and times.flags.carray and coefficients.flags.carray):
            raise InputError(f'pieces: times of shape {times.shape} and coefficients of '
                             f'shape {coefficients.shape}: give numbers of shapes (m,) '
                             'and (m - 1, d, 6)')
        # (m,) begin of each piece, and end of the last one, after the start of the motion [s];
        # (m - 1, d, 6) positions in powers of the passed share of the piece's duration, 0 to 1
        self.times, self.coefficients = times, coefficients

    @classmethod
    def between(cls, times: Array, q: Array, v: Array, a: Array) -> Pieces:
        """Return the quintics between positions, velocities and accelerations (m, d) at times."""
        coefficients = np.empty((len(times) - 1, q.shape[1], 6))
        for k in range(0, len(coefficients), PART):
            last = k + PART + 1
            _put_quintics(times[k:last], q[k:last], v[k:last], a[k:last],
                          coefficients[k:k + PART])
        return cls(times, coefficients)

    @property
    def end(self) -> Array:
        """Positions (d,) at the end."""
        return np.asarray(self.coefficients[-1].sum(axis=1))

    @property
    def duration(self) -> float:
        """Duration [s]."""
        return float(self.times[-1])

    def at(self, time: float) -> Array:
        """Position, velocity and acceleration (3, d) at a time after the start [s]."""
        found = np.empty((3, self.coefficients.shape[1]))
        _put_state(self.times, self.coefficients, min(max(time, 0.0), self.duration), found)
        return found

    def samples(self) -> tuple[Array, Array]:
        """Times (k,) [s] at SAMPLES points of each piece, and the states (k, 3, d) there."""
        m, d, _ = self.coefficients.shape
        times, states = np.empty(m * SAMPLES), np.empty((m * SAMPLES, 3, d))
        _put_samples(self.times, self.coefficients, times, states)
        return times, states

    @property
    def extremes(self) -> Array:
        """Least and largest position (2, d) of each coordinate at the samples."""
        found = self.later_extremes.copy()
        _put_extremes(self.coefficients[:1], found)
        return found

    @cached_property
    def later_extremes(self) -> Array:
        """Extremes after the first piece, which `begin_at` changes: slow for a long motion."""
        found = np.outer([np.inf, -np.inf], np.ones(self.coefficients.shape[1]))
        for part in self.parts(1):
            _put_extremes(part.coefficients, found)
        return found

    def after(self, wait: float) -> Pieces:
        """Return this motion, which begins at rest, after a time at rest [s]."""
        rest = np.zeros(self.coefficients[:1].shape)
        rest[..., 0] = self.at(0.0)[0]
        return Pieces(np.concatenate([[0.0], self.times + wait]),
                      np.concatenate([rest, self.coefficients]))

    def parts(self, first: int = 0) -> Iterator[Pieces]:
        """Yield the motion from piece `first` on in parts of PART pieces, on the same memory."""
        for k in range(first, len(self.coefficients), PART):
            yield Pieces(self.times[k:k + PART + 1], self.coefficients[k:k + PART])

    def begin_at(self, state: Array) -> Pieces:
        """Begin at another state (3, d): change the first piece, C² as before; return it."""
        q, v, a = np.stack([state, self.at(float(self.times[1]))], axis=1)
        _put_quintics(self.times[:2], q, v, a, self.coefficients[:1])
        return Pieces(self.times[:2], self.coefficients[:1])


def planned(start: Array, end: Array, bounds: Array, duration: float = 0.0,
            synchronization: ruckig.Synchronization = ruckig.Synchronization.Time
            ) -> Pieces | None:
    """Return the quickest motion within bounds, or None; it takes at least `duration` [s]."""
    # By Ruckig; None if it finds none. `start`, `end` (3, d): position (NaN at the end: any),
    # velocity, acceleration; `bounds` (3, d): largest velocity, acceleration, jerk.
    d, is_free = start.shape[1], np.isnan(end[0])
    ask, plan = ruckig.InputParameter(d), ruckig.Trajectory(d)
    ask.current_position, ask.current_velocity, ask.current_acceleration = start.tolist()
    ask.target_velocity, ask.target_acceleration = end[1:].tolist()
    ask.max_velocity, ask.max_acceleration, ask.max_jerk = bounds.tolist()
    ask.synchronization = synchronization
    if not is_free.any():
        ask.target_position = end[0].tolist()
    else:
        ask.target_position = np.where(is_free, 0.0, end[0]).tolist()
        ask.synchronization = ruckig.Synchronization.No
        ask.per_dof_control_interface = [
            ruckig.ControlInterface.Velocity if free else ruckig.ControlInterface.Position
            for free in is_free.tolist()]
    if duration > 0.0:
        ask.minimum_duration = float(duration)
    try:
        if ruckig.Ruckig(d).calculate(ask, plan) != ruckig.Result.Working:
            return None
    except (ruckig.RuckigError, ValueError):  # ValueError: unnamed result code
        return None
    parts = np.array([[(*axis.brake.t, *axis.t), (*axis.brake.j, *axis.j)]
                      for axis in plan.profiles[0]])
    times, coefficients = np.empty(9 * d + 2), np.empty((9 * d + 1, d, 6))
    m = put_cubics(parts, start, end[0], float(plan.duration), times, coefficients)
    return Pieces(times[:m], coefficients[:m - 1])


def spline_rates(times: Array, rows: Array, ends: Any) -> tuple[Array, Array]:
    """First and second derivatives (m, d) at the knots of splines; `ends` as for CubicSpline."""
    # They are solved in parts, because scipy holds the GIL; see `neighbours`.
    m, found = len(times), (np.empty(rows.shape), np.empty(rows.shape))
    inside = 2, np.zeros(rows.shape[1])
    for first in range(0, m, PART):
        own, inner = neighbours(first, min(first + PART, m), m)
        spline = CubicSpline(times[own], rows[own], bc_type=(
            ends[0] if own.start == 0 else inside, ends[1] if own.stop == m else inside))
        for order, rates in enumerate(found, 1):
            rates[first:first + PART] = spline(times[own], order)[inner]
    return found


def keep_shape(times: Array, ways: Array, v: Array, a: Array, size: int) -> None:
    """Lower velocities and accelerations (m, d) of splines where they swing, see SWING."""
    # `ways` (m - 1, d) lead from point to point; `size` coordinates, as those of a position,
    # belong together. Points at which the motion turns back get no velocity.
    m, d = v.shape
    if m < 3:
        return
    shape, h = (m - 2, d // size, size), np.diff(times)[:, None]
    speed, before, after = (np.linalg.norm(rows.reshape(shape), axis=2)
                            for rows in (v[1:-1], ways[:-1], ways[1:]))
    swings = speed * np.maximum(h[:-1], h[1:]) > SWING * np.maximum(before, after)
    turns = (ways[:-1] * ways[1:]).reshape(shape).sum(axis=2) <= 0.0
    most = np.where(turns, 0.0, STEADY * np.minimum(before / h[:-1], after / h[1:]))
    share = np.where(swings, np.minimum(most, speed) / np.where(swings, speed, 1.0), 1.0)
    v[1:-1] *= np.repeat(share, size, axis=1)
    swings = np.repeat(swings, size, axis=1)
    for k in range(3):  # the accelerations of the points before and after, too
        a[k:m - 2 + k][swings] = 0.0


def neighbours(first: int, last: int, m: int) -> tuple[slice, slice]:
    """Slices: knots to solve for knots `first` to `last` of a spline of m; these among them."""
    # The effect of a knot decays as 0.27ʲ over j knots, so with OVERLAP more knots on both sides
    # the results equal those of the whole spline, up to rounding.
    own = slice(max(first - OVERLAP, 0), min(last + OVERLAP, m))
    return own, slice(first - own.start, last - own.start)


@kernel
def put_cubics(parts, start, goal, total, times, coefficients):
    """Write a motion of constant jerks as cubics: times, coefficients; return how many times."""
    # `parts` (d, 2, 9): durations and jerks; `start` (3, d): state; `goal` (d,): last position,
    # NaN if free; `total`: duration [s]. A piece ends where the jerk of any coordinate changes.
    m = 0
    for i in range(len(parts)):
        begin = 0.0
        for k in range(9):
            begin += parts[i, 0, k]
            if SHORTEST < begin < total - SHORTEST:
                place = m
                while place > 0 and times[place - 1] > begin:
                    times[place] = times[place - 1]
                    place -= 1
                times[place] = begin
                m += 1
    count, last = 1, 0.0
    for k in range(m):  # leave out times that are equal to the one before
        begin = times[k]
        if begin - last > SHORTEST:
            times[count - 1] = last
            last = begin
            count += 1
    times[count - 1], times[count] = last, max(total, SHORTEST)
    for i in range(len(parts)):
        p, v, a, begin, k = start[0, i], start[1, i], start[2, i], 0.0, 0
        end = parts[i, 0, 0]
        for s in range(count):
            middle = 0.5 * (times[s] + times[s + 1])
            while k < 8 and end <= middle:  # go on to the part in which this piece lies
                h, j = end - begin, parts[i, 1, k]
                p, v, a = p + h * (v + h * (0.5 * a + h / 6.0 * j)), v + h * (a + 0.5 * h * j), (
                    a + h * j)
                k += 1
                begin, end = end, end + parts[i, 0, k]
            h, d, j = times[s] - begin, times[s + 1] - times[s], parts[i, 1, k]
            if end <= middle:  # this coordinate has arrived, or has stopped
                h, d = end - begin, 0.0
            c = coefficients[s, i]
            c[0] = p + h * (v + h * (0.5 * a + h / 6.0 * j))
            c[1] = d * (v + h * (a + 0.5 * h * j))
            c[2] = 0.5 * d * d * (a + h * j)
            c[3] = d * d * d / 6.0 * j
            c[4] = c[5] = 0.0
        if not np.isnan(goal[i]):  # without rounding errors of Ruckig
            c = coefficients[count - 1, i]
            c[0] += goal[i] - (c[0] + c[1] + c[2] + c[3])
    return count + 1


@kernel
def _put_quintics(times, q, v, a, coefficients):
    """Write coefficients (m - 1, d, 6) of the quintics between states q, v, a (m, d)."""
    for k in range(len(times) - 1):
        h = times[k + 1] - times[k]
        for i in range(q.shape[1]):
            put_quintic(coefficients[k, i], q[k + 1, i] - q[k, i], h * v[k, i], h * v[k + 1, i],
                        h * h * a[k, i], h * h * a[k + 1, i])
            coefficients[k, i, 0] = q[k, i]


@inlined
def put_quintic(c, end, v0, v1, a0, a1):
    """Write the quintic (6,) from 0 at s = 0 to `end` at s = 1, with end derivatives v and a."""
    c[0], c[1], c[2] = 0.0, v0, 0.5 * a0
    c[3] = 10.0 * end - 6.0 * v0 - 4.0 * v1 - 1.5 * a0 + 0.5 * a1
    c[4] = -15.0 * end + 8.0 * v0 + 7.0 * v1 + 1.5 * a0 - a1
    c[5] = 6.0 * end - 3.0 * v0 - 3.0 * v1 - 0.5 * a0 + 0.5 * a1


@inlined
def _value(c, s):
    """Value of a polynomial with coefficients c (6,) at s, 0 to 1."""
    return c[0] + s * (c[1] + s * (c[2] + s * (c[3] + s * (c[4] + s * c[5]))))


@inlined
def put_piece(coefficients, s, duration, x):
    """Write the state x (3, d) at s, 0 to 1, of a piece (d, 6) with a duration [s]."""
    for i in range(len(coefficients)):
        c = coefficients[i]
        x[0, i] = _value(c, s)
        x[1, i] = (c[1] + s * (2.0 * c[2] + s * (3.0 * c[3] + s * (
            4.0 * c[4] + s * 5.0 * c[5])))) / duration
        x[2, i] = (2.0 * c[2] + s * (6.0 * c[3] + s * (12.0 * c[4] + s * 20.0 * c[5]))) / (
            duration * duration)


@inlined
def put_state(times, coefficients, time, x):
    """Write the state x (3, d) of pieces at a time [s]; return the index of the piece."""
    # `coefficients` (m - 1, d, 6) may be flat.
    inside, d = min(max(time, times[0]), times[-1]), x.shape[1]
    k = interval_of(times, inside)
    duration, over = times[k + 1] - times[k], time - inside
    put_piece(view(coefficients, 6 * d * k, (d, 6)), (inside - times[k]) / duration, duration, x)
    if over != 0.0:  # before the begin and after the end the acceleration is constant
        for i in range(x.shape[1]):
            x[0, i] += over * (x[1, i] + 0.5 * over * x[2, i])
            x[1, i] += over * x[2, i]
    return k


@kernel
def _put_state(times, coefficients, time, x):
    """Call `put_state`."""
    put_state(times, coefficients, time, x)


@kernel
def _put_samples(times, coefficients, at, states):
    """Write the times and states of `Pieces.samples`."""
    for k in range(len(times) - 1):
        duration = times[k + 1] - times[k]
        for j in range(SAMPLES):
            row, s = k * SAMPLES + j, j / (SAMPLES - 1.0)
            at[row] = times[k] + s * duration
            put_piece(coefficients[k], s, duration, states[row])


@kernel
def _put_extremes(coefficients, found):
    """Extend the least and the largest position (2, d) to SAMPLES points of each piece."""
    for k in range(len(coefficients)):
        for i in range(coefficients.shape[1]):
            for j in range(SAMPLES):
                value = _value(coefficients[k, i], j / (SAMPLES - 1.0))
                found[0, i] = min(found[0, i], value)
                found[1, i] = max(found[1, i], value)


@inlined
def add_offset(pose, twist, acceleration, x, to_pose, to_twist, to_acceleration):
    """Write target ⊕ offset: rotation R exp(φ×), position p + d."""
    # x (3, 6): φ and d with their derivatives. The output arrays may be those of the given target.
    phi, rate = (x[0, 0], x[0, 1], x[0, 2]), (x[1, 0], x[1, 1], x[1, 2])
    R = compose(rotation_of(pose), exponential(phi))
    v = rotate(R, body_rate(phi, rate))
    a = add(rotate(R, body_acceleration(phi, rate, (x[2, 0], x[2, 1], x[2, 2]))),
            cross((twist[0], twist[1], twist[2]), v))
    for i in range(3):
        to_pose[i, 0], to_pose[i, 1], to_pose[i, 2] = R[3 * i], R[3 * i + 1], R[3 * i + 2]
        to_pose[i, 3] = pose[i, 3] + x[0, 3 + i]
        to_pose[3, i] = 0.0
        to_twist[i], to_acceleration[i] = twist[i] + v[i], acceleration[i] + a[i]
        to_twist[3 + i] = twist[3 + i] + x[1, 3 + i]
        to_acceleration[3 + i] = acceleration[3 + i] + x[2, 3 + i]
    to_pose[3, 3] = 1.0


@kernel
def put_offset(pose, twist, acceleration, to_pose, to_twist, to_acceleration, x):
    """Write the offset (3, 6): φ, d with R_to = R exp(φ×), p_to = p + d, and derivatives."""
    R = rotation_of(to_pose)
    phi = rotation_vector(compose(transpose(rotation_of(pose)), R))
    omega = (twist[0], twist[1], twist[2])
    v = sub((to_twist[0], to_twist[1], to_twist[2]), omega)
    rate = solved_rate(phi, unrotate(R, v))
    a = sub(sub((to_acceleration[0], to_acceleration[1], to_acceleration[2]),
                (acceleration[0], acceleration[1], acceleration[2])), cross(omega, v))
    drift = body_acceleration(phi, rate, (0.0, 0.0, 0.0))
    bend = solved_rate(phi, sub(unrotate(R, a), drift))
    for i in range(3):
        x[0, i], x[1, i], x[2, i] = phi[i], rate[i], bend[i]
        x[0, 3 + i] = to_pose[i, 3] - pose[i, 3]
        x[1, 3 + i] = to_twist[3 + i] - twist[3 + i]
        x[2, 3 + i] = to_acceleration[3 + i] - acceleration[3 + i]


@inlined
def put_displaced(knot, x, pose, twist, acceleration):
    """Write the target that a displacement x (3, 6) from a pose `knot` at rest leads to."""
    for i in range(6):
        twist[i] = acceleration[i] = 0.0
    add_offset(knot, twist, acceleration, x, pose, twist, acceleration)
