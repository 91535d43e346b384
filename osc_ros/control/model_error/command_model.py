# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Inverse dynamics for torque commands, minus the torques that the driver adds itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import kernel, plain
from osc_ros.control.data import MODEL
from osc_ros.control.model_error.driver import COMPENSATES, Driver
from osc_ros.dynamics.algebra.arrays import kernel_array
from osc_ros.dynamics.trees.articulated import inverse_dynamics
from osc_ros.dynamics.trees.tree_layout import (
    constants_in,
    memory_in,
    packed_robot,
    PROPAGATED,
    room_for,
)
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

NOTHING, GRAVITY = COMPENSATES.index('none'), COMPENSATES.index('gravity')


@kernel
def put_driver(model, q, qd, out):
    """Write the torques (n,) that the driver adds to commands to `out`; `model` is a MODEL."""
    if model.driver_adds == NOTHING:
        out[:] = 0.0
        return
    known = model.driver_integers, model.driver_numbers, model.driver_room
    rest = memory_in(known[0], known[2]).rest
    inverse_dynamics(known, q, rest if model.driver_adds == GRAVITY else qd, rest, out)


@kernel
def put_command(model, q, qd, qdd, out):
    """Write M q̈ + C + G, minus the torques that the driver adds, to out (n,) [N·m, N]."""
    known = model.robot_integers, model.robot_numbers, model.robot_room
    inverse_dynamics(known, q, qd, qdd, out)
    if model.driver_adds == NOTHING:
        return
    driven = memory_in(model.driver_integers, model.driver_room).driven
    put_driver(model, q, qd, driven)
    for i in range(len(out)):
        out[i] -= driven[i]


class CommandModel:
    """A robot, and the torques that its driver adds to commands, as a record for kernels."""

    # All joints have one degree of freedom. InputError: the driver's model has other joints.

    def __init__(self, robot: Robot, driver: Driver | None = None) -> None:
        self.robot, self._n = robot, robot.n
        self.record, self.beside = MODEL.new(), MODEL.new()  # beside: for calls during a tick
        code = NOTHING if driver is None else COMPENSATES.index(driver.compensates)
        if driver is not None and driver.robot.joint_names != robot.joint_names:
            raise InputError(f"the driver's model has the joints "
                             f"{', '.join(driver.robot.joint_names)}: give those of the "
                             f"robot, {', '.join(robot.joint_names)}")
        parts = [packed_robot(robot, PROPAGATED)]
        if driver is not None and code != NOTHING:
            parts.append(packed_robot(driver.robot, PROPAGATED))
        (integers, numbers), (driver_integers, driver_numbers) = parts[0], parts[-1]
        gravity, driver_gravity = (plain(constants_in)(*parts[i]).gravity for i in (0, -1))
        for one in self.record, self.beside:
            one.gravity, one.driver_gravity = gravity, driver_gravity
            one.driver_adds, one.robot_integers, one.robot_numbers = code, integers, numbers
            one.driver_integers, one.driver_numbers = driver_integers, driver_numbers
            one.robot_room, one.driver_room = room_for(integers), room_for(driver_integers)
        rest = np.zeros(robot.n)
        self.torque(robot.neutral, rest, rest)  # compiles it now

    @property
    def command_model(self) -> CommandModel:
        """This object; a law has a property of the same name."""
        return self

    def driver_torque(self, q: Array, qd: Array) -> Array:
        """Torques (n,) that the driver adds to commands at q, q̇ (n,), (n,) [N·m]."""
        tau = np.empty(self._n)
        put_driver(self.beside, kernel_array(q), kernel_array(qd), tau)
        return tau

    def torque(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Torques (n,) to command for accelerations q̈ (n,) at q, q̇ (n,), not limited [N·m]."""
        tau = np.empty(self._n)
        put_command(self.beside, *map(kernel_array, (q, qd, qdd)), tau)
        return tau
