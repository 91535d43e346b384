# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Obstacles of the client: a mapping by name; the arm keeps clear of them."""

from dataclasses import replace

import numpy as np
import pytest

from capsules import panda_clearance, shapes_file
from common import naming
import osc_ros
from osc_ros import InputError, Obstacle
from osc_ros.collision.obstacles import MOST_OBSTACLES
from osc_ros.control.limits.attached import MOST_THINGS
from ros_arm import RosArm

BALL = Obstacle.at('sphere', 0.05, (0.6, 0.3, 0.4))


def assert_is_mapping(arm):
    """Check that `arm.obstacles` is a mapping whose refusals change nothing."""
    obstacles = arm.obstacles
    assert dict(obstacles) == {}
    obstacles['ball'] = BALL
    obstacles.update({'box': Obstacle.at('box', (0.1, 0.2, 0.3), (0.7, -0.3, 0.2))}, rod=BALL)
    assert set(obstacles) == {'ball', 'box', 'rod'}
    moved = obstacles['ball'] = Obstacle.at('sphere', 0.05, (0.6, 0.35, 0.4))
    np.testing.assert_array_equal(obstacles['ball'].pose, moved.pose)
    del obstacles['rod']
    with pytest.raises(KeyError):
        del obstacles['rod']
    for bad, text in ((Obstacle.at('sphere', 0.4, (0.1, 0.0, 0.0)),
                       naming("obstacle 'bad' contains the base", 'must be at most')),
                      ('a ball', naming("obstacle 'bad'", 'str', 'must be an osc_ros.Obst'))):
        with pytest.raises(InputError, match=text):
            obstacles.update(good=BALL, bad=bad)
    with pytest.raises(InputError, match=naming(f'must be at most {MOST_OBSTACLES}')):
        obstacles.update({str(number): BALL for number in range(MOST_OBSTACLES)})
    assert set(obstacles) == {'ball', 'box'}
    obstacles.clear()
    assert len(obstacles) == 0


def clearance_in(law):
    """Return the names of the things in the clearance of a law."""
    return {one.attached for one in law.settings.clearance.shapes} - {''}


def assert_holds_things(arm, law, ending=''):
    """Check that links hold what has a link; `law` returns that of the loop."""
    obstacles, held = arm.obstacles, Obstacle.at('sphere', 0.03, (0.0, 0.0, 0.13),
                                                 link='panda_hand')
    obstacles.update(cup=Obstacle.at('sphere', 0.03, (0.5, 0.3, 0.5)), ball=BALL)
    obstacles['cup'] = held
    assert (obstacles['cup'].link, obstacles['ball'].link) == ('panda_hand', '')
    assert set(obstacles) == {'cup', 'ball'}
    assert (clearance_in(law()), set(law().obstacles)) == ({f'cup{ending}'}, {f'ball{ending}'})
    pan = Obstacle.at('cylinder', (0.05, 0.1), (0.0, 0.0, 0.15), link='panda_hand')
    for bad, text in (
            (replace(held, link='moon'), naming("'moon'", 'links:')),
            (replace(held, link='panda_link0'), naming('does not move', 'give a link'))):
        with pytest.raises(InputError, match=text):
            obstacles.update(pan=pan, bad=bad)
    assert set(obstacles) == {'cup', 'ball'}
    with pytest.raises(InputError, match=naming('things', 'give at most')):
        obstacles.update({str(k): held for k in range(MOST_THINGS)})
    del obstacles['ball']
    with pytest.raises(InputError):
        obstacles['ball'] = replace(held, link='moon')
    obstacles['pan'] = pan
    assert clearance_in(law()) == {f'cup{ending}', f'pan{ending}'}
    obstacles['cup'] = Obstacle.at('sphere', 0.03, (0.5, 0.3, 0.5))  # let go
    assert (clearance_in(law()), set(law().obstacles)) == ({f'pan{ending}'}, {f'cup{ending}'})
    del obstacles['pan']
    assert not clearance_in(law())
    assert set(obstacles) == {'cup'}
    obstacles.clear()
    assert not law().obstacles


def test_obstacles_of_a_simulated_arm_are_a_mapping(tmp_path):
    with osc_ros.Arm.simulated('panda', clearance=panda_clearance(tmp_path)) as arm:
        assert_is_mapping(arm)
        assert_holds_things(arm, lambda: arm._backend.arm.law)


def test_obstacles_of_a_loop_are_a_mapping(tmp_path):
    with osc_ros.Arm.real_time('panda', 'mujoco', clearance=panda_clearance(tmp_path)) as arm:
        assert_is_mapping(arm)
        assert_holds_things(arm, lambda: arm._backend._law)
        state = arm.state()
        arm.sleep(0.5)
        np.testing.assert_allclose(arm.state().q, state.q, atol=1e-3)


def test_obstacles_over_ros_are_a_mapping_and_become_those_of_the_controller(ros, tmp_path):
    pytest.importorskip('visualization_msgs', reason='visualization_msgs is not installed')
    nodes = RosArm(ros, clearance__margin=0.02, clearance__shapes=shapes_file(tmp_path))
    try:
        with osc_ros.Arm.ros() as arm:
            assert_is_mapping(arm)
            arm.obstacles.update(ball=BALL, rod=Obstacle.at('cylinder', (0.1, 0.2), (0.0, 0.0, 2)))
            found = nodes.nodes[1]._loop.engine.law.obstacles
            assert set(found) == {'ball/0', 'rod/0'}
            np.testing.assert_allclose(found['ball/0'].pose, BALL.pose, atol=1e-12)
            arm.obstacles.clear()
            controller = nodes.nodes[1]
            assert_holds_things(arm, lambda: controller._loop.engine.law, '/0')
            sent = {'floor': Obstacle.at('half_space', (), (0.0, 0.0, -0.5), touch=True),
                    'stick': Obstacle('capsule', (0.1, 0.2), BALL.pose,
                                      [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])}
            arm.obstacles.update(sent)
            found = controller._loop.engine.law.obstacles
            for name, one in sent.items():
                got = found[f'{name}/0']
                assert (got.shape, got.touch) == (one.shape, one.touch)
                np.testing.assert_allclose(got.pose, one.pose, atol=1e-12)
                np.testing.assert_allclose(got.velocity, one.velocity, atol=1e-5)
                np.testing.assert_allclose(got.size, one.size, atol=1e-12)
            arm.obstacles['stick'] = Obstacle.at('capsule', (0.1, 0.2), (0.7, 0.3, 0.4))
            assert not found['stick/0'].velocity.any()
            del arm.obstacles['floor']
            assert list(controller.get_parameter('obstacles.touch').value) == []
            assert set(found) == {'stick/0'}
    finally:
        nodes.close()


def test_goal_in_an_obstacle_is_not_reached_and_the_reason_names_it(tmp_path):
    with osc_ros.Arm.simulated('panda', clearance=panda_clearance(tmp_path)) as arm:
        goal = arm.pose(shift=(0.15, 0.0, 0.0))
        arm.obstacles['box'] = Obstacle('box', (0.1, 0.1, 0.1), goal)
        with pytest.raises(osc_ros.ArmTimeoutError, match=naming("'box'")) as caught:
            arm.move_to(goal, timeout=4.0)
        [reason] = [one for one in caught.value.reasons if one.name == 'obstacle']
        assert "the goal is 50 mm deep in 'box'" in reason.cause
        del arm.obstacles['box']
        arm.wait(timeout=4.0)


@pytest.mark.parametrize(('height', 'text'), [
    (0.36, 'mm from the fence'), (0.75, 'the goal is 50 mm deep behind the fence')])
def test_fence_is_named_that_holds_the_arm_or_has_the_goal_behind_it(tmp_path, height, text):
    clearance = panda_clearance(tmp_path, fence=[[0.0, 0.0, 1.0, 0.35], [0.0, 0.0, -1.0, -0.7]])
    with osc_ros.Arm.simulated('panda', clearance=clearance) as arm:
        goal = arm.pose()
        goal[2, 3] = height
        with pytest.raises(osc_ros.ArmTimeoutError) as caught:
            arm.move_to(goal, timeout=4.0)
        [reason] = [one for one in caught.value.reasons if one.name == 'obstacle']
        assert text in reason.cause


def test_clearance_of_a_robot_without_shapes_is_refused():
    with pytest.raises(InputError, match=naming('arm.urdf', 'give a file with shapes')):
        osc_ros.Arm.simulated('arm.urdf', base='a', tip='b', clearance=True)
    with pytest.raises(InputError, match=naming('clearance', '0.03', 'osc_ros.Clearance')):
        osc_ros.Arm.simulated('panda', clearance='0.02')
