# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Rules on implausible numbers of a robot description, for the warnings of `Robot.from_urdf`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
import warnings

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import ModelWarning, UnitWarning
from osc_ros.model import urdf
from osc_ros.model.assembly import NO_MOMENT

if TYPE_CHECKING:
    from osc_ros.model.robot import Robot

MANY_TURNS, VERY_FAST = 8.0 * np.pi, 60.0  # limits in degrees, rather [rad, rad/s]
# Largest radius of gyration of a body about its joint, relative to the size of the robot, which is
# taken as at least SMALLEST [m]. All robots of example-robot-data stay below 0.9.
GYRATION, SMALLEST = 2.0, 1.0
FARTHEST = 10.0  # largest distance from link to link, or to a centre of mass [m]
DENSEST = 300.0  # largest mass of a link by the cube of the robot's size [kg/m³]


class Doubts:
    """The moving links of a robot as described, and the bodies made from them, for the rules."""

    def __init__(self, described: urdf.Description, robot: Robot) -> None:
        self.described, self.robot = described, robot
        self.links = [i for i, link in enumerate(described.links) if robot.frames[link][0] >= 0]
        self.joints = [described.joints.index(joint) for joint in dict.fromkeys(robot.joints)
                       if joint in described.joints]
        self.masses = described.inertia[:, 5, 5]
        self.size = max(SMALLEST, float(
            np.linalg.norm(robot.T_parent_body[:, :3, 3], axis=1).sum()
            + max(np.linalg.norm(T[:3, 3]) for _, T in robot.frames.values())))

    def named(self, links: NDArray[np.bool_]) -> str:
        """Return the names of the moving links for which `links` (m,) is true; '' if none."""
        found = [self.described.links[i] for i in self.links if links[i]]
        return urdf.quoted(found[:9]) + (' …' if found[9:] else '') if found else ''


def _other_inertia_units(about: Doubts) -> Iterator[str]:
    robot, masses = about.robot, about.robot.inertia[:, 5, 5]
    moments = np.linalg.eigvalsh(robot.inertia[:, :3, :3])[:, -1]  # about each body's joint
    for i in map(int, np.flatnonzero(
            (masses > 0.0) & (moments > masses * (GYRATION * about.size)**2))):
        yield (f"{_carried(robot, i)}, moved by '{robot.joints[i]}', has a moment of inertia of "
               f'{moments[i]:.3g} kg m² with a mass of {masses[i]:.3g} kg, as if the mass were '
               f'{np.sqrt(moments[i] / masses[i]):.3g} m from the joint, of a robot of about '
               f'{about.size:.2g} m: check the units of <inertia> (kg mm²? g cm²?)')


def _millimetres(about: Doubts) -> Iterator[str]:
    described = about.described
    far = np.linalg.norm(described.T_parent_link[:, :3, 3], axis=1)
    for i in [i for i in about.links if far[i] > FARTHEST]:
        yield (f"joint '{described.joints[i]}': its <origin> is {far[i]:.3g} m from the link "
               f"'{described.links[described.parent[i]]}': millimetres? A URDF has metres")
    with np.errstate(invalid='ignore', divide='ignore'):
        offset = np.linalg.norm(described.inertia[:, [2, 0, 1], [4, 5, 3]], axis=1) / about.masses
    for i in [i for i in about.links if offset[i] > FARTHEST]:
        yield (f"link '{described.links[i]}': its centre of mass is {offset[i]:.3g} m from its "
               'origin: millimetres? A URDF has metres')


def _grams(about: Doubts) -> Iterator[str]:
    most = DENSEST * about.size ** 3
    if heavy := about.named(about.masses > most):
        yield (f'{heavy}: a mass above {most:.3g} kg, in a robot of about {about.size:.2g} m: '
               'grams? A URDF has kg')


def _degrees_of_origins(about: Doubts) -> Iterator[str]:
    yield from about.described.turned


def _degrees_of_limits(about: Doubts) -> Iterator[str]:
    robot = about.robot
    for i in np.flatnonzero(~(robot.prismatic | robot.spherical)):
        (low, high), speed = (limits[robot.v_index[i]]
                              for limits in (robot.position_limits, robot.velocity_limits))
        if MANY_TURNS < high - low < np.inf or VERY_FAST < speed < np.inf:
            yield (f"joint '{robot.joints[i]}': {low:g} to {high:g} rad, {speed:g} rad/s: "
                   'degrees? A URDF has radians')


def _no_rotational_inertia(about: Doubts) -> Iterator[str]:
    if points := about.named((about.masses > 0.0) & (about.described.moments[:, 2] <= NO_MOMENT)):
        yield (f'{points}: a mass without rotational inertia, as if it were a point: give ixx, '
               'iyy and izz of <inertia> [kg m²]')


def _no_mass(about: Doubts) -> Iterator[str]:
    if shaped := about.named(about.described.shaped & (about.masses == 0.0)):
        yield (f'{shaped}: a shape that moves, without a mass: its weight is not carried; add '
               '<inertial> if it has some')
    for i in map(int, np.flatnonzero(about.robot.inertia[:, 5, 5] == 0.0)):
        if _carried(about.robot, i):
            yield (f"{_carried(about.robot, i)}, moved by '{about.robot.joints[i]}', has no mass: "
                   'its weight is not carried; add <inertial> if it has some')


def _soft_limits(about: Doubts) -> Iterator[str]:
    low, high = about.described.position_limits.T
    soft_low, soft_high = about.described.soft_limits.T
    found = [f"'{about.described.joints[i]}' ({soft_low[i]:g} to {soft_high[i]:g})"
             for i in about.joints if soft_low[i] > low[i] or soft_high[i] < high[i]]
    if found:
        yield (f"the soft limits of {', '.join(found)} are not used, only those of <limit>: give "
               'them as <limit> if the arm must stay within them')


def _strong_friction(about: Doubts) -> Iterator[str]:
    described = about.described
    for i in [i for i in about.joints
              if described.coulomb_friction[i] >= described.effort_limits[i]]:
        yield (f"joint '{described.joints[i]}': its friction of {described.coulomb_friction[i]:g} "
               f'is not below its effort limit of {described.effort_limits[i]:g}: it cannot move '
               '(check the units of <dynamics friction>)')


def _finger_as_tip(about: Doubts) -> Iterator[str]:
    described, robot = about.described, about.robot
    if len(robot.tips) != 1 or len(about.joints) < 2:
        return
    i = described.links.index(robot.tip)
    while described.kinds[i] == 'fixed':
        i = int(described.parent[i])
    beside = [k for k in range(len(described.links)) if k != i
              and described.parent[k] == described.parent[i] and described.kinds[k] != 'fixed']
    mimicked = i in {mimic.source for mimic in described.mimics.values()}
    if described.joints[i] in robot.joints and (mimicked or beside):
        yield (f"tip '{robot.tip}' is moved on '{described.links[described.parent[i]]}' "
               + (f'beside {urdf.quoted(described.joints[k] for k in beside)}' if beside else
                  f"by '{described.joints[i]}', which others mimic")
               + ', as a finger is: if it is one, give the link of the gripper as tip: '
               f"'{described.links[described.parent[i]]}'")


def _carried(robot: Robot, body: int) -> str:
    """Return the names of the links of a body; '' if it has none."""
    return ', '.join(repr(link) for link, (own, _) in robot.frames.items() if own == body)


Rule = Callable[[Doubts], Iterator[str]]
RULES: tuple[tuple[type[ModelWarning], tuple[Rule, ...]], ...] = (
    (UnitWarning, (_other_inertia_units, _millimetres, _grams, _degrees_of_origins)),
    (ModelWarning, (_degrees_of_limits, _no_rotational_inertia, _no_mass, _soft_limits,
                    _strong_friction, _finger_as_tip)))


def warn_of_doubts(described: urdf.Description, robot: Robot) -> None:
    """Warn of each implausible number of a description, for the caller of `Robot.from_urdf`."""
    about = Doubts(described, robot)
    for kind, rules in RULES:
        for rule in rules:
            for text in rule(about):
                warnings.warn(text, kind, stacklevel=3)
