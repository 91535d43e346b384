# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Base parameters: the identifiable combinations of inertial parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from osc_ros.identification.fit.inertial import SIZE
from osc_ros.identification.fit.regressor import regressor
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SAMPLES = 60  # number of random states for the decomposition
RANK = 1e-9  # diagonal elements of R below this count as zero, relative to the largest
NAMES = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """The base parameters of a robot: β = π[independent] + K π[dependent]."""

    independent: NDArray[np.intp]  # (r,) indices of the parameters that represent them
    dependent: NDArray[np.intp]  # (10 b - r,) indices of the other parameters
    K: Array  # (r, 10 b - r)
    names: tuple[str, ...]  # of the independent parameters: 'm JOINT', 'Ixx JOINT', …

    @classmethod
    def of(cls, robot: Robot, seed: int = 0) -> BaseParameters:
        """Return the base parameters of a robot."""
        # Computed by a pivoted QR decomposition of the regressor at random states (Gautier,
        # "Numerical calculation of the base inertial parameters of robots", J. Robotic Systems 8
        # (1991)).
        rng = np.random.default_rng(seed)
        q = np.tile(robot.neutral, (SAMPLES, 1)) + rng.uniform(-2.0, 2.0, (SAMPLES, robot.nq))
        qd, qdd = rng.uniform(-2.0, 2.0, (2, SAMPLES, robot.n))
        Y = regressor(robot, q, qd, 5.0 * qdd).reshape(-1, SIZE * len(robot.parent))
        R, order = qr(Y, mode='r', pivoting=True)
        size = np.abs(np.diagonal(R))
        rank = int(np.count_nonzero(size > RANK * size[0]))
        K = solve_triangular(R[:rank, :rank], R[:rank, rank:])
        K[np.abs(K) < RANK] = 0.0
        sort = np.argsort(order[:rank])
        independent = order[:rank][sort]
        names = tuple(f'{NAMES[i % SIZE]} {robot.joints[i // SIZE]}' for i in independent)
        return cls(independent, order[rank:], K[sort], names)

    def values(self, parameters: Array) -> Array:
        """Return the base parameters (r,) of inertial parameters (b, 10)."""
        flat = parameters.ravel()
        return np.asarray(flat[self.independent] + self.K @ flat[self.dependent])

