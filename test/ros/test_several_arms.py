# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Robots with two arms in MuJoCo: one controller for both hands, or one for each."""

import re
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest

from arm import READY
from tolerances import AGREEMENT, DUAL_ARM_TRACKING

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import PoseStamped  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.node import Node  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402

from node_rig import given  # noqa: E402
from osc_ros import Robot  # noqa: E402
from osc_ros.control.tasks.feedback import pose_error  # noqa: E402
from osc_ros.errors import OscError  # noqa: E402
from osc_ros.loop.rest_check import compare_efforts, Verdict  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.messages import commands, messages  # noqa: E402
from osc_ros.ros.parameters import robot_parameters  # noqa: E402
from osc_ros.ros.process.share import share_directory  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402
from osc_ros.sim import Plant  # noqa: E402
from survey import urdf_texts  # noqa: E402
from variants import first_quick  # noqa: E402

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

FAILURE, SUCCESS = TransitionCallbackReturn.FAILURE, TransitionCallbackReturn.SUCCESS
SETTLED = 6.0  # time within which both hands reach their goals [s]
SIDES = 'left', 'right'
HANDS = [f'{side}_panda_hand_tcp' for side in SIDES]
PAIR = {'robot_description_file': 'dual_panda', 'base': 'pedestal', 'tip': HANDS[0],
        'further_tips': HANDS[1:]}
BENT = {'s0': 0.2, 's1': -1.2, 'e0': 0.3, 'e1': 2.0, 'w0': 0.1, 'w1': 1.2, 'w2': 0.2}
SHIFTS = np.array([[0.06, 0.03, 0.05], [-0.04, 0.06, -0.05]])
LOAD = 2.0  # mass in the hand that the model lacks [kg]
TURNS = np.array([[0.0, 0.3, 0.2], [-0.3, 0.0, 0.1]])


def config(name):
    """Return the arguments of a node that reads a config of the package."""
    return ['--ros-args', '--params-file', str(share_directory() / 'config' / f'{name}.yaml')]


def simulated_pair():
    """Return a simulator of two Pandas in lockstep."""
    return Simulator(cli_args=config('dual_panda'), parameter_overrides=given(lockstep=True))


class Rig:
    """A simulator and controllers in this process, and a node that sends targets."""

    def __init__(self, spin, simulator, controllers):
        """Configure all controllers, then activate them one after the other."""
        self.spin, self.simulator, self.user = spin, simulator, Node('user')
        spin(lambda: True, simulator, self.user, *controllers)
        for controller in controllers:
            assert controller.trigger_configure() == SUCCESS
        for controller in controllers:
            spin(lambda which=controller: which._state_age() < which._state_timeout,
                 why='for a joint state')
            assert controller.trigger_activate() == SUCCESS

    def follow(self, base, topics):
        """Send each hand a new goal by its topic; return the final pose error of each hand."""
        plant, publishers, targets = self.simulator._plant, [], {}
        for (hand, topic), shift, turn in zip(topics.items(), SHIFTS, TURNS):
            publisher = self.user.create_publisher(PoseStamped, topic, 10)
            targets[hand] = plant.pose(hand)
            targets[hand][:3, 3] += shift
            targets[hand][:3, :3] = pin.exp3(turn) @ targets[hand][:3, :3]
            publishers.append((publisher, targets[hand]))
        self.spin(lambda: all(publisher.get_subscription_count() for publisher, _ in publishers))
        for publisher, target in publishers:
            publisher.publish(messages.pose_message(target, base, messages.stamp(0.0)))
        self.spin(lambda: plant.time > SETTLED, why='for the hands')
        return [np.abs(pose_error(plant.pose(hand), target)).max()
                for hand, target in targets.items()]


@pytest.mark.slow  # quick: the test below
def test_hands_of_baxter_follow_their_targets_under_one_controller(spin):
    text = urdf_texts()['baxter_description/urdf/baxter.urdf']
    robot = given(robot_description=text, base='torso', tip='left_gripper',
                  further_tips=['right_gripper'])
    bent = 2 * list(BENT.values())
    rig = Rig(spin, Simulator(parameter_overrides=[
        *robot, *given(initial_positions=bent, lockstep=True)]),
              [Controller(parameter_overrides=[*robot, *given(
                  autostart=False, tasks=['right'], right__link='right_gripper',
                  right__rotation__axes=['motion'] * 3, right__natural_frequency=20.0)])])
    missed = rig.follow('torso', {'left_gripper': 'osc_controller/target_pose',
                                  'right_gripper': 'osc_controller/right/target_pose'})
    assert max(missed) < DUAL_ARM_TRACKING


def test_hands_of_two_pandas_follow_their_targets_under_one_controller(spin):
    rig = Rig(spin, simulated_pair(), [Controller(
        cli_args=config('dual_panda'), parameter_overrides=given(autostart=False))])
    missed = rig.follow('pedestal', dict(zip(HANDS, (
        'osc_controller/target_pose', 'osc_controller/right/target_pose'))))
    assert max(missed) < DUAL_ARM_TRACKING


@pytest.mark.slow  # quick: test_simulator_in_lockstep_waits_for_the_commands_of_both_arms
def test_hands_of_two_pandas_follow_their_targets_under_two_controllers(spin):
    topics = [f'{side}/osc_controller/commands' for side in SIDES]
    simulator = Simulator(cli_args=config('dual_arm'), parameter_overrides=given(
        command_topic=topics[0], further_command_topics=topics[1:], lockstep=True))
    rig = Rig(spin, simulator, [Controller(
        namespace=side, parameter_overrides=given(autostart=False),
        cli_args=[*config('dual_arm'), '-r', 'joint_states:=/joint_states']) for side in SIDES])
    missed = rig.follow('pedestal', {
        hand: f'{side}/osc_controller/target_pose' for side, hand in zip(SIDES, HANDS)})
    assert max(missed) < DUAL_ARM_TRACKING


def test_simulator_in_lockstep_waits_for_the_commands_of_both_arms(spin):
    simulator = Simulator(parameter_overrides=given(
        **PAIR, initial_positions=2 * READY.tolist(), command_topic='left',
        further_command_topics=['right'], lockstep=True, lockstep_timeout=3600.0))
    user = Node('user')
    left, right = (user.create_publisher(Float64MultiArray, side, 10) for side in SIDES)
    spin(lambda: left.get_subscription_count() and right.get_subscription_count(), simulator, user)
    seen = []
    for tick in range(3):
        label = messages.label_of(simulator._state.header.stamp)
        before = list(simulator._commanded.tau[:7])
        command, other = commands.Command(7), commands.Command(7)
        left.publish(command.fill(np.full(7, 1.0 + tick), label))
        spin(lambda old=before: list(simulator._commanded.tau[:7]) != old, why='for the command')
        seen.append(simulator._tick)
        right.publish(other.fill(np.full(7, 2.0 + tick), label))
        spin(lambda old=tick: simulator._tick > old, why='for the step')
        np.testing.assert_array_equal(simulator._plant._tau, [1.0 + tick] * 7 + [2.0 + tick] * 7)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize('parameters, message', [
    ({'further_command_topics': ['a', 'b']}, "'further_tips'"),
    ({'further_command_topics': ['osc_controller/commands']}, 'none twice'),
    ({'further_tips': ['left_panda_link4'], 'further_command_topics': ['b']},
     "'left_panda_joint.'.*'left_panda_hand_tcp'.*'left_panda_link4'"),
    ({'further_tips': ['rigth_panda_hand_tcp']}, "'right_panda_hand_tcp'"),
    ({'further_tips': [HANDS[0]]}, '(give|must be).*once'),
    ({'joint_order': ['left_panda_joint1']}, "'left_panda_hand_tcp', 'right_panda_hand_tcp'"),
])
def test_arms_and_topics_that_do_not_fit_are_refused(ros, parameters, message):
    with pytest.raises(OscError, match=message):
        Simulator(parameter_overrides=given(**(PAIR | parameters)))


@pytest.mark.parametrize('parameters, message', first_quick([
    ({'tasks': ['right'], 'right__link': 'right_hand'}, "did you mean 'right_panda_hand'"),
    ({}, 'no task names a link: give tasks for the others beside'),
    ({'tasks': ['right'], 'right__link': 'pedestal'}, 'pedestal'),
]))
def test_controller_of_two_arms_says_which_task_it_lacks(spin, parameters, message):
    controller = Controller(parameter_overrides=given(**PAIR, autostart=False, **parameters))
    spin(lambda: True, controller)
    assert controller.trigger_configure() == FAILURE
    assert spin.said(message)


def test_tool_of_the_first_of_two_arms_is_changed_while_it_works(spin):
    rig = Rig(spin, simulated_pair(), [controller := Controller(
        cli_args=config('dual_panda'), parameter_overrides=given(autostart=False))])
    assert controller.set_parameters_atomically(given(tool__position=[0.0, 0.0, 0.1])).successful
    rig.spin(lambda: controller._law.levels['tip'].pose[2, 3] < 0.42, why='for the tool')
    T = rig.simulator._plant.pose(HANDS[0])
    np.testing.assert_allclose(controller._law.target.pose[:3, 3],
                               T[:3, 3] + 0.1 * T[:3, 2], atol=DUAL_ARM_TRACKING)


def test_efforts_tell_which_hand_carries_what_the_model_lacks():
    text = robot_parameters.urdf_text('dual_panda')
    robot = Robot.from_urdf(text, 'pedestal', HANDS)
    root = ElementTree.fromstring(text)
    mass = root.find("link[@name='right_panda_hand']/inertial/mass")
    mass.set('value', str(float(mass.get('value')) + LOAD))
    q = 2 * READY.tolist()
    for described, verdict in ((text, Verdict.WELL), (ElementTree.tostring(root), Verdict.MASS)):
        plant = Plant(described, 'pedestal', robot.joint_names)
        plant.reset(q)
        found = compare_efforts(robot, q, plant.weight)
        assert found.verdict is verdict
    low, high = map(float, re.search(
        r"at 'right_panda_hand_tcp' the arm carries .* more than the controller is told "
        r'\(between (\S+) kg more and (\S+) kg more\)', found.reason).groups())
    assert low < LOAD < high


def test_pair_is_two_of_the_arm_side_by_side():
    text, pair = map(robot_parameters.urdf_text, ('panda', 'dual_panda'))
    arm, both = map(pin.buildModelFromXML, (text, pair))
    assert both.nq == 2 * arm.nq
    rng = np.random.default_rng(0)
    full, own = np.empty(both.nq), rng.uniform(0.0, 0.04, (2, arm.nq))
    for side, q in zip(SIDES, own):
        for joint, name in list(enumerate(arm.names))[1:]:
            full[both.idx_qs[both.getJointId(f'{side}_{name}')]] = q[arm.idx_qs[joint]]
    data, alone = both.createData(), arm.createData()
    pin.framesForwardKinematics(both, data, full)
    for side, q, y in zip(SIDES, own, (0.3, -0.3)):
        pin.framesForwardKinematics(arm, alone, q)
        for frame in arm.frames[1:]:
            T = alone.oMf[arm.getFrameId(frame.name)].homogeneous
            T[1, 3] += y
            found = data.oMf[both.getFrameId(f'{side}_{frame.name}')].homogeneous
            np.testing.assert_allclose(found, T, atol=AGREEMENT)
    robot = Robot.from_urdf(pair, 'pedestal', HANDS)
    one = Robot.from_urdf(text, 'panda_link0', 'panda_hand_tcp')
    assert robot.joint_names == tuple(f'{side}_{name}' for side in SIDES
                                      for name in one.joint_names)
    np.testing.assert_array_equal(robot.inertia, np.vstack([one.inertia, one.inertia]))
