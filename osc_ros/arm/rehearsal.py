# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques that are computed for nothing, shortly before the next state is due."""

from __future__ import annotations

from time import perf_counter

from osc_ros.control.engine import Engine
from osc_ros.control.law import Law

AHEAD = 2e-4  # before a state is due, a torque is computed for nothing [s]
MARGIN = 1.5  # times the longest rehearsal of late: this long before the state is due, too
MEMORY = 0.99  # what counts of the longest rehearsal at the next one
WAITED = 2e-5  # after a shorter wait for a state, it may have come earlier than it was read [s]


class Rehearsal:
    """
    Does what an engine will do with its next state, by another law, and sends nothing.

    After a pause the caches of the processor have lost the code of a control loop, and the same
    computation takes two to three times as long. A rehearsal in the pause brings it back. There is
    none if the pause is too short for it: no state waits for a rehearsal.

    Parameters
    ----------
    engine : Engine
    law : Law
        Another law of the same robot.

    """

    def __init__(self, engine: Engine, law: Law) -> None:
        self._engine = engine
        self._other: Engine | None = Engine(law, engine.guard.settings, engine.period,
                                            lambda *_: None, lambda *_: None)
        self._longest = 0.0

    def due(self, arrived: float, waited: float) -> float:
        """
        Time by `perf_counter` when to call `run` [s]; infinite if it should not be called.

        Parameters
        ----------
        arrived : float
            When the newest state was read, by `perf_counter` [s].
        waited : float
            How long the loop waited for it [s].

        """
        if self._other is None or not self._engine.acts or waited < WAITED:
            return float('inf')
        return arrived + self._engine.period - max(AHEAD, MARGIN * self._longest)

    def run(self) -> None:
        """Compute a torque for the newest state of the engine."""
        other, engine = self._other, self._engine
        if other is None:
            return
        began = perf_counter()
        try:
            if other.update(engine.time, engine.q, engine.qd, engine.stamp, began,
                            engine.effort) and not other.acts:
                other.activate()
            other.anticipate()
        except Exception:  # of any kind: nothing depends on it
            self._other = None
        self._longest = max(MEMORY * self._longest, perf_counter() - began)
