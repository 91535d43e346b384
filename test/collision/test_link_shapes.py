# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shapes of links: checks, YAML, and the shapes of the shipped arms."""

from importlib.metadata import files, PackageNotFoundError
from itertools import product
from pathlib import Path

import coal
from hypothesis import given, settings, strategies
import numpy as np
import pytest

from common import naming
from osc_ros.collision.link_shapes import LinkShape, ShapeModel, shipped_shapes
from osc_ros.collision.near_pairs import link_distances, random_positions
from osc_ros.dynamics.algebra.kinematics import link_frame, placement
from osc_ros.errors import InputError, ModelError
from osc_ros.model.files import ROBOTS
from osc_ros.model.robot import Robot
from osc_ros.model.urdf import description
from shipped import ends

LENGTHS = strategies.floats(-2.0, 2.0)
NAMES = strategies.text('abz_/:#- 019', min_size=1, max_size=8)
SHAPES = strategies.builds(
    LinkShape, NAMES,
    strategies.lists(LENGTHS, min_size=6, max_size=6).map(lambda x: np.reshape(x, (2, 3))),
    strategies.floats(1e-4, 2.0))
PAIRS = strategies.frozensets(strategies.frozensets(NAMES, min_size=2, max_size=2), max_size=3)
SHIPPED = sorted(path.stem for path in ROBOTS.glob('*.urdf'))
# Of the shipped arms, example-robot-data has the meshes of this one only.
MESHES = 'panda_description/meshes/collision'
FINGERS = {'panda_leftfinger': ('finger', 1.0), 'panda_rightfinger': ('finger', -1.0)}
OUTSIDE = 1e-4  # [m]
TRAVEL = 0.0, 0.02, 0.04  # of a finger [m]
MARGIN = 0.02  # of `Clearance` by default [m]
FALSE_HOLDS = 0.1  # largest share of the postures


@settings(deadline=None)
@given(strategies.lists(SHAPES, min_size=1, max_size=4), PAIRS)
def test_yaml_returns_the_same_model(shapes, ignored):
    model = ShapeModel(tuple(shapes), ignored)
    found = ShapeModel.of_yaml(model.to_yaml(), 'a file')
    assert found.ignored == ignored
    for one, other in zip(model.shapes, found.shapes, strict=True):
        assert (one.link, one.radius) == (other.link, other.radius)
        np.testing.assert_array_equal(one.ends, other.ends)


@pytest.mark.parametrize('ends, radius, name', [
    (np.zeros((2, 3)), 0.0, 'radius'), (np.zeros((2, 3)), np.nan, 'radius'),
    (np.zeros((2, 3)), 'wide', 'radius'), (np.zeros(3), 0.1, 'ends'),
    (np.full((2, 3), np.inf), 0.1, 'ends'), (np.full((2, 3), 1e3), 0.1, 'ends')])
def test_wrong_shape_is_refused_and_names_the_link(ends, radius, name):
    with pytest.raises(InputError, match=naming(name, 'forearm')):
        LinkShape('forearm', ends, radius)


@pytest.mark.parametrize('text, parts', [
    ('shapes: [', ['not YAML']), ('[]', ['shapes', 'radius']), ('shapes: []', ['empty']),
    ('shapes: [{link: a, ends: [[0, 0, 0]], radius: 1}]', ['entry 1', 'ends', "'a'", '(2, 3)']),
    ('shapes: [{link: a, center: [0, 0, 0], radius: -1}]', ['entry 1', 'radius', "'a'"]),
    ('shapes: [{link: a, center: [0, 0, 0]}]', ['entry 1', 'give', 'radius']),
    ('shapes: [7]', ['entry 1', '7', 'give']),
    ('shapes: [{link: a, center: [0, 0, 0], radius: 1, size: 2}]', ['size', 'radius']),
    ('shapes: [{link: a, center: [0, 0, 0], radius: 1}]\nignored: [[a]]', ["['a']", 'two links']),
    ('shapes: [{link: a, center: [0, 0, 0], radius: 1}]\nignore: []', ['ignore', 'ignored'])])
def test_wrong_file_is_refused_and_names_the_entry(text, parts):
    with pytest.raises(InputError, match=naming('own.yaml', *parts).replace('.*', '(.|\n)*')):
        ShapeModel.of_yaml(text, 'own.yaml')


def test_file_that_is_missing_or_no_text_is_refused_by_its_name(tmp_path):
    file = tmp_path / 'own.yaml'
    with pytest.raises(ModelError, match=naming(file, 'give')):
        ShapeModel.of_file(file)
    file.write_bytes(b'shapes: \xff')
    with pytest.raises(ModelError, match=naming(file, '0xff', 'YAML')):
        ShapeModel.of_file(file)


def test_link_that_the_arm_lacks_is_refused_with_the_nearest_name():
    model = ShapeModel((LinkShape('fore_arm', np.zeros((2, 3)), 0.1),))
    with pytest.raises(InputError, match=naming('own.yaml', 'fore_arm', "'forearm'")):
        model.require_links({'base': 0, 'forearm': 1}, 'own.yaml')


@pytest.mark.parametrize('name', SHIPPED)
def test_every_body_of_a_shipped_arm_has_a_shape(name):
    model, tree = shipped_shapes(name), description((ROBOTS / f'{name}.urdf').read_text())
    model.require_links(dict.fromkeys(tree.links), name)
    heavy = {link for link, inertia in zip(tree.links, tree.inertia) if inertia[5, 5] > 0.0}
    assert set(model.links) == heavy
    assert all(pair <= heavy for pair in model.ignored)


def test_unknown_arm_is_refused_with_the_names():
    with pytest.raises(ModelError, match=naming('pandas', 'panda', 'ur5e')):
        shipped_shapes('pandas')


def test_shapes_of_the_panda_contain_its_meshes():
    trimesh = pytest.importorskip('trimesh', reason='trimesh reads meshes')
    stored = meshes()
    model = shipped_shapes('panda')
    for link in model.links:
        stem, side = FINGERS.get(link, (link.removeprefix('panda_'), 1.0))
        points = trimesh.load(stored[stem]).vertices * (side, side, 1.0)
        for travel in TRAVEL if stem == 'finger' else (0.0,):
            gap = outside(model, link, points + (0.0, side * travel, 0.0))
            assert gap <= OUTSIDE, f'{link}: {gap:.4f} m'


def test_capsules_of_the_panda_seldom_hold_off_links_whose_meshes_are_far_apart():
    stored, model = meshes(), shipped_shapes('panda')
    robot = Robot.from_urdf(ROBOTS / 'panda.urdf', *ends('panda'))
    positions = random_positions(robot, 600, seed=2026)
    load = coal.MeshLoader().load
    solids = {link: load(str(stored[FINGERS.get(link, (link.removeprefix('panda_'),))[0]]),
                         np.ones(3)) for link in model.links}
    found = set()
    for pair, distances in link_distances(robot, model, positions).items():
        one, other = pair
        for n in np.flatnonzero((distances < MARGIN) & (pair not in model.ignored)):
            at = placement(robot, positions[n])
            if min(coal.distance(solids[one], here, solids[other], there, coal.DistanceRequest(),
                                 coal.DistanceResult())
                   for here, there in product(mesh_places(robot, at, one),
                                              mesh_places(robot, at, other))) > MARGIN:
                found.add(n)
    print(f'{100 * len(found) / len(positions):.1f} % of the postures')
    assert len(found) <= FALSE_HOLDS * len(positions)


def mesh_places(robot, at, link):
    """Return where the mesh of a link is in the base frame: a finger at all openings."""
    body, T = link_frame(robot, link)
    if body >= 0:
        T = np.block([[at.R[body], at.p[body][:, None]], [np.eye(4)[3:]]]) @ T
    side = FINGERS.get(link, ('', 0.0))[1]
    turn = np.diag([side or 1.0, side or 1.0, 1.0])
    return [coal.Transform3s(T[:3, :3] @ turn, T[:3, 3] + side * travel * T[:3, 1])
            for travel in (TRAVEL if side else (0.0,))]


def meshes():
    """Return the file of each mesh of the Panda, without its suffix; skip if there are none."""
    stored = {Path(str(file)).stem: file.locate() for file in package_files()
              if MESHES in str(file)}
    if not stored:
        pytest.skip('example-robot-data, which has the meshes, is not installed')
    return stored


def package_files():
    """Return the files of example-robot-data; it has data only, and no module to import."""
    try:
        return files('example-robot-data') or ()
    except PackageNotFoundError:
        return ()


def outside(model, link, points):
    """Return the largest distance [m] of points from the shapes of a link, in its frame."""
    gaps = []
    for shape in (one for one in model.shapes if one.link == link):
        u = shape.ends[1] - shape.ends[0]
        t = np.clip((points - shape.ends[0]) @ u / max(u @ u, 1e-12), 0.0, 1.0)
        gaps.append(np.linalg.norm(points - shape.ends[0] - t[:, None] * u, axis=1) - shape.radius)
    return np.min(gaps, axis=0).max()
