# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tests of the launch files; they need the package `launch` of ROS, which pip lacks."""

from contextlib import contextmanager, ExitStack
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import time

import pytest

reason = 'launch files need a ROS installation: launch and launch_ros are not to be had with pip'
pytest.importorskip('launch', reason=reason)
pytest.importorskip('launch_ros', reason=reason)
rclpy = pytest.importorskip('rclpy')

from ament_index_python.packages import get_package_share_directory  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402

from common import CHECKOUT  # noqa: E402
from osc_ros.ros.messages import commands  # noqa: E402
from osc_ros.ros.process.profile import profile_variable  # noqa: E402
from processes import complaints  # noqa: E402

pytestmark = pytest.mark.ros

# Replaces the command `ros2 launch`, which some ROS installations lack.
LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
service = LaunchService()
service.include_launch_description(LaunchDescription([IncludeLaunchDescription(
    PythonLaunchDescriptionSource(sys.argv[1]),
    launch_arguments=[argument.split(':=', 1) for argument in sys.argv[2:]])]))
sys.exit(service.run())
"""
STARTED = 240.0  # [s]; the first start of the nodes compiles their kernels
ENDED = 30.0  # [s]


SHARE = Path(get_package_share_directory('osc_ros'))
SIDES = 'left', 'right'


class Launched:
    """A running launch file, in its own process group."""

    def __init__(self, file, *arguments, **environment):
        self.process = subprocess.Popen(
            [sys.executable, '-c', LAUNCH, str(SHARE / 'launch' / file), *arguments], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **environment})

    def __enter__(self):
        return self

    def __exit__(self, *error):
        # launch_ros sometimes hangs at its end: kill all processes of the group.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()

    def end_alone(self, number):
        """Send a signal to launch, not to its nodes, and wait for its end."""
        self.process.send_signal(number)
        self.process.wait(ENDED)

    @property
    def leaves_nodes(self):
        """Whether processes of its group are running, after the end of launch."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def output_after_ctrl_c(self, *more):
        """Send SIGINT, then the signals `more`, to launch and its nodes; return the output."""
        for number in (signal.SIGINT, *more):
            os.killpg(self.process.pid, number)
            time.sleep(0.05)
        try:
            return self.process.communicate(timeout=ENDED)[0]
        except subprocess.TimeoutExpired:
            if self._members() != [str(self.process.pid)]:
                raise
            pytest.skip('launch waits for ever for a node that has ended')

    def _members(self):
        """Return the numbers of the processes of its group."""
        found = subprocess.run(['pgrep', '-g', str(self.process.pid)], capture_output=True,
                               text=True)
        return found.stdout.split()


class Ear:
    """A node that subscribes to commands."""

    def __init__(self, context):
        self.node = rclpy.create_node('ear', context=context)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)

    def commands(self, topic):
        received = []
        self.node.create_subscription(Float64MultiArray, topic, received.append, 10)
        return received

    def wait_for(self, number, received, launched):
        end = time.monotonic() + STARTED
        while len(received) < number:
            assert launched.process.poll() is None, launched.process.communicate()[0]
            assert time.monotonic() < end, f'{len(received)} commands in {STARTED} s'
            self._executor.spin_once(timeout_sec=0.1)

    def spin(self):
        self._executor.spin_once(timeout_sec=0.1)

    def end(self):
        self._executor.shutdown()
        self.node.destroy_node()


@pytest.fixture
def ear():
    context = rclpy.Context()
    rclpy.init(context=context)
    ear = Ear(context)
    yield ear
    ear.end()
    rclpy.shutdown(context=context)


def test_simulation_is_controlled_and_ends_cleanly(ear):
    received = ear.commands('/osc_controller/commands')
    with Launched('simulation.launch.py') as launched:
        ear.wait_for(100, received, launched)
        names = set(ear.node.get_node_names())
        output = launched.output_after_ctrl_c()
    assert {'osc_controller', 'osc_simulator'} <= names
    assert {len(command.data) for command in received} == {7}
    assert launched.process.returncode == 0, output
    assert output.count('process has finished cleanly') == 2, output


@pytest.mark.parametrize(('robot', 'joints'), [('gen3', 7), ('dual_panda', 14)])
def test_simulation_of_any_robot_sends_its_torques_through_the_relay(ear, robot, joints):
    received = ear.commands('/osc_relay/commands')
    with Launched('simulation.launch.py', f'robot:={robot}', 'relay:=true',
                  'lockstep:=true') as launched:
        ear.wait_for(100, received, launched)
        output = launched.output_after_ctrl_c()
    assert {len(command.data) for command in received} == {joints}
    assert launched.process.returncode == 0, output
    assert output.count('process has finished cleanly') == 3, output


def test_simulation_runs_in_lockstep_and_in_a_namespace(ear):
    received = ear.commands('/left/osc_controller/commands')
    with Launched('simulation.launch.py', 'namespace:=left', 'lockstep:=true',
                  'log_level:=debug') as launched:
        ear.wait_for(100, received, launched)
        names = set(ear.node.get_node_names_and_namespaces())
        output = launched.output_after_ctrl_c()
    assert {('osc_controller', '/left'), ('osc_simulator', '/left')} <= names
    assert 'lockstep' in output
    assert launched.process.returncode == 0, output


def test_user_runs_two_simulations_in_two_namespaces_and_each_has_its_own_clock(ear):
    received = {side: ear.commands(f'/{side}/osc_controller/commands') for side in SIDES}
    with ExitStack() as stack:
        launched = {side: stack.enter_context(
            Launched('simulation.launch.py', f'namespace:={side}')) for side in SIDES}
        for side in SIDES:
            ear.wait_for(100, received[side], launched[side])
        assert [ear.node.count_publishers(topic) for topic in (
            '/clock', '/left/clock', '/right/clock')] == [0, 1, 1]
        # the end of one simulation does not affect the other
        output = launched['left'].output_after_ctrl_c()
        ear.wait_for(len(received['right']) + 100, received['right'], launched['right'])
        output += launched['right'].output_after_ctrl_c()
    assert output.count('process has finished cleanly') == 4, output


@pytest.mark.parametrize('pace', ['lockstep:=true', 'lockstep:=false'])
@pytest.mark.parametrize('more', [[], [signal.SIGINT], [signal.SIGINT] * 4], ids=len)
def test_user_presses_ctrl_c_and_all_ends_quietly(ear, pace, more):
    received = ear.commands('/osc_relay/commands')
    with Launched('simulation.launch.py', 'relay:=true', pace) as launched:
        ear.wait_for(100, received, launched)
        output = launched.output_after_ctrl_c(*more)
    assert output.count('process has finished cleanly') == 3, output
    # lines of nodes begin with the name of the process; launch has errors of its own
    assert not complaints('\n'.join(re.findall(r'^\[osc_.*', output, re.MULTILINE))), output


RVIZ = """#!/bin/sh
echo "rviz2 gets: $*."
read line < {pipe}
"""


def test_user_sees_the_simulation_in_rviz_and_closes_it(ear, tmp_path):
    index = tmp_path / 'share' / 'ament_index' / 'resource_index' / 'packages'
    rviz, pipe = tmp_path / 'lib' / 'rviz2' / 'rviz2', tmp_path / 'pipe'
    for folder in (index, rviz.parent):
        folder.mkdir(parents=True)
    (index / 'rviz2').touch()
    rviz.write_text(RVIZ.format(pipe=pipe))
    rviz.chmod(0o755)
    os.mkfifo(pipe)
    path = f'{tmp_path}{os.pathsep}{os.environ["AMENT_PREFIX_PATH"]}'
    received = ear.commands('/left/osc_controller/commands')
    with Launched('simulation.launch.py', 'rviz:=true', 'namespace:=left',
                  AMENT_PREFIX_PATH=path) as launched:
        ear.wait_for(100, received, launched)
        pipe.write_text('the window is closed\n')
        seen = len(received)
        ear.wait_for(seen + 500, received, launched)
        output = launched.output_after_ctrl_c()
    assert f'rviz2 gets: -d {SHARE}/config/simulation.rviz -f panda_link0' in output
    for rule in ('__ns:=/left', '/tf:=/left/tf', '/clock:=/left/clock'):
        assert rule in output
    assert output.count('process has finished cleanly') == 3, output


@pytest.mark.skipif((SHARE.parent / 'rviz2').is_dir(), reason='rviz2 is installed')
def test_user_without_rviz_is_told_what_to_install():
    with Launched('simulation.launch.py', 'rviz:=true') as launched:
        output = launched.process.communicate(timeout=STARTED)[0]
    assert launched.process.returncode == 1
    assert 'rviz:=true needs the package rviz2, which is not installed here' in output


@contextmanager
def hardware(config, *parameters):
    """Run the simulator in place of the driver of a robot."""
    command = [SHARE.parents[1] / 'lib' / 'osc_ros' / 'osc_simulator', '--ros-args',
               '--params-file', SHARE / 'config' / f'{config}.yaml']
    for parameter in parameters:
        command += ['-p', parameter]
    with subprocess.Popen(command) as simulated:
        try:
            yield
        finally:
            simulated.terminate()
    assert simulated.returncode == 0


@pytest.mark.parametrize(('given', 'relays'), [
    (['robot:=panda'], False), ([f'config:={SHARE}/config/panda.yaml', 'relay:=true'], True)])
def test_controller_sends_torques_where_it_is_told(ear, given, relays):
    received = ear.commands('/effort_controller/commands')
    with hardware('panda', 'command_topic:=/effort_controller/commands'), \
            Launched('controller.launch.py', 'use_sim_time:=True', *given) as launched:
        ear.wait_for(100, received, launched)
        assert ('osc_relay' in ear.node.get_node_names()) == relays
        output = launched.output_after_ctrl_c()
    assert launched.process.returncode == 0, output
    assert 'the last command carries the weight here' in output


@pytest.mark.parametrize('relays', [False, True])
def test_arms_with_a_controller_each_are_simulated_together(ear, relays):
    last = 'osc_relay' if relays else 'osc_controller'
    received = [ear.commands(f'/{side}/{last}/commands') for side in SIDES]
    with Launched('dual_arm.launch.py', 'simulation:=true', 'lockstep:=true',
                  f'relay:={relays}') as launched:
        for commands in received:
            ear.wait_for(100, commands, launched)
        names = set(ear.node.get_node_names_and_namespaces())
        output = launched.output_after_ctrl_c()
    assert {('osc_simulator', '/'), *(('osc_controller', f'/{side}') for side in SIDES)} <= names
    assert {len(command.data) for commands in received for command in commands} == {7}
    assert launched.process.returncode == 0, output
    assert output.count('process has finished cleanly') == (5 if relays else 3), output


def test_arms_with_a_controller_each_take_one_driver_or_two(ear):
    topics = [f'/{side}_effort_controller/commands' for side in SIDES]
    received = [ear.commands(topic) for topic in topics]
    with hardware('dual_arm', f'command_topic:={topics[0]}',
                  f'further_command_topics:=[{topics[1]}]'), \
            Launched('dual_arm.launch.py', 'use_sim_time:=true', 'relay:=true') as launched:
        for commands in received:
            ear.wait_for(100, commands, launched)
        output = launched.output_after_ctrl_c()
    assert launched.process.returncode == 0, output
    assert output.count('process has finished cleanly') == 4, output


def test_controllers_of_ros2_control_are_spawned_where_it_is_installed(tmp_path):
    index = tmp_path / 'share' / 'ament_index' / 'resource_index' / 'packages'
    spawner = tmp_path / 'lib' / 'controller_manager' / 'spawner'
    for folder in (index, spawner.parent):
        folder.mkdir(parents=True)
    (index / 'controller_manager').touch()
    spawner.write_text('#!/bin/sh\necho "spawns: $*."\n')
    spawner.chmod(0o755)
    path = f'{tmp_path}{os.pathsep}{os.environ["AMENT_PREFIX_PATH"]}'
    with Launched('controller.launch.py', 'robot:=panda', 'spawn:=one another',
                  'controller_manager:=/arm/manager', AMENT_PREFIX_PATH=path) as launched:
        said = []
        while not said or 'spawns' not in said[-1]:
            said.append(launched.process.stdout.readline())
            assert said[-1], said
        launched.output_after_ctrl_c()
    assert 'spawns: one another --controller-manager /arm/manager' in said[-1]


def test_simulation_passes_a_test_of_launch_testing():
    pytest.importorskip('launch_testing_ros')
    test = CHECKOUT / 'test' / 'support' / 'launch_testing_simulation.py'
    ran = subprocess.run([sys.executable, '-m', 'launch_testing.launch_test', test], text=True,
                         timeout=STARTED, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize('file, last', [
    (['simulation.launch.py', 'relay:=true', 'lockstep:=true'], '/osc_relay'),
    (['dual_arm.launch.py', 'simulation:=true', 'lockstep:=true'], '/left/osc_controller')])
def test_user_ends_launch_alone_and_the_nodes_stop_the_arm_and_end(ear, file, last, number):
    received = ear.commands(f'{last}/commands')
    with Launched(*file) as launched:
        ear.wait_for(100, received, launched)
        launched.end_alone(number)
        end = time.monotonic() + ENDED
        while launched.leaves_nodes or commands.label(received[-1]) != commands.LAST_LABEL:
            assert time.monotonic() < end, (launched.leaves_nodes, received[-1])
            ear.spin()


def test_user_lets_the_nodes_go_on_without_launch(ear):
    received = ear.commands('/osc_controller/commands')
    with Launched('simulation.launch.py', 'end_with_launch:=false') as launched:
        ear.wait_for(100, received, launched)
        launched.end_alone(signal.SIGKILL)
        end, seen = time.monotonic() + ENDED, len(received)
        while len(received) < seen + 1000:
            assert time.monotonic() < end, len(received)
            ear.spin()
        assert launched.leaves_nodes


@pytest.mark.parametrize('given', [
    ['simulation.launch.py', 'base:=no_such_link'],
    ['dual_arm.launch.py', 'simulation:=true', 'robot_description:=no_such_link']])
def test_end_of_one_node_ends_the_simulation_with_status_1(given):
    with Launched(*given) as launched:
        output = launched.process.communicate(timeout=STARTED)[0]
    assert 'no_such_link' in output
    assert 'was required: shutting down' in output
    assert 'ended with status 1' in output
    assert launched.process.returncode == 1


def node_pid(launched, name):
    """Return the process id of a node, from the output of launch."""
    for line in launched.process.stdout:
        if found := re.search(rf'\[{name}-\d+]: process started with pid \[(\d+)]', line):
            return int(found[1])
    raise AssertionError(name)


def test_controller_that_is_killed_ends_launch_with_an_error_but_not_the_relay(ear):
    received = ear.commands('/effort_controller/commands')
    with hardware('panda', 'command_topic:=/effort_controller/commands'):
        with Launched('controller.launch.py', 'robot:=panda', 'relay:=true',
                      'use_sim_time:=true') as launched:
            controller = node_pid(launched, 'osc_controller')
            ear.wait_for(100, received, launched)
            os.kill(controller, signal.SIGKILL)
            ear.wait_for(len(received) + 1000, received, launched)  # the relay holds the arm
            output = launched.output_after_ctrl_c()
        assert launched.process.returncode == 1, output
        seen = len(received)
        with Launched('controller.launch.py', 'robot:=panda', 'use_sim_time:=true') as launched:
            controller = node_pid(launched, 'osc_controller')
            ear.wait_for(seen + 100, received, launched)
            os.kill(controller, signal.SIGKILL)
            output = launched.process.communicate(timeout=ENDED)[0]
        assert launched.process.returncode == 1, output
        assert 'ended with status -9' in output


def variables(pid):
    """Return the environment of a process."""
    return dict(entry.split('=', 1) for entry in Path(
        f'/proc/{pid}/environ').read_text().split('\0') if '=' in entry)


@pytest.mark.parametrize('argument, own, profile, told', [
    ([], '', f'{SHARE}/config/fastdds.xml', True),
    ([], '/my.xml', '/my.xml', False),
    (['profile:=none'], '', None, False),
    (['profile:=shared_memory'], '/my.xml', f'{SHARE}/config/fastdds_shared_memory.xml', False)])
def test_nodes_get_the_profile_unless_the_user_has_one(argument, own, profile, told):
    name, other = profile_variable(), 'ROS_AUTOMATIC_DISCOVERY_RANGE'
    with Launched('controller.launch.py', *argument, **{name: own, other: ''}) as launched:
        lines = []
        for line in launched.process.stdout:
            lines.append(line)
            if found := re.search(r'process started with pid \[(\d+)]', line):
                break
        assert (variables(found[1]).get(name) or None) == profile
        assert any('on another machine' in line for line in lines) == told


@pytest.mark.parametrize(('file', 'argument', 'message'), [
    ('simulation.launch.py', 'robot:=pandora', "robot 'pandora' does not come with osc_ros"),
    ('simulation.launch.py', 'config:=nowhere.yaml', "config 'nowhere.yaml' is not a file"),
    ('controller.launch.py', 'config:=nowhere.yaml', "config 'nowhere.yaml' is not a file"),
    ('controller.launch.py', 'robot:=pandora', "robot 'pandora' does not come with osc_ros"),
    ('controller.launch.py', 'spawn:=effort_controller', "spawn 'effort_controller' needs the "
     'package controller_manager of ros2_control, which is not installed here'),
    ('dual_arm.launch.py', 'config:=nowhere.yaml', "config 'nowhere.yaml' is not a file"),
    ('controller.launch.py', 'profile:=shm', "profile 'shm' is not a file: give auto, "
     'loopback, shared_memory, none, or the path of a profile'),
    ('dual_arm.launch.py', 'profile:=shm', "profile 'shm' is not a file"),
    ('simulation.launch.py', 'end_with_launch:=no', "Valid options are: ['true', 'false'"),
    ('dual_arm.launch.py', 'relay:=perhaps', "Valid options are: ['true', 'false'"),
    ('simulation.launch.py', 'lockstep:=perhaps', "Valid options are: ['true', 'false'"),
])
def test_bad_launch_argument_is_refused_by_name(file, argument, message):
    with Launched(file, argument) as launched:
        output = launched.process.communicate(timeout=STARTED)[0]
    assert launched.process.returncode == 1
    assert message in output
