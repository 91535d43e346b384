# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Arrays of a tree: constants of the robot and memory of the kernels, as views with names.

An array argument costs 0.1 µs in every call of a compiled function, so the constants are packed
in two arrays, `integers` and `numbers`, and the memory in one, `room`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, view
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

REVOLUTE, PRISMATIC, SPHERICAL = 0, 1, 2
EXTENDED, PROPAGATED, FACTORED = 0, 1, 2
# Columns of `tree`, one row per body: parent, kind of joint, first index in q and in qd.
PARENT, KIND, Q_AT, V_AT = 0, 1, 2, 3
# Columns of `bodies`, one row per body: placement in the parent at q = 0, mass, first moment,
# inertia about the origin.
ROTATION, POSITION, MASS, FIRST_MOMENT, INERTIA = 0, 9, 12, 13, 16
BODY_WIDTH = 22
# Columns of `work`, one row per body:
# PLACEMENT, IN_BASE  pose (R, p) in the parent and in the base
# VELOCITY, ZETA      spatial velocity v, and ζ = v × H q̇
# OWN_FORCE           bias force of the body; after `tree_bodies.accelerate` plus inertial force
# ARTICULATED, D_INV  articulated-body inertia and D⁻¹
# GATHERED            sum of the forces that children pass on, and of external forces
# DRIVE               joint acceleration D⁻¹(τ - Hᵀp - Uᵀζ) if the parent does not accelerate;
#                     p is OWN_FORCE + GATHERED
# ACCELERATION        spatial acceleration
# OMEGA               mobility Ω of `propagation`
# ROTOR_SHARE         D⁻¹ times the rotor inertia; for a spherical joint the three rotor inertias
PLACEMENT, IN_BASE, VELOCITY, ZETA, OWN_FORCE, ARTICULATED = 0, 12, 24, 30, 36, 42
D_INV, GATHERED, DRIVE, ACCELERATION, OMEGA = 63, 69, 75, 78, 84
ROTOR_SHARE, WORK_WIDTH = 105, 108
# Number of entries at the head of `integers`: numbers of bodies, tips, degrees of freedom, entries
# of `paths`, and carriers; then the algorithm.
SIZES = 6


class Constants(NamedTuple):
    """Constants of a robot of b bodies and m tips."""

    tree: Array  # (b, 4) int
    bodies: Array  # (b, BODY_WIDTH)
    tips: Array  # the body that carries each tip (m,)
    ends: Array  # rotation and position of each tip in that body (m, 12)
    gravity: Array  # (3,)
    rotors: Array  # (n,)
    paths: Array  # the bodies from the base to each tip, one tip after another (Σ d,)
    starts: Array  # index in `paths` at which the path of each tip begins (m + 1,)
    common: Array  # number of bodies that the paths of two tips have in common (m, m)
    carriers: Array  # the bodies in `paths`, each once, parents first (c,)
    before: Array  # next degree of freedom towards the base, -1 if there is none (n,)


class Joints(NamedTuple):
    """State of the joints: q (nq,), qd (n,), τ⁰ and posture acceleration; tau, qdd may be (0,)."""

    q: Array
    qd: Array
    tau: Array
    qdd: Array


class Memory(NamedTuple):
    """Memory of the kernels, and results for m tips."""

    work: Array  # (b, WORK_WIDTH)
    X: Array  # (Σ d, 36) if EXTENDED, else empty
    M: Array  # (n, n) if FACTORED, else empty
    Y: Array  # (6 m, n) if FACTORED, else empty
    rest: Array  # zeros, never written (n,)
    driven: Array  # joint torques or joint accelerations of one calculation (n,)
    no_force: Array  # zeros, never written (6 m,)
    scratch: Array  # for the task force (12 m (6 m + 1),)
    Lambda_inv: Array  # Λ⁻¹ (6 m, 6 m)
    a0: Array  # a⁰ (6 m,)
    poses: Array  # (m, 16)
    twists: Array  # (6 m,)
    F: Array  # task force (6 m,)
    algorithm: int  # EXTENDED, PROPAGATED or FACTORED


@inlined
def constants_in(integers, numbers):
    """The `Constants` as views of the arrays that `packed_robot` returns."""
    b, m, n, paths, carriers = (integers[0], integers[1], integers[2], integers[3], integers[4])
    tree, i = view(integers, SIZES, (b, 4)), SIZES + 4 * b
    tips, i = integers[i:i + m], i + m
    on_paths, i = integers[i:i + paths], i + paths
    starts, i = integers[i:i + m + 1], i + m + 1
    common, i = view(integers, i, (m, m)), i + m * m
    carrying, i = integers[i:i + carriers], i + carriers
    before = integers[i:i + n]
    bodies, k = view(numbers, 0, (b, BODY_WIDTH)), BODY_WIDTH * b
    ends, k = view(numbers, k, (m, 12)), k + 12 * m
    gravity, rotors = numbers[k:k + 3], numbers[k + 3:k + 3 + n]
    return Constants(tree, bodies, tips, ends, gravity, rotors, on_paths, starts, common, carrying,
                     before)


@inlined
def memory_in(integers, room):
    """The `Memory` as views of the array that `room_for` returns."""
    b, m, n, algorithm = integers[0], 6 * integers[1], integers[2], integers[5]
    steps = integers[3] if algorithm == EXTENDED else 0
    square = n if algorithm == FACTORED else 0
    tall = m if algorithm == FACTORED else 0
    work, i = view(room, 0, (b, WORK_WIDTH)), WORK_WIDTH * b
    X, i = view(room, i, (steps, 36)), i + 36 * steps
    M, i = view(room, i, (square, square)), i + square * square
    Y, i = view(room, i, (tall, n)), i + tall * n
    rest, driven, i = room[i:i + n], room[i + n:i + 2 * n], i + 2 * n
    no_force, i = room[i:i + m], i + m
    scratch, i = room[i:i + 2 * m * (m + 1)], i + 2 * m * (m + 1)
    Lambda_inv, i = view(room, i, (m, m)), i + m * m
    a0, twists, F, i = room[i:i + m], room[i + m:i + 2 * m], room[i + 2 * m:i + 3 * m], i + 3 * m
    poses = view(room, i, (integers[1], 16))
    return Memory(work, X, M, Y, rest, driven, no_force, scratch, Lambda_inv, a0, poses, twists, F,
                  algorithm)


@inlined
def parts_of(arrays):
    """`Constants` and `Memory` in the three arrays `integers`, `numbers` and `room`."""
    return constants_in(arrays[0], arrays[1]), memory_in(arrays[0], arrays[2])


def packed_robot(robot: Robot, algorithm: int) -> tuple[Array, Array]:
    """Constants of the robot, packed into two arrays: `integers` and `numbers`."""
    b, m = len(robot.parent), len(robot.tips)
    kind = np.where(robot.prismatic, PRISMATIC, np.where(robot.spherical, SPHERICAL, REVOLUTE))
    tree = np.stack([robot.parent, kind, robot.q_index, robot.v_index], axis=1)
    i, j = np.triu_indices(3)
    bodies = np.hstack([
        robot.T_parent_body[:, :3, :3].reshape(-1, 9), robot.T_parent_body[:, :3, 3],
        robot.inertia[:, 5, 5:], robot.inertia[:, [2, 0, 1], [4, 5, 3]],
        robot.inertia[:, :3, :3][:, i, j]])
    tips = np.array([robot.frames[tip][0] for tip in robot.tips])
    ends = np.array([np.concatenate([T[:3, :3].ravel(), T[:3, 3]])
                     for T in (robot.frames[tip][1] for tip in robot.tips)])
    paths = [_path(robot, tip) for tip in tips.tolist()]
    starts = np.cumsum([0, *map(len, paths)])
    common = np.array([[sum(i == j for i, j in zip(one, other)) for other in paths]
                       for one in paths]).reshape(m, m)
    before = np.arange(-1, robot.n - 1)
    ends_at = robot.v_index + np.where(robot.spherical, 3, 1) - 1
    before[robot.v_index] = np.where(robot.parent < 0, -1, ends_at[robot.parent])
    on_paths = np.concatenate(paths)
    carriers = np.unique(on_paths)
    sizes = (b, m, robot.n, len(on_paths), len(carriers), algorithm)
    integers = (sizes, tree, tips, on_paths, starts, common, carriers, before)
    numbers = (bodies, ends, robot.gravity, robot.rotor_inertia)
    return (np.concatenate([np.ravel(x) for x in integers]).astype(np.int64),
            np.concatenate([np.ravel(x) for x in numbers]).astype(np.float64))


def _path(robot: Robot, body: int) -> list[int]:
    """The bodies from the base to one body."""
    path = [body]
    while robot.parent[path[-1]] >= 0:
        path.append(int(robot.parent[path[-1]]))
    return path[::-1]


def room_for(integers: Array) -> Array:
    """The array `room` of zeros, with the length that `memory_in` needs."""
    b, tips, n, paths, _, algorithm = integers[:SIZES].tolist()
    m = 6 * tips
    steps = paths if algorithm == EXTENDED else 0
    factors = n * (n + m) if algorithm == FACTORED else 0
    return np.zeros(WORK_WIDTH * b + 36 * steps + factors + 2 * n + m + 2 * m * (m + 1) + m * m
                    + 3 * m + 16 * tips)


def pendulum() -> Robot:
    """A robot with one joint, for the calls that compile the kernels."""
    one = np.eye(4)
    return Robot(
        name='', base='', tips=('tip',), joints=('joint',), parent=np.array([-1]),
        prismatic=np.array([False]), spherical=np.array([False]), T_parent_body=one[None],
        inertia=np.eye(6)[None], rotor_inertia=np.zeros(1), position_limits=np.array([[-1, 1]]),
        velocity_limits=np.ones(1), effort_limits=np.ones(1), gravity=np.zeros(3),
        frames={'tip': (0, one)})
