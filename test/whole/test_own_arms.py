# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The demo with every arm of example-robot-data, in one process: doc/measurements/own_arms.md."""

from importlib.metadata import files, version
from pathlib import Path
import re

from matplotlib.image import imsave
import numpy as np
import pytest
import yaml

from arms import ARMS, LEAST, LEFT_OUT
from common import CHECKOUT
from survey import chains, urdf_texts

pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros import Robot
from osc_ros.control.tasks.freedoms import freedoms_of
from osc_ros.errors import InputError, OscError
from osc_ros.sim import Plant
from osc_ros.tools.check.cause_search import follow_check, recording_of
from osc_ros.tools.check.demonstration import demonstration
from osc_ros.tools.check.judgement import result
from osc_ros.tools.check.parameter_files import Parameters, text_of

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

PAGE = CHECKOUT / 'doc' / 'measurements' / 'own_arms.md'
BASE = CHECKOUT / 'config' / 'own.yaml'
WRITE = "make test-all ARGS='-n 0 -k own_arms --write-tables'"
DURATION = 10.0  # [s]
QUICK = {'so101': 5, 'z1': 6, 'ur3_robot': 6}  # number of joints of each URDF

HEAD = f"""\
# Every arm of example-robot-data {version('example-robot-data')} in the demo

`make demo ARGS='--urdf FILE --base B --tip T --duration 10'` for every arm of the package with
{LEAST} joints or more, in MuJoCo. To save time, each run is made in one process, without ROS, with
the law, motions and thresholds of the demo. If the arm does not follow, the demo says the cause
and prints parameters; the second run has these parameters. Errors are the RMS over the figure of
eight; the thresholds are 1 mm and 0.2°. "Axes" are those that are controlled. "Size" is the size
of the motions; 100 % is a figure of eight of 30 × 15 cm, less for arms that reach less than 0.8 m.
To write it again: `{WRITE}`.

![Some of these arms, with the meshes of the package](own_arms.png)
"""


def run(name, base, tip, *files):
    """Return the demonstration of an arm, and its result."""
    parameters = {'robot_description': urdf_texts()[name], 'base': base, 'tip': tip}
    wanted = demonstration(Parameters([BASE, *files]), parameters, DURATION, lambda text: None)
    return wanted, result(*recording_of(wanted), wanted)


def row(name, base, tip, folder):
    """Return the table row of an arm, and whether it follows, at once or in the second run."""
    path = [name.split('/')[-1].removesuffix('.urdf'), f'{base} → {tip}']
    try:
        wanted, found = run(name, base, tip)
    except OscError as error:
        return [*path, '', '', '', '', '', f'refused: {error}'], False
    first = [str(wanted.robot.n), str(wanted.freedoms.count), f'{wanted.start.scale:.0%}',
             errors(found)]
    if not found.failures:
        return [*path, *first, '', ''], True
    why = follow_check(wanted, lambda *shown: None).cause
    if not why.changes:
        return [*path, *first, '', why.text], False
    file = folder / 'follow.yaml'
    file.write_text(text_of(why.changes), encoding='utf-8')
    _, again = run(name, base, tip, file)
    return [*path, *first, errors(again), why.text], not again.failures


def errors(found):
    figures = found.figures['figure of eight']
    return (f"{figures['position rms [mm]']:.2g} mm, {figures['orientation rms [deg]']:.2g}°"
            + ('' if found.failures else ', follows'))


def page(rows):
    columns = ['robot', 'arm', 'joints', 'axes', 'size', 'first run', 'second run', 'cause']
    lines = [columns, ['-'] * len(columns), *rows]
    followed = sum('follows' in row[5] + row[6] for row in rows)
    text = f"{followed} of {len(rows)} arms follow, {sum('follows' in row[5] for row in rows)} " \
           'of them in the first run.\n'
    table = ''.join(f"| {' | '.join(line)} |\n" for line in lines)
    out = ''.join(f'- `{name}`: {reason}\n' for name, reason in LEFT_OUT.items())
    return f'{HEAD}\n{text}\n{table}\nArms and descriptions that are left out:\n\n{out}'


def test_every_arm_is_in_the_list_or_left_out_with_its_reason():
    listed = {name for name, _, _ in ARMS}
    assert listed.isdisjoint(LEFT_OUT)
    assert listed | LEFT_OUT.keys() == urdf_texts().keys()
    for name, reason in LEFT_OUT.items():
        if reason == 'no chain of five joints or more':
            assert all(len(chain.ranges) < LEAST for chain in chains(urdf_texts()[name])), name


# MuJoCo refuses the inertias of these descriptions, which violate the triangle inequality.
@pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
@pytest.mark.parametrize('name, base, tip', [
    ('romeo_laas_small', 'torso', 'l_wrist'),
    pytest.param('romeo_small', 'torso', 'r_gripper', marks=pytest.mark.slow)])
def test_arm_with_an_impossible_inertia_follows_with_what_the_plant_uses_instead(
        name, base, tip, tmp_path):
    found, followed = row(f'romeo_description/urdf/{name}.urdf', base, tip, tmp_path)
    assert followed, found


def test_page_has_every_arm():
    text = PAGE.read_text(encoding='utf-8')
    assert text.startswith(HEAD)
    for name, base, tip in ARMS:
        assert f"| {name.split('/')[-1].removesuffix('.urdf')} | {base} → {tip} |" in text
    followed, arms = map(int, re.search(r'(\d+) of (\d+) arms follow', text).groups())
    assert arms == len(ARMS)
    assert followed >= 0.9 * arms


@pytest.mark.slow
def test_nine_in_ten_arms_follow_as_they_come_or_with_what_the_first_run_printed(
        request, tmp_path):
    rows, followed = zip(*(row(*arm, tmp_path) for arm in ARMS))
    if request.config.getoption('--write-tables'):
        PAGE.write_text(page(rows), encoding='utf-8')
    assert sum(followed) >= 0.9 * len(ARMS), [
        (arm, row[-1]) for arm, row, good in zip(ARMS, rows, followed) if not good]


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=pytest.mark.slow if name == 'z1' else ()) for name in QUICK])
def test_arm_follows_as_it_comes_or_with_what_the_first_run_printed(name, tmp_path):
    [arm] = (arm for arm in ARMS if arm[0].endswith(f'/{name}.urdf'))
    found, followed = row(*arm, tmp_path)
    assert followed, found
    assert int(found[3]) == QUICK[name]


def test_arm_of_five_joints_controls_the_position_and_two_rotations():
    for name, base, tip in ARMS:
        if 'so_arm' in name:
            freedoms = freedoms_of(Robot.from_urdf(urdf_texts()[name], base, tip))
            assert freedoms.controlled[3:] == (True,) * 3
            assert freedoms.count == 5


def test_all_axes_are_controlled_where_there_are_six_freedoms():
    name, base, tip = next(arm for arm in ARMS if 'ur5_robot' in arm[0])
    freedoms = freedoms_of(Robot.from_urdf(urdf_texts()[name], base, tip))
    assert freedoms.axes == ('motion',) * 6
    assert freedoms.frame == ''


def test_foreign_arms_are_drawn_with_their_meshes(request):
    """With --write-tables, write doc/measurements/own_arms.png and doc/panda.png."""
    pictures = [picture(*arm) for arm in (
        ('so101', 'base_link', 'gripper_frame_link', [0.0, -0.6, 0.6, 0.4, 0.0]),
        ('xarm7', 'link_base', 'link_eef', [0.0, -0.3, 0.0, 1.3, 0.0, 1.4, 0.0]),
        ('ur5_robot', 'base_link', 'tool0', [0.0, -1.2, 1.5, -1.9, -1.6, 0.0]),
        ('tiago_pro', 'torso_lift_link', 'gripper_left_base_link', [0.3] * 7))]
    panda = picture('panda', 'panda_link0', 'panda_hand', [0.0, -0.785, 0.0, -2.356, 0.0, 1.571,
                                                           0.785], width=640, height=480)
    for drawn in (*pictures, panda):
        assert np.ptp(drawn[60:300, 60:240].astype(int)) > 100
    if request.config.getoption('--write-tables'):
        imsave(CHECKOUT / 'doc' / 'measurements' / 'own_arms.png', np.hstack(pictures))
        imsave(CHECKOUT / 'doc' / 'panda.png', panda)


def picture(name, base, tip, q, width=320, height=360):
    """Return a picture of an arm, drawn with the meshes of its package."""
    [file] = (path for path in files('example-robot-data') if str(path).endswith(f'/{name}.urdf'))
    file = Path(file.locate())
    text = file.read_text()
    plant = Plant(text, base, Robot.from_urdf(text, base, tip).joint_names, folder=file.parent)
    plant.reset(q)
    assert plant.scene()[0].nmesh > 5
    try:
        return plant.picture(width=width, height=height)
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.slow  # quick: causes in test_demo.py and test_demo_user.py
def test_speed_limit_that_binds_is_named_and_friction_is_not(tmp_path):
    # Kinova's URDF has zeros in <dynamics>, and limits its joints to 0.63 rad/s
    file = tmp_path / 'fast.yaml'
    file.write_text(yaml.safe_dump({'/**/osc_demo': {'ros__parameters': {'scale': 1.0}}}))
    arm = next(arm for arm in ARMS if arm[0].endswith('/kinova.urdf'))
    parameters = {'robot_description': urdf_texts()[arm[0]], 'base': arm[1], 'tip': arm[2]}
    usual = demonstration(Parameters([BASE]), parameters, 5.0, lambda text: None)
    assert usual.start.scale < 1.0
    assert "joint 'j2s6s200_joint_" in usual.notes[0]
    assert 'its limit is 0.' in usual.notes[0]
    q = usual.values['osc_simulator']['initial_positions']
    wanted = usual.with_changes({'osc_demo': {'scale': 1.0}})
    assert wanted.values['osc_simulator']['initial_positions'] == q
    assert result(*recording_of(wanted), wanted).failures
    why = follow_check(wanted, lambda *shown: None).cause
    assert 'limit of speed' in why.text
    assert 'riction' not in why.text
    assert why.changes['osc_demo']['scale'] < 1.0
    mended = wanted.with_changes(why.changes)
    assert not result(*recording_of(mended), mended).failures
    assert np.allclose(why.changes['osc_simulator']['initial_positions'], q)
