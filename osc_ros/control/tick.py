# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The compiled tick of one setup, and the tables by which it finds its arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.command_model import CommandModel
from osc_ros.control.friction import FrictionInForce
from osc_ros.control.posture import PostureSetPoint
from osc_ros.control.step import tick_of
from osc_ros.dynamics.addresses import Integers, Pointers
from osc_ros.dynamics.method import Method

Array = NDArray[np.float64]


class Tick:
    """
    Computes the torques of a setup in one compiled call, or gives the table for supervised ones.

    Attributes
    ----------
    is_compiled : bool
        Whether the method of the dynamics has a compiled tick; if not, nothing may be called.

    Parameters
    ----------
    dynamics : Method
    block : (array, array)
        Integers and numbers of the setup, see `osc_ros.control.block`.
    model : CommandModel

    """

    def __init__(self, dynamics: Method, block: tuple[NDArray[Any], Array], model: CommandModel
                 ) -> None:
        self._kernel, entry, arrays = tick_of(dynamics)
        self._arrays = *arrays, *block, *model.arrays
        self._alone, self._supervised = Pointers(entry), Pointers(entry)
        self.is_compiled = self._kernel is not None

    def torques(self, friction: FrictionInForce, posture: PostureSetPoint, time: float, q: Array,
                qd: Array, tau: Array) -> int:
        """Write torques (n,), see `osc_ros.control.compiled_tick.chain_torque`."""
        table = self.alone(friction, posture)
        return int(self._kernel(table, time, q, qd, tau))  # type: ignore[misc]  # is_compiled

    def alone(self, friction: FrictionInForce, posture: PostureSetPoint) -> Integers:
        """Return the table of `osc_ros.control.compiled_tick.chain_torque`."""
        return self._alone.to(*self._arrays, friction.record, posture.numbers)

    def table(self, friction: FrictionInForce, posture: PostureSetPoint, *arrays: NDArray[Any]
              ) -> Integers:
        """Return the table of `step.step` and `step.sense`; the arrays are those of `Guarded`."""
        return self._supervised.to(*self._arrays, friction.record, posture.numbers, *arrays)
