# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Segments of a plain chain in the SIMD lanes of one core.

A member of a team that works in lanes splits its bodies into `WIDTH` segments of equal length, one
for each lane. The kernels of `segments.py` evaluate all of them at once, and the member joins
them; to the other members it has one segment. All joints in lanes are revolute, because in lanes a
kernel cannot branch on the type of a joint. 'Inside' means towards the base.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, view, viewing
from osc_ros.compile.either import lane_array
from osc_ros.compile.lane_arrays import array_of_lanes, none_or_lanes, WIDTH, zeros
from osc_ros.dynamics.algebra.spatial import (
    force_to_body,
    force_to_parent,
    matrix_at,
    plus,
    put,
    spatial_at,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.chain.chain_bodies import (
    inward_sweep,
    Joints,
    LINK_WIDTH,
    part_of,
    part_of_joints,
    PRISMATIC,
    WORK_WIDTH,
)
from osc_ros.dynamics.segments.segments import (
    eliminate_base,
    join_segments,
    motion_outside,
    put_motion,
    put_response,
    put_state,
)
from osc_ros.dynamics.segments.slots import (
    SLOT_B,
    SLOT_END,
    SLOT_JOINT,
    SLOT_K,
    SLOT_MOTION,
    SLOT_TOTAL,
    SLOT_WIDTH,
)

Array = NDArray[np.float64]

# Parts of `room` [lanes]: slots of the segments, motion of the body inside each segment, force on
# its last body, five rows of joints (q, q̇, τ⁰, q̈ₚ, torque), and `work`.
_INSIDE, _FORCE, _JOINTS = SLOT_WIDTH, SLOT_WIDTH + 12, SLOT_WIDTH + 18
_TORQUE = 4
# R, p, v and a of a body relative to itself.
AT_REST = ((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), ZERO, (ZERO, ZERO), (ZERO, ZERO))


class LaneMemory(NamedTuple):
    """Memory of a member that works in lanes, for m bodies in each lane."""

    links: Array  # in lanes
    room: Array  # in lanes
    base: Array  # row of `slots` for bodies of the leader before its first segment in lanes


class Split(NamedTuple):
    """Split of a chain between the members of a team."""

    # First body of every member, and n at the end (4, members + 1), for the four variants of a
    # call: with or without τ⁰, and with or without q̈ₚ.
    bounds: NDArray[np.intp]
    lengths: tuple[int, ...] = ()  # bodies of each member in a lane; empty: no lanes


def lane_memory(links: Array, bodies: int) -> LaneMemory:
    """Memory for the last `bodies` × WIDTH bodies of a member, whose constants are `links`."""
    mine = links[len(links) - bodies * WIDTH:].reshape(WIDTH, bodies, LINK_WIDTH)
    packed = zeros(bodies * LINK_WIDTH)
    packed[:] = mine.transpose(1, 2, 0).ravel()
    return LaneMemory(packed, zeros(_JOINTS + bodies * (5 + WORK_WIDTH)), np.zeros(SLOT_WIDTH))


def lane_split(links: Array, members: int) -> Split | None:
    """Split of a chain between members that work in lanes; None if it does not fit."""
    # Every member has the same number of bodies in a lane, or one less; the leader has the
    # remaining bodies too. Needs a vector register, revolute joints, and a body in each lane.
    n = len(links)
    if WIDTH == 1 or n < WIDTH * members or links[:, PRISMATIC].any():
        return None
    bodies, more = divmod(n // WIDTH, members)
    lengths = bodies + (np.arange(members) < more)
    bounds = np.concatenate([[0], n % WIDTH + WIDTH * np.cumsum(lengths)])
    return Split(np.tile(bounds, (4, 1)), tuple(lengths.tolist()))


@inlined
def _parts(memory):
    """Views of a member's memory, in lanes: the segments' slots, links, `room` and `work`."""
    links, room = array_of_lanes(memory.links, WIDTH), array_of_lanes(memory.room, WIDTH)
    m = len(links) // LINK_WIDTH
    return (room[:SLOT_WIDTH], view(links, 0, (m, LINK_WIDTH)), room,
            view(room, _JOINTS + 5 * m, (m, WORK_WIDTH)))


@inlined
def _joints(room, qdd, m):
    """`Joints` in `room`, in lanes; without q̈ₚ if `qdd` is None."""
    rows = view(room, _JOINTS, (4, m))
    return Joints(rows[0], rows[1], rows[2], none_or_lanes(qdd, rows[3]))


@viewing
def _joint_numbers(memory, row, m):
    """Row 0 to 4 (q, q̇, τ⁰, q̈ₚ, torque) of the joint values in `room` as numbers (m, WIDTH)."""
    return view(memory.room, (_JOINTS + row * m) * WIDTH, (m, WIDTH))


@inlined
def _load(memory, row, m, numbers):
    if numbers is not None:
        found, first = _joint_numbers(memory, row, m), len(numbers) - m * WIDTH
        for i in range(m):
            for lane in range(WIDTH):
                found[i, lane] = numbers[first + lane * m + i]


@inlined
def move_in_lanes(base, joints, memory, slot):
    """Phase 1 (see `segments.py`) for the last bodies of `joints`, in lanes."""
    # Writes the motion of the member's last body to `slot`. `base` (R, p, v, a): motion of the
    # body just inside the first segment, relative to the body just inside the member's first body.
    slots, links, room, work = _parts(memory)
    m = len(links)
    _load(memory, 0, m, joints.q)
    _load(memory, 1, m, joints.qd)
    _load(memory, 2, m, joints.tau)
    _load(memory, 3, m, joints.qdd)
    own = _joints(room, joints.qdd, m)
    put_motion(links, own.q, own.qd, own.qdd, work, slots)
    R, p, v, a = base
    for lane in range(WIDTH):
        R, p, v, a = motion_outside(R, p, v, a, lane_array(slots, lane))
    put_state(slot, SLOT_MOTION, R, p, v, a)


@inlined
def eliminate_in_lanes(R, p, v, a, qdd, memory, slot):
    """Phase 2 for the segments in lanes, then join them."""
    # R, p, v, a: pose, velocity and acceleration of the body just inside the first segment.
    slots, links, room, work = _parts(memory)
    m, inside = len(links), room[_INSIDE:_FORCE]
    for lane in range(WIDTH):
        numbers = lane_array(inside, lane)
        put(numbers, 0, v[0] + v[1])
        put(numbers, 6, a[0] + a[1])
        R, p, v, a = motion_outside(R, p, v, a, lane_array(slots, lane))
    put_response(links, _joints(room, qdd, m), spatial_at(inside, 0), spatial_at(inside, 6), work,
                 slots)
    first = lane_array(slots, 0)
    total = spatial_at(first, SLOT_TOTAL)
    for lane in range(1, WIDTH):
        mine = lane_array(slots, lane)
        join_segments(first, mine, True)
        if qdd is not None:
            total = plus(force_to_body(matrix_at(mine, SLOT_MOTION),
                                       vector_at(mine, SLOT_MOTION + 9), total),
                         spatial_at(mine, SLOT_TOTAL))
    for i in range(SLOT_JOINT, SLOT_TOTAL):
        slot[i] = first[i]
    put(slot, SLOT_TOTAL, total[0] + total[1])
    put_state(slot, SLOT_END, R, p, v, a)


@inlined
def return_in_lanes(f, qdd, memory, out):
    """Phase 3 for segments in lanes: write the torques of the last bodies of `out`."""
    # f: force on the last body. Returns the force on the body just inside the first segment.
    slots, links, room, work = _parts(memory)
    m, force = len(links), room[_FORCE:_JOINTS]
    for i in range(WIDTH):
        mine, numbers = lane_array(slots, WIDTH - 1 - i), lane_array(force, WIDTH - 1 - i)
        put(numbers, 0, f[0] + f[1])
        if qdd is not None:
            f = plus(f, spatial_at(mine, SLOT_TOTAL))
        f = force_to_parent(matrix_at(mine, SLOT_MOTION), vector_at(mine, SLOT_MOTION + 9), f)
    joints = _joints(room, qdd, m)
    inward_sweep(links, joints.tau, joints.qdd, spatial_at(force, 0), work,
                 view(room, _JOINTS + _TORQUE * m, (m,)))
    found, first = _joint_numbers(memory, _TORQUE, m), len(out) - m * WIDTH
    for lane in range(WIDTH):
        for i in range(m):
            out[first + lane * m + i] = found[i, lane]
    return f


@inlined
def remaining_bodies(memory, bodies):
    """Number of the leader's bodies before its first segment in lanes."""
    return bodies - len(memory.links) // LINK_WIDTH


@inlined
def move_base(links, joints, work, memory, slot):
    """Phase 1 for the leader: the remaining bodies, then its segments in lanes."""
    rest = remaining_bodies(memory, len(joints.q))
    first = part_of_joints(joints, 0, rest)
    put_motion(links[:rest], first.q, first.qd, first.qdd, work, memory.base)
    R, p, v, a = AT_REST
    move_in_lanes(motion_outside(R, p, v, a, memory.base), joints, memory, slot)


@inlined
def eliminate_base_in_lanes(links, ends, joints, work, memory, slot):
    """Phase 2 for the leader: the remaining bodies, then its segments in lanes."""
    rest, base = remaining_bodies(memory, len(joints.q)), memory.base
    eliminate_base(links[:rest], ends, part_of_joints(joints, 0, rest), work, base)
    eliminate_in_lanes(matrix_at(base, SLOT_END), vector_at(base, SLOT_END + 9),
                       spatial_at(base, SLOT_END + 12), spatial_at(base, SLOT_END + 18),
                       joints.qdd, memory, slot)
    join_segments(base, slot, None)
    for i in range(SLOT_K, SLOT_B + 6):
        slot[i] = base[i]


@inlined
def return_base(links, f, tau, qdd, work, memory, out):
    """Phase 3 for the leader: its segments in lanes, then the remaining bodies."""
    rest = remaining_bodies(memory, len(out))
    f = return_in_lanes(f, qdd, memory, out)
    inward_sweep(links[:rest], tau[:rest], part_of(qdd, 0, rest), f, work, out[:rest])
