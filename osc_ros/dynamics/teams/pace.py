# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Decision, call by call, whether a team or one process alone evaluates a call."""

from __future__ import annotations

from math import ceil

OUTWARD, INWARD = range(2)  # the parts of a call
_LOSS = 20.0  # lost time at which a team pauses, in durations of a call alone
_SHARE = 0.05  # lost time, relative to the duration of the calls of the pause


class Pace:
    """Decides whether the team or this process alone evaluates the next call."""

    # If other processes use its cores, members of a team wait for each other's time slices. Lost
    # time: the team's calls minus the same calls by this process alone, at least 0. Above `_LOSS`
    # calls alone, the team pauses for lost time / (`_SHARE` × one call alone) calls.

    def __init__(self, outward: float, inward: float) -> None:
        self._alone = [outward, inward]  # parts of a call by this process alone [s]
        self._lost = 0.0
        self._pause = 0

    @property
    def is_pause(self) -> bool:
        """Whether this process alone evaluates the present call."""
        return self._pause > 0

    def begin(self) -> None:
        """Count a new call."""
        self._pause = max(0, self._pause - 1)

    def add(self, part: int, seconds: float, by_team: bool) -> None:
        """Add the duration of a part of the present call [s]."""
        if not by_team:
            self._alone[part] += 0.1 * (seconds - self._alone[part])
            return
        self._lost = max(0.0, self._lost + seconds - self._alone[part])
        alone = sum(self._alone)
        if self._lost > _LOSS * alone:
            self._pause = ceil(self._lost / (_SHARE * alone)) + 1
            self._lost = 0.0
