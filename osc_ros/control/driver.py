"""What the robot's driver adds to the torques that it is commanded."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.operational_space import OperationalSpace
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
        self._rest, self._no_force = np.zeros(robot.n), np.zeros(6 * len(robot.tips))
        self._space = None if compensates == 'none' else OperationalSpace(robot)

    def torque(self, q: Array, qd: Array, gravity: ArrayLike | None = None) -> Array:
        """
        Torques (n,) [N·m] that the driver adds at a state, in a gravity (3,) [m/s²].

        The robot's gravity if none is given.

        """
        if self._space is None:
            return self._rest
        if gravity is not None:
            self._space.gravity = gravity
        moving = qd if self.compensates == 'gravity+coriolis' else self._rest
        self._space.outward(q, moving, posture_acceleration=self._rest)
        return self._space.inward(self._no_force)
