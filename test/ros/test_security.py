# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What any participant of the ROS network can do to a node, and what it cannot."""

import os
import sys
from threading import Thread

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import (
    Point,
    Pose,
    PoseStamped,
    Twist,
    TwistStamped,
    Vector3,
    Wrench,
    WrenchStamped,
)
from rcl_interfaces.msg import ParameterEvent
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout
from trajectory_msgs.msg import (
    MultiDOFJointTrajectory,
    MultiDOFJointTrajectoryPoint,
)

from common import PATIENCE
from node_rig import JOINTS, READY, Rig
from osc_ros.errors import InputError, ModelError
from osc_ros.model.files import LARGEST_FILE
from osc_ros.model.urdf import description as urdf_description
from osc_ros.recording.bag import BagWriter
from osc_ros.ros.controller.controller import Controller
from osc_ros.ros.messages import messages, serialized
from osc_ros.ros.parameters import robot_parameters
from osc_ros.tools.record import record_node
from parameter_calls import Other

pytestmark = pytest.mark.ros

NAN = float('nan')


# files


@pytest.fixture
def pipe(tmp_path):
    """Return the path of a pipe into which nobody writes."""
    path = tmp_path / 'pipe'
    os.mkfifo(path)
    return path


def refusal(name):
    """Return the error of a robot description file; fail if reading it does not end."""
    found = []

    def read():
        try:
            found.append(robot_parameters.urdf_text(str(name)))
        except InputError as error:
            found.append(str(error))

    thread = Thread(target=read, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return found[0]


def test_description_file_that_never_ends_is_refused(tmp_path, pipe):
    with (tmp_path / 'large.urdf').open('wb') as file:
        file.truncate(int(LARGEST_FILE) + 1)
    (tmp_path / 'empty.urdf').write_text('')
    for path in (pipe, '/dev/zero', tmp_path, tmp_path / 'large.urdf', tmp_path / 'empty.urdf'):
        assert 'give the path of a URDF' in refusal(path), path
    for name in ('~no such user/a.urdf', 'a\0b'):
        assert 'give the path of a URDF' in refusal(name), name
    (tmp_path / 'good.urdf').write_text('<robot/>')
    assert refusal(tmp_path / 'good.urdf') == '<robot/>'


def test_page_reads_only_meshes_of_this_machine(tmp_path, pipe):
    from osc_ros.ros.viewer.viewer_node import LARGEST_MESH, mesh_file
    for name, is_mesh in (('a.stl', True), ('b.DAE', True), ('c.txt', False), ('d.zip', False)):
        (tmp_path / name).write_text('x')
        assert (mesh_file(f'file://{tmp_path}/{name}', None) is not None) is is_mesh, name
    pipe.rename(tmp_path / 'pipe.stl')
    assert mesh_file(f'file://{tmp_path}/pipe.stl', None) is None
    with (tmp_path / 'large.stl').open('wb') as file:
        file.truncate(int(LARGEST_MESH) + 1)
    assert mesh_file(f'file://{tmp_path}/large.stl', None) is None


def test_description_that_expands_to_gigabytes_is_refused_at_once():
    entities = ''.join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    with pytest.raises(ModelError, match='XML entities'):
        urdf_description(f'<!DOCTYPE robot [<!ENTITY a0 "lol">{entities}]>'
                         '<robot name="x"><link name="&a9;"/></robot>')


# programs


class Crowd(record_node.Recorder):
    """A recorder in a network where a participant offers topics of any name and type."""

    offered = ()

    def get_topic_names_and_types(self):
        """Return the topics; the wheels of rclpy cannot offer a type that is not installed."""
        return [(f'/osc_controller/{name}', [kind]) for name, kind in self.offered]


@pytest.fixture
def crowd(ros, tmp_path):
    """Return a function that makes a recorder among topics of these names and types."""
    made = []

    def recorder(*offered):
        Crowd.offered = offered
        bag = BagWriter(tmp_path / f'bag{len(made)}', record_node.definition)
        made.append((Crowd('osc_controller', bag, [], False), bag))
        return made[-1][0]

    yield recorder
    for node, bag in made:
        node.destroy_node()
        bag.close()


def test_recorder_imports_no_package_that_a_participant_names(crowd):
    assert 'antigravity' not in sys.modules
    names = ('antigravity/msg/String', 'this/msg/String', '../msg/String',
             'std_msgs/msg/../String', 'std_msgs/srv/String', 'osc_ros/msg/String',
             'std_msgs/msg/Nonesuch', '', 'String')
    found = crowd(*((f'x{k}', name) for k, name in enumerate(names)),
                  ('good', 'std_msgs/msg/String'))
    assert len(found.problems) == len(names), found.problems
    assert all('is not recorded' in problem for problem in found.problems)
    assert 'antigravity' not in sys.modules
    assert 'this' not in sys.modules
    assert found._taken['/osc_controller/good'] is not None


def test_recorder_looks_at_a_bounded_number_of_topics(crowd, monkeypatch):
    monkeypatch.setattr(record_node, 'MOST_TOPICS', 3)
    found = crowd(*((f'x{k}', 'nobody/msg/Knows') for k in range(10)))
    found._look()
    assert len(found.problems) == 4
    assert 'more than 3 topics' in found.problems[-1]


def test_recorder_ends_before_the_disk_is_full(crowd, monkeypatch):
    assert not crowd(('good', 'std_msgs/msg/String')).has_ended
    monkeypatch.setattr(record_node, 'RESERVE', 1e30)
    found = crowd(('good', 'std_msgs/msg/String'))
    assert found.has_ended
    assert 'ended: the disk has less than' in found.problems[0]


# nodes that go on


def nonsense():
    """Return messages for topics that the page hears: types, names, messages."""
    from visualization_msgs.msg import Marker, MarkerArray
    labels = MultiArrayLayout(dim=[MultiArrayDimension(label='a'), MultiArrayDimension(label='b')])
    nowhere = Pose(position=Point(x=NAN))
    wrong = [Parameter(name, value=value).to_parameter_msg() for name, value in (
        ('translation.natural_frequency', 'text'), ('mode', 3), ('tasks', 5))]
    many = [Marker(ns=str(k), type=2, scale=Vector3(x=1.0, y=1.0, z=1.0)) for k in range(500)]
    for one in many:
        one.pose.orientation.w = 1.0
    return [
        (PoseStamped, 'osc_controller/pose', PoseStamped(pose=nowhere)),
        (Float64MultiArray, 'osc_controller/inertia', Float64MultiArray(data=[NAN] * 36)),
        (Float64MultiArray, 'osc_controller/terms', Float64MultiArray(data=[1.0])),
        (Float64MultiArray, 'osc_controller/terms', Float64MultiArray(data=[NAN], layout=labels)),
        (TwistStamped, 'osc_controller/goal_error', TwistStamped(twist=Twist(
            linear=Vector3(x=NAN)))),
        (WrenchStamped, 'osc_controller/wrench', WrenchStamped(wrench=Wrench(
            force=Vector3(x=NAN)))),
        (JointState, 'joint_states', JointState(
            name=[f'panda_joint{k}' for k in range(1, 8)], position=[NAN] * 7)),
        (JointState, 'joint_states', JointState(name=['a', 'b'], position=[1.0])),
        (JointState, 'osc_simulator/gripper/state', JointState(position=[NAN], effort=[NAN])),
        (ParameterEvent, '/parameter_events', ParameterEvent(
            node='/osc_controller', changed_parameters=wrong)),
        (MarkerArray, 'osc_simulator/markers', MarkerArray(markers=[Marker(pose=nowhere)])),
        (MarkerArray, 'osc_simulator/markers', MarkerArray(markers=many))]


def test_no_message_of_a_participant_ends_the_page(spin):
    pytest.importorskip('viser', reason='viser is not installed')
    from osc_ros.ros.viewer.viewer_node import options_of, Viewer
    from osc_ros.ros.viewer.viewer_simulator import MOST_SOLIDS
    viewer, other = Viewer(options_of(['--listen-always', '--port', '18300'])[0]), Node('other')
    reading, sent = viewer._link.reading, nonsense()
    publishers = [other.create_publisher(kind, topic, 10) for kind, topic, _ in sent]
    spin(lambda: all(one.get_subscription_count() for one in publishers[:-3]), viewer, other,
         why='for the page to listen')

    def has_drawn():
        for publisher, (_, _, message) in zip(publishers, sent, strict=True):
            publisher.publish(message)
        return len(reading.solids) == MOST_SOLIDS and any(
            'position [nan' in text for _, text, _ in reading.words)

    spin(has_drawn, why='for the page to show the objects')
    good = PoseStamped(pose=Pose(position=Point(x=0.5)))

    def shows_a_pose():
        publishers[0].publish(good)
        return reading.control.pose is not None and reading.control.pose[0, 3] == 0.5

    spin(shows_a_pose, why='for a pose')
    assert reading.q is None
    assert reading.control.terms == {}


def test_trajectory_that_would_keep_the_node_busy_is_refused():
    def read(points):
        return serialized.trajectory(serialize_message(MultiDOFJointTrajectory(
            points=[MultiDOFJointTrajectoryPoint()] * points)))

    assert len(read(serialized.MOST_POINTS).times) == serialized.MOST_POINTS
    with pytest.raises(InputError, match='at most 10000'):
        read(serialized.MOST_POINTS + 1)


# what is seen


def test_whoever_weakens_a_protection_is_seen_in_the_log(spin):
    node = Controller(parameter_overrides=[Parameter('autostart', value=False)])
    other = Other(spin, node)

    def set_to(**values):
        wanted = [Parameter(name.replace('__', '.'), value=value).to_parameter_msg()
                  for name, value in values.items()]
        assert other.call(SetParametersAtomically, 'set_parameters_atomically',
                          parameters=wanted).result.successful

    set_to(posture__damping=2.0)
    set_to(watchdog__overspeed__reaction='report', posture__damping=3.0)
    assert spin.said("what stops the arm was changed: 'watchdog.overspeed.reaction' from hold to "
                     'report\n')
    set_to(state_timeout=60.0, limits__effort=[1.0, 2.0])
    assert spin.said("'state_timeout' from 0.1 to 60.0, 'limits.effort' from () to (1.0, 2.0)")
    set_to(state_timeout=60.0)
    assert spin.said('what stops the arm was changed', times=2)
    assert not spin.said('what stops the arm was changed', times=3)


def test_whoever_commands_the_arm_or_sends_its_states_is_seen_in_the_diagnostics(spin):
    rig, found = Rig(spin), {}
    other = Node('stranger')
    rig.hardware.create_subscription(
        DiagnosticArray, '/diagnostics', lambda message: found.update(
            (one.key, one.value) for status in message.status for one in status.values), 10)
    rig.activate()
    spin(lambda: found.get('commanded by') == '/hardware'
         and found.get('joint states of', '').startswith('/hardware (GID '), why='for the names')
    twists = other.create_publisher(TwistStamped, 'osc_controller/target_twist', 10)
    states = other.create_publisher(JointState, 'joint_states', 10)
    state = messages.joint_state(JOINTS, 0.0, READY, 0.0 * READY, 0.0 * READY)
    spin(lambda: states.publish(state) or found['commanded by'] == '/hardware, /stranger'
         and found['ignored joint states of'].startswith('/stranger (GID '),
         other, why='for the second node')
    assert spin.said('commanded by /hardware, /stranger')
    assert spin.said('[WARN]') and spin.said('joint states of /stranger (GID ')
    other.destroy_publisher(twists)
    other.destroy_publisher(states)
    spin(lambda: found['commanded by'] == '/hardware', why='for its end')
