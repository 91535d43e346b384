# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The command osc_check: what a controller makes of an arm, whether it follows, and why not."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from osc_ros.commandline import (
    add_config,
    add_json,
    add_robot,
    colored_text,
    output_folder,
    Parser,
    robot_text,
    run_command,
    write_json,
)
from osc_ros.errors import InputError, ModelError
from osc_ros.model.ends import ends_of_chains
from osc_ros.model.robot import Robot
from osc_ros.model.urdf import named_in
from osc_ros.tools.check.description_report import as_json, report
from osc_ros.tools.check.description_rules import loaded
from osc_ros.tools.check.findings import Findings, findings

EXAMPLE = """examples:
  osc_check arm.urdf
  osc_check arm.urdf --base base_link --tip tool0 --config my.yaml
  osc_check --robot panda --static

Exit status: 0 the arm follows, or with --static can be controlled; 1 it does not, or its
description is wrong: the cause and a remedy are printed, and osc_check/follow.yaml has the
parameters with which it follows; 2 wrong arguments or parameters, which it names; 130 Ctrl-C."""


def main(arguments: list[str] | None = None) -> None:
    """Check an arm, and exit; EXAMPLE lists the exit statuses."""
    run_command('osc_check', _options(arguments), _check)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_check', epilog=EXAMPLE,
        description='Says what a controller makes of a robot description and of the parameters '
        'for it: chain,\nmasses, limits, reach, singular postures, task inertia, and what is '
        'wrong. Then it lets the\nsimulated arm make the motions of osc_demo in this process, '
        'without ROS, and if it does not\nfollow, repeats them with other parameters until it '
        'does.')
    parser.add_argument('file', nargs='?', type=Path, metavar='FILE',
                        help='a URDF, with xacro expanded: the same as --urdf FILE')
    add_robot(parser)
    add_config(parser)
    parser.add_argument('--static', action='store_true', help='do not simulate; without ROS this '
                        'looks at the description only')
    parser.add_argument('--duration', type=float, default=10.0,
                        help='of the motion, simulated time [s], 3 to 3600 (10)')
    parser.add_argument('--output', type=output_folder, default=Path('osc_check'),
                        help='folder of follow.yaml, made if it is needed (osc_check)')
    add_json(parser)
    options = parser.parse_args(arguments)
    if options.file and (options.urdf or options.robot):
        parser.error('give one of FILE, --urdf and --robot')
    options.urdf = options.urdf or options.file
    if not options.urdf:
        options.robot = options.robot or 'panda'
    if not 3.0 <= options.duration <= 3600.0:
        parser.error(f'--duration {options.duration}: must be 3 to 3600 s')
    return options


def _check(options: argparse.Namespace) -> int:
    """Print what is found about the arm, and whether it follows; return the exit status."""
    if options.output.exists() and not options.output.is_dir():
        raise InputError(f"--output '{options.output}' is not a folder: give one, or a new "
                         'name')
    text = robot_text(options)
    try:
        about, given = _described(options, text)
    except ModelError as error:
        asked, known = set(filter(None, (options.base, options.tip))), named_in(text)
        if not known or not asked <= known:
            raise
        print(colored_text(f'CANNOT BE CONTROLLED as it is: {error}', 'bad'))
        if options.json:
            write_json(options.json, {'controllable': False, 'problems': [str(error)]})
        return 1
    print('\n'.join(report(about)))
    follows, numbers = not about.problems, as_json(about)
    for note in about.notes:
        print(colored_text(f'note: {note}', 'warn'))
    for problem in about.problems:
        print(colored_text(f'PROBLEM: {problem}', 'bad'))
    verdict = 'can be controlled' if follows else 'CANNOT BE CONTROLLED as it is'
    if follows and not options.static:
        from osc_ros.tools.check import following
        found, notes = following.followed(*given, options.duration)
        for note in notes:
            print(colored_text(f'note: {note}', 'warn'))
        following.tell(found, options)
        follows = found.cause is None
        verdict = 'the arm follows' if follows else 'the arm does not follow'
        numbers.update(following.figures(found), notes=[*about.notes, *notes], followed=follows)
    print(colored_text(verdict, 'good' if follows else 'bad'))
    if options.json:
        write_json(options.json, numbers)
    return 0 if follows else 1


def _described(options: argparse.Namespace, text: str) -> tuple[Findings, tuple[Any, ...]]:
    """Return the findings about the arm, and the parameters of the nodes, if ROS is there."""
    has_ros = not options.static or find_spec('rclpy') is not None
    if options.urdf or not has_ros:  # else the robot's file of parameters names base and tip
        root, ends = ends_of_chains(text)
        options.base, options.tip = options.base or root, options.tip or ends[0][0]
    if has_ros:
        from osc_ros.tools.check import following
        from osc_ros.tools.check.robot_options import given_parameters, own_parameters
        given = given_parameters(options), own_parameters(options)
        return following.described(*given), given
    if options.config:
        raise InputError('--config needs ROS, whose packages were not found')
    robot, warned = loaded(lambda: Robot.from_urdf(text, options.base, options.tip))
    return findings(robot, text, warned), ()


if __name__ == '__main__':
    main()
