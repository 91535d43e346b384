# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The arrays of a Robot compared with Pinocchio's model of the same URDF."""

import copy
import doctest
import pickle
from time import process_time

import numpy as np
import pinocchio as pin
import pytest

from judge import configuration, pinocchio_model, random_urdf, robot_cases, SHIPPED_PANDA
from osc_ros.errors import ModelError, ModelWarning
from osc_ros.model import Robot
from osc_ros.model import robot as robot_module
from tolerances import INERTIA_TOLERANCE, POSE_TOLERANCE

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')


@pytest.fixture(params=robot_cases())
def case(request):
    return robot_cases()[request.param]


def robot_of(case, **options):
    return Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked, **options)


def judged(case, robot):
    return pinocchio_model(case.urdf_text, case.base, case.tip, robot.joint_names, case.locked)


def body_poses(robot, q):
    """Return the pose of every body in the base frame, from the robot's arrays alone."""
    poses, T = [], np.eye(4)
    for T_parent_body, slides, value in zip(robot.T_parent_body, robot.prismatic, q, strict=True):
        c, s = (1, 0) if slides else (np.cos(value), np.sin(value))
        T = T @ T_parent_body @ [[c, -s, 0, 0], [s, c, 0, 0],
                                 [0, 0, 1, value if slides else 0], [0, 0, 0, 1]]
        poses.append(T)
    return poses


def mass_matrix(robot, q):
    """Return M = Σ Jᵢᵀ Iᵢ Jᵢ + diag(rotor inertia), with every Jacobian in its body's frame."""
    M = np.diag(robot.rotor_inertia)
    poses = body_poses(robot, q)
    for i, (T_body, inertia) in enumerate(zip(poses, robot.inertia, strict=True)):
        J = np.zeros((6, robot.n))
        for k in range(i + 1):
            axis, arm = poses[k][:3, 2], T_body[:3, 3] - poses[k][:3, 3]
            turn, slide = (0 * axis, axis) if robot.prismatic[k] else (axis, np.cross(axis, arm))
            J[:, k] = np.concatenate([T_body[:3, :3].T @ turn, T_body[:3, :3].T @ slide])
        M = M + J.T @ inertia @ J
    return M


def random_positions(robot, count=5):
    return np.random.default_rng(7).uniform(-1.5, 1.5, (count, robot.n))


def test_tip_pose_is_the_one_of_pinocchio(case):
    robot = robot_of(case)
    model, data, frame = judged(case, robot)
    for q in random_positions(robot):
        pin.framesForwardKinematics(model, data, configuration(model, q))
        T_tip = body_poses(robot, q)[-1] @ robot.T_body_tip
        np.testing.assert_allclose(T_tip, data.oMf[frame].homogeneous, atol=POSE_TOLERANCE)


def test_every_link_is_where_pinocchio_puts_it(case):
    robot = robot_of(case)
    model, data, _ = judged(case, robot)
    (q,) = random_positions(robot, 1)
    pin.framesForwardKinematics(model, data, configuration(model, q))
    poses = [*body_poses(robot, q), np.eye(4)]  # body -1 is the base
    judged_links = {frame.name for frame in model.frames if frame.type == pin.FrameType.BODY}
    assert judged_links - {'universe'} == set(robot.frames) - {'universe'}
    for link in robot.frames:
        body, T_body_link = robot.frames[link]
        expected = data.oMf[model.getFrameId(link, pin.FrameType.BODY)].homogeneous
        np.testing.assert_allclose(poses[body] @ T_body_link, expected, atol=POSE_TOLERANCE,
                                   err_msg=link)


def test_mass_matrix_of_the_arrays_is_the_one_of_pinocchio(case):
    rotor = np.random.default_rng(3).uniform(0, 0.5, robot_of(case).n)
    robot = robot_of(case, rotor_inertia=rotor)
    model, data, _ = judged(case, robot)
    model.armature = rotor
    for q in random_positions(robot):
        expected = pin.crba(model, data, configuration(model, q))
        expected = np.triu(expected) + np.triu(expected, 1).T
        np.testing.assert_allclose(mass_matrix(robot, q), expected, rtol=0,
                                   atol=INERTIA_TOLERANCE * np.abs(expected).max())


def test_every_body_has_the_mass_and_the_moment_of_pinocchio(case):
    robot = robot_of(case)
    model, _, _ = judged(case, robot)
    for inertia, expected in zip(robot.inertia, model.inertias[1:], strict=True):
        centre = np.linalg.norm(inertia[[5, 3, 4], [1, 2, 0]])
        np.testing.assert_allclose(inertia[3, 3], expected.mass, rtol=INERTIA_TOLERANCE)
        np.testing.assert_allclose(centre, expected.mass * np.linalg.norm(expected.lever),
                                   rtol=INERTIA_TOLERANCE, atol=INERTIA_TOLERANCE)


def test_limits_are_the_ones_of_the_description():
    robot = robot_of(robot_cases()['panda'])
    np.testing.assert_array_equal(robot.position_limits[3], [-3.0718, -0.0698])
    np.testing.assert_array_equal(robot.velocity_limits, [2.175] * 4 + [2.61] * 3)
    np.testing.assert_array_equal(robot.effort_limits, [87] * 4 + [12] * 3)
    kinova = robot_of(robot_cases()['kinova'])
    assert np.isinf(kinova.position_limits[0]).all()
    assert np.isfinite(kinova.effort_limits[0])


def test_shipped_panda_is_the_published_one():
    """Kinematics, inertias and limits agree with the URDF of example-robot-data."""
    ours, theirs = (robot_of(robot_cases()[name]) for name in ('panda', 'panda_of_erd'))
    assert ours.joint_names == theirs.joint_names
    # the frame of clients such as crisp_py, at panda_link0
    assert set(ours.frames) - {'base'} == set(theirs.frames)
    for field in ('T_parent_body', 'inertia', 'T_body_tip', 'position_limits', 'velocity_limits',
                  'effort_limits'):
        np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field),
                                   atol=POSE_TOLERANCE, err_msg=field)


def test_shipped_panda_loads_without_a_warning(recwarn):
    Robot.from_urdf(SHIPPED_PANDA.read_text(), 'panda_link0', 'panda_hand_tcp')
    assert not recwarn.list


def test_body_frame_is_the_joint_frame_where_the_axis_is_z():
    robot = robot_of(robot_cases()['panda'])
    np.testing.assert_array_equal(robot.frames['panda_link4'][1], np.eye(4))


@pytest.mark.parametrize('axis', [(1, 0, 0), (-1, 0, 0), (0, -1, 0), (0, 0, -1), (1e-9, 0, -1),
                                  (3, 4, 0), (1e-200, 0, 0), (1e200, 1e200, 0)])
def test_body_frame_has_the_joint_axis_along_z(axis):
    robot = Robot.from_urdf(one_joint(axis), 'a', 'b')
    _, T_body_link = robot.frames['b']
    unit = np.array(axis) / np.abs(axis).max()
    unit /= np.linalg.norm(unit)
    np.testing.assert_allclose(T_body_link[:3, :3] @ unit, [0, 0, 1], atol=POSE_TOLERANCE)
    np.testing.assert_allclose(robot.T_parent_body[0] @ T_body_link, np.eye(4),
                               atol=POSE_TOLERANCE)


def one_joint(axis):
    return (f"<robot name='r'><link name='a'/><joint name='j' type='continuous'><parent link='a'/>"
            f"<child link='b'/><axis xyz='{axis[0]} {axis[1]} {axis[2]}'/>"
            "<limit effort='1' velocity='1'/></joint><link name='b'><inertial><mass value='1'/>"
            "<inertia ixx='1' iyy='1' izz='1'/></inertial></link></robot>")


def test_locked_joint_on_the_path_becomes_fixed():
    case = robot_cases()['panda']
    locked = {**case.locked, 'panda_joint3': 0.7}
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=locked)
    assert 'panda_joint3' not in robot.joint_names
    whole = robot_of(case)
    q = random_positions(robot, 1)[0]
    np.testing.assert_allclose(
        body_poses(robot, q)[-1] @ robot.T_body_tip,
        body_poses(whole, np.insert(q, 2, 0.7))[-1] @ whole.T_body_tip, atol=POSE_TOLERANCE)


def test_mimic_joint_follows_its_locked_source():
    robot = robot_of(robot_cases()['panda'])
    left, right = (robot.frames[f'panda_{side}finger'][1] for side in ('left', 'right'))
    hand = robot.frames['panda_hand'][1]
    np.testing.assert_allclose((np.linalg.inv(hand) @ left)[:3, 3], [0, 0.03, 0.0584],
                               atol=POSE_TOLERANCE)
    np.testing.assert_allclose((np.linalg.inv(hand) @ right)[:3, 3], [0, -0.03, 0.0584],
                               atol=POSE_TOLERANCE)


def test_mimic_joint_of_a_moving_source_is_held_at_its_offset():
    text = robot_cases()['panda'].urdf_text.replace(
        '<mimic joint="panda_finger_joint1"/>',
        '<mimic joint="panda_joint7" multiplier="2" offset="0.01"/>')
    with pytest.warns(ModelWarning, match="'panda_finger_joint2' mimic"):
        robot = Robot.from_urdf(text, 'panda_link0', 'panda_hand_tcp')
    T = np.linalg.inv(robot.frames['panda_hand'][1]) @ robot.frames['panda_rightfinger'][1]
    np.testing.assert_allclose(T[:3, 3], [0, -0.01, 0.0584], atol=POSE_TOLERANCE)


def test_rotor_inertia_is_given_by_joint_name_or_in_order():
    case = robot_cases()['panda']
    by_name = robot_of(case, rotor_inertia={'panda_joint7': 0.2, 'panda_joint1': 0.6})
    in_order = robot_of(case, rotor_inertia=[0.6, 0, 0, 0, 0, 0, 0.2])
    np.testing.assert_array_equal(by_name.rotor_inertia, in_order.rotor_inertia)
    np.testing.assert_array_equal(robot_of(case).rotor_inertia, np.zeros(7))


def test_gravity_is_given_in_the_base_frame():
    case = robot_cases()['panda']
    np.testing.assert_array_equal(robot_of(case).gravity, [0, 0, -9.81])
    np.testing.assert_array_equal(robot_of(case, gravity=(0, 9.81, 0)).gravity, [0, 9.81, 0])


def test_renaming_and_reordering_the_elements_changes_nothing():
    case = robot_cases()['random']
    head, *parts, tail = case.urdf_text.replace('<link', '\n<link').replace(
        '<joint', '\n<joint').replace('</robot>', '\n</robot>').split('\n')
    order = np.random.default_rng(5).permutation(len(parts))
    shuffled = '\n'.join([head, *(parts[i] for i in order), tail])
    ours = Robot.from_urdf(case.urdf_text, case.base, case.tip)
    theirs = Robot.from_urdf(shuffled, case.base, case.tip)
    assert ours.joint_names == theirs.joint_names
    np.testing.assert_array_equal(ours.T_parent_body, theirs.T_parent_body)
    np.testing.assert_allclose(ours.inertia, theirs.inertia, atol=POSE_TOLERANCE)


def test_arrays_and_frames_are_read_only():
    robot = robot_of(robot_cases()['panda'])
    for array in (robot.inertia, robot.gravity, robot.prismatic, robot.frames['panda_hand'][1]):
        with pytest.raises(ValueError, match='read-only'):
            array[...] = 0
    with pytest.raises(TypeError):
        robot.frames['more'] = (0, np.eye(4))


@pytest.mark.parametrize('copied', [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_copies_and_pickles_are_the_same_robot_and_read_only(copied):
    robot = robot_of(robot_cases()['panda'])
    twin = copied(robot)
    np.testing.assert_array_equal(twin.inertia, robot.inertia)
    np.testing.assert_array_equal(twin.frames['panda_hand'][1], robot.frames['panda_hand'][1])
    assert not twin.inertia.flags.writeable


def test_robot_built_from_lists_takes_a_copy():
    inertia = np.array([np.eye(6)])
    robot = built(inertia=inertia)
    inertia[0, 0, 0] = 5
    assert robot.n == 1
    assert robot.inertia[0, 0, 0] == 1


def built(**changes):
    fields = {
        'name': 'hand-built', 'base': 'a', 'tips': ('b',), 'joints': ('elbow',), 'parent': [-1],
        'prismatic': [False], 'spherical': [False], 'T_parent_body': [np.eye(4)],
        'inertia': [np.eye(6)], 'rotor_inertia': [0.0], 'position_limits': [[-1, 1]],
        'velocity_limits': [1.0], 'effort_limits': [1.0], 'gravity': [0, 0, -9.81],
        'frames': {'a': (-1, np.eye(4)), 'b': (0, np.eye(4))}}
    return Robot(**(fields | changes))


@pytest.mark.parametrize(('changes', 'message'), [
    ({'joints': ()}, 'no moving'),
    ({'joints': ('elbow', 'elbow'), 'parent': [-1, -1], 'prismatic': [False] * 2,
      'spherical': [False] * 2}, "'elbow', 'elbow'"),
    ({'inertia': np.eye(6)}, r'inertia.*\(6, 6\),.*\(1, 6, 6\)'),
    ({'gravity': 'down'}, r'gravity .*\(3,\)'),
    ({'gravity': [0, 0, np.nan]}, 'gravity .*finite'),
    ({'frames': {'b': (0, np.eye(3))}}, r"frames\['b'\].*\(3, 3\),.*\(4, 4\)"),
    ({'T_parent_body': [np.full((4, 4), np.inf)]}, "'elbow': T_parent_body .*finite"),
    ({'T_parent_body': [2 * np.eye(4)]}, "'elbow': T_parent_body .*rigid"),
    ({'T_parent_body': [np.diag([1, 1, -1, 1])]}, 'rigid'),
    ({'inertia': [np.full((6, 6), np.nan)]}, "'elbow': inertia .*finite"),
    ({'inertia': [np.triu(np.ones((6, 6)))]}, "'elbow': .*inertia .*symmetric"),
    ({'inertia': [np.diag([1, 1, 1, 1, 1, -1])]}, "'elbow': .*inertia .*semi"),
    ({'inertia': [np.diag([1, 1, 1, 0, 0, 0])], 'prismatic': [True]},
     "'elbow': .*along .*'b'"),
    ({'inertia': [np.diag([1, 1, 0, 1, 1, 1])]},
     "'elbow': .*about .*'b'"),
    ({'parent': [0]}, "'elbow': .*parent"),
    ({'prismatic': [True], 'spherical': [True]}, "'elbow': .*prismatic .*spherical"),
    ({'tips': ()}, 'tips .*none; (give|must be)'),
    ({'tips': ('b', 'b')}, "tips .*'b', 'b'; (give|must be)"),
    ({'tips': ('c',)}, "'c' .*'hand-built'; known: 'a', 'b'"),
    ({'tips': ('a',)}, "'a' .*not move.*'a'"),
    ({'rotor_inertia': [-1.0]}, "'elbow': rotor_inertia"),
    ({'position_limits': [[1, -1]]}, "'elbow': position_limits"),
    ({'velocity_limits': [0.0]}, "'elbow': velocity_limits"),
    ({'effort_limits': [np.nan]}, "'elbow': effort_limits"),
])
def test_robot_built_in_code_is_refused_by_the_name_of_its_joint(changes, message):
    with pytest.raises(ModelError, match=message):
        built(**changes)


def test_long_chains_load_in_linear_time_and_without_recursion():
    texts = {n: random_urdf(2, n) for n in (100, 200, 2_000)}

    def cost(n):
        start = process_time()
        robot = Robot.from_urdf(texts[n], 'link_0', 'tool')
        assert robot.n == n
        return process_time() - start

    cost(100)
    # the cost is 10 times as much where it is linear, 100 times where it is quadratic
    assert min(cost(2_000) for _ in range(3)) < 40 * min(cost(200) for _ in range(3))


def test_example_of_a_robot_built_in_code_runs():
    result = doctest.testmod(robot_module)
    assert result.attempted > 5
    assert result.failed == 0
