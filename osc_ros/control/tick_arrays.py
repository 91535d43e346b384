# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The arrays of a tick, which compiled code finds by one table of their addresses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.addresses import integers_at, numbers_at
from osc_ros.dynamics.compiled import inlined, view, viewing

Array = NDArray[np.float64]

TABLE_ROWS = 29  # of a table with the arrays of `Guarded`
NONE, NO_INTEGERS = np.zeros(0), np.zeros(0, dtype=np.int64)
# Empty arrays of `Guarded` where there is no compensation; no observer, and so no compensation; no
# setup that is replaced.
UNCOMPENSATED = NONE, NONE, NONE
UNOBSERVED = NO_INTEGERS, NONE, NONE, NONE, NONE, *UNCOMPENSATED
UNBLENDED = NO_INTEGERS, NONE, NO_INTEGERS


class Given(NamedTuple):
    """
    Arrays of a tick in the order of its table, after the three of the dynamics.

    Attributes
    ----------
    integers, numbers
        See `osc_ros.control.block`.
    model, model_numbers, model_room
        See `osc_ros.control.command_model.CommandModel.arrays`.
    friction : array
        Record of `osc_ros.control.friction.IN_FORCE`.
    posture : (2 n,)
        `osc_ros.control.posture.PostureSetPoint.numbers`.

    """

    integers: Array
    numbers: Array
    model: Array
    model_numbers: Array
    model_room: Array
    friction: Array
    posture: Array


class Guarded(NamedTuple):
    """
    Further arrays of a tick under supervision, in the order of its table.

    Attributes
    ----------
    robot, robot_numbers, observer, forces, estimate : arrays
        See `osc_ros.control.external.observe`: integers and numbers of the robot, then records of
        PLAN, STATE and RESULT; all empty if there is no observer.
    compensation_plan, compensation_state, compensation_result : arrays
        Records of `osc_ros.control.compensation`; all empty if nothing is compensated for.
    blend : array
        Record of `osc_ros.control.blend.BLEND`.
    other_integers, other_numbers, other : arrays
        Integers, numbers and table of the setup that is replaced; all empty if there is none.
    law : array
        Record of `osc_ros.control.law_memory.STATE`.
    plan, state, sample, result
        Records of a supervisor, see `osc_ros.control.tables`.
    contact : array
        Record of `osc_ros.control.touching.CONTACT`.

    """

    robot: Array
    robot_numbers: Array
    observer: Array
    forces: Array
    estimate: Array
    compensation_plan: Array
    compensation_state: Array
    compensation_result: Array
    blend: Array
    other_integers: Array
    other_numbers: Array
    other: Array
    law: Array
    plan: Array
    state: Array
    sample: Array
    result: Array
    contact: Array


@viewing
def numbers_of(table, k):
    """The numbers that row k of a table points to."""
    return numbers_at(table[k, 0], table[k, 1])


@viewing
def integers_of(table, k):
    """The integers that row k of a table points to."""
    return integers_at(table[k, 0], table[k, 1])


@viewing
def given_in(table):
    """The `Given` of a table, see `compiled_tick.chain_torque`."""
    return Given(integers_of(table, 3), numbers_of(table, 4), integers_of(table, 5),
                 numbers_of(table, 6), numbers_of(table, 7), numbers_of(table, 8),
                 numbers_of(table, 9))


@viewing
def guarded_in(table):
    """The `Guarded` of a table, see `osc_ros.control.step.step`."""
    return Guarded(integers_of(table, 10), numbers_of(table, 11), numbers_of(table, 12),
                   numbers_of(table, 13), numbers_of(table, 14), numbers_of(table, 15),
                   numbers_of(table, 16), numbers_of(table, 17), numbers_of(table, 18),
                   integers_of(table, 19), numbers_of(table, 20),
                   view(integers_of(table, 21), 0, (table[21, 1] // 2, 2)), numbers_of(table, 22),
                   numbers_of(table, 23), numbers_of(table, 24), numbers_of(table, 25),
                   numbers_of(table, 26), numbers_of(table, 27))


@inlined
def entry_in(table):
    """Address of the function in the last row of a table."""
    return table[len(table) - 1, 0]
