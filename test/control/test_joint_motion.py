# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Motions in the joints: planned motions, gains and springs, pauses; back to the tip."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from arm import Arm, PERIOD, READY
from attacked import Attacked, home, robot_of
from foreign import ForeignPlant
from judge import robot_cases
from osc_ros import InputError, JointDrive, Law, Settings, Simulation
from osc_ros.compile.compiled import plain
from osc_ros.control.setpoint.joint_motion import (
    motion_through,
    motion_to_goal,
    stopping_motion,
)
from osc_ros.control.setpoint.motion import waits
from osc_ros.control.setpoint.pieces import planned
from osc_ros.control.setpoint.posture import motion_of
from osc_ros.sim.plant_payload import with_payload

LOAD = {'payload.mass': 0.5, 'payload.center_of_mass': (0.0, 0.0, 0.0),
        'payload.inertia': (1e-3, 0.0, 0.0, 1e-3, 0.0, 1e-3)}
GOAL = READY + np.array([0.8, 0.4, -0.5, 0.6, 0.4, 0.3, -0.9])


def with_drive(drive=None):
    """Return the Panda in a joint drive, and a function that simulates it for some seconds."""
    arm = Arm()
    arm.run(0.1)
    arm.law.change(replace(arm.law.settings, joints=drive or JointDrive()))
    return arm, lambda seconds, each=lambda: None: arm.run(arm.plant.time + seconds, each)


@given(st.integers(0, 10 ** 6))
def test_planned_motion_keeps_its_bounds_and_joins_the_state_before(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 9)
    bounds = rng.uniform(0.5, 3.0, (3, n)) * [[1.0], [2.0], [20.0]]
    start = rng.uniform(-1.0, 1.0, (3, n)) * [[3.0], [0.3], [0.3]]
    goal, duration = rng.uniform(-3.0, 3.0, n), rng.choice([0.0, 20.0])
    motion = motion_to_goal(start, goal, bounds, duration)
    times, states = motion.samples()
    np.testing.assert_allclose(motion.at(0.0), start, atol=1e-12)
    np.testing.assert_allclose(motion.end, goal, atol=1e-12)
    np.testing.assert_allclose(states[-1, 1:], 0.0, atol=1e-7)
    assert motion.duration >= duration - 1e-9
    most = np.maximum(bounds[:2], [np.abs(start[1]) + start[2] ** 2 / bounds[2], np.abs(start[2])])
    assert (np.abs(states[:, 1:]).max(axis=0) <= (1.0 + 1e-6) * most).all()
    apart = np.diff(times, prepend=-1.0) == 0.0  # end of a segment, and begin of the next one
    np.testing.assert_allclose(states[apart][:, 0], np.roll(states, 1, axis=0)[apart][:, 0],
                               atol=1e-9)
    assert motion.duration < 60.0


@given(st.integers(0, 10 ** 6))
def test_joints_stop_as_early_as_their_bounds_allow(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 9)
    bounds = rng.uniform(0.5, 3.0, (3, n)) * [[1.0], [2.0], [20.0]]
    scales = rng.choice([0.0, 0.01, 1.0], n), rng.choice([0.0, 0.1, 3.0], n)
    start = rng.uniform(-3.0, 3.0, (3, n)) * [np.ones(n), *scales]
    motion = stopping_motion(start, bounds)
    _, states = motion.samples()
    np.testing.assert_allclose(motion.at(0.0), start, atol=1e-12)
    np.testing.assert_allclose(states[-1, 1:], 0.0, atol=1e-9)
    most = np.maximum(bounds[1], np.abs(start[2]))
    assert (np.abs(states[:, 2]).max(axis=0) <= (1.0 + 1e-9) * most).all()
    end = np.zeros((3, n))
    end[0] = np.nan
    bounds[1] = most * (1.0 + 1e-9)
    of_ruckig = planned(start, end, bounds)
    np.testing.assert_allclose(motion.duration, of_ruckig.duration, atol=1e-6)
    np.testing.assert_allclose(motion.end, of_ruckig.end, atol=1e-6)


@given(st.integers(0, 10 ** 6))
def test_path_goes_through_its_points_at_their_times(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 8), rng.integers(1, 12)
    start = rng.normal(size=(3, n))
    times, points = np.cumsum(rng.uniform(0.1, 1.0, m)), rng.normal(size=(m, n))
    velocities = rng.normal(size=(m, n))
    velocities[-1] = 0.0
    for given_velocities in (None, velocities):
        motion = motion_through(start, times, points, given_velocities)
        np.testing.assert_allclose(motion.at(0.0), start, atol=1e-9)
        for k in range(m):
            found = motion.at(times[k])
            np.testing.assert_allclose(found[0], points[k], atol=1e-9)
            if given_velocities is not None:
                np.testing.assert_allclose(found[1], velocities[k], atol=1e-7)


def test_joints_arrive_together_within_a_milliradian_and_step_no_torque():
    arm, run = with_drive()
    duration = arm.law.move_joints(GOAL)
    run(0.5 * duration)
    half = (arm.plant.q - READY) / (GOAL - READY)
    assert half.min() > 0.3
    assert half.max() < 0.7
    run(0.5 * duration + 0.3)
    np.testing.assert_allclose(arm.plant.q, GOAL, atol=1e-3)
    assert (np.abs(np.diff(arm.torques, axis=0)) / arm.robot.effort_limits).max() < 0.02


@pytest.mark.parametrize('name', ['kinova', 'tiago', 'xarm7'])
def test_foreign_arms_arrive_within_a_milliradian_and_their_limits(name):
    robot, rng = robot_of(name), np.random.default_rng(7)
    plant, law = ForeignPlant(name, robot.joint_names), Law(robot)
    plant.reset(home(robot))
    law.hold(plant.q)
    law.change(replace(law.settings, joints=JointDrive()))
    lower, upper = np.clip(robot.position_limits.T, home(robot) - 1.0, home(robot) + 1.0)
    fastest, time = 0.0, 1.0
    for _ in range(3):
        goal = rng.uniform(lower + 0.05, upper - 0.05)
        for _ in range(round((law.move_joints(goal) + 0.3) / PERIOD)):
            plant.step(law.torque(time, plant.q, plant.qd), PERIOD)
            time += PERIOD
            fastest = max(fastest, float((np.abs(plant.qd) / robot.velocity_limits).max()))
        np.testing.assert_allclose(plant.q, goal, atol=1e-3)
    assert fastest < 1.0


def test_goals_that_come_at_every_tick_are_followed():
    arm, run = with_drive()
    rng = np.random.default_rng(0)
    run(0.5, lambda: arm.law.move_joints(READY + rng.uniform(-0.4, 0.4, 7)))
    assert (np.abs(np.diff(arm.torques, axis=0)) / arm.robot.effort_limits).max() < 0.1
    run(arm.law.move_joints(READY) + 0.3)
    np.testing.assert_allclose(arm.plant.q, READY, atol=1e-3)


def test_joints_without_a_goal_hold_and_a_duration_is_kept():
    arm, run = with_drive()
    goal = np.full(7, np.nan)
    goal[0] = 0.5
    assert arm.law.move_joints(goal, duration=3.0) == pytest.approx(3.0, abs=1e-9)
    run(2.5)
    assert np.abs(arm.plant.q - READY)[1:].max() < 1e-3
    assert arm.plant.q[0] < 0.5 - 1e-3
    run(0.8)
    assert arm.plant.q[0] == pytest.approx(0.5, abs=1e-3)


def test_stop_comes_to_rest_and_the_tip_takes_over_in_motion():
    arm, run = with_drive()
    arm.law.move_joints(GOAL)
    run(0.7)
    arm.law.stop()
    run(0.7)
    assert np.abs(arm.plant.qd).max() < 1e-2
    assert np.abs(arm.plant.q - GOAL).max() > 0.1
    arm.law.move_joints(GOAL)
    run(0.7)
    arm.law.change(replace(arm.law.settings, joints=None))
    run(1.0)
    assert (np.abs(np.diff(arm.torques, axis=0)) / arm.robot.effort_limits).max() < 0.02
    arm.law.follow(arm.pose)
    run(3.0)
    assert arm.errors(arm.pose)[0][-1] < 1e-3


def test_springs_yield_by_torque_over_stiffness():
    stiffness = np.array([80.0, 90.0, 40.0, 70.0, 20.0, 20.0, 8.0])
    arm, run = with_drive(JointDrive(stiffness=stiffness))
    load = np.array([4.0, -3.0, 2.0, 3.0, 0.5, 0.5, 0.2])
    law, torque = arm.law, arm.law.torque
    law.torque = lambda *state: torque(*state) + load  # a hand
    run(3.0)
    law.torque = torque
    np.testing.assert_array_equal(law.setup.d.joint_stiffness, stiffness)  # none was reduced
    np.testing.assert_allclose(arm.plant.q - READY, load / stiffness, rtol=0.02, atol=1e-3)
    run(3.0)
    np.testing.assert_allclose(arm.plant.q, READY, atol=2e-3)
    run(law.move_joints(GOAL) + 1.0)
    np.testing.assert_allclose(arm.plant.q, GOAL, atol=5e-3)
    assert sum(law.terms().values()) == pytest.approx(arm.torques[-1])


@pytest.mark.parametrize('damping', [1e6, None])
def test_springs_too_stiff_for_the_loop_are_reduced(damping):
    arm, run = with_drive(JointDrive(stiffness=1e6, damping=damping))
    run(0.5)
    assert arm.law.gain_share() < 0.1
    run(arm.law.move_joints(GOAL) + 1.0)
    np.testing.assert_allclose(arm.plant.q, GOAL, atol=0.05)


@pytest.mark.parametrize('name', ['panda', 'ur5'])
def test_joints_arrive_against_unknown_friction_and_payload(name):
    robot = robot_of(name)
    case = robot_cases()[name]
    law = Law(robot, Settings.of(robot, joints=JointDrive()))
    arm = Simulation(with_payload(case.urdf_text, robot.tip, LOAD), law, home(robot),
                     friction=[0.5] * robot.n, locked=dict(case.locked))
    goal = np.clip(arm.q + 0.6, *(robot.position_limits + [0.1, -0.1]).T)
    arm.run(law.move_joints(goal) + 1.5)
    np.testing.assert_allclose(arm.q, goal, atol=1e-3)


def test_motion_pauses_while_the_arm_is_held_and_goes_on_when_it_is_released():
    arm, run = with_drive(JointDrive(stiffness=40.0, leash=0.1))
    duration, law, torque = arm.law.move_joints(GOAL), arm.law, arm.law.torque
    held = arm.plant.q.copy()
    law.torque = lambda t, q, qd: torque(t, q, qd) + np.clip(
        4e2 * (held - q) - 40.0 * qd, -0.6 * arm.robot.effort_limits,
        0.6 * arm.robot.effort_limits)
    run(duration + 1.0)
    assert plain(waits)(law.joints)
    assert np.abs(law.joints.now - held).max() < 0.4
    law.torque = torque
    run(duration + 4.0)
    assert not plain(waits)(law.joints)
    np.testing.assert_allclose(arm.plant.q, GOAL, atol=5e-3)


@pytest.mark.parametrize('times', [(0.3, 0.31), (30.0, 31.0), (1.0, 31.0), (30.0, 30.1, 60.0)])
def test_points_at_uneven_times_are_reached_without_swinging_off_the_way(times):
    points = 0.05 * np.arange(1, 1 + len(times))[:, None] * [1.0, -1.0]
    motion = motion_through(np.zeros((3, 2)), times, points)
    far = np.array([motion.at(time)[0] for time in np.linspace(0.0, times[-1], 2000)])
    assert np.abs(far).max() < 0.05 * len(times) + 1e-9
    assert (far * [1.0, -1.0]).min() > -1e-9
    for time, point in zip(times, points):
        np.testing.assert_allclose(motion.at(time)[0], point, atol=1e-12)


@pytest.mark.parametrize('name', ('panda', 'ur5'))
def test_arm_does_not_swing_back_between_points_at_uneven_times(name):
    arm = Attacked(name, replace(Settings.of(robot_of(name)), joints=JointDrive()))
    arm.run(0.1)
    q = arm.plant.q.copy()
    arm.law.follow_joints([6.0, 6.5], q + [[0.05], [0.1]] * np.ones(len(q)))
    least = []
    for _ in range(70):
        arm.run(0.1)
        least.append((arm.plant.q - q).min())
    assert min(least) > -0.002
    np.testing.assert_allclose(arm.plant.q, q + 0.1, atol=1e-3)


def test_path_is_followed_between_its_points():
    arm, run = with_drive()
    times = np.linspace(0.5, 3.0, 40)
    share = (0.5 - 0.5 * np.cos(np.pi * (times - 0.0) / 3.0))[:, None]
    arm.law.follow_joints(times, READY + share * (GOAL - READY))
    lags = []
    run(3.3, lambda: lags.append(float(np.abs(arm.law.joints.now - arm.plant.q).max())))
    blended = round(arm.law.settings.blend_time / PERIOD) + 50
    assert max(lags[blended:]) < 2e-3
    assert max(lags) < 1e-2  # the torques still blend, and the path begins on time
    np.testing.assert_allclose(arm.plant.q, GOAL, atol=1e-3)


def test_path_a_full_turn_away_takes_the_near_turn_of_a_continuous_joint():
    robot = robot_of('kinova')
    plant, law = ForeignPlant('kinova', robot.joint_names), Law(robot)
    plant.reset(home(robot))
    law.hold(plant.q)
    law.change(replace(law.settings, joints=JointDrive()))
    start, turned = plant.q.copy(), 2.0 * np.pi * np.isinf(robot.position_limits[:, 1])
    assert turned.any()
    law.torque(0.0, plant.q, plant.qd)
    law.follow_joints([0.8, 0.9], np.array([start, start + 0.01]) + turned)
    most = 0.0
    for k in range(1, round(1.2 / PERIOD)):
        plant.step(law.torque(k * PERIOD, plant.q, plant.qd), PERIOD)
        most = max(most, float(np.abs(plant.q - start).max()))
    assert most < 0.05
    np.testing.assert_allclose(plant.q, start + 0.01, atol=2e-3)
    for far in (50.0, 360.0, -1e6, 1e15):
        with pytest.raises(InputError, match='degrees'):
            law.move_joints(np.where(turned > 0.0, far, start))
    law.hold(start + 50.0 * turned)  # a joint that has turned many times
    law.move_joints(start)
    np.testing.assert_allclose(law.joints.wanted, start + 50.0 * turned, atol=1e-9)


def test_goal_a_hair_beyond_a_limit_is_at_the_limit():
    arm, _ = with_drive()
    goal, upper = READY.copy(), arm.law.robot.position_limits[3, 1]
    goal[3] = upper + 2e-4  # `Arm.home` of an arm that rested there at the start
    arm.law.move_joints(goal)
    assert upper - 0.05 < arm.law.joints.wanted[3] <= upper
    goal[3] = upper + 2e-3
    with pytest.raises(InputError, match='must be'):
        arm.law.move_joints(goal)


def test_two_pi_too_much_and_degrees_are_asked_for():
    arm, _ = with_drive()
    law, wrong = arm.law, READY.copy()
    wrong[0] += 2.0 * np.pi
    for command in (lambda: law.move_joints(wrong), lambda: law.follow_joints([4.0], [wrong]),
                    lambda: law.follow_joints([8.0, 9.0], [wrong, wrong])):
        with pytest.raises(InputError, match=r"'panda_joint1'.*2π too much\? Then it is 0 rad"):
            command()
    for speed in (30.0, [30.0] * 7):
        with pytest.raises(InputError, match=r'degrees\? Then it is 0\.524 rad/s'):
            law.move_joints(READY, speed=speed)
    for late in (lambda: law.move_joints(READY + 0.5, duration=2000.0),
                 lambda: law.follow_joints([2000.0], [READY + 0.5]),
                 lambda: law.follow_joints([1000.0, 2000.0], [READY + 0.2, READY + 0.5])):
        with pytest.raises(InputError, match=r'milliseconds\? Then it is 2 s'):
            late()
    with pytest.raises(InputError, match='another clock'):
        law.follow_joints([1e9, 1e9 + 1.0], [READY, READY])


def test_goal_with_a_duration_leaves_the_bounds_of_other_motions_as_they_are():
    arm, run = with_drive()
    bounds = arm.law.setup.joint_bounds.copy()
    arm.law.follow_joints([3.0], [GOAL])
    np.testing.assert_array_equal(arm.law.setup.joint_bounds, bounds)


def test_path_that_was_planned_before_begins_from_the_state_that_it_finds():
    arm, run = with_drive()
    law, times = arm.law, np.linspace(0.6, 2.0, 1200)
    share = (0.5 - 0.5 * np.cos(np.pi * times / 2.0))[:, None]
    planned = law.joint_path(law.joints.state, law.joints.wanted, times,
                             READY + share * (GOAL - READY))
    law.move_joints(READY - 0.1)
    run(0.3)  # the joints move, as after a second command
    assert np.abs(law.joints.state[1]).max() > 0.05
    before = law.joints.state.copy()
    assert law.follow_joint_path(planned) == 2.0
    np.testing.assert_allclose(motion_of(law.joints).at(0.0), before, atol=1e-9)
    late = motion_of(law.joints).samples()[0] >= times[0]
    assert np.abs(motion_of(law.joints).samples()[1][late, 0]
                  - planned.samples()[1][late, 0]).max() < 1e-9
    run(2.3)
    np.testing.assert_allclose(arm.plant.q, GOAL, atol=1e-3)
    assert (np.abs(np.diff(arm.torques, axis=0)) / arm.robot.effort_limits).max() < 0.05


def test_copy_in_motion_computes_the_same_torques():
    arm, run = with_drive()
    arm.law.move_joints(GOAL)
    run(0.2)  # while the settings are blended
    copy = arm.law.copied()
    run(0.3)
    for _ in range(5):
        arm.law.move_joints(READY)
        copy = arm.law.copied()
        time = arm.plant.time
        found = [law.torque(time, arm.plant.q, arm.plant.qd) for law in (arm.law, copy)]
        np.testing.assert_array_equal(*found)
        arm.plant.step(found[0], 2)


def test_wrong_goals_are_refused_and_the_motion_goes_on():
    arm, run = with_drive()
    law, far = arm.law, READY + 10.0
    duration = law.move_joints(GOAL)
    for wrong, message in (
            (lambda: law.move_joints([0.0]), 'give 7'),
            (lambda: law.move_joints(far), "'panda_joint1' is 10.*must be -2.8973"),
            (lambda: law.move_joints([np.inf] * 7), 'finite'),
            (lambda: law.move_joints(READY, duration=-1.0), 'duration'),
            (lambda: law.move_joints(READY, duration=np.nan), 'duration'),
            (lambda: law.move_joints(READY, speed=-1.5), 'speed'),
            (lambda: law.move_joints(READY, speed=[1.0, 1.0]), 'one number or 7'),
            (lambda: law.follow_joints([], np.zeros((0, 7))), 'times'),
            (lambda: law.follow_joints([1.0, 0.5], [READY, GOAL]), 'increasing'),
            (lambda: law.follow_joints([1.0, 2.0], [GOAL[:3]] * 2), r'shape \(2, 7\)'),
            (lambda: law.follow_joints([1.0], [far]), "'panda_joint.*must be"),
            (lambda: law.follow_joints([0.01], [GOAL]), 'at least .* speed'),
            (lambda: law.follow_joints([0.01, 2.0], [GOAL, GOAL]), "'panda_joint.*must be"),
            (lambda: law.follow_joints([0.0, 2.0], [READY + 0.1, GOAL]), 'give 0.05'),
            (lambda: law.follow_joints([0.0], [GOAL]), 'more than 0'),
            (lambda: law.follow_joints([2.0], [GOAL], [GOAL]), 'last velocities'),
            (lambda: law.follow_joints([2.0], [GOAL], None, [0.0 * GOAL]), 'give both'),
            (lambda: law.follow(arm.pose), 'joints follow a motion'),
            (lambda: law.set_posture(READY), 'joints follow a motion')):
        with pytest.raises(InputError, match=message):
            wrong()
    run(duration + 0.3)
    np.testing.assert_allclose(arm.plant.q, GOAL, atol=1e-3)
    law.change(replace(law.settings, joints=None))
    with pytest.raises(InputError, match='no joint drive'):
        law.move_joints(READY)


@pytest.mark.parametrize('wrong', [
    {'natural_frequency': 0.0}, {'speed': 1.1}, {'ramp': np.nan}, {'leash': -1.0},
    {'stiffness': [-1.0]}, {'damping': 1.0}, {'stiffness': [[1.0]]}])
def test_wrong_drives_are_refused(wrong):
    with pytest.raises(InputError, match='give|must be'):
        JointDrive(**wrong)


def test_stiffness_for_another_number_of_joints_is_refused():
    with pytest.raises(InputError, match='give one, or 7'):
        Law(robot_of('panda'), Settings(joints=JointDrive(stiffness=[1.0, 2.0])))
