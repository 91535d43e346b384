# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An arm in MuJoCo that is driven into its limits."""

from dataclasses import replace

import numpy as np

from arm import JUMPS, PERIOD, settings
from judge import robot_cases
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.sim import Plant


class Thrown:
    """One arm in MuJoCo, controlled by a law with limits; records its motion."""

    def __init__(self, name, targets=JUMPS, **limits):
        """Create robot, plant and law."""
        case = robot_cases()[name]
        self.tip = case.tip
        self.robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
        n = self.robot.n
        self.plant = Plant(case.urdf_text, case.base, self.robot.joint_names, locked=case.locked,
                           friction=[0.0] * n, damping=[0.0] * n)
        self.limits = Limits.of(self.robot, **limits)
        self.law = Law(self.robot, replace(settings(self.robot, limits=targets),
                                           limits=self.limits))

    def start(self, q, qd=None):
        """Reset the arm to q (and qd), latch the law, and clear the records."""
        self.plant.reset(q, qd)
        self.law.hold(q)
        self.pose = self.plant.pose(self.tip)
        self.times, self.q, self.qd, self.torques, self.sides = [], [], [], [], []
        self.poses, self.ratios, self.shares = [], [], []
        return self

    def run(self, until):
        """Simulate up to a time [s]."""
        while self.plant.time < until - 0.5 * PERIOD:
            q, qd = self.plant.q, self.plant.qd
            self.poses.append(self.plant.pose(self.tip))
            tau = self.law.torque(self.plant.time, q, qd)
            for kept, value in ((self.times, self.plant.time), (self.q, q), (self.qd, qd),
                                (self.torques, tau),
                                (self.sides, self.law.limiter.d.acceleration_sides.copy()),
                                (self.ratios, self.law.priorities.ratios[0].min()),
                                (self.shares, self.law.priorities.shares[0].min())):
                kept.append(value)
            self.plant.step(tau, 2)
        return self

    def steps(self):
        """Return the largest torque step of each tick, relative to the limit."""
        return (np.abs(np.diff(self.torques, axis=0)) / self.limits.effort).max(axis=1)

    def assert_limits_are_kept(self):
        """Require that recorded positions, velocities and torques are within their limits."""
        q, lower, upper = np.array(self.q), *self.limits.position.T
        assert (q >= lower).all() and (q <= upper).all()
        assert (np.abs(self.qd) <= self.limits.velocity).all()
        assert (np.abs(self.torques) <= self.limits.effort).all()
