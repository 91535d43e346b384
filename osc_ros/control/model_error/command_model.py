# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Inverse dynamics for torque commands, minus the torques that the driver adds itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, plain
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
Integers = NDArray[np.int64]

# Head of `integers`: the compensation of the driver (index in COMPENSATES), and the lengths of the
# robot's parts of the three arrays; in each array the driver's part follows.
COMPENSATED, INTEGERS, NUMBERS, ROOM = range(4)
HEAD = ROOM + 1
NOTHING, GRAVITY = COMPENSATES.index('none'), COMPENSATES.index('gravity')


@inlined
def robot_in(integers, numbers, room):
    """The parts of the arrays that belong to the robot, for `osc_ros.dynamics.trees`."""
    return (integers[HEAD:HEAD + integers[INTEGERS]], numbers[:integers[NUMBERS]],
            room[:integers[ROOM]])


@inlined
def _driver_in(integers, numbers, room):
    """The parts of the arrays that belong to the driver's model."""
    return (integers[HEAD + integers[INTEGERS]:], numbers[integers[NUMBERS]:],
            room[integers[ROOM]:])


@kernel
def put_driver(integers, numbers, room, q, qd, out):
    """Write the torques (n,) that the driver adds to commands to `out`; see `CommandModel`."""
    if integers[COMPENSATED] == NOTHING:
        out[:] = 0.0
        return
    known = _driver_in(integers, numbers, room)
    rest = memory_in(known[0], known[2])[0].rest
    inverse_dynamics(known, q, rest if integers[COMPENSATED] == GRAVITY else qd, rest, out)


@kernel
def put_command(integers, numbers, room, q, qd, qdd, out):
    """
    Write M q̈ + C + G, minus the torques that the driver adds, to out (n,) [N·m, N].

    The first three arguments are `CommandModel.arrays`; q, q̇ and q̈ are (n,).

    """
    inverse_dynamics(robot_in(integers, numbers, room), q, qd, qdd, out)
    if integers[COMPENSATED] == NOTHING:
        return
    known, _, known_room = _driver_in(integers, numbers, room)
    driven = memory_in(known, known_room)[0].driven
    put_driver(integers, numbers, room, q, qd, driven)
    for i in range(len(out)):
        out[i] -= driven[i]


class CommandModel:
    """
    A robot, and the torques that its driver adds to commands, as arrays for kernels.

    Parameters
    ----------
    robot : Robot
        All joints have one degree of freedom.
    driver : Driver, optional

    Attributes
    ----------
    gravities : list of (3,)
        Gravity in the base frame, for the robot and the driver [m/s²]; write to the arrays to
        change it.
    beside : array
        Working memory for calls from Python, which may run beside a tick.

    """

    def __init__(self, robot: Robot, driver: Driver | None = None) -> None:
        self.robot = robot
        parts = [packed_robot(robot, PROPAGATED)]
        code = NOTHING if driver is None else COMPENSATES.index(driver.compensates)
        if driver is not None and driver.robot.joint_names != robot.joint_names:
            raise InputError(f"the driver's model has the joints "
                             f"{', '.join(driver.robot.joint_names)}: give those of the "
                             f"robot, {', '.join(robot.joint_names)}")
        if driver is not None and code != NOTHING:
            parts.append(packed_robot(driver.robot, PROPAGATED))
        rooms = [room_for(integers) for integers, _ in parts]
        integers, numbers = zip(*parts)
        head = [code, len(integers[0]), len(numbers[0]), len(rooms[0])]
        self._n = robot.n
        self._integers = np.concatenate([head, *integers]).astype(np.int64)
        self._numbers, self._room = np.concatenate(numbers), np.concatenate(rooms)
        self.beside = self._room.copy()
        first = len(numbers[0])
        self.gravities: list[Array] = [plain(constants_in)(one, part).gravity for one, part in zip(
            integers, (self._numbers[:first], self._numbers[first:]))]
        rest = np.zeros(robot.n)
        self.torque(robot.neutral, rest, rest)  # compiles it now

    @property
    def arrays(self) -> tuple[Integers, Array, Array]:
        """Arrays `integers`, `numbers` and `room`, the first arguments of the kernels."""
        return self._integers, self._numbers, self._room

    @property
    def _arrays_beside(self) -> tuple[Integers, Array, Array]:
        return self._integers, self._numbers, self.beside

    @property
    def command_model(self) -> CommandModel:
        """This object; a law has a property of the same name."""
        return self

    def driver_torque(self, q: Array, qd: Array) -> Array:
        """Torques (n,) that the driver adds to commands at q, q̇ (n,), (n,) [N·m]."""
        tau = np.empty(self._n)
        put_driver(*self._arrays_beside, kernel_array(q), kernel_array(qd), tau)
        return tau

    def torque(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Torques (n,) to command for accelerations q̈ (n,) at q, q̇ (n,), not limited [N·m]."""
        tau = np.empty(self._n)
        put_command(*self._arrays_beside, *map(kernel_array, (q, qd, qdd)), tau)
        return tau
