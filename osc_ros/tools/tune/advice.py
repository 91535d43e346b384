# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Recommended parameter changes, each of which improves a score in the simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from osc_ros.control.tasks.bandwidth import DELAY, largest_natural_frequency
from osc_ros.errors import OscError
from osc_ros.tools.tune.measurement import Laboratory, Measurement, Row, SCORES
from osc_ros.tools.tune.robustness import Robustness
from osc_ros.tools.tune.rules import Candidate, candidates, PARTS, scaled_gains

ROUNDS = 6  # largest number of recommendations, applied one after another
BETTER = 0.8  # a score that stays above 1 must fall below this share of its old value
FASTER = 1.5  # smallest increase of the natural frequencies that is recommended, as a factor


@dataclass(frozen=True, eq=False)
class Recommendation:
    """A parameter change that improves a score in the simulation."""

    candidate: Candidate  # the score that improves, the reason, and the parameters
    before: float  # score without the change
    after: float  # score with the change
    is_optional: bool = False  # all scores are good without it; not in the user's new parameters
    gain: str = ''  # text: measured quantity of this score before and with the change


@dataclass(frozen=True, eq=False)
class Advice:
    """All recommendations, and the measurements without and with them."""

    first: Measurement  # with the user's parameters
    last: Measurement  # with the recommended parameters
    recommendations: list[Recommendation]
    tried: list[Candidate]  # simulated changes that did not help

    @property
    def unsolved(self) -> list[str]:
        """Names of the scores that are still above 1."""
        return self.last.wrong

    @property
    def changes(self) -> dict[str, Any]:
        """Recommended parameters, without optional ones."""
        found: dict[str, Any] = {}
        for one in self.recommendations:
            if not one.is_optional:
                found.update(one.candidate.changes)
        return found


def advice(laboratory: Laboratory, first: Measurement) -> Advice:
    """Return the recommendations for a first measurement; each of them is simulated."""
    # The first candidate that improves its score, and lets no other score rise above 1, is
    # applied. Then `rules` gives candidates for the new measurement, up to ROUNDS times.
    last, given = first, []
    tried: list[Candidate] = []
    for _ in range(ROUNDS):
        for candidate in candidates(last, laboratory) if last.wrong else ():
            after = _measurement_with(laboratory, last, candidate)
            if after is not None and _is_better(last, after, candidate.score):
                given.append(Recommendation(candidate, last.scores[candidate.score],
                                            after.scores[candidate.score],
                                            gain=_gain(last, after, candidate.score)))
                last = after
                break
            tried.append(candidate)
        else:
            break
    return Advice(first, last, given, tried)


def _measurement_with(laboratory: Laboratory, found: Measurement, candidate: Candidate
           ) -> Measurement | None:
    """Return the measurement with a candidate's parameters; None if these are refused."""
    names = ', '.join(candidate.changes)
    try:
        return laboratory.measure({**found.values, **candidate.changes}, f'trying {names}')
    except OscError:
        return None


def _is_better(before: Measurement, after: Measurement, score: str) -> bool:
    """Return whether `score` falls below 1 or by 20 %, and no other score rises above 1."""
    has_helped = after.scores[score] < max(1.0, BETTER * before.scores[score])
    return has_helped and all(after.scores[name] <= max(1.0, 1.05 * before.scores[name])
                              for name in SCORES)


def _gain(before: Measurement, after: Measurement, score: str) -> str:
    """Return a text with the measured quantity of a score before and after a change."""
    def figure(found: Measurement) -> str:
        if score in ('stability', 'overshoot'):
            if found.scores['stability'] > 1.0:
                return 'not at rest'
            return f'{max(one.shape.overshoot for one in found.steps.axes):.1%}'
        if score == 'error':
            errors = [max((one.error for one in found.steps.axes if one.axis // 3 == part),
                          default=0.0) for part in (0, 1)]
            return f'{np.degrees(errors[0]):.3f} degrees, {1e3 * errors[1]:.3f} mm'
        return f"""{ {'torque': found.motion.torque.max(), 'speed': found.motion.speed.max(),
                      'noise': found.noise.share.max(),
                      'gains': found.steps.gain_share}[score]:.1%}"""

    what = {'stability': 'overshoot', 'error': 'error at rest', 'torque': 'of a torque limit',
            'speed': 'of a speed limit', 'noise': 'noise, of a torque limit',
            'gains': 'of the gains in force'}.get(score, score)
    return f'{what}: {figure(before)} before, {figure(after)} with it (simulated)'


def options(laboratory: Laboratory, found: Measurement, table: Robustness
            ) -> Iterator[Recommendation]:
    """Yield optional recommendations, each simulated."""
    for option in (_observer(laboratory, found, table), _faster(laboratory, found)):
        if option is not None:
            yield option


def _observer(laboratory: Laboratory, found: Measurement, table: Robustness
              ) -> Recommendation | None:
    """Return the recommendation of a disturbance observer; None if it would not help."""
    # It helps if wrong masses or friction in the model cause errors.
    if found.values['disturbance.mode'] != 'none':
        return None
    rows = [row for row in table.rows if row.variant.masses != 1.0
            or row.variant.friction is not None]
    worst: Row = max(rows, key=lambda row: row.scores['error'])
    if worst.scores['error'] <= 1.0 or not worst.is_stable:
        return None
    robot = laboratory.subject.law.robot
    friction = max(float(np.where(np.isfinite(robot.effort_limits), robot.effort_limits, 0.0).max()
                         * (worst.variant.friction or 0.0)), 1.0)
    changes = {'disturbance.mode': 'observer', 'disturbance.masses': 0.2,
               'disturbance.friction': float(f'{friction:.2g}')}
    try:
        after = laboratory.row({**found.values, **changes}, worst.variant)
        nominal = laboratory.row({**found.values, **changes})
    except OscError:
        return None
    if after.scores['error'] > 0.5 * worst.scores['error'] or max(
            nominal.scores['overshoot'], nominal.scores['stability']) > 1.0:
        return None
    return Recommendation(Candidate(
        'error', f'with {worst.variant.name} the arm rests {1e3 * worst.error[1]:.2f} mm and '
        f'{np.degrees(worst.error[0]):.2f} degrees off the set-point: an observer compensates '
        'torques that the model lacks', changes),
        worst.scores['error'], after.scores['error'], True,
        f'error at rest with {worst.variant.name}: {np.degrees(after.error[0]):.3f} degrees, '
        f'{1e3 * after.error[1]:.3f} mm (simulated)')


def _faster(laboratory: Laboratory, found: Measurement) -> Recommendation | None:
    """Return the recommendation of higher natural frequencies."""
    # None if a score or the delay does not allow them.
    values, subject = found.values, laboratory.subject
    if found.wrong or values['mode'] != 'acceleration':
        return None
    frequencies = [x for part in PARTS for x in values[f'{part}.natural_frequency']]
    ratios = [x for part in PARTS for x in values[f'{part}.damping_ratio']]
    room = min(largest_natural_frequency(ratio, subject.period, max(
        DELAY, subject.delay / subject.period)) / frequency
        for frequency, ratio in zip(frequencies, ratios))
    factor = min(0.7 * room, 2.0)
    while factor >= FASTER:
        changes = scaled_gains(values, factor)
        after = _measurement_with(laboratory, found, Candidate('error', '', changes))
        if after is not None and not after.wrong:
            before, later = (max(one.shape.settling for one in one_set.steps.axes)
                             for one_set in (found, after))
            return Recommendation(Candidate(
                'error', f'rate and delay allow {room:.1f} times these natural frequencies: '
                'errors by friction and wrong masses fall with their square', changes),
                1.0, 1.0 / factor**2, True,
                f'settling time {before:.3f} s before, {later:.3f} s with it; noise '
                f'{after.noise.share.max():.2%} of a torque limit (simulated)')
        factor *= 0.8
    return None
