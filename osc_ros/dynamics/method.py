# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""The contract of a method: the functions that every method of the dynamics has."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import os
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.task_inertia import task_inertia
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Status that `torque` and `outward` return.
DONE, WRONG_SHAPE, NOT_FINITE = 0, 1, 2


class Terms(NamedTuple):
    """
    Terms of the law at k states.

    Attributes
    ----------
    pose : (k, 4, 4), or (k, m, 4, 4) for m > 1 tips
    twist : (k, 6 m) [rad/s, m/s]
    J : (k, 6 m, n)
    Jdot_qd : (k, 6 m) [rad/s², m/s²]
    h : (k, n) [N·m]
    Lambda_inv, Lambda : (k, 6 m, 6 m)

    """

    pose: Array
    twist: Array
    J: Array
    Jdot_qd: Array
    h: Array
    Lambda_inv: Array
    Lambda: Array

    @classmethod
    def empty(cls, robot: Robot, k: int) -> Terms:
        """Return a Terms with uninitialized arrays for k states."""
        tips, n = len(robot.tips), robot.n
        m = 6 * tips
        pose = (4, 4) if tips == 1 else (tips, 4, 4)
        return cls(*(np.empty((k, *shape)) for shape in (
            pose, (m,), (m, n), (m,), (n,), (m, m), (m, m))))


@runtime_checkable
class Method(Protocol):
    """
    Dynamics of one robot, as seen from its m tips.

    A method checks shapes and numbers only where its docstring says so, and requires contiguous,
    aligned, writeable float64 arrays. `OperationalSpace` validates the input of users. An
    instance owns its memory: use one per thread. A method derives from this class, and inherits
    what it does not override.

    `outward` evaluates a state. `inward`, `jacobian`, `acceleration_response` and
    `inverse_mass_matrix` refer to the last `outward` that returned DONE, and leave its results as
    they are; every other call may overwrite them.

    Attributes
    ----------
    robot : Robot
    gravity : (3,)
        Gravity in the base frame [m/s²]; write to the array to change it.
    Lambda_inv, a0, pose, twist : (6 m, 6 m), (6 m,), (4, 4), (6 m,)
        Results of the last `outward`, at the tips, base axes, [angular; linear]; pose is
        (m, 4, 4) for m > 1 tips. Read only; the arrays stay the same objects.

    """

    robot: Robot
    gravity: Array
    Lambda_inv: Array
    a0: Array
    pose: Array
    twist: Array

    @abstractmethod
    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """
        Write τ⁰ + JᵀΛ(u - a⁰) to out (n,), for u (6 m,), in one call.

        Arguments and status are those of `outward`.

        """

    @abstractmethod
    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """
        Compute Λ⁻¹, a⁰ = J M⁻¹(τ⁰ - h) + J̇q̇, poses and twists of the tips.

        Parameters
        ----------
        q, qd : (nq,), (n,)
        tau : (n,), optional
            τ⁰ [N·m].
        qdd : (n,), optional
            Posture acceleration [rad/s²]: then τ⁰ is M q̈ + h, plus tau if tau is given too.

        Returns
        -------
        DONE; WRONG_SHAPE, before anything is computed; NOT_FINITE

        """

    @abstractmethod
    def inward(self, F: Array, out: Array) -> None:
        """Write τ⁰ + JᵀF to out (n,), for forces F (6 m,) at the tips [N·m, N]."""

    @abstractmethod
    def jacobian(self, out: Array) -> None:
        """Write the Jacobian J (6 m, n) to out."""

    @abstractmethod
    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """
        Write M⁻¹(τ + JᵀF) to out (n,) [rad/s²], with the factors of the last `outward`.

        Parameters
        ----------
        tau : (n,)
            Joint torques [N·m].
        F : (6 m,)
            Forces on the tips, base axes, [moment; force] [N·m, N].

        """

    def inverse_mass_matrix(self, out: Array) -> None:
        """Write M⁻¹ to out (n, n), exactly symmetric, with the factors of the last `outward`."""
        unit, no_force = np.zeros(self.robot.n), np.zeros_like(self.a0)
        for i in range(len(unit)):
            unit[i] = 1.0
            self.acceleration_response(unit, no_force, out[i])
            unit[i] = 0.0
        out[:] = 0.5 * (out + out.T)

    @abstractmethod
    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques (n,) and forces on the tips (6 m,)."""

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Joint torques M q̈ + h (n,) of a motion; NaN where the state is not accepted."""
        out = np.full(self.robot.n, np.nan)
        if self.outward(q, qd, None, qdd) == DONE:
            self.inward(np.zeros_like(self.a0), out)
        return out

    @abstractmethod
    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """The product M⁻¹ x (n,), for x (n,)."""

    def evaluate_batch(self, q: Array, qd: Array) -> Terms:
        """Terms at k states, q (k, nq) and qd (k, n); NaN where a state is not accepted."""
        found = Terms.empty(self.robot, len(q))
        rest, F = np.zeros(self.robot.n), np.zeros_like(self.a0)
        for k in range(len(q)):
            at = Terms(*(values[k] for values in found))
            if self.outward(q[k], qd[k], None, rest) != DONE:
                for values in at:
                    values[...] = np.nan
                continue
            at.pose[:], at.twist[:], at.Jdot_qd[:] = self.pose, self.twist, self.a0
            at.Lambda_inv[:], at.Lambda[:] = self.Lambda_inv, task_inertia(self.Lambda_inv)
            self.jacobian(at.J)
            self.inward(F, at.h)
        return found

    @property
    def faults(self) -> tuple[str, ...]:
        """Failures of worker processes so far; each time the workers are replaced."""
        return ()

    def close(self) -> None:
        """End the worker processes, if there are any; this process evaluates later calls."""
        return  # most methods have none


def on_all_cores(k: int, part: Callable[[int, int], None]) -> None:
    """
    Call part(first, last) on contiguous parts of k states, a thread for every core.

    The kernels of batches release the GIL, so threads suffice; each needs its own memory.

    """
    cores = min(len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity')
                else os.cpu_count() or 1, max(1, k))
    bounds = np.linspace(0, k, cores + 1).astype(int).tolist()
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(part, bounds[:-1], bounds[1:]))
