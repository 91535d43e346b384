# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Validation that all methods in numpy have in common."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.algebra.task_inertia import task_inertia
from osc_ros.dynamics.contract.method import DONE, Method, NOT_FINITE, Terms, WRONG_SHAPE
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class NumpyMethod(Method):
    """Base class of the methods in numpy: checks shapes and numbers, then calls `_outward`."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.gravity: Array = robot.gravity.copy()
        found = Terms.empty(robot, 1)
        (self.pose,), (self.twist,), (self.a0,), (self.Lambda_inv,) = (
            np.zeros_like(x) for x in (found.pose, found.twist, found.Jdot_qd, found.Lambda_inv))

    @np.errstate(over='ignore', invalid='ignore')
    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,); return DONE, WRONG_SHAPE or NOT_FINITE."""
        given = [x for x in (q, qd, u, tau, qdd, out) if x is not None]
        if not all(x.dtype == np.float64 and x.flags.carray for x in given):
            raise TypeError('give contiguous, writeable float64 arrays, as by the kernels')
        if u.shape != self.a0.shape or out.shape != (self.robot.n,):
            return WRONG_SHAPE
        status = self.outward(q, qd, tau, qdd)
        if status == DONE:
            self.inward(task_inertia(self.Lambda_inv) @ (u - self.a0), out)
            return DONE if np.isfinite(out).all() else NOT_FINITE
        return status

    @np.errstate(over='ignore', invalid='ignore')
    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Compute Λ⁻¹, a⁰, poses and twists under τ⁰; return DONE, WRONG_SHAPE or NOT_FINITE."""
        given = [x for x in (q, qd, tau, qdd) if x is not None]
        if q.shape != (self.robot.nq,) or any(x.shape != (self.robot.n,) for x in given[1:]):
            return WRONG_SHAPE
        if not all(np.isfinite(x).all() for x in given):
            return NOT_FINITE
        try:
            return self._outward(q, qd, tau, qdd)
        except np.linalg.LinAlgError:  # M, or a matrix that M is made of, is singular
            return NOT_FINITE

    @abstractmethod
    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Compute `outward` for finite arrays of the right shapes; return DONE or NOT_FINITE."""
