# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Recordings: a run is computed again to the last bit; bags, also cut short; the black box."""

from dataclasses import replace
from io import BytesIO
import json
import os
import pickle
from time import perf_counter
import tracemalloc

import numpy as np
import pytest

from arm import moved, PERIOD
from capsules import panda_clearance
from osc_ros import InputError, JointDrive
from osc_ros.collision.obstacles import Obstacle
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.setpoint.trajectory import Path
from osc_ros.loop import journal, requests
from osc_ros.loop.cycle import ACTIVE
from osc_ros.loop.journal import CALL, Journal, loaded_piece, RESPOND
from osc_ros.recording import cdr, export
from osc_ros.recording.explanation import difference, explanation_lines, summary
from osc_ros.recording.replay import Replay
from osc_ros.recording.tape import runs_of, Segment, segments_of

pytest.importorskip('mcap', reason='mcap is not installed')
import lz4.frame
from mcap.reader import make_reader
from mcap.writer import MCAP0_MAGIC as MCAP_MAGIC
import zstandard

from osc_ros.recording.bag import BagReader, BagWriter
from osc_ros.recording.recorded_joints import joint_recording, loaded_bag
from planner import Planner
from recorded import Recorded

EFFORT = 1e-12  # rounding of the sum of the terms of a torque [N m]


def story(**given):
    """Return a run with a motion, another gain, a push, a fault and a refused command."""
    run = Recorded(**given)
    run.command(0.05, 0.0, 0.1).run(0.2).tune(30.0).run(0.1)
    run.load = [15.0, 0.0, -20.0]
    run.run(0.1)
    run.load = [0.0] * 3
    with pytest.raises(InputError):
        requests.set_wrench(run.engine, np.ones(6), 'tip')
    run.fault().run(0.05)
    requests.set_delay(run.engine, 1.5)
    return run.command(0.0, 0.05, 0.0).run(0.3)


@pytest.fixture(scope='module')
def recorded():
    """Return a recorded run: friction, compensation, observer, a start in a motion."""
    friction = Friction(np.full(7, 0.5), np.full(7, 0.2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, 'PART', 5000)
        yield story(begins_at=0.12, friction=friction,
                    disturbance=Disturbance())


@pytest.fixture(scope='module')
def runs(recorded):
    """Return its journal, read from bytes."""
    return runs_of(segments_of([loaded_piece(one.dumped()) for one in recorded.pieces()]))


def bag_of(recorded, folder):
    """Write a bag with the journal, the states and the commands; return the folder."""
    bag, pieces = BagWriter(folder), recorded.pieces()
    facts = pieces[0].facts
    for message in (*export.journal_messages(pieces, '/osc_controller/journal', 1e9),
                    *export.state_messages(pieces, facts)):
        bag.write(*message)
    return bag.close()


def test_run_is_computed_again_to_the_last_bit(recorded, runs):
    assert len(runs) == 1
    found = Replay(runs[0]).compute()
    assert found.is_identical
    assert found.largest == 0.0
    sent = iter([tau.tobytes() for tau in recorded.commands])
    assert all(one.torque.tobytes() in sent for one in found.moments)  # in this order
    assert any(one.state.startswith('not_finite') for one in found.moments)
    texts = [one.text for one in found.events]
    for text in ('follow pose', 'settings changed', 'set_wrench', 'not_finite'):
        assert any(text in one for one in texts), texts


def test_refused_command_is_listed_as_refused_with_the_reason(recorded, runs):
    with pytest.raises(InputError) as raised:
        requests.set_wrench(recorded.engine, np.ones(6), 'tip')
    pushes = [one.text for one in Replay(runs[0]).compute().events if 'set_wrench' in one.text]
    assert len(pushes) == 1
    assert pushes[0].startswith('refused: set_wrench')
    assert pushes[0].endswith(f': {raised.value}')


def test_terms_add_up_to_the_torque_and_limits_are_named(runs):
    found = Replay(runs[0]).compute()
    with_law = [one for one in found.moments if one.terms]
    assert 0 < len(with_law) < len(found.moments)  # a watchdog acted for some time
    for one in with_law:
        assert sum(one.terms.values()) == pytest.approx(one.torque, abs=EFFORT)
    assert {'bias', 'posture', 'tip', 'friction', 'limits', 'supervisor'} <= set(
        with_law[0].terms)
    lines = explanation_lines(found, found.at(0.1))
    assert any(line.startswith('friction') for line in lines)
    assert any('not_finite' in line for line in summary(found))


@pytest.mark.parametrize('begins_at', [0.0, 0.7])
def test_motions_of_the_joints_are_computed_again_to_the_last_bit(begins_at):
    run = Recorded(begins_at=begins_at)
    run.engine.use_setup(run.law.new_setup(replace(run.law.settings, joints=JointDrive())),
                         run.engine.guard.settings)
    run.run(0.1)
    requests.move_joints(run.engine, run.engine.q + 0.3, None, None)
    run.run(0.1)
    requests.set_speed_override(run.engine, 20.0)
    run.run(0.1)
    requests.renew_journal(run.engine)  # another segment begins in motion
    planned = run.law.joint_path(*requests.joint_set_point(run.engine), [0.5, 0.9],
                                 run.engine.q + np.array([[0.1], [0.0]]))
    run.run(0.02)
    requests.follow_joints(run.engine, planned)
    run.run(0.1)
    requests.set_speed_override(run.engine, 100.0)
    run.run(0.9)
    run.engine.use_setup(run.law.new_setup(replace(run.law.settings, joints=None)),
                         run.engine.guard.settings)
    run.run(0.2)
    for one in runs_of(segments_of([loaded_piece(one.dumped()) for one in run.pieces()])):
        found = Replay(one).compute()
        assert found.is_identical
        texts = [event.text for event in found.events]
        for name in 'follow_joints', 'set_speed_override':
            assert any(name in text for text in texts), texts


def test_motions_planned_while_states_are_answered_are_computed_again_to_the_last_bit():
    run = Recorded()
    planner = Planner(run.engine, PERIOD, 1)
    run.update = lambda: planner.update(run.plant.time, run.plant.q.copy(), run.plant.qd.copy(),
                                        (0, 0), perf_counter())
    rng = np.random.default_rng(2)
    for k in range(40):
        run.command(*rng.uniform(-0.05, 0.05, 3)).run(rng.uniform(0.0, 0.06))
        if k % 8 == 4:
            run.tune(rng.uniform(10.0, 30.0))
        if k % 5 == 0:
            requests.set_speed_override(run.engine, rng.uniform(30.0, 100.0))
        if k % 7 == 0:  # another segment begins, also while plans are made, or wait for a state
            requests.renew_journal(run.engine)
    assert planner.used > 20
    found = [Replay(one).compute() for one in runs_of(
        segments_of([loaded_piece(one.dumped()) for one in run.pieces()]))]
    assert found and all(one.is_identical for one in found)
    for segment in segments_of(run.pieces()):
        assert Replay([segment]).compute().is_identical


def test_changes_that_wait_are_computed_again_to_the_last_bit():
    run = Recorded(begins_at=0.3)

    def use(**changes):
        run.engine.use_setup(run.law.new_setup(replace(run.law.settings, **changes)),
                             run.engine.guard.settings)

    run.command(0.1, 0.0, 0.0)
    run.tune(4.0).run(0.05)
    use(joints=JointDrive())
    requests.move_joints(run.engine, run.engine.q + 0.3, None, None)
    assert run.law.waits
    requests.renew_journal(run.engine)  # another segment begins while change and goal wait
    run.run(0.8)
    assert not run.law.waits and run.law.joints.is_moving
    use(joints=None)
    run.run(0.01)
    use(joints=JointDrive())
    requests.renew_journal(run.engine)
    use(joints=None)
    run.command(0.0, 0.1, 0.0)
    run.run(1.0)
    found = [Replay(one).compute() for one in runs_of(
        segments_of([loaded_piece(one.dumped()) for one in run.pieces()]))]
    assert found and all(one.is_identical for one in found)
    for segment in segments_of(run.pieces()):  # the state also suffices from each segment on
        assert Replay([segment]).compute().is_identical


@pytest.mark.parametrize('begins_at', [0.0, 0.3])
def test_run_among_moving_obstacles_is_computed_again_to_the_last_bit(begins_at, tmp_path):
    run = Recorded(begins_at=begins_at, clearance=panda_clearance(tmp_path, margin=0.03))

    def ball(x, speed):
        return replace(Obstacle.at('sphere', 0.06, run.tip + [x, 0.0, 0.05]),
                       velocity=[0.0, 0.0, 0.0, speed, 0.0, 0.0])

    requests.set_obstacles(run.engine, {'ball': ball(0.25, 0.0), 'box': Obstacle.at(
        'box', (0.1, 0.1, 0.3), (0.1, 0.5, 0.3))})
    run.command(0.15, 0.0, 0.0)
    for number in range(10):
        run.run(0.05)
        requests.set_obstacles(run.engine, {'ball': ball(0.18, -0.3 + 0.05 * number)})
    assert run.law.limiter.near
    requests.renew_journal(run.engine)  # another segment begins beside the obstacles
    run.run(0.2)
    requests.set_obstacles(run.engine, {'box': None, 'rod': Obstacle.at(
        'capsule', (0.03, 0.2), run.tip + [0.0, 0.15, 0.0])})
    run.run(0.2)
    with pytest.raises(InputError, match='contains the base'):
        requests.set_obstacles(run.engine, {'rod': Obstacle.at('sphere', 1.0, np.zeros(3))}, True)
    requests.set_obstacles(run.engine, {}, True)
    run.run(0.2)
    found = [Replay(one).compute() for one in runs_of(
        segments_of([loaded_piece(one.dumped()) for one in run.pieces()]))]
    assert all(one.is_identical for one in found)
    assert any('set_obstacles' in event.text for one in found for event in one.events)


def test_path_that_waits_before_an_obstacle_is_computed_again_to_the_last_bit(tmp_path):
    run = Recorded(clearance=panda_clearance(tmp_path, margin=0.03))
    requests.set_obstacles(run.engine, {'box': Obstacle.at(
        'box', (0.1, 0.5, 0.5), run.tip + [0.3, 0.0, 0.0])})
    run.run(0.3)
    pose = run.plant.pose(run.robot.tip)
    path = Path(run.plant.time + np.array([0.1, 1.3]), [pose, moved(pose, (0.4, 0.0, 0.0))])
    requests.follow(run.engine, path, 0.0, 'tip')
    run.run(0.9)
    assert 1e-3 < np.linalg.norm(run.law.error[3:]) < 0.01
    requests.renew_journal(run.engine)  # another segment begins while the time is slowed
    run.run(0.4)
    requests.set_obstacles(run.engine, {'box': None})
    run.run(0.5)
    found = [Replay(one).compute() for one in runs_of(
        segments_of([loaded_piece(one.dumped()) for one in run.pieces()]))]
    assert len(found) > 0 and all(one.is_identical for one in found)


def test_limits_that_acted_are_named():
    run = Recorded()
    guard = run.engine.guard
    limits = replace(run.law.settings.limits, effort=0.3 * run.robot.effort_limits)
    run.engine.use_setup(run.law.new_setup(
        replace(run.law.settings, limits=limits)), replace(guard.settings, contact=None))
    run.run(0.4)
    run.load = [0.0, 0.0, -120.0]
    run.run(0.3)
    found = Replay(runs_of(segments_of(run.pieces()))[0]).compute()
    assert found.is_identical
    acted = {limit.partition(' (')[0] for one in found.moments
             for limit in one.limits}
    assert any(limit.startswith('torque of panda_joint') for limit in acted), acted
    still = [one for one in found.moments if one.time < 0.3 and one.terms]
    assert still
    assert not any(one.limits for one in still)


def test_another_bit_of_an_input_is_noticed(runs):
    import copy
    changed = copy.deepcopy(runs[0])
    tape = np.concatenate(changed[0].tape)
    call = next(one for one in changed[0].calls() if one.kind == RESPOND)
    at = int(np.flatnonzero(tape == call.numbers[5])[0])
    # position of the second joint: a bit of that of the first, about the vertical, may vanish
    tape[at] = np.nextafter(tape[at], np.inf)
    changed[0].tape = [tape]
    found = Replay(changed).compute()
    assert not found.is_identical
    assert found.differing > 0


def test_another_setting_changes_the_torques(recorded, runs):
    class Stiffer:
        def setup(self, engine, values):
            settings = engine.law.settings
            task = settings.tasks[0]
            gains = replace(task.gains, natural_frequency=np.full(6, 8.0))
            return engine.law.new_setup(replace(settings, tasks=(
                replace(task, gains=gains),))), engine.guard.settings

    before = Replay(runs[0]).compute()
    after = Replay(runs[0], Stiffer()).compute()
    apart = difference(before, after)
    assert len(after.moments) == len(before.moments)
    assert apart.largest.max() > 1.0
    assert not after.is_identical


def test_with_another_setting_targets_are_planned_where_these_ask_for_it():
    run = Recorded()
    run.run(0.02)
    engine = run.engine

    class Slower:
        def setup(self, engine, values):
            settings = engine.law.settings
            task = settings.tasks[0]
            limits = replace(task.limits, speed=(0.2, 0.02), leash=(1.0, 0.004))
            return engine.law.new_setup(replace(settings, tasks=(
                replace(task, limits=limits),))), engine.guard.settings

    run.command(0.02, 0.0, 0.0)
    for k in range(1, 400):  # the arm does not move
        time = run.plant.time + 0.002 * k
        engine.update(time, run.plant.q.copy(), np.zeros(7), divmod(round(1e9 * time), 10**9),
                      perf_counter())
    [found] = runs_of(segments_of([loaded_piece(one.dumped()) for one in run.pieces()]))
    assert Replay(found).compute().is_identical
    slower = Replay(found, Slower())
    slower.compute()
    assert slower.engine.law.levels['tip'].generator.waits  # for the arm, as its leash says
    assert not engine.law.levels['tip'].generator.waits


def test_state_of_another_version_is_refused(runs, monkeypatch):
    replay = Replay(runs[0])
    del replay.engine.law.limiter.d
    with pytest.raises(InputError, match="this version.*'d'"):
        replay.compute()


def test_every_segment_is_a_beginning_and_old_ones_are_dropped():
    run = Recorded(duration=0.2, most=10**7)
    segments = []
    # until the first segment is dropped, and the newest one has a command
    while len(segments) < 2 or segments[0].number == 0 or not any(map(len, segments[-1].tape)):
        run.run(0.02)
        assert run.engine.journal.failure == ''
        (segments,) = runs_of(segments_of(run.pieces()))
        assert len(segments) < 100
    for k in (0, len(segments) - 1):
        assert Replay(segments[k:], has_terms=False).compute().is_identical


@pytest.mark.slow
def test_size_is_bounded():
    small = Recorded(duration=1e6, most=400_000).run(2.5)
    assert small.pieces()[0].segment > 0
    assert small.engine.journal.size < 600_000
    assert small.engine.journal.failure == ''


def test_missing_piece_ends_a_part_and_the_next_segment_begins_another(recorded):
    requests.renew_journal(recorded.engine)
    recorded.run(0.05)
    pieces = recorded.pieces()
    second = next(k for k, one in enumerate(pieces) if one.segment == 1)
    assert second > 4
    parts = runs_of(segments_of(pieces[:2] + pieces[3:]))
    assert [[one.number for one in part] for part in parts] == [[0], [1]]
    assert all(Replay(part).compute().is_identical for part in parts)
    assert runs_of(segments_of(pieces[1:second])) == []  # without the beginning


def test_piece_has_the_calls_of_its_own_states_and_no_later_ones(recorded):
    called = {}
    for piece in recorded.pieces():
        first = called.setdefault(piece.segment, 0)
        assert piece.first_call == first
        alone = Segment(0, 0, b'', {}, [np.frombuffer(piece.numbers)], [('', ())] * 10 ** 4)
        named = [int(call.numbers[0]) for call in alone.calls() if call.kind == CALL]
        called[piece.segment] += len(piece.calls)
        assert named == list(range(first, called[piece.segment]))
    assert sum(called.values()) > 3


def test_journal_that_fails_ends_and_the_engine_goes_on(monkeypatch):
    def fails(*_):
        raise MemoryError('no memory')

    run = Recorded(duration=0.01)
    monkeypatch.setattr(run.engine, 'checkpoint', fails)
    run.run(0.2)
    assert run.engine.mode == ACTIVE
    assert np.isfinite(run.commands[-1]).all()
    assert 'no memory' in requests.journal_failure(run.engine)
    assert run.pieces() == []


@pytest.mark.parametrize('content', (
    pickle.dumps(os.system), pickle.dumps(getattr), b'nonsense', b'',
    pickle.dumps((1, Journal(1.0, 1).end))))
def test_checkpoint_of_something_else_is_refused(content):
    with pytest.raises(InputError):
        loaded_piece(content)


# bags


def test_bag_opens_with_another_reader_and_has_metadata(recorded, tmp_path):
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory
    import yaml
    folder = bag_of(recorded, tmp_path / 'run')
    about = yaml.safe_load((folder / 'metadata.yaml').read_text())['rosbag2_bagfile_information']
    assert about['relative_file_paths'] == ['run_0.mcap']
    topics = {one['topic_metadata']['name']: one for one in about['topics_with_message_count']}
    found = {}
    with (folder / 'run_0.mcap').open('rb') as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == 'ros2'
        for schema, channel, _, message in reader.iter_decoded_messages():
            assert schema.encoding == 'ros2msg'
            found.setdefault(channel.topic, []).append(message)
    assert {name: len(rows) for name, rows in found.items()} == {
        name: one['message_count'] for name, one in topics.items()}
    names = list(recorded.robot.joint_names)
    last = found['/osc_controller/commands_stamped'][-1]
    assert last.name == names[::-1]
    assert list(last.effort) == recorded.commands[-1][::-1].tolist()
    assert found['/joint_states'][-1].name == names
    assert loaded_bag(folder).run_of()


def test_bag_says_the_same_to_the_reader_of_rosbags(recorded, tmp_path):
    """It shares no code with the readers above: metadata, MCAP, definitions and CDR by its own."""
    reading = pytest.importorskip('rosbags.highlevel', reason='rosbags is not installed')
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory
    folder = bag_of(recorded, tmp_path / 'run')
    with (folder / 'run_0.mcap').open('rb') as stream:
        expected = [(channel.topic, raw.log_time, schema.name, raw.data, message)
                    for schema, channel, raw, message in make_reader(
                        stream, decoder_factories=[DecoderFactory()]).iter_decoded_messages()]
    with reading.AnyReader([folder]) as bag:
        found = [(connection.topic, time, connection.msgtype, bytes(data),
                  bag.deserialize(data, connection.msgtype))
                 for connection, time, data in bag.messages()]
        assert bag.message_count == len(expected) > 100
    found.sort(key=lambda row: row[:2])
    expected.sort(key=lambda row: row[:2])
    for (*same, one), (*row, other) in zip(found, expected, strict=True):
        assert same == row
        if row[0] == '/joint_states':
            assert list(one.name) == list(other.name)
            for part in ('position', 'velocity', 'effort'):
                np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


def test_strings_of_all_lengths_are_aligned(tmp_path):
    from mcap.records import Schema
    from mcap_ros2.decoder import DecoderFactory
    for kind, written in ((cdr.STATES, lambda name: cdr.joint_state(
            (3, 4), [name, 'b'], [1.0, 2.0], (), [5.0, 6.0])),
            (cdr.POSE, lambda name: cdr.stamped_message((3, 4), name, np.arange(7.0)))):
        decode = DecoderFactory().decoder_for('cdr', Schema(
            id=1, name=kind, encoding='ros2msg', data=cdr.DEFINITIONS[kind].encode()))
        for length in range(9):
            found = decode(written('x' * length))
            assert found.header.stamp.nanosec == 4
            if kind == cdr.STATES:
                assert (list(found.position), list(found.effort)) == ([1.0, 2.0], [5.0, 6.0])
            else:
                assert found.header.frame_id == 'x' * length
                assert found.pose.orientation.w == 6.0


def places_in_a_chunk(data):
    """Where the records of a chunk begin, neither the first nor the last one, and its middle."""
    chunks = make_reader(BytesIO(data)).get_summary().chunk_indexes
    assert len(chunks) > 2
    chunk = sorted(chunks, key=lambda chunk: chunk.chunk_start_offset)[len(chunks) // 2]
    start = chunk.chunk_start_offset
    return start + 49 + len(chunk.compression), start + chunk.chunk_length // 2


def test_bag_that_is_cut_short_is_read_and_its_end_is_said(recorded, tmp_path):
    folder = bag_of(recorded, tmp_path / 'run')
    file = folder / 'run_0.mcap'
    whole = file.read_bytes()
    (folder / 'metadata.yaml').unlink()  # as after a kill
    reader = BagReader(folder)
    total = len(list(reader.messages()))
    assert reader.left_out == []
    file.write_bytes(whole[:int(0.75 * len(whole))])
    reader = BagReader(folder)
    count = len(list(reader.messages()))
    assert 0 < count < total
    [said] = reader.left_out
    assert f'it ends after {count} messages' in said
    assert 'mcap recover' in said
    found = loaded_bag(file)
    assert found.notes
    assert Replay(found.run_of()).compute().is_identical
    begin, middle = places_in_a_chunk(whole)
    for place, wrong in ((middle, bytes([whole[middle] ^ 1])), (begin, 300 * b'\xff')):
        file.write_bytes(whole[:place] + wrong + whole[place + len(wrong):])
        reader = BagReader(file)
        assert 0 < len(list(reader.messages())) < total
        [said] = reader.left_out
        assert 'mcap recover' in said
        assert loaded_bag(file).notes
    file.write_bytes(whole[:30])
    with pytest.raises(InputError, match='MCAP'):
        list(BagReader(file).messages())


def chunked(compression, content, declared):
    """Return an MCAP file with a chunk of bytes that declares another size."""
    from mcap.data_stream import RecordBuilder
    from mcap.records import Chunk, Footer, Header
    data = {'zstd': zstandard.compress, 'lz4': lz4.frame.compress, '': bytes}[compression](content)
    builder = RecordBuilder()
    builder.write(MCAP_MAGIC)
    for record in (Header(profile='', library=''), Chunk(
            compression=compression, data=data, message_start_time=0, message_end_time=0,
            uncompressed_crc=0, uncompressed_size=declared),
            Footer(summary_start=0, summary_offset_start=0, summary_crc=0)):
        record.write(builder)
    builder.write(MCAP_MAGIC)
    return builder.end()


@pytest.mark.parametrize('compression', ['zstd', 'lz4'])
def test_chunk_that_is_larger_than_it_declares_is_left_out(compression, tmp_path):
    for content, declared in ((bytes(2 ** 24), 100), (bytes(2 ** 24), 2 ** 23),
                              (bytes(100), 200), (bytes(2 ** 27), 2 ** 27)):
        (tmp_path / 'x.mcap').write_bytes(chunked(compression, content, declared))
        reader = BagReader(tmp_path / 'x.mcap')
        tracemalloc.start()
        with pytest.raises(InputError, match='MCAP'):
            list(reader.messages())
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 2 ** 20 + 2 * min(declared, 2 ** 23)


def test_metadata_with_aliases_and_files_that_are_none_are_not_read(recorded, tmp_path):
    folder = bag_of(recorded, tmp_path / 'run')
    count = len(list(BagReader(folder).messages()))
    lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]'] + [
        f'a{k + 1}: &a{k + 1} [{", ".join(9 * [f"*a{k}"])}]' for k in range(9)]
    for text in ('\n'.join(lines), '[' * 100000, 'x' * 2 ** 21):
        (folder / 'metadata.yaml').write_text(text)
        assert len(list(BagReader(folder).messages())) == count
    (folder / 'metadata.yaml').unlink()
    os.mkfifo(folder / 'metadata.yaml')
    os.mkfifo(folder / 'a.mcap')
    assert len(list(BagReader(folder).messages())) == count
    (folder / 'run_0.mcap').unlink()
    for path in (folder, folder / 'a.mcap'):
        with pytest.raises(InputError, match='mcap'):
            BagReader(path)


def test_what_follows_a_gap_in_the_journal_is_left_out_and_that_is_said(recorded, tmp_path):
    pieces = recorded.pieces()
    assert len(pieces) > 3
    bag = BagWriter(tmp_path / 'run')
    for k, piece in enumerate(pieces):
        if k != 2:
            bag.write('/osc_controller/journal', cdr.BYTES, 10**9 * (k + 1),
                      cdr.byte_array(piece.dumped()))
    found = loaded_bag(bag.close())
    [note] = found.notes
    kept = sum(len(one.pieces) for one in found.run_of())
    assert 'the journal of /osc_controller has gaps' in note
    assert f'left out are {len(pieces) - 1 - kept} of its {len(pieces) - 1} messages' in note
    assert f'of {len(pieces) - 1:.2f} s' in note


def test_wrong_recordings_are_refused_with_what_is_accepted(tmp_path, monkeypatch):
    with pytest.raises(InputError, match='(give|must be).*rosbag2'):
        BagReader(tmp_path / 'none')
    bag = BagWriter(tmp_path / 'states')
    bag.write('/joint_states', cdr.STATES, 1, cdr.joint_state((0, 0), ['a'], [0.0], (), [1.0]))
    bag.close()
    with pytest.raises(InputError, match='no journal'):
        loaded_bag(tmp_path / 'states').run_of()
    with pytest.raises(InputError, match='exists'):
        BagWriter(tmp_path / 'states')
    (tmp_path / 'sqlite').mkdir()
    (tmp_path / 'sqlite' / 'metadata.yaml').write_text(
        'rosbag2_bagfile_information: {storage_identifier: sqlite3}')
    with pytest.raises(InputError, match='(give|must be).*mcap'):
        BagReader(tmp_path / 'sqlite')
    monkeypatch.setitem(__import__('sys').modules, 'mcap.writer', None)
    with pytest.raises(InputError, match=r"pip install '\.\[record\]'"):
        BagWriter(tmp_path / 'more')


def test_identification_reads_joint_states_of_a_bag(tmp_path):
    from osc_ros.identification.fit.joint_recording import Recording
    bag = BagWriter(tmp_path / 'run')
    for k in range(5):
        bag.write('/joint_states', cdr.STATES, k, cdr.joint_state(
            (k, 0), ['a', 'b'], [k, 2.0], [0.0, 0.0], [3.0, k]))
    bag.write('/joint_states', cdr.STATES, 6, cdr.joint_state((6, 0), ['finger'], [0.0]))
    bag.close()
    joints, time, position, effort = joint_recording(tmp_path / 'run')
    found = Recording.load(tmp_path / 'run')
    assert joints == found.joints == ('a', 'b')
    assert found.time.tolist() == time.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert found.position.tolist() == position.tolist()
    assert found.torque.tolist() == effort.tolist()
    assert found.torque[4].tolist() == [3.0, 4.0]


# the command


def replayed(capsys, *arguments):
    """Run osc_replay; return exit status, output and errors."""
    from osc_ros.tools.record.replay_command import main
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    return ended.value.code, *capsys.readouterr()


@pytest.fixture(scope='module')
def bag(recorded, tmp_path_factory):
    return bag_of(recorded, tmp_path_factory.mktemp('bag') / 'run')


def test_command_explains_and_writes(bag, recorded, capsys, tmp_path):
    page, table = tmp_path / 'run.html', tmp_path / 'run.csv'
    status, told, _ = replayed(capsys, bag, '--at', 0.1, '--html', page, '--csv', table)
    assert status == 0
    assert 'identical to the last bit' in told
    assert 'bias' in told
    text = page.read_text()
    assert text.count('data:image/png;base64,') == 3
    assert 'Contact force' in text  # the recorded law has an observer
    assert 'src="http' not in text
    rows = table.read_text().splitlines()
    head = rows[0].split(',')
    column = head.index('torque.panda_joint1')
    assert float(rows[-1].split(',')[column]) == recorded.commands[-1][0]
    status, _, _ = replayed(capsys, bag, '--at', 0.1, '--json', tmp_path / 'run.json')
    assert status == 0
    figures = json.loads((tmp_path / 'run.json').read_text())
    assert figures['identical'] is True
    assert figures['commands'] >= figures['states'] > 100
    assert sum(np.array(row) for row in figures['at'][0]['terms [N m]'].values()) == pytest.approx(
        figures['at'][0]['torque [N m]'], abs=EFFORT)


@pytest.mark.parametrize('arguments, text', (
    (['--at', '99'], 'must be 0 to'), (['--controller', 'other'], 'the recording has'),
    (['--set', 'rate'], 'has no parameters')))
def test_command_refuses_bad_arguments(bag, capsys, arguments, text):
    pytest.importorskip('rclpy')
    status, _, told = replayed(capsys, bag, *arguments)
    assert status == 2
    assert text in told


def test_help_has_an_example(capsys):
    status, told, _ = replayed(capsys, '--help')
    assert status == 0
    assert 'osc_replay run1 --at 3.2' in told
    assert PERIOD > 0.0
