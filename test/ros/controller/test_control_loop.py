# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The control loop: no other message delays, stops or changes its commands."""

from time import perf_counter

import numpy as np
import pytest

from arm import Arm, moved, PERIOD, READY
from common import PATIENCE
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.setpoint.trajectory import figure_of_eight, Path, PoseGoal
from osc_ros.control.tasks.task import TargetLimits
from osc_ros.errors import InputError
from osc_ros.loop import requests
import tolerances

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import Transform, Twist, Vector3  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint  # noqa: E402

from node_rig import gravity, Hardware, Rig, use_newest_publisher  # noqa: E402
from osc_ros.ros.controller.diagnosis import state_delay  # noqa: E402
from osc_ros.ros.messages import messages, serialized  # noqa: E402
from osc_ros.ros.process.node_process import EventsExecutor  # noqa: E402
from variants import first_quick  # noqa: E402


@pytest.fixture
def alone(spin):
    """
    Return (rig, hardware, answered) with an active controller whose executor does not spin.

    Only its control loop runs, as if a callback did not return. `answered(**state)` sends states
    until one of them is answered, and returns the torque.

    """
    rig = Rig(spin).activate()
    hardware, executor = Hardware(), EventsExecutor()
    hardware.tick = rig.hardware.tick
    executor.add_node(hardware)
    use_newest_publisher(rig, hardware.state)

    def answered(**state):
        labels, deadline = [], perf_counter() + PATIENCE
        while not any(hardware.answer(label) is not None for label in labels):
            assert perf_counter() < deadline, 'no state was answered'
            labels.append(hardware.state(**state))  # repeat: discovery may miss the first
            executor.spin_once(timeout_sec=0.1)
        return next(hardware.answer(label) for label in labels
                    if hardware.answer(label) is not None)

    answered()
    yield rig, hardware, answered
    executor.remove_node(hardware)
    hardware.destroy_node()
    executor.shutdown()


def test_states_are_answered_while_all_else_in_the_process_is_blocked(alone):
    rig, hardware, answered = alone
    path = figure_of_eight(rig.controller._law.pose, 0.1, 0.1, 2.0, 1.0, 0.0)
    hardware.paths.publish(messages.trajectory_message(path, 'panda_link0', 'panda_hand_tcp'))
    for _ in range(50):
        np.testing.assert_allclose(answered(), gravity(READY), atol=1e-8)


def test_bad_states_are_refused_while_all_else_is_blocked_and_good_ones_answered(alone):
    rig, hardware, answered = alone
    before = rig.controller._loop.engine.counts.refused
    for _ in range(5):
        hardware.state([float('nan')] * 7)
        answered()
    assert rig.controller._loop.engine.counts.refused > before


def test_age_of_states_by_their_stamps_counts_as_delay_unless_they_are_of_another_clock(alone):
    rig, _, _ = alone
    loop = rig.controller._loop
    for ages, delay in (([0.02] * 50, 0.02), ([3e4] * 200, 0.0), ([-0.5] * 500, 0.0)):
        for age in ages:
            loop.engine.counts.ages.add(age)
        assert state_delay(loop.request(requests.timing)) == pytest.approx(delay)


def test_defect_in_the_loop_is_logged_and_the_arm_gets_a_torque(spin, monkeypatch):
    rig = Rig(spin).activate()
    with monkeypatch.context() as patch:
        def broken(*_):
            raise RuntimeError('a wire is loose')

        for name in ('conclude', 'update'):  # states answered in compiled code, or by Python
            patch.setattr(type(rig.controller._loop.engine), name, broken)
        rig.until_said('control loop: RuntimeError: a wire is loose', rig.hardware.state)
        rig.until_held(gravity(READY))
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def random_trajectory(rng, points):
    """Return a trajectory message with strings and sequences of random lengths."""
    def vector():
        return Vector3(**dict(zip('xyz', rng.normal(size=3))))

    message = MultiDOFJointTrajectory(joint_names=['n' * k for k in rng.integers(0, 9, 3)])
    message.header.frame_id = 'f' * int(rng.integers(0, 9))
    message.header.stamp = messages.stamp(float(rng.integers(0, 99)))
    for k in range(points):
        point = MultiDOFJointTrajectoryPoint(
            transforms=[Transform(translation=vector()) for _ in range(rng.integers(0, 3))],
            velocities=[Twist(linear=vector(), angular=vector())
                        for _ in range(rng.integers(0, 3))],
            accelerations=[Twist(linear=vector()) for _ in range(rng.integers(0, 3))])
        point.time_from_start.sec, point.time_from_start.nanosec = k - 2, 500_000_000
        message.points.append(point)
    return message


@pytest.mark.parametrize('seed', first_quick(range(20), 5))
def test_serialized_trajectory_is_read_as_rclpy_reads_it(seed):
    rng = np.random.default_rng(seed)
    message = random_trajectory(rng, int(rng.integers(0, 6)))
    found = serialized.trajectory(serialize_message(message))
    assert found.frame == message.header.frame_id
    assert found.stamp == messages.seconds(message.header.stamp)
    np.testing.assert_allclose(found.times, rtol=1e-15, desired=[
        messages.seconds(point.time_from_start) for point in message.points])
    for k, point in enumerate(message.points):
        fields = point.transforms, point.velocities, point.accelerations
        np.testing.assert_array_equal(found.counts[k], [len(field) for field in fields])
        if point.transforms:
            p = point.transforms[0].translation
            np.testing.assert_array_equal(found.poses[k], [p.x, p.y, p.z, 0.0, 0.0, 0.0, 1.0])
        for row, twists in ((found.twists[k], point.velocities),
                            (found.accelerations[k], point.accelerations)):
            if twists:
                v, w = twists[0].linear, twists[0].angular
                np.testing.assert_array_equal(row, [v.x, v.y, v.z, w.x, w.y, w.z])


def test_serialized_trajectory_that_is_cut_short_anywhere_is_refused():
    data = serialize_message(random_trajectory(np.random.default_rng(1), 3))
    for size in range(16, len(data) - 4, 4):
        with pytest.raises(InputError, match='target_trajectory: .*cut'):
            serialized.trajectory(data[:size])


@pytest.mark.parametrize('seed', first_quick(range(4)))
def test_targets_planned_after_the_torque_was_sent_give_the_same_torques(seed):
    torques = []
    for plans in (False, True):
        rng, arm = np.random.default_rng(seed), Arm(limits=TargetLimits())
        for _ in range(8):
            time = arm.plant.time
            pose = moved(arm.pose, rng.uniform(-0.1, 0.1, 3), rng.uniform(-0.3, 0.3, 3))
            arm.law.follow((PoseGoal(pose), TwistGoal(rng.uniform(-0.1, 0.1, 6), time + 0.2),
                            Path([time + 0.3, time + 3.0], [arm.pose, pose]))[rng.integers(3)],
                           time + 0.01)
            arm.run(time + 0.15, each=arm.law.plan if plans else lambda: None)
        torques.append(arm.torques)
    np.testing.assert_array_equal(*torques)


def test_settings_prepared_beside_the_running_law_are_taken_without_a_step():
    arm = Arm(limits=TargetLimits())
    arm.law.follow(figure_of_eight(arm.pose, 0.2, 0.1, 2.0, 3.0, 0.0), 0.0)
    arm.run(0.5)
    robot = arm.law.robot.with_payload(1.0)
    prepared = arm.law.new_setup(arm.law.settings, robot)
    arm.run(0.8)  # the old setup is still in use
    arm.law.use_setup(prepared)
    arm.run(0.8 + 3.0 * PERIOD)
    steps = np.abs(np.diff(arm.torques, axis=0)).max(axis=1)
    assert steps[-3:].max() < 1.5 * steps[-50:-3].max()
    assert arm.law.robot is robot


def test_long_path_of_poses_is_the_spline_that_a_solution_in_one_piece_gives(monkeypatch):
    whole = figure_of_eight(np.eye(4), 0.3, 0.2, 2.0, 3.0, 0.0, rate=200.0, swing=0.4)
    found = Path(whole.times, whole.poses)
    monkeypatch.setattr('osc_ros.control.setpoint.pieces.PART', 10_000)
    once = Path(whole.times, whole.poses)
    for time in np.linspace(0.0, 7.0, 200):
        for a, b in ((found.at(time).twist, once.at(time).twist),
                     (found.at(time).acceleration, once.at(time).acceleration)):
            np.testing.assert_allclose(a, b, atol=tolerances.SPLINE_IN_PIECES)
