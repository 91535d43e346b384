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

The paper's bodies and joints are links of the path from the base to the tip here. Bodies without
mass make one joint of k freedoms with the body that comes after them, spherical joints have k = 3.
Such a joint's motion subspace is S (6, k) in place of H, W its orthonormal complement, and T =
S(SᵀS)⁻¹ gives what S takes: f = Tτ + W F_S, q̈ = Tᵀ(…), W̃ = [W, T√d]. All blocks are as wide as
the widest, the others filled up with rows of the identity; k = 6 leaves nothing to eliminate.
Bodies beside the path move freely: they enter the link that they hang from by their articulated
inertia and bias force (Fijany and Featherstone 2013).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from osc_ros.dynamics.arrays import finite_array
from osc_ros.dynamics.kinematics import motion_transforms, Placement
from osc_ros.dynamics.method import DONE, NOT_FINITE
from osc_ros.dynamics.papers import newton_euler
from osc_ros.dynamics.papers.block_tridiagonal import BlockLDL, Factor, Factorization
from osc_ros.dynamics.papers.numpy_method import NumpyMethod
from osc_ros.dynamics.task_inertia import EXACT_LOW
from osc_ros.errors import InputError, ModelError
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
    B, C : Tridiagonal of (m, k) and of (k, k)
        What the joint torques do across the joints, along W̃ and along H (eq. 39); k = 1, or as
        many freedoms as one of the joints has.
    D : (6, 6)
        Inverse inertia of the last body about the tip, base axes (eqs. 44, 45).
    E, R : (m, 6)
        The last block of ℰ and of ℛ = ℰ𝒟⁻¹ (eqs. 43, 49); all others are zero.
    G : (6, 6)
        𝒟⁻¹ (eq. 48) [kg m², kg m, kg].
    S : Tridiagonal of (m, m)
        ℰℛᵀ - 𝒜 (eq. 50), negative definite where the tip can be moved every way: -𝒮 is the 𝒜 of
        the chain with its last body held.
    freedoms : (g, k) int
        Which freedom each place of a joint is, counted along the path; a place that a joint lacks
        is one too many.

    """

    A: Tridiagonal
    B: Tridiagonal
    C: Tridiagonal
    D: Array
    E: Array
    G: Array
    R: Array
    S: Tridiagonal
    freedoms: NDArray[np.intp] = field(repr=False)
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
        """
        M⁻¹x = 𝒞x - ℬᵀ𝒜⁻¹ℬx (eq. 39), (n,): one right-hand side.

        The n freedoms are those of the path, the others following freely.

        """
        spread = _spread(x, self.freedoms)
        X = self.A_factor.solve(self.B.times(spread))
        return _gathered(self.C.times(spread) - self.B.T.times(X), self.freedoms, len(x))

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
        spread = _spread(x, self.freedoms)
        rhs = self.B.times(spread)[:, :, None]
        solution = self.A_factor.solve(np.concatenate([self._in_last_block(self.E), rhs], axis=2))
        Omega_last, X = solution[-1, :, :6], solution[:, :, 6]
        return (_gathered(self.C.times(spread) - self.B.T.times(X), self.freedoms, len(x)),
                np.asarray(self.D - self.E.T @ Omega_last))

    def _in_last_block(self, block: Array) -> Array:
        whole = np.zeros((len(self.A.diagonal), *block.shape))
        whole[-1] = block
        return whole


@dataclass(frozen=True, eq=False)
class ConstrainedMotion:
    """
    How a robot accelerates, and what its joints bear.

    Attributes
    ----------
    qdd : (n,)
        [rad/s², m/s²]
    forces : (b, 6)
        The wrench that body i receives from its parent (the base or another body) through its
        joint, about body i's origin, in body i's axes, [moment; force] [N·m, N]; the parent
        receives its opposite. Its part along the joint's freedoms is what the drive gives,
        τ - d q̈; the others are what the bearings hold.

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
    q : (nq,)
        [rad, m].
    factorization : BlockLDL or BlockCyclicReduction

    Raises
    ------
    ModelError
        A link of the path without the inertia that a link must have here.
    InputError
        A shape that does not fit, numbers that are not finite.

    """
    return _Located(_Bodies(robot), finite_array('q', q, (robot.nq,))).blocks(factorization)


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
    q, qd, tau : (nq,), (n,), (n,)
        [rad, m], [rad/s, m/s], [N·m, N].
    F_tip : (6,), optional
        Force of the environment on the tip, base axes, [moment; force] [N·m, N].
    factorization : BlockLDL or BlockCyclicReduction

    Raises
    ------
    ModelError
        A link of the path without the inertia that a link must have here.
    InputError
        Shapes that do not fit, numbers that are not finite.

    """
    n = robot.n
    return Schur(robot, factorization).motion(
        finite_array('q', q, (robot.nq,)), finite_array('qd', qd, (n,)),
        finite_array('tau', tau, (n,)),
        np.zeros(6) if F_tip is None else finite_array('F_tip', F_tip, (6,)))


class Schur(NumpyMethod):
    """
    The law by the factorization of 𝒜, with the contract of `osc_ros.dynamics.chain.sweep.Sweep`.

    With `BlockLDL` it is what `osc_ros.dynamics.chain.ldl.LDL` computes, in a form to be read.

    What `outward` finds is kept: the factors of the last position serve M⁻¹, Λ⁻¹ and the
    constraint forces for as long as q stays the same. Not to be shared between threads.

    Parameters
    ----------
    robot : Robot
    factorization : BlockLDL or BlockCyclicReduction

    Raises
    ------
    ModelError
        A link of the path without the inertia that a link must have here.

    """

    def __init__(self, robot: Robot, factorization: Factorization = BlockLDL) -> None:
        super().__init__(robot)
        self._factorization = factorization
        self._bodies = _Bodies(robot)
        self._q = np.full(robot.nq, np.nan)

    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        bodies, (at, blocks) = self._bodies, self._at(q)
        v, zeta, p = at.velocities(qd)
        pulled = zeta + at.base_acceleration(self.gravity)
        self._tau = np.zeros(self.robot.n) if tau is None else tau.copy()
        if qdd is None:
            if not np.isfinite(p).all():
                return NOT_FINITE
            a = self._solved(at, blocks, self._tau, pulled, p).a[-1]
        else:
            V = at.outward(bodies.along(qdd) + pulled)
            a = V[bodies.links[-1]]
            if tau is not None:
                nothing = np.zeros_like(p)
                a = a + self._solved(at, blocks, tau, nothing, nothing).a[-1]
            f = at.inward(_product(bodies.I, V) + p)
            self._tau += bodies.axis_part(f) + self.robot.rotor_inertia * qdd
        self.pose[:] = at.placement.T_tip.copy()
        self.twist[:] = at.X_tip @ v[bodies.links[-1]]
        self.Lambda_inv[:] = blocks.Lambda_inv.copy()
        self.a0[:] = at.X_tip @ a
        self.a0[3:] += np.cross(self.twist[:3], self.twist[3:]) + self.gravity
        return DONE if np.isfinite(self.a0).all() else NOT_FINITE

    def inward(self, F: Array, out: Array) -> None:
        """Joint torques τ⁰ + JᵀF into out, for the τ⁰ of the last `outward`."""
        out[:] = self._tau + self._J.T @ F

    def jacobian(self, out: Array) -> None:
        """J (6, n) at the last `outward`, into out."""
        out[:] = self._J

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """M⁻¹(τ + JᵀF) (n,) at the last `outward`, into out [rad/s²]."""
        at, blocks = self._located, self._blocks
        p, nothing = np.zeros((len(at.X), 6)), np.zeros((len(at.X), 6))
        p[self._bodies.links[-1]] = -at.X_tip.T @ F
        out[:] = self._moved(at, self._solved(at, blocks, tau, nothing, p)).qdd

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques and a force on the tip."""
        return self.motion(q, qd, tau, F).qdd

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""
        at, blocks = self._at(q)
        nothing = np.zeros((len(at.X), 6))
        return self._moved(at, self._solved(at, blocks, x, nothing, nothing)).qdd

    @np.errstate(over='ignore', invalid='ignore')
    def motion(self, q: Array, qd: Array, tau: Array, F: Array) -> ConstrainedMotion:
        """Accelerations and joint reactions under torques and a force on the tip."""
        at, blocks = self._at(q)
        _, zeta, p = at.velocities(qd)
        p[self._bodies.links[-1]] -= at.X_tip.T @ F
        if not np.isfinite(p).all():
            return ConstrainedMotion(np.full_like(tau, np.nan), np.full_like(p, np.nan))
        pulled = zeta + at.base_acceleration(self.gravity)
        return self._moved(at, self._solved(at, blocks, tau, pulled, p))

    def _solved(self, at: _Located, blocks: SchurBlocks, tau: Array, pulled: Array, p: Array
                ) -> _Response:
        """
        What the links do and bear.

        Parameters
        ----------
        tau : (n,)
        pulled : (b, 6)
            Accelerations across the joints that no force makes.
        p : (b, 6)
            Forces that the bodies take without accelerating.

        """
        bodies = self._bodies
        p, drives = at.hung(tau, pulled, p)
        p_link, tau = p[bodies.links], _spread(tau, bodies.freedoms)
        r = at.across_joints(_product(at.I_inv, -p_link)) - at.across_groups(pulled)
        F_S = -blocks.A_factor.solve(blocks.B.times(tau) + _product_T(at.W, r))
        qdd = (blocks.C.times(tau) + blocks.B.T.times(F_S)) + _product_T(at.T, r)
        f = _product(at.T, tau) + _product(at.W, F_S)
        borne = f.copy()
        borne[:-1] -= _product_T(at.X_link[1:], f[1:])
        return _Response(_gathered(qdd, bodies.freedoms, self.robot.n), f,
                         _product(at.I_inv, borne - p_link), pulled, p, drives)

    def _moved(self, at: _Located, found: _Response) -> ConstrainedMotion:
        """The same for all bodies: those before the links on the path, and those beside it."""
        bodies, forces, qdd = self._bodies, np.zeros((len(at.X), 6)), found.qdd
        a = np.zeros((len(at.X) + 1, 6))  # the last one is the base
        forces[bodies.links], a[bodies.links] = found.f, found.a
        for group in bodies.groups:
            for i, j in zip(group[-2::-1], group[:0:-1]):
                forces[i] = at.X[j].T @ forces[j]
        for i, drive in zip(bodies.beside, found.drives):
            own, H = bodies.joint(i)
            carried = at.X[i] @ a[self.robot.parent[i]]
            qdd[own] = drive - at.D_inv[i] @ (at.U[i].T @ carried)
            a[i] = carried + found.pulled[i] + H @ qdd[own]
            forces[i] = at.I[i] @ a[i] + found.p[i]
        return ConstrainedMotion(qdd, forces)

    def _at(self, q: Array) -> tuple[_Located, SchurBlocks]:
        if not np.array_equal(q, self._q):
            at = _Located(self._bodies, q)
            self._located, self._blocks = at, at.blocks(self._factorization)
            self._J = newton_euler.jacobian(self.robot, at.placement)
            self._q = q.copy()
        return self._located, self._blocks


class _Response(NamedTuple):
    """
    What a solution of 𝒜 F_S = … says of the links.

    Attributes
    ----------
    qdd : (n,)
        Of the joints on the path; the others are zero yet.
    f, a : (g, 6)
        Wrenches through the joints of the links, and accelerations of these.
    pulled, p : (b, 6)
        As they were given, p with what hangs on every body.
    drives : list of (k,)
        Of the joints beside the path, while what they hang from does not accelerate.

    """

    qdd: Array
    f: Array
    a: Array
    pulled: Array
    p: Array
    drives: list[Array]


class _Bodies:
    """
    What never changes: inertias, the links of the path, and the directions of their joints.

    Attributes
    ----------
    groups : list of list of int
        The bodies of every link, base first: those without mass, which its joint consists of, and
        the one that has inertia.
    links : (g,) int
        The last of each group.
    beside : list of int
        The bodies that are not on the path, parents first.
    k : (g,) int
        How many freedoms the joint of each link has.
    freedoms : (g, max k) int
        Which ones; n where it has less.
    d : (g, max k)
        Their rotor inertias.
    m : int
        How wide the blocks are.
    S, W : (g, 6, max k), (g, 6, m)
        Of the links of one body, the others' depend on q.

    """

    def __init__(self, robot: Robot) -> None:
        if len(robot.tips) > 1:
            raise InputError('the factorization is of the path to one tip, not to '
                             f"{len(robot.tips)}: {', '.join(robot.tips)}")
        self.robot = robot
        self.I = robot.inertia
        b, n = len(robot.parent), robot.n
        width = 3 if robot.spherical.any() else 1
        self.H, self._own = np.zeros((b, 6, width)), np.full((b, width), n)
        for i in range(b):
            axes = [0, 1, 2] if robot.spherical[i] else [5] if robot.prismatic[i] else [2]
            self.H[i, axes, range(len(axes))] = 1.0
            self._own[i, :len(axes)] = robot.v_index[i] + np.arange(len(axes))
        self.groups = _groups(robot)
        self.links = np.array([group[-1] for group in self.groups])
        self.beside = np.setdiff1d(np.arange(b), np.concatenate(self.groups)).tolist()
        own = [[k for k in self._own[group].ravel().tolist() if k < n] for group in self.groups]
        self.k = np.array([len(freedoms) for freedoms in own])
        self.freedoms = np.array([freedoms + [n] * (self.k.max() - len(freedoms))
                                  for freedoms in own])
        self.d = _spread(robot.rotor_inertia, self.freedoms)
        self.m = 6 if self.d.any() else max(1, 6 - int(self.k.min()))
        self.S = np.zeros((len(own), 6, self.k.max()))
        self.W = np.zeros((len(own), 6, self.m))
        for g, (group, k) in enumerate(zip(self.groups, self.k)):
            if len(group) == 1:
                self.S[g, :, :k] = self.H[group[0], :, :k]
                self.W[g, :, :6 - k] = np.eye(6)[:, ~self.S[g].any(axis=1)]

    def along(self, s: Array) -> Array:
        """H s (b, 6)."""
        return _product(self.H, _spread(s, self._own))

    def axis_part(self, x: Array) -> Array:
        """Hᵀ x (n,)."""
        return _gathered(_product_T(self.H, x), self._own, self.robot.n)

    def joint(self, i: int) -> tuple[slice, Array]:
        """Which freedoms body i has, and its H (6, k)."""
        k = 3 if self.robot.spherical[i] else 1
        first = int(self.robot.v_index[i])
        return slice(first, first + k), self.H[i, :, :k]


def _groups(robot: Robot) -> list[list[int]]:
    """The bodies of every link of the path, base first."""
    path = [robot.frames[robot.tip][0]]
    while robot.parent[path[-1]] >= 0:
        path.append(int(robot.parent[path[-1]]))
    groups: list[list[int]] = [[]]
    for i in path[::-1]:
        groups[-1].append(i)
        freedoms = sum(3 if robot.spherical[k] else 1 for k in groups[-1])
        if freedoms > 6:
            raise _refusal(robot, i, f'{freedoms} freedoms in a row without mass between them')
        if robot.definite[i]:
            groups.append([])
        elif robot.inertia[i].any() or i == path[0] or np.count_nonzero(robot.parent == i) > 1:
            raise _refusal(robot, i, 'an inertia that cannot be inverted')
    return groups[:-1]


def _refusal(robot: Robot, i: int, what: str) -> ModelError:
    link = next((link for link, (body, _) in robot.frames.items() if body == i), '')
    return ModelError(
        f"link '{link}', moved by joint '{robot.joints[i]}', has {what}: methods 'ldl' and 'bcr' "
        'want links of definite inertia, and at most 6 joints in a row without mass between; the '
        'others take this robot')


class _Located:
    """
    The bodies at one position.

    Attributes
    ----------
    X : (b, 6, 6)
        Takes motions of each body's parent to the body.
    X_link : (g, 6, 6)
        Takes motions of a link to the next one; for the first one, motions of the base.
    X_tip, X_tip_inv : (6, 6)
        From the last link to the tip, base axes, and back.
    W, T : (g, 6, m), (g, 6, max k)
        W̃ and T of every link.
    I : (b, 6, 6)
        Articulated inertias of the bodies beside the path; of links, their own and what is felt of
        those; of the others, nothing.
    U, D_inv : dict of int to (6, k), (k, k)
        Of the bodies beside the path: I H and (Hᵀ I H + d)⁻¹.
    I_inv : (g, 6, 6)

    """

    def __init__(self, bodies: _Bodies, q: Array) -> None:
        robot = bodies.robot
        self.bodies = bodies
        R, p = _relative(robot, q)
        self.X = motion_transforms(R, p)
        self.placement = _placement(robot, R, p)
        R_last, p_tip = self.placement.R[bodies.links[-1]], robot.T_body_tip[:3, 3]
        self.X_tip = motion_transforms(R_last.T[None], p_tip[None])[0]
        self.X_tip_inv = motion_transforms(R_last[None], -(R_last @ p_tip)[None])[0]
        self._articulate()
        self._join()

    def base_acceleration(self, gravity: Array) -> Array:
        """Minus gravity as an acceleration (b, 6) of the base, where the joints on it feel it."""
        found = np.zeros((len(self.X), 6))
        on_base = self.bodies.robot.parent < 0
        found[on_base] = self.X[on_base, :, 3:] @ -gravity
        return found

    def _articulate(self) -> None:
        bodies, robot = self.bodies, self.bodies.robot
        self.I = bodies.I.copy()
        self.U: dict[int, Array] = {}
        self.D_inv: dict[int, Array] = {}
        for i in reversed(bodies.beside):
            own, H = bodies.joint(i)
            self.U[i] = self.I[i] @ H
            self.D_inv[i] = _inverse(H.T @ self.U[i] + np.diag(robot.rotor_inertia[own]))
            if robot.parent[i] >= 0:
                felt = self.I[i] - self.U[i] @ self.D_inv[i] @ self.U[i].T
                self.I[robot.parent[i]] += self.X[i].T @ felt @ self.X[i]
        self.I_inv = _inverse(self.I[bodies.links])

    def _join(self) -> None:
        """X, S, W and T of the links, those of several bodies put together."""
        bodies = self.bodies
        self.X_link, self.W, S = self.X[bodies.links], bodies.W.copy(), bodies.S
        self.T = S.copy()
        for g, (group, k) in enumerate(zip(bodies.groups, bodies.k)):
            if len(group) > 1:
                X, parts = np.eye(6), []
                for i in reversed(group):
                    parts.append(X @ bodies.joint(i)[1])
                    X = X @ self.X[i]
                self.X_link[g], S_link = X, np.hstack(parts[::-1])
                self.T[g, :, :k] = S_link @ _inverse(S_link.T @ S_link)
                self.W[g, :, :6 - k] = np.linalg.qr(S_link, mode='complete')[0][:, k:]
        if bodies.d.any():
            for k in np.unique(bodies.k):
                g = bodies.k == k
                self.W[g, :, 6 - k:] = self.T[g, :, :k] * np.sqrt(bodies.d[g, None, :k])

    def across_joints(self, V: Array) -> Array:
        """𝒫ᵀV (g, 6): the part of the links' motions that is across their joints (eq. 17)."""
        x = V.copy()
        x[1:] -= _product(self.X_link[1:], V[:-1])
        return x

    def across_groups(self, x: Array) -> Array:
        """What x (b, 6) across the joints of bodies makes across those of links, (g, 6)."""
        whole: Array = x[self.bodies.links]
        for g, group in enumerate(self.bodies.groups):
            if len(group) > 1:
                whole[g] = 0.0
                for i in group:
                    whole[g] = self.X[i] @ whole[g] + x[i]
        return whole

    def outward(self, x: Array) -> Array:
        """(𝒫ᵀ)⁻¹x (b, 6): the motions of the bodies that have x across their joints."""
        V = x.copy()
        for i, parent in enumerate(self.bodies.robot.parent.tolist()):
            if parent >= 0:
                V[i] += self.X[i] @ V[parent]
        return V

    def inward(self, x: Array) -> Array:
        """𝒫⁻¹x (b, 6): the wrenches through the joints that leave x to the bodies (eq. 23)."""
        f, parents = x.copy(), self.bodies.robot.parent.tolist()
        for i in range(len(f) - 1, -1, -1):
            if parents[i] >= 0:
                f[parents[i]] += f[i] @ self.X[i]
        return f

    def velocities(self, qd: Array) -> tuple[Array, Array, Array]:
        """v, ζ = v × Hq̇ and p = v ×* Iv of every body (b, 6)."""
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

    def hung(self, tau: Array, pulled: Array, p: Array) -> tuple[Array, list[Array]]:
        """
        Bias forces p (b, 6) with those of what hangs beside the path, whose bases do not move.

        Also the drives D⁻¹(τ - Hᵀp - Uᵀζ) of the joints there, in the order of `beside`.

        """
        p, drives = p.copy(), []
        for i in reversed(self.bodies.beside):
            own, H = self.bodies.joint(i)
            drive = self.D_inv[i] @ (tau[own] - H.T @ p[i] - self.U[i].T @ pulled[i])
            drives.append(drive)
            parent = self.bodies.robot.parent[i]
            if parent >= 0:
                p[parent] += self.X[i].T @ (p[i] + self.I[i] @ pulled[i] + self.U[i] @ drive)
        return p, drives[::-1]

    def blocks(self, factorization: Factorization) -> SchurBlocks:
        """The factors of M⁻¹, Λ⁻¹ and Λ here."""
        bodies, I_inv, X, W, T = self.bodies, self.I_inv, self.X_link, self.W, self.T
        # 𝒫ᵀℐ⁻¹𝒫: I⁻¹ + X I⁻¹Xᵀ on the diagonal, the second term from the link before
        inner = np.zeros_like(I_inv)
        inner[1:] = X[1:] @ I_inv[:-1] @ X[1:].transpose(0, 2, 1)
        diagonal, upper = I_inv + inner, -I_inv[:-1] @ X[1:].transpose(0, 2, 1)
        A, B, C = (_projected(diagonal, upper, *sides) for sides in ((W, W), (W, T), (T, T)))
        # 1 in the rows of W̃ that are a rotor's, and in those that a joint does not have
        ones = np.where(np.arange(bodies.m) >= 6 - bodies.k[:, None], 1.0, 0.0)[:, :, None]
        ones = ones * np.eye(bodies.m)
        A.diagonal[:] += ones
        S = Tridiagonal(-A.diagonal, -A.upper, -A.lower)
        # ERᵀ - A without the difference: what A has of the last link
        S.diagonal[-1] = -W[-1].T @ inner[-1] @ W[-1] - ones[-1]
        counted = np.full(bodies.robot.n + 1, bodies.k.sum())
        counted[bodies.freedoms[bodies.freedoms < bodies.robot.n]] = np.arange(bodies.k.sum())
        return SchurBlocks(
            A=A, B=B, C=C, D=self.X_tip @ I_inv[-1] @ self.X_tip.T,
            E=W[-1].T @ I_inv[-1] @ self.X_tip.T,
            G=self.X_tip_inv.T @ self.I[bodies.links[-1]] @ self.X_tip_inv,
            R=W[-1].T @ self.X_tip_inv, S=S, freedoms=counted[bodies.freedoms],
            factorization=factorization)


def _projected(diagonal: Array, upper: Array, left: Array, right: Array) -> Tridiagonal:
    """The symmetric block tridiagonal matrix between left and right (g, 6, ·): eqs. 52 and 53."""
    left = left.transpose(0, 2, 1)
    return Tridiagonal(left @ diagonal @ right, left[:-1] @ upper @ right[1:],
                       left[1:] @ upper.transpose(0, 2, 1) @ right[:-1])


def _inverse(blocks: Array) -> Array:
    return np.asarray(np.linalg.inv(blocks), dtype=np.float64)


def _spread(x: Array, places: NDArray[np.intp]) -> Array:
    """x (n,) where each joint has its own, zero where a place is n."""
    return np.asarray(np.append(x, 0.0)[places], dtype=np.float64)


def _gathered(x: Array, places: NDArray[np.intp], n: int) -> Array:
    """What `_spread` spreads, (n,); zero where no joint has a place."""
    whole = np.zeros(n + 1)
    whole[places] = x
    return whole[:n]


def _product(blocks: Array, x: Array) -> Array:
    """Every block (n, a, b) times its own vector of x (n, b)."""
    return np.asarray((blocks @ x[:, :, None])[:, :, 0])


def _product_T(blocks: Array, x: Array) -> Array:
    """Every block (n, a, b), transposed, times its own vector of x (n, a)."""
    return np.asarray((x[:, None, :] @ blocks)[:, 0])


def _relative(robot: Robot, q: Array) -> tuple[Array, Array]:
    """Axes (b, 3, 3) and origin (b, 3) of every body in its parent."""
    R, p = robot.T_parent_body[:, :3, :3].copy(), robot.T_parent_body[:, :3, 3].copy()
    angle = np.where(robot.prismatic | robot.spherical, 0.0, q[robot.q_index])[:, None]
    p += np.where(robot.prismatic, q[robot.q_index], 0.0)[:, None] * R[:, :, 2]
    c, s, x, y = np.cos(angle), np.sin(angle), R[:, :, 0].copy(), R[:, :, 1].copy()
    R[:, :, 0], R[:, :, 1] = c * x + s * y, c * y - s * x
    turned = np.flatnonzero(robot.spherical)
    if len(turned):
        quaternions = q[robot.q_index[turned][:, None] + np.arange(4)]
        R[turned] = R[turned] @ Rotation.from_quat(quaternions).as_matrix()
    return R, p


def _placement(robot: Robot, R: Array, p: Array) -> Placement:
    R_base, p_base = R.copy(), p.copy()
    for i, parent in enumerate(robot.parent.tolist()):
        if parent >= 0:
            p_base[i] = p_base[parent] + R_base[parent] @ p[i]
            R_base[i] = R_base[parent] @ R[i]
    last, T_last = robot.frames[robot.tip][0], np.eye(4)
    T_last[:3, :3], T_last[:3, 3] = R_base[last], p_base[last]
    return Placement(R_base, p_base, (T_last @ robot.T_body_tip)[None])
