# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Conversion of serialized joint states to positions and velocities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.loop.velocity import SOURCES, VelocitySource
from osc_ros.model.robot import Robot
from osc_ros.ros.messages.serialized_states import JointStateReader, UnrelatedError
from osc_ros.ros.parameters.parameters import Entry

Array = NDArray[np.float64]

VELOCITY = Entry(
    'velocity', 'auto', 'Source of the joint velocities: measured, from joint_states, which are '
    'refused without them; estimated, from the positions (a parabola fitted to 30 ms of them, or '
    'to 5 states); auto, measured if they are present and finite, otherwise estimated',
    choices=SOURCES, live=True)


def compile_velocity(robot: Robot) -> None:
    """Compile or load the kernels by which a `StateInput` of the robot finds velocities."""
    StateInput(robot, 'auto', str, str)


class StateInput(VelocitySource):
    """
    Reader of serialized joint states with measured or estimated velocities (`mode`, see VELOCITY).

    Joints in the messages that the robot lacks are ignored. `tell` gets a text when the source of
    the velocities changes; `tell_unrelated` gets one once, at the first message with none of the
    joints.

    Attributes
    ----------
    reader : JointStateReader
        Has the stamp and the efforts of the last message.
    unrelated : str
        Error text of the last message if it had none of the joints; otherwise empty.

    """

    def __init__(self, robot: Robot, mode: str, tell: Callable[[str], object],
                 tell_unrelated: Callable[[str], object]) -> None:
        super().__init__(robot, mode)
        self.reader, self.unrelated = JointStateReader(robot.joint_names), ''
        self._tell, self._tell_unrelated = tell, tell_unrelated
        self._is_unrelated_reported = False

    def read(self, data: bytes) -> tuple[float, Array, Array] | None:
        """
        Return stamp [s], positions (n,) and velocities (n,) of a serialized message.

        Return None for a message with none of the joints, such as one of a gripper on the same
        topic, and while there are too few positions to estimate velocities.

        Raises
        ------
        InputError
            See `JointStateReader.positions` and `VelocitySource.velocity`.

        """
        try:
            q = self.reader.positions(data)
        except UnrelatedError as error:
            self.unrelated = str(error)
            if not self._is_unrelated_reported:
                self._is_unrelated_reported = True
                self._tell_unrelated(f'joint states of other joints are ignored: {error}')
            return None
        self.unrelated = ''
        measured, missing = None, ''
        if self.mode != 'estimated':
            try:
                measured = self.reader.velocities()
            except InputError as error:
                missing = str(error)
        time = self.reader.time
        used = self.used
        qd = self.velocity(time, q, measured, missing)
        if self.used != used:
            self._tell(f'velocities are {self.used}'
                       + (f' from positions: {self.reason}' if self.reason else ''))
        return None if qd is None else (time, q, qd)
