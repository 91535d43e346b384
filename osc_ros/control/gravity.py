# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Gravity vector of the model: it changes to a new value at a bounded rate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Largest rate of change of gravity in the model [m/s³]: as in a base that rotates at 2 rad/s.
GRAVITY_RATE = 20.0


class Gravity:
    """
    Gravity (3,) in the base frame, less the acceleration of the base [m/s²].

    Attributes
    ----------
    now, wanted : (3,) [m/s²]
        Value in force, and its final value.

    Parameters
    ----------
    gravity : (3,)

    """

    def __init__(self, gravity: Array) -> None:
        self.now: Array = np.array(gravity)
        self.wanted: Array = self.now

    @property
    def is_moving(self) -> bool:
        """Whether the value in force is not yet the final value."""
        return self.now is not self.wanted

    def advance(self, dt: float) -> Array:
        """Advance by dt [s], at most at GRAVITY_RATE; return the gravity (3,) in force [m/s²]."""
        step = GRAVITY_RATE * max(dt, 0.0)
        away = self.wanted - self.now
        far = math.sqrt(away.dot(away))
        self.now = self.wanted if far <= step else self.now + step / far * away
        return self.now
