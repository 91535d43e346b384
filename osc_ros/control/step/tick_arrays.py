# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Arrays of a tick, the computation of the torques for one joint state.

Compiled code finds them by one table: a row has the address and the size of one array. First come
the rows of the dynamics (see `osc_ros.control.step.stages.OfMethod`), then the rows of `Given`,
`LawArrays` and `Guarded`, as far as a kernel needs them. The last row has the addresses of two
kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, view, viewing
from osc_ros.control.step.stages import integers_of, numbers_of, OF_DYNAMICS

Array = NDArray[np.float64]

NONE, NO_INTEGERS = np.zeros(0), np.zeros(0, dtype=np.int64)
# Empty arrays of `LawArrays`: for a law without compensation, and for one without an observer,
# which has no compensation either.
UNCOMPENSATED = NONE, NONE, NONE
UNOBSERVED = NO_INTEGERS, NONE, NONE, NONE, NONE, *UNCOMPENSATED
TURNING = 5  # number of integers in a row of `Given.turning`


class Given(NamedTuple):
    """
    Arrays of a `CompiledLaw`: of a law compiled for one robot and one choice of settings.

    In the table of addresses their rows follow the rows of the dynamics, in this order.

    - integers, numbers: see `osc_ros.control.step.block`
    - model, model_numbers, model_room: see `CommandModel.arrays`
    - gravities (k,): addresses of each copy (3,) of gravity that the compiled law uses
    - turning (k, TURNING): for each task whose frame turns with a link without a task: its index,
      and `osc_ros.dynamics.algebra.kinematics.LinkAxes.addresses`
    - clearance, obstacles: the first two arrays of `osc_ros.control.limits.near_rows`; empty
      without a clearance
    - friction: record of `osc_ros.control.model_error.friction.IN_FORCE`
    - posture: record of `osc_ros.control.setpoint.posture.SET_POINT`

    """

    integers: Array
    numbers: Array
    model: Array
    model_numbers: Array
    model_room: Array
    gravities: Array
    turning: Array
    clearance: Array
    obstacles: Array
    friction: Array
    posture: Array


class LawArrays(NamedTuple):
    """
    Arrays that `law_step.law_torque` needs in addition to `Given`.

    In the table of addresses their rows follow the rows of `Given`, in this order.

    - robot, robot_numbers, observer, forces, estimate: integers and numbers of the robot, then
      records PLAN, STATE and RESULT of `model_error.observer`; empty without an observer
    - compensation_plan, compensation_state, compensation_result: records of
      `osc_ros.control.model_error.disturbance`; empty without a compensation
    - blend: record of `osc_ros.control.step.blend.BLEND`
    - other (k, 2): table of addresses for the replaced settings; empty if none are being replaced
    - law: record of `osc_ros.control.step.law_memory.STATE`

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
    Arrays of a supervisor.

    In the table of addresses their rows follow the rows of `LawArrays`, in this order. `contact`
    is a record of `osc_ros.control.model_error.contact.CONTACT`; for the others see
    `osc_ros.control.safety.tables`.

    """

    plan: Array
    state: Array
    sample: Array
    result: Array
    contact: Array


_LAW = OF_DYNAMICS + len(Given._fields)
_GUARD = _LAW + len(LawArrays._fields)
TABLE_ROWS = _GUARD + len(Guarded._fields) + 1  # number of rows of a table with `Guarded`
OTHER = _LAW + LawArrays._fields.index('other')
POSTURE = OF_DYNAMICS + Given._fields.index('posture')


@viewing
def given_in(table):
    """Return the `Given` of a table of addresses for `setup_step.setup_torque`."""
    k = OF_DYNAMICS
    return Given(integers_of(table, k), numbers_of(table, k + 1), integers_of(table, k + 2),
                 numbers_of(table, k + 3), numbers_of(table, k + 4), integers_of(table, k + 5),
                 view(integers_of(table, k + 6), 0, (table[k + 6, 1] // TURNING, TURNING)),
                 numbers_of(table, k + 7), numbers_of(table, k + 8), numbers_of(table, k + 9),
                 numbers_of(table, k + 10))


@viewing
def law_in(table):
    """Return the `LawArrays` of a table of addresses for `law_step.law_torque`."""
    k = _LAW
    return LawArrays(integers_of(table, k), numbers_of(table, k + 1), numbers_of(table, k + 2),
                     numbers_of(table, k + 3), numbers_of(table, k + 4), numbers_of(table, k + 5),
                     numbers_of(table, k + 6), numbers_of(table, k + 7), numbers_of(table, k + 8),
                     view(integers_of(table, OTHER), 0, (table[OTHER, 1] // 2, 2)),
                     numbers_of(table, k + 10))


@viewing
def guarded_in(table):
    """Return views of the supervisor's arrays (`Guarded`) from a table of addresses for `step`."""
    k = _GUARD
    return Guarded(numbers_of(table, k), numbers_of(table, k + 1), numbers_of(table, k + 2),
                   numbers_of(table, k + 3), numbers_of(table, k + 4))


@inlined
def entry_in(table):
    """Return the address of `setup_step.setup_torque`, from the last row of a table."""
    return table[len(table) - 1, 0]


@inlined
def law_entry_in(table):
    """Return the address of `law_step.law_torque`, from the last row of a table."""
    return table[len(table) - 1, 1]
