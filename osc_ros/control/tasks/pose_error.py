# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tasks on the pose of a link, and their error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.task_axes import axes_of, put_in_axes, put_in_base
from osc_ros.dynamics.algebra.rotation import rotation_of, rotation_vector
from osc_ros.dynamics.algebra.spatial import compose, transpose, vector_at

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pose(Kind):
    """
    The default kind: the link follows a pose, along the axes of the task.

    The coordinates are those of the link's twist, so S is the identity. For the error see
    `pose_error`.

    """

    name: ClassVar[str] = 'pose'
    controls: ClassVar[str] = 'position and orientation of the link along chosen axes'

    def set_point(self, pose: Array) -> Array:
        """A copy of the pose (4, 4)."""
        return pose.copy()

    def set_point_twist(self, pose: Array, twist: Array) -> Array:
        """Return the twist (6,) of the link."""
        return twist

    def error(self, pose: Array, goal: Array) -> Array:
        """Pose error (6,) from `pose` to `goal`, see `pose_error`."""
        return pose_error(pose, np.ascontiguousarray(goal))

    def set_point_with_link(self, set_point: Array, T: Array) -> Array:
        """Set-point (4, 4) after the link's frame is moved by T (4, 4) on its body."""
        return set_point @ T


@inlined
def put_error(pose, target, error):
    """Write the rotation vector and the displacement (6,) from a pose (4, 4) to another."""
    turn = rotation_vector(compose(rotation_of(target), transpose(rotation_of(pose))))
    for i in range(3):
        error[i] = turn[i]
        error[3 + i] = target[i, 3] - pose[i, 3]


@inlined
def put_pose(m, d, i):
    """Write the commands of level i for this tick, see `Kind`; return 1."""
    R, moves, error, rate = axes_of(d, i), m.moves[i], d.task_error[i], d.level_rate[i]
    put_error(d.task_pose[i], d.target_pose[i], error)
    for k in range(6):
        rate[k] = d.target_twist[i, k] - d.task_twist[i, k]
    put_in_axes(R, rate, moves, rate)
    put_in_axes(R, error, moves, d.level_spring[i])
    put_in_base(R, d.level_spring[i], d.task_lag[i])
    put_in_axes(R, d.target_acceleration[i], moves, d.level_root[i])
    put_in_axes(R, d.target_twist[i], moves, d.level_velocity[i])
    return 1.0


@inlined
def motion_of_link(d, i):
    """Return `kind_table.guided_by_link` for a pose: the motion of the link at the last tick."""
    pose, twist = d.task_pose[i], d.task_twist[i]
    return (rotation_of(pose), (pose[0, 3], pose[1, 3], pose[2, 3]), vector_at(twist, 0),
            vector_at(twist, 3), 0.0)


@kernel
def _pose_error(pose, target, error):
    put_error(pose, target, error)


def pose_error(pose: Array, target: Array) -> Array:
    """Pose error (6,) from a pose (4, 4) to a target (4, 4), base axes, [angular; linear]."""
    # Angular: rotation vector from the present orientation to the target's, of length 0 to π
    # [rad]. Linear: difference of the positions [m].
    error = np.empty(6)
    _pose_error(pose, target, error)
    return error
