# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A control of the page that shows a value of the controller, and requests the value of a user."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any


class Mirror:
    """
    Shows a value of the controller in one control, except while a user changes it.

    A value of a user is in the handle before any callback of it runs, so `update` compares: what
    differs from the last shown value is requested, and not overwritten.

    Parameters
    ----------
    handle : viser handle with a value
    request : callable
        Gets the value that a user has chosen.
    settled : float
        After a user has changed it, the control shows the controller's value again [s].

    """

    def __init__(self, handle: Any, request: Callable[[Any], None], settled: float) -> None:
        self.handle, self._request, self._settled = handle, request, settled
        self._shown, self._changed = handle.value, -settled

    def update(self, value: Any) -> None:
        """Request the value of a user, or show the given one of the controller."""
        chosen = self.handle.value
        if chosen != self._shown:
            self._shown, self._changed = chosen, monotonic()
            self._request(chosen)
        if value != chosen and monotonic() - self._changed >= self._settled:
            self.handle.value = value
            self._shown = self.handle.value
