# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Capsules around points, hulls and bodies of triangles."""

from hypothesis import given, settings, strategies
import numpy as np
import pytest
from scipy.spatial import cKDTree, ConvexHull

from osc_ros.collision.enclosing import (
    beyond,
    capsule_around,
    distances,
    divided_triangles,
    enclosures,
    NO_VISITS,
    number_by_distance,
    Visits,
    volume,
)

ROUNDING = 1e-9  # [m]
SIZES = strategies.tuples(*[strategies.floats(0.01, 0.5)] * 3)
SEEDS = strategies.integers(0, 2**32 - 1)


def random_hull(seed, size, count=20):
    """Return random points and the triangles of their convex hull."""
    points = np.random.default_rng(seed).normal(size=(count, 3)) * size
    return points, points[ConvexHull(points).simplices]


def inside(triangles, random):
    """Return random points of the triangles."""
    chosen = triangles[random.integers(len(triangles), size=500)]
    return np.einsum('nk,nkj->nj', random.dirichlet(np.ones(3), 500), chosen)


@settings(deadline=None)
@given(SEEDS, SIZES)
def test_capsule_contains_the_points(seed, size):
    points, _ = random_hull(seed, size)
    ends, radius = capsule_around(points)
    assert (distances(points, ends)[0] <= radius + ROUNDING).all()


@settings(deadline=None, max_examples=10)
@given(SEEDS, SIZES)
def test_capsules_contain_the_surface(seed, size):
    points, triangles = random_hull(seed, size)
    surface = inside(triangles, np.random.default_rng(seed))
    visits = Visits(3.0 * surface, 1e-2)
    for number, found in enumerate(enclosures(divided_triangles(triangles, 0.2), 3, visits), 1):
        gaps = np.min([distances(surface, ends)[0] - r for ends, r in found.capsules], axis=0)
        assert (gaps <= ROUNDING).all()
        assert found.ratio > 0.0 and len(found.capsules) == number


@settings(deadline=None)
@given(SEEDS, strategies.floats(0.02, 0.2), strategies.floats(0.0, 0.6))
def test_capsule_around_a_capsule_is_little_larger(seed, radius, length):
    random = np.random.default_rng(seed)
    away, axis = random.normal(size=(2, 400, 3))
    axis = axis[0] / np.linalg.norm(axis[0])
    points = (radius * away / np.linalg.norm(away, axis=1)[:, None]
              + length * np.outer(random.integers(2, size=400), axis))
    given_volume = volume((np.array([np.zeros(3), length * axis]), radius))
    assert volume(capsule_around(points)) <= 1.02 * given_volume


@pytest.mark.parametrize('points', [np.zeros((4, 3)), np.eye(3), np.eye(3)[:1],
                                    np.linspace(0, 1, 9)[:, None] * (1.0, 2.0, 3.0)])
def test_flat_bodies_have_a_capsule(points):
    ends, radius = capsule_around(points)
    assert np.isfinite(ends).all()
    assert (distances(points, ends)[0] <= radius + ROUNDING).all()


def test_body_with_an_elbow_gets_more_capsules_and_less_excess():
    box = np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3), -1).reshape(-1, 3)
    arms = [box * (0.5, 0.1, 0.1) + (0.25, 0.0, 0.0), box * (0.1, 0.5, 0.1) + (0.0, 0.25, 0.0)]
    cells = divided_triangles(np.concatenate([arm[ConvexHull(arm).simplices] for arm in arms]),
                              0.02)
    one, two = enclosures(cells, 2)
    assert two.beyond < 0.3 * one.beyond and two.ratio < one.ratio
    assert number_by_distance([one.beyond, two.beyond, two.beyond]) == 2


def test_capsule_leaves_room_where_other_links_come_near():
    box = (np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3), -1).reshape(-1, 3)) * (0.1, 0.1, 0.3)
    cells = divided_triangles(box[ConvexHull(box).simplices], 0.03)
    beside = np.column_stack([np.full(20, 0.08), np.zeros(20), np.linspace(-0.1, 0.1, 20)])
    (free,), (careful,) = (enclosures(cells, 1, visits) for visits in (
        NO_VISITS, Visits(beside, 1.0)))
    near = [min((distances(beside, ends)[0] - r).min() for ends, r in one.capsules)
            for one in (free, careful)]
    assert near[1] > near[0] + 5e-3


def test_largest_distance_beyond_a_sphere_is_that_of_the_radii():
    points = np.random.default_rng(0).normal(size=(20_000, 3))
    tree = cKDTree(0.1 * points / np.linalg.norm(points, axis=1)[:, None])
    assert beyond([(np.zeros((2, 3)), 0.13)], tree) == pytest.approx(0.03, abs=1e-3)


@settings(deadline=None)
@given(SEEDS, strategies.floats(0.05, 1.0))
def test_divided_triangles_are_small_and_have_the_same_area(seed, most):
    _, triangles = random_hull(seed, 0.3)
    found = divided_triangles(triangles, most)
    assert np.linalg.norm(found - np.roll(found, 1, axis=1), axis=2).max() <= most
    area = [np.linalg.norm(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]), axis=1).sum()
            for t in (triangles, found)]
    assert area[1] == pytest.approx(area[0])
