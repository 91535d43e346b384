# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The cycle of osc_arm at 1 kHz: the time from state to torque, and how late the torque is.

The loop's process records the times of its cycles. Meanwhile `disturb` sends targets, changes a
parameter every second and subscribes to every topic of the node. For comparison: osc_controller
over DDS, as `gaps` measures it, with the same messages, and a loop of pylibfranka that computes
nothing.

"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, ExitStack, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
from time import perf_counter_ns, sleep, time

import numpy as np
from numpy.typing import NDArray

import gaps
from gaps import Peer
import nodes
from nodes import BUSY, IDLE, NodesError
from osc_ros.model.files import shipped_urdf
from osc_ros.sim import franka_server
from osc_ros.sim.franka_server import FrankaServer, ROTOR_INERTIA

SECONDS = 60.0  # default duration of a row [s]
RATE = 1000  # of the cycles [Hz]
LATE = 300.0  # a command later than this after its state was due is late [µs]
PRIORITY = nodes.PRIORITY
KIND, TARGETS = 'everything', 100.0  # of `disturb`: messages and requests, rate of targets [Hz]
MUJOCO, DDS, FRANKA, EMPTY = 'mujoco', 'dds', 'franka', 'empty'
NAMES = {MUJOCO: "osc_arm, hardware 'mujoco'", DDS: 'osc_controller over DDS',
         FRANKA: "osc_arm, hardware 'franka', franka-sim",
         EMPTY: 'pylibfranka, empty loop, franka-sim'}
ACTIVE = 'active: holding'  # of the log of a node
ENDING = 20.0  # longest time until the processes of a row have ended [s]


@dataclass(frozen=True)
class Way:
    """
    One way to run the loop.

    Attributes
    ----------
    loop : str
        MUJOCO, DDS, FRANKA or EMPTY.
    priority : int
        SCHED_FIFO priority of the loop, with locked memory; 0 for neither.
    load : str
        Of the other core: IDLE or BUSY. franka-sim needs this core for itself.

    """

    loop: str
    priority: int = 0
    load: str = IDLE

    @property
    def name(self) -> str:
        """Name in the table."""
        return NAMES[self.loop] + (f', SCHED_FIFO {self.priority}' if self.priority else '')


@dataclass(frozen=True)
class Cell:
    """
    The measurement of one way.

    Attributes
    ----------
    way : Way
    cycles : int
        Number of states.
    unanswered : int
        Number of states without a command.
    p50, p99, p999, longest : float
        Time from the state, when `read` has returned, to the command, before `write` is called;
        over DDS from just before the state's publication to the command's arrival [µs].
    slow : int
        Number of these times above LATE.
    late : int or None
        Number of commands later than LATE after their state was due on the clock of the arm; None
        if this clock is not known: franka-sim's own states are late.
    latest : float or None
        Delay of the latest command [µs].
    wide : int
        Number of gaps between two states, over DDS between two commands, longer than a period
        and LATE.

    """

    way: Way
    cycles: int
    unanswered: int
    p50: float
    p99: float
    p999: float
    longest: float
    slow: int
    late: int | None
    latest: float | None
    wide: int


@dataclass(frozen=True)
class Section:
    """All cells, the duration of each [s], the load average before, and what is left out."""

    seconds: float
    cells: list[Cell]
    load_average: tuple[float, float, float]
    left_out: str


def ways(has_realtime: bool, has_franka: bool) -> list[Way]:
    """Return the ways to measure."""
    found = [Way(loop, priority, load)
             for loop, loads in ((MUJOCO, (BUSY, IDLE)), (DDS, (BUSY,)), (FRANKA, (IDLE,)),
                                 (EMPTY, (IDLE,)))
             for priority in (PRIORITY, 0) for load in loads]
    return [way for way in found if (has_realtime or not way.priority)
            and (has_franka or way.loop not in (FRANKA, EMPTY))]


def section(seconds: float, wanted: Sequence[Way] | None = None,
            done: Callable[[str], None] = lambda what: None) -> Section | None:
    """
    Return a cell for each way; None without rclpy.

    Parameters
    ----------
    seconds : float
        Duration of the measurement of each cell.
    wanted : sequence of Way, optional
        Default: all that are possible here.
    done : callable
        Called with a line for each cell.

    """
    if find_spec('rclpy') is None:
        return None
    load, cells = os.getloadavg(), []
    has_franka = find_spec('pylibfranka') is not None and franka_server.python().exists()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        environment = nodes.environment_of(work)
        has_realtime = nodes.has_realtime(nodes.probed(environment))
        measure = {MUJOCO: _arm, FRANKA: _arm, DDS: _over_dds, EMPTY: _empty}
        for way in ways(has_realtime, has_franka) if wanted is None else wanted:
            with _busy(environment) if way.load == BUSY else nullcontext():
                cells.append(measure[way.loop](way, seconds, work, environment))
            done(f'cycles, {way.name}, other core {way.load}: p99.9 {cells[-1].p999:.0f} µs')
    missing = [*(() if has_realtime else ('rows with SCHED_FIFO (not permitted)',)),
               *(() if has_franka else ('rows of franka-sim (not installed)',))]
    return Section(seconds, cells, load, ', '.join(missing))


def cell_of(way: Way, times: NDArray[np.int64]) -> Cell:
    """
    Return the measurement from the times of the cycles.

    The clock of hardware 'mujoco' is that of the machine: states are due once a period, and the
    earliest state of a second is taken as the one that was on time.

    Parameters
    ----------
    way : Way
    times : (k, 3)
        Return of `read`, call and return of `write` in each cycle; 0 without a `write` [ns].

    """
    read, write = 1e-3 * times[:, 0], 1e-3 * times[:, 1]
    answered = times[:, 1] > 0
    latencies = np.where(answered, write - read, np.inf)
    delays = None
    if way.loop == MUJOCO:
        since = read - 1e6 / RATE * np.arange(len(read))
        due = np.concatenate([np.full(len(part), part.min()) for part in np.split(
            since, range(RATE, len(since), RATE))])
        delays = np.where(answered, since - due + latencies, np.inf)
    return _cell(way, latencies, delays, np.diff(read))


def _cell(way: Way, latencies: NDArray[np.float64], delays: NDArray[np.float64] | None,
          intervals: NDArray[np.float64]) -> Cell:
    """Return the cell for times [µs]; infinite for what was not answered."""
    answered = latencies[np.isfinite(latencies)]
    if not len(answered):
        raise NodesError(f'{way.name}: no state was answered')
    late, latest = None, None
    if delays is not None:
        late, latest = int((delays > LATE).sum()), float(delays[np.isfinite(delays)].max())
    return Cell(way, len(latencies), len(latencies) - len(answered),
                *np.percentile(answered, (50.0, 99.0, 99.9, 100.0)).tolist(),
                int((answered > LATE).sum()), late, latest,
                int((intervals > 1e6 / RATE + LATE).sum()))


def _arm(way: Way, seconds: float, work: Path, environment: dict[str, str]) -> Cell:
    """Return the cell of osc_arm."""
    file = work / 'cycles.npy'
    file.unlink(missing_ok=True)
    with ExitStack() as stack:
        node = stack.enter_context(_node(way, file, stack, work, environment))
        sender = Peer('disturb', stack.enter_context(nodes.running(
            [nodes.HERE / 'disturb.py'], work, environment)))
        sender.ask({'kind': KIND, 'rate': TARGETS, 'joints': [], 'position': []}, gaps.PATIENCE,
                   node)
        begin = perf_counter_ns()
        sleep(seconds)
        end = perf_counter_ns()
        sender.ask('stop', gaps.PATIENCE, node)
    times = np.load(file)
    chosen = times[(times[:, 0] >= begin) & (times[:, 0] < end)]
    if len(chosen) < 0.5 * seconds * RATE:
        raise NodesError(f'{way.name}: {len(chosen)} cycles in {seconds:g} s\n{node.log}')
    return cell_of(way, chosen)


@contextmanager
def _node(way: Way, file: Path, stack: ExitStack, work: Path, environment: dict[str, str]
          ) -> Iterator[Peer]:
    """Yield osc_arm, active, which writes the times of its cycles to a file."""
    given = {'rate': float(RATE), 'startup_check': "'off'", 'record_cycles': str(file),
             'realtime.priority': way.priority,
             'realtime.lock_memory': str(way.priority > 0).lower(),
             'watchdog.deadline.reaction': 'report'}
    if way.loop == MUJOCO:
        given |= {'robot_description_file': 'panda', 'base': nodes.BASE, 'tip': nodes.TIP,
                  'hardware.kind': 'mujoco', 'hardware.initial_positions': list(nodes.READY)}
    else:
        server = stack.enter_context(_franka(work))
        given |= {'robot_description_file': 'fr3', 'base': 'fr3_link0', 'tip': 'fr3_hand_tcp',
                  'hardware.kind': 'franka', 'hardware.address': server.address,
                  'hardware.realtime': 'ignore', 'driver_compensates': 'gravity',
                  'rotor_inertia': [ROTOR_INERTIA] * 7, 'limits.effort_rate': [900.0] * 7}
    arguments = [part for name, value in given.items() for part in ('-p', f'{name}:={value}')]
    node = Peer('osc_arm', stack.enter_context(nodes.running(
        ['-m', 'osc_ros.ros.arm_node', '--ros-args', *arguments], work, environment)))
    stack.callback(_interrupt, node.process)  # if killed, it would leave the loop behind
    latest = time() + nodes.PATIENCE
    while ACTIVE not in node.log:
        if node.process.poll() is not None or time() > latest:
            raise NodesError(f'{way.name}: not active\n{node.log}')
        sleep(0.1)
    yield node


def _interrupt(process: subprocess.Popen) -> None:
    """End a node in order; the loop then writes the times of its cycles."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(ENDING)


def _franka(work: Path) -> FrankaServer:
    return FrankaServer(shipped_urdf('fr3'), work / 'franka_sim.log', nodes.READY)


def _over_dds(way: Way, seconds: float, work: Path, environment: dict[str, str]) -> Cell:
    """Return the cell of osc_controller, with a process in place of the hardware."""
    with ExitStack() as stack:
        sender = Peer('disturb', stack.enter_context(nodes.running(
            [nodes.HERE / 'disturb.py'], work, environment)))
        crew = stack.enter_context(gaps.crew(RATE, (), way.priority, sender, work, environment))
        watched = crew.watched(gaps.Disturbance('', KIND, TARGETS), seconds)[0]
    latencies = np.array(watched['latencies'])
    return _cell(way, latencies, latencies, 1e6 / RATE * np.array(watched['gaps']))


def _empty(way: Way, seconds: float, work: Path, environment: dict[str, str]) -> Cell:
    """Return the cell of a loop that computes nothing."""
    file = work / 'empty.npy'
    with _franka(work) as server:
        subprocess.run([sys.executable, nodes.HERE / 'empty_loop.py', server.address,
                        str(way.priority), str(seconds), str(file)], env=environment, check=True,
                       timeout=seconds + nodes.PATIENCE)
    times = np.load(file)
    return cell_of(way, times[times[:, 0] > 0])


@contextmanager
def _busy(environment: dict[str, str]) -> Iterator[None]:
    """Keep the last core busy, without priority."""
    from metronome import BUSY_LOOP
    process = subprocess.Popen([sys.executable, '-c', BUSY_LOOP], env=environment)
    try:
        os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        yield
    finally:
        process.kill()
        process.wait()
