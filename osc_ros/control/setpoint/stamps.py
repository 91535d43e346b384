# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The rule for the stamps of all commands."""

from __future__ import annotations

import math

from osc_ros.errors import InputError

OLDEST = 2.0  # a command with an older stamp is refused [s]
SOON = 0.5  # a command that cannot wait begins now if its stamp is at most so far ahead [s]
FARTHEST = 3600.0  # a stamp farther ahead is from another clock [s]


def start_of(stamp: float, now: float, ahead: float = FARTHEST) -> float:
    """Return the time [s] at which a command with this stamp begins; 0 means now."""
    # InputError if the stamp is older than OLDEST, or more than `ahead` [s] in the future.
    early = stamp - now if stamp else 0.0
    if -OLDEST <= early <= ahead:
        return now + max(early, 0.0)
    what = f'{early:.3g} s ahead of' if early > 0.0 else f'{-early:.3g} s older than'
    most = f'at most {ahead:g} s ahead' if early > 0.0 else f'at most {OLDEST:g} s old'
    other = '' if abs(early) <= FARTHEST else '; it is from another clock'
    raise InputError(f'its time, {stamp:.3f} s, is {what} the newest joint state, {now:.3f} s'
                     f'{other}: give 0 for now, or a time on the clock of the states, {most}')


def require_timely(first: float, last: float, now: float) -> None:
    """Raise InputError for a path whose last time is too old, or whose first is too far ahead."""
    start_of(last or now, now, math.inf)
    start_of(max(first, now), now)


def begin_text(start: float, now: float) -> str:
    """Return a text on a command that begins much later than now; empty for others."""
    return f'begins in {start - now:.3g} s' if start - now > SOON else ''
