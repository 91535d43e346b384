# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Motions of a target over time: a pose to hold, a path through poses."""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation, RotationSpline

from osc_ros.compile.compiled import kernel, released
from osc_ros.control.setpoint.motion import AT_THE_EDGE
from osc_ros.control.setpoint.pieces import (
    keep_shape,
    neighbours,
    OVERLAP,
    PART,
    put_displaced,
    put_offset,
    put_piece,
    put_quintic,
    SAMPLES,
    spline_rates,
)
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import Target, TargetLimits
from osc_ros.dynamics.algebra.spatial import interval_of
from osc_ros.errors import InputError
from osc_ros.model.validation import why_not_rigid

Array = NDArray[np.float64]

RIGID_TOLERANCE = 1e-6  # largest entry of R Rᵀ - 1; products of rotations drift by far less
AT_REST = np.zeros(6)

@dataclass(frozen=True, eq=False)
class PoseGoal:
    """
    A pose to move to and to hold.

    Attributes
    ----------
    pose : (4, 4)
        Pose in the base frame.
    arrival : float
        Time of arrival [s]; by default, or if this is too early, as early as possible.

    """

    pose: Array
    arrival: float = -np.inf

    def at(self, time: float) -> Target:
        """The target at a time [s]: the pose, at rest."""
        return Target(self.pose)


class Path:
    """
    A C² motion through poses, by quintics in position and in rotation vector.

    Between two knots the orientation is R_k exp(φ(t)×). The quintic φ matches the angular
    velocities and accelerations of both knots, so the orientation is C², as the position is.
    Before the first knot the target rests at it, after the last knot at the last one.

    Attributes
    ----------
    times, poses, twists, accelerations : (m,), (m, 4, 4), (m, 6), (m, 6)
        The knots.
    coefficients : (m - 1, 6, 6)
        Quintics of rotation vector and position from each knot to the next one.
    peaks, peak_times : (2, 2)
        Largest speeds [rad/s, m/s] and accelerations [rad/s², m/s²], of rotation and translation,
        at nine samples from each knot to the next, and their times [s].
    extent, extent_times : (2, 3)
        Lowest and highest position at the same samples [m], and their times [s].

    Parameters
    ----------
    times : (m,)
        Increasing [s], on the clock of the joint states.
    poses : (m, 4, 4)
        Poses in the base frame.
    twists, accelerations : (m, 6), optional [rad/s, m/s], [rad/s², m/s²]
        In base axes, [angular; linear]; both or neither. Default: those of cubic splines through
        the poses. See also `osc_ros.control.setpoint.trajectory.path_through`.
    ends : tuple of two (6,), optional
        Twists of these splines at the first and the last knot, by default at rest. None in the
        tuple: a natural end, without acceleration.
    points : (k,), optional
        Times of the given points, which error messages name; default: those of the knots.

    Raises
    ------
    InputError
        Fewer than two knots, times that do not increase, poses that are not rigid, half a turn or
        more between two knots, numbers that are not finite, or shapes that do not fit.

    """

    def __init__(self, times: ArrayLike, poses: ArrayLike, twists: ArrayLike | None = None,
                 accelerations: ArrayLike | None = None,
                 ends: tuple[Array | None, Array | None] = (AT_REST, AT_REST),
                 points: ArrayLike | None = None) -> None:
        self.times = np.array(times, dtype=np.float64)
        self.poses = np.array(poses, dtype=np.float64, order='C')
        if (twists is None) != (accelerations is None):
            raise InputError('a path takes both twists and accelerations, or neither')
        m = self.times.size
        if not (self.times.shape == (m,) and m >= 2 and np.isfinite(self.times).all()
                and (np.diff(self.times) > 0.0).all()):
            raise InputError(f'path times {self.times.ravel().tolist()[:8]}: give two or '
                             'more, increasing and finite')
        if self.poses.shape != (m, 4, 4):
            raise InputError(f'path has {m} times and poses of shape {self.poses.shape}')
        require_rigid('path: pose', self.poses)
        if twists is None or accelerations is None:
            rates = _spline_rates(self.times, self.poses, ends)
        else:
            rates = (np.array(twists, dtype=np.float64, order='C'),
                     np.array(accelerations, dtype=np.float64, order='C'))
        for what, values in zip(('twists', 'accelerations'), rates):
            if values.shape != (m, 6):
                raise InputError(f'path has {m} times and {what} of shape {values.shape}')
            if not np.isfinite(values).all():
                raise InputError(f'path: {what} are not finite')
        self.twists, self.accelerations = rates
        self.points = self.times if points is None else np.array(points, dtype=np.float64)
        if self.points.ndim != 1 or not len(self.points):
            raise InputError(f'path: points of shape {self.points.shape}: give their times (k,)')
        self.coefficients = np.empty((m - 1, 6, 6))
        _quintics(self.times, self.poses, rates[0], rates[1], self.coefficients, AT_REST,
                  np.empty((2, 3, 6)))
        turns = np.linalg.norm(self.coefficients[:, :3, :].sum(axis=2), axis=1)
        if (turns > np.radians(179.0)).any():
            k = int(np.argmax(turns))
            raise InputError(f'path turns by {np.degrees(turns[k]):.0f}° from knot {k} to '
                             f'{k + 1}: must be less than half a turn between knots')
        self.peaks, self.extent = np.zeros((2, 2)), np.array([[np.inf] * 3, [-np.inf] * 3])
        self.peak_times, self.extent_times = np.zeros((2, 2)), np.zeros((2, 3))
        _peaks(self.times, self.poses, self.coefficients, (self.peaks, self.peak_times),
               (self.extent, self.extent_times),
               (np.empty((4, 4)), np.empty((2, 6)), np.empty((3, 6))))

    @property
    def knots(self) -> tuple[Array, Array, Array, Array]:
        """Times, poses, twists and accelerations."""
        return self.times, self.poses, self.twists, self.accelerations

    def at_lower_speed(self, factor: float) -> Path:
        """Return this path stretched to `factor` times its duration, with the same start time."""
        times, points = (self.times[0] + factor * (one - self.times[0])
                         for one in (self.times, self.points))
        return Path(times, self.poses, self.twists / factor, self.accelerations / factor ** 2,
                    points=points)

    def with_ends(self, first: Array | None, last: Array | None) -> Path:
        """Return this path of splines with other `ends`, see the parameters of the class."""
        rates, m, n = (self.twists.copy(), self.accelerations.copy()), len(self.times), 2 * OVERLAP
        for own, changed in ((slice(0, n), slice(0, OVERLAP)),
                             (slice(max(m - n, 0), m), slice(-OVERLAP, None))):
            found = _spline_rates(self.times[own], self.poses[own], (
                first if own.start == 0 else None, last if own.stop >= m else None))
            for of_all, one in zip(rates, found):
                of_all[own][changed] = one[changed]
        return Path(self.times, self.poses, *rates, points=self.points)

    def sample(self, times: Array, poses: Array, twists: Array, accelerations: Array) -> None:
        """
        Write the motion at k ascending times [s], which may be equal.

        `poses` (k, 4, 4), `twists` and `accelerations` (k, 6) are written.

        """
        _samples(self.times, self.poses, self.coefficients, times, poses, twists, accelerations,
                 np.empty((3, 6)))

    def at(self, time: float) -> Target:
        """The target at a time [s]; at rest before the first knot and after the last."""
        if not self.times[0] <= time <= self.times[-1]:
            return Target(self.poses[0 if time < self.times[0] else -1])
        found = np.empty((1, 4, 4)), np.empty((1, 6)), np.empty((1, 6))
        self.sample(np.array([time]), *found)
        return Target(*(one[0] for one in found))


def figure_of_eight(pose: Array, width: float, height: float, period: float, turns: float,
                    start: float, rate: float = 50.0, swing: float = 0.0) -> Path:
    """Path along a lemniscate of Gerono in the y-z plane of the base, from rest to rest."""
    # It starts and ends at its crossing, `pose` (4, 4); the speed changes during the first and the
    # last quarter period. `width`, `height`: of the whole figure [m]; `period`: of one eight at
    # full speed [s]; `turns`: number of eights, a multiple of 1/2; `rate`: knots per second;
    # `swing`: amplitude of a rotation about the base's x axis, in phase with y [rad].
    if not (period > 0.0 and rate > 0.0 and turns > 0.0 and 2.0 * turns % 1.0 == 0.0):
        raise InputError(f'figure of eight: period {period} s, rate {rate} /s, {turns} turns: '
                         'must be positive numbers, and turns in halves')
    ramp = 0.25 * period
    duration = turns * period + ramp
    times = np.linspace(0.0, duration, max(2, int(np.ceil(duration * rate)) + 1))
    phase, dphase, ddphase = _phase(times, duration, ramp, period)
    poses = np.repeat(pose[None], len(times), axis=0)
    twists, accelerations = np.zeros((len(times), 6)), np.zeros((len(times), 6))
    for axis, size, k in ((1, 0.5 * width, 1), (2, 0.5 * height, 2)):
        poses[:, axis, 3] += size * np.sin(k * phase)
        twists[:, 3 + axis] = size * k * np.cos(k * phase) * dphase
        accelerations[:, 3 + axis] = size * k * (
            np.cos(k * phase) * ddphase - k * np.sin(k * phase) * dphase ** 2)
    angle = swing * np.sin(phase)
    poses[:, :3, :3] = Rotation.from_rotvec(
        np.outer(angle, [1.0, 0.0, 0.0])).as_matrix() @ pose[:3, :3]
    twists[:, 0] = swing * np.cos(phase) * dphase
    accelerations[:, 0] = swing * (np.cos(phase) * ddphase - np.sin(phase) * dphase ** 2)
    return Path(start + times, poses, twists, accelerations)


def require_rigid(what: str, poses: Array) -> None:
    """Raise InputError, which names `what` and an index, if poses (m, 4, 4) are not all rigid."""
    for first in range(0, len(poses), PART):  # in parts, because the kernel holds the GIL
        if (k := _first_not_rigid(poses[first:first + PART])) >= 0:
            index = f' {first + k}' if len(poses) > 1 else ''
            raise InputError(f'{what}{index} {why_not_rigid(poses[first + k])}')


def _phase(times: Array, duration: float, ramp: float, period: float
           ) -> tuple[Array, Array, Array]:
    """Phase (m,) of the eight [rad] and its derivatives: C², the speed changes in `ramp` [s]."""
    speed = 2.0 * np.pi / period
    x = np.clip(np.minimum(times, duration - times) / ramp, 0.0, 1.0)
    dphase = speed * x ** 2 * (3.0 - 2.0 * x)
    sign = np.where(times < 0.5 * duration, 1.0, -1.0)
    ddphase = speed * 6.0 * x * (1.0 - x) / ramp * sign
    risen = speed * ramp * (x ** 3 - 0.5 * x ** 4)
    total = speed * (duration - ramp)
    cruise = speed * (np.minimum(times, duration - times) - ramp)
    half = risen + np.maximum(cruise, 0.0)
    return np.where(times < 0.5 * duration, half, total - half), dphase, ddphase


def _spline_rates(times: Array, poses: Array, ends: tuple[Array | None, Array | None]
                  ) -> tuple[Array, Array]:
    """Twists and accelerations (m, 6) of cubic splines through poses; for `ends` see `Path`."""
    m = len(times)
    rates, ways = (np.zeros((m, 6)), np.zeros((m, 6))), np.zeros((m - 1, 6))
    ways[:, 3:] = np.diff(poses[:, :3, 3], axis=0)
    # boundary condition: the given velocity, or zero acceleration
    conditions = [(2, AT_REST[3:]) if end is None else (1, end[3:]) for end in ends]
    for of_all, linear in zip(rates, spline_rates(times, poses[:, :3, 3], conditions)):
        of_all[:, 3:] = linear
    for first in range(0, m, PART):  # in parts, because scipy holds the GIL during a solve
        own, inner = neighbours(first, min(first + PART, m), m)
        R, rotations = poses[own, :3, :3], Rotation.from_matrix(poses[own, :3, :3])
        turning = RotationSpline(times[own], rotations)
        ways[first:first + PART, :3] = (rotations[1:] * rotations[:-1].inv()).as_rotvec()[
            inner.start:inner.stop]
        for of_all, order in zip(rates, (1, 2)):
            of_all[first:first + PART, :3] = np.einsum(
                'kij,kj->ki', R, turning(times[own], order))[inner]
    twists, accelerations = rates
    for k, end in ((0, ends[0]), (m - 1, ends[1])):
        if end is not None:
            twists[k], accelerations[k, :3] = end, 0.0
    keep_shape(times, ways, twists, accelerations, 3)
    return rates


@kernel
def _first_not_rigid(poses):
    """Index of the first pose (4, 4) that is not rigid or not finite; -1 if there is none."""
    for k in range(len(poses)):
        T = poses[k]
        excess = 0.0
        for i in range(3):
            for j in range(3):
                product = T[i, 0] * T[j, 0] + T[i, 1] * T[j, 1] + T[i, 2] * T[j, 2]
                excess = max(excess, abs(product - (1.0 if i == j else 0.0)))
        turn = (T[0, 0] * (T[1, 1] * T[2, 2] - T[1, 2] * T[2, 1])
                - T[0, 1] * (T[1, 0] * T[2, 2] - T[1, 2] * T[2, 0])
                + T[0, 2] * (T[1, 0] * T[2, 1] - T[1, 1] * T[2, 0]))
        total = 0.0
        for i in range(4):
            for j in range(4):
                total += T[i, j]
        excess = max(excess, abs(T[3, 0]), abs(T[3, 1]), abs(T[3, 2]), abs(T[3, 3] - 1.0))
        if not (excess < RIGID_TOLERANCE and turn > 0.0 and abs(total) < np.inf):
            return k
    return -1


@released
def _quintics(times, poses, twists, accelerations, coefficients, still, x):
    """Write coefficients (m-1, 6, 6) of [φ; p - p_k] in powers of s, which runs from 0 to 1."""
    # `still` (6,): zeros; `x` (2, 3, 6): memory
    for k in range(len(times) - 1):
        h = times[k + 1] - times[k]
        for i in range(2):
            put_offset(poses[k], still, still, poses[k + i], twists[k + i], accelerations[k + i],
                       x[i])
        for i in range(6):
            put_quintic(coefficients[k, i], x[1, 0, i], h * x[0, 1, i], h * x[1, 1, i],
                        h * h * x[0, 2, i], h * h * x[1, 2, i])


@kernel
def _samples(times, poses, coefficients, wanted, to_poses, twists, accelerations, x):
    """Write the motion at ascending times [s]; at rest before and after the path; x is memory."""
    k, last = interval_of(times, wanted[0]), len(times) - 2
    for m in range(len(wanted)):
        time = wanted[m]
        while k < last and times[k + 1] <= time:
            k += 1
        duration = times[k + 1] - times[k]
        put_piece(coefficients[k], min(max((time - times[k]) / duration, 0.0), 1.0), duration, x)
        put_displaced(poses[k], x, to_poses[m], twists[m], accelerations[m])
        if not times[0] <= time <= times[last + 1]:
            for i in range(6):
                twists[m, i] = accelerations[m, i] = 0.0


@released
def _peaks(times, poses, coefficients, of_motion, of_position, room):
    """Write `peaks` and `extent` of a `Path`, and their times; `room` is memory for a target."""
    pose, rates, x = room
    (peaks, peak_times), (extent, extent_times) = of_motion, of_position
    for k in range(len(times) - 1):
        duration = times[k + 1] - times[k]
        for j in range(SAMPLES):
            s = j / (SAMPLES - 1.0)
            put_piece(coefficients[k], s, duration, x)
            put_displaced(poses[k], x, pose, rates[0], rates[1])
            time = times[k] + s * duration
            for row in range(2):
                for part in range(2):
                    square = 0.0
                    for i in range(3 * part, 3 * part + 3):
                        square += rates[row, i] * rates[row, i]
                    if not np.sqrt(square) <= peaks[row, part]:
                        peaks[row, part], peak_times[row, part] = np.sqrt(square), time
            for i in range(3):
                if pose[i, 3] < extent[0, i]:
                    extent[0, i], extent_times[0, i] = pose[i, 3], time
                if pose[i, 3] > extent[1, i]:
                    extent[1, i], extent_times[1, i] = pose[i, 3], time


# The target is at the first pose of a path if its distance from it is less than NEAR times the
# distance from the first pose to the second, or less than NEAREST [rad, m].
NEAR, NEAREST = 0.1, (0.02, 0.005)
BRAKE_KNOTS = 9  # number of knots while braking
BRAKE_SHARE = 0.7  # fraction of the acceleration limit for braking at the end of a path
LONGER = 1.5  # factor on a braking time, or fade, while the plan exceeds the limits
BRAKE_PLANS = 4  # largest number of plans with longer braking times
ROUNDED = 1.0 + 1e-6  # additional factor on the duration of a slowed path, because of rounding
_UNITS = (('rad/s', 'm/s'), ('rad/s²', 'm/s²'))


def path_through(times: ArrayLike, poses: ArrayLike, limits: TargetLimits,
                 present: Target | None = None) -> Path:
    """Return a path of cubic splines through poses; `times` and `poses` as for `Path`."""
    # It begins with the twist of the target `present` if this is at the first pose, otherwise at
    # rest, and ends at rest. Beyond limits at an end, the target accelerates or brakes along the
    # path, which then takes longer. Beyond limits in between, all times are stretched if
    # `too_fast` is 'slow'; otherwise `path_within` raises for the path.
    path = Path(times, poses)
    first = AT_REST
    if present is not None and present.twist.any() and _is_near(present.pose, path.poses):
        first = np.array(present.twist)
        path = path.with_ends(first, AT_REST)
    if excess(path, limits) <= 1.0:
        return path
    between = path.with_ends(None, None)
    factor = excess(between, limits)
    if factor > 1.0:  # whatever the ends are
        if limits.too_fast != 'slow':
            return between
        between = between.at_lower_speed(factor * ROUNDED)
    plans = [path]
    for ramps, brakes in ((False, False), (True, False), (False, True), (True, True)):
        path = between.with_ends(None if ramps else first, None if brakes else AT_REST)
        if ramps:
            path = _reversed(_brake(_reversed(path), limits))
        if brakes:
            path = _brake(path, limits)
        if excess(path, limits) <= 1.0:
            return path
        plans.append(path)
    return min(plans, key=lambda plan: excess(plan, limits))


def excess(path: Path, limits: TargetLimits) -> float:
    """Factor by which a path must be slowed down to keep the limits; ≤ 1 if it keeps them."""
    speed, acceleration = path.peaks / np.array([limits.speed, limits.acceleration])
    return float(max(speed.max(), math.sqrt(acceleration.max())))


def path_within(path: Path, limits: TargetLimits) -> Path:
    """Return a path within the limits: unchanged, or slowed down if `too_fast` is 'slow'."""
    # InputError names a point outside the box, or above a limit if `too_fast` is not 'slow'.
    for axis in range(3):
        for bound, sign in ((0, 1.0), (1, -1.0)):
            found, accepted = path.extent[bound, axis], limits.box[bound, axis]
            if not sign * (found - accepted) >= -AT_THE_EDGE:
                where = _point(path, path.extent_times[bound, axis])
                raise InputError(
                    f"the path leaves the workspace box: {'xyz'[axis]} is {found:.4g} m at "
                    f'{where}: must be {limits.box[0, axis]:g} to {limits.box[1, axis]:g} m')
    factor = excess(path, limits)
    if factor <= 1.0:
        return path
    if limits.too_fast == 'slow':
        return path.at_lower_speed(factor * ROUNDED)
    bounds = np.array([limits.speed, limits.acceleration])
    row, part = np.argwhere(path.peaks > bounds)[0].tolist()
    accepted = bounds[row, part]
    raise InputError(
        f'the path asks for {path.peaks[row, part]:.3g} {_UNITS[row][part]} at '
        f'{_point(path, path.peak_times[row, part])}: must be at most {accepted:g} '
        f"{_UNITS[row][part]} (too_fast 'slow' slows it down)")


def _point(path: Path, time: float) -> str:
    """Description of the point of a path nearest to a time [s], for errors."""
    k = int(np.argmin(np.abs(path.points - time)))
    return f'point {k} of {len(path.points)}, {time - path.times[0]:.3g} s after the first'


def _is_near(pose: Array, poses: Array) -> bool:
    """Whether a pose (4, 4) is close to poses[0]: NEAR and NEAREST define how close."""
    away, step = pose_error(poses[0], pose), pose_error(poses[0], poses[1])
    lengths = np.linalg.norm([away.reshape(2, 3), step.reshape(2, 3)], axis=2)
    return bool((lengths[0] <= np.maximum(NEAR * lengths[1], NEAREST)).all())


def _reversed(path: Path) -> Path:
    """Return the path in the opposite direction, with the same start time."""
    ends = float(path.times[0] + path.times[-1])
    times, poses, twists, accelerations = (knots[::-1] for knots in path.knots)
    return Path(ends - times, poses, -twists, accelerations, points=ends - path.points[::-1])


def slowed_to_rest(path: Path, start: float, duration: float) -> Path:
    """Return the path, slowed down at its end along the same way, so that it ends at rest."""
    # In D [s] the rate of the path parameter τ falls from 1 to 0: τ' = 1 - 10x³ + 15x⁴ - 6x⁵, x
    # from 0 to 1. τ advances by D/2, so the path ends D/2 later. The path does not slow down
    # before `start`.
    end = float(path.times[-1])
    D = min(duration, 2.0 * (end - max(start, float(path.times[0]))))
    begin, x = end - 0.5 * D, np.linspace(0.0, 1.0, BRAKE_KNOTS)
    rate, slope = 1.0 - x ** 3 * (10.0 - 15.0 * x + 6.0 * x ** 2), (
        -30.0 * x ** 2 * (1.0 - x) ** 2 / D)
    poses, v, a = (np.empty((BRAKE_KNOTS, *shape)) for shape in ((4, 4), (6,), (6,)))
    path.sample(np.minimum(begin + D * (x - 2.5 * x ** 4 + 3.0 * x ** 5 - x ** 6), end),
                poses, v, a)
    rate, slope = rate[:, None], slope[:, None]
    after = begin + D * x, poses, rate * v, rate ** 2 * a + slope * v
    before = path.times < begin - 1e-3 * D
    times, poses, twists, accelerations = (
        np.concatenate([knots[before], added]) for knots, added in zip(path.knots, after))
    return Path(times, poses, twists, accelerations)


def _brake(path: Path, limits: TargetLimits) -> Path:
    """Return a path that ends in motion, braked to rest at its end; it takes longer."""
    end = float(path.times[-1])
    last = path.at(end).twist.reshape(2, 3)
    # the largest deceleration is 15/8 of the mean one
    duration = 1.875 * float((np.linalg.norm(last, axis=1) / (
        BRAKE_SHARE * limits.acceleration)).max())
    # only the last part of the path changes
    kept = max(np.searchsorted(path.times, end - duration * LONGER ** BRAKE_PLANS) - 1, 0)
    best = part = Path(path.times[kept:], path.poses[kept:], path.twists[kept:],
                       path.accelerations[kept:])
    for _ in range(BRAKE_PLANS):
        if not 0.0 < duration < 2.0 * (end - path.times[0]):
            break
        best = slowed_to_rest(part, end - duration, duration)
        if excess(best, limits) <= 1.0:
            break
        duration *= LONGER
    times, poses, twists, accelerations = (
        np.concatenate([before[:kept], after]) for before, after in zip(path.knots, best.knots))
    return Path(times, poses, twists, accelerations, points=path.points)
