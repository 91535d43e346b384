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
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.kind_table import KINDS
from osc_ros.control.tasks.task import ForceControl, Gains, Stiffness, TargetLimits, Task
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.clearance_parameters import clearance_of
from osc_ros.ros.parameters.controller_parameters import WATCHDOGS

UNBOUNDED = (-np.inf,) * 3, (np.inf,) * 3
LOAD = ('gravity', *(entry.name for entry in robot_parameters.LOAD_ENTRIES))

Values = Mapping[str, Any]


class LoadedRobot:
    """
    Robot with payload, tool and gravity; rebuilt only if these change.

    Parameters
    ----------
    bare : Robot
        Robot of the description, without payload and tool.

    """

    def __init__(self, bare: Robot) -> None:
        self._bare = bare
        self._load: list[Any] = []

    def of(self, values: Values) -> tuple[Robot, Driver | None]:
        """
        Return the robot for these values, and the settings of its driver.

        The second result is None if the driver compensates nothing. For errors see
        `osc_ros.ros.parameters.robot_parameters.with_load`.

        """
        load = [values[name] for name in LOAD]
        if load != self._load:
            self._robot, self._known_to_driver = robot_parameters.with_load(values, self._bare)
            self._load = load
        compensates = values['driver_compensates']
        return self._robot, (None if compensates == 'none'
                             else Driver(self._known_to_driver, compensates))


def law_of(values: Values, urdf: str) -> tuple[LoadedRobot, Law]:
    """
    Return the robot and the law for parameter values of the controller.

    Parameters
    ----------
    values : mapping of str to value
        All parameters by name, each checked by its entry.
    urdf : str

    Raises
    ------
    InputError, ModelError
        Values that do not fit each other or the robot, or an error in the URDF.

    """
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
    """
    Return values with which the law compensates an unknown load at the tip up to `mass` [kg].

    If `mass` is 0, the values are returned unchanged.

    """
    if not mass:
        return values
    return {**values, 'disturbance.mode': 'observer',
            'disturbance.payload': max(values['disturbance.payload'], mass)}


def law_settings(values: Values, robot: Robot, driver: Driver | None = None) -> Settings:
    """Return the settings of the law; for `values` and InputError see `law_of`."""
    settings = Settings(
        tasks=(_tip(values), *(_further_task(values, name) for name in values['tasks'])),
        posture=Posture(values['posture.natural_frequency'], values['posture.damping_ratio'],
                        values['posture.damping']),
        damping=SingularityDamping(values['singularity.length'], values['singularity.low'],
                                   values['singularity.high']),
        limits=_joint_limits(values, robot), blend_time=values['blend_time'],
        friction=_friction(values, robot), driver=driver,
        observation=Observation(values['external_force.bandwidth'],
                                values['external_force.efforts']),
        disturbance=None if values['disturbance.mode'] == 'none' else _disturbance(values),
        clearance=clearance_of(values, robot))
    drive = _joint_drive(values)
    drive.springs(np.ones(robot.n))  # refuses springs for another number of joints in each mode
    if values['mode'] == 'joints':
        return replace(settings, joints=drive)
    return _free_drive(values).applied_to(settings) if values['mode'] == 'free' else settings


def supervision(values: Values, robot: Robot, limits: Limits) -> Supervision:
    """Return the settings of the supervisor; for `values` and InputError see `law_of`."""
    watchdogs = {
        entry.name: Watchdog(values[f'watchdog.{entry.name}.reaction'],
                             values[f'watchdog.{entry.name}.latched'],
                             (values[entry.timeout] if entry.timeout else 0.0) or np.inf)
        for entry in WATCHDOGS}
    period = 1.0 / values['rate']
    return Supervision(watchdogs, limits.effort, values['stop_rate'], values['fade_time'],
                       values['blend_time'], values['settle_time'], deadline=period,
                       period=period, idle=values['idle'], bridges=True,
                       velocity_limits=limits.velocity, effort_rates=limits.effort_rate,
                       contact=_contact(values, robot),
                       comply_frequency=values['contact.comply_frequency'],
                       retreat=values['contact.retreat'],
                       retreat_speed=values['contact.retreat_speed'])


def _joint_drive(values: Values) -> JointDrive:
    found = {name: values[f'joints.{name}'] for name in (
        'natural_frequency', 'damping_ratio', 'speed', 'ramp', 'leash', 'friction')}
    for name in ('stiffness', 'damping'):
        if given := values[f'joints.{name}']:
            found[name] = given[0] if len(given) == 1 else given
    return JointDrive(**found)


def _free_drive(values: Values) -> FreeDrive:
    return FreeDrive(
        damping=[values['free.rotation.damping'], values['free.translation.damping']],
        rate=values['free.rate'],
        speed=[values['free.rotation.speed'], values['free.translation.speed']],
        axes=(*values['free.rotation.axes'], *values['free.translation.axes']),
        lock=values['free.lock'], wall=values['free.wall'], depth=values['free.depth'],
        friction=values['free.friction'])


def _tip(values: Values) -> Task:
    if values['mode'] != 'impedance':
        gains: Gains | Stiffness = Gains(*(_six(values, name) for name in (
            'natural_frequency', 'damping_ratio', 'speed', 'acceleration')))
    else:
        gains = Stiffness(*(_six(values, name) for name in (
            'stiffness', 'damping_ratio', 'spring_limit')),
                          values['impedance.change_time'], values['impedance.tank'])
    return Task(gains, 'tip', '', _axes(values), values['task.frame'], values['task.activation'],
                _force_control(values), target_limits(values))


def _further_task(values: Values, name: str) -> Task:
    gains = Gains([values[f'{name}.natural_frequency']] * 6, [values[f'{name}.damping_ratio']] * 6,
                  _six(values, 'speed'), _six(values, 'acceleration'))
    kind = _kind(values, name)
    axes, frame = ((_axes(values, f'{name}.'), values[f'{name}.frame']) if kind.axes is None
                   else (kind.axes, ''))
    return Task(gains, name, values[f'{name}.link'], axes, frame, values[f'{name}.activation'],
                _force_control(values), replace(target_limits(values), box=UNBOUNDED), kind)


def _kind(values: Values, name: str) -> Kind:
    kind = KINDS[values[f'{name}.kind']]
    try:
        return kind(**{field.name: values[f'{name}.{field.name}'] for field in fields(kind)})
    except InputError as error:
        raise InputError(f"task '{name}': {error}") from None


def _six(values: Values, name: str) -> Any:
    """Return rotation.NAME and translation.NAME as (6,), [angular; linear]."""
    return np.hstack([values[f'rotation.{name}'], values[f'translation.{name}']])


def _axes(values: Values, prefix: str = '') -> tuple[str, ...]:
    return (*values[f'{prefix}rotation.axes'], *values[f'{prefix}translation.axes'])


def _force_control(values: Values) -> ForceControl:
    return ForceControl(values['force.damping'], values['force.gain'],
                        values['force.integral_rate'],
                        [values['force.moment_correction'], values['force.correction']])


def target_limits(values: Values) -> TargetLimits:
    """Return the limits of the first task's set-point, from `target.…` and `workspace.…`."""
    pairs = {name: (values[f'target.rotation.{name}'], values[f'target.translation.{name}'])
             for name in ('speed', 'acceleration', 'jerk', 'leash')}
    lower, upper = UNBOUNDED
    return TargetLimits(**pairs, too_fast=values['target.too_fast'],
                        box=(values['workspace.lower'] or lower,
                             values['workspace.upper'] or upper))


def _friction(values: Values, robot: Robot) -> Friction | None:
    share = values['friction.from_description']
    coulomb, viscous = (
        robot_parameters.per_joint(values, f'friction.{name}', share * described, robot)
        for name, described in (('coulomb', robot.coulomb_friction),
                                ('viscous', robot.viscous_friction)))
    if not (coulomb.any() or viscous.any()):
        return None
    return Friction(coulomb, viscous)


def _disturbance(values: Values) -> Disturbance:
    return Disturbance(**{field.name: values[name] for field in fields(Disturbance)
                          if (name := f'disturbance.{field.name}') in values})


def _contact(values: Values, robot: Robot) -> Contact:
    force, moment = values['contact.force'], values['contact.moment']
    if values['contact.torque']:
        return Contact(robot_parameters.per_joint(values, 'contact.torque', (), robot), force,
                       moment)
    found = Contact.of(robot, _disturbance(values), values['disturbance.mode'] != 'none')
    return replace(found, force=force, moment=moment)


def _joint_limits(values: Values, robot: Robot) -> Limits:
    given: dict[str, Any] = {name: values[f'limits.{name}'] for name in (
        'reaction_time', 'soft_zone', 'repulsion')}
    for name in ('effort', 'effort_rate', 'velocity', 'deceleration'):
        if values[f'limits.{name}']:
            given[name] = robot_parameters.per_joint(values, f'limits.{name}', (), robot)
    return Limits.of(robot, **given)
