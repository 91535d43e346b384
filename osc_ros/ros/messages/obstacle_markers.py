# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Markers as obstacles of a controller: read from bytes, checked, and the nearest ones chosen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
import math
import struct
from typing import Any, NamedTuple

from builtin_interfaces.msg import Time
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.collision.link_shapes import LinkShape
from osc_ros.collision.obstacles import (
    FASTEST,
    LARGEST,
    MOST_OBSTACLES,
    Obstacle,
    require_clear_base,
)
from osc_ros.control.law import Law
from osc_ros.control.limits.attached import thing_shapes, with_attached
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.tasks.task import pose, UNIT_TOLERANCE
from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.model.assembly import axis_on_z
from osc_ros.model.robot import Robot
from osc_ros.recording.cdr import HEAD, LITTLE_ENDIAN
from osc_ros.ros.messages import messages
from osc_ros.ros.messages.markers import MarkerArray, point

Array = NDArray[np.float64]

ADD, DELETE, DELETE_ALL = 0, 2, 3  # actions of a marker
# By the type of a marker. The tail of an arrow is on the surface of a half-space, and the arrow
# points out of it; a line of two points is the axis of a capsule.
SHAPES = {0: 'half_space', 1: 'box', 2: 'sphere', 3: 'cylinder', 4: 'capsule'}
ACCEPTED = ('give ARROW, CUBE, SPHERE, CYLINDER and LINE_STRIP (types 0 to 4) with ADD, '
            'DELETE or DELETEALL')
MOST_KNOWN = 10_000  # markers of which the nearest MOST_OBSTACLES count
SHOWN = 3  # refused markers that an answer names
AGAIN = 0.2  # time after which the nearest ones of many markers are chosen again [s]
SAME = 1e-3  # a thing on a link is not placed again for a smaller change [m, and of a quaternion]
ARROW, LINE_STRIP, LEAST_LENGTH = 0, 4, 1e-6
SHORTEST, LONGEST = 1e-3, 1.0  # time between two stamps from which a velocity is computed [s]


class Marker(NamedTuple):
    """Fields of a visualization marker that matter for an obstacle."""

    frame: str
    stamp: float  # [s]; 0: now
    namespace: str  # field ns
    number: int  # field id
    kind: int  # field type
    action: int
    numbers: tuple[float, ...]  # (10,): position [m], quaternion x y z w, scale [m]
    lifetime: float  # [s]; 0: for ever
    is_locked: bool  # field frame_locked
    points: tuple[float, ...]  # (6,) if there are two points [m]; otherwise empty

    @property
    def name(self) -> str:
        """Name of the obstacle."""
        return f'{self.namespace}/{self.number}'

    @property
    def solid(self) -> tuple[str, tuple[float, ...], Array]:
        """Shape and size of the obstacle, and its pose (4, 4) in the frame of `numbers`."""
        x, y, z = self.numbers[7:]
        shape, T = SHAPES[self.kind], np.eye(4)
        if self.kind not in (ARROW, LINE_STRIP):
            return shape, {'box': (x, y, z), 'sphere': (0.5 * max(x, y, z),),
                           'cylinder': (0.5 * max(x, y), z)}[shape], T
        points = self.points or (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)  # an arrow without is along x
        length = math.dist(points[:3], points[3:])
        if not (all(abs(one) <= LARGEST for one in points) and length > LEAST_LENGTH):
            raise InputError(f'points {[*points]}: give two different ones, finite, at '
                             f'most {LARGEST:g} m along each axis')
        a, b = np.reshape(points, (2, 3))
        T = axis_on_z((b - a) / length)
        T[:3, 3] = a if self.kind == ARROW else 0.5 * (a + b)
        return shape, (() if self.kind == ARROW else (0.5 * x, length)), T

    def require_valid(self) -> None:
        """Raise InputError if the marker describes no solid."""
        numbers = self.numbers
        lengths = {ARROW: 0, LINE_STRIP: 1}.get(self.kind, 3)
        if not all(map(math.isfinite, numbers)) or min(numbers[7:7 + lengths], default=1) <= 0.0:
            raise InputError(f'pose and scale {[round(one, 6) for one in numbers]}: must be '
                             'finite numbers, and a scale of more than 0 m')
        if abs(math.hypot(*numbers[3:7]) - 1.0) > UNIT_TOLERANCE:
            raise InputError(f'quaternion {list(numbers[3:7])}: must be one of length 1')
        if self.kind == LINE_STRIP and not self.points:
            raise InputError('LINE_STRIP: give two points, the axis of a capsule')
        _ = self.solid


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

    def points(self) -> tuple[float, ...]:
        """Return the numbers (6,) of two points; for another number of points, skip them."""
        start = self.at
        if self.take(4, 'I') == (2,):
            return self.take(8, '6d')
        self.at = start
        self.skip(8, 24)
        return ()

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
    """Yield the markers of a serialized MarkerArray; InputError where it is cut short."""
    # rclpy would make an object of every point and colour under the GIL
    try:
        cursor = _Cursor(data)
        count, = cursor.take(4, 'I')
        for _ in range(count):
            seconds, nanoseconds = cursor.take(4, 'iI')
            frame, namespace = cursor.text(), cursor.text()
            number, kind, action = cursor.take(4, '3i')
            numbers = cursor.take(8, '10d')
            *_, life, rest, is_locked = cursor.take(4, '4fiI?')
            points = cursor.points()
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
                         numbers, life + 1e-9 * rest, is_locked, points)
    except struct.error as error:
        raise InputError(f'the message cannot be read ({error}): give a '
                         'visualization_msgs/MarkerArray') from None


class _Known(NamedTuple):
    """A received marker."""

    marker: Marker  # its stamp is never 0
    frame: Array  # (4, 4) pose of its frame in the base frame; of a thing on a link the identity
    link: str  # link that holds it; empty for an obstacle
    until: float  # end of its lifetime [s]
    came: float  # when its message came [s]
    before: _Known | None  # the one of this name with the stamp before; its `before` has none

    @property
    def extent(self) -> float:
        """Radius of a sphere around its position that contains it [m]."""
        if self.marker.kind == ARROW:
            return math.inf
        if self.marker.kind == LINE_STRIP:
            points = self.marker.points
            return max(math.hypot(*points[:3]), math.hypot(*points[3:])) + self.marker.numbers[7]
        return 0.5 * math.hypot(*self.marker.numbers[7:])

    @property
    def pose(self) -> Array:
        """Pose (4, 4) of the solid in the base frame, or in that of the link."""
        numbers = self.marker.numbers
        return self.frame @ pose(numbers[:3], numbers[3:7]) @ self.marker.solid[2]

    def equals(self, other: _Known | None) -> bool:
        """Whether both are the same solid in the same pose."""
        if other is None or (self.link, self.marker.kind) != (other.link, other.marker.kind):
            return False
        mine, its = ((*one.marker.numbers, *one.marker.points) for one in (self, other))
        return mine == its and np.array_equal(self.frame, other.frame) or bool(
            self.link) and len(mine) == len(its) and np.allclose(mine, its, 0.0, SAME)

    @property
    def is_at_rest(self) -> bool:
        """Whether it has not moved since the stamp before."""
        return self.before is None or self.equals(self.before)

    def obstacle(self, touch: Collection[str]) -> Obstacle:
        """Return the obstacle, with its velocity."""
        marker, T = self.marker, self.pose
        shape, size, _ = marker.solid
        found = Obstacle(shape, size, T, touch=not {marker.name, marker.namespace}.isdisjoint(
            touch), link=self.link)
        if self.link:
            return found
        require_clear_base(marker.name, found)
        return replace(found, velocity=self.velocity)

    @property
    def velocity(self) -> Array:
        """Velocity (6,) from the last stamps, base axes; 0 if it is not known [rad/s, m/s]."""
        # Two markers of one message state it. Else each direction has the smaller rate of the last
        # two intervals, and 0 if their signs differ, because a single jump is no motion.
        V = self._rates
        if self.before is None or self.before.before is None or self.before.came == self.came:
            return V
        earlier = self.before._rates
        return np.where(V * earlier > 0.0, np.sign(V) * np.minimum(np.abs(V), np.abs(earlier)),
                        0.0)

    @property
    def _rates(self) -> Array:
        """Change (6,) of the pose since the stamp before, in a second; zero if not known."""
        dt = 0.0 if self.before is None else self.marker.stamp - self.before.marker.stamp
        if self.before is None or not SHORTEST <= dt <= LONGEST:
            return np.zeros(6)
        T, earlier = self.pose, self.before.pose
        turn = Rotation.from_matrix(T[:3, :3] @ earlier[:3, :3].T).as_rotvec()
        V = np.hstack([turn, T[:3, 3] - earlier[:3, 3]]) / dt
        # nothing moves faster: another object
        return np.zeros(6) if np.linalg.norm(V[3:]) > FASTEST else V


class MarkerObstacles:
    """Received markers, and the obstacles that a controller makes from them."""

    def __init__(self, frame_pose: Callable[[str], Array], arm: Callable[[], Array],
                 moves: Callable[[str], bool]) -> None:
        # pose (4, 4) of a frame in the base frame, or InputError; points (k, 3) of the arm for the
        # distances; whether a joint moves the link `frame`, which then holds markers locked to it
        self._frame_pose, self._arm, self._moves = frame_pose, arm, moves
        self._known: dict[str, _Known] = {}
        self._sent: dict[str, _Known | None] = {}
        # number of markers beyond the nearest MOST_OBSTACLES; of refused ones since the start
        self.left_out = self.refused = 0
        # text of the last refusal; names and namespaces of obstacles that the tips may touch
        self.last_refusal, self.touch = '', tuple[str, ...]()

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
        marker.require_valid()
        name, before = marker.name, self._known.get(marker.name)
        if before is None and len(self._known) >= MOST_KNOWN:
            raise InputError(f'there are {MOST_KNOWN} markers already: give no more')
        T = _frame(marker.frame, frames, self._frame_pose)
        link = marker.frame if marker.is_locked and self._moves(marker.frame) else ''
        marker = marker._replace(stamp=marker.stamp or now)
        earlier = None if before is None or link or before.link else before.before if (
            before.marker.stamp == marker.stamp) else before._replace(
                before=before.before and before.before._replace(before=None))
        self._known[name] = _Known(marker, np.eye(4) if link else T, link,
                                   now + (marker.lifetime or math.inf), now, earlier)

    def changes(self, now: float, attach: Callable[[str, Obstacle], None] | None = None
                ) -> tuple[dict[str, Obstacle | None], list[str]]:
        """Return the changes of the nearest obstacles since the last call; texts of refusals."""
        # Things on links change, too; `attach` gets each of them, and can refuse it by InputError.
        for name in [name for name, one in self._known.items() if one.until <= now]:
            del self._known[name]
        chosen = self._nearest()
        changes: dict[str, Obstacle | None] = dict.fromkeys(
            name for name in self._sent if name not in chosen)
        refused: list[str] = []
        for name, one in chosen.items():
            old = self._sent.get(name)
            if old is one or one.equals(old) and one.is_at_rest and old and old.is_at_rest:
                if one.link and old:  # otherwise many small changes would add up unnoticed
                    self._known[name] = old._replace(until=one.until)
                continue
            try:
                found = one.obstacle(self.touch)
                if found.link and attach is not None:
                    attach(name, found)
                changes[name] = found
            except InputError as error:
                refused.append(self._refusal(name, error))
        self._sent = {name: self._known[name] for name in chosen if name in self._known}
        self._note(refused)
        return changes, refused

    def _refusal(self, name: str, error: InputError) -> str:
        """Forget a marker, so that the one before stays; return the text."""
        old = self._sent.get(name)
        if old is None:
            del self._known[name]
        else:
            self._known[name] = old
        return f"marker '{name}' refused: {error}"

    def _nearest(self) -> dict[str, _Known]:
        things = {name: one for name, one in self._known.items() if one.link}
        self.left_out = max(0, len(self._known) - len(things) - MOST_OBSTACLES)
        if not self.left_out:
            return dict(self._known)
        names = [name for name in self._known if name not in things]
        found = [self._known[name] for name in names]
        frames = np.array([one.frame[:3] for one in found])
        places = np.einsum('kij,kj->ki', frames[:, :, :3], np.array(
            [one.marker.numbers[:3] for one in found])) + frames[:, :, 3]
        gaps = np.linalg.norm(places[:, None] - self._arm()[None], axis=2).min(axis=1) - np.array(
            [one.extent for one in found])
        return things | {names[k]: found[k] for k in np.argsort(gaps, kind='stable')[
            :MOST_OBSTACLES]}

    def use_touch(self, touch: Collection[str]) -> None:
        """Set `touch`; all obstacles are sent again if it has changed."""
        if tuple(touch) != tuple(self.touch):
            self.touch, self._sent = tuple(touch), {
                name: one if one is not None and one.link else None
                for name, one in self._sent.items()}

    def values(self) -> Iterator[tuple[str, object]]:
        """Yield the keys and values of the diagnostics."""
        things = [name for name, one in self._sent.items() if one is not None and one.link]
        yield 'obstacles', len(self._sent) - len(things)
        yield 'things on links', ' '.join(things)
        yield 'obstacles left out', self.left_out
        yield 'obstacles refused', self.refused
        yield 'last refused obstacle', self.last_refusal


class ObstacleTopic:
    """Topic `~/obstacles` of a configured controller."""

    def __init__(self, node: Any, loop: Any, law: Law, frame_pose: Callable[[str], Array],
                 answer: Callable[[Time, str], None]) -> None:
        # `answer` gets the stamp of the first marker of a message, and a text of the refused ones
        self._node, self._loop, self._answer, robot = node, loop, answer, law.robot
        # called when things on links have changed: applies the parameters again, `with_things`
        self._law, self.renew = law, lambda: None
        self._things: dict[str, tuple[Obstacle, tuple[LinkShape, ...]]] = {}

        def arm() -> Array:
            return (np.asarray(placement(robot, loop.q).p) if len(loop.q) else np.zeros((1, 3)))

        self._markers = MarkerObstacles(
            lambda frame: np.eye(4) if frame in ('', robot.base) else frame_pose(frame), arm,
            partial(moves, robot))
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

    def with_things(self, clearance: Clearance | None, robot: Robot) -> Clearance | None:
        """Return a clearance with the shapes of the things that links hold."""
        if clearance is None or not self._things:
            return clearance
        return with_attached(clearance, [
            shape for _, shapes in self._things.values() for shape in shapes], robot,
            self._loop.q, self._law.settings.clearance)

    def _attach(self, name: str, thing: Obstacle) -> None:
        """Add a thing to those that links hold; InputError if it is refused."""
        before, robot = self._things, self._law.robot
        old, shapes = before.get(name, (thing, ()))
        if not shapes or (old.shape, old.size, old.link, old.pose.tolist()) != (
                thing.shape, thing.size, thing.link, thing.pose.tolist()):
            shapes = thing_shapes(name, thing, robot)
        self._things = {**before, name: (thing, shapes)}
        try:
            self.with_things(self._law.settings.clearance or Clearance(()), robot)
        except InputError:
            self._things = before
            raise

    def _on_markers(self, data: bytes) -> None:
        stamp = first_stamp(data)
        refused = self._markers.take(data, self._loop.time)
        self._answer(messages.time_of(stamp), refusal_text(refused + self._send(True)))

    def _send(self, is_news: bool) -> list[str]:
        had_left_out, self._chosen_at = self._markers.left_out, self._loop.time
        before, blend_time = self._things, self._law.settings.blend_time
        found, refused = self._markers.changes(self._loop.time, self._attach)
        changes = {name: None if one is None or one.link else one for name, one in found.items()}
        self._things = {name: one for name, one in self._things.items()
                        if name not in found or found[name] is one[0]}
        if self._things != before:
            try:
                self.renew()
            except InputError as error:
                self._things, changes = before, {}
                refused.append(f'things on links refused, the old ones stay: {error}')
        let_go = {name: changes.pop(name) for name in before if name in changes}
        if changes or is_news:
            self._loop.request(requests.set_obstacles, changes, False, is_news)
        if let_go:  # while the torques blend, the replaced settings have the thing on its link
            self._loop.request(requests.set_obstacles, let_go, False, is_news, blend_time)
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
        raise InputError(f'{one}: give a link, or a frame that tf2 connects with the base')
    return one


def moves(robot: Robot, frame: str) -> bool:
    """Whether a frame is a link that a joint moves."""
    return robot.frames.get(frame, (-1,))[0] >= 0


def markers_of(changes: Mapping[str, Obstacle | None], message: Any, marker_of: Callable[
        [str], Any]) -> Any:
    """Append markers of changed obstacles to a MarkerArray; `marker_of` makes one for a name."""
    # A marker has no `Obstacle.touch` (for it see the parameter obstacles.touch), and no velocity:
    # that is the difference between two markers, see `moved_back`.
    kinds = {shape: kind for kind, shape in SHAPES.items()}
    for name, one in changes.items():
        marker = marker_of(name)
        if one is None:
            marker.action = DELETE
        else:
            marker.type = kinds[one.shape]
            marker.scale.x, marker.scale.y, marker.scale.z = {
                'box': lambda x, y, z: (x, y, z), 'sphere': lambda r: (2.0 * r,) * 3,
                'cylinder': lambda r, length: (2.0 * r, 2.0 * r, length),
                'capsule': lambda r, length: (2.0 * r, 0.0, 0.0),
                'half_space': lambda: (0.01, 0.02, 0.0)}[one.shape](*one.size)
            if one.shape in ('capsule', 'half_space'):
                half = 0.5 * one.size[1] if one.size else 0.0
                marker.points = [point(np.array([0.0, 0.0, z])) for z in (-half, half or 0.1)]
            if one.link:
                marker.header.frame_id, marker.frame_locked = one.link, True
            p, r = marker.pose.position, marker.pose.orientation
            p.x, p.y, p.z = one.pose[:3, 3].tolist()
            r.x, r.y, r.z, r.w = Rotation.from_matrix(one.pose[:3, :3]).as_quat().tolist()
        message.markers.append(marker)
    return message


def moved_back(one: Obstacle, time: float) -> Obstacle:
    """Return the obstacle at the place where it was `time` seconds ago, by its velocity."""
    T = one.pose.copy()
    T[:3, :3] = Rotation.from_rotvec(-time * one.velocity[:3]).as_matrix() @ T[:3, :3]
    T[:3, 3] -= time * one.velocity[3:]
    return replace(one, pose=T)
