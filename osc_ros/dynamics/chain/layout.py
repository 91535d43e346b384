"""Arrays of a plain chain: constants of the robot, and memory and results of the kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import inlined
from osc_ros.dynamics.spatial import matrix_at
from osc_ros.dynamics.task_inertia import SCRATCH_WIDTH
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Columns of `links`, one row per body: 1 if its joint is prismatic, rotor inertia, placement in
# the parent at q = 0, mass, first moment, inertia about the origin, and the inverse of the spatial
# inertia, [[A, B], [Bᵀ, C]].
PRISMATIC, ROTOR, ROTATION, POSITION, MASS, FIRST_MOMENT, INERTIA = 0, 1, 2, 11, 14, 15, 18
INVERSE_A, INVERSE_B, INVERSE_C, LINK_WIDTH = 24, 30, 39, 45
# `ends`: gravity (3), tip rotation (9), tip position (3).
ENDS_WIDTH = 15
# Columns of `work`, one row per body: placement (12), Newton-Euler force (6).
WORK_WIDTH = 18
# Columns of `factor`, one row per body, for back substitution: L, D (21), residual (6), G H (6).
FACTOR_WIDTH = 33
# `tip`: Λ⁻¹ (36), a⁰ (6), pose (16), twist (6), F (6), scratch of task_inertia.
A0, POSE, TWIST, FORCE, SCRATCH = 36, 42, 58, 64, 70
TIP_WIDTH = 70 + SCRATCH_WIDTH


def packed_robot(robot: Robot) -> tuple[Array, Array]:
    """
    Constants of the robot as the kernels read them.

    Returns
    -------
    links : (n, LINK_WIDTH)
    ends : (ENDS_WIDTH,)

    """
    upper = np.triu_indices(3)
    links = np.zeros((robot.n, LINK_WIDTH))
    inverse = np.linalg.inv(robot.inertia)
    links[:, PRISMATIC] = robot.prismatic
    links[:, ROTOR] = robot.rotor_inertia
    links[:, ROTATION:POSITION] = robot.T_parent_body[:, :3, :3].reshape(-1, 9)
    links[:, POSITION:MASS] = robot.T_parent_body[:, :3, 3]
    links[:, MASS] = robot.inertia[:, 5, 5]
    links[:, FIRST_MOMENT:INERTIA] = robot.inertia[:, [2, 0, 1], [4, 5, 3]]
    links[:, INERTIA:INVERSE_A] = robot.inertia[:, :3, :3][:, upper[0], upper[1]]
    links[:, INVERSE_A:INVERSE_B] = inverse[:, :3, :3][:, upper[0], upper[1]]
    links[:, INVERSE_B:INVERSE_C] = inverse[:, :3, 3:].reshape(-1, 9)
    links[:, INVERSE_C:] = inverse[:, 3:, 3:][:, upper[0], upper[1]]
    ends = np.concatenate([robot.gravity, robot.T_body_tip[:3, :3].ravel(),
                           robot.T_body_tip[:3, 3]])
    return links, ends


@inlined
def factors_at(row, k):
    """L and D of `ldl_factors`, from a row."""
    return (matrix_at(row, k) + matrix_at(row, k + 9)
            + (row[k + 18], row[k + 19], row[k + 20]))
