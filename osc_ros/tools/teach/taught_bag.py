# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Writes recorded poses as an MCAP file of ROS 2 messages, for Foxglove and rosbag2."""

from __future__ import annotations

from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

from osc_ros.errors import InputError, installation
from osc_ros.recording import cdr
from osc_ros.recording.cdr import definition, QUATERNION, STAMPED, STATES, TIME, VECTOR
from osc_ros.tools.teach.taught import messages_of, Taught

_DURATION = {'builtin_interfaces__Duration': TIME}
DEFINITIONS = {
    STATES: cdr.DEFINITIONS[STATES],
    'geometry_msgs/msg/PoseStamped': definition(
        'std_msgs/Header header\ngeometry_msgs/Pose pose\n', **STAMPED,
        geometry_msgs__Pose='geometry_msgs/Point position\n'
        'geometry_msgs/Quaternion orientation\n',
        geometry_msgs__Point=VECTOR, geometry_msgs__Quaternion=QUATERNION),
    'trajectory_msgs/msg/JointTrajectory': definition(
        'std_msgs/Header header\nstring[] joint_names\n'
        'trajectory_msgs/JointTrajectoryPoint[] points\n', **STAMPED,
        trajectory_msgs__JointTrajectoryPoint='float64[] positions\nfloat64[] velocities\n'
        'float64[] accelerations\nfloat64[] effort\n'
        'builtin_interfaces/Duration time_from_start\n', **_DURATION),
    'trajectory_msgs/msg/MultiDOFJointTrajectory': definition(
        'std_msgs/Header header\nstring[] joint_names\n'
        'trajectory_msgs/MultiDOFJointTrajectoryPoint[] points\n', **STAMPED,
        trajectory_msgs__MultiDOFJointTrajectoryPoint='geometry_msgs/Transform[] transforms\n'
        'geometry_msgs/Twist[] velocities\ngeometry_msgs/Twist[] accelerations\n'
        'builtin_interfaces/Duration time_from_start\n',
        geometry_msgs__Transform='geometry_msgs/Vector3 translation\n'
        'geometry_msgs/Quaternion rotation\n',
        geometry_msgs__Twist='geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular\n',
        geometry_msgs__Vector3=VECTOR, geometry_msgs__Quaternion=QUATERNION, **_DURATION),
}
TOPICS = {'taught/joint_trajectory': 'trajectory_msgs/msg/JointTrajectory',
          'taught/trajectory': 'trajectory_msgs/msg/MultiDOFJointTrajectory',
          'joint_states': STATES,
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
    """Write both trajectories at time 0, then joint state and pose of each point at its time."""
    # InputError if mcap-ros2-support is not installed, or the file cannot be written.
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
