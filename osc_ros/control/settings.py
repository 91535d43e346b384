"""The settings of a law: tasks, posture, limits, friction, driver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from osc_ros.control.driver import Driver
from osc_ros.control.friction import Friction
from osc_ros.control.limits import Limits
from osc_ros.control.posture import Posture
from osc_ros.control.task import Task
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.errors import InputError


@dataclass(frozen=True, eq=False)
class Settings:
    """
    Everything that may change while the law runs, by `Law.change`.

    Attributes
    ----------
    tasks : tuple of Task
        Highest priority first; each acts in the null space of those before it. Usually the first
        is the tip's.
    posture : Posture
    damping : SingularityDamping
    limits : Limits
        Of the joints.
    blend_time : float
        Duration of the blend after a change [s].
    friction : Friction, optional
        The friction to compensate.
    driver : Driver, optional
        The driver, if it adds torques of its own: they are subtracted.

    Raises
    ------
    InputError
        No task, two of one name, a blend time that is not positive and finite.

    """

    tasks: tuple[Task, ...]
    posture: Posture
    damping: SingularityDamping
    limits: Limits
    blend_time: float = 0.3
    friction: Friction | None = None
    driver: Driver | None = None

    def __post_init__(self) -> None:
        """Refuse tasks without names of their own, and a blend time that is not positive."""
        object.__setattr__(self, 'tasks', tuple(self.tasks))
        names = [task.name for task in self.tasks]
        if not names or len(set(names)) < len(names):
            raise InputError(f"tasks are named {', '.join(names) or 'nothing'}: accepted are one "
                             'or more, each with a name of its own')
        if not (np.isfinite(self.blend_time) and self.blend_time > 0.0):
            raise InputError(f'blend time {self.blend_time} s: accepted is more than 0')
