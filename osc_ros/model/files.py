# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""URDFs in files: the user's, and those that come with the package."""

from __future__ import annotations

import os
from pathlib import Path

from osc_ros.errors import ModelError

ROBOTS = Path(__file__).parents[1] / 'robots'


def shipped_urdf(name: str) -> Path:
    """
    File of a robot description that comes with the package, such as 'panda'.

    Raises
    ------
    ModelError
        No robot has that name; the message lists the names.

    """
    names = sorted(path.stem for path in ROBOTS.glob('*.urdf'))
    if name not in names:
        raise ModelError(f"no robot '{name}' comes with osc_ros: accepted is one of "
                         f"{', '.join(names)}; for your own arm, give the text of its URDF or a "
                         'pathlib.Path')
    return ROBOTS / f'{name}.urdf'


def urdf_text(urdf: str | os.PathLike[str]) -> str:
    """
    Text of a URDF, given as text or as the path of its file.

    Raises
    ------
    OSError
        The file cannot be read.

    """
    return Path(urdf).read_text(encoding='utf-8') if isinstance(urdf, os.PathLike) else urdf
