# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Planning of chunks and streams of poses from topics, in the node's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.law import Law
from osc_ros.control.reasons import KEY, Reason
from osc_ros.control.setpoint.chunks import (
    chunk_entry,
    ChunkBlending,
    Entry,
    LateChunkError,
    LEAD,
    Trail,
)
from osc_ros.control.setpoint.stamps import start_of
from osc_ros.control.setpoint.streams import Following, Stream
from osc_ros.control.tasks.task import Task
from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.loop.cycle import Stamp
from osc_ros.ros.dds.ros_loop import Loop
from osc_ros.ros.messages import messages
from osc_ros.setting import made

Array = NDArray[np.float64]

SEVERAL = 3  # number of late chunks in a row that are a reason
NEW = 1.0  # longest time after a chunk's end in which the next one counts as late [s]


class PolicyInput:
    """Plans and commands the motions of tasks from chunks and streams of poses."""

    def __init__(self, loop: Loop, law: Law, frame_pose: Callable[[str], Array]) -> None:
        # `frame_pose` returns the pose (4, 4) of a frame in the base frame, at the newest state
        self._loop, self._law, self._frame_pose = loop, law, frame_pose
        self._first = next(iter(law.levels))
        self._trail = Trail()  # past poses of the first task's link
        self._streams: dict[str, Stream] = {}
        self._ends: dict[str, float] = {}  # end of the last chunk of each task [s]
        self._joining, self._following = ChunkBlending(), Following()
        self._chunks = self._late = 0
        self._over: tuple[LateChunkError, ...] = ()  # the newest refused chunks in a row
        self._age = np.nan

    def apply(self, values: Mapping[str, Any]) -> None:
        """Set the parameters that concern chunks and streams."""
        self._joining, following = made(ChunkBlending, values), made(Following, values)
        if following != self._following:
            self._following, self._streams = following, {}

    def record(self, stamp: Stamp, pose: Array) -> None:
        """Store the measured pose (4, 4) of the first task's link."""
        self._trail.add(messages.seconds(messages.time_of(stamp)), pose)

    def forget_stream(self, task: str) -> None:
        """Start a new stream with the next pose, because another motion was commanded."""
        self._streams.pop(task, None)

    @property
    def reason(self) -> Reason | None:
        """Why SEVERAL chunks in a row came too late; None if they did not."""
        if len(self._over) < SEVERAL:
            return None
        age, horizon = (float(np.mean(x)) for x in zip(*(
            (one.age, one.horizon) for one in self._over)))
        return Reason('chunks', f'chunks come too late: the last {SEVERAL} came {age:.3g} s after '
                      f'their observations, and their poses end {horizon:.3g} s after them',
                      'a faster policy, or chunks that reach farther ahead')

    def values(self) -> Iterator[tuple[str, object]]:
        """Yield the keys and values of the diagnostics."""
        yield 'chunks', self._chunks
        yield 'late chunks', self._late
        yield 'age of the last chunk [s]', f'{self._age:.3f}'
        if (reason := self.reason) is not None:
            yield KEY + reason.name, reason

    def chunk(self, task: str, data: bytes) -> tuple[Array, Array, float]:
        """Return times (m,) [s], poses (m, 4, 4) and time of the observation [s] of a chunk."""
        now = self._loop.time
        found = messages.chunk(data, now, self._pose_at_observation(task))
        start_of(max(float(found[0][0]), now), now)
        return found

    def follow_chunk(self, task: str, times: Array, poses: Array, observed_at: float
                     ) -> tuple[Entry, float]:
        """Command a chunk, or raise InputError; return the motion into it and its lateness [s]."""
        start = self._loop.time + LEAD
        present = self._loop.read(requests.predicted_target, task, start)
        try:
            entry = chunk_entry(times, poses, observed_at, present, start, self.task(task).limits,
                                self._joining, 0.01 * self._loop.read(requests.speed_override))
        except LateChunkError as error:
            self._over = (*self._over, error)[-SEVERAL:]
            if self.reason is None:
                raise
            raise InputError(f'{error}; {self.reason}') from None
        self._over = ()
        self._loop.request(requests.follow, entry.path, start, task)
        self.forget_stream(task)
        end = self._ends.get(task, -np.inf)
        # late: the set-point has begun to slow down at the end of the previous chunk
        late = start - (end - self._joining.slow_down)
        late = late if late > 0.0 and start < end + NEW else 0.0
        self._ends[task] = float(entry.path.times[-1])
        self._chunks, self._late = self._chunks + 1, self._late + (late > 0.0)
        self._age = entry.age
        return entry, late

    def follow_stream(self, task: str, pose: Array, stamp: float) -> bool:
        """Follow a pose (4, 4) with a stamp [s]; False: the caller must make it a single goal."""
        now = self._loop.time
        if self._following.mode == 'stop' or stamp > now:
            self.forget_stream(task)
            return False
        limits, stream = self.task(task).limits, self._streams.setdefault(
            task, Stream(self._following))
        speed = 0.01 * self._loop.read(requests.speed_override)
        if not stream.add(stamp or now, limits.inside(pose), stamp > 0.0) or not speed:
            return False  # also for the first pose of a stream
        start = now + LEAD
        present = self._loop.read(requests.predicted_target, task, start)
        found = stream.continuation(present, start, limits, speed)
        try:
            self._loop.request(requests.follow, found.path, start, task)
        except InputError:  # the motion exceeds the limits or leaves the workspace box
            return False
        self._loop.request(requests.follow, found.hold, found.missing_at, task)
        return True

    def task(self, name: str) -> Task:
        """Return the settings of a task that apply from the next tick on."""
        return next(task for task in self._law.settings.tasks if task.name == name)

    def _pose_at_observation(self, task: str) -> Callable[[str, float], Array]:
        """Return a function for the pose of a frame at a time [s]; the past only of the tip's."""
        own = self._law.settings.tasks[0].link or self._law.robot.tip

        def found(frame: str, time: float) -> Array:
            if frame == own and task == self._first:
                return self._trail.at(time)
            return self._frame_pose(frame)

        return found
