# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The choice between a team and this process alone, call by call, on a busy machine."""

from __future__ import annotations

from math import ceil

OUTWARD, INWARD = range(2)  # the parts of a call
_LOSS = 20.0  # greatest time that a team may lose before it pauses, relative to a call alone
_SHARE = 0.05  # this loss, relative to the time of the calls for which the team pauses


class Pace:
    """
    Whether the team evaluates the next call, or this process alone, with the same result.

    Where other processes take the cores of a team, its members wait for each other's time slices.
    The time that the team loses by this, compared with this process alone, adds up, and what it
    gains is subtracted. When the sum reaches `_LOSS` calls, the team pauses for so many calls that
    the sum is `_SHARE` of their duration.

    Parameters
    ----------
    outward, inward : float
        Durations of the two parts of a call by this process alone [s].

    """

    def __init__(self, outward: float, inward: float) -> None:
        self._alone = [outward, inward]
        self._lost = 0.0
        self._pause = 0

    @property
    def is_pause(self) -> bool:
        """Whether this process alone evaluates the present call."""
        return self._pause > 0

    def begin(self) -> None:
        """Begin a call."""
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
