"""
The Schur-complement factorization of Fijany (000), in the paper's letters.

The wrench that body i receives through its joint is split into what the joint's drive gives and
what its bearings hold, f = H τ + W F_S (eq. 24). That the bodies do not come apart, W has no part
in the motion across a joint, is a symmetric positive definite block tridiagonal system 𝒜 F_S = …
(eq. 35), and everything else follows from it:

    M⁻¹ = 𝒞 - ℬᵀ𝒜⁻¹ℬ        Λ⁻¹ = 𝒟 - ℰᵀ𝒜⁻¹ℰ        Λ = 𝒢 - ℛᵀ𝒮⁻¹ℛ

Where this differs from the paper. Bodies are numbered 0 to n-1 from base to tip, and so are the
blocks; the paper puts the tip first, so that what is its first block here is the last one: ℰ and
ℛ have nothing but zeros before it. Every quantity of a body is in that body's own axes and about
its own origin, [angular; linear], so inertias are constant and the transform X to it from the
body before stands for the paper's P̂ᵀ; those of the tip are in base axes. The joint axis is +z of
the body: H is a unit vector, and multiplying by W is dropping an index.

A rotor of reflected inertia d adds a sixth column, W̃ = [W, √d H], and 1 to the last diagonal
entry of its block: 𝒜 = W̃ᵀ𝒫ᵀℐ⁻¹𝒫W̃ + diag(0,0,0,0,0,1), and the sixth unknown is -√d q̈. Blocks
are 5 wide where no joint has a rotor and 6 wide otherwise; d = 0 decouples its sixth row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics import newton_euler
from osc_ros.dynamics.block_tridiagonal import BlockLDL, Factor, Factorization
from osc_ros.dynamics.method import DONE, finite_array, NOT_FINITE, NumpyMethod
from osc_ros.dynamics.task_inertia import EXACT_LOW
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Tridiagonal(NamedTuple):
    """
    Blocks of a block tridiagonal matrix: (i, i), (i, i+1) and (i+1, i).

    Attributes
    ----------
    diagonal : (n, a, b)
    upper, lower : (n-1, a, b)

    """

    diagonal: Array
    upper: Array
    lower: Array

    @property
    def T(self) -> Tridiagonal:
        """The transpose."""
        return Tridiagonal(*(blocks.transpose(0, 2, 1)
                             for blocks in (self.diagonal, self.lower, self.upper)))

    def times(self, x: Array) -> Array:
        """The product (n, a) with x (n, b)."""
        y = _product(self.diagonal, x)
        y[:-1] += _product(self.upper, x[1:])
        y[1:] += _product(self.lower, x[:-1])
        return y


@dataclass(frozen=True, eq=False)
class SchurBlocks:
    """
    The factors of M⁻¹, Λ⁻¹ and Λ at one position, m = 5 or 6 wide.

    𝒜 and 𝒮 are factored when they are first needed, once.

    Attributes
    ----------
    A : Tridiagonal of (m, m)
        Positive definite: what the constraint forces do across the joints (eqs. 39, 52, 53).
    B, C : Tridiagonal of (m, 1) and of (1, 1)
        What the joint torques do across the joints, along W̃ and along H (eq. 39).
    D : (6, 6)
        Inverse inertia of the last body about the tip, base axes (eqs. 44, 45).
    E, R : (m, 6)
        The last block of ℰ and of ℛ = ℰ𝒟⁻¹ (eqs. 43, 49); all others are zero.
    G : (6, 6)
        𝒟⁻¹ (eq. 48) [kg m², kg m, kg].
    S : Tridiagonal of (m, m)
        ℰℛᵀ - 𝒜 (eq. 50), negative definite where the tip can be moved every way: -𝒮 is the 𝒜 of
        the chain with its last body held.

    """

    A: Tridiagonal
    B: Tridiagonal
    C: Tridiagonal
    D: Array
    E: Array
    G: Array
    R: Array
    S: Tridiagonal
    factorization: Factorization = field(repr=False)

    @cached_property
    def A_factor(self) -> Factor:
        """𝒜, factored."""
        return self.factorization(self.A.diagonal, self.A.upper)

    @cached_property
    def S_factor(self) -> Factor:
        """-𝒮, factored; InputError where it is not definite."""
        return self.factorization(-self.S.diagonal, -self.S.upper)

    @cached_property
    def Lambda_inv(self) -> Array:
        """Λ⁻¹ = 𝒟 - ℰᵀ𝒜⁻¹ℰ (eq. 46), (6, 6), which takes the last block of 𝒜⁻¹ only."""
        Lambda_inv = self.D - self.E.T @ self.A_factor.last_inverse_block() @ self.E
        return np.asarray(0.5 * (Lambda_inv + Lambda_inv.T))

    @cached_property
    def Lambda(self) -> Array:
        """
        Λ = 𝒢 - ℛᵀ𝒮⁻¹ℛ (eq. 51), (6, 6), without Λ⁻¹.

        Raises
        ------
        InputError
            If 𝒮 is singular to working precision: the tip cannot be moved every way.

        """
        try:
            Lambda = self.G + self.R.T @ self.S_factor.last_inverse_block() @ self.R
            singular = not np.linalg.cond(Lambda) < 1.0 / EXACT_LOW
        except (InputError, np.linalg.LinAlgError):
            singular = True
        if singular:
            raise InputError('S is singular: the tip cannot be moved in every direction here, and '
                             'has no task inertia (its inverse, Lambda_inv, exists)')
        return np.asarray(0.5 * (Lambda + Lambda.T))

    def M_inv_times(self, x: Array) -> Array:
        """M⁻¹x = 𝒞x - ℬᵀ𝒜⁻¹ℬx (eq. 39), (n,): one right-hand side."""
        Bx = self.B.times(x[:, None])
        return (self.C.times(x[:, None]) - self.B.T.times(self.A_factor.solve(Bx)))[:, 0]

    def Lambda_inv_times(self, f: Array) -> Array:
        """Λ⁻¹f = 𝒟f - ℰᵀ𝒜⁻¹ℰf (eq. 46), (6,): one right-hand side."""
        X = self.A_factor.solve(self._in_last_block(self.E @ f))
        return np.asarray(self.D @ f - self.E.T @ X[-1])

    def Lambda_times(self, a: Array) -> Array:
        """Λa = 𝒢a - ℛᵀ𝒮⁻¹ℛa (eq. 51), (6,): one right-hand side; errors are those of Λ."""
        self.Lambda  # noqa: B018  refuses where S is singular
        X = self.S_factor.solve(self._in_last_block(self.R @ a))
        return np.asarray(self.G @ a + self.R.T @ X[-1])

    def M_inv_times_and_Lambda_inv(self, x: Array) -> tuple[Array, Array]:
        """M⁻¹x (n,) and Λ⁻¹ (6, 6) by one solve with seven right-hand sides (eqs. 54-56)."""
        Bx = self.B.times(x[:, None])
        solution = self.A_factor.solve(
            np.concatenate([self._in_last_block(self.E), Bx[:, :, None]], axis=2))
        Omega_last, X = solution[-1, :, :6], solution[:, :, 6]
        return ((self.C.times(x[:, None]) - self.B.T.times(X))[:, 0],
                np.asarray(self.D - self.E.T @ Omega_last))

    def _in_last_block(self, block: Array) -> Array:
        whole = np.zeros((len(self.A.diagonal), *block.shape))
        whole[-1] = block
        return whole


@dataclass(frozen=True, eq=False)
class ConstrainedMotion:
    """
    How a chain accelerates, and what its joints bear.

    Attributes
    ----------
    qdd : (n,)
        [rad/s², m/s²]
    forces : (n, 6)
        The wrench that body i receives from body i-1 (the base for i = 0) through joint i, about
        body i's origin, in body i's axes, [moment; force] [N·m, N]; body i-1 receives its
        opposite. Its part along the joint axis is what the drive gives, τ - d q̈; the other five
        are what the bearings hold.

    """

    qdd: Array
    forces: Array


def schur_blocks(robot: Robot, q: ArrayLike,
                 factorization: Factorization = BlockLDL) -> SchurBlocks:
    """
    The factors of M⁻¹, Λ⁻¹ and Λ of a robot at one position.

    Parameters
    ----------
    robot : Robot
    q : (n,)
        [rad, m].
    factorization : BlockLDL or BlockCyclicReduction

    Raises
    ------
    InputError
        A shape that does not fit, numbers that are not finite.

    """
    return _Located(_Bodies(robot), finite_array('q', q, (robot.n,))).blocks(factorization)


def constrained_motion(robot: Robot, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                       F_tip: ArrayLike | None = None,
                       factorization: Factorization = BlockLDL) -> ConstrainedMotion:
    """
    Forward dynamics by the constraint-force algorithm: accelerations and joint reactions.

    With r⁰ what the joints would do without any force through them (gravity, velocities, F_tip),
    𝒜 F_S = -(ℬτ + W̃ᵀr⁰) and q̈ = 𝒞τ + ℬᵀF_S + Hᵀr⁰ (eqs. 35-38).

    Parameters
    ----------
    robot : Robot
    q, qd, tau : (n,)
        [rad, m], [rad/s, m/s], [N·m, N].
    F_tip : (6,), optional
        Force of the environment on the tip, base axes, [moment; force] [N·m, N].
    factorization : BlockLDL or BlockCyclicReduction

    Raises
    ------
    InputError
        Shapes that do not fit, numbers that are not finite.

    """
    n = robot.n
    return Schur(robot, factorization).motion(
        finite_array('q', q, (n,)), finite_array('qd', qd, (n,)), finite_array('tau', tau, (n,)),
        np.zeros(6) if F_tip is None else finite_array('F_tip', F_tip, (6,)))


class Schur(NumpyMethod):
    """
    The law by the factorization of 𝒜, with the contract of `osc_ros.dynamics.sweep.Sweep`.

    With `BlockLDL` it is what `osc_ros.dynamics.ldl.LDL` computes, in a form to be read.

    What `outward` finds is kept: the factors of the last position serve M⁻¹, Λ⁻¹ and the
    constraint forces for as long as q stays the same. Not to be shared between threads.

    Parameters
    ----------
    robot : Robot
    factorization : BlockLDL or BlockCyclicReduction

    """

    def __init__(self, robot: Robot, factorization: Factorization = BlockLDL) -> None:
        super().__init__(robot)
        self._factorization = factorization
        self._bodies = _Bodies(robot)
        self._q = np.full(robot.n, np.nan)

    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        n = self.robot.n
        bodies, (at, blocks) = self._bodies, self._at(q)
        v, zeta, p = at.velocities(qd)
        pulled = zeta + at.base_acceleration
        self._tau = np.zeros(n) if tau is None else tau.copy()
        if qdd is None:
            free = at.across_joints(_product(bodies.I_inv, -p)) - pulled
            if not np.isfinite(free).all():
                return NOT_FINITE
            _, f = self._solved(blocks, self._tau, free)
            a = bodies.I_inv[-1] @ (f[-1] - p[-1])
        else:
            V = at.outward(bodies.along(qdd) + pulled)
            a = V[-1]
            if tau is not None:
                _, f = self._solved(blocks, tau, np.zeros((n, 6)))
                a = a + bodies.I_inv[-1] @ f[-1]
            f = at.inward(_product(bodies.I, V) + p)
            self._tau += bodies.axis_part(f) + self.robot.rotor_inertia * qdd
        self.pose = at.placement.T_tip.copy()
        self.twist = at.X_tip @ v[-1]
        self.Lambda_inv = blocks.Lambda_inv.copy()
        self.a0 = at.X_tip @ a
        self.a0[3:] += np.cross(self.twist[:3], self.twist[3:]) + self.robot.gravity
        return DONE if np.isfinite(self.a0).all() else NOT_FINITE

    def inward(self, F: Array, out: Array) -> None:
        """Joint torques τ⁰ + JᵀF into out, for the τ⁰ of the last `outward`."""
        out[:] = self._tau + self._J.T @ F

    def jacobian(self, out: Array) -> None:
        """J (6, n) at the last `outward`, into out."""
        out[:] = self._J

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques and a force on the tip."""
        return self.motion(q, qd, tau, F).qdd

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""
        return self._at(q)[1].M_inv_times(x)

    @np.errstate(over='ignore', invalid='ignore')
    def motion(self, q: Array, qd: Array, tau: Array, F: Array) -> ConstrainedMotion:
        """Accelerations and joint reactions under torques and a force on the tip."""
        bodies, (at, blocks) = self._bodies, self._at(q)
        _, zeta, p = at.velocities(qd)
        applied = -p
        applied[-1] += at.X_tip.T @ F
        free = at.across_joints(_product(bodies.I_inv, applied)) - zeta - at.base_acceleration
        if not np.isfinite(free).all():
            return ConstrainedMotion(np.full_like(tau, np.nan), np.full_like(free, np.nan))
        return ConstrainedMotion(*self._solved(blocks, tau, free))

    def _solved(self, blocks: SchurBlocks, tau: Array, free: Array) -> tuple[Array, Array]:
        """q̈ (n,) and f = Hτ + W̃F_S (n, 6); `free` is r⁰ (n, 6)."""
        bodies, column = self._bodies, tau[:, None]
        F_S = -blocks.A_factor.solve(blocks.B.times(column) + bodies.across_axis(free))
        qdd = (blocks.C.times(column) + blocks.B.T.times(F_S))[:, 0] + bodies.axis_part(free)
        return qdd, bodies.along(tau) + bodies.from_across_axis(F_S)

    def _at(self, q: Array) -> tuple[_Located, SchurBlocks]:
        if not np.array_equal(q, self._q):
            at = _Located(self._bodies, q)
            self._located, self._blocks = at, at.blocks(self._factorization)
            self._J = newton_euler.jacobian(self.robot, at.placement)
            self._q = q.copy()
        return self._located, self._blocks


class _Bodies:
    """What never changes: inertias, and which of the six directions are H and W̃."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.I = robot.inertia
        self.I_inv: Array = np.asarray(np.linalg.inv(robot.inertia), dtype=np.float64)
        self.width = 6 if robot.rotor_inertia.any() else 5
        axis_last = np.where(robot.prismatic[:, None], [0, 1, 2, 3, 4, 5], [0, 1, 3, 4, 5, 2])
        self.h, self.w = axis_last[:, 5:], axis_last[:, :self.width]
        self.scale = np.ones((robot.n, self.width))  # of the columns of W̃
        if self.width == 6:
            self.scale[:, 5] = np.sqrt(robot.rotor_inertia)

    def along(self, s: Array) -> Array:
        """H s (n, 6)."""
        x = np.zeros((len(s), 6))
        np.put_along_axis(x, self.h, s[:, None], axis=1)
        return x

    def axis_part(self, x: Array) -> Array:
        """Hᵀ x (n,)."""
        return np.take_along_axis(x, self.h, axis=1)[:, 0]

    def across_axis(self, x: Array) -> Array:
        """W̃ᵀ x (n, m)."""
        return self.scale * np.take_along_axis(x, self.w, axis=1)

    def from_across_axis(self, y: Array) -> Array:
        """W̃ y (n, 6)."""
        x = np.zeros((len(y), 6))
        np.put_along_axis(x, self.w, self.scale * y, axis=1)
        return x


class _Located:
    """
    The bodies at one position.

    Attributes
    ----------
    X : (n, 6, 6)
        Takes motions of body i-1 (the base for i = 0) to body i.
    X_tip, X_tip_inv : (6, 6)
        From the last body to the tip, base axes, and back.
    base_acceleration : (n, 6)
        Minus gravity as an acceleration of the base, where the first joint feels it.

    """

    def __init__(self, bodies: _Bodies, q: Array) -> None:
        robot = bodies.robot
        self.bodies = bodies
        R, p = _relative(robot, q)
        self.X = motion_transforms(R, p)
        self.placement = _placement(robot, R, p)
        R_last, p_tip = self.placement.R[-1], robot.T_body_tip[:3, 3]
        self.X_tip = motion_transforms(R_last.T[None], p_tip[None])[0]
        self.X_tip_inv = motion_transforms(R_last[None], -(R_last @ p_tip)[None])[0]
        self.base_acceleration = np.zeros((robot.n, 6))
        self.base_acceleration[0] = self.X[0, :, 3:] @ -robot.gravity

    def across_joints(self, V: Array) -> Array:
        """𝒫ᵀV (n, 6): the part of the bodies' motions that is across their joints (eq. 17)."""
        x = V.copy()
        x[1:] -= _product(self.X[1:], V[:-1])
        return x

    def outward(self, x: Array) -> Array:
        """(𝒫ᵀ)⁻¹x (n, 6): the motions of the bodies that have x across their joints."""
        V = x.copy()
        for i in range(1, len(V)):
            V[i] += self.X[i] @ V[i - 1]
        return V

    def inward(self, x: Array) -> Array:
        """𝒫⁻¹x (n, 6): the wrenches through the joints that leave x to the bodies (eq. 23)."""
        f = x.copy()
        for i in range(len(f) - 1, 0, -1):
            f[i - 1] += f[i] @ self.X[i]
        return f

    def velocities(self, qd: Array) -> tuple[Array, Array, Array]:
        """v, ζ = v × Hq̇ and p = v ×* Iv of every body (n, 6)."""
        bodies = self.bodies
        Hqd = bodies.along(qd)
        v = self.outward(Hqd)
        omega, speed = v[:, :3], v[:, 3:]
        zeta = np.hstack([np.cross(omega, Hqd[:, :3]),
                          np.cross(omega, Hqd[:, 3:]) + np.cross(speed, Hqd[:, :3])])
        angular, linear = np.hsplit(_product(bodies.I, v), 2)
        p = np.hstack([np.cross(omega, angular) + np.cross(speed, linear),
                       np.cross(omega, linear)])
        return v, zeta, p

    def blocks(self, factorization: Factorization) -> SchurBlocks:
        """The factors of M⁻¹, Λ⁻¹ and Λ here."""
        I_inv, w, h = self.bodies.I_inv, self.bodies.w, self.bodies.h
        W, H = (w, self.bodies.scale), (h, np.ones(h.shape))
        # 𝒫ᵀℐ⁻¹𝒫: I⁻¹ + X I⁻¹Xᵀ on the diagonal, the second term from the body before
        inner = np.zeros_like(I_inv)
        inner[1:] = self.X[1:] @ I_inv[:-1] @ self.X[1:].transpose(0, 2, 1)
        diagonal, upper = I_inv + inner, -I_inv[:-1] @ self.X[1:].transpose(0, 2, 1)
        A, B, C = (_projected(diagonal, upper, *sides) for sides in ((W, W), (W, H), (H, H)))
        A.diagonal[:, 5:, 5:] += 1.0
        E = _rows(I_inv[-1] @ self.X_tip.T, W)
        R = _rows(self.X_tip_inv, W)
        held = _rows(_rows(inner[-1], W).T, W).T
        held[5:, 5:] += 1.0
        S = Tridiagonal(-A.diagonal, -A.upper, -A.lower)
        S.diagonal[-1] = -held  # ERᵀ - A without the difference: what A has of the last body
        return SchurBlocks(
            A=A, B=B, C=C, D=self.X_tip @ I_inv[-1] @ self.X_tip.T, E=E,
            G=self.X_tip_inv.T @ self.bodies.I[-1] @ self.X_tip_inv, R=R, S=S,
            factorization=factorization)


def _rows(x: Array, W: tuple[NDArray[np.int_], Array]) -> Array:
    """W̃ᵀ x of the last body."""
    w, scale = W[0][-1], W[1][-1]
    return np.asarray(scale[:, None] * x[w])


def _projected(diagonal: Array, upper: Array, left: tuple[NDArray[np.int_], Array],
               right: tuple[NDArray[np.int_], Array]) -> Tridiagonal:
    """The rows and columns that are chosen of the symmetric matrix, scaled: eqs. 52 and 53."""
    (r, rs), (c, cs) = left, right
    body = np.arange(len(diagonal))[:, None, None]

    def chosen(blocks: Array, first: slice, second: slice) -> Array:
        return np.asarray(
            rs[first, :, None] * cs[second, None, :]
            * blocks[body[:len(blocks)], r[first, :, None], c[second, None, :]])

    here, after, every = slice(None, -1), slice(1, None), slice(None)
    return Tridiagonal(chosen(diagonal, every, every), chosen(upper, here, after),
                       chosen(upper.transpose(0, 2, 1), after, here))


def _product(blocks: Array, x: Array) -> Array:
    """Every block (n, a, b) times its own vector of x (n, b)."""
    return np.asarray((blocks @ x[:, :, None])[:, :, 0])


def _relative(robot: Robot, q: Array) -> tuple[Array, Array]:
    """Axes (n, 3, 3) and origin (n, 3) of every body in the body before it."""
    R, p = robot.T_parent_body[:, :3, :3].copy(), robot.T_parent_body[:, :3, 3].copy()
    p += np.where(robot.prismatic, q, 0.0)[:, None] * R[:, :, 2]
    angle = np.where(robot.prismatic, 0.0, q)[:, None]
    c, s, x, y = np.cos(angle), np.sin(angle), R[:, :, 0].copy(), R[:, :, 1].copy()
    R[:, :, 0], R[:, :, 1] = c * x + s * y, c * y - s * x
    return R, p


def _placement(robot: Robot, R: Array, p: Array) -> newton_euler.Placement:
    R_base, p_base = R.copy(), p.copy()
    for i in range(1, robot.n):
        p_base[i] = p_base[i - 1] + R_base[i - 1] @ p[i]
        R_base[i] = R_base[i - 1] @ R[i]
    T_last = np.eye(4)
    T_last[:3, :3], T_last[:3, 3] = R_base[-1], p_base[-1]
    return newton_euler.Placement(R_base, p_base, (T_last @ robot.T_body_tip)[None])


def motion_transforms(R: Array, p: Array) -> Array:
    """
    To frames with axes R (n, 3, 3) and origins p (n, 3) in another one, from that one: (n, 6, 6).

    The angular velocity turns with Rᵀ, and the origin moves with v + ω × p.

    """
    X = np.zeros((len(R), 6, 6))
    X[:, :3, :3] = X[:, 3:, 3:] = R.transpose(0, 2, 1)
    across = np.cross(np.eye(3), p[:, None, :])  # rows e × p: ω × p = ω @ across
    X[:, 3:, :3] = R.transpose(0, 2, 1) @ across.transpose(0, 2, 1)
    return X
