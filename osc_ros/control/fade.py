"""Smooth changes: steps, filters, and the fade of the torque that a change leaves over."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Share of a joint's effort limit by which a change may move its torque each second [1/s].
CHANGE_RATE = 1.0
LONGEST_TICK = 0.02  # most that a fade advances in one tick [s]
_SETTLED = 6.64  # ω t at which a critically damped step has 1 % to go


def smooth_step(x: float) -> float:
    """From 0 for x ≤ 0 to 1 for x ≥ 1, C¹."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)


def smoother_step(x: float) -> float:
    """From 0 for x ≤ 0 to 1 for x ≥ 1, C²."""
    x = min(max(x, 0.0), 1.0)
    return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)


def settling(offset: Array, rate: Array, blend_time: float, dt: float) -> tuple[Array, Array]:
    """
    Offset from the wanted value, and its rate, a time dt [s] later.

    By a critically damped filter, solved exactly: C¹, and 1 % is left after `blend_time` [s].

    """
    pace = _SETTLED / blend_time
    bend, decay = rate + pace * offset, math.exp(-pace * dt)
    return decay * (offset + dt * bend), decay * (rate - pace * dt * bend)


class Fade:
    """
    A difference (k, n) of torques that goes to zero C¹, no faster than CHANGE_RATE.

    A cubic Hermite polynomial from the difference and its rate to zero. Its duration is
    2 |difference| / (CHANGE_RATE · limit) for the slowest joint, or the blend time if that is
    longer: with a rate within ±CHANGE_RATE · limit at the start, as of a fade that a further
    change cuts off, no rate is larger on the way.

    Attributes
    ----------
    left : (k, n), or None
        What is left of the difference [N·m]; None if nothing is.

    """

    def __init__(self) -> None:
        self.left: Array | None = None

    def forget(self) -> None:
        """Let nothing be left."""
        self.left = None

    def begin(self, time: float, difference: Array, limits: Array, blend_time: float) -> None:
        """
        Let a difference (k, n) fade from a time [s] on, at the rate that the last fade has now.

        Parameters
        ----------
        time : float
        difference : (k, n) [N·m]
        limits : (n,)
            Of effort [N·m]; may be infinite.
        blend_time : float
            Least duration [s].

        """
        rate = np.zeros_like(difference) if self.left is None else self._rate
        share = np.abs(difference).sum(axis=0) / limits
        self._duration = max(blend_time, 2.0 * float(share.max()) / CHANGE_RATE)
        self._start, self._start_rate = difference, rate
        self._time, self._age = time, 0.0
        self.left, self._rate = difference, rate

    def advance(self, time: float) -> Array | None:
        """Return what is left (k, n) at a time [s]."""
        if self.left is None:
            return None
        self._age += min(max(time - self._time, 0.0), LONGEST_TICK)
        self._time = time
        T, x = self._duration, self._age / self._duration
        if x >= 1.0:
            self.left = None
            return None
        self.left = ((1.0 - smooth_step(x)) * self._start
                     + T * x * (1.0 - x) * (1.0 - x) * self._start_rate)
        self._rate = (-6.0 * x * (1.0 - x) / T * self._start
                      + (1.0 - x) * (1.0 - 3.0 * x) * self._start_rate)
        return self.left
