# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Activation, wrench and impedance of the tasks at a tick.

`put_references` comes before the dynamics of the tick, `put_wrenches` after them, because it
transforms a measured wrench into the task's frame at this tick.

The activation changes by a C² step. The wrench in force approaches the commanded one behind a
critically damped filter, C¹. A closed force loop adds an integral of the force error and its
low-pass filtered value, see `task.ForceControl`. The integral pauses while limits change the
torques or no fresh wrench is measured; the filtered error loses weight as the wrench grows old.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.control.tasks.impedance import advance, WRENCH
from osc_ros.control.tasks.task_axes import axes_of
from osc_ros.dynamics.algebra.fade import SETTLED
from osc_ros.dynamics.algebra.rotation import rotation_of
from osc_ros.dynamics.algebra.spatial import unrotate

FORGETTING = 0.3  # time constant of the decaying weight of an old measured wrench [s]
FRESH = 0.1  # largest age of a fresh measured wrench [s]


@inlined
def _put_activation(m, d, i, time):
    """Write the activation of task i at a time [s], a C² step."""
    d.activation_since[i] = min(d.activation_since[i], time)
    x = (time - d.activation_since[i]) / m.blend_time
    if x >= 1.0:
        d.activation_changes[i] = 0
    for a in range(6):
        begin, end = d.activation_begin[i, a], m.wanted_activation[i, a]
        share = x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)
        d.activation[i, a] = end if x >= 1.0 else begin + share * (end - begin)


@inlined
def _advance_wrench(m, d, i, dt):
    """Advance the wrench in force of task i by dt [s], by the exact solution of the filter."""
    pace = SETTLED / m.blend_time
    decay = np.exp(-pace * dt)
    for a in range(6):
        wanted, rate = d.wanted_wrench[i, a], d.wrench_rate[i, a]
        offset = d.wrench[i, a] - wanted
        bend = rate + pace * offset
        d.wrench[i, a] = wanted + decay * (offset + dt * bend)
        d.wrench_rate[i, a] = decay * (rate - pace * dt * bend)


@inlined
def _within(x, most):
    return min(max(x, -most), most)


@inlined
def _add_correction(m, d, i, R, time, dt):
    """Add the feedback of the measured wrench to the wrench of level i."""
    age, decay = time - d.measured_time[i], np.exp(-d.force_filter_rate[i] * dt)
    weight = np.exp(min(0.0, FRESH - age) / FORGETTING) * m.force_gain[i]
    x = d.measured_wrench[i]
    for half in range(2):
        first, most = 3 * half, m.force_correction[i, half]
        measured = unrotate(R, (x[first], x[first + 1], x[first + 2]))
        for k in range(3):
            a = first + k
            missing = m.forces[i, a] * (d.wrench[i, a] - measured[k])
            if age <= FRESH and not d.limits_work:
                d.wrench_integral[i, a] = _within(
                    d.wrench_integral[i, a] + d.force_integral_rate[i] * dt * missing, most)
            d.wrench_filtered[i, a] = missing + decay * (d.wrench_filtered[i, a] - missing)
            d.level_wrench[i, a] += d.wrench_integral[i, a] + _within(
                weight * d.wrench_filtered[i, a], most)


@kernel
def put_references(m, d, mobility):
    """Advance changing activations and commanded impedances."""
    # `mobility` (6 m, 6 m) is Λ⁻¹ of the links in base axes, of the last tick.
    for i in range(d.k):
        if d.activation_changes[i] != 0:
            _put_activation(m, d, i, d.time)
        if d.is_commanded[i] != 0:
            advance(m, d, i, mobility, d.time)
            for a in range(6):
                d.feedback_rates[i, a] = 2.0 * d.impedance[i, 1, a] * np.sqrt(d.impedance[i, 0, a])


@kernel
def put_wrenches(m, d, poses):
    """Advance the wrenches of the tasks with axes of force; write them to `level_wrench`."""
    # `poses` (m, 4, 4) are those of the links at this tick. While the limits change the torques,
    # the integral of the force error pauses.
    time = d.time
    for i in range(d.k):
        if not m.forces[i].any():
            continue
        dt = time - d.wrench_time[i] if time > d.wrench_time[i] else 0.0
        d.wrench_time[i] = time
        _advance_wrench(m, d, i, dt)
        for a in range(6):
            d.level_wrench[i, a] = m.forces[i, a] * d.wrench[i, a]
        if m.closes_force[i] != 0:
            source = m.turns_with[i]
            R = rotation_of(poses[source]) if source >= 0 else axes_of(d, i)
            _add_correction(m, d, i, R, time, dt)
        if d.is_commanded[i] != 0:
            for a in range(6):
                d.level_wrench[i, a] += m.moves[i, a] * d.impedance[i, WRENCH, a]
