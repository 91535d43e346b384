# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Look-at tasks, which point an axis of a link at a point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined
from osc_ros.control.tasks.kind import Kind
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    at_most,
    compose,
    cross,
    dot,
    rotation_of,
    sub,
    unrotate,
    vector_at,
    ZERO,
)
from osc_ros.errors import InputError

Array = NDArray[np.float64]

AHEAD = 1.0  # distance of the first set-point, on the axis [m]
# Distances of the point from the link's origin [m]: below OFF the task is not active, above ON it
# is fully active, because near the origin the direction to the point turns at speed / distance.
OFF, ON = 0.1, 0.2
FASTEST = 100.0  # largest speed of the point that the task uses [m/s]
BEHIND = 0.1  # sine of the angle to the opposite direction at which the error begins to fade out
SHORTEST, LONGEST = 1e-3, 1e3  # accepted length of the axis


@dataclass(frozen=True)
class LookAt(Kind):
    """
    An axis through the origin of the link points at a point: two degrees of freedom.

    Rotation about the axis and the distance to the point are free. With d the unit vector from the
    origin of the link to the point c, ρ their distance, and (t₁, t₂, axis) orthonormal and fixed
    in the link, the coordinates have the velocities

        tᵢ · (ω + d × v / ρ - d × ċ / ρ),  i = 1, 2

    of the axis relative to the line of sight. The error is the rotation vector from the axis to d;
    its component along the axis is 0. Only the position of the set-point is used.

    If the point is near the link's origin, the activation of the task fades out, to 0 at OFF: its
    two degrees of freedom are then available to the tasks below and to the posture. The point may
    be behind the link: exactly opposite to the axis, all directions of rotation are equally short.
    Within the angle BEHIND of this direction, the error used for control fades out, to 0 at half
    a turn. This equilibrium is unstable.

    Attributes
    ----------
    axis : tuple of 3 float
        Axis in the link's frame, of any length from SHORTEST to LONGEST.

    Raises
    ------
    InputError
        The axis is not three finite numbers, or of another length.

    """

    name: ClassVar[str] = 'look_at'
    controls: ClassVar[str] = 'the direction of one axis of the link, which points at a point'
    axes: ClassVar[tuple[str, ...] | None] = ('motion',) * 2 + ('free',) * 4
    goals: ClassVar[tuple[str, ...]] = ('point', 'twist', 'trajectory')

    axis: tuple[float, ...] = field(default=(0.0, 0.0, 1.0), metadata={
        'description': 'Axis of the link, in its frame, that points at the target; of any length; '
                       'kind look_at'})

    def __post_init__(self) -> None:
        """Raise for an axis of wrong shape or length."""
        axis = np.array(self.axis, dtype=np.float64)
        if axis.shape != (3,) or not SHORTEST <= float(np.linalg.norm(axis)) <= LONGEST:
            raise InputError(f'axis {axis.tolist()}: give three numbers, a vector of '
                             f'length {SHORTEST:g} to {LONGEST:g}')
        object.__setattr__(self, 'axis', tuple(axis.tolist()))

    def numbers(self) -> Array:
        """Rotation (9,), by rows, whose third column is the axis, in the link's frame."""
        z = np.array(self.axis) / np.linalg.norm(self.axis)
        # the axis of the link that is closest to perpendicular to z; the first of equal ones
        x = np.eye(3)[np.argmin(np.abs(z) - 1e-9 * np.array([2.0, 1.0, 0.0]))]
        x = x - (x @ z) * z
        x /= np.linalg.norm(x)
        return np.array([x, np.cross(z, x), z]).T.ravel()

    def set_point(self, pose: Array) -> Array:
        """Point at the distance AHEAD on the axis, as a pose (4, 4)."""
        there = np.eye(4)
        there[:3, 3] = pose[:3, 3] + AHEAD * pose[:3, :3] @ self.numbers()[2::3]
        return there

    def set_point_twist(self, pose: Array, twist: Array) -> Array:
        """Twist (6,) of this point; its angular part is 0."""
        way = self.set_point(pose)[:3, 3] - pose[:3, 3]
        return np.concatenate([np.zeros(3), twist[3:] + np.cross(twist[:3], way)])

    def error(self, pose: Array, goal: Array) -> Array:
        """Rotation vector from the axis to the point, then three zeros (6,), base axes."""
        R = pose[:3, :3] @ self.numbers().reshape(3, 3)
        axis, way = R[:, 2], goal[:3, 3] - pose[:3, 3]
        turn = np.cross(axis, way)
        angle, length = np.arctan2(np.linalg.norm(turn), axis @ way), np.linalg.norm(turn)
        direction = turn / length if length > 0.0 else R[:, 0]
        return np.concatenate([angle * direction, np.zeros(3)])

    def set_point_with_link(self, set_point: Array, T: Array) -> Array:
        """The unchanged set-point (4, 4), because the point does not move with the link."""
        return set_point


@inlined
def _aim(axis, side, d):
    """Rotation vector from an axis to a direction d, and the fraction of it used for control."""
    turn = cross(axis, d)
    sine, cosine = np.sqrt(dot(turn, turn)), dot(axis, d)
    if sine > 0.0:
        share = min(sine / BEHIND, 1.0) if cosine < 0.0 else 1.0
        return along(np.arctan2(sine, cosine) / sine, turn, ZERO), share
    return along(np.pi if cosine < 0.0 else 0.0, side, ZERO), 0.0


@inlined
def _put_map(k, S):
    """Write to S (36,), row by row, the matrix that maps a twist (ω, v) to (ω + k × v, v)."""
    for i in range(36):
        S[i] = 1.0 if i % 7 == 0 else 0.0
    S[4], S[5] = -k[2], k[1]
    S[9], S[11] = k[2], -k[0]
    S[15], S[16] = -k[1], k[0]


@inlined
def _put_turning(R, x, moves, y):
    """Write an angular velocity or acceleration in the task's axes; the linear part is 0."""
    turned = unrotate(R, x)
    for i in range(3):
        y[i] = moves[i] * turned[i]
        y[3 + i] = 0.0


@inlined
def _frame(m, d, i):
    """Rotation of the task's frame at the last pose of the link; its third column is the axis."""
    own = m.kind_numbers[i]
    return compose(rotation_of(d.task_pose[i]), (own[0], own[1], own[2], own[3], own[4], own[5],
                                                 own[6], own[7], own[8]))


@inlined
def point_on_axis(m, d, i, target):
    """Return `feedback.guided_by_link` for a point on the axis, as far as the target is."""
    pose, R = d.task_pose[i], _frame(m, d, i)
    x = (pose[0, 3], pose[1, 3], pose[2, 3])
    way = sub((target[0, 3], target[1, 3], target[2, 3]), x)
    distance = np.sqrt(dot(way, way))
    way = along(distance, (R[2], R[5], R[8]), ZERO)
    v = add(vector_at(d.task_twist[i], 3), cross(vector_at(d.task_twist[i], 0), way))
    return (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), add(x, way), ZERO, v, distance


@inlined
def put_look_at(m, d, i):
    """Write the commands of level i for this tick, see `Kind`; return the share."""
    moves, pose, twist, R = m.moves[i], d.task_pose[i], d.task_twist[i], _frame(m, d, i)
    axis, side = (R[2], R[5], R[8]), (R[0], R[3], R[6])
    omega, v = vector_at(twist, 0), vector_at(twist, 3)
    c = (d.target_pose[i, 0, 3], d.target_pose[i, 1, 3], d.target_pose[i, 2, 3])
    dc = at_most(FASTEST, (d.target_twist[i, 3], d.target_twist[i, 4], d.target_twist[i, 5]))
    ddc = (d.target_acceleration[i, 3], d.target_acceleration[i, 4], d.target_acceleration[i, 5])
    x = sub(c, (pose[0, 3], pose[1, 3], pose[2, 3]))
    distance = np.sqrt(dot(x, x))
    k = along(1.0 / max(distance, OFF) ** 2, x, ZERO)  # d / ρ
    sight = cross(k, sub(dc, v))  # angular velocity of the line of sight
    wanted = cross(k, dc)
    bend = add(along(-2.0 * dot(k, sub(dc, v)), sight, cross(k, ddc)), cross(sight, omega))
    error, share = _aim(axis, side, along(1.0 / max(distance, OFF), x, ZERO))
    _put_turning(R, error, moves, d.level_spring[i])
    for a in range(3):
        d.level_spring[i, a] *= share
        d.task_error[i, a], d.task_error[i, 3 + a] = error[a], 0.0
        d.task_lag[i, a], d.task_lag[i, 3 + a] = 0.0, x[a] - distance * axis[a]
    for a in range(9):
        d.task_axes[i, a] = R[a]
    _put_turning(R, sub(sight, omega), moves, d.level_rate[i])
    _put_turning(R, wanted, moves, d.level_velocity[i])
    _put_turning(R, bend, moves, d.level_root[i])
    d.is_mapped[i] = 1
    _put_map(k, d.level_map[i])
    near = min(max((distance - OFF) / (ON - OFF), 0.0), 1.0)
    return near * near * near * (10.0 - 15.0 * near + 6.0 * near * near)
