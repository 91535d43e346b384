# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Bounds of the joint accelerations from the limits of position and velocity.

A joint may approach a position limit only as fast as it can still stop before it.

Near its speed limit a joint may also be driven by a person, a contact, a payload, or friction that
is compensated but does not exist. The part of the measured acceleration that the torques do not
explain is averaged, and subtracted from the bound.

In free drive a person moves the joints, and a push begins from one tick to the next. Therefore the
bound of the speed is as steep as the tick length allows, and a part of the unexplained
acceleration counts without averaging, see `_certain`.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.control.limits.limits import DECELERATION, LOWER, RATE, SPEED, UPPER
from osc_ros.dynamics.algebra.fade import smoothed

EAGERNESS = 10.0  # largest factor on the rate, for a joint far below its allowed speed
HASTE = 4.0  # factor on the rate for a joint above its allowed speed
# Rate of convergence to the speed limit in free drive, as a share of the highest rate that the
# tick length allows. With 1, torques that act a tick late oscillate.
GUIDED = 0.6
# Shares of the speed limit between which the weight of the unexplained acceleration rises from 0
# to 1.
WEIGHT_RANGE = 0.5, 0.9
# Weights of the last tick in the mean of the unexplained acceleration, for slow and fast joints;
# with 0.75, torques that act two ticks late oscillate.
AVERAGING = 0.25, 0.5
# Largest change of this mean per tick, as a multiple of the speed limit [1/s]. It excludes hits on
# a hard wall, which are over before torques can act.
GRADUAL = 100.0
LONGEST_TICK = 0.02  # a longer tick resets this mean [s]
# If the model has a payload that the arm does not carry, the accelerations are larger than the
# model's by up to `ratio`. The bounds are stable then, too, because two numbers are limited: the
# rate of the bounds, to ABSENT_RATE · quickest / ratio; and the weight of the last tick in the
# mean of the unexplained accelerations, to ABSENT_WEIGHT / (ratio - 1).
ABSENT_RATE, ABSENT_WEIGHT = 1.0, 0.6
# Rows of `accelerations`: BEFORE and the next two are UNEXPLAINED, VELOCITY and COMMANDED of the
# last tick; EARLIER and the next are COMMANDED of the two ticks before.
TOTAL, LOWEST, HIGHEST, POSTURE, UNEXPLAINED, VELOCITY, COMMANDED, BEFORE = range(8)
EARLIER = BEFORE + 3
ACCELERATION_ROWS = EARLIER + 2


@inlined
def _acceleration_towards(gap, fastest, rate, quickest):
    """
    Largest acceleration of a joint whose speed is below the allowed one by `gap` [rad/s, m/s].

    It is rate · gap, so the speed converges to the allowed one; `quickest` is the highest rate
    that the tick length allows [1/s]. Far below the allowed speed, compared with the limit
    `fastest`, it is up to EAGERNESS times larger, so that a blocked tool can still push: to the
    model its force looks like a large acceleration. Above the allowed speed (gap < 0) the rate is
    HASTE times higher, so that an error of the model causes a smaller excess of speed.

    """
    if gap < 0.0:
        eager = HASTE
    else:
        slow = gap / fastest if gap < fastest else 1.0
        eager = 1.0 + (EAGERNESS - 1.0) * (slow * slow) ** 4
    return gap * min(rate * eager, max(rate, quickest))


@inlined
def ceiling(distance, speed, fastest, deceleration, rate, quickest, share):
    """
    Largest acceleration of a joint towards a position limit at a distance [rad, m].

    At the allowed speed v the stopping distance v²/2D + v/rate equals the distance, with the
    deceleration D and the reaction time 1/rate. The speed converges to v with the rate. v is
    smooth in the distance. A joint that starts within its limits never leaves them. A joint beyond
    its limit, or faster than v, brakes with at most 2D. With share = 1 (free drive), the bound of
    the speed is steeper, and the joint may brake with more than 2D, because a person may push the
    joint on.

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
def unexplained_weight(speed, fastest):
    """Weight of the unexplained acceleration of a joint, 0 to 1; see WEIGHT_RANGE."""
    low, high = WEIGHT_RANGE
    return smoothed((np.abs(speed) / fastest - low) / (high - low))


@inlined
def _driven(unexplained, ahead, fastest):
    """
    Unexplained acceleration of a joint that drives it beyond its speed limit, or 0.

    `ahead` is the present speed, or in free drive the speed at the next tick without resistance.
    An acceleration that brakes the joint does not count, because it may end at any time.

    """
    return unexplained_weight(ahead, fastest) * unexplained if unexplained * ahead > 0.0 else 0.0


@inlined
def _certain(accelerations, i, reached):
    """
    Part of the unexplained acceleration that is missing in the mean and is not due to delay.

    A torque may act up to two ticks late. So the acceleration of the last tick is compared with
    those commanded at the last three ticks. The difference of least magnitude cannot come from the
    delay, so it needs no averaging; 0 if the differences have both signs, or one is unknown.

    """
    least = reached - accelerations[BEFORE + 2, i] - accelerations[BEFORE, i]
    for row in range(EARLIER, EARLIER + 2):
        other = reached - accelerations[row, i] - accelerations[BEFORE, i]
        if not least * other > 0.0:
            return 0.0
        least = other if np.abs(other) < np.abs(least) else least
    return least


@inlined
def _put_bounds(accelerations, q, qd, table, quickest, lead, guided, ratio):
    """
    Write the rows LOWEST and HIGHEST, lowest ≤ highest; for the arguments see `exceeds`.

    The unexplained acceleration is expected to last for `lead` seconds.

    """
    lower, upper = accelerations[LOWEST], accelerations[HIGHEST]
    unexplained = accelerations[UNEXPLAINED]
    slowest = ABSENT_RATE * quickest / ratio if ratio > 1.0 and quickest > 0.0 else np.inf
    quickest = min(quickest, 2.0 * slowest)
    for i in range(len(q)):
        fastest, deceleration, rate = table[SPEED, i], table[DECELERATION, i], table[RATE, i]
        rate = min(rate, slowest)
        driven = _driven(unexplained[i], qd[i] + lead * unexplained[i], fastest)
        # in free drive without a push, the usual bounds apply
        steep = guided * min(np.abs(unexplained[i]) / (rate * fastest), 1.0)
        upper[i] = ceiling(table[UPPER, i] - q[i], qd[i], fastest, deceleration, rate, quickest,
                           steep)
        lower[i] = -ceiling(q[i] - table[LOWER, i], -qd[i], fastest, deceleration, rate, quickest,
                            steep)
        upper[i] -= max(driven, 0.0)
        lower[i] -= min(driven, 0.0)
        # if the bounds contradict each other, the limit ahead of the joint has priority
        if qd[i] > 0.0:
            lower[i] = min(lower[i], upper[i])
        else:
            upper[i] = max(lower[i], upper[i])


@kernel
def exceeds(accelerations, q, qd, table, quickest, guided, ratio):
    """
    Compute the bounds of the accelerations; return whether the law exceeds one of them.

    The unexplained acceleration of a joint is the measured acceleration minus the commanded one,
    averaged over the ticks (in free drive partly without averaging, see `_certain`). Its causes
    are for example a person, a contact or a payload.

    Parameters
    ----------
    accelerations : (ACCELERATION_ROWS, n), overwritten [rad/s², m/s²; VELOCITY: rad/s, m/s]
        Input, of this tick: row POSTURE, the acceleration of the posture; row TOTAL, the sum of
        all other accelerations of the law. Input, of the last ticks: row BEFORE and all rows after
        it, see their comment. NaN in row BEFORE: the unexplained acceleration is set to zero.

        Output: row TOTAL, now with the acceleration of the posture; rows LOWEST and HIGHEST, the
        bounds, lowest ≤ highest. Output for the next tick: row UNEXPLAINED, the unexplained
        acceleration; row VELOCITY, `qd`; row COMMANDED, a copy of row TOTAL.
    q, qd : (n,)
    table : (8, n)
        `Limits.table`.
    quickest : float
        1 / (2 Δt), where Δt is the time since the last tick [1/s]; 0 at the first tick.
    guided : float
        Weight of the rules for free drive, 0 to 1; it changes gradually.
    ratio : float
        See `limits.payload_ratio`.

    """
    unexplained = accelerations[UNEXPLAINED]
    is_regular = 2.0 * quickest * LONGEST_TICK >= 1.0 and np.isfinite(accelerations[BEFORE, 0])
    # The second torque after an interruption starts a fade; a resistance to a push would fade too.
    counts = is_regular and not (guided > 0.0 and np.isnan(accelerations[EARLIER, 0]))
    lead = guided * 0.5 / quickest if counts else 0.0
    heaviest = ABSENT_WEIGHT / (ratio - 1.0) if ratio > 1.0 else 1.0
    for i in range(len(q)):
        unexplained[i] = 0.0
        if guided > 0.0 and not is_regular:  # other torques may have acted
            accelerations[BEFORE + 2, i] = accelerations[EARLIER, i] = np.nan
        if counts:
            reached = 2.0 * quickest * (qd[i] - accelerations[BEFORE + 1, i])
            mean, commanded = accelerations[BEFORE, i], accelerations[BEFORE + 2, i]
            weight = AVERAGING[0] + (AVERAGING[1] - AVERAGING[0]) * unexplained_weight(
                qd[i] + lead * (reached - commanded), table[SPEED, i])
            change = min(weight, heaviest) * (reached - commanded - mean)
            if guided < 1.0:
                most = GRADUAL * table[SPEED, i] / (1.0 - guided)
                change = min(max(change, -most), most)
            if guided > 0.0:
                change += (guided * min(1.0 - weight, heaviest)
                           * _certain(accelerations, i, reached))
            unexplained[i] = mean + change
    _put_bounds(accelerations, q, qd, table, quickest, lead, guided, ratio)
    is_beyond = False
    for i in range(len(q)):
        accelerations[TOTAL, i] += accelerations[POSTURE, i]
        accelerations[COMMANDED, i], accelerations[VELOCITY, i] = accelerations[TOTAL, i], qd[i]
        is_beyond = (is_beyond or not accelerations[LOWEST, i] <= accelerations[TOTAL, i]
                     <= accelerations[HIGHEST, i])
    return is_beyond
