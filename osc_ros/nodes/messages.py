"""Between ROS messages and arrays: linear-first becomes angular-first here, and nowhere else."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
import math
from typing import Any

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import (
    InertiaStamped,
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
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint

from osc_ros.control.guide import Jog
from osc_ros.control.task import pose, poses
from osc_ros.control.trajectory import Hold, Path
from osc_ros.errors import InputError
from osc_ros.nodes import serialized

Array = NDArray[np.float64]

HOLD_LABEL = 'hold'  # of a command that answers no state


def seconds(stamp: Time | Duration) -> float:
    """A stamp or duration [s]."""
    return float(stamp.sec + 1e-9 * stamp.nanosec)


def stamp(time: float) -> Time:
    """The stamp of a time [s], to the nanosecond."""
    whole, rest = divmod(round(time * 1e9), 1_000_000_000)
    return Time(sec=int(whole), nanosec=int(rest))


class JointStateReader:
    """
    Takes the joints that it is asked for out of joint states, in any order among any others.

    Parameters
    ----------
    names : sequence of str, length n
    topic : str
        What refusals call the message.

    """

    def __init__(self, names: Sequence[str], topic: str = 'joint_states') -> None:
        self.names = tuple(names)
        self._topic = topic
        self._seen: list[str] | None = None
        self._at = np.zeros(0, dtype=np.intp)

    def read(self, message: JointState) -> tuple[Array, Array]:
        """
        Return positions (n,) [rad, m] and velocities (n,) [rad/s, m/s].

        Raises
        ------
        InputError
            A joint that is missing or named twice, fields that do not fit the names, velocities
            that are not there, numbers that are not finite.

        """
        return self.positions(message), self.velocities(message)

    def positions(self, message: JointState) -> Array:
        """
        Return positions (n,) [rad, m]; the velocities may be anything.

        Raises
        ------
        InputError
            As `read`, the velocities aside.

        """
        if message.name != self._seen:
            self._at = self._places(message.name)
            self._seen = list(message.name)
        return self._chosen('position', message.position, len(message.name))

    def velocities(self, message: JointState) -> Array:
        """
        Return velocities (n,) [rad/s, m/s] of the message whose positions were read last.

        Raises
        ------
        InputError
            Velocities that are not there, do not fit the names, or are not finite.

        """
        return self._chosen('velocity', message.velocity, len(message.name))

    def _chosen(self, field: str, values: Any, size: int) -> Array:
        if len(values) != size:
            raise InputError(f'{self._topic} has {size} names and {len(values)} '
                             f'entries of {field}: accepted is one {field} for each name')
        chosen = np.frombuffer(values).take(self._at)
        if not all(map(math.isfinite, chosen.tolist())):
            i = int(np.flatnonzero(~np.isfinite(chosen))[0])
            raise InputError(f"{self._topic}: {field} of '{self.names[i]}' is {chosen[i]}: "
                             'accepted are finite numbers')
        return chosen

    def efforts(self, message: JointState) -> Array:
        """Efforts (n,) [N·m; N] of the message that was read last; NaN where there are none."""
        if len(message.effort) != len(message.name):
            return np.full(len(self.names), np.nan)
        return np.asarray(message.effort, dtype=np.float64)[self._at]

    def _places(self, names: Sequence[str]) -> NDArray[np.intp]:
        has = ', '.join(names) or 'none'
        for name in self.names:
            if name not in names:
                raise InputError(f"{self._topic} lacks '{name}' (has: {has})")
            if list(names).count(name) > 1:
                raise InputError(f"{self._topic} has '{name}' more than once (has: {has})")
        return np.array([list(names).index(name) for name in self.names], dtype=np.intp)


def positions(message: JointState, names: Sequence[str]) -> Array:
    """
    Positions (n,) [rad, m] of joints in a message that need not have velocities.

    Raises
    ------
    InputError
        As `JointStateReader.read`, the velocities aside.

    """
    return JointStateReader(names, 'target_posture').positions(message)


def joint_state(names: Sequence[str], time: float, q: Array, qd: Array, tau: Array) -> JointState:
    """A joint state of n joints."""
    message = JointState(name=list(names))
    message.header.stamp = stamp(time)
    message.position, message.velocity, message.effort = (
        array('d', x.tobytes()) for x in (q, qd, tau))
    return message


class Command:
    """
    Joint torques as a message, made once and filled again and again.

    Parameters
    ----------
    size : int
        Number of joints.

    """

    def __init__(self, size: int) -> None:
        self._message = Float64MultiArray()
        self._message.layout.dim = [MultiArrayDimension(size=size, stride=size)]

    def filled(self, tau: Array, label: str) -> Float64MultiArray:
        """Torques (n,); the label of their one dimension says which state they answer."""
        self._message.data = array('d', tau.tobytes())
        self._message.layout.dim[0].label = label
        return self._message


def label(message: Float64MultiArray) -> str:
    """Which state a command answers; empty where it does not say."""
    return str(message.layout.dim[0].label) if message.layout.dim else ''


def label_of(time: Time) -> str:
    """The label of the command that answers the state of that time."""
    return f'{time.sec}.{time.nanosec:09d}'


def labelled_time(label: str) -> float | None:
    """Time of the state that a command of that label answers [s], if it answers one."""
    return float(label) if label.replace('.', '', 1).isdecimal() else None


def payload(message: InertiaStamped) -> dict[str, Any]:
    """The parameters of a payload whose inertia is about its centre of mass."""
    inertia, centre = message.inertia, message.inertia.com
    return {'payload.mass': inertia.m, 'payload.center_of_mass': [centre.x, centre.y, centre.z],
            'payload.inertia': [inertia.ixx, inertia.ixy, inertia.ixz, inertia.iyy, inertia.iyz,
                                inertia.izz], 'payload.link': message.header.frame_id}


def vector_array(message: Vector3) -> Array:
    """A vector (3,) of a message."""
    return np.array([message.x, message.y, message.z])


def pose_array(message: Pose) -> Array:
    """Pose (4, 4) of a message; refusals are those of `osc_ros.control.task.pose`."""
    p, r = message.position, message.orientation
    return pose((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))


def transform_array(message: Transform) -> Array:
    """Pose (4, 4) of a message; refusals are those of `osc_ros.control.task.pose`."""
    p, r = message.translation, message.rotation
    return pose((p.x, p.y, p.z), (r.x, r.y, r.z, r.w))


def pose_message(T: Array, frame: str, time: Time) -> PoseStamped:
    """A pose (4, 4) as a message."""
    message = PoseStamped()
    message.header.frame_id, message.header.stamp = frame, time
    p, r = message.pose.position, message.pose.orientation
    p.x, p.y, p.z = T[:3, 3].tolist()
    r.x, r.y, r.z, r.w = _quaternion(T)
    return message


def twist_message(twist: Array, frame: str, time: Time) -> TwistStamped:
    """[angular; linear] (6,) as a message."""
    message = TwistStamped(twist=_twist(twist))
    message.header.frame_id, message.header.stamp = frame, time
    return message


def wrench_array(message: Wrench) -> Array:
    """
    [moment; force] (6,) of a message [N·m, N].

    Raises
    ------
    InputError
        Numbers that are not finite.

    """
    m, f = message.torque, message.force
    wrench = np.array([m.x, m.y, m.z, f.x, f.y, f.z])
    if not np.isfinite(wrench).all():
        raise InputError(f'torque {wrench[:3].tolist()}, force {wrench[3:].tolist()}: accepted '
                         'are finite numbers')
    return wrench


def wrench_message(wrench: Array, frame: str, time: Time) -> WrenchStamped:
    """[moment; force] (6,) as a message."""
    message = WrenchStamped(wrench=Wrench(torque=_vector(wrench[:3]), force=_vector(wrench[3:])))
    message.header.frame_id, message.header.stamp = frame, time
    return message


def table_message(rows: Sequence[str], columns: Sequence[str], values: Array) -> Float64MultiArray:
    """Numbers (r, c) as a message; the labels of its dimensions name the rows and the columns."""
    message = Float64MultiArray(data=array('d', np.ascontiguousarray(values).tobytes()))
    message.layout.dim = [
        MultiArrayDimension(label=' '.join(rows), size=len(rows), stride=values.size),
        MultiArrayDimension(label=' '.join(columns), size=len(columns), stride=len(columns))]
    return message


def path(data: bytes, now: float, frame_pose: Callable[[str], Array]
         ) -> tuple[Path | Hold, float]:
    """
    The path of a trajectory of the tip, in the base frame, and when it starts [s].

    Parameters
    ----------
    data : bytes
        A serialized MultiDOFJointTrajectory: one transform a point; a twist and an acceleration
        each, or none at all. A single point is a pose to be at by its time, at rest. A stamp of
        zero means now.
    now : float
        Time of the newest state [s].
    frame_pose : callable
        Gives the pose (4, 4) of a frame in the base frame, or raises InputError.

    Raises
    ------
    InputError
        No points, more than one transform in a point, some derivatives missing, one point that is
        not at rest, and the refusals of `osc_ros.control.trajectory.Path` and
        `osc_ros.control.task.poses`.

    """
    found = serialized.trajectory(data)
    T = frame_pose(found.frame)
    start = found.stamp or now
    for k in np.flatnonzero(found.counts[:, 0] != 1)[:1].tolist():
        raise InputError(f'target_trajectory: point {k} has {found.counts[k, 0]} transforms: '
                         'accepted is one, the tip')
    there, times = T @ poses(found.poses[:, :3], found.poses[:, 3:]), start + found.times
    m, velocities, accelerations = len(times), *found.counts[:, 1:].sum(axis=0).tolist()
    if m == 1:
        if found.twists.any() or found.accelerations.any():
            raise InputError('target_trajectory: one point with a velocity or an acceleration: '
                             'accepted is one at rest, or two points and more')
        return Hold(there[0], arrival=float(times[0])), start
    if velocities == accelerations == 0:
        return Path(times, there), start
    if not (found.counts[:, 1:] == 1).all():
        raise InputError(f'target_trajectory: {m} points, {velocities} velocities, '
                         f'{accelerations} accelerations: accepted is one each a point, or '
                         'no velocity and no acceleration at all')
    return Path(times, there, _turned(T, found.twists), _turned(T, found.accelerations)), start


def _turned(T: Array, linear_first: Array) -> Array:
    """Twists (m, 6) of messages as [angular; linear] in the base frame."""
    R = T[:3, :3].T
    return np.hstack([linear_first[:, 3:] @ R, linear_first[:, :3] @ R])


def jog(message: TwistStamped, now: float, timeout: float,
        frame_pose: Callable[[str], Array]) -> tuple[Jog, float]:
    """
    The motion that a twist of the tip asks for, in base axes, and when it starts [s].

    Parameters
    ----------
    message : TwistStamped
        Of the tip's own point, in the axes of the frame as they are now. A stamp of zero means
        now.
    now : float
        Time of the newest state [s].
    timeout : float
        How long after its stamp the twist is followed [s].
    frame_pose : callable
        Gives the pose (4, 4) of a frame in the base frame, or raises InputError.

    Raises
    ------
    InputError
        A twist that is over, or has numbers that are not finite.

    """
    start = seconds(message.header.stamp) or now
    if start + timeout <= now:
        raise InputError(f'target_twist: its stamp, {start:.3f} s, is {now - start:.3f} s old: '
                         f'accepted is less than {timeout:g} s, or 0 for now')
    return Jog(_in_base(frame_pose(message.header.frame_id), message.twist),
               start + timeout), start


def trajectory_message(motion: Path, frame: str, tip: str) -> MultiDOFJointTrajectory:
    """A path as a message: pose, twist, acceleration at each of its knots."""
    message = MultiDOFJointTrajectory(joint_names=[tip])
    message.header.frame_id = frame
    message.header.stamp = stamp(motion.times[0])
    for time in motion.times:
        target = motion.at(float(time))
        rotation = Rotation.from_matrix(target.pose[:3, :3]).as_quat()
        transform = Transform(translation=_vector(target.pose[:3, 3]))
        r = transform.rotation
        r.x, r.y, r.z, r.w = rotation.tolist()
        since = stamp(time - motion.times[0])
        message.points.append(MultiDOFJointTrajectoryPoint(
            transforms=[transform], velocities=[_twist(target.twist)],
            accelerations=[_twist(target.acceleration)],
            time_from_start=Duration(sec=since.sec, nanosec=since.nanosec)))
    return message


def _quaternion(T: Array) -> tuple[float, float, float, float]:
    """The unit quaternion x y z w, w ≥ 0, of a pose (4, 4), by its largest part (Shepperd)."""
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
