# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Blend of the torques of two setups while one replaces the other.

A setup is a law compiled for one robot and one choice of settings, see
`osc_ros.control.compiled_law.CompiledLaw`.

All limits of a state are linear in the torques, and during a blend both setups have the limits in
force, so a blend of torques that satisfy the limits satisfies them, too. Therefore the torques are
blended after the limits. If the setups have different robots, each satisfies the limits according
to its own robot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import kernel, stage
from osc_ros.control.data import OF_BLEND
from osc_ros.control.limits.limiter import add
from osc_ros.control.step.law_record import torque_at
from osc_ros.dynamics.algebra.fade import CHANGE_RATE, LONGEST_TICK, smoothed
from osc_ros.dynamics.algebra.vectors import assign

Array = NDArray[np.float64]

HURRIED = 0.1  # least duration of a blend for whose end another change of settings waits [s]


@kernel
def advance(run, time):
    """Advance a blend to a time [s]."""
    if run.blend_weight > 0.0:
        run.blend_age += min(max(time - run.blend_time, 0.0), LONGEST_TICK)
        run.blend_time = time
        run.blend_weight = 1.0 - smoothed(run.blend_age / run.blend_duration)


@stage
def put_limits(old, new):
    """Let the limits in force hold for the replaced setup, too; both are records D."""
    for row in range(len(new.limits)):
        assign(old.limits[row], new.limits[row])
    old.limits_change = False


@stage
def mix(run, old, new, tau):
    """
    Overwrite the torques tau (n,) of the setup in force with the blended ones.

    `old` and `new` are the records LAW_D of both setups, whose limits record the difference to the
    blended torques, because they compare the measured motion with the torques that were sent.

    """
    weight = run.blend_weight
    for i in range(run.n):
        run.blended_driver[i] = new.tau_driver[i] - weight * (new.tau_driver[i]
                                                              - old.tau_driver[i])
        run.tau_difference[i] = weight * (run.tau_replaced[i] + run.tau_carried[i] - tau[i])
        tau[i] += run.tau_difference[i]
        # from now on: torques that are sent in addition to those of the replaced setup
        run.tau_replaced[i] = tau[i] - run.tau_replaced[i]
    add(new, run.tau_difference)
    add(old, run.tau_replaced)


@stage
def blended_torque(law, time, q, qd, tau):
    """Write the torques for the settings in force, blended with those for the replaced ones."""
    old, d, run = law.other, law.d, law.run
    put_limits(old.d, d)
    count = torque_at(old.setup_torque, (old, time, q, qd, run.tau_replaced))
    if count < 0:
        return count
    count = torque_at(law.setup_torque, (law, time, q, qd, tau))
    mix(run, old.d, d, tau)
    if old.d.plans:
        d.plans = True
    return count


class Blend:
    """
    Weight of a replaced setup, which falls smoothly (C¹) from 1 to 0.

    The duration is the blend time, or the largest 2 |difference| / (CHANGE_RATE · limit) of all
    joints if that is longer: then a constant difference changes by at most 3/4 CHANGE_RATE · limit
    per second. `run` is a record RUN of `osc_ros.control.data`.

    """

    def __init__(self, run: Any) -> None:
        self._run = run

    @property
    def weight(self) -> float:
        """Weight of the replaced setup; 0 after the end."""
        return float(self._run.blend_weight)

    def end(self) -> None:
        """End the blend at once."""
        self._run.clear(one.name for one in OF_BLEND)

    def begin(self, time: float, difference: Array, limits: Array, blend_time: float) -> None:
        """
        Start the blend with weight 1 at a time [s].

        `difference` (n,) are the torques of the replaced setup minus those of the new one [N·m];
        `limits` (n,) are the effort limits, which may be infinite; `blend_time` is the least
        duration [s].

        """
        run = self._run
        run.blend_duration = _duration(difference, limits, blend_time)
        run.tau_difference[:], run.blend_time = difference, time
        run.blend_age, run.blend_weight = 0.0, 1.0

    def hurry(self, limits: Array) -> None:
        """Shorten the blend to HURRIED, or to what the present difference of the torques needs."""
        run = self._run
        if run.blend_weight == 0.0:
            return
        found = _duration(run.tau_difference / run.blend_weight, limits, HURRIED)
        if found < run.blend_duration:
            run.blend_age *= found / run.blend_duration
            run.blend_duration = found


def _duration(difference: Array, limits: Array, least: float) -> float:
    return max(least, 2.0 * float((np.abs(difference) / limits).max()) / CHANGE_RATE)
