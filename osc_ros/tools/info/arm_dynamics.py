# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Jacobian, mass matrix and weight of an arm by textbook formulas, without compiled kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.algebra.kinematics import motion_transforms, placement
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


def jacobian(robot: Robot, q: Array) -> Array:
    """Return the Jacobian (6, n) of the first tip, [angular; linear], in base axes."""
    at = placement(robot, q)
    return _columns(robot, at.R, at.p, robot.frames[robot.tip][0], at.T_tip[:3, 3])


def mass_matrix(robot: Robot, q: Array) -> Array:
    """Return the mass matrix (n, n), including the rotors [kg m², kg m, kg]."""
    at = placement(robot, q)
    M = np.diag(robot.rotor_inertia)
    X = motion_transforms(at.R, np.zeros_like(at.p))  # from base axes to those of each body
    for body, inertia in enumerate(robot.inertia):
        J = X[body] @ _columns(robot, at.R, at.p, body, at.p[body])
        M += J.T @ inertia @ J
    return M


def weight(robot: Robot, q: Array) -> Array:
    """Return the joint torques (n,) that hold the arm against gravity [N m, N]."""
    at = placement(robot, q)
    tau = np.zeros(robot.n)
    for body, inertia in enumerate(robot.inertia):
        moment = np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]])  # m c, from m c×
        center = at.R[body] @ moment
        force = np.concatenate([np.cross(center, robot.gravity), inertia[5, 5] * robot.gravity])
        tau -= _columns(robot, at.R, at.p, body, at.p[body]).T @ force
    return tau


def _columns(robot: Robot, R: Array, p: Array, body: int, point: Array) -> Array:
    """Return the Jacobian (6, n) of a point (3,) on a body, base axes; no spherical joints."""
    J = np.zeros((6, robot.n))
    while body >= 0:
        k, axis = int(robot.v_index[body]), R[body][:, 2]
        if robot.prismatic[body]:
            J[3:, k] = axis
        else:
            J[:3, k], J[3:, k] = axis, np.cross(axis, point - p[body])
        body = int(robot.parent[body])
    return J
