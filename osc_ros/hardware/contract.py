# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The interface between the loop of osc_arm and a robot arm, which each kind of arm implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import OscError
from osc_ros.setting import Setting as Setting  # of `Hardware.settings`

Array = NDArray[np.float64]


class HardwareError(OscError, RuntimeError):
    """The arm or its connection has failed; the message tells what happened and what to do."""


class State(NamedTuple):
    """
    Measured state of an arm.

    Attributes
    ----------
    time : float
        Time of the measurement, on a clock that only increases [s].
    q, qd, tau : (n,)
        Positions, velocities and torques, in the order of `Description.joint_names`; torques are
        NaN if they are not measured [rad, rad/s, N·m; m, m/s, N].

    """

    time: float
    q: Array
    qd: Array
    tau: Array


@dataclass(frozen=True, eq=False)
class Description:
    """
    Properties of an arm, known after it was opened.

    Attributes
    ----------
    name : str
        Name of the arm, for messages.
    joint_names : tuple of n str
        Joints in the order of states and torques. An arm without names for its joints returns the
        names passed to its constructor.
    period : float
        Time between two states [s].
    compensates : str
        Torques that the arm adds on its own: 'none', 'gravity', or another value of the parameter
        driver_compensates.
    effort_limits, effort_rates : (n,), optional
        Largest torques [N·m; N], and largest rates of the torques [N·m/s; N/s], that the arm
        accepts.
    clock : str
        Clock of `State.time`: 'wall' (seconds since 1970), or 'simulated'.
    is_held : bool
        Whether the loop goes on, and holds the arm, if its program is killed; otherwise it ends.

    """

    name: str
    joint_names: tuple[str, ...]
    period: float
    compensates: str = 'none'
    effort_limits: Array | None = None
    effort_rates: Array | None = None
    clock: str = 'wall'
    is_held: bool = True

    @property
    def is_simulated(self) -> bool:
        """Whether the arm is simulated: its clock is."""
        return self.clock == 'simulated'


class Hardware(Protocol):
    """
    One arm. All calls come from one thread of the loop's process, which runs without ROS.

    The first call is `open`, the last one is `close`. Between them, each control phase is `start`,
    then `read` and `write` in turn, then `stop`; outside of these phases only `read` is called.
    After an error of `read`, `write` or `start` the arm is not under control: either it has
    stopped on its own, or `stop` is called next; `recover` makes `start` possible again.

    An arm with a gripper also has `move_gripper(goal)`, which accepts a `HandGoal` or raises
    InputError, and `gripper_state()`, which returns the newest `GripperState`; both are classes of
    `osc_ros.model.gripper_state`. Both return at once.

    Every method may raise HardwareError. Only `read`, which waits for a state, and `open`,
    `start`, `stop`, `recover` and `close` may take longer than a small part of the period.

    Attributes
    ----------
    settings : tuple of Setting
        Parameters of this kind of arm. The `fixed` settings identify the arm: a second process for
        an arm with the same values is refused.

    Parameters
    ----------
    values : mapping of str to value
        A value for each of `settings`, by name, in the type of its default.
    urdf : str
        The robot description.
    joint_names : tuple of n str
        The joints to control, base first.

    """

    settings: ClassVar[tuple[Setting, ...]]

    def __init__(self, values: Mapping[str, Any], urdf: str, joint_names: tuple[str, ...]) -> None:
        """Store the arguments; raise InputError if they do not fit. Does not access the arm."""

    def open(self) -> Description:
        """Connect to the arm, and return its description. May take seconds."""

    def start(self) -> None:
        """Begin to accept torques; the arm holds itself until the first `write`."""

    def read(self) -> State:
        """Wait for the next state and return it; raise if none comes within 1 s."""

    def write(self, tau: Array) -> None:
        """Send torques (n,) for the state that was read last [N·m; N]."""

    def stop(self) -> None:
        """
        End the control: the arm brakes and holds itself.

        The call is allowed in any state, also repeatedly.

        """

    def recover(self) -> None:
        """Clear an error of the arm, so that `start` is possible again."""

    def report(self) -> Mapping[str, float]:
        """Return numbers for the diagnostics, by name, without communication with the arm."""

    def close(self) -> None:
        """Disconnect; called once, in any state."""
