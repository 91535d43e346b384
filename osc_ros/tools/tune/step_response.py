# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Step responses of second-order systems, and the second-order fit of a response."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm, sqrtm
from scipy.optimize import least_squares

from osc_ros.control.tasks.task import Stiffness, Task

Array = NDArray[np.float64]

BAND = 0.02  # settling band, relative to the final value
ROOM = 0.25  # last share of a response in which it must be at rest
FITS = 0.02  # largest misfit of a second-order response
RESTLESS = 0.1  # largest motion in the last ROOM of the response, as a share of the step


@dataclass(frozen=True)
class Shape:
    """Metrics of a response to a unit step."""

    natural_frequency: float  # best second-order fit [rad/s]; NaN if not at rest at the end
    damping_ratio: float  # of the same fit; NaN likewise
    overshoot: float  # largest excess over the final value, as a share of the step
    settling: float  # time after which it stays within BAND of its final value [s]; inf if never
    # RMS error of the second-order fit, as a share of the step. It is large if the delay is long
    # for the bandwidth, because the loop is then of higher order.
    misfit: float

    @property
    def is_second_order(self) -> bool:
        """Whether natural frequency and damping ratio describe the response."""
        return bool(self.misfit < FITS)

    @property
    def is_stable(self) -> bool:
        """Whether the response comes to rest."""
        return bool(np.isfinite(self.settling))


def step_response(time: Array, natural_frequency: float, damping_ratio: float) -> Array:
    """Return the response (k,) of a second-order system to a unit step at time 0 [s]."""
    ratio = complex(damping_ratio if abs(damping_ratio - 1.0) > 1e-6 else damping_ratio + 2e-6)
    root = np.sqrt(ratio * ratio - 1.0)
    slow, fast = -natural_frequency * (ratio - root), -natural_frequency * (ratio + root)
    t = np.maximum(time, 0.0)
    found = 1.0 + (fast * np.exp(slow * t) - slow * np.exp(fast * t)) / (slow - fast)
    return np.asarray(found.real)


def settling_time(natural_frequency: float, damping_ratio: float) -> float:
    """Return the approximate time in which a second-order system comes to rest [s]."""
    slow = damping_ratio - np.sqrt(max(damping_ratio**2 - 1.0, 0.0))
    return float(10.0 / (natural_frequency * slow))


def shape(time: Array, response: Array, guess: tuple[float, float], delay: float) -> Shape:
    """Return the metrics of a response (k,) to a unit step at time 0."""
    # `guess`: natural frequency [rad/s] and damping ratio at which the fit starts; `delay`: dead
    # time of the response [s].
    tail = response[-max(2, int(ROOM * len(response))):]
    final = float(response[-max(2, len(response) // 10):].mean())
    peak = float(response.max())
    if np.abs(response).max() > 10.0 or np.ptp(tail) > RESTLESS:
        return Shape(np.nan, np.nan, max(0.0, peak - final), np.inf, np.nan)
    outside = np.flatnonzero(np.abs(response - final) > BAND * max(abs(final), BAND))
    settling = 0.0 if len(outside) == 0 else float(time[min(outside[-1] + 1, len(time) - 1)])

    def residual(x: Array) -> Array:
        return np.asarray(x[2] * step_response(time - delay, np.exp(x[0]), np.exp(x[1]))
                          - response)

    low = [np.log(guess[0]) - 3.0, np.log(0.01), -2.0]
    high = [np.log(guess[0]) + 3.0, np.log(20.0), 3.0]
    start = np.clip([np.log(guess[0]), np.log(guess[1]), final], np.add(low, 1e-3),
                    np.subtract(high, 1e-3))
    fit = least_squares(residual, start, bounds=(low, high))
    return Shape(float(np.exp(fit.x[0])), float(np.exp(fit.x[1])), max(0.0, peak - final),
                 settling, float(np.sqrt((fit.fun**2).mean())))


@dataclass(frozen=True, eq=False)
class Wanted:
    """Linear error dynamics that the gains define: ë = -K e - D ė along the axes of motion."""

    axes: NDArray[np.intp]  # (m,) indices in [angular; linear], in the axes of the task's frame
    K: Array  # (m, m) [1/s²]
    D: Array  # (m, m) [1/s]

    @classmethod
    def of(cls, task: Task, Lambda: Array, R: Array) -> Wanted:
        """Return the error dynamics of a task."""
        # `Lambda` (6, 6): task-space inertia in base axes; `R` (3, 3) rotates from the axes of the
        # task to those of the base.
        axes = np.flatnonzero(task.along('motion'))
        gains, own = task.gains, np.ix_(axes, axes)
        if not isinstance(gains, Stiffness):
            return cls(axes, np.diag(gains.natural_frequency[axes]**2), np.diag(
                2.0 * (gains.damping_ratio * gains.natural_frequency)[axes]))
        turn = np.kron(np.eye(2), R)
        mobility = np.linalg.pinv(turn.T @ Lambda @ turn, rcond=1e-6)[own]
        root, ratio = np.sqrt(gains.stiffness[axes]), np.sqrt(gains.damping_ratio[axes])
        pace = np.real(sqrtm(root[:, None] * mobility * root))
        inverse = np.linalg.pinv(pace, rcond=1e-6)
        D = 2.0 * (root * ratio)[:, None] * inverse * (ratio * root)
        return cls(axes, mobility * gains.stiffness[axes], mobility @ D)

    def guess(self, axis: int) -> tuple[float, float]:
        """Return natural frequency [rad/s] and damping ratio of an axis, without its coupling."""
        k = int(np.flatnonzero(self.axes == axis)[0])
        frequency = float(np.sqrt(self.K[k, k]))
        return frequency, float(self.D[k, k]) / (2.0 * frequency)

    def response(self, axis: int, time: Array) -> Array:
        """Return the unit step response (k,) of an axis; `time` must be equidistant."""
        m = len(self.axes)
        k = int(np.flatnonzero(self.axes == axis)[0])
        A = np.block([[np.zeros((m, m)), np.eye(m)], [-self.K, -self.D]])
        step = expm(A * (time[1] - time[0]))
        e, found = np.zeros(2 * m), np.empty(len(time))
        e[k] = 1.0
        for i in range(len(time)):
            found[i] = 1.0 - e[k]
            e = step @ e
        return found

    def gain(self, axis: int, frequencies: Array) -> Array:
        """Return the complex gain (k,) from set-point to position at frequencies [rad/s]."""
        m = len(self.axes)
        k = int(np.flatnonzero(self.axes == axis)[0])
        s = 1j * frequencies[:, None, None]
        found = np.linalg.solve(s**2 * np.eye(m) + s * self.D + self.K,
                                np.broadcast_to(self.K, (len(frequencies), m, m)))
        return np.asarray(found[:, k, k])
