# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Latency from joint state to command over DDS, for several ways to run the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, ExitStack, nullcontext
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from itertools import groupby
import json
import os
from pathlib import Path
from select import select
import signal
import subprocess
import sys
import tempfile
from time import perf_counter
from typing import Any

import numpy as np

from osc_ros import Robot
from osc_ros.ros.process.domains import reserved_domain
from osc_ros.ros.process.profile import profile_environment, profile_variable
from osc_ros.ros.process.share import share_directory
from panda import BASE, TIP

HERE = Path(__file__).parent
READY = (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785)
RATES = (250, 500, 1000)  # Hz
PROFILE = 'fastdds.xml'  # of Fast DDS, in config/: UDP on the loopback
SECONDS = 2.0  # default duration of the measurement of a cell [s]
ECHO, RAW_ECHO, CONTROLLER, RELAY = 'echo', 'raw echo', 'controller', 'relay'
BUSY_ECHO, BUSY_CONTROLLER = 'busy echo', 'busy controller'  # beside a thread that runs Python
IDLE, BUSY = 'idle', 'busy'  # load of the other core
EVENTS, SINGLE = 'events', 'single-threaded'
PRIORITY = 50  # priority under SCHED_FIFO
FCI = 300.0  # time that Franka's interface leaves to a control loop, of each period of 1 ms [µs]
PATIENCE = 300.0  # time until the first answer: kernels may have to be compiled [s]
PROBE = f"""
from osc_ros.loop.process import realtime
print(realtime.prioritize({PRIORITY}))
print(realtime.lock_memory())
"""


class NodesError(RuntimeError):
    """A process ended or did not answer; the message has its log."""


@dataclass(frozen=True)
class Way:
    """
    One way to run the nodes.

    Attributes
    ----------
    node : str
        The node that answers: ECHO and RAW_ECHO (compute nothing; message objects, bytes),
        CONTROLLER, or RELAY after the controller. BUSY_ECHO and BUSY_CONTROLLER are ECHO and
        CONTROLLER beside a thread of the same process that runs Python all the time.
    executor : str
    rate : int [Hz]
    priority : int
        Priority under SCHED_FIFO, with locked memory; 0: neither of them.

    """

    node: str
    executor: str
    rate: int
    priority: int = 0

    @property
    def name(self) -> str:
        """Name in the table."""
        names = {ECHO: 'empty callback', RAW_ECHO: 'empty callback, bytes',
                 CONTROLLER: 'osc_controller',
                 RELAY: 'osc_controller and osc_relay'}
        return names[self.node] + (f', SCHED_FIFO {self.priority}' if self.priority else '')


@dataclass(frozen=True)
class Cell:
    """
    The measurement of one way, with the other core idle or busy.

    Attributes
    ----------
    way : Way
    load : str
    states : int
    p50, p99, p999, longest : float
        Latency of the answered states [µs].
    missed, unanswered : int
        Number of states without an answer before the next state, or without any answer.
    late : int
        Number of states without an answer within FCI.
    cpu : list of float
        Share of a core used by controller or echo, and by the relay.
    metronome : float
        99th percentile of the delays of the published states [µs].

    """

    way: Way
    load: str
    states: int
    p50: float
    p99: float
    p999: float
    longest: float
    missed: int
    unanswered: int
    late: int
    cpu: list[float]
    metronome: float


@dataclass(frozen=True)
class Section:
    """All cells, the load average before them, and the messages of the real-time settings."""

    seconds: float
    cells: list[Cell]
    load_average: tuple[float, float, float]
    realtime: list[str]


def ways(realtime: bool) -> list[Way]:
    """Return the ways to measure, with or without SCHED_FIFO."""
    return [
        *(Way(node, executor, rate) for node in (ECHO, CONTROLLER) for executor in (EVENTS, SINGLE)
          for rate in RATES),
        Way(RELAY, EVENTS, 500),
        *(Way(CONTROLLER, EVENTS, rate, PRIORITY) for rate in RATES if realtime)]


def section(seconds: float, wanted: Sequence[Way] | None = None,
            done: Callable[[str], None] = lambda what: None) -> Section | None:
    """
    Return the cells of all ways, or of those in `wanted`; None without rclpy.

    Parameters
    ----------
    seconds : float
        Duration of the measurement of each cell.
    wanted : sequence of Way, optional
    done : callable
        Called with a line for each way.

    """
    if find_spec('rclpy') is None:
        return None
    load = os.getloadavg()
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory() as work:
        environment = environment_of(Path(work))
        told = probed(environment)
        if wanted is None:
            wanted = ways(has_realtime(told))
        for crew, own in groupby(wanted, lambda way: (way.node, way.executor, way.priority)):
            with ExitStack() as stack:
                at_work = Crew(stack, *crew, Path(work), environment)
                for way in own:
                    cells += at_work.cells(way, seconds)
                    done(f'{way.name}, {way.executor}, {way.rate} Hz')
    return Section(seconds, cells, load, told)


def probed(environment: dict[str, str]) -> list[str]:
    """Return the messages of a process that requests SCHED_FIFO and locked memory."""
    return subprocess.run([sys.executable, '-c', PROBE], env=environment, check=True,
                          capture_output=True, text=True).stdout.splitlines()


def has_realtime(told: Sequence[str]) -> bool:
    """Return whether SCHED_FIFO is permitted, from the messages that `probed` returned."""
    return 'not permitted' not in told[0]


def environment_of(work: Path, profile: str = PROFILE) -> dict[str, str]:
    """
    Return an environment for this machine only, in a ROS domain of its own.

    `profile` is the name of a profile of Fast DDS in config/; another one that is set takes
    precedence.

    """
    return {'AMENT_PREFIX_PATH': sys.prefix, **os.environ, **({} if os.environ.get(
        profile_variable()) else profile_environment(share_directory() / 'config' / profile)),
            'ROS_LOG_DIR': str(work), 'ROS_DOMAIN_ID': str(reserved_domain())}


class Crew:
    """The processes of a measurement; started once, for several ways one after the other."""

    def __init__(self, stack: ExitStack, node: str, executor: str, priority: int, work: Path,
                 environment: dict[str, str]) -> None:
        names = [CONTROLLER, RELAY] if node == RELAY else [node]
        self._answering = {name: stack.enter_context(running(
            [HERE / 'answer.py', name, executor], work, environment)) for name in names}
        self._metronome, self._log = stack.enter_context(running(
            [HERE / 'metronome.py', str(priority)], work, environment))
        self._commands = f"osc_{'relay' if node == RELAY else 'controller'}/commands"
        self._joints = panda_arm().joint_names

    def cells(self, way: Way, seconds: float) -> Iterator[Cell]:
        """Yield two cells of a way: with the other core idle, and with it busy."""
        for load, values in self.results(way, seconds).items():
            yield _cell(way, load, **values)

    def results(self, way: Way, seconds: float, beside: Callable[[], Any] = nullcontext,
                **more: object) -> dict[str, dict[str, Any]]:
        """
        Return the fields of `metronome.Found` for each load of the other core.

        Parameters
        ----------
        way : Way
        seconds : float
            Duration of each measurement.
        beside : callable
            Returns a context manager, entered when the nodes start and left before they end.
        **more
            Other fields of `metronome.Specification`.

        """
        for name, (process, _) in self._answering.items():
            tell(process, parameters(name, way))
        tell(self._metronome, {
            'rate': way.rate, 'seconds': seconds, 'commands': self._commands,
            'joints': self._joints, 'position': READY, 'processes': self.processes, **more})
        deadline = perf_counter() + PATIENCE + 4.0 * seconds
        with beside():
            while not select([self._metronome.stdout], [], [], 0.5)[0]:
                for process, log in self._answering.values():
                    if process.poll() is not None or perf_counter() > deadline:
                        raise NodesError(f'{way}: no answers\n{log.read_text()}')
        line = self._metronome.stdout.readline()
        if not line:
            raise NodesError(f'{way}: the metronome ended\n{self._log.read_text()}')
        for process, log in self._answering.values():
            process.send_signal(signal.SIGINT)
            if not process.stdout.readline():
                raise NodesError(f'{way}: ended\n{log.read_text()}')
        return json.loads(line)

    @property
    def processes(self) -> list[int]:
        """Process ids of the nodes that answer."""
        return [process.pid for process, _ in self._answering.values()]


def _cell(way: Way, load: str, latencies: list[float], missed: int, cpu: list[float],
          late: float) -> Cell:
    times = np.array(latencies)
    answered = times[np.isfinite(times)]
    if not len(answered):
        raise NodesError(f'{way}: no state was answered, the other core {load}')
    p50, p99, p999, longest = np.percentile(answered, (50.0, 99.0, 99.9, 100.0)).tolist()
    return Cell(way, load, len(times), p50, p99, p999, longest, missed,
                len(times) - len(answered), int((times > FCI).sum()), cpu, late)


def panda_arm() -> Robot:
    """Return the Panda, from base to tip."""
    text = files('osc_ros').joinpath('robots/panda.urdf').read_text()
    return Robot.from_urdf(text, BASE, TIP)


def parameters(node: str, way: Way) -> list[str]:
    """Return the parameters of a node as command-line arguments."""
    if node not in (CONTROLLER, BUSY_CONTROLLER, RELAY):
        return []
    given = {'robot_description_file': 'panda', 'base': BASE, 'tip': TIP,
             'rate': float(way.rate)}
    if node != RELAY:
        given |= {'startup_check': "'off'",
                  'realtime.priority': way.priority, 'realtime.lock_memory': way.priority > 0}
    return ['--ros-args', *(part for name, value in given.items()
                            for part in ('-p', f'{name}:={str(value).lower()}'
                                         if isinstance(value, bool) else f'{name}:={value}'))]


def tell(process: subprocess.Popen, what: object) -> None:
    """Write a line of JSON to the standard input of a process."""
    process.stdin.write(json.dumps(what) + '\n')
    process.stdin.flush()


@contextmanager
def running(command: Sequence[str | Path], work: Path, environment: dict[str, str]
            ) -> Iterator[tuple[subprocess.Popen, Path]]:
    """Run Python with a command until the block ends; a log file gets its standard error."""
    log = Path(tempfile.mkstemp(dir=work)[1])
    with log.open('w') as file:
        process = subprocess.Popen(
            [sys.executable, *map(str, command)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=file, text=True, env=environment)
    try:
        yield process, log
        process.stdin.close()
        process.wait(timeout=10.0)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
