"""
The hardware's side of what `nodes` measures: joint states at a rate, and when commands come.

`python benchmark/metronome.py PRIORITY`, of SCHED_FIFO or 0; each line of its standard input is a
specification as JSON, and is answered by a line of what was found with the other core idle, and
busy.

It sleeps until the next state is due, for on two cores one that spins would be a load of its own.
So states leave some tens of µs late; but a latency begins when its state was in fact published.

"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import ctypes
from dataclasses import asdict, dataclass, field
import json
import math
import os
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

from osc_ros.nodes import messages, realtime
from osc_ros.nodes.run import EventsExecutor

IDLE, BUSY = 'idle', 'busy'  # the other core
BUSY_LOOP = """
import os
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # whatever its parent has
parent = os.getppid()
while os.getppid() == parent: pass
"""
WARM_UP = 0.3  # [s]
LAST = 0.2  # that an answer is waited for after the last state [s]
SWAY, SLOWLY = 0.01, 2.0  # of the joints: amplitude [rad], angular frequency [rad/s]
TIMER_SLACK = 29  # PR_SET_TIMERSLACK of <linux/prctl.h>


@dataclass(frozen=True)
class Specification:
    """
    What is to be measured.

    Attributes
    ----------
    rate : float
        Of the joint states [Hz].
    seconds : float
        That are measured with the other core idle, and the same again with it busy.
    commands : str
        Topic of the answers.
    joints, position : list of n
        About which the joints sway, at most SWAY away [rad].
    processes : list of int
        Whose CPU time is wanted.

    """

    rate: float
    seconds: float
    commands: str
    joints: list[str]
    position: list[float]
    processes: list[int]


@dataclass(frozen=True)
class Found:
    """
    What was measured.

    Attributes
    ----------
    latencies : list of float
        Of each state, from before it was published until its answer was there [µs]; infinite
        where none came.
    missed : int
        States without an answer before the next state.
    cpu : list of float
        Share of a core that each of the processes took.
    late : float
        99th percentile of how late the states left [µs].

    """

    latencies: list[float]
    missed: int
    cpu: list[float]
    late: float


@dataclass
class Metronome:
    """Publishes joint states, and remembers when which was answered first."""

    given: Specification
    tick: int = 0
    answered: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.node = Node('metronome')
        self._position = np.array(self.given.position)
        self._states = self.node.create_publisher(JointState, 'joint_states', 10)
        self.node.create_subscription(
            Float64MultiArray, self.given.commands, self._on_command, 10)

    def _on_command(self, message: Float64MultiArray) -> None:
        now = perf_counter()
        self.answered.setdefault(messages.label(message), now)

    def publish(self, count: int) -> tuple[list[str], list[float], list[float]]:
        """Publish so many states; labels, when they left, how late that was [s]."""
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
            due = max(due, left[-1] - period)  # hardware skips what it is too late for
        return labels, left, late

    def is_answered(self) -> bool:
        """Whether states are answered, and not only held."""
        return any(messages.labelled_time(label) is not None for label in list(self.answered))

    def measured(self) -> Found:
        """Measure for the wanted time."""
        self.publish(round(WARM_UP * self.given.rate))
        self.answered.clear()
        used, began = _cpu_times(self.given.processes), perf_counter()
        labels, left, late = self.publish(max(2, round(self.given.seconds * self.given.rate)))
        used, took = _cpu_times(self.given.processes) - used, perf_counter() - began
        sleep(LAST)
        came = np.array([self.answered.get(label, np.inf) for label in labels])
        latencies = came - left
        return Found((1e6 * latencies).tolist(), int((came[:-1] >= left[1:]).sum()),
                     (used / took).tolist(), 1e6 * float(np.percentile(late, 99)))


def _cpu_times(processes: list[int]) -> np.ndarray:
    """CPU time of processes [s], by their clocks (MAKE_PROCESS_CPUCLOCK of Linux)."""
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


def found(given: Specification) -> dict[str, Any]:
    """Wait until states are answered, and measure, with the other core idle and busy."""
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
        while not metronome.is_answered():
            metronome.publish(10)
        realtime.keep_garbage_out()
        idle = asdict(metronome.measured())
        with _busy():
            return {IDLE: idle, BUSY: asdict(metronome.measured())}
    finally:
        told.append(True)
        listener.join()
        executor.remove_node(metronome.node)
        metronome.node.destroy_node()
        executor.shutdown()
        rclpy.shutdown()


if __name__ == '__main__':
    ctypes.CDLL(None).prctl(TIMER_SLACK, 1, 0, 0, 0)  # else a sleep ends 50 µs later
    if int(sys.argv[1]):
        realtime.prioritize(int(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(found(Specification(**json.loads(line)))), flush=True)
