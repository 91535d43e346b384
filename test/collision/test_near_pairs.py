# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Distances of segments, and pairs of links that need no comparison."""

from hypothesis import given, settings, strategies
from hypothesis.extra.numpy import arrays
import numpy as np
import pytest

from osc_ros.collision.link_shapes import LinkShape, ShapeModel, shipped_shapes
from osc_ros.collision.near_pairs import (
    chosen_shapes,
    link_distances,
    pairs_never_near,
    random_positions,
    segment_distances,
    visits_of,
)
from osc_ros.errors import InputError
from osc_ros.model.files import ROBOTS, shipped_urdf
from osc_ros.model.robot import Robot
from shipped import ends, parameters

COORDINATES = strategies.integers(-8, 8).map(lambda x: x / 8)  # parallel and equal ones are likely
SEGMENTS = arrays(np.float64, (2, 3), elements=COORDINATES)
STEP = 1 / 60  # of points on a segment, relative to its length
MARGIN = 0.02  # of `Clearance` by default [m]
REASONS = {'Adjacent', 'Always', 'Default', 'Never'}


@pytest.fixture(scope='module')
def panda():
    return Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')


@settings(deadline=None)
@given(SEGMENTS, SEGMENTS)
def test_distance_of_segments_is_the_least_of_their_points(first, second):
    along = np.arange(0.0, 1.0 + 0.5 * STEP, STEP)[:, None]
    one, other = (ends[0] + along * (ends[1] - ends[0]) for ends in (first, second))
    least = np.linalg.norm(one[:, None] - other, axis=2).min()
    found = segment_distances(first, second)
    lengths = np.linalg.norm(np.diff([first, second], axis=1), axis=2).sum()
    assert found <= least + 1e-9 and found >= least - STEP * lengths
    assert segment_distances(second, first) == pytest.approx(found, abs=1e-9)


def test_distances_of_links_are_those_of_their_nearest_shapes(panda):
    model = ShapeModel((
        LinkShape('panda_link0', np.zeros((2, 3)), 0.1),
        LinkShape('panda_link0', [[0.0, 0.0, 0.1], [0.0, 0.0, 0.2]], 0.05),
        LinkShape('panda_link1', [[0.0, 0.0, 0.0], [0.0, 0.1, 0.0]], 0.03)))
    (pair, found), = link_distances(panda, model, np.zeros((3, 7))).items()
    assert pair == {'panda_link0', 'panda_link1'}
    np.testing.assert_allclose(found, 0.333 - 0.2 - 0.05 - 0.03)


def test_pairs_that_are_never_near_keep_their_distance_at_other_postures(panda):
    model = shipped_shapes('panda')
    pairs = pairs_never_near(panda, model, samples=1000, margin=0.05)
    others = link_distances(panda, model, random_positions(panda, 3000, seed=1))
    never = [pair for pair, reason in pairs.items() if reason == 'Never']
    assert never and set(pairs.values()) <= REASONS
    assert min(others[pair].min() for pair in never) > 0.0
    compared = others.keys() - pairs.keys()
    assert compared and all(others[pair].min() <= 0.1 for pair in compared)


def test_links_on_one_body_and_beside_a_joint_are_adjacent(panda):
    pairs = pairs_never_near(panda, shipped_shapes('panda'), samples=10)
    for pair in (('panda_link7', 'panda_hand'), ('panda_leftfinger', 'panda_rightfinger'),
                 ('panda_link3', 'panda_link4')):
        assert pairs[frozenset(pair)] == 'Adjacent'


def test_pairs_that_overlap_in_all_postures_or_in_the_middle_have_these_reasons(panda):
    model = ShapeModel((LinkShape('panda_link0', np.zeros((2, 3)), 2.0),
                        LinkShape('panda_link4', np.zeros((2, 3)), 0.1)))
    assert list(pairs_never_near(panda, model, samples=50).values()) == ['Always']
    middle = panda.position_limits.mean(axis=1)
    far = ShapeModel((LinkShape('panda_link0', np.zeros((2, 3)), 0.01),
                      LinkShape('panda_hand', np.zeros((2, 3)), 0.01)))
    gap = next(iter(link_distances(panda, far, middle[None]).values()))[0]
    wide = ShapeModel((LinkShape('panda_link0', np.zeros((2, 3)), 0.02 + gap), far.shapes[1]))
    share = (link_distances(panda, wide, random_positions(panda, 200, 0)).popitem()[1] < 0).mean()
    assert share < 0.95
    assert list(pairs_never_near(panda, wide, samples=200).values()) == ['Default']


@pytest.mark.parametrize('name', sorted(path.stem for path in ROBOTS.glob('*.urdf')))
def test_shipped_arm_starts_with_compared_pairs_farther_apart_than_the_margin(name):
    robot, model = Robot.from_urdf(shipped_urdf(name), *ends(name)), shipped_shapes(name)
    home = parameters(name, '/**/osc_simulator')['initial_positions']
    found = link_distances(robot, model, np.array([home]))
    for pair in found.keys() - model.ignored:
        assert found[pair][0] > MARGIN, sorted(pair)


def test_same_seed_gives_the_same_postures_within_the_limits(panda):
    first, again = (random_positions(panda, 20, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    lower, upper = panda.position_limits.T
    assert ((first >= lower) & (first <= upper)).all()


def test_shape_of_another_arm_is_refused(panda):
    model = ShapeModel((LinkShape('fr3_link1', np.zeros((2, 3)), 0.1),))
    with pytest.raises(InputError, match='fr3_link1.*panda_link1'):
        pairs_never_near(panda, model, samples=1)


def test_visits_are_points_of_links_that_come_near_and_move_apart(panda):
    point = np.zeros((1, 3))
    neighbours = visits_of(panda, ['panda_link0', 'panda_link1'], [[[0.0, 0.0, 0.3]], point])
    assert not any(len(one.points) for one in neighbours)
    ball = np.random.default_rng(0).normal(size=(500, 3))
    ball *= 0.3 / np.linalg.norm(ball, axis=1)[:, None]
    base, _ = visits_of(panda, ['panda_link0', 'panda_hand'], [ball, point])
    away = np.linalg.norm(base.points[:, None] - ball, axis=2).min(axis=1)
    assert len(away) and (away > 0.02).all() and (away < 0.05).all() and base.weight > 0.0
    always = visits_of(panda, ['panda_link0', 'panda_link2'], [[[0.0, 0.0, 0.3]], point])
    assert not any(len(one.points) for one in always)


def test_shapes_are_chosen_that_hold_off_less_unless_they_cost_more_comparisons(panda):
    def ball(link, radius, count=1):
        return (LinkShape(link, np.zeros((2, 3)), radius),) * count

    base, hand = [ball('panda_link0', 0.2)], [ball('panda_hand', r) for r in (0.3, 0.1, 0.1)]
    hand[2] *= 2
    assert chosen_shapes(panda, [base, hand], [1, 1]) == [0, 1]
    assert chosen_shapes(panda, [base, hand], [1, 2]) == [0, 2]
    many = [ball('panda_hand', 0.2), ball('panda_hand', 0.199, 50)]
    assert chosen_shapes(panda, [base, many], [1, 1]) == [0, 0]
