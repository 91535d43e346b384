# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The torque for a state before everything else, while nothing but states and targets change."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.compiled_tick import ROWS, TIMES
from osc_ros.control.cycle import ControlCycle
from osc_ros.control.supervisor import Supervisor

Array = NDArray[np.float64]


class EarlyTorque:
    """
    Computes what a law and its supervisor will answer to the next state, in one compiled call.

    All that does not depend on the state is collected by `prepare` after the last tick; if the law
    or the supervisor do anything else then, call `prepare` again. The torque is that of the whole
    tick, except if the tick finds that a load has come near its bound, or changes the gains for
    another period of the states; so compare the two.

    Parameters
    ----------
    law : ControlCycle
    guard : Supervisor

    """

    def __init__(self, law: ControlCycle, guard: Supervisor) -> None:
        self._law, self._guard = law, guard
        n = law.robot.n
        self._known, self._times = np.zeros((ROWS, n)), np.zeros(TIMES)
        self._rows = self._known.ravel()
        self._until = -np.inf

    def forget(self) -> None:
        """Compute no torque until `prepare`."""
        self._until = -np.inf

    def prepare(self) -> None:
        """Collect all that does not depend on the next state."""
        self.forget()
        if (steady := self._law.steady) is None or (calm := self._guard.calm) is None:
            return
        setup, posture = steady
        time, last = setup.limiter.last
        if last is None or time != calm.before:
            return
        np.concatenate((*calm.states, last, *calm.bounds), out=self._rows)
        self._times[:] = calm.before, calm.changed, calm.period, calm.longest
        self._put_torque = setup.checked_torque(posture, self._known, self._times)
        self._until = calm.until

    def torque(self, now: float, time: float, q: Array, qd: Array) -> Array | None:
        """
        Return the torques (n,) [N·m, N] for a state; None if a closer look is necessary.

        Changes nothing that the tick does not compute again.

        Parameters
        ----------
        now : float [s]
            Time of the state's arrival, on the clock of the supervisor.
        time : float [s]
            Its stamp.
        q, qd : (n,)

        """
        if now > self._until:
            return None
        with suppress(Exception):  # of any kind: the tick will tell it
            tau = np.empty(len(q))
            if self._put_torque(time, q, qd, tau) >= 0:
                return tau
        return None
