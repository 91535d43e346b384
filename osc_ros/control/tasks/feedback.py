# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Pose feedback of the tasks, and the forces of all tasks in one compiled call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, part, view
from osc_ros.control.tasks.kind_table import put_kind
from osc_ros.control.tasks.pose_error import pose_error as pose_error
from osc_ros.control.tasks.task_numbers import (
    ACTIVATION,
    AXES,
    axes_of,
    BOUNDS,
    COMMANDED,
    DRAG,
    GAIN,
    IS_SPRING,
    MOVES,
    put_in_base,
    SEEN,
    SEEN_TWIST,
    SHAPE,
    TURNS_WITH,
)
from osc_ros.dynamics.algebra.spatial import unrotate
from osc_ros.dynamics.priority import level_row, priority

Array = NDArray[np.float64]


class Links(NamedTuple):
    """
    The m links of the tasks at a joint state, base axes.

    - poses (m, 4, 4), twists (6 m,), J (6 m, n)
    - Lambda_inv (6 m, 6 m): Λ⁻¹
    - a0 (6 m,): accelerations without forces of the tasks

    """

    poses: Array
    twists: Array
    J: Array
    Lambda_inv: Array
    a0: Array


@inlined
def _scale_to(x, start, most):
    """Factor of at most 1 that limits the norm of x[start:start + 3] to `most`."""
    total = 0.0
    for k in range(start, start + 3):
        total += x[k] * x[k]
    return min(1.0, most / np.sqrt(total)) if total > 0.0 else 1.0


@inlined
def put_feedback(error, rate, acceleration, frequency, ratio, speed, most, u):
    """
    Write the acceleration u = a_d + 2ζω(v_d - v) + ω² e of a link, in the axes of the arguments.

    Computed as u = a_d + 2ζω(v_d - v + ω/(2ζ) e). The approach speed ω/(2ζ) e, and then the whole
    feedback, are scaled down to their limits and keep their directions, so the link approaches a
    far target at a bounded speed without wind-up.

    Parameters
    ----------
    error, rate, acceleration, u : (6,)
        Error e, [angular; linear]; its rate v_d - v [rad/s, m/s]; a_d [rad/s², m/s²]; u, written.
    frequency, ratio, speed, most
        See `Gains`; `most` is its `acceleration`.

    """
    for half in range(2):
        axes = range(3 * half, 3 * half + 3)
        for k in axes:
            u[k] = frequency[k] / (2.0 * ratio[k]) * error[k]
        slower = _scale_to(u, 3 * half, speed[half])
        for k in axes:
            u[k] = 2.0 * ratio[k] * frequency[k] * (rate[k] + slower * u[k])
        softer = _scale_to(u, 3 * half, most[half])
        for k in axes:
            u[k] = acceleration[k] + softer * u[k]


@inlined
def _put_spring(row, motion, gains, bounds, u, e, a):
    """Write SPRING, the force; ROOT and WEIGHT, square roots of stiffness and damping."""
    for half in range(2):
        for k in range(3 * half, 3 * half + 3):
            u[k] = a[k]
            e[k] *= gains[0, k]
            a[k] = np.sqrt(gains[0, k]) * motion[k]
            row[level_row.WEIGHT + k] = np.sqrt(2.0 * gains[1, k]) * a[k]
        softer = _scale_to(e, 3 * half, bounds[half])
        for k in range(3 * half, 3 * half + 3):
            e[k] *= softer


@inlined
def _put_row(task, pose, twist, row):
    """
    Fill a task's row (WIDTH,) of `Priorities`, and write errors and commands to `task`.

    `pose` (4, 4) and `twist` (6,) are those of the link.

    """
    shape = view(task, SHAPE, (6, 6))
    motion, drag, gains, bounds = shape[MOVES], shape[DRAG], shape[GAIN:BOUNDS], shape[BOUNDS]
    share = put_kind(task, pose, twist, row)
    R = axes_of(task)
    for i in range(9):
        row[level_row.FRAME + i] = R[i]
    for i in range(6):
        row[level_row.ACTIVATION + i] = share * shape[ACTIVATION, i]
    u, e = row[level_row.U:level_row.U + 6], row[level_row.SPRING:level_row.SPRING + 6]
    rate = row[level_row.RATE:level_row.RATE + 6]
    a = row[level_row.ROOT:level_row.ROOT + 6]  # overwritten below
    if task[IS_SPRING] != 0.0:
        _put_spring(row, motion, gains, bounds, u, e, a)
    else:
        put_feedback(e, rate, a, gains[0], gains[1], bounds[:2], bounds[2:], u)
        for k in range(6):
            e[k] = a[k] = 0.0
    for half in range(0, 6, 3):
        v = unrotate(R, (twist[half], twist[half + 1], twist[half + 2]))
        for i in range(3):
            u[half + i] -= drag[half + i] * v[i]
    put_in_base(R, u, task[COMMANDED:SEEN])


@part
def put_task_forces(integers, numbers, tasks, links, damping):
    """
    Write the forces of all tasks on their links, by priority, to the arrays of `Priorities`.

    Returns the number of solves.

    Parameters
    ----------
    integers, numbers : `Priorities.arrays`
        The caller must have set WRENCH and FASTEST in the rows of `Priorities`.
    tasks : (k, TASK_WIDTH), written
        A row per task: see `osc_ros.control.tasks.task_numbers`.
    links : Links
    damping : (3,)
        `length`, `low` and `high` of `SingularityDamping`.

    """
    room = priority.room_of(integers, numbers)
    for k in range(len(tasks)):
        task, link = tasks[k], room.at[k]
        pose, twist = links.poses[link], links.twists[6 * link:6 * link + 6]
        source = int(task[TURNS_WITH])
        if source >= 0:
            for i in range(9):
                task[AXES + i] = links.poses[source, i // 3, i % 3]
        for i in range(16):
            task[SEEN + i] = pose[i // 4, i % 4]
        for i in range(6):
            task[SEEN_TWIST + i] = twist[i]
        _put_row(task, pose, twist, room.rows[k])
    return priority.put_solution(integers, numbers, links.J, links.Lambda_inv, links.a0,
                                 damping[0], damping[1], damping[2])
