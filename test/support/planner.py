# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Plans the motions of an engine as a node does, while states are answered; deterministic."""

import numpy as np


class Planner:
    """
    Answers states with an engine, and makes the plans that the engine then requests.

    `used` counts the plans for a time ahead that were in time.

    """

    def __init__(self, engine, period, seed):
        self.engine, self.margin = engine, 5.5 * period
        self.random, self.ticks, self.used = np.random.default_rng(seed), 0, 0

    def update(self, *state):
        """Answer a state; some states later, put the plans."""
        engine = self.engine
        found = engine.respond(*state)
        if engine.drafts:
            self.ticks -= 1
            if self.ticks < 0:
                self.used += engine.put_plans()
        elif engine.asks:
            for one in engine.begin_plans(self.margin) or ():
                one.make()
            self.ticks = int(self.random.integers(6))
        return found
