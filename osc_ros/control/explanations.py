# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What may be wrong with a model whose gravity torques are not the efforts of an arm at rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from osc_ros.dynamics.kinematics import Placement, placement
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

REACH = 0.25  # largest distance of a payload's centre of mass from the tip, per length of the arm
DIRECTIONS = 2000  # of gravity, tried at first: 5° apart
ROUNDS, TRIED = 16, 100  # of the refinement: rounds, and directions in each


def disorders(robot: Robot, q: Array, efforts: Array, weight: Array, bound: Array
               ) -> Iterator[str]:
    """Yield the wrong signs and orders of joints that would explain the efforts."""
    names = robot.joint_names
    as_is, turned = np.abs(efforts - weight) <= bound, np.abs(efforts + weight) <= bound
    reversed_ = ~as_is.all(axis=0) & turned.all(axis=0)
    if (as_is.all(axis=0) | reversed_).all():
        yield (f'the efforts of {_quoted(names, np.flatnonzero(reversed_).tolist())} have another '
               'sign')
    signs = -2.0 * np.eye(robot.n) + 1.0
    for i, sign in enumerate((*signs, np.full(robot.n, -1.0))):
        if _possible(robot, sign * q) and fits(efforts, sign * weights(robot, sign * q), bound):
            which = _quoted(names, range(robot.n) if i == robot.n else [i])
            yield f'{which} turn{"s" if i < robot.n else ""} the other way'
    for what, order in _orders(names):
        if fits(efforts[:, order], weight, bound[order]):
            yield f'the efforts of {what}'
        if _possible(robot, q[:, order]) and fits(
                efforts[:, order], weights(robot, q[:, order]), bound[order]):
            yield what


def _orders(names: tuple[str, ...]) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield possible wrong orders of the joints, with the indices that correct them."""
    n = len(names)
    own = np.arange(n)
    for i in range(n):
        for k in range(i + 1, n):
            order = own.copy()
            order[[i, k]] = k, i
            yield f'{_quoted(names, (i, k))} are swapped', order
    if n > 2:
        yield 'all joints are in the opposite order', own[::-1].copy()
        for step in (1, -1):
            yield 'all joints are shifted by one', np.roll(own, step)


def wrong_mass(robot: Robot, q: Array, efforts: Array, weight: Array, bound: Array
               ) -> tuple[str, bool]:
    """
    Return a text that names a mass whose error alone would explain the efforts, and its certainty.

    The text is empty if there is none. A mass at a tip, or in one body, that the model lacks is
    certain, and a payload of the model that is not there. Efforts that are too small, or all by
    one factor, may be in another unit.

    """
    missing = efforts - weight
    for tip in robot.tips:
        mass = missing_mass(robot, tip, q, missing, bound)
        if mass:
            return (f'at {place(robot, tip)} the arm carries {more(0.5 * sum(mass))} than the '
                    f'controller is told (between {more(mass[0])} and {more(mass[1])})',
                    is_load(robot, mass))
    for body, joint in enumerate(robot.joints):
        own, centre = robot.inertia[body, 5, 5], robot.inertia[body, [2, 0, 1], [4, 5, 3]]
        if own > 0.0:
            centre = centre / own
        unit = _unit_loads(robot, q, body) @ np.array([1.0, *centre])
        between = _factor(unit, missing, bound, -own)
        if between:
            return (f"the body that joint '{joint}' moves has {more(0.5 * sum(between))} than "
                    f'the controller is told (between {more(between[0])} and '
                    f'{more(between[1])})', sum(between) > 0.0)
    between = _factor(weight, missing, bound, -0.9)
    if between:
        return (f'all masses, or all efforts, are {1.0 + 0.5 * sum(between):.2f} times '
                'those of the model', False)
    return '', False


def turned_gravity(robot: Robot, q: Array, efforts: Array, bound: Array) -> Array | None:
    """
    Return gravity (3,) of the same size, in the direction nearest to the model's, that explains.

    Directions are tried; None if none of them fits, or if the arm is without gravity [m/s²].

    """
    size = float(np.linalg.norm(robot.gravity))
    if size == 0.0:
        return None
    unit = np.stack([weights(robot.with_gravity(size * axis), q) / bound for axis in np.eye(3)])
    scaled, own = (efforts / bound).ravel(), robot.gravity / size
    unit, rng, best, spread = unit.reshape(3, -1), np.random.default_rng(0), own, np.inf
    for k in range(ROUNDS + 1):
        tried = rng.normal(size=(TRIED if k else DIRECTIONS, 3))
        tried = np.vstack([best, tried if spread == np.inf else best + spread * tried])
        tried /= np.linalg.norm(tried, axis=1)[:, None]
        worst = np.abs(tried @ unit - scaled).max(axis=1)
        # below 3 the angle decides among directions that fit; the others follow
        cost = np.where(worst <= 1.0, 1.0 - tried @ own, 3.0 + worst)
        best, spread = tried[np.argmin(cost)], 0.1 if spread == np.inf else 0.7 * spread
    return size * best if cost.min() < 3.0 else None


def is_load(robot: Robot, mass: tuple[float, float]) -> bool:
    """Whether a missing mass is a payload: more, or at most as much less as the model has."""
    return mass[1] > -robot.payload_mass


def more(mass: float) -> str:
    """Return a difference of masses in words."""
    return f'{abs(mass):.2f} kg ' + ('more' if mass >= 0.0 else 'less')


def place(robot: Robot, tip: str) -> str:
    return 'the tip' if len(robot.tips) == 1 else f"'{tip}'"


def missing_mass(robot: Robot, tip: str, q: Array, missing: Array, bound: Array
                  ) -> tuple[float, float] | None:
    """
    Interval [kg] of a mass near a tip that explains missing efforts; None if there is none.

    The centre of this mass may be up to REACH times the length of the arm away from the tip, along
    each axis.

    """
    body, T_body_tip = robot.frames[tip]
    at_body = _unit_loads(robot, q, body)
    # maps [m, m c] with c in the tip's frame to [m, m c] with c in the body's frame
    to_body = np.eye(4)
    to_body[1:, 0], to_body[1:, 1:] = T_body_tip[:3, 3], T_body_tip[:3, :3]
    unit = (at_body @ to_body).reshape(-1, 4)
    reach = REACH * float(np.linalg.norm(robot.T_parent_body[:, :3, 3], axis=1).sum()
                          + np.linalg.norm(T_body_tip[:3, 3]))
    limit = np.broadcast_to(bound, missing.shape).ravel()
    rows, ends = np.vstack([unit, -unit]), np.concatenate([missing.ravel() + limit,
                                                           limit - missing.ravel()])
    found = []
    for sign in (1.0, -1.0):
        # |m c| is at most the reach times |m|, along each axis
        box = np.array([[-sign * reach, *(side * axis)] for axis in np.eye(3)
                        for side in (1.0, -1.0)])
        lightest = (0.0, None) if sign > 0.0 else (-robot.inertia[body, 5, 5], 0.0)
        for least in (1.0, -1.0):
            solved = linprog([least, 0.0, 0.0, 0.0], np.vstack([rows, box]),
                             np.concatenate([ends, np.zeros(6)]),
                             bounds=[lightest, *[(None, None)] * 3])
            if solved.status == 0:
                found.append(float(solved.x[0]))
    return (min(found), max(found)) if found else None


def _factor(unit: Array, missing: Array, bound: Array, least: float
            ) -> tuple[float, float] | None:
    """Interval of s ≥ `least` for which s·unit is `missing` to within the bound, or None."""
    low, high = least, np.inf
    limit = np.broadcast_to(bound, missing.shape)
    if (np.abs(missing) > limit)[unit == 0.0].any():
        return None
    at = unit != 0.0
    ends = np.stack([missing[at] - limit[at], missing[at] + limit[at]]) / unit[at]
    low, high = max(low, ends.min(axis=0).max()), min(high, ends.max(axis=0).min())
    return (float(low), float(high)) if low <= high else None


def weights(robot: Robot, q: Array) -> Array:
    """Torques (k, n) that hold the robot at rest at configurations q (k, n)."""
    first_moments = np.column_stack([robot.inertia[:, 5, 5],
                                     robot.inertia[:, [2, 0, 1], [4, 5, 3]]])
    found = np.zeros(q.shape)
    for torques, values in zip(found, q, strict=True):
        at = placement(robot, values)
        for body, moments in enumerate(first_moments):
            torques += _body_load(robot, at, body) @ moments
    return found


def _unit_loads(robot: Robot, q: Array, body: int) -> Array:
    """
    Derivatives (k, n, 4) of the gravity torques at q (k, n) by parameters of one body.

    The parameters are the mass [kg] and the first moment [kg m] along x, y, z of the body's frame.

    """
    return np.array([_body_load(robot, placement(robot, values), body) for values in q])


def _body_load(robot: Robot, at: Placement, body: int) -> Array:
    """Derivatives (n, 4) of the gravity torques by mass and first moment of a body."""
    found, i = np.zeros((robot.n, 4)), body
    while i >= 0:
        z = at.R[i, :, 2]
        if robot.prismatic[i]:
            found[i, 0] = -z @ robot.gravity
        else:
            turned = np.cross(z, robot.gravity)
            found[i] = turned @ (at.p[body] - at.p[i]), *(turned @ at.R[body])
        i = int(robot.parent[i])
    return found


def fits(efforts: Array, expected: Array, bound: Array) -> bool:
    """Whether all efforts differ from the expected ones by at most the bound."""
    return bool((np.abs(efforts - expected) <= bound).all())


def _possible(robot: Robot, q: Array) -> bool:
    """Whether all positions are within the joint limits."""
    lower, upper = robot.position_limits.T
    return bool(((q >= lower) & (q <= upper)).all())


def _quoted(names: tuple[str, ...], which: Iterable[int]) -> str:
    return ', '.join(f"'{names[i]}'" for i in which)
