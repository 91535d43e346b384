# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The outward and the inward pass of the sweep over a plain chain, and the kernels made of them.

The outward pass eliminates the constraint forces of one joint after another (the Schur complement
of paper 000, eqs. 39-46, block by block). After body i it has

    K  inverse operational-space inertia of the chain cut after body i, at its origin
    b  acceleration of body i under the joint torques τ⁰, if the next body exerts no force on it

so the tip's K is Λ⁻¹ and its acceleration is a⁰ = J M⁻¹(τ⁰ - h) + J̇q̇, and the law is
F = Λ(u - a⁰), τ = τ⁰ + JᵀF. With a posture acceleration q̈_p and added torques τ_a,
τ⁰ = M q̈_p + h + τ_a. Then the acceleration by q̈_p follows from kinematics alone, and b is only
the acceleration by τ_a.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import ahead, inlined, kernel, lock
from osc_ros.dynamics.algebra.spatial import (
    add_mobility,
    all_finite,
    along,
    dot,
    force_to_body,
    force_to_parent,
    matrix_at,
    minus,
    mobility_at,
    mobility_shifted,
    mobility_times,
    mobility_unrotated,
    motion_to_body,
    plus,
    put,
    put_mobility,
    spatial_at,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.algebra.task_inertia import replace_singular, solve_in_place
from osc_ros.dynamics.chain.chain_bodies import (
    A0,
    along_axis,
    at_base,
    axis_part,
    body_motion,
    empty_chain,
    factors_at,
    FORCE,
    force_on_last_body,
    HOLD,
    inverse_inertia,
    inward_sweep,
    Joints,
    parts_of,
    placement,
    put_jacobian,
    put_motion_torques,
    put_placement,
    put_tip,
    RESIDUAL,
    ROTOR,
    SCRATCH,
    tip_acceleration,
    value_at,
)
from osc_ros.dynamics.chain.elimination import (
    across_axis,
    axis_first_pair,
    from_across_axis,
    inner_handle,
    joint_elimination,
    joint_hold,
    ldl_solution,
    rows_first,
)
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE, WRONG_SHAPE


@inlined
def outward_sweep(links, joints, inside, work, factor, placed, handle):
    """Go outward over bodies; return R, p, v, a, b and K of the last one, and its handle."""
    # `inside`: results of the body before them. `placed`: None, or True if the placements are in
    # `work`; then R and p in the base are returned unchanged. `handle`: None, or that of
    # `inner_handle` if an unknown force acts on the first of the bodies.
    R_base, p_base, v, a, b, K = inside
    tau, qd, qdd, carried = joints.tau, joints.qd, joints.qdd, handle
    for i in range(len(qd)):
        link, store = links[i], work[i]
        if placed is None:
            R, p, _, _ = placement(link, joints.q[i])
            R_base, p_base = put_placement(R, p, R_base, p_base, store)
        else:
            R, p = matrix_at(store, 0), vector_at(store, 9)
        v, a, zeta, bias = body_motion(link, (R, p), i, qd, qdd, v, a, store)
        I_inv = inverse_inertia(link)
        # mobility between the two sides of the joint, I⁻¹ + X K Xᵀ
        G = add_mobility(I_inv, mobility_unrotated(R, mobility_shifted(p, K)))
        Ht = along_axis(link, value_at(tau, i))
        residual = minus(
            minus(mobility_times(G, Ht), mobility_times(I_inv, bias)),
            plus(motion_to_body(R, p, b), zeta))
        # if b is not read, the compiler removes its whole computation
        K, correction, factors = joint_elimination(link, G, residual)
        b = minus(mobility_times(I_inv, minus(Ht, bias)), correction)
        if factor is not None:
            across = mobility_times(G, along_axis(link, 1.0))
            put(factor[i], 0, factors[0])
            put(factor[i], 27, across[0] + across[1])
            if qdd is None:  # with a posture, forward dynamics does not follow
                put(factor[i], RESIDUAL, residual[0] + residual[1])
        if handle is not None:
            C, K_a, b_a, f = inner_handle(link, (R, p), tau, i, factors, carried)
            if qdd is not None:
                f = plus(force_to_body(R, p, f), spatial_at(store, 12))
            carried = rows_first(link, C), K_a, b_a, f
    return (R_base, p_base, v, a, b, K), carried


@inlined
def outward_pass(at, joints, factor):
    """Write the results of the tip, see `outward`; `at` is the `Parts`, `factor` may be None."""
    (R, p, v, a, b, K), _ = outward_sweep(at.links, joints, at_base(at.ends, joints.qdd), at.work,
                                          factor, None, None)
    put_tip(at.ends, (R, p, v, tip_acceleration(joints.tau, joints.qdd, a, b), K), at.tip)


@inlined
def inward_pass(at, joints, F, out):
    """Write τ⁰ + JᵀF to `out`; see `inward`."""
    inward_sweep(at.links, joints.tau, joints.qdd, force_on_last_body(at, F), at.work, out)


@inlined
def task_force(u, tip, F):
    """Write F = Λ(u - a⁰), with the pseudo-inverse if Λ⁻¹ is singular to working precision."""
    scratch = tip[SCRATCH:]
    A, r = scratch[:36], scratch[72:78]
    for k in range(36):
        A[k] = tip[k]
    for i in range(6):
        F[i] = r[i] = u[i] - tip[A0 + i]
    replace_singular(solve_in_place(A, F, 6), tip[:36], r, scratch, F, 6)


@inlined
def put_force_and_torques(at, joints, u, out):
    """Write F = Λ(u - a⁰) to `at.tip`, and τ⁰ + JᵀF to out (n,), after an outward pass."""
    F = at.tip[FORCE:FORCE + 6]
    task_force(u, at.tip, F)
    inward_pass(at, joints, F, out)


@inlined
def shapes_fit(links, q, qd, tau, qdd):
    """Whether q, qd, tau and qdd have an entry for every joint."""
    n = len(links)
    fits = len(q) == n and len(qd) == n
    if tau is not None:
        fits = fits and len(tau) == n
    if qdd is not None:
        fits = fits and len(qdd) == n
    return fits


@inlined
def back_substitution(at, tau, F, qdd):
    """Write q̈ (n,), from the tip inward, by back substitution with the rows of `at.factor`."""
    outer = force_on_last_body(at, F)
    for i in range(len(at.links) - 1, -1, -1):
        link, store = at.links[i], at.factor[i]
        gap = plus(spatial_at(store, RESIDUAL), mobility_times(inverse_inertia(link), outer))
        s, r = np.sqrt(link[ROTOR]), axis_first_pair(link, gap)
        x = ldl_solution(factors_at(store, 0), *across_axis(s, minus((ZERO, ZERO), r)))
        constraint = axis_first_pair(link, from_across_axis(s, x))
        across = spatial_at(store, 27)
        qdd[i] = (axis_part(link, gap) + dot(across[0], constraint[0])
                  + dot(across[1], constraint[1]))
        f = force_to_parent(matrix_at(at.work[i], 0), vector_at(at.work[i], 9),
                            plus(constraint, along_axis(link, tau[i])))
        # the force through the joint acts on this body, and with opposite sign on its parent
        outer = minus((ZERO, ZERO), f)


@kernel
def acceleration_response(chain, tau, F, qdd):
    """Write M⁻¹(τ + JᵀF) to qdd (n,) [rad/s²], from the factors of the last `outward`."""
    # By forward and back substitution; overwrites the residuals in `factor`. F (6,): force on the
    # tip, base axes, [moment; force] [N·m, N].
    at, b, first = parts_of(chain), (ZERO, ZERO), 0
    while first < len(tau) and tau[first] == 0.0:  # most often all torques are 0
        first += 1
    for i in range(first):
        put(at.factor[i], RESIDUAL, ZERO + ZERO)
    for i in range(first, len(at.links)):
        link, store = at.links[i], at.factor[i]
        across = spatial_at(store, 27)
        inside = motion_to_body(matrix_at(at.work[i], 0), vector_at(at.work[i], 9), b)
        residual = (along(tau[i], across[0], (-inside[0][0], -inside[0][1], -inside[0][2])),
                    along(tau[i], across[1], (-inside[1][0], -inside[1][1], -inside[1][2])))
        put(store, RESIDUAL, residual[0] + residual[1])
        s = np.sqrt(link[ROTOR])
        x = ldl_solution(factors_at(store, 0),
                          *across_axis(s, axis_first_pair(link, residual)))
        constraint = axis_first_pair(link, from_across_axis(s, x))
        b = mobility_times(inverse_inertia(link), minus(along_axis(link, tau[i]), constraint))
    back_substitution(at, tau, F, qdd)


@kernel
def outward(chain, q, qd, tau, qdd):
    """Write Λ⁻¹, a⁰, pose and twist of the tip to the flat array `chain` (`chain_bodies`)."""
    # tau: τ⁰ (n,) [N·m] or None. qdd: posture acceleration (n,) [rad/s²] or None; with it τ⁰ is
    # its inverse dynamics plus tau. Returns DONE, WRONG_SHAPE (nothing written) or NOT_FINITE.
    at = parts_of(chain)
    if not shapes_fit(at.links, q, qd, tau, qdd):
        return WRONG_SHAPE
    outward_pass(at, Joints(q, qd, tau, qdd), at.factor)
    return DONE if all_finite(at.tip[:FORCE]) else NOT_FINITE


@kernel
def inward(chain, tau, qdd, F, out):
    """Write τ⁰ + JᵀF to out (n,) [N·m], after `outward` with the same tau and qdd."""
    # F (6,): task force at the tip, base axes, [moment; force] [N·m, N].
    inward_pass(parts_of(chain), Joints(None, None, tau, qdd), F, out)


@kernel
def law(chain, q, qd, u, tau, qdd, out):
    """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,) [N·m] in one call; return the status of `outward`."""
    # u (6,): commanded tip acceleration, base axes, [angular; linear] [rad/s², m/s²].
    at, joints = parts_of(chain), Joints(q, qd, tau, qdd)
    if not shapes_fit(at.links, q, qd, tau, qdd) or len(u) != 6 or len(out) != len(at.links):
        return WRONG_SHAPE
    outward_pass(at, joints, None)
    put_force_and_torques(at, joints, u, out)
    return DONE if all_finite(out) else NOT_FINITE


@kernel
def accelerations(chain, q, qd, tau, F, qdd):
    """Write q̈ (n,) [rad/s²] under torques and a tip force, by the constraint-force algorithm."""
    # The outward pass eliminates the constraint forces as in `outward`; the inward pass computes
    # them, with the joint accelerations. Overwrites all memory. F (6,): force of the environment
    # on the tip, base axes, [moment; force] [N·m, N].
    at = parts_of(chain)
    outward_pass(at, Joints(q, qd, tau, None), at.factor)
    back_substitution(at, tau, F, qdd)


@kernel
def inverse_dynamics(chain, q, qd, qdd, out):
    """Write joint torques M q̈ + h to out (n,) [N·m]; overwrites placements and residuals."""
    at = parts_of(chain)
    for i in range(len(at.links)):
        R, p, _, _ = placement(at.links[i], q[i])
        put(at.work[i], 0, R + p)
    put_motion_torques(at, qd, qdd, out)


@inlined
def put_inverse_row(at, i, row):
    """Write the entries from i of row i of M⁻¹, with HOLD: q̈ under a unit torque of joint i."""
    b, outer = (ZERO, ZERO), (ZERO, ZERO)
    for j in range(i, len(row)):
        link, store = at.links[j], at.factor[j]
        gap, force = spatial_at(store, 27), along_axis(link, 1.0)
        if j > i:
            inside = motion_to_body(matrix_at(at.work[j], 0), vector_at(at.work[j], 9), b)
            gap, force = minus((ZERO, ZERO), inside), (ZERO, ZERO)
        put(store, RESIDUAL, gap[0] + gap[1])
        force = plus(force, mobility_times(mobility_at(store, HOLD), gap))
        b = mobility_times(inverse_inertia(link), force)
    for j in range(len(row) - 1, i - 1, -1):
        link, store = at.links[j], at.factor[j]
        gap = plus(spatial_at(store, RESIDUAL), mobility_times(inverse_inertia(link), outer))
        constraint, across = mobility_times(mobility_at(store, HOLD), gap), spatial_at(store, 27)
        row[j] = (axis_part(link, gap) + dot(across[0], constraint[0])
                  + dot(across[1], constraint[1]))
        f = force_to_parent(matrix_at(at.work[j], 0), vector_at(at.work[j], 9), constraint)
        outer = minus((ZERO, ZERO), f)


@kernel
def inverse_mass_matrix(chain, M_inv):
    """Write M⁻¹ (n, n), exactly symmetric, from the factors of the last `outward`."""
    # Overwrites the residuals and HOLD in `factor`.
    at = parts_of(chain)
    n = len(at.links)
    for i in range(n):
        put_mobility(at.factor[i], HOLD, joint_hold(at.links[i], factors_at(at.factor[i], 0)))
    for i in range(n):
        put_inverse_row(at, i, M_inv[i])
        for j in range(i + 1, n):
            M_inv[j, i] = M_inv[i, j]


@kernel
def jacobian(chain, J):
    """Write the Jacobian J (6, n) of the tip, base axes, [angular; linear], after `outward`."""
    links, _, work, _, tip = parts_of(chain)
    put_jacobian(links, work, tip, J)


@ahead
def compile_kernels() -> None:
    """Compile or load the kernels once per process; other argument types then raise TypeError."""
    chain, _ = empty_chain(1)
    chain[:] = 1.0
    x, F, J = np.ones(1), np.ones(6), np.ones((6, 1))
    for tau, qdd in ((None, None), (x, None), (None, x), (x, x)):
        law(chain, x, x, F, tau, qdd, x)
        outward(chain, x, x, tau, qdd)
        inward(chain, tau, qdd, F, x)
    accelerations(chain, x, x, x, F, x.copy())
    inverse_dynamics(chain, x, x, x, x.copy())
    acceleration_response(chain, x, F, x.copy())
    inverse_mass_matrix(chain, np.ones((1, 1)))
    jacobian(chain, J)
    for one in (law, outward, inward, accelerations, inverse_dynamics, acceleration_response,
                inverse_mass_matrix, jacobian):
        lock(one)
