# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An engine in lockstep with a simulated arm that is pushed, disobeys, or reports wrong states."""

from functools import cache

import numpy as np
import pinocchio as pin

from foreign import ForeignPlant
from judge import configuration, robot_cases
from osc_ros import Law, Robot, Settings
from osc_ros.control.limits.load import Weight
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.loop.engine import Engine

PERIOD = 0.002  # [s]
RESTED = 20  # number of states before the activation
BRAKE = 3.0  # torque of the arm's brakes, relative to the effort limits


@cache
def robot_of(name):
    """Return the robot of a key of `judge.robot_cases`."""
    case = robot_cases()[name]
    return Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=dict(case.locked))


def is_holdable(robot, q, share):
    """Return whether each joint holds the arm at q (n,) with a share of its effort limit."""
    weight = Weight(robot).torque(q, np.array([0.0, 0.0, -9.81]))
    return (np.abs(weight) <= share * robot.effort_limits).all()


def home(robot, share=np.inf):
    """Return positions (n,) near the middle of the joints' ranges that are holdable."""
    lower, upper = np.clip(robot.position_limits, -1.0, 1.0).T
    lower, upper = (np.where(np.isfinite(x), x, y)
                    for x, y in zip(robot.position_limits.T, (lower, upper)))
    rng = np.random.default_rng(5)
    for part in np.linspace(0.1, 0.5, 100):
        away = rng.uniform(-part, part, robot.n)
        found = 0.5 * (lower + upper) + away * (upper - lower)
        if is_holdable(robot, found, share):
            break
    return found


def direction(seed):
    """Return a random unit vector (3,)."""
    found = np.random.default_rng(seed).normal(size=3)
    return found / np.linalg.norm(found)


class Attacked:
    """
    An arm that Pinocchio simulates and an engine controls; its brakes close when commands end.

    Attributes
    ----------
    force : (3,)
        Force on the tip, base axes [N].
    signs : (n,)
        -1 for a motor that turns the other way.
    late : float
        Share of a period after which a torque acts.
    stamp_of : callable
        Stamp of a state, for its true time [s].
    seen : callable
        The state that the driver reports, for the true q, qd.
    speeds : list of float
        Largest joint speed after each period, relative to its limit.
    changes : list of (str, str, str)
        Cause, reaction and text, each time the supervisor changed one of them.

    """

    def __init__(self, name, settings=None, q=None, seen=None, **plant):
        self.robot = robot_of(name)
        self.plant = ForeignPlant(name, self.robot.joint_names, **plant)
        self.plant.reset(home(self.robot) if q is None else q)
        self.law = Law(self.robot, settings or Settings.of(self.robot))
        self.force, self.signs, self.late = np.zeros(3), np.ones(self.robot.n), 0.0
        self.stamp_of, self.seen = lambda time: time, seen or (lambda q, qd: (q, qd))
        self.now, self.sent, self.speeds, self.changes = 1.0, None, [], []
        self.engine = Engine(
            self.law, Supervision.of(self.robot, self.law.settings.limits, 1.0 / PERIOD), PERIOD,
            self._take, self._hear)
        self.engine.guard.clock = lambda: self.now
        self.update = self.engine.update  # answers a state, and plans
        for k in range(-RESTED, 1):  # its brakes hold it
            time = self.now + k * PERIOD
            self.engine.update(time, *self.seen(self.plant.q.copy(), self.plant.qd.copy()), (
                int(time), int(1e9 * (time % 1.0))), time)
        self.engine.activate()

    def _take(self, tau, stamp):
        self.sent = np.array(tau)

    def _hear(self, event, *arguments):
        if event == 'change':
            self.changes.append(arguments)

    def jog(self, seed, angular=0.5, linear=0.1, seconds=1.0):
        """Move the tip with a twist in a random direction, of these speeds [rad/s, m/s]."""
        self.law.follow(TwistGoal(np.concatenate([angular * direction(seed),
                                            linear * direction((seed, 1))]), self.now + seconds))
        return self

    def run(self, seconds):
        """Simulate for a time [s]."""
        plant = self.plant
        for _ in range(round(seconds / PERIOD)):
            self.now += PERIOD
            before = self.sent
            if self.engine.acts:
                time = self.stamp_of(self.now)
                self.update(time, *self.seen(plant.q.copy(), plant.qd.copy()),
                            (int(time), int(1e9 * (time % 1.0))), self.now)
                self.engine.watch(2.0 * PERIOD)
            if not self.engine.acts:
                plant.friction = BRAKE * np.where(np.isfinite(plant.effort), plant.effort, 100.0)
                self.sent = np.zeros(plant.n)
            J = pin.computeFrameJacobian(
                plant.model, plant.data, configuration(plant.model, plant.q), plant.tip,
                pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
            external = J[:3].T @ self.force
            if self.late > 0.0:
                plant.step(self.signs * before, self.late * PERIOD, external)
            plant.step(self.signs * self.sent, (1.0 - self.late) * PERIOD, external)
            self.speeds.append(float(np.abs(plant.qd / plant.velocity).max()))
        return self
