# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""The law of a plain chain at many states, several states at once in the processor's lanes."""

from __future__ import annotations

import numpy as np

from osc_ros.dynamics.chain.layout import FORCE, TIP_WIDTH, WORK_WIDTH
from osc_ros.dynamics.chain.passes import inward_pass, outward_pass, task_force
from osc_ros.dynamics.compiled import inlined, released, view
from osc_ros.dynamics.either import lane_number, select
from osc_ros.dynamics.lanes.memory import array_of_lanes, load_rows, store_rows, WIDTH


def room_size(n: int) -> int:
    """Number of lanes that `laws` needs for a chain of n bodies."""
    return TIP_WIDTH + 6 + n * (WORK_WIDTH + 5)


@inlined
def check(numbers):
    """0 in the lanes in which all numbers of an array are finite, else NaN."""
    total = 0.0
    for i in range(len(numbers)):
        total += 0.0 * numbers[i]
    return total


@inlined
def mark_rows(valid, rows, first, total):
    """Write to `valid` where `total` is zero; elsewhere set the rows to NaN."""
    good = select(total == 0.0, 1.0, 0.0)
    for lane in range(min(WIDTH, len(rows) - first)):
        valid[first + lane] = lane_number(good, lane) > 0.0
        if not valid[first + lane]:
            rows[first + lane] = np.nan


@released
def laws(links, ends, q, qd, u, tau, qdd, room, out, valid):
    """
    Write τ⁰ + JᵀΛ(u - a⁰) at k states.

    Parameters
    ----------
    links, ends : (n, LINK_WIDTH), (ENDS_WIDTH,)
    q, qd, u : (k, n), (k, n), (k, 6)
    tau, qdd : (k, n) or None
    room : (room_size(n) * WIDTH,), overwritten
    out : (k, n), written [N·m]
        A row of NaN where a number of the state, or of the result, is not finite.
    valid : (k,) bool, written
        False for the rows of NaN.

    """
    n = len(links)
    lanes = array_of_lanes(room, WIDTH)
    tip, at_u, at_q = lanes[:TIP_WIDTH], TIP_WIDTH, TIP_WIDTH + 6
    at_qd, at_tau, at_qdd, at_out = at_q + n, at_q + 2 * n, at_q + 3 * n, at_q + 4 * n
    work = view(lanes, at_q + 5 * n, (n, WORK_WIDTH))
    U, Q, QD, F = lanes[at_u:at_q], lanes[at_q:at_qd], lanes[at_qd:at_tau], tip[FORCE:FORCE + 6]
    TAU = None if tau is None else lanes[at_tau:at_qdd]
    QDD = None if qdd is None else lanes[at_qdd:at_out]
    OUT = lanes[at_out:at_out + n]
    for first in range(0, len(q), WIDTH):
        load_rows(q, first, room, at_q)
        load_rows(qd, first, room, at_qd)
        load_rows(u, first, room, at_u)
        if tau is not None:
            load_rows(tau, first, room, at_tau)
        if qdd is not None:
            load_rows(qdd, first, room, at_qdd)
        outward_pass(links, ends, Q, QD, TAU, QDD, work, None, tip)
        task_force(U, tip, F)
        inward_pass(links, ends, TAU, QDD, F, work, tip, OUT)
        store_rows(out, first, room, at_out)
        mark_rows(valid, out, first, check(Q) + check(QD) + check(U) + check(OUT))
