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

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, view, viewing
from osc_ros.control.data import d_at, law_d_at, law_m_at, m_at, run_at
from osc_ros.control.limits.near_rows import clearance_at
from osc_ros.control.model_error.contact import contact_at
from osc_ros.control.model_error.disturbance import COMPENSATION, compensation_at
from osc_ros.control.model_error.observer import OBSERVER, observer_at
from osc_ros.control.setpoint.posture import set_point_at
from osc_ros.control.step.stages import integers_of, numbers_of, OF_DYNAMICS

Array = NDArray[np.float64]

NONE, NO_INTEGERS = np.zeros(0), np.zeros(0, dtype=np.int64)
# Arrays of `LawArrays` that are not used: for a law without compensation, and for one without an
# observer, which has no compensation either.
UNCOMPENSATED = COMPENSATION.new().words
UNOBSERVED = NO_INTEGERS, NONE, OBSERVER.new().words, UNCOMPENSATED
TURNING = 5  # number of integers in a row of `Given.turning`


class Given(NamedTuple):
    """
    Arrays of a `CompiledLaw`: of a law compiled for one robot and one choice of settings.

    In the table of addresses their rows follow the rows of the dynamics, in this order.

    - model, model_numbers, model_room: see `CommandModel.arrays`
    - gravities (k,): addresses of each copy (3,) of gravity that the compiled law uses
    - turning (k, TURNING): for each task whose frame turns with a link without a task: its index,
      and `osc_ros.dynamics.algebra.kinematics.LinkAxes.addresses`
    - clearance: record CLEARANCE of `osc_ros.control.limits.near_rows`
    - obstacles: `osc_ros.collision.obstacles.Obstacles.record`
    - posture: record SET_POINT of `osc_ros.control.setpoint.posture`
    - m, d, run: records LAW_M, LAW_D and RUN of `osc_ros.control.data`

    """

    model: Array
    model_numbers: Array
    model_room: Array
    gravities: Array
    turning: Array
    clearance: Any
    obstacles: Array
    posture: Any
    m: Any
    d: Any
    run: Any


class LawArrays(NamedTuple):
    """
    Arrays that `law_step.law_torque` needs in addition to `Given`.

    In the table of addresses their rows follow the rows of `Given`, in this order.

    - robot, robot_numbers: integers and numbers of the robot of the observer
    - observer: record OBSERVER of `model_error.observer`, used if `observes` is set in LAW_M
    - compensation: record COMPENSATION of `model_error.disturbance`, used if `compensates` is set
    - other (k, 2): table of addresses for the replaced settings; empty if none are being replaced

    """

    robot: Array
    robot_numbers: Array
    observer: Any
    compensation: Any
    other: Array


class Guarded(NamedTuple):
    """
    The records of a supervisor, see `osc_ros.control.data`, and its record of contacts.

    In the table of addresses their rows follow the rows of `LawArrays`, in this order. `contact`
    is a record CONTACT of `osc_ros.control.model_error.contact`.

    """

    m: Any
    d: Any
    contact: Any


_LAW = OF_DYNAMICS + len(Given._fields)
_GUARD = _LAW + len(LawArrays._fields)
TABLE_ROWS = _GUARD + len(Guarded._fields) + 1  # number of rows of a table with `Guarded`
OTHER = _LAW + LawArrays._fields.index('other')
POSTURE = OF_DYNAMICS + Given._fields.index('posture')


@viewing
def given_in(table):
    """Return the `Given` of a table of addresses for `setup_step.setup_torque`."""
    k = OF_DYNAMICS
    return Given(integers_of(table, k), numbers_of(table, k + 1), numbers_of(table, k + 2),
                 integers_of(table, k + 3),
                 view(integers_of(table, k + 4), 0, (table[k + 4, 1] // TURNING, TURNING)),
                 clearance_at(table[k + 5, 0]), numbers_of(table, k + 6),
                 set_point_at(table[k + 7, 0]), law_m_at(table[k + 8, 0]),
                 law_d_at(table[k + 9, 0]), run_at(table[k + 10, 0]))


@viewing
def law_in(table):
    """Return the `LawArrays` of a table of addresses for `law_step.law_torque`."""
    k = _LAW
    return LawArrays(integers_of(table, k), numbers_of(table, k + 1), observer_at(table[k + 2, 0]),
                     compensation_at(table[k + 3, 0]),
                     view(integers_of(table, OTHER), 0, (table[OTHER, 1] // 2, 2)))


@viewing
def guarded_in(table):
    """Return the supervisor's records (`Guarded`) from a table of addresses for `step`."""
    k = _GUARD
    return Guarded(m_at(table[k, 0]), d_at(table[k + 1, 0]), contact_at(table[k + 2, 0]))


@inlined
def entry_in(table):
    """Return the address of `setup_step.setup_torque`, from the last row of a table."""
    return table[len(table) - 1, 0]


@inlined
def law_entry_in(table):
    """Return the address of `law_step.law_torque`, from the last row of a table."""
    return table[len(table) - 1, 1]
