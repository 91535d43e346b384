# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Markers as obstacles of a controller: read from bytes, checked, and the nearest ones chosen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
import math
import struct
from typing import Any, NamedTuple

from builtin_interfaces.msg import Time
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.collision.obstacles import FASTEST, MOST_OBSTACLES, Obstacle, require_clear_base
from osc_ros.control.law import Law
from osc_ros.control.tasks.task import pose, UNIT_TOLERANCE
from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.recording.cdr import HEAD, LITTLE_ENDIAN
from osc_ros.ros.messages import messages
from osc_ros.ros.messages.markers import MarkerArray

Array = NDArray[np.float64]

ADD, DELETE, DELETE_ALL = 0, 2, 3  # actions of a marker
SHAPES = {1: 'box', 2: 'sphere', 3: 'cylinder'}  # by the type of a marker
ACCEPTED = 'accepted are CUBE, SPHERE and CYLINDER (types 1, 2, 3) with ADD, DELETE or DELETEALL'
MOST_KNOWN = 10_000  # markers of which the nearest MOST_OBSTACLES count
SHOWN = 3  # refused markers that an answer names
AGAIN = 0.2  # time after which the nearest ones of many markers are chosen again [s]
SHORTEST, LONGEST = 1e-3, 1.0  # time between two stamps from which a velocity is computed [s]


class Marker(NamedTuple):
    """
    The fields of a marker that matter for an obstacle.

    Attributes
    ----------
    frame : str
    stamp, lifetime : float [s]
        0: now; for ever.
    namespace, number, kind, action
        Fields ns, id, type and action.
    numbers : (10,)
        Position [m], quaternion x y z w, scale [m].

    """

    frame: str
    stamp: float
    namespace: str
    number: int
    kind: int
    action: int
    numbers: tuple[float, ...]
    lifetime: float

    @property
    def name(self) -> str:
        """Name of the obstacle."""
        return f'{self.namespace}/{self.number}'


class _Cursor:
    """Position in a serialized message."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, HEAD
        self._order = '<' if data[:2] == LITTLE_ENDIAN else '>'

    def take(self, size: int, form: str) -> tuple[Any, ...]:
        """Return numbers of a form of `struct`, which begin at a multiple of `size` bytes."""
        self.at += -(self.at - HEAD) % size
        found = struct.unpack_from(self._order + form, self._data, self.at)
        self.at += struct.calcsize('=' + form)
        return found

    def skip(self, size: int, width: int) -> None:
        """Skip a sequence of elements of `width` bytes at multiples of `size` bytes."""
        count, = self.take(4, 'I')
        if count:
            self.at += -(self.at - HEAD) % size + count * width

    def text(self) -> str:
        """Return a string."""
        length, = self.take(4, 'I')
        self.at += length
        if self.at > len(self._data):
            raise InputError('a string ends after the message')
        return self._data[self.at - length:self.at - 1].decode(errors='replace')


def markers_in(data: bytes) -> Iterator[Marker]:
    """
    Yield the markers of a serialized MarkerArray; InputError where the message is cut short.

    rclpy would make an object of every point and colour under the GIL.

    """
    try:
        cursor = _Cursor(data)
        count, = cursor.take(4, 'I')
        for _ in range(count):
            seconds, nanoseconds = cursor.take(4, 'iI')
            frame, namespace = cursor.text(), cursor.text()
            number, kind, action = cursor.take(4, '3i')
            numbers = cursor.take(8, '10d')
            *_, life, rest, _ = cursor.take(4, '4fiI?')
            cursor.skip(8, 24)  # points
            cursor.skip(4, 16)  # colors
            cursor.text()  # texture_resource
            cursor.take(4, 'iI')
            cursor.text(), cursor.text()
            cursor.skip(1, 1)  # texture
            cursor.skip(4, 8)  # uv_coordinates
            cursor.text(), cursor.text(), cursor.text()  # text, mesh_resource, mesh_file.filename
            cursor.skip(1, 1)
            cursor.take(1, '?')
            yield Marker(frame, seconds + 1e-9 * nanoseconds, namespace, number, kind, action,
                         numbers, life + 1e-9 * rest)
    except struct.error as error:
        raise InputError(f'the message cannot be read ({error}): accepted is a '
                         'visualization_msgs/MarkerArray') from None


class _Known(NamedTuple):
    """
    A marker that has come.

    Attributes
    ----------
    marker : Marker
        Its stamp is never 0.
    frame : (4, 4)
        Pose of its frame in the base frame.
    until : float [s]
        End of its lifetime.
    before : _Known, optional
        The one of this name with the stamp before, without its `before`.

    """

    marker: Marker
    frame: Array
    until: float
    before: _Known | None

    @property
    def extent(self) -> float:
        """Radius of a sphere that contains it [m]."""
        return 0.5 * math.hypot(*self.marker.numbers[7:])

    @property
    def pose(self) -> Array:
        """Pose (4, 4) in the base frame."""
        return self.frame @ pose(self.marker.numbers[:3], self.marker.numbers[3:7])

    def equals(self, other: _Known | None) -> bool:
        """Whether both are the same solid in the same pose."""
        return other is not None and (
            self.marker.kind == other.marker.kind and self.marker.numbers == other.marker.numbers
            and np.array_equal(self.frame, other.frame))

    @property
    def is_at_rest(self) -> bool:
        """Whether it has not moved since the stamp before."""
        return self.before is None or self.equals(self.before)

    def obstacle(self, touch: Collection[str]) -> Obstacle:
        """Return the obstacle, with the velocity from the last two stamps."""
        marker, T = self.marker, self.pose
        x, y, z = marker.numbers[7:]
        shape = SHAPES[marker.kind]
        size = {'box': (x, y, z), 'sphere': (0.5 * max(x, y, z),),
                'cylinder': (0.5 * max(x, y), z)}[shape]
        found = Obstacle(shape, size, T, touch=not {marker.name, marker.namespace}.isdisjoint(
            touch))
        require_clear_base(marker.name, found)
        dt = 0.0 if self.before is None else marker.stamp - self.before.marker.stamp
        if self.before is None or not SHORTEST <= dt <= LONGEST:
            return found
        earlier = self.before.pose
        turn = Rotation.from_matrix(T[:3, :3] @ earlier[:3, :3].T).as_rotvec()
        V = np.hstack([turn, T[:3, 3] - earlier[:3, 3]]) / dt
        # nothing moves faster: another object
        return found if np.linalg.norm(V[3:]) > FASTEST else replace(found, velocity=V)


class MarkerObstacles:
    """
    The markers that have come, and the obstacles that a controller knows of them.

    Attributes
    ----------
    left_out, refused : int
        Number of markers that do not count, because MOST_OBSTACLES are nearer; number of refused
        markers since the start.
    last_refusal : str
    touch : collection of str
        Names and namespaces of obstacles that the tips may touch.

    Parameters
    ----------
    frame_pose : callable
        Returns the pose (4, 4) of a frame in the base frame; InputError for an unknown one.
    arm : callable
        Returns points (k, 3) of the arm, to which the distances are measured.

    """

    def __init__(self, frame_pose: Callable[[str], Array], arm: Callable[[], Array]) -> None:
        self._frame_pose, self._arm = frame_pose, arm
        self._known: dict[str, _Known] = {}
        self._sent: dict[str, _Known | None] = {}
        self.left_out = self.refused = 0
        self.last_refusal, self.touch = '', tuple[str, ...]()

    def __len__(self) -> int:
        return len(self._sent)

    def take(self, data: bytes, now: float) -> list[str]:
        """Take a serialized MarkerArray at a time [s]; return a text for each refused marker."""
        refused: list[str] = []
        frames: dict[str, Array | InputError] = {}
        try:
            for marker in markers_in(data):
                try:
                    self._take(marker, now, frames)
                except InputError as error:
                    refused.append(f"marker '{marker.name}' refused: {error}")
        except InputError as error:
            refused.append(str(error))
        self._note(refused)
        return refused

    def _note(self, refused: list[str]) -> None:
        self.refused += len(refused)
        self.last_refusal = refused[-1] if refused else self.last_refusal

    def _take(self, marker: Marker, now: float, frames: dict[str, Array | InputError]) -> None:
        if marker.action == DELETE_ALL:
            for name in [name for name, one in self._known.items()
                         if marker.namespace in ('', one.marker.namespace)]:
                del self._known[name]
        elif marker.action == DELETE:
            self._known.pop(marker.name, None)
        elif marker.action == ADD and marker.kind in SHAPES:
            self._add(marker, now, frames)
        else:
            raise InputError(f'type {marker.kind}, action {marker.action}: {ACCEPTED}')

    def _add(self, marker: Marker, now: float, frames: dict[str, Array | InputError]) -> None:
        numbers, name = marker.numbers, marker.name
        if not (all(map(math.isfinite, numbers)) and min(numbers[7:]) > 0.0):
            raise InputError(f'pose and scale {[round(one, 6) for one in numbers]}: accepted are '
                             'finite numbers, and a scale of more than 0 m')
        if abs(math.hypot(*numbers[3:7]) - 1.0) > UNIT_TOLERANCE:
            raise InputError(f'quaternion {list(numbers[3:7])}: accepted is one of length 1')
        before = self._known.get(name)
        if before is None and len(self._known) >= MOST_KNOWN:
            raise InputError(f'there are {MOST_KNOWN} markers already: accepted are no more')
        T = _frame(marker.frame, frames, self._frame_pose)
        marker = marker._replace(stamp=marker.stamp or now)
        earlier = None if before is None else before.before if (
            before.marker.stamp == marker.stamp) else before._replace(before=None)
        self._known[name] = _Known(marker, T, now + (marker.lifetime or math.inf), earlier)

    def changes(self, now: float) -> tuple[dict[str, Obstacle | None], list[str]]:
        """
        Return the changes of the nearest obstacles since the last call, for `set_obstacles`.

        The second result has a text for each marker that is refused, such as one that contains
        the base.

        """
        for name in [name for name, one in self._known.items() if one.until <= now]:
            del self._known[name]
        chosen = self._nearest()
        changes: dict[str, Obstacle | None] = dict.fromkeys(
            name for name in self._sent if name not in chosen)
        refused: list[str] = []
        for name, one in chosen.items():
            old = self._sent.get(name)
            if old is one or one.equals(old) and one.is_at_rest and old and old.is_at_rest:
                continue
            try:
                changes[name] = one.obstacle(self.touch)
            except InputError as error:
                refused.append(f"marker '{name}' refused: {error}")
                if old is None:
                    del self._known[name]
                else:
                    self._known[name] = old
        self._sent = {name: self._known[name] for name in chosen if name in self._known}
        self._note(refused)
        return changes, refused

    def _nearest(self) -> dict[str, _Known]:
        self.left_out = max(0, len(self._known) - MOST_OBSTACLES)
        if not self.left_out:
            return dict(self._known)
        names, found = list(self._known), list(self._known.values())
        frames = np.array([one.frame[:3] for one in found])
        places = np.einsum('kij,kj->ki', frames[:, :, :3], np.array(
            [one.marker.numbers[:3] for one in found])) + frames[:, :, 3]
        gaps = np.linalg.norm(places[:, None] - self._arm()[None], axis=2).min(axis=1) - np.array(
            [one.extent for one in found])
        return {names[k]: found[k] for k in np.argsort(gaps, kind='stable')[:MOST_OBSTACLES]}

    def use_touch(self, touch: Collection[str]) -> None:
        """Set `touch`; all obstacles are sent again if it has changed."""
        if tuple(touch) != tuple(self.touch):
            self.touch, self._sent = tuple(touch), dict.fromkeys(self._sent)

    def values(self) -> Iterator[tuple[str, object]]:
        """Yield the keys and values of the diagnostics."""
        yield 'obstacles', len(self)
        yield 'obstacles left out', self.left_out
        yield 'obstacles refused', self.refused
        yield 'last refused obstacle', self.last_refusal


class ObstacleTopic:
    """
    Topic `~/obstacles` of a configured controller.

    Parameters
    ----------
    node, loop, law
        See `osc_ros.ros.controller.targets.Targets`.
    frame_pose : callable
        See `MarkerObstacles`.
    answer : callable
        Called with the stamp of the first marker of a message, and a text about the refused ones.

    """

    def __init__(self, node: Any, loop: Any, law: Law, frame_pose: Callable[[str], Array],
                 answer: Callable[[Time, str], None]) -> None:
        self._node, self._loop, self._answer, robot = node, loop, answer, law.robot

        def arm() -> Array:
            return (np.asarray(placement(robot, loop.q).p) if len(loop.q) else np.zeros((1, 3)))

        self._markers = MarkerObstacles(
            lambda frame: np.eye(4) if frame in ('', robot.base) else frame_pose(frame), arm)
        self.values, self._chosen_at = self._markers.values, -math.inf
        self._subscription = None if MarkerArray is None else node.create_subscription(
            MarkerArray, '~/obstacles', self._on_markers, 10, raw=True)

    def close(self) -> None:
        """Destroy the subscription."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)

    def apply(self, touch: Collection[str]) -> None:
        """Set the names and namespaces of obstacles that the tips may touch."""
        self._markers.use_touch(touch)
        self.update()

    def update(self) -> None:
        """Remove obstacles whose lifetime has ended, and choose the nearest ones again."""
        now = self._loop.time
        if not self._markers.left_out or abs(now - self._chosen_at) > AGAIN:
            self._send(False)

    def _on_markers(self, data: bytes) -> None:
        stamp = first_stamp(data)
        refused = self._markers.take(data, self._loop.time)
        self._answer(messages.time_of(stamp), refusal_text(refused + self._send(True)))

    def _send(self, is_news: bool) -> list[str]:
        had_left_out, self._chosen_at = self._markers.left_out, self._loop.time
        changes, refused = self._markers.changes(self._loop.time)
        if changes or is_news:
            self._loop.request(requests.set_obstacles, changes, False, is_news)
        if self._markers.left_out and not had_left_out:
            self._node.get_logger().warning(
                f'{self._markers.left_out} obstacles are left out: the nearest {MOST_OBSTACLES} '
                'count')
        return refused


def first_stamp(data: bytes) -> tuple[int, int]:
    """Return the stamp of the first marker of a serialized MarkerArray; 0, 0 without one."""
    try:
        cursor = _Cursor(data)
        count, = cursor.take(4, 'I')
        seconds, nanoseconds = cursor.take(4, 'iI') if count else (0, 0)
    except struct.error:
        return 0, 0
    return seconds, nanoseconds


def refusal_text(refused: list[str]) -> str:
    """Return a text of refusals, of which SHOWN are named."""
    more = len(refused) - SHOWN
    return '; '.join(refused[:SHOWN]) + (f'; and {more} more' if more > 0 else '')


def _frame(frame: str, found: dict[str, Array | InputError],
           frame_pose: Callable[[str], Array]) -> Array:
    """Return the pose of a frame, which `found` keeps during a message."""
    if frame not in found:
        try:
            found[frame] = frame_pose(frame)
        except InputError as error:
            found[frame] = error
    if isinstance(one := found[frame], InputError):
        raise InputError(f'{one}: accepted is a link, or a frame that tf2 connects with the base')
    return one


def markers_of(changes: Mapping[str, Obstacle | None], message: Any, marker_of: Callable[
        [str], Any]) -> Any:
    """
    Fill a MarkerArray with changes of obstacles; `marker_of` returns the marker of a name.

    InputError for an obstacle that no marker can describe.

    """
    for name, one in changes.items():
        marker = marker_of(name)
        if one is None:
            marker.action = DELETE
        else:
            kinds = {shape: kind for kind, shape in SHAPES.items()}
            if one.shape not in kinds or one.touch or one.velocity.any():
                raise InputError(f"obstacle '{name}': over ROS a {one.shape} with touch "
                                 f'{one.touch} and velocity {one.velocity.tolist()} cannot be '
                                 f"sent; accepted are {', '.join(kinds)}, without both: see the "
                                 'parameter obstacles.touch, and move it for a velocity')
            marker.type = kinds[one.shape]
            marker.scale.x, marker.scale.y, marker.scale.z = (
                one.size if one.shape == 'box' else (2.0 * one.size[0],) * 3
                if one.shape == 'sphere' else (2.0 * one.size[0],) * 2 + (one.size[1],))
            p, r = marker.pose.position, marker.pose.orientation
            p.x, p.y, p.z = one.pose[:3, 3].tolist()
            r.x, r.y, r.z, r.w = Rotation.from_matrix(one.pose[:3, :3]).as_quat().tolist()
        message.markers.append(marker)
    return message
