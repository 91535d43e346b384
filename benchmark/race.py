"""Contenders that are checked, then timed in turns in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import gc
from itertools import cycle, islice
import math
from time import perf_counter, perf_counter_ns

import numpy as np

LARGEST_RESIDUAL = 1e-5  # relative; an answer further off is no contender
TURN = 1000.0  # µs: so long is a contender's turn, so that slow ones do not take all the time


@dataclass(frozen=True, eq=False)
class State:
    """A state and what is asked for; `u_linear_first` for those that want it so."""

    q: np.ndarray
    qd: np.ndarray
    u: np.ndarray
    qdd: np.ndarray
    u_linear_first: np.ndarray


@dataclass(frozen=True)
class Contender:
    """What is timed, `call(state)`, and `residual(state)`; without one it is the judge itself."""

    name: str
    call: Callable
    residual: Callable[[State], float] | None = None
    note: str = ''


@dataclass(frozen=True)
class Row:
    """Times in µs, nan for a contender whose answer is off; the worst residual of the states."""

    name: str
    median: float
    p99: float
    residual: float | None
    note: str = ''

    @property
    def is_off(self) -> bool:
        """Whether the answer was too far off to be timed."""
        return math.isnan(self.median)


def difference(found, expected) -> float:
    """Return the largest difference, relative to the largest entry that is expected."""
    return float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())


def call_times(call: Callable, sample: Sequence[State], rounds: int = 1) -> np.ndarray:
    """Return the µs of every call, each timed on its own."""
    times = []
    for _ in range(rounds):
        for state in sample:
            start = perf_counter_ns()
            call(state)
            times.append(perf_counter_ns() - start)
    return np.array(times) / 1e3


def fastest(ways: Sequence[Callable], sample: Sequence[State],
            residual: Callable[[State, np.ndarray], float]) -> Callable:
    """Return the way to the torque that takes least, of those that are right on these states."""
    few = sample[:8]
    right = [way for way in ways if all(residual(s, way(s)) < LARGEST_RESIDUAL for s in few)]
    return min(right, key=lambda way: np.median(call_times(way, few, 10)))


def race(contenders: Sequence[Contender], sample: Sequence[State], seconds: float) -> list[Row]:
    """
    Return a row a contender, after its answer was checked on every state.

    Contenders take turns, so that whatever else the machine does hits all alike. None is given
    a state twice running: what it has kept of the last position would not be paid for again.

    Parameters
    ----------
    contenders : sequence of Contender
    sample : sequence of State, two or more
    seconds : float
        For all together; each has a turn at least.

    """
    residuals = [float(np.max([one.residual(state) for state in sample])) if one.residual else None
                 for one in contenders]
    running = [k for k, worst in enumerate(residuals)
               if worst is None or worst < LARGEST_RESIDUAL]
    times: dict[int, list[np.ndarray]] = {k: [] for k in running}
    states = {k: cycle(sample) for k in running}  # of each, so that it goes on where it was

    def turn(k, size):
        return call_times(contenders[k].call, list(islice(states[k], size)))

    sizes = {}
    for k in running:
        size = int(np.clip(TURN / turn(k, 1)[0], 1, len(sample)))
        sizes[k] = int(np.clip(TURN / np.median(turn(k, size)), 1, len(sample)))
    gc.collect()
    gc.disable()
    end = perf_counter() + seconds
    while True:
        for k in running:
            times[k].append(turn(k, sizes[k]))
        if perf_counter() >= end:
            break
    gc.enable()
    rows = []
    for k, (one, residual) in enumerate(zip(contenders, residuals)):
        found = np.concatenate(times[k]) if k in times else np.array([np.nan])
        rows.append(Row(one.name, float(np.median(found)), float(np.percentile(found, 99)),
                        residual, one.note))
    return rows
