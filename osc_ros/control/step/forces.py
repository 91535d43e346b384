# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Forces: u from the errors of the tasks, and F = Λ(u − a⁰) by priority."""

from __future__ import annotations

from osc_ros.compile.compiled import stage, view, viewing
from osc_ros.control.tasks.feedback import Links, put_task_forces, put_wrenches
from osc_ros.control.tasks.free import guide


@viewing
def links_of(law):
    """Return the `Links` of a record LAW."""
    d, a0 = law.d, law.a0
    return Links(view(law.pose, 0, (d.m, 4, 4)), law.twist, d.J,
                 view(law.Lambda_inv, 0, (len(a0), len(a0))), a0)


@stage
def put_forces_of_tasks(m, d, links):
    """Write the forces of the tasks on the links."""
    # This runs after `outward` and `jacobian`, which write the `Links` of this state.
    if m.has_force:
        put_wrenches(m, d, links.poses)
    put_task_forces(m, d, links)
    if m.is_guided:
        guide(m, d, links)
