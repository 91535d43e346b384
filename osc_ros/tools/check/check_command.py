# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The command osc_check: finds whether a simulated arm follows its targets, and if not, why."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any
import warnings

import numpy as np

from osc_ros.commandline import (
    add_json,
    colored_text,
    make_folder,
    output_folder,
    Parser,
    ProgressBar,
    run_command,
    write_json,
)
from osc_ros.errors import InputError, ModelWarning
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.gains import require_bandwidth
from osc_ros.tools.check.cause_search import Cause, Check, follow_check
from osc_ros.tools.check.demonstration import Demonstration, with_start, without_start
from osc_ros.tools.check.judgement import error_table
from osc_ros.tools.check.parameter_files import NODES, Parameters, text_of
from osc_ros.tools.check.robot_options import (
    add_robot_options,
    given_parameters,
    own_parameters,
    require_robot,
    users_files,
    write_new,
)
from osc_ros.tools.info.description_rules import Description, loaded, notes, problems

EXAMPLE = """examples:
  osc_check --robot panda
  osc_check --urdf arm.urdf --base base_link --tip tool0 --config my.yaml

Exit status: 0 the arm follows; 1 it does not, or its description is wrong: the cause and a remedy
are printed, and osc_check/follow.yaml has the parameters with which it follows; 2 wrong
arguments or parameters, which it names; 130 Ctrl-C."""


def main(arguments: list[str] | None = None) -> None:
    """Check an arm, and exit; EXAMPLE lists the exit statuses."""
    run_command('osc_check', _options(arguments), _check)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_check', epilog=EXAMPLE,
        description='Says what is wrong with a robot description and with the parameters for it: '
        'looks at\nthem, lets the simulated arm make the motions of osc_demo in this process, '
        'without ROS,\nand if it does not follow, repeats them with other parameters until it '
        'does.')
    add_robot_options(parser)
    parser.add_argument('--duration', type=float, default=10.0,
                        help='of the motion, simulated time [s], 3 to 3600 (10)')
    parser.add_argument('--output', type=output_folder, default=Path('osc_check'),
                        help='folder of follow.yaml, made if it is needed (osc_check)')
    add_json(parser)
    options = parser.parse_args(arguments)
    require_robot(parser, options)
    if not 3.0 <= options.duration <= 3600.0:
        parser.error(f'--duration {options.duration}: must be 3 to 3600 s')
    return options


def _check(options: argparse.Namespace) -> int:
    """Check the description and the motion, print the errors found; return the exit status."""
    if options.output.exists() and not options.output.is_dir():
        raise InputError(f"--output '{options.output}' is not a folder: give one, or a new "
                         'name')
    parameters, own = given_parameters(options), own_parameters(options)
    values = parameters.values('osc_controller', own)
    require_bandwidth(values, 1.0 / values['rate'])  # as the node does
    wanted = without_start(parameters, own, options.duration)
    about, noted = _description(wanted)
    found, wrong = None, problems(about)
    if not wrong:
        with ProgressBar('osc_check') as bar, warnings.catch_warnings():
            warnings.simplefilter('ignore', ModelWarning)  # they are among the notes
            wanted = with_start(wanted, lambda what: bar.show(0.0, str(what)))
            found = follow_check(wanted, bar.show)
        noted += wanted.notes
    for note in noted:
        print(colored_text(f'note: {note}', 'warn'))
    for problem in wrong:
        print(colored_text(f'PROBLEM: {problem}', 'bad'))
    if found is not None:
        _tell(found, options)
    follows = found is not None and found.cause is None
    print(colored_text('the arm follows', 'good') if follows
          else colored_text('the arm does not follow' if found
                            else 'CANNOT BE CONTROLLED as it is', 'bad'))
    if options.json:
        write_json(options.json, {'robot': about.robot.name, 'joints': about.robot.n,
                                  'notes': noted, 'problems': wrong, 'followed': follows,
                                  **_figures(found)})
    return 0 if follows else 1


def _description(wanted: Demonstration) -> tuple[Description, list[str]]:
    """Return the arm for `description_rules`, and notes on missing or doubtful data."""
    values, arm = wanted.values['osc_controller'], wanted.values['osc_simulator']
    robot, warned = loaded(
        lambda: robot_parameters.robot(values, robot_parameters.description(values)))
    robot = robot_parameters.with_payload(arm, robot)
    robot = replace(robot, effort_limits=robot_parameters.per_joint(
        values, 'limits.effort', robot.effort_limits, robot))
    about = Description(robot, np.array(arm['initial_positions'] or wanted.postures[0]),
                        warned=warned)
    return about, notes(about)


def _tell(found: Check, options: argparse.Namespace) -> None:
    """Print the errors in the motions and which of them are too large; then print the cause."""
    if found.result is not None:
        print('\n'.join(error_table(found.result, found.plan)))
        for failure in found.result.failures:
            print(colored_text(f'NOT FOLLOWED: {failure}', 'bad'))
    if found.cause is not None:
        tell_cause(found.cause, options)


def _figures(found: Check | None) -> dict[str, Any]:
    if found is None:
        return {'failures': [], 'cause': ''}
    why = found.cause or Cause('')
    failures, figures = ((found.result.failures, found.result.figures) if found.result
                         else ([why.text], {}))
    return {'failures': failures, 'cause': why.text, 'remedy': why.remedy,
            'changes': why.changes, **{phase.name: figures[phase.name] for phase in found.plan
                                       if phase.name in figures}}


def tell_cause(why: Cause, options: argparse.Namespace) -> None:
    """Print why an arm does not follow, and write the parameters with which it does."""
    # `options` has the user's file `config`, and the folder `output` of follow.yaml.
    print('\n' + fill(f'CAUSE: {why.text}', 96, break_long_words=False))
    if not why.changes:
        return
    given = Parameters(users_files(options))
    text = text_of({node: {**(given.given(node) if node else {}), **why.changes.get(node, {})}
                    for node in ('', *NODES)})
    make_folder(options.output)
    file = write_new(options.output / 'follow.yaml', text)
    place = f' in place of --config {options.config}' if options.config else ''
    print(f'\nTo let it follow, run with --config {file}{place}, a file with these '
          f'lines:\n\n{text}')


if __name__ == '__main__':
    main()
