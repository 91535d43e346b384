# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Torques of every mode and reaction for the same states, by compiled kernels or by Python alone.

As a program, with a file and names: compute them with all kernels as Python functions, and write
them to the file.
"""

from dataclasses import replace
import sys

import numpy as np

from attacked import robot_of
from osc_ros import Driver, Friction, JointDrive, Law, Settings, Stiffness, Task
from osc_ros.client.robots import clearance_of
from osc_ros.collision.obstacles import Obstacle
from osc_ros.compile.compiled import recorded_uses
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.safety.supervision import Supervision, Watchdog
from osc_ros.control.settings import Observation
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.loop.engine import Engine

PERIOD, TICKS = 0.002, 200
ROBOT = robot_of('panda')
PLAIN = Settings.of(ROBOT)
READY = np.array([0.0, -0.4, 0.0, -2.2, 0.0, 3.3, 0.8])


def _with_task(**given):
    return replace(PLAIN, tasks=(Task(**given),))


MODES = {
    'tip': PLAIN,
    'joints': replace(PLAIN, joints=JointDrive()),
    'stiffness': _with_task(gains=Stiffness()),
    'force': _with_task(axes=('motion',) * 5 + ('force',)),
    'free': FreeDrive().applied_to(PLAIN),
    'elbow': replace(PLAIN, tasks=(*PLAIN.tasks, Task(name='elbow', link='panda_link4'))),
    'errors': replace(PLAIN, friction=Friction(np.ones(7), np.ones(7)),
                      driver=Driver(ROBOT, 'gravity'), observation=Observation(),
                      disturbance=Disturbance()),
    'clearance': replace(PLAIN, clearance=clearance_of('panda', 0.05))}


def _states(tick):
    """Return stamp, positions and velocities of an arm that swings, and goes towards a limit."""
    time, rates = PERIOD * tick, np.linspace(3.0, 9.0, ROBOT.n)
    sway = 0.02 * np.sin(rates * time)
    drift = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    return (10.0 + time, READY + sway + drift * time,
            0.02 * rates * np.cos(rates * time) + drift)


def torques_of(mode):
    """Return the torques (TICKS, n) of a mode, with a goal and a change of the gains."""
    law, tau = Law(ROBOT, MODES[mode]), []
    for tick in range(TICKS):
        time, q, qd = _states(tick)
        tau.append(law.torque(time, q, qd))
        if tick == 20 and mode == 'joints':
            law.move_joints(READY + 0.3)
        elif tick == 20 and mode != 'free':
            goal = law.pose.copy()
            goal[2, 3] += 0.1
            law.follow(goal)
        if tick == 20 and mode == 'clearance':
            law.obstacles['ball'] = Obstacle.at('sphere', 0.1, law.pose[:3, 3] + 0.15)
        if tick == 60:
            law.change(replace(law.settings, limits=replace(
                law.settings.limits, velocity=0.5 * law.settings.limits.velocity)))
    return np.array(tau)


def reactions_of(reaction):
    """Return the torques (TICKS, n) that are sent, with a reaction between two ticks."""
    sent, now, law = [], [0.0], Law(ROBOT, PLAIN)
    guard = Supervision.of(ROBOT, PLAIN.limits, 1.0 / PERIOD)
    guard = replace(guard, watchdogs={**guard.watchdogs, 'told': Watchdog(reaction)},
                    deadline=np.inf)
    engine = Engine(law, guard, PERIOD, lambda tau, stamp: sent.append(tau.copy()),
                    lambda *event: None)
    engine.use_clock(lambda: now[0])
    for tick in range(TICKS):
        time, q, qd = _states(tick)
        now[0] = time
        stamp = 10, round(1e9 * (time - 10.0))
        engine.update(time, q, qd, stamp, time)
        if tick == 0:
            engine.activate()
        if 60 <= tick < 100:
            engine.guard.report_fault('told', 'a test')
    return np.array(sent)


def torques_by_name(names):
    """Return the torques of modes and reactions by their names."""
    return {one: torques_of(one) if one in MODES else reactions_of(one) for one in names}


if __name__ == '__main__':
    with np.errstate(all='ignore'):
        recorded_uses(lambda: np.savez(sys.argv[1], **torques_by_name(sys.argv[2:])))
