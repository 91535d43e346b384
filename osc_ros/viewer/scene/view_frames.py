# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Converts between pose matrices and the scene's quaternions w x y z."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]


def wxyz_of(R: Array) -> Array:
    """Return the quaternion w x y z of a rotation matrix (3, 3)."""
    x, y, z, w = Rotation.from_matrix(R).as_quat()
    return np.array([w, x, y, z])


def pose_of(handle: Any) -> Array:
    """Return the pose (4, 4) of a node of the scene."""
    w, x, y, z = handle.wxyz
    T = np.eye(4)
    T[:3, :3] = Rotation.from_quat([x, y, z, w]).as_matrix()
    T[:3, 3] = handle.position
    return T


def displaced_pose(pose: Array, error: Array) -> Array:
    """Return the pose (4, 4) that is displaced from `pose` by `error` (6,), [angular; linear]."""
    T = pose.copy()
    T[:3, :3] = Rotation.from_rotvec(error[:3]).as_matrix() @ pose[:3, :3]
    T[:3, 3] += error[3:]
    return T
