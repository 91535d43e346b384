# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The law on arms in MuJoCo, which shares no code with it; no ROS, simulated time."""

from dataclasses import replace

import numpy as np
import pinocchio
import pytest

from arm import Arm, moved, PANDA, PERIOD, READY, settings
from judge import configuration, pinocchio_model, robot_cases
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.trajectory import figure_of_eight, Path, PoseGoal
from osc_ros.control.tasks.task import TargetLimits
from osc_ros.dynamics.methods import METHODS
from osc_ros.errors import InputError
from osc_ros.sim import Plant
import tolerances


def test_after_latching_at_rest_the_torque_is_that_of_gravity():
    arm = Arm()
    model, data, _ = pinocchio_model(PANDA.urdf_text, PANDA.base, PANDA.tip,
                                     arm.robot.joint_names, {})
    gravity = pinocchio.computeGeneralizedGravity(model, data, configuration(model, READY))
    np.testing.assert_allclose(arm.law.torque(0.0, READY, np.zeros(7)), gravity,
                               atol=1e-9)


def test_figure_of_eight_is_followed_within_a_tenth_of_a_millimetre():
    arm = Arm()
    path = figure_of_eight(arm.pose, 0.3, 0.15, 3.0, 1.0, 0.1, swing=0.17)
    arm.law.follow(path, 0.1)
    distances, angles = arm.run(4.0).errors(path)
    assert distances.max() < 1e-4
    assert angles.max() < 1e-3


@pytest.mark.parametrize('frequency, ratio', [(10.0, 1.0), (20.0, 1.0), (15.0, 0.5)])
def test_step_response_is_that_of_the_second_order_system(frequency, ratio):
    arm = Arm(frequency=frequency, ratio=ratio, speed=(1e3, 1e3), acceleration=(1e4, 1e4))
    size = 0.01
    arm.law.follow(PoseGoal(moved(arm.pose, shift=(0.0, size, 0.0))), 0.0)
    arm.run(1.0)
    times = np.array(arm.times)
    went = np.array([T[1, 3] - arm.pose[1, 3] for T in arm.poses]) / size
    if ratio == 1.0:
        expected = 1.0 - np.exp(-frequency * times) * (1.0 + frequency * times)
    else:
        fast = frequency * np.sqrt(1.0 - ratio ** 2)
        decay = np.exp(-ratio * frequency * times)
        expected = 1.0 - decay * (np.cos(fast * times)
                                  + ratio * frequency / fast * np.sin(fast * times))
    assert np.abs(went - expected).max() < 0.02
    sideways = np.array([T[:3, 3] - arm.pose[:3, 3] for T in arm.poses])[:, [0, 2]]
    assert np.abs(sideways).max() < 0.02 * size


def test_half_a_turn_away_the_arm_starts_to_turn_and_nothing_breaks():
    arm = Arm()
    arm.law.follow(PoseGoal(moved(arm.pose, turn=(0.0, 0.0, np.pi))), 0.0)
    arm.run(0.5)
    assert np.isfinite(arm.torques).all()
    assert arm.errors(moved(arm.pose, turn=(0.0, 0.0, np.pi)))[1][-1] < np.pi - 0.5


def test_posture_is_reached_in_the_null_space_while_the_tip_stays():
    arm = Arm()
    elbow = READY + np.array([0.3, 0.0, -0.3, 0.0, 0.0, 0.0, 0.0])
    arm.law.set_posture(elbow)
    before = np.linalg.norm(arm.plant.q - elbow)
    distances, angles = arm.run(3.0).errors(arm.pose)
    assert np.linalg.norm(arm.plant.q - elbow) < 0.9 * before
    assert np.linalg.norm(arm.plant.q - READY) > 0.05
    assert distances.max() < 5e-4
    assert angles.max() < 5e-3


def test_far_target_is_approached_at_the_speed_that_is_allowed():
    arm = Arm(speed=(2.5, 0.2))
    target = moved(arm.pose, shift=(0.15, 0.1, 0.0))
    arm.law.follow(PoseGoal(target), 0.0)
    arm.run(2.5)
    positions = np.array([T[:3, 3] for T in arm.poses])
    speeds = np.linalg.norm(np.diff(positions, axis=0), axis=1) / PERIOD
    assert speeds.max() < 0.2 * 1.05
    assert arm.errors(target)[0][-1] < 1e-4


def test_out_of_reach_and_back_torques_keep_their_limits_and_the_arm_returns():
    arm = Arm()
    arm.law.follow(PoseGoal(moved(arm.pose, shift=(0.9, 0.0, 0.0))), 0.1)
    arm.law.follow(PoseGoal(moved(arm.pose, shift=(-0.3, 0.0, 1.0))), 2.5)
    arm.law.follow(PoseGoal(arm.pose), 5.0)
    arm.run(7.0)
    torques = np.array(arm.torques)
    assert np.isfinite(torques).all()
    assert (np.abs(torques) <= arm.robot.effort_limits).all()
    distances, angles = arm.errors(arm.pose)
    assert distances.max() > 0.3
    assert distances[-1] < 1e-3
    assert angles[-1] < 1e-2


def test_law_has_no_double_cover():
    arm = Arm()
    turned = moved(arm.pose, turn=(0.0, 0.0, np.radians(179.0)))
    back = moved(arm.pose, turn=(0.0, 0.0, np.radians(-179.0)))
    u = []
    for target in (turned, back):
        arm.law.hold(READY)
        arm.law.follow(PoseGoal(target), 0.0)
        arm.law.torque(0.0, READY, np.zeros(7))
        u.append(arm.law.u[2])
    assert u[0] > 0.0 > u[1]


@pytest.mark.parametrize('name', ['ur5', 'tiago', *(
    pytest.param(name, marks=pytest.mark.slow) for name in ('kinova', 'iiwa_like', 'talos'))])
def test_other_arms_step_to_their_targets(name):
    from osc_ros.control.tasks.freedoms import freedoms_of
    from osc_ros.tools.check import scenario
    from osc_ros.tools.check.tracing import Tracer
    case = robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    plant = Plant(case.urdf_text, case.base, robot.joint_names, locked=case.locked,
                  friction=[0.0] * robot.n, damping=[0.0] * robot.n)
    law = Law(robot, settings(robot))
    freedoms = freedoms_of(robot)
    q = scenario.start(Tracer(robot, freedoms), 5.0, scenario.postures(robot, freedoms)).q
    plant.reset(q)
    law.hold(q)
    target = moved(plant.pose(case.tip), shift=(0.0, 0.0, 0.03), turn=(0.0, 0.1, 0.0))
    law.follow(PoseGoal(target), 0.0)
    while plant.time < 1.5:
        plant.step(law.torque(plant.time, plant.q, plant.qd), 2)
    reached = plant.pose(case.tip)
    assert np.abs(reached - target).max() < 1e-3


def test_robots_that_the_law_does_not_drive_are_refused_by_the_joint_or_the_tips():
    two = Robot.from_urdf(PANDA.urdf_text, PANDA.base, [PANDA.tip, 'panda_link4'])
    with pytest.raises(InputError, match='tips, panda_hand_tcp, panda_link4'):
        Law(two, settings(two))
    floats = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip, floating_base=True)
    with pytest.raises(InputError, match="'floating_base'.*freedoms"):
        Law(floats, settings(floats))


@pytest.mark.parametrize('effort', [87.0, 8.0])
@pytest.mark.parametrize('method', [name for name in METHODS if name != 'sweep'])
def test_torques_in_one_compiled_call_are_those_of_every_method(method, effort):
    robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
    limited = settings(robot, effort=np.full(7, effort))
    laws = [Law(robot, limited, name) for name in ('sweep', method)]
    for law in laws:
        law.hold(READY)
        law.follow(PoseGoal(moved(law.pose, shift=(0.05, 0.0, 0.1))), 0.01)
    for k in range(100):
        if k == 50:
            for law in laws:
                law.change(settings(robot, frequency=10.0, effort=np.full(7, effort)))
        q = READY + 0.1 * np.sin(0.004 * k) * np.arange(1, 8)
        qd = 0.2 * np.cos(0.004 * k) * np.arange(1, 8)
        found, expected = (law.torque(PERIOD * k, q, qd) for law in laws)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
        for law in laws:
            law.plan()


def test_continuous_joint_goes_the_short_way_to_its_posture():
    case = robot_cases()['kinova']
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    turning = np.flatnonzero(np.isinf(robot.position_limits).all(axis=1))
    assert len(turning) > 0
    law = Law(robot, settings(robot))
    q = np.zeros(robot.n)
    q[turning[0]] = 3.1
    posture = np.zeros(robot.n)
    posture[turning[0]] = -3.1
    law.hold(q)
    law.set_posture(np.clip(posture, *robot.position_limits.T))
    for time in np.arange(0.0, 4.0, 0.02):
        law.torque(time, q, np.zeros(robot.n))
    pulled = law._setup.d.qdd_posture[turning[0]]
    np.testing.assert_allclose(pulled, 25.0 * (2.0 * np.pi - 6.2), rtol=tolerances.AGREEMENT)


def test_posture_that_is_asked_for_again_and_again_steps_no_torque_and_is_reached():
    arm, rng = Arm(), np.random.default_rng(0)
    for k in range(60):
        arm.law.set_posture(READY + rng.uniform(-0.5, 0.5, size=7))
        arm.run(0.02 * k)
    arm.law.stop()
    arm.run(2.0)
    elbow = READY + np.array([0.3, 0.0, -0.3, 0.0, 0.0, 0.0, 0.0])
    arm.law.set_posture(elbow)
    before = np.linalg.norm(arm.plant.q - elbow)
    arm.run(5.0)
    assert np.linalg.norm(arm.plant.q - elbow) < 0.9 * before
    np.testing.assert_array_equal(arm.law.posture, elbow)
    steps = np.abs(np.diff(arm.torques, axis=0)) / arm.robot.effort_limits
    assert steps.max() < 0.02
    assert arm.errors(arm.pose)[0].max() < 1e-4


def test_posture_outside_the_limits_of_a_joint_is_refused_by_name():
    arm = Arm()
    with pytest.raises(InputError, match="'panda_joint2'.* 100.*must be -1.76"):
        arm.law.set_posture([0.0, 100.0, 0.0, -1.0, 0.0, 1.0, 0.0])
    with pytest.raises(InputError, match='(give|must be).* 7 '):
        arm.law.set_posture([np.nan] * 7)
    np.testing.assert_array_equal(arm.law.posture, READY)


@pytest.mark.parametrize('twist, acceleration, message', [
    ((0.0, 0.0, 0.0, 1e3, 0.0, 0.0), 0.0, '(give|must be).* 1 m/s'),
    ((3.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0, '(give|must be).* 2.5 rad/s'),
    ((0.0,) * 6, 1e3, '(give|must be).* 2.5 rad/s'),
])
def test_path_that_is_too_fast_is_refused_and_the_target_stays(twist, acceleration, message):
    arm = Arm(limits=TargetLimits())
    poses = [arm.pose, moved(arm.pose, shift=(0.05, 0.0, 0.0))]
    path = Path([0.0, 1.0], poses, [twist] * 2, np.full((2, 6), acceleration))
    with pytest.raises(InputError, match=message):
        arm.law.follow(path, 0.0)
    arm.run(0.1)
    assert arm.errors(arm.pose)[0].max() < 1e-6


@pytest.mark.parametrize('state, message', [
    ((np.full(7, np.nan), np.zeros(7)), r'^q .*q\[0\] = nan'),
    ((READY, np.full(7, np.inf)), '^qd .*finite'),
    ((READY[:6], np.zeros(6)), r'\(6,\).*\(6,\), (give|must be).*\(7,\)'),
])
def test_bad_state_is_refused_and_the_law_goes_on(state, message):
    arm = Arm()
    with pytest.raises(InputError, match=message):
        arm.law.torque(0.0, *state)
    assert np.isfinite(arm.law.torque(0.0, READY, np.zeros(7))).all()


@pytest.mark.parametrize('name', ['natural_frequency', 'damping_ratio', 'damping'])
@pytest.mark.parametrize('value', [-1.0, np.nan, np.inf])
def test_bad_posture_gains_are_refused_by_name(name, value):
    given = {'natural_frequency': 1.0, 'damping_ratio': 1.0, name: value}
    with pytest.raises(InputError, match=rf'posture\.{name}'):
        Posture(**given)


def test_settings_are_those_of_the_last_change_also_while_it_begins():
    law, seen = Arm().law, []
    law.hold(READY)
    law.torque(0.0, READY, np.zeros(7))
    for posture in (6.0, 7.0):
        law.change(replace(law.settings, posture=Posture(posture, 1.0)))
    assert law.waits
    waiting, start = law._waiting, law._waiting.start
    waiting.start = lambda *given: (seen.append(law.settings.posture), start(*given))
    for time in np.arange(1, 2000) * 0.002:
        law.torque(time, READY, np.zeros(7))
    assert not law.waits
    assert seen == [law.settings.posture]


def test_effort_limits_with_which_the_arm_cannot_hold_itself_are_refused():
    law = Law(Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip))
    law.hold(READY)
    limits = law.settings.limits
    law.change(replace(law.settings, limits=replace(limits, effort=0.6 * limits.effort)))
    with pytest.raises(InputError, match="limits.effort.*'panda_joint4'.*at least"):
        law.change(replace(law.settings, limits=replace(limits, effort=0.2 * limits.effort)))
