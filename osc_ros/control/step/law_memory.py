# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Memory of a law that does not depend on its settings: last ticks, mean period, gravity."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, plain
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.limits.limiter import limit_rate
from osc_ros.control.tasks.bandwidth import DELAY, PERIOD_SHARE
from osc_ros.dynamics.algebra.vectors import assign

Array = NDArray[np.float64]

# Longest interval that counts as a tick [s]. After a longer one, a change of gravity is completed.
PAUSE = 0.1

STATE = Table(
    'LawState',
    Slot('time', (1,), 's', 'stamp of the last tick, also before a latch'),
    Slot('noted', (1,), 's', 'stamp of the last state that counts in `period`'),
    Slot('period', (1,), 's', 'mean period of the states; 0 before the first interval'),
    Slot('delay', (1,), '', 'periods from the stamp of a state to the torque computed from it'),
    Slot('ticks', (1,), '', 'number of the remembered ticks, 0 to 2'),
    Slot('times', (2,), 's', 'stamps of the last tick and of the one before'),
    Slot('q', (2, 'n'), 'rad, m', 'positions at these ticks; the first row also after a latch'),
    Slot('qd', (2, 'n'), 'rad/s, m/s', 'velocities at these ticks'),
    Slot('tau', (2, 'n'), 'N·m, N', 'torques of these ticks'),
    Slot('gravity', (3,), 'm/s²', 'gravity in the base frame, less the acceleration of the base'),
    Slot('gravity_wanted', (3,), 'm/s²', 'the value that it approaches'),
    Slot('in_contact', (1,), '', '1 while a contact is known: the compensation is then held'),
    Slot('speed', (1,), '', 'speed override, 0 to 1'))

_views, _period_views = STATE.views, STATE.only('time', 'noted', 'period', 'delay')
tick_views = STATE.only('ticks', 'tau')
views = STATE.only('time', 'delay', 'gravity', 'gravity_wanted', 'in_contact', 'speed')


@inlined
def _period_for_gains(at):
    return at.period[0] * max(1.0, (0.5 + at.delay[0]) / (0.5 + DELAY))


@kernel
def note_period(law, n, time):
    """
    Update the mean period with a state at a time [s]; return the period for the gains [s].

    An interval of more than two mean periods counts as two of them. Another call for the same
    state changes nothing.

    """
    at = _period_views(law, n)
    dt = time - at.time[0]
    if 0.0 < dt <= PAUSE and at.noted[0] != time:
        if at.period[0] > 0.0:
            at.period[0] += PERIOD_SHARE * (min(dt, 2.0 * at.period[0]) - at.period[0])
        else:
            at.period[0] = dt
    at.noted[0] = time
    return _period_for_gains(at)


@kernel
def leave(law, limiter, time, q, qd, tau):
    """
    Limit the rate of the torques tau (n,), and store the tick; return whether all are finite.

    If they are not, the tick is not stored. `law` is a record of STATE, `limiter` one of
    `limiter.STATE`; `time` is in s.

    """
    if not limit_rate(limiter, time, tau):
        return False
    at = _views(law, len(q))
    at.times[1] = at.times[0]
    for rows in (at.q, at.qd, at.tau):
        assign(rows[1], rows[0])
    at.time[0] = at.times[0] = time
    assign(at.q[0], q)
    assign(at.qd[0], qd)
    assign(at.tau[0], tau)
    at.ticks[0] = min(at.ticks[0] + 1.0, 2.0)
    return True


class LawMemory(Recorded):
    """
    The last two ticks of a law, the mean period of its states, and gravity (3,) [m/s²].

    `n` is the number of joints.

    """

    TABLES = STATE,

    def __init__(self, n: int, gravity: Array) -> None:
        super().__init__(n)
        [at] = self.views
        at.delay[0], at.time[0], at.noted[0] = DELAY, -math.inf, -math.inf
        at.gravity[:] = at.gravity_wanted[:] = gravity
        at.speed[0] = 1.0

    @property
    def time(self) -> float:
        """Stamp of the last tick [s]; -infinite before the first one."""
        return float(self.views[0].time[0])

    @time.setter
    def time(self, time: float) -> None:
        self.views[0].time[0] = time

    @property
    def gravity(self) -> Array:
        """Gravity (3,) in force, minus the acceleration of the base, base frame [m/s²]."""
        return np.asarray(self.views[0].gravity)

    @property
    def gravity_wanted(self) -> Array:
        """The value (3,) that `gravity` approaches at GRAVITY_RATE [m/s²]; write to the array."""
        return np.asarray(self.views[0].gravity_wanted)

    @property
    def period_for_gains(self) -> float:
        """
        Period that bounds the gains [s].

        The phase lag of the loop grows with the sum of half a period, for the sample and hold, and
        the delay. So a longer delay counts like a period that is longer by the ratio of these
        sums.

        """
        return float(plain(_period_for_gains)(self.views[0]))

    @property
    def q(self) -> Array:
        """Positions (n,) of the last tick or `hold`."""
        return np.array(self.views[0].q[0])

    @property
    def torque(self) -> Array | None:
        """Torques (n,) of the last tick; None if there is none."""
        [at] = self.views
        return at.tau[0] if at.ticks[0] else None

    def hold(self, q: Array) -> None:
        """Discard the ticks; the arm is at q (n,)."""
        [at] = self.views
        at.ticks[0], at.q[0] = 0.0, q

    def tick(self, ago: int = 0) -> tuple[float, Array, Array, Array] | None:
        """
        Stamp, q, qd and tau of the last tick (`ago` = 0) or the one before (`ago` = 1).

        None if there was no such tick.

        """
        [at] = self.views
        if at.ticks[0] <= ago:
            return None
        return (float(at.times[ago]), at.q[ago].copy(), at.qd[ago].copy(), at.tau[ago].copy())
