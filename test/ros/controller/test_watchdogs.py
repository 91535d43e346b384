# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The watchdogs of the controller over real DDS: causes and reactions."""

from functools import partial
import gc
import re
import subprocess
import sys

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticStatus  # noqa: E402
from geometry_msgs.msg import PoseStamped, Vector3  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402
from visualization_msgs.msg import Marker, MarkerArray  # noqa: E402

from node_rig import given, gravity, JOINTS, READY, Rig, ROBOT, SUCCESS  # noqa: E402
from osc_ros.control.safety.supervision import HARMLESS  # noqa: E402
from osc_ros.loop import requests  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.parameters.controller_parameters import WATCHDOGS  # noqa: E402
from texts import read  # noqa: E402
from watched import bad_state, Watched  # noqa: E402


def jump(rig):
    """Send a state in which a joint is 0.5 rad away from its last position."""
    rig.hardware.state(q=READY + [0.5, 0, 0, 0, 0, 0, 0])


def too_fast(rig):
    """Send a state in which a joint moves at 1.6 times its limit."""
    rig.hardware.state(velocity=[3.5, *[0.0] * 6])


def wrong_velocity(rig):
    """Send states with a velocity of a joint that hardly moves."""
    for k in range(80):
        rig.ask(q=READY + 1e-5 * (k % 2), velocity=[0.3, *[0.0] * 6])


def publisher(rig):
    """Create a second publisher on the controller's command topic."""
    rig.other = rig.hardware.create_publisher(
        Float64MultiArray, 'osc_controller/commands', 1)


def touch(rig):
    """Send states that are away from the set-point: the arm does not move as it is driven."""
    for _ in range(100):
        rig.ask(q=READY + 0.005)


def obstacle(rig, place=(0.0, 0.0, 2.0)):
    """Publish an obstacle once."""
    marker = Marker(ns='ball', type=Marker.SPHERE, scale=Vector3(x=1.0, y=1.0, z=1.0))
    at = marker.pose.position
    at.x, at.y, at.z = place
    topic = rig.hardware.create_publisher(MarkerArray, 'osc_controller/obstacles', 1)
    rig.spin(topic.get_subscription_count)
    topic.publish(MarkerArray(markers=[marker]))
    obstacles = rig.controller._loop.engine.law.obstacles
    rig.spin(lambda: rig.pulse() or 'ball/0' in obstacles, why='for the obstacle')


def near_obstacle(rig):
    """Publish an obstacle that touches the hand."""
    obstacle(rig, (0.75, 0.0, 0.5))


def empty_hand(rig):
    """Report the fault 'payload', as the engine does if a fast arm does not carry its payload."""
    rig.controller._loop.request(
        lambda engine: engine.guard.report_fault('payload', 'the arm does not carry 2 kg'))


def nothing(rig):
    """Do nothing: the parameters alone are the cause."""


def no_more_of_it(rig):
    """Remove the cause of the watchdog's reaction from the rig."""
    if hasattr(rig, 'other'):
        rig.hardware.destroy_publisher(rig.other)
    if rig.controller._loop.engine.guard.has_estimates:
        rig.controller._loop.request(requests.release)
    rig.controller.set_parameters_atomically(given(
        target_timeout=60.0, state_timeout=60.0, obstacles__timeout=60.0,
        contact__torque=[1e3] * 7, clearance__margin=0.0))


CAUSES = {
    'stale_state': (nothing, {'state_timeout': 0.3}, 'no joint states on /joint_states for 0.3'),
    'stale_target': (nothing, {'target_timeout': 0.3}, 'no target message for 0.3'),
    'deadline': (nothing, {'rate': 20000.0}, 'an update took '),
    'not_finite': (bad_state, {}, "joint_states: position of 'panda_joint1' is nan"),
    'jump': (jump, {}, "'panda_joint1' went 0.5"),
    'overspeed': (too_fast, {}, "'panda_joint1' moves at 3.5: its limit is 2.175"),
    'velocity': (wrong_velocity, {}, "'panda_joint1' "),
    'other_publisher': (publisher, {}, '/hardware'),
    'stale_obstacles': (obstacle, {'obstacles.timeout': 0.3}, 'no obstacles message for 0.3'),
    'too_near': (near_obstacle, {'clearance.margin': 0.1, 'report_rate': 50.0}, "'panda_"),
    'payload': (empty_hand, {'watchdog__payload__latched': False}, 'the arm does not carry'),
    'contact': (touch, {'contact__torque': [0.002] * 7, 'watchdog__contact__latched': False},
                'external torque of '),
}


# A rate of 10 Hz, at which no update of a busy machine misses its deadline, and gains that the
# controller accepts at this rate.
SLOW = {'rate': 10.0, 'translation.natural_frequency': [2.0] * 3,
        'rotation.natural_frequency': [2.0] * 3, 'posture.natural_frequency': 2.0,
        'force.damping': 5.0, 'stop_rate': 2.0, 'limits.reaction_time': 0.4,
        'limits.repulsion': 1.0, 'free.rate': 4.0}


def test_every_watchdog_is_tried_here():
    assert set(CAUSES) == {entry.name for entry in WATCHDOGS}


def test_page_of_watchdogs_has_a_row_with_the_default_reaction_of_each():
    rows = re.findall(r'^\| `(\w+)` \|.*\| (\w+) \|$', read('doc/watchdogs.md'), re.MULTILINE)
    assert dict(rows) == {entry.name: entry.default.reaction for entry in WATCHDOGS}


@pytest.mark.parametrize('cause', CAUSES)
def test_every_cause_is_reported_changes_the_torque_and_ends(spin, cause):
    act, parameters, reason = CAUSES[cause]
    rig = Watched(spin, cause, **SLOW | {'settle_time': 2.0} | parameters)
    act(rig)
    values = rig.until_told(
        DiagnosticStatus.ERROR, f'{cause}: {reason}',
        lambda: cause == 'stale_state' or rig.pulse())
    assert int(values[f'watchdog {cause}']) >= 1
    if cause == 'stale_state':
        rig.spin(lambda: np.array_equal(rig.hardware.commands[-1].data, np.zeros(7)))
    elif cause == 'deadline':
        rig.until_commanded(np.zeros(7))
        return  # every update misses its deadline
    else:
        rig.until_commanded(np.zeros(7))
    no_more_of_it(rig)
    rig.until_commanded(gravity(READY))
    rig.found.clear()  # not the status from before the fault
    rig.until_told(DiagnosticStatus.OK, 'active', rig.pulse)


@pytest.mark.parametrize('cause', [
    cause if cause in ('deadline', 'contact') else pytest.param(cause, marks=pytest.mark.slow)
    for cause in CAUSES])
def test_cause_that_is_only_reported_changes_no_torque(spin, cause):
    if cause in ('stale_state', 'jump', 'not_finite'):
        pytest.skip('without a state there is no other torque')
    if cause == 'too_near':
        pytest.skip('the law pushes the arm away from the obstacle')
    act, parameters, reason = CAUSES[cause]
    # at a low rate, because a loaded machine would first report a missed deadline
    rig = Watched(spin, cause, 'report', **SLOW | parameters)
    act(rig)
    rig.until_told(DiagnosticStatus.WARN, f'{cause}: {reason}', rig.pulse)
    # an estimate takes the place of a wrong velocity
    np.testing.assert_allclose(rig.ask(), gravity(READY),
                               atol=1e-4 if cause == 'velocity' else 1e-8)


@pytest.mark.parametrize('reaction', ['hold', pytest.param('deactivate', marks=pytest.mark.slow)])
def test_second_controller_on_the_command_topic_is_named_and_may_stop_the_first(spin, reaction):
    rig = Watched(spin, 'other_publisher', reaction, **SLOW)
    second = Controller(parameter_overrides=given(**ROBOT, autostart=False), cli_args=[
        '--ros-args', '-r', '__node:=second', '-r', '~/commands:=/osc_controller/commands'])
    rig.spin(lambda: True, second)
    assert second.trigger_configure() == SUCCESS
    rig.until_told(DiagnosticStatus.ERROR, 'other_publisher: /second', rig.pulse)
    if reaction == 'deactivate':
        machine = rig.controller._state_machine
        rig.spin(lambda: rig.pulse() or machine.current_state[1] == 'inactive',
                 why='for the first to be deactivated')
        return
    rig.until_commanded(gravity(READY))
    assert rig.controller._loop.engine.guard.reaction == 'hold'
    assert second.trigger_cleanup() == SUCCESS
    rig.found.clear()  # not the status from before the fault
    rig.until_told(DiagnosticStatus.OK, 'active', rig.pulse)


def test_state_of_other_joints_is_ignored_and_no_cause(spin):
    rig = Watched(spin, 'not_finite')
    rig.until_said("joint states of other joints are ignored: joint_states lacks 'panda_joint1'",
                   lambda: rig.hardware.state(names=['finger'], q=[0.0]))
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)
    assert rig.controller._loop.engine.guard.counts['not_finite'] == 0
    assert not spin.said('[ERROR]')


def test_torque_goes_from_one_source_to_the_next_without_a_step(spin):
    rig = Watched(spin, 'not_finite', settle_time=1.0, fade_time=0.05)
    rig.until_commanded(gravity(READY))
    rig.hardware.commands.clear()
    bad_state(rig)
    rig.until_commanded(np.zeros(7))
    rig.until_commanded(gravity(READY))
    steps = np.abs(np.diff([one.data for one in rig.hardware.commands], axis=0)).max(axis=0)
    # largest step of a cubic fade in 25 periods, times two, because a command may be lost
    assert (steps <= 2.0 * 1.5 / 25.0 * np.abs(gravity(READY)) + 1e-6).all()
    assert len(rig.hardware.commands) > 50


def test_latched_cause_lasts_until_it_is_released(spin):
    rig = Watched(spin, 'not_finite', watchdog__not_finite__latched=True, settle_time=0.01)
    client = rig.hardware.create_client(Trigger, 'osc_controller/release')
    bad_state(rig)
    rig.until_commanded(np.zeros(7))
    for _ in range(50):
        rig.ask()
    loop = rig.controller._loop
    rig.spin(lambda: rig.pulse() or not loop.request(
        lambda engine: engine.guard.is_present('not_finite')), why='for settle_time')
    np.testing.assert_array_equal(rig.ask(), np.zeros(7))
    spin(client.service_is_ready)
    answer = client.call_async(Trigger.Request())
    spin(answer.done)
    assert answer.result().success, answer.result().message
    rig.until_commanded(gravity(READY))


def test_watchdog_can_deactivate_the_node_which_leaves_the_idle_command(spin):
    rig = Watched(spin, 'jump', 'deactivate', idle='zero')
    jump(rig)
    rig.until_said('the arm is stopped: the last command is zero', rig.pulse)
    np.testing.assert_array_equal(rig.controller._loop.engine.guard.last_torque, np.zeros(7))
    assert rig.controller._state_machine.current_state[1] == 'inactive'
    count = len(rig.hardware.commands)
    for _ in range(5):
        rig.hardware.state()
        rig.spin(lambda: True)
    assert len(rig.hardware.commands) <= count + 2


def test_driver_that_sends_no_velocities_is_served(spin):
    rig = Rig(spin)
    rig.hardware.state = partial(rig.hardware.state, velocity=[])
    rig.activate()
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-6)
    assert rig.controller._loop._reader.used == 'estimated'
    rig.spin(lambda: spin.said('velocities are estimated from positions: joint_states has 7 names '
                               'and 0'), why='for the report')

    def goes_on():
        rig.hardware.state(q=READY + 0.2 * 0.002 * rig.hardware.tick)
        return np.allclose(rig.controller._loop.engine.qd, 0.2, atol=1e-3)

    rig.spin(goes_on, why='for the speed of the joints')


def test_states_that_stop_for_50_ms_are_bridged_by_commands_that_are_no_answers(spin):
    rig = Rig(spin).activate()  # state_timeout is 30 s: a busy machine stops for longer than 1 s
    rig.ask()
    rig.until_held(gravity(READY))
    assert rig.controller._loop.engine.guard.reaction in HARMLESS  # a late update is reported
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-6)


def test_law_that_fails_is_replaced_and_goes_on_when_it_can(spin):
    def use(engine, gains):
        d, before = engine.law._setup.d, engine.law._setup.d.posture_frequency
        d.posture_frequency = gains
        return before

    rig = Watched(spin, 'not_finite', 'gravity', settle_time=0.01, **SLOW)
    gains = rig.controller._loop.request(use, np.nan)
    rig.until_said('not_finite: InputError: posture_acceleration is not finite', rig.pulse)
    rig.until_commanded(gravity(READY))
    rig.controller._loop.request(use, gains)
    rig.found.clear()  # not the status from before the fault
    rig.until_told(DiagnosticStatus.OK, 'active', rig.pulse)


def test_arm_is_activated_again_while_it_is_being_stopped(spin):
    rig = Rig(spin).activate()
    rig.ask(velocity=[0.3] * 7)
    assert rig.controller.trigger_deactivate() == SUCCESS
    assert rig.controller._ending
    assert rig.controller.trigger_activate() == SUCCESS
    rig.ask()
    assert rig.controller._active and not rig.controller._ending


def test_target_of_a_path_is_stale_only_after_its_end(spin):
    rig = Watched(spin, 'stale_target', target_timeout=5.0)
    pose = PoseStamped()
    pose.pose.orientation.w = 1.0
    guard = rig.controller._loop.engine.guard
    before = guard.last_feed('stale_target')
    rig.spin(lambda: guard.last_feed('stale_target') > before
             or rig.hardware.poses.publish(pose))
    assert guard.last_feed('stale_target') > before


def test_garbage_is_collected_only_when_the_loop_allows(spin):
    rig = Rig(spin).activate()
    assert not gc.isenabled()
    rig.deactivate()
    assert rig.controller.trigger_cleanup() == SUCCESS
    assert gc.isenabled()


def test_request_for_real_time_returns_a_message():
    said = subprocess.run(
        [sys.executable, '-c', 'from osc_ros.loop.process import realtime as r\n'
         'print(r.prioritize(1)); print(r.lock_memory())'],
        capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0].startswith('SCHED_FIFO 1')
    assert said[1].startswith('memory locked') or said[1].startswith('memory not locked (')


def test_real_time_is_for_all_threads_or_none():
    said = subprocess.run(
        [sys.executable, '-c', 'from osc_ros.loop.process import realtime as r\n'
         'import os, threading\n'
         'end = threading.Event()\n'
         'threading.Thread(target=end.wait).start()\n'
         'r.prioritize(1)\n'
         'print(*(os.sched_getscheduler(int(i)) for i in os.listdir("/proc/self/task")))\n'
         'end.set()'],
        capture_output=True, text=True, check=True).stdout.split()
    assert len(said) >= 2 and len(set(said)) == 1


def test_state_timeout_is_followed_by_what_is_set(spin):
    rig = Watched(spin, 'stale_state', 'gravity', state_timeout=0.2)
    assert not rig.controller.set_parameters(
        given(watchdog__stale_state__reaction='report'))[0].successful
    rig.spin(lambda: rig.controller._loop.engine.guard.cause == 'stale_state',
             why='for a stale state')
    assert rig.controller._loop.engine.guard.is_stale
    assert rig.controller._loop.engine.guard.reaction == 'gravity'
    assert JOINTS == rig.controller._loop._reader.reader.names
