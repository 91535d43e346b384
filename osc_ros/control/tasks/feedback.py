# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Pose feedback of the tasks, and the forces of all tasks in one compiled call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, part
from osc_ros.control.tasks.kind_table import put_kind
from osc_ros.control.tasks.pose_error import pose_error as pose_error
from osc_ros.control.tasks.task_axes import axes_of, put_in_base
from osc_ros.dynamics.algebra.spatial import unrotate
from osc_ros.dynamics.priority import priority

Array = NDArray[np.float64]


class Links(NamedTuple):
    """The m links of the tasks at a joint state, base axes."""

    poses: Array  # (m, 4, 4)
    twists: Array  # (6 m,)
    J: Array  # (6 m, n)
    Lambda_inv: Array  # Λ⁻¹ (6 m, 6 m)
    a0: Array  # (6 m,), accelerations without forces of the tasks


@inlined
def _scale_to(x, start, most):
    """Factor of at most 1 that limits the norm of x[start:start + 3] to `most`."""
    total = 0.0
    for k in range(start, start + 3):
        total += x[k] * x[k]
    return min(1.0, most / np.sqrt(total)) if total > 0.0 else 1.0


@inlined
def put_feedback(error, rate, acceleration, frequency, ratio, speed, most, u):
    """Write u = a_d + 2ζω(v_d - v) + ω² e of a link, (6,) each, in the axes of the arguments."""
    # As a_d + 2ζω(v_d - v + ω/(2ζ) e), `rate` being v_d - v: the approach speed ω/(2ζ) e, then the
    # feedback, are scaled down to `speed` and `most` (see `Gains`) and keep their directions. So
    # the link approaches a far target at a bounded speed without wind-up.
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
def _put_spring(m, d, i):
    """Write force, root and weight of a spring, see `level_slots`; overwrite the acceleration."""
    u, e, a, bounds = d.level_u[i], d.level_spring[i], d.level_root[i], m.feedback_bounds[i]
    for half in range(2):
        for k in range(3 * half, 3 * half + 3):
            u[k] = a[k]
            e[k] *= d.task_gain[i, k]
            a[k] = np.sqrt(d.task_gain[i, k]) * m.moves[i, k]
            d.level_weight[i, k] = np.sqrt(2.0 * d.task_ratio[i, k]) * a[k]
        softer = _scale_to(e, 3 * half, bounds[half])
        for k in range(3 * half, 3 * half + 3):
            e[k] *= softer


@inlined
def _put_level(m, d, i):
    """Write the commands of level i of `Priorities`, error and command of task i."""
    share, R, twist = put_kind(m, d, i), axes_of(d, i), d.task_twist[i]
    u, e, rate = d.level_u[i], d.level_spring[i], d.level_rate[i]
    for k in range(9):
        d.level_frame[i, k] = R[k]
    for k in range(6):
        d.level_activation[i, k] = share * d.activation[i, k]
    a = d.level_root[i]  # overwritten below
    if m.is_spring[i] != 0:
        _put_spring(m, d, i)
    else:
        bounds = m.feedback_bounds[i]
        put_feedback(e, rate, a, d.task_gain[i], d.task_ratio[i], bounds[:2], bounds[2:], u)
        for k in range(6):
            e[k] = a[k] = 0.0
    for half in range(0, 6, 3):
        v = unrotate(R, (twist[half], twist[half + 1], twist[half + 2]))
        for k in range(3):
            u[half + k] -= d.task_drag[i, half + k] * v[k]
    put_in_base(R, u, d.task_u[i])


@part
def put_task_forces(m, d, links):
    """Write the forces of all tasks on their links, by priority; return the number of solves."""
    # The caller must have set `level_wrench` and `level_fastest`.
    for i in range(d.k):
        link, source = m.level_link[i], m.turns_with[i]
        if source >= 0:
            for k in range(9):
                d.task_axes[i, k] = links.poses[source, k // 3, k % 3]
        for k in range(16):
            d.task_pose[i, k // 4, k % 4] = links.poses[link, k // 4, k % 4]
        for k in range(6):
            d.task_twist[i, k] = links.twists[6 * link + k]
        _put_level(m, d, i)
    return priority.put_solution(m, d, links.J, links.Lambda_inv, links.a0)
