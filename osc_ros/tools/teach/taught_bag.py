# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Writes recorded poses as an MCAP file of ROS 2 messages, for Foxglove and rosbag2."""

from __future__ import annotations

from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

from osc_ros.errors import InputError, installation
from osc_ros.tools.teach.taught import messages_of, Taught

_RULE = '=' * 80
_HEADER = {'std_msgs/Header': 'builtin_interfaces/Time stamp\nstring frame_id\n',
           'builtin_interfaces/Time': 'int32 sec\nuint32 nanosec\n'}
_DURATION = {'builtin_interfaces/Duration': 'int32 sec\nuint32 nanosec\n'}
_VECTOR = {'geometry_msgs/Vector3': 'float64 x\nfloat64 y\nfloat64 z\n'}
_POINT = {'geometry_msgs/Point': 'float64 x\nfloat64 y\nfloat64 z\n'}
_QUATERNION = {'geometry_msgs/Quaternion': 'float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n'}


def _definition(own: str, *parts: dict[str, str]) -> str:
    return own + ''.join(f'{_RULE}\nMSG: {name}\n{text}' for part in parts
                         for name, text in part.items())


DEFINITIONS = {
    'sensor_msgs/msg/JointState': _definition(
        'std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\n'
        'float64[] effort\n', _HEADER),
    'geometry_msgs/msg/PoseStamped': _definition(
        'std_msgs/Header header\ngeometry_msgs/Pose pose\n', _HEADER,
        {'geometry_msgs/Pose': 'geometry_msgs/Point position\n'
         'geometry_msgs/Quaternion orientation\n'}, _POINT, _QUATERNION),
    'trajectory_msgs/msg/JointTrajectory': _definition(
        'std_msgs/Header header\nstring[] joint_names\n'
        'trajectory_msgs/JointTrajectoryPoint[] points\n', _HEADER,
        {'trajectory_msgs/JointTrajectoryPoint': 'float64[] positions\nfloat64[] velocities\n'
         'float64[] accelerations\nfloat64[] effort\n'
         'builtin_interfaces/Duration time_from_start\n'}, _DURATION),
    'trajectory_msgs/msg/MultiDOFJointTrajectory': _definition(
        'std_msgs/Header header\nstring[] joint_names\n'
        'trajectory_msgs/MultiDOFJointTrajectoryPoint[] points\n', _HEADER,
        {'trajectory_msgs/MultiDOFJointTrajectoryPoint': 'geometry_msgs/Transform[] transforms\n'
         'geometry_msgs/Twist[] velocities\ngeometry_msgs/Twist[] accelerations\n'
         'builtin_interfaces/Duration time_from_start\n',
         'geometry_msgs/Transform': 'geometry_msgs/Vector3 translation\n'
         'geometry_msgs/Quaternion rotation\n',
         'geometry_msgs/Twist': 'geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular\n'},
        _VECTOR, _QUATERNION, _DURATION),
}
TOPICS = {'taught/joint_trajectory': 'trajectory_msgs/msg/JointTrajectory',
          'taught/trajectory': 'trajectory_msgs/msg/MultiDOFJointTrajectory',
          'joint_states': 'sensor_msgs/msg/JointState',
          'taught/pose': 'geometry_msgs/msg/PoseStamped'}
EXTRA = installation('record')


def require_writer() -> Any:
    """Return the module mcap_ros2.writer. Raise InputError if it is not installed."""
    try:
        from mcap_ros2 import writer
    except ModuleNotFoundError as error:
        raise InputError(f'MCAP files need the package mcap-ros2-support ({error}): {EXTRA}'
                         ) from None
    return writer


def write_mcap(taught: Taught, file: File) -> None:
    """
    Write both trajectories at time 0, then joint state and pose of each point at its time.

    Raises InputError if mcap-ros2-support is not installed, or the file cannot be written.

    """
    writer, content = require_writer(), messages_of(taught)
    joints, tips = content['joint_trajectory'], content['multi_dof_joint_trajectory']
    rows: list[tuple[int, str, Any]] = [(0, 'taught/joint_trajectory', joints),
                                        (0, 'taught/trajectory', tips)]
    for joint, tip in zip(joints['points'], tips['points']):
        stamp, place = joint['time_from_start'], tip['transforms'][0]
        header = {'stamp': stamp, 'frame_id': taught.base}
        time = 10**9 * stamp['sec'] + stamp['nanosec']
        rows += [(time, 'joint_states', {
            'header': header, 'name': joints['joint_names'], 'position': joint['positions'],
            'velocity': [], 'effort': []}),
            (time, 'taught/pose', {'header': header, 'pose': {
                'position': place['translation'], 'orientation': place['rotation']}})]
    try:
        with file.open('wb') as stream:
            bag = writer.Writer(stream)
            kinds = {topic: bag.register_msgdef(kind, DEFINITIONS[kind])
                     for topic, kind in TOPICS.items()}
            for time, topic, message in rows:
                bag.write_message(f'/{topic}', kinds[topic], _object(message), time)
            bag.finish()
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error}") from None


def _object(content: Any) -> Any:
    """Convert nested dicts to objects with attributes, as mcap_ros2 expects."""
    if isinstance(content, dict):
        return SimpleNamespace(**{key: _object(value) for key, value in content.items()})
    return [_object(one) for one in content] if isinstance(content, list) else content
