# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""CPU time for which a request or a plan keeps the control loop from answering states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter, thread_time_ns
from typing import Any

import numpy as np

from osc_ros import JointDrive, Law
from osc_ros.control.safety.supervision import STALE_TARGET, Supervision, Watchdog
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.settings import Settings
from osc_ros.control.tasks.task import Stiffness
from osc_ros.loop import requests
from osc_ros.loop.engine import Engine
from panda import panda, PERIOD, READY

REPEATS = 15
POINTS = 3000, 10_000, 30_000  # of joint paths


class Parked:
    """An engine with an arm at rest, and the CPU times of calls between two states."""

    def __init__(self) -> None:
        self.robot = panda()[1]
        self.law = Law(self.robot, Settings.of(self.robot))
        self.engine = Engine(self.law, Supervision(
            {STALE_TARGET: Watchdog('report')}, self.robot.effort_limits), PERIOD,
            lambda tau, stamp: None, lambda *event: None)
        self.time, self.times = 1.0, {}
        self.engine.use_clock(lambda: self.time)
        self.run()
        self.engine.activate()
        self.run(50)

    def run(self, ticks: int = 1) -> None:
        """Answer states of an arm at rest."""
        for _ in range(ticks):
            self.time += PERIOD
            self.engine.respond(self.time, READY, np.zeros(7), (0, 0), perf_counter())
            if self.engine.asks:
                self.plan()

    def plan(self) -> None:
        """Plan as the node does: while states are answered, except for beginning and end."""
        while (drafts := self.timed('begin plans', self.engine.begin_plans, PERIOD)) is None:
            pass
        for one in drafts:
            one.make()
        if drafts:
            self.timed('use plans', self.engine.put_plans)

    def timed(self, name: str, what: Callable[..., Any], *arguments: Any) -> Any:
        """Call `what` with the arguments, and record the CPU time of this thread."""
        began = thread_time_ns()
        found = what(*arguments)
        self.times.setdefault(name, []).append(1e-6 * (thread_time_ns() - began))
        return found

    def use(self, name: str, settings: Settings) -> None:
        """Change the settings by the call that the node makes; run until the blend has ended."""
        setup = self.law.new_setup(settings, self.robot, READY)
        self.timed(name, Engine.use_setup, self.engine, setup, self.engine.guard.settings)
        self.run(500)

    def paths(self) -> None:
        """Joint paths that are planned beforehand, and paths of poses."""
        self.law.change(replace(self.law.settings, joints=JointDrive()))
        self.run(1000)
        for points in POINTS:
            times = 1.0 + 0.01 * np.arange(points)
            rows = READY + 0.1 * (1.0 - np.cos(times - 1.0))[:, None]
            motion = self.law.joint_path(*requests.joint_set_point(self.engine), times, rows)
            self.timed(f'joint path of {points} points', requests.follow_joints, self.engine,
                       motion)
            self.run(5)
            self.timed('hold', requests.hold, self.engine)
            self.run(300)


def section() -> dict[str, list[float]]:
    """Return the CPU times [ms] of each action, without its first call."""
    rig, rng = Parked(), np.random.default_rng(1)
    requests.begin_journal(rig.engine, 60.0, 50_000_000, {})
    for _ in range(REPEATS + 1):
        pose = rig.law.target.pose.copy()
        for _ in range(3):
            goal = pose.copy()
            goal[:3, 3] += rng.uniform(-0.05, 0.05, 3)
            rig.timed('pose', requests.follow, rig.engine, PoseGoal(goal), 0.0, 'tip')
            rig.run(20)
        times = rig.engine.time + 0.5 + 0.01 * np.arange(500)
        path = Path(times, [pose] * 500)
        rig.timed('path of 500 poses', requests.follow, rig.engine, path, 0.0, 'tip')
        rig.run(20)
        usual = Settings.of(rig.robot)
        tip = usual.tasks[0]
        rig.use('to impedance', replace(usual, tasks=(replace(tip, gains=Stiffness()),)))
        rig.use('to acceleration', usual)
        rig.paths()
        rig.use('from joints', usual)
    return {name: found[1:] for name, found in rig.times.items()}


def page(times: dict[str, list[float]]) -> list[str]:
    """Return the lines of a Markdown table: median and longest time of each action."""
    return ['| between two states | median [ms] | longest [ms] | number |', '|---|---|---|---|', *(
        f'| {name} | {np.median(found):.3f} | {max(found):.3f} | {len(found)} |'
        for name, found in times.items())]
