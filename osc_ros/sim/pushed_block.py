# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A free block beside a simulated arm, which the arm can push or grasp."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.sim.plant import Plant

Array = NDArray[np.float64]


class Block:
    """
    A box that rests on the plant's wall; the plant's ball can push it, and a hand can grasp it.

    >>> block = Block((0.04, 0.04, 0.03), mass=0.3)                # doctest: +SKIP
    >>> arm = Simulation(urdf, law, wall=table, ball=('tool0', 0.02), furnish=block.add)

    Parameters
    ----------
    half : (3,)
        Half of the edge lengths [m].
    mass : float [kg]
    friction : float
        Friction coefficient on the wall and on the ball; the fingers of a `Hand` have their own.
    position : (3,)
        Position of its centre after a reset [m], in the URDF's root.

    """

    def __init__(self, half: tuple[float, float, float], mass: float, friction: float = 0.3,
                 position: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        self.half, self._mass, self._friction = half, mass, friction
        self._start = np.asarray(position, dtype=np.float64)
        self._seen: tuple[mujoco.MjData, Array] | None = None  # state, block's qpos in it

    def add(self, spec: mujoco.MjSpec) -> None:
        """Add the block to a specification (parameter `furnish` of `Plant`)."""
        x, y, z = np.square(self.half) / 3.0
        body = spec.worldbody.add_body(
            name='block', pos=self._start, ipos=np.zeros(3), mass=self._mass,
            explicitinertial=True,
            inertia=[self._mass * (y + z), self._mass * (x + z), self._mass * (x + y)])
        body.add_freejoint(name='block')
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, name='block', size=list(self.half),
                      condim=3, friction=[self._friction, 0.005, 1e-4], priority=1,
                      rgba=[0.8, 0.35, 0.2, 1.0])

    def put(self, plant: Plant, position: ArrayLike) -> None:
        """Place the block at rest with its centre at a position (3,) [m], in the URDF's root."""
        joint = plant.data.joint('block')
        joint.qpos = [*np.asarray(position, dtype=np.float64).tolist(), 1.0, 0.0, 0.0, 0.0]
        joint.qvel = np.zeros(6)

    def position(self, plant: Plant) -> Array:
        """Return the position (3,) of the centre [m], in the URDF's root."""
        if self._seen is None or self._seen[0] is not plant.data:  # a look-up is slow
            self._seen = plant.data, plant.data.joint('block').qpos
        return np.array(self._seen[1][:3])

    def pose(self, plant: Plant) -> Array:
        """Return the pose (4, 4) of the centre, in the URDF's root."""
        T, body = np.eye(4), plant.data.body('block')
        T[:3, :3], T[:3, 3] = body.xmat.reshape(3, 3), body.xpos
        return T
