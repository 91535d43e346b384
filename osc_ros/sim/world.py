# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Objects around a simulated arm: a table, a wall and a ball, with contacts of given stiffness."""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import Any, TYPE_CHECKING

import mujoco
import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.sim.mjcf.mjcf_description import require

if TYPE_CHECKING:
    from osc_ros.sim.plant import Plant

Array = NDArray[np.float64]

# Impedance d of MuJoCo's contacts. At rest a contact is a spring of the stiffness K; in motion
# the spring has (1 - d) K, so d is small.
IMPEDANCE = 0.05
FASTEST = 0.5  # largest natural frequency of a contact, times the physics step: stability
WOOD, STONE, RED = (0.76, 0.6, 0.42, 1.0), (0.55, 0.6, 0.68, 0.6), (0.8, 0.25, 0.2, 1.0)
STEEL = (0.25, 0.27, 0.3, 1.0)


@dataclass(frozen=True)
class Box:
    """
    A fixed box with edges along the axes of the base frame.

    Attributes
    ----------
    position : (3,) position of the centre, base frame [m]
    size : (3,) lengths of the edges [m]
    stiffness : stiffness of a contact with the box, while nothing moves [N/m]
    friction : coefficient of Coulomb friction; below some cm/s the force grows with the speed

    """

    position: tuple[float, ...]
    size: tuple[float, ...]
    stiffness: float = 2e4
    friction: float = 0.3


@dataclass(frozen=True)
class FreeBall:
    """
    A free ball: start (3,) in the base frame [m], radius [m], mass [kg].

    Stiffness and friction are defined as for a `Box`.

    """

    position: tuple[float, ...]
    radius: float
    mass: float = 0.2
    stiffness: float = 2e4
    friction: float = 0.3


@dataclass(frozen=True)
class World:
    """
    Objects that the arm can touch, and spheres on the arm that touch them.

    >>> world = World('panda_link0', ('panda_hand_tcp',),
    ...               table=Box((0.5, 0.0, 0.2), (0.6, 0.8, 0.04)))
    >>> arm = Simulation(urdf, law, furnish=world.add)              # doctest: +SKIP

    Attributes
    ----------
    base : link name
        Positions are in its frame; it does not move.
    touch : link names
        Each has a sphere about its origin that touches table, wall and ball; the rest of the arm
        passes through them.
    radius : float
        Radius of these spheres [m].
    table, wall : Box, optional
    ball : FreeBall, optional

    """

    base: str
    touch: tuple[str, ...]
    radius: float = 0.01
    table: Box | None = None
    wall: Box | None = None
    ball: FreeBall | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius > 0.0):
            raise InputError(f'radius of the touching spheres is {self.radius} m; must be '
                             'finite, > 0')
        for name, box in self.boxes.items():
            _check(name, box.position, box.size, box.stiffness, box.friction)
        if self.ball is not None:
            _check('ball', self.ball.position, (self.ball.radius, self.ball.mass),
                   self.ball.stiffness, self.ball.friction)

    @property
    def boxes(self) -> dict[str, Box]:
        """The existing boxes by name: 'table', 'wall'."""
        return {name: box for name, box in (('table', self.table), ('wall', self.wall)) if box}

    def add(self, spec: mujoco.MjSpec) -> None:
        """
        Add objects, spheres and their contacts to a specification (`furnish` of `Plant`).

        Raises
        ------
        InputError : an unknown link; a stiffness that the physics step cannot integrate

        """
        model = spec.compile()  # the arm alone, for the pose of its base and its mobility
        for link in (self.base, *self.touch):
            require('link', link, [model.body(k).name for k in range(1, model.nbody)])
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        T_root_base, quaternion = _pose(model, self.base), np.empty(4)
        mujoco.mju_mat2Quat(quaternion, T_root_base[:3, :3].ravel())
        silent: dict[str, Any] = {'contype': 0, 'conaffinity': 0}  # contacts by pairs only
        for (name, box), colour in zip(self.boxes.items(),
                                       (WOOD, STONE) if self.table else (STONE,)):
            spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, name=f'world {name}',
                                    size=[0.5 * edge for edge in box.size], rgba=colour,
                                    pos=T_root_base[:3] @ [*box.position, 1.0], quat=quaternion,
                                    **silent)
        for link in self.touch:
            spec.body(link).add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, name=f'touch {link}',
                                     size=[self.radius, 0.0, 0.0], mass=0.0, rgba=STEEL, **silent)
        if self.ball is not None:
            inertia = 0.4 * self.ball.mass * self.ball.radius**2
            body = spec.worldbody.add_body(
                name='world ball', pos=T_root_base[:3] @ [*self.ball.position, 1.0],
                ipos=np.zeros(3), mass=self.ball.mass, inertia=[inertia] * 3,
                explicitinertial=True)
            body.add_freejoint(name='world ball')
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, name='world ball', rgba=RED,
                          size=[self.ball.radius, 0.0, 0.0], mass=0.0, **silent)
        self._add_contacts(spec, model)

    def _add_contacts(self, spec: mujoco.MjSpec, arm: mujoco.MjModel) -> None:
        """Add the contacts to a specification; `arm` is the model of the arm alone."""
        # MuJoCo's inverse mass of each geom; it divides contact forces by the sum of both
        mobility = {f'touch {link}': float(arm.body(link).invweight0[0]) for link in self.touch}
        if self.ball is not None:
            mobility['world ball'] = 1.0 / self.ball.mass
        step = spec.option.timestep
        for first, second, stiffness, friction in self._pairs():
            inverse = mobility.get(first, 0.0) + mobility[second]
            rate = stiffness * (1.0 - IMPEDANCE) * inverse  # natural frequency squared
            most = (FASTEST / step) ** 2 / ((1.0 - IMPEDANCE) * inverse)
            if stiffness > most:
                raise InputError(f"stiffness of '{first}' is {stiffness:g} N/m, touched by "
                                 f"'{second}'; must be at most {most:.3g} N/m with a timestep "
                                 f'of {step:g} s')
            spec.add_pair(name=f'{first} {second}', geomname1=first, geomname2=second, condim=3,
                          friction=[friction, friction, 0.0, 0.0, 0.0],
                          # critical damping; negative numbers: stiffness and damping themselves
                          solref=[-rate, -2.0 * math.sqrt(rate)],
                          solimp=[IMPEDANCE, IMPEDANCE, 1e-3, 0.5, 2.0])


    def _pairs(self) -> list[tuple[str, str, float, float]]:
        """Return two geom names, stiffness and friction of each possible contact."""
        surfaces = [(f'world {name}', box.stiffness, box.friction)
                    for name, box in self.boxes.items()]
        spheres = [f'touch {link}' for link in self.touch]
        pairs = [(surface, one, stiffness, friction)
                 for surface, stiffness, friction in surfaces
                 for one in spheres + ['world ball'] * (self.ball is not None)]
        if self.ball is not None:
            pairs += [('world ball', one, self.ball.stiffness, self.ball.friction)
                      for one in spheres]
        return pairs


def ball_position(plant: Plant) -> Array:
    """Return the centre (3,) of the world's ball in the base frame [m]."""
    T = np.eye(4)
    T[:3, 3] = plant.data.joint('world ball').qpos[:3]
    return plant.in_base(T)[:3, 3]


def _pose(model: mujoco.MjModel, link: str) -> Array:
    """Return the pose T_root_link (4, 4) of a link that does not move."""
    data, T = mujoco.MjData(model), np.eye(4)
    mujoco.mj_kinematics(model, data)
    T[:3, :3], T[:3, 3] = data.body(link).xmat.reshape(3, 3), data.body(link).xpos
    return T


def _check(name: str, position: tuple[float, ...], sizes: tuple[float, ...], stiffness: float,
           friction: float) -> None:
    if len(position) != 3 or not np.isfinite(position).all():
        raise InputError(f'position of the {name} is {position}; must be 3 finite numbers [m]')
    if not all(math.isfinite(x) and x > 0.0 for x in (*sizes, stiffness)):
        raise InputError(f'{name}: size {sizes}, stiffness {stiffness} N/m; must be finite, > 0')
    if not (math.isfinite(friction) and friction >= 0.0):
        raise InputError(f'friction of the {name} is {friction}; must be finite, >= 0')
