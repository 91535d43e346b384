# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Causes for which a supervisor intervenes: which are active, and the reaction to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from osc_ros.control.supervision import REACTIONS, Supervision

STOP = 'stop'  # cause of a stop on request, which is no fault
RUNAWAY, ABANDON = 'runaway', 'abandon'  # the controller does not control the arm: its reaction


@dataclass
class _Watch:
    """State of one cause; times on the supervisor's clock [s]."""

    fed: float
    seen: float = -np.inf
    active: bool = False
    reason: str = ''


class Causes:
    """
    Selects the reaction of highest priority of all causes that are active.

    Times are on the supervisor's clock [s]. Call `reset` first.

    Attributes
    ----------
    cause, reaction, reason : str
        Active cause whose reaction has the highest priority, its reaction, and an explanation;
        empty if there is none.
    counts : Counter of str
        Number of times that each cause began.
    stops : bool
        Whether a stop was requested: the reaction is then 'deactivate'.
    runaway : str
        Why the controller does not control the arm: the reaction is then 'abandon', until
        `release`, also after `reset`. Empty if it does.
    has_tripped : bool
        Whether `trip` was called since the last `update`.

    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.runaway = ''
        self._settings: Supervision | None = None  # of the last update

    def reset(self, settings: Supervision, now: float) -> None:
        """End all causes and the stop; keep the counts."""
        self._watches = {name: _Watch(now) for name in settings.watchdogs}
        for name in self._watches:
            self.counts.setdefault(name, 0)
        self.counts.setdefault(RUNAWAY, 0)
        self.cause = self.reaction = self.reason = ''
        self.stops = False
        self._calm_until = -np.inf  # nothing begins until then, unless something is tripped
        self.has_tripped = False

    def feed(self, name: str, time: float) -> None:
        """Make the time-out of the watchdog with this name count from a time [s]."""
        watch = self._watches[name]
        if time < watch.fed:
            self._calm_until = -np.inf
        watch.fed = time

    def last_feed(self, name: str) -> float | None:
        """Time of the last call of `feed` for a cause [s]; None if the cause has no watchdog."""
        watch = self._watches.get(name)
        return None if watch is None else watch.fed

    def trip(self, name: str, reason: str, now: float) -> None:
        """Record that a cause is present now; ignored if it has no watchdog."""
        if name in self._watches:
            watch = self._watches[name]
            watch.seen, watch.reason = now, reason
            self._calm_until, self.has_tripped = -np.inf, True

    def abandon(self, reason: str) -> None:
        """Record that the controller does not control the arm; see `runaway`."""
        self.counts[RUNAWAY] += not self.runaway
        self.runaway, self._calm_until, self.has_tripped = reason, -np.inf, True

    def is_present(self, name: str, settings: Supervision, now: float) -> bool:
        """Whether a cause was present within the last `settle_time`."""
        return now - self._watches[name].seen <= settings.settle_time

    def release(self, settings: Supervision, now: float) -> None:
        """End latched causes that are not present any more; call `update` after it."""
        self.runaway = ''
        for name, watch in self._watches.items():
            watch.active = self.is_present(name, settings, now)

    def calm_until(self, settings: Supervision) -> float:
        """Time [s] up to which `update` will find that nothing is active; -inf if that is open."""
        if self._calm_until == -np.inf or settings is not self._settings or self.stops:
            return -np.inf
        return self._first_timeout(settings)

    def will_stay_calm(self, settings: Supervision, now: float) -> bool:
        """Whether `update` at a time [s] will find that nothing is active."""
        return now <= self._calm_until and settings is self._settings and not self.stops

    def _first_timeout(self, settings: Supervision) -> float:
        return min((watch.fed + settings.watchdogs[name].timeout
                    for name, watch in self._watches.items()), default=np.inf)

    def update(self, settings: Supervision, now: float) -> None:
        """Find the active causes, and select the reaction of highest priority."""
        if self.will_stay_calm(settings, now):
            return
        gravest, self.cause, self.reaction, self.reason = -1, '', '', ''
        self.has_tripped = False
        dogs, settle_time = settings.watchdogs, settings.settle_time
        for name, watch in self._watches.items():
            dog = dogs[name]
            if now - watch.fed > dog.timeout:
                watch.seen, watch.reason = now, f'nothing for {now - watch.fed:.3f} s'
            elif not watch.active and now - watch.seen > settle_time:
                continue
            was = watch.active
            watch.active = self.is_present(name, settings, now) or was and (
                dog.latched and dog.reaction != 'report' or dog.reaction == 'deactivate')
            self.counts[name] += watch.active and not was
            if watch.active and REACTIONS.index(dog.reaction) > gravest:
                gravest = REACTIONS.index(dog.reaction)
                self.cause, self.reaction, self.reason = name, dog.reaction, watch.reason
        if self.stops:
            self.cause, self.reaction, self.reason = STOP, 'deactivate', 'stop requested'
        if self.runaway:
            self.cause, self.reaction, self.reason = RUNAWAY, ABANDON, self.runaway
        self._settings = settings
        self._calm_until = -np.inf if any(watch.active for watch in self._watches.values()) else (
            self._first_timeout(settings))


class Acting(Protocol):
    """What a supervisor reacts to, and how; see `Causes`."""

    @property
    def cause(self) -> str:
        """Active cause."""

    @property
    def reaction(self) -> str:
        """Reaction to it."""

    @property
    def reason(self) -> str:
        """Explanation of it."""


def state_text(guard: Acting, normal: str) -> str:
    """Return what the supervisor does and why, or the normal state if it does nothing."""
    if guard.reaction == ABANDON:
        return (f'{guard.cause}: {guard.reason}: no more commands; ~/release accepts activation '
                'again')
    if guard.reaction == 'report':
        return f'{guard.cause}: {guard.reason}; this is only reported, and changes nothing'
    return f'{guard.cause}: {guard.reason}: {guard.reaction}' if guard.reaction else normal
