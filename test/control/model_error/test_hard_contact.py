# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Light wrists in contact with hard walls, in the default mode."""

from itertools import product

import numpy as np
import pytest

from foreign import ForeignPlant
from osc_ros import Law, Settings
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator, TwistGoal
from osc_ros.control.settings import Observation
from osc_ros.control.tasks.task import TargetLimits
from set_points import target_at
from variants import first_quick
from wall import Collision, home, PERIOD, robot_of, ROOM

ARMS = 'xarm7', 'kinova', 'tiago', 'baxter', 'ur5', 'ur10'
STIFFNESSES, SPEEDS = (1e4, 1e5), (0.01, 0.05, 0.25)
REACTIONS = 'report', 'hold', 'damp', 'gravity', 'comply', 'retract'
# Largest accepted speed of a joint relative to its limit, or relative to the speed that the hit
# alone gives it; largest accepted force of later hits relative to the first.
FASTEST, OF_HIT, AGAIN = 1.2, 1.1, 1.25


def collision(name, stiffness, speed, reaction='report', normal=(1.0, 0.0, 0.0), depth=0.02):
    found = Collision(name, normal, stiffness, speed, reaction).run(0.02).go(depth=depth)
    found.run(ROOM / speed + min(depth / speed, 0.6) + 0.6)
    assert found.plant.peaks
    return found


def require_bounded(found):
    assert found.fastest <= max(FASTEST, OF_HIT * found.passive())
    assert found.later <= AGAIN * found.peak


@pytest.mark.parametrize('reaction', ('report', 'hold'))
@pytest.mark.parametrize('stiffness', first_quick(STIFFNESSES[::-1]))
@pytest.mark.parametrize('name', ('xarm7', 'kinova'))
def test_light_wrist_that_hits_a_hard_wall_stays_near_its_speed_limit_and_hits_once(
        name, stiffness, reaction):
    require_bounded(collision(name, stiffness, 0.25, reaction))


@pytest.mark.parametrize('stiffness', first_quick(STIFFNESSES[::-1]))
def test_light_wrist_that_is_pressed_slowly_into_a_wall_does_not_fold_faster_than_its_limit(
        stiffness):
    found = collision('xarm7', stiffness, 0.05)
    assert found.fastest < FASTEST  # 1.27 to 1.30 if the limits ignored the force


def test_hit_while_only_the_weight_is_carried_leaves_no_joint_far_above_its_limit():
    found = collision('xarm7', 1e4, 0.25, 'gravity')
    require_bounded(found)
    assert max(found.speeds[-50:]) < FASTEST


def test_after_a_reaction_the_target_starts_at_the_arm_and_keeps_its_limits():
    limits, pose, there = TargetLimits(speed=[2.5, 0.05]), np.eye(4), np.eye(4)
    guide = SetPointGenerator(pose)
    there[0, 3] = 0.1
    target_at(guide, 0.0, limits)
    guide.rejoin(there)
    places, times = [], np.arange(1, 1500) * PERIOD
    for time in times:
        places.append(target_at(guide, time, limits).pose[0, 3])
        guide.plan()
    assert places[0] == 0.1
    assert np.abs(np.diff(places)).max() <= 0.0501 * PERIOD
    assert abs(places[-1]) < 1e-9


@pytest.mark.parametrize('name', ('xarm7', 'kinova'))
def test_free_motion_below_the_speed_limits_has_the_same_torques_to_the_last_bit(name):
    robot, torques = robot_of(name), []
    for observation in (None, Observation()):
        law = Law(robot, Settings.of(robot, observation=observation))
        plant = ForeignPlant(name, robot.joint_names)
        plant.reset(home(name))
        law.hold(plant.q)
        law.follow(TwistGoal(np.array([0.0, 0.0, 0.2, 0.03, 0.0, 0.03]), 0.4))
        for _ in range(300):
            torques.append(law.torque(plant.time, plant.q, plant.qd))
            plant.step(torques[-1], PERIOD)
    assert np.ptp(torques, axis=0).max() > 0.1
    np.testing.assert_array_equal(torques[:300], torques[300:])


@pytest.mark.slow
@pytest.mark.parametrize('name', ARMS)
def test_every_arm_meets_every_wall_within_the_bounds(name):
    for stiffness, speed in product(STIFFNESSES, SPEEDS):
        require_bounded(collision(name, stiffness, speed))


@pytest.mark.slow
@pytest.mark.parametrize('reaction', REACTIONS)
@pytest.mark.parametrize('name', ARMS)
def test_every_reaction_to_a_contact_is_bounded(name, reaction):
    for stiffness, speed, normal in product(STIFFNESSES, (0.05, 0.25),
                                            ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0))):
        require_bounded(collision(name, stiffness, speed, reaction, normal))
