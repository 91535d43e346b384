# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Commands of the joints over ROS: their topics, answers, and what the action decides."""

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticStatus  # noqa: E402
from geometry_msgs.msg import TwistStamped, WrenchStamped  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from trajectory_msgs.msg import (  # noqa: E402
    JointTrajectory,
    JointTrajectoryPoint,
    MultiDOFJointTrajectory,
)

from node_rig import given, JOINTS, READY, Rig, target  # noqa: E402
from osc_ros.control.setpoint.posture import motion_of  # noqa: E402
from osc_ros.loop import requests  # noqa: E402
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

    def go_to_tick(self, tick):
        """Send the next state with the stamp of this tick; wait until the controller knows it."""
        self.hardware.tick = tick
        self.ask()
        # a torque is published before the loop records the state that it answers
        self.spin(lambda: self.controller._loop.time > 0.002 * tick, why='for the time')

    def tell(self, publisher, message, after=0.0):
        """
        Publish until there is an answer to this message; return it.

        Its stamp is `after` [s] that of the newest state.

        """
        self.marks += 1  # stamps that differ by 1 ns
        message.header.stamp = messages.stamp(0.002 * self.hardware.tick + after
                                              + 1e-9 * self.marks)
        self.label = messages.label_of(message.header.stamp)

        def answered():
            publisher.publish(message)
            return self.answers_to(self.label)

        self.spin(answered, why='for an answer')
        return self.answers_to(self.label)[0]

    def answers_to(self, label):
        """Return the answers to the command with a stamp."""
        return [one for one in self.answers if any(
            pair.key == 'stamp' and pair.value == label for pair in one.values)]

    def until_dropped(self, label, text):
        """Send states until the goal of a command has a second answer, which contains a text."""
        def dropped():
            self.ask()
            return any(one.level == DiagnosticStatus.ERROR and text in one.message
                       for one in self.answers_to(label))

        self.spin(dropped, why=f'for a second answer: {text}')

    def goal(self, names, positions):
        return self.tell(self.goals, JointState(name=list(names), position=list(positions)))

    def trajectory(self, names, times, rows, velocities=(), after=0.0):
        velocities = velocities or [[]] * len(rows)
        return self.tell(self.trajectories, JointTrajectory(joint_names=list(names), points=[
            JointTrajectoryPoint(positions=list(row), velocities=list(rate),
                                 time_from_start=messages.duration(time))
            for time, row, rate in zip(times, rows, velocities)]), after)


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


@pytest.mark.parametrize('first', [0.0, 1.0])
def test_trajectory_that_begins_later_rests_until_then(spin, first):
    rig = Answering(spin)
    far = (first + 1.0, first + 2.0)
    times, rows = [first, *far], [READY + 0.01 * (first > 0.0), READY + 0.05, READY + 0.1]
    answer = rig.trajectory(JOINTS, times, rows, after=30.0)
    assert (answer.level, answer.message) == (DiagnosticStatus.OK, 'begins in 30 s')
    motion = rig.controller._loop.read(lambda engine: motion_of(engine.law.joints))
    for time in np.linspace(0.0, 30.0, 50):
        np.testing.assert_allclose(motion.at(time)[0], READY, atol=1e-3)  # it swung back by 0.26
    for time, row in zip(times, rows):
        np.testing.assert_allclose(motion.at(30.0 + time)[0], row, atol=1e-3)
    rig.trajectory(JOINTS, [0.0], [READY + 0.1], after=10.0)  # a goal for this time
    motion = rig.controller._loop.read(lambda engine: motion_of(engine.law.joints))
    np.testing.assert_allclose(motion.at(10.0)[0], READY + 0.1, atol=1e-2)
    assert motion.duration == pytest.approx(10.0, abs=0.1)
    rig.goal(JOINTS, READY + 0.5)
    for _ in range(100):
        rig.ask()
    answer = rig.trajectory(JOINTS, far, rows[1:], after=30.0)
    assert answer.level == DiagnosticStatus.ERROR and 'the joints move' in answer.message
    assert rig.trajectory(JOINTS, far, rows[1:], after=0.2).level == DiagnosticStatus.OK


@pytest.mark.parametrize('names, times, rows, text', [
    (['elbow'], [1.0], [[0.0]], "no joint 'elbow'.*panda_joint1"),
    ([], [1.0], [[]], 'one or more names'),
    (JOINTS[:1] * 2, [1.0], [[0.0, 0.0]], 'each once'),
    (JOINTS, [], [], 'no points'),
    (JOINTS, [1.0], [READY[:3]], '7 finite numbers'),
    (JOINTS, [1.0], [READY * np.nan], 'finite'),
    (JOINTS, [2.0, 1.0], [READY, READY], 'point 1 is at 1 s.*increasing'),
    (JOINTS, [-1.0], [READY], 'point 0 is at -1 s'),
    (JOINTS, [1.0], [READY + 9.0], "'panda_joint.*must be"),
    (JOINTS, [1e9], [READY], 'another clock'),
    (JOINTS, [0.05], [READY + 0.5], 'speed')])
def test_wrong_trajectories_are_refused_and_the_goal_stays(spin, names, times, rows, text):
    import re
    rig = Answering(spin)
    assert rig.goal(JOINTS, READY + 0.1).level == DiagnosticStatus.OK
    answer = rig.trajectory(names, times, rows)
    assert answer.level == DiagnosticStatus.ERROR
    assert re.search(text, answer.message), answer.message
    np.testing.assert_allclose(rig.joints, READY + 0.1)


def publisher(rig, kind, topic):
    """Return a publisher of commands that the controller hears."""
    found = rig.hardware.create_publisher(kind, f'osc_controller/{topic}', 10)
    rig.spin(lambda: found.get_subscription_count() > 0)
    return found


def test_stick_at_rest_and_refused_commands_end_no_goal(spin):
    rig = Answering(spin)
    twists, wrenches, chunks = (publisher(rig, *one) for one in (
        (TwistStamped, 'target_twist'), (WrenchStamped, 'target_wrench'),
        (MultiDOFJointTrajectory, 'target_chunk')))
    drift = TwistStamped()
    drift.twist.linear.y = 1e-9  # of a stick
    push = WrenchStamped()
    push.wrench.force.z = -5.0  # no axis has force control
    rig.goal(JOINTS, READY + 0.1)
    for where, message, level in (
            (twists, TwistStamped(), DiagnosticStatus.OK),
            (twists, drift, DiagnosticStatus.OK),
            (wrenches, WrenchStamped(), DiagnosticStatus.OK),
            (wrenches, push, DiagnosticStatus.ERROR),
            (chunks, MultiDOFJointTrajectory(), DiagnosticStatus.ERROR),
            (rig.hardware.poses, target((9.0, 0.0, 0.4)), DiagnosticStatus.WARN)):
        assert rig.tell(where, message).level == level
        assert rig.controller.get_parameter('mode').value == 'joints'
        np.testing.assert_allclose(rig.joints, READY + 0.1)
    rig.tell(rig.hardware.poses, target((0.4, 0.1, 0.4)))
    for _ in range(3):
        rig.ask()
        assert rig.tell(twists, TwistStamped()).level == DiagnosticStatus.OK
        rig.ask()
        assert rig.controller._loop.read(requests.has_goal, 'tip')


def test_old_commands_and_those_of_another_clock_are_refused(spin):
    rig = Answering(spin)
    rig.hardware.tick = 10_000  # 20 s
    rig.ask()
    wrenches = publisher(rig, WrenchStamped, 'target_wrench')
    for after, text in ((-8.0, 'older than'), (1e6, 'another clock')):
        for where, message in (
                (rig.hardware.poses, target()), (wrenches, WrenchStamped()),
                (rig.goals, JointState(name=list(JOINTS), position=list(READY))),
                (rig.trajectories, JointTrajectory(joint_names=list(JOINTS), points=[
                    JointTrajectoryPoint(positions=list(READY + 0.1))]))):
            answer = rig.tell(where, message, after)
            assert answer.level == DiagnosticStatus.ERROR
            assert text in answer.message


def test_point_that_is_a_little_late_is_a_goal_for_now(spin):
    rig = Answering(spin)
    rig.go_to_tick(1000)
    answer = rig.trajectory(JOINTS, [0.1], [READY + 0.1], after=-0.1001)
    assert answer.level == DiagnosticStatus.WARN and 'goal for now' in answer.message
    np.testing.assert_allclose(rig.joints, READY + 0.1)


def test_goal_that_is_dropped_after_its_answer_has_a_second_one(spin):
    rig = Answering(spin)
    rig.go_to_tick(1000)

    def later():
        answer = rig.tell(rig.hardware.poses, target((0.4, 0.1, 0.4)), after=9.0)
        assert answer.level == DiagnosticStatus.OK
        assert 'begins in 9 s' in answer.message
        return rig.label

    label = later()
    rig.tell(rig.hardware.poses, target((0.4, 0.0, 0.4)))
    present = rig.label
    rig.until_dropped(label, 'target_pose')
    label = later()
    for k in (1, 2):  # the second change waits for the first one
        [result] = rig.controller.set_parameters(given(tool__position=[0.0, 0.0, 0.1 * k]))
        assert result.successful, result.reason
        rig.until_dropped(label, 'the tool was changed')
        if k == 1:
            rig.until_dropped(present, 'the tool was changed')
            label = later()
    label = later()
    rig.goal(JOINTS, READY + 0.1)
    rig.until_dropped(label, 'mode joints')
    label = rig.label
    rig.hardware.tick = 10  # the clock is reset
    rig.until_dropped(label, 'went back')
    label = later()
    rig.hardware.tick += 8000
    rig.until_dropped(label, 'too late')


def test_three_chunks_that_come_too_late_are_a_reason_with_times(spin):
    rig = Answering(spin)
    chunks = publisher(rig, MultiDOFJointTrajectory, 'target_chunk')
    rig.go_to_tick(1000)
    pose = rig.controller._law.target.pose
    message = messages.chunk_message(np.array([0.1, 0.2]), np.array([pose] * 2), 1.0, '')
    said = [rig.tell(chunks, message, after=-1.2).message for _ in range(3)]
    assert all('the chunk is over' in one for one in said)
    assert 'come 1.2' not in said[0] and 'came 1.22 s after' in said[-1]
    assert 'end 0.2 s after' in said[-1]


def test_goal_is_refused_while_the_controller_is_not_active(spin):
    rig = Answering(spin).deactivate()
    answer = rig.goal(JOINTS, READY)
    assert (answer.level, answer.message) == (
        DiagnosticStatus.ERROR, 'the controller is not active')
