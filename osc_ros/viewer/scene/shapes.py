# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shapes of a robot's bodies: the meshes of its URDF, or capsules along its links."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
import trimesh

from osc_ros.collision.link_shapes import ShapeModel
from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.model.robot import Robot
from osc_ros.model.visuals import GREY, Visual, visuals

Array = NDArray[np.float64]

ORANGE = (0.93, 0.45, 0.13, 1.0)
THICK, THIN = 0.055, 0.028  # radius of a capsule at base and tip, relative to REACH [m]
SHARP = 0.6  # edges with a larger angle look sharp [rad]
REACH = 0.9  # reach of an arm with these radii [m]
SHORTEST = 0.02  # a link shorter than this share of the reach is only a sphere
FACES_AT_MOST = 30_000  # a capsule replaces a mesh with more faces, because it would slow the page


def body_shapes(robot: Robot, urdf_text: str, file_of: Callable[[str], Path | None],
                separate_links: Collection[str] = ()) -> tuple[dict[int | str, Any], list[str]]:
    """Return each body's shape, in the body's frame, and the meshes that could not be loaded."""
    # Body -1 is the base. A body without a usable visual element gets capsules. Links in
    # `separate_links` have their own shapes by name. `file_of`: see `Scene`.
    parts: dict[int | str, list[Any]] = {}
    missing = []
    for visual in visuals(urdf_text):
        if visual.link not in robot.frames:
            continue
        body: int | str
        body, T_body_link = ((visual.link, np.eye(4)) if visual.link in separate_links
                             else robot.frames[visual.link])
        shape = _shape(visual, file_of)
        if shape is None:
            missing.append(visual.mesh)
            continue
        shape.apply_transform(T_body_link @ visual.pose)
        parts.setdefault(body, []).append(shape)
    drawn = {body: trimesh.util.concatenate(shapes) for body, shapes in parts.items()}
    for body, shape in capsules(robot).items():
        drawn.setdefault(body, shape)
    return drawn, sorted(set(missing))


def capsules(robot: Robot) -> dict[int, Any]:
    """Return capsules along the links of a robot, by body; the base is -1."""
    # From the origin of a body to the origins of its child bodies and to its tips. A prismatic
    # joint has a rod along its travel.
    at = placement(robot, robot.neutral)
    reach = max(float(np.linalg.norm(at.p - at.p[0], axis=1).max()),
                float(np.linalg.norm(at.T_tips[:, :3, 3], axis=1).max()), 1e-3)
    bodies, scale = len(robot.parent), reach / REACH
    found = {}
    for body in range(-1, bodies):
        share = (body + 1) / bodies
        radius = scale * (THICK + (THIN - THICK) * share)
        ends = [T[:3, 3] for T, parent in zip(robot.T_parent_body, robot.parent) if parent == body]
        ends += [T[:3, 3] for carrier, T in (robot.frames[tip] for tip in robot.tips)
                 if carrier == body]
        shapes = [_colored(trimesh.creation.icosphere(subdivisions=2, radius=1.15 * radius),
                           GREY if body < 0 else ORANGE)]
        shapes += [_capsule(end, radius) for end in ends
                   if np.linalg.norm(end) > SHORTEST * reach]
        if body >= 0 and robot.prismatic[body]:
            travel = float(robot.position_limits[robot.v_index[body], 1])
            if np.isfinite(travel) and travel > SHORTEST * reach:
                shapes.append(_capsule(np.array([0.0, 0.0, -travel]), 0.6 * radius))
        found[body] = trimesh.util.concatenate(shapes)
    return found


def collision_meshes(robot: Robot, model: ShapeModel) -> dict[int, Any]:
    """Return the shapes of a model on the links of a robot, by body, in the body's frame."""
    parts: dict[int, list[Any]] = {}
    for one in model.shapes:
        if one.link in robot.frames:
            body, T = robot.frames[one.link]
            shape = _capsule(one.ends[1] - one.ends[0], one.radius)
            shape.apply_translation(one.ends[0])
            parts.setdefault(body, []).append(shape.apply_transform(T))
    return {body: trimesh.util.concatenate(shapes) for body, shapes in parts.items()}


def _capsule(end: Array, radius: float) -> Any:
    """Return a capsule from the origin to `end`."""
    length = float(np.linalg.norm(end))
    shape = trimesh.creation.capsule(height=length, radius=radius, count=[16, 16])
    shape.apply_translation([0.0, 0.0, 0.5 * length])  # trimesh centres the capsule
    if length > 0.0:
        along: Any = trimesh.geometry.align_vectors  # untyped
        shape.apply_transform(along([0.0, 0.0, 1.0], end / length))
    return _colored(shape, GREY)


def _shape(visual: Visual, file_of: Callable[[str], Path | None]) -> Any:
    """Return the shape of a visual element in its own frame; None if its mesh is not usable."""
    if visual.kind == 'mesh':
        return _mesh(visual, file_of(visual.mesh))
    if visual.kind == 'box':
        shape = trimesh.creation.box(extents=visual.size)
    elif visual.kind == 'cylinder':
        shape = trimesh.creation.cylinder(radius=visual.size[0], height=visual.size[1],
                                          sections=32)
    elif visual.kind == 'capsule':  # the length excludes the ends, as in a URDF
        shape = trimesh.creation.capsule(radius=visual.size[0], height=visual.size[1])
    else:
        shape = trimesh.creation.icosphere(subdivisions=3, radius=visual.size[0])
    return _colored(shape, visual.color)


def _mesh(visual: Visual, file: Path | None) -> Any:
    if file is None:
        return None
    try:
        shape: Any = trimesh.load(file, force='mesh')
    except Exception:  # trimesh raises errors of many types
        return None
    if len(shape.faces) == 0 or len(shape.faces) > FACES_AT_MOST:
        return None
    shape.apply_scale(visual.size)
    return _colored(shape, visual.color)


def _colored(shape: Any, color: tuple[float, ...]) -> Any:
    """Return a shape with one colour, no texture, and sharp edges."""
    shape = trimesh.graph.smooth_shade(shape, angle=SHARP)
    rgba = np.round(255.0 * np.clip(color, 0.0, 1.0)).astype(np.uint8)
    shape.visual = trimesh.visual.ColorVisuals(mesh=shape, vertex_colors=np.tile(
        rgba, (len(shape.vertices), 1)))
    return shape
