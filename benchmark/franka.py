# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Times the answer to a state of an arm of Franka, by franka-sim: with and without the law.

`python benchmark/franka.py [--cycles 20000] [--priority 80]` prints a table. `measure` takes
further loops. franka-sim is a process of its own on the same computer, so that with two cores its
1 kHz is less regular than that of an arm; the answer, from the state to the torque, is not.

"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
import gc
import os
from pathlib import Path
import tempfile
from time import perf_counter
from typing import Any

import numpy as np
import pylibfranka

from osc_ros import Law, Limits, Robot, Settings
from osc_ros.control.model_error.driver import Driver
from osc_ros.hardware.contract import HardwareError
from osc_ros.hardware.franka import FrankaArm
from osc_ros.model.files import shipped_urdf
from osc_ros.sim.franka_server import FrankaServer

URDF = shipped_urdf('fr3')
NAMES = tuple(f'fr3_joint{k}' for k in range(1, 8))
SLICE = 2000  # cycles of one loop before it is the turn of the next one
SIDE, TURN = 0.05, 4.0  # path of the tip: amplitude [m], duration of a period [s]
LATE = 0.0003  # of a state: more than a period and this since the last one [s]

# A loop: address of the arm and number of cycles → samples.
Loop = Callable[[str, int], 'Samples']


class Samples:
    """
    What was measured in cycles of control; `+=` appends.

    Attributes
    ----------
    answer : list of float
        From the return of libfranka's readOnce to that of its writeOnce [s].
    between : list of float
        From state to state [s].
    success : list of float
        Share of commands of the last 100 cycles that the arm received in time, by its own count.
    ends : int
        Motions that the arm ended because torques were late.

    """

    def __init__(self) -> None:
        self.answer: list[float] = []
        self.between: list[float] = []
        self.success: list[float] = []
        self.ends = 0

    def __iadd__(self, other: Samples) -> Samples:
        self.answer += other.answer
        self.between += other.between
        self.success += other.success
        self.ends += other.ends
        return self

    def row(self) -> dict[str, float]:
        """Return percentiles in µs, and shares."""
        answer, between = (1e6 * np.array(part) for part in (self.answer, self.between))
        row = {f'answer {name}': float(value) for name, value in zip(
            ('p50', 'p99', 'p99.9', 'max'), np.percentile(answer, [50.0, 99.0, 99.9, 100.0]))}
        row |= {f'period {name}': float(value) for name, value in zip(
            ('p99', 'p99.9', 'max'), np.percentile(between, [99.0, 99.9, 100.0]))}
        row['late'] = float(np.count_nonzero(between > 1e6 * (0.001 + LATE)))
        row['success'] = float(np.mean(self.success))
        row['ends'] = float(self.ends)
        return row


def measure(loops: Mapping[str, Loop], cycles: int, address: str) -> dict[str, Samples]:
    """Run the loops in turns, in slices, until each has carried out a number of cycles."""
    found = {name: Samples() for name in loops}
    while any(len(samples.answer) < cycles for samples in found.values()):
        for name, loop in loops.items():
            if (left := cycles - len(found[name].answer)) > 0:
                found[name] += loop(address, min(left, SLICE))
    return found


class Timed:
    """A control of libfranka that appends the times of its calls to samples."""

    def __init__(self, control: Any, samples: Samples) -> None:
        self._control, self._samples = control, samples
        self._read = 0.0

    def readOnce(self) -> Any:
        """Wait for a state."""
        found = self._control.readOnce()
        now = perf_counter()
        if self._read:
            self._samples.between.append(now - self._read)
        self._samples.success.append(found[0].control_command_success_rate)
        self._read = now
        return found

    def writeOnce(self, torques: Any) -> None:
        """Send torques."""
        self._control.writeOnce(torques)
        if not torques.motion_finished:
            self._samples.answer.append(perf_counter() - self._read)


def zero_torques(address: str, cycles: int) -> Samples:
    """Answer with zero torques; nothing but pylibfranka."""
    samples = Samples()
    policy = os.sched_getscheduler(0), os.sched_getparam(0)
    robot = pylibfranka.Robot(address, pylibfranka.RealtimeConfig.kIgnore)
    os.sched_setscheduler(0, *policy)  # libfranka takes SCHED_FIFO even so, if it may
    control = Timed(robot.start_torque_control(), samples)
    torques = pylibfranka.Torques([0.0] * 7)
    gc.disable()
    try:
        for _ in range(cycles):
            control.readOnce()
            control.writeOnce(torques)
    except pylibfranka.ControlException:
        samples.ends += 1
    gc.enable()
    torques.motion_finished = True
    control.writeOnce(torques)
    return samples


class FollowedPath:
    """A loop: the law moves the tip along a line, to and fro, through `FrankaArm`."""

    def __init__(self) -> None:
        self._text = URDF.read_text()
        robot = Robot.from_urdf(self._text, base='fr3_link0', tip='fr3_link8')
        limits = Limits.of(robot, effort_rate=np.full(7, 800.0))
        self._law = Law(robot, Settings.of(robot, driver=Driver(robot, 'gravity'), limits=limits))
        self.errors: list[float] = []

    def __call__(self, address: str, cycles: int) -> Samples:
        """Carry out a slice, which begins at rest."""
        law, samples = self._law, Samples()
        values = {setting.name: setting.default for setting in FrankaArm.settings}
        arm = FrankaArm({**values, 'address': address, 'realtime': 'ignore'}, self._text, NAMES)
        arm.open()
        law.hold(arm.read().q)
        gc.disable()
        try:
            arm.start()
            arm._control = Timed(arm._control, samples)
            state = arm.read()
            arm.write(law.torque(state.time, state.q, state.qd))
            origin = law.pose.copy()
            for k in range(1, cycles):
                state = arm.read()
                arm.write(law.torque(state.time, state.q, state.qd))
                goal = origin.copy()
                goal[1, 3] += SIDE * np.sin(2.0 * np.pi * k / (1000.0 * TURN)) ** 2
                law.follow(goal)
                law.plan()
                self.errors.append(float(np.linalg.norm(law.error[3:])))
        except HardwareError as error:
            if 'communication_constraints_violation' not in str(error):
                raise
            samples.ends += 1
        gc.enable()
        arm.close()
        return samples


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--cycles', type=int, default=20_000, help='of each loop')
    parser.add_argument('--priority', type=int, default=0, help='under SCHED_FIFO; 0: without')
    given = parser.parse_args()
    path = FollowedPath()
    loops = {'pylibfranka, zero torques': zero_torques, 'FrankaArm and Law': path}
    with (tempfile.TemporaryDirectory() as folder,
          FrankaServer(URDF, Path(folder) / 'server.log') as server):
        if given.priority:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(given.priority))
        found = measure(loops, given.cycles, server.address)
    for name, samples in found.items():
        print(name)
        print('  ' + ', '.join(f'{figure} {value:.4g}' for figure, value in samples.row().items()))
    print(f'  of the law: greatest error of the tip {1e3 * max(path.errors):.2f} mm')


if __name__ == '__main__':
    main()
