# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Paths through poses, schedules, and the figure of eight."""


import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common import naming
from osc_ros.control.setpoint.trajectory import figure_of_eight, Path, PoseGoal
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.errors import InputError
from tolerances import PATH_KNOT, PATH_RATE

STEP = 1e-6  # step of the difference quotients [s]


def poses(count, seed=0, spread=0.8):
    rng = np.random.default_rng(seed)
    T = np.repeat(np.eye(4)[None], count, axis=0)
    T[:, :3, :3] = Rotation.from_rotvec(spread * rng.normal(size=(count, 3))).as_matrix()
    T[:, :3, 3] = rng.normal(size=(count, 3))
    return T


def random_path(count=5, seed=0):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.3, 2.0, count))
    twists, accelerations = rng.normal(size=(2, count, 6))
    return Path(times, poses(count, seed), twists, accelerations), twists, accelerations


def eight(**changes):
    usual = dict(pose=poses(1)[0], width=0.3, height=0.15, period=4.0, turns=2.0, start=1.0,
                 swing=0.2)
    return figure_of_eight(**usual | changes)


def quotients(motion, time):
    """Return twist and acceleration (6,) of a motion, by central differences."""
    before, after = motion.at(time - STEP), motion.at(time + STEP)
    return (pose_error(before.pose, after.pose) / (2 * STEP),
            (after.twist - before.twist) / (2 * STEP))


def assert_derivatives(motion, times):
    for time in times:
        target, (twist, acceleration) = motion.at(time), quotients(motion, time)
        assert np.abs(target.twist - twist).max() < PATH_RATE
        assert np.abs(target.acceleration - acceleration).max() < PATH_RATE


@pytest.mark.parametrize('seed', range(4))
def test_path_passes_through_its_knots_with_the_given_rates(seed):
    path, twists, accelerations = random_path(seed=seed)
    for k, time in enumerate(path.times):
        for side in (time, np.nextafter(time, -1.0))[:2 if k else 1]:
            target = path.at(side)
            assert np.abs(target.pose - path.poses[k]).max() < PATH_KNOT
            assert np.abs(target.twist - twists[k]).max() < PATH_KNOT
            assert np.abs(target.acceleration - accelerations[k]).max() < PATH_KNOT


@pytest.mark.parametrize('given', [True, False], ids=['rates given', 'rates from splines'])
def test_path_is_twice_continuous_at_its_knots(given):
    path = random_path(6)[0]
    if not given:
        path = Path(path.times, path.poses)
    for time in path.times[1:-1]:
        before, after = path.at(np.nextafter(time, -1.0)), path.at(time)
        assert np.abs(before.pose - after.pose).max() < PATH_KNOT
        assert np.abs(before.twist - after.twist).max() < PATH_KNOT
        assert np.abs(before.acceleration - after.acceleration).max() < PATH_KNOT


@pytest.mark.parametrize('given', [True, False], ids=['rates given', 'rates from splines'])
def test_twist_and_acceleration_are_the_derivatives(given):
    path = random_path(5)[0]
    if not given:
        path = Path(path.times, path.poses)
    assert_derivatives(path, np.random.default_rng(1).uniform(
        path.times[0] + STEP, path.times[-1] - STEP, 40))


def test_small_turns_have_the_same_derivatives():
    # for these turns the path uses series for the coefficients of rotation vectors
    for spread in (1e-9, 1e-5, 3e-3, 1e-2):
        T = poses(4, spread=spread)
        assert_derivatives(Path([0.0, 1.0, 2.0, 3.0], T), [0.3, 0.9, 1.5, 2.9])


def test_every_pose_is_rigid():
    path = random_path(5)[0]
    for time in np.linspace(path.times[0], path.times[-1], 100):
        T = path.at(time).pose
        assert np.abs(T[:3, :3] @ T[:3, :3].T - np.eye(3)).max() < PATH_KNOT
        assert (T[3] == [0, 0, 0, 1]).all()


def test_path_waits_at_rest_before_and_after():
    path = random_path()[0]
    for time, k in ((-100.0, 0), (path.times[0] - 1e-9, 0), (path.times[-1] + 1e-9, -1),
                    (1e9, -1)):
        target = path.at(time)
        assert (target.pose == path.poses[k]).all()
        assert (target.twist == 0).all() and (target.acceleration == 0).all()


def test_path_without_rates_starts_and_ends_at_rest():
    path = Path([0.0, 1.0, 3.0, 4.0], poses(4))
    for time in (0.0, 4.0):
        assert np.abs(path.at(time).twist).max() < PATH_KNOT
    assert np.abs(path.at(1.0).twist).max() > 0.1


def test_path_without_rates_keeps_a_steady_turn_in_base_axes():
    omega, times = np.array([0.3, -0.5, 0.8]), np.linspace(0.0, 4.0, 21)
    T = np.repeat(poses(1, 3), len(times), axis=0)
    T[:, :3, :3] = Rotation.from_rotvec(times[:, None] * omega).as_matrix() @ T[:, :3, :3]
    T[:, 0, 3] = times ** 2
    target = Path(times, T).at(2.0)
    # the effect of the splines' clamped ends decays by a factor of 3.7 per knot
    assert np.abs(target.twist - [*omega, 4.0, 0.0, 0.0]).max() < 1e-4


def test_path_through_poses_at_uneven_times_does_not_swing_off_the_way():
    T = np.repeat(np.eye(4)[None], 3, axis=0)
    T[:, 0, 3] = 0.0, 0.05, 0.1
    T[:, :3, :3] = Rotation.from_rotvec([[0.0, 0.0, turn] for turn in (0.0, 0.1, 0.2)]).as_matrix()
    path = Path([0.0, 30.0, 31.0], T)
    seen = [path.at(time).pose for time in np.linspace(0.0, 31.0, 500)]
    way = np.array([[pose[0, 3], 0.5 * np.arctan2(pose[1, 0], pose[0, 0])] for pose in seen])
    assert way.min() > -1e-9 and way.max() < 0.1 + 1e-9
    assert (np.diff(way, axis=0) > -1e-9).all()


def test_path_keeps_its_own_copy():
    T, times = poses(3), np.arange(3.0)
    path = Path(times, T)
    before = path.at(0.7).pose.copy()
    T[:], times[:] = 0.0, 0.0
    assert (path.at(0.7).pose == before).all()


REST = np.zeros((2, 6))
NOWHERE = np.diag([1.0, 1.0, np.nan, 1.0])


@pytest.mark.parametrize('arguments, named', [
    (([0.0], np.eye(4)[None]), ('path', [0.0], 'give', 'two')),
    ((1.0, np.eye(4)[None]), ('path', [1.0], 'give', 'two')),
    (([], []), ('path', [], 'give', 'two')),
    (([0.0, 0.0], poses(2)), ('path', [0.0, 0.0], 'give', 'increasing')),
    (([1.0, 0.0], poses(2)), ('path', [1.0, 0.0])),
    (([0.0, np.nan], poses(2)), ('path', '[0.0, nan]')),
    (([0.0, np.inf], poses(2)), ('path', '[0.0, inf]')),
    (([[0.0, 1.0]], poses(2)), ('path', [0.0, 1.0])),
    (([0.0, 1.0], poses(3)), ('2 times', 'poses', (3, 4, 4))),
    (([0.0, 1.0], np.eye(4)), ('2 times', 'poses', (4, 4))),
    (([0.0, 1.0], [np.eye(4), NOWHERE]), ('pose 1', 'rotation')),
    (([0.0, 1.0], [np.zeros((4, 4)), np.eye(4)]), ('pose 0', 'rotation')),
    (([0.0, 1.0], [np.eye(4), np.diag([1, 1, -1, 1])], REST, REST), ('pose 1', 'rotation')),
    (([0.0, 1.0], poses(2), REST), ('twists', 'accelerations')),
    (([0.0, 1.0], poses(2), None, REST), ('twists', 'accelerations')),
    (([0.0, 1.0], poses(2), REST[:, :5], REST), ('2 times', 'twists', (2, 5))),
    (([0.0, 1.0], poses(2), REST, REST[:1]), ('2 times', 'accelerations', (1, 6))),
    (([0.0, 1.0], poses(2), REST + np.nan, REST), ('twists', 'finite')),
    (([0.0, 1.0], poses(2), REST, REST + np.inf), ('accelerations', 'finite')),
])
def test_a_path_that_cannot_be_is_refused(arguments, named):
    with pytest.raises(InputError, match=naming(*named)):
        Path(*arguments)


@pytest.mark.parametrize('rates', [(), (np.zeros((3, 6)), np.zeros((3, 6)))])
def test_half_a_turn_between_knots_is_refused_with_its_place(rates):
    T = np.repeat(np.eye(4)[None], 3, axis=0)
    T[2, :3, :3] = np.diag([-1.0, 1.0, -1.0])
    with pytest.raises(InputError, match='180°.*1 to 2'):
        Path([0.0, 1.0, 2.0], T, *rates)


def test_hold_is_at_rest_for_ever():
    T = poses(1)[0]
    for time in (-1e9, 0.0, 1e9):
        target = PoseGoal(T).at(time)
        assert (target.pose == T).all()
        assert (target.twist == 0).all() and (target.acceleration == 0).all()


def test_figure_of_eight_starts_and_ends_at_rest_at_its_pose():
    for turns in (0.5, 1.0, 2.5):
        path = eight(turns=turns)
        assert path.times[0] == 1.0
        for time in (path.times[0], path.times[-1]):
            target = path.at(time)
            assert np.abs(target.pose - poses(1)[0]).max() < PATH_KNOT
            assert np.abs(target.twist).max() < PATH_KNOT
            assert np.abs(target.acceleration).max() < PATH_KNOT


def test_figure_of_eight_is_as_large_as_asked_and_crosses_in_the_middle():
    path = eight()
    seen = np.array([path.at(t).pose[:3, 3] for t in np.linspace(1.0, path.times[-1], 4001)])
    seen -= poses(1)[0][:3, 3]
    assert np.abs(np.ptp(seen, axis=0) - [0.0, 0.3, 0.15]).max() < 1e-5
    assert np.abs(seen.max(axis=0) + seen.min(axis=0)).max() < 1e-5


def test_figure_of_eight_takes_a_period_a_turn():
    path = eight(turns=3.0, period=2.0)
    assert abs(path.times[-1] - path.times[0] - (3 * 2.0 + 0.5)) < PATH_KNOT
    middle = 0.5 * (path.times[0] + path.times[-1])
    one, next_one = path.at(middle - 1.0), path.at(middle + 1.0)
    assert np.abs(one.pose - next_one.pose).max() < 1e-6


def test_figure_of_eight_swings_about_the_base_x_axis():
    path = eight(swing=0.3)
    turns = np.array([pose_error(poses(1)[0], path.at(t).pose)[:3]
                      for t in np.linspace(1.0, path.times[-1], 2001)])
    assert np.abs(turns[:, 1:]).max() < PATH_KNOT
    assert abs(np.abs(turns[:, 0]).max() - 0.3) < 1e-6


def test_figure_of_eight_has_the_derivatives_it_says():
    path = eight()
    assert_derivatives(path, np.random.default_rng(2).uniform(1.01, path.times[-1] - 0.01, 60))


@pytest.mark.parametrize('changes', [
    {'period': 0.0}, {'period': -4.0}, {'turns': 0.0}, {'turns': -1.0}, {'turns': 1.3},
    {'turns': np.nan}, {'rate': 0.0}, {'period': np.nan}])
def test_a_figure_of_eight_that_does_not_close_is_refused(changes):
    with pytest.raises(InputError, match='^figure of eight.*halves'):
        eight(**changes)
