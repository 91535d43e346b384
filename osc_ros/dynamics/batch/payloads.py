# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Payloads of many states: one body per state, fixed to the first tip."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.algebra.arrays import float_array
from osc_ros.dynamics.algebra.payload_lanes import PAYLOAD_WIDTH
from osc_ros.errors import InputError
from osc_ros.model.assembly import SEMIDEFINITE_TOLERANCE
from osc_ros.model.validation import SYMMETRY_TOLERANCE

Array = NDArray[np.float64]


class Payloads(NamedTuple):
    """
    k payloads for k states, each fixed to the robot's first tip as by `Robot.with_payload`.

    Attributes
    ----------
    mass : (k,) [kg]
    center_of_mass : (k, 3), optional
        In the axes of the tip, from its origin [m]; default: the origin.
    inertia : (k, 3, 3), optional
        About the centre of mass, in the axes of the tip [kg m²]; default: point masses.

    """

    mass: ArrayLike
    center_of_mass: ArrayLike | None = None
    inertia: ArrayLike | None = None

    def rows(self, k: int) -> Array:
        """
        Return the payloads in the form that the kernels read, (k, PAYLOAD_WIDTH).

        Numbers that are not finite are accepted: they make a state invalid. Raises InputError if
        shapes do not fit, or if a payload is not physically possible; the message has its index.

        """
        rows = np.zeros((k, PAYLOAD_WIDTH))
        rows[:, 0] = float_array('payloads.mass', self.mass, (k,))
        if self.center_of_mass is not None:
            rows[:, 1:4] = float_array('payloads.center_of_mass', self.center_of_mass, (k, 3))
        _refuse(rows[:, 0] < 0.0, 'mass', rows[:, 0], 'must be 0 or more')
        if self.inertia is not None:
            moments = float_array('payloads.inertia', self.inertia, (k, 3, 3))
            rows[:, 4:] = moments.reshape(k, 9)
            _refuse(_impossible(rows[:, 4:].T), 'inertia', moments, 'give a symmetric '
                    'positive semi-definite matrix, about the centre of mass')
            _refuse((rows[:, 0] == 0.0) & rows[:, 4:].any(axis=1), 'inertia', moments,
                    'without mass it must be 0')
        return rows


def _refuse(bad: NDArray[np.bool_], name: str, values: Array, accepted: str) -> None:
    if bad.any():
        k = int(np.argmax(bad))
        raise InputError(f'payloads.{name}[{k}] is {values[k].tolist()}: {accepted}')


def _impossible(entries: Array) -> NDArray[np.bool_]:
    """Mark (k,) matrices (9, k) that are asymmetric or have a negative principal minor."""
    a, b, c, d, e, f, g, h, i = entries
    with np.errstate(invalid='ignore', over='ignore'):
        size = np.abs(entries).max(axis=0, initial=0.0)
        skew = np.maximum(np.maximum(np.abs(b - d), np.abs(c - g)), np.abs(f - h))
        least = np.minimum(np.minimum(a, e), i)
        flat = np.minimum(np.minimum(a * e - b * d, a * i - c * g), e * i - f * h)
        volume = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
        bound = -SEMIDEFINITE_TOLERANCE * size
        return np.asarray((skew > SYMMETRY_TOLERANCE * size) | (least < bound)
                          | (flat < bound * size) | (volume < bound * size * size))
