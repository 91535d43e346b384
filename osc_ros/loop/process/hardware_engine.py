# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An engine with its own arm: each cycle reads a state and sends the torque for it."""

from __future__ import annotations

from collections.abc import Callable
import math
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.law import Law
from osc_ros.control.safety.supervision import Supervision
from osc_ros.errors import InputError
from osc_ros.hardware.contract import Hardware, HardwareError, State
from osc_ros.loop.cycle import Stamp
from osc_ros.loop.engine import Engine
from osc_ros.model.gripper_state import goal_of, GripperState

Array = NDArray[np.float64]


class HardwareEngine(Engine):
    """
    An engine that reads states from its own arm and sends torques to it.

    Attributes
    ----------
    hardware : Hardware
        An open arm.
    state_read : State
        The newest state.

    """

    state_read: State

    def __init__(self, law: Law, supervision: Supervision, hardware: Hardware, period: float,
                 post: Callable[..., None]) -> None:
        super().__init__(law, supervision, period, self._write, post)
        self.hardware = hardware
        self._compiled: Any = None  # record for compiled answers; None: Python answers
        self._arrived, self._stamp, self._has_written = 0.0, (0, 0), False

    def activate(self, missing: Array | None = None) -> None:
        """Begin to control the arm, and hold the pose of the newest state."""
        self.hardware.start()
        try:
            self._has_written = False
            self._read(self.update)
            super().activate(missing)
            self.update(self.time, self.q, self.qd, self._stamp, self._arrived, self.effort)
        except BaseException:
            self._stop()
            raise

    def leave(self) -> None:
        """Send the idle command as the last one, and return the arm to its own controller."""
        super().leave()
        self._stop()

    def recover(self) -> None:
        """Clear an error of the arm."""
        if self.acts:
            raise InputError('the arm is under control: there is nothing to recover from')
        self.hardware.recover()

    def hardware_report(self) -> dict[str, float]:
        """Return numbers about the arm for the diagnostics, by name, see `Hardware.report`."""
        return dict(self.hardware.report())

    def move_gripper(self, command: list[float]) -> None:
        """Move the gripper; command: width, largest force, speed (NaN or missing: default)."""
        self._require_gripper()
        self.hardware.move_gripper(goal_of(command))  # type: ignore[attr-defined]

    def gripper_state(self) -> GripperState:
        """Return the newest state of the gripper; InputError if there is none."""
        self._require_gripper()
        state: GripperState = self.hardware.gripper_state()  # type: ignore[attr-defined]
        return state

    def _require_gripper(self) -> None:
        if not hasattr(self.hardware, 'move_gripper'):
            raise InputError('this kind of arm has no gripper')

    def request(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Return `what(self, *arguments)`, called between two states."""
        self._settle()
        try:
            return what(self, *arguments)
        finally:
            self._compiled = self.controller()

    def cycle(self) -> None:
        """Read a state, and send a torque for it if the engine acts."""
        self._has_written, acted = False, self.acts
        accepted = self._read(self.update if self._compiled is None else self._answer)
        if self.acts:
            if not self._has_written and self.guard.last_torque is not None:
                self._write(self.guard.last_torque, None)
        elif accepted and not acted:
            self.rest.add(self.q, self.state_read.tau)
        if self._compiled is None:
            self.watch(math.inf)
            self._compiled = self.controller()

    def _answer(self, time: float, q: Array, qd: Array, stamp: Stamp, arrived: float,
                effort: Array | None = None) -> bool:
        """Do the part of `update` up to the torque in compiled code; `_settle` does the rest."""
        is_plain = False
        tau = self._answering.answer(self._compiled, (time, q, qd, stamp, arrived), effort,
                                     arrived)
        if tau is not None:
            self._write(tau, stamp)
            done = self._now()
            is_plain = (self._answering.is_plain(self._compiled, done)
                        and done - arrived <= self.guard.settings.deadline)
        if not is_plain or self._answering.is_full:
            self._settle()
        return True

    def _settle(self) -> None:
        """Process the records of compiled code; Python answers until `_compiled` is set again."""
        self._compiled = None
        for part, is_plain in self._answering.take_answers().groups(self.guard.settings.deadline):
            try:
                self.conclude(part, is_plain)
            except HardwareError:
                raise
            except Exception as error:  # of any kind: an error must not stop the torques
                self.fail(f'{type(error).__name__}: {error}')
        if self.asks:
            self.plan()
        if self.journal is not None:
            self.journal.renew_if_due()

    def _read(self, take: Callable[..., bool]) -> bool:
        """
        Read a state and pass it to `take`, which is called like `update`.

        Return whether the state is plausible.

        """
        self.state_read = state = self.hardware.read()
        self._arrived = self._arrival_time()
        # while the engine acts, its supervisor checks the numbers
        if not self.acts and not np.isfinite([*state.q, *state.qd]).all():
            self.refuse(f'positions {state.q.tolist()}, velocities {state.qd.tolist()}: must '
                        'be finite numbers', True)
            return False
        self._stamp = whole, rest = divmod(round(state.time * 1e9), 1_000_000_000)
        return take(whole + 1e-9 * rest, state.q, state.qd, self._stamp, self._arrived, state.tau)

    def _arrival_time(self) -> float:
        """Return the time at which the state that was just read has arrived [s]."""
        return self._now()

    def _now(self) -> float:
        return perf_counter()

    def _write(self, tau: Array, stamp: Stamp | None) -> None:
        """Send torques to the arm, at most once per cycle."""
        if not self._has_written:
            self._has_written = True
            self.hardware.write(tau)

    def _stop(self) -> None:
        """End the control of the arm; its own controller and brakes then hold the arm."""
        try:
            self.hardware.stop()
        except HardwareError as error:
            self._post('error', f'the arm did not accept the end of the control: {error}')


class LockstepEngine(HardwareEngine):
    """
    A control loop in the thread of the caller, who calls `cycle`; its clock is that of the arm.

    Like a `LoopProcess`, it takes requests. The state of the engine is up to date in a request.

    """

    def __init__(self, law: Law, supervision: Supervision, hardware: Hardware, period: float,
                 post: Callable[..., None]) -> None:
        super().__init__(law, supervision, hardware, period, post)
        self.use_clock(lambda: self._arrived)

    def cycle(self) -> None:
        """Do a cycle; if the arm fails, end the control, and post the event 'lost'."""
        try:
            super().cycle()
        except HardwareError as error:
            self._settle()
            self.lose()
            self._stop()
            self._post('lost', str(error))

    def _now(self) -> float:
        return self.state_read.time
