# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What osc_check does with the parameters of the nodes: describe the arm, see if it follows."""

from __future__ import annotations

import argparse
from dataclasses import replace
from textwrap import fill
from typing import Any
import warnings

import numpy as np

from osc_ros.commandline import colored_text, make_folder, ProgressBar
from osc_ros.errors import ModelWarning
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.gains import require_bandwidth
from osc_ros.tools.check.cause_search import Cause, Check, follow_check
from osc_ros.tools.check.demonstration import with_start, without_start
from osc_ros.tools.check.description_rules import loaded
from osc_ros.tools.check.findings import Findings, findings
from osc_ros.tools.check.judgement import error_table
from osc_ros.tools.check.parameter_files import NODES, Parameters, text_of
from osc_ros.tools.check.robot_options import users_files, write_new


def described(parameters: Parameters, own: dict[str, Any]) -> Findings:
    """Return the findings about the arm that the parameters of the nodes describe."""
    # `own` parameters override those of the files.
    values, arm = (parameters.values(f'osc_{node}', own) for node in ('controller', 'simulator'))
    require_bandwidth(values, 1.0 / values['rate'])  # as the node does
    text = robot_parameters.description(values)
    robot, warned = loaded(lambda: robot_parameters.robot(values, text))
    robot = robot_parameters.with_payload(arm, robot)
    robot = replace(robot, effort_limits=robot_parameters.per_joint(
        values, 'limits.effort', robot.effort_limits, robot))
    return findings(robot, text, warned, np.array(arm['initial_positions'])
                    if arm['initial_positions'] else None,
                    robot_parameters.locked_positions(values))


def followed(parameters: Parameters, own: dict[str, Any], duration: float
             ) -> tuple[Check, tuple[str, ...]]:
    """Simulate the arm for a time [s]; return whether it follows, and notes on what was chosen."""
    wanted = without_start(parameters, own, duration)
    with ProgressBar('osc_check') as bar, warnings.catch_warnings():
        warnings.simplefilter('ignore', ModelWarning)  # they are among the notes
        wanted = with_start(wanted, lambda what: bar.show(0.0, str(what)))
        return follow_check(wanted, bar.show), wanted.notes


def tell(found: Check, options: argparse.Namespace) -> None:
    """Print the errors in the motions and which of them are too large; then print the cause."""
    if found.result is not None:
        print('\n'.join(error_table(found.result, found.plan)))
        for failure in found.result.failures:
            print(colored_text(f'NOT FOLLOWED: {failure}', 'bad'))
    if found.cause is not None:
        tell_cause(found.cause, options)


def figures(found: Check) -> dict[str, Any]:
    """Return errors, cause and remedy for JSON."""
    why = found.cause or Cause('')
    failures, of_motions = ((found.result.failures, found.result.figures) if found.result
                            else ([why.text], {}))
    return {'failures': failures, 'cause': why.text, 'remedy': why.remedy,
            'changes': why.changes, **{phase.name: of_motions[phase.name] for phase in found.plan
                                       if phase.name in of_motions}}


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
