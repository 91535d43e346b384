# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Postures for a pose, judged by Pinocchio's forward kinematics."""

from functools import cache
from importlib.metadata import files

import numpy as np
import pinocchio as pin
import pytest

from judge import configuration, pinocchio_model
from osc_ros import inverse_kinematics, OperationalSpace, Robot, shipped_urdf
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.errors import InputError

# name: URDF (shipped, or in example-robot-data), base, tip
ARMS = {
    'panda': ('panda', 'panda_link0', 'panda_hand_tcp'),
    'gen3': ('gen3', 'base_link', 'end_effector_link'),
    'iiwa14': ('iiwa14', 'base_link', 'tool0'),
    'xarm7': ('xarm_description/urdf/xarm7.urdf', 'link_base', 'link_eef'),
    'baxter': ('baxter_description/urdf/baxter.urdf', 'torso', 'left_gripper_base_link'),
    'ur5e': ('ur5e', 'base_link', 'tool0'),
    'ur10e': ('ur10e', 'base_link', 'tool0'),
    'ur3': ('ur_description/urdf/ur3_joint_limited_robot.urdf', 'base_link', 'tool0'),
    'kinova': ('kinova_description/robots/kinova.urdf', 'base', 'j2s6s200_end_effector'),
    'z1': ('z1_description/urdf/z1.urdf', 'link00', 'gripperStator'),
}
QUICK, WHOLE = 200, 10_000  # poses of each arm
ACCURACY = 1e-7  # [rad, m]


@cache
def arm(name):
    """Return the robot, and a function from its positions to the tip's pose by Pinocchio."""
    urdf, base, tip = ARMS[name]
    if urdf.endswith('.urdf'):
        [path] = [one for one in files('example-robot-data') or ()
                  if str(one).endswith(f'example-robot-data/robots/{urdf}')]
        text = path.locate().read_text()
    else:
        text = shipped_urdf(urdf).read_text()
    robot = Robot.from_urdf(text, base=base, tip=tip)
    return robot, judge(text, base, tip, robot)


def judge(text, base, tip, robot):
    model, data, frame = pinocchio_model(text, base, tip, robot.joint_names)

    def pose(q):
        pin.framesForwardKinematics(model, data, configuration(model, q))
        return data.oMf[frame].homogeneous.copy()
    return pose


def random_posture(robot, rng):
    low, high = np.where(np.isfinite(robot.position_limits), robot.position_limits,
                         [-np.pi, np.pi]).T
    return low + (high - low) * rng.random(robot.n)


def is_within(robot, q):
    low, high = robot.position_limits.T
    return (low <= q).all() and (q <= high).all()


def count_found(name, count):
    """Number of poses of random postures for which a posture is found, which is checked."""
    robot, pose = arm(name)
    rng, found = np.random.default_rng(7), 0
    for _ in range(count):
        goal = pose(random_posture(robot, rng))
        for one in inverse_kinematics(robot, goal, near=random_posture(robot, rng))[:1]:
            found += 1
            np.testing.assert_allclose(pose(one.q), goal, rtol=0.0, atol=ACCURACY)
            assert is_within(robot, one.q)
    return found


@pytest.mark.parametrize('name', ARMS)
def test_posture_is_found_for_any_reachable_pose(name):
    assert count_found(name, QUICK) == QUICK


@pytest.mark.slow
@pytest.mark.parametrize('name', ARMS)
def test_posture_is_found_for_999_of_1000_of_ten_thousand_poses(name):
    assert count_found(name, WHOLE) >= 0.999 * WHOLE


@pytest.mark.parametrize('name', ARMS)
def test_all_postures_have_the_pose_and_the_nearest_is_first(name):
    robot, pose = arm(name)
    rng = np.random.default_rng(3)
    for _ in range(20):
        goal, near = pose(random_posture(robot, rng)), random_posture(robot, rng)
        found = inverse_kinematics(robot, goal, near)
        away = [np.linalg.norm(one.q - near) for one in found]
        assert away == sorted(away)
        for one in found:
            np.testing.assert_allclose(pose(one.q), goal, rtol=0.0, atol=ACCURACY)
            assert is_within(robot, one.q)
            for other in found:
                assert one is other or np.abs(one.q - other.q).max() > 0.01


def test_arm_with_six_joints_and_a_spherical_wrist_has_its_eight_postures():
    robot, pose = arm('ur5e')
    rng, counts = np.random.default_rng(1), []
    for _ in range(50):
        q = random_posture(robot, rng)
        found = inverse_kinematics(robot, pose(q), near=q)
        turned = {tuple(np.round(np.angle(np.exp(1j * one.q)), 3)) for one in found}
        assert len(turned) == len(found), 'two postures differ by whole turns'
        counts.append(len(found))
    assert np.median(counts) == 8


@pytest.mark.parametrize('name', ARMS)
def test_search_begins_at_the_given_posture(name):
    robot, pose = arm(name)
    q = 0.9 * random_posture(robot, np.random.default_rng(2))
    first = inverse_kinematics(robot, pose(q), near=q)[0]
    np.testing.assert_allclose(first.q, q, rtol=0.0, atol=1e-12)
    again = inverse_kinematics(robot, pose(q), near=q)[0]
    assert np.array_equal(first.q, again.q)


def test_search_ends_at_as_many_postures_as_are_wanted():
    robot, pose = arm('ur5e')
    q = random_posture(robot, np.random.default_rng(5))
    for most in 1, 3:
        found = inverse_kinematics(robot, pose(q), most=most)
        assert len(found) == most
        for one in found:
            np.testing.assert_allclose(pose(one.q), pose(q), rtol=0.0, atol=ACCURACY)


def test_margin_and_manipulability_describe_a_posture():
    robot, pose = arm('panda')
    low, high = robot.position_limits.T
    for q, margin in ((0.5 * (low + high), 1.0), (low + 0.05 * (high - low), 0.1)):
        one = inverse_kinematics(robot, pose(q), near=q)[0]
        assert one.margin == pytest.approx(margin, abs=1e-6)
    J = OperationalSpace(robot).evaluate(one.q, np.zeros(robot.n)).J
    assert one.manipulability == pytest.approx(np.sqrt(np.linalg.det(J @ J.T)), rel=1e-6)


def test_pose_that_no_posture_has_gives_an_empty_list():
    robot, pose = arm('panda')
    goal = pose(robot.neutral)
    goal[:3, 3] = 2.0, 0.0, 0.0
    assert inverse_kinematics(robot, goal) == []


def test_joints_that_do_not_move_the_link_keep_their_positions():
    robot, _ = arm('panda')
    near = np.array([0.3, -0.4, 0.1, -2.0, 0.2, 1.6, 0.7])
    goal = link_pose(robot, near, 'panda_link2')
    moved = near + 0.2
    [found] = inverse_kinematics(robot, goal, moved, link='panda_link2')
    np.testing.assert_allclose(found.q, [*near[:2], *moved[2:]], rtol=0.0, atol=ACCURACY)


@pytest.mark.parametrize(('change', 'words'), [
    ({'pose': np.eye(3)}, ['pose', '(4, 4)']),
    ({'pose': 2.0 * np.eye(4)}, ['pose', 'rotation']),
    ({'pose': np.full((4, 4), np.nan)}, ['pose', 'nan']),
    ({'near': np.zeros(6)}, ['near', '(7,)']),
    ({'near': np.full(7, np.inf)}, ['near', 'inf']),
    ({'link': 'hand'}, ['hand', 'panda_hand_tcp']),
    ({'most': 0}, ['most', '1'])])
def test_bad_input_is_refused(change, words):
    robot, pose = arm('panda')
    given = {'pose': pose(robot.neutral), **change}
    with pytest.raises(InputError) as caught:
        inverse_kinematics(robot, **given)
    for word in words:
        assert word in str(caught.value)
