# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Conversion of serialized joint states to positions and velocities."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.loop.velocity import SOURCES, VelocitySource
from osc_ros.model.robot import Robot
from osc_ros.ros.messages.serialized_states import (
    Flags,
    IncompleteError,
    JointStateReader,
    UnrelatedError,
    UnusedError,
)
from osc_ros.ros.parameters.parameters import Entry

Array = NDArray[np.float64]

LONG = 0.2  # a state that is incomplete for longer is reported [s]

VELOCITY = Entry(
    'velocity', 'auto', 'Source of the joint velocities: measured, from joint_states, which are '
    'refused without them; estimated, from the positions (a parabola fitted to 30 ms of them, or '
    'to 5 states); auto, measured if they are present and finite, otherwise estimated',
    choices=SOURCES, live=True)
FROM = Entry(
    'joint_states_from', (), 'Nodes whose joint states are used, such as /driver; empty: those of '
    'any node, if each joint has one publisher. A change applies at the next activation (of '
    'osc_relay: when it begins to forward), or at the next release', of=str, live=True)


def compile_velocity(robot: Robot) -> None:
    """Compile or load the kernels by which a `StateInput` of the robot finds velocities."""
    StateInput(robot, 'auto', str, str)


class StateInput(VelocitySource):
    """Reader of serialized joint states with measured or estimated velocities (see VELOCITY)."""

    def __init__(self, robot: Robot, mode: str, tell: Callable[[str], object],
                 tell_unrelated: Callable[[str], object]) -> None:
        super().__init__(robot, mode)
        # `reader` has the stamp and the efforts of the last message. `lack`: why that made no
        # state, because it has none or a part of the joints.
        self.reader, self.lack = JointStateReader(robot.joint_names), ''
        self._incomplete_since = np.inf
        # `tell` gets a text when the source of the velocities changes, and while messages lack a
        # joint for longer than LONG; `tell_unrelated` once, at a message with none of the joints.
        self._tell, self._tell_unrelated = tell, tell_unrelated
        self._is_unrelated_reported = False

    def read(self, data: bytes, chosen: Callable[[Flags], Flags]
             ) -> tuple[float, Array, Array] | None:
        """Return stamp [s], positions (n,) and velocities (n,) of a message, or None."""
        # None: no joint is used; the rest of the joints has not come; or too few positions to
        # estimate. For `chosen` and InputError see `JointStateReader.positions`,
        # `VelocitySource.velocity`.
        try:
            q = self.reader.positions(data, chosen)
        except UnrelatedError as error:
            self.lack = str(error)
            if not self._is_unrelated_reported:
                self._is_unrelated_reported = True
                self._tell_unrelated(f'joint states of other joints are ignored: {error}')
            return None
        except UnusedError:
            return None
        except IncompleteError as error:
            self.lack, now = str(error), perf_counter()
            self._incomplete_since = min(self._incomplete_since, now)
            if now - self._incomplete_since > LONG:
                self._tell(f'joint states are incomplete: {error}')
            return None
        self.lack, self._incomplete_since = '', np.inf
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
