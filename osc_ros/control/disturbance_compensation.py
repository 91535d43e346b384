# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Observer and compensation of external torques, as the law uses them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.model_error.disturbance import Compensation, Disturbance, yielding_axes
from osc_ros.control.model_error.observer import ExternalForce, MomentumObserver
from osc_ros.control.settings import Observation, Settings
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Report(NamedTuple):
    """Copies of the estimates at one moment, see `ExternalForce` and `Compensation`."""

    torque: Array  # (n,) [N·m, N]
    compensation: Array  # (n,) [N·m, N]
    wrench: Array  # (6,) [N·m, N]
    quality: float
    settled: float
    lever: float  # [m]
    in_contact: bool


class DisturbanceCompensation:
    """Observer of external torques of a law, and compensation of its model errors."""

    def __init__(self, robot: Robot, settings: Settings,
                 before: DisturbanceCompensation | None = None,
                 limits: Array | None = None, fading: Disturbance | None = None) -> None:
        # `before`: object for the same joints, whose unchanged parts are used again; `limits`
        # (5, n): see `Compensation`; `fading`: of one that fades out, if `before` has none
        task, observation = settings.tasks[0], settings.observation or Observation()
        self.observer = MomentumObserver(
            robot, observation.bandwidth, task.link or None, settings.friction, settings.driver,
            observation.efforts == 'measured', settings.damping)
        self.observer.record.uses_efforts = observation.efforts != 'commanded'
        if before is not None and self.observer.has_model_of(before.observer):
            self.observer = before.observer
        self._bandwidth = observation.bandwidth
        old = None if before is None else before.compensation
        wanted = settings.compensated or fading or (None if old is None else old.settings)
        self.compensation: Compensation | None = None
        if wanted is not None:
            if before is not None and old is not None and (
                    before.observer.robot is robot and wanted == old.settings):
                limits = old.limits
            self.compensation = Compensation(
                robot, wanted, limits, yielding_axes(task),
                settings.friction is not None and settings.free is None)
            self.compensation.record.is_active = settings.compensated is not None
        self._unknown, self._none = np.full(robot.n, math.nan), np.zeros(robot.n)

    @property
    def torque(self) -> Array:
        """Compensation (n,) in force [N·m, N]."""
        return self._none if self.compensation is None else self.compensation.torque

    @property
    def external(self) -> ExternalForce:
        """The present estimate; `observe` overwrites it."""
        return self.observer.external

    @property
    def state_arrays(self) -> tuple[NDArray[Any], ...]:
        """State of observer and compensation."""
        kept = () if self.compensation is None else (self.compensation.record.slots,)
        return self.observer.record.slots, *kept

    def forget(self) -> None:
        """Reset estimate and compensation to zero."""
        self.observer.forget()
        if self.compensation is not None:
            self.compensation.forget()

    def begin_with(self, missing: Array) -> None:
        """Start from a torque (n,) that the model lacks to hold the arm at rest [N·m, N]."""
        self.observer.begin_with(-missing)
        if self.compensation is not None and self.compensation.record.is_active:
            self.compensation.begin_with(missing)

    def go_on_from(self, before: DisturbanceCompensation) -> None:
        """Copy estimate and compensation of another object, without a computation."""
        self.observer.bandwidth = self._bandwidth
        if self.observer is not before.observer:
            self.observer.go_on_from(before.observer)
        if self.compensation is not None and before.compensation is not None:
            self.compensation.go_on_from(before.compensation)

    def leave_to_model(self, weight: Array) -> Array:
        """Subtract from estimate and compensation the torques that a new model computes."""
        # Otherwise a payload that is already compensated would count twice when the user sets it,
        # and would be taken for a contact. `weight` (n,): torque of the new model at rest, minus
        # that of the old one [N·m, N]. Return the part (n,) that was subtracted from the
        # compensation.
        if self.compensation is None:
            return self._none
        taken = self.compensation.leave_to_model(weight)
        self.observer.record.torque[:] += taken
        return taken

    def observe(self, time: float, q: Array, qd: Array, tau: Array | None, effort: Array | None
                ) -> None:
        """Advance the estimate to a state at `time` [s]."""
        # tau (n,): torque commanded since the last state, None if unknown; `effort` (n,): measured
        # torque [N·m, N].
        self.observer.update(time, q, qd, self._unknown if tau is None else tau, effort)

    def report(self) -> Report:
        """Return a copy of all estimates."""
        external, compensation = self.external, self.compensation
        return Report(external.torque.copy(), self.torque.copy(), external.wrench.copy(),
                      external.quality, external.settled, external.lever,
                      compensation is not None and bool(compensation.record.in_contact))
