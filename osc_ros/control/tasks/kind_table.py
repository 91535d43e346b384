# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Registry of the kinds of tasks."""

from __future__ import annotations

from osc_ros.compile.compiled import inlined
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.look_at import LookAt, point_on_axis, put_look_at
from osc_ros.control.tasks.pose_error import motion_of_link, Pose, put_pose

KINDS: dict[str, type[Kind]] = {'pose': Pose, 'look_at': LookAt}


@inlined
def put_kind(m, d, i):
    """Call the compiled part of the kind of task i; return the factor of the activation."""
    return put_look_at(m, d, i) if m.task_kind[i] == 1 else put_pose(m, d, i)


@inlined
def guided_by_link(m, d, i, target):
    """Motion of a set-point that moves with the link of task i: R, x, ω, v; its distance [m]."""
    # At this distance a rotation moves it; 0 for a pose. `target` (4, 4): present set-point.
    return point_on_axis(m, d, i, target) if m.task_kind[i] == 1 else motion_of_link(d, i)


def number_of(kind: Kind) -> int:
    """Index of a kind in KINDS."""
    return list(KINDS).index(kind.name)
