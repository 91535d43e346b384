# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Clients that were written for other controllers, connected by the remaps of doc/clients.md."""

import re

import numpy as np
import pytest

from arm import moved
from common import CHECKOUT

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import PoseStamped  # noqa: E402
from rclpy.qos import qos_profile_sensor_data, qos_profile_system_default  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402

from node_rig import JOINTS, PANDA, READY, Rig  # noqa: E402
from osc_ros import OperationalSpace, Robot  # noqa: E402
from osc_ros.ros.messages import messages  # noqa: E402
from variants import first_quick  # noqa: E402

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


def pose_of_the_tip():
    """Return the pose of the tip at READY."""
    robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
    return OperationalSpace(robot).evaluate(READY, np.zeros(7)).pose


def asked(ours, tick):
    """Return a message that changes the torque, for the controller's topic `ours`."""
    if ours == 'target_pose':
        return messages.pose_message(moved(pose_of_the_tip(), (0.05, 0.0, 0.0)), 'panda_link0',
                                     messages.stamp(0.0))
    if ours == 'target_twist':
        return messages.twist_message(np.array([0.0, 0.0, 0.0, 0.1, 0.0, 0.0]), 'panda_link0',
                                      messages.stamp(0.0))
    if ours == 'target_posture':
        elbow = READY + [0.3, 0.0, -0.3, 0.0, 0.3, 0.0, 0.0]
        return JointState(name=list(JOINTS), position=elbow.tolist())
    stamp = messages.stamp(0.002 * tick)
    return messages.wrench_message(np.array([0.0, 0.0, 0.0, 0.0, 0.0, -10.0]), 'panda_link0',
                                   stamp)


# the remapping and each kind of message once; quick: crisp_py's messages are tried below
@pytest.mark.parametrize('client, ours', [
    pytest.param(client, ours, marks=pytest.mark.slow if client == 'CRISP' else ())
    for client, remaps in REMAPS.items() for ours in remaps
    if ours not in ('pose', 'target_impedance')])  # at rest a stiffness changes no torque
def test_controller_obeys_the_messages_of_a_client(spin, client, ours):
    rig = Remapped(spin, client)
    message = asked(ours, 0)
    publisher = rig.hardware.create_publisher(type(message), REMAPS[client][ours], 10)
    before = rig.ask()

    def heard():
        publisher.publish(asked(ours, rig.hardware.tick))
        return np.abs(rig.ask() - before).max() > 0.05

    spin(heard, why=f'for {ours} by {client}')


def test_pose_is_told_where_crisp_looks_for_it(spin):
    rig, told = Remapped(spin, 'CRISP'), []
    rig.hardware.create_subscription(PoseStamped, REMAPS['CRISP']['pose'], told.append, 10)
    spin(lambda: told or not rig.hardware.state(), why='for a pose')
    np.testing.assert_allclose(messages.pose_array(told[-1].pose), pose_of_the_tip(), atol=1e-9)


# crisp_py, message by message: its topics, QoS and fields, as crisp_py 3.5.0 fills them

def sent_by_crisp_py(topic, tick):
    """Return a message of crisp_py's Robot with its base frame 'base'."""
    stamp = messages.stamp(0.002 * tick)
    if topic == '/target_pose':
        return messages.pose_message(moved(pose_of_the_tip(), (0.05, 0.02, 0.0)), 'base', stamp)
    if topic == '/target_joint':
        message = JointState(name=list(JOINTS), position=(READY + 0.1).tolist(),
                             velocity=[0.0] * 7, effort=[0.0] * 7)
        message.header.frame_id, message.header.stamp = 'base', stamp
        return message
    if topic == '/target_wrench':
        return messages.wrench_message(np.array([0.0, 0.0, 0.0, 0.0, 0.0, -8.0]), 'base', stamp)
    return Float64MultiArray(data=[900.0, 800.0, 700.0, 45.0, 40.0, 35.0])


def effect(law, topic):
    """Return what a message of crisp_py has set in the law, in the order of the message."""
    level = next(iter(law.levels.values()))
    if topic == '/target_pose':
        return np.zeros((4, 4)) if level.goal is None else level.goal
    if topic == '/target_joint':
        return law.posture
    if topic == '/target_wrench':
        return level.wanted_wrench
    if level.impedance is None:
        return np.zeros(6)
    K = level.impedance.wanted[0]
    return np.concatenate([K[3:], K[:3]])


WANTED = {
    '/target_pose': lambda: moved(pose_of_the_tip(), (0.05, 0.02, 0.0)),
    '/target_joint': lambda: READY + 0.1,
    '/target_wrench': lambda: np.array([0.0, 0.0, 0.0, 0.0, 0.0, -8.0]),
    '/target_stiffness': lambda: np.array([900.0, 800.0, 700.0, 45.0, 40.0, 35.0])}


@pytest.mark.parametrize('topic', first_quick(WANTED, 3))
def test_message_of_crisp_py_sets_what_it_says(spin, topic):
    rig = Remapped(spin, 'CRISP', **({'mode': 'impedance'} if 'stiffness' in topic else {}))
    publisher = rig.hardware.create_publisher(
        type(sent_by_crisp_py(topic, 0)), topic, qos_profile_system_default)

    def is_set():
        publisher.publish(sent_by_crisp_py(topic, rig.hardware.tick))
        rig.ask()
        return np.allclose(effect(rig.controller._law, topic), WANTED[topic](), atol=1e-9)

    spin(is_set, why=f'for the effect of {topic}')


def test_crisp_py_gets_ready_from_the_states_that_it_subscribes_to(spin):
    """Its Robot is ready when a pose and a joint state have come, with the QoS of sensor data."""
    rig, found = Remapped(spin, 'CRISP'), {}
    for kind, topic in ((PoseStamped, '/current_pose'), (JointState, 'joint_states')):
        rig.hardware.create_subscription(
            kind, topic, lambda message, topic=topic: found.setdefault(topic, message),
            qos_profile_sensor_data)
    spin(lambda: len(found) == 2 or not rig.hardware.state(), why='for pose and joint state')
    assert set(JOINTS) <= set(found['joint_states'].name)


def test_page_has_the_three_clients_and_topics_of_the_node_only():
    assert list(REMAPS) == ['CRISP', 'FZI cartesian_controllers', 'MoveIt Servo']
    assert all(REMAPS.values())
