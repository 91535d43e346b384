# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The target of a task is C², keeps its limits and arrives at its goal."""

import os
import sys

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from osc_ros.control.setpoint.motion import put_target, RATE
from osc_ros.control.setpoint.set_point_generator import (
    rehearse,
    SetPointGenerator,
    STOP,
    TwistGoal,
)
from osc_ros.control.setpoint.trajectory import (
    figure_of_eight,
    Path,
    path_through,
    path_within,
    PoseGoal,
)
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import TargetLimits
from osc_ros.errors import InputError
from set_points import target_at
from tolerances import (
    GUIDE_LIMIT,
    GUIDE_LIMIT_MOVING,
    GUIDE_RATE,
    GUIDE_RATE_TAKEN_OVER,
    PATH_KNOT,
)
from variants import first_quick

LIMITS = TargetLimits()
BOX = TargetLimits(box=[[0.1, -0.3, 0.2], [0.6, 0.3, 0.8]])
DT = 1e-3  # [s]
WITHIN = 1.01  # bound of `assert_smooth` for a jerk within its limit, up to rounding


def at(position=(0.3, 0.0, 0.5), turn=(np.pi, 0.0, 0.0)):
    """Return the pose with a position [m] and a rotation vector [rad]."""
    T = np.eye(4)
    T[:3, :3] = Rotation.from_rotvec(turn).as_matrix()
    T[:3, 3] = position
    return T


START = at()


class Led:
    """A guide, and a record of the targets that it returned."""

    def __init__(self, limits=LIMITS, pose=START, clock=0.0):
        """Begin at rest."""
        self.guide, self.limits, self.time = SetPointGenerator(pose), limits, clock
        self.times, self.seen = [], []

    def run(self, seconds, error=None):
        """Run for some seconds; `error(target)` returns the pose error of the arm."""
        for _ in range(round(seconds / DT)):
            self.time += DT
            lag = None if error is None else error(self.guide.target)
            self.times.append(self.time)
            self.seen.append(target_at(self.guide, self.time, self.limits, lag))
        return self

    def follow(self, motion):
        """Command a motion at the present time."""
        self.guide.add(motion, self.time)
        return self

    @property
    def twists(self):
        """Recorded twists (k, 6)."""
        return np.array([target.twist for target in self.seen])

    @property
    def accelerations(self):
        """Recorded accelerations (k, 6)."""
        return np.array([target.acceleration for target in self.seen])

    @property
    def positions(self):
        """Recorded positions (k, 3)."""
        return np.array([target.pose[:3, 3] for target in self.seen])

    def shares(self):
        """Return peak / limit: [speed, acceleration] by [rotation, translation], (2, 2)."""
        return np.array([[np.linalg.norm(rates[:, part], axis=1).max() / limit
                          for part, limit in zip((slice(0, 3), slice(3, 6)), limits)]
                         for rates, limits in ((self.twists, self.limits.speed),
                                               (self.accelerations, self.limits.acceleration))])

    def assert_smooth(self, jerk=2.0, rate=GUIDE_RATE):
        """Require consistent derivatives, and changes of acceleration within the jerk limit."""
        twists, accelerations = self.twists, self.accelerations
        turned = np.array([pose_error(before.pose, after.pose) / (2.0 * DT)
                           for before, after in zip(self.seen, self.seen[2:])])
        assert np.abs(turned - twists[1:-1]).max() < rate
        bent = (twists[2:] - twists[:-2]) / (2.0 * DT)
        most = np.repeat(self.limits.jerk, 3)
        # where the jerk jumps, a difference quotient is wrong by up to half the change per step
        assert (np.abs(bent - accelerations[1:-1]) < jerk * DT * most).all()
        assert (np.abs(np.diff(accelerations, axis=0)) < jerk * DT * most).all()


class LedAhead(Led):
    """The target goes on while its motions are planned, for a time that is still ahead then."""

    def __init__(self, limits, random, changes_speed=False):
        super().__init__(limits)
        self.random, self.draft, self.ticks, self.changes_speed = random, None, 0, changes_speed
        self.used, self.in_vain, self.speed = 0, 0, 1.0
        self.guide.keep_within(limits)

    def run(self, seconds, error=None):
        for _ in range(round(seconds / DT)):
            if self.changes_speed and self.random.random() < 0.005:
                self.speed = self.random.choice([0.0, 0.1, 0.5, 0.8, 1.0])
            self.time += DT
            put_target(*self.guide.records, np.zeros(6), self.time, self.speed)
            self.times.append(self.time)
            self.seen.append(self.guide.target)
            if self.draft is None:
                self.ticks = int(self.random.integers(8))
                self.draft = self.guide.draft(0.005)
            elif self.ticks == 0:
                is_used, self.draft = self.draft.put(), None
                self.used, self.in_vain = self.used + is_used, 0 if is_used else self.in_vain + 1
                if self.in_vain > 2:
                    self.guide.plan()
            else:
                self.ticks -= 1
        return self


def random_motion(random, led):
    """Return a random motion: a pose, a twist, or a path near the target that begins later."""
    kind, now = random.integers(4), led.time
    if kind == 0:
        return PoseGoal(at(random.uniform([0.1, -0.3, 0.2], [0.6, 0.3, 0.8]),
                       1.5 * random.normal(size=3)))
    if kind == 1:
        return TwistGoal(random.normal(size=6) * np.repeat([0.8, 0.4], 3),
                         now + random.uniform(0, 0.5))
    times = now + random.uniform(0.0, 0.3) + np.cumsum(random.uniform(0.3, 0.6, 4))
    around = led.guide.target.pose[:3, 3]
    poses = [at(around + 0.05 * random.normal(size=3), 0.2 * random.normal(size=3))
             for _ in times]
    if kind == 2:
        return Path(times, poses)
    return Path(times, poses, 0.1 * random.normal(size=(4, 6)), 0.1 * random.normal(size=(4, 6)))


@pytest.mark.parametrize('limits', [LIMITS, BOX], ids=['no box', 'box'])
@pytest.mark.parametrize('seed', first_quick(range(4)))
def test_target_is_twice_continuous_whatever_comes_whenever(seed, limits):
    random, led = np.random.default_rng(seed), Led(limits)
    while led.time < 3.0:
        led.follow(random_motion(random, led)).run(random.uniform(0.0, 0.5))
    led.assert_smooth()


@pytest.mark.parametrize('changes_speed', [False, True], ids=['', 'speed override'])
@pytest.mark.parametrize('seed', first_quick(range(6), 2))
def test_target_that_goes_on_while_its_motions_are_planned_is_twice_continuous(
        seed, changes_speed):
    random = np.random.default_rng(seed)
    led = LedAhead(LIMITS, random, changes_speed)
    while led.time < 3.0:
        led.follow(random_motion(random, led)).run(random.uniform(0.0, 0.5))
    led.assert_smooth(rate=GUIDE_RATE_TAKEN_OVER if changes_speed else GUIDE_RATE)
    assert led.used > 5


@pytest.mark.parametrize('seed', first_quick(range(6), 2))
def test_targets_anywhere_at_any_time_keep_the_limits(seed):
    random, led = np.random.default_rng(seed), Led(BOX)
    while led.time < 3.0:
        led.follow(PoseGoal(at(random.uniform([0.1, -0.3, 0.2], [0.6, 0.3, 0.8]),
                           random.normal(size=3)))).run(random.uniform(0.02, 0.6))
    assert led.shares().max() < GUIDE_LIMIT
    assert led.shares()[:, 1].max() < GUIDE_LIMIT_MOVING
    assert (led.positions >= BOX.box[0] - PATH_KNOT).all()
    assert (led.positions <= BOX.box[1] + PATH_KNOT).all()
    led.assert_smooth()


def test_target_from_rest_goes_straight_at_the_limits_and_not_beyond():
    goal = at((0.6, -0.5, 0.6), (2.8, 0.4, -0.3))
    led = Led().follow(PoseGoal(goal)).run(2.0)
    assert led.shares().max() < 1.0 + PATH_KNOT
    assert led.shares().max() > 0.99
    way = goal[:3, 3] - START[:3, 3]
    off = np.cross(led.positions - START[:3, 3], way / np.linalg.norm(way))
    assert np.abs(off).max() < PATH_KNOT
    np.testing.assert_allclose(led.guide.target.pose, goal, atol=PATH_KNOT)
    assert not led.twists[-1].any() and not led.accelerations[-1].any()


@pytest.mark.parametrize('turn', [(0.0, 0.0, np.pi), (np.pi, 0.0, 0.0), (0.0, 0.0, 3.1),
                                  (0.0, 0.0, -3.1), (1.8, -1.8, 1.8)])
def test_half_turns_and_more_are_made_the_short_way(turn):
    goal = at(START[:3, 3], turn)
    goal[:3, :3] = goal[:3, :3] @ START[:3, :3]
    led = Led().follow(PoseGoal(goal)).run(3.0)
    led.assert_smooth()
    np.testing.assert_allclose(led.guide.target.pose, goal, atol=PATH_KNOT)
    turned = np.trapezoid(np.linalg.norm(led.twists[:, :3], axis=1), dx=DT)
    assert turned < np.pi + 1e-3


def test_opposite_quaternions_ask_for_the_same():
    from osc_ros.control.tasks.task import pose
    q = Rotation.from_rotvec([0.3, 2.0, -0.4]).as_quat()
    one, other = (Led().follow(PoseGoal(pose((0.4, 0.1, 0.5), sign * q))).run(0.3)
                  for sign in (1.0, -1.0))
    np.testing.assert_array_equal(one.twists, other.twists)


def test_pose_with_a_time_of_arrival_is_reached_then_and_not_before():
    led = Led().follow(PoseGoal(at((0.35, 0.1, 0.5)), arrival=2.0)).run(1.9)
    assert led.seen[-1].twist.any()
    led.run(0.1 + 2 * DT)
    np.testing.assert_allclose(led.guide.target.pose, at((0.35, 0.1, 0.5)), atol=PATH_KNOT)
    led.assert_smooth()


def test_path_from_where_the_target_is_is_the_target_exactly():
    path = figure_of_eight(START, 0.3, 0.15, 4.0, 1.0, 0.1)
    led = Led().follow(path).run(5.2)
    for k in range(0, len(led.seen), 50):
        wanted = path.at(led.times[k])
        np.testing.assert_allclose(led.seen[k].pose, wanted.pose, atol=PATH_KNOT)
        np.testing.assert_allclose(led.seen[k].twist, wanted.twist, atol=PATH_KNOT)


def test_path_that_is_under_way_is_caught_up_with():
    path = figure_of_eight(at((0.4, 0.1, 0.6)), 0.3, 0.15, 4.0, 1.0, -1.0)
    led = Led().follow(path).run(1.5)
    led.assert_smooth()
    np.testing.assert_allclose(led.seen[-1].pose, path.at(led.time).pose, atol=PATH_KNOT)


def test_path_ahead_is_met_at_its_first_point_with_its_velocity():
    poses = [at((0.35, 0.05, 0.5)), at((0.45, 0.1, 0.5))]
    path = Path([0.5, 1.0], poses, np.array([[0.0, 0.1, 0.0, 0.2, 0.1, 0.0]] * 2),
                np.full((2, 6), 0.1))
    led = Led().follow(path).run(0.9)
    led.assert_smooth()
    for time in (0.5, 0.7, 0.9):
        np.testing.assert_allclose(led.seen[round(time / DT) - 1].pose, path.at(time).pose,
                                   atol=1e-8)
    # the path ends with a velocity: the target overshoots and returns to the last pose
    led.run(1.5).assert_smooth()
    np.testing.assert_allclose(led.guide.target.pose, poses[1], atol=PATH_KNOT)


@pytest.mark.parametrize('speed', [0.02, 0.1, 0.3])
def test_stream_of_poses_at_ten_hertz_becomes_a_steady_motion_that_stops_at_the_last(speed):
    led = Led()
    for k in range(20):
        led.follow(PoseGoal(at((0.3, 0.1 * k * speed, 0.5)))).run(0.1)
    steady = led.twists[1000:, 4]
    assert np.ptp(steady) < 0.15 * speed
    led.run(1.0).assert_smooth()
    last = at((0.3, 1.9 * speed, 0.5))
    np.testing.assert_allclose(led.guide.target.pose, last, atol=PATH_KNOT)
    assert led.positions[300:, 1].max() < last[1, 3] + PATH_KNOT


def test_twist_is_taken_on_and_timed_out_into_a_hold():
    twist = np.array([0.2, 0.0, 0.5, 0.1, -0.2, 0.05])
    led = Led().follow(TwistGoal(twist, until=0.8)).run(0.8)
    np.testing.assert_allclose(led.twists[-1], twist, atol=PATH_KNOT)
    led.run(0.5).assert_smooth()
    assert not led.twists[-1].any()
    assert np.linalg.norm(led.positions[-1] - led.positions[800]) < 0.02


def test_twist_that_is_repeated_is_steady():
    twist = np.array([0.0, 0.0, 0.5, 0.1, -0.2, 0.05])
    led = Led()
    for _ in range(20):
        led.follow(TwistGoal(twist, led.time + 0.2)).run(0.1)
    np.testing.assert_allclose(led.twists[400:], np.tile(twist, (1600, 1)), atol=1e-7)


def test_twist_too_fast_is_slowed_in_its_direction():
    led = Led().follow(TwistGoal([0.0, 0.0, 0.0, 3.0, 4.0, 0.0], 1.0)).run(0.6)
    np.testing.assert_allclose(led.twists[-1, 3:], [0.6, 0.8, 0.0], atol=PATH_KNOT)
    assert led.guide.clamped


def test_twist_stops_smoothly_at_a_face_of_the_box_and_slides_along_it():
    led = Led(BOX).follow(TwistGoal([0.0, 0.0, 0.0, 0.2, 0.05, 0.0], 10.0)).run(3.0)
    led.assert_smooth()
    assert led.positions[:, 0].max() <= 0.6 + PATH_KNOT
    np.testing.assert_allclose(led.positions[-1, 0], 0.6, atol=PATH_KNOT)
    np.testing.assert_allclose(led.twists[-1, 3:], [0.0, 0.05, 0.0], atol=PATH_KNOT)
    led.follow(TwistGoal([0.0, 0.0, 0.0, 0.2, 0.0, 0.0], 10.0)).run(0.5)
    assert led.guide.clamped
    led.follow(TwistGoal([0.0, 0.0, 0.0, -0.2, 0.0, 0.0], 10.0)).run(0.5).assert_smooth()
    assert led.positions[-1, 0] < 0.55


def test_pose_outside_of_the_box_becomes_the_nearest_inside():
    led = Led(BOX).follow(PoseGoal(at((2.0, 0.1, -1.0)))).run(2.0)
    assert led.guide.clamped
    np.testing.assert_allclose(led.positions[-1], [0.6, 0.1, 0.2], atol=PATH_KNOT)


def test_arm_that_starts_outside_of_the_box_is_not_pulled_but_comes_in_with_the_next_target():
    outside = at((0.9, 0.0, 0.5))
    led = Led(BOX, outside).run(0.1)
    np.testing.assert_array_equal(led.positions[-1], outside[:3, 3])
    led.follow(PoseGoal(at((0.9, 0.2, 0.5)))).run(1.5).assert_smooth()
    np.testing.assert_allclose(led.positions[-1], [0.6, 0.2, 0.5], atol=PATH_KNOT)


def test_stop_takes_no_longer_and_no_farther_than_the_limits_make_it():
    led = Led().follow(PoseGoal(at((1.5, 0.0, 0.5)))).run(0.6)
    speed, place = led.twists[-1, 3], led.positions[-1, 0]
    assert speed > 0.9
    led.follow(STOP).run(0.5).assert_smooth()
    assert not led.twists[-1].any()
    # stopping distance: v²/2a + va/2j
    assert led.positions[-1, 0] - place < 1.1 * (speed ** 2 / 10.0 + 0.05 * speed)


def blocked_at(pose):
    """Return a function that computes the pose error of an arm blocked at `pose` from a target."""
    return lambda target: pose_error(pose, target.pose)


@pytest.mark.parametrize('motion', [
    lambda time: TwistGoal([0.0, 0.0, 0.0, 0.3, 0.0, 0.0], time + 0.2),
    lambda time: PoseGoal(at((1.2, 0.0, 0.5))),
    lambda time: TwistGoal([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], time + 0.2),
], ids=['twist', 'pose', 'turning'])
def test_target_does_not_run_away_from_a_blocked_arm_however_often_it_is_asked(motion):
    led = Led()
    for _ in range(250):
        led.follow(motion(led.time)).run(0.02, blocked_at(START))
    led.assert_smooth(WITHIN)
    assert led.guide.waits
    turned, moved = np.split(pose_error(START, led.guide.target.pose), 2)
    assert 0.2 <= np.linalg.norm(moved) < 0.36 or 1.0 <= np.linalg.norm(turned) < 1.2
    # a goal at the pose of the blocked arm brings the target back at once
    led.follow(PoseGoal(START)).run(1.0, blocked_at(START)).assert_smooth(WITHIN)
    np.testing.assert_allclose(led.guide.target.pose, START, atol=PATH_KNOT)


@pytest.mark.parametrize('back', [
    lambda time: PoseGoal(START),
    lambda time: Path(time + np.array([0.5, 2.0]), [at((0.25, 0.0, 0.5)), START]),
    lambda time: TwistGoal([0.0, 0.0, 0.0, -0.2, 0.0, 0.0], time + 1.0)],
                         ids=['pose', 'path', 'twist'])
@pytest.mark.parametrize('after', [0.3, 0.4, 0.5, 0.6, 0.8, 1.0])
def test_target_that_is_called_back_while_it_leaves_an_arm_behind_comes_back(after, back):
    arm_stays = blocked_at(START)  # as at the end of its reach
    led = Led().follow(PoseGoal(at((1.5, 0.0, 0.5)))).run(after, arm_stays)
    led.follow(back(led.time)).run(3.0, arm_stays).assert_smooth(WITHIN)
    assert not led.guide.waits
    assert led.positions[:, 0].max() - led.positions[-1, 0] > 0.05
    if not isinstance(back(0.0), TwistGoal):
        np.testing.assert_allclose(led.guide.target.pose, START, atol=PATH_KNOT)


def test_path_goes_on_where_it_was_left_when_the_arm_is_free_again():
    path = figure_of_eight(START, 0.8, 0.15, 4.0, 1.0, 0.0)
    led = Led().follow(path).run(2.0, blocked_at(START))
    assert led.guide.waits
    left = led.positions[-1]
    led.run(0.2, lambda target: np.zeros(6))
    assert not led.guide.waits
    led.run(6.0, lambda target: np.zeros(6)).assert_smooth(WITHIN)
    assert np.linalg.norm(led.positions[2000:2200] - left, axis=1).max() < 0.2
    np.testing.assert_allclose(led.guide.target.pose, START, atol=PATH_KNOT)


@pytest.mark.parametrize('seed', first_quick(range(100, 140), 5))
def test_target_keeps_its_jerk_while_the_arm_is_let_go_and_held_again(seed):
    random, led = np.random.default_rng(seed), Led()
    led.follow(PoseGoal(at((0.3 + random.uniform(0.3, 0.9), random.uniform(-0.4, 0.4), 0.5),
                           (np.pi + 0.5 * random.normal(), 0.0, 0.0))))
    while led.time < 4.0:
        held = random.integers(2) == 0
        led.run(random.uniform(0.02, 0.5), blocked_at(START) if held else None)
    led.assert_smooth()


@pytest.mark.parametrize('jump', [10.0, -10.0, -0.01])
def test_target_does_not_jump_with_the_clock(jump):
    led = Led(clock=100.0).follow(PoseGoal(at((0.5, 0.2, 0.5)))).run(0.3)
    led.guide.add(PoseGoal(at((0.1, 0.1, 0.1))), 100.5)
    led.time += jump
    led.run(0.1)
    moves = np.diff(led.positions, axis=0)
    assert np.abs(moves).max() < 1.01 * DT
    assert np.abs(np.diff(led.twists, axis=0)).max() < 1.01 * DT * LIMITS.acceleration.max()
    assert np.abs(np.diff(led.accelerations, axis=0)).max() < 1.01 * DT * LIMITS.jerk.max()


def test_clock_that_begins_again_forgets_what_was_planned_and_stops():
    led = Led(clock=100.0).follow(TwistGoal([0.0, 0.0, 0.0, 0.2, 0.0, 0.0], 200.0)).run(0.5)
    led.guide.add(PoseGoal(at((0.1, 0.1, 0.1))), 100.6)
    led.time = 0.0
    led.run(1.0)
    assert not led.twists[-1].any()
    assert np.linalg.norm(led.positions[-1] - led.positions[499]) < 0.02


def test_with_infinite_limits_the_target_jumps_to_where_it_is_wanted():
    infinite = [np.inf] * 2
    led = Led(TargetLimits(infinite, infinite, infinite)).run(0.1)
    goal = at((0.5, 0.1, 0.4))
    led.follow(PoseGoal(goal)).run(DT)
    np.testing.assert_array_equal(led.seen[-1].pose, goal)
    path = figure_of_eight(START, 0.3, 0.15, 4.0, 1.0, 0.5)
    led.follow(path).run(1.0)
    np.testing.assert_allclose(led.seen[-1].pose, path.at(led.time).pose, atol=PATH_KNOT)


@pytest.mark.parametrize('given, message', [
    ({'speed': [1.0]}, r'speed .*\(1,\), (give|must be).*\(2,\)'),
    ({'jerk': [1.0, 0.0]}, 'must be .*at least 0.1'),
    ({'speed': [2.5, 250.0]}, 'target speed.*at most 20.*millimetres'),
    ({'speed': [np.inf, 1.0]}, '(give|must be).*infinite'),
    ({'box': [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]}, 'positions'),
    ({'speed': [np.inf] * 2, 'acceleration': [np.inf] * 2, 'jerk': [np.inf] * 2,
      'box': [[0.0] * 3, [1.0] * 3]}, 'box .*speed'),
])
def test_bad_limits_are_refused_by_name(given, message):
    with pytest.raises(InputError, match=message):
        TargetLimits(**given)


def test_bad_twist_is_refused():
    for twist in ([0.0] * 5, [np.nan] * 6):
        with pytest.raises(InputError, match='(give|must be).* 6 '):
            TwistGoal(twist, 1.0)


@pytest.mark.parametrize('ago', [0.0, 0.1, 0.5, 10.0])
def test_path_that_is_over_when_it_comes_is_approached_at_its_end(ago):
    led, poses = Led(clock=20.0), [at(shift) for shift in ((0.0, 0.0, 0.0), (0.1, 0.0, 0.0))]
    led.guide.add(Path([19.0 - ago, 20.0 - ago], poses), 0.0)
    led.run(2.0)
    assert (led.shares() < 1.0 + 1e-6).all()
    np.testing.assert_allclose(led.positions[-1], poses[-1][:3, 3], atol=1e-9)


def scipy_functions_used_by(call):
    """Return the Python functions of scipy, by file and name, that a call uses."""
    used = set()

    def note(frame, event, _):
        if event == 'call' and f'{os.sep}scipy{os.sep}' in frame.f_code.co_filename:
            used.add((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return used


def test_the_first_long_path_calls_nothing_of_scipy_for_the_first_time():
    # the first call of LAPACK took 12 ms with the GIL held
    times, poses = np.linspace(0.0, 2.0, 300), np.repeat(np.eye(4)[None], 300, axis=0)
    poses[:, :3, 3] = np.outer(times, [0.4, 0.2, 0.1])
    poses[:, :3, :3] = Rotation.from_rotvec(np.outer(times, [0.2, 0.1, -0.3])).as_matrix()
    rehearsed = scipy_functions_used_by(rehearse)
    used = scipy_functions_used_by(
        lambda: path_within(path_through(times, poses, TargetLimits()), TargetLimits()))
    assert any(name == 'solve_banded' for _, name in used)
    assert used <= rehearsed


@pytest.mark.parametrize(('late', 'step', 'jitter'), [
    (0, DT, 0.4), (1, DT, 0.0), (3, DT, 0.4), (30, DT, 0.4), (300, DT, 0.0), (0, 0.04, 0.0),
    (2, 0.04, 0.2)])
@pytest.mark.parametrize('kind', [
    'pose', 'another pose', 'twist', 'path', 'path that ends in motion',
    'path that begins in motion', 'path too short to reach'])
def test_target_goes_on_smoothly_while_python_is_late_and_states_come_at_random(
        kind, late, step, jitter):
    there, twists = at((0.5, 0.1, 0.4), (2.9, 0.3, 0.1)), np.zeros((2, 6))
    moving = np.array([0.0, 0.1, 0.0, 0.05, -0.05, 0.02])
    twists[int(kind == 'path that ends in motion')] = moving * ('in motion' in kind)
    times = [0.1, 0.2] if kind == 'path too short to reach' else [0.5, 1.5]
    path = Path(times, [at((0.35, 0.0, 0.5)), at((0.4, 0.05, 0.45))], twists, 0.0 * twists)
    motion = {'twist': TwistGoal(moving, 0.8), 'pose': PoseGoal(there),
              'another pose': PoseGoal(there)}.get(kind, path)
    led, rng, ticks, changed = Led().follow(motion), np.random.default_rng(late), 0, False
    before, shares = led.guide.target.twist, []
    while led.time < 8.0:
        if ticks < -20 and led.time < 6.0 and rng.random() < 0.05:
            ticks = late
        passed = step * (1.0 + jitter * rng.uniform(-1.0, 1.0))
        led.time += passed
        if kind == 'another pose' and led.time > 0.3 and not changed:
            led.follow(PoseGoal(at((0.2, -0.2, 0.5))))
            changed = True
        put_target(*led.guide.records, np.zeros(6), led.time, 1.0)
        ticks -= 1
        if ticks < 0:
            led.guide.plan()
        twist = led.guide.target.twist
        shares.append(np.abs(twist - before).reshape(2, 3).max(axis=1) / passed / (
            LIMITS.acceleration + RATE * LIMITS.speed))
        before = twist
    assert np.max(shares) < 1.1
    assert np.abs(before).max() < 1e-9
    goal = led.guide.goal
    if goal is not None:
        np.testing.assert_allclose(led.guide.target.pose, goal, atol=1e-9)
    predicted = led.guide.predicted_target(led.time + 1.0)
    np.testing.assert_allclose(predicted.pose, led.guide.target.pose, atol=1e-12)
