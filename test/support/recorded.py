# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An arm in lockstep with a journal."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from arm import moved, PANDA
from driven import Driven
from osc_ros.control.safety.supervision import NOT_FINITE, Watchdog
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.loop import requests
from osc_ros.recording import export

pytest.importorskip('mcap', reason='mcap is not installed')


class Recorded(Driven):
    """The Panda in lockstep, on the clock of the computer, with a journal."""

    def __init__(self, duration=30.0, most=10**8, begins_at=0.0, **given):
        """Begin the journal after a time [s]."""
        super().__init__(wall=False, reaction='hold', **given)
        self.engine.use_clock(perf_counter)
        self.engine.guard.settings = replace(
            self.engine.guard.settings, watchdogs={
                **self.engine.guard.settings.watchdogs, NOT_FINITE: Watchdog('hold')})
        self.engine.guard.begin()
        self.update()
        if begins_at:
            self.go(0.0, 0.1, 0.05).run(begins_at)
        requests.begin_journal(self.engine, duration, most, {
            'node': '/osc_controller', 'versions': export.versions(), 'urdf': '<robot/>',
            'parameters': {}, 'joints': self.robot.joint_names[::-1],
            'robot joints': self.robot.joint_names, 'joint_states': '/joint_states',
            'clock offset': 1e9})

    def command(self, *shift):
        goal = PoseGoal(moved(self.plant.pose(PANDA.tip), shift))
        requests.follow(self.engine, goal, 0.0, 'tip')
        return self

    def tune(self, frequency):
        """Change a gain, as the parameter does."""
        settings = self.law.settings
        task = settings.tasks[0]
        gains = replace(task.gains, natural_frequency=np.full(6, frequency))
        self.engine.use_setup(self.law.new_setup(
            replace(settings, tasks=(replace(task, gains=gains),))), self.engine.guard.settings)
        return self

    def fault(self):
        """Send a state that is not finite: a watchdog stops the arm."""
        q = self.plant.q.copy()
        q[2] = np.nan
        self.engine.update(self.plant.time, q, self.plant.qd.copy(), (0, 0), perf_counter())
        self.engine.watch(0.01)
        assert self.engine.guard.reaction == 'hold'
        return self

    def pieces(self):
        found, at = [], None
        while (piece := requests.journal_piece(self.engine, at)) is not None:
            found.append(piece)
            at = piece.following
        return found
