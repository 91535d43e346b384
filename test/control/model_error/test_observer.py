# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The momentum observer against Pinocchio, and against the contact forces that MuJoCo reports."""

from dataclasses import replace
from functools import cache
import math

import numpy as np
import pinocchio as pin
import pytest
import yaml

from arm import Arm, PANDA, PERIOD, READY
from common import CHECKOUT
from judge import configuration, pinocchio_model, random_tree, robot_cases
from osc_ros import Driver, Friction, InputError, OperationalSpace, Robot, shipped_urdf
from osc_ros.control.model_error import observer as external_module
from osc_ros.control.model_error.observer import LARGEST, LONGEST_STEP, MomentumObserver
from osc_ros.control.tasks.task import Stiffness, Task
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.methods import default_method
from osc_ros.dynamics.trees.momentum import Momentum
from osc_ros.sim import Plant
from tolerances import AGREEMENT, MOMENTUM_QUOTIENT

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

CONFIG = CHECKOUT / 'config'
SHIPPED = ('fr3', 'gen3', 'iiwa14', 'panda', 'ur10e', 'ur5e')
CASES = (*SHIPPED, *(name for name in robot_cases() if name != 'panda'))
TREES = {
    'one tip': (['revolute', 'prismatic', 'revolute', 'revolute'],
                [(1, ['revolute', 'prismatic'])]),
    'ball joints': (['revolute', 'spherical', 'prismatic', 'spherical'], [(0, ['spherical'])]),
    'floating': (['floating', 'revolute', 'revolute'], [(0, ['revolute'] * 3), (-1, ['planar'])]),
    'massless': (['bare revolute', 'revolute', 'point revolute', 'revolute'], []),
}
K = 20.0  # bandwidth of the observers in these tests [rad/s]
FORCE, MOMENT = 0.5, 0.1  # required accuracy at rest [N], [N·m]


@cache
def robot_named(name):
    """Return (URDF, base, tip, locked joints, Robot) of a shipped robot or one of judge's."""
    if name in SHIPPED:
        file = CONFIG / f'{name}.yaml'
        given = yaml.safe_load(file.read_text(encoding='utf-8'))['/**']['ros__parameters']
        case = shipped_urdf(name).read_text(encoding='utf-8'), given['base'], given['tip'], {}
    else:
        found = robot_cases()[name]
        case = found.urdf_text, found.base, found.tip, found.locked
    rotors = np.random.default_rng(1).uniform(
        0.05, 0.5, Robot.from_urdf(*case[:3], locked=case[3]).n)
    return *case, Robot.from_urdf(*case[:3], locked=case[3], rotor_inertia=rotors)


def panda(**options):
    return Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip, **options)


def jacobian(robot, q):
    """Return J (6, n) of the tip, by the method 'sweep', which other tests compare."""
    method, J = default_method(robot), np.empty((6, robot.n))
    method.outward(q, np.zeros(robot.n), None, None)
    method.jacobian(J)
    return J


def far(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


class TestMomentum:
    """p = M q̇ and β = Cᵀq̇ - g."""

    @pytest.mark.parametrize('name', CASES)
    def test_momentum_and_its_rate_are_pinocchios(self, name):
        text, base, tip, locked, robot = robot_named(name)
        model, data, _ = pinocchio_model(text, base, tip, robot.joint_names, locked)
        dynamics, rng = Momentum(robot), np.random.default_rng(0)
        for _ in range(5):
            q, qd = rng.uniform(-2, 2, robot.n), rng.normal(size=robot.n)
            full = configuration(model, q)
            M = np.triu(pin.crba(model, data, full))
            M = M + np.triu(M, 1).T + np.diag(robot.rotor_inertia)
            C = pin.computeCoriolisMatrix(model, data, full, qd)
            g = pin.computeGeneralizedGravity(model, data, full)
            p, beta = dynamics.at(q, qd)
            assert far(p, M @ qd) < AGREEMENT
            assert far(beta, C.T @ qd - g) < AGREEMENT

    @pytest.mark.parametrize('name', TREES)
    def test_momentum_of_a_tree_changes_by_torque_and_beta(self, name):
        tree = random_tree(3, *TREES[name], rotors=True)
        dynamics, rng = Momentum(Robot(**tree.description)), np.random.default_rng(0)
        for _ in range(3):
            q, qd = tree.state(rng)
            for first in np.flatnonzero(Robot(**tree.description).spherical):
                at = Robot(**tree.description).q_index[first]
                q[at:at + 4] /= np.linalg.norm(q[at:at + 4])
            tau, h = rng.normal(size=len(qd)), 1e-5
            p, beta = dynamics.at(q, qd)
            assert far(p, tree.terms(q, qd).M @ qd) < AGREEMENT

            def momentum_after(t, q=q, qd=qd, tau=tau):
                qdd, rate = tree.forward_dynamics(q, qd, tau), tree.rate(q, qd)
                return tree.terms(q + t * rate, qd + t * qdd).M @ (qd + t * qdd)

            quotient = (momentum_after(h) - momentum_after(-h)) / (2.0 * h)
            assert far(tau + beta, quotient) < MOMENTUM_QUOTIENT

    def test_gravity_can_be_changed(self):
        robot = panda()
        dynamics = Momentum(robot)
        dynamics.gravity[:] = 0.0
        assert np.abs(dynamics.at(READY, np.zeros(7))[1]).max() == 0.0
        dynamics.gravity[:] = [1.0, -2.0, 3.0]
        other = Momentum(robot.with_gravity([1.0, -2.0, 3.0]))
        assert far(dynamics.at(READY, READY)[1], other.at(READY, READY)[1]) < AGREEMENT


class FreeMotion:
    """The Panda in Pinocchio, integrated by Runge and Kutta's method at 0.1 ms."""

    def __init__(self, qd=None):
        self.robot = panda()
        self.model, self.data, _ = pinocchio_model(
            PANDA.urdf_text, PANDA.base, PANDA.tip, self.robot.joint_names)
        self.q, self.time = READY.copy(), 0.0
        self.qd = 0.5 * np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0]) if qd is None else qd

    def step(self, tau, dt):
        """Advance under constant torques (n,), motor and external."""
        for _ in range(round(dt / 1e-4)):
            self._runge_kutta(tau, 1e-4)
        self.time += dt

    def _runge_kutta(self, tau, h):
        def rate(q, qd):
            return qd, pin.aba(self.model, self.data, q, qd, tau)

        a = rate(self.q, self.qd)
        b = rate(self.q + 0.5 * h * a[0], self.qd + 0.5 * h * a[1])
        c = rate(self.q + 0.5 * h * b[0], self.qd + 0.5 * h * b[1])
        d = rate(self.q + h * c[0], self.qd + h * c[1])
        self.q, self.qd = (x + h / 6.0 * (one + 2.0 * two + 2.0 * three + four)
                           for x, one, two, three, four in zip((self.q, self.qd), a, b, c, d))


class TestDiscretization:
    """The discrete filter along exact motions of Pinocchio."""

    def error(self, dt, seconds=0.32):
        """Return the largest error of the estimate, while the arm falls and swings [N·m]."""
        arm, worst = FreeMotion(), 0.0
        observer = MomentumObserver(arm.robot, K)
        tau = np.array([2.0, -20.0, 3.0, 15.0, 1.0, 1.0, 0.2])
        external = np.array([3.0, -5.0, 2.0, 4.0, -1.0, 0.5, 0.3])
        observer.update(0.0, arm.q, arm.qd, tau)
        while arm.time < seconds - 0.5 * dt:
            arm.step(tau + external, dt)
            found = observer.update(arm.time, arm.q, arm.qd, tau).torque
            worst = max(worst, np.abs(found - external * -np.expm1(-K * arm.time)).max())
        return worst

    def test_error_in_motion_is_of_second_order_of_the_step(self):
        errors = [self.error(dt) for dt in (0.008, 0.004, 0.002)]
        assert errors[2] < 5e-3
        for coarse, fine in zip(errors, errors[1:]):
            assert 3.0 < coarse / fine < 5.0

    def test_at_rest_it_is_exact_for_any_steps(self):
        robot, rng = panda(), np.random.default_rng(0)
        observer, external = MomentumObserver(robot, K), rng.normal(size=7)
        tau = -Momentum(robot).at(READY, np.zeros(7))[1] - external
        time = 0.0
        observer.update(time, READY, np.zeros(7), tau)
        for dt in rng.uniform(1e-5, LONGEST_STEP, 30):
            time += dt
            found = observer.update(time, READY, np.zeros(7), tau).torque
            assert np.abs(found - external * -np.expm1(-K * time)).max() < 1e-12

    def test_noise_of_the_velocity_gives_the_variance_of_the_filter(self):
        robot, rng, sigma, dt = panda(), np.random.default_rng(0), 1e-3, 0.002
        robot = robot.with_gravity([0.0, 0.0, 0.0])  # noise alone
        M = np.array([Momentum(robot).at(READY, row)[0] for row in np.eye(7)])
        for bandwidth in (10.0, 40.0):
            observer, found = MomentumObserver(robot, bandwidth), []
            for k in range(6000):
                qd = sigma * rng.normal(size=7)
                torque = observer.update(k * dt, READY, qd, np.zeros(7)).torque
                if k * dt * bandwidth > 5.0:
                    found.append(torque.copy())
            a = math.exp(-bandwidth * dt)
            gain = (1.0 - a) / dt * math.sqrt(2.0 / (1.0 + a))
            expected = gain * sigma * np.sqrt((M @ M.T).diagonal())
            np.testing.assert_allclose(np.std(found, axis=0), expected, rtol=0.1)


class Watched:
    """An `Arm` of MuJoCo with an observer that gets what the law and the plant exchange."""

    def __init__(self, stiffness=None, observer=None, **given):
        if stiffness is not None:
            given['tasks'] = (Task(Stiffness([50.0] * 3 + [stiffness] * 3)),)
        self.arm = Arm(**given)
        self.plant, self.law = self.arm.plant, self.arm.law
        self.observer = observer or MomentumObserver(self.arm.robot, K)
        self.tau, self.times, self.wrenches = np.zeros(7), [], []

    def run(self, seconds, effort=lambda tau: None):
        end = self.plant.time + seconds
        while self.plant.time < end - 0.5 * PERIOD:
            q, qd = self.plant.q, self.plant.qd
            found = self.observer.update(self.plant.time, q, qd, self.tau, effort(self.tau))
            self.times.append(self.plant.time)
            self.wrenches.append(found.wrench.copy())
            self.tau = self.law.torque(self.plant.time, q, qd)
            self.plant.step(self.tau, 2)
        return self.observer.external


def assert_wrench(found, force, moment=(0.0, 0.0, 0.0)):
    assert np.linalg.norm(found.wrench[3:] - force) < FORCE
    assert np.linalg.norm(found.wrench[:3] - moment) < MOMENT


class TestContact:
    """The Panda in MuJoCo, judged by the forces that MuJoCo applies or reports."""

    @pytest.mark.parametrize('force', ([20.0, 0.0, 0.0], [0.0, -15.0, 10.0], [3.0, 4.0, -30.0]))
    def test_push_on_the_hand_is_the_wrench_at_rest(self, force):
        watched = Watched(2000.0)
        watched.plant.push(PANDA.tip, force)
        found = watched.run(1.5)
        assert np.abs(watched.plant.qd).max() < 1e-4
        assert_wrench(found, force)
        assert found.quality > 0.99
        assert found.lever < 0.005

    def test_push_off_the_tip_is_a_force_and_its_moment(self):
        watched, force = Watched(2000.0), np.array([0.0, 20.0, 5.0])
        watched.plant.push('panda_hand', force)
        found = watched.run(1.5)
        arm = watched.plant.pose('panda_hand')[:3, 3] - watched.plant.pose(PANDA.tip)[:3, 3]
        assert_wrench(found, force, np.cross(arm, force))
        assert found.lever == pytest.approx(
            np.linalg.norm(np.cross(arm, force)) / np.linalg.norm(force), abs=0.005)

    @pytest.mark.parametrize('tilt', (0.0, 0.4))
    def test_wall_is_the_wrench_that_mujoco_reports(self, tilt):
        wall, c, s = np.eye(4), math.cos(tilt), math.sin(tilt)
        wall[:3, :3] = [[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]
        wall[:3, 3] = Arm().pose[:3, 3] - 0.012 * wall[:3, 2]
        watched = Watched(2000.0, wall=wall, ball=(PANDA.tip, 0.01))
        goal = watched.arm.pose.copy()
        goal[:3, 3] -= 0.012 * wall[:3, 2]
        watched.law.follow(goal)
        found = watched.run(2.5)
        force = -watched.plant.contact_force()
        assert np.linalg.norm(force) > 15.0
        assert_wrench(found, force)  # the ball is round: its force goes through the tip
        assert found.quality > 0.99

    def test_estimate_follows_a_wall_with_the_impulse_of_its_force(self, drawn):
        wall = np.eye(4)
        wall[:3, 3] = Arm().pose[:3, 3] - [0.0, 0.0, 0.02]
        fast = MomentumObserver(panda(), 100.0)
        watched = Watched(1000.0, wall=wall, ball=(PANDA.tip, 0.01))
        goal = pose_moved(watched.arm.pose, [0.0, 0.0, -0.03])
        watched.law.follow(goal)
        forces, faster = [], []

        def measure(tau):
            forces.append(-watched.plant.contact_force()[2])
            faster.append(fast.update(watched.plant.time, watched.plant.q, watched.plant.qd,
                                      tau).wrench[5])

        found = watched.run(1.0, measure)
        slow = np.array(watched.wrenches)[:, 5]
        for estimate, bandwidth in ((slow, K), (np.array(faster), 100.0)):
            # ∫ r dt = ∫ F dt - r/K
            impulse = PERIOD * estimate.sum() + estimate[-1] / bandwidth
            assert impulse == pytest.approx(PERIOD * sum(forces), rel=0.05)
        assert_wrench(found, [0.0, 0.0, forces[-1]])
        drawn('external_force', 'The tip of the Panda, a spring of 1000 N/m, hits a wall (the '
              'peak is cut off)', watched.times[:200], {'force [N]': {
                  "MuJoCo's contact force": np.clip(forces, 0.0, 60.0)[:200],
                  'estimate, 20 rad/s': slow[:200], 'estimate, 100 rad/s': faster[:200]}})

    def test_delay_is_the_time_constant(self):
        watched, force = Watched(), 10.0
        watched.run(0.1)
        # the hand rests, so that only the observer delays: a force that the motors balance
        held, start = watched.tau.copy(), watched.plant.time
        q, J = watched.plant.q, jacobian(watched.arm.robot, watched.plant.q)
        external = J.T @ np.array([0.0, 0.0, 0.0, force, 0.0, 0.0])
        time, observer = start, watched.observer
        while observer.external.wrench[3] < force * (1.0 - math.exp(-1.0)):
            time += PERIOD
            observer.update(time, q, np.zeros(7), held - external)
        assert abs(time - start - 1.0 / K) <= PERIOD

    def test_step_in_mujoco_reaches_63_percent_after_one_time_constant(self):
        watched = Watched(stiffness=20000.0)  # hardly yields
        watched.run(0.1)
        watched.plant.push(PANDA.tip, [10.0, 0.0, 0.0])
        start = watched.plant.time
        watched.run(0.3)
        pushed = np.array(watched.wrenches)[:, 3]
        reached = np.array(watched.times)[np.flatnonzero(pushed > 6.32)[0]]
        assert abs(reached - start - 1.0 / K) <= 1.5 * PERIOD


class TestKnowledge:
    """Payload, tool, friction and the driver's torques, as far as the model has them."""

    def test_payload_that_the_model_lacks_is_an_external_force_and_else_none(self):
        load, c = 1.0, np.array([0.02, 0.0, 0.03])
        watched = Watched(observer=MomentumObserver(panda(), K))
        J = jacobian(watched.arm.robot, READY)
        R = watched.plant.pose(PANDA.tip)[:3, :3]
        force = np.array([0.0, 0.0, -9.81 * load])
        loaded = panda().with_payload(load, c)
        tau = -Momentum(loaded).at(READY, np.zeros(7))[1]
        knowing = MomentumObserver(loaded, K)
        for k in range(500):
            found = watched.observer.update(k * PERIOD, READY, np.zeros(7), tau)
            other = knowing.update(k * PERIOD, READY, np.zeros(7), tau)
        assert_wrench(found, force, np.cross(R @ c, force))
        assert far(found.torque, J.T @ found.wrench) < 1e-3
        assert np.abs(other.torque).max() < 1e-12

    def test_wrench_is_about_the_tip_of_the_tool_or_another_link(self):
        robot, force = panda(), np.array([5.0, 10.0, -20.0])
        T = np.eye(4)
        T[:3, 3] = [0.05, 0.0, 0.2]
        tool = robot.with_tool(T)
        tau = -Momentum(robot).at(READY, np.zeros(7))[1] - jacobian(robot, READY)[3:].T @ force
        hand = MomentumObserver(tool, K, link='panda_hand')
        observers = [MomentumObserver(robot, K), MomentumObserver(tool, K), hand]
        for k in range(500):
            found = [one.update(k * PERIOD, READY, np.zeros(7), tau) for one in observers]
        R, rest = Arm().pose[:3, :3], np.zeros(3)
        assert_wrench(found[0], force)
        assert_wrench(found[1], force, np.cross(rest - R @ T[:3, 3], force))
        assert hand.link == 'panda_hand'
        assert np.linalg.norm(found[2].wrench[3:] - force) < FORCE

    @pytest.mark.parametrize('knows', (True, False))
    def test_friction_of_moving_joints_is_subtracted(self, knows):
        friction = Friction(np.full(7, 0.8), np.full(7, 0.3), 0.02)
        observer = MomentumObserver(panda(), K, friction=friction if knows else None)
        watched = Watched(friction=[0.8] * 7, damping=[0.3] * 7, observer=observer)
        twist = np.array([0.0, 0.0, 0.0, 0.1, 0.15, 0.05])
        watched.law.follow(pose_moved(watched.arm.pose, 3.0 * twist[3:]))
        watched.run(0.35)
        moving = np.abs(watched.plant.qd) > 0.1
        assert moving.sum() >= 3
        left = np.abs(watched.observer.external.torque[moving])
        expected = 0.8 + 0.3 * np.abs(watched.plant.qd[moving])
        if knows:
            assert (left < 0.15).all()
        else:
            assert (np.abs(left - expected) < 0.25).all()

    @pytest.mark.parametrize('compensates', ('gravity', 'gravity+coriolis'))
    def test_torques_of_the_driver_are_added_to_commands(self, compensates):
        robot = panda()
        driver = Driver(robot, compensates)
        plant = Plant(PANDA.urdf_text, PANDA.base, robot.joint_names, compensates=compensates,
                      friction=[0.0] * 7, damping=[0.0] * 7)
        plant.reset(READY)
        observer, rng = MomentumObserver(robot, K, driver=driver), np.random.default_rng(0)
        kick = rng.normal(size=7) * [5.0, 5.0, 2.0, 5.0, 0.1, 0.1, 0.01]
        tau, worst = np.zeros(7), 0.0
        for _ in range(300):
            found = observer.update(plant.time, plant.q, plant.qd, tau)
            worst = max(worst, np.abs(found.torque).max())
            tau = kick * np.sin(6.0 * plant.time)
            plant.step(tau, 2)
        assert np.abs(plant.q - READY).max() > 0.05
        assert worst < 0.05

    def test_measured_efforts_count_with_the_drivers_torques_or_without(self):
        robot = panda()
        weight = -Momentum(robot).at(READY, np.zeros(7))[1]
        for includes, effort in ((True, weight), (False, np.zeros(7))):
            observer = MomentumObserver(robot, K, driver=Driver(robot, 'gravity'),
                                        effort_includes_driver=includes)
            for k in range(200):
                found = observer.update(k * PERIOD, READY, np.zeros(7), np.ones(7), effort)
            assert np.abs(found.torque).max() < 1e-9

    def test_joint_without_a_measured_effort_uses_its_command(self):
        robot, observer = panda(), MomentumObserver(panda(), K)
        weight = -Momentum(robot).at(READY, np.zeros(7))[1]
        effort, command = weight.copy(), weight.copy()
        effort[[1, 4]], command[[0, 2, 3, 5, 6]] = np.nan, 99.0
        for k in range(200):
            found = observer.update(k * PERIOD, READY, np.zeros(7), command, effort)
        assert np.abs(found.torque).max() < 1e-9

    def test_new_model_takes_the_estimate_over(self):
        robot, loaded = panda(), panda().with_payload(1.0)
        tau = -Momentum(loaded).at(READY, np.zeros(7))[1]
        old, new = MomentumObserver(robot, K), MomentumObserver(loaded, K)
        for k in range(200):
            before = old.update(k * PERIOD, READY, np.zeros(7), tau).torque
        new.go_on_from(old)
        assert (new.update(200 * PERIOD, READY, np.zeros(7), tau).torque == before).all()
        for k in range(201, 203):
            found = new.update(k * PERIOD, READY, np.zeros(7), tau).torque
            assert far(found, before * math.exp(-K * PERIOD * (k - 200))) < 1e-9

    def test_gravity_of_a_tilted_base(self):
        observer = MomentumObserver(panda(), K)
        observer.gravity[:] = [3.0, 0.0, -9.0]
        tau = -Momentum(panda().with_gravity([3.0, 0.0, -9.0])).at(READY, np.zeros(7))[1]
        for k in range(100):
            found = observer.update(k * PERIOD, READY, np.zeros(7), tau)
        assert np.abs(found.torque).max() < 1e-9


def pose_moved(T, shift):
    there = T.copy()
    there[:3, 3] += shift
    return there


def explained(robot, q, external, **options):
    """Return the estimate after it has settled, at rest under external torques (n,)."""
    observer, rest = MomentumObserver(robot, 100.0, **options), np.zeros(robot.n)
    tau = -Momentum(robot).at(q, rest)[1] - external
    for k in range(300):
        observer.update(k * PERIOD, q, rest, tau)
    assert np.abs(observer.external.torque - external).max() < 1e-9
    return observer.external


class TestQuality:
    """What the wrench cannot tell, and says so."""

    def test_what_the_wrench_lacks_is_bounded_by_the_quality(self):
        robot, rng, damping = panda(), np.random.default_rng(0), SingularityDamping()
        lower, upper = robot.position_limits.T
        S = np.array([1.0] * 3 + [damping.length] * 3)  # N·m
        for _ in range(30):
            q, F = rng.uniform(lower, upper), rng.normal(size=6) / S
            J = jacobian(robot, q)
            found, conditioning = explained(robot, q, J.T @ F), damping.conditioning(J)
            lacking = np.linalg.norm(S * (found.wrench - F)) / np.linalg.norm(S * F)
            assert lacking <= 1.0 - found.quality + 1e-9
            if conditioning > 0.12:
                assert found.quality > 0.99
            if conditioning < 0.01:
                assert found.quality < 0.5

    def test_quality_falls_to_zero_at_a_singular_pose(self):
        robot, damping, q = panda(), SingularityDamping(), READY.copy()
        q[4] = 0.0
        poses = []
        for q[3] in np.linspace(-0.6, -0.3, 151):
            poses.append((damping.conditioning(jacobian(robot, q)), q.copy()))
        conditioning, q = min(poses, key=lambda pose: pose[0])
        assert conditioning < 1e-3
        F = np.array([0.3, 0.2, 0.1, 5.0, 3.0, 4.0])
        found = explained(robot, q, jacobian(robot, q).T @ F)
        assert found.quality < 0.01
        assert np.abs(found.wrench).max() < 20.0

    def test_unknown_torques_at_a_singular_pose_give_no_large_wrench(self):
        robot, rng, q = panda(), np.random.default_rng(0), READY.copy()
        q[3:5] = -0.42, 0.0
        for _ in range(5):
            external = rng.normal(size=7)
            assert np.abs(explained(robot, q, external).wrench).max() < 100.0

    def test_force_on_the_elbow_of_seven_joints_leaves_a_residual(self):
        robot = panda()
        elbow, J4 = replace(robot, tips=('panda_link4',)), np.zeros((6, 7))
        J4[:] = jacobian_of(elbow, READY)
        found = explained(robot, READY, J4[3:].T @ np.array([0.0, 20.0, 0.0]))
        assert np.abs(found.residual).max() > 1.0
        assert found.quality < 0.95
        assert found.lever > 0.1
        at_tip = explained(robot, READY, jacobian(robot, READY)[3:].T @ [0.0, 20.0, 0.0])
        assert np.abs(at_tip.residual).max() < 0.01
        assert at_tip.quality > 0.999
        assert at_tip.lever < 0.005

    def test_force_on_the_elbow_of_six_joints_has_a_long_lever_and_no_residual(self):
        *_, robot = robot_named('ur5e')
        q = np.array([0.0, -1.2, 1.6, -1.9, -1.5, 0.3])
        J = jacobian_of(replace(robot, tips=('forearm_link',)), q)
        found = explained(robot, q, J[3:].T @ np.array([0.0, 0.0, -30.0]))
        assert np.abs(found.residual).max() < 0.05
        assert found.lever > 0.05

    def test_fewer_than_six_joints_have_quality_zero_and_the_torques_are_right(self):
        robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, 'panda_link4')
        found = explained(robot, READY[:4], np.array([1.0, 2.0, 3.0, 4.0]))
        assert found.quality == 0.0
        assert np.isfinite(found.wrench).all()

    def test_prismatic_joints_count_in_their_units(self):
        *_, robot = robot_named('random')
        rng, F = np.random.default_rng(0), np.array([1.0, 2.0, -1.0, 5.0, 10.0, -5.0])
        q = rng.uniform(-1.0, 1.0, robot.n)
        found = explained(robot, q, jacobian(robot, q).T @ F)
        assert found.quality > 0.9
        np.testing.assert_allclose(found.wrench, F, atol=0.15)

    def test_estimate_that_has_not_settled_says_so(self):
        robot, observer = panda(), MomentumObserver(panda(), K)
        tau = -Momentum(robot).at(READY, np.zeros(7))[1]
        assert observer.external.quality == 0.0
        for k in range(26):
            observer.update(k * PERIOD, READY, np.zeros(7), tau)
        assert observer.external.quality == pytest.approx(1.0 - math.exp(-1.0), abs=0.01)

    def test_no_force_has_no_lever(self):
        assert MomentumObserver(panda()).external.lever == math.inf


def jacobian_of(robot, q):
    """Return J (6, n) of the tip of a robot that need not be a chain."""
    space = OperationalSpace(robot, 'recursive')
    space.outward(q, np.zeros(robot.n))
    return space.jacobian()


class TestBadInput:
    """Whatever arrives, the estimate stays finite, and recovers."""

    def observed(self):
        """Return an observer that has settled, its command, and the time."""
        robot, observer = panda(), MomentumObserver(panda(), K)
        external = jacobian(robot, READY).T @ np.array([0.0, 0.0, 0.0, 10.0, 0.0, 0.0])
        tau = -Momentum(robot).at(READY, np.zeros(7))[1] - external
        for k in range(500):
            observer.update(k * PERIOD, READY, np.zeros(7), tau)
        assert np.abs(observer.external.torque - external).max() < 1e-6
        return observer, tau, k * PERIOD

    @pytest.mark.parametrize('change', (
        'nan q', 'nan qd', 'inf q', 'nan time', 'inf time', 'nan tau', 'huge q̇', 'repeated',
        'late', 'gap'))
    def test_a_bad_tick_holds_the_estimate(self, change):
        observer, tau, time = self.observed()
        before = observer.external.torque.copy()
        bad, rest = np.full(7, np.nan), np.zeros(7)
        q, qd, command, now = READY, rest, tau, time + PERIOD
        if change.startswith(('nan', 'inf')):
            value, what = float(change[:3]), change[4:]
            bad = np.where(np.arange(7) == 3, value, 0.0)
            q, qd, command = (x + bad if name == what else x
                              for name, x in (('q', q), ('qd', qd), ('tau', command)))
            now = value if what == 'time' else now
        elif change == 'huge q̇':
            qd = np.full(7, 1e200)
        else:
            now = {'repeated': time, 'late': time - 5 * PERIOD, 'gap': time + 1.0}[change]
            command = command + 50.0
        observer.update(now, q, qd, command)
        assert (observer.external.torque == before).all()
        assert np.isfinite(observer.external.wrench).all()
        after = now if change == 'gap' else time + PERIOD
        for k in range(1, 4):
            observer.update(after + k * PERIOD, READY, rest, tau)
        assert np.abs(observer.external.torque - before).max() < 1e-9

    def test_clock_that_is_set_back_starts_at_zero(self):
        observer, tau, time = self.observed()
        found = observer.update(time - 0.5, READY, np.zeros(7), tau)
        assert not found.torque.any() and found.quality == 0.0
        observer.update(time - 0.5 + PERIOD, READY, np.zeros(7), tau)
        assert found.wrench[3] == pytest.approx(-10.0 * np.expm1(-K * PERIOD), abs=0.01)

    def test_forgotten_estimate_starts_at_zero(self):
        observer, tau, time = self.observed()
        observer.forget()
        assert not observer.external.torque.any() and not observer.external.wrench.any()
        assert observer.external.quality == 0.0
        assert not observer.update(time, READY, np.zeros(7), tau).torque.any()

    def test_one_absurd_finite_state_is_forgotten_within_seconds(self):
        observer, tau, time = self.observed()
        robot, before = observer.robot, observer.external.torque.copy()
        for qd in (1e3, 1e9, 1e100):
            observer.update(time + PERIOD, READY, np.full(7, qd), tau)
            assert (np.abs(observer.external.torque) <= LARGEST * robot.effort_limits).all()
            for k in range(2, 502):
                observer.update(time + k * PERIOD, READY, np.zeros(7), tau)
            time += 501 * PERIOD
            assert np.abs(observer.external.torque - before).max() < 1e-4

    def test_random_input_never_raises_and_stays_finite(self):
        rng = np.random.default_rng(0)
        strange = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 1e150, 0.0]
        for robot in (panda(), robot_named('random')[-1], Robot(**random_tree(
                3, *TREES['floating'], rotors=True).description)):
            observer = MomentumObserver(
                robot, K, friction=Friction(np.ones(robot.n), np.ones(robot.n)))
            time = 0.0
            for k in range(600):
                given = [rng.normal(size=size) for size in (robot.nq, *[robot.n] * 3)]
                if k % 2:
                    for values in given:
                        values[rng.integers(len(values))] = strange[rng.integers(len(strange))]
                time = (time + rng.choice([0.0, 1e-300, 1e-9, 1e-3, 0.5, -1e-3, -1.0])
                        if rng.random() < 0.9 else rng.choice(strange))
                found = observer.update(time, *given[:3], given[3] if k % 3 else None)
                for values in (found.torque, found.wrench, found.residual):
                    assert np.isfinite(values).all()
                assert 0.0 <= found.quality <= 1.0
                time = time if abs(time) < 1e6 else 0.0

    def test_lists_and_other_arrays_are_accepted(self):
        observer, tau, time = self.observed()
        other, _, _ = self.observed()
        first = observer.update(time + PERIOD, READY, np.zeros(7), tau).torque
        q = np.stack([READY, READY], axis=1)[:, 0]
        second = other.update(np.float32(1.0) * (time + PERIOD), list(q), [0] * 7, tuple(tau))
        assert np.abs(first - second.torque).max() < 1e-6
        assert np.isfinite(other.update(1, q, np.zeros(7, dtype=int), tau, list(tau)).torque).all()

    @pytest.mark.parametrize('shapes', ((6, 7, 7, 7), (7, 8, 7, 7), (7, 7, 1, 7), (7, 7, 7, 3)))
    def test_wrong_shapes_are_refused(self, shapes):
        observer = MomentumObserver(panda())
        with pytest.raises(InputError, match=r'(give|must be).*\(7,\).*\(7,\)'):
            observer.update(0.0, *(np.zeros(size) for size in shapes))

    def test_input_that_is_not_made_of_numbers_is_refused(self):
        with pytest.raises(InputError, match='of numbers'):
            MomentumObserver(panda()).update(0.0, ['a'] * 7, READY, READY)

    @pytest.mark.parametrize('bandwidth', (0.0, -1.0, math.nan, math.inf))
    def test_bandwidth_that_is_not_positive_is_refused(self, bandwidth):
        with pytest.raises(InputError, match='bandwidth .*positive'):
            MomentumObserver(panda(), bandwidth)

    @pytest.mark.parametrize('link', ('panda_link0', 'nowhere'))
    def test_link_that_does_not_move_is_refused(self, link):
        with pytest.raises(InputError, match=f"'{link}'.*(give|must be)"):
            MomentumObserver(panda(), link=link)

    def test_friction_for_other_joints_is_refused(self):
        with pytest.raises(InputError, match='friction.* 3 .*(give|must be).* 7'):
            MomentumObserver(panda(), friction=Friction(np.ones(3), np.ones(3)))

    def test_update_compiles_nothing(self):
        MomentumObserver(panda())
        assert not external_module.observe._can_compile
