# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The links of the path to the tip, as `schur.py` requires them, in numpy.

A link is a body with an invertible inertia, together with the massless bodies before it on the
path; their joints form one joint of k degrees of freedom. Bodies off the path add their
articulated-body inertia to the link that carries them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.dynamics.algebra.kinematics import motion_transforms, Placement
from osc_ros.dynamics.papers.block_tridiagonal import Factorization
from osc_ros.dynamics.papers.blocks import gather, inverse, product, product_T, spread, Tridiagonal
from osc_ros.dynamics.papers.factors import SchurBlocks
from osc_ros.errors import InputError, ModelError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Bodies:
    """Constants of a robot: inertias, the g links of the path, and the axes of their joints."""

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
        # Bodies of every link, base first: massless bodies, then the body with inertia.
        self.groups = links_of_path(robot)
        self.links = np.array([group[-1] for group in self.groups])  # last body of each (g,)
        # Bodies off the path, parents first.
        self.off_path = np.setdiff1d(np.arange(b), np.concatenate(self.groups)).tolist()
        own = [[k for k in self._own[group].ravel().tolist() if k < n] for group in self.groups]
        # Of each link's joint: number of degrees of freedom (g,), their indices (g, max k), n
        # where it has fewer, and their rotor inertias (g, max k).
        self.k = np.array([len(freedoms) for freedoms in own])
        self.freedoms = np.array([freedoms + [n] * (self.k.max() - len(freedoms))
                                  for freedoms in own])
        self.d = spread(robot.rotor_inertia, self.freedoms)
        self.m = 6 if self.d.any() else max(1, 6 - int(self.k.min()))  # width of the blocks
        # Motion subspace of the joint and its complement, for links of one body; zero for other
        # links, where both depend on q.
        self.S = np.zeros((len(own), 6, self.k.max()))
        self.W = np.zeros((len(own), 6, self.m))
        for g, (group, k) in enumerate(zip(self.groups, self.k)):
            if len(group) == 1:
                self.S[g, :, :k] = self.H[group[0], :, :k]
                self.W[g, :, :6 - k] = np.eye(6)[:, ~self.S[g].any(axis=1)]

    def along(self, s: Array) -> Array:
        """H s (b, 6): motions across the joints at the rates s (n,)."""
        return product(self.H, spread(s, self._own))

    def axis_part(self, x: Array) -> Array:
        """Hᵀ x (n,): components of x (b, 6) along the joint axes."""
        return gather(product_T(self.H, x), self._own, self.robot.n)

    def joint(self, i: int) -> tuple[slice, Array]:
        """The slice of q̇ with the k degrees of freedom of joint i, and H (6, k) of this joint."""
        k = 3 if self.robot.spherical[i] else 1
        first = int(self.robot.v_index[i])
        return slice(first, first + k), self.H[i, :, :k]


def links_of_path(robot: Robot) -> list[list[int]]:
    """The bodies of every link of the path, base first; ModelError if `schur.py` refuses one."""
    path = [robot.frames[robot.tip][0]]
    while robot.parent[path[-1]] >= 0:
        path.append(int(robot.parent[path[-1]]))
    groups: list[list[int]] = [[]]
    for i in path[::-1]:
        groups[-1].append(i)
        freedoms = sum(3 if robot.spherical[k] else 1 for k in groups[-1])
        if freedoms > 6:
            raise refusal(robot, i, f'{freedoms} freedoms in a row without mass between them')
        if robot.definite[i]:
            groups.append([])
        elif robot.inertia[i].any() or i == path[0] or np.count_nonzero(robot.parent == i) > 1:
            raise refusal(robot, i, 'an inertia that cannot be inverted')
    return groups[:-1]


def refusal(robot: Robot, i: int, what: str) -> ModelError:
    link = next((link for link, (body, _) in robot.frames.items() if body == i), '')
    return ModelError(
        f"link '{link}', moved by joint '{robot.joints[i]}', has {what}: methods 'ldl' and 'bcr' "
        'want links of definite inertia, and at most 6 joints in a row without mass between; the '
        'others take this robot')


class Located:
    """Transforms and articulated-body inertias of the bodies at one position q."""

    def __init__(self, bodies: Bodies, q: Array) -> None:
        robot = bodies.robot
        self.bodies = bodies
        R, p = relative_placements(robot, q)
        self.X = motion_transforms(R, p)  # from each body's parent to the body (b, 6, 6)
        self.placement = placement_of(robot, R, p)
        R_last, p_tip = self.placement.R[bodies.links[-1]], robot.T_body_tip[:3, 3]
        # From the last link to the tip, base axes, and back (6, 6).
        self.X_tip = motion_transforms(R_last.T[None], p_tip[None])[0]
        self.X_tip_inv = motion_transforms(R_last[None], -(R_last @ p_tip)[None])[0]
        self._articulate()
        self._join()

    def base_acceleration(self, gravity: Array) -> Array:
        """Acceleration -gravity (b, 6) of bodies on the base, in body axes; 0 for others."""
        found = np.zeros((len(self.X), 6))
        on_base = self.bodies.robot.parent < 0
        found[on_base] = self.X[on_base, :, 3:] @ -gravity
        return found

    def _articulate(self) -> None:
        bodies, robot = self.bodies, self.bodies.robot
        # Off the path: articulated-body inertia; on it: inertia plus the articulated-body inertia
        # of the branches that the body carries (b, 6, 6). For each body off the path: U = I H,
        # D_inv = (Hᵀ I H + d)⁻¹.
        self.I = bodies.I.copy()
        self.U: dict[int, Array] = {}
        self.D_inv: dict[int, Array] = {}
        for i in reversed(bodies.off_path):
            own, H = bodies.joint(i)
            self.U[i] = self.I[i] @ H
            self.D_inv[i] = inverse(H.T @ self.U[i] + np.diag(robot.rotor_inertia[own]))
            if robot.parent[i] >= 0:
                felt = self.I[i] - self.U[i] @ self.D_inv[i] @ self.U[i].T
                self.I[robot.parent[i]] += self.X[i].T @ felt @ self.X[i]
        self.I_inv = inverse(self.I[bodies.links])

    def _join(self) -> None:
        """Set X_link, W and T of the links; the bodies of one link have one combined entry."""
        bodies = self.bodies
        # X_link (g, 6, 6): motion transforms to each link from the link before, or the base.
        # W (g, 6, m) and T (g, 6, max k): W̃ and T of every link.
        self.X_link, self.W, S = self.X[bodies.links], bodies.W.copy(), bodies.S
        self.T = S.copy()
        for g, (group, k) in enumerate(zip(bodies.groups, bodies.k)):
            if len(group) > 1:
                X, parts = np.eye(6), []
                for i in reversed(group):
                    parts.append(X @ bodies.joint(i)[1])
                    X = X @ self.X[i]
                self.X_link[g], S_link = X, np.hstack(parts[::-1])
                self.T[g, :, :k] = S_link @ inverse(S_link.T @ S_link)
                self.W[g, :, :6 - k] = np.linalg.qr(S_link, mode='complete')[0][:, k:]
        if bodies.d.any():
            for k in np.unique(bodies.k):
                g = bodies.k == k
                self.W[g, :, 6 - k:] = self.T[g, :, :k] * np.sqrt(bodies.d[g, None, :k])

    def across_joints(self, V: Array) -> Array:
        """𝒫ᵀV (g, 6): motion of each link relative to the link before, for V (g, 6) (eq. 17)."""
        x = V.copy()
        x[1:] -= product(self.X_link[1:], V[:-1])
        return x

    def across_groups(self, x: Array) -> Array:
        """Motions (g, 6) across joints of links, for motions x (b, 6) across joints of bodies."""
        whole: Array = x[self.bodies.links]
        for g, group in enumerate(self.bodies.groups):
            if len(group) > 1:
                whole[g] = 0.0
                for i in group:
                    whole[g] = self.X[i] @ whole[g] + x[i]
        return whole

    def outward(self, x: Array) -> Array:
        """(𝒫ᵀ)⁻¹x (b, 6): motions of the bodies, from the relative motions x across joints."""
        V = x.copy()
        for i, parent in enumerate(self.bodies.robot.parent.tolist()):
            if parent >= 0:
                V[i] += self.X[i] @ V[parent]
        return V

    def inward(self, x: Array) -> Array:
        """𝒫⁻¹x (b, 6): wrenches through the joints, from net wrenches x on bodies (eq. 23)."""
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
        angular, linear = np.hsplit(product(bodies.I, v), 2)
        p = np.hstack([np.cross(omega, angular) + np.cross(speed, linear),
                       np.cross(omega, linear)])
        return v, zeta, p

    def with_branch_forces(self, tau: Array, pulled: Array, p: Array) -> tuple[Array, list[Array]]:
        """Bias forces (b, 6) with the forces of the branches, if the links do not accelerate."""
        # p (b, 6): of the bodies alone; pulled (b, 6): accelerations across the joints without any
        # force. Also returns the joint accelerations of the branches (bodies off the path) in this
        # case, D⁻¹(τ - Hᵀp - Uᵀ pulled), in the order of `off_path`.
        p, drives = p.copy(), []
        for i in reversed(self.bodies.off_path):
            own, H = self.bodies.joint(i)
            drive = self.D_inv[i] @ (tau[own] - H.T @ p[i] - self.U[i].T @ pulled[i])
            drives.append(drive)
            parent = self.bodies.robot.parent[i]
            if parent >= 0:
                p[parent] += self.X[i].T @ (p[i] + self.I[i] @ pulled[i] + self.U[i] @ drive)
        return p, drives[::-1]

    def blocks(self, factorization: Factorization) -> SchurBlocks:
        """The factors of M⁻¹, Λ⁻¹ and Λ at this position."""
        bodies, I_inv, X, W, T = self.bodies, self.I_inv, self.X_link, self.W, self.T
        # 𝒫ᵀℐ⁻¹𝒫: I⁻¹ + X I⁻¹Xᵀ on the diagonal, the second term from the link before
        inner = np.zeros_like(I_inv)
        inner[1:] = X[1:] @ I_inv[:-1] @ X[1:].transpose(0, 2, 1)
        diagonal, upper = I_inv + inner, -I_inv[:-1] @ X[1:].transpose(0, 2, 1)
        A, B, C = (projection(diagonal, upper, *sides) for sides in ((W, W), (W, T), (T, T)))
        # add 1 to the diagonal in rows of a rotor, and in rows that a joint does not use
        ones = np.where(np.arange(bodies.m) >= 6 - bodies.k[:, None], 1.0, 0.0)[:, :, None]
        ones = ones * np.eye(bodies.m)
        A.diagonal[:] += ones
        S = Tridiagonal(-A.diagonal, -A.upper, -A.lower)
        # ERᵀ - A, computed without a difference: the terms with the last link's I⁻¹ cancel
        S.diagonal[-1] = -W[-1].T @ inner[-1] @ W[-1] - ones[-1]
        counted = np.full(bodies.robot.n + 1, bodies.k.sum())
        counted[bodies.freedoms[bodies.freedoms < bodies.robot.n]] = np.arange(bodies.k.sum())
        return SchurBlocks(
            A=A, B=B, C=C, D=self.X_tip @ I_inv[-1] @ self.X_tip.T,
            E=W[-1].T @ I_inv[-1] @ self.X_tip.T,
            G=self.X_tip_inv.T @ self.I[bodies.links[-1]] @ self.X_tip_inv,
            R=W[-1].T @ self.X_tip_inv, S=S, freedoms=counted[bodies.freedoms],
            factorization=factorization)


def projection(diagonal: Array, upper: Array, left: Array, right: Array) -> Tridiagonal:
    """The product leftᵀ A right for a symmetric block tridiagonal A (eqs. 52, 53)."""
    # `diagonal` and `upper` are the blocks of A; left and right (g, 6, ·) are block diagonal.
    left = left.transpose(0, 2, 1)
    return Tridiagonal(left @ diagonal @ right, left[:-1] @ upper @ right[1:],
                       left[1:] @ upper.transpose(0, 2, 1) @ right[:-1])


def relative_placements(robot: Robot, q: Array) -> tuple[Array, Array]:
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


def placement_of(robot: Robot, R: Array, p: Array) -> Placement:
    R_base, p_base = R.copy(), p.copy()
    for i, parent in enumerate(robot.parent.tolist()):
        if parent >= 0:
            p_base[i] = p_base[parent] + R_base[parent] @ p[i]
            R_base[i] = R_base[parent] @ R[i]
    last, T_last = robot.frames[robot.tip][0], np.eye(4)
    T_last[:3, :3], T_last[:3, 3] = R_base[last], p_base[last]
    return Placement(R_base, p_base, (T_last @ robot.T_body_tip)[None])
