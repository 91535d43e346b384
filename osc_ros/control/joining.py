"""How a target joins a motion: an offset from it that goes to zero within limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
import ruckig

from osc_ros.control.rotation import (
    body_acceleration,
    body_rate,
    exponential,
    rotation_of,
    rotation_vector,
    solved_rate,
)
from osc_ros.control.task import Target, TargetLimits
from osc_ros.control.trajectory import Hold, Path
from osc_ros.dynamics.compiled import inlined, kernel
from osc_ros.dynamics.spatial import add, compose, cross, rotate, sub, transpose, unrotate

Array = NDArray[np.float64]

PIECES = 12  # of constant jerk: two into the limits, seven, the end, and room
SAMPLES = np.linspace(0.0, 1.0, 33)  # of a plan, where it is compared with the limits
WITHIN = 1.0 + 1e-3  # of a limit: what rounding may add
SLOWER = (1.0, 0.7, 0.5, 0.35, 0.25)  # shares of the speed that are tried, until a plan fits
SMALLEST = 0.05  # share of a limit for an axis that hardly moves: it may need it to stop
# An offset below this, and its derivatives, are zero [rad, m and per s, s²].
NEGLIGIBLE = np.array([[1e-9], [1e-8], [1e-7]])
AT_THE_EDGE = 1e-9  # [m]

_POSITION, _VELOCITY = ruckig.ControlInterface.Position, ruckig.ControlInterface.Velocity
# Buffers of one plan at a time: only one thread plans.
_STATE = np.zeros((4, 4)), np.zeros(6), np.zeros(6)
_STATES = np.zeros((len(SAMPLES), 4, 4)), np.zeros((len(SAMPLES), 6)), np.zeros((len(SAMPLES), 6))
_EQUAL = np.full(6, np.sqrt(1.0 / 3.0))
_NO_SPEED = np.full(6, np.inf)
_BY_NEED, _BOUNDS, _PARTS = np.zeros(6), np.zeros((3, 6)), np.zeros((6, 2, 9))
_ruckig = ruckig.Ruckig(6)


@dataclass(frozen=True, eq=False)
class Drift:
    """
    A pose (4, 4) at a time [s], and a steady twist (6,) from then on; base axes.

    Attributes
    ----------
    pose, twist : (4, 4), (6,)
    since : float

    """

    pose: Array
    twist: Array
    since: float

    def at(self, time: float) -> Target:
        """The motion at a time [s]."""
        target = Target(np.empty((4, 4)), self.twist)
        _drifted(self.pose, self.twist, time - self.since, target.pose)
        return target


Base: TypeAlias = Hold | Path | Drift


class Offset:
    """
    A rotation vector and a displacement (6,) whose jerk is constant by pieces, until they end.

    Attributes
    ----------
    start, end : float
        On the clock of the motion that the offset is relative to [s].
    pieces : (6, PIECES, 5)
        For each axis: begin [s] after `start`, position, velocity, acceleration, jerk.

    """

    def __init__(self, plan: ruckig.Trajectory, x: Array, start: float) -> None:
        self.start, self.end = start, start + plan.duration
        last = []
        for parts, axis in zip(_PARTS, plan.profiles[0]):
            brake = axis.brake
            # first into the limits, where it is beyond them
            parts[0], parts[1] = [*brake.t, *axis.t], [*brake.j, *axis.j]
            last.append((axis.p[-1], axis.v[-1], axis.a[-1]))
        self.pieces: Array = np.empty((6, PIECES, 5))
        _integrated(_PARTS, x, np.array(last), self.pieces)

    def applied(self, target: Target, time: float, bounds: Array) -> Target:
        """The target at the offset of a time [s] from another one, inside of a box (2, 3)."""
        moved = Target(np.empty((4, 4)), np.empty(6), np.empty(6))
        _joined(target.pose, target.twist, target.acceleration, self.pieces,
                min(time, self.end) - self.start, bounds, moved.pose, moved.twist,
                moved.acceleration)
        return moved


def difference(begin: Target, present: Target) -> Array:
    """Offset (3, 6) of a target from another: position, velocity, acceleration."""
    x = np.empty((3, 6))
    _offset(begin.pose, begin.twist, begin.acceleration, present.pose, present.twist,
            present.acceleration, x)
    x[np.abs(x) < NEGLIGIBLE] = 0.0
    return x


def joining_offset(base: Base, x: Array, limits: TargetLimits, bounds: Array, now: float,
                   duration: float = 0.0, goal: Target | None = None,
                   speed: Array | None = None) -> tuple[Offset | None, float]:
    """
    The offset that brings a target to its motion, and the largest share of a limit on the way.

    Plans of bounded jerk by Ruckig (Berscheid and Kröger, RSS 2021). Each is compared with the
    limits of the whole target, and planned slower where it exceeds them.

    Parameters
    ----------
    base : motion
        What the offset is relative to.
    x : (3, 6)
        Offset at the beginning, from `difference`.
    limits : TargetLimits
    bounds : (2, 3)
        Box that the target stays in [m].
    now : float
        On the clock of the base [s].
    duration : float
        Least that the offset takes [s].
    goal : Target, optional
        That the offset ends with, at the base's pose; if not given, at rest relative to it.
    speed : (6,), optional
        Along axes with a finite one the offset goes to zero with at most that; along the
        others only its velocity does. If not given, all of it goes to zero.

    Returns
    -------
    Offset or None
        None if no plan was found.
    float

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
        # shares by need are best from rest, equal ones where the target turns off its way
        for shares in (_BY_NEED, _EQUAL):
            _bounds(shares, slower, end, speed, limits.speed, limits.acceleration, limits.jerk,
                    _BOUNDS)
            ask.max_velocity, ask.max_acceleration, ask.max_jerk = _BOUNDS.tolist()
            plan = ruckig.Trajectory(6)
            try:
                if _ruckig.calculate(ask, plan) != ruckig.Result.Working:
                    continue
            except (ruckig.RuckigError, ValueError):  # ValueError: a result that has no name
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
    """Largest share of a limit that the target takes while it joins; 2 outside of the box."""
    times = (offset.end - now) * SAMPLES
    poses, twists, accelerations = _STATES
    if isinstance(base, Path):
        base.sample(now + times, poses, twists, accelerations)
    else:  # the twist of a steady base has the same length all the time
        state = base.at(now)
        poses[:], twists[:], accelerations[:] = state.pose, state.twist, state.acceleration
    return float(_largest_share(poses, twists, accelerations, offset.pieces, times,
                                limits.speed, limits.acceleration, bounds, *_STATE))


@kernel
def _shares_by_need(x, end, speed, most_speed, most_acceleration, most_jerk, shares):
    """Shares of the limits by the way of each axis (6,), or the time it needs alone; of norm 1."""
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
    """Velocity, acceleration and jerk (3, 6) that each axis may take."""
    for i in range(6):
        part = i // 3
        fastest = slower * shares[i] * most_speed[part] if np.isinf(speed[i]) else speed[i]
        jerk = shares[i] * most_jerk[part]
        # with its acceleration a goal has to come from within the limits, and to go on there
        needed = np.abs(end[0, i]) + 0.5 * end[1, i] ** 2 / jerk
        bounds[0, i] = max(fastest, (1.0 + 1e-9) * needed)
        bounds[1, i] = max(shares[i] * most_acceleration[part], (1.0 + 1e-9) * np.abs(end[1, i]))
        bounds[2, i] = jerk


@kernel
def _integrated(parts, x, last, pieces):
    """Pieces (6, PIECES, 5) from durations and jerks (6, 2, 9), the beginning and the end."""
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
def _drifted(pose, twist, time, out):
    R = compose(exponential((time * twist[0], time * twist[1], time * twist[2])),
                rotation_of(pose))
    for i in range(3):
        out[i, 0], out[i, 1], out[i, 2] = R[3 * i], R[3 * i + 1], R[3 * i + 2]
        out[i, 3] = pose[i, 3] + time * twist[3 + i]
        out[3, i] = 0.0
    out[3, 3] = 1.0


@kernel
def _offset(pose, twist, acceleration, to_pose, to_twist, to_acceleration, x):
    """The offset (3, 6) of a state to another: φ of R exp(φ×), d of p + d, and derivatives."""
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
def _along(pieces, time):
    """Position, velocity and acceleration of an axis (k, 5) whose jerk is constant by pieces."""
    k = 0
    while k + 1 < len(pieces) and pieces[k + 1, 0] <= time:
        k += 1
    h, p, v, a, j = time - pieces[k, 0], pieces[k, 1], pieces[k, 2], pieces[k, 3], pieces[k, 4]
    return (p + h * (v + h * (0.5 * a + h / 6.0 * j)), v + h * (a + 0.5 * h * j), a + h * j)


@inlined
def _combined(pose, twist, acceleration, pieces, time, to_pose, to_twist, to_acceleration):
    x, dx, ddx = _along(pieces[0], time)
    y, dy, ddy = _along(pieces[1], time)
    z, dz, ddz = _along(pieces[2], time)
    phi, rate = (x, y, z), (dx, dy, dz)
    R = compose(rotation_of(pose), exponential(phi))
    v = rotate(R, body_rate(phi, rate))
    a = add(rotate(R, body_acceleration(phi, rate, (ddx, ddy, ddz))),
            cross((twist[0], twist[1], twist[2]), v))
    for i in range(3):
        to_pose[i, 0], to_pose[i, 1], to_pose[i, 2] = R[3 * i], R[3 * i + 1], R[3 * i + 2]
        to_pose[3, i] = 0.0
        to_twist[i], to_acceleration[i] = twist[i] + v[i], acceleration[i] + a[i]
        x, dx, ddx = _along(pieces[3 + i], time)
        to_pose[i, 3] = pose[i, 3] + x
        to_twist[3 + i] = twist[3 + i] + dx
        to_acceleration[3 + i] = acceleration[3 + i] + ddx
    to_pose[3, 3] = 1.0


@kernel
def _joined(pose, twist, acceleration, pieces, time, bounds, to_pose, to_twist, to_acceleration):
    """The state at an offset (6, k, 5) from another, its position within bounds (2, 3)."""
    _combined(pose, twist, acceleration, pieces, time, to_pose, to_twist, to_acceleration)
    for i in range(3):
        position = to_pose[i, 3]
        to_pose[i, 3] = min(max(position, bounds[0, i]), bounds[1, i])
        if abs(position - to_pose[i, 3]) > AT_THE_EDGE:
            to_twist[3 + i] = to_acceleration[3 + i] = 0.0


@kernel
def _largest_share(poses, twists, accelerations, pieces, times, speed, acceleration, bounds,
                   to_pose, to_twist, to_acceleration):
    """Largest share of limits (2,) that states at an offset from others take; 2 outside."""
    most = 0.0
    for k in range(len(times)):
        _combined(poses[k], twists[k], accelerations[k], pieces, times[k], to_pose, to_twist,
                  to_acceleration)
        for i in range(3):
            if not (bounds[0, i] - AT_THE_EDGE <= to_pose[i, 3] <= bounds[1, i] + AT_THE_EDGE):
                most = max(most, 2.0)
        for vector, limits in ((to_twist, speed), (to_acceleration, acceleration)):
            for part in range(2):
                x, y, z = vector[3 * part], vector[3 * part + 1], vector[3 * part + 2]
                most = max(most, np.sqrt(x * x + y * y + z * z) / limits[part])
    return most
