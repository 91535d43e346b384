# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Postures at which a link has a given pose: inverse kinematics within the joint limits.

Levenberg-Marquardt descents begin at several postures: first at a given one, then at those of a
table whose poses are nearest to the wanted one. A joint at a limit that the descent would push
beyond it is left out of the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import inlined, kernel, part, released, view
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.algebra.kinematics import bodies_to, link_frame
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    compose,
    cross,
    rotate,
    rotation_of,
    rotation_vector,
    sub,
    transpose,
)
from osc_ros.dynamics.algebra.task_inertia import solve_in_place
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.model.validation import are_rigid, why_not_rigid

Array = NDArray[np.float64]

TABLE = 2048  # postures of the table
SEARCHED, MOST = 64, 1024  # descents if a posture was found, and if none was
SOLUTIONS = 16  # an arm with six joints has no more
STEPS = 100  # of a descent
LONGEST = 0.6  # largest change of an angle in a step [rad]
SLOW_AFTER = 25  # steps after which a descent ends that reduces the error by less than 5 % a step
TURN = 2.0 * np.pi
ACCURACY = 1e-9  # of a solution: the error, see `_put_error` [m]
APART = 0.05  # two solutions differ by at least this in one joint, beside turns [rad, m]
# weight of the damping relative to the squared error: first, factors, smallest
DAMPING, MORE, LESS, LEAST = 1e-2, 8.0, 0.2, 1e-7


@dataclass(frozen=True, eq=False)
class Solution:
    """
    A posture at which a link has the wanted pose, found by `inverse_kinematics`.

    Attributes
    ----------
    q : (n,)
        Positions of all joints of the robot [rad, m].
    margin : float
        Smallest distance of a joint of the path from its limits, as a share of half its range: 1
        in the middle, 0 at a limit. Joints without limits do not count.
    manipulability : float
        √det(J Jᵀ) of the link's Jacobian J (6, n), 0 at a singularity [mixed units].

    """

    q: Array
    margin: float
    manipulability: float


def inverse_kinematics(robot: Robot, pose: ArrayLike, near: ArrayLike | None = None,
                       link: str | None = None, most: int = SOLUTIONS) -> list[Solution]:
    """
    Return postures at which a link has a pose, within the joint limits.

    The solutions that were found are sorted by their distance from `near`; an empty list if none
    was found. An arm with more than six joints has a continuum of solutions, of which these are
    samples. Joints that do not move the link keep their positions.

    Parameters
    ----------
    robot : Robot
        Its joints between base and link are revolute or prismatic.
    pose : (4, 4)
        Pose of the link in the base frame [m].
    near : (n,), optional
        Posture at which the search begins [rad, m]; default: the middle of the ranges.
    link : str, optional
        Default: the first tip.
    most : int
        Number of solutions at which the search ends; default: enough for all of an arm with six
        joints. With 1, it ends at the first one, which takes a third of the time or less.

    Raises
    ------
    InputError
        A pose that is no rotation and position, a posture of another shape, numbers that are not
        finite, an unknown link, a spherical joint on the way to it, or `most` below 1.

    """
    solver = _solver(robot, robot.tip if link is None else link)
    goal = finite_array('pose', pose, (4, 4))
    if not are_rigid(goal[None])[0]:
        raise InputError(f'pose {why_not_rigid(goal)}')
    here = solver.middle if near is None else finite_array('near', near, (robot.n,))
    if most < 1:
        raise InputError(f'most is {most}: must be 1 or more')
    return solver.solve(goal, here, most)


class _Path(NamedTuple):
    """The k joints from the base to a link."""

    # Poses of each joint's frame in that of the joint before it, at position 0, and the pose of
    # the link in the last one (k + 1, 4, 4).
    frames: Array
    prismatic: NDArray[np.bool_]  # (k,)
    limits: Array  # ranges (k, 2) [rad, m]
    length: Array  # an angle times this length counts as an error in position (1,) [m]


@inlined
def _put_axes(path, q, axes):
    """Write axis and origin (k, 6) of each joint at q (k,); return the pose (R, p) of the link."""
    R, p = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
    for i in range(len(path.frames)):
        T = path.frames[i]
        p = add(p, rotate(R, (T[0, 3], T[1, 3], T[2, 3])))
        R = compose(R, rotation_of(T))
        if i < len(q):
            axis = (R[2], R[5], R[8])
            if path.prismatic[i]:
                p = along(q[i], axis, p)
            else:
                c, s = np.cos(q[i]), np.sin(q[i])
                R = compose(R, (c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0))
            for j in range(3):
                axes[i, j], axes[i, 3 + j] = axis[j], p[j]
    return R, p


@inlined
def _put_error(path, goal, q, axes, error):
    """Write the error (6,) of the pose, its angle times `length`; return its square [m²]."""
    R, p = _put_axes(path, q, axes)
    turn = rotation_vector(compose(rotation_of(goal), transpose(R)))
    total = 0.0
    for i in range(3):
        error[i], error[3 + i] = path.length[0] * turn[i], goal[i, 3] - p[i]
        total += error[i] * error[i] + error[3 + i] * error[3 + i]
    return total


@inlined
def _put_jacobian(path, axes, p, J):
    """Write the Jacobian (6, k) of a point p of the link, its angular rows times `length`."""
    for i in range(len(axes)):
        axis = (axes[i, 0], axes[i, 1], axes[i, 2])
        turns = 0.0 if path.prismatic[i] else path.length[0]
        arm = sub(p, (axes[i, 3], axes[i, 4], axes[i, 5]))
        moves = axis if path.prismatic[i] else cross(axis, arm)
        for j in range(3):
            J[j, i], J[3 + j, i] = turns * axis[j], moves[j]


@inlined
def _put_step(path, q, J, error, damping, scratch):
    """Write a damped step (k,) to scratch[42:], of the joints that may move; q (k,) is kept."""
    A, x, step = scratch[:36], scratch[36:42], scratch[42:]
    k = len(q)
    for i in range(k):
        push = 0.0
        for j in range(6):
            push += J[j, i] * error[j]
        low, high = path.limits[i]
        step[i] = 1.0 if push > 0.0 and q[i] < high or push < 0.0 and q[i] > low else 0.0
    for r in range(6):
        x[r] = error[r]
        for c in range(r + 1):
            total = damping if r == c else 0.0
            for i in range(k):
                total += step[i] * J[r, i] * J[c, i]
            A[6 * r + c] = A[6 * c + r] = total
    solve_in_place(A, x, 6)
    largest = LONGEST
    for i in range(k):
        total = 0.0
        for r in range(6):
            total += J[r, i] * x[r]
        step[i] *= total
        if not path.prismatic[i]:
            largest = max(largest, abs(step[i]))
    for i in range(k):
        step[i] *= LONGEST / largest


@part
def _descend(path, goal, q, memory):
    """Move q (k,) to a posture with the link's pose; return whether it was reached."""
    k = len(q)
    axes, new_axes = view(memory, 0, (k, 6)), view(memory, 6 * k, (k, 6))
    J, at = view(memory, 12 * k, (6, k)), 18 * k
    error, new_error = view(memory, at, (6,)), view(memory, at + 6, (6,))
    tried, scratch = view(memory, at + 12, (k,)), view(memory, at + 12 + k, (42 + k,))
    step = scratch[42:]
    weight, square = DAMPING, _put_error(path, goal, q, axes, error)
    for count in range(STEPS):
        if square < ACCURACY * ACCURACY:
            return True
        _put_jacobian(path, axes, (goal[0, 3] - error[3], goal[1, 3] - error[4],
                                   goal[2, 3] - error[5]), J)
        found = np.inf
        for _ in range(8):
            _put_step(path, q, J, error, weight * square, scratch)
            for i in range(k):
                tried[i] = min(max(q[i] + step[i], path.limits[i, 0]), path.limits[i, 1])
            found = _put_error(path, goal, tried, new_axes, new_error)
            if found < square:
                break
            weight = max(MORE * weight, DAMPING)
        if not found < square or count > SLOW_AFTER and found > 0.9 * square:
            return False
        weight, square = max(LESS * weight, LEAST), found
        for i in range(k):
            q[i] = tried[i]
        for i in range(6):
            error[i] = new_error[i]
        for i in range(k):
            for j in range(6):
                axes[i, j] = new_axes[i, j]
    return False


@inlined
def _is_new(path, found, count, q):
    """Whether q (k,) differs from the first `count` rows of `found` by more than whole turns."""
    for i in range(count):
        largest = 0.0
        for j in range(len(q)):
            away = found[i, j] - q[j]
            turns = 0.0 if path.prismatic[j] else np.rint(away / TURN)
            largest = max(largest, abs(away - TURN * turns))
        if largest < APART:
            return False
    return True


@inlined
def _turned(angle, near, limits):
    """Return the angle, turned by whole turns to the one nearest to `near` within the limits."""
    fewest, most = np.ceil((limits[0] - angle) / TURN), np.floor((limits[1] - angle) / TURN)
    return angle + TURN * min(max(np.rint((near - angle) / TURN), fewest), most)


@released
def _search(path, goal, starts, near, memory, found):
    """Write the postures that descents from `starts` (m, k) reach; return their number."""
    # Each is moved by whole turns to the one nearest to `near` (k,). If none of the first SEARCHED
    # descents reaches one, the others follow until one does.
    count, k = 0, len(near)
    for s in range(len(starts)):
        if count == len(found) or s >= SEARCHED and count > 0:
            break
        q = found[count]
        for i in range(k):
            q[i] = starts[s, i]
        if _descend(path, goal, q, memory):
            for i in range(k):
                if not path.prismatic[i]:
                    q[i] = _turned(q[i], near[i], path.limits[i])
            if _is_new(path, found, count, q):
                count += 1
    return count


@kernel
def _put_jacobian_at(path, q, axes, J):
    _, p = _put_axes(path, q, axes)
    _put_jacobian(path, axes, p, J)


@released
def _put_poses(path, postures, axes, poses):
    """Write rotation and position (m, 12) of the link at postures (m, k)."""
    for s in range(len(postures)):
        R, p = _put_axes(path, postures[s], axes)
        for i in range(9):
            poses[s, i] = R[i]
        for i in range(3):
            poses[s, 9 + i] = p[i]


class _Solver:
    """Finds the postures of one link, by a table of postures and of the link's poses at them."""

    def __init__(self, robot: Robot, link: str) -> None:
        body, T_body_link = link_frame(robot, link)
        bodies = bodies_to(robot, body)
        if robot.spherical[bodies].any():
            raise InputError(f"'{link}' is moved by a spherical joint: joints must be "
                             'revolute or prismatic')
        self._at = robot.v_index[bodies]
        limits = robot.position_limits[self._at]
        ranges = np.where(np.isfinite(limits), limits, [-np.pi, np.pi])
        self._path = _Path(np.array([*robot.T_parent_body[bodies], T_body_link]),
                           np.array(robot.prismatic[bodies]), np.array(limits), np.ones(1))
        from scipy.stats import qmc  # takes a second to import
        k = len(bodies)
        unit = qmc.Sobol(k, seed=0).random(TABLE) if k else np.zeros((0, 0))
        self._table = ranges[:, 0] + unit * (ranges[:, 1] - ranges[:, 0])
        self._poses = np.empty((len(unit), 12))
        _put_poses(self._path, self._table, np.empty((k, 6)), self._poses)
        self._path.length[0] = 0.5 * np.abs(self._poses[:, 9:]).max(initial=1e-3)
        whole = np.where(np.isfinite(robot.position_limits), robot.position_limits, 0.0)
        self.middle = whole.mean(axis=1)
        self._limited = np.isfinite(limits).all(axis=1)

    def solve(self, goal: Array, near: Array, most: int) -> list[Solution]:
        """Return the postures of `inverse_kinematics`."""
        here, found = near[self._at], np.empty((most, len(self._at)))
        length, limits = self._path.length[0], self._path.limits
        weights = np.concatenate([-length ** 2 * goal[:3, :3].ravel(), -goal[:3, 3]])
        away = self._poses @ weights + 0.5 * (self._poses[:, 9:] ** 2).sum(axis=1)
        starts = np.vstack([np.clip(here, limits[:, 0], limits[:, 1]),
                            self._table[np.argsort(away)[:MOST - 1]]])
        # memory of this call: several threads may use the solver
        memory = np.empty(20 * len(here) + 54)
        count = _search(self._path, goal, starts, here, memory, found)
        found = found[:count]
        found = found[np.argsort(np.linalg.norm(found - here, axis=1))]
        return [Solution(*one) for one in zip(
            self._whole(near, found), self._margins(found), self._manipulability(found))]

    def _whole(self, near: Array, found: Array) -> Array:
        """Return the positions (m, n) of all joints, those beside the path as in `near`."""
        q = np.tile(near, (len(found), 1))
        q[:, self._at] = found
        return q

    def _margins(self, found: Array) -> list[float]:
        limits = self._path.limits[self._limited]
        away = np.abs(found[:, self._limited, None] - limits).min(axis=2)
        margins: list[float] = (2.0 * away / np.ptp(limits, axis=1)).min(
            axis=1, initial=1.0).tolist()
        return margins

    def _manipulability(self, found: Array) -> list[float]:
        J = np.empty((len(found), 6, found.shape[1]))
        for q, one in zip(found, J):
            _put_jacobian_at(self._path, q, np.empty((found.shape[1], 6)), one)
        J[:, :3] /= self._path.length[0]
        squares: Array = np.linalg.det(J @ J.transpose(0, 2, 1))
        measures: list[float] = np.sqrt(np.maximum(0.0, squares)).tolist()
        return measures


@lru_cache(maxsize=8)
def _solver(robot: Robot, link: str) -> _Solver:
    return _Solver(robot, link)
