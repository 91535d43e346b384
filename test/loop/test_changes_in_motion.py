# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Settings, payload and limits change while the arm moves fast; Pinocchio moves foreign arms."""

from dataclasses import replace

import numpy as np
import pytest

from attacked import home, robot_of
from foreign import ForeignPlant
from hardware import ARMS
from osc_ros import JointDrive, Law, Robot
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.settings import Settings
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.task import Gains, Stiffness

PERIOD = 0.002  # [s]
SPEEDS = 1.0, 0.3  # of the twist that the tip follows [rad/s], [m/s]
FRICTION = 0.01  # dry friction, where the plant has any, relative to the effort limits
LOAD = 0.5  # [kg]
STEP = 0.02  # largest accepted median of the largest torque step, relative to the effort limit
FASTEST = 1.05  # largest accepted joint speed, relative to its limit
HOMES = {'kinova': ARMS['kinova'].home}


def with_tip(settings, **given):
    return replace(settings, tasks=(replace(settings.tasks[0], **given), *settings.tasks[1:]))


def to_impedance(robot, usual):
    return usual, with_tip(usual, gains=Stiffness())


def to_acceleration(robot, usual):
    return with_tip(usual, gains=Stiffness()), usual


def to_stiffness(robot, usual):
    return (with_tip(usual, gains=Stiffness()),
            with_tip(usual, gains=Stiffness(stiffness=[5.0] * 3 + [2000.0] * 3)))


def to_gains(robot, usual):
    return usual, with_tip(usual, gains=Gains(natural_frequency=[5.0] * 6))


def to_fewer_axes(robot, usual):
    return usual, with_tip(usual, axes=('free',) * 3 + ('motion',) * 3)


def to_activation(robot, usual):
    return usual, with_tip(usual, activation=0.3)


def to_another_task(robot, usual):
    elbow = next(link for link, (body, _) in robot.frames.items() if body == robot.n // 2)
    tip = usual.tasks[0]
    return usual, replace(usual, tasks=(tip, replace(tip, name='elbow', link=elbow,
                                                     axes=('free',) * 3 + ('motion',) * 3)))


def to_lower_limits(robot, usual):
    limits = usual.with_limits_of(robot).limits
    return usual, replace(usual, limits=replace(limits, effort=0.8 * limits.effort))


def to_posture(robot, usual):
    return usual, replace(usual, posture=replace(usual.posture, natural_frequency=15.0))


def to_friction(robot, usual):
    return usual, replace(usual, friction=Friction(FRICTION * robot.effort_limits,
                                                   np.zeros(robot.n)))


def to_free_drive(robot, usual):
    return usual, replace(usual, free=FreeDrive())


def to_joints(robot, usual):
    return usual, replace(usual, joints=JointDrive())


def to_joint_springs(robot, usual):
    return usual, replace(usual, joints=JointDrive(stiffness=50.0))


def from_joints(robot, usual):
    return replace(usual, joints=JointDrive()), usual


def to_payload(robot, usual):
    return usual, robot.with_payload(LOAD)


CHANGES = (to_impedance, to_acceleration, to_stiffness, to_gains, to_fewer_axes, to_activation,
           to_another_task, to_lower_limits, to_posture, to_friction, to_free_drive, to_joints,
           to_joint_springs, from_joints, to_payload)


def trial(name, change, seed):
    """
    Return the largest torque step after a change in motion, and before it, and the joint speed.

    The steps are relative to the effort limits, the largest speed to the velocity limits.

    """
    robot, rng = robot_of(name), np.random.default_rng(seed)
    first, then = change(robot, Settings.of(robot))
    plant = ForeignPlant(name, robot.joint_names, friction=(
        FRICTION * robot.effort_limits if change is to_friction else 0.0))
    lower, upper = robot.position_limits.T
    near = HOMES.get(name, home(robot)) + rng.uniform(-0.2, 0.2, robot.n)
    plant.reset(np.clip(near, lower + 0.1, upper - 0.1))
    law = Law(robot, first)
    law.hold(plant.q)
    twist = rng.normal(size=(2, 3))
    twist *= np.reshape(SPEEDS, (2, 1)) / np.linalg.norm(twist, axis=1, keepdims=True)
    if first.joints is None:
        law.follow(TwistGoal(twist.ravel(), 2.0))
    else:
        law.move_joints(np.clip(plant.q + rng.uniform(-1.0, 1.0, robot.n), lower + 0.1,
                                upper - 0.1), speed=1.0)
    at, torques, fastest = rng.integers(75, 250), [], 0.0
    for k in range(500):
        if k == at:
            law.change(**{'robot' if isinstance(then, Robot) else 'settings': then})
            if isinstance(then, Robot):
                state = plant.q, plant.qd
                plant = ForeignPlant(name, robot.joint_names, payload=LOAD)
                plant.reset(*state)
        torques.append(law.torque(1.0 + k * PERIOD, plant.q, plant.qd))
        plant.step(torques[-1], PERIOD)
        fastest = max(fastest, float((np.abs(plant.qd) / plant.velocity).max()))
    steps = (np.abs(np.diff(torques, axis=0)) / plant.effort).max(axis=1)
    return steps[at - 1:].max(), steps[:at - 1].max(), fastest


# A load that appears in an instant moves the arm, and so the torques; only the speed is judged.
ANY_STEP = to_payload,


def tasks_from_the_start(robot, usual):
    _, both = to_another_task(robot, usual)
    return both, both


def largest_steps(name, change, count):
    """Return the median of the largest step after the change and before it, and the speed."""
    steps, before, speeds = np.array([trial(name, change, (k, 7)) for k in range(count)]).T
    print(f'{name} {change.__name__}: step {np.median(steps):.4f} (before the change '
          f'{np.median(before):.4f}), speed {speeds.max():.2f}')
    return np.median(steps), speeds.max()


def assert_smooth(name, change, count):
    step, speed = largest_steps(name, change, count)
    assert change in ANY_STEP or step <= STEP
    assert speed <= FASTEST


@pytest.mark.parametrize('change', CHANGES)
def test_change_in_motion_does_not_kick_the_arm(change):
    assert_smooth('kinova', change, 4)


@pytest.mark.slow
@pytest.mark.parametrize('change', CHANGES)
@pytest.mark.parametrize('name', ['kinova', 'tiago', 'xarm7'])
def test_two_hundred_changes_in_motion_do_not_kick_the_arm(name, change):
    assert_smooth(name, change, 200)


def test_second_task_does_not_kick_the_arm_near_a_singularity_of_the_first():
    step, _ = largest_steps('xarm7', tasks_from_the_start, 40)
    assert step <= STEP
