# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The acceleration within all limits that is nearest to the law's, and its torque.

Four kinds of quantities have bounds: the accelerations of the joints, their torques M q̈ + h, the
second derivatives of their gravity loads (`osc_ros.control.limits.load`), and those of distances
(`osc_ros.control.limits.near_rows`). With x = q̈ - q̈_law, the acceleration minimizes

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

from osc_ros.compile.compiled import inlined, part, view
from osc_ros.control.data import MOST_NEAR
from osc_ros.control.limits.bounds import push_share
from osc_ros.control.limits.complementarity import nearest_within, put_inverse
from osc_ros.dynamics.algebra.spatial import smoothed

Array = NDArray[np.float64]

# Weight of a loss of acceleration of the posture relative to the same loss of the task of highest
# priority, and of each task relative to the task of the next higher priority. The smaller it is,
# the faster the arm moves joints that contribute little to a task.
YIELDING = 0.04
# Softness of the bounds of accelerations and torques, relative to the mobility along them. If
# bounds contradict each other, those with the largest softness are violated first: loads, then
# distances (see `load` and `clearance`), accelerations, and last torques.
SOFT_ACCELERATION, SOFT_TORQUE = 1e-5, 1e-7
# In free drive: how far that softness is the same for all joints, 0 to 1; how fast the bound of a
# joint that a push overwhelms eases as the push gets weaker, see `_ask_for_help`.
EVEN, HELP_EASE = 0.8, 10.0
# While limits change the torques of the law, nullspace damping replaces the posture: its rate
# [1/s], and the time in which it fades in or out [s].
DAMPING_RATE, DAMPING_TIME = 20.0, 0.1
# Largest rate of the torques, relative to the effort limits, while near pairs bound the
# accelerations or settings are blended, and for the time LINGER [s] after that [1/s]. Without it
# the torques step where bounds come, leave, jump or contradict each other.
GENTLE_RATE, LINGER = 12.0, 0.3
# Speeds of the fastest joint, relative to the speed limit in force, between which GENTLE_RATE
# rises to the usual rate.
HASTY = 1.02, 1.06
# Share of the effort limit below which a torque that the model does not explain is no push, but
# the change of the acceleration within a tick.
NO_PUSH = 0.005
EASE = 0.25  # share of GENTLE_RATE that is enough to end an acceleration before a speed limit
_LEAST = 1e-9  # least softness, for loads and distances that hardly depend on q


@inlined
def _add_resistance(m, d, c, level):
    """Add the weight of a level's loss in solve c: B += Jᵀ (Λ⁻¹ + yielding W⁻¹)⁻¹ J, J (6, n)."""
    # With C = W⁻¹ the middle is C^-½ (1 - (1 + yielding C^½ Λ C^½)⁻¹) C^-½ / yielding. This form
    # does not need Λ⁻¹, which is infinite in directions that the task does not control. For a
    # spring W = Λ.
    M_inv, B, moved, A, X = d.M_inv, d.B, d.task_rows, d.task_blocks[0], d.task_blocks[1]
    J, Lambda = d.level_J[c, 6 * level:6 * level + 6], d.level_Lambda[c, level]
    n, length, yielding, is_spring = d.n, m.singular_length, YIELDING ** (1 - level), False
    for a in range(6):
        is_spring = is_spring or d.level_root[level, a] > 0.0
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
        put_inverse(A, d.task_chosen, d.task_blocks[2], X)
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
def _softness(d, i):
    """Softness of the bounds of an acceleration, see SOFT_ACCELERATION."""
    # In free drive it depends less on the mobility: if the bounds of several joints contradict
    # each other, that of the lightest joint must not be violated most.
    M_inv, least = d.M_inv, np.inf
    if d.guided == 0.0:
        return SOFT_ACCELERATION * M_inv[i, i]
    for j in range(d.n):
        least = min(least, M_inv[j, j])
    return SOFT_ACCELERATION * M_inv[i, i] * (least / M_inv[i, i]) ** (d.guided * EVEN)


@inlined
def _put_mobility(d, count, G):
    """Write G = C K Cᵀ with C = [1; M; rows] and K = M⁻¹ - M⁻¹ B M⁻¹."""
    # G is the response of the bounded quantities to the multipliers of their bounds. The softness
    # of the bounds is added to its diagonal.
    M, M_inv, B, M_inv_B, rows, n = d.M_joint, d.M_inv, d.B, d.M_inv_B, d.row_of_q, d.n
    for i in range(n):
        for j in range(n):
            G[i, n + j] = G[n + j, i] = (1.0 if i == j else 0.0) - M_inv_B[i, j]
            G[n + i, n + j] = M[i, j] - B[i, j]
    for i in range(n):
        for j in range(i + 1):
            total = M_inv[i, j]
            for k in range(n):
                total -= 0.5 * (M_inv_B[i, k] * M_inv[k, j] + M_inv_B[j, k] * M_inv[k, i])
            G[i, j] = G[j, i] = total
    for k in range(count):
        for i in range(2 * n):
            total = 0.0
            for j in range(n):
                total += G[i, j] * rows[k, j]
            G[i, 2 * n + k] = G[2 * n + k, i] = total
    for k in range(count):
        for other in range(count):
            total = 0.0
            for j in range(n):
                total += rows[other, j] * G[j, 2 * n + k]
            G[2 * n + k, 2 * n + other] = total
    for i in range(n):
        G[i, i] += _softness(d, i)
        G[n + i, n + i] += SOFT_TORQUE * M[i, i]
    for k in range(count):
        total = 0.0
        for i in range(n):
            for j in range(n):
                total += rows[k, i] * M_inv[i, j] * rows[k, j]
        # at the firmness 0 a bound is softer than the tasks, so it takes effect smoothly
        firm = max(d.firmness[k], 1e-3)
        G[2 * n + k, 2 * n + k] += (
            d.softness[k] / (firm * firm * firm * firm) * total + _LEAST)


@inlined
def _last_side(d, index):
    """Side of a row at the last tick: of the load of joint `index`, or of a witness point."""
    if index < d.n:
        return d.load_sides[index]
    for k in range(MOST_NEAR):
        if d.near_numbers[k] == index:
            return d.near_sides[k]
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
def gentle_step(d, i, dt):
    """Change of the torque of a joint in dt [s] at GENTLE_RATE [N·m, N]."""
    return GENTLE_RATE * d.most_effort[i] * dt


@inlined
def _limit_gently(d):
    """Narrow the window of the torques: they change at most at GENTLE_RATE from the last ones."""
    # A new push allows four times the excess of its torque over NO_PUSH of the effort limit in
    # addition; a joint above its speed limit (HASTY) or a push in free drive, up to the usual
    # rate.
    M, fastest, driven, dt = d.M_joint, 0.0, 0.0, d.tick
    for i in range(d.n):
        fastest = max(fastest, np.abs(d.qd[i]) / d.most_speed[i])
        driven = max(driven, push_share(d, i, d.reaction_rate[i]))
    hasty = max(smoothed((fastest - HASTY[0]) / (HASTY[1] - HASTY[0])), driven)
    for i in range(d.n):
        pushed = 0.0
        for j in range(d.n):
            pushed += M[i, j] * (d.unexplained[j] - d.unexplained_before[j])
        step = gentle_step(d, i, dt)
        pushed = np.abs(pushed) - NO_PUSH * d.most_effort[i]
        step = min(step + (4.0 * max(pushed, 0.0) if np.isfinite(pushed) else 0.0) + (
            hasty * d.most_effort_rate[i] * dt if hasty > 0.0 else 0.0),
            d.most_effort_rate[i] * dt)
        narrow(d.window, i, d.last_limited[i], step)


@inlined
def _narrow_gently(d, i):
    """Narrow the bounds of q̈ to what torques at GENTLE_RATE can end before the speed limit."""
    # The bounds never exclude the law's own acceleration, nor one that ends the last gradually.
    law, last = d.qdd_law[i], d.commanded[1, i] if np.isfinite(d.commanded[1, i]) else 0.0
    jerk = min(EASE * GENTLE_RATE * d.most_effort[i] / d.M_joint[i, i], 1e9)
    up = np.sqrt(2.0 * jerk * max(d.most_speed[i] - d.qd[i], 0.0))
    down = np.sqrt(2.0 * jerk * max(d.most_speed[i] + d.qd[i], 0.0))
    d.bound_high[i] = max(min(d.bound_high[i], max(law, up, last - jerk * d.tick)),
                          d.bound_low[i])
    d.bound_low[i] = min(max(d.bound_low[i], min(law, -down, last + jerk * d.tick)),
                         d.bound_high[i])


@inlined
def _narrow(d, i, least, most, share):
    """Narrow the bounds of an acceleration by a share of their distance to `least` and `most`."""
    low, high = d.bound_low, d.bound_high
    low[i] += share * max(least - low[i], 0.0)
    high[i] = max(high[i] - share * max(high[i] - most, 0.0), low[i])


@inlined
def _ask_for_help(d, i, least, most):
    """Narrow the bounds of q̈ in free drive if a push is too strong for the joint alone."""
    # `least` and `most` are the accelerations that the joint reaches alone. If the push then
    # drives it faster than at the usual rate towards its speed limit, the other joints must help,
    # early enough. Return how far, 0 to 1.
    push, rate, fastest, speed = d.unexplained[i], d.reaction_rate[i], d.most_speed[i], d.qd[i]
    up, down = rate * (fastest - speed) - least - push, rate * (fastest + speed) + most + push
    _narrow(d, i, most - (down if down < 0.0 else HELP_EASE * down),
            least + (up if up < 0.0 else HELP_EASE * up), d.guided)
    return d.guided * min(HELP_EASE * max(-up, -down, 0.0) / (rate * fastest), 1.0)


@inlined
def _limit_help(d, i, share):
    """Let a joint that helps others in free drive approach its speed limit at the usual rate."""
    push, rate, fastest, speed = d.unexplained[i], d.reaction_rate[i], d.most_speed[i], d.qd[i]
    _narrow(d, i, -rate * (fastest + speed) - min(push, 0.0),
            rate * (fastest - speed) - max(push, 0.0), share)


@part
def _put_resistances(m, d):
    """Write B, the weights of losses of the tasks, and M⁻¹ B."""
    n, M_inv, B = d.n, d.M_inv, d.B
    for i in range(n):
        for j in range(n):
            B[i, j] = 0.0
    for c in range(d.solves):
        for level in range(d.k):
            _add_resistance(m, d, c, level)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += M_inv[i, k] * B[k, j]
            d.M_inv_B[i, j] = total


@part
def _put_bounds(d, count, is_gentle):
    """Write the bounds of accelerations, torques and rows."""
    # Those of the accelerations are widened where the effort limits make them unreachable without
    # torques of the other joints; in free drive the other joints help.
    n, low, high, M, M_inv, asked = d.n, d.bound_low, d.bound_high, d.M_joint, d.M_inv, 0.0
    for i in range(n):
        bias = d.tau_limited[i]
        for j in range(n):
            bias -= M[i, j] * d.qdd_law[j]
        most = (d.most_effort[i] - bias) * M_inv[i, i]
        least = (-d.most_effort[i] - bias) * M_inv[i, i]
        low[i], high[i] = min(d.lowest[i], most), max(d.highest[i], least)
        if d.guided > 0.0:
            asked = max(asked, _ask_for_help(d, i, least, most))
        if is_gentle:
            _narrow_gently(d, i)
        low[n + i], high[n + i] = d.window[0, i], d.window[1, i]
    if asked > 0.0:
        for i in range(n):
            _limit_help(d, i, asked)
    for k in range(count):
        low[2 * n + k], high[2 * n + k] = -np.inf, d.row_most[k]


@part
def _largest_excess(d, count):
    """Largest distance of the law beyond a bound; 1 is large."""
    n, far = d.n, 0.0
    for i in range(n):
        tau, effort = d.tau_limited[i], d.most_effort[i]
        far = max(far, _excess(d.qdd_law[i], d.bound_low[i], d.bound_high[i], d.deceleration[i]))
        if effort < np.inf:
            far = max(far, _excess(tau, -effort, effort, effort))
    for k in range(count):
        total = 0.0
        for j in range(n):
            total += d.row_of_q[k, j] * d.qdd_law[j]
        far = max(far, d.firmness[k] * (total - d.row_most[k]) / d.large_excess[k])
    return far


@part
def _put_values(d, count):
    """Write the values of the law, of which damping replaces a share of the posture."""
    n, x, y, value = d.n, d.push_acceleration, d.qdd_change, d.bound_value
    for i in range(n):
        x[i] = d.qdd_law[i] + DAMPING_RATE * d.qd[i]
    for i in range(n):
        y[i] = x[i]
        for j in range(n):
            y[i] -= d.M_inv_B[i, j] * x[j]
        y[i] *= -d.damping_share
    for i in range(n):
        value[i], value[n + i] = d.qdd_law[i] + y[i], d.tau_limited[i]
        for j in range(n):
            value[n + i] += d.M_joint[i, j] * y[j]
    for k in range(count):
        value[2 * n + k] = 0.0
        for j in range(n):
            value[2 * n + k] += d.row_of_q[k, j] * value[j]


@part
def _put_last_sides(d, count):
    """Let the search begin with the bounds that were active at the last tick."""
    n, side = d.n, d.bound_side
    for i in range(n):
        side[i], side[n + i] = d.acceleration_sides[i], d.torque_sides[i]
    for k in range(count):
        side[2 * n + k] = _last_side(d, d.row_number[k])
    for i in range(2 * n + count):
        if side[i] != 0 and not np.isfinite(d.bound_high[i] if side[i] > 0 else d.bound_low[i]):
            side[i] = 0


@part
def _note_sides(d, count, is_gentle):
    """Store which bounds are active, and for how long the torques stay gentle; return if any."""
    n, side, near, is_at_bound = d.n, d.bound_side, 0, False
    for i in range(n):
        d.acceleration_sides[i], d.torque_sides[i], d.load_sides[i] = side[i], side[n + i], 0
    d.near_numbers[:] = d.near_sides[:] = 0
    for k in range(count):
        index = d.row_number[k]
        if index < n:
            d.load_sides[index] = side[2 * n + k]
        else:
            d.near_numbers[near], d.near_sides[near] = index, side[2 * n + k]
            near += 1
            if side[2 * n + k] != 0:
                d.gentle = max(d.gentle, LINGER)
    d.gentle = max(d.gentle - d.tick, 0.0)
    for i in range(2 * n + count):
        is_at_bound = is_at_bound or side[i] != 0
        if is_gentle and side[i] != 0 and n <= i < 2 * n:
            d.gentle = max(d.gentle, LINGER)
    return is_at_bound


@part
def _put_result(d, count, found, is_gentle):
    """Write the torques by the multipliers, within the window, and `shares`."""
    n, push, x, y = d.n, d.bound_push, d.push_torque, d.push_acceleration
    for i in range(n):
        x[i] = push[i]
        for j in range(n):
            x[i] += d.M_joint[i, j] * push[n + j]
    for k in range(count):
        for i in range(n):
            x[i] += d.row_of_q[k, i] * push[2 * n + k]
    for i in range(n):
        y[i] = 0.0
        for j in range(n):
            y[i] += d.M_inv[i, j] * x[j]
    for i in range(n):
        d.qdd_change[i] += d.bound_change[i] - _softness(d, i) * push[i]
        nearest = x[i]
        for j in range(n):
            nearest -= d.B[i, j] * y[j]
        nearest = d.bound_value[n + i] + nearest
        if not (found and np.isfinite(nearest)):
            nearest = d.last_limited[i] if is_gentle and d.has_last else d.tau_limited[i]
        d.tau_limited[i] = min(max(nearest, d.window[0, i]), d.window[1, i])
    _put_shares(d.M_joint, d.B, d.qdd_law, d.qdd_change, d.shares)


@part
def torques_within(m, d, count):
    """Overwrite `tau_limited` with the nearest torques within all limits except rates."""
    # The caller has written the accelerations of the law, M⁻¹, the window, and `count` rows of
    # loads and near pairs. Return whether a bound is active.
    bounds, is_gentle, chosen = 2 * d.n + count, d.gentle > 0.0, d.bound_chosen
    G, factor = view(d.G, 0, (bounds, bounds)), view(d.G_factor, 0, (bounds, bounds))
    put_inverse(d.M_inv, chosen, view(d.G_factor, 0, (d.n, d.n)), d.M_joint)
    if is_gentle and d.tick > 0.0:
        _limit_gently(d)
    _put_resistances(m, d)
    _put_bounds(d, count, is_gentle)
    far = 0.0 if m.drives_joints else min(_largest_excess(d, count), 1.0)
    step = d.tick / DAMPING_TIME
    rise = min(max(far - d.damping_share, -step), step)
    d.damping_share = min(max(d.damping_share + rise, 0.0), 1.0)
    _put_values(d, count)
    _put_mobility(d, count, G)
    _put_last_sides(d, count)
    found = nearest_within(G, d.bound_value[:bounds], d.bound_low, d.bound_high, d.bound_side,
                           chosen, factor, d.bound_push, d.bound_change)
    is_at_bound = _note_sides(d, count, is_gentle)
    if d.gentle > 0.0 and not is_gentle and d.tick > 0.0:  # a near pair begins to bound
        _limit_gently(d)
    _put_result(d, count, found, is_gentle)
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
