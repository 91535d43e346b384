# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Times of teams of processes on chains of 64 to 65,536 joints, and a model of these times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
import math
import os
from pathlib import Path

from matplotlib.figure import Figure
import numpy as np
from numpy.typing import NDArray

import chains
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.contract.plan import Workers
from osc_ros.dynamics.teams import planning
from osc_ros.dynamics.teams.costs import measured_costs
from race import Contender, difference, race, State

LENGTHS = tuple(2 ** k for k in range(6, 17))
PREDICTED = tuple(2 ** k for k in range(11))
AWAKE = 0.05  # s: longer than the turns of the others, so that no worker sleeps
FITTED = 4096  # joints: for longer chains the CPU caches affect the time too


@dataclass(frozen=True)
class Team:
    """
    Median times [µs] of one process and of a team, in turns, on a chain of n joints.

    Attributes
    ----------
    woken : float
        Median of a team whose workers sleep between calls.
    residual : float
        Difference of the torque from that of one process.
    bodies : int
        Number of bodies in the base segment, the longest one.

    """

    n: int
    workers: int
    alone: float
    median: float
    p99: float
    woken: float
    residual: float
    bodies: int

    @property
    def speed_up(self) -> float:
        """Time of one process divided by that of the team."""
        return self.alone / self.median

    @property
    def eliminations(self) -> int:
        """Number of joints eliminated one after another, including the joints between segments."""
        return self.bodies + math.ceil(math.log2(self.workers))


@dataclass(frozen=True)
class Exchange:
    """Time of a team's call minus that of one process [µs], while no worker sleeps."""

    workers: int
    median: float
    p99: float


@dataclass(frozen=True)
class Model:
    """
    The time of a call, T = call + link n₀ + (P > 1)(apart n₀ + exchange ⌈log₂ P⌉ + scan P).

    n is the number of joints, P the number of processes; times are in µs. The base segment has
    n₀ = n r/(r + P - 1) bodies. `ratio` r is the cost of a body in another segment, relative to
    one in the base segment; `link` is the cost of a body in one sweep by one process; `apart` is
    the additional cost of a body if a team computes in phases; `exchange` is the cost of one
    synchronization; `scan` is the cost of reading the motion of one other member.

    """

    call: float
    link: float
    ratio: float
    apart: float
    exchange: float
    scan: float

    def time(self, n: float, workers: int) -> float:
        """Return the time of a call [µs]."""
        first = n * self.ratio / (self.ratio + workers - 1)
        more = 0.0
        if workers > 1:
            more = (self.apart * first + self.exchange * math.ceil(math.log2(workers))
                    + self.scan * workers)
        return self.call + self.link * first + more

    def crossover(self, workers: int) -> float:
        """Return the number of joints from which on the workers are faster than one process."""
        n = np.arange(workers, 10 ** 5)
        faster = [count for count in n if self.time(count, workers) < self.time(count, 1)]
        return faster[0] if faster else math.inf


def sizes() -> list[int]:
    """Return the numbers of workers to measure: 2, 4, 8, … and one for each core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    return sorted({2 ** k for k in range(1, cores.bit_length()) if 2 ** k <= cores}
                  | {cores} - {1})


def exchanges(seconds: float) -> list[Exchange]:
    """Return the additional time of a call by a team, measured on very short chains."""
    found = []
    for workers in sizes():
        n = max(8, workers)
        robot = Robot.from_urdf(chains.urdf(n), 'link_0', f'link_{n}')
        alone, one, several = OperationalSpace(robot), np.empty(n), np.empty(n)
        with OperationalSpace(robot, workers=Workers(workers, AWAKE)) as team:
            serial, row = race([Contender('alone', partial(chains._law, alone, one)),
                                Contender('team', partial(chains._law, team, several))],
                               chains.states(alone, 4), seconds)
        found.append(Exchange(workers, row.median - serial.median, row.p99 - serial.median))
    return found


@contextmanager
def _without_lanes() -> Iterator[None]:
    """Within this context, no chain is long enough for vector lanes."""
    least, planning.LEAST_IN_LANES = planning.LEAST_IN_LANES, math.inf
    try:
        yield
    finally:
        planning.LEAST_IN_LANES = least


@_without_lanes()
def teams(seconds: float) -> tuple[list[Team], Model]:
    """Return a row for every length and number of workers, and the model fitted to them."""
    found = []
    for n in LENGTHS:
        robot = Robot.from_urdf(chains.urdf(n), 'link_0', f'link_{n}')
        alone = OperationalSpace(robot)
        sample = chains.states(alone, 4) if n <= 1024 else _states(n)
        found += [_row(robot, alone, sample, workers, seconds) for workers in sizes()]
    return found, fitted(found, measured_costs(robot))


def _states(n: int):
    """Return random states without a check of the conditioning of the tip."""
    rng = np.random.default_rng(n)
    return [State(rng.uniform(-chains.SPREAD, chains.SPREAD, n), rng.normal(size=n) / n,
                  u, rng.normal(size=n), u) for u in rng.normal(size=(4, 6))]


def _row(robot: Robot, alone: OperationalSpace, sample, workers: int, seconds: float) -> Team:
    one, several = np.empty(robot.n), np.empty(robot.n)
    call = partial(chains._law, alone, one)
    with OperationalSpace(robot, workers=Workers(workers, AWAKE)) as team, \
            OperationalSpace(robot, workers=Workers(workers, 0.0)) as sleeper:
        calls = {name: partial(chains._law, space, several)
                 for name, space in (('team', team), ('woken', sleeper))}
        rows = {row.name: row for name, other in calls.items() for row in race(
            [Contender('alone', call), Contender(
                name, other, lambda s, other=other: difference(other(s), call(s)))],
            sample, seconds)}
        bodies = int(team.plan.bodies[0])
    return Team(robot.n, workers, rows['alone'].median, rows['team'].median, rows['team'].p99,
                rows['woken'].median, rows['team'].residual, bodies)


def fitted(rows: Sequence[Team], costs) -> Model:
    """Return the model: `ratio` is measured, `scan` assumed, the others are fitted to `rows`."""
    ratio = float(costs.segment[0] / costs.base[0])
    rows = [row for row in rows if row.n <= FITTED]
    n, alone = np.array([(row.n, row.alone) for row in rows]).T
    call, link = _least_squares(np.stack([np.ones_like(n), n], axis=1), alone)
    scan = 0.03  # assumed: about the cost of a body in phase 1 (pose, velocity, acceleration)
    left, columns = [], []
    for row in rows:
        first = row.n * ratio / (ratio + row.workers - 1)
        left.append(row.median - call - link * first - scan * row.workers)
        columns.append([first, math.ceil(math.log2(row.workers))])
    weights = 1.0 / np.array([row.median for row in rows])
    apart, exchange = np.linalg.lstsq(
        np.array(columns) * weights[:, None], np.array(left) * weights, rcond=None)[0]
    return Model(float(call), float(link), ratio, float(apart), float(exchange), scan)


def _least_squares(a: NDArray, b: NDArray) -> NDArray:
    """Return the solution with the least sum of squared relative errors."""
    return np.linalg.lstsq(a / b[:, None], np.ones_like(b), rcond=None)[0]


def save(rows: Sequence[Team], model: Model, path: Path) -> None:
    """Draw the measured times, the model, and its predictions."""
    figure = Figure(figsize=(11, 4.8), layout='constrained')
    left, right = figure.subplots(1, 2)
    lengths = sorted({row.n for row in rows})
    left.loglog(lengths, [min(row.alone for row in rows if row.n == n) for n in lengths], 'o',
                color='0.2', label='1, measured')
    left.loglog(lengths, [model.time(n, 1) for n in lengths], '-', color='0.2', lw=0.8)
    for k, workers in enumerate(sorted({row.workers for row in rows})):
        mine = [row for row in rows if row.workers == workers]
        left.loglog([row.n for row in mine], [row.median for row in mine], 'o', color=f'C{k}',
                    label=f'{workers}, measured')
        left.loglog(lengths, [model.time(n, workers) for n in lengths], '-', color=f'C{k}', lw=0.8)
    left.set(xlabel='joints', ylabel='one call [µs]', title='measured, and the model (lines)')
    left.legend(title='workers')
    for n in (256, 1024, 4096, 16384, 65536):
        right.loglog(PREDICTED, [model.time(n, 1) / model.time(n, workers)
                                 for workers in PREDICTED], label=f'{n:,}')
    right.set(xlabel='workers', ylabel='speed-up',
              title='PREDICTION of the model, not measured')
    right.legend(title='joints')
    for axes in (left, right):
        axes.grid(which='major', color='0.9')
    figure.savefig(path, dpi=110)
