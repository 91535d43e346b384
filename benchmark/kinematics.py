# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Inverse kinematics: share of reachable poses that are solved, and time, beside other solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
import pinocchio as pin
from scipy.spatial.transform import Rotation

from contenders import MuJoCo
from osc_ros import inverse_kinematics, Robot, shipped_urdf
from osc_ros.dynamics.inverse_kinematics import SOLUTIONS

Array = NDArray[np.float64]
Solve = Callable[[Array, Array], Array | None]  # pose (4, 4) and start (n,); posture (n,), if any

ARMS = {'panda': ('panda_link0', 'panda_hand_tcp'), 'ur5e': ('base_link', 'tool0')}
POSES, FEWER = 1_000, 100  # of each arm; for solvers that take more than a millisecond
NEAR_ENOUGH = 1e-4  # largest error of a solution [rad, m]
STEPS, PERIOD = 500, 0.1  # of a solver of velocities; time that a step stands for [s]
TRAC_TIME = 0.005  # TRAC-IK's usual limit of time [s]
SOLVER, DAMPING = 'daqp', 0.1  # of the problems of pink and mink


@dataclass(frozen=True)
class Solved:
    """
    A solver's result for the poses of an arm.

    `share` is that of the poses with a solution, `median` and `p99` are times [s]; `largest` is
    the largest error of a solution [rad, m].

    """

    arm: str
    solver: str
    poses: int
    share: float
    median: float
    p99: float
    largest: float


def section() -> list[Solved]:
    """Return a row for each arm and installed solver."""
    return [row for arm in ARMS for row in _of_arm(arm)]


def _of_arm(arm: str) -> list[Solved]:
    base, tip = ARMS[arm]
    text = shipped_urdf(arm).read_text(encoding='utf-8')
    robot, model = Robot.from_urdf(text, base, tip), pin.buildModelFromXML(text)
    rest = [i for i, name in enumerate(model.names) if i and name not in robot.joint_names]
    model = pin.buildReducedModel(model, rest, pin.neutral(model))
    data, frame = model.createData(), model.getFrameId(tip)

    def pose(q: Array) -> Array:
        pin.framesForwardKinematics(model, data, q)
        return np.array(data.oMf[frame].homogeneous)

    solvers: dict[str, tuple[Solve, int]] = {
        'osc_ros, first solution': (_ours(robot, 1), POSES),
        'osc_ros, all solutions': (_ours(robot), POSES)}
    if find_spec('pytracik'):
        solvers['TRAC-IK (pytracik)'] = _trac_ik(text, base, tip), POSES
    if find_spec('pink'):
        solvers['pink'] = _pink(model, tip), FEWER
    if find_spec('mink'):
        solvers['mink'] = _mink(text, tip, robot), FEWER
    low, high = robot.position_limits.T
    return [_row(arm, name, solve, count, pose, (low, high))
            for name, (solve, count) in solvers.items()]


def _row(arm: str, name: str, solve: Solve, count: int, pose: Callable[[Array], Array],
         limits: tuple[Array, Array]) -> Solved:
    rng, times, errors = np.random.default_rng(3), [], []
    low, high = limits
    for _ in range(count):
        goal, start = pose(rng.uniform(low, high)), rng.uniform(low, high)
        began = perf_counter()
        q = solve(goal, start)
        times.append(perf_counter() - began)
        if q is not None and (low - 1e-9 <= q).all() and (q <= high + 1e-9).all():
            errors.append(_error(pose(q), goal))
    solved = [one for one in errors if one < NEAR_ENOUGH]
    median, p99 = np.quantile(times, [0.5, 0.99])
    return Solved(arm, name, count, len(solved) / count, float(median), float(p99),
                  max(solved, default=np.nan))


def _error(found: Array, goal: Array) -> float:
    turn = Rotation.from_matrix(goal[:3, :3] @ found[:3, :3].T).magnitude()
    return float(max(turn, np.linalg.norm(goal[:3, 3] - found[:3, 3])))


def _ours(robot: Robot, most: int = SOLUTIONS) -> Solve:
    def solve(goal: Array, start: Array) -> Array | None:
        found = inverse_kinematics(robot, goal, start, most=most)
        return found[0].q if found else None

    solve(np.eye(4), np.zeros(robot.n))  # makes the table
    return solve


def _trac_ik(text: str, base: str, tip: str) -> Solve:
    import pytracik
    solver = pytracik.TRAC_IK(base, tip, text, TRAC_TIME, 1e-5, pytracik.SolveType.Speed)

    def solve(goal: Array, start: Array) -> Array | None:
        found = pytracik.ik(solver, start, *goal[:3, 3],
                            *Rotation.from_matrix(goal[:3, :3]).as_quat())
        return found[1:] if found[0] >= 0.0 else None

    return solve


def _pink(model: pin.Model, tip: str) -> Solve:
    import pink
    task = pink.FrameTask(tip, position_cost=1.0, orientation_cost=1.0, lm_damping=DAMPING)

    def solve(goal: Array, start: Array) -> Array | None:
        configuration = pink.Configuration(model, model.createData(), start)
        task.set_target(pin.SE3(goal))
        for _ in range(STEPS):
            if np.linalg.norm(task.compute_error(configuration)) < 0.1 * NEAR_ENOUGH:
                break
            try:
                v = pink.solve_ik(configuration, [task], PERIOD, solver=SOLVER,
                                  safety_break=False)
            except pink.exceptions.NoSolutionFound:
                return None
            configuration.integrate_inplace(v, PERIOD)
        return np.array(configuration.q)

    return solve


def _mink(text: str, tip: str, robot: Robot) -> Solve:
    import mink
    model = MuJoCo(text, tip).model
    task = mink.FrameTask(tip, 'body', position_cost=1.0, orientation_cost=1.0,
                          lm_damping=DAMPING)
    limits = [mink.ConfigurationLimit(model)]
    places = [model.joint(name).qposadr[0] for name in robot.joint_names]

    def solve(goal: Array, start: Array) -> Array | None:
        q = np.zeros(model.nq)
        q[places] = start
        configuration = mink.Configuration(model, q)
        task.set_target(mink.SE3.from_matrix(goal))
        for _ in range(STEPS):
            if np.linalg.norm(task.compute_error(configuration)) < 0.1 * NEAR_ENOUGH:
                break
            try:
                v = mink.solve_ik(configuration, [task], PERIOD, SOLVER, limits=limits)
            except mink.exceptions.NoSolutionFound:
                return None
            configuration.integrate_inplace(v, PERIOD)
        return np.array(configuration.q[places])

    return solve


def page(rows: list[Solved]) -> list[str]:
    """Return the section."""
    return ['## Inverse kinematics', '',
            'Poses of random postures within the joint limits; each search begins at another '
            f'random posture. A pose is solved if the error is less than {NEAR_ENOUGH:g} rad and '
            'm, within the limits, judged by Pinocchio. osc_ros looks for all solutions. TRAC-IK '
            f'has {1e3 * TRAC_TIME:g} ms (its default), and tries again from random postures. '
            f'pink and mink make up to {STEPS} steps from the start; they are made for '
            'velocities, and do not begin again.', '',
            '| arm | solver | poses | solved | median ms | p99 ms | largest error |',
            '|---|---|---:|---:|---:|---:|---:|',
            *(f'| {row.arm} | {row.solver} | {row.poses:,} | {row.share:.2%} | '
              f'{1e3 * row.median:.3f} | {1e3 * row.p99:.2f} | {row.largest:.0e} |'
              for row in rows), '']
