# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Records with attributes: the same numbers for Python and for kernels."""

import numba
import numpy as np
import pytest

from osc_ros.collision.obstacles import SOLIDS
from osc_ros.compile.compiled import entry, kernel, plain
from osc_ros.compile.record_type import FLOATS, HEADER, INTEGERS, ITSELF, Slot, Table
from osc_ros.control.data import D, LAW_D, LAW_M, M, RUN
from osc_ros.control.limits.near_rows import CLEARANCE
from osc_ros.control.model_error.contact import CONTACT
from osc_ros.control.model_error.disturbance import COMPENSATION
from osc_ros.control.model_error.observer import OBSERVER
from osc_ros.control.safety.answered import ANSWER
from osc_ros.control.setpoint.motion import PLAN, STATE
from osc_ros.control.setpoint.posture import SET_POINT
from osc_ros.loop.velocity import VELOCITY

GIVEN = (Slot('time', (), 's', 'a time'), Slot('is_open', (), '', 'a flag', bool),
         Slot('count', (), '', 'a count', int), Slot('q', ('n',), 'rad', 'positions'),
         Slot('rows', (3, 'n'), '', 'rows'), Slot('matrix', ('n', 'n'), '', 'a matrix'),
         Slot('chosen', ('2n + 1',), '', 'indices', int), Slot('flags', (4,), '', 'flags', bool),
         Slot('last_row', ('n',), '', 'the last one of the rows', row=('rows', 2)))
GATE, OTHER = (Table('Gate', *GIVEN, room=(Slot('room', (7,), '', 'room'),)),
               Table('Gate', *GIVEN[:-2]))


PAIR = Table(
    'Pair', Slot('q', ('n',), 'rad', 'positions'), Slot('gate', (), '', 'a gate', GATE),
    Slot('numbers', (), '', 'numbers elsewhere', FLOATS), Slot('rest', (), '', 'rest', float),
    Slot('indices', (), '', 'integers elsewhere', INTEGERS),
    Slot('other', (), '', 'another pair', ITSELF))


@kernel
def exchange(pair):
    """Add the numbers to the gate's positions, and take the gate of the other pair."""
    gate = pair.gate
    for i in range(len(pair.indices)):
        gate.q[pair.indices[i]] += pair.numbers[i]
    pair.rest = float(len(pair.numbers))
    pair.gate = pair.other.gate
    return pair.gate.count


@kernel
def fill(d, x):
    """Write to each slot; return the first free word of the last array."""
    d.count += 2
    d.is_open = not d.is_open
    d.time = d.time + x
    for i in range(d.n):
        d.q[i], d.rows[1, i], d.matrix[i, d.n - 1 - i] = i, 10.0 * i, x
        d.last_row[i] = -1.0
    d.chosen[-1], d.flags[d.count - 2] = 7, True
    return d.count if d.is_open else -d.count


@pytest.mark.parametrize('n', [1, 3, 7])
def test_kernels_and_python_have_the_same_slots(n):
    d = GATE.new(n=n)
    assert fill(d, 1.5) == 2
    assert (d.time, d.is_open, d.count) == (1.5, True, 2)
    np.testing.assert_array_equal(d.q, np.arange(n))
    np.testing.assert_array_equal(d.rows, [[0] * n, 10.0 * np.arange(n), [-1] * n])
    np.testing.assert_array_equal(d.last_row, -np.ones(n))
    np.testing.assert_array_equal(d.matrix, 1.5 * np.eye(n)[::-1])
    np.testing.assert_array_equal(d.chosen, [*[0] * (2 * n), 7])
    np.testing.assert_array_equal(d.flags, [1, 0, 0, 0])
    d.time, d.is_open, d.count = 4.0, True, -1
    quick = entry(fill, GATE.numba_type, numba.types.float64)
    assert quick(d, 1.0) == -1
    assert quick(d.address, 1.0) == 3  # a record, or its address
    assert (d.time, d.is_open, d.count) == (6.0, True, 3)


@pytest.mark.parametrize('table', [
    M, D, LAW_M, LAW_D, RUN, VELOCITY, OBSERVER, COMPENSATION, CONTACT, SET_POINT, PLAN, STATE,
    CLEARANCE, SOLIDS, ANSWER, GATE], ids=lambda table: table.name)
def test_every_slot_of_a_record_has_a_meaning_and_a_place_of_its_own(table):
    d = table.new(n=5)
    found = []
    for name, slot in table.slots.items():
        assert slot.meaning, name
        assert slot.shape or name not in table.room or not isinstance(slot.kind, type), name
        start, shape = table.shape_of(name, {'n': 5, 'k': 0, 'm': 0})
        if slot.row is None:
            found.extend(range(start, start + int(np.prod(shape))))
        if slot.shape:
            assert np.shape(getattr(d, name)) == tuple(shape)
    assert sorted(found) == [*range(HEADER, len(d.words))]
    assert {name for name, _ in d.items()} == set(table.slots)


def test_record_of_another_table_is_refused():
    fill(GATE.new(n=2), 1.0)
    with pytest.raises(TypeError, match='not a record'):
        entry(fill, GATE.numba_type, numba.types.float64)(OTHER.new(n=2), 1.0)
    words = GATE.new(n=2).words
    for wrong in (OTHER.new(n=2).words, words[:-1], words[:2], words[:0], np.zeros(200)):
        with pytest.raises(ValueError, match='not a record'):
            GATE.of(wrong)


def test_words_of_a_record_make_the_record_again():
    d = GATE.new(n=3)
    fill(d, 2.0)
    again, copied, there = GATE.of(d.words.copy()), d.copy(), GATE.at(d.address)
    assert len(d.words) == HEADER + len(d.slots) + len(d.room)
    d.clear()
    assert not d.slots.any() and d.n == 3 and not there.count
    for one in (again, copied):
        assert (one.time, one.is_open, one.count, one.q[2]) == (2.0, True, 2, 2.0)
    there.time = 8.0
    assert d.time == 8.0


def test_two_slots_of_one_name_are_refused():
    with pytest.raises(ValueError, match='same name: time'):
        Table('Twice', GIVEN[0], GIVEN[1], GIVEN[0])


def test_number_is_not_cut_to_an_integer():
    d = GATE.new(n=1)
    d.count = np.int64(3)
    with pytest.raises(TypeError):
        d.count = 2.5
    assert d.count == 3


@pytest.mark.parametrize('n', [1, 5])
@pytest.mark.parametrize('run', [exchange, plain(exchange)])
def test_slot_may_refer_to_a_record_or_an_array_elsewhere(n, run):
    gates = [GATE.new(n=3), GATE.new(n=2)]
    pair, other = PAIR.new(n=n), PAIR.new(n=n)
    pair.gate, other.gate = gates
    pair.other, pair.numbers, pair.indices = other, np.array([4.0, 5.0]), np.array([2, 0])
    other.gate.count = 9
    length = len(pair.slots)
    assert run(pair) == 9
    assert gates[0].q.tolist() == [5.0, 0.0, 4.0] and pair.rest == 2.0
    assert pair.gate.address == gates[1].address and pair.gate.n == 2
    assert length == n + 1  # references are no state
    assert PAIR.at(pair.address).numbers.tolist() == [4.0, 5.0]


def test_reference_to_something_else_is_refused():
    pair = PAIR.new(n=1)
    for name, wrong in (('gate', PAIR.new(n=1)), ('numbers', np.array([1, 2])),
                        ('indices', np.array([1.0])), ('numbers', np.zeros(4)[::2])):
        with pytest.raises(TypeError, match=name):
            setattr(pair, name, wrong)
    assert pair.gate is None
    with pytest.raises(ValueError, match='words'):
        Table('Own', Slot('words', (), '', 'a name that a record has itself'))
