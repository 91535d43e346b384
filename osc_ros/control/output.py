# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The torque that is sent: faded when its source changes, and within limits and their rates."""

from __future__ import annotations

import numpy as np

from osc_ros.control.fade import smoothed
from osc_ros.dynamics.compiled import inlined

LONGEST_TICK = 0.05  # longest time step of a change of limits [s]
LONGEST_GAP = 2.0  # mean intervals: longest time step of the torque rate limit
HASTE = 0.1  # factor of `fade_time` for an arm faster than its limits


@inlined
def advance_limits(settings, blend_time, at, dt):
    """Advance a change of the limits by a time dt [s]; infinite limits change at once."""
    is_new = False
    for i in range(len(at.limits)):
        is_new = is_new or settings.limits[i] != at.limits_wanted[i]
    if is_new:
        at.limits_duration[0], at.limits_age[0] = blend_time, 0.0
        for i in range(len(at.limits)):
            wanted = settings.limits[i]
            both = np.isfinite(at.limits[i]) and np.isfinite(wanted)
            at.limits_wanted[i], at.limits_away[i] = wanted, at.limits[i] - wanted if both else 0.0
    if at.limits_duration[0] > 0.0:
        age = at.limits_age[0] = min(at.limits_age[0] + dt, at.limits_duration[0])
        rest = 1.0 - smoothed(age / at.limits_duration[0])
        for i in range(len(at.limits)):
            at.limits[i] = at.limits_wanted[i] + rest * at.limits_away[i]
        if age >= at.limits_duration[0]:
            at.limits_duration[0] = 0.0


@inlined
def begin_fade(at, duration, tau):
    """Begin to fade from the torque sent last to the torque tau (n,) of another source."""
    at.fade_duration[0], at.fade_age[0] = duration, 0.0
    for i in range(len(tau)):
        at.fade_from[i] = at.tau[i] - tau[i]


@inlined
def fade(at, dt, tau):
    """Add the rest of the fade after a further time dt [s] to the torque tau (n,)."""
    if at.fade_duration[0] > 0.0:
        age = at.fade_age[0] = min(at.fade_age[0] + dt, at.fade_duration[0])
        rest = 1.0 - smoothed(age / at.fade_duration[0])
        for i in range(len(tau)):
            tau[i] += rest * at.fade_from[i]
        if age >= at.fade_duration[0]:
            at.fade_duration[0] = 0.0


@inlined
def bound(settings, at, dt, tau):
    """
    Write to `at.tau` the torques nearest to tau (n,) within limits, and their rates after dt [s].

    Whatever tau is, the torques are finite.

    """
    for i in range(len(tau)):
        last, limit = at.tau[i], at.limits[i]
        found = min(max(tau[i], -limit), limit)
        if at.has_sent[0] > 0.0 and settings.rates[i] < np.inf:
            step = settings.rates[i] * dt
            found = min(max(found, last - step), last + step)
        at.tau[i] = found if np.isfinite(found) else (last if np.isfinite(last) else 0.0)
    at.has_sent[0] = 1.0
