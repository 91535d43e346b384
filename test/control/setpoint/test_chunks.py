# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Chunks and streams of poses: the target goes on without a stop, C², and slows down in time."""

import numpy as np
import pytest

from osc_ros.control.setpoint.chunks import chunk_entry, ChunkBlending, LEAD, Trail
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator
from osc_ros.control.setpoint.streams import Following, MISSING, Stream
from osc_ros.control.setpoint.trajectory import Path, PoseGoal, slowed_to_rest
from osc_ros.control.tasks.task import SLOWEST, Target, TargetLimits
from osc_ros.errors import InputError
from set_points import target_at

LIMITS = TargetLimits()
PERIOD = 0.002
SPEED, RADIUS = 0.2, 0.15
SKIPPING = ChunkBlending(late='skip')  # also the first chunk keeps its schedule


def on_circle(t, away=(0.0, 0.0, 0.0)):
    """Return the pose at a time on a circle that is passed at constant speed, turning about z."""
    angle = SPEED * t / RADIUS
    T = np.eye(4)
    T[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    T[:3, 3] = np.array([RADIUS * np.cos(angle), RADIUS * np.sin(angle), 0.4]) + away
    return T


def chunk(observed_at, away=(0.0, 0.0, 0.0), size=16):
    """Return times and poses of a chunk along the circle, at 10 Hz."""
    times = observed_at + 0.1 * np.arange(size)
    return times, np.array([on_circle(t, away) for t in times])


class Run:
    """A guide that is sampled in each period; `each(time, guide)` commands it."""

    def __init__(self, until, each):
        """Run from 0 to a time."""
        guide = SetPointGenerator(on_circle(0.0))
        self.times = np.arange(0.0, until, PERIOD)
        targets = []
        for time in self.times.tolist():
            each(time, guide)
            targets.append(target_at(guide, time, LIMITS))
            guide.plan()
        self.poses = np.array([target.pose for target in targets])
        self.twists = np.array([target.twist for target in targets])
        self.accelerations = np.array([target.acceleration for target in targets])

    def peak_jerk(self, since=0.0):
        """Return the largest jerk of the translation after a time [m/s³]."""
        jerks = np.diff(self.accelerations[:, 3:], axis=0) / PERIOD
        return np.linalg.norm(jerks[self.times[1:] > since], axis=1).max()

    def speeds(self, since=0.0, until=np.inf):
        """Return the speeds between two times [m/s]."""
        return np.linalg.norm(self.twists[(self.times > since) & (self.times < until), 3:], axis=1)


def sender(offset=0.0, last=np.inf, seed=0):
    """Return a function that sends a chunk each 0.8 s, observed 0.1 s before, each displaced."""
    rng, sent, entries = np.random.default_rng(seed), [0], []

    def each(time, guide):
        if time < 0.8 * sent[0] - 1e-9 or time > last:
            return
        sent[0] += 1
        away = rng.normal(size=3)
        away *= offset / np.linalg.norm(away)
        start = time + LEAD
        entry = chunk_entry(*chunk(time - 0.1, away), time - 0.1,
                            guide.predicted_target(start), start, LIMITS, SKIPPING)
        entries.append(entry)
        guide.add(entry.path, start)
    each.entries = entries
    return each


def test_target_keeps_its_speed_from_chunk_to_chunk():
    run = Run(5.0, sender())
    speeds = run.speeds(since=1.0)
    assert speeds.min() > 0.95 * SPEED and speeds.max() < 1.05 * SPEED
    assert run.peak_jerk(since=1.0) < 2.0
    late = run.times > 1.0
    wanted = np.array([on_circle(t) for t in run.times[late]])
    assert np.abs(run.poses[late] - wanted).max() < 1e-3


def test_chunks_that_are_displaced_are_joined_with_continuous_acceleration():
    run = Run(5.0, sender(offset=0.02))
    assert run.peak_jerk(since=1.0) < 12.5  # a quarter of the limit of the jerk
    assert np.abs(np.diff(run.poses[:, :3, 3], axis=0)).max() < 2.0 * SPEED * PERIOD
    spins = np.diff(run.accelerations[:, :3], axis=0) / PERIOD
    assert np.abs(spins[run.times[1:] > 1.0]).max() < 125.0


def test_offset_of_the_observation_is_cancelled_on_arrival_and_fades_out():
    away = (0.0, 0.0, 0.02)
    present = Target(on_circle(1.1))
    present.twist[2] = SPEED / RADIUS
    present.twist[3:5] = SPEED * on_circle(1.1)[:2, 1]
    entry = chunk_entry(*chunk(1.0, away), 1.0, present, 1.1, LIMITS, ChunkBlending(fade=0.6))
    np.testing.assert_array_equal(entry.path.at(1.1).pose, present.pose)
    np.testing.assert_allclose(entry.path.at(1.1).twist, present.twist, atol=1e-12)
    half, whole = entry.path.at(1.4).pose[2, 3], entry.path.at(1.7).pose[2, 3]
    np.testing.assert_allclose([half, whole], [0.41, 0.42], atol=1e-6)
    assert entry.fade == 0.6


def arch(observed_at, size=30):
    """Return times and poses of an arch of 100 mm, at 30 Hz."""
    poses = np.repeat(np.eye(4)[None], size, axis=0)
    poses[:, 2, 3] = 0.1 * np.sin(np.pi * np.arange(size) / (size - 1.0))
    return observed_at + np.arange(1.0, size + 1.0) / 30.0, poses


def test_late_chunk_of_an_arm_that_stands_begins_with_its_first_pose():
    def height(late, present=None):
        entry = chunk_entry(*arch(0.0), 0.0, present or Target(np.eye(4)), 0.7, TargetLimits(
            acceleration=(50.0, 50.0)), ChunkBlending(late=late))
        return entry, max(entry.path.at(t).pose[2, 3] for t in np.arange(0.7, 2.5, 0.01))

    entry, highest = height('wait')
    assert highest == pytest.approx(0.1, abs=0.01)
    assert entry.skipped == 0 and entry.delay == pytest.approx(0.7)
    assert height('skip')[0].skipped == 21
    with pytest.raises(InputError, match='21 of 30 poses are over'):
        height('refuse')
    moving = Target(np.eye(4), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.1]))
    assert height('wait', moving)[0].skipped == 21  # a motion in progress keeps its schedule


def test_chunk_that_begins_far_away_is_said_or_refused():
    times, poses = arch(0.0)
    poses[:, 0, 3] += 0.4
    entry = chunk_entry(times, poses, 0.0, Target(np.eye(4)), 0.0, LIMITS)
    assert '0.4 m' in entry.warning
    assert not chunk_entry(*arch(0.0), 0.0, Target(np.eye(4)), 0.0, LIMITS).warning
    with pytest.raises(InputError, match='begins 0.4 m'):
        chunk_entry(times, poses, 0.0, Target(np.eye(4)), 0.0, LIMITS,
                    ChunkBlending(approach='refuse'))
    for wrong in ({'late': 'never'}, {'approach': 'fly'}):
        with pytest.raises(InputError, match='must be one of'):
            ChunkBlending(**wrong)


@pytest.mark.parametrize('seed', range(3))
def test_slowest_limits_of_a_target_have_a_motion_and_slower_ones_are_refused(seed):
    rng = np.random.default_rng(seed)
    limits = TargetLimits(*(np.full(2, least * rng.choice([1.0, 1e3])) for least in SLOWEST))
    guide = SetPointGenerator(np.eye(4))
    for k in range(300):
        if k % 60 == 0:
            T = np.eye(4)
            T[:3, 3] = rng.uniform(-0.5, 0.5, 3)
            guide.add(PoseGoal(T), -np.inf)
        target_at(guide, k * PERIOD, limits)
    for name, least in zip(('speed', 'acceleration', 'jerk'), SLOWEST):
        with pytest.raises(InputError, match=rf'target\.{name}.*must be .*at least {least:g}'):
            TargetLimits(**{name: (1.0, 0.9 * least)})


@pytest.mark.parametrize('fade', [0.7, 3.75])
def test_offset_along_the_path_costs_speed_by_its_length_over_the_fade(fade):
    """The mean loss is d / T, the largest of a quintic 15/8 of it: 3.75 s are enough for 5 %."""
    times = np.arange(0.0, 8.0, 0.1)
    poses = np.repeat(np.eye(4)[None], len(times), axis=0)
    poses[:, 0, 3] = SPEED * times - 0.02
    present = Target(np.eye(4), np.array([0.0, 0.0, 0.0, SPEED, 0.0, 0.0]))
    path = chunk_entry(times, poses, 0.0, present, 0.0, LIMITS, ChunkBlending(fade)).path
    speeds = np.array([path.at(time).twist[3] for time in np.arange(0.0, fade, 0.01)])
    lost = 1.0 - speeds.min() / SPEED
    assert lost == pytest.approx(1.875 * 0.02 / (fade * SPEED), rel=0.01)


def test_long_fade_of_chunks_from_rest_leads_not_away():
    """A difference of velocity and acceleration that faded as slowly would lead metres away."""
    present = Target(on_circle(0.0))
    entry = chunk_entry(*chunk(0.0), 0.0, present, 0.05, LIMITS, ChunkBlending(fade=6.0))
    assert entry.fade == 6.0
    away = [np.linalg.norm(entry.path.at(t).pose[:3, 3] - on_circle(t)[:3, 3])
            for t in np.arange(0.05, 1.3, 0.05)]
    assert max(away) < 0.05


def test_last_chunk_ends_at_rest_at_its_last_pose_and_slows_down_in_time():
    each = sender(last=0.1)
    run = Run(3.0, each)
    path = each.entries[-1].path
    np.testing.assert_allclose(run.poses[-1], on_circle(1.4), atol=1e-9)
    assert not run.twists[-1].any()
    end = path.times[-1]
    assert end == pytest.approx(1.4 + 0.25)
    assert (np.diff(run.speeds(since=end - 0.45, until=end)) < 1e-6).all()
    assert run.peak_jerk(since=0.7) < 12.5


def test_slowing_down_stays_on_the_path():
    times, poses = chunk(0.0)
    path = slowed_to_rest(Path(times, poses, ends=(None, None)), 0.0, 0.5)
    for time in np.linspace(0.0, path.times[-1], 50):
        x, y = path.at(time).pose[:2, 3]
        assert np.hypot(x, y) == pytest.approx(RADIUS, abs=5e-4)


def test_late_chunk_enters_where_its_stamp_says():
    present = Target(on_circle(0.7))
    entry = chunk_entry(*chunk(0.0), 0.0, present, 0.75, LIMITS, SKIPPING)
    assert (entry.skipped, entry.age) == (8, 0.75)
    np.testing.assert_allclose(entry.path.at(1.5).pose[:3, 3],
                               slowed_course(0.0, 0.75).at(1.5).pose[:3, 3], atol=1e-9)
    assert '0.750 s after the observation, 8 poses' in str(entry)


def slowed_course(observed_at, start):
    times, poses = chunk(observed_at)
    return slowed_to_rest(Path(times, poses, ends=(None, None)), start, ChunkBlending().slow_down)


def test_fade_is_stretched_where_it_would_exceed_the_limits():
    away = (0.0, 0.0, 0.3)
    entry = chunk_entry(*chunk(0.0, away), 0.0, Target(on_circle(0.1)), 0.1, LIMITS,
                        ChunkBlending(fade=0.1))
    assert entry.fade > 0.1
    assert (entry.path.peaks <= np.array([LIMITS.speed, LIMITS.acceleration])).all()


@pytest.mark.parametrize('start, observed_at, text', [
    (9.0, 0.0, 'the chunk is over'), (0.5, 0.6, 'must be no later than now')])
def test_unusable_times_of_a_chunk_are_refused(start, observed_at, text):
    with pytest.raises(InputError, match=text):
        chunk_entry(*chunk(0.0), observed_at, Target(on_circle(0.0)), start, LIMITS)


def test_chunk_whose_times_run_backwards_is_refused():
    times, poses = chunk(0.0)
    with pytest.raises(InputError, match='increasing'):
        chunk_entry(times[::-1], poses, 0.0, Target(on_circle(0.0)), 0.1, LIMITS)


@pytest.mark.parametrize('given', [{'fade': 0.0}, {'slow_down': np.inf}])
def test_times_of_joining_are_checked(given):
    with pytest.raises(InputError, match='must be .*at least 0.02, at most 60'):
        ChunkBlending(**given)


def test_trail_interpolates_and_says_what_it_remembers():
    trail = Trail()
    with pytest.raises(InputError, match='those of none'):
        trail.at(0.0)
    for time in np.arange(0.0, 3.0, 0.02):
        trail.add(time, on_circle(time))
    np.testing.assert_allclose(trail.at(2.513), on_circle(2.513), atol=1e-4)
    np.testing.assert_array_equal(trail.at(9.0), on_circle(2.98))
    with pytest.raises(InputError, match=r'2\.00 s'):
        trail.at(0.5)
    trail.add(0.1, on_circle(0.1))
    assert trail.newest == 0.1


def stream_of(mode, rate, jitter=0.005, last=np.inf):
    """Return a function that sends poses at a rate [Hz], at times that differ by the jitter."""
    stream, rng, due = Stream(Following(mode)), np.random.default_rng(1), [0, 0.0]

    def each(time, guide):
        if time < due[1] or time > last:
            return
        pose, start = on_circle(due[0] / rate), time + LEAD
        due[0] += 1
        due[1] = due[0] / rate + rng.uniform(-jitter, jitter)
        if stream.add(time, pose):
            found = stream.continuation(guide.predicted_target(start), start, LIMITS)
            guide.add(found.path, start)
            guide.add(found.hold, found.missing_at)
        else:
            guide.add(PoseGoal(pose), time)
    each.stream = stream
    return each


@pytest.mark.parametrize('rate', [10.0, 30.0])
def test_target_follows_a_stream_one_period_behind_without_stops(rate):
    run = Run(6.0, stream_of('follow', rate))
    late = run.times > 1.5
    wanted = np.array([on_circle(t - 1.0 / rate)[:3, 3] for t in run.times])
    assert np.linalg.norm(run.poses[:, :3, 3] - wanted, axis=1)[late].max() < 8e-3
    assert run.speeds(since=1.5).min() > 0.8 * SPEED
    assert run.peak_jerk(since=1.5) < 12.5


def test_extrapolated_stream_does_not_lag_and_leads_little_on_a_curve():
    run = Run(4.0, stream_of('extrapolate', 10.0, jitter=0.0))
    angles = np.unwrap(np.arctan2(run.poses[:, 1, 3], run.poses[:, 0, 3]))
    lags = (run.times - angles * RADIUS / SPEED)[run.times > 1.5]
    assert lags.max() < 0.01 and lags.min() > -0.04
    radii = np.hypot(run.poses[:, 0, 3], run.poses[:, 1, 3])[run.times > 1.5]
    assert np.abs(radii - RADIUS).max() < 0.011


def test_target_stops_at_the_newest_pose_if_the_next_one_is_missing():
    each = stream_of('follow', 10.0, jitter=0.0, last=2.05)
    run = Run(4.0, each)
    np.testing.assert_allclose(run.poses[-1], on_circle(2.0), atol=1e-9)
    assert each.stream.period == pytest.approx(0.1, abs=2e-3)
    assert run.speeds(until=2.0 + 0.1 * MISSING)[-1] > 0.1


def test_jitter_of_the_arrival_of_a_stream_hardly_changes_the_motion():
    runs = [Run(5.0, stream_of('follow', 10.0, jitter=jitter)) for jitter in (0.0, 0.005)]
    calm, shaken = (run.peak_jerk(since=2.0) for run in runs)
    assert shaken < calm + 4.0 < 12.5  # a quarter of the limit of the jerk


@pytest.mark.parametrize('lost', [(), (9, 10, 17)])
def test_times_of_a_regular_sender_are_estimated_from_those_of_arrival(lost):
    stream, rng = Stream(Following('follow')), np.random.default_rng(3)
    sent = [0.1 * k for k in range(30) if k not in lost]
    for time in sent:
        stream.add(time + rng.uniform(-0.01, 0.01), on_circle(time))
    found = stream._regular_times()
    assert np.abs(found - sent[-len(found):]).max() < 0.004
    assert np.abs(np.array(stream._times) - found).max() > 0.006


def test_times_that_are_exact_or_irregular_stay_as_they_are():
    exact, irregular = Stream(Following('follow')), Stream(Following('follow'))
    times = np.cumsum(np.random.default_rng(4).uniform(0.05, 0.3, 20)).tolist()
    for k, time in enumerate(times):
        exact.add(0.1 * k + 0.01 * (k % 2), on_circle(time), is_exact=True)
        irregular.add(time, on_circle(time))
    for stream in (exact, irregular):
        assert stream._regular_times().tolist() == list(stream._times)


def test_poses_that_come_seldom_are_no_stream():
    stream = Stream(Following('follow'))
    assert [stream.add(t, on_circle(t)) for t in (0.0, 0.1, 1.0, 0.9, 1.0)] == [
        False, True, False, False, True]


@pytest.mark.parametrize('given, text', [
    ({'mode': 'jump'}, 'stop, follow, extrapolate'), ({'horizon': -1.0}, 'at least 0.05')])
def test_settings_of_streams_are_checked(given, text):
    with pytest.raises(InputError, match=text):
        Following(**given)
