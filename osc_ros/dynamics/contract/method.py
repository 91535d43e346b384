# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The interface `Method` of all methods of the dynamics, and the arrays of a batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.algebra.task_inertia import task_inertia
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Status codes that `torque` and `outward` return.
DONE, WRONG_SHAPE, NOT_FINITE = 0, 1, 2


# Terms that `evaluate` returns; the default of `evaluate_batch`.
EVALUATED = ('pose', 'twist', 'J', 'Jdot_qd', 'h', 'Lambda_inv', 'Lambda')


class States(NamedTuple):
    """
    k states of a robot with m tips, and the commands at these states.

    Attributes
    ----------
    q, qd : (k, nq), (k, n)
    gravity : (k, 3), optional
        Default: the gravity of the method.
    u : (k, 6 m), optional
        Commanded accelerations of the tips, for the torques.
    tau, qdd : (k, n), optional
        τ⁰ and posture accelerations; see `Method.outward`.
    payload : (k, PAYLOAD_WIDTH), optional
        Payload fixed to the first tip, one row per state; see `Payloads`.

    """

    q: Array
    qd: Array
    gravity: Array | None = None
    u: Array | None = None
    tau: Array | None = None
    qdd: Array | None = None
    payload: Array | None = None

    def part(self, first: int, last: int) -> States:
        """The states first, …, last - 1."""
        return self._mapped(lambda values: values[first:last])

    def state(self, k: int) -> States:
        """The arrays of state k, without the axis of the states."""
        return self._mapped(lambda values: values[k])

    def _mapped(self, entry: Callable[[Array], Array]) -> States:
        return States._make([None if values is None else entry(values) for values in self])

    def with_gravity(self) -> States:
        """Return the states with an empty `gravity` (0, 3) in place of None."""
        return self if self.gravity is not None else self._replace(gravity=np.empty((0, 3)))


class Terms(NamedTuple):
    """
    Terms of the operational-space equations at k states; k is 0 for a term that was not requested.

    Attributes
    ----------
    pose : (k, 4, 4), or (k, m, 4, 4) for m > 1 tips
    twist : (k, 6 m) [rad/s, m/s]
    J : (k, 6 m, n)
    Jdot_qd : (k, 6 m) [rad/s², m/s²]
    h : (k, n) [N·m]
    Lambda_inv, Lambda : (k, 6 m, 6 m)
    a0 : (k, 6 m), optional
        Accelerations of the tips without joint torques [rad/s², m/s²].
    valid : (k,) bool
        False if a number of the state, or of a term, is not finite; then all its terms are NaN.

    """

    pose: Array
    twist: Array
    J: Array
    Jdot_qd: Array
    h: Array
    Lambda_inv: Array
    Lambda: Array
    a0: Array
    valid: NDArray[np.bool_]

    @classmethod
    def empty(cls, robot: Robot, k: int, chosen: Collection[str] = EVALUATED) -> Terms:
        """Return uninitialized arrays: k rows for the chosen terms, none for the others."""
        tips, n = len(robot.tips), robot.n
        m = 6 * tips
        pose = (4, 4) if tips == 1 else (tips, 4, 4)
        shapes = (pose, (m,), (m, n), (m,), (n,), (m, m), (m, m), (m,))
        terms = [np.empty((k if name in chosen else 0, *shape))
                 for name, shape in zip(cls._fields, shapes)]
        return cls._make([*terms, np.ones(k, dtype=bool)])

    def flat(self) -> Terms:
        """Views of all terms with two axes, one row for each state; `valid` is unchanged."""
        return Terms._make([*(values.reshape(len(values), int(np.prod(values.shape[1:])))
                              for values in self[:-1]), self.valid])

    def part(self, first: int, last: int) -> Terms:
        """The terms at the states first, …, last - 1."""
        return Terms._make(values[first:last] for values in self)


@runtime_checkable
class Method(Protocol):
    """
    Dynamics of one robot in the task space of its m tips; the base class of all methods.

    A method checks shapes and numbers only where its docstring says so, and requires contiguous,
    aligned, writeable float64 arrays. `OperationalSpace` validates the input of users. An instance
    owns its memory: use one per thread.

    `outward` evaluates a state. `inward`, `jacobian`, `acceleration_response` and
    `inverse_mass_matrix` refer to the last `outward` that returned DONE, and do not change its
    results; every other call may overwrite them.

    Attributes
    ----------
    robot : Robot
    gravity : (3,)
        Gravity in the base frame [m/s²]; write to the array to change it.
    Lambda_inv, a0, pose, twist : (6 m, 6 m), (6 m,), (4, 4), (6 m,)
        Results of the last `outward`, at the tips, base axes, [angular; linear]; pose is (m, 4, 4)
        for m > 1 tips. Read only; every call writes to the same arrays.

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
        DONE, WRONG_SHAPE (nothing computed) or NOT_FINITE

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

        τ is (n,) [N·m]; F (6 m,) are forces on the tips, base axes, [moment; force] [N·m, N].

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

    def torque_batch(self, states: States, out: Array, valid: NDArray[np.bool_],
                     threads: int | None) -> None:
        """Write torques to out (k, n), NaN if not finite, and `valid` (k,)."""
        self._require_no_payload(states)
        with self._own_gravity():
            for k in range(len(out)):
                at = self._state(states, k)
                valid[k] = self.torque(at.q, at.qd, at.u, at.tau, at.qdd, out[k]) == DONE  # type: ignore[arg-type]
                if not valid[k]:
                    out[k] = np.nan

    def evaluate_batch(self, states: States, found: Terms, threads: int | None) -> None:
        """Write `found.valid`, and those arrays of `found` that have a row for each state."""
        self._require_no_payload(states)
        rest, F = np.zeros(self.robot.n), np.zeros_like(self.a0)
        with self._own_gravity():
            for k in range(len(found.valid)):
                at = self._state(states, k)
                row = found.part(k, k + 1)
                is_good = self.outward(at.q, at.qd, None, None) == DONE
                row.a0[:] = self.a0
                row.valid[:] = self.outward(at.q, at.qd, None, rest) == DONE and is_good
                if not row.valid:
                    for values in row[:-1]:
                        values[:] = np.nan
                    continue
                row.pose[:], row.twist[:], row.Jdot_qd[:] = self.pose, self.twist, self.a0
                row.Lambda_inv[:], row.Lambda[:] = self.Lambda_inv, task_inertia(self.Lambda_inv)
                for J in row.J:
                    self.jacobian(J)
                for h in row.h:
                    self.inward(F, h)

    def _require_no_payload(self, states: States) -> None:
        if states.payload is not None:
            raise InputError(f'payloads: {type(self).__name__} takes one robot for all states: '
                             "give methods 'sweep', 'recursive', 'efpa' and 'sfa', by one "
                             'process')

    def on_gpu(self, number: type[np.floating[Any]], device: int) -> Any:
        """
        Return an object with the method's kernels and constants for the GPU with index `device`.

        Its functions `torque_batch` and `evaluate_batch` take arrays on the GPU, of the type
        `number` (np.float64 or np.float32), and a stream in place of `threads`. Raises InputError
        if the method has no kernels for a GPU.

        """
        raise InputError(f"'{type(self).__name__}' does not run on a GPU: use method "
                         "'sweep', on a plain chain with one tip")

    def _state(self, states: States, k: int) -> States:
        """Return the arrays of state k, and set the gravity to that of the state."""
        if states.gravity is not None:
            self.gravity[:] = states.gravity[k]
        return states.state(k)

    @contextmanager
    def _own_gravity(self) -> Iterator[None]:
        """Restore the gravity of the method at the end of the context."""
        gravity = self.gravity.copy()
        try:
            yield
        finally:
            self.gravity[:] = gravity

    @property
    def faults(self) -> tuple[str, ...]:
        """Failures of worker processes so far; new workers start after each failure."""
        return ()

    def close(self) -> None:
        """End the worker processes, if there are any; this process evaluates later calls."""
        return  # no worker processes
