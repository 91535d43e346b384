# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A smooth step, and constants of smooth changes."""

from __future__ import annotations

from osc_ros.compile.compiled import inlined

# Largest rate of a torque that changes from one source to another, relative to the joint's
# effort limit [1/s].
CHANGE_RATE = 1.0
LONGEST_TICK = 0.02  # longest time by which a change advances in one tick [s]
SETTLED = 6.64  # ω t after which 1 % of a critically damped step remains


@inlined
def smoothed(x: float) -> float:
    """Smooth step (C¹): 0 for x ≤ 0, 1 for x ≥ 1."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)
