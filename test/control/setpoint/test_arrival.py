# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A goal is reached when the link has stayed within the tolerances for the settle time."""

import numpy as np
import pytest

from arm import Arm, moved
from osc_ros.control.setpoint.arrival import Arrival, NO_GOAL, ON_THE_WAY, REACHED, Tolerance
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator, STOP, TwistGoal
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.look_at import LookAt
from osc_ros.control.tasks.task import Gains, TargetLimits, Task
from set_points import target_at

TOLERANCE = Tolerance(rotation=0.01, translation=0.002, settle_time=0.1)
NEAR, FAR = np.full(6, 5e-4), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.1])


def updates(arrival, error, begin, end):
    """Update every 20 ms; return the times at which the goal was reached."""
    return [time for time in np.arange(begin, end, 0.02)
            if arrival.update(time, error, TOLERANCE)]


def test_goal_is_reached_once_after_the_settling_time():
    arrival = Arrival()
    arrival.begin()
    assert updates(arrival, FAR, 0.0, 1.0) == [] and arrival.state == ON_THE_WAY
    assert arrival.distance == pytest.approx(0.1) and arrival.angle == 0.0
    assert updates(arrival, NEAR, 1.0, 2.0) == pytest.approx([1.1], abs=0.021)
    assert arrival.state == REACHED
    assert updates(arrival, FAR, 2.0, 3.0) == [] and arrival.state == REACHED


@pytest.mark.parametrize('error', [[0.02, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0.003, 0]])
def test_angle_and_distance_both_count(error):
    arrival = Arrival()
    assert updates(arrival, np.array(error), 0.0, 1.0) == []


def test_arm_that_passes_its_goal_has_not_reached_it():
    arrival = Arrival()
    for begin in np.arange(0.0, 1.0, 0.1):
        assert updates(arrival, NEAR, begin, begin + 0.05) == []
        assert updates(arrival, FAR, begin + 0.05, begin + 0.1) == []


def test_same_goal_sent_ten_times_a_second_is_answered_each_time():
    arrival, reached = Arrival(), []
    for begin in np.arange(0.0, 1.0, 0.1):
        arrival.begin()
        reached += updates(arrival, NEAR, begin, begin + 0.1)
    assert len(reached) == 9


def test_without_a_goal_there_is_no_distance_and_a_clock_that_starts_over_waits_again():
    arrival = Arrival()
    updates(arrival, NEAR, 0.0, 1.0)
    assert not arrival.update(1.0, None, TOLERANCE)
    assert arrival.state == NO_GOAL and np.isnan(arrival.distance)
    arrival.begin()
    arrival.update(100.0, NEAR, TOLERANCE)
    assert updates(arrival, NEAR, 0.0, 0.09) == []


def test_goal_of_a_guide_is_the_end_of_the_newest_motion():
    limits = TargetLimits(box=[[-1.0] * 3, [1.0] * 3])
    guide, there, beyond = SetPointGenerator(np.eye(4)), np.eye(4), np.eye(4)
    there[0, 3], beyond[0, 3] = 0.3, 5.0
    assert guide.goal is None
    guide.add(PoseGoal(there), 10.0)  # a motion has a goal even before it begins
    np.testing.assert_array_equal(guide.goal, there)
    guide.add(Path([20.0, 21.0], [there, np.eye(4)]), 20.0)
    np.testing.assert_array_equal(guide.goal, np.eye(4))
    for time in np.arange(0.0, 25.0, 0.01):
        target_at(guide, time, limits)
        guide.plan()
    np.testing.assert_allclose(guide.goal, np.eye(4), atol=1e-9)  # a path that has ended
    guide.add(PoseGoal(beyond), 25.0)
    assert guide.goal[0, 3] == 1.0  # the nearest position inside of the box
    for motion in (TwistGoal(np.full(6, 0.1), 26.0), STOP):
        guide.add(motion, 25.0)
        assert guide.goal is None


def test_distance_to_the_goal_is_along_the_axes_of_motion_of_the_task():
    arm = Arm(tasks=[Task(Gains([20.0] * 6, [1.0] * 6, (2.5, 1.0), (60.0, 20.0)),
                          axes=('motion',) * 5 + ('free',), frame='panda_hand_tcp')],
              limits=TargetLimits())
    goal = moved(arm.pose, shift=(0.05, 0.0, 0.1), turn=(0.0, 0.0, 0.2))
    arm.law.follow(PoseGoal(goal), 0.0)
    arm.run(0.01)
    level = arm.law.levels['tip']
    expected = pose_error(level.pose, goal)
    z = level.pose[:3, 2]
    expected[3:] -= z * (z @ expected[3:])
    np.testing.assert_allclose(level.approach().error(), expected, atol=1e-9)
    arm.run(2.0)
    assert np.abs(level.approach().error()).max() < 1e-3


def test_link_that_points_at_its_goal_has_reached_it():
    kind, pose, goal = LookAt(axis=(0.0, 0.0, 2.0)), np.eye(4), np.eye(4)
    pose[:3, 3] = 0.1, 0.2, 0.3
    goal[:3, 3] = 0.1, 0.2, 5.0
    np.testing.assert_array_equal(kind.error(pose, goal), np.zeros(6))
    goal[:3, 3] = 4.1, 0.2, 0.3
    np.testing.assert_allclose(kind.error(pose, goal), [0, np.pi / 2, 0, 0, 0, 0], atol=1e-12)
    goal[:3, 3] = 0.1, 0.2, -3.0
    np.testing.assert_allclose(kind.error(pose, goal), [np.pi, 0, 0, 0, 0, 0], atol=1e-12)
