# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Several controllers on one command topic: which one is active, and which one follows it."""

import signal
import time

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from std_msgs.msg import Float64MultiArray, String  # noqa: E402

from node_rig import BRAKED, given, gravity, Hardware, READY, ROBOT, SUCCESS  # noqa: E402
from osc_ros.loop.cycle import ACTIVE, IDLE  # noqa: E402
from osc_ros.ros.controller import claims  # noqa: E402
from osc_ros.ros.controller.claims import Claim, COMING, IS_READY  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.messages.qos import LATCHED_QOS  # noqa: E402
from osc_ros.ros.relay import Relay  # noqa: E402

TOPIC = '/osc_controller/commands'
VALUES = {**ROBOT, 'startup_check': 'off', 'state_timeout': 5.0}


def controller(name, **parameters):
    """Return a controller that starts by itself, with its commands on the common topic."""
    return Controller(parameter_overrides=given(**VALUES, **parameters), cli_args=[
        '--ros-args', '-r', f'__node:={name}', '-r', f'~/commands:={TOPIC}'])


class Stand:
    """A driver that sends states, and controllers in this process and in others."""

    def __init__(self, spin, start):
        """Create the driver."""
        self.spin, self._start, self.hardware = spin, start, Hardware()
        self.claims, self.started, self.nodes = {}, {}, {}
        self.hardware.create_subscription(String, f'{TOPIC}/_claims', self._on_claim, LATCHED_QOS)
        spin(lambda: True, self.hardware)

    def _on_claim(self, message):
        if (claim := Claim.of(message.data)) is not None:
            self.claims[claim.name[1:]] = claim.state
            self.started[claim.name[1:]] = claim.started

    def add(self, name, **parameters):
        """Start a controller in this process."""
        self.nodes[name] = node = controller(name, **parameters)
        self.spin(lambda: True, node)
        return node

    def start(self, name):
        """Start a controller as a process."""
        return self._start('controller', '--ros-args', '-r', f'__node:={name}', '-r',
                           f'~/commands:={TOPIC}', *(word for key, value in VALUES.items()
                                                     for word in ('-p', f"{key}:='{value}'"
                                                                  if isinstance(value, str) else
                                                                  f'{key}:={value}')))

    def send_state(self):
        """Send the next state."""
        self.hardware.state()

    def until(self, happened, why):
        """Send states until it has happened; at no time are two nodes of this process active."""
        def done():
            self.send_state()
            assert sum(node._active for node in self.nodes.values()) < 2
            return happened()
        self.spin(done, why=why)

    def until_moved_by(self, name, beside=()):
        """Send states until a controller commands the driver."""
        self.until_active(name)

    def until_active(self, name):
        """Send states until a controller is active."""
        self.until(lambda: self.claims.get(name) == ACTIVE, f'for {name} to be active')


class RelayedStand(Stand):
    """The same, with a relay between the controllers and the driver."""

    def __init__(self, spin, start):
        """Create the relay, and listen to what it sends to the driver."""
        super().__init__(spin, start)
        self.sent, self._last = [], 0.0
        self.hardware.create_subscription(
            Float64MultiArray, 'osc_relay/commands',
            lambda message: self.sent.append(np.array(message.data)), 100)
        self.relay = Relay(parameter_overrides=given(
            **ROBOT, command_timeout=0.5, state_timeout=30.0))
        spin(lambda: self.hardware.count_publishers('osc_relay/commands') > 0, self.relay)

    def send_state(self):
        """Send at most 250 states a second, so that no command is lost on its way to the relay."""
        if time.perf_counter() - self._last >= 0.004:
            self._last = time.perf_counter()
            super().send_state()

    def until_moved_by(self, name, beside=()):
        """Send states until the relay forwards the commands of the one active controller."""
        super().until_moved_by(name)
        engine = self.relay._loop.engine
        seen = engine.forwarded
        self.until(lambda: engine.forwarded > seen + 100 and not engine.guard.reaction,
                   f'for the relay to forward the commands of {name}')
        assert [one for one, state in self.claims.items()
                if state == ACTIVE and one not in beside] == [name]


@pytest.mark.parametrize('stand_of', [
    Stand, pytest.param(RelayedStand, marks=pytest.mark.slow)])
def test_of_controllers_that_start_together_the_first_takes_the_arm_then_the_next(
        spin, start, stand_of):
    stand = stand_of(spin, start)
    for name in ('one', 'two', 'three'):
        stand.add(name)
    for name in ('one', 'two', 'three'):
        stand.until_moved_by(name)
        assert [one for one, node in stand.nodes.items() if node._active] == [name]
        assert stand.nodes[name].trigger_deactivate() == SUCCESS


def test_the_one_that_started_first_takes_the_arm_also_if_it_is_ready_later(
        spin, start, monkeypatch):
    monkeypatch.setattr(claims, 'HEAD_START', 600.0)
    stand = Stand(spin, start)
    first = controller('first')
    assert first.trigger_configure() == SUCCESS  # nothing calls its timers yet
    stand.until(lambda: stand.claims.get('first') == COMING, 'for its claim')
    second = stand.add('second')
    stand.until(lambda: stand.claims.get('second') == IS_READY, 'for the second')
    stand.nodes['first'] = first
    spin(lambda: True, first)
    stand.until_active('first')
    assert first._active and not second._active


@pytest.mark.slow  # quick: the tests above and below
def test_controller_that_is_configured_and_goes_no_further_is_not_awaited_for_ever(spin, start):
    stand = Stand(spin, start)
    first = controller('first')
    assert first.trigger_configure() == SUCCESS
    stand.until(lambda: stand.claims.get('first') == COMING, 'for its claim')
    stand.add('second')
    stand.until_active('second')
    first.stop()
    first.destroy_node()


def test_controller_that_cannot_start_keeps_no_other_one_from_the_arm(spin, start):
    stand = Stand(spin, start)
    stand.add('without_autostart', autostart=False)
    assert stand.nodes['without_autostart'].trigger_configure() == SUCCESS
    stand.add('two')
    stand.until_active('two')


def test_killed_controller_is_followed_by_the_one_that_waited_longest(spin, start):
    stand = Stand(spin, start)
    first = stand.start('first')
    stand.until_active('first')
    two, three = stand.add('two'), stand.add('three')
    stand.until(lambda: stand.claims.keys() >= {'two', 'three'}, 'for both to be configured')
    first.kill()
    first.wait()
    stand.until_active('two')
    assert two._active and not three._active


def test_controller_that_hung_and_the_one_that_replaced_it_are_not_both_active(spin, start):
    stand = Stand(spin, start)
    first = stand.start('first')
    stand.until_active('first')
    two = stand.add('two')
    # so that the first stands still for less than the lease of DDS: see doc/limitations.md
    stand.until(lambda: 'two' in stand.claims, 'for the second to be configured')
    first.send_signal(signal.SIGSTOP)
    stand.until_active('two')
    first.send_signal(signal.SIGCONT)
    stand.until(lambda: two._loop.mode == IDLE, 'for the second to leave the arm')
    assert spin.said('/first is active, too, and started earlier')
    stand.until_active('first')


# quick: the test above, and test_torque_does_not_step_when_controllers_are_killed_and_take_over
# of test_relay.py
@pytest.mark.slow
def test_behind_a_relay_the_arm_is_held_while_it_goes_from_a_killed_controller_to_the_next(
        spin, start):
    stand = RelayedStand(spin, start)
    processes = {name: stand.start(name) for name in ('one', 'two')}
    stand.until(lambda: ACTIVE in stand.claims.values() and len(stand.claims) == 2, 'for both')
    # whichever was configured first, and if both were, the one that started first
    first, second = sorted(processes, key=lambda name: stand.claims[name] != ACTIVE)
    stand.until_moved_by(first)
    refused = stand.relay._loop.source.refused  # until it was clear who sends
    stand.until_moved_by(first)
    assert stand.relay._loop.source.refused == refused  # the other controller sends nothing
    processes[first].kill()
    processes[first].wait()
    stand.until_moved_by(second, beside=[first])
    stand.start(first)  # now it waits
    started = stand.started[first]
    stand.until(lambda: stand.started[first] > started, 'for the one that is started anew')
    stand.until_moved_by(second)
    # all the time the arm gets the torques that hold it
    np.testing.assert_allclose(stand.sent, np.tile(gravity(READY), (len(stand.sent), 1)),
                               rtol=0.0, atol=BRAKED)


def test_messages_that_are_no_claims_keep_no_controller_from_the_arm(spin, start):
    stand = Stand(spin, start)
    publisher = stand.hardware.create_publisher(String, f'{TOPIC}/_claims', LATCHED_QOS)
    stand.add('one')
    for text in ('', 'x', 'a b c active', 'a b 1', 'a b 1 active more', 'a b -1 active',
                 'a b ² active', f"a {'b' * 2000} 1 active", 'a b 1 asleep'):
        stand.until(lambda: publisher.get_subscription_count() > 1, 'for the controller')
        publisher.publish(String(data=text))
    stand.hardware.destroy_publisher(publisher)
    stand.until_active('one')
