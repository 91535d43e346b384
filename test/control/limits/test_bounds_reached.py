# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Remaining errors at active limits, compared with scipy and Pinocchio; smooth torques."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from arm import JUMPS, moved, PERIOD, settings
from foreign import ForeignPlant
from judge import configuration, pinocchio_model, robot_cases
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.setpoint.trajectory import figure_of_eight, PoseGoal
from osc_ros.control.tasks.task import TargetLimits
from thrown import Thrown
from variants import first_quick

LENGTH = 0.3  # length that 1 rad of rotation counts as, as in `arm.settings` [m]


def error(T, D):
    """Return the pose error (6,) [m]; a rotation of 1 rad counts as LENGTH."""
    turn = Rotation.from_matrix(D[:3, :3] @ T[:3, :3].T).as_rotvec()
    return np.r_[LENGTH * turn, D[:3, 3] - T[:3, 3]]


def least_error(name, robot, D, starts, share=1.0, effort=None):
    """
    Return the smallest pose error [m] within the limits, by optimization from `starts`.

    Joint positions stay within their limits, gravity torques within `share` of the effort limits.
    """
    case = robot_cases()[name]
    model, data, tip = pinocchio_model(case.urdf_text, case.base, case.tip, robot.joint_names,
                                       case.locked)
    effort = robot.effort_limits if effort is None else effort
    lower, upper = np.clip(robot.position_limits, -7.0, 7.0).T

    def cost(q):
        pin.framesForwardKinematics(model, data, configuration(model, q))
        return 1e2 * np.sum(error(data.oMf[tip].homogeneous, D) ** 2)

    def room(q):
        load = pin.computeGeneralizedGravity(model, data, configuration(model, q)) / effort
        return np.r_[share - load, share + load]

    found = []
    for start in starts:
        result = minimize(cost, np.clip(start, lower + 1e-3, upper - 1e-3), method='SLSQP',
                          bounds=np.column_stack([lower + 1e-3, upper - 1e-3]),
                          constraints={'type': 'ineq', 'fun': room},
                          options={'maxiter': 300, 'ftol': 1e-10})
        if room(result.x).min() > -1e-6:
            found.append(0.1 * np.sqrt(result.fun))
    return min(found)


class Run:
    """An arm in a `ForeignPlant`, controlled by the law; records its motion."""

    def __init__(self, name, targets=None, weight=None, q=None):
        """Start at q; scale the effort limits so that gravity takes the share `weight` of one."""
        case = robot_cases()[name]
        self.name = name
        self.robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
        self.plant = ForeignPlant(name, self.robot.joint_names)
        self.plant.reset(q)
        effort = self.robot.effort_limits.copy()
        if weight is not None:
            effort *= (np.abs(self.plant.weight()) / effort).max() / weight
        self.limits = Limits.of(self.robot, effort=effort)
        self.plant.effort = effort
        self.law = Law(self.robot, replace(
            settings(self.robot, limits=targets or TargetLimits()), limits=self.limits))
        self.law.hold(self.plant.q)
        self.pose = self.plant.pose()
        self.times, self.q, self.qd, self.torques, self.poses = [], [], [], [], []

    def run(self, until):
        """Simulate up to a time [s]."""
        while self.plant.time < until - 0.5 * PERIOD:
            q, qd = self.plant.q.copy(), self.plant.qd.copy()
            tau = self.law.torque(self.plant.time, q, qd)
            for kept, value in ((self.times, self.plant.time), (self.q, q), (self.qd, qd),
                                (self.torques, tau), (self.poses, self.plant.pose())):
                kept.append(value)
            self.plant.step(tau, PERIOD)
        return self

    def steps(self):
        """Return the largest torque step of each tick, relative to the limit."""
        return (np.abs(np.diff(self.torques, axis=0)) / self.limits.effort).max(axis=1)

    def errors(self, motion):
        """Return the pose error at each tick [m]."""
        return np.array([np.linalg.norm(error(T, motion.at(t).pose))
                         for t, T in zip(self.times, self.poses)])

    def assert_limits_are_kept(self):
        """Require that all limits are kept; velocities may exceed their limits by 1 %."""
        q, (lower, upper) = np.array(self.q), self.limits.position.T
        assert (q >= lower).all() and (q <= upper).all()
        assert (np.abs(self.qd) <= 1.01 * self.limits.velocity).all()
        assert (np.abs(self.torques) <= self.limits.effort).all()


def folded():
    """Return joint positions of a Panda: elbow at its limit, hand pointing down."""
    return np.array([0.0, -np.pi / 4, 0.0, -3.0718 + 2e-3, 0.0, 3.0718 - np.pi / 4, np.pi / 4])


@pytest.mark.parametrize('targets, largest_step', [
    (TargetLimits(), 0.02), pytest.param(JUMPS, 0.16, marks=pytest.mark.slow)],
                         ids=['led', 'jumps'])
def test_panda_with_its_elbow_at_the_limit_retracts_without_steps_as_far_as_it_can(
        targets, largest_step):
    arm = Thrown('panda', targets).start(folded()).run(0.02)
    goal = moved(arm.pose, (-0.12, 0.0, 0.0))
    arm.law.follow(PoseGoal(goal), 0.02)
    arm.run(9.0)
    arm.assert_limits_are_kept()
    # omit the first ticks, in which a target that jumps causes a torque step
    assert arm.steps()[10:].max() < largest_step
    asked_for_nothing = [0, 2, 4, 6]
    assert (np.abs(arm.qd) / arm.limits.velocity)[:, asked_for_nothing].max() < 0.15
    errors = np.array([np.linalg.norm(error(T, goal)) for T in arm.poses])
    # first a fast motion in the plane of the arm, later one out of this plane
    assert errors[1000] < 0.09
    rng = np.random.default_rng(0)
    least = least_error('panda', arm.robot, goal,
                        folded() + 0.3 * rng.normal(size=(6, 7)) * [1, 1, 1, 0, 1, 1, 1])
    assert errors[-1] < 1.03 * least
    assert np.abs(arm.qd[-1]).max() < 0.02


def heavy_baxters(count, seed=1):
    """Return joint positions of Baxter at which gravity takes 92 to 94 % of an effort limit."""
    case = robot_cases()['baxter']
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    plant, rng, found = ForeignPlant('baxter', robot.joint_names), np.random.default_rng(seed), []
    while len(found) < count:
        plant.reset(0.8 * rng.uniform(*robot.position_limits.T))
        if 0.92 < (np.abs(plant.weight()) / robot.effort_limits).max() < 0.94:
            found.append(plant.q)
    return found


@pytest.mark.parametrize('number', [
    0, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2, 3))])
def test_baxter_that_gravity_takes_93_percent_of_follows_a_path_without_falling(number):
    arm = Run('baxter', q=heavy_baxters(4)[number])
    path = figure_of_eight(arm.pose, 0.3, 0.2, 4.0, 1.0, 0.2)
    arm.law.follow(path, 0.0)
    arm.run(6.0)
    arm.assert_limits_are_kept()
    assert arm.steps().max() < 0.05
    errors = arm.errors(path)
    assert errors.max() < 0.16
    assert errors[-1] < 2e-3


@pytest.mark.parametrize('number', [  # the poses that are not near a singularity
    2, *(pytest.param(number, marks=pytest.mark.slow) for number in (6, 10, 16))])
def test_baxter_that_is_to_reach_out_to_where_it_would_fall_stops_at_the_edge(number):
    arm = Run('baxter', q=heavy_baxters(number + 1)[-1]).run(0.02)
    out = arm.pose[:3, 3] * [1.0, 1.0, 0.0]
    goal = moved(arm.pose, 0.2 * out / np.linalg.norm(out))
    arm.law.follow(PoseGoal(goal), 0.02)
    arm.run(3.0)
    arm.assert_limits_are_kept()
    assert arm.steps().max() < 0.02
    load = np.abs(arm.plant.weight()) / arm.limits.effort
    assert 0.96 < load.max() < 0.98
    least = least_error('baxter', arm.robot, goal, [arm.q[0], arm.q[-1]], 0.97)
    assert least > 0.03
    assert np.linalg.norm(error(arm.poses[-1], goal)) < 1.06 * least


CASES = [(name, kind) for name in ('baxter', 'xarm7', 'kinova', 'ur5', 'tiago')
         for kind in ('position', 'load')]


@pytest.mark.parametrize('name, kind', first_quick(CASES, 4),
                         ids=['-'.join(case) for case in CASES])
def test_arm_at_any_limit_steps_no_torque_and_ends_where_the_limits_let_it(name, kind):
    """The arm starts with a joint at its limit, or gravity takes 80 to 99 % of an effort limit."""
    case, rng = robot_cases()[name], np.random.default_rng(len(name))
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    lower, upper = np.clip(robot.position_limits, -2.5, 2.5).T
    q, weight = lower + rng.uniform(0.15, 0.85, size=robot.n) * (upper - lower), None
    if kind == 'load':
        weight = rng.uniform(0.8, 0.99)
    else:
        joint = rng.choice(np.flatnonzero(np.isfinite(robot.position_limits).all(axis=1))[1:-1])
        side = rng.integers(2)
        q[joint] = robot.position_limits[joint, side] + (1 - 2 * side) * 2e-3
    arm = Run(name, weight=weight, q=q)
    shift = rng.normal(size=3)
    goal = moved(arm.pose, 0.12 * shift / np.linalg.norm(shift), 0.2 * rng.normal(size=3))
    arm.run(0.02).law.follow(PoseGoal(goal), 0.02)
    arm.run(3.0)
    arm.assert_limits_are_kept()
    # omit the first ticks: the joint starts in its soft zone, where the posture pushes it at once
    assert arm.steps()[10:].max() < 0.05
    least = least_error(name, arm.robot, goal, [arm.q[-1]], 0.97, arm.limits.effort)
    assert np.linalg.norm(error(arm.poses[-1], goal)) < 1.05 * least + 5e-3
