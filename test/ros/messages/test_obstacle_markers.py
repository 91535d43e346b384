# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Markers as obstacles: read from bytes, refused one by one, the nearest ones chosen."""

import re

from hypothesis import given, HealthCheck, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common import naming

pytest.importorskip('rclpy', reason='rclpy is not installed')
pytest.importorskip('visualization_msgs', reason='visualization_msgs is not installed')

from geometry_msgs.msg import Point
from rclpy.serialization import serialize_message
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from osc_ros import InputError, Obstacle
from osc_ros.collision.obstacles import MOST_OBSTACLES, Obstacles
from osc_ros.ros.messages import messages
from osc_ros.ros.messages.obstacle_markers import (
    MarkerObstacles,
    markers_in,
    markers_of,
    moved_back,
)

NUMBERS = st.floats() | st.floats(-2.0, 2.0)
TEXTS = st.text(st.characters(codec='utf-8', exclude_characters='\0'), max_size=5)  # C ends at 0
patient = settings(suppress_health_check=[HealthCheck.too_slow])  # a draw has many numbers


def frame_pose(frame):
    """Return the pose of the base, of 'hand', or of 'table', 1 m beside it."""
    if frame not in ('', 'base', 'hand', 'table'):
        raise InputError(f"no frame '{frame}': give base, hand, table")
    T = np.eye(4)
    T[0, 3] = 1.0 * (frame == 'table')
    return T


def marker(name='box/0', kind=Marker.CUBE, position=(0.5, 0.0, 0.5), scale=(0.1, 0.2, 0.3),
           frame='base', stamp=0.0, action=Marker.ADD, lifetime=0.0, xyzw=(0.0, 0.0, 0.0, 1.0),
           points=(), locked=False):
    """Return a marker."""
    namespace, _, number = name.rpartition('/')
    found = Marker(ns=namespace, id=int(number), type=kind, action=action, frame_locked=locked)
    found.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in points]
    found.header.frame_id, found.header.stamp = frame, messages.stamp(stamp)
    p, r, s = found.pose.position, found.pose.orientation, found.scale
    p.x, p.y, p.z = map(float, position)
    r.x, r.y, r.z, r.w = map(float, xyzw)
    s.x, s.y, s.z = map(float, scale)
    found.lifetime.sec, found.lifetime.nanosec = divmod(round(lifetime * 1e9), 10**9)
    return found


def data_of(*markers):
    return serialize_message(MarkerArray(markers=list(markers)))


class Known:
    """Obstacles as a controller knows them."""

    def __init__(self, arm=((0.0, 0.0, 0.0),)):
        self.source = MarkerObstacles(frame_pose, lambda: np.array(arm), 'hand'.__eq__)
        self.obstacles, self.refused, self.things = Obstacles(), [], {}

    def take(self, *markers, now=0.0, data=None):
        self.refused = self.source.take(data_of(*markers) if data is None else data, now)
        self.refused += self.pass_to(now).more
        return self

    def pass_to(self, now):
        changes, self.more = self.source.changes(now)
        for name, one in changes.items():
            self.things.pop(name, None)
            if one is not None and one.link:
                self.things[name] = one
        self.obstacles.update({name: None if name in self.things else one
                               for name, one in changes.items()})
        return self


@st.composite
def any_markers(draw):
    found = marker(f'{draw(TEXTS)}/{draw(st.integers(-3, 3))}',
                   draw(st.integers(-1, 12)), [draw(NUMBERS) for _ in range(3)],
                   [draw(NUMBERS) for _ in range(3)],
                   draw(st.sampled_from(['base', 'table', 'hand', '', 'moon', 'ÿ'])),
                   draw(st.floats(0.0, 1e6)), draw(st.integers(-1, 4)),
                   draw(st.floats(0.0, 1e3)), [draw(NUMBERS) for _ in range(4)])
    for _ in range(draw(st.integers(0, 3))):
        found.points.append(Point(x=draw(NUMBERS), z=draw(NUMBERS)))
        found.colors.append(ColorRGBA())
    found.text, found.mesh_resource = draw(TEXTS), draw(TEXTS)
    found.texture_resource = draw(TEXTS)
    found.texture.data = draw(st.binary(max_size=5))
    found.mesh_file.data = draw(st.binary(max_size=5))
    found.frame_locked = draw(st.booleans())
    return found


@patient
@given(st.lists(any_markers(), max_size=6))
def test_fields_are_those_that_rclpy_reads(given_markers):
    found = list(markers_in(data_of(*given_markers)))
    assert len(found) == len(given_markers)
    for one, wanted in zip(found, given_markers):
        p, r, s = wanted.pose.position, wanted.pose.orientation, wanted.scale
        assert one[:6] == (wanted.header.frame_id, messages.seconds(wanted.header.stamp),
                           wanted.ns, wanted.id, wanted.type, wanted.action)
        np.testing.assert_array_equal(one.numbers, (
            p.x, p.y, p.z, r.x, r.y, r.z, r.w, s.x, s.y, s.z))
        assert one.lifetime == pytest.approx(messages.seconds(wanted.lifetime))
        assert one.is_locked == wanted.frame_locked
        np.testing.assert_array_equal(one.points, [
            x for p in wanted.points for x in (p.x, p.y, p.z)] if len(wanted.points) == 2 else [])


@patient
@given(st.lists(any_markers(), max_size=8))
def test_bad_markers_raise_nothing_and_no_other_marker_is_lost(given_markers):
    known = Known().take(marker('kept/7'))
    for one in given_markers:
        if one.action == Marker.DELETEALL:
            one.action = 9
        if one.ns == 'kept':
            one.id = 8
    half = len(given_markers) // 2
    known.take(*given_markers[:half], marker('good/7'), *given_markers[half:])
    assert {'kept/7', 'good/7'} <= set(known.obstacles)
    for one in known.refused:
        assert re.search('give|must be', one)
    assert known.source.refused == len(known.refused)


@given(st.binary(max_size=300), st.integers(0, 400))
def test_bytes_that_are_no_message_raise_nothing(tail, length):
    known = Known().take(marker('kept/7'))
    for data in (tail, data_of(marker('new/1'), marker('new/2'))[:length] + tail):
        known.take(data=data)
    assert 'kept/7' in known.obstacles


@pytest.mark.parametrize(('bad', 'text'), [
    (marker(position=(np.nan, 0.0, 0.0)), naming("'box/0'", 'nan', 'must be finite')),
    (marker(scale=(0.1, 0.0, 0.1)), naming("'box/0'", 'must be', 'more than 0 m')),
    (marker(xyzw=(0.0, 0.0, 0.0, 0.0)), naming("'box/0'", 'quaternion', 'must be')),
    (marker(scale=(2.0, 2.0, 2.0)), naming("'box/0'", 'contains the base', 'must be')),
    (marker(position=(2e3, 0.0, 0.0)), naming("'box/0'", 'must be at most 1000 m')),
    (marker(frame='moon'), naming("'box/0'", "no frame 'moon'", 'give')),
    (marker(kind=Marker.LINE_STRIP), naming("'box/0'", 'LINE_STRIP', 'give two points')),
    (marker(kind=Marker.LINE_STRIP, points=np.ones((2, 3))), naming('points', 'two different')),
    (marker(kind=Marker.ARROW, points=[[0, 0, 0], [np.inf, 0, 0]]), naming('points', 'finite')),
    (marker(kind=Marker.ARROW, position=(0.0, 0.0, 1.0), points=[[0, 0, 0], [0, 0, 1]]),
     naming("'box/0'", 'contains the base', 'must be')),
    (marker(frame='hand', locked=True, kind=Marker.ARROW), naming("'box/0'", 'half_space')),
    (marker(kind=Marker.LINE_LIST), naming("'box/0'", 'type 5', 'give ARROW, CUBE')),
    (marker(action=1), naming("'box/0'", 'action 1', 'give ARROW, CUBE, SPHERE'))])
def test_refused_marker_is_named_with_what_is_accepted_and_the_old_one_stays(bad, text):
    known = Known().take(bad)
    assert not known.obstacles
    known = Known().take(marker(), marker('box/1'))
    before = known.obstacles['box/0']
    known.take(bad, marker('box/1', position=(0.6, 0.0, 0.5)))
    [refusal] = known.refused
    assert re.search(text, refusal), refusal
    assert known.obstacles['box/0'] is before
    assert known.obstacles['box/1'].pose[0, 3] == 0.6


def test_shapes_frames_and_sizes():
    known = Known().take(
        marker('a/1', frame='table'), marker('a/2', Marker.SPHERE, scale=(0.2, 0.4, 0.2)),
        marker('a/3', Marker.CYLINDER, scale=(0.2, 0.1, 0.6), xyzw=(0.0, 1.0, 0.0, 0.0)))
    box, ball, rod = (known.obstacles[f'a/{number}'] for number in (1, 2, 3))
    assert (box.shape, box.size, box.pose[0, 3]) == ('box', (0.1, 0.2, 0.3), 1.5)
    assert (ball.shape, ball.size) == ('sphere', (0.2,))
    assert (rod.shape, rod.size) == ('cylinder', (0.1, 0.6))
    np.testing.assert_allclose(rod.pose[:3, :3], np.diag([-1.0, 1.0, -1.0]), atol=1e-12)


def test_markers_are_moved_deleted_and_end_with_their_lifetime():
    known = Known().take(marker('a/1', lifetime=0.5), marker('a/2'), marker('b/1'), now=1.0)
    assert set(known.pass_to(1.4).obstacles) == {'a/1', 'a/2', 'b/1'}
    known.take(marker('a/1', lifetime=0.5), now=1.4)
    assert set(known.pass_to(1.8).obstacles) == {'a/1', 'a/2', 'b/1'}
    assert set(known.pass_to(2.0).obstacles) == {'a/2', 'b/1'}
    known.take(marker('b/1', action=Marker.DELETE), marker('none/1', action=Marker.DELETE))
    assert set(known.obstacles) == {'a/2'}
    clear = marker('/0', action=Marker.DELETEALL)
    known.take(marker('b/1'), marker('b/0', action=Marker.DELETEALL))
    assert set(known.obstacles) == {'a/2'}
    known.take(clear, marker('c/1'))
    assert set(known.obstacles) == {'c/1'}


@given(st.floats(0.01, 0.9), st.lists(st.floats(-1.0, 1.0), min_size=6, max_size=6))
def test_velocity_is_that_of_successive_stamps(dt, V):
    turn, shift = dt * np.array(V[:3]), dt * np.array(V[3:])
    start = Rotation.from_rotvec([0.3, 0.2, 0.1])
    known = Known().take(marker(position=(3.0, 0.0, 0.0), stamp=5.0, xyzw=start.as_quat()))
    assert not known.obstacles['box/0'].velocity.any()
    moved = marker(position=shift + (3.0, 0.0, 0.0), stamp=5.0 + dt,
                   xyzw=(Rotation.from_rotvec(turn) * start).as_quat())
    dt = messages.seconds(moved.header.stamp) - 5.0
    for _ in range(2):  # the same stamp again changes nothing
        known.take(moved)
        np.testing.assert_allclose(known.obstacles['box/0'].velocity * dt, np.r_[turn, shift],
                                   atol=1e-7)


def test_obstacle_that_stands_still_is_not_sent_again():
    known = Known().take(marker(stamp=5.0), marker('ball/0', stamp=5.0))
    box, ball = known.obstacles['box/0'], known.obstacles['ball/0']
    for stamp in (5.1, 5.2):
        moved = marker('ball/0', position=(stamp, 0.0, 1.0), stamp=stamp)
        known.take(marker(stamp=stamp, lifetime=1.0), moved, now=stamp)
        assert known.obstacles['box/0'] is box
        assert known.obstacles['ball/0'] is not ball
    known.take(marker('ball/0', position=(5.2, 0.0, 1.0), stamp=5.3), now=5.3)
    assert not known.obstacles['ball/0'].velocity.any()
    assert set(known.pass_to(6.3).obstacles) == {'ball/0'}  # the lifetime counts from the last one


@pytest.mark.parametrize(('stamps', 'position'), [
    ((5.0, 4.0), (3.1, 0.0, 0.0)), ((5.0, 7.0), (3.1, 0.0, 0.0)),
    ((5.0, 5.1), (-3.0, 0.0, 0.0))])
def test_other_clock_gap_or_jump_is_no_velocity(stamps, position):
    known = Known().take(marker(position=(3.0, 0.0, 0.0), stamp=stamps[0]))
    known.take(marker(position=position, stamp=stamps[1]))
    assert not known.obstacles['box/0'].velocity.any()
    np.testing.assert_array_equal(known.obstacles['box/0'].pose[:3, 3], position)


def test_obstacle_that_jumps_does_not_fly_and_one_that_flies_does():
    known, flies = Known(), np.array([0.4, -0.3, 1.0])
    for k in range(3):
        known.take(marker(position=(3.0 + 0.01 * (k == 2), 0.0, 0.0), stamp=5.0 + 0.1 * k),
                   marker('ball/0', position=(0.1 * k * flies).tolist(), stamp=5.0 + 0.1 * k),
                   now=5.0 + 0.1 * k)
    assert not known.obstacles['box/0'].velocity.any()
    np.testing.assert_allclose(known.obstacles['ball/0'].velocity[3:], flies, atol=1e-6)


def test_of_ten_thousand_markers_the_nearest_count_and_the_rest_is_counted():
    rng = np.random.default_rng(1)
    places = rng.uniform(-5.0, 5.0, (10_100, 3)) + [0.0, 0.0, 6.0]
    known = Known(arm=((0.0, 0.0, 1.0), (0.0, 0.0, 2.0)))
    known.take(*(marker(f'a/{k}', Marker.SPHERE, place, (0.1, 0.1, 0.1))
                 for k, place in enumerate(places)))
    gaps = np.minimum(np.linalg.norm(places - [0.0, 0.0, 1.0], axis=1),
                      np.linalg.norm(places - [0.0, 0.0, 2.0], axis=1))[:10_000]
    nearest = np.argsort(gaps)[:MOST_OBSTACLES]
    assert set(known.obstacles) == {f'a/{k}' for k in nearest}
    assert known.source.left_out == 10_000 - MOST_OBSTACLES
    assert len(known.refused) == 100
    assert 'give no more' in known.refused[0]
    first = f'a/{nearest[0]}'
    known.take(marker(first, action=Marker.DELETE))
    assert first not in known.obstacles
    assert len(known.obstacles) == MOST_OBSTACLES


def test_tips_may_touch_the_names_and_namespaces_of_the_parameter():
    known = Known().take(marker('table/0'), marker('wall/0'), marker('wall/1'))
    known.source.use_touch(['table', 'wall/1'])
    known.pass_to(0.0)
    assert {name for name, one in known.obstacles.items() if one.touch} == {'table/0', 'wall/1'}
    known.source.use_touch([])
    assert not any(one.touch for one in known.pass_to(0.0).obstacles.values())


@pytest.mark.parametrize('link', ['', 'hand'])
@pytest.mark.parametrize(('shape', 'size'), [
    ('box', (0.1, 0.2, 0.3)), ('sphere', 0.2), ('cylinder', (0.1, 0.4)), ('capsule', (0.1, 0.4)),
    ('half_space', ())])
def test_obstacle_comes_back_from_its_marker(shape, size, link):
    if shape == 'half_space' and link:
        return
    sent = Obstacle(shape, Obstacle.at(shape, size, np.ones(3)).size, messages.pose_array(
        marker(position=(1.0, 2.0, 3.0), xyzw=(0.6, 0.0, 0.0, 0.8)).pose), link=link)
    message = markers_of({'one': sent, 'other': None}, MarkerArray(), lambda name: Marker(ns=name))
    known = Known().take(marker('other/0'), *message.markers)
    found = known.things if link else known.obstacles
    assert list(found) == ['one/0']
    assert [*known.obstacles, *known.things] == ['one/0']
    one = found['one/0']
    assert (one.shape, one.link) == (sent.shape, link)
    np.testing.assert_allclose(one.size, sent.size, atol=1e-12)
    np.testing.assert_allclose(one.pose, sent.pose, atol=1e-12)


def test_velocity_is_that_of_two_markers_of_one_message():
    sent = Obstacle('box', (0.1, 0.2, 0.3), Obstacle.at('box', (1, 1, 1), (2, 0, 1)).pose,
                    [0.1, 2.0, -0.3, 1.0, 2.0, -3.0])
    message = MarkerArray()
    for one, stamp in ((moved_back(sent, 0.01), 5.0), (sent, 5.01)):
        markers_of({'one': one}, message, lambda name, t=stamp: marker(f'{name}/0', stamp=t))
    known = Known().take(marker('one/0', position=(2.0, 1.0, 1.0), stamp=4.999))
    found = known.take(*message.markers).obstacles['one/0']
    np.testing.assert_allclose(found.velocity, sent.velocity, atol=1e-6)


def test_line_is_a_capsule_and_an_arrow_points_out_of_a_half_space():
    known = Known().take(
        marker('a/1', Marker.LINE_STRIP, (0.0, 0.0, 1.0), (0.2, 0.0, 0.0),
               points=[[1.0, -0.2, 0.0], [1.0, 0.4, 0.0]]),
        marker('a/2', Marker.ARROW, (0.0, 0.0, -1.0), (0.0, 0.0, 0.0), frame='table',
               points=[[0.0, 0.0, 0.5], [0.0, 0.0, 0.7]]),
        marker('a/3', Marker.ARROW, (-1.0, 0.0, 0.0), (0.1, 0.1, 0.1)))
    assert not known.refused
    rod, floor, wall = (known.obstacles[f'a/{number}'] for number in (1, 2, 3))
    assert (rod.shape, rod.size) == ('capsule', pytest.approx((0.1, 0.6)))
    np.testing.assert_allclose(rod.pose[:3, 2:].T, [[0.0, 1.0, 0.0], [1.0, 0.1, 1.0]], atol=1e-12)
    np.testing.assert_allclose(floor.pose[:3, 2:].T, [[0.0, 0.0, 1.0], [1.0, 0.0, -0.5]],
                               atol=1e-12)
    np.testing.assert_allclose(wall.pose[:3, 2], [1.0, 0.0, 0.0], atol=1e-12)
    assert (floor.shape, wall.depth(np.array([-1.5, 3.0, 0.0]))) == ('half_space', 0.5)


def test_marker_locked_to_a_link_that_moves_is_held_until_another_frame_or_its_end():
    held = marker('a/1', frame='hand', locked=True, position=(0.5, 0.0, 0.1))
    known = Known().take(held, marker('a/2', frame='table', locked=True), marker('a/3'))
    thing = known.things['a/1']
    assert (thing.link, thing.pose[2, 3]) == ('hand', 0.1)
    assert set(known.obstacles) == {'a/2', 'a/3'}  # a table does not hold things
    held.pose.position.z = 0.1005
    assert known.take(held).things['a/1'] is thing
    held.pose.position.z = 0.1015  # small changes do not add up unnoticed
    assert known.take(held).things['a/1'].pose[2, 3] == 0.1015
    held.frame_locked = False
    assert not known.take(held).things
    assert not known.obstacles['a/1'].velocity.any()
    held.frame_locked, held.lifetime.sec = True, 1
    assert set(known.take(held, now=1.0).things) == {'a/1'}
    assert set(known.obstacles) == {'a/2', 'a/3'}
    assert not known.pass_to(3.0).things
    known.take(held, marker('a/1', action=Marker.DELETE))
    assert not known.things


def test_things_on_links_count_beside_the_nearest_obstacles():
    known = Known().take(marker('far/1', frame='hand', locked=True, position=(3.0, 0.0, 0.0)),
                         marker('floor/1', Marker.ARROW, (0.0, 0.0, -0.9), (0.0, 0.0, 0.0),
                                points=[[0, 0, 0], [0, 0, 1]]),
                         *(marker(f'a/{k}') for k in range(MOST_OBSTACLES)))
    assert set(known.things) == {'far/1'}
    assert 'floor/1' in known.obstacles
    assert known.source.left_out == 1
