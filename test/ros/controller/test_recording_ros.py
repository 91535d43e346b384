# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The black box and osc_record of a running controller."""

from functools import partial
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from threading import Event, Thread
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')
pytest.importorskip('mcap', reason='mcap is not installed')
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import UInt8MultiArray

from browser import free_port
from common import PATIENCE
from node_rig import ROBOT
import osc_ros
from osc_ros.control.checkpoint import Checkpoint
from osc_ros.loop import requests
from osc_ros.loop.journal import loaded_piece
from osc_ros.recording import cdr
from osc_ros.recording.bag import BagReader, BagWriter
from osc_ros.recording.explanation import difference
from osc_ros.recording.recorded_joints import loaded_bag
from osc_ros.recording.replay import PARAMETERS, Replay
from osc_ros.recording.tape import runs_of, segments_of
from osc_ros.ros.controller import black_box
from osc_ros.ros.controller.black_box import BlackBox
from osc_ros.ros.controller.controller import Controller
from osc_ros.ros.controller.records import Records
from osc_ros.ros.messages.messages import pose_message, stamp
from osc_ros.ros.process.domains import reserved_domain
from osc_ros.ros.process.node_process import EventsExecutor
from osc_ros.tools.record.alternative import ChangedParameters, changes_of
from processes import Processes
from readers import arguments_of, READERS
from ros_arm import HOME, RosArm, Spun
from watched import bad_state, Watched

FREQUENCY = 'translation.natural_frequency'


def until(happened):
    """Wait until other threads and processes have brought something about."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, 'waited in vain'
        time.sleep(0.02)


def set_frequency(node, value):
    """Set the natural frequency of the tip."""
    assert node.set_parameters_atomically([Parameter(FREQUENCY, value=[value] * 3)]).successful


def files_in(folder):
    """Return the bags of a folder that are complete."""
    return sorted(path.parent for path in folder.glob('*/metadata.yaml'))


def test_watchdog_writes_a_file_that_is_computed_again(spin, tmp_path, monkeypatch):
    monkeypatch.setattr(black_box, 'AFTER', 0.2)
    rig = Watched(spin, 'not_finite', black_box__directory=str(tmp_path / 'new' / 'folder'))
    set_frequency(rig.controller, 15.0)
    for _ in range(5):
        rig.ask()
    bad_state(rig)
    rig.spin(lambda: rig.pulse() or files_in(tmp_path / 'new' / 'folder'), why='for the file')
    (folder,) = files_in(tmp_path / 'new' / 'folder')
    assert folder.name.startswith('osc_controller_')
    assert folder.name.endswith('_not_finite')
    values = rig.until_told(b'\0', 'active', rig.pulse)
    assert str(folder) in values.get('black box', '') or rig.spin(
        lambda: rig.pulse() or any(str(folder) in pair.value for status in rig.found
                                   for pair in status.values), why='for the diagnostics') is None
    segments = loaded_bag(folder).run_of()
    run = Replay(segments).compute()
    assert run.is_identical
    texts = [one.text for one in run.events]
    assert any(text.startswith(f'parameters {FREQUENCY}: (15.0') for text in texts)
    assert any('is nan' in text for text in texts)
    values = segments[0].facts[PARAMETERS]
    again = Replay(segments, ChangedParameters(values, segments[0].facts['urdf'], changes_of(
        [f'{FREQUENCY}=[15.0, 15, 15]'], values))).compute()
    assert len(again.moments) == len(run.moments)
    assert difference(run, again).largest.max() < 1.0
    with pytest.raises(osc_ros.InputError, match=f"mean '{FREQUENCY}'"):
        changes_of(['translation.natural_freqency=[1.0,1.0,1.0]'], values)
    with pytest.raises(osc_ros.InputError, match='give'):
        changes_of(['rate=10.0'], values)


def test_torques_sent_in_a_silence_are_computed_again(spin, tmp_path, monkeypatch):
    from node_rig import Rig
    monkeypatch.setattr(black_box, 'AFTER', PATIENCE)  # until the end of the node writes the file
    rig = Rig(spin, rate=100.0, black_box__directory=str(tmp_path)).activate()
    for _ in range(20):
        rig.ask()
    # not before: a machine that stops must not write the file of an earlier, shorter run
    assert rig.controller.set_parameters_atomically([Parameter('state_timeout', value=0.2)]
                                                    ).successful
    before = len(rig.hardware.commands)
    rig.spin(lambda: len(rig.hardware.commands) > before + 30, why='for commands in the silence')
    for _ in range(20):  # a reaction answers the first ones
        rig.ask()
    rig.controller.stop()
    run = Replay(loaded_bag(files_in(tmp_path)[0]).run_of()).compute()
    assert run.is_identical, (run.differing, run.commands, run.largest)
    assert run.commands > 70
    assert any('stale_state' in one.text for one in run.events)


class Growing:
    """A loop whose journal grows with every read, as that of a loop at 1 kHz does."""

    joints = ()

    def __init__(self):
        from osc_ros.loop.journal import Journal
        self.journal = Journal(1e3, 10**9)
        self.journal.begin(SimpleNamespace(
            acts=True, law=SimpleNamespace(robot=None), drop_plans=lambda: None,
            checkpoint=lambda: Checkpoint(*[None] * 6)))

    def read(self, what, *arguments):
        for _ in range(100):
            self.journal.record('watch', (0.01,), lambda: None)
        return what(SimpleNamespace(journal=self.journal), *arguments)

    request = read


@pytest.mark.parametrize('counts', [(0, 1, 1, 2, 2, 1, 1), (1, 1, 0, 0, 1, 1)], ids=str)
def test_subscriber_that_comes_leaves_no_gap_in_the_journal_of_another(counts):
    records, numbers, published = object.__new__(Records), iter(counts), []
    records._loop, records._at, records._subscribers, records._counted = Growing(), None, 0, 0.0
    records._publisher = SimpleNamespace(
        get_subscription_count=lambda: next(numbers),
        publish=lambda message: published.append(loaded_piece(message.data.tobytes())))
    for _ in counts:
        records._publish()
    [run] = runs_of(segments_of(published))
    assert len(run) == 2 and all(segment.tape for segment in run)


def test_reading_a_journal_that_grows_ends():
    records = object.__new__(Records)
    records._loop = Growing()
    pieces = records._pieces()
    assert len(pieces) == 1
    assert pieces[0].is_last
    more = list(records._following(pieces[0].following))
    assert [len(one.numbers) for one in more] == [100 * 4 * 8]
    assert more[0].start == len(pieces[0].numbers) // 8


class Boxed:
    """A black box of an empty journal, and what it logs."""

    def __init__(self, folder, most=2):
        self.told = []
        self.box = BlackBox('/left/osc_controller', list, {'node': '/n', 'clock offset': 0.0},
                            self.told.append)
        self.box.apply({'black_box.directory': str(folder), 'black_box.files': most})

    def fire(self, cause='jump', reaction='hold'):
        self.box.on_change(cause, reaction)
        self.box.close()
        return self


def test_black_box_that_cannot_write_says_so_and_raises_nothing(tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('')
    assert Boxed(tmp_path / 'sub').fire().told == [
        f"black box: jump: not written to {tmp_path / 'sub'}: the journal of the control loop is "
        'empty']
    def ended():
        raise osc_ros.InputError('the process of the control loop has ended')

    boxed = Boxed(tmp_path / 'sub')
    boxed.box._pieces = ended
    assert boxed.fire().told == []
    assert boxed.box.text == 'jump: not written: the process of the control loop has ended'
    monkeypatch.setattr(BlackBox, '_write', lambda self, folder, pieces: BagWriter(folder))
    assert 'not written' in Boxed(tmp_path / 'file').fire().told[0]

    def full(self, folder, pieces):
        BagWriter(folder)
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(BlackBox, '_write', full)
    assert 'No space left' in Boxed(tmp_path / 'disk').fire().told[0]
    assert list((tmp_path / 'disk').iterdir()) == []
    monkeypatch.setitem(sys.modules, 'mcap.writer', None)
    assert "pip install '.[record]', in the folder" in Boxed(tmp_path / 'more').box.text


def test_black_box_keeps_a_number_of_files_and_no_others(tmp_path, monkeypatch):
    ended = subprocess.Popen(['true'])
    ended.wait()
    names = [f'left_osc_controller_2026010{k}_120000_{ended.pid}_jump' for k in range(1, 5)]
    others = [f'osc_controller_20260101_120000_{ended.pid}_jump', 'left_osc_controller_x']
    for name in (*names, *others):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(BlackBox, '_write', lambda self, folder, pieces: folder.mkdir())
    Boxed(tmp_path).fire()
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left & set(names)) == 1
    assert names[-1] in left
    assert set(others) <= left
    assert len(left) == 4
    for cause, reaction, most in (('jump', 'report', 2), ('stop', 'deactivate', 2),
                                  ('jump', 'hold', 0)):
        assert Boxed(tmp_path, most).fire(cause, reaction).told == []


def test_black_boxes_of_controllers_of_one_name_leave_each_others_files(tmp_path, monkeypatch):
    def write(self, folder, pieces):
        folder.mkdir()
        (folder / 'file').write_bytes(bytes(1000))

    monkeypatch.setattr(BlackBox, '_write', write)
    running = [tmp_path / f'left_osc_controller_2026010{k}_120000_1_jump' for k in range(1, 5)]
    for folder in running:  # of the process 1, which runs
        write(None, folder, [])
    first, second = Boxed(tmp_path), Boxed(tmp_path, most=3)
    assert 'written to' in first.fire().told[0]
    own = set(tmp_path.iterdir()) - set(running)
    assert 'not written' in second.fire().told[0]  # a file of the same time, process and cause
    assert set(tmp_path.iterdir()) == own | set(running)
    monkeypatch.setattr(black_box, 'MOST_BYTES', 4500.0)
    second.fire('contact')
    assert 'contact: written' in second.told[-1]
    assert set(running) < set(tmp_path.iterdir()) and not own & set(tmp_path.iterdir())
    monkeypatch.setattr(black_box, 'MOST_BYTES', 3500.0)
    second.fire('overspeed')
    assert 'of other controllers' in second.told[-1]
    assert set(tmp_path.iterdir()) == set(running)


def test_cause_that_comes_again_and_again_has_one_file_a_minute(tmp_path, monkeypatch):
    monkeypatch.setattr(BlackBox, '_write', lambda self, folder, pieces: folder.mkdir())
    boxed = Boxed(tmp_path, most=100)
    for _ in range(3):
        for cause in ('jump', 'contact'):
            boxed.fire(cause)
    assert len(boxed.told) == len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(black_box, 'BETWEEN', 0.0)
    boxed.fire('jump')
    assert len(boxed.told) == 3


def readers_of_journal(controller):
    """Return the subscriptions of the journal, also those of programs that have just ended."""
    return {tuple(one.endpoint_gid)
            for one in controller.get_subscriptions_info_by_topic('osc_controller/journal')}


def test_recording_over_ros_is_computed_again(ros, tmp_path):
    # so short that the loop makes checkpoints while it answers states
    nodes = RosArm(ros, rate=500.0, black_box__directory=str(tmp_path / 'box'),
                   black_box__duration=0.4)
    controller = nodes.nodes[1]
    try:
        with osc_ros.Arm.ros(timeout=120.0) as arm:
            before = readers_of_journal(controller)
            recorder = subprocess.Popen(
                [sys.executable, '-m', 'osc_ros.start', 'record', '--output', tmp_path / 'run',
                 '--json'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            until(lambda: readers_of_journal(controller) - before)
            assert 'recording; Ctrl-C ends it' in recorder.stderr.readline()  # messages arrive
            arm.move_to(arm.pose(shift=(0.0, 0.05, 0.0)))
            set_frequency(controller, 30.0)
            arm.move_to(arm.pose(shift=(0.0, -0.05, 0.0)))
            names = list(controller._law.robot.joint_names)
            bad = JointState(name=names, position=[np.nan] * 7, velocity=[0.0] * 7)
            publisher = nodes.nodes[0].create_publisher(JointState, 'joint_states', 10)
            until(lambda: publisher.get_subscription_count() >= 3)  # controller, recorder, client
            ignored, guard = controller._loop.publishers.known.ignored, (
                controller._loop.engine.guard)
            for _ in range(3):  # recorded on the topic, but not in the journal
                publisher.publish(bad)
            until(lambda: ignored[0])
            assert not guard.counts['not_finite']
            nodes.nodes[0]._topics._states.publish(bad)
            until(lambda: guard.counts['not_finite'] and not guard.cause)
            arm.move_to(arm.pose(shift=(0.0, 0.05, 0.0)))
            recorder.send_signal(2)
            told, _ = recorder.communicate(timeout=60.0)
    finally:
        nodes.close()
    assert recorder.returncode == 0
    found = json.loads(told)
    assert found['exact'] is True, found
    assert found['messages']['/joint_states'] > 100
    for topic in ('/osc_controller/journal', '/osc_controller/pose', '/robot_description'):
        assert topic == '/robot_description' or found['messages'][topic] > 0, found
    loaded = loaded_bag(tmp_path / 'run')
    segments = loaded.run_of()
    assert len(segments) > 1 and not any('gaps' in note for note in loaded.notes), loaded.notes
    run = Replay(segments).compute()
    assert run.is_identical, (run.differing, run.commands, run.largest)
    said = [one.text for one in run.events]
    assert any('is nan' in text for text in said), said
    assert any(FREQUENCY in text for text in said), said
    values = segments[0].facts[PARAMETERS]
    softer = Replay(segments, ChangedParameters(values, segments[0].facts['urdf'], changes_of(
        [f'{FREQUENCY}=[5.0, 5.0, 5.0]'], values))).compute()
    assert difference(run, softer).largest.max() > 0.1
    (box,) = files_in(tmp_path / 'box')
    assert Replay(loaded_bag(box).run_of()).compute().is_identical


def test_arm_in_the_process_of_the_loop_has_a_black_box(spin, tmp_path, monkeypatch):
    from arm_rig import Rig
    monkeypatch.setattr(black_box, 'AFTER', 0.3)
    rig = Rig(spin, black_box__directory=str(tmp_path)).activate()
    set_frequency(rig.node, 25.0)
    rig.node._log_change('jump', 'hold', 'jump: as if')
    spin(lambda: files_in(tmp_path), why='for the file')
    (folder,) = files_in(tmp_path)
    run = Replay(loaded_bag(folder).run_of()).compute()
    assert run.is_identical
    assert run.commands > 10  # as many as there are in 0.3 s
    assert any(FREQUENCY in one.text for one in run.events)


SLOW_WRITER = """
import sys, time
from osc_ros.ros.controller.black_box import BlackBox
from osc_ros.ros.controller import black_box
from osc_ros.loop.journal import loaded_piece
from osc_ros.recording import cdr
from osc_ros.recording.bag import Message

def states(pieces, facts):
    k = 0
    while True:  # as slow as on a busy machine
        k += 1
        yield Message('/n/text', cdr.TEXT, k, cdr.text(str(k)))
        time.sleep(0.05)

black_box.journal_messages = lambda pieces, topic, offset: ()
black_box.state_messages = states
box = BlackBox('/n', lambda: [None], {'node': '/n', 'clock offset': 0.0, 'urdf': 'x'}, print)
box.apply({'black_box.directory': sys.argv[1], 'black_box.files': 2})
black_box.AFTER = 0.0
box.on_change('jump', 'hold')
box.update()
time.sleep(1e6)
"""


def test_black_box_whose_process_is_killed_keeps_what_was_written(tmp_path):
    process = subprocess.Popen([sys.executable, '-c', SLOW_WRITER, str(tmp_path)])

    def found():
        return [message.data for file in tmp_path.glob('*/*.mcap') if file.stat().st_size
                for message in BagReader(file).messages()]

    deadline = time.perf_counter() + 60.0
    try:
        while len(list(tmp_path.glob('*/*.mcap'))) == 0 or len(found()) < 10:
            assert process.poll() is None
            assert time.perf_counter() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert [cdr.text(str(k + 1)) for k in range(9)] == found()[1:10]


def test_time_to_record_begins_when_messages_of_the_controller_arrive(ros, capsys, monkeypatch):
    from rclpy.executors import SingleThreadedExecutor

    from osc_ros.tools.record import record_node

    class Recorder(Node):
        looks, failure, has_ended, journal = 0, None, False, 0

        def lacks_journal(self, end):
            return False

        @property
        def has_begun(self):
            self.looks += 1
            return self.looks > 8

    # the other executor needs a standard error with a file descriptor
    monkeypatch.setattr(record_node, 'EventsExecutor', SingleThreadedExecutor)
    node = Recorder('late')
    record_node._spin(node, 0.05, lambda: False)
    node.destroy_node()
    assert node.looks > 8
    assert 'recording for 0.05 s' in capsys.readouterr().out


@pytest.mark.parametrize('arguments', (['--controller', 'two words'], ['--topic', 'a topic']))
def test_names_that_ros_does_not_have_are_refused(arguments, capsys):
    from osc_ros.tools.record import record_node
    with pytest.raises(SystemExit, match='2'):
        record_node.main(arguments)
    assert 'must be letters, digits and _' in capsys.readouterr().err


# osc_record that waits for a controller for 1 s in place of 10 s, and for a long time.
IMPATIENT, PATIENT = (
    f'from osc_ros.tools.record import record_node as record; record.PATIENCE = {time}; '
    'record.main()'
    for time in (1.0, 1000.0))
ALONE = ('--controller', 'nobody', '--duration', '0.5', '--topic', '/none', '--output')


def test_record_without_the_controller_ends_with_one_and_leaves_no_folder(tmp_path):
    done = subprocess.run([sys.executable, '-c', IMPATIENT, *ALONE, tmp_path / 'run'],
                          env={**os.environ, 'ROS_DOMAIN_ID': str(reserved_domain())},
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1, done.stderr
    assert "no node 'nobody' was found" in done.stderr
    assert "topic '/none' is not recorded: nobody publishes it" in done.stdout
    assert 'nothing came in' in done.stdout and 'is not kept' in done.stdout
    assert not any(tmp_path.iterdir())


def test_record_that_hears_an_arm_but_no_controller_ends_with_one_and_leaves_no_folder(
        spin, tmp_path):
    node = Node('other')
    states = node.create_publisher(JointState, 'joint_states', 10)

    def has_come():
        states.publish(JointState(name=['joint_that_is_heard'], position=[0.0]))
        return any(b'joint_that_is_heard' in file.read_bytes()
                   for file in tmp_path.glob('run/*.mcap'))

    with subprocess.Popen([sys.executable, '-c', PATIENT, *ALONE, tmp_path / 'run'],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        spin(lambda: has_come() or process.poll() is not None, node, why='for a recorded state')
        process.send_signal(signal.SIGINT)
        out, said = process.communicate()
    assert process.returncode == 1, said
    assert "no node 'nobody' was found" in said
    assert "topic '/none' is not recorded: nobody publishes it" in out
    assert 'no controller came in' in out and 'is not kept' in out
    assert not any(tmp_path.iterdir())


def test_record_says_once_and_when_the_controller_has_ended_and_started_again(spin, tmp_path):
    node, log = Node('other'), tmp_path / 'log'
    topic = UInt8MultiArray, 'osc_controller/journal', 10
    journal = node.create_publisher(*topic)
    with log.open('w') as out, subprocess.Popen(
            [sys.executable, '-m', 'osc_ros.start', 'record', '--output', tmp_path / 'run'],
            stdout=out) as process:
        try:
            spin(journal.get_subscription_count, node, why='for the subscription')
            node.destroy_publisher(journal)
            spin(lambda: 'has ended' in log.read_text(), why='for the end to be said')
            node.create_publisher(*topic)
            spin(lambda: 'started again' in log.read_text(), why='for the start to be said')
            process.send_signal(signal.SIGINT)
            process.wait(60.0)
        finally:
            process.kill()
    said = log.read_text()
    assert re.search(r'its last message came \d+\.\d s after the beginning; the recording goes on',
                     said)
    assert said.count('has ended') == said.count('started again') == 1


def test_record_whose_file_cannot_grow_says_which_file_and_how_long_and_keeps_it(spin, tmp_path):
    node = Node('other')
    journal = node.create_publisher(UInt8MultiArray, 'osc_controller/journal', 10)
    most = 2 ** 20
    with subprocess.Popen(
            [sys.executable, '-m', 'osc_ros.start', 'record', '--output', tmp_path / 'run'],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        spin(lambda: journal.publish(UInt8MultiArray(data=bytes(20_000)))
             or process.poll() is not None, node, why='for osc_record to end')
        out, said = process.communicate()
    assert process.returncode == 3, said
    file = tmp_path / 'run' / 'run_0.mcap'
    assert (f"ended because '{file}' cannot grow beyond its {file.stat().st_size} bytes (File too "
            'large)') in said
    assert 'Traceback' not in said and 'computes the run again' not in out
    reader = BagReader(tmp_path / 'run')
    assert len(list(reader.messages())) > 20
    assert 'is cut short' in reader.left_out[0]


def test_record_whose_folder_is_removed_says_so(tmp_path):
    with subprocess.Popen(
            [sys.executable, '-m', 'osc_ros.start', 'record', '--output', tmp_path / 'run',
             '--controller', 'nobody'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
        until(lambda: (tmp_path / 'run' / 'run_0.mcap').exists())
        shutil.rmtree(tmp_path / 'run')
        out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3, said
    assert f"'{tmp_path / 'run' / 'run_0.mcap'}' was removed" in said
    assert 'Traceback' not in said and 'no node' not in said and 'computes' not in out


SIMULATED = {**ROBOT, 'rate': 250.0, 'initial_positions': list(map(float, HOME))}


def words_of(parameters):
    """Return the arguments that set parameters of a node."""
    return '--ros-args', *(word for name, value in parameters.items()
                           for word in ('-p', f'{name}:={json.dumps(value)}'))


def test_node_that_is_slower_than_its_reports_answers_and_sends_its_journal(spin, tmp_path):
    processes = Processes(tmp_path)
    processes.start('simulator', *words_of({**SIMULATED, 'lockstep': False}))
    controller = Controller(parameter_overrides=[
        Parameter(name, value=value) for name, value in {
            **ROBOT, 'rate': SIMULATED['rate'], 'state_timeout': 30.0}.items()])
    user, pieces = Node('user'), []
    try:
        spin(lambda: getattr(controller, '_loop', None) is not None and controller._loop.time > 0,
             controller, user, why='for the first state')
        loop, report = controller._loop, controller._loop._handlers['report']

        def slow(*tick):
            report(*tick)
            until(lambda: loop._posted)  # the next one comes first

        loop._handlers['report'] = slow
        user.create_subscription(UInt8MultiArray, 'osc_controller/journal', pieces.append, 10)
        queries = user.create_client(GetParameters, 'osc_controller/get_parameters')
        spin(queries.service_is_ready, why='for the service')
        answer = queries.call_async(GetParameters.Request(names=[FREQUENCY]))
        spin(answer.done, why='for the answer of a slow node')
        spin(lambda: len(pieces) > 2, why='for the journal of a slow node')
        loop._handlers['report'] = report
    finally:
        processes.end()


PART = 300.0  # simulated time of one recording; a run of an hour would not fit into memory [s]


@pytest.mark.timeout(0)
@pytest.mark.slow  # quick: test_recording_over_ros_is_computed_again, test_readers.py
def test_run_with_page_recorder_diagnostics_and_queries_is_computed_again(ros, tmp_path, request):
    seconds = 3600.0 * request.config.getoption('hours')
    processes, failures, ends = Processes(tmp_path), [], Event()
    rng, rate = np.random.default_rng(7), SIMULATED['rate']
    processes.start('simulator', *words_of({
        **SIMULATED, 'lockstep': True, 'paced': True, 'lockstep_timeout': 3600.0}))
    controller = Controller(parameter_overrides=[
        Parameter(name, value=value) for name, value in {
            **ROBOT, 'rate': rate, 'state_timeout': 30.0, 'disturbance.mode': 'observer',
            'black_box.directory': str(tmp_path / 'box')}.items()])
    user = Node('user')
    names = list(controller._parameters)
    queries = user.create_client(GetParameters, 'osc_controller/get_parameters')
    poses = user.create_publisher(PoseStamped, 'osc_controller/target_pose', 10)
    user.create_timer(1.0, lambda: queries.call_async(GetParameters.Request(names=names)))
    nodes = Spun(EventsExecutor(), user, controller)
    page = processes.start('viewer', '--port', free_port())

    def read():
        try:
            while not ends.wait(0.2):
                for what in READERS:
                    if what is not requests.journal_piece:
                        loop.read(what, *arguments_of(what, loop.engine)[1:])
        except Exception as error:
            failures.append(error)

    def move_at_random(length):
        """Set a goal for the tip at random, and sometimes a gain, every 1.5 s for a time [s]."""
        end, due, count = loop.time + length, loop.time, 0
        while loop.time < end:
            until(lambda due=due: loop.time >= due)
            goal = home.copy()
            goal[:3, 3] += rng.uniform(-0.1, 0.1, 3)
            poses.publish(pose_message(goal, ROBOT['base'], stamp(0.0)))
            count, due = count + 1, due + 1.5
            if count % 5 == 0:
                set_frequency(controller, rng.uniform(15.0, 25.0))

    reader = Thread(target=read)
    try:
        until(lambda: getattr(controller, '_loop', None) is not None and controller._loop.time > 0)
        loop = controller._loop
        until(lambda: loop.read(requests.status).mode == 'active')
        home = loop.read(lambda engine: engine.law.target.pose.copy())
        reader.start()
        for part in range(math.ceil(seconds / PART)):
            length = min(PART, seconds - part * PART)
            run = recorded_run(processes, controller, tmp_path / f'run{part}',
                               partial(move_at_random, length))
            print(f'{part * PART + length:.0f} s: {run.commands} torques, {run.differing} '
                  f'differ (by up to {run.largest:g} N m)', flush=True)
            commands, is_identical = run.commands, run.is_identical
            assert is_identical and commands > 0.9 * rate * length
            assert sum(event.text.startswith('follow') for event in run.events) > 0.5 * length
        assert page.poll() is None and reader.is_alive() and not failures
    finally:
        ends.set()
        processes.end()
        nodes.close()


def recorded_run(processes, controller, folder, move):
    """Record while `move` runs; return the replayed run, and remove the recording."""
    before = readers_of_journal(controller)
    recorder = processes.start('record', '--output', folder, '--json', folder.with_suffix('.json'))
    until(lambda: readers_of_journal(controller) - before)
    until(lambda: 'recording; Ctrl-C ends it' in recorder.log.read_text())
    move()
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(timeout=PATIENCE) == 0, recorder.log.read_text()
    assert json.loads(folder.with_suffix('.json').read_text())['exact'] is True, (
        recorder.log.read_text())
    run = Replay(loaded_bag(folder).run_of(), has_terms=False).compute()
    shutil.rmtree(folder)
    return run
