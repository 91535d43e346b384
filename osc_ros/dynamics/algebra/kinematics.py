# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Poses of bodies and links in numpy, and the axes of a link in a compiled kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.compile.compiled import kernel
from osc_ros.dynamics.algebra.spatial import compose, Matrix
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Placement(NamedTuple):
    """Poses of b bodies and m tips."""

    R: Array  # axes of every body, in base axes (b, 3, 3)
    p: Array  # their origins, in the base frame (b, 3) [m]
    T_tips: Array  # poses of the tips, in the base frame (m, 4, 4)

    @property
    def T_tip(self) -> Array:
        """Pose (4, 4) of the first tip."""
        return np.asarray(self.T_tips[0])


def placement(robot: Robot, q: Array) -> Placement:
    """Poses of all bodies and of the tips at joint positions q (nq,)."""
    b = len(robot.parent)
    T = np.empty((b + 1, 4, 4))
    T[-1] = np.eye(4)  # the base: index -1, the parent of the first bodies
    for i, (parent, k) in enumerate(zip(robot.parent.tolist(), robot.q_index.tolist())):
        T_joint = np.eye(4)
        if robot.spherical[i]:
            T_joint[:3, :3] = Rotation.from_quat(q[k:k + 4]).as_matrix()
        elif robot.prismatic[i]:
            T_joint[2, 3] = q[k]
        else:
            c, s = np.cos(q[k]), np.sin(q[k])
            T_joint[:2, :2] = [[c, -s], [s, c]]
        T[i] = T[parent] @ robot.T_parent_body[i] @ T_joint
    tips = [T[body] @ T_body_tip for body, T_body_tip in tip_frames(robot)]
    return Placement(T[:b, :3, :3].copy(), T[:b, :3, 3].copy(), np.array(tips))


def tip_frames(robot: Robot) -> list[tuple[int, Array]]:
    """For each tip, the index of the body that carries it, and its pose (4, 4) in that body."""
    return [robot.frames[tip] for tip in robot.tips]


def link_frame(robot: Robot, link: str) -> tuple[int, Array]:
    """Return the body that carries a link and the link's pose in it; InputError as `link_pose`."""
    if link not in robot.frames:
        raise InputError(f"frame '{link}' is not a link of robot '{robot.name}' "
                         f"(links: {', '.join(sorted(robot.frames))})")
    return robot.frames[link]


def are_adjacent(robot: Robot, link: str, other: str) -> bool:
    """Return whether links are on one body, or on bodies that a joint connects."""
    a, b = robot.frames[link][0], robot.frames[other][0]
    return a == b or a == _parent(robot, b) or b == _parent(robot, a)


def _parent(robot: Robot, body: int) -> int | None:
    """Return the body on which the joint of a body is; None for the base."""
    if body < 0:
        return None
    joint = robot.joints[body]  # several bodies in a row if it has several freedoms
    while body >= 0 and robot.joints[body] == joint:
        body = int(robot.parent[body])
    return body


def bodies_to(robot: Robot, body: int) -> list[int]:
    """Return the bodies from the base to a body, which is the last one; none for the base, -1."""
    path: list[int] = []
    while body >= 0:
        path.insert(0, body)
        body = int(robot.parent[body])
    return path


def reach(robot: Robot, link: str) -> tuple[Array, float]:
    """Origin (3,) of the first joint before a link, and its distance from the link at most [m]."""
    # The distance is the sum of the lengths of the links and of the travels of the prismatic
    # joints, an upper bound; infinite for a prismatic joint without limits.
    body, T_body_link = link_frame(robot, link)
    bodies = bodies_to(robot, body)
    if not bodies:
        return np.array(T_body_link[:3, 3]), 0.0
    frames = [*robot.T_parent_body[bodies], T_body_link]
    slides = robot.v_index[bodies][robot.prismatic[bodies]]
    travels = np.abs(robot.position_limits[slides]).max(axis=1).sum()
    lengths = sum(float(np.linalg.norm(T[:3, 3])) for T in frames[1:])
    return np.array(frames[0][:3, 3]), float(lengths + travels)


def link_pose(robot: Robot, q: Array, link: str) -> Array:
    """Pose (4, 4) of any link of the URDF in the base frame, at joint positions q (nq,)."""
    # InputError if the robot has no such link; the message lists its links.
    body, T_body_link = link_frame(robot, link)
    if body < 0:
        return np.array(T_body_link)
    at = placement(robot, q)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = at.R[body], at.p[body]
    return T @ T_body_link


def tip_jacobian(robot: Robot, q: Array) -> Array:
    """Jacobian (6, n) of the first tip, [angular; linear], in base axes; no spherical joints."""
    at = placement(robot, q)
    return point_jacobian(robot, at, robot.frames[robot.tip][0], at.T_tip[:3, 3])


def point_jacobian(robot: Robot, at: Placement, body: int, point: Array) -> Array:
    """Jacobian (6, n) of a point (3,) on a body, base axes [m]; no spherical joints."""
    J = np.zeros((6, robot.n))
    while body >= 0:
        k, axis = int(robot.v_index[body]), at.R[body][:, 2]
        if robot.prismatic[body]:
            J[3:, k] = axis
        else:
            J[:3, k], J[3:, k] = axis, np.cross(axis, point - at.p[body])
        body = int(robot.parent[body])
    return J


def motion_transforms(R: Array, p: Array) -> Array:
    """Motion transforms X (n, 6, 6) from a frame to n frames: [ω; v] to [Rᵀω; Rᵀ(v + ω × p)]."""
    # Axes R (n, 3, 3) and origins p (n, 3) of the n frames are given in the first frame.
    X = np.zeros((len(R), 6, 6))
    X[:, :3, :3] = X[:, 3:, 3:] = R.transpose(0, 2, 1)
    across = np.cross(np.eye(3), p[:, None, :])  # rows e × p: ω × p = ω @ across
    X[:, 3:, :3] = R.transpose(0, 2, 1) @ across.transpose(0, 2, 1)
    return X


@kernel
def put_link_axes(rotations, turns, places, q, axes):
    """Write the rotation of a link in the base at q to axes[:3, :3]."""
    # `LinkAxes` computes the constants `rotations`, `turns` and `places` of the link.
    R: Matrix = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    for k in range(len(rotations)):
        S = rotations[k]
        R = compose(R, (S[0, 0], S[0, 1], S[0, 2], S[1, 0], S[1, 1], S[1, 2],
                        S[2, 0], S[2, 1], S[2, 2]))
        if turns[k] != 0:
            c, s = np.cos(q[places[k]]), np.sin(q[places[k]])
            R = compose(R, (c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0))
    for i in range(3):
        for j in range(3):
            axes[i, j] = R[3 * i + j]


class LinkAxes:
    """Axes of one link in the base frame, for a path of revolute and prismatic joints."""

    # InputError as of `link_pose`.

    def __init__(self, robot: Robot, link: str) -> None:
        body, T_body_link = link_frame(robot, link)
        path = bodies_to(robot, body)
        # see `put_link_axes`
        self.rotations = np.array([*robot.T_parent_body[path, :3, :3], T_body_link[:3, :3]])
        self.turns = np.array([*~robot.prismatic[path], False], dtype=np.int64)
        self.places = np.array([*robot.q_index[path], 0], dtype=np.int64)
        self._axes = np.eye(4)

    def at(self, q: Array) -> Array:
        """Pose (4, 4) with the link's axes and zero position; the next call overwrites it."""
        put_link_axes(self.rotations, self.turns, self.places, q, self._axes)
        return self._axes
