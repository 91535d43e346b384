# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Several publishers of joint states: each joint is controlled by the states of one of them."""

import os
import subprocess
import sys

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from rclpy.node import Node  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from common import import_path  # noqa: E402
from node_rig import (  # noqa: E402
    FAILURE,
    follow_joints,
    given,
    gravity,
    JOINTS,
    PERIOD,
    Plant,
    READY,
    Rig,
    SUCCESS,
)
from osc_ros.loop import requests  # noqa: E402
from osc_ros.ros.messages import messages  # noqa: E402
from variants import first_quick  # noqa: E402

GOAL = READY + [0.6, 0.3, -0.5, 0.4, 0.6, -0.5, 0.7]
REST = np.zeros(7)


class Driver(Node):
    """Another node that publishes joint states."""

    def __init__(self, name='other', joints=JOINTS):
        """Create the publisher."""
        super().__init__(name)
        self.joints, self.tick = joints, 0
        self.states = self.create_publisher(JointState, 'joint_states', 10)

    def state(self, q=READY, qd=REST, time=None):
        """Publish a state of the joints, with the next time stamp or another one [s]."""
        self.tick += 1
        self.states.publish(messages.joint_state(
            self.joints, PERIOD * self.tick if time is None else time, np.asarray(q, dtype=float),
            np.asarray(qd, dtype=float), np.zeros(len(self.joints))))


def released(rig):
    """Call `~/release`; return success and message."""
    client = rig.hardware.create_client(Trigger, 'osc_controller/release')
    rig.spin(client.service_is_ready)
    answer = client.call_async(Trigger.Request())
    rig.spin(answer.done)
    return answer.result().success, answer.result().message


OTHER_STATES = {
    'a driver of an arm that stands still': lambda plant: READY,
    'zeros near zero': lambda plant: 0.1 * READY,
    'a copy 100 ms late': lambda plant: plant.q[max(0, len(plant.q) - 50)],
}


@pytest.mark.parametrize('kind', first_quick(OTHER_STATES))
def test_states_of_another_node_that_come_later_do_not_move_the_arm(spin, kind):
    rig = Rig(spin, rate=500.0).activate()
    plant, other = Plant(rig), Driver()
    spin(lambda: other.states.get_subscription_count() > 0, other)
    follow_joints(rig, GOAL)
    plant.run(2.5, lambda: other.state(OTHER_STATES[kind](plant),
                                       time=PERIOD * (rig.hardware.tick + 0.5)))
    print(f'{kind}: v {plant.speed:.2f}, step {plant.step:.3f}')
    assert plant.speed <= 1.0 and plant.step <= 0.1
    np.testing.assert_allclose(plant.arm.q, GOAL, atol=2e-3)


FLOOD = """
import sys
import numpy as np
from node_rig import JOINTS, READY
import rclpy
from sensor_msgs.msg import JointState
from osc_ros.ros.messages import messages
rclpy.init()
node, tick, rest = rclpy.create_node('flood'), 0, np.zeros(7)
states = node.create_publisher(JointState, 'joint_states', 10)
def send():
    global tick
    tick += 1
    states.publish(messages.joint_state(JOINTS, 0.001 * tick, 0.1 * READY, rest, rest))
node.create_timer(0.001, send)
rclpy.spin(node)
"""


@pytest.mark.slow  # quick: test_flood_of_another_nodes_states_costs_no_state_of_the_driver
def test_states_that_another_process_sends_at_any_rate_do_not_move_the_arm(spin):
    rig = Rig(spin, rate=500.0).activate()
    plant, ignored = Plant(rig), rig.controller._loop.publishers.known.ignored
    process = subprocess.Popen(
        [sys.executable, '-c', FLOOD], env=os.environ | {'PYTHONPATH': import_path()})
    try:
        rig.spin(lambda: ignored[0] > 100, why='for its states')
        follow_joints(rig, GOAL)
        before = ignored[0]
        plant.run(2.5)
        assert ignored[0] > before + 100
    finally:
        process.kill()
        process.wait()
    print(f'v {plant.speed:.2f}, step {plant.step:.3f}, {ignored[0] - before} ignored')
    assert plant.speed <= 1.0 and plant.step <= 0.1
    np.testing.assert_allclose(plant.arm.q, GOAL, atol=2e-3)


def found_values(rig):
    """Return the values of the controller's diagnostics, which change as they come."""
    found = {}
    rig.hardware.create_subscription(
        DiagnosticArray, '/diagnostics', lambda message: found.update(
            (one.key, one.value) for status in message.status for one in status.values), 10)
    return found


def test_with_two_drivers_the_activation_is_refused_until_a_parameter_names_one(spin):
    rig, other = Rig(spin, state_timeout=0.5), Driver()
    assert rig.controller.trigger_configure() == SUCCESS

    def both():
        rig.hardware.state()
        other.state(0.9 * READY)

    spin(lambda: both() or rig.controller._loop.publisher_names(())[0].count('GID') == 2, other,
         why='for the states of both')
    both()
    assert rig.controller.trigger_activate() == FAILURE
    assert spin.said("'/joint_states' send 'panda_joint1': /hardware (GID ")
    assert spin.said(', /other (GID ') and spin.said("in parameter 'joint_states_from'")
    rig.controller.set_parameters(given(joint_states_from=['/hardware']))
    rig.activate_configured()
    for _ in range(20):
        other.state(0.9 * READY)
        np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def test_node_that_starts_by_itself_waits_while_there_are_two_drivers(spin):
    rig, other = Rig(spin, autostart=True, state_timeout=0.5), Driver()

    def both():
        rig.hardware.state()
        other.state(0.9 * READY)

    spin(lambda: both() or spin.said("waiting: several publishers on '/joint_states' send"), other)
    assert not rig.controller._active
    other.destroy_publisher(other.states)
    spin(lambda: rig.hardware.state() or rig.controller._active, why='for the activation')


def test_driver_that_comes_later_is_ignored_and_named_in_log_and_diagnostics(spin):
    rig = Rig(spin)
    found = found_values(rig)
    rig.activate()
    other = Driver()

    def named():
        other.state(0.9 * READY)
        rig.ask()
        return found.get('ignored joint states of', '').startswith('/other (GID ')

    spin(named, other, why='for the name')
    assert found['joint states of'].startswith('/hardware (GID ')
    assert int(found['ignored joint states']) > 0
    assert spin.said('[WARN]') and spin.said('joint states of /other (GID ')
    assert rig.controller._loop.engine.guard.counts['jump'] == 0


@pytest.mark.parametrize('name', ['other', 'hardware'], ids=['another name', 'the same name'])
def test_arm_of_a_driver_that_has_ended_is_held_until_a_release_takes_another_one(spin, name):
    rig = Rig(spin, state_timeout=0.2)
    plant = Plant(rig)
    rig.activate()
    follow_joints(rig, GOAL)
    plant.run(0.3)
    rig.hardware.destroy_publisher(rig.hardware.states)
    held, ignored = plant.arm.q.copy(), rig.controller._loop.publishers.known.ignored
    rig.spin(lambda: rig.controller._loop.engine.guard.cause == 'stale_state', why='for the time')
    other, before = Driver(name), ignored[0]
    other.tick = rig.hardware.tick + 1000
    spin(lambda: other.state(held) or ignored[0] > before + 50, other, why='for ignored states')
    loop = rig.controller._loop
    spin(lambda: other.state(held) or (
        f'those of /{name} (GID ' in loop.request(lambda engine: engine.guard.reason)),
         why='for the reason')
    assert loop.request(lambda engine: engine.guard.cause) == 'stale_state'
    assert loop.request(lambda engine: engine.guard.reaction) == 'hold'
    ended = f'{rig.hardware.get_fully_qualified_name()} (GID '
    assert ended in loop.request(lambda engine: engine.guard.reason)
    rig.hardware.states, rig.hardware.tick = other.states, other.tick
    success, message = released(rig)
    assert success and f'uses the joint states of /{name} (GID ' in message
    spin(lambda: other.state(held) or not loop.request(lambda engine: engine.guard.reaction),
         why='for the law')
    rig.hardware.tick = other.tick
    plant.run(0.3)
    assert plant.speed <= 1.0


def test_release_takes_no_driver_if_two_others_send(spin):
    rig = Rig(spin, state_timeout=0.2).activate()
    rig.hardware.destroy_publisher(rig.hardware.states)
    one, two = Driver('one'), Driver('two')
    known = rig.controller._loop.publishers.known

    def both():
        one.state()
        two.state()
        return rig.controller._loop.publisher_names(())[1].count('GID') == 2

    rig.spin(lambda: rig.controller._loop.engine.guard.cause == 'stale_state', why='for the time')
    spin(both, one, two, why='for both')
    both()
    success, message = released(rig)
    assert not success and '/one (GID ' in message and '/two (GID ' in message
    assert known.used.sum() == 1


def test_flood_of_another_nodes_states_costs_no_state_of_the_driver(spin):
    rig, other = Rig(spin).activate(), Driver()
    spin(lambda: other.states.get_subscription_count() > 0, other)
    ignored = rig.controller._loop.publishers.known.ignored
    missed = rig.controller._loop.request(requests.timing).missed
    for _ in range(200):
        for _ in range(4):
            other.state(0.9 * READY)
        np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)
    assert ignored[0] > 400
    assert rig.controller._loop.request(requests.timing).missed == missed


PARTS = {'torso': JOINTS[:3], 'arm': JOINTS[3:]}


@pytest.mark.parametrize('nodes', [1, 2])
def test_joints_in_two_messages_are_one_state_with_the_older_stamp(spin, nodes):
    rig, torso = Rig(spin), Driver('torso', PARTS['torso'])
    arm = torso if nodes == 1 else Driver('arm', PARTS['arm'])
    assert rig.controller.trigger_configure() == SUCCESS

    def send(lost=()):
        rig.hardware.tick += 1
        for node, joints, q, late in ((torso, PARTS['torso'], READY[:3], 0.0005),
                                      (arm, PARTS['arm'], READY[3:], 0.0)):
            if joints != lost:
                node.joints = joints
                node.state(q, 0.0 * q, PERIOD * rig.hardware.tick - late)
        return messages.label_of(messages.stamp(PERIOD * rig.hardware.tick - 0.0005))

    spin(lambda: send() and rig.controller._state_age() < 0.5, torso, arm, why='for a state')
    assert rig.controller.trigger_activate() == SUCCESS

    def answered():
        labels, ticks = [], [0]

        def has_come():
            if ticks[0] % 100 == 0:  # seems to be lost
                labels.append(send())
            ticks[0] += 1
            return any(rig.hardware.answer(label) is not None for label in labels)

        spin(has_come, why='for an answer')
        return next(rig.hardware.answer(label) for label in labels
                    if rig.hardware.answer(label) is not None)

    answered()
    for lost in (PARTS['arm'], PARTS['torso'], ()):  # then the next pair is one state again
        for _ in range(7):
            np.testing.assert_allclose(answered(), gravity(READY), atol=1e-6)
        send(lost)
    if nodes == 2:  # a part that comes from a second node is ignored
        other = Driver('other', PARTS['arm'])
        spin(lambda: other.states.get_subscription_count() > 0, other)
        for _ in range(20):
            other.state(0.5 * READY[3:], REST[3:], PERIOD * rig.hardware.tick)
            np.testing.assert_allclose(answered(), gravity(READY), atol=1e-6)


def test_joint_that_never_comes_is_named(spin):
    rig, torso = Rig(spin), Driver('torso', JOINTS[:3])
    wrist = Driver('wrist', JOINTS[4:])
    assert rig.controller.trigger_configure() == SUCCESS

    def named():
        torso.state(READY[:3], REST[:3])
        wrist.state(READY[4:], REST[4:])
        return spin.said("joint states are incomplete: joint_states lacks 'panda_joint4' (has: ")

    spin(named, torso, wrist, why='for the joint')
    assert rig.controller.trigger_activate() == FAILURE
    assert spin.said("lacks 'panda_joint4' (has: ", times=2)  # in the order of their arrival
