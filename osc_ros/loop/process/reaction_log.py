# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Log lines on the causes of reactions: when a cause begins, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

from osc_ros.control.safety.causes import STOP

# A cause that returns within this time continues its episode [s]. The longer time is for causes
# that are only reported: a busy machine may miss a deadline every few seconds, for hours.
QUIET, QUIET_REPORT = 1.0, 10.0
REPORT = 'report'


@dataclass
class _Episode:
    """Occurrences of one cause, at most `quiet` apart; times by `perf_counter` [s]."""

    reaction: str
    began: float
    ended: float
    count: int = 1

    @property
    def quiet(self) -> float:
        return QUIET_REPORT if self.reaction == REPORT else QUIET


class ReactionLog:
    """Logs the beginning of each cause and, some quiet seconds after its end, a summary."""

    def __init__(self, logger: Any, resumed: str) -> None:
        self._logger, self._resumed = logger, resumed  # state without a cause, such as 'active'
        self._episodes: dict[str, _Episode] = {}
        self._cause = ''

    def change(self, cause: str, reaction: str, text: str, is_fault: bool = True) -> None:
        """Record a change of the cause or reaction ('': none); log a new cause by its `text`."""
        # A cause is logged as an error, or as a warning if `is_fault` is False or the reaction is
        # only 'report'.
        now = perf_counter()
        if self._cause in self._episodes:
            self._episodes[self._cause].ended = now
        self._cause = cause
        if not cause or cause == STOP:
            return
        episode = self._episodes.get(cause)
        if episode is not None and episode.reaction == reaction:
            episode.count += 1
            return
        self._episodes[cause] = _Episode(reaction, now, now)
        # rclpy accepts only one severity per source line
        if reaction == REPORT or not is_fault:
            self._logger.warning(text)
        else:
            self._logger.error(text)

    def conclude(self) -> None:
        """Log causes that ended at least QUIET or QUIET_REPORT ago; call this every second."""
        now = perf_counter()
        for cause, episode in list(self._episodes.items()):
            if cause == self._cause or now - episode.ended < episode.quiet:
                continue
            del self._episodes[cause]
            times = 'once' if episode.count == 1 else f'{episode.count} times'
            resumed = f'{self._resumed}: ' if not (self._cause or self._episodes) else ''
            self._logger.info(f'{resumed}{cause} has ended ({times} in '
                              f'{episode.ended - episode.began:.2f} s)')
