# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The way that an arm came, and the way back along it."""

from __future__ import annotations

import numpy as np

from osc_ros.control.tables import WAY
from osc_ros.dynamics.compiled import inlined
from osc_ros.dynamics.vectors import assign

SPACING = 0.005  # of the recorded positions: least motion of the joint that moves most [rad, m]
PIECES = 400  # of the longest way back, so that WAY positions are enough


@inlined
def _distance(q, other):
    """Largest motion of a joint between two positions [rad, m]."""
    farthest = 0.0
    for i in range(len(q)):
        farthest = max(farthest, np.abs(q[i] - other[i]))
    return farthest


@inlined
def record_way(stopping, longest, q):
    """Record a position (n,) if it is not too near to the last one, for a way [rad, m] back."""
    count = int(stopping.positions[0])
    if count == 0 or _distance(q, stopping.came[(count - 1) % WAY]) > max(
            SPACING, longest / PIECES):
        assign(stopping.came[count % WAY], q)
        stopping.positions[0] = count + 1.0


@inlined
def begin_way_back(stopping, distance, q):
    """
    Begin the way back at a position (n,).

    Its length is measured at the joint that moves most in each piece [rad, m]; it ends at the
    oldest recorded position at the latest.

    """
    assign(stopping.at, q)
    assign(stopping.anchor, q)
    stopping.left[0], stopping.next[0] = distance, stopping.positions[0] - 1.0


@inlined
def go_back(stopping, distance):
    """Move `at` on by a distance [rad, m] on the way back."""
    distance = min(distance, stopping.left[0])
    oldest = max(0, int(stopping.positions[0]) - WAY)
    while distance > 0.0 and stopping.next[0] >= oldest:
        goal = stopping.came[int(stopping.next[0]) % WAY]
        step = _distance(goal, stopping.at)
        share = distance / step if step > distance else 1.0
        for i in range(len(goal)):
            stopping.at[i] += share * (goal[i] - stopping.at[i])
        stopping.left[0] -= min(step, distance)
        distance -= step
        if share == 1.0:
            stopping.next[0] -= 1.0
