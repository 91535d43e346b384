# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Obstacles by name: depth of a point, updates of several at once."""

from hypothesis import given
from hypothesis import strategies as st
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from clear_rig import geom_size, GEOMS
from common import naming
from osc_ros import InputError
from osc_ros.collision.obstacles import MOST_OBSTACLES, Obstacle, Obstacles, SHAPES

NAMES = st.sampled_from('abcdef')
SOMEWHERE = Obstacle.at('sphere', 0.1, (1.0, 0.0, 0.0))


def placed(shape, seed):
    """Return an obstacle of a shape with random size and pose."""
    rng = np.random.default_rng(seed)
    pose = np.eye(4)
    pose[:3, :3] = Rotation.random(random_state=seed).as_matrix()
    pose[:3, 3] = rng.uniform(-1.0, 1.0, 3)
    return Obstacle(shape, tuple(rng.uniform(0.05, 0.4, SHAPES[shape])), pose)


@pytest.mark.parametrize('shape', GEOMS)
def test_depth_is_the_distance_that_mujoco_finds(shape):
    for seed in range(20):
        one = placed(shape, seed)
        point = one.pose[:3, 3] + np.random.default_rng(seed).uniform(-0.6, 0.6, 3)
        spec = mujoco.MjSpec()
        for number, (kind, size, at) in enumerate((
                (GEOMS[shape], geom_size(one), one.pose), (GEOMS['sphere'], [1e-6, 0, 0], None))):
            body = spec.worldbody.add_body(pos=point if at is None else at[:3, 3])
            if at is not None:
                body.quat = Rotation.from_matrix(at[:3, :3]).as_quat(scalar_first=True)
            body.add_geom(name=str(number), type=kind, size=size)
        model = spec.compile()
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        if (distance := mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None)) > 1e-3:
            assert one.depth(point) == pytest.approx(-distance, abs=1e-4)
        else:
            assert one.depth(point) > -2e-3


def test_depth_in_a_half_space_and_at_the_centre():
    assert Obstacle.at('half_space', (), (0.0, 0.0, 0.5)).depth(np.zeros(3)) == 0.5
    assert Obstacle.at('box', (0.2, 0.4, 0.6), np.ones(3)).depth(np.ones(3)) == 0.1
    assert Obstacle.at('cylinder', (0.3, 0.4), np.ones(3)).depth(np.ones(3)) == 0.2


@given(st.lists(st.tuples(st.dictionaries(NAMES, st.booleans()), st.booleans())))
def test_updates_have_the_effect_of_a_dictionary(updates):
    obstacles, expected = Obstacles(), {}
    for number, (kept, clears) in enumerate(updates):
        changes = {name: Obstacle.at('sphere', 0.1, (1.0, number, 0.0)) if is_there else None
                   for name, is_there in kept.items()}
        obstacles.update(changes, clears)
        expected = {name: one for name, one in {**({} if clears else expected), **changes}.items()
                    if one is not None}
        assert dict(obstacles) == expected


@pytest.mark.parametrize(('changes', 'text'), [
    ({str(number): SOMEWHERE for number in range(MOST_OBSTACLES)},
     naming(f'{MOST_OBSTACLES + 1} obstacles', f'must be at most {MOST_OBSTACLES}')),
    ({'new': SOMEWHERE, 'table': Obstacle.at('box', np.ones(3), np.zeros(3))},
     naming("'table' contains the base", 'must be at most 0.01 m'))])
def test_update_that_is_refused_changes_nothing(changes, text):
    obstacles = Obstacles()
    obstacles['old'] = SOMEWHERE
    before = obstacles.record.words.copy()
    with pytest.raises(InputError, match=text):
        obstacles.update(changes)
    assert list(obstacles) == ['old']
    np.testing.assert_array_equal(obstacles.record.words, before)


def test_table_on_which_the_arm_stands_is_accepted():
    Obstacles().update({'table': Obstacle.at('box', (1.0, 1.0, 0.1), (0.0, 0.0, -0.05)),
                        'ground': Obstacle.at('half_space', (), np.zeros(3))})
