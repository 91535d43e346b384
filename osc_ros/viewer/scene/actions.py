# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Requests of the page, which osc_viewer executes over ROS."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Actions(Protocol):
    """Interface for requests of the page. The methods do not wait; any thread may call them."""

    def target(self, task: str, pose: Array) -> None:
        """Publish a target pose (4, 4) in the base frame; `task` is '' for the tip's task."""

    def move_obstacle(self, name: str, position: Array) -> None:
        """Move the obstacle of this page, a sphere, to a position (3,) in the base frame [m]."""

    def push(self, force: Array | None) -> None:
        """Push the tip of the simulated arm with a force (3,), base axes [N]; None ends this."""

    def move_joints(self, positions: dict[str, float]) -> None:
        """Move these joints to positions [rad, m]."""

    def set_parameter(self, name: str, value: Any) -> None:
        """Set a parameter of the controller."""

    def call(self, name: str) -> None:
        """Carry out a request."""
        # `name` is 'start', 'stop', 'recover', 'hold', 'home', 'free_drive on', 'free_drive off',
        # 'add obstacle' or 'delete obstacles'
