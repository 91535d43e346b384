# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Poses from the <origin> elements of a URDF, and numbers from attributes."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import ModelError
from osc_ros.model.understood import require_known

Array = NDArray[np.float64]

QUATERNION = 7  # count of numbers of an origin with a quaternion
GIMBAL = 1e-8  # largest cosine of a pitch that counts as ±90 degrees
UNIT = 0.01  # accepted difference of the length of a quaternion from 1


def origin_pose(element: ElementTree.Element, where: str = 'the robot description') -> Array:
    """Return the pose (4, 4) of the <origin> of an element; the identity if there is none."""
    # ModelError, which begins with `where`, for wrong numbers or an unknown attribute
    return np.asarray(poses([origin(element, where)])[0])


def replace_quaternions(robot: ElementTree.Element) -> None:
    """Replace quat_xyzw by rpy in a URDF, for programs that ignore it, such as MuJoCo 4.0."""
    for element in robot.iter():
        found = element.find('origin')
        if found is not None and 'quat_xyzw' in found.attrib:
            R = origin_pose(element)[:3, :3]
            cosine = math.hypot(R[0, 0], R[1, 0])
            pitch = math.atan2(-R[2, 0], cosine)
            if cosine > GIMBAL:
                roll, yaw = math.atan2(R[2, 1], R[2, 2]), math.atan2(R[1, 0], R[0, 0])
            else:  # only the sum or the difference of both is determined
                roll, yaw = math.atan2(-R[1, 2], R[1, 1]), 0.0
            del found.attrib['quat_xyzw']
            found.set('rpy', f'{roll!r} {pitch!r} {yaw!r}')


def origin(element: ElementTree.Element, where: str) -> tuple[float, ...]:
    """Return x, y, z [m] and roll, pitch, yaw [rad], or the quaternion x, y, z, w (URDF 1.1)."""
    found = element.find('origin')
    if found is None:
        return (0.0,) * 6
    require_known(found, where)
    position = numbers(found, 'xyz', where, '0 0 0', 3)
    if 'quat_xyzw' not in found.attrib:
        return position + numbers(found, 'rpy', where, '0 0 0', 3)
    if 'rpy' in found.attrib:
        raise ModelError(f'{where}: its <origin> has rpy and quat_xyzw: give one of them')
    quaternion = numbers(found, 'quat_xyzw', where, None, 4)
    length = math.hypot(*quaternion)
    if not abs(length - 1.0) <= UNIT:
        raise ModelError(f"{where}: <origin quat_xyzw='{found.get('quat_xyzw')}'> has the length "
                         f'{length:.4g}, give a unit quaternion x y z w')
    return position + tuple(x / length for x in quaternion)


def poses(origins: list[tuple[float, ...]]) -> Array:
    """Return the poses, (m, 4, 4), of m results of `origin`."""
    x, y, z, roll, pitch, yaw = np.array([one[:6] for one in origins]).T
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    zero, one = np.zeros_like(x), np.ones_like(x)
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr, x],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr, y],
        [-sp, cp * sr, cp * cr, z],
        [zero, zero, zero, one],
    ]
    T = np.ascontiguousarray(np.array(rows).transpose(2, 0, 1))
    for i, one in enumerate(origins):
        if len(one) == QUATERNION:
            T[i, :3, :3] = _rotation(*one[3:])
    return T


def _rotation(x: float, y: float, z: float, w: float) -> Array:
    """Return the rotation (3, 3) of a unit quaternion."""
    return np.array([
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)]])


def numbers(
    element: ElementTree.Element, attribute: str, where: str, default: str | None, count: int = 1,
) -> tuple[float, ...]:
    """Return the finite numbers of an attribute; otherwise raise ModelError, with `where`."""
    text = element.get(attribute, default)
    if text is None:
        raise ModelError(f"{where}: <{element.tag}> has no attribute '{attribute}'")
    try:
        found = tuple(map(float, text.split()))
    except ValueError:
        found = (math.nan,)
    if len(found) == count and all(map(math.isfinite, found)):
        return found
    accepted = 'a finite number' if count == 1 else f'{count} finite numbers'
    raise ModelError(
        f"{where}: <{element.tag} {attribute}='{text}'> is not {accepted}")
