# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The leader and the followers of a team as resumable kernels.

A kernel returns DONE, WAITING (spin limit reached) or RING (a sleeping peer must be woken); called
again with the same arguments it resumes. So the kernels do not depend on how slots and flags get
from one member to another: by shared memory (`parallel.py`) or by messages (`distributed.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from osc_ros.compile.atomic import load
from osc_ros.compile.compiled import inlined, kernel, lock, released, unlocked
from osc_ros.compile.lane_arrays import none_or_lanes, WIDTH
from osc_ros.dynamics.algebra.spatial import (
    all_finite,
    matrix_at,
    mobility_at,
    spatial_at,
    vector_at,
)
from osc_ros.dynamics.chain.chain_bodies import (
    ENDS_WIDTH,
    FORCE,
    inward_sweep,
    Joints,
    LINK_WIDTH,
    put_tip,
    tip_acceleration,
    TIP_WIDTH,
    WORK_WIDTH,
)
from osc_ros.dynamics.chain.passes import shapes_fit, task_force
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.segments.lane_segments import (
    AT_REST,
    eliminate_base_in_lanes,
    eliminate_in_lanes,
    lane_memory,
    move_base,
    move_in_lanes,
    return_base,
    return_in_lanes,
)
from osc_ros.dynamics.segments.segments import (
    eliminate_base,
    eliminate_segment,
    join_segments,
    motion_inside,
    outer_force,
    put_motion,
)
from osc_ros.dynamics.segments.signals import (
    COMMAND,
    command,
    ELIMINATE,
    has_reached,
    INWARD,
    JOIN,
    JOINED,
    JOINS,
    LAST,
    MOVE,
    MOVED,
    NEXT,
    PROGRESS_WIDTH,
    publish,
    REST,
    RETURNED,
    RING,
    set_sleep_flag,
    STAGE,
    START,
    STOP,
    WAITING,
    word_of,
    words,
)
from osc_ros.dynamics.segments.slots import (
    OUT,
    Q,
    QD,
    QDD,
    SLOT_B,
    SLOT_END,
    SLOT_K,
    SLOT_WIDTH,
    TAU,
)


@inlined
def join_all(slots, flags, k, value, handle, progress, spins):
    """Join segments k + 1, k + 2, k + 4, … to segment k; return False if one is not ready yet."""
    members = len(slots)
    while True:
        step = progress[JOINS]
        if k + step >= members or k & step:
            return True
        if not has_reached(flags, word_of(k + step, JOINED), value, spins):
            return False
        join_segments(slots[k], slots[k + step], handle)
        progress[JOINS] = 2 * step


@released
def lead(shared, place, lanes, q, qd, tau, qdd, tip):
    """Outward pass as the leader of a team; writes the results of `passes.outward` to `tip`."""
    # shared: arrays of `Shared`; place: index of the member, number of bodies, progress, reads of
    # a signal. Named tuples would take longer to pass. lanes: None or a `LaneMemory`, which needs
    # tau. Returns DONE, WRONG_SHAPE (nothing begun), NOT_FINITE, WAITING or RING.
    links, ends, state, work, slots, _, flags = shared
    _, bodies, progress, spins = place
    members = len(slots)
    # q, qd, tau and qdd are those of the whole chain; they are written to `state`.
    variant = (1 if tau is not None else 0) + (2 if qdd is not None else 0)
    if progress[STAGE] == START:
        if not shapes_fit(links, q, qd, tau, qdd):
            return WRONG_SHAPE
        for i in range(len(q)):
            state[Q, i], state[QD, i] = q[i], qd[i]
        if tau is not None:
            for i in range(len(q)):
                state[TAU, i] = tau[i]
        if qdd is not None:
            for i in range(len(q)):
                state[QDD, i] = qdd[i]
        progress[LAST] = (progress[LAST] // NEXT + 1) * NEXT + variant
        progress[STAGE] = MOVE
        if publish(flags, members, COMMAND, progress[LAST], 1, members, progress):
            return RING
    own = Joints(state[Q, :bodies], state[QD, :bodies], none_or_lanes(tau, state[TAU, :bodies]),
                 none_or_lanes(qdd, state[QDD, :bodies]))
    if progress[STAGE] == MOVE:
        if lanes is None:
            put_motion(links[:bodies], own.q, own.qd, own.qdd, work, slots[0])
        else:
            move_base(links, own, work, lanes, slots[0])
        progress[STAGE] = ELIMINATE
        if publish(flags, members, word_of(0, MOVED), progress[LAST], 1, members, progress):
            return RING
    if progress[STAGE] == ELIMINATE:
        if lanes is not None:
            eliminate_base_in_lanes(links, ends, own, work, lanes, slots[0])
        else:
            eliminate_base(links[:bodies], ends, own, work, slots[0])
        progress[STAGE], progress[JOINS] = JOIN, 1
    if not join_all(slots, flags, 0, progress[LAST], None, progress, spins):
        return WAITING
    progress[STAGE] = START
    last, K, b = slots[members - 1], mobility_at(slots[0], SLOT_K), spatial_at(slots[0], SLOT_B)
    a = tip_acceleration(tau, qdd, spatial_at(last, SLOT_END + 18), b)
    put_tip(ends, (matrix_at(last, SLOT_END), vector_at(last, SLOT_END + 9),
                   spatial_at(last, SLOT_END + 12), a, K), tip)
    return DONE if all_finite(tip[:FORCE]) else NOT_FINITE


@released
def lead_back(shared, place, lanes, tau, qdd, F, out):
    """Inward pass as the leader: write τ⁰ + JᵀF to `out`, after `lead` with the same tau, qdd."""
    # F is copied to `force`, for the team. Returns DONE, NOT_FINITE, WAITING or RING.
    links, ends, state, work, slots, force, flags = shared
    _, bodies, progress, spins = place
    members = len(slots)
    if progress[STAGE] == START:
        for i in range(6):
            force[i] = F[i]
        # several inward passes may follow one outward pass
        progress[LAST] = (progress[LAST] // NEXT + 1) * NEXT + INWARD + progress[LAST] % INWARD
        progress[STAGE] = MOVE
        if publish(flags, members, COMMAND, progress[LAST], 1, members, progress):
            return RING
    if progress[STAGE] == MOVE:
        own_tau = None if tau is None else state[TAU, :bodies]
        own_qdd = None if qdd is None else state[QDD, :bodies]
        f = outer_force(ends, slots, 0, qdd, F)
        if lanes is None:
            inward_sweep(links, own_tau, own_qdd, f, work, out[:bodies])
        else:
            return_base(links, f, own_tau, own_qdd, work, lanes, out[:bodies])
        progress[STAGE], progress[JOINS] = JOIN, 1
    while progress[JOINS] < members:
        if not has_reached(flags, word_of(progress[JOINS], RETURNED), progress[LAST], spins):
            return WAITING
        progress[JOINS] += 1
    progress[STAGE] = START
    for i in range(bodies, len(out)):
        out[i] = state[OUT, i]
    return DONE if all_finite(out) else NOT_FINITE


@released
def follow(shared, place, lanes, q, qd, tau, qdd, out):
    """Execute the leader's commands as member k, as long as they have the variant of this call."""
    # The variant (which of tau and qdd are given) has its own kernel. q, qd, tau, qdd, out and
    # links and work of `shared` contain the member's own bodies only; other arguments: `lead`.
    # Returns DONE at a command of another variant or at STOP, otherwise WAITING or RING.
    links, ends, _, work, slots, force, flags = shared
    k, _, progress, spins = place
    joints, members = Joints(q, qd, tau, qdd), len(slots)
    variant = (1 if tau is not None else 0) + (2 if qdd is not None else 0)
    while True:
        value = progress[LAST]
        if progress[STAGE] == MOVE:
            if lanes is None:
                put_motion(links, q, qd, qdd, work, slots[k])
            else:
                move_in_lanes(AT_REST, joints, lanes, slots[k])
            progress[STAGE], progress[JOINS] = ELIMINATE, 0
            if publish(flags, members, word_of(k, MOVED), value, k + 1, members, progress):
                return RING
        if progress[STAGE] == ELIMINATE:
            while progress[JOINS] < k:
                if not has_reached(flags, word_of(progress[JOINS], MOVED), value, spins):
                    return WAITING
                progress[JOINS] += 1
            if lanes is not None:
                R, p, v, a, _, _ = motion_inside(ends, qdd, slots, k)
                eliminate_in_lanes(R, p, v, a, qdd, lanes, slots[k])
            else:
                eliminate_segment(links, ends, joints, work, slots, k)
            progress[STAGE], progress[JOINS] = JOIN, 1
        if progress[STAGE] == JOIN:
            if not join_all(slots, flags, k, value, True, progress, spins):
                return WAITING
            progress[STAGE] = REST
            inside = k & (k - 1)
            if publish(flags, members, word_of(k, JOINED), value, inside, inside + 1, progress):
                return RING
        if not has_reached(flags, COMMAND, value + 1, spins):
            return WAITING
        value = load(flags, COMMAND)
        if value == STOP or value % INWARD != variant:
            return DONE
        progress[LAST] = value
        if value % NEXT < INWARD:
            progress[STAGE] = MOVE
        else:
            f = outer_force(ends, slots, k, qdd, force)
            if lanes is None:
                inward_sweep(links, tau, qdd, f, work, out)
            else:
                return_in_lanes(f, qdd, lanes, out)
            if publish(flags, members, word_of(k, RETURNED), value, 0, 1, progress):
                return RING


@kernel
def commanded_force(u, tip, F):
    """Write F = Λ(u - a⁰) (6,), from the results of `lead`; return DONE or WRONG_SHAPE."""
    if len(u) != 6:
        return WRONG_SHAPE
    task_force(u, tip, F)
    return DONE


@cache
def compile_kernels() -> None:
    """Compile or load the kernels once per process; other argument types then raise TypeError."""
    for with_tau, with_qdd in product((False, True), (False, True)):
        _compile(_calls(with_tau, with_qdd, False), (lead, lead_back, follow))


@cache
def compile_lane_kernels(with_qdd: bool, by_team: bool) -> None:
    """Compile or load the kernels for lanes, with or without q̈ₚ; for a team also `follow`."""
    kernels = (lead, lead_back, follow) if by_team else (lead, lead_back)
    _compile(_calls(True, with_qdd, True)[:len(kernels)], kernels)


def _compile(calls: list[Callable[[], int]], kernels: tuple[Any, ...]) -> None:
    with unlocked():
        for call in calls:
            call()
        commanded_force(np.ones(6), np.ones(TIP_WIDTH), np.ones(6))
        flags = np.zeros(words(2), np.int64)
        set_sleep_flag(flags, 2, 1, 0)
        command(flags, STOP)
        for one in (*kernels, commanded_force, set_sleep_flag, command):
            lock(one)


def _calls(with_tau: bool, with_qdd: bool, in_lanes: bool) -> list[Callable[[], int]]:
    """Calls of `lead`, `lead_back` and `follow` with arguments of these types."""
    n = 2 * WIDTH if in_lanes else 4
    links, ends, tip = np.ones((n, LINK_WIDTH)), np.ones(ENDS_WIDTH), np.ones(TIP_WIDTH)
    x, F = np.ones(n), np.ones(6)
    shared = (links, ends, np.ones((5, n)), np.ones((n, WORK_WIDTH)), np.ones((2, SLOT_WIDTH)), F,
              np.full(words(2), STOP))
    tau, qdd = x if with_tau else None, x if with_qdd else None
    lanes = lane_memory(links, 1) if in_lanes else None
    begins, follows = np.zeros(PROGRESS_WIDTH, np.int64), np.full(PROGRESS_WIDTH, MOVE)
    return [
        lambda: lead(shared, (0, n // 2, begins, 0), lanes, x, x, tau, qdd, tip),
        lambda: lead_back(shared, (0, n // 2, np.zeros(PROGRESS_WIDTH, np.int64), 0), lanes, tau,
                          qdd, F, x),
        lambda: follow(shared, (1, n // 2, follows, 0), lanes, x, x, tau, qdd, x)]
