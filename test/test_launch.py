"""The launch files, started as `ros2 launch` does; `launch` comes with ROS and not with pip."""

import os
from pathlib import Path
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

pytestmark = pytest.mark.ros

# `ros2 launch` without its command line, which not every ROS installation has.
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
STARTED = 120.0  # [s] the first start compiles the kernels
ENDED = 30.0  # [s]


class Launched:
    """A launch file that runs, in a process group of its own."""

    def __init__(self, file, *arguments):
        path = Path(get_package_share_directory('osc_ros'), 'launch', file)
        self.process = subprocess.Popen(
            [sys.executable, '-c', LAUNCH, str(path), *arguments], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        # launch_ros now and then hangs at its end; nothing may be left of it.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()

    def output_after_ctrl_c(self):
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.communicate(timeout=ENDED)[0]


class Ear:
    """A node that hears commands."""

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


@pytest.mark.parametrize('relay', ['true', 'false'])
def test_controller_sends_torques_where_it_is_told(ear, relay):
    share = Path(get_package_share_directory('osc_ros'))
    received = ear.commands('/effort_controller/commands')
    simulator = [share.parents[1] / 'lib' / 'osc_ros' / 'osc_simulator', '--ros-args',
                 '--params-file', share / 'config' / 'panda.yaml',
                 '-p', 'command_topic:=/effort_controller/commands']
    with subprocess.Popen(simulator) as simulated:
        try:
            with Launched('controller.launch.py', f'config:={share}/config/panda.yaml',
                          'use_sim_time:=True', f'relay:={relay}') as launched:
                ear.wait_for(100, received, launched)
                assert ('osc_relay' in ear.node.get_node_names()) == (relay == 'true')
                output = launched.output_after_ctrl_c()
        finally:
            simulated.terminate()
    assert launched.process.returncode == 0, output
    assert 'holds the arm against gravity' in output
    assert simulated.returncode == 0


def test_end_of_one_node_ends_the_simulation():
    with Launched('simulation.launch.py', 'base:=no_such_link') as launched:
        output = launched.process.communicate(timeout=STARTED)[0]
    assert "'no_such_link'" in output
    assert 'was required: shutting down' in output


@pytest.mark.parametrize(('file', 'argument', 'message'), [
    ('simulation.launch.py', 'robot:=pandora', "robot 'pandora' does not come with osc_ros"),
    ('simulation.launch.py', 'config:=nowhere.yaml', "config 'nowhere.yaml' is not a file"),
    ('controller.launch.py', 'config:=nowhere.yaml', "config 'nowhere.yaml' is not a file"),
    ('simulation.launch.py', 'lockstep:=perhaps', "Valid options are: ['true', 'false'"),
])
def test_bad_launch_argument_is_refused_by_name(file, argument, message):
    with Launched(file, argument) as launched:
        output = launched.process.communicate(timeout=STARTED)[0]
    assert launched.process.returncode == 1
    assert message in output
