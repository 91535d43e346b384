# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Bounds of the joints' accelerations, from their limits of position and velocity.

A joint may approach a position limit only as fast as it can still stop before the limit.

Near its speed limit, a joint has to reckon with what drives it besides the controller: a hand, a
contact, a payload, or friction that is told and does not exist. The acceleration of the last tick
that the torques do not explain is measured, averaged, and subtracted from the bound.
"""

from __future__ import annotations

import numpy as np

from osc_ros.control.fade import smoothed
from osc_ros.control.limits import (
    DECELERATION,
    EFFORT,
    EFFORT_RATE,
    LOWER,
    RATE,
    SPEED,
    UPPER,
)
from osc_ros.dynamics.compiled import inlined, kernel

EAGERNESS = 10.0  # largest factor of the rate, for a joint far below its allowed speed
HASTE = 4.0  # factor of the rate for a joint above its allowed speed
# speeds, relative to the limit, between which the weight of the unexplained acceleration rises
# from 0 to 1
RECKONING = 0.5, 0.9
# weights of the last tick in the mean of the unexplained acceleration, for slow and fast joints; a
# mean with 0.75 oscillates with torques that act two ticks late
AVERAGING = 0.25, 0.5
# largest change of this mean, relative to the speed limit [1/s]: a hit on a hard wall is over
# before torques can answer it
GRADUAL = 100.0
LONGEST_TICK = 0.02  # after a longer tick this mean begins anew [s]
# rows of `accelerations`; the last three are those before them, at the last tick
TOTAL, LOWEST, HIGHEST, POSTURE, UNEXPLAINED, VELOCITY, COMMANDED, BEFORE = range(8)
ACCELERATION_ROWS = BEFORE + 3


@inlined
def _acceleration_towards(gap, fastest, rate, quickest):
    """
    Largest acceleration of a joint whose speed is below the allowed one by `gap` [rad/s, m/s].

    It is rate · gap, so the speed converges to the allowed one. Far below the allowed speed it is
    up to EAGERNESS times larger, so that a blocked tool can still push: to the model its force
    looks like a large acceleration. Above the allowed speed (gap < 0) the rate is HASTE times
    higher, so that an error of the model causes a smaller excess of speed.

    Parameters
    ----------
    gap : float
    fastest : float
        Velocity limit, to which the gap is compared.
    rate, quickest : float [1/s]
        Rate at which the speed converges, and the highest rate that the length of a tick allows.

    """
    if gap < 0.0:
        eager = HASTE
    else:
        slow = gap / fastest if gap < fastest else 1.0
        eager = 1.0 + (EAGERNESS - 1.0) * (slow * slow) ** 4
    return gap * min(rate * eager, max(rate, quickest))


@inlined
def _ceiling(distance, speed, fastest, deceleration, rate, quickest):
    """
    Largest acceleration of a joint towards a position limit at a distance [rad, m].

    At the allowed speed v the stopping distance v²/2D + v/rate equals the distance, with the
    deceleration D and the reaction time 1/rate. The joint's speed converges to v with the rate.
    v is smooth in the distance. A joint that starts within its limits never leaves them; a joint
    beyond its limit, or faster than v, brakes with at most 2D.

    """
    hasty = deceleration / rate
    if distance > 0.0:
        allowed = np.sqrt(hasty * hasty + 2.0 * deceleration * distance) - hasty
        slope = deceleration / (allowed + hasty)
    else:
        allowed, slope = rate * distance, rate
    ahead = _acceleration_towards(allowed - speed, fastest, rate, quickest) - slope * speed
    free = _acceleration_towards(fastest - speed, fastest, rate, quickest)
    return max(min(ahead, free), -2.0 * deceleration)


@inlined
def _reckoning(speed, fastest):
    """Share with which the unexplained acceleration of a joint counts; see RECKONING."""
    share = (np.abs(speed) / fastest - RECKONING[0]) / (RECKONING[1] - RECKONING[0])
    return smoothed(share)


@kernel
def reckoning(speed, fastest):
    """Share with which other torques than those of the motors count; see RECKONING."""
    return _reckoning(speed, fastest)


@inlined
def _driven(unexplained, speed, fastest):
    """
    Unexplained acceleration of a joint that drives it beyond its speed limit, or 0.

    An acceleration that brakes the joint does not count, because it may end at any time.

    """
    return _reckoning(speed, fastest) * unexplained if unexplained * speed > 0.0 else 0.0


@inlined
def _put_bounds(q, qd, table, quickest, unexplained, lower, upper):
    """Write the lower and upper bounds of the accelerations; see `acceleration_bounds`."""
    for i in range(len(q)):
        fastest, deceleration, rate = table[SPEED, i], table[DECELERATION, i], table[RATE, i]
        driven = _driven(unexplained[i], qd[i], fastest)
        upper[i] = _ceiling(table[UPPER, i] - q[i], qd[i], fastest, deceleration, rate, quickest)
        lower[i] = -_ceiling(q[i] - table[LOWER, i], -qd[i], fastest, deceleration, rate, quickest)
        upper[i] -= max(driven, 0.0)
        lower[i] -= min(driven, 0.0)
        # if they contradict each other, the limit that the joint moves towards has priority
        if qd[i] > 0.0:
            lower[i] = min(lower[i], upper[i])
        else:
            upper[i] = max(lower[i], upper[i])


@kernel
def acceleration_bounds(q, qd, table, quickest, unexplained, lower, upper):
    """
    Write bounds of the accelerations that keep the joints within position and velocity limits.

    Parameters
    ----------
    q, qd : (n,)
    table : (8, n)
        See `Limits.table`.
    quickest : float
        Highest rate that the length of a tick allows [1/s].
    unexplained : (n,) [rad/s², m/s²]
        Mean of the accelerations that the torques do not explain.
    lower, upper : (n,), written [rad/s², m/s²]
        Bounds, with lower ≤ upper.

    """
    _put_bounds(q, qd, table, quickest, unexplained, lower, upper)


@kernel
def exceeds(accelerations, q, qd, tau, added, table, quickest):
    """
    Whether an acceleration or a torque of the law exceeds its bounds.

    Parameters
    ----------
    accelerations : (ACCELERATION_ROWS, n), overwritten
        Input: row POSTURE, the acceleration of the posture; row TOTAL, the other accelerations of
        the law; from row BEFORE on, the last three rows at the last tick (NaN in row BEFORE: no
        acceleration is taken for unexplained). Output: row TOTAL, the sum of both; rows LOWEST and
        HIGHEST, the bounds (see `acceleration_bounds`); rows UNEXPLAINED, VELOCITY and COMMANDED,
        what the next tick needs of this one.
    q, qd, tau, added : (n,)
        Torques of the law, and those that are added to them.
    table : (8, n)
        See `Limits.table`.
    quickest : float
        Half of the inverse of the time since the last tick [1/s]; 0 at the first.

    """
    unexplained = accelerations[UNEXPLAINED]
    is_regular = 2.0 * quickest * LONGEST_TICK >= 1.0 and np.isfinite(accelerations[BEFORE, 0])
    for i in range(len(q)):
        unexplained[i] = 0.0
        if is_regular:
            reached = 2.0 * quickest * (qd[i] - accelerations[BEFORE + 1, i])
            mean, commanded = accelerations[BEFORE, i], accelerations[BEFORE + 2, i]
            weight = AVERAGING[0] + (AVERAGING[1] - AVERAGING[0]) * _reckoning(
                qd[i], table[SPEED, i])
            most = GRADUAL * table[SPEED, i]
            unexplained[i] = mean + min(max(weight * (reached - commanded - mean), -most), most)
    _put_bounds(q, qd, table, quickest, unexplained, accelerations[LOWEST],
                accelerations[HIGHEST])
    is_beyond = False
    for i in range(len(q)):
        accelerations[TOTAL, i] += accelerations[POSTURE, i]
        accelerations[COMMANDED, i], accelerations[VELOCITY, i] = accelerations[TOTAL, i], qd[i]
        is_beyond = (is_beyond or not accelerations[LOWEST, i] <= accelerations[TOTAL, i]
                     <= accelerations[HIGHEST, i] or np.abs(tau[i] + added[i]) > table[EFFORT, i])
    return is_beyond


@kernel
def allowed_share(last, wanted, table, duration):
    """
    Largest share, at most 1, of the step from the last to the wanted torques that rates allow.

    Parameters
    ----------
    last, wanted : (n,) [N·m; N]
    table : (8, n)
        See `Limits.table`.
    duration : float
        Time since the last torques [s].

    """
    share = 1.0
    for i in range(len(last)):
        step, rate = np.abs(wanted[i] - last[i]), table[EFFORT_RATE, i]
        if step > 0.0 and rate < np.inf:
            share = min(share, rate * duration / step)
    return share
