# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Latency of osc_controller over DDS in turns with an empty callback, and its threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, ExitStack, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
import os
from pathlib import Path
import subprocess
import sys
import tempfile
from threading import Timer
from time import perf_counter, sleep

import numpy as np

from gaps import PATIENCE, Peer
import nodes
from nodes import (
    BUSY_CONTROLLER,
    BUSY_ECHO,
    CONTROLLER,
    Crew,
    ECHO,
    EVENTS,
    IDLE,
    PROFILE,
    RATES,
    RAW_ECHO,
    Way,
)

SECONDS = 10.0  # default duration of the measurement of each row [s]
TURNS = 2  # each row is measured in this many turns, between those of the other rows
VIEWER_STARTS = 4.0  # time in which osc_viewer starts [s]
WARM_UP = 1.5  # time before each turn, in which clients and subscribers connect [s]
# A thread rests if it has less than this share of a core for this time [s]: paths of 10,000 poses
# wait in a queue at the end, and a node that is ended in a long callback ends its process.
RESTS, LOOK = 0.2, 0.3
STARTED = 2.5  # longest time from the start of the node to its first command [s]
OBSERVED = 1.0  # time in which the threads are observed [s]
BESIDE = 'osc_controller, all topics read, a parameter set each second'
CHANGED = 'osc_controller, changes'
VIEWED = 'osc_controller, osc_viewer hears all that its page shows'
# Contenders: key of answer.NODES; what other processes do with the controller; profile of DDS.
NOTHING, TOPICS, VIEWER, CHANGES = '', 'topics', 'viewer', 'changes'
SHARED = 'fastdds_shared_memory.xml'
CONTENDERS = {'empty callback, message objects': (ECHO, NOTHING, PROFILE),
              'empty callback, bytes': (RAW_ECHO, NOTHING, PROFILE),
              'osc_controller': (CONTROLLER, NOTHING, PROFILE),
              BESIDE: (CONTROLLER, TOPICS, PROFILE),
              CHANGED: (CONTROLLER, CHANGES, PROFILE),
              'empty callback, message objects, busy thread': (BUSY_ECHO, NOTHING, PROFILE),
              'osc_controller, busy thread': (BUSY_CONTROLLER, NOTHING, PROFILE),
              'empty callback, message objects, shared memory': (ECHO, NOTHING, SHARED),
              'osc_controller, shared memory': (CONTROLLER, NOTHING, SHARED)}
if find_spec('viser'):
    CONTENDERS[VIEWED] = CONTROLLER, VIEWER, PROFILE
# Kinds of disturb.py for each use, and their rates [Hz].
USES = {TOPICS: (('readers', 0.0), ('sets', 1.0)),
        CHANGES: (('sets', 10.0), ('payloads', 10.0),
                  ('long_trajectories_of_poses', 1.0))}
REFERENCE = next(iter(CONTENDERS))


@dataclass(frozen=True)
class Row:
    """
    The latencies of one contender at one rate.

    Attributes
    ----------
    name : str
    rate : int [Hz]
    states, unanswered : int
    p50, p99, p999, longest : float
        Of the answered states [µs].
    ratios : (3,) list of float
        p50, p99 and p999, relative to those of the empty callback with message objects.
    cpu : float
        Share of a core.

    """

    name: str
    rate: int
    states: int
    unanswered: int
    p50: float
    p99: float
    p999: float
    longest: float
    ratios: list[float]
    cpu: float


@dataclass(frozen=True)
class ThreadRow:
    """
    Threads of osc_controller with one name, at the highest rate.

    Attributes
    ----------
    name : str
        As in /proc/PID/task/TID/comm; the first thread of the process is 'main'.
    count : int
    cpu : float
        CPU time of all these threads together, per joint state [µs].
    switches : float
        How often they went to sleep [1/s].

    """

    name: str
    count: int
    cpu: float
    switches: float


@dataclass(frozen=True)
class Section:
    """All rows, the threads, and the load average before."""

    seconds: float
    rows: list[Row]
    threads: list[ThreadRow]
    load_average: tuple[float, float, float]


def section(seconds: float, rates: Sequence[int] = RATES,
            done: Callable[[str], None] = lambda what: None) -> Section | None:
    """Return the latencies of CONTENDERS, `seconds` a row; None without rclpy."""
    if find_spec('rclpy') is None:
        return None
    load, rows = os.getloadavg(), []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        work = Path(folder)
        environment, shared = (nodes.environment_of(work, file) for file in (PROFILE, SHARED))
        crews = {(node, file): Crew(stack, node, EVENTS, 0, work,
                                    environment if file == PROFILE else shared)
                 for node, file in sorted({(node, file) for node, _, file in CONTENDERS.values()})}
        senders = [Peer('disturb', stack.enter_context(nodes.running(
            [nodes.HERE / 'disturb.py'], work, environment))) for _ in USES[CHANGES]]
        for rate in rates:
            found = {name: [] for name in CONTENDERS}
            for _ in range(TURNS):
                for name, (node, use, file) in CONTENDERS.items():
                    with viewer(work, environment) if use == VIEWER else nullcontext():
                        found[name].append(_turn(
                            crews[node, file], Way(node, EVENTS, rate), seconds / TURNS,
                            list(zip(senders, USES.get(use, ())))))
            reference = None
            for name, turns in found.items():
                rows.append(_row(name, rate, turns, reference))
                reference = reference or rows[-1]
                done(f'{name}, {rate} Hz: {rows[-1].p50:.0f} {rows[-1].p99:.0f} '
                     f'{rows[-1].p999:.0f} µs')
        threads: list[ThreadRow] = []
        observer = Timer(WARM_UP + STARTED, lambda: threads.extend(
            observed(crews[CONTROLLER, PROFILE].processes[0], rates[-1])))
        observer.start()
        _turn(crews[CONTROLLER, PROFILE], Way(CONTROLLER, EVENTS, rates[-1]),
              STARTED + OBSERVED, [])
        observer.join()
    return Section(seconds, rows, threads, load)


@contextmanager
def viewer(work: Path, environment: dict[str, str]) -> Iterator[None]:
    """Within this context, osc_viewer hears the controller as if a browser showed its page."""
    with (work / 'osc_viewer.log').open('w') as log:
        process = subprocess.Popen(
            [sys.executable, '-m', 'osc_ros.ros.viewer.viewer_node', '--listen-always'],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment)
        sleep(VIEWER_STARTS)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _await_rest(process: int) -> None:
    """Wait until the first thread of a process has done what it was asked, at most PATIENCE."""
    usage, until = Path(f'/proc/{process}/task/{process}/schedstat'), perf_counter() + PATIENCE
    while perf_counter() < until:
        before = int(usage.read_text().split()[0])
        sleep(LOOK)
        if int(usage.read_text().split()[0]) - before < RESTS * 1e9 * LOOK:
            return


def _turn(crew: Crew, way: Way, seconds: float,
          uses: Sequence[tuple[Peer, tuple[str, float]]]) -> dict[str, object]:
    @contextmanager
    def used():
        for sender, (kind, rate) in uses:
            sender.ask({'kind': kind, 'rate': rate, 'joints': nodes.panda_arm().joint_names,
                        'position': nodes.READY}, PATIENCE)
        yield
        for sender, _ in uses:
            sender.ask('stop', PATIENCE)
        if uses:
            for process in crew.processes:
                _await_rest(process)

    return crew.results(way, seconds, used, warm_up=WARM_UP, busy=False)[IDLE]


def _row(name: str, rate: int, turns: list[dict], reference: Row | None) -> Row:
    times = np.concatenate([turn['latencies'] for turn in turns])
    answered = times[np.isfinite(times)]
    shares = np.percentile(answered, (50.0, 99.0, 99.9, 100.0)).tolist()
    own = [reference.p50, reference.p99, reference.p999] if reference else shares[:3]
    return Row(name, rate, len(times), len(times) - len(answered), *shares,
               [mine / its for mine, its in zip(shares, own)],
               float(np.mean([turn['cpu'][0] for turn in turns])))


def observed(pid: int, rate: int) -> list[ThreadRow]:
    """Observe the threads of a process for OBSERVED; `rate` is that of the states [Hz]."""
    before = _threads(pid)
    sleep(OBSERVED)
    names: dict[str, list[np.ndarray]] = {}
    for thread, (name, numbers) in _threads(pid).items():
        if thread in before:
            names.setdefault(name, []).append(numbers - before[thread][1])
    return [ThreadRow(name, len(found), float(sum(one[0] for one in found)) / rate / OBSERVED,
                      float(sum(one[1] for one in found)) / OBSERVED)
            for name, found in names.items()]


def _threads(pid: int) -> dict[int, tuple[str, np.ndarray]]:
    """Return name, CPU time [µs] and number of voluntary switches of each thread."""
    found = {}
    for task in sorted(Path(f'/proc/{pid}/task').iterdir(), key=lambda path: int(path.name)):
        thread = int(task.name)
        name = (task / 'comm').read_text().strip()
        # the names of receiving threads end with a port
        name = 'main' if thread == pid else name.rstrip('0123456789').rstrip('.')
        status = dict(line.split(':', 1) for line in (task / 'status').read_text().splitlines())
        found[thread] = name, np.array([
            int((task / 'schedstat').read_text().split()[0]) / 1e3,
            float(status['voluntary_ctxt_switches'])])
    return found
