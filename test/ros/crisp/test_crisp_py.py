# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""crisp_py, unchanged, drives a simulated arm and its gripper through its own calls."""

import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from common import CHECKOUT, PATIENCE

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')
for package in 'controller_manager_msgs', 'control_msgs':
    pytest.importorskip(package, reason=f'{package} is not on PyPI: a ROS installation has it, '
                        'and `make test` generates it')

from geometry_msgs.msg import TransformStamped  # noqa: E402
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402

from osc_ros.ros.crisp.crisp_node import CARTESIAN, Crisp, JOINTS  # noqa: E402
from osc_ros.sim.hand import FINGERS  # noqa: E402
from ros_arm import HOME, RosArm, Spun  # noqa: E402

PAGE = (CHECKOUT / 'doc' / 'clients.md').read_text().split('\n## ')[1]
REMAPS = re.findall(r'^(~/\S+:=\S+)$', PAGE, re.MULTILINE)
PLACES, TURNS = 3e-3, 2e-2  # how near a motion of crisp_py ends [m], [rad]


def imported_crisp_py():
    """
    Return crisp_py's modules robot, gripper and config.

    It imports tf2_ros, which is not on PyPI, only to read poses from /tf; these are not tried.

    """
    with pytest.MonkeyPatch.context() as patch:
        try:
            import tf2_ros  # noqa: F401
        except ImportError:
            for name, what in (('tf2_ros', 'TransformStamped'), ('tf2_ros.buffer', 'Buffer'),
                               ('tf2_ros.transform_listener', 'TransformListener')):
                module = ModuleType(name)
                setattr(module, what, TransformStamped if name == 'tf2_ros' else None)
                patch.setitem(sys.modules, name, module)
        return [pytest.importorskip(name, reason='crisp_py is not installed: pip install '
                                    '--no-deps crisp-python') for name in (
            'crisp_py.robot', 'crisp_py.gripper', 'crisp_py.config')]


robots, grippers, config = imported_crisp_py()


@pytest.fixture(scope='module')
def arm(ros):
    """Return a simulated arm with osc_crisp, and crisp_py's Robot and Gripper for it."""
    nodes = RosArm(ros, {'gripper__joints': list(FINGERS['panda'])}, remaps=REMAPS)
    front = Spun(SingleThreadedExecutor(), Crisp())
    node = ros.create_node('robot_client', parameter_overrides=[
        Parameter('use_sim_time', value=True)])
    client = Spun(MultiThreadedExecutor(4), node)
    try:
        robot = robots.make_robot('panda', node=node, spin_node=False, time_to_home=1.0)
        gripper = grippers.make_gripper('gripper_franka', node=node, spin_node=False,
                                        max_value=0.08)
        robot.wait_until_ready(PATIENCE)
        gripper.wait_until_ready(PATIENCE)
        assert robot.controller_switcher_client.is_server_ready()
        found = SimpleNamespace(robot=robot, gripper=gripper, node=node,
                                controller=nodes.nodes[1])
        until(found, lambda: states(robot)[CARTESIAN] == 'active')
        yield found
    finally:
        client.close()
        front.close()
        nodes.close()


def until(arm, happened):
    """Wait on the clock of the simulation until `happened()`, as crisp_py waits."""
    rate = arm.node.create_rate(50.0)
    for _ in range(int(50.0 * PATIENCE)):
        if happened():
            return
        rate.sleep()
    pytest.fail('waited in vain')


def states(robot):
    return {one.name: one.state for one in robot.controller_switcher_client.get_controller_list()}


def activate(arm, name):
    assert arm.robot.controller_switcher_client.switch_controller(name)
    assert states(arm.robot)[name] == 'active'


def of_controller(arm, name):
    value = arm.controller.get_parameter(name).value
    return list(value) if hasattr(value, '__len__') and not isinstance(value, str) else value


def is_near(robot, pose):
    there = robot.end_effector_pose
    return (np.linalg.norm(there.position - pose.position) < PLACES
            and (there.orientation.inv() * pose.orientation).magnitude() < TURNS)


def test_robot_is_ready_and_has_the_states_of_the_arm(arm):
    robot = arm.robot
    activate(arm, CARTESIAN)
    assert robot.is_ready() and robot.nq == 7
    until(arm, lambda: np.abs(robot.joint_velocities).max() < 1e-4)
    law = arm.controller._law
    assert np.abs(robot.end_effector_twist.linear).max() < 1e-3
    until(arm, lambda: np.allclose(robot.end_effector_pose.position, law.pose[:3, 3], atol=1e-4))
    np.testing.assert_allclose(robot.end_effector_pose.orientation.as_matrix(), law.pose[:3, :3],
                               atol=1e-3)
    np.testing.assert_allclose(robot.joint_values, arm.controller._loop.q, atol=1e-4)


def test_move_to_and_set_target_move_the_tip(arm):
    robot = arm.robot
    activate(arm, CARTESIAN)
    robot.reset_targets()
    robot.wait_until_ready(PATIENCE)
    start = robot.end_effector_pose
    there = robot.end_effector_pose
    there.position += [0.03, 0.05, -0.02]
    robot.move_to(pose=there, speed=0.2)
    until(arm, lambda: is_near(robot, there))
    robot.set_target(pose=start)
    twists = []
    until(arm, lambda: twists.append(robot.end_effector_twist) or is_near(robot, start))
    fastest = max(twists, key=lambda twist: np.linalg.norm(twist.linear))
    way = start.orientation.inv().apply(start.position - there.position)  # in axes of the tip
    cosine = fastest.linear @ way / np.linalg.norm(fastest.linear) / np.linalg.norm(way)
    assert np.linalg.norm(fastest.linear) > 0.02 and cosine > 0.95


def test_parameters_of_crisp_set_those_that_act_alike(arm):
    client = arm.robot.cartesian_controller_parameters_client
    activate(arm, CARTESIAN)
    client.wait_until_ready()
    client.load_param_config(config.find_config('control/default_cartesian_impedance.yaml'))
    assert client.get_parameters(['task.k_pos_x', 'nullspace.stiffness']) == [600.0, 5.0]
    assert 'task.k_rot_z' in client.list_parameters()
    assert of_controller(arm, 'mode') == 'impedance'
    assert of_controller(arm, 'translation.stiffness') == [600.0] * 3
    assert of_controller(arm, 'rotation.stiffness') == [30.0] * 3
    assert of_controller(arm, 'translation.spring_limit') == pytest.approx(60.0)
    assert of_controller(arm, 'task.frame') == 'panda_hand_tcp'
    client.load_param_config(
        config.find_config('control/default_operational_space_controller.yaml'))
    assert of_controller(arm, 'mode') == 'acceleration'
    assert of_controller(arm, 'rotation.natural_frequency') == pytest.approx([1000.0 ** 0.5] * 3)
    client.set_parameters([('use_operational_space', False), ('use_local_jacobian', False),
                           ('task.k_pos_z', 200.0)])
    assert of_controller(arm, 'translation.stiffness') == [1000.0, 1000.0, 200.0]


def test_refused_parameter_says_what_is_accepted(arm):
    client = arm.robot.cartesian_controller_parameters_client
    before = of_controller(arm, 'translation.stiffness')
    with pytest.raises(RuntimeError, match='task.k_pos_x.*5000'):
        client.set_parameters([('task.k_pos_x', 1e6)])
    with pytest.raises(RuntimeError, match='stop_commands.*must be false'):
        client.set_parameters([('stop_commands', True)])
    with pytest.raises(RuntimeError, match="'task.k_pos' is unknown"):
        client.set_parameters([('task.k_pos', 1.0)])
    assert of_controller(arm, 'translation.stiffness') == before


def test_stiffness_of_a_message_needs_variable_stiffness(arm):
    activate(arm, CARTESIAN)
    client = arm.robot.cartesian_controller_parameters_client
    client.set_parameters([('use_operational_space', False), ('variable_stiffness.enabled', True)])

    def is_set():
        arm.robot.set_stiffness([700.0, 600.0, 500.0], [40.0, 35.0, 30.0])
        level = next(iter(arm.controller._law.levels.values()))
        return level.impedance is not None and np.allclose(
            level.impedance.wanted[0], [40.0, 35.0, 30.0, 700.0, 600.0, 500.0])

    until(arm, is_set)
    client.set_parameters([('variable_stiffness.enabled', False)])


def test_controllers_are_switched_and_only_an_active_one_is_obeyed(arm):
    robot, switcher = arm.robot, arm.robot.controller_switcher_client
    activate(arm, JOINTS)
    assert states(robot)[CARTESIAN] == 'inactive'
    assert states(robot)['joint_state_broadcaster'] == 'active'
    before = robot.end_effector_pose
    robot.set_target(position=before.position + [0.0, 0.0, 0.05])
    stamp = arm.node.get_clock().now().nanoseconds
    until(arm, lambda: arm.node.get_clock().now().nanoseconds > stamp + 0.5e9)
    assert is_near(robot, before)
    robot.reset_targets()
    robot.wait_until_ready(PATIENCE)
    activate(arm, CARTESIAN)
    assert states(robot)[JOINTS] == 'inactive'
    with pytest.raises(RuntimeError, match='Failed to load controller unknown'):
        switcher.switch_controller('unknown')
    with pytest.raises(RuntimeError, match='Failed to switch'):
        switcher.switch_controller(JOINTS, [CARTESIAN])  # both need the joints
    assert states(robot)[CARTESIAN] == 'active'


def test_home_moves_the_joints_and_the_tip_is_commanded_again(arm):
    robot = arm.robot
    activate(arm, CARTESIAN)
    robot.home((np.array(HOME) + [0.1, 0.05, 0.0, 0.05, 0.0, 0.05, 0.05]).tolist(), blocking=False)
    until(arm, lambda: states(robot)[JOINTS] == 'active' and not robot.is_homed())
    robot.home()  # replaces the other motion
    np.testing.assert_allclose(robot.joint_values, robot.config.home_config, atol=1e-2)
    assert states(robot)[JOINTS] == 'active'
    activate(arm, CARTESIAN)
    robot.wait_until_ready(PATIENCE)
    there = robot.end_effector_pose
    there.position[1] += 0.05
    robot.set_target(pose=there)
    until(arm, lambda: is_near(robot, there))


def test_gripper_opens_and_closes(arm):
    gripper = arm.gripper
    gripper.open()
    until(arm, lambda: gripper.value > 0.95)
    assert gripper.is_valid and gripper.is_open()
    gripper.close()
    until(arm, lambda: gripper.value < 0.05)
    assert not gripper.is_open()
    gripper.set_target(0.5)
    until(arm, lambda: abs(gripper.raw_value - 0.04) < 2e-3)
    gripper._target = None  # crisp_py repeats it until then


def test_gripper_moves_by_the_action(arm):
    gripper = grippers.make_gripper(
        'gripper_franka', node=arm.node, spin_node=False, max_value=0.08,
        use_gripper_command_action=True, command_topic='/osc_simulator/gripper/gripper_cmd')
    gripper.wait_until_ready(PATIENCE)
    gripper.open()
    until(arm, lambda: gripper.value > 0.95)
    gripper.close()
    until(arm, lambda: gripper.value < 0.05)
    gripper._target = None
