"""One target that moves smoothly, whatever is asked for and whenever: C² on SE(3)."""

from __future__ import annotations

from collections.abc import Iterator
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
from osc_ros.errors import InputError

Array = NDArray[np.float64]

LONGEST_STEP = 0.25  # between two ticks; after a longer pause the target goes on where it was [s]
PIECES = 12  # of constant jerk: two into the limits, seven, the end, and room
SAMPLES = np.linspace(0.0, 1.0, 33)  # of a plan, where it is compared with the limits
KEPT = 1.0 + 1e-3  # of a limit: what rounding may add
TOLERATED = 1.02  # of a limit, to be spared a stop on the way
SLOWER = (1.0, 0.7, 0.5, 0.35, 0.25)  # shares of the speed that are tried, until a plan keeps all
SOME = 0.05  # of a limit is left to an axis that hardly moves: it may have to, to stop
NEGLIGIBLE = np.array([[1e-9], [1e-8], [1e-7]])  # rad, m and per s, s²: taken for none
AT_THE_EDGE = 1e-9  # [m]
SPARSEST = 0.25  # between two poses of one stream [s]
FORESIGHT = 1000.0  # a face of the box that a twist meets later is none yet [s]

_FREE = np.array([[-np.inf] * 3, [np.inf] * 3])
# where plans are compared with the limits: of the motion, of the target
_STATE = np.zeros((4, 4)), np.zeros(6), np.zeros(6)
_STATES = np.zeros((len(SAMPLES), 4, 4)), np.zeros((len(SAMPLES), 6)), np.zeros((len(SAMPLES), 6))
_EQUAL = np.full(6, np.sqrt(1.0 / 3.0))
_POSITION, _VELOCITY = ruckig.ControlInterface.Position, ruckig.ControlInterface.Velocity
_ruckig = ruckig.Ruckig(6)


@dataclass(frozen=True, eq=False)
class Jog:
    """
    A twist (6,) to move with until a time [s], and then a stop; base axes, [angular; linear].

    Raises
    ------
    InputError
        Another shape, numbers that are not finite.

    """

    twist: Array
    until: float

    def __post_init__(self) -> None:
        """Take anything that is an array of the right shape, and refuse the rest."""
        twist = np.array(self.twist, dtype=np.float64)
        if twist.shape != (6,) or not np.isfinite(twist).all():
            raise InputError(f'twist {twist.tolist()}: accepted are 6 finite numbers')
        object.__setattr__(self, 'twist', twist)


Motion: TypeAlias = Hold | Path | Jog
STOP = Jog(np.zeros(6), np.inf)


def require(path: Path, limits: TargetLimits) -> None:
    """
    Refuse a path that does not keep the limits: slowed or cut it would be another path.

    Raises
    ------
    InputError
        A path that is too fast, accelerates too much, or leaves the box.

    """
    for found, accepted, units in zip(path.peaks(), (limits.speed, limits.acceleration),
                                      (('rad/s', 'm/s'), ('rad/s²', 'm/s²'))):
        for part in range(2):
            if not found[part] <= accepted[part]:
                raise InputError(f'the path asks for {found[part]:.3g} {units[part]}: '
                                 f'accepted is at most {accepted[part]:g} {units[part]}')
    for axis, found, accepted in zip('xyz', path.extent().T, limits.box.T):
        if not accepted[0] - AT_THE_EDGE <= found[0] <= found[1] <= accepted[1] + AT_THE_EDGE:
            raise InputError(f'the path leaves the workspace box: {axis} goes from {found[0]:.4g} '
                             f'to {found[1]:.4g} m, accepted is {accepted[0]:g} to '
                             f'{accepted[1]:g} m')


def rehearse() -> None:
    """Use everything once, so that all is compiled."""
    guide, limits = Guide(np.eye(4)), TargetLimits()
    rates = np.zeros((2, 6))
    path = Path([0.0, 9.0], [np.eye(4)] * 2, rates, rates)
    require(path, limits)
    guide.add(path, 0.0)
    for time, error in ((0.0, 0.0), (0.1, 0.0), (0.2, 9.0), (0.3, 0.0)):
        guide.add(Jog(np.full(6, 0.1), 9.0), 0.1)
        guide.at(time, limits, np.full(6, error))


@dataclass(frozen=True, eq=False)
class _Drift:
    """A pose (4, 4) at a time [s], and a steady twist (6,) from then on."""

    pose: Array
    twist: Array
    since: float

    def at(self, time: float) -> Target:
        target = Target(np.empty((4, 4)), self.twist)
        _drifted(self.pose, self.twist, time - self.since, target.pose)
        return target


class _Offset:
    """How far the target is from the motion that it joins: a plan as cubics, for the kernels."""

    def __init__(self, plan: ruckig.Trajectory, start: float) -> None:
        self.start, self.end = start, start + plan.duration
        pieces = np.zeros((6, PIECES, 5))
        for own, axis in zip(pieces, plan.profiles[0]):
            begin, k = 0.0, 0
            # first into the limits, where it is beyond them
            for part in (axis.brake, axis):
                for length, *state in zip(part.t, part.p, part.v, part.a, part.j):
                    if length > 0.0:
                        own[k] = begin, *state
                        begin, k = begin + length, k + 1
            own[k:] = begin, axis.p[-1], axis.v[-1], axis.a[-1], 0.0
            own[k + 1:, 0] = np.inf
        self.pieces = pieces


class Guide:
    """
    Leads the tip: the target at every tick, C² in time from one motion to the next.

    A new motion takes over where the target is, with the velocity and acceleration that it has:
    the target is the motion ⊕ an offset, the turn R_motion exp(φ×) and the distance p_motion + d.
    (φ, d) begins as the difference, so nothing jumps, and goes to zero as fast as the limits allow
    with bounded jerk (Ruckig: Berscheid and Kröger, RSS 2021). So a pose is approached, a path is
    caught up with, and a twist is taken on. Whatever is planned is compared with the limits, and
    planned slower where it would exceed them.

    The target stops where its arm cannot follow: see `TargetLimits.leash`. After a pause of the
    clock it goes on where it was; if the clock goes back, it stops and forgets what was planned.

    Attributes
    ----------
    target : Target
        The last one.
    waits : bool
        The target has stopped because the arm lags.
    clamped : bool
        The motion asks for more than the box or, as a twist, the speed limit lets it have.

    Parameters
    ----------
    pose : (4, 4)
        Where the target rests until something starts.

    """

    def __init__(self, pose: Array) -> None:
        self.target = Target(pose)
        self.waits = self.clamped = False
        self._pending: list[tuple[float, Motion]] = []
        self._motion: Motion = Hold(pose)
        self._base: Hold | Path | _Drift = Hold(pose)
        self._offset: _Offset | None = None
        self._rest: Target | None = self.target
        # times: of the last tick; the end of a twist; on the late clock of the motion: when the
        # arm was left behind, when there is something to do next, when the last pose came
        self._now, self._until = -np.inf, np.inf
        self._stopped, self._event = 0.0, np.inf
        self._posed = -np.inf
        self._late = 0.0
        self._bounds = _FREE

    def add(self, motion: Motion, start: float) -> None:
        """Let a motion take over at `start` [s]; what was to start then or later is dropped."""
        self._pending = [entry for entry in self._pending if entry[0] < start]
        self._pending.append((start, motion))

    def at(self, time: float, limits: TargetLimits, error: Array | None = None) -> Target:
        """
        The target at a time [s].

        Parameters
        ----------
        time : float
            On the clock of the motions.
        limits : TargetLimits
            Of the motions that begin now.
        error : (6,), optional
            Of the tip at the last tick, [angular; linear], zero along axes that are free.

        """
        self._advance(time, limits)
        while self._pending and self._pending[0][0] <= time:
            self._begin(self._pending.pop(0)[1], limits)
        if time > self._until:
            self._begin(STOP, limits)
        if error is not None and (self._rest is None or self.waits):
            self._watch(error, limits)
        while time - self._late >= self._event:
            self._pass(limits)
        self.target = self._rest or self._sample(time - self._late)
        return self.target

    # what the target does next

    def _advance(self, time: float, limits: TargetLimits) -> None:
        step = time - self._now
        if not 0.0 <= step <= LONGEST_STEP and self._now > -np.inf:
            self._late += step
        self._now = time
        if -np.inf < step < -LONGEST_STEP:
            self._pending.clear()
            self._begin(STOP, limits)

    def _begin(self, motion: Motion, limits: TargetLimits, late: float = 0.0,
               now: float | None = None) -> None:
        """Let the target join a motion whose clock is late by so much [s], now or before."""
        before = dict(vars(self))
        try:
            self._turn_to(motion, limits, late, self._now - late if now is None else now)
        except InputError:
            vars(self).update(before)
            raise

    def _turn_to(self, motion: Motion, limits: TargetLimits, late: float, now: float) -> None:
        present = self._rest or self._sample(now + late - self._late)
        if isinstance(motion, Path) and now >= motion.times[-1]:
            motion = Hold(motion.poses[-1])  # it is over: there is its end to go to
        self._motion, self._late, self._event = motion, late, np.inf
        self._until = motion.until if isinstance(motion, Jog) else np.inf
        self.waits = self.clamped = False
        self._bounds = np.array([np.minimum(limits.box[0], present.pose[:3, 3]),
                                 np.maximum(limits.box[1], present.pose[:3, 3])])
        if isinstance(motion, Jog):
            self._jog(motion, present, limits, now)
        elif isinstance(motion, Hold):
            goal = Hold(limits.inside(motion.pose))
            self.clamped = goal.pose is not motion.pose
            # of a stream, each pose is on the way when the next one comes
            apart, self._posed = now - self._posed, now
            pace = 2.0 * apart if present.twist.any() and apart < SPARSEST else 0.0
            share = self._join(goal, present, limits, now,
                               duration=max(pace, motion.arrival - now))
            # where it would have to turn off sharply, it stops, and goes on from there
            if share > TOLERATED and present.twist.any():
                self._jog(STOP, present, limits, now)
        elif now < motion.times[0]:
            first = motion.at(float(motion.times[0]))
            self._join(Hold(first.pose), present, limits, now, duration=motion.times[0] - now,
                       goal=first)
        else:
            self._join(motion, present, limits, now)

    def _pass(self, limits: TargetLimits) -> None:
        """Do what there is to do at the end of an offset, and at the ends of a path."""
        now, motion, base = self._event, self._motion, self._base
        if isinstance(base, Path):
            end = base.at(float(base.times[-1]))
            if now < base.times[-1]:
                self._offset, self._event = None, float(base.times[-1])
            elif self._offset is not None or end.twist.any() or end.acceleration.any():
                self._begin(Hold(end.pose), limits, self._late, now)
            else:
                self._motion = Hold(end.pose)
                self._settle(self._motion)
        elif isinstance(motion, Path) and not self.waits:
            if now < motion.times[0]:
                self._settle(base, until=float(motion.times[0]))
            else:
                self._begin(motion, limits, self._late, now)
        elif isinstance(base, Hold):
            self._settle(base)
        elif isinstance(motion, Hold) and not self.waits:
            self._begin(motion, limits, self._late, now)
        else:
            pose = self._sample(now).pose
            self._settle(_Drift(pose, base.twist, now) if base.twist.any() else Hold(pose))

    def _settle(self, base: Hold | _Drift, until: float = np.inf) -> None:
        """Let the base be the target."""
        self._base, self._offset, self._event = base, None, until
        self._rest = Target(base.pose) if isinstance(base, Hold) else None

    def _watch(self, error: Array, limits: TargetLimits) -> None:
        """Stop a target that leaves its arm behind; let it go on when the arm is there again."""
        turning, moving = limits.reach
        if not self.waits and not _leaves(error, self.target.twist, turning, moving):
            return
        motion, until, now = self._motion, self._until, self._now - self._late
        if not self.waits:
            self._begin(STOP, limits)
            self._motion, self._until, self._stopped, self.waits = motion, until, now, True
        elif _is_near(error, 0.5 * turning, 0.5 * moving):
            # a path goes on where it was left
            self._begin(motion, limits,
                        self._now - self._stopped if isinstance(motion, Path) else 0.0)

    def _sample(self, now: float) -> Target:
        base = self._base.at(now)
        if self._offset is None:
            return base
        target = Target(np.empty((4, 4)), np.empty(6), np.empty(6))
        _joined(base.pose, base.twist, base.acceleration, self._offset.pieces,
                min(now, self._offset.end) - self._offset.start, self._bounds, target.pose,
                target.twist, target.acceleration)
        return target

    # how it gets there

    def _jog(self, jog: Jog, present: Target, limits: TargetLimits, now: float) -> None:
        """Take on a twist, except towards faces of the box: up to them."""
        twist, pose, speed = jog.twist.copy(), present.pose.copy(), np.full(6, np.inf)
        for part, most in enumerate(limits.speed):
            own = twist[3 * part:3 * part + 3]
            length = np.linalg.norm(own)
            if length > most:
                own *= most / length
                self.clamped = True
        for axis in range(3):
            along = twist[3 + axis]
            face = limits.box[int(along > 0.0), axis]
            if abs(face - pose[axis, 3]) < FORESIGHT * abs(along):
                twist[3 + axis] = 0.0
                if (face - pose[axis, 3]) * np.sign(along) > AT_THE_EDGE:
                    pose[axis, 3], speed[3 + axis] = face, abs(along)
                else:
                    self.clamped = True
        self._join(_Drift(pose, twist, now), present, limits, now, speed=speed)

    def _join(self, base: Hold | Path | _Drift, present: Target, limits: TargetLimits, now: float,
              duration: float = 0.0, goal: Target | None = None, speed: Array | None = None
              ) -> float:
        """
        Make the target base ⊕ offset, with the offset that brings it there.

        Returns the largest share of a limit that the target takes on the way.

        Parameters
        ----------
        base : motion
        present : Target
        limits : TargetLimits
        now : float
            On the clock of the base [s].
        duration : float
            Least that the offset takes [s].
        goal : Target, optional
            That the offset ends with, at the base's pose; if not given, at rest relative to it.
        speed : (6,), optional
            Along axes with a finite one the offset goes to zero with at most that; along the
            others only its velocity does. If not given, all of it goes to zero.

        """
        self._base, self._offset, self._rest, self._event = base, None, None, now
        if not limits.smooth:
            return 0.0
        begin, x = base.at(now), np.empty((3, 6))
        _offset(begin.pose, begin.twist, begin.acceleration, present.pose, present.twist,
                present.acceleration, x)
        x[np.abs(x) < NEGLIGIBLE] = 0.0
        if speed is None and goal is None and not x.any():
            return 0.0
        found: list[tuple[float, float, int]] = []
        plans: list[_Offset] = []
        for plan in _plans(x, limits, duration, goal, speed):
            self._offset = _Offset(plan, now)
            found.append((max(self._share(limits, now), KEPT), self._offset.end, len(plans)))
            plans.append(self._offset)
            # shares by need are best from rest, equal ones where the target turns off its way
            if min(found)[0] == KEPT and (len(plans) % 2 == 0 or not x[1:].any()):
                break
        if not found and goal is not None:
            return self._join(base, present, limits, now, duration)
        if not found:
            raise InputError(f'no motion was found for an offset of {x.tolist()}')
        share, _, best = min(found)
        self._offset = plans[best]
        self._event = min(self._offset.end,
                          float(base.times[-1]) if isinstance(base, Path) else np.inf)
        return share

    def _share(self, limits: TargetLimits, now: float) -> float:
        """Largest share of a limit that the target takes while it joins; 2 outside of the box."""
        assert self._offset is not None
        times = (self._offset.end - now) * SAMPLES
        poses, twists, accelerations = _STATES
        # the twist of a base that is steady has the same length all the time
        ways = times.tolist() if isinstance(self._base, Path) else [0.0]
        for k, time in enumerate(ways):
            state = self._base.at(now + time)
            poses[k:], twists[k:], accelerations[k:] = state.pose, state.twist, state.acceleration
        return float(_largest_share(poses, twists, accelerations, self._offset.pieces, times,
                                    limits.speed, limits.acceleration, self._bounds, *_STATE))


def _plans(x: Array, limits: TargetLimits, duration: float, goal: Target | None,
           speed: Array | None) -> Iterator[ruckig.Trajectory]:
    """Ways of an offset (3, 6) to zero, in turn with shares of the limits by need and equal."""
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
    most = [np.repeat(limit, 3) for limit in (limits.speed, limits.acceleration, limits.jerk)]
    way = np.abs(x[0])
    if speed is not None:
        way = np.where(np.isfinite(speed), way, 0.0)
        ask.per_dof_control_interface = [_POSITION if np.isfinite(s) else _VELOCITY for s in speed]
        ask.synchronization = ruckig.Synchronization.No
    by_need = _shares(way, np.abs(x[1] - end[0]), np.abs(x[2]), *most)
    for slower in SLOWER:
        for shares in (by_need, _EQUAL):
            fastest = slower * shares * most[0]
            if speed is not None:
                fastest = np.where(np.isfinite(speed), speed, fastest)
            # with its acceleration a goal has to come from within the limits, and to go on there
            jerk = shares * most[2]
            needed = np.abs(end[0]) + 0.5 * end[1] ** 2 / jerk
            ask.max_velocity = np.maximum(fastest, (1.0 + 1e-9) * needed).tolist()
            ask.max_acceleration = np.maximum(
                shares * most[1], (1.0 + 1e-9) * np.abs(end[1])).tolist()
            ask.max_jerk = jerk.tolist()
            plan = ruckig.Trajectory(6)
            try:
                if _ruckig.calculate(ask, plan) == ruckig.Result.Working:
                    yield plan
            except (ruckig.RuckigError, ValueError):  # ValueError: a result that has no name
                continue


def _shares(way: Array, speed: Array, acceleration: Array, most_speed: Array,
            most_acceleration: Array, most_jerk: Array) -> Array:
    """Shares of the limits by the way of each axis (6,), or the time it needs alone; of norm 1."""
    need = way.reshape(2, 3)
    if speed.any() or acceleration.any():
        need = np.max([way / most_speed, 2.0 * np.sqrt(way / most_acceleration),
                       speed / most_acceleration + np.sqrt(speed / most_jerk),
                       acceleration / most_jerk], axis=0).reshape(2, 3)
    total = np.linalg.norm(need, axis=1, keepdims=True)
    shares = np.maximum(np.divide(need, total, out=np.ones((2, 3)), where=total > 0.0), SOME)
    return np.asarray((shares / np.linalg.norm(shares, axis=1, keepdims=True)).ravel())


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


@kernel
def _leaves(error, twist, turning, moving):
    """Whether a target farther ahead than (turning, moving) goes still farther, in either."""
    for part, most in ((0, turning), (3, moving)):
        ahead = going = 0.0
        for i in range(part, part + 3):
            ahead += error[i] * error[i]
            going += error[i] * twist[i]
        if ahead > most * most and going > 0.0:
            return True
    return False


@kernel
def _is_near(error, turning, moving):
    return (error[0] ** 2 + error[1] ** 2 + error[2] ** 2 <= turning * turning
            and error[3] ** 2 + error[4] ** 2 + error[5] ** 2 <= moving * moving)
