# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Takes the place of the hardware in `nodes` and `gaps`: sends joint states, records commands.

`python benchmark/metronome.py PRIORITY`: under SCHED_FIFO with this priority, 0 for none. Each
line of its standard input is a specification as JSON; the process answers with a line of results,
first with the other core idle and then with it busy.

`python benchmark/metronome.py PRIORITY endless`, for `gaps`: the first line is a specification,
whose `seconds` is not used; the answer is true. From then on states are published continuously.
Each further line is the number of seconds to measure the commands; the answer is `Watched` as
JSON. 0 waits until commands come regularly; the answer is true. Send a line only after the last
answer.

The process sleeps until the next state is due, because on two cores a spinning process would be
an additional load. So states are some tens of µs late; latencies count from actual publications.

"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
import json
import math
import os
from select import select
import subprocess
import sys
from threading import Thread
from time import clock_gettime, perf_counter, sleep
from typing import Any

import numpy as np
import rclpy
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.loop.process import realtime
from osc_ros.ros.messages import commands, messages
from osc_ros.ros.process.node_process import EventsExecutor

IDLE, BUSY = 'idle', 'busy'  # load of the other core
BUSY_LOOP = """
import os
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # not the policy of the parent
parent = os.getppid()
while os.getppid() == parent: pass
"""
LAST = 0.2  # time to wait for answers after the last state [s]
# Of the joints: amplitude [rad], angular frequency [rad/s]. No torque moves them: with 0.01 rad
# the torques against this motion would be external ones to the controller, and a contact.
SWAY, SLOWLY = 0.002, 2.0
CHUNK = 5  # number of states published between two checks of the standard input
CALM, CALM_TIME = 8.0, 0.3  # commands are regular: no gap longer than this [periods], for [s]
CALMED = 10.0  # longest wait for regular commands [s]
RESUMES = 30.0  # longest wait for the command that ends the last gap [s]


@dataclass(frozen=True)
class Specification:
    """
    The settings of a measurement.

    Attributes
    ----------
    rate : float
        Rate of the joint states [Hz].
    seconds : float
        Duration of the measurement with the other core idle, and again with it busy.
    commands : str
        Topic of the commands that answer the states.
    joints, position : list of n
        Mean positions of the joints, which move by SWAY at most [rad].
    processes : list of int
        Process ids whose CPU time is measured.
    warm_up : float
        Time before each measurement [s].
    busy : bool
        Whether to measure again with the other core busy.

    """

    rate: float
    seconds: float
    commands: str
    joints: list[str]
    position: list[float]
    processes: list[int]
    warm_up: float = 0.3
    busy: bool = True


@dataclass(frozen=True)
class Found:
    """
    The results of a measurement.

    Attributes
    ----------
    latencies : list of float
        Time from just before the publication of each state to its command [µs]; infinite
        without a command.
    missed : int
        Number of states without an answer before the next state.
    cpu : list of float
        Share of a core that each of the processes used.
    late : float
        99th percentile of the delays with which states were published [µs].

    """

    latencies: list[float]
    missed: int
    cpu: list[float]
    late: float


@dataclass(frozen=True)
class Watched:
    """
    The results of a measurement of the commands by an endless metronome.

    Attributes
    ----------
    latencies : list of float
        As in `Found` [µs].
    missed : int
        As in `Found`.
    gaps : list of float
        Time between each command and the next [periods]; the last one ends after the measurement.
    pauses : list of float
        Time between each state and the next [periods]: the delays of the metronome itself.
    cpu : list of float
        As in `Found`.

    """

    latencies: list[float]
    missed: int
    gaps: list[float]
    pauses: list[float]
    cpu: list[float]


@dataclass
class Metronome:
    """Publishes joint states; records when each command came and which state it answers."""

    given: Specification
    tick: int = 0
    answered: dict[str, float] = field(default_factory=dict)
    arrivals: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.node = Node('metronome')
        self._position = np.array(self.given.position)
        self._states = self.node.create_publisher(JointState, 'joint_states', 10)
        self.node.create_subscription(
            Float64MultiArray, self.given.commands, self._on_command, 10)

    def _on_command(self, message: Float64MultiArray) -> None:
        now = perf_counter()
        self.arrivals.append(now)
        self.answered.setdefault(commands.label(message), now)

    def publish(self, count: int) -> tuple[list[str], list[float], list[float]]:
        """Publish `count` states; return their labels, times and delays [s]."""
        period, rest = 1.0 / self.given.rate, np.zeros(len(self._position))
        labels, left, late = [], [], []
        due = perf_counter()
        for _ in range(count):
            self.tick += 1
            time = self.tick * period
            message = messages.joint_state(
                self.given.joints, time, self._position + SWAY * math.sin(SLOWLY * time),
                np.full(len(rest), SWAY * SLOWLY * math.cos(SLOWLY * time)), rest)
            labels.append(messages.label_of(message.header.stamp))
            due += period
            sleep(max(0.0, due - perf_counter()))
            left.append(perf_counter())
            self._states.publish(message)
            late.append(left[-1] - due)
            due = max(due, left[-1] - period)  # like hardware, skip states that are too late
        return labels, left, late

    def is_answered(self) -> bool:
        """Return whether a command answers a state; other commands have the label `hold`."""
        return any(commands.labelled_time(label) is not None for label in list(self.answered))

    def measured(self) -> Found:
        """Return the results of a measurement of `seconds`."""
        self.publish(round(self.given.warm_up * self.given.rate))
        self.answered.clear()
        used, began = _cpu_times(self.given.processes), perf_counter()
        labels, left, late = self.publish(max(2, round(self.given.seconds * self.given.rate)))
        used, took = _cpu_times(self.given.processes) - used, perf_counter() - began
        sleep(LAST)
        came = np.array([self.answered.get(label, np.inf) for label in labels])
        latencies = came - left
        return Found((1e6 * latencies).tolist(), int((came[:-1] >= left[1:]).sum()),
                     (used / took).tolist(), 1e6 * float(np.percentile(late, 99)))

    def watched(self, seconds: float) -> Watched:
        """Record the commands for some seconds, and until the next command after that."""
        rate = self.given.rate
        self.answered.clear()
        self.arrivals.clear()
        self.publish(CHUNK)
        used, began = _cpu_times(self.given.processes), perf_counter()
        labels, left, _ = self.publish(max(2, round(seconds * rate)))
        ended = perf_counter()
        used = _cpu_times(self.given.processes) - used
        self.publish(round(LAST * rate))
        while not (self.arrivals and self.arrivals[-1] > ended):
            if perf_counter() > ended + RESUMES:
                self.arrivals.append(perf_counter())
            self.publish(CHUNK)
        arrivals = np.array(self.arrivals)
        first = np.searchsorted(arrivals, left[0], side='right') - 1
        last = np.searchsorted(arrivals, ended)
        times = arrivals[max(0, first):last + 1]
        if first < 0:  # no command came before the first state
            times = np.hstack([left[0], times])
        latencies = np.array([self.answered.get(label, np.inf) for label in labels]) - left
        return Watched(
            (1e6 * latencies).tolist(), int((latencies[:-1] >= np.diff(left)).sum()),
            (rate * np.diff(times)).tolist(), (rate * np.diff(left)).tolist(),
            (used / (ended - began)).tolist())

    def settle(self) -> None:
        """Publish until commands answer the states regularly, or CALMED is over."""
        wanted, latest = round(CALM_TIME * self.given.rate), perf_counter() + CALMED
        while True:
            self.answered.clear()
            self.arrivals.clear()
            began = perf_counter()
            self.publish(wanted)
            times = np.hstack([began, self.arrivals, perf_counter()])
            is_calm = np.diff(times).max() < CALM / self.given.rate
            if self.is_answered() and (is_calm or times[-1] > latest):
                return


def _cpu_times(processes: list[int]) -> np.ndarray:
    """Return the CPU time of processes [s], by their clocks (Linux: MAKE_PROCESS_CPUCLOCK)."""
    return np.array([clock_gettime(~process << 3 | 2) for process in processes])


@contextmanager
def _busy() -> Iterator[None]:
    """Keep the last core busy by a process that ends with this one."""
    process = subprocess.Popen([sys.executable, '-c', BUSY_LOOP])
    try:
        os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _at_work(given: Specification) -> Iterator[Metronome]:
    """Yield a metronome; a thread receives the commands."""
    rclpy.init(args=[])
    metronome = Metronome(given)
    executor = EventsExecutor()
    executor.add_node(metronome.node)
    told: list[bool] = []

    def listen() -> None:
        while not told:
            executor.spin_once(timeout_sec=0.1)

    listener = Thread(target=listen)
    listener.start()
    try:
        yield metronome
    finally:
        told.append(True)
        listener.join()
        executor.remove_node(metronome.node)
        metronome.node.destroy_node()
        executor.shutdown()
        rclpy.shutdown()


def found(given: Specification) -> dict[str, Any]:
    """Return the latencies of a node, with the other core idle and with it busy."""
    with _at_work(given) as metronome:
        while not metronome.is_answered():
            metronome.publish(10)
        realtime.keep_garbage_out(None)
        results = {IDLE: asdict(metronome.measured())}
        if given.busy:
            with _busy():
                results[BUSY] = asdict(metronome.measured())
        return results


def endless(given: Specification) -> None:
    """Publish states continuously; measure the commands on each line of input."""
    with _at_work(given) as metronome:
        realtime.keep_garbage_out(None)
        print('true', flush=True)
        while True:
            metronome.publish(CHUNK)
            if not select([sys.stdin], [], [], 0.0)[0]:
                continue
            line = sys.stdin.readline()
            if not line:
                return
            seconds = json.loads(line)
            if seconds:
                print(json.dumps(asdict(metronome.watched(seconds))), flush=True)
            else:
                metronome.settle()
                print('true', flush=True)


if __name__ == '__main__':
    realtime.wake_on_time()
    if int(sys.argv[1]):
        realtime.prioritize(int(sys.argv[1]))
    if 'endless' in sys.argv:
        endless(Specification(**json.loads(sys.stdin.readline())))
    for line in sys.stdin:
        print(json.dumps(found(Specification(**json.loads(line)))), flush=True)
