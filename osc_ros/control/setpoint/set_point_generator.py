# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Target of a task that moves from one commanded motion to the next, C² on SE(3)."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import plain
from osc_ros.control.setpoint.joining import Base, composed, difference, Drift, joining_offset
from osc_ros.control.setpoint.motion import (
    ahead,
    AT_THE_EDGE,
    CALM,
    clock_after,
    COAST,
    COASTED,
    DRIFT,
    first_rate,
    FOLLOW,
    FULL,
    HOLD,
    LENGTH,
    OVERRIDE,
    PATH,
    PLAN,
    put_motion,
    put_target,
    SLOWEST_STOP,
    STATE,
    STOPPING,
    waits,
)
from osc_ros.control.setpoint.pieces import Pieces
from osc_ros.control.setpoint.stamps import OLDEST
from osc_ros.control.setpoint.trajectory import AT_REST, Path, path_through, path_within, PoseGoal
from osc_ros.control.tasks.task import Target, TargetLimits
from osc_ros.errors import InputError

Array = NDArray[np.float64]

TOLERATED = 1.02  # largest ratio to a limit at which the target changes direction without a stop
SPARSEST = 0.25  # longest time between two poses of one stream [s]
STILL = 1e-6  # slower parts of a twist are zero, as those of a stick at rest [rad/s, m/s]
# A motion leads on where the target was going if its way in this time [s] has this cosine with
# the present course.
FORWARD, LEADS_ON = 0.2, 0.7
FORESIGHT = 1000.0  # ignore a face of the box that a twist would reach later than this [s]

_NO_BOX = np.array([[-np.inf] * 3, [np.inf] * 3])
_NO_PIECES = np.zeros(36)  # of a plan that never had a path, or an offset


@dataclass(frozen=True, eq=False)
class TwistGoal:
    """
    A motion with a constant twist until a time, and then a stop.

    Attributes
    ----------
    twist : (6,) [rad/s, m/s]
        In base axes, [angular; linear].
    until : float [s]

    Raises
    ------
    InputError
        Another shape, or numbers that are not finite.

    """

    twist: Array
    until: float

    if TYPE_CHECKING:  # sequences are accepted; they become arrays
        def __init__(self, twist: ArrayLike, until: float) -> None: ...

    def __post_init__(self) -> None:
        """Convert the twist to an array and validate it."""
        twist = np.array(self.twist, dtype=np.float64)
        if twist.shape != (6,) or not np.isfinite(twist).all():
            raise InputError(f'twist {twist.tolist()}: must be 6 finite numbers')
        twist[np.abs(twist) < STILL] = 0.0
        object.__setattr__(self, 'twist', twist)


Motion: TypeAlias = PoseGoal | Path | TwistGoal
STOP = TwistGoal(np.zeros(6), np.inf)


def rehearse() -> None:
    """Use each part of the generator once, so that the first motion is as quick as later ones."""
    # This compiles its kernels, and makes scipy's first call of LAPACK, for which OpenBLAS
    # allocates its buffer: 10 ms with the GIL held, if the memory is locked.
    guide, limits = SetPointGenerator(np.eye(4)), TargetLimits(too_fast='slow')
    poses = np.repeat(np.eye(4)[None], 4, axis=0)
    poses[:, 0, 3] = 0.1, 2.1, 4.2, 6.1  # too fast: the path ramps up and brakes
    poses[1, :2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    path = path_within(path_through([0.0, 2.0, 4.0, 9.0], poses, limits), limits)
    guide.add(path, 0.0)
    for time in (0.0, 0.1, 0.2, 0.3):
        guide.at(time, limits)
        guide.plan(limits)
        guide.add(TwistGoal(np.full(6, 0.1), 9.0), 0.1)
    composed(guide.target, np.zeros((3, 6)))


class SetPointGenerator:
    """Computes the target of a task at every tick, C² in time across changes of the motion."""

    # The target is motion ⊕ offset: rotation R exp(φ×), position p + d. The offset (φ, d) starts
    # as the difference of target and motion, and decays to zero as fast as the limits allow, see
    # `joining_offset`.
    # Compiled code writes the target of a tick from the records of
    # `osc_ros.control.setpoint.motion`; `at` does this for Python. `plan`, the slow part, changes
    # the motion from the last target on. While states are answered, a `Draft` plans for a time a
    # little ahead, and the first tick at or after it takes the plan over.
    # The time of a motion slows down while the arm cannot follow, see `TargetLimits.leash`, and
    # that of a path before an obstacle, see `motion.note_loss`. After a pause of the clock the
    # target resumes where it was; if the clock goes back, it stops and all scheduled motions are
    # dropped.

    FASTEST = 1e100  # larger entries of a twist are reduced before its length is computed

    def __init__(self, pose: Array) -> None:
        self.records = plan, state = PLAN.new(), STATE.new()
        # clamped: the motion was changed to keep the box or, for a twist, the speed limit
        self.clamped = self._rejoins = False
        self._next: Draft | None = None  # has the plan that the next ticks take over
        self._pending: list[tuple[float, Motion]] = []
        self._motion: Motion = STOP
        self._posed = -np.inf  # time of the last command of a pose, on the motion's clock [s]
        state.now, plan.until, plan.bounds[:] = -np.inf, np.inf, _NO_BOX
        plan.wakes, state.calm, plan.times = np.inf, CALM, np.array([0.0, 1.0])
        plan.offset_times, plan.poses = plan.times, _NO_PIECES
        plan.coefficients = plan.offset = _NO_PIECES
        state.rate = state.override = 1.0
        self._settle(PoseGoal(pose))  # until the first motion starts
        state.pose[:] = pose

    @classmethod
    def coasting(cls, pose: Array, twist: Array, rate: float, before: SetPointGenerator,
                 follows: bool = False) -> SetPointGenerator:
        """Return a generator whose target comes to rest from a pose (4, 4) and a twist (6,)."""
        # It slows down at a rate [1/s] from the last tick of `before` on. If `follows`, the target
        # stays near its link, see `motion.TETHER`.
        guide = cls(pose)
        (plan, state), (_, last) = guide.records, before.records
        state.take(last, ('now', 'pace', 'override'))
        now = float(state.now)
        if now > -np.inf and twist.any():
            guide._settle(Drift(pose, np.zeros(6), now), now + COASTED / rate)
            plan.kind, plan.rate = FOLLOW if follows else COAST, rate
            state.twist[:], state.stops = twist, True
            plan.span[:] = now, now + COASTED / rate
            plan.piece[0] = np.outer(COASTED / rate * Drift(pose, twist, now).rates, STOPPING)
        return guide

    def copied(self) -> SetPointGenerator:
        """Return an independent copy."""
        found = copy(self)
        plan, state = self.records
        found.records = plan.copy(), state.copy()
        found._pending = list(self._pending)
        return found

    def adopt(self) -> None:
        """Own the motions of a `Draft` from the tick on that has taken over its plan."""
        if (found := self._next) is None:
            return
        plan, made = self.records[0], found.generator
        if plan.number == made.records[0].number:
            plan.kept.update(made.records[0].kept)
            self.motions = made.motions
            self._ask()
        elif not plan.next_at:  # a tick has dropped it
            self._next = None

    def drop_next(self) -> None:
        """Drop a plan that no tick has taken over yet: it is made again."""
        self.adopt()
        if self._next is not None:
            self._next, self.records[0].next_at, self.records[1].is_open = None, 0, True

    @property
    def motions(self) -> tuple[Any, ...]:
        """Motions and flags: the part of the state that is not in the records."""
        self.adopt()
        return (self._motion, self._base, tuple(self._pending), self._posed, self.clamped,
                self._rejoins, self._offset)

    @motions.setter
    def motions(self, motions: tuple[Any, ...]) -> None:
        (self._motion, base, pending, self._posed, self.clamped, self._rejoins,
         offset) = motions
        self._pending = list(pending)
        self._use(base, offset)

    def _use(self, base: Base, offset: Pieces | None) -> None:
        """Own a motion and an offset, and let the plan refer to their pieces."""
        self._base, self._offset, plan = base, offset, self.records[0]
        if isinstance(base, Path):
            plan.times, plan.poses, plan.coefficients = (
                base.times, base.poses.ravel(), base.coefficients.ravel())
        if offset is not None:
            if not isinstance(offset, Pieces) or offset.coefficients.shape[1] != len(AT_REST):
                raise InputError('the offset of a target must be pieces of 6 coordinates')
            plan.offset_times, plan.offset = offset.times, offset.coefficients.ravel()
        self._next, plan.next_at = None, 0

    def keep_within(self, limits: TargetLimits) -> None:
        """Set the error at which the target waits for the arm, from the next tick on."""
        self.drop_next()
        plan, state = self.records
        plan.leash[:], state.calm = limits.leash, _calm(limits)
        plan.acceleration[:], plan.jerk[:] = limits.acceleration, limits.jerk

    @property
    def target(self) -> Target:
        """A copy of the target of the last tick."""
        state = self.records[1]
        return Target(state.pose.copy(), state.twist.copy(), state.acceleration.copy())

    @property
    def waits(self) -> bool:
        """Whether the target pauses because the arm lags."""
        return bool(plain(waits)(self.records[1]))

    @property
    def _moves(self) -> bool:
        plan = self.records[0]
        return bool(plan.kind != HOLD or plan.begin < np.inf)

    @property
    def moves(self) -> bool:
        """Whether a motion is in progress or scheduled."""
        return self._moves or bool(self._pending)

    def _ask(self) -> None:
        """Write to the plan the time at which `plan` must be called."""
        first = self._pending[0][0] if self._pending else np.inf
        self.records[0].wakes = -np.inf if self._rejoins else first
        if self._next is not None:
            self._next.put_pending(self._pending)

    def add(self, motion: Motion, start: float) -> None:
        """Schedule a motion at `start` [s]; motions scheduled for then or later are dropped."""
        self.adopt()
        self._pending = [entry for entry in self._pending if entry[0] < start]
        self._pending.append((start, motion))
        self._ask()

    @property
    def begins_in(self) -> float:
        """Time until the newest motion begins [s]; 0 if it has begun, or no time is known."""
        now = float(self.records[1].now)
        start = self._pending[-1][0] if self._pending else -np.inf
        return max(start - now, 0.0) if np.isfinite(now) and np.isfinite(start) else 0.0

    @property
    def has_goal(self) -> bool:
        """Whether the target moves to a pose or along a path, or will, or holds its end."""
        self.adopt()
        return any(not isinstance(one, TwistGoal) for one in (
            self._motion, *(motion for _, motion in self._pending)))

    def drop_overdue(self, before: float, now: float) -> list[float]:
        """Drop motions that are overdue after a jump of the clock; return their starts [s]."""
        # They were for a time after `before`, and are over or too old `now` [s], see `start_of`.
        self.adopt()
        overdue = [(start, motion) for start, motion in self._pending if before < start
                   and (motion.times[-1] if isinstance(motion, Path) else start) < now - OLDEST]
        self._pending = [entry for entry in self._pending if entry not in overdue]
        self._ask()
        return [start for start, _ in overdue]

    def rejoin(self, pose: Array) -> None:
        """Continue the motion from a pose (4, 4) at rest, to which the arm has moved meanwhile."""
        self.adopt()
        state = self.records[1]
        if isinstance(self._base, PoseGoal) and not self._moves:
            self._motion = self._base
        self._settle(PoseGoal(pose))
        state.pose[:], state.twist[:], state.acceleration[:] = pose, 0.0, 0.0
        self._rejoins = True
        self._ask()

    def note_hold(self) -> None:
        """Use the pose of the plan, which the caller has written, as a `PoseGoal`."""
        self._motion = PoseGoal(self.records[0].pose.copy())
        self._settle(self._motion)
        self._pending, self.clamped, self._rejoins = [], False, False

    def goal(self, limits: TargetLimits) -> Array | None:
        """Pose (4, 4) at which the newest motion ends; None for a twist, a stop, or no motion."""
        self.adopt()
        motion = self._pending[-1][1] if self._pending else self._motion
        if isinstance(motion, PoseGoal):
            return limits.inside(motion.pose)
        return motion.poses[-1] if isinstance(motion, Path) else None

    def at(self, time: float, limits: TargetLimits, error: Array | None = None,
           speed: float = 1.0) -> Target:
        """The target at a time on the clock of the motions [s], from the present plan."""
        # Calls `plan` first if it was not called since the last target; a motion that starts now
        # affects only the next target. `error` (6,): pose error at the last tick, base axes,
        # [angular; linear] [rad, m], zero along axes without motion control; `speed`: speed
        # override, 0 to 1.
        self.keep_within(limits)
        self.jump(limits, time)
        self.plan(limits)
        put_target(*self.records, AT_REST if error is None else error, time, speed)
        return self.target

    def jump(self, limits: TargetLimits, time: float = -np.inf) -> None:
        """If the target may jump, begin the due motions before the tick at a time [s]."""
        state = self.records[1]
        if limits.smooth:
            return
        if state.now == -np.inf:  # else the time of the last tick counts
            state.now, state.pace = time, np.inf
        if state.now > -np.inf:
            state.is_open = True
            self.plan(limits)

    def plan(self, limits: TargetLimits) -> None:
        """Plan the motions that begin at the last target; continue after plans that end soon."""
        # call this after using the target
        self.adopt()
        plan, state = self.records
        if not state.is_open:
            return
        soon = state.now + plain(ahead)(state)
        by = state.now if limits.smooth else soon  # a jump is not a tick late
        state.is_open = False
        if state.went_back:
            self._pending, state.went_back = [(-np.inf, STOP)], False
        if self._rejoins:
            self._begin(self._motion, limits, state.late)
        while self._pending and self._pending[0][0] <= by:
            (_, motion), *self._pending = self._pending
            self._begin(motion, limits)
        if by > plan.until:
            self._begin(STOP, limits)
        while plain(clock_after)(state, soon - state.now) >= plan.event:
            event, plan.event = plan.event, np.inf  # also if this raises
            self._handle_end(limits, event)
        self._ask()

    @property
    def left(self) -> float:
        """Duration of the rest of a path at full speed [s]; 0 without a path."""
        self.adopt()
        state = self.records[1]
        motion = [self._motion, *(one for start, one in self._pending if start <= state.now)][-1]
        late = state.late if motion is self._motion else 0.0
        return max(0.0, float(motion.times[-1]) - float(state.now - late)) if (
            isinstance(motion, Path)) else 0.0

    def predicted_target(self, time: float) -> Target:
        """The target at a time [s] after the last tick, if no more motions are commanded."""
        # Twist and acceleration are those at full speed, from which a motion is planned; less if
        # near pairs or a lag slow the motion.
        self.adopt()
        scheduled = [motion for start, motion in self._pending if start <= time]
        plan, state = self.records
        if not scheduled and time <= plan.until:
            rate, now = float(state.rate), max(time, state.now) - state.late
            if rate != 1.0:
                now -= (1.0 - rate) * max(time - state.now, 0.0)
            end = float(self._base.times[-1]) if isinstance(self._base, Path) else np.inf
            if now > end:
                return Target(self._sample(end).pose)
            found = self._sample(now)
            if state.reason <= OVERRIDE:
                return found
            share = rate / state.override if state.override else 0.0
            return Target(found.pose, share * found.twist, share ** 2 * found.acceleration)
        if not scheduled or isinstance(scheduled[-1], TwistGoal):  # its course is not planned yet
            return Target(state.pose.copy())
        return scheduled[-1].at(time)

    def draft(self, limits: TargetLimits, margin: float) -> Draft | None:
        """Return a `Draft` for a time `margin` [s] after the last tick; None if none is needed."""
        self.adopt()
        return Draft(self, limits, margin) if self.records[1].is_open else None

    # changes of the motion

    def _begin(self, motion: Motion, limits: TargetLimits, late: float = 0.0,
               now: float | None = None) -> None:
        """Start the transition to a motion; an error leaves the state unchanged."""
        # `late` is the delay of the motion's clock [s]; `now` the start on that clock [s], by
        # default the present time.
        before, records = dict(vars(self)), [record.words.copy() for record in self.records]
        try:
            self._change_motion(motion, limits, late,
                                self.records[1].now - late if now is None else now)
        except InputError:
            vars(self).update(before)
            for record, kept in zip(self.records, records):
                record.words[:] = kept
            raise

    def _change_motion(self, motion: Motion, limits: TargetLimits, late: float, now: float
                       ) -> None:
        plan, state = self.records
        if plan.kind == FOLLOW and isinstance(motion, TwistGoal) and not motion.twist.any():
            self._motion = motion  # it comes to rest already, as fast as the arm can
            return
        present = self._sample(now + late - state.late)
        along = self._share_along(motion, present, now)
        if state.reason <= OVERRIDE or along <= LEADS_ON:
            present = self._begin_rate(present, limits)
        state.onset[:] = state.course if along < 0.0 else 0.0
        if isinstance(motion, Path) and now >= motion.times[-1]:
            motion = PoseGoal(motion.poses[-1])  # the path is over: go to its end
        self._motion, state.late, plan.event = motion, late, np.inf
        self._rejoins = self.clamped = False
        plan.until = motion.until if isinstance(motion, TwistGoal) else np.inf
        state.stops = False
        plan.bounds[0] = np.minimum(limits.box[0], present.pose[:3, 3])
        plan.bounds[1] = np.maximum(limits.box[1], present.pose[:3, 3])
        if isinstance(motion, TwistGoal):
            self._jog(motion, present, limits, now)
        elif isinstance(motion, PoseGoal):
            goal = PoseGoal(limits.inside(motion.pose))
            self.clamped = goal.pose is not motion.pose
            # in a stream of poses, the target is still moving to one pose when the next one comes
            apart, self._posed = now - self._posed, now
            pace = 2.0 * apart * float(state.rate) if (
                present.twist.any() and apart < SPARSEST) else 0.0
            share = self._join(goal, present, limits, now,
                               duration=max(pace, motion.arrival - now))
            # if the change of direction exceeds the limits, stop first; `_handle_end` goes on
            if share > TOLERATED and present.twist.any():
                self._jog(STOP, present, limits, now)
        elif now < motion.times[0]:
            first = motion.at(float(motion.times[0]))
            self._join(PoseGoal(first.pose), present, limits, now, duration=motion.times[0] - now,
                       goal=first)
        else:
            self._join(motion, present, limits, now)

    def _handle_end(self, limits: TargetLimits, event: float) -> None:
        """Continue at an event: the end of an offset, or the start or end of a path."""
        plan, state = self.records
        motion, base = self._motion, self._base
        now = max(event, state.now - state.late)  # if late: from the last target
        if isinstance(base, Path):
            end = base.at(float(base.times[-1]))
            if now < base.times[-1]:
                plan.begin, plan.event = np.inf, base.times[-1]
            elif (plan.begin < np.inf or plan.kind in (COAST, FOLLOW) or end.twist.any()
                  or end.acceleration.any()):
                self._begin(PoseGoal(end.pose), limits, state.late, now)
            else:
                self._motion = PoseGoal(end.pose)
                self._settle(self._motion)
        elif isinstance(motion, Path):
            if now < motion.times[0]:
                self._settle(base, until=float(motion.times[0]))
            else:
                self._begin(motion, limits, state.late, now)
        elif isinstance(base, PoseGoal):
            self._settle(base)
        elif isinstance(motion, PoseGoal):
            self._begin(motion, limits, state.late, now)
        else:
            pose = self._sample(now).pose
            self._settle(Drift(pose, base.twist, now) if base.twist.any() else PoseGoal(pose))

    def _settle(self, base: Base, until: float = np.inf) -> None:
        """Make `base` the target, without an offset, until a time on the motion's clock [s]."""
        plan = self.records[0]
        plan.begin, plan.event = np.inf, until
        self._use(base, None)
        if isinstance(base, Path):
            plan.kind = PATH
            return
        plan.kind, plan.pose[:] = HOLD, base.pose
        if isinstance(base, Drift):
            plan.kind, plan.span[:], plan.piece[:] = DRIFT, (base.since, base.since + 1.0), 0.0
            plan.piece[0, :, 1] = base.rates

    def _share_along(self, motion: Motion, present: Target, now: float) -> float:
        """Cosine of the present course and the way of another motion; negative: it leads back."""
        # A motion that leads on stays slow, if lag or near pairs slow the present one. In another
        # direction it starts at full rate: an arm that is held may leave.
        if isinstance(motion, TwistGoal):
            way = motion.twist
        else:
            goal = motion.at(now + FORWARD)
            way = -difference(goal, present)[0]
            way[:3] = goal.pose[:3, :3] @ way[:3]
        way, course = (np.repeat([LENGTH, 1.0], 3) * x for x in (way, self.records[1].course))
        length = float(np.sqrt((way @ way) * (course @ course)))
        return float(way @ course) / length if length > 0.0 else 0.0

    def _begin_rate(self, present: Target, limits: TargetLimits) -> Target:
        """Set the rate for a new motion, see `first_rate`; return `present` as at this rate."""
        state = self.records[1]
        rate, slope = float(state.rate), float(state.rate_slope)
        if not limits.smooth:
            return present
        v = rate * present.twist
        a = rate ** 2 * present.acceleration + slope * present.twist
        fast, hard = (float((np.linalg.norm(x.reshape(2, 3), axis=1) / most).max())
                      for x, most in ((v, limits.speed), (a, limits.acceleration)))
        if (first := first_rate(state, fast, hard)) is not None:
            state.rate, state.rate_slope, state.reason = first, 0.0, FULL
            return Target(present.pose, v / first, a / first ** 2) if first else (
                Target(present.pose))
        return present if rate or slope else Target(present.pose)

    def _sample(self, now: float) -> Target:
        found = Target(np.empty((4, 4)), np.empty(6), np.empty(6))
        put_motion(self.records[0], now, np.empty((3, 6)), found.pose, found.twist,
                   found.acceleration)
        return found

    # plans

    def _jog(self, jog: TwistGoal, present: Target, limits: TargetLimits, now: float) -> None:
        """Plan the transition to a twist; the target stops at the faces of the workspace box."""
        twist, pose, speed = jog.twist.copy(), present.pose.copy(), np.full(6, np.inf)
        if limits.smooth and not twist.any():  # a stop is as short as at full speed
            state = self.records[1]
            state.stops, rate = True, max(float(state.rate), SLOWEST_STOP)
            limits = replace(limits, acceleration=limits.acceleration / rate ** 2,
                             jerk=limits.jerk / rate ** 3)
        for part, most in enumerate(limits.speed):
            own = twist[3 * part:3 * part + 3]
            if (largest := np.abs(own).max()) > self.FASTEST:  # its square may be infinite
                own *= self.FASTEST / largest
            length = np.sqrt(own @ own)
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

    def _join(self, base: PoseGoal | Path | Drift, present: Target, limits: TargetLimits,
              now: float, duration: float = 0.0, goal: Target | None = None,
              speed: Array | None = None) -> float:
        """Make base ⊕ a new offset the target; return the target's largest ratio to a limit."""
        # The ratio is 0 if no offset is needed. See `joining_offset` for the parameters.
        self._settle(base, now)
        if not limits.smooth:
            return 0.0
        plan = self.records[0]
        x = difference(base.at(now), present)
        if speed is None and goal is None and not x.any():
            return 0.0
        offset, share = joining_offset(base, x, limits, plan.bounds, now, duration, goal, speed)
        if offset is None and goal is not None:
            return self._join(base, present, limits, now, duration)
        if offset is None:
            raise InputError(f'no motion was found for an offset of {x.tolist()}')
        self._use(base, offset)
        plan.begin, plan.event = now, min(
            now + offset.duration, base.times[-1] if isinstance(base, Path) else np.inf)
        return share


class Draft:
    """The next plan of a generator, for a time ahead; it is made while the target goes on."""

    # Only `make` is slow: it computes on a copy, in any thread. Whether the plan is used depends
    # only on what `put` and the ticks find, so a replay repeats it.

    def __init__(self, of: SetPointGenerator, limits: TargetLimits, margin: float) -> None:
        # margin: from the last tick to the time for which the motions are planned [s]
        (plan, _), self.of, self._limits = of.records, of, limits
        self.generator, self._given = of.copied(), list(of._pending)
        if plan.kind == FOLLOW:  # until then it must move as expected, and not with its link
            plan.kind = COAST
        self._before, at = plan.copy(), self.generator.records[1]
        at.now += margin
        at.late += (1.0 - at.rate - 0.5 * at.rate_slope * margin) * margin
        at.rate = min(max(at.rate + at.rate_slope * margin, 0.0), 1.0)
        self._switch, self._expected = float(at.now), (at.late, at.rate, at.rate_slope)
        self._begun: list[tuple[float, Motion]] = []
        self._error: InputError | None = None
        self._is_made = False

    def make(self) -> None:
        """Plan, if it is not done yet."""
        if not self._is_made:
            self._is_made = True
            try:
                self.generator.plan(self._limits)
            except InputError as error:
                self._error = error

    def put(self) -> bool:
        """Let the ticks take over the plan; False if they are too far, or the motion changed."""
        # InputError: a target has no motion within its limits; its previous motion continues.
        self.make()
        of, made = self.of, self.generator
        (plan, state), (after, begins) = of.records, made.records
        self._before.wakes = plan.wakes  # further motions may have been scheduled
        if state.now > self._switch or not np.array_equal(self._before.integers, plan.integers):
            return False
        self._begun = [one for one in self._given if one not in made._pending]
        of._next, after.number = self, plan.number + 1
        state.is_open = state.went_back = False
        plan.switch, plan.expected[:] = self._switch, self._expected
        plan.next_at, plan.next_state_at = after.address, begins.address
        of._ask()
        if self._error is not None:
            raise self._error
        return True

    def put_pending(self, pending: list[tuple[float, Motion]]) -> None:
        """Use the motions that are scheduled, apart from those that the plan has begun."""
        self.generator._pending = [one for one in pending if one not in self._begun]
        self.generator._ask()


@lru_cache(16)
def _calm(limits: TargetLimits) -> float:
    """Time constant of a change of the speed override [s]."""
    # The change takes at most half of the acceleration limit, and all of the jerk limit.
    if not limits.smooth:
        return CALM
    return float(max((2.0 / np.e * limits.speed / limits.acceleration).max(),
                     np.sqrt(limits.speed / limits.jerk).max()))

