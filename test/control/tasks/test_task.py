# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Pose errors, commanded accelerations, gains and poses, against scipy's rotations."""


import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common import naming
from feedback import gains, task_acceleration
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import pose, Target
from osc_ros.errors import InputError
from tolerances import HALF_TURN, POSE_ERROR

AXES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, -1, 1], [1, 0, -1], [1, 1, 1],
                 [-1, 2, 3], [1e-9, 1, 0], [1, 1e-5, -1e-5]], dtype=float)
AXES /= np.linalg.norm(AXES, axis=1)[:, None]
ANGLES = [0.0, 1e-300, 1e-12, 1e-8, 1e-4, 0.3, 1.5, 3.0, np.pi - 1e-4, np.pi - 1e-8]


def transform(rotation, position=(0.0, 0.0, 0.0)):
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation.as_matrix(), position
    return T


def random_poses(count):
    rng = np.random.default_rng(1)
    return [transform(Rotation.from_quat(rng.normal(size=4)), rng.normal(size=3))
            for _ in range(count)]


def test_no_error_where_the_tip_is_at_its_target():
    for T in random_poses(100):
        assert np.abs(pose_error(T, T)).max() < POSE_ERROR
    assert (pose_error(np.eye(4), np.eye(4)) == 0).all()


@pytest.mark.parametrize('angle', ANGLES)
@pytest.mark.parametrize('axis', AXES)
def test_angular_error_is_scipys_rotation_vector(axis, angle):
    for T in random_poses(3):
        target = T.copy()
        target[:3, :3] = Rotation.from_rotvec(angle * axis).as_matrix() @ T[:3, :3]
        turn = pose_error(T, target)[:3]
        relative = Rotation.from_matrix(target[:3, :3] @ T[:3, :3].T)
        assert np.abs(turn - relative.as_rotvec()).max() < POSE_ERROR
        # near half a turn the axis, and thus the sign, depends on the rounding of the matrices
        nearest = min(np.abs(turn - angle * axis).max(), np.abs(turn + angle * axis).max())
        assert nearest < max(POSE_ERROR, HALF_TURN * (angle > 3.1))


@pytest.mark.parametrize('axis', AXES)
def test_half_a_turn_has_an_error_about_its_axis(axis):
    target = transform(Rotation.identity())
    target[:3, :3] = 2 * np.outer(axis, axis) - np.eye(3)
    turn = pose_error(np.eye(4), target)[:3]
    assert abs(np.linalg.norm(turn) - np.pi) < HALF_TURN
    assert min(np.abs(turn - np.pi * axis).max(), np.abs(turn + np.pi * axis).max()) < HALF_TURN


def test_length_of_the_angular_error_is_the_angle_between_the_orientations():
    for T, target in zip(random_poses(200), random_poses(201)[1:]):
        angle = np.linalg.norm(pose_error(T, target)[:3])
        between = (Rotation.from_matrix(T[:3, :3]).inv()
                   * Rotation.from_matrix(target[:3, :3])).magnitude()
        assert angle <= np.pi
        assert abs(angle - between) < POSE_ERROR


def test_moving_by_the_error_reaches_the_target():
    for T, target in zip(random_poses(200), random_poses(201)[1:]):
        error = pose_error(T, target)
        reached = np.eye(4)
        reached[:3, :3] = Rotation.from_rotvec(error[:3]).as_matrix() @ T[:3, :3]
        reached[:3, 3] = T[:3, 3] + error[3:]
        assert np.abs(reached - target).max() < POSE_ERROR


def test_both_quaternions_of_an_orientation_are_one_target():
    rng = np.random.default_rng(2)
    for T in random_poses(50):
        q = rng.normal(size=4)
        q /= np.linalg.norm(q)
        one, other = pose([1.0, 2.0, 3.0], q), pose([1.0, 2.0, 3.0], -q)
        assert (one == other).all()
        assert (pose_error(T, one) == pose_error(T, other)).all()


def test_error_turns_with_the_base():
    R = transform(Rotation.from_rotvec([0.3, -2.0, 0.9]))
    for T, target in zip(random_poses(50), random_poses(51)[1:]):
        turned = np.concatenate([R[:3, :3] @ part for part in pose_error(T, target).reshape(2, 3)])
        assert np.abs(pose_error(R @ T, R @ target) - turned).max() < POSE_ERROR


def random_motion(seed):
    rng = np.random.default_rng(seed)
    target = Target(np.eye(4), rng.normal(size=6), rng.normal(size=6))
    return rng.normal(size=6), rng.normal(size=6), target


@pytest.mark.parametrize('seed', range(5))
def test_below_its_limits_the_error_dynamics_are_linear(seed):
    error, twist, target = random_motion(seed)
    g = gains()
    omega, zeta = g.natural_frequency, g.damping_ratio
    expected = (target.acceleration + 2 * zeta * omega * (target.twist - twist)
                + omega ** 2 * error)
    u = task_acceleration(error, twist, target, g)
    assert np.abs(u - expected).max() < POSE_ERROR * np.abs(expected).max()


@pytest.mark.parametrize('seed', range(5))
def test_speed_limit_keeps_the_direction_of_the_approach(seed):
    error, _, _ = random_motion(seed)
    g = gains(speed=[0.05, 0.02])
    omega, zeta = g.natural_frequency, g.damping_ratio
    u = task_acceleration(error, np.zeros(6), Target(np.eye(4)), g)
    # the speed of approach at which the feedback vanishes
    approach = u / (2 * zeta * omega)
    wanted = omega / (2 * zeta) * error
    for part, speed in ((slice(0, 3), 0.05), (slice(3, 6), 0.02)):
        assert abs(np.linalg.norm(approach[part]) - speed) < POSE_ERROR
        assert np.abs(np.cross(approach[part], wanted[part])).max() < POSE_ERROR * np.abs(
            wanted).max()
        assert approach[part] @ wanted[part] > 0
    at_speed = task_acceleration(error, approach, Target(np.eye(4)), g)
    assert np.abs(at_speed).max() < POSE_ERROR


@pytest.mark.parametrize('seed', range(5))
def test_acceleration_limit_keeps_the_direction_and_spares_the_feed_forward(seed):
    error, twist, target = random_motion(seed)
    free = task_acceleration(error, twist, target, gains()) - target.acceleration
    u = task_acceleration(error, twist, target, gains(acceleration=[3.0, 0.5]))
    for part, most in ((slice(0, 3), 3.0), (slice(3, 6), 0.5)):
        feedback = (u - target.acceleration)[part]
        assert np.abs(feedback - most / np.linalg.norm(free[part]) * free[part]).max() < 1e-9
    still = task_acceleration(np.zeros(6), target.twist, target, gains(acceleration=[1e-3, 1e-3]))
    assert (still == target.acceleration).all()


def test_limits_of_turning_and_of_moving_do_not_touch_each_other():
    error, twist, target = random_motion(0)
    free = task_acceleration(error, twist, target, gains())
    slow_turn = task_acceleration(error, twist, target, gains(speed=[1e-3, 1e6]))
    assert (slow_turn[3:] == free[3:]).all()
    assert np.abs(slow_turn[:3] - free[:3]).max() > 1


def test_an_infinite_limit_is_none():
    error, twist, target = random_motion(0)
    unlimited = gains(speed=[np.inf] * 2, acceleration=[np.inf] * 2)
    assert (task_acceleration(error, twist, target, unlimited)
            == task_acceleration(error, twist, target, gains())).all()


@pytest.mark.parametrize('start', [0.01, 0.4, 3.0])
def test_a_critically_damped_tip_comes_to_a_far_target_within_its_limits(start):
    g = gains(natural_frequency=[20.0] * 6, damping_ratio=[1.0] * 6, speed=[1.0, 0.5],
              acceleration=[20.0, 8.0])
    x, v, step = np.zeros(6), np.zeros(6), 1e-3
    target = Target(np.eye(4))
    fastest, overshoot = 0.0, 0.0
    goal = np.full(6, start)
    for _ in range(15000):
        u = task_acceleration(goal - x, v, target, g)
        assert np.linalg.norm(u[3:]) < 8.0 * (1 + POSE_ERROR)
        v = v + step * u
        x = x + step * v
        fastest = max(fastest, np.linalg.norm(v[3:]))
        overshoot = max(overshoot, (x - goal).max())
    assert fastest < 0.5 * 1.001
    assert overshoot < 1e-3 * start
    assert np.abs(goal - x).max() < 1e-9


@pytest.mark.parametrize('name, size', [
    ('natural_frequency', 6), ('damping_ratio', 6), ('speed', 2), ('acceleration', 2)])
def test_wrong_gains_are_refused_by_name(name, size):
    for bad in (np.ones(size + 1), np.ones((size, 1)), 5.0):
        with pytest.raises(InputError, match=naming(name, np.shape(bad), (size,))):
            gains(**{name: bad})
    with pytest.raises(InputError, match=f"^{name} .*'fast'.*(give|must be).* {size},"):
        gains(**{name: 'fast'})
    for value in (0.0, -1.0, np.nan, -np.inf):
        bad = [1.0] * (size - 1) + [value]
        with pytest.raises(InputError, match=f'^{name} .*must be .*at least'):
            gains(**{name: bad})
    if size == 6:
        with pytest.raises(InputError, match=f'^{name} .*inf.*must be .*at most'):
            gains(**{name: [np.inf] * 6})


def test_pose_is_scipys():
    rng = np.random.default_rng(3)
    for _ in range(50):
        xyzw = rng.normal(size=4)
        xyzw /= np.linalg.norm(xyzw)
        T = pose([1.0, 2.0, 3.0], xyzw)
        assert np.abs(T[:3, :3] - Rotation.from_quat(xyzw).as_matrix()).max() < POSE_ERROR
        assert (T[:3, 3] == [1, 2, 3]).all() and (T[3] == [0, 0, 0, 1]).all()


def test_a_quaternion_of_few_digits_is_mended():
    for length in (0.985, 1.0 - 1e-9, 1.015):
        T = pose([0.0, 0.0, 0.0], length * np.array([0.5, -0.5, 0.5, 0.5]))
        assert np.abs(T[:3, :3] @ T[:3, :3].T - np.eye(3)).max() < POSE_ERROR


@pytest.mark.parametrize('quaternion, length', [
    ([0.0, 0.0, 0.0, 0.0], '0'), ([0.0, 0.0, 0.0, 2.0], '2'), ([0.5, 0.5, 0.5, 0.4], '0.953939'),
    ([1e-20, 0.0, 0.0, 0.0], '1e-20')])
def test_a_quaternion_that_is_no_rotation_is_refused_with_its_length(quaternion, length):
    with pytest.raises(InputError, match=naming(
            'quaternion', quaternion, length, 'must be', 1, 'x y z w')):
        pose([0.0, 0.0, 0.0], quaternion)


@pytest.mark.parametrize('position, quaternion', [
    ([np.nan, 0, 0], [0, 0, 0, 1]), ([0, 0, np.inf], [0, 0, 0, 1]),
    ([0, 0, 0], [0, 0, np.nan, 1]), ([0, 0, 0], [np.inf, 0, 0, 1])])
def test_a_pose_that_is_not_finite_is_refused(position, quaternion):
    with pytest.raises(InputError, match='^pose .*position'):
        pose(position, quaternion)


@pytest.mark.parametrize('position, quaternion, named', [
    ([0, 0], [0, 0, 0, 1], ('position', (2,), 'quaternion', (4,), 'must be', '(3,), (4,)')),
    ([0, 0, 0], [0, 0, 1], ('position', (3,), 'quaternion', (3,))),
    ([[0], [0], [0]], [0, 0, 0, 1], ('position', (3, 1), 'quaternion', (4,)))])
def test_a_pose_of_another_shape_is_refused_with_the_shapes(position, quaternion, named):
    with pytest.raises(InputError, match=naming(*named)):
        pose(position, quaternion)
