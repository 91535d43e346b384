# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Forces: u from the errors of the tasks, and F = Λ(u − a⁰) by priority."""

from __future__ import annotations

from osc_ros.compile.compiled import stage
from osc_ros.control.tasks.feedback import poses_of, put_task_forces, put_wrenches
from osc_ros.control.tasks.free import guide


@stage
def put_forces_of_tasks(law):
    """Write the forces of the tasks on the links."""
    # This runs after `outward` and `jacobian`, which compute the links at this state.
    if law.m.has_force:
        put_wrenches(law.m, law.d, poses_of(law))
    put_task_forces(law)
    if law.m.is_guided:
        guide(law)
