"""The tables of parameters: what they accept, and what they say when they do not."""

import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros.errors import InputError  # noqa: E402
from osc_ros.nodes import controller, relay, simulator  # noqa: E402
from osc_ros.nodes.parameters import Entry  # noqa: E402

TABLES = {'controller': controller.PARAMETERS, 'relay': relay.PARAMETERS,
          'simulator': simulator.PARAMETERS}


@pytest.mark.parametrize('table', TABLES.values(), ids=TABLES)
def test_every_default_is_accepted_by_its_own_entry(table):
    for entry in table:
        assert entry.checked(entry.default) == entry.default


@pytest.mark.parametrize('table', TABLES.values(), ids=TABLES)
def test_every_parameter_is_described_and_named_once(table):
    names = [entry.name for entry in table]
    assert len(set(names)) == len(names)
    assert all(entry.description for entry in table)


def test_integers_are_taken_where_numbers_are_meant():
    assert Entry('x', 1.0, '').checked(3) == 3.0
    assert Entry('x', (1.0, 2.0), '', size=2).checked([1, 2.5]) == (1.0, 2.5)


@pytest.mark.parametrize('entry, value, message', [
    (Entry('x', 1.0, '', lower=0.0, upper=2.0), 3.0,
     "parameter 'x' is 3.0: accepted is a number, at least 0, at most 2"),
    (Entry('x', 1.0, ''), 'fast', "'x' is 'fast': accepted is a number"),
    (Entry('x', 1.0, ''), True, "'x' is True: accepted is a number"),
    (Entry('x', 1.0, '', lower=0.0), float('nan'), "'x' is nan"),
    (Entry('x', True, ''), 1, "'x' is 1: accepted is true or false"),
    (Entry('x', 'a', ''), 1, "'x' is 1: accepted is a text"),
    (Entry('x', (1.0,) * 3, '', size=3), [1.0, 2.0], 'accepted is an array of 3, each a number'),
    (Entry('x', (1.0,) * 3, '', size=3), [], 'accepted is an array of 3'),
    (Entry('x', (), '', lower=0.0), [1.0, -1.0], 'array of any number, each a number, at least'),
    (Entry('x', (), '', of=str), [1.0], 'each a text'),
    (Entry('x', (), ''), 1.0, 'accepted is an array'),
])
def test_bad_values_are_refused_by_message(entry, value, message):
    with pytest.raises(InputError, match=message):
        entry.checked(value)
