# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An engine with its own arm: each cycle reads a state and sends the torque for it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.law import Law
from osc_ros.control.safety.supervision import Supervision
from osc_ros.errors import InputError
from osc_ros.hardware.contract import Hardware, HardwareError, State
from osc_ros.loop.engine import Engine, Stamp
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

    def cycle(self) -> bool:
        """Read a state, and send a torque if the engine acts; return whether it is plausible."""
        self._has_written = False
        accepted = self._read(self.update)
        if self.acts and not self._has_written and self.guard.last_torque is not None:
            self._write(self.guard.last_torque, None)
        return accepted

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

    Like a `LoopProcess`, it takes requests.

    """

    def __init__(self, law: Law, supervision: Supervision, hardware: Hardware, period: float,
                 post: Callable[..., None]) -> None:
        super().__init__(law, supervision, hardware, period, post)
        self.use_clock(lambda: self._arrived)

    def request(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Return `what(self, *arguments)`."""
        return what(self, *arguments)

    def cycle(self) -> bool:
        """Do a cycle; if the arm fails, end the control, and post the event 'lost'."""
        try:
            return super().cycle()
        except HardwareError as error:
            self.lose()
            self._stop()
            self._post('lost', str(error))
            return False

    def _arrival_time(self) -> float:
        return self.state_read.time
