# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Blend of the torques of two setups while one replaces the other, after a change of settings.

A setup is a law compiled for one robot and one choice of settings, see `compiled_law.CompiledLaw`.
There is one blend at a time: a change that comes within it waits for its end.
All limits of a state are linear in the torques, and in a blend both setups have the limits in
force: a blend of torques within the limits is within them, too, so torques are blended after the
limits. With different robots, the other setup's torques cause other accelerations: each setup
counts those of the last tick in its bounds (`fading_acceleration`), if they drive a joint towards
the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, stage
from osc_ros.control.step.limit import count_fading, take_state
from osc_ros.dynamics.algebra.spatial import assign, CHANGE_RATE, LONGEST_TICK, smoothed

Array = NDArray[np.float64]

HURRIED = 0.1  # least duration of a blend for whose end another change of settings waits [s]


def begin_blend(run: Any, time: float, difference: Array, limits: Array, least: float) -> None:
    """Give the replaced setup the weight 1 at a time [s]; for the duration see `_duration`."""
    run.blend_duration = _duration(difference, limits, least)
    run.blend_time, run.blend_age, run.blend_weight = time, 0.0, 1.0


def hurry(run: Any, difference: Array, limits: Array) -> None:
    """Shorten a blend to HURRIED, or to what its present difference (n,) needs."""
    if run.blend_weight > 0.0:
        found = _duration(difference / run.blend_weight, limits, HURRIED)
        if found < run.blend_duration:
            run.blend_age *= found / run.blend_duration
            run.blend_duration = found


def _duration(difference: Array, limits: Array, least: float) -> float:
    """Duration of a blend [s]: `least`, or longer for a large difference (n,) of the torques."""
    # A constant difference then changes by at most 3/4 CHANGE_RATE · limit per second. Limits may
    # be infinite.
    return max(least, 2.0 * float((np.abs(difference) / limits).max()) / CHANGE_RATE)


@kernel
def advance(run, time):
    """Advance a blend to a time [s]; return by how much the weight of the old setup falls."""
    before = run.blend_weight
    if before > 0.0:
        run.blend_age += min(max(time - run.blend_time, 0.0), LONGEST_TICK)
        run.blend_time = time
        run.blend_weight = 1.0 - smoothed(run.blend_age / run.blend_duration)
    return before - run.blend_weight


@inlined
def count_weight(law, fall):
    """Let the limited rates of both setups include the torque by a fall of the old weight."""
    new, old = law.d.last_limited, law.other.d.last_limited
    for i in range(law.d.n):
        change = fall * (new[i] - old[i])
        new[i] -= change
        old[i] -= change


@stage
def begin_tick(law):
    """Give the state, and the limits in force, to the law that is being replaced."""
    old, new = law.other.d, law.d
    take_state(old, new.time, new.q, new.qd)
    for row in range(len(new.limits)):
        assign(old.limits[row], new.limits[row])
    old.limits_age = np.inf


@inlined
def own_torque(d, i):
    """Torque of joint i for the settings of one law, without the compensation of model errors."""
    return d.tau_limited[i] + (d.tau_friction[i] - d.tau_driver[i])


@inlined
def blended_driver(law, i):
    """Torque that the driver adds to joint i; in a blend, between those of both models."""
    driver = law.d.tau_driver[i]
    if law.replaces:
        driver -= law.run.blend_weight * (driver - law.other.d.tau_driver[i])
    return driver


@stage
def blend(law):
    """Write `tau_fading` of the law and of the one that it replaces: difference to the blend."""
    d, run = law.d, law.run
    if not law.replaces:
        d.tau_fading[:] = 0.0
        return
    old = law.other.d
    for i in range(d.n):
        ours, theirs = own_torque(d, i), own_torque(old, i)
        d.tau_fading[i] = run.blend_weight * (theirs + run.tau_carried[i] - ours)
        old.tau_fading[i] = ours + d.tau_fading[i] - theirs - run.tau_carried[i]
    # the limits compare the measured motion with the torques sent, so both count this difference
    count_fading(d, run.blends_load)
    count_fading(old, run.blends_load)
