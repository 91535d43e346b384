# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Registry of the kinds of tasks."""

from __future__ import annotations

from osc_ros.compile.compiled import inlined
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.look_at import LookAt, put_look_at
from osc_ros.control.tasks.pose_error import Pose, put_pose
from osc_ros.control.tasks.task_numbers import KIND

KINDS: dict[str, type[Kind]] = {'pose': Pose, 'look_at': LookAt}


@inlined
def put_kind(task, pose, twist, row):
    """Call the compiled part of the task's kind; return the factor of the activation."""
    if task[KIND] == 1.0:
        return put_look_at(task, pose, twist, row)
    return put_pose(task, pose, twist, row)


def number_of(kind: Kind) -> int:
    """Index of a kind in KINDS."""
    return list(KINDS).index(kind.name)
