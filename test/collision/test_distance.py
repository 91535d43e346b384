# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Distances of segments to solids, judged by coal; their derivatives by finite differences."""

import coal
import numpy as np
import pytest

from distance_kernel import put_distances
from osc_ros.collision.distance import (
    BOX,
    CYLINDER,
    HALF_SPACE,
    height_and_bend,
    KINDS,
    POINT,
    SEGMENT,
    TOLERANCE,
)
from osc_ros.compile.compiled import kernel
from osc_ros.dynamics.algebra.spatial import vector_at

NAMES = {POINT: 'point', SEGMENT: 'segment', BOX: 'box', CYLINDER: 'cylinder',
         HALF_SPACE: 'half-space'}
RADIUS = 0.01  # of the capsules that coal compares: their segments stay apart [m]


@kernel
def put_bend(kind, sizes, x, v, found):
    """Write distance, normal (3,) and ṅ · v of a point."""
    size = (sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5])
    d, _, normal, bend = height_and_bend(kind, size, vector_at(x, 0), vector_at(v, 0))
    found[0], found[4] = d, bend
    found[1], found[2], found[3] = normal


def problems(kind, count, seed=0):
    """Return random sizes (count, 6) and segments (count, 6); some are short, some parallel."""
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(0.02, 0.4, (count, 6))
    if kind == SEGMENT:
        sizes = rng.uniform(-0.3, 0.3, (count, 6))
    segments = rng.uniform(-1.0, 1.0, (count, 6))
    segments[:, 3:] = segments[:, :3] + rng.uniform(-0.5, 0.5, (count, 3))
    kept = rng.random(count)
    segments[kept < 0.1, 3:] = segments[kept < 0.1, :3]
    segments[kept > 0.9, 5] = segments[kept > 0.9, 2]
    return sizes, segments


def distances(kind, sizes, segments):
    """Return the results (count, 3) of `put_distances`."""
    found = np.empty((len(sizes), 3))
    put_distances(np.full(len(sizes), kind), sizes, segments, found)
    return found


def capsule(a, b):
    """Return coal's capsule between two points, and its placement."""
    length = np.linalg.norm(b - a)
    z = (b - a) / length if length > 1e-12 else np.array([0.0, 0.0, 1.0])
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    axes = np.column_stack([x, np.cross(z, x), z])
    return coal.Capsule(RADIUS, length), coal.Transform3s(axes, 0.5 * (a + b))


def judged(kind, size, segment):
    """Return coal's distance of a segment to a solid [m]."""
    one, at = capsule(segment[:3], segment[3:])
    place, other_radius = coal.Transform3s.Identity(), 0.0
    if kind == POINT:
        other, place, other_radius = coal.Sphere(RADIUS), coal.Transform3s(
            np.eye(3), size[:3]), RADIUS
    elif kind == SEGMENT:
        (other, place), other_radius = capsule(size[:3], size[3:]), RADIUS
    elif kind == BOX:
        other = coal.Box(*(2.0 * size[:3]))
    elif kind == CYLINDER:
        other = coal.Cylinder(size[0], 2.0 * size[1])
    else:
        other = coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance, request.gjk_max_iterations = 1e-12, 1000
    return coal.distance(one, at, other, place, request, result) + RADIUS + other_radius


@pytest.mark.parametrize('kind', KINDS, ids=NAMES.get)
def test_distances_are_those_of_coal(kind):
    sizes, segments = problems(kind, 2000)
    found = distances(kind, sizes, segments)[:, 0]
    apart = np.flatnonzero((found > 3.0 * RADIUS) | (kind == HALF_SPACE))
    assert len(apart) > 1000
    wanted = [judged(kind, sizes[i], segments[i]) for i in apart.tolist()]
    np.testing.assert_allclose(found[apart], wanted, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize('kind', [one for one in KINDS if one != POINT], ids=NAMES.get)
def test_part_of_a_segment_that_is_near_lies_between_both_points(kind):
    sizes, segments = problems(kind, 500, seed=1)
    found = distances(kind, sizes, segments)
    for s in np.linspace(0.0, 1.0, 41):
        point = segments[:, :3] + s * (segments[:, 3:] - segments[:, :3])
        here = distances(kind, sizes, np.hstack([point, point]))[:, 0]
        assert (here >= found[:, 0] - 1e-12).all()
        outside = (s < found[:, 1] - 1e-5) | (s > found[:, 2] + 1e-5)
        inside = (s > found[:, 1] + 1e-5) & (s < found[:, 2] - 1e-5)
        assert (here[outside] > found[outside, 0] + 0.99 * TOLERANCE).all()
        assert (here[inside] < found[inside, 0] + 1.01 * TOLERANCE).all()


def test_nearest_point_to_a_point_is_one():
    found = distances(POINT, *problems(POINT, 500, seed=1))
    np.testing.assert_array_equal(found[:, 1], found[:, 2])


@pytest.mark.parametrize('kind', [SEGMENT, BOX, HALF_SPACE], ids=NAMES.get)
def test_near_points_do_not_jump_while_a_parallel_segment_tilts(kind):
    size = {SEGMENT: [-0.2, 0.0, 0.0, 0.2, 0.0, 0.0], BOX: [0.2, 0.1, 0.05, 0.0, 0.0, 0.0],
            HALF_SPACE: [0.0] * 6}[kind]
    tilts = np.linspace(-0.02, 0.02, 2001)
    z = 0.3
    segments = np.array([[-0.4, 0.0, z - 0.4 * a, 0.4, 0.0, z + 0.4 * a] for a in tilts])
    found = distances(kind, np.repeat([size], len(tilts), axis=0), segments)
    assert np.abs(np.diff(found, axis=0)).max() < 0.02
    assert np.ptp(found[:, 1]) > 0.3  # it tilts from one end to the other


@pytest.mark.parametrize('kind', KINDS, ids=NAMES.get)
def test_derivatives_are_those_of_the_distance(kind):
    rng, found, count = np.random.default_rng(2), np.empty((3, 5)), 0
    for _ in range(300):
        size, x = rng.uniform(0.1, 0.4, 6), rng.uniform(-1.0, 1.0, 3)
        v, h = rng.uniform(-1.0, 1.0, 3), 1e-4
        for row, t in zip(found, (-h, 0.0, h)):
            put_bend(kind, size, x + t * v, v, row)
        if found[:, 0].min() < 0.02:
            continue
        before, here, after = found
        speed = (after[0] - before[0]) / (2.0 * h)
        bend = (after[0] - 2.0 * here[0] + before[0]) / (h * h)
        kink = np.abs((after[4] - before[4]) / h) * h > 0.1  # another face or edge is nearest
        assert here[1:4] @ v == pytest.approx(speed, abs=1e-5)
        if not kink:
            assert here[4] == pytest.approx(bend, abs=1e-4 + 1e-4 * abs(bend))
            count += 1
    assert count > 100


@pytest.mark.parametrize('kind', [BOX, CYLINDER, HALF_SPACE], ids=NAMES.get)
def test_point_within_a_solid_has_a_negative_distance_and_the_way_out(kind):
    rng, found = np.random.default_rng(3), np.empty(5)
    for _ in range(200):
        size = rng.uniform(0.1, 0.4, 6)
        x = 0.6 * rng.uniform(-1.0, 1.0, 3) * [size[0], size[0] if kind != BOX else size[1],
                                               size[1] if kind != BOX else size[2]]
        x[2] = -abs(x[2])
        put_bend(kind, size, x, np.zeros(3), found)
        assert found[0] <= 0.0
        out = x + (1e-9 - found[0]) * found[1:4]
        put_bend(kind, size, out, np.zeros(3), found)
        assert found[0] == pytest.approx(1e-9, abs=2e-9)
