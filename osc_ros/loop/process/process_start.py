# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Start data of a control loop's process, and the check that they fit the arm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.settings import Settings
from osc_ros.control.tasks.task import Gains
from osc_ros.errors import InputError
from osc_ros.hardware.contract import Description
from osc_ros.model.robot import Robot

REAL = 8.0, 3.0  # default natural frequencies of tip and posture for a real arm [rad/s]
CAREFUL = np.array([0.3, 0.1])  # largest speeds of a real arm at its start [rad/s, m/s]
RATE_SHARE = 0.8  # default limit, relative to the torque rate at which an arm ends the control


@dataclass(frozen=True)
class System:
    """Settings of the operating system that the process requests."""

    priority: int = 0  # SCHED_FIFO priority; 0: none
    lock_memory: bool = False
    cpus: tuple[int, ...] = ()  # CPUs on which the process may run; empty: all
    record_cycles: str = ''  # file for the times of the cycles; empty: none


@dataclass(frozen=True, eq=False)
class Start:
    """Data that the process needs to start."""

    hardware: str  # name of the kind of arm, see `osc_ros.hardware.hardware_table`
    values: dict[str, Any]  # of the settings of this kind of arm
    urdf: str
    robot: Robot
    settings: Settings | None  # None: see `usual_settings`
    method: str
    supervision: Supervision | None  # None: the default watchdogs
    system: System = System()

    def settings_for(self, described: Description) -> tuple[Settings, Supervision]:
        """Return the settings for an open arm; InputError if they do not fit (`require_fit`)."""
        settings = self.settings or usual_settings(self.robot, described)
        settings = settings.with_limits_of(self.robot)
        guard = self.supervision or Supervision.of(self.robot, settings.limits,
                                                   1.0 / described.period)
        require_fit(described, self.robot, settings, guard.period)
        return settings, guard


def usual_settings(robot: Robot, described: Description) -> Settings:
    """Return default settings within an arm's limits; a real arm gets the lower gains REAL."""
    # the compensation by the arm itself is subtracted
    effort, rate = robot.effort_limits, None
    if described.effort_limits is not None:
        effort = np.minimum(effort, described.effort_limits)
    limits = Limits.of(robot, effort=effort)
    if described.effort_rates is not None:
        rate = np.minimum(limits.effort_rate, RATE_SHARE * described.effort_rates)
        limits = Limits.of(robot, effort=effort, effort_rate=rate)
    settings = Settings.of(robot, limits=limits, driver=None if described.compensates == 'none'
                           else Driver(robot, described.compensates))
    if described.is_simulated:
        return settings
    tip, posture = REAL
    return replace(settings, posture=Posture(posture), tasks=tuple(
        replace(task, gains=Gains([tip] * 6)) for task in settings.tasks))


def careful_override(settings: Settings, robot: Robot) -> float:
    """Speed override [%] at which tips and joints of a real arm are no faster than CAREFUL."""
    # At 100 % a joint path with times may reach the velocity limits; infinite ones do not count.
    joints = np.where(robot.prismatic, CAREFUL[1], CAREFUL[0]) / settings.limits.velocity
    tips = [CAREFUL / task.limits.speed for task in settings.tasks]
    shares = np.concatenate([joints, *tips])
    least = shares[shares > 0.0].min(initial=1.0)
    return float(np.clip(np.floor(100.0 * least), 1.0, 100.0))


def careful_text(percent: float) -> str:
    """Return a line on the speed override [%] of a new controller."""
    return (f'motions have {percent:g} % of their speed: raise the speed override when they are '
            'as you expect')


def require_fit(described: Description, robot: Robot, settings: Settings, period: float) -> None:
    """Raise InputError if joints, compensation, period [s] or torque limits do not fit the arm."""
    if described.joint_names != robot.joint_names:
        raise InputError(f"{described.name} has the joints {', '.join(described.joint_names)}: "
                         f"the robot description has {', '.join(robot.joint_names)}")
    compensates = 'none' if settings.driver is None else settings.driver.compensates
    if described.compensates != compensates:
        raise InputError(f"parameter 'driver_compensates' is '{compensates}': {described.name} "
                         f"compensates '{described.compensates}' by itself: must be "
                         f"'{described.compensates}'")
    if abs(period - described.period) > 0.01 * described.period:
        raise InputError(f"parameter 'rate' is {1.0 / period:g} Hz: {described.name} has "
                         f'{1.0 / described.period:g} states a second: must be '
                         f'{1.0 / described.period:g}')
    limits = settings.limits
    for parameter, unit, most, given in (
            ('limits.effort', 'N·m', described.effort_limits, limits.effort),
            ('limits.effort_rate', 'N·m/s', described.effort_rates, limits.effort_rate)):
        if most is None:
            continue
        for i in np.flatnonzero(np.broadcast_to(given, most.shape) > most)[:1].tolist():
            raise InputError(f"parameter '{parameter}': {np.broadcast_to(given, most.shape)[i]:g} "
                             f"{unit} for '{robot.joint_names[i]}': {described.name} accepts at "
                             f'most {most.tolist()}')
