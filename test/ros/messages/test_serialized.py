# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Serialized joint states and commands, judged by rclpy's own serialization."""

import ctypes
import inspect
import mmap
import signal
import struct
import subprocess
import sys

from hypothesis import example, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402

from osc_ros.compile.compiled import unlocked  # noqa: E402
from osc_ros.errors import InputError  # noqa: E402
from osc_ros.ros.messages import commands, messages, serialized_states  # noqa: E402
from osc_ros.ros.messages.serialized_states import (  # noqa: E402
    IncompleteError,
    JointStateReader,
    MOST_TRAILING,
)
from readers import found  # noqa: E402

texts = st.text(st.characters(blacklist_characters='\0', blacklist_categories=('Cs',)),
                max_size=80)
numbers = st.floats(width=64)
arrays = st.lists(numbers, max_size=12)


@st.composite
def states(draw):
    """Return a message, and the names of some of its joints."""
    names = draw(st.lists(texts, max_size=12))
    message = JointState(name=names)
    message.header.frame_id = draw(texts)
    message.header.stamp.sec = draw(st.integers(-2**31, 2**31 - 1))
    message.header.stamp.nanosec = draw(st.integers(0, 2**32 - 1))
    fields = st.lists(numbers, min_size=len(names), max_size=len(names)) | arrays
    message.position, message.velocity, message.effort = (draw(fields) for _ in range(3))
    return message, draw(st.lists(texts | st.sampled_from(names or ['']), min_size=1, max_size=5,
                                  unique=True))


@pytest.mark.parametrize('behind', [0.0, 0.3, 0.7, 1.0, 1.3, 400.0])  # of a clock [periods]
@pytest.mark.parametrize('lost', ['a', 'b'])
def test_after_a_lost_part_the_parts_are_those_of_one_period_again(lost, behind):
    reader, ages = JointStateReader(('a', 'b')), []
    for k in range(1, 60):
        for name, stamp in (('a', k), ('b', k - behind)):
            if k == 20 and name == lost:
                continue
            state = JointState(name=[name], position=[float(k)], velocity=[0.0])
            state.header.stamp = messages.stamp(10.0 + 0.002 * stamp)
            try:
                ages.append(k - reader.positions(serialize_message(state), lambda joints: joints))
            except IncompleteError:
                pass
    assert len(ages) >= 59 - 1 - 2 * serialized_states.MOST_DROPS  # no rate is halved
    if behind < 0.6:  # else the stamps do not say which parts are of one period
        np.testing.assert_array_equal(ages[-30:], 0.0)
    assert np.max(ages[-30:]) <= 1.0


def judged(message, names):
    """Return (stamp, q, qd, efforts) of a message object; refuses what the reader refuses."""
    at = [message.name.index(name) for name in names if message.name.count(name) == 1]
    fields = [np.array(field) for field in (message.position, message.velocity, message.effort)]
    for k in range(2):
        if (len(at) < len(names) or len(fields[k]) != len(message.name)
                or not np.isfinite(fields[k][at]).all()):
            raise InputError('')
    if len(fields[2]) != len(message.name):
        fields[2] = np.full(len(message.name), np.nan)
    stamp = message.header.stamp
    return (stamp.sec, stamp.nanosec), *(field[at] for field in fields)


def assert_same(one, other):
    assert one[0] == other[0]
    for mine, its in zip(one[1:], other[1:]):
        assert mine.tobytes() == its.tobytes() or (  # NaN has many bit patterns
            np.array_equal(mine, its, equal_nan=True))


def big_endian(message):
    """Return a joint state in big-endian CDR."""
    data = bytearray(b'\x00\x00\x00\x00')

    def put(kind, *values):
        data.extend(bytes((4 - len(data)) % struct.calcsize('>' + kind)))
        data.extend(struct.pack(f'>{len(values)}{kind}', *values))

    def put_text(text):
        put('I', len(text.encode()) + 1)
        data.extend(text.encode() + b'\0')

    put('i', message.header.stamp.sec)
    put('I', message.header.stamp.nanosec)
    put_text(message.header.frame_id)
    put('I', len(message.name))
    for name in message.name:
        put_text(name)
    for field in (message.position, message.velocity, message.effort):
        put('I', len(field))
        if field:
            put('d', *field)
    return bytes(data)


@settings(max_examples=300, deadline=None)
@given(states(), st.sampled_from((serialize_message, big_endian)))
def test_any_joint_state_is_read_as_rclpy_reads_it(state, serialized):
    message, names = state
    data, reader = serialized(message), JointStateReader(names)
    try:
        expected = judged(deserialize_message(data, JointState), names)
    except InputError:
        for _ in range(2):
            with pytest.raises(InputError):
                found(reader, data)
        assert reader.has_joints == (set(names) <= set(message.name))
    else:
        for _ in range(2):  # the second time the names are known
            assert_same(found(reader, data), expected)


def whole(size=7, frame='base', efforts=True):
    """Return a message of joints that are read in the reversed order, and their names."""
    rng = np.random.default_rng(size)
    names = [f'joint_{"x" * (k % 9)}{k}' for k in range(size)]
    message = messages.joint_state(names, 12.000000034, *rng.normal(size=(3, size)))
    message.header.frame_id = frame
    if not efforts:
        message.effort = []
    return message, names[::-1]


@pytest.mark.parametrize('size', [1, 7, 1000])
@pytest.mark.parametrize('length', [0, 4, 5000])
def test_states_of_any_size_are_read(size, length):
    message, names = whole(size, 'f' * length)
    for serialized in (serialize_message, big_endian):
        reader = JointStateReader(names)
        assert_same(found(reader, serialized(message)), judged(message, names))
        assert reader.time == pytest.approx(12.000000034, abs=1e-12)


def test_names_are_parsed_only_if_they_differ(monkeypatch):
    message, names = whole()
    reader, parsed = JointStateReader(names), []
    monkeypatch.setattr(reader, '_learn_names', lambda data, parts, learn=reader._learn_names: (
        parsed.append(data), learn(data, parts)))
    data = bytearray(serialize_message(message))
    expected = found(reader, bytes(data))
    end = data.index(b'joint_x1') + len('joint_x1') + 1
    assert end % 4  # bytes between strings have any values
    data[end] = 0x5a
    assert_same(found(reader, bytes(data)), expected)
    assert len(parsed) == 1
    for other in (message.name[::-1], ['', *message.name], [*message.name[:-1], 'joint_other']):
        message.name = other
        for field in ('position', 'velocity'):
            setattr(message, field, list(range(len(other))))
        if names[0] in other:
            np.testing.assert_array_equal(found(reader, serialize_message(message))[1],
                                          [other.index(name) for name in names])
        else:
            with pytest.raises(InputError, match=f"'{names[0]}'"):
                found(reader, serialize_message(message))
    assert len(parsed) == 4


def test_arrays_that_were_returned_stay_as_they_are():
    message, names = whole()
    reader = JointStateReader(names)
    before = found(reader, serialize_message(message))
    kept = [array.copy() for array in before[1:]]
    message.position = message.velocity = message.effort = [0.0] * len(names)
    found(reader, serialize_message(message))
    for array, copy in zip(before[1:], kept):
        np.testing.assert_array_equal(array, copy)


def test_bytes_that_are_cut_short_or_too_long_are_refused():
    message, names = whole()
    reader = JointStateReader(names)
    data = exact(message)
    expected = found(reader, data)
    for size in range(len(data)):
        with pytest.raises(InputError, match=f'joint_states: .*{size} bytes'):
            found(reader, data[:size])
        assert not reader.has_joints
    for size in range(MOST_TRAILING + 1):
        assert_same(found(reader, data + b'\xff' * size), expected)
    for size in (MOST_TRAILING + 1, 1000):
        with pytest.raises(InputError, match='12 bytes'):
            found(reader, data + bytes(size))


def test_padding_that_the_options_tell_is_no_part_of_a_state():
    message, names = whole()
    reader, data = JointStateReader(names), exact(message)
    expected = found(reader, data)
    padded = data[:2] + b'\x00\x01' + data[4:]
    assert len(data) % 4 == 0
    with pytest.raises(InputError, match='cut'):  # as Fast CDR 2.3 refuses it
        found(reader, padded)
    assert_same(found(reader, padded + bytes(4)), expected)


@settings(max_examples=100, deadline=None)
@given(states())
@example(whole())
def test_serialization_of_rclpy_leaves_no_more_bytes_than_are_accepted(state):
    message, _ = state
    assert 0 <= len(serialize_message(message)) - len(exact(message)) <= MOST_TRAILING


def exact(message):
    """Return a joint state in little-endian CDR without bytes after its last field."""
    return serialize_message(message)[:len(big_endian(message))]


def test_encapsulation_that_cannot_be_read_is_refused():
    message, names = whole()
    reader, data = JointStateReader(names), exact(message)
    for head in (b'\x00\x07', b'\x01\x01', b'\xff\xff'):
        with pytest.raises(InputError, match=f'encapsulation {head.hex()}'):
            found(reader, head + data[2:])


class Mutations:
    """Changes messages: overwrites, cuts off, appends, moves and repeats bytes at random."""

    KINDS = (0.5, 0.15, 0.05, 0.1, 0.1, 0.1)
    WORDS = (0, 1, 2, 3, 7, 8, 0xff, 0x7fff, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff)

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self._sources = [exact(message) for message, _ in (
            whole(), whole(7, ''), whole(3, 'frame'), whole(7, efforts=False))]

    def next(self):
        rng = self._rng
        data = bytearray(self._sources[rng.integers(len(self._sources))])
        for _ in range(rng.choice((1, 2, 3), p=(0.6, 0.3, 0.1))):
            at, kind = int(rng.integers(len(data) + 1)), rng.choice(6, p=self.KINDS)
            if kind == 0:
                data[at:at + 1] = bytes([rng.integers(256)])
            elif kind == 1:
                at -= at % 4
                data[at:at + 4] = struct.pack('<I', self.WORDS[rng.integers(len(self.WORDS))])
            elif kind == 2:
                del data[at:]
            elif kind == 3:
                data += rng.bytes(rng.integers(1, 40))
            elif kind == 4:
                del data[at:at + rng.integers(1, 13)]
            else:
                data[at:at] = data[at:at + rng.integers(1, 65)]
        return bytes(data)


class Fence:
    """Memory before a page that cannot be read: a read beyond the end ends the process."""

    SIZE = 2 * mmap.PAGESIZE

    def __init__(self):
        self._map = mmap.mmap(-1, self.SIZE + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        assert ctypes.CDLL(None, use_errno=True).mprotect(
            ctypes.c_void_p(start + self.SIZE), mmap.PAGESIZE, 0) == 0

    def at_the_end(self, data):
        self._map[self.SIZE - len(data):self.SIZE] = data
        return memoryview(self._map)[self.SIZE - len(data):self.SIZE].toreadonly()


def test_a_read_beyond_the_fence_would_end_the_process():
    program = f"""import ctypes, mmap
{inspect.getsource(Fence)}
fence = Fence()
start = ctypes.addressof(ctypes.c_char.from_buffer(fence._map))
ctypes.string_at(start + Fence.SIZE - 3, {{}})"""
    for count, status in (3, 0), (4, -signal.SIGSEGV):
        done = subprocess.run([sys.executable, '-c', program.format(count)], timeout=60)
        assert done.returncode == status


def read_mutations(count, seed):
    """Compare the results for mutations with rclpy's; count what was read."""
    _, names = whole()
    reader, mutations, fence, accepted = JointStateReader(names), Mutations(seed), Fence(), 0
    with unlocked():  # the fence is a view of memory, messages are bytes
        found(reader, fence.at_the_end(exact(whole()[0])))
    for _ in range(count):
        data = mutations.next()
        fenced = fence.at_the_end(data)
        try:
            mine = found(reader, fenced)
        except InputError as error:
            assert str(error).startswith('joint_states')
            continue
        accepted += 1
        assert_same(mine, judged(deserialize_message(data, JointState), names))
    return accepted


def test_mutated_messages_are_read_as_rclpy_reads_them_or_refused(capfd):
    assert 1000 < read_mutations(10_000, 0) < 9000


@pytest.mark.slow
def test_a_million_mutated_messages_are_read_as_rclpy_reads_them_or_refused(capfd):
    assert 100_000 < read_mutations(1_000_000, 1) < 900_000


@settings(max_examples=200, deadline=None)
@given(arrays, st.lists(texts, min_size=1, max_size=3))
def test_any_command_is_read_by_rclpy(values, labels):
    command = commands.Command(len(values))
    for label in labels:
        message = deserialize_message(command.fill(np.array(values), label), Float64MultiArray)
        assert np.array(message.data).tobytes() == np.array(values).tobytes() or np.array_equal(
            message.data, values, equal_nan=True)
        [dimension] = message.layout.dim
        assert (dimension.label, dimension.size, dimension.stride) == (
            label, len(values), len(values))
        assert message.layout.data_offset == 0


@pytest.mark.parametrize('sec, nanosec', [(0, 0), (1, 2), (12345678, 999999999),
                                          (-3, 5), (2**31 - 1, 2**32 - 1)])
def test_command_has_the_label_of_its_state(sec, nanosec):
    command = commands.Command(7)
    for label in (messages.stamp_label((sec, nanosec)), commands.HOLD_LABEL):
        message = deserialize_message(command.fill(np.arange(7.0), label), Float64MultiArray)
        assert commands.label(message) == label
        assert message == deserialize_message(serialize_message(message), Float64MultiArray)


@pytest.mark.parametrize('names', [
    ('a',), ('a', '', 'zürich'), tuple(f'joint_{i}' for i in range(7)),
    ('long' * 99, 'b')], ids=len)
def test_stamped_command_is_what_rclpy_reads(names):
    rng = np.random.default_rng(3)
    command = commands.StampedCommand(names)
    for answered, time in (((-1, 0), 5.0), ((2**31 - 1, 999999999), 5.0), (None, 12.25),
                           (None, -3.0), ((7, 8), 0.0)):
        q, qd, tau = rng.normal(size=(3, len(names)))
        tau[0] = np.nan if answered is None else tau[0]
        message = deserialize_message(command.fill(tau, answered, time, q, qd), JointState)
        assert tuple(message.name) == names
        np.testing.assert_array_equal(message.effort, tau)
        np.testing.assert_array_equal(message.position, [] if answered is None else q)
        np.testing.assert_array_equal(message.velocity, [] if answered is None else qd)
        assert message.header.frame_id == ('' if answered else commands.HOLD_LABEL)
        wanted = answered or divmod(round(1e9 * max(0.0, time)), 10**9)
        assert (message.header.stamp.sec, message.header.stamp.nanosec) == wanted


def test_commands_that_were_returned_stay_as_they_are():
    command = commands.Command(2)
    first = command.fill(np.ones(2), 'hold')
    second = command.fill(np.zeros(2), 'gold')
    assert (b'hold' in first, b'gold' in second, len(first)) == (True, True, len(second))


def test_topic_is_named_in_refusals():
    reader = JointStateReader(('a',), 'target_posture')
    with pytest.raises(InputError, match='target_posture: .* 0 bytes'):
        found(reader, b'')
    with pytest.raises(serialized_states.UnrelatedError, match="target_posture .*'a'"):
        found(reader, serialize_message(JointState(name=['b'])))
