# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Approach: references, damping and posture move to their values at a state."""

from __future__ import annotations

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.setpoint.posture import posture_acceleration, put_springs
from osc_ros.control.step.law_record import stage_at
from osc_ros.control.step.stages import RESPONSE
from osc_ros.control.tasks.free import put_damping
from osc_ros.control.tasks.task_reference import put_references


@stage
def approach(m, d, posture, Lambda_inv, time, q, qd):
    """
    Advance task references; write acceleration of the posture and joint springs.

    This runs before the dynamics of the tick, so Λ⁻¹ (6 m, 6 m) is that of the last tick.

    """
    put_references(m, d, Lambda_inv, time)
    if m.is_guided:
        put_damping(m, d, qd)
    posture_acceleration(m, d, q, qd, posture, d.qdd_posture)
    put_springs(d, posture, q, qd)


@inlined
def add_springs(law, tau):
    """Add the torques of the joint springs, and write their accelerations; return a status."""
    d = law.d
    for i in range(d.n):
        tau[i] += d.tau_springs[i]
    return stage_at(law.stage, (law, RESPONSE, d.tau_springs, d.link_F, d.qdd_law))
