"""Joint states as the controller and the relay take them: with velocities, sent or estimated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from osc_ros.control.velocity import SOURCES, VelocitySource
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.nodes import messages
from osc_ros.nodes.parameters import Entry

Array = NDArray[np.float64]

VELOCITY = Entry(
    'velocity', 'auto', 'Velocities of the joints: measured, from joint_states, which are refused '
    'without; estimated, from the positions (a parabola fitted to 30 ms of them, or to 5 states); '
    'auto, measured where they are there and finite, else estimated', choices=SOURCES, live=True)


class StateInput(VelocitySource):
    """
    Reads joint states; velocities are those of `osc_ros.control.velocity.VelocitySource`.

    Parameters
    ----------
    robot : Robot
        Whose joints are taken out of the messages.
    mode : str
        Where velocities come from.
    tell : callable
        Told in words when the source of the velocities changes.

    """

    def __init__(self, robot: Robot, mode: str, tell: Callable[[str], object]) -> None:
        super().__init__(robot, mode)
        self._tell = tell
        self._reader = messages.JointStateReader(robot.joint_names)
        self.names = self._reader.names
        self.efforts = self._reader.efforts

    def read(self, message: JointState) -> tuple[float, Array, Array] | None:
        """
        Return stamp [s], positions (n,) and velocities (n,).

        None while velocities have to be estimated and too few positions have come.

        Raises
        ------
        InputError
            Of `JointStateReader.read` and `VelocitySource.velocity`.

        """
        q, measured, missing = self._reader.positions(message), None, ''
        if self.mode != 'estimated':
            try:
                measured = self._reader.velocities(message)
            except InputError as error:
                missing = str(error)
        time = messages.seconds(message.header.stamp)
        used = self.used
        qd = self.velocity(time, q, measured, missing)
        if self.used != used:
            self._tell(f'velocities are {self.used}'
                       + (f' from positions: {self.reason}' if self.reason else ''))
        return None if qd is None else (time, q, qd)
