# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The speed override: every motion keeps its way, in slower time, whatever changes meanwhile."""

from dataclasses import replace

import numpy as np
import pytest

from common import naming
from osc_ros import InputError, Law, Robot
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.setpoint.chunks import chunk_entry, ChunkBlending
from osc_ros.control.setpoint.motion import SLOWEST_STOP
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator, STOP, TwistGoal
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.tasks.task import Target, TargetLimits
from set_points import target_at
from shipped import ends, urdf

PERIOD = 0.002  # [s]
LIMITS = TargetLimits()


def shifted(x=0.0, y=0.0):
    T = np.eye(4)
    T[:2, 3] = x, y
    return T


class Guide:
    """A set-point generator, and its targets at all ticks."""

    def __init__(self):
        self.guide, self.time, self.rows = SetPointGenerator(np.eye(4)), 0.0, []
        self.guide.keep_within(LIMITS)

    def run(self, duration, speed):
        """Run for a time [s] with a speed override, 0 to 1, or a function of the time."""
        for _ in range(round(duration / PERIOD)):
            now = speed(self.time) if callable(speed) else speed
            target = target_at(self.guide, self.time, LIMITS, speed=now)
            self.rows.append((self.time, *target.pose[:2, 3], *target.twist[3:5],
                              *target.acceleration[3:5]))
            self.time += PERIOD
        return np.array(self.rows)


def circle(start):
    times = np.linspace(0.0, 4.0, 41)
    angle = 2.0 * np.pi * (times / 4.0) ** 2 * (3.0 - times / 2.0)
    return Path(start + times, [shifted(0.1 * np.sin(a), 0.1 - 0.1 * np.cos(a)) for a in angle])


MOTIONS = {'pose': lambda now: PoseGoal(shifted(0.4)), 'path': circle,
           'twist': lambda now: TwistGoal([0.0, 0.0, 0.0, 0.3, 0.1, 0.0], np.inf)}


def require_smooth(rows):
    """Velocity and acceleration are the derivatives; the limits of the target hold."""
    _, x, y, vx, vy, ax, ay = rows.T
    assert np.hypot(vx, vy).max() <= 1.001 * LIMITS.speed[1]
    assert np.hypot(ax, ay).max() <= 1.6 * LIMITS.acceleration[1]
    for a, b in ((x, vx), (y, vy), (vx, ax), (vy, ay)):
        assert np.gradient(a, PERIOD)[2:-2] == pytest.approx(b[2:-2], abs=0.06)
    for a in (ax, ay):  # no steps: at most four times the jerk limit
        assert np.abs(np.diff(a)).max() <= 4.0 * LIMITS.jerk[1] * PERIOD


@pytest.mark.parametrize('motion', MOTIONS)
def test_motion_has_the_same_way_in_slower_time(motion):
    full, slow = Guide(), Guide()
    for one in full, slow:
        one.run(0.1, 1.0 if one is full else 0.2)
        one.guide.add(MOTIONS[motion](one.time), one.time)
    fast, tenth = full.run(1.0, 1.0), slow.run(5.0, 0.2)
    k = np.arange(60, len(fast))
    there = 50 + 5 * (k - 50) + 2  # the motion begins between two ticks
    for column in 1, 2:
        assert tenth[there, column] == pytest.approx(fast[k, column], abs=2.5e-3)
        assert tenth[there, 2 + column] == pytest.approx(0.2 * fast[k, 2 + column], abs=3e-3)
    require_smooth(tenth)


@pytest.mark.parametrize('motion', MOTIONS)
@pytest.mark.parametrize('seed', range(3))
def test_change_within_a_change_is_smooth(motion, seed):
    random = np.random.default_rng(seed)
    changes = [(0.0, 1.0)]
    while changes[-1][0] < 6.0:
        changes.append((changes[-1][0] + random.choice([0.004, 0.05, 0.3]),
                        random.choice([0.0, 0.1, 1.0, random.random()])))
    times, speeds = np.array(changes).T
    guide = Guide()
    guide.run(0.1, 1.0)
    guide.guide.add(MOTIONS[motion](guide.time), guide.time)
    require_smooth(guide.run(6.0, lambda now: speeds[np.searchsorted(times, now, 'right') - 1]))


def test_zero_holds_and_the_motion_goes_on_afterwards():
    guide = Guide()
    guide.run(0.1, 1.0)
    guide.guide.add(PoseGoal(shifted(0.4)), guide.time)
    guide.run(0.25, 1.0)
    guide.run(4.5, 0.0)
    held = guide.run(1.0, 0.0)[-500:, 1]
    assert np.ptp(held) == 0.0
    assert 0.05 < held[0] < 0.39
    assert guide.run(2.0, 1.0)[-1, 1] == pytest.approx(0.4)


def test_new_goal_at_zero_does_not_go_on_in_the_old_direction():
    guide = Guide()
    guide.run(0.1, 1.0)
    guide.guide.add(PoseGoal(shifted(0.4)), guide.time)
    guide.run(0.25, 1.0)
    most = guide.run(4.0, 0.0)[-1, 1]
    guide.guide.add(PoseGoal(shifted(-0.1)), guide.time)
    guide.run(0.1, 0.0)
    rows = guide.run(3.0, 1.0)
    assert rows[:, 1].max() <= most + 1e-6
    assert rows[-1, 1] == pytest.approx(-0.1)
    require_smooth(rows)


@pytest.mark.parametrize('speed', (1.0, 0.3, 0.1, 0.02))
def test_stop_is_as_short_as_the_acceleration_limit_allows(speed):
    guide = Guide()
    guide.guide.add(TwistGoal([0.0, 0.0, 0.0, 1.0, 0.0, 0.0], np.inf), 0.0)
    guide.run(0.5 / speed, speed)
    guide.guide.add(STOP, guide.time)
    before = guide.rows[-1]
    rows = guide.run(1.0, speed)
    v = max(before[3], 0.01)
    way, least = rows[-1, 1] - before[1], v ** 2 / (2.0 * LIMITS.acceleration[1])
    assert way <= max(2.0 * least + v * np.sqrt(v / LIMITS.jerk[1]) + 2.0 * PERIOD * v,
                      5e-3 if speed < SLOWEST_STOP else 0.0)
    assert rows[-1, 3] == pytest.approx(0.0, abs=1e-9)
    require_smooth(rows)


def test_goal_during_a_stop_is_slow_too():
    """A hold brakes at full rate; the next motion must not begin at full speed."""
    guide = Guide()
    guide.guide = SetPointGenerator.coasting(np.eye(4), np.array([0, 0, 0, 0.01, 0, 0.0]),
                                             5.0, guide.guide)
    guide.run(0.01, 0.1)
    before = guide.guide
    before.records[1].now = guide.time
    guide.guide = SetPointGenerator.coasting(np.eye(4), np.array([0, 0, 0, 0.01, 0, 0.0]),
                                             5.0, before)
    guide.guide.keep_within(LIMITS)
    guide.run(0.02, 0.1)
    guide.guide.add(PoseGoal(shifted(0.4)), guide.time)
    rows = guide.run(3.0, 0.1)
    assert rows[:, 3].max() <= 0.1 * LIMITS.speed[1] + 1e-6


def test_slow_stream_of_poses_is_followed_and_a_fast_one_has_the_reduced_speed():
    def lag(speed):
        guide = Guide()
        while guide.time < 3.0:
            guide.guide.add(PoseGoal(shifted(speed * guide.time)), guide.time)
            rows = guide.run(0.02, 0.2)
        assert np.abs(rows[:, 3]).max() <= 0.2 * LIMITS.speed[1] * 1.01
        return speed * rows[500::500, 0] - rows[500::500, 1]

    slow = lag(0.1)
    assert slow.max() < 0.07 and np.diff(slow).max() < 0.0  # and does not grow
    assert np.diff(lag(0.5)).min() > 0.2


def test_chunk_at_a_lower_speed_skips_fewer_poses():
    times = np.arange(1, 11) * 0.1
    poses = np.array([shifted(0.1 * t) for t in times])
    rest = Target(np.eye(4))
    full, slow = (chunk_entry(1.0 + times, poses, 1.0, rest, 1.35, LIMITS,
                              ChunkBlending(late='skip'), speed) for speed in (1.0, 0.1))
    assert (full.skipped, slow.skipped) == (3, 0)
    assert slow.path.times[-1] > full.path.times[-1] + 0.3


def test_override_outside_of_its_range_is_refused_with_what_to_give():
    law = Law(Robot.from_urdf(urdf('panda'), *ends('panda')))
    for given, texts in ((-1.0, ('0 to 100',)), (101.0, ('0 to 100',)), (0.1, ('give 10',)),
                         (np.nan, ('0 to 100',)), ('fast', ('number',))):
        with pytest.raises(InputError, match=naming('speed override', *texts)):
            law.speed_override = given
    assert law.speed_override == 100.0


def test_override_lasts_beyond_hold_and_change_and_is_in_a_copy():
    law = Law(Robot.from_urdf(urdf('panda'), *ends('panda')))
    q = law.posture
    law.hold(q)
    law.speed_override = 30.0
    law.hold(q)
    law.change(replace(law.settings, joints=JointDrive()))
    assert law.speed_override == law.copied().speed_override == 30.0
    assert law.lasts(3.0) == pytest.approx(10.0)
    law.speed_override = 0.0
    assert law.lasts(3.0) == np.inf
