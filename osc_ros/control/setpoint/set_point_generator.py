# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Target of a task that moves from one commanded motion to the next, C² on SE(3)."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TYPE_CHECKING, TypeAlias

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
    put_motion,
    records_at,
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

_LIMITS = TargetLimits()  # of a target without others


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
    guide.keep_within(limits)
    for time in (0.0, 0.1, 0.2, 0.3):
        guide.records[1].now, guide.records[1].is_open = time, True
        guide.plan()
        guide.add(TwistGoal(np.full(6, 0.1), 9.0), 0.1)
    composed(guide.target, np.zeros((3, 6)))


class Course(NamedTuple):
    """The part of a generator's state that is not in its records."""

    motion: Motion  # the newest that has begun
    base: Base  # motion of the plan
    offset: Pieces | None  # from it to the target
    pending: tuple[tuple[float, Motion], ...]  # motions that begin later, after their starts [s]


class SetPointGenerator:
    """Computes the target of a task at every tick, C² in time across changes of the motion."""

    # The target is motion ⊕ offset: rotation R exp(φ×), position p + d. The offset (φ, d) starts
    # as the difference of target and motion, and decays to zero as fast as the limits allow, see
    # `joining_offset`.
    # Compiled code writes the target of a tick from the records of
    # `osc_ros.control.setpoint.motion`. `plan`, the slow part, changes the motion from the last
    # target on. To plan while states are answered, a `Draft` plans for a time a little ahead, and
    # the first tick at or after this time takes the plan over.
    # The time of a motion slows down while the arm cannot follow, see `TargetLimits.leash`, and
    # that of a path before an obstacle, see `motion.note_loss`. After a pause of the clock the
    # target resumes where it was; if the clock goes back, it stops and all scheduled motions are
    # dropped.

    FASTEST = 1e100  # larger entries of a twist are reduced before its length is computed

    def __init__(self, pose: Array) -> None:
        self.records, self.limits = records_at(pose), _LIMITS
        self._next: Draft | None = None  # has the plan that the next ticks take over
        self._course = Course(STOP, PoseGoal(pose), None, ())  # until the first motion starts

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
        """Return an independent copy, without the plan that the next ticks take over."""
        found = copy(self)
        found.records = tuple(record.copy() for record in self.records)
        found.course = self.course
        return found

    @property
    def course(self) -> Course:
        """Motions of the plan in force: of a `Draft` from the tick on that takes its plan over."""
        if self._next is not None:
            plan, made = self.records[0], self._next.generator
            if plan.number == made.records[0].number:
                plan.kept.update(made.records[0].kept)
                self._course, self._next = made.course, None
            elif not plan.next_at:  # a tick has dropped it
                self._next = None
        return self._course

    @course.setter
    def course(self, course: Course) -> None:
        self._course, self._next, plan = course, None, self.records[0]
        plan.next_at, base, offset = 0, course.base, course.offset
        if isinstance(base, Path):
            plan.times, plan.poses, plan.coefficients = (
                base.times, base.poses.ravel(), base.coefficients.ravel())
        if offset is not None:
            if not isinstance(offset, Pieces) or offset.coefficients.shape[1] != len(AT_REST):
                raise InputError('the offset of a target must be pieces of 6 coordinates')
            plan.offset_times, plan.offset = offset.times, offset.coefficients.ravel()

    def drop_next(self) -> None:
        """Drop a plan that no tick has taken over yet: it is made again."""
        course = self.course
        if self._next is not None:
            self.course, self.records[1].is_open = course, True

    def keep_within(self, limits: TargetLimits) -> None:
        """Plan within these limits, and wait for the arm at their leash, from the next tick on."""
        self.drop_next()
        self.limits, (plan, state) = limits, self.records
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
        return self._moves or bool(self.course.pending)

    @property
    def clamped(self) -> bool:
        """Whether the workspace box, or the speed limit of a twist, has changed the motion."""
        return bool(self.records[0].clamped)

    def _schedule(self, pending: Iterable[tuple[float, Motion]]) -> None:
        """Replace the list of motions that begin later; update when `plan` must be called."""
        self._course, plan = self.course._replace(pending=tuple(pending)), self.records[0]
        first = self._course.pending[0][0] if self._course.pending else np.inf
        plan.wakes = -np.inf if plan.rejoins else first
        if self._next is not None:
            self._next.schedule(self._course.pending)

    def add(self, motion: Motion, start: float) -> None:
        """Schedule a motion at `start` [s]; motions scheduled for then or later are dropped."""
        self._schedule([*(one for one in self.course.pending if one[0] < start), (start, motion)])

    @property
    def begins_in(self) -> float:
        """Time until the newest motion begins [s]; 0 if it has begun, or no time is known."""
        now, pending = float(self.records[1].now), self.course.pending
        start = pending[-1][0] if pending else -np.inf
        return max(start - now, 0.0) if np.isfinite(now) and np.isfinite(start) else 0.0

    @property
    def has_goal(self) -> bool:
        """Whether the target moves to a pose or along a path, or will, or holds its end."""
        return any(not isinstance(one, TwistGoal) for one in (
            self.course.motion, *(motion for _, motion in self.course.pending)))

    def drop_overdue(self, before: float, now: float) -> list[float]:
        """Drop motions that are overdue after a jump of the clock; return their starts [s]."""
        # They were for a time after `before`, and are over or too old `now` [s], see `start_of`.
        pending = self.course.pending
        overdue = [(start, motion) for start, motion in pending if before < start
                   and (motion.times[-1] if isinstance(motion, Path) else start) < now - OLDEST]
        self._schedule(one for one in pending if one not in overdue)
        return [start for start, _ in overdue]

    def rejoin(self, pose: Array) -> None:
        """Continue the motion from a pose (4, 4) at rest, to which the arm has moved meanwhile."""
        course, (plan, state) = self.course, self.records
        if isinstance(course.base, PoseGoal) and not self._moves:
            self.course = course._replace(motion=course.base)
        self._settle(PoseGoal(pose))
        state.pose[:], state.twist[:], state.acceleration[:] = pose, 0.0, 0.0
        plan.rejoins = True
        self._schedule(self.course.pending)

    def note_hold(self) -> None:
        """Use the pose of the plan, which the caller has written, as a `PoseGoal`."""
        hold = PoseGoal(self.records[0].pose.copy())
        self.course = Course(hold, hold, None, ())

    @property
    def goal(self) -> Array | None:
        """Pose (4, 4) at which the newest motion ends; None for a twist, a stop, or no motion."""
        motion = self.course.pending[-1][1] if self.course.pending else self.course.motion
        if isinstance(motion, PoseGoal):
            return self.limits.inside(motion.pose)
        return motion.poses[-1] if isinstance(motion, Path) else None

    def jump(self, time: float = -np.inf) -> None:
        """If the target may jump, begin the due motions before the tick at a time [s]."""
        state = self.records[1]
        if self.limits.smooth:
            return
        if state.now == -np.inf:  # else the time of the last tick counts
            state.now, state.pace = time, np.inf
        if state.now > -np.inf:
            state.is_open = True
            self.plan()

    def plan(self) -> None:
        """Plan the motions that begin at the last target; continue after plans that end soon."""
        # call this after using the target
        plan, state = self.records
        if not state.is_open:
            return
        soon = state.now + plain(ahead)(state)
        by = state.now if self.limits.smooth else soon  # a jump is not a tick late
        state.is_open = False
        if state.went_back:
            state.went_back = False
            self._schedule([(-np.inf, STOP)])
        if plan.rejoins:
            self._begin(self.course.motion, state.late)
        while (pending := self.course.pending) and pending[0][0] <= by:
            self._schedule(pending[1:])  # also if the motion is refused
            self._begin(pending[0][1])
        if by > plan.until:
            self._begin(STOP)
        while plain(clock_after)(state, soon - state.now) >= plan.event:
            event, plan.event = plan.event, np.inf  # also if this raises
            self._handle_end(event)
        self._schedule(self.course.pending)

    @property
    def left(self) -> float:
        """Duration of the rest of a path at full speed [s]; 0 without a path."""
        state, (begun, *_, pending) = self.records[1], self.course
        motion = [begun, *(one for start, one in pending if start <= state.now)][-1]
        late = state.late if motion is begun else 0.0
        return max(0.0, float(motion.times[-1]) - float(state.now - late)) if (
            isinstance(motion, Path)) else 0.0

    def predicted_target(self, time: float) -> Target:
        """The target at a time [s] after the last tick, if no more motions are commanded."""
        # Twist and acceleration are those at full speed, from which a motion is planned; less if
        # near pairs or a lag slow the motion.
        (_, base, _, pending), (plan, state) = self.course, self.records
        scheduled = [motion for start, motion in pending if start <= time]
        if not scheduled and time <= plan.until:
            rate, now = float(state.rate), max(time, state.now) - state.late
            if rate != 1.0:
                now -= (1.0 - rate) * max(time - state.now, 0.0)
            end = float(base.times[-1]) if isinstance(base, Path) else np.inf
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

    def draft(self, margin: float) -> Draft | None:
        """Return a `Draft` for a time `margin` [s] after the last tick; None if none is needed."""
        return Draft(self, margin) if self.records[1].is_open else None

    # changes of the motion

    def _begin(self, motion: Motion, late: float = 0.0, now: float | None = None) -> None:
        """Start the transition to a motion; an error leaves the state unchanged."""
        # `late` is the delay of the motion's clock [s]; `now` the start on that clock [s], by
        # default the present time.
        before, records = self.course, [record.words.copy() for record in self.records]
        try:
            self._change_motion(motion, late, self.records[1].now - late if now is None else now)
        except InputError:
            for record, kept in zip(self.records, records):
                record.words[:] = kept
            self.course = before
            raise

    def _change_motion(self, motion: Motion, late: float, now: float) -> None:
        (plan, state), limits = self.records, self.limits
        if plan.kind == FOLLOW and isinstance(motion, TwistGoal) and not motion.twist.any():
            self.course = self.course._replace(motion=motion)
            return  # it comes to rest already, as fast as the arm can
        present = self._sample(now + late - state.late)
        along = self._share_along(motion, present, now)
        if state.reason <= OVERRIDE or along <= LEADS_ON:
            present = self._begin_rate(present)
        state.onset[:] = state.course if along < 0.0 else 0.0
        if isinstance(motion, Path) and now >= motion.times[-1]:
            motion = PoseGoal(motion.poses[-1])  # the path is over: go to its end
        self.course = self.course._replace(motion=motion)
        state.late, plan.event = late, np.inf
        plan.rejoins = plan.clamped = False
        plan.until = motion.until if isinstance(motion, TwistGoal) else np.inf
        state.stops = False
        plan.bounds[0] = np.minimum(limits.box[0], present.pose[:3, 3])
        plan.bounds[1] = np.maximum(limits.box[1], present.pose[:3, 3])
        if isinstance(motion, TwistGoal):
            self._jog(motion, present, now)
        elif isinstance(motion, PoseGoal):
            goal = PoseGoal(limits.inside(motion.pose))
            plan.clamped = goal.pose is not motion.pose
            # in a stream of poses, the target is still moving to one pose when the next one comes
            apart, plan.posed = now - float(plan.posed), now
            pace = 2.0 * apart * float(state.rate) if (
                present.twist.any() and apart < SPARSEST) else 0.0
            share = self._join(goal, present, now, duration=max(pace, motion.arrival - now))
            # if the change of direction exceeds the limits, stop first; `_handle_end` goes on
            if share > TOLERATED and present.twist.any():
                self._jog(STOP, present, now)
        elif now < motion.times[0]:
            first = motion.at(float(motion.times[0]))
            self._join(PoseGoal(first.pose), present, now, motion.times[0] - now, first)
        else:
            self._join(motion, present, now)

    def _handle_end(self, event: float) -> None:
        """Continue at an event: the end of an offset, or the start or end of a path."""
        (plan, state), (motion, base, *_) = self.records, self.course
        now = max(event, state.now - state.late)  # if late: from the last target
        if isinstance(base, Path):
            end = base.at(float(base.times[-1]))
            if now < base.times[-1]:
                plan.begin, plan.event = np.inf, base.times[-1]
            elif (plan.begin < np.inf or plan.kind in (COAST, FOLLOW) or end.twist.any()
                  or end.acceleration.any()):
                self._begin(PoseGoal(end.pose), state.late, now)
            else:
                hold = PoseGoal(end.pose)
                self.course = self.course._replace(motion=hold)
                self._settle(hold)
        elif isinstance(motion, Path):
            if now < motion.times[0]:
                self._settle(base, until=float(motion.times[0]))
            else:
                self._begin(motion, state.late, now)
        elif isinstance(base, PoseGoal):
            self._settle(base)
        elif isinstance(motion, PoseGoal):
            self._begin(motion, state.late, now)
        else:
            pose = self._sample(now).pose
            self._settle(Drift(pose, base.twist, now) if base.twist.any() else PoseGoal(pose))

    def _settle(self, base: Base, until: float = np.inf) -> None:
        """Make `base` the target, without an offset, until a time on the motion's clock [s]."""
        plan = self.records[0]
        plan.begin, plan.event = np.inf, until
        self.course = self.course._replace(base=base, offset=None)
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

    def _begin_rate(self, present: Target) -> Target:
        """Set the rate for a new motion, see `first_rate`; return `present` as at this rate."""
        state, limits = self.records[1], self.limits
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
        found = STATE.new()
        put_motion(self.records[0], now, found)
        return Target(found.pose, found.twist, found.acceleration)

    # plans

    def _jog(self, jog: TwistGoal, present: Target, now: float) -> None:
        """Plan the transition to a twist; the target stops at the faces of the workspace box."""
        twist, pose, speed = jog.twist.copy(), present.pose.copy(), np.full(6, np.inf)
        (plan, state), limits = self.records, self.limits
        if limits.smooth and not twist.any():  # a stop is as short as at full speed
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
                plan.clamped = True
        for axis in range(3):
            along = twist[3 + axis]
            face = limits.box[int(along > 0.0), axis]
            if abs(face - pose[axis, 3]) < FORESIGHT * abs(along):
                twist[3 + axis] = 0.0
                if (face - pose[axis, 3]) * np.sign(along) > AT_THE_EDGE:
                    pose[axis, 3], speed[3 + axis] = face, abs(along)
                else:
                    plan.clamped = True
        self._join(Drift(pose, twist, now), present, now, speed=speed, limits=limits)

    def _join(self, base: Base, present: Target, now: float, duration: float = 0.0,
              goal: Target | None = None, speed: Array | None = None,
              limits: TargetLimits | None = None) -> float:
        """Make base ⊕ a new offset the target; return the target's largest ratio to a limit."""
        # The ratio is 0 if no offset is needed. See `joining_offset` for the parameters.
        self._settle(base, now)
        limits = limits or self.limits
        if not limits.smooth:
            return 0.0
        plan = self.records[0]
        x = difference(base.at(now), present)
        if speed is None and goal is None and not x.any():
            return 0.0
        offset, share = joining_offset(base, x, limits, plan.bounds, now, duration, goal, speed)
        if offset is None and goal is not None:
            return self._join(base, present, now, duration)
        if offset is None:
            raise InputError(f'no motion was found for an offset of {x.tolist()}')
        self.course = self.course._replace(offset=offset)
        plan.begin, plan.event = now, min(
            now + offset.duration, base.times[-1] if isinstance(base, Path) else np.inf)
        return share


class Draft:
    """The next plan of a generator, for a time ahead; it is made while the target goes on."""

    # Only `make` is slow: it computes on a copy, in any thread. Whether the plan is used depends
    # only on the state of the target in `put` and in the ticks, so a replay decides the same. If
    # the margin is 0, `make` changes the plan in force itself, without a copy.

    def __init__(self, of: SetPointGenerator, margin: float) -> None:
        # margin: from the last tick to the time for which the motions are planned [s]
        self.of = self.generator = of
        self._is_ahead, self._is_made = margin > 0.0, False
        self._error: InputError | None = None
        if not self._is_ahead:
            return
        self._given, self.generator = of.course.pending, of.copied()
        plan, at = of.records[0], self.generator.records[1]
        if plan.kind == FOLLOW:  # until then it must move as expected, and not with its link
            plan.kind = COAST
        self._before = plan.copy()
        at.now += margin
        at.late += (1.0 - at.rate - 0.5 * at.rate_slope * margin) * margin
        at.rate = min(max(at.rate + at.rate_slope * margin, 0.0), 1.0)
        self._switch, self._expected = float(at.now), (at.late, at.rate, at.rate_slope)

    def make(self) -> None:
        """Plan, if it is not done yet."""
        if not self._is_made:
            self._is_made = True
            try:
                self.generator.plan()
            except InputError as error:
                self._error = error

    def put(self) -> bool:
        """Let the ticks take over the plan; False if they are too far, or the motion changed."""
        # InputError: a target has no motion within its limits; its previous motion continues.
        self.make()
        if self._is_ahead and not self._refer():
            return False
        if self._error is not None:
            raise self._error
        return True

    def _refer(self) -> bool:
        """Let the plan in force refer to the next one; False if it has changed since the copy."""
        of, made = self.of, self.generator
        (plan, state), (after, begins) = of.records, made.records
        self._before.wakes = plan.wakes  # further motions may have been scheduled
        if state.now > self._switch or not np.array_equal(self._before.integers, plan.integers):
            return False
        self._begun = [one for one in self._given if one not in made.course.pending]
        of._next, after.number = self, plan.number + 1
        state.is_open = state.went_back = False
        plan.switch, plan.expected[:] = self._switch, self._expected
        plan.next_at, plan.next_state_at = after.address, begins.address
        of._schedule(of.course.pending)
        return True

    def schedule(self, pending: Iterable[tuple[float, Motion]]) -> None:
        """Replace the list of motions that begin after this plan; without those in the plan."""
        self.generator._schedule(one for one in pending if one not in self._begun)


@lru_cache(16)
def _calm(limits: TargetLimits) -> float:
    """Time constant of a change of the speed override [s]."""
    # The change takes at most half of the acceleration limit, and all of the jerk limit.
    if not limits.smooth:
        return CALM
    return float(max((2.0 / np.e * limits.speed / limits.acceleration).max(),
                     np.sqrt(limits.speed / limits.jerk).max()))

