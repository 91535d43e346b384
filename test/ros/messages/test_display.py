# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Markers and transforms for RViz and Foxglove, message by message; their configurations."""

from collections.abc import Iterator
import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
import yaml

from arm import PANDA, READY
from common import CHECKOUT

pytest.importorskip('rclpy', reason='rclpy is not installed')

from builtin_interfaces.msg import Time
from geometry_msgs.msg import TwistStamped, WrenchStamped
from rclpy.node import Node
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import String

from osc_ros import Robot
from osc_ros.dynamics.algebra.kinematics import link_pose, tip_jacobian
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.ros.controller import display
from osc_ros.ros.messages import markers, messages, transforms
from osc_ros.ros.parameters.display_parameters import DISPLAY
from osc_ros.ros.parameters.parameters import declare
from osc_ros.sim.objects import NAMES
from osc_ros.tools.check.arm_dynamics import mass_matrix
from tolerances import AGREEMENT

RVIZ_TYPES = {'MarkerArray': 'MarkerArray', 'Pose': 'PoseStamped', 'Wrench': 'WrenchStamped'}
needs_markers = pytest.mark.skipif(markers.MarkerArray is None,
                                   reason='visualization_msgs is not installed')


@pytest.fixture(scope='module')
def robot():
    """Return the Panda."""
    return Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)


def tick(robot, q=READY, error=(0.0,) * 6, F=(0.0,) * 6, external=None):
    """Return a tick at q, with its pose."""
    return markers.Tick(Time(sec=3, nanosec=5), np.array(q), link_pose(robot, np.array(q),
                                                                       robot.tip),
                        np.array(error), np.array(F),
                        None if external is None else np.array(external))


def drawn(maker, *ticks):
    """Return the markers of the last of some ticks by namespace and number, over the wire."""
    for one in ticks:
        message = maker.message(one)
    message = deserialize_message(serialize_message(message), markers.MarkerArray)
    return {(marker.ns, marker.id): marker for marker in message.markers}


def array(point):
    """Return a point as an array."""
    return np.array([point.x, point.y, point.z])


@pytest.fixture
def maker(robot):
    """Return what makes the markers of the Panda."""
    return markers.MarkerMessages(robot, SingularityDamping())


@needs_markers
def test_every_marker_is_in_the_base_frame_with_the_stamp_of_the_state_and_vanishes(maker, robot):
    found = drawn(maker, tick(robot, error=[0.1] * 6, F=[5.0] * 6, external=[9.0] * 6))
    assert {ns for ns, _ in found} == {'target', 'error', 'force', 'external_force', 'mobility'}
    for marker in found.values():
        assert marker.header.frame_id == 'panda_link0'
        assert (marker.header.stamp.sec, marker.header.stamp.nanosec) == (3, 5)
        assert marker.action == markers.Marker.ADD
        assert marker.lifetime.sec == 1
        assert marker.color.a > 0.0


@needs_markers
def test_target_is_the_pose_that_the_error_leads_to(maker, robot):
    error = np.array([0.3, -0.2, 0.5, 0.05, 0.02, -0.04])
    one = tick(robot, error=error)
    marker = drawn(maker, one)['target', 0]
    assert marker.type == markers.Marker.LINE_LIST
    points = np.array([array(point) for point in marker.points]).reshape(3, 2, 3)
    origin = one.pose[:3, 3] + error[3:]
    np.testing.assert_allclose(points[:, 0], [origin] * 3, atol=1e-12)
    axes = (points[:, 1] - points[:, 0]) / markers.AXIS
    R = Rotation.from_rotvec(error[:3]).as_matrix() @ one.pose[:3, :3]
    np.testing.assert_allclose(axes.T, R, atol=1e-12)
    assert [round(color.r, 2) for color in marker.colors[::2]] == [0.86, 0.16, 0.16]


@needs_markers
@pytest.mark.parametrize('ns, given, scale', [
    ('error', {'error': [0.0, 0.0, 0.0, 0.01, -0.02, 0.03]}, 1.0),
    ('force', {'F': [9.0, 9.0, 9.0, 10.0, -20.0, 30.0]}, markers.FORCE_SCALE),
    ('external_force', {'external': [9.0, 9.0, 9.0, 10.0, -20.0, 30.0]}, markers.FORCE_SCALE)])
def test_arrows_begin_at_the_link_and_have_the_length_of_their_vector(maker, robot, ns, given,
                                                                       scale):
    one = tick(robot, **given)
    begin, end = drawn(maker, one)[ns, 0].points
    np.testing.assert_allclose(array(begin), one.pose[:3, 3])
    vector = np.array(next(iter(given.values())))[3:]
    np.testing.assert_allclose(array(end) - array(begin), scale * vector, atol=1e-12)
    after = drawn(maker, tick(robot))[ns, 0]  # nothing to draw any more
    assert after.action == markers.Marker.DELETE
    assert (ns, 0) not in drawn(maker, tick(robot))


@needs_markers
def test_ellipsoid_is_that_of_the_mobility_by_textbook_formulas(maker, robot):
    one = tick(robot)
    marker = drawn(maker, one)['mobility', 0]
    J = tip_jacobian(robot, READY)[3:]
    mobility = J @ np.linalg.solve(mass_matrix(robot, READY), J.T)
    r, s = marker.pose.orientation, marker.scale
    R = Rotation.from_quat([r.x, r.y, r.z, r.w]).as_matrix()
    drawn_mobility = R @ np.diag(np.array([s.x, s.y, s.z]) / (2.0 * markers.MOBILITY_SCALE)) @ R.T
    np.testing.assert_allclose(drawn_mobility, mobility, rtol=1e-6, atol=1e-6 * s.z)
    np.testing.assert_allclose(array(marker.pose.position), one.pose[:3, 3])


@needs_markers
def test_joints_near_a_limit_and_singular_postures_are_marked_until_they_are_left(maker, robot):
    q = READY.copy()
    q[3] = robot.position_limits[3, 0] + 0.05
    found = drawn(maker, tick(robot, q))
    assert {key for key in found if key[0] == 'limits'} == {('limits', 3)}
    np.testing.assert_allclose(array(found['limits', 3].pose.position),
                               link_pose(robot, q, 'panda_link4')[:3, 3])
    assert found['texts', 3].text == 'panda_joint4: 0.05 to its limit'
    after = drawn(maker, tick(robot))
    assert {key for key in after if after[key].action == markers.Marker.DELETE} == {
        ('limits', 3), ('texts', 3)}
    straight = drawn(maker, tick(robot, [0.0, 0.0, 0.0, -0.08, 0.0, 0.05, 0.0]))
    assert straight['texts', 1000].text.startswith('singular posture: 0.0')


class StandInLoop:
    """A loop that must not be locked: `request` fails."""

    def __init__(self):
        """Have the newest state of a Panda."""
        self.q, self.time = READY.copy(), 7.25

    def request(self, what, *arguments):
        """Fail."""
        raise AssertionError(f'the display waits for the loop: {what}')


class Transforms:
    """Takes the place of tf2_msgs.msg.TFMessage, which pip cannot install."""

    def __init__(self, transforms):
        """Store the transforms."""
        self.transforms = transforms


class Recorder:
    """A node that keeps the messages of its publishers, by topic, and sends none."""

    def __init__(self, node):
        """Use the node for all else."""
        self._node, self.sent = node, {}

    def __getattr__(self, name):
        """Return the attribute of the node."""
        return getattr(self._node, name)

    def create_publisher(self, kind, topic, qos):
        """Return a publisher that has one subscriber."""
        self.sent[topic] = []
        return SimpleNamespace(publish=self.sent[topic].append, topic_name='/tf',
                               get_subscription_count=lambda: 1)

    def destroy_publisher(self, publisher):
        """Do nothing."""


@pytest.fixture
def shown(ros, robot, monkeypatch) -> Iterator[tuple]:
    """Yield a node, its display, and the messages of its publishers by topic."""
    node = Node('osc_controller')
    declare(node, DISPLAY)
    recorder = Recorder(node)
    monkeypatch.setattr(transforms, 'TFMessage', Transforms)
    monkeypatch.setattr(transforms, 'LOOK_PERIOD', 0.0)
    law = SimpleNamespace(robot=robot, settings=SimpleNamespace(damping=SingularityDamping()))
    found = display.Display(recorder, StandInLoop(), law)
    yield node, found, recorder.sent
    found.close()
    node.destroy_node()


def set_parameter(node, name, value):
    """Set a parameter of a node."""
    from rclpy.parameter import Parameter
    [answer] = node.set_parameters([Parameter(name, value=value)])
    assert answer.successful


def test_transforms_of_all_links_are_published_only_if_wanted(shown, robot):
    node, found, sent = shown
    found.publish_transforms()
    assert not sent
    set_parameter(node, 'publish_tf', True)
    found.publish_transforms()
    [message] = sent['/tf']
    assert {one.child_frame_id for one in message.transforms} == set(robot.frames) - {robot.base}
    for one in message.transforms:
        assert one.header.frame_id == robot.base
        assert messages.seconds(one.header.stamp) == 7.25
        np.testing.assert_allclose(messages.transform_array(one.transform),
                                   link_pose(robot, READY, one.child_frame_id), atol=AGREEMENT)


@pytest.mark.parametrize('other', ['robot_state_publisher', 'osc_simulator'])
def test_transforms_are_left_to_a_node_that_publishes_them(shown, spin, other):
    node, found, sent = shown
    set_parameter(node, 'publish_tf', True)
    elsewhere = Node(other)
    publisher = elsewhere.create_publisher(String, '/tf', 10)
    spin(lambda: node.count_publishers('/tf'), elsewhere)
    found.publish_transforms()
    assert sent['/tf'] == []
    assert spin.said(f'{other} publishes the transforms of the links')
    elsewhere.destroy_publisher(publisher)
    spin(lambda: not node.count_publishers('/tf'))
    found.publish_transforms()
    assert len(sent['/tf']) == 1


@needs_markers
def test_markers_come_at_their_rate_without_a_request_to_the_loop(shown, robot, monkeypatch):
    node, found, sent = shown
    clock = [100.0]
    monkeypatch.setattr(display, 'perf_counter', lambda: clock[0])
    arguments = (3, 5), tick(robot).pose, np.full(6, 0.1), np.zeros(6), None
    found.publish_markers(*arguments)
    assert not sent  # the rate is 0
    set_parameter(node, 'markers.rate', 10.0)
    for _ in range(50):  # reports at 50 Hz
        found.publish_markers(*arguments)
        clock[0] += 0.02
    assert 9 <= len(sent['~/markers']) <= 11
    set_parameter(node, 'markers.rate', 0.0)
    before = len(sent['~/markers'])
    found.publish_markers(*arguments)
    assert len(sent['~/markers']) == before


@needs_markers
def test_error_in_the_display_is_said_and_stops_nothing(shown, spin, robot, monkeypatch):
    node, found, sent = shown
    set_parameter(node, 'markers.rate', 10.0)
    monkeypatch.setattr(markers.MarkerMessages, 'message', lambda *_: 1 / 0)
    found.publish_markers((3, 5), tick(robot).pose, np.zeros(6), np.zeros(6), None)
    assert sent['~/markers'] == []
    assert spin.said('no markers: ZeroDivisionError')
    monkeypatch.setattr(found, 'transforms', lambda: 1 / 0)
    set_parameter(node, 'publish_tf', True)
    found.publish_transforms()
    assert spin.said('no transforms: ZeroDivisionError')


def test_what_is_missing_is_said(shown, spin, robot, monkeypatch):
    node, found, sent = shown
    monkeypatch.setattr(markers, 'MarkerArray', None)
    monkeypatch.setattr(transforms, 'TFMessage', None)
    set_parameter(node, 'markers.rate', 10.0)
    set_parameter(node, 'publish_tf', True)
    found.publish_transforms()
    found.publish_markers((3, 5), tick(robot).pose, np.zeros(6), np.zeros(6), None)
    assert not sent
    assert spin.said("pip install 'ros-visualization-msgs==5.3.6'")


@needs_markers
def test_controller_publishes_markers_and_every_topic_of_the_configurations(spin):
    from node_rig import Rig
    rig, heard = Rig(spin, markers__rate=20.0), []
    rig.activate()
    rig.hardware.create_subscription(markers.MarkerArray, 'osc_controller/markers', heard.append,
                                     1)

    def comes():
        rig.hardware.state()
        return bool(heard)

    spin(comes, why='for markers')
    [target] = [marker for marker in heard[-1].markers if marker.ns == 'target']
    robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
    np.testing.assert_allclose(array(target.points[0]),
                               link_pose(robot, READY, robot.tip)[:3, 3], atol=1e-9)
    require_topics(rig.controller, '/osc_simulator/', False)


def require_topics(node, prefix, is_wanted):
    """Fail unless a node has the configurations' topics (not) under a prefix, as RViz's types."""
    known = {one.topic_name: one.msg_type.__name__ for one in (*node.publishers,
                                                               *node.subscriptions)}
    topics = rviz_topics('controller.rviz') | rviz_topics('simulation.rviz') | foxglove_topics()
    topics = {topic for topic in topics if topic.startswith(prefix) == is_wanted}
    assert len(topics) > 1
    assert topics <= known.keys(), topics - known.keys()
    for name in ('controller.rviz', 'simulation.rviz'):
        for one in displays(name):
            topic = '/' + one.get('Topic', {}).get('Value', '')
            if topic in topics:
                assert known[topic] == RVIZ_TYPES[one['Class'].rpartition('/')[2]], one


@needs_markers
def test_simulator_publishes_every_topic_of_the_configurations(spin):
    from node_rig import given, ROBOT
    from osc_ros.ros.simulator.simulator import Simulator
    node = Simulator(parameter_overrides=given(**ROBOT, **{'world.ball.radius': 0.05}))
    spin(lambda: True, node)
    require_topics(node, '/osc_simulator/', True)


def displays(name):
    """Return the displays of an RViz configuration."""
    found = yaml.safe_load((CHECKOUT / 'config' / name).read_text())
    return found['Visualization Manager']['Displays']


def rviz_topics(name):
    """Return the topics of an RViz configuration."""
    return {'/' + value['Value'] for one in displays(name) for value in one.values()
            if isinstance(value, dict) and 'Value' in value}


def panels():
    """Return the layout of Foxglove, and the configurations of its panels."""
    found = json.loads((CHECKOUT / 'config' / 'foxglove_layout.json').read_text())
    return found, found['configById']


def foxglove_topics():
    """Return the topics of the layout of Foxglove."""
    found = set()
    for config in panels()[1].values():
        found |= set(config.get('topics', ()))
        found |= {path['value'].partition('.')[0] for path in config.get('paths', ())}
        found |= {config['topicToRender']} if 'topicToRender' in config else set()
        found |= {one['topic'] for one in config.get('layers', {}).values() if 'topic' in one}
    return found


@pytest.mark.parametrize('name', ['controller.rviz', 'simulation.rviz'])
def test_rviz_shows_the_namespaces_that_there_are(name):
    assert all(one['Class'].startswith('rviz_default_plugins/') for one in displays(name))
    shown = {one['Topic']['Value']: set(one['Namespaces']) for one in displays(name)
             if one['Class'].endswith('/MarkerArray')}
    assert shown.pop('osc_controller/markers') == set(markers.NAMESPACES)
    simulated = {'osc_simulator/markers': set(NAMES.values())}
    assert shown == (simulated if name == 'simulation.rviz' else {})


def test_foxglove_layout_has_a_place_for_every_panel_and_shows_the_namespaces():
    found, configs = panels()
    assert {'configById', 'globalVariables', 'userNodes', 'playbackConfig', 'layout'} <= set(found)
    places = []

    def collect(part):
        if isinstance(part, str):
            places.append(part)
        else:
            assert part['direction'] in ('row', 'column')
            collect(part['first'])
            collect(part['second'])

    collect(found['layout'])
    assert sorted(places) == sorted(configs)
    shown = configs['3D!arm']['topics']['/osc_controller/markers']['namespaces']
    assert set(shown) == set(markers.NAMESPACES)


def test_fields_that_the_foxglove_layout_plots_exist():
    kinds = {'/osc_controller/pose_error': TwistStamped,
             '/osc_controller/external_wrench': WrenchStamped}
    paths = [path['value'] for config in panels()[1].values() for path in config.get('paths', ())]
    assert len(paths) == 9
    for path in paths:
        topic, *fields = path.split('.')
        value = kinds[topic]()
        for field in fields:
            value = getattr(value, field)
        assert isinstance(value, float), path
