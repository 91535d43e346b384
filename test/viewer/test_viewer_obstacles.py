# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Obstacles on the page: what it draws, and what it publishes when one is dragged."""

import re

import numpy as np
import pytest

pytest.importorskip('viser', reason="viser is not installed: pip install '.[viewer]'")

import browser as chromium
from browser import free_port, needs_browser
from common import CHECKOUT
from osc_ros import Obstacle
from osc_ros.collision.link_shapes import LinkShape, ShapeModel, shipped_shapes
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.viewer.panel import state_html
from osc_ros.viewer.scene.obstacle_scene import GREY, nearest_points, OPACITY, PLATE, RED, TEAL
from tolerances import SHOWN_DISTANCE
from viewer_readings import reading_of, READY
from viewer_rig import Arm, drag, Film, open_page, wait_for_text

TIP = np.array([0.5, 0.0, 0.5])
POSE = np.block([[np.diag([1.0, -1.0, -1.0]), TIP[:, None]], [np.zeros(3), 1.0]])
DOC = CHECKOUT / 'doc'
OFFERS = frozenset({'obstacles'})
MARGIN = 0.03  # [m]
STEPS = 60  # of the mouse that drags an obstacle towards the arm


def among(panda, held_off='', nearest='panda_hand viewer/1', **values):
    """Return a reading of a controller among obstacles."""
    obstacles = {'viewer/1': Obstacle.at('sphere', 0.06, (0.5, 0.0, 0.3)),
                 'a box/0': Obstacle.at('box', (0.1, 0.2, 0.3), (0.6, 0.3, 0.2)),
                 'post/7': Obstacle.at('cylinder', (0.05, 0.4), (0.3, 0.4, 0.2))}
    return reading_of(panda, **{'pose': POSE, 'offers': OFFERS, 'obstacles': obstacles, 'status': {
        'nearest pair': nearest, 'nearest distance [mm]': '23.4', 'held off by': held_off},
        **values})


def drawn_colors(page):
    drawn = page._scene._obstacles._objects._drawn
    return {name: one.color for name, (_, one) in drawn.items()}


def test_obstacles_are_half_transparent_and_red_while_they_hold_the_arm_off(page, panda):
    page.update(among(panda))
    drawn = page._scene._obstacles._objects._drawn
    assert drawn['viewer/1'][1].radius == 0.06
    assert drawn['a box/0'][1].dimensions == pytest.approx((0.1, 0.2, 0.3))
    assert (drawn['post/7'][1].radius, drawn['post/7'][1].height) == (0.05, 0.4)
    assert {one.opacity for _, one in drawn.values()} == {OPACITY}
    assert set(drawn_colors(page).values()) == {TEAL}
    page.update(among(panda, 'panda_link5 panda_link7, panda_hand a box/0'))
    assert drawn_colors(page) == {'viewer/1': TEAL, 'a box/0': RED, 'post/7': TEAL}
    page.update(among(panda, offers=frozenset()))  # the arm ignores them
    assert set(drawn_colors(page).values()) == {GREY}
    page.update(among(panda, obstacles={}))
    assert drawn == {}
    assert page._scene._obstacles._handles == {}


@pytest.mark.parametrize('other', ('viewer/1', 'a box/0', 'post/7', 'panda_link3'))
def test_line_joins_the_surfaces_of_the_nearest_pair(panda, other):
    reading, model = among(panda, nearest=f'panda_hand {other}'), shipped_shapes('panda')
    a, b, distance = nearest_points(reading, model)
    assert np.linalg.norm(a - b) == pytest.approx(abs(distance), abs=1e-9)
    assert 0.0 < distance < 1.0
    if other in reading.obstacles:
        assert reading.obstacles[other].depth(b) == pytest.approx(0.0, abs=1e-6)
    # no sampled point of the capsules is nearer
    T, rng = link_pose(panda[1], READY, 'panda_hand'), np.random.default_rng(0)
    for shape in model.shapes:
        if shape.link == 'panda_hand' and other in reading.obstacles:
            for s in rng.uniform(size=200):
                x = T[:3, :3] @ (shape.ends[0] + s * (shape.ends[1] - shape.ends[0])) + T[:3, 3]
                assert -reading.obstacles[other].depth(x) - shape.radius > distance - 1e-6


def test_distance_of_a_capsule_and_a_sphere(panda):
    model = ShapeModel((LinkShape('panda_link0', [[0, 0, 0], [0, 0, 1]], 0.1),
                        LinkShape('panda_link0', [[2, 0, 0.2], [2, 0, 0.2]], 0.2)))
    reading = among(panda, nearest='panda_link0 viewer/1')
    a, b, distance = nearest_points(reading, model)
    assert distance == pytest.approx(0.5 - 0.1 - 0.06)
    assert a == pytest.approx([0.1, 0.0, 0.3], abs=1e-4)
    assert b == pytest.approx([0.44, 0.0, 0.3], abs=1e-4)


@pytest.mark.parametrize(('shape', 'size', 'drawn_size'), (
    ('capsule', (0.05, 0.3), (0.1, 0.1, 0.4)), ('half_space', (), PLATE)))
def test_capsule_and_half_space_are_drawn_with_their_distance(page, panda, shape, size,
                                                               drawn_size):
    one = Obstacle.at(shape, size, (0.6, 0.0, -0.1))
    reading = among(panda, nearest='panda_hand a/0', obstacles={'a/0': one})
    page.update(reading)
    (_, drawn), = page._scene._obstacles._objects._drawn.values()
    extent = drawn.dimensions if shape == 'half_space' else np.ptp(drawn.vertices, axis=0)
    assert extent == pytest.approx(drawn_size, abs=2e-3)
    a, b, distance = nearest_points(reading, shipped_shapes('panda'))
    assert np.linalg.norm(a - b) == pytest.approx(distance, abs=1e-9)
    assert one.depth(b) == pytest.approx(0.0, abs=1e-6)
    assert -one.depth(a) == pytest.approx(distance, abs=1e-4)


@pytest.mark.parametrize('nearest', ('', 'panda_hand fence', 'panda_hand gone/0', 'gone viewer/1'))
def test_no_line_without_a_pair_that_is_known(page, panda, nearest):
    page.update(among(panda))
    scene = page._scene._obstacles
    assert scene._line.visible and scene._label.text.endswith(' mm')
    page.update(among(panda, nearest=nearest))
    assert not scene._line.visible and not scene._label.visible


def test_panel_names_the_nearest_pair_and_the_pairs_that_hold(panda):
    text = state_html(among(panda, 'panda_hand viewer/1'))
    assert 'nearest pair panda_hand – viewer/1: 23.4 mm' in text
    assert 'held off by: panda_hand viewer/1' in text
    assert 'nearest pair' not in state_html(reading_of(panda))


def test_only_obstacles_of_the_page_have_handles_which_request_while_they_are_dragged(
        page, asked, panda):
    from types import SimpleNamespace
    page.update(among(panda))
    handles = page._scene._obstacles._handles
    assert handles.keys() == {'viewer/1'}
    controls = handles['viewer/1']._controls
    assert controls.position == pytest.approx([0.5, 0.0, 0.3])
    assert page._scene._obstacles.is_free
    controls.position = 0.4, 0.0, 0.3
    for moved in controls._impl_aux.update_cb:
        moved(SimpleNamespace(phase='update', target=controls))
    page.update(among(panda))  # the obstacle has not moved yet
    assert controls.position == pytest.approx([0.4, 0.0, 0.3])
    assert not page._scene._obstacles.is_free
    (name, obstacle, position), = asked.calls
    assert (name, obstacle) == ('move_obstacle', 'viewer/1')
    assert position == pytest.approx([0.4, 0.0, 0.3])


def test_obstacles_are_added_where_the_arm_keeps_clear_and_deleted_where_there_are_any(
        page, panda):
    buttons = page._parts[4]
    page.update(reading_of(panda, pose=POSE))
    assert buttons._add.disabled and buttons._delete.disabled
    page.update(reading_of(panda, offers=OFFERS))
    assert buttons._add.disabled and buttons._delete.disabled  # where is the tip?
    page.update(among(panda))
    assert not buttons._add.disabled and not buttons._delete.disabled
    page.update(among(panda, offers=frozenset()))
    assert buttons._add.disabled and not buttons._delete.disabled
    obstacles = among(panda).obstacles
    del obstacles['viewer/1']
    page.update(among(panda, obstacles=obstacles))
    assert buttons._delete.disabled  # the others are not of a page


def test_slider_shows_and_sets_the_clearance(page, asked, panda):
    slider, reading = page._parts[4]._margin.handle, among(panda)
    page.update(reading)
    assert slider.disabled  # a controller without this parameter
    reading.parameters['clearance.margin'] = 0.25
    page.update(reading)
    assert (slider.disabled, slider.value) == (False, 0.25)
    slider._impl.value = 0.0  # as viser does for a user
    page.update(reading)
    page.update(reading)
    assert slider.value == 0.0
    assert asked.calls == [('set_parameter', 'clearance.margin', 0.0)]


# over ROS


class Obstacles:
    """A link to the obstacles of a controller, and a node that hears and sends their markers."""

    def __init__(self, spin, panda):
        from rclpy.node import Node
        from visualization_msgs.msg import MarkerArray

        from osc_ros.ros.viewer.viewer_obstacles import ObstacleLink
        self.reading = among(panda, obstacles={})
        self.reading.parameters['clearance.margin'] = 0.02
        self._viewer, self._other = Node('osc_viewer'), Node('other')
        self.link, self.heard = ObstacleLink(self._viewer, 'osc_controller', self.reading), []
        topic = 'osc_controller/obstacles'
        self._other.create_subscription(
            MarkerArray, topic, lambda message: self.heard.extend(message.markers), 100)
        self._publisher, self._spin = self._other.create_publisher(MarkerArray, topic, 10), spin
        self.wait(lambda: self._publisher.get_subscription_count() == 2
                  and self._viewer.count_subscribers(topic) == 2
                  and self.link._publisher.get_subscription_count() == 2, 'for the topics')

    def send(self, *markers):
        from visualization_msgs.msg import MarkerArray
        self._publisher.publish(MarkerArray(markers=list(markers)))

    def wait(self, happened, why):
        def check():
            self.link.update()
            return happened()

        self._spin(check, self._viewer, self._other, why=why)

    @property
    def places(self):
        return {name: one.pose[:3, 3].tolist() for name, one in self.reading.obstacles.items()}


@pytest.fixture
def known(spin, panda):
    """Return obstacles of a Panda."""
    pytest.importorskip('visualization_msgs', reason='visualization_msgs is not installed')
    return Obstacles(spin, panda)


def cube(frame, x, **options):
    """Return the marker 'box/3' of a cube on the x axis of a frame."""
    from visualization_msgs.msg import Marker
    found = Marker(ns='box', id=3, type=Marker.CUBE, **options)
    found.header.frame_id, found.pose.position.x = frame, x
    found.scale.x = found.scale.y = found.scale.z = 0.1
    return found


def test_markers_of_others_are_shown_moved_and_removed(known, panda):
    from visualization_msgs.msg import Marker
    known.send(cube('', 0.5))
    known.wait(lambda: known.places == {'box/3': [0.5, 0.0, 0.0]}, 'for the cube')
    known.send(cube('panda_hand', 0.5))
    at = link_pose(panda[1], READY, 'panda_hand') @ [0.5, 0.0, 0.0, 1.0]
    known.wait(lambda: known.places['box/3'] == pytest.approx(at[:3]), 'for the cube at the hand')
    known.send(cube('', 0.5, action=Marker.DELETE))
    known.wait(lambda: known.places == {}, 'for the end of the cube')
    known.send(cube('', 0.5))
    known.wait(lambda: known.places, 'for the cube')
    known.reading.lifecycle = 'absent'
    known.wait(lambda: known.places == {}, 'for the end of the controller')


def test_page_adds_moves_and_deletes_spheres_with_stamps(known):
    from visualization_msgs.msg import Marker

    from osc_ros.ros.messages import messages
    from osc_ros.ros.viewer.viewer_node import Requests
    requests, link = Requests(), known.link
    known.send(cube('', 0.5))
    known.wait(lambda: 'box/3' in known.places, 'for the cube')

    def carry_out(stamp):
        from types import SimpleNamespace
        link.stamp = messages.stamp(stamp)
        requests.carry_out(SimpleNamespace(obstacles=link, target=None, set_parameter=None))

    requests.call('add obstacle')
    carry_out(1.0)
    known.wait(lambda: 'viewer/1' in known.places, 'for the sphere')
    assert known.places['viewer/1'] == pytest.approx([0.8, 0.0, 0.35])  # beside the tip
    requests.call('add obstacle')
    carry_out(1.5)
    known.wait(lambda: known.places.keys() == {'box/3', 'viewer/1', 'viewer/2'}, 'for another')
    # several positions of one period are one message
    for x in (0.45, 0.4):
        requests.move_obstacle('viewer/1', np.array([x, 0.0, 0.3]))
    del known.heard[:]
    carry_out(2.0)
    known.wait(lambda: known.places['viewer/1'] == pytest.approx([0.4, 0.0, 0.3]), 'for the move')
    # when the user lets go, the page sends the position again, so that the velocity becomes 0
    link.stamp = messages.stamp(2.2)
    known.wait(lambda: [one.id for one in known.heard].count(1) == 2, 'for the rest')
    moved = [one for one in known.heard if one.id == 1]
    assert [messages.seconds(one.header.stamp) for one in moved] == [2.0, 2.2]
    assert {(one.ns, one.type, one.scale.x, one.pose.position.x) for one in moved} == {
        ('viewer', Marker.SPHERE, 0.12, 0.4)}
    requests.move_obstacle('viewer/1', np.zeros(3))  # too late
    requests.call('delete obstacles')
    carry_out(3.0)
    known.wait(lambda: known.places.keys() == {'box/3'}, 'for the end')


def test_obstacles_are_offered_by_a_controller_that_keeps_clear(known):
    assert not known.link.is_offered
    known.reading.control.status['obstacles'] = '0'
    assert known.link.is_offered
    known.reading.parameters['clearance.margin'] = 0.0
    assert not known.link.is_offered


# in a browser


class AmongObstacles(Arm):
    """An arm with a clearance, and a record of the markers on `~/obstacles`."""

    def __init__(self, spin, start, port, margin):
        from visualization_msgs.msg import MarkerArray
        super().__init__(spin, start, port, '', '-p', f'clearance.margin:={margin}')
        topic, self.heard = 'osc_controller/obstacles', []
        self.node.create_subscription(
            MarkerArray, topic, lambda message: self.heard.extend(message.markers), 100)
        self._publisher = self.node.create_publisher(MarkerArray, topic, 10)
        self.wait(lambda: self._publisher.get_subscription_count() == 3, 'the topic')

    @property
    def place(self):
        """Position (3,) in the newest marker."""
        p = self.heard[-1].pose.position
        return np.array([p.x, p.y, p.z])

    def send(self, marker, position, scale, **options):
        """Send a marker 'ns/id' at a position (3,) with a scale (3,)."""
        from visualization_msgs.msg import Marker, MarkerArray
        namespace, _, number = marker.partition('/')
        one = Marker(ns=namespace, id=int(number), **options)
        p, s = one.pose.position, one.scale
        (p.x, p.y, p.z), (s.x, s.y, s.z) = map(float, position), map(float, scale)
        self._publisher.publish(MarkerArray(markers=[one]))


def show_shapes(tab):
    """Click the box that shows the collision shapes."""
    tab.value("[...document.querySelectorAll('label')].find("
              "one => one.textContent === 'collision shapes').click()")


@needs_browser
@pytest.mark.slow  # quick: test_page_adds_moves_and_deletes_spheres_with_stamps
def test_arm_gives_way_to_an_obstacle_that_is_dragged_in_the_browser(spin, start, request):
    """With --write-tables, write the film of doc/collision.md."""
    pytest.importorskip('visualization_msgs', reason='visualization_msgs is not installed')
    from visualization_msgs.msg import Marker
    port, shown = free_port(), []
    arm = AmongObstacles(spin, start, port, 0.0)
    with chromium.browser() as tab:
        film = Film(tab, request.config.getoption('--write-tables'))

        def look():
            film.take()
            shown.extend(map(float, re.findall(r'nearest pair .*: ([\d.-]+) mm', tab.text())))
            return shown[-1]

        open_page(arm, port, tab)
        show_shapes(tab)
        tab.set_slider('clearance [m]', MARGIN)
        wait_for_text(arm, tab, 'nearest pair')
        look()
        before = arm.tip.copy()
        tab.press('add obstacle')
        arm.wait(lambda: arm.heard, 'the sphere')
        place = arm.place
        up, back = np.array([0.0, 0.0, before[2] + 0.04 - place[2]]), np.array([-0.29, 0.0, 0.0])
        arrow_up, arrow_ahead = np.array([0.0, 0.0, 0.12]), np.array([0.12, 0.0, 0.0])
        drag(tab, arm, place + arrow_up, place + arrow_up + up, each=look)
        arm.wait(lambda: arm.place == pytest.approx(place + up, abs=5e-3), 'the move upwards')
        place = arm.place + arrow_ahead
        drag(tab, arm, place, place + back, STEPS, look)
        wait_for_text(arm, tab, " mm from 'viewer/1'")  # the reason of the controller
        wait_for_text(arm, tab, ' – viewer/1: ')
        arm.wait(lambda: look() >= 1e3 * MARGIN - SHOWN_DISTANCE, 'the margin, at rest')
        assert np.linalg.norm(arm.tip - before) > 0.05
        drag(tab, arm, place + back, place, 30, look)
        arm.wait(lambda: np.linalg.norm(arm.tip - before) < 5e-3, 'the way back')
        tab.press('delete obstacles')
        arm.wait(lambda: arm.heard[-1].action == Marker.DELETEALL, 'the end of the sphere')
        wait_for_text(arm, tab, 'held off by: nothing')
        look()
        assert tab.errors == []
        film.save(DOC / 'collision.webp')
    # a slow mouse rests between its steps: the arm gives way only after a step
    step = 1e3 * np.linalg.norm(back) / STEPS
    assert min(shown) >= 1e3 * MARGIN - step - SHOWN_DISTANCE


@needs_browser
@pytest.mark.slow  # quick: test_line_joins_the_surfaces_of_the_nearest_pair
def test_browser_shows_the_nearest_obstacle(spin, start, request):
    """With --write-tables, write the picture of doc/collision.md."""
    pytest.importorskip('visualization_msgs', reason='visualization_msgs is not installed')
    from visualization_msgs.msg import Marker
    write, port = request.config.getoption('--write-tables'), free_port()
    arm = AmongObstacles(spin, start, port, MARGIN)
    with chromium.browser() as tab:
        open_page(arm, port, tab)
        show_shapes(tab)
        before = arm.tip.copy()
        arm.send('box/0', before + [0.0, 0.0, -0.095], (0.2, 0.3, 0.1), type=Marker.CUBE)
        wait_for_text(arm, tab, ' – box/0')
        arm.rest(1.0)
        if write:
            tab.picture(DOC / 'collision.png')
        assert tab.errors == []
