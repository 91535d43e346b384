# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Rules that derive candidate parameter changes from a measurement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from osc_ros.control.tasks.bandwidth import DELAY, largest_natural_frequency
from osc_ros.tools.check.findings import AXES
from osc_ros.tools.tune.measurement import Laboratory, Measurement, NOISE, TORQUE
from osc_ros.tools.tune.subject import Subject, Values, Variant

LOWER = 0.8  # factor of each reduction of gains and limits
TRIES = 6  # number of reductions
PAYLOADS = 1.0, 2.5, 5.0  # values of disturbance.payload that are tried [kg]
PARTS = 'rotation', 'translation'


@dataclass(frozen=True)
class Candidate:
    """A parameter change that may improve a score."""

    score: str  # one of SCORES
    reason: str  # text on the measured quantity and its cause
    changes: dict[str, Any]  # parameters of the controller


def candidates(found: Measurement, laboratory: Laboratory) -> Iterator[Candidate]:
    """Yield candidates, the most important one first."""
    for rule in (_reduced_gains, _delay, _ringing, _friction, _saturation, _speed, _noise):
        yield from rule(found, laboratory)


def scaled_gains(values: Values, factor: float) -> dict[str, Any]:
    """Return gains with which the natural frequencies of the tip change by a factor."""
    is_spring = values['mode'] == 'impedance'
    name, power = ('stiffness', 2.0) if is_spring else ('natural_frequency', 1.0)
    return {f'{part}.{name}': tuple(_two_digits(x * factor**power)
                                    for x in values[f'{part}.{name}']) for part in PARTS}


def _bounded_gains(found: Measurement, bounds: dict[int, float]) -> dict[str, Any]:
    """Return natural frequencies that are at most `bounds` (by axis, [rad/s])."""
    changes = {}
    for part, name in enumerate(PARTS):
        key = f'{name}.natural_frequency'
        before = found.values[key]
        after = tuple(min(x, _two_digits(bounds[3 * part + i])) for i, x in enumerate(before))
        if after != tuple(before):
            changes[key] = after
    return changes


def _two_digits(x: float) -> float:
    """Return the number rounded down to two significant digits."""
    unit = 10.0 ** (np.floor(np.log10(x)) - 1.0)
    return float(f'{np.floor(x / unit + 1e-9) * unit:.6g}')


def _reduced_gains(found: Measurement, laboratory: Laboratory) -> Iterator[Candidate]:
    """Yield candidates with lower gains, if the law reduces the gains at this rate of states."""
    share = found.steps.gain_share
    if found.scores['gains'] <= 1.0:
        return
    reason = (f'the gains in force are {share:.0%} of the set ones: they are too high for states '
              f'every {1e3 * laboratory.subject.period:g} ms')
    for k in range(TRIES):
        yield Candidate('gains', reason, scaled_gains(found.values, share * LOWER**k))


def _bounds(found: Measurement, delay: float, period: float) -> dict[int, float]:
    """Return the largest natural frequency by axis [rad/s]; `delay` is in periods."""
    ratios = [x for part in PARTS for x in found.values[f'{part}.damping_ratio']]
    return {axis: largest_natural_frequency(ratio, period, max(delay, DELAY))
            for axis, ratio in enumerate(ratios)}


def _delay(found: Measurement, laboratory: Laboratory) -> Iterator[Candidate]:
    """Yield candidates with lower gains, if an axis oscillates only because of the delay."""
    subject = laboratory.subject
    score = max(('stability', 'overshoot'), key=lambda name: found.scores[name])
    if found.scores[score] <= 1.0 or subject.delay == 0.0:
        return
    without = laboratory.row(found.values, Variant('without the delay', delay=0.0))
    if without.scores[score] > 1.0:
        return
    worst = found.worst(lambda one: one.shape.overshoot - one.wanted_shape.overshoot)
    frequency = worst.wanted_shape.natural_frequency
    product = frequency * (subject.delay + 0.5 * subject.period)
    was = ('does not come to rest' if not worst.shape.is_stable else
           f'overshoots by {worst.shape.overshoot:.0%} ({worst.wanted_shape.overshoot:.0%} '
           'asked for)')
    reason = (f'{AXES[worst.axis]} {was}; without the delay the overshoot is '
              f'{without.overshoot:.0%}. The delay of {1e3 * subject.delay:g} ms is too long for '
              f'{frequency:.3g} rad/s (delay plus half a period, times the natural frequency: '
              f'{product:.2f} rad)')
    if found.values['mode'] != 'impedance':
        changes = _bounded_gains(found, _bounds(found, subject.delay / subject.period,
                                          subject.period))
        if changes:
            yield Candidate(score, reason, changes)
    for k in range(1, TRIES + 1):
        yield Candidate(score, reason, scaled_gains(found.values, LOWER**k))


def _ringing(found: Measurement, laboratory: Laboratory) -> Iterator[Candidate]:
    """Yield candidates with lower gains, if an axis oscillates, but not because of the delay."""
    score = max(('stability', 'overshoot'), key=lambda name: found.scores[name])
    if found.scores[score] <= 1.0:
        return
    reason = (f'the arm was stopped: {found.steps.failure}' if found.steps.failure else
              'it overshoots more than the settings ask for, also without a delay: rotors, '
              'friction or limits that the model lacks')
    for k in range(1, TRIES + 1):
        yield Candidate(score, reason, scaled_gains(found.values, LOWER**k))


def _friction(found: Measurement, laboratory: Laboratory) -> Iterator[Candidate]:
    """Yield candidates against errors at rest."""
    # Friction compensation, the true payload, or a disturbance observer.
    if found.scores['error'] <= 1.0 or found.scores['stability'] > 1.0:
        return
    without = laboratory.row(found.values, Variant('without friction', friction=0.0))
    worst = found.worst(lambda one: one.error / found.tolerance[one.axis // 3])
    size, unit = (1e3 * worst.error, 'mm') if worst.axis > 2 else (
        np.degrees(worst.error), 'degrees')
    text = f'{AXES[worst.axis]} stops {size:.2g} {unit} before the set-point'
    if without.scores['error'] > max(1.0, 0.5 * found.scores['error']):
        text += (', also without friction: masses, payload or gravity differ from the model '
                 '(osc_identify estimates payload.* of a real arm)')
        carried = laboratory.subject.payload
        if any(found.values[name] != value for name, value in carried.items()):
            yield Candidate('error', text, dict(carried))
    else:
        text += ', without friction it does not: dry friction holds the joints'
        for changes in _compensations(found.values, laboratory.subject):
            yield Candidate('error', text, changes)
    for payload in PAYLOADS if found.values['disturbance.mode'] == 'none' else ():
        yield Candidate('error', text, {
            'disturbance.mode': 'observer',
            'disturbance.payload': max(payload, found.values['disturbance.payload'])})


def _compensations(values: Values, subject: Subject) -> Iterator[dict[str, Any]]:
    """Yield parameters that compensate the friction of the simulated arm."""
    robot = subject.law.robot
    is_described = (np.allclose(subject.coulomb, robot.coulomb_friction)
                    and np.allclose(subject.viscous, robot.viscous_friction))
    if is_described and not values['friction.coulomb']:
        for share in (0.8, 1.0):
            if values['friction.from_description'] < share:
                yield {'friction.from_description': share}
    elif subject.coulomb.any() or subject.viscous.any():
        yield {'friction.coulomb': tuple(subject.coulomb.tolist()),
               'friction.viscous': tuple(subject.viscous.tolist())}


def _saturation(found: Measurement, laboratory: Laboratory) -> Iterator[Candidate]:
    """Yield candidates with lower accelerations of the target, if a torque is near its limit."""
    if found.scores['torque'] <= 1.0:
        return
    k = int(np.argmax(found.motion.torque))
    name = laboratory.subject.law.robot.joint_names[k]
    reason = (f"a motion of {1e3 * found.motion.distance:.0f} mm takes "
              f"{found.motion.torque[k]:.0%} of the torque limit of '{name}' "
              f'({TORQUE:.0%} are accepted): the set-point accelerates too fast')
    yield from _slower(found, 'torque', reason, ('acceleration', 'jerk'))


def _speed(found: Measurement, laboratory: Laboratory) -> Iterator[Candidate]:
    """Yield candidates with lower speeds of the target, if a joint is near its speed limit."""
    if found.scores['speed'] <= 1.0:
        return
    k = int(np.argmax(found.motion.speed))
    name = laboratory.subject.law.robot.joint_names[k]
    failure = found.motion.record.failure
    reason = (f"a motion of {1e3 * found.motion.distance:.0f} mm takes '{name}' to "
              f'{found.motion.speed[k]:.0%} of its speed limit'
              + (f', and a watchdog stopped it ({failure})' if failure else '')
              + ': the set-point is too fast')
    yield from _slower(found, 'speed', reason, ('speed', 'acceleration', 'jerk'))


# Limits of the target in place of infinite limits: rotation, translation.
FINITE = {'speed': (2.5, 1.0), 'acceleration': (12.5, 5.0), 'jerk': (125.0, 50.0)}


def _slower(found: Measurement, score: str, reason: str, names: tuple[str, ...]
            ) -> Iterator[Candidate]:
    """Yield candidates with lower limits of the target."""
    # If some limits of the target are infinite, the only candidate has the limits FINITE.
    values, all_names = found.values, tuple(FINITE)
    keys = {(name, part): f'target.{PARTS[part]}.{name}' for name in all_names for part in (0, 1)}
    if np.isinf([values[key] for key in keys.values()]).any():
        yield Candidate(score, reason + ' (it jumps to its goals)',
                        {key: FINITE[name][part] for (name, part), key in keys.items()})
        return
    for k in (1, 2, 3, 4, 5, 6, 8, 10):
        yield Candidate(score, reason, {
            keys[name, part]: _two_digits(values[keys[name, part]] * LOWER**k)
            for name in names for part in (0, 1)})


def _noise(found: Measurement, laboratory: Laboratory) -> Iterator[Candidate]:
    """Yield candidates with lower gains, if encoder noise makes the torques noisy."""
    if found.scores['noise'] <= 1.0:
        return
    k = int(np.argmax(found.noise.share))
    noise = found.noise
    source = 'velocities' if noise.by_velocity[k] > noise.by_position[k] else 'positions'
    reason = (f"noise of the {source} makes the torque of "
              f"'{laboratory.subject.law.robot.joint_names[k]}' noisy by "
              f'{noise.share[k]:.1%} of its limit ({NOISE:.0%} are accepted): the damping, '
              '2 x damping ratio x natural frequency, amplifies it')
    first = max(NOISE / float(noise.share[k]), LOWER**4)
    for factor in (first, first * LOWER, first * LOWER**2):
        yield Candidate('noise', reason, scaled_gains(found.values, factor))
