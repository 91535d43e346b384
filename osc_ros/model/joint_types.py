# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The URDF joint types, each as a sequence of elementary joints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class JointType(NamedTuple):
    """A type of joint."""

    # elementary joints from parent to child: type ('revolute', 'prismatic' or 'spherical'), and a
    # rotation (4, 4) whose third column is the joint's axis, in a frame whose z axis is the axis
    # of the URDF joint
    steps: tuple[tuple[str, Array], ...]
    has_axis: bool = True  # whether <axis> is read; if not, the axes are those of the frame
    has_range: bool = True  # whether <limit> may bound the position


_ALONG_X = np.eye(4)[:, [1, 2, 0, 3]]
_ALONG_Y = np.eye(4)[:, [2, 0, 1, 3]]
_ALONG_Z = np.eye(4)

JOINT_TYPES = {
    'revolute': JointType((('revolute', _ALONG_Z),)),
    'continuous': JointType((('revolute', _ALONG_Z),), has_range=False),
    'prismatic': JointType((('prismatic', _ALONG_Z),)),
    'fixed': JointType((), has_axis=False),
    'planar': JointType((('prismatic', _ALONG_X), ('prismatic', _ALONG_Y),
                         ('revolute', _ALONG_Z))),
    'floating': JointType((('prismatic', _ALONG_X), ('prismatic', _ALONG_Y),
                           ('prismatic', _ALONG_Z), ('spherical', _ALONG_Z)), has_axis=False),
}
# MOVING: all types but 'fixed'. OF_ONE_FREEDOM: types with one degree of freedom; only joints of
# these types may have limits, mimic another joint, or be locked at a position.
MOVING = tuple(name for name, one in JOINT_TYPES.items() if one.steps)
OF_ONE_FREEDOM = tuple(name for name in MOVING if len(JOINT_TYPES[name].steps) == 1
                       and JOINT_TYPES[name].steps[0][0] != 'spherical')
