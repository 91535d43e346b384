"""URDFs in files: the user's, and those that come with the package."""

from __future__ import annotations

import os
from pathlib import Path

from osc_ros.errors import ModelError, require_type

ROBOTS = Path(__file__).parents[1] / 'robots'


def shipped_urdf(name: str) -> Path:
    """
    File of a robot description that comes with the package, such as 'panda'.

    Raises
    ------
    ModelError
        There is none of that name; the message has the names.

    """
    names = sorted(path.stem for path in ROBOTS.glob('*.urdf'))
    if name not in names:
        raise ModelError(f"no robot '{name}' comes with osc_ros: accepted is one of "
                         f"{', '.join(names)}; for your own arm, give the text of its URDF or a "
                         'pathlib.Path')
    return ROBOTS / f'{name}.urdf'


def urdf_text(urdf: str | os.PathLike[str]) -> str:
    """
    Text of a URDF, which is given itself or as the path of its file.

    Raises
    ------
    ModelError
        A text without an element, such as the name of a file.
    OSError
        The file cannot be read.

    """
    require_type('the URDF', urdf, (str, os.PathLike), 'its text, or a pathlib.Path')
    if isinstance(urdf, os.PathLike):
        return Path(urdf).read_text(encoding='utf-8')
    if '<' not in urdf:
        raise ModelError(f"the URDF is not XML: '{urdf[:99]}'; accepted is the text of a URDF, or "
                         "a pathlib.Path of its file, such as pathlib.Path('arm.urdf')")
    return urdf
