# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Calls that may run beside a tick change no number that a tick uses."""

from dataclasses import replace
import gc
from types import BuiltinFunctionType, FunctionType, ModuleType

import numpy as np
import pytest

from arm import moved, PANDA
from capsules import panda_clearance
from driven import Driven
from osc_ros import JointDrive
from osc_ros.collision.obstacles import Obstacle
from osc_ros.compile.addresses import address_of
from osc_ros.compile.record_type import Record
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.reasons import reasons, warnings_of
from osc_ros.control.settings import with_first_task
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.task import Stiffness, Task
from osc_ros.loop import requests
from readers import arguments_of, READERS

MODES = 'tasks', 'impedance', 'free', 'joints', 'blend'
OTHER = 1e-3  # change of the last state, so that its torque is another one [rad, rad/s]


def engine_in(mode, folder):
    """Return the engine of an arm in motion, with everything that a law may have."""
    run = Driven(
        wall=False, clearance=panda_clearance(folder, margin=0.02),
        friction=Friction(np.full(7, 0.5), np.full(7, 0.2)),
        disturbance=Disturbance())
    law, engine = run.law, run.engine
    settings = replace(
        law.settings, driver=Driver(run.robot, 'gravity+coriolis'),
        tasks=(*law.settings.tasks, Task(name='elbow', link='panda_link4', axes=['motion'] * 3
                                         + ['free'] * 3)))
    if mode == 'free':
        settings = FreeDrive().applied_to(settings)
    if mode == 'impedance':
        settings = with_first_task(settings, gains=Stiffness([30.0] * 3 + [300.0] * 3))
    if mode == 'joints':
        settings = replace(settings, joints=JointDrive())
    engine.use_setup(law.new_setup(settings), engine.guard.settings)
    run.run(1.5)
    assert not law.is_blending
    requests.set_obstacles(engine, {'ball': Obstacle.at('sphere', 0.05, run.tip + [0.1, 0, 0])})
    if mode != 'joints' and mode != 'free':
        requests.follow(engine, requests.PoseGoal(moved(run.plant.pose(PANDA.tip), [0, 0.1, 0])),
                        0.0, 'tip')
    if mode == 'impedance':
        requests.set_impedance(engine, Impedance([30.0] * 3 + [300.0] * 3), 'tip')
    if mode == 'joints':
        requests.move_joints(engine, engine.q + 0.2, None, None)
    run.run(0.2)
    if mode == 'blend':
        engine.use_setup(law.new_setup(with_first_task(law.settings, frame='panda_link4')),
                         engine.guard.settings)
        run.run(0.05)
        assert law.is_blending
    for rows in (law._run.tick_q, law._run.tick_qd, engine.q, engine.qd):
        rows += OTHER
    return engine


def objects_of(root, apart):
    """Return all objects that are reachable from one, but not through those `apart`."""
    found, todo, seen = [], [root], set(map(id, apart))
    while todo:
        one = todo.pop()
        if (id(one) in seen or isinstance(one, (ModuleType, type, BuiltinFunctionType))
                or type(one).__module__.startswith('numba')):
            continue
        seen.add(id(one))
        found.append(one)
        if isinstance(one, np.ndarray):
            todo.append(one.base)
        elif isinstance(one, FunctionType):
            todo += [cell.cell_contents for cell in one.__closure__ or ()]
        else:
            todo += gc.get_referents(one)
    return found


def references(record):
    """Yield the addresses of all records and arrays to which a record refers."""
    for name, slot in record._table.slots.items():
        if isinstance(slot.kind, type) or name == 'other' and not record.replaces:
            continue
        one = getattr(record, name)
        if isinstance(one, Record):
            yield one.address
            yield from references(one)
        elif one.size:
            yield address_of(one)


class Memory:
    """All arrays that are reachable from an engine, and all numbers in attributes of objects."""

    def __init__(self, engine, of_setups):
        """Copy the memory; `of_setups` returns the parts of a setup that no tick uses."""
        self.apart = [one for setup in engine.law._setups() for one in of_setups(setup)]
        self.engine, found = engine, objects_of(engine, self.apart)
        self.arrays = list({(address_of(one), one.nbytes): one for one in found
                            if isinstance(one, np.ndarray) and one.dtype != object
                            and not isinstance(one.base, np.ndarray)}.values())
        spans = [(address_of(one), one.nbytes) for one in self.arrays if one.nbytes]
        for address in references(engine.controller()):  # what a tick uses is among them
            assert any(0 <= address - first < length for first, length in spans)
        self.before, self.values = [one.tobytes() for one in self.arrays], self.present_values()

    def present_values(self):
        return {(id(one), name): value for one in objects_of(self.engine, self.apart)
                if type(one).__module__.startswith('osc_ros') and hasattr(one, '__dict__')
                for name, value in vars(one).items() if type(value) in (int, float, bool, str)}

    def require_unchanged(self, name):
        changed = [one.shape for one, before in zip(self.arrays, self.before)
                   if one.tobytes() != before]
        assert not changed, f'{name} changes arrays of the shapes {changed}'
        values = self.present_values()
        assert {key[1]: (self.values.get(key), value) for key, value in values.items()
                if value != self.values.get(key) and value == value} == {}, name


@pytest.mark.parametrize('mode', MODES)
def test_reading_changes_no_number_that_a_tick_uses(mode, tmp_path):
    engine = engine_in(mode, tmp_path)
    law = engine.law
    for first_call in (True, False):  # the first call may compute and keep constants
        memory = Memory(engine, lambda setup: (setup.beside, setup.command_model.beside))
        for function in READERS:
            function(*arguments_of(function, engine))
            memory.require_unchanged(function.__name__)
        task, figures = law.settings.tasks[0], requests.status(engine).figures
        reasons(law.robot, task, figures, None, searches=not first_call)
        warnings_of(law.robot, task, figures)
        law.require_holding(engine.q)
        law.checked_gravity([0.3, 0.0, -9.7], engine.q, True)
        memory.require_unchanged('reasons or a check')


CHANGES = {
    'gain': lambda law: {'settings': replace(law.settings, blend_time=0.2)},
    'frame': lambda law: {'settings': with_first_task(law.settings, frame='panda_link4')},
    'link': lambda law: {'settings': replace(law.settings, tasks=law.settings.tasks[:1])},
    'payload': lambda law: {'robot': law.robot.with_payload(1.0, [0.0, 0.0, 0.1])},
    'free': lambda law: {'settings': FreeDrive().applied_to(law.settings)},
    'joints': lambda law: {'settings': replace(law.settings, joints=JointDrive())}}


@pytest.mark.parametrize('mode', ['tasks', 'blend'])
def test_preparing_a_change_changes_no_number_that_a_tick_uses(mode, tmp_path):
    engine = engine_in(mode, tmp_path)
    memory = Memory(engine, lambda setup: (setup.command_model.beside,))
    for name, change in CHANGES.items():
        engine.law.new_setup(**change(engine.law))
        memory.require_unchanged(name)
