# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The compiled tick of one setup, and the tables by which it finds its arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.command_model import CommandModel
from osc_ros.control.friction import FrictionInForce
from osc_ros.control.posture import PostureSetPoint
from osc_ros.control.step import tick_of
from osc_ros.dynamics.addresses import Integers, Pointers
from osc_ros.dynamics.method import Method

Array = NDArray[np.float64]
Arrays: TypeAlias = Callable[[], tuple[NDArray[Any], ...]]


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
    places : arrays
        `gravities` and `turning` of `osc_ros.control.tick_arrays.Given`.

    """

    def __init__(self, dynamics: Method, block: tuple[NDArray[Any], Array], model: CommandModel,
                 places: tuple[Integers, Integers]) -> None:
        self._kernel, entry, arrays = tick_of(dynamics)
        self._arrays = *arrays, *block, *model.arrays, *places
        self._alone, self._of_law, self._supervised = (Pointers(entry) for _ in range(3))
        self._replaced: object = self  # nothing is replaced by itself: no table is made yet
        self._under: tuple[object, object] = self, self
        self._law: Integers
        self._step: Integers
        self.is_compiled = self._kernel is not None

    def torques(self, friction: FrictionInForce, posture: PostureSetPoint, time: float, q: Array,
                qd: Array, tau: Array) -> int:
        """Write torques (n,), see `osc_ros.control.compiled_tick.chain_torque`."""
        table = self.alone(friction, posture)
        return int(self._kernel(table, time, q, qd, tau))  # type: ignore[misc]  # is_compiled

    def alone(self, friction: FrictionInForce, posture: PostureSetPoint) -> Integers:
        """Return the table of `osc_ros.control.compiled_tick.chain_torque`."""
        return self._alone.to(*self._arrays, friction.record, posture.record)

    def of_law(self, replaced: object, arrays: Arrays) -> Integers:
        """
        Return the table of `osc_ros.control.law_step.law_torque`.

        Parameters
        ----------
        replaced : object
            What is replaced, or None: while this stays the same, the arrays do.
        arrays : callable
            Returns the last two arrays of `osc_ros.control.tick_arrays.Given`, then those of
            `LawArrays`.

        """
        if replaced is not self._replaced:
            self._replaced, self._law = replaced, self._of_law.to(*self._arrays, *arrays())
        return self._law

    def supervised(self, replaced: object, arrays: Arrays, records: tuple[Array, ...]
                   ) -> Integers:
        """Return the table of `step.step` and `sense`, with the arrays of `Guarded`, too."""
        if replaced is not self._under[0] or records is not self._under[1]:
            self._under = replaced, records
            self._step = self._supervised.to(*self._arrays, *arrays(), *records)
        return self._step
