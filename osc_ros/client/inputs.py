# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Checks of the user's inputs to the client."""

from __future__ import annotations

from collections.abc import Mapping
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.client.backend import ArmState
from osc_ros.control.accepted import require_unit
from osc_ros.control.setpoint.trajectory import require_rigid
from osc_ros.control.tasks.task import pose as pose_of
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.algebra.arrays import number as number_of
from osc_ros.errors import InputError

Array = NDArray[np.float64]

LONGEST = 1e6  # longest duration of a motion [s]
LONGEST_STEP = 10.0  # largest time between two poses of a chunk; longer ones are likely in ms [s]
NO_NUMBERS = 'bcSU'  # kinds of the dtypes of booleans, complex numbers and strings
SHORTEST = 1e-4  # shortest way on which a speed counts [m]


def goal_pose(pose: ArrayLike, state: ArmState) -> Array:
    """Convert a pose in one of the forms that `osc_ros.Arm` accepts to (4, 4); else InputError."""
    given = floats(pose)
    if given.shape == (3,):  # a position; the orientation stays
        T = state.pose.copy()
        T[:3, 3] = finite_array('pose', given, (3,))
        return T
    if given.shape == (7,):
        return pose_of(given[:3], given[3:])
    if given.shape != (4, 4):
        raise InputError(f'pose of shape {given.shape}: must be (4, 4), (7,) with '
                         'position and quaternion x y z w, or (3,) with a position')
    require_rigid('pose', given[None])
    return given


def goal_poses(poses: ArrayLike, state: ArmState) -> Array:
    """Convert the poses of a chunk to (m, 4, 4), see `goal_pose`; InputError if there is none."""
    # A single pose is returned twice, as a chunk that stays there.
    given = floats(poses)
    if given.shape in ((4, 4), (7,), (3,)):
        given = given[None]
    if given.ndim not in (2, 3) or not len(given):
        raise InputError(f'poses of shape {given.shape}: give a pose (4, 4), (7,) or (3,), '
                         'or several, all of one form: (m, 4, 4), (m, 7) or (m, 3)')
    return np.array([goal_pose(pose, state) for pose in (given if len(given) > 1
                                                         else [given[0], given[0]])])


def floats(values: ArrayLike) -> Array:
    """Return a copy as an array of numbers; an empty one if they are not numbers."""
    try:
        given = np.asarray(values)
        return np.array([] if given.dtype.kind in NO_NUMBERS else given, dtype=np.float64,
                        order='C')
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)


def finite_numbers(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return `finite_array` of the values; InputError for NO_NUMBERS, too."""
    found = finite_array(name, values, shape)
    if (kind := np.asarray(values).dtype).kind in NO_NUMBERS:
        raise InputError(f'{name} is made of {kind.type.__name__}: give numbers')
    return found


def chunk_times(dt: float, count: int) -> Array:
    """Return the times (count,) of the poses of a chunk after the observation [s]."""
    return positive('dt', dt, 's', LONGEST_STEP) * np.arange(1.0, count + 1.0)


def way_time(start: Array, goal: Array, speed: float, fastest: float) -> float | None:
    """Return the time [s] for the way between poses (4, 4) at a speed [m/s]; None if too short."""
    # InputError if the speed is far above that of the set-point, `fastest` [m/s].
    way, speed = float(np.linalg.norm(goal[:3, 3] - start[:3, 3])), positive('speed', speed, 'm/s')
    require_unit('speed', speed, fastest, 'm/s')
    return None if way < SHORTEST else min(way / speed, LONGEST)


def finite(name: str, value: float) -> float:
    """Return a number as a float; InputError if it is not finite."""
    number = number_of(value)
    if not math.isfinite(number):
        raise InputError(f'{name} is {value!r}: must be a finite number')
    return number


def positive(name: str, value: float, unit: str, upper: float = math.inf) -> float:
    """Return a number as a float; InputError unless it is finite and 0 < number ≤ upper."""
    number = number_of(value)
    if not (math.isfinite(number) and 0.0 < number <= upper):
        raise InputError(f'{name} is {value!r}: must be a finite number above 0'
                         + (f', at most {upper:g}' if math.isfinite(upper) else '')
                         + f' [{unit}]')
    return number


def non_negative(name: str, value: float, unit: str) -> float:
    """Return a number as a float; InputError unless it is finite and at least 0."""
    number = number_of(value)
    if not (math.isfinite(number) and number >= 0.0):
        raise InputError(f'{name} is {value!r}: must be a finite number, 0 or more [{unit}]')
    return number


def joint_goal(q: ArrayLike | Mapping[str, float], names: tuple[str, ...]) -> Array:
    """Return positions (n,) in the order of `names`, NaN for joints that a mapping lacks."""
    if not isinstance(q, Mapping):
        return finite_numbers('q', q, (len(names),)).copy()
    found = np.full(len(names), np.nan)
    for name, value in q.items():
        if name not in names:
            raise InputError(f"there is no joint '{name}': give one of {', '.join(names)}")
        found[names.index(name)] = finite(f"the position of '{name}'", value)
    if not q:
        raise InputError('q names no joint: give one or more')
    return found
