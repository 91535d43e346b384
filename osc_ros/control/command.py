# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Independent plausibility check of torque commands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError

Array = NDArray[np.float64]

ROUNDING = 1e-9  # relative: a torque at its limit is within it


class CommandCheck:
    """
    Refuses commands that have a wrong size, are not finite, or exceed limits of torque or rate.

    Parameters
    ----------
    names : sequence of str, length n
        The joints, in the order of a command.
    effort_limits : (n,)
        Largest torques [N·m]; may be infinite.
    effort_rates : (n,)
        Largest rates of change [N·m/s]; may be infinite.
    period : float [s]
        Expected time between two commands; the rate limit takes a shorter time as this period.

    """

    def __init__(self, names: Sequence[str], effort_limits: Array, effort_rates: Array,
                 period: float) -> None:
        self._names = tuple(names)
        self._limits, self._rates = (x * (1.0 + ROUNDING) for x in (effort_limits, effort_rates))
        self._period = period
        self._last: tuple[float, Array] | None = None

    def torque(self, values: Sequence[float], time: float) -> Array:
        """
        Return the torques (n,) of a command [N·m], if it is accepted.

        The rate is computed from the previous command, even if this command was refused: so a step
        to a new level is refused once, and after a single outlier the next command is refused too.

        Parameters
        ----------
        values : sequence of float
        time : float
            Time at which the command was computed, or at which it arrived [s].

        Raises
        ------
        InputError
            The command is refused; says which joint, why, and what is accepted.

        """
        tau = np.asarray(values, dtype=np.float64)
        if tau.shape != (len(self._names),):
            raise InputError(f'command has {tau.size} torques: accepted are {len(self._names)}, '
                             f"for {', '.join(self._names)}")
        before = self._last
        for i in _places(~np.isfinite(tau)):
            raise InputError(f"torque for '{self._names[i]}' is {tau[i]}: accepted are finite "
                             'numbers')
        self._last = time, tau
        for i in _places(np.abs(tau) > self._limits):
            raise InputError(f"torque for '{self._names[i]}' is {tau[i]:.4g} N m: accepted is at "
                             f'most {self._limits[i]:g} N m')
        if before is None:
            return tau
        dt = max(time - before[0], self._period)
        step, largest = tau - before[1], self._rates * dt
        for i in _places(np.abs(step) > largest):
            raise InputError(f"torque for '{self._names[i]}' steps by {step[i]:.4g} N m in "
                             f'{dt:.4f} s: accepted is at most {largest[i]:.4g} N m')
        return tau

    def forget(self) -> None:
        """Forget the last command: the rate of the next one is not checked."""
        self._last = None


def _places(wrong: NDArray[np.bool_]) -> list[int]:
    """Indices of the true entries."""
    return np.flatnonzero(wrong).tolist() if wrong.any() else []
