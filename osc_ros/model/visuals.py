# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The visual and collision elements of a URDF: shapes on each link."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import ModelError
from osc_ros.model.origin import numbers, origin_pose
from osc_ros.model.urdf import robot_element

Array = NDArray[np.float64]

GREY = (0.7, 0.72, 0.75, 1.0)
SIZES = {'box': 'size', 'cylinder': 'radius length', 'capsule': 'radius length',
         'sphere': 'radius', 'mesh': 'scale'}


@dataclass(frozen=True)
class Visual:
    """One shape on a link."""

    link: str
    pose: Array  # (4, 4) of the shape in the frame of the link [m]
    kind: str  # 'box', 'cylinder' or 'capsule' (along z; URDF 1.2), 'sphere' or 'mesh'
    # box: edges; cylinder, capsule: radius, length; sphere: radius [m]; mesh: scale along x y z
    size: tuple[float, ...]
    mesh: str  # URI or path of the mesh as in the URDF; empty for other shapes
    color: tuple[float, ...]  # red, green, blue, opacity, 0 to 1


def visuals(urdf_text: str) -> list[Visual]:
    """Return all usable visual elements of a URDF; an empty list if the text is not XML."""
    # an unknown shape or wrong numbers are no reason to refuse an arm: such elements are skipped
    try:
        root = ElementTree.fromstring(urdf_text)
    except ElementTree.ParseError:
        return []
    colors = {material.get('name'): _color(material) for material in root.findall('material')}
    found = []
    for link in root.findall('link'):
        for element in link.findall('visual'):
            with suppress(ValueError):
                found += _visual(link.get('name', ''), element, colors)
    return found


def collision_elements(urdf_text: str) -> list[Visual]:
    """Return all collision elements of a URDF, in grey."""
    # ModelError, which names the link, for an unknown shape or wrong numbers; also if the text is
    # not a URDF
    return [_collision(link.get('name', ''), element)
            for link in robot_element(urdf_text).findall('link')
            for element in link.findall('collision')]


def _collision(link: str, element: ElementTree.Element) -> Visual:
    where = f"collision element of link '{link}'"
    shapes = [shape for shape in element.iterfind('geometry/*') if isinstance(shape.tag, str)]
    if len(shapes) != 1 or shapes[0].tag not in SIZES:
        found = ', '.join(f'<{shape.tag}>' for shape in shapes) or 'nothing'
        raise ModelError(f'{where}: its <geometry> has {found}: must be one of '
                         + ', '.join(f'<{kind}>' for kind in SIZES))
    shape = shapes[0]
    is_mesh = shape.tag == 'mesh'
    size = tuple(number for name in SIZES[shape.tag].split() for number in numbers(
        shape, name, where, '1 1 1' if is_mesh else None, 1 if ' ' in SIZES[shape.tag]
        or shape.tag == 'sphere' else 3))
    if not all(abs(one) > 0.0 if is_mesh else one > 0.0 for one in size):
        raise ModelError(f'{where}: <{shape.tag}> has the size {size}: must be more than 0')
    mesh = shape.get('filename', '')
    if is_mesh and not mesh:
        raise ModelError(f"{where}: <mesh> has no attribute 'filename'")
    return Visual(link, origin_pose(element, where), shape.tag, size, mesh, GREY)


def fingers(urdf_text: str, driven: Collection[str]) -> dict[str, Array]:
    """Return the links of a parallel gripper's two fingers, with directions of opening (3,)."""
    # A direction is in the frame of its link. The fingers are the children of the only two
    # prismatic joints that are not in `driven`, if both joints have one parent and open in
    # opposite directions; otherwise the result is empty.
    try:
        root = ElementTree.fromstring(urdf_text)
    except ElementTree.ParseError:
        return {}
    joints = [joint for joint in root.findall('joint')
              if joint.get('type') == 'prismatic' and joint.get('name') not in driven]
    found, ways = {}, []
    with suppress(ValueError):
        for joint in joints:
            tag = joint.find('axis')
            axis = np.array(_numbers('1 0 0' if tag is None else tag.get('xyz', '')))
            ways.append(origin_pose(joint)[:3, :3] @ axis)
            found[_link(joint, 'child')] = axis
        parents = {_link(joint, 'parent') for joint in joints}
        if len(found) == len(joints) == 2 and len(parents) == 1 and ways[0] @ ways[1] < -0.999:
            return found
    return {}


def _link(joint: ElementTree.Element, role: str) -> str:
    tag = joint.find(role)
    return '' if tag is None else tag.get('link', '')


def _visual(link: str, element: ElementTree.Element,
            colors: dict[str | None, tuple[float, ...] | None]) -> list[Visual]:
    geometry = element.find('geometry')
    material = element.find('material')
    own = None
    if material is not None:
        own = _color(material) or colors.get(material.get('name'))
    for shape in geometry if geometry is not None else ():
        if shape.tag in SIZES:
            absent = '1 1 1' if shape.tag == 'mesh' else None
            size = tuple(number for name in SIZES[shape.tag].split()
                         for number in _numbers(shape.get(name, absent)))
            if len(size) == {'box': 3, 'sphere': 1, 'mesh': 3}.get(shape.tag, 2):
                return [Visual(link, origin_pose(element), shape.tag, size,
                               shape.get('filename', ''), own or GREY)]
    return []


def _color(material: ElementTree.Element) -> tuple[float, ...] | None:
    color = material.find('color')
    with suppress(ValueError):
        found = _numbers(None if color is None else color.get('rgba'))
        return found if len(found) == 4 else None
    return None


def _numbers(text: str | None) -> tuple[float, ...]:
    """Return the numbers of an attribute; raise ValueError unless all are finite."""
    found = tuple(map(float, (text or '').split()))
    if not np.isfinite(found).all():
        raise ValueError(text)
    return found
