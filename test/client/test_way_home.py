# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""After any goal the arm finds home; a goal is reached, or its cause is named, within 5 s."""

import numpy as np
import pytest

import osc_ros
from osc_ros.client.robots import SHIPPED
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.errors import ArmTimeoutError, InputError
from survey import urdf_texts
from variants import first_quick

FOREIGN = {'xarm7': ('xarm_description/urdf/xarm7.urdf', 'link_base', 'link_eef'),
           'z1': ('z1_description/urdf/z1.urdf', 'link00', 'gripperStator')}


def opened(name):
    """Return a simulated arm that is shipped, or one of FOREIGN."""
    if name in SHIPPED:
        return osc_ros.Arm.simulated(name)
    path, base, tip = FOREIGN[name]
    n = osc_ros.Robot.from_urdf(urdf_texts()[path], base, tip).n
    return osc_ros.Arm.simulated(urdf_texts()[path], base, tip, friction=[0.0] * n,
                                 damping=[0.0] * n)  # theirs would hold the light wrists


def random_pose(robot, rng):
    """Return the pose of the tip at random positions of the joints."""
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    return link_pose(robot, rng.uniform(lower, upper), robot.tip)


@pytest.mark.parametrize('count', [5, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize('name', first_quick(sorted(SHIPPED), 2))
def test_arm_finds_home_after_any_goal(name, count):
    rng, off = np.random.default_rng(0), []
    with osc_ros.Arm.simulated(name) as arm:
        robot, home = arm._backend.robot, arm.state().q
        lower, upper = robot.position_limits.T
        beyond = []
        arm._backend.listen(lambda state: beyond.append(
            np.max(np.maximum(lower - state.q, state.q - upper))))
        for _ in range(count):
            arm.move_to(random_pose(robot, rng), wait=False)
            arm.sleep(rng.uniform(0.2, 3.0))
            off.append(np.abs(arm.home().q - home).max())
        touched = max(beyond)
    print(f'{name}: {count} goals, home within {1e3 * max(off):.2f} mrad, nearest limit '
          f'{-1e3 * touched:.1f} mrad')
    assert max(off) < 1e-3
    assert touched < 0.0


@pytest.mark.parametrize('count', [10, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize('name', first_quick(['panda', 'xarm7', 'ur5e', 'z1'], 2))
def test_goal_is_reached_or_its_cause_is_named(name, count):
    rng, causes, times = np.random.default_rng(1), [], []
    with opened(name) as arm:
        robot = arm._backend.robot
        for _ in range(count):
            goal, begin = random_pose(robot, rng), arm.state().time
            try:
                arm.move_to(goal, timeout=20.0)
            except ArmTimeoutError as error:
                causes.append((str(error), [one.name for one in error.reasons]))
            times.append(arm.state().time - begin)
    print(f'{name}: {count} goals, {len(causes)} not reached; median {np.median(times):.2f} s, '
          f'longest {max(times):.2f} s', *causes[:10], sep='\n')
    assert all('unexplained' not in names for _, names in causes)
    assert len(causes) <= 0.1 * count


def test_home_is_found_from_home_and_a_path_back_to_its_start_is_waited_for():
    for k in range(8):
        with osc_ros.Arm.simulated('panda') as arm:
            q = arm.sleep(0.1 + 0.02 * k).q
            assert np.abs(arm.home().q - q).max() < 1e-3
    with osc_ros.Arm.simulated('panda') as arm:
        q, begin = arm.state().q, arm.state().time
        arm.follow_joints([q + 0.1, q], times=[1.0, 2.0])
        assert arm.wait().time > begin + 1.9
        assert not arm.state().error.any()  # the set-point of the tip does not lead


@pytest.mark.parametrize(('q', 'times', 'message'), [
    ([[np.nan] * 7], [1.0], '7 finite'), ({'panda_joint1': 0.0}, [1.0], 'rows of 7'),
    ([[0.0] * 6], [1.0], '7 finite'), ([[0.0] * 7], [1.0, 2.0], 'times')])
def test_wrong_paths_of_the_joints_are_refused(q, times, message):
    with osc_ros.Arm.simulated('panda') as arm, pytest.raises(InputError, match=message):
        arm.follow_joints(q, times)


def test_degrees_are_recognized():
    with osc_ros.Arm.simulated('panda') as arm, pytest.raises(InputError, match='degrees.*-0.78'):
        arm.move_joints({'panda_joint2': -45.0})
