# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

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
