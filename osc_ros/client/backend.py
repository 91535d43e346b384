# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The contract between the client and what moves the arm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.tasks.task import Stiffness
from osc_ros.model.gripper_state import GripperState

Array = NDArray[np.float64]

CLOSED = 'this arm was closed: open it again'
# For each value of 'target' in the diagnostics: why a motion takes longer than planned.
WAITS, AT_EDGE = 'waits for the arm', 'at the edge'
TARGETS = {WAITS: 'the target waits for the arm',
           AT_EDGE: 'the target is at the edge of the workspace'}


def distance_text(angle: float, distance: float) -> str:
    """Return a text on how far an arm is from its goal [rad], [m]."""
    return f'{1e3 * distance:.1f} mm and {np.degrees(angle):.1f}° are left'


@dataclass(frozen=True, eq=False)
class ArmState:
    """
    The newest state of an arm; poses, errors and twists are in the base frame.

    Attributes
    ----------
    time : float [s]
        On the clock of the arm.
    q, qd : (n,) [rad, m and per s]
        Measured joint positions and velocities, in the order of `Arm.joint_names`.
    torque : (n,) [N·m, N]
        Last commanded torques.
    pose : (4, 4)
        Measured pose of the tip.
    error : (6,) [rad, m]
        From the tip to its set-point, [angular; linear].

    """

    time: float
    q: Array
    qd: Array
    torque: Array
    pose: Array
    error: Array


class Backend(Protocol):
    """
    What a client needs of an arm.

    All commands return when the controller has accepted them, and raise InputError with its
    reason if it has not. Poses are (4, 4) in the base frame.

    Attributes
    ----------
    joint_names : tuple of str

    """

    joint_names: tuple[str, ...]

    def state(self) -> ArmState:
        """Return the newest state."""

    def go_to(self, pose: Array, duration: float | None) -> None:
        """Set a goal, to be reached after `duration` [s], or as early as the limits allow."""

    def follow_chunk(self, times: Array, poses: Array, observed_at: float) -> str:
        """Follow poses (m, 4, 4) at times (m,) after the observation [s]; return a report."""

    def jog(self, twist: Array) -> None:
        """Move with a twist (6,) until the time-out of twists."""

    def set_wrench(self, wrench: Array) -> None:
        """Apply a wrench (6,) along the axes of force."""

    def use_gains(self, spring: Stiffness | None) -> None:
        """Make the tip a spring, or use the set natural frequencies again."""

    def use_payload(self, mass: float, center_of_mass: Array, inertia: Array) -> None:
        """Set the payload at the tip: mass, centre (3,), inertia about it (3, 3)."""

    def move_gripper(self, command: list[float]) -> None:
        """Move the gripper: width, then largest force, then speed; NaN or missing: the default."""

    def gripper_state(self) -> GripperState:
        """Return the newest state of the gripper."""

    def hold(self) -> None:
        """Stop."""

    def recover(self) -> str:
        """Release latched watchdogs, or clear an error of the arm; return what was done."""

    def is_at_goal(self) -> bool:
        """Whether the goal of the last command has been reached."""

    def situation(self) -> str:
        """Return a text on the arm and its goal, for errors."""

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """
        Wait until a condition holds; return False if it did not within a time of the arm [s].

        Raises
        ------
        ArmError
            The controller has stopped to control the arm; its states do not come any more.

        """

    def listen(self, listener: Callable[[ArmState], None] | None) -> None:
        """Call a function with every new state, or no longer."""

    def close(self) -> None:
        """Release what the backend holds."""
