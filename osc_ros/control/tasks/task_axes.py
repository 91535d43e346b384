# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Conversions between the axes of a task and base axes."""

from __future__ import annotations

from osc_ros.compile.compiled import inlined
from osc_ros.dynamics.algebra.spatial import rotate, unrotate


@inlined
def axes_of(d, i):
    """Rotation matrix from the axes of task i to base axes, as nine numbers by rows."""
    R = d.task_axes[i]
    return R[0], R[1], R[2], R[3], R[4], R[5], R[6], R[7], R[8]


@inlined
def put_in_axes(R, x, mask, y):
    """Write y = mask · (Rᵀ x), for six numbers [angular; linear]."""
    for part in range(0, 6, 3):
        turned = unrotate(R, (x[part], x[part + 1], x[part + 2]))
        for i in range(3):
            y[part + i] = mask[part + i] * turned[i]


@inlined
def put_in_base(R, x, y):
    """Write y = R x, for six numbers [angular; linear]."""
    for part in range(0, 6, 3):
        y[part], y[part + 1], y[part + 2] = rotate(R, (x[part], x[part + 1], x[part + 2]))
