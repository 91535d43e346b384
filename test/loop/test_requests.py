# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
While a command, a plan or a change of settings keeps the loop from answering, no thread runs.

Another thread of Python would keep the interpreter's lock for milliseconds, and the loop would
wait for it: NumPy releases the lock in `np.dot`, for example, and in `np.zeros` for more than 1024
bytes.
"""

from contextlib import contextmanager
from dataclasses import replace
import sys
from threading import Thread
from time import sleep

import numpy as np

from arm import moved, PANDA, READY
from driven import Driven
from osc_ros import JointDrive
from osc_ros.collision.obstacles import Obstacle
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.setpoint.trajectory import figure_of_eight
from osc_ros.control.settings import with_first_task
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.task import Stiffness
from osc_ros.loop import requests
from osc_ros.loop.engine import Engine

POINTS, TURNS = 10_000, 5  # of a path; repetitions, because the other thread is not always quick


class Other:
    """A thread that counts how often it gets the interpreter's lock."""

    def __init__(self):
        self.count, self._ends = 0, False
        self._thread = Thread(target=self._run)

    def _run(self):
        while not self._ends:
            self.count += 1
            sleep(0.0)

    @contextmanager
    def waiting(self):
        """Within this context it gets the lock only if it is released, however long that takes."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e3)
        self._thread.start()
        try:
            yield self
        finally:
            self._ends = True
            sys.setswitchinterval(before)
            self._thread.join()


class Asked(Driven):
    """An engine whose requests and plans are observed by the other thread."""

    def __init__(self):
        super().__init__(wall=False)
        self.other, self.disturbed, self.asked = Other(), set(), set()

    def ask(self, name, what, *arguments):
        """Call `what(engine, *arguments)`; note whether another thread has run meanwhile."""
        before = self.other.count
        what(self.engine, *arguments)
        self.asked.add(name)
        if self.other.count > before:
            self.disturbed.add(name)

    def use(self, name, settings):
        """Change the settings, which are prepared before."""
        setup = self.law.new_setup(settings)
        self.ask(name, Engine.use_setup, setup, self.engine.guard.settings)
        self.run(0.3)

    def update(self, effort=None):
        engine = self.engine
        accepted = engine.respond(self.plant.time, self.plant.q.copy(), self.plant.qd.copy(),
                                  (0, 0), self.plant.time, effort)
        if engine.asks:
            self.ask('plan', Engine.plan)
        return accepted

    def tasks(self, usual):
        """Command the tip."""
        pose, now = self.plant.pose(PANDA.tip), self.engine.time
        goal = requests.PoseGoal(moved(pose, [0.0, 0.05, 0.02]))
        self.ask('pose', requests.follow, goal, 0.0, 'tip')
        self.run(0.05)
        self.ask('another pose', requests.follow, requests.PoseGoal(pose), 0.0, 'tip')
        self.run(0.05)
        twist = TwistGoal([0.0, 0.1, 0.0, 0.0, 0.02, 0.0], now + 0.2)
        self.ask('twist', requests.follow, twist, 0.0, 'tip')
        self.run(0.3)
        path = figure_of_eight(self.plant.pose(PANDA.tip), 0.05, 0.05, 100.0, 1.0,
                               self.engine.time + 0.1, POINTS / 125.0)
        assert len(path.times) >= POINTS
        self.ask('path', requests.follow, path, 0.0, 'tip')
        self.run(0.3)
        self.ask('hold', requests.hold)
        self.run(0.2)
        self.ask('posture', requests.set_posture, READY + 0.02)
        self.ask('gravity', requests.set_gravity, np.array([0.1, 0.0, -9.8]))
        self.ask('speed', requests.set_speed_override, 50.0)
        self.ask('speed', requests.set_speed_override, 100.0)
        self.ask('obstacle', requests.set_obstacles,
                 {'ball': Obstacle.at('sphere', 0.05, self.tip + [0.3, 0.0, 0.0])})
        self.ask('delay', requests.set_delay, 1.2)
        stiffness = [30.0] * 3 + [300.0] * 3
        self.use('springs', with_first_task(usual, gains=Stiffness(stiffness)))
        self.ask('impedance', requests.set_impedance, Impedance(stiffness), 'tip')
        self.use('an axis of force', with_first_task(usual, axes=['motion'] * 5 + ['force']))
        self.ask('wrench', requests.set_wrench, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]), 'tip')
        self.use('gains', usual)

    def joints(self, usual):
        """Command the joints, and free drive."""
        self.use('joints', replace(usual, joints=JointDrive()))
        q = self.engine.q
        self.ask('joint goal', requests.move_joints, q + 0.05, None, None)
        self.run(0.1)
        self.ask('joint point', requests.reach_joints, 5.0, q + 0.02)
        self.run(0.1)
        times = 0.01 * np.arange(1.0, POINTS + 1.0)
        ways = 0.02 * (1.0 - np.cos(0.1 * times))[:, None]
        state, wanted = requests.joint_set_point(self.engine)
        motion = self.law.joint_path(state, wanted, times, state[0] + ways)
        self.ask('joint path', requests.follow_joints, motion)
        self.run(0.1)
        self.ask('hold of joints', requests.hold)
        self.use('free drive', FreeDrive().applied_to(usual))
        self.use('end of free drive', usual)


def test_no_thread_runs_while_a_request_keeps_the_loop_from_answering():
    rig = Asked()
    usual = rig.law.settings

    def ask_all():
        rig.tasks(usual)
        rig.joints(usual)

    ask_all()  # compiles what is not compiled yet
    rig.disturbed.clear()
    with rig.other.waiting():
        for _ in range(TURNS):
            ask_all()
    assert len(rig.asked) >= 20 and rig.other.count > 0
    assert rig.disturbed == set()
