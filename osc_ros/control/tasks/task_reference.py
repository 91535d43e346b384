# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Activation, wrench and impedance of the tasks at a tick, in compiled functions on records.

`put_references` advances activations and commanded impedances before the dynamics of the tick are
computed. `put_wrenches` computes the wrenches along the axes of force after the dynamics, because
it transforms a measured wrench into the task's frame at this tick.

The activation changes by a C² step. The wrench in force approaches the commanded one behind a
critically damped filter, C¹. In a closed force loop an integral of the force error and its
low-pass filtered value are added, see `osc_ros.control.tasks.task.ForceControl`. The integral
pauses while limits change the torques or no fresh wrench is measured. The filtered error loses
its weight as the measured wrench grows old.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.compile.record import Slot, Table
from osc_ros.control.tasks.impedance import advance, COMMANDED, IN_FORCE, WRENCH
from osc_ros.control.tasks.task_numbers import ACTIVATION, axes_of, MOVES, SHAPE, TURNS_WITH
from osc_ros.dynamics.algebra.fade import SETTLED
from osc_ros.dynamics.algebra.rotation import rotation_of
from osc_ros.dynamics.algebra.spatial import unrotate
from osc_ros.dynamics.priority import level_row

FORGETTING = 0.3  # time constant of the decaying weight of an old measured wrench [s]
FRESH = 0.1  # largest age of a fresh measured wrench [s]

PLAN = Table(
    'TaskPlan',
    Slot('blend_time', (1,), 's', 'duration of changes of activation and wrench'),
    Slot('activation', (6,), '', 'activation of each axis after its change'),
    Slot('force', (6,), '', '1 for axes of force'),
    Slot('wrench', (6,), 'N·m, N', 'commanded wrench along the axes of force, axes of the task'),
    Slot('is_closed', (1,), '', '1 if measured wrenches are used'),
    Slot('gain', (1,), '', 'gain of the filtered force error'),
    Slot('integral_rate', (1,), '1/s', 'gain of the integral of the force error'),
    Slot('filter_rate', (1,), '1/s', 'rate of the filter of the force error'),
    Slot('correction', (2,), 'N·m, N', 'largest moment and force by the gain, and by the '
         'integral'),
    Slot('fastest', (1,), '1/s²', 'bound of the squared frequencies of a spring at the period of '
         'the states'),
    *COMMANDED)

STATE = Table(
    'TaskState',
    Slot('is_changing', (1,), '', '1 while the activation changes'),
    Slot('since', (1,), 's', 'when the activation began to change; infinite until the first tick'),
    Slot('activation', (6,), '', 'activation at the beginning of its change'),
    Slot('wrench', (6,), 'N·m, N', 'wrench in force along the axes of force, axes of the task'),
    Slot('wrench_rate', (6,), 'N·m/s, N/s', 'rate of change of `wrench`'),
    Slot('integral', (6,), 'N·m, N', 'integral of the force error'),
    Slot('filtered', (6,), 'N·m, N', 'force error behind its filter'),
    Slot('wrench_time', (1,), 's', 'time of the last tick of the wrench; NaN before the first'),
    Slot('measured', (6,), 'N·m, N', 'last measured wrench on the environment, base axes'),
    Slot('measured_time', (1,), 's', 'stamp of `measured`; -infinite before the first one'),
    *IN_FORCE)

_plan_views, _state_views = PLAN.views, STATE.views


@inlined
def _put_activation(plan, state, task, time):
    """Write the activation at a time [s], a C² step."""
    state.since[0] = min(state.since[0], time)
    x = (time - state.since[0]) / plan.blend_time[0]
    if x >= 1.0:
        state.is_changing[0] = 0.0
    for i in range(6):
        begin, end = state.activation[i], plan.activation[i]
        share = x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)
        task[SHAPE + 6 * ACTIVATION + i] = end if x >= 1.0 else begin + share * (end - begin)


@inlined
def _advance_wrench(plan, state, dt):
    """Advance the wrench in force by dt [s], by the exact solution of the filter."""
    pace = SETTLED / plan.blend_time[0]
    decay = np.exp(-pace * dt)
    for i in range(6):
        offset, rate = state.wrench[i] - plan.wrench[i], state.wrench_rate[i]
        bend = rate + pace * offset
        state.wrench[i] = plan.wrench[i] + decay * (offset + dt * bend)
        state.wrench_rate[i] = decay * (rate - pace * dt * bend)


@inlined
def _within(x, most):
    return min(max(x, -most), most)


@inlined
def _add_correction(plan, state, R, row, time, dt, is_saturated):
    """Add the feedback of the measured wrench to WRENCH of the row."""
    age, decay = time - state.measured_time[0], np.exp(-plan.filter_rate[0] * dt)
    weight = np.exp(min(0.0, FRESH - age) / FORGETTING) * plan.gain[0]
    for half in range(2):
        first, most = 3 * half, plan.correction[half]
        measured = unrotate(R, (state.measured[first], state.measured[first + 1],
                                state.measured[first + 2]))
        for k in range(3):
            i = first + k
            missing = plan.force[i] * (state.wrench[i] - measured[k])
            if age <= FRESH and not is_saturated:
                state.integral[i] = _within(
                    state.integral[i] + plan.integral_rate[0] * dt * missing, most)
            state.filtered[i] = missing + decay * (state.filtered[i] - missing)
            row[level_row.WRENCH + i] += state.integral[i] + _within(
                weight * state.filtered[i], most)


@kernel
def put_references(integers, arrays, mobility, rates, time, period):
    """
    Advance changing activations and commanded impedances to a time [s].

    The gains are bounded for `period` [s].

    Parameters
    ----------
    integers : array
        Integers of `Priorities`, which contain the link of each task.
    arrays : tuple of (k, …), (k, …), (k, TASK_WIDTH), (k, WIDTH), written
        A row of each array per task: records of PLAN and STATE, the task's numbers, and its row of
        `Priorities`.
    mobility : (6 m, 6 m)
        Λ⁻¹ of the links in base axes, of the last tick.
    rates : (k, 7), written
        Columns 0 to 5: 2 ζ √stiffness of the springs, see
        `osc_ros.control.step.reference.Reference`.

    """
    plans, states, tasks, rows = arrays
    for k in range(len(plans)):
        plan, state = _plan_views(plans[k], 0), _state_views(states[k], 0)
        if state.is_changing[0] > 0.0:
            _put_activation(plan, state, tasks[k], time)
        if plan.is_commanded[0] > 0.0:
            advance(plan, state, tasks[k], rows[k], mobility, 6 * integers[3 + k], time, period)
            for i in range(6):
                rates[k, i] = 2.0 * state.now[1, i] * np.sqrt(state.now[0, i])


@kernel
def put_wrenches(arrays, poses, time, is_saturated):
    """
    Advance the wrenches of the tasks with axes of force; write them to WRENCH of their rows.

    `poses` (m, 4, 4) are those of the links at this tick. If the limits changed the torque
    (`is_saturated`), the integral of the force error pauses. For the other arguments see
    `put_references`.

    """
    plans, states, tasks, rows = arrays
    for k in range(len(plans)):
        plan, state = _plan_views(plans[k], 0), _state_views(states[k], 0)
        task, row = tasks[k], rows[k]
        if not plan.force.any():
            continue
        dt = time - state.wrench_time[0] if time > state.wrench_time[0] else 0.0
        state.wrench_time[0] = time
        _advance_wrench(plan, state, dt)
        for i in range(6):
            row[level_row.WRENCH + i] = plan.force[i] * state.wrench[i]
        if plan.is_closed[0] > 0.0:
            source = int(task[TURNS_WITH])
            R = rotation_of(poses[source]) if source >= 0 else axes_of(task)
            _add_correction(plan, state, R, row, time, dt, is_saturated)
        if plan.is_commanded[0] > 0.0:
            for i in range(6):
                row[level_row.WRENCH + i] += task[SHAPE + 6 * MOVES + i] * state.now[WRENCH, i]
