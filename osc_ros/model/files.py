# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""URDF files: the user's files, those that come with the package, and meshes."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection
import os
from pathlib import Path
import re

from osc_ros.errors import ModelError, similar

LARGEST_FILE = 64e6  # largest size of a text file that is read [bytes]
DECLARED = re.compile(rb'\s*<\?xml[^>]*?encoding\s*=\s*["\']([\w.-]+)["\']')
ROBOTS = Path(__file__).parents[1] / 'robots'
PACKAGES = 'AMENT_PREFIX_PATH', 'ROS_PACKAGE_PATH'  # with folders of packages or share/


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
        near = similar(str(name).lower(), names, 1)
        raise ModelError(f"no robot '{name}' comes with osc_ros"
                         + (f"; did you mean '{near[0]}'?" if near else '')
                         + f": must be one of {', '.join(names)}, or the path or text of the "
                         'URDF of your own arm')
    return ROBOTS / f'{name}.urdf'


def urdf_path(urdf: str | os.PathLike[str]) -> Path | None:
    """Path of a URDF that is given as the path of its file; None if it is given as text."""
    # a str is a path if it ends in a suffix such as .urdf and is not XML
    if isinstance(urdf, str) and ('<' in urdf or '\n' in urdf or not Path(urdf).suffix):
        return None
    return Path(urdf).expanduser() if isinstance(urdf, (str, os.PathLike)) else None


def urdf_text(urdf: str | os.PathLike[str]) -> str:
    """Text of a URDF that is given as text or path; ModelError if the file is unreadable."""
    path = urdf_path(urdf)
    if path is None:
        return urdf  # type: ignore[return-value]  # or of another type: refused by the parser
    return file_text(path, 'a URDF, XML in UTF-8 or in the encoding that its first line declares, '
                     "as <?xml version='1.0' encoding='iso-8859-1'?>", 'the URDF',
                     'the path of a file, or the text of a URDF')


def file_text(path: Path, content: str, what: str = 'the file',
              accepted: str = 'the path of a file') -> str:
    """Text of a file with this `content`; ModelError if it is unreadable or no text."""
    try:
        if path.exists() and not (path.is_file() and 0 < path.stat().st_size <= LARGEST_FILE):
            raise OSError(f'not a regular file of at most {LARGEST_FILE / 1e6:g} MB, or empty')
        data = path.read_bytes()
        declared = DECLARED.match(data)
        encoding = ('utf-16' if data[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else
                    declared[1].decode() if declared else 'utf-8')
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ModelError(
            f"'{path}' is not a text file in {error.encoding} (byte {error.start} is "
            f'0x{error.object[error.start]:02x}): give {content}') from None
    except LookupError:
        raise ModelError(f"'{path}' declares the encoding '{encoding}', which is unknown: give "
                         f'{content}') from None
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or error  # the message has the path already
        raise ModelError(f"{what} '{path}' cannot be read ({reason}): give {accepted}"
                         ) from None


def mesh_file(name: str, folder: Path, readable: Collection[str]) -> Path | None:
    """Return the file of a mesh with one of the `readable` suffixes; None if there is none."""
    # The name is 'package://…', 'file://…', an absolute path, or relative to `folder`, that of the
    # URDF. Packages are searched in `folder`, in its parents, and in the folders of PACKAGES.
    name = name.removeprefix('file://')
    places = [folder / name]
    if name.startswith('package://'):
        rest = Path(name.removeprefix('package://'))
        roots = [Path(root) for variable in PACKAGES
                 for root in os.environ.get(variable, '').split(os.pathsep) if root]
        above = [folder, *folder.parents]
        places = [place / rest for place in (*above, *roots, *(root / 'share' for root in roots))]
        places += [place / Path(*rest.parts[1:]) for place in above
                   if place.name == rest.parts[0]]
    for place in places:
        if place.suffix.lower() in readable and place.is_file():
            return place
    return None
