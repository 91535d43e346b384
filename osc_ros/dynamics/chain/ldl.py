# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The method 'ldl' of a plain chain: block LDLᵀ of the papers' block tridiagonal matrix, compiled.

The constraint forces of all joints solve 𝒜 F_S = -r (paper 000, eqs. 35-39; `papers/schur.py` uses
the paper's symbols). The blocks of joint i and of the next joint inward are

    𝒜ᵢᵢ   =  W̃ᵢᵀ (Iᵢ⁻¹ + Xᵢ Iᵢ₋₁⁻¹ Xᵢᵀ) W̃ᵢ  (+ 1 for a rotor)       𝒜ᵢ₋₁,ᵢ = -W̃ᵢ₋₁ᵀ Iᵢ₋₁⁻¹ Xᵢᵀ W̃ᵢ

and the pivots, from base to tip, are Dᵢ = 𝒜ᵢᵢ - 𝒜ᵢ,ᵢ₋₁ Dᵢ₋₁⁻¹ 𝒜ᵢ₋₁,ᵢ. Only the last block of ℰ is
not zero, so the tip needs only the last pivot, Λ⁻¹ = 𝒟 - ℰᵀ Dₙ⁻¹ ℰ. For a⁰ the elimination has one
more right-hand side, r; the law needs no back substitution, forward dynamics does.

Only the motion of the joint itself depends on q: Xᵢ = Zᵢ(q) X̄ᵢ, where Zᵢ is the rotation about the
axis or the translation along it. So T = X̄ᵢ Iᵢ₋₁⁻¹ X̄ᵢᵀ and V = W̃ᵢ₋₁ᵀ Iᵢ₋₁⁻¹ X̄ᵢᵀ are constant,
and

    Dᵢ = W̃ᵢᵀ (Iᵢ⁻¹ + Zᵢ (T - Vᵀ Dᵢ₋₁⁻¹ V) Zᵢᵀ) W̃ᵢ  (+ 1 for a rotor)

V has a column along the axis in addition to those of W̃ᵢ: it is the column of ℬ, the effect of the
torque of joint i on the next joint inward. The pivots are factored one after another,
Dᵢ = L D Lᵀ, in the order of `elimination.ldl_factors`, 'axis first': the axis of joint i is in the
first half of a spatial vector, whether rotation or translation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import ahead, inlined, kernel, lock
from osc_ros.dynamics.algebra.kinematics import motion_transforms
from osc_ros.dynamics.algebra.spatial import (
    add,
    add_mobility,
    all_finite,
    along,
    cross,
    linear_first,
    minus,
    mobility_at,
    mobility_shifted,
    mobility_times,
    motion_to_body,
    plus,
    put,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.chain import passes
from osc_ros.dynamics.chain.chain_bodies import (
    along_axis,
    at_base,
    body_motion,
    empty_chain,
    FORCE,
    inverse_inertia,
    Joints,
    parts_of,
    placement,
    PRISMATIC,
    put_placement,
    put_tip,
    ROTOR,
    tip_acceleration,
    value_at,
)
from osc_ros.dynamics.chain.chain_method import ChainMethod
from osc_ros.dynamics.chain.passes import (
    across_axis,
    axis_first,
    axis_first_pair,
    back_projection,
    back_substitution,
    forward_substitution,
    ldl_factors,
    put_force_and_torques,
    schur_complement,
    shapes_fit,
)
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# `blocks` has one row per joint and one for the tip. Columns: T, packed (21), then the rows of V
# (6 × 6). In the row of the tip these are 𝒟 and ℰ, about the origin of the last body.
BLOCK_WIDTH = 57


def packed_blocks(robot: Robot) -> Array:
    """Blocks of 𝒜 and ℰ at q = 0, (n + 1, BLOCK_WIDTH); the kernels transform them to any q."""
    n, prismatic, upper = robot.n, robot.prismatic[:, None], np.triu_indices(3)
    angular_first, linear_first = [0, 1, 2, 3, 4, 5], [3, 4, 5, 0, 1, 2]
    T = robot.T_parent_body[1:]
    X = np.concatenate([motion_transforms(T[:, :3, :3], T[:, :3, 3]), np.eye(6)[None]])
    V = np.linalg.inv(robot.inertia) @ X.transpose(0, 2, 1)
    T = X @ V
    # `across` selects the rows of V: directions W̃ of the body inside, its joint axis last;
    # `first` selects columns: directions of this joint in the order 'axis first'
    across = np.where(prismatic, angular_first, linear_first)[:, :, None]
    first = np.where(prismatic[1:], linear_first, angular_first)
    first = np.concatenate([first, [angular_first]])[:, None]
    body = np.arange(n)[:, None, None]
    T, V = T[body, first.transpose(0, 2, 1), first], V[body, across, first]
    V[:, 5] *= np.sqrt(robot.rotor_inertia)[:, None]
    blocks = np.zeros((n + 1, BLOCK_WIDTH))
    blocks[1:] = np.concatenate([
        T[:, :3, :3][:, upper[0], upper[1]], T[:, :3, 3:].reshape(n, 9),
        T[:, 3:, 3:][:, upper[0], upper[1]], V.reshape(n, 36)], axis=1)
    return blocks


@inlined
def block_at(row):
    """Return T, columns 0-2 of the six rows of V, and columns 3-5 of these rows."""
    return (mobility_at(row, 0),
            (vector_at(row, 21), vector_at(row, 27), vector_at(row, 33),
             vector_at(row, 39), vector_at(row, 45), vector_at(row, 51)),
            (vector_at(row, 24), vector_at(row, 30), vector_at(row, 36),
             vector_at(row, 42), vector_at(row, 48), vector_at(row, 54)))


@inlined
def _turned_vector(c, s, a):
    return (c * a[0] + s * a[1], c * a[1] - s * a[0], a[2])


@inlined
def _turned_symmetric(c, s, S):
    x, y = (c * S[0] + s * S[1], c * S[1] + s * S[3]), (c * S[1] - s * S[0], c * S[3] - s * S[1])
    return (c * x[0] + s * x[1], c * x[1] - s * x[0], c * S[2] + s * S[4],
            c * y[1] - s * y[0], c * S[4] - s * S[2], S[5])


@inlined
def _turned_matrix(c, s, B):
    x = _turned_vector(c, s, (c * B[0] + s * B[3], c * B[1] + s * B[4], c * B[2] + s * B[5]))
    y = _turned_vector(c, s, (c * B[3] - s * B[0], c * B[4] - s * B[1], c * B[5] - s * B[2]))
    return x + y + _turned_vector(c, s, (B[6], B[7], B[8]))


@inlined
def through_joint(link, moved, G):
    """Z G Zᵀ for the motion Z of the joint; G and the result are in 'axis first' order."""
    c, s, q = moved  # cos q, sin q and q
    if link[PRISMATIC]:
        return linear_first(mobility_shifted((0.0, 0.0, q), linear_first(G)))
    return (_turned_symmetric(c, s, G[0]), _turned_matrix(c, s, G[1]),
            _turned_symmetric(c, s, G[2]))


@inlined
def vector_through_joint(link, moved, z):
    """Z z for the motion Z of the joint; z and the result are in 'axis first' order."""
    c, s, q = moved
    if link[PRISMATIC]:
        return add(z[0], cross(z[1], (0.0, 0.0, q))), z[1]
    return _turned_vector(c, s, z[0]), _turned_vector(c, s, z[1])


@inlined
def outward_pass(at, blocks, joints, factor):
    q, tau, qdd = joints.q, joints.tau, joints.qdd
    # `free`: acceleration of a body by the torque of its own joint, without constraint forces.
    # With a posture acceleration, `free` begins at zero, because `a` includes gravity and motion.
    R_base, p_base, v, a, free, _ = at_base(at.ends, qdd)
    L, y = ZERO + ZERO + ZERO + ZERO + ZERO + ZERO + ZERO, ZERO + ZERO
    for i in range(len(q)):
        link, store = at.links[i], at.work[i]
        R, p, c, s = placement(link, q[i])
        R_base, p_base = put_placement(R, p, R_base, p_base, store)
        v, a, zeta, bias = body_motion(link, (R, p), i, joints.qd, qdd, v, a, store)
        I_inv, root = inverse_inertia(link), np.sqrt(link[ROTOR])
        T, V_a, V_c = block_at(blocks[i])
        inner, Z_a, Z_c = schur_complement(T, L, V_a, V_c)
        inner = through_joint(link, (c, s, q[i]), inner)
        # the compiler removes the computation of y in kernels that do not read y
        taken = vector_through_joint(link, (c, s, q[i]), back_projection(L, y, Z_a, Z_c))
        pulled = plus(motion_to_body(R, p, free), zeta)
        torque = value_at(tau, i)
        free = mobility_times(I_inv, minus(along_axis(link, torque), bias))
        residual = plus(axis_first_pair(link, minus(free, pulled)), taken)
        if tau is not None:
            A, B, _ = inner
            residual = (along(torque, (A[2], A[4], A[5]), residual[0]),
                        along(torque, (B[6], B[7], B[8]), residual[1]))
        G = add_mobility(axis_first(link, I_inv), inner)
        L = ldl_factors(G, root)
        y = forward_substitution(L, *across_axis(root, residual))
        if factor is not None:
            A, B, _ = G
            across = axis_first_pair(link, ((A[2], A[4], A[5]), (B[6], B[7], B[8])))
            put(factor[i], 0, L)
            put(factor[i], 27, across[0] + across[1])
            if qdd is None:  # with a posture, no forward dynamics follows
                r = axis_first_pair(link, residual)
                put(factor[i], 21, r[0] + r[1])
    D, E_a, E_c = block_at(blocks[len(q)])
    Lambda_inv, Z_a, Z_c = schur_complement(D, L, E_a, E_c)
    b = minus(free, back_projection(L, y, Z_a, Z_c))
    put_tip(at.ends, (R_base, p_base, v, tip_acceleration(tau, qdd, a, b), Lambda_inv), at.tip)


@kernel
def ldl_outward(chain, blocks, q, qd, tau, qdd):
    """Write the results of `passes.outward`, by the factorization of 𝒜; returns its status."""
    # `blocks` is from `packed_blocks`.
    at = parts_of(chain)
    if not shapes_fit(at.links, q, qd, tau, qdd):
        return WRONG_SHAPE
    outward_pass(at, blocks, Joints(q, qd, tau, qdd), at.factor)
    return DONE if all_finite(at.tip[:FORCE]) else NOT_FINITE


@kernel
def ldl_law(chain, blocks, q, qd, u, tau, qdd, out):
    """Write the torques of `passes.law`, by the factorization of 𝒜; returns its status."""
    at = parts_of(chain)
    if not shapes_fit(at.links, q, qd, tau, qdd) or len(u) != 6 or len(out) != len(at.links):
        return WRONG_SHAPE
    joints = Joints(q, qd, tau, qdd)
    outward_pass(at, blocks, joints, None)
    put_force_and_torques(at, joints, u, out)
    return DONE if all_finite(out) else NOT_FINITE


@kernel
def ldl_accelerations(chain, blocks, q, qd, tau, F, qdd):
    """Write q̈ (n,) [rad/s²] as `passes.accelerations` does, by the factorization of 𝒜."""
    # The back substitution is that of the sweep: pivots Dᵢ and right-hand sides are the same.
    at = parts_of(chain)
    outward_pass(at, blocks, Joints(q, qd, tau, None), at.factor)
    back_substitution(at, tau, F, qdd)


class LDL(ChainMethod):
    """The method 'ldl' for a plain chain."""

    def __init__(self, robot: Robot) -> None:
        _compile()
        super().__init__(robot)
        self._blocks = packed_blocks(robot)

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,); return DONE, WRONG_SHAPE or NOT_FINITE."""
        return int(ldl_law(self._chain, self._blocks, q, qd, u, tau, qdd, out))

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Compute Λ⁻¹, a⁰, poses and twists under τ⁰; return DONE, WRONG_SHAPE or NOT_FINITE."""
        self._tau, self._qdd = tau, qdd
        return int(ldl_outward(self._chain, self._blocks, q, qd, tau, qdd))

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques (n,) and a force F (6,) on the tip."""
        qdd = np.empty(self.robot.n)
        ldl_accelerations(self._chain, self._blocks, q, qd, tau, F, qdd)
        return qdd


@ahead
def _compile() -> None:
    passes.compile_kernels()
    chain, _ = empty_chain(1)
    chain[:] = 1.0
    blocks, x, F = np.ones((2, BLOCK_WIDTH)), np.ones(1), np.ones(6)
    for tau, qdd in ((None, None), (x, None), (None, x), (x, x)):
        ldl_law(chain, blocks, x, x, F, tau, qdd, x)
        ldl_outward(chain, blocks, x, x, tau, qdd)
    ldl_accelerations(chain, blocks, x, x, x, F, x)
    for one in (ldl_law, ldl_outward, ldl_accelerations):
        lock(one)
