# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Degrees of freedom: joints that a law can drive, and axes of a task that an arm can control."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.algebra.conditioning import scaled_jacobian
from osc_ros.dynamics.algebra.kinematics import LinkAxes, tip_jacobian
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SAMPLES = 200  # number of random joint positions
# Singular values of the scaled Jacobian, relative to the largest. The number of the tip's freedoms
# is the number of values above RANK in most positions; axes are accepted if all exceed FAIR.
RANK, FAIR = 2e-3, 0.02
ROTATIONS, TRANSLATIONS = range(3), range(3, 6)


def require_single_freedoms(robot: Robot) -> None:
    """Raise InputError for a joint that a law cannot drive: spherical, planar, or floating."""
    for joint, freedoms in Counter(robot.joints).items():
        if freedoms > 1 or robot.spherical[robot.joints.index(joint)]:
            raise InputError(f"joint '{joint}' has several freedoms: the law drives revolute, "
                             'continuous and prismatic joints (OperationalSpace takes others)')


@dataclass(frozen=True)
class Freedoms:
    """Controlled axes of a task, [angular; linear], and the link of their frame ('': the base)."""

    controlled: tuple[bool, ...] = (True,) * 6
    frame: str = ''

    @property
    def axes(self) -> tuple[str, ...]:
        """'motion' or 'free' for each axis, as in `Task.axes`."""
        return tuple('motion' if own else 'free' for own in self.controlled)

    @property
    def count(self) -> int:
        """Number of controlled axes."""
        return sum(self.controlled)


class Selection:
    """Selects controlled axes of errors and Jacobians; all joints have one degree of freedom."""

    def __init__(self, robot: Robot, freedoms: Freedoms) -> None:
        self._mask = np.array(freedoms.controlled)
        self._axes = LinkAxes(robot, freedoms.frame) if freedoms.frame else None

    def part(self, q: Array, x: Array) -> Array:
        """Rows (k,) or (k, m) of the controlled axes of x, (6,) or (6, m) in base axes."""
        if self._axes is None:
            return np.asarray(x[self._mask])
        R = self._axes.at(q)[:3, :3]
        return np.asarray(np.concatenate([R.T @ x[:3], R.T @ x[3:]])[self._mask])


def freedoms_of(robot: Robot) -> Freedoms:
    """Return the axes that the arm can control at its tip."""
    # A tip with six degrees of freedom: all axes; with k < 6: the position and k - 3 rotations (on
    # an arm of five joints pitch and roll), or two directions and one more rotation if it cannot
    # control all of the position (a planar arm), and so on. Rotations, and the link in whose axes
    # they are, are compared by the ratio of the singular values (`scaled_jacobian`, smallest
    # to largest) that 90 % of SAMPLES random positions exceed; the highest is chosen.
    rng = np.random.default_rng(0)
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
    states = middle + 0.7 * half * rng.uniform(-1.0, 1.0, size=(SAMPLES, robot.n))
    scaled = np.array([scaled_jacobian(tip_jacobian(robot, q)) for q in states])
    values = np.linalg.svd(scaled, compute_uv=False)
    rank = int(np.sum(np.median(values / values[:, :1], axis=0) > RANK))
    if rank >= 6:
        return Freedoms()
    body, links = robot.frames[robot.tip][0], ['', robot.tip]
    path = {body}
    while body >= 0:
        body = int(robot.parent[body])
        path.add(body)
    links += [link for link, (carrier, _) in robot.frames.items() if carrier in path
              and link != robot.tip and carrier >= 0]
    best, found = 0.0, Freedoms()
    for translations in range(min(3, rank), -1, -1):
        for link in links:
            for chosen in _choices(rank, translations):
                freedoms = Freedoms(tuple(k in chosen for k in range(6)), link)
                score = _score(robot, freedoms, states, scaled)
                if score > 1.05 * best:  # ignores links that are hardly better than an earlier one
                    best, found = score, freedoms
        if best > FAIR:
            break
    return found


def _choices(count: int, translations: int) -> list[tuple[int, ...]]:
    """Return all choices of `count` axes, of which `translations` are translations."""
    if count - translations > 3:
        return []
    return [(*turning, *moving) for turning in combinations(ROTATIONS, count - translations)
            for moving in combinations(TRANSLATIONS, translations)]


def _score(robot: Robot, freedoms: Freedoms, states: Array, scaled: Array) -> float:
    selection = Selection(robot, freedoms)
    values = np.linalg.svd([selection.part(q, J) for q, J in zip(states, scaled)],
                           compute_uv=False)
    return float(np.quantile(values[:, -1] / np.maximum(values[:, 0], np.finfo(float).tiny), 0.1))
