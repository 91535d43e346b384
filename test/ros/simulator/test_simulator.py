# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The simulator from its user's view: clock, namespaces, transforms."""

from time import perf_counter

import numpy as np
import pytest

from arm import READY
from tolerances import AGREEMENT
from variants import first_quick

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from rclpy.node import Node  # noqa: E402
from rosgraph_msgs.msg import Clock  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from node_rig import given, ROBOT  # noqa: E402
from osc_ros import Robot  # noqa: E402
from osc_ros.dynamics.algebra.kinematics import link_pose  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.messages import commands, messages, transforms  # noqa: E402
from osc_ros.ros.messages.commands import Command  # noqa: E402
from osc_ros.ros.parameters.robot_parameters import urdf_text  # noqa: E402
from osc_ros.ros.process.share import share_directory  # noqa: E402
from osc_ros.ros.simulator.simulator import PARAMETERS, Simulator  # noqa: E402
from osc_ros.sim import Plant  # noqa: E402

HAND = 'panda_hand_tcp'
LINKS = [f'panda_link{i}' for i in range(9)] + ['panda_hand', HAND]


def test_user_who_drives_a_simulation_gets_the_pace_of_the_wall_clock():
    [lockstep] = (entry for entry in PARAMETERS if entry.name == 'lockstep')
    assert lockstep.default is False


@pytest.mark.parametrize(('rules', 'topic'), [
    ([], '/clock'), (['-r', '__ns:=/left', '-r', '/clock:=/left/clock'], '/left/clock')])
def test_user_starts_a_second_simulation_in_a_namespace_with_a_clock_of_its_own(
        spin, rules, topic):
    arguments = ['--ros-args', *rules]
    simulator = Simulator(cli_args=arguments, parameter_overrides=given(
        **ROBOT, initial_positions=READY.tolist()))
    controller = Controller(cli_args=arguments, parameter_overrides=given(
        use_sim_time=True, autostart=False))
    user, heard = Node('user'), []
    user.create_subscription(Clock, topic, heard.append, 10)
    spin(lambda: heard, simulator, controller, user)
    spin(lambda: user.count_subscribers(topic) == 2, why='for the controller beside the user')
    [other] = {'/clock', '/left/clock'} - {topic}
    assert user.count_publishers(topic) == 1
    assert user.count_publishers(other) == user.count_subscribers(other) == 0


class Recorder:
    """Takes the place of a node and of its publisher, and records the messages."""

    def __init__(self, node):
        """Use the graph and the logger of a real node."""
        self.sent, self.topic_name = [], '/tf'
        self.get_publishers_info_by_topic = node.get_publishers_info_by_topic
        self.get_logger = node.get_logger
        self.publish = self.sent.append

    def create_publisher(self, *given):
        """Return this object in place of a publisher."""
        return self


class Message:
    """Takes the place of tf2_msgs.msg.TFMessage, which pip cannot install."""

    def __init__(self, transforms):
        """Store the transforms."""
        self.transforms = transforms


@pytest.fixture
def published(ros, monkeypatch):
    """Yield a node, the publisher of a Panda's link transforms, and the list of its messages."""
    monkeypatch.setattr(transforms, 'TFMessage', Message)
    monkeypatch.setattr(transforms, 'LOOK_PERIOD', 0.0)
    node, text = Node('user'), urdf_text('panda')
    plant = Plant(text, 'panda_link0', [f'panda_joint{i}' for i in range(1, 8)])
    plant.reset(READY)
    recorder = Recorder(node)
    yield node, transforms.LinkTransforms(recorder, plant, text), recorder.sent
    node.destroy_node()


def test_user_of_rviz_sees_the_links_where_they_are(published):
    node, links, sent = published
    links.publish(messages.stamp(1.5))
    poses = {'panda_link0': np.eye(4)}
    [message] = sent
    for transform in message.transforms:
        assert messages.seconds(transform.header.stamp) == 1.5
        poses[transform.child_frame_id] = (
            poses[transform.header.frame_id] @ messages.transform_array(transform.transform))
    robot = Robot.from_urdf(urdf_text('panda'), 'panda_link0', HAND)
    assert set(LINKS) <= set(poses)
    for link in LINKS:
        np.testing.assert_allclose(poses[link], link_pose(robot, READY, link), atol=AGREEMENT)


def test_user_with_a_robot_state_publisher_gets_no_second_one(published, spin):
    node, links, sent = published
    other = Node('robot_state_publisher')
    publisher = other.create_publisher(String, '/tf', 10)
    spin(lambda: node.count_publishers('/tf'), other, node)
    links.publish(messages.stamp(0.0))
    assert sent == []
    assert spin.said('robot_state_publisher publishes the transforms of the links')
    other.destroy_publisher(publisher)
    spin(lambda: not node.count_publishers('/tf'))
    links.publish(messages.stamp(0.0))
    assert len(sent) == 1


def test_simulator_publishes_the_transforms_where_tf2_is_installed(spin):
    tf2_msgs = pytest.importorskip('tf2_msgs.msg', reason='tf2_msgs is not to be had with pip')
    user, heard = Node('user'), []
    user.create_subscription(tf2_msgs.TFMessage, '/tf', heard.append, 10)
    spin(lambda: heard, Simulator(parameter_overrides=given(**ROBOT)), user)
    assert {one.child_frame_id for one in heard[0].transforms} >= set(LINKS[1:])


@pytest.mark.parametrize('label', [commands.HOLD_LABEL, commands.LAST_LABEL, '7.002000000'])
def test_brakes_stay_closed_for_torques_that_are_for_no_state_of_this_arm(spin, label):
    simulator = Simulator(parameter_overrides=given(
        **ROBOT, rate=100.0, brake_timeout=0.05, initial_positions=READY.tolist()))
    user, seen = Node('user'), []
    user.create_subscription(JointState, 'joint_states', seen.append, 10)
    topic = user.create_publisher(messages.Float64MultiArray, 'osc_controller/commands', 10)
    thrown, own = Command(7).fill(np.full(7, 10.0), label), Command(7).fill(np.zeros(7), '')
    spin(topic.get_subscription_count, simulator, user)
    for k in range(20, 60, 20):
        spin(lambda k=k: len(seen) > k or topic.publish(thrown), why='for states')
    assert simulator._tick == 0 and not np.any(seen[-1].velocity)
    spin(lambda: simulator._tick > 0 or topic.publish(own), why='for the brakes to open')
    spin(lambda: simulator._commanded.ended, why='for the brakes to close')
    if label == commands.HOLD_LABEL or label == commands.LAST_LABEL:
        ticks = simulator._tick + 20
        spin(lambda: simulator._tick > ticks or topic.publish(thrown), why='for states')
        assert simulator._commanded.ended


def release(user, spin, service):
    """Ask a node for the states of another driver, which it does not use by itself."""
    client, calls = user.create_client(Trigger, service), []

    def is_released():
        if not calls or calls[-1].done() and not calls[-1].result().success:
            calls.append(client.call_async(Trigger.Request()))
        return calls[-1].done() and calls[-1].result().success

    spin(client.service_is_ready)
    spin(is_released, why=f'for {service}')


@pytest.mark.parametrize('command_topic', first_quick([
    'osc_controller/commands', 'osc_relay/commands']))
def test_simulator_that_is_killed_and_started_again_elsewhere_throws_no_arm(
        spin, start, command_topic):
    given_to_all = '--ros-args', '--params-file', share_directory() / 'config' / 'panda.yaml'

    def started(q):
        return start('simulator', *given_to_all, '-p', f'command_topic:={command_topic}',
                     '-p', f'initial_positions:={q.tolist()}')

    user, seen = Node('user'), []
    user.create_subscription(JointState, 'joint_states', seen.append, 1000)
    first = started(READY)
    start('controller', *given_to_all)
    if command_topic == 'osc_relay/commands':
        start('relay', *given_to_all)
    spin(lambda: seen and messages.seconds(seen[-1].header.stamp) > 1.5, user,
         why='for the first arm to be controlled')
    first.kill()
    first.wait()
    seen.clear()
    started(READY + [0.5, 0.7, -0.5, 0.6, 0.5, 0.6, 0.5])
    spin(lambda: seen and messages.seconds(seen[-1].header.stamp) < 1.0,
         why='for states of the second arm')
    release(user, spin, 'osc_controller/release')
    if command_topic == 'osc_relay/commands':
        release(user, spin, 'osc_relay/forward')
    spin(lambda: seen and messages.seconds(seen[-1].header.stamp) > 1.0,
         why='for the second arm to be controlled')
    assert np.abs([one.velocity for one in seen]).max() < 0.1


def test_user_drives_a_simulation_whose_time_follows_the_wall_clock(spin):
    simulator = Simulator(parameter_overrides=given(
        **ROBOT, rate=100.0, initial_positions=READY.tolist()))
    user, stamps = Node('user'), []
    user.create_subscription(
        JointState, 'joint_states',
        lambda message: stamps.append(messages.seconds(message.header.stamp)), 10)
    commands = user.create_publisher(messages.Float64MultiArray, 'osc_controller/commands', 10)
    command = Command(7).fill(np.zeros(7), '')
    spin(lambda: stamps or commands.publish(command), simulator, user)
    # many commands do not make the simulation faster than the wall clock
    spin(lambda: stamps[-1] > 0.5 or commands.publish(command))
    assert stamps[-1] <= perf_counter() - simulator._began + simulator._period
