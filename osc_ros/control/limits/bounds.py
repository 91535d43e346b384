# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Bounds of the joints' accelerations, from their limits of position and velocity.

A joint may approach a position limit only as fast as it can still stop before the limit.

Near its speed limit, a joint has to reckon with what drives it besides the controller: a hand, a
contact, a payload, or friction that is told and does not exist. The acceleration of the last tick
that the torques do not explain is measured, averaged, and subtracted from the bound.

In free drive the hand drives the joints at all times, and begins from one tick to the next. There
the bound of the speed is as steep as the length of a tick allows, and a part of the unexplained
acceleration counts at once: see `_certain`.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.control.limits.limits import DECELERATION, LOWER, RATE, SPEED, UPPER
from osc_ros.dynamics.algebra.fade import smoothed

EAGERNESS = 10.0  # largest factor of the rate, for a joint far below its allowed speed
HASTE = 4.0  # factor of the rate for a joint above its allowed speed
# In free drive: rate at which a joint below its speed limit may converge to it, relative to the
# highest that the length of a tick allows. With 1, torques that act a tick late oscillate.
GUIDED = 0.6
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
# rows of `accelerations`; from BEFORE on, the three rows before it at the last tick, and from
# EARLIER on row COMMANDED at the two ticks before that
TOTAL, LOWEST, HIGHEST, POSTURE, UNEXPLAINED, VELOCITY, COMMANDED, BEFORE = range(8)
EARLIER = BEFORE + 3
ACCELERATION_ROWS = EARLIER + 2


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
def _ceiling(distance, speed, fastest, deceleration, rate, quickest, share):
    """
    Largest acceleration of a joint towards a position limit at a distance [rad, m].

    At the allowed speed v the stopping distance v²/2D + v/rate equals the distance, with the
    deceleration D and the reaction time 1/rate. The joint's speed converges to v with the rate.
    v is smooth in the distance. A joint that starts within its limits never leaves them; a joint
    beyond its limit, or faster than v, brakes with at most 2D. By `share`, the speed limit is
    steeper and has no such bound, because in free drive a hand drives the joint on.

    """
    hasty = deceleration / rate
    if distance > 0.0:
        allowed = np.sqrt(hasty * hasty + 2.0 * deceleration * distance) - hasty
        slope = deceleration / (allowed + hasty)
    else:
        allowed, slope = rate * distance, rate
    ahead = _acceleration_towards(allowed - speed, fastest, rate, quickest) - slope * speed
    free = max(_acceleration_towards(fastest - speed, fastest, rate, quickest),
               -2.0 * deceleration)
    if share > 0.0:
        steep = max(rate, (GUIDED if speed < fastest else 1.0) * quickest)
        free += share * (steep * (fastest - speed) - free)
    return min(max(ahead, -2.0 * deceleration), free)


@inlined
def reckoning(speed, fastest):
    """Share with which the unexplained acceleration of a joint counts; see RECKONING."""
    share = (np.abs(speed) / fastest - RECKONING[0]) / (RECKONING[1] - RECKONING[0])
    return smoothed(share)


@inlined
def _driven(unexplained, ahead, fastest):
    """
    Unexplained acceleration of a joint that drives it beyond its speed limit, or 0.

    `ahead` is the speed, in free drive that at the next tick if nothing resists the hand. An
    acceleration that brakes the joint does not count, because it may end at any time.

    """
    return reckoning(ahead, fastest) * unexplained if unexplained * ahead > 0.0 else 0.0


@inlined
def _certain(accelerations, i, reached):
    """
    Unexplained acceleration that the mean lacks, whichever of the last three torques acted.

    A torque may act up to two ticks late, so the acceleration of the last tick is compared with
    those that were commanded at the last three. The difference of least magnitude cannot come from
    the delay, so it need not be averaged; 0 if the differences have both signs, or one is unknown.

    """
    least = reached - accelerations[BEFORE + 2, i] - accelerations[BEFORE, i]
    for row in range(EARLIER, EARLIER + 2):
        other = reached - accelerations[row, i] - accelerations[BEFORE, i]
        if not least * other > 0.0:
            return 0.0
        least = other if np.abs(other) < np.abs(least) else least
    return least


@inlined
def _put_bounds(q, qd, table, quickest, lead, guided, unexplained, lower, upper):
    """
    Write bounds of the accelerations that keep the joints within position and velocity limits.

    Parameters are those of `exceeds`; `lead` is the time for which the unexplained acceleration
    is expected to go on [s]; lower ≤ upper.

    """
    for i in range(len(q)):
        fastest, deceleration, rate = table[SPEED, i], table[DECELERATION, i], table[RATE, i]
        driven = _driven(unexplained[i], qd[i] + lead * unexplained[i], fastest)
        # without a hand, the bounds of a guided arm are the usual ones
        steep = guided * min(np.abs(unexplained[i]) / (rate * fastest), 1.0)
        upper[i] = _ceiling(table[UPPER, i] - q[i], qd[i], fastest, deceleration, rate, quickest,
                            steep)
        lower[i] = -_ceiling(q[i] - table[LOWER, i], -qd[i], fastest, deceleration, rate, quickest,
                             steep)
        upper[i] -= max(driven, 0.0)
        lower[i] -= min(driven, 0.0)
        # if they contradict each other, the limit that the joint moves towards has priority
        if qd[i] > 0.0:
            lower[i] = min(lower[i], upper[i])
        else:
            upper[i] = max(lower[i], upper[i])


@kernel
def exceeds(accelerations, q, qd, table, quickest, guided):
    """
    Compute the bounds of the accelerations; return whether the law exceeds one of them.

    Parameters
    ----------
    accelerations : (ACCELERATION_ROWS, n), overwritten
        Input: row POSTURE, the acceleration of the posture; row TOTAL, the other accelerations of
        the law; from row BEFORE on, these rows at the last ticks (NaN in row BEFORE: no
        acceleration is taken for unexplained). Output: row TOTAL, the sum of both; rows LOWEST and
        HIGHEST, the bounds, with lowest ≤ highest; rows UNEXPLAINED, VELOCITY and COMMANDED, what
        the next tick needs of this one.
    q, qd : (n,)
    table : (8, n)
        See `Limits.table`.
    quickest : float
        Half of the inverse of the time since the last tick [1/s]; 0 at the first.
    guided : float
        Share of the rules of free drive, 0 to 1: 1 in free drive, which begins and ends gradually.

    """
    unexplained = accelerations[UNEXPLAINED]
    is_regular = 2.0 * quickest * LONGEST_TICK >= 1.0 and np.isfinite(accelerations[BEFORE, 0])
    # The second torque after an interruption begins a fade, in which a resistance would fade, too.
    counts = is_regular and not (guided > 0.0 and np.isnan(accelerations[EARLIER, 0]))
    lead = guided * 0.5 / quickest if counts else 0.0
    for i in range(len(q)):
        unexplained[i] = 0.0
        if guided > 0.0 and not is_regular:  # other torques may have acted
            accelerations[BEFORE + 2, i] = accelerations[EARLIER, i] = np.nan
        if counts:
            reached = 2.0 * quickest * (qd[i] - accelerations[BEFORE + 1, i])
            mean, commanded = accelerations[BEFORE, i], accelerations[BEFORE + 2, i]
            weight = AVERAGING[0] + (AVERAGING[1] - AVERAGING[0]) * reckoning(
                qd[i] + lead * (reached - commanded), table[SPEED, i])
            change = weight * (reached - commanded - mean)
            if guided < 1.0:
                most = GRADUAL * table[SPEED, i] / (1.0 - guided)
                change = min(max(change, -most), most)
            if guided > 0.0:
                change += guided * (1.0 - weight) * _certain(accelerations, i, reached)
            unexplained[i] = mean + change
    _put_bounds(q, qd, table, quickest, lead, guided, unexplained, accelerations[LOWEST],
                accelerations[HIGHEST])
    is_beyond = False
    for i in range(len(q)):
        accelerations[TOTAL, i] += accelerations[POSTURE, i]
        accelerations[COMMANDED, i], accelerations[VELOCITY, i] = accelerations[TOTAL, i], qd[i]
        is_beyond = (is_beyond or not accelerations[LOWEST, i] <= accelerations[TOTAL, i]
                     <= accelerations[HIGHEST, i])
    return is_beyond
