# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Bounds of the joint accelerations from the limits of position and velocity.

A joint may approach a position limit only as fast as it can still stop before it. Near its speed
limit, the mean of the acceleration that the torques do not explain is subtracted from the bound:
a person, a contact, a payload, or compensated friction that does not exist may drive the joint.
If the joint responds less than the model, as with an unknown load, this mean follows faster.

In free drive a push begins from one tick to the next. Therefore the bound of the speed is as steep
as the tick length allows, and a part of this acceleration needs no averaging, see `_certain`.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.dynamics.algebra.spatial import smoothed

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
# A joint that moves a load unknown to the model responds less than the model, and this mean
# follows too slowly. Then the weight of the last tick rises: by the first factor of STUBBORN per
# tick, up to the second one. SURPRISING: least difference to the mean that counts, as a share of
# the rate of the bounds times the speed limit. PERSISTS: if less than this share is left of the
# difference after a tick, the joint responds. FAST: share of the speed limit above which this
# counts; a joint that a wall throws back is slower, and must not be pushed into the wall.
STUBBORN, SURPRISING, PERSISTS, FAST = (1.4, 12.0), 0.25, 0.85, 0.8
LONGEST_TICK = 0.02  # a longer tick resets this mean [s]
# If the model has a payload that the arm does not carry, the accelerations are larger than the
# model's by up to `ratio`. The bounds are stable then, too, because two numbers are limited: the
# rate of the bounds, to ABSENT_RATE · quickest / ratio; and the weight of the last tick in the
# mean of the unexplained accelerations, to ABSENT_WEIGHT / (ratio - 1).
ABSENT_RATE, ABSENT_WEIGHT = 1.0, 0.6


@inlined
def _acceleration_towards(gap, fastest, rate, quickest):
    """Largest acceleration of a joint whose speed is `gap` below the allowed one [rad/s, m/s]."""
    # It is rate · gap; `quickest`: highest rate that the tick length allows [1/s]. With EAGERNESS
    # a blocked tool can still push: to the model its force looks like a large acceleration. With
    # HASTE an error of the model causes a smaller excess of speed.
    if gap < 0.0:
        eager = HASTE
    else:
        slow = gap / fastest if gap < fastest else 1.0
        eager = 1.0 + (EAGERNESS - 1.0) * (slow * slow) ** 4
    return gap * min(rate * eager, max(rate, quickest))


@inlined
def ceiling(distance, speed, fastest, deceleration, rate, quickest, share):
    """Largest acceleration of a joint towards a position limit at a distance [rad, m]."""
    # At the allowed speed v the distance is v²/2D + v/rate (D: deceleration, 1/rate: reaction
    # time): a joint within its limits never leaves them. Beyond its limit, or faster than v, it
    # brakes with at most 2D; with share = 1 (free drive) also harder, as a person may push the
    # joint on.
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
    """Unexplained acceleration of a joint that drives it beyond its speed limit, or 0."""
    # `ahead`: the present speed, or in free drive the speed at the next tick without resistance.
    # An acceleration that brakes the joint does not count, because it may end at any time.
    return unexplained_weight(ahead, fastest) * unexplained if unexplained * ahead > 0.0 else 0.0


@inlined
def push_share(d, i, rate):
    """Share of the rules for pushes in free drive: rises to 1 as far as joint i is pushed."""
    return d.guided * min(np.abs(d.unexplained[i]) / (rate * d.most_speed[i]), 1.0)


@inlined
def _certain(d, i, reached):
    """Part of the unexplained acceleration that is missing in the mean and is not due to delay."""
    # A torque may act up to two ticks late, so `reached` is compared with the accelerations
    # commanded at the last three ticks. The difference of least magnitude cannot come from the
    # delay and needs no averaging; 0 if the differences have both signs, or one is unknown.
    least = reached - d.commanded[1, i] - d.unexplained_before[i]
    for ago in range(2, 4):
        other = reached - d.commanded[ago, i] - d.unexplained_before[i]
        if not least * other > 0.0:
            return 0.0
        least = other if np.abs(other) < np.abs(least) else least
    return least


@inlined
def _gain(d, i, surprise):
    """Store the surprise, and return the factor on its weight in the mean, see STUBBORN."""
    before, gain = d.surprise[i], d.surprise_gain[i]
    least, speed = SURPRISING * d.reaction_rate[i] * d.most_speed[i], d.speed_before[i]
    if (surprise * before <= 0.0 or surprise * np.copysign(1.0, speed) <= least
            or np.abs(speed) < FAST * d.most_speed[i]):
        gain = 1.0
    elif np.abs(surprise) > PERSISTS * np.abs(before):
        gain = min(gain * STUBBORN[0], STUBBORN[1])
    d.surprise[i], d.surprise_gain[i] = surprise, gain
    return gain


@inlined
def _put_bounds(m, d, quickest, lead):
    """Write the bounds of the accelerations, lowest ≤ highest."""
    # The unexplained acceleration is expected to last for `lead` seconds. `quickest` is the
    # highest rate that the tick length allows, 1 / (2 Δt) [1/s]; 0 at the first tick.
    slowest, q, qd = np.inf, d.q, d.qd
    if m.payload_ratio > 1.0 and quickest > 0.0:
        slowest = ABSENT_RATE * quickest / m.payload_ratio
    quickest = min(quickest, 2.0 * slowest)
    for i in range(d.n):
        fastest, deceleration = d.most_speed[i], d.deceleration[i]
        rate, push = min(d.reaction_rate[i], slowest), d.unexplained[i]
        driven = _driven(push, qd[i] + lead * push, fastest)
        # in free drive without a push, the usual bounds apply
        steep = push_share(d, i, rate)
        high = ceiling(d.most_q[i] - q[i], qd[i], fastest, deceleration, rate, quickest, steep)
        low = -ceiling(q[i] - d.least_q[i], -qd[i], fastest, deceleration, rate, quickest, steep)
        high -= max(driven, 0.0) + max(d.fading_acceleration[i], 0.0)
        low -= min(driven, 0.0) + min(d.fading_acceleration[i], 0.0)
        # if the bounds contradict each other, the limit ahead of the joint has priority
        d.lowest[i] = min(low, high) if qd[i] > 0.0 else low
        d.highest[i] = high if qd[i] > 0.0 else max(low, high)


@kernel
def exceeds(m, d):
    """Compute the bounds of the accelerations; return whether the law exceeds one of them."""
    # Unexplained: measured minus commanded acceleration, averaged over the ticks (in free drive
    # partly not averaged, see `_certain`). It is set to 0 if that of the last tick is NaN. On
    # entry `qdd_law` is without the acceleration of the posture.
    guided, ratio, qd = d.guided, m.payload_ratio, d.qd
    quickest = 0.5 / d.tick if d.tick > 0.0 else 0.0  # [1/s]
    is_regular = 2.0 * quickest * LONGEST_TICK >= 1.0 and np.isfinite(d.unexplained_before[0])
    # The second torque after an interruption starts a fade; a resistance to a push would fade too.
    counts = is_regular and not (guided > 0.0 and np.isnan(d.commanded[2, 0]))
    lead = guided * 0.5 / quickest if counts else 0.0
    heaviest = ABSENT_WEIGHT / (ratio - 1.0) if ratio > 1.0 else 1.0
    for i in range(d.n):
        d.unexplained[i] = 0.0
        if not counts:
            d.surprise[i], d.surprise_gain[i] = 0.0, 1.0
        if guided > 0.0 and not is_regular:  # other torques may have acted
            d.commanded[1, i] = d.commanded[2, i] = np.nan
        if counts:
            reached = 2.0 * quickest * (qd[i] - d.speed_before[i])
            mean, commanded = d.unexplained_before[i], d.commanded[1, i]
            weight = AVERAGING[0] + (AVERAGING[1] - AVERAGING[0]) * unexplained_weight(
                qd[i] + lead * (reached - commanded), d.most_speed[i])
            surprise = reached - commanded - mean
            change = _gain(d, i, surprise) * min(weight, heaviest) * surprise
            if guided < 1.0:
                most = GRADUAL * d.most_speed[i] / (1.0 - guided)
                change = min(max(change, -most), most)
            if guided > 0.0:
                change += guided * min(1.0 - weight, heaviest) * _certain(d, i, reached)
            d.unexplained[i] = mean + change
    _put_bounds(m, d, quickest, lead)
    is_beyond = False
    for i in range(d.n):
        d.qdd_law[i] += d.qdd_posture[i]
        d.commanded[0, i], d.measured_speed[i] = d.qdd_law[i], qd[i]
        is_beyond = is_beyond or not d.lowest[i] <= d.qdd_law[i] <= d.highest[i]
    return is_beyond
