# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The interface between the loop of osc_arm and a robot arm, which each kind of arm implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError, OscError

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


@dataclass(frozen=True)
class Setting:
    """
    A parameter of a kind of arm; the parameter of the node is `hardware.NAME`.

    Attributes
    ----------
    name : str
    default : bool, int, float, str, or a tuple of float or str
        Default value; its type is the type of the parameter.
    description : str
        Description of the parameter, with its unit.
    lower, upper : float
        Bounds of a number, or of every number of an array.
    size : int, optional
        Length of an array; None for any.
    choices : tuple of str
        Accepted texts; empty: any.
    of : type
        Type of the entries of an array, float or str.
    fixed : bool
        True if the value cannot change after the start of the node, because the names of files,
        programs and machines must not be set over the network.

    """

    name: str
    default: Any
    description: str
    lower: float = -math.inf
    upper: float = math.inf
    size: int | None = None
    choices: tuple[str, ...] = ()
    of: type = float
    fixed: bool = False

    @property
    def kind(self) -> type:
        """Type of the value, or of every entry of an array."""
        return self.of if isinstance(self.default, tuple) else type(self.default)

    @property
    def unit(self) -> str:
        """Unit in the description; empty if there is none."""
        return self.description.partition('[')[2].partition(']')[0]

    @property
    def accepted(self) -> str:
        """Description of the accepted values."""
        kind = self.kind
        accepted = {bool: 'true or false', int: 'an integer', float: 'a number',
                    str: f"one of {', '.join(self.choices)}" if self.choices else 'a text'}[kind]
        if kind in (int, float):
            if self.lower > -math.inf:
                accepted += f', at least {self.lower:g}'
            if self.upper < math.inf:
                accepted += f', at most {self.upper:g}'
        if isinstance(self.default, tuple):
            many = 'any number' if self.size is None else self.size
            accepted = f'an array of {many}, each {accepted}'
        return accepted

    def checked_value(self, value: Any) -> Any:
        """
        Return the value in the type of the default.

        Raises
        ------
        InputError
            The value is not accepted; names the parameter, its value, and the accepted values.

        """
        value = self.parsed(value)
        if isinstance(self.default, tuple):
            if isinstance(value, str):  # a str is iterable, but no array
                raise self._refusal(value)
            try:
                values = tuple(self._scalar(x, self.of) for x in value)
            except TypeError:
                raise self._refusal(value) from None
            if self.size is not None and len(values) != self.size and (values or self.default):
                raise self._refusal(value)
            return values
        return self._scalar(value, type(self.default))

    def parsed(self, value: Any) -> Any:
        """
        Convert texts to numbers where numbers are accepted, and False to an accepted 'off'.

        `ros2 param load` and `ros2 param set` pass values as texts and read them as YAML, in which
        inf, 1e-06 and lists such as [inf, 0.5] are texts, and off is False. Any other value is
        returned unchanged.

        """
        if value is False and 'off' in self.choices:
            return 'off'
        if self.kind is not float:
            return value
        try:
            if not isinstance(self.default, tuple):
                return _number(value) if isinstance(value, str) else value
            is_list = isinstance(value, str) and value.startswith('[')
            texts = value[1:-1].split(',') if is_list else value
            if isinstance(texts, list) and any(isinstance(text, str) for text in texts):
                return [_number(text) for text in texts]
        except ValueError:
            pass
        return value

    def _scalar(self, value: Any, kind: type) -> Any:
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise self._refusal(value)
        if self.choices and value not in self.choices:
            raise self._refusal(value)
        if isinstance(value, (int, float)) and not self.lower <= value <= self.upper:
            raise self._refusal(value)
        return value

    def _refusal(self, value: Any) -> InputError:
        value = value.tolist() if hasattr(value, 'tolist') else value
        return InputError(f"parameter '{self.name}' is {value!r}: must be {self.accepted}"
                          + (f' [{self.unit}]' if self.unit else ''))


def _number(text: Any) -> float:
    """Return the number in a text, in which infinity may be .inf as in YAML."""
    return float(text.replace('.inf', 'inf') if isinstance(text, str) else text)


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
