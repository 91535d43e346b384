# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Mass matrix and weight of an arm by textbook formulas, without compiled kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.algebra.kinematics import motion_transforms, placement, point_jacobian
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


def mass_matrix(robot: Robot, q: Array) -> Array:
    """Return the mass matrix (n, n), including the rotors [kg m², kg m, kg]."""
    at = placement(robot, q)
    M = np.diag(robot.rotor_inertia)
    X = motion_transforms(at.R, np.zeros_like(at.p))  # from base axes to those of each body
    for body, inertia in enumerate(robot.inertia):
        J = X[body] @ point_jacobian(robot, at, body, at.p[body])
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
        tau -= point_jacobian(robot, at, body, at.p[body]).T @ force
    return tau
