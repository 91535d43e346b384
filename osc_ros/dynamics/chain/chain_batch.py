# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Evaluation of a plain chain at many states: several states at once in SIMD lanes.

A plain chain is a row of bodies with mass and one tip on the last body. The results are the
torques of the law, or the terms of the operational-space equations (pose, Jacobian, Λ, …), see
`osc_ros.dynamics.contract.method.Terms`.
"""

from __future__ import annotations

from osc_ros.compile.compiled import inlined, released, view, viewing
from osc_ros.compile.lane_arrays import array_of_lanes, none_or_lanes, own_or_lanes, WIDTH
from osc_ros.dynamics.algebra.lane_rows import (
    goodness,
    load_rows,
    mark_rows,
    store_rows,
    zero_if_finite,
)
from osc_ros.dynamics.algebra.payload_lanes import (
    PAYLOAD_WIDTH,
    put_inverse,
    put_loaded,
)
from osc_ros.dynamics.algebra.spatial import matrix_at, vector_at
from osc_ros.dynamics.algebra.task_inertia import put_pseudo_inverse
from osc_ros.dynamics.chain.chain_bodies import put_jacobian
from osc_ros.dynamics.chain.chain_layout import (
    A0,
    ENDS_WIDTH,
    FORCE,
    INVERSE_A,
    LINK_WIDTH,
    MASS,
    POSE,
    SCRATCH,
    TIP_WIDTH,
    TWIST,
    WORK_WIDTH,
)
from osc_ros.dynamics.chain.passes import inward_pass, outward_pass, task_force

# First lane of each part of the memory `room`. After these parts follow six parts of n lanes,
# `work`, the links with payloads, and J.
_ENDS, _U = TIP_WIDTH, TIP_WIDTH + ENDS_WIDTH
_LAMBDA, _NO_FORCE, _PAYLOAD = _U + 6, _U + 42, _U + 48
_JOINTS = _PAYLOAD + PAYLOAD_WIDTH


def room_size(n: int) -> int:
    """
    Length of `room`, the working memory of `laws` and `terms`, in entries of WIDTH numbers.

    The chain has n bodies.

    """
    return _JOINTS + n * (6 + WORK_WIDTH + LINK_WIDTH + 6)


@inlined
def put_ends(ends, lanes):
    """Copy the constants `ends` of the robot to lanes, so that gravity may differ by lane."""
    for i in range(ENDS_WIDTH):
        lanes[i] = ends[i]


@inlined
def put_law(links, ends, q, qd, u, tau, qdd, work, tip, out):
    """Write τ⁰ + JᵀΛ(u - a⁰) of one state; return 0, or NaN if a number is not finite."""
    F = tip[FORCE:FORCE + 6]
    outward_pass(links, ends, q, qd, tau, qdd, work, None, tip)
    task_force(u, tip, F)
    inward_pass(links, ends, tau, qdd, F, work, tip, out)
    return zero_if_finite(q) + zero_if_finite(qd) + zero_if_finite(u) + zero_if_finite(out)


@inlined
def put_terms(links, ends, q, qd, rest, no_force, work, tip, is_free, is_moving, a0, h):
    """
    Write the terms of one state, except Λ; return 0, or NaN if a number is not finite.

    Λ⁻¹, pose and twist are always written to `tip`, J̇q̇ too if `is_moving`; a⁰ without torques is
    written to a0 (6,) if `is_free`, and h to h (n,), unless it is empty. `rest` (n,) and
    `no_force` (6,) are zeros.

    """
    total = zero_if_finite(q) + zero_if_finite(qd)
    if is_free or not is_moving:
        outward_pass(links, ends, q, qd, None, None, work, None, tip)
        total = total + zero_if_finite(tip[A0:POSE])
        for i in range(6):
            a0[i] = tip[A0 + i]
    if is_moving:
        outward_pass(links, ends, q, qd, None, rest, work, None, tip)
        total = total + zero_if_finite(tip[A0:POSE])
    if len(h) > 0:
        inward_pass(links, ends, None, rest, no_force, work, tip, h)
        total = total + zero_if_finite(h)
    return total + zero_if_finite(tip[:A0]) + zero_if_finite(tip[POSE:FORCE])


@viewing
def links_in_lanes(links, payload, lanes):
    """Return the constants `links` of the robot; with payloads, a copy of them in lanes."""
    n = len(links)
    L = view(lanes, _JOINTS + n * (6 + WORK_WIDTH), (n, LINK_WIDTH))
    if payload is not None:
        for i in range(n):
            for j in range(LINK_WIDTH):
                L[i, j] = links[i, j]
    return own_or_lanes(payload, links, L)


@inlined
def load_payloads(links, ends, payload, first, lanes, L):
    """
    Write the inertias of the last body with the payloads of WIDTH states, in lanes.

    Returns 0 in lanes whose payload is finite, else NaN.

    """
    total = 0.0
    if payload is not None:
        P, link = lanes[_PAYLOAD:_JOINTS], L[len(links) - 1]
        load_rows(payload, first, P)
        put_loaded(links[len(links) - 1, MASS:], P, matrix_at(ends, 3), vector_at(ends, 12),
                   link[MASS:])
        put_inverse(link[MASS:], link[INVERSE_A:])
        total += zero_if_finite(P)
    return total


@released
def laws(links, ends, q, qd, u, tau, qdd, gravity, payload, room, out, valid):
    """
    Write τ⁰ + JᵀΛ(u - a⁰) at k states to out (k, n) [N·m], and `valid` (k,).

    Where a number of a state or of its result is not finite, `valid` is False and `out` is NaN.
    links (n, LINK_WIDTH) and ends (ENDS_WIDTH,) are constants of the robot. tau and qdd (k, n),
    and payload (k, PAYLOAD_WIDTH), may be None. gravity is (k, 3), or (0, 3) for the gravity in
    `ends`. `room` (room_size(n) * WIDTH,) is overwritten.

    """
    n, lanes = len(links), array_of_lanes(room, WIDTH)
    joints = view(lanes, _JOINTS, (6, n))
    Q, QD, OUT = joints[0], joints[1], joints[2]
    TAU, QDD = none_or_lanes(tau, joints[3]), none_or_lanes(qdd, joints[4])
    tip, U = lanes[:TIP_WIDTH], lanes[_U:_U + 6]
    work, E = view(lanes, _JOINTS + 6 * n, (n, WORK_WIDTH)), lanes[_ENDS:_U]
    put_ends(ends, E)
    L = links_in_lanes(links, payload, lanes)
    for first in range(0, len(q), WIDTH):
        load_rows(q, first, Q)
        load_rows(qd, first, QD)
        load_rows(u, first, U)
        if tau is not None:
            load_rows(tau, first, TAU)
        if qdd is not None:
            load_rows(qdd, first, QDD)
        if len(gravity) > 0:
            load_rows(gravity, first, E[:3])
        total = load_payloads(links, ends, payload, first, lanes, L)
        good = goodness(put_law(L, E, Q, QD, U, TAU, QDD, work, tip, OUT) + total)
        store_rows(out, first, OUT, good)
        mark_rows(valid, first, good)


@released
def terms(links, ends, q, qd, gravity, payload, room, poses, twists, J, Jdot_qd, h, Lambda_inv,
          Lambda, a0, valid):
    """
    Write terms at k states to the arrays that have rows, one row for each state, and `valid`.

    The rows are poses (16,), twists (6,), J (6 n,), Jdot_qd (6,), h (n,), Lambda_inv and Lambda
    (36,), a0 (6,). The other arguments are those of `laws`; `room` is zero before the first call.

    """
    n, lanes = len(links), array_of_lanes(room, WIDTH)
    joints, work = view(lanes, _JOINTS, (6, n)), view(lanes, _JOINTS + 6 * n, (n, WORK_WIDTH))
    Q, QD, rest = joints[0], joints[1], joints[3]
    H = joints[2] if len(h) > 0 else joints[2, :0]
    tip, no_force, free = lanes[:TIP_WIDTH], lanes[_NO_FORCE:_JOINTS], lanes[_U:_U + 6]
    E, square, tall = lanes[_ENDS:_U], lanes[_LAMBDA:_NO_FORCE], lanes[-6 * n:]
    put_ends(ends, E)
    L = links_in_lanes(links, payload, lanes)
    moving = len(Jdot_qd) > 0 or len(h) > 0
    for first in range(0, len(q), WIDTH):
        load_rows(q, first, Q)
        load_rows(qd, first, QD)
        if len(gravity) > 0:
            load_rows(gravity, first, E[:3])
        total = load_payloads(links, ends, payload, first, lanes, L)
        good = goodness(put_terms(L, E, Q, QD, rest, no_force, work, tip, len(a0) > 0, moving,
                                  free, H) + total)
        if len(Lambda) > 0:
            put_pseudo_inverse(tip[:A0], tip[SCRATCH:], view(square, 0, (6, 6)), 6)
        if len(J) > 0:
            put_jacobian(links, work, tip, view(tall, 0, (6, n)))
        mark_rows(valid, first, good)
        store_rows(poses, first, tip[POSE:TWIST], good)
        store_rows(twists, first, tip[TWIST:FORCE], good)
        store_rows(J, first, tall, good)
        store_rows(Jdot_qd, first, tip[A0:POSE], good)
        store_rows(h, first, H, good)
        store_rows(Lambda_inv, first, tip[:A0], good)
        store_rows(Lambda, first, square, good)
        store_rows(a0, first, free, good)
