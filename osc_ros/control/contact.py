# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Contact of the arm with something, by thresholds of the external torques; thresholds learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.compensation import SETTLED
from osc_ros.control.disturbance import Disturbance
from osc_ros.control.observer import ExternalForce
from osc_ros.dynamics.compiled import ahead, kernel, lock
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

MARGIN = 1.5  # learned thresholds, relative to the largest values met
FLOOR = 0.01  # added to learned thresholds, relative to the effort limits
WRENCH_FLOOR = 1.0, 0.2  # added to learned thresholds of force and moment [N, N·m]
RELIABLE = 0.5  # a wrench of lower quality is not compared with its thresholds
_FORCE, _MOMENT = -2, -3  # results of `_exceeded` for the wrench
_NONE = -1


@kernel
def _exceeded(torque, compensation, wrench, limits, force, moment, peaks):
    """
    Index of the joint whose torque exceeds its limit most; or _FORCE, _MOMENT, _NONE.

    Parameters
    ----------
    torque, compensation, limits : (n,) [N·m]
    wrench : (6,) [N·m, N]
    force, moment : float [N, N·m]
        Limits of the wrench.
    peaks : (n + 2,), changed
        Largest torques so far, force, moment.

    """
    n, found, worst = len(torque), _NONE, 1.0
    for k in range(n):
        value = np.abs(torque[k] + compensation[k])
        peaks[k] = max(peaks[k], value)
        if value > worst * limits[k]:
            found, worst = k, value / limits[k]
    turning, pushing = 0.0, 0.0
    for k in range(3):
        turning += wrench[k] * wrench[k]
        pushing += wrench[3 + k] * wrench[3 + k]
    turning, pushing = np.sqrt(turning), np.sqrt(pushing)
    peaks[n], peaks[n + 1] = max(peaks[n], pushing), max(peaks[n + 1], turning)
    if found == _NONE and pushing > force:
        found = _FORCE
    if found == _NONE and turning > moment:
        found = _MOMENT
    return found


class Thresholds(NamedTuple):
    """Largest torques of the joints (n,) [N·m; N], and largest force [N] and moment [N·m]."""

    torque: Array
    force: float
    moment: float


@dataclass(frozen=True, eq=False)
class Contact:
    """
    Settings of the detection of contacts.

    Attributes
    ----------
    torque : (n,) [N·m; N for prismatic]
        A larger sum of a joint's external torque and compensation is a contact.
    force, moment : float [N, N·m]
        A larger wrench on the link of the first task is one, too, where the estimate of the
        wrench is reliable; infinite: not compared.

    Raises
    ------
    InputError
        A threshold that is not positive.

    """

    torque: Array
    force: float = math.inf
    moment: float = math.inf

    def __post_init__(self) -> None:
        """Raise for thresholds that are not positive."""
        if not (np.asarray(self.torque) > 0.0).all() or not self.force > 0.0 < self.moment:
            raise InputError(f'thresholds of contact {np.asarray(self.torque).tolist()}, '
                             f'{self.force}, {self.moment}: accepted are positive numbers')

    @classmethod
    def of(cls, robot: Robot, errors: Disturbance, is_compensated: bool) -> Contact:
        """
        Thresholds above what the errors of the model can cause.

        Parameters
        ----------
        robot : Robot
        errors : Disturbance
            How wrong the model may be.
        is_compensated : bool
            Whether a compensation makes up for the load, so that only its share remains.

        """
        return cls(errors.sudden_torques(robot, with_load=not is_compensated))


class ContactSense:
    """
    Compares the external torques of every state with thresholds, and finds thresholds.

    Attributes
    ----------
    learns : bool
        Whether thresholds are being learned; contacts are not reported then.

    """

    def __init__(self, names: Sequence[str]) -> None:
        _compile()
        self._names = names
        self.learns, self._until = False, -math.inf
        self._peaks = np.zeros(len(names) + 2)

    def learn(self, until: float) -> None:
        """Record the largest external torques until a time on the clock of the states [s]."""
        self._peaks[:], self._until, self.learns = 0.0, until, True

    def stop_learning(self) -> None:
        """Discard what was learned so far."""
        self.learns = False

    def reason(self, settings: Contact, external: ExternalForce, compensation: Array) -> str:
        """
        Why the arm touches something; empty if it does not, or while thresholds are learned.

        Parameters
        ----------
        settings : Contact
        external : ExternalForce
        compensation : (n,) [N·m, N]

        """
        if external.settled < SETTLED:
            return ''
        force, moment = settings.force, settings.moment
        if (force < math.inf or moment < math.inf) and external.quality < RELIABLE:
            force = moment = math.inf
        k = int(_exceeded(external.torque, compensation, external.wrench, settings.torque, force,
                          moment, self._peaks))
        if k == _NONE or self.learns:
            return ''
        if k == _FORCE:
            size = float(np.linalg.norm(external.wrench[3:]))
            return f'external force of {size:.1f} N, more than contact.force {force:g}'
        if k == _MOMENT:
            size = float(np.linalg.norm(external.wrench[:3]))
            return f'external moment of {size:.2f} N m, more than contact.moment {moment:g}'
        value = float(external.torque[k] + compensation[k])
        return (f"external torque of {value:.2f} N m at '{self._names[k]}', more than "
                f'contact.torque {settings.torque[k]:.2f}')

    def learned(self, time: float, effort_limits: Array) -> Thresholds | None:
        """
        Return thresholds if the time of learning is over, once; otherwise None.

        Parameters
        ----------
        time : float
            Stamp of the state [s].
        effort_limits : (n,) [N·m, N]

        """
        if not self.learns or time < self._until:
            return None
        self.learns = False
        *torque, force, moment = MARGIN * self._peaks
        floor = FLOOR * np.where(np.isfinite(effort_limits), effort_limits, 0.0)
        return Thresholds(np.maximum(torque + floor, 1e-3), float(force + WRENCH_FLOOR[0]),
                          float(moment + WRENCH_FLOOR[1]))


@ahead
def _compile() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    x, none = np.zeros(1), math.inf
    _exceeded(x, x, np.zeros(6), np.ones(1), none, none, np.zeros(3))
    lock(_exceeded)
