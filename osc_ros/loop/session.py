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
    """Runs the start-up check of an arm, and activates its control loop."""

    def __init__(self, law: Law, loop: ControlLoop, use_load: Callable[[float], None],
                 tell: Callable[[str, str], None], by_name: str = 'startup_check {}') -> None:
        # use_load: compensates a load at the tip [kg], 0: as in the settings; tell: of a level,
        # NOTE or WARN, and a text; by_name: how the user sets the check, with {} for the value
        self._law, self._loop, self._by_name = law, loop, by_name
        self._use_load, self._tell = use_load, tell
        self.finding, self.load = '', 0.0  # text of the last check; mass missing at the tip [kg]
        self._missing: Array | None = None

    def check(self, reaction: str) -> None:
        """Compare measured torques at rest with the model; `reaction`: one of `startup.CHECKS`."""
        # InputError: `startup.decision` refuses the activation; the message tells what to do
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
        """Begin to hold the pose of the arm, and to compensate the load that `check` found."""
        # InputError: the arm cannot hold itself here, see `Law.require_holding`; a joint is far
        # outside of its limits; or the supervisor has given up the arm
        require_positions(self._law.robot, self._law.settings.limits.position, self._loop.q)
        self._law.require_holding(self._loop.q)
        self._loop.activate(self._missing)
