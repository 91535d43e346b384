# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The longest gap between two commands of the controller while other messages arrive.

Three processes run at the same time: osc_controller as users start it; `metronome`, which
publishes joint states at the rate and times the commands; and `disturb`, which sends one kind of
message or request at a time.

"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
import json
import os
from pathlib import Path
from select import select
import signal
import subprocess
import tempfile
from time import perf_counter

import numpy as np

import nodes
from nodes import CONTROLLER, EVENTS, NodesError, Way

RATES = 500, 1000  # rates of the joint states [Hz]
OFTEN, SELDOM = 100.0, 1.0  # rates of the messages [Hz]
SECONDS = 1.5  # default duration of the measurement of a cell [s]
ALLOWED = 2.0  # accepted increase of the longest gap over the one without messages [periods]
WIDE = 1.0 + ALLOWED  # longer gaps are counted [periods]
PATIENCE = 120.0  # time for commands to become regular again after a disturbance [s]
DEBUG = '--log-level', 'debug'


@dataclass(frozen=True)
class Disturbance:
    """
    Messages or requests that arrive in addition to the joint states.

    Attributes
    ----------
    name : str
        Name in the table.
    kind : str
        One of `disturb.KINDS`.
    rate : float [Hz]
        Rate of the messages; 0: none.
    arguments : tuple of str
        Further command-line arguments of the controller.

    """

    name: str
    kind: str
    rate: float = OFTEN
    arguments: tuple[str, ...] = ()


NOTHING = Disturbance('nothing', 'nothing', 0.0)
DISTURBANCES = (
    NOTHING,
    Disturbance('pose targets', 'poses'),
    Disturbance('twists', 'twists'),
    Disturbance('trajectories of 50 points', 'short_trajectories'),
    Disturbance('wrench targets, an axis of force', 'wrenches'),
    Disturbance('measured wrenches, an axis of force', 'measured_wrenches'),
    Disturbance('postures', 'postures'),
    Disturbance('payloads', 'payloads'),
    Disturbance('gravity', 'gravities'),
    NOTHING,
    Disturbance('set_parameters, live gains', 'sets'),
    Disturbance('set_parameters_atomically, live gains', 'atomic_sets'),
    Disturbance('set_parameters, refused', 'bad_sets'),
    Disturbance('get, list, describe all parameters', 'questions'),
    Disturbance('~/hold', 'holds'),
    Disturbance('~/release', 'releases'),
    Disturbance('pose targets, NaN', 'not_finite'),
    Disturbance('pose targets, unknown frame', 'unknown_frames'),
    Disturbance('all topics read, report_rate 1000', 'reports', 0.0),
    Disturbance('trajectories of 10,000 poses', 'long_trajectories_of_poses', SELDOM),
    Disturbance('trajectories of 10,000 points', 'long_trajectories', SELDOM),
    Disturbance('joint trajectories of 10,000 points', 'long_joint_trajectories', SELDOM),
    Disturbance('10,000 poses, 10,000 joint points, ~/hold, in turn', 'paths_in_turn', 10.0),
    NOTHING,
    Disturbance('log level debug', 'nothing', 0.0, DEBUG),
    Disturbance('pose targets, log level debug', 'poses', OFTEN, DEBUG),
)


@dataclass(frozen=True)
class Cell:
    """
    The measurement during one disturbance.

    Attributes
    ----------
    disturbance : Disturbance
    rate : int
        Rate of the joint states [Hz].
    sent, answered : int
        Number of messages sent, and of responses to requests.
    states, commands : int
        Number of joint states, and of commands, during the measurement.
    longest, p999 : float
        Longest gap between commands and 99.9th percentile [periods].
    more : float
        `longest` minus the median of `longest` without messages, at this rate [periods].
    wide : int
        Number of gaps longer than WIDE periods.
    pause : float
        Longest gap between two states, the delay of the metronome itself [periods].
    missed : int
        Number of states without an answer before the next state.
    p50, p99 : float
        Latency of the answered states [µs].
    cpu : float
        Share of a core that the controller used.

    """

    disturbance: Disturbance
    rate: int
    sent: int
    answered: int
    states: int
    commands: int
    longest: float
    p999: float
    more: float
    wide: int
    pause: float
    missed: int
    p50: float
    p99: float
    cpu: float


@dataclass(frozen=True)
class Section:
    """All cells, the priority under SCHED_FIFO (0: none), and the load average before them."""

    seconds: float
    cells: list[Cell]
    priority: int
    load_average: tuple[float, float, float]


def section(seconds: float, disturbances: Sequence[Disturbance] = DISTURBANCES,
            rates: Sequence[int] = RATES, priority: int | None = None,
            done: Callable[[str], None] = lambda what: None) -> Section | None:
    """
    Return a cell for each disturbance at each rate; None without rclpy.

    Parameters
    ----------
    seconds : float
        Duration of the measurement of each cell.
    disturbances : sequence of Disturbance
        In this order; NOTHING may occur several times, to show the noise of the machine.
    rates : sequence of int
        Rates of the joint states [Hz].
    priority : int, optional
        SCHED_FIFO priority of controller and metronome, so that other processes on the machine
        delay neither of them; 0: none. Default: nodes.PRIORITY if permitted.
    done : callable
        Called with a line for each cell.

    """
    if find_spec('rclpy') is None:
        return None
    load, cells = os.getloadavg(), []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        work = Path(folder)
        environment = nodes.environment_of(work)
        if priority is None:
            priority = nodes.PRIORITY if nodes.has_realtime(nodes.probed(environment)) else 0
        sender = Peer('disturb', stack.enter_context(
            nodes.running([nodes.HERE / 'disturb.py'], work, environment)))
        for rate in rates:
            found = []
            for arguments, own in groupby(disturbances, lambda one: one.arguments):
                with crew(rate, arguments, priority, sender, work, environment) as at_work:
                    for disturbance in own:
                        found.append(at_work.cell(disturbance, seconds))
                        done(f'gaps, {rate} Hz, {disturbance.name}: {found[-1]["longest"]:.1f}')
            plain = [values['longest'] for values in found
                     if values['disturbance'] == NOTHING] or [np.nan]
            cells += [Cell(**values, more=values['longest'] - float(np.median(plain)))
                      for values in found]
    return Section(seconds, cells, priority, load)


class Peer:
    """A process that reads lines of JSON and answers each one with a line of JSON."""

    def __init__(self, name: str, running: tuple[subprocess.Popen, Path]) -> None:
        self.name = name
        self.process, self._log = running

    @property
    def log(self) -> str:
        """The last part of the standard error of the process."""
        return self._log.read_text(errors='replace')[-4000:]

    def ask(self, what: object, patience: float, *others: Peer) -> object:
        """
        Send a request to the process, and return its answer.

        Raises
        ------
        NodesError
            The process or one of the others ended, or there was no answer in time.

        """
        nodes.tell(self.process, what)
        return self.answer(patience, f'{what}', *others)

    def answer(self, patience: float, what: str, *others: Peer) -> object:
        """Return the next line of the process as an object; raise errors like `ask`."""
        deadline = perf_counter() + patience
        while not select([self.process.stdout], [], [], 0.5)[0]:
            for peer in (self, *others):
                if peer.process.poll() is not None:
                    raise NodesError(f'{what}: {peer.name} ended\n{peer.log}')
            if perf_counter() > deadline:
                raise NodesError(f'{what}: no answer from {self.name} in {patience:g} s\n'
                                 + '\n'.join(peer.log for peer in (self, *others)))
        line = self.process.stdout.readline()
        if not line:
            raise NodesError(f'{what}: {self.name} ended\n{self.log}')
        return json.loads(line)


@dataclass(frozen=True)
class Crew:
    """The processes of a measurement at one rate: controller, metronome, sender of messages."""

    rate: int
    controller: Peer
    metronome: Peer
    sender: Peer
    joints: list[str]

    def watched(self, disturbance: Disturbance, seconds: float
                ) -> tuple[dict[str, list[float]], dict[str, int]]:
        """Return what metronome and sender count, after commands have become regular."""
        self.metronome.ask(0.0, nodes.PATIENCE, self.controller)
        self.sender.ask({'kind': disturbance.kind, 'rate': disturbance.rate,
                          'joints': self.joints, 'position': nodes.READY}, PATIENCE,
                         self.controller)
        return (self.metronome.ask(seconds, PATIENCE + seconds, self.controller),
                self.sender.ask('stop', PATIENCE, self.controller))

    def cell(self, disturbance: Disturbance, seconds: float) -> dict[str, object]:
        """Return the fields of a Cell except `more`."""
        watched, counts = self.watched(disturbance, seconds)
        gaps, times = np.array(watched['gaps']), np.array(watched['latencies'])
        answered = times[np.isfinite(times)]
        p50, p99 = np.percentile(answered, (50, 99)).tolist() if len(answered) else [np.inf] * 2
        return {'disturbance': disturbance, 'rate': self.rate, **counts, 'states': len(times),
                'commands': len(gaps),
                'longest': float(gaps.max()), 'p999': float(np.percentile(gaps, 99.9)),
                'wide': int((gaps > WIDE).sum()), 'pause': max(watched['pauses']),
                'missed': watched['missed'], 'p50': p50, 'p99': p99, 'cpu': watched['cpu'][0]}


@contextmanager
def crew(rate: int, arguments: Sequence[str], priority: int, sender: Peer, work: Path,
         environment: dict[str, str]) -> Iterator[Crew]:
    """Yield a crew; SIGINT ends its controller at the end of the block."""
    given = nodes.parameters(CONTROLLER, Way(CONTROLLER, EVENTS, rate, priority))
    with ExitStack() as stack:
        controller = Peer('osc_controller', stack.enter_context(nodes.running(
            ['-m', 'osc_ros.ros.controller.controller', *given, *arguments], work, environment)))
        metronome = Peer('metronome', stack.enter_context(nodes.running(
            [nodes.HERE / 'metronome.py', priority, 'endless'], work, environment)))
        stack.callback(controller.process.send_signal, signal.SIGINT)
        joints = list(nodes.panda_arm().joint_names)
        metronome.ask({
            'rate': rate, 'seconds': 0.0, 'commands': 'osc_controller/commands', 'joints': joints,
            'position': nodes.READY, 'processes': [controller.process.pid]}, nodes.PATIENCE)
        yield Crew(rate, controller, metronome, sender, joints)
