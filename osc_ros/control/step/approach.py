# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Approach: references, damping and posture move to their values at a state."""

from __future__ import annotations

from osc_ros.compile.compiled import stage
from osc_ros.control.setpoint.posture import posture_acceleration, put_springs
from osc_ros.control.tasks.free import put_damping
from osc_ros.control.tasks.task_reference import put_references


@stage
def approach(m, d, posture, Lambda_inv):
    """Advance task references; write acceleration of the posture and torques of joint springs."""
    # This runs before the dynamics of the tick, so Λ⁻¹ (6 m, 6 m) is that of the last tick.
    put_references(m, d, Lambda_inv)
    if m.is_guided:
        put_damping(m, d)
    posture_acceleration(m, d, posture, d.qd, d.qdd_posture)
    put_springs(d, posture)
