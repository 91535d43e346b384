# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Backend of `Arm.simulated`: the loop of osc_arm in this thread, with hardware 'mujoco'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.client.backend import ArmState
from osc_ros.client.law_backend import LawBackend, REPORTS
from osc_ros.client.robots import clearance_of, law_in_a_loop, model_of, SHIPPED
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.safety.supervision import DEFAULT_WATCHDOGS, Supervision, Watchdog
from osc_ros.control.settings import Settings
from osc_ros.errors import require_options
from osc_ros.hardware.hardware_table import hardware_class
from osc_ros.loop.cycle import ACTIVE
from osc_ros.loop.process.hardware_engine import LockstepEngine
from osc_ros.model.files import urdf_text
from osc_ros.sim.hand import FINGERS, hand_of
from osc_ros.sim.simulation import option_names, Simulation

Array = NDArray[np.float64]


class LoopSimulation(Simulation):
    """A `Simulation` whose law runs in the loop of a backend."""

    backend: SimulatedBackend | None = None

    def reset(self, q: ArrayLike | None = None) -> None:
        """Set the arm to rest, see `Simulation.reset`; the loop begins again."""
        super().reset(q)
        if self.backend is not None:
            self.backend.begin()

    def advance(self) -> tuple[Array, Array, Array]:
        """Advance by one period, see `Simulation.advance`; ArmError if the arm diverges."""
        assert self.backend is not None  # not in the constructor
        state = self.backend.advance()
        self.show()
        return state.q, state.qd, state.torque


class SimulatedBackend(LawBackend):
    """A control loop and MuJoCo in this process; simulated time advances only in `wait`."""

    # The watchdogs of this loop have no reactions. For parameters and errors see `Arm.simulated`.

    def __init__(self, robot: str | os.PathLike[str], base: str, tip: str,
                 q: ArrayLike | None = None, settings: Settings | None = None,
                 hand: tuple[str, ...] | None = None, clearance: Clearance | float | bool = False,
                 **options: Any) -> None:
        require_options('Arm.simulated', options, (
            'settings', 'hand', 'clearance', *option_names()))
        clear = clearance_of(robot, clearance)
        urdf, found = model_of(robot, base, tip)
        if isinstance(robot, str) and robot in SHIPPED:
            q = SHIPPED[robot].home if q is None else q
            hand = FINGERS.get(robot, ()) if hand is None else hand
        if clear is not None:
            settings = replace(settings or Settings.of(found), clearance=clear)
        law = law_in_a_loop(found, settings)
        fingers = hand_of(urdf_text(urdf), hand or ())
        if fingers is not None:
            options['furnish'] = _both(fingers.add, options.get('furnish'))
        self.arm = LoopSimulation(urdf, law, q, **options)
        plant, period, limits = self.arm.plant, self.arm.period, law.settings.limits
        kind: Any = hardware_class('mujoco')
        self._make_hardware = partial(kind, {
            **{one.name: one.default for one in kind.settings}, 'pace': 'fast',
            'rate': 1.0 / period, 'timestep': plant.model.opt.timestep,
            'driver_compensates': options.get('compensates', 'none')}, '', law.robot.joint_names,
            plant, fingers)
        guard = Supervision({name: Watchdog('report') for name in DEFAULT_WATCHDOGS},
                            limits.effort, period=period, velocity_limits=limits.velocity)
        super().__init__(law, LockstepEngine(law, guard, self._make_hardware(), period,
                                             self._handle), guard)
        self.lock = self._news  # of law and plant
        self._tip = law.robot.tip
        self.begin()
        self.arm.backend = self

    def begin(self) -> None:
        """Begin to control the arm where it is, at time 0."""
        self._loop.lose()
        self._loop.hardware = self._make_hardware()
        self._loop.hardware.open()
        self._loop.activate()
        self._trouble = ''
        self._forget_goal()
        self._take()

    def advance(self) -> ArmState:
        """Simulate one period; return its first state. ArmError if the arm diverges."""
        self._loop.cycle()
        self._require_motion()
        self._take()
        return self._state

    def _take(self) -> None:
        """Take the state of the last cycle; pass it to the listener."""
        law, read = self._law, self._loop.state_read
        self._state = ArmState(
            read.time, read.q, read.qd, self._loop.guard.last_torque, law.pose, law.error.copy(),
            self.arm.plant.external_force(self._tip))
        if abs(read.time - self._checked) > 1.0 / REPORTS - 1e-9:
            self._check()
        if (listener := self._listener) is not None:
            listener(self._state)

    @property
    def _time(self) -> float:
        return self._state.time

    def state(self) -> ArmState:
        """Return the newest state; see `LawBackend`."""
        self._require_open()
        return self._state

    def recover(self) -> str:
        """Reset an arm that has diverged to its start; see `LawBackend`."""
        with self.lock:
            self._require_open()
            if self._loop.mode == ACTIVE:
                return 'there is nothing to recover from: this simulation has no watchdogs'
            self.arm.reset()
        return 'activated: the simulated arm is at its start, and holds its pose'

    def _await_state(self) -> None:
        self.arm.advance()

    def close(self) -> None:
        """Close the window and the law."""
        with self.lock:
            self._is_open = False
            self.arm.close()
            self._law.close()


def _both(add: Callable[[Any], None], more: Callable[[Any], None] | None) -> Callable[[Any], None]:
    """Return a function that adds two kinds of parts to MuJoCo's specification."""
    def add_both(spec: Any) -> None:
        add(spec)
        if more is not None:
            more(spec)
    return add_both
