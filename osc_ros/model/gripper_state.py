# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The state and the goal of a gripper, and what they say about its motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import NamedTuple

from osc_ros.errors import InputError

STRONGEST, FASTEST = 70.0, 0.1  # force of a finger [N]; speed of the width [m/s], Franka Hand
FORCE = 20.0  # of a motion, if none is given [N]
AT_GOAL = 1e-3  # largest distance of the width from its goal [m]
AT_REST = 2e-3  # largest rate of the width [m/s]
PRESSING = 0.8  # least share of the commanded force


@dataclass(frozen=True)
class GripperState:
    """
    The newest state of a gripper.

    Attributes
    ----------
    width : float [m]
        Between the fingers.
    rate : float [m/s]
        Of the width, positive if it opens.
    force : float [N]
        Of the drive at each finger, positive if it closes.
    goal : float [m]
        Width of the last command.
    commanded_force : float [N]
        Largest force of the last command.

    """

    width: float
    rate: float
    force: float
    goal: float
    commanded_force: float

    @property
    def is_at_goal(self) -> bool:
        """Whether the width is that of the last command, at rest."""
        return abs(self.width - self.goal) < AT_GOAL and abs(self.rate) < AT_REST

    @property
    def is_stalled(self) -> bool:
        """Whether something stops the fingers before the goal, and they press it."""
        towards_goal = self.force if self.width > self.goal else -self.force
        return (not self.is_at_goal and abs(self.rate) < AT_REST
                and towards_goal > PRESSING * self.commanded_force)

    @property
    def is_holding(self) -> bool:
        """Whether something between the fingers stops them, and they press it."""
        return self.is_stalled and self.width > self.goal

    @property
    def is_moving(self) -> bool:
        """Whether the fingers are on their way: neither at the goal, nor stopped by something."""
        return not (self.is_at_goal or self.is_stalled)


class HandGoal(NamedTuple):
    """Width [m], largest force of each finger [N] and speed of the width [m/s]."""

    width: float
    force: float = FORCE
    speed: float = FASTEST

    def require_within(self, widest: float) -> None:
        """Raise InputError if a hand of a largest width [m] does not accept these numbers."""
        for name, value, least, most, unit in (
                ('width', self.width, 0.0, widest, 'm'),
                ('force', self.force, 0.1, STRONGEST, 'N'),
                ('speed', self.speed, 1e-3, FASTEST, 'm/s')):
            if not least - 1e-6 <= value <= most + 1e-6:
                raise InputError(f'{name} of the gripper is {value} {unit}; accepted: {least:g} '
                                 f'to {most:g} {unit}')


def goal_of(command: Sequence[float]) -> HandGoal:
    """
    Return the goal of one to three numbers: width, force and speed; NaN or missing: the default.

    Raises
    ------
    InputError
        Another number of numbers.

    """
    if not 1 <= len(command) <= 3:
        raise InputError(f'{len(command)} numbers for the gripper: accepted are its width [m], '
                         'then its largest force [N], then its speed [m/s]')
    return HandGoal(*(default if math.isnan(value) else float(value)
                      for value, default in zip(command, (math.nan, FORCE, FASTEST))))
