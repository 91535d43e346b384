# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Target of a task: it moves from one commanded motion to the next, C² on SE(3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.joining import (
    AT_THE_EDGE,
    Base,
    Coast,
    difference,
    Drift,
    joining_offset,
    Offset,
)
from osc_ros.control.task import Target, TargetLimits
from osc_ros.control.trajectory import Hold, Path
from osc_ros.control.waypoints import path_through, path_within
from osc_ros.dynamics.compiled import kernel
from osc_ros.errors import InputError

Array = NDArray[np.float64]

# A longer step from tick to tick is a pause of the clock: the target then resumes where it was.
LONGEST_STEP = 0.04  # [s]
LONGEST_STEPS = 4.0  # times the previous step, at low rates of the states
LONGEST_BACK = 0.25  # at any rate; if the clock goes back by more, the target stops [s]
TOLERATED = 1.02  # ratio to a limit up to which a target turns without a stop
COASTED = 9.0  # time constants after which a target that comes to rest has arrived
SPARSEST = 0.25  # longest time between two poses of one stream [s]
FORESIGHT = 1000.0  # a face of the box that a twist would reach later is ignored [s]

_NO_BOX = np.array([[-np.inf] * 3, [np.inf] * 3])


@dataclass(frozen=True, eq=False)
class Jog:
    """
    A motion with a constant twist until a time, and then a stop.

    Attributes
    ----------
    twist : (6,) [rad/s, m/s]
        Base axes, [angular; linear].
    until : float [s]

    Raises
    ------
    InputError
        Another shape, numbers that are not finite.

    """

    twist: Array
    until: float

    if TYPE_CHECKING:  # sequences are accepted; they become arrays
        def __init__(self, twist: ArrayLike, until: float) -> None: ...

    def __post_init__(self) -> None:
        """Convert the twist to an array and validate it."""
        twist = np.array(self.twist, dtype=np.float64)
        if twist.shape != (6,) or not np.isfinite(twist).all():
            raise InputError(f'twist {twist.tolist()}: accepted are 6 finite numbers')
        object.__setattr__(self, 'twist', twist)


Motion: TypeAlias = Hold | Path | Jog
STOP = Jog(np.zeros(6), np.inf)


def rehearse() -> None:
    """
    Use each part of the guide once, so that the first motion takes no longer than later ones.

    This compiles its kernels. It also makes scipy's first call of LAPACK, for which OpenBLAS
    allocates its buffer: 10 ms with the GIL held, if the memory is locked.

    """
    guide, limits = Guide(np.eye(4)), TargetLimits(too_fast='slow')
    poses = np.repeat(np.eye(4)[None], 4, axis=0)
    poses[:, 0, 3] = 0.1, 2.1, 4.2, 6.1  # too fast: the path ramps up and brakes
    poses[1, :2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    path = path_within(path_through([0.0, 2.0, 4.0, 9.0], poses, limits), limits)
    guide.add(path, 0.0)
    for time, error in ((0.0, 0.0), (0.1, 0.0), (0.2, 9.0), (0.3, 0.0)):
        guide.at(time, limits, np.full(6, error))
        guide.plan()
        guide.add(Jog(np.full(6, 0.1), 9.0), 0.1)


class Guide:
    """
    Computes the target of a task at every tick, C² in time across changes of the motion.

    A new motion takes over at the target's present pose, velocity and acceleration. The target is
    the motion ⊕ an offset: the rotation R_motion exp(φ×) and the position p_motion + d. The offset
    (φ, d) starts as the difference of target and motion, so nothing jumps, and decays to zero as
    fast as the limits allow with bounded jerk (Ruckig: Berscheid and Kröger, RSS 2021). In this
    way the target approaches a pose, catches up with a path, and reaches a twist. Every plan is
    compared with the limits of the whole target; if it exceeds them, a slower plan is tried.

    `at` returns the target of a tick. `plan` does the slow part, and is called when the target has
    been used. A plan starts from the last target, so its time of computation has no effect on the
    motion.

    If the arm cannot follow, the target pauses: see `TargetLimits.leash`. After a pause of the
    clock the target resumes where it was. If the clock goes back, the target stops and all
    scheduled motions are dropped.

    Attributes
    ----------
    target : Target
        Target of the last tick.
    waits : bool
        Whether the target pauses because the arm lags.
    clamped : bool
        Whether the motion was changed to keep the box or, for a twist, the speed limit.

    Parameters
    ----------
    pose : (4, 4)
        The target until the first motion starts, in the base frame.

    """

    def __init__(self, pose: Array) -> None:
        self.target = Target(pose)
        self.waits = self.clamped = self._rejoins = False
        self._pending: list[tuple[float, Motion]] = []
        self._motion: Motion = STOP
        self._base: Base = Hold(pose)
        self._offset: Offset | None = None
        self._rest: Target | None = self.target
        # time of the last tick, step before it, and end of a twist [s]
        self._now, self._pace, self._until = -np.inf, 0.0, np.inf
        # delay of the motion's clock [s]; then times on the motion's clock [s]: start of the pause
        # for the arm, end of an offset or a path, last command of a pose
        self._late = 0.0
        self._stopped, self._event, self._posed = 0.0, np.inf, -np.inf
        self._bounds = _NO_BOX
        # limits and pose error for the next `plan`; None if there is nothing to plan
        self._open: tuple[TargetLimits, Array | None] | None = None

    @classmethod
    def coasting(cls, pose: Array, twist: Array, rates: Array, before: Guide) -> Guide:
        """
        Return a guide whose target comes to rest from a pose (4, 4) and a twist (6,).

        Rotation and translation decay with the rates (2,) [1/s], from the last tick of the guide
        before.

        """
        guide = cls(pose)
        guide._now, guide._pace = before._now, before._pace
        if guide._now > -np.inf and twist.any():
            guide._base, guide._rest = Coast(pose, twist, rates, guide._now), None
            guide._event = guide._now + COASTED / float(rates.min())
            guide.target = Target(pose, twist)
        return guide

    @property
    def rest(self) -> Target | None:
        """The target of the next tick, if nothing moves it or will move it; else None."""
        is_settled = not self._pending and self._open is None and self._event == np.inf
        return self._rest if is_settled else None

    def add(self, motion: Motion, start: float) -> None:
        """Schedule a motion at `start` [s]; motions scheduled for then or later are dropped."""
        self._pending = [entry for entry in self._pending if entry[0] < start]
        self._pending.append((start, motion))

    def rejoin(self, pose: Array) -> None:
        """Go on with the motion from a pose (4, 4) at rest, at which the arm was meanwhile."""
        if self._rest is not None and isinstance(self._base, Hold):
            self._motion = self._base
        self._rest = self.target = Target(pose)
        self._rejoins = True

    def goal(self, limits: TargetLimits) -> Array | None:
        """Pose (4, 4) at which the newest motion ends; None for a twist, a stop, or no motion."""
        motion = self._pending[-1][1] if self._pending else self._motion
        if isinstance(motion, Hold):
            return limits.inside(motion.pose)
        return motion.poses[-1] if isinstance(motion, Path) else None

    def at(self, time: float, limits: TargetLimits, error: Array | None = None) -> Target:
        """
        The target at a time [s], from the present plan.

        A motion that starts now is planned by `plan` from this target; it affects the next target.
        If `plan` was not called since the last tick, this calls it first.

        Parameters
        ----------
        time : float
            Time on the clock of the motions [s].
        limits : TargetLimits
            For motions that start now.
        error : (6,), optional
            Pose error at the last tick [rad, m], base axes, [angular; linear], zero along axes
            without motion control.

        """
        if self._open is not None and time != self._now:
            self.plan()
        self._advance(time)
        if not limits.smooth:  # the target jumps, so there is nothing to plan
            self._open = limits, error
            self.plan()
        while time - self._late >= self._event:
            self._handle_end(limits)
        self.target = self._rest or self._sample(time - self._late)
        if (self._pending or time > self._until or self._rest is None or self.waits
                or self._rejoins):
            self._open = limits, error
        return self.target

    def plan(self) -> None:
        """Plan the motions that start at the last target; call this after using that target."""
        if self._open is None:
            return
        (limits, error), self._open = self._open, None
        if self._rejoins:
            self._begin(self._motion, limits, self._late)
        while self._pending and self._pending[0][0] <= self._now:
            self._begin(self._pending.pop(0)[1], limits)
        if self._now > self._until:
            self._begin(STOP, limits)
        if error is not None and (self._rest is None or self.waits):
            self._watch(error, limits)

    def predicted(self, time: float) -> Target:
        """The target at a time [s] after the last tick, if no more motions are commanded."""
        scheduled = [motion for start, motion in self._pending if start <= time]
        if not scheduled and time <= self._until:
            return self._rest or self._sample(max(time, self._now) - self._late)
        if not scheduled or isinstance(scheduled[-1], Jog):  # its course is not planned yet
            return Target(self.target.pose)
        return scheduled[-1].at(time)

    # changes of the motion

    def _advance(self, time: float) -> None:
        """Set the time [s]; a pause of the clock delays the motion."""
        step = time - self._now
        if step == 0.0:
            return
        if not 0.0 <= step <= LONGEST_STEP and self._now > -np.inf:
            longest = min(max(LONGEST_STEP, LONGEST_STEPS * self._pace), LONGEST_BACK)
            if not 0.0 <= step <= longest:
                self._late += step
        self._pace = step
        self._now = time
        if -np.inf < step < -LONGEST_BACK:
            self._pending = [(-np.inf, STOP)]

    def _begin(self, motion: Motion, limits: TargetLimits, late: float = 0.0,
               now: float | None = None) -> None:
        """
        Start the transition to a motion; an error leaves the state unchanged.

        Parameters
        ----------
        motion : Motion
        limits : TargetLimits
        late : float
            Delay of the motion's clock [s].
        now : float, optional
            Start of the transition on that clock [s]; the present time if not given.

        """
        before = dict(vars(self))
        try:
            self._change_motion(motion, limits, late, self._now - late if now is None else now)
        except InputError:
            vars(self).update(before)
            raise

    def _change_motion(self, motion: Motion, limits: TargetLimits, late: float, now: float
                       ) -> None:
        present = self._rest or self._sample(now + late - self._late)
        if isinstance(motion, Path) and now >= motion.times[-1]:
            motion = Hold(motion.poses[-1])  # the path is over: go to its end
        self._motion, self._late, self._event = motion, late, np.inf
        self._rejoins = False
        self._until = motion.until if isinstance(motion, Jog) else np.inf
        self.waits = self.clamped = False
        self._bounds = np.array([np.minimum(limits.box[0], present.pose[:3, 3]),
                                 np.maximum(limits.box[1], present.pose[:3, 3])])
        if isinstance(motion, Jog):
            self._jog(motion, present, limits, now)
        elif isinstance(motion, Hold):
            goal = Hold(limits.inside(motion.pose))
            self.clamped = goal.pose is not motion.pose
            # in a stream of poses, the target is still moving to one pose when the next one comes
            apart, self._posed = now - self._posed, now
            pace = 2.0 * apart if present.twist.any() and apart < SPARSEST else 0.0
            share = self._join(goal, present, limits, now,
                               duration=max(pace, motion.arrival - now))
            # if the change of direction exceeds the limits, stop first; `_handle_end` goes on
            if share > TOLERATED and present.twist.any():
                self._jog(STOP, present, limits, now)
        elif now < motion.times[0]:
            first = motion.at(float(motion.times[0]))
            self._join(Hold(first.pose), present, limits, now, duration=motion.times[0] - now,
                       goal=first)
        else:
            self._join(motion, present, limits, now)

    def _handle_end(self, limits: TargetLimits) -> None:
        """Continue at the end of an offset, and at the start and the end of a path."""
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
            self._settle(Drift(pose, base.twist, now) if base.twist.any() else Hold(pose))

    def _settle(self, base: Hold | Drift | Coast, until: float = np.inf) -> None:
        """Make `base` the target, without an offset, until a time on the motion's clock [s]."""
        self._base, self._offset, self._event = base, None, until
        self._rest = Target(base.pose) if isinstance(base, Hold) else None

    def _watch(self, error: Array, limits: TargetLimits) -> None:
        """Stop the target if the arm lags by more than `leash`; go on at half of `leash`."""
        turning, moving = limits.reach
        if not self.waits and not _leaves(error, self.target.twist, turning, moving):
            return
        motion, until, now = self._motion, self._until, self._now - self._late
        if not self.waits:
            self._begin(STOP, limits)
            self._motion, self._until, self._stopped, self.waits = motion, until, now, True
        elif _is_near(error, 0.5 * turning, 0.5 * moving):
            # a path resumes where it paused
            self._begin(motion, limits,
                        self._now - self._stopped if isinstance(motion, Path) else 0.0)

    def _sample(self, now: float) -> Target:
        """The target at a time on the motion's clock [s]."""
        base = self._base.at(now)
        return base if self._offset is None else self._offset.target(base, now, self._bounds)

    # plans

    def _jog(self, jog: Jog, present: Target, limits: TargetLimits, now: float) -> None:
        """Plan the transition to a twist; the target stops at the faces of the workspace box."""
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
        self._join(Drift(pose, twist, now), present, limits, now, speed=speed)

    def _join(self, base: Hold | Path | Drift, present: Target, limits: TargetLimits, now: float,
              duration: float = 0.0, goal: Target | None = None, speed: Array | None = None
              ) -> float:
        """
        Make base ⊕ a new offset the target; return the target's largest ratio to a limit.

        The ratio is 0 if no offset is needed. See `joining_offset` for the parameters.

        """
        self._base, self._offset, self._rest, self._event = base, None, None, now
        if not limits.smooth:
            return 0.0
        x = difference(base.at(now), present)
        if speed is None and goal is None and not x.any():
            return 0.0
        offset, share = joining_offset(base, x, limits, self._bounds, now, duration, goal, speed)
        if offset is None and goal is not None:
            return self._join(base, present, limits, now, duration)
        if offset is None:
            raise InputError(f'no motion was found for an offset of {x.tolist()}')
        self._offset = offset
        self._event = min(offset.end, float(base.times[-1]) if isinstance(base, Path) else np.inf)
        return share


@kernel
def _leaves(error, twist, turning, moving):
    """
    Whether an error exceeds its limit, and the target still moves away from the tip.

    Parameters
    ----------
    error, twist : (6,)
    turning, moving : float
        Limits of the angular [rad] and the linear error [m].

    """
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
    """Whether the angular [rad] and the linear error [m] are within their limits."""
    return (error[0] ** 2 + error[1] ** 2 + error[2] ** 2 <= turning * turning
            and error[3] ** 2 + error[4] ** 2 + error[5] ** 2 <= moving * moving)
