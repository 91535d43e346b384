# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The acceleration within all limits that is nearest to the law's, and its torque.

Three kinds of quantities have bounds: the accelerations of the joints, their torques M q̈ + h, and
the second derivatives of their gravity loads (`osc_ros.control.limits.load`). With x = q̈ -
q̈_law, the acceleration minimizes

    xᵀ M x + Σ (Jᵢ x)ᵀ Wᵢ (Jᵢ x) / YIELDING¹⁻ⁱ

within the bounds. The first term is Gauss's principle of least constraint. The second term is the
loss of acceleration of the tasks; i is 0 for the task of highest priority, 1 for the next, and so
on. The weight of a task does not depend on those below it, so a task that is added with activation
0 changes nothing.

For a task shaped as a linear system Wᵢ is diag(ℓ², ℓ², ℓ², 1, 1, 1) times a mass: the arm comes to
rest at a local minimum of the pose error within the bounds, where 1 rad counts like the length ℓ.
For a spring Wᵢ is Λᵢ: the arm comes to rest at a local minimum of the spring's energy.

Every bound may be violated at a high cost, which is highest for the torques. So the problem is
strictly convex even if the bounds contradict each other, and its unique solution is continuous in
all inputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.control.limits.complementarity import nearest_within, put_inverse
from osc_ros.dynamics.priority import level_row

Array = NDArray[np.float64]

# Weight of a loss of acceleration of the posture relative to the same loss of the task of highest
# priority, and of each task relative to the task of the next higher priority. The smaller it is,
# the faster the arm moves joints that contribute little to a task.
YIELDING = 0.04
# Softness of the bounds of loads, accelerations and torques, relative to the mobility along them.
# If bounds contradict each other, those of loads are violated first, those of torques last.
SOFT_LOAD, SOFT_ACCELERATION, SOFT_TORQUE = 1e-3, 1e-5, 1e-7
# While limits change the torques of the law, nullspace damping replaces the posture: its rate
# [1/s], and the time in which it fades in or out [s].
CALM, CALMING = 20.0, 0.1
_LEAST = 1e-12  # least softness of the bound of a load, for loads that hardly depend on q


@inlined
def _add_resistance(J, M_inv, Lambda, yields, length, yielding, chosen, A, X, there, B):
    """
    Add the weight of one task's loss: B += Jᵀ (Λ⁻¹ + yielding W⁻¹)⁻¹ J, with J (6, n).

    With C = W⁻¹ the matrix in the middle is C^-½ (1 - (1 + yielding C^½ Λ C^½)⁻¹) C^-½ / yielding.
    This form does not need Λ⁻¹, which is infinite in directions that the task does not control.
    `yields` is true for a spring (W = Λ).

    """
    n = J.shape[1]
    mobility = 0.0
    for a in range(6):
        unit = 1.0 if a < 3 else 1.0 / length
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += J[a, j] * M_inv[j, i]
            mobility += unit * unit * total * J[a, i] / 6.0
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else length) * (1.0 if b < 3 else length)
            A[a, b] = 1.0 if a == b else 0.0
            A[a, b] += yielding * mobility * units * Lambda[a, b]
    is_spring = yields or not mobility > 0.0
    if not is_spring:
        put_inverse(A, chosen, there[:, :6], X)
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else length) * (1.0 if b < 3 else length)
            if is_spring:
                A[a, b] = Lambda[a, b] / (1.0 + yielding)
            else:
                A[a, b] = ((1.0 if a == b else 0.0) - X[a, b]) / (yielding * mobility * units)
    for a in range(6):
        for i in range(n):
            there[a, i] = 0.0
            for b in range(6):
                there[a, i] += A[a, b] * J[b, i]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for a in range(6):
                total += J[a, i] * there[a, j] + J[a, j] * there[a, i]
            B[i, j] += 0.5 * total
            if i != j:
                B[j, i] += 0.5 * total


@inlined
def _put_mobility(M, M_inv, B, there, rows, count, G):
    """
    Write G = C K Cᵀ with C = [1; M; rows] and K = M⁻¹ - M⁻¹ B M⁻¹; `there` is M⁻¹ B.

    G is the response of the bounded quantities to the multipliers of their bounds. The softness of
    the bounds is added to its diagonal, except for loads.

    """
    n = len(M)
    for i in range(n):
        for j in range(n):
            G[i, n + j] = G[n + j, i] = (1.0 if i == j else 0.0) - there[i, j]
            G[n + i, n + j] = M[i, j] - B[i, j]
    for i in range(n):
        for j in range(i + 1):
            total = M_inv[i, j]
            for k in range(n):
                total -= 0.5 * (there[i, k] * M_inv[k, j] + there[j, k] * M_inv[k, i])
            G[i, j] = G[j, i] = total
    for k in range(count):
        for i in range(2 * n):
            total = 0.0
            for j in range(n):
                total += G[i, j] * rows[k, j]
            G[i, 2 * n + k] = G[2 * n + k, i] = total
    for k in range(count):
        for m in range(count):
            total = 0.0
            for j in range(n):
                total += rows[m, j] * G[j, 2 * n + k]
            G[2 * n + k, 2 * n + m] = total
    for i in range(n):
        G[i, i] += SOFT_ACCELERATION * M_inv[i, i]
        G[n + i, n + i] += SOFT_TORQUE * M[i, i]


@inlined
def _soften_loads(M_inv, rows, joints, count, G):
    """Add the softness of the bounds of loads to the diagonal of G."""
    n = len(M_inv)
    for k in range(count):
        total = 0.0
        for i in range(n):
            for j in range(n):
                total += rows[k, i] * M_inv[i, j] * rows[k, j]
        # at the threshold HEAVY a bound is softer than the tasks, so it takes effect smoothly
        firm = max(joints[k, 1], 1e-2)
        G[2 * n + k, 2 * n + k] += SOFT_LOAD / (firm * firm * firm * firm) * total + _LEAST


@inlined
def _excess(value, lower, upper, unit):
    """Distance of a value beyond its bounds, divided by `unit`; negative between them."""
    return max(value - upper, lower - value) / unit


def room_size(n: int) -> int:
    """Length of the buffer for `torques_within`, for n joints."""
    return 4 * n * n + 18 * n * n + 6 * max(n, 6) + 72 + 17 * n


@kernel
def torques_within(M_inv, J, inertias, levels, length, qd, qdd, lower, upper, effort, deceleration,
                   rows, most, joints, window, guided, count, dt, calm, sides, chosen, room, tau,
                   shares):
    """
    Overwrite the torques of the law with the nearest torques within all limits except rates.

    Parameters
    ----------
    M_inv : (n, n)
    J, inertias : (6 k, n), (k, 6, 6)
        Jacobians and inertias of the tasks by solve, see
        `osc_ros.dynamics.priority.priority.Room`.
    levels : (l, WIDTH)
        `Priorities.rows`; k is a multiple of l.
    length : float
        Length [m] that weights a rotation of 1 rad like a translation.
    qd, qdd : (n,)
        Joint velocities; accelerations of the law.
    lower, upper : (n,)
        Bounds of the accelerations. They are widened where the effort limits make them
        unreachable: while the other joints do not accelerate, or, in free drive, while their
        torques stay constant.
    effort, deceleration : (n,)
        Effort limits; decelerations that the joints can reach.
    rows, most, joints
        See `osc_ros.control.limits.load.bounded_loads`; `count` is its result.
    window : (2, n)
        Lowest and highest torques, within the effort limits.
    guided : float
        Weight of the rules for free drive, 0 to 1.
    count : int
    dt : float
        Time since the last tick [s], 0 at the first.
    calm : (1,), overwritten
        Share of the posture that nullspace damping replaces, 0 to 1.
    sides : (3 n,) int, overwritten
        -1 or 1 for accelerations, torques and loads at their lower or upper bound, else 0.
    chosen, room : (6 n + 6,) int, (`room_size`,), overwritten
        Memory.
    tau : (n,), overwritten
        Torques of the law on entry.
    shares : (2,), written
        Shares of the accelerations of tasks and posture that remain within the limits.

    Returns
    -------
    bool
        Whether a bound is active.

    """
    n = len(qd)
    size = n * n
    M, B = view(room, 0, (n, n)), view(room, size, (n, n))
    there = view(room, 2 * size, (n, n))
    start = 4 * size
    total_rows = 2 * n + count
    G = view(room, start, (total_rows, total_rows))
    factor = view(room, start + 9 * size, (total_rows, total_rows))
    start += 18 * size
    wide = max(n, 6)
    moved = view(room, start, (6, wide))
    start += 6 * wide
    A, X = view(room, start, (6, 6)), view(room, start + 36, (6, 6))
    start += 72
    value = room[start:start + total_rows]
    low = room[start + 3 * n:start + 3 * n + total_rows]
    high = room[start + 6 * n:start + 6 * n + total_rows]
    push = room[start + 9 * n:start + 9 * n + total_rows]
    change = room[start + 12 * n:start + 12 * n + total_rows]
    x = room[start + 15 * n:start + 16 * n]
    y = room[start + 16 * n:start + 17 * n]
    put_inverse(M_inv, chosen, factor[:n, :n], M)
    for i in range(n):
        for j in range(n):
            B[i, j] = 0.0
    last = len(levels)
    for k in range(len(inertias)):
        yields = False
        for a in range(6):
            yields = yields or levels[k % last, level_row.ROOT + a] > 0.0
        _add_resistance(J[6 * k:6 * k + 6], M_inv, inertias[k], yields, length,
                        YIELDING ** (1 - k % last), chosen, A, X, moved, B)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += M_inv[i, k] * B[k, j]
            there[i, j] = total
    far = 0.0
    for i in range(n):
        bias = tau[i]
        for j in range(n):
            bias -= M[i, j] * qdd[j]
        mobility = 1.0 / M[i, i] + guided * (M_inv[i, i] - 1.0 / M[i, i])
        low[i] = min(lower[i], (effort[i] - bias) * mobility)
        high[i] = max(upper[i], (-effort[i] - bias) * mobility)
        low[n + i], high[n + i] = window[0, i], window[1, i]
        far = max(far, _excess(qdd[i], low[i], high[i], deceleration[i]))
        if effort[i] < np.inf:
            far = max(far, _excess(tau[i], -effort[i], effort[i], effort[i]))
    for k in range(count):
        low[2 * n + k], high[2 * n + k] = -np.inf, most[k]
        total = 0.0
        for j in range(n):
            total += rows[k, j] * qdd[j]
        far = max(far, joints[k, 1] * (total - most[k]) / effort[int(joints[k, 0])])
    calm[0] += min(max(min(far, 1.0) - calm[0], -dt / CALMING), dt / CALMING)
    calm[0] = min(max(calm[0], 0.0), 1.0)
    # nullspace damping replaces the share `calm` of the posture
    for i in range(n):
        x[i] = qdd[i] + CALM * qd[i]
    for i in range(n):
        y[i] = x[i]
        for j in range(n):
            y[i] -= there[i, j] * x[j]
        y[i] *= -calm[0]
    for i in range(n):
        value[i], value[n + i] = qdd[i] + y[i], tau[i]
        for j in range(n):
            value[n + i] += M[i, j] * y[j]
    for k in range(count):
        value[2 * n + k] = 0.0
        for j in range(n):
            value[2 * n + k] += rows[k, j] * value[j]
    _put_mobility(M, M_inv, B, there, rows, count, G)
    _soften_loads(M_inv, rows, joints, count, G)
    start_of = chosen[total_rows:]
    for i in range(2 * n):
        start_of[i] = sides[i]
    for k in range(count):
        start_of[2 * n + k] = sides[2 * n + int(joints[k, 0])]
    for i in range(total_rows):
        if start_of[i] != 0 and not np.isfinite(high[i] if start_of[i] > 0 else low[i]):
            start_of[i] = 0
    found = nearest_within(G, value, low, high, start_of[:total_rows], chosen[:total_rows],
                           factor, push, change)
    for i in range(3 * n):
        sides[i] = 0
    for i in range(n):
        sides[i], sides[n + i] = start_of[i], start_of[n + i]
        x[i] = push[i]
        for j in range(n):
            x[i] += M[i, j] * push[n + j]
    for k in range(count):
        sides[2 * n + int(joints[k, 0])] = start_of[2 * n + k]
        for i in range(n):
            x[i] += rows[k, i] * push[2 * n + k]
    # from here on: x = multipliers as joint torques, low = M⁻¹ x, high = changed torques (both
    # overwrite the bounds), y = change of the accelerations
    is_at_bound = False
    for i in range(total_rows):
        is_at_bound = is_at_bound or start_of[i] != 0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += M_inv[i, j] * x[j]
        low[i] = total
    for i in range(n):
        total = x[i]
        for j in range(n):
            total -= B[i, j] * low[j]
        high[i] = value[n + i] + total
    for i in range(n):
        y[i] += change[i] - SOFT_ACCELERATION * M_inv[i, i] * push[i]
    _put_shares(M, B, qdd, y, shares)
    for i in range(n):
        wanted = high[i] if found and np.isfinite(high[i]) else tau[i]
        tau[i] = min(max(wanted, window[0, i]), window[1, i])
    return is_at_bound


@inlined
def _put_shares(M, B, qdd, change, shares):
    """Write 1 - |change| / |q̈| for tasks (norm by B) and posture (norm by M - B), at least 0."""
    tasks = posture = lost_tasks = lost_posture = 0.0
    for i in range(len(qdd)):
        for j in range(len(qdd)):
            tasks += qdd[i] * B[i, j] * qdd[j]
            lost_tasks += change[i] * B[i, j] * change[j]
            posture += qdd[i] * (M[i, j] - B[i, j]) * qdd[j]
            lost_posture += change[i] * (M[i, j] - B[i, j]) * change[j]
    shares[0] = 1.0 - min(np.sqrt(max(lost_tasks, 0.0) / max(tasks, 1e-12)), 1.0)
    shares[1] = 1.0 - min(np.sqrt(max(lost_posture, 0.0) / max(posture, 1e-12)), 1.0)
