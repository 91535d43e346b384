# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Writes estimated inertial parameters and friction into a robot description."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.identification.fit.inertial import (
    center_and_inertia,
    is_consistent,
    of_point_and_inertia,
    transformed,
)
from osc_ros.model.origin import origin_pose
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

_ENTRIES = ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')
_UPPER = np.triu_indices(3)


def corrected_urdf(text: str, robot: Robot, parameters: Array,
                   friction: tuple[Array, Array] | None = None) -> str:
    """Return URDF text with other inertial parameters (b, 10) of the robot's bodies."""
    # The links that are fixed to a joint's child link keep their inertia, and the child link gets
    # the difference; if that is not physically possible, it gets all, and they lose <inertial>.
    # `friction`: Coulomb, viscous, for <dynamics> [N m], [N m s/rad]. InputError: no such joint.
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.fromstring(text, parser)
    links = {link.get('name', ''): link for link in root.iter('link')}
    joints = {joint.get('name', ''): joint for joint in root.findall('joint')}
    for body, name in enumerate(robot.joints):
        if parameters[body, 0] > 0.0:
            if name not in joints:
                raise InputError(f"the description has no joint '{name}': give the one "
                                 'that the robot is made from')
            main = joints[name].find('child').get('link')  # type: ignore[union-attr]
            _correct(links, robot, body, str(main), parameters[body])
    if friction is not None:
        for i, name in enumerate(robot.joint_names):
            dynamics = joints[name].find('dynamics')
            if dynamics is None:
                dynamics = ElementTree.SubElement(joints[name], 'dynamics')
            dynamics.set('friction', f'{friction[0][i]:.6g}')
            dynamics.set('damping', f'{friction[1][i]:.6g}')
    return '<?xml version="1.0"?>\n' + ElementTree.tostring(root, encoding='unicode') + '\n'


def _correct(links: dict[str, ElementTree.Element], robot: Robot, body: int, main: str,
             parameters: Array) -> None:
    """Write the inertial parameters (10,) of a body to its links."""
    others = {name: T for name, (carrier, T) in robot.frames.items()
              if carrier == body and name != main and name in links
              and links[name].find('inertial') is not None}
    rest = parameters - sum((transformed(_read(links[name]), T) for name, T in others.items()),
                            np.zeros(10))
    if others and not (rest[0] > 0.0 and is_consistent(rest)):
        rest = parameters
        for name in others:
            links[name].remove(links[name].find('inertial'))  # type: ignore[arg-type]
    T_main_body = np.asarray(np.linalg.inv(robot.frames[main][1]), dtype=np.float64)
    _write(links[main], transformed(rest, T_main_body))


def _numbers(element: ElementTree.Element | None, name: str, default: str) -> Array:
    text = default if element is None else element.get(name, default)
    return np.array([float(part) for part in text.split()])


def _read(link: ElementTree.Element) -> Array:
    """Return the inertial parameters (10,) of a link in its frame."""
    inertial = link.find('inertial')
    if inertial is None:
        return np.zeros(10)
    T = origin_pose(inertial)
    R = T[:3, :3]
    inertia = np.zeros((3, 3))
    inertia[_UPPER] = [float(_numbers(inertial.find('inertia'), name, '0')[0])
                       for name in _ENTRIES]
    inertia = inertia + np.triu(inertia, 1).T
    return of_point_and_inertia(float(_numbers(inertial.find('mass'), 'value', '0')[0]),
                                T[:3, 3], R @ inertia @ R.T)


def _write(link: ElementTree.Element, parameters: Array) -> None:
    """Replace a link's <inertial> by parameters (10,) in the link's frame."""
    old = link.find('inertial')
    at = 0 if old is None else list(link).index(old)
    if old is not None:
        link.remove(old)
    center, inertia = center_and_inertia(parameters)
    new = ElementTree.Element('inertial')
    ElementTree.SubElement(new, 'origin', xyz=' '.join(f'{x:.9g}' for x in center), rpy='0 0 0')
    ElementTree.SubElement(new, 'mass', value=f'{parameters[0]:.9g}')
    ElementTree.SubElement(new, 'inertia', dict(zip(
        _ENTRIES, (f'{x:.9g}' for x in inertia[_UPPER]), strict=True)))
    new.tail = '\n    '
    link.insert(at, new)
