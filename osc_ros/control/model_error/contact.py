# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Detection of contacts by thresholds of the external torques, and learning of the thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import ahead, kernel, lock
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.model_error import observer
from osc_ros.control.model_error.disturbance import Disturbance, SETTLED
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

RELIABLE = 0.5  # the wrench is compared with its thresholds only from this quality on
# Codes of `touched`, beside the index of a joint.
NOT_TOUCHED, FORCE, MOMENT = -1, -2, -3

CONTACT = Table(
    'Contact',
    Slot('watches', (1,), '', '1 if the torques are compared'),
    Slot('comes_first', (1,), '', '1 if torques depend on the external torques at the same state'),
    Slot('learns', (1,), '', '1 while thresholds are learned: no contact is reported'),
    Slot('thresholds', ('n',), 'N·m, N', 'larger external torques are a contact'),
    Slot('wrench', (2,), 'N, N·m', 'larger force and moment on the link are one, too'),
    Slot('compensation', ('n',), 'N·m, N', 'compensation in force: thresholds hold for the sum of '
         'external torque and compensation'),
    Slot('peaks', ('n',), 'N·m, N', 'largest external torques so far'),
    Slot('peak_wrench', (2,), 'N, N·m', 'largest force and moment so far'),
    Slot('value', (1,), 'N·m, N', 'torque, force or moment of the last contact'))

_views, contact_views = CONTACT.views, CONTACT.only('comes_first', 'compensation')
_state_views = observer.STATE.only('missing', 'torque')
_result_views = observer.RESULT.only('wrench', 'quality')


@kernel
def touched(contact, forces, estimate, n):
    """
    Return the index of the joint beyond its threshold; or FORCE, MOMENT, NOT_TOUCHED.

    If several joints are beyond their thresholds, the index is that of the joint with the largest
    ratio of torque to threshold. `contact` is a record of CONTACT; `forces` and `estimate` are the
    records STATE and RESULT of the observer.

    """
    at, now, wrench = _views(contact, n), _state_views(forces, n), _result_views(estimate, n)
    if at.watches[0] == 0.0 or 1.0 - now.missing[0] < SETTLED:
        return NOT_TOUCHED
    found, worst, sizes = NOT_TOUCHED, 1.0, at.peak_wrench
    for k in range(n):
        value = now.torque[k] + at.compensation[k]
        at.peaks[k] = max(at.peaks[k], np.abs(value))
        if np.abs(value) > worst * at.thresholds[k]:
            found, worst, at.value[0] = k, np.abs(value) / at.thresholds[k], value
    turning, pushing = 0.0, 0.0
    for k in range(3):
        turning += wrench.wrench[k] * wrench.wrench[k]
        pushing += wrench.wrench[3 + k] * wrench.wrench[3 + k]
    turning, pushing = np.sqrt(turning), np.sqrt(pushing)
    sizes[0], sizes[1] = max(sizes[0], pushing), max(sizes[1], turning)
    if found == NOT_TOUCHED and wrench.quality[0] >= RELIABLE:
        if pushing > at.wrench[0]:
            found, at.value[0] = FORCE, pushing
        elif turning > at.wrench[1]:
            found, at.value[0] = MOMENT, turning
    return NOT_TOUCHED if at.learns[0] > 0.0 else found

MARGIN = 1.5  # factor on the largest measured values for learned thresholds
FLOOR = 0.01  # share of the effort limits that is added to learned thresholds
WRENCH_FLOOR = 1.0, 0.2  # force and moment that are added to learned thresholds [N, N·m]


class Thresholds(NamedTuple):
    """Thresholds of torque (n,) [N·m; N], force [N] and moment [N·m], for `Contact`."""

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
        Threshold of each joint, for the sum of external torque and compensation.
    force, moment : float [N, N·m]
        Thresholds of the wrench on the link of the first task, used where the estimate of the
        wrench is reliable; infinite: no threshold.

    Raises
    ------
    InputError
        A threshold that is not positive.

    """

    torque: Array
    force: float = math.inf
    moment: float = math.inf

    def __post_init__(self) -> None:
        if not (np.asarray(self.torque) > 0.0).all() or not self.force > 0.0 < self.moment:
            raise InputError(f'thresholds of contact {np.asarray(self.torque).tolist()}, '
                             f'{self.force}, {self.moment}: must be positive numbers')

    @classmethod
    def of(cls, robot: Robot, errors: Disturbance, is_compensated: bool) -> Contact:
        """
        Thresholds above the torques that the model errors `errors` can cause.

        The torques include the load, unless the law compensates it (`is_compensated`).

        """
        return cls(errors.sudden_torques(robot, with_load=not is_compensated))


class ContactSense(Recorded):
    """
    Compares the external torques of every state with thresholds, and learns thresholds.

    `names` are the joints of the robot; `until` is the end of the learning, on the clock of the
    states [s].

    """

    TABLES = CONTACT,

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(len(names))
        _compile()
        self._names, self.until = names, -math.inf
        self._settings: object = self  # no valid settings: the first call of `use` sets them

    @property
    def learns(self) -> bool:
        """Whether thresholds are being learned; contacts are not reported then."""
        return bool(self.views[0].learns[0])

    def learn(self, until: float) -> None:
        """Learn the largest external torques until a time on the clock of the states [s]."""
        at = self.views[0]
        at.peaks[:], at.peak_wrench[:], at.learns[0], self.until = 0.0, 0.0, 1.0, until

    def stop_learning(self) -> None:
        """Stop learning, and discard the result."""
        self.views[0].learns[0] = 0.0

    def use(self, settings: Contact | None, compensation: Array, comes_first: bool = False
            ) -> None:
        """
        Set the thresholds and the compensation (n,) [N·m, N] for the next states.

        Without settings no contact is detected. `comes_first` says whether torques depend on the
        external torques at the same state.

        """
        at = self.views[0]
        at.compensation[:], at.comes_first[0] = compensation, comes_first
        if settings is not self._settings:
            self._settings = settings
            at.watches[0] = settings is not None
            if settings is not None:
                at.thresholds[:], at.wrench[:] = settings.torque, (settings.force, settings.moment)

    def reason(self, code: int, value: float) -> str:
        """Return the message for a code of `touched` and the value that exceeds its threshold."""
        [at] = self.views
        force, moment = at.wrench.tolist()
        if code == FORCE:
            return f'external force of {value:.1f} N, more than contact.force {force:g}'
        if code == MOMENT:
            return f'external moment of {value:.2f} N m, more than contact.moment {moment:g}'
        return (f"external torque of {value:.2f} N m at '{self._names[code]}', more than "
                f'contact.torque {at.thresholds[code]:.2f}')

    def learned_thresholds(self, time: float, effort_limits: Array) -> Thresholds | None:
        """
        Return the learned thresholds once, when the learning ends; otherwise None.

        `time` is the stamp of the state [s]; `effort_limits` are (n,) [N·m, N].

        """
        if not self.learns or time < self.until:
            return None
        self.stop_learning()
        torque, (force, moment) = MARGIN * self.views[0].peaks, MARGIN * self.views[0].peak_wrench
        floor = FLOOR * np.where(np.isfinite(effort_limits), effort_limits, 0.0)
        return Thresholds(np.maximum(torque + floor, 1e-3), float(force + WRENCH_FLOOR[0]),
                          float(moment + WRENCH_FLOOR[1]))


@ahead
def _compile() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    touched(CONTACT.zeros(1), observer.STATE.zeros(1), observer.RESULT.zeros(1), 1)
    lock(touched)
