# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Targets of all kinds in MuJoCo: the arm follows; if it cannot, the set-points pause."""

import numpy as np
import pytest

from arm import Arm, moved, PERIOD
from attacked import Attacked
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.tasks.task import TargetLimits

LIMITS = TargetLimits()
STANDS = 1e-4  # difference of two poses of a set-point that stands


class Watched(Arm):
    """An arm that records its set-points; the arm is blocked while `held` is true."""

    def __init__(self, limits=LIMITS, **given):
        """Start at rest."""
        super().__init__(limits=limits, **given)
        self.targets, self.held = [], False

    def run(self, until):
        """Simulate until a time; if `held`, the arm stands still."""
        while PERIOD * len(self.times) < until - 0.5 * PERIOD:
            self.times.append(PERIOD * len(self.times))
            self.poses.append(self.plant.pose(self.robot.tips[0]))
            tau = self.law.torque(self.times[-1], self.plant.q, self.plant.qd)
            self.torques.append(tau)
            self.targets.append(self.law.target)
            if not self.held:
                self.plant.step(tau, 2)
        return self

    def drawn_lines(self, axis):
        """Return two dictionaries: positions and speeds of set-point and tip along an axis."""
        tip = np.array([T[axis, 3] for T in self.poses])
        return ({'set-point': [target.pose[axis, 3] for target in self.targets], 'tip': tip},
                {'set-point': [target.twist[3 + axis] for target in self.targets],
                 'tip': np.gradient(tip, PERIOD)})

    def lag(self):
        """Return the distance [m] between tip and set-point over time."""
        return np.array([np.linalg.norm(T[:3, 3] - target.pose[:3, 3])
                         for T, target in zip(self.poses, self.targets)])


def test_poses_at_ten_hertz_are_followed_without_a_jerk(drawn):
    arm, sent = Watched(), []
    for k in range(30):
        shift = 0.1 * np.sin(0.15 * k)
        sent.append(shift)
        arm.law.follow(PoseGoal(moved(arm.pose, shift=(0.0, shift, 0.0))), 0.1 * k)
        arm.run(0.1 * (k + 1))
    arm.run(4.0)
    assert arm.lag().max() < 1e-3
    torques = np.array(arm.torques)
    assert np.abs(np.diff(torques, axis=0)).max() < 2.0
    assert arm.errors(moved(arm.pose, shift=(0.0, sent[-1], 0.0)))[0][-1] < 1e-4
    positions, speeds = arm.drawn_lines(1)
    steps = np.array([sent[min(int(10 * t + 1e-9), 29)] for t in arm.times])
    drawn('targets_stream', 'Target poses that come at 10 Hz', arm.times, {
        'y [m]': {'poses as sent': steps + arm.pose[1, 3], **positions},
        'speed along y\n[m/s]': speeds,
        'joint torque [N m]': {f'joint {i + 1}': torques[:, i] for i in range(4)}})


def test_pose_that_comes_on_the_way_to_another_makes_no_step_in_torque():
    arm = Watched()
    arm.law.follow(PoseGoal(moved(arm.pose, shift=(0.0, 0.3, 0.0), turn=(0.0, 0.0, 0.5))), 0.0)
    arm.law.follow(PoseGoal(moved(arm.pose, shift=(0.1, -0.2, 0.1))), 0.3)
    arm.run(2.0)
    assert np.abs(np.diff(arm.torques, axis=0)).max() < 2.0
    assert arm.lag().max() < 1e-3


def test_hold_on_the_way_is_a_stop_without_a_jerk(drawn):
    arm = Watched()
    arm.law.follow(PoseGoal(moved(arm.pose, shift=(0.0, 0.4, 0.0))), 0.0)
    arm.run(0.45)
    speed = np.linalg.norm(arm.law.twist[3:])
    arm.law.stop()
    arm.run(1.2)
    assert speed > 0.5
    assert np.linalg.norm(arm.law.twist) < 1e-3
    went = arm.poses[-1][1, 3] - arm.poses[225][1, 3]
    assert went < 1.2 * (speed ** 2 / 10.0 + 0.05 * speed)
    assert np.abs(np.diff(arm.torques, axis=0)).max() < 2.0
    positions, speeds = arm.drawn_lines(1)
    drawn('targets_hold', 'A motion that ~/hold stops on its way', arm.times,
          {'y [m]': positions, 'speed along y [m/s]': speeds}, {0.45: 'hold'})


def test_jogging_stops_when_the_twists_stop_coming():
    arm = Watched()
    twist = [0.0, 0.0, 0.3, 0.0, 0.15, 0.0]
    for k in range(10):
        arm.law.follow(TwistGoal(twist, 0.1 * k + 0.2), 0.1 * k)
        arm.run(0.1 * (k + 1))
    np.testing.assert_allclose(arm.law.twist, twist, atol=1e-3)
    arm.run(1.6)
    assert np.linalg.norm(arm.law.twist) < 1e-3
    assert arm.lag().max() < 1e-3


def test_jogging_into_the_face_of_the_box_slides_along_it(drawn):
    top = Arm().pose[:3, 3] + [1.0, 0.1, 0.05]
    arm = Watched(TargetLimits(box=[[-2.0] * 3, top]))
    arm.law.follow(TwistGoal([0.0, 0.0, 0.0, 0.0, 0.3, 0.1], 0.8), 0.0)
    arm.run(1.2)
    tip = np.array([T[:3, 3] for T in arm.poses])
    assert (tip < top + 1e-3).all()
    np.testing.assert_allclose(tip[-1, 1:], top[1:], atol=1e-3)
    assert np.abs(np.diff(arm.torques, axis=0)).max() < 2.0


@pytest.mark.parametrize('kind', ['jog', 'pose'])
def test_target_waits_for_an_arm_that_is_held_and_goes_on_when_it_is_let_go(kind, drawn):
    arm = Watched()
    goal = moved(arm.pose, shift=(0.0, 0.5, 0.0))
    arm.held = True
    for k in range(40):
        if kind == 'jog':
            arm.law.follow(TwistGoal([0.0, 0.0, 0.0, 0.0, 0.3, 0.0], 0.05 * k + 0.2), 0.05 * k)
        elif k == 0:
            arm.law.follow(PoseGoal(goal), 0.0)
        arm.run(0.05 * (k + 1))
    assert arm.law.levels['tip'].generator.waits
    assert 0.2 < arm.lag().max() < 0.36
    arm.held = False
    arm.run(5.0)
    tip = np.array([T[:3, 3] for T in arm.poses])
    assert np.linalg.norm(np.diff(tip, axis=0), axis=1).max() / PERIOD < 1.1
    assert arm.lag()[-1] < 1e-3
    if kind == 'pose':
        assert arm.errors(goal)[0][-1] < 1e-3
        positions, speeds = arm.drawn_lines(1)
        drawn('targets_blocked', 'The arm is blocked, and released: the set-point waits for it',
              arm.times, {'y [m]': positions, 'speed along y [m/s]': speeds}, {2.0: 'released'})


def test_target_beyond_reach_does_not_wind_up():
    arm = Watched()
    arm.law.follow(PoseGoal(moved(arm.pose, shift=(1.0, 0.0, 0.0))), 0.0)
    arm.run(3.0)
    assert arm.law.levels['tip'].generator.waits
    stopped = next(k for k, target in enumerate(arm.targets)
                   if np.abs(target.pose - arm.targets[-1].pose).max() < STANDS)
    assert arm.lag()[stopped] < 0.4
    assert PERIOD * (len(arm.targets) - stopped) > 1.5
    arm.law.follow(PoseGoal(arm.pose), 3.0)
    arm.run(5.0)
    distances, angles = arm.errors(arm.pose)
    assert distances[-1] < 1e-3
    assert angles[-1] < 1e-2
    torques = np.array(arm.torques)
    assert (np.abs(torques) <= arm.robot.effort_limits).all()


@pytest.mark.parametrize('name', ['panda', 'xarm7'])
def test_goal_beyond_reach_pulls_the_arm_no_farther_than_the_leash_and_it_comes_back(name):
    arm, sent, lags = Attacked(name).run(0.1), [], []  # Pinocchio simulates it
    start, limits = arm.law.pose, arm.robot.effort_limits
    for goal in (moved(start, shift=(0.0, 0.0, 1.5)), start):
        arm.law.follow(PoseGoal(goal), arm.now)
        for _ in range(1000):
            arm.run(PERIOD)
            sent.append(arm.sent / limits)
            lags.append(np.linalg.norm(arm.law.target.pose[:3, 3] - arm.law.pose[:3, 3]))
        assert arm.law.levels['tip'].generator.waits == (goal is not start)
    assert max(lags) < LIMITS.leash[1] + 0.15
    assert lags[-1] < 1e-3
    assert max(arm.speeds) <= 1.0
    assert np.abs(np.diff(sent, axis=0)).max() < 0.05
    assert not arm.changes
