# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The shipped Panda in MuJoCo, controlled by the law; for tests and for figures in doc/."""

from dataclasses import replace
import gc

import numpy as np
from scipy.spatial.transform import Rotation

from judge import robot_cases
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.trajectory import Path
from osc_ros.control.settings import Settings
from osc_ros.control.tasks.task import Gains, TargetLimits, Task
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.trees.articulated import Articulated
from osc_ros.dynamics.trees.tree_layout import ARTICULATED
from osc_ros.sim import Plant

READY = np.array([0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4])
PERIOD = 0.002
PANDA = robot_cases()['panda']
UNTOUCHED = -7.0  # no articulated inertia has this entry


def articulated_inertias():
    """Yield the columns of the articulated inertias of all robots in this process."""
    for one in gc.get_objects():
        if issubclass(type(one), Articulated):  # not isinstance, which follows dead references
            yield one._memory.work[:, ARTICULATED]


JUMPS = TargetLimits([np.inf] * 2, [np.inf] * 2, [np.inf] * 2, [np.inf] * 2)


def settings(robot, frequency=20.0, ratio=1.0, speed=(2.5, 1.0), acceleration=(60.0, 20.0),
             limits=JUMPS, **of_joints):
    """Return the settings of panda.yaml, but without limits of targets and effort rate."""
    return Settings((Task(Gains([frequency] * 6, [ratio] * 6, speed, acceleration),
                          limits=limits),),
                    Posture(5.0, 1.0, 1.0), SingularityDamping(0.3, 0.02, 0.06),
                    Limits.of(robot, **{'effort_rate': np.full(robot.n, np.inf), **of_joints}))


class Arm:
    """The shipped Panda, simulated in MuJoCo and controlled by the law."""

    def __init__(self, q=READY, **given):
        """Start at rest at q; `given`: options of Plant, `tasks`, arguments of `settings`."""
        plant = {key: given.pop(key) for key in
                 ('friction', 'damping', 'wall', 'ball') if key in given}
        self.robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
        self.plant = Plant(PANDA.urdf_text, PANDA.base, self.robot.joint_names,
                           **({'friction': [0.0] * 7, 'damping': [0.0] * 7} | plant))
        tasks = given.pop('tasks', None)
        self.law = Law(self.robot, settings(self.robot, **given) if tasks is None else
                       replace(settings(self.robot, **given), tasks=[
                           replace(task, limits=given.get('limits', JUMPS)) for task in tasks]))
        self.plant.reset(q)
        self.law.hold(q)
        self.pose = self.plant.pose(PANDA.tip)
        self.times, self.poses, self.torques = [], [], []

    def run(self, until, each=lambda: None):
        """Simulate up to a time and record each tick; call `each` before every step."""
        while self.plant.time < until - 0.5 * PERIOD:
            self.times.append(self.plant.time)
            self.poses.append(self.plant.pose(PANDA.tip))
            each()
            tau = self.law.torque(self.plant.time, self.plant.q, self.plant.qd)
            self.torques.append(tau)
            self.plant.step(tau, 2)
        return self

    def errors(self, target):
        """Return distance [m] and angle [rad] to a pose, or to a path, at each recorded time."""
        wanted = [target.at(t).pose if isinstance(target, Path) else target for t in self.times]
        return np.array([(np.linalg.norm(T[:3, 3] - D[:3, 3]),
                          Rotation.from_matrix(D[:3, :3] @ T[:3, :3].T).magnitude())
                         for T, D in zip(self.poses, wanted)]).T


def moved(T, shift=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0)):
    """Return a pose moved by `shift` [m] and rotated by `turn` [rad], both in base axes."""
    there = T.copy()
    there[:3, 3] += shift
    there[:3, :3] = Rotation.from_rotvec(turn).as_matrix() @ T[:3, :3]
    return there
