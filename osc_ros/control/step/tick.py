# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The compiled computation of a law's torques, for one robot and one choice of settings.

Kernels get all arrays by one table of their addresses, which this module makes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import Integers, Pointers
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.setpoint.posture import PostureSetPoint
from osc_ros.control.step.setup_step import setup_torque
from osc_ros.control.step.stages import stages_of
from osc_ros.control.step.step import entries
from osc_ros.dynamics.contract.method import Method

Array = NDArray[np.float64]
Arrays: TypeAlias = Callable[[], tuple[NDArray[Any], ...]]


class Tick:
    """
    Computes the torques of a `CompiledLaw` in one call; makes tables of addresses for kernels.

    Attributes
    ----------
    is_compiled : bool
        Whether the method of the dynamics never needs the interpreter.

    Parameters
    ----------
    dynamics : Method
    model : CommandModel
    places : arrays
        `gravities` to `obstacles` of `osc_ros.control.step.tick_arrays.Given`.
    records : arrays
        Words of the records LAW_M and LAW_D of the law.

    """

    def __init__(self, dynamics: Method, model: CommandModel,
                 places: tuple[Integers, Integers, Array, Array],
                 records: tuple[Array, Array]) -> None:
        self._stages = stages_of(dynamics)
        self._arrays = *self._stages.rows, *model.arrays, *places
        self._records = records
        self._alone = Pointers(*entries())
        # last table with a supervisor, and without: (replaced, records, pointers, table)
        self._made: dict[bool, tuple[object, object, Pointers, Integers]] = {}
        self.is_compiled = self._stages.of_python is None

    @property
    def failure(self) -> BaseException | None:
        """Exception of the method at the last torques, if the method is not compiled."""
        return None if self._stages.of_python is None else self._stages.of_python.failure

    def torques(self, run: Any, posture: PostureSetPoint, time: float, q: Array, qd: Array,
                tau: Array) -> int:
        """Write torques (n,), see `osc_ros.control.step.setup_step.setup_torque`."""
        return int(setup_torque(self.alone(run, posture), time, q, qd, tau))

    def alone(self, run: Any, posture: PostureSetPoint) -> Integers:
        """Return the table of addresses for `osc_ros.control.step.setup_step.setup_torque`."""
        return self._alone.to(*self._arrays, posture.record.words, *self._records, run.words)

    def table(self, replaced: object, arrays: Arrays, records: tuple[Array, ...] = ()
              ) -> Integers:
        """
        Return the table of addresses for `law_step.law_torque`, or for `step.step`.

        The table is for `step.step` if `records` are the arrays of `Guarded`. `arrays` returns
        posture and run of `Given`, then all of `LawArrays`; `replaced` is the `CompiledLaw`
        that is being replaced, or None. For each of the two functions the last table is cached,
        and made again only if `replaced` or `records` is another object than in the last call.

        """
        made = self._made.get(bool(records))
        if made is None or replaced is not made[0] or records is not made[1]:
            pointers = Pointers(*entries())  # holds references to the arrays
            posture, run, *of_law = arrays()
            made = replaced, records, pointers, pointers.to(
                *self._arrays, posture, *self._records, run, *of_law, *records)
            self._made[bool(records)] = made
        return made[3]
