# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The relay between controller and hardware, over real DDS, with MuJoCo as the hardware."""

import inspect
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from arm import READY
from blocked import done_while_python_is_blocked
from common import CHECKOUT, import_path
from tolerances import GRAVITY_HELD

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from geometry_msgs.msg import PoseStamped  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray, String  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from node_rig import given, gravity, JOINTS, PANDA, ROBOT  # noqa: E402
from osc_ros import OperationalSpace, Robot  # noqa: E402
from osc_ros.errors import OscError  # noqa: E402
from osc_ros.ros import relay  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.dds.relay_loop import RelayEngine  # noqa: E402
from osc_ros.ros.messages import commands, messages  # noqa: E402
from osc_ros.ros.messages.qos import LATCHED_QOS  # noqa: E402
from osc_ros.ros.process.share import share_directory  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402
import texts  # noqa: E402
from variants import first_quick, quick_if  # noqa: E402

LIMITS = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
GOOD = 0.5 * LIMITS
FADE = 0.02
NEVER = 30.0  # [s]


class Ends(Node):
    """Takes the place of the controller (sends commands) and of the hardware (receives them)."""

    def __init__(self, name='ends'):
        """Create the subscriptions and the publishers."""
        super().__init__(name)
        self.tick, self.torques, self.labels, self.diagnoses = 0, [], [], []
        listen, tell = self.create_subscription, self.create_publisher
        listen(Float64MultiArray, 'osc_relay/commands', self._on_command, 100)
        listen(DiagnosticArray, '/diagnostics', self._on_diagnostics, 100)
        self.states = tell(JointState, 'joint_states', 10)
        self.commands = tell(Float64MultiArray, 'osc_controller/commands', 10)

    def _on_command(self, message):
        self.torques.append(np.array(message.data))
        self.labels.append(commands.label(message))

    def _on_diagnostics(self, message):
        self.diagnoses.extend(message.status)

    def state(self, q=READY, qd=(0.0,) * 7):
        """Publish a joint state with the next time stamp."""
        self.tick += 1
        self.states.publish(messages.joint_state(
            JOINTS, 0.002 * self.tick, np.array(q), np.array(qd), np.zeros(7)))

    def command(self, tau=GOOD, label=None):
        """Send torques as the command for the last state, or with another label."""
        message = Float64MultiArray(data=list(map(float, tau)))
        if label is None:
            label = messages.label_of(messages.stamp(0.002 * self.tick))
        message.layout.dim = [messages.MultiArrayDimension(label=label)]
        self.commands.publish(message)


class Rig:
    """A relay in this process, and a node in place of controller and hardware."""

    def __init__(self, spin, **parameters):
        """Create the two nodes and connect them."""
        self.spin, self.ends, self.last = spin, Ends(), 0.0
        self.relay = relay.Relay(parameter_overrides=given(**({
            **ROBOT, 'command_timeout': NEVER, 'state_timeout': NEVER, 'settle_time': 0.02,
            'fade_time': FADE, 'limits.effort_rate': [1e6] * 7} | parameters)))
        spin(lambda: self.ends.states.get_subscription_count() > 0
             and self.ends.commands.get_subscription_count() > 0
             and self.ends.count_publishers('osc_relay/commands') > 0, self.ends, self.relay)

    @property
    def guard(self):
        """The supervisor of the relay."""
        return self.engine.guard

    @property
    def engine(self):
        """The engine of the relay, after the records of compiled code have been processed."""
        return self.relay._loop.read(lambda engine: engine)

    def release(self):
        """Release latched causes, as `~/forward` does."""
        self.relay._loop.request(RelayEngine.release)

    def publishers(self):
        """Return the number of publishers of commands that the relay is matched with."""
        return self.relay._loop.publisher_count()

    def until(self, happened, act, why=''):
        """Repeat `act` until `happened()` is true."""
        def done():
            act()
            return happened()
        self.spin(done, why=why)

    def talk(self, tau=GOOD):
        """Send a state and the command for it."""
        self.ends.state()
        self.ends.command(tau)

    def paced(self, act):
        """Return a function that calls `act` at most 500 times a second, as a controller does."""
        def perhaps():
            if time.perf_counter() - self.last >= 0.002:
                self.last = time.perf_counter()
                act()
        return perhaps

    def answered(self, act):
        """Return a function that calls `act` when its last command was answered: none is lost."""
        seen = []

        def perhaps():
            if not seen or len(self.ends.torques) > seen[-1]:
                seen.append(len(self.ends.torques))
                act()
        return perhaps

    def until_sent(self, torque, act):
        """Repeat `act` until the hardware receives this torque."""
        self.until(lambda: self.ends.torques and np.allclose(
            self.ends.torques[-1], torque, rtol=0.0, atol=GRAVITY_HELD), act,
            f'for {torque}')

    def forwarding(self):
        """Send good commands until the relay forwards one; return the rig."""
        self.until_sent(GOOD, self.talk)
        return self

    def held(self):
        """Send refused commands until the relay holds the arm; return the rig."""
        self.until(lambda: self.guard.reaction, lambda: (
            self.ends.state(), self.ends.command([np.nan] * 7)))
        return self


def test_commands_arrive_as_they_were_sent(spin):
    rig = Rig(spin).forwarding()
    rig.ends.state()
    label = messages.label_of(messages.stamp(0.002 * rig.ends.tick))
    rig.until_sent(-GOOD, lambda: rig.ends.command(-GOOD))
    assert rig.ends.labels[-1] == label


def test_nothing_is_sent_before_a_state_and_a_good_command(spin):
    rig = Rig(spin)
    rig.until(lambda: spin.said('before there is a good joint state'),
              lambda: rig.ends.command([0.0] * 6))
    rig.until(lambda: spin.said('not forwarded: command has 6 torques'),
              lambda: (rig.ends.state(), rig.ends.command([0.0] * 6)))
    assert not rig.ends.torques


BAD = {
    'size': ([0.0] * 6, 'command has 6 torques: give 7, for panda_joint1'),
    'empty': ([], 'command has 0 torques'),
    'nan': ([np.nan, *GOOD[1:]], "torque for 'panda_joint1' is nan: must be finite"),
    'inf': ([*GOOD[:6], -np.inf], "torque for 'panda_joint7' is -inf: must be finite"),
    'limit': ([*GOOD[:6], 12.1], "torque for 'panda_joint7' is 12.1 N m: must be at most 12"),
    'step': (-GOOD, "torque for 'panda_joint1' steps by -87 N m"),
}


@pytest.mark.parametrize('bad, message', quick_if(
    lambda bad, message: len(bad) == 7 and np.inf not in np.abs(bad), BAD.values()), ids=BAD)
def test_invalid_command_is_replaced_by_the_torque_that_holds_the_arm(spin, bad, message):
    rig = Rig(spin, latched=True, **{'limits.effort_rate': [20.0 / 0.002] * 7}).forwarding()
    # commands may be lost; the relay limits a step by the time since the last one received
    now = messages.label_of(messages.stamp(0.002 * rig.ends.tick))
    rig.until(lambda: rig.ends.labels[-1] == now, rig.ends.command)
    seen = len(rig.ends.torques)
    rig.until(lambda: spin.said(message), lambda: (rig.ends.command(GOOD), rig.ends.command(bad)))
    rig.until_sent(gravity(READY), lambda: (rig.ends.state(), rig.ends.command(bad)))
    sent = np.array(rig.ends.torques[seen - 1:])
    steps = np.abs(np.diff(sent, axis=0))
    assert (np.abs(sent) <= LIMITS).all()
    assert (steps <= 1.5 * 0.002 / FADE * 2.0 * LIMITS).all()
    rig.release()
    rig.until_sent(GOOD, lambda: (rig.talk(), rig.release()))


def test_without_commands_the_relay_holds_the_arm_until_they_come_again(spin):
    rig = Rig(spin, command_timeout=0.2).forwarding()
    rig.until_sent(gravity(READY), rig.ends.state)
    assert rig.guard.cause == 'silence'
    rig.until(lambda: any(
        status.level == DiagnosticStatus.ERROR and status.message.startswith('silence: no ')
        for status in rig.ends.diagnoses), rig.ends.state)
    rig.forwarding()
    rig.until(lambda: rig.ends.diagnoses[-1].level == DiagnosticStatus.OK, rig.talk)
    assert rig.ends.diagnoses[-1].message == 'forwards'


def test_controller_that_says_that_it_ends_is_replaced_at_once_and_is_no_fault(spin):
    rig = Rig(spin).forwarding()  # a mere silence would be noticed much later
    rig.until_sent(gravity(READY), rig.answered(
        lambda: (rig.ends.state(), rig.ends.command(label=commands.LAST_LABEL))))
    assert rig.guard.reaction == 'hold'
    rig.until(lambda: rig.ends.diagnoses and 'has come: hold' in rig.ends.diagnoses[-1].message,
              rig.ends.state)
    assert spin.said('the last command of')
    assert not spin.said('silence')
    rig.forwarding()
    rig.until(lambda: rig.ends.diagnoses[-1].level == DiagnosticStatus.OK, rig.talk)


def test_hold_after_a_last_command_begins_with_the_torque_before_it(spin):
    rig = Rig(spin, fade_time=0.2).forwarding()
    rig.until_sent(0.2 * GOOD, rig.paced(lambda: rig.talk(0.2 * GOOD)))
    rig.until(lambda: rig.engine.forwarded > 100, rig.paced(lambda: rig.talk(0.2 * GOOD)))
    seen = len(rig.ends.torques)
    rig.ends.command(GOOD, commands.LAST_LABEL)
    rig.until_sent(gravity(READY), rig.paced(rig.ends.state))
    steps = np.abs(np.diff(rig.ends.torques[seen - 1:], axis=0))
    assert (steps <= 0.1 * LIMITS).all()


@pytest.mark.parametrize('why', ['time-out', 'nonsense'])
def test_arm_is_held_until_a_good_command_comes_and_not_only_for_a_time(spin, why):
    rig = Rig(spin, command_timeout=0.2 if why == 'time-out' else NEVER).forwarding()
    if why == 'nonsense':
        rig.until(lambda: rig.guard.reaction, lambda: (
            rig.ends.state(), rig.ends.command([np.nan] * 7)))
    rig.until_sent(gravity(READY), rig.ends.state)
    rig.relay.set_parameters(given(command_timeout=NEVER))
    count, seen = len(rig.ends.torques) + 200, set()
    rig.until(lambda: seen.add(rig.guard.reaction) or len(rig.ends.torques) > count,
              rig.paced(rig.ends.state), 'for torques')
    assert seen == {'hold'}
    rig.forwarding()


def test_silence_without_states_is_answered_at_once(spin):
    rig = Rig(spin, command_timeout=0.2).forwarding()
    loop, seen = rig.relay._loop, []

    def forwards():
        def look(engine):
            seen.append(engine.reaction_count)
            return not engine.guard.watch()

        return loop.request(look)

    rig.until(forwards, rig.talk)
    rig.until(lambda: rig.engine.reaction_count > seen[-1], lambda: None,
              'for a torque without a state')
    assert rig.guard.cause == 'silence'


@pytest.mark.parametrize('bad', first_quick(['nan', 'unrelated', 'short']))
def test_states_that_are_refused_hide_no_silence(spin, bad):
    rig = Rig(spin, command_timeout=0.3, state_timeout=0.3).forwarding()
    message = messages.joint_state(JOINTS, 0.0, READY, np.zeros(7), np.zeros(7))
    if bad == 'nan':
        message.position[2] = np.nan
    elif bad == 'unrelated':
        message.name = [f'finger_{k}' for k in range(7)]
    else:
        message.position = message.position[:3]
    rig.until(lambda: rig.guard.counts['silence'],
              rig.paced(lambda: rig.ends.states.publish(message)), 'for a reaction')
    assert rig.guard.counts['silence'] and rig.guard.reaction == 'hold'


def test_what_the_driver_adds_by_itself_is_left_to_it(spin):
    load = {'payload.mass': 2.0, 'payload.link': 'panda_hand_tcp'}
    rig = Rig(spin, command_timeout=0.2, driver_compensates='gravity', **load).forwarding()
    arm = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
    J = OperationalSpace(arm).evaluate(READY, np.zeros(7)).J
    rig.until_sent(2.0 * 9.81 * J[5], rig.ends.state)  # the driver does not know the payload


def test_without_states_the_weight_is_carried_where_the_arm_was(spin):
    rig = Rig(spin, state_timeout=0.2).forwarding()
    weight = gravity(READY)
    before = rig.ends.tick
    # an arm at rest under its gravity torque: 100 such states replace all that the relay stored
    rig.until(lambda: rig.ends.tick > before + 100, lambda: rig.talk(weight))
    rig.until(lambda: rig.ends.labels[-1] == commands.HOLD_LABEL,
              lambda: rig.ends.command(weight))
    rig.until_sent(weight, lambda: rig.ends.command(weight))
    assert rig.ends.labels[-1] == commands.HOLD_LABEL


def test_latched_stop_lasts_until_forwarding_is_asked_for(spin):
    rig = Rig(spin, latched=True, reaction='zero').forwarding()
    rig.until_sent([0.0] * 7, lambda: (rig.ends.state(), rig.ends.command([np.nan] * 7)))
    client = rig.ends.create_client(Trigger, 'osc_relay/forward')
    spin(client.service_is_ready)
    rig.until(lambda: not rig.guard.is_present('nonsense'), rig.talk)
    assert rig.guard.watch()
    future = client.call_async(Trigger.Request())
    rig.until(future.done, rig.talk)
    assert future.result().success
    rig.forwarding()


def test_label_of_a_far_future_state_allows_no_larger_step(spin):
    rig = Rig(spin, latched=True, **{'limits.effort_rate': [20.0 / 0.002] * 7}).forwarding()
    ahead = messages.label_of(messages.stamp(0.002 * rig.ends.tick + 5.0))
    now = messages.label_of(messages.stamp(0.002 * rig.ends.tick))
    rig.until(lambda: rig.ends.labels[-1] == now, rig.ends.command)
    rig.until(lambda: spin.said("torque for 'panda_joint1' steps by -87 N m"),
              lambda: (rig.ends.state(), rig.ends.command(GOOD), rig.ends.command(-GOOD, ahead)))


def run_away(rig):
    """Let the arm speed up during a reaction until the relay gives it up; return the rig."""
    speed, q = [0.0], READY.copy()

    def speed_up():
        speed[0] = min(1.02 * speed[0] + 0.01, 30.0)
        qd = np.zeros(7)
        qd[0] = speed[0]
        q[:] += 0.002 * qd
        rig.ends.state(q, qd)

    rig.held()
    rig.until(lambda: rig.guard.runaway, rig.answered(speed_up), 'for a runaway')
    rig.until(lambda: rig.ends.labels[-1] == commands.LAST_LABEL, lambda: None, 'for the last')
    return rig


def test_arm_that_was_given_up_is_commanded_again_when_it_is_asked_for(spin):
    rate = 50.0 * LIMITS
    rig = run_away(Rig(spin, fade_time=0.05, **{
        'limits.effort_rate': [float(x) for x in rate]}).forwarding())
    rig.until(lambda: spin.said('no more commands; ~/forward forwards again'), rig.ends.state)
    last, seen = rig.ends.torques[-1], len(rig.ends.torques)
    client = rig.ends.create_client(Trigger, 'osc_relay/forward')
    spin(client.service_is_ready)
    future = client.call_async(Trigger.Request())
    rig.until(future.done, rig.ends.state)
    assert future.result().success and 'waits for a joint state and a' in future.result().message
    tick = rig.ends.tick
    rig.until(lambda: rig.ends.tick > tick + 100, rig.paced(rig.ends.state))
    assert len(rig.ends.torques) == seen  # nothing before the next command
    rig.until_sent(GOOD, rig.paced(rig.talk))
    steps = np.abs(np.diff([last, *rig.ends.torques[seen:]], axis=0))
    assert (steps <= 0.008 * rate).all()  # two periods, and states may be lost; the whole is 0.01


def test_torques_of_a_controller_without_states_are_not_forwarded_while_states_come(spin):
    rig = Rig(spin, command_timeout=0.05)
    rig.until(lambda: rig.ends.torques, rig.talk, why='for a command')

    def talk_without_states():
        rig.ends.state()
        rig.ends.command(-GOOD, commands.HOLD_LABEL)

    rig.until(lambda: rig.guard.cause == 'silence', talk_without_states, why='for the hold')
    rig.until(lambda: np.allclose(rig.ends.torques[-1], gravity(READY), atol=1.0),
              talk_without_states, why='for the torque that holds')
    assert not any(np.array_equal(one, -GOOD) for one in rig.ends.torques)
    rig.until(lambda: np.array_equal(rig.ends.torques[-1], GOOD), rig.talk, why='for the commands')


def test_hold_goes_on_without_a_state_before_states_count_as_stale(spin):
    rig = Rig(spin, state_timeout=NEVER / 3.0).forwarding().held()
    rig.until(lambda: rig.ends.labels[-1] == commands.HOLD_LABEL, lambda: None, 'for torques')
    assert rig.guard.counts['stale_state'] == 0


@pytest.mark.parametrize('tau', [GOOD, [np.nan] * 7], ids=['good', 'refused'])
def test_hold_goes_on_without_a_state_while_commands_come(spin, tau):
    rig = Rig(spin, latched=True, state_timeout=NEVER / 3.0).forwarding().held()
    rig.until(lambda: rig.ends.labels[-1] == commands.HOLD_LABEL,
              rig.paced(lambda: rig.ends.command(tau)), 'for torques')
    before = len(rig.ends.torques)
    rig.until(lambda: len(rig.ends.torques) > before + 50,
              rig.paced(lambda: rig.ends.command(tau)), 'for torques')


def test_hold_goes_on_while_states_that_cannot_be_used_come_at_a_high_rate(spin):
    rig = Rig(spin, latched=True, state_timeout=NEVER / 3.0).forwarding().held()
    message = messages.joint_state(JOINTS, 0.0, READY, np.zeros(7), np.zeros(7))
    message.position[2] = np.nan

    def flood():
        for _ in range(3):
            rig.ends.states.publish(message)
        rig.ends.command()

    rig.until(lambda: rig.ends.labels[-1] == commands.HOLD_LABEL, flood, 'for torques')
    before = len(rig.ends.torques)
    rig.until(lambda: len(rig.ends.torques) > before + 50, flood, 'for torques')


def test_long_time_out_of_commands_is_warned_of(spin):
    rig = Rig(spin)
    assert spin.said(f"'command_timeout' is {NEVER:g} s")
    rig.relay.set_parameters(given(command_timeout=1.5))
    assert spin.said("'command_timeout' is 1.5 s: if the controller fails")


def test_another_controller_may_follow_at_once_after_a_last_command(spin):
    rig = Rig(spin).forwarding()
    rig.until_sent(gravity(READY), rig.answered(
        lambda: (rig.ends.state(), rig.ends.command(label=commands.LAST_LABEL))))
    other = Intruder()
    spin(lambda: other.commands.get_subscription_count() > 0, other)
    rig.until_sent(0.5 * GOOD, lambda: (rig.ends.state(), other.command(0.5 * GOOD)))
    assert not spin.said('not forwarded')


def test_last_command_after_a_silence_is_told(spin):
    rig = Rig(spin, command_timeout=0.2).forwarding()
    rig.until(lambda: spin.said('silence: no '), rig.paced(rig.ends.state))
    rig.until(lambda: spin.said('the last command of'), rig.paced(
        lambda: (rig.ends.state(), rig.ends.command(label=commands.LAST_LABEL))))


def test_live_parameters_apply_at_once_and_bad_sets_change_nothing(spin):
    rig = Rig(spin).forwarding()
    before = rig.guard.settings
    result = rig.relay.set_parameters_atomically([
        Parameter('reaction', value='damp'), Parameter('stop_rate', value=-1.0)])
    assert not result.successful
    assert rig.guard.settings is before
    result = rig.relay.set_parameters_atomically([
        Parameter('reaction', value='zero'), Parameter('command_timeout', value=0.2)])
    assert result.successful
    rig.until_sent([0.0] * 7, rig.ends.state)


def test_robot_may_come_by_topic_and_commands_in_another_order(spin):
    reverse = list(reversed(JOINTS))
    rig = Rig(spin, robot_description_file='', joint_order=reverse, latched=True)
    rig.until(lambda: spin.said('before there is a robot'), rig.talk)
    publisher = rig.ends.create_publisher(String, 'robot_description', LATCHED_QOS)
    publisher.publish(String(data=PANDA.urdf_text))
    rig.until_sent(GOOD[::-1], lambda: rig.talk(GOOD[::-1]))
    rig.until_sent(gravity(READY)[::-1],
                   lambda: (rig.ends.state(), rig.ends.command([np.nan] * 7)))


@pytest.mark.parametrize('parameters, message', [
    ({'tip': 'nowhere'}, 'nowhere'),
    ({'robot_description': 'hello', 'base': ''}, "'hello'.*URDF"),
    ({'reaction': 'panic'}, "'reaction'.*'panic': (give|must be).*hold, damp, gravity, zero"),
    ({'limits.effort': [1.0]}, "'limits.effort' .*1 .*(give|must be)"),
    ({'limits.effort_rate': [1.0]}, "'limits.effort_rate' .*1 .*(give|must be)"),
])
def test_relay_refuses_bad_parameters(ros, parameters, message):
    with pytest.raises(OscError, match=message):
        relay.Relay(parameter_overrides=given(**{**ROBOT, **parameters}))


class Intruder(Node):
    """A second node that publishes on the controller's command topic."""

    def __init__(self):
        """Create the publisher."""
        super().__init__('intruder')
        self.commands = self.create_publisher(Float64MultiArray, 'osc_controller/commands', 10)

    def command(self, tau):
        """Publish torques without a label."""
        self.commands.publish(Float64MultiArray(data=list(map(float, tau))))


def test_second_controller_on_the_command_topic_moves_nothing_and_is_named(spin):
    rig = Rig(spin).forwarding()
    rig.until(lambda: rig.engine.forwarded > 200, rig.paced(rig.talk))
    intruder = Intruder()
    spin(lambda: rig.ends.count_subscribers('osc_controller/commands') > 0
         and intruder.commands.get_subscription_count() > 0, intruder)
    seen = len(rig.ends.torques)
    rig.until(lambda: rig.relay._loop.source.refused > 200 and len(rig.ends.torques) > seen + 200,
              rig.paced(lambda: (rig.talk(), intruder.command(-GOOD))))
    np.testing.assert_array_equal(np.array(rig.ends.torques[seen:]),
                                  np.tile(GOOD, (len(rig.ends.torques) - seen, 1)))
    assert spin.said('not forwarded: commands of another publisher than /ends (GID ')
    assert spin.said(': /intruder (GID ')
    rig.until(lambda: any('refuses the commands of another publisher' in status.message
                          for status in rig.ends.diagnoses), rig.talk)
    values = {pair.key: pair.value for pair in rig.ends.diagnoses[-1].values}
    assert values['commands of'].startswith('/ends (GID ')
    assert values['other publishers'].startswith('/intruder (GID ')
    assert int(values['refused of other publishers']) > 0


@pytest.mark.parametrize('beside', first_quick([True, False]),
                         ids=['beside a silent publisher', 'alone'])
def test_relay_that_is_late_does_not_take_its_controller_for_another_one(
        spin, monkeypatch, beside):
    rig = Rig(spin, command_timeout=0.1).forwarding()
    others = [Intruder()] if beside else []
    spin(lambda: rig.publishers() == 1 + len(others), *others)
    talk = rig.answered(rig.talk)
    labelled_time, stalls = commands.labelled_time, []

    def late(label):
        if not stalls:  # another process has the processor in the middle of a callback
            stalls.append(time.sleep(0.3))
        return labelled_time(label)

    rig.until(lambda: rig.engine.forwarded > 100, talk)
    before = rig.guard.counts['other_publisher']  # while the nodes found each other
    monkeypatch.setattr(commands, 'labelled_time', late)
    # Python takes the command, because its label has another length than the one before
    rig.until(lambda: stalls, rig.paced(lambda: rig.ends.command(GOOD, '1.5')))
    seen = rig.engine.forwarded
    rig.until(lambda: rig.engine.forwarded > seen + 50, talk)
    assert rig.guard.counts['other_publisher'] == before


def test_of_two_controllers_that_start_together_none_moves_the_arm_until_one_ends(spin):
    rig, intruder = Rig(spin, command_timeout=0.3), Intruder()
    spin(lambda: intruder.commands.get_subscription_count() > 0
         and rig.publishers() == 2, intruder)
    rig.until(lambda: rig.relay._loop.source.refused > 100,
              rig.paced(lambda: (rig.talk(), intruder.command(-GOOD))))
    assert not rig.ends.torques
    assert spin.said('not forwarded: several nodes publish commands, and none ')
    rig.forwarding()


def test_commands_are_not_forwarded_while_two_drivers_send_states(spin):
    rig, other = Rig(spin), Ends('another')
    other.destroy_publisher(other.commands)
    spin(lambda: other.states.get_subscription_count() > 0, other)

    def knows_both():
        loop = rig.relay._loop
        return loop is not None and np.isfinite(loop.publishers.known.heard).sum() == 2

    rig.until(knows_both, lambda: (other.state(0.9 * READY), rig.ends.state()))
    rig.until(lambda: spin.said("not forwarded: several publishers on '/joint_states' send"),
              lambda: (other.state(0.9 * READY), rig.talk()))
    assert not rig.ends.torques
    other.destroy_publisher(other.states)
    rig.forwarding()


class Judge(Node):
    """Records the states of the simulated arm and the commands, and sends targets."""

    def __init__(self):
        """Create the subscriptions and the publisher."""
        super().__init__('judge')
        self.times, self.q, self.qd, self.answered, self.pose = [], [], [], [], None
        listen = self.create_subscription
        listen(JointState, 'joint_states', self._on_state, 1000)
        listen(Float64MultiArray, 'osc_controller/commands', self._on_answer, 1000)
        listen(PoseStamped, 'osc_controller/pose', lambda message: setattr(self, 'pose', message),
               10)
        self.targets = self.create_publisher(PoseStamped, 'osc_controller/target_pose', 10)

    def _on_state(self, message):
        time = messages.seconds(message.header.stamp)
        if not self.times or time > self.times[-1]:
            self.times.append(time)
            self.q.append(np.array(message.position))
            self.qd.append(np.array(message.velocity))

    def _on_answer(self, message):
        time = commands.labelled_time(commands.label(message))
        if time is not None:
            self.answered.append(time)

    @property
    def speed(self):
        """Speed of the fastest joint, relative to 2.175 rad/s, the limit of joints 1 to 4."""
        return np.max(np.abs(self.qd[-1]) / 2.175)


def test_arm_without_brakes_whose_controller_is_deactivated_is_held_by_the_relay(spin):
    judge, rate, none = Judge(), {'rate': 250.0}, [0.0] * 7
    simulator = Simulator(parameter_overrides=given(
        **ROBOT, **rate, initial_positions=READY.tolist(), command_topic='osc_relay/commands',
        lockstep=True, lockstep_timeout=3600.0, brakes=False, friction=none, damping=none))
    guard = relay.Relay(parameter_overrides=given(
        **ROBOT, **rate, command_timeout=0.3, state_timeout=NEVER,
        **{'limits.effort_rate': [1e6] * 7}))
    controller = Controller(parameter_overrides=given(**ROBOT, **rate, state_timeout=NEVER))
    spin(lambda: judge.times and judge.times[-1] > 0.2, judge, simulator, guard, controller,
         why='for an active controller')
    controller.trigger_deactivate()
    spin(lambda: not controller._ending and guard._loop.engine.guard.cause == 'silence',
         why='for the end of the commands')
    spin(lambda: judge.times[-1] > 1.0)
    left, held = judge.times[-1], judge.q[-1]
    simulator._plant.push(PANDA.tip, [0.0, 3.0, 3.0])  # a constant torque would not resist
    spin(lambda: judge.times[-1] > left + 0.1)
    simulator._plant.push(PANDA.tip, [0.0, 0.0, 0.0])
    spin(lambda: judge.times[-1] > left + 4.0)
    q = np.array(judge.q)[np.array(judge.times) > left]
    assert 1e-3 < np.abs(q - held).max() < 0.1
    assert np.abs(q[-250:] - held).max() < 1e-4
    assert guard._loop.engine.guard.cause == 'silence'
    assert guard._loop.engine.guard.reaction == 'hold'
    assert simulator._unanswered == 0


def test_arm_whose_controller_is_killed_at_full_speed_rests_within_a_second(spin, start):
    judge = Judge()
    simulator = Simulator(parameter_overrides=given(
        **ROBOT, initial_positions=READY.tolist(), command_topic='osc_relay/commands',
        lockstep=True, lockstep_timeout=3600.0))
    guard = relay.Relay(parameter_overrides=given(
        **ROBOT, command_timeout=0.5, state_timeout=NEVER, **{'limits.effort_rate': [1e6] * 7}))
    controller = start('controller', '--ros-args', '--params-file',
                       share_directory() / 'config' / 'panda.yaml', '-p', 'state_timeout:=30.0')
    spin(lambda: judge.pose, judge, simulator, guard, why=controller.log.read_text)
    target = judge.pose
    target.pose.position.y += 0.5
    target.pose.position.z -= 0.2
    target.header.stamp = messages.stamp(0.0)
    judge.targets.publish(target)

    spin(lambda: judge.speed > 0.8, why='for speed')
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    spin(lambda: guard._loop.engine.guard.cause == 'silence')
    killed = judge.answered[-1]
    spin(lambda: judge.times[-1] > killed + 1.0)

    times, q, qd = np.array(judge.times), np.array(judge.q), np.array(judge.qd)
    at = np.searchsorted(times, killed)
    assert np.abs(qd[at]).max() > 1.5
    assert np.abs(qd[times >= killed + 1.0]).max() < 0.01
    limits = simulator._plant._position_limits
    assert ((q > limits[:, 0]) & (q < limits[:, 1])).all()
    # the plant stepped in every period, each time with the command for its state
    np.testing.assert_allclose(np.diff(times), 0.002, atol=1e-9)
    assert simulator._unanswered == 0


# quick: test_user_presses_ctrl_c_in_a_simulation_with_a_relay of test_ending.py starts the same
@pytest.mark.slow
def test_user_without_a_ros_installation_starts_the_relay_as_the_page_says(spin, start):
    words = [one for one in texts.commands('doc/relay.md') if one[0].startswith('osc_')]
    assert [one[0] for one in words] == ['osc_simulator', 'osc_relay', 'osc_controller']
    ears = Node('ears')
    heard = {node: [] for node in ('osc_relay', 'osc_controller')}
    for node, found in heard.items():
        ears.create_subscription(Float64MultiArray, f'{node}/commands', found.append, 10)
    processes = [start(command.removeprefix('osc_'), *(
        CHECKOUT / word if word.endswith('.yaml') else word for word in arguments))
        for command, *arguments in words]
    spin(lambda: all(len(found) > 50 for found in heard.values()), ears,
         why=[process.log.read_text() for process in processes])
    # the simulator is the only one that takes the commands of the relay
    assert ears.count_subscribers('/osc_relay/commands') == 2


PUBLISHER = """
import sys, time, rclpy
from std_msgs.msg import Float64MultiArray
rclpy.init(args=[])
node = rclpy.create_node(sys.argv[1])
publisher = node.create_publisher(Float64MultiArray, 'osc_controller/commands', 1)
while True:
    publisher.publish(Float64MultiArray(data=list(map(float, sys.argv[2:]))))
    time.sleep(0.002)
"""


DRIVER = """
import sys, time
import numpy as np
import rclpy
from rclpy.serialization import serialize_message
from test_relay import Ends
rclpy.init()
ends = Ends()
def wait(happened, patience=10.0):
    end = time.monotonic() + patience
    while not happened() and time.monotonic() < end:
        rclpy.spin_once(ends, timeout_sec=0.01)
    return happened()
def passes(scale, patience=10.0):
    ends.state()
    tau = scale * np.array([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0])
    ends.command(tau)
    label = '%d.%09d' % divmod(2_000_000 * ends.tick, 10**9)
    return wait(lambda: label in ends.labels and np.allclose(ends.torques[-1], tau, atol=1e-9),
                patience)
wait(lambda: ends.states.get_subscription_count() > 0
     and ends.commands.get_subscription_count() > 0
     and ends.count_publishers('osc_relay/commands') > 0)
def is_held(patience=10.0):
    ends.state()
    label = '%d.%09d' % divmod(2_000_000 * ends.tick, 10**9)
    return wait(lambda: label in ends.labels, patience)
while not (passes(1.0, 0.1) and passes(1.0, 0.1)):
    pass
held = sys.argv[1] == 'held'
print('ready', flush=True)
sys.stdin.readline()
while held and not is_held(0.01):  # until the silence counts
    pass
done = all([is_held() if held else passes(1.0 + 1e-3 * k) for k in range(50)])
sys.stdout.write('.' if done else '!')
sys.stdout.flush()
sys.stdin.readline()
"""


@pytest.mark.parametrize('what', first_quick(['held', 'forwarded']))
def test_commands_are_forwarded_and_the_arm_is_held_while_the_interpreter_is_blocked(spin, what):
    guard = relay.Relay(parameter_overrides=given(
        **ROBOT, command_timeout=NEVER if what == 'forwarded' else 0.5, state_timeout=NEVER,
        **{'limits.effort_rate': [1e6] * 7}))
    spin(lambda: True, guard)

    def counts():
        return guard._loop.read(lambda engine: (engine.forwarded, engine.reaction_count))

    with subprocess.Popen(
            [sys.executable, '-c', DRIVER, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, 'PYTHONSAFEPATH': '',
                 'PYTHONPATH': import_path(Path(__file__).parent)}) as driver:
        assert driver.stdout.readline() == b'ready\n'
        before = counts()
        assert done_while_python_is_blocked(driver)
    more = (50, 0) if what == 'forwarded' else (0, 50)
    expected = tuple(map(sum, zip(before, more)))
    # one is counted after it has been sent, also the last one before
    spin(lambda: all(one >= least for one, least in zip(counts(), expected)),
         why='for the counts')
    assert counts()[0] <= expected[0] + (what == 'forwarded')


def test_bytes_in_place_of_commands_are_refused_in_words_and_change_nothing(spin):
    rig = Rig(spin, command_timeout=0.3).forwarding()
    whole, rng = bytes(serialize_message(Float64MultiArray(data=GOOD.tolist()))), (
        np.random.default_rng(5))
    rig.ends.destroy_publisher(rig.ends.commands)
    rig.ends.commands = rig.ends.create_publisher(Float64MultiArray, 'osc_controller/commands', 10)
    rig.until(lambda: spin.said('accepts the commands of', 2), rig.talk)
    rig.until_sent(GOOD, rig.talk)
    for k in range(300):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 1 + k % 4):
            data[at] = int(rng.integers(256))
        rig.ends.state()
        rig.ends.commands.publish(bytes(data[:rng.integers(1, len(data) + 1)]))
        if k % 30 == 0:
            rig.until_sent(GOOD, rig.talk)
    rig.until_sent(GOOD, rig.talk)
    assert all(np.isfinite(tau).all() and (np.abs(tau) <= LIMITS).all()
               for tau in rig.ends.torques)


def test_timers_have_callbacks_without_arguments(spin):
    """From Kilted on, rclpy passes the time to a callback that may have an argument."""
    for timer in Rig(spin).relay.timers:
        assert not inspect.signature(timer.callback).parameters


# The last tests: ROS lists the killed publishers for 20 s, and a relay in lockstep would wait for
# them.
def test_torque_does_not_step_when_controllers_are_killed_and_take_over(spin):
    fade = 0.2
    rig = Rig(spin, command_timeout=1.0, fade_time=fade)
    torques = {'one': 0.4 * LIMITS, 'two': -0.4 * LIMITS}
    running, state = {}, rig.paced(rig.ends.state)

    def start(name):
        running[name] = subprocess.Popen(
            [sys.executable, '-c', PUBLISHER, name, *map(str, torques[name])])

    def kill(name):
        running[name].kill()
        running[name].wait()

    def refused(more=100):
        count = rig.relay._loop.source.refused + more
        rig.until(lambda: rig.relay._loop.source.refused > count, state)

    try:
        start('one')
        rig.until_sent(torques['one'], state)
        seen = len(rig.ends.torques)
        start('two')
        refused()
        assert not any(np.allclose(tau, torques['two']) for tau in rig.ends.torques[seen:])
        kill('one')
        rig.until_sent(torques['two'], state)
        seen = len(rig.ends.torques)
        start('one')
        refused()
        assert not any(np.allclose(tau, torques['one']) for tau in rig.ends.torques[seen:])
        kill('two')
        rig.until_sent(torques['one'], state)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    steps = np.abs(np.diff(rig.ends.torques, axis=0))
    # largest step of a cubic fade between a controller's torque and the hold torque
    assert (steps <= 1.5 * 0.002 / fade * 1.5 * LIMITS).all()
