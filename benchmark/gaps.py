"""
The longest gap between two commands of the controller, whatever else arrives there.

Three processes beside each other: osc_controller as users start it, `metronome`, which publishes
joint states at the rate and times the commands, and `disturb`, which sends one kind of message or
request at a time.

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
from nodes import CONTROLLER, EVENTS, NodesError, ON_STATE, Way

RATES = 500, 1000  # of the joint states [Hz]
OFTEN, SELDOM = 100.0, 1.0  # of what is sent [Hz]
SECONDS = 1.5  # that a cell is watched, where nothing else is asked for
ALLOWED = 2.0  # that the longest gap may be longer than without [periods]
WIDE = 1.0 + ALLOWED  # a gap that is counted [periods]
PATIENCE = 120.0  # until commands come regularly, after what was sent before [s]
DEBUG = '--log-level', 'debug'


@dataclass(frozen=True)
class Disturbance:
    """
    What arrives beside the joint states.

    Attributes
    ----------
    name : str
        What a table calls it.
    kind : str
        One of `disturb.KINDS`.
    rate : float [Hz]
        At which it is sent; 0 where nothing is.
    arguments : tuple of str
        Of the controller's command line, beside its parameters.

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
    NOTHING,
    Disturbance('log level debug', 'nothing', 0.0, DEBUG),
    Disturbance('pose targets, log level debug', 'poses', OFTEN, DEBUG),
)


@dataclass(frozen=True)
class Cell:
    """
    What was found while one disturbance arrived.

    Attributes
    ----------
    disturbance : Disturbance
    rate : int
        Of the joint states [Hz].
    sent, answered : int
        How often it was sent; responses to requests.
    states, commands : int
        While the commands were watched.
    longest, p999 : float
        Of the gaps between commands [periods].
    more : float
        `longest`, less the median of `longest` with nothing sent, at this rate [periods].
    wide : int
        Gaps longer than WIDE periods.
    pause : float
        Longest gap between two states, which the metronome is late by [periods].
    missed : int
        States without an answer before the next state.
    p50, p99 : float
        Latency of the states that were answered [µs].
    cpu : float
        Share of a core that the controller took.

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
    """All cells, the priority of SCHED_FIFO or 0 for none, and the load average before."""

    seconds: float
    cells: list[Cell]
    priority: int
    load_average: tuple[float, float, float]


def section(seconds: float, disturbances: Sequence[Disturbance] = DISTURBANCES,
            rates: Sequence[int] = RATES, priority: int | None = None,
            done: Callable[[str], None] = lambda what: None) -> Section | None:
    """
    Return a cell for each disturbance at each rate; None where there is no rclpy.

    Parameters
    ----------
    seconds : float
        That the commands are watched in each cell.
    disturbances : sequence of Disturbance
        In this order; NOTHING may be among them several times, and shows the noise.
    rates : sequence of int
        Of the joint states [Hz].
    priority : int, optional
        Of SCHED_FIFO, for the controller and the metronome, so that other processes on the
        machine delay neither; 0 for none. nodes.PRIORITY if not given and permitted.
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
                with _crew(rate, arguments, priority, sender, work, environment) as crew:
                    for disturbance in own:
                        found.append(crew.cell(disturbance, seconds))
                        done(f'gaps, {rate} Hz, {disturbance.name}: {found[-1]["longest"]:.1f}')
            plain = [values['longest'] for values in found
                     if values['disturbance'] == NOTHING] or [np.nan]
            cells += [Cell(**values, more=values['longest'] - float(np.median(plain)))
                      for values in found]
    return Section(seconds, cells, priority, load)


class Peer:
    """A process that is told lines of JSON, and answers with lines of JSON."""

    def __init__(self, name: str, running: tuple[subprocess.Popen, Path]) -> None:
        self.name = name
        self.process, self._log = running

    @property
    def log(self) -> str:
        """What the process wrote to its standard error, the last part of it."""
        return self._log.read_text(errors='replace')[-4000:]

    def told(self, what: object, patience: float, *others: Peer) -> object:
        """
        Tell the process something, and return its answer.

        Raises
        ------
        NodesError
            It, or one of the others, ended, or there was no answer in time.

        """
        nodes.tell(self.process, what)
        return self.said(patience, f'{what}', *others)

    def said(self, patience: float, what: str, *others: Peer) -> object:
        """Return what the process says next; refuses as `told`."""
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
class _Crew:
    """A controller at one rate, the metronome, and what disturbs it."""

    rate: int
    controller: Peer
    metronome: Peer
    sender: Peer
    joints: list[str]

    def cell(self, disturbance: Disturbance, seconds: float) -> dict[str, object]:
        """Return what a Cell has, all but `more`, once commands come regularly again."""
        self.metronome.told(0.0, nodes.PATIENCE, self.controller)
        self.sender.told({'kind': disturbance.kind, 'rate': disturbance.rate,
                          'joints': self.joints, 'position': nodes.READY}, PATIENCE,
                         self.controller)
        watched = self.metronome.told(seconds, PATIENCE + seconds, self.controller)
        counts = self.sender.told('stop', PATIENCE, self.controller)
        gaps, times = np.array(watched['gaps']), np.array(watched['latencies'])
        answered = times[np.isfinite(times)]
        p50, p99 = np.percentile(answered, (50, 99)).tolist() if len(answered) else [np.inf] * 2
        return {'disturbance': disturbance, 'rate': self.rate, **counts, 'states': len(times),
                'commands': len(gaps),
                'longest': float(gaps.max()), 'p999': float(np.percentile(gaps, 99.9)),
                'wide': int((gaps > WIDE).sum()), 'pause': max(watched['pauses']),
                'missed': watched['missed'], 'p50': p50, 'p99': p99, 'cpu': watched['cpu'][0]}


@contextmanager
def _crew(rate: int, arguments: Sequence[str], priority: int, sender: Peer, work: Path,
          environment: dict[str, str]) -> Iterator[_Crew]:
    """Give a crew whose controller ends with the block, as it does for users, by SIGINT."""
    given = nodes.parameters(CONTROLLER, Way(CONTROLLER, EVENTS, ON_STATE, rate, priority))
    with ExitStack() as stack:
        controller = Peer('osc_controller', stack.enter_context(nodes.running(
            ['-m', 'osc_ros.nodes.controller', *given, *arguments], work, environment)))
        metronome = Peer('metronome', stack.enter_context(nodes.running(
            [nodes.HERE / 'metronome.py', priority, 'endless'], work, environment)))
        stack.callback(controller.process.send_signal, signal.SIGINT)
        joints = list(nodes.panda_arm().joint_names)
        metronome.told({
            'rate': rate, 'seconds': 0.0, 'commands': 'osc_controller/commands', 'joints': joints,
            'position': nodes.READY, 'processes': [controller.process.pid]}, nodes.PATIENCE)
        yield _Crew(rate, controller, metronome, sender, joints)
