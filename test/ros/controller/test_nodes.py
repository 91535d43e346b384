# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Controller and simulator nodes over DDS: commands, refusals, parameters, shutdown."""

import gc
from itertools import permutations
import signal
import subprocess
import sys

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from geometry_msgs.msg import (  # noqa: E402
    PoseStamped,
    TwistStamped,
    Vector3Stamped,
    WrenchStamped,
)
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64, Float64MultiArray, String  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402
from trajectory_msgs.msg import MultiDOFJointTrajectory  # noqa: E402

from arm import articulated_inertias, UNTOUCHED  # noqa: E402
from common import naming  # noqa: E402
from node_rig import (  # noqa: E402
    BRAKED,
    FAILURE,
    follow_joints,
    given,
    gravity,
    Hardware,
    JOINTS,
    PANDA,
    Plant,
    READY,
    Rig,
    ROBOT,
    set_live,
    SUCCESS,
    target,
    wrench,
)
from osc_ros.control.safety.supervision import HARMLESS  # noqa: E402
from osc_ros.control.setpoint.trajectory import figure_of_eight, Path  # noqa: E402
from osc_ros.errors import InputError  # noqa: E402
from osc_ros.loop import requests  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.messages import commands, messages  # noqa: E402
from osc_ros.ros.process.share import share_directory  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402


def test_first_command_is_the_torque_that_holds_the_arm_where_it_is(spin):
    rig = Rig(spin).activate()
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def test_node_computes_by_the_schur_complement_which_the_diagnostics_name_and_no_other_pass(spin):
    rig, said = Rig(spin), []
    rig.hardware.create_subscription(
        DiagnosticArray, '/diagnostics', lambda message: said.extend(message.status[0].values), 10)
    rig.activate().ask()
    spin(lambda: any((one.key, one.value) == ('method', 'sweep') for one in said),
         why='for the diagnostics')
    for column in articulated_inertias():
        column[:] = UNTOUCHED
    for _ in range(3):
        rig.ask()
    assert rig.controller._law.space.method == 'sweep'
    assert all((column == UNTOUCHED).all() for column in articulated_inertias())


def test_workers_share_the_update_and_the_diagnostics_show_the_plan(spin):
    rig, said = Rig(spin, workers=2), []
    rig.hardware.create_subscription(
        DiagnosticArray, '/diagnostics', lambda message: said.extend(message.status[0].values), 10)
    np.testing.assert_allclose(rig.activate().ask(), gravity(READY), atol=1e-8)
    team = rig.controller._law.space._dynamics
    spin(lambda: any(one.key == 'workers' and one.value.startswith('2 workers: as requested')
                     for one in said), why='for the diagnostics')
    rig.deactivate()
    assert rig.controller.trigger_cleanup() == SUCCESS
    assert team.team is None
    rig.controller._every_second()  # a timer that fires after the clean-up does nothing


def test_activation_latches_the_pose_of_that_moment(spin):
    rig = Rig(spin).activate()
    elsewhere = READY + 0.1
    rig.deactivate()
    rig.spin(lambda: rig.controller._loop.q[0] == elsewhere[0]
             or not rig.hardware.state(elsewhere))
    assert rig.controller.trigger_activate() == SUCCESS
    np.testing.assert_allclose(rig.ask(q=elsewhere), gravity(elsewhere), atol=1e-8)


def test_transition_that_cannot_be_made_now_is_refused_and_the_node_goes_on(spin):
    rig = Rig(spin).activate()
    client = rig.hardware.create_client(ChangeState, 'osc_controller/change_state')
    spin(client.service_is_ready, why='for the service')
    for number, wanted in enumerate((
            Transition(id=Transition.TRANSITION_CONFIGURE), Transition(id=99),
            Transition(label='cleanup'), Transition(label='no such')), 1):
        answer = client.call_async(ChangeState.Request(transition=wanted))
        spin(answer.done, why='for the refusal')
        assert not answer.result().success, wanted
        assert spin.said("refused: the node is 'active': give one of deactivate (4), "
                         'shutdown (7)', times=number), wanted
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def test_commands_are_in_the_order_of_the_parameter_and_states_in_any(spin):
    rig = Rig(spin, joint_order=list(reversed(JOINTS))).activate()
    order = [3, 0, 6, 1, 5, 2, 4]
    tau = rig.ask(q=[*READY[order], 0.02], names=[*(JOINTS[i] for i in order), 'finger'])
    np.testing.assert_allclose(tau, gravity(READY)[::-1], atol=1e-8)


@pytest.mark.parametrize('bad, message', [
    ({'names': JOINTS[:6], 'q': READY[:6]}, "joint_states lacks 'panda_joint7' (has: panda"),
    ({'q': [np.nan, *READY[1:]]}, "position of 'panda_joint1' is nan"),
    ({'velocity': []}, '7 names and 0 entries of velocity'),
    ({'q': np.array([1e200, *READY[1:]]), 'velocity': [1e200] * 7},
     "jump: 'panda_joint1' went 1e+200"),
])
def test_bad_joint_state_is_reported_and_the_next_good_one_is_answered(spin, bad, message):
    rig = Rig(spin, velocity='measured').activate()
    rig.until_said(message, lambda: rig.hardware.state(**bad))
    rig.spin(lambda: np.allclose(rig.ask(), gravity(READY), atol=1e-8), why='for its weight')
    assert all(np.isfinite(command.data).all() for command in rig.hardware.commands)


def test_joint_state_of_another_device_is_no_error(spin):
    rig = Rig(spin).activate()
    refused = rig.controller._loop.engine.counts.refused
    for _ in range(5):
        rig.hardware.state(q=[0.02], names=['finger'])
        rig.ask()
    assert rig.controller._loop.engine.counts.refused == refused
    rig.deactivate()
    assert not spin.said('[ERROR]')


def test_normal_stop_logs_no_error(spin):
    rig = Rig(spin).activate()
    rig.deactivate()
    rig.until_said('the arm is stopped')
    assert not spin.said('[ERROR]')


def test_frame_that_tf2_knows_is_taken(spin):
    tf2_ros = pytest.importorskip('tf2_ros', reason='tf2_ros is not to be had with pip')
    from geometry_msgs.msg import TransformStamped
    rig = Rig(spin).activate()
    wall = TransformStamped(child_frame_id='wall')
    wall.header.frame_id = 'panda_link0'
    wall.transform.translation.x, wall.transform.rotation.w = 0.35, 1.0
    broadcaster = tf2_ros.StaticTransformBroadcaster(rig.hardware)
    broadcaster.sendTransform(wall)
    pose = target(frame='wall')

    def heard():
        rig.hardware.poses.publish(pose)
        rig.hardware.state()
        return rig.controller._law.levels['tip'].generator.course.motion.pose[0, 3] == 0.35 + (
            pose.pose.position.x)

    spin(heard, why='for a target in the frame of tf2')


BAD_TARGETS = [
    (target(frame='kitchen'), "frame 'kitchen' is not a link of robot 'panda' (links: base,"),
    (target(quaternion=(0.0, 0.0, 0.0, 0.0)), 'has length 0: must be 1'),
    (target(quaternion=(0.0, 0.0, 2.0, 0.0)), 'has length 2: must be 1'),
    (target(position=(np.nan, 0.0, 0.0)), 'pose is not finite'),
    (target(position=(1.7e308, 0.0, 0.0)), 'must be at most 1000 m'),
    (target(stamp=1.8e9), 'another clock'),
]


def test_bad_target_is_refused_and_the_old_one_stays(spin):
    rig = Rig(spin).activate()
    for number, (bad, message) in enumerate(BAD_TARGETS, 1):
        rig.until_said(message, lambda bad=bad: rig.hardware.poses.publish(bad))
        assert spin.said('target_pose refused, the old target stays', times=number), message
        np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8, err_msg=message)


def jogging(linear=(0.0, 0.1, 0.0), frame='panda_link0', stamp=0.0):
    """Return a message with a twist."""
    message = TwistStamped()
    message.header.stamp, message.header.frame_id = messages.stamp(stamp), frame
    message.twist.linear.x, message.twist.linear.y, message.twist.linear.z = linear
    return message


BAD_TWISTS = [
    (jogging(frame='kitchen'), "frame 'kitchen' is not a link of robot 'panda'"),
    (jogging(linear=(np.nan, 0.0, 0.0)), 'must be 6 finite numbers'),
    (jogging(stamp=1e-3), 'must be less than 0.2 s, or 0 for now'),
    (jogging(stamp=1.8e9), 'another clock'),
    (jogging((0.0, 5.0, 0.0)), 'at most 3 m/s'),
]


def test_bad_twist_is_refused_and_the_old_target_stays(spin):
    rig = Rig(spin).activate()
    twists = rig.hardware.create_publisher(TwistStamped, 'osc_controller/target_twist', 10)
    rig.hardware.tick = 1000
    rig.ask()
    for number, (bad, message) in enumerate(BAD_TWISTS, 1):
        rig.until_said(message, lambda bad=bad: twists.publish(bad))
        assert spin.said('target_twist refused, the old target stays', times=number), message
        np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8, err_msg=message)


def test_twist_in_the_frame_of_a_link_moves_the_target_until_its_time_out(spin):
    rig = Rig(spin).activate()
    twists = rig.hardware.create_publisher(TwistStamped, 'osc_controller/target_twist', 10)
    spin(lambda: twists.get_subscription_count() > 0)

    def moves():
        twists.publish(jogging((0.1, 0.2, 0.0), 'panda_hand_tcp'))
        rig.ask()
        # the hand points down: in this pose its y axis is the -y axis of the base
        return np.allclose(rig.controller._law.target.twist, [0, 0, 0, 0.1, -0.2, 0.0],
                           atol=1e-6)

    spin(moves, why='for the target to move')

    def rests():
        twists.publish(jogging((0.1, 5.0, 0.0), 'panda_hand_tcp'))  # refused: the target stops
        rig.ask()
        return not rig.controller._law.target.twist.any()

    spin(rests, why='for the target to rest')
    assert spin.said('target_twist refused')


def test_hold_service_stops_the_target_and_does_not_throw_it(spin):
    rig = Rig(spin).activate()
    holds = rig.hardware.create_client(Trigger, 'osc_controller/hold')
    rig.hardware.poses.publish(target((0.4, 0.3, 0.4)))

    def moves():
        rig.ask()
        return np.linalg.norm(rig.controller._law.target.twist[3:]) > 0.05

    spin(moves, why='for the target to move')
    before = rig.controller._law.target
    answer = holds.call_async(Trigger.Request())
    spin(answer.done)
    assert answer.result().success and answer.result().message == 'stopping'
    rig.ask()
    assert rig.controller._law.target.twist[3:] @ before.twist[3:] > 0.0

    def rests():
        rig.ask()
        return not rig.controller._law.target.twist.any()

    spin(rests, why='for the target to rest')


def test_pose_outside_of_the_workspace_is_clamped_and_reported(spin):
    rig = Rig(spin, **{'workspace.lower': [0.2, -0.4, 0.1],
                       'workspace.upper': [0.7, 0.4, 0.8]}).activate()
    rig.until_said('target_pose: outside of the workspace box',
                   lambda: rig.hardware.poses.publish(target((0.4, 0.9, 0.4))))
    guide = rig.controller._law.levels['tip'].generator

    def is_clamped():
        rig.ask()
        return guide.clamped

    spin(is_clamped, why='for the plan of the target')
    np.testing.assert_array_equal(guide.course.motion.pose[:3, 3], [0.4, 0.9, 0.4])


def test_single_point_of_a_trajectory_is_a_pose_to_be_at_then(spin):
    rig = Rig(spin).activate()
    path = figure_of_eight(rig.controller._law.pose, 0.1, 0.1, 2.0, 1.0, 0.0)
    message = messages.trajectory_message(path, 'panda_link0', 'panda_hand_tcp')
    message.points = message.points[30:31]
    message.points[0].velocities, message.points[0].accelerations = [], []
    message.header.stamp = messages.stamp(0.0)

    def moves():
        rig.hardware.paths.publish(message)
        rig.ask()
        return rig.controller._law.target.twist.any()

    spin(moves, why='for the target to move')


def test_bad_trajectory_is_refused_and_the_old_target_stays(spin):
    rig = Rig(spin).activate()
    rig.spin(lambda: rig.hardware.paths.get_subscription_count() > 0)
    rig.until_said('target_trajectory refused', lambda: rig.hardware.paths.publish(
        MultiDOFJointTrajectory()))
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def poses_at(speed, pose):
    """Return a trajectory message without twists: its poses move along y at `speed` [m/s]."""
    times = np.arange(0.0, 0.6, 0.05)
    there = np.repeat(pose[None], len(times), axis=0)
    there[:, 1, 3] += speed * times
    message = messages.trajectory_message(Path(times, there), 'panda_link0', 'panda_hand_tcp')
    for point in message.points:
        point.velocities, point.accelerations = [], []
    return message


def test_trajectory_of_poses_in_motion_is_followed_and_the_log_says_that_it_ends_later(spin):
    rig = Rig(spin).activate()
    message = poses_at(0.4, rig.controller._law.pose)
    rig.until_said('target_trajectory is too fast for the limits, and ends 0.21',
                   lambda: rig.hardware.paths.publish(message))
    assert not spin.said('refused')


def test_trajectory_that_is_too_fast_is_refused_by_its_point_or_slowed_down_as_is_set(spin):
    rig = Rig(spin).activate()
    message = poses_at(1.5, rig.controller._law.pose)
    rig.until_said('the path asks for 1.5 m/s at point ',
                   lambda: rig.hardware.paths.publish(message))
    [result] = rig.controller.set_parameters([Parameter('target.too_fast', value='slow')])
    assert result.successful
    rig.until_said('target_trajectory is too fast for the limits, and ends ',
                   lambda: rig.hardware.paths.publish(message))


@pytest.mark.parametrize('frame, position, error', [
    pytest.param('panda_link0', None, (0.0, 0.0, 0.1), marks=pytest.mark.slow),
    ('', None, (0.0, 0.0, 0.1)),
    ('panda_hand_tcp', (0.0, 0.0, 0.1), (0.0, 0.0, -0.1)),
])
def test_target_may_be_in_the_frame_of_any_link(spin, frame, position, error):
    jumps = {f'target.{part}.{rate}': np.inf for part in ('rotation', 'translation')
             for rate in ('speed', 'acceleration', 'jerk')}
    rig = Rig(spin, report_rate=20000.0, **jumps).activate()
    T = rig.controller._law.pose.copy()
    if position is None:
        T[2, 3] += 0.1
        message = messages.pose_message(T, frame, messages.stamp(0.0))
    else:
        message = target(position, (0.0, 0.0, 0.0, 1.0), frame)

    def arrived():
        rig.hardware.poses.publish(message)
        rig.hardware.state()
        seen = rig.hardware.errors[-1:]
        return seen and abs(seen[0].twist.linear.z) > 0.05

    rig.spin(arrived)
    found = rig.hardware.errors[-1].twist
    np.testing.assert_allclose([found.linear.x, found.linear.y, found.linear.z], error, atol=1e-9)
    np.testing.assert_allclose([found.angular.x, found.angular.y, found.angular.z], 0.0, atol=1e-7)


BAD_PARAMETERS = [
    ('translation.natural_frequency', [1.0, 2.0], 'must be an array of 3, each a number'),
    ('translation.natural_frequency', [1.0, 2.0, -3.0], 'at least 0.001'),
    ('rotation.damping_ratio', 'high', 'must be an array of 3'),
    ('posture.natural_frequency', -1.0, 'at least 0, at most 1000 [rad/s]'),
    ('singularity.low', 0.5, 'must be 0 < low < high < 1'),
    ('limits.effort', [1.0], 'give one for each of panda_joint1'),
    ('limits.effort', [1.0] * 7, 'N m to hold the arm where it is: must be at least'),
    ('state_timeout', 0.0, 'at least 0.001, at most 60 [s]'),
    ('target.translation.jerk', float('inf'), 'must be finite ones only, or infinite'),
    ('target.translation.speed', 250.0, 'give at most 20'),
    ('limits.velocity', [180.0] * 7, 'at most 60 [rad/s]'),
    ('workspace.upper', [0.0], 'must be an array of 3'),
    ('translation.natural_frequency', [20.0, 1000.0, 20.0], "'translation.natural_frequency' is "
     '1000: must be at most 116.3 at 500 Hz with a delay of '),
    ('rotation.damping_ratio', [100.0] * 3, "'rotation.damping_ratio' is 100: must be at "
     'most 6.239 at 500 Hz'),
    ('posture.natural_frequency', 1000.0, 'is 1000: must be at most 116.3'),
    ('posture.damping', 1000.0, 'is 1000: must be at most 250'),
    ('force.damping', 1e4, 'is 10000: must be at most 250'),
    ('force.integral_rate', 1000.0, 'is 1000: must be at most 25'),
    ('limits.reaction_time', 0.001, 'is 0.001: must be at least 0.008'),
    ('limits.repulsion', 1000.0, "'limits.repulsion' is 1000: must be at most "),
    ('tip', 'panda_link3', "'tip' can be set only while the node is unconfigured"),
]


def test_bad_parameter_is_refused_with_the_reason_and_the_old_value_kept(spin):
    rig = Rig(spin).activate()
    settings = rig.controller._law.settings
    for name, value, message in BAD_PARAMETERS:
        before = rig.controller.get_parameter(name).value
        result = rig.controller.set_parameters_atomically([Parameter(name, value=value)])
        assert not result.successful, (name, value)
        assert message in result.reason
        assert rig.controller.get_parameter(name).value == before
        assert rig.controller._law.settings is settings, (name, value)


def test_gains_that_the_rate_does_not_carry_are_refused_when_the_node_is_configured(spin):
    rig = Rig(spin, rate=250.0, translation__natural_frequency=[60.0] * 3)
    assert rig.controller.trigger_configure() == FAILURE
    with pytest.raises(InputError, match=naming(
            "'translation.natural_frequency'", 60, 58.16, '250 Hz', 'damping_ratio 1')):
        rig.controller._configure()
    rig.controller.set_parameters(given(rate=500.0))
    assert rig.controller.trigger_configure() == SUCCESS


def test_other_parameters_can_be_set_while_late_updates_make_a_gain_too_high(spin):
    rig = Rig(spin, translation__natural_frequency=[110.0] * 3).activate()
    for _ in range(400):
        rig.controller._loop.engine.counts.updates.add(0.003)
    [result] = rig.controller.set_parameters(given(payload__mass=0.5))
    assert result.successful
    [result] = rig.controller.set_parameters(given(translation__natural_frequency=[100.0] * 3))
    assert result.successful
    [result] = rig.controller.set_parameters(given(rotation__natural_frequency=[110.0] * 3))
    assert not result.successful and 'with a delay of 1.5 periods' in result.reason


def test_set_with_one_bad_parameter_changes_nothing(spin):
    rig = Rig(spin).activate()
    result = rig.controller.set_parameters_atomically(given(
        posture__natural_frequency=1.0, translation__speed=-1.0))
    assert not result.successful
    assert rig.controller.get_parameter('posture.natural_frequency').value == 5.0


def test_watch_follows_a_time_out_that_is_lowered_while_active(spin):
    rig = Rig(spin, state_timeout=60.0).activate()
    [result] = rig.controller.set_parameters(given(state_timeout=0.05))
    assert result.successful
    rig.spin(lambda: commands.label(rig.hardware.commands[-1]) == commands.HOLD_LABEL,
             why='for a command in the silence')


def test_bad_posture_is_refused_and_the_old_one_stays(spin):
    rig = Rig(spin).activate()
    publisher = rig.hardware.create_publisher(JointState, 'osc_controller/target_posture', 10)
    rig.until_said("target_posture refused, the old one stays: posture of joint 'panda_joint1'",
                   lambda: publisher.publish(JointState(name=list(JOINTS), position=[100.0] * 7)))
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def test_clock_that_begins_again_drops_what_was_planned_and_holds(spin):
    rig = Rig(spin).activate()
    rig.hardware.tick = 10_000
    for _ in range(20):  # until that clock is accepted
        rig.ask()
    rig.until_said('time went back', lambda: (setattr(rig.hardware, 'tick', 1), rig.ask()))
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def test_torques_before_another_clock_is_accepted_are_not_said_to_be_for_its_states(spin):
    rig = Rig(spin, rate=100.0).activate()
    rig.hardware.tick = 10_000
    for _ in range(20):  # until that clock is accepted
        rig.ask()
    rig.hardware.tick, away = 0, READY + [1.0, 0.5, 1.0, -0.5, 1.0, 0.5, 1.0]
    labels = []
    rig.hardware.commands.clear()  # some have the same labels

    def is_accepted():
        labels.append(rig.hardware.state(q=away))
        return np.array_equal(rig.controller._loop.q, away)

    spin(is_accepted, why='for the clock to be accepted')
    spin(lambda: commands.label(rig.hardware.commands[-1]) in labels, why='for an answer')
    first = next(one for one in rig.hardware.commands if commands.label(one) in labels)
    np.testing.assert_allclose(first.data, gravity(away), atol=0.5)


def test_misspelt_parameter_is_reported(spin):
    rig = Rig(spin, **{'posture.naturl_frequency': 1.0})
    rig.until_said("'posture.naturl_frequency' is unknown and has no effect (did you mean "
                   "'posture.natural_frequency'?)")


def test_good_parameter_changes_the_law_while_it_runs(spin):
    rig = Rig(spin).activate()
    [result] = rig.controller.set_parameters(given(translation__natural_frequency=[1, 2, 3]))
    assert result.successful
    [tip] = rig.controller._law.settings.tasks
    np.testing.assert_array_equal(tip.gains.natural_frequency[3:], [1.0, 2.0, 3.0])


def test_mode_axes_frame_and_stiffness_are_live_and_the_torque_goes_on(spin):
    rig = Rig(spin, blend_time=0.05).activate()
    first = rig.ask()
    for parameters in ({'mode': 'impedance', 'translation.stiffness': [200.0, 200.0, 900.0]},
                       {'translation.axes': ['motion', 'motion', 'free']},
                       {'task.frame': 'panda_hand_tcp'}, {'task.activation': 0.5}):
        assert set_live(rig, **parameters) == ''
        np.testing.assert_allclose(rig.ask(), first, atol=0.2)
    [tip] = rig.controller._law.settings.tasks
    np.testing.assert_array_equal(tip.gains.stiffness, [30.0] * 3 + [200.0, 200.0, 900.0])
    assert tip.axes == ('motion',) * 5 + ('free',)
    assert 'axes' in set_live(rig, **{'translation.axes': ['motion', 'motion', 'fixed']})
    assert 'panda_lnk' in set_live(rig, **{'task.frame': 'panda_lnk'})
    assert rig.controller._law.settings.tasks[0] is tip


def test_gravity_before_the_first_joint_state_is_refused_and_the_node_goes_on(spin):
    rig = Rig(spin)
    assert rig.controller.trigger_configure() == SUCCESS
    gravity = rig.hardware.create_publisher(Vector3Stamped, 'osc_controller/gravity', 10)
    spin(lambda: gravity.get_subscription_count() > 0)
    gravity.publish(Vector3Stamped())
    spin(lambda: spin.said('no joint state has come yet'))


def test_further_tasks_have_parameters_and_topics_of_their_name(spin):
    rig = Rig(spin, tasks=['elbow'], elbow__link='panda_link4', elbow__activation=0.5).activate()
    tip, elbow = rig.controller._law.settings.tasks
    assert (elbow.name, elbow.link, elbow.activation) == ('elbow', 'panda_link4', 0.5)
    assert elbow.axes == ('free',) * 3 + ('motion',) * 3
    poses, twists = (rig.hardware.create_publisher(kind, f'osc_controller/elbow/{name}', 10)
                     for kind, name in ((PoseStamped, 'target_pose'),
                                        (TwistStamped, 'target_twist')))
    spin(lambda: poses.get_subscription_count() > 0 and twists.get_subscription_count() > 0)
    poses.publish(target(position=(0.1, 0.2, 0.6)))
    level = rig.controller._law.levels['elbow']

    def arrived():
        rig.ask()
        return level.target.pose[1, 3] > 0.1

    spin(arrived, why='for the elbow to have its target')
    twist = TwistStamped()
    twist.twist.linear.y = -0.1

    def moves_back():
        twists.publish(twist)
        rig.ask()
        return level.target.twist[4] < -0.05

    spin(moves_back, why='for the elbow to be led back')
    assert set_live(rig, elbow__activation=1.0) == ''
    assert rig.controller._law.settings.tasks[1].activation == 1.0
    assert "'elbow.link'" in set_live(rig, elbow__link='panda_link3')


def test_node_that_is_destroyed_is_not_seen_any_more(ros):
    other = Node('other')
    node = Controller(namespace='alone', parameter_overrides=given(autostart=False))

    def of_the_node():  # not those of other tests, which may end meanwhile
        return [name for name, space in other.get_node_names_and_namespaces() if space == '/alone']

    assert of_the_node() == ['osc_controller']
    node.destroy_node()
    assert of_the_node() == []
    other.destroy_node()


def test_garbage_is_collected_as_usual_only_after_the_last_of_two_controllers(ros, all_garbage):
    nodes = [Controller(namespace=name, parameter_overrides=given(**ROBOT, autostart=False))
             for name in ('left', 'right')]
    for node in nodes:
        assert node.trigger_configure() == SUCCESS
    nodes[0].stop()
    nodes[0].stop()
    assert not gc.isenabled() and gc.get_freeze_count() > 0
    nodes[1].stop()
    assert gc.isenabled() and gc.get_freeze_count() == 0
    for node in nodes:
        node.destroy_node()


def test_task_of_a_name_that_is_taken_is_refused(ros):
    with pytest.raises(InputError, match="'tasks' .*'posture'.*(give|must be)"):
        Controller(parameter_overrides=given(tasks=['posture']))
    gc.collect()  # of the node that rclpy had begun


@pytest.mark.parametrize('task', ['tip', 'hand'])
def test_wrenches_are_taken_in_the_frame_of_any_link_and_of_whom_it_was_said(spin, task):
    prefix, further = ('', {}) if task == 'tip' else ('hand/', {
        'tasks': ['hand'], 'hand.link': 'panda_link7', 'translation.axes': ['free'] * 3})
    rig = Rig(spin, **further, **{
        prefix.replace('/', '.') + 'translation.axes': ['motion', 'motion', 'force'],
        'force.gain': 0.2, 'force.measured': 'on_robot'}).activate()
    level = rig.controller._law.levels[task]
    pushes, feels = (
        rig.hardware.create_publisher(WrenchStamped, f'osc_controller/{prefix}{name}', 10)
        for name in ('target_wrench', 'measured_wrench'))
    spin(lambda: pushes.get_subscription_count() > 0 and feels.get_subscription_count() > 0)
    # the z axis of the hand points straight down
    pushes.publish(wrench((0.0, 0.0, 5.0), 'panda_hand_tcp'))
    spin(lambda: level.wanted_wrench.any(), why='for the wrench')
    np.testing.assert_allclose(level.wanted_wrench, [0.0] * 5 + [-5.0], atol=1e-6)
    pushes.publish(wrench((1.0, 0.0, 0.0)))
    spin(lambda: spin.said(f'{prefix}target_wrench refused')
         and spin.said('axis 3 is one of motion'))
    feels.publish(wrench((0.0, 2.0, 0.0), 'panda_link0'))
    spin(lambda: level._d.measured_wrench[level._i].any(), why='for the measured wrench')
    p = level.pose[:3, 3]
    expected = np.hstack([np.cross(-p, [0.0, -2.0, 0.0]), [0.0, -2.0, 0.0]])
    np.testing.assert_allclose(level._d.measured_wrench[level._i], expected, atol=1e-9)


def test_topics_terms_inertia_and_wrench_explain_the_torque(spin):
    rig = Rig(spin, report_rate=500.0).activate()
    terms, inertias, wrenches = [], [], []
    for kind, name, kept in ((Float64MultiArray, 'terms', terms),
                             (Float64MultiArray, 'inertia', inertias),
                             (WrenchStamped, 'wrench', wrenches)):
        rig.hardware.create_subscription(kind, f'osc_controller/{name}', kept.append, 10)

    def heard():
        rig.ask()
        return terms and inertias and wrenches

    spin(heard, why='for the read-out')
    rows, columns, stamp = terms[-1].layout.dim
    assert 0.0 < commands.labelled_time(stamp.label) <= rig.hardware.tick * 0.002
    assert rows.label == 'bias posture tip fading limits predicted met'
    assert columns.label == ' '.join(JOINTS)
    values = np.array(terms[-1].data).reshape(rows.size, columns.size)
    np.testing.assert_allclose(values[:-2].sum(axis=0), gravity(READY), atol=1e-9)
    Lambda = np.array(inertias[-1].data).reshape(6, 6)
    assert [dim.label for dim in inertias[-1].layout.dim[:2]] == ['x y z rx ry rz'] * 2
    assert commands.labelled_time(inertias[-1].layout.dim[2].label) > 0.0
    np.testing.assert_allclose(Lambda, Lambda.T)
    assert 1.0 < Lambda[2, 2] < 20.0  # effective mass along z [kg]
    assert wrenches[-1].header.frame_id == 'panda_link0'
    # a report that comes after the arm was made to hold its pose tells nothing, and ends nothing
    law = rig.controller._law
    rig.controller._loop.request(lambda engine: engine.law.hold(engine.q))
    count = len(inertias)
    rig.controller._report((0, 0), law.pose, law.error, law.F, None, law.twist)
    assert len(inertias) == count


@pytest.mark.parametrize('parameters, message', [
    ({'robot_description_file': ''}, "no robot: set parameter 'robot_description'"),
    ({'robot_description_file': '/nowhere.urdf'}, "'/nowhere.urdf' cannot be read"),
    ({'robot_description_file': 'Pandda'}, "did you mean 'panda'?"),
    ({'robot_description': '<robot'}, 'XML'),
    ({'robot_description': 'hello', 'base': '', 'tip': ''}, "the URDF does not parse as XML: "
     "syntax error (line 1, column 1); it begins 'hello': give the text of a URDF"),
    ({'robot_description': 'arm.urdf'}, 'the URDF does not parse as XML'),  # another node's text
    ({'robot_description': '<html/>', 'base': ''}, 'the root element is <html>'),
    ({'tip': 'panda_hand_tpc'}, 'panda_hand_tcp'),
    ({'base': ''}, "parameter 'base' is empty"),
    ({'method': 'magic'}, "'method' is 'magic': must be one of sweep, "),
    ({'workers': -1}, "'workers' is -1: must be an integer, at least 0"),
    ({'joint_order': ['panda_joint1']}, "give the joints from 'panda_link0'"),
    ({'translation.speed': 'fast'}, "'translation.speed' is 'fast': must be a number"),
    ({'rotor_inertia': [1.0]}, 'rotor'),
])
def test_configuring_fails_and_says_why(spin, parameters, message):
    rig = Rig(spin, **parameters)
    assert rig.controller.trigger_configure() == FAILURE
    rig.until_said(message)
    assert rig.controller._law is None


def test_activation_without_joint_states_fails_and_says_why(spin):
    rig = Rig(spin)
    assert rig.controller.trigger_configure() == SUCCESS
    assert rig.controller.trigger_activate() == FAILURE
    rig.until_said('cannot activate yet: no joint_states have come yet: required are positions '
                   'of panda_joint1, ')
    assert spin.said("panda_joint7 ('/joint_states' has 1 publishers, but nothing arrives")
    assert not spin.said('[ERROR]')


def test_controller_starts_by_itself_from_the_topic_robot_description(spin):
    from osc_ros.ros.messages.qos import LATCHED_QOS
    rig = Rig(spin, autostart=True, robot_description_file='')
    rig.until_said("waiting: no robot: set parameter 'robot_description'")
    publisher = rig.hardware.create_publisher(String, 'robot_description', LATCHED_QOS)
    publisher.publish(String(data=PANDA.urdf_text))
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def test_without_states_the_controller_holds_against_gravity_and_then_goes_on(spin):
    rig = Rig(spin, state_timeout=0.2).activate()
    rig.ask()
    rig.until_held(gravity(READY), atol=BRAKED)
    rig.until_said('stale_state: no joint states on /joint_states for 0.2')
    rig.controller.set_parameters(given(settle_time=0.001))
    rig.ask()


def test_deactivation_leaves_a_command_that_holds_the_arm(spin):
    rig = Rig(spin).activate()
    rig.ask()
    rig.deactivate()
    rig.until_held(gravity(READY), atol=BRAKED, label=commands.LAST_LABEL)


def test_node_can_be_configured_again_after_cleanup(spin):
    rig = Rig(spin).activate()
    assert rig.controller.trigger_deactivate() == SUCCESS
    assert rig.controller.trigger_cleanup() == SUCCESS
    assert rig.controller.trigger_configure() == FAILURE
    assert spin.said('cannot configure: the arm is still being stopped')
    spin(lambda: rig.controller._law is None, why='for the arm to be stopped')
    [result] = rig.controller.set_parameters(given(tip='panda_link8'))
    assert result.successful
    spin(lambda: rig.hardware.count_publishers('osc_controller/commands') == 0,
         why='for DDS to forget the first publisher')
    rig.activate()
    assert rig.controller._law.robot.tip == 'panda_link8'


def test_dense_method_commands_the_same(spin):
    rig = Rig(spin, method='dense').activate()
    np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


@pytest.mark.parametrize('how', [
    signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interrupted_controller_leaves_a_command_that_holds_the_arm(spin, start, how):
    hardware = Hardware()
    spin(lambda: True, hardware)
    process = start('controller', '--ros-args', '--params-file',
                    share_directory() / 'config' / 'panda.yaml', '-p', 'state_timeout:=30.0')

    def commanded():
        hardware.state()
        return len(hardware.commands) > 5

    spin(commanded, why='for the controller process')
    process.send_signal(how)
    spin(lambda: process.poll() is not None)
    spin(lambda: commands.label(hardware.commands[-1]) == commands.LAST_LABEL,
         why=process.log.read_text())
    np.testing.assert_allclose(hardware.commands[-1].data, gravity(READY), atol=1e-8)
    assert process.returncode == 0


BROKEN = """
from osc_ros.ros.controller import controller, targets
def broken(self, request, response):
    raise RuntimeError('a wire is loose')
targets.Targets._on_hold = broken
controller.main()
"""


def test_crash_in_a_callback_ends_in_a_command_that_holds_the_arm(spin, tmp_path):
    hardware = Hardware()
    hold = hardware.create_client(Trigger, 'osc_controller/hold')
    spin(lambda: True, hardware)
    log = tmp_path / 'log'
    with log.open('w') as output, subprocess.Popen(
            [sys.executable, '-c', BROKEN, '--ros-args', '--params-file',
             str(share_directory() / 'config' / 'panda.yaml'), '-p', 'state_timeout:=30.0'],
            stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            spin(lambda: len(hardware.commands) > 5 or not hardware.state(), why='for commands')
            hold.call_async(Trigger.Request())
            spin(lambda: process.poll() is not None or not hardware.state(), why='for the end')
        finally:
            process.kill()
    spin(lambda: commands.label(hardware.commands[-1]) == commands.LAST_LABEL, why=log.read_text())
    np.testing.assert_allclose(hardware.commands[-1].data, gravity(READY), atol=1e-8)
    assert process.returncode == 1
    assert 'a wire is loose' in log.read_text()


class Driver(Node):
    """Takes the place of the controller: receives joint states, and sends commands."""

    def __init__(self):
        """Subscribe to the joint states and create the publisher of commands."""
        super().__init__('driver')
        self.states = []
        self.create_subscription(JointState, 'joint_states', self.states.append, 100)
        self.commands = self.create_publisher(Float64MultiArray, 'osc_controller/commands', 10)


def simulated(spin, **parameters):
    """Return a simulator and a driver node that are connected."""
    driver = Driver()
    simulator = Simulator(parameter_overrides=given(
        **({**ROBOT, 'initial_positions': READY.tolist(), 'lockstep': True} | parameters)))
    spin(lambda: driver.states and driver.commands.get_subscription_count() > 0, driver, simulator)
    return simulator, driver


def test_simulator_in_lockstep_steps_once_for_each_command_and_not_without(spin):
    simulator, driver = simulated(spin, lockstep_timeout=3600.0)
    count = len(driver.states)
    spin(lambda: len(driver.states) > count + 3)  # repeats of the first state, brakes closed
    assert {messages.seconds(state.header.stamp) for state in driver.states} == {0.0}
    command = commands.Command(7)
    for _ in range(5):
        label = messages.label_of(driver.states[-1].header.stamp)
        for _ in range(2):  # the second command answers an older state: no further step
            driver.commands.publish(command.fill(gravity(READY), label))
        spin(lambda old=label: messages.label_of(driver.states[-1].header.stamp) != old)
        driver.states[:] = driver.states[-1:]
    assert simulator._tick == 5
    assert messages.seconds(driver.states[-1].header.stamp) == pytest.approx(0.01)
    np.testing.assert_allclose(driver.states[-1].position, READY, atol=1e-9)


@pytest.mark.parametrize('bad', [[0.0] * 6, [np.nan] + [0.0] * 6, []])
def test_simulator_drops_a_bad_command_and_says_so(spin, bad):
    simulator, driver = simulated(spin, lockstep_timeout=3600.0)

    def said():
        driver.commands.publish(Float64MultiArray(data=bad))
        return spin.said('command dropped') and spin.said('give 7 finite torques')

    spin(said)
    assert simulator._tick == 0


def test_simulator_in_lockstep_goes_on_after_its_time_out(spin):
    simulator, driver = simulated(spin, lockstep_timeout=0.1)

    def stepped():
        if simulator._tick == 0:
            driver.commands.publish(Float64MultiArray(data=gravity(READY).tolist()))
        return simulator._tick > 2

    spin(stepped)
    assert simulator._unanswered >= 1
    assert simulator._plant.braked.all()


def test_brakes_stop_an_arm_in_lockstep_within_one_time_out(spin):
    simulator, driver = simulated(spin, lockstep_timeout=1.0, friction=[0.0] * 7,
                                  damping=[0.0] * 7)
    command = commands.Command(7)

    def is_fast():
        driver.commands.publish(command.fill(
            gravity(READY) + [20.0, 0, 0, 0, 0, 0, 0],
            messages.label_of(driver.states[-1].header.stamp)))
        return driver.states[-1].velocity[0] > 0.5

    spin(is_fast)
    spin(lambda: simulator._commanded.ended and not any(driver.states[-1].velocity),
         why='for brakes')
    assert simulator._unanswered == 1
    ticks = simulator._tick
    spin(lambda: simulator._unanswered == 2)  # at rest it waits again
    assert simulator._tick <= ticks + 1


def test_simulator_in_real_time_runs_by_itself_and_takes_the_newest_command(spin):
    simulator, driver = simulated(spin, lockstep=False, rate=100.0)
    driver.commands.publish(Float64MultiArray(data=gravity(READY).tolist()))
    spin(lambda: simulator._tick > 50)
    stamps = [messages.seconds(state.header.stamp) for state in driver.states]
    assert stamps == sorted(stamps)


def test_simulated_arm_that_gets_no_more_commands_is_held_by_its_brakes(spin):
    simulator, driver = simulated(spin, lockstep=False, rate=100.0, friction=[0.0] * 7,
                                  damping=[0.0] * 7)
    answered = []

    def answer(tau):
        """Send the torques once for each new state."""
        if driver.states[-1] not in answered[-1:]:
            answered.append(driver.states[-1])
            driver.commands.publish(Float64MultiArray(data=tau.tolist()))

    spin(lambda: driver.states[-1].velocity[0] > 0.1
         or answer(gravity(READY) + [2.0, 0, 0, 0, 0, 0, 0]))
    spin(lambda: simulator._commanded.ended and not any(driver.states[-1].velocity),
         why='for brakes')
    count, stopped = len(driver.states), np.array(driver.states[-1].position)
    spin(lambda: len(driver.states) > count + 100)
    assert (np.array([state.position for state in driver.states[count:]]) == stopped).all()
    np.testing.assert_allclose(driver.states[-1].effort, gravity(stopped), atol=1e-8)
    # the brakes open with the next command, and the arm does not jump
    spin(lambda: len(driver.states) > count + 150 or answer(gravity(stopped)))
    assert not simulator._commanded.ended and not simulator._plant.braked.any()
    np.testing.assert_allclose(driver.states[-1].position, stopped, atol=1e-6)


def test_simulated_arm_without_brakes_goes_on_under_the_last_torque(spin):
    simulator, driver = simulated(spin, lockstep=False, rate=100.0, brakes=False)
    spin(lambda: simulator._tick or driver.commands.publish(
        Float64MultiArray(data=(gravity(READY) + 5.0).tolist())))
    spin(lambda: simulator._tick > 40)
    assert not simulator._plant.braked.any()
    assert np.abs(driver.states[-1].position - READY).max() > 0.01


def test_same_seed_same_noise(spin):
    seen = []
    for _ in range(2):
        simulator, driver = simulated(spin, position_noise=1e-3, velocity_noise=1e-2, seed=5)
        seen.append(list(simulator._state.position))
        spin(lambda: True)
    assert seen[0] == seen[1] != READY.tolist()


@pytest.mark.parametrize('parameters, message', [
    ({'timestep': 0.0015}, 'whole number'),
    ({'seed': -1}, "'seed' .*-1: (give|must be).* 0"),
    ({'initial_positions': [9.0] * 7}, 'panda_joint1'),
    ({'friction': [1.0]}, 'friction'),
    ({'joint_order': ['a', 'b']}, 'panda_joint1'),
    ({'robot_description': 'hello', 'base': ''}, "'hello'.*URDF"),
])
def test_simulator_refuses_bad_parameters(ros, parameters, message):
    from osc_ros.errors import OscError
    with pytest.raises(OscError, match=message):
        Simulator(parameter_overrides=given(**{**ROBOT, **parameters}))


def test_arm_that_is_not_simulated_starts_slowly_until_the_user_raises_its_speed(spin):
    rig = Rig(spin, speed_override=None).activate()
    limit = rig.controller._law.settings.limits.velocity.max()
    assert spin.said('motions have 10 % of their speed')
    assert 0.01 * rig.controller._loop.read(requests.speed_override) * limit <= 0.3
    assert set_live(rig, speed_override=100.0) == ''
    rig.deactivate()
    rig.activate_configured()
    assert rig.controller._loop.read(requests.speed_override) == 100.0


def test_speed_that_is_set_before_the_first_activation_is_not_raised(spin):
    rig = Rig(spin, speed_override=None)
    assert rig.controller.set_parameters_atomically(given(speed_override=5.0)).successful
    rig.activate()
    assert rig.controller._loop.read(requests.speed_override) == 5.0


def test_speed_override_is_set_by_topic_and_parameter_and_outlasts_an_activation(spin):
    rig = Rig(spin, speed_override=20.0).activate()
    node, setup = rig.controller, rig.controller._law.setup
    speeds = rig.hardware.create_publisher(Float64, 'osc_controller/speed', 10)
    spin(lambda: speeds.get_subscription_count() > 0)
    assert spin.said('motions have 20 % of their speed')

    def in_force():
        return node._loop.read(requests.speed_override)

    assert in_force() == 20.0
    speeds.publish(Float64(data=10.0))
    spin(lambda: in_force() == 10.0, why='for the speed override')
    assert node.get_parameter('speed_override').value == 10.0
    rig.until_said('give 50', lambda: speeds.publish(Float64(data=0.5)))
    assert in_force() == 10.0
    assert set_live(rig, speed_override=50.0) == ''
    assert in_force() == 50.0
    assert node._law.setup is setup  # at once, without a blend
    assert set_live(rig, **{'posture.natural_frequency': 4.0}) == ''
    assert in_force() == 50.0
    rig.deactivate()
    rig.activate_configured()
    assert in_force() == 50.0


@pytest.mark.slow  # quick: test_changes_that_follow_each_other_closely_do_not_throw_the_arm
@pytest.mark.parametrize('gap', [0.02, 0.1, 0.3, 0.6])  # [s]
def test_second_change_of_mode_at_full_joint_speed_does_not_throw_the_arm(spin, gap):
    rig = Rig(spin, rate=500.0).activate()
    plant, engine = Plant(rig), rig.controller._loop.engine
    follow_joints(rig, READY)
    for first, second in permutations(('acceleration', 'impedance', 'free', 'joints'), 2):
        if first == 'joints':
            continue
        follow_joints(rig, READY + [1.5, 0.8, -1.2, 1.0, 1.5, 1.2, -1.5],
                      plant.arm.velocity)
        plant.speed = plant.step = 0.0
        plant.run(0.4)
        before = plant.speed
        for mode, seconds in ((first, gap), (second, 1.5)):
            assert set_live(rig, mode=mode) == ''
            plant.run(seconds)
        print(f'{first}, {second} after {gap} s: v {before:.2f}, then {plant.speed:.2f}, at the '
              f'end {np.abs(plant.arm.qd / plant.arm.velocity).max():.3f}, step '
              f'{plant.step:.3f}; {dict(engine.guard.counts)}')
        assert plant.speed <= 1.05 and plant.step <= 0.1
        assert engine.guard.reaction in HARMLESS
        follow_joints(rig, READY)
        plant.run(2.5)
