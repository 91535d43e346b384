# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Friction compensation: compiled kernels compared with numpy."""

from dataclasses import replace

import numpy as np
import pytest

from arm import READY, settings
from friction_kernel import compiled
from judge import robot_cases
from osc_ros import OperationalSpace, Robot
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import DECELERATION, EFFORT, LOWER, RATE, SPEED, UPPER, ZONE
from osc_ros.control.model_error.friction import (
    FADE,
    feedback_gain,
    Friction,
    least_inertia,
    LOOK_AHEAD,
    MODEL_ERROR,
    PUSH,
)
from osc_ros.control.setpoint.trajectory import figure_of_eight
from osc_ros.control.step.reference import MEMORY, PAUSE
from osc_ros.control.tasks.task import ForceControl, Gains, Stiffness, Task
from osc_ros.dynamics.priority.priority import Priorities
from osc_ros.dynamics.trees.articulated import Articulated

STRETCHED = np.array([0.0, 0.3, 0.0, -0.05, 0.0, 0.4, 0.0])


class Plain:
    """Second implementation of a law's friction compensation: in numpy, with its own solver."""

    def __init__(self, law, at, axes):
        """Start at rest; task i is on link at[i], its frame has the rotation axes(q)[i] (3, 3)."""
        self.law, self.at, self.axes = law, at, axes
        links = list(dict.fromkeys(level.task.link or law.robot.tip
                                   for level in law.levels.values()))
        robot = replace(law.robot, tips=tuple(links))
        self.dynamics = Articulated(robot)
        self.space = OperationalSpace(robot, None, tips=tuple(links))
        self.solver = Priorities(at, len(links), robot.n)
        self.inertia = least_inertia(law.robot)
        self.velocity = self.acceleration = np.zeros(robot.n)
        self.time, self.tick = -np.inf, 0.0

    def posture(self, q, qd):
        """Return the joint acceleration (n,) of the posture."""
        law, table, n = self.law, self.law.limiter.d.limits, len(q)
        away = law.posture - q
        turns = ~np.isfinite(law.robot.position_limits).any(axis=1) & ~law.robot.prismatic
        away = np.where(turns, (away + np.pi) % (2.0 * np.pi) - np.pi, away)
        chosen, repulsion = law.settings.posture, law.settings.limits.repulsion
        frequency = chosen.natural_frequency
        rate = max(2.0 * chosen.damping_ratio * frequency, chosen.damping)
        qdd = rate * (np.clip(frequency**2 / rate * away, -table[SPEED], table[SPEED]) - qd)
        zone = np.where(table[ZONE] > 0.0, table[ZONE], 1.0)
        for sign, distance in ((1.0, q - table[LOWER]), (-1.0, table[UPPER] - q)):
            depth = np.clip(1.0 - distance / zone, 0.0, 1.0)
            qdd += np.where(table[ZONE] > 0.0, sign * repulsion**2 * zone * depth**2, np.zeros(n))
        return qdd

    def advance(self, time, q):
        """Advance the reference motion to `time`; return the tasks' highest feedback rate."""
        found = self.space.outward(q, np.zeros(len(q)))
        J, Lambda_inv = self.space.jacobian(), found.Lambda_inv
        dt, before = time - self.time, self.velocity
        ticks = 0.0 < dt <= PAUSE
        velocity = before + dt * self.posture(q, before) if ticks else before
        levels, highest = list(self.law.levels.values()), 0.0
        d = self.solver.d
        for k, (level, link, axes) in enumerate(zip(levels, self.at, self.axes(q))):
            twist = level.target.twist
            d.level_activation[k], d.level_frame[k] = level.activation, axes.ravel()
            d.level_u[k] = level.moves * [*twist[:3] @ axes, *twist[3:] @ axes]
            gains, rates = level.task.gains, [level.rate]
            if not isinstance(gains, Gains):
                mobility = np.diag(Lambda_inv)[6 * link:6 * link + 6]
                rates.extend(2.0 * gains.damping_ratio * np.sqrt(gains.stiffness * mobility))
            highest = max(highest, *rates)
        F = self.solver.solve(J, Lambda_inv, J @ velocity, self.law.settings.damping)
        velocity = velocity + self.dynamics.response(q, np.zeros(len(q)), F)
        most = self.law.limiter.d.limits[SPEED]
        self.velocity = np.clip(velocity, -most, most)
        if ticks:
            self.acceleration = (self.velocity - before) / dt
        elif dt != 0.0:
            self.acceleration = np.zeros(len(q))
        if 0.0 < dt < np.inf:
            dt = min(dt, PAUSE)
            self.tick = max(dt, self.tick - (self.tick - dt) * dt / MEMORY)
        self.time = time
        return highest

    def torque(self, time, q, qd, tau):
        """Return the torques (n,) against friction; `tau` (n,): the law's other torques."""
        rate = self.advance(time, q)
        model = self.dynamics.inverse_dynamics(q, qd, self.acceleration)
        return compensation(
            self.law.settings.friction, q, qd, self.velocity, self.acceleration, model, tau,
            feedback_gain(rate, self.tick), self.inertia, self.law.limiter.d.limits)


def compensation(friction, q, qd, reference, acceleration, model, tau, gain, inertia, table):
    """Return the torques (n,) against friction, computed with numpy."""
    most = PUSH * inertia * table[SPEED] * table[RATE]
    sliding = np.tanh((reference + LOOK_AHEAD * acceleration) / friction.velocity)
    wanted = friction.coulomb * sliding + friction.viscous * reference
    free = friction.coulomb * (1.0 - np.abs(sliding))
    demand = tau - model
    unsure = MODEL_ERROR * np.abs(sliding * model)
    feedback = gain * (demand - np.clip(demand, -unsure, unsure))
    torque = np.clip(np.clip(wanted, -most, most) + feedback, np.minimum(wanted, 0.0) - free,
                     np.maximum(wanted, 0.0) + free)
    torque = np.clip(torque, -most, most)
    hasty = table[DECELERATION] / table[RATE]
    distance = np.maximum(np.where(torque > 0.0, table[UPPER] - q, q - table[LOWER]), 0.0)
    allowed = np.sqrt(hasty**2 + 2.0 * table[DECELERATION] * distance) - hasty
    x = np.clip((np.minimum(table[SPEED], allowed) - np.abs(qd)) / (FADE * table[SPEED]), 0.0, 1.0)
    x = np.minimum(x, np.clip((1.0 - np.abs(qd) / table[SPEED]) / FADE, 0.0, 1.0).min())
    total = tau + x * x * (3.0 - 2.0 * x) * torque
    return np.clip(total, np.minimum(tau, -table[EFFORT]), np.maximum(tau, table[EFFORT])) - tau


def told(name):
    """Return a robot of robot_cases() and random friction parameters."""
    case = robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    rng = np.random.default_rng(5)
    return robot, Friction(*rng.uniform(0.0, 1.0, size=(2, robot.n)))


def compare(law, plain, q, steps=200):
    """
    Return the largest difference of the friction torques of `law` and `plain` [N·m].

    The targets follow a figure of eight; the joint states do not follow them.

    """
    rng, time, worst, helped = np.random.default_rng(3), 0.0, 0.0, 0.0
    law.hold(q)
    law.follow(figure_of_eight(law.pose, 0.1, 0.06, 2.0, 50.0, 0.0), 0.0)
    for k in range(steps):
        state = q + 0.2 * np.sin(0.05 * k + np.arange(len(q)))
        qd = rng.normal(size=len(q)) * rng.choice([0.01, 0.3])
        sent = law.torque(time, state, qd)
        found = law.friction_torque
        expected = plain.torque(time, state, qd, sent - found)
        worst = max(worst, np.abs(found - expected).max())
        helped += np.abs(found).mean() / steps
        time += rng.choice([0.0, 0.001, 0.002, 0.002, 0.05, 0.3], p=[.05, .3, .3, .2, .1, .05])
    assert helped > 0.05
    return worst


@pytest.mark.parametrize('name, q', [('panda', READY), ('panda', STRETCHED), ('xarm7', None),
                                     ('tiago', None)])
def test_friction_compensation_agrees_with_numpy(name, q):
    robot, friction = told(name)
    law = Law(robot, replace(settings(robot), friction=friction))
    lower, upper = np.clip(robot.position_limits, -2.0, 2.0).T
    q = 0.5 * (lower + upper) if q is None else q
    # `law` and `plain` factor the inertia in different ways, so rounding errors differ
    assert compare(law, Plain(law, [0], lambda q: [np.eye(3)]), q) < 1e-11


def test_friction_compensation_of_a_spring_and_a_half_active_task_agrees_with_numpy():
    robot, friction = told('panda')
    first = settings(robot).tasks[0]
    tool = Task(Stiffness([50.0] * 3 + [500.0] * 3, [1.0] * 6, [10.0, 50.0]),
                frame='panda_hand_tcp', axes=('motion',) * 5 + ('force',),
                force=ForceControl(damping=20.0))
    elbow = Task(first.gains, 'elbow', 'panda_link4', axes=('free',) * 3 + ('motion',) * 3,
                 activation=0.5)
    law = Law(robot, replace(settings(robot), tasks=(tool, elbow), friction=friction))
    look = OperationalSpace(robot)

    def axes(q):
        return [look.outward(q, np.zeros(7)).pose[:3, :3].copy(), np.eye(3)]

    assert compare(law, Plain(law, [0, 1], axes), READY) < 1e-12


def test_friction_compensation_beside_any_torque_agrees_with_numpy():
    n, rng = 5000, np.random.default_rng(2)
    table = rng.uniform(0.2, 20.0, size=(8, n))
    table[SPEED] = rng.uniform(2.0, 5.0, n)
    table[LOWER], table[UPPER] = -rng.uniform(0.1, 3.0, n), rng.uniform(0.1, 3.0, n)
    friction = Friction(*rng.uniform(0.0, 2.0, size=(2, n)))
    q, qd = 3.2 * rng.uniform(-1.0, 1.0, n), 1.9 * rng.uniform(-1.0, 1.0, n)
    reference, acceleration = rng.normal(size=(2, n)) * rng.choice([0.0, 0.01, 1.0], n)
    model, tau = 10.0 * rng.normal(size=(2, n)) * rng.choice([0.0, 0.1, 1.0], n)
    inertia = 10.0 ** rng.uniform(-4, 1, n)
    for gain in (0.0, 1.5, 4.0):
        qd *= 0.95
        found = compiled(friction, q, qd, np.array([reference, acceleration, model]), tau, gain,
                         inertia, table)
        expected = compensation(friction, q, qd, reference, acceleration, model, tau, gain,
                                inertia, table)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-12)
        assert np.abs(found).mean() > 0.1
        room = np.maximum(table[EFFORT], np.abs(tau))
        assert (np.abs(tau + found) <= room * (1.0 + 1e-14)).all()
