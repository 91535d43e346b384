# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The shapes of an arm from the collision elements of its URDF: primitives and meshes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
import json
import os
from pathlib import Path
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from osc_ros.collision.enclosing import (
    CELL,
    divided_triangles,
    Enclosure,
    enclosures,
    MOST,
    NO_VISITS,
    number_by_distance,
    Visits,
)
from osc_ros.collision.link_shapes import LinkShape, ShapeModel
from osc_ros.collision.near_pairs import chosen_shapes, visits_of
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.errors import InputError, installation, ModelError
from osc_ros.model.files import mesh_file
from osc_ros.model.robot import Robot
from osc_ros.model.urdf import description
from osc_ros.model.visuals import collision_elements, Visual

Array = NDArray[np.float64]

MESHES = '.stl', '.obj', '.ply', '.dae', '.glb', '.gltf', '.off'
LARGEST_MESH = 2**28  # [bytes]
ROUNDING = 1e-5  # of coordinates and radii in a result [m]
CELLS_AT_MOST = 15_000  # of a mesh; its triangles are divided less finely if they would be more
WEIGHTS = 1.0, 10.0  # of the visits of other links, of which the better capsules are taken
METHOD = 3  # number of the way of enclosing; part of the name of a cached result
SECTORS = 32  # of the circles that stand for a cylinder


@dataclass(frozen=True, eq=False)
class Element:
    """The shapes that stand for a collision element, and how much larger they are."""

    link: str
    source: str  # the mesh as in the URDF, or the kind of the primitive
    shapes: tuple[LinkShape, ...]
    beyond: float  # largest distance of a point of the shapes from the element [m]
    ratio: float  # volume of the shapes relative to the convex hull of the element


def shapes_of_urdf(text: str, folder: Path, robot: Robot | None = None, most: int = MOST
                   ) -> tuple[ShapeModel, list[Element]]:
    """Return the shapes of a URDF's collision elements, without ignored pairs, and a report."""
    # Only links of `robot`, if given. Shapes on a locked prismatic joint cover all its positions.
    # ModelError: no usable element, a wrong one, no readable mesh; InputError: no trimesh.
    found = [one for one in collision_elements(text)
             if robot is None or one.link in robot.frames]
    if not found:
        raise ModelError('no link has a <collision> element: give elements with '
                         '<sphere>, <capsule>, <cylinder>, <box> or <mesh>, or own shapes in a '
                         'file')
    swept = {} if robot is None else _strokes(text, robot)
    strokes = [swept.get(one.link, np.zeros((1, 3))) for one in found]
    cells = [_cells(one, folder, stroke) for one, stroke in zip(found, strokes)]
    links = [one.link for one in found]
    visits = [NO_VISITS] * len(found) if robot is None else visits_of(
        robot, links, [one.mean(axis=1) for one in cells])
    choices = [[_exact(one)] if _is_exact(one, stroke) else _elements(one, body, near, most)
               for one, stroke, body, near in zip(found, strokes, cells, visits)]
    numbers = [number_by_distance([each.beyond for each in one[:most]]) for one in choices]
    chosen = [number - 1 for number in numbers]
    if robot is not None:
        chosen = chosen_shapes(robot, [[each.shapes for each in one] for one in choices], numbers)
    elements = [one[i] for one, i in zip(choices, chosen)]
    return ShapeModel(tuple(shape for one in elements for shape in one.shapes)), elements


def enclosed(visual: Visual, folder: Path, stroke: Array, most: int) -> Element:
    """Return the shapes of an element at displacements (n, 3), without regard to other links."""
    if _is_exact(visual, stroke):
        return _exact(visual)
    found = _elements(visual, _cells(visual, folder, stroke), NO_VISITS, most)
    return found[number_by_distance([one.beyond for one in found]) - 1]


def _is_exact(visual: Visual, stroke: Array) -> bool:
    """Return whether an element is a sphere or a capsule, on a link that does not slide."""
    return visual.kind in ('sphere', 'capsule') and len(stroke) == 1 and not stroke.any()


def _exact(visual: Visual) -> Element:
    """Return a sphere or capsule as it is."""
    T, half = visual.pose, 0.5 * visual.size[1] if visual.kind == 'capsule' else 0.0
    ends = T[:3, 3] + np.outer([-half, half], T[:3, 2])
    shape = LinkShape(visual.link, ends, visual.size[0])
    return Element(visual.link, visual.kind, (shape,), 0.0, 1.0)


def _cells(visual: Visual, folder: Path, stroke: Array) -> Array:
    """Return cells (m, k, 3) of an element at displacements (n, 3) of its link, in its frame."""
    T, edge = visual.pose, CELL
    if visual.kind == 'mesh':
        triangles = _mesh_triangles(visual, folder)
        area = 0.5 * np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0],
                                             triangles[:, 2] - triangles[:, 0]), axis=1).sum()
        edge = max(CELL, 2.0 * float(np.sqrt(area / CELLS_AT_MOST)))
    else:
        triangles = _triangles(visual)
    cells = divided_triangles(triangles, edge) @ T[:3, :3].T + T[:3, 3]
    return (cells[:, None] + stroke[:, None]).reshape(len(cells), -1, 3)


def _elements(visual: Visual, cells: Array, visits: Visits, most: int) -> list[Element]:
    """Return the shapes around cells with one, two, … capsules, for each of WEIGHTS."""
    around = _stored_enclosures if visual.kind == 'mesh' else enclosures
    return [Element(visual.link, visual.mesh or visual.kind,
                    tuple(_rounded(visual.link, *capsule) for capsule in one.capsules),
                    one.beyond, one.ratio) for weight in (WEIGHTS if visits.weight else (1.0,))
            for one in around(cells, most, visits._replace(weight=weight * visits.weight))]


def mesh_shapes(file: Path, link: str, pose: Array, scale: float = 1.0, name: str = '',
                most: int = MOST) -> tuple[LinkShape, ...]:
    """Return capsules around a mesh at a pose (4, 4) on a link, such as of a grasped thing."""
    # `scale`: unit of the mesh [m]; `name`: see `LinkShape.attached`. ModelError or InputError if
    # the mesh is missing or not readable, or trimesh is not installed.
    visual = Visual(link, finite_array('pose', pose, (4, 4)), 'mesh', (scale,) * 3, str(file),
                    (1.0,) * 4)
    return tuple(replace(one, attached=name) for one in enclosed(
        visual, file.parent, np.zeros((1, 3)), most).shapes)


def _rounded(link: str, ends: Array, radius: float) -> LinkShape:
    """Return a shape with few digits that contains the given capsule."""
    digits = round(-np.log10(ROUNDING))
    rounded = np.round(ends, digits) + 0.0  # no -0.0
    more = np.linalg.norm(rounded - ends, axis=1).max()
    return LinkShape(link, rounded, round(np.ceil((radius + more) / ROUNDING) * ROUNDING, digits))


def _triangles(visual: Visual) -> Array:
    """Return triangles (m, 3, 3) around a box, cylinder, sphere or capsule, in its own frame."""
    if visual.kind == 'box':
        corners = np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3), -1).reshape(-1, 3)
        corners = corners * np.array(visual.size)
    else:
        r = visual.size[0] / np.cos(np.pi / SECTORS)  # the polygon is around the circle
        half = 0.5 * visual.size[1] if len(visual.size) > 1 else 0.0
        half += 0.0 if visual.kind == 'cylinder' else visual.size[0]
        angle = 2.0 * np.pi * np.arange(SECTORS) / SECTORS
        ring = np.stack([r * np.cos(angle), r * np.sin(angle), np.full(SECTORS, half)], 1)
        corners = np.concatenate([ring, ring * (1.0, 1.0, -1.0)])
    return np.asarray(corners[ConvexHull(corners).simplices])


def _stored_enclosures(cells: Array, most: int, visits: Visits) -> list[Enclosure]:
    """Return the capsules around cells, computed or from the cache."""
    key = sha256(cells.tobytes() + visits.points.tobytes()
                 + repr((METHOD, visits.weight, most)).encode()).hexdigest()
    cached = _cache() / f'{key}.json'
    try:
        return [Enclosure(tuple((np.array(ends), radius) for ends, radius in capsules), *rest)
                for capsules, *rest in json.loads(cached.read_text(encoding='ascii'))]
    except (OSError, ValueError):  # none, or damaged
        pass
    found = enclosures(cells, most, visits)
    _store(cached, json.dumps([[[(ends.tolist(), radius) for ends, radius in one.capsules],
                                one.beyond, one.ratio] for one in found]))
    return found


def _mesh_triangles(visual: Visual, folder: Path) -> Array:
    """Return the triangles (m, 3, 3) of a mesh, in its frame [m]."""
    link, file = visual.link, mesh_file(visual.mesh, folder, MESHES)
    if file is None:
        raise ModelError(
            f"link '{link}': its mesh '{visual.mesh}' is not found from '{folder}': give a "
            f'file ending in {", ".join(MESHES)}; packages are searched above this folder and in '
            'AMENT_PREFIX_PATH and ROS_PACKAGE_PATH')
    if (size := file.stat().st_size) > LARGEST_MESH:
        raise ModelError(f"link '{link}': '{file}' has {size} bytes: must be at most "
                         f'{LARGEST_MESH}')
    try:
        import trimesh
    except ImportError as error:
        raise InputError(f'trimesh, which reads meshes, is not installed ({error}): '
                         + installation('viewer')) from None
    try:
        mesh: Any = trimesh.load(BytesIO(file.read_bytes()), file_type=file.suffix[1:].lower(),
                                 force='mesh')
        triangles = np.asarray(mesh.triangles, dtype=np.float64)
    except Exception as error:  # trimesh raises errors of many types
        raise ModelError(f"link '{link}': the mesh '{file}' cannot be read ({error})") from None
    if not len(triangles) or not np.isfinite(triangles).all():
        raise ModelError(f"link '{link}': the mesh '{file}' has no triangles: give a "
                         'surface with finite coordinates')
    return np.asarray(triangles * np.array(visual.size))


def _cache() -> Path:
    """Return the folder of results, beside the compiled kernels."""
    home = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    return Path(home) / 'osc_ros' / 'shapes'


def _store(file: Path, text: str) -> None:
    """Write a result; another process never reads a half-written file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(dir=file.parent)
        with open(handle, 'w', encoding='ascii') as new:
            new.write(text)
        os.replace(written, file)
    except OSError:  # without a cache the next run computes it again
        pass


def _strokes(text: str, robot: Robot) -> dict[str, Array]:
    """Return the displacements (k, 3) of links on locked prismatic joints, in the link's frame."""
    found, tree = {}, description(text)
    for i, (link, joint, kind) in enumerate(zip(tree.links, tree.joints, tree.kinds)):
        parent = int(tree.parent[i])
        if (kind != 'prismatic' or joint in robot.joints or link not in robot.frames
                or tree.links[parent] not in robot.frames):
            continue
        T_parent, T_link = robot.frames[tree.links[parent]][1], robot.frames[link][1]
        zero = T_parent @ tree.T_parent_link[i]
        locked = float(tree.axis[i] @ zero[:3, :3].T @ (T_link[:3, 3] - zero[:3, 3]))
        limits = np.where(np.isfinite(tree.position_limits[i]), tree.position_limits[i], locked)
        found[link] = np.outer(limits - locked, tree.axis[i])
    return found

