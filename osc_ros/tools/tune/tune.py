# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command osc_tune: measures a simulated arm with its parameters, and recommends changes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
import math
from pathlib import Path
import sys
from typing import Any

import numpy as np

from osc_ros.commandline import (
    add_json,
    make_folder,
    output_folder,
    Parser,
    ProgressBar,
    run_command,
    write_json,
)
from osc_ros.compile.compilation import compile_in_parallel
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.settings import Settings
from osc_ros.control.tasks.freedoms import freedoms_of
from osc_ros.errors import InputError, installation
from osc_ros.model.robot import Robot
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.controller_parameters import with_tasks
from osc_ros.ros.parameters.gains import changes_within_bandwidth, require_bandwidth
from osc_ros.ros.parameters.node_settings import law_of, law_settings, LoadedRobot, supervision
from osc_ros.ros.simulator.simulated_arm import plant_of
from osc_ros.sim.mjcf.masses import with_masses
from osc_ros.sim.plant import Plant
from osc_ros.sim.simulation import well_conditioned_positions
from osc_ros.tools.check.demonstration import AXES
from osc_ros.tools.check.parameter_files import (
    Parameters,
    require_targets,
    table_of,
    text_of,
)
from osc_ros.tools.check.robot_options import (
    add_robot_options,
    given_parameters,
    own_parameters,
    require_robot,
    write_new,
)
from osc_ros.tools.tune.advice import advice, options
from osc_ros.tools.tune.measurement import Laboratory
from osc_ros.tools.tune.robustness import FACTORS, PERIODS, robustness
from osc_ros.tools.tune.subject import Subject, Values, Variant
from osc_ros.tools.tune.tuning_results import lines, numbers, Results

EXAMPLE = """examples:
  osc_tune --robot panda
  osc_tune --urdf arm.urdf --base base_link --tip tool0 --config my.yaml --delay 4

It writes osc_tune/report.html and osc_tune/parameters.yaml, which --config and --params-file take.
Exit status: 0 nothing has to be changed; 1 it recommends changes, or something is not solved;
2 wrong arguments or parameters, which it names; 130 Ctrl-C."""
EXPERIMENTS = 10  # expected number without the map, for the progress bar
LONGEST_STEP = 5e-4  # largest physics step [s]
UNLIMITED = 100.0  # torque limit that scales the friction of a joint without one [N m]


@dataclass(frozen=True, eq=False)
class TunedArm:
    """The subject of the experiments, and its parameters."""

    subject: Subject
    values: dict[str, Any]  # all parameters of the controller, checked
    simulator: dict[str, Any]  # all parameters of the simulator
    notes: tuple[str, ...]  # texts on the parameters that were chosen for the user
    refused: dict[str, Any]  # user's parameters that the node refuses, with accepted values


def tuned_arm(parameters: Parameters, own: dict[str, Any], delay: float | None,
              tell: Callable[[object], object]) -> TunedArm:
    """Return the arm under test."""
    # `own`: parameters of the robot, which override `parameters`; `delay` [s]: see `Subject`,
    # default one period; `tell` receives the progress of a compilation. OscError if a parameter or
    # the robot description cannot be used.
    values = parameters.values('osc_controller', own)
    simulator = parameters.values('osc_simulator', own)
    require_targets(values)
    text = robot_parameters.description(values)
    robot = robot_parameters.robot(values, text)
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
        damping,
        {entry.name: simulator[entry.name] for entry in robot_parameters.SIMULATED_PAYLOAD},
        partial(_settings, loaded))
    return TunedArm(subject, values, simulator, tuple(notes), refused)


def _choose_axes(values: dict[str, Any], robot: Robot) -> list[str]:
    """Set in `values` the controlled axes of a tip with fewer than six degrees of freedom."""
    # Returns notes for the user on this choice.
    freedoms = freedoms_of(robot)
    if freedoms.count == 6:
        return []
    values.update(zip(AXES, (freedoms.axes[:3], freedoms.axes[3:], freedoms.frame)))
    return [f"'{robot.tip}' has {freedoms.count} freedoms: the axes are those that osc_demo "
            'chooses']


def _settings(loaded: LoadedRobot, given: Values) -> tuple[Settings, Supervision, Robot]:
    """Check parameter values as the node does; return the settings and the robot for them."""
    table = {entry.name: entry for entry in with_tasks(given['tasks'])}
    checked = {name: table[name].checked_value(value) for name, value in given.items()}
    require_bandwidth(checked, 1.0 / checked['rate'])
    robot, driver = loaded.of(checked)
    found = law_settings(checked, robot, driver).with_limits_of(robot)
    return found, supervision(checked, robot, found.limits), robot


def _plant(simulator: dict[str, Any], text: str, robot: Robot, variant: Variant) -> Plant:
    """Return the simulated arm of a variant; it has no noise, because `Rig` adds the noise."""
    changed = {**simulator, 'initial_positions': (), 'position_noise': 0.0, 'velocity_noise': 0.0}
    if variant.friction is not None:
        limits = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, UNLIMITED)
        changed['friction'] = tuple(variant.friction * limits)
        changed['damping'] = (0.0,) * robot.n
    return plant_of(changed, with_masses(text, variant.masses), robot)


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; EXAMPLE lists the exit statuses."""
    run_command('osc_tune', _options(arguments), _tune)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_tune', epilog=EXAMPLE,
        description='Measures step and frequency responses, noise, saturation and robustness of an'
        '\narm in MuJoCo under the controller, without ROS nodes, and recommends parameters; each'
        '\nrecommendation is simulated before it is given.')
    add_robot_options(parser)
    parser.add_argument('--delay', type=float, metavar='MS', help='time from a joint state until '
                        'the torque for it acts [ms] (one period)')
    parser.add_argument('--quick', action='store_true', help='no map of delays and gains')
    parser.add_argument('--output', type=output_folder, default=Path('osc_tune'),
                        help='folder of the results (osc_tune)')
    add_json(parser)
    found = parser.parse_args(arguments)
    require_robot(parser, found)
    return found


def _tune(given: argparse.Namespace) -> int:
    """Measure, recommend, and write the results; return the exit status."""
    _require_output(given)
    expected = EXPERIMENTS + (0 if given.quick else len(FACTORS) * len(PERIODS))
    with ProgressBar('osc_tune') as bar:
        arm = tuned_arm(given_parameters(given), own_parameters(given), _delay(given),
                        lambda progress: bar.show(0.0, str(progress)))
        numbered = count(1)
        found = _results(arm, lambda what: bar.show(
            (k := next(numbered)) / max(k, expected), str(what)), not given.quick)
    for line in lines(found, sys.stdout):
        print(line)
    text = parameter_file(arm, found)
    path = write_new(given.output / 'parameters.yaml', text)
    report = given.output / 'report.html'
    from osc_ros.tools.tune.tuning_page import page
    report.write_text(page(found, text), encoding='utf-8')
    if given.json:
        write_json(given.json, numbers(found))
    print(f'report: {report}\nparameters: {path}')
    return 1 if found.advice.changes or found.advice.unsolved or arm.refused else 0


def _results(arm: TunedArm, note: Callable[[str], object], has_map: bool) -> Results:
    laboratory = Laboratory(arm.subject, note)
    found = advice(laboratory, laboratory.measure(arm.values))
    table = robustness(laboratory, found.last.values, has_map)
    more = list(options(laboratory, found.last, table))
    return Results(arm.subject, found, more, table, (*arm.notes, *(
        f"the controller refuses parameter '{name}' at this rate: measured with "
        f'{list(value) if isinstance(value, tuple) else value}'
        for name, value in arm.refused.items())))


def parameter_file(arm: TunedArm, found: Results) -> str:
    """Return the YAML text of the user's parameters with the recommended changes."""
    values = {'osc_controller': dict(found.advice.last.values), 'osc_simulator': arm.simulator}
    parameters = {node: {entry.name: given[entry.name] for entry in table_of(node, given)
                         if given[entry.name] != entry.default} for node, given in values.items()}
    head = ['# By osc_tune, from the parameters that it was given. ' + (
        'Changed:' if found.advice.changes else 'Nothing was changed.')]
    head += [f'#   {name}' for name in (*found.advice.changes, *arm.refused)]
    for one in found.options:
        head.append('# Optional, simulated too:')
        head += [f'#   {name}: {list(value) if isinstance(value, tuple) else value}'
                 for name, value in one.candidate.changes.items()]
    return '\n'.join([*head, text_of(parameters)])


def _delay(given: argparse.Namespace) -> float | None:
    if given.delay is None:
        return None
    if not 0.0 <= given.delay <= 1e3:
        raise InputError(f'--delay {given.delay} ms: must be 0 to 1000')
    return 1e-3 * float(given.delay)


def _require_output(given: argparse.Namespace) -> None:
    """Create the output folder; raise InputError if it or matplotlib is unavailable."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(f"the report needs matplotlib: {installation('demo')}") from None
    make_folder(given.output)


if __name__ == '__main__':
    main()
