# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The compensation of what the model lacks: its rules, and its reach with wrong models."""

from dataclasses import replace
from functools import cache
import math

import numpy as np
import pinocchio as pin
import pytest

from arm import Arm, moved, PANDA, PERIOD, READY
from foreign import ForeignPlant
from judge import Case, robot_cases
from osc_ros import InputError, Law, Robot, Settings
from osc_ros.control.model_error.disturbance import (
    compensate,
    Compensation,
    Disturbance,
    FALLS,
    FOLLOWS,
    HELD,
    random_position,
    yielding_axes,
)
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.model_error.observer import OBSERVER
from osc_ros.control.setpoint.trajectory import figure_of_eight
from osc_ros.control.tasks.task import ForceControl, Gains, Stiffness, TargetLimits, Task
from osc_ros.dynamics.methods import default_method
from osc_ros.sim import Plant
from shipped import ends, parameters, urdf
from variants import first_quick

PERIODS = round(1.0 / PERIOD)
BASE, NONE = np.eye(3), np.zeros(0)


@cache
def panda():
    return Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)


class Wrong(ForeignPlant):
    """The Panda of Pinocchio with heavier links, a payload and dry friction."""

    def __init__(self, links=1.0, payload=0.0, friction=0.0, beside=0.0):
        super().__init__('panda', panda().joint_names, friction=friction)
        for k, one in enumerate(self.model.inertias.tolist()):
            self.model.inertias[k] = pin.Inertia(links * one.mass, one.lever, links * one.inertia)
        frame = self.model.frames[self.tip]
        load = pin.Inertia.FromSphere(max(payload, 1e-9), 0.05)
        load.lever = np.array([beside, 0.0, 0.5 * beside])
        self.model.appendBodyToJoint(frame.parentJoint, load, frame.placement)
        self.data = self.model.createData()
        self.reset(READY)


class Run:
    """A law with default settings, a wrong plant, and the compensation or none."""

    def __init__(self, plant, compensation=True, task=None, friction=None, robot=None):
        self.plant, self.robot = plant, panda() if robot is None else robot
        given = {} if task is None else {'tasks': (task,)}
        if friction is not None:
            given['friction'] = Friction(np.full(7, friction), np.zeros(7))
        self.law = Law(self.robot, Settings.of(
            self.robot, disturbance=Disturbance() if compensation else None, **given))
        self.law.hold(plant.q)
        self.tau, self.errors, self.times = np.zeros(self.robot.n), [], []

    def step(self):
        q, qd, time = self.plant.q.copy(), self.plant.qd.copy(), self.plant.time
        self.tau = self.law.torque(time, q, qd)
        self.times.append(time)
        self.errors.append(self.law.error)

    def run(self, seconds):
        for _ in range(round(seconds * PERIODS)):
            self.step()
            if isinstance(self.plant, Plant):
                self.plant.step(self.tau, 2)
            else:
                self.plant.step(self.tau, PERIOD)
        return self

    def visited(self, goals, seed):
        """Go to random goals, 3 s each; yield the largest errors of the last 0.3 s [mm], [°]."""
        pose, rng = self.plant.pose(), np.random.default_rng(seed)
        for _ in range(goals):
            self.law.follow(moved(pose, rng.uniform(-0.08, 0.08, 3), rng.uniform(-0.5, 0.5, 3)))
            distance, angle = self.run(3.0).last(0.3)
            yield distance.max(), angle.max()

    def last(self, seconds):
        """Return distances (k,) [mm] and angles (k,) [°] to the goal in the last `seconds`."""
        errors = np.array(self.errors[-round(seconds * PERIODS):])
        return (1e3 * np.linalg.norm(errors[:, 3:], axis=1),
                np.degrees(np.linalg.norm(errors[:, :3], axis=1)))


def jacobian(robot, q):
    method, J = default_method(robot), np.empty((6, robot.n))
    method.outward(q, np.zeros(robot.n), None, None)
    method.jacobian(J)
    return J


ALL_THREE = {'links': 1.1, 'payload': 1.0, 'friction': 1.0}


def loaded(mass):
    """Return a run whose compensation begins with the weight of a payload [kg]."""
    run = Run(Wrong(payload=mass))
    run.law.begin_with(run.plant.weight() - run.law.bias_torque(READY, np.zeros(7)))
    return run


def at_rest(compensation, seconds=4.0, **wrong):
    run = Run(Wrong(**wrong), compensation)
    run.law.follow(moved(run.plant.pose(), (0.05, 0.05, -0.05)))
    return run.run(seconds)


class TestReach:
    """How much of the error remains, in Pinocchio; default gains."""

    @pytest.mark.parametrize('wrong', (
        *(pytest.param(one, marks=pytest.mark.slow) for one in (
            {'links': 1.1}, {'payload': 1.0}, {'friction': 1.0})), ALL_THREE), ids=str)
    def test_error_at_rest_is_small_after_two_seconds(self, wrong):
        distance, angle = at_rest(True, **wrong).last(2.0)
        assert distance.max() < 0.3
        assert angle.max() < 0.1
        assert np.ptp(distance[-PERIODS:]) < 0.1  # no hunting

    @pytest.mark.parametrize('mass', (1.0, 3.0))
    def test_payload_that_is_told_while_it_is_compensated_lets_the_arm_stand_and_arrive(
            self, mass):
        before = (run := loaded(mass).run(2.0)).tau
        run.law.change(robot=panda().with_payload(mass))
        torques = [before]
        for _ in range(PERIODS):
            torques.append(run.run(PERIOD).tau)
        steps = np.abs(np.diff(torques, axis=0)) / panda().effort_limits
        assert steps.max() < 0.02
        assert np.abs(run.law.compensation).max() < 0.5
        distance, angle = run.run(1.0).last(0.5)
        assert distance.max() < 0.5 and angle.max() < 0.1
        run.law.follow(moved(run.plant.pose(), (0.0, 0.0, 0.05)))
        distance, angle = run.run(3.0).last(0.5)
        assert distance.max() < 0.5 and angle.max() < 0.1

    def test_payload_that_is_told_during_a_reaction_is_left_to_the_model_after_it(self):
        before = (run := loaded(1.0).run(1.0)).tau
        run.law.use_setup(run.law.new_setup(robot=panda().with_payload(1.0)), commands=False)
        run.law.hold_at(run.plant.q)
        assert np.abs(run.law.compensation).max() < 0.5
        run.step()
        assert (np.abs(run.tau - before) < 0.02 * panda().effort_limits).all()

    @pytest.mark.slow  # quick: the other tests of this class
    @pytest.mark.parametrize('beside', (0.1, 0.0, -0.1))
    def test_wrist_arrives_with_an_unknown_load_beside_the_tip_and_friction(self, beside):
        """The bound of its compensation stopped joint 7 before the goal: 3.6° remained."""
        run = Run(Wrong(beside=beside, **ALL_THREE))
        for distance, angle in run.visited(3, 1):
            assert distance < 0.1
            assert angle < 0.1

    @pytest.mark.parametrize('told', (pytest.param(0.6, marks=pytest.mark.slow), 1.0))
    def test_arm_arrives_if_friction_is_told_too_large(self, told):
        """The controller braked a slow joint by friction that is not there: 2.7° remained."""
        run = Run(Wrong(friction=0.5), friction=told)
        for distance, angle in run.visited(3, 2):
            assert distance < 0.1
            assert angle < 0.1

    @pytest.mark.slow  # quick: the test above
    def test_friction_that_is_told_too_large_leaves_no_large_error_in_motion(self):
        run = Run(Wrong(friction=0.5), friction=1.0)
        run.law.follow(figure_of_eight(run.plant.pose(), 0.3, 0.15, 4.0, 1.0, 1.0), 0.5)
        distance, angle = run.run(6.0).last(5.5)
        assert math.sqrt((distance**2).mean()) < 1.5
        assert math.sqrt((angle**2).mean()) < 0.7

    @pytest.mark.slow  # quick: test_error_at_rest_is_small_after_two_seconds
    def test_plot_of_what_remains(self, drawn):
        runs = {name: at_rest(name == 'with', 4.0, **ALL_THREE) for name in ('without', 'with')}
        drawn('disturbance',
              'A goal 9 cm away: links 10 % heavier, 1 kg unknown, 1 N·m of friction',
              runs['without'].times, {
                  'position error [mm]': {name: run.last(4.0)[0] for name, run in runs.items()},
                  'orientation error [°]': {name: run.last(4.0)[1] for name, run in runs.items()}})
        ends = [run.last(0.1)[0].max() for run in runs.values()]
        assert ends[0] > 15.0 > 10.0 * ends[1]

    @pytest.mark.parametrize('name', first_quick(
        ('xarm7', 'iiwa14', 'gen3', 'ur5e', 'panda', 'fr3'), 2))
    @pytest.mark.parametrize('friction', (
        1.0, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.0, 0.3))))
    def test_arm_with_a_light_wrist_and_friction_arrives_within_five_seconds(self, name, friction):
        """At rest the compensation integrated the tiny feedback torque: 1° to 5° remained."""
        if name == 'xarm7':
            case, start = robot_cases()[name], np.array([0.0, -0.5, 0.0, 1.2, 0.0, 1.0, 0.0])
        else:
            case = Case(urdf(name), *ends(name))
            start = parameters(name, '/**/osc_simulator')['initial_positions']
        robot = Robot.from_urdf(case.urdf_text, case.base, case.tip)
        plant = ForeignPlant(case, robot.joint_names, friction=friction)
        for shift, turn in (((0.05, 0.05, -0.05), (0.0, 0.0, 0.0)),
                            ((0.02, -0.06, 0.0), (-0.2, 0.3, 0.0))):
            plant.reset(start)
            run = Run(plant, robot=robot)
            run.law.follow(moved(plant.pose(), shift, turn))
            distance, angle = run.run(7.0).last(2.0)
            assert angle.max() < 0.1 and distance.max() < 0.3
            assert np.ptp(distance) < 0.1  # no hunting

    def test_without_compensation_the_error_is_large(self):
        distance, angle = at_rest(False, 2.0, **ALL_THREE).last(0.1)
        assert distance.max() > 15.0
        assert angle.max() > 7.0

    @pytest.mark.parametrize('friction, most', (
        (0.2, 0.5), pytest.param(0.0, 0.02, marks=pytest.mark.slow)))
    def test_figure_of_eight(self, friction, most):
        run = Run(Wrong(friction=friction))
        run.law.follow(figure_of_eight(run.plant.pose(), 0.3, 0.15, 4.0, 1.0, 1.0), 0.5)
        distance, _ = run.run(6.0).last(5.5)
        assert math.sqrt((distance**2).mean()) < most

    @pytest.mark.slow
    def test_friction_causes_no_hunting_for_half_a_minute(self):
        for friction in (0.2, 1.0):
            distance, angle = at_rest(True, 30.0, friction=friction).last(28.0)
            assert distance.max() < 0.3
            assert np.ptp(distance) < 0.1
            assert angle.max() < 0.1


class TestContact:
    """Walls, springs and forces in MuJoCo."""

    def peak(self, compensation, depth, inside=0.05, speed=1.0):
        """Return the largest force [N] of a push to a goal `inside` a wall, and the last one."""
        wall = np.eye(4)
        wall[:3, 3] = Arm().pose[:3, 3] - [0.0, 0.0, depth + 0.01]
        plant = Plant(PANDA.urdf_text, PANDA.base, panda().joint_names, friction=[0.0] * 7,
                      damping=[0.0] * 7, wall=wall, ball=(PANDA.tip, 0.01))
        plant.reset(READY)
        task = Task(limits=TargetLimits([2.5, speed], [12.5, 5.0], [125.0, 50.0]))
        run, forces = Run(plant, compensation, task), []
        run.run(1.2)  # longer than `free`
        run.law.follow(moved(plant.pose(PANDA.tip), (0.0, 0.0, -inside - depth)))
        for _ in range(round((1.0 + (inside + depth) / speed) * PERIODS)):
            run.run(PERIOD)
            forces.append(np.linalg.norm(plant.contact_force()))
        return max(forces), forces[-1]

    @pytest.mark.parametrize('depth', (0.003, 0.01, 0.02))
    def test_peaks_of_a_push_into_a_wall_are_at_most_10_percent_higher(self, depth):
        without, _ = self.peak(False, depth)
        assert without > 50.0
        assert self.peak(True, depth)[0] < 1.1 * without

    def test_slow_touch_raises_the_force_by_no_more_than_the_bound_allows(self):
        _, without = self.peak(False, 0.01, 0.005, 0.02)
        _, found = self.peak(True, 0.01, 0.005, 0.02)
        assert 5.0 < without < 10.0
        assert found < without + 12.0

    def test_spring_keeps_its_stiffness(self):
        task, force = Task(Stiffness([50.0] * 3 + [500.0] * 3)), np.array([0.0, 5.0, -5.0])
        plant = Plant(PANDA.urdf_text, PANDA.base, panda().joint_names, friction=[0.0] * 7,
                      damping=[0.0] * 7)
        plant.reset(READY)
        run, pose = Run(plant, task=task), plant.pose(PANDA.tip)
        plant.push(PANDA.tip, force)
        run.run(3.0)
        given_way = plant.pose(PANDA.tip)[:3, 3] - pose[:3, 3]
        np.testing.assert_allclose(given_way, force / 500.0, atol=2e-4)

    def test_force_is_not_raised_along_an_axis_of_force(self):
        wall = np.eye(4)
        wall[:3, 3] = Arm().pose[:3, 3] - [0.0, 0.0, 0.0101]
        plant = Plant(PANDA.urdf_text, PANDA.base, panda().joint_names, friction=[0.0] * 7,
                      damping=[0.0] * 7, wall=wall, ball=(PANDA.tip, 0.01))
        plant.reset(READY)
        task = Task(Gains(), axes=('motion',) * 5 + ('force',), force=ForceControl())
        run = Run(plant, task=task)
        run.law.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -15.0])
        run.run(2.0)
        assert np.linalg.norm(plant.contact_force()) == pytest.approx(15.0, abs=0.3)


def estimate(torque, settled=1.0, wrench=None):
    """Return an estimate for a robot whose torques are 0.1 m of the entries of the wrench."""
    found = OBSERVER.new(n=7)
    found.bandwidth, found.missing, found.torque[:] = 100.0, 1.0 - settled, torque
    found.columns[:], found.wrench[:] = 0.1 * np.eye(7, 6), 0.0 if wrench is None else wrench
    return found


def advanced(compensation, time, external, tau, hold=FOLLOWS, axes=BASE, qd=None):
    """Advance a compensation to a time; return its torques (n,)."""
    qd = np.ones(7) if qd is None else qd
    compensate(compensation.record, external, time, tau, qd, axes, hold, NONE)
    return compensation.torque


@cache  # not at the import, because it compiles kernels
def limits():
    """Return the limits of the compensation of the Panda."""
    return Disturbance().limits(panda())


def bound():
    return limits()[1]


def contact():
    return limits()[3]


class TestRules:
    """The rules of the module, one by one."""

    def after(self, compensation, seconds, *given, start=0.0, tau=None, **options):
        """Return the compensation after a time with a constant estimate."""
        tau = np.zeros(7) if tau is None else tau
        for k in range(round(seconds * PERIODS) + 1):
            last = compensation.torque.copy()
            found = advanced(compensation, start + k * PERIOD, *given, tau, **options)
            most = limits()[2] * PERIOD
            assert (np.abs(found - last) <= most * (1.0 + 1e-9) + 1e-12).all()
        return found.copy()

    def test_it_follows_the_external_torque_within_rate_and_bound(self):
        found = self.after(Compensation(panda()), 1.5, estimate(0.5 * bound()))
        np.testing.assert_allclose(found, -0.5 * bound(), rtol=1e-6)
        compensation = Compensation(panda(), Disturbance(free=5.0))
        found = self.after(compensation, 3.0, estimate(-2.0 * bound()))
        np.testing.assert_allclose(found, bound())

    @pytest.mark.parametrize('axes', ('motion', 'force'))
    def test_joint_that_rests_is_pushed_on_if_friction_holds_it_and_not_along_an_axis_of_force(
            self, axes):
        compensation = Compensation(panda(), yields=(axes == 'force') * np.ones(6))
        law = np.full(7, 1e-2)
        for k in range(PERIODS // 2):
            stuck = law + compensation.record.delayed
            found = advanced(compensation, k * PERIOD, estimate(-stuck, wrench=-10.0 * law[:6]),
                             law, qd=np.zeros(7))
        wrist = found[5] if axes == 'force' else found[6]
        assert (wrist > 1.0) == (axes == 'motion')

    def test_sudden_torque_is_a_contact_and_holds_it_until_it_has_gone(self):
        compensation, load = Compensation(panda()), 0.5 * bound()
        before = self.after(compensation, 2.0, estimate(load))
        for share, begin, in_contact in ((1.05, 2.0, True), (0.55, 3.0, True), (0.45, 4.0, False)):
            hit = load.copy()
            hit[3] += share * contact()[3]
            found = self.after(compensation, 0.8, estimate(hit), start=begin)
            assert compensation.record.in_contact == in_contact
            np.testing.assert_allclose(found, before if in_contact else np.maximum(-hit, -bound()),
                                       rtol=1e-6)

    def test_load_that_is_gone_at_once_is_no_longer_compensated_although_that_is_sudden(self):
        for hold in FOLLOWS, FALLS:
            compensation, load = Compensation(panda()), 0.9 * bound()
            self.after(compensation, 2.0, estimate(load))
            advanced(compensation, 2.0 + PERIOD, estimate(0.0 * load), np.zeros(7), hold)
            assert compensation.record.in_contact
            found = self.after(compensation, 2.0, estimate(0.0 * load), start=2.0 + 2.0 * PERIOD,
                               hold=hold)
            np.testing.assert_allclose(found, 0.0, atol=1e-6)

    def test_load_at_the_start_is_no_contact(self):
        compensation, load = Compensation(panda()), 0.9 * bound()
        assert (load > contact()).any()
        np.testing.assert_allclose(self.after(compensation, 3.0, estimate(load)), -load, rtol=1e-6)
        assert not compensation.record.in_contact

    def test_bounds_are_those_of_the_errors_of_the_model(self):
        robot, none = panda(), Disturbance(payload=0.0, masses=0.0, friction=0.4)
        np.testing.assert_allclose(none.limits(robot)[1], 0.5)
        heavy = replace(none, payload=2.0).limits(robot)[1] - 0.5
        rng, most = np.random.default_rng(1), np.zeros(7)
        for _ in range(300):
            q = random_position(robot, rng)
            J = jacobian(robot, q)
            arm = np.abs(J[5]) + 0.1 * np.hypot(J[0], J[1])  # the load is 10 cm beside the tip
            most = np.maximum(most, arm * 2.0 * 9.81)
        np.testing.assert_allclose(heavy[1:], 1.25 * most[1:], rtol=0.25)
        assert np.abs(heavy[0]) < 1e-9

    @pytest.mark.parametrize('cause', ('held', 'not settled', 'gap', 'repeated', 'nan time'))
    def test_it_is_held(self, cause):
        compensation, load = Compensation(panda()), 0.3 * bound()
        before = self.after(compensation, 1.0, estimate(load))
        other = estimate(2.0 * load, 0.5 if cause == 'not settled' else 1.0)
        time = {'gap': 3.0, 'repeated': 1.0, 'nan time': math.nan}.get(cause, 1.0 + PERIOD)
        hold = HELD if cause == 'held' else FOLLOWS
        found = advanced(compensation, time, other, np.zeros(7), hold)
        np.testing.assert_allclose(found, before)

    def test_it_does_not_wind_up_beyond_the_effort_limits(self):
        compensation, effort = Compensation(panda()), panda().effort_limits
        load, tau = bound(), -effort + 0.1
        self.after(compensation, 2.0, estimate(load), tau=tau)
        np.testing.assert_allclose(compensation.torque, -0.1)
        tau = -1.5 * effort  # more than the limit: nothing is added
        assert not advanced(compensation, 2.01, estimate(load), tau).any()
        found = advanced(compensation, 2.02, estimate(load), np.full(7, np.nan))
        assert np.isfinite(found).all()

    def test_switched_off_and_on_it_changes_at_its_rate(self):
        compensation, load = Compensation(panda()), 0.5 * bound()
        self.after(compensation, 1.0, estimate(load))
        compensation.record.is_active = False
        assert np.abs(self.after(compensation, 1.0, estimate(load), start=1.0)).max() < 1e-9
        compensation.record.is_active = True
        found = self.after(compensation, 1.0, estimate(load), start=2.0)
        np.testing.assert_allclose(found, -load, rtol=1e-6)

    def test_wrench_along_yielding_axes_is_left_out(self):
        compensation = Compensation(panda(), yields=[0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
        wrench = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        external = estimate(0.1 * np.append(wrench, 0.0), wrench=wrench)
        found = self.after(compensation, 1.0, external)
        np.testing.assert_allclose(found, [-0.1, -0.2, -0.3, 0.0, -0.5, -0.6, 0.0], atol=1e-9)
        compensation = Compensation(panda(), yields=[0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
        turned = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])  # x of the task is y of the base
        found = self.after(compensation, 1.0, external, axes=turned)
        np.testing.assert_allclose(found, [-0.1, -0.2, -0.3, -0.4, 0.0, -0.6, 0.0], atol=1e-9)

    def test_axes_that_yield(self):
        force = Task(Gains(), axes=('motion',) * 5 + ('force',), force=ForceControl())
        assert yielding_axes(force).tolist() == [0.0, 0, 0, 0, 0, 1]
        spring = Task(Stiffness(), axes=('free', 'motion', 'motion', *['motion'] * 3))
        assert yielding_axes(spring).tolist() == [0.0, 1, 1, 1, 1, 1]
        assert not yielding_axes(Task()).any()

    def test_joint_without_effort_limit_is_compensated_too(self):
        compensation = Compensation(replace(panda(), effort_limits=np.full(7, np.inf)))
        for k in range(PERIODS):
            found = advanced(compensation, k * PERIOD, estimate([0.5] * 7), np.zeros(7))
        np.testing.assert_allclose(found, -0.5, rtol=1e-6)

    def test_forgotten_it_is_zero(self):
        compensation = Compensation(panda())
        self.after(compensation, 0.5, estimate([1.0] * 7))
        compensation.forget()
        assert not compensation.torque.any()

    @pytest.mark.parametrize('name', ('payload', 'masses', 'friction', 'bandwidth', 'rise',
                                      'free'))
    def test_numbers_that_are_not_positive_are_refused(self, name):
        for value in (-1.0, math.nan, math.inf):
            with pytest.raises(InputError, match=f'{name} .*must be a number, at least'):
                Disturbance(**{name: value})
        with pytest.raises(InputError, match=r'friction 0\.0.*at least 1e-06'):
            Disturbance(friction=0.0)
        assert Disturbance(free=0.0).free == 0.0
