# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

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
