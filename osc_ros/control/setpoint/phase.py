# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The rate at which the time of a motion passes, 1 at full speed, and the reason that rules it."""

from __future__ import annotations

from typing import Any

from osc_ros.compile.compiled import inlined
from osc_ros.compile.record_type import Slot
from osc_ros.dynamics.algebra.vectors import damped

SETTLED = 1e-9  # deviation of the rate from its goal that is neglected
SLOWEST_STOP = 0.1  # least rate from which a stop uses all of the acceleration limit
# Reasons for a rate: full speed or a stop; speed override; a joint lags; near pairs take motion.
FULL, OVERRIDE, LAG, NEAR = range(4)

PHASE = (
    Slot('rate', (), '', 'rate at which the time of the motion passes; negative: it runs back'),
    Slot('rate_slope', (), '1/s', 'time derivative of `rate`'),
    Slot('reason', (), '', 'what rules the rate: FULL, OVERRIDE, LAG, NEAR of `phase`', int),
    Slot('override', (), '', 'speed override of the last tick, 0 to 1'),
    Slot('calm', (), 's', 'time constant with which the rate follows the speed override'),
    Slot('stops', (), '', 'whether this motion only comes to rest: then the speed override does '
         'not change its rate', bool))


@inlined
def advance_rate(at, override, allowed, reason, settling, dt):
    """Advance the rate, critically damped; return the time passed on the motion's clock [s]."""
    # The rate approaches the speed override, or less if a `reason` has allowed less; then its time
    # constant is `settling` [s] until the rate is back.
    before = at.rate
    wanted, time = before if at.stops else override, at.calm
    if allowed < wanted and not at.stops:
        wanted, at.reason = allowed, reason
    elif at.reason <= OVERRIDE or before >= override:
        at.reason = OVERRIDE if wanted < 1.0 and not at.stops else FULL
    if at.reason > OVERRIDE:
        time = settling
    if before != wanted or at.rate_slope != 0.0:
        rate, slope = damped(before, at.rate_slope, wanted, time, dt)
        least = min(wanted, before, 0.0)
        if rate < least or rate > 1.0:
            rate, slope = min(max(rate, least), 1.0), 0.0
        elif abs(rate - wanted) + time * abs(slope) < SETTLED:
            rate, slope = wanted, 0.0
        at.rate, at.rate_slope = rate, slope
    return 0.5 * (before + at.rate) * dt


@inlined
def stand(at, override):
    """Set the rate of a set-point at rest: the next motion begins with it."""
    at.rate, at.rate_slope, at.reason = override, 0.0, FULL


@inlined
def waits(at):
    """Whether the motion stands, or moves at less than half its speed, as the arm lags."""
    return at.reason == LAG and at.rate < 0.5 * at.override


@inlined
def put_slowed(at, velocity, acceleration):
    """Convert velocity and acceleration (d,) at full speed to those at the rate of the motion."""
    rate, slope = at.rate, at.rate_slope
    for i in range(len(velocity)):
        acceleration[i] = rate * rate * acceleration[i] + slope * velocity[i]
        velocity[i] *= rate


def first_rate(at: Any, fast: float, hard: float) -> float | None:
    """Rate with which the next motion begins; None: with the present rate and its slope."""
    # A rate above the speed override, as in a stop, falls as far as the limits then allow; one
    # that lag or near pairs have lowered rises to the override. `fast`, `hard`: largest ratios of
    # velocity and acceleration to the limits at full speed.
    least = max(fast, hard ** 0.5, at.override)
    return float(min(least, 1.0)) if least < at.rate or at.reason > OVERRIDE else None
