"""
The law over segments of a chain that are evaluated at once, compiled.

Member 0 of a team has the segment at the base; it leads. Every other member has a segment that
hangs from an unknown force F_a on its first body, and follows. A call has three phases, and two
exchanges between them:

    1  every member composes how its last body is placed and moves, relative to the segment inside
       → all that are inside
    2  it goes outward over its bodies as the serial sweep does, with a handle for F_a; then
       segments are joined in pairs, pairs in pairs, … up to the leader: a tree, ⌈log₂ P⌉ deep
       → the tip's Λ⁻¹ and a⁰, and back the task force F
    3  it goes inward over its bodies

To join two segments is to eliminate the joint between them. The step from body to body is the
same with one body for the outer segment: K₂ = C₂ = K_a2 = I⁻¹.

For comparison phase 2 can be the papers' block cyclic reduction (`reduction.py`), with blocks of
𝒜 in place of mobilities: then a member tells the block of its last joint, and what it takes from
that of the member inside. That is what `matrix` is for.

What members tell each other is in `slots`, a row each; that it is there, in the words `flags`,
which only grow: the number of the command that it belongs to. A kernel runs until it is through,
or has spun in vain, or has to ring for somebody who sleeps; called again with the same arguments
it goes on where it was. So who carries slots and flags from one member to another is not its
concern: they may be in shared memory, or messages.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.ldl import BLOCK_WIDTH
from osc_ros.dynamics.chain.sweep import (
    across_axis,
    along_axis,
    at_base,
    axis_first,
    axis_first_pair,
    carried_back,
    coupling_rows,
    eliminated,
    ENDS_WIDTH,
    factored,
    fit,
    FORCE,
    forward_solved,
    inner_handle,
    inverse_inertia,
    inward_from,
    LINK_WIDTH,
    moved,
    placement,
    PRISMATIC,
    put_placement,
    put_tip,
    ROTOR,
    rows_first,
    swept,
    task_force,
    tip_acceleration,
    TIP_WIDTH,
    WORK_WIDTH,
)
from osc_ros.dynamics.compiled import inlined, kernel, released
from osc_ros.dynamics.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.spatial import (
    add,
    add_mobility,
    all_finite,
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
from osc_ros.dynamics.teams import reduction
from osc_ros.dynamics.teams.atomic import exchanged, loaded, pause, store

Array = NDArray[np.float64]
Words = NDArray[np.int64]

# Beside DONE and its like: spun in vain; somebody has to be rung.
WAITING, RING = 3, 4

# Columns of `slots`. The motion of the last body relative to the one inside the first: R, p,
# velocity, acceleration; its pose in the base, velocity and acceleration; the first joint as the
# beginning of a row of `links`, with its present placement, and its torque; K, b, C, K_a, b_a of
# what was joined so far; the Newton-Euler forces of the segment, as one on its last body.
# With blocks of 𝒜: in place of K, b and C those of the last joint, A, r and U; in place of K_a and
# b_a what it takes from the joint inside the first; and of the joint no more than the acceleration
# of the last body when it is left alone.
_MOTION, _END, _JOINT, _K, _B, _C, _KA, _BA, _TOTAL = 0, 24, 48, 64, 85, 91, 127, 148, 154
SLOT_WIDTH = 160
MOTION, RESPONSE = slice(_MOTION, _END), slice(_END, SLOT_WIDTH)
END, TOTAL = slice(_END, _JOINT), slice(_TOTAL, SLOT_WIDTH)
_R, _P, _TAU = 2, 11, 14  # in the joint

# Rows of `state`, which the leader fills: positions, velocities, τ⁰, q̈ₚ, and torques.
Q, QD, TAU, QDD, OUT = range(5)

# `flags`: a line of a cache and its twin for the command, then one for each member's words and
# one for whether it sleeps.
LINE = 16
COMMAND, MOVED, JOINED, RETURNED = 0, 0, 1, 2
# A command is its number × 8, whether inward × 4, whether with q̈ₚ × 2, whether with τ⁰.
INWARD, NEXT = 4, 8
STOP = 2 ** 62

# `progress` of a member, its own: stage, members joined, last command, members to ring for.
STAGE, JOINS, LAST, FIRST_RUNG, LAST_RUNG = range(5)
PROGRESS_WIDTH = 5
START, MOVE, ELIMINATE, JOIN, REST = range(5)


def words(members: int) -> int:
    """The length of `flags`."""
    return LINE * (1 + 2 * members)


@inlined
def _word(k, which):
    return LINE * (1 + k) + which


@inlined
def _sleep_word(members, k):
    return LINE * (1 + members + k)


@inlined
def _awaited(flags, place, value, spins):
    """Whether a word has come to a value, looking at it again `spins` times."""
    for _ in range(spins):
        if loaded(flags, place) >= value:
            return True
        pause()
    return loaded(flags, place) >= value


@inlined
def _told(flags, members, place, value, first, last, progress):
    """Publish a word; whether one of the members whom it concerns has to be rung."""
    store(flags, place, value)
    progress[FIRST_RUNG], progress[LAST_RUNG] = first, last
    for k in range(first, last):
        if loaded(flags, _sleep_word(members, k)) != 0:
            return True
    return False


@kernel
def asleep(flags, members, k, value):
    """Set whether member k sleeps; whether it did, for the other side to have rung."""
    return exchanged(flags, _sleep_word(members, k), value)


@kernel
def command(flags, value):
    """Give a command."""
    store(flags, COMMAND, value)


@inlined
def _move(links, q, qd, qdd, work, slot):
    """Phase 1: place the bodies, and compose the motion of the last one."""
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
    put(slot, _MOTION, R)
    put(slot, _MOTION + 9, p)
    put(slot, _MOTION + 12, w[0] + w[1])
    put(slot, _MOTION + 18, alpha[0] + alpha[1])


@inlined
def _followed(R_base, p_base, v, a, slot):
    """Pose, velocity and acceleration outside a segment, from those inside it."""
    R, p = matrix_at(slot, _MOTION), vector_at(slot, _MOTION + 9)
    w, alpha = spatial_at(slot, _MOTION + 12), spatial_at(slot, _MOTION + 18)
    R_base, p_base = compose(R_base, R), add(p_base, rotate(R_base, p))
    v = motion_to_body(R, p, v)
    a = plus(plus(motion_to_body(R, p, a), motion_cross(v, w)), alpha)
    return R_base, p_base, plus(v, w), a


@inlined
def _put_end(R, p, v, a, slot):
    put(slot, _END, R)
    put(slot, _END + 9, p)
    put(slot, _END + 12, v[0] + v[1])
    put(slot, _END + 18, a[0] + a[1])


@inlined
def _put_handle(slot, handle):
    C, K_a, b_a, f = handle
    put_coupling(slot, _C, C)
    put_mobility(slot, _KA, K_a)
    put(slot, _BA, b_a[0] + b_a[1])
    put(slot, _TOTAL, f[0] + f[1])


@inlined
def _eliminate_base(links, ends, q, qd, tau, qdd, work, slot):
    """Phase 2 of the leader: the serial sweep, of bodies that are placed."""
    R, p, v, a, b, K = at_base(ends, qdd)
    _, _, v, a, b, K, _ = swept(links, q, qd, tau, qdd, R, p, v, a, b, K, work, None, True, None)
    _put_end(matrix_at(slot, _MOTION), vector_at(slot, _MOTION + 9), v, a, slot)
    put_mobility(slot, _K, K)
    if qdd is not None and tau is None:
        b = (ZERO, ZERO)
    put(slot, _B, b[0] + b[1])


@inlined
def _inside(ends, qdd, slots, k):
    """What member k's segment hangs from: R, p, v and a, and R and p of its own last body."""
    R, p, v, a, _, _ = at_base(ends, qdd)
    for j in range(k):
        R, p, v, a = _followed(R, p, v, a, slots[j])
    R_end, p_end, _, _ = _followed(R, p, v, a, slots[k])
    return R, p, v, a, R_end, p_end


@inlined
def _eliminate(links, ends, q, qd, tau, qdd, work, slots, k):
    """Phase 2 of member k: the same with a handle, from its first body, which hangs free."""
    slot = slots[k]
    R, p, v, a, R_end, p_end = _inside(ends, qdd, slots, k)
    link, body = links[0], work[0]
    R_i, p_i = matrix_at(body, 0), vector_at(body, 9)
    slot[_JOINT + PRISMATIC], slot[_JOINT + ROTOR] = link[PRISMATIC], link[ROTOR]
    put(slot, _JOINT + _R, R_i)
    put(slot, _JOINT + _P, p_i)
    v, a, zeta, bias = moved(link, R_i, p_i, 0, qd, qdd, v, a, body)
    K = inverse_inertia(link)
    b = mobility_times(K, minus((ZERO, ZERO), bias))
    A, B, C = K
    f = (ZERO, ZERO)
    if qdd is not None:
        f = spatial_at(body, 12)
        outer_qdd = qdd[1:]
    else:
        outer_qdd = None
    if tau is not None:
        slot[_JOINT + _TAU] = tau[0]
        outer_tau = tau[1:]
    else:
        slot[_JOINT + _TAU] = 0.0
        outer_tau = None
    handle = (full(A), B, transpose(B), full(C)), K, minus(b, zeta), f
    _, _, v, a, b, K, handle = swept(links[1:], q[1:], qd[1:], outer_tau, outer_qdd, R, p, v, a, b,
                                     K, work[1:], None, True, handle)
    _put_end(R_end, p_end, v, a, slot)
    put_mobility(slot, _K, K)
    if qdd is not None and tau is None:
        C_a, K_a, _, f = handle
        b, handle = (ZERO, ZERO), (C_a, K_a, (ZERO, ZERO), f)
    put(slot, _B, b[0] + b[1])
    _put_handle(slot, handle)


@inlined
def _join(left, right, handle):
    """Join two segments to one, which goes where the left one was; handle: None at the base."""
    joint = right[_JOINT:_K]
    R, p, tau, s = matrix_at(joint, _R), vector_at(joint, _P), joint[_TAU], np.sqrt(joint[ROTOR])
    G = add_mobility(mobility_at(right, _KA),
                     mobility_unrotated(R, mobility_shifted(p, mobility_at(left, _K))))
    z = minus(plus(mobility_times(G, along_axis(joint, tau)), spatial_at(right, _BA)),
              motion_to_body(R, p, spatial_at(left, _B)))
    L = factored(axis_first(joint, G), s)
    y = forward_solved(L, *across_axis(s, axis_first_pair(joint, z)))
    C_t = rows_first(joint, coupling_transposed(coupling_at(right, _C)))
    a, c = coupling_rows(C_t, s)
    K, za, zc = eliminated(mobility_at(right, _K), L, a, c)
    T, U, _, _ = C_t
    b = minus(spatial_at(right, _B), carried_back(L, y, za, zc))
    b = along(tau, (T[6], T[7], T[8]), b[0]), along(tau, (U[6], U[7], U[8]), b[1])
    if handle is not None:
        outer = (coupling_at(left, _C), mobility_at(left, _KA), spatial_at(left, _BA),
                 spatial_at(left, _TOTAL))
        _put_handle(left, inner_handle(joint, R, p, joint[_TAU:], 0, L, y, za, zc, outer))
    put_mobility(left, _K, K)
    put(left, _B, b[0] + b[1])


@inlined
def _reduce_base(links, blocks, ends, q, qd, tau, qdd, work, rows, slot):
    """Phase 2 of the leader, by cyclic reduction."""
    _, _, v, a, free, _ = at_base(ends, qdd)
    v, a, free, _, _ = reduction.assembled(links, blocks, q, qd, tau, qdd, v, a, free, work, rows)
    reduction.reduced(rows, None)
    _put_end(matrix_at(slot, _MOTION), vector_at(slot, _MOTION + 9), v, a, slot)
    _put_blocks(rows, free, slot)


@inlined
def _reduce(links, blocks, ends, q, qd, tau, qdd, work, rows, inside, inside_tau, slots, k):
    """Phase 2 of member k, by cyclic reduction; inside: the link that its first one hangs from."""
    slot = slots[k]
    _, _, v, a, R_end, p_end = _inside(ends, qdd, slots, k)
    free = reduction.freely(inside, inside_tau if tau is not None else None, qdd, v)
    v, a, free, pushed, f = reduction.assembled(links, blocks, q, qd, tau, qdd, v, a, free, work,
                                                rows)
    taken, r = reduction.reduced(rows, ((ZERO + ZERO, ZERO + ZERO + ZERO, ZERO + ZERO), pushed))
    _put_end(R_end, p_end, v, a, slot)
    _put_blocks(rows, free, slot)
    put_coupling(slot, _C, reduction.coupling(rows, len(rows) - 1))
    put_mobility(slot, _KA, taken)
    put(slot, _BA, r[0] + r[1])
    put(slot, _TOTAL, f[0] + f[1])


@inlined
def _put_blocks(rows, free, slot):
    A, r = reduction.block(rows, len(rows) - 1)
    put_mobility(slot, _K, A)
    put(slot, _B, r[0] + r[1])
    put(slot, _JOINT, free[0] + free[1])


@inlined
def _join_blocks(left, right, handle):
    """As `_join`, by cyclic reduction: eliminate the last joint of the left segment."""
    A = add_mobility(mobility_at(left, _K), mobility_at(right, _KA))
    r = plus(spatial_at(left, _B), spatial_at(right, _BA))
    outer, U = (mobility_at(right, _K), spatial_at(right, _B)), coupling_at(right, _C)
    if handle is not None:
        inner = mobility_at(left, _KA), spatial_at(left, _BA)
        inner, outer, U = reduction.between(A, r, inner, coupling_at(left, _C), outer, U)
        put_coupling(left, _C, U)
        put_mobility(left, _KA, inner[0])
        put(left, _BA, inner[1][0] + inner[1][1])
    else:
        outer = reduction.innermost(A, r, outer, U)
    put_mobility(left, _K, outer[0])
    put(left, _B, outer[1][0] + outer[1][1])


@inlined
def _joined_all(slots, flags, k, value, handle, progress, spins, matrix):
    """Join to member k's segment those that come to it, 1, 2, 4, … further; whether all came."""
    members = len(slots)
    while True:
        step = progress[JOINS]
        if k + step >= members or k & step:
            return True
        if not _awaited(flags, _word(k + step, JOINED), value, spins):
            return False
        if matrix is None:
            _join(slots[k], slots[k + step], handle)
        else:
            _join_blocks(slots[k], slots[k + step], handle)
        progress[JOINS] = 2 * step


@inlined
def _outer_force(ends, slots, k, qdd, F):
    """All that acts on member k's last body from outside: F at the tip, and what is between."""
    last = len(slots) - 1
    p_k, R_k = vector_at(slots[k], _END + 9), matrix_at(slots[k], _END)
    p_tip = add(vector_at(slots[last], _END + 9),
                rotate(matrix_at(slots[last], _END), vector_at(ends, 12)))
    force = vector_at(F, 3)
    moment = add(vector_at(F, 0), cross(sub(p_tip, p_k), force))
    if qdd is not None:
        for j in range(last, k, -1):
            R_j = matrix_at(slots[j], _END)
            f = rotate(R_j, vector_at(slots[j], _TOTAL + 3))
            m = rotate(R_j, vector_at(slots[j], _TOTAL))
            arm = sub(vector_at(slots[j], _END + 9), p_k)
            force, moment = add(force, f), add(moment, add(m, cross(arm, f)))
    return unrotate(R_k, moment), unrotate(R_k, force)


@released
def lead(links, ends, q, qd, tau, qdd, bodies, state, work, slots, flags, tip, progress, spins,
         matrix):
    """
    As `sweep.outward`, with the bodies beyond the first ones left to the team.

    Parameters
    ----------
    links, ends, q, qd, tau, qdd, tip : as there
    bodies : int
        How many are the leader's own.
    state : (5, n), written
        What the team reads.
    work, slots, flags : shared with the team
    progress : (PROGRESS_WIDTH,)
    spins : int
    matrix : None, or (blocks, rows, tip_block)
        For cyclic reduction: from `ldl.packed_blocks`, those of the leader's own joints and that
        of the tip; and rows of `reduction.ROW_WIDTH`, overwritten.

    Returns
    -------
    DONE, or WRONG_SHAPE (nothing was begun), NOT_FINITE, WAITING, RING

    """
    members = len(slots)
    variant = (1 if tau is not None else 0) + (2 if qdd is not None else 0)
    if progress[STAGE] == START:
        if not fit(links, q, qd, tau, qdd):
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
        if _told(flags, members, COMMAND, progress[LAST], 1, members, progress):
            return RING
    own_q, own_qd = state[Q, :bodies], state[QD, :bodies]
    own_tau = None if tau is None else state[TAU, :bodies]
    own_qdd = None if qdd is None else state[QDD, :bodies]
    if progress[STAGE] == MOVE:
        _move(links[:bodies], own_q, own_qd, own_qdd, work, slots[0])
        progress[STAGE] = ELIMINATE
        if _told(flags, members, _word(0, MOVED), progress[LAST], 1, members, progress):
            return RING
    if progress[STAGE] == ELIMINATE:
        if matrix is None:
            _eliminate_base(links[:bodies], ends, own_q, own_qd, own_tau, own_qdd, work, slots[0])
        else:
            blocks, rows, _ = matrix
            _reduce_base(links[:bodies], blocks, ends, own_q, own_qd, own_tau, own_qdd, work,
                         rows[:bodies], slots[0])
        progress[STAGE], progress[JOINS] = JOIN, 1
    if not _joined_all(slots, flags, 0, progress[LAST], None, progress, spins, matrix):
        return WAITING
    progress[STAGE] = START
    last, K, b = slots[members - 1], mobility_at(slots[0], _K), spatial_at(slots[0], _B)
    if matrix is not None:
        _, _, tip_block = matrix
        K, b = reduction.at_tip(tip_block, K, b, spatial_at(last, _JOINT))
    a = tip_acceleration(tau, qdd, spatial_at(last, _END + 18), b)
    put_tip(ends, matrix_at(last, _END), vector_at(last, _END + 9), spatial_at(last, _END + 12),
            a, K, tip)
    return DONE if all_finite(tip[:FORCE]) else NOT_FINITE


@released
def lead_back(links, ends, tau, qdd, F, bodies, state, force, work, slots, flags, progress, spins,
              out):
    """
    As `sweep.inward`, after `lead` with the same tau and qdd.

    Parameters
    ----------
    force : (6,), written
        F as the team reads it.

    Returns
    -------
    DONE, or NOT_FINITE, WAITING, RING

    """
    members = len(slots)
    if progress[STAGE] == START:
        for i in range(6):
            force[i] = F[i]
        # after another one too: many forces may follow one way out
        progress[LAST] = (progress[LAST] // NEXT + 1) * NEXT + INWARD + progress[LAST] % INWARD
        progress[STAGE] = MOVE
        if _told(flags, members, COMMAND, progress[LAST], 1, members, progress):
            return RING
    if progress[STAGE] == MOVE:
        own_tau = None if tau is None else state[TAU, :bodies]
        own_qdd = None if qdd is None else state[QDD, :bodies]
        inward_from(links, own_tau, own_qdd, _outer_force(ends, slots, 0, qdd, F), work,
                    out[:bodies])
        progress[STAGE], progress[JOINS] = JOIN, 1
    while progress[JOINS] < members:
        if not _awaited(flags, _word(progress[JOINS], RETURNED), progress[LAST], spins):
            return WAITING
        progress[JOINS] += 1
    progress[STAGE] = START
    for i in range(bodies, len(out)):
        out[i] = state[OUT, i]
    return DONE if all_finite(out) else NOT_FINITE


@released
def follow(links, ends, q, qd, tau, qdd, work, slots, flags, force, out, k, progress, spins,
           matrix):
    """
    What member k does: obey the commands that are for this kind of tau and qdd.

    Parameters
    ----------
    links, q, qd, tau, qdd, work, out : of its own bodies
    matrix : None, or (blocks, rows, inside, inside_tau)
        For cyclic reduction: blocks and rows of its own joints, and of the body that the first
        one hangs from its row of links and, if there is a tau, that (1,).

    Returns
    -------
    DONE where there is a command that is for another kind, or STOP; WAITING, RING

    """
    members = len(slots)
    variant = (1 if tau is not None else 0) + (2 if qdd is not None else 0)
    while True:
        value = progress[LAST]
        if progress[STAGE] == MOVE:
            _move(links, q, qd, qdd, work, slots[k])
            progress[STAGE], progress[JOINS] = ELIMINATE, 0
            if _told(flags, members, _word(k, MOVED), value, k + 1, members, progress):
                return RING
        if progress[STAGE] == ELIMINATE:
            while progress[JOINS] < k:
                if not _awaited(flags, _word(progress[JOINS], MOVED), value, spins):
                    return WAITING
                progress[JOINS] += 1
            if matrix is None:
                _eliminate(links, ends, q, qd, tau, qdd, work, slots, k)
            else:
                blocks, rows, inside, inside_tau = matrix
                _reduce(links, blocks, ends, q, qd, tau, qdd, work, rows, inside, inside_tau,
                        slots, k)
            progress[STAGE], progress[JOINS] = JOIN, 1
        if progress[STAGE] == JOIN:
            if not _joined_all(slots, flags, k, value, True, progress, spins, matrix):
                return WAITING
            progress[STAGE] = REST
            inside = k & (k - 1)
            if _told(flags, members, _word(k, JOINED), value, inside, inside + 1, progress):
                return RING
        if not _awaited(flags, COMMAND, value + 1, spins):
            return WAITING
        value = loaded(flags, COMMAND)
        if value == STOP or value % INWARD != variant:
            return DONE
        progress[LAST] = value
        if value % NEXT < INWARD:
            progress[STAGE] = MOVE
        else:
            inward_from(links, tau, qdd, _outer_force(ends, slots, k, qdd, force), work, out)
            if _told(flags, members, _word(k, RETURNED), value, 0, 1, progress):
                return RING


@kernel
def commanded_force(u, tip, F):
    """F = Λ(u - a⁰) (6,), written, from what `lead` found; DONE, or WRONG_SHAPE."""
    if len(u) != 6:
        return WRONG_SHAPE
    task_force(u, tip, F)
    return DONE


@cache
def compile_kernels(reduced: bool = False) -> None:
    """
    Compile or load every kernel for every use, once a process, and let no other one in.

    Parameters
    ----------
    reduced : bool
        Those for cyclic reduction.

    """
    links, ends, tip = np.ones((4, LINK_WIDTH)), np.ones(ENDS_WIDTH), np.ones(TIP_WIDTH)
    state, work, slots = np.ones((5, 4)), np.ones((4, WORK_WIDTH)), np.ones((2, SLOT_WIDTH))
    x, F, flags = np.ones(4), np.ones(6), np.zeros(words(2), np.int64)
    progress = np.zeros(PROGRESS_WIDTH, np.int64)
    blocks, rows = np.ones((5, BLOCK_WIDTH)), np.ones((4, reduction.ROW_WIDTH))
    leader = follower = None
    if reduced:
        leader, follower = (blocks[:4], rows, blocks[4]), (blocks[:4], rows, links[0], x[:1])
    kernels = [commanded_force, lead, lead_back, follow, asleep, command]
    for one in kernels:
        one.disable_compile(False)
    commanded_force(F, tip, F)
    for tau, qdd in ((None, None), (x, None), (None, x), (x, x)):
        flags[:] = STOP
        progress[:] = START
        lead(links, ends, x, x, tau, qdd, 2, state, work, slots, flags, tip, progress, 0, leader)
        progress[:] = START
        lead_back(links, ends, tau, qdd, F, 2, state, F, work, slots, flags, progress, 0, x)
        flags[:] = STOP
        progress[:] = MOVE
        follow(links, ends, x, x, tau, qdd, work, slots, flags, F, x, 1, progress, 0, follower)
    asleep(flags, 2, 1, 0)
    command(flags, STOP)
    for one in kernels:
        one.disable_compile()
