# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Transition of a target to a new motion: an offset that decays to zero within limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
import ruckig

from osc_ros.compile.compiled import kernel
from osc_ros.control.setpoint.motion import AT_THE_EDGE
from osc_ros.control.setpoint.pieces import add_offset, Pieces, planned, put_offset, put_state
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.tasks.task import Target, TargetLimits

Array = NDArray[np.float64]

SAMPLES = np.linspace(0.0, 1.0, 33)  # fractions of a plan's duration at which it is checked
WITHIN = 1.0 + 1e-3  # largest ratio to a limit that counts as within it, because of rounding
SLOWER = (1.0, 0.7, 0.5, 0.35, 0.25)  # fractions of the speed limit, tried until a plan fits
SMALLEST = 0.05  # least fraction of a limit for one axis, because the axis may have to brake
# Offsets and their first and second derivatives below these values count as zero
# [rad, m; and per s, s²].
NEGLIGIBLE = np.array([[1e-9], [1e-8], [1e-7]])

_EQUAL = np.full(6, np.sqrt(1.0 / 3.0))
_NO_SPEED = np.full(6, np.inf)


@dataclass(frozen=True, eq=False)
class Drift:
    """A motion with a constant twist."""

    pose: Array  # (4, 4) at the time `since`, in the base frame
    twist: Array  # (6,) in base axes, [angular; linear] [rad/s, m/s]
    since: float  # [s]

    @property
    def rates(self) -> Array:
        """Twist (6,) as `pieces.add_offset` wants it: the rotation in the axes of the pose."""
        return np.concatenate([self.pose[:3, :3].T @ self.twist[:3], self.twist[3:]])

    def at(self, time: float) -> Target:
        """The target at a time [s]."""
        rates = self.rates
        return composed(Target(self.pose), np.array([
            (time - self.since) * rates, rates, 0.0 * rates]))


Base: TypeAlias = PoseGoal | Path | Drift


def difference(begin: Target, present: Target) -> Array:
    """Offset (3, 6) of `present` from `begin`: position, velocity, acceleration."""
    # Columns 0 to 2: rotation vector in the axes of `begin`; 3 to 5: displacement in base axes
    # [rad, m; and per s, s²].
    x = np.empty((3, 6))
    put_offset(begin.pose, begin.twist, begin.acceleration, present.pose, present.twist,
                present.acceleration, x)
    x[np.abs(x) < NEGLIGIBLE] = 0.0
    return x


def composed(base: Target, x: Array) -> Target:
    """Return base ⊕ offset; the offset (3, 6) has the rows and columns of `difference`."""
    found = Target(np.empty((4, 4)), np.empty(6), np.empty(6))
    _put_composed(base.pose, base.twist, base.acceleration, x, found.pose, found.twist,
                  found.acceleration)
    return found


def joining_offset(base: Base, x: Array, limits: TargetLimits, bounds: Array, now: float,
                   duration: float = 0.0, goal: Target | None = None,
                   speed: Array | None = None) -> tuple[Pieces | None, float]:
    """Plan the offset by which a target joins a motion; return it and its ratio to the limits."""
    # The jerk is bounded (Ruckig: Berscheid and Kröger, RSS 2021). The ratio is the largest of the
    # whole target to a limit: WITHIN if it keeps all, at least 2 if it leaves `bounds` (2, 3), the
    # box [m]; None and 0 without a plan.
    # `x` (3, 6) is the offset at the start `now`, on the clock of the base [s], see `difference`;
    # `duration` is the least [s].
    end, synchronization = np.zeros((3, 6)), ruckig.Synchronization.Phase
    # the target ends with the rates of `goal`; by default at rest relative to the base
    if goal is not None:
        for row, vector in zip(end[1:], (goal.twist, goal.acceleration)):
            row[:3], row[3:] = goal.pose[:3, :3].T @ vector[:3], vector[3:]
    if speed is None:
        speed = _NO_SPEED
    else:  # without a finite speed limit [rad/s, m/s], only the velocity goes to zero
        end[0] = np.where(np.isinf(speed), np.nan, 0.0)
        synchronization = ruckig.Synchronization.No
    by_need, most = np.empty(6), np.empty((3, 6))
    _shares_by_need(x, end[1:], speed, limits.speed, limits.acceleration, limits.jerk, by_need)
    best: tuple[float, float, Pieces] | None = None
    is_moving = bool(x[1:].any())
    for slower in SLOWER:  # until the whole target keeps its limits
        # from rest, plans with shares by need are shortest; after a change of direction,
        # plans with equal shares are
        for shares in (by_need, _EQUAL):
            _bounds(shares, slower, end[1:], speed, limits.speed, limits.acceleration,
                    limits.jerk, most)
            offset = planned(x, end, most, duration, synchronization)
            if offset is None:
                continue
            share = max(_share(base, offset, limits, bounds, now), WITHIN)
            if best is None or (share, offset.duration) < best[:2]:
                best = share, offset.duration, offset
            if best[0] == WITHIN and (shares is _EQUAL or not is_moving):
                return best[2], best[0]
    return (None, 0.0) if best is None else (best[2], best[0])


def _share(base: Base, offset: Pieces, limits: TargetLimits, bounds: Array, now: float) -> float:
    """Largest ratio of the target's motion to a limit in the transition; ≥ 2 outside the box."""
    times = offset.duration * SAMPLES
    room = np.empty((4, 4)), np.empty(6), np.empty(6), np.empty((3, 6))
    if isinstance(base, Path):
        states = tuple(np.empty((len(times), *shape)) for shape in ((4, 4), (6,), (6,)))
        base.sample(now + times, *states)
    else:  # the twist of the base is constant, so its state at one time is enough
        state = base.at(now)
        states = state.pose[None], state.twist[None], state.acceleration[None]
    return float(_largest_share(states, offset.times, offset.coefficients, times, limits.speed,
                                limits.acceleration, bounds, room))


@kernel
def _shares_by_need(x, end, speed, most_speed, most_acceleration, most_jerk, shares):
    """Write the share (6,) of the limit that each component may use, in proportion to its need."""
    # Need: the distance if the target is at rest, otherwise the time that the component would take
    # alone. The shares of the rotation have norm 1, those of the translation, too.
    is_moving = False
    for i in range(6):
        is_moving = is_moving or x[1, i] != end[0, i] or x[2, i] != 0.0
    has_speeds = False
    for i in range(6):
        has_speeds = has_speeds or not np.isinf(speed[i])
    for part in range(2):
        total = 0.0
        for i in range(3 * part, 3 * part + 3):
            way = 0.0 if has_speeds and np.isinf(speed[i]) else np.abs(x[0, i])
            need = way
            if is_moving:
                faster, harder = np.abs(x[1, i] - end[0, i]), np.abs(x[2, i])
                need = max(way / most_speed[part],
                           2.0 * np.sqrt(way / most_acceleration[part]),
                           faster / most_acceleration[part] + np.sqrt(faster / most_jerk[part]),
                           harder / most_jerk[part])
            shares[i] = need
            total += need * need
        length = np.sqrt(total)
        total = 0.0
        for i in range(3 * part, 3 * part + 3):
            shares[i] = max(shares[i] / length if length > 0.0 else 1.0, SMALLEST)
            total += shares[i] * shares[i]
        for i in range(3 * part, 3 * part + 3):
            shares[i] /= np.sqrt(total)


@kernel
def _bounds(shares, slower, end, speed, most_speed, most_acceleration, most_jerk, bounds):
    """Write the largest velocity, acceleration and jerk (3, 6) of each component."""
    for i in range(6):
        part = i // 3
        fastest = slower * shares[i] * most_speed[part] if np.isinf(speed[i]) else speed[i]
        jerk = shares[i] * most_jerk[part]
        # a component with the acceleration a at the goal had, or will have, the speed |v| + a²/2j
        needed = np.abs(end[0, i]) + 0.5 * end[1, i] ** 2 / jerk
        bounds[0, i] = max(fastest, (1.0 + 1e-9) * needed)
        bounds[1, i] = max(shares[i] * most_acceleration[part], (1.0 + 1e-9) * np.abs(end[1, i]))
        bounds[2, i] = jerk


@kernel
def _put_composed(pose, twist, acceleration, x, to_pose, to_twist, to_acceleration):
    """Write base ⊕ offset x (3, 6)."""
    add_offset(pose, twist, acceleration, x, to_pose, to_twist, to_acceleration)


@kernel
def _largest_share(states, knots, coefficients, times, speed, acceleration, bounds, room):
    """Largest ratio of base ⊕ offset to a limit of speed or acceleration; ≥ 2 outside the box."""
    # `states`: poses (k, 4, 4), twists, accelerations (k, 6) of the base at `times` (k,) since the
    # start of the offset [s], or one of each for all times; `knots` (m,), `coefficients`
    # (m - 1, 6, 6): the offset; `speed`, `acceleration` (2,): limits, angular and linear; `bounds`
    # (2, 3): box [m]; `room`: memory.
    (poses, twists, accelerations), most = states, 0.0
    to_pose, to_twist, to_acceleration, x = room
    for k in range(len(times)):
        put_state(knots, coefficients, times[k], x)
        i = min(k, len(poses) - 1)
        add_offset(poses[i], twists[i], accelerations[i], x, to_pose, to_twist, to_acceleration)
        for i in range(3):
            if not (bounds[0, i] - AT_THE_EDGE <= to_pose[i, 3] <= bounds[1, i] + AT_THE_EDGE):
                most = max(most, 2.0)
        for vector, limits in ((to_twist, speed), (to_acceleration, acceleration)):
            for part in range(2):
                x0, x1, x2 = vector[3 * part], vector[3 * part + 1], vector[3 * part + 2]
                most = max(most, np.sqrt(x0 * x0 + x1 * x1 + x2 * x2) / limits[part])
    return most
