# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A recording cannot run code: what is read back from a checkpoint is data and calls nothing."""

from dataclasses import replace
from importlib import import_module
import io
from multiprocessing import get_context
import os
import pickle
import pickletools
import pkgutil
import resource
import subprocess
import sys

import numpy as np
import pytest

import osc_ros
from osc_ros import control, dynamics, model
from osc_ros.control import checkpoint
from osc_ros.control.checkpoint import Constants, dumped, loaded
from osc_ros.control.journal import loaded_piece, MAGIC, piece_places
from osc_ros.control.posture import Posture
from osc_ros.errors import InputError, OscError
from osc_ros.recording import cdr
from osc_ros.recording.bag import BagWriter
from test_record import robot_of
from test_recording import Recorded

GIGABYTE = 2 ** 30
ROBOT = robot_of('panda')
# made by a call: an engine without state, a clock, and robots, whose constructor checks its values
MADE = {('osc_ros.control.engine', '_bare_engine'), ('osc_ros.control.journal', 'ReplayClock')}


@pytest.fixture(scope='module')
def engine():
    run = Recorded()
    run.run(0.1)
    return run.engine


class Program:
    """An object whose pickle creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f'touch {self.path}',)


def text(content):
    return pickle.SHORT_BINUNICODE + bytes([len(content.encode())]) + content.encode()


def named(module, name):
    return text(module) + text(name) + pickle.STACK_GLOBAL


def with_call(module, name, arguments=pickle.EMPTY_TUPLE):
    """Return all pickles that call something by its name, with a tuple of arguments."""
    head, either = pickle.PROTO + b'\x05', named(module, name)
    line = f'{module}\n{name}\n'.encode()
    yield head + either + arguments + pickle.REDUCE + b'.'
    yield head + either + arguments + pickle.NEWOBJ + b'.'
    yield head + either + arguments + pickle.EMPTY_DICT + pickle.NEWOBJ_EX + b'.'
    yield head + pickle.GLOBAL + line + arguments + pickle.REDUCE + b'.'
    yield head + pickle.MARK + either + pickle.OBJ + b'.'
    yield head + pickle.MARK + pickle.INST + line + b'.'
    # a name as state, and a state for what has a name
    yield head + either + pickle.EMPTY_DICT + text('x') + pickle.NONE + pickle.SETITEM \
        + pickle.BUILD + b'.'
    yield head + either + pickle.NONE + pickle.EMPTY_DICT + text('__call__') + pickle.NONE \
        + pickle.SETITEM + pickle.TUPLE2 + pickle.BUILD + b'.'
    yield head + pickle.EMPTY_LIST + either + pickle.APPEND + arguments + pickle.REDUCE + b'.'


def own_modules():
    for package in (control, dynamics, model):
        for one in pkgutil.walk_packages(package.__path__, f'{package.__name__}.'):
            yield one.name


def assert_only_data(data):
    """Assert that bytes are refused, or describe an object of a class of the control law."""
    try:
        found = loaded(data)
    except InputError:
        return
    assert type(found).__module__.startswith('osc_ros.'), found
    assert not isinstance(found, type)


@pytest.mark.parametrize('module, name', (
    ('os', 'system'), ('posix', 'system'), ('builtins', 'eval'), ('builtins', 'getattr'),
    ('builtins', 'exec'), ('subprocess', 'Popen'), ('operator', 'attrgetter'),
    ('importlib', 'import_module'), ('numpy', 'load'), ('numpy', 'fromfile'),
    ('osc_ros.dynamics.cuda.twins', 'CodeType'), ('osc_ros.dynamics.cuda.twins', 'FunctionType'),
    ('osc_ros.control.checkpoint', 'import_module'), ('osc_ros.control.checkpoint', 'MethodType'),
    ('osc_ros.control.checkpoint', '_Reader'), ('osc_ros.dynamics.compilation', 'subprocess'),
    ('osc_ros.control.law', 'Law.close'), ('time', 'perf_counter')))
def test_nothing_is_called_by_its_name(module, name, tmp_path):
    there = tmp_path / 'there'
    given = text(f'touch {there}') + pickle.TUPLE1
    for data in (*with_call(module, name), *with_call(module, name, given)):
        with pytest.raises(InputError):
            loaded(data)
    assert not there.exists()


def test_no_attribute_of_a_module_of_the_law_is_called():
    for module in own_modules():
        try:
            found = import_module(module)
        except (ImportError, OscError):  # of an optional package
            continue
        for name in vars(found):
            if (module, name) not in MADE:
                for data in with_call(module, name):
                    assert_only_data(data)


def test_every_opcode_that_calls_or_names_something_is_refused():
    known = (*checkpoint._LITERALS, *checkpoint._CONSTANTS, *checkpoint._STEPS)
    for opcode in pickletools.opcodes:
        if opcode.name in ('GLOBAL', 'OBJ', 'INST', 'NEWOBJ_EX', 'PERSID', 'BINPERSID', 'EXT1',
                           'EXT2', 'EXT4', 'NEXT_BUFFER'):
            assert opcode.name not in known
            with pytest.raises(InputError):
                loaded(pickle.PROTO + b'\x05' + opcode.code.encode('latin-1') + bytes(8) + b'.')


def test_pickle_that_runs_a_program_is_refused_everywhere(tmp_path, capsys):
    there = tmp_path / 'there'
    evil = pickle.dumps(Program(there))
    for data in (evil, MAGIC + bytes(40) + evil):
        for read in (loaded, loaded_piece):
            with pytest.raises(InputError):
                read(data)
    writer = BagWriter(tmp_path / 'bag')
    writer.write('/osc_controller/journal', cdr.BYTES, 1, cdr.byte_array(MAGIC + bytes(40) + evil))
    writer.close()
    done = subprocess.run([sys.executable, '-m', 'osc_ros.recording.command', tmp_path / 'bag'],
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert 'accepted are recordings of this version' in done.stderr
    assert 'Traceback' not in done.stderr
    assert not there.exists()


def test_places_of_a_piece_are_six_numbers_before_its_content():
    run = Recorded()
    run.run(0.05)
    for piece in run.pieces():
        data = piece.dumped()
        assert piece_places(data[:44]) == (
            (piece.segment, piece.start, piece.first_call), piece.following)
    for other in (b'', MAGIC, b'\x80\x05' + data, data[:43]):
        with pytest.raises(InputError, match="begin with 'OSC3'"):
            piece_places(other)


def constants(count, data):
    """Return a checkpoint with a list of `count` calls of `constant`, all with the same bytes."""
    out = io.BytesIO()
    out.write(pickle.PROTO + b'\x05' + pickle.EMPTY_LIST + pickle.MARK + pickle.BINBYTES
              + len(data).to_bytes(4, 'little') + data + pickle.MEMOIZE)
    for _ in range(count):
        out.write(named(checkpoint.__name__, 'constant') + pickle.BINGET + b'\x00'
                  + pickle.TUPLE1 + pickle.REDUCE)
    out.write(pickle.APPENDS + b'.')
    return out.getvalue()


def nested_key(depth):
    """Return a checkpoint with a key whose hash takes 2**depth steps."""
    out = pickle.PROTO + b'\x05' + pickle.EMPTY_DICT + pickle.EMPTY_TUPLE + pickle.MEMOIZE
    for k in range(depth):
        out += pickle.BINGET + bytes([k]) + pickle.TUPLE2 + pickle.MEMOIZE
    return out + pickle.NONE + pickle.SETITEM + b'.'


@pytest.mark.parametrize('data', (
    nested_key(100), constants(10_000, dumped(ROBOT)),
    constants(1, constants(1, dumped(ROBOT))), constants(1, dumped([0.0]))),
    ids=('key', 'constants', 'constant in a constant', 'other constant'))
def test_bytes_that_describe_more_than_they_have_are_refused(data):
    with pytest.raises(InputError):
        loaded(data)


def test_what_seldom_changes_is_taken_from_the_checkpoint_before(engine):
    kept = Constants()
    first = dumped(engine, None, kept)
    for again in (dumped(engine, None, kept), dumped(engine, None, Constants())):
        assert again == first
    law = loaded(first).law
    assert dumped((law.settings, law.robot)) == dumped((engine.law.settings, engine.law.robot))
    assert loaded(constants(3, dumped(ROBOT)))[2].name == ROBOT.name
    law = engine.law
    law.change(settings=replace(law.settings, posture=Posture(natural_frequency=0.7)))
    for _ in range(2):
        assert loaded(dumped(engine, None, kept)).law.settings.posture.natural_frequency == 0.7


def test_view_beyond_the_memory_of_an_array_is_refused():
    whole = np.arange(6.0)
    part = whole[2:4]
    data = dumped((whole, part))
    base, view = loaded(data)
    view[:] = -1.0
    assert base.tolist() == [0.0, 1.0, -1.0, -1.0, 4.0, 5.0]
    shape, at = pickle.BININT1 + b'\x02' + pickle.TUPLE1, data.rindex(b'K\x02\x85')
    assert data[at:at + 3] == shape
    for byte in (7, 255):
        with pytest.raises(InputError):
            loaded(data[:at + 1] + bytes([byte]) + data[at + 2:])


def read_mutations(data, count, seed):
    """Read mutated checkpoints in a process that may use 2 GB more, and 60 s for each 1,000."""
    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * GIGABYTE,) * 2)
    seconds = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + 60 + count * 60 // 1000
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(count):
        mutated = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            at, kind = int(rng.integers(len(mutated))), rng.integers(3)
            if kind == 0:
                mutated[at] = rng.integers(256)
            elif kind == 1:
                del mutated[at:at + int(rng.integers(1, 9))]
            else:
                mutated[at:at] = mutated[at - 8:at]
        try:
            loaded(bytes(mutated))
        except InputError:
            refused += 1
    assert refused > count // 10


def assert_mutations_end(data, count, seed):
    process = get_context('fork').Process(target=read_mutations, args=(data, count, seed))
    process.start()
    process.join()
    assert process.exitcode == 0


def test_mutated_checkpoints_are_read_or_refused(engine):
    assert_mutations_end(dumped(engine, None, Constants()), 200, 0)
    assert_mutations_end(dumped(engine.law.settings), 2000, 1)


@pytest.mark.slow
def test_hundred_thousand_mutated_checkpoints_are_read_or_refused(engine):
    assert_mutations_end(dumped(engine, None, Constants()), 10_000, 2)
    assert_mutations_end(dumped(engine.law.settings), 90_000, 3)


def test_version_is_named_in_the_refusal():
    assert osc_ros.InputError is InputError
    with pytest.raises(InputError, match='of this version'):
        loaded(b'nonsense')
