# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Action chunks of a policy: poses from an old observation become a C² path from the target."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.setpoint.joining import composed, difference, Drift
from osc_ros.control.setpoint.pieces import Pieces
from osc_ros.control.setpoint.trajectory import excess, LONGER, Path, slowed_to_rest
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import Target, TargetLimits
from osc_ros.errors import InputError
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

LEAD = 0.02  # time from the planning of a motion to its start [s]; planning takes 1 to 3 ms
PLANS = 8  # largest number of plans with longer fades
REMEMBERED = 2.0  # length of a `Trail` [s]
QUICK = 0.7  # longest fade of a difference of velocity and acceleration [s]
LATE, APPROACHES = ('wait', 'skip', 'refuse'), ('go', 'refuse')
FAR = 0.5, 0.1  # a chunk that begins farther from the set-point is a warning [rad, m]
APART = 1e-3  # least time between two knots [s]


def slow_down_setting() -> Any:
    """Field of the time to rest without a further pose, for chunks and streams."""
    return setting(0.5, 'Time in which the set-point comes to rest when the next chunk, or the '
                   'next pose of a stream, is missing [s]', lower=0.02, upper=60.0)


@dataclass(frozen=True)
class ChunkBlending(Group, group='target'):
    """
    Blending of the target's motion from one chunk to the next.

    Differences of velocity and acceleration fade out within QUICK. For a distance d the jerk
    of the fade is at most 60 d / fade³, and its speed 15/8 d / fade. The target begins to slow
    down slow_down / 2 before the end of the last chunk.

    Raises
    ------
    InputError
        A time or a treatment that is not accepted.

    """

    fade: float = setting(
        0.7, 'Time in which the distance of a new chunk on target_chunk from the motion in '
        'progress fades out [s]', name='chunk_fade', lower=0.02, upper=60.0)
    slow_down: float = slow_down_setting()
    late: str = setting(
        'wait', 'Chunk some of whose poses are over when it comes, while the set-point is at '
        'rest: wait, it begins now with its first pose; skip, the set-point enters it at the '
        'present time; refuse. In motion the set-point enters it at the present time',
        name='chunk_late', choices=LATE)
    approach: str = setting(
        'go', f'Chunk that begins farther than {FAR[1]:g} m or {FAR[0]:g} rad from the set-point: '
        'go there within target.chunk_fade or longer, with a warning; or refuse it',
        name='chunk_approach', choices=APPROACHES)


JOINING = ChunkBlending()


class LateChunkError(InputError):
    """All poses of a chunk are in the past."""

    def __init__(self, message: str, age: float, horizon: float) -> None:
        super().__init__(message)
        self.age, self.horizon = age, horizon  # observation to now, and to the last pose [s]


class Entry(NamedTuple):
    """Path from the target's motion to a chunk."""

    path: Path  # from `start` on, C² from the target's state there; ends at rest at the last pose
    start: float  # time at which the target changes to this path [s]
    age: float  # time from the observation to `start` [s]
    skipped: int  # number of poses of the chunk before `start`
    fade: float  # duration in which the difference fades out [s]
    delay: float  # time by which the whole chunk is late [s], see `ChunkBlending.late`
    away: Array  # (2,) angle and distance from the target to the chunk at `start` [rad, m]

    def __str__(self) -> str:
        text = f'enters {self.age:.3f} s after the observation, {self.skipped} poses are over'
        return text + (f'; it begins with its first pose, {self.delay:.3f} s late'
                       if self.delay else '')

    @property
    def warning(self) -> str:
        """Text on a chunk that begins far from the set-point; otherwise empty."""
        return '' if (self.away <= FAR).all() else (
            f'{_away_text(self.away)}: the set-point goes there within {self.fade:.2g} s')


def chunk_entry(times: ArrayLike, poses: ArrayLike, observed_at: float, present: Target,
                start: float, limits: TargetLimits, joining: ChunkBlending = JOINING,
                speed: float = 1.0) -> Entry:
    """Return the path on which the target changes from its motion to the poses of a chunk."""
    # `times` (m,) [s] increase, on the clock of the states; `poses` (m, 4, 4) were predicted from
    # the observation at `observed_at` [s]; `present` is the target at `start`, LEAD after now [s].
    # InputError also as for `Path`.
    course = Path(times, poses, ends=(None, None))
    horizon = float(course.times[-1]) - observed_at
    # speed override: only this share of the time has passed for the arm, so skip fewer poses
    if observed_at < start and speed < 1.0:
        course = Path(course.times + (1.0 - speed) * (start - observed_at), poses,
                      ends=(None, None))
    if start >= course.times[-1]:
        raise LateChunkError(
            f'the chunk is over: its last pose is for {course.times[-1]:.3f} s, it must be later '
            f'than {start:.3f} s', start - observed_at, horizon)
    if observed_at > start:
        raise InputError(f'the observation is of {observed_at:.3f} s: must be no later than '
                         f'now, {start:.3f} s')
    skipped = int(np.searchsorted(course.times, start, side='right'))
    delay = 0.0
    if skipped and joining.late != 'skip' and not present.twist.any():
        if joining.late == 'refuse':
            raise InputError(f'{skipped} of {len(course.times)} poses are over: the first must be '
                             f'later than {start:.3f} s, it is for {course.times[0]:.3f} s')
        delay = start + float(course.times[1] - 2.0 * course.times[0])
        course, skipped = Path(course.times + delay, poses, ends=(None, None)), 0
    away = np.linalg.norm(pose_error(present.pose, _at(course, start).pose).reshape(2, 3), axis=1)
    if joining.approach == 'refuse' and (away > FAR).any():
        raise InputError(f'{_away_text(away)}: it must begin within {FAR[1]:g} m and {FAR[0]:g} '
                         'rad of it')
    # to rest at the end; if the next chunk comes earlier, it takes over at the present speed
    course = slowed_to_rest(course, start, joining.slow_down)
    # the difference to the present motion, with the error of the observed pose, fades out
    fade, path = joining.fade, joined(course, present, start, joining.fade)
    # limits only lengthen the fade; `path_within` refuses a chunk that itself exceeds them
    for _ in range(PLANS):
        if excess(path, limits) <= 1.0 or excess(course, limits) > 1.0:
            break
        fade *= LONGER
        path = joined(course, present, start, fade)
    return Entry(path, start, start - observed_at, skipped, fade, delay, away)


def _away_text(away: Array) -> str:
    return f'the chunk begins {away[1]:.3g} m and {away[0]:.2g} rad from the set-point'


def joined(course: Path, present: Target, start: float, fade: float) -> Path:
    """Return course ⊕ offset: starts at `present`, converges to the course in `fade` [s]."""
    # The velocity and acceleration of the offset fade in QUICK at most: a velocity v that fades in
    # T moves the target by up to 0.2 v T, an acceleration a by up to 0.017 a T².
    x = difference(_at(course, start), present)
    faded, quick = start + fade, min(fade, QUICK)
    fades = [Pieces.between(np.array([0.0, lasts]), *np.stack([part, 0.0 * part], axis=1))
             for lasts, part in ((fade, x * [[1.0], [0.0], [0.0]]),
                                 (quick, x * [[0.0], [1.0], [1.0]]))]
    grid = np.concatenate([np.linspace(start, end, 4) for end in (faded, start + quick)])
    knots = np.concatenate([grid, course.times[course.times > start]])
    knots = _apart(np.unique(knots))
    targets = [composed(_at(course, time), fades[0].at(time - start) + fades[1].at(time - start))
               for time in knots.tolist()]
    targets[0] = present
    return Path(knots, [t.pose for t in targets], [t.twist for t in targets],
                [t.acceleration for t in targets])


def _at(course: Path, time: float) -> Target:
    """State of the course at a time; before its first knot extrapolated with constant twist."""
    if time >= course.times[0]:
        return course.at(time)
    first = course.at(float(course.times[0]))
    return Drift(first.pose, first.twist, float(course.times[0])).at(time)


def _apart(times: Array) -> Array:
    """Times (m,) without those less than APART after another; the first and last one remain."""
    kept = [float(times[0])]
    for time in times[1:].tolist():
        if time - kept[-1] >= APART:
            kept.append(time)
    if times[-1] > kept[-1]:
        kept[-1] = float(times[-1])
    return np.array(kept)


class Trail:
    """Poses of a link in the last REMEMBERED seconds, for chunks relative to a past pose."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._poses: deque[Array] = deque()

    @property
    def newest(self) -> float:
        """Time of the last pose [s]; -inf without one."""
        return self._times[-1] if self._times else -np.inf

    def add(self, time: float, pose: Array) -> None:
        """Add the pose (4, 4) at a time [s]; drop all others if the clock went back."""
        if time <= self.newest:
            self._times.clear()
            self._poses.clear()
        self._times.append(time)
        self._poses.append(np.array(pose))
        while self._times[-1] - self._times[0] > REMEMBERED:
            self._times.popleft()
            self._poses.popleft()

    def at(self, time: float) -> Array:
        """Return the pose (4, 4) at a time [s], interpolated; InputError before the oldest."""
        if not self._times or time < self._times[0]:
            span = f'the last {self.newest - self._times[0]:.2f} s' if self._times else 'none'
            raise InputError(f'the pose at {time:.3f} s, when the chunk was observed, is not '
                             f'known: remembered are those of {span}')
        k = bisect_right(self._times, time) - 1
        before = self._poses[k]
        if k + 1 == len(self._times):  # newer than all: poses are reported at a limited rate
            return before.copy()
        share = (time - self._times[k]) / (self._times[k + 1] - self._times[k])
        return Drift(before, pose_error(before, self._poses[k + 1]), 0.0).at(share).pose
