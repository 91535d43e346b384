# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Poses or a path recorded by hand guiding, and the file format."""

from __future__ import annotations

from dataclasses import dataclass
import math
from pathlib import Path as File
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
import yaml

from osc_ros.control.tasks.task import poses as poses_of
from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

PATH, POSES = 'path', 'poses'
VERSION = 1
RATE = 20.0  # rate of the points of a path [Hz]
AVERAGED = 0.075  # a point is the mean of the states up to this time before and after it [s]
MOVED = 2e-3  # largest joint motion of an arm at rest [rad, m]
STANDING = 0.2  # largest pause before and after the motion [s]
SAME = 1e-3, 5e-3  # largest distance of tip poses of the same robot [m, rad]
DIGITS = 9
HEAD = """# Written by osc_teach. Both trajectories have the layout of ROS messages; together they
# are a moveit_msgs/msg/RobotTrajectory. Lengths in m, angles in rad, quaternions x y z w.
"""
ACCEPTED = 'give a whole file of osc_teach record'


@dataclass(frozen=True, eq=False)
class Taught:
    """Recorded poses, or a recorded path, of one arm."""

    kind: str  # 'path', or 'poses'; the times are used only for a path
    robot: str  # name of the robot
    base: str  # link of the base frame
    tip: str  # link whose poses were recorded
    joint_names: tuple[str, ...]
    times: Array  # (m,), increasing from 0 [s]
    q: Array  # (m, n) [rad, m]
    poses: Array  # (m, 4, 4), tip in the base frame

    @property
    def length(self) -> float:
        """Length of the tip's path [m]."""
        return float(np.linalg.norm(np.diff(self.poses[:, :3, 3], axis=0), axis=1).sum())


def tip_poses(robot: Robot, q: Array) -> Array:
    """Return the poses (m, 4, 4) of the tip at joint positions (m, n)."""
    return np.array([placement(robot, one).T_tip for one in q])


def taught_poses(robot: Robot, times: Array, q: Array) -> Taught:
    """Return poses at times (m,) and positions (m, n). Raise InputError if there are none."""
    if not len(times):
        raise InputError('no pose was recorded: give one or more')
    return Taught(POSES, robot.name, robot.base, robot.tip, robot.joint_names,
                  times - times[0], q, tip_poses(robot, q))


def taught_path(robot: Robot, times: Array, q: Array) -> Taught:
    """Return the path through joint positions (k, n) at times (k,), with points 1 / RATE apart."""
    # Each point is the mean of the states up to AVERAGED before and after its time. Pauses before
    # and after the motion are shortened to STANDING. InputError if the arm did not move.
    moved = [np.flatnonzero((np.abs(q - q[end:][:1]) > MOVED).any(axis=1)) for end in (0, -1)]
    if not (len(moved[0]) and len(moved[1])):
        raise InputError(f'the arm did not move: give a motion of {MOVED:g} rad or more')
    begin = max(times[0], times[moved[0][0]] - STANDING)
    end = min(times[-1], times[moved[1][-1]] + STANDING)
    count = max(3, 1 + math.ceil((end - begin) * RATE))
    at = np.linspace(begin, end, count)
    # means by the integral of the positions; the arm is at rest before and after the states
    t = np.concatenate([[times[0] - 1.0], times, [times[-1] + 1.0]])
    p = np.vstack([q[:1], q, q[-1:]])
    integral = np.vstack([np.zeros(q.shape[1]), np.cumsum(
        0.5 * np.diff(t)[:, None] * (p[1:] + p[:-1]), axis=0)])
    means = np.column_stack([
        (np.interp(at + AVERAGED, t, column) - np.interp(at - AVERAGED, t, column))
        / (2.0 * AVERAGED) for column in integral.T])
    return Taught(PATH, robot.name, robot.base, robot.tip, robot.joint_names, at - begin, means,
                  tip_poses(robot, means))


def require_robot(taught: Taught, robot: Robot) -> None:
    """Raise InputError if the poses were recorded with another arm."""
    # The joints, base and tip of `robot` must have the recorded names, and at the recorded joint
    # positions its tip must have the recorded poses within SAME.
    for what, found, accepted in (('base', taught.base, robot.base),
                                  ('tip', taught.tip, robot.tip),
                                  ('joints', ', '.join(taught.joint_names),
                                   ', '.join(robot.joint_names))):
        if found != accepted:
            raise InputError(f"it was recorded with another arm, '{taught.robot}': its {what}: "
                             f"{found}; must be {accepted} for '{robot.name}'")
    for k, (here, there) in enumerate(zip(tip_poses(robot, taught.q), taught.poses)):
        away, turned = distance(here, there)
        if away > SAME[0] or turned > SAME[1]:
            raise InputError(
                f"it was recorded with another arm or tool: at the joint positions of point {k}, "
                f"the tip of '{robot.name}' is {1e3 * away:.1f} mm and "
                f'{math.degrees(turned):.1f}° from the recorded pose; must be within '
                f'{1e3 * SAME[0]:g} mm and {math.degrees(SAME[1]):.1f}°')


def distance(here: Array, there: Array) -> tuple[float, float]:
    """Return the distance [m] and the angle [rad] between two poses (4, 4)."""
    turn = Rotation.from_matrix(here[:3, :3].T @ there[:3, :3])
    return float(np.linalg.norm(here[:3, 3] - there[:3, 3])), float(turn.magnitude())


def save(taught: Taught, file: File) -> None:
    """Write a file for `load`. Raise InputError if that fails."""
    try:
        with file.open('w', encoding='utf-8') as stream:
            stream.write(HEAD)
            yaml.dump({'osc_teach': {'version': VERSION, 'kind': taught.kind,
                                     'robot': taught.robot, 'points': len(taught.times)},
                       **messages_of(taught)}, stream, sort_keys=False, width=96,
                      Dumper=getattr(yaml, 'CSafeDumper', yaml.SafeDumper),
                      default_flow_style=None)
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error}") from None


def messages_of(taught: Taught) -> dict[str, Any]:
    """Return both trajectories in the layout of their ROS messages."""
    def header() -> dict[str, Any]:
        return {'stamp': {'sec': 0, 'nanosec': 0}, 'frame_id': taught.base}

    joints, tips = [], []
    rotations = Rotation.from_matrix(taught.poses[:, :3, :3]).as_quat()
    for time, q, T, r in zip(taught.times.tolist(), taught.q, taught.poses, rotations):
        sec, nanosec = divmod(round(1e9 * time), 10**9)
        since = {'sec': sec, 'nanosec': nanosec}
        joints.append({'positions': _rounded(q), 'velocities': [], 'accelerations': [],
                       'effort': [], 'time_from_start': dict(since)})
        tips.append({'transforms': [{'translation': dict(zip('xyz', _rounded(T[:3, 3]))),
                                     'rotation': dict(zip('xyzw', _rounded(r)))}],
                     'velocities': [], 'accelerations': [], 'time_from_start': dict(since)})
    return {'joint_trajectory': {'header': header(), 'joint_names': list(taught.joint_names),
                                 'points': joints},
            'multi_dof_joint_trajectory': {
                'header': header(), 'joint_names': [taught.tip], 'points': tips}}


def _rounded(numbers: Array) -> list[float]:
    return [round(float(x), DIGITS) for x in numbers]


def load(file: File) -> Taught:
    """Return the content of a file. Raise InputError if the file is unreadable or invalid."""
    try:
        content = yaml.load(file.read_text(encoding='utf-8'),
                            Loader=getattr(yaml, 'CSafeLoader', yaml.SafeLoader))
    except OSError as error:
        raise InputError(f"'{file}' cannot be read: {error}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        where = ' '.join(str(error).split())
        raise InputError(f"'{file}' is cut short or damaged: {where}; {ACCEPTED}") from None
    try:
        return _taught(content)
    except InputError as error:
        raise InputError(f"'{file}': {error}") from None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"'{file}' is cut short or not of osc_teach: "
                         f'{type(error).__name__} {error}; {ACCEPTED}') from None


def _taught(content: Any) -> Taught:
    about, joints, tips = (content[key] for key in (
        'osc_teach', 'joint_trajectory', 'multi_dof_joint_trajectory'))
    if about['version'] != VERSION or about['kind'] not in (PATH, POSES):
        raise InputError(f"version {about['version']}, kind {about['kind']}: give version "
                         f"{VERSION}, kind '{PATH}' or '{POSES}'")
    for name, trajectory in (('joint_trajectory', joints), ('multi_dof_joint_trajectory', tips)):
        if len(trajectory['points']) != about['points']:
            raise InputError(f"{name} has {len(trajectory['points'])} points of "
                             f"{about['points']}: the file is cut short; {ACCEPTED}")
    times, others = (np.array([
        point['time_from_start']['sec'] + 1e-9 * point['time_from_start']['nanosec']
        for point in trajectory['points']], dtype=np.float64) for trajectory in (joints, tips))
    names = tuple(joints['joint_names'])
    q = np.array([point['positions'] for point in joints['points']], dtype=np.float64)
    numbers = np.array([[point['transforms'][0][part][axis]
                         for part, axes in (('translation', 'xyz'), ('rotation', 'xyzw'))
                         for axis in axes] for point in tips['points']], dtype=np.float64)
    if q.shape != (len(times), len(names)) or not np.isfinite(q).all():
        raise InputError(f'positions of shape {q.shape}: give {len(names)} finite '
                         'numbers for each point')
    least = 2 if about['kind'] == PATH else 1
    if len(times) < least or times[0] != 0.0 or not (np.diff(times) > 0.0).all() or (
            not np.array_equal(times, others)):
        raise InputError(f'times of {len(times)} points: must be {least} or more that '
                         'increase from 0, the same in both trajectories')
    return Taught(about['kind'], str(about['robot']), joints['header']['frame_id'],
                  tips['joint_names'][0], names, times, q,
                  poses_of(numbers[:, :3], numbers[:, 3:]))
