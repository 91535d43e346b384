# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.


"""Objects around a simulated arm: a table, a wall and a ball, with contacts of given stiffness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError

Array = NDArray[np.float64]

# Impedance d of MuJoCo's contacts. At rest a contact is a spring of the stiffness K; in motion
# the spring has (1 - d) K, so d is small.
IMPEDANCE = 0.05
FASTEST = 0.5  # most natural frequency of a contact, times the physics step: explicit integration
FRICTION_RATIO = 10.0  # stiffness of friction relative to that of the normal direction
WOOD, STONE, RED = (0.76, 0.6, 0.42, 1.0), (0.55, 0.6, 0.68, 0.6), (0.8, 0.25, 0.2, 1.0)
STEEL = (0.25, 0.27, 0.3, 1.0)


@dataclass(frozen=True)
class Box:
    """
    A fixed box with edges along the axes of the base frame.

    Attributes
    ----------
    position : (3,) of its centre, base frame [m]
    size : (3,) lengths of its edges [m]
    stiffness : of contacts with it, at rest [N/m]
    friction : coefficient of Coulomb friction

    """

    position: tuple[float, ...]
    size: tuple[float, ...]
    stiffness: float = 2e4
    friction: float = 0.3


@dataclass(frozen=True)
class FreeBall:
    """A ball that moves freely: start of its centre in the base frame [m], radius [m], [kg]."""

    position: tuple[float, ...]
    radius: float
    mass: float = 0.2
    stiffness: float = 2e4
    friction: float = 0.3


@dataclass(frozen=True)
class World:
    """
    What the arm can touch, and with what it touches.

    Attributes
    ----------
    touch : link names
        Each has a sphere about its origin that touches table, wall and ball; the rest of the
        arm passes through them.
    radius : float
        Of these spheres [m].
    table, wall : Box, optional
    ball : FreeBall, optional

    """

    touch: tuple[str, ...]
    radius: float = 0.01
    table: Box | None = None
    wall: Box | None = None
    ball: FreeBall | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius > 0.0):
            raise InputError(f'radius of the touching spheres is {self.radius} m; accepted: '
                             'finite, > 0')
        for name, box in self.boxes.items():
            _check(name, box.position, box.size, box.stiffness, box.friction)
        if self.ball is not None:
            _check('ball', self.ball.position, (self.ball.radius, self.ball.mass),
                   self.ball.stiffness, self.ball.friction)

    @property
    def boxes(self) -> dict[str, Box]:
        """The table and the wall by name, those that there are."""
        return {name: box for name, box in (('table', self.table), ('wall', self.wall)) if box}

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add objects, spheres and their contacts to a model's specification."""
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.impratio = FRICTION_RATIO
        silent: dict[str, Any] = {'contype': 0, 'conaffinity': 0}  # contacts by pairs only
        for name, box in self.boxes.items():
            spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, name=f'world {name}',
                                    size=[0.5 * edge for edge in box.size], pos=[0.0, 0.0, -1.0],
                                    quat=[0.6, 0.8, 0.0, 0.0], **silent)
        for link in self.touch:
            spec.body(link).add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, name=f'touch {link}',
                                     size=[self.radius, 0.0, 0.0], mass=0.0, **silent)
        if self.ball is not None:
            inertia = 0.4 * self.ball.mass * self.ball.radius**2
            body = spec.worldbody.add_body(
                name='world ball', pos=[0.0, 0.0, -1.0], mass=self.ball.mass,
                inertia=[inertia] * 3, explicitinertial=True)
            body.add_freejoint(name='world ball')
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, name='world ball',
                          size=[self.ball.radius, 0.0, 0.0], mass=0.0, **silent)
        for first, second, _, friction in self._pairs():
            spec.add_pair(name=f'{first} {second}', geomname1=first, geomname2=second, condim=3,
                          friction=[friction, friction, 0.0, 0.0, 0.0],
                          solimp=[IMPEDANCE, IMPEDANCE, 1e-3, 0.5, 2.0])

    def _pairs(self) -> list[tuple[str, str, float, float]]:
        """Return two names of geoms, stiffness and friction of each contact that there can be."""
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

    def place_in(self, model: mujoco.MjModel, T_root_base: Array) -> None:
        """
        Set poses of the objects and stiffness of the contacts in a compiled model.

        Raises
        ------
        InputError : a stiffness that the physics step cannot integrate

        """
        for name, box in self.boxes.items():
            _set_pose(model.geom(f'world {name}'), T_root_base, box.position)
        if self.ball is not None:
            start = model.joint('world ball').qposadr[0]
            model.qpos0[start:start + 3] = T_root_base[:3] @ [*self.ball.position, 1.0]
        step = model.opt.timestep
        for first, second, stiffness, _ in self._pairs():
            # MuJoCo's inverse mass of a contact, by which it divides all forces
            inverse = sum(float(model.body_invweight0[model.geom(one).bodyid[0], 0])
                          for one in (first, second))
            rate = stiffness * (1.0 - IMPEDANCE) * inverse  # natural frequency squared
            most = (FASTEST / step) ** 2 / ((1.0 - IMPEDANCE) * inverse)
            if stiffness > most:
                raise InputError(f"stiffness of '{first}' is {stiffness:g} N/m, touched by "
                                 f"'{second}'; accepted: at most {most:.3g} N/m with a timestep "
                                 f'of {step:g} s')
            # critical damping; negative numbers are stiffness and damping themselves
            model.pair(f'{first} {second}').solref = -rate, -2.0 * math.sqrt(rate)

    def draw_in(self, spec: mujoco.MjSpec, T_root_base: Array) -> None:
        """Add shapes to a specification for drawing, on the root link, which may be rotated."""
        root = spec.worldbody.first_body()
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, T_root_base[:3, :3].ravel())
        for (name, box), colour in zip(self.boxes.items(),
                                       (WOOD, STONE) if self.table else (STONE,)):
            root.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, name=f'world {name}', rgba=colour,
                          size=[0.5 * edge for edge in box.size], quat=quaternion,
                          pos=T_root_base[:3] @ [*box.position, 1.0])
        for link in self.touch:
            spec.body(link).add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, name=f'touch {link}',
                                     size=[self.radius, 0.0, 0.0], rgba=STEEL)
        if self.ball is not None:
            root.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, name='world ball', rgba=RED,
                          size=[self.ball.radius, 0.0, 0.0],
                          pos=T_root_base[:3] @ [*self.ball.position, 1.0])


def wrench_beyond(model: mujoco.MjModel, data: mujoco.MjData, at: int,
                  pushed: Mapping[int, Array]) -> Array:
    """
    Return the wrench (6,), [moment; force], that a sensor in a body measures, in its frame.

    It is the wrench by the arm on its environment at the body's origin [N·m, N], of contacts and
    of pushes on the body and on bodies that it carries, in the last physics step.

    Parameters
    ----------
    model, data : of MuJoCo
    at : index of the body
    pushed : force and moment (2, 3) on a body about its origin, in the axes of MuJoCo's world

    """
    total, wrench = np.zeros((2, 3)), np.zeros(6)
    origin = data.xpos[at]
    for k, contact in enumerate(data.contact):
        mujoco.mj_contactForce(model, data, k, wrench)
        force = contact.frame.reshape(3, 3).T @ wrench[:3]  # by the first geom on the second
        for geom, sign in ((contact.geom1, 1.0), (contact.geom2, -1.0)):
            if _is_beyond(model, model.geom_bodyid[geom], at):
                total += sign * np.array([np.cross(contact.pos - origin, force), force])
    for body, (force, moment) in pushed.items():
        if _is_beyond(model, body, at):
            total -= [moment + np.cross(data.xpos[body] - origin, force), force]
    return np.asarray((total @ data.xmat[at].reshape(3, 3)).ravel())


def _is_beyond(model: mujoco.MjModel, body: int, at: int) -> bool:
    """Whether a body is `at`, or is carried by it."""
    while body > at:  # a parent has a lower index
        body = model.body_parentid[body]
    return bool(body == at)


def _set_pose(geom: Any, T_root_base: Array, position: tuple[float, ...]) -> None:
    geom.pos = T_root_base[:3] @ [*position, 1.0]
    mujoco.mju_mat2Quat(geom.quat, T_root_base[:3, :3].ravel())


def _check(name: str, position: tuple[float, ...], sizes: tuple[float, ...], stiffness: float,
           friction: float) -> None:
    if len(position) != 3 or not np.isfinite(position).all():
        raise InputError(f'position of the {name} is {position}; accepted: 3 finite numbers [m]')
    if not all(math.isfinite(x) and x > 0.0 for x in (*sizes, stiffness)):
        raise InputError(f'{name}: size {sizes}, stiffness {stiffness} N/m; accepted: finite, > 0')
    if not (math.isfinite(friction) and friction >= 0.0):
        raise InputError(f'friction of the {name} is {friction}; accepted: finite, >= 0')
