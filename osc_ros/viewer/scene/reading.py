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
    """
    An additional task of the controller.

    Attributes
    ----------
    name, link : str
    is_point : bool
        Whether the target is a point (kind look_at) instead of a pose.
    axis : tuple of 3 float
        For the kind look_at: axis of the link that points at the target.

    """

    name: str
    link: str
    is_point: bool
    axis: tuple[float, ...]


@dataclass(frozen=True)
class Solid:
    """
    An object beside the arm.

    Attributes
    ----------
    shape : str
        'box', 'sphere', or 'cylinder' or 'capsule' along its z axis.
    size : tuple of 3 float
        Lengths of the edges of the box around it, of a capsule without its ends [m].
    color : tuple of 4 float
        Red, green, blue, opacity, 0 to 1.

    """

    shape: str
    size: tuple[float, ...]
    color: tuple[float, ...]


def sliding_joints(robot: Robot) -> set[int]:
    """Return the indices of the prismatic joints of a robot."""
    return {int(robot.v_index[body]) for body in np.flatnonzero(robot.prismatic)}


@dataclass
class ControlReport:
    """
    The newest data of an active controller; None or empty until they have arrived.

    Attributes
    ----------
    pose : (4, 4)
        Pose of the tip.
    error, force : (6,)
        Error from the tip to its set-point, and the tip's wrench, [angular; linear], base axes.
    external : (6,)
        Estimated external wrench at the tip, [angular; linear], base axes.
    goal_errors : dict of str to (6,)
        Error from the link of a task to its goal; key '': the tip's task.
    Lambda : (6, 6)
        Task-space inertia of the tip, [linear; angular].
    terms : dict of str to (n,)
        Named parts of the commanded torque; their sum is the torque.
    level, text, status : int, str, dict
        Diagnostics: level, message, values.

    """

    pose: Array | None = None
    error: Array | None = None
    force: Array | None = None
    external: Array | None = None
    goal_errors: dict[str, Array] = field(default_factory=dict)
    Lambda: Array | None = None
    terms: dict[str, Array] = field(default_factory=dict)
    level: int = STALE
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
    """
    The latest received data; None or empty until the data have arrived.

    Attributes
    ----------
    robot : Robot, optional
    urdf_text : str
    followers : tuple of Follower
    parameters : dict
        Parameters of the controller by name.
    lifecycle : str
        State of the controller; 'absent' if it does not run.
    offers : frozenset of str
        Requests that are possible now: 'hold', 'release', 'free_drive', 'push', 'joints',
        'lifecycle', 'obstacles'.
    q, effort : (n,)
        Measured positions [rad, m] and efforts [N m, N].
    home : (n,)
        Posture in which the arm started [rad, m]: the simulator's initial positions, otherwise the
        first measured ones.
    control : ControlReport
        Newest data that the controller reports while it is active.
    solids : dict of str to (Solid, (4, 4))
        Objects beside the arm by name, with their poses in the base frame.
    obstacles : dict of str to Obstacle
        Obstacles of the controller by name, NAMESPACE/ID.
    gripper : (float, float), optional
        Width between the fingers [m] and force of each [N].
    words : deque of (str, str, str)
        Level, text and time of day of the controller's warnings, newest last.
    refusals : dict of str to str
        By the name of a parameter or a request: the reason why its last value, or the last such
        request, was refused.

    """

    robot: Robot | None = None
    urdf_text: str = ''
    followers: tuple[Follower, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    lifecycle: str = ABSENT
    offers: frozenset[str] = frozenset()
    q: Array | None = None
    effort: Array | None = None
    home: Array | None = None
    control: ControlReport = field(default_factory=ControlReport)
    solids: dict[str, tuple[Solid, Array]] = field(default_factory=dict)
    obstacles: dict[str, Obstacle] = field(default_factory=dict)
    gripper: tuple[float, float] | None = None
    words: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=WORDS))
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
        """
        Translational mobility of the tip: eigenvalues (3,) [1/kg] and axes (3, 3) of Λ⁻¹.

        These are of the translational part of Λ⁻¹: the tip may rotate freely. None if Λ is
        unknown.

        """
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
        """
        Smallest controlled share among all directions of the tip, 0 (singular) to 1.

        None if it is unknown.

        """
        try:
            return float(self.control.status['least controlled share'])
        except (KeyError, ValueError):
            return None
