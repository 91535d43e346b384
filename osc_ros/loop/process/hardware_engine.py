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
from osc_ros.loop.cycle import Stamp
from osc_ros.loop.engine import Engine
from osc_ros.loop.process.arm_cycles import ArmCycles, LEFT, RECORDED
from osc_ros.model.gripper_state import goal_of, GripperState

Array = NDArray[np.float64]


class HardwareEngine(Engine):
    """An engine that reads states from its own arm and sends torques to it."""

    state_read: State  # the newest state

    def __init__(self, law: Law, supervision: Supervision, hardware: Hardware, period: float,
                 post: Callable[..., None]) -> None:
        super().__init__(law, supervision, period, self._write, post)
        self.hardware = hardware  # an open arm
        self._stamp, self._has_written = (0, 0), False
        self._cycles = ArmCycles(law.robot.n, self.kernels, self._read, self._write_answer)
        self._arm = arm = self._cycles.arm
        arm.tau[:] = np.nan
        self._places = arm.q, arm.qd, arm.effort, arm.numbers, arm.tau  # once: 0.3 µs each

    def activate(self, missing: Array | None = None) -> None:
        """Begin to control the arm, and hold the pose of the newest state."""
        self.hardware.start()
        try:
            self._take_state()
            super().activate(missing)
            self.update(self.time, self.q, self.qd, self._stamp, self._arm.arrived, self.effort)
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
        return what(self, *arguments)

    def cycle(self, most: int = 1) -> bool:
        """Take a state while idle, otherwise run up to `most` compiled cycles."""
        # returns whether compiled code has written the record of the last cycle for the node
        if (controller := self.controller()) is None:
            if self._take_state():
                self.rest.add(self.q, self._arm.effort.copy())
            return False
        why = self._cycles.run(controller, most, self.guard.settings.deadline)
        if why != RECORDED:
            self._settle()
        return why != LEFT

    def _settle(self) -> None:
        """Process the records of compiled code."""
        for part, is_plain in self._cycles.take_answers().groups(self.guard.settings.deadline):
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

    def _read(self) -> None:
        """Read a state of the arm."""
        self._has_written = False
        self.state_read = state = self.hardware.read()
        arm, (q, qd, effort, numbers, _) = self._arm, self._places
        arm.arrived = self._now()
        time, q[:], qd[:], effort[:] = state
        self._stamp = whole, rest = divmod(round(time * 1e9), 1_000_000_000)
        arm.time, numbers[2], numbers[3] = whole + 1e-9 * rest, whole, rest

    def _take_state(self) -> bool:
        """Read a state and pass it to the engine; return whether it is plausible."""
        self._read()
        q, qd, effort, *_ = self._places
        # while the engine acts, its supervisor checks the numbers
        if not self.acts and not np.isfinite([*q, *qd]).all():
            self.refuse(f'positions {q.tolist()}, velocities {qd.tolist()}: must be finite '
                        'numbers', True)
            return False
        return self.update(self._arm.time, q.copy(), qd.copy(), self._stamp, self._arm.arrived,
                           effort.copy())

    def _now(self) -> float:
        return perf_counter()

    def _write(self, tau: Array, stamp: Stamp | None) -> None:
        """Send torques to the arm, at most once per cycle."""
        if not self._has_written:
            self._arm.tau[:] = tau
            self._write_answer()

    def _write_answer(self) -> None:
        """Send the torques of the record ARM_STATE to the arm."""
        self._has_written, self._arm.started = True, self._now()
        self.hardware.write(self._places[-1].copy())
        self._arm.done = self._now()

    def _stop(self) -> None:
        """End the control of the arm; its own controller and brakes then hold the arm."""
        try:
            self.hardware.stop()
        except HardwareError as error:
            self._post('error', f'the arm did not accept the end of the control: {error}')


class LockstepEngine(HardwareEngine):
    """A control loop in the thread of the caller, who calls `cycle`, on the clock of the arm."""

    # Like a `LoopProcess`, it takes requests; in a request the state of the engine is up to date.

    def __init__(self, law: Law, supervision: Supervision, hardware: Hardware, period: float,
                 post: Callable[..., None]) -> None:
        super().__init__(law, supervision, hardware, period, post)
        self.use_clock(lambda: self._arm.arrived)

    def cycle(self, most: int = 1) -> bool:
        """Do a cycle; if the arm fails, end the control, and post the event 'lost'."""
        try:
            return super().cycle(most)
        except HardwareError as error:
            self._settle()
            self.lose()
            self._stop()
            self._post('lost', str(error))
            return False

    def _now(self) -> float:
        return self.state_read.time
