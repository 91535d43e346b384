# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Streams of poses at 5 to 50 Hz: the target follows them with a fixed lag, without stops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.setpoint.chunks import slow_down_setting
from osc_ros.control.setpoint.joining import composed
from osc_ros.control.setpoint.trajectory import AT_REST, excess, Path, PoseGoal
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import Target, TargetLimits
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

STREAMS = 'stop', 'follow', 'extrapolate'
SPARSEST = 0.5  # longest time between two poses of one stream [s]
MISSING = 2.5  # number of periods after which the next pose counts as missing
LEAST, MOST = 5, 64  # smallest and largest number of poses that the course is fitted to
ARRIVALS = 40  # largest number of arrival times from which the sending times are estimated
HORIZONS = 1.0, 1.4, 2.0  # horizons of the plans that are tried until one keeps the limits
REGULAR = 0.25  # largest distance of an arrival from a regular sequence, relative to the period


@dataclass(frozen=True)
class Following(Group, group='target'):
    """
    Settings of the motion that follows a stream of poses.

    A longer horizon gives less jerk from jitter, and rounds the course more.

    Raises
    ------
    InputError
        An unknown mode, or a time that is not accepted.

    """

    mode: str = setting(
        'stop', 'What the set-point does with poses on target_pose that come at most 0.5 s apart. '
        'stop: go to each one, and stop there unless the next one comes before; follow: follow '
        'their course one period behind; extrapolate: without lag', name='stream',
        choices=STREAMS)
    horizon: float = setting(
        0.45, 'The course is fitted to the poses of this time, at least to five, and the '
        'set-point goes over to it in this time [s]', name='stream_horizon', lower=0.05,
        upper=10.0)
    slow_down: float = slow_down_setting()


class Continuation(NamedTuple):
    """Motion of the target after a pose of a stream."""

    path: Path  # from now on, C² from the state of the target
    hold: PoseGoal  # the newest pose, which replaces the path if no other pose comes
    missing_at: float  # time of this replacement [s]


class Stream:
    """The newest poses of a stream, and the target's motion that follows them."""

    # The course is the quadratic fitted by least squares to the poses of the last `horizon`, which
    # averages the remaining jitter of the times. A plan is a path of three knots: the target, its
    # course one `horizon` later, and the course where it rests.

    def __init__(self, following: Following) -> None:
        self.following = following
        self._times: deque[float] = deque(maxlen=MOST)
        self._poses: deque[Array] = deque(maxlen=MOST)
        self._arrivals: deque[float] = deque(maxlen=ARRIVALS)

    def clear(self) -> None:
        """Remove all poses, because another motion was commanded."""
        self._times.clear()
        self._poses.clear()
        self._arrivals.clear()

    def add(self, time: float, pose: Array, is_exact: bool = False) -> bool:
        """Add a pose (4, 4) at a time [s]; return whether it belongs to a stream."""
        # Unless `is_exact`, the time is that of the arrival, from which the time of the pose is
        # estimated. The first pose of a stream is a goal like a single pose.
        if not (self._times and 0.0 < time - self._times[-1] <= SPARSEST):
            self.clear()
        self._times.append(time)
        self._poses.append(np.array(pose))
        if is_exact:
            self._arrivals.clear()
        else:
            self._arrivals.append(time)
        horizon = self.following.horizon
        while len(self._times) > LEAST and time - self._times[0] > horizon:
            self._times.popleft()
            self._poses.popleft()
        return len(self._times) > 1

    @property
    def period(self) -> float:
        """Mean time between two poses [s]."""
        return (self._times[-1] - self._times[0]) / (len(self._times) - 1)

    def continuation(self, present: Target, start: float, limits: TargetLimits,
                     speed: float = 1.0) -> Continuation:
        """Return the motion of the target from `present`, its state at the time `start` [s]."""
        # The speed override `speed`, more than 0, at most 1, lowers the limits; a stream within
        # them is followed at its own speed.
        following, newest = self.following, self._times[-1]
        lag = self.period if following.mode == 'follow' else 0.0
        course, slow_down = self._course(), following.slow_down
        for longer in HORIZONS:  # the caller's check refuses a path that exceeds the limits
            horizon = longer * following.horizon
            joined, end = (course(start - lag + horizon + late) for late in (0.0, 0.5 * slow_down))
            path = Path(start + speed * np.array([0.0, horizon, horizon + slow_down]),
                        [present.pose, joined.pose, end.pose],
                        [present.twist, joined.twist / speed, AT_REST],
                        [present.acceleration, joined.acceleration / speed ** 2, AT_REST])
            if excess(path, limits) <= 1.0:
                break
        missing_at = max(start, newest + MISSING * self.period)
        hold = PoseGoal(self._poses[-1], arrival=missing_at + slow_down)
        return Continuation(path, hold, missing_at)

    def _course(self) -> Callable[[float], Target]:
        """Return the course, a function of the time [s]."""
        times, poses = self._regular_times(), list(self._poses)
        newest = float(times[-1])
        R = poses[-1][:3, :3]
        rows = np.array([pose_error(poses[-1], pose) for pose in poses])
        rows[:, :3] = rows[:, :3] @ R  # in the axes of the newest pose
        degree = min(2, len(poses) - 1)
        c = np.zeros((3, 6))
        powers = np.vander(times - newest, degree + 1, increasing=True)
        c[:degree + 1] = np.linalg.lstsq(powers, rows, rcond=None)[0]

        def at(time: float) -> Target:
            s = time - newest
            return composed(Target(poses[-1]), np.array([
                c[0] + s * (c[1] + s * c[2]), c[1] + 2.0 * s * c[2], 2.0 * c[2]]))
        return at

    def _regular_times(self) -> Array:
        """Return the times (m,) of the poses [s], without the jitter of their arrival."""
        # If the sender has a fixed period, the arrival times are linear in the sequence number,
        # apart from jitter, even if poses are lost. If one is more than REGULAR periods off the
        # line, all are returned unchanged.
        times, arrivals = np.array(self._times), np.array(self._arrivals)
        if len(arrivals) < max(3, len(times)):
            return times
        gaps = np.diff(arrivals)
        number = np.concatenate([[0.0], np.cumsum(np.round(gaps / np.median(gaps)))])
        period, offset = np.polynomial.polynomial.polyfit(number, arrivals, 1)[::-1]
        regular = offset + period * number
        if np.abs(arrivals - regular).max() > REGULAR * period or (np.diff(number) < 1.0).any():
            return times
        return np.asarray(regular[-len(times):])
