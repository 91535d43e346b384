# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Known defects of other operational space controllers, with one test for each.

Negative nullspace damping; M⁻¹ not symmetrized; a header ignored; joints matched by index; the
double cover of quaternions; the 180° error; a quaternion that is not normalized; continuous
joints switching off limit avoidance; damping that does not follow stiffness; only 6 (or only 7)
joints; an exception swallowed in a lifecycle callback.
"""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from arm import Arm, moved, PANDA, READY, settings
from judge import configuration, pinocchio_model, random_urdf
from osc_ros import OperationalSpace, Robot
from osc_ros.control.law import Law
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.tasks.task import pose, Stiffness, Task
from osc_ros.dynamics.methods import METHODS
from osc_ros.errors import InputError
from osc_ros.sim import Plant
import tolerances
from variants import first_quick

REST = np.zeros(7)


def test_no_negative_null_space_damping():
    with pytest.raises(InputError, match=r'damping -1\.0.*(give|must be).* 0'):
        Posture(5.0, 1.0, -1.0)
    arm = Arm()
    J = OperationalSpace(arm.robot).evaluate(READY, REST).J
    drift = 0.5 * np.linalg.svd(J)[2][-1]  # nullspace velocity [rad/s]
    arm.law = Law(arm.robot, replace(settings(arm.robot), posture=Posture(0.0, 1.0, 2.0)))
    arm.law.hold(READY)
    arm.plant.reset(READY, drift)
    speeds = [np.linalg.norm(drift)]
    for until in np.arange(0.1, 1.6, 0.1):
        distances, _ = arm.run(until).errors(arm.pose)
        speeds.append(np.linalg.norm(arm.plant.qd))
    assert (np.diff(speeds) < 0.0).all()
    # the nullspace rotates with q; if it did not, the speed would decay to e⁻³
    assert speeds[-1] < 0.1 * speeds[0]
    assert distances.max() < 1e-3


@pytest.mark.parametrize('method', METHODS)
def test_no_inverse_of_the_inertia_that_is_half_filled_or_not_symmetric(method):
    model, data, _ = pinocchio_model(PANDA.urdf_text, PANDA.base, PANDA.tip,
                                     Arm().robot.joint_names)
    space = OperationalSpace(Arm().robot, method)
    M = np.triu(pin.crba(model, data, configuration(model, READY)))
    M_inv = space.evaluate(READY, REST).M_inv
    largest = np.abs(M_inv).max()
    np.testing.assert_allclose(M_inv, M_inv.T, rtol=0.0, atol=tolerances.NO_EFFECT * largest)
    np.testing.assert_allclose(M_inv @ (M + np.triu(M, 1).T), np.eye(7), atol=1e-9)
    np.testing.assert_allclose(space.apply_M_inv(READY, np.eye(7)[0]), M_inv[:, 0],
                               atol=tolerances.AGREEMENT * largest)


def test_no_header_that_is_ignored(spin):
    from node_rig import Rig, target
    rig = Rig(spin, report_rate=20000.0).activate()
    heard = rig.hardware
    at_the_tip = {'position': (0.0, 0.0, 0.1), 'quaternion': (0.0, 0.0, 0.0, 1.0)}
    rig.until_said("frame 'kitchen' is not a link of robot 'panda'", lambda: heard.poses.publish(
        target(**at_the_tip, frame='kitchen')))

    def height_of_error():
        heard.state()
        return heard.errors[-1].twist.linear.z if heard.errors else 0.0

    later = 0.002 * heard.tick + 0.5
    heard.poses.publish(target(**at_the_tip, frame='panda_hand_tcp', stamp=later))
    # the goal is in the hand's axes, whose z points down, and takes effect only at its stamp
    rig.spin(lambda: height_of_error() == pytest.approx(-0.1, abs=1e-9))
    times = [message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
             for message in heard.errors if abs(message.twist.linear.z) > 1e-8]
    assert min(times) >= later - 1e-6


def test_no_joints_matched_by_index():
    serialized_states = pytest.importorskip('osc_ros.ros.messages.serialized_states')
    from rclpy.serialization import serialize_message
    from sensor_msgs.msg import JointState
    rng, names = np.random.default_rng(0), Arm().robot.joint_names
    q, qd = rng.normal(size=(2, 7))
    reader = serialized_states.JointStateReader(names)
    for _ in range(5):
        order = rng.permutation(7)
        np.testing.assert_array_equal(reader.positions(serialize_message(JointState(
            name=['finger', *(names[i] for i in order)], position=[9.0, *q[order]],
            velocity=[9.0, *qd[order]]))), q)
        np.testing.assert_array_equal(reader.velocities(), qd)


def test_no_double_cover_of_quaternions():
    turn = np.array([0.3, -0.5, 0.4, 0.0])
    turn[3] = np.sqrt(1.0 - turn @ turn)
    torques = []
    for xyzw in (turn, -turn):
        arm = Arm()
        arm.law.follow(PoseGoal(pose(arm.pose[:3, 3], xyzw)), 0.0)
        torques.append(arm.law.torque(0.0, READY, REST))
        assert np.linalg.norm(arm.law.error[:3]) <= np.pi
    np.testing.assert_array_equal(*torques)
    # 1° less than half a turn, and 1° more: the rotation takes the shorter way in both cases
    for degrees in (179.0, -179.0):
        arm.law.hold(READY)
        arm.law.follow(PoseGoal(moved(arm.pose, turn=(0.0, 0.0, np.radians(degrees)))), 0.0)
        arm.law.torque(0.0, READY, REST)
        assert arm.law.error[2] == pytest.approx(np.radians(degrees), abs=tolerances.HALF_TURN)


@pytest.mark.parametrize('axis', np.eye(3), ids='xyz')
def test_no_180_degree_error(axis):
    arm = Arm()
    target = moved(arm.pose, turn=np.pi * axis)
    arm.law.follow(PoseGoal(target), 0.0)
    assert np.isfinite(arm.law.torque(0.0, READY, REST)).all()
    np.testing.assert_allclose(np.abs(arm.law.error[:3]), np.pi * axis, atol=tolerances.HALF_TURN)
    arm.run(0.6)
    angles = arm.errors(target)[1]
    assert angles[0] == pytest.approx(np.pi, abs=1e-6)
    assert angles[-1] < np.pi - 0.3


@pytest.mark.parametrize('xyzw', [
    (0.0, 0.0, 0.0, 2.0), (0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0)])
def test_no_quaternion_that_is_not_normalized(xyzw):
    with pytest.raises(InputError, match='length .*(give|must be).* 1'):
        pose((0.4, 0.0, 0.4), xyzw)
    R = pose((0.4, 0.0, 0.4), (0.7071, 0.0, 0.0, 0.7072))[:3, :3]  # typed with 4 digits
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=tolerances.POSE_TOLERANCE)


def test_no_continuous_joint_that_switches_limit_avoidance_off():
    from shipped import ends, parameters, urdf
    base, tip = ends('gen3')
    robot = Robot.from_urdf(urdf('gen3'), base, tip)
    lower, upper = robot.position_limits.T
    assert np.isinf(lower[::2]).all()
    assert np.isfinite(lower[1::2]).all()
    usual = settings(robot)
    blind = replace(usual, limits=replace(usual.limits, position=[[-np.inf, np.inf]] * 7))
    room = []
    for limited in (usual, blind):
        law, plant = Law(robot, limited), Plant(urdf('gen3'), base, robot.joint_names)
        q = np.array(parameters('gen3', '/**/osc_simulator')['initial_positions'])
        plant.reset(q)
        law.hold(q)
        law.follow(PoseGoal(moved(plant.pose(tip), shift=(-0.35, 0.0, -0.2))), 0.0)
        nearest = np.inf
        while plant.time < 1.5:
            plant.step(law.torque(plant.time, plant.q, plant.qd), 2)
            nearest = min(nearest, np.min(plant.q - lower), np.min(upper - plant.q))
        room.append(nearest)
    assert room[0] > 0.0 > room[1]  # without limits, the elbow passes its stop


def test_no_damping_that_does_not_follow_stiffness():
    arm, v = Arm(), np.array([0.2, -0.1, 0.3, 0.2, -0.2, 0.1, 0.3])
    dampers = []
    for stiffness in (100.0, 400.0, 1600.0):
        spring = Stiffness([0.1 * stiffness] * 3 + [stiffness] * 3, [1.0] * 6, [np.inf] * 2)
        law = Law(arm.robot, replace(settings(arm.robot), tasks=(Task(spring),)))
        law.hold(READY)
        law.torque(0.0, READY, v)
        dampers.append(law.F.copy())
    # at the target F is the damper force alone; if the stiffness is four times as high, the
    # damping is twice as high
    np.testing.assert_allclose(dampers[2] - dampers[1], 2.0 * (dampers[1] - dampers[0]),
                               rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize('n', range(1, 11))
def test_no_arms_of_only_six_or_seven_joints(n):
    text = random_urdf(n, n).replace("effort='50'", "effort='5000'")
    robot = Robot.from_urdf(text, 'link_0', 'tool')
    assert robot.n == n
    law, q = Law(robot, settings(robot)), np.full(n, 0.3)
    law.hold(q)
    model, data, _ = pinocchio_model(text, 'link_0', 'tool', robot.joint_names)
    gravity = pin.computeGeneralizedGravity(model, data, configuration(model, q))
    np.testing.assert_allclose(law.torque(0.0, q, np.zeros(n)), gravity, atol=1e-8)


@pytest.mark.parametrize('callback', first_quick(
    ['configure', 'deactivate', 'activate', 'clean_up'], 2))
def test_exception_in_a_lifecycle_callback_is_logged(spin, monkeypatch, callback):
    from rclpy.lifecycle import TransitionCallbackReturn

    from node_rig import Rig
    rig = Rig(spin)
    if callback != 'configure':
        rig.activate()

    def broken():
        raise RuntimeError('a wire is loose')

    results = []
    with monkeypatch.context() as patch:
        patch.setattr(rig.controller, f'_{callback}', broken)
        if callback == 'activate':
            results.append(rig.controller.trigger_deactivate())
        if callback == 'clean_up':
            results.append(rig.controller.trigger_deactivate())
        name = callback.replace('_', '')
        results.append(getattr(rig.controller, f'trigger_{name}')())
    rig.until_said(f"cannot {callback.replace('_', ' ')}: RuntimeError: a wire is loose")
    assert results[-1] == TransitionCallbackReturn.ERROR
