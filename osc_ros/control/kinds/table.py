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

"""The table of kinds of tasks."""

from __future__ import annotations

from osc_ros.control.kinds.kind import Kind
from osc_ros.control.kinds.look_at import LookAt, put_look_at
from osc_ros.control.kinds.pose import Pose, put_pose
from osc_ros.control.task_numbers import KIND
from osc_ros.dynamics.compiled import inlined

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
