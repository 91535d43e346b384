# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Checks that an arm can hold itself and its payload against gravity where it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.limits.load import Weight
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

HOLDING = 0.9  # share of the effort limit available for holding, beside motion and friction
LARGEST_GRAVITY = 1e3  # largest accepted component of gravity [m/s²]
CHANGE = 7.0  # largest change of gravity at once while the controller is active [m/s²]
# Less gravity would mean that the base falls, and by way of 0 gravity could be turned over [m/s²].
LEAST_GRAVITY = 4.9


def require_gravity(gravity: Array) -> None:
    """Raise if a component of gravity (3,) is larger than LARGEST_GRAVITY [m/s²]."""
    if (np.abs(gravity) > LARGEST_GRAVITY).any():
        raise InputError(f'gravity {gravity.tolist()} m/s²: must be at most '
                         f'{LARGEST_GRAVITY:g} m/s² along each axis (9.81 on Earth)')


def require_gradual(before: Array, gravity: Array) -> None:
    """Raise if gravity (3,) is far from that in force, `before` (3,), or becomes too small."""
    change, size = float(np.linalg.norm(gravity - before)), float(np.linalg.norm(gravity))
    if change <= CHANGE and size >= min(LEAST_GRAVITY, float(np.linalg.norm(before))):
        return
    raise InputError(
        f'gravity {np.round(gravity, 3).tolist()} of {size:.3g} m/s² differs by {change:.3g} m/s² '
        f'from {np.round(before, 3).tolist()}, which is in force: while the controller is active, '
        f'it must differ by at most {CHANGE:g} m/s², and be at least {LEAST_GRAVITY:g} m/s². '
        'Gravity is the negated reading of an accelerometer; if the base has been turned, '
        'deactivate first')


def require_holding(robot: Robot, gravity: Array, q: Array, effort: Array,
                    before: tuple[Robot, Array] | None = None,
                    weight: Weight | None = None) -> None:
    """Raise if holding the arm at q (n,) takes more than HOLDING of an effort limit [N·m, N]."""
    # `effort` (n,) may be infinite. A joint that needs no more torque than with `before`, model
    # and gravity in force, is accepted. `weight`: the robot's, if the caller has it. The largest
    # payload or gravity that the error names is exact, because the torque is affine in it.
    most = HOLDING * effort
    tau = _load(weight or Weight(robot), q, gravity)
    over = np.abs(tau) > most
    if not over.any():
        return
    if before is not None:
        over &= np.abs(tau) > np.abs(_load(Weight(before[0]), q, before[1])) * (1.0 + 1e-9)
        if not over.any():
            return
    i = int(np.argmax(np.where(over, np.abs(tau) / most, 0.0)))
    mass, unit = robot.payload_mass, effort_unit(robot, i)
    where = (f"joint '{robot.joint_names[i]}' would take {abs(tau[i]):.4g} {unit} to hold the arm "
             f'where it is, and may take {most[i]:.4g} {unit}, {HOLDING:.0%} of its effort limit '
             f'of {effort[i]:g} {unit}')
    turned = before is not None and not np.array_equal(gravity, before[1])
    if mass > 0.0 and not turned:
        alone = _load(Weight(robot.without_payload()), q, gravity)
        share = largest_share(alone, tau - alone, most)
        raise InputError(f'payload of {mass:g} kg: {where}: must be at most '
                         f'{_down(share * mass)} kg')
    share = largest_share(np.zeros_like(tau), tau, most)
    size = float(np.linalg.norm(gravity))
    raise InputError(f'gravity of {size:g} m/s² along {np.round(gravity / size, 3).tolist()}: '
                     f'{where}: must be at most {_down(share * size)} m/s²')


def require_strength(robot: Robot, gravity: Array, q: Array, effort: Array) -> None:
    """Raise if a joint needs more than its effort limit [N·m, N] to hold the arm at q (n,)."""
    tau = np.abs(_load(Weight(robot), q, gravity))
    for i in np.flatnonzero(tau > effort).tolist():
        unit = effort_unit(robot, i)
        raise InputError(f"joint '{robot.joint_names[i]}' would take {tau[i]:.4g} {unit} to hold "
                         f'the arm where it is, and may take {effort[i]:g} {unit}: the arm would '
                         'fall. Raise its effort limit (of the robot description, or '
                         "'limits.effort'), or move the arm to where it needs less")


def require_positions(robot: Robot, limits: Array, q: Array) -> None:
    """Raise if a joint of q (n,) is outside of its limits by more than half of their range."""
    # `limits` (n, 2). The unit or the zero of such a position is wrong; torques would be, too.
    lower, upper = limits.T
    away = np.maximum(lower - q, q - upper)
    for i in np.flatnonzero(away > 0.5 * (upper - lower)).tolist():
        unit = 'm' if robot.prismatic[i] else 'rad'
        raise InputError(
            f"joint '{robot.joint_names[i]}' is reported at {q[i]:.4g} {unit}, far outside of its "
            f'limits {lower[i]:.4g} to {upper[i]:.4g}: give positions in {unit} within or '
            f'near the limits' + ('' if robot.prismatic[i] else ' (are these degrees?)'))


def require_effort(robot: Robot, q: Array, effort: Array, before: Array) -> None:
    """Raise if limits (n,) are lowered so far that the robot cannot hold itself at q (n,)."""
    # `effort`: new limits, `before`: those in force [N·m, N]; a limit that is not lowered is
    # accepted. The error names the joint, its torque, and the least accepted limit.
    lowered = effort < before
    if not lowered.any():
        return
    tau = np.abs(_load(Weight(robot), q, robot.gravity))
    for i in np.flatnonzero(lowered & (tau > HOLDING * effort)).tolist():
        unit = effort_unit(robot, i)
        raise InputError(f"parameter 'limits.effort': {effort[i]:g} {unit} for "
                         f"'{robot.joint_names[i]}', which takes {tau[i]:.4g} {unit} to hold the "
                         f'arm where it is: must be at least {tau[i] / HOLDING:.4g} {unit}')


def effort_unit(robot: Robot, i: int) -> str:
    """Unit of the effort of joint i."""
    return 'N' if robot.prismatic[i] else 'N m'


def _load(weight: Weight, q: Array, gravity: Array) -> Array:
    return weight.torque(np.array(q, dtype=np.float64), np.array(gravity, dtype=np.float64))


def largest_share(base: Array, more: Array, most: Array) -> float:
    """Largest s in [0, 1] with |base + s · more| ≤ most in every component; 0 if there is none."""
    with np.errstate(divide='ignore', invalid='ignore'):
        room = np.where(more == 0.0, np.inf, (np.copysign(most, more) - base) / more)
    return float(np.clip(room.min(initial=1.0), 0.0, 1.0))


def _down(x: float) -> str:
    """Format a number with three digits, rounded down."""
    if x <= 0.0:
        return '0'
    unit = 10.0 ** (np.floor(np.log10(x)) - 2)
    return f'{np.floor(x / unit * (1.0 + 1e-12)) * unit:.4g}'
