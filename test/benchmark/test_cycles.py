# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The benchmark of the cycle of osc_arm."""

import json
import math

import numpy as np
import pytest

import cycles
from cycles import BUSY, cell_of, DDS, EMPTY, FRANKA, LATE, MUJOCO, Way
import page


def times_of(due, waits, latencies):
    """Return recorded times [ns] of states that come `waits` after they are due [µs]."""
    read = 1e3 * (due + waits)
    return np.stack([read, read + 1e3 * latencies, read + 1e3 * latencies + 5e3], axis=1
                    ).astype(np.int64)


def test_delays_are_found_again_in_the_recorded_times():
    random, count = np.random.default_rng(0), 5000
    waits, latencies = random.uniform(0.0, 100.0, count), random.uniform(20.0, 80.0, count)
    waits[::1000] = 0.0  # in every second a state is on time
    waits[[7, 4321]] = 700.0, 260.0
    latencies[[7, 99, 4321]] = 50.0, 400.0, 45.0
    times = times_of(1e9 + 1000.0 * np.arange(count), waits, latencies)
    times[2500, 1:] = 0
    cell = cell_of(Way(MUJOCO), times)
    assert (cell.cycles, cell.unanswered) == (count, 1)
    answered = np.delete(latencies, 2500)
    assert cell.p50 == pytest.approx(np.median(answered), abs=0.01)
    assert cell.longest == pytest.approx(400.0, abs=0.01)
    assert cell.slow == 1
    assert cell.late == 4  # 750 µs, 400 µs and more, 305 µs, and the one without a command
    assert cell.latest == pytest.approx(750.0, abs=0.01)
    assert cell.wide == 1  # from the state before the one that waited 700 µs
    assert cell_of(Way(FRANKA), times).late is None


def test_a_clock_that_jumped_counts_from_its_new_beat():
    """A loop that has lost 10 ms goes on with another phase: it is on time in the next second."""
    due = 1e9 + 1000.0 * np.arange(3000) + np.where(np.arange(3000) >= 1500, 10_000.4, 0.0)
    cell = cell_of(Way(MUJOCO), times_of(due, np.zeros(3000), np.full(3000, 50.0)))
    assert cell.late == 500 and cell.wide == 1


def test_every_way_is_measured_where_it_is_possible():
    found = cycles.ways(True, True)
    assert {way.loop for way in found} == {MUJOCO, DDS, FRANKA, EMPTY}
    assert Way(MUJOCO, cycles.PRIORITY, BUSY) in found and len(set(found)) == len(found)
    assert all(way.loop in (MUJOCO, DDS) and not way.priority
               for way in cycles.ways(False, False))


@pytest.mark.slow
@pytest.mark.ros
def test_cycles_are_measured_and_the_columns_agree():
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    found = cycles.section(0.5, [Way(MUJOCO, 0, BUSY)])
    [cell] = found.cells
    assert 250 <= cell.cycles <= 510
    assert 0.0 < cell.p50 <= cell.p99 <= cell.p999 <= cell.longest < math.inf
    assert (cell.longest > LATE) == (cell.slow > 0)
    assert 0 <= cell.late <= cell.cycles and cell.latest >= cell.p50
    lines = page.cycles(found)
    titles = next(line for line in lines if line.startswith('| loop'))
    rows = [line for line in lines if line.startswith('| osc_arm')]
    assert len(rows) == 1 and rows[0].count('|') == titles.count('|')
    json.dumps([cell.__dict__ | {'way': cell.way.__dict__}])


def test_without_rclpy_the_page_of_the_cycles_says_so():
    assert 'not measured' in '\n'.join(page.cycles(None))
