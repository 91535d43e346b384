# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The way that an arm came, and the way back along it."""

from __future__ import annotations

from collections import deque
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SPACING = 0.005  # of the recorded positions: motion of the joint that moves most [rad, m]
LONGEST = 2000  # number of positions that are recorded


class Retreat:
    """Records joint positions, and moves back along them."""

    def __init__(self) -> None:
        self._came: deque[Array] = deque(maxlen=LONGEST)
        self._way: list[Array] = []
        self._at = np.zeros(0)

    def forget(self) -> None:
        """Forget all recorded positions."""
        self._came.clear()

    def record(self, q: Array) -> None:
        """Record a position (n,) if it is not too near to the last one."""
        if not self._came or _distance(q, self._came[-1]) > SPACING:
            self._came.append(q)

    def begin(self, q: Array, distance: float) -> None:
        """
        Begin the way back at a position.

        Parameters
        ----------
        q : (n,)
        distance : float [rad, m]
            Its length, each piece measured at the joint that moves most; it ends at the oldest
            recorded position at the latest.

        """
        self._at, self._way, last = q, [], q
        for one in reversed(self._came):
            step = _distance(one, last)
            if step >= distance:
                self._way.append(last + (distance / step) * (one - last))
                return
            distance, last = distance - step, one
            self._way.append(one)

    def advance(self, distance: float) -> Array:
        """Move on by a distance [rad, m]; return the position (n,), the last one at the end."""
        for k, one in enumerate(self._way):
            step = _distance(one, self._at)
            if step > distance:
                self._at = self._at + (distance / step) * (one - self._at)
                del self._way[:k]
                return self._at
            distance, self._at = distance - step, one
        self._way = []
        return self._at


def _distance(q: Array, other: Array) -> float:
    """Largest motion of a joint between two positions [rad, m]."""
    return max(map(math.fabs, (q - other).tolist()))
