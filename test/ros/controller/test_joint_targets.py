# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Commands of the joints over ROS: their topics, answers, and what the action decides."""

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticStatus  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint  # noqa: E402

from node_rig import JOINTS, READY, Rig, target  # noqa: E402
from osc_ros.ros.messages import messages  # noqa: E402


class Answering(Rig):
    """An active controller, its joint topics and its answers."""

    def __init__(self, spin, **parameters):
        super().__init__(spin, **parameters)
        self.answers, self.marks = [], 0
        tell = self.hardware.create_publisher
        self.goals = tell(JointState, 'osc_controller/target_joint', 10)
        self.trajectories = tell(JointTrajectory, 'osc_controller/joint_trajectory', 10)
        self.hardware.create_subscription(DiagnosticStatus, 'osc_controller/answers',
                                          self.answers.append, 100)
        self.activate()
        spin(lambda: self.goals.get_subscription_count() > 0
             and self.trajectories.get_subscription_count() > 0
             and self.hardware.count_publishers('osc_controller/answers') > 0)

    @property
    def joints(self):
        """The set-point of the joints."""
        return self.controller._loop.read(lambda engine: engine.law.joints.wanted)

    def tell(self, publisher, message):
        """Publish until there is an answer to this message; return it."""
        self.marks += 1  # stamps that differ by 1 ns
        message.header.stamp = messages.time_of((0, 2_000_000 * self.hardware.tick + self.marks))
        label = messages.label_of(message.header.stamp)
        found = []

        def answered():
            publisher.publish(message)
            found.extend(one for one in self.answers if any(
                pair.key == 'stamp' and pair.value == label for pair in one.values))
            return found

        self.spin(answered, why='for an answer')
        return found[0]

    def goal(self, names, positions):
        return self.tell(self.goals, JointState(name=list(names), position=list(positions)))

    def trajectory(self, names, times, rows, velocities=()):
        velocities = velocities or [[]] * len(rows)
        return self.tell(self.trajectories, JointTrajectory(joint_names=list(names), points=[
            JointTrajectoryPoint(positions=list(row), velocities=list(rate),
                                 time_from_start=messages.duration(time))
            for time, row, rate in zip(times, rows, velocities)]))


def test_goals_of_joints_lead_and_a_pose_of_the_tip_takes_over(spin):
    rig = Answering(spin)
    answer = rig.goal(JOINTS[2:4], [0.2, -2.0])
    assert (answer.level, answer.name, answer.message) == (
        DiagnosticStatus.OK, 'target_joint', '')
    wanted = READY.copy()
    wanted[2:4] = 0.2, -2.0
    np.testing.assert_allclose(rig.joints, wanted)
    assert rig.controller.get_parameter('mode').value == 'joints'
    before = rig.ask()

    def has_moved():
        return np.abs(rig.ask() - before).max() > 0.05

    spin(has_moved, why='for torques that move the joints')
    answer = rig.tell(rig.hardware.poses, target())
    assert (answer.level, answer.name) == (DiagnosticStatus.OK, 'target_pose')
    assert rig.controller.get_parameter('mode').value == 'acceleration'


def test_trajectory_ends_at_its_last_point(spin):
    rig = Answering(spin)
    there = READY + 0.1
    answer = rig.trajectory(JOINTS[::-1], [1.0, 2.0], [READY[::-1] + 0.05, there[::-1]])
    assert answer.level == DiagnosticStatus.OK
    np.testing.assert_allclose(rig.joints, there)
    answer = rig.trajectory(JOINTS[:1], [1.0], [[0.2]], [[0.0]])
    assert answer.level == DiagnosticStatus.OK
    np.testing.assert_allclose(rig.joints, [0.2, *there[1:]])


@pytest.mark.parametrize('names, times, rows, text', [
    (['elbow'], [1.0], [[0.0]], "no joint 'elbow'.*panda_joint1"),
    ([], [1.0], [[]], 'one or more names'),
    (JOINTS[:1] * 2, [1.0], [[0.0, 0.0]], 'each once'),
    (JOINTS, [], [], 'no points'),
    (JOINTS, [1.0], [READY[:3]], '7 finite numbers'),
    (JOINTS, [1.0], [READY * np.nan], 'finite'),
    (JOINTS, [2.0, 1.0], [READY, READY], 'point 1 is at 1 s.*increasing'),
    (JOINTS, [-1.0], [READY], 'point 0 is at -1 s'),
    (JOINTS, [1.0], [READY + 9.0], "'panda_joint.*accepted is"),
    (JOINTS, [0.05], [READY + 0.5], 'speed')])
def test_wrong_trajectories_are_refused_and_the_goal_stays(spin, names, times, rows, text):
    import re
    rig = Answering(spin)
    assert rig.goal(JOINTS, READY + 0.1).level == DiagnosticStatus.OK
    answer = rig.trajectory(names, times, rows)
    assert answer.level == DiagnosticStatus.ERROR
    assert re.search(text, answer.message), answer.message
    np.testing.assert_allclose(rig.joints, READY + 0.1)


def test_goal_is_refused_while_the_controller_is_not_active(spin):
    rig = Answering(spin).deactivate()
    answer = rig.goal(JOINTS, READY)
    assert (answer.level, answer.message) == (
        DiagnosticStatus.ERROR, 'the controller is not active')
