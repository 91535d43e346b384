# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The arrays of a tick, which compiled code finds by one table of their addresses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, view, viewing
from osc_ros.control.step.stages import integers_of, numbers_of, OF_DYNAMICS

Array = NDArray[np.float64]

NONE, NO_INTEGERS = np.zeros(0), np.zeros(0, dtype=np.int64)
# Empty arrays of `LawArrays` where there is no compensation; no observer, and so no compensation.
UNCOMPENSATED = NONE, NONE, NONE
UNOBSERVED = NO_INTEGERS, NONE, NONE, NONE, NONE, *UNCOMPENSATED
TURNING = 5  # integers of a row of `Given.turning`


class Given(NamedTuple):
    """
    Arrays of one setup in the order of its table, after those of the dynamics.

    Attributes
    ----------
    integers, numbers
        See `osc_ros.control.step.block`.
    model, model_numbers, model_room
        See `osc_ros.control.model_error.command_model.CommandModel.arrays`.
    gravities : (k,) int
        Addresses of each copy (3,) of gravity that the setup computes with.
    turning : (k, TURNING) int
        For each task whose frame turns with a link that is none of a task: its index, and
        `osc_ros.dynamics.algebra.kinematics.LinkAxes.addresses`.
    friction : array
        Record of `osc_ros.control.model_error.friction.IN_FORCE`.
    posture : array
        Record of `osc_ros.control.setpoint.posture.SET_POINT`.

    """

    integers: Array
    numbers: Array
    model: Array
    model_numbers: Array
    model_room: Array
    gravities: Array
    turning: Array
    friction: Array
    posture: Array


class LawArrays(NamedTuple):
    """
    Arrays of a law in the order of its table, after those of the setup in force.

    Attributes
    ----------
    robot, robot_numbers, observer, forces, estimate : arrays
        See `osc_ros.control.model_error.observer.observe`: integers and numbers of the robot, then
        records of PLAN, STATE and RESULT; all empty if there is no observer.
    compensation_plan, compensation_state, compensation_result : arrays
        Records of `osc_ros.control.model_error.disturbance`; all empty if nothing is compensated
        for.
    blend : array
        Record of `osc_ros.control.step.blend.BLEND`.
    other : (k, 2) int
        Table of the setup that is replaced; empty if there is none.
    law : array
        Record of `osc_ros.control.step.law_memory.STATE`.

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
    other: Array
    law: Array


class Guarded(NamedTuple):
    """
    Arrays of a supervisor in the order of a table, after those of the law.

    Attributes
    ----------
    plan, state, sample, result
        See `osc_ros.control.safety.tables`.
    contact : array
        Record of `osc_ros.control.model_error.contact.CONTACT`.

    """

    plan: Array
    state: Array
    sample: Array
    result: Array
    contact: Array


_LAW = OF_DYNAMICS + len(Given._fields)
_GUARD = _LAW + len(LawArrays._fields)
TABLE_ROWS = _GUARD + len(Guarded._fields) + 1  # of a table with the arrays of `Guarded`
OTHER = _LAW + LawArrays._fields.index('other')


@viewing
def given_in(table):
    """The `Given` of a table, see `compiled_tick.setup_torque`."""
    k = OF_DYNAMICS
    return Given(integers_of(table, k), numbers_of(table, k + 1), integers_of(table, k + 2),
                 numbers_of(table, k + 3), numbers_of(table, k + 4), integers_of(table, k + 5),
                 view(integers_of(table, k + 6), 0, (table[k + 6, 1] // TURNING, TURNING)),
                 numbers_of(table, k + 7), numbers_of(table, k + 8))


@viewing
def law_in(table):
    """The `LawArrays` of a table, see `osc_ros.control.step.law_step.law_torque`."""
    k = _LAW
    return LawArrays(integers_of(table, k), numbers_of(table, k + 1), numbers_of(table, k + 2),
                     numbers_of(table, k + 3), numbers_of(table, k + 4), numbers_of(table, k + 5),
                     numbers_of(table, k + 6), numbers_of(table, k + 7), numbers_of(table, k + 8),
                     view(integers_of(table, OTHER), 0, (table[OTHER, 1] // 2, 2)),
                     numbers_of(table, k + 10))


@viewing
def guarded_in(table):
    """The `Guarded` of a table, see `osc_ros.control.step.step.step`."""
    k = _GUARD
    return Guarded(numbers_of(table, k), numbers_of(table, k + 1), numbers_of(table, k + 2),
                   numbers_of(table, k + 3), numbers_of(table, k + 4))


@inlined
def entry_in(table):
    """Address of `compiled_tick.setup_torque`, from the last row of a table."""
    return table[len(table) - 1, 0]


@inlined
def law_entry_in(table):
    """Address of `law_step.law_torque`, from the last row of a table."""
    return table[len(table) - 1, 1]
