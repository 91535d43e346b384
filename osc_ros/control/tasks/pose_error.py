# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tasks on the pose of a link, and their error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.task_numbers import (
    ACCELERATION,
    AXES,
    axes_of,
    ERROR,
    LAG,
    put_in_axes,
    put_in_base,
    SHAPE,
    TARGET,
    TWIST,
)
from osc_ros.dynamics.algebra.rotation import rotation_of, rotation_vector
from osc_ros.dynamics.algebra.spatial import compose, transpose
from osc_ros.dynamics.priority import level_row

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
def put_pose(task, pose, twist, row):
    """Write the task's row for this tick, see `Kind`; return 1, the factor on its activation."""
    R, moves = axes_of(task), task[SHAPE:SHAPE + 6]
    target_twist, error = task[TWIST:ACCELERATION], task[ERROR:LAG]
    rate = row[level_row.RATE:level_row.RATE + 6]
    e = row[level_row.SPRING:level_row.SPRING + 6]
    put_error(pose, view(task, TARGET, (4, 4)), error)
    for i in range(6):
        rate[i] = target_twist[i] - twist[i]
    put_in_axes(R, rate, moves, rate)
    put_in_axes(R, error, moves, e)
    put_in_base(R, e, task[LAG:LAG + 6])
    put_in_axes(R, task[ACCELERATION:AXES], moves, row[level_row.ROOT:level_row.ROOT + 6])
    put_in_axes(R, target_twist, moves, row[level_row.VELOCITY:level_row.VELOCITY + 6])
    return 1.0


@kernel
def _pose_error(pose, target, error):
    put_error(pose, target, error)


def pose_error(pose: Array, target: Array) -> Array:
    """
    Pose error (6,) from a pose (4, 4) to a target (4, 4), base axes, [angular; linear] [rad, m].

    The angular part is the rotation vector from the present orientation to the target's, whose
    length is the angle between them, 0 to π. The linear part is the difference of the positions.

    """
    error = np.empty(6)
    _pose_error(pose, target, error)
    return error
