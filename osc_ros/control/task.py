"""From a pose and a target to the commanded acceleration of the tip."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.rotation import rotation_of, rotation_vector
from osc_ros.dynamics.compiled import kernel
from osc_ros.dynamics.spatial import compose, transpose
from osc_ros.errors import InputError

Array = NDArray[np.float64]

FARTHEST = 1e3  # no arm's target is farther from its base [m]
UNIT_TOLERANCE = 0.02  # three digits typed by hand pass, a vector that is no rotation does not


@dataclass(frozen=True, eq=False)
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
class Gains:
    """
    How the tip comes to its target: per axis, in base axes, [angular; linear].

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
        for name, shape in (('natural_frequency', 6), ('damping_ratio', 6), ('speed', 2),
                            ('acceleration', 2)):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != (shape,):
                raise InputError(f'{name} has shape {value.shape}, accepted is ({shape},)')
            if not (value > 0.0).all():
                raise InputError(f'{name} {value.tolist()}: every entry must be positive')
            if shape == 6 and not np.isfinite(value).all():
                raise InputError(f'{name} {value.tolist()}: every entry must be finite')
            object.__setattr__(self, name, value)


@kernel
def _pose_error(pose, target, error):
    turn = rotation_vector(compose(rotation_of(target), transpose(rotation_of(pose))))
    for i in range(3):
        error[i] = turn[i]
        error[3 + i] = target[i, 3] - pose[i, 3]


@kernel
def _feedback(error, twist, target_twist, target_acceleration, frequency, ratio, speed,
              acceleration, u):
    for part in range(2):
        axes = range(3 * part, 3 * part + 3)
        total = 0.0
        for k in axes:
            u[k] = frequency[k] / (2.0 * ratio[k]) * error[k]
            total += u[k] * u[k]
        slower = min(1.0, speed[part] / np.sqrt(total)) if total > 0.0 else 1.0
        total = 0.0
        for k in axes:
            u[k] = 2.0 * ratio[k] * frequency[k] * (target_twist[k] - twist[k] + slower * u[k])
            total += u[k] * u[k]
        softer = min(1.0, acceleration[part] / np.sqrt(total)) if total > 0.0 else 1.0
        for k in axes:
            u[k] = target_acceleration[k] + softer * u[k]


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
    Commanded acceleration u = a_d + 2ζω(v_d - v) + ω² e of the tip, base axes.

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
    Pose (4, 4) of a position and a unit quaternion, x y z w.

    What rounding or few digits have done to its length is mended; more is taken as a mistake.

    Raises
    ------
    InputError
        Numbers that are not finite, a position that no arm reaches, a quaternion whose length is
        not 1, shapes that do not fit.

    """
    p = np.asarray(position, dtype=np.float64)
    xyzw = np.asarray(quaternion_xyzw, dtype=np.float64)
    if p.shape != (3,) or xyzw.shape != (4,):
        raise InputError(f'position {p.shape} and quaternion {xyzw.shape}: '
                         'accepted are (3,), (4,)')
    if not (np.isfinite(p).all() and np.isfinite(xyzw).all()):
        raise InputError(f'pose is not finite: position {p.tolist()}, quaternion {xyzw.tolist()}')
    if np.abs(p).max() > FARTHEST:
        raise InputError(f'position {p.tolist()}: accepted is at most {FARTHEST:g} m')
    length = float(np.linalg.norm(xyzw))
    if not abs(length - 1.0) < UNIT_TOLERANCE:
        raise InputError(f'quaternion {xyzw.tolist()} has length {length:.6g}: accepted is 1, '
                         'in the order x y z w (no rotation is 0 0 0 1)')
    x, y, z, w = xyzw / length
    T = np.eye(4)
    T[:3, :3] = [[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                 [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                 [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]]
    T[:3, 3] = p
    return T
