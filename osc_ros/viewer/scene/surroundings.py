# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Draws objects beside the arm, the fingers of the gripper, and collision shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
import trimesh

from osc_ros.collision.link_shapes import ShapeModel, shipped_shapes
from osc_ros.errors import ModelError
from osc_ros.model.robot import Robot
from osc_ros.viewer.scene.reading import Solid
from osc_ros.viewer.scene.shapes import collision_meshes
from osc_ros.viewer.scene.view_frames import wxyz_of

Array = NDArray[np.float64]

AMBER, OPACITY = (222, 160, 40), 0.4  # of collision shapes


class Objects:
    """Draws objects beside the arm; `kind` is the name of their folder in the scene."""

    def __init__(self, server: Any, kind: str = 'object') -> None:
        self._scene, self._kind = server.scene, kind
        self._drawn: dict[str, tuple[Solid, Any]] = {}

    def update(self, solids: dict[str, tuple[Solid, Array]]) -> None:
        """Draw objects, by name and with poses (4, 4) in the base frame; remove all others."""
        for name in list(self._drawn):
            if name not in solids or solids[name][0] != self._drawn[name][0]:
                self._drawn.pop(name)[1].remove()
        for name, (solid, pose) in solids.items():
            if name not in self._drawn:
                self._drawn[name] = solid, self._added(name, solid)
            handle = self._drawn[name][1]
            handle.wxyz, handle.position = wxyz_of(pose[:3, :3]), pose[:3, 3]

    def _added(self, name: str, solid: Solid) -> Any:
        look = {'color': tuple(round(255.0 * x) for x in solid.color[:3]),
                'opacity': solid.color[3] if solid.color[3] < 1.0 else None}
        path, size = f'/{self._kind}/{name}', solid.size
        if solid.shape == 'sphere':
            return self._scene.add_icosphere(path, 0.5 * size[0], **look)
        if solid.shape == 'capsule':
            mesh = trimesh.creation.capsule(size[2], 0.5 * size[0])
            return self._scene.add_mesh_simple(path, mesh.vertices, mesh.faces, **look)
        if solid.shape == 'cylinder':
            return self._scene.add_cylinder(path, 0.5 * size[0], size[2], **look)
        return self._scene.add_box(path, dimensions=size, **look)


class Fingers:
    """The fingers of a gripper, placed by its width."""

    # For each link of a finger: scene node of the body that carries it; pose (4, 4) of the closed
    # finger in that node; direction of opening (3,) in the frame of the link; and shape.

    def __init__(self, server: Any, fingers: dict[str, tuple[str, Array, Array, Any]]) -> None:
        self._fingers = []
        for link, (parent, T, axis, shape) in fingers.items():
            frame = server.scene.add_frame(f'{parent}/{link}', show_axes=False,
                                           wxyz=wxyz_of(T[:3, :3]), position=T[:3, 3])
            server.scene.add_mesh_trimesh(f'{parent}/{link}/shape', shape)
            self._fingers.append((frame, T[:3, 3], T[:3, :3] @ axis))

    def open(self, width: float) -> None:
        """Draw the fingers with this width between them [m]."""
        for frame, closed, way in self._fingers:
            frame.position = closed + 0.5 * width * way

    def remove(self) -> None:
        """Remove the fingers from the page."""
        for frame, *_ in self._fingers:
            frame.remove()


class CollisionShapes:
    """The shapes that stand for the links in distances; transparent, hidden at first."""

    def __init__(self, server: Any, model: ShapeModel | None) -> None:
        self._scene, self._given = server.scene, model
        # of the drawn robot: the given model, else that of the shipped arm with the robot's name
        self.model: ShapeModel | None = None
        self._is_shown = False
        self._meshes: list[Any] = []

    def draw(self, robot: Robot) -> None:
        """Draw the shapes of a robot, whose bodies have scene nodes; these remove older shapes."""
        self.model = model = self._given or _shipped(robot.name)
        self._meshes = [] if model is None else [
            self._scene.add_mesh_simple(
                f'/arm/{body + 1}/collision', mesh.vertices, mesh.faces, color=AMBER,
                opacity=OPACITY, visible=self._is_shown, cast_shadow=False, receive_shadow=False)
            for body, mesh in collision_meshes(robot, model).items()]

    def show(self, is_shown: bool) -> None:
        """Show or hide the shapes."""
        self._is_shown = is_shown
        for mesh in self._meshes:
            mesh.visible = is_shown


def _shipped(name: str) -> ShapeModel | None:
    try:
        return shipped_shapes(name)
    except ModelError:
        return None
