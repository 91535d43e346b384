# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Gravity vector of the model: it changes to a new value at a bounded rate."""

from __future__ import annotations

import numpy as np

from osc_ros.dynamics.addresses import numbers_at
from osc_ros.dynamics.compiled import inlined
from osc_ros.dynamics.vectors import assign

# Largest rate of change of gravity in the model [m/s³]: as in a base that rotates at 2 rad/s.
GRAVITY_RATE = 20.0


@inlined
def advance_gravity(now, wanted, dt):
    """Advance gravity `now` (3,) to `wanted` (3,) by dt [s]; return whether it has changed."""
    far = 0.0
    for i in range(3):
        far += (wanted[i] - now[i]) * (wanted[i] - now[i])
    if far == 0.0:
        return False
    far, step = np.sqrt(far), GRAVITY_RATE * max(dt, 0.0)
    for i in range(3):
        now[i] = wanted[i] if far <= step else now[i] + step / far * (wanted[i] - now[i])
    return True


@inlined
def put_gravity(gravities, gravity):
    """Write gravity (3,) to each of its copies, whose addresses are `gravities` (k,)."""
    for i in range(len(gravities)):
        assign(numbers_at(gravities[i], 3), gravity)
