# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Joint friction in a regression: its columns, usable samples, and the estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.identification.fit.least_squares import Fit
from osc_ros.identification.fit.samples import Samples

Array = NDArray[np.float64]

COLUMNS = 4  # per joint: Coulomb, offset, viscous, half the difference of viscous by direction
REVERSAL = 2e-3  # speed above which the sign of the velocity is certain [rad/s, m/s]
RESTS = 0.02  # friction may hold a joint that is slower for the time REST [rad/s, m/s]
REST = 0.06  # [s]
AROUND = 0.12  # excluded time before and after a rest, because of the filter [s]
# Coulomb and viscous friction cannot be separated if the filtered speed stays below this.
FAST_ENOUGH = 0.1  # [rad/s, m/s]


@dataclass(frozen=True, eq=False)
class FrictionEstimate:
    """Friction of n joints: coulomb sign(q̇) + viscous q̇ + offset."""

    coulomb: Array  # (n,) [N m]
    viscous: Array  # (n,) [N m s/rad]
    offset: Array  # (n,) [N m]
    # (n, 4) Coulomb forward and backward, viscous forward and backward; usually all positive
    by_direction: Array
    deviations: Array  # (n, 3) standard deviations of coulomb, viscous and offset
    # (n, 3) for each of the three: the joint moved, and the standard deviation is below half of
    # the value, or below 2 % of the joint's torque range
    is_determined: NDArray[np.bool_]


def friction_columns(motion: Samples) -> Array:
    """Return the columns (k, n, 4 n) of the friction, before filtering."""
    k, n = motion.qd.shape
    parts = np.stack([np.tanh(motion.qd / REVERSAL), np.ones((k, n)), motion.qd,
                      np.abs(motion.qd)], axis=2)
    columns = np.zeros((k, n, COLUMNS * n))
    for i in range(n):
        columns[:, i, COLUMNS * i:COLUMNS * (i + 1)] = parts[:, i]
    return columns


def sliding_samples(motion: Samples) -> NDArray[np.bool_]:
    """Return (k, n) bool: False where a joint rests, and within AROUND of a rest."""
    slow = np.abs(motion.qd) < RESTS
    shortest, around = (max(1, round(t / motion.period)) for t in (REST, AROUND))
    sliding = np.ones(slow.shape, dtype=bool)
    for i, column in enumerate(slow.T):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], column.astype(int), [0]])))
        for begin, end in edges.reshape(-1, 2).tolist():
            if end - begin >= shortest:
                sliding[max(0, begin - around):end + around, i] = False
    return sliding


def friction_of(found: Fit, first: int, motion: Samples) -> FrictionEstimate:
    """Return the friction of a fit whose friction columns begin at `first`."""
    n = motion.qd.shape[1]
    values = found.values[first:first + COLUMNS * n].reshape(n, COLUMNS)
    deviations = found.deviations[first:first + COLUMNS * n].reshape(n, COLUMNS)
    coulomb, offset, viscous, difference = values.T
    by_direction = np.column_stack([coulomb + offset, coulomb - offset, viscous + difference,
                                    viscous - difference])
    deviations = deviations[:, [0, 2, 1]]
    moved = np.abs(motion.qd).max(axis=0) > FAST_ENOUGH
    size = np.abs(np.column_stack([coulomb, viscous, offset]))
    # a value is also determined if it is certainly small
    small = 0.02 * np.ptp(motion.torque, axis=0)[:, None]
    is_determined = moved[:, None] & ((deviations < 0.5 * size) | (deviations < small))
    return FrictionEstimate(np.maximum(coulomb, 0.0), np.maximum(viscous, 0.0), offset,
                            by_direction, deviations, is_determined)
