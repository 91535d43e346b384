# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Memory of a `CompiledLaw`: all its numbers in one array, and the index at which each part begins.

For k tasks on m links and n joints, the integers are: k, m, n; the link of each task (up to here
the integers of `Priorities`); the index at which each part of the numbers begins, and the index
after the last part; the addresses of the records of each task's target.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, plain, view
from osc_ros.compile.record import Slot, Table
from osc_ros.control.limits import limiter
from osc_ros.control.step.reference import reference_size
from osc_ros.control.tasks import free, task_reference
from osc_ros.control.tasks.task_numbers import TASK_WIDTH
from osc_ros.dynamics.priority.priority import results_size, solver_size

Array = NDArray[np.float64]

OWN = Table(
    'SetupState',
    Slot('damping', (3,), 'm; 1; 1', 'length, low and high of `SingularityDamping`'),
    Slot('posture', (4,), 'rad/s; 1/s; rad/s; 1', 'gains of the posture in force, see '
         '`posture_acceleration`'),
    Slot('has_force', (1,), '', '1 if a task has axes of force'),
    Slot('period', (1,), 's', 'period of the states that bounds the gains'),
    Slot('longest_period', (1,), 's', 'longest period at which all gains are stable as set'),
    Slot('stretch', (1,), '', 'factor on the period in the bounds of the gains, see '
         '`bandwidth.stretch`'),
    Slot('least_inertia', ('n',), 'kg·m², kg', 'least inertia of each joint, see friction'),
    Slot('stiffness', ('n',), 'N·m/rad, N/m', 'of each joint, if the joints are springs'),
    Slot('spring_damping', ('n',), 'N·m·s/rad, N·s/m', 'of each joint'),
    Slot('springs', ('n',), 'N·m, N', 'torques of these springs'),
    Slot('asks', (1,), '', '1 if `SetPointGenerator.plan` has work before the next tick'),
    Slot('blends', (1,), '', '1 while the torques are blended with those of another setup'),
    Slot('friction', ('n',), 'N·m, N', 'torques that compensate friction'),
    Slot('driver', ('n',), 'N·m, N', 'torques that the driver adds'))


class Block(NamedTuple):
    """
    Views of the parts of the numbers of a `CompiledLaw`, for k tasks on m links and n joints.

    - solver: numbers of `Priorities`; they are the first part
    - tasks (k, TASK_WIDTH): see `osc_ros.control.tasks.task_numbers`
    - task_plans, task_states (k, …): records of `osc_ros.control.tasks.task_reference`
    - J (6 m, n): Jacobian of the links
    - reference: `Reference.numbers`
    - limits, limiter, room: records PLAN, STATE and ROOM of `osc_ros.control.limits.limiter`
    - drive, guided: records PLAN and STATE of `osc_ros.control.tasks.free`
    - own: record of OWN, with all numbers that are in no other part
    - guides (k, 2): addresses of the records of the tasks' targets, for `motion.put_targets`

    """

    solver: Array
    tasks: Array
    task_plans: Array
    task_states: Array
    J: Array
    reference: Array
    limits: Array
    limiter: Array
    room: Array
    drive: Array
    guided: Array
    own: Array
    guides: NDArray[np.int64]


_PLAN_WIDTH, _STATE_WIDTH = task_reference.PLAN.size(0), task_reference.STATE.size(0)


@inlined
def block_in(integers, numbers):
    """Return the `Block` of the two arrays of a `CompiledLaw`, in kernels."""
    k, m, n = integers[0], integers[1], integers[2]
    at = integers[3 + k:]
    return Block(
        view(numbers, 0, (at[1],)), view(numbers, at[1], (k, TASK_WIDTH)),
        view(numbers, at[2], (k, _PLAN_WIDTH)), view(numbers, at[3], (k, _STATE_WIDTH)),
        view(numbers, at[4], (6 * m, n)), view(numbers, at[5], (at[6] - at[5],)),
        view(numbers, at[6], (at[7] - at[6],)), view(numbers, at[7], (at[8] - at[7],)),
        view(numbers, at[8], (at[9] - at[8],)), view(numbers, at[9], (at[10] - at[9],)),
        view(numbers, at[10], (at[11] - at[10],)), view(numbers, at[11], (at[12] - at[11],)),
        view(integers, len(integers) - 2 * k, (k, 2)))


def block_of(at: Sequence[int], m: int, n: int) -> tuple[Array, Array]:
    """Return integers and zeroed numbers of a `CompiledLaw` with tasks at the links `at`."""
    k = len(at)
    tables = limiter.PLAN, limiter.STATE, limiter.ROOM, free.PLAN, free.STATE, OWN
    sizes = (solver_size(k, m, n), k * TASK_WIDTH, k * _PLAN_WIDTH, k * _STATE_WIDTH, 6 * m * n,
             reference_size(k, m, n), *(table.size(n) for table in tables))
    starts = [0, *accumulate(sizes)]
    return np.array([k, m, n, *at, *starts, *np.zeros(2 * k, int)]), np.zeros(starts[-1])


def kept_in(integers: Array, numbers: Array) -> tuple[Array, ...]:
    """Return the parts with the results of a tick, and with the state for the next tick."""
    parts, (k, m, n) = views_of(integers, numbers), integers[:3].tolist()
    return (parts.solver[:results_size(k, m, n)], parts.tasks, parts.task_plans,
            parts.task_states, parts.J, parts.reference, parts.limiter, parts.guided, parts.own)


def views_of(integers: Array, numbers: Array) -> Block:
    """Return the `Block` of the two arrays of a `CompiledLaw`, in Python."""
    return Block(*plain(block_in)(integers, numbers))
