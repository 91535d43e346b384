"""From a pose and a target to the commanded acceleration of the tip."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.bandwidth import largest_integral_rate
from osc_ros.control.rotation import rotation_of, rotation_vector
from osc_ros.dynamics import priority
from osc_ros.dynamics.compiled import inlined, kernel
from osc_ros.dynamics.spatial import compose, rotate, transpose, unrotate
from osc_ros.errors import InputError

Array = NDArray[np.float64]

AXES = ('motion', 'force', 'free')
FARTHEST = 1e3  # no arm's target is farther from its base [m]
UNIT_TOLERANCE = 0.02  # three digits typed by hand pass, a vector that is no rotation does not


@dataclass(eq=False, slots=True)  # one a tick: frozen ones take three times as long to make
class Target:
    """
    Where the tip should be and how it should move, in the base frame, [angular; linear].

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
    How a target may move, and where.

    Attributes
    ----------
    speed, acceleration, jerk : (2,)
        Most of the lengths of the vectors, turning and moving [rad/s, m/s and per s, s²]. All
        finite, or all infinite: then the target jumps to where it is wanted.
    leash : (2,) [rad, m]
        Farther than this the target does not run away from an arm that lags: it stops, and goes
        on when the arm has come within half of it. May be infinite.
    box : (2, 3) [m]
        Lowest and highest position, base frame. May be infinite.

    Raises
    ------
    InputError
        Shapes that do not fit, limits that are not positive, finite ones among infinite ones, a
        box without inside.

    """

    speed: Array = (2.5, 1.0)  # type: ignore[assignment]
    acceleration: Array = (12.5, 5.0)  # type: ignore[assignment]
    jerk: Array = (125.0, 50.0)  # type: ignore[assignment]
    leash: Array = (1.0, 0.2)  # type: ignore[assignment]
    box: Array = field(default_factory=lambda: np.array([[-np.inf] * 3, [np.inf] * 3]))

    def __post_init__(self) -> None:
        """Take anything that is an array of the right shape, and refuse the rest."""
        for name in ('speed', 'acceleration', 'jerk', 'leash'):
            value = _positive(f'target {name}', getattr(self, name), 2, finite=False)
            object.__setattr__(self, name, value)
        box = np.array(self.box, dtype=np.float64)
        if box.shape != (2, 3) or not (box[0] < box[1]).all():
            raise InputError(f'workspace box {box.tolist()}: accepted are three lowest positions '
                             'and three highest, above them')
        object.__setattr__(self, 'box', box)
        rates = np.array([self.speed, self.acceleration, self.jerk])
        if np.isfinite(rates).any() and not np.isfinite(rates).all():
            raise InputError(f'target speed, acceleration, jerk {rates.tolist()}: accepted are '
                             'finite ones only, or infinite ones only')
        if np.isfinite(self.box).any() and not self.smooth:
            raise InputError('a workspace box wants a finite speed, acceleration and jerk of the '
                             'target, to stop at its faces')

    @cached_property
    def reach(self) -> tuple[float, float]:
        """The leash, as what is quicker to read."""
        return float(self.leash[0]), float(self.leash[1])

    @property
    def smooth(self) -> bool:
        """Whether there are limits to keep."""
        return bool(np.isfinite(self.speed[0]))

    def inside(self, pose: Array) -> Array:
        """The pose (4, 4) with its position in the box: the same array if it was."""
        position = np.clip(pose[:3, 3], *self.box)
        if (position == pose[:3, 3]).all():
            return pose
        pose = pose.copy()
        pose[:3, 3] = position
        return pose


@dataclass(frozen=True, eq=False)
class Gains:
    """
    How the tip comes to its target: per axis of the task's frame, [angular; linear].

    The error becomes that of a second-order system, whatever the arm's inertia.

    Attributes
    ----------
    natural_frequency : (6,) [rad/s]
        Stiffness of the error dynamics is its square.
    damping_ratio : (6,)
        1 is critical.
    speed : (2,) [rad/s, m/s]
        Most that the feedback asks for on the way to a far target, turning and moving.
    acceleration : (2,) [rad/s², m/s²]
        Most that the feedback asks for, turning and moving.

    Raises
    ------
    InputError
        A shape that does not fit, a number that is not positive, or a natural frequency or damping
        ratio that is not finite (an infinite speed or acceleration is no limit).

    """

    natural_frequency: Array
    damping_ratio: Array
    speed: Array
    acceleration: Array

    def __post_init__(self) -> None:
        """Take anything that is an array of the right shape, and refuse the rest."""
        for name, size in (('natural_frequency', 6), ('damping_ratio', 6), ('speed', 2),
                           ('acceleration', 2)):
            value = _positive(name, getattr(self, name), size, finite=size == 6)
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Stiffness:
    """
    A spring from the tip to its target, per axis of the task's frame, [angular; linear].

    The arm keeps its own inertia Λ, so that no force needs to be measured. With S = √K and
    S Λ⁻¹ S = V a Vᵀ the damper is D = 2 S √ζ V a^(-1/2) Vᵀ √ζ S: Λ, D and K are diagonal in the
    same coordinates, and each of them has the damping ratio ζ (if that is the same on all axes).

    Attributes
    ----------
    stiffness : (6,) [N·m/rad, N/m]
    damping_ratio : (6,)
        1 is critical.
    force : (2,) [N·m, N]
        Most that the spring pulls with, turning and moving.

    Raises
    ------
    InputError
        A shape that does not fit, a number that is not positive, or a stiffness or damping ratio
        that is not finite (an infinite force is no limit).

    """

    stiffness: Array
    damping_ratio: Array
    force: Array

    def __post_init__(self) -> None:
        """Take anything that is an array of the right shape, and refuse the rest."""
        for name, size in (('stiffness', 6), ('damping_ratio', 6), ('force', 2)):
            value = _positive(name, getattr(self, name), size, finite=size == 6)
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class ForceControl:
    """
    What a task does along its axes of force.

    There the link pushes with the wanted force and is braked, so that it comes to a surface at
    the speed F / (damping Λ). Where a wrench is measured, F_d + gain e_f + ∫ integral_rate e dt
    with e = F_d - F_measured takes the place of F_d; e_f is e behind a low-pass filter of the rate
    damping / 2.

    In contact with a stiffness k the mass Λ, braked by the damping c, is an oscillator of the
    natural frequency √(k/Λ), which no filter knows. With the gain g and the integral rate r the
    loop stays stable for every k as long as r + g c/2 is less than c (Routh's criterion); accepted
    is half of that, r ≤ (1 - g) c/2.

    Attributes
    ----------
    damping : float [1/s]
    gain : float
        0 and an integral_rate of 0 leave the loop open; less than 1.
    integral_rate : float [1/s]
        At most (1 - gain) damping / 2.
    correction : (2,) [N·m, N]
        Most that each of the two adds, turning and moving.

    Raises
    ------
    InputError
        A number that is negative or not finite, a gain of 1 or more, an integral rate that is
        too high for the damping.

    """

    damping: float = 50.0
    gain: float = 0.0
    integral_rate: float = 0.0
    correction: Array = field(default_factory=lambda: np.array([5.0, 20.0]))

    def __post_init__(self) -> None:
        """Take anything that is an array of the right shape, and refuse the rest."""
        for name in ('damping', 'gain', 'integral_rate'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f'force {name} {value}: accepted is 0 or more')
        if self.gain >= 1.0:
            raise InputError(f'force gain {self.gain}: accepted is less than 1')
        most = largest_integral_rate(self.damping, self.gain)
        if self.integral_rate > most:
            raise InputError(f'force integral_rate {self.integral_rate:g}: with the damping '
                             f'{self.damping:g} and the gain {self.gain:g} accepted is at most '
                             f'{most:g}, (1 - gain) damping / 2')
        object.__setattr__(self, 'correction',
                           _positive('force correction', self.correction, 2, finite=True))

    @property
    def is_closed(self) -> bool:
        """Whether a measured wrench changes anything."""
        return self.gain > 0.0 or self.integral_rate > 0.0


@dataclass(frozen=True, eq=False)
class Task:
    """
    What a link is to do, axis by axis.

    Attributes
    ----------
    gains : Gains or Stiffness
        Which also says how the link is shaped: as a linear system, or as a spring.
    name : str
    link : str
        Any link that moves; the robot's tip if empty.
    axes : tuple of 6 str
        'motion', 'force' or 'free', [angular; linear], in the task's frame. What is free is left
        to the tasks below and to the posture.
    frame : str
        Link whose axes are the task's, the point stays the link's origin; the base if empty.
    activation : float
        0 to 1, how much of the task is in force.
    force : ForceControl
    limits : TargetLimits

    Raises
    ------
    InputError
        Unknown kinds of axes, or not six of them; an activation out of its range.

    """

    gains: Gains | Stiffness
    name: str = 'tip'
    link: str = ''
    axes: tuple[str, ...] = ('motion',) * 6
    frame: str = ''
    activation: float = 1.0
    force: ForceControl = field(default_factory=ForceControl)
    limits: TargetLimits = field(default_factory=TargetLimits)

    def __post_init__(self) -> None:
        """Refuse what no task has."""
        object.__setattr__(self, 'axes', tuple(self.axes))
        if len(self.axes) != 6 or any(kind not in AXES for kind in self.axes):
            raise InputError(f"axes of task '{self.name}' are {', '.join(self.axes)}: accepted "
                             f"are six, [angular; linear], each one of {', '.join(AXES)}")
        if not 0.0 <= self.activation <= 1.0:
            raise InputError(f"activation of task '{self.name}' is {self.activation}: accepted is "
                             '0 to 1')

    def along(self, *kinds: str) -> Array:
        """1 for the axes (6,) of these kinds, 0 for the others."""
        return np.array([float(kind in kinds) for kind in self.axes])


def _positive(name: str, given: ArrayLike, size: int, finite: bool) -> Array:
    value = np.array(given, dtype=np.float64)
    if value.shape != (size,):
        raise InputError(f'{name} has shape {value.shape}, accepted is ({size},)')
    if not (value > 0.0).all():
        raise InputError(f'{name} {value.tolist()}: every entry must be positive')
    if finite and not np.isfinite(value).all():
        raise InputError(f'{name} {value.tolist()}: every entry must be finite')
    return value


@kernel
def _pose_error(pose, target, error):
    turn = rotation_vector(compose(rotation_of(target), transpose(rotation_of(pose))))
    for i in range(3):
        error[i] = turn[i]
        error[3 + i] = target[i, 3] - pose[i, 3]


@inlined
def _bounded(x, start, most):
    """Factor, at most 1, that takes three numbers from `start` on to the length `most`."""
    total = 0.0
    for k in range(start, start + 3):
        total += x[k] * x[k]
    return min(1.0, most / np.sqrt(total)) if total > 0.0 else 1.0


@inlined
def _approached(error, rate, acceleration, frequency, ratio, speed, most, u):
    """U of `task_acceleration`, from the error, its rate and the target's acceleration."""
    for part in range(2):
        axes = range(3 * part, 3 * part + 3)
        for k in axes:
            u[k] = frequency[k] / (2.0 * ratio[k]) * error[k]
        slower = _bounded(u, 3 * part, speed[part])
        for k in axes:
            u[k] = 2.0 * ratio[k] * frequency[k] * (rate[k] + slower * u[k])
        softer = _bounded(u, 3 * part, most[part])
        for k in axes:
            u[k] = acceleration[k] + softer * u[k]


@kernel
def _feedback(error, twist, target_twist, target_acceleration, frequency, ratio, speed,
              acceleration, u):
    rate = (target_twist[0] - twist[0], target_twist[1] - twist[1], target_twist[2] - twist[2],
            target_twist[3] - twist[3], target_twist[4] - twist[4], target_twist[5] - twist[5])
    _approached(error, rate, target_acceleration, frequency, ratio, speed, acceleration, u)


@inlined
def _in_axes(R, x, mask, y):
    """Y = mask · (Rᵀ x), of six numbers."""
    for part in range(0, 6, 3):
        turned = unrotate(R, (x[part], x[part + 1], x[part + 2]))
        for i in range(3):
            y[part + i] = mask[part + i] * turned[i]


@inlined
def _told(row, u):
    """U of a row, in base axes."""
    R = row[priority.FRAME:]
    for part in range(0, 6, 3):
        k = priority.U + part
        u[part], u[part + 1], u[part + 2] = rotate(
            (R[0], R[1], R[2], R[3], R[4], R[5], R[6], R[7], R[8]),
            (row[k], row[k + 1], row[k + 2]))


@kernel
def asked(pose, twist, target, target_twist, target_acceleration, axes, shape, yields, found, row):
    """
    Fill the row of `osc_ros.dynamics.priority` that a task asks for.

    Parameters
    ----------
    pose, twist : (4, 4), (6,)
        Of the link.
    target, target_twist, target_acceleration : (4, 4), (6,), (6,)
    axes : (4, 4)
        Whose rotation is that of the task's frame.
    shape : (6, 6)
        1 where motion is controlled; what brakes the other axes [1/s]; stiffnesses if the task
        `yields`, else natural frequencies; damping ratios; the two bounds of either; how much of
        each axis is in force.
    yields : bool
    found : (3, 6), written
        Pose error, what of it is along the axes of motion, and u, in base axes.
    row : (WIDTH,), written

    """
    motion, drag, gains, bounds = shape[0], shape[1], shape[2:4], shape[4]
    error, lag, told = found[0], found[1], found[2]
    turn = rotation_vector(compose(rotation_of(target), transpose(rotation_of(pose))))
    R = rotation_of(axes)
    for i in range(9):
        row[priority.FRAME + i] = R[i]
    for i in range(6):
        row[priority.ACTIVATION + i] = shape[5, i]
    for i in range(3):
        error[i] = turn[i]
        error[3 + i] = target[i, 3] - pose[i, 3]
    u, e = row[priority.U:priority.U + 6], row[priority.SPRING:priority.SPRING + 6]
    rate = row[priority.RATE:priority.RATE + 6]
    a = row[priority.ROOT:priority.ROOT + 6]  # filled with its own below
    for i in range(6):
        u[i] = target_twist[i] - twist[i]
    _in_axes(R, u, motion, rate)
    _in_axes(R, error, motion, e)
    for part in range(0, 6, 3):
        lag[part], lag[part + 1], lag[part + 2] = rotate(R, (e[part], e[part + 1], e[part + 2]))
    _in_axes(R, target_acceleration, motion, a)
    _in_axes(R, target_twist, motion, row[priority.VELOCITY:priority.FRAME])
    if yields:
        for part in range(2):
            for k in range(3 * part, 3 * part + 3):
                u[k] = a[k]
                e[k] *= gains[0, k]
                a[k] = np.sqrt(gains[0, k]) * motion[k]
                row[priority.WEIGHT + k] = np.sqrt(2.0 * gains[1, k]) * a[k]
            softer = _bounded(e, 3 * part, bounds[part])
            for k in range(3 * part, 3 * part + 3):
                e[k] *= softer
    else:
        _approached(e, rate, a, gains[0], gains[1], bounds[:2], bounds[2:], u)
        for k in range(6):
            e[k] = a[k] = 0.0
    for part in range(0, 6, 3):
        v = unrotate(R, (twist[part], twist[part + 1], twist[part + 2]))
        for i in range(3):
            u[part + i] -= drag[part + i] * v[i]
    _told(row, told)


def pose_error(pose: Array, target: Array, out: Array | None = None) -> Array:
    """
    Error (6,) that a motion of the tip by it would remove, base axes, [angular; linear].

    The angular part is the rotation vector from the present orientation to the target's, its
    length the angle between them, in [0, π]; the linear part is the difference of positions.

    Parameters
    ----------
    pose, target : (4, 4)
        In the base frame.
    out : (6,), optional

    Returns
    -------
    (6,) [rad, m]

    """
    error = np.empty(6) if out is None else out
    _pose_error(pose, target, error)
    return error


def task_acceleration(error: Array, twist: Array, target: Target, gains: Gains,
                      out: Array | None = None) -> Array:
    """
    Commanded acceleration u = a_d + 2ζω(v_d - v) + ω² e of the tip, in the axes of all of them.

    Written as u = a_d + 2ζω(v_d - v + ω/(2ζ) e): the speed of the approach, ω/(2ζ) e, and then
    the whole feedback are scaled down to their limits, keeping their directions, so that a far
    target is approached at a bounded speed without winding anything up.

    Parameters
    ----------
    error : (6,)
        From `pose_error`.
    twist : (6,)
        Of the tip [rad/s, m/s].
    target : Target
    gains : Gains
    out : (6,), optional

    Returns
    -------
    (6,) [rad/s², m/s²], [angular; linear]

    """
    u = np.empty(6) if out is None else out
    _feedback(error, twist, target.twist, target.acceleration, gains.natural_frequency,
              gains.damping_ratio, gains.speed, gains.acceleration, u)
    return u


def pose(position: ArrayLike, quaternion_xyzw: ArrayLike) -> Array:
    """
    Pose (4, 4) of a position (3,) [m] and a unit quaternion (4,), x y z w.

    It raises what `poses` raises.

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
        Numbers that are not finite, a position farther than FARTHEST, a quaternion whose length
        is not 1, shapes that do not fit.

    """
    p = np.asarray(positions, dtype=np.float64)
    xyzw = np.asarray(quaternions_xyzw, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != 3 or xyzw.shape != (len(p), 4):
        raise InputError(f'position {p.shape[1:]} and quaternion {xyzw.shape[1:]}: '
                         'accepted are (3,), (4,)')
    is_finite = np.isfinite(p).all(axis=1) & np.isfinite(xyzw).all(axis=1)
    for k in np.flatnonzero(~is_finite)[:1].tolist():
        raise InputError(f'pose is not finite: position {p[k].tolist()}, quaternion '
                         f'{xyzw[k].tolist()}')
    for k in np.flatnonzero((np.abs(p) > FARTHEST).any(axis=1))[:1].tolist():
        raise InputError(f'position {p[k].tolist()}: accepted is at most {FARTHEST:g} m')
    length = np.linalg.norm(xyzw, axis=1)
    for k in np.flatnonzero(~(np.abs(length - 1.0) < UNIT_TOLERANCE))[:1].tolist():
        raise InputError(f'quaternion {xyzw[k].tolist()} has length {length[k]:.6g}: accepted is '
                         '1, in the order x y z w (no rotation is 0 0 0 1)')
    x, y, z, w = (xyzw / length[:, None]).T
    T = np.zeros((len(p), 4, 4))
    T[:, :3, :3] = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]]).transpose(2, 0, 1)
    T[:, :3, 3], T[:, 3, 3] = p, 1.0
    return T
