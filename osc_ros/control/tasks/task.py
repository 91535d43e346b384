# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Configuration of tasks: target, limits, gains, spring, force control."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.tasks.bandwidth import largest_integral_rate
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.pose_error import Pose
from osc_ros.errors import InputError, require_type

Array = NDArray[np.float64]

AXES = ('motion', 'force', 'free')
AXIS_NAMES = 'rx', 'ry', 'rz', 'x', 'y', 'z'  # in the order of `Task.axes`
TOO_FAST = ('refuse', 'slow')
ALL_MOTION = ('motion',) * 6
SLOWEST = 1e-3, 1e-2, 0.1  # least speed, acceleration and jerk of a target [rad, m; s]
FARTHEST = 1e3  # largest accepted coordinate of a target [m]
NO_ROTATION = (0.0, 0.0, 0.0, 1.0)  # quaternion, x y z w
UNIT_TOLERANCE = 0.02  # largest error of a quaternion's length: accepts three typed digits


@dataclass(eq=False, slots=True)  # constructed every tick; if frozen, three times as slow
class Target:
    """
    Set-point of a task's link: pose, twist and acceleration, base frame, [angular; linear].

    Attributes
    ----------
    pose : (4, 4)
    twist : (6,) [rad/s, m/s]
    acceleration : (6,) [rad/s², m/s²]

    """

    pose: Array
    twist: Array = field(default_factory=lambda: np.zeros(6))
    acceleration: Array = field(default_factory=lambda: np.zeros(6))


@dataclass(frozen=True, eq=False)
class TargetLimits:
    """
    Limits of a target's motion, and its workspace.

    Attributes
    ----------
    speed, acceleration, jerk : (2,)
        Largest norms for rotation and for translation [rad/s, m/s and per s, s²]. All finite, or
        all infinite: then the target jumps to its goal.
    leash : (2,) [rad, m]
        If the arm lags the target by more than this (rotation, translation), the target pauses
        until the lag is less than half of `leash`. May be infinite.
    box : (2, 3) [m]
        Lowest and highest position, base frame. May be infinite.
    too_fast : 'refuse' or 'slow'
        Treatment of a path that exceeds the limit of speed or acceleration: refuse it, or stretch
        all of its times by one factor.

    Raises
    ------
    InputError
        Shapes that do not fit, limits below SLOWEST, a speed above FASTEST, finite limits mixed
        with infinite ones, or an empty box.

    """

    FASTEST = 20.0  # largest finite speed [rad/s, m/s]: no tip is as fast

    speed: Array = (2.5, 1.0)  # type: ignore[assignment]
    acceleration: Array = (12.5, 5.0)  # type: ignore[assignment]
    jerk: Array = (125.0, 50.0)  # type: ignore[assignment]
    leash: Array = (1.0, 0.2)  # type: ignore[assignment]
    box: Array = field(default_factory=lambda: np.array([[-np.inf] * 3, [np.inf] * 3]))
    too_fast: str = 'refuse'

    if TYPE_CHECKING:  # sequences are accepted; they become arrays
        def __init__(self, speed: ArrayLike = ..., acceleration: ArrayLike = ...,
                     jerk: ArrayLike = ..., leash: ArrayLike = ..., box: ArrayLike = ...,
                     too_fast: str = ...) -> None: ...

    def __post_init__(self) -> None:
        """Convert to arrays; refuse wrong shapes and numbers."""
        for name in ('speed', 'acceleration', 'jerk', 'leash'):
            value = _positive(f'target {name}', getattr(self, name), 2, finite=False)
            object.__setattr__(self, name, value)
        box = np.array(self.box, dtype=np.float64)
        if box.shape != (2, 3) or not (box[0] < box[1]).all():
            raise InputError(f'workspace box {box.tolist()}: give three lowest positions '
                             'and three highest, above them')
        object.__setattr__(self, 'box', box)
        if self.too_fast not in TOO_FAST:
            raise InputError(f"too_fast is '{self.too_fast}': must be one of "
                             f"{', '.join(TOO_FAST)}")
        rates = np.array([self.speed, self.acceleration, self.jerk])
        for name, row, least in zip(('speed', 'acceleration', 'jerk'), rates, SLOWEST):
            if (row < least).any():  # Ruckig finds no motion
                raise InputError(f'target {name} {row.tolist()}: give {least:g} or more')
        if ((self.speed > self.FASTEST) & np.isfinite(self.speed)).any():
            raise InputError(f'target speed {self.speed.tolist()} [rad/s, m/s]: give at most '
                             f'{self.FASTEST:g}, or inf for no limit (degrees? millimetres?)')
        if np.isfinite(rates).any() and not np.isfinite(rates).all():
            raise InputError(f'target speed, acceleration, jerk {rates.tolist()}: must be '
                             'finite ones only, or infinite ones only')
        if np.isfinite(self.box).any() and not self.smooth:
            raise InputError('a workspace box wants a finite speed, acceleration and jerk of the '
                             'target, to stop at its faces')

    @cached_property
    def leash_pair(self) -> tuple[float, float]:
        """`leash` as two floats, for faster access [rad], [m]."""
        return float(self.leash[0]), float(self.leash[1])

    @cached_property
    def smooth(self) -> bool:
        """Whether the target's motion is limited; otherwise it jumps."""
        return bool(np.isfinite(self.speed[0]))

    def inside(self, pose: Array) -> Array:
        """The pose (4, 4) with its position clipped to the box; the same array if it is inside."""
        position = np.clip(pose[:3, 3], *self.box)
        if (position == pose[:3, 3]).all():
            return pose
        pose = pose.copy()
        pose[:3, 3] = position
        return pose


@dataclass(frozen=True, eq=False)
class Gains:
    """
    Gains of a task that behaves as a linear system, per axis of its frame, [angular; linear].

    The error obeys a second-order system, independent of the arm's inertia.

    Attributes
    ----------
    natural_frequency : (6,) [rad/s]
        Its square is the stiffness of the error dynamics [1/s²].
    damping_ratio : (6,)
        1 is critical.
    speed : (2,) [rad/s, m/s]
        Largest approach speed by the feedback, for rotation and translation.
    acceleration : (2,) [rad/s², m/s²]
        Largest acceleration by the feedback, for rotation and translation.

    Raises
    ------
    InputError
        A shape does not fit, a number is not positive, or a natural frequency or damping ratio is
        not finite (an infinite speed or acceleration is no limit).

    """

    natural_frequency: Array = (20.0,) * 6  # type: ignore[assignment]
    damping_ratio: Array = (1.0,) * 6  # type: ignore[assignment]
    speed: Array = (2.5, 1.0)  # type: ignore[assignment]
    acceleration: Array = (60.0, 20.0)  # type: ignore[assignment]

    if TYPE_CHECKING:  # sequences are accepted; they become arrays
        def __init__(self, natural_frequency: ArrayLike = ..., damping_ratio: ArrayLike = ...,
                     speed: ArrayLike = ..., acceleration: ArrayLike = ...) -> None: ...

    def __post_init__(self) -> None:
        """Convert to arrays; refuse wrong shapes and numbers."""
        for name, size in (('natural_frequency', 6), ('damping_ratio', 6), ('speed', 2),
                           ('acceleration', 2)):
            value = _positive(name, getattr(self, name), size, finite=size == 6)
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Stiffness:
    """
    A spring from the tip to its target, per axis of the task's frame, [angular; linear].

    The arm keeps its own inertia Λ, so no force has to be measured. With S = √K and
    S Λ⁻¹ S = V a Vᵀ the damper is D = 2 S √ζ V a^(-1/2) Vᵀ √ζ S. If ζ is the same on all axes,
    Λ, D and K are diagonal in the same coordinates, and each mode has the damping ratio ζ.

    Attributes
    ----------
    stiffness : (6,) [N·m/rad, N/m]
    damping_ratio : (6,)
        1 is critical.
    force : (2,) [N·m, N]
        Largest moment and force of the spring.
    change_time : float [s]
        Time after which 1 % of a change by `Law.set_impedance` remains.
    tank : float [J]
        Energy that a rising stiffness may add before the damper has dissipated any: see
        `osc_ros.control.tasks.impedance`. Infinite: no bound.

    Raises
    ------
    InputError
        A shape does not fit, a number is not positive, or a stiffness or damping ratio is not
        finite (an infinite force is no limit).

    """

    stiffness: Array = (*(30.0,) * 3, *(500.0,) * 3)  # type: ignore[assignment]
    damping_ratio: Array = (1.0,) * 6  # type: ignore[assignment]
    force: Array = (10.0, 60.0)  # type: ignore[assignment]
    change_time: float = 0.05
    tank: float = 1.0

    if TYPE_CHECKING:  # sequences are accepted; they become arrays
        def __init__(self, stiffness: ArrayLike = ..., damping_ratio: ArrayLike = ...,
                     force: ArrayLike = ..., change_time: float = ..., tank: float = ...
                     ) -> None: ...

    def __post_init__(self) -> None:
        """Convert to arrays; refuse wrong shapes and numbers."""
        for name, size in (('stiffness', 6), ('damping_ratio', 6), ('force', 2)):
            value = _positive(name, getattr(self, name), size, finite=size == 6)
            object.__setattr__(self, name, value)
        for name in ('change_time', 'tank'):
            if not getattr(self, name) > 0.0:
                raise InputError(f'{name} {getattr(self, name)}: must be more than 0')


@dataclass(frozen=True, eq=False)
class ForceControl:
    """
    Control along the axes of force of a task.

    The link pushes with the commanded force F_d and is damped, so it approaches a surface at the
    speed F_d / (damping Λ). If a wrench is measured, F_d is replaced by
    F_d + gain e_f + ∫ integral_rate e dt with e = F_d - F_measured; e_f is e behind a low-pass
    filter of the rate damping / 2.

    In contact with an environment of stiffness k, the inertia Λ with the damping rate c is an
    oscillator of the unknown natural frequency √(k/Λ). With the gain g and the integral rate r the
    loop is stable for every k if r + g c/2 < c (Routh's criterion); the settings accept half of
    that, r ≤ (1 - g) c/2.

    Attributes
    ----------
    damping : float [1/s]
    gain : float
        Less than 1. If gain and integral_rate are both 0, the force loop is open.
    integral_rate : float [1/s]
        At most (1 - gain) damping / 2.
    correction : (2,) [N·m, N]
        Largest moment and force by the proportional part, and by the integral.

    Raises
    ------
    InputError
        A number is negative or not finite, the gain is 1 or more, or the integral rate is too high
        for the damping.

    """

    damping: float = 50.0
    gain: float = 0.0
    integral_rate: float = 0.0
    correction: Array = field(default_factory=lambda: np.array([5.0, 20.0]))

    if TYPE_CHECKING:  # sequences are accepted; they become arrays
        def __init__(self, damping: float = ..., gain: float = ..., integral_rate: float = ...,
                     correction: ArrayLike = ...) -> None: ...

    def __post_init__(self) -> None:
        """Convert to arrays; refuse wrong shapes and numbers."""
        for name in ('damping', 'gain', 'integral_rate'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f'force {name} {value}: must be 0 or more')
        if self.gain >= 1.0:
            raise InputError(f'force gain {self.gain}: must be less than 1')
        most = largest_integral_rate(self.damping, self.gain)
        if self.integral_rate > most:
            raise InputError(f'force integral_rate {self.integral_rate:g}: with the damping '
                             f'{self.damping:g} and the gain {self.gain:g} it must be at most '
                             f'{most:g}, (1 - gain) damping / 2')
        object.__setattr__(self, 'correction',
                           _positive('force correction', self.correction, 2, finite=True))

    @property
    def is_closed(self) -> bool:
        """Whether the force loop is closed: gain or integral rate is not 0."""
        return self.gain > 0.0 or self.integral_rate > 0.0


@dataclass(frozen=True, eq=False)
class Task:
    """
    A task of one link.

    Attributes
    ----------
    gains : Gains or Stiffness
        With Gains the link behaves as a linear system, with Stiffness as a spring.
    name : str
    link : str
        Any link that moves; the robot's tip if empty.
    axes : tuple of 6 str
        'motion', 'force' or 'free', [angular; linear], in the task's frame. Free axes are
        available to the tasks below and to the posture.
    frame : str
        Link whose axes the task uses; the base if empty. The controlled point is always the origin
        of `link`.
    activation : float
        0 (off) to 1 (fully in force).
    force : ForceControl
    limits : TargetLimits
    kind : Kind
        Controlled quantity. A kind that determines the axes, such as `LookAt`, accepts only these
        or the default axes, no frame, and Gains.

    Raises
    ------
    InputError
        Not six known names of axes; an activation out of its range; or axes, a frame or a
        Stiffness that the kind does not accept.

    """

    gains: Gains | Stiffness = field(default_factory=Gains)
    name: str = 'tip'
    link: str = ''
    axes: tuple[str, ...] = ALL_MOTION
    frame: str = ''
    activation: float = 1.0
    force: ForceControl = field(default_factory=ForceControl)
    limits: TargetLimits = field(default_factory=TargetLimits)
    kind: Kind = Pose()

    def __post_init__(self) -> None:
        """Raise for wrong types, axes and activations, and for settings that the kind excludes."""
        require_type('gains', self.gains, (Gains, Stiffness), 'Gains or Stiffness, as in '
                     "Task(Gains(), name='tip')")
        require_type('force', self.force, ForceControl, 'a ForceControl')
        require_type('limits', self.limits, TargetLimits, 'TargetLimits')
        require_type('kind', self.kind, Kind, 'a Kind, such as LookAt')
        object.__setattr__(self, 'axes', tuple(self.axes))
        if len(self.axes) != 6 or any(kind not in AXES for kind in self.axes):
            raise InputError(f"axes of task '{self.name}' are {', '.join(self.axes)}: give "
                             f"six, [angular; linear], each one of {', '.join(AXES)}")
        if not 0.0 <= self.activation <= 1.0:
            raise InputError(f"activation of task '{self.name}' is {self.activation}: must be "
                             '0 to 1')
        if self.kind.axes is not None:
            self._take_axes_of_kind(self.kind.axes)

    def _take_axes_of_kind(self, axes: tuple[str, ...]) -> None:
        if self.axes not in (ALL_MOTION, axes):
            raise self._refusal(f"axes {', '.join(self.axes)}", 'those of the kind, '
                                + ', '.join(axes))
        if self.frame:
            raise self._refusal(f"the frame '{self.frame}'", 'none')
        if not isinstance(self.gains, Gains):
            raise self._refusal(f'a {type(self.gains).__name__}', 'Gains')
        object.__setattr__(self, 'axes', axes)

    def _refusal(self, found: str, accepted: str) -> InputError:
        return InputError(f"task '{self.name}' of kind {self.kind.name} has {found}: for "
                          f'this kind it must be {accepted}')

    def along(self, *kinds: str) -> Array:
        """Mask (6,): 1 for the axes whose entry in `axes` is one of `kinds`, 0 for the others."""
        return np.array([float(kind in kinds) for kind in self.axes])


def _positive(name: str, given: ArrayLike, size: int, finite: bool) -> Array:
    try:
        value = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f'{name} is {given!r}: give {size} numbers') from None
    if value.shape != (size,):
        order = ', [angular; linear]' if size == 6 else ''
        raise InputError(f'{name} has shape {value.shape}, must be ({size},){order}')
    if not (value > 0.0).all():
        raise InputError(f'{name} {value.tolist()}: every entry must be positive')
    if finite and not np.isfinite(value).all():
        raise InputError(f'{name} {value.tolist()}: every entry must be finite')
    return value


def pose(position: ArrayLike, quaternion_xyzw: ArrayLike) -> Array:
    """
    Pose (4, 4) of a position (3,) [m] and a unit quaternion (4,), x y z w.

    For errors see `poses`.

    """
    p, xyzw = np.asarray(position, dtype=np.float64), np.asarray(quaternion_xyzw, dtype=np.float64)
    return np.asarray(poses(p[None], xyzw[None])[0])


def poses(positions: ArrayLike, quaternions_xyzw: ArrayLike) -> Array:
    """
    Poses (m, 4, 4) of positions (m, 3) [m] and unit quaternions (m, 4), x y z w.

    A length within UNIT_TOLERANCE of 1 is corrected, which covers rounding to a few digits.

    Raises
    ------
    InputError
        Numbers that are not finite, a position farther than FARTHEST, a quaternion whose length is
        not 1, or shapes that do not fit.

    """
    p = np.asarray(positions, dtype=np.float64)
    xyzw = np.asarray(quaternions_xyzw, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != 3 or xyzw.shape != (len(p), 4):
        raise InputError(f'position {p.shape[1:]} and quaternion {xyzw.shape[1:]}: '
                         'must be (3,), (4,)')
    is_finite = np.isfinite(p).all(axis=1) & np.isfinite(xyzw).all(axis=1)
    for k in np.flatnonzero(~is_finite)[:1].tolist():
        raise InputError(f'pose is not finite: position {p[k].tolist()}, quaternion '
                         f'{xyzw[k].tolist()}')
    for k in np.flatnonzero((np.abs(p) > FARTHEST).any(axis=1))[:1].tolist():
        raise InputError(f'position {p[k].tolist()}: must be at most {FARTHEST:g} m')
    length = np.linalg.norm(xyzw, axis=1)
    for k in np.flatnonzero(~(np.abs(length - 1.0) < UNIT_TOLERANCE))[:1].tolist():
        left_out = ('; a message that leaves w out has w = 1: send all four numbers, also w: 0.0'
                    if xyzw[k, 3] == 1.0 else '')
        raise InputError(f'quaternion {xyzw[k].tolist()} has length {length[k]:.6g}: must be '
                         f'1, in the order x y z w (no rotation is 0 0 0 1){left_out}')
    x, y, z, w = (xyzw / length[:, None]).T
    T = np.zeros((len(p), 4, 4))
    T[:, :3, :3] = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]]).transpose(2, 0, 1)
    T[:, :3, 3], T[:, 3, 3] = p, 1.0
    return T
