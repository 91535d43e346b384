# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Blend of the torques of two setups while one replaces the other, on records.

A setup is a law compiled for one robot and one choice of settings, see
`osc_ros.control.compiled_law.CompiledLaw`.

All limits of a state are linear in the torques, and during a blend both setups have the limits in
force, so a blend of torques that satisfy the limits satisfies them, too. Therefore the torques are
blended after the limits. If the setups have different robots, each satisfies the limits according
to its own robot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import kernel, stage
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.limits.limiter import add, STATE
from osc_ros.control.step.block import block_in, OWN
from osc_ros.dynamics.algebra.fade import CHANGE_RATE, LONGEST_TICK, smoothed
from osc_ros.dynamics.algebra.vectors import assign

Array = NDArray[np.float64]

HURRIED = 0.1  # least duration of a blend for whose end another change of settings waits [s]

BLEND = Table(
    'Blend',
    Slot('weight', (1,), '', 'share of the replaced setup, 1 to 0; 0: there is none'),
    Slot('time', (1,), 's', 'stamp of the last tick'),
    Slot('age', (1,), 's', 'time since the blend began'),
    Slot('duration', (1,), 's', 'length of the blend'),
    Slot('has_load', (1,), '', '1 if the setups have different robots'),
    Slot('carried', ('n',), 'N·m, N', 'compensation of model errors that only the replaced setup '
         'needs, because the new model includes it'),
    Slot('before', ('n',), 'N·m, N', 'torques of the replaced setup at this tick, with `carried`'),
    Slot('difference', ('n',), 'N·m, N', 'torques of this tick minus those of the new setup'),
    Slot('driver', ('n',), 'N·m, N', 'torques that the driver adds'))

_views, _own_views, _limits_views = BLEND.views, OWN.views, STATE.only('table', 'is_changing')


@kernel
def advance(blend, n, time):
    """Advance a blend to a time [s]; return the weight of the replaced setup."""
    at = _views(blend, n)
    if at.weight[0] > 0.0:
        at.age[0] += min(max(time - at.time[0], 0.0), LONGEST_TICK)
        at.time[0] = time
        at.weight[0] = 1.0 - smoothed(at.age[0] / at.duration[0])
    return at.weight[0]


@stage
def put_limits(old_integers, old_numbers, integers, numbers):
    """
    Let the limits in force hold for the replaced setup, too.

    The arguments belong to the replaced setup and to the setup in force, see
    `osc_ros.control.step.block`.

    """
    n = integers[2]
    old, new = block_in(old_integers, old_numbers), block_in(integers, numbers)
    before, now = _limits_views(old.limiter, n), _limits_views(new.limiter, n)
    for row in range(len(now.table)):
        assign(before.table[row], now.table[row])
    before.is_changing[0] = 0.0


@stage
def mix(blend, old_integers, old_numbers, integers, numbers, tau):
    """
    Overwrite the torques tau (n,) of the setup in force with the blended ones.

    `blend` is a record of BLEND with the torques of the replaced setup in `before`; the other
    arguments are those of `put_limits`. The limiters of both setups record the difference to the
    blended torques, because they compare the measured motion with the torques that were sent.

    """
    n = integers[2]
    at = _views(blend, n)
    old, new = block_in(old_integers, old_numbers), block_in(integers, numbers)
    before, own = _own_views(old.own, n), _own_views(new.own, n)
    for i in range(n):
        at.driver[i] = own.driver[i] - at.weight[0] * (own.driver[i] - before.driver[i])
        at.difference[i] = at.weight[0] * (at.before[i] + at.carried[i] - tau[i])
        tau[i] += at.difference[i]
        # from now on: torques that are sent in addition to those of the replaced setup
        at.before[i] = tau[i] - at.before[i]
    add(new.limiter, new.room, at.difference)
    add(old.limiter, old.room, at.before)


class Blend(Recorded):
    """
    Weight of a replaced setup, which falls smoothly (C¹) from 1 to 0.

    The duration is the blend time, or the largest 2 |difference| / (CHANGE_RATE · limit) of all
    joints if that is longer: then a constant difference changes by at most 3/4 CHANGE_RATE · limit
    per second.

    """

    TABLES = BLEND,

    @property
    def weight(self) -> float:
        """Weight of the replaced setup; 0 after the end."""
        return float(self.views[0].weight[0])

    def end(self) -> None:
        """End the blend at once."""
        self.record[:] = 0.0

    def begin(self, time: float, difference: Array, limits: Array, blend_time: float) -> None:
        """
        Start the blend with weight 1 at a time [s].

        `difference` (n,) are the torques of the replaced setup minus those of the new one [N·m];
        `limits` (n,) are the effort limits, which may be infinite; `blend_time` is the least
        duration [s].

        """
        [at] = self.views
        at.duration[0] = _duration(difference, limits, blend_time)
        at.difference[:], at.time[0], at.age[0], at.weight[0] = difference, time, 0.0, 1.0

    def hurry(self, limits: Array) -> None:
        """Shorten the blend to HURRIED, or to what the present difference of the torques needs."""
        [at] = self.views
        if at.weight[0] == 0.0:
            return
        found = _duration(at.difference / at.weight[0], limits, HURRIED)
        if found < at.duration[0]:
            at.age[0] *= found / at.duration[0]
            at.duration[0] = found


def _duration(difference: Array, limits: Array, least: float) -> float:
    return max(least, 2.0 * float((np.abs(difference) / limits).max()) / CHANGE_RATE)
