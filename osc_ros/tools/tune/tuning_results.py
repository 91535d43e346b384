# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""All results of a tuning: numbers for JSON, and the printed lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
import math
from typing import Any, TextIO

import numpy as np

from osc_ros.commandline import colored_text, json_values
from osc_ros.tools.check.findings import AXES
from osc_ros.tools.tune.advice import Advice, Recommendation
from osc_ros.tools.tune.experiments import AxisResponse
from osc_ros.tools.tune.measurement import Measurement, Row, SCORES
from osc_ros.tools.tune.robustness import Robustness
from osc_ros.tools.tune.subject import ENCODER_BITS, Subject


@dataclass(frozen=True, eq=False)
class Results:
    """All results of a tuning."""

    subject: Subject
    advice: Advice
    options: list[Recommendation]  # optional improvements
    robustness: Robustness  # with the recommended parameters
    notes: tuple[str, ...]  # on chosen and refused parameters, from before the first experiment

    @property
    def verdict(self) -> str:
        """One sentence: the parameters are good, or were improved, or a problem remains."""
        if self.advice.unsolved:
            return ('not solved: ' + ', '.join(self.advice.unsolved)
                    + '; no parameter that was tried helps')
        if self.advice.changes:
            return 'better with the parameters below, which were simulated'
        return 'the arm meets its settings: nothing has to be changed'


def bandwidth(found: Measurement, axis: int, of: str) -> float:
    """Return the frequency at which the gain of an axis falls to 1/√2 [rad/s]; NaN if never."""
    for one in found.spectra:
        if one.axis == axis:
            gain = np.abs(getattr(one, of))
            below = np.flatnonzero(gain < math.sqrt(0.5))
            if len(below) == 0 or below[0] == 0:
                return math.nan
            k = int(below[0])
            rise = np.log(gain[k - 1:k + 1])
            share = (rise[0] - 0.5 * math.log(0.5)) / (rise[0] - rise[1])
            return float(one.frequency[k - 1] * (
                one.frequency[k] / one.frequency[k - 1])**share)
    return math.nan


def met_texts(one: AxisResponse) -> tuple[str, str]:
    """Return texts with the measured natural frequency and damping ratio of an axis."""
    # The sign '~' marks a poor second-order fit.
    if not one.shape.is_stable:
        return '-', '-'
    mark = '' if one.shape.is_second_order else '~'
    return f'{mark}{one.shape.natural_frequency:.1f}', f'{mark}{one.shape.damping_ratio:.2f}'


def error_text(one: AxisResponse) -> str:
    """Return the error at rest of an axis with its unit."""
    if not one.shape.is_stable:
        return 'not at rest'
    return f'{1e3 * one.error:.3f} mm' if one.axis > 2 else f'{np.degrees(one.error):.3f}°'


def time_text(seconds: float) -> str:
    """Return a time with its unit; 'never' if it is infinite."""
    return f'{seconds:.3f} s' if np.isfinite(seconds) else 'never'


def lines(found: Results, stream: TextIO) -> Iterator[str]:
    """Yield the lines to print; colours depend on `stream`."""
    first, subject = found.advice.first, found.subject
    for note in found.notes:
        yield f'note: {note}'
    yield (f'{"axis":12} {"natural frequency":>19} {"damping ratio":>15} {"overshoot":>15} '
           f'{"settling":>17} {"error":>12}')
    yield (f'{"":12} {"[rad/s] set  met":>19} {"set  met":>15} {"set  met":>15} {"set  met":>17} '
           f'{"at rest":>12}')
    for one in first.steps.axes:
        want, met = one.wanted_shape, one.shape
        frequency, ratio = met_texts(one)
        row = (f'{AXES[one.axis]:12} {want.natural_frequency:11.1f} {frequency:>7} '
               f'{want.damping_ratio:9.2f} {ratio:>5} {want.overshoot:9.1%} '
               f'{met.overshoot:5.1%} {time_text(want.settling):>9} '
               f'{time_text(met.settling):>7} {error_text(one):>12}')
        is_well = met.is_stable and met.overshoot <= want.overshoot + 0.1
        yield row if is_well else colored_text(row, 'bad', stream)
    if any(not one.shape.is_second_order and one.shape.is_stable for one in first.steps.axes):
        yield '~: not a response of second order, because of the delay or of friction'
    if first.steps.failure:
        yield colored_text(f'stopped: {first.steps.failure}', 'bad', stream)
    motion, noise = first.motion, first.noise
    yield ''
    yield (f'motion of {1e3 * motion.distance:.0f} mm: {motion.torque.max():.0%} of a torque '
           f'limit, {motion.speed.max():.0%} of a speed limit, limits at work for '
           f'{motion.limited:.0%} of the time')
    yield (f'noise of encoders of {ENCODER_BITS} bits: {noise.share.max():.2%} of a torque limit; '
           f'an update takes {1e6 * first.steps.update[0]:.0f} us here (p99 '
           f'{1e6 * first.steps.update[1]:.0f} us) of a period of {1e6 * subject.period:.0f} us')
    yield ''
    if found.advice.changes:
        yield 'with the changes below:'
    yield from _table(found.robustness, stream)
    yield ''
    for name in first.wrong:
        yield colored_text(f'WRONG: {name}: wanted is: {SCORES[name]} (score '
                           f'{first.scores[name]:.1f}, 1 is accepted)', 'bad', stream)
    for given in (*found.advice.recommendations, *found.options):
        head = 'OPTION' if given.is_optional else 'CHANGE'
        yield colored_text(f'{head}: {changes_text(given.candidate.changes)}', 'strong', stream)
        yield f'  because {given.candidate.reason}'
        yield f'  {given.gain}'
    color = 'bad' if found.advice.unsolved else 'good'
    yield colored_text(found.verdict, color, stream)


def _table(found: Robustness, stream: TextIO) -> Iterator[str]:
    yield f'{"arm":32} {"overshoot":>10} {"settling":>10} {"error at rest":>22}'
    for row in found.rows:
        text = f'{row.variant.name:32} ' + ' '.join(
            f'{cell:>{width}}' for cell, width in zip(cells(row), (10, 10, 22)))
        yield text if row.is_stable else colored_text(text, 'bad', stream)


def cells(row: Row) -> tuple[str, str, str]:
    """Return texts with the overshoot, settling time and error of a row."""
    if not row.is_stable:
        return 'not at rest', '-', row.steps.failure[:60] or '-'
    return (f'{row.overshoot:.1%}', time_text(row.settling),
            f'{np.degrees(row.error[0]):.3f}°, {1e3 * row.error[1]:.3f} mm')


def changes_text(changes: dict[str, Any]) -> str:
    """Return changed parameters and their values in one line."""
    return ', '.join(f'{name}: {list(value) if isinstance(value, tuple) else value}'
                     for name, value in changes.items())


def numbers(found: Results) -> dict[str, Any]:
    """Return all results for JSON; numbers that are not finite become null."""
    advice = found.advice
    found_numbers: dict[str, Any] = json_values({
        'robot': found.subject.law.robot.name, 'period [s]': found.subject.period,
        'delay [s]': found.subject.delay, 'verdict': found.verdict, 'notes': found.notes,
        'before': _measurement_numbers(advice.first),
        'with the changes': _measurement_numbers(advice.last),
        'changes': advice.changes, 'unsolved': advice.unsolved,
        'recommendations': [_recommendation_numbers(one) for one in advice.recommendations],
        'options': [_recommendation_numbers(one) for one in found.options],
        'tried in vain': [{'for': one.score, 'changes': one.changes} for one in advice.tried],
        'robustness': [{
            'arm': row.variant.name, 'comes to rest': row.is_stable, 'overshoot': row.overshoot,
            'settling [s]': row.settling, 'error [rad, m]': row.error,
            'failure': row.steps.failure} for row in found.robustness.rows],
        'map': {'delay [s]': found.robustness.delays, 'factor of the natural frequencies':
                found.robustness.factors, 'overshoot': found.robustness.overshoot}})
    return found_numbers


def _recommendation_numbers(one: Recommendation) -> dict[str, Any]:
    return {'for': one.candidate.score, 'reason': one.candidate.reason,
            'changes': one.candidate.changes, 'score before': one.before,
            'score after': one.after, 'measured': one.gain}


def _measurement_numbers(found: Measurement) -> dict[str, Any]:
    return {
        'axes': {AXES[one.axis]: {
            'step [rad, m]': one.amplitude,
            'natural frequency [rad/s]': {'set': one.wanted_shape.natural_frequency,
                                          'met': one.shape.natural_frequency},
            'damping ratio': {'set': one.wanted_shape.damping_ratio,
                              'met': one.shape.damping_ratio},
            'misfit of second order': one.shape.misfit,
            'overshoot': {'set': one.wanted_shape.overshoot, 'met': one.shape.overshoot},
            'settling [s]': {'set': one.wanted_shape.settling, 'met': one.shape.settling},
            'bandwidth [rad/s]': {'set': bandwidth(found, one.axis, 'wanted'),
                                  'met': bandwidth(found, one.axis, 'met')},
            'error at rest [rad, m]': one.error, 'coupling [rad, m]': one.coupling,
            'torque share': one.torque} for one in found.steps.axes},
        'failure': found.steps.failure, 'gain share': found.steps.gain_share,
        'update [s]': {'p50': found.steps.update[0], 'p99': found.steps.update[1]},
        'noise': {'by position [N m]': found.noise.by_position,
                  'by velocity [N m]': found.noise.by_velocity, 'share': found.noise.share},
        'motion': {'distance [m]': found.motion.distance, 'torque share': found.motion.torque,
                   'speed share': found.motion.speed, 'limited': found.motion.limited,
                   'error [rad, m]': found.motion.error, 'failure': found.motion.record.failure},
        'scores': found.scores}
