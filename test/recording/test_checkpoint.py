# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A recording cannot run code: what is read back from its bytes is data, and calls nothing."""

from dataclasses import replace
import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from attacked import robot_of
from osc_ros import Driver, Friction, JointDrive, Limits, LookAt, Settings, Stiffness, Task
from osc_ros.collision.link_shapes import LinkShape
from osc_ros.collision.obstacles import Obstacle
from osc_ros.control.compiled_law import Precomputed
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.model_error.contact import Contact
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.setpoint.joining import Drift
from osc_ros.control.setpoint.joint_motion import motion_to_goal
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.settings import Observation
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.errors import InputError
from osc_ros.loop.engine import Engine
from osc_ros.loop.journal import loaded_piece, MAGIC, piece_places
from osc_ros.loop.packing import CLASSES, packed, unpacked
from osc_ros.recording import cdr
from osc_ros.recording.bag import BagWriter
from recorded import Recorded

ROBOT = robot_of('panda')
POSE = np.eye(4)
SETTINGS = replace(
    FreeDrive().applied_to(Settings.of(ROBOT)), friction=Friction(np.ones(7), np.ones(7)),
    driver=Driver(ROBOT, 'gravity'), observation=Observation(), disturbance=Disturbance())
SPRING = Settings(tasks=(Task(gains=Stiffness()), Task(name='eye', kind=LookAt([0.0, 0.0, 1.0]))))
SUPERVISION = Supervision.of(ROBOT, Limits.of(ROBOT), 500.0)
MOTIONS = (PoseGoal(POSE, 2.0), Path([1.0, 2.0, 4.0], np.repeat(POSE[None], 3, axis=0)),
           TwistGoal(np.full(6, 0.1), 3.0), Drift(POSE, np.zeros(6), 1.0),
           Impedance(np.full(6, 100.0), wrench=np.ones(6)), Precomputed(np.ones(7)),
           Contact(np.ones(7)), JointDrive(stiffness=9.0), Obstacle.at('sphere', 0.1, np.ones(3)),
           Clearance((LinkShape('panda_hand', np.ones((2, 3)), 0.1),)),
           motion_to_goal(np.zeros((3, 7)), np.ones(7), np.ones((3, 7))))


@pytest.fixture(scope='module')
def engine():
    run = Recorded()
    run.run(0.1)
    return run.engine


def with_text(text, rest=b''):
    """Return bytes with another description of a value."""
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    return struct.pack('<I', len(text)) + text + rest


class Program:
    """An object whose pickle creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f'touch {self.path}',)


def test_every_class_of_a_recording_comes_back_with_the_same_numbers(engine):
    values = SETTINGS, SPRING, SUPERVISION, ROBOT, MOTIONS, engine.checkpoint()
    data = packed(values)
    assert packed(unpacked(data)) == data
    for name in CLASSES:
        assert f'"{name}": ['.encode() in data, name
    path, again = MOTIONS[1].at_lower_speed(3.0), unpacked(packed(MOTIONS[1].at_lower_speed(3.0)))
    for time in np.linspace(0.0, 14.0, 50):
        assert again.at(time).pose.tobytes() == path.at(time).pose.tobytes()


def test_one_object_is_one_object_again():
    first, second, driver = unpacked(packed((SETTINGS, (ROBOT, SETTINGS), SETTINGS.driver)))
    assert second[1] is first
    assert first.driver is driver
    assert driver.robot is second[0]


def bomb(depth):
    """Return a description whose objects have the one before three times."""
    last = {'Precomputed': [None, None, None]}
    for k in range(depth):
        last = {'tuple': [last, {'Precomputed': [{'again': k}] * 3}]}
    return {'Gains': [last, 1.0, 1.0, 1.0]}


@pytest.mark.parametrize('text', [
    bomb(30), {'tuple': [{'Settings': [{'again': 0}] * 10}]},
    {'Robot': [{'again': 0}] + [None] * 18}], ids=lambda text: '')
def test_objects_that_would_take_forever_to_print_are_refused(text):
    with pytest.raises(InputError, match='of this version'):
        unpacked(with_text(text))


def test_parts_of_different_arms_are_refused(engine):
    found, other = engine.checkpoint(), robot_of('xarm7')
    settings, robot, known = found.law.setups[0]
    for setups in (((settings, robot, known), (Settings.of(other), other, known)),
                   ((Settings.of(other), other, known),),
                   ((replace(settings, driver=Driver(other, 'gravity')), robot, known),),
                   ((replace(settings, tasks=tuple(
                       Task(name=f'{k}') for k in range(33))), robot, known),)):
        law = found.law._replace(setups=setups, guides=((0,),) * len(setups))
        with pytest.raises(InputError, match='give|must be'):
            Engine.restored(found._replace(law=law), None, None)
    for name, wrong in (('q', np.zeros(0)), ('qd', np.zeros(3)), ('effort', np.zeros((7, 1)))):
        with pytest.raises(InputError, match=f'{name} .*shape'):
            Engine.restored(found._replace(values={**found.values, name: wrong}), None, None)
    guard = (other, *found.guard[1:])
    with pytest.raises(InputError, match='give|must be'):
        Engine.restored(found._replace(guard=guard), None, None)


@pytest.mark.parametrize('value', [np.zeros(3, dtype='>f8'), np.zeros(3, dtype=np.float16),
                                   {np.int64(3): 1}, {(1, 2): 3}])
def test_numbers_that_would_come_back_as_others_are_not_written(value):
    with pytest.raises(InputError, match='give|must be|as a key'):
        packed(value)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.recursive(SCALARS | st.binary(), lambda inner: st.lists(inner) | st.lists(inner).map(
    tuple) | st.dictionaries(SCALARS, inner)))
def test_texts_numbers_and_sequences_come_back(value):
    again = unpacked(packed(value))
    assert repr(again) == repr(value)


@pytest.mark.parametrize('kind', ['f8', 'f4', 'i8', 'u4', 'b1'])
@pytest.mark.parametrize('shape', [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_arrays_come_back_and_are_ones_own(kind, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    for given_ in (array, array.T, np.asfortranarray(array)):
        again = unpacked(packed(given_))
        assert (again.dtype, again.shape) == (given_.dtype, given_.shape)
        np.testing.assert_array_equal(again, given_)
        assert again.flags.writeable and again.flags.c_contiguous


@pytest.mark.parametrize('value', [object(), os.system, {1, 2}, Recorded, np.array(['a']),
                                   np.array([object()]), 1j])
def test_other_values_are_not_written(value):
    with pytest.raises(InputError):
        unpacked(packed((value,)))


@pytest.mark.parametrize('text', [
    {'os.system': ['touch x']}, {'system': ['touch x']}, {'Engine': []}, {'eval': ['1']},
    {'Settings': [1, 2]}, {'Path': []}, {'Robot': ['x'] * 19},
    {'PoseGoal': [{'array': ['<f8', 4, 4]}]}, {'Driver': [None, 'gravity']}, {'again': 0},
    {'again': -1}, {'tuple': 5}, {'tuple': [1], 'dict': []}, {}, {'dict': [[[1], 2]]},
    {'dict': [[{'tuple': []}, 2]]}, {'dict': 3}, {'array': ['<f8', -1]}, {'array': ['<f8', 2**62]},
    {'array': ['<f8', 2**40, 2**40]}, {'array': ['|O', 0]}, {'array': ['<U8', 0]},
    {'array': ['>f8', 0]},
    {'array': ['<f8', 1.5]}, {'array': ['<f8', 0, -1]}, {'bytes': 10**12}, {'bytes': -1},
    {'bytes': 'x'}, b'nonsense', b'[' * 10**6, b'{"tuple":[' * 10**5, b'9' * 10**5, b'', b'\xff'],
    ids=lambda text: str(text)[:30])
def test_descriptions_that_are_none_are_refused(text):
    if isinstance(text, bytes):
        text = text[:60] if len(text) <= 60 else text
    for rest in (b'', bytes(64)):
        with pytest.raises(InputError, match='of this version'):
            unpacked(with_text(text, rest))


@pytest.mark.parametrize('name', ['times', 'poses', 'twists', 'accelerations'])
def test_path_whose_arrays_do_not_fit_is_refused(name):
    good = dict(zip(('times', 'poses', 'twists', 'accelerations'), MOTIONS[1].knots))
    for wrong in (good[name][:-1], good[name][None], np.zeros((0, 4, 4))):
        with pytest.raises(InputError):
            Path(**{**good, name: wrong})


def test_pickle_that_runs_a_program_is_refused_everywhere(tmp_path, capsys):
    there = tmp_path / 'there'
    evil = pickle.dumps(Program(there))
    for data in (evil, MAGIC + bytes(40) + evil):
        for read in (unpacked, loaded_piece):
            with pytest.raises(InputError):
                read(data)
    writer = BagWriter(tmp_path / 'bag')
    writer.write('/osc_controller/journal', cdr.BYTES, 1, cdr.byte_array(MAGIC + bytes(40) + evil))
    writer.close()
    done = subprocess.run([sys.executable, '-m', 'osc_ros.start', 'replay', tmp_path / 'bag'],
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert 'give recordings of this version' in done.stderr
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
        with pytest.raises(InputError, match="'OSC6'"):
            piece_places(other)


def assert_mutations_end(data, folder, count, seed):
    (folder / 'checkpoint').write_bytes(data)
    program = pathlib.Path(__file__).parents[1] / 'support' / 'mutated_checkpoints.py'
    subprocess.run([sys.executable, program, folder / 'checkpoint', str(count), str(seed)],
                   check=True, timeout=600 + count // 10)


def test_mutated_checkpoints_are_read_or_refused(engine, tmp_path):
    assert_mutations_end(packed(engine.checkpoint()), tmp_path, 200, 0)
    assert_mutations_end(packed(SETTINGS), tmp_path, 2000, 1)


@pytest.mark.slow
def test_hundred_thousand_mutated_checkpoints_are_read_or_refused(engine, tmp_path):
    assert_mutations_end(packed(engine.checkpoint()), tmp_path, 10_000, 2)
    assert_mutations_end(packed(SETTINGS), tmp_path, 90_000, 3)
