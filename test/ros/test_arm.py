# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_arm: a loop in a process of its own behind the node, and what happens if either dies."""

from dataclasses import replace
from operator import attrgetter
import os
from pathlib import Path
import pickle
import signal
import subprocess
import sys
from time import perf_counter, sleep
from types import SimpleNamespace

from hypothesis import given as for_all
from hypothesis import strategies as some
import numpy as np
import pytest

from common import naming, PATIENCE
from loops import memory_of
from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.safety.safety import AT_REST
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.settings import Settings
from osc_ros.errors import InputError
from osc_ros.hardware.contract import Description
from osc_ros.loop.cycle import ACTIVE, IDLE, MODES
from osc_ros.loop.process import channel, link
from osc_ros.loop.process.channel import Channel, Queue, RECORDS
from osc_ros.loop.process.process_start import Start, System
from osc_ros.model.robot import Robot
from osc_ros.sim.plant import Plant

pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from arm_rig import ARM, Client, Rig
from node_rig import FAILURE, given, JOINTS, PANDA, READY, ROBOT, SUCCESS
from osc_ros.ros.arm_node import ArmNode
from osc_ros.ros.controller.controller import Controller
from osc_ros.tools.check.parameter_files import text_of

ARM_ROBOT = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip, locked=PANDA.locked)
MARK = 'TEST_ARM_OF_PROCESS'


def true_pose(q):
    """Return the pose (4, 4) of the Panda's tip at q, by MuJoCo."""
    plant = Plant(PANDA.urdf_text, PANDA.base, JOINTS)
    plant.reset(q)
    return plant.pose(PANDA.tip)


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch):
    """Fail if a test leaves a process of a loop, which has its shared memory."""
    monkeypatch.setenv(MARK, str(os.getpid()))
    before = set(loops())
    yield
    deadline = perf_counter() + PATIENCE
    while set(loops()) - before and perf_counter() < deadline:
        sleep(0.01)
    assert not set(loops()) - before


def loops():
    """Return the numbers of the processes of loops that descend from this process."""
    mark = f'{MARK}={os.getpid()}'.encode()
    for folder in Path('/proc').glob('[0-9]*'):
        try:
            if b'osc_ros.loop.process.process' in (folder / 'cmdline').read_bytes() and (
                    mark in (folder / 'environ').read_bytes().split(bytes(1))):
                yield int(folder.name)
        except OSError:  # the process has ended
            continue


# the node


def test_goal_is_reached_as_with_osc_controller_and_joint_states_come(spin):
    rig = Rig(spin).activate()  # in real time: as fast as the machine, many states would be lost
    goal = true_pose(READY)
    goal[:3, :3] = np.diag([1.0, -1.0, -1.0])
    goal[:3, 3] += [0.05, -0.1, 0.02]
    rig.client.aim(goal)
    spin(lambda: rig.client.reached, why='for the goal')
    spin(lambda: np.allclose(true_pose(rig.client.states[-1].position), goal, atol=2e-3),
         why='for the arm to be there')
    assert rig.client.states[-1].name == list(JOINTS)
    stamps = [s.header.stamp.sec + 1e-9 * s.header.stamp.nanosec for s in rig.client.states]
    # joint_state_rate; on a busy machine the arm may skip a state, which shifts one stamp
    intervals = np.diff(stamps)[:50]
    assert np.isclose(intervals, 0.01, atol=1e-6).sum() > 40
    assert rig.node.trigger_deactivate() == SUCCESS
    spin(lambda: rig.node._loop.mode == IDLE, why='for the arm to be stopped')


def test_clients_cannot_tell_the_node_from_osc_controller(spin):
    arm, other = Rig(spin, tasks=['elbow'], elbow__link='panda_link4').activate(), Controller(
        parameter_overrides=given(**{**ROBOT, 'autostart': False, 'tasks': ['elbow'],
                                     'elbow__link': 'panda_link4'}))
    spin(lambda: True, other)
    assert other.trigger_configure() == SUCCESS

    def is_hidden(end):  # the claims of several controllers
        return '/_' in end.topic_name

    def interface(node):
        return ({(s.srv_name, s.srv_type) for s in node.services},
                {(s.topic_name, s.msg_type) for s in node.subscriptions if not is_hidden(s)},
                {(p.topic_name, p.msg_type) for p in node.publishers if not is_hidden(p)},
                set(node._parameters))

    for own, wanted in zip(interface(arm.node), interface(other)):
        assert wanted <= own


def test_process_of_the_loop_has_one_thread_and_neither_rclpy_nor_dds(spin):
    rig = Rig(spin).activate()
    folder = Path(f'/proc/{rig.process}')
    maps = (folder / 'maps').read_text()
    assert 'numba' in maps
    assert not any(name in maps for name in ('rclpy', 'librcl', 'librmw', 'fastrtps', 'fastdds'))
    assert len(list((folder / 'task').iterdir())) == 1


@pytest.mark.parametrize('compensates', ['gravity', 'gravity+coriolis'])
def test_arm_that_compensates_its_weight_is_controlled(spin, compensates):
    rig = Rig(spin, hardware__driver_compensates=compensates, driver_compensates=compensates,
              hardware__pace='fast').activate()
    goal = true_pose(READY)
    goal[:3, :3] = np.diag([1.0, -1.0, -1.0])
    goal[:3, 3] += [0.03, -0.05, 0.02]
    rig.client.aim(goal)
    spin(lambda: rig.client.reached, why='for the goal')
    spin(lambda: np.allclose(true_pose(rig.client.states[-1].position), goal, atol=2e-3),
         why='for the arm to be there')
    [result] = rig.node.set_parameters(given(payload__mass=0.1))
    assert result.successful, result.reason


def test_parameters_change_settings_and_model_while_the_arm_moves(spin):
    rig = Rig(spin, hardware__pace='fast').activate()
    goal = true_pose(READY)
    goal[:3, 3] += [0.1, 0.0, 0.0]
    rig.client.aim(goal)
    loop = rig.node._loop
    [result] = rig.node.set_parameters(given(payload__mass=50.0))
    assert not result.successful
    assert 'must be at most' in result.reason
    assert loop.request(attrgetter('law.robot.payload_mass')) == 0.0
    for name, value, place, wanted in (
            ('posture.natural_frequency', 3.0, 'law.settings.posture.natural_frequency', 3.0),
            ('payload.mass', 1.5, 'law.robot.payload_mass', 1.5),
            ('friction.coulomb', [0.1] * 7, 'law.settings.friction.coulomb', 0.1),
            ('limits.effort', [60.0] * 4 + [12.0] * 3, 'guard.settings.effort_limits',
             [60.0] * 4 + [12.0] * 3),
            ('payload.mass', 0.0, 'law.robot.payload_mass', 0.0)):
        [result] = rig.node.set_parameters(given(**{name.replace('.', '__'): value}))
        assert result.successful, result.reason
        before = loop.time
        spin(lambda old=before: loop.time > old)
        assert np.allclose(loop.request(attrgetter(place)), wanted), name
        if place.startswith('law.'):
            assert np.allclose(attrgetter(place[4:])(rig.node._law), wanted), name
    assert loop.mode == ACTIVE
    assert loop.request(attrgetter('guard.counts'))['not_finite'] == 0


def test_wrong_requests_and_late_answers_neither_end_the_loop_nor_mix_up(spin):
    rig = Rig(spin).activate()
    loop = rig.node._loop
    with pytest.raises(Exception, match='AttributeError'):
        loop.request(attrgetter('no.such.thing'))
    with pytest.raises(InputError, match='does not answer'):
        loop._request(-1.0, attrgetter('mode'))
    assert loop.request(attrgetter('counts.period')) == 0.001
    with pytest.raises(InputError, match='must be at most'):
        loop.request(print, bytes(channel.REQUESTS))
    loop._channel.requests.put(b'nonsense')
    assert loop.request(attrgetter('mode')) == ACTIVE


# refusals


def described(**changed):
    """Return the description of an arm that fits `start`, but for changes."""
    return replace(Description('an arm', ARM_ROBOT.joint_names, 1e-3, 'gravity',
                               np.asarray(ARM_ROBOT.effort_limits), np.full(7, 1e3)), **changed)


def start_of(rate=1000.0, compensates='gravity', **limits):
    """Return what a loop begins with, for an arm that compensates gravity."""
    robot = ARM_ROBOT
    settings = Settings(limits=Limits.of(robot, **{'effort_rate': np.full(7, 1e3), **limits}),
                        driver=Driver(robot, compensates))
    return Start('mujoco', {}, '', robot, settings, 'sweep', Supervision(
        {}, settings.limits.effort, 10.0, 0.1, 0.1, 0.1, deadline=1.0 / rate, period=1.0 / rate,
        velocity_limits=settings.limits.velocity), System())


@pytest.mark.parametrize(('arm', 'given', 'said'), [
    ({}, {'rate': 500.0}, ("'rate'", '500 Hz', 1000)),
    ({'compensates': 'none'}, {}, ("'driver_compensates'", "'gravity'", "'none'")),
    ({'effort_limits': np.full(7, 86.0)}, {}, ("'limits.effort'", '87 N·m', "'panda_joint1'")),
    ({}, {'effort_rate': np.full(7, 1001.0)}, ("'limits.effort_rate'", '1001 N·m/s', 'panda_joi')),
    ({'joint_names': tuple('abcdefg')}, {}, ('a, b, c, d, e, f, g',)),
], ids=('rate', 'compensation', 'torques', 'rates', 'joints'))
def test_what_does_not_fit_the_arm_is_refused_with_what_is_accepted(arm, given, said):
    start_of().settings_for(described())
    with pytest.raises(InputError, match=naming(*said)):
        start_of(**given).settings_for(described(**arm))


def test_refused_configuration_leaves_nothing_behind_and_can_be_corrected(spin):
    rig = Rig(spin, hardware__driver_compensates='gravity')
    assert rig.node.trigger_configure() == FAILURE
    assert spin.said("must be 'gravity'")
    assert not list(loops())
    rig.node.set_parameters(given(hardware__driver_compensates='none'))
    assert rig.node.trigger_configure() == SUCCESS


@pytest.mark.parametrize(('parameters', 'said'), [
    pytest.param({'workers': 2}, 'must be 1 for osc_arm', marks=pytest.mark.slow),
    ({'realtime__cpus': 'two'}, "'realtime.cpus' is 'two'"),
], ids=lambda given: next(iter(given)) if isinstance(given, dict) else '')
def test_refused_value_that_is_fixed_at_start_leaves_nothing_behind(spin, parameters, said):
    rig = Rig(spin, **parameters)
    assert rig.node.trigger_configure() == FAILURE
    assert spin.said(said)
    assert not list(loops())


def test_unknown_kind_of_arm_is_refused_at_once(ros):
    with pytest.raises(InputError, match='(give|must be).*franka, mujoco'):
        ArmNode(parameter_overrides=given(**{**ARM, 'hardware.kind': 'nonesuch'}))


def test_unknown_setting_of_the_arm_is_refused_at_once_but_not_one_of_another_kind(ros):
    with pytest.raises(InputError, match="'hardware.bse'.*(give|must be).*hardware.base"):
        ArmNode(parameter_overrides=given(**ARM, hardware__bse='x'))
    ArmNode(parameter_overrides=given(**ARM, hardware__address='x')).destroy_node()


@pytest.mark.slow  # quick: test_request_for_real_time_returns_a_message of test_watchdogs.py
def test_what_the_system_does_not_grant_is_said_and_the_arm_runs(spin):
    rig = Rig(spin, realtime__cpus='4095').activate()
    assert spin.said('not restricted to CPU 4095')
    assert rig.node._loop.mode == ACTIVE


# deaths


def test_killed_loop_is_told_and_the_node_starts_a_new_one(spin):
    rig = Rig(spin).activate()
    before = rig.process
    os.kill(before, signal.SIGKILL)
    spin(lambda: any(status.level == DiagnosticStatus.ERROR and 'has ended' in status.message
                     for status in rig.client.statuses), why='for the diagnostics')
    assert rig.node._state_machine.current_state[1] == 'unconfigured'
    rig.activate()
    assert rig.process != before
    assert rig.node._loop.mode == ACTIVE


def in_file(folder, **parameters):
    """Return the arguments of a process with the parameters of ARM, which starts by itself."""
    path = folder / 'arm.yaml'
    path.write_text(text_of({'osc_controller': {
        name.replace('__', '.'): value
        for name, value in {**ARM, 'autostart': True, **parameters}.items()}}))
    return '--ros-args', '--params-file', path


def ended_process():
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, '-c', '']) as process:
        return process.pid


def test_loop_whose_node_was_killed_before_it_was_asked_for_anything_ends():
    waiting = Channel(7)
    try:
        with subprocess.Popen(
                [sys.executable, '-c', 'from osc_ros.loop.process.process import main; main()',
                 '7', str(waiting.file), str(ended_process())],
                pass_fds=(waiting.file,)) as process:
            assert process.wait(PATIENCE) == 0
    finally:
        waiting.close()


def test_loop_whose_node_ends_while_the_arm_is_opened_ends_at_once():
    code = ('from time import sleep; from osc_ros.loop.process import process; '
            'process.hardware_class = lambda name: sleep(3600); process.main()')
    opening = Channel(7)
    try:
        opening.requests.put(pickle.dumps(SimpleNamespace(hardware='slow')))
        with subprocess.Popen(
                [sys.executable, '-c', code, '7', str(opening.file), str(ended_process())],
                pass_fds=(opening.file,)) as process:
            assert process.wait(PATIENCE) == 0
    finally:
        opening.close()


def test_progress_of_the_first_start_counts_the_kernels_of_the_loop():
    code = """
from osc_ros.compile.compiled import recorded_uses
from osc_ros.model.files import shipped_urdf
from osc_ros.ros.arm_loop import law_and_loop_of
from osc_ros.ros.parameters.controller_parameters import with_tasks
values = {entry.name: entry.default for entry in with_tasks([])}
values |= {'base': 'panda_link0', 'tip': 'panda_hand_tcp'}
for kernel, _ in recorded_uses(lambda: law_and_loop_of(
        values, shipped_urdf('panda').read_text())):
    print(kernel.py_func.__name__)
"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert {'answer', 'run_cycles', 'step'} <= set(done.stdout.split())


def test_loop_whose_node_was_killed_while_it_began_ends(spin, monkeypatch):
    class Popen(subprocess.Popen):
        def __init__(self, command, **more):
            super().__init__([*command[:-1], ended], **more)

    rig, ended = Rig(spin), str(ended_process())
    monkeypatch.setattr(link.subprocess, 'Popen', Popen)
    before = set(loops())
    rig.node.trigger_configure()  # succeeds if the process of the loop is slow
    spin(lambda: not set(loops()) - before, why='for the loop to end')


def test_loop_that_hangs_is_told_and_forgotten_when_it_goes_on(spin, monkeypatch):
    rig = Rig(spin).activate()
    os.kill(rig.process, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(link, 'ANSWERED', 2.0)
        spin(lambda: any(status.level == DiagnosticStatus.ERROR
                         and 'does not answer' in status.message
                         for status in rig.client.statuses), why='for the diagnostics')
    os.kill(rig.process, signal.SIGCONT)
    spin(lambda: rig.client.statuses[-1].level != DiagnosticStatus.ERROR, why='for it to go on')
    assert rig.node._loop.mode == ACTIVE


def test_loop_whose_node_was_killed_follows_its_target_holds_and_stops_on_a_signal(
        spin, start, tmp_path):
    client = Client()
    spin(lambda: True, client)
    node = start('arm', *in_file(tmp_path, hardware__identity=f'left {os.getpid()}'))
    spin(lambda: client.poses.get_subscription_count() and any(
        status.message == 'active' for status in client.statuses), why='for the arm')
    [loop] = loops()
    witness = memory_of(loop, 7)
    goal = true_pose(READY)
    goal[:3, :3] = np.diag([1.0, -1.0, -1.0])
    goal[:3, 3] += [0.1, 0.1, 0.0]
    begin = witness.at(witness.count - 1).q
    client.aim(goal)
    spin(lambda: np.abs(witness.at(witness.count - 1).q - begin).max() > 1e-3,
         why='for the motion')
    node.kill()
    node.wait()
    deadline = perf_counter() + PATIENCE
    while (np.abs(true_pose((newest := witness.at(witness.count - 1)).q) - goal).max() > 2e-3
           or np.abs(newest.qd).max() > 0.1 * AT_REST):
        assert perf_counter() < deadline
        sleep(0.05)
    assert MODES[witness.at(witness.count - 1).mode] == ACTIVE
    again = ArmNode(parameter_overrides=given(
        **ARM, hardware__identity=f'left {os.getpid()}'))
    spin(lambda: True, again)
    assert again.trigger_configure() == FAILURE
    assert spin.said(f'is under the control of process {loop}. If its osc_arm runs, end that; if '
                     'it was killed, end the process with kill')
    os.kill(loop, signal.SIGTERM)
    while loop in loops():
        assert perf_counter() < deadline
        sleep(0.01)
    assert again.trigger_configure() == SUCCESS
    last = witness.at(witness.count - 1)
    assert MODES[last.mode] == IDLE
    assert np.abs(last.qd).max() < AT_REST
    witness.close()


# quick: test_client_processes.py, where a program is killed
@pytest.mark.slow
def test_loop_of_a_simulated_arm_whose_node_was_killed_brings_it_to_rest_and_ends(
        spin, start, tmp_path):
    client = Client()
    spin(lambda: True, client)
    node = start('arm', *in_file(tmp_path))
    spin(lambda: client.poses.get_subscription_count() and any(
        status.message == 'active' for status in client.statuses), why='for the arm')
    [loop] = loops()
    witness = memory_of(loop, 7)
    goal = true_pose(READY)
    goal[:3, 3] += [0.1, 0.1, 0.0]
    client.aim(goal)
    spin(lambda: np.abs(witness.at(witness.count - 1).qd).max() > 0.05, why='for the motion')
    node.kill()
    node.wait()
    deadline = perf_counter() + PATIENCE
    while loop in loops():
        assert perf_counter() < deadline
        sleep(0.01)
    last = witness.at(witness.count - 1)
    assert MODES[last.mode] == IDLE
    assert np.abs(last.qd).max() < AT_REST
    witness.close()


def test_node_that_ends_brings_the_arm_to_rest_and_ends_the_loop(spin, start, tmp_path):
    client = Client()
    spin(lambda: True, client)
    node = start('arm', *in_file(tmp_path))
    spin(lambda: any(status.message == 'active' for status in client.statuses), why='for the arm')
    [loop] = loops()
    memory = memory_of(loop, 7)
    node.send_signal(signal.SIGINT)
    assert node.wait(PATIENCE) == 0
    assert MODES[memory.at(memory.count - 1).mode] == IDLE
    memory.close()


# quick: test_plain_topics_move_the_fingers_without_a_client of test_gripper_ros.py,
# test_gripper_of_the_loop_moves_while_the_arm_does of test_client.py
@pytest.mark.slow
def test_gripper_of_the_arm_has_the_topics_of_the_simulators(spin):
    rig = Rig(spin, hardware__pace='fast', hardware__gripper__joints=[
        'panda_finger_joint1', 'panda_finger_joint2']).activate()
    client, states, answers = rig.client, [], []
    client.create_subscription(JointState, 'osc_controller/gripper/state', states.append, 10)
    client.create_subscription(DiagnosticStatus, 'osc_controller/gripper/answers',
                               answers.append, 10)
    commands = client.create_publisher(Float64MultiArray, 'osc_controller/gripper/command', 10)
    spin(lambda: commands.get_subscription_count() and states
         and rig.node.count_subscribers('osc_controller/gripper/answers'))
    commands.publish(Float64MultiArray(data=[0.03]))
    spin(lambda: abs(states[-1].position[0] - 0.03) < 1e-3, why='for the fingers')
    assert answers[-1].level == DiagnosticStatus.OK
    commands.publish(Float64MultiArray(data=[0.5]))
    spin(lambda: answers[-1].level == DiagnosticStatus.ERROR, why='for the refusal')
    assert 'width of the gripper is 0.5 m' in answers[-1].message


def test_recover_answers_in_every_state(spin):
    rig = Rig(spin)
    client = rig.client.create_client(Trigger, 'osc_controller/recover')
    spin(client.service_is_ready)

    def recovered():
        future = client.call_async(Trigger.Request())
        spin(future.done)
        return future.result()

    assert 'not configured' in recovered().message
    assert rig.node.trigger_configure() == SUCCESS
    assert recovered().success
    assert rig.node.trigger_activate() == SUCCESS
    assert 'under control' in recovered().message


# the shared memory


@for_all(some.lists(some.one_of(some.binary(max_size=40), some.none()), max_size=60))
def test_queue_is_a_queue_at_every_place_of_its_ring(actions):
    """A message is put, or taken where the action is None; the ring is as small as possible."""
    queue = Queue(np.zeros(9, dtype=np.int64), 0, np.zeros(64, dtype=np.uint8))
    held = []
    for message in actions:
        if message is None:
            assert queue.take() == (held.pop(0) if held else None)
        elif queue.put(message):
            held.append(message)
        else:
            assert sum(8 + len(one) for one in held) + 8 + len(message) > 64
    while held:
        assert queue.take() == held.pop(0)


WRITER = """
import sys
import numpy as np
from osc_ros.loop.process.channel import Channel, RECORDS
channel, numbers = Channel(3, int(sys.argv[1])), np.zeros(4)
k, ends = 0, False
while not ends or k < 5 * RECORDS:
    row = np.full(3, float(k))
    channel.record(float(k), numbers, row, row, row, row)
    while not channel.events.put(str(k).encode()):
        pass
    k, ends = k + 1, ends or channel.requests.take() is not None
"""


def test_no_record_is_torn_and_no_message_lost_between_two_processes():
    shared = Channel(3)
    writer = subprocess.Popen([sys.executable, '-c', WRITER, str(shared.file)],
                              pass_fds=(shared.file,))
    found, heard = 0, []
    deadline = perf_counter() + PATIENCE
    while writer.poll() is None:
        assert perf_counter() < deadline
        if count := shared.count:
            for number in (count - 1, max(0, count - RECORDS)):
                record = shared.at(number)
                if record is not None:
                    found += 1
                    assert record.number == number
                    for row in (record.q, record.qd, record.tau, record.command):
                        assert (row == number).all()
        if found > 100:
            shared.requests.put(b'end')
        while (message := shared.events.take()) is not None:
            heard.append(int(message))
    assert writer.returncode == 0
    while (message := shared.events.take()) is not None:
        heard.append(int(message))
    last = shared.count - 1
    assert heard == list(range(len(heard)))
    assert len(heard) == last + 1
    assert shared.at(last).number == last
    assert shared.at(last - RECORDS) is None
    assert shared.at(last + 1) is None
    shared.close()
