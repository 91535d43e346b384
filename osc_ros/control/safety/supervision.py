# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Settings of a supervisor: watchdogs with their reactions, limits, times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.contact import Contact
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.tasks.bandwidth import (
    largest_damping_rate,
    largest_natural_frequency,
    stretch,
)
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

# Reactions by increasing priority. 'report': the cause is counted, and the law continues.
# 'comply': the arm stops, and then yields like a weak spring about the position of the contact.
# 'retract': it goes back along its way by `Supervision.retreat`, and holds that position. 'hold':
# it stops and holds its position. 'damp': it stops, and can then be pushed. 'gravity': only
# gravity is compensated. 'zero': zero torque. 'deactivate': it stops; when it is at rest,
# `Supervision.idle` applies and `Supervisor.is_finished` becomes true.
REACTIONS = 'report', 'comply', 'retract', 'hold', 'damp', 'gravity', 'zero', 'deactivate'

HARMLESS = '', 'report'  # reactions with which the law still controls the arm

# Causes that are detected in the step and its loop, if they have a watchdog.
STALE_STATE, JUMP, NOT_FINITE, DEADLINE = 'stale_state', 'jump', 'not_finite', 'deadline'
OVERSPEED, VELOCITY, CONTACT, TOO_NEAR = 'overspeed', 'velocity', 'contact', 'too_near'
PAYLOAD = 'payload'
STALE_TARGET = 'stale_target'  # the caller calls `Supervisor.reset_timeout` at every target

HARDEST = 5.0  # highest braking rate before a position limit, as a multiple of the stop rate


@dataclass(frozen=True)
class Watchdog:
    """Reaction to one cause; InputError if it is unknown, or if the time-out is not positive."""

    reaction: str  # one of REACTIONS
    # Whether it lasts until `Supervisor.release`, rather than until the cause ends; 'deactivate'
    # is always latched, 'report' never.
    latched: bool = False
    # Longest time between two calls of `Supervisor.reset_timeout`; after it the cause is active
    # [s]. If infinite, the cause is active only after `Supervisor.report_fault`.
    timeout: float = np.inf

    def __post_init__(self) -> None:
        if self.reaction not in REACTIONS:
            raise InputError(f"reaction '{self.reaction}': must be one of "
                             + ', '.join(REACTIONS))
        if not self.timeout > 0.0:
            raise InputError(f'time-out of {self.timeout} s: must be more than 0')


# Default watchdogs by cause; the controller's ROS parameters have the same defaults. Of those with
# one reaction the first is shown: DEADLINE is last, because a busy machine misses some.
DEFAULT_WATCHDOGS: Mapping[str, Watchdog] = {
    STALE_STATE: Watchdog('hold', timeout=0.1), STALE_TARGET: Watchdog('report'),
    NOT_FINITE: Watchdog('hold'), JUMP: Watchdog('hold'),
    OVERSPEED: Watchdog('hold'), VELOCITY: Watchdog('report'),
    CONTACT: Watchdog('report', latched=True), TOO_NEAR: Watchdog('report'),
    PAYLOAD: Watchdog('hold', latched=True), DEADLINE: Watchdog('report')}


@dataclass(frozen=True, eq=False)
class Supervision(Group):
    """
    Settings of a supervisor; all may change while it runs, except the names of the watchdogs.

    Attributes
    ----------
    watchdogs : mapping of str to Watchdog
        Watchdogs by the name of the cause.
    effort_limits : (n,)
        Largest torque of each joint [N·m]; may be infinite.
    bridges : bool
        Whether the arm is braked along a predicted state as soon as a state is missing, before
        STALE_STATE is a cause; during a reaction the arm is always braked in this way. A state is
        missing after LATE_PERIODS mean intervals, or after LATE_SHARE of the time-out of
        STALE_STATE if that is longer.
    velocity_limits : (n,), optional
        Limits of the measured speeds for 'overspeed' [rad/s, m/s]; default: those of the robot.
        Lowered limits come into force with the time constant `blend_time`.
    effort_rates : (n,), optional
        Largest rate of change of the torques of any source [N·m/s, N/s]; default: unlimited.
    contact : Contact, optional
        Thresholds of the external torques for 'contact'; without them no contact is detected.

    Raises
    ------
    InputError
        A number that is not accepted.

    """

    watchdogs: Mapping[str, Watchdog]
    effort_limits: Array
    stop_rate: float = setting(
        10.0, 'Decay rate of the speed when the arm is stopped [1/s]; at most 0.23 times `rate`',
        lower=0.1, upper=100.0)
    fade_time: float = setting(
        0.05, 'Time in which the torque changes from one source to another, such as from the law '
        'to a watchdog [s]', lower=1e-3, upper=10.0)
    blend_time: float = setting(
        0.3, 'Time in which new effort limits come into force, for the law and the supervisor '
        '[s]', name='', lower=1e-3, upper=60.0)
    settle_time: float = setting(
        0.1, 'The law resumes when the cause of a reaction has been gone for this time [s]',
        lower=1e-3, upper=60.0)
    deadline: float = setting(
        np.inf, 'Computation time of the law above which a deadline counts as missed [s]',
        name='', lower=1e-9, infinite=True)
    period: float = setting(0.002, 'Expected interval between two states [s]', name='', lower=1e-6)
    idle: str = setting(
        'gravity', 'Last command to an arm that has been stopped for good: the torque of its '
        'weight, or zero', choices=('gravity', 'zero'))
    bridges: bool = False
    velocity_limits: Array | None = None
    effort_rates: Array | None = None
    contact: Contact | None = None
    comply_frequency: float = setting(
        2.0, 'Natural frequency of the spring of the reaction comply [rad/s]',
        name='contact.comply_frequency', lower=1e-3, upper=10.0)
    retreat: float = setting(0.1, 'Way of the reaction retract, of the joint that moves most '
                             '[rad]', name='contact.retreat', lower=1e-3, upper=10.0)
    retreat_speed: float = setting(
        0.5, 'Speed of the reaction retract, of the joint that moves most [rad/s]',
        name='contact.retreat_speed', lower=1e-3, upper=10.0)

    @classmethod
    def of(cls, robot: Robot, limits: Limits, rate: float) -> Supervision:
        """Default settings for a robot with these limits; `rate` is that of the states [Hz]."""
        return cls(DEFAULT_WATCHDOGS, limits.effort, period=1.0 / rate, deadline=1.0 / rate,
                   bridges=True, velocity_limits=limits.velocity,
                   effort_rates=limits.effort_rate,
                   contact=Contact.of(robot, Disturbance(), False))

    @cached_property
    def reacts_to_contact(self) -> bool:
        """Whether a contact replaces the law's torque."""
        watchdog = self.watchdogs.get(CONTACT)
        return watchdog is not None and watchdog.reaction not in HARMLESS

    def rates(self, ratio: float) -> tuple[float, float]:
        """Stop rate, and highest damping rate before a joint limit, stable at the period [1/s]."""
        # `ratio`: of the inertias with and without payload, see `limits.payload_ratio`
        period = stretch(ratio) * self.period
        rate = self.stop_rate
        if ratio > 1.0:
            rate = min(rate, largest_natural_frequency(1.0, period))
        # 'hold' damps with the sum of the two
        return rate, min(HARDEST * rate, max(rate, largest_damping_rate(period) - rate))
