# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Configuration of tasks: target, limits, gains, spring, force control."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.tasks.bandwidth import largest_integral_rate
from osc_ros.control.tasks.feedback import Pose
from osc_ros.control.tasks.kind import Kind
from osc_ros.errors import InputError, require_type
from osc_ros.setting import Group, Numbers, setting

Array = NDArray[np.float64]

AXES = ('motion', 'force', 'free')
AXIS_NAMES = 'rx', 'ry', 'rz', 'x', 'y', 'z'  # in the order of `Task.axes`
TOO_FAST = ('refuse', 'slow')
ALL_MOTION = ('motion',) * 6
SLOWEST = 1e-3, 1e-2, 0.1  # least speed, acceleration and jerk of a target [rad, m; s]
FARTHEST = 1e3  # largest accepted coordinate of a target [m]
NO_ROTATION = (0.0, 0.0, 0.0, 1.0)  # quaternion, x y z w
# When to change gains and stiffnesses.
FIRMNESS = 'the tip gives way too much, or vibrates (`osc_tune` proposes values)'
YIELDING = 'mode is impedance, and the spring is too hard or too soft'
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
class TargetLimits(Group, group='target'):
    """
    Limits of a target's motion, and its workspace; pairs are [rotation, translation].

    Speed, acceleration and jerk must be all finite or all infinite. If they are infinite, the
    target jumps to its goal. `box` (2, 3) is the workspace: lowest and highest position, base
    frame, may be infinite [m].

    Raises
    ------
    InputError
        A number that is not accepted, limits below SLOWEST, a speed above FASTEST, finite limits
        mixed with infinite ones, or an empty box.

    """

    FASTEST = 20.0  # largest finite speed [rad/s, m/s]: no tip is as fast

    speed: Numbers = setting(
        (2.5, 1.0), rotation='Largest angular speed of the set-point [rad/s]',
        translation='Largest speed of the set-point [m/s]. If this and the speed, acceleration '
        'and jerk of target.translation and target.rotation are all infinite, the set-point steps '
        'to each target', lower=SLOWEST[0], infinite=True,
        when=('motions to a goal are too slow or too fast', ''))
    acceleration: Numbers = setting(
        (12.5, 5.0), rotation='Largest angular acceleration of the set-point [rad/s²]',
        translation='Largest acceleration of the set-point [m/s²]', lower=SLOWEST[1],
        infinite=True)
    jerk: Numbers = setting(
        (125.0, 50.0), rotation='Largest angular jerk of the set-point [rad/s³]',
        translation='Largest jerk of the set-point [m/s³]', lower=SLOWEST[2], infinite=True)
    leash: Numbers = setting(
        (1.0, 0.2), rotation='If the arm lags the set-point by more than this angle, the '
        'set-point pauses [rad]', translation='If the arm lags the set-point by more than this '
        'distance, the set-point pauses [m]', lower=1e-6, infinite=True)
    box: Numbers = field(default_factory=lambda: np.array([[-np.inf] * 3, [np.inf] * 3]))
    too_fast: str = setting(
        'refuse', 'What becomes of a trajectory above these speeds or accelerations: refuse it, '
        'or slow it down, by one factor for all of its times', choices=TOO_FAST)

    def __post_init__(self) -> None:
        super().__post_init__()
        box = np.array(self.box, dtype=np.float64)
        if box.shape != (2, 3) or not (box[0] < box[1]).all():
            raise InputError(f'workspace box {box.tolist()}: give three lowest positions '
                             'and three highest, above them')
        object.__setattr__(self, 'box', box)
        rates = np.array([self.speed, self.acceleration, self.jerk])
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


def _damping_ratio() -> Any:
    """Field of the damping ratio; the springs have the same parameter."""
    return setting((1.0,) * 6, lower=1e-3, upper=1e2,
                   translation='Damping ratio of the position error; 1 is critical',
                   rotation='Damping ratio of the orientation error; 1 is critical')


@dataclass(frozen=True, eq=False)
class Gains(Group):
    """
    Gains of a task that behaves as a linear system, per axis of its frame, [angular; linear].

    The error obeys a second-order system, independent of the arm's inertia. The square of the
    natural frequency is the stiffness of the error dynamics [1/s²].

    Raises
    ------
    InputError
        A number or a shape that is not accepted.

    """

    natural_frequency: Numbers = setting(
        (20.0,) * 6, lower=1e-3, upper=1e3, when=FIRMNESS,
        translation='Natural frequency of the position error along x y z of the base [rad/s]; at '
        'most 116 at a `rate` of 500 Hz',
        rotation='Natural frequency of the orientation error about x y z of the base [rad/s]; at '
        'most 116 at a `rate` of 500 Hz')
    damping_ratio: Numbers = _damping_ratio()
    speed: Numbers = setting(
        (2.5, 1.0), lower=1e-6, upper=1e3, infinite=True,
        translation='Largest speed that the feedback commands [m/s]',
        rotation='Largest angular speed that the feedback commands [rad/s]')
    acceleration: Numbers = setting(
        (60.0, 20.0), lower=1e-6, upper=1e4, infinite=True,
        translation='Largest acceleration that the feedback commands [m/s²]',
        rotation='Largest angular acceleration that the feedback commands [rad/s²]')


@dataclass(frozen=True, eq=False)
class Stiffness(Group):
    """
    A spring from the tip to its target, per axis of the task's frame, [angular; linear].

    The arm keeps its own inertia Λ, so no force has to be measured. With S = √K and
    S Λ⁻¹ S = V a Vᵀ the damper is D = 2 S √ζ V a^(-1/2) Vᵀ √ζ S. If ζ is the same on all axes,
    Λ, D and K are diagonal in the same coordinates, and each mode has the damping ratio ζ.
    For `change_time` and `tank` see `osc_ros.control.tasks.impedance`.

    Raises
    ------
    InputError
        A number or a shape that is not accepted.

    """

    stiffness: Numbers = setting(
        (*(30.0,) * 3, *(500.0,) * 3), lower=1e-3, upper=1e6, when=YIELDING,
        translation='Stiffness along x y z of the task frame [N/m]; mode impedance',
        rotation='Stiffness about x y z of the task frame [N m/rad]; mode impedance')
    damping_ratio: Numbers = _damping_ratio()
    force: Numbers = setting(
        (10.0, 60.0), name='spring_limit', lower=1e-6, upper=1e6, infinite=True,
        translation='Largest force of the spring [N]; mode impedance',
        rotation='Largest moment of the spring [N m]; mode impedance')
    change_time: float = setting(
        0.05, 'Time after which 1 % of a change by ~/target_impedance remains, if the energy tank '
        'allows it [s]', name='impedance.change_time', lower=1e-3, upper=60.0)
    tank: float = setting(
        1.0, 'Energy that a rising stiffness of ~/target_impedance may add before the damper has '
        'dissipated any [J]', name='impedance.tank', lower=1e-6, upper=100.0, infinite=True)


@dataclass(frozen=True, eq=False)
class ForceControl(Group, group='force'):
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

    Raises
    ------
    InputError
        A number that is not accepted, or the integral rate is too high for the damping.

    """

    damping: float = setting(50.0, 'Damping rate of a link along force axes [1/s]; at most half '
                             'of `rate`', lower=0.0, upper=1e4)
    gain: float = setting(
        0.0, 'Proportional gain on the force error, measured by ~/measured_wrench, behind a '
        'low-pass filter of half of force.damping; 0 here and for force.integral_rate: open loop',
        lower=0.0, upper=0.99)
    integral_rate: float = setting(
        0.0, 'Integral gain on the force error [1/s]; at most (1 - force.gain) times half of '
        'force.damping', lower=0.0, upper=1e3)
    correction: Numbers = setting(
        (5.0, 20.0), name=('correction', 'moment_correction'), lower=1e-6, upper=1e6,
        translation='Largest force of the proportional part, and of the integral part [N]',
        rotation='Largest moment of the proportional part, and of the integral part [N m]')

    def __post_init__(self) -> None:
        super().__post_init__()
        most = largest_integral_rate(self.damping, self.gain)
        if self.integral_rate > most:
            raise InputError(f'force.integral_rate {self.integral_rate:g}: with the damping '
                             f'{self.damping:g} and the gain {self.gain:g} it must be at most '
                             f'{most:g}, (1 - gain) damping / 2')

    @property
    def is_closed(self) -> bool:
        """Whether the force loop is closed: gain or integral rate is not 0."""
        return self.gain > 0.0 or self.integral_rate > 0.0


@dataclass(frozen=True, eq=False)
class Task(Group):
    """
    A task of one link; with Gains the link behaves as a linear system, with Stiffness as a spring.

    Attributes
    ----------
    link : str
        Name of a link that moves; empty: the tip of the robot. Its origin is controlled.
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
    axes: tuple[str, ...] = setting(
        ALL_MOTION, translation='What is controlled along x y z of the task frame: motion, force, '
        'or free (left to lower tasks and the posture)',
        rotation='What is controlled about x y z of the task frame', choices=AXES)
    frame: str = setting('', 'Link whose axes are those of the task, its gains and its stiffness; '
                         'empty: the base', name='task.frame')
    activation: float = setting(1.0, 'Activation of the task of the tip, 0 (off) to 1',
                                name='task.activation', lower=0.0, upper=1.0)
    force: ForceControl = field(default_factory=ForceControl)
    limits: TargetLimits = field(default_factory=TargetLimits)
    kind: Kind = Pose()

    def __post_init__(self) -> None:
        require_type('gains', self.gains, (Gains, Stiffness), 'Gains or Stiffness, as in '
                     "Task(Gains(), name='tip')")
        require_type('force', self.force, ForceControl, 'a ForceControl')
        require_type('limits', self.limits, TargetLimits, 'TargetLimits')
        require_type('kind', self.kind, Kind, 'a Kind, such as LookAt')
        try:
            super().__post_init__()
        except InputError as error:
            raise InputError(f"task '{self.name}': {error}") from None
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
