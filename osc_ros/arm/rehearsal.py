# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A torque that is computed and not sent, so that the next one is computed faster."""

from __future__ import annotations

from time import perf_counter

from osc_ros.control.engine import Engine
from osc_ros.control.law import Law

# A rehearsal begins AHEAD [s] before the next state is due, or MARGIN times its own duration
# before, if that is earlier. This duration is the longest of the last rehearsals: it decreases by
# the factor MEMORY with each rehearsal.
AHEAD, MARGIN, MEMORY = 2e-4, 1.5, 0.99
# If the loop waited for a state for less than this time, the state came before the loop read it,
# and nobody knows when the next one will come [s].
WAITED = 2e-5


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
        except Exception:  # of any kind: nothing depends on it
            self._other = None
        self._longest = max(MEMORY * self._longest, perf_counter() - began)
