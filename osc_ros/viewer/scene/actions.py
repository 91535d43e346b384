# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What a user of the page may ask for; osc_viewer carries it out over ROS."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Actions(Protocol):
    """Requests of the page; any thread may call these methods, and none of them waits."""

    def target(self, task: str, pose: Array) -> None:
        """Publish a target pose (4, 4) in the base frame; `task` is '' for the tip's task."""

    def push(self, force: Array | None) -> None:
        """Push the tip of the simulated arm with a force (3,), base axes [N]; None: no more."""

    def set_parameter(self, name: str, value: Any) -> None:
        """Set a parameter of the controller."""

    def call(self, name: str) -> None:
        """Request 'start', 'stop', 'hold', 'release', 'free_drive on' or 'free_drive off'."""
