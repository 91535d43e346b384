# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The acceleration within all limits that is nearest to the law's, and its torque.

Four kinds of quantities have bounds: the accelerations of the joints, their torques M q̈ + h, the
second derivatives of their gravity loads (`osc_ros.control.limits.load`), and those of distances
(`osc_ros.control.limits.clearance`). With x = q̈ - q̈_law, the acceleration minimizes

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, part, view
from osc_ros.compile.record import Slot
from osc_ros.control.limits.bounds import BEFORE, HIGHEST, LOWEST, TOTAL, UNEXPLAINED
from osc_ros.control.limits.complementarity import nearest_within, put_inverse
from osc_ros.control.limits.limits import DECELERATION, EFFORT, EFFORT_RATE, SPEED
from osc_ros.control.limits.load import FIRMNESS, INDEX, MOST_NEAR, SOFTNESS, UNIT
from osc_ros.dynamics.algebra.fade import smoothed
from osc_ros.dynamics.priority import level_row

Array = NDArray[np.float64]

# Weight of a loss of acceleration of the posture relative to the same loss of the task of highest
# priority, and of each task relative to the task of the next higher priority. The smaller it is,
# the faster the arm moves joints that contribute little to a task.
YIELDING = 0.04
# Softness of the bounds of accelerations and torques, relative to the mobility along them. If
# bounds contradict each other, those with the largest softness are violated first: loads, then
# distances (see `load` and `clearance`), accelerations, and last torques.
SOFT_ACCELERATION, SOFT_TORQUE = 1e-5, 1e-7
# While limits change the torques of the law, nullspace damping replaces the posture: its rate
# [1/s], and the time in which it fades in or out [s].
DAMPING_RATE, DAMPING_TIME = 20.0, 0.1
# Largest rate of the torques, relative to the effort limits, while near pairs bound the
# accelerations or settings are blended, and for the time LINGER [s] after that [1/s]. Without it
# the torques step where bounds come, leave, jump or contradict each other.
GENTLE_RATE, LINGER = 12.0, 0.3
# Speeds of the fastest joint, relative to the speed limit in force, between which GENTLE_RATE
# rises to the usual rate.
HASTY = 1.01, 1.06
EASE = 0.25  # share of GENTLE_RATE that is enough to end an acceleration before a speed limit
PUSH = 3  # row of `vectors`: after a solve, the multipliers of the bounds
_LEAST = 1e-12  # least softness of the bound of a load, for loads that hardly depend on q

_ROWS = f'3n + {MOST_NEAR}'  # most rows: accelerations, torques, loads, distances

MEMORY = (
    Slot('M', ('n', 'n'), 'kg·m², kg', 'inertia matrix'),
    Slot('B', ('n', 'n'), '', 'weights of a change of the accelerations, by the tasks'),
    Slot('there', ('n', 'n'), '', 'M⁻¹ B'),
    Slot('moved', (6, 'n'), '', 'memory for `_add_resistance`'),
    Slot('small', (3, 6, 6), '', 'memory for `_add_resistance`'),
    Slot('six', (6,), '', 'memory for indices, as integers'),
    Slot('G', (_ROWS, _ROWS), '', 'see `_put_mobility`'),
    Slot('factor', (_ROWS, _ROWS), '', 'factors of G'),
    Slot('vectors', (7, _ROWS), '', 'memory for vectors, a number for each row'),
    Slot('joint_vectors', (2, 'n'), '', 'memory for vectors'))


class Tasks(NamedTuple):
    """
    Results of the solves for the forces of the tasks, which weight their losses of acceleration.

    - J (6 k, n), inertias (k, 6, 6): Jacobians and inertias of the tasks by solve, see
      `osc_ros.dynamics.priority.priority.Room`
    - levels (l, WIDTH): `Priorities.rows`; k is a multiple of l
    - length: length [m] that weights a rotation of 1 rad like a translation

    """

    J: Array
    inertias: Array
    levels: Array
    length: float


@inlined
def tasks_of(found, solves, length):
    """Return the `Tasks` of a `Room` with the results of a number of solves."""
    k, n = solves * len(found.rows), found.J.shape[2]
    return Tasks(view(found.J, 0, (6 * k, n)), view(found.inertias, 0, (k, 6, 6)), found.rows,
                 length)


@inlined
def _add_resistance(own, tasks, k):
    """
    Add the weight of one task's loss: B += Jᵀ (Λ⁻¹ + yielding W⁻¹)⁻¹ J, with J (6, n).

    With C = W⁻¹ the matrix in the middle is C^-½ (1 - (1 + yielding C^½ Λ C^½)⁻¹) C^-½ / yielding.
    This form does not need Λ⁻¹, which is infinite in directions that the task does not control.
    For a spring W = Λ.

    """
    M_inv, B, moved, A, X = own.M_inv, own.B, own.moved, own.small[0], own.small[1]
    J, Lambda, length = tasks.J[6 * k:6 * k + 6], tasks.inertias[k], tasks.length
    n, level = len(M_inv), k % len(tasks.levels)
    yielding, is_spring = YIELDING ** (1 - level), False
    for a in range(6):
        is_spring = is_spring or tasks.levels[level, level_row.ROOT + a] > 0.0
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
    is_spring = is_spring or not mobility > 0.0
    if not is_spring:
        put_inverse(A, own.six.view(np.int64), own.small[2], X)
    for a in range(6):
        for b in range(6):
            units = (1.0 if a < 3 else length) * (1.0 if b < 3 else length)
            if is_spring:
                A[a, b] = Lambda[a, b] / (1.0 + yielding)
            else:
                A[a, b] = ((1.0 if a == b else 0.0) - X[a, b]) / (yielding * mobility * units)
    for a in range(6):
        for i in range(n):
            moved[a, i] = 0.0
            for b in range(6):
                moved[a, i] += A[a, b] * J[b, i]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for a in range(6):
                total += J[a, i] * moved[a, j] + J[a, j] * moved[a, i]
            B[i, j] += 0.5 * total
            if i != j:
                B[j, i] += 0.5 * total


@inlined
def _put_mobility(own, count, G):
    """
    Write G = C K Cᵀ with C = [1; M; rows] and K = M⁻¹ - M⁻¹ B M⁻¹.

    G is the response of the bounded quantities to the multipliers of their bounds. The softness of
    the bounds is added to its diagonal.

    """
    M, M_inv, there, rows, n = own.M, own.M_inv, own.there, own.rows, len(own.M)
    for i in range(n):
        for j in range(n):
            G[i, n + j] = G[n + j, i] = (1.0 if i == j else 0.0) - there[i, j]
            G[n + i, n + j] = M[i, j] - own.B[i, j]
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
    for k in range(count):
        total = 0.0
        for i in range(n):
            for j in range(n):
                total += rows[k, i] * M_inv[i, j] * rows[k, j]
        # at the firmness 0 a bound is softer than the tasks, so it takes effect smoothly
        firm = max(own.of[k, FIRMNESS], 1e-2)
        G[2 * n + k, 2 * n + k] += (
            own.of[k, SOFTNESS] / (firm * firm * firm * firm) * total + _LEAST)


@inlined
def _last_side(near, sides, index, n):
    """Side of a row at the last tick: of the load of joint `index`, or of a witness point."""
    if index < n:
        return sides[2 * n + index]
    for k in range(len(near)):
        if near[k, 0] == index:
            return int(near[k, 1])
    return 0


@inlined
def _excess(value, lower, upper, unit):
    """Distance of a value beyond its bounds, divided by `unit`; negative between them."""
    return max(value - upper, lower - value) / unit


@inlined
def narrow(window, i, last, step):
    """Narrow the window of the torque of a joint to at most `step` from its last torque."""
    low, high = window[0, i], window[1, i]
    window[0, i], window[1, i] = min(max(low, last - step), high), max(min(high, last + step), low)


@inlined
def _limit_gently(at, M, dt, qd, window):
    """
    Narrow the window of the torques: from their last values they change at most at GENTLE_RATE.

    They may change faster in two cases: by four times the torque of a new push, and while a joint
    is faster than its speed limit (see HASTY).

    """
    fastest = 0.0
    for i in range(len(qd)):
        fastest = max(fastest, np.abs(qd[i]) / at.table[SPEED, i])
    hasty = smoothed((fastest - HASTY[0]) / (HASTY[1] - HASTY[0]))
    for i in range(len(M)):
        pushed = 0.0
        for j in range(len(M)):
            pushed += M[i, j] * (at.accelerations[UNEXPLAINED, j] - at.accelerations[BEFORE, j])
        step = GENTLE_RATE * at.table[EFFORT, i] * dt
        step = min(step + (4.0 * np.abs(pushed) if np.isfinite(pushed) else 0.0) + (
            hasty * at.table[EFFORT_RATE, i] * dt if hasty > 0.0 else 0.0),
            at.table[EFFORT_RATE, i] * dt)
        narrow(window, i, at.last[i] - at.offset[i], step)


@part
def torques_within(at, own, tasks, count, dt, qd, tau):
    """
    Overwrite the torques of the law with the nearest torques within all limits except rates.

    The bounds of the accelerations are widened where the effort limits make them unreachable:
    while the other joints do not accelerate, or, in free drive, while their torques stay constant.

    Parameters
    ----------
    at, own
        Views of `osc_ros.control.limits.limiter.STATE` and ROOM. Row TOTAL of `accelerations` has
        the accelerations of the law; the caller has written M⁻¹, the window and the rows of the
        loads. `damping_share`, `sides` and `shares` are written.
    tasks : Tasks
    count, dt : int, float
        Number of rows of loads and near pairs; time since the last tick [s], 0 at the first.
    qd, tau : (n,), (n,)
        Joint velocities; torques (overwritten), on entry those of the law.

    Returns
    -------
    bool
        Whether a bound is active.

    """
    n = len(qd)
    total_rows = 2 * n + count
    M_inv, M, B, there, rows, window = own.M_inv, own.M, own.B, own.there, own.rows, own.window
    qdd, effort, guided = at.accelerations[TOTAL], at.table[EFFORT], at.guided[0]
    G = view(own.G, 0, (total_rows, total_rows))
    factor = view(own.factor, 0, (total_rows, total_rows))
    vectors, sides = own.vectors, view(at.sides, 0, (3 * n,)).view(np.int64)
    low, high, value, push, change = vectors[0], vectors[1], vectors[2], vectors[PUSH], vectors[4]
    chosen, start_of = vectors[5].view(np.int64), vectors[6].view(np.int64)
    x, y = own.joint_vectors[0], own.joint_vectors[1]
    put_inverse(M_inv, chosen, view(own.factor, 0, (n, n)), M)
    is_gentle = at.gentle[0] > 0.0
    if is_gentle and dt > 0.0:
        _limit_gently(at, M, dt, qd, window)
    for i in range(n):
        for j in range(n):
            B[i, j] = 0.0
    for k in range(len(tasks.inertias)):
        _add_resistance(own, tasks, k)
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
        low[i] = min(at.accelerations[LOWEST, i], (effort[i] - bias) * mobility)
        high[i] = max(at.accelerations[HIGHEST, i], (-effort[i] - bias) * mobility)
        if is_gentle:  # accelerations that torques at this rate can end before the speed limit
            jerk = min(EASE * GENTLE_RATE * effort[i] / M[i, i], 1e9)
            up = np.sqrt(2.0 * jerk * max(at.table[SPEED, i] - qd[i], 0.0))
            down = np.sqrt(2.0 * jerk * max(at.table[SPEED, i] + qd[i], 0.0))
            high[i] = max(min(high[i], max(qdd[i], up)), low[i])
            low[i] = min(max(low[i], min(qdd[i], -down)), high[i])
        low[n + i], high[n + i] = window[0, i], window[1, i]
        far = max(far, _excess(qdd[i], low[i], high[i], at.table[DECELERATION, i]))
        if effort[i] < np.inf:
            far = max(far, _excess(tau[i], -effort[i], effort[i], effort[i]))
    for k in range(count):
        low[2 * n + k], high[2 * n + k] = -np.inf, own.most[k]
        total = 0.0
        for j in range(n):
            total += rows[k, j] * qdd[j]
        far = max(far, own.of[k, FIRMNESS] * (total - own.most[k]) / own.of[k, UNIT])
    if at.keeps_posture[0] > 0.0:
        far = 0.0
    rise = min(max(min(far, 1.0) - at.damping_share[0], -dt / DAMPING_TIME), dt / DAMPING_TIME)
    at.damping_share[0] = min(max(at.damping_share[0] + rise, 0.0), 1.0)
    # nullspace damping replaces a share of the posture
    for i in range(n):
        x[i] = qdd[i] + DAMPING_RATE * qd[i]
    for i in range(n):
        y[i] = x[i]
        for j in range(n):
            y[i] -= there[i, j] * x[j]
        y[i] *= -at.damping_share[0]
    for i in range(n):
        value[i], value[n + i] = qdd[i] + y[i], tau[i]
        for j in range(n):
            value[n + i] += M[i, j] * y[j]
    for k in range(count):
        value[2 * n + k] = 0.0
        for j in range(n):
            value[2 * n + k] += rows[k, j] * value[j]
    _put_mobility(own, count, G)
    for i in range(2 * n):
        start_of[i] = sides[i]
    for k in range(count):
        start_of[2 * n + k] = _last_side(at.near, sides, int(own.of[k, INDEX]), n)
    for i in range(total_rows):
        if start_of[i] != 0 and not np.isfinite(high[i] if start_of[i] > 0 else low[i]):
            start_of[i] = 0
    found = nearest_within(G, value[:total_rows], vectors[:2], start_of, chosen, factor, push,
                           change)
    for i in range(3 * n):
        sides[i] = 0
    at.near[:] = 0.0
    for i in range(n):
        sides[i], sides[n + i] = start_of[i], start_of[n + i]
        x[i] = push[i]
        for j in range(n):
            x[i] += M[i, j] * push[n + j]
    near = 0
    for k in range(count):
        index = int(own.of[k, INDEX])
        if index < n:
            sides[2 * n + index] = start_of[2 * n + k]
        else:
            at.near[near, 0], at.near[near, 1] = index, start_of[2 * n + k]
            near += 1
            if start_of[2 * n + k] != 0:
                at.gentle[0] = max(at.gentle[0], LINGER)
        for i in range(n):
            x[i] += rows[k, i] * push[2 * n + k]
    # from here on: x = multipliers as joint torques, low = M⁻¹ x, high = changed torques (both
    # overwrite the bounds), y = change of the accelerations
    is_at_bound, at.gentle[0] = False, max(at.gentle[0] - dt, 0.0)
    for i in range(total_rows):
        is_at_bound = is_at_bound or start_of[i] != 0
        if is_gentle and start_of[i] != 0 and n <= i < 2 * n:
            at.gentle[0] = max(at.gentle[0], LINGER)
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
    _put_shares(M, B, qdd, y, at.shares)
    for i in range(n):
        wanted = at.last[i] - at.offset[i] if is_gentle and at.has_last[0] > 0.0 else tau[i]
        if found and np.isfinite(high[i]):
            wanted = high[i]
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
