# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A control that shows a value of the controller, and requests changes by a user."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any


class Mirror:
    """Shows a value of the controller in one control, except while a user changes it."""

    # viser stores the user's input before it calls us. So `update` compares the handle with the
    # value shown last: if they differ, it requests the user's value instead of overwriting it.

    def __init__(self, handle: Any, request: Callable[[Any], None], settled: float) -> None:
        # settled: time after a user's change until the controller's value is shown again [s]
        self.handle, self._request, self._settled = handle, request, settled
        self._shown, self._changed = handle.value, -settled

    def update(self, value: Any) -> None:
        """Request the user's value if it is new; otherwise show the controller's `value`."""
        chosen = self.handle.value
        if chosen != self._shown:
            self._shown, self._changed = chosen, monotonic()
            self._request(chosen)
        if value != chosen and monotonic() - self._changed >= self._settled:
            self.handle.value = value
            self._shown = self.handle.value
