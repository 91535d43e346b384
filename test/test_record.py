# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Records: flat arrays with named slots; and the stages of the step that work on them."""

from types import SimpleNamespace

import numpy as np
import pytest

from attacked import robot_of
from osc_ros import Driver, Friction, Settings, Task
from osc_ros.control import sample
from osc_ros.control.checkpoint import dumped, loaded
from osc_ros.control.disturbance import Compensation, Disturbance
from osc_ros.control.limits import Limits
from osc_ros.control.observer import ExternalForce
from osc_ros.control.record import Slot, Table
from osc_ros.control.settings import Observation
from osc_ros.control.state_gate import State, StateGate
from osc_ros.control.supervision import Supervision
from osc_ros.control.task import Stiffness
from osc_ros.control.unmodelled import Unmodelled
from osc_ros.dynamics.compiled import kernel
from osc_ros.errors import InputError

TABLES = sample.PLAN, sample.STATE, sample.SAMPLE, sample.RESULT
PERIOD = 0.002

PAIR = Table('Pair', Slot('first', ('n',), 'rad', 'positions'), Slot('count', (1,), '', 'a count'),
             Slot('rows', (2, 'n'), '', 'two rows'))
pair_views = PAIR.views


@kernel
def fill(numbers, n):
    """Write 1 into the first slot, 2 into the second one, 3 and 4 into the rows of the third."""
    at = pair_views(numbers, n)
    at.first[:] = 1.0
    at.count[0] = 2.0
    at.rows[0], at.rows[1] = 3.0, 4.0


@pytest.mark.parametrize('n', [1, 3, 7])
def test_kernels_and_python_have_the_same_views_of_a_record(n):
    numbers = PAIR.zeros(n)
    fill(numbers, n)
    np.testing.assert_array_equal(numbers, np.repeat([1.0, 2.0, 3.0, 4.0], [n, 1, n, n]))
    at = PAIR.of(numbers, n)
    at.rows[1, -1] = 5.0
    assert numbers[-1] == 5.0
    assert [view.shape for view in at] == [(n,), (1,), (2, n)]


@pytest.mark.parametrize('table', (*TABLES, *ExternalForce.TABLES, *Compensation.TABLES),
                         ids=lambda table: table.name)
def test_every_slot_has_a_meaning_and_a_line_of_the_page(table):
    assert all(slot.meaning for slot in table.slots)
    assert len(table.page().splitlines()) == 2 + len(table.slots)
    covered = table.of(np.arange(float(table.size(5))), 5)
    np.testing.assert_array_equal(  # no gaps, and no two slots in the same place
        np.concatenate([view.ravel() for view in covered]), np.arange(float(table.size(5))))


def samples(robot, count, seed):
    """Yield random joint states and their arrivals: of a moving arm, with faults of every kind."""
    rng, n = np.random.default_rng(seed), robot.n
    fastest = np.minimum(robot.velocity_limits, 2.0)
    q, time, now, kind = rng.uniform(-1.0, 1.0, n), 5.0, 1.0, 'moves'
    qd = 0.3 * fastest * rng.normal(size=n)
    frozen = q
    for k in range(count):
        if k % 20 == 0:
            kind = rng.choice(['moves', 'freezes', 'stands', 'jumps', 'is wrong', 'is fast'])
            frozen, began = q, time
        time, now = time + PERIOD, now + PERIOD * rng.uniform(0.8, 1.2)
        q = q + PERIOD * qd
        given, speeds = (frozen if kind == 'freezes' else q).copy(), qd.copy()
        if kind == 'jumps':
            given += rng.normal(size=n)
        elif kind == 'is wrong':
            given[rng.integers(n)] = rng.choice([np.nan, np.inf])
        elif kind == 'is fast':
            speeds *= 10.0
        yield State(began if kind == 'stands' else time, given, speeds), now


def gate_of(robot):
    limits = np.asarray(robot.velocity_limits)
    settings = Supervision.of(robot, Limits.of(robot), 1.0 / PERIOD)
    return StateGate(robot, PERIOD, limits, 1.0), settings, limits


@pytest.mark.parametrize('name', ['panda', 'kinova'])
def test_same_state_and_samples_give_the_same_result_to_the_last_bit(name):
    robot = robot_of(name)
    gate, settings, limits = gate_of(robot)
    for state, now in samples(robot, 200, 1):
        gate.accept(state, now, settings, limits)
    kept, runs = [one.copy() for one in gate.records], []
    for _ in range(2):
        for record, before in zip(gate.records, kept):
            record[:] = before
        found = []
        for state, now in samples(robot, 1000, 2):
            found.append((gate.accept(state, now, settings, limits), gate.faults,
                          *(one.tobytes() for one in gate.records)))
        runs.append(found)
    assert runs[0] == runs[1]
    causes = {cause for _, faults, *_ in runs[0] for cause, _ in faults}
    assert causes == {'jump', 'not_finite', 'overspeed'}


def test_record_of_another_length_in_a_checkpoint_is_refused():
    gate, settings, limits = gate_of(robot_of('panda'))
    again = loaded(dumped(gate))
    for state, now in samples(robot_of('panda'), 100, 3):
        assert (again.accept(state, now, settings, limits)
                == gate.accept(state, now, settings, limits))
        assert again.faults == gate.faults
    for k, table in enumerate(TABLES):
        records = list(gate.records)
        records[k] = records[k][:-1].copy()
        gate.records = tuple(records)
        with pytest.raises(InputError, match=f'{table.name}.* accepted are '):
            loaded(dumped(gate))
        gate, *_ = gate_of(robot_of('panda'))


FRICTION = Friction(np.full(7, 0.5), np.full(7, 0.2))
KINDS = {'observer': {'disturbance': Disturbance(free=0.2)},
         'integral': {'disturbance': Disturbance('integral')},
         'friction': {'disturbance': Disturbance(), 'friction': FRICTION},
         'spring': {'disturbance': Disturbance(), 'tasks': (Task(Stiffness()),)},
         'driver': {'disturbance': Disturbance(), 'observation': Observation(
             efforts='measured without driver'), 'driver': Driver(robot_of('panda'), 'gravity')}}


def unmodelled(kind):
    return Unmodelled(robot_of('panda'), Settings.of(robot_of('panda'), **KINDS[kind]))


def ticks_of(one, kind, count, seed):
    """Return estimates and compensations of random states, with faults."""
    rng, found, time, q = np.random.default_rng(seed), [], 5.0 * seed, np.zeros(7)
    for _ in range(count):
        time += rng.choice([PERIOD, 0.0, -PERIOD, 0.5, -0.5], p=[0.98, *[0.005] * 4])
        q, qd, tau, effort, friction = q + PERIOD, *rng.normal(size=(4, 7))
        if rng.random() < 0.1:
            effort[rng.integers(7)] = np.nan
        one.observe(time, q, qd, 10.0 * tau, 10.0 * effort)
        one.advance(time, tau, SimpleNamespace(axes=np.eye(3)), rng.random() < 0.01,
                    qd if one.integrates else None, friction if kind == 'friction' else None)
        found.append((one.external.quality, *(part.tobytes() for part in (
            one.torque, one.external.torque, one.external.wrench, one.external.residual))))
    return found


@pytest.mark.parametrize('kind', KINDS)
def test_estimate_and_compensation_follow_from_their_records_to_the_last_bit(kind):
    one = unmodelled(kind)
    ticks_of(one, kind, 300, 1)
    records = *one.external.records, *one.compensation.records
    before, again = [record.copy() for record in records], loaded(dumped(one))
    first = ticks_of(one, kind, 1000, 2)
    assert any(np.frombuffer(torque).any() for _, torque, *_ in first)
    for record, old in zip(records, before):
        record[:] = old
    assert ticks_of(one, kind, 1000, 2) == first
    assert ticks_of(again, kind, 1000, 2) == first


def test_record_of_an_observer_or_a_compensation_has_the_size_of_its_table():
    one = unmodelled('observer')
    for part in (one.external, one.compensation):
        whole = part.records
        for k, table in enumerate(part.TABLES):
            part.records = *whole[:k], whole[k][:-1].copy(), *whole[k + 1:]
            with pytest.raises(InputError, match=f'{table.name}.* accepted are '):
                loaded(dumped(one))
        part.records = whole
