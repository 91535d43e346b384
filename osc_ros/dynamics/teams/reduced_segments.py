# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Segments of a plain chain by the papers' block cyclic reduction, compiled.

This is phase 2 of `segments.py` with blocks of 𝒜 in place of mobilities. A member publishes the
block of its last joint, and an update for the block of the joint before its first joint, which
belongs to the next member towards the base.
"""

from __future__ import annotations

from osc_ros.dynamics.chain.passes import at_base
from osc_ros.dynamics.compiled import inlined
from osc_ros.dynamics.spatial import (
    add_mobility,
    coupling_at,
    matrix_at,
    mobility_at,
    plus,
    put,
    put_coupling,
    put_mobility,
    spatial_at,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.teams import reduction
from osc_ros.dynamics.teams.segments import motion_inside, put_end
from osc_ros.dynamics.teams.slots import (
    SLOT_B,
    SLOT_BA,
    SLOT_C,
    SLOT_JOINT,
    SLOT_K,
    SLOT_KA,
    SLOT_MOTION,
    SLOT_TOTAL,
)


@inlined
def reduce_base(links, blocks, ends, q, qd, tau, qdd, work, rows, slot):
    """Do phase 2 of a call (see `segments.py`) for the leader, by cyclic reduction."""
    _, _, v, a, free, _ = at_base(ends, qdd)
    v, a, free, _, _ = reduction.assemble(links, blocks, q, qd, tau, qdd, v, a, free, work, rows)
    reduction.reduce_rows(rows, None)
    put_end(matrix_at(slot, SLOT_MOTION), vector_at(slot, SLOT_MOTION + 9), v, a, slot)
    put_blocks(rows, free, slot)


@inlined
def reduce_segment(links, blocks, ends, q, qd, tau, qdd, work, rows, inside, inside_tau, slots, k):
    """
    Do phase 2 of a call (see `segments.py`) for member k, by cyclic reduction.

    `inside` is the link before the member's first link.

    """
    slot = slots[k]
    _, _, v, a, R_end, p_end = motion_inside(ends, qdd, slots, k)
    free = reduction.free_acceleration(inside, inside_tau if tau is not None else None, qdd, v)
    v, a, free, pushed, f = reduction.assemble(links, blocks, q, qd, tau, qdd, v, a, free, work,
                                                rows)
    nothing = (ZERO + ZERO, ZERO + ZERO + ZERO, ZERO + ZERO)
    taken, r = reduction.reduce_rows(rows, (nothing, pushed))
    put_end(R_end, p_end, v, a, slot)
    put_blocks(rows, free, slot)
    put_coupling(slot, SLOT_C, reduction.coupling(rows, len(rows) - 1))
    put_mobility(slot, SLOT_KA, taken)
    put(slot, SLOT_BA, r[0] + r[1])
    put(slot, SLOT_TOTAL, f[0] + f[1])


@inlined
def put_blocks(rows, free, slot):
    A, r = reduction.block(rows, len(rows) - 1)
    put_mobility(slot, SLOT_K, A)
    put(slot, SLOT_B, r[0] + r[1])
    put(slot, SLOT_JOINT, free[0] + free[1])


@inlined
def join_blocks(left, right, handle):
    """Join two segments by cyclic reduction: eliminate the last joint of the left one."""
    A = add_mobility(mobility_at(left, SLOT_K), mobility_at(right, SLOT_KA))
    r = plus(spatial_at(left, SLOT_B), spatial_at(right, SLOT_BA))
    outer, U = (mobility_at(right, SLOT_K), spatial_at(right, SLOT_B)), coupling_at(right, SLOT_C)
    if handle is not None:
        inner = mobility_at(left, SLOT_KA), spatial_at(left, SLOT_BA)
        inner, outer, U = reduction.eliminate_between(A, r, inner, coupling_at(left, SLOT_C),
                                                      outer, U)
        put_coupling(left, SLOT_C, U)
        put_mobility(left, SLOT_KA, inner[0])
        put(left, SLOT_BA, inner[1][0] + inner[1][1])
    else:
        outer = reduction.eliminate_innermost(A, r, outer, U)
    put_mobility(left, SLOT_K, outer[0])
    put(left, SLOT_B, outer[1][0] + outer[1][1])
