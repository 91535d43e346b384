# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Bounds of the gains for the period and delay of the control loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import math
from typing import Any

from osc_ros.control.tasks.bandwidth import (
    DELAY,
    largest_damping_rate,
    largest_damping_ratio,
    largest_integral_rate,
    largest_natural_frequency,
    largest_repulsion_frequency,
    LEAST_REACTION,
    longest_period,
)
from osc_ros.errors import InputError

USUAL_RATIO = 2.0  # above this damping ratio, the error names the ratio, not the frequency
ROUNDING = 1e-9  # relative tolerance, so that a gain at its bound is accepted

# Name of the parameter, its value, its bound, whether that is a lower bound, and a text on the
# other gains that the bound depends on.
_Bound = tuple[str, float, float, bool, str]


def require_bandwidth(found: Mapping[str, Any], period: float, delay: float = DELAY,
                      before: Mapping[str, Any] | None = None) -> None:
    """Raise InputError if a gain is too high for a loop of this period [s] and delay [periods]."""
    # Stiffnesses are not refused: their bound depends on the pose, and the law enforces it. When
    # the delay has grown, a gain of the present parameters `before` may exceed its bound already:
    # the other gains can still be changed.
    known: dict[str, float] = {}
    for bound in [] if before is None else _bounds(before, period, delay):
        known[bound[0]] = max(known.get(bound[0], 1.0), _excess(bound))
    for bound in _bounds(found, period, delay):
        name, value, most, is_least, given = bound
        if _excess(bound) > known.get(name, 1.0) + ROUNDING:
            side = 'least' if is_least else 'most'
            raise InputError(
                f"parameter '{name}' is {value:g}: must be at {side}"
                f' {_rounded(most, is_least):g} at {1.0 / period:g} Hz with a delay of '
                f'{delay:.1f} periods{given}')


def changes_within_bandwidth(found: Mapping[str, Any], period: float) -> dict[str, Any]:
    """Return new values for the gains that `require_bandwidth` refuses at this period [s]."""
    changes: dict[str, Any] = {}
    for bound in _bounds(found, period, DELAY):
        name, value, most, is_least, _ = bound
        if _excess(bound) <= 1.0 + ROUNDING:
            continue
        before = changes.get(name, found[name])
        after = float(f'{_rounded(most, is_least):.6g}')
        changes[name] = (tuple(after if x == value else x for x in before)
                         if isinstance(before, tuple) else after)
    return changes


def _excess(bound: _Bound) -> float:
    """Return the ratio of a gain to its bound (inverted for a lower bound); above 1: refused."""
    _, value, most, is_least, _ = bound
    if is_least:
        value, most = most, value
    return value / most if most > 0.0 else math.inf if value > 0.0 else 0.0


def _rounded(bound: float, is_least: bool) -> float:
    """Return a bound rounded to four digits towards the accepted side."""
    if bound <= 0.0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(bound)) - 3)
    digits = bound / unit
    return (math.ceil(digits - 1e-6) if is_least else math.floor(digits + 1e-6)) * unit


def _bounds(found: Mapping[str, Any], period: float, delay: float) -> Iterator[_Bound]:
    fastest = largest_damping_rate(period, delay)
    if found['mode'] == 'acceleration':
        for part in ('translation', 'rotation'):
            frequencies = found[f'{part}.natural_frequency']
            ratios = found[f'{part}.damping_ratio']
            for frequency, ratio in dict.fromkeys(zip(frequencies, ratios)):
                yield from _second_order(part, frequency, ratio, period, delay)
    for name in found['tasks']:
        yield from _second_order(name, found[f'{name}.natural_frequency'],
                                 found[f'{name}.damping_ratio'], period, delay)
    yield from _posture(found, period, delay, fastest)
    yield 'free.rate', found['free.rate'], fastest, False, ''
    yield 'force.damping', found['force.damping'], fastest, False, ''
    yield ('force.integral_rate', found['force.integral_rate'],
           largest_integral_rate(found['force.damping'], found['force.gain']), False,
           f", with force.damping {found['force.damping']:g} and force.gain "
           f"{found['force.gain']:g}")
    yield ('stop_rate', found['stop_rate'], largest_natural_frequency(1.0, period, delay), False,
           '')
    yield ('limits.reaction_time', found['limits.reaction_time'],
           LEAST_REACTION * period * (0.5 + delay) / (0.5 + DELAY), True, '')


def _second_order(prefix: str, frequency: float, ratio: float, period: float, delay: float
                  ) -> Iterator[_Bound]:
    """Yield the bound of the natural frequency [rad/s] of a second-order loop."""
    most = largest_damping_ratio(frequency, period, delay)
    if most > 0.0 and ratio > max(most, USUAL_RATIO):  # first, so that an error names the ratio
        yield (f'{prefix}.damping_ratio', ratio, most, False,
               f', with natural_frequency {frequency:g}')
    yield (f'{prefix}.natural_frequency', frequency,
           largest_natural_frequency(ratio, period, delay), False,
           f', with damping_ratio {ratio:g}')


def _posture(found: Mapping[str, Any], period: float, delay: float, fastest: float
             ) -> Iterator[_Bound]:
    frequency, ratio = found['posture.natural_frequency'], found['posture.damping_ratio']
    damping, push = found['posture.damping'], found['limits.repulsion']
    yield 'posture.damping', damping, fastest, False, ''
    rate = max(2.0 * ratio * frequency, damping)
    if frequency > 0.0 and longest_period(frequency, rate, 0.0, delay) < period:
        yield from _second_order('posture', frequency, rate / (2.0 * frequency), period, delay)
    if found['limits.soft_zone'] > 0.0:
        yield ('limits.repulsion', push,
               largest_repulsion_frequency(rate, frequency, period, delay), False,
               f', with a damping of the posture of {rate:g} 1/s')
