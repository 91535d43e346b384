"""One target that moves smoothly, whatever is asked for and whenever: C² on SE(3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.joining import AT_THE_EDGE, difference, Drift, joining_offset, Offset
from osc_ros.control.task import Target, TargetLimits
from osc_ros.control.trajectory import Hold, Path
from osc_ros.dynamics.compiled import kernel
from osc_ros.errors import InputError

Array = NDArray[np.float64]

LONGEST_STEP = 0.04  # between two ticks; after a longer pause the target goes on where it was [s]
LONGEST_STEPS = 4.0  # times the step before, of slow states: neither is that a pause
LONGEST_BACK = 0.25  # that time goes back; and a longer step is a pause in any case [s]
TOLERATED = 1.02  # of a limit, to be spared a stop on the way
SPARSEST = 0.25  # between two poses of one stream [s]
FORESIGHT = 1000.0  # a face of the box that a twist meets later is none yet [s]

_FREE = np.array([[-np.inf] * 3, [np.inf] * 3])


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
        """Convert the twist to an array and validate it."""
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
    for found, accepted, units in zip(path.peaks, (limits.speed, limits.acceleration),
                                      (('rad/s', 'm/s'), ('rad/s²', 'm/s²'))):
        for part in range(2):
            if not found[part] <= accepted[part]:
                raise InputError(f'the path asks for {found[part]:.3g} {units[part]}: '
                                 f'accepted is at most {accepted[part]:g} {units[part]}')
    for axis, found, accepted in zip('xyz', path.extent.T, limits.box.T):
        if not accepted[0] - AT_THE_EDGE <= found[0] <= found[1] <= accepted[1] + AT_THE_EDGE:
            raise InputError(f'the path leaves the workspace box: {axis} goes from {found[0]:.4g} '
                             f'to {found[1]:.4g} m, accepted is {accepted[0]:g} to '
                             f'{accepted[1]:g} m')


def rehearse() -> None:
    """Use everything once, so that all is compiled."""
    guide, limits, elsewhere = Guide(np.eye(4)), TargetLimits(), np.eye(4)
    elsewhere[0, 3] = 0.1
    path = Path([0.0, 9.0], [elsewhere] * 2, np.zeros((2, 6)), np.zeros((2, 6)))
    require(path, limits)
    guide.add(path, 0.0)
    for time, error in ((0.0, 0.0), (0.1, 0.0), (0.2, 9.0), (0.3, 0.0)):
        guide.at(time, limits, np.full(6, error))
        guide.plan()
        guide.add(Jog(np.full(6, 0.1), 9.0), 0.1)


class Guide:
    """
    Leads the tip: the target at every tick, C² in time from one motion to the next.

    A new motion takes over where the target is, with the velocity and acceleration that it has:
    the target is the motion ⊕ an offset, the turn R_motion exp(φ×) and the distance p_motion + d.
    (φ, d) begins as the difference, so nothing jumps, and goes to zero as fast as the limits allow
    with bounded jerk (Ruckig: Berscheid and Kröger, RSS 2021). So a pose is approached, a path is
    caught up with, and a twist is taken on. Whatever is planned is compared with the limits, and
    planned slower where it would exceed them.

    `at` gives the target of a tick, `plan` does what takes longer: it is called when the target
    has been used. A plan begins at the last target, so it makes no difference to the motion.

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
        self._motion: Motion = STOP
        self._base: Hold | Path | Drift = Hold(pose)
        self._offset: Offset | None = None
        self._rest: Target | None = self.target
        # times: of the last tick; the end of a twist; on the late clock of the motion: when the
        # arm was left behind, when there is something to do next, when the last pose came
        self._now, self._until = -np.inf, np.inf
        self._pace = 0.0
        self._stopped, self._event = 0.0, np.inf
        self._posed = -np.inf
        self._late = 0.0
        self._bounds = _FREE
        # limits and error at the last target, where there is something to plan
        self._open: tuple[TargetLimits, Array | None] | None = None

    def add(self, motion: Motion, start: float) -> None:
        """Schedule a motion at `start` [s]; pending motions from then on are dropped."""
        self._pending = [entry for entry in self._pending if entry[0] < start]
        self._pending.append((start, motion))

    def goal(self, limits: TargetLimits) -> Array | None:
        """Pose (4, 4) at which the newest motion ends; None for a twist, a stop, or no motion."""
        motion = self._pending[-1][1] if self._pending else self._motion
        if isinstance(motion, Hold):
            return limits.inside(motion.pose)
        return motion.poses[-1] if isinstance(motion, Path) else None

    def at(self, time: float, limits: TargetLimits, error: Array | None = None) -> Target:
        """
        The target at a time [s], by what is planned.

        Nothing is planned here: a motion that starts now is planned by `plan`, from this target,
        and so changes the next one. Without a call of `plan` in between, that is done first.

        Parameters
        ----------
        time : float
            On the clock of the motions.
        limits : TargetLimits
            Of the motions that begin now.
        error : (6,), optional
            Of the tip at the last tick, [angular; linear], zero along axes that are free.

        """
        if self._open is not None and time != self._now:
            self.plan()
        self._advance(time)
        if not limits.smooth:  # the target jumps, so there is nothing to plan
            self._open = limits, error
            self.plan()
        while time - self._late >= self._event:
            self._pass(limits)
        self.target = self._rest or self._sample(time - self._late)
        if self._pending or time > self._until or self._rest is None or self.waits:
            self._open = limits, error
        return self.target

    def plan(self) -> None:
        """Plan what starts at the time of the last target: to be called after its use."""
        if self._open is None:
            return
        (limits, error), self._open = self._open, None
        while self._pending and self._pending[0][0] <= self._now:
            self._begin(self._pending.pop(0)[1], limits)
        if self._now > self._until:
            self._begin(STOP, limits)
        if error is not None and (self._rest is None or self.waits):
            self._watch(error, limits)

    # what the target does next

    def _advance(self, time: float) -> None:
        step = time - self._now
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
            self._settle(Drift(pose, base.twist, now) if base.twist.any() else Hold(pose))

    def _settle(self, base: Hold | Drift, until: float = np.inf) -> None:
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
        return base if self._offset is None else self._offset.applied(base, now, self._bounds)

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
        self._join(Drift(pose, twist, now), present, limits, now, speed=speed)

    def _join(self, base: Hold | Path | Drift, present: Target, limits: TargetLimits, now: float,
              duration: float = 0.0, goal: Target | None = None, speed: Array | None = None
              ) -> float:
        """
        Make the target base ⊕ offset; return the largest share of a limit on the way.

        The parameters are those of `joining_offset`.

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
