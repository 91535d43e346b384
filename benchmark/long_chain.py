# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One long chain by a sweep, in vector lanes, and by processes in lanes; on a busy machine too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
import subprocess
import sys
from time import perf_counter

import numpy as np

import chains
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.chain.sweep import Sweep
from race import difference, State
import teams

LENGTHS = (512, 1024, 4096, 16384)
BUSY = 4096  # joints of the chain that is measured beside a busy process too
BLOCK = 0.05  # duration of the calls of one contender before the next one's turn [s]
SWEEP, IN_LANES, BY_TEAM = 'one sweep', 'in lanes', 'processes in lanes'


@dataclass(frozen=True)
class LongChain:
    """
    Times of the law on a chain of n joints [µs].

    Attributes
    ----------
    busy : int
        Number of other processes that computed at the same time.
    name : str
        SWEEP, IN_LANES or BY_TEAM.
    processes : int
    median, mean : float
        Of all calls [µs]; the mean counts the delays by other processes too.
    residual : float
        Largest difference of the torque from that of the sweep, relative to the largest torque.

    """

    n: int
    busy: int
    name: str
    processes: int
    median: float
    mean: float
    residual: float


def section(seconds: float = 1.0) -> list[LongChain]:
    """Return the rows of all lengths: each contender is timed for `seconds`, in turns."""
    workers = teams.sizes()[-1:]
    found = []
    for n in LENGTHS:
        found += _rows(n, workers, 0, seconds)
    with _busy_process():
        found += _rows(BUSY, workers, 1, 4 * seconds)
    return found


@contextmanager
def _busy_process() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, '-c', 'while True: pass'])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _rows(n: int, workers: list[int], busy: int, seconds: float) -> list[LongChain]:
    robot = Robot.from_urdf(chains.urdf(n), 'link_0', f'link_{n}')
    rng = np.random.default_rng(n)
    q, qd, u = rng.uniform(-chains.SPREAD, chains.SPREAD, n), rng.normal(size=n) / n, np.arange(6.)
    state = State(q, qd, u, qd, u)
    sweep, expected, out = Sweep(robot), np.empty(n), np.empty(n)
    sweep.torque(q, qd, u, None, None, expected)
    spaces = {(IN_LANES, 1): OperationalSpace(robot)}
    spaces |= {(BY_TEAM, count): OperationalSpace(robot, workers=count) for count in workers}
    calls = {(SWEEP, 1): lambda state: sweep.torque(state.q, state.qd, state.u, None, None, out)}
    calls |= {key: partial(chains._law, space, out) for key, space in spaces.items()}
    residuals, times = {}, {key: [] for key in calls}
    try:
        for key, call in calls.items():
            call(state)
            residuals[key] = difference(out, expected)
        for _ in range(max(2, round(seconds / BLOCK))):
            for key, call in calls.items():
                times[key] += _block(partial(call, state))
    finally:
        for space in spaces.values():
            space.close()
    return [LongChain(n, busy, *key, 1e6 * float(np.median(found)), 1e6 * float(np.mean(found)),
                      residuals[key]) for key, found in times.items()]


def _block(call) -> list[float]:
    """Return the durations of consecutive calls [s], without the first, which wakes workers."""
    found: list[float] = []
    call()
    until = perf_counter() + BLOCK
    while (began := perf_counter()) < until:
        call()
        found.append(perf_counter() - began)
    return found
