# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The arm and the controller of osc_tune, from the parameters of the nodes, without ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
import math
from typing import Any

import numpy as np

from osc_ros.control.freedoms import freedoms_of
from osc_ros.control.settings import Settings
from osc_ros.control.supervision import Supervision
from osc_ros.dynamics.compilation import compile_in_parallel
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.nodes import description
from osc_ros.nodes.controller_parameters import with_tasks
from osc_ros.nodes.demo_parameters import Parameters
from osc_ros.nodes.demonstration import AXES
from osc_ros.nodes.gains import changes_within_bandwidth, require_bandwidth
from osc_ros.nodes.settings import law_of, law_settings, LoadedRobot, supervision
from osc_ros.nodes.simulated_arm import plant_of
from osc_ros.sim.masses import with_masses
from osc_ros.sim.plant import Plant
from osc_ros.sim.simulation import well_conditioned_positions
from osc_ros.tuning.subject import Subject, Values, Variant

LONGEST_STEP = 5e-4  # of the physics [s]
UNLIMITED = 100.0  # for the friction of a joint without a torque limit [N m]


@dataclass(frozen=True, eq=False)
class TunedArm:
    """
    A subject of experiments, and its parameters.

    Attributes
    ----------
    subject : Subject
    values : dict
        All parameters of the controller, checked.
    simulator : dict
        Those of the simulator.
    notes : tuple of str
        Choices that were made.
    refused : dict
        Parameters of the user that the node refuses, at the values with which it accepts them.

    """

    subject: Subject
    values: dict[str, Any]
    simulator: dict[str, Any]
    notes: tuple[str, ...]
    refused: dict[str, Any]


def tuned_arm(parameters: Parameters, own: dict[str, Any], delay: float | None,
              tell: Callable[[object], object]) -> TunedArm:
    """
    Return the arm under test.

    Parameters
    ----------
    parameters : Parameters
        From the files.
    own : dict
        Parameters of the robot, which take precedence.
    delay : float, optional
        Time from a state until the torque for it acts [s]; default: one period.
    tell : callable
        Called with the progress of a compilation.

    Raises
    ------
    OscError
        A parameter or the robot description cannot be used.

    """
    values = parameters.values('osc_controller', own)
    simulator = parameters.values('osc_simulator', own)
    if values['mode'] == 'free':
        raise InputError("mode is 'free': accepted are acceleration and impedance, because a hand "
                         'guides the arm in free drive')
    text = description.description(values)
    robot = description.robot(values, text)
    notes = [] if set(AXES).intersection(parameters.given('osc_controller')) else _choose_axes(
        values, robot)
    if not any(kind == 'motion' for name in AXES[:2] for kind in values[name]):
        raise InputError('no axis of the tip is controlled in motion: there is nothing to tune')
    period = 1.0 / values['rate']
    refused = changes_within_bandwidth(values, period)
    values.update(refused)
    require_bandwidth(values, period)
    with compile_in_parallel(law_of, values, text, tell=tell, by_several=values['workers'] == 1):
        loaded, law = law_of(values, text)
    steps = math.ceil(period / LONGEST_STEP - 1e-9)
    q = (np.array(simulator['initial_positions']) if simulator['initial_positions']
         else well_conditioned_positions(law))
    friction, damping = (np.array(simulator[name] or described) for name, described in (
        ('friction', robot.coulomb_friction), ('damping', robot.viscous_friction)))
    subject = Subject(
        law, partial(_plant, {**simulator, 'timestep': period / steps}, text, robot), q, period,
        period / steps, period if delay is None else delay,
        (values['goal.rotation.tolerance'], values['goal.translation.tolerance']), friction,
        damping, {entry.name: simulator[entry.name] for entry in description.SIMULATED_PAYLOAD},
        partial(_settings, loaded))
    return TunedArm(subject, values, simulator, tuple(notes), refused)


def _choose_axes(values: dict[str, Any], robot: Robot) -> list[str]:
    """Set the controlled axes of an arm with fewer than six freedoms; return notes on them."""
    freedoms = freedoms_of(robot)
    if freedoms.count == 6:
        return []
    values.update(zip(AXES, (freedoms.axes[:3], freedoms.axes[3:], freedoms.frame)))
    return [f"'{robot.tip}' has {freedoms.count} freedoms: the axes are those that osc_demo "
            'chooses']


def _settings(loaded: LoadedRobot, given: Values) -> tuple[Settings, Supervision, Robot]:
    """Return settings and robot for parameter values, which are checked as the node does."""
    table = {entry.name: entry for entry in with_tasks(given['tasks'])}
    checked = {name: table[name].checked_value(value) for name, value in given.items()}
    require_bandwidth(checked, 1.0 / checked['rate'])
    robot, driver = loaded.of(checked)
    found = law_settings(checked, robot, driver).with_limits_of(robot)
    return found, supervision(checked, robot, found.limits), robot


def _plant(simulator: dict[str, Any], text: str, robot: Robot, variant: Variant) -> Plant:
    """Return the simulated arm of a variant; the noise of its states is added elsewhere."""
    changed = {**simulator, 'initial_positions': (), 'position_noise': 0.0, 'velocity_noise': 0.0}
    if variant.friction is not None:
        limits = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, UNLIMITED)
        changed['friction'] = tuple(variant.friction * limits)
        changed['damping'] = (0.0,) * robot.n
    return plant_of(changed, with_masses(text, variant.masses), robot)
