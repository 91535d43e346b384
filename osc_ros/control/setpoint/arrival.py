# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Detection of the arrival of a task's link at its goal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.tasks.task import Task

Array = NDArray[np.float64]

NO_GOAL, ON_THE_WAY, REACHED = 'none', 'on the way', 'reached'
LAGGING = 2e-3  # least error to the set-point of an arm that is stuck [rad, m]
STALL = 0.7  # time without progress after which the arm is stuck [s]
PROGRESS = 0.9  # ratio of the way to the goal to the least one before that counts as progress
LENGTH = 0.3  # displacement for which a rotation by 1 rad counts [m]


class Tolerance(NamedTuple):
    """Bounds of the error: the goal is reached after `settle_time` within them."""

    rotation: float  # [rad]
    translation: float  # [m]
    settle_time: float  # [s]


class Approach(NamedTuple):
    """Pose and goal (4, 4) of a task's link, and axes (3, 3) of the task, in the base frame."""

    task: Task
    pose: Array
    goal: Array | None
    axes: Array

    def error(self) -> Array | None:
        """Error (6,) from the link to its goal in base axes [rad, m]; None without a goal."""
        if self.goal is None:
            return None
        parts = self.task.kind.error(self.pose, self.goal).reshape(2, 3) @ self.axes
        moves = self.task.along('motion').reshape(2, 3)  # zero along other axes
        return np.asarray((moves * parts @ self.axes.T).ravel())


class JointApproach(NamedTuple):
    """Way of each joint to its goal."""

    way: Array  # (n,) [rad, m]
    prismatic: NDArray[np.bool_]  # (n,)
    moves: bool  # a motion is in progress: on a path the joints may pass their goal before

    def error(self) -> Array:
        """Largest way of a revolute and of a prismatic joint [rad, m], as an error (6,)."""
        found, ways = np.zeros(6), np.abs(self.way)
        found[0] = np.max(ways[~self.prismatic], initial=0.0)
        found[3] = np.max(ways[self.prismatic], initial=0.0)
        return found


class Arrival:
    """Detects the arrival of a link at its goal."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the goal."""
        # a goal stays REACHED until the next motion is commanded, even if the link leaves it
        self.state = NO_GOAL
        self.angle = self.distance = np.nan  # error to the goal at the last update [rad, m]
        self._within_since = np.inf

    def begin(self) -> None:
        """Record that a motion was commanded, also if its goal is the same as before."""
        self.state = ON_THE_WAY

    def update(self, time: float, error: Array | None, tolerance: Tolerance,
               moves: bool = False) -> bool:
        """Return True once, when the goal is reached; `time` [s] is the stamp of the state."""
        if error is None:
            self.clear()
            return False
        self.angle = float(np.linalg.norm(error[:3]))
        self.distance = float(np.linalg.norm(error[3:]))
        is_within = self.angle <= tolerance.rotation and self.distance <= tolerance.translation
        if is_within and not moves:  # not while the set-point moves along a path
            self._within_since = min(self._within_since, time)  # min: the clock may go back
        else:
            self._within_since = np.inf
        has_settled = time - self._within_since >= tolerance.settle_time
        if self.state == REACHED or not has_settled:
            self.state = REACHED if self.state == REACHED else ON_THE_WAY
            return False
        self.state = REACHED
        return True


class Stall:
    """Detects that the tip comes no nearer to its goal, and its set-point is elsewhere."""

    def __init__(self) -> None:
        self._least, self._since = np.inf, np.inf

    def update(self, time: float, way: Array, error: Array) -> bool:
        """Return whether the arm has been stuck for STALL; `time` [s] is that of the state."""
        # `way` (6,) leads from the tip to its goal, `error` (6,) to its set-point [rad, m]
        left = float(np.linalg.norm(way[3:]) + LENGTH * np.linalg.norm(way[:3]))
        if left < PROGRESS * self._least or np.linalg.norm(error) < LAGGING:
            self._least, self._since = left, time
        return time - self._since >= STALL
