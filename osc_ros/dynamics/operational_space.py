# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The interface of the dynamics for users: `OperationalSpace`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.algebra import arrays
from osc_ros.dynamics.algebra.arrays import finite_array, FLOAT64, require_finite, require_output
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping, task_inertia
from osc_ros.dynamics.batch.batches import Batches
from osc_ros.dynamics.contract.method import DONE, Method
from osc_ros.dynamics.contract.plan import Plan, Workers
from osc_ros.dynamics.contract.task_state import TaskState, Tip
from osc_ros.dynamics.methods import method_of
from osc_ros.dynamics.priority.priority import Priorities
from osc_ros.errors import InputError
from osc_ros.model.assembly import names
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class OperationalSpace(Batches):
    """
    Dynamics of a robot in the task space of its tips.

    Task quantities are at the tips, in base-aligned axes, [angular; linear], one tip after
    another: 6 m numbers for m tips. An instance owns its memory: use one per thread. The
    constructor compiles all kernels, or loads them from the cache.

    Parameters
    ----------
    robot : Robot
    method : str, optional
        'sweep': Schur-complement elimination in two sweeps, O(n), compiled; one tip. On a robot
        that is not a plain chain it is 'recursive'.
        'ldl': block LDLᵀ of the papers' block tridiagonal matrix, O(n), compiled; one tip.
        'bcr': block cyclic reduction of the same matrix, ⌈log₂ n⌉ steps, numpy; one tip.
        'recursive': articulated bodies, mobilities propagated from the base to the tips, compiled.
        'efpa': articulated bodies, with forces propagated over many joints at once, compiled.
        'sfa': joint-space inertia, factored along the branches, O(n d²) for depth d, compiled.
        'dense': joint-space inertia and Cholesky, O(n³), numpy: the reference.
        Default: 'sweep' for one tip, 'efpa' for several.
    tips : sequence of str, optional
        Links whose motion is the task; each must be moved by a joint. Default: the robot's tips.
    workers : int, 'auto' or Workers, optional
        Number of processes that evaluate `torque` of a plain chain, by 'sweep'; 'auto' measures
        which number is fastest. `plan` has the number and the reason. With several processes, use
        the instance as a context manager, or `close` it; in a script, construct it under
        `if __name__ == '__main__':`, because worker processes import the script.

    Raises
    ------
    InputError
        If the method is unknown, or does not accept this number of tips or workers.
    ModelError
        If a tip is not a link that moves.

    """

    def __init__(self, robot: Robot, method: str | None = None,
                 tips: Sequence[str] | None = None,
                 workers: int | str | Workers = 1) -> None:
        if not isinstance(robot, Robot):
            raise InputError(f'robot is a {type(robot).__name__}: give a Robot, as of '
                             'Robot.from_urdf')
        if tips is not None:
            robot = replace(robot, tips=names('tips', [tips] if isinstance(tips, str) else tips))
        self.robot = robot
        self.method, self._dynamics, self._plan = method_of(
            robot, method, workers if isinstance(workers, Workers) else Workers(workers))
        self._task = (6 * len(robot.tips),)
        self._rest = np.zeros(robot.n)
        self._quaternions = robot.q_index[robot.spherical].tolist()
        self._is_located = False  # whether the results of the last `outward` are valid
        task_inertia(np.eye(6))

    def __enter__(self) -> OperationalSpace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes, if there are any; this process evaluates later calls."""
        self._dynamics.close()

    @property
    def dynamics(self) -> Method:
        """The method in use; it validates no arrays, so the caller must keep its contract."""
        return self._dynamics

    @property
    def plan(self) -> Plan:
        """Number of processes in use, the reason for it, and their failures so far."""
        return replace(self._plan, faults=self._dynamics.faults)

    @property
    def gravity(self) -> Array:
        """
        Gravity in the base frame (3,) [m/s²]; initially that of the robot.

        If the base moves, set it in every cycle to gravity minus the acceleration of the base: the
        negative of the reading of an accelerometer on the base.

        Raises
        ------
        InputError
            If the value set has another shape or is not finite.

        """
        return self._dynamics.gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        self._dynamics.gravity[:] = finite_array('gravity', gravity, (3,))
        self._is_located = False

    def torque(self, q: ArrayLike, qd: ArrayLike, u: ArrayLike,
               tau_null: ArrayLike | None = None,
               posture_acceleration: ArrayLike | None = None,
               out: Array | None = None, damping: SingularityDamping | None = None) -> Array:
        """
        Joint torques that give the tips the acceleration u: τ = τ⁰ + JᵀΛ(u - a⁰).

        With a⁰ = J M⁻¹(τ⁰ - h) + J̇q̇ this is F = Λ(u + J M⁻¹(C + G) - J̇q̇), τ = JᵀF + Nᵀτ⁰: τ⁰
        acts in the dynamically consistent nullspace only. Where Λ⁻¹ is singular to working
        precision, τ⁰ controls the directions that the task cannot.

        Near a singularity this law needs unbounded joint speeds and torques. With `damping`,
        control of the directions with small singular values passes smoothly to τ⁰: then give a τ⁰
        that damps the joints, such as `posture_acceleration=-2.0 * qd`. This does not bound
        speeds or torques; `osc_ros.control.law.Law` bounds both.

        Parameters
        ----------
        q, qd : (nq,) [rad, m], (n,) [rad/s, m/s]
        u : (6 m,)
            Acceleration of the tips, base axes, [angular; linear] [rad/s², m/s²].
        tau_null : (n,), optional
            τ⁰ [N·m]; default zeros.
        posture_acceleration : (n,), optional
            τ⁰ is M q̈ₚ + C + G for this q̈ₚ [rad/s²], plus tau_null if that is given too.
        out : (n,), optional
            float64 and contiguous; written and returned.
        damping : SingularityDamping, optional
            Thresholds of the directions left to τ⁰. If the robot cannot follow all tips at once,
            the first tip has priority over the second, and so on. The first call compiles, or
            loads, more kernels.

        Returns
        -------
        (n,) [N·m; N for prismatic]

        Raises
        ------
        InputError
            If shapes do not fit or numbers are not finite.

        """
        if out is None:
            out = np.empty(self.robot.n)
        if damping is not None:
            return self._damped_torque(q, qd, u, tau_null, posture_acceleration, out, damping)
        self._is_located = False
        if self._quaternions and not self._has_usable_quaternions(q):
            q = self._position(q)
        try:
            if not (type(q) is type(qd) is type(u) is np.ndarray
                    and q.dtype is qd.dtype is u.dtype is FLOAT64):
                raise TypeError  # the kernel would too, but takes 0.2 ms for its message
            status = self._dynamics.torque(q, qd, u, tau_null, posture_acceleration, out)  # type: ignore[arg-type]
        except (TypeError, AttributeError):
            # the kernels take contiguous float64 arrays and nothing else
            q, qd, tau_null, posture_acceleration = self._joint_arrays(
                q, qd, tau_null, posture_acceleration)
            u = finite_array('u', u, self._task)
            require_output(out, (self.robot.n,))
            status = self._dynamics.torque(q, qd, u, tau_null, posture_acceleration, out)
        if status != DONE:
            self._joint_arrays(q, qd, tau_null, posture_acceleration)
            finite_array('u', u, self._task)
            require_output(out, (self.robot.n,))
            raise InputError('the torque is not finite: the state or u is too large, or M is '
                             'singular')
        return out

    def _damped_torque(self, q: ArrayLike, qd: ArrayLike, u: ArrayLike,
                       tau_null: ArrayLike | None, posture_acceleration: ArrayLike | None,
                       out: Array, damping: SingularityDamping) -> Array:
        if not isinstance(damping, SingularityDamping):
            raise InputError(f'damping is a {type(damping).__name__}: give a '
                             'SingularityDamping, or None')
        u = finite_array('u', u, self._task)
        tip = self.outward(q, qd, tau_null, posture_acceleration)
        solver, J = self._solver
        solver.d.level_u[:] = u.reshape(-1, 6)
        return self.inward(solver.solve(
            self.jacobian(J), np.ascontiguousarray(tip.Lambda_inv),
            np.ascontiguousarray(tip.a0), damping), out)

    @cached_property
    def _solver(self) -> tuple[Priorities, Array]:
        """Solver for `torque` with damping, one level of six axes per tip; and memory for J."""
        tips = len(self.robot.tips)
        solver = Priorities(range(tips), tips, self.robot.n)
        solver.d.level_activation[:] = 1.0
        return solver, np.empty((*self._task, self.robot.n))

    def outward(self, q: ArrayLike, qd: ArrayLike, tau_null: ArrayLike | None = None,
                posture_acceleration: ArrayLike | None = None) -> Tip:
        """
        First half of `torque`: pose, twist, Λ⁻¹ and a⁰ of the tips under τ⁰, without u.

        Parameters and errors are those of `torque`. The arrays returned are views, valid until the
        next call on this instance.

        """
        self._is_located = False
        if self._quaternions and not self._has_usable_quaternions(q):
            q = self._position(q)
        try:
            if not (type(q) is type(qd) is np.ndarray and q.dtype is qd.dtype is FLOAT64):
                raise TypeError
            status = self._dynamics.outward(q, qd, tau_null, posture_acceleration)  # type: ignore[arg-type]
        except (TypeError, AttributeError):
            q, qd, tau_null, posture_acceleration = self._joint_arrays(
                q, qd, tau_null, posture_acceleration)
            status = self._dynamics.outward(q, qd, tau_null, posture_acceleration)
        if status != DONE:
            self._joint_arrays(q, qd, tau_null, posture_acceleration)
            raise InputError('the motion of the tip is not finite: the state is too large, or M '
                             'is singular')
        self._is_located = True
        found = self._dynamics
        return Tip(found.pose, found.twist, found.Lambda_inv, found.a0)

    def inward(self, F: ArrayLike, out: Array | None = None) -> Array:
        """
        Second half of `torque`: τ⁰ + JᵀF at the state of the last `outward`.

        Parameters
        ----------
        F : (6 m,)
            Task forces at the tips, base axes, [moment; force] [N·m, N].
        out : (n,), optional

        Raises
        ------
        InputError
            If shapes do not fit, numbers are not finite, or `outward` was not called before.

        """
        if out is None:
            out = np.empty(self.robot.n)
        else:
            require_output(out, (self.robot.n,))
        self._require_located()
        is_ready = (type(F) is np.ndarray and F.dtype is FLOAT64 and F.shape == self._task
                    and F.flags.carray)
        self._dynamics.inward(F if is_ready else finite_array('F', F, self._task), out)  # type: ignore[arg-type]
        if not isfinite(out.dot(self._rest)):  # a quick test: 0 · inf and 0 · nan are nan
            finite_array('F', F, self._task)
            require_finite('torque', out)
        return out

    def inverse_dynamics(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """
        Joint torques M q̈ + C + G (n,) [N·m] of a motion.

        Parameters
        ----------
        q, qd, qdd : (nq,), (n,), (n,)

        Raises
        ------
        InputError
            If shapes do not fit or numbers are not finite.

        """
        self.outward(q, qd, posture_acceleration=qdd)
        return self.inward(np.zeros(self._task))

    def jacobian(self, out: Array | None = None) -> Array:
        """
        Natural Jacobian (6 m, n) of the tips, base axes, at the state of the last `outward`.

        Parameters
        ----------
        out : (6 m, n), optional
            float64 and contiguous; written and returned.

        Raises
        ------
        InputError
            If `out` has another shape or type, or `outward` was not called before.

        """
        if out is None:
            out = np.empty((*self._task, self.robot.n))
        else:
            require_output(out, (*self._task, self.robot.n))
        self._require_located()
        self._dynamics.jacobian(out)
        return out

    def evaluate(self, q: ArrayLike, qd: ArrayLike) -> TaskState:
        """
        All terms of the operational-space equations at one state, for analysis.

        Parameters
        ----------
        q, qd : (nq,), (n,)

        Raises
        ------
        InputError
            If shapes do not fit or numbers are not finite.

        """
        q, qd = self._position(q), finite_array('qd', qd, (self.robot.n,))
        tip = self.outward(q, qd, posture_acceleration=np.zeros(self.robot.n))
        return TaskState(
            q=q.copy(), qd=qd.copy(), pose=tip.pose.copy(), twist=tip.twist.copy(),
            J=self.jacobian(), Jdot_qd=tip.a0.copy(), h=self.inward(np.zeros(self._task)),
            Lambda_inv=tip.Lambda_inv.copy(), Lambda=task_inertia(tip.Lambda_inv),
            space=self)

    def forward_dynamics(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                         F_tip: ArrayLike | None = None) -> Array:
        """
        Joint accelerations (n,) [rad/s²] under torques.

        Methods 'ldl', 'bcr' and, on plain chains, 'sweep' use the constraint-force algorithm;
        'dense' solves with M; the others use articulated bodies.

        Parameters
        ----------
        q, qd, tau : (nq,), (n,), (n,)
        F_tip : (6 m,), optional
            Forces of the environment on the tips, base axes, [moment; force] [N·m, N].

        Raises
        ------
        InputError
            If shapes do not fit or numbers are not finite.

        """
        n = self.robot.n
        F = (np.zeros(self._task) if F_tip is None
             else finite_array('F_tip', F_tip, self._task))
        q, qd, tau = (self._position(q), finite_array('qd', qd, (n,)),
                      finite_array('tau', tau, (n,)))
        self._is_located = False
        with _overflow_checked_later():
            return require_finite('acceleration', self._dynamics.forward_dynamics(q, qd, tau, F))

    def apply_M_inv(self, q: ArrayLike, x: ArrayLike) -> Array:
        """The product M⁻¹ x (n,), for x (n,); only the method 'dense' computes M."""
        q, x = self._position(q), finite_array('x', x, (self.robot.n,))
        self._is_located = False
        with _overflow_checked_later():
            return require_finite('product', self._dynamics.apply_M_inv(q, x))

    def apply_Lambda_inv(self, q: ArrayLike, f: ArrayLike) -> Array:
        """Accelerations Λ⁻¹ f (6 m,) of the tips under the forces f (6 m,) on them."""
        tip = self.outward(q, np.zeros(self.robot.n))
        with _overflow_checked_later():
            return require_finite('product', tip.Lambda_inv @ finite_array('f', f, self._task))

    def apply_Lambda(self, q: ArrayLike, a: ArrayLike) -> Array:
        """Forces Λ a (6 m,) at the tips that accelerate them by a (6 m,)."""
        tip = self.outward(q, np.zeros(self.robot.n))
        with _overflow_checked_later():
            return require_finite(
                'product', task_inertia(tip.Lambda_inv) @ finite_array('a', a, self._task))

    def _position(self, q: ArrayLike) -> Array:
        q = finite_array('q', q, (self.robot.nq,))
        arrays.require_quaternions(self.robot, q[None])
        return q

    def _has_usable_quaternions(self, q: ArrayLike) -> bool:
        """Quick check: q is an array, and its squared quaternion lengths are in 1e-200 … 1e200."""
        return (type(q) is np.ndarray and q.ndim == 1
                and all(1e-200 < np.dot(q[k:k + 4], q[k:k + 4]) < 1e200
                        for k in self._quaternions))

    def _require_located(self) -> None:
        if not self._is_located:
            raise InputError('no state is known: call outward(q, qd) first, and no other method '
                             'but inward and jacobian after it')

    def _joint_arrays(self, q: ArrayLike, qd: ArrayLike, tau_null: ArrayLike | None,
                      posture_acceleration: ArrayLike | None
                      ) -> tuple[Array, Array, Array | None, Array | None]:
        shape = (self.robot.n,)
        return (self._position(q), finite_array('qd', qd, shape),
                None if tau_null is None else finite_array('tau_null', tau_null, shape),
                None if posture_acceleration is None
                else finite_array('posture_acceleration', posture_acceleration, shape))


@contextmanager
def _overflow_checked_later() -> Iterator[None]:
    """Silence numpy's warnings of overflow, and raise InputError if M is singular."""
    # The caller must check the result by `require_finite`.
    try:
        with np.errstate(over='ignore', invalid='ignore'):
            yield
    except np.linalg.LinAlgError:
        raise InputError('M is singular here: joints without mass between them line up') from None
