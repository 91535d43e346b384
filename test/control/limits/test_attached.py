# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Things that links hold keep clear of links, obstacles and fence, judged by MuJoCo."""

from dataclasses import replace

import numpy as np
import pytest

from clear_rig import ClearRig, free_start, least_distances, random_obstacles
from common import naming
from osc_ros import (
    Clearance,
    InputError,
    Law,
    Obstacle,
    Robot,
    Settings,
    shipped_shapes,
    shipped_urdf,
    Simulation,
)
from osc_ros.collision.link_shapes import LinkShape
from osc_ros.collision.urdf_shapes import mesh_shapes
from osc_ros.control.limits.attached import (
    MOST_SHAPES,
    MOST_THINGS,
    thing_shapes,
    with_attached,
)
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.loop.packing import packed, unpacked

MARGIN, LEAST = 0.02, 0.8  # of the clearance [m]; share of it that stays
QUICK = 6  # random goals, 3 s each
READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
TIP, HAND = 'panda_hand_tcp', 'panda_hand'
ROD = Obstacle.at('capsule', (0.02, 0.2), (0.0, 0.0, 0.2), link=HAND)  # along the fingers
TEXT = shipped_urdf('panda').read_text()


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(TEXT, 'panda_link0', TIP)


@pytest.fixture(scope='module')
def clearance():
    return Clearance.of(shipped_shapes('panda'), MARGIN)


def holding(clearance, robot, q=READY, before=None, **things):
    """Return a clearance with things on links."""
    return with_attached(clearance, [shape for name, one in things.items()
                                     for shape in thing_shapes(name, one, robot)], robot, q,
                         before)


@pytest.mark.parametrize('is_on', [True, False])
def test_thing_touches_neither_links_nor_obstacles_on_the_way_to_random_goals(
        robot, clearance, is_on):
    held = holding(clearance, robot, rod=Obstacle.at('capsule', (0.02, 0.3), (0.0, 0.1, 0.12),
                                                     link=HAND))
    rng = np.random.default_rng(0)
    rig = ClearRig(TEXT, robot, held, random_obstacles(rng))
    if not is_on:
        rig.simulation.reset(free_start(rig, rng))
        rig.law.change(replace(rig.law.settings, clearance=clearance))
    assert not any('rod' in pair for pair in held.ignored)
    least = least_distances(rig, rng, QUICK)
    of_rod = min(d for pair, d in rig.smallest.items() if any(
        name.startswith(f'{HAND}#{len(clearance.shapes)}') for name in pair))
    if is_on:
        assert least.min() >= LEAST * MARGIN
    else:
        assert of_rod < 0.0


def test_thing_stays_within_the_fence(robot, clearance):
    fence = np.array([[0.0, 0.0, 1.0, 0.1]])
    held = holding(replace(clearance, fence=fence), robot, rod=ROD)
    law = Law(robot, Settings.of(robot, clearance=held))
    simulation = Simulation(TEXT, law, READY)
    simulation.run(0.1)
    goal = law.pose
    goal[2, 3] = 0.15  # 0.1 m above the fence without the rod
    law.follow(goal)
    simulation.run(3.0)
    pose = link_pose(robot, simulation.q, HAND) @ ROD.pose
    lowest = min(pose[2, 3] + side * 0.1 * pose[2, 2] for side in (-1.0, 1.0)) - 0.02
    assert lowest - 0.1 == pytest.approx(MARGIN, abs=(1.0 - LEAST) * MARGIN)
    near = {(one.link, one.other) for one in law.limiter.near if one.holds}
    assert ('rod', 'fence') in near, near


def test_links_that_overlap_with_a_thing_when_it_is_grasped_are_not_compared(robot, clearance):
    at = link_pose(robot, READY, HAND)
    inside = np.linalg.inv(at) @ link_pose(robot, READY, 'panda_link5')
    held = holding(clearance, robot, ball=Obstacle('sphere', (0.05,), inside, link=HAND),
                   rod=ROD)
    new = set(held.ignored) - set(clearance.ignored)
    assert ('ball', 'panda_link5') in new
    assert {name for name, _ in new} == {'ball'}
    # those of the same body need no entry; what is grasped stays so, elsewhere, too
    assert not {link for _, link in new} & {HAND, 'panda_link7', 'rod'}
    ball = [one for one in held.shapes if one.attached == 'ball']
    moved = with_attached(clearance, ball, robot, READY + 0.5, before=held)
    assert set(moved.ignored) == set(held.ignored)
    assert set(with_attached(moved, [], robot, READY).ignored) == set(clearance.ignored)


def test_things_are_added_and_removed_without_a_step_of_the_torques(robot, clearance):
    law = Law(robot, Settings.of(robot, clearance=clearance))
    simulation = Simulation(TEXT, law, READY)
    simulation.run(0.3)
    law.obstacles['table'] = Obstacle.at('box', (1.0, 1.0, 0.1), (
        0.6, 0.0, law.pose[2, 3] - 0.12 - 0.05))
    simulation.run(0.5)
    start, steps = law.pose[2, 3], []
    bottle = Obstacle.at('box', (0.06, 0.06, 0.2), (0.0, 0.0, 0.02), link=TIP)  # on the table
    for held in (holding(clearance, robot, simulation.q, bottle=bottle), clearance):
        law.change(replace(law.settings, clearance=held))
        record = simulation.run(1.5)
        steps.append((np.abs(np.diff(record.torque, axis=0)) / robot.effort_limits).max())
        if held is not clearance:
            pair = law.limiter.near[0]
            assert (pair.link, pair.other) == ('bottle', 'table')
            assert pair.distance == pytest.approx(MARGIN, abs=1e-3)
            height = [link_pose(robot, q, TIP)[2, 3] for q in record.q]
            speed = np.diff(height).max() / simulation.period
            print(f'raised by {1e3 * (height[-1] - start):.0f} mm, at most {speed:.2f} m/s, '
                  f'largest step {100 * steps[0]:.2f} % of the limit in {simulation.period} s')
            assert 0.01 < height[-1] - start < 0.06
            assert speed < 0.5
    assert max(steps) < 0.03
    assert law.pose[2, 3] == pytest.approx(start, abs=1e-3)  # goes back to its goal


def test_tips_and_what_they_hold_may_touch_what_tips_may_touch(robot, clearance):
    law = Law(robot, Settings.of(robot, clearance=holding(clearance, robot, rod=ROD)))
    simulation = Simulation(TEXT, law, READY)
    simulation.run(0.1)
    table = Obstacle.at('box', (1.0, 1.0, 0.1), (0.6, 0.0, law.pose[2, 3] - 0.2), touch=True)
    law.obstacles['table'] = table
    goal = law.pose
    goal[2, 3] -= 0.06
    law.follow(goal)
    simulation.run(2.0)
    np.testing.assert_allclose(law.pose[2, 3], goal[2, 3], atol=1e-3)


def test_enclosing_shapes_contain_the_solid_and_spheres_and_capsules_are_as_they_are(robot):
    pose = Obstacle.at('box', (1.0, 1.0, 1.0), (0.1, 0.2, 0.3)).pose
    [one] = thing_shapes('rod', Obstacle('capsule', (0.02, 0.3), pose, link=HAND), robot)
    np.testing.assert_allclose(one.ends, [[0.1, 0.2, 0.15], [0.1, 0.2, 0.45]], atol=1e-12)
    assert (one.link, one.radius, one.attached) == (HAND, 0.02, 'rod')
    size, rng = np.array([0.06, 0.08, 0.2]), np.random.default_rng(0)
    surface = rng.uniform(-0.5, 0.5, (500, 3)) * size
    surface[np.arange(500), rng.integers(3, size=500)] = 0.5 * size[0]
    surface = np.clip(surface, -0.5 * size, 0.5 * size) + (0.1, 0.2, 0.3)
    shapes = thing_shapes('box', Obstacle('box', tuple(size), pose, link=HAND), robot)
    for point in surface:
        def gap(one, x=point):
            a, b = one.ends
            s = np.clip((x - a) @ (b - a) / max((b - a) @ (b - a), 1e-12), 0.0, 1.0)
            return np.linalg.norm(x - a - s * (b - a)) - one.radius
        assert min(map(gap, shapes)) < 1e-4


def test_mesh_of_a_thing_is_enclosed(robot, clearance, tmp_path):
    trimesh = pytest.importorskip('trimesh', reason='trimesh is not installed')
    file = tmp_path / 'cup.stl'
    file.write_bytes(trimesh.creation.cylinder(40.0, 100.0).export(file_type='stl'))
    shapes = mesh_shapes(file, HAND, ROD.pose, 1e-3, 'cup')
    assert {one.attached for one in shapes} == {'cup'}
    assert all(0.03 < one.radius < 0.08 for one in shapes)
    held = with_attached(clearance, shapes, robot, READY)
    assert Law(robot, Settings.of(robot, clearance=held))


def test_what_cannot_be_held_is_refused_and_says_what_is_accepted(robot, clearance):
    def many(count, each=1):
        return [LinkShape(HAND, np.zeros((2, 3)), 0.01, f'thing{k}')
                for k in range(count) for _ in range(each)]

    for bad, text in (
            (lambda: thing_shapes('a', replace(ROD, link='moon'), robot), ("'moon'", 'links:')),
            (lambda: thing_shapes('a', replace(ROD, link='panda_link0'), robot),
             ("'panda_link0'", 'give a link that a joint moves')),
            (lambda: replace(ROD, velocity=np.ones(6)), (HAND, 'without a velocity')),
            (lambda: Obstacle.at('half_space', (), np.zeros(3), link=HAND), (HAND, 'half_space')),
            (lambda: Obstacle.at('sphere', np.nan, np.zeros(3), link=HAND), ('nan', 'give')),
            (lambda: with_attached(clearance, many(MOST_THINGS + 1), robot, READY),
             (f'at most {MOST_THINGS}',)),
            (lambda: with_attached(clearance, many(2, 1 + MOST_SHAPES // 2), robot, READY),
             (f'{MOST_SHAPES} shapes',)),
            (lambda: holding(clearance, robot, panda_link5=ROD), ("'panda_link5'", 'no link has')),
            (lambda: Law(robot).obstacles.update({'rod': ROD}), ("'rod'", HAND, 'without'))):
        with pytest.raises(InputError, match=naming(*text)):
            bad()


def test_settings_with_things_come_back_from_their_bytes(robot, clearance):
    held = holding(clearance, robot, rod=ROD)
    found = unpacked(packed(held))
    assert [one.attached for one in found.shapes] == [one.attached for one in held.shapes]
