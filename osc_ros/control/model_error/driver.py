# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Model of a driver that adds torques to the commanded ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.limits.load import Weight
from osc_ros.dynamics.methods import default_method
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

COMPENSATES = ('none', 'gravity', 'gravity+coriolis')


class Driver:
    """
    A driver that adds torques to commands: gravity compensation, or gravity and Coriolis.

    Each parameter is stored under its name.

    Parameters
    ----------
    robot : Robot
        The driver's model: with a payload only if the driver is configured with it.
    compensates : str
        'none', 'gravity' or 'gravity+coriolis'.

    Raises
    ------
    InputError
        Another value of `compensates`.

    """

    def __init__(self, robot: Robot, compensates: str) -> None:
        if compensates not in COMPENSATES:
            raise InputError(f"driver compensates '{compensates}': must be one of "
                             + ', '.join(COMPENSATES))
        self.robot, self.compensates = robot, compensates
        self._rest = np.zeros(robot.n)
        self._gravity = np.array(robot.gravity)
        self._weight = Weight(robot) if compensates == 'gravity' else None
        self._dynamics = default_method(robot) if compensates == 'gravity+coriolis' else None

    def __reduce__(self) -> tuple[object, ...]:
        """Return the parameters, because records cannot be pickled."""
        return Driver, (self.robot, self.compensates)

    def torque(self, q: Array, qd: Array, gravity: Array | None = None) -> Array:
        """
        Torques (n,) [N·m] that the driver adds at q, q̇ (n,), (n,).

        `gravity` is (3,), in the base frame [m/s²]; default: the robot's.

        """
        if gravity is None:
            gravity = self._gravity
        if self._weight is not None:
            return self._weight.torque(q, gravity)
        if self._dynamics is not None:
            self._dynamics.gravity[:] = gravity
            return self._dynamics.inverse_dynamics(q, qd, self._rest)
        return self._rest
