# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Compiled kernels that evaluate segments of a plain chain in parallel, then join them.

Member 0 of a team has the segment at the base. Every other member has a segment whose first body
is subject to an unknown force F_a of the body inside it. A call has three phases, with an exchange
of data after each of the first two:

    1  each member computes the motion of its last body relative to the segment inside
       → to all members outside
    2  each member goes outward over its bodies as the serial sweep does, and computes the response
       to F_a too (the handle); then segments are joined in pairs, pairs in pairs, … up to the
       leader: a tree, ⌈log₂ P⌉ deep for P members
       → the tip's Λ⁻¹ and a⁰ to the leader, and the task force F back
    3  each member goes inward over its bodies

Joining two segments is the elimination of the joint between them. Each step of the serial sweep is
such a join with one body as the outer segment: K, C and K_a (see `inner_handle`) of this segment
are then I⁻¹.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.dynamics.algebra.spatial import (
    add,
    add_mobility,
    along,
    compose,
    coupling_at,
    coupling_transposed,
    cross,
    full,
    matrix_at,
    minus,
    mobility_at,
    mobility_shifted,
    mobility_times,
    mobility_unrotated,
    motion_cross,
    motion_to_body,
    plus,
    put,
    put_coupling,
    put_mobility,
    rotate,
    spatial_at,
    sub,
    transpose,
    unrotate,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.chain.chain_bodies import (
    along_axis,
    at_base,
    body_motion,
    inverse_inertia,
    part_of_joints,
    placement,
    POSITION,
    PRISMATIC,
    put_placement,
    ROTATION,
    ROTOR,
    value_at,
)
from osc_ros.dynamics.chain.passes import (
    across_axis,
    axis_first,
    axis_first_pair,
    back_projection,
    coupling_rows,
    forward_substitution,
    inner_handle,
    ldl_factors,
    outward_sweep,
    rows_first,
    schur_complement,
)
from osc_ros.dynamics.segments.slots import (
    JOINT_TAU,
    SLOT_B,
    SLOT_BA,
    SLOT_C,
    SLOT_END,
    SLOT_JOINT,
    SLOT_K,
    SLOT_KA,
    SLOT_MOTION,
    SLOT_TOTAL,
)


@inlined
def put_state(slot, first, R, p, v, a):
    """Write placement, velocity and acceleration of a body to slot[first:first + 24]."""
    put(slot, first, R + p + v[0] + v[1] + a[0] + a[1])


@inlined
def put_motion(links, q, qd, qdd, work, slot):
    """Phase 1: write the placements of the bodies to `work`, motion of the last body to `slot`."""
    R, p = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), ZERO
    w, alpha = (ZERO, ZERO), (ZERO, ZERO)
    for i in range(len(q)):
        link = links[i]
        R_i, p_i, _, _ = placement(link, q[i])
        R, p = put_placement(R_i, p_i, R, p, work[i])
        Hqd = along_axis(link, qd[i])
        w = plus(motion_to_body(R_i, p_i, w), Hqd)
        if qdd is not None:
            alpha = plus(plus(motion_to_body(R_i, p_i, alpha), motion_cross(w, Hqd)),
                         along_axis(link, qdd[i]))
    put_state(slot, SLOT_MOTION, R, p, w, alpha)


@inlined
def motion_outside(R_base, p_base, v, a, slot):
    """Pose, velocity and acceleration at the outer end of a segment, from its inner end."""
    R, p = matrix_at(slot, SLOT_MOTION), vector_at(slot, SLOT_MOTION + 9)
    w, alpha = spatial_at(slot, SLOT_MOTION + 12), spatial_at(slot, SLOT_MOTION + 18)
    R_base, p_base = compose(R_base, R), add(p_base, rotate(R_base, p))
    v = motion_to_body(R, p, v)
    a = plus(plus(motion_to_body(R, p, a), motion_cross(v, w)), alpha)
    return R_base, p_base, plus(v, w), a


@inlined
def put_handle(slot, handle):
    C, K_a, b_a, f = handle
    put_coupling(slot, SLOT_C, C)
    put_mobility(slot, SLOT_KA, K_a)
    put(slot, SLOT_BA, b_a[0] + b_a[1])
    put(slot, SLOT_TOTAL, f[0] + f[1])


@inlined
def eliminate_base(links, ends, joints, work, slot):
    """Phase 2 for the leader: the serial sweep over its bodies."""
    (_, _, v, a, b, K), _ = outward_sweep(links, joints, at_base(ends, joints.qdd), work, None,
                                          True, None)
    put_state(slot, SLOT_END, matrix_at(slot, SLOT_MOTION), vector_at(slot, SLOT_MOTION + 9), v, a)
    put_mobility(slot, SLOT_K, K)
    if joints.qdd is not None and joints.tau is None:
        b = (ZERO, ZERO)
    put(slot, SLOT_B, b[0] + b[1])


@inlined
def motion_inside(ends, qdd, slots, k):
    """R, p, v, a of the body just inside the segment of member k, then R, p of its last body."""
    R, p, v, a, _, _ = at_base(ends, qdd)
    for j in range(k):
        R, p, v, a = motion_outside(R, p, v, a, slots[j])
    R_end, p_end, _, _ = motion_outside(R, p, v, a, slots[k])
    return R, p, v, a, R_end, p_end


@inlined
def eliminate_segment(links, ends, joints, work, slots, k):
    """Phase 2 for member k: the sweep with the response to the unknown force on its first body."""
    _, _, v, a, R_end, p_end = motion_inside(ends, joints.qdd, slots, k)
    v, a = put_response(links, joints, v, a, work, slots[k])
    put_state(slots[k], SLOT_END, R_end, p_end, v, a)


@inlined
def put_response(links, joints, v, a, work, slot):
    """Go outward over a segment; write its first joint and its response to F_a to `slot`."""
    # v and a: given for the body just inside, returned for the last body. Serves one segment, or
    # several in lanes.
    link, body = links[0], work[0]
    R_i, p_i = matrix_at(body, 0), vector_at(body, 9)
    slot[SLOT_JOINT + PRISMATIC], slot[SLOT_JOINT + ROTOR] = link[PRISMATIC], link[ROTOR]
    put(slot, SLOT_JOINT + ROTATION, R_i)
    put(slot, SLOT_JOINT + POSITION, p_i)
    v, a, zeta, bias = body_motion(link, (R_i, p_i), 0, joints.qd, joints.qdd, v, a, body)
    K = inverse_inertia(link)
    b = mobility_times(K, minus((ZERO, ZERO), bias))
    A, B, C = K
    f = (ZERO, ZERO)
    if joints.qdd is not None:
        f = spatial_at(body, 12)
    slot[SLOT_JOINT + JOINT_TAU] = value_at(joints.tau, 0)
    handle = (full(A), B, transpose(B), full(C)), K, minus(b, zeta), f
    # the placements are in `work`, so the pose of the base is not needed
    (_, _, v, a, b, K), handle = outward_sweep(
        links[1:], part_of_joints(joints, 1, len(joints.q)), (R_i, p_i, v, a, b, K), work[1:],
        None, True, handle)
    put_mobility(slot, SLOT_K, K)
    if joints.qdd is not None and joints.tau is None:
        C_a, K_a, _, f = handle
        b, handle = (ZERO, ZERO), (C_a, K_a, (ZERO, ZERO), f)
    put(slot, SLOT_B, b[0] + b[1])
    put_handle(slot, handle)
    return v, a


@inlined
def join_segments(left, right, handle):
    """Join segment `right` to segment `left`, and write the result to slot `left`."""
    # `handle` is None if segment `left` begins at the base.
    joint = right[SLOT_JOINT:SLOT_K]
    R, p = matrix_at(joint, ROTATION), vector_at(joint, POSITION)
    tau, s = joint[JOINT_TAU], np.sqrt(joint[ROTOR])
    G = add_mobility(mobility_at(right, SLOT_KA),
                     mobility_unrotated(R, mobility_shifted(p, mobility_at(left, SLOT_K))))
    z = minus(plus(mobility_times(G, along_axis(joint, tau)), spatial_at(right, SLOT_BA)),
              motion_to_body(R, p, spatial_at(left, SLOT_B)))
    L = ldl_factors(axis_first(joint, G), s)
    y = forward_substitution(L, *across_axis(s, axis_first_pair(joint, z)))
    C_t = rows_first(joint, coupling_transposed(coupling_at(right, SLOT_C)))
    a, c = coupling_rows(C_t, s)
    K, za, zc = schur_complement(mobility_at(right, SLOT_K), L, a, c)
    T, U, _, _ = C_t
    b = minus(spatial_at(right, SLOT_B), back_projection(L, y, za, zc))
    b = along(tau, (T[6], T[7], T[8]), b[0]), along(tau, (U[6], U[7], U[8]), b[1])
    if handle is not None:
        outer = (coupling_at(left, SLOT_C), mobility_at(left, SLOT_KA), spatial_at(left, SLOT_BA),
                 spatial_at(left, SLOT_TOTAL))
        put_handle(left, inner_handle(joint, (R, p), joint[JOINT_TAU:], 0, (L, y, za, zc), outer))
    put_mobility(left, SLOT_K, K)
    put(left, SLOT_B, b[0] + b[1])


@inlined
def outer_force(ends, slots, k, qdd, F):
    """Force on the last body of member k by the bodies between it and the tip, in body axes."""
    # It is F (6,) at the tip, plus the Newton-Euler forces of these bodies if `qdd` is given.
    last = len(slots) - 1
    p_k, R_k = vector_at(slots[k], SLOT_END + 9), matrix_at(slots[k], SLOT_END)
    p_tip = add(vector_at(slots[last], SLOT_END + 9),
                rotate(matrix_at(slots[last], SLOT_END), vector_at(ends, 12)))
    force = vector_at(F, 3)
    moment = add(vector_at(F, 0), cross(sub(p_tip, p_k), force))
    if qdd is not None:
        for j in range(last, k, -1):
            R_j = matrix_at(slots[j], SLOT_END)
            f = rotate(R_j, vector_at(slots[j], SLOT_TOTAL + 3))
            m = rotate(R_j, vector_at(slots[j], SLOT_TOTAL))
            arm = sub(vector_at(slots[j], SLOT_END + 9), p_k)
            force, moment = add(force, f), add(moment, add(m, cross(arm, f)))
    return unrotate(R_k, moment), unrotate(R_k, force)
