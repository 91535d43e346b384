# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Step responses for other masses, friction, delays, noise and gains."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.tools.tune.measurement import Laboratory, Row
from osc_ros.tools.tune.rules import scaled_gains
from osc_ros.tools.tune.subject import Subject, Values, Variant

Array = NDArray[np.float64]

FRICTION = 0.01  # dry friction, as a share of a joint's torque limit
PERIODS = 0, 1, 2, 3, 4  # delays of the map, in control periods
FACTORS = 0.5, 1.0, 1.5, 2.0, 3.0, 4.0  # factors of the natural frequencies in the map


def variants(subject: Subject) -> tuple[Variant, ...]:
    """Return the nominal arm, and arms with one difference each."""
    position, velocity = subject.encoder_noise
    later = tuple(Variant(f'delay + {k} period{"s" * (k > 1)}',
                          delay=subject.delay + k * subject.period) for k in (1, 2))
    return (Variant(), Variant('masses - 20 %', masses=0.8), Variant('masses + 20 %', masses=1.2),
            Variant(f'friction, {FRICTION:.0%} of the limits', friction=FRICTION), *later,
            Variant('encoder noise', position_noise=position, velocity_noise=velocity))


@dataclass(frozen=True, eq=False)
class Robustness:
    """Step responses of variants of the arm, and the overshoot for various delays and gains."""

    rows: list[Row]
    delays: Array  # (k,) [s]
    factors: Array  # (m,), of the natural frequencies
    # (m, k), largest for each factor and delay, as a share of the step; infinite if the arm does
    # not come to rest, NaN if the controller refuses the gains
    overshoot: Array


def robustness(laboratory: Laboratory, values: Values, has_map: bool = True) -> Robustness:
    """Measure the variants and, with `has_map`, the overshoot for various delays and gains."""
    subject = laboratory.subject
    rows = [laboratory.row(values, variant) for variant in variants(subject)]
    delays = subject.period * np.array(PERIODS, dtype=np.float64) if has_map else np.zeros(0)
    found = np.full((len(FACTORS), len(delays)), np.nan)
    for i, factor in enumerate(FACTORS):
        changed = {**values, **(scaled_gains(values, factor) if factor != 1.0 else {})}
        for j, delay in enumerate(delays):
            with suppress(InputError):
                found[i, j] = laboratory.row(changed, Variant(
                    f'{factor:g} x natural frequency, {1e3 * delay:g} ms',
                    delay=float(delay))).overshoot
    return Robustness(rows, delays, np.array(FACTORS), found)
