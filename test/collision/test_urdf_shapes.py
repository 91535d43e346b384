# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shapes from the collision elements of URDFs, and what the command osc_shapes makes of them."""

import json
import sys

import numpy as np
import pytest

from common import naming
from osc_ros.collision import urdf_shapes
from osc_ros.collision.link_shapes import ShapeModel
from osc_ros.collision.urdf_shapes import shapes_of_urdf
from osc_ros.errors import InputError, ModelError
from osc_ros.model.robot import Robot
from osc_ros.model.srdf import disabled_pairs
from osc_ros.tools.shapes import shapes_command

ROUNDING = 1e-9  # [m]
# An arm of three links with a finger; each link has the geometry of its name.
URDF = """<robot name="arm">
  <link name="base">{base}</link>
  <link name="upper"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>{upper}</link>
  <link name="fore"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>{fore}</link>
  <link name="finger">{finger}</link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><origin xyz="0 0 0.5"/>
    <limit lower="-1" upper="1" velocity="1" effort="9"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/>
    <axis xyz="0 1 0"/><origin xyz="0 0 0.5"/>
    <limit lower="-1" upper="1" velocity="1" effort="9"/></joint>
  <joint name="opening" type="prismatic"><parent link="fore"/><child link="finger"/>
    <axis xyz="1 0 0"/><origin xyz="0 0 0.2"/>
    <limit lower="0" upper="0.1" velocity="1" effort="9"/></joint>
</robot>"""


def element(geometry, origin=''):
    return f'<collision>{origin}<geometry>{geometry}</geometry></collision>'


def urdf(**links):
    return URDF.format(**{'base': '', 'upper': '', 'fore': '', 'finger': '', **links})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of the URDF; results of this test are cached in a folder of its own."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    return tmp_path


def write_mesh(folder, size=(0.1, 0.2, 0.3)):
    trimesh = pytest.importorskip('trimesh', reason='trimesh reads meshes')
    trimesh.creation.box(extents=size).export(folder / 'box.stl')


def gaps(model, points):
    """Return the distances of points from the nearest of all shapes."""
    found = []
    for shape in model.shapes:
        u = shape.ends[1] - shape.ends[0]
        t = np.clip((points - shape.ends[0]) @ u / max(u @ u, 1e-12), 0.0, 1.0)
        found.append(np.linalg.norm(points - shape.ends[0] - t[:, None] * u, axis=1)
                     - shape.radius)
    return np.min(found, axis=0)


def test_sphere_and_capsule_are_taken_as_they_are(folder):
    model, _ = shapes_of_urdf(urdf(
        upper=element('<sphere radius="0.2"/>', '<origin xyz="1 2 3"/>'),
        fore=element('<capsule radius="0.1" length="0.4"/>',
                     '<origin xyz="0 0 1" rpy="0 1.5707963267948966 0"/>')), folder)
    sphere, capsule = model.shapes
    assert (sphere.link, sphere.radius) == ('upper', 0.2)
    assert (capsule.link, capsule.radius) == ('fore', 0.1)
    np.testing.assert_allclose(sphere.ends, [[1, 2, 3]] * 2)
    np.testing.assert_allclose(capsule.ends, [[-0.2, 0, 1], [0.2, 0, 1]], atol=ROUNDING)


@pytest.mark.parametrize('geometry, corners', [
    ('<box size="0.1 0.2 0.6"/>', lambda u: (u > 0.5) - 0.5),
    ('<cylinder radius="0.1" length="0.6"/>', lambda u: np.column_stack([
        np.cos(6.3 * u[:, 0]), np.sin(6.3 * u[:, 0]), (u[:, 2] > 0.5) - 0.5]))])
def test_box_and_cylinder_are_enclosed(geometry, corners, folder):
    size = (0.1, 0.2, 0.6) if 'box' in geometry else (0.1, 0.1, 0.6)
    model, (found,) = shapes_of_urdf(urdf(fore=element(geometry)), folder)
    points = corners(np.random.default_rng(0).random((200, 3))) * size
    assert gaps(model, points).max() <= ROUNDING
    assert 1.0 <= found.ratio < 2.5 and 0.0 < found.beyond < 0.1


def test_mesh_is_scaled_placed_and_enclosed(folder):
    write_mesh(folder)
    text = urdf(upper=element('<mesh filename="box.stl" scale="2 1 -1"/>',
                              '<origin xyz="1 0 0" rpy="0 0 1.5707963267948966"/>'))
    model, (found,) = shapes_of_urdf(text, folder)
    corners = np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3), -1).reshape(-1, 3) * (0.2, 0.2, 0.3)
    assert found.source == 'box.stl'
    assert gaps(model, corners + (1.0, 0.0, 0.0)).max() <= ROUNDING


def test_finger_is_enclosed_at_all_openings(folder):
    text = urdf(finger=element('<box size="0.02 0.02 0.05"/>'), upper=element(
        '<sphere radius="0.1"/>'))
    robot = Robot.from_urdf(text, 'base', 'fore', locked={'opening': 0.03})
    model, _ = shapes_of_urdf(text, folder, robot)
    corners = np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3), -1).reshape(-1, 3) * (0.02, 0.02, 0.05)
    finger = ShapeModel(tuple(one for one in model.shapes if one.link == 'finger'))
    for opening in (0.0, 0.05, 0.1):  # the link's frame is at 0.03
        assert gaps(finger, corners + (opening - 0.03, 0.0, 0.0)).max() <= ROUNDING
    assert gaps(finger, np.array([[0.3, 0.0, 0.0]])).min() > 0.0


def test_second_run_takes_a_mesh_from_the_cache_until_its_bytes_change(folder, monkeypatch):
    write_mesh(folder)
    text = urdf(upper=element('<mesh filename="box.stl"/>'))
    first, _ = shapes_of_urdf(text, folder)
    calls, computed = [], urdf_shapes.enclosures
    monkeypatch.setattr(urdf_shapes, 'enclosures', lambda *a: calls.append(a) or computed(*a))
    again, _ = shapes_of_urdf(text, folder)
    assert not calls and again.to_yaml() == first.to_yaml()
    write_mesh(folder, (0.1, 0.2, 0.31))
    shapes_of_urdf(text, folder)
    assert len(calls) == 1
    for file in (folder / 'cache').rglob('*.json'):
        file.write_text('[')  # damaged
    assert shapes_of_urdf(text, folder)[0].shapes and len(calls) == 2



@pytest.mark.parametrize('collision, parts', [
    ('', ['<collision>', '<sphere>']), ('<collision/>', ['upper', 'nothing', '<box>']),
    (element('<cone radius="1"/>'), ['upper', '<cone>', '<cylinder>']),
    (element('<sphere radius="-1"/>'), ['upper', 'sphere', '-1', 'more than 0']),
    (element('<sphere/>'), ['upper', 'radius']),
    (element('<box size="1 2"/>'), ['upper', '1 2', '3']),
    (element('<mesh/>'), ['upper', 'filename']),
    (element('<mesh filename="package://arm/no.stl"/>'),
     ['upper', 'package://arm/no.stl', '.stl', 'AMENT_PREFIX_PATH']),
    (element('<mesh filename="bad.stl"/>'), ['upper', 'bad.stl'])])
def test_unusable_geometry_is_refused_and_names_link_and_file(collision, parts, folder):
    pytest.importorskip('trimesh', reason='trimesh reads meshes')
    (folder / 'bad.stl').write_text('no mesh')
    with pytest.raises(ModelError, match=naming(*parts)):
        shapes_of_urdf(urdf(upper=collision), folder)


def test_missing_library_is_refused_with_its_installation(folder, monkeypatch):
    (folder / 'box.stl').write_text('a mesh')
    monkeypatch.setitem(sys.modules, 'trimesh', None)
    with pytest.raises(InputError, match=naming('trimesh', 'pip install', 'viewer')):
        shapes_of_urdf(urdf(upper=element('<mesh filename="box.stl"/>')), folder)


@pytest.fixture
def arm(folder):
    """Return the path of an arm whose base and fore link can touch, but not those beside them."""
    file = folder / 'arm.urdf'
    file.write_text(urdf(base=element('<sphere radius="0.1"/>'),
                         upper=element('<box size="0.1 0.1 0.4"/>'),
                         fore=element('<sphere radius="0.1"/>')))
    return file


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        shapes_command.main(['--urdf', *map(str, arguments)])
    return end.value.code


def test_command_writes_shapes_and_pairs(arm, capsys):
    yaml, srdf = arm.with_suffix('.yaml'), arm.with_suffix('.srdf')
    assert run(arm, '--tip', 'fore', '--samples', 100, '--output', yaml, '--srdf', srdf) == 0
    model = ShapeModel.of_yaml(yaml.read_text(), 'x')
    assert model.links == ('base', 'upper', 'fore') and not model.ignored
    assert disabled_pairs(srdf.read_text()) == {
        frozenset(('base', 'upper')): 'Adjacent', frozenset(('upper', 'fore')): 'Adjacent',
        frozenset(('base', 'fore')): 'Never'}
    text = capsys.readouterr().out
    assert 'without a shape: finger' in text and '2 Adjacent, 1 Never' in text
    assert run(arm, '--tip', 'fore', '--samples', 100, '--output', yaml) == 0
    assert len(ShapeModel.of_yaml(yaml.read_text(), 'x').ignored) == 3


def test_command_keeps_the_pairs_of_the_user(arm, capsys):
    srdf = arm.with_suffix('.srdf')
    srdf.write_text('<robot name="arm"><disable_collisions link1="fore" link2="finger"/></robot>')
    assert run(arm, '--tip', 'fore', '--samples', 10, '--srdf', srdf) == 0
    assert disabled_pairs(srdf.read_text())[frozenset(('fore', 'finger'))] == 'User'


def test_command_writes_json_and_takes_own_shapes(arm):
    own, out = arm.with_suffix('.shapes.yaml'), arm.with_suffix('.json')
    own.write_text('shapes: [{link: fore, center: [0, 0, 0], radius: 0.1}]')
    assert run(arm, '--tip', 'fore', '--samples', 10, '--shapes', own, '--json', out) == 0
    found = json.loads(out.read_text())
    assert [one['link'] for one in found['shapes']] == ['fore']
    assert run(arm, '--tip', 'fore', '--samples', 10, '--json', out) == 0
    found = json.loads(out.read_text())
    assert [one['from'] for one in found['elements']] == ['sphere', 'box', 'sphere']


@pytest.mark.parametrize('option, value, parts', [
    ('--margin', '0', ['--margin', '1']), ('--margin', 'nan', ['--margin']),
    ('--samples', '0', ['--samples', '1e+06']), ('--most', '99', ['--most', '8']),
    ('--seed', '-1', ['--seed', '0']), ('--shapes', 'missing.yaml', ['missing.yaml']),
    ('--srdf', 'missing/x.srdf', ['missing'])])
def test_command_refuses_bad_values(option, value, parts, arm, capsys):
    assert run(arm, '--tip', 'fore', option, value) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in parts)
