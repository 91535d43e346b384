# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The options of a command that choose a robot and its parameter files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from osc_ros.commandline import add_config
from osc_ros.errors import OscError
from osc_ros.model.ends import ends_of_chains
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.process.share import share_directory
from osc_ros.tools.check.parameter_files import Parameters


def add_robot_options(parser: argparse.ArgumentParser, default: str = 'panda') -> None:
    """Add --robot, --urdf, --base, --tip and --config; their help names the default robot."""
    robot = parser.add_mutually_exclusive_group()
    robot.add_argument('--robot', help='a robot of this package, '
                       f"{', '.join(robot_parameters.shipped_robots())} ({default})")
    robot.add_argument('--urdf', type=Path, help='your own robot, with --base and --tip')
    parser.add_argument('--base', help='link that is fixed to the ground')
    parser.add_argument('--tip', help='link that is controlled')
    add_config(parser)


def require_robot(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with status 2 if the options do not define a robot; without any, choose the Panda."""
    shipped = robot_parameters.shipped_robots()
    if options.urdf:
        if not (options.base and options.tip):
            parser.error(f'--urdf needs --base and --tip{_links(options.urdf)}')
        return
    options.robot = options.robot or 'panda'
    if options.robot not in shipped:
        parser.error(f"--robot {options.robot}: must be one of {', '.join(shipped)}; --urdf "
                     'takes any other')


def _links(file: Path) -> str:
    """Return a text: the possible links for base and tip, or why the URDF cannot be used."""
    try:
        root, ends = ends_of_chains(robot_parameters.urdf_text(str(file)))
    except OscError as error:
        return f' ({error})'
    tips = [f'{tip} ({joints} joints)' for tip, joints in ends]
    return (f': here the base may be {root}, the root, or a link from there to the tip; '
            f"chains end at {', '.join(tips[:10])}" + (', …' if tips[10:] else ''))


def own_parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters that --robot, --urdf, --base and --tip set."""
    file = str(options.urdf.absolute()) if options.urdf else options.robot
    chosen = {'robot_description_file': file, 'base': options.base, 'tip': options.tip}
    return {name: value for name, value in chosen.items() if value}


def given_parameters(options: argparse.Namespace) -> Parameters:
    """Return the parameters of the robot's file in config/, and of the user's file."""
    base = share_directory() / 'config' / f"{'own' if options.urdf else options.robot}.yaml"
    return Parameters([base, *users_files(options)])


def users_files(options: argparse.Namespace) -> list[Path]:
    """Return a list with the file of --config; the list is empty without this option."""
    return [options.config] if options.config else []


def new_path(path: Path, text: str | None = None) -> Path:
    """Return the first of path, path_2, ... that does not exist, or contains exactly `text`."""
    file, number = path, 1
    while file.exists() and (
            text is None or file.read_text(encoding='utf-8', errors='replace') != text):
        number += 1
        file = path.with_stem(f'{path.stem}_{number}')
    return file


def write_new(path: Path, text: str) -> Path:
    """Write a text to the path that `new_path` returns; return this path."""
    # A file with another text is never overwritten, because the user may have edited it.
    file = new_path(path, text)
    file.write_text(text, encoding='utf-8')
    return file
