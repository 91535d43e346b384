# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Jacobians whose angular and linear rows have the same unit, and their conditioning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LENGTH = 0.3  # characteristic length: a rotation of 1 rad counts as this displacement [m]


def scaled_jacobian(J: Array, turning: int = 3) -> Array:
    """Return a Jacobian with its linear rows divided by LENGTH."""
    # J is (k, n), [angular; linear], with `turning` angular rows.
    scaled = np.array(J)
    scaled[turning:] /= LENGTH
    return scaled


def conditioning(scaled: Array, count: int | None = None) -> float:
    """Return a singular value relative to the largest one; 0 if all singular values are 0."""
    # `scaled`: of `scaled_jacobian`. `count`: which one, 1 for the largest; default: the smallest.
    values = np.linalg.svd(scaled, compute_uv=False)
    last = len(values) if count is None else count
    return float(values[last - 1] / values[0]) if last and values[0] > 0.0 else 0.0
