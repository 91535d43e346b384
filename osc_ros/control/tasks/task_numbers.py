# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Columns of a task's row of numbers, which `feedback.put_task_forces` reads and writes."""

from __future__ import annotations

from osc_ros.compile.compiled import inlined
from osc_ros.dynamics.algebra.spatial import rotate, unrotate

# TARGET, TWIST, ACCELERATION  set-point: pose (16), twist (6), acceleration (6)
# AXES                         rotation of the task's axes to base axes (9)
# SHAPE                        six rows (36), see below
# ERROR                        result: reported error (6) in base axes
# LAG                          result: lag (6) behind the set-point in base axes, compared with
#                              `TargetLimits.leash`
# COMMANDED                    result: commanded acceleration (6)
# SEEN, SEEN_TWIST             result: pose (16) and twist (6) of the link
# IS_SPRING                    1 if the task is a spring
# TURNS_WITH                   index of the link that the axes rotate with, -1 for none
# KIND, OWN                    index of the kind in `KINDS`; numbers of the kind (9)
TARGET, TWIST, ACCELERATION, AXES, SHAPE = 0, 16, 22, 28, 37
ERROR, LAG, COMMANDED, SEEN, SEEN_TWIST = 73, 79, 85, 91, 107
IS_SPRING, TURNS_WITH, KIND, OWN, TASK_WIDTH = 113, 114, 115, 116, 125
# Rows of SHAPE: 1 where motion is controlled; damping rate of the axes of force [1/s]; natural
# frequency or stiffness; damping ratio; bounds of the feedback (4); activation.
MOVES, DRAG, GAIN, RATIO, BOUNDS, ACTIVATION = range(6)


@inlined
def axes_of(task):
    """Rotation of the task's axes to base axes: nine numbers, row by row."""
    return (task[AXES], task[AXES + 1], task[AXES + 2], task[AXES + 3], task[AXES + 4],
            task[AXES + 5], task[AXES + 6], task[AXES + 7], task[AXES + 8])


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
