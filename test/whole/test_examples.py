# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The programs in examples/ do what they say; devices by recorded input."""

import json
import os
import re
import runpy
import select
import shutil
import subprocess
import sys
from types import SimpleNamespace

from matplotlib.image import imread
import numpy as np
import pytest

from common import CHECKOUT, import_path
import osc_ros
from osc_ros.dynamics.algebra.kinematics import placement

EXAMPLES = CHECKOUT / 'examples'


def program(name):
    """Return the names of an example that is not run."""
    return runpy.run_path(str(EXAMPLES / f'{name}.py'), run_name=name)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run the example in a folder of its own, with a new figure; return the folder."""
    from matplotlib import pyplot
    pyplot.close('all')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def picture_shows(folder, name):
    """Return whether an example has ended with a picture that is not empty."""
    image = imread(folder / f'{name}.png')
    return image.shape[0] > 100 and np.ptp(image[..., :3]) > 0.5


def test_three_lines_move_an_arm(capsys, folder):
    program('three_lines')
    assert '5.8' in capsys.readouterr().out  # 0.487 m + 0.1 m = 0.587 m
    assert picture_shows(folder, 'three_lines')


def test_guided_path_is_recorded_and_played_back(folder):
    teach = program('teach')['main']
    teach(['record', 'bow.json', '--simulated'])
    found = json.loads((folder / 'bow.json').read_text())
    robot = osc_ros.Robot.from_urdf(osc_ros.shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
    tips = np.array([placement(robot, np.array(q)).T_tip[:3, 3] for q in found['positions']])
    assert np.ptp(tips, axis=0)[1] > 0.05
    with osc_ros.Arm.simulated('panda') as arm, arm.record(folder / 'run.npz') as recording:
        program('teach')['play'](arm, folder / 'bow.json', 1.0, 0.0)
    way = np.load(recording.path)['pose'][:, :3, 3]
    assert max(np.linalg.norm(way - tip, axis=1).min() for tip in tips) < 5e-3
    np.testing.assert_allclose(way[-1], tips[-1], atol=2e-3)
    with pytest.raises(SystemExit, match='exists'):
        teach(['record', 'bow.json', '--simulated'])


@pytest.mark.slow  # quick: test_every_kind_of_command_is_answered of test_client.py, in the loop
def test_arm_in_a_real_time_loop_reaches_its_goals(capsys, folder):
    program('real_time')['main']([])
    found = re.findall(r'([\d.]+) mm', capsys.readouterr().out)
    assert len(found) == 2 and all(float(away) < 2.0 for away in found)
    assert picture_shows(folder, 'real_time')


def test_policy_draws_its_circle_without_a_stop(capsys, folder):
    program('policy')['main'](['--chunks', '4'])
    out = capsys.readouterr().out
    assert out.count('after the observation') == 4 and 'at rest at' in out
    assert picture_shows(folder, 'policy')


def test_teleoperation_moves_while_the_switch_is_held(tmp_path):
    found = program('teleoperation')
    device = found['device_of'](str(EXAMPLES / 'recorded_stick.jsonl'))
    with osc_ros.Arm.simulated('panda') as arm, arm.record(tmp_path / 'run.npz') as recording:
        found['draw'](found['teleoperate'](arm, device, 1.0))
    assert picture_shows(tmp_path, 'teleoperation')
    run = np.load(recording.path)
    y, time = run['pose'][:, 1, 3] - run['pose'][0, 1, 3], run['time']
    assert np.abs(y[time < 0.5]).max() < 1e-3  # the switch is open
    assert 0.05 < y[np.searchsorted(time, 1.9)] < 0.12
    moved = y[(time > 1.8) & (time < 2.0)]
    assert np.ptp(moved) < 2e-3  # and open again, with the stick the other way
    assert 0.12 < y[-1] < 0.23
    assert np.ptp(y[time > time[-1] - 0.2]) < 1e-3


def test_arm_holds_its_pose_when_the_device_goes(tmp_path):
    found = program('teleoperation')
    lines = [{'time': 0.0, 'deflection': [0, 0, 0, 0, 1, 0], 'is_held': True},
             {'time': 0.5, 'gone': True}, {'time': 9.0}]
    path = tmp_path / 'gone.jsonl'
    path.write_text('\n'.join(map(json.dumps, lines)))
    with osc_ros.Arm.simulated('panda') as arm:
        with pytest.raises(found['DeviceError'], match='has gone'):
            found['teleoperate'](arm, found['device_of'](str(path)), 1.0)
        here = arm.pose()
        assert np.linalg.norm(arm.sleep(0.3).pose - here) < 1e-3


@pytest.mark.parametrize('name, text', [
    ('stick', 'give keyboard, gamepad, spacemouse'), ('keyboard', 'needs a terminal'),
    ('gamepad', 'evdev|plugged'), ('spacemouse', 'evdev|plugged')])
def test_device_that_is_not_there_is_a_clear_error(name, text, monkeypatch):
    monkeypatch.setattr(sys, 'stdin', open('/dev/null'))
    with pytest.raises(SystemExit, match=text):
        program('teleoperation')['main']([name])


@pytest.mark.parametrize('key, place', [('w', 3), ('f', 5), ('o', 2), ('x', None)])
def test_keys_are_their_own_switch(key, place):
    reading = program('teleoperation')['reading_of_key'](key)
    assert reading.is_held == (place is not None)
    assert np.flatnonzero(reading.deflection).tolist() == ([] if place is None else [place])


def test_keys_that_come_at_once_count_as_the_last_and_q_ends(monkeypatch):
    """In a pseudoterminal: what was typed before is not left for later."""
    found = program('teleoperation')
    ours, theirs = os.openpty()
    with open(theirs) as terminal, open(ours, 'wb', buffering=0) as typist:
        monkeypatch.setattr(sys, 'stdin', terminal)
        keyboard = found['Keyboard']()
        with found['raw_terminal']():
            typist.write(b'wwwwf')
            select.select([terminal], [], [], 10.0)
            assert keyboard.read(0.0).deflection[5] == -1.0
            assert keyboard.read(0.1).is_held
            assert not keyboard.read(1.0).is_held
            typist.write(b'wwqw')
            select.select([terminal], [], [], 10.0)
            assert keyboard.read(2.0) is None


@pytest.mark.parametrize('lines, text', [
    ('x', 'line 1: JSONDecodeError'), ('{"time": 1.0, "deflection": [1]}', 'line 1.*six numbers'),
    ('{"time": 0.0}\n{"deflection": [0, 0, 0, 0, 0, 0]}', "line 2: KeyError.*'time'"),
    ('[]', 'give')])
def test_recording_of_a_device_that_cannot_be_used_is_a_clear_error(tmp_path, lines, text):
    path = tmp_path / 'stick.jsonl'
    path.write_text(lines)
    with pytest.raises(SystemExit, match=text):
        program('teleoperation')['main']([str(path)])


def test_recording_that_begins_later_is_at_rest_before(tmp_path):
    found = program('teleoperation')
    path = tmp_path / 'stick.jsonl'
    path.write_text('{"time": 0.5, "deflection": [0, 0, 0, 1, 0, 0], "is_held": true}\n'
                    '{"time": 9.0}')
    device = found['device_of'](str(path))
    assert not device.read(3.0).is_held
    assert device.read(3.6).is_held


def test_axes_of_a_gamepad_have_its_range_and_lost_events_open_the_switch(monkeypatch):
    """With the interface of evdev: there is no device in a test."""
    codes = SimpleNamespace(EV_SYN=0, EV_KEY=1, EV_REL=2, EV_ABS=3, SYN_DROPPED=3, BTN_SOUTH=304,
                            ABS={0: 'ABS_X', 1: 'ABS_Y'}, REL={})
    events = []

    class Gamepad:
        name = 'a gamepad'

        def __init__(self, path):
            pass

        def absinfo(self, code):
            return SimpleNamespace(min=0, max=255)

        def read_one(self):
            return SimpleNamespace(**dict(zip(('type', 'code', 'value'), events.pop(0)))) if (
                events) else None

    monkeypatch.setitem(sys.modules, 'evdev', SimpleNamespace(
        ecodes=codes, InputDevice=Gamepad, list_devices=lambda: ['/dev/input/event0']))
    device = program('teleoperation')['device_of']('gamepad')
    events += [(1, 304, 1), (3, 1, 0), (3, 0, 255)]
    reading = device.read(0.0)
    assert reading.is_held
    assert reading.deflection.tolist() == [0.0, 0.0, 0.0, 1.0, -1.0, 0.0]
    events += [(3, 1, 128), (0, 3, 0)]
    reading = device.read(0.1)
    assert abs(reading.deflection[3]) < 0.01
    assert not reading.is_held


def test_cube_is_placed_within_a_centimetre_and_always_alike(capsys, folder):
    found = []
    for _ in range(2):
        program('pick_and_place')['main']([])
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert float(found[0].split(' m, ')[1].split(' mm')[0]) < 10.0
    assert picture_shows(folder, 'pick_and_place')


def test_pick_of_nothing_is_an_error():
    example = program('pick_and_place')
    with osc_ros.Arm.simulated('panda') as arm, pytest.raises(SystemExit, match='no cube'):
        example['pick'](arm, example['START'])


def test_library_in_15_lines(capsys, folder):
    lines = (EXAMPLES / 'library.py').read_text().split('"""\n')[1].splitlines()
    assert len([line for line in lines if line.strip()]) <= 15
    program('library')
    assert float(capsys.readouterr().out.split()[-1]) < 0.5  # [mm]
    assert picture_shows(folder, 'library')


def test_own_loop_moves_an_arm_that_is_not_in_mujoco(capsys, folder):
    program('own_loop')['main']()
    moved = float(re.search(r'by ([\d.]+) mm', capsys.readouterr().out)[1])
    assert 99.5 < moved < 100.5
    assert picture_shows(folder, 'own_loop')


def test_template_for_own_hardware_moves_the_arm_behind_its_functions(tmp_path, monkeypatch):
    package = tmp_path / 'my_arm-1.0.dist-info'
    package.mkdir()
    (package / 'METADATA').write_text('Metadata-Version: 2.1\nName: my_arm\nVersion: 1.0\n')
    (package / 'entry_points.txt').write_text(
        '[osc_ros.hardware]\nown_arm = own_hardware:OwnArm\n')
    shutil.copy(EXAMPLES / 'own_hardware.py', tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv('PYTHONPATH', import_path(tmp_path))  # of the process of the loop
    with osc_ros.Arm.real_time('panda', 'own_arm', startup_check='refuse') as arm:
        goal = arm.pose(shift=(0.0, 0.0, 0.05))
        arm.move_to(goal, duration=1.0)
        assert np.abs(arm.pose() - goal).max() < 2e-3


def test_force_on_wall_stays_while_the_tip_slides(capsys, folder):
    program('force_on_wall')['main']()
    pressing, sliding = capsys.readouterr().out.splitlines()
    assert float(re.search(r'(\S+)\]$', pressing)[1]) == pytest.approx(-10.0, abs=0.1)
    low, high, way = map(float, re.findall(r'-?\d+\.\d+', sliding))
    assert -11.0 < low <= high < -9.0 and way == pytest.approx(0.1, abs=2e-3)
    assert picture_shows(folder, 'force_on_wall')


def test_two_arms_keep_the_distance_of_their_hands(capsys, folder):
    program('two_arms')['main']()
    change = float(re.search(r'([\d.]+) µm', capsys.readouterr().out)[1])
    assert 0.0 < change < 500.0
    assert picture_shows(folder, 'two_arms')


def test_two_arms_at_one_table_keep_the_margin(capsys, folder):
    found = program('two_arms_one_table')
    found['main']()
    distances = re.findall(r'^(.*): at least (-?[\d.]+) mm', capsys.readouterr().out, re.M)
    assert [label for label, _ in distances] == list(found['KINDS'].values())
    for _, distance in distances:
        assert 0.8 < 1e-3 * float(distance) / found['MARGIN'] < 1.2  # each pair came to its bound
    assert picture_shows(folder, 'two_arms_one_table')


def test_snake_of_200_links_moves_its_tip(capsys, folder):
    program('snake')['main']()
    links, error = re.match(r'(\d+) links: .* tip ([\d.]+) mm', capsys.readouterr().out).groups()
    assert links == '200' and float(error) < 1.0
    assert picture_shows(folder, 'snake')


def test_many_arms_draw_their_circles(capsys, folder):
    program('many_arms')['main'](['--count', '16', '--seconds', '0.6'])
    count, error = re.match(r'(\d+) arms, .* tip ([\d.]+) mm', capsys.readouterr().out).groups()
    assert count == '16' and 0.0 < float(error) < 1.0
    assert picture_shows(folder, 'many_arms')


def torques_of_chunks(k=5):
    """Return torques of k states in chunks of two, not computed yet, and in one batch."""
    found = program('many_machines')
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(k, width)) for width in (7, 7, 6)]
    chunks = (found['da'].from_array(values, chunks=(2, -1)) for values in arrays)
    return found['torques'](*chunks), found['laws'](*arrays)


def test_chunks_of_dask_have_the_torques_of_one_batch():
    pytest.importorskip('distributed', reason='needs dask: pip install .[dask]')
    torques, expected = torques_of_chunks()
    assert torques.numblocks == (3, 1)
    np.testing.assert_array_equal(torques.compute(scheduler='synchronous'), expected)


@pytest.mark.slow
def test_a_cluster_of_two_processes_evaluates_the_chunks(folder):
    pytest.importorskip('distributed', reason='needs dask: pip install .[dask]')
    found = subprocess.run([sys.executable, EXAMPLES / 'many_machines.py', '--count', '200000'],
                           capture_output=True, text=True, check=True, timeout=300).stdout
    assert '200000 states in 4 chunks' in found and picture_shows(folder, 'many_machines')
    mean = re.search(r'\[([^\]]+)\]$', found.strip())[1].split()
    rng = np.random.default_rng(0)  # other states of the same distribution
    q, qd, u = (rng.uniform(-1.0, 1.0, (20000, width)) for width in (7, 7, 6))
    expected = program('many_machines')['laws'](q + [0, 0, 0, -1.5, 0, 1.5, 0], qd, u)
    np.testing.assert_allclose(np.array(mean, float), abs(expected).mean(axis=0), rtol=0.05,
                               atol=0.02)
