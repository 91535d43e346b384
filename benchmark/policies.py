# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Chunks and streams of poses in MuJoCo: jerk, dips of speed, lag and error, by way of following.

`python benchmark/policies.py [--write]` prints the tables of doc/policies.md, or writes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
import re
from typing import NamedTuple

import numpy as np

from osc_ros import Law, PoseGoal, Robot, shipped_urdf, Simulation
from osc_ros.client.robots import SHIPPED
from osc_ros.control.setpoint.chunks import ChunkBlending, LEAD
from osc_ros.control.setpoint.streams import Following, Stream
from osc_ros.control.tasks.task import Target
from osc_ros.errors import InputError

SPEED, RADIUS = 0.2, 0.15  # of the circle [m/s], [m]
LENGTH, SETTLED = 12.0, 2.4  # of a run, and of its part that does not count [s]
RATE, HORIZON, EVERY, OLD = 10.0, 16, 0.8, 0.1  # of chunks: Hz, poses, s, s
FADES, LONG = (0.7, 1.0, 1.5, 2.0, 3.0, 4.0), 32.0  # [s], and length of their runs [s]
JITTER = 0.005  # of the times of a stream [s]
LARGEST_LAG = 0.4  # at which the error is searched [s]
PAGE = Path(__file__).parents[1] / 'doc' / 'policies.md'


class Figures(NamedTuple):
    """Results of a run: of the set-point, and of the tip in MuJoCo (`tip`, `error`)."""

    jerk: float  # [m/s³]
    acceleration: float  # [m/s²]
    dip: float  # largest loss of speed, relative to SPEED
    tip: float  # the same of the tip
    lag: float  # with the least error [s]
    error: float  # RMS distance of the tip from the course, that much later [m]


class Circle:
    """A course that is passed at constant speed; `turns` about its tangent as a wrist does."""

    name = 'circle at 0.2 m/s'

    def __init__(self, start):
        """Begin at a pose (4, 4)."""
        self.start = start

    def pose(self, time):
        """Return the pose (4, 4) at a time [s]."""
        T, angle = self.start.copy(), SPEED * time / RADIUS
        T[1, 3] += RADIUS * np.sin(angle)
        T[2, 3] += RADIUS * (1.0 - np.cos(angle))
        return T


class Wandering(Circle):
    """A course with changes of direction and speed: sums of sines below 0.6 Hz, 8 cm wide."""

    name = 'wandering course'

    def __init__(self, start):
        """Draw the sines, with a seed."""
        super().__init__(start)
        rng = np.random.default_rng(20)
        self.rates = 2.0 * np.pi * rng.uniform(0.05, 0.6, (3, 4))
        self.sizes = 0.08 / (1.0 + self.rates) * rng.uniform(0.5, 1.0, (3, 4))
        self.phases = rng.uniform(0.0, 2.0 * np.pi, (3, 4))

    def pose(self, time):
        """Return the pose (4, 4) at a time [s]."""
        T = self.start.copy()
        T[:3, 3] += (self.sizes * (np.sin(self.rates * time + self.phases)
                                   - np.sin(self.phases))).sum(axis=1)
        return T


# ways to follow: each is called with the law, the present time and the poses that come


class Chunks:
    """Our way with chunks."""

    def chunk(self, law, now, observed_at, times, poses):
        """Follow a chunk."""
        law.follow_chunk(times, poses, now, observed_at)


class Faded(Chunks):
    """The same with another time of the fade."""

    def __init__(self, fade):
        """Set the time [s]."""
        self.joining = ChunkBlending(fade)

    def chunk(self, law, now, observed_at, times, poses):
        """Follow a chunk."""
        law.follow_chunk(times, poses, now, observed_at, self.joining)


class StopAtEachEnd:
    """(i) Each chunk is a trajectory from rest to rest; each pose of a stream is a goal."""

    def chunk(self, law, now, observed_at, times, poses):
        """Begin the chunk at its first pose whose time has not passed."""
        left = times > now
        try:
            law.follow(law.path(times[left], poses[left]))
        except InputError:
            law.follow(PoseGoal(poses[-1]))

    def pose(self, law, now, pose):
        """Go to the pose."""
        law.follow(PoseGoal(pose))


class Sampled:
    """Set-points computed in each period from the poses, without a limit of their jerk."""

    def __init__(self, lag):
        """Set the lag [s]."""
        self.lag, self.times, self.poses = lag, [], []
        self.present = None

    def chunk(self, law, now, observed_at, times, poses):
        """Replace what remains of the chunk before."""
        keep = [k for k, time in enumerate(self.times) if time <= now]
        self.times = [self.times[k] for k in keep] + times[times > now].tolist()
        self.poses = [self.poses[k] for k in keep] + list(poses[times > now])

    def pose(self, law, now, pose):
        """Add a pose."""
        self.times.append(now)
        self.poses.append(pose)

    def wanted(self, time):
        """Return the position (3,) of the poses at a time [s]."""
        raise NotImplementedError

    def at(self, law, time, period):
        """Return the position of the set-point (3,), and command it."""
        raise NotImplementedError


class Linear(Sampled):
    """(iii) Linear interpolation between the poses."""

    def position(self, time, period):
        """Return the position (3,) of the set-point."""
        wanted = time - self.lag
        k = int(np.searchsorted(self.times, wanted, side='right')) - 1
        if k < 0 or k + 1 >= len(self.times):
            return self.poses[min(max(k, 0), len(self.poses) - 1)][:3, 3]
        share = (wanted - self.times[k]) / (self.times[k + 1] - self.times[k])
        return (1.0 - share) * self.poses[k][:3, 3] + share * self.poses[k + 1][:3, 3]


class Smoothed(Sampled):
    """(ii) Exponential smoothing of the newest pose, with the lag as its time constant."""

    def position(self, time, period):
        """Return the position (3,) of the set-point."""
        k = max(int(np.searchsorted(self.times, time, side='right')) - 1, 0)
        goal = self.poses[k][:3, 3]
        if self.present is None:
            self.present = goal
        self.present = self.present + period / (self.lag + period) * (goal - self.present)
        return self.present


class Streamed:
    """Our way with streams."""

    def __init__(self, mode):
        """Set the mode of `Following`."""
        self.stream = Stream(Following(mode))

    def pose(self, law, now, pose):
        """Follow the pose."""
        if not self.stream.add(now, pose):
            law.follow(PoseGoal(pose))
            return
        start = now + LEAD
        present = law.levels['tip'].generator.predicted_target(start)
        found = self.stream.continuation(present, start, law.settings.tasks[0].limits)
        law.follow(found.path, start)
        law.follow(found.hold, found.missing_at)


class Sampler:
    """Takes the place of a guide whose target is a position for each period, as it comes."""

    def __init__(self, way, start, period):
        """Begin at a pose (4, 4)."""
        self.way, self.target, self.period = way, Target(start.copy()), period
        self.waits = self.clamped = False

    def put(self, time, limits, error, row):
        """Write the target at a time [s], with its difference quotient as velocity."""
        pose = self.target.pose.copy()
        if self.way.poses:
            pose[:3, 3] = self.way.position(time, self.period)
        twist, acceleration = np.zeros(6), np.zeros(6)
        twist[3:] = (pose[:3, 3] - self.target.pose[:3, 3]) / self.period
        self.target = Target(pose, twist, acceleration)
        row[:28] = (*pose.flat, *twist, *acceleration)

    def plan(self):
        """Do nothing: nothing is planned."""


def chunks_of(course, offset, seed=0, length=LENGTH) -> Iterator[tuple[float, Callable]]:
    """Yield the times of chunks, and functions that pass each chunk to a way."""
    rng = np.random.default_rng(seed)
    for k in range(int(length / EVERY)):
        now = EVERY * k
        away = rng.normal(size=3)
        away *= offset * rng.uniform(0.5, 1.0) / np.linalg.norm(away)
        times = now - OLD + np.arange(HORIZON) / RATE
        poses = np.array([course.pose(max(time, 0.0)) for time in times])
        poses[:, :3, 3] += away
        yield now, (lambda way, law, t, times=times, poses=poses:
                    way.chunk(law, t, times[0], times, poses))


def poses_of(course, rate, seed=0) -> Iterator[tuple[float, Callable]]:
    """Yield the times of single poses, which vary by JITTER, and what passes each to a way."""
    rng = np.random.default_rng(seed)
    for k in range(int(LENGTH * rate)):
        pose = course.pose(k / rate)
        yield max(0.0, k / rate + rng.uniform(-JITTER, JITTER)), (
            lambda way, law, t, pose=pose: way.pose(law, t, pose))


def run(way, kind, events, length=LENGTH, settled=SETTLED) -> Figures:
    """Return the figures of a way to follow the messages of a course, from `settled` on [s]."""
    urdf, panda = shipped_urdf('panda'), SHIPPED['panda']
    law = Law(Robot.from_urdf(urdf, panda.base, panda.tip))
    arm = Simulation(urdf, law, panda.home)
    course = kind(arm.pose())
    if isinstance(way, Sampled):
        law.levels['tip'].generator = Sampler(way, arm.pose(), arm.period)
    coming = list(events(course))
    times, tips, targets, speeds, accelerations = [], [], [], [], []
    while arm.time < length - 0.5 * arm.period:
        while coming and coming[0][0] <= arm.time + 1e-9:
            coming.pop(0)[1](way, law, arm.time)
        times.append(arm.time)
        tips.append(arm.pose()[:3, 3])
        arm.step()
        targets.append(law.target.pose[:3, 3].copy())
        speeds.append(law.target.twist[3:].copy())
        accelerations.append(law.target.acceleration[3:].copy())
    times = np.array(times)
    return figures(kind, course, (times, times > settled), np.array(tips), np.array(targets),
                   None if isinstance(way, Sampled) else (np.array(speeds),
                                                          np.array(accelerations)))


def figures(kind, course, clock, tips, targets, exact) -> Figures:
    """Return the figures of a run; differences of the set-point where it has no derivatives."""
    times, late = clock
    dt = times[1] - times[0]
    speeds, accelerations = exact or (np.gradient(targets, dt, axis=0),) * 2
    if exact is None:
        accelerations = np.gradient(speeds, dt, axis=0)
    jerks = np.diff(accelerations, axis=0) / dt

    def largest(rows):
        return np.linalg.norm(rows, axis=1)[late[-len(rows):]].max()

    wanted = np.linalg.norm(np.gradient(np.array([course.pose(t)[:3, 3] for t in times]), dt,
                                        axis=0), axis=1)

    def dip(speed):
        return max(0.0, ((wanted - np.linalg.norm(speed, axis=1)) / SPEED)[late].max())

    errors = []
    for lag in np.arange(0.0, LARGEST_LAG, 0.004):
        there = np.array([course.pose(max(t - lag, 0.0))[:3, 3] for t in times[late][::5]])
        errors.append((np.sqrt(np.mean(np.sum((tips[late][::5] - there) ** 2, axis=1))), lag))
    error, lag = min(errors)
    circle = kind is Circle
    return Figures(largest(jerks), largest(accelerations), dip(speeds) if circle else np.nan,
                   dip(np.gradient(tips, dt, axis=0)) if circle else np.nan, lag, error)


def rows() -> Iterator[tuple[str, str, Figures]]:
    """Yield input, way and figures."""
    for kind in (Circle, Wandering):
        for offset in (0.0, 0.02):
            name = f'chunks, {kind.name}, offsets up to {100 * offset:g} cm'
            for way, label in ((Chunks(), '`~/target_chunk`'),
                               (StopAtEachEnd(), '(i) stop at each end'),
                               (Smoothed(0.1), '(ii) exponential smoothing'),
                               (Linear(0.0), '(iii) linear interpolation')):
                yield name, label, run(way, kind, lambda course, offset=offset: chunks_of(
                    course, offset))
        for rate in (10.0, 30.0):
            name = f'poses at {rate:g} Hz, {kind.name}, 5 ms of jitter'
            for way, label in ((Streamed('follow'), '`target.stream: follow`'),
                               (Streamed('extrapolate'), '`target.stream: extrapolate`'),
                               (StopAtEachEnd(), '(i) stop at each end, `stop`'),
                               (Smoothed(1.0 / rate), '(ii) exponential smoothing'),
                               (Linear(1.0 / rate), '(iii) linear interpolation')):
                yield name, label, run(way, kind, lambda course, rate=rate: poses_of(
                    course, rate))


def table() -> str:
    """Return the table of all runs."""
    lines = ['| input | way | peak jerk [m/s³] | peak acceleration [m/s²] | dip of the set-point '
             '| dip of the tip | lag [ms] | error at this lag, RMS [mm] |',
             '|---|---|---|---|---|---|---|---|']
    before = ''
    for name, way, found in rows():
        dips = [f'{100 * dip:.1f} %' if np.isfinite(dip) else '–' for dip in found[2:4]]
        lines.append(f"| {name if name != before else ''} | {way} | {found.jerk:.3g} | "
                     f'{found.acceleration:.3g} | {dips[0]} | {dips[1]} | {1e3 * found.lag:.0f} | '
                     f'{1e3 * found.error:.2f} |')
        before = name
        print(lines[-1], flush=True)
    return '\n'.join(lines)


def fades() -> str:
    """Return the table of the times of the fade, with offsets up to 2 cm."""
    lines = ['| `target.chunk_fade` [s] | dip of the set-point | peak jerk [m/s³] '
             '| error, RMS [mm] |', '|---|---|---|---|']
    for fade in FADES:
        found = run(Faded(fade), Circle, lambda course: chunks_of(course, 0.02, length=LONG), LONG,
                    0.5 * LONG)
        lines.append(f'| {fade:g} | {100 * found.dip:.1f} % | {found.jerk:.2f} | '
                     f'{1e3 * found.error:.1f} |')
        print(lines[-1], flush=True)
    return '\n'.join(lines)


def main() -> None:
    """Print the table, or write it to doc/policies.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--write', action='store_true', help=f'write the table to {PAGE.name}')
    is_written = parser.parse_args().write
    for name, found in (('table', table()), ('fades', fades())):
        if is_written:
            text = PAGE.read_text(encoding='utf-8')
            PAGE.write_text(re.sub(rf'(?s)(<!-- {name} -->\n).*?(\n<!-- end -->)',
                                   lambda match, found=found: match[1] + found + match[2], text),
                            encoding='utf-8')


if __name__ == '__main__':
    main()
