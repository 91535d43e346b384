"""Gravity in the model: it moves to the wanted vector at a bounded rate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Most that gravity changes in the model [m/s³]: that of a base that turns at 2 rad/s.
GRAVITY_RATE = 20.0


class Gravity:
    """
    Gravity (3,) in the base frame, less the acceleration of the base [m/s²].

    Attributes
    ----------
    now, wanted : (3,)

    Parameters
    ----------
    gravity : (3,)

    """

    def __init__(self, gravity: Array) -> None:
        self.now: Array = np.array(gravity)
        self.wanted: Array = self.now

    @property
    def is_moving(self) -> bool:
        """Whether gravity is not yet the wanted one."""
        return self.now is not self.wanted

    def advance(self, dt: float) -> Array:
        """Gravity (3,) a time dt [s] later, at most GRAVITY_RATE nearer; at once if infinite."""
        step = GRAVITY_RATE * max(dt, 0.0)
        away = self.wanted - self.now
        far = math.sqrt(away.dot(away))
        self.now = self.wanted if far <= step else self.now + step / far * away
        return self.now
