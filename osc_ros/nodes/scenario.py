"""The motions of the demonstration: a figure of eight, a step, a turn, scaled to any robot."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.control.feedback import pose_error
from osc_ros.control.task import Target
from osc_ros.control.trajectory import figure_of_eight, Hold, Path, Schedule
from osc_ros.dynamics.compiled import on_demand
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

STEP, TURN, SWING = 0.1, np.radians(30.0), np.radians(10.0)
WIDTH, HEIGHT = 0.3, 0.15
DAMPING = SingularityDamping(length=0.3, low=0.02, high=0.06)
REACH = 0.8  # for arms with a shorter reach the motions are scaled down [m]


@dataclass(frozen=True)
class Phase:
    """One motion of the demonstration, from start to end [s]."""

    name: str
    start: float
    end: float
    motion: Hold | Path


def use_kernels(robot: Robot) -> None:
    """Use all kernels that the other functions use, which compiles them."""
    with on_demand():
        space = OperationalSpace(robot)
        DAMPING.conditioning(space.evaluate(robot.neutral, np.zeros(robot.n)).J)


def size(robot: Robot) -> float:
    """Return the scale of the motions: 1 if the arm reaches REACH, less in proportion."""
    links = np.linalg.norm(robot.T_parent_body[1:, :3, 3], axis=1).sum()
    reach = links + np.linalg.norm(robot.T_body_tip[:3, 3])
    return float(min(1.0, reach / REACH)) if reach > 0.0 else 1.0


def initial_positions(robot: Robot, seed: int = 0) -> Array:
    """
    Return joint positions (n,) from which the arm can reach all poses of the demonstration.

    The best conditioned of random positions in the middle of the joints' ranges.

    Raises
    ------
    InputError
        None of them reaches all poses.

    """
    random = np.random.default_rng(seed)
    lower = np.where(np.isfinite(robot.position_limits[:, 0]), robot.position_limits[:, 0], -np.pi)
    upper = np.where(np.isfinite(robot.position_limits[:, 1]), robot.position_limits[:, 1], np.pi)
    lower, upper = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
    space = OperationalSpace(robot)
    samples = middle + 0.7 * half * random.uniform(-1.0, 1.0, size=(1000, robot.n))

    def conditioning(q: Array) -> float:
        space.outward(q, np.zeros(robot.n))
        return DAMPING.conditioning(space.jacobian())

    best = sorted(samples, key=conditioning, reverse=True)
    for q in best[:100]:
        if _least_conditioning(space, q, _visited_poses(robot, space, q)) > 0.0:
            return np.asarray(q)
    raise InputError(f"no start was found from which '{robot.tip}' can trace the figures: give "
                     "'initial_positions' of osc_simulator in a --config file")


def phases(robot: Robot, q: Array, start: float, duration: float) -> list[Phase]:
    """
    Return the phases of the demonstration from joint positions q (n,), in the base frame.

    Parameters
    ----------
    start, duration : float
        [s]

    """
    space = OperationalSpace(robot)
    T = space.outward(q, np.zeros(robot.n)).pose.copy()
    length = 0.5 * duration
    turns = max(0.5, np.floor(2.0 * (length / 4.0 - 0.25)) / 2.0)
    scale = size(robot)
    eight = figure_of_eight(T, WIDTH * scale, HEIGHT * scale, length / (turns + 0.25), turns,
                            start, swing=SWING)
    shifts = _shifts(T, scale)
    worth = [_least_conditioning(space, q, [shifted, _rotated(shifted)]) for shifted in shifts]
    shifted = shifts[int(np.argmax(worth))]
    at = [start + share * duration for share in (0.0, 0.55, 0.775, 1.0)]
    return [
        Phase('figure of eight', at[0], float(eight.times[-1]), eight),
        Phase(f'step of {100.0 * STEP * scale:.0f} cm', at[1], at[2], Hold(shifted)),
        Phase(f'turn by {np.degrees(TURN):.0f}°', at[2], at[3], Hold(_rotated(shifted))),
    ]


def reference(plan: list[Phase], hold: Array) -> Schedule:
    """Return the targets of a plan over time, from a first pose (4, 4)."""
    schedule = Schedule(Hold(hold))
    for phase in plan:
        schedule.add(phase.motion, phase.start)
    return schedule


def error(pose: Array, target: Target) -> tuple[float, float]:
    """Return distance [m] and angle [rad] between a pose (4, 4) and a target, by scipy."""
    turn = Rotation.from_matrix(target.pose[:3, :3] @ pose[:3, :3].T).magnitude()
    return float(np.linalg.norm(target.pose[:3, 3] - pose[:3, 3])), float(turn)


def _rotated(T: Array) -> Array:
    turned = T.copy()
    turned[:3, :3] = Rotation.from_rotvec([0.0, 0.0, TURN]).as_matrix() @ T[:3, :3]
    return turned


def _shifts(T: Array, scale: float) -> list[Array]:
    shifts = []
    for axis, sign in product(range(3), (1.0, -1.0)):
        shifted = T.copy()
        shifted[axis, 3] += sign * STEP * scale
        shifts.append(shifted)
    return shifts


def _visited_poses(robot: Robot, space: OperationalSpace, q: Array) -> list[Array]:
    """Return some of the poses (4, 4) that the demonstration visits."""
    T = space.outward(q, np.zeros(robot.n)).pose.copy()
    eight = figure_of_eight(T, WIDTH * size(robot), HEIGHT * size(robot), 4.0, 1.0, 0.0, rate=5.0,
                            swing=SWING)
    return [*eight.poses, *(_rotated(shifted) for shifted in _shifts(T, size(robot)))]


def _least_conditioning(space: OperationalSpace, q: Array, poses: list[Array]) -> float:
    """Return the worst conditioning along poses; 0 if one is out of reach or at a limit."""
    worst, rest = 1.0, np.zeros_like(q)
    limits = space.robot.position_limits
    for target in poses:
        for _ in range(20):
            state = space.evaluate(q, rest)
            away = pose_error(state.pose, target)
            if np.abs(away).max() < 1e-3:
                break
            away *= min(1.0, 0.2 / np.abs(away).max())
            q = q + np.linalg.lstsq(state.J, away, rcond=1e-3)[0]
        else:
            return 0.0
        worst = min(worst, DAMPING.conditioning(state.J))
        if ((q < limits[:, 0] + 0.02) | (q > limits[:, 1] - 0.02)).any():
            return 0.0
    return worst if worst > DAMPING.high else 0.0
