"""The torques that the driver of the robot adds to the commanded ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.load import Weight
from osc_ros.dynamics.trees.articulated import Articulated
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

COMPENSATES = ('none', 'gravity', 'gravity+coriolis')


class Driver:
    """
    A driver that adds torques to commands: gravity compensation, or gravity and Coriolis.

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
            raise InputError(f"driver compensates '{compensates}': accepted is one of "
                             + ', '.join(COMPENSATES))
        self.compensates = compensates
        self._rest = np.zeros(robot.n)
        self._gravity: Array = np.array(robot.gravity if compensates != 'none' else np.zeros(3))
        self._weight = Weight(robot) if compensates == 'gravity' else None
        self._dynamics = Articulated(robot) if compensates == 'gravity+coriolis' else None

    @property
    def gravity(self) -> Array:
        """Gravity (3,) that the driver compensates, base frame [m/s²]; initially the robot's."""
        return self._gravity.copy()

    @gravity.setter
    def gravity(self, gravity: Array) -> None:
        if self.compensates != 'none':
            self._gravity = np.array(gravity)
        if self._dynamics is not None:
            self._dynamics.gravity[:] = gravity

    def torque(self, q: Array, qd: Array) -> Array:
        """Torques (n,) [N·m] that the driver adds at a state."""
        if self._weight is not None:
            return self._weight.torque(q, self._gravity)
        if self._dynamics is not None:
            return self._dynamics.inverse_dynamics(q, qd, self._rest)
        return self._rest
