# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shape, pose and colour of the objects beside a simulated arm, for pictures."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from osc_ros.sim.plant import Plant

Array = NDArray[np.float64]

# Names of the objects for users, by the names of their geoms in MuJoCo. `World`, `Block` and
# `Plant` (its wall) give these geoms their names.
NAMES = {'world table': 'table', 'world wall': 'wall', 'world ball': 'ball', 'block': 'cube',
         'wall': 'plane'}
EXTENT, THICKNESS = 1.2, 0.01  # edges and height of the box for an infinite plane [m]
PALE = (0.76, 0.6, 0.42, 1.0)  # its colour


class Solid(NamedTuple):
    """One object."""

    name: str  # 'table', 'wall', 'ball', 'cube' or 'plane'
    is_round: bool  # True: sphere; False: box
    size: Array  # (3,) lengths of the edges, or the diameter three times [m]
    pose: Array  # (4, 4) of the centre in the base frame
    color: tuple[float, ...]  # red, green, blue, opacity, 0 to 1


def solids(plant: Plant) -> list[Solid]:
    """Return the objects beside the arm of a plant; an infinite plane becomes a thin box."""
    data, found = plant.data, []
    model = data.model
    mujoco.mj_kinematics(model, data)
    for number in range(model.ngeom):
        geom = model.geom(number)
        if geom.name not in NAMES:
            continue
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = data.geom_xmat[number].reshape(3, 3), data.geom_xpos[number]
        is_plane = geom.type[0] == mujoco.mjtGeom.mjGEOM_PLANE
        is_round = geom.type[0] == mujoco.mjtGeom.mjGEOM_SPHERE
        size = 2.0 * (np.full(3, geom.size[0]) if is_round else geom.size)
        if is_plane:
            size = np.array([EXTENT, EXTENT, THICKNESS])
            T[:3, 3] -= 0.5 * THICKNESS * T[:3, 2]  # its top is the plane
        color = PALE if is_plane else tuple(geom.rgba.tolist())
        found.append(Solid(NAMES[geom.name], bool(is_round), size, plant.in_base(T), color))
    return found
