# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques commanded to osc_simulator, and the state of its brakes."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.ros.messages.commands import HOLD_LABEL, LAST_LABEL

Array = NDArray[np.float64]


class Commanded:
    """Torques from all command topics, and the topics whose brakes are closed."""

    def __init__(self, shares: Mapping[str, NDArray[np.intp]], n: int, is_exact: bool) -> None:
        # tau (n,) [N·m, N]; shares: indices (k,) of the joints of each topic, base first; with
        # `is_exact`, as in lockstep, each command must answer the newest state
        self.tau, self.shares, self._is_exact = np.zeros(n), dict(shares), is_exact
        # missing: topics without torques for the newest state; ended: topics whose brakes are
        # closed because their commands have ended; is_held: all brakes are closed until every
        # topic has sent torques. The caller writes `ended` and `is_held`.
        self.missing, self.ended, self.is_held = set(shares), set[str](), True
        self._heard = dict.fromkeys(shares, -np.inf)  # wall time of the last command [s]

    def take(self, topic: str, tau: Array, label: str, newest: str) -> bool:
        """Store torques (k,) of a topic [N·m, N]; return False if they are from another state."""
        # `label` is that of the command, `newest` that of a command for the newest state;
        # InputError for a wrong number of torques, or one that is not finite
        places = self.shares[topic]
        if tau.shape != places.shape or not np.isfinite(tau).all():
            raise InputError(f'{tau.tolist()}: give {len(places)} finite torques')
        if (self._is_exact or self.is_held) and label not in ('', newest):
            return False  # computed from an older state, or from no state
        if topic in self.ended and label in (HOLD_LABEL, LAST_LABEL):
            return False  # computed without a state of this simulation, maybe for another pose
        self.tau[places], self._heard[topic] = tau, perf_counter()
        self.missing.discard(topic)
        return True

    def await_all(self) -> None:
        """Mark all topics as missing, because a new state is published."""
        self.missing.update(self.shares)

    def silence(self) -> float:
        """Return the wall time since the last command of any topic [s]."""
        return perf_counter() - max(self._heard.values())

    def silent_topics(self, timeout: float) -> set[str]:
        """Return the topics without a command for longer than a wall time [s]."""
        now = perf_counter()
        return {topic for topic, heard in self._heard.items() if now - heard > timeout}

    def braked_joints(self) -> NDArray[np.bool_]:
        """Return for each joint (n,) whether its brakes are closed because commands have ended."""
        closed = np.zeros(len(self.tau), dtype=bool)
        for topic in self.ended:
            closed[self.shares[topic]] = True
        return closed
