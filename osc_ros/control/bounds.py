"""
Bounds of the joints' accelerations, from their limits of position and velocity.

Towards a limit a joint may be as fast as it can still brake from.
"""

from __future__ import annotations

import numpy as np

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

EAGERNESS = 10.0  # factor of the rate for a joint that is slow
HASTE = 4.0  # factor of the rate for a joint that is too fast


@inlined
def _acceleration_towards(gap, fastest, rate, quickest):
    """
    Largest acceleration towards a speed that is `gap` away.

    It goes to zero with the gap, at the rate. Far below the speed it is up to EAGERNESS times
    larger, so that a blocked tool can still push: to the model its force looks like a large
    acceleration. Above the speed the rate is HASTE times higher, so that an error of the model
    leaves a smaller excess of speed.

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
    Largest acceleration of a joint towards a limit that is `distance` ahead of it.

    The allowed speed v is the one whose stopping distance, v²/2D for braking and v/rate for the
    reaction, equals the distance; the joint approaches it with the rate. Both are smooth, and a
    joint that starts within its limits passes none. Beyond a limit, or too fast for it, the joint
    is brought back with at most twice the deceleration.

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
def _put_bounds(q, qd, table, quickest, lower, upper):
    for i in range(len(q)):
        fastest, deceleration, rate = table[SPEED, i], table[DECELERATION, i], table[RATE, i]
        upper[i] = _ceiling(table[UPPER, i] - q[i], qd[i], fastest, deceleration, rate, quickest)
        lower[i] = -_ceiling(q[i] - table[LOWER, i], -qd[i], fastest, deceleration, rate, quickest)
        # if they contradict, the limit that the joint moves towards counts
        if qd[i] > 0.0:
            lower[i] = min(lower[i], upper[i])
        else:
            upper[i] = max(lower[i], upper[i])


@kernel
def acceleration_bounds(q, qd, table, quickest, lower, upper):
    """
    Bounds of the accelerations (n,) that keep every joint within position and velocity.

    Parameters
    ----------
    q, qd : (n,)
    table : (8, n)
        Of `Limits`.
    quickest : float
        Highest rate that the length of a tick allows [1/s].
    lower, upper : (n,), written; lower ≤ upper

    """
    _put_bounds(q, qd, table, quickest, lower, upper)


@kernel
def exceeds(accelerations, q, qd, tau, table, quickest):
    """
    Whether the acceleration of the law, or a torque, is beyond its bounds.

    Parameters
    ----------
    accelerations : (4, n), overwritten
        Of the tasks, and in 3 of the posture: their sum goes into 0, the lower and upper bounds
        (see `acceleration_bounds`) into 1 and 2.
    q, qd, tau : (n,)
    table, quickest
        See `acceleration_bounds`.

    """
    _put_bounds(q, qd, table, quickest, accelerations[1], accelerations[2])
    is_beyond = False
    for i in range(len(q)):
        accelerations[0, i] += accelerations[3, i]
        is_beyond = (is_beyond or not accelerations[1, i] <= accelerations[0, i]
                     <= accelerations[2, i] or np.abs(tau[i]) > table[EFFORT, i])
    return is_beyond


@kernel
def allowed_share(last, wanted, table, duration):
    """Largest share of the way from the last torques (n,) to the wanted ones that rates allow."""
    share = 1.0
    for i in range(len(last)):
        step, rate = np.abs(wanted[i] - last[i]), table[EFFORT_RATE, i]
        if step > 0.0 and rate < np.inf:
            share = min(share, rate * duration / step)
    return share
