# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The torques that osc_simulator was sent, and the brakes that close without them."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.ros.messages.commands import HOLD_LABEL, LAST_LABEL

Array = NDArray[np.float64]


class Commanded:
    """
    The torques of all command topics.

    The brakes of all joints are closed until each topic has sent torques; later those of a topic
    close when its commands end. Torques whose label says that they answer no state of this arm
    open no brakes: a controller that goes on without states holds an arm that is elsewhere.

    Attributes
    ----------
    tau : (n,) [N·m, N]
    shares : dict of str to (k,) int
        Joints of each topic, base first.
    missing : set of str
        Topics whose torques are awaited.
    ended : set of str
        Topics whose brakes are closed, because their commands have ended.
    is_held : bool
        Whether the brakes of all joints are closed since the start.

    Parameters
    ----------
    shares : mapping of str to (k,) int
    n : int
        Number of joints.
    is_exact : bool
        Whether each command must answer the newest state, as in lockstep.

    """

    def __init__(self, shares: Mapping[str, NDArray[np.intp]], n: int, is_exact: bool) -> None:
        self.tau, self.shares, self._is_exact = np.zeros(n), dict(shares), is_exact
        self.missing, self.ended, self.is_held = set(shares), set[str](), True
        self._heard = dict.fromkeys(shares, -np.inf)  # wall time of the last command [s]

    def take(self, topic: str, tau: Array, label: str, newest: str) -> bool:
        """
        Store torques of a topic; return whether they are for this arm.

        Parameters
        ----------
        topic : str
        tau : (k,) [N·m, N]
        label, newest : str
            Label of the command; that of a command for the newest state.

        Raises
        ------
        InputError
            Another number of torques, or torques that are not finite.

        """
        places = self.shares[topic]
        if tau.shape != places.shape or not np.isfinite(tau).all():
            raise InputError(f'{tau.tolist()}: accepted are {len(places)} finite torques')
        if (self._is_exact or self.is_held) and label not in ('', newest):
            return False  # computed from an older state, or from no state
        if topic in self.ended and label in (HOLD_LABEL, LAST_LABEL):
            return False
        self.tau[places], self._heard[topic] = tau, perf_counter()
        self.missing.discard(topic)
        return True

    def await_all(self) -> None:
        """Await torques of all topics, for the next state."""
        self.missing.update(self.shares)

    def silence(self) -> float:
        """Wall time since the last command of any topic [s]."""
        return perf_counter() - max(self._heard.values())

    def silent(self, timeout: float) -> set[str]:
        """Topics without a command for a wall time [s]."""
        now = perf_counter()
        return {topic for topic, heard in self._heard.items() if now - heard > timeout}

    def braked(self) -> NDArray[np.bool_]:
        """Whether the brakes of each joint (n,) are closed because its commands have ended."""
        closed = np.zeros(len(self.tau), dtype=bool)
        for topic in self.ended:
            closed[self.shares[topic]] = True
        return closed
