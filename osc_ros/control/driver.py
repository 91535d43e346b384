"""What the robot's driver adds to the torques that it is commanded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.trees.articulated import Articulated
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

COMPENSATES = ('none', 'gravity', 'gravity+coriolis')


class Driver:
    """
    A driver that adds torques of its own: the weight of the robot, or that and C.

    Parameters
    ----------
    robot : Robot
        As the driver knows it: with a payload only where the driver was told of it.
    compensates : str
        'none', 'gravity' or 'gravity+coriolis'.

    Raises
    ------
    InputError
        Another word.

    """

    def __init__(self, robot: Robot, compensates: str) -> None:
        if compensates not in COMPENSATES:
            raise InputError(f"driver compensates '{compensates}': accepted is one of "
                             + ', '.join(COMPENSATES))
        self.compensates = compensates
        self._rest = np.zeros(robot.n)
        self._dynamics = None if compensates == 'none' else Articulated(robot)

    @property
    def gravity(self) -> Array:
        """Gravity that it compensates (3,), base frame [m/s²]: the robot's, until it is set."""
        return np.zeros(3) if self._dynamics is None else self._dynamics.gravity.copy()

    @gravity.setter
    def gravity(self, gravity: Array) -> None:
        if self._dynamics is not None:
            self._dynamics.gravity[:] = gravity

    def torque(self, q: Array, qd: Array) -> Array:
        """Torques (n,) [N·m] that the driver adds at a state."""
        if self._dynamics is None:
            return self._rest
        moving = qd if self.compensates == 'gravity+coriolis' else self._rest
        return self._dynamics.inverse_dynamics(q, moving, self._rest)
