# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Gripper of a client: it moves and grasps without blocking the arm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from osc_ros.client.inputs import finite, positive
from osc_ros.errors import ArmTimeoutError
from osc_ros.model.gripper_state import GripperState

if TYPE_CHECKING:
    from osc_ros.client.backend import Backend

TIMEOUT = 5.0  # default time-out [s]
GRIPPER = 'osc_simulator/gripper'  # default prefix of the gripper's topics


class Gripper:
    """
    The gripper of an `Arm`: `arm.gripper`.

    A command returns when the gripper has accepted it or, with `wait`, when the fingers have come
    to rest; in both cases the arm continues its motion. A hold or an error of the arm does not
    change the gripper, so that it does not drop its load.

    >>> arm.move_to(goal, wait=False)                               # doctest: +SKIP
    >>> arm.gripper.grasp(force=40.0)          # closes while the arm moves
    >>> arm.wait()

    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def state(self) -> GripperState:
        """
        Return the newest state.

        >>> arm.gripper.state().width                               # doctest: +SKIP

        Raises
        ------
        InputError
            There is no gripper; the text says how to add one.

        """
        return self._backend.gripper_state()

    def move(self, width: float, force: float | None = None, speed: float | None = None,
             wait: bool = True, timeout: float = TIMEOUT) -> GripperState:
        """
        Move the fingers to a width; return the state there or, without `wait`, on the way.

        >>> arm.gripper.move(0.08)                                  # doctest: +SKIP

        Parameters
        ----------
        width : float [m]
            Distance between the fingers.
        force : float, optional
            Largest force of each finger [N]; default: that of the gripper, 20 N in simulation.
        speed : float, optional
            Rate of change of the width [m/s]; default: the largest.
        wait : bool
            Whether to wait until the fingers rest, at the width or at an object between them.
        timeout : float
            Longest time to wait, on the clock of the arm [s].

        Raises
        ------
        InputError
            The gripper refuses the numbers, or there is no gripper.
        ArmTimeoutError
            The fingers are not at rest in time; they continue to move.

        """
        given = [finite('width', width)]
        if force is not None or speed is not None:
            given.append(math.nan if force is None else finite('force', force))
        if speed is not None:
            given.append(finite('speed', speed))
        timeout = positive('timeout', timeout, 's')
        self._backend.move_gripper(given)
        return self.wait(timeout) if wait else self.state()

    def grasp(self, force: float, speed: float | None = None, wait: bool = True,
              timeout: float = TIMEOUT) -> GripperState:
        """
        Close the fingers, and press an object between them with a force of each finger [N].

        `is_holding` of the returned state is True if there is an object. The gripper continues to
        press. Set the mass of a heavy load by `Arm.payload`.

        >>> if not arm.gripper.grasp(40.0).is_holding:              # doctest: +SKIP
        ...     print('there was nothing')

        For parameters and errors see `move`.

        """
        return self.move(0.0, finite('force', force), speed, wait, timeout)

    def wait(self, timeout: float = TIMEOUT) -> GripperState:
        """
        Wait until the fingers rest; return the state then.

        >>> arm.gripper.move(0.08, wait=False)                      # doctest: +SKIP
        >>> arm.gripper.wait()

        Raises
        ------
        ArmTimeoutError
            See `move`.

        """
        timeout = positive('timeout', timeout, 's')
        if not self._backend.wait(lambda: not self.state().is_moving, timeout):
            state = self.state()
            raise ArmTimeoutError(
                f'the gripper did not come to rest in {timeout:g} s: width '
                f'{1e3 * state.width:.1f} mm, goal {1e3 * state.goal:.1f} mm')
        return self.state()
