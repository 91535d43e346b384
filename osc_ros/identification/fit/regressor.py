# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The regressor Y of the inertial parameters π: the torques are Y(q, q̇, q̈) π.

Recursive Newton-Euler sweeps compute it, outward for velocities and accelerations, inward for
forces. The force of every body is a linear map of its ten parameters: f = I a + v ×* I v
(Featherstone, "Rigid body dynamics algorithms", section 5.3; Atkeson, An and Hollerbach,
"Estimation of inertial parameters of manipulator loads and links", Int. J. Robotics Research 5
(1986)). Array operations treat all samples of a sweep together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.identification.fit.inertial import SIZE
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

BLOCK = 128  # samples per sweep; more would exceed the cache


class Sweep(NamedTuple):
    """Motion of the bodies at k samples."""

    R: Array  # (b, k, 3, 3) axes of every body in its parent's frame
    p: Array  # (b, k, 3) origin of every body in its parent's frame [m]
    R_base: Array  # (b, k, 3, 3) axes in the base frame
    p_base: Array  # (b, k, 3) origin in the base frame [m]
    v: Array  # (b, k, 6) spatial velocity [angular; linear] about the body's origin, in its axes
    a: Array  # (b, k, 6) acceleration minus gravity, likewise


def regressor(robot: Robot, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
    """Return Y (k, n, 10 b) for positions q (k, nq), velocities and accelerations (k, n)."""
    # For any tree of revolute, prismatic and spherical joints, without the torques of the rotor
    # inertias, rotor_inertia * qdd. InputError for a wrong shape, or a number that is not finite.
    count = len(np.atleast_2d(q))
    q = finite_array('q', np.atleast_2d(q), (count, robot.nq))
    qd = finite_array('qd', np.atleast_2d(qd), (count, robot.n))
    qdd = finite_array('qdd', np.atleast_2d(qdd), (count, robot.n))
    parts = [slice(k, k + BLOCK) for k in range(0, count, BLOCK)]
    return np.concatenate([regressor_of(robot, sweep(robot, q[part], qd[part], qdd[part]))
                           for part in parts])


def regressor_of(robot: Robot, motion: Sweep) -> Array:
    """Return Y (k, n, 10 b) for the motion of the bodies."""
    bodies, count = len(robot.parent), motion.v.shape[1]
    Y = np.zeros((count, robot.n, SIZE * bodies))
    for body in range(bodies):
        force = _force_columns(motion.v[body], motion.a[body])
        at = body
        while True:
            rows = robot.v_index[at]
            columns = slice(SIZE * body, SIZE * (body + 1))
            if robot.spherical[at]:
                Y[:, rows:rows + 3, columns] = force[:, :3]
            else:
                Y[:, rows, columns] = force[:, 5 if robot.prismatic[at] else 2]
            if robot.parent[at] < 0:
                break
            force = _to_parent(motion.R[at], motion.p[at], force)
            at = int(robot.parent[at])
    return Y


def sweep(robot: Robot, q: Array, qd: Array, qdd: Array) -> Sweep:
    """Return the motion of all bodies at samples q (k, nq), qd (k, n), qdd (k, n)."""
    bodies, count = len(robot.parent), len(q)
    R, R_base = np.empty((2, bodies, count, 3, 3))
    p, p_base = np.empty((2, bodies, count, 3))
    v, a = np.zeros((2, bodies + 1, count, 6))  # index -1: the base, parent of the first body
    a[-1, :, 3:] = -robot.gravity
    for i, parent in enumerate(robot.parent.tolist()):
        T, k, j = robot.T_parent_body[i], robot.q_index[i], robot.v_index[i]
        R[i], p[i] = T[:3, :3] @ _joint_rotation(robot, i, q), T[:3, 3]
        if robot.prismatic[i]:
            p[i] += q[:, k, None] * T[:3, 2]
        joint = slice(0, 3) if robot.spherical[i] else slice(5, 6) if robot.prismatic[i] else (
            slice(2, 3))
        width = 3 if robot.spherical[i] else 1
        rate = np.zeros((count, 6))
        rate[:, joint] = qd[:, j:j + width]
        v[i] = _to_body(R[i], p[i], v[parent]) + rate
        a[i] = _to_body(R[i], p[i], a[parent])
        a[i, :, joint] += qdd[:, j:j + width]
        a[i, :, :3] += np.cross(v[i, :, :3], rate[:, :3])
        a[i, :, 3:] += (np.cross(v[i, :, :3], rate[:, 3:]) + np.cross(v[i, :, 3:], rate[:, :3]))
        R_base[i] = R[i] if parent < 0 else R_base[parent] @ R[i]
        p_base[i] = p[i] if parent < 0 else p_base[parent] + _rotated(R_base[parent], p[i])
    return Sweep(R, p, R_base, p_base, v[:bodies], a[:bodies])


def link_positions(robot: Robot, motion: Sweep, link: str) -> Array:
    """Return the positions (k, 3) of a moving link in the base frame [m]."""
    body, T = robot.frames[link]
    return np.asarray(motion.p_base[body] + motion.R_base[body] @ T[:3, 3])


def _joint_rotation(robot: Robot, body: int, q: Array) -> Array:
    """Return the rotations (k, 3, 3) of a joint."""
    k, turn = robot.q_index[body], np.zeros((len(q), 3, 3))
    turn[:] = np.eye(3)
    if robot.spherical[body]:
        x, y, z, w = (q[:, k:k + 4] / np.linalg.norm(q[:, k:k + 4], axis=1, keepdims=True)).T
        turn[:] = np.array([
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ]).transpose(2, 0, 1)
    elif not robot.prismatic[body]:
        c, s = np.cos(q[:, k]), np.sin(q[:, k])
        turn[:, 0, 0], turn[:, 0, 1], turn[:, 1, 0], turn[:, 1, 1] = c, -s, s, c
    return turn


def _rotated(R: Array, x: Array) -> Array:
    return np.asarray((R @ x[..., None])[..., 0])


def _unrotated(R: Array, x: Array) -> Array:
    return np.asarray((x[..., None, :] @ R)[..., 0, :])


def _to_body(R: Array, p: Array, v: Array) -> Array:
    """Transform motion vectors (k, 6) from the parent's frame to the body's frame."""
    return np.concatenate([_unrotated(R, v[:, :3]),
                           _unrotated(R, v[:, 3:] + np.cross(v[:, :3], p))], axis=1)


def _to_parent(R: Array, p: Array, force: Array) -> Array:
    """Transform columns of forces (k, 6, c) from the body's frame to the parent's frame."""
    linear = R @ force[:, 3:]
    return np.concatenate([R @ force[:, :3] + _cross_matrix(p) @ linear, linear], axis=1)


def _cross_matrix(x: Array) -> Array:
    """Return the matrices (k, 3, 3) of x ×."""
    X = np.zeros((len(x), 3, 3))
    X[:, [2, 0, 1], [1, 2, 0]] = x
    X[:, [1, 2, 0], [2, 0, 1]] = -x
    return X


def _momentum_columns(v: Array) -> Array:
    """Return the maps (k, 6, 10) from a body's parameters to its momentum I v."""
    angular, linear = v[:, :3], v[:, 3:]
    A = np.zeros((len(v), 6, SIZE))
    A[:, :3, 1:4] = -_cross_matrix(linear)
    A[:, 3:, 0] = linear
    A[:, 3:, 1:4] = _cross_matrix(angular)
    x, y, z = angular.T
    A[:, 0, 4], A[:, 0, 5], A[:, 0, 7] = x, y, z
    A[:, 1, 5], A[:, 1, 6], A[:, 1, 8] = x, y, z
    A[:, 2, 7], A[:, 2, 8], A[:, 2, 9] = x, y, z
    return A


def _force_columns(v: Array, a: Array) -> Array:
    """Return the maps (k, 6, 10) from a body's parameters to its force I a + v ×* I v."""
    momentum = _momentum_columns(v)
    turn, shift = _cross_matrix(v[:, :3]), _cross_matrix(v[:, 3:])
    force = _momentum_columns(a)
    force[:, :3] += turn @ momentum[:, :3] + shift @ momentum[:, 3:]
    force[:, 3:] += turn @ momentum[:, 3:]
    return force
