"""Operational-space dynamics of a robot: one interface, several methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.chain.ldl import LDL
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.method import DONE, finite_array, term_shapes
from osc_ros.dynamics.papers.block_tridiagonal import BlockCyclicReduction, BlockLDL
from osc_ros.dynamics.papers.dense import Dense
from osc_ros.dynamics.papers.schur import Schur
from osc_ros.dynamics.priority import ACTIVATION, Priorities, U
from osc_ros.dynamics.task_inertia import SingularityDamping, task_inertia
from osc_ros.dynamics.teams.parallel import Parallel, Plan, planned, reducing, Workers
from osc_ros.dynamics.trees.tree import EXTENDED, FACTORED, PROPAGATED, Tree
from osc_ros.errors import InputError
from osc_ros.model.assembly import names
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

_FLOAT64 = np.dtype(np.float64)  # the one of this machine's byte order


def _sweep(robot: Robot) -> Sweep | Tree:
    return Sweep(robot) if robot.serial else Tree(robot, PROPAGATED)


def _ldl(robot: Robot) -> LDL | Schur:
    return LDL(robot) if robot.serial else Schur(robot, BlockLDL)


METHODS: dict[str, Callable[[Robot], Sweep | LDL | Schur | Tree | Dense]] = {
    'sweep': _sweep,
    'ldl': _ldl,
    'bcr': partial(Schur, factorization=BlockCyclicReduction),
    'recursive': partial(Tree, algorithm=PROPAGATED),
    'efpa': partial(Tree, algorithm=EXTENDED),
    'sfa': partial(Tree, algorithm=FACTORED),
    'dense': Dense,
}
# These go along one path, from the base to the tip.
ONE_TIP = ('sweep', 'ldl', 'bcr')


class OperationalSpace:
    """
    The dynamics of a robot as seen from its tips.

    Task quantities are at the tips, in base-aligned axes, [angular; linear], one tip after
    another: 6 m numbers for m tips. An instance owns the memory that it works in: use one per
    thread. Everything is compiled, or loaded from the cache, when it is constructed.

    Parameters
    ----------
    robot : Robot
    method : str, optional
        'sweep': the Schur-complement elimination in two sweeps, O(n), compiled; one tip.
        'ldl': block LDLᵀ of the papers' block tridiagonal matrix, O(n), compiled; one tip.
        'bcr': the same matrix by block cyclic reduction, ⌈log₂ n⌉ steps at once, numpy; one tip.
        'recursive': articulated bodies, mobilities propagated from the base to the tips, compiled.
        'efpa': articulated bodies, with forces propagated over many joints at once, compiled.
        'sfa': joint-space inertia, factored along the branches, O(n d²), compiled.
        'dense': joint-space inertia and Cholesky, O(n³), numpy: the reference.
        Not given: 'sweep' for one tip, 'efpa' for several.
    tips : sequence of str, optional
        Links whose motion is the task, each carried by a moving joint; the robot's if not given.
    workers : int, 'auto' or Workers, optional
        How many processes evaluate the law of a plain chain, by 'sweep'; 'auto' measures which
        number is fastest. `plan` says what was chosen, and why. With several, use it as a context
        manager, or `close` it; and in a script only under `if __name__ == '__main__':`.
        Asked for a number, they also go by 'bcr', compiled, for comparison: the matrix is then
        reduced by all of them for the law, and everything else found as 'sweep' does.

    Raises
    ------
    InputError
        If the method is unknown, or cannot take that many tips, or that many workers.
    ModelError
        If a tip is not a link that moves.

    """

    def __init__(self, robot: Robot, method: str | None = None,
                 tips: Sequence[str] | None = None,
                 workers: int | str | Workers = 1) -> None:
        if not isinstance(robot, Robot):
            raise InputError(f'robot is a {type(robot).__name__}: accepted is a Robot, as of '
                             'Robot.from_urdf')
        if tips is not None:
            robot = replace(robot, tips=names('tips', [tips] if isinstance(tips, str) else tips))
        if method is None:
            method = 'sweep' if len(robot.tips) == 1 else 'efpa'
        if not isinstance(method, str) or method not in METHODS:
            raise InputError(f"method '{method}' is unknown (known: {', '.join(METHODS)})")
        if method in ONE_TIP and len(robot.tips) > 1:
            others = ', '.join(name for name in METHODS if name not in ONE_TIP)
            raise InputError(f"method '{method}' takes one tip, not {len(robot.tips)} "
                             f'(these take several: {others})')
        self.robot = robot
        self.method = method
        self._dynamics, self._plan = _dynamics(robot, method, workers)
        self._task = (6 * len(robot.tips),)
        self._rest = np.zeros(robot.n)
        self._balls = robot.q_index[robot.spherical].tolist()
        self._is_located = False  # whether `inward` and `jacobian` have a state to speak of
        task_inertia(np.eye(6))

    def __enter__(self) -> OperationalSpace:
        """Itself, to be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the other processes, if there are any; what comes after is evaluated by this one."""
        if isinstance(self._dynamics, Parallel):
            self._dynamics.close()

    @property
    def plan(self) -> Plan:
        """How many processes evaluate the law, why, and what went wrong with them."""
        if isinstance(self._dynamics, Parallel):
            return replace(self._plan, faults=self._dynamics.faults)
        return self._plan

    @property
    def gravity(self) -> Array:
        """
        Gravity in the base frame (3,) [m/s²]: the robot's, until it is set.

        A base that moves sets it as it goes, to gravity less the acceleration of the base, which
        is minus what an accelerometer there reads.

        Raises
        ------
        InputError
            If what is set is another shape or not finite.

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
        Joint torques that give the tip the acceleration u: τ = τ⁰ + JᵀΛ(u - a⁰).

        With a⁰ = J M⁻¹(τ⁰ - h) + J̇q̇ this is F = Λ(u + J M⁻¹(C + G) - J̇q̇), τ = JᵀF + Nᵀτ⁰: τ⁰
        acts in the dynamically consistent null space only. Where Λ⁻¹ is singular to working
        precision the directions that cannot be moved are left to τ⁰.

        Near a singularity this law asks for joint speeds and torques without bound. With `damping`
        the directions whose singular values are small are left to τ⁰, smoothly: then give a τ⁰
        that damps the joints, such as `posture_acceleration=-2.0 * qd`. This bounds neither speeds
        nor torques: `osc_ros.control.law.Law` does.

        Parameters
        ----------
        q, qd : (nq,), (n,)
            [rad, m], [rad/s, m/s].
        u : (6 m,)
            Acceleration of the tips, base axes, [angular; linear] [rad/s², m/s²].
        tau_null : (n,), optional
            τ⁰ [N·m]; zeros if not given.
        posture_acceleration : (n,), optional
            τ⁰ is M q̈ₚ + C + G for this q̈ₚ [rad/s²], plus tau_null if that is given too.
        out : (n,), optional
            float64 and contiguous; written and returned.
        damping : SingularityDamping, optional
            Which directions are left to τ⁰. Tips that ask for more than the robot can do go by
            priority, the first one first. The first call compiles, or loads, more kernels.

        Returns
        -------
        (n,) [N·m; N for prismatic]

        Raises
        ------
        InputError
            Shapes that do not fit, numbers that are not finite.

        """
        if out is None:
            out = np.empty(self.robot.n)
        if damping is not None:
            return self._damped_torque(q, qd, u, tau_null, posture_acceleration, out, damping)
        self._is_located = False
        if self._balls and not self._turns(q):
            q = self._position(q)
        try:
            if not (type(q) is type(qd) is type(u) is np.ndarray
                    and q.dtype is qd.dtype is u.dtype is _FLOAT64):
                raise TypeError  # as the kernels would, but they take 0.2 ms to say why
            status = self._dynamics.torque(q, qd, u, tau_null, posture_acceleration, out)  # type: ignore[arg-type]
        except (TypeError, AttributeError):
            # the kernels take contiguous float64 arrays and nothing else
            q, qd, tau_null, posture_acceleration = self._joint_arrays(
                q, qd, tau_null, posture_acceleration)
            u = finite_array('u', u, self._task)
            _require_output(out, (self.robot.n,))
            status = self._dynamics.torque(q, qd, u, tau_null, posture_acceleration, out)
        if status != DONE:
            self._joint_arrays(q, qd, tau_null, posture_acceleration)
            finite_array('u', u, self._task)
            _require_output(out, (self.robot.n,))
            raise InputError('the torque is not finite: the state or u is too large, or M is '
                             'singular')
        return out

    def _damped_torque(self, q: ArrayLike, qd: ArrayLike, u: ArrayLike,
                       tau_null: ArrayLike | None, posture_acceleration: ArrayLike | None,
                       out: Array, damping: SingularityDamping) -> Array:
        if not isinstance(damping, SingularityDamping):
            raise InputError(f'damping is a {type(damping).__name__}: accepted is a '
                             'SingularityDamping, or None')
        u = finite_array('u', u, self._task)
        tip = self.outward(q, qd, tau_null, posture_acceleration)
        solver, J = self._solver
        solver.rows[:, U:U + 6] = u.reshape(-1, 6)
        return self.inward(solver.solve(
            self.jacobian(J), np.ascontiguousarray(tip.Lambda_inv),
            np.ascontiguousarray(tip.a0), damping), out)

    @cached_property
    def _solver(self) -> tuple[Priorities, Array]:
        """Solve of `torque` with damping: a level for each tip, with all six axes; room for J."""
        tips = len(self.robot.tips)
        solver = Priorities(range(tips), tips, self.robot.n)
        solver.rows[:, ACTIVATION:ACTIVATION + 6] = 1.0
        return solver, np.empty((*self._task, self.robot.n))

    def outward(self, q: ArrayLike, qd: ArrayLike, tau_null: ArrayLike | None = None,
                posture_acceleration: ArrayLike | None = None) -> Tip:
        """
        First half of `torque`: what the tip has and does under τ⁰, before u is known.

        Parameters and errors are those of `torque`. What is returned are views, valid until the
        next call on this instance.

        """
        self._is_located = False
        if self._balls and not self._turns(q):
            q = self._position(q)
        try:
            if not (type(q) is type(qd) is np.ndarray and q.dtype is qd.dtype is _FLOAT64):
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
        Second half of `torque`: τ⁰ + JᵀF for the state of the last `outward`.

        Parameters
        ----------
        F : (6 m,)
            Task forces at the tips, base axes, [moment; force] [N·m, N].
        out : (n,), optional

        Raises
        ------
        InputError
            Shapes that do not fit, numbers that are not finite; no `outward` before.

        """
        if out is None:
            out = np.empty(self.robot.n)
        else:
            _require_output(out, (self.robot.n,))
        self._require_located()
        is_ready = (type(F) is np.ndarray and F.dtype is _FLOAT64 and F.shape == self._task
                    and F.flags.carray)
        self._dynamics.inward(F if is_ready else finite_array('F', F, self._task), out)  # type: ignore[arg-type]
        if not isfinite(out.dot(self._rest)):  # 0 times what is not finite is not, and quick
            finite_array('F', F, self._task)
            _finite('torque', out)
        return out

    def inverse_dynamics(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """
        Torque (n,) [N·m] of a motion, M q̈ + C + G.

        Parameters
        ----------
        q, qd, qdd : (nq,), (n,), (n,)

        Raises
        ------
        InputError
            Shapes that do not fit, numbers that are not finite.

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
            Another `out`; no `outward` before.

        """
        if out is None:
            out = np.empty((*self._task, self.robot.n))
        else:
            _require_output(out, (*self._task, self.robot.n))
        self._require_located()
        self._dynamics.jacobian(out)
        return out

    def evaluate(self, q: ArrayLike, qd: ArrayLike) -> TaskState:
        """
        Every quantity of the law at one state, for analysis.

        Parameters
        ----------
        q, qd : (nq,), (n,)

        Raises
        ------
        InputError
            Shapes that do not fit, numbers that are not finite.

        """
        q, qd = self._position(q), finite_array('qd', qd, (self.robot.n,))
        tip = self.outward(q, qd, posture_acceleration=np.zeros(self.robot.n))
        return TaskState(
            q=q.copy(), qd=qd.copy(), pose=tip.pose.copy(), twist=tip.twist.copy(),
            J=self.jacobian(), Jdot_qd=tip.a0.copy(), h=self.inward(np.zeros(self._task)),
            Lambda_inv=tip.Lambda_inv.copy(), Lambda=task_inertia(tip.Lambda_inv),
            space=self)

    def evaluate_batch(self, q: ArrayLike, qd: ArrayLike) -> TaskStates:
        """
        The terms of the law at many states, on all cores by 'sweep' and the methods for trees.

        Parameters
        ----------
        q, qd : (k, nq), (k, n)

        Raises
        ------
        InputError
            Shapes that do not fit, numbers that are not finite.

        """
        k = len(np.atleast_2d(q))
        q = finite_array('q', q, (k, self.robot.nq))
        qd = finite_array('qd', qd, (k, self.robot.n))
        self._is_located = False
        self._require_quaternions(q)
        if isinstance(self._dynamics, (Sweep, Tree)):
            found = self._dynamics.evaluate_batch(q, qd)
            if not all(np.isfinite(values).all() for values in found):
                raise InputError('a term is not finite: a state is too large')
            return TaskStates(*found)
        states = [self.evaluate(*state) for state in zip(q, qd)]
        return TaskStates(*(
            np.array([getattr(state, one.name) for state in states]).reshape(len(states), *shape)
            for one, shape in zip(fields(TaskStates), term_shapes(self.robot))))

    def forward_dynamics(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                         F_tip: ArrayLike | None = None) -> Array:
        """
        Joint accelerations (n,) [rad/s²] under torques.

        By the constraint-force algorithm in 'sweep', 'ldl' and 'bcr', by articulated bodies in
        'recursive', 'efpa' and 'sfa', and in 'sweep' where the robot is no plain chain.

        Parameters
        ----------
        q, qd, tau : (nq,), (n,), (n,)
        F_tip : (6 m,), optional
            Forces of the environment on the tips, base axes, [moment; force] [N·m, N].

        Raises
        ------
        InputError
            Shapes that do not fit, numbers that are not finite.

        """
        n = self.robot.n
        F = (np.zeros(self._task) if F_tip is None
             else finite_array('F_tip', F_tip, self._task))
        q, qd, tau = (self._position(q), finite_array('qd', qd, (n,)),
                      finite_array('tau', tau, (n,)))
        self._is_located = False
        with _judged_after():
            return _finite('acceleration', self._dynamics.forward_dynamics(q, qd, tau, F))

    def apply_M_inv(self, q: ArrayLike, x: ArrayLike) -> Array:
        """M⁻¹ x (n,) for x (n,), without M."""
        q, x = self._position(q), finite_array('x', x, (self.robot.n,))
        self._is_located = False
        with _judged_after():
            return _finite('product', self._dynamics.apply_M_inv(q, x))

    def apply_Lambda_inv(self, q: ArrayLike, f: ArrayLike) -> Array:
        """Λ⁻¹ f (6 m,): the accelerations that forces (6 m,) on the tips give them."""
        tip = self.outward(q, np.zeros(self.robot.n))
        with _judged_after():
            return _finite('product', tip.Lambda_inv @ finite_array('f', f, self._task))

    def apply_Lambda(self, q: ArrayLike, a: ArrayLike) -> Array:
        """Λ a (6 m,): the forces at the tips that go with accelerations a (6 m,)."""
        tip = self.outward(q, np.zeros(self.robot.n))
        with _judged_after():
            return _finite(
                'product', task_inertia(tip.Lambda_inv) @ finite_array('a', a, self._task))

    def _position(self, q: ArrayLike) -> Array:
        q = finite_array('q', q, (self.robot.nq,))
        self._require_quaternions(q[None])
        return q

    def _turns(self, q: ArrayLike) -> bool:
        """Whether q is an array whose quaternions have a length: a quick look."""
        return (type(q) is np.ndarray and q.ndim == 1
                and all(1e-200 < np.dot(q[k:k + 4], q[k:k + 4]) < 1e200 for k in self._balls))

    def _require_quaternions(self, q: Array) -> None:
        """Refuse lengths of which no kernel can take the square, q (k, nq)."""
        for first in self._balls:
            length = np.abs(q[:, first:first + 4]).max(axis=1, initial=0.0)
            for state in np.flatnonzero(~((length > 1e-100) & (length < 1e100)))[:1]:
                body = int(np.searchsorted(self.robot.q_index, first))
                which = f' of state {state}' if len(q) > 1 else ''
                raise InputError(
                    f"q[{first}:{first + 4}]{which}, the quaternion x y z w of joint "
                    f"'{self.robot.joints[body]}', is {q[state, first:first + 4].tolist()}: "
                    'accepted is any length but zero (no turn is 0 0 0 1; see robot.neutral)')

    def _require_located(self) -> None:
        if not self._is_located:
            raise InputError('there is no state to speak of: call outward(q, qd) first, and '
                             'nothing else in between')

    def _joint_arrays(self, q: ArrayLike, qd: ArrayLike, tau_null: ArrayLike | None,
                      posture_acceleration: ArrayLike | None
                      ) -> tuple[Array, Array, Array | None, Array | None]:
        shape = (self.robot.n,)
        return (self._position(q), finite_array('qd', qd, shape),
                None if tau_null is None else finite_array('tau_null', tau_null, shape),
                None if posture_acceleration is None
                else finite_array('posture_acceleration', posture_acceleration, shape))


class Tip(NamedTuple):
    """
    The tips under τ⁰ alone, base axes, [angular; linear].

    Attributes
    ----------
    pose : (4, 4), or (m, 4, 4) where m tips are more than one
    twist : (6 m,) [rad/s, m/s]
    Lambda_inv : (6 m, 6 m)
        Inverse operational-space inertia [1/(kg m²), 1/(kg m), 1/kg].
    a0 : (6 m,)
        Acceleration J M⁻¹(τ⁰ - h) + J̇q̇ [rad/s², m/s²].

    """

    pose: Array
    twist: Array
    Lambda_inv: Array
    a0: Array


@dataclass(frozen=True, eq=False)
class TaskState:
    """
    All terms of the operational-space equation of motion at one state.

    Attributes
    ----------
    q, qd : (nq,), (n,)
    pose : (4, 4), or (m, 4, 4) where m tips are more than one
        Of the tips in the base frame.
    twist : (6 m,)
        J q̇ [rad/s, m/s].
    J : (6 m, n)
        Natural Jacobian of the tips, base axes, [angular; linear].
    Jdot_qd : (6 m,)
        J̇q̇, the classical acceleration of the tips at q̈ = 0 [rad/s², m/s²].
    h : (n,)
        Bias torque C + G [N·m].
    Lambda_inv, Lambda : (6 m, 6 m)
        Inverse operational-space inertia, and operational-space inertia (the pseudo-inverse where
        the arm is singular to working precision) [kg m², kg m, kg].

    """

    q: Array
    qd: Array
    pose: Array
    twist: Array
    J: Array
    Jdot_qd: Array
    h: Array
    Lambda_inv: Array
    Lambda: Array
    space: OperationalSpace = field(repr=False)

    @cached_property
    def M_inv(self) -> Array:
        """Inverse joint-space inertia (n, n), column by column through the factorization."""
        columns = [self.space.apply_M_inv(self.q, e) for e in np.eye(len(self.qd))]
        M_inv = np.array(columns)
        return np.asarray(0.5 * (M_inv + M_inv.T))

    @cached_property
    def J_bar(self) -> Array:
        """Dynamically consistent inverse M⁻¹JᵀΛ (n, 6 m)."""
        return np.asarray(self.M_inv @ self.J.T @ self.Lambda)

    @cached_property
    def N(self) -> Array:
        """Null-space projector I - J̄J (n, n) for velocities; torques take its transpose."""
        return np.asarray(np.eye(len(self.qd)) - self.J_bar @ self.J)

    @cached_property
    def gravity(self) -> Array:
        """Task-space gravity force Λ J M⁻¹G (6 m,), 000 eq. 11 [N·m, N]."""
        return np.asarray(-self.Lambda @ self._a0(np.zeros_like(self.qd)))

    @cached_property
    def coriolis(self) -> Array:
        """Task-space Coriolis force Λ(J M⁻¹C - J̇q̇) (6 m,), 000 eq. 10 [N·m, N]."""
        return np.asarray(-self.Lambda @ self._a0(self.qd)) - self.gravity

    def _a0(self, qd: Array) -> Array:
        """Accelerations of the tips without any torque: J̇q̇ - J M⁻¹h."""
        return self.space.outward(self.q, qd).a0.copy()


@dataclass(frozen=True, eq=False)
class TaskStates:
    """
    Terms of the operational-space equation of motion at k states; see `TaskState`.

    Attributes
    ----------
    pose : (k, 4, 4), or (k, m, 4, 4)
    twist : (k, 6 m)
    J : (k, 6 m, n)
    Jdot_qd : (k, 6 m)
    h : (k, n)
    Lambda_inv, Lambda : (k, 6 m, 6 m)

    """

    pose: Array
    twist: Array
    J: Array
    Jdot_qd: Array
    h: Array
    Lambda_inv: Array
    Lambda: Array


def _dynamics(robot: Robot, method: str, workers: int | str | Workers
              ) -> tuple[Sweep | LDL | Schur | Tree | Dense, Plan]:
    workers = workers if isinstance(workers, Workers) else Workers(workers)
    if method == 'sweep' and robot.serial:
        return planned(robot, workers)
    if method == 'bcr' and robot.serial and workers.count not in (1, 'auto'):
        return reducing(robot, workers)
    why = f"method '{method}' is evaluated by one process ('sweep' by several)"
    if method == 'bcr' and robot.serial:
        why = "a team that goes by 'bcr' is for comparison, and started where it is asked for"
    elif method in ('sweep', 'bcr'):
        why = ('a team takes a plain chain: bodies with mass, one after the other, by revolute '
               'and prismatic joints, the tip on the last')
    if workers.count not in (1, 'auto'):
        raise InputError(f'{workers.count} workers, accepted is 1: {why}')
    return METHODS[method](robot), Plan(1, 'as asked' if workers.count == 1 else why)


def _require_output(out: Array, shape: tuple[int, ...]) -> None:
    fits = (isinstance(out, np.ndarray) and out.shape == shape and out.dtype == np.float64
            and out.flags.c_contiguous and out.flags.writeable)
    if not fits:
        raise InputError(f'out is not a writeable contiguous float64 array of shape {shape}')


def _finite(what: str, values: Array) -> Array:
    if not np.isfinite(values).all():
        raise InputError(f'the {what} is not finite: what is given is too large, or M is singular')
    return np.asarray(values)


@contextmanager
def _judged_after() -> Iterator[None]:
    """Let numbers overflow, for `_finite` to see; say what a singular matrix is."""
    try:
        with np.errstate(over='ignore', invalid='ignore'):
            yield
    except np.linalg.LinAlgError:
        raise InputError('M is singular here: joints without mass between them line up') from None
