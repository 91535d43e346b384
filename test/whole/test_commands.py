# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Every command of setup.py: help, wrong options, colours, figures as JSON, progress."""

from importlib import import_module
from io import StringIO
import json
from pathlib import Path
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from common import CHECKOUT
from osc_ros import commandline, start
from osc_ros.tools.check import check_command

COMMANDS = {name: f'osc_ros.{place}' for name, place in re.findall(
    r"f'(osc_\w+) = {PACKAGE}\.([\w.:]+)'", (CHECKOUT / 'setup.py').read_text(encoding='utf-8'))}
NODES = {'osc_controller', 'osc_arm', 'osc_crisp', 'osc_relay', 'osc_simulator', 'osc_viewer'}
# Calls all commands in one process, because the imports take seconds.
CALLS = """
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
import json, re, sys

found = {}
for name, place in json.loads(sys.argv[1]).items():
    module, function = place.split(':')
    main = getattr(import_module(module), function)

    def called(*arguments):
        sys.argv = [name, *arguments]
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as error:
            try:
                main()
                code = None
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), error.getvalue()

    shown = called('--help')
    option = re.search(r'--(?!help)[a-z-]+', shown[1])[0]
    found[name] = shown, option, called('-' + option, 'panda')  # such as ---robot
print(json.dumps(found))
"""
# Calls that report figures.
FIGURES = {
    'osc_demo': ('--headless', '--duration', '3', '--json'),
    'osc_identify': ('--simulate', '--yes', '--json'),
    'osc_tune': ('--quick', '--json'),
}


@pytest.fixture(scope='module')
def answers():
    """Return {command: (help, an option, answer to this option misspelled)}."""
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    done = subprocess.run([sys.executable, '-c', CALLS, json.dumps(COMMANDS)], timeout=120,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_entry_point_is_known_to_these_tests():
    text = (CHECKOUT / 'setup.py').read_text(encoding='utf-8')
    assert len(COMMANDS) == text.count("f'osc_")
    assert NODES <= COMMANDS.keys() and FIGURES.keys() <= COMMANDS.keys()


@pytest.mark.parametrize('name', COMMANDS)
def test_help_has_an_example_and_the_exit_statuses(name, answers):
    (code, text, errors), *_ = answers[name]
    assert code == 0 and not errors
    assert re.search(rf'examples?:\n  {name}', text)
    assert re.search('exit status: 0', text, re.IGNORECASE)


def test_node_finds_the_parameter_file_of_a_shipped_robot_by_name(monkeypatch, capsys):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    given = []
    monkeypatch.setattr(start, 'end_quietly', lambda status: None)
    node = SimpleNamespace(main=lambda: given.extend(sys.argv[1:]))
    monkeypatch.setattr(start, 'import_module', lambda name: (
        node if name.endswith('.controller') else import_module(name)))
    monkeypatch.setattr('sys.argv', ['osc_controller', '--robot', 'panda', '--ros-args', '-p',
                                     'rate:=250.0'])
    with pytest.raises(SystemExit):
        start.controller()
    assert given[:2] == ['--ros-args', '--params-file']
    assert given[2].endswith('config/panda.yaml') and Path(given[2]).is_file()
    assert given[3:] == ['--ros-args', '-p', 'rate:=250.0']
    monkeypatch.setattr('sys.argv', ['osc_controller', '--robot', 'pand'])
    with pytest.raises(SystemExit, match='2'):
        start.controller()
    assert "'pand' is no shipped robot: give one of" in capsys.readouterr().err


@pytest.mark.parametrize('name', COMMANDS)
def test_unknown_option_exits_with_2_and_names_the_nearest(name, answers):
    _, option, (code, text, errors) = answers[name]
    assert code == 2 and not text
    assert f'did you mean {option}?' in errors


@pytest.mark.parametrize('name', ['shapes', 'replay'])
def test_ctrl_c_ends_a_command_without_a_traceback(name):
    process = subprocess.Popen(
        [sys.executable, '-X', 'importtime', '-m', 'osc_ros.start', name, '--help'], text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    for line in process.stderr:
        if 'numpy' in line:  # in the middle of the imports
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(timeout=60.0) == 130
    assert 'Traceback' not in rest


@pytest.mark.parametrize('blocked', [
    pytest.param(set(), marks=pytest.mark.slow), {signal.SIGPIPE}], ids=['', 'blocked'])
def test_output_that_nobody_reads_ends_a_command_quietly(blocked):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    process = subprocess.Popen([sys.executable, '-m', 'osc_ros.start', 'check', '--static'],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with process:
        process.stdout.close()  # as of `| head`, which has ended
        assert 'Error' not in process.stderr.read()  # it may say that it compiles
    assert process.returncode == -signal.SIGPIPE


@pytest.mark.parametrize('name', COMMANDS)
def test_no_command_colours_what_is_not_a_terminal(name, answers):
    shown, _, wrong = answers[name]
    assert '\033' not in ''.join([*shown[1:], *wrong[1:]])


@pytest.mark.parametrize('name', COMMANDS)
def test_command_that_is_no_node_offers_json(name, answers):
    assert ('--ros-args' if name in NODES else '--json') in answers[name][0][1]


@pytest.mark.parametrize('name', COMMANDS)
def test_page_of_the_commands_has_each(name):
    page = (CHECKOUT / 'doc' / 'commands.md').read_text(encoding='utf-8')
    assert f'`{name}`' in page


def figures_of(name, arguments, folder):
    """Return what a command prints to standard output, as JSON."""
    module, function = COMMANDS[name].split(':')
    code = f'import sys; sys.argv[0] = {name!r}; from {module} import {function} as f; f()'
    done = subprocess.run([sys.executable, '-c', code, *arguments], cwd=folder, timeout=300,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_json_is_all_of_the_standard_output(tmp_path):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    found = figures_of('osc_check', ('--robot', 'panda', '--static', '--json'), tmp_path)
    assert found['controllable'] is True


@pytest.mark.slow
@pytest.mark.parametrize('name', FIGURES)
def test_json_is_all_of_the_standard_output_of_long_commands(name, tmp_path):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    assert figures_of(name, FIGURES[name], tmp_path)


def test_json_goes_to_a_file_and_the_text_to_standard_output(tmp_path, capsys):
    file = tmp_path / 'figures.json'
    with commandline.stdout_for_json(file):
        print('a table')
        commandline.write_json(file, {'error': 1.0})
    assert capsys.readouterr() == ('a table\n', '')
    assert json.loads(file.read_text()) == {'error': 1.0}


@pytest.mark.parametrize('command, option', [
    ('demo', '--json'), ('demo', '--output'), ('identify', '--json'), ('identify', '--output'),
    ('record', '--json'), ('record', '--output'), ('tune', '--json'), ('tune', '--output'),
    ('replay', '--csv'), ('replay', '--html'), ('replay', '--json')])
def test_every_command_refuses_to_write_to_a_missing_folder(command, option, tmp_path, capsys):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    with pytest.raises(SystemExit, match='2'):
        import_module(f'osc_ros.{start.MODULES[command]}').main(
            [option, str(tmp_path / 'missing' / 'x')])
    assert f"folder '{tmp_path / 'missing'}' does not exist" in capsys.readouterr().err
    assert not (tmp_path / 'missing').exists()


def test_folder_in_place_of_a_file_is_refused(tmp_path, capsys):
    parser = commandline.Parser(prog='x')
    commandline.add_json(parser)
    with pytest.raises(SystemExit, match='2'):
        parser.parse_args(['--json', str(tmp_path)])
    assert 'is a folder: give the name of a file' in capsys.readouterr().err


class Terminal(StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def test_only_a_terminal_gets_colours(monkeypatch):
    monkeypatch.delenv('NO_COLOR', raising=False)
    assert commandline.colored_text('bad', 'bad', Terminal()) == '\033[31mbad\033[0m'
    assert commandline.colored_text('bad', 'bad', StringIO()) == 'bad'
    monkeypatch.setenv('NO_COLOR', '1')
    assert commandline.colored_text('bad', 'bad', Terminal()) == 'bad'


def test_bar_grows_on_a_terminal_and_is_removed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(commandline, 'perf_counter', lambda: now[0])
    stream = Terminal()
    with commandline.ProgressBar('motion', stream) as bar:
        for now[0], share in ((1.0, 0.25), (1.01, 0.3), (2.0, 1.0)):
            bar.show(share)
    lines = [line.strip() for line in stream.getvalue().split('\r') if line.strip()]
    assert lines == ['[####............] motion', '[################] motion']
    assert stream.getvalue().endswith('\r')


def test_file_gets_a_line_each_five_seconds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(commandline, 'perf_counter', lambda: now[0])
    stream = StringIO()
    with commandline.ProgressBar('motion', stream) as bar:
        for now[0] in range(12):
            bar.show(now[0] / 12.0)
    assert stream.getvalue().splitlines() == ['motion: 0 %', 'motion: 42 %', 'motion: 83 %']


def test_motion_that_has_not_begun_is_shown_as_0_percent():
    stream = StringIO()
    commandline.ProgressBar('motion 1 of 2', stream).show(-0.05)
    commandline.ProgressBar('motion 1 of 2', stream).show(1.05)
    assert stream.getvalue().splitlines() == ['motion 1 of 2: 0 %', 'motion 1 of 2: 100 %']


def test_osc_check_is_coloured_on_a_terminal(monkeypatch):
    monkeypatch.delenv('NO_COLOR', raising=False)
    monkeypatch.setattr(sys, 'stdout', stream := Terminal())
    with pytest.raises(SystemExit, match='0'):
        check_command.main(['--robot', 'panda', '--static'])
    assert '\033[32mcan be controlled\033[0m' in stream.getvalue()
