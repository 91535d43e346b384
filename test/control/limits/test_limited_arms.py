# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Arms in MuJoCo that are driven into their limits and through singularities."""

from dataclasses import replace

import numpy as np
import pytest

from arm import moved, PANDA, PERIOD
from judge import robot_cases
from osc_ros.control.limits.limits import RATE
from osc_ros.control.setpoint.trajectory import figure_of_eight, Path, PoseGoal
from osc_ros.control.tasks.task import TargetLimits
from thrown import Thrown
from variants import first_quick

READY = {'panda': [0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4],
         'ur5': [0.0, -1.2, 1.6, -1.9, -1.57, 0.0]}


def fastest(limits, q, side):
    """Return velocities towards `side` from which every joint can still brake in time."""
    room = np.where(side > 0, limits.position[:, 1] - q, q - limits.position[:, 0])
    hasty = limits.deceleration / limits.table[RATE]
    with np.errstate(invalid='ignore'):
        braked = np.where(np.isinf(room), np.inf,
                          np.sqrt(hasty ** 2 + 2.0 * limits.deceleration * room) - hasty)
    return 0.98 * side * np.minimum(limits.velocity, braked)


@pytest.mark.parametrize('seed', first_quick(range(3)))
@pytest.mark.parametrize('name', ['panda', 'ur5'])
def test_arm_thrown_at_its_limits_towards_a_far_target_passes_none(name, seed):
    arm, rng = Thrown(name), np.random.default_rng(seed)
    lower, upper = np.clip(arm.limits.position, -3.5, 3.5).T
    q = lower + rng.uniform(0.1, 0.9, size=len(lower)) * (upper - lower)
    arm.start(q, fastest(arm.limits, q, rng.choice([-1.0, 1.0], size=len(q))))
    arm.law.follow(PoseGoal(moved(arm.pose, rng.normal(size=3), 0.5 * rng.normal(size=3))), 0.0)
    arm.run(1.5)
    arm.assert_limits_are_kept()
    assert np.any(arm.sides)
    assert arm.steps().max() < 0.25


def test_target_beyond_the_limit_of_a_joint_and_back(drawn):
    arm = Thrown('panda').start(READY['panda'])
    far = moved(arm.pose, (-0.15, 0.0, -0.3))
    arm.law.follow(Path([0.2, 1.2, 2.2, 3.2], [arm.pose, far, far, arm.pose]), 0.0)
    arm.run(4.2)
    arm.assert_limits_are_kept()
    sides = np.array(arm.sides)
    held = np.flatnonzero(sides.any(axis=0))
    assert len(held) > 0
    assert arm.steps().max() < 0.15
    distances = [np.linalg.norm(T[:3, 3] - arm.pose[:3, 3]) for T in arm.poses]
    assert distances[-1] < 1e-3
    # no wind-up: 0.2 s after the end of the path the tip is back on it, and does not overshoot
    back = np.array(distances)[np.array(arm.times) > 3.4]
    assert back.max() < 0.02
    q, (lower, upper) = np.array(arm.q), arm.limits.position.T
    drawn('limits', 'A target beyond the limit of a joint and back: the joints stop before their '
          'limits', arm.times, {
        'distance to the\njoint limit [rad]': {arm.robot.joint_names[i]: np.minimum(
            q[:, i] - lower[i], upper[i] - q[:, i]) for i in held},
        'joint speed\n[share of limit]': {arm.robot.joint_names[i]: (
            np.abs(np.array(arm.qd)[:, i]) / arm.limits.velocity[i]) for i in held},
        'joint torque\n[share of limit]': {
            'largest of all joints': (np.abs(arm.torques) / arm.limits.effort).max(axis=1),
            'largest change in 2 ms': np.r_[0.0, arm.steps()]}})


def test_torques_change_no_faster_than_they_may_and_positions_are_kept_still():
    rate = np.full(7, 1000.0)
    arm = Thrown('panda', effort_rate=rate).start(READY['panda'])
    arm.law.follow(PoseGoal(moved(arm.pose, (-0.25, 0.1, -0.45), (0.3, 0.0, 0.5))), 0.1)
    arm.run(1.5)
    arm.assert_limits_are_kept()
    assert np.abs(np.diff(arm.torques, axis=0)).max() <= 1000.0 * PERIOD * (1.0 + 1e-9)


@pytest.mark.parametrize('seed', first_quick(range(2)))
def test_joints_that_meet_their_limits_on_the_way_step_no_torque(seed):
    arm, rng = Thrown('panda', TargetLimits()).start(READY['panda']), np.random.default_rng(seed)
    for start in np.cumsum(rng.uniform(0.3, 1.5, size=12)):
        arm.law.follow(PoseGoal(moved(arm.pose, rng.uniform(-0.12, 0.12, 3),
                                  rng.uniform(-0.4, 0.4, 3))), start)
        arm.run(start)
    assert np.any(arm.sides)
    arm.assert_limits_are_kept()
    assert arm.steps().max() < 0.03


def test_limits_that_are_changed_on_the_way_come_into_force_without_a_step():
    arm = Thrown('panda', TargetLimits()).start(READY['panda'])
    arm.law.follow(figure_of_eight(arm.pose, 0.3, 0.2, 2.0, 10.0, 0.0), 0.0)
    weight = np.abs(arm.law.bias_torque(np.array(READY['panda']), np.zeros(7)))
    slow = replace(arm.limits, velocity=np.full(7, 0.3))
    weak = replace(arm.limits, effort=weight + [4.0, 9.0, 4.0, 5.0, 1.0, 1.0, 1.0])
    arm.run(1.0)
    for limits in (slow, arm.limits, weak, arm.limits):
        arm.law.change(replace(arm.law.settings, limits=limits))
        arm.run(arm.plant.time + 1.0)
        last = slice(-200, None)
        assert (np.abs(arm.qd[last]) <= limits.velocity).all()
        assert (np.abs(arm.torques[last]) <= limits.effort).all()
    assert arm.steps().max() < 0.05


def test_weak_arm_gives_up_its_posture_before_its_task():
    weight = Thrown('panda').law.bias_torque(np.array(READY['panda']), np.zeros(7))
    arm = Thrown('panda', effort=np.abs(weight) + [0.4, 8.0, 0.4, 4.0, 0.6, 0.6, 0.3],
                 deceleration=np.full(7, 50.0))  # which the posture takes for possible
    arm.start(READY['panda'])
    arm.law.set_posture(np.add(READY['panda'], [1.5, 0.3, -1.5, 0.0, 1.0, 0.0, 0.0]))
    least = 1.0
    while arm.plant.time < 0.2:
        arm.run(arm.plant.time + PERIOD)
        least = min(least, arm.law.limiter.d.shares[1])
    arm.assert_limits_are_kept()
    assert least < 0.9
    assert max(np.linalg.norm(T[:3, 3] - arm.pose[:3, 3]) for T in arm.poses) < 1e-3


def test_continuous_joints_do_not_switch_off_the_limits_of_the_others():
    arm = Thrown('kinova')
    turning = np.isinf(arm.limits.position).all(axis=1)
    assert turning.any() and not turning.all()
    lower, upper = arm.limits.position.T
    q = np.where(turning, 0.0, np.where(turning, 0.0, upper - 0.4))
    arm.start(q, np.where(turning, 0.0, fastest(arm.limits, q, np.ones(len(q)))))
    arm.law.follow(PoseGoal(moved(arm.pose, (-0.3, 0.3, -0.6))), 0.0)
    arm.run(1.5)
    arm.assert_limits_are_kept()
    assert np.any(arm.sides)


SINGULAR = {
    'panda stretched and beyond': ('panda', (0.65, 0.0, -0.2), (0.0, 0.0, 0.0)),
    'panda stretched upwards': ('panda', (0.3, 0.0, 0.75), (0.0, 0.0, 0.0)),
    'panda over its shoulder': ('panda', (-0.5, 0.0, 0.3), (0.0, 0.0, 0.0)),
    'ur5 stretched and beyond': ('ur5', (0.65, 0.0, 0.1), (0.0, 0.0, 0.0)),
    'ur5 over its shoulder': ('ur5', (-0.6, 0.02, 0.3), (0.0, 0.0, 0.0)),
    'ur5 by its wrist': ('ur5', (0.0, 0.0, 0.0), (1.9, 0.0, 0.0)),
}


@pytest.mark.parametrize('case', first_quick(SINGULAR, 2))
def test_arm_dragged_through_singularities_and_back_is_smooth_and_returns(case, drawn):
    name, shift, turn = SINGULAR[case]
    arm = Thrown(name).start(READY[name])
    far = moved(arm.pose, shift, turn)
    path = Path([0.2, 2.2, 2.7, 4.7], [arm.pose, far, far, arm.pose])
    arm.law.follow(path, 0.0)
    arm.run(5.2)
    arm.assert_limits_are_kept()
    assert arm.steps().max() < 0.1
    distances = np.array([np.linalg.norm(T[:3, 3] - path.at(t).pose[:3, 3])
                          for t, T in zip(arm.times, arm.poses)])
    assert distances[-1] < 1e-3
    if 'beyond' in case:
        assert distances.max() > 0.1
        assert min(arm.shares) < 0.03
        drawn(f'singularity_{name}', f'{name}: a target out of reach and back, through '
              'a singularity', arm.times, {
            'distance of tip\nto target [m]': {'distance': distances},
            'singular value\nof J [share\nof largest]': {'smallest': arm.ratios},
            'control of the\nweakest direction\n[share]': {'share': arm.shares},
            'joint torque\n[share of limit]': {
                'largest of all joints': (np.abs(arm.torques) / arm.limits.effort).max(axis=1),
                'largest change in 2 ms': np.r_[0.0, arm.steps()]}})


def reach(plant):
    """Return the distance of wrist_3_link from the UR's first axis along x of the shoulder."""
    return plant.pose('shoulder_link')[:3, 0] @ plant.pose('wrist_3_link')[:3, 3]


def joint(k, singular=0.0):
    """Return a function of the plant: the position of joint k minus `singular`."""
    return lambda plant: plant.q[k] - singular


# (arm; joint positions before a singularity, in it and beyond it; function of the plant that
# changes its sign at the singularity)
UR5_SHOULDER = ('ur5', (READY['ur5'], [0.0, -2.5983, 1.7845, -0.6862, -1.57, 0.0],
                        [0.0, -2.65, 1.59, -0.44, -1.57, 0.0]), reach)
UR5_WRIST = ('ur5', [READY['ur5'][:4] + [q5, 0.0] for q5 in (-1.57, 0.0, 0.6)], joint(4))
PANDA_SHOULDER = ('panda', [[0.0, q2, np.pi / 2, -1.8, 0.0, 1.9, 0.7] for q2 in (-0.3, 0.0, 0.3)],
                  joint(1))
PANDA_WRIST = ('panda', [[0.0, 0.1, 0.0, -1.9, np.pi / 2, q6, 0.7] for q6 in (2.6, 3.367, 3.6)],
               joint(5, 3.367))
# (singularity, and the translation [m] and rotation [rad] by which the path misses it)
ACROSS = {
    'panda, shoulder': (PANDA_SHOULDER, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    'panda, wrist': (PANDA_WRIST, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    'panda, beside its wrist': (PANDA_WRIST, (0.0, 0.0, 0.0), (0.0, 0.0, 0.1)),
    'ur5, shoulder': (UR5_SHOULDER, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    'ur5, outside its shoulder': (UR5_SHOULDER, (0.0, 0.005, 0.0), (0.0, 0.0, 0.0)),
    'ur5, inside its shoulder': (UR5_SHOULDER, (0.0, -0.02, 0.0), (0.0, 0.0, 0.0)),
    'ur5, wrist': (UR5_WRIST, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    'ur5, left of its wrist': (UR5_WRIST, (0.0, 0.0, 0.0), (0.0, 0.0, 0.05)),
    'ur5, right of its wrist': (UR5_WRIST, (0.0, 0.0, 0.0), (0.0, 0.0, -0.05)),
}


@pytest.mark.parametrize('case', first_quick(ACROSS, 3))
def test_arm_crosses_singularities_to_their_other_side_and_comes_back(case):
    (name, postures, side), shift, turn = ACROSS[case]
    arm, poses, sides = Thrown(name), [], []
    for q in postures:
        arm.plant.reset(q)
        poses.append(arm.plant.pose(arm.tip))
        sides.append(side(arm.plant))
    assert sides[0] * sides[2] < 0.0
    before, there, beyond = poses[0], moved(poses[1], shift, turn), poses[2]
    path = Path([0.2, 1.4, 2.6, 3.1, 4.3, 5.5], [before, there, beyond, beyond, there, before])
    arm.start(postures[0])
    arm.law.follow(path, 0.0)
    found = []
    for until, k in ((1.4, 1), (3.1, 2), (4.3, 1), (6.0, 0)):
        if name == 'panda':  # redundant: it avoids the singularity unless its posture leads there
            arm.law.set_posture(postures[k])
        arm.run(until)
        found.append((side(arm.plant), np.linalg.norm(
            arm.plant.pose(arm.tip)[:3, 3] - path.at(until).pose[:3, 3])))
    arm.assert_limits_are_kept()
    assert arm.steps().max() < 0.1
    ratios, times = np.array(arm.ratios), np.array(arm.times)
    assert ratios[times < 3.1].min() < 5e-3 and ratios[times > 3.1].min() < 5e-3
    # the arm followed beyond the singularity, and returned in its initial configuration
    assert found[1][0] * sides[2] > 0.0 and found[3][0] * sides[0] > 0.0
    assert found[1][1] < 1e-3 and found[3][1] < 1e-3
    assert np.abs(np.subtract(arm.plant.q, postures[0])).max() < 0.01


def test_lost_direction_is_reported_and_held_by_the_posture():
    stretched = Thrown('panda').start([0.0, 0.3, 0.0, -0.075, 0.0, 1.2, 0.0])
    stretched.run(0.3)
    assert stretched.ratios[-1] < 0.06
    lost = stretched.law.priorities.weakest()
    case = robot_cases()['panda']
    assert case.tip == PANDA.tip
    J = stretched.law.space.jacobian() / np.r_[np.ones(3), np.full(3, 0.3)][:, None]
    np.testing.assert_allclose(np.linalg.norm(lost @ J),
                               np.linalg.svd(J, compute_uv=False).min(), rtol=1e-3)
    assert np.abs(np.subtract(stretched.q[-1], stretched.q[0])).max() < 0.05
