# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Paths through poses within the limits of a task: velocities by splines, slowing down."""

from __future__ import annotations

from collections.abc import Iterable
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.setpoint.motion import AT_THE_EDGE
from osc_ros.control.setpoint.trajectory import AT_REST, Path
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import Target, TargetLimits
from osc_ros.errors import InputError

Array = NDArray[np.float64]

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
    """Whether a pose (4, 4) is near the first of several poses; for the distance see NEAR."""
    away, step = pose_error(poses[0], pose), pose_error(poses[0], poses[1])
    lengths = np.linalg.norm([away.reshape(2, 3), step.reshape(2, 3)], axis=2)
    return bool((lengths[0] <= np.maximum(NEAR * lengths[1], NEAREST)).all())


def _reversed(path: Path) -> Path:
    """Return the path in the opposite direction, with the same start time."""
    ends = float(path.times[0] + path.times[-1])
    times, poses, twists, accelerations = (knots[::-1] for knots in _knots(path))
    back = Path(ends - times, poses, -twists, accelerations)
    back.points = ends - path.points[::-1]
    return back


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
    return _path_of(np.concatenate([knots[before], added])
                    for knots, added in zip(_knots(path), after))


def _brake(path: Path, limits: TargetLimits) -> Path:
    """Return a path that ends in motion, braked to rest at its end; it takes longer."""
    end = float(path.times[-1])
    last = path.at(end).twist.reshape(2, 3)
    # the largest deceleration is 15/8 of the mean one
    duration = 1.875 * float((np.linalg.norm(last, axis=1) / (
        BRAKE_SHARE * limits.acceleration)).max())
    # only the last part of the path changes
    kept = max(np.searchsorted(path.times, end - duration * LONGER ** BRAKE_PLANS) - 1, 0)
    best = part = _path_of(knots[kept:] for knots in _knots(path))
    for _ in range(BRAKE_PLANS):
        if not 0.0 < duration < 2.0 * (end - path.times[0]):
            break
        best = slowed_to_rest(part, end - duration, duration)
        if excess(best, limits) <= 1.0:
            break
        duration *= LONGER
    braked = _path_of(np.concatenate([before[:kept], after])
                      for before, after in zip(_knots(path), _knots(best)))
    braked.points = path.points
    return braked


def _knots(path: Path) -> tuple[Array, Array, Array, Array]:
    return path.times, path.poses, path.twists, path.accelerations


def _path_of(knots: Iterable[Array]) -> Path:
    times, poses, twists, accelerations = knots
    return Path(times, poses, twists, accelerations)
