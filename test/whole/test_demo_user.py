# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What a new user of the demo does, right and wrong, and what the screen then says."""

import os
import signal
import subprocess
import sys
from time import perf_counter

import numpy as np
import pytest

from arms import ARMS
from common import CHECKOUT
from judge import robot_cases
from survey import urdf_texts

pytest.importorskip('rclpy', reason='rclpy is not installed')

from demo_process import demo, ENVIRONMENT, processes_with, refusal
from osc_ros.control.safety.causes import Acting
from osc_ros.errors import OscError
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.process.share import share_directory
from osc_ros.tools.check.cause_search import follow_check, recording_of
from osc_ros.tools.check.demonstration import demonstration
from osc_ros.tools.check.judgement import result
from osc_ros.tools.check.parameter_files import Parameters, text_of
from osc_ros.tools.check.robot_options import write_new
from osc_ros.tools.demo import demo_run
from osc_ros.tools.demo.demo_run import COMPILES, DemoError, Run

PANDA = share_directory() / 'config' / 'panda.yaml'
OWN = share_directory() / 'config' / 'own.yaml'


def with_config(tmp_path, **nodes):
    """Return the demonstration of the Panda, 5 s, with these parameters by node."""
    file = tmp_path / 'my.yaml'
    file.write_text(text_of({node and f'osc_{node}': given for node, given in nodes.items()}))
    return demonstration(Parameters([PANDA, file]), {}, 5.0, lambda progress: None)


# parameters that controller and simulated arm do not share


@pytest.mark.parametrize('told, carried, difference', [
    pytest.param(3.0, 0.0, 'The arm carries 3.00 kg less than the controller is told',
                 marks=pytest.mark.slow),
    (0.0, 2.0, 'The arm carries 2.00 kg more than the controller is told'),
])
def test_user_tells_only_one_node_of_a_payload(tmp_path, told, carried, difference):
    wanted = with_config(tmp_path, controller={'payload.mass': told},
                         simulator={'payload.mass': carried})
    assert result(*recording_of(wanted), wanted).failures
    shown = []
    why = follow_check(wanted, lambda *progress: shown.append(progress)).cause
    assert why.text.startswith(difference)
    assert 'riction' not in why.text
    shares = [share for share, text in shown if text == 'trial 1']
    assert len(shares) > 50 and min(shares) < 0.05 and 0.95 < max(shares) <= 1.0
    # the payload that the user gave is used for both
    assert max(node.get('payload.mass', 0.0) for node in why.changes.values()) == told + carried
    mended = wanted.with_changes(why.changes)
    assert not result(*recording_of(mended), mended).failures


def test_user_tells_both_nodes_of_a_payload_and_the_arm_follows(tmp_path):
    file = tmp_path / 'my.yaml'
    file.write_text('/**: {ros__parameters: {payload.mass: 2.0, '
                    'payload.center_of_mass: [0.0, 0.02, 0.05]}}')
    wanted = demonstration(Parameters([PANDA, file]), {}, 5.0, lambda progress: None)
    assert not result(*recording_of(wanted), wanted).failures


@pytest.mark.parametrize('name, value, text', [
    pytest.param('gravity', (0.0, 0.0, 9.81), 'gravity is [0.0, 0.0, 9.81] for osc_controller, '
                 'but [0.0, 0.0, -9.81] for osc_simulator', marks=pytest.mark.slow),
    ('driver_compensates', 'gravity', 'driver_compensates is gravity for osc_controller, but none '
     'for osc_simulator'),
])
def test_user_uncomments_a_parameter_of_the_controller_only(tmp_path, name, value, text):
    wanted = with_config(tmp_path, controller={name: value})
    why = follow_check(wanted, lambda *shown: None).cause
    assert why.text.startswith(text)
    assert why.changes['osc_simulator'][name] == value
    mended = wanted.with_changes(why.changes)
    assert not result(*recording_of(mended), mended).failures


def test_simulated_payload_weighs_what_it_should():
    case = robot_cases()['panda']
    values = {entry.name: entry.default for entry in (*robot_parameters.ENTRIES,
                                                      *robot_parameters.SIMULATED_PAYLOAD)}
    values |= {'tip': case.tip, 'payload.mass': 1.5, 'payload.center_of_mass': (0.1, 0.0, 0.2),
               'payload.inertia': (0.02, 0.001, 0.0, 0.03, 0.0, 0.02)}
    from osc_ros import Robot
    from osc_ros.sim import Plant
    bare = Robot.from_urdf(case.urdf_text, case.base, case.tip)
    told, _ = robot_parameters.with_load({**values, 'payload.known_to_driver': False,
                                     'tool.position': (0.0,) * 3,
                                     'tool.orientation': (0.0, 0.0, 0.0, 1.0)}, bare)
    plant = Plant(robot_parameters.with_simulated_payload(values, case.urdf_text, bare), case.base,
                  bare.joint_names)
    from osc_ros import OperationalSpace
    space, q = OperationalSpace(told), np.clip(np.full(bare.n, 0.3), *bare.position_limits.T)
    plant.reset(q)
    rest = np.zeros(bare.n)
    np.testing.assert_allclose(space.inverse_dynamics(q, rest, rest), plant.weight, atol=1e-6)
    tau = plant.weight + 1.0
    np.testing.assert_allclose(
        space.inverse_dynamics(q, rest, plant.acceleration(tau)), tau, atol=1e-3)
    with pytest.raises(OscError, match="'payload.link'.*'hand'"):
        robot_parameters.with_simulated_payload({**values, 'payload.link': 'hand'}, case.urdf_text,
                                           bare)


# activation that is refused


# quick: test_user_does_not_wait_for_an_activation_that_cannot_succeed, and the check itself in
# test_activation_is_refused_by_what_the_driver_reports of test_node_loads.py
@pytest.mark.slow
def test_user_asks_for_the_start_up_check_and_the_arm_does_not_weigh_what_it_should(tmp_path):
    file = tmp_path / 'my.yaml'
    file.write_text('/**/osc_controller: {ros__parameters: {payload.mass: 3.0, '
                    'startup_check: refuse}}')
    _, printed = demo(tmp_path, '--duration', 3, '--config', file, code=2)
    assert ('osc_demo: osc_controller refused its activation: start-up check: the mass is off: at '
            'the tip the arm carries 3.') in printed
    assert 'kg less than the controller is told' in printed
    assert 'waiting for the activation' not in printed
    assert f"Its log: {tmp_path / 'osc_controller.log'}" in printed


class Refusing:
    """A witness whose controller refuses, and the process of this controller."""

    compilation, compiled_at, failure = '', -np.inf, ''

    def __init__(self, reasons):
        """Refuse for these reasons, one after the other; then accept."""
        self.reasons, self.reason, self.log = list(reasons), '', 'the.log'

    def spin_once(self, timeout):
        """Do nothing."""

    def require_running(self):
        """Do nothing."""

    def change(self, transition):
        """Return the answer to a request."""
        from types import SimpleNamespace
        self.reason = self.reasons.pop(0) if self.reasons else ''
        answer = SimpleNamespace(success=not self.reason)
        return SimpleNamespace(done=lambda: True, result=lambda: answer)

    def refusal(self):
        """Return the reason in the log."""
        return self.reason


def activated(monkeypatch, *reasons):
    refusing = Refusing(reasons)
    monkeypatch.setattr(demo_run, 'DemoNode', lambda recording, base: refusing)
    run = Run(robot_cases()['panda'], {'osc_controller': refusing}, None)
    run._request('activation', 3, 10.0, refusable=True)


def test_user_sees_at_once_why_the_activation_waits(monkeypatch, capsys):
    early = 'cannot activate yet: no joint_states have come yet'
    other = "cannot activate: /a publishes on '/b', too"
    activated(monkeypatch, early, early, other)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f'osc_controller: {early}; trying again ...',
                     f'osc_controller: {other}; trying again ...']


def test_user_does_not_wait_for_an_activation_that_cannot_succeed(monkeypatch):
    with pytest.raises(DemoError, match='^osc_controller .*50 kg .*\n.*the.log$'):
        activated(monkeypatch, 'cannot activate yet: no states', 'cannot activate: 50 kg are much')


# the motions


@pytest.mark.slow
def test_user_who_gives_the_run_more_time_gets_no_smaller_motions():
    for name, durations in (('kinova', (3.0, 5.0, 6.0, 10.0, 20.0)),
                            ('icub_reduced', (10.0, 40.0))):  # of many eights it cannot reach one
        path, base, tip = next(arm for arm in ARMS if arm[0].endswith(f'/{name}.urdf'))
        parameters = {'robot_description': urdf_texts()[path], 'base': base, 'tip': tip}
        found = [demonstration(Parameters([OWN]), parameters, duration, lambda progress: None)
                 for duration in durations]
        scales = [one.start.scale for one in found]
        assert scales == sorted(scales), name
        for one in found:  # the figure takes its half of the run
            eight = one.phases(0.0)[0]
            assert eight.end == pytest.approx(0.5 * one.duration)
        if name == 'kinova':
            assert scales[1] < 1.0 == scales[-1]
            assert '(they fit from --duration' in found[1].notes[0]


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
def test_no_arm_gets_smaller_motions_in_a_longer_run():
    for path, base, tip in ARMS:
        parameters = {'robot_description': urdf_texts()[path], 'base': base, 'tip': tip}
        scales = [demonstration(Parameters([OWN]), parameters, duration, lambda progress: None
                                ).start.scale for duration in (5.0, 6.0, 10.0, 14.0, 20.0, 33.0)]
        assert scales == sorted(scales), (path, tip)


# what the screen says


def test_user_who_swaps_base_and_tip_is_told_so(tmp_path, monkeypatch, capsys):
    printed = refusal(monkeypatch, capsys, tmp_path, '--base', 'panda_hand_tcp', '--tip',
                      'panda_link0')
    assert "base 'panda_hand_tcp' and tip 'panda_link0' are swapped" in printed
    assert "give base 'panda_link0', tip 'panda_hand_tcp'" in printed


@pytest.mark.slow
def test_user_who_starts_for_the_first_time_is_told_of_both_compilations_in_advance(
        tmp_path, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, 'XDG_CACHE_HOME', str(tmp_path / 'cache'))
    _, printed = demo(tmp_path, '--duration', 3)
    first, second = (printed.index(text) for text in (
        'the demo compiles its kernels, once: this takes about half a minute', COMPILES))
    assert first < printed.index('compiling kernels') < second
    assert 'compiling kernels' in printed[second:]


def test_user_who_gives_no_base_and_tip_is_told_which_links_there_are(
        tmp_path, monkeypatch, capsys):
    urdf = CHECKOUT / 'osc_ros' / 'robots' / 'fr3.urdf'
    printed = refusal(monkeypatch, capsys, tmp_path, '--urdf', urdf)
    assert '--urdf needs --base and --tip: here the base may be fr3_link0, the root' in printed
    assert 'chains end at fr3_hand_tcp (7 joints)' in printed  # not at a finger


def test_missed_deadline_is_reported_in_a_sentence():
    assert Acting('deadline', 'report', 'an update took 0.0123 s').text('active') == (
        'deadline: an update took 0.0123 s; this is only reported')


def test_user_edits_the_printed_file_and_runs_again(tmp_path):
    file = tmp_path / 'follow.yaml'
    assert write_new(file, 'a: 1\n') == file
    assert write_new(file, 'a: 1\n') == file  # nothing is lost
    file.write_text('a: 2  # mine\n')
    assert write_new(file, 'a: 1\n') == tmp_path / 'follow_2.yaml'
    assert write_new(file, 'a: 3\n') == tmp_path / 'follow_3.yaml'
    assert file.read_text() == 'a: 2  # mine\n'
    assert (tmp_path / 'follow_2.yaml').read_text() == 'a: 1\n'


# Ctrl-C


class Interrupted:
    """The end of a command of the package after Ctrl-C, as a terminal sends it."""

    def __init__(self, tmp_path, line, command, *arguments, cold=False):
        """Start a command, wait for a line of its output, and interrupt it."""
        self.mark = f'OSC_ROS_TEST={tmp_path}'
        cache = {'XDG_CACHE_HOME': str(tmp_path / 'cache')} if cold else {}
        process = subprocess.Popen(
            [sys.executable, '-X', 'importtime', '-m', 'osc_ros.start', command,
             *map(str, arguments)], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
            env={**ENVIRONMENT, 'OSC_ROS_TEST': str(tmp_path), **cache})
        try:
            said = ''
            for one in process.stdout:
                said += one
                if line in one:
                    break
            else:
                pytest.fail(said)
            os.killpg(process.pid, signal.SIGINT)
            self.rest = process.stdout.read()
            self.status = process.wait(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def require_quiet(self, status=130):
        """Require that it said nothing more, and ended with a status (130: interrupted)."""
        assert self.status == status, self.rest
        assert not [one for one in self.rest.splitlines() if not one.startswith('import time:')]
        self.require_no_process()

    def require_no_process(self):
        """Require that the processes that helped to compile end too, soon."""
        latest = perf_counter() + 30.0
        while processes_with(self.mark):
            assert perf_counter() < latest


@pytest.mark.parametrize('command, module', [
    ('demo', 'numpy'), ('controller', 'numba.core.types'),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ('demo', 'numba.core.types'), ('controller', 'numpy'), ('relay', 'numpy'),
        ('relay', 'numba.core.types'), ('simulator', 'numpy'),
        ('simulator', 'mujoco')))])  # it has no kernels
def test_user_presses_ctrl_c_during_the_imports(tmp_path, command, module):
    # a node that is stopped while it starts has not failed
    Interrupted(tmp_path, f' {module}\n', command).require_quiet(130 if command == 'demo' else 0)


def test_user_presses_ctrl_c_while_the_demo_compiles(tmp_path):
    Interrupted(tmp_path, 'compiling kernels', 'demo', '--headless', cold=True).require_quiet()


@pytest.mark.slow  # quick: test_user_presses_ctrl_c_while_the_demo_compiles
def test_user_presses_ctrl_c_while_the_relay_compiles(tmp_path):
    Interrupted(tmp_path, 'compiling kernels', 'relay', '--ros-args', '--params-file', PANDA,
                cold=True).require_quiet(0)


@pytest.mark.slow
def test_user_presses_ctrl_c_while_the_controller_of_the_demo_compiles(tmp_path):
    ended = Interrupted(tmp_path, COMPILES, 'demo', '--headless', cold=True)
    assert ended.status == 130
    assert not any(word in ended.rest for word in ('Traceback', 'Error', 'Exception'))
    ended.require_no_process()
