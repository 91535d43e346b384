# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An arm that Pinocchio simulates, whose tip meets a wall; engine and supervisor control it."""

from dataclasses import replace
import math
from time import perf_counter

import numpy as np
import pinocchio as pin

from attacked import robot_of
from foreign import ForeignPlant
from hardware import ARMS
from judge import configuration
from osc_ros.control.law import Law
from osc_ros.control.safety.supervision import CONTACT, Supervision, Watchdog
from osc_ros.control.settings import Observation, Settings
from osc_ros.loop.engine import Engine

PERIOD = 0.002  # [s]
SUBSTEP = 1e-4  # of the simulation [s]; a wall of 1e5 N/m and 0.1 kg oscillate with 1000 rad/s
ROOM = 0.01  # distance of the wall from the tip at the start [m]
DEPTH = 0.02  # distance of the goal behind the wall [m]
HIT = 0.1  # longest duration of a hit that is simulated without feedback [s]
AWAY = 0.05  # time without contact after which the next one is another hit [s]
HOMES = {'kinova': ARMS['kinova'].home, 'xarm7': ARMS['xarm7'].home, 'baxter': ARMS['baxter'].home,
         'ur5': (0.0, -1.2, 1.5, -1.9, -1.6, 0.0), 'ur10': (0.0, -1.2, 1.5, -1.9, -1.6, 0.0),
         'panda': ARMS['panda'].home}


def home(name):
    """Return positions (n,) away from the limits and from singular poses."""
    if name in HOMES:
        return np.array(HOMES[name])
    lower, upper = np.clip(robot_of(name).position_limits, -2.5, 2.5).T
    return 0.5 * (lower + upper) + 0.15 * (upper - lower) * np.sin(2.0 * np.arange(len(lower)))


class WalledPlant(ForeignPlant):
    """
    A `ForeignPlant` whose tip meets a wall, which is a spring without friction.

    Attributes
    ----------
    normal, at : (3,), float
        The wall pushes the tip back along -normal where normal · p > at, base axes [m].
    stiffness : float [N/m]
    peaks : list of float
        Largest force of each hit [N].

    """

    def __init__(self, name, joint_names, normal, stiffness):
        super().__init__(name, joint_names)
        self.normal, self.stiffness, self.at = np.array(normal), stiffness, math.inf
        self.peaks, self.left = [], -math.inf

    @property
    def pace(self):
        """Velocity of the tip along the normal [m/s]."""
        return float(self.row(configuration(self.model, self.q)) @ self.qd)

    def row(self, q):
        """Return the Jacobian (n,) of the tip's position along the normal."""
        return self.normal @ pin.computeFrameJacobian(
            self.model, self.data, q, self.tip, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)[:3]

    def mass(self):
        """Return the effective mass of the tip along the normal [kg]."""
        q = configuration(self.model, self.q)
        row = self.row(q)
        return 1.0 / (row @ np.linalg.solve(self.inertia(q), row))

    def inertia(self, q):
        """Return the mass matrix (n, n)."""
        M = pin.crba(self.model, self.data, q)
        return np.triu(M) + np.triu(M, 1).T

    def step(self, tau, duration):
        """Apply torques (n,), clipped to the effort limits, for a duration [s]."""
        tau = np.clip(tau, -self.effort, self.effort)
        count = round(duration / SUBSTEP)
        dt = duration / count
        for _ in range(count):
            q = configuration(self.model, self.q)
            row = self.row(q)  # also moves the frames of `data`
            pin.updateFramePlacement(self.model, self.data, self.tip)
            depth = self.normal @ self.data.oMf[self.tip].translation - self.at
            force = self.stiffness * max(depth, 0.0)
            self._note(force)
            self.qd = self.qd + dt * pin.aba(self.model, self.data, q, self.qd, tau - force * row)
            self.q = self.q + dt * self.qd
            self.time += dt

    def _note(self, force):
        if force > 0.0:
            if self.time - self.left > AWAY:
                self.peaks.append(0.0)
            self.peaks[-1] = max(self.peaks[-1], force)
            self.left = self.time


class Collision:
    """
    An arm under an engine with default settings, whose tip goes to a goal behind a wall.

    Attributes
    ----------
    least : float
        v √(k m): force of an arm that only its own momentum presses against the wall [N].
    speeds : list of float
        Largest joint speed of every tick, relative to its limit.

    """

    def __init__(self, name, normal=(0.0, 0.0, -1.0), stiffness=1e5, speed=0.25, reaction='report',
                 q=None, contact=None, **settings):
        self.name, self.robot = name, robot_of(name)
        robot = self.robot
        self.plant = WalledPlant(name, robot.joint_names, normal, stiffness)
        self.plant.reset(home(name) if q is None else q)
        base = Settings.of(robot, **{'observation': Observation(), **settings})
        tip = replace(base.tasks[0], limits=replace(
            base.tasks[0].limits, speed=[2.5, speed], acceleration=[12.5, 5.0]))
        self.law = Law(robot, replace(base, tasks=(tip,)))
        usual = Supervision.of(robot, base.limits, 1.0 / PERIOD)
        self.engine = Engine(self.law, replace(
            usual, contact=contact or usual.contact,
            watchdogs={**usual.watchdogs, CONTACT: Watchdog(reaction, latched=True)}),
            PERIOD, self._send, lambda *event: None)
        self.engine.use_clock(lambda: self.plant.time)
        self.tau, self.torques, self.speeds, self.reactions = None, [], [], []
        self.least = self.pace = 0.0
        self._update()
        self.engine.activate()
        self.start = self.plant.pose()

    def _send(self, tau, stamp):
        self.tau = tau

    def _update(self):
        self.engine.update(self.plant.time, self.plant.q.copy(), self.plant.qd.copy(), (0, 0),
                           perf_counter())

    def go(self, room=ROOM, depth=DEPTH):
        """Put the wall before the tip, and a goal behind it."""
        goal, plant = self.plant.pose(), self.plant
        plant.at = plant.normal @ goal[:3, 3] + room
        goal[:3, 3] += (room + depth) * plant.normal
        self.law.follow(goal)
        return self

    def run(self, seconds):
        """Simulate."""
        for _ in range(round(seconds / PERIOD)):
            plant = self.plant
            if not plant.peaks:
                self.pace = max(plant.pace, 0.0)
                self.before = plant.time, plant.q.copy(), plant.qd.copy()
                self.least = self.pace * math.sqrt(plant.stiffness * plant.mass())
            self._update()
            self.torques.append(self.tau)
            self.reactions.append(f'{self.engine.guard.cause}:{self.engine.guard.reaction}')
            plant.step(self.tau, PERIOD)
            self.speeds.append(float((np.abs(plant.qd) / self.robot.velocity_limits).max()))
        return self

    def passive(self):
        """
        Return the speed that the first hit alone gives a joint, relative to its limit.

        The arm goes on for HIT seconds from the last tick before the hit with its weight and its
        Coriolis torques compensated, so that only the wall accelerates it.

        """
        plant, (time, q, qd) = self.plant, self.before
        bare = WalledPlant(self.name, self.robot.joint_names, plant.normal, plant.stiffness)
        bare.reset(q, qd)
        bare.time, bare.at, fastest = time, plant.at, 0.0
        for _ in range(round(HIT / PERIOD)):
            tau = pin.nonLinearEffects(bare.model, bare.data, configuration(bare.model, bare.q),
                                       bare.qd)
            bare.step(tau, PERIOD)
            fastest = max(fastest, float((np.abs(bare.qd) / self.robot.velocity_limits).max()))
        return fastest

    @property
    def fastest(self):
        """Largest joint speed, relative to its limit."""
        return max(self.speeds)

    @property
    def peak(self):
        """Force of the first hit [N]."""
        return self.plant.peaks[0] if self.plant.peaks else 0.0

    @property
    def later(self):
        """Largest force of the following hits [N]."""
        return max(self.plant.peaks[1:], default=0.0)
