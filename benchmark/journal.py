# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The time that the journal (black box) adds to an update of the engine, and that of a checkpoint.

`python benchmark/journal.py`: two engines of the Panda answer the same states in turns, one of
them with a journal; without ROS.
"""

from __future__ import annotations

import os
from time import perf_counter

os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import numpy as np

from osc_ros import Law, Robot, shipped_urdf
from osc_ros.control.safety.supervision import NOT_FINITE, STALE_STATE, Supervision, Watchdog
from osc_ros.loop.engine import Engine
from osc_ros.loop.journal import Journal

HOME = np.array([0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398])
TICKS, PERIOD = 20_000, 0.002


def engine(robot: Robot, has_journal: bool) -> Engine:
    """Return an active engine."""
    made = Engine(Law(robot), Supervision({
        NOT_FINITE: Watchdog('hold'), STALE_STATE: Watchdog('hold', timeout=30.0)},
        robot.effort_limits, period=PERIOD), PERIOD, lambda *_: None, lambda *_: None)
    if has_journal:
        made.attach_journal(Journal(1e6, 10**9))  # checkpoints are timed on their own
    made.update(0.0, HOME.copy(), np.zeros(7), (0, 0), perf_counter())
    made.activate()
    return made


def update(one: Engine, time: float, q: np.ndarray, qd: np.ndarray) -> float:
    """Return the time of one update [s]."""
    began = perf_counter()
    one.update(time, q, qd, (0, 0), began)
    return perf_counter() - began


def main() -> None:
    """Measure and print."""
    robot = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
    engines = [engine(robot, has_journal) for has_journal in (False, True)]
    times = np.empty((TICKS, 2))
    for k in range(TICKS):
        time = PERIOD * (k + 1)
        q, qd = HOME + 0.05 * np.sin(time), np.full(7, 0.05 * np.cos(time))
        for i in (0, 1) if k % 2 else (1, 0):
            times[k, i] = update(engines[i], time, q.copy(), qd.copy())
    saves = []
    for _ in range(200):
        began = perf_counter()
        state = engines[1].checkpoint()
        saves.append(perf_counter() - began)
    journal = engines[1].journal
    assert journal is not None and not journal.failure
    for name, column in zip(('without', 'with'), 1e6 * times[TICKS // 10:].T):
        print(f'update {name} journal: median {np.median(column):.1f} µs, p99 '
              f'{np.percentile(column, 99):.1f} µs')
    added = np.median(1e6 * np.diff(times[TICKS // 10:], axis=1))
    print(f'added by the journal: median {added:.1f} µs')
    print(f'checkpoint: median {1e6 * np.median(saves):.0f} µs, largest '
          f'{1e6 * max(saves):.0f} µs, {state.size / 1e3:.0f} kB; between two states, twice in '
          'black_box.duration')
    print(f'memory: {journal.size / TICKS:.0f} bytes an update')


if __name__ == '__main__':
    main()
