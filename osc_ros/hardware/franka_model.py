# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Check that the joints, limits and kinematics of a robot description are those of an FR3."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.model.urdf import description

Array = NDArray[np.float64]

JOINTS = 7
# Position limits of the joints, from the description in libfranka's tests [rad]. Limits of a robot
# description may exceed them by TOLERANCE, because descriptions are rounded differently.
POSITION_LIMITS = np.array([[-2.7501, 2.7501], [-1.7918, 1.7918], [-2.9065, 2.9065],
                            [-3.0481, -0.1458], [-2.8101, 2.8101], [0.54092, 4.5205],
                            [-3.0196, 3.0196]])
TOLERANCE = 0.02  # [rad]
SIDE, TURN = 0.005, 0.02  # permitted deviation of the flange [m, rad]


class FrankaModel:
    """Kinematics of the seven joints in a robot description."""

    # InputError: number, order or limits of the joints are not those of an FR3

    def __init__(self, urdf: str, joint_names: tuple[str, ...]) -> None:
        tree = description(urdf)
        if len(joint_names) != JOINTS:
            raise InputError(f"hardware 'franka' has {JOINTS} joints: given are "
                             f"{len(joint_names)}, {', '.join(joint_names)}")
        self._origins, self._axes, below = [], [], -1
        for k, name in enumerate(joint_names):
            if name not in tree.joints:
                raise InputError(f"hardware 'franka': joint '{name}' is not in the robot "
                                 'description')
            link = tree.joints.index(name)
            _require_limits(k, name, *tree.position_limits[link])
            origin, parent = tree.T_parent_link[link], int(tree.parent[link])
            while k and parent not in (below, -1):  # links joined by fixed joints
                origin, parent = tree.T_parent_link[parent] @ origin, int(tree.parent[parent])
            if k and parent != below:
                raise InputError(f"hardware 'franka': joint '{name}' does not follow joint "
                                 f"'{joint_names[k - 1]}': give the joints, base first")
            self._origins.append(origin)
            self._axes.append(tree.axis[link])
            below = link

    def difference(self, q: Array, flange: Array) -> str:
        """Return how the flange differs from the description, as a text; '' if it does not."""
        # `flange` (4, 4): measured pose at q (7,), in the frame of the first joint's parent link.
        # The position along the flange's axis is not compared, because some arms report the last
        # joint instead of the flange.
        described = np.eye(4)
        for origin, axis, angle in zip(self._origins, self._axes, q):
            described = described @ origin @ _turned(axis, angle)
        offset = described[:3, :3].T @ (flange[:3, 3] - described[:3, 3])
        side = float(np.hypot(offset[0], offset[1]))
        turn = float(np.linalg.norm(flange[:3, :3] - described[:3, :3]) / math.sqrt(2.0))
        if side <= SIDE and turn <= TURN:
            return ''
        return (f'the flange is {side * 1e3:.0f} mm beside and {math.degrees(turn):.0f}° from '
                'its pose in the robot description. The joints are in another order, or the '
                'description is of another arm: use fr3.urdf and its joints, base first')


def pose_of(x: float, y: float, z: float, roll: float, pitch: float, yaw: float) -> Array:
    """Pose (4, 4) of a position [m] and of roll, pitch and yaw as in URDF [rad]."""
    axes = np.eye(3)
    pose = _turned(axes[2], yaw) @ _turned(axes[1], pitch) @ _turned(axes[0], roll)
    pose[:3, 3] = x, y, z
    return pose


def _require_limits(k: int, name: str, lower: float, upper: float) -> None:
    """Raise InputError if the range is not within that of joint k."""
    least, most = POSITION_LIMITS[k] + (-TOLERANCE, TOLERANCE)
    if not least <= lower <= upper <= most:
        raise InputError(
            f"hardware 'franka': in the robot description '{name}' moves from {lower:.4g} to "
            f'{upper:.4g} rad; for joint {k + 1} of an FR3 it must be within '
            f'{least:.4g} to {most:.4g} rad. Use fr3.urdf, or the description of your arm')


def _turned(axis: Array, angle: float) -> Array:
    """Rotation about an axis, as a pose (4, 4)."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    pose = np.eye(4)
    pose[:3, :3] += math.sin(angle) * cross + (1.0 - math.cos(angle)) * cross @ cross
    return pose
