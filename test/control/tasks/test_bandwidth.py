# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Largest stable gains for a rate of joint states; larger gains are reduced or refused."""

import numpy as np
import pytest

from arm import Arm, JUMPS, moved, READY
from attacked import Attacked, PERIOD
from foreign import ForeignPlant
from judge import robot_cases
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.settings import Settings
from osc_ros.control.tasks.bandwidth import (
    DAMPING_LEFT,
    GAIN_MARGIN,
    largest_damping_rate,
    largest_damping_ratio,
    largest_integral_rate,
    largest_natural_frequency,
    largest_repulsion_frequency,
    longest_period,
)
from osc_ros.control.tasks.task import ForceControl, Gains, Stiffness, TargetLimits, Task
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.errors import InputError
from osc_ros.sim import Plant
from variants import first_quick

SMOOTH = 0.05  # relative to the torque limit: largest torque step per tick
POSTURE = Posture(5.0, 1.0, 1.0)
AT_REST = 1e-3  # relative to the torque limit: largest torque step per tick after arrival
POSES = {'panda': READY, 'xarm7': np.array([0.0, -0.5, 0.0, 1.2, 0.0, 1.0, 0.0]),
         'kinova': np.array([-0.1, 3.5, 1.3, -0.4, 5.1, 0.3])}


def spectral_radius(frequency, rate, period, delay):
    """Return the spectral radius of the transition matrix of the sampled loop."""
    whole = int(np.floor(delay))
    late = delay - whole  # fraction of a period in which the previous command still acts
    n = 3 + whole  # position, velocity, previous commands
    commands = np.vstack([[-frequency ** 2, -rate, *np.zeros(n - 2)], np.eye(n)[2:]])
    A = np.zeros((n, n))
    A[0, :2], A[1, 1] = (1.0, period), 1.0
    A[0] += period ** 2 * (late * (1.0 - 0.5 * late) * commands[whole + 1]
                           + 0.5 * (1.0 - late) ** 2 * commands[whole])
    A[1] += period * (late * commands[whole + 1] + (1.0 - late) * commands[whole])
    A[2] = commands[0]
    A[3:, 2:-1] = np.eye(n - 3)
    return np.abs(np.linalg.eigvals(A)).max()


def loops(count):
    """Return random tuples of damping ratio, period [s] and delay [periods]."""
    rng = np.random.default_rng(0)
    return [(10.0 ** rng.uniform(-2.0, 2.0), 10.0 ** rng.uniform(-4.0, -1.0),
             float(rng.choice([1.0, 2.0, 3.0, 1.0 + 4.0 * rng.random()]))) for _ in range(count)]


def test_largest_natural_frequency_keeps_its_margins_and_little_more():
    for ratio, period, delay in loops(300):
        w = largest_natural_frequency(ratio, period, delay)
        for k, stable in ((0.999, True), (1.001, False)):
            radius = spectral_radius(np.sqrt(GAIN_MARGIN) * k * w,
                                     GAIN_MARGIN * 2.0 * ratio * k * w * k, period, delay)
            damped = 2.0 * ratio * (1.0 - DAMPING_LEFT) > (delay + 0.5) * w * k * period
            assert (radius < 1.0 and damped) == stable
        assert spectral_radius(w, 2.0 * ratio * w, period, delay) < 1.0
        # the delay reduces the damping by a third at the frequency w, and to zero at 3 w
        far = 3.2 if ratio < 1.0 else 2.0
        assert spectral_radius(far * w, 2.0 * ratio * far * w, period, delay) > 1.0
        assert longest_period(w, 2.0 * ratio * w, delay=delay) == pytest.approx(period)


def test_largest_damping_keeps_its_margin_and_no_more():
    for ratio, period, delay in loops(300):
        rate = largest_damping_rate(period, delay)
        assert spectral_radius(0.0, GAIN_MARGIN * 0.999 * rate, period, delay) < 1.0 + 1e-9
        assert spectral_radius(0.0, GAIN_MARGIN * 1.001 * rate, period, delay) > 1.0
        w = 0.9 * largest_natural_frequency(ratio, period, delay)
        most = largest_damping_ratio(w, period, delay)
        assert most >= ratio
        for k, stable in ((0.999, True), (1.001, False)):
            assert (spectral_radius(np.sqrt(GAIN_MARGIN) * w, GAIN_MARGIN * 2.0 * most * k * w,
                                    period, delay) < 1.0) == stable


def test_push_out_of_the_soft_zone_keeps_its_margin_and_no_more():
    for rate, frequency in ((10.0, 5.0), (1.0, 0.0), (40.0, 20.0)):
        push = largest_repulsion_frequency(rate, frequency, 0.002)
        for k, stable in ((0.99, True), (1.01, False)):
            w = np.sqrt(1.5 * (frequency ** 2 + 2.0 * (k * push) ** 2))
            assert (spectral_radius(w, 1.5 * rate, 0.002, 1.0) < 1.0) == stable
        total = np.hypot(frequency, np.sqrt(2.0) * push)
        assert longest_period(0.0, rate, push) <= longest_period(0.0, rate)
        assert longest_period(frequency, rate, push) <= 0.002 * (1.0 + 1e-6) < 1.0 / total


def test_bounds_with_one_period_of_delay_are_those_of_the_documentation():
    assert largest_damping_rate(0.002) == pytest.approx(250.0)
    assert largest_natural_frequency(1.0, 0.002) == pytest.approx(116.3, abs=0.05)
    assert largest_natural_frequency(0.3, 0.002) == pytest.approx(0.3 / 0.0045)
    assert largest_natural_frequency(0.0, 0.002) == 0.0
    assert largest_damping_ratio(1000.0, 0.002) == 0.0
    with pytest.raises(InputError, match=r'delay 0\.5.*(give|must be).* 1 '):
        largest_natural_frequency(1.0, 0.002, 0.5)
    with pytest.raises(InputError, match=r'period 0\.0.*(give|must be).* 0'):
        largest_damping_rate(0.0)


class Driven:
    """
    An arm controlled by the law; its driver applies each command one period after the state.

    `late` delays the commands by that number of further periods.

    """

    def __init__(self, name, period, gains, posture=POSTURE, late=0, **of_joints):
        """Start at rest."""
        case = robot_cases()[name]
        robot = Robot.from_urdf(case.urdf_text, case.base, case.tip)
        if name == 'panda':
            self.plant = Plant(case.urdf_text, case.base, robot.joint_names, timestep=5e-4,
                               friction=[0.0] * robot.n, damping=[0.0] * robot.n)
        else:
            self.plant = ForeignPlant(name, robot.joint_names)
        self.name, self.tip, self.period, self.limits = name, case.tip, period, robot.effort_limits
        self.law = Law(robot, Settings(
            (Task(gains, limits=TargetLimits()),), posture, SingularityDamping(0.3, 0.02, 0.06),
            Limits.of(robot, **of_joints)))
        self.plant.reset(POSES[name])
        self.law.hold(POSES[name])
        self.start = self.pose()
        self.sent = self.law.bias_torque(self.plant.q, self.plant.qd)
        self.torques, self.waiting = [self.sent], [self.sent] * late

    def pose(self):
        """Return the pose of the tip."""
        return self.plant.pose(self.tip) if self.name == 'panda' else self.plant.pose()

    def run(self, until):
        """Simulate up to a time [s]."""
        while self.plant.time < until - 0.5 * self.period:
            tau = self.law.torque(self.plant.time, self.plant.q, self.plant.qd)
            if self.name == 'panda':
                self.plant.step(self.sent, round(self.period / 5e-4))
            else:
                self.plant.step(self.sent, self.period)
            self.waiting.append(tau)
            self.sent = self.waiting.pop(0)
            self.torques.append(tau)
        return self

    def step_up(self, until=0.9):
        """Go up by 5 cm; return the largest torque steps overall and at the end, and the error."""
        target = moved(self.start, (0.0, 0.0, 0.05))
        self.law.follow(PoseGoal(target), 0.05)
        self.run(until)
        steps = np.abs(np.diff(self.torques, axis=0)) / self.limits
        return steps.max(), steps[-50:].max(), np.linalg.norm((self.pose() - target)[:3, 3])


def gains(frequency, ratio=1.0):
    """Return Gains with the same frequency and damping ratio on all axes."""
    return Gains([frequency] * 6, [ratio] * 6, (2.5, 1.0), (60.0, 20.0))


@pytest.mark.parametrize('name', POSES)
@pytest.mark.parametrize('rate, ratio', first_quick([
    (250.0, 1.0), (500.0, 0.5), (500.0, 1.0), (500.0, 5.0), (1000.0, 1.0)], 2))
def test_largest_gains_that_are_accepted_move_the_arm_without_chatter(name, rate, ratio):
    frequency = largest_natural_frequency(ratio, 1.0 / rate)
    # high velocity limits, so that they do not affect the torques
    arm = Driven(name, 1.0 / rate, gains(frequency, ratio), Posture(frequency, ratio),
                 velocity=np.full(len(POSES[name]), 5.0))
    step, at_rest, error = arm.step_up()
    assert step < SMOOTH and at_rest < AT_REST and error < 1e-3
    assert arm.law.gain_share() > 0.999


@pytest.mark.parametrize('name', first_quick([*POSES]))
@pytest.mark.parametrize('given', [
    {'gains': gains(1000.0)}, {'gains': gains(20.0, 100.0)},
    {'gains': gains(20.0), 'posture': Posture(1000.0, 1.0)},
    {'gains': gains(20.0), 'posture': Posture(5.0, 1.0, 1000.0)},
    {'gains': Stiffness([3e3] * 3 + [1e6] * 3, [1.0] * 6, (10.0, 60.0))}],
    ids=['frequency', 'ratio', 'posture', 'posture damping', 'stiffness'])
def test_gains_that_no_rate_carries_are_reduced_and_the_arm_does_not_shake(name, given):
    arm = Driven(name, 0.002, **given)
    step, at_rest, error = arm.step_up()
    # up to 5 mm, because a slow arm may not have arrived yet
    assert step < SMOOTH and at_rest < AT_REST and error < 5e-3
    assert arm.law.gain_share() < 0.3


def test_spring_of_the_defaults_does_not_shake_a_light_wrist():
    spring = Stiffness([30.0] * 3 + [500.0] * 3, [1.0] * 6, (10.0, 60.0))
    arm = Driven('xarm7', 0.002, spring)
    step, at_rest, error = arm.step_up()
    assert step < SMOOTH and at_rest < AT_REST and error < 2e-3
    assert arm.law.gain_share() < 0.5  # without the reduction the wrist is unstable


def test_spring_that_is_carried_is_as_stiff_as_it_was_set():
    arm = Driven('panda', 0.002, Stiffness([30.0] * 3 + [500.0] * 3, [1.0] * 6, (10.0, 60.0)))
    arm.run(0.1)
    assert arm.law.gain_share() == 1.0


@pytest.mark.parametrize('name', POSES)
def test_states_at_half_of_the_stated_rate_reduce_the_gains_and_do_not_shake_the_arm(name):
    arm = Driven(name, 0.004, gains(largest_natural_frequency(1.0, 0.002)))
    step, at_rest, error = arm.step_up()
    assert step < SMOOTH and at_rest < AT_REST and error < 1e-3
    assert arm.law.gain_share() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize('name', first_quick([*POSES]))
@pytest.mark.parametrize('late', [10, 25])
def test_states_that_are_always_late_reduce_the_gains_and_do_not_shake_the_arm(name, late):
    arm = Driven(name, 0.002, gains(20.0), late=late)
    arm.law.delay = late + 1.0
    step, at_rest, error = arm.step_up(2.0)
    assert step < SMOOTH and at_rest < AT_REST and error < 1e-2
    assert arm.law.gain_share() < 1.0
    arm.law.delay = 1.0
    assert arm.run(5.0).law.gain_share() == 1.0


def test_delay_that_is_measured_while_a_hand_pushes_does_not_step_the_torques():
    arm = Attacked('panda')
    arm.force[:] = 0.0, 20.0, -15.0
    torques = [arm.run(1.0).sent]
    for delay in (10.0, 1.0, 5.0, 1.0):
        arm.law.delay = delay
        for _ in range(150):
            torques.append(arm.run(PERIOD).sent)
            arm.law.plan()
    assert (np.abs(np.diff(torques, axis=0)) / arm.robot.effort_limits).max() < 0.01


def test_gains_come_back_when_the_states_come_as_often_as_before():
    arm = Driven('panda', 0.004, gains(100.0)).run(0.2)
    assert arm.law.gain_share() < 0.6
    arm.period = 0.002
    arm.run(0.4)
    assert arm.law.gain_share() == pytest.approx(1.0)
    assert arm.law.period == pytest.approx(0.002, rel=1e-3)


def test_one_gap_in_the_states_changes_the_gains_by_no_more_than_an_eighth():
    arm = Driven('panda', 0.002, gains(largest_natural_frequency(1.0, 0.002))).run(0.2)
    arm.plant.step(arm.sent, 100)
    arm.run(arm.plant.time + arm.period)
    assert arm.law.gain_share() > 0.875


class Wall:
    """A spring and damper below the tip of a Panda that pushes down on it."""

    def __init__(self, stiffness, damping, rate, control):
        """Start with the tip 2 mm above the wall."""
        axes = ('motion',) * 5 + ('force',)
        self.arm = Arm(tasks=(Task(gains(20.0), axes=axes, force=control),), limits=JUMPS)
        case = robot_cases()['panda']
        self.plant = Plant(case.urdf_text, case.base, self.arm.robot.joint_names,
                           timestep=2.5e-4, friction=[0.0] * 7, damping=[0.0] * 7)
        self.plant.reset(READY)
        self.tip, self.law, self.period = case.tip, self.arm.law, 1.0 / rate
        self.stiffness, self.damping = stiffness, damping
        self.height = self.plant.pose(self.tip)[2, 3]
        self.top, self.force, self.forces = self.height - 0.002, 0.0, []
        self.sent = self.law.bias_torque(self.plant.q, self.plant.qd)
        self.law.set_wrench([0.0] * 5 + [-15.0])

    def run(self, until):
        """Simulate up to a time [s]."""
        while self.plant.time < until - 0.5 * self.period:
            self.law.set_measured_wrench([0.0] * 5 + [-self.force], self.plant.time)
            tau = self.law.torque(self.plant.time, self.plant.q, self.plant.qd)
            for _ in range(round(self.period / 2.5e-4)):
                height = self.plant.pose(self.tip)[2, 3]
                speed, self.height = (height - self.height) / 2.5e-4, height
                depth = self.top - height
                self.force = max(0.0, self.stiffness * depth - self.damping * speed) * (depth > 0)
                self.plant.push(self.tip, [0.0, 0.0, self.force])
                self.plant.step(self.sent)
            self.sent = tau
            self.forces.append(self.force)
        return self


@pytest.mark.parametrize('rate, gain, stiffness, damping', [
    (250.0, 0.0, 1e3, 0.0), (500.0, 0.5, 1e6, 450.0), *(
        pytest.param(*one, marks=pytest.mark.slow) for one in (
            (250.0, 0.0, 1e5, 0.0), (250.0, 0.0, 1e6, 450.0), (500.0, 0.5, 1e3, 0.0),
            (500.0, 0.5, 1e5, 0.0)))])
def test_force_on_a_wall_of_any_stiffness_settles_with_the_highest_integral_rate(
        rate, gain, stiffness, damping):
    control = ForceControl(gain=gain, integral_rate=largest_integral_rate(50.0, gain))
    forces = Wall(stiffness, damping, rate, control).run(1.4).forces
    late = np.array(forces[-50:])
    # On a soft wall the force settles later. In a limit cycle the tip would leave the wall, with
    # an error of 15 N.
    assert late == pytest.approx(15.0, abs=4.0 if stiffness == 1e3 else 0.5)


def test_integral_rate_that_is_too_high_for_the_damping_is_refused():
    with pytest.raises(InputError, match=r'integral_rate 1000.*(give|must be).* 20\b'):
        ForceControl(50.0, 0.2, 1000.0)


def test_brake_before_a_joint_limit_is_no_harder_than_the_period_carries():
    assert Supervision({}, np.ones(1), 10.0, period=0.002).rates(1.0)[1] == 50.0
    assert Supervision({}, np.ones(1), 100.0, period=0.002).rates(1.0)[1] == pytest.approx(150.0)
    assert Supervision({}, np.ones(1), 10.0, period=0.01).rates(1.0)[1] == pytest.approx(40.0)
