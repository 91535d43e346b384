# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shapes of links from files: YAML with capsules, and SRDF with pairs that are not compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

from osc_ros.collision.link_shapes import LinkShape, ShapeModel
from osc_ros.errors import InputError
from osc_ros.model.files import ROBOTS
from osc_ros.model.urdf import robot_element

ENDING = '.shapes.yaml'
LARGEST_FILE = 16e6  # largest size of a file with shapes, or of an SRDF [bytes]


def shape_model(robot: str, file: str = '', srdf: str = '') -> ShapeModel:
    """
    Return the shapes of the links of a robot.

    Parameters
    ----------
    robot : str
        Name of a robot that comes with osc_ros, whose shapes apply if there is no file.
    file : str
        Path of a YAML file with `shapes`, a list for each link of entries with `ends` (2, 3) [m],
        in the frame of the link, and `radius` [m]; and with `ignored`, pairs of links.
    srdf : str
        Path of an SRDF, whose `disable_collisions` are ignored, too.

    Raises
    ------
    InputError
        A file cannot be read, or there are no shapes for this robot.

    """
    known = {one.name.removesuffix(ENDING): one for one in ROBOTS.glob(f'*{ENDING}')}
    if not file and robot not in known:
        raise InputError(f"there are no shapes for the robot '{robot[:40]}': accepted is a file "
                         'with shapes (parameter clearance.shapes), or one of: '
                         + (', '.join(sorted(known)) or 'none'))
    path = Path(file).expanduser() if file else known[robot]
    try:
        found = yaml.safe_load(_text(path))
        shapes = tuple(
            LinkShape(link, np.array(one['ends'], dtype=np.float64).reshape(2, 3),
                      float(one['radius']))
            for link, entries in found['shapes'].items() for one in entries)
        ignored = {frozenset((str(a), str(b))) for a, b in found.get('ignored', ())}
    except (KeyError, TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
        reason = ' '.join(str(error).split())
        raise InputError(f"'{path}' cannot be read as shapes ({type(error).__name__}: {reason}): "
                         'accepted are shapes: LINK: [{ends: [[x, y, z], [x, y, z]], radius: r}] '
                         'and ignored: [[LINK, LINK]]') from None
    if srdf:
        ignored |= {frozenset((one.get('link1', ''), one.get('link2', '')))
                    for one in robot_element(_text(Path(srdf).expanduser())).iter(
                        'disable_collisions')}
    return ShapeModel(shapes, frozenset(ignored))


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            raise OSError(f'not a regular file of at most {LARGEST_FILE / 1e6:g} MB')
        return path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"'{path}' cannot be read ({error}): accepted is the path of a file"
                         ) from None
