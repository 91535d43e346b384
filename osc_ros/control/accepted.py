# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Commands reduced to accepted values, each with a text on the values in use; goals in reach."""

from __future__ import annotations

from dataclasses import replace
import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.setpoint.joining import difference, joining_offset
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.tasks.bandwidth import DELAY, largest_natural_frequency
from osc_ros.control.tasks.task import Stiffness, Target, TargetLimits, Task
from osc_ros.dynamics.algebra.arrays import number
from osc_ros.dynamics.algebra.kinematics import reach
from osc_ros.errors import InputError, ReachError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

FULL_SPEED = 100.0  # speed override without effect [%]
MANY = 10.0  # ratio of a goal's distance to the reach up to which it is likely in metres
# Ratio to its limit from which the speed of a tip is likely in another unit. A joystick that sends
# the limit along three axes has √3.
SEVERAL = 3.0
HALF_TURN = 3.15  # no rotation vector needs more than π [rad]; rounded up for rounded numbers
# A motion that takes longer [s], and on average is slower [rad/s, m/s], is likely in milliseconds.
LONG, SLOW = 600.0, 1e-3
# Ratio to the accepted stiffness from which another unit is likely: the accepted one depends on
# the posture, and clients set it axis by axis.
MANY_STIFF = 100.0
SAME = 1e-3  # relative difference up to which a duration is the commanded one
OUTSIDE = 'outside of the workspace box: the nearest position inside is used'
_BISECTIONS = 40


def require_reach(robot: Robot, task: Task, positions: Array) -> None:
    """Raise ReachError if one of the positions (m, 3) [m] is beyond reach of a task's link."""
    # Only tasks that control a pose have a reach, see `osc_ros.dynamics.algebra.kinematics.reach`.
    if 'pose' not in task.kind.goals:
        return
    link = task.link or robot.tip
    origin, most = reach(robot, link)
    with np.errstate(over='ignore'):
        away = np.linalg.norm(positions - origin, axis=1)
    k = int(np.argmax(away))
    if away[k] <= most:
        return
    is_metric = away[k] <= MANY * most or np.linalg.norm(positions[k] / 1e3 - origin) > most
    raise ReachError(f"goal of '{link}' is beyond reach: {away[k]:.4g} m from the first joint, "
                     f'must be at most {most:.4g} m, the sum of the link lengths'
                     + ('' if is_metric else ' (millimetres?)'),
                     float(away[k]), most)


def checked_override(percent: float) -> float:
    """Return a speed override [%]; InputError if it is not 0, or 1 to 100."""
    found = number(percent)
    if math.isnan(found):
        raise InputError(f'speed override {percent!r}: must be a number, 0 to 100 %')
    if 0.0 < found < 1.0:
        raise InputError(f'speed override {found:g} %: must be 0, or 1 to 100 % (give '
                         f'{100.0 * found:g} for {found:g} of the full speed)')
    if not 0.0 <= found <= FULL_SPEED:
        raise InputError(f'speed override {found:g} %: must be 0 to 100 %')
    return found


def bounded_twist(twist: Array, limits: TargetLimits) -> tuple[Array, str]:
    """Return a twist (6,) within the target's speeds, a text if reduced; see `require_unit`."""
    parts, texts = twist.reshape(2, 3).copy(), []
    for part, most, unit in zip(parts, limits.speed, ('rad/s', 'm/s')):
        largest = float(np.abs(part).max())
        length = math.sqrt((part / largest) @ (part / largest)) if largest > 0.0 else 0.0
        if (size := largest * length) > most:
            require_unit('speed', size, most, unit)
            part[:] = part / largest * (most / length)
            texts.append(f'{size:.3g} {unit} is too fast: {most:.3g} {unit} is used')
    return parts.ravel(), '; '.join(texts)


def require_unit(what: str, size: float, most: float, unit: str, times: float = SEVERAL) -> None:
    """Raise InputError if a speed exceeds `times` its limit: its unit is probably ° or mm."""
    if size > times * most:
        other, ratio = ('degrees', math.pi / 180.0) if unit == 'rad/s' else ('millimetres', 1e-3)
        hint = f' ({other}? Then it is {size * ratio:.3g} {unit})' if size * ratio <= most else ''
        raise InputError(f'{what} of {size:.3g} {unit} is more than {times:g} times the limit, '
                         f'{most:.3g} {unit}{hint}: give at most {times * most:.3g} {unit}')


def require_turn(turn: Array) -> None:
    """Raise InputError for a rotation vector (3,) of more than half a turn, likely in degrees."""
    with np.errstate(over='ignore'):
        angle = float(np.linalg.norm(turn))
    if angle > HALF_TURN:
        hint = f' (degrees? Then it is {math.radians(angle):.3g} rad)' if angle <= 720.0 else ''
        raise InputError(f'turn of {angle:.4g} rad is more than half a turn{hint}: give at most '
                         f'{HALF_TURN:g} rad')


def require_seconds(duration: float, way: Array) -> None:
    """Raise InputError for LONG motions that are SLOW; `way` has lengths or angles [m, rad]."""
    if duration > LONG and (way < SLOW * duration).all():
        raise InputError(
            f'duration of {duration:g} s: longer than {LONG:g} s, and slower than {SLOW:g} m/s '
            f'and {SLOW:g} rad/s on average (milliseconds? Then it is {duration / 1e3:g} s): give '
            f'at most {max(LONG, *(way / SLOW)):.4g} s; a speed override slows motions further')


def duration_text(duration: float, present: Target, goal: Array, limits: TargetLimits) -> str:
    """Return a text if a motion from `present` to goal (4, 4) takes longer than `duration` [s]."""
    base, x = PoseGoal(goal), difference(Target(goal), present)
    if not limits.smooth or not x.any():
        return ''
    bounds = np.array([np.minimum(limits.box[0], present.pose[:3, 3]),
                       np.maximum(limits.box[1], present.pose[:3, 3])])
    offset, _ = joining_offset(base, x, limits, bounds, 0.0, duration)
    if offset is None or offset.duration <= duration * (1.0 + SAME):
        return ''
    angle, way = np.linalg.norm(x[0].reshape(2, 3), axis=1).tolist()
    way, unit = (way, 'm/s') if way > 0.0 else (angle, 'rad/s')
    return (f'{duration:.3g} s for the motion, a mean speed of {way / duration:.3g} {unit}, is '
            f'too short for the limits of the set-point: {offset.duration:.3g} s is used, a mean '
            f'speed of {way / offset.duration:.3g} {unit}')


def joint_duration_text(duration: float | None, found: float, override: float) -> str:
    """Return a text if a motion of the joints takes `found` [s], longer than given; else ''."""
    if duration is None or not override or (
            found * override / FULL_SPEED <= (1.0 + SAME) * duration):
        return ''
    return (f'duration {duration:g} s is too short for the limits of the joints: the motion takes '
            f'{found:.3g} s')


def bounded_stiffness(spring: Stiffness, mobility: Array, axes: Array, period: float
                      ) -> tuple[Stiffness, str]:
    """Return a stiffness that the loop can use unreduced, and a text if it was reduced."""
    # mobility (6, 6): Λ⁻¹ of the link in base axes; axes (3, 3): rotation of the task's frame in
    # the base frame; period of the states [s]. InputError for more than MANY_STIFF times the
    # usable stiffness: likely in another unit.
    if not period > 0.0:
        return spring, ''
    ratio = float(np.min(spring.damping_ratio))
    fastest = largest_natural_frequency(ratio, period, DELAY) ** 2
    T = np.kron(np.eye(2), axes)
    W, given = T.T @ mobility @ T, spring.stiffness

    def share(most: float) -> Array:
        return np.minimum(given, most * fastest / np.diag(W))

    def excess(stiffness: Array) -> float:
        root = np.sqrt(stiffness)
        return float(np.linalg.eigvalsh(root[:, None] * W * root)[-1]) / fastest

    if excess(given) <= 1.0:
        return spring, ''
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(share(middle)) <= 1.0 else (low, middle)
    used = share(low)
    # a high damping ratio, with which the loop can use less, does not make it one in another unit
    many = MANY_STIFF * max(1.0, largest_natural_frequency(1.0, period, DELAY) ** 2 / fastest)
    if (given > many * used).any():
        raise InputError(f'stiffness {given.tolist()} is more than {many:.3g} times the '
                         f'largest in this posture, {[float(f"{k:.3g}") for k in used]}: give '
                         'less, in N·m/rad and N/m')
    return replace(spring, stiffness=used), (
        f'stiffness {given.tolist()} is too high for joint states every {1e3 * period:.3g} ms: '
        f'{[float(f"{k:.4g}") for k in used]} is used, the largest in this posture')
