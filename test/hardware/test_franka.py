# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""FrankaArm: the real libfranka against franka-sim, which speaks the protocol of a real arm."""

from contextlib import contextmanager, suppress
import os
from pathlib import Path
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import osc_ros
from osc_ros import InputError, Law, Limits, Robot, Settings
from osc_ros.control.model_error.driver import Driver
from osc_ros.hardware.contract import HardwareError
from osc_ros.hardware.hardware_table import hardware_class
from osc_ros.model.files import shipped_urdf
from osc_ros.model.gripper_state import HandGoal
from osc_ros.sim.franka_server import FrankaServer, python

libfranka = pytest.importorskip('pylibfranka', reason='pylibfranka is not installed: it has '
                                'wheels for x86_64 Linux and Python 3.10 to 3.12')
from osc_ros.hardware.franka import FrankaArm  # noqa: E402
from osc_ros.hardware.franka_errors import explanation, REFLEXES  # noqa: E402

URDF = shipped_urdf('fr3')
TEXT = URDF.read_text()
NAMES = tuple(f'fr3_joint{k}' for k in range(1, 8))
ZERO = np.zeros(7)
# Of the errors that libfranka names, those that a motion with torques cannot cause.
OTHER_MOTIONS = re.compile('motion_generator|_pose_|profile|planning|spline|elbow|desired_force')


def values(**changed):
    """Return a value of each setting: the defaults but for `changed`, without the real time."""
    return {**{setting.name: setting.default for setting in FrankaArm.settings},
            'realtime': 'ignore', **changed}


@pytest.fixture(scope='module')
def server(tmp_path_factory):
    """Return a server that runs for all tests of this module."""
    if not python().exists():
        pytest.skip(f'franka-sim is not installed: there is no {python()}; make test installs it')
    with FrankaServer(URDF, tmp_path_factory.mktemp('franka') / 'server.log') as running:
        yield running


@pytest.fixture
def arm(server):
    """
    Return an arm that is connected; it is closed after the test.

    Its motions end after 1000 lost packets in place of 20: a busy machine may lose 20.

    """
    arm = FrankaArm(values(address=server.address), TEXT, NAMES)
    arm.open()
    server.send('lost 1000')
    time.sleep(0.02)
    yield arm
    arm.close()


def cycles(arm, count, torque=lambda k, state: ZERO):
    """Carry out cycles of control, and return the last state."""
    for k in range(count):
        state = arm.read()
        arm.write(torque(k, state))
    return state


def until_late(arm, attempt):
    """
    Return the result of `attempt()`; repeat it if this machine was too slow for the arm.

    The server ends the motion after 20 ms without a torque, which a busy machine may take.

    """
    for _ in range(10):
        try:
            return attempt()
        except HardwareError as error:
            if 'communication_constraints_violation' not in str(error):
                raise
            arm.recover()
    raise AssertionError('this machine was too slow ten times in turn')


def fails(arm, words, call):
    """Assert that a call raises HardwareError with these words, and that the arm starts again."""
    with pytest.raises(HardwareError, match=words):
        call()
    with pytest.raises(HardwareError, match='not started|not connected'):
        arm.write(ZERO)
    arm.stop()  # of no effect
    starts_again(arm)


def starts_again(arm):
    """Recover, and assert that the arm follows torques."""
    arm.recover()
    assert np.isfinite(arm.read().q).all()

    def attempt():
        arm.start()
        cycles(arm, 10)
        arm.stop()

    until_late(arm, attempt)


def test_opening_describes_the_arm_and_changes_no_scheduling(server):
    before = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    arm = FrankaArm(values(address=server.address), TEXT, NAMES)
    described = arm.open()
    assert (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) == before
    assert (described.joint_names, described.period, described.compensates,
            described.clock) == (NAMES, 0.001, 'gravity', 'wall')
    np.testing.assert_array_equal(described.effort_limits, [87] * 4 + [12] * 3)
    np.testing.assert_array_equal(described.effort_rates, np.full(7, 1000.0))
    began = time.time()
    states = [arm.read() for _ in range(20)]
    arm.close()
    times = np.array([state.time for state in states])
    assert (np.diff(times) > 0).all()
    assert began - 1.0 < times[0] and times[-1] < time.time() + 1.0  # the clocks differ by less
    assert all(part.shape == (7,) for part in states[0][1:])


@contextmanager
def prompt():
    """Run this thread before others, if that is permitted, as the loop of a real arm."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def test_the_law_holds_the_arm_and_moves_it(arm, server):
    robot = Robot.from_urdf(TEXT, base='fr3_link0', tip='fr3_link8')
    law = Law(robot, Settings.of(robot, driver=Driver(robot, 'gravity'),
                                 limits=Limits.of(robot, effort_rate=np.full(7, 800.0))))
    server.send('lost 20')  # torques that are later let the arm move off
    held, times = [], []

    def moved_to_goal():
        arm.start()
        state = arm.read()
        law.hold(state.q)
        arm.write(law.torque(*state[:3]))
        goal = law.pose.copy()
        goal[:3, 3] += 0.0, 0.03, -0.02
        held.clear()

        def torque(k, state):
            times.append(state.time)
            if k == 100:
                held.append(np.linalg.norm(law.error[3:]))
                law.follow(goal)
            return law.torque(*state[:3])

        start = time.perf_counter()
        end = cycles(arm, 800, torque)
        assert time.perf_counter() - start > 0.7  # the arm sets the period of 1 ms
        arm.stop()
        law.torque(*end[:3])
        return goal

    with prompt():
        goal = until_late(arm, moved_to_goal)
    assert max(held) < 1e-3
    assert np.linalg.norm(law.pose[:3, 3] - goal[:3, 3]) < 6e-3  # late torques on a busy machine
    # the law itself keeps the limit, but for two of its cycles in one
    missed = np.count_nonzero(np.diff(times) > 0.0015)
    assert arm.report()['limited cycles'] <= missed
    assert 0.0 < arm.report()['success rate'] <= 1.0


def rested(hand):
    """Return the state of the hand when its fingers rest."""
    deadline = time.monotonic() + 10.0
    while (state := hand.gripper_state()).is_moving:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return state


def test_hand_moves_and_grasps_while_the_arm_is_under_control(server):
    arm = FrankaArm(values(address=server.address, gripper=True), TEXT, NAMES)
    arm.open()
    try:
        server.send('lost 1000')
        time.sleep(0.02)
        assert arm.gripper_state().width == pytest.approx(0.08, abs=1e-3)

        def attempt():
            arm.start()
            for k in range(60):
                arm.read()
                arm.write(ZERO)
                if k == 20:
                    arm.move_gripper(HandGoal(0.03, 20.0, 0.1))
                    assert arm.gripper_state().is_moving
            arm.stop()

        until_late(arm, attempt)
        state = rested(arm)
        assert state.is_at_goal and state.width == pytest.approx(0.03, abs=1e-3)
        arm.move_gripper(HandGoal(0.08))
        assert rested(arm).is_at_goal
        server.send('object 0.04')
        time.sleep(0.05)
        arm.move_gripper(HandGoal(0.0, 40.0))
        state = rested(arm)
        assert state.is_holding and state.width == pytest.approx(0.04, abs=1e-3)
        assert state.force == 40.0
        server.send('object 0')
        time.sleep(0.05)
        arm.move_gripper(HandGoal(0.0, 40.0))
        assert not rested(arm).is_holding
        with pytest.raises(InputError, match=r'width.*0\.2 m'):
            arm.move_gripper(HandGoal(0.2))
    finally:
        arm.close()


@pytest.mark.slow
def test_client_without_ros_moves_the_arm_and_recovers_it(server):
    """`Arm.real_time` end to end: process, libfranka, its errors, and the hand."""
    def opened():
        return osc_ros.Arm.real_time('fr3', 'franka', {
            'address': server.address, 'realtime': 'ignore', 'gripper': True})

    def moves(arm, shift):
        server.send('lost 1000')
        goal = arm.pose(shift=shift)
        assert np.linalg.norm((arm.move_to(goal, duration=1.0).pose - goal)[:3, 3]) < 4e-3

    with until_open(opened) as arm:
        moves(arm, (0.0, 0.0, 0.05))
        arm.move_to(arm.pose(shift=(0.0, 0.0, -0.05)), duration=2.0, wait=False)
        assert arm.gripper.move(0.03).width == pytest.approx(0.03, abs=1e-3)
        arm.wait()
        chunk = [arm.pose(shift=(0.0, 0.01 * k, 0.0)) for k in range(1, 6)]
        arm.follow(chunk, 0.1, observed_at=arm.state().time)
        assert np.linalg.norm((arm.wait().pose - chunk[-1])[:3, 3]) < 4e-3
        arm.jog([0.0, 0.0, 0.0, 0.0, -0.05, 0.0])
        arm.sleep(0.5)
        for line, words in (('error 6', 'has failed.*joint_reflex'),
                            ('connection 0', 'has failed.*connection to the arm was lost')):
            arm.move_to(arm.pose(shift=(0.0, 0.1, 0.0)), duration=9.0, wait=False)
            server.send(line)
            with pytest.raises(osc_ros.ArmError, match=words):
                arm.wait()
            with pytest.raises(osc_ros.ArmError, match=words + '.*Arm.recover'):
                arm.hold()
            assert 'activated' in arm.recover()
            moves(arm, (0.0, -0.03, 0.0))
        server.send('abort kEmergencyAborted')
        with pytest.raises(osc_ros.ArmError, match='user stop.*Release'):
            arm.sleep(9.0)
        with pytest.raises(osc_ros.ArmError, match='user stop.*Release'):
            arm.recover()
        server.send('mode kIdle')
        time.sleep(0.1)
        arm.recover()
        moves(arm, (0.0, 0.0, 0.03))


def until_open(opened):
    """Return what `opened` returns; a busy machine may lose it at once, see `until_late`."""
    for _ in range(10):
        try:
            return opened()
        except osc_ros.errors.OscError as error:
            if 'communication_constraints_violation' not in str(error):
                raise
    raise AssertionError('this machine was too slow ten times in turn')


def test_arm_without_a_hand_says_so(arm):
    for command in (arm.gripper_state, lambda: arm.move_gripper(HandGoal(0.0))):
        with pytest.raises(InputError, match="'gripper'.*false"):
            command()


def test_twenty_lost_packets(arm, server):
    server.send('lost 20')
    time.sleep(0.02)

    def silence():
        arm.start()
        cycles(arm, 5)
        time.sleep(0.1)
        cycles(arm, 30)

    fails(arm, '20 cycles.*real-time kernel.*communication_constraints_violation', silence)


def test_a_jump_of_the_torque_is_refused_by_the_arm(arm):
    def jump():
        arm.start()
        cycles(arm, 5)
        # past `write`, which would limit it
        arm._control.writeOnce(libfranka.Torques([3.0, 0, 0, 0, 0, 0, 0]))
        cycles(arm, 30)

    fails(arm, 'limits.effort_rate.*controller_torque_discontinuity', jump)


def test_write_limits_torques_and_rates_and_counts(arm):
    arm.start()
    cycles(arm, 5)
    assert arm.report()['limited cycles'] == 0
    sent = []
    for k in range(8):
        arm.read()
        arm.write(np.full(7, 1e9 if k < 4 else -1e9))
        sent.append(list(arm._sent))
    assert arm.report()['limited cycles'] == 8
    arm.stop()
    steps = np.abs(np.diff([[0.0] * 7, *sent], axis=0))
    assert 0.999 < steps.max() <= 1.0


def test_the_greatest_permitted_step_does_not_count_as_limited(arm):
    arm.start()
    cycles(arm, 5)
    arm.read()
    arm.write(np.ones(7))
    assert arm.report()['limited cycles'] == 0
    arm.stop()


class Lossy:
    """A control of libfranka that loses every third torque on the way to the arm."""

    def __init__(self, control):
        self._control, self.steps = control, []

    def readOnce(self):
        found = self._control.readOnce()
        self._received = found[0].tau_J_d
        return found

    def writeOnce(self, torques):
        self.steps.append(np.subtract(torques.tau_J, self._received))
        if len(self.steps) % 3 or torques.motion_finished:
            self._control.writeOnce(torques)


def test_a_lost_torque_does_not_become_a_jump(arm):
    arm.start()
    arm._control = lossy = Lossy(arm._control)
    up_and_down = 0.9 * np.abs(np.arange(200) % 10 - 5.0)
    cycles(arm, 200, lambda k, state: np.full(7, up_and_down[k]) * (np.arange(7) == 3))
    arm.stop()
    # without a limit 1.8 N·m after each torque that was lost
    assert 0.9 < np.abs(lossy.steps).max() <= 1.0


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_a_torque_that_is_not_finite_is_not_sent(arm, bad):
    arm.start()

    def write():
        arm.read()
        arm.write(np.array([0.0, 0.0, bad, 0.0, 0.0, 0.0, 0.0]))

    fails(arm, 'not finite; the control ends', write)


def test_a_collision_of_the_arm_with_itself(arm):
    """The one collision that franka-sim finds: a sphere on the last link nears the first link."""
    speed = np.array([0.0, 0.0, 0.0, -0.5, 0.0, 0.0, 0.0])

    def fold():
        arm.start()
        cycles(arm, 2000, lambda k, state: 20.0 * (min(k / 200, 1.0) * speed - state.qd))

    fails(arm, 'too close to each other.*self_collision_avoidance_violation', fold)


@pytest.mark.parametrize('line, words', [
    ('error 6', 'hardware.collision.torque.*touched.*joint_reflex'),
    ('error 7', 'hardware.collision.force.*touched.*cartesian_reflex'),
    ('error 35', 'oscillation.*instability_detected'),
    ('abort kPreempted', 'another program or Desk'),
    ('abort kPreemptedDueToActivatedSafetyFunctions', 'safety function'),
])
def test_the_arm_ends_the_control(arm, server, line, words):
    arm.start()

    def ended():
        server.send(line)
        cycles(arm, 2000)

    with pytest.raises(HardwareError, match=words):
        ended()
    server.send('mode kIdle')
    time.sleep(0.05)
    starts_again(arm)


def test_the_user_stop_ends_the_control_and_has_to_be_released(arm, server):
    arm.start()
    server.send('abort kEmergencyAborted')
    with pytest.raises(HardwareError, match='user stop.*Release.*recover'):
        cycles(arm, 2000)
    for call in (arm.start, arm.recover):
        with pytest.raises(HardwareError, match='user stop.*Release'):
            call()
    server.send('mode kIdle')
    time.sleep(0.05)
    starts_again(arm)


@pytest.mark.parametrize('mode, words', [
    ('kGuiding', 'by hand'),
    ('kOther', 'Unlock'),
    ('kMove', 'another mode'),
])
def test_start_in_another_mode(arm, server, mode, words):
    time.sleep(0.3)  # by then the socket is full of states of before
    server.send(f'mode {mode}')
    time.sleep(0.1)
    with pytest.raises(HardwareError, match=words):
        arm.start()
    server.send('mode kIdle')
    time.sleep(0.05)
    starts_again(arm)


def test_an_arm_in_reflex_opens_and_starts_after_the_recovery(server):
    arm = FrankaArm(values(address=server.address), TEXT, NAMES)
    arm.open()
    time.sleep(0.3)  # by then the socket is full of states of before
    server.send('error 6')
    time.sleep(0.1)
    fails(arm, 'Recover first|joint_reflex', arm.start)
    arm.close()


@pytest.mark.parametrize('value, words', [
    ({'load.mass': 1.5, 'load.center_of_mass': (0.0, 0.01, 0.05),
      'load.inertia': (0.01, 0.001, 0.002, 0.02, 0.003, 0.03)}, ''),
    ({'end_effector': (0.0, 0.0, 0.1, 0.0, 0.0, 0.5)}, ''),
])
def test_settings_reach_the_arm(server, value, words):
    arm = FrankaArm(values(address=server.address, **value), TEXT, NAMES)
    arm.open()
    until_late(arm, lambda: (arm.start(), cycles(arm, 3), arm.stop()))
    state = arm._robot.read_once()
    arm.close()
    if 'load.mass' in value:
        assert state.m_load == pytest.approx(1.5)
        np.testing.assert_allclose(state.F_x_Cload, [0.0, 0.01, 0.05], atol=1e-6)
        np.testing.assert_allclose(np.reshape(state.I_load, (3, 3)), [
            [0.01, 0.001, 0.002], [0.001, 0.02, 0.003], [0.002, 0.003, 0.03]], atol=1e-6)
    else:
        pose = np.reshape(state.NE_T_EE, (4, 4)).T
        np.testing.assert_allclose(pose[:3, 3], [0.0, 0.0, 0.1], atol=1e-6)
        np.testing.assert_allclose(pose[0, :2], [np.cos(0.5), -np.sin(0.5)], atol=1e-6)


def test_the_connection_ends(arm, server):
    arm.start()
    server.send('connection ends')
    with pytest.raises(HardwareError, match='connection.*lost|no state'):
        cycles(arm, 5000)
    with pytest.raises(HardwareError, match='not connected'):
        arm.read()
    starts_again(arm)


def test_the_network_is_silent(arm, server):
    arm.start()
    cycles(arm, 3)
    server.signal(signal.SIGSTOP)
    try:
        with pytest.raises(HardwareError, match='no state'):
            cycles(arm, 3)
    finally:
        server.signal(signal.SIGCONT)
    time.sleep(0.5)
    starts_again(arm)


def test_the_arm_stops_by_a_reflex_while_the_control_ends(arm, server):
    arm.start()
    cycles(arm, 5)
    server.send('error 6')
    time.sleep(0.1)  # the arm has ended the control, but nothing was read
    before = server.log_text().count('StopMove')
    with pytest.raises(HardwareError, match='joint_reflex'):
        arm.stop()
    assert np.isfinite(arm.read().q).all()  # the connection is kept
    starts_again(arm)
    assert server.log_text().count('StopMove') == before  # of the destructor, which may abort


def test_a_connection_that_is_given_up_leaves_nothing_that_waits(arm, server):
    arm.start()
    cycles(arm, 5)
    before = server.log_text().count('StopMove')
    arm._disconnect()
    starts_again(arm)
    assert server.log_text().count('StopMove') == before


def test_calls_out_of_order(arm):
    arm.stop()
    with pytest.raises(HardwareError, match='not started'):
        arm.write(ZERO)
    arm.recover()  # without an error
    arm.start()
    with pytest.raises(HardwareError, match='runs already'):
        arm.start()
    arm.stop()
    arm.stop()
    arm.close()
    with pytest.raises(HardwareError, match='not connected'):
        arm.read()


@pytest.mark.skipif(Path('/sys/kernel/realtime').exists(), reason='this kernel has real time')
def test_the_check_of_real_time_names_the_setting(server):
    arm = FrankaArm(values(address=server.address, realtime='enforce'), TEXT, NAMES)
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        with pytest.raises(HardwareError, match="hardware.realtime.*'ignore'.*libfranka"):
            arm.open()
    finally:
        os.sched_setscheduler(0, *before)  # libfranka changed it before it looked at the kernel
    arm.close()


def test_the_other_description_of_the_same_joints(server):
    """The last two joints bend the other way: names, number and limits fit, but not the arm."""
    text = TEXT.replace('<origin xyz="0.088 0 0"', '<origin xyz="0.188 0 0"')
    assert text != TEXT
    arm = FrankaArm(values(address=server.address), text, NAMES)
    with pytest.raises(HardwareError, match='100 mm'):
        arm.open()
    arm.close()


@pytest.mark.parametrize('text, names, words', [
    (TEXT, NAMES[:6], '7 joints.* 6'),
    (TEXT, (*NAMES[:6], 'fr3_joint9'), "'fr3_joint9'"),
    (TEXT, (NAMES[1], NAMES[0], *NAMES[2:]), 'FR3 .*within|not follow'),
    (TEXT, (NAMES[6], *NAMES[1:6], NAMES[0]), 'not follow|within'),
    (shipped_urdf('panda').read_text(), tuple(f'panda_joint{k}' for k in range(1, 8)),
     'panda_joint1.*-2.897 to 2.897.*FR3'),
])
def test_a_wrong_description(text, names, words):
    with pytest.raises(InputError, match=words):
        FrankaArm(values(address='127.0.0.1'), text, names)


def test_no_address():
    with pytest.raises(InputError, match='hardware.address'):
        FrankaArm(values(), TEXT, NAMES)


def test_fci_is_not_active():
    """Nothing listens at this address of this computer: as an arm whose FCI is not active."""
    arm = FrankaArm(values(address='127.251.251.251'), TEXT, NAMES)
    with pytest.raises(HardwareError, match='FCI.*Desk.*hardware.address'):
        arm.open()
    with pytest.raises(HardwareError, match='FCI'):
        arm.recover()
    arm.close()


def test_nothing_answers_at_the_address():
    with socket.socket() as listener:
        listener.bind(('127.251.251.250', 1337))
        listener.listen(0)
        filling = [socket.socket() for _ in range(3)]
        for connection in filling:  # the kernel then ignores further connections
            connection.setblocking(False)
            connection.connect_ex(listener.getsockname())
        arm = FrankaArm(values(address='127.251.251.250'), TEXT, NAMES)
        with pytest.raises(HardwareError, match='answers.*ping'):
            arm.open()
        for connection in filling:
            connection.close()
    arm.close()


SILENT = """
import sys
from osc_ros.hardware import franka
sys.path.insert(0, {folder!r})
franka.PATIENCE = 1.0
from test_franka import FrankaArm, NAMES, TEXT, values
arm = FrankaArm(values(address='127.251.251.249'), TEXT, NAMES)
arm.open()
"""


def test_a_computer_that_accepts_and_says_nothing():
    """Here libfranka waits for ever, with the GIL held."""
    command = SILENT.format(folder=str(Path(__file__).parent))
    with socket.create_server(('127.251.251.249', 1337)):
        ended = subprocess.run([sys.executable, '-c', command], capture_output=True, text=True,
                               timeout=60.0)
    assert ended.returncode == 1
    assert 'Timeout' in ended.stderr and 'in _connect' in ended.stderr


LEAVING = """
import sys
sys.path.insert(0, {folder!r})
from test_franka import FrankaArm, NAMES, TEXT, values, cycles
arm = FrankaArm(values(address={address!r}), TEXT, NAMES)
arm.open()
arm.start()
cycles(arm, 3)
print('controls', flush=True)
"""


def test_a_process_that_ends_during_control_leaves_at_once(server):
    command = LEAVING.format(folder=str(Path(__file__).parent), address=server.address)
    ended = subprocess.run([sys.executable, '-c', command], capture_output=True, text=True,
                           timeout=60.0)
    assert (ended.returncode, ended.stdout) == (0, 'controls\n'), ended.stderr


def test_every_error_of_libfranka_is_explained():
    names = [name for name in dir(libfranka.Errors) if not name.startswith('_')]
    assert len(names) == 41 and set(REFLEXES) <= set(names)
    assert [name for name in names if name not in REFLEXES] == [
        name for name in names if OTHER_MOTIONS.search(name)]
    for name in names:
        said = explanation('libfranka: Move command aborted: motion aborted by reflex! '
                           f'["{name}"]\ncontrol_command_success_rate: 0.5')
        assert name in said and '\n' not in said and 'success_rate: 0.5' in said
    both = explanation('… ["joint_reflex", "joint_velocity_violation"]')
    assert 'touched something' in both and 'too fast' in both
    assert explanation('libfranka: new').startswith('libfranka reports an error [libfranka: new')


def test_the_table_of_arms(tmp_path, monkeypatch):
    assert hardware_class('franka') is FrankaArm
    with pytest.raises(InputError, match=r"'fanka'.*franka, mujoco.*osc_ros.hardware"):
        hardware_class('fanka')
    package = tmp_path / 'others-1.0.dist-info'
    package.mkdir()
    (package / 'METADATA').write_text('Metadata-Version: 2.1\nName: others\nVersion: 1.0\n')
    (package / 'entry_points.txt').write_text(
        '[osc_ros.hardware]\nfour = others:Arm\nhalf = others:Half\nabsent = no_such_module:Arm\n'
        'franka = others:Arm\n')
    (tmp_path / 'others.py').write_text(
        'class Half:\n    settings = ()\n'
        '    open = start = read = write = stop = recover = report = 1\n'
        'class Arm(Half):\n    close = 1\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert hardware_class('four').__module__ == 'others'
    assert hardware_class('franka') is FrankaArm
    with pytest.raises(InputError, match='others:Half.*close'):
        hardware_class('half')
    with pytest.raises(InputError, match="'absent'.*no_such_module"):
        hardware_class('absent')
    monkeypatch.setitem(sys.modules, 'pylibfranka', None)
    monkeypatch.delitem(sys.modules, 'osc_ros.hardware.franka')
    with pytest.raises(InputError, match=r"pip install '\.\[franka\]'"):
        hardware_class('franka')
