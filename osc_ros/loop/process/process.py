# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The process of osc_arm's control loop: one thread, without ROS, answers states with torques."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
import math
import os
import pickle
import sys
from threading import Event, Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import on_demand
from osc_ros.control.compiled_law import CompiledLaw, Precomputed
from osc_ros.control.law import Law
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.settings import Settings
from osc_ros.errors import InputError, OscError
from osc_ros.hardware.contract import Description, Hardware, HardwareError
from osc_ros.hardware.hardware_table import hardware_class
from osc_ros.interrupts import set_handler
from osc_ros.loop.cycle import MODES
from osc_ros.loop.process import realtime
from osc_ros.loop.process.arm_cycles import ROWS
from osc_ros.loop.process.channel import Channel, rehearse
from osc_ros.loop.process.hardware_engine import HardwareEngine
from osc_ros.loop.process.process_start import Start, System
from osc_ros.loop.process.reservation import reserve
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

EVENT, ANSWER, ERROR = range(3)  # kinds of messages to the node
OPENED, REFUSED = 'opened', 'refused'  # first event: success or failure
COLLECTED = 1000  # number of cycles between two garbage collections
LOST_PERIOD = 0.01  # polling period of requests while the arm is lost [s]
ENDING = 3.0  # longest time to bring an arm to rest whose node has ended [s]
LOOK_PERIOD = 0.1  # period of the check whether the node runs, while the arm is opened [s]
RECORDED = 600_000  # largest number of cycles whose times are recorded


class ArmEngine(HardwareEngine):
    """A `HardwareEngine` in a process of its own."""

    # The node requests calls of the engine's methods and of functions of `osc_ros.loop.requests`;
    # the engine serves one request per cycle, after the command was sent.

    def __init__(self, law: Law, supervision: Supervision, hardware: Hardware, period: float,
                 channel: Channel, system: System) -> None:
        super().__init__(law, supervision, hardware, period, self._tell)
        # the process ends as soon as the arm is at rest; the loop goes on if the node ends
        self.is_ending, self.is_held = False, True
        self._channel, self.node = channel, os.getppid()  # node: its process id
        self._latest = math.inf  # time by which the process ends [s]
        self._robot = law.robot
        self._builder = ThreadPoolExecutor(1, initializer=realtime.stay_behind)
        self._prepared: Future[CompiledLaw] = Future()
        self._is_alone = self._is_lost = False
        self._cycles.places, self._file = channel.places, system.record_cycles
        self._collected = 0
        if self._file:
            self._cycles.times = np.zeros((RECORDED, 3))

    # The node calls these methods: it sends requests to this process through the channel.

    def recover(self) -> None:
        """Clear an error of the arm."""
        super().recover()
        self._is_lost = False

    def has_enough_states(self) -> bool:
        """Whether the start-up check has enough states, see `StartupStatistics.is_enough`."""
        return self.rest.is_enough

    def use_robot(self, robot: Robot) -> None:
        """Set the robot for the next `prepare`."""
        self._robot = robot

    def prepare(self, settings: Settings, precomputed: Precomputed) -> None:
        """Begin to build the `CompiledLaw` for settings that the node has checked, in a thread."""
        self._prepared = self._builder.submit(self._built, settings, self._robot, precomputed)

    def _built(self, settings: Settings, robot: Robot, precomputed: Precomputed) -> CompiledLaw:
        return self.law.same_setup(settings, robot, precomputed)

    def is_prepared(self) -> bool:
        """Whether `prepare` has ended."""
        return self._prepared.done()

    def use_prepared(self, supervision: Supervision) -> bool:
        """Use the `CompiledLaw` that `prepare` has built; see `use_setup`."""
        return self.use_setup(self._prepared.result(), supervision)

    def end(self) -> None:
        """Bring the arm to rest, then end the process; may be called from a signal handler."""
        self.is_ending = True

    # the cycle

    def run(self) -> None:
        """Run cycles until `end`; after the connection to the arm is lost, only serve requests."""
        try:
            while not self.is_ending or self.acts:
                self._look_for_node()
                if self.is_ending:
                    self._settle()
                    self.deactivate()
                if perf_counter() > self._latest:
                    return
                if self._is_lost:
                    sleep(LOST_PERIOD)
                else:
                    self._try_cycle()
                self._serve()
        finally:
            if self._file:
                times = self._cycles.times[:self._arm.cycle]
                np.save(self._file, np.round(1e9 * times).astype(np.int64))

    def _try_cycle(self, most: int = ROWS) -> None:
        try:
            try:
                self.cycle(most)
            except HardwareError:
                raise
            except Exception as error:  # of any kind: an error must not stop the torques
                self._settle()
                self.fail(f'{type(error).__name__}: {error}')
        except HardwareError as error:
            self._settle()
            # an arm that has ended the control on its own may still send states
            self._is_lost = not self.acts
            self.lose()
            self._stop()
            self._tell('lost', str(error))

    def cycle(self, most: int = 1) -> bool:
        """Do cycles, see `HardwareEngine.cycle`, and record states and torques."""
        arm, times, is_idle = self._arm, self._cycles.times, not self.acts
        arm.numbers[1] = MODES.index(self.mode)
        arm.cycle += is_idle
        if not (is_recorded := super().cycle(most)):
            self._record()  # at the end, so that the record has the final mode of the cycle
        if is_idle:
            times[(arm.cycle - 1) % len(times)] = arm.arrived, 0.0, 0.0
        if arm.cycle - self._collected >= COLLECTED:
            self._collected = arm.cycle
            realtime.collect_garbage()
        return is_recorded

    def _look_for_node(self) -> None:
        """If the node has ended, print this once; end the loop, too, unless `is_held`."""
        if self._is_alone or os.getppid() == self.node:
            return
        self._is_alone = True
        if self.is_held and not self._is_lost:
            print('osc_ros: the program of this control loop has ended: the arm follows its last '
                  f'target and then holds it; to stop the arm: kill {os.getpid()}',
                  file=sys.stderr, flush=True)
            return
        print('osc_ros: the program of this control loop has ended: the loop ends',
              file=sys.stderr, flush=True)
        self._latest = perf_counter() + ENDING
        self.end()

    def _record(self) -> None:
        q, qd, effort, numbers, tau = self._places
        numbers[0], numbers[1] = self._has_written, MODES.index(self.mode)
        self._channel.record(self._arm.arrived, numbers, q, qd, effort, tau)

    def _tell(self, event: str, *arguments: Any) -> None:
        """Send an event to the node; drop it if the queue is full."""
        self._channel.events.put(pickle.dumps((EVENT, event, arguments)))

    def _serve(self) -> None:
        """Serve at most one request of the node."""
        message = self._channel.requests.take()
        if message is None:
            return
        number, kind, answer = -1, ERROR, None
        try:
            number, what, arguments = pickle.loads(message)
            kind, answer = ANSWER, self.request(what, *arguments)
        except OscError as error:
            answer = error
        except Exception as error:  # an error must not end the loop
            answer = OscError(f'{type(error).__name__}: {error}')
        try:
            self._send_answer(kind, number, answer)
        except InputError as error:  # too long, for example a recorded path of 10,000 poses
            self._send_answer(ERROR, number, error)

    def _send_answer(self, kind: int, number: int, answer: object) -> None:
        self._channel.events.put(pickle.dumps(
            (kind, number, (answer, self._channel.count, self.mode))))


def open_arm(start: Start, channel: Channel) -> tuple[ArmEngine, Description]:
    """Open an arm; InputError or HardwareError if this fails, or it does not fit the robot."""
    robot = start.robot
    hardware = hardware_class(start.hardware)(start.values, start.urdf, robot.joint_names)
    described = hardware.open()
    try:
        settings, guard = start.settings_for(described)
        with on_demand():
            rehearse()
            law = Law(robot, settings, start.method, 1)
        engine = ArmEngine(law, guard, hardware, described.period, channel, start.system)
        engine.is_held = described.is_held
        return engine, described
    except BaseException:
        with suppress(HardwareError):
            hardware.close()
        raise


def set_system(system: System) -> str:
    """Apply settings of the operating system; return the result of each, for the log."""
    texts = [realtime.wake_on_time()]
    if system.cpus:
        texts.append(realtime.run_on(system.cpus))
    if system.lock_memory:
        texts.append(realtime.lock_memory())
    if system.priority:
        texts.append(realtime.prioritize(system.priority))
    return ', '.join(text for text in texts if text)


def _end_with(node: int, is_open: Event) -> None:
    """End this process at once if the node ends before the arm is open."""
    # In a thread, because opening an arm can block for long (compilation, driver).
    while not is_open.wait(LOOK_PERIOD):
        if os.getppid() != node:
            os._exit(0)


def main() -> None:
    """Run the loop of an arm; arguments: joints, file of the channel, process id of the node."""
    # the node may end at any time, also before this begins, or while the arm is opened
    joints, file, node = map(int, sys.argv[1:])
    channel = Channel(joints, file)
    is_open = Event()
    watch = Thread(target=_end_with, args=[node, is_open], daemon=True)
    watch.start()
    while (message := channel.requests.take()) is None:
        sleep(1e-3)
    start: Start = pickle.loads(message)
    reserved = None
    try:
        kind = hardware_class(start.hardware)
        reserved = reserve(start.hardware, kind.settings, start.values)
        engine, described = open_arm(start, channel)
        engine.node = node
    except Exception as error:  # the node reports it
        text = str(error) if isinstance(error, OscError) else f'{type(error).__name__}: {error}'
        channel.events.put(pickle.dumps((EVENT, REFUSED, (text,))))
        return
    is_open.set()
    watch.join()
    set_handler(lambda *_: engine.end())
    system_text = set_system(start.system)
    realtime.keep_garbage_out(engine)
    channel.events.put(pickle.dumps((EVENT, OPENED, (described, system_text))))
    try:
        engine.run()
    finally:
        with suppress(HardwareError):
            engine.hardware.close()
        if reserved is not None:
            reserved.close()


if __name__ == '__main__':
    main()
