# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Motions of the demonstration: figure of eight, step and turn, scaled to the robot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.compile.compiled import on_demand
from osc_ros.control.setpoint.trajectory import figure_of_eight, Path, PoseGoal
from osc_ros.control.tasks.freedoms import Freedoms, freedoms_of, Selection
from osc_ros.control.tasks.task import Target
from osc_ros.dynamics.algebra.conditioning import conditioning, scaled_jacobian
from osc_ros.dynamics.algebra.kinematics import tip_jacobian
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.tools.check.tracing import Tracer, Usage

Array = NDArray[np.float64]

STEP, TURN, SWING = 0.1, np.radians(30.0), np.radians(10.0)
WIDTH, HEIGHT = 0.3, 0.15
REACH = 0.8  # arms with a shorter reach have smaller motions [m]
# Scales to try, largest first; largest share of the speed and torque limits that the figure of
# eight may use, because the feedback needs the rest.
SCALES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
MOST_USED = 0.9
PERIOD = 4.0  # shortest duration of one eight in a run of 10 s or longer [s]
STARTS, TRIED = 1000, 50  # number of random joint positions; number of the best ones to try

ALL = Freedoms()


@dataclass(frozen=True)
class Phase:
    """One motion of the demonstration, from start to end [s]."""

    name: str
    start: float
    end: float
    motion: PoseGoal | Path


@dataclass(frozen=True)
class Start:
    """Start positions, and the size of the motions from there."""

    q: Array  # (n,) [rad, m]
    scale: float = 1.0  # one of SCALES; 1 is the usual size
    reason: str = ''  # why the scale is less than 1; empty if it is 1


def use_kernels(robot: Robot) -> None:
    """Call all kernels that the other functions use, so that they are compiled."""
    with on_demand():
        tracer = Tracer(robot, freedoms_of(robot))
        path = _eight(robot, tracer.pose(robot.neutral), 0.1, 2.0, 0.5)
        tracer.worst_conditioning(robot.neutral, path.poses[:2])
        tracer.usage(0.5 * (np.clip(robot.position_limits, -1.0, 1.0).sum(axis=1)), path)


def size(robot: Robot) -> float:
    """Return the factor of the size of the motions: the reach of the arm over REACH, at most 1."""
    links = np.linalg.norm(robot.T_parent_body[1:, :3, 3], axis=1).sum()
    reach = links + np.linalg.norm(robot.T_body_tip[:3, 3])
    return float(min(1.0, reach / REACH)) if reach > 0.0 else 1.0


def postures(robot: Robot, freedoms: Freedoms, seed: int = 0) -> list[Array]:
    """Return the best conditioned of random joint positions (n,), the best ones first."""
    random, selection = np.random.default_rng(seed), Selection(robot, freedoms)
    middle, half = _range(robot)
    samples = middle + 0.7 * half * random.uniform(-1.0, 1.0, size=(STARTS, robot.n))
    return sorted(samples, reverse=True, key=lambda q: conditioning(
        selection.part(q, scaled_jacobian(tip_jacobian(robot, q)))))[:TRIED]


def start(tracer: Tracer, duration: float, choices: list[Array], scale: float | None = None
          ) -> Start:
    """Return the first of the postures `choices` from which the motions are possible."""
    # `duration` of the motions [s]. The scale is by default the largest of SCALES at which every
    # joint uses at most the share MOST_USED of its limits of speed and torque. InputError if the
    # arm cannot follow the motions from any of the postures (n,) [rad, m].
    tip, sizes = tracer.robot.tip, [scale] if scale else SCALES
    return _first(tracer, [(size, q) for size in sizes for q in choices], duration,
                  f"no start was found from which '{tip}' can trace the figures: give "
                  "'initial_positions' of osc_simulator in a --config file")


def start_from(tracer: Tracer, q: Array, duration: float) -> Start:
    """Return the start at q (n,), with the largest feasible scale; 1 if none is feasible."""
    try:
        return _first(tracer, [(scale, q) for scale in SCALES], duration, '')
    except InputError:
        return Start(q)


def _first(tracer: Tracer, choices: list[tuple[float, Array]], duration: float, none: str
           ) -> Start:
    """Return the first choice (scale, joint positions) with all joints within their limits."""
    # InputError with the text `none` if there is none.
    reason = ''
    for scale, q in choices:
        use = figure_usage(tracer, q, duration, scale)
        if use is None:
            continue
        if use.most <= MOST_USED:
            return Start(q, scale, '' if scale == 1.0 else reason)
        reason = reason or excess(tracer.robot, use)
    raise InputError(none + (f'; {reason}' if reason else ''))


def figure_usage(tracer: Tracer, q: Array, duration: float, scale: float) -> Usage | None:
    """Return the usage of the joint limits in the figure of eight; None if out of reach."""
    _, use = _figure(tracer, q, duration, scale)
    return None if use is None or _best_shift(tracer, q, tracer.pose(q), scale) is None else use


def excess(robot: Robot, use: Usage) -> str:
    """Return a text on the joint that uses the largest share of its speed or torque limit."""
    for shares, limits, what, unit in ((use.speed, robot.velocity_limits, 'turn at', 'rad/s'),
                                       (use.torque, robot.effort_limits, 'take', 'N m')):
        i = int(np.argmax(shares))
        if shares[i] == use.most:
            return (f"joint '{robot.joint_names[i]}' would {what} {shares[i] * limits[i]:.3g} "
                    f'{unit}, its limit is {limits[i]:.3g} {unit}')
    return ''


def phases(robot: Robot, q: Array, begin: float, duration: float, scale: float = 1.0,
           freedoms: Freedoms = ALL) -> list[Phase]:
    """Return the motions from joint positions q (n,), in the base frame."""
    # `begin` and `duration` [s]; `scale`: size of the motions, see `Start`.
    tracer = Tracer(robot, freedoms)
    T = tracer.pose(q)
    turns, _ = _figure(tracer, q, duration, scale)
    eight = _eight(robot, T, scale, 0.5 * duration, turns, begin)
    shifted = _best_shift(tracer, q, T, scale)
    if shifted is None:
        shifted = T.copy()
        shifted[2, 3] += STEP * scale * size(robot)
    marks = [begin + share * duration for share in (0.0, 0.55, 0.775, 1.0)]
    return [
        Phase('figure of eight', marks[0], float(eight.times[-1]), eight),
        Phase(f'step of {100.0 * STEP * scale * size(robot):.2g} cm', marks[1], marks[2],
              PoseGoal(shifted)),
        Phase(f'turn by {np.degrees(TURN * scale):.2g}°', marks[2], marks[3],
              PoseGoal(_rotated(shifted, scale))),
    ]


def reference(plan: list[Phase], hold: Array) -> Callable[[float], Target]:
    """Return the target of a plan at a time [s]; before it begins, this is `hold` (4, 4)."""
    def target(time: float) -> Target:
        begun = (phase.motion for phase in reversed(plan) if phase.start <= time)
        return next(begun, PoseGoal(hold)).at(time)

    return target


def errors(poses: Array, targets: Array, freedoms: Freedoms, R: Array) -> Array:
    """Return distances [m] and angles [rad], (k, 2), between poses and targets (k, 4, 4)."""
    # By scipy, independently of the controller. Only errors along the controlled axes of
    # `freedoms` count; the columns of R (k, 3, 3) are the axes of its frame, in the base frame.
    turns = Rotation.from_matrix(targets[:, :3, :3] @ poses[:, :3, :3].transpose(0, 2, 1))
    away = np.stack([turns.as_rotvec(), targets[:, :3, 3] - poses[:, :3, 3]], axis=1) @ R
    away *= np.array(freedoms.controlled).reshape(2, 3)
    return np.asarray(np.linalg.norm(away, axis=2)[:, ::-1])


def _range(robot: Robot) -> tuple[Array, Array]:
    """Return the middle and half the width of each joint's position range, cut to -π … π."""
    lower, upper = robot.position_limits.T
    lower, upper = (np.where(np.isfinite(end), end, default)
                    for end, default in ((lower, -np.pi), (upper, np.pi)))
    lower, upper = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)
    return 0.5 * (lower + upper), 0.5 * (upper - lower)


def _figure(tracer: Tracer, q: Array, duration: float, scale: float
            ) -> tuple[float, Usage | None]:
    """Return the number of eights, and their shares of the joint limits (None if out of reach)."""
    # As many eights of PERIOD as fit in half of the duration. If a joint would use more than
    # MOST_USED of a limit, there are fewer and slower ones, at least half an eight: so a longer
    # run never has smaller motions than a shorter one.
    robot, T, length = tracer.robot, tracer.pose(q), 0.5 * duration
    turns = max(0.5, np.floor(2.0 * (length / PERIOD - 0.25)) / 2.0)
    # independent of the duration: one whole eight must be in reach
    if tracer.usage(q, _eight(robot, T, scale, 1.25 * PERIOD, 1.0)) is None:
        return turns, None
    use = tracer.usage(q, _eight(robot, T, scale, length, turns))
    while (use is None or use.most > MOST_USED) and turns > 0.5:
        turns = max(0.5, np.floor(turns) / 2.0)
        use = tracer.usage(q, _eight(robot, T, scale, length, turns))
    return turns, use


def _eight(robot: Robot, T: Array, scale: float, length: float, turns: float, begin: float = 0.0
           ) -> Path:
    """Return a path of `turns` eights, a multiple of 1/2, that takes `length` [s]."""
    whole = scale * size(robot)
    return figure_of_eight(T, WIDTH * whole, HEIGHT * whole, length / (turns + 0.25), turns,
                           begin, swing=SWING * scale)


def _rotated(T: Array, scale: float) -> Array:
    turned = T.copy()
    turned[:3, :3] = Rotation.from_rotvec([0.0, 0.0, TURN * scale]).as_matrix() @ T[:3, :3]
    return turned


def _best_shift(tracer: Tracer, q: Array, T: Array, scale: float) -> Array | None:
    """Return the best conditioned pose one step away from T; None if all are out of reach."""
    best, found = 0.0, None
    for axis, sign in product(range(3), (1.0, -1.0)):
        shifted = T.copy()
        shifted[axis, 3] += sign * STEP * scale * size(tracer.robot)
        worth = tracer.worst_conditioning(q, [shifted, _rotated(shifted, scale)])
        if worth > best:
            best, found = worth, shifted
    return found
