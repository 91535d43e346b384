# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Joint states are answered in compiled code, whatever Python does in the process."""

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from weakref import finalize

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from blocked import done_while_python_is_blocked
from common import import_path, PATIENCE
from node_rig import gravity, JOINTS, READY, Rig, use_newest_publisher
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.errors import OscError
from osc_ros.loop import requests
from osc_ros.loop.journal import loaded_piece
from osc_ros.loop.process import realtime
from osc_ros.recording.replay import Replay
from osc_ros.recording.tape import runs_of, segments_of
from osc_ros.ros.dds import rcl_calls
from osc_ros.ros.dds.rcl_plan import PUBLISH
from osc_ros.ros.messages import commands
from readers import arguments_of, READERS

COUNT, BEFORE, ATTEMPTS, REST = 30, 400, 20, [0.0] * 7
REAL_TIME = 4.0  # a state_timeout, with which states do not wait for plans [s]
# The program of a driver: it sends a state, waits for the command that answers it, and sends the
# next one: first BEFORE states, when it is told the tick of the first one; then, after a line on
# its standard input, it does what `task` says. It writes '.' if that was well, otherwise '!'.
DRIVER = f"""
import json, math, os, sys, time
from common import PATIENCE
from node_rig import Hardware, READY
import rclpy

os.environ['ROS_DOMAIN_ID'] = sys.argv[1]
rclpy.init()
hardware, done, VELOCITY, task = Hardware(), False, json.loads(sys.argv[2]), sys.argv[3]
def wait(happened, seconds):
    end = time.perf_counter() + seconds
    while not happened():
        rclpy.spin_once(hardware, timeout_sec=0.01)
        if time.perf_counter() > end:
            return False
    return True
def asks(velocity, q=READY):
    label = hardware.state(q=q, velocity=velocity)
    return wait(lambda: hardware.answer(label) is not None, 1.0)
wait(lambda: hardware.states.get_subscription_count() > 0, PATIENCE)
print('there', flush=True)
hardware.tick = int(sys.stdin.readline())
wait(lambda: asks(VELOCITY), PATIENCE)
for _ in range({BEFORE}):
    asks(VELOCITY)
print('ready', flush=True)
sys.stdin.readline()
def held():
    return sum(command.layout.dim[0].label == 'hold' for command in hardware.commands)
if task == 'states':
    done = all(asks(VELOCITY) for _ in range({COUNT}))
elif task == 'jumps':  # states that are not plausible
    done = all(asks(VELOCITY, READY + 0.5 * (-1.0) ** k) for k in range({COUNT}))
elif task.startswith('moves'):  # for some seconds, or at least COUNT states
    end, k = time.perf_counter() + float(task[5:]), 0
    done = True
    while done and (k < {COUNT} or time.perf_counter() < end):
        k += 1
        moved = [0.1 * math.cos(0.004 * k)] * 7, READY + 0.05 * math.sin(0.004 * k)
        done = any(asks(*moved) for _ in range({ATTEMPTS}))  # a message may be lost
elif task == 'silence':  # no state comes, then some come again
    done = wait(lambda: held() >= {COUNT}, 10.0) and all(asks(VELOCITY) for _ in range(3))
os.write(1, b'.' if done else b'!')
"""


def driver_of(task, velocity):
    """Start a driver."""
    return subprocess.Popen(
        [sys.executable, '-c', DRIVER, os.environ['ROS_DOMAIN_ID'], json.dumps(velocity), task],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={
            **os.environ, 'PYTHONSAFEPATH': '', 'PYTHONPATH': import_path()})


def task_is_done(rig, task, velocity, prepare):
    """Whether the driver's task went well while a C function had the interpreter's lock."""
    with driver_of(task, velocity) as driver:
        assert driver.stdout.readline() == b'there\n'
        prepare()
        driver.stdin.write(f'{rig.hardware.tick}\n'.encode())
        driver.stdin.flush()
        rig.hardware.tick += 2 * (COUNT + BEFORE)
        use_newest_publisher(rig, lambda: None)
        assert driver.stdout.readline() == b'ready\n'
        return done_while_python_is_blocked(driver)


def is_done_in_an_attempt(rig, task, velocity=REST, prepare=lambda: None):
    """
    Whether a driver's task goes well in one of ATTEMPTS, each after a call of `prepare`.

    A busy machine can send a state so late that the loop stops for Python: then the task fails.

    """
    for _ in range(ATTEMPTS):
        is_done = task_is_done(rig, task, velocity, prepare)
        use_newest_publisher(rig, rig.hardware.state)
        if is_done:
            return True
    return False


def require_weight_carried(rig):
    """Assert that all torques are near those of the weight."""
    for command in rig.hardware.commands:
        np.testing.assert_allclose(command.data, gravity(READY), atol=3.0)


def test_time_is_that_of_the_state_that_was_answered_last(spin):
    rig = Rig(spin, velocity='measured').activate()
    rig.ask()
    loop = rig.controller._loop
    for _ in range(20):
        rig.hardware.state()
        deadline = time.perf_counter() + PATIENCE
        while loop.time != pytest.approx(0.002 * rig.hardware.tick):
            assert time.perf_counter() < deadline  # not spun: the main thread concludes nothing


def test_threads_that_run_python_get_no_turn_while_the_loop_waits(spin, monkeypatch):
    # A thread that waits for the interpreter's lock requests it after the interval that was set
    # when its wait began: so a request sets a long one before it last lets other threads run.
    intervals, sleep = [], rcl_calls.sleep
    loop = Rig(spin).activate().controller._loop
    monkeypatch.setattr(rcl_calls, 'sleep', lambda time: (
        intervals.append(sys.getswitchinterval()), sleep(time)))
    with monkeypatch.context() as short:
        short.setattr(rcl_calls, '_usual', realtime.SWITCH_INTERVAL)
        before = sys.getswitchinterval()
        realtime.switch_threads_quickly()
        try:
            loop.request(lambda engine: intervals.append(None))
        finally:
            sys.setswitchinterval(before)
    allowed = intervals[:intervals.index(None)]
    assert allowed and min(allowed) == pytest.approx(rcl_calls.UNDISTURBED)


def test_no_state_waits_while_settings_that_were_replaced_are_freed(spin):
    rig = Rig(spin, velocity='measured', state_timeout=REAL_TIME).activate()
    loop, depths = rig.controller._loop, []
    law = loop.engine.law
    for _ in range(3):
        finalize(law.setup, lambda: depths.append(loop._depth))
        loop.use_setup(law.new_setup(), loop.engine.guard.settings)
    while loop.read(lambda engine: engine.law.is_blending or engine.law.waits):
        rig.ask()
    gc.collect()
    assert depths and not any(depths)


def test_compiled_code_goes_on_after_a_message_that_could_not_be_published(spin):
    rig = Rig(spin, velocity='measured').activate()
    loop, plan = rig.controller._loop, rig.controller._loop._calls.plan
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 3)
    publish, failures = kind(int(plan[PUBLISH])), []

    def fails_once(*given):
        if not failures:
            failures.append(True)
            return 1
        return publish(*given)

    replaced = kind(fails_once)
    plan[PUBLISH] = ctypes.cast(replaced, ctypes.c_void_p).value
    rig.hardware.state()
    spin(lambda: failures and loop.engine.guard.cause == 'not_finite', why='for the failure')
    before = loop._compiled.steps
    spin(lambda: rig.hardware.state() and loop._compiled.steps > before + 5, why='for answers')
    require_weight_carried(rig)
    assert rig.controller._loop.mode == 'active'


def test_rcl_without_a_function_is_refused_by_its_name():
    with pytest.raises(OscError, match='librcl.*lacks rcl_wait_for_godot'):
        rcl_calls._addresses(rcl_calls._library('librcl'), 'rcl_wait', 'rcl_wait_for_godot')
    with pytest.raises(OscError, match='libnothing is not loaded'):
        rcl_calls._library('libnothing')


def test_answers_are_processed_just_before_a_state_may_have_to_wait(spin, monkeypatch):
    loop = Rig(spin, velocity='measured').activate().controller._loop
    order, process, calls = [], loop._process_answers, loop._calls
    locking, sleep = calls._locking, rcl_calls.sleep
    with monkeypatch.context() as watched:
        watched.setattr(rcl_calls, 'sleep', lambda time: (order.append('sleep'), sleep(time)))
        watched.setattr(loop, '_process_answers', lambda: (
            order.append('process'), process())[1])
        watched.setattr(calls, '_locking', SimpleNamespace(
            pthread_mutex_trylock=lambda mutex: (
                order.append('lock'), locking.pthread_mutex_trylock(mutex))[1],
            pthread_mutex_unlock=locking.pthread_mutex_unlock))
        loop.request(lambda engine: order.append('call'))
    before = order[:order.index('call')]
    assert 'lock' in before
    assert all(before[k - 1] == 'process' for k, one in enumerate(before) if one == 'lock')


@pytest.mark.parametrize('velocity', [
    [1e-9] * 7, *(pytest.param(one, marks=pytest.mark.slow) for one in ([0.0] * 7, []))],
                         ids=['measured', 'zero', 'none'])
def test_states_are_answered_while_the_interpreter_is_blocked(spin, velocity):
    rig = Rig(spin, rate=100.0).activate()
    assert is_done_in_an_attempt(rig, 'states', velocity)
    assert rig.controller._loop.mode == 'active'


def test_states_are_answered_while_a_motion_that_begins_cannot_be_planned(spin):
    rig = Rig(spin, rate=100.0, state_timeout=REAL_TIME).activate()
    loop = rig.controller._loop
    held = loop.request(lambda engine: engine.law.pose)
    goal = held + np.eye(4, k=3) * [[0.03], [0.0], [0.0], [0.0]]

    def begin_later():
        begin = 0.002 * (rig.hardware.tick + BEFORE + COUNT // 2)
        loop.request(requests.follow, PoseGoal(goal), begin, 'tip')

    assert is_done_in_an_attempt(rig, 'states', prepare=begin_later)

    def target_moves():
        rig.hardware.state()
        target = loop.request(lambda engine: engine.law.target.pose)
        return np.linalg.norm((target - held)[:3, 3]) > 0.01

    spin(target_moves, why='for the motion')


def test_states_are_answered_in_contact_while_the_interpreter_is_blocked(spin):
    rig = Rig(spin, rate=100.0, state_timeout=REAL_TIME).activate()
    loop = rig.controller._loop
    goal = loop.request(lambda engine: engine.law.pose) + 0.03 * np.eye(4, k=3)
    loop.request(requests.follow, PoseGoal(goal), 0.0, 'tip')

    def touches():
        return loop.request(lambda engine: engine.law.in_contact)

    def pushes_without_moving():
        rig.hardware.state()
        return touches()

    assert is_done_in_an_attempt(
        rig, 'states', prepare=lambda: spin(pushes_without_moving, why='for a contact'))
    assert touches()


def test_arm_is_held_while_states_are_not_plausible_and_the_interpreter_is_blocked(spin):
    rig = Rig(spin, rate=100.0).activate()
    assert is_done_in_an_attempt(rig, 'jumps')
    assert rig.controller._loop.request(lambda engine: engine.guard.counts['jump']) > 0
    require_weight_carried(rig)


def test_arm_is_held_without_states_while_the_interpreter_is_blocked(spin):
    rig = Rig(spin, rate=100.0, state_timeout=0.3).activate()
    loop = rig.controller._loop
    assert is_done_in_an_attempt(rig, 'silence')
    assert loop.request(lambda engine: engine.guard.counts['stale_state']) > 0
    require_weight_carried(rig)

    def law_goes_on():
        rig.hardware.state()
        return not loop.request(lambda engine: engine.guard.reaction)

    spin(law_goes_on, why='for the law to go on')


def test_states_are_answered_beside_another_publisher_while_the_interpreter_is_blocked(spin):
    rig = Rig(spin, rate=100.0).activate()
    loop = rig.controller._loop
    rig.hardware.create_publisher(Float64MultiArray, 'osc_controller/commands', 1)

    def is_counted():
        rig.hardware.state()
        return loop.request(lambda engine: engine.guard.counts['other_publisher'])

    spin(is_counted, why='for the cause to be found')
    assert is_done_in_an_attempt(rig, 'states')
    assert loop.request(lambda engine: engine.guard.cause) == 'other_publisher'


def test_torques_and_stamps_are_those_of_the_states_and_the_loop_knows_them(spin):
    rig = Rig(spin, velocity='measured').activate()
    missed = []
    for k in range(30):
        q = READY + 1e-4 * k
        label = rig.hardware.state(q=q)
        spin(lambda label=label: rig.hardware.answer(label) is not None, why='for its command')
        np.testing.assert_allclose(rig.hardware.answer(label), gravity(READY), atol=3.0)
        spin(lambda: rig.controller._loop.request(lambda engine: engine.time)
             == pytest.approx(0.002 * rig.hardware.tick), why='for the last state')
        np.testing.assert_array_equal(rig.controller._loop.q, q)
        missed.append(rig.controller._loop.request(requests.timing).missed)
    # each state is sent only after the one before was answered, so the loop misses none
    assert missed == missed[:1] * 30


def test_any_bytes_between_the_states_change_nothing(spin):
    rig = Rig(spin, velocity='measured').activate()
    whole, rng = bytes(serialize_message(JointState(
        name=list(JOINTS), position=READY.tolist(), velocity=[0.0] * 7))), (
        np.random.default_rng(7))
    for k in range(300):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 1 + k % 4):
            data[at] = int(rng.integers(256))
        rig.hardware.states.publish(bytes(data[:rng.integers(1, len(data) + 1)]))
        if k % 30 == 0:
            rig.ask()
    assert rig.controller._loop.mode == 'active'


def test_states_of_a_gripper_on_the_same_topic_change_nothing(spin):
    rig = Rig(spin, velocity='measured').activate()
    for _ in range(30):
        rig.hardware.state([0.01], ['finger'], [0.0])
        np.testing.assert_allclose(rig.ask(), gravity(READY), atol=1e-8)


def test_command_after_a_request_is_that_of_the_request(spin):
    rig = Rig(spin, velocity='measured').activate()
    for _ in range(30):
        rig.ask()
        rig.controller._loop.request(requests.hold)
        rig.ask()
    assert commands.label(rig.hardware.commands[-1]) != commands.HOLD_LABEL


def test_state_that_comes_during_a_request_is_answered_after_it(spin):
    rig = Rig(spin, velocity='measured').activate()
    rig.ask()
    loop = rig.controller._loop

    def lift(engine):
        label = rig.hardware.state()
        engine.law.use_gravity(np.array([0.0, 0.0, -9.79]))
        return label

    label = loop.request(lift)
    spin(lambda: rig.hardware.answer(label) is not None, why='for the command')
    # 20 m/s³ in the 2 ms since the state before
    np.testing.assert_allclose(rig.hardware.answer(label), gravity(READY) * 9.79 / 9.81, atol=1e-3)


def test_what_is_read_beside_the_loop_is_of_one_state(spin):
    rig = Rig(spin, velocity='measured').activate()
    for k in range(100):
        rig.hardware.state(q=READY + 1e-4 * (k % 7))  # all joints move alike
        for _ in range(10):
            found = rig.controller._loop.read(lambda engine: engine.guard.q - READY)
            assert np.ptp(found) < 1e-9
    rig.ask()
    with pytest.raises(KeyError):
        rig.controller._loop.read(requests.predicted_target, 'no task', 0.0)


@pytest.mark.parametrize('seconds', [2.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_torques_are_those_of_a_quiet_process_while_everything_is_read(spin, seconds):
    rig = Rig(spin, velocity='measured', disturbance__mode='observer', driver_compensates=(
        'gravity+coriolis'), black_box__duration=1e3, black_box__megabytes=1e3).activate()
    loop, diagnosis = rig.controller._loop, rig.controller._diagnosis
    calls = [(one, arguments_of(one, loop.engine)[1:]) for one in READERS
             if one is not requests.journal_piece]
    with driver_of(f'moves{seconds}', [0.1] * 7) as driver:
        first = loop.read(requests.journal_piece, None)
        assert driver.stdout.readline() == b'there\n'
        driver.stdin.write(f'{rig.hardware.tick}\n'.encode())
        driver.stdin.flush()
        use_newest_publisher(rig, lambda: None)
        assert driver.stdout.readline() == b'ready\n'
        driver.stdin.write(b'\n')
        driver.stdin.flush()
        while driver.poll() is None:
            for what, arguments in calls:
                loop.read(what, *arguments)
            diagnosis.publish_status()
            loop.do_posted()
        assert driver.stdout.read() == b'.'
    pieces = [first]
    while (piece := loop.read(requests.journal_piece, pieces[-1].following)) is not None:
        pieces.append(piece)
    for run in runs_of(segments_of([loaded_piece(one.dumped()) for one in pieces])):
        found = Replay(run).compute()
        assert found.is_identical, (found.differing, found.commands, found.largest)
