# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Each cause of a goal that is not reached is provoked in MuJoCo, and named with its remedy."""

from collections import Counter
from dataclasses import replace
import re
import warnings

import numpy as np
import pytest

import osc_ros
from osc_ros import (
    Clearance,
    Law,
    Limits,
    Obstacle,
    Robot,
    Settings,
    shipped_shapes,
    Simulation,
    TargetLimits,
)
from osc_ros.client.robots import SHIPPED
from osc_ros.control.reasons import figures_of, Reason, reasons, RULES, TITLES, warnings_of
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.task import Task
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.errors import ArmTimeoutError, InputError, InputWarning, OscError, ReachError
from osc_ros.model.files import shipped_urdf

HOME = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]  # of a Panda
STRETCHED = [0.0, -1.5708, 0.0, -1.5708, 0.0, 0.0]  # an UR5e that stands upright
WALL = np.array([[0.0, 0.0, -1.0, 0.42],  # its z is -x
                 [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0]])
PLACED = 1e-3  # tolerance of a position where the tip stands [m]


def settings_of(name, **task):
    robot = Robot.from_urdf(shipped_urdf(name), *SHIPPED[name][:2])
    found = Settings.of(robot)
    return replace(found, tasks=(replace(found.tasks[0], **task),))


def error_of(arm, goal, timeout=3.0):
    with pytest.raises(ArmTimeoutError) as found:
        arm.move_to(goal, timeout=timeout, through_joints=False)
    return found.value


def reason_of(arm, goal, name, timeout=3.0):
    """Return the reason of this name from the error of a motion to the goal."""
    error = error_of(arm, goal, timeout)
    reasons = {reason.name: reason for reason in error.reasons}
    assert name in reasons, str(error)
    assert all(part in str(error) for part in (reasons[name].cause, reasons[name].remedy))
    assert TITLES[name] in reasons[name].cause
    return reasons[name]


@pytest.fixture(scope='module')
def panda():
    with osc_ros.Arm.simulated('panda') as arm:
        yield arm


@pytest.fixture
def arm(panda):
    """Return a Panda at rest at home, with its gains."""
    panda.impedance(None)
    panda.simulation.reset()
    panda.sleep(0.1)
    return panda


def test_way_back_that_ends_at_joint_limits_names_them_and_a_posture(arm):
    home = arm.pose()
    arm.move_to([0.4, 0.0, -0.3])
    reason = reason_of(arm, home, 'limits', 12.0)
    q, limits = arm.state().q, arm.simulation.law.robot.position_limits
    at = np.abs(q[:, None] - limits).min(axis=1) < 5e-3
    assert at.sum() == 3
    for name, is_at in zip(arm.joint_names, at):
        assert (name in reason.cause) == is_at
    assert 'limit 2.897 rad' in reason.cause
    assert all(text in reason.remedy for text in ('arm.move_joints(q)', 'arm.home()'))
    posture = eval(reason.remedy.partition('q = ')[2])
    arm.simulation.reset(posture)
    np.testing.assert_allclose(arm.simulation.pose(), home, atol=5e-3)


def test_goal_inside_of_a_straight_arm_is_a_singular_direction():
    with osc_ros.Arm.simulated('ur5e', q=STRETCHED) as arm:
        reason = reason_of(arm, arm.pose(shift=(0.0, 0.0, -0.1)), 'singular')
    assert 'shift z' in reason.cause and 'arm.move_joints(q)' in reason.remedy


def test_goal_that_no_posture_reaches_is_out_of_reach(arm):
    reason = reason_of(arm, [0.85, 0.0, 0.7], 'reach')
    assert ' mm' in reason.cause


def test_goal_beyond_the_link_lengths_is_refused_and_nothing_moves(arm):
    before = arm.pose()
    for goal, hint in (([0.5, 0.7, 1.5], ''), ([400.0, 0.0, 300.0], 'millimetres')):
        with pytest.raises(ReachError, match=hint) as found:
            arm.move_to(goal)
        distance = np.linalg.norm(np.array(goal) - [0.0, 0.0, 0.333])
        assert found.value.distance == pytest.approx(distance)
        assert 1.0 < found.value.reach < 1.2
        said = str(found.value)
        assert f'at most {found.value.reach:.4g} m' in said and len(said.split()) <= 25
        numbers = re.findall(r'[\d.]+ m', said)
        assert len(numbers) == len(set(numbers)) == 2
    with pytest.raises(ReachError):
        arm.follow([arm.pose(), arm.pose(shift=(3.0, 0.0, 0.0))], 1.0)
    arm.sleep(0.2)
    np.testing.assert_allclose(arm.pose(), before, atol=1e-4)


def test_weak_joint_is_named_with_its_torque():
    robot, home = Robot.from_urdf(shipped_urdf('ur5e'), *SHIPPED['ur5e'][:2]), SHIPPED['ur5e'].home
    goal = link_pose(robot, np.array(home), robot.tip)
    goal[:2, 3] *= 1.25
    there = osc_ros.inverse_kinematics(robot, goal, home, most=1)[0].q
    here, needed = (abs(osc_ros.Law(robot).bias_torque(np.array(q), np.zeros(6))[1])
                    for q in (home, there))
    assert 0.9 * needed > 1.1 * here
    effort = robot.effort_limits.copy()
    effort[1] = 0.9 * needed
    with osc_ros.Arm.simulated('ur5e', settings=replace(
            Settings.of(robot), limits=Limits.of(robot, effort=effort))) as arm:
        reason = reason_of(arm, goal, 'torque')
    assert 'shoulder_lift_joint at -' in reason.cause
    assert f'of {effort[1]:.3g} N m' in reason.cause
    assert 'payload' in reason.remedy


def test_wall_before_the_goal_is_a_contact_with_its_force():
    with osc_ros.Arm.simulated('panda', wall=WALL, ball=('panda_hand_tcp', 0.03)) as arm:
        start = arm.pose()
        reason = reason_of(arm, arm.pose(shift=(0.15, 0.0, 0.0)), 'contact')
        force = arm.simulation.plant.contact_force()
        assert arm.pose()[0, 3] < start[0, 3] + 0.12
    said = float(reason.cause.partition(': ')[2].partition(' N')[0])
    assert said == pytest.approx(np.linalg.norm(force), rel=0.1)
    assert '-1.0' in reason.cause


def test_dry_friction_names_the_joints_and_what_is_missing():
    with osc_ros.Arm.simulated('panda', friction=[6.0] * 4 + [1.0] * 3) as arm:
        reason = reason_of(arm, arm.pose(shift=(0.01, 0.0, 0.0)), 'friction')
    assert 'N m' in reason.cause and 'Settings(friction=' in reason.remedy


def test_unknown_load_is_named_with_its_mass():
    def load(spec):
        spec.body('panda_hand_tcp').add_body(mass=3.0, inertia=[1e-3] * 3, explicitinertial=True)

    with osc_ros.Arm.simulated('panda', hand=(), furnish=load) as arm:
        arm.sleep(0.5)
        reason = reason_of(arm, arm.pose(shift=(0.0, 0.0, 0.05)), 'model')
    assert '3 kg' in reason.cause and 'arm.payload' in reason.remedy


def test_slow_states_reduce_the_gains():
    with osc_ros.Arm.simulated('panda', rate=60.0) as arm:
        arm.sleep(1.0)
        arm.move_to(arm.pose(shift=(0.0, 0.0, 0.1)), wait=False)
        [reason] = [one for one in arm._backend.reasons() if one.name == 'gains']
    assert '16.7 ms' in reason.cause and 'states per second' in reason.remedy


def test_blocked_arm_lets_its_target_wait(arm):
    arm.simulation.plant.brake(True)
    reason = reason_of(arm, arm.pose(shift=(0.2, 0.5, 0.0)), 'waits')
    arm.simulation.plant.brake(False)
    assert '0.2 m' in reason.cause


def test_goal_of_another_command_is_named(arm):
    goal = arm.pose(shift=(0.0, 0.1, 0.0))
    arm.move_to(goal, wait=False)
    arm.simulation.law.follow(arm.pose(shift=(0.0, -0.1, 0.0)))
    with pytest.raises(ArmTimeoutError, match=TITLES['replaced']):
        arm._backend._arrival.clear()
        arm._backend.wait(lambda: False, 0.1)
        raise osc_ros.client.backend.timeout_error('late', arm._backend)


def test_motion_that_is_not_over_is_named(arm):
    reason = reason_of(arm, arm.pose(shift=(0.0, 0.3, 0.0)), 'moves', timeout=0.4)
    assert 'rad/s' in reason.cause and 'timeout' in reason.remedy


def test_force_that_nothing_resists_is_named_with_its_axis_until_something_does(arm):
    arm.axes(z='force')
    arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -10.0])
    arm.sleep(0.5)
    reason = reason_of(arm, arm.pose(shift=(0.05, 0.0, 0.0)), 'presses', 0.3)
    assert 'z presses with -10 N' in reason.cause and 'arm.axes()' in reason.remedy
    law = arm.simulation.law
    found = reasons(law.robot, law.level().task, figures_of(law))
    assert [one.name for one in found] == ['presses']  # not: wait longer
    arm.axes()
    arm.sleep(0.5)
    assert not [one for one in reasons(law.robot, law.level().task, figures_of(law))
                if one.name == 'presses']
    with osc_ros.Arm.simulated('panda', wall=WALL, ball=('panda_hand_tcp', 0.03)) as pressing:
        pressing.axes(x='force')
        pressing.set_wrench([0.0, 0.0, 0.0, 8.0, 0.0, 0.0])
        pressing.sleep(5.0)
        law = pressing.simulation.law
        assert 'presses' not in [one.name for one in reasons(
            law.robot, law.level().task, figures_of(law))]


def test_edge_of_the_workspace_is_named_and_a_goal_outside_warns():
    box = TargetLimits(box=[[0.2, -0.3, 0.2], [0.6, 0.05, 0.9]])
    with osc_ros.Arm.simulated('panda', settings=settings_of('panda', limits=box)) as arm:
        with pytest.warns(InputWarning, match='workspace box'):
            arm.move_to(arm.pose(shift=(0.0, 0.3, 0.0)))
        assert arm.pose()[1, 3] == pytest.approx(0.05, abs=3e-3)
        assert 'workspace' in [reason.name for reason in arm._backend.reasons()]


def test_free_drive_is_named(arm):
    law = arm.simulation.law
    before = law.settings
    law.change(replace(before, free=FreeDrive()))
    arm.sleep(0.1)
    assert 'free drive' in [reason.name for reason in arm._backend.reasons()]
    law.change(before)
    arm.sleep(0.1)


def test_obstacle_that_pushes_an_arm_without_a_goal_is_named():
    settings = replace(settings_of('panda'), clearance=Clearance.of(shipped_shapes('panda'), 0.03))
    law = Law(Robot.from_urdf(shipped_urdf('panda'), *SHIPPED['panda'][:2]), settings)
    arm = Simulation(shipped_urdf('panda'), law, HOME)
    arm.run(0.1)
    before = arm.pose()[:3, 3]
    law.obstacles['hand'] = Obstacle.at('sphere', 0.06, before + [0.1, 0.0, 0.04])
    arm.run(1.0)
    assert np.linalg.norm(arm.pose()[:3, 3] - before) > 0.01
    first, *_ = reasons(law.robot, law.settings.tasks[0], figures_of(law), searches=False)
    assert first.name == 'obstacle'
    assert "panda_hand is 30 mm from 'hand'" in first.cause


def test_lower_task_that_gets_no_freedom_is_named():
    robot = Robot.from_urdf(shipped_urdf('panda'), *SHIPPED['panda'][:2])
    usual = settings_of('panda')
    law = Law(robot, replace(usual, tasks=(*usual.tasks, Task(
        name='place', link=usual.tasks[0].link, axes=('free',) * 3 + ('motion',) * 3))))
    arm = Simulation(shipped_urdf('panda'), law, HOME)
    arm.run(0.1)
    goal = arm.pose()
    goal[:3, 3] += [0.0, 0.4, 0.0]
    law.follow(goal, task='place')
    arm.run(2.0)
    [reason] = [one for one in reasons(robot, law.settings.tasks[0], figures_of(law),
                                       searches=False) if one.name == 'waits']
    assert 'of task place' in reason.cause and 'higher priority' in reason.remedy


def test_reason_is_read_from_its_text():
    reason = Reason('limits', 'joints at their position limits: a at 1; b', 'move')
    assert Reason.of('limits', str(reason)) == reason
    assert len({rule.name for rule in RULES}) == len({rule.title for rule in RULES}) == len(RULES)


# commands that are changed


def test_twist_beyond_the_speeds_is_reduced_with_the_speed_in_use(arm):
    for twist, text in (([0.0, 0.0, 0.0, 0.0, 1.2, 0.0], r'1\.2 m/s.*1 m/s is used'),
                        ([0.0, 0.0, 0.0, 1.2, 1.2, 1.2], '1 m/s is used'),
                        ([0.0, 0.0, 7.0, 0.0, 0.0, 0.0], r'2\.5 rad/s is used')):
        with pytest.warns(InputWarning, match=text) as found:
            arm.jog(twist)
            arm.sleep(0.02)
        assert [one.category for one in found] == [InputWarning]
        assert found[0].filename == __file__
        arm.hold()
        arm.sleep(0.3)


def test_command_in_another_unit_is_refused_and_nothing_moves(arm):
    before = arm.state().q
    for command, text in (
            (lambda: arm.jog([0.0, 0.0, 0.0, 0.0, 50.0, 0.0]), r'millimetres\?.*0\.05 m/s'),
            (lambda: arm.jog([0.0, 0.0, 0.0, 0.0, 5.0, 0.0]), 'at most 3 m/s'),
            (lambda: arm.jog([0.0, 0.0, 10.0, 0.0, 0.0, 0.0]), r'degrees\?.*at most 7\.5 rad/s'),
            (lambda: arm.jog([0.0, 0.0, 45.0, 0.0, 0.0, 0.0]), r'degrees\?.*0\.785 rad/s'),
            (lambda: arm.jog([0.0, 0.0, 0.0, 0.0, 0.0, 1e308]), 'at most 3 m/s'),
            (lambda: arm.simulation.law.follow(osc_ros.TwistGoal(
                [0.0, 0.0, 0.0, 0.0, 1e308, 0.0], arm.state().time + 1.0)), 'at most 3 m/s'),
            (lambda: arm.move_to(arm.pose(shift=(0.0, 0.1, 0.0)), speed=5.0), 'at most 3 m/s'),
            (lambda: arm.move_to(arm.pose(shift=(0.0, 0.1, 0.0)), speed=100.0),
             r'millimetres\?.*0\.1 m/s'),
            (lambda: arm.pose(turn=(0.0, 0.0, 45.0)), r'degrees\?.*0\.7854? rad'),
            (lambda: arm.pose(turn=(0.0, 0.0, 5.0)), r'degrees\?.*0\.0873 rad'),
            (lambda: arm.pose(turn=(1e300, 1.0, 0.0)), r'at most 3\.15 rad'),
            (lambda: arm.move_joints(before, speed=30.0), r'degrees\?.*0\.524 rad/s'),
            (lambda: arm.impedance([1e6] * 6), 'stiffness.*times the largest'),
            (lambda: arm.impedance([500.0] * 6, damping_ratio=70.0), 'damping_ratio.*at most 10'),
            (lambda: arm.follow([arm.pose()] * 3, dt=50.0), r'dt.*at most 10 \[s\]')):
        with pytest.raises(InputError, match=text):
            command()
    np.testing.assert_allclose(arm.sleep(0.3).q, before, atol=1e-3)


def test_zero_twist_ends_a_jog_and_no_motion_to_a_goal(arm):
    goal = arm.pose(shift=(0.0, 0.05, 0.0))
    arm.move_to(goal, wait=False)
    for _ in range(60):
        arm.jog(np.zeros(6))
        arm.sleep(0.02)
    np.testing.assert_allclose(arm.wait(timeout=2.0).pose, goal, atol=2e-3)
    arm.jog([0.0, 0.0, 0.0, 0.0, 0.1, 0.0])
    arm.sleep(0.15)
    arm.jog(np.zeros(6))
    arm.sleep(0.1)
    assert not arm.simulation.law.target.twist.any()
    arm.move_to(goal)


def test_refused_payload_is_told_in_its_units(arm):
    for command, text in (
            (lambda: arm.payload(-1.0), r'mass.*\[kg\]'), (lambda: arm.payload(np.nan), r'\[kg\]'),
            (lambda: arm.payload(500.0), r'takes? [0-9.]+ N m .* kg$'),
            (lambda: arm.payload(0.1, (0.0, 0.0, 50.0)), r'millimetres\?.*0\.05 m'),
            (lambda: arm.payload(0.1, (0.0, 0.0)), r'center_of_mass \[m\]'),
            (lambda: arm.payload(0.1, inertia=np.eye(2)), r'inertia \[kg m²\]'),
            (lambda: arm.payload(0.0, inertia=np.eye(3)), 'kg m².* 0 kg'),
            (lambda: arm.payload(0.1, inertia=-np.eye(3)), 'kg m²')):
        with pytest.raises(OscError, match=text):
            command()


def test_half_a_turn_is_a_turn_also_when_rounded(arm):
    for turn in (np.pi, -np.pi, 3.142, np.radians(180.0)):
        arm.pose(turn=(0.0, turn, 0.0))


def test_refused_twist_in_a_stream_lets_the_arm_come_to_rest(arm):
    for _ in range(10):
        arm.jog([0.0, 0.0, 0.0, 0.0, 0.2, 0.0])
        arm.sleep(0.02)
    assert arm.simulation.law.target.twist[4] == pytest.approx(0.2)
    for _ in range(25):
        with pytest.raises(InputError):
            arm.jog([0.0, 0.0, 0.0, 0.0, 200.0, 0.0])
        arm.sleep(0.02)
    assert not arm.simulation.law.target.twist.any()
    rest = arm.state().pose
    np.testing.assert_allclose(arm.sleep(0.5).pose, rest, atol=1e-3)


def test_refused_motion_of_the_joints_ends_no_motion_of_the_tip(arm):
    goal, q = arm.pose(shift=(0.0, 0.1, 0.0)), arm.state().q
    arm.move_to(goal, duration=1.0, wait=False)
    for refused in (lambda: arm.move_joints(q, speed=30.0), lambda: arm.move_joints(q + 100.0),
                    lambda: arm.move_joints(q + 0.1, duration=2000.0)):
        with pytest.raises(InputError):
            refused()
    np.testing.assert_allclose(arm.wait().pose, goal, atol=2e-3)


def test_times_in_milliseconds_are_refused_and_a_slow_scan_is_not(arm):
    before, q = arm.pose(), arm.state().q
    for command in (lambda: arm.move_to(arm.pose(shift=(0.0, 0.3, 0.0)), duration=2000.0),
                    lambda: arm.move_to(arm.pose(turn=(0.0, 0.0, 0.5)), duration=1000.0),
                    lambda: arm.move_joints(q + 0.5, duration=2000.0),
                    lambda: arm.move_joints({'panda_joint1': 0.5}, duration=2000.0),
                    lambda: arm.follow_joints([q + 0.2, q + 0.5], [1000.0, 2000.0]),
                    lambda: arm.follow_joints([q + 0.2], [1000.0])):
        with pytest.raises(InputError, match='milliseconds'):
            command()
    np.testing.assert_allclose(arm.sleep(0.3).pose, before, atol=1e-3)
    for wanted in (lambda: arm.move_to(arm.pose(shift=(0.0, 0.3, 0.0)), duration=600.0,
                                       wait=False),
                   lambda: arm.move_joints(q + 1.0, duration=900.0, wait=False),
                   lambda: arm.follow_joints([q + 0.5, q - 0.5], [300.0, 1200.0])):
        wanted()
        arm.hold()
        arm.sleep(0.3)
    arm.home()


@pytest.mark.parametrize('command', [
    lambda arm, no: setattr(arm, 'speed_override', no), lambda arm, no: arm.jog([no] * 6),
    lambda arm, no: arm.pose(turn=[no] * 3), lambda arm, no: arm.move_to([no] * 3),
    lambda arm, no: arm.move_joints([no] * 7),
    lambda arm, no: arm.follow_joints([[no] * 7], [1.0]),
    lambda arm, no: arm.follow_joints([arm.state().q], [no]), lambda arm, no: arm.payload(no),
    lambda arm, no: arm.impedance([no] * 6), lambda arm, no: arm.impedance([9.0] * 6, no),
    lambda arm, no: arm.set_wrench([no] * 6), lambda arm, no: arm.follow([[no] * 3] * 2, 0.1)])
@pytest.mark.parametrize('no', ['1', True, None])
def test_texts_and_truth_values_are_no_numbers(arm, command, no):
    before = arm.speed_override
    with pytest.raises(InputError):
        command(arm, no)
    assert arm.speed_override == before


def test_stiffness_that_the_rate_does_not_allow_is_reduced_axis_by_axis(arm):
    with pytest.warns(InputWarning, match=r'2 ms.*is used'):
        arm.impedance([30.0, 30.0, 30.0, 6e4, 500.0, 500.0])
    found = arm.simulation.law.settings.tasks[0].gains.stiffness
    np.testing.assert_array_equal(found[[0, 1, 2, 4, 5]], [30.0] * 3 + [500.0] * 2)
    assert 1e3 < found[3] < 1e5
    arm.sleep(0.5)
    assert arm.simulation.law.gain_share() > 0.99


def test_stiffness_that_the_rate_allows_is_used_without_a_word(arm):
    spring = [30.0] * 3 + [1000.0] * 3
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        arm.impedance(spring)
    np.testing.assert_array_equal(arm.simulation.law.settings.tasks[0].gains.stiffness, spring)


def test_duration_that_is_too_short_warns_with_the_one_in_use(arm):
    began = arm.state().time
    with pytest.warns(InputWarning, match='too short') as found:
        state = arm.move_to(arm.pose(shift=(0.0, 0.1, 0.0)), duration=0.05)
    said = float(str(found[0].message).rpartition(': ')[2].split()[0])
    assert 0.2 < said < state.time - began < said + 0.5
    with pytest.warns(InputWarning, match=f'2 m/s.*{0.1 / said:.2g}[0-9]* m/s'):
        arm.move_to(arm.pose(shift=(0.0, -0.1, 0.0)), speed=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        arm.move_to(arm.pose(shift=(0.0, 0.1, 0.0)), duration=1.0)


# the property


def random_goals(name, count, seed):
    """Return goals at random postures within the middle 90 % of the joints' ranges."""
    robot = Robot.from_urdf(shipped_urdf(name), *SHIPPED[name][:2])
    rng = np.random.default_rng(seed)
    low, high = np.clip(robot.position_limits.T, -np.pi, np.pi)
    return [link_pose(robot, low + (0.05 + 0.9 * rng.random(robot.n)) * (high - low), robot.tip)
            for _ in range(count)]


def arrives_or_names_the_cause(name, count, seed):
    arrived = 0
    with osc_ros.Arm.simulated(name) as arm:
        for goal in random_goals(name, count, seed):
            try:
                state = arm.move_to(goal, timeout=6.0)
            except ArmTimeoutError as error:
                assert error.reasons[0].name in TITLES, str(error)
                arm.simulation.reset()
                arm.sleep(0.01)
            else:
                arrived += 1
                assert np.linalg.norm(state.pose[:3, 3] - goal[:3, 3]) < 3.0 * PLACED
    return arrived


@pytest.mark.parametrize('name', ['panda', 'ur5e'])
def test_random_goal_is_reached_or_the_cause_is_named(name):
    assert arrives_or_names_the_cause(name, 15, seed=1) > 2


@pytest.mark.slow  # quick: test_random_goal_is_reached_or_the_cause_is_named
@pytest.mark.parametrize('name', ['panda', 'ur5e', 'iiwa14', 'gen3'])
def test_each_of_many_random_goals_is_reached_or_the_cause_is_named(name):
    assert arrives_or_names_the_cause(name, 250, seed=2) > 50


NAMED = re.compile(r'(\w+) at (\S+) (?:\(limit (\S+)|of (\S+)) (?:rad|N m)')


def named_limits(name, count, seed):
    """Check the joints that are named while the tip hurries to goals; return how often each is."""
    found, arm = Counter(), osc_ros.Arm.simulated(name)
    with arm:
        law, names = arm.simulation.law, list(arm.joint_names)
        for goal in random_goals(name, count, seed):
            arm.move_to(goal, wait=False, through_joints=False)
            for _ in range(12):
                arm.sleep(0.06)
                figures = figures_of(law)
                for reason in warnings_of(law.robot, law.settings.tasks[0], figures):
                    joints = NAMED.findall(reason.cause)
                    assert bool(joints) == (reason.name in ('limits', 'speed', 'torque')), reason
                    for joint, value, *limits in joints:
                        i, limit = names.index(joint), float(''.join(limits))
                        value = float(value)
                        found[reason.name] += 1
                        if reason.name == 'limits':
                            assert np.abs(figures.q[i] - limit) < 0.101, reason
                        elif reason.name == 'speed':
                            assert abs(value) > 0.79 * limit, reason
                            assert limit == pytest.approx(law.robot.velocity_limits[i], rel=1e-2)
                        else:
                            assert abs(value) > 0.9 * limit, reason
    return found


@pytest.mark.parametrize('count', [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_joint_is_said_to_be_at_the_limit_that_it_is_at_with_both_numbers(count):
    found = named_limits('panda', count, seed=2)
    assert found['speed'] > 0.2 * count and found['limits'] > 0
