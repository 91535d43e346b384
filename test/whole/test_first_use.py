# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Typical first steps and mistakes of a ROS user, and the responses of the controller."""

import math
import subprocess
import sys
from time import perf_counter

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import PoseStamped, TwistStamped  # noqa: E402
from rcl_interfaces.srv import SetParameters  # noqa: E402
from rclpy.parameter import (  # noqa: E402
    get_parameter_value,
    Parameter,
    parameter_value_to_python,
)
from sensor_msgs.msg import JointState  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from node_rig import (  # noqa: E402
    FAILURE,
    given,
    gravity,
    JOINTS,
    READY,
    Rig,
    ROBOT,
    SUCCESS,
    target,
)
from osc_ros.ros.controller import controller  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.messages import messages  # noqa: E402
from osc_ros.ros.messages.publishers import NAMELESS  # noqa: E402
from osc_ros.ros.messages.qos import LATCHED_QOS  # noqa: E402
from osc_ros.ros.parameters.controller_parameters import ON_ACTIVATION  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402
from parameter_calls import Other  # noqa: E402
from variants import first_quick  # noqa: E402

TOPIC = '/osc_controller/commands'
# A process whose node has the controller's name and publishes on its topic until its input ends.
TWIN = """
import sys, rclpy
from std_msgs.msg import Float64MultiArray
rclpy.init()
node = rclpy.create_node('osc_controller')
publisher = node.create_publisher(Float64MultiArray, '/osc_controller/commands', 1)
sys.stdin.read()
node.destroy_node()
rclpy.shutdown()
"""


# A driver: a process that sends joint states until its input ends.
DRIVER = """
import sys, threading, time, rclpy
from sensor_msgs.msg import JointState
rclpy.init()
node = rclpy.create_node('driver')
publisher = node.create_publisher(JointState, 'joint_states', 10)
names, positions = sys.argv[1].split(), list(map(float, sys.argv[2].split()))
ends = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
while not ends.wait(0.01):
    message = JointState(name=names, position=positions, velocity=[0.0] * len(names))
    message.header.stamp = node.get_clock().now().to_msg()
    publisher.publish(message)
node.destroy_node()
rclpy.shutdown()
"""


def test_states_arrive_after_a_compilation_that_was_longer_than_the_lease_of_dds(
        spin, monkeypatch):
    made = controller.law_of

    def slowly(*arguments):
        began = perf_counter()
        while perf_counter() - began < 4.0:  # keeps the GIL but for moments, as a compiler does
            sum(range(100_000))
        return made(*arguments)

    monkeypatch.setattr(controller, 'law_of', slowly)
    driver = subprocess.Popen([sys.executable, '-c', DRIVER, ' '.join(JOINTS),
                               ' '.join(map(str, READY))], stdin=subprocess.PIPE)
    try:
        node = Controller(parameter_overrides=given(**ROBOT, startup_check='off'))
        spin(lambda: node._active, node, why='for the controller to be active')
        assert not spin.said('waiting for joint_states')
    finally:
        driver.communicate()


def test_controller_that_waits_for_the_arm_to_stand_still_says_so_and_not_that_nothing_arrives(
        spin):
    rig = Rig(spin, autostart=True)

    def state():
        # no two of eleven states are alike, so that lost states make none of them look still
        rig.hardware.state(q=READY + 0.02 * (rig.hardware.tick % 11), effort=np.zeros(7))

    rig.until_said("waiting for joint_states (the newest of '/joint_states' came ", state)
    assert spin.said('waiting until 5 of them differ by less than 0.01 rad or m')
    assert 'nothing arrives' not in rig.controller._loop.lack_of_states()
    assert not rig.controller._active


def test_first_state_alone_does_not_pass_for_enough_of_them(spin):
    """Another thread asks at any moment, also when the state is there but not yet counted."""
    rig = Rig(spin)
    rig.controller.trigger_configure()
    loop, seen = rig.controller._loop, []
    update = loop.engine.update
    loop.engine.update = lambda *given: update(*given) and not seen.append(loop.has_enough_states)
    spin(lambda: (rig.hardware.state(q=READY, effort=np.zeros(7)), seen)[1])
    assert seen[0] is False


# two publishers on the command topic


def second(**parameters):
    """Return another controller on the same topic."""
    return Controller(parameter_overrides=given(**ROBOT, state_timeout=30.0, **parameters),
                      cli_args=['--ros-args', '-r', '__node:=second', '-r',
                                f'~/commands:={TOPIC}'])


def test_user_who_launches_a_second_controller_is_told_and_only_the_first_commands(spin):
    rig = Rig(spin).activate()
    other = second()  # configures and activates itself
    spin(lambda: True, other)
    # DDS may lose the name of a node if its process had several nodes with this name
    names = '/osc_controller', NAMELESS
    spin(lambda: rig.hardware.state() and any(spin.said(
        f"waiting: {name} publishes on '{TOPIC}', too, and the torques of both would alternate: "
        'end that node') for name in names))
    assert other.trigger_activate() == FAILURE
    spin(lambda: any(spin.said(f"cannot activate: {name} publishes on '{TOPIC}'")
                     for name in names))
    assert not other._active
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)
    rig.deactivate()
    assert rig.controller.trigger_cleanup() == SUCCESS
    spin(lambda: rig.hardware.state() and other._active, why='for the second to take the arm')


def test_second_publisher_is_accepted_if_the_parameter_allows_it(spin):
    rig = Rig(spin).activate()
    other = second(autostart=False, **{ON_ACTIVATION.replace('.', '__'): 'accept'})
    spin(lambda: True, other)
    assert other.trigger_configure() == SUCCESS
    spin(lambda: rig.hardware.state() and other._state_age() < 1.0)
    assert other.trigger_activate() == SUCCESS


def test_user_who_launches_the_same_file_twice_is_told_although_the_names_are_equal(spin):
    rig = Rig(spin)
    twin = subprocess.Popen([sys.executable, '-c', TWIN], stdin=subprocess.PIPE)
    try:
        assert rig.controller.trigger_configure() == SUCCESS
        spin(lambda: rig.hardware.states.get_subscription_count() > 0
             and rig.hardware.count_publishers(TOPIC) == 2)
        spin(lambda: rig.hardware.state() and rig.controller._state_age() < 1.0)
        assert rig.controller.trigger_activate() == FAILURE
        # the middleware may not report a node if its process had nodes of this name before
        assert rig.controller._claims.others() in (('/osc_controller',), (NAMELESS,))
        rig.until_said(f"publishes on '{TOPIC}', too, and the torques of both would alternate")
        twin.communicate()  # closes the input of the process, which then ends
        spin(lambda: rig.hardware.count_publishers(TOPIC) == 1)
        rig.activate_configured()
    finally:
        twin.kill()
        twin.wait()


# goals


class Simulated(Rig):
    """A controller and a simulated Panda, in lockstep, in this process."""

    def __init__(self, spin, **parameters):
        """Start controller and simulator; subscribe to goal_error and goal_reached."""
        super().__init__(spin, tasks=['elbow'], elbow__link='panda_link4', **parameters)
        assert self.controller.trigger_configure() == SUCCESS  # may compile kernels for minutes
        self.simulator = Simulator(parameter_overrides=given(
            **ROBOT, initial_positions=READY.tolist(), lockstep=True,
            lockstep_timeout=3600.0))
        self.distances, self.reached = {'': [], 'elbow/': []}, {'': [], 'elbow/': []}
        for prefix in self.reached:
            self.hardware.create_subscription(
                TwistStamped, f'osc_controller/{prefix}goal_error',
                self.distances[prefix].append, 10)
            self.hardware.create_subscription(
                PoseStamped, f'osc_controller/{prefix}goal_reached',
                self.reached[prefix].append, LATCHED_QOS)
        self.hardware.destroy_publisher(self.hardware.states)
        spin(lambda: self.controller._state_age() < 1.0, self.simulator, why='for a state')
        assert self.controller.trigger_activate() == SUCCESS
        spin(lambda: self.simulator._tick > 20, why='for the loop to run')

    def send(self, message, topic='target_pose'):
        """Publish a message once the controller subscribes to the topic."""
        publisher = self.hardware.create_publisher(
            type(message), f'osc_controller/{topic}', 10)
        self.spin(lambda: publisher.get_subscription_count() > 0)
        publisher.publish(message)

    def goal(self):
        """Return the diagnostics of the goals by key."""
        return dict(self.controller._targets._goals.values())


def test_user_who_sends_a_goal_sees_the_distance_and_is_told_of_the_arrival(spin):
    rig = Simulated(spin)
    assert rig.goal()['goal'] == 'none' and rig.reached[''] == []
    message = target(position=(0.35, 0.0, 0.55))
    rig.send(message)
    spin(lambda: rig.distances[''], why='for a distance to the goal')
    first = np.array([rig.distances[''][0].twist.linear.x, rig.distances[''][0].twist.linear.y,
                      rig.distances[''][0].twist.linear.z])
    start = rig.controller._law.pose[:3, 3]
    assert np.linalg.norm(first) > 0.8 * np.linalg.norm([0.35, 0.0, 0.55] - start) > 0.02
    assert rig.goal()['goal'] == 'on the way' and rig.reached[''] == []
    spin(lambda: rig.reached[''], why='for the arrival')
    [event] = rig.reached['']
    p = event.pose.position
    assert (p.x, p.y, p.z) == pytest.approx((0.35, 0.0, 0.55))
    assert event.header.frame_id == 'panda_link0' and messages.seconds(event.header.stamp) > 0.2
    assert rig.goal()['goal'] == 'reached' and float(rig.goal()['goal distance [mm]']) < 2.0
    late = []  # messages of a subscriber that comes after the event: it gets the event, too
    rig.hardware.create_subscription(PoseStamped, 'osc_controller/goal_reached', late.append,
                                     LATCHED_QOS)
    spin(lambda: late == [event], why='for the latched event')
    rig.send(message)
    spin(lambda: len(rig.reached['']) == 2, why='for an answer to the same goal')
    assert rig.goal()['elbow goal'] == 'none' and rig.reached['elbow/'] == []


def test_goal_of_a_further_task_and_a_twist_that_has_none(spin):
    rig = Simulated(spin, goal__settle_time=0.05)
    elbow = rig.controller._law.levels['elbow'].pose
    there = target(position=elbow[:3, 3] + [0.0, 0.03, 0.0])
    rig.controller.set_parameters(given(**{'task.activation': 0.0}))
    rig.send(there, 'elbow/target_pose')
    spin(lambda: rig.reached['elbow/'], why='for the arrival of the elbow')
    assert rig.reached[''] == [] and rig.goal()['goal'] == 'none'
    twist = TwistStamped()
    twist.twist.linear.z = 0.01
    rig.send(twist, 'elbow/target_twist')
    spin(lambda: rig.goal()['elbow goal'] == 'none', why='for the twist')


# stamped commands


def test_user_who_records_commands_gets_them_with_names_and_the_stamp_of_the_state(spin):
    rig, seen = Rig(spin, joint_order=list(reversed(JOINTS))).activate(), []
    assert rig.controller._loop.listener is None  # no subscriber: nothing is recorded
    rig.hardware.create_subscription(JointState, 'osc_controller/commands_stamped', seen.append,
                                     100)
    spin(lambda: rig.ask() is not None and len(seen) > 10, why='for stamped commands')
    for message in seen:
        assert list(message.name) == list(reversed(JOINTS))
        np.testing.assert_array_equal(message.position, READY[::-1])
        np.testing.assert_array_equal(message.velocity, np.zeros(len(JOINTS)))
        answer = rig.hardware.answer(messages.label_of(message.header.stamp))
        np.testing.assert_array_equal(message.effort, answer)
    last = messages.seconds(seen[-1].header.stamp)
    rig.controller.set_parameters(given(state_timeout=0.05))
    spin(lambda: seen[-1].header.frame_id == 'hold', why='for a command that answers no state')
    assert messages.seconds(seen[-1].header.stamp) > last
    assert not seen[-1].position and not seen[-1].velocity


# parameters


def answer(other, name, text):
    """Set a parameter like `ros2 param set`; return the reason of a refusal, else ''."""
    message = Parameter(name, value=parameter_value_to_python(
        get_parameter_value(text))).to_parameter_msg()
    [result] = other.call(SetParameters, 'set_parameters', parameters=[message]).results
    assert result.successful == (result.reason == '')
    return result.reason


MISTYPED = [
    ('translation.natural_frequency', '[10, ten, 10]', "is '[10, ten, 10]': must be an array "
     'of 3, each a number'),
    ('posture.damping', 'nan', "'posture.damping' is nan: must be a number, at least 0, at most "
     '1000 [1/s]'),
    ('posture.damping', 'high', "'posture.damping' is 'high': must be a number, at least 0"),
    ('posture.dampin', '1.0', "parameter 'posture.dampin' is unknown (did you mean "
     "'posture.damping'?)"),
    ('no_such_thing_at_all', '1.0', "parameter 'no_such_thing_at_all' is unknown"),
    ('tip', 'panda_link3', "'tip' can be set only while the node is unconfigured; "),
]


def test_user_who_mistypes_a_parameter_reads_what_to_write(spin):
    rig = Rig(spin).activate()
    other = Other(spin, rig.controller)
    for name, text, reason in MISTYPED:
        found = answer(other, name, text)
        assert reason in found and len(found) < 300, (name, found)


@pytest.mark.parametrize('name, text, value', first_quick([
    ('translation.natural_frequency', '[10, 10.5, 1e1]', [10.0, 10.5, 10.0]),
    ('workspace.lower', '[-inf, -.5, -.inf]', [-math.inf, -0.5, -math.inf]),
    ('posture.damping', '1e1', 10.0), ('contact.force', 'inf', math.inf),
    ('contact.force', '.inf', math.inf), ('startup_check', 'off', 'off')], 2))
def test_user_writes_a_number_as_he_likes(spin, name, text, value):
    rig = Rig(spin).activate()
    assert answer(Other(spin, rig.controller), name, text) == ''
    found = rig.controller.get_parameter(name)
    assert (list(found.value) if isinstance(value, list) else found.value) == value
    assert found.type_ != Parameter.Type.STRING or isinstance(value, str)


def test_user_who_deletes_a_parameter_is_refused(spin):
    rig = Rig(spin).activate()
    message = Parameter('posture.damping', Parameter.Type.NOT_SET).to_parameter_msg()
    [result] = Other(spin, rig.controller).call(
        SetParameters, 'set_parameters', parameters=[message]).results
    assert result.reason == ("parameter 'posture.damping' cannot be deleted; set it to another "
                             'value')
    assert rig.controller.get_parameter('posture.damping').value == 1.0


def test_user_who_loads_the_dump_of_the_running_controller_is_not_refused(spin):
    rig = Rig(spin).activate()
    other, settings = Other(spin, rig.controller), rig.controller._law.settings
    dumped = other.dump()
    assert {'tip', 'rate', 'method', 'use_sim_time'} <= set(dumped)
    wanted = [Parameter(name, value=value).to_parameter_msg() if value != [] else
              Parameter(name, Parameter.Type.BOOL_ARRAY, []).to_parameter_msg()
              for name, value in dumped.items()]  # `ros2 param load` sends [] as an array of bool
    results = other.call(SetParameters, 'set_parameters', parameters=wanted).results
    assert [result.reason for result in results if not result.successful] == []
    assert rig.controller._law.settings is settings
    assert other.dump() == dumped


@pytest.mark.parametrize('text, reason', [
    ('translation.speed: [10, 10.5]', 'line 3: a list mixes types: write every number of a list '
     'with a decimal point, as in [10.0, 10.5]'),
    pytest.param(' bad: {1', "parameter file '", marks=pytest.mark.slow),
])
def test_user_whose_parameter_file_is_wrong_reads_one_line_about_it(tmp_path, text, reason):
    path = tmp_path / 'my.yaml'
    path.write_text(f'/**:\n  ros__parameters:\n    {text}\n')
    ended = subprocess.run(
        [sys.executable, '-m', 'osc_ros.start', 'controller', '--ros-args', '--params-file', path],
        capture_output=True, text=True, timeout=60.0)
    assert ended.returncode != 0 and 'Traceback' not in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"cannot start: parameter file '{path}'") and reason in last


# services and messages


def test_user_who_calls_release_without_need_reads_that_and_not_of_a_deadline(spin):
    rig = Rig(spin, rate=20000.0)  # every update misses its deadline, which is only reported
    client = rig.hardware.create_client(Trigger, 'osc_controller/release')
    assert rig.controller.trigger_configure() == SUCCESS
    spin(client.service_is_ready)

    def released():
        future = client.call_async(Trigger.Request())
        spin(future.done)
        return future.result()

    assert released().message == 'not active: there is nothing to release'
    rig.activate_configured()
    spin(lambda: rig.hardware.state() and rig.controller._loop.engine.guard.reaction == 'report',
         why='for a missed deadline')
    assert released() == Trigger.Response(
        success=True, message='there is nothing to release: the law controls the arm')


def test_user_who_leaves_w_out_is_told_that_it_is_1(spin):
    rig = Rig(spin).activate()
    rig.until_said('has length 1.41421: must be 1, in the order x y z w (no rotation is '
                   '0 0 0 1); a message that leaves w out has w = 1: send all four numbers, also '
                   'w: 0.0', lambda: rig.hardware.poses.publish(
                       target(quaternion=(1.0, 0.0, 0.0, 1.0))))


def test_user_who_rounds_a_quaternion_is_served(spin):
    rig = Rig(spin).activate()
    level = rig.controller._law.levels['tip']
    for length in (0.991, 1.009):
        rig.hardware.poses.publish(target(quaternion=(length, 0.0, 0.0, 0.0)))
        spin(lambda: rig.ask() is not None and level.goal is not None)
        np.testing.assert_allclose(level.goal[:3, :3], np.diag([1.0, -1.0, -1.0]), atol=1e-12)
        rig.controller._law.stop()
        spin(lambda: rig.ask() is not None and level.goal is None)


def test_log_of_a_run_that_went_well_has_no_error_and_no_warning(spin):
    rig = Rig(spin, startup_check='off')
    assert rig.controller.trigger_configure() == SUCCESS
    assert rig.controller.trigger_activate() == FAILURE  # no state has come yet
    rig.until_said('cannot activate yet: no joint_states have come yet')
    rig.activate_configured()
    rig.hardware.poses.publish(target())
    for _ in range(20):
        rig.ask()
    rig.deactivate()
    rig.until_said('the arm is stopped')
    for bad in ('[ERROR]', '[FATAL]'):
        assert not spin.said(bad)
