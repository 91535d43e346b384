# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Construction of the MuJoCo model of osc_simulator from the parameters of the node."""

from __future__ import annotations

from typing import Any

from osc_ros.model.robot import Robot
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.simulator.world_topics import world_of
from osc_ros.sim.plant import Plant


def plant_of(values: dict[str, Any], text: str, robot: Robot, **options: Any) -> Plant:
    """Return the simulated arm with its payload, at its initial positions."""
    # `values` of osc_simulator, URDF `text` and `options` of `Plant`; InputError or ModelError if
    # they do not fit the robot
    # with None, the plant uses the values of the URDF
    given = {name: values[name] or None for name in ('damping', 'friction', 'effort_limits',
                                                     'rotor_inertia')}
    world = world_of(values, robot)
    added = [add for add in (options.pop('furnish', None), world and world.add) if add]

    def furnish(spec: Any) -> None:
        for add in added:
            add(spec)

    plant = Plant(robot_parameters.with_simulated_payload(values, text, robot), robot.base,
                  robot.joint_names, locked=robot_parameters.locked_positions(values),
                  timestep=values['timestep'], gravity=values['gravity'], seed=values['seed'],
                  position_noise=values['position_noise'],
                  velocity_noise=values['velocity_noise'],
                  compensates=values['driver_compensates'], folder=robot_parameters.folder(values),
                  **given, **options, furnish=furnish if added else None)
    if values['initial_positions']:
        plant.reset(values['initial_positions'])
    return plant
