# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""All experiments with one set of parameters, and their scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from osc_ros.tools.tune.experiments import AxisResponse, Bench, Motion, Noise, Spectrum, Steps
from osc_ros.tools.tune.subject import NOMINAL, Subject, Values, Variant

OVERSHOOT = 0.1  # accepted excess over the wanted overshoot, as a share of the step
TORQUE = 0.9  # accepted share of a torque limit in a motion
SPEED = 0.97  # accepted share of a speed limit in a motion
NOISE = 0.02  # accepted noise of a torque, as a share of its limit
REDUCED = 0.02  # accepted reduction of the gains by the law, see `Law.gain_share`
WORST = 10.0  # largest score; given to an arm that does not come to rest

# Requirement of each score; at the stated figure the score is 1.
SCORES = {
    'stability': 'comes to rest after a step',
    'overshoot': f'overshoot at most {OVERSHOOT:.0%} of a step beyond the wanted one',
    'error': 'error at rest within goal.translation.tolerance, goal.rotation.tolerance',
    'torque': f'at most {TORQUE:.0%} of a torque limit in the motion',
    'speed': f'at most {SPEED:.0%} of a speed limit in the motion, which no watchdog stops',
    'noise': f'noise of the torques at most {NOISE:.0%} of their limits',
    'gains': 'the law reduces no gain for the rate of the states',
}


def step_scores(steps: Steps, tolerance: tuple[float, float], axes: int) -> dict[str, float]:
    """Return the scores of step responses; a score above 1 is not accepted."""
    # `tolerance`: accepted error [rad, m]; `axes`: number of axes that should respond.
    is_stable = (not steps.failure and len(steps.axes) == axes
                 and all(one.shape.is_stable for one in steps.axes))
    overshoot = max((one.shape.overshoot - one.wanted_shape.overshoot for one in steps.axes),
                    default=np.inf)
    error = max((one.error / tolerance[one.axis // 3] for one in steps.axes), default=np.inf)
    return {'stability': 0.0 if is_stable else WORST,
            'overshoot': min(max(overshoot / OVERSHOOT, 0.0), WORST),
            'error': min(error, WORST), 'gains': (1.0 - steps.gain_share) / REDUCED}


@dataclass(frozen=True, eq=False)
class Measurement:
    """Results of all experiments with one set of parameters, see `Bench`."""

    values: Values  # parameters of the controller
    steps: Steps
    spectra: tuple[Spectrum, ...]
    noise: Noise
    motion: Motion
    tolerance: tuple[float, float]  # accepted error at rest [rad, m]
    axes: int  # number of controlled axes

    @cached_property
    def scores(self) -> dict[str, float]:
        """Score for each of SCORES; a score above 1 is not accepted."""
        found = step_scores(self.steps, self.tolerance, self.axes)
        found['torque'] = float(self.motion.torque.max()) / TORQUE
        found['speed'] = float(self.motion.speed.max()) / SPEED
        found['noise'] = float(self.noise.share.max()) / NOISE
        if self.motion.record.failure:
            found['speed'] = WORST
        return {name: float(min(found[name], WORST)) for name in SCORES}

    @property
    def wrong(self) -> list[str]:
        """Names of the scores above 1; only 'stability' if the arm does not come to rest."""
        found = [name for name, score in self.scores.items() if score > 1.0]
        return found[:1] if found[:1] == ['stability'] else found

    def worst(self, key: Callable[[AxisResponse], float]) -> AxisResponse:
        """Return the axis response with the largest value of `key`."""
        return max(self.steps.axes, key=lambda one: np.nan_to_num(key(one), nan=np.inf))


@dataclass(frozen=True, eq=False)
class Row:
    """Step responses of a variant of the arm, and their scores from `step_scores`."""

    variant: Variant
    steps: Steps
    scores: dict[str, float]

    @property
    def is_stable(self) -> bool:
        """Whether all axes come to rest."""
        return self.scores['stability'] == 0.0

    @property
    def overshoot(self) -> float:
        """Largest overshoot, as a share of the step; infinite if an axis does not come to rest."""
        return max(one.shape.overshoot for one in self.steps.axes) if self.is_stable else np.inf

    @property
    def settling(self) -> float:
        """Longest settling time [s]; infinite if an axis does not come to rest."""
        return max(one.shape.settling for one in self.steps.axes) if self.is_stable else np.inf

    @property
    def error(self) -> tuple[float, float]:
        """Largest errors at rest [rad, m]; infinite if an axis does not come to rest."""
        found = [max((one.error for one in self.steps.axes if one.axis // 3 == part),
                     default=0.0) for part in (0, 1)]
        return (found[0], found[1]) if self.is_stable else (np.inf, np.inf)


class Laboratory:
    """Measures a subject with any parameters; `tell` receives a text before each experiment."""

    def __init__(self, subject: Subject, tell: Callable[[str], object]) -> None:
        self.subject, self.tell = subject, tell

    def bench(self, values: Values) -> Bench:
        """Return a `Bench` with these parameters; it is valid until the next call."""
        return Bench(self.subject, *self.subject.settings(values))

    def measure(self, values: Values, what: str = 'as configured') -> Measurement:
        """Return the results of all experiments; `what` begins the lines of progress."""
        bench = self.bench(values)
        self.tell(f'{what}: steps')
        steps = bench.steps()
        self.tell(f'{what}: frequency response')
        spectra = bench.spectra()
        self.tell(f'{what}: noise and motion')
        return Measurement(values, steps, spectra, bench.noise(), bench.motion(),
                           self.subject.tolerance, len(bench.wanted.axes))

    def row(self, values: Values, variant: Variant = NOMINAL) -> Row:
        """Return the step responses of a variant of the arm."""
        self.tell(f'steps: {variant.name}')
        bench = self.bench(values)
        steps = bench.steps(variant)
        return Row(variant, steps, step_scores(steps, self.subject.tolerance,
                                               len(bench.wanted.axes)))
