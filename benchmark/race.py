# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Checks contenders, then times them in turns in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import gc
from itertools import cycle, islice
import math
from time import perf_counter, perf_counter_ns

import numpy as np

LARGEST_RESIDUAL = 1e-5  # relative; a contender with a larger error is not timed
TURN = 1000.0  # µs: duration of one turn, so that slow contenders do not take most of the time


@dataclass(frozen=True, eq=False)
class State:
    """A state and the commanded accelerations; `u_linear_first` is u as [linear; angular]."""

    q: np.ndarray
    qd: np.ndarray
    u: np.ndarray
    qdd: np.ndarray
    u_linear_first: np.ndarray


@dataclass(frozen=True)
class Contender:
    """`call(state)` is timed; `residual(state)` is its error, None for the reference itself."""

    name: str
    call: Callable
    residual: Callable[[State], float] | None = None
    note: str = ''


@dataclass(frozen=True)
class Row:
    """Times in µs, NaN for a contender with wrong results; largest residual over the states."""

    name: str
    median: float
    p99: float
    residual: float | None
    note: str = ''

    @property
    def is_off(self) -> bool:
        """Return whether the error was too large; then nothing was timed."""
        return math.isnan(self.median)


def difference(found, expected) -> float:
    """Return the largest difference, relative to the largest expected entry."""
    return float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())


def call_times(call: Callable, sample: Sequence[State], rounds: int = 1) -> np.ndarray:
    """Return the times of all calls [µs], each measured on its own."""
    times = []
    for _ in range(rounds):
        for state in sample:
            start = perf_counter_ns()
            call(state)
            times.append(perf_counter_ns() - start)
    return np.array(times) / 1e3


def fastest(ways: Sequence[Callable], sample: Sequence[State],
            residual: Callable[[State, np.ndarray], float]) -> Callable:
    """Return the fastest of the functions whose torques are correct for these states."""
    few = sample[:8]
    right = [way for way in ways if all(residual(s, way(s)) < LARGEST_RESIDUAL for s in few)]
    return min(right, key=lambda way: np.median(call_times(way, few, 10)))


def race(contenders: Sequence[Contender], sample: Sequence[State], seconds: float) -> list[Row]:
    """
    Return a row for each contender, after checking its results for every state.

    Contenders take turns, so that other load of the machine affects all of them. No contender gets
    a state twice in a row, because it could reuse results of the last position.

    Parameters
    ----------
    contenders : sequence of Contender
    sample : sequence of State, two or more
    seconds : float
        Duration for all contenders together; each has at least one turn.

    """
    residuals = [float(np.max([one.residual(state) for state in sample])) if one.residual else None
                 for one in contenders]
    running = [k for k, worst in enumerate(residuals)
               if worst is None or worst < LARGEST_RESIDUAL]
    times: dict[int, list[np.ndarray]] = {k: [] for k in running}
    # one iterator for each, which continues in the next turn
    states = {k: cycle(sample) for k in running}

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
