# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Quick trials of the demonstration with other parameters, in this process, without ROS."""

from __future__ import annotations

from collections.abc import Callable

from osc_ros.nodes import description, scenario
from osc_ros.nodes.demonstration import Demonstration
from osc_ros.nodes.report import Recording
from osc_ros.nodes.settings import law_of
from osc_ros.nodes.simulated_arm import plant_of

BEGIN = 0.2  # start time of the first motion [s]


def recording_of(demonstration: Demonstration, phases: int | None = None,
                 shown: Callable[[float], object] = lambda share: None
                 ) -> tuple[Recording, list[scenario.Phase]]:
    """
    Return the recording of the motions, and their plan.

    Parameters
    ----------
    demonstration : Demonstration
    phases : int, optional
        Number of phases to run, from the first on; default all.
    shown : callable, optional
        Called now and then with the share of the run that is done.

    Raises
    ------
    OscError
        The parameters do not fit, or the simulation diverges.

    """
    controller, simulator = (demonstration.values[f'osc_{name}']
                             for name in ('controller', 'simulator'))
    _, law = law_of(controller, demonstration.text)
    robot, plan = demonstration.robot, demonstration.phases(BEGIN)[:phases]
    # not the description of the controller: a parameter file may give each node its own
    plant = plant_of(simulator, description.description(simulator), robot)
    law.latch(plant.q)
    for phase in plan:
        law.follow(phase.motion, phase.start)
    recording, ticks = Recording(), 0
    steps = round(1.0 / (simulator['rate'] * simulator['timestep']))
    every = max(1, round(simulator['rate'] / simulator['report_rate']))
    while plant.time < plan[-1].end:
        q, qd, _ = plant.measured()
        tau = law.torque(plant.time, q, qd)
        law.plan()
        if ticks % every == 0:
            recording.pose_times.append(plant.time)
            recording.poses.append(plant.pose(robot.tip))
            shown(plant.time / plan[-1].end)
        recording.add_state(plant.time, q, qd, tau)
        plant.step(tau, steps)
        ticks += 1
    law.close()
    return recording, plan
