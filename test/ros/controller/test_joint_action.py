# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The action FollowJointTrajectory of control_msgs, on a simulated arm over DDS."""

import numpy as np
import pytest

pytest.importorskip('control_msgs', reason='control_msgs is not on PyPI: a ROS installation '
                    'has it (ros-…-control-msgs)')

from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from rclpy.action import ActionClient
from trajectory_msgs.msg import JointTrajectoryPoint

from common import PATIENCE
from osc_ros.ros.messages import messages
from ros_arm import client_over_ros, HOME

START = np.array(HOME)
CODES = FollowJointTrajectory.Result


@pytest.fixture(scope='module')
def arm(ros):
    with client_over_ros(ros) as arm:
        yield arm


class Client:
    """An action client in the node of an arm's client."""

    def __init__(self, arm):
        self._backend, self.names = arm._backend, arm.joint_names
        self._client = ActionClient(self._backend._node, FollowJointTrajectory,
                                    '/osc_controller/follow_joint_trajectory')
        assert self._client.wait_for_server(timeout_sec=PATIENCE)
        self.feedback = []

    def send(self, times, rows, velocities=None, names=None, **tolerances):
        """Send a goal; return its handle."""
        goal = FollowJointTrajectory.Goal()
        goal.trajectory.joint_names = list(self.names if names is None else names)
        velocities = [[]] * len(rows) if velocities is None else velocities
        goal.trajectory.points = [
            JointTrajectoryPoint(positions=list(map(float, row)), velocities=list(rate),
                                 time_from_start=messages.duration(time))
            for time, row, rate in zip(times, rows, velocities)]
        for name, value in tolerances.items():
            setattr(goal, name, [JointTolerance(name=self.names[0], position=value)])
        sent = self._client.send_goal_async(goal, feedback_callback=self.feedback.append)
        assert self._backend.wait(sent.done, PATIENCE)
        assert sent.result().accepted
        return sent.result()

    def result(self, handle):
        """Wait for the end of a goal; return its status and its result."""
        end = handle.get_result_async()
        assert self._backend.wait(end.done, PATIENCE)
        return end.result().status, end.result().result


@pytest.fixture(scope='module')
def only(arm):
    """Return a client; it is not destroyed, because another thread spins its node."""
    return Client(arm)


@pytest.fixture
def client(arm, only):
    arm.move_joints(START)
    only.feedback.clear()
    return only


def test_trajectory_of_a_thousand_points_is_followed(arm, client):
    times = np.linspace(0.003, 3.0, 1000)
    share = 0.5 - 0.5 * np.cos(2.0 * np.pi * times / 3.0)
    rows = START + share[:, None] * 0.3
    status, result = client.result(client.send(times, rows))
    assert (status, result.error_code, result.error_string) == (
        GoalStatus.STATUS_SUCCEEDED, CODES.SUCCESSFUL, '')
    np.testing.assert_allclose(arm.state().q, START, atol=0.01)
    found = [one.feedback for one in client.feedback]
    assert len(found) > 20
    assert tuple(found[0].joint_names) == arm.joint_names
    desired = np.array([one.desired.positions for one in found])
    assert np.abs(desired - START).max() > 0.28
    error = desired - [one.actual.positions for one in found]
    np.testing.assert_allclose(error, [one.error.positions for one in found], atol=1e-12)
    assert np.abs(error).max() < 0.02


def test_goal_is_canceled_and_the_joints_stop(arm, client):
    handle = client.send([600.0], [START + 0.5])
    assert arm._backend.wait(lambda: client.feedback, PATIENCE)
    canceled = handle.cancel_goal_async()
    assert arm._backend.wait(canceled.done, PATIENCE)
    status, _ = client.result(handle)
    assert status == GoalStatus.STATUS_CANCELED
    arm.sleep(0.5)
    assert np.abs(arm.state().qd).max() < 1e-2


def test_new_goal_and_a_command_of_the_tip_replace_a_goal(arm, client):
    first = client.send([600.0], [START + 0.5])
    second = client.send([600.0], [START - 0.5])
    status, result = client.result(first)
    assert (status, 'new goal' in result.error_string) == (GoalStatus.STATUS_ABORTED, True)
    arm.move_to(arm.pose(), wait=False)
    status, result = client.result(second)
    assert (status, 'command of the tip' in result.error_string) == (
        GoalStatus.STATUS_ABORTED, True)


def test_tolerances_abort_a_goal_with_the_joint_and_its_error(arm, client):
    status, result = client.result(client.send(
        [2.0], [START + np.eye(7)[0]], path_tolerance=1e-6))
    assert (status, result.error_code) == (
        GoalStatus.STATUS_ABORTED, CODES.PATH_TOLERANCE_VIOLATED)
    assert "'panda_joint1'" in result.error_string
    assert 'accepted 1e-06' in result.error_string


@pytest.mark.parametrize('times, rows, names, text', [
    ([1.0], [[0.0]], ['elbow'], "no joint 'elbow'"), ([], [], None, 'no points'),
    ([2.0, 1.0], [START, START], None, 'increasing'),
    ([1.0], [START * np.nan], None, 'finite'), ([1.0], [START + 9.0], None, 'it must be'),
    ([0.01], [START + 0.5], None, 'speed')])
def test_wrong_goal_is_aborted_with_the_reason(client, times, rows, names, text):
    status, result = client.result(client.send(times, rows, names=names))
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, CODES.INVALID_GOAL)
    assert text in result.error_string
