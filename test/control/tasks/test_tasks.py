# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Priorities, impedance, force control and live changes of tasks, by MuJoCo and Pinocchio."""

from dataclasses import replace

import numpy as np
import pinocchio
import pytest
import scipy.linalg

from arm import Arm, JUMPS, moved, PANDA, PERIOD, READY
from judge import configuration, pinocchio_model
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.trajectory import figure_of_eight, Path, PoseGoal
from osc_ros.control.settings import Settings
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import ForceControl, Gains, Stiffness, Task
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.errors import InputError
from osc_ros.sim import Plant
import tolerances
from variants import first_quick

GAINS = Gains([20.0] * 6, [1.0] * 6, [2.5, 1.0], [60.0, 20.0])
POSITION, ORIENTATION = ('free',) * 3 + ('motion',) * 3, ('motion',) * 3 + ('free',) * 3
ELBOW = Task(GAINS, 'elbow', 'panda_link4', POSITION)
TIP = Task(GAINS)
FAST = np.full(7, 100.0)  # speed limits that no task reaches [rad/s]


def accelerations(arm, q, qd, tau, link):
    """Return the acceleration (6,) of a link, base axes, angular first, by Pinocchio."""
    model, data, _ = pinocchio_model(PANDA.urdf_text, PANDA.base, PANDA.tip,
                                     arm.robot.joint_names, {})
    full = configuration(model, q)
    qdd = pinocchio.aba(model, data, full, qd, tau)
    pinocchio.forwardKinematics(model, data, full, qd, qdd)
    a = pinocchio.getFrameClassicalAcceleration(
        model, data, model.getFrameId(link), pinocchio.LOCAL_WORLD_ALIGNED)
    return np.hstack([a.angular, a.linear])


def random_states(count, seed=0):
    rng = np.random.default_rng(seed)
    return [(READY + 0.3 * rng.normal(size=7), 0.3 * rng.normal(size=7)) for _ in range(count)]


@pytest.mark.parametrize('frame', first_quick(
    ['', 'panda_link5', 'panda_hand_tcp', 'panda_link0'], 2))
@pytest.mark.parametrize('axes', [
    ('motion',) * 6, POSITION, ORIENTATION,
    ('motion', 'free', 'free', 'motion', 'motion', 'free')])
def test_controlled_axes_get_the_acceleration_that_was_asked_for(axes, frame):
    arm = Arm(tasks=(Task(GAINS, axes=axes, frame=frame),))
    arm.law.follow(PoseGoal(moved(arm.pose, (0.05, -0.03, 0.02), (0.1, 0.2, -0.1))), 0.0)
    model, data, _ = pinocchio_model(PANDA.urdf_text, PANDA.base, PANDA.tip,
                                     arm.robot.joint_names, {})
    for q, qd in random_states(5):
        tau = arm.law.torque(0.0, q, qd)
        if arm.law.limiter.d.limits_work:
            continue
        pinocchio.framesForwardKinematics(model, data, configuration(model, q))
        R = (np.eye(3) if frame == '' else data.oMf[model.getFrameId(frame)].rotation)
        missed = np.kron(np.eye(2), R.T) @ (
            accelerations(arm, q, qd, tau, PANDA.tip) - arm.law.u)
        chosen = np.array(axes) == 'motion'
        assert np.abs(missed[chosen]).max() < tolerances.COMMAND_MET * 60.0


def test_lower_task_moves_the_upper_one_by_less_than_a_billionth_in_acceleration():
    arm = Arm(tasks=(TIP, ELBOW))
    compared = 0
    for q, qd in random_states(60):
        found = []
        for shift in (0.0, 0.03, -0.05):
            arm.law.hold(READY)
            arm.law.follow(PoseGoal(moved(arm.law.levels['elbow'].pose, (shift, shift, 0.0))), 0.0,
                           task='elbow')
            tau = arm.law.torque(0.0, q, qd)
            found.append((tau, accelerations(arm, q, qd, tau, PANDA.tip),
                          arm.law.limiter.d.limits_work))
        if any(saturated for *_, saturated in found):
            continue
        compared += 1
        (tau, still, _), *others = found
        for other, acceleration, _ in others:
            assert np.abs(other - tau).max() > 1e-3
            assert np.abs(acceleration - still).max() < 1e-9
    assert compared > 5


def test_elbow_moves_and_the_tip_stays_within_half_a_millimetre(drawn):
    arm = Arm(velocity=FAST, tasks=(TIP, ELBOW))
    elbow = arm.plant.pose('panda_link4')
    arm.law.follow(PoseGoal(moved(elbow, (0.0, 0.15, 0.0))), 0.2, task='elbow')
    elbows = []
    arm.run(2.5, lambda: elbows.append(arm.plant.pose('panda_link4')[:3, 3] - elbow[:3, 3]))
    distances, angles = arm.errors(arm.pose)
    went = np.array(elbows)[:, 1]
    drawn('tasks', 'The elbow is to move by 150 mm, as far as the tip can stay where it is',
          arm.times, {'elbow along y [mm]': {'motion': 1e3 * went},
                      'tip [mm]': {'distance from\nits target': 1e3 * distances}},
          {0.2: 'target of the elbow'})
    assert went[-1] > 0.05
    assert distances.max() < 5e-4
    assert angles.max() < 5e-3


def test_activation_from_none_to_all_and_back_has_bounded_steps_of_torque(drawn):
    arm = Arm(velocity=FAST, tasks=(TIP, replace(ELBOW, activation=0.0)))
    off = arm.law.settings
    on = replace(off, tasks=(TIP, ELBOW))
    elbow = moved(arm.plant.pose('panda_link4'), (0.0, 0.1, 0.0))
    arm.law.follow(PoseGoal(elbow), 0.0, task='elbow')
    arm.run(0.3)
    before = arm.torques[-1]
    arm.law.change(on)
    arm.run(1.5)
    arm.law.change(off)
    arm.run(3.0)
    steps = np.abs(np.diff(arm.torques, axis=0)).max(axis=1)
    distances, _ = arm.errors(arm.pose)
    drawn('activation', 'A second task, of the elbow, is switched on and off', arm.times, {
        'joint torque [N m]': {f'joint {k + 1}': np.array(arm.torques)[:, k] for k in range(7)},
        'tip [mm]': {'distance from\nits target': 1e3 * distances}}, {0.3: 'on', 1.5: 'off'})
    assert np.abs(arm.torques[-1] - before).max() < 1.0
    assert np.abs(np.array(arm.torques) - before).max() > 2.0
    assert steps.max() < 0.5
    assert distances.max() < 5e-4


SOFT = Task(Stiffness([50.0] * 3 + [400.0] * 3, [1.0] * 6, [10.0, 50.0]))


@pytest.mark.parametrize('change', [
    lambda s: replace(s, tasks=(Task(Gains([5.0] * 6, [0.5] * 6, [2.5, 1.0], [60.0, 20.0])),)),
    lambda s: replace(s, tasks=(SOFT,)),
    lambda s: replace(s, tasks=(replace(TIP, axes=POSITION),)),
    lambda s: replace(s, tasks=(replace(TIP, axes=POSITION), replace(TIP, name='turn'))),
    lambda s: replace(s, tasks=(TIP, ELBOW)),
    lambda s: replace(s, tasks=(ELBOW,)),
    lambda s: replace(s, tasks=(replace(TIP, activation=0.2),)),
    lambda s: replace(s, posture=Posture(0.0, 0.0, 10.0)),
    lambda s: replace(s, damping=SingularityDamping(0.3, 0.2, 0.5)),
], ids=['gains', 'mode', 'axes', 'levels', 'a task more', 'another link', 'activation', 'posture',
        'damping'])
def test_torque_goes_on_where_it_was_whatever_is_changed(change):
    arm = Arm()
    path = figure_of_eight(arm.pose, 0.3, 0.15, 3.0, 1.0, 0.1, swing=0.17)
    arm.law.follow(path, 0.1)
    arm.run(0.7)
    plain = np.abs(np.diff(arm.torques, axis=0)).max()
    arm.law.follow(PoseGoal(moved(arm.law.pose, (0.02, 0.0, 0.01))), 0.6)  # makes a pose error
    arm.run(0.75)
    first, usual = arm.law.settings, len(arm.torques)
    arm.law.change(change(first))
    arm.run(0.85)
    arm.law.change(first)  # while the first change still blends in
    arm.run(1.3)
    steps = np.abs(np.diff(arm.torques, axis=0)).max(axis=1)[usual - 1:]
    assert steps.max() < 3.0 * plain + 1.0


def second_order(times, frequency, ratio):
    """Return the unit step response of a second-order system at these times."""
    if ratio == 1.0:
        return 1.0 - np.exp(-frequency * times) * (1.0 + frequency * times)
    fast = frequency * np.sqrt(1.0 - ratio ** 2)
    return 1.0 - np.exp(-ratio * frequency * times) * (
        np.cos(fast * times) + ratio * frequency / fast * np.sin(fast * times))


def test_each_axis_steps_as_its_own_second_order_system(drawn):
    frequency, ratio = [12.0, 15.0, 20.0, 10.0, 15.0, 25.0], [1.0, 0.7, 1.0, 1.0, 0.5, 0.8]
    arm = Arm(tasks=(Task(Gains(frequency, ratio, [1e3, 1e3], [1e4, 1e4])),))
    size = np.array([0.01, 0.012, 0.008])
    arm.law.follow(PoseGoal(moved(arm.pose, shift=size)), 0.0)
    arm.run(1.0)
    times = np.array(arm.times)
    went = (np.array(arm.poses)[:, :3, 3] - arm.pose[:3, 3]) / size
    expected = np.array([second_order(times, frequency[3 + k], ratio[3 + k])
                         for k in range(3)]).T
    drawn('steps', 'Steps of the tip along three axes, each with gains of its own', times, {
        f'{axis} [share of step]\nω {frequency[3 + k]:g} rad/s, ζ {ratio[3 + k]:g}': {
            'tip, by MuJoCo': went[:, k], 'second-order system': expected[:, k]}
        for k, axis in enumerate('xyz')})
    assert np.abs(went - expected).max() < 0.02


def stiff(K, ratio=1.0, **more):
    return Task(Stiffness([50.0] * 3 + K, [ratio] * 6, [100.0, 1000.0]), **more)


@pytest.mark.parametrize('force', [(12.0, 0.0, 0.0), (0.0, -8.0, 0.0), (5.0, 4.0, -10.0)])
def test_spring_gives_way_by_force_over_stiffness(force):
    K = [300.0, 800.0, 500.0]
    arm = Arm(tasks=(stiff(K),))
    arm.plant.push(PANDA.tip, force)
    arm.run(3.0)
    deflection = arm.poses[-1][:3, 3] - arm.pose[:3, 3]
    np.testing.assert_allclose(deflection, np.array(force) / K,
                               atol=0.01 * np.abs(np.array(force) / K).max())


def test_spring_in_the_axes_of_a_link_gives_way_in_those():
    K, force = np.array([300.0, 2000.0, 600.0]), np.array([5.0, 4.0, -6.0])
    arm = Arm(q=READY + np.array([0.3, 0.1, 0.0, 0.2, 0.1, -0.2, 0.4]),
              tasks=(stiff(K.tolist(), frame=PANDA.tip),))
    R = arm.pose[:3, :3]
    arm.plant.push(PANDA.tip, force)
    arm.run(3.0)
    deflection = arm.poses[-1][:3, 3] - arm.pose[:3, 3]
    np.testing.assert_allclose(deflection, R @ ((R.T @ force) / K), atol=2e-4)


@pytest.mark.parametrize('ratio', [0.3, 0.7, 1.0])
def test_spring_is_damped_as_asked_in_the_coordinates_that_inertia_and_stiffness_share(
        ratio, drawn):
    arm = Arm(tasks=(stiff([600.0] * 3, ratio),))
    Lambda = arm.law.space.evaluate(READY, np.zeros(7)).Lambda
    squares, X = scipy.linalg.eigh(np.diag([50.0] * 3 + [600.0] * 3), Lambda)
    away = X[:, 0] / max(np.abs(X[:3, 0]).max() / 0.02, np.abs(X[3:, 0]).max() / 0.01)
    target = moved(arm.pose, away[3:], away[:3])
    arm.law.follow(PoseGoal(target), 0.0)
    arm.run(1.5)
    times = np.array(arm.times)
    error = np.array([pose_error(T, target) for T in arm.poses])
    went = 1.0 - error @ Lambda @ X[:, 0] / (away @ Lambda @ X[:, 0])
    expected = second_order(times, np.sqrt(squares[0]), ratio)
    if ratio == 0.3:
        drawn('impedance', 'Step of a tip on a spring', times, {'motion [share of step]': {
            'tip, by MuJoCo': went, 'second-order system': expected}})
    assert np.abs(went - expected).max() < 0.03


def pressing(control, force=-15.0, **more):
    """Return an arm with a ball at its tip, 1 cm above a table, and a force set-point."""
    axes = ('motion',) * 5 + ('force',)
    probe = Arm()
    table = np.eye(4)
    table[:3, 3] = probe.pose[:3, 3] - [0.0, 0.0, 0.02]
    arm = Arm(tasks=(Task(GAINS, axes=axes, force=control),), wall=table, ball=(PANDA.tip, 0.01),
              **more)
    arm.law.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, force])
    return arm


@pytest.mark.parametrize('loop, friction', first_quick([
    ('closed', 0.3), ('open', 0.0), ('closed', 0.0)]))
def test_force_on_a_stiff_table_is_held_while_the_tip_moves_sideways(loop, friction, drawn):
    control = (ForceControl() if loop == 'open' else
               ForceControl(gain=0.3, integral_rate=10.0))
    arm = pressing(control, friction=[friction] * 7)
    path = figure_of_eight(arm.pose, 0.2, 0.1, 2.5, 1.0, 1.0)
    path = flat(path, arm.pose)
    arm.law.follow(path, 1.0)
    forces = []

    def measure():
        forces.append(arm.plant.contact_force())
        arm.law.set_measured_wrench(np.hstack([np.zeros(3), forces[-1]]), arm.plant.time)

    arm.run(4.5, measure)
    times, forces = np.array(arm.times), np.array(forces)
    sideways = np.array([np.linalg.norm((T - path.at(t).pose)[:2, 3])
                         for t, T in zip(arm.times, arm.poses)])
    if friction or loop == 'open':
        drawn(f'force_{loop}', f'A force of 15 N on a table while the tip moves sideways, {loop} '
              'loop', times, {
                  'force [N]\n(cut at 30 N)': {'measured': np.minimum(-forces[:, 2], 30.0),
                                               'wanted': 0.0 * times + 15.0},
                  'sideways error [mm]': {'distance': 1e3 * sideways}})
    moving = times > 1.0
    off = np.abs(forces[moving, 2] + 15.0)
    assert off.max() < (0.5 if friction == 0.0 else 3.0)
    assert sideways[moving].max() < (5e-4 if friction == 0.0 else 1e-2)


def test_lower_task_presses_while_the_upper_one_turns_the_tip():
    control = ForceControl(gain=0.3, integral_rate=10.0)
    arm = pressing(control)
    arm.law.change(replace(arm.law.settings, tasks=(
        Task(GAINS, 'turn', axes=('motion',) * 3 + ('free',) * 3, limits=JUMPS),
        Task(GAINS, 'press', PANDA.tip, ('free',) * 3 + ('motion', 'motion', 'force'),
             force=control, limits=JUMPS))))
    arm.law.set_wrench([0.0] * 5 + [-15.0], 'press')
    turned = moved(arm.pose, turn=(0.0, 0.0, 0.3))
    arm.law.follow(Path([0.5, 1.5], [arm.pose, turned]), 0.0, 'turn')
    arm.run(3.0, lambda: arm.law.set_measured_wrench(
        np.hstack([np.zeros(3), arm.plant.contact_force()]), arm.plant.time, 'press'))
    assert arm.plant.contact_force()[2] == pytest.approx(-15.0, abs=0.5)
    # the tip has errors: the law compensates the effect of the wrench on the task of higher
    # priority, although the reaction of the table cancels this effect already
    assert np.linalg.norm((arm.poses[-1] - arm.pose)[:2, 3]) < 0.015
    assert arm.errors(turned)[1][-1] < 0.06


def flat(path, pose):
    """Return the path, rotated into the horizontal plane."""
    targets = [path.at(t) for t in path.times]
    poses, twists, rates = [], [], []
    down = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    for target in targets:
        T = pose.copy()
        T[:3, 3] += down @ (target.pose - pose)[:3, 3]
        poses.append(T)
        twists.append(np.hstack([np.zeros(3), down @ target.twist[3:]]))
        rates.append(np.hstack([np.zeros(3), down @ target.acceleration[3:]]))
    return Path(path.times, poses, twists, rates)


def test_integral_of_force_in_the_air_stops_at_its_bound_and_the_arm_goes_on_slowly():
    arm = pressing(ForceControl(gain=0.3, integral_rate=10.0))
    arm.plant.model.geom('wall').pos[2] -= 1.0
    arm.run(1.0, lambda: arm.law.set_measured_wrench(np.zeros(6), arm.plant.time))
    d = arm.law.priorities.d
    assert np.abs([d.level_rate, d.level_wrench]).max() <= 15.0 * 1.3 + 20.0 + 1e-9
    speeds = np.diff(np.array(arm.poses)[:, 2, 3]) / PERIOD
    assert np.abs(speeds).max() < 1.0


def test_measured_wrench_that_cannot_be_pulls_no_more_than_the_correction():
    arm = pressing(ForceControl(gain=0.3))
    arm.run(2.0)
    arm.law.set_measured_wrench([0.0] * 5 + [1e4], arm.plant.time)
    arm.run(arm.plant.time + PERIOD)
    assert abs(arm.law.priorities.d.level_wrench[0, 5] + 15.0) < 20.0 + 1e-3
    with pytest.raises(InputError, match='at most 100000'):
        arm.law.set_measured_wrench([0.0] * 5 + [1e308], arm.plant.time)


def test_force_is_frozen_when_nothing_is_measured_any_more():
    arm = pressing(ForceControl(gain=0.3, integral_rate=10.0))
    measured = lambda: arm.law.set_measured_wrench(  # noqa: E731
        np.hstack([np.zeros(3), 0.8 * arm.plant.contact_force()]), arm.plant.time)
    arm.run(2.0, measured)
    held = arm.plant.contact_force()[2]
    arm.run(4.0)
    assert abs(arm.plant.contact_force()[2] - held) < 0.5
    assert held == pytest.approx(-15.0 / 0.8, abs=0.3)
    assert np.abs(np.diff(arm.torques, axis=0))[-900:].max() < 0.1


def arm_of(n):
    """Return the URDF of a chain of n revolute joints of varied axes, and a start (n,)."""
    axes = ['0 0 1', '0 1 0', '0 1 0', '1 0 0']
    links = ''.join(f"""<link name="link{k}"><inertial><origin xyz="0.1 0 0"/><mass value="1.5"/>
        <inertia ixx="0.004" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
                    for k in range(n + 1))
    joints = ''.join(f"""<joint name="joint{k}" type="revolute"><parent link="link{k}"/>
        <child link="link{k + 1}"/><origin xyz="0.25 0 0"/><axis xyz="{axes[k % 4]}"/>
        <limit lower="-3" upper="3" effort="500" velocity="10"/></joint>""" for k in range(n))
    joints += (f'<link name="tip"/><joint name="end" type="fixed"><parent link="link{n}"/>'
               '<child link="tip"/><origin xyz="0.25 0 0"/></joint>')
    return f'<robot name="row">{links}{joints}</robot>', np.resize([0.4, 0.6, 1.2, 0.7], n)


@pytest.mark.parametrize('n', range(3, 10))
def test_arms_of_three_to_nine_joints_go_where_they_can_along_the_axes_that_they_have(n):
    urdf, q = arm_of(n)
    robot = Robot.from_urdf(urdf, 'link0', 'tip')
    plant = Plant(urdf, 'link0', robot.joint_names, friction=[0.0] * n, damping=[0.0] * n)
    axes = ('motion',) * 6 if n >= 6 else POSITION
    law = Law(robot, Settings((Task(GAINS, axes=axes, limits=JUMPS),), Posture(5.0, 1.0, 1.0),
                              SingularityDamping(0.3, 0.02, 0.06), Limits.of(robot)))
    plant.reset(q)
    law.hold(q)
    target = moved(plant.pose(robot.tip), (0.02, -0.01, 0.03))
    law.follow(PoseGoal(target), 0.0)
    while plant.time < 1.5:
        plant.step(law.torque(plant.time, plant.q, plant.qd), 2)
    np.testing.assert_allclose(plant.pose(robot.tip)[:3, 3], target[:3, 3], atol=1e-4)
    assert (law.priorities.shares > 0.99).all()


@pytest.mark.parametrize('n', [3, 4, 5])
def test_arms_with_fewer_joints_than_axes_hold_still_and_report_the_loss(n):
    urdf, q = arm_of(n)
    robot = Robot.from_urdf(urdf, 'link0', 'tip')
    plant = Plant(urdf, 'link0', robot.joint_names, friction=[0.0] * n, damping=[0.0] * n)
    law = Law(robot, Settings((TIP,), Posture(5.0, 1.0, 1.0),
                              SingularityDamping(0.3, 0.02, 0.06), Limits.of(robot)))
    plant.reset(q)
    law.hold(q)
    before = plant.pose(robot.tip)
    while plant.time < 0.5:
        plant.step(law.torque(plant.time, plant.q, plant.qd), 2)
    np.testing.assert_allclose(plant.pose(robot.tip), before, atol=1e-6)
    assert (law.priorities.shares == 0.0).sum() == 6 - n


def test_terms_add_up_to_the_torque():
    arm = Arm(tasks=(TIP, ELBOW))
    arm.law.follow(PoseGoal(moved(arm.pose, (0.05, 0.0, 0.0))), 0.0)
    arm.run(0.1)
    arm.law.change(replace(arm.law.settings, tasks=(SOFT, ELBOW)))
    arm.run(0.15)
    terms = arm.law.terms()
    assert list(terms) == ['bias', 'posture', 'tip', 'elbow', 'fading', 'limits']
    np.testing.assert_allclose(sum(terms.values()), arm.torques[-1], rtol=1e-12)
    assert np.abs(terms['fading']).max() > 0.1
    model, data, _ = pinocchio_model(PANDA.urdf_text, PANDA.base, PANDA.tip,
                                     arm.robot.joint_names, {})
    time, q, qd, tau = arm.law._tick()
    h = pinocchio.nonLinearEffects(model, data, configuration(model, q), qd)
    np.testing.assert_allclose(terms['bias'], h, atol=tolerances.AGREEMENT * np.abs(h).max())
    assert np.abs(terms['limits']).max() < 1e-9


def test_what_limits_take_away_is_told():
    arm = Arm()
    arm.law.follow(PoseGoal(moved(arm.pose, (0.5, 0.0, 0.0))), 0.0)
    effort = 1.2 * np.abs(arm.law.bias_torque(READY, np.zeros(7))) + 2.0
    weak = replace(arm.law.settings, limits=Limits.of(arm.robot, effort=effort))
    arm.law.change(weak)
    arm.run(1.0)
    assert np.abs(arm.law.terms()['limits']).max() > 1.0


def test_predicted_acceleration_is_the_measured_one_if_the_model_is_right_and_nothing_pushes():
    arm = Arm()
    arm.law.follow(PoseGoal(moved(arm.pose, (0.02, 0.01, 0.0))), 0.0)
    arm.run(0.05)
    predicted, met = arm.law.predicted_and_measured()
    assert np.abs(predicted - met).max() < 0.05 * np.abs(met).max()
    arm.plant.push(PANDA.tip, [0.0, 0.0, -20.0])
    arm.run(0.06)
    predicted, met = arm.law.predicted_and_measured()
    assert np.abs(predicted - met).max() > 0.5


@pytest.mark.parametrize('given, message', [
    ({'axes': ('motion',) * 5}, "'tip'.*axes .*'motion'.*array of 6"),
    ({'axes': ('motion',) * 5 + ('fixed',)}, 'motion, force, free'),
    ({'activation': 1.5}, "'tip'.*activation 1.5: must be .*at least 0, at most 1"),
])
def test_bad_tasks_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        Task(GAINS, **given)


@pytest.mark.parametrize('task, message', [
    (Task(GAINS, link='panda_link9'), 'panda_link9'),
    (Task(GAINS, frame='panda_link9'), "frame 'panda_link9'"),
    (Task(GAINS, link='panda_link0'), 'panda_link0'),
])
def test_tasks_on_links_that_are_not_there_are_refused_and_the_law_stays(task, message):
    arm = Arm()
    first = arm.law.settings
    with pytest.raises((InputError, ValueError), match=message):
        arm.law.change(replace(first, tasks=(task,)))
    assert arm.law.settings is first


def test_tasks_are_told_apart_by_name():
    arm = Arm(tasks=(TIP, ELBOW))
    with pytest.raises(InputError, match="'wrist'.*tip, elbow"):
        arm.law.follow(PoseGoal(arm.pose), 0.0, task='wrist')
    with pytest.raises(InputError, match='tip, tip.*(give|must be)'):
        replace(arm.law.settings, tasks=(TIP, TIP))
    with pytest.raises(InputError, match='axis 5.*motion'):
        arm.law.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
