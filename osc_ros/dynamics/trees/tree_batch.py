# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques and terms of a tree at many states: several states at once in SIMD lanes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, released, view
from osc_ros.compile.lane_arrays import array_of_lanes, own_or_lanes, WIDTH, zeros
from osc_ros.dynamics.algebra.lane_rows import (
    is_zero,
    load_rows,
    mark_rows,
    store_rows,
    zero_if_finite,
)
from osc_ros.dynamics.algebra.payload_lanes import PAYLOAD_WIDTH, put_loaded
from osc_ros.dynamics.algebra.spatial import matrix_at, vector_at
from osc_ros.dynamics.algebra.task_inertia import put_pseudo_inverse
from osc_ros.dynamics.trees.tree import put_law, put_outward
from osc_ros.dynamics.trees.tree_bodies import inward, jacobian
from osc_ros.dynamics.trees.tree_layout import (
    BODY_WIDTH,
    Constants,
    constants_in,
    MASS,
    memory_in,
    room_for,
)

Array = NDArray[np.float64]


def batch_room(integers: Array) -> Array:
    """Return `room`, the memory of `laws` and `terms` for their kernels and for WIDTH states."""
    b, tips, n = integers[:3].tolist()
    m, nq = 6 * tips, b + 3 * (n - b) // 2
    own = 3 + nq + 5 * n + 2 * m + m * m + m * n + PAYLOAD_WIDTH + b * BODY_WIDTH
    return zeros(len(room_for(integers)) + own)


@inlined
def parts_of_room(lanes, nq, n, m):
    """Views at the end of `lanes`: gravity, q, joints (5, n), tips (2, m), Λ (m²,) and J."""
    i = len(lanes) - (3 + nq + 5 * n + 2 * m + m * m + m * n)
    gravity, i = lanes[i:i + 3], i + 3
    q, i = lanes[i:i + nq], i + nq
    joints, i = view(lanes, i, (5, n)), i + 5 * n
    tips, i = view(lanes, i, (2, m)), i + 2 * m
    return gravity, q, joints, tips, lanes[i:i + m * m], lanes[i + m * m:]


@inlined
def bodies_in_lanes(bodies, payload, lanes):
    """Split `lanes`, the whole of `room`: return its first part, the payload P, and the bodies."""
    # P and the bodies are its last two parts. The returned bodies are a copy of the robot's
    # constants in lanes, or these constants themselves if there are no payloads.
    i = len(lanes) - bodies.size
    P, B = lanes[i - PAYLOAD_WIDTH:i], view(lanes, i, bodies.shape)
    if payload is not None:
        for k in range(len(bodies)):
            for j in range(BODY_WIDTH):
                B[k, j] = bodies[k, j]
    return lanes[:i - PAYLOAD_WIDTH], P, own_or_lanes(payload, bodies, B)


@inlined
def load_payloads(robot, payload, first, P, bodies):
    """Write inertias of the first tip's body with WIDTH payloads, in lanes."""
    # Returns 0 in lanes whose payload is finite, else NaN.
    total = 0.0
    if payload is not None:
        k, end = robot.tips[0], robot.ends[0]
        load_rows(payload, first, P)
        put_loaded(robot.bodies[k, MASS:], P, matrix_at(end, 0), vector_at(end, 9),
                   bodies[k, MASS:])
        total += zero_if_finite(P)
    return total


@inlined
def constants_of_states(robot, gravity, first, G, bodies):
    """Return the constants of the robot, with the gravity of WIDTH states from `first` on."""
    # The gravity is written to the lanes G; an empty `gravity` stands for the robot's.
    if len(gravity) > 0:
        load_rows(gravity, first, G)
    else:
        for i in range(3):
            G[i] = robot.gravity[i]
    return Constants(robot.tree, bodies, robot.tips, robot.ends, G, robot.rotors,
                     robot.paths, robot.starts, robot.common, robot.carriers, robot.before)


@released
def laws(integers, numbers, states, room, out, valid):
    """Write τ⁰ + JᵀΛ(u - a⁰) at k states to out (k, n) [N·m], and `valid` (k,)."""
    # `valid` is False and `out` NaN where a number of a state or its result is not finite. In
    # `states`, tau, qdd and gravity have no rows if not given; payload may be None. `room`: of
    # `batch_room`.
    lanes, constants = array_of_lanes(room, WIDTH), constants_in(integers, numbers)
    lanes, P, bodies = bodies_in_lanes(constants.bodies, states.payload, lanes)
    memory, found = memory_in(integers, lanes)
    q, qd, u, tau, qdd = states.q, states.qd, states.u, states.tau, states.qdd
    G, Q, joints, tips, _, _ = parts_of_room(lanes, q.shape[1], qd.shape[1], u.shape[1])
    U, QD, OUT = tips[0], joints[0], joints[1]
    TAU = joints[2] if len(tau) > 0 else joints[2, :0]
    QDD = joints[3] if len(qdd) > 0 else joints[3, :0]
    for first in range(0, len(q), WIDTH):
        load_rows(q, first, Q)
        load_rows(qd, first, QD)
        load_rows(u, first, U)
        if len(tau) > 0:
            load_rows(tau, first, TAU)
        if len(qdd) > 0:
            load_rows(qdd, first, QDD)
        robot = constants_of_states(constants, states.gravity, first, G, bodies)
        total = load_payloads(constants, states.payload, first, P, bodies)
        put_outward(integers[5], robot, memory, found, Q, QD, TAU, QDD)
        put_law(robot, memory, found, U, TAU, QDD, OUT)
        good = is_zero(zero_if_finite(Q) + zero_if_finite(QD) + zero_if_finite(U)
                        + zero_if_finite(TAU) + zero_if_finite(QDD) + zero_if_finite(OUT)
                        + total)
        store_rows(out, first, OUT, good)
        mark_rows(valid, first, good)


@released
def terms(integers, numbers, states, room, wanted):
    """Write terms at k states to those arrays of `wanted` that have rows, and its `valid`."""
    # `wanted`: of `Terms.flat`. Other arguments: `laws`.
    lanes, constants = array_of_lanes(room, WIDTH), constants_in(integers, numbers)
    lanes, P, bodies = bodies_in_lanes(constants.bodies, states.payload, lanes)
    memory, found = memory_in(integers, lanes)
    n, m, rest = len(constants.rotors), len(found.a0), memory.rest
    G, Q, joints, tips, square, tall = parts_of_room(lanes, states.q.shape[1], n, m)
    QD, H, free = joints[0], joints[1], tips[0]
    Lambda_inv_flat = view(found.Lambda_inv, 0, (m * m,))
    poses_flat = view(found.poses, 0, (found.poses.size,))
    moving = len(wanted.Jdot_qd) > 0 or len(wanted.h) > 0
    for first in range(0, len(states.q), WIDTH):
        load_rows(states.q, first, Q)
        load_rows(states.qd, first, QD)
        robot = constants_of_states(constants, states.gravity, first, G, bodies)
        total = (zero_if_finite(Q) + zero_if_finite(QD)
                 + load_payloads(constants, states.payload, first, P, bodies))
        for step in range(2):
            is_free = step == 0
            if (is_free and moving and len(wanted.a0) == 0) or not (is_free or moving):
                continue
            put_outward(integers[5], robot, memory, found, Q, QD, rest[:0],
                        rest[:0] if is_free else rest)
            total = total + zero_if_finite(found.a0)
            if is_free:
                for i in range(m):
                    free[i] = found.a0[i]
        if len(wanted.h) > 0:
            inward(robot, rest[:0], rest, memory.no_force, memory.work, H)
            total = total + zero_if_finite(H)
        good = is_zero(total + zero_if_finite(Lambda_inv_flat) + zero_if_finite(found.twists)
                        + zero_if_finite(poses_flat))
        if len(wanted.Lambda) > 0:
            put_pseudo_inverse(Lambda_inv_flat, memory.scratch, view(square, 0, (m, m)), m)
        if len(wanted.J) > 0:
            jacobian(robot, memory.work, view(tall, 0, (m, n)))
        mark_rows(wanted.valid, first, good)
        store_rows(wanted.pose, first, poses_flat, good)
        store_rows(wanted.twist, first, found.twists, good)
        store_rows(wanted.J, first, tall, good)
        store_rows(wanted.Jdot_qd, first, found.a0, good)
        store_rows(wanted.h, first, H, good)
        store_rows(wanted.Lambda_inv, first, Lambda_inv_flat, good)
        store_rows(wanted.Lambda, first, square, good)
        store_rows(wanted.a0, first, free, good)
