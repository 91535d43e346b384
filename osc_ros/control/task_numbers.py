# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""The columns of a task's row of numbers, which `task_forces` reads and writes."""

from __future__ import annotations

from osc_ros.dynamics.compiled import inlined
from osc_ros.dynamics.spatial import rotate, unrotate

# Of the set-point: pose (16), twist (6), acceleration (6). Rotation of the task's axes to base
# axes (9). Shape (36): six rows, see below. Results: error (6), as it is reported, and lag (6)
# behind the set-point, which the guide compares with its leash, both in base axes; commanded
# acceleration (6); pose (16) and twist (6) of the link. Whether the task is a spring; the link
# that the axes turn with, -1 for none; place of the kind in `KINDS`; the kind's own numbers (9).
TARGET, TWIST, ACCELERATION, AXES, SHAPE = 0, 16, 22, 28, 37
ERROR, LAG, COMMANDED, SEEN, SEEN_TWIST = 73, 79, 85, 91, 107
IS_SPRING, TURNS_WITH, KIND, OWN, TASK_WIDTH = 113, 114, 115, 116, 125
# Rows of the shape: 1 where motion is controlled; rate that brakes the axes of force [1/s];
# natural frequency or stiffness; damping ratio; bounds (4); activation.
MOVES, DRAG, GAIN, RATIO, BOUNDS, ACTIVATION = range(6)


@inlined
def axes_of(task):
    """Rotation of the task's axes to base axes, nine numbers by rows."""
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
