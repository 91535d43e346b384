# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Layout of the flat array of a plain chain: constants, memory and results of the kernels.

One flat array is fast to pass: an array argument costs 0.05 µs in each call of a compiled
function, a matrix 0.1 µs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, plain, view, viewing
from osc_ros.dynamics.algebra.spatial import matrix_at
from osc_ros.dynamics.algebra.task_inertia import SCRATCH_WIDTH
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Columns of `links`, one row per body: 1 for a prismatic joint, rotor inertia, placement in the
# parent at q = 0, mass, first moment, inertia about the origin, and the inverse of the spatial
# inertia, [[A, B], [Bᵀ, C]].
PRISMATIC, ROTOR, ROTATION, POSITION, MASS, FIRST_MOMENT, INERTIA = 0, 1, 2, 11, 14, 15, 18
INVERSE_A, INVERSE_B, INVERSE_C, LINK_WIDTH = 24, 30, 39, 45
# `ends`: gravity (3), tip rotation (9), tip position (3).
ENDS_WIDTH = 15
# Columns of `work`, one row per body: placement (12), Newton-Euler force (6).
WORK_WIDTH = 18
# Columns of `factor`, one row per body, for back substitution: L, D (21), residual (6), G H (6),
# and what `elimination.joint_hold` returns (21), for M⁻¹ only.
RESIDUAL, HOLD, FACTOR_WIDTH = 21, 33, 54
# `tip`: Λ⁻¹ (36), a⁰ (6), pose (16), twist (6), F (6), scratch of task_inertia.
A0, POSE, TWIST, FORCE, SCRATCH = 36, 42, 58, 64, 70
TIP_WIDTH = 70 + SCRATCH_WIDTH
_LINKS = ENDS_WIDTH + TIP_WIDTH  # where `links` begin in the flat array
_BODY_WIDTH = LINK_WIDTH + WORK_WIDTH + FACTOR_WIDTH


class Joints(NamedTuple):
    """State of the joints (n,), τ⁰ and posture acceleration; tau and qdd may be None."""

    q: Array
    qd: Array
    tau: Array | None
    qdd: Array | None


@viewing
def part_of(values, first, last):
    """Return values[first:last], or None if `values` is None."""
    return None if values is None else values[first:last]


@inlined
def part_of_joints(joints, first, last):
    """`Joints` of the bodies first, …, last - 1."""
    return Joints(joints.q[first:last], joints.qd[first:last], part_of(joints.tau, first, last),
                  part_of(joints.qdd, first, last))


class Parts(NamedTuple):
    """Views into the flat array of a chain of n bodies."""

    links: Array  # (n, LINK_WIDTH), constants
    ends: Array  # (ENDS_WIDTH,), constants
    work: Array  # (n, WORK_WIDTH)
    factor: Array | None  # (n, FACTOR_WIDTH), None where a kernel needs none
    tip: Array  # (TIP_WIDTH,), results


@inlined
def parts_of(chain):
    """The `Parts` of a chain's flat array."""
    n = (len(chain) - _LINKS) // _BODY_WIDTH
    work = _LINKS + n * LINK_WIDTH
    return Parts(view(chain, _LINKS, (n, LINK_WIDTH)), chain[:ENDS_WIDTH],
                 view(chain, work, (n, WORK_WIDTH)),
                 view(chain, work + n * WORK_WIDTH, (n, FACTOR_WIDTH)), chain[ENDS_WIDTH:_LINKS])


def empty_chain(n: int) -> tuple[Array, Parts]:
    """Return a flat array of zeros for n bodies, and its `Parts`."""
    chain = np.zeros(_LINKS + n * _BODY_WIDTH)
    return chain, Parts(*plain(parts_of)(chain))


def chain_of(robot: Robot) -> tuple[Array, Parts]:
    """Return the flat array of a robot (constants set, memory zero), and its `Parts`."""
    chain, parts = empty_chain(robot.n)
    parts.links[:], parts.ends[:] = packed_robot(robot)
    return chain, parts


def packed_robot(robot: Robot) -> tuple[Array, Array]:
    """Constants of the robot for the kernels: links (n, LINK_WIDTH) and ends (ENDS_WIDTH,)."""
    upper = np.triu_indices(3)
    links = np.zeros((robot.n, LINK_WIDTH))
    inverse = np.linalg.inv(robot.inertia)
    links[:, PRISMATIC] = robot.prismatic
    links[:, ROTOR] = robot.rotor_inertia
    links[:, ROTATION:POSITION] = robot.T_parent_body[:, :3, :3].reshape(-1, 9)
    links[:, POSITION:MASS] = robot.T_parent_body[:, :3, 3]
    links[:, MASS] = robot.inertia[:, 5, 5]
    links[:, FIRST_MOMENT:INERTIA] = robot.inertia[:, [2, 0, 1], [4, 5, 3]]
    links[:, INERTIA:INVERSE_A] = robot.inertia[:, :3, :3][:, upper[0], upper[1]]
    links[:, INVERSE_A:INVERSE_B] = inverse[:, :3, :3][:, upper[0], upper[1]]
    links[:, INVERSE_B:INVERSE_C] = inverse[:, :3, 3:].reshape(-1, 9)
    links[:, INVERSE_C:] = inverse[:, 3:, 3:][:, upper[0], upper[1]]
    ends = np.concatenate([robot.gravity, robot.T_body_tip[:3, :3].ravel(),
                           robot.T_body_tip[:3, 3]])
    return links, ends


@inlined
def factors_at(row, k):
    """The result of `ldl_factors` that row[k:k + 21] contains."""
    return (matrix_at(row, k) + matrix_at(row, k + 9)
            + (row[k + 18], row[k + 19], row[k + 20]))
