# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Conversion of messages to arrays: refusals, and the order of linear and angular parts."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import Pose, Transform, Twist, TwistStamped, Vector3  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint  # noqa: E402

from osc_ros.control.setpoint.trajectory import figure_of_eight, Path  # noqa: E402
from osc_ros.errors import InputError  # noqa: E402
from osc_ros.ros.messages import commands, messages  # noqa: E402
from osc_ros.ros.messages.serialized_states import JointStateReader, UnrelatedError  # noqa: E402
from readers import found  # noqa: E402

NAMES = ('base', 'shoulder', 'elbow')


def state(names=NAMES, position=(1.0, 2.0, 3.0), velocity=(4.0, 5.0, 6.0)):
    """Return a serialized JointState message."""
    return serialize_message(JointState(
        name=list(names), position=list(position), velocity=list(velocity)))


def test_joints_are_taken_by_name_from_any_order_among_others():
    reader = JointStateReader(NAMES)
    _, q, qd, _ = found(reader, state(('finger', 'elbow', 'base', 'shoulder'),
                                      (9.0, 3.0, 1.0, 2.0), (8.0, 6.0, 4.0, 5.0)))
    np.testing.assert_array_equal(q, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(qd, [4.0, 5.0, 6.0])
    _, q, qd, _ = found(reader, state())  # the order may change between messages
    np.testing.assert_array_equal(q, [1.0, 2.0, 3.0])


@pytest.mark.parametrize('bad, message', [
    (state(('base', 'shoulder', 'wrist')), r"'elbow' \(has: base, shoulder, wrist\)"),
    (state(('base', 'base', 'elbow', 'shoulder'), [0.0] * 4, [0.0] * 4), "'base' .*once"),
    (state((), (), ()), r"'base' \(has: none\)"),
    (state(velocity=()), '3 names.* 0 .*velocity: give'),
    (state(position=(1.0, 2.0)), '3 names.* 2 .*position'),
    (state(position=(1.0, np.nan, 3.0)), "position .*'shoulder' .*nan: give"),
    (state(velocity=(4.0, 5.0, np.inf)), "velocity .*'elbow' .*inf"),
], ids=('missing', 'twice', 'empty', 'no velocities', 'too few positions', 'nan', 'inf'))
def test_bad_joint_states_are_refused_by_message(bad, message):
    reader = JointStateReader(NAMES)
    with pytest.raises(InputError, match=message):
        found(reader, bad)
    _, q, *_ = found(reader, state())  # the next state is accepted
    np.testing.assert_array_equal(q, [1.0, 2.0, 3.0])


def test_state_of_another_device_is_told_from_one_that_lacks_a_joint():
    reader = JointStateReader(NAMES)
    with pytest.raises(UnrelatedError, match="'base' .*finger, thumb"):
        found(reader, state(('finger', 'thumb'), (0.0, 0.0), (0.0, 0.0)))
    with pytest.raises(InputError) as caught:
        found(reader, state(('finger', 'base'), (0.0, 0.0), (0.0, 0.0)))
    assert not isinstance(caught.value, UnrelatedError)


def test_nan_of_a_joint_that_is_not_ours_does_not_matter():
    reader = JointStateReader(('base',))
    _, q, *_ = found(reader, state(position=(1.0, np.nan, np.nan), velocity=(4.0, np.nan, np.nan)))
    np.testing.assert_array_equal(q, [1.0])


def test_times_survive_the_way_to_a_stamp_and_back():
    for time in (0.0, 0.002, 1.999999999, 12345.678901234):
        assert abs(messages.seconds(messages.stamp(time)) - time) < 1e-9


def test_command_says_which_state_it_answers():
    command = commands.Command(2)
    message = deserialize_message(command.fill(
        np.array([1.0, -2.0]), messages.label_of(messages.stamp(1.002))), Float64MultiArray)
    assert commands.label(message) == '1.002000000'
    assert list(message.data) == [1.0, -2.0]
    assert commands.label(Float64MultiArray(data=[1.0])) == ''


@pytest.mark.parametrize('angle', [0.0, 1e-9, 3.0, np.pi - 1e-9, np.pi, 4.0])
@pytest.mark.parametrize('axis', [(1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 2, 2), (2, 2, -1)])
def test_rotation_goes_to_a_quaternion_and_back_at_half_a_turn_too(axis, angle):
    T = np.eye(4)
    T[:3, :3] = Rotation.from_rotvec(angle * np.array(axis) / np.linalg.norm(axis)).as_matrix()
    r = messages.pose_message(T, 'base', messages.stamp(0.0)).pose.orientation
    found = np.array([r.x, r.y, r.z, r.w])
    assert abs(np.linalg.norm(found) - 1.0) < 1e-15 and r.w >= 0.0
    np.testing.assert_allclose(Rotation.from_quat(found).as_matrix(), T[:3, :3], atol=1e-15)


def test_pose_goes_to_a_message_and_back():
    T = figure_of_eight(np.eye(4), 0.3, 0.2, 2.0, 1.0, 0.0, swing=1.0).at(0.7).pose
    message = messages.pose_message(T, 'base', messages.stamp(1.0))
    np.testing.assert_allclose(messages.pose_array(message.pose), T, atol=1e-15)


@pytest.mark.parametrize('quaternion, message', [
    ((0.0, 0.0, 0.0, 0.0), 'length 0: (give|must be).* 1'),
    ((0.0, 0.0, 1.0, 1.0), 'length 1.41421'),
    ((0.0, 0.0, np.nan, 1.0), 'not finite'),
])
def test_bad_quaternions_are_refused_by_message(quaternion, message):
    pose = Pose()
    r = pose.orientation
    r.x, r.y, r.z, r.w = quaternion
    with pytest.raises(InputError, match=message):
        messages.pose_array(pose)


def trajectory(points=2, twists=True):
    """Return a trajectory along x, turning about z."""
    message = MultiDOFJointTrajectory()
    for k in range(points):
        transform = Transform(translation=Vector3(x=float(k)))
        transform.rotation.z, transform.rotation.w = np.sin(0.1 * k), np.cos(0.1 * k)
        point = MultiDOFJointTrajectoryPoint(transforms=[transform])
        point.time_from_start.sec = k
        if twists:
            twist = Twist(linear=Vector3(x=1.0), angular=Vector3(z=0.2))
            point.velocities, point.accelerations = [twist], [Twist()]
        message.points.append(point)
    return message


def test_trajectory_is_read_linear_first_and_turned_into_the_base_frame():
    T = np.array([[0.0, -1.0, 0.0, 5.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0],
                  [0.0, 0.0, 0.0, 1.0]])
    path, start = messages.path(serialize_message(trajectory(3)), 10.0, lambda frame: T)
    assert start == 10.0
    target = path.at(11.0)
    np.testing.assert_allclose(target.pose[:3, 3], [5.0, 1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(target.twist, [0.0, 0.0, 0.2, 0.0, 1.0, 0.0], atol=1e-12)


def test_only_poses_without_velocities_are_given_to_what_estimates_them():
    calls = []

    def through(times, poses):
        calls.append(times)
        return Path(times, poses)

    for twists in (True, False):
        data = serialize_message(trajectory(3, twists=twists))
        messages.path(data, 10.0, lambda frame: np.eye(4), through)
    np.testing.assert_array_equal(calls, [[10.0, 11.0, 12.0]])


def test_single_point_is_a_pose_and_when_to_be_there():
    message = trajectory(1, twists=False)
    message.points[0].time_from_start.sec = 2
    hold, start = messages.path(serialize_message(message), 10.0, lambda frame: np.eye(4))
    assert (start, hold.arrival) == (10.0, 12.0)
    np.testing.assert_array_equal(hold.pose, np.eye(4))


def test_twist_is_read_linear_first_turned_into_base_axes_and_given_its_time():
    T = np.array([[0.0, -1.0, 0.0, 5.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0],
                  [0.0, 0.0, 0.0, 1.0]])
    message = TwistStamped(twist=Twist(linear=Vector3(x=1.0), angular=Vector3(y=0.2)))
    motion, start = messages.jog(message, 10.0, 0.5, lambda frame: T)
    assert (start, motion.until) == (10.0, 10.5)
    np.testing.assert_allclose(motion.twist, [-0.2, 0.0, 0.0, 0.0, 1.0, 0.0], atol=1e-15)
    message.header.stamp = messages.stamp(9.0)
    with pytest.raises(InputError, match=r'1\.000 s.*(give|must be).*0\.5 s'):
        messages.jog(message, 10.0, 0.5, lambda frame: T)


def test_trajectory_message_of_a_path_is_that_path():
    path = figure_of_eight(np.eye(4), 0.3, 0.2, 2.0, 1.0, 3.0, swing=0.5)
    data = serialize_message(messages.trajectory_message(path, 'base', 'tip'))
    back, start = messages.path(data, 0.0, lambda frame: np.eye(4))
    assert start == 3.0
    for time in (3.0, 3.77, 4.5, 5.49):
        np.testing.assert_allclose(back.at(time).pose, path.at(time).pose, atol=1e-8)
        np.testing.assert_allclose(back.at(time).twist, path.at(time).twist, atol=1e-6)


def test_bad_trajectories_are_refused_by_message():
    def read(message):
        return messages.path(serialize_message(message), 0.0, lambda frame: np.eye(4))

    with pytest.raises(InputError, match='one point'):
        read(trajectory(1))
    with pytest.raises(InputError, match='point 1 .* 0 transforms'):
        bad = trajectory(2)
        bad.points[1].transforms = []
        read(bad)
    with pytest.raises(InputError, match='2 points, 1 velocities, 2 accelerations'):
        bad = trajectory(2)
        bad.points[1].velocities = []
        read(bad)
    with pytest.raises(InputError, match='increasing'):
        bad = trajectory(3)
        bad.points[2].time_from_start.sec = 0
        read(bad)
    assert read(trajectory(3, twists=False))[0].at(1.0).twist.shape == (6,)
