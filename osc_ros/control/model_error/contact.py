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
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.model_error.disturbance import Disturbance, SETTLED
from osc_ros.control.model_error.observer import beyond_noise, OBSERVER
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

RELIABLE = 0.5  # the wrench is compared with its thresholds only from this quality on
# Codes of `touched`, beside the index of a joint.
NOT_TOUCHED, FORCE, MOMENT = -1, -2, -3

CONTACT = Table(
    'Contact',
    Slot('watches', (), '', 'whether the torques are compared', bool),
    Slot('learns', (), '', 'whether thresholds are learned: no contact is reported', bool),
    Slot('until', (), 's', 'when learning ends, on the clock of the states'),
    Slot('thresholds', ('n',), 'N·m, N', 'larger external torques are a contact'),
    Slot('wrench', (2,), 'N, N·m', 'larger force and moment on the link are one, too'),
    Slot('compensation', ('n',), 'N·m, N', 'compensation in force: thresholds hold for the sum of '
         'external torque and compensation'),
    Slot('peaks', ('n',), 'N·m, N', 'largest external torques so far'),
    Slot('peak_wrench', (2,), 'N, N·m', 'largest force and moment so far'),
    Slot('value', (), 'N·m, N', 'torque, force or moment of the last contact'))


@kernel
def touched(contact, o):
    """Return the index of the joint beyond its threshold; or FORCE, MOMENT, NOT_TOUCHED."""
    # Of several joints, the one with the largest ratio of torque to threshold. `contact` is a
    # record CONTACT, `o` a record OBSERVER.
    if not contact.watches or 1.0 - o.missing < SETTLED:
        return NOT_TOUCHED
    found, worst, sizes = NOT_TOUCHED, 1.0, contact.peak_wrench
    squares, left = 1e-12, 1e-12  # of the torques, and of what exceeds their noise
    for k in range(contact.n):
        value = o.torque[k] + contact.compensation[k]
        size = beyond_noise(value, o.noise[k])
        squares, left = squares + o.torque[k]**2, left + beyond_noise(o.torque[k], o.noise[k])**2
        contact.peaks[k] = max(contact.peaks[k], size)
        if size > worst * contact.thresholds[k]:
            found, worst, contact.value = k, size / contact.thresholds[k], value
    turning, pushing = 0.0, 0.0
    for k in range(3):
        turning += o.wrench[k] * o.wrench[k]
        pushing += o.wrench[3 + k] * o.wrench[3 + k]
    turning, pushing = np.sqrt(turning * left / squares), np.sqrt(pushing * left / squares)
    sizes[0], sizes[1] = max(sizes[0], pushing), max(sizes[1], turning)
    if found == NOT_TOUCHED and o.quality >= RELIABLE:
        if pushing > contact.wrench[0]:
            found, contact.value = FORCE, pushing
        elif turning > contact.wrench[1]:
            found, contact.value = MOMENT, turning
    return found


MARGIN = 1.5  # factor on the largest measured values for learned thresholds
FLOOR = 0.01  # share of the effort limits that is added to learned thresholds
WRENCH_FLOOR = 1.0, 0.2  # force and moment that are added to learned thresholds [N, N·m]


class Thresholds(NamedTuple):
    """Thresholds of torque (n,) [N·m; N], force [N] and moment [N·m], for `Contact`."""

    torque: Array
    force: float
    moment: float


@dataclass(frozen=True, eq=False)
class Contact(Group, group='contact'):
    """
    Settings of the detection of contacts.

    The thresholds of the torques hold for the sums of external torque and compensation, those of
    the wrench for the link of the first task, where the estimate of the wrench is reliable.

    Raises
    ------
    InputError
        A threshold that is not positive.

    """

    torque: Array = setting(
        text='External torque of every joint, base first, that is a contact [N m]; empty: what '
        'the errors of disturbance.* cannot explain; ~/learn_contact finds values', lower=1e-6,
        infinite=True)
    force: float = setting(
        math.inf, 'External force on the tip that is a contact, where it can be told from the '
        'torques [N]', lower=1e-6, infinite=True)
    moment: float = setting(math.inf, 'External moment on the tip that is a contact [N m]',
                            lower=1e-6, infinite=True)

    @classmethod
    def of(cls, robot: Robot, errors: Disturbance, is_compensated: bool) -> Contact:
        """Thresholds above the torques of these errors, with the load unless `is_compensated`."""
        return cls(errors.sudden_torques(robot, with_load=not is_compensated))


class ContactSense:
    """Compares the external torques of the joints `names` with thresholds, and learns these."""

    def __init__(self, names: Sequence[str]) -> None:
        self.record = CONTACT.new(n=len(names))
        _compile()
        self._names = names

    def learn(self, until: float) -> None:
        """Learn the largest external torques until a time on the clock of the states [s]."""
        at = self.record
        at.peaks[:], at.peak_wrench[:], at.learns, at.until = 0.0, 0.0, True, until

    def use(self, settings: Contact | None) -> None:
        """Set the thresholds from now on; None: no detection."""
        at = self.record
        at.watches = settings is not None
        if settings is not None:
            at.thresholds[:], at.wrench[:] = settings.torque, (settings.force, settings.moment)

    def reason(self, code: int, value: float) -> str:
        """Return the message for a code of `touched` and the value that exceeds its threshold."""
        at = self.record
        force, moment = at.wrench.tolist()
        if code == FORCE:
            return f'external force of {value:.1f} N, more than contact.force {force:g}'
        if code == MOMENT:
            return f'external moment of {value:.2f} N m, more than contact.moment {moment:g}'
        return (f"external torque of {value:.2f} N m at '{self._names[code]}', more than "
                f'contact.torque {at.thresholds[code]:.2f}')

    def learned_thresholds(self, time: float, effort_limits: Array) -> Thresholds | None:
        """Return the learned thresholds once, when the learning ends; otherwise None."""
        # `time`: stamp of the state [s]; `effort_limits`: (n,) [N·m, N].
        if not self.record.learns or time < self.record.until:
            return None
        self.record.learns = False
        torque, (force, moment) = MARGIN * self.record.peaks, MARGIN * self.record.peak_wrench
        floor = FLOOR * np.where(np.isfinite(effort_limits), effort_limits, 0.0)
        return Thresholds(np.maximum(torque + floor, 1e-3), float(force + WRENCH_FLOOR[0]),
                          float(moment + WRENCH_FLOOR[1]))


@ahead
def _compile() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    touched(CONTACT.new(n=1), OBSERVER.new(n=1))
    lock(touched)
