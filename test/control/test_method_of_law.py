# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Which algorithm computes Λ⁻¹, a⁰ and M⁻¹ of a law."""

from dataclasses import replace

import numpy as np

from arm import Arm, articulated_inertias, READY, settings, UNTOUCHED
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.settings import Observation


def test_law_of_a_plain_chain_makes_no_articulated_body_pass():
    arm = Arm()
    law = arm.law
    assert law.space.method == 'sweep'
    law.change(replace(law.settings, observation=Observation(), friction=Friction(
        np.full(7, 0.2), np.full(7, 0.1)), disturbance=Disturbance()))
    slow = Limits.of(arm.robot, velocity=np.full(7, 0.05), effort_rate=np.full(7, np.inf))
    arm.run(0.2)
    law.change(replace(law.settings, limits=slow))  # M⁻¹ in each tick
    arm.run(0.25)
    for column in articulated_inertias():
        column[:] = UNTOUCHED
    law.follow(arm.pose @ np.array([[1, 0, 0, 0.1], [0, 1, 0, 0], [0, 0, 1, 0.1], [0, 0, 0, 1.0]]))
    arm.run(3.0)
    assert np.abs(arm.plant.qd).max() > 0.02
    assert all((column == UNTOUCHED).all() for column in articulated_inertias())
    other = Law(arm.robot, settings(arm.robot), method='recursive')
    other.hold(READY)
    other.torque(0.0, READY, np.zeros(7))
    assert any((column != UNTOUCHED).any() for column in articulated_inertias())


def test_law_with_tasks_on_several_links_names_the_method_of_trees():
    arm = Arm()
    elbow = replace(arm.law.settings.tasks[0], name='elbow', link='panda_link4',
                    axes=('free',) * 3 + ('motion',) * 3)
    law = Law(arm.robot, replace(arm.law.settings, tasks=(*arm.law.settings.tasks, elbow)))
    assert law.space.method == 'efpa'
