# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One set of tests of `osc_ros.Arm`: a simulation of the process, a loop, and ROS topics."""

from contextlib import contextmanager, suppress
import copy
from dataclasses import replace
import logging
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
from threading import Thread
from time import perf_counter, sleep

import numpy as np
import pytest
import yaml

from common import CHECKOUT, naming, PATIENCE
import osc_ros
from osc_ros import Robot
from osc_ros.client.robots import SHIPPED
from osc_ros.compile.compiled import KERNELS
from osc_ros.control.reasons import TITLES
from osc_ros.control.safety.supervision import STALE_STATE, STALE_TARGET, Watchdog
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.errors import (
    ArmError,
    ArmTimeoutError,
    InputError,
    InputWarning,
    ModelError,
    ReachError,
)
from osc_ros.hardware.contract import Description
from osc_ros.loop.engine import Engine
from osc_ros.loop.process.process_start import careful_override, Start
from osc_ros.model.files import ROBOTS, shipped_urdf
from osc_ros.model.urdf import pair
from ros_arm import client_over_ros, HOME

LAG = 0.1  # time of the arm that passes while a command is on its way over DDS, in lockstep [s]


@pytest.fixture(scope='module')
def over_ros(ros):
    with client_over_ros(ros) as arm:
        yield arm


@pytest.fixture(scope='module')
def in_process():
    with osc_ros.Arm.simulated('panda') as arm:
        yield arm


@contextmanager
def loop_in_a_process(**settings):
    """Yield the client of a real-time loop in a process of its own."""
    with osc_ros.Arm.real_time('panda', 'mujoco', settings) as arm:
        backend = arm._backend._backend  # within the one that is shared by threads
        guard = backend._guard
        backend._guard = replace(guard, watchdogs={  # as `RosArm`: machines of tests are busy
            **guard.watchdogs, STALE_STATE: Watchdog('hold', timeout=30.0)})
        arm.impedance(None)
        yield arm


@pytest.fixture(scope='module')
def in_loop():
    with loop_in_a_process(pace='fast') as arm:  # as fast as the machine
        yield arm


@pytest.fixture(scope='module')
def in_real_time():
    with loop_in_a_process() as arm:
        yield arm


@pytest.fixture(params=['in_process', pytest.param('over_ros', marks=pytest.mark.slow),
                        pytest.param('in_loop', marks=pytest.mark.slow)])
def arm(request):
    """
    Return an arm at home with its default gains, over each backend.

    The quick tests over ROS and of the loop are those with `over_ros`, `in_loop` and `remote`.

    """
    found = request.getfixturevalue(request.param)
    found.impedance(None)
    found.move_to(home_pose())
    return found


def home_pose():
    robot = osc_ros.Robot.from_urdf(shipped_urdf('panda'), *SHIPPED['panda'][:2])
    from osc_ros.dynamics.algebra.kinematics import link_pose
    return link_pose(robot, np.array(HOME), 'panda_hand_tcp')


def distance(T, D):
    return np.linalg.norm(T[:3, 3] - D[:3, 3])


@pytest.fixture(scope='module', params=['over_ros', 'in_loop'])
def remote(request):
    """Return an arm whose control is not in the client."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize('remote', [
    pytest.param('over_ros', marks=pytest.mark.slow), 'in_real_time'], indirect=True)
def test_arms_move_alike(remote, tmp_path):
    """Same goal from the same position: poses, torques and the time of the motion agree.

    This is the first test, because a hold in another one would move the posture. The time is from
    1 mm after the start to 2 mm before the goal: both are in the states, however late a busy
    machine passes on commands and news.

    """
    def moved(arm):
        start, goal = arm.pose(), arm.pose(shift=(0.05, 0.1, 0.05))
        with arm.record(tmp_path / 'motion.npz'):
            arm.move_to(goal, duration=1.5)
        motion = np.load(tmp_path / 'motion.npz')
        left, right = (np.linalg.norm(motion['pose'][:, :3, 3] - T[:3, 3], axis=1)
                       for T in (start, goal))
        time = motion['time']
        return arm.sleep(1.0), time[(right < 2e-3).argmax()] - time[(left > 1e-3).argmax()]

    one, took = moved(osc_ros.Arm.simulated('panda'))
    other, took_there = moved(remote)
    np.testing.assert_allclose(one.pose, other.pose, atol=2e-3)
    np.testing.assert_allclose(one.torque, other.torque, atol=0.5)
    assert took_there == pytest.approx(took, abs=0.05)


def test_arm_moves_to_a_pose_in_each_form_and_returns_the_state_there(arm):
    goal = arm.pose(shift=(0.0, 0.05, 0.0), turn=(0.0, 0.0, 0.1))
    state = arm.move_to(goal)
    assert distance(state.pose, goal) < 2e-3
    assert state.q.shape == state.qd.shape == state.torque.shape == (7,)
    assert arm.joint_names == tuple(f'panda_joint{i}' for i in range(1, 8))
    arm.move_to(goal[:3, 3] + [0.0, 0.0, 0.05])
    here = arm.pose()
    np.testing.assert_allclose(here[:3, :3], goal[:3, :3], atol=0.011)
    arm.move_to([*home_pose()[:3, 3], 1.0, 0.0, 0.0, 0.0])
    assert distance(arm.pose(), home_pose()) < 2e-3


def test_motions_in_a_row_end_each_at_its_goal(over_ros):
    """A goal that was reached in the state to which the next command answers is not the next."""
    over_ros.move_to(home_pose())
    goals = home_pose(), over_ros.pose(shift=(0.0, 0.0, 0.03))
    for k in range(1, 5):
        assert distance(over_ros.move_to(goals[k % 2]).pose, goals[k % 2]) < 4e-3


def test_reached_goal_of_before_is_not_the_goal(over_ros):
    from osc_ros.ros.messages import messages
    backend = over_ros._backend._backend  # within the one that is shared by threads
    over_ros.move_to(home_pose())
    before = backend._newest.reached
    over_ros.move_to(over_ros.pose(shift=(0.0, 0.1, 0.0)), duration=5.0, wait=False)
    assert not backend.is_at_goal()
    late = copy.deepcopy(before)  # it was reached in the state that the command was answered in
    late.header.stamp = messages.stamp(backend._motion.since)
    backend._newest.reached = late
    assert not backend.is_at_goal()
    backend._newest.reached = late = copy.deepcopy(before)
    # the clock was reset: its stamp is late
    backend._motion.since, backend._motion.reached_before = 0.0, late
    assert not backend.is_at_goal()
    over_ros.hold()


def test_motion_with_a_duration_takes_it(arm):
    began = arm.state().time
    state = arm.move_to(arm.pose(shift=(0.0, 0.0, 0.1)), duration=1.0)
    assert 1.0 < state.time - began < 1.5 + LAG


def test_motion_with_a_speed_takes_the_way_over_the_speed(arm):
    began = arm.state().time
    state = arm.move_to(arm.pose(shift=(0.0, 0.0, 0.1)), speed=0.1)
    assert 1.0 < state.time - began < 2.0
    arm.move_to(arm.pose(), speed=0.1)  # no way


def test_single_pose_is_a_chunk_that_stays_there(arm):
    goal = arm.pose(shift=(0.0, 0.02, 0.0))
    for pose in (goal, [*goal[:3, 3]], [goal]):
        arm.follow(pose, 0.3)
        assert distance(arm.wait().pose, goal) < 2e-3


def test_motion_without_waiting_is_waited_for_later(arm):
    goal = arm.pose(shift=(0.0, 0.1, 0.0))
    arm.move_to(goal, duration=1.0, wait=False)
    assert distance(arm.pose(), goal) > 0.02
    assert distance(arm.wait().pose, goal) < 2e-3


def test_chunks_are_followed_and_their_end_is_a_goal(arm):
    begin = arm.pose()
    for k in range(3):
        now = arm.state().time
        poses = np.repeat(begin[None], 12, axis=0)
        poses[:, 1, 3] += 0.05 * (0.1 * np.arange(1, 13) + 0.6 * k)
        assert 'after the observation' in arm.follow(poses, 0.1, observed_at=now)
        arm.sleep(0.6)
    goal = begin.copy()
    goal[1, 3] += 0.05 * 2.4
    assert distance(arm.wait().pose, goal) < 2e-3


def test_arm_jogs_until_the_time_out_and_holds(arm):
    y = arm.pose()[1, 3]
    for _ in range(5):
        arm.jog([0.0, 0.0, 0.0, 0.0, 0.1, 0.0])
        arm.sleep(0.1)
    arm.sleep(0.5)
    travelled = arm.pose()[1, 3] - y
    assert 0.03 < travelled < 0.1 * (0.7 + 5.0 * LAG)
    arm.sleep(0.2)
    assert arm.pose()[1, 3] - y == pytest.approx(travelled, abs=2e-3)


def test_hold_stops_on_the_way(arm):
    goal = arm.pose(shift=(0.0, 0.2, 0.0))
    arm.move_to(goal, duration=4.0, wait=False)
    arm.sleep(1.0)
    arm.hold()
    arm.sleep(0.5)
    here = arm.pose()
    assert distance(here, goal) > 0.05
    arm.sleep(0.5)
    assert distance(arm.pose(), here) < 1e-3


def test_hold_also_ends_free_drive(arm):
    arm.free_drive(True)
    arm.sleep(0.5)
    arm.hold()
    arm.sleep(0.5)
    arm.move_to(arm.pose(shift=(0.0, 0.0, 0.01)))


def test_impedance_makes_a_spring_that_still_moves_to_its_goal(arm):
    arm.impedance([30.0] * 3 + [1000.0] * 3, damping_ratio=0.9)
    goal = arm.pose(shift=(0.0, 0.0, 0.05))
    arm.move_to(goal, wait=False)
    arm.sleep(3.0)
    away = distance(arm.pose(), goal)
    arm.impedance(None)
    assert away < 0.02


@pytest.mark.parametrize('command, text', [
    (lambda arm: arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -5.0]),
     'motion, where it must be 0'),
    (lambda arm: arm.follow([arm.pose(), arm.pose(shift=(0.5, 0.0, 0.0))], 0.1),
     'path'),
    (lambda arm: arm.follow([arm.pose()] * 3, 0.1, observed_at=arm.state().time - 1.0),
     'is over'),
    (lambda arm: arm.follow([], 0.1), 'several'),
    (lambda arm: arm.move_to(arm.pose(), duration=1.0, speed=0.1), 'speed .*one of them'),
    (lambda arm: arm.move_to(arm.pose(), speed=0.0), 'speed .*above 0'),
    (lambda arm: arm.follow([[0.4, 0.0, 0.5], [0.4, 0.0]], 0.1), 'one form'),
    (lambda arm: arm.follow([arm.pose()] * 3, 1e9), 'dt .* at most'),
    (lambda arm: arm.follow([arm.pose()] * 3, 0.1, np.nan), 'observed_at.*nan: (give|must be)'),
    (lambda arm: arm.follow([arm.pose()] * 3, 0.1, 'now'), "observed_at.*'now': (give|must be)"),
    (lambda arm: arm.follow([arm.pose()] * 3, 0.1, arm.state().time + 9.0), 'no later'),
    (lambda arm: arm.move_to(arm.pose(), duration=True), 'duration.*True: (give|must be)'),
    (lambda arm: arm.payload('1'), "mass.*'1': (give|must be)"),
    (lambda arm: (arm.hold(), arm.wait()), 'no goal'),
    (lambda arm: arm.move_to(np.full((4, 4), np.nan)), 'rotation'),
    (lambda arm: arm.move_to([1.0, 2.0]), 'must be'),
    (lambda arm: arm.jog([0.0] * 5), 'twist'),
    (lambda arm: arm.jog([0.0, 0.0, 30.0, 0.0, 0.0, 0.0]), '30 rad/s.*at most 7.5 rad/s'),
    (lambda arm: arm.jog([0.0, 0.0, 0.0, 0.0, 5.0, 0.0]), '5 m/s.*at most 3 m/s'),
    (lambda arm: arm.move_to(arm.pose(shift=(0.0, 0.1, 0.0)), 2000.0), 'milliseconds'),
    (lambda arm: arm.follow_joints([arm.state().q + 0.1], [1000.0]), 'milliseconds'),
    (lambda arm: arm.impedance([1e6] * 6), 'stiffness.*give less'),
    (lambda arm: arm.free_drive('off'), "'off': must be"),
    (lambda arm: arm.sleep(0.0), 'above 0')])
def test_refusals_carry_the_words_of_the_controller_and_change_nothing(arm, command, text):
    before = arm.pose()
    with pytest.raises(InputError, match=text):
        command(arm)
    arm.sleep(0.1)
    assert distance(arm.pose(), before) < 1e-3


@pytest.mark.parametrize('name, text', [
    ('clearance', naming('clearance.margin')), ('payload', naming('arm.payload(')),
    ('obstacles', naming("arm.obstacles['")), ('speed', naming('arm.speed'))])
def test_assignment_that_would_change_nothing_is_refused(in_process, name, text):
    before = dict(vars(in_process))
    with pytest.raises(AttributeError, match=text):
        setattr(in_process, name, 0.03)
    assert vars(in_process) == before


def test_wrench_beyond_the_torques_of_the_joints_is_refused(in_process):
    arm = in_process
    arm.axes(z='force')
    with pytest.raises(InputError, match=naming('panda_joint6', 'give at most')) as error:
        arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -5000.0])
    most = 5000.0 * float(re.search(r'give at most ([0-9.e-]+)', str(error.value))[1])
    arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -0.9 * most])
    arm.set_wrench([0.0] * 6)
    arm.axes()


@pytest.mark.parametrize('number', [np.float32, np.int64, np.array])
def test_numbers_of_numpy_are_numbers(in_process, number):
    arm = in_process
    arm.move_to(arm.pose(), duration=number(1), timeout=number(9))
    arm.follow([arm.pose()] * 3, number(1), observed_at=number(arm.state().time))
    arm.sleep(number(1))
    arm.payload(number(0))


@pytest.mark.parametrize('command', [
    lambda arm, pose, q, order: arm.move_to(order(pose)),
    lambda arm, pose, q, order: arm.follow(order(np.array([pose] * 3)), 0.1),
    lambda arm, pose, q, order: arm.follow_joints(order(np.array([q, q])), [0.5, 1.0]),
    lambda arm, pose, q, order: osc_ros.Path(
        [0.0, 1.0], [pose] * 2, order(np.zeros((2, 6))), order(np.zeros((2, 6))))])
def test_matrix_whose_columns_are_contiguous_is_accepted(in_process, command):
    pose, q = in_process.pose(), in_process.state().q
    command(in_process, pose, q, np.ascontiguousarray)
    compiling = [one for one in KERNELS if one._can_compile and one.signatures]
    for one in compiling:  # as in a node that is active
        one.disable_compile()
    try:
        command(in_process, pose, q, np.asfortranarray)
    finally:
        for one in compiling:
            one.disable_compile(False)
    in_process.sleep(1.1)


def test_goal_that_is_not_reached_in_time_says_how_far_it_is_and_why(arm):
    with pytest.raises(ArmTimeoutError, match=naming('1 s', ' mm', 'remedy: ')) as error:
        arm.move_to(arm.pose(shift=(0.0, 0.3, 0.0)), duration=300.0, timeout=1.0)
    said, *_ = re.findall(r'([0-9.]+) mm', str(error.value))
    assert float(said) > 290.0  # from the goal, and not from the set-point
    reasons = {reason.name: reason for reason in error.value.reasons}
    assert str(reasons['moves']) in str(error.value) and reasons.keys() <= TITLES.keys()
    arm.hold()


def test_goal_beyond_the_link_lengths_is_refused_with_figures_and_nothing_moves(arm):
    before = arm.pose()
    for command in (lambda: arm.move_to([400.0, 0.0, 0.3]),
                    lambda: arm.move_to([400.0, 0.0, 0.3], duration=1.0),
                    lambda: arm.follow([before[:3, 3], [4.0, 0.0, 0.3]], 1.0)):
        with pytest.raises(ReachError, match=naming('beyond reach', 'at most')) as error:
            command()
        assert error.value.distance > 3.0 > 1.2 > error.value.reach
    arm.sleep(0.1)
    assert distance(arm.pose(), before) < 1e-3


@pytest.mark.parametrize('command, text', [
    (lambda arm: arm.jog([0.0, 0.0, 0.0, 0.0, 1.2, 0.0]), '1.2 m/s.*1 m/s is used'),
    (lambda arm: arm.jog([0.0, 0.0, 7.0, 0.0, 0.0, 0.0]), '7 rad/s.*2.5 rad/s is used'),
    (lambda arm: arm.move_to(arm.pose(shift=(0.0, 0.1, 0.0)), duration=0.05), 's is used'),
    (lambda arm: arm.move_joints({'panda_joint1': 0.3}, duration=0.001, wait=False),
     '0.001 s is too short.* [0-9.]+ s'),
    (lambda arm: arm.impedance([600.0] * 3 + [9000.0] * 3), 'is used')])
def test_command_that_is_changed_warns_with_the_value_in_use(arm, command, text):
    with pytest.warns(InputWarning, match=text) as found:
        command(arm)
    assert [one.filename for one in found] == [__file__]
    arm.hold()


def test_number_in_another_unit_is_refused_at_the_start_and_after_a_hold():
    with osc_ros.Arm.simulated('panda') as arm:
        for _ in range(2):
            with pytest.raises(InputError, match='100 times'):
                arm.impedance([1e6] * 6)
            arm.move_to(arm.pose(shift=(0.0, 0.0, 0.01)))
            arm.hold()


def test_duration_that_is_too_short_warns_while_a_change_of_settings_waits():
    with osc_ros.Arm.simulated('panda') as arm:
        arm.sleep(0.1)
        arm.impedance([30.0] * 3 + [300.0] * 3)
        with pytest.warns(InputWarning, match='too short') as found:
            arm.move_joints({'panda_joint1': 0.5}, duration=0.001)
        [took] = re.findall(r'motion takes ([0-9.]+) s', str(found[0].message))
        before = arm.state().time
        arm.move_joints({'panda_joint1': 0.0}, duration=float(took) + 0.01)  # warns of nothing
        assert arm.state().time - before < float(took) + 0.5


def test_reasons_over_ros_are_those_of_the_rules(over_ros):
    over_ros.move_to(home_pose())
    with pytest.raises(ArmTimeoutError) as error:
        over_ros.move_to(over_ros.pose(shift=(0.0, 0.3, 0.0)), duration=60.0, timeout=6.0)
    reasons = {reason.name: reason for reason in error.value.reasons}
    assert 'moves' in reasons, str(error.value)
    assert str(reasons['moves']) in str(error.value) and reasons.keys() <= TITLES.keys()
    over_ros.hold()


def test_first_command_is_replaced_by_that_of_another_client(over_ros):
    over_ros.move_to(home_pose())
    over_ros.move_to(over_ros.pose(shift=(0.0, 0.1, 0.0)), duration=2.0, wait=False)
    with osc_ros.Arm.ros(timeout=120.0) as other:
        other.move_to(other.pose(shift=(0.0, 0.0, 0.05)))
        with pytest.raises(ArmError, match=TITLES['replaced']):
            over_ros.wait()
    over_ros.hold()


def test_recording_has_a_row_for_each_state(arm, tmp_path):
    path = tmp_path / 'run.npz'
    with arm.record(path) as recording:
        with pytest.raises(InputError, match='recorded'):
            arm.record(tmp_path / 'other.npz')
        arm.move_to(arm.pose(shift=(0.0, 0.02, 0.0)))
    found = np.load(path)
    assert len(found['time']) == len(recording) > 20
    assert (np.diff(found['time']) > 0.0).all()
    assert found['q'].shape == found['torque'].shape == (len(recording), 7)
    assert tuple(found['joint_names']) == arm.joint_names
    assert found['pose'].shape[1:] == (4, 4)


def test_recording_without_an_ending_is_a_bag(in_process, tmp_path):
    pytest.importorskip('mcap')
    from osc_ros.recording.recorded_joints import joint_recording
    with in_process.record(tmp_path / 'run') as recording:
        in_process.sleep(0.1)
    joints, time, position, effort = joint_recording(tmp_path / 'run')
    assert joints == in_process.joint_names
    assert len(time) == len(recording) > 20
    state = in_process.state()
    assert (time[-1], position[-1].tolist()) == (pytest.approx(state.time), state.q.tolist())
    assert effort[-1].tolist() == state.torque.tolist()


def forces_of(bag):
    """Return the messages on /force of a bag."""
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory
    [file] = bag.glob('*.mcap')
    with file.open('rb') as stream:
        return [one.decoded_message for one in make_reader(
            stream, decoder_factories=[DecoderFactory()]).iter_decoded_messages(['/force'])]


def test_bag_has_the_contact_force_if_there_is_one(in_process, in_loop, tmp_path):
    pytest.importorskip('mcap_ros2')
    push = in_process.simulation.plant.push
    push('panda_hand_tcp', [0.0, 3.0, -5.0])
    with in_process.record(tmp_path / 'run') as recording:
        state = in_process.sleep(0.1)
    push('panda_hand_tcp', [0.0, 0.0, 0.0])
    found = forces_of(tmp_path / 'run')
    assert len(found) == len(recording)
    force, header = found[-1].vector, found[-1].header
    np.testing.assert_allclose([force.x, force.y, force.z], [0.0, 3.0, -5.0], atol=1e-9)
    assert header.frame_id == 'base'
    assert header.stamp.sec + 1e-9 * header.stamp.nanosec == pytest.approx(state.time)
    with in_loop.record(tmp_path / 'without') as recording:
        while not len(recording):
            in_loop.sleep(0.1)
    assert forces_of(tmp_path / 'without') == []  # its settings have no observer


def test_plot_of_a_recording_shows_the_contact_force(in_process, tmp_path):
    plant = in_process.simulation.plant
    with in_process.record() as recording:
        plant.push('panda_hand_tcp', [0.0, 0.0, -5.0])
        state = in_process.sleep(0.1)
        plant.push('panda_hand_tcp', [0.0, 0.0, 0.0])
        in_process.sleep(0.1)
    np.testing.assert_allclose(state.force, [0.0, 0.0, -5.0], atol=1e-9)
    figure = recording.plot(str(tmp_path / 'run.png'))
    assert (tmp_path / 'run.png').read_bytes().startswith(b'\x89PNG')
    [force] = [axis for axis in figure.axes if axis.get_ylabel() == 'contact force [N]']
    assert [line.get_label() for line in force.lines] == ['x', 'y', 'z']
    along_z = force.lines[2].get_ydata()
    assert len(along_z) == len(recording) and along_z.min() == pytest.approx(-5.0)
    assert recording.stop() is None


def test_plot_that_cannot_be_drawn_says_why(in_process, tmp_path):
    with in_process.record() as recording:
        with pytest.raises(InputError, match='no state was recorded'):
            recording.plot()
        in_process.sleep(0.01)
    with pytest.raises(ArmError, match='nowhere'):
        recording.plot(tmp_path / 'nowhere' / 'run.png')


def test_force_is_the_estimate_of_the_controller_or_not_in_the_plot(over_ros, in_loop):
    over_ros.sleep(0.5)
    assert np.abs(over_ros.state().force).max() < 3.0
    with in_loop.record() as recording:
        while not len(recording):
            in_loop.sleep(0.1)
    assert np.isnan(in_loop.state().force).all()  # its settings have no observer
    assert len(recording.plot().axes) == 3


def test_recording_needs_a_file_that_can_be_written(in_process, tmp_path):
    for path in (tmp_path / 'run.csv', tmp_path / 'nowhere' / 'run.npz'):
        with pytest.raises(InputError, match=r'\.npz'):
            in_process.record(path)
    for path in ('/proc/x.npz', tmp_path / 'folder.npz'):
        (tmp_path / 'folder.npz').mkdir(exist_ok=True)
        with pytest.raises(InputError, match='cannot be written'):
            in_process.record(path)
    in_process.record(tmp_path / 'run.npz').stop()


def test_arm_is_closed_if_its_recording_cannot_be_written(tmp_path):
    (tmp_path / 'gone').mkdir()
    with pytest.raises(ZeroDivisionError), osc_ros.Arm.real_time('panda', 'mujoco') as arm:
        recording = arm.record(tmp_path / 'gone' / 'run.npz')
        while not len(recording):
            arm.sleep(0.01)
        pose = arm.pose()
        (tmp_path / 'gone').rmdir()
        raise ZeroDivisionError
    assert arm._backend._loop._process.poll() is not None
    require_closed(arm, pose)
    with pytest.raises(ArmError, match='run.npz'):
        recording.stop()
    recording.path = tmp_path / 'run.npz'
    assert len(np.load(recording.stop())['time']) == len(recording) > 0


def test_chunk_of_another_clock_is_refused(remote):
    poses = np.repeat(remote.pose()[None], 4, axis=0)
    with pytest.raises(InputError, match='observed_at.*clock'):
        remote.follow(poses, 0.1, observed_at=1.7e18)


def test_chunk_in_the_frame_of_the_tip_counts_from_the_pose_at_the_observation(over_ros):
    from osc_ros.ros.messages import messages
    over_ros.move_to(home_pose())
    over_ros.move_to(over_ros.pose(shift=(0.0, 0.2, 0.0)), duration=2.0, wait=False)
    over_ros.sleep(0.8)
    observed = over_ros.state()
    over_ros.sleep(0.3)
    deltas = np.repeat(np.eye(4)[None], 10, axis=0)
    deltas[:, 2, 3] = np.linspace(0.0, 0.05, 10)  # along z of the tip, which points down
    over_ros._backend._send('target_chunk', *with_stamp(messages.chunk_message(
        0.2 * np.arange(1.0, 11.0), deltas, observed.time, 'panda_hand_tcp')))
    end = over_ros.wait().pose
    assert distance(end, observed.pose @ deltas[-1]) < 2e-3 + LAG * 0.2  # pose and time differ


def with_stamp(message):
    return message, message.header.stamp


def test_chunk_of_an_unknown_past_is_refused_by_the_node(over_ros):
    from osc_ros.ros.messages import messages
    deltas = np.repeat(np.eye(4)[None], 2, axis=0)
    over_ros.sleep(max(3.0 - over_ros.state().time, 0.1))  # the past that is known is shorter
    with pytest.raises(InputError, match='observed'):
        over_ros._backend._send('target_chunk', *with_stamp(messages.chunk_message(
            np.array([10.0, 11.0]), deltas, max(over_ros.state().time - 5.0, 1e-3),
            'panda_hand_tcp')))


def test_stream_of_poses_is_followed_by_the_node_without_stops(over_ros):
    robot = Robot.from_urdf(shipped_urdf('panda'), SHIPPED['panda'].base, SHIPPED['panda'].tip)
    over_ros._backend.services.set_parameters({'target.stream': 'follow'})
    for _ in range(20):  # until no pose is delayed by a busy machine: it is a stream then
        speeds, longest = followed_stream(over_ros, robot)
        if longest < 0.3:
            break
    over_ros._backend.services.set_parameters({'target.stream': 'stop'})
    assert min(speeds[8:]) > 0.005 and np.median(speeds[8:]) > 0.05


def followed_stream(over_ros, robot):
    """Send poses 0.1 s apart; return the speeds [m/s], and the longest time between two [s]."""
    over_ros.move_to(home_pose())
    begin, states = over_ros.pose(), [over_ros.state()]
    for k in range(14):
        goal = begin.copy()
        goal[1, 3] += 0.01 * k
        over_ros.move_to(goal, wait=False)
        states.append(over_ros.sleep(0.1))
    assert distance(over_ros.wait().pose, goal) < 2e-3  # the last pose is the goal
    # poses of the states come 50 times a second, later on a busy machine
    y, times = np.array([(placement(robot, one.q).T_tip[1, 3], one.time) for one in states]).T
    return np.diff(y) / np.diff(times), np.diff(times).max()


def test_every_kind_of_command_is_answered(remote):
    """The quick form of the tests above, which `make test-all` runs over each backend."""
    arm = remote
    arm.impedance([30.0] * 3 + [800.0] * 3)
    arm.impedance(None)
    began = arm.state().time
    arm.move_to(home_pose())
    arm.jog([0.0, 0.0, 0.0, 0.0, 0.1, 0.0])
    poses = np.repeat(arm.pose()[None], 4, axis=0)
    poses[:, 2, 3] += 0.002 * np.arange(1.0, 5.0)
    joined = ''
    for _ in range(20):  # a fast simulation may pass the end of the chunk before it comes
        with suppress(InputError):
            joined = joined or arm.follow(poses, 0.1, observed_at=arm.state().time)
    assert 'after the observation' in joined
    assert distance(arm.wait().pose, poses[-1]) < 2e-3
    # a fast simulation may advance by seconds before the next command: this goal stays far away
    slow = {'pose': arm.pose(shift=(0.0, 0.3, 0.0)), 'duration': 600.0}
    arm.move_to(**slow, wait=False)
    arm.hold()
    with pytest.raises(InputError, match='motion, where it must be 0'):
        arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -5.0])
    with pytest.raises(ArmTimeoutError, match=r'0\.1 s.* mm'):
        arm.move_to(**slow, timeout=0.1)
    arm.hold()
    with pytest.raises(InputError, match='no goal'):
        arm.wait()
    assert arm.state().time > began


def assert_joints_move(arm):
    arm.move_to(home_pose())
    start, joint = arm.home().q, arm.joint_names[3]
    there = arm.move_joints({joint: start[3] + 0.3}, speed=0.3).q
    np.testing.assert_allclose(there - start, 0.3 * np.eye(7)[3], atol=2e-3)
    assert not arm.state().error.any()  # the tip has no set-point
    arm.follow_joints([start + 0.1, start], [1.0, 2.5])
    np.testing.assert_allclose(arm.wait().q, start, atol=2e-3)
    arm.move_joints(start + 0.2, duration=600.0, wait=False)
    arm.hold()
    for command, text in (
            (lambda: arm.move_joints({'elbow': 0.0}), "no joint 'elbow'.*panda_joint4"),
            (lambda: arm.move_joints(start + 9.0), 'panda_joint1.*must be'),
            (lambda: arm.follow_joints([start, start], [1.0, 0.5]), 'increasing'),
            (lambda: arm.follow_joints([start + 1.0], [0.1]), 'speed'),
            (lambda: arm.move_joints(start, speed=0.0), 'speed')):
        with pytest.raises(InputError, match=text):
            command()
    arm.move_joints({arm.joint_names[0]: start[0] + 0.3})
    tip = arm.move_to(home_pose())  # the tip takes over
    assert distance(tip.pose, home_pose()) < 2e-3
    np.testing.assert_allclose(arm.home(duration=1.5).q, start, atol=2e-3)


def test_goal_that_comes_before_the_axes_are_of_motion_again_is_reached():
    with osc_ros.Arm.simulated('panda') as arm:
        arm.axes(z='force')
        arm.axes()  # waits for the change before
        goal = arm.pose()
        assert distance(arm.move_to(goal, timeout=5.0).pose, goal) < 2e-3


def test_joints_move_and_the_tip_takes_over(in_process):
    assert_joints_move(in_process)


def test_joints_of_a_remote_arm_move_and_the_tip_takes_over(remote):
    assert_joints_move(remote)


def test_home_leads_out_of_the_limits_of_joints():
    with osc_ros.Arm.simulated('panda') as arm:
        start, low = arm.state(), [0.4, 0.0, -0.3]
        arm.move_to(low)
        with pytest.raises(ArmTimeoutError, match=(
                r'joints at their position limits: panda_joint\d at .*arm.move_joints\(q\): '
                'a posture that reaches')):
            arm.move_to(start.pose, timeout=10.0, through_joints=False)
        np.testing.assert_allclose(arm.home().q, start.q, atol=1e-3)
        assert distance(arm.move_to(start.pose).pose, start.pose) < 2e-3


def test_arm_that_is_stuck_goes_through_its_joints():
    with osc_ros.Arm.simulated('panda') as arm:
        there = arm.pose()
        arm.move_to([0.4, 0.0, -0.3])
        assert distance(arm.move_to(there, timeout=12.0).pose, there) < 2e-3


@contextmanager
def latching(arm):
    """Have a watchdog stop an arm that gets no goals, until it is released."""
    backend = arm._backend._backend  # within the one that is shared by threads
    if hasattr(backend, 'services'):
        names = ('watchdog.stale_target.reaction', 'watchdog.stale_target.latched',
                 'target_timeout')
        usual = backend.services.parameters(names)
        backend.services.set_parameters(dict(zip(names, ('hold', True, 0.3))))
        try:
            yield
        finally:
            backend.services.set_parameters(usual)
        return
    usual = backend._guard
    backend._guard = replace(usual, watchdogs={
        **usual.watchdogs, STALE_TARGET: Watchdog('hold', timeout=0.3, latched=True)})
    arm.impedance(None)
    try:
        yield
    finally:
        backend._guard = usual
        arm.impedance(None)


def answers_of_recover(arm):
    """Yield what an arm says to `recover`, until the patience of the tests ends."""
    deadline = perf_counter() + PATIENCE
    while perf_counter() < deadline:
        try:
            yield arm.recover()
        except ArmError as error:
            yield str(error)
        sleep(0.05)


def test_latched_watchdog_is_released_when_its_cause_is_gone(remote):
    remote.move_to(home_pose())
    assert 'nothing to release' in remote.recover()
    with latching(remote):
        remote.jog([0.0, 0.0, 0.0, 0.0, 0.0, 0.001])
        with pytest.raises(ArmError, match='stale_target'):
            remote.sleep(20.0)
        # a machine that is slow releases it now and then, until the next state
        assert any('the cause is still there' in text for text in answers_of_recover(remote))
        remote.hold()
        assert any('nothing to release' in text for text in answers_of_recover(remote))
    goal = remote.pose(shift=(0.0, 0.0, 0.02))
    assert distance(remote.move_to(goal).pose, goal) < 4e-3


def test_arm_that_was_stopped_is_activated_again(remote):
    backend = remote._backend
    if hasattr(backend, 'services'):
        from lifecycle_msgs.msg import Transition
        backend.services._change('deactivate', Transition.TRANSITION_DEACTIVATE)
    else:
        backend._loop.request(Engine.deactivate)
    deadline = perf_counter() + PATIENCE
    with pytest.raises((ArmError, InputError), match='not active|Arm.recover'):
        while perf_counter() < deadline:
            remote.jog([0.0, 0.0, 0.0, 0.0, 0.0, 0.001])
    assert 'activated' in remote.recover()
    goal = remote.pose(shift=(0.0, 0.0, -0.02))
    assert distance(remote.move_to(goal).pose, goal) < 4e-3


def test_reaction_that_has_ended_while_the_program_was_slow_is_no_error(in_loop):
    backend = in_loop._backend._backend  # within the one that is shared by threads
    with backend._news:  # the thread has not seen the end
        backend._held = -np.inf, 'of before'
        backend._loop._posted.append(('change', ('', '', 'stale_state has ended')))
        in_loop.sleep(0.05)
        with pytest.raises(ArmError, match='of now'):
            for _ in range(100):  # an end that a slow machine has caused may come in between
                backend._held = -np.inf, 'of now'
                in_loop.sleep(0.05)
        backend._held = np.inf, ''


def test_reaction_of_any_duration_ends_a_waiting_call_over_ros(over_ros):
    from diagnostic_msgs.msg import DiagnosticStatus

    from osc_ros.ros.messages import messages
    backend = over_ros._backend
    reported = messages.diagnostic_message(
        DiagnosticStatus.ERROR, 'osc_controller: control', 'jump: 0.1 rad: hold', '', (),
        messages.time_of((0, 0)))
    with pytest.raises(ArmError, match=r'jump.*0\.1 rad.*hold'):
        backend.wait(lambda: backend._on_diagnostics(reported), 5.0)


def test_simulation_of_this_process_needs_no_recovery(in_process):
    assert 'no watchdogs' in in_process.recover()


def test_simulation_that_diverges_says_so_and_is_reset_by_recover():
    with osc_ros.Arm.simulated('panda') as arm:
        start = arm.pose()
        arm.move_to(arm.pose(shift=(0.0, 0.0, 0.02)))
        arm.simulation.plant.push('panda_hand', [1e12, 0.0, 0.0])
        with pytest.raises(ArmError, match='diverged'):
            arm.sleep(1.0)
        for command in (arm.hold, arm.axes, arm.gripper.state, lambda: arm.jog([0.1] * 6),
                        lambda: arm.move_to(start)):
            with pytest.raises(ArmError, match=r'diverged[\s\S]*Arm.recover'):
                command()
        assert 'activated' in arm.recover()
        assert distance(arm.pose(), start) < 1e-6
        goal = arm.pose(shift=(0.0, 0.0, 0.02))
        assert distance(arm.move_to(goal).pose, goal) < 2e-3


def test_simulation_that_is_reset_begins_again_at_time_0_with_the_same_commands():
    with osc_ros.Arm.simulated('panda') as arm:
        arm.move_to(arm.pose(shift=(0.0, 0.0, 0.02)))
        arm.simulation.reset(HOME)
        assert arm.sleep(0.1).time == pytest.approx(0.1)
        record = arm.simulation.run(0.1)  # the loop of the client goes on
        assert arm.state().time == pytest.approx(record.time[-1])
        goal = arm.pose(shift=(0.0, 0.02, 0.0))
        assert distance(arm.move_to(goal).pose, goal) < 2e-3


@pytest.mark.parametrize('command, text', [
    (lambda arm: arm.move_to(arm.pose(), duration=10**400), naming('duration', 'must be')),
    (lambda arm: arm.move_joints([10**400] * 7), naming('q is not made of numbers')),
    (lambda arm: arm.move_to([10**400] * 3), naming('pose', 'must be')),
    (lambda arm: arm.jog([1j] * 6), naming('twist', 'not made of numbers', 'complex')),
    (lambda arm: arm.follow_joints(np.zeros((2, 7, 7)), [1.0, 2.0]), naming('(2, 7, 7)', 'rows')),
    (lambda arm: arm.axes(z=np.array([1.0, 2.0])), naming('axis z', 'motion, force, free')),
    (lambda arm: arm.record(3), naming('path', 'int', 'str or a path')),
    (lambda arm: arm.obstacles.__setitem__(3, None), naming('3', 'osc_ros.Obstacle')),
    (lambda arm: arm.obstacles.update([('a', None)]), naming('list', 'mapping')),
    (lambda arm: arm.obstacles.update({3: osc_ros.Obstacle.at('sphere', 0.1, (1.0, 1.0, 1.0))}),
     naming('name of an obstacle', 'int', 'str'))])
def test_input_of_another_type_is_refused_with_what_is_accepted(in_process, command, text):
    before = in_process.state()
    with pytest.raises(InputError, match=text):
        command(in_process)
    assert in_process.state() is before


def test_arm_obeys_after_a_command_that_ctrl_c_has_interrupted(in_loop, monkeypatch):
    arm, law = in_loop, in_loop._backend._backend._law

    def interrupt(setup):  # the loop has the settings already
        monkeypatch.undo()
        raise KeyboardInterrupt

    for command in (lambda: arm.move_joints(arm.state().q + 0.1), arm.free_drive):
        arm.move_to(home_pose())
        monkeypatch.setattr(law, 'use_setup', interrupt)
        with pytest.raises(KeyboardInterrupt):
            command()
        arm.free_drive(False)
        goal = arm.pose(shift=(0.0, 0.0, 0.02))
        assert distance(arm.move_to(goal).pose, goal) < 2e-3


def test_wait_refuses_at_once_if_another_command_has_ended_the_motion_of_the_joints():
    with osc_ros.Arm.simulated('panda') as arm:
        for command in (lambda: arm.set_wrench([0.0] * 6), lambda: arm.axes(z='force')):
            arm.move_joints(arm.state().q + 0.1, duration=300.0, wait=False)
            command()
            with pytest.raises(InputError, match='no goal to wait for'):
                arm.wait()


def test_slow_motion_that_is_not_over_is_a_reason_and_not_unexplained():
    with osc_ros.Arm.simulated('panda') as arm:
        goal, q = arm.pose(shift=(0.0, 0.05, 0.0)), arm.state().q + 0.1
        for move in (lambda: arm.move_to(goal, duration=300.0, timeout=1.0),
                     lambda: arm.move_joints(q, duration=300.0, timeout=1.0)):
            with pytest.raises(ArmTimeoutError) as error:
                move()
            assert [reason.name for reason in error.value.reasons] == ['moves']


def test_goal_that_waits_for_the_end_of_a_change_is_told_with_its_distance():
    with osc_ros.Arm.simulated('panda') as arm:
        goal = arm.pose(shift=(0.0, 0.2, 0.0))
        arm.move_joints(arm.state().q + 0.2, wait=False)
        arm.sleep(0.02)
        with pytest.raises(ArmTimeoutError, match=naming('200.0 mm')) as error:
            arm.move_to(goal, duration=5.0, timeout=0.05)
        assert 'replaced' not in {reason.name for reason in error.value.reasons}


def test_states_over_ros_are_those_of_the_arm_beside_another_publisher(ros, over_ros, tmp_path):
    """Each joint state comes again from another node, with zeros, and a stamp 5 s ahead."""
    from rclpy.context import Context
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import JointState

    from ros_arm import Spun
    ros.init(context=(context := Context()))
    node, sent = ros.create_node('joint_state_publisher', context=context), []
    states = node.create_publisher(JointState, 'joint_states', 10)

    def again(message):
        if any(message.position):
            message.header.stamp.sec += 5
            states.publish(JointState(header=message.header, name=message.name,
                                      position=[0.0] * 7, velocity=[0.0] * 7))
            sent.append(message)

    node.create_subscription(JointState, 'joint_states', again, qos_profile_sensor_data)
    other = Spun(SingleThreadedExecutor(context=context), node)
    try:
        while len(sent) < 10 or states.get_subscription_count() < 3:  # controller, client, it
            over_ros.sleep(0.1)
        over_ros.move_to(home_pose())
        before = over_ros.state().time
        with over_ros.record(tmp_path / 'found.npz'):
            over_ros.move_to(over_ros.pose(shift=(0.0, 0.0, 0.02)))
    finally:
        other.close()
        context.shutdown()
    found = np.load(tmp_path / 'found.npz')
    assert len(sent) > 20 and len(found['q']) > 20
    assert np.abs(found['q'] - HOME).max() < 0.3
    assert found['time'][0] >= before and (np.diff(found['time']) > 0.0).all()


def test_controller_that_falls_silent_is_a_time_out_that_names_it(over_ros, monkeypatch):
    from osc_ros.client import topics
    with osc_ros.Arm.ros(timeout=PATIENCE) as arm:
        node = arm._backend._node
        commands = next(found for found in node.subscriptions
                        if found.topic_name.endswith('commands_stamped'))
        commands.callback = lambda message: None
        monkeypatch.setattr(topics, 'SILENCE', 0.5)
        with pytest.raises(ArmTimeoutError, match=naming(
                'osc_controller/commands_stamped', '0.5 s', 'simulation.launch')):
            arm.sleep(20.0)
    for command in (arm.hold, arm.wait, arm.recover, lambda: arm.jog([0.0] * 6)):
        with pytest.raises((ArmError, InputError), match='closed|no goal'):
            command()
    arm.close()


@pytest.mark.slow
def test_arm_of_osc_arm_is_recovered_over_ros(ros):
    from lifecycle_msgs.msg import Transition
    program = 'import sys; from osc_ros.ros.arm_node import main; main(sys.argv)'
    node = subprocess.Popen([
        sys.executable, '-c', program, '--ros-args', '-r', '__ns:=/loop', '--params-file',
        str(CHECKOUT / 'config' / 'panda.yaml'), '-p', 'hardware.kind:=mujoco', '-p',
        'hardware.base:=panda_link0', '-p',
        f'hardware.initial_positions:={list(HOME)}', '-p', 'rate:=1000.0', '-p',
        'state_timeout:=30.0'])
    try:
        with osc_ros.Arm.ros('/loop/osc_controller', timeout=PATIENCE) as arm:
            def moves():
                goal = arm.pose(shift=(0.0, 0.0, 0.02))
                assert distance(arm.move_to(goal).pose, goal) < 4e-3

            moves()
            arm._backend.services._change('deactivate', Transition.TRANSITION_DEACTIVATE)
            with pytest.raises(InputError, match='not active'):
                arm.jog([0.0] * 6)
            assert 'activated' in arm.recover()
            moves()
            children = [path.read_text() for path in Path(f'/proc/{node.pid}/task').glob(
                '*/children')]
            os.kill(int(' '.join(children).split()[0]), signal.SIGKILL)
            with pytest.raises(ArmError, match='has ended|inactive|commands_stamped'):
                arm.sleep(60.0)
            assert 'activated' in next(text for text in answers_of_recover(arm)
                                       if 'activated' in text)
            moves()
    finally:
        node.terminate()
        node.wait()


@pytest.mark.parametrize('name', ['', 'a b', None, 3])
def test_node_has_a_name(ros, name):
    with pytest.raises(InputError, match='(give|must be).*controller'):
        osc_ros.Arm.ros(name)


@pytest.mark.slow
def test_program_over_ros_that_does_not_close_its_arm_ends_in_order(over_ros):
    code = 'import osc_ros; arm = osc_ros.Arm.ros(timeout=120.0); print(arm.state().q.shape)'
    ended = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                           check=False)
    assert (ended.returncode, ended.stdout) == (0, '(7,)\n'), ended.stderr


def test_controller_that_is_not_there_is_a_time_out_that_says_what_to_start(ros):
    with pytest.raises(ArmTimeoutError, match='no controller.*simulation.launch.py'):
        osc_ros.Arm.ros('/nobody/osc_controller', timeout=0.3)


def test_controller_that_is_not_active_is_a_time_out_that_says_so(ros, over_ros):
    from osc_ros.ros.controller.controller import Controller
    from osc_ros.ros.process.node_process import EventsExecutor
    controller = Controller(cli_args=['--ros-args', '-r', '__ns:=/idle'], parameter_overrides=[
        ros.parameter.Parameter(name, value=value) for name, value in (
            ('robot_description_file', 'panda'), ('base', SHIPPED['panda'].base),
            ('tip', SHIPPED['panda'].tip), ('autostart', False))])
    executor, goes_on = EventsExecutor(), [True]
    executor.add_node(controller)
    controller.trigger_configure()

    def spin():
        while goes_on[0]:
            executor.spin_once(timeout_sec=0.02)

    nodes = Thread(target=spin, daemon=True)
    nodes.start()
    try:
        with pytest.raises(ArmTimeoutError, match='inactive.*ros2 lifecycle set'):
            osc_ros.Arm.ros('/idle/osc_controller', timeout=2.0)
    finally:
        goes_on[0] = False
        nodes.join()
        executor.shutdown()
        controller.stop()
        controller.destroy_node()


# the loop in a process of its own


def test_gripper_of_the_loop_moves_while_the_arm_does(in_loop):
    goal = in_loop.pose(shift=(0.0, -0.05, 0.0))
    in_loop.move_to(goal, duration=1.0, wait=False)
    assert in_loop.gripper.move(0.03).width == pytest.approx(0.03, abs=1e-3)
    assert not in_loop.gripper.grasp(30.0).is_holding
    assert distance(in_loop.wait().pose, goal) < 2e-3
    with pytest.raises(InputError, match=r'width.*0\.5 m'):
        in_loop.gripper.move(0.5)
    in_loop.gripper.move(0.08)


@pytest.mark.parametrize('arguments, options, text', [
    (('panda', 'franks'), {}, "hardware.*'franks': (give|must be).*franka, mujoco"),
    (('panda', 'mujoco', {'speed': 1.0}), {}, "'speed': (give|must be).*pace, rate"),
    (('panda', 'mujoco', {'pace': 'slow'}), {}, '(give|must be).*real_time, fast'),
    pytest.param(('panda', 'mujoco', {'payload.mass': 2.0}), {}, 'mass is',
                 marks=pytest.mark.slow),  # quick: the start-up check in test_node_loads.py
    (('panda', 'mujoco'), {'startup_check': 'no'},
     '(give|must be).*off, warn, certain, refuse')])
def test_loop_refuses_what_does_not_fit(arguments, options, text):
    with pytest.raises(InputError, match=text):
        osc_ros.Arm.real_time(*arguments, **options)


def test_arm_that_cannot_hold_itself_is_not_activated():
    robot = osc_ros.Robot.from_urdf(shipped_urdf('panda'), *SHIPPED['panda'][:2])
    weak = osc_ros.Settings.of(robot, limits=osc_ros.Limits.of(
        robot, effort=0.15 * robot.effort_limits))
    with pytest.raises(InputError, match='to hold'):
        osc_ros.Arm.real_time('panda', 'mujoco', {'pace': 'fast'}, settings=weak)


def test_usual_settings_fit_an_arm_that_compensates_gravity_and_limits_its_torques():
    robot = osc_ros.Robot.from_urdf(shipped_urdf('fr3'), *SHIPPED['fr3'][:2])
    real = Description('an arm', robot.joint_names, 1e-3, 'gravity', np.full(7, 10.0),
                       np.full(7, 1000.0))
    settings, guard = Start('franka', {}, '', robot, None, 'sweep', None).settings_for(real)
    assert settings.driver.compensates == 'gravity'
    assert (settings.limits.effort <= 10.0).all()
    assert (settings.limits.effort_rate <= 800.0).all()
    assert (settings.tasks[0].gains.natural_frequency == 8.0).all()
    assert guard.period == 1e-3
    simulated, _ = Start('mujoco', {}, '', robot, None, 'sweep', None).settings_for(
        Description('an arm', robot.joint_names, 2e-3, clock='simulated'))
    assert (simulated.tasks[0].gains.natural_frequency == 20.0).all()
    tasks = settings.tasks[0], replace(settings.tasks[0], limits=osc_ros.TargetLimits(
        speed=[1.0, 2.0], acceleration=[5.0, 5.0], jerk=[50.0, 50.0]))
    for task, percent in zip(tasks, (10.0, 5.0)):  # a real arm starts slowly
        slow = np.full(7, 2.9)
        limits = replace(settings.limits, velocity=slow)
        assert careful_override(replace(settings, tasks=(task,), limits=limits), robot) == percent
        assert (0.01 * percent * task.limits.speed <= (0.3, 0.1)).all()
    for name, description in SHIPPED.items():  # joint paths with times, too
        robot = osc_ros.Robot.from_urdf(shipped_urdf(name), description.base, description.tip)
        percent = careful_override(osc_ros.Settings.of(robot), robot)
        assert 0.0 < 0.01 * percent * robot.velocity_limits.max() <= 0.3


def test_robots_of_the_client_are_those_of_the_package():
    assert sorted(SHIPPED) == sorted(path.stem for path in ROBOTS.glob('*.urdf'))
    for name, robot in SHIPPED.items():
        found = yaml.safe_load((CHECKOUT / 'config' / f'{name}.yaml').read_text(encoding='utf-8'))
        common, simulator = (found[node]['ros__parameters']
                             for node in ('/**', '/**/osc_simulator'))
        assert (robot.base, robot.tip) == (common['base'], common['tip'])
        assert list(robot.home) == simulator['initial_positions']


def test_unknown_option_of_the_simulation_is_refused_with_the_accepted_ones():
    with pytest.raises(InputError, match="'payload'.*settings, hand, clearance, q, .*friction"):
        osc_ros.Arm.simulated('panda', payload=2)


def test_path_may_be_a_str_and_a_name_that_is_almost_right_is_suggested(tmp_path):
    path = str(shipped_urdf('panda'))
    base, tip, home = SHIPPED['panda']
    for robot in (path, Path(path), Path(path).read_text(encoding='utf-8')):
        with osc_ros.Arm.simulated(robot, base=base, tip=tip, q=home) as arm:
            assert distance(arm.pose(), home_pose()) < 1e-6
    assert pair(path) == pair(Path(path))
    with pytest.raises(ModelError, match=r"'nowhere\.urdf' cannot be read"):
        osc_ros.Arm.simulated('nowhere.urdf', base=base, tip=tip)
    with pytest.raises(ModelError, match="did you mean 'panda'"):
        osc_ros.Arm.simulated('Pandas')


def test_own_robot_needs_its_links():
    with pytest.raises(InputError, match='base and tip.*panda'):
        osc_ros.Arm.simulated(shipped_urdf('panda'))


def test_arm_that_was_closed_says_so():
    with osc_ros.Arm.simulated('panda') as arm:
        pose = arm.state().pose
    require_closed(arm, pose)
    arm.close()


def require_closed(arm, pose):
    """Require that every use of an arm says that it was closed."""
    for use in (arm.state, arm.pose, arm.record, arm.gripper.state, arm.__enter__, arm.hold,
                lambda: arm.gripper.move(0.04), lambda: arm.sleep(1.0),
                lambda: arm.move_to(pose, wait=False), lambda: arm.jog([0.0] * 6),
                lambda: arm.set_wrench([0.0] * 6)):
        with pytest.raises(ArmError, match='closed: open a new one'):
            use()


def test_program_opens_the_client_again_and_again(over_ros):
    for _ in range(5):
        with osc_ros.Arm.ros(timeout=30.0) as arm:
            assert arm.state().q.shape == (7,)
            pose = arm.pose()
    require_closed(arm, pose)


def test_arm_stops_if_its_block_raises():
    with pytest.raises(KeyError), osc_ros.Arm.simulated('panda') as arm:
        arm.move_to(arm.pose(shift=(0.0, 0.3, 0.0)), wait=False)
        arm.sleep(0.2)
        raise KeyError
    course = arm._backend.arm.law.levels['tip'].generator.course
    assert not isinstance(course.pending[-1][1], PoseGoal)


def test_cause_that_comes_and_goes_is_one_line_in_the_log_of_a_program(in_loop, caplog):
    with caplog.at_level(logging.INFO, 'osc_ros'):
        for _ in range(50):
            in_loop._backend._handle('change', 'late', 'report', 'late: 3 ms: report')
            in_loop._backend._handle('change', '', '', 'active')
    assert caplog.text.count('late: 3 ms') == 1


def test_error_of_a_program_is_not_replaced_by_that_of_the_stop(monkeypatch, caplog):
    with (caplog.at_level(logging.WARNING, 'osc_ros'), pytest.raises(KeyError, match='mine'),
          osc_ros.Arm.simulated('panda') as arm):
        def refuse():
            raise ArmError('the arm is gone')
        monkeypatch.setattr(arm._backend, 'hold', refuse)
        raise KeyError('mine')
    assert 'could not be stopped: the arm is gone' in caplog.text
