# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""URDF files: the user's files, and those that come with the package."""

from __future__ import annotations

import os
from pathlib import Path

from osc_ros.errors import ModelError

ROBOTS = Path(__file__).parents[1] / 'robots'


def shipped_urdf(name: str) -> Path:
    """
    Path of a robot description that comes with the package, such as 'panda'.

    Raises
    ------
    ModelError
        If no robot has that name; the message lists the names.

    """
    names = sorted(path.stem for path in ROBOTS.glob('*.urdf'))
    if name not in names:
        raise ModelError(f"no robot '{name}' comes with osc_ros: accepted is one of "
                         f"{', '.join(names)}; for your own arm, give the text of its URDF or a "
                         'pathlib.Path')
    return ROBOTS / f'{name}.urdf'


def urdf_text(urdf: str | os.PathLike[str]) -> str:
    """
    Text of a URDF that is given as text or as the path of its file.

    OSError if the file is unreadable, ModelError if it is not text.

    """
    if not isinstance(urdf, os.PathLike):
        return urdf
    try:
        return Path(urdf).read_text(encoding='utf-8')
    except UnicodeDecodeError as error:
        raise ModelError(f"'{os.fspath(urdf)}' is not a text file (byte {error.start} is "
                         f'0x{error.object[error.start]:02x}): accepted is a URDF, XML in UTF-8'
                         ) from None
