# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Look-at tasks over ROS: topics, refused messages, live changes, and an arm that is moved."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import PointStamped, PoseStamped, WrenchStamped

from arm import READY
from node_rig import given, gravity, PANDA, Rig, target
from osc_ros.ros.messages import messages
from osc_ros.sim import Plant

LINK = 'panda_hand'
FREE = ['free'] * 3
GAZE = {'tasks': ['gaze'], 'gaze__link': LINK, 'gaze__kind': 'look_at', 'rotation__axes': FREE}


def point(position=(0.6, 0.2, 0.0), frame='panda_link0', stamp=0.0):
    """Return a message with a target point."""
    message = PointStamped()
    message.header.stamp, message.header.frame_id = messages.stamp(stamp), frame
    message.point.x, message.point.y, message.point.z = position
    return message


@pytest.fixture
def rig(spin):
    """Return an active rig with a look-at task of lower priority than the position of the tip."""
    rig = Rig(spin, **GAZE).activate()
    topic = 'osc_controller/gaze/target_point'
    rig.points = rig.hardware.create_publisher(PointStamped, topic, 10)
    spin(lambda: rig.points.get_subscription_count() > 0)
    return rig


def set_point(rig):
    """Return the set-point of the look-at task."""
    return rig.controller._law.levels['gaze'].target.pose[:3, 3]


def test_arm_over_ros_looks_at_the_point(rig):
    plant = Plant(PANDA.urdf_text, PANDA.base, rig.controller._law.robot.joint_names)
    plant.reset(READY)
    begin = plant.pose(PANDA.tip)[:3, 3]
    wanted = np.array([0.6, 0.2, 0.0])
    rig.points.publish(point())
    rig.spin(lambda: (goal := rig.controller._law.levels['gaze'].goal) is not None
             and np.array_equal(goal[:3, 3], wanted), why='for the goal')

    def angle():
        T = plant.pose(LINK)
        way = wanted - T[:3, 3]
        return np.arctan2(np.linalg.norm(np.cross(T[:3, 2], way)), T[:3, 2] @ way)

    first = angle()
    assert first > 0.5
    for _ in range(2500):  # 5 s
        plant.step(rig.ask(q=plant.q, velocity=plant.qd.tolist()), 2)
        if angle() < 0.005:
            break
    assert angle() < 0.01
    np.testing.assert_allclose(plant.pose(PANDA.tip)[:3, 3], begin, atol=2e-3)


def test_point_in_the_frame_of_a_link_is_taken_at_its_pose(rig):
    link = rig.controller._law.levels['gaze'].pose

    def heard():
        rig.points.publish(point((0.0, 0.1, 0.7), LINK))
        rig.ask()
        goal, there = rig.controller._law.levels['gaze'].goal, link @ [0.0, 0.1, 0.7, 1.0]
        return goal is not None and np.allclose(goal[:3, 3], there[:3], atol=1e-9)

    rig.spin(heard, why='for the point')


@pytest.mark.parametrize('bad, message', [
    (point(frame='kitchen'), "frame 'kitchen' is not a link of robot 'panda'"),
    (point((np.nan, 0.0, 0.0)), 'not finite: position [nan'),
    pytest.param(point((np.inf, 0.0, 0.0)), 'not finite', marks=pytest.mark.slow),
    pytest.param(point((0.0, 0.0, 1.7e308)), 'must be at most 1000 m',
                 marks=pytest.mark.slow),
    (point(stamp=1.8e9), 'another clock'),
])
def test_bad_point_is_refused_and_the_old_one_stays(rig, bad, message):
    before = set_point(rig).copy()
    rig.until_said(message, lambda: rig.points.publish(bad))
    assert rig.spin.said('gaze/target_point refused, the old target stays')
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)
    np.testing.assert_array_equal(set_point(rig), before)


def test_commands_that_the_kind_does_not_take_are_refused(rig):
    tell = rig.hardware.create_publisher
    poses = tell(PoseStamped, 'osc_controller/gaze/target_pose', 10)
    rig.until_said("gaze/target_pose refused, the old target stays: task 'gaze' is of kind "
                   'look_at: give one of target_point, target_twist, target_trajectory',
                   lambda: poses.publish(target()))
    wrenches = tell(WrenchStamped, 'osc_controller/gaze/target_wrench', 10)
    pushed = WrenchStamped()
    pushed.header.frame_id, pushed.wrench.force.z = 'panda_link0', -5.0
    rig.until_said('wrench', lambda: wrenches.publish(pushed))
    assert rig.spin.said('axis 5 is one of free')
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def test_kind_and_axis_are_live_and_bad_ones_are_refused(rig):
    def sets(**values):
        return rig.controller.set_parameters_atomically(given(**values))

    assert 'must be one of pose, look_at' in sets(gaze__kind='look').reason
    assert "task 'gaze': axis [0.0, 0.0, 0.0]: give three" in sets(
        gaze__axis=[0.0, 0.0, 0.0]).reason
    assert 'an array of 3' in sets(gaze__axis=[0.0, 1.0]).reason
    assert sets(gaze__axis=[1.0, 0.0, 0.0]).successful
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)
    assert rig.controller._law.levels['gaze'].task.kind.axis == (1.0, 0.0, 0.0)
    assert sets(gaze__kind='pose', gaze__frame=LINK).successful
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)
    rig.until_said("gaze/target_point refused, the old target stays: task 'gaze' is of kind pose: "
                   'give one of target_pose, target_twist, target_trajectory',
                   lambda: rig.points.publish(point()))
    assert sets(gaze__kind='look_at').successful
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)
