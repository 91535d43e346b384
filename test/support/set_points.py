# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Targets of a set-point generator without a law."""

import numpy as np

from osc_ros.control.setpoint.motion import put_target


def target_at(guide, time, limits, lag=None, speed=1.0):
    """
    Plan the motions of a generator that are due; return its target at a time [s].

    A motion that starts at this time affects only the next target. `lag` (6,): pose error at the
    last tick, base axes [rad, m]; `speed`: speed override, 0 to 1.

    """
    guide.keep_within(limits)
    guide.jump(time)
    guide.plan()
    put_target(*guide.records, np.zeros(6) if lag is None else lag, time, speed)
    return guide.target
