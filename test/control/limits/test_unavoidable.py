# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Arms that cannot keep clear or reach their target: they move slowly, and then hold still."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from attacked import Attacked, PERIOD, robot_of
from clear_rig import ClearRig
from foreign import ForeignPlant
from judge import Case
from osc_ros import Clearance, Law, Obstacle, Robot, Settings, shipped_shapes, shipped_urdf
from osc_ros.client.robots import SHIPPED
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.limits.clearance import fence_box
from osc_ros.control.safety.supervision import Supervision, TOO_NEAR, Watchdog
from osc_ros.dynamics.algebra.kinematics import link_frame, placement
from osc_ros.loop.engine import Engine
from variants import quick_if

MARGIN, READY = 0.02, np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
PANDA = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
CLEARANCE = Clearance.of(shipped_shapes('panda'), MARGIN)
LARGEST_STEP = 0.03  # of a torque where obstacles come, go and jump, relative to its limit
STEADY = 1e-3  # step of a torque, relative to its limit


def rig_of(obstacles, clearance=CLEARANCE):
    """Return a Panda at READY among obstacles, which are in force."""
    rig = ClearRig(shipped_urdf('panda').read_text(), PANDA, clearance, obstacles)
    rig.simulation.reset(READY)
    rig.simulation.run(0.3)
    return rig


def largest_step(record):
    """Return the largest step of a torque relative to its limit in a record."""
    return (np.abs(np.diff(record.torque, axis=0))[1:] / PANDA.effort_limits).max()


def largest_move(record):
    """Return the largest way of the tip in a tick of a record [m]."""
    return np.linalg.norm(np.diff(record.pose[:, :3, 3], axis=0), axis=1).max()


def test_arm_leaves_an_obstacle_that_appears_around_it_gently():
    rig = rig_of({})
    tip = rig.law.pose[:3, 3].copy()
    rig.law.obstacles['box'] = Obstacle.at('box', (0.3, 0.3, 0.3), tip + [0.1, 0.05, 0.02])
    record = rig.simulation.run(3.0)
    assert largest_move(record) / rig.simulation.period < 0.4
    assert rig.law.limiter.clearance.nearest > 0.9 * MARGIN


def test_obstacle_that_is_removed_lets_the_arm_go_without_a_step():
    rig = rig_of({})
    tip = rig.law.pose[:3, 3].copy()
    rig.law.obstacles['ball'] = Obstacle.at('sphere', 0.06, tip)
    rig.simulation.run(2.0)
    assert np.linalg.norm(rig.law.pose[:3, 3] - tip) > 0.05
    del rig.law.obstacles['ball']
    rig.law.torque(rig.simulation.time, rig.simulation.q, rig.simulation.qd)
    record = rig.simulation.run(2.0)
    assert largest_step(record) < 0.03
    np.testing.assert_allclose(rig.law.pose[:3, 3], tip, atol=1e-3)
    assert not any(near.other == 'ball' for near in rig.law.limiter.near)


def around(rng, robot, clearance, q):
    """Return an obstacle at or near a point of a random link."""
    moving = [one for one in clearance.shapes if link_frame(robot, one.link)[0] >= 0]
    shape = moving[rng.integers(len(moving))]
    body, T = link_frame(robot, shape.link)
    at, point = placement(robot, q), shape.ends[0] + rng.uniform() * np.diff(shape.ends, axis=0)[0]
    place = at.p[body] + at.R[body] @ (T[:3, :3] @ point + T[:3, 3])
    one = Obstacle.at('box', rng.uniform(0.05, 0.3, 3), place + 0.05 * rng.normal(size=3))
    return one if one.depth(np.zeros(3)) < 0.0 else around(rng, robot, clearance, q)


def driven_among(name, count, event):
    """
    Return speeds and steps of the torques, relative to their limits, of joints at full speed.

    Obstacles around the links come, go and jump every 0.15 s; with the event 'margin' the margin
    changes, too.

    """
    text, (base, tip, start) = shipped_urdf(name).read_text(), SHIPPED[name]
    robot = Robot.from_urdf(text, base, tip)
    clearance, rng = Clearance.of(shipped_shapes(name), MARGIN), np.random.default_rng(count)
    law = Law(robot, Settings.of(robot, clearance=clearance, joints=JointDrive()))
    plant = ForeignPlant(Case(text, base, tip), robot.joint_names)
    plant.reset(start)
    law.hold(plant.q)
    torques, speeds, bounds = [], [], 0.98 * np.clip(robot.position_limits.T, -2.5, 2.5)
    for k in range(1500):
        if k % 300 == 0:
            law.move_joints(rng.uniform(*bounds), speed=robot.velocity_limits)
        if k % 75 == 74:
            law.obstacles.update({} if k % 225 == 74 else {
                f'{i}': around(rng, robot, clearance, plant.q) for i in range(count)},
                clears=True)
        if event == 'margin' and k % 75 == 50 and not law.is_blending:
            law.change(replace(law.settings, clearance=replace(
                clearance, margin=rng.uniform(0.005, 0.1))))
        torques.append(law.torque(0.002 * k, plant.q, plant.qd).copy())
        law.plan()
        plant.step(torques[-1], 0.002)
        speeds.append((np.abs(plant.qd) / robot.velocity_limits).max())
    return np.array(speeds), (np.abs(np.diff(torques, axis=0)) / robot.effort_limits).max(axis=1)


@pytest.mark.parametrize(('name', 'count', 'event'), quick_if(
    lambda name, count, event: (name, count) in (('ur5e', 8), ('panda', 4)) or (
        (name, count, event) == ('gen3', 8, 'margin')),
    list(product(('ur5e', 'fr3', 'panda', 'gen3'), (1, 2, 4, 8, 32, 64),
                 ('obstacles', 'margin')))))
def test_no_torque_steps_where_obstacles_come_go_and_jump_around_fast_joints(name, count, event):
    speeds, steps = driven_among(name, count, event)
    assert speeds.max() < 1.05
    assert steps.max() < LARGEST_STEP


@pytest.mark.parametrize('seed', [18, 26])
def test_no_torque_steps_where_boxes_appear_around_an_arm_at_rest(seed):
    arm = Attacked('panda', Settings.of(robot_of('panda'), clearance=CLEARANCE), READY)
    rng, torques = np.random.default_rng(seed), []
    for k in range(250):
        if k % 5 == 0:
            for i, j in ((i, j) for i in range(3) for j in range(int(rng.integers(1, 8)))):
                arm.law.obstacles[f'{i}/{j}'] = Obstacle.at(
                    'box', (0.06,) * 3, rng.uniform((0.1, -0.5, 0.1), (0.7, 0.5, 0.9)))
        torques.append(arm.run(PERIOD).sent.copy())
    assert (np.abs(np.diff(torques, axis=0)) / PANDA.effort_limits).max() < LARGEST_STEP
    assert max(arm.speeds) < 1.05


def test_margin_wider_than_the_arm_leaves_the_limits_of_speed():
    rig = rig_of({}, replace(CLEARANCE, margin=0.3))
    record = rig.simulation.run(3.0)
    assert (np.abs(record.qd) / PANDA.velocity_limits).max() < 1.1


def test_arm_between_two_obstacles_holds_and_goes_on_when_one_leaves():
    tip = np.array([0.307, 0.0, 0.487])
    rig = rig_of({name: Obstacle.at('box', (0.3, 0.1, 0.3), tip + [0.0, side * 0.4, 0.0])
                  for name, side in (('left', 1.0), ('right', -1.0))})
    goal = rig.law.pose
    for k in range(250):  # both come closer than the hand is wide
        for name, side in (('left', 1.0), ('right', -1.0)):
            y = side * max(0.4 - 0.002 * k, 0.12)
            velocity = np.array([0.0, -side * 0.2 if k < 140 else 0.0, 0.0])
            rig.move(name, tip + [0.0, y, 0.0], velocity)
        rig.run(0.01)
    rig.simulation.run(7.0)  # it may slide along them first
    held = rig.simulation.run(1.0)
    assert largest_move(held) < 2e-5
    assert largest_step(held) < 5.0 * STEADY  # three pairs press from two sides
    assert {near.other for near in rig.law.limiter.near if near.holds} >= {'left', 'right'}
    goal[:3, 3] += [0.0, -0.15, 0.1]
    rig.law.follow(goal)
    rig.move('right', [0.0, -2.0, 0.0], np.zeros(3))
    rig.simulation.run(4.0)
    assert np.linalg.norm(rig.law.pose[:3, 3] - goal[:3, 3]) < 2e-3


def test_target_in_an_obstacle_leads_to_the_nearest_free_pose():
    ball = Obstacle.at('sphere', 0.12, [0.55, 0.0, 0.4])
    rig = rig_of({'ball': ball})
    goal = rig.law.pose
    goal[:3, 3] = ball.pose[:3, 3]
    rig.law.follow(goal)
    rig.simulation.run(5.0)
    assert largest_move(rig.simulation.run(1.0)) < 4e-5

    def error(q):
        at = placement(PANDA, q)
        body, T = link_frame(PANDA, PANDA.tip)
        return np.linalg.norm(at.p[body] + at.R[body] @ T[:3, 3] - goal[:3, 3])

    q, rng = rig.simulation.q, np.random.default_rng(0)
    reached, better = error(q), 0.0
    for _ in range(2000):
        other = q + 0.05 * rng.normal(size=7)
        if rig.is_clear(other):
            better = max(better, reached - error(other))
    assert better < 0.05 * reached


@pytest.mark.parametrize('obstacles', [
    {'a': Obstacle.at('box', (0.1, 0.2, 0.3), [0.5, 0.16, 0.3]),
     'b': Obstacle.at('box', (0.1, 0.2, 0.3), [0.5, -0.16, 0.3])},
    {'rod': Obstacle('capsule', (0.05, 0.6), np.array(
        [[0.0, 0.0, 1.0, 0.45], [0.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.3],
         [0.0, 0.0, 0.0, 1.0]]))}], ids=['between two edges', 'on a parallel capsule'])
def test_torques_do_not_chatter_between_two_pairs(obstacles):
    rig = rig_of(obstacles)
    goal = rig.law.pose
    for place in ([0.5, 0.0, 0.2], [0.5, 0.02, 0.2], [0.52, 0.0, 0.15]):
        goal[:3, 3] = place
        rig.law.follow(goal)
        rig.simulation.run(3.0)
        record = rig.simulation.run(1.0)
        assert any(near.holds for near in rig.law.limiter.near)
        assert largest_step(record) < STEADY


@pytest.mark.parametrize('force', [10.0, 30.0])
def test_push_against_the_fence_hardly_moves_an_arm_at_the_margin(force):
    tip = np.array([0.307, 0.0, 0.487])
    fence = fence_box([-5.0] * 3, [tip[0] + 0.15, 5.0, 5.0])
    rig = rig_of({}, replace(CLEARANCE, fence=fence))
    goal = rig.law.pose
    goal[0, 3] += 0.3
    rig.law.follow(goal)
    rig.simulation.run(3.0)
    rig.simulation.plant.push(PANDA.tip, [force, 0.0, 0.0])
    gaps = []
    for _ in range(300):
        rig.simulation.run(rig.simulation.period)
        gaps.append(rig.law.limiter.clearance.nearest)
    assert min(gaps) > 0.94 * MARGIN
    assert gaps[-1] == pytest.approx(MARGIN, abs=1e-3)


def test_obstacle_that_the_arm_cannot_flee_is_a_fault_at_once():
    law = Law(PANDA, Settings.of(PANDA, clearance=CLEARANCE))
    engine = Engine(law, Supervision({TOO_NEAR: Watchdog('damp')}, PANDA.effort_limits), 0.002,
                    lambda tau, stamp: None, lambda *event: None)
    engine.update(0.0, READY, np.zeros(7), (0, 0), 0.0)
    engine.activate()
    causes = []
    for k in range(1, 10):
        if k == 3:
            hand = law.pose[:3, 3] - 0.05 * law.pose[:3, 2]
            engine.law.obstacles['hand'] = Obstacle.at('sphere', 0.05, hand)
        engine.update(0.002 * k, READY, np.zeros(7), (0, 2_000_000 * k), 0.002 * k)
        causes.append(engine.guard.cause)
    assert causes[:2] == ['', ''] and causes[4:] == [TOO_NEAR] * 5
    assert "'hand' are -" in engine.guard.reason
