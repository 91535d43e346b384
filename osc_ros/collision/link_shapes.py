# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shapes of links, capsules and spheres, in YAML; and those of the arms that are shipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import json
from pathlib import Path
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
import yaml

from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.errors import InputError, similar
from osc_ros.model.files import file_text, ROBOTS, shipped_urdf
from osc_ros.model.srdf import disabled_pairs

Array = NDArray[np.float64]
Pair = frozenset[str]

ENDING = '.shapes.yaml'
LARGEST = 100.0  # largest radius, and distance of an end from the link's origin [m]
EXAMPLE = '{link: forearm, ends: [[0, 0, 0], [0, 0, 0.3]], radius: 0.06}'


@dataclass(frozen=True, eq=False)
class LinkShape:
    """A capsule on a link: all points within a radius of a segment; InputError if invalid."""

    link: str
    ends: Array  # (2, 3) of the segment in the link's frame [m], equal: a sphere; read-only
    radius: float  # [m]
    attached: str = ''  # thing on the link that has this shape; empty: the link itself

    def __post_init__(self) -> None:
        if not (isinstance(self.link, str) and self.link):
            raise InputError(f'link {self.link!r} of a shape: give the name of a link')
        ends = finite_array(f"ends of a shape of link '{self.link}'", self.ends, (2, 3)).copy()
        if np.abs(ends).max() > LARGEST:
            raise InputError(f"ends {ends.tolist()} of a shape of link '{self.link}': must be "
                             f'at most {LARGEST:g} m from its origin')
        ends.flags.writeable = False
        radius = self.radius
        if (isinstance(radius, bool) or not isinstance(radius, (int, float, np.floating))
                or not 0.0 < radius <= LARGEST):
            raise InputError(f"radius {radius!r} of a shape of link '{self.link}': must be "
                             f'more than 0, at most {LARGEST:g} m')
        object.__setattr__(self, 'ends', ends)
        object.__setattr__(self, 'radius', float(radius))


@dataclass(frozen=True, eq=False)
class ShapeModel:
    """The shapes of an arm's links, and which pairs of links are not compared."""

    shapes: tuple[LinkShape, ...]
    ignored: frozenset[Pair] = frozenset()  # pairs of link names

    @property
    def links(self) -> tuple[str, ...]:
        """Names of the links that have shapes, in their order."""
        return tuple(dict.fromkeys(shape.link for shape in self.shapes))

    @classmethod
    def of_yaml(cls, text: str, where: str) -> ShapeModel:
        """Return the model from the text of a YAML file; `where` names the file in errors."""
        # InputError, which names the entry, if the text is not as `to_yaml` writes it.
        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f'{where} is not YAML: {error}') from None
        if not isinstance(found, dict) or not isinstance(found.get('shapes'), list):
            raise InputError(f"{where}: give a list 'shapes' of entries such as {EXAMPLE}")
        _require_keys(found, ('shapes', 'ignored'), where)
        shapes = tuple(_shape(entry, f'{where}: entry {i} of shapes')
                       for i, entry in enumerate(found['shapes'], 1))
        if not shapes:
            raise InputError(f"{where}: 'shapes' is empty: give entries such as {EXAMPLE}")
        return cls(shapes, frozenset(_pairs(found.get('ignored') or [], where)))

    @classmethod
    def of_file(cls, path: Path) -> ShapeModel:
        """Return the model from a YAML file; ModelError if it cannot be read, see `of_yaml`."""
        return cls.of_yaml(file_text(path, 'YAML in UTF-8'), str(path))

    def to_yaml(self) -> str:
        """Return the model as the text of a YAML file, one line for each shape and pair."""
        lines = ['shapes:']
        for shape in self.shapes:
            a, b = (str(end.tolist()) for end in shape.ends)
            place = f'center: {a}' if a == b else f'ends: [{a}, {b}]'
            lines.append(f'- {{link: {_name(shape.link)}, {place}, radius: {shape.radius!r}}}')
        if self.ignored:
            lines.append('ignored:')
            lines += [f'- [{", ".join(map(_name, pair))}]'
                      for pair in sorted(sorted(pair) for pair in self.ignored)]
        return '\n'.join(lines) + '\n'

    def with_srdf(self, text: str, where: str) -> ShapeModel:
        """Return the model that also ignores the pairs that an SRDF disables."""
        return ShapeModel(self.shapes, self.ignored | disabled_pairs(text, where).keys())

    def repeated(self, *prefixes: str) -> ShapeModel:
        """Return the model of equal arms whose links have these prefixes before their names."""
        return ShapeModel(
            tuple(LinkShape(prefix + one.link, one.ends, one.radius)
                  for prefix in prefixes for one in self.shapes),
            frozenset(frozenset(prefix + link for link in pair)
                      for prefix in prefixes for pair in self.ignored))

    def require_links(self, names: Mapping[str, object], where: str) -> None:
        """Raise InputError if a shape's link is not one of the names."""
        for link in self.links:
            if link not in names:
                near = similar(link, names, 1)
                raise InputError(f"{where}: the arm has no link '{link}'"
                                 + (f"; did you mean '{near[0]}'?" if near else '')
                                 + f": must be one of {', '.join(names)}")


def shipped_shapes(name: str) -> ShapeModel:
    """
    Return the shapes and ignored pairs of an arm that comes with the package, such as 'panda'.

    Raises ModelError if no arm has that name; the message lists the names.

    """
    urdf = shipped_urdf(name)
    srdf = urdf.with_suffix('.srdf')
    return ShapeModel.of_file(urdf.with_suffix(ENDING)).with_srdf(
        file_text(srdf, 'an SRDF'), str(srdf))


def shape_model(robot: str, file: str = '', srdf: str = '') -> ShapeModel:
    """Return the shapes of a YAML file; without one, those of a robot that comes with osc_ros."""
    # The `disable_collisions` of an SRDF are ignored, too. InputError or ModelError if there are
    # no shapes for this robot, or a file cannot be read.
    names = sorted(path.name.removesuffix(ENDING) for path in ROBOTS.glob(f'*{ENDING}'))
    if not file and robot not in names:
        raise InputError(f"there are no shapes for the robot '{robot[:40]}': give a file "
                         'with shapes, as osc_shapes writes it (parameter clearance.shapes), or '
                         f'one of: {", ".join(names)}')
    model = ShapeModel.of_file(Path(file).expanduser()) if file else shipped_shapes(robot)
    return model.with_srdf(
        file_text(Path(srdf).expanduser(), 'an SRDF'), srdf) if srdf else model


def _require_keys(found: Mapping[Any, Any], accepted: tuple[str, ...], where: str) -> None:
    for key in found:
        if key not in accepted:
            raise InputError(f'{where}: {key!r} is unknown, give one of {", ".join(accepted)}')


def _shape(entry: Any, where: str) -> LinkShape:
    if not isinstance(entry, dict):
        raise InputError(f'{where} is {entry!r}: give {EXAMPLE}')
    _require_keys(entry, ('link', 'ends', 'center', 'radius'), where)
    if ('ends' in entry) == ('center' in entry) or not {'link', 'radius'} <= entry.keys():
        raise InputError(f'{where} is {entry!r}: give link, radius, and either ends or, '
                         f'for a sphere, center, as in {EXAMPLE}')
    ends = entry['ends'] if 'ends' in entry else [entry['center']] * 2
    try:
        return LinkShape(entry['link'], ends, entry['radius'])  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f'{where}: {error}') from None


def _pairs(entries: Any, where: str) -> Iterator[Pair]:
    for i, pair in enumerate(entries if isinstance(entries, list) else [entries], 1):
        if not (isinstance(pair, list) and len(pair) == 2 and pair[0] != pair[1]
                and all(isinstance(one, str) for one in pair)):
            raise InputError(f'{where}: entry {i} of ignored is {pair!r}: give the names '
                             'of two links, as in [hand, forearm]')
        yield frozenset(pair)


def _name(link: str) -> str:
    """Return the name of a link as YAML reads it."""
    is_plain = re.fullmatch('[A-Za-z]\\w*', link, re.ASCII) and yaml.safe_load(link) == link
    return link if is_plain else json.dumps(link)
