# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The Schur-complement factorization of Fijany (paper 000), in the paper's notation.

The wrench that body i receives through its joint is the sum of the drive's and the bearings' part,
f = H τ + W F_S (eq. 24). The motion across a joint has no component along W, because the bodies
stay connected. This condition is a symmetric positive definite block tridiagonal system 𝒜 F_S = …
(eq. 35), which gives

    M⁻¹ = 𝒞 - ℬᵀ𝒜⁻¹ℬ        Λ⁻¹ = 𝒟 - ℰᵀ𝒜⁻¹ℰ        Λ = 𝒢 - ℛᵀ𝒮⁻¹ℛ

Differences from the paper: bodies and blocks are numbered 0 to n-1 from base to tip. The paper
puts the tip first, so that its first block is the last one here: in ℰ and ℛ only the last block is
not zero. Every quantity of a body is in that body's own axes and about its own origin, [angular;
linear], so inertias are constant; the motion transform X from the body before takes the place of
the paper's P̂ᵀ. Quantities of the tip are in base axes. The joint axis is +z of the body: H is a
unit vector, and multiplication by W drops an index.

A rotor of reflected inertia d adds a sixth column, W̃ = [W, √d H], and 1 to the last diagonal
entry of its block: 𝒜 = W̃ᵀ𝒫ᵀℐ⁻¹𝒫W̃ + diag(0,0,0,0,0,1), and the sixth unknown is -√d q̈. Blocks
are 5 wide if no joint has a rotor, otherwise 6 wide; d = 0 decouples the sixth row.

The paper's bodies and joints are here the links of the path from the base to the tip. Massless
bodies and the next body outward form one joint of k degrees of freedom; a spherical joint has 3.
The motion subspace of such a joint is S (6, k) in place of H, W is its orthonormal complement, and
T = S(SᵀS)⁻¹ its dual: f = Tτ + W F_S, q̈ = Tᵀ(…), W̃ = [W, T√d]. All blocks are as wide as the
widest one; narrower blocks are extended by rows of the identity. With k = 6 there is nothing to
eliminate. The joints of bodies off the path have no unknowns here: these bodies add their
articulated-body inertia and bias force to the link that carries them (Fijany and Featherstone
2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE
from osc_ros.dynamics.papers import newton_euler
from osc_ros.dynamics.papers.block_tridiagonal import BlockLDL, Factorization
from osc_ros.dynamics.papers.blocks import gather, product, product_T, spread
from osc_ros.dynamics.papers.factors import SchurBlocks
from osc_ros.dynamics.papers.links import Bodies, Located
from osc_ros.dynamics.papers.numpy_method import NumpyMethod
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConstrainedMotion:
    """
    Accelerations of a robot, and the forces in its joints.

    Attributes
    ----------
    qdd : (n,) [rad/s², m/s²]
    forces : (b, 6)
        The wrench that body i receives from its parent (the base or another body) through its
        joint, about body i's origin, in body i's axes, [moment; force] [N·m, N]; the parent
        receives its opposite. The part along the joint axes comes from the drive, τ - d q̈; the
        rest is the reaction of the bearings.

    """

    qdd: Array
    forces: Array


def schur_blocks(robot: Robot, q: ArrayLike,
                 factorization: Factorization = BlockLDL) -> SchurBlocks:
    """The factors of M⁻¹, Λ⁻¹ and Λ of a robot at one position q (nq,) [rad, m]."""
    # `factorization`: BlockLDL or BlockCyclicReduction. ModelError: a link from base to tip has a
    # singular inertia, or more than 6 degrees of freedom follow each other without a mass between
    # them. InputError: q has another shape or is not finite.
    return Located(Bodies(robot), finite_array('q', q, (robot.nq,))).blocks(factorization)


def constrained_motion(robot: Robot, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                       F_tip: ArrayLike | None = None,
                       factorization: Factorization = BlockLDL) -> ConstrainedMotion:
    """
    Forward dynamics by the constraint-force algorithm: accelerations and joint reactions.

    r⁰ are the accelerations across the joints without any force through them (by gravity,
    velocities and F_tip): 𝒜 F_S = -(ℬτ + W̃ᵀr⁰) and q̈ = 𝒞τ + ℬᵀF_S + Hᵀr⁰ (eqs. 35-38).

    Parameters
    ----------
    robot : Robot
    q, qd, tau : (nq,) [rad, m], (n,) [rad/s, m/s], (n,) [N·m, N]
    F_tip : (6,), optional
        Force of the environment on the tip, base axes, [moment; force] [N·m, N].
    factorization : BlockLDL or BlockCyclicReduction

    Raises
    ------
    ModelError, InputError
        See `schur_blocks`.

    """
    n = robot.n
    return Schur(robot, factorization).motion(
        finite_array('q', q, (robot.nq,)), finite_array('qd', qd, (n,)),
        finite_array('tau', tau, (n,)),
        np.zeros(6) if F_tip is None else finite_array('F_tip', F_tip, (6,)))


class Schur(NumpyMethod):
    """The methods 'bcr', and 'ldl' on robots that are not plain chains, by factorization of 𝒜."""

    # With `BlockLDL` it computes the same as `chain.ldl.LDL`, in readable form. The factors of the
    # last position are reused until q changes. ModelError as of `schur_blocks`.

    def __init__(self, robot: Robot, factorization: Factorization = BlockLDL) -> None:
        super().__init__(robot)
        self._factorization = factorization
        self._bodies = Bodies(robot)
        self._q = np.full(robot.nq, np.nan)

    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        bodies, (at, blocks) = self._bodies, self._at(q)
        v, zeta, p = at.velocities(qd)
        pulled = zeta + at.base_acceleration(self.gravity)
        self._tau = np.zeros(self.robot.n) if tau is None else tau.copy()
        if qdd is None:
            if not np.isfinite(p).all():
                return NOT_FINITE
            a = self._link_response(at, blocks, self._tau, pulled, p).a[-1]
        else:
            V = at.outward(bodies.along(qdd) + pulled)
            a = V[bodies.links[-1]]
            if tau is not None:
                nothing = np.zeros_like(p)
                a = a + self._link_response(at, blocks, tau, nothing, nothing).a[-1]
            f = at.inward(product(bodies.I, V) + p)
            self._tau += bodies.axis_part(f) + self.robot.rotor_inertia * qdd
        self.pose[:] = at.placement.T_tip.copy()
        self.twist[:] = at.X_tip @ v[bodies.links[-1]]
        self.Lambda_inv[:] = blocks.Lambda_inv.copy()
        self.a0[:] = at.X_tip @ a
        self.a0[3:] += np.cross(self.twist[:3], self.twist[3:]) + self.gravity
        return DONE if np.isfinite(self.a0).all() else NOT_FINITE

    def inward(self, F: Array, out: Array) -> None:
        """Write τ⁰ + JᵀF, with J and τ⁰ of the last `outward`, to out (n,)."""
        out[:] = self._tau + self._J.T @ F

    def jacobian(self, out: Array) -> None:
        """Write the Jacobian J of the last `outward` to out (6, n)."""
        out[:] = self._J

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """Write M⁻¹(τ + JᵀF), with M and J of the last `outward`, to out (n,) [rad/s²]."""
        at, blocks = self._located, self._blocks
        p, nothing = np.zeros((len(at.X), 6)), np.zeros((len(at.X), 6))
        p[self._bodies.links[-1]] = -at.X_tip.T @ F
        out[:] = self._body_motion(at, self._link_response(at, blocks, tau, nothing, p)).qdd

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques (n,) and a force F (6,) on the tip."""
        return self.motion(q, qd, tau, F).qdd

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """The product M⁻¹ x (n,)."""
        at, blocks = self._at(q)
        nothing = np.zeros((len(at.X), 6))
        return self._body_motion(at, self._link_response(at, blocks, x, nothing, nothing)).qdd

    @np.errstate(over='ignore', invalid='ignore')
    def motion(self, q: Array, qd: Array, tau: Array, F: Array) -> ConstrainedMotion:
        """Accelerations and joint reactions under torques (n,) and a force F (6,) on the tip."""
        at, blocks = self._at(q)
        _, zeta, p = at.velocities(qd)
        p[self._bodies.links[-1]] -= at.X_tip.T @ F
        if not np.isfinite(p).all():
            return ConstrainedMotion(np.full_like(tau, np.nan), np.full_like(p, np.nan))
        pulled = zeta + at.base_acceleration(self.gravity)
        return self._body_motion(at, self._link_response(at, blocks, tau, pulled, p))

    def _link_response(self, at: Located, blocks: SchurBlocks, tau: Array, pulled: Array, p: Array
                       ) -> Response:
        """Accelerations of the links, and forces through their joints."""
        # pulled (b, 6): accelerations across the joints without any force; p (b, 6): bias forces.
        bodies = self._bodies
        p, drives = at.with_branch_forces(tau, pulled, p)
        p_link, tau = p[bodies.links], spread(tau, bodies.freedoms)
        r = at.across_joints(product(at.I_inv, -p_link)) - at.across_groups(pulled)
        F_S = -blocks.A_factor.solve(blocks.B.times(tau) + product_T(at.W, r))
        qdd = (blocks.C.times(tau) + blocks.B.T.times(F_S)) + product_T(at.T, r)
        f = product(at.T, tau) + product(at.W, F_S)
        borne = f.copy()
        borne[:-1] -= product_T(at.X_link[1:], f[1:])
        return Response(gather(qdd, bodies.freedoms, self.robot.n), f,
                         product(at.I_inv, borne - p_link), pulled, p, drives)

    def _body_motion(self, at: Located, found: Response) -> ConstrainedMotion:
        """Joint accelerations and joint forces of all bodies, from the motion of the links."""
        bodies, forces, qdd = self._bodies, np.zeros((len(at.X), 6)), found.qdd
        a = np.zeros((len(at.X) + 1, 6))  # the last row is the base
        forces[bodies.links], a[bodies.links] = found.f, found.a
        for group in bodies.groups:
            for i, j in zip(group[-2::-1], group[:0:-1]):
                forces[i] = at.X[j].T @ forces[j]
        for i, drive in zip(bodies.off_path, found.drives):
            own, H = bodies.joint(i)
            carried = at.X[i] @ a[self.robot.parent[i]]
            qdd[own] = drive - at.D_inv[i] @ (at.U[i].T @ carried)
            a[i] = carried + found.pulled[i] + H @ qdd[own]
            forces[i] = at.I[i] @ a[i] + found.p[i]
        return ConstrainedMotion(qdd, forces)

    def _at(self, q: Array) -> tuple[Located, SchurBlocks]:
        if not np.array_equal(q, self._q):
            at = Located(self._bodies, q)
            self._located, self._blocks = at, at.blocks(self._factorization)
            self._J = newton_euler.jacobian(self.robot, at.placement)
            self._q = q.copy()
        return self._located, self._blocks


class Response(NamedTuple):
    """The motion of the links, from the solution F_S."""

    qdd: Array  # accelerations of the joints on the path, zero for the others (n,)
    f: Array  # wrenches through the joints of the links (g, 6)
    a: Array  # accelerations of the links (g, 6)
    pulled: Array  # accelerations across the joints without any force (b, 6)
    p: Array  # bias forces of the bodies with the branches that they carry (b, 6)
    # Accelerations (k,) of the joints off the path if the bodies of the path do not accelerate.
    drives: list[Array]
