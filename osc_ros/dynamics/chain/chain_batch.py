# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Evaluation of a plain chain at many states: several states at once in SIMD lanes.

A plain chain is a row of bodies with mass and one tip on the last body. The results are the
torques of the law, or the terms of the operational-space equations (pose, Jacobian, Λ, …), see
`osc_ros.dynamics.contract.method.Terms`.
"""

from __future__ import annotations

from osc_ros.compile.compiled import inlined, released, view
from osc_ros.compile.lane_arrays import array_of_lanes, none_or_lanes, own_or_lanes, WIDTH
from osc_ros.dynamics.algebra.lane_rows import (
    is_zero,
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
from osc_ros.dynamics.chain.chain_bodies import (
    A0,
    ENDS_WIDTH,
    FORCE,
    INVERSE_A,
    Joints,
    LINK_WIDTH,
    MASS,
    Parts,
    POSE,
    put_jacobian,
    SCRATCH,
    TIP_WIDTH,
    TWIST,
    WORK_WIDTH,
)
from osc_ros.dynamics.chain.passes import inward_pass, outward_pass, put_force_and_torques

# First lane of each part of the memory `room`. After these parts follow six parts of n lanes,
# `work`, the links with payloads, and J.
_ENDS, _U = TIP_WIDTH, TIP_WIDTH + ENDS_WIDTH
_LAMBDA, _NO_FORCE, _PAYLOAD = _U + 6, _U + 42, _U + 48
_JOINTS = _PAYLOAD + PAYLOAD_WIDTH


def room_size(n: int) -> int:
    """Length of `room` of `laws` and `terms` for n bodies, in entries of WIDTH numbers."""
    return _JOINTS + n * (6 + WORK_WIDTH + LINK_WIDTH + 6)


@inlined
def put_ends(ends, lanes):
    """Copy the constants `ends` of the robot to lanes, so that gravity may differ by lane."""
    for i in range(ENDS_WIDTH):
        lanes[i] = ends[i]


@inlined
def put_law(at, joints, u, out):
    """Write τ⁰ + JᵀΛ(u - a⁰) of one state; return 0, or NaN if a number is not finite."""
    outward_pass(at, joints, None)
    put_force_and_torques(at, joints, u, out)
    return (zero_if_finite(joints.q) + zero_if_finite(joints.qd) + zero_if_finite(u)
            + zero_if_finite(out))


@inlined
def put_terms(at, joints, no_force, is_moving, a0, h):
    """Write the terms of one state, except Λ; return 0, or NaN if a number is not finite."""
    # Λ⁻¹, pose and twist are always written to `at.tip`, J̇q̇ if `is_moving`; a⁰ without torques
    # to a0 (6,) and h to h (n,) unless they are empty. `joints`: tau None, qdd zeros; `no_force`
    # (6,): zeros.
    total, tip = zero_if_finite(joints.q) + zero_if_finite(joints.qd), at.tip
    if len(a0) > 0 or not is_moving:
        outward_pass(at, Joints(joints.q, joints.qd, None, None), None)
        total = total + zero_if_finite(tip[A0:POSE])
        if len(a0) > 0:
            for i in range(6):
                a0[i] = tip[A0 + i]
    if is_moving:
        outward_pass(at, joints, None)
        total = total + zero_if_finite(tip[A0:POSE])
    if len(h) > 0:
        inward_pass(at, joints, no_force, h)
        total = total + zero_if_finite(h)
    return total + zero_if_finite(tip[:A0]) + zero_if_finite(tip[POSE:FORCE])


@inlined
def put_links(payload, links, L):
    """Copy the constants `links` of the robot to the lanes L, if there are payloads."""
    if payload is not None:
        for i in range(len(links)):
            for j in range(LINK_WIDTH):
                L[i, j] = links[i, j]


@inlined
def parts_in_lanes(links, ends, states, lanes):
    """Return the `Parts` in `lanes`, without `factor`; its links are `links` without payloads."""
    n, E = len(links), lanes[_ENDS:_U]
    L = view(lanes, _JOINTS + n * (6 + WORK_WIDTH), (n, LINK_WIDTH))
    put_ends(ends, E)
    put_links(states.payload, links, L)
    return Parts(own_or_lanes(states.payload, links, L), E,
                 view(lanes, _JOINTS + 6 * n, (n, WORK_WIDTH)), None, lanes[:TIP_WIDTH])


@inlined
def load_payloads(payload, first, links, ends, P, link):
    """Write inertias of the last body, `link`, with the payloads of WIDTH states, in lanes."""
    # Returns 0 in lanes whose payload is finite, else NaN.
    total = 0.0
    if payload is not None:
        load_rows(payload, first, P)
        put_loaded(links[len(links) - 1, MASS:], P, matrix_at(ends, 3), vector_at(ends, 12),
                   link[MASS:])
        put_inverse(link[MASS:], link[INVERSE_A:])
        total += zero_if_finite(P)
    return total


@inlined
def load_states(own, states, first, lanes, at, joints):
    """Load q, q̇, gravity and payloads of WIDTH states from `first` on, see `load_payloads`."""
    # own: the constants `links` and `ends` of the robot
    load_rows(states.q, first, joints.q)
    load_rows(states.qd, first, joints.qd)
    if len(states.gravity) > 0:
        load_rows(states.gravity, first, at.ends[:3])
    links, ends = own
    return load_payloads(states.payload, first, links, ends, lanes[_PAYLOAD:_JOINTS],
                         at.links[len(links) - 1])


@released
def laws(links, ends, states, room, out, valid):
    """Write τ⁰ + JᵀΛ(u - a⁰) at k states to out (k, n) [N·m], and `valid` (k,)."""
    # False and NaN where a number of a state or its result is not finite. links (n, LINK_WIDTH),
    # ends (ENDS_WIDTH,): constants. `states`: tau, qdd, payload may be None; an empty `gravity`
    # stands for that in `ends`. `room` (room_size(n) * WIDTH,) is overwritten.
    lanes = array_of_lanes(room, WIDTH)
    rows, U = view(lanes, _JOINTS, (6, len(links))), lanes[_U:_U + 6]
    at = parts_in_lanes(links, ends, states, lanes)
    joints, OUT = Joints(rows[0], rows[1], none_or_lanes(states.tau, rows[3]),
                         none_or_lanes(states.qdd, rows[4])), rows[2]
    for first in range(0, len(states.q), WIDTH):
        total = load_states((links, ends), states, first, lanes, at, joints)
        load_rows(states.u, first, U)
        load_rows(states.tau, first, joints.tau)
        load_rows(states.qdd, first, joints.qdd)
        good = is_zero(put_law(at, joints, U, OUT) + total)
        store_rows(out, first, OUT, good)
        mark_rows(valid, first, good)


@released
def terms(links, ends, states, room, found):
    """Write terms at k states to those arrays of `found` that have rows, and its `valid`."""
    # `found`: of `Terms.flat`. Other arguments: `laws`; `room` is zero before the first call.
    n, lanes = len(links), array_of_lanes(room, WIDTH)
    rows = view(lanes, _JOINTS, (6, n))
    joints = Joints(rows[0], rows[1], None, rows[3])
    h = rows[2] if len(found.h) > 0 else rows[2, :0]
    a0 = lanes[_U:_U + 6] if len(found.a0) > 0 else lanes[_U:_U]
    no_force, square, tall = lanes[_NO_FORCE:_PAYLOAD], lanes[_LAMBDA:_NO_FORCE], lanes[-6 * n:]
    at = parts_in_lanes(links, ends, states, lanes)
    tip, is_moving = at.tip, len(found.Jdot_qd) > 0 or len(found.h) > 0
    for first in range(0, len(states.q), WIDTH):
        total = load_states((links, ends), states, first, lanes, at, joints)
        good = is_zero(put_terms(at, joints, no_force, is_moving, a0, h) + total)
        if len(found.Lambda) > 0:
            put_pseudo_inverse(tip[:A0], tip[SCRATCH:], view(square, 0, (6, 6)), 6)
        if len(found.J) > 0:
            put_jacobian(links, at.work, tip, view(tall, 0, (6, n)))
        mark_rows(found.valid, first, good)
        store_rows(found.pose, first, tip[POSE:TWIST], good)
        store_rows(found.twist, first, tip[TWIST:FORCE], good)
        store_rows(found.J, first, tall, good)
        store_rows(found.Jdot_qd, first, tip[A0:POSE], good)
        store_rows(found.h, first, h, good)
        store_rows(found.Lambda_inv, first, tip[:A0], good)
        store_rows(found.Lambda, first, square, good)
        store_rows(found.a0, first, a0, good)
