# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Activation of a controller and the checks before it, for nodes and clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.law import Law
from osc_ros.control.limits.holding import require_positions
from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.loop.startup import decision, load_of, OFF, REFUSE

Array = NDArray[np.float64]


class ControlLoop(Protocol):
    """Interface that `Session` needs of a control loop."""

    @property
    def q(self) -> Array:
        """Positions (n,) of the newest state."""

    def read(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Call `what(engine, *arguments)`, which must not change the engine; return the result."""

    def activate(self, missing: Array | None = None) -> None:
        """Begin to control the arm, see `osc_ros.loop.engine.Engine.activate`."""


class Session:
    """
    Runs the start-up check of an arm, and activates its control loop.

    Attributes
    ----------
    finding : str
        Result of the last start-up check; empty if there was none.
    load : float
        Compensated mass at the tip that the last check found missing in the model [kg].

    Parameters
    ----------
    law : Law
        Has the robot and the settings in force.
    loop : ControlLoop
    use_load : callable
        Compensates an unknown load at the tip [kg] from now on; 0: as in the settings.
    tell : callable
        Called with the level (NOTE or WARN) and the text of a finding.
    by_name : str
        Text that tells the user how to set the start-up check, with {} for the value.

    """

    def __init__(self, law: Law, loop: ControlLoop, use_load: Callable[[float], None],
                 tell: Callable[[str, str], None], by_name: str = 'startup_check {}') -> None:
        self._law, self._loop, self._by_name = law, loop, by_name
        self._use_load, self._tell = use_load, tell
        self.finding, self.load = '', 0.0
        self._missing: Array | None = None

    def check(self, reaction: str) -> None:
        """
        Compare the measured torques at rest with the model; `reaction`: one of `startup.CHECKS`.

        Raises
        ------
        InputError
            `startup.decision` refuses the activation; the message tells the user what to do.

        """
        self.finding, self._missing, load = '', None, 0.0
        if reaction != OFF:
            finding = self._loop.read(requests.finding)
            self.finding = str(finding)
            level, text = decision(finding, reaction, self._law.settings, self._by_name)
            if level == REFUSE:
                raise InputError(text)
            self._tell(level, text)
            self._missing, load = finding.missing, load_of(finding)
        if load != self.load:
            self.load = load
            self._use_load(load)

    def activate(self) -> None:
        """
        Begin to control the arm: hold its pose, and compensate the load that `check` found.

        Raises
        ------
        InputError
            The arm cannot hold itself in this pose, see `Law.require_holding`; a joint is far
            outside of its limits; or the supervisor has given up the arm.

        """
        require_positions(self._law.robot, self._law.settings.limits.position, self._loop.q)
        self._law.require_holding(self._loop.q)
        self._loop.activate(self._missing)
