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
from osc_ros.control.setpoint.motion import add_offset, AT_THE_EDGE, PIECES, put_drift
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.tasks.task import Target, TargetLimits
from osc_ros.dynamics.algebra.rotation import (
    body_acceleration,
    rotation_of,
    rotation_vector,
    solved_rate,
)
from osc_ros.dynamics.algebra.spatial import compose, cross, sub, transpose, unrotate

Array = NDArray[np.float64]

SAMPLES = np.linspace(0.0, 1.0, 33)  # fractions of a plan's duration at which it is checked
WITHIN = 1.0 + 1e-3  # largest ratio to a limit that counts as within it, because of rounding
SLOWER = (1.0, 0.7, 0.5, 0.35, 0.25)  # fractions of the speed limit, tried until a plan fits
SMALLEST = 0.05  # least fraction of a limit for one axis, because the axis may have to brake
# Offsets and their first and second derivatives below these values count as zero
# [rad, m; and per s, s²].
NEGLIGIBLE = np.array([[1e-9], [1e-8], [1e-7]])

_POSITION, _VELOCITY = ruckig.ControlInterface.Position, ruckig.ControlInterface.Velocity
# Buffers that every plan overwrites; only one thread plans.
_STATE = np.zeros((4, 4)), np.zeros(6), np.zeros(6)
_STATES = np.zeros((len(SAMPLES), 4, 4)), np.zeros((len(SAMPLES), 6)), np.zeros((len(SAMPLES), 6))
_EQUAL = np.full(6, np.sqrt(1.0 / 3.0))
_NO_SPEED = np.full(6, np.inf)
_BY_NEED, _BOUNDS, _PARTS = np.zeros(6), np.zeros((3, 6)), np.zeros((6, 2, 9))
_ruckig = ruckig.Ruckig(6)


@dataclass(frozen=True, eq=False)
class Drift:
    """
    A motion with a constant twist (6,) in base axes, [angular; linear] [rad/s, m/s].

    `pose` (4, 4) is the pose at the time `since` [s], in the base frame.

    """

    pose: Array
    twist: Array
    since: float

    def at(self, time: float) -> Target:
        """The target at a time [s]."""
        target = Target(np.empty((4, 4)), self.twist)
        _put_drifted(self.pose, self.twist, time - self.since, target.pose)
        return target


Base: TypeAlias = PoseGoal | Path | Drift


class Offset:
    """
    Offset (6,) of a target from a motion over time: rotation vector and displacement.

    The jerk of each component is piecewise constant. After `end` the offset is constant. The
    constructor takes a plan of Ruckig and the offset x (3, 6) at `start`, from `difference`.

    Attributes
    ----------
    start, end : float [s]
        On the clock of the motion.
    pieces : (6, PIECES, 5)
        Segments of each component: begin [s] after `start`, and position, velocity, acceleration
        and jerk there.

    """

    def __init__(self, plan: ruckig.Trajectory, x: Array, start: float) -> None:
        self.start, self.end = start, start + plan.duration
        last = []
        for parts, axis in zip(_PARTS, plan.profiles[0]):
            brake = axis.brake
            # Ruckig first brakes a component that starts beyond its limits
            parts[0], parts[1] = [*brake.t, *axis.t], [*brake.j, *axis.j]
            last.append((axis.p[-1], axis.v[-1], axis.a[-1]))
        self.pieces: Array = np.empty((6, PIECES, 5))
        _put_pieces(_PARTS, x, np.array(last), self.pieces)


def difference(begin: Target, present: Target) -> Array:
    """
    Offset (3, 6) of the target `present` from the target `begin`.

    Its rows are position, velocity and acceleration [rad, m; and per s, s²]. Columns 0 to 2 are
    the rotation vector in the axes of `begin`, 3 to 5 the displacement in base axes.

    """
    x = np.empty((3, 6))
    _put_offset(begin.pose, begin.twist, begin.acceleration, present.pose, present.twist,
                present.acceleration, x)
    x[np.abs(x) < NEGLIGIBLE] = 0.0
    return x


def composed(base: Target, x: Array) -> Target:
    """Return base ⊕ offset; the offset (3, 6) has the rows and columns of `difference`."""
    pieces = np.zeros((6, 1, 5))
    pieces[:, 0, 1:4] = x.T
    found = Target(np.empty((4, 4)), np.empty(6), np.empty(6))
    _put_composed(base.pose, base.twist, base.acceleration, pieces, found.pose, found.twist,
                  found.acceleration)
    return found


def joining_offset(base: Base, x: Array, limits: TargetLimits, bounds: Array, now: float,
                   duration: float = 0.0, goal: Target | None = None,
                   speed: Array | None = None) -> tuple[Offset | None, float]:
    """
    Plan the offset with which a target joins a motion; return it, and its ratio to the limits.

    The jerk is bounded (Ruckig: Berscheid and Kröger, RSS 2021). Every plan is compared with the
    limits of the whole target; if it exceeds them, a slower plan is tried. The result is the plan
    with the smallest ratio to a limit, and this ratio: 2 or more if the target leaves the box,
    WITHIN if it keeps all limits. If no plan is found, the result is None and 0.

    Parameters
    ----------
    base : PoseGoal, Path or Drift
        Motion to which the offset is added.
    x : (3, 6)
        Offset at the start, from `difference`.
    limits : TargetLimits
    bounds : (2, 3)
        Box for the target's position [m].
    now : float
        Start, on the clock of the base [s].
    duration : float
        Least duration of the offset [s].
    goal : Target, optional
        Its twist and acceleration are those of the target when the offset reaches zero; by default
        the target is then at rest relative to the base.
    speed : (6,), optional
        Speed limits of single components [rad/s, m/s]. Components with a finite limit go to zero;
        of the others only the velocity goes to zero. By default all components go to zero.

    """
    end = np.zeros((2, 6))
    if goal is not None:
        for row, vector in zip(end, (goal.twist, goal.acceleration)):
            row[:3], row[3:] = goal.pose[:3, :3].T @ vector[:3], vector[3:]
    ask = ruckig.InputParameter(6)
    ask.current_position, ask.current_velocity, ask.current_acceleration = x.tolist()
    ask.target_velocity, ask.target_acceleration = end.tolist()
    ask.synchronization = ruckig.Synchronization.Phase
    if duration > 0.0:
        ask.minimum_duration = float(duration)
    if speed is None:
        speed = _NO_SPEED
    else:
        ask.per_dof_control_interface = [_POSITION if np.isfinite(s) else _VELOCITY for s in speed]
        ask.synchronization = ruckig.Synchronization.No
    _shares_by_need(x, end, speed, limits.speed, limits.acceleration, limits.jerk, _BY_NEED)
    best: tuple[float, float, Offset] | None = None
    is_moving = bool(x[1:].any())
    for slower in SLOWER:
        # from rest, plans with shares by need are shortest; after a change of direction,
        # plans with equal shares are
        for shares in (_BY_NEED, _EQUAL):
            _bounds(shares, slower, end, speed, limits.speed, limits.acceleration, limits.jerk,
                    _BOUNDS)
            ask.max_velocity, ask.max_acceleration, ask.max_jerk = _BOUNDS.tolist()
            plan = ruckig.Trajectory(6)
            try:
                if _ruckig.calculate(ask, plan) != ruckig.Result.Working:
                    continue
            except (ruckig.RuckigError, ValueError):  # ValueError: unnamed result code
                continue
            offset = Offset(plan, x, now)
            share = max(_share(base, offset, limits, bounds, now), WITHIN)
            if best is None or (share, offset.end) < best[:2]:
                best = share, offset.end, offset
            if best[0] == WITHIN and (shares is _EQUAL or not is_moving):
                return best[2], best[0]
    return (None, 0.0) if best is None else (best[2], best[0])


def _share(base: Base, offset: Offset, limits: TargetLimits, bounds: Array, now: float
           ) -> float:
    """Largest ratio of the target's motion to a limit in the transition; ≥ 2 outside the box."""
    times = (offset.end - now) * SAMPLES
    if isinstance(base, Path):
        base.sample(now + times, *_STATES)
    else:  # the twist of the base is constant, so its state at one time is enough
        state = base.at(now)
        for array, value in zip(_STATES, (state.pose, state.twist, state.acceleration)):
            array[:] = value
    return float(_largest_share(_STATES, offset.pieces, times, limits.speed, limits.acceleration,
                                bounds, _STATE))


@kernel
def _shares_by_need(x, end, speed, most_speed, most_acceleration, most_jerk, shares):
    """
    Write the fraction (6,) of the limit that each component may use, in proportion to its need.

    The need of a component is its distance if the target is at rest, otherwise the time that the
    component would take alone. The fractions of the rotation have norm 1, those of the
    translation, too.

    """
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
def _put_pieces(parts, x, last, pieces):
    """Write pieces (6, PIECES, 5): durations and jerks `parts` (6, 2, 9), integrated from x."""
    for i in range(6):
        begin, p, v, a, k = 0.0, x[0, i], x[1, i], x[2, i], 0
        for m in range(9):
            h, j = parts[i, 0, m], parts[i, 1, m]
            if h > 0.0:
                row = pieces[i, k]
                row[0], row[1], row[2], row[3], row[4] = begin, p, v, a, j
                p, v, a = p + h * (v + h * (0.5 * a + h / 6.0 * j)), v + h * (a + 0.5 * h * j), (
                    a + h * j)
                begin, k = begin + h, k + 1
        for m in range(k, len(pieces[i])):
            row = pieces[i, m]
            row[0], row[1], row[2], row[3], row[4] = (
                begin if m == k else np.inf, last[i, 0], last[i, 1], last[i, 2], 0.0)


@kernel
def _put_composed(pose, twist, acceleration, pieces, to_pose, to_twist, to_acceleration):
    """Write the state of base ⊕ offset (6, k, 5) at the offset's start."""
    add_offset(pose, twist, acceleration, pieces, 0.0, to_pose, to_twist, to_acceleration)


@kernel
def _put_drifted(pose, twist, time, out):
    """Write the pose (4, 4) reached from a pose by a constant twist in a time [s]."""
    put_drift(pose, twist, time, out)


@kernel
def _put_offset(pose, twist, acceleration, to_pose, to_twist, to_acceleration, x):
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


@kernel
def _largest_share(states, pieces, times, speed, acceleration, bounds, state):
    """
    Largest ratio of speed or acceleration to its limit, for the motion base ⊕ offset at `times`.

    It is at least 2 if a position is outside `bounds`.

    Parameters
    ----------
    states : tuple of (k, 4, 4), (k, 6), (k, 6)
        Poses, twists and accelerations of the base at the k times.
    pieces : (6, PIECES, 5)
        See `Offset`.
    times : (k,)
        Since the start of the offset [s].
    speed, acceleration : (2,)
        Limits of the angular and of the linear motion [rad/s, m/s], [rad/s², m/s²].
    bounds : (2, 3)
        Lower and upper corner of the accepted box [m].
    state : tuple of (4, 4), (6,), (6,), overwritten
        Memory.

    """
    (poses, twists, accelerations), (to_pose, to_twist, to_acceleration), most = states, state, 0.0
    for k in range(len(times)):
        add_offset(poses[k], twists[k], accelerations[k], pieces, times[k], to_pose, to_twist,
                   to_acceleration)
        for i in range(3):
            if not (bounds[0, i] - AT_THE_EDGE <= to_pose[i, 3] <= bounds[1, i] + AT_THE_EDGE):
                most = max(most, 2.0)
        for vector, limits in ((to_twist, speed), (to_acceleration, acceleration)):
            for part in range(2):
                x, y, z = vector[3 * part], vector[3 * part + 1], vector[3 * part + 2]
                most = max(most, np.sqrt(x * x + y * y + z * z) / limits[part])
    return most
