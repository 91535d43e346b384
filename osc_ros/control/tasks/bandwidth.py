# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Largest stable gains (bandwidth) of a sampled loop, for its period and delay.

With the inverse dynamics every axis of a task and every joint of the posture is a double
integrator. Its feedback u = -ω² e - r ė (r = 2ζω) is computed from samples with a period T. It
acts from d periods after its sample on, for one period. With a = (ωT)² and b = rT the
characteristic equation of this loop is, for an integer d,

    zᵈ (z - 1)² + b (z - 1) + a (z + 1)/2 = 0,

and it has a root on the unit circle at the angle θ for

    a = 4 sin²(θ/2) cos((d + ½) θ) / cos(θ/2),    b = 2 sin(θ/2) sin((d + ½) θ).

For 0 ≤ θ ≤ π/(2d + 1) this curve is the boundary of the stable gains (D-partition; for d = 1 it
agrees with Jury's criterion, b - 3a/2 > (b - a/2)²). Source for sampled loops with delay, Jury's
criterion and margins: Franklin, Powell, Workman, Digital Control of Dynamic Systems.

Gains are accepted if

1. the loop is stable at twice the gain (GAIN_MARGIN), as for an arm with half the model's inertia;
2. the delay reduces the damping by at most a third (DAMPING_LEFT): (d + ½) ωT ≤ 2ζ/3.

With a delay of one period these conditions are rT ≤ 1/2 for a damper alone (ω = 0), and
ωT ≤ 0.2327 for a damping ratio of 1, with a phase margin of 35 degrees. For damping ratios below
0.68 the second condition is the stricter one; the phase margin is then more than half of the
phase margin without delay.
"""

from __future__ import annotations

import cmath
from functools import lru_cache
import math

from osc_ros.errors import InputError

GAIN_MARGIN = 2.0
ABSENT_MARGIN = 1.6  # part of GAIN_MARGIN that a missing payload may use up
DAMPING_LEFT = 2.0 / 3.0  # least fraction of the damping that remains with the delay
PERIOD_SHARE = 0.125  # weight of the last tick in the mean period
PERIOD_CHANGE = 0.01  # relative change of the mean period after which gains are computed again
# Up to this delay of the torques, the limits account for unexplained accelerations [periods].
COUNTED_DELAY = 2.5
DELAY = 1.0  # delay of a driver that applies a command in its next cycle [periods]
# Least reaction time of the braking before joint limits [periods]. The braking is as stiff as a
# task with the natural frequency 1 / reaction_time and the damping ratio 1. Its gain margin is
# 1.9 at one period of delay.
LEAST_REACTION = 4.0

_BISECTIONS = 60


def largest_natural_frequency(damping_ratio: float, period: float, delay: float = DELAY) -> float:
    """Largest natural frequency [rad/s] of a loop with a damping ratio; 0 without damping."""
    # `period` [s]; `delay`: from a sample to its torque [periods], need not be an integer.
    # InputError: period not positive, delay less than 1, negative ratio.
    _require(damping_ratio >= 0.0, 'damping ratio', damping_ratio, '0 or more')
    _require(period > 0.0, 'period', period, 'more than 0 s')
    return _largest_product(float(damping_ratio), _delay(delay)) / period


@lru_cache(maxsize=1024)  # settings are taken over between two states
def largest_damping_rate(period: float, delay: float = DELAY,
                         natural_frequency: float = 0.0) -> float:
    """Largest damping rate r = 2ζω [1/s]; 0 if ω [rad/s] is too high for any damping rate."""
    # Other parameters and errors: `largest_natural_frequency`.
    _require(period > 0.0, 'period', period, 'more than 0 s')
    _require(natural_frequency >= 0.0, 'natural frequency', natural_frequency, '0 or more')
    delay = _delay(delay)
    wanted = GAIN_MARGIN * (natural_frequency * period) ** 2
    peak, last = _angles(delay)
    if wanted > _boundary(peak, delay)[0]:
        return 0.0
    lower, upper = peak, last
    for _ in range(_BISECTIONS):
        middle = 0.5 * (lower + upper)
        if _boundary(middle, delay)[0] >= wanted:
            lower = middle
        else:
            upper = middle
    rate = _boundary(lower, delay)[1] / (GAIN_MARGIN * period)
    least = (delay + 0.5) * natural_frequency ** 2 * period / (1.0 - DAMPING_LEFT)
    return rate if rate >= least else 0.0


def largest_damping_ratio(natural_frequency: float, period: float, delay: float = DELAY) -> float:
    """Largest damping ratio; 0 if the natural frequency [rad/s] is too high for any ratio."""
    # Other parameters and errors: `largest_natural_frequency`.
    _require(natural_frequency > 0.0, 'natural frequency', natural_frequency, 'more than 0')
    return largest_damping_rate(period, delay, natural_frequency) / (2.0 * natural_frequency)


def longest_period(natural_frequency: float, damping_rate: float, push: float = 0.0,
                   delay: float = DELAY) -> float:
    """Longest sampling period [s] for which the gains of a loop are accepted; may be infinite."""
    # The gains are ω [rad/s] and r = 2ζω [1/s]; `push` [rad/s]: see `largest_repulsion_frequency`;
    # `delay` [periods].
    if push > 0.0:
        total = math.hypot(natural_frequency, math.sqrt(2.0) * push)
        return min(longest_period(natural_frequency, damping_rate, 0.0, delay),
                   _largest_product(damping_rate / (2.0 * total), _delay(delay), 0.0, 1.5) / total)
    if natural_frequency > 0.0:
        ratio = damping_rate / (2.0 * natural_frequency)
        return largest_natural_frequency(ratio, 1.0, delay) / natural_frequency
    return largest_damping_rate(1.0, delay) / damping_rate if damping_rate > 0.0 else math.inf


def stretch(ratio: float) -> float:
    """Factor on the period in the bounds of the gains: stable also without the model's payload."""
    # Without it all accelerations are larger by up to `ratio`, see `limits.payload_ratio`.
    return max(1.0, ratio / ABSENT_MARGIN)


@lru_cache(maxsize=1024)
def largest_repulsion_frequency(damping_rate: float, natural_frequency: float, period: float,
                 delay: float = DELAY, margin: float = 1.5) -> float:
    """Largest natural frequency [rad/s] of the push that moves a joint away from a limit."""
    # In the soft zone the push adds at most twice its square to the square of the posture's
    # frequency; only the posture's damping [1/s] damps the sum. A gain margin of 1.5, less than
    # the posture's own, allows a push with the stiffest posture. The limit itself brakes the
    # joint, so the condition on the damping does not apply.
    delay, b = _delay(delay), margin * damping_rate * period
    lower, upper = 0.0, _angles(delay)[1]
    if b > _boundary(upper, delay)[1]:
        return 0.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (lower + upper)
        if middle > 0.0 and _boundary(middle, delay)[1] > b:
            upper = middle
        else:
            lower = middle
    a = _boundary(upper, delay)[0] / margin / period ** 2
    return math.sqrt(max(a - natural_frequency ** 2, 0.0) / 2.0)


def largest_integral_rate(damping: float, gain: float = 0.0) -> float:
    """Largest stable rate [1/s] of the integral of a force error, for any contact stiffness."""
    # `damping`: rate of the link along the axis of force [1/s], at most `largest_damping_rate`;
    # `gain`, 0 to 1: of the proportional part, behind a low-pass filter of the rate damping / 2.
    return (1.0 - gain) * damping / GAIN_MARGIN


@lru_cache(maxsize=1024)
def _largest_product(ratio: float, delay: float, left: float = DAMPING_LEFT,
                     margin: float = GAIN_MARGIN) -> float:
    """Largest ωT for a damping ratio if the fraction `left` of the damping must remain."""
    if ratio == 0.0:
        return 0.0
    wanted = 4.0 * ratio * ratio * margin  # b²/a on the boundary, which grows with the angle
    lower, upper = 0.0, _angles(delay)[1]
    for _ in range(_BISECTIONS):
        middle = 0.5 * (lower + upper)
        a, b = _boundary(middle, delay)
        if b * b < wanted * a:
            lower = middle
        else:
            upper = middle
    b = _boundary(lower, delay)[1] if lower > 0.0 else 0.0
    return min(b / (2.0 * ratio * margin), 2.0 * ratio * (1.0 - left) / (delay + 0.5))


def _boundary(angle: float, delay: float) -> tuple[float, float]:
    """(ωT)² and rT for which the loop has a root on the unit circle at an angle [rad]."""
    # With a delay of N + f periods, 0 ≤ f < 1, the input during the first fraction f of a period
    # comes from the sample N + 1 periods ago, later N periods ago (modified z-transform).
    whole = math.floor(delay)
    f = delay - whole
    z = cmath.exp(1j * angle)
    speed = ((1.0 - f) + f / z) / (z - 1.0)
    place = (speed + 0.5 * (1.0 - f) ** 2 + f * (1.0 - 0.5 * f) / z) / (z - 1.0)
    # solve a · place + b · speed = -z^N for real a and b
    back, across = -z ** whole, (place * speed.conjugate()).imag
    return ((back * speed.conjugate()).imag / across, -(back * place.conjugate()).imag / across)


@lru_cache(maxsize=64)
def _angles(delay: float) -> tuple[float, float]:
    """Angles θ [rad] of the root on the boundary at the highest ω, and at ω = 0."""
    whole = math.floor(delay)
    lower, upper = math.pi / (2.0 * whole + 3.0), math.pi / (2.0 * whole + 1.0)
    if delay == whole:
        lower = upper * (1.0 - 1e-12)
    for _ in range(_BISECTIONS):
        last = 0.5 * (lower + upper)
        if _boundary(last, delay)[0] > 0.0:
            lower = last
        else:
            upper = last
    first, peak_end = 0.0, lower
    for _ in range(2 * _BISECTIONS):  # ternary search for the maximum of a
        left, right = (2.0 * first + peak_end) / 3.0, (first + 2.0 * peak_end) / 3.0
        if _boundary(left, delay)[0] < _boundary(right, delay)[0]:
            first = left
        else:
            peak_end = right
    return 0.5 * (first + peak_end), lower


def _delay(delay: float) -> float:
    _require(1.0 <= delay < math.inf, 'delay', delay, '1 period or more')
    return float(delay)


def _require(accepted: bool, name: str, value: float, what: str) -> None:
    if not accepted:
        raise InputError(f'{name} {value}: give {what}')
