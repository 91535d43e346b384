# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Simulated arms that disobey, that a hand pushes, or whose time stamps stand still."""

import numpy as np
import pytest

from attacked import Attacked, direction, PERIOD, robot_of
from osc_ros import InputError, Settings
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.loop import requests
from osc_ros.loop.engine import ACTIVE, IDLE

WRONG, FASTEST, SLOW = 2.0, 1.2, 0.01  # largest accepted speeds relative to the limits


def reversed_arm(name, joint=0):
    """Return an arm with a motor that turns the other way, after a motion of two seconds."""
    arm = Attacked(name)
    arm.signs[joint] = -1.0
    return arm.run(0.04).jog(1).run(2.0)


@pytest.mark.parametrize('name', [
    'kinova', 'ur5', *(pytest.param(name, marks=pytest.mark.slow) for name in ('baxter', 'ur10'))])
def test_arm_whose_motor_turns_the_other_way_is_given_up(name):
    arm = reversed_arm(name)
    assert arm.engine.mode == IDLE
    assert arm.changes[-1][0] == 'runaway'
    assert max(arm.speeds) < WRONG  # several hundred with the reaction `hold` alone


@pytest.mark.slow
@pytest.mark.parametrize('joint', range(1, 7))
def test_any_other_motor_that_turns_the_other_way_is_noticed_too(joint):
    arm = reversed_arm('xarm7', joint)
    assert arm.engine.mode == IDLE and arm.changes[-1][0] == 'runaway'
    assert max(arm.speeds) < 3.0  # weight moves these joints, before the first torque is judged


def test_arm_that_was_given_up_is_activated_again_only_after_a_release():
    arm = reversed_arm('kinova')
    with pytest.raises(InputError, match='release'):
        arm.engine.activate()
    assert 'runaway' in arm.engine.state()
    released, _ = requests.release(arm.engine)
    assert released
    assert arm.changes[-1] == ('', '', 'inactive')
    arm.signs[:] = 1.0
    arm.engine.activate()
    speeds = arm.speeds
    arm.plant.friction[:] = 0.0
    arm.speeds = []
    arm.run(0.5)
    assert speeds and arm.engine.mode == ACTIVE and max(arm.speeds) < 0.1


def pushed(name, force, seed):
    """Return an arm in free drive, one second after a push that began at once and took 1 s."""
    arm = Attacked(name, FreeDrive().applied_to(Settings.of(robot_of(name)))).run(0.04)
    arm.force = force * direction(seed)
    arm.run(1.0)
    arm.force = np.zeros(3)
    return arm.run(1.0)


@pytest.mark.parametrize('name, force, count', [
    ('xarm7', 60.0, 3), ('kinova', 30.0, 3), *(
        pytest.param(name, force, count, marks=pytest.mark.slow) for name, force, count in (
            ('xarm7', 45.0, 3), ('tiago', 60.0, 3), ('xarm7', 60.0, 10), ('tiago', 60.0, 10)))])
def test_hand_that_pushes_at_once_does_not_drive_joints_beyond_their_limits(name, force, count):
    assert max(max(pushed(name, force, seed).speeds) for seed in range(count)) < FASTEST


@pytest.mark.parametrize('name, force, count', [
    ('kinova', 30.0, 3), ('xarm7', 60.0, 3), *(
        pytest.param(name, force, count, marks=pytest.mark.slow) for name, force, count in (
            ('tiago', 60.0, 3), ('xarm7', 60.0, 10), ('kinova', 30.0, 10)))])
def test_arm_that_a_hand_pushes_at_once_stays_under_control_and_comes_to_rest(name, force, count):
    for seed in range(count):
        arm = pushed(name, force, seed)
        assert max(arm.speeds) < 3.0
        assert arm.speeds[-1] < SLOW
        assert arm.engine.mode == ACTIVE


@pytest.mark.parametrize('name, force, seeds, late', [
    ('panda', 60.0, range(5, 8), 0.0), ('panda', 80.0, range(1, 4), 0.5),
    pytest.param('panda', 80.0, range(8), 0.0, marks=pytest.mark.slow),
    pytest.param('panda', 60.0, range(8, 16), 0.75, marks=pytest.mark.slow),
    pytest.param('xarm7', 80.0, range(8), 0.5, marks=pytest.mark.slow)])
def test_arm_that_a_hand_pushes_to_twice_its_speeds_is_not_given_up(name, force, seeds, late):
    fastest = []
    for seed in seeds:
        arm = Attacked(name).run(0.04).jog(seed + 3, 0.8, 0.25, 1.0)
        arm.late = late
        arm.run(1.0)
        arm.force = force * direction(seed)
        arm.run(0.12)
        arm.force = np.zeros(3)
        arm.run(2.0)
        assert arm.engine.mode == ACTIVE and arm.speeds[-1] < SLOW
        fastest.append(max(arm.speeds))
    assert max(fastest) > 2.0  # else this shows nothing


@pytest.mark.parametrize('name', ['kinova', 'xarm7'])
def test_arm_at_five_times_its_speeds_comes_to_rest_within_one_and_a_half_seconds(name):
    for seed in range(3):
        arm = Attacked(name, FreeDrive().applied_to(Settings.of(robot_of(name)))).run(0.04)
        signs = np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], len(arm.plant.qd))
        arm.plant.qd[:] = 5.0 * arm.plant.velocity * signs
        arm.run(1.5)
        assert arm.speeds[-1] < SLOW


@pytest.mark.parametrize('kind', ['still', 'back'])
@pytest.mark.parametrize('name', ['kinova', 'tiago'])
def test_arm_whose_stamps_do_not_advance_is_held_and_goes_on_when_they_do(name, kind):
    arm = Attacked(name).run(0.04).jog(3, 1.0, 0.3, 3.0).run(0.3)
    began = arm.now
    arm.stamp_of = {'still': lambda time: began, 'back': lambda time: 2.0 * began - time}[kind]
    arm.run(0.6)
    assert any(cause == 'jump' and 'do not advance' in text for cause, _, text in arm.changes)
    assert arm.speeds[-1] < SLOW
    arm.stamp_of = lambda time: time
    arm.run(1.0)
    assert arm.changes[-1][2] == 'active'
    assert max(arm.speeds) < 1.05


def test_stamps_that_count_hundredths_of_a_second_do_not_matter():
    arm = Attacked('kinova').run(0.04).jog(3, 1.0, 0.3, 3.0).run(0.3)
    arm.stamp_of = lambda time: np.floor(time * 100.0) / 100.0
    arm.run(1.0)
    assert not arm.changes and max(arm.speeds) < 1.05
    assert np.mean(arm.speeds[-round(0.5 / PERIOD):]) > 0.1  # it moves on
