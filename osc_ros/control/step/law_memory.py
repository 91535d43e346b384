# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Last ticks of a law, mean period of its states, and gravity, whatever its settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, plain
from osc_ros.control.limits.limiter import limit_rate
from osc_ros.control.tasks.bandwidth import DELAY, PERIOD_SHARE
from osc_ros.dynamics.algebra.vectors import assign

Array = NDArray[np.float64]

# Longest interval that counts as a tick [s]. After a longer one, a change of gravity is completed.
PAUSE = 0.1


@inlined
def _period_for_gains(run):
    return run.mean_period * max(1.0, (0.5 + run.delay) / (0.5 + DELAY))


@kernel
def note_period(run, time):
    """
    Update the mean period with a state at a time [s]; return the period for the gains [s].

    An interval of more than two mean periods counts as two of them. Another call for the same
    state changes nothing.

    """
    dt = time - run.tick_time
    if 0.0 < dt <= PAUSE and run.noted_time != time:
        if run.mean_period > 0.0:
            run.mean_period += PERIOD_SHARE * (min(dt, 2.0 * run.mean_period) - run.mean_period)
        else:
            run.mean_period = dt
    run.noted_time = time
    return _period_for_gains(run)


@kernel
def leave(run, d, time, q, qd, tau):
    """
    Limit the rate of the torques tau (n,), and store the tick; return whether all are finite.

    If they are not, the tick is not stored. `time` is in s.

    """
    if not limit_rate(d, time, run.mean_period, tau):
        return False
    run.tick_times[1] = run.tick_times[0]
    for rows in (run.tick_q, run.tick_qd, run.tick_tau):
        assign(rows[1], rows[0])
    run.tick_time = run.tick_times[0] = time
    assign(run.tick_q[0], q)
    assign(run.tick_qd[0], qd)
    assign(run.tick_tau[0], tau)
    run.ticks = min(run.ticks + 1, 2)
    return True


class LawMemory:
    """
    The last two ticks of a law, the mean period of its states, and gravity (3,) [m/s²].

    `run` is a record RUN of `osc_ros.control.data`.

    """

    def __init__(self, run: Any, gravity: Array) -> None:
        self._run = run
        run.delay, run.tick_time, run.noted_time = DELAY, -math.inf, -math.inf
        run.gravity[:] = run.wanted_gravity[:] = gravity
        run.speed_override = 1.0

    @property
    def gravity(self) -> Array:
        """Gravity (3,) in force, minus the acceleration of the base, base frame [m/s²]."""
        return np.asarray(self._run.gravity)

    @property
    def gravity_wanted(self) -> Array:
        """The value (3,) that `gravity` approaches at GRAVITY_RATE [m/s²]; write to the array."""
        return np.asarray(self._run.wanted_gravity)

    @property
    def period_for_gains(self) -> float:
        """
        Period that bounds the gains [s].

        The phase lag of the loop grows with the sum of half a period, for the sample and hold, and
        the delay. So a longer delay counts like a period that is longer by the ratio of these
        sums.

        """
        return float(plain(_period_for_gains)(self._run))

    @property
    def q(self) -> Array:
        """Positions (n,) of the last tick or `hold`."""
        return np.array(self._run.tick_q[0])

    @property
    def torque(self) -> Array | None:
        """Torques (n,) of the last tick; None if there is none."""
        return self._run.tick_tau[0] if self._run.ticks else None

    def hold(self, q: Array) -> None:
        """Discard the ticks; the arm is at q (n,)."""
        self._run.ticks, self._run.tick_q[0] = 0, q

    def tick(self, ago: int = 0) -> tuple[float, Array, Array, Array] | None:
        """
        Stamp, q, qd and tau of the last tick (`ago` = 0) or the one before (`ago` = 1).

        None if there was no such tick.

        """
        run = self._run
        if run.ticks <= ago:
            return None
        return (float(run.tick_times[ago]), run.tick_q[ago].copy(), run.tick_qd[ago].copy(),
                run.tick_tau[ago].copy())
