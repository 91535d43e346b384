# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The latest data of the controller for the page, and derived quantities."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from time import strftime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.obstacles import Obstacle
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

ABSENT = 'absent'
SPEED = 'speed_override'  # parameter [%]
MARGIN = 'clearance.margin'  # parameter; at 0 m the arm does not keep clear
REASON = 'reason '  # beginning of the keys of the reasons why the tip is not at its goal
OK, WARN, ERROR, STALE = range(4)  # levels of diagnostic_msgs/DiagnosticStatus
HARMLESS = 'deadline: '  # beginning of warnings that change nothing for the user of the page
WORDS = 50  # number of stored log lines
WORST = 0.999  # below this least controlled share, singularity damping acts
NEAR = 0.1  # a joint closer to its limit than this share of its range is near it


@dataclass(frozen=True)
class Follower:
    """An additional task of the controller."""

    name: str
    link: str
    is_point: bool  # whether the target is a point (kind look_at) instead of a pose
    axis: tuple[float, ...]  # (3,) for the kind look_at: axis that points at the target


@dataclass(frozen=True)
class Solid:
    """An object beside the arm."""

    shape: str  # 'box', 'sphere', or 'cylinder' or 'capsule' along its z axis
    size: tuple[float, ...]  # (3,) edges of the box around it, of a capsule without its ends [m]
    color: tuple[float, ...]  # red, green, blue, opacity, 0 to 1


def sliding_joints(robot: Robot) -> set[int]:
    """Return the indices of the prismatic joints of a robot."""
    return {int(robot.v_index[body]) for body in np.flatnonzero(robot.prismatic)}


@dataclass
class ControlReport:
    """The newest data of an active controller; None or empty until they have arrived."""

    # errors and wrenches: (6,), [angular; linear], base axes
    pose: Array | None = None  # (4, 4) of the tip
    error: Array | None = None  # from the tip to its set-point
    force: Array | None = None  # wrench of the tip's task
    external: Array | None = None  # estimated external wrench at the tip
    # from the link of a task to its goal; key '': the tip's task
    goal_errors: dict[str, Array] = field(default_factory=dict)
    Lambda: Array | None = None  # (6, 6) task-space inertia of the tip, [linear; angular]
    # named parts (n,) of the commanded torque, which is their sum
    terms: dict[str, Array] = field(default_factory=dict)
    level: int = STALE  # level, message and values of the diagnostics
    text: str = ''
    status: dict[str, str] = field(default_factory=dict)

    @property
    def nearest(self) -> tuple[str, str] | None:
        """The nearest pair: a link, and another link, the name of an obstacle, or 'fence'."""
        link, _, other = self.status.get('nearest pair', '').partition(' ')
        return (link, other) if other else None

    @property
    def held_off(self) -> list[str]:
        """The pairs that bound the motion, in the form LINK OTHER."""
        return [one for one in self.status.get('held off by', '').split(', ') if one]

    @property
    def reasons(self) -> list[str]:
        """Causes, with remedies, that keep the tip away from its goal; the most direct first."""
        return [text for name, text in self.status.items() if name.startswith(REASON)]


@dataclass
class Reading:
    """The latest received data; None or empty until the data have arrived."""

    robot: Robot | None = None
    urdf_text: str = ''
    followers: tuple[Follower, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)  # of the controller by name
    lifecycle: str = ABSENT  # state of the controller; ABSENT if it does not run
    # requests that are possible now: 'hold', 'release', 'free_drive', 'push', 'joints',
    # 'lifecycle', 'obstacles'
    offers: frozenset[str] = frozenset()
    q: Array | None = None  # (n,), measured [rad, m]
    effort: Array | None = None  # (n,), measured [N m, N]
    # (n,) at the start: the simulator's initial positions, else the first measured ones [rad, m]
    home: Array | None = None
    control: ControlReport = field(default_factory=ControlReport)
    # objects beside the arm by name, with their poses (4, 4) in the base frame
    solids: dict[str, tuple[Solid, Array]] = field(default_factory=dict)
    obstacles: dict[str, Obstacle] = field(default_factory=dict)  # by name, NAMESPACE/ID
    gripper: tuple[float, float] | None = None  # width [m], and force of each finger [N]
    # level, text and time of day of the controller's warnings, newest last
    words: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=WORDS))
    # by parameter or request: the reason why its last value or call was refused
    refusals: dict[str, str] = field(default_factory=dict)

    def say(self, level: str, text: str) -> None:
        """Append a message to `words`, with the present time, unless it is a missed deadline."""
        if level != 'warning' or not text.startswith(HARMLESS):
            self.words.append((level, text, strftime('%H:%M:%S')))

    def forget_motion(self) -> None:
        """Drop the data that an active controller reports, because it has ended."""
        self.control = ControlReport()

    @property
    def torque(self) -> Array | None:
        """Commanded torques (n,): the sum of the terms; without terms, the measured efforts."""
        return sum(self.control.terms.values()) if self.control.terms else self.effort  # type: ignore[return-value]

    @property
    def effort_limits(self) -> Array:
        """Torque limits (n,) in force; infinite if there is none."""
        given = self.parameters.get('limits.effort') or ()
        if self.robot is None or len(given) == self.robot.n:
            return np.array(given, dtype=np.float64)
        return self.robot.effort_limits

    @property
    def torque_shares(self) -> Array | None:
        """Torque of each joint (n,) as a signed share of its limit; None without torques."""
        torque = self.torque
        if torque is None or len(torque) != len(self.effort_limits):
            return None
        return np.asarray(torque / self.effort_limits)

    def near_limits(self) -> dict[int, tuple[str, float]]:
        """Joints near a position limit, by index: name, and distance [rad, m]."""
        if self.robot is None or self.q is None or len(self.q) != self.robot.n:
            return {}
        low, high = self.robot.position_limits.T
        distance, span = np.minimum(self.q - low, high - self.q), high - low
        return {int(i): (self.robot.joint_names[i], float(distance[i]))
                for i in np.flatnonzero(np.isfinite(span) & (distance < NEAR * span))}

    @property
    def mobility(self) -> tuple[Array, Array] | None:
        """Translational mobility of the tip: eigenvalues (3,) [1/kg] and axes (3, 3) of Λ⁻¹."""
        # Of the translational part of Λ⁻¹: the tip may rotate freely. None if Λ is unknown.
        if self.control.Lambda is None:
            return None
        values, axes = np.linalg.eigh(np.linalg.pinv(self.control.Lambda, hermitian=True)[:3, :3])
        if np.linalg.det(axes) < 0.0:
            axes[:, 0] *= -1.0
        return np.maximum(values, 0.0), axes

    def is_within_tolerance(self, error: Array) -> bool:
        """Whether an error (6,), [angular; linear], is below the tolerances of goals."""
        bounds = [self.parameters.get(f'goal.{part}.tolerance')
                  for part in ('rotation', 'translation')]
        return all(bound is not None and float(np.linalg.norm(part)) <= bound
                   for bound, part in zip(bounds, (error[:3], error[3:])))

    @property
    def least_share(self) -> float | None:
        """Smallest controlled share of all directions of the tip, 0 (singular) to 1, if known."""
        try:
            return float(self.control.status['least controlled share'])
        except (KeyError, ValueError):
            return None
