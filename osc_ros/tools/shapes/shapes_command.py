# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command osc_shapes: writes the shapes of an arm's links, and pairs that need no comparison."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from osc_ros.collision.enclosing import MOST
from osc_ros.collision.link_shapes import ShapeModel
from osc_ros.collision.near_pairs import pairs_never_near
from osc_ros.collision.urdf_shapes import Element, shapes_of_urdf
from osc_ros.commandline import (
    add_json,
    add_robot,
    json_values,
    output_file,
    Parser,
    robot_text,
    run_command,
    with_robot,
    write_json,
)
from osc_ros.errors import InputError
from osc_ros.model.ends import ends_of_chains
from osc_ros.model.files import file_text, shipped_urdf
from osc_ros.model.robot import Robot
from osc_ros.model.srdf import disabled_pairs, srdf_of

EXAMPLE = """examples:
  osc_shapes --urdf arm.urdf
  osc_shapes --urdf arm.urdf --tip tool0 --output arm.shapes.yaml
  osc_shapes --urdf arm.urdf --output arm.shapes.yaml --srdf arm.srdf --margin 0.1
  osc_shapes --urdf arm.urdf --shapes own.shapes.yaml --srdf arm.srdf

exit status: 0 if every collision element is enclosed, and files are written; 2 for bad input, such
as a missing mesh, and before any file is written"""
WIDTHS = '{:24} {:>9} {:>14} {:>14}  {}'
LARGEST_MARGIN = 1.0  # [m]
MOST_SAMPLES = 1_000_000
MOST_CAPSULES = 8


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; EXAMPLE lists the exit statuses."""
    run_command('osc_shapes', _options(arguments), _run)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog='osc_shapes', epilog=EXAMPLE, description=(
        'Enclose the collision geometry of a URDF by capsules, and find the pairs of links that '
        'need no comparison.'))
    add_robot(parser)
    parser.add_argument('--shapes', metavar='FILE.yaml', type=Path,
                        help='take the shapes from this file, not from the URDF')
    parser.add_argument('--output', metavar='FILE.yaml', type=output_file,
                        help='write the shapes; also the pairs, unless --srdf is given')
    parser.add_argument('--srdf', metavar='FILE.srdf', type=output_file,
                        help="write the pairs as an SRDF; of an existing file, pairs of which the "
                        "reason is 'User' remain")
    parser.add_argument('--margin', type=float, default=0.05, metavar='M',
                        help='pairs that are never nearer are not compared [m] (0.05)')
    parser.add_argument('--at', type=float, nargs='+', metavar='Q', help=
                        'posture of the moving joints in which no pair may be close [rad, m] '
                        '(each joint in the middle of its limits)')
    parser.add_argument('--samples', type=int, default=10_000,
                        help='number of random postures (10000)')
    parser.add_argument('--seed', type=int, default=0, help='of the random postures (0)')
    parser.add_argument('--most', type=int, default=MOST,
                        help=f'largest number of capsules for an element ({MOST})')
    add_json(parser)
    return with_robot(parser, arguments)


def _run(options: argparse.Namespace) -> int:
    for name, value, most in (('margin', options.margin, LARGEST_MARGIN),
                              ('samples', options.samples, MOST_SAMPLES),
                              ('most', options.most, MOST_CAPSULES)):
        if not 0 < value <= most:
            raise InputError(f'--{name} {value}: must be more than 0, at most {most:g}')
    if options.seed < 0:
        raise InputError(f'--seed {options.seed}: must be 0 or more')
    text = robot_text(options)
    path = options.urdf or shipped_urdf(options.robot)
    root, ends = ends_of_chains(text)
    robot = Robot.from_urdf(text, options.base or root, options.tip or ends[0][0])
    if options.shapes is None:
        model, elements = shapes_of_urdf(text, path.absolute().parent, robot, options.most)
    else:
        model = ShapeModel.of_file(options.shapes)
        elements = []
    if options.at is not None and len(options.at) != robot.nq:
        raise InputError(f'--at has {len(options.at)} positions: give {robot.nq}, for '
                         + ', '.join(robot.joint_names))
    pairs = pairs_never_near(robot, model, options.samples, options.seed, options.margin,
                             None if options.at is None else np.array(options.at))
    if options.srdf is not None and options.srdf.exists():
        kept = disabled_pairs(file_text(options.srdf, 'an SRDF'), str(options.srdf))
        pairs |= {pair: reason for pair, reason in kept.items() if reason == 'User'}
    print('\n'.join(_report(robot, model, elements, pairs, options)))
    if options.srdf is not None:
        options.srdf.write_text(srdf_of(robot.name, pairs), encoding='utf-8')
    if options.output is not None:
        written = model if options.srdf is not None else ShapeModel(model.shapes, frozenset(pairs))
        options.output.write_text(written.to_yaml(), encoding='utf-8')
    if options.json is not None:
        write_json(options.json, _figures(robot, model, elements, pairs))
    return 0


def _without(robot: Robot, model: ShapeModel) -> list[str]:
    """Return the links without a shape."""
    return [link for link in robot.frames if link not in model.links]


def _report(robot: Robot, model: ShapeModel, elements: list[Element],
            pairs: dict[frozenset[str], str], options: argparse.Namespace) -> list[str]:
    lines = [WIDTHS.format('link', 'capsules', 'volume / hull', 'beyond [mm]', 'from')]
    lines += [WIDTHS.format(one.link, len(one.shapes), f'{one.ratio:.2f}',
                            f'{1e3 * one.beyond:.1f}', Path(one.source).name) for one in elements]
    if not elements:
        lines = [f'{len(model.shapes)} shapes from {options.shapes}']
    if without := _without(robot, model):
        lines.append(f'without a shape: {", ".join(without)}')
    reasons = ', '.join(f'{count} {reason}' for reason, count
                        in sorted(Counter(pairs.values()).items()))
    count = len(model.links) * (len(model.links) - 1) // 2
    lines.append(f'{count} pairs of links: {count - len(pairs)} are compared; not compared: '
                 f'{reasons or "none"} ({options.samples} postures, margin {options.margin:g} m)')
    return lines


def _figures(robot: Robot, model: ShapeModel, elements: list[Element],
             pairs: dict[frozenset[str], str]) -> dict[str, Any]:
    return {
        'robot': robot.name, 'elements': json_values([{
            'link': one.link, 'from': one.source, 'capsules': len(one.shapes),
            'volume relative to the hull': one.ratio, 'beyond [m]': one.beyond}
            for one in elements]),
        'shapes': [{'link': one.link, 'ends [m]': one.ends.tolist(), 'radius [m]': one.radius}
                   for one in model.shapes],
        'without a shape': _without(robot, model),
        'not compared': [[*sorted(pair), reason] for pair, reason in pairs.items()]}


if __name__ == '__main__':
    main()
