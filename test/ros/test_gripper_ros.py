# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The gripper over ROS: topics of osc_simulator, the client, the action of control_msgs."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import osc_ros
from osc_ros.errors import InputError
from osc_ros.model.gripper_state import GripperState
from osc_ros.sim.hand import FINGERS

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import PoseStamped  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402

from common import PATIENCE  # noqa: E402
from osc_ros.ros import gripper_commands  # noqa: E402
from osc_ros.ros.messages import messages  # noqa: E402
from ros_arm import RosArm  # noqa: E402

PLACE = [0.5, 0.1, 0.02]
GRIPPER = {'gripper__joints': list(FINGERS['panda']), 'cube__position': PLACE,
           'cube__mass': 0.2}


@pytest.fixture(scope='module')
def nodes(ros):
    found = RosArm(ros, GRIPPER)
    yield found
    found.close()


@pytest.fixture(scope='module')
def arm(nodes):
    with osc_ros.Arm.ros(timeout=120.0) as found:
        yield found


@pytest.fixture
def listened(arm):
    """Return a function that subscribes to a topic of the simulator, and the client's node."""
    node = arm._backend._node

    def listen(kind, topic):
        found = []
        node.create_subscription(kind, f'/osc_simulator/{topic}', found.append, 10)
        return found

    return SimpleNamespace(listen=listen, node=node)


def pose(position):
    T = np.diag([1.0, -1.0, -1.0, 1.0])
    T[:3, 3] = position
    return T


def test_cube_is_carried_over_topics(arm, listened):
    cubes = listened.listen(PoseStamped, 'cube_pose')
    arm.gripper.move(0.08)
    arm.move_to(pose([0.5, 0.1, 0.1]))
    arm.move_to(pose(PLACE))
    state = arm.gripper.grasp(40.0)
    assert state.is_holding and state.width == pytest.approx(0.04, abs=1e-3)
    arm.payload(0.2)
    arm.move_to(pose([0.5, 0.0, 0.2]))
    arm.sleep(0.1)
    assert cubes[-1].header.frame_id == 'panda_link0'
    np.testing.assert_allclose(messages.pose_array(cubes[-1].pose)[:3, 3], [0.5, 0.0, 0.2],
                               atol=3e-3)
    arm.payload(0.0)
    arm.gripper.move(0.08)


def test_command_does_not_wait_and_the_arm_moves_on(arm):
    arm.gripper.move(0.08)
    arm.move_to(pose([0.4, 0.0, 0.4]))
    arm.move_to(pose([0.4, 0.2, 0.4]), duration=2.0, wait=False)
    arm.sleep(0.3)
    before = arm.pose()
    assert arm.gripper.grasp(20.0, speed=0.05, wait=False).is_moving
    arm.gripper.wait()
    assert arm.pose()[1, 3] - before[1, 3] > 0.08
    assert np.linalg.norm(arm.wait().pose[:3, 3] - [0.4, 0.2, 0.4]) < 2e-3


@pytest.mark.parametrize('command, text', [
    (lambda gripper: gripper.move(0.2), 'width .*0.2 m; must be 0 to 0.08'),
    (lambda gripper: gripper.grasp(500.0), 'force .*500.0 N; (give|must be)')])
def test_refusal_carries_the_words_of_the_gripper_and_changes_nothing(arm, command, text):
    arm.gripper.move(0.05)
    with pytest.raises(InputError, match=text):
        command(arm.gripper)
    assert arm.gripper.state().goal == 0.05


@pytest.mark.parametrize('numbers', [[], [float('nan')], [0.05] * 4, [float('inf')]])
def test_bad_message_is_refused_and_the_node_goes_on(arm, listened, numbers):
    arm.gripper.move(0.05)
    with pytest.raises(InputError, match='give|must be'):
        arm._backend._gripper.move(numbers)
    arm.sleep(0.05)
    assert arm.gripper.state().goal == 0.05


def test_plain_topics_move_the_fingers_without_a_client(arm, listened):
    """As crisp_py's Gripper: one number on the command, the first position of the state."""
    states = listened.listen(JointState, 'gripper/state')
    commands = listened.node.create_publisher(
        Float64MultiArray, '/osc_simulator/gripper/command', rclpy.qos.qos_profile_system_default)
    assert arm._backend.wait(lambda: commands.get_subscription_count() and states, PATIENCE)
    commands.publish(Float64MultiArray(data=[0.02]))
    assert arm._backend.wait(lambda: abs(states[-1].position[0] - 0.02) < 1e-3, PATIENCE)
    assert list(states[-1].name) == ['width', 'goal']


@pytest.mark.slow
def test_arm_without_a_gripper_says_how_to_get_one(arm):
    with osc_ros.Arm.ros(timeout=60.0, gripper='/nowhere/gripper') as other:
        with pytest.raises(InputError, match="'/nowhere/gripper/state'"):
            other.gripper.move(0.05)


# the action: its logic without control_msgs, and the server itself where that is installed

class Handle(SimpleNamespace):
    """A goal handle that records what happens to it."""

    def __init__(self):
        """Make a goal in progress."""
        super().__init__(is_cancel_requested=False, ends=[], feedback=[], result=None)

    def publish_feedback(self, message):
        """Keep a feedback."""
        self.feedback.append(message)

    def execute(self, callback):
        """End the goal at once."""
        for how in ('succeed', 'abort', 'canceled'):
            setattr(self, how, lambda how=how: self.ends.append(how))
        self.result = callback(self)


@pytest.fixture
def action(monkeypatch):
    """Return an action whose messages are plain objects, and the goals that it has commanded."""
    def move(goal):
        if goal.width > 0.08:
            raise InputError('too wide')
        moved.append(goal)

    moved, log = [], []
    node = SimpleNamespace(get_logger=lambda: SimpleNamespace(error=log.append))
    monkeypatch.setattr(gripper_commands, 'actions', None)
    found = gripper_commands.GripperActions(node, 'gripper', move)
    messages_of_action = SimpleNamespace(Result=SimpleNamespace, Feedback=SimpleNamespace)
    monkeypatch.setattr(gripper_commands, 'actions', SimpleNamespace(
        GripperCommand=messages_of_action, ParallelGripperCommand=messages_of_action))
    return SimpleNamespace(server=found, moved=moved, log=log)


SINGLE, PARALLEL = gripper_commands.KINDS


def request(kind, position, effort=0.0):
    """Return a goal; an effort of 0 is the default."""
    if kind is SINGLE:
        return SimpleNamespace(command=SimpleNamespace(position=position, max_effort=effort))
    return SimpleNamespace(command=JointState(
        name=['width'], position=[position], effort=[effort]))


def position_of(kind, message):
    return message.position if kind is SINGLE else message.state.position[0]


MOVING = GripperState(0.06, -0.1, 0.5, 0.0, 20.0)
THERE = GripperState(0.0, 0.0, 20.0, 0.0, 20.0)
STALLED = GripperState(0.04, 0.0, 20.0, 0.0, 20.0)


@pytest.mark.parametrize('kind', gripper_commands.KINDS, ids=lambda kind: kind.kind)
@pytest.mark.parametrize('state, reached, stalled', [(THERE, True, False), (STALLED, False, True)])
def test_action_succeeds_when_the_fingers_rest(action, kind, state, reached, stalled):
    handle = Handle()
    assert action.server._accept(kind, request(kind, 0.0, 30.0)) == (
        rclpy.action.GoalResponse.ACCEPT)
    assert action.moved[-1].width == 0.0 and action.moved[-1].force == 30.0
    action.server._begin(kind, handle)
    action.server.update(MOVING)
    assert position_of(kind, handle.feedback[-1]) == 0.06 and not handle.ends
    assert hasattr(handle.feedback[-1], 'stalled') == (kind is SINGLE)
    action.server.update(state)
    assert handle.ends == ['succeed']
    assert position_of(kind, handle.result) == state.width
    assert (handle.result.reached_goal, handle.result.stalled) == (reached, stalled)
    action.server.update(state)
    assert handle.ends == ['succeed']


@pytest.mark.parametrize('kind, other', [(SINGLE, PARALLEL), (PARALLEL, SINGLE)])
def test_action_rejects_aborts_and_cancels(action, kind, other):
    accept, answers = action.server._accept, rclpy.action.GoalResponse
    assert accept(kind, request(kind, 0.2)) == answers.REJECT
    assert 'too wide' in action.log[-1]
    assert accept(kind, request(kind, 0.0)) == answers.ACCEPT
    assert action.moved[-1].force == 20.0  # the default
    first, second = Handle(), Handle()
    action.server._begin(other, first)
    action.server._begin(kind, second)
    assert first.ends == ['abort']
    second.is_cancel_requested = True
    action.server.update(MOVING)
    assert second.ends == ['canceled'] and action.moved[-1].width == 0.06  # it stops here


@pytest.mark.parametrize('joints, text', [
    (JointState(name=['left', 'right'], position=[0.02, 0.02]), "left.*(give|must be).*'width'"),
    (JointState(name=['width']), '0 positions'),
    (JointState(position=[0.02, 0.02]), '2 positions')])
def test_parallel_gripper_has_one_position_the_width(action, joints, text):
    answer = action.server._accept(PARALLEL, SimpleNamespace(command=joints))
    assert answer == rclpy.action.GoalResponse.REJECT and not action.moved
    assert re.search(text, action.log[-1])


def test_parallel_gripper_takes_a_speed(action):
    action.server._accept(PARALLEL, SimpleNamespace(command=JointState(
        position=[0.02], velocity=[0.05])))
    assert tuple(action.moved[-1]) == (0.02, 20.0, 0.05)


@pytest.mark.parametrize('kind', gripper_commands.KINDS, ids=lambda kind: kind.kind)
def test_action_of_control_msgs_grasps(arm, kind):
    actions = pytest.importorskip(
        'control_msgs.action', reason='control_msgs is not on PyPI: a ROS installation has it '
        '(ros-…-control-msgs)')
    from rclpy.action import ActionClient
    arm.gripper.move(0.08)
    action_type = getattr(actions, kind.kind)
    client = ActionClient(arm._backend._node, action_type, f'/osc_simulator/gripper/{kind.name}')
    assert client.wait_for_server(timeout_sec=PATIENCE)
    goal = action_type.Goal()
    if kind is SINGLE:
        goal.command.position, goal.command.max_effort = 0.03, 15.0
    else:
        goal.command = JointState(name=['width'], position=[0.03], effort=[15.0])
    sent = client.send_goal_async(goal)
    assert arm._backend.wait(sent.done, PATIENCE)
    result = sent.result().get_result_async()
    assert arm._backend.wait(result.done, PATIENCE)
    assert result.result().result.reached_goal
    assert position_of(kind, result.result().result) == pytest.approx(0.03, abs=1e-3)
