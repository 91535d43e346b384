# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques and terms of a tree at many states: several states at once in SIMD lanes."""

from __future__ import annotations

from typing import NamedTuple

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
    Joints,
    MASS,
    Memory,
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


class Lanes(NamedTuple):
    """Views of `room`, in lanes, for WIDTH states."""

    robot: Constants
    memory: Memory
    q: Array
    joints: Array  # (5, n): q̇, results, τ⁰, q̈ₚ and room
    tips: Array  # (2, 6 m)
    square: Array  # Λ, flat
    tall: Array  # J, flat
    payload: Array


@inlined
def put_bodies(payload, bodies, B):
    """Copy the constants of the bodies to the lanes B, if there are payloads."""
    if payload is not None:
        for k in range(len(bodies)):
            for j in range(BODY_WIDTH):
                B[k, j] = bodies[k, j]


@inlined
def load_payloads(payload, first, own, at):
    """Write inertias of the first tip's body with the payloads of WIDTH states, in lanes."""
    # Returns 0 in lanes whose payload is finite, else NaN.
    total = 0.0
    if payload is not None:
        k, end = own.tips[0], own.ends[0]
        load_rows(payload, first, at.payload)
        put_loaded(own.bodies[k, MASS:], at.payload, matrix_at(end, 0), vector_at(end, 9),
                   at.robot.bodies[k, MASS:])
        total += zero_if_finite(at.payload)
    return total


@inlined
def lanes_of(integers, own, states, room):
    """The `Lanes` of a robot with the constants `own`."""
    # With payloads, the bodies are a copy of the robot's in lanes; gravity always is.
    lanes, nq, n, m = array_of_lanes(room, WIDTH), states.q.shape[1], len(own.rotors), 6 * len(
        own.tips)
    i = len(lanes) - own.bodies.size
    P, B = lanes[i - PAYLOAD_WIDTH:i], view(lanes, i, own.bodies.shape)
    put_bodies(states.payload, own.bodies, B)
    i -= PAYLOAD_WIDTH + 3 + nq + 5 * n + 2 * m + m * m + m * n
    gravity, i = lanes[i:i + 3], i + 3
    q, i = lanes[i:i + nq], i + nq
    joints, i = view(lanes, i, (5, n)), i + 5 * n
    tips, i = view(lanes, i, (2, m)), i + 2 * m
    robot = Constants(own.tree, own_or_lanes(states.payload, own.bodies, B), own.tips, own.ends,
                      gravity, own.rotors, own.paths, own.starts, own.common, own.carriers,
                      own.before)
    return Lanes(robot, memory_in(integers, lanes), q, joints, tips, lanes[i:i + m * m],
                 lanes[i + m * m:i + m * m + m * n], P)


@inlined
def load_states(own, states, first, at):
    """Load WIDTH states from `first` on; return 0, or NaN in lanes with a number that is not."""
    load_rows(states.q, first, at.q)
    load_rows(states.qd, first, at.joints[0])
    total = zero_if_finite(at.q) + zero_if_finite(at.joints[0])
    if len(states.gravity) > 0:
        load_rows(states.gravity, first, at.robot.gravity)
    else:  # the robot's
        for i in range(3):
            at.robot.gravity[i] = own.gravity[i]
    return total + load_payloads(states.payload, first, own, at)


@released
def laws(integers, numbers, states, room, out, valid):
    """Write τ⁰ + JᵀΛ(u - a⁰) at k states to out (k, n) [N·m], and `valid` (k,)."""
    # `valid` is False and `out` NaN where a number of a state or its result is not finite. In
    # `states`, tau, qdd and gravity have no rows if not given; payload may be None. `room`: of
    # `batch_room`.
    own = constants_in(integers, numbers)
    at = lanes_of(integers, own, states, room)
    tau, qdd, U, OUT = states.tau, states.qdd, at.tips[0], at.joints[1]
    joints = Joints(at.q, at.joints[0], at.joints[2] if len(tau) > 0 else at.joints[2, :0],
                    at.joints[3] if len(qdd) > 0 else at.joints[3, :0])
    for first in range(0, len(states.q), WIDTH):
        total = load_states(own, states, first, at)
        load_rows(states.u, first, U)
        if len(tau) > 0:
            load_rows(tau, first, joints.tau)
        if len(qdd) > 0:
            load_rows(qdd, first, joints.qdd)
        put_outward(at.robot, at.memory, joints)
        put_law(at.robot, at.memory, joints, U, OUT)
        good = is_zero(zero_if_finite(U) + zero_if_finite(joints.tau) + zero_if_finite(joints.qdd)
                        + zero_if_finite(OUT) + total)
        store_rows(out, first, OUT, good)
        mark_rows(valid, first, good)


@released
def terms(integers, numbers, states, room, wanted):
    """Write terms at k states to those arrays of `wanted` that have rows, and its `valid`."""
    # `wanted`: of `Terms.flat`. Other arguments: `laws`.
    own = constants_in(integers, numbers)
    at = lanes_of(integers, own, states, room)
    robot, memory, H, free = at.robot, at.memory, at.joints[1], at.tips[0]
    n, m, rest = len(own.rotors), len(memory.a0), memory.rest
    Lambda_inv_flat = view(memory.Lambda_inv, 0, (m * m,))
    poses_flat = view(memory.poses, 0, (memory.poses.size,))
    moving = len(wanted.Jdot_qd) > 0 or len(wanted.h) > 0
    for first in range(0, len(states.q), WIDTH):
        total = load_states(own, states, first, at)
        for step in range(2):
            is_free = step == 0
            if (is_free and moving and len(wanted.a0) == 0) or not (is_free or moving):
                continue
            put_outward(robot, memory, Joints(at.q, at.joints[0], rest[:0],
                                              rest[:0] if is_free else rest))
            total = total + zero_if_finite(memory.a0)
            if is_free:
                for i in range(m):
                    free[i] = memory.a0[i]
        if len(wanted.h) > 0:
            inward(robot, rest[:0], rest, memory.no_force, memory.work, H)
            total = total + zero_if_finite(H)
        good = is_zero(total + zero_if_finite(Lambda_inv_flat) + zero_if_finite(memory.twists)
                        + zero_if_finite(poses_flat))
        if len(wanted.Lambda) > 0:
            put_pseudo_inverse(Lambda_inv_flat, memory.scratch, view(at.square, 0, (m, m)), m)
        if len(wanted.J) > 0:
            jacobian(robot, memory.work, view(at.tall, 0, (m, n)))
        mark_rows(wanted.valid, first, good)
        store_rows(wanted.pose, first, poses_flat, good)
        store_rows(wanted.twist, first, memory.twists, good)
        store_rows(wanted.J, first, at.tall, good)
        store_rows(wanted.Jdot_qd, first, memory.a0, good)
        store_rows(wanted.h, first, H, good)
        store_rows(wanted.Lambda_inv, first, Lambda_inv_flat, good)
        store_rows(wanted.Lambda, first, at.square, good)
        store_rows(wanted.a0, first, free, good)
