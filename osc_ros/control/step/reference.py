# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Reference velocity of the joints: their velocity if every task followed its target.

It does not depend on the measured velocity. The nullspace motion is integrated from the posture's
law. Then the velocities of the tasks' links are set to those of their targets with the least
change in kinetic energy (Gauss), in the order of priority. Control of singular directions fades
out as in the law, with the factors of its last solve. Only the positions of the measured state are
used, in the Jacobian and in the posture's error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.control.setpoint.level import Level
from osc_ros.control.setpoint.posture import posture_acceleration
from osc_ros.control.step.evaluate import PAUSE
from osc_ros.control.tasks.task import Gains
from osc_ros.dynamics.priority.priority import forces_for, subtract_velocity, velocity_wanted

# Time constant with which `longest_tick` becomes shorter after a long interval between two ticks:
# a loop that was interrupted recently may be interrupted again [s].
MEMORY = 5.0


@inlined
def integrate(m, d, dt, posture):
    """Integrate the nullspace motion of the reference over dt [s]; see `posture_acceleration`."""
    velocity, before, ticks = d.reference_qd, d.reference_before, 0.0 < dt <= PAUSE
    if ticks:
        posture_acceleration(m, d, posture, velocity, before)
    for j in range(d.n):
        change = dt * before[j] if ticks else 0.0
        before[j] = velocity[j]
        velocity[j] += change


@inlined
def put_forces(m, d):
    """Write the forces that set the tasks' velocities to those of their targets."""
    # They change the velocities of the tasks' coordinates as if velocities were accelerations.
    velocity, r, parts = d.reference_qd, d.wanted_rates, d.link_rates
    for i in range(d.k):
        link = 6 * m.level_link[i]
        velocity_wanted(d, i, parts, r)
        for a in range(6):
            parts[a] = 0.0
            for j in range(d.n):
                parts[a] += d.J[link + a, j] * velocity[j]
        subtract_velocity(d, i, parts, r)
    forces_for(m, d, r, parts, d.rate_forces)


@inlined
def note_tick(d):
    """Record the time of a tick in which the reference was advanced."""
    dt = d.time - d.reference_time
    if 0.0 < dt < np.inf:
        dt = min(dt, PAUSE)
        d.longest_tick = max(dt, d.longest_tick + (dt - d.longest_tick) * dt / MEMORY)
    d.reference_time = d.time


@inlined
def put_motion(m, d, dt, mobility):
    """Add the tasks' change to the reference velocity, clip it to limits, and differentiate it."""
    # Also write the highest rate of the velocity feedback. `mobility` (6 m, 6 m) is Λ⁻¹.
    velocity, acceleration = d.reference_qd, d.reference_qdd
    for j in range(d.n):
        velocity[j] = min(max(velocity[j] + d.reference_change[j], -d.most_speed[j]),
                          d.most_speed[j])
        if 0.0 < dt <= PAUSE:
            acceleration[j] = (velocity[j] - d.reference_before[j]) / dt
        elif dt != 0.0:
            acceleration[j] = 0.0
    d.highest_rate = 0.0
    for i in range(d.k):
        d.highest_rate = max(d.highest_rate, d.feedback_rates[i, 6])
        for a in range(6):
            spring = 6 * m.level_link[i] + a
            d.highest_rate = max(
                d.highest_rate, d.feedback_rates[i, a] * np.sqrt(mobility[spring, spring]))


def put_at_rest(d: Any) -> None:
    """Reset the reference motion of a record LAW_D to rest."""
    d.reference_qd[:] = d.reference_qdd[:] = d.reference_tau[:] = 0.0
    d.reference_time, d.longest_tick = -math.inf, 0.0


def feedback_rates(level: Level) -> list[float]:
    """Return the velocity feedback of a task: a number for each of six axes, and a rate [1/s]."""
    # An axis: 2 ζ √stiffness of its spring, or 0; at the mobility m (1 / inertia) its feedback has
    # the rate 2 ζ √(stiffness · m) [1/s]. The last number is the highest of all other rates of the
    # task.
    gains = level.task.gains
    spring = (np.zeros(6) if isinstance(gains, Gains) else
              2.0 * gains.damping_ratio * np.sqrt(gains.stiffness))
    return [*spring.tolist(), level.rate]
