# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Ctrl-C: every node stops the arm and ends in limited time, even if one of its methods hangs."""

from contextlib import contextmanager, suppress
import os
import random
import select
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from std_msgs.msg import Float64MultiArray

from osc_ros import interrupts
from osc_ros.interrupts import LAUNCH_PID
from osc_ros.ros.messages import commands
from osc_ros.ros.process.share import share_directory
from processes import complaints
from variants import first_quick

ENDED = (interrupts.NOTICE_TIME + interrupts.STOP_TIME + interrupts.TEAR_DOWN_TIME
         + 2 * interrupts.MARGIN)  # [s]
LOADED = 20.0  # additional time on a busy machine [s]; a method that hangs does so for an hour
STARTED = 240.0  # time limit of a start; the first one compiles the kernels [s]
BRIEF = {'NOTICE_TIME': 0.3, 'STOP_TIME': 0.5, 'TEAR_DOWN_TIME': 1.0, 'MARGIN': 0.1}  # [s]

# A node in which one method can be made to hang.
NODE = """
import ctypes, signal, time
from rclpy.node import Node
from osc_ros import interrupts
from osc_ros.interrupts import LAUNCH_PID
from osc_ros.ros.messages import commands
from osc_ros.ros.process.node_process import run

for name, value in {brief}.items():
    setattr(interrupts, name, value)

class Hanging(Node):
    def __init__(self):
        super().__init__('hanging')
        self.create_timer(0.01, self.on_timer)
        self.asked = 0
    def on_timer(self):
        print('runs', flush=True)
        {on_timer}
    def ready_to_stop(self):
        self.asked += 1
        print('asked', self.asked, flush=True)
        return {ready}
    def stop(self):
        print('stops', flush=True)
        {stop}
    def destroy_node(self):
        {destroy}
        super().destroy_node()

run(Hanging, [])
print('ended')
"""
HOUR = 'time.sleep(3600)'
# Keeps the lock (GIL); a signal would end the sleep.
HOUR_IN_C = ('signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); '
             'ctypes.PyDLL(None).sleep(3600)')


class Ended:
    """Exit status and log of a node that was interrupted."""

    def __init__(self, tmp_path, *signals, apart=0.0, times=(), **hangs):
        """Run the node, send the signals when its timer runs, and wait for its end."""
        source = NODE.format(brief=BRIEF | dict(times), **{
            'on_timer': 'pass', 'ready': 'True', 'stop': 'pass', 'destroy': 'pass'} | hangs)
        log = tmp_path / 'log'
        with log.open('w') as output, subprocess.Popen(
                [sys.executable, '-c', source], stdout=output,
                stderr=subprocess.STDOUT) as process:
            try:
                while 'runs' not in log.read_text():
                    assert process.poll() is None, log.read_text()
                    time.sleep(0.01)
                for number in signals:
                    process.send_signal(number)
                    time.sleep(apart)
                self.status = process.wait(ENDED + LOADED)
            finally:
                process.kill()
        self.said = log.read_text()


@pytest.mark.parametrize(('apart', 'signals'), [
    pytest.param(0.0, [signal.SIGTERM], marks=pytest.mark.slow),
    pytest.param(0.0, [signal.SIGINT, signal.SIGINT], marks=pytest.mark.slow),
    (0.05, [signal.SIGINT, signal.SIGINT, signal.SIGTERM])], ids=str)
def test_user_presses_ctrl_c_and_launch_sends_its_own_signal(tmp_path, apart, signals):
    ended = Ended(tmp_path, *signals, apart=apart)
    assert ended.status == 0
    assert set(ended.said.split('\n')) == {'runs', 'asked 1', 'stops', 'ended', ''}, ended.said


def test_user_presses_ctrl_c_and_the_tear_down_hangs(tmp_path):
    ended = Ended(tmp_path, signal.SIGINT, destroy=HOUR)
    assert ended.status == 0
    assert '[WARN] [hanging]: ended at once: ROS was not shut down within 1 s' in ended.said
    assert 'Traceback' not in ended.said


@pytest.mark.parametrize(('method', 'limit'), first_quick([
    ('stop', 'STOP_TIME'), ('destroy', 'TEAR_DOWN_TIME')]), ids=['stop', 'tear-down'])
def test_user_presses_ctrl_c_and_what_follows_hangs_with_the_lock_of_python(
        tmp_path, method, limit):
    # longer than a busy machine may stop before the hang: else the thread of `Ending` is first
    ended = Ended(tmp_path, signal.SIGINT, signal.SIGINT, **{method: HOUR_IN_C},
                  times={limit: 5.0})
    assert ended.status == 1
    assert 'stops' in ended.said
    assert 'Timeout' in ended.said and f'in {method}' in ended.said  # stack of the hang


def test_user_presses_ctrl_c_while_a_callback_takes_long(tmp_path):
    ended = Ended(tmp_path, signal.SIGINT, signal.SIGINT, on_timer=HOUR, ready='self.asked > 3')
    assert ended.status == 0
    assert 'asked 4' in ended.said  # the node waited for the arm to stop
    assert '[WARN] [hanging]: ended at once: it was in a callback' in ended.said
    assert 'FATAL' not in ended.said and 'Traceback' not in ended.said


def test_user_presses_ctrl_c_and_the_arm_does_not_stop(tmp_path):
    # the margin: a busy machine may not run the process for longer than that of the other tests
    ended = Ended(tmp_path, signal.SIGINT, ready='False', times={'MARGIN': LOADED})
    assert ended.status == 0
    assert 'stops' in ended.said and 'ended' in ended.said


def test_user_presses_ctrl_c_and_the_last_command_hangs(tmp_path):
    ended = Ended(tmp_path, signal.SIGINT, stop=HOUR)
    assert ended.status == 1
    assert 'the arm was not stopped within 0.5 s' in ended.said


def test_node_that_breaks_and_hangs_in_its_tear_down_ends(tmp_path):
    ended = Ended(tmp_path, on_timer='raise ValueError("broken")', destroy=HOUR)
    assert ended.status == 1
    assert 'broken' in ended.said and 'stops' in ended.said
    assert 'ROS was not shut down' in ended.said


class System:
    """A simulator, a controller and a relay, each in its own process."""

    def __init__(self, spin, start, lockstep):
        """Start the processes, and wait for 100 commands."""
        from rclpy.node import Node

        ear, heard = Node('ear'), []
        ear.create_subscription(Float64MultiArray, 'osc_relay/commands', heard.append, 10)
        given = ['--ros-args', '--params-file', share_directory() / 'config' / 'panda.yaml']
        self.processes = {name: start(name, *given, *more) for name, more in {
            'simulator': ['-p', 'command_topic:=osc_relay/commands',
                          '-p', f'lockstep:={str(lockstep).lower()}'],
            'controller': [], 'relay': []}.items()}
        latest = time.perf_counter() + STARTED
        while len(heard) < 100:
            assert time.perf_counter() < latest, 'no commands'
            soon = time.perf_counter() + 0.5
            spin(lambda end=soon: len(heard) >= 100 or time.perf_counter() > end, ear)

    def interrupt(self, number):
        """Send a signal to all running processes, like a terminal."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(number)

    def ends(self):
        """Wait until all processes have ended with status 0; return the duration [s]."""
        began = time.perf_counter()
        for name, process in self.processes.items():
            try:
                assert process.wait(ENDED + LOADED) == 0, process.log.read_text()
            except subprocess.TimeoutExpired:
                pytest.fail(f'{name} did not end: {process.log.read_text()}')
        return time.perf_counter() - began

    def require_quiet(self):
        """Require that the logs report the stop of the arm, and contain no error."""
        for process in self.processes.values():
            assert not complaints(process.log.read_text())
        assert 'the arm is stopped' in self.processes['controller'].log.read_text()
        assert 'ends: the last command' in self.processes['relay'].log.read_text()


@pytest.mark.parametrize('lockstep', [True, pytest.param(False, marks=pytest.mark.slow)],
                         ids=['lockstep', 'paced'])
def test_user_presses_ctrl_c_in_a_simulation_with_a_relay(spin, start, lockstep):
    system = System(spin, start, lockstep)
    for _ in range(2):
        system.interrupt(signal.SIGINT)
    system.ends()
    system.require_quiet()


# Starts processes as launch does: as children whose output comes through pipes.
LAUNCH = """
import os, subprocess, sys, time
os.environ[{variable!r}] = str(os.getpid())
for module in sys.argv[1].split(','):
    child = subprocess.Popen([sys.executable, '-m', 'osc_ros.start', module, *sys.argv[2:]],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(child.pid, flush=True)
time.sleep(3600)
"""


@contextmanager
def launched(modules, *arguments, variable=LAUNCH_PID):
    """Yield a process in place of launch, and handles (pidfd) of the processes it started."""
    with subprocess.Popen([sys.executable, '-c', LAUNCH.format(variable=variable),
                           ','.join(modules), *map(str, arguments)],
                          stdout=subprocess.PIPE, text=True) as launch:
        children = [os.pidfd_open(int(launch.stdout.readline())) for _ in modules]
        try:
            yield launch, children
        finally:
            launch.kill()
            for child in children:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child, signal.SIGKILL)
                os.close(child)


def has_ended(child):
    """Whether the process of a handle has ended."""
    return bool(select.select([child], [], [], 0.0)[0])


@pytest.mark.parametrize('number', [
    pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_user_ends_launch_alone_and_the_nodes_end_by_their_last_command(spin, number):
    from rclpy.node import Node

    ear, heard = Node('ear'), {'controller': [], 'relay': []}
    for name, labels in heard.items():
        ear.create_subscription(
            Float64MultiArray, f'osc_{name}/commands',
            lambda message, labels=labels: labels.append(commands.label(message)), 1000)
    parameters = share_directory() / 'config' / 'panda.yaml'
    with launched(['simulator', 'controller', 'relay'], '--ros-args', '--params-file', parameters,
                  '-p', 'command_topic:=osc_relay/commands', '-p', 'lockstep:=true'
                  ) as (launch, children):
        spin(lambda: min(map(len, heard.values())) > 100, ear, why='for commands')
        assert not any(map(has_ended, children))
        launch.send_signal(number)
        spin(lambda: all(map(has_ended, children)), why='for the end of the nodes')
        spin(lambda: {labels[-1] for labels in heard.values()} == {commands.LAST_LABEL},
             why='for the last command')


@pytest.mark.parametrize('module', ['controller', 'relay', 'simulator'])
def test_node_whose_launch_has_ended_before_it_ends_at_once(module, tmp_path):
    with subprocess.Popen(['true']) as launch:
        pass
    started = subprocess.run(
        [sys.executable, '-m', 'osc_ros.start', module], timeout=STARTED, text=True,
        env={**os.environ, LAUNCH_PID: str(launch.pid)}, capture_output=True)
    assert started.returncode == 0, started.stderr


COMPILING = """
import sys, time
from osc_ros.ros import relay
def compiled_model(*arguments):
    print('compiles', flush=True)
    time.sleep(3600.0)
relay.compiled_model = compiled_model
relay.main(['--ros-args', '--params-file', sys.argv[1]])
"""


@pytest.mark.parametrize('number', interrupts.SIGNALS)
def test_relay_that_is_interrupted_while_it_compiles_ends_without_an_error(number):
    with subprocess.Popen(
            [sys.executable, '-c', COMPILING, share_directory() / 'config' / 'panda.yaml'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == 'compiles\n'
        process.send_signal(number)
        assert process.wait(ENDED + LOADED) == 0
        assert not complaints(process.stderr.read())


def test_node_that_is_not_to_end_with_launch_goes_on(spin):
    from rclpy.node import Node

    ear = Node('ear')
    with launched(['relay'], variable='NO_VARIABLE') as (launch, [relay]):
        launch.kill()
        launch.wait()
        spin(lambda: 'osc_relay' in ear.get_node_names(), ear, why='for the relay')
        assert not has_ended(relay)


@pytest.mark.slow
@pytest.mark.parametrize('lockstep', [True, False], ids=['lockstep', 'paced'])
@pytest.mark.parametrize('seed', range(10))
def test_user_presses_ctrl_c_again_and_again_on_a_loaded_machine(spin, start, lockstep, seed):
    rng = random.Random(seed)
    system = System(spin, start, lockstep)
    spinners = [subprocess.Popen([sys.executable, '-c', 'while True: pass'])
                for _ in range(2 * (os.cpu_count() or 1))]
    try:
        for number in rng.choice([[signal.SIGINT] * 2, [signal.SIGINT, signal.SIGTERM],
                                  [signal.SIGINT] * 5]):
            system.interrupt(number)
            time.sleep(rng.choice([0.0, 0.001, 0.01, 0.1, 0.5]))
        system.ends()
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    system.require_quiet()


@pytest.mark.slow
def test_user_presses_ctrl_c_while_the_kernels_are_compiled(tmp_path, monkeypatch, start):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    process = start('controller', '--ros-args', '--params-file',
                    share_directory() / 'config' / 'panda.yaml')
    while 'compiling kernels' not in process.log.read_text():
        time.sleep(0.1)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    assert process.wait(ENDED + LOADED) == 0
    assert not complaints(process.log.read_text())
