# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""State and goal of a gripper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import NamedTuple

from osc_ros.errors import InputError

STRONGEST, FASTEST = 70.0, 0.1  # largest force [N] and speed of the width [m/s] of a Franka Hand
FORCE = 20.0  # default force of a motion [N]
AT_GOAL = 1e-3  # largest distance of the width from its goal [m]
AT_REST = 2e-3  # largest rate of the width [m/s]
PRESSING = 0.8  # least force of stalled fingers, relative to the commanded force


@dataclass(frozen=True)
class GripperState:
    """The newest state of a gripper."""

    width: float  # distance between the fingers [m]
    rate: float  # of the width, positive when opening [m/s]
    force: float  # drive force at each finger, positive when closing [N]
    goal: float  # width of the last command [m]
    commanded_force: float  # largest force of the last command [N]

    @property
    def is_at_goal(self) -> bool:
        """Whether the gripper is at rest at the width of the last command."""
        return abs(self.width - self.goal) < AT_GOAL and abs(self.rate) < AT_REST

    @property
    def is_stalled(self) -> bool:
        """Whether the fingers are at rest before the goal and press against an obstacle."""
        towards_goal = self.force if self.width > self.goal else -self.force
        return (not self.is_at_goal and abs(self.rate) < AT_REST
                and towards_goal > PRESSING * self.commanded_force)

    @property
    def is_holding(self) -> bool:
        """Whether the fingers are at rest and press on an object between them."""
        return self.is_stalled and self.width > self.goal

    @property
    def is_moving(self) -> bool:
        """Whether the fingers are neither at the goal nor stalled."""
        return not (self.is_at_goal or self.is_stalled)


class HandGoal(NamedTuple):
    """Goal of a gripper: width [m], largest force of each finger [N], speed of the width [m/s]."""

    width: float
    force: float = FORCE
    speed: float = FASTEST

    def require_within(self, widest: float) -> None:
        """Raise InputError for numbers out of range; `widest` is the hand's largest width [m]."""
        for name, value, least, most, unit in (
                ('width', self.width, 0.0, widest, 'm'),
                ('force', self.force, 0.1, STRONGEST, 'N'),
                ('speed', self.speed, 1e-3, FASTEST, 'm/s')):
            if not least - 1e-6 <= value <= most + 1e-6:
                raise InputError(f'{name} of the gripper is {value} {unit}; must be {least:g} '
                                 f'to {most:g} {unit}')


def goal_of(command: Sequence[float]) -> HandGoal:
    """Return the goal for one to three numbers: width [m], force [N] and speed [m/s]."""
    # The default replaces a NaN or missing force or speed; a NaN width remains NaN. InputError for
    # another count of numbers.
    if not 1 <= len(command) <= 3:
        raise InputError(f'{len(command)} numbers for the gripper: give its width [m], '
                         'then its largest force [N], then its speed [m/s]')
    return HandGoal(*(default if math.isnan(value) else float(value)
                      for value, default in zip(command, (math.nan, FORCE, FASTEST))))
