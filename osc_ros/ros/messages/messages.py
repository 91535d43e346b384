# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Conversion between ROS messages (linear first) and arrays (angular first)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
import math
from typing import Any

from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import (
    InertiaStamped,
    PointStamped,
    Pose,
    PoseStamped,
    Transform,
    Twist,
    TwistStamped,
    Vector3,
    Wrench,
    WrenchStamped,
)
import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint

from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.task import pose, poses
from osc_ros.errors import InputError, ReachError
from osc_ros.loop.cycle import Stamp
from osc_ros.ros.messages import serialized
from osc_ros.ros.messages.serialized_states import JointStateReader

Array = NDArray[np.float64]

DISTANCE, REACH = 'distance [m]', 'reach [m]'  # keys of the answer to a goal out of reach
LINEAR_FIRST = np.array([3, 4, 5, 0, 1, 2])
AXIS_NAMES = ('x', 'y', 'z', 'rx', 'ry', 'rz')  # linear first


def seconds(stamp: Time | Duration) -> float:
    """Return a stamp or duration in seconds."""
    return float(stamp.sec + 1e-9 * stamp.nanosec)


def stamp(time: float) -> Time:
    """Return the stamp of a time [s], rounded to 1 ns."""
    whole, rest = divmod(round(time * 1e9), 1_000_000_000)
    return Time(sec=int(whole), nanosec=int(rest))


def duration(time: float) -> Duration:
    """Return a duration [s], which may be negative, as a message."""
    seconds, nanoseconds = divmod(round(1e9 * time), 1_000_000_000)
    return Duration(sec=seconds, nanosec=nanoseconds)


def label_of(time: Time) -> str:
    """Return the label of a command that answers the joint state with this stamp."""
    return stamp_label((time.sec, time.nanosec))


def stamp_label(stamp: Stamp) -> str:
    """Return the label 'seconds.nanoseconds' of a command for the joint state with this stamp."""
    return f'{stamp[0]}.{stamp[1]:09d}'


def time_of(stamp: Stamp) -> Time:
    """Return a stamp as a message."""
    return Time(sec=stamp[0], nanosec=stamp[1])


def positions(message: JointState, names: Sequence[str]) -> Array:
    """Return positions (n,) [rad, m] of joints; for errors see `JointStateReader.positions`."""
    return JointStateReader(names, 'target_posture').positions(serialize_message(message))


def joint_state(names: Sequence[str], time: float, q: Array, qd: Array, tau: Array) -> JointState:
    """Return a JointState at a time [s] with positions, velocities and torques (n,)."""
    message = JointState(name=list(names))
    message.header.stamp = stamp(time)
    message.position, message.velocity, message.effort = (
        array('d', x.tobytes()) for x in (q, qd, tau))
    return message


def payload(message: InertiaStamped) -> dict[str, Any]:
    """Return the payload as parameters."""
    inertia, centre = message.inertia, message.inertia.com
    return {'payload.mass': inertia.m, 'payload.center_of_mass': [centre.x, centre.y, centre.z],
            'payload.inertia': [inertia.ixx, inertia.ixy, inertia.ixz, inertia.iyy, inertia.iyz,
                                inertia.izz], 'payload.link': message.header.frame_id}


def vector_array(message: Vector3) -> Array:
    """Return a vector (3,) from a message."""
    return np.array([message.x, message.y, message.z])


def pose_array(message: Pose) -> Array:
    """Return a pose (4, 4) from a message; for errors see `osc_ros.control.tasks.task.pose`."""
    p, r = message.position, message.orientation
    return pose((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))


def point_array(message: PointStamped) -> Array:
    """Return the point (3,) of a message."""
    return np.array([message.point.x, message.point.y, message.point.z])


def transform_array(message: Transform) -> Array:
    """Return a pose (4, 4) from a message; for errors see `osc_ros.control.tasks.task.pose`."""
    p, r = message.translation, message.rotation
    return pose((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))


def pose_message(T: Array, frame: str, time: Time) -> PoseStamped:
    """Return a pose (4, 4) as a message."""
    message = PoseStamped()
    message.header.frame_id, message.header.stamp = frame, time
    p, r = message.pose.position, message.pose.orientation
    p.x, p.y, p.z = T[:3, 3].tolist()
    r.x, r.y, r.z, r.w = _quaternion(T)
    return message


def twist_message(twist: Array, frame: str, time: Time) -> TwistStamped:
    """Return a twist (6,), [angular; linear], as a message."""
    message = TwistStamped(twist=_twist(twist))
    message.header.frame_id, message.header.stamp = frame, time
    return message


def twist_array(message: Twist) -> Array:
    """Return a twist (6,), [angular; linear], from a message."""
    return _in_base(np.eye(4), message)


def wrench_array(message: Wrench) -> Array:
    """Return a wrench (6,), [moment; force] [N·m, N]; InputError if it is not finite."""
    m, f = message.torque, message.force
    wrench = np.array([m.x, m.y, m.z, f.x, f.y, f.z])
    if not np.isfinite(wrench).all():
        raise InputError(f'torque {wrench[:3].tolist()}, force {wrench[3:].tolist()}: must '
                         'be finite numbers')
    return wrench


def wrench_message(wrench: Array, frame: str, time: Time) -> WrenchStamped:
    """Return a wrench (6,), [moment; force], as a message."""
    message = WrenchStamped(wrench=Wrench(torque=_vector(wrench[:3]), force=_vector(wrench[3:])))
    message.header.frame_id, message.header.stamp = frame, time
    return message


def table_message(rows: Sequence[str], columns: Sequence[str], values: Array, time: Time
                  ) -> Float64MultiArray:
    """Return a table (r, c) as a message: its three labels are rows, columns, and the stamp."""
    message = Float64MultiArray(data=array('d', np.ascontiguousarray(values).tobytes()))
    message.layout.dim = [
        MultiArrayDimension(label=label, size=size, stride=stride) for label, size, stride in (
            (' '.join(rows), len(rows), values.size),
            (' '.join(columns), len(columns), len(columns)), (label_of(time), 1, 1))]
    return message


def diagnostic_message(level: bytes, name: str, text: str, hardware: str,
                       values: Iterable[tuple[str, object]], time: Time) -> DiagnosticArray:
    """Return a DiagnosticArray with one status and its (key, value) pairs."""
    status = DiagnosticStatus(level=level, name=name, message=text, hardware_id=hardware, values=[
        KeyValue(key=key, value=str(value)) for key, value in values])
    message = DiagnosticArray(status=[status])
    message.header.stamp = time
    return message


def inertia_message(Lambda: Array, time: Time) -> Float64MultiArray:
    """Return a task-space inertia (6, 6), angular first, as a table with linear first."""
    return table_message(AXIS_NAMES, AXIS_NAMES, Lambda[np.ix_(LINEAR_FIRST, LINEAR_FIRST)], time)


def impedance(message: Float64MultiArray) -> Impedance:
    """Return the impedance from 6, 12 or 18 numbers, linear first; InputError if it is refused."""
    # Stiffness, damping ratio, feedforward wrench. The label of the first dimension, if present,
    # is the stamp [s].
    numbers = np.array(message.data)
    if len(numbers) not in (6, 12, 18):
        raise InputError(f'{len(numbers)} numbers: must be 6 of stiffness, then 6 of damping '
                         'ratio, then 6 of wrench, each x y z rx ry rz')
    label = message.layout.dim[0].label if message.layout.dim else ''
    time = -math.inf
    if label:
        try:
            time = float(label)
        except ValueError:
            time = math.nan
        if not math.isfinite(time):
            raise InputError(f"label '{label}': give a stamp in seconds, as '12.500000000'")
    rows = numbers.reshape(-1, 6)[:, LINEAR_FIRST]
    return Impedance(*rows, stamp=time)


def path(data: bytes, now: float, frame_pose: Callable[[str], Array],  # (4, 4) in base frame
         through: Callable[[Array, Array], Path] = Path) -> tuple[Path | PoseGoal, float]:
    """Return the path of a serialized trajectory of the tip, base frame, and its start [s]."""
    # One transform for each point; a twist and an acceleration for all points or none. One single
    # point is a pose to reach, at rest. A stamp of 0 is `now`, the time of the newest joint state.
    found = serialized.trajectory(data)
    T = frame_pose(found.frame)
    start = found.stamp or now
    for k in np.flatnonzero(found.counts[:, 0] != 1)[:1].tolist():
        raise InputError(f'target_trajectory: point {k} has {found.counts[k, 0]} transforms: '
                         'give one, the tip')
    there, times = T @ poses(found.poses[:, :3], found.poses[:, 3:]), start + found.times
    m, velocities, accelerations = len(times), *found.counts[:, 1:].sum(axis=0).tolist()
    if m == 1:
        if found.twists.any() or found.accelerations.any():
            raise InputError('target_trajectory: one point with a velocity or an acceleration: '
                             'give one at rest, or two points and more')
        return PoseGoal(there[0], arrival=float(times[0])), start
    if velocities == accelerations == 0:
        return through(times, there), start
    if not (found.counts[:, 1:] == 1).all():
        raise InputError(f'target_trajectory: {m} points, {velocities} velocities, '
                         f'{accelerations} accelerations: give one each a point, or '
                         'no velocity and no acceleration at all')
    return Path(times, there, _in_base_axes(T, found.twists),
                _in_base_axes(T, found.accelerations)), start


def chunk(data: bytes, now: float, pose_at: Callable[[str, float], Array]
          ) -> tuple[Array, Array, float]:
    """Return the times (m,) [s] and poses (m, 4, 4) of a chunk; time of its observation [s]."""
    # Each of two or more points has one transform and nothing else. The stamp is the time of the
    # observation; 0 is `now`. `pose_at` returns the pose of a frame in the base frame at a time.
    found = serialized.trajectory(data)
    if len(found.times) < 2 or not (found.counts == (1, 0, 0)).all():
        raise InputError(f'target_chunk: {len(found.times)} points with '
                         f'{found.counts.sum(axis=0).tolist()} transforms, velocities and '
                         'accelerations: give two points or more, each with one transform '
                         'and nothing else')
    observed_at = found.stamp or now
    T = pose_at(found.frame, observed_at)
    return (observed_at + found.times, T @ poses(found.poses[:, :3], found.poses[:, 3:]),
            observed_at)


def chunk_message(times: Array, poses: Array, observed_at: float, frame: str
                  ) -> MultiDOFJointTrajectory:
    """Return a chunk as a message: poses (m, 4, 4) at times (m,) after the observation [s]."""
    message = MultiDOFJointTrajectory()
    message.header.frame_id, message.header.stamp = frame, stamp(observed_at)
    message.points = [_point(time, T) for time, T in zip(times.tolist(), poses)]
    return message


def _point(time: float, T: Array) -> MultiDOFJointTrajectoryPoint:
    """Return a trajectory point with a pose (4, 4) at a time after the start [s]."""
    transform, since = Transform(translation=_vector(T[:3, 3])), stamp(time)
    r = transform.rotation
    r.x, r.y, r.z, r.w = _quaternion(T)
    return MultiDOFJointTrajectoryPoint(
        transforms=[transform], time_from_start=Duration(sec=since.sec, nanosec=since.nanosec))


def answer_message(level: bytes, topic: str, text: str, stamp: Time, time: float,
                   error: ReachError | None = None) -> DiagnosticStatus:
    """Return the answer, given at `time` [s], to the command with this topic and stamp."""
    figures = () if error is None else ((DISTANCE, error.distance), (REACH, error.reach))
    return DiagnosticStatus(level=level, name=topic, message=text, values=[
        KeyValue(key='stamp', value=label_of(stamp)), KeyValue(key='time', value=f'{time:.9f}'),
        *(KeyValue(key=key, value=f'{value:.9g}') for key, value in figures)])


def _in_base_axes(T: Array, linear_first: Array) -> Array:
    """Rotate twists (m, 6), linear first, to the base frame; return them as [angular; linear]."""
    R = T[:3, :3].T
    return np.hstack([linear_first[:, 3:] @ R, linear_first[:, :3] @ R])


def jog(message: TwistStamped, now: float, timeout: float,
        frame_pose: Callable[[str], Array]) -> tuple[TwistGoal, float]:
    """Return the motion that a twist of the tip commands, in base axes, and its start time [s]."""
    # The twist is in the present axes of its frame, and lasts for `timeout` [s] from its stamp on;
    # a stamp of 0 is `now`. InputError: the twist is older, or not finite.
    start = seconds(message.header.stamp) or now
    if start + timeout <= now:
        raise InputError(f'target_twist: its stamp, {start:.3f} s, is {now - start:.3f} s old: '
                         f'must be less than {timeout:g} s, or 0 for now')
    return TwistGoal(_in_base(frame_pose(message.header.frame_id), message.twist),
               start + timeout), start


def trajectory_message(motion: Path, frame: str, tip: str) -> MultiDOFJointTrajectory:
    """Return a path as a message, with pose, twist and acceleration at each knot."""
    message = MultiDOFJointTrajectory(joint_names=[tip])
    message.header.frame_id = frame
    message.header.stamp = stamp(motion.times[0])
    for time in motion.times:
        target = motion.at(float(time))
        point = _point(time - motion.times[0], target.pose)
        point.velocities = [_twist(target.twist)]
        point.accelerations = [_twist(target.acceleration)]
        message.points.append(point)
    return message


def _quaternion(T: Array) -> tuple[float, float, float, float]:
    """Return the unit quaternion x y z w, w ≥ 0, of a pose (4, 4), by Shepperd's method."""
    (a, b, c, _), (d, e, f, _), (g, h, i, _), _ = T.tolist()
    w2, x2, y2, z2 = 1.0 + a + e + i, 1.0 + a - e - i, 1.0 - a + e - i, 1.0 - a - e + i
    largest = max(w2, x2, y2, z2)
    if w2 == largest:
        x, y, z, w = h - f, c - g, d - b, w2
    elif x2 == largest:
        x, y, z, w = x2, b + d, c + g, h - f
    elif y2 == largest:
        x, y, z, w = b + d, y2, f + h, c - g
    else:
        x, y, z, w = c + g, f + h, z2, d - b
    length = math.copysign(math.sqrt(x * x + y * y + z * z + w * w), w)
    return x / length, y / length, z / length, w / length


def _vector(x: Array) -> Vector3:
    return Vector3(x=float(x[0]), y=float(x[1]), z=float(x[2]))


def _twist(twist: Array) -> Twist:
    return Twist(angular=_vector(twist[:3]), linear=_vector(twist[3:]))


def _in_base(T: Array, twist: Twist) -> Array:
    angular, linear = twist.angular, twist.linear
    return np.concatenate([T[:3, :3] @ [angular.x, angular.y, angular.z],
                           T[:3, :3] @ [linear.x, linear.y, linear.z]])
