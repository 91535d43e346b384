# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The benchmark of gaps between commands, and of ticks with a new target."""

import json
import math

import pytest

import cycles
import gaps
import latency
import page
import panda
import participants

RATE = 250
POSES = next(one for one in gaps.DISTURBANCES if one.kind == 'poses')


@pytest.mark.slow  # quick: the tests of the rows and of the page below
@pytest.mark.ros
def test_gaps_are_measured_while_targets_arrive_and_the_columns_agree():
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    found = gaps.section(0.3, [gaps.NOTHING, POSES], [RATE], priority=0)
    assert [cell.disturbance for cell in found.cells] == [gaps.NOTHING, POSES]
    plain, disturbed = found.cells
    assert plain.sent == 0 and plain.more == 0.0
    assert 0 < disturbed.sent
    assert disturbed.more == disturbed.longest - plain.longest
    for cell in found.cells:
        assert cell.rate == RATE and cell.states == round(0.3 * RATE)
        assert 0 < cell.commands
        assert 0.0 < cell.p999 <= cell.longest < math.inf
        assert (cell.longest > gaps.WIDE) == (cell.wide > 0)
        assert 0.0 < cell.pause
        assert 0 <= cell.missed < cell.states
        assert 0.0 < cell.p50 <= cell.p99
        assert 0.0 < cell.cpu
    lines = page.gaps(found)
    titles = next(line for line in lines if line.startswith('| arrives'))
    rows = [line for line in lines if line.startswith(('| nothing', '| pose targets'))]
    assert len(rows) == 2 and {row.count('|') for row in rows} == {titles.count('|')}


@pytest.mark.slow  # quick: test_every_disturbance_is_one_that_the_sender_knows
@pytest.mark.ros
def test_gaps_are_measured_while_participants_join():
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    found = participants.section(1.0, list(participants.PROFILES)[:1])
    [row] = found
    assert row.joined > 0 and row.answered > 1
    assert 0.0 < row.own and 0.0 < row.longest < math.inf
    assert (row.longest > participants.LONG) == (row.long > 0)
    assert 0.0 < row.p50 <= row.p99
    *_, titles, _, cells, _ = participants.page(found)
    assert row.profile in cells and titles.count('|') == cells.count('|')
    assert 'not measured' in '\n'.join(participants.page(None))


def test_every_disturbance_is_one_that_the_sender_knows():
    disturb = pytest.importorskip('disturb', reason='rclpy is not installed')
    assert {*(one.kind for one in gaps.DISTURBANCES), cycles.KIND,
            *(kind for uses in latency.USES.values() for kind, _ in uses)} == set(disturb.KINDS)


def test_rows_without_a_disturbance_are_repeated_so_that_the_noise_is_visible():
    assert sum(one == gaps.NOTHING for one in gaps.DISTURBANCES) >= 3


def test_ticks_with_something_new_are_rows_beside_the_plain_tick():
    found = panda.arrivals(4)
    assert found[0].name == panda.PLAIN
    assert len({row.name for row in found}) == len(found)
    for row in found:
        assert 0.0 < row.median <= row.p99 <= row.longest
    judged = [row.residual for row in found if row.residual is not None]
    assert judged and max(judged) < 1e-9  # the new target was used
    lines = page.arrived(found)
    assert sum(line.startswith('| ') for line in lines) == 1 + len(found)
    json.dumps([row.__dict__ for row in found])


def test_without_rclpy_the_page_of_the_gaps_says_so():
    assert 'not measured' in '\n'.join(page.gaps(None))
