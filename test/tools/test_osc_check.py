# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_check: whether an arm follows, and that the remedy that it prints helps."""

import json
import re
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros import shipped_urdf
from osc_ros.tools.check.check_command import main


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Return a function that runs osc_check; it returns the exit status and the output."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(['--duration', '3', *map(str, arguments)])
        return ended.value.code, capsys.readouterr().out
    return run


def test_shipped_arm_follows(check, tmp_path):
    code, text = check('--robot', 'panda')
    assert code == 0 and text.splitlines()[-1] == 'the arm follows'
    assert not (tmp_path / 'osc_check').exists()


def test_remedy_that_is_printed_helps(check, tmp_path):
    config = tmp_path / 'my.yaml'
    config.write_text('/**/osc_simulator: {ros__parameters: {payload.mass: 2.0}}')
    code, text = check('--config', config)
    assert code == 1 and 'CAUSE: The arm carries 2.00 kg more' in ' '.join(text.split())
    assert text.splitlines()[-1] == 'the arm does not follow'
    assert config.read_text() == '/**/osc_simulator: {ros__parameters: {payload.mass: 2.0}}'
    code, text = check('--config', tmp_path / 'osc_check' / 'follow.yaml')
    assert code == 0 and 'the arm follows' in text


def test_description_that_is_wrong_is_said_before_anything_moves(check, tmp_path):
    urdf = tmp_path / 'grams.urdf'
    urdf.write_text(shipped_urdf('ur5e').read_text().replace('<mass value="', '<mass value="9'))
    code, text = check('--urdf', urdf, '--base', 'base_link', '--tip', 'tool0', '--json',
                       tmp_path / 'found.json')
    found = json.loads((tmp_path / 'found.json').read_text())
    assert text.splitlines()[-1] == 'CANNOT BE CONTROLLED as it is'
    assert code == 1 and not found['controllable'] and 'followed' not in found
    assert any('the weight takes' in one for one in found['problems'])


def test_figures_for_programs(check, tmp_path):
    code, _ = check('--json', tmp_path / 'found.json')
    found = json.loads((tmp_path / 'found.json').read_text())
    assert code == 0 and found['followed'] and found['problems'] == [] and found['cause'] == ''
    assert len(found['joints']) == 7 and found['figure of eight']['position rms [mm]'] < 1.0


def test_gains_that_the_node_refuses_are_refused(check, tmp_path, capsys):
    config = tmp_path / 'my.yaml'
    config.write_text('/**/osc_controller: {ros__parameters: {'
                      'translation.natural_frequency: [500.0, 500.0, 500.0]}}')
    with pytest.raises(SystemExit, match='2'):
        main(['--config', str(config)])
    assert "'translation.natural_frequency'" in (said := capsys.readouterr().err)
    assert '116' in said


def test_free_drive_is_refused_because_it_has_no_targets(tmp_path, capsys):
    config = tmp_path / 'my.yaml'
    config.write_text('/**/osc_controller: {ros__parameters: {mode: free}}')
    with pytest.raises(SystemExit, match='2'):
        main(['--config', str(config)])
    said = capsys.readouterr().err
    assert said.startswith("osc_check: mode is 'free': give acceleration and impedance")
    assert 'motions to targets' in said


def test_gravity_of_a_turned_arm_is_noted(check, tmp_path):
    config = tmp_path / 'my.yaml'
    config.write_text('/**: {ros__parameters: {gravity: [0.0, 0.0, 9.81]}}')
    code, text = check('--config', config)
    assert code == 0 and 'note: gravity is [0.0, 0.0, 9.81]' in text


def test_warning_of_the_description_is_a_note_and_nothing_else(tmp_path):
    urdf = tmp_path / 'open.urdf'
    text = shipped_urdf('ur5e').read_text()
    urdf.write_text(re.sub(r'(<limit[^>]*) effort="[^"]*"', r'\1', text, count=1))
    done = subprocess.run(
        [sys.executable, '-m', 'osc_ros.start', 'check', '--urdf', urdf, '--base', 'base_link',
         '--tip', 'tool0', '--duration', '3'], cwd=tmp_path, capture_output=True, text=True)
    assert 'effort' in done.stdout and 'Warning' not in done.stdout + done.stderr


def test_torque_limits_below_the_weight_are_a_problem(check, tmp_path):
    config = tmp_path / 'my.yaml'
    config.write_text('/**/osc_controller: {ros__parameters: {limits.effort: [5.0, 5.0, 5.0, '
                      '5.0, 5.0, 5.0, 5.0]}}')
    code, text = check('--config', config)
    assert code == 1 and "PROBLEM: joint 'panda_joint4': the weight takes" in text


def test_file_in_place_of_the_folder_is_refused_before_any_work(tmp_path, capsys):
    (tmp_path / 'taken').write_text('mine')
    with pytest.raises(SystemExit, match='2'):
        main(['--output', str(tmp_path / 'taken')])
    assert 'not a folder' in capsys.readouterr().err
    assert (tmp_path / 'taken').read_text() == 'mine'
