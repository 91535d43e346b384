# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One `Arm` for several threads, a forked process, a force axis, a hand, and a speed override."""

import os
import select
import signal
from threading import Event, Thread

import numpy as np
import pytest

import osc_ros
from osc_ros.control.reasons import TITLES
from osc_ros.errors import ArmError, ArmTimeoutError, InputError, InputWarning


@pytest.fixture(scope='module')
def simulated():
    with osc_ros.Arm.simulated('panda') as arm:
        yield arm


@pytest.fixture
def arm(simulated):
    simulated.speed_override = 100
    simulated.free_drive(False)
    simulated.axes()
    simulated.home()
    return simulated


def moved(state, before):
    return np.linalg.norm((state.pose - before.pose)[:3, 3])


@pytest.mark.parametrize('command', ('move_to', 'hold', 'move_joints'))
def test_call_whose_goal_another_thread_replaces_raises_and_says_by_what(arm, command):
    goal, other = arm.pose(shift=(0.0, 0.15, 0.0)), arm.pose(shift=(0.0, -0.05, 0.05))
    started, errors = Event(), []

    def first():
        try:
            arm.move_to(goal, duration=5.0, wait=False)
            started.set()
            arm.wait()
        except ArmError as error:
            errors.append(error)

    thread = Thread(target=first)
    thread.start()
    assert started.wait(60.0)
    if command == 'move_to':
        end = arm.move_to(other)
        assert np.linalg.norm((end.pose - other)[:3, 3]) < 3e-3
    elif command == 'hold':
        arm.hold()
    else:
        arm.move_joints(arm.state().q)
    thread.join(60.0)
    [error] = errors
    assert not isinstance(error, ArmTimeoutError)
    assert TITLES['replaced'] in str(error)
    assert f"{command} in the thread 'MainThread'" in str(error)


def test_two_threads_command_one_arm_without_harm(arm):
    errors = []

    def jog(axis):
        try:
            for _ in range(30):
                arm.jog(0.05 * np.eye(6)[3 + axis])
                arm.sleep(0.02)
        except ArmError as error:
            errors.append(error)

    threads = [Thread(target=jog, args=(axis,)) for axis in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120.0)
    arm.hold()
    assert errors == []
    assert np.isfinite(arm.sleep(0.5).q).all()


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='there is no fork')
@pytest.mark.filterwarnings('ignore:.*fork.*:DeprecationWarning')
def test_arm_in_a_forked_process_refuses_at_once(arm):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        text = 'nothing was refused'
        try:
            arm.move_to(np.eye(4), timeout=5)
        except ArmError as error:
            text = str(error)
        finally:
            os.write(writer, text.encode())
            os._exit(0)
    os.close(writer)
    if not select.select([reader], [], [], 60.0)[0]:
        os.kill(child, signal.SIGKILL)
    text = os.read(reader, 10_000).decode()
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0
    assert 'belongs to another process' in text
    arm.move_to(arm.pose(shift=(0.0, 0.02, 0.0)))  # the parent goes on


def test_obstacle_warns_on_an_arm_that_does_not_keep_clear(arm):
    ball = osc_ros.Obstacle.at('sphere', 0.05, (0.0, 0.8, 0.3))
    with pytest.warns(InputWarning, match=r'clearance=0\.03'):
        arm.obstacles['ball'] = ball
    del arm.obstacles['ball']


def test_clearance_may_be_a_margin():
    with osc_ros.Arm.simulated('panda', clearance=0.03) as arm:
        assert arm.simulation.law.settings.clearance.margin == 0.03
        arm.obstacles['ball'] = osc_ros.Obstacle.at('sphere', 0.05, (0.0, 0.8, 0.3))
        del arm.obstacles['ball']
    with pytest.raises(InputError, match='margin'):
        osc_ros.Arm.simulated('panda', clearance=-0.03)


def test_duration_that_is_too_short_for_the_joints_warns(arm):
    q = arm.state().q + 0.1
    with pytest.warns(InputWarning, match='too short'):
        state = arm.move_joints(q, duration=0.001)
    assert state.q == pytest.approx(q, abs=2e-3)


def test_arm_and_state_print_short_with_units(arm):
    for one in arm, arm.state():
        text = str(one)
        assert len(text) < 320
        assert '\n' not in text
        assert ' m' in text
    assert ' rad' in str(arm.state()) and '°' in str(arm.state())
    with osc_ros.Arm.simulated('panda') as other:
        pass
    assert 'closed' in repr(other)


def test_force_axis_presses_and_motion_axes_hold(arm):
    before = arm.state()
    arm.axes(z='force')
    arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -5.0])
    after = arm.sleep(0.4)
    assert after.pose[2, 3] < before.pose[2, 3] - 2e-3
    assert after.pose[:2, 3] == pytest.approx(before.pose[:2, 3], abs=4e-3)
    arm.axes()
    held = arm.sleep(0.5)
    assert moved(arm.sleep(0.5), held) < 1e-3
    with pytest.raises(InputError, match=r"axis z .*'push'.*force"):
        arm.axes(z='push')


def test_hand_guides_the_arm_and_it_holds_afterwards(arm):
    before = arm.state()
    arm.free_drive(True)
    arm.simulation.plant.push('panda_hand', [0.0, 15.0, 0.0])
    guided = arm.sleep(0.6)
    arm.simulation.plant.push('panda_hand', [0.0, 0.0, 0.0])
    assert guided.pose[1, 3] > before.pose[1, 3] + 0.02
    for command in (lambda: arm.move_to(before.pose), arm.axes,
                    lambda: arm.impedance([100.0] * 6)):
        with pytest.raises(InputError, match=r'free_drive\(False\)'):
            command()
    arm.free_drive(False)
    held = arm.sleep(0.5)
    assert moved(arm.sleep(0.5), held) < 1e-3
    arm.move_to(before.pose)


def test_slow_arm_says_so_and_arrives_when_the_override_is_raised(arm):
    goal = arm.pose(shift=(0.0, 0.15, 0.0))
    arm.speed_override = 10
    with pytest.raises(ArmTimeoutError, match='the speed override is 10 %') as caught:
        arm.move_to(goal, timeout=1.0)
    assert 'speed override' in {one.name for one in caught.value.reasons}
    arm.speed_override = 100
    arm.wait()
    arm.speed_override = 20
    home = arm.state()
    arm.home()  # within the default time-out
    assert moved(arm.state(), home) > 0.1
    arm.speed_override = 0
    arm.move_to(goal, wait=False)
    held = arm.state()
    assert moved(arm.sleep(1.0), held) < 1e-3


def test_speeds_and_torques_stay_bounded_while_the_override_changes(arm):
    """Poses, twists and joints at 10 %, and changes within changes."""
    random, law = np.random.default_rng(3), arm.simulation.law
    goals = arm.pose(shift=(0.0, 0.2, 0.0)), arm.pose(shift=(0.1, -0.1, 0.1))
    q, states = arm.state().q, []
    arm._backend.listen(states.append)
    try:
        arm.speed_override = 10
        for k in range(6):  # a new goal within each stop and start
            arm.move_to(goals[k % 2], wait=False)
            arm.sleep(0.2)
            arm.move_joints(q, wait=False)
            arm.sleep(0.2)
            arm.hold()
        slow = len(states)
        for k in range(120):
            arm.speed_override = random.choice([0, 10, 50, 100])
            if k % 10 == 0:
                arm.move_to(goals[k // 10 % 2], wait=False)
            elif k % 10 == 5:
                arm.move_joints(q + 0.3 * random.standard_normal(7), wait=False)
            arm.sleep(random.choice([0.01, 0.1, 0.3]))
    finally:
        arm._backend.listen(None)
    time, qd = np.array([s.time for s in states]), np.array([s.qd for s in states])
    tip = np.array([s.pose[:3, 3] for s in states])
    torque = np.array([s.torque for s in states]) / law.settings.limits.effort
    speed = np.linalg.norm(np.diff(tip[:slow], axis=0), axis=1) / np.diff(time[:slow])
    assert speed.max() < 0.16
    assert np.abs(qd / law.robot.velocity_limits).max() < 1.0
    assert np.abs(np.diff(torque, axis=0)).max() < 0.03
