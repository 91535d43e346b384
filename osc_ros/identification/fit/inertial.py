# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Inertial parameters of bodies: vectors of ten numbers, spatial inertias and pseudo-inertias.

The ten parameters of a body are m, m c (3), and the inertia about the origin of the body's frame
in the order xx xy yy xz yz zz, in its axes [kg, kg m, kg m²]: the order of Pinocchio. Its
pseudo-inertia is the 4 × 4 matrix P = ∫ [x; 1] [x; 1]ᵀ dm. A body is physically possible if and
only if P is positive (semi-)definite, and P_parent = T P Tᵀ for the pose T of its frame (Wensing,
Kim and Slotine, "Linear matrix inequalities for physically consistent inertial parameter
identification", IEEE Robotics and Automation Letters 3 (2018)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError

Array = NDArray[np.float64]

SIZE = 10  # parameters of one body
# Smallest eigenvalue of a positive definite pseudo-inertia, relative to the largest: smaller
# eigenvalues are raised to this.
LEAST = 1e-6
_ROW, _COLUMN = np.array([0, 0, 1, 0, 1, 2]), np.array([0, 1, 1, 2, 2, 2])  # xx xy yy xz yz zz


def inertial_parameters(inertia: Array) -> Array:
    """Return the parameters (b, 10) of spatial inertias (b, 6, 6), [angular; linear]."""
    return np.column_stack([inertia[:, 5, 5], inertia[:, [2, 0, 1], [4, 5, 3]],
                            inertia[:, _ROW, _COLUMN]])


def spatial_inertia(parameters: Array) -> Array:
    """Return the spatial inertias (b, 6, 6), [angular; linear], of parameters (b, 10)."""
    inertia = np.zeros((len(parameters), 6, 6))
    x, y, z = parameters[:, 1:4].T
    inertia[:, [2, 0, 1], [4, 5, 3]] = np.column_stack([x, y, z])
    inertia[:, [1, 2, 0], [5, 3, 4]] = -np.column_stack([x, y, z])
    inertia += inertia.transpose(0, 2, 1)
    inertia[:, _ROW, _COLUMN] = inertia[:, _COLUMN, _ROW] = parameters[:, 4:]
    inertia[:, [3, 4, 5], [3, 4, 5]] = parameters[:, :1]
    return inertia


def pseudo_inertia(parameters: Array) -> Array:
    """Return the pseudo-inertias (..., 4, 4) of parameters (..., 10)."""
    P = np.zeros((*parameters.shape[:-1], 4, 4))
    P[..., _ROW, _COLUMN] = P[..., _COLUMN, _ROW] = -parameters[..., 4:]
    half = 0.5 * (parameters[..., 4] + parameters[..., 6] + parameters[..., 9])
    P[..., [0, 1, 2], [0, 1, 2]] += half[..., None]
    P[..., :3, 3] = P[..., 3, :3] = parameters[..., 1:4]
    P[..., 3, 3] = parameters[..., 0]
    return P


def parameters_of_pseudo_inertia(P: Array) -> Array:
    """Return the parameters (..., 10) of pseudo-inertias (..., 4, 4)."""
    second = P[..., :3, :3]
    trace = np.trace(second, axis1=-2, axis2=-1)
    inertia = trace[..., None, None] * np.eye(3) - second
    return np.concatenate([P[..., 3, 3:], P[..., :3, 3], inertia[..., _ROW, _COLUMN]], axis=-1)


def transformed(parameters: Array, T: Array) -> Array:
    """Return parameters (10,) in another frame; T (4, 4) is the pose of the old frame there."""
    return parameters_of_pseudo_inertia(T @ pseudo_inertia(parameters) @ T.T)


def of_point_and_inertia(mass: float, center: Array, inertia: Array) -> Array:
    """Return the parameters (10,) of a mass [kg] at c (3,) [m], inertia (3, 3) about c."""
    about_origin = inertia + mass * (center @ center * np.eye(3) - np.outer(center, center))
    return np.concatenate([[mass], mass * center, about_origin[_ROW, _COLUMN]])


def center_and_inertia(parameters: Array) -> tuple[Array, Array]:
    """Return the centre of mass (3,) [m] and the inertia (3, 3) about it [kg m²]."""
    # InputError if the mass is not positive
    mass = parameters[0]
    if not mass > 0.0:
        raise InputError(f'a mass of {mass:g} kg has no centre: must be more than 0')
    center = parameters[1:4] / mass
    inertia = np.zeros((3, 3))
    inertia[_ROW, _COLUMN] = inertia[_COLUMN, _ROW] = parameters[4:]
    return center, inertia - mass * (center @ center * np.eye(3) - np.outer(center, center))


def is_consistent(parameters: Array) -> bool:
    """Whether bodies (..., 10) are physically possible: pseudo-inertias are semi-definite."""
    values = np.linalg.eigvalsh(pseudo_inertia(parameters))
    return bool((values[..., 0] >= -1e-9 * np.maximum(values[..., -1], 1e-12)).all())


def made_definite(P: Array) -> Array:
    """Return a positive definite pseudo-inertia near P (4, 4)."""
    # raises eigenvalues below LEAST times the largest, with lengths scaled to a body size of 1
    mass = P[3, 3]
    size = np.sqrt(max(np.trace(P[:3, :3]) / mass, 1e-8))
    scale = np.diag([size, size, size, 1.0])
    values, vectors = np.linalg.eigh(np.linalg.inv(scale) @ P @ np.linalg.inv(scale))
    definite = (vectors * np.maximum(values, LEAST * values[-1])) @ vectors.T
    return np.asarray(scale @ definite @ scale)
