# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A control loop: the engine with a simulated arm, the delay of a driver, and sensor noise."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
import math
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.law import Law
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.settings import Settings
from osc_ros.errors import OscError
from osc_ros.loop.cycle import Stamp
from osc_ros.loop.engine import Engine
from osc_ros.model.robot import Robot
from osc_ros.sim.sensor import JointNoise
from osc_ros.tools.tune.subject import Subject, Variant

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Record:
    """Record of a run, one row for each of k states."""

    time: Array  # (k,) [s]
    pose: Array  # (k, 4, 4), link of the first task, base frame
    target: Array  # (k, 4, 4), set-point of this link, base frame
    torque: Array  # (k, n), of the law [N m, N]
    qd: Array  # (k, n), true velocity [rad/s, m/s]
    task_share: Array  # (k,), share of the task accelerations that the limits allow
    failure: str  # error, or watchdog that stopped the arm; otherwise empty
    update: tuple[float, float]  # median, 99th percentile from state to torque, here [s]


class Rig:
    """A simulated control loop: an `Engine` with the law under test, and one simulated arm."""

    # It starts at rest. Torques act after the delay of `variant`, else of `subject`; until the
    # first acts, the arm is held against its own weight. Watchdogs act, except time-outs: this is
    # not real time. `robot` is the controller's model of the arm.

    def __init__(self, subject: Subject, settings: Settings, supervision: Supervision,
                 robot: Robot, variant: Variant) -> None:
        self.law: Law = subject.law
        self._noise = JointNoise(variant.position_noise, variant.velocity_noise, 0)
        self._plant = subject.plant(variant)
        self._plant.reset(subject.q)
        self._period, self._steps = subject.period, round(subject.period / subject.step)
        delay = subject.delay if variant.delay is None else variant.delay
        self._lag = round(delay / subject.step)
        self._on_the_way: deque[tuple[int, Array]] = deque()
        self.law.use_setup(self.law.new_setup(settings, robot))
        self.law.hold(subject.q)
        rest = np.zeros(len(subject.q))
        self._acting = self._sent = self.law.inverse_dynamics(subject.q, rest, rest)
        self._step, self._failure = 0, ''
        self._engine = Engine(self.law, _without_times(supervision), subject.period, self._send,
                              self._post)
        self._rows: list[tuple[Any, ...]] = []
        self._update()
        self._engine.activate()

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._plant.time

    def run(self, seconds: float, each: Callable[[], object] | None = None) -> bool:
        """Simulate `seconds`; return False if the arm diverged or a watchdog stopped it."""
        # `each` is called before each state; it may set goals of the law.
        end = self.time + seconds - 0.5 * self._period
        while self.time < end and not self._failure:
            if each is not None:
                each()
            self._advance()
        return not self._failure

    def record(self) -> Record:
        """Return the record since the start."""
        time, pose, target, torque, qd, share = (np.array(column) for column in zip(*self._rows))
        updates = self._engine.counts.updates
        median, slowest = updates.percentile(50, 99) if updates.count else (0.0, 0.0)
        return Record(time, pose, target, torque, qd, share, self._failure, (median, slowest))

    def _update(self) -> None:
        q, qd = self._noise.measured(self._plant.q, self._plant.qd)
        nanoseconds = round(1e9 * self.time)
        stamp: Stamp = (nanoseconds // 10**9, nanoseconds % 10**9)
        self._engine.update(self.time, q, qd, stamp, perf_counter())

    def _advance(self) -> None:
        time, qd = self.time, self._plant.qd
        try:
            self._update()
            law = self.law
            self._rows.append((time, law.pose, law.target.pose.copy(), self._sent, qd,
                               min(law.limiter.d.shares)))
            self._on_the_way.append((self._step + self._lag, self._sent))
            self._apply()
        except OscError as error:
            self._failure = self._failure or str(error)

    def _apply(self) -> None:
        """Simulate one period; each physics step uses the newest torque whose delay is over."""
        left = self._steps
        while left:
            while self._on_the_way and self._on_the_way[0][0] <= self._step:
                self._acting = self._on_the_way.popleft()[1]
            following = self._on_the_way[0][0] if self._on_the_way else math.inf
            steps = int(min(left, following - self._step))
            self._plant.step(self._acting, steps)
            self._step += steps
            left -= steps

    def _send(self, tau: Array, stamp: Stamp | None) -> None:
        self._sent = np.array(tau)

    def _post(self, event: str, *content: Any) -> None:
        if event == 'error':
            self._failure = self._failure or str(content[0])
        elif event == 'change' and content[0] and content[1] not in ('', 'report'):
            self._failure = self._failure or f'watchdog {content[0]}: {content[2]}'


def _without_times(settings: Supervision) -> Supervision:
    """Return the settings of the supervisor without watchdogs that use the wall clock."""
    watchdogs = {name: replace(one, timeout=math.inf)
                 for name, one in settings.watchdogs.items()}
    return replace(settings, watchdogs=watchdogs, deadline=math.inf, bridges=False)
