# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Conversion of the controller's parameters to the settings of the law and the supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from osc_ros.compile.compiled import on_demand
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.contact import Contact
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.safety.supervision import Supervision, Watchdog
from osc_ros.control.safety.supervisor import Supervisor
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.settings import Observation, Settings
from osc_ros.control.tasks.feedback import KINDS
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.task import ForceControl, Gains, Stiffness, TargetLimits, Task
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.clearance_parameters import clearance_of
from osc_ros.ros.parameters.controller_parameters import WATCHDOGS
from osc_ros.setting import given, made

UNBOUNDED = (-np.inf,) * 3, (np.inf,) * 3
LOAD = ('gravity', *(entry.name for entry in robot_parameters.LOAD_ENTRIES))

Values = Mapping[str, Any]


class LoadedRobot:
    """Robot with payload, tool and gravity; rebuilt only if these change."""

    def __init__(self, bare: Robot) -> None:
        self._bare = bare  # robot of the description, without payload and tool
        self._load: list[Any] = []

    def of(self, values: Values) -> tuple[Robot, Driver | None]:
        """Return the robot, and the settings of its driver; None if it compensates nothing."""
        load = [values[name] for name in LOAD]
        if load != self._load:
            self._robot, self._known_to_driver = robot_parameters.with_load(values, self._bare)
            self._load = load
        compensates = values['driver_compensates']
        return self._robot, (None if compensates == 'none'
                             else Driver(self._known_to_driver, compensates))


def law_of(values: Values, urdf: str) -> tuple[LoadedRobot, Law]:
    """Return the robot and the law for parameter values of the controller, and a URDF text."""
    # each value was checked by its entry; InputError or ModelError if they do not fit each other
    # or the robot, or for an error in the URDF
    loaded = LoadedRobot(robot_parameters.robot(values, urdf))
    robot, driver = loaded.of(values)
    robot_parameters.command_order(values, robot)  # raises before kernels are compiled
    # compiles the kernels: law and supervisor call each one that they need once
    with on_demand():
        law = Law(robot, law_settings(values, robot, driver), values['method'],
                  values['workers'] or 'auto')
        Supervisor(robot, law, Supervision.of(robot, law.settings.limits, values['rate']))
    return loaded, law


def with_load(values: Values, mass: float) -> Values:
    """Return values by which the law compensates an unknown load at the tip up to `mass` [kg]."""
    if not mass:
        return values
    return {**values, 'disturbance.mode': 'observer',
            'disturbance.payload': max(values['disturbance.payload'], mass)}


def law_settings(values: Values, robot: Robot, driver: Driver | None = None) -> Settings:
    """Return the settings of the law; for `values` and InputError see `law_of`."""
    settings = Settings(
        tasks=(_tip(values), *(_further_task(values, name) for name in values['tasks'])),
        posture=made(Posture, values), damping=made(SingularityDamping, values),
        limits=Limits.of(robot, **given(Limits, values, robot.joint_names)),
        blend_time=values['blend_time'],
        friction=_friction(values, robot), driver=driver,
        observation=made(Observation, values),
        disturbance=(None if values['disturbance.mode'] == 'none'
                     else made(Disturbance, values)),
        clearance=clearance_of(values, robot))
    drive = made(JointDrive, values)
    drive.springs(np.ones(robot.n))  # refuses springs for another number of joints in each mode
    if values['mode'] == 'joints':
        return replace(settings, joints=drive)
    return made(FreeDrive, values).applied_to(settings) if values['mode'] == 'free' else settings


def supervision(values: Values, robot: Robot, limits: Limits) -> Supervision:
    """Return the settings of the supervisor; for `values` and InputError see `law_of`."""
    watchdogs = {
        entry.name: Watchdog(values[f'watchdog.{entry.name}.reaction'],
                             values[f'watchdog.{entry.name}.latched'],
                             (values[entry.timeout] if entry.timeout else 0.0) or np.inf)
        for entry in WATCHDOGS}
    period = 1.0 / values['rate']
    return made(Supervision, values, watchdogs=watchdogs, effort_limits=limits.effort,
                blend_time=values['blend_time'], deadline=period, period=period, bridges=True,
                velocity_limits=limits.velocity, effort_rates=limits.effort_rate,
                contact=_contact(values, robot))


def _tip(values: Values) -> Task:
    kind = Stiffness if values['mode'] == 'impedance' else Gains
    return made(Task, values, gains=made(kind, values), force=made(ForceControl, values),
                limits=target_limits(values))


def _further_task(values: Values, name: str) -> Task:
    gains = made(Gains, values, natural_frequency=[values[f'{name}.natural_frequency']] * 6,
                 damping_ratio=[values[f'{name}.damping_ratio']] * 6)
    kind = _kind(values, name)
    axes, frame = (((*values[f'{name}.rotation.axes'], *values[f'{name}.translation.axes']),
                    values[f'{name}.frame']) if kind.axes is None
                   else (kind.axes, ''))
    return Task(gains, name, values[f'{name}.link'], axes, frame, values[f'{name}.activation'],
                made(ForceControl, values), replace(target_limits(values), box=UNBOUNDED), kind)


def _kind(values: Values, name: str) -> Kind:
    kind = KINDS[values[f'{name}.kind']]
    try:
        return kind(**{field.name: values[f'{name}.{field.name}'] for field in fields(kind)})
    except InputError as error:
        raise InputError(f"task '{name}': {error}") from None


def target_limits(values: Values) -> TargetLimits:
    """Return the limits of the first task's set-point, from `target.…` and `workspace.…`."""
    lower, upper = UNBOUNDED
    return made(TargetLimits, values, box=(values['workspace.lower'] or lower,
                                           values['workspace.upper'] or upper))


def _friction(values: Values, robot: Robot) -> Friction | None:
    share = values['friction.from_description']
    found = Friction(**{'coulomb': share * robot.coulomb_friction,
                        'viscous': share * robot.viscous_friction,
                        **given(Friction, values, robot.joint_names)})
    return found if found.coulomb.any() or found.viscous.any() else None


def _contact(values: Values, robot: Robot) -> Contact:
    found = given(Contact, values, robot.joint_names)
    if 'torque' in found:
        return Contact(**found)
    is_compensated = values['disturbance.mode'] != 'none'
    return replace(Contact.of(robot, made(Disturbance, values), is_compensated), **found)
