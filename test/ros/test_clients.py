# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Clients that were written for other controllers, connected by the remaps of doc/clients.md."""

import re

import numpy as np
import pytest

from arm import moved
from common import CHECKOUT

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import PoseStamped, TwistStamped  # noqa: E402
from rclpy.qos import qos_profile_sensor_data  # noqa: E402

from node_rig import PANDA, READY, Rig  # noqa: E402
from osc_ros import OperationalSpace, Robot  # noqa: E402
from osc_ros.ros.messages import messages  # noqa: E402

PAGE = (CHECKOUT / 'doc' / 'clients.md').read_text()
REMAPS = {  # section title: {topic of the controller: topic of the client}
    part.splitlines()[0]: dict(re.findall(r'^~/(\w+):=(\S+)$', part, re.MULTILINE))
    for part in PAGE.split('\n## ')[1:]}


class Remapped(Rig):
    """An active controller with the topic names that a client of another controller uses."""

    def __init__(self, spin, client, **parameters):
        """Remap the topics, and activate the controller."""
        remaps = REMAPS[client]
        super().__init__(
            spin, ['--ros-args', *(word for ours, theirs in remaps.items()
                                   for word in ('-r', f'~/{ours}:={theirs}'))],
            translation__axes=['motion', 'motion', 'force'], force__gain=0.5, **parameters)
        if 'target_pose' in remaps:
            self.hardware.poses = self.hardware.create_publisher(
                PoseStamped, remaps['target_pose'], 10)
        self.activate()


def pose_of_the_tip(q=READY):
    """Return the pose of the tip at q."""
    robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
    return OperationalSpace(robot).evaluate(q, np.zeros(7)).pose


def asked(ours, tick):
    """Return a message that changes the torque, for the controller's topic `ours`."""
    if ours == 'target_pose':
        return messages.pose_message(moved(pose_of_the_tip(), (0.05, 0.0, 0.0)), 'panda_link0',
                                     messages.stamp(0.0))
    if ours == 'target_twist':
        return messages.twist_message(np.array([0.0, 0.0, 0.0, 0.1, 0.0, 0.0]), 'panda_link0',
                                      messages.stamp(0.0))
    stamp = messages.stamp(0.002 * tick)
    return messages.wrench_message(np.array([0.0, 0.0, 0.0, 0.0, 0.0, -10.0]), 'panda_link0',
                                   stamp)


@pytest.mark.parametrize('client, ours', [
    (client, ours) for client, remaps in REMAPS.items() for ours in remaps if client != 'CRISP'])
def test_controller_obeys_the_messages_of_a_client(spin, client, ours):
    rig = Remapped(spin, client)
    message = asked(ours, 0)
    publisher = rig.hardware.create_publisher(type(message), REMAPS[client][ours], 10)
    before = rig.ask()

    def heard():
        publisher.publish(asked(ours, rig.hardware.tick))
        return np.abs(rig.ask() - before).max() > 0.05

    spin(heard, why=f'for {ours} by {client}')


def test_pose_and_twist_are_told_where_crisp_looks_for_them(spin):
    """The twist is that of the tip in its own axes, as of CRISP's twist_broadcaster."""
    rig, told = Remapped(spin, 'CRISP'), {}
    for kind, ours in ((PoseStamped, 'pose'), (TwistStamped, 'twist')):
        rig.hardware.create_subscription(
            kind, REMAPS['CRISP'][ours], lambda message, ours=ours: told.update({ours: message}),
            qos_profile_sensor_data)
    qd = np.array([0.1, -0.05, 0.08, 0.02, 0.1, -0.1, 0.05])

    def is_moving():
        rig.ask(velocity=qd.tolist())
        return len(told) == 2 and told['twist'].twist.linear.x != 0.0

    spin(is_moving, why='for a pose and a twist')
    T = messages.pose_array(told['pose'].pose)
    np.testing.assert_allclose(T, pose_of_the_tip(), atol=1e-9)
    step = 1e-6
    dT = (pose_of_the_tip(READY + step * qd) - pose_of_the_tip(READY - step * qd)) / (2.0 * step)
    W = T[:3, :3].T @ dT[:3, :3]  # skew
    expected = [W[2, 1], W[0, 2], W[1, 0], *T[:3, :3].T @ dT[:3, 3]]
    np.testing.assert_allclose(messages.twist_array(told['twist'].twist), expected, atol=1e-7)
    assert told['twist'].header.frame_id == 'panda_hand_tcp'


def test_page_has_the_three_clients_and_topics_of_the_node_only():
    assert list(REMAPS) == ['CRISP', 'FZI cartesian_controllers', 'MoveIt Servo']
    assert all(REMAPS.values())
