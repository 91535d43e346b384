# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Smooth changes: smooth steps, a filter, and the blend of two setups."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import inlined

Array = NDArray[np.float64]

# Largest rate of a torque that changes from one source to another, relative to the joint's
# effort limit [1/s].
CHANGE_RATE = 1.0
LONGEST_TICK = 0.02  # longest advance of a blend in one tick [s]
SETTLED = 6.64  # ω t after which 1 % of a critically damped step remains


def smooth_step(x: float) -> float:
    """C¹ step from 0 for x ≤ 0 to 1 for x ≥ 1."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)


smoothed = inlined(smooth_step)  # for kernels


def settling(offset: Array, rate: Array, blend_time: float, dt: float) -> tuple[Array, Array]:
    """
    Offset from a final value, and its rate, a time dt [s] later.

    The offset follows a critically damped second-order system with the equilibrium 0, solved
    exactly: C¹, and 1 % of an initial offset remains after `blend_time` [s].

    """
    pace = SETTLED / blend_time
    bend, decay = rate + pace * offset, math.exp(-pace * dt)
    return decay * (offset + dt * bend), decay * (rate - pace * dt * bend)


class Blend:
    """
    The weight of what is replaced while one source of torques replaces another: 1 to 0, C¹.

    The duration is the blend time, or the largest 2 |difference| / (CHANGE_RATE · limit) of all
    joints if that is longer: then a constant difference changes by at most 3/4 CHANGE_RATE · limit
    per second.

    Attributes
    ----------
    weight : float
        0 after the end.

    """

    def __init__(self) -> None:
        self.weight = self._time = self._age = 0.0
        self._duration = math.inf

    def end(self) -> None:
        """End at once."""
        self.weight = 0.0

    def begin(self, time: float, difference: Array, limits: Array, blend_time: float) -> None:
        """
        Begin with weight 1.

        Parameters
        ----------
        time : float
            Start [s].
        difference : (n,) [N·m]
            Torques of what is replaced, minus those of what replaces it.
        limits : (n,)
            Effort limits [N·m]; may be infinite.
        blend_time : float
            Least duration [s].

        """
        share = float((np.abs(difference) / limits).max())
        self._duration = max(blend_time, 2.0 * share / CHANGE_RATE)
        self._time, self._age, self.weight = time, 0.0, 1.0

    def advance(self, time: float) -> float:
        """Return the weight at a time [s]."""
        if self.weight > 0.0:
            self._age += min(max(time - self._time, 0.0), LONGEST_TICK)
            self._time = time
            self.weight = 1.0 - smooth_step(self._age / self._duration)
        return self.weight
