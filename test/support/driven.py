# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An arm in MuJoCo that is driven against obstacles, with an engine."""

import math
from time import perf_counter

import numpy as np

from arm import Arm, moved, PANDA, PERIOD, READY
from osc_ros import Law, Robot, Settings
from osc_ros.control.model_error.contact import Contact
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.safety.supervision import (
    CONTACT,
    NOT_FINITE,
    STALE_TARGET,
    Supervision,
    Watchdog,
)
from osc_ros.control.settings import Observation
from osc_ros.control.tasks.task import TargetLimits, Task
from osc_ros.loop.engine import Engine
from osc_ros.sim import Plant

IMPEDANCE = 0.01  # of the wall's constraint in MuJoCo
SPEED, DISTANCE = 0.5, 0.15  # of the tip at the collision [m/s]; before it [m]


class Driven:
    """An engine that drives the Panda in MuJoCo in lockstep, with a wall below the tip."""

    def __init__(self, reaction='report', stiffness=1e5, wall=True, payload=0.0, contact=None,
                 latched=True, plant=None, **settings):
        self.robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
        self.floor = Arm().pose[2, 3] - DISTANCE
        pose = np.eye(4)
        pose[2, 3] = self.floor - 0.01
        self.plant = Plant(PANDA.urdf_text, PANDA.base, self.robot.joint_names, **{
            'friction': [0.0] * 7, 'damping': [0.0] * 7, **(plant or {}),
            **({'wall': pose, 'ball': (PANDA.tip, 0.01)} if wall else {})})
        self.plant.reset(READY)
        self.load = [0.0, 0.0, -9.81 * payload]
        task = Task(limits=TargetLimits([2.5, SPEED], [12.5, 8.0], [125.0, 200.0]))
        self.law = Law(self.robot, Settings.of(self.robot, tasks=(task,), **{
            'observation': Observation(), **settings}))
        if wall:
            self.limit_gains(stiffness)
        contact = contact or Contact.of(self.robot, Disturbance(), False)
        self.commands, self.events, self.forces, self.heights = [], [], [], []
        self.touched = self.reacted = math.inf
        self.engine = Engine(
            self.law, Supervision({CONTACT: Watchdog(reaction, latched),
                                   NOT_FINITE: Watchdog('hold'),
                                   STALE_TARGET: Watchdog('report')},
                                  self.robot.effort_limits, contact=contact),
            PERIOD, lambda tau, stamp: self.commands.append(tau),
            lambda *event: self.events.append(event))
        self.engine.use_clock(lambda: self.plant.time)
        self.update()
        self.engine.activate()

    def limit_gains(self, stiffness):
        """Give the wall a stiffness [N/m], and a damping [N s/m]."""
        model = self.plant.model
        # with a small impedance, MuJoCo's constraint is a spring and a damper
        share = model.body_invweight0[model.geom_bodyid.max(), 0]
        model.geom_solref[:] = [-stiffness * share, -0.2 * math.sqrt(stiffness) * share]
        model.geom_solimp[:, :3] = [IMPEDANCE, IMPEDANCE, 0.001]

    def update(self, effort=None):
        return self.engine.update(self.plant.time, self.plant.q.copy(), self.plant.qd.copy(),
                                  (0, 0), perf_counter(), effort)

    def step(self):
        self.plant.push(PANDA.tip, self.load)
        self.update()
        if self.engine.guard.reaction and self.reacted == math.inf:
            self.reacted = self.plant.time
        self.plant.step(self.commands[-1], 2)
        self.heights.append(self.tip[2])
        self.forces.append(float(np.linalg.norm(self.plant.contact_force())))
        if self.forces[-1] > 0.0 and self.touched == math.inf:
            self.touched = self.plant.time

    def run(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            self.step()
        return self

    def go(self, *shift):
        self.law.follow(moved(self.plant.pose(PANDA.tip), shift))
        return self

    @property
    def tip(self):
        return self.plant.pose(PANDA.tip)[:3, 3]

    @property
    def sag(self):
        return float(np.linalg.norm(self.tip - Arm().pose[:3, 3]))
