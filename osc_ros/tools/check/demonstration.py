# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Prepares a demonstration: parameters of the nodes, start positions, size of the motions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
import warnings

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compilation import compile_in_parallel
from osc_ros.compile.compiled import on_demand
from osc_ros.control.tasks.freedoms import Freedoms, freedoms_of
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.ros.parameters import robot_parameters
from osc_ros.tools.check import scenario
from osc_ros.tools.check.parameter_files import NODES, Parameters, require_targets, table_of
from osc_ros.tools.check.tracing import Tracer

Array = NDArray[np.float64]
Values = dict[str, Any]

AXES = ('rotation.axes', 'translation.axes', 'task.frame')
DESCRIBED_SHARE = 0.5  # compensated share of the described friction (up to twice the true one)
LONGEST = 120.0  # longest suggested duration for motions of the usual size [s]


@dataclass(frozen=True)
class Demonstration:
    """All parameters of a run."""

    values: dict[str, Values]  # all parameters of each of NODES, checked
    duration: float  # of the motions [s]
    notes: tuple[str, ...] = ()  # on the parameters that were chosen for the arm, with reasons

    @cached_property
    def text(self) -> str:
        """URDF text of the robot."""
        return robot_parameters.description(self.values['osc_controller'])

    @cached_property
    def robot(self) -> Robot:
        """Robot without payload and tool."""
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # the nodes log the same warnings
            return robot_parameters.robot(self.values['osc_controller'], self.text)

    @cached_property
    def loaded_robot(self) -> Robot:
        """Robot with the payload of the simulated arm."""
        return robot_parameters.with_payload(self.values['osc_simulator'], self.robot)

    @property
    def freedoms(self) -> Freedoms:
        """The controlled axes of the tip."""
        controller = self.values['osc_controller']
        kinds = (*controller['rotation.axes'], *controller['translation.axes'])
        return Freedoms(tuple(kind == 'motion' for kind in kinds), controller['task.frame'])

    @cached_property
    def postures(self) -> list[Array]:
        """Joint positions (n,) that may be the start, the best conditioned ones first."""
        return scenario.postures(self.robot, self.freedoms)

    @property
    def start(self) -> scenario.Start:
        """Start positions, and size of the motions."""
        return scenario.Start(np.array(self.values['osc_simulator']['initial_positions']),
                              self.values['osc_demo']['scale'])

    @property
    def effort_limits(self) -> Array:
        """Torque limits (n,) of the simulated arm [N m]; infinite if there is none."""
        limits = np.array(self.values['osc_simulator']['effort_limits']
                          or self.robot.effort_limits)
        return np.where(limits > 0.0, limits, np.inf)

    def phases(self, begin: float) -> list[scenario.Phase]:
        """Return the motions; the first one begins at `begin` [s]."""
        at, robot = self.start, self.loaded_robot
        return scenario.phases(robot, at.q, begin, self.duration, at.scale, self.freedoms)

    def with_changes(self, changes: dict[str, Values]) -> Demonstration:
        """Return a copy with changed parameters by node; '' stands for all nodes with them."""
        values = {}
        for node, old in self.values.items():
            new = {**changes.get('', {}), **changes.get(node, {})}
            entries = {entry.name: entry for entry in table_of(node, old)}
            values[node] = {**old, **{name: entries[name].checked_value(value)
                                      for name, value in new.items() if name in entries}}
        return Demonstration(values, self.duration, self.notes)

    def differences(self, other: Demonstration) -> Values:
        """Return the values, by node and name, that differ from another demonstration."""
        return {f'{node} {name}': value for node, values in self.values.items()
                for name, value in values.items() if value != other.values[node].get(name)}

    def given(self, node: str) -> Values:
        """Return the parameters of a node that differ from their defaults."""
        values = self.values[node]
        return {entry.name: values[entry.name] for entry in table_of(node, values)
                if values[entry.name] != entry.default}


def demonstration(parameters: Parameters, own: Values, duration: float,
                  tell: Callable[[object], object]) -> Demonstration:
    """Return the demonstration for parameters from files; `own` parameters override them."""
    # See `without_start` and `with_start`.
    return with_start(without_start(parameters, own, duration), tell)


def without_start(parameters: Parameters, own: Values, duration: float) -> Demonstration:
    """Return the demonstration without chosen start positions and size of the motions."""
    # `own` parameters override those of the files. Unless these set them, the controlled axes of
    # an arm with fewer than six degrees of freedom are chosen. OscError if a parameter or the
    # robot description cannot be used.
    found = Demonstration({node: parameters.values(node, own) for node in NODES}, duration)
    require_targets(found.values['osc_controller'])
    given = set().union(*(parameters.given(node) for node in NODES))
    if 'friction.from_description' not in given:  # the simulated arm has the described friction
        found = found.with_changes(
            {'osc_controller': {'friction.from_description': DESCRIBED_SHARE}})
    robot, q = found.robot, found.values['osc_simulator']['initial_positions']
    if q:
        _require_positions(robot, q)
    if given.intersection(AXES):
        return found
    freedoms = freedoms_of(robot)
    notes = (_axes_note(robot, freedoms),) if freedoms.count < 6 else ()
    return replace(found.with_changes({'osc_controller': dict(zip(AXES, (
        freedoms.axes[:3], freedoms.axes[3:], freedoms.frame)))}), notes=notes)


def with_start(found: Demonstration, tell: Callable[[object], object]) -> Demonstration:
    """Return the demonstration with start and size of the motions, chosen where not given."""
    # `tell` receives lines of progress, and the `Progress` of a compilation. InputError if no
    # start was found.
    duration, scale = found.duration, found.values['osc_demo']['scale']
    q = found.values['osc_simulator']['initial_positions']
    with on_demand(), compile_in_parallel(scenario.use_kernels, found.robot, tell=tell):
        if q and scale:
            return found
        tracer = Tracer(found.loaded_robot, found.freedoms)
        tell('looking for joint positions to start from, and the size of the motions ...')
        start = (scenario.start_from(tracer, np.array(q), duration) if q else
                 scenario.start(tracer, duration, found.postures, scale or None))
        notes = (_scale_note(tracer, start, duration),) if start.reason else ()
    return replace(found.with_changes(start_parameters(start)), notes=(*found.notes, *notes))


def start_parameters(start: scenario.Start) -> dict[str, Values]:
    """Return the parameters that set a start, by node."""
    return {'osc_simulator': {'initial_positions': start.q.tolist()},
            'osc_demo': {'scale': start.scale}}


def _require_positions(robot: Robot, q: tuple[float, ...]) -> None:
    if len(q) != robot.n:
        raise InputError(f'initial_positions has {len(q)} entries: give one for each of '
                         + ', '.join(robot.joint_names))


def _axes_note(robot: Robot, freedoms: Freedoms) -> str:
    names = ('rotation about x', 'rotation about y', 'rotation about z', 'x', 'y', 'z')
    own = [name for name, is_own in zip(names, freedoms.controlled) if is_own]
    free = [name for name, is_own in zip(names, freedoms.controlled) if not is_own]
    frame = f"link '{freedoms.frame}'" if freedoms.frame else 'the base'
    return (f"'{robot.tip}' has {freedoms.count} freedoms, not six: controlled are "
            f"{', '.join(own)}, in the axes of {frame}; free: {', '.join(free)}.")


def _scale_note(tracer: Tracer, start: scenario.Start, duration: float) -> str:
    note = f'the motions have {start.scale:.0%} of their usual size: at full size {start.reason}'
    longer = 1.25 * duration
    while longer <= LONGEST:
        use = scenario.figure_usage(tracer, start.q, longer, 1.0)
        if use is not None and use.most <= scenario.MOST_USED:
            return f'{note} (they fit from --duration {np.ceil(longer):.0f})'
        longer *= 1.25
    return note
