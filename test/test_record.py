# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Records: flat arrays with named slots; and the first stage of the step that works on them."""

import numpy as np
import pytest

from attacked import robot_of
from osc_ros import Law, Settings
from osc_ros.control import sample, task_reference
from osc_ros.control.checkpoint import dumped, loaded
from osc_ros.control.impedance import Impedance
from osc_ros.control.limits import Limits
from osc_ros.control.record import Slot, Table
from osc_ros.control.state_gate import State, StateGate
from osc_ros.control.supervision import Supervision
from osc_ros.control.task import ForceControl, Stiffness, Task
from osc_ros.dynamics.compiled import kernel
from osc_ros.errors import InputError

TABLES = sample.PLAN, sample.STATE, sample.SAMPLE, sample.RESULT
TASK_TABLES = task_reference.PLAN, task_reference.STATE
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


@pytest.mark.parametrize('table', TABLES + TASK_TABLES, ids=lambda table: table.name)
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
    kept, runs = [one.copy() for one in gate._records], []
    for _ in range(2):
        for record, before in zip(gate._records, kept):
            record[:] = before
        found = []
        for state, now in samples(robot, 1000, 2):
            found.append((gate.accept(state, now, settings, limits), gate.faults,
                          *(one.tobytes() for one in gate._records)))
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
        records = list(gate._records)
        records[k] = records[k][:-1].copy()
        gate._records = tuple(records)
        with pytest.raises(InputError, match=f'{table.name}.* accepted are '):
            loaded(dumped(gate))
        gate, *_ = gate_of(robot_of('panda'))


def pushing_law():
    """Return a law of two tasks with all that the records of tasks have, and its first task."""
    spring = Stiffness([20.0] * 3 + [400.0] * 3, change_time=0.2)
    tip = Task(spring, axes=('motion',) * 5 + ('force',), frame='panda_link6',
               force=ForceControl(gain=0.5, integral_rate=5.0))
    robot = robot_of('panda')
    law = Law(robot, Settings.of(robot, tasks=(tip, Task(name='elbow', link='panda_link4',
                                                         activation=0.5))))
    law.latch(law.posture)
    law.torque(0.0, law.posture, np.zeros(robot.n))
    law.change(Settings.of(robot, tasks=(tip, Task(name='elbow', link='panda_link4')),
                           blend_time=0.3))
    law.torque(0.002, law.posture, np.zeros(robot.n))
    law.set_impedance(Impedance([30.0] * 3 + [600.0] * 3, wrench=[1.0] * 3 + [2.0] * 2 + [0.0]))
    law.push([0.0] * 5 + [10.0])
    return law, law.levels['tip']


def test_same_records_of_tasks_give_the_same_wrench_and_impedance_to_the_last_bit():
    law, tip = pushing_law()
    setup = law._setup
    arrays = setup._plans, setup._states, setup._rows, setup.solver.rows
    kept, runs = [one.copy() for one in arrays], []
    while len(runs) < 2:
        for array, before in zip(arrays, kept):
            array[:] = before
        rng, time, found = np.random.default_rng(4), 0.002, []
        for _ in range(1000):
            time += 0.002 if rng.random() < 0.98 else rng.choice([-0.1, 0.0, 0.3])
            if rng.random() < 0.5:
                tip.set_measured_wrench(rng.normal(size=6), time)
            setup._put_references(2, time)
            setup._put_wrenches(2, time)
            setup.solver.rows[:, :36] = rng.normal(size=(2, 36))
            found.append([one.tobytes() for one in arrays])
        runs.append(found)
    assert runs[0] == runs[1]
    assert tip.wrench[5] == pytest.approx(10.0, rel=1e-3)
    assert (law.levels['elbow'].activation == 1.0).all()
    assert tip.impedance.now[0, 0] == pytest.approx(30.0, rel=1e-2)


def test_record_of_a_task_of_another_length_in_a_checkpoint_is_refused():
    law, tip = pushing_law()
    again = loaded(dumped(tip))
    np.testing.assert_array_equal(again.impedance.wanted, tip.impedance.wanted)
    np.testing.assert_array_equal(again.wanted_wrench, tip.wanted_wrench)
    again.wanted_wrench[:] = 3.25  # a view of the record, not a copy
    assert np.count_nonzero(again._records[0] == 3.25) == 6
    for k, table in enumerate(TASK_TABLES):
        records = list(tip._records)
        records[k] = records[k][:-1].copy()
        tip._records, kept = tuple(records), tip._records
        with pytest.raises(InputError, match=f'{table.name}.* accepted are '):
            loaded(dumped(tip))
        tip._records = kept
