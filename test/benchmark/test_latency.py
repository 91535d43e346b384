# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The latency benchmark over DDS runs, and its figures are plausible."""

import pytest

import latency
from nodes import (
    BUSY,
    BUSY_CONTROLLER,
    Cell,
    CONTROLLER,
    ECHO,
    EVENTS,
    IDLE,
    RELAY,
    Section,
    section,
    SINGLE,
    Way,
    ways,
)
import page

RATE = 250


@pytest.mark.slow  # quick: the tests of the rows and of the page below
@pytest.mark.ros
@pytest.mark.parametrize('node, executor', [
    (CONTROLLER, EVENTS), (ECHO, SINGLE), (RELAY, EVENTS)])
def test_states_are_answered_and_the_columns_agree(node, executor):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    way = Way(node, executor, RATE)
    found = section(0.2, [way])
    assert sum(line.startswith(f'| {way.name} | {executor} |') for line in page.nodes(found)) == 2
    assert [(cell.way, cell.load) for cell in found.cells] == [(way, IDLE), (way, BUSY)]
    for cell in found.cells:
        assert cell.states == 0.2 * RATE
        assert 0.0 < cell.p50 <= cell.p99 <= cell.p999 <= cell.longest
        assert 0 <= cell.unanswered <= cell.missed + 1 <= cell.states
        assert 0 <= cell.late <= cell.states
        assert all(0.0 < share for share in cell.cpu)
        assert len(cell.cpu) == (2 if node == RELAY else 1)


def test_every_way_is_a_row_of_its_own_and_real_time_only_where_it_may_be_had():
    with_it, without = ways(True), ways(False)
    assert len(set(with_it)) == len(with_it) > len(without)
    assert not any(way.priority for way in without)
    for executor in (EVENTS, SINGLE):
        assert {way.rate for way in without if way.node == CONTROLLER
                and way.executor == executor} == {250, 500, 1000}


def verdicts(*, late, missed):
    """Return {arm: verdict}, if of 5000 states `late` got late commands and `missed` got none."""
    cells = [Cell(Way(CONTROLLER, EVENTS, rate), load, 5000, 200.0, 300.0, 400.0, 900.0,
                  missed if load == BUSY else 0, 0, late, [0.3], 50.0)
             for rate in (250, 500, 1000) for load in (IDLE, BUSY)]
    lines = page.nodes(Section(2.0, cells, (0.0, 0.0, 0.0), ['SCHED_FIFO 50']))
    return {line.split(' | ')[0].strip('| '): line.split(' | ')[-1].strip('| ')
            for line in lines if line.startswith(('| Franka', '| UR'))}


def test_verdicts_are_by_the_figures():
    franka = 'Franka, a control loop inside libfranka (FCI)'
    ur = 'UR e-Series, forward_effort_controller'
    assert verdicts(late=3, missed=0)[franka] == '**no**'
    assert 'this is not guaranteed' in verdicts(late=0, missed=0)[franka]
    assert [verdicts(late=9, missed=missed)[ur] for missed in (0, 4, 50)] == [
        'yes', 'yes, seldom late', 'only without other load']


def test_without_rclpy_the_page_says_so():
    assert 'not measured' in '\n'.join(page.nodes(None))


@pytest.mark.ros
@pytest.mark.slow
def test_every_contender_is_compared_with_the_empty_callback_and_every_thread_has_its_work():
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    found = latency.section(1.0, [RATE])
    assert [row.name for row in found.rows] == list(latency.CONTENDERS)
    for row in found.rows:
        assert row.states == RATE
        assert 0.0 < row.p50 <= row.p99 <= row.p999 <= row.longest
        assert row.ratios[0] == pytest.approx(row.p50 / found.rows[0].p50)
    assert {'main', 'control loop'} < {row.name for row in found.threads}
    assert all(row.count > 0 <= row.cpu for row in found.threads)
    lines = page.latency(found)
    assert sum(line.startswith('| osc_controller') for line in lines) == sum(
        node in (CONTROLLER, BUSY_CONTROLLER) for node, *_ in latency.CONTENDERS.values())
    assert sum(line.startswith('| control loop |') for line in lines) == 1


def test_ratios_are_of_the_first_contender():
    first = latency._row('empty', 1000, [{'latencies': [100.0, float('inf')], 'cpu': [0.1]}], None)
    row = latency._row('other', 1000, 2 * [{'latencies': [50.0, float('inf')], 'cpu': [0.2]}],
                       first)
    assert (row.states, row.unanswered, row.longest) == (4, 2, 50.0)
    assert (first.ratios, row.ratios) == ([1.0] * 3, [0.5] * 3)
    assert 'not measured' in '\n'.join(page.latency(None))
