# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Adds the meshes of a URDF to a MuJoCo scene, if their files are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
from numpy.typing import NDArray

from osc_ros.model.files import mesh_file
from osc_ros.model.origin import origin_pose

Array = NDArray[np.float64]

READABLE = ('.stl', '.obj', '.msh')  # file types that MuJoCo reads


def add_meshes(spec: mujoco.MjSpec, links: Mapping[str, ElementTree.Element],
               colours: Iterable[ElementTree.Element], folder: Path) -> None:
    """Add each link's <visual> meshes to its body; without these, its <collision> meshes."""
    named = {colour.get('name', ''): _rgba(colour) for colour in colours}
    for link, element in links.items():
        found = list(_found(element, 'visual', folder)) or list(_found(element, 'collision',
                                                                       folder))
        for i, (shape, file) in enumerate(found):
            mesh = shape.find('geometry/mesh')
            scale = _numbers(mesh, 'scale', '1 1 1')
            name = f'{link} mesh {i}'
            spec.add_mesh(name=name, file=str(file), scale=scale,
                          inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
            T, material = origin_pose(shape, f"link '{link}'"), shape.find('material')
            colour = None if material is None else (
                _rgba(material) or named.get(material.get('name', '')))
            spec.body(link).add_geom(
                type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, contype=0, conaffinity=0, mass=0.0,
                pos=T[:3, 3], quat=_quaternion(T[:3, :3]),
                rgba=colour or (0.85, 0.86, 0.88, 1.0))


def _found(link: ElementTree.Element, tag: str, folder: Path
           ) -> Iterator[tuple[ElementTree.Element, Path]]:
    for shape in link.iterfind(tag):
        mesh = shape.find('geometry/mesh')
        file = None if mesh is None else mesh_file(mesh.get('filename', ''), folder, READABLE)
        if file is not None:
            yield shape, file


def _numbers(element: ElementTree.Element | None, name: str, default: str) -> list[float]:
    return [float(x) for x in (default if element is None else element.get(name, default)).split()]


def _rgba(material: ElementTree.Element) -> list[float] | None:
    colour = material.find('color')
    return None if colour is None else _numbers(colour, 'rgba', '1 1 1 1')


def _quaternion(R: Array) -> Array:
    """Return w x y z of a rotation (3, 3)."""
    found = np.empty(4)
    mujoco.mju_mat2Quat(found, R.ravel())
    return found
