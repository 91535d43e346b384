"""
The operational space of trees with m end-effectors, compiled: three ways to Λ⁻¹ of Wensing (003).

    extended      EFPA (table I): 𝒳, which takes the motion of a body to an end-effector across
                  joints that give way, is built on the way in and used on the way out;
                  O(N + m d + m²) for N bodies and depth d
    propagated    RJKA: Ω, the mobility of body after body, and across a common ancestor joint
                  after joint; O(N + m² d). On a chain these are the recursions of 002
    factored      SFA: M = LᵀL with the zeros that branches induce, Y = J L⁻¹, Λ⁻¹ = Y Yᵀ;
                  O(n d² + m d² + m² d) for n freedoms

All else is common to the first two: articulated bodies (004 for the side branches), which need no
inverse inertia, so that bodies may be massless as long as every joint moves something that is not.

Notation: body i is reached from its parent by the placement (R, p); H is what its joint frees, +z
turning or sliding, or all three turns; I the articulated inertia, U = I H, D = HᵀU + rotor; v, a
spatial velocity and acceleration in the body's axes; ζ = v × H q̇. Results are at the tips, in
base axes, [angular; linear], one tip after another.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.arrays import ready
from osc_ros.dynamics.compiled import inlined, kernel, plain, released
from osc_ros.dynamics.method import (
    DONE,
    Method,
    NOT_FINITE,
    on_all_cores,
    Terms,
    WRONG_SHAPE,
)
from osc_ros.dynamics.spatial import (
    add,
    add_matrix,
    add_mobility,
    add_symmetric,
    all_finite,
    along,
    compose,
    cross,
    cross_rows,
    dot,
    downdated,
    force_cross,
    force_to_parent,
    full,
    inertia_to_parent,
    inverse,
    matrix_at,
    mobility_at,
    mobility_shifted,
    mobility_times,
    mobility_unrotated,
    motion_cross,
    motion_to_body,
    plus,
    put,
    rotate,
    spatial_at,
    sub,
    sub_matrix,
    symmetric_at,
    times,
    transpose,
    unrotate,
    upper,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.task_inertia import (
    applied_pseudo_inverse,
    EXACT_HIGH,
    pseudo_inverse,
    solved,
)
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

REVOLUTE, PRISMATIC, SPHERICAL = 0, 1, 2
EXTENDED, PROPAGATED, FACTORED = 0, 1, 2
# Columns of `tree`, a row a body: parent, kind of joint, where its part of q and of qd begins.
PARENT, KIND, _Q, _V = 0, 1, 2, 3
# Columns of `bodies`, a row a body: everything about it that never changes.
_R, _P, _MASS, _MC, _IO = 0, 9, 12, 13, 16
BODY_WIDTH = 22
# Columns of `work`, a row a body: placement in the parent and in the base, velocity, ζ, force,
# articulated inertia, D⁻¹, force gathered from outside, D⁻¹(τ - Hᵀp), acceleration, Ω, and what
# the rotor keeps of L: D⁻¹ times its inertia, or that alone of a spherical joint.
_AT, _IN_BASE, _VELOCITY, _ZETA, _OWN, ARTICULATED = 0, 12, 24, 30, 36, 42
_D_INV, GATHERED, DRIVE, ACCELERATION, OMEGA = 63, 69, 75, 78, 84
_KEPT, WORK_WIDTH = 105, 108
_SIZES = 6  # at the head of `integers`: bodies, tips, freedoms, paths, carriers, the algorithm
NO_TURN = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


@inlined
def _relative(tree, body, q, i):
    """(R, p) of a body in its parent."""
    R, p, at = matrix_at(body, _R), vector_at(body, _P), tree[i, _Q]
    if tree[i, KIND] == PRISMATIC:
        x = q[at]
        return R, (p[0] + x * R[2], p[1] + x * R[5], p[2] + x * R[8])
    if tree[i, KIND] == SPHERICAL:
        x, y, z, w = q[at], q[at + 1], q[at + 2], q[at + 3]
        s = 2.0 / (x * x + y * y + z * z + w * w)
        return compose(R, (
            1.0 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w),
            s * (x * y + z * w), 1.0 - s * (x * x + z * z), s * (y * z - x * w),
            s * (x * z - y * w), s * (y * z + x * w), 1.0 - s * (x * x + y * y))), p
    c, s = np.cos(q[at]), np.sin(q[at])
    return (c * R[0] + s * R[1], c * R[1] - s * R[0], R[2],
            c * R[3] + s * R[4], c * R[4] - s * R[3], R[5],
            c * R[6] + s * R[7], c * R[7] - s * R[6], R[8]), p


@inlined
def _along_joint(tree, x, i):
    """H x, for the part of x (n,) that is the joint's."""
    k = tree[i, _V]
    if tree[i, KIND] == REVOLUTE:
        return (0.0, 0.0, x[k]), ZERO
    if tree[i, KIND] == PRISMATIC:
        return ZERO, (0.0, 0.0, x[k])
    return (x[k], x[k + 1], x[k + 2]), ZERO


@inlined
def _momentum(body, v):
    """I v of the body itself."""
    mc = vector_at(body, _MC)
    return (add(times(symmetric_at(body, _IO), v[0]), cross(mc, v[1])),
            along(body[_MASS], v[1], cross(v[0], mc)))


@inlined
def placed(store):
    return matrix_at(store, _AT), vector_at(store, _AT + 9)


@inlined
def _column(kind, I):
    """U = I H, for one freedom."""
    A, B, C = I
    if kind == PRISMATIC:
        return (B[2], B[5], B[8]), (C[2], C[4], C[5])
    return (A[2], A[4], A[5]), (B[6], B[7], B[8])


@inlined
def _axis_part(kind, f):
    """Hᵀ f, for one freedom."""
    return f[1][2] if kind == PRISMATIC else f[0][2]


@inlined
def _inner(a, b):
    return dot(a[0], b[0]) + dot(a[1], b[1])


@inlined
def opened(integers, numbers):
    """
    Constants of the robot, as views into what `packed` makes of it.

    Every array that a kernel is handed takes a tenth of a microsecond, so there are two.

    Returns
    -------
    tree : (b, 4) int
    bodies : (b, BODY_WIDTH)
    tips : (m,) int
        The body that carries each tip.
    ends : (m, 12)
        Rotation and position of each tip in it.
    gravity, rotors : (3,), (n,)
    paths, starts, common, carriers, before
        See `extended`, `propagated` and `factored`.

    """
    b, m, n, paths, carriers = (integers[0], integers[1], integers[2], integers[3], integers[4])
    tree, i = integers[_SIZES:_SIZES + 4 * b].reshape((b, 4)), _SIZES + 4 * b
    tips, i = integers[i:i + m], i + m
    on_paths, i = integers[i:i + paths], i + paths
    starts, i = integers[i:i + m + 1], i + m + 1
    common, i = integers[i:i + m * m].reshape((m, m)), i + m * m
    carrying, i = integers[i:i + carriers], i + carriers
    before = integers[i:i + n]
    bodies, k = numbers[:BODY_WIDTH * b].reshape((b, BODY_WIDTH)), BODY_WIDTH * b
    ends, k = numbers[k:k + 12 * m].reshape((m, 12)), k + 12 * m
    gravity, rotors = numbers[k:k + 3], numbers[k + 3:k + 3 + n]
    return (tree, bodies, tips, ends, gravity, rotors, on_paths, starts, common, carrying, before)


@inlined
def opened_room(integers, room):
    """
    What the kernels work in, and what they write for others, as views.

    Returns
    -------
    work, X, M, Y, rest, driven, no_force, scratch
        (b, WORK_WIDTH); (paths, 36) if EXTENDED; (n, n) and (6 m, n) if FACTORED; (n,), (n,),
        (6 m,), (12 m (6 m + 1),).
    Lambda_inv, a0, poses, twists, F : (6 m, 6 m), (6 m,), (m, 16), (6 m,), (6 m,)

    """
    b, m, n, algorithm = integers[0], 6 * integers[1], integers[2], integers[5]
    steps = integers[3] if algorithm == EXTENDED else 0
    square = n if algorithm == FACTORED else 0
    tall = m if algorithm == FACTORED else 0
    work, i = room[:WORK_WIDTH * b].reshape((b, WORK_WIDTH)), WORK_WIDTH * b
    X, i = room[i:i + 36 * steps].reshape((steps, 36)), i + 36 * steps
    M, i = room[i:i + square * square].reshape((square, square)), i + square * square
    Y, i = room[i:i + tall * n].reshape((tall, n)), i + tall * n
    rest, driven, i = room[i:i + n], room[i + n:i + 2 * n], i + 2 * n
    no_force, i = room[i:i + m], i + m
    scratch, i = room[i:i + 2 * m * (m + 1)], i + 2 * m * (m + 1)
    Lambda_inv, i = room[i:i + m * m].reshape((m, m)), i + m * m
    a0, twists, F, i = room[i:i + m], room[i + m:i + 2 * m], room[i + 2 * m:i + 3 * m], i + 3 * m
    poses = room[i:i + 16 * integers[1]].reshape((integers[1], 16))
    return (work, X, M, Y, rest, driven, no_force, scratch), (Lambda_inv, a0, poses, twists, F)


@kernel
def located(tree, bodies, q, qd, work):
    """Placements, velocities, ζ and the bias forces p = v ×* I v of all bodies, into work."""
    for i in range(len(tree)):
        store, body, parent = work[i], bodies[i], tree[i, PARENT]
        R, p = _relative(tree, body, q, i)
        put(store, _AT, R)
        put(store, _AT + 9, p)
        v = _along_joint(tree, qd, i)
        zeta = (ZERO, ZERO)
        R_base, p_base = R, p
        if parent >= 0:
            outer = work[parent]
            R_parent = matrix_at(outer, _IN_BASE)
            R_base = compose(R_parent, R)
            p_base = add(vector_at(outer, _IN_BASE + 9), rotate(R_parent, p))
            Hqd = v
            v = plus(motion_to_body(R, p, spatial_at(outer, _VELOCITY)), Hqd)
            zeta = motion_cross(v, Hqd)
        bias = force_cross(v, _momentum(body, v))
        put(store, _IN_BASE, R_base)
        put(store, _IN_BASE + 9, p_base)
        put(store, _VELOCITY, v[0] + v[1])
        put(store, _ZETA, zeta[0] + zeta[1])
        put(store, _OWN, bias[0] + bias[1])


@inlined
def _carried(parent, R, p, gravity, work):
    """X a of the parent's acceleration; the base accelerates by -gravity."""
    if parent >= 0:
        return motion_to_body(R, p, spatial_at(work[parent], ACCELERATION))
    return ZERO, unrotate(R, (-gravity[0], -gravity[1], -gravity[2]))


@kernel
def accelerated(tree, bodies, gravity, qdd, work):
    """Accelerations for q̈, and in place of every body's bias force the one that it takes."""
    for i in range(len(tree)):
        store, body = work[i], bodies[i]
        R, p = placed(store)
        a = plus(plus(_carried(tree[i, PARENT], R, p, gravity, work),
                      spatial_at(store, _ZETA)), _along_joint(tree, qdd, i))
        f = plus(_momentum(body, a), spatial_at(store, _OWN))
        put(store, ACCELERATION, a[0] + a[1])
        put(store, _OWN, f[0] + f[1])


@inlined
def _gathered_to_parent(tree, work, i, R, p, f):
    parent = tree[i, PARENT]
    if parent >= 0:
        total = plus(spatial_at(work[parent], GATHERED), force_to_parent(R, p, f))
        put(work[parent], GATHERED, total[0] + total[1])


@inlined
def _push_tips(tips, ends, work, F, sign):
    """Forces on the tips, base axes, as forces on their bodies; all others gather nothing."""
    for i in range(len(work)):
        for k in range(6):
            work[i, GATHERED + k] = 0.0
    for k in range(len(tips)):
        store = work[tips[k]]
        R = matrix_at(store, _IN_BASE)
        moment, force = unrotate(R, vector_at(F, 6 * k)), unrotate(R, vector_at(F, 6 * k + 3))
        moment = add(moment, cross(vector_at(ends[k], 9), force))
        for j in range(3):
            store[GATHERED + j] += sign * moment[j]
            store[GATHERED + 3 + j] += sign * force[j]


@kernel
def inward(tree, tips, ends, rotors, tau, qdd, F, work, out):
    """
    Joint torques τ⁰ + JᵀF, after `outward` with the same tau and qdd.

    Parameters
    ----------
    tau, qdd : (n,) or (0,)
    F : (6 m,)
        Task forces at the tips, base axes, [moment; force] [N·m, N].
    out : (n,), written [N·m]

    """
    _push_tips(tips, ends, work, F, 1.0)
    _collected(tree, rotors, tau, qdd, work, out)


@inlined
def _collected(tree, rotors, tau, qdd, work, out):
    """What the joints take of the forces on the bodies, from the outermost to the base."""
    for i in range(len(tree) - 1, -1, -1):
        store, kind, first = work[i], tree[i, KIND], tree[i, _V]
        R, p = placed(store)
        f = spatial_at(store, GATHERED)
        if len(qdd) > 0:
            f = plus(f, spatial_at(store, _OWN))
        if kind == SPHERICAL:
            for k in range(3):
                out[first + k] = f[0][k]
        else:
            out[first] = _axis_part(kind, f)
        _gathered_to_parent(tree, work, i, R, p, f)
    for k in range(len(out)):
        if len(qdd) > 0:
            out[k] += rotors[k] * qdd[k]
        if len(tau) > 0:
            out[k] += tau[k]


@kernel
def inverse_dynamics(integers, numbers, room, q, qd, qdd, out):
    """Joint torques M q̈ + C + G into out (n,) [N·m], by Newton and Euler."""
    tree, bodies, _, _, gravity, rotors, _, _, _, _, _ = opened(integers, numbers)
    work = opened_room(integers, room)[0][0]
    located(tree, bodies, q, qd, work)
    torques_for(tree, bodies, gravity, rotors, qdd, work, out)


@inlined
def torques_for(tree, bodies, gravity, rotors, qdd, work, out):
    """Joint torques for q̈ into out (n,), after `located`, whose bias forces are used up."""
    accelerated(tree, bodies, gravity, qdd, work)
    for i in range(len(work)):
        for k in range(6):
            work[i, GATHERED + k] = 0.0
    _collected(tree, rotors, qdd[:0], qdd, work, out)


@inlined
def put_own_inertia(body, store):
    """The articulated inertia of a body from which nothing hangs, into its row of work."""
    m, mc = body[_MASS], vector_at(body, _MC)
    put(store, ARTICULATED, symmetric_at(body, _IO))
    put(store, ARTICULATED + 6,
        (0.0, -mc[2], mc[1], mc[2], 0.0, -mc[0], -mc[1], mc[0], 0.0))
    put(store, ARTICULATED + 15, (m, 0.0, 0.0, m, 0.0, m))


@inlined
def inertia_passed(tree, rotors, store, i):
    """What is felt of the articulated inertia of body i behind its joint, and D⁻¹ into work."""
    kind, k = tree[i, KIND], tree[i, _V]
    I = mobility_at(store, ARTICULATED)
    if kind == SPHERICAL:
        A, B, C = I
        D_inv = inverse((A[0] + rotors[k], A[1], A[2], A[3] + rotors[k + 1], A[4],
                         A[5] + rotors[k + 2]))
        put(store, _D_INV, D_inv)
        put(store, _KEPT, vector_at(rotors, k))
        A_full, D_full = full(A), full(D_inv)
        DA, DB = compose(D_full, A_full), compose(D_full, B)
        return (upper(sub_matrix(A_full, compose(A_full, DA))),
                sub_matrix(B, compose(A_full, DB)),
                upper(sub_matrix(full(C), compose(transpose(B), DB))))
    U = _column(kind, I)
    d = 1.0 / (_axis_part(kind, U) + rotors[k])
    store[_D_INV], store[_KEPT] = d, d * rotors[k]
    return downdated(I, d, U[0], U[1])


@kernel
def articulated(tree, bodies, rotors, work):
    """Articulated inertias and D⁻¹ of all bodies, from the tips inward."""
    for i in range(len(tree)):
        put_own_inertia(bodies[i], work[i])
    for i in range(len(tree) - 1, -1, -1):
        store, parent = work[i], tree[i, PARENT]
        passed = inertia_passed(tree, rotors, store, i)
        if parent >= 0:
            R, p = placed(store)
            total = add_mobility(mobility_at(work[parent], ARTICULATED),
                                 inertia_to_parent(R, p, passed))
            put(work[parent], ARTICULATED, total[0] + total[1] + total[2])


@inlined
def _across(kind, I, x):
    """Uᵀ x in the first place, or in three."""
    if kind == SPHERICAL:
        return add(times(I[0], x[0]), rotate(I[1], x[1]))
    U = _column(kind, I)
    return dot(U[0], x[0]) + dot(U[1], x[1]), 0.0, 0.0


@inlined
def _divided(kind, store, x):
    """D⁻¹ x."""
    if kind == SPHERICAL:
        return times(symmetric_at(store, _D_INV), x)
    return store[_D_INV] * x[0], 0.0, 0.0


@inlined
def _forces(kind, I, x):
    """U x."""
    if kind == SPHERICAL:
        return times(I[0], x), unrotate(I[1], x)
    U = _column(kind, I)
    return along(x[0], U[0], ZERO), along(x[0], U[1], ZERO)


@inlined
def force_passed(tree, tau, still, store, i):
    """What the parent of body i gives it while it does not move, the drive D⁻¹(…) into work."""
    kind, k = tree[i, KIND], tree[i, _V]
    I, zeta, force = mobility_at(store, ARTICULATED), (ZERO, ZERO), (ZERO, ZERO)
    if not still:
        zeta, force = spatial_at(store, _ZETA), spatial_at(store, _OWN)
    force = plus(force, spatial_at(store, GATHERED))
    if kind == SPHERICAL:
        u = sub((tau[k], tau[k + 1], tau[k + 2]), force[0])
    else:
        u = (tau[k] - _axis_part(kind, force), 0.0, 0.0)
    drive = _divided(kind, store, sub(u, _across(kind, I, zeta)))
    put(store, DRIVE, drive)
    return plus(force, plus(mobility_times(I, zeta), _forces(kind, I, drive)))


@inlined
def moved(tree, gravity, still, work, i, qdd):
    """q̈ of a joint and the acceleration of its body, from its parent's and the drive."""
    store, kind, k = work[i], tree[i, KIND], tree[i, _V]
    R, p = placed(store)
    I = mobility_at(store, ARTICULATED)
    a = (ZERO, ZERO)
    if tree[i, PARENT] >= 0 or not still:
        a = _carried(tree[i, PARENT], R, p, gravity, work)
    # the drive has ζ in it already
    x = sub(vector_at(store, DRIVE), _divided(kind, store, _across(kind, I, a)))
    if not still:
        a = plus(a, spatial_at(store, _ZETA))
    if kind == SPHERICAL:
        a = add(a[0], x), a[1]
        for j in range(3):
            qdd[k + j] = x[j]
    else:
        qdd[k] = x[0]
        a = plus(a, _along_joint(tree, qdd, i))
    put(store, ACCELERATION, a[0] + a[1])


@kernel
def responded(tree, tips, ends, gravity, tau, F, still, work, qdd):
    """
    Accelerations q̈ (n,) and of all bodies under torques and forces on the tips.

    After `articulated`. With `still` nothing moves and nothing has weight.

    """
    _push_tips(tips, ends, work, F, -1.0)
    for i in range(len(tree) - 1, -1, -1):
        R, p = placed(work[i])
        _gathered_to_parent(tree, work, i, R, p, force_passed(tree, tau, still, work[i], i))
    for i in range(len(tree)):
        moved(tree, gravity, still, work, i, qdd)


@kernel
def under_torques(integers, numbers, room, q, qd, tau, F, still, qdd):
    """`responded` after `located` and `articulated`, in one call."""
    tree, bodies, tips, ends, gravity, rotors, _, _, _, _, _ = opened(integers, numbers)
    work = opened_room(integers, room)[0][0]
    located(tree, bodies, q, qd, work)
    articulated(tree, bodies, rotors, work)
    responded(tree, tips, ends, gravity, tau, F, still, work, qdd)


@kernel
def mobility(integers, numbers, room, q, M_inv):
    """
    M⁻¹ (n, n): the accelerations of a robot at rest, without weight, under one torque at a time.

    Parameters
    ----------
    q : (nq,)
    M_inv : (n, n), written, symmetric to the last digit

    """
    tree, bodies, tips, ends, gravity, rotors, _, _, _, _, _ = opened(integers, numbers)
    (work, _, _, _, rest, unit, no_force, _), _ = opened_room(integers, room)
    located(tree, bodies, q, rest, work)
    articulated(tree, bodies, rotors, work)
    for i in range(len(unit)):
        unit[i] = 0.0
    for i in range(len(unit)):
        unit[i] = 1.0
        responded(tree, tips, ends, gravity, unit, no_force, True, work, M_inv[i])
        unit[i] = 0.0
        for j in range(i):
            M_inv[i, j] = M_inv[j, i] = 0.5 * (M_inv[i, j] + M_inv[j, i])


@inlined
def _block(row, k):
    """A 6 × 6 matrix as four 3 × 3 ones, by rows."""
    return (matrix_at(row, k), matrix_at(row, k + 9),
            matrix_at(row, k + 18), matrix_at(row, k + 27))


@inlined
def _put_block(matrix, i, j, Y):
    for r in range(3):
        for c in range(3):
            matrix[i + r, j + c] = Y[0][3 * r + c]
            matrix[i + r, j + 3 + c] = Y[1][3 * r + c]
            matrix[i + 3 + r, j + c] = Y[2][3 * r + c]
            matrix[i + 3 + r, j + 3 + c] = Y[3][3 * r + c]


@inlined
def _block_product(X, Y):
    """X Y."""
    return (add_matrix(compose(X[0], Y[0]), compose(X[1], Y[2])),
            add_matrix(compose(X[0], Y[1]), compose(X[1], Y[3])),
            add_matrix(compose(X[2], Y[0]), compose(X[3], Y[2])),
            add_matrix(compose(X[2], Y[1]), compose(X[3], Y[3])))


@inlined
def _block_transposed(X):
    return transpose(X[0]), transpose(X[2]), transpose(X[1]), transpose(X[3])


@inlined
def _columns_shifted(p, a, c):
    """The linear part of columns [a; c] of motions at the point p: c + a × p."""
    return add_matrix(c, transpose(cross_rows(transpose(a), p)))


@inlined
def _row_set(kind, Y, x, y):
    """Y with [x, y] in the row of a joint's one freedom."""
    a, b, c, d = Y
    if kind == PRISMATIC:
        return (a, b, (c[0], c[1], c[2], c[3], c[4], c[5], x[0], x[1], x[2]),
                (d[0], d[1], d[2], d[3], d[4], d[5], y[0], y[1], y[2]))
    return ((a[0], a[1], a[2], a[3], a[4], a[5], x[0], x[1], x[2]),
            (b[0], b[1], b[2], b[3], b[4], b[5], y[0], y[1], y[2]), c, d)


@inlined
def _row(kind, Y):
    """The row of a joint's one freedom."""
    k = 1 if kind == PRISMATIC else 0
    a, b = (Y[2], Y[3]) if k else (Y[0], Y[1])
    return (a[6], a[7], a[8]), (b[6], b[7], b[8])


@inlined
def _yielding(kind, store, I):
    """
    The row that L = 1 - H D⁻¹Uᵀ has in the place of a joint's one freedom.

    Its own entry is what the rotor keeps: without a rotor exactly zero, and not the difference of
    1 and D⁻¹D that costs light bodies their digits.

    """
    U, d, kept = _column(kind, I), store[_D_INV], store[_KEPT]
    x, y = along(-d, U[0], ZERO), along(-d, U[1], ZERO)
    if kind == PRISMATIC:
        return x, (y[0], y[1], kept)
    return (x[0], x[1], kept), y


@inlined
def _yielding_rows(store, I):
    """The three rows of L of a spherical joint, [P, Q]."""
    D_full, kept = full(symmetric_at(store, _D_INV)), vector_at(store, _KEPT)
    P = (D_full[0] * kept[0], D_full[1] * kept[1], D_full[2] * kept[2],
         D_full[3] * kept[0], D_full[4] * kept[1], D_full[5] * kept[2],
         D_full[6] * kept[0], D_full[7] * kept[1], D_full[8] * kept[2])
    DB = compose(D_full, I[1])
    return P, (-DB[0], -DB[1], -DB[2], -DB[3], -DB[4], -DB[5], -DB[6], -DB[7], -DB[8])


@inlined
def _passed_joint(tree, store, i, Y):
    """L X Y: what columns of motions of the parent are beyond a joint that gives way."""
    R, p = placed(store)
    kind, I = tree[i, KIND], mobility_at(store, ARTICULATED)
    Rt = transpose(R)
    Y = (compose(Rt, Y[0]), compose(Rt, Y[1]), compose(Rt, _columns_shifted(p, Y[0], Y[2])),
         compose(Rt, _columns_shifted(p, Y[1], Y[3])))
    if kind == SPHERICAL:
        P, Q = _yielding_rows(store, I)
        return (add_matrix(compose(P, Y[0]), compose(Q, Y[2])),
                add_matrix(compose(P, Y[1]), compose(Q, Y[3])), Y[2], Y[3])
    r = _yielding(kind, store, I)
    return _row_set(kind, Y, add(unrotate(Y[0], r[0]), unrotate(Y[2], r[1])),
                    add(unrotate(Y[1], r[0]), unrotate(Y[3], r[1])))


@inlined
def _to_tip(store, end, Y):
    """Columns of motions of a body, as those of a tip on it, in base axes."""
    R, p = matrix_at(store, _IN_BASE), vector_at(end, 9)
    return (compose(R, Y[0]), compose(R, Y[1]), compose(R, _columns_shifted(p, Y[0], Y[2])),
            compose(R, _columns_shifted(p, Y[1], Y[3])))


@inlined
def _put_pair(Lambda_inv, k, j, Y):
    _put_block(Lambda_inv, 6 * k, 6 * j, Y)
    _put_block(Lambda_inv, 6 * j, 6 * k, _block_transposed(Y))


@inlined
def _freed_column(kind, Y):
    """Y H, for one freedom."""
    a, b, c, d = Y
    if kind == PRISMATIC:
        return (b[2], b[5], b[8]), (d[2], d[5], d[8])
    return (a[2], a[5], a[8]), (c[2], c[5], c[8])


@inlined
def _without_column(Y):
    """Y with zeros in its last column."""
    return Y[0], Y[1], 0.0, Y[3], Y[4], 0.0, Y[6], Y[7], 0.0


@inlined
def _outer_added(Y, x, y):
    """Y + x yᵀ."""
    return (Y[0] + x[0] * y[0], Y[1] + x[0] * y[1], Y[2] + x[0] * y[2],
            Y[3] + x[1] * y[0], Y[4] + x[1] * y[1], Y[5] + x[1] * y[2],
            Y[6] + x[2] * y[0], Y[7] + x[2] * y[1], Y[8] + x[2] * y[2])


@kernel
def extended(tree, ends, paths, starts, common, X, work, Lambda_inv):
    """
    Λ⁻¹ (6 m, 6 m) by extended force propagators (003, table I), after `articulated`.

    Parameters
    ----------
    paths : (Σ d,) int
        The bodies from the base to each tip, one tip after another.
    starts : (m + 1,) int
        Where each tip's begins.
    common : (m, m) int
        How many bodies the paths of two tips have in common.
    X : (Σ d, 36), overwritten
    Lambda_inv : (6 m, 6 m), written

    """
    m = len(ends)
    for k in range(m):
        last = starts[k + 1] - 1
        R, p = matrix_at(work[paths[last]], _IN_BASE), vector_at(ends[k], 9)
        # motions of the body, in its axes, to those of the tip, in base axes
        Rp = cross_rows(R, p)
        reach = (R, ZERO + ZERO + ZERO,
                 (-Rp[0], -Rp[1], -Rp[2], -Rp[3], -Rp[4], -Rp[5], -Rp[6], -Rp[7], -Rp[8]), R)
        for at in range(last, starts[k] - 1, -1):
            i = paths[at]
            store, kind = work[i], tree[i, KIND]
            put(X[at], 0, reach[0] + reach[1] + reach[2] + reach[3])
            if at == starts[k]:
                break
            a, b, c, d = reach
            I = mobility_at(store, ARTICULATED)
            if kind == SPHERICAL:
                P, Q = _yielding_rows(store, I)
                b, d = add_matrix(b, compose(a, Q)), add_matrix(d, compose(c, Q))
                a, c = compose(a, P), compose(c, P)
            else:
                r = _yielding(kind, store, I)
                x, y = _freed_column(kind, reach)
                if kind == PRISMATIC:
                    b, d = _without_column(b), _without_column(d)
                else:
                    a, c = _without_column(a), _without_column(c)
                a, b = _outer_added(a, x, r[0]), _outer_added(b, x, r[1])
                c, d = _outer_added(c, y, r[0]), _outer_added(d, y, r[1])
            R, p = placed(store)
            Rt = transpose(R)
            b, d = compose(b, Rt), compose(d, Rt)
            a = sub_matrix(compose(a, Rt), cross_rows(b, p))
            c = sub_matrix(compose(c, Rt), cross_rows(d, p))
            reach = (a, b, c, d)
    for k in range(m):
        zero = ZERO + ZERO + ZERO
        Y = (zero, zero, zero, zero)
        for j in range(k):
            if common[j, k] == 0:
                _put_pair(Lambda_inv, j, k, Y)
        for at in range(starts[k], starts[k + 1]):
            i = paths[at]
            store, kind = work[i], tree[i, KIND]
            if at > starts[k]:
                Y = _passed_joint(tree, store, i, Y)
            reach = _block(X[at], 0)
            if kind == SPHERICAL:
                D_full = full(symmetric_at(store, _D_INV))
                Y = (add_matrix(Y[0], compose(D_full, transpose(reach[0]))),
                     add_matrix(Y[1], compose(D_full, transpose(reach[2]))), Y[2], Y[3])
            else:
                (x, y), own = _freed_column(kind, reach), _row(kind, Y)
                w = store[_D_INV]
                Y = _row_set(kind, Y, along(w, x, own[0]), along(w, y, own[1]))
            for j in range(k):
                if common[j, k] == at - starts[k] + 1:
                    there = starts[j] + at - starts[k]
                    _put_pair(Lambda_inv, j, k, _block_product(_block(X[there], 0), Y))
        Y = _to_tip(work[paths[starts[k + 1] - 1]], ends[k], Y)
        _put_block(Lambda_inv, 6 * k, 6 * k, Y)
        for r in range(6 * k, 6 * k + 6):
            for other in range(6 * k, r):
                mean = 0.5 * (Lambda_inv[r, other] + Lambda_inv[other, r])
                Lambda_inv[r, other] = Lambda_inv[other, r] = mean


@inlined
def beyond_joint(tree, store, i, Y):
    """Ω of a body: L Y Lᵀ + H D⁻¹Hᵀ, for Y = X Ω Xᵀ of its parent."""
    kind, I = tree[i, KIND], mobility_at(store, ARTICULATED)
    A, B, C = Y
    if kind == SPHERICAL:
        P, Q = _yielding_rows(store, I)
        top = add_matrix(compose(P, full(A)), compose(Q, transpose(B)))
        side = add_matrix(compose(P, B), compose(Q, full(C)))
        own = add_matrix(compose(top, transpose(P)), compose(side, transpose(Q)))
        return add_symmetric(symmetric_at(store, _D_INV), upper(own)), side, C
    r = _yielding(kind, store, I)
    x, y = mobility_times(Y, r)
    own = dot(r[0], x) + dot(r[1], y) + store[_D_INV]
    if kind == PRISMATIC:
        return (A, (B[0], B[1], x[0], B[3], B[4], x[1], B[6], B[7], x[2]),
                (C[0], C[1], y[0], C[3], y[1], own))
    return ((A[0], A[1], x[0], A[3], x[1], own),
            (B[0], B[1], B[2], B[3], B[4], B[5], y[0], y[1], y[2]), C)


@inlined
def put_tip_mobility(store, end, k, Lambda_inv):
    """Ω of a body, shifted to the tip on it and turned to base axes, on the diagonal of Λ⁻¹."""
    A, B, C = mobility_unrotated(
        transpose(matrix_at(store, _IN_BASE)),
        mobility_shifted(vector_at(end, 9), mobility_at(store, OMEGA)))
    _put_block(Lambda_inv, k, k, (full(A), B, transpose(B), full(C)))


@kernel
def propagated(tree, ends, paths, starts, common, carriers, work, Lambda_inv):
    """
    Λ⁻¹ (6 m, 6 m) by propagation of mobilities (RJKA; 002, eq. 58), after `articulated`.

    Parameters
    ----------
    carriers : (c,) int
        The bodies that carry a tip, each once, parents first; the others as in `extended`.

    """
    for at in range(len(carriers)):
        i = carriers[at]
        store, parent = work[i], tree[i, PARENT]
        carried = (ZERO + ZERO, ZERO + ZERO + ZERO, ZERO + ZERO)
        if parent >= 0:
            R, p = placed(store)
            carried = mobility_unrotated(
                R, mobility_shifted(p, mobility_at(work[parent], OMEGA)))
        Omega = beyond_joint(tree, store, i, carried)
        put(store, OMEGA, Omega[0] + Omega[1] + Omega[2])
    for k in range(len(ends)):
        store = work[paths[starts[k + 1] - 1]]
        put_tip_mobility(store, ends[k], 6 * k, Lambda_inv)
        for j in range(k):
            zero = ZERO + ZERO + ZERO
            Y = (zero, zero, zero, zero)
            if common[j, k] > 0:
                A, B, C = mobility_at(work[paths[starts[j] + common[j, k] - 1]], OMEGA)
                Y = (full(A), B, transpose(B), full(C))
                for at in range(starts[j] + common[j, k], starts[j + 1]):
                    Y = _passed_joint(tree, work[paths[at]], paths[at], Y)
                Y = _block_transposed(_to_tip(work[paths[starts[j + 1] - 1]], ends[j], Y))
                for at in range(starts[k] + common[j, k], starts[k + 1]):
                    Y = _passed_joint(tree, work[paths[at]], paths[at], Y)
                Y = _to_tip(store, ends[k], Y)
            _put_pair(Lambda_inv, k, j, Y)


@inlined
def _columns(kind):
    return 3 if kind == SPHERICAL else 1


@inlined
def _axis(kind, c):
    """Column c of H."""
    if kind == PRISMATIC:
        return ZERO, (0.0, 0.0, 1.0)
    if kind == REVOLUTE or c == 2:
        return (0.0, 0.0, 1.0), ZERO
    return (1.0 - c, 1.0 * c, 0.0), ZERO


@inlined
def _joint_part(kind, f, c):
    """Hᵀ f in place c."""
    if kind == SPHERICAL:
        return f[0][0] if c == 0 else f[0][1] if c == 1 else f[0][2]
    return _axis_part(kind, f)


@kernel
def factored(tree, bodies, rotors, before, work, M):
    """
    L, with M = LᵀL, in the lower half of M (n, n): composite bodies, and no fill-in.

    Parameters
    ----------
    before : (n,) int
        The freedom that each one hangs from; -1 is none.

    """
    for i in range(len(tree)):
        for k in range(10):
            work[i, ARTICULATED + k] = bodies[i, _MASS + k]
    for i in range(len(tree) - 1, -1, -1):
        store, kind, parent = work[i], tree[i, KIND], tree[i, PARENT]
        m, mc = store[ARTICULATED], vector_at(store, ARTICULATED + 1)
        I = symmetric_at(store, ARTICULATED + 4)
        for c in range(_columns(kind)):
            H = _axis(kind, c)
            f = (add(times(I, H[0]), cross(mc, H[1])), along(m, H[1], cross(H[0], mc)))
            row = tree[i, _V] + c
            for k in range(c + 1):
                M[row, tree[i, _V] + k] = _joint_part(kind, f, k)
            M[row, row] += rotors[row]
            j = i
            while tree[j, PARENT] >= 0:
                R, p = placed(work[j])
                f = force_to_parent(R, p, f)
                j = tree[j, PARENT]
                for k in range(_columns(tree[j, KIND])):
                    M[row, tree[j, _V] + k] = _joint_part(tree[j, KIND], f, k)
        if parent >= 0:
            R, p = placed(store)
            turned, mc = compose(R, compose(full(I), transpose(R))), rotate(R, mc)
            # Steiner, for a point p away from an origin that is mc / m from the centre of mass
            x, pc, mp = 2.0 * dot(p, mc) + m * dot(p, p), mc, along(m, p, ZERO)
            outer = work[parent]
            put(outer, ARTICULATED + 4, (
                outer[ARTICULATED + 4] + turned[0] + x - 2.0 * p[0] * pc[0] - p[0] * mp[0],
                outer[ARTICULATED + 5] + turned[1] - p[0] * pc[1] - pc[0] * p[1] - p[0] * mp[1],
                outer[ARTICULATED + 6] + turned[2] - p[0] * pc[2] - pc[0] * p[2] - p[0] * mp[2],
                outer[ARTICULATED + 7] + turned[4] + x - 2.0 * p[1] * pc[1] - p[1] * mp[1],
                outer[ARTICULATED + 8] + turned[5] - p[1] * pc[2] - pc[1] * p[2] - p[1] * mp[2],
                outer[ARTICULATED + 9] + turned[8] + x - 2.0 * p[2] * pc[2] - p[2] * mp[2]))
            outer[ARTICULATED] += m
            for k in range(3):
                outer[ARTICULATED + 1 + k] += mc[k] + mp[k]
    for k in range(len(M) - 1, -1, -1):
        M[k, k] = np.sqrt(M[k, k])
        i = before[k]
        while i >= 0:
            M[k, i] /= M[k, k]
            i = before[i]
        i = before[k]
        while i >= 0:
            j = i
            while j >= 0:
                M[i, j] -= M[k, i] * M[k, j]
                j = before[j]
            i = before[i]


@kernel
def solved_by_factors(L, before, x):
    """x becomes M⁻¹ x = L⁻¹ L⁻ᵀ x (n,)."""
    for i in range(len(x) - 1, -1, -1):
        x[i] /= L[i, i]
        j = before[i]
        while j >= 0:
            x[j] -= L[i, j] * x[i]
            j = before[j]
    for i in range(len(x)):
        j = before[i]
        while j >= 0:
            x[i] -= L[i, j] * x[j]
            j = before[j]
        x[i] /= L[i, i]


@kernel
def squared(tree, paths, starts, common, before, L, Y, Lambda_inv):
    """Λ⁻¹ = Y Yᵀ with Y = J L⁻¹, in place of the J (6 m, n) that Y holds."""
    m = len(starts) - 1
    for k in range(m):
        body = paths[starts[k + 1] - 1]
        last = tree[body, _V] + _columns(tree[body, KIND]) - 1
        for r in range(6 * k, 6 * k + 6):
            i = last
            while i >= 0:
                Y[r, i] /= L[i, i]
                j = before[i]
                while j >= 0:
                    Y[r, j] -= L[i, j] * Y[r, i]
                    j = before[j]
                i = before[i]
        for j in range(k + 1):
            last = -1
            if common[j, k] > 0:
                body = paths[starts[j] + common[j, k] - 1]
                last = tree[body, _V] + _columns(tree[body, KIND]) - 1
            for r in range(6 * k, 6 * k + 6):
                for c in range(6 * j, min(6 * j + 6, r + 1)):
                    total = 0.0
                    i = last
                    while i >= 0:
                        total += Y[r, i] * Y[c, i]
                        i = before[i]
                    Lambda_inv[r, c] = Lambda_inv[c, r] = total


@kernel
def jacobian(tree, ends, paths, starts, work, J):
    """
    Natural Jacobian of the tips, base axes, [angular; linear], after `located`.

    Parameters
    ----------
    J : (6 m, n), written

    """
    J[:] = 0.0
    for k in range(len(ends)):
        store = work[paths[starts[k + 1] - 1]]
        R, p = matrix_at(store, _IN_BASE), vector_at(store, _IN_BASE + 9)
        p_tip = add(p, rotate(R, vector_at(ends[k], 9)))
        for at in range(starts[k], starts[k + 1]):
            i = paths[at]
            R, p = matrix_at(work[i], _IN_BASE), vector_at(work[i], _IN_BASE + 9)
            for c in range(_columns(tree[i, KIND])):
                angular, linear = _axis(tree[i, KIND], c)
                angular = rotate(R, angular)
                linear = add(rotate(R, linear), cross(angular, sub(p_tip, p)))
                for r in range(3):
                    J[6 * k + r, tree[i, _V] + c] = angular[r]
                    J[6 * k + 3 + r, tree[i, _V] + c] = linear[r]


@inlined
def read_tips(tips, ends, gravity, work, a0, poses, twists):
    for k in range(len(tips)):
        store = work[tips[k]]
        R, p = matrix_at(store, _IN_BASE), vector_at(ends[k], 9)
        v, a = spatial_at(store, _VELOCITY), spatial_at(store, ACCELERATION)
        v = rotate(R, v[0]), rotate(R, add(v[1], cross(v[0], p)))
        a = rotate(R, a[0]), rotate(R, add(a[1], cross(a[0], p)))
        put(a0, 6 * k, a[0])
        put(a0, 6 * k + 3, add(add(a[1], cross(v[0], v[1])), gravity))
        put(twists, 6 * k, v[0] + v[1])
        T = compose(R, matrix_at(ends[k], 0))
        x = add(vector_at(store, _IN_BASE + 9), rotate(R, p))
        put(poses[k], 0, (T[0], T[1], T[2], x[0], T[3], T[4], T[5], x[1],
                          T[6], T[7], T[8], x[2], 0.0, 0.0, 0.0, 1.0))


@inlined
def add_response(tips, ends, work, a0):
    for k in range(len(tips)):
        store = work[tips[k]]
        R, p = matrix_at(store, _IN_BASE), vector_at(ends[k], 9)
        a = spatial_at(store, ACCELERATION)
        more = rotate(R, a[0]) + rotate(R, add(a[1], cross(a[0], p)))
        for r in range(6):
            a0[6 * k + r] += more[r]


@kernel
def outward(integers, numbers, room, q, qd, tau, qdd):
    """
    Everything that the tips need to know.

    Parameters
    ----------
    integers, numbers, room : arrays
        As `packed` and `opened_room` tell.
    q, qd : (nq,), (n,)
    tau, qdd : (n,) or (0,)
        Joint torques τ⁰ [N·m]; posture acceleration [rad/s²], whose inverse dynamics is then τ⁰,
        beside tau. Of no length: none.

    Returns
    -------
    DONE, or WRONG_SHAPE (nothing written), or NOT_FINITE

    """
    (tree, bodies, tips, ends, gravity, rotors, paths, starts, common, carriers,
     before) = opened(integers, numbers)
    (work, X, M, Y, rest, driven, no_force, _), results = opened_room(integers, room)
    Lambda_inv, a0, poses, twists, _ = results
    n, algorithm = len(rotors), integers[5]
    width = len(tree) + 3 * (n - len(tree)) // 2
    if (len(q) != width or len(qd) != n or not (len(tau) == n or len(tau) == 0)
            or not (len(qdd) == n or len(qdd) == 0)):
        return WRONG_SHAPE
    weight = vector_at(gravity, 0)
    located(tree, bodies, q, qd, work)
    if algorithm == FACTORED:
        accelerated(tree, bodies, gravity, qdd if len(qdd) > 0 else rest, work)
        read_tips(tips, ends, weight, work, a0, poses, twists)
        factored(tree, bodies, rotors, before, work, M)
        jacobian(tree, ends, paths, starts, work, Y)
        if len(qdd) == 0 or len(tau) > 0:
            for k in range(n):
                driven[k] = 0.0
            if len(qdd) == 0:
                inward(tree, tips, ends, rotors, tau[:0], rest, no_force, work, driven)
            for k in range(n):
                driven[k] = (tau[k] if len(tau) > 0 else 0.0) - driven[k]
            solved_by_factors(M, before, driven)
            for r in range(len(a0)):
                for k in range(n):
                    a0[r] += Y[r, k] * driven[k]
        squared(tree, paths, starts, common, before, M, Y, Lambda_inv)
    else:
        articulated(tree, bodies, rotors, work)
        if len(qdd) > 0:
            accelerated(tree, bodies, gravity, qdd, work)
            read_tips(tips, ends, weight, work, a0, poses, twists)
            if len(tau) > 0:
                responded(tree, tips, ends, gravity, tau, no_force, True, work, driven)
                add_response(tips, ends, work, a0)
        else:
            responded(tree, tips, ends, gravity, tau if len(tau) > 0 else rest, no_force, False,
                      work, driven)
            read_tips(tips, ends, weight, work, a0, poses, twists)
        if algorithm == EXTENDED:
            extended(tree, ends, paths, starts, common, X, work, Lambda_inv)
        else:
            propagated(tree, ends, paths, starts, common, carriers, work, Lambda_inv)
    finite = all_finite(a0) and all_finite(Lambda_inv.ravel()) and all_finite(twists)
    # what is off the paths need not show at the tips
    given = all_finite(q) and all_finite(qd) and all_finite(tau) and all_finite(qdd)
    return DONE if finite and given and all_finite(poses.ravel()) else NOT_FINITE


@kernel
def law(integers, numbers, room, q, qd, u, tau, qdd, out):
    """
    Joint torques τ = τ⁰ + JᵀΛ(u - a⁰): `outward`, the task force and `inward` in one call.

    Parameters
    ----------
    u : (6 m,)
        Commanded accelerations of the tips, base axes, [angular; linear] [rad/s², m/s²].
    out : (n,), written [N·m]

    Returns
    -------
    DONE, or WRONG_SHAPE (nothing written), or NOT_FINITE

    """
    tree, _, tips, ends, _, rotors, _, _, _, _, _ = opened(integers, numbers)
    (work, _, _, _, _, _, _, scratch), (Lambda_inv, a0, _, _, F) = opened_room(integers, room)
    if len(u) != len(a0) or len(out) != len(rotors):
        return WRONG_SHAPE
    status = outward(integers, numbers, room, q, qd, tau, qdd)
    if status != DONE:
        return status
    m, flat = len(a0), Lambda_inv.ravel()
    A, r = scratch[:m * m], scratch[2 * m * m:2 * m * m + m]
    for k in range(m * m):
        A[k] = flat[k]
    for k in range(m):
        F[k] = r[k] = u[k] - a0[k]
    if not solved(A, F, m) > EXACT_HIGH:
        applied_pseudo_inverse(flat, r, scratch, F, m)
    inward(tree, tips, ends, rotors, tau, qdd, F, work, out)
    return DONE if all_finite(out) else NOT_FINITE


@kernel
def torques(integers, numbers, room, tau, qdd, F, out):
    """`inward`, from what is packed."""
    tree, _, tips, ends, _, rotors, _, _, _, _, _ = opened(integers, numbers)
    inward(tree, tips, ends, rotors, tau, qdd, F, opened_room(integers, room)[0][0], out)


@kernel
def motions(integers, numbers, room, J):
    """`jacobian`, from what is packed."""
    tree, _, _, ends, _, _, paths, starts, _, _, _ = opened(integers, numbers)
    jacobian(tree, ends, paths, starts, opened_room(integers, room)[0][0], J)


@kernel
def acceleration_response(integers, numbers, room, tau, F, qdd):
    """
    M⁻¹(τ + JᵀF) from the factors that `outward` left.

    Parameters
    ----------
    tau : (n,)
        Joint torques [N·m].
    F : (6 m,)
        Forces on the tips, base axes, [moment; force] [N·m, N].
    qdd : (n,), written [rad/s²]

    """
    (tree, _, tips, ends, gravity, rotors, _, _, _, _, before) = opened(integers, numbers)
    (work, _, M, _, _, _, _, _), _ = opened_room(integers, room)
    if integers[5] == FACTORED:
        inward(tree, tips, ends, rotors, tau, tau[:0], F, work, qdd)
        solved_by_factors(M, before, qdd)
    else:
        responded(tree, tips, ends, gravity, tau, F, True, work, qdd)


@kernel
def inverse_mass_matrix(integers, numbers, room, M_inv):
    """M⁻¹ (n, n) from the factors that `outward` left, symmetric to the last bit."""
    (tree, _, tips, ends, gravity, _, _, _, _, _, before) = opened(integers, numbers)
    (work, _, M, _, _, unit, no_force, _), _ = opened_room(integers, room)
    for i in range(len(unit)):
        unit[i] = 0.0
    for i in range(len(unit)):
        unit[i] = 1.0
        if integers[5] == FACTORED:
            for k in range(len(unit)):
                M_inv[i, k] = unit[k]
            solved_by_factors(M, before, M_inv[i])
        else:
            responded(tree, tips, ends, gravity, unit, no_force, True, work, M_inv[i])
        unit[i] = 0.0
        for j in range(i):
            M_inv[i, j] = M_inv[j, i] = 0.5 * (M_inv[i, j] + M_inv[j, i])


@released
def evaluations(integers, numbers, room, q, qd, poses, twists, J, Jdot_qd, h, Lambda_inv, Lambda):
    """
    The terms of the law at k states, one after the other; those of one tip have no axis for it.

    Parameters
    ----------
    q, qd : (k, nq), (k, n)
    poses, twists, J, Jdot_qd, h, Lambda_inv, Lambda : written
        (k, m, 4, 4), (k, 6 m), (k, 6 m, n), (k, 6 m), (k, n), (k, 6 m, 6 m), (k, 6 m, 6 m).

    """
    tree, _, tips, ends, _, rotors, paths, starts, _, _, _ = opened(integers, numbers)
    (work, _, _, _, rest, _, no_force, scratch), results = opened_room(integers, room)
    for k in range(len(q)):
        outward(integers, numbers, room, q[k], qd[k], rest[:0], rest)
        for i in range(len(results[1])):
            Jdot_qd[k, i], twists[k, i] = results[1][i], results[3][i]
            for j in range(len(results[1])):
                Lambda_inv[k, i, j] = results[0][i, j]
        for tip in range(len(tips)):
            for i in range(4):
                for j in range(4):
                    poses[k, tip, i, j] = results[2][tip, 4 * i + j]
        pseudo_inverse(results[0].ravel(), scratch, Lambda[k], len(results[1]))
        jacobian(tree, ends, paths, starts, work, J[k])
        inward(tree, tips, ends, rotors, rest[:0], rest, no_force, work, h[k])


class Articulated:
    """
    Inverse and forward dynamics and M⁻¹ of one robot, with the memory that they take.

    Not to be shared between threads.

    Parameters
    ----------
    robot : Robot
    algorithm : EXTENDED, PROPAGATED or FACTORED
        What else there is to be memory for.

    """

    def __init__(self, robot: Robot, algorithm: int = PROPAGATED) -> None:
        _compile_articulated()
        self.robot = robot
        self._integers, self._numbers = packed(robot, algorithm)
        self._room = room_for(self._integers)
        self._constants = plain(opened)(self._integers, self._numbers)
        self._memory, self._results = plain(opened_room)(self._integers, self._room)
        self.gravity: Array = self._constants[4]
        self._rest: Array = self._memory[4]

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """What the kernels of this module are handed first: integers, numbers and room."""
        return self._integers, self._numbers, self._room

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques and forces on the tips."""
        return self._accelerations(q, qd, tau, F, still=False)

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Joint torques M q̈ + C + G (n,)."""
        tau = np.empty(self.robot.n)
        inverse_dynamics(self._integers, self._numbers, self._room, ready(q), ready(qd),
                         ready(qdd), tau)
        return tau

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""
        return self.response(q, x, self._memory[6])

    def response(self, q: Array, tau: Array, F: Array) -> Array:
        """M⁻¹ (τ + JᵀF) (n,): what torques and forces on the tips add to the accelerations."""
        return self._accelerations(q, self._rest, tau, F, still=True)

    def M_inv(self, q: Array, out: Array) -> Array:
        """M⁻¹ (n, n), into out."""
        mobility(self._integers, self._numbers, self._room, q, out)
        return out

    def _accelerations(self, q: Array, qd: Array, tau: Array, F: Array, still: bool) -> Array:
        qdd = np.empty(self.robot.n)
        under_torques(self._integers, self._numbers, self._room, q, qd, tau, F, still, qdd)
        return qdd


class Tree(Articulated, Method):
    """
    The kernels on one robot, with the memory that they work in.

    The contract is that of `osc_ros.dynamics.chain.sweep.Sweep`, for m tips: Λ⁻¹ (6 m, 6 m), a⁰
    and the twists (6 m,), the poses (m, 4, 4), or (4, 4) for one tip. Not to be shared between
    threads.

    Parameters
    ----------
    robot : Robot
    algorithm : EXTENDED, PROPAGATED or FACTORED

    """

    def __init__(self, robot: Robot, algorithm: int) -> None:
        super().__init__(robot, algorithm)
        _compile()
        self._none = np.empty(0)
        self.Lambda_inv, self.a0, poses, self.twist, _ = self._results
        self.pose: Array = poses.reshape(-1, 4, 4) if len(poses) > 1 else poses.reshape(4, 4)

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Joint torques of the law into out; DONE, WRONG_SHAPE or NOT_FINITE."""
        if not self._fit(tau, qdd):
            return WRONG_SHAPE
        return int(law(self._integers, self._numbers, self._room, q, qd, u, self._tau, self._qdd,
                       out))

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Λ⁻¹, a⁰, pose and twist under τ⁰; DONE, WRONG_SHAPE or NOT_FINITE."""
        if not self._fit(tau, qdd):
            return WRONG_SHAPE
        return int(outward(self._integers, self._numbers, self._room, q, qd, self._tau,
                           self._qdd))

    def _fit(self, tau: Array | None, qdd: Array | None) -> bool:
        """Keep τ⁰; to the kernels one of no length is none."""
        self._tau = self._none if tau is None else tau
        self._qdd = self._none if qdd is None else qdd
        n = self._rest.shape
        return (tau is None or tau.shape == n) and (qdd is None or qdd.shape == n)

    def inward(self, F: Array, out: Array) -> None:
        """Joint torques τ⁰ + JᵀF into out, for the τ⁰ of the last `outward`."""
        torques(self._integers, self._numbers, self._room, self._tau, self._qdd, F, out)

    def jacobian(self, out: Array) -> None:
        """J (6 m, n) at the last `outward`, into out."""
        motions(self._integers, self._numbers, self._room, out)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """M⁻¹(τ + JᵀF) (n,) at the last `outward`, into out [rad/s²]."""
        acceleration_response(self._integers, self._numbers, self._room, tau, F, out)

    def inverse_mass_matrix(self, out: Array) -> None:
        """M⁻¹ (n, n) at the last `outward`, into out."""
        inverse_mass_matrix(self._integers, self._numbers, self._room, out)

    def evaluate_batch(self, q: Array, qd: Array) -> Terms:
        """Terms at k states, q (k, nq) and qd (k, n), on all cores."""
        found = Terms.empty(self.robot, len(q))
        poses = found.pose.reshape(len(q), len(self.robot.tips), 4, 4)

        def part(first: int, last: int) -> None:
            evaluations(self._integers, self._numbers, room_for(self._integers), q[first:last],
                        qd[first:last], *(values[first:last] for values in (poses, *found[1:])))

        on_all_cores(len(q), part)
        return found


def packed(robot: Robot, algorithm: int) -> tuple[Array, Array]:
    """Integers and numbers of the robot that `opened` tells of, each in one array."""
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
    ways = []
    for tip in tips.tolist():
        way = [tip]
        while robot.parent[way[-1]] >= 0:
            way.append(int(robot.parent[way[-1]]))
        ways.append(way[::-1])
    starts = np.cumsum([0, *map(len, ways)])
    common = np.array([[int(np.count_nonzero(
        np.equal(one[:min(len(one), len(other))], other[:min(len(one), len(other))])))
        for other in ways] for one in ways]).reshape(m, m)
    before = np.arange(-1, robot.n - 1)
    ends_at = robot.v_index + np.where(robot.spherical, 3, 1) - 1
    before[robot.v_index] = np.where(robot.parent < 0, -1, ends_at[robot.parent])
    on_paths = np.concatenate(ways)
    carriers = np.unique(on_paths)
    sizes = (b, m, robot.n, len(on_paths), len(carriers), algorithm)
    integers = (sizes, tree, tips, on_paths, starts, common, carriers, before)
    numbers = (bodies, ends, robot.gravity, robot.rotor_inertia)
    return (np.concatenate([np.ravel(x) for x in integers]).astype(np.int64),
            np.concatenate([np.ravel(x) for x in numbers]).astype(np.float64))


def room_for(integers: Array) -> Array:
    """Room that `opened_room` divides."""
    b, tips, n, paths, _, algorithm = integers[:_SIZES].tolist()
    m = 6 * tips
    steps = paths if algorithm == EXTENDED else 0
    factors = n * (n + m) if algorithm == FACTORED else 0
    return np.zeros(WORK_WIDTH * b + 36 * steps + factors + 2 * n + m + 2 * m * (m + 1) + m * m
                    + 3 * m + 16 * tips)


def pendulum() -> Robot:
    """The least robot, to compile the kernels for."""
    one = np.eye(4)
    return Robot(
        name='', base='', tips=('tip',), joints=('joint',), parent=np.array([-1]),
        prismatic=np.array([False]), spherical=np.array([False]), T_parent_body=one[None],
        inertia=np.eye(6)[None], rotor_inertia=np.zeros(1), position_limits=np.array([[-1, 1]]),
        velocity_limits=np.ones(1), effort_limits=np.ones(1), gravity=np.zeros(3),
        frames={'tip': (0, one)})


@cache
def _compile_articulated() -> None:
    """Compile or load the kernels of `Articulated`, once a process, and let no other use in."""
    integers, numbers = packed(pendulum(), FACTORED)
    room, x, u = room_for(integers), np.zeros(1), np.zeros(6)
    under_torques(integers, numbers, room, x, x, x, u, True, x.copy())
    mobility(integers, numbers, room, x, np.zeros((1, 1)))
    inverse_dynamics(integers, numbers, room, x, x, x, x.copy())
    for one_kernel in (under_torques, mobility, inverse_dynamics):
        one_kernel.disable_compile()


@cache
def _compile() -> None:
    """Compile or load the other kernels, once a process, and let no other use in."""
    integers, numbers = packed(pendulum(), FACTORED)
    room, x, u, J = room_for(integers), np.zeros(1), np.zeros(6), np.zeros((6, 1))
    law(integers, numbers, room, x, x, u, x, x, x)
    outward(integers, numbers, room, x, x, x, x)
    torques(integers, numbers, room, x, x, u, x)
    motions(integers, numbers, room, J)
    acceleration_response(integers, numbers, room, x, u, x.copy())
    inverse_mass_matrix(integers, numbers, room, np.zeros((1, 1)))
    X, Y, Z = np.zeros((1, 1)), np.zeros((1, 6)), np.zeros((1, 6, 6))
    evaluations(integers, numbers, room, X, X, np.zeros((1, 1, 4, 4)), Y, Z[:, :, :1].copy(), Y, X,
                Z, Z)
    for one_kernel in (law, outward, torques, motions, acceleration_response, inverse_mass_matrix,
                       evaluations):
        one_kernel.disable_compile()
