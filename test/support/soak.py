# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""System of the soak test: hardware, relay and controller, random commands, and recovery."""

from collections import Counter
from contextlib import suppress
import gc
import os
from pathlib import Path
import re
import time as wall

import numpy as np
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from std_srvs.srv import Trigger
import yaml

from hardware import Foreign, Hardware, PERIOD, TOO_FAST
from judge import robot_cases
from osc_ros.control.setpoint.trajectory import figure_of_eight
from osc_ros.ros.messages import messages
from osc_ros.ros.parameters.controller_parameters import PARAMETERS
from osc_ros.ros.process.node_process import EventsExecutor
from osc_ros.ros.process.share import share_directory

UNANSWERED = 0.02  # wall time after which, in lockstep, the plant repeats its last torque [s]
CATCH_UP = 5  # ticks that a plant on the wall clock catches up on if it is late; it skips the rest
PATIENCE = 240.0  # wall-time limit for a process, which may have to compile kernels first [s]
ANSWERED = 10.0  # wall-time limit for the response of a service [s]
ATTEMPTS = 3  # attempts to restart the system
RELAY = 0.1  # time without commands after which the relay acts [s]

# Limits, in addition to the checks of `hardware.Judge` in every tick:
NEAR, TURNED = 1e-3, 2e-3  # tolerances for the tip to have reached its goal [m, rad]
DRIFT = 5e-3  # largest drift of a stopped arm in 1 s [rad, m]
SILENCE = RELAY / PERIOD  # longest time between commands of a busy controller [periods]
SILENT = ('long trajectories', 'flood of requests')  # faults during which SILENCE must hold
RAISED = re.compile(r'Traceback|\b[A-Z][A-Za-z]*(?:Error|Exception|Interrupt)\b')

DECLARED = {entry.name for entry in PARAMETERS}


def stated(arm, folder):
    """Return the command-line arguments of a node for this arm; write URDF and parameter file."""
    if arm.name == 'panda':
        return ['--ros-args', '--params-file', share_directory() / 'config' / 'panda.yaml']
    case = robot_cases()[arm.name]
    urdf, file = folder / f'{arm.name}.urdf', folder / f'{arm.name}.yaml'
    urdf.write_text(case.urdf_text)
    robot = {'robot_description_file': str(urdf), 'base': case.base, 'tip': case.tip}
    if case.locked:
        robot |= {'locked_joints': list(case.locked),
                  'locked_positions': list(case.locked.values())}
    if 'velocity' in DECLARED:
        robot['velocity'] = 'auto'
    file.write_text(yaml.safe_dump({
        '/**': {'ros__parameters': robot},
        '/**/osc_controller': {'ros__parameters': {
            f'target.{name}': value for name, value in arm.target.items()}}}))
    return ['--ros-args', '--params-file', file]


class Lost(Exception):
    """The arm was lost, a process ended, or a wait timed out."""


class System:
    """Hardware, relay and controller; sends random goals and faults, and checks the recovery."""

    def __init__(self, arm, processes, folder, paced, seed):
        """Create the hardware, and start relay and controller."""
        self.arm, self.paced, self.rng = arm, paced, np.random.default_rng(seed)
        self.processes, self._stated = processes, stated(arm, folder)
        self._executor = EventsExecutor()
        self.hardware = Hardware(arm, self.rng)
        self.judge = self.hardware.judge
        self._executor.add_node(self.hardware)
        self.counts, self.memory, self._raised = Counter(), [], 0
        self._probe = Foreign(arm)  # a second plant, to compute poses, also beyond joint limits
        self.paths = [self._path(points) for points in (1000, 3000, 10000)]
        gc.collect()
        gc.freeze()  # garbage collection of the imported modules would delay a paced plant
        self._spin(0.5)  # time to discover other nodes in the ROS domain
        self._due = wall.perf_counter()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def draw_from(self, *seed):
        """Seed the random numbers again."""
        self.rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def close(self):
        """End the processes and the node."""
        self.processes.end()
        self._executor.remove_node(self.hardware)
        self.hardware.destroy_node()
        self._executor.shutdown()
        gc.unfreeze()

    def _path(self, points):
        """Return a figure of eight, serialized in advance, because that takes up to a second."""
        path = figure_of_eight(self.hardware.home, 0.1, 0.05, self.arm.period, 1.0, 0.0,
                               (points - 1) / (1.25 * self.arm.period))
        case = robot_cases()[self.arm.name]
        return serialize_message(messages.trajectory_message(path, case.base, case.tip))

    # processes

    def _begin(self):
        count, names = self.hardware.count_subscribers, ('joint_states', 'osc_relay/commands')
        if self.processes.running == [] and [count(name) for name in names] != [0, 1]:
            raise RuntimeError(f'others use the ROS domain {os.environ["ROS_DOMAIN_ID"]}')
        self.relay = self.processes.start(
            'relay', *self._stated, '-p', f'command_timeout:={RELAY}')
        self.start_controller()

    def start_controller(self):
        """Start a controller, and wait until it is active, and a goal would reach it."""
        before = self._listeners()  # a killed one is listed for some time
        self.controller = self.processes.start('controller', *self._stated,
                                               '-p', 'speed_override:=100.0')
        count = self.hardware.count_subscribers
        self.until(lambda: count('joint_states') > 1 and is_active(self.controller)
                   and self._listeners() - before, 'for a controller')

    def _listeners(self):
        """Return the identifiers of the subscriptions of goals."""
        return {bytes(one.endpoint_gid) for one in
                self.hardware.get_subscriptions_info_by_topic(self.hardware.poses.topic_name)}

    def second_controller(self):
        """Start a second controller with the same names; return it when active or ended."""
        second = self.processes.start(
            'controller', *self._stated, '-p', 'watchdog.other_publisher.on_activation:=accept')
        self.until(lambda: is_active(second) or second.poll() is not None, 'for a second one')
        return second

    def start_over(self):
        """Reset the arm, and restart relay and controller; try up to ATTEMPTS times."""
        for _ in range(ATTEMPTS - 1):
            try:
                return self._start_over()
            except Lost as error:
                self.judge.object(self.hardware.time, f'lost at the start: {error}', 1)
        return self._start_over()

    def _start_over(self):
        for process in self.processes.running:
            if process.poll() is None:
                process.kill()
                process.wait()
        hardware = self.hardware
        hardware.repair()
        hardware.brakes = False
        hardware.plant.reset(self.arm.home)
        self.counts['started over'] += 1
        # receive what the processes sent before they were killed
        self._spin(0.2)
        hardware.forget()
        self._begin()

    def check_processes(self):
        """Raise `Lost` if relay or controller has ended."""
        for process in (self.relay, self.controller):
            if process.poll() is not None:
                raise Lost(f'process ended with {process.returncode}')

    def raised(self):
        """Return the log lines with exceptions that no earlier call returned."""
        found = [f'{process.log.name}: {line}' for process in self.processes.running
                 for line in process.log.read_text().splitlines() if RAISED.search(line)]
        new, self._raised = found[self._raised:], len(found)
        return new

    # time

    def _spin(self, duration):
        """Spin the executor for a wall time [s], without simulation."""
        end = wall.perf_counter() + duration
        while wall.perf_counter() < end:
            self._executor.spin_once(timeout_sec=0.01)

    def step(self):
        """Run one period: send the state, wait for a torque, and simulate."""
        hardware, executor = self.hardware, self._executor
        begun = wall.perf_counter()
        told = hardware.tell()
        if self.paced:
            self._due += PERIOD
            if begun > self._due + CATCH_UP * PERIOD:
                lost = int((begun - self._due) / PERIOD)
                self.counts['ticks let go'] += lost
                self._due += lost * PERIOD
            latest = self._due
            executor.spin_once(timeout_sec=0.0)
        elif told:
            latest = self._due = begun + UNANSWERED
        else:  # without a state, the controller acts by its wall clock
            self._due = max(min(self._due, begun), begun - CATCH_UP * PERIOD) + PERIOD
            latest = self._due
            executor.spin_once(timeout_sec=0.0)
        while (left := latest - wall.perf_counter()) > 0.0:
            executor.spin_once(timeout_sec=left)
            if told and not self.paced and hardware.is_answered:
                break
        if hardware.tau is not None:
            self.counts['unanswered'] += told and not hardware.is_answered
            self.counts['steps'] += 1
        if not hardware.advance():
            raise Lost(f'arm at {TOO_FAST:g} times its speed')

    def until(self, happened, why, patience=PATIENCE):
        """Step until `happened()` is true; raise `Lost` after `patience` seconds of wall time."""
        deadline = wall.perf_counter() + patience
        while not happened():
            if wall.perf_counter() > deadline:
                raise Lost(f'waited in vain {why}; controller: {threads(self.controller)}')
            self.step()

    def run(self, duration):
        """Step for a simulated duration [s]."""
        end = self.hardware.time + duration - 0.5 * PERIOD
        self.until(lambda: self.hardware.time > end, 'for time to pass', np.inf)

    def answer(self, client, request, why):
        """Call a service while the simulation continues; return the response."""
        self.until(client.service_is_ready, why, ANSWERED)
        future = client.call_async(request)
        self.until(future.done, why, ANSWERED)
        return future.result()

    # goals

    def pose_at(self, q):
        """Return the tip's pose (4, 4) for positions (n,), which may be beyond their limits."""
        self._probe.reset(q)
        return self._probe.pose()

    def pose(self):
        """Return a random pose within reach."""
        return self.pose_at(self._posture())

    def _posture(self):
        wander = self.arm.wander
        return self.arm.home + self.rng.uniform(-wander, wander, self._probe.n)

    def heaviest(self):
        """Return the largest gravity torques (n,) at the present and 30 random positions."""
        most = np.abs(self.hardware.plant.weight())
        for _ in range(30):
            self._probe.reset(self._posture())
            most = np.maximum(most, np.abs(self._probe.weight()))
        return most

    def ask_pose(self, T):
        """Publish a pose as goal of the tip, effective at once."""
        self.hardware.poses.publish(messages.pose_message(T, '', messages.stamp(0.0)))

    def ask_posture(self, q):
        """Publish joint positions as goal of the posture."""
        self.hardware.postures.publish(messages.joint_state(
            self.hardware.names, 0.0, np.array(q), np.zeros(len(q)), np.zeros(len(q))))

    def target(self):
        """Send a random command: pose, path, twist, posture, hold or parameters."""
        hardware, rng = self.hardware, self.rng
        kind = str(rng.choice(['pose', 'path', 'twist', 'posture', 'hold', 'parameters']))
        self.judge.kind = f'target: {kind}'
        self.judge.now.times += 1
        if kind == 'pose':
            self.ask_pose(self.pose())
        elif kind == 'path':
            hardware.paths.publish(self.paths[0])
        elif kind == 'twist':
            speed = self.arm.target.get('translation.speed', 1.0)
            hardware.twists.publish(messages.twist_message(
                0.2 * speed * rng.uniform(-1.0, 1.0, 6), robot_cases()[self.arm.name].tip,
                messages.stamp(0.0)))
        elif kind == 'posture':
            self.ask_posture(self.arm.home + rng.uniform(-0.2, 0.2, hardware.plant.n))
        elif kind == 'hold':
            self.answer(hardware.hold, Trigger.Request(), 'for a hold')
        else:
            self.parameters(**self._sets())

    def _sets(self):
        """Return a random set of parameters; some sets are invalid."""
        rng = self.rng
        frequency = [float(x) for x in rng.uniform(15.0, 25.0, 3)]
        sets = [{'translation.natural_frequency': frequency},
                {'rotation.natural_frequency': frequency, 'mode': 'acceleration'},
                {'posture.natural_frequency': float(rng.uniform(1.0, 8.0))},
                {'limits.effort_rate': [float(x) for x in 50.0 * self.hardware.plant.effort]},
                {'limits.effort_rate': []},
                {'blend_time': float(rng.uniform(0.05, 0.5))},
                {'translation.natural_frequency': [1.0, -1.0, 1.0]},
                {'payload.mass': -1.0, 'blend_time': 0.1}]
        return sets[int(rng.integers(len(sets)))]

    def request(self, **values):
        """Return the service request that sets parameters atomically."""
        return SetParametersAtomically.Request(parameters=[
            Parameter(name, Parameter.Type.DOUBLE_ARRAY if value == [] else None, value)
            .to_parameter_msg() for name, value in values.items()])

    def parameters(self, **values):
        """Set parameters atomically; return whether the controller accepted them."""
        result = self.answer(self.hardware.set, self.request(**values), 'for a set').result
        self.judge.now.accepted += result.successful
        self.judge.now.refused += not result.successful
        return result.successful

    # faults

    def wander(self):
        """Send a random command and simulate 0.1 to 0.6 s, between two faults."""
        try:
            self.target()
            self.run(float(self.rng.uniform(0.1, 0.6)))
        except Lost as error:
            self.judge.object(self.hardware.time, f'lost: {error}', 1)
            self.start_over()

    def suffer(self, kind, fault):
        """Apply one fault and end it; then the tip must reach a new goal."""
        judge, hardware = self.judge, self.hardware
        judge.kind = kind
        judge.now.times += 1
        controller, before = self.controller, resident(self.controller)
        started = waiting(controller)
        try:
            fault(self)
            hardware.repair()
            self._recover()
            self.check_processes()
        except Lost as error:
            judge.object(hardware.time, f'lost: {error}', 1)
            self.start_over()
        else:
            if self.controller is controller:
                self.memory.append(resident(controller) - before)
        # a thread that has ended counts for nothing
        waited = sum(time - started.get(thread, 0.0)
                     for thread, time in waiting(controller).items())
        if kind in SILENT and judge.now.silence > SILENCE + waited / PERIOD:
            judge.object(hardware.time, 'silence of the controller [periods]', judge.now.silence)
        judge.kind = 'none'

    def _recover(self):
        """Send a random pose, wait until the tip reaches it, and record the time."""
        hardware, longest = self.hardware, self.arm.tracking
        begun, target, sent = hardware.time, self.pose(), -np.inf
        self.ask_posture(self.arm.home)

        def tracks():
            nonlocal sent
            if hardware.time - sent > 0.5:  # repeat the goal, in case the message was lost
                sent = hardware.time
                self.ask_pose(target)
            away, turned = hardware.error(target)
            return away < NEAR and turned < TURNED

        self.until(lambda: tracks() or hardware.time - begun > 2.0 * longest, 'for a target')
        took = hardware.time - begun
        if took > longest:
            away, turned = hardware.error(target)
            self.judge.object(hardware.time, 'late on its target [s]', took)
            if took > 2.0 * longest:
                raise Lost(f'{1e3 * away:.0f} mm and {1e3 * turned:.0f} mrad from its target')
        self.judge.now.took.append(took)

    def drift(self, joints=True):
        """
        Record the drift of a stopped arm in 1 s: of its joints, or of its tip.

        If the arm holds a pose, check the tip only: the posture may move joints in the nullspace.
        """
        hardware = self.hardware

        def place():
            return hardware.plant.q.copy() if joints else hardware.plant.pose()[:3, 3].copy()

        before = place()
        self.run(1.0)
        drift = float(np.abs(place() - before).max())
        self.judge.now.drift = max(self.judge.now.drift, drift)
        if drift > DRIFT:
            self.judge.object(hardware.time, 'drift of an arm that was stopped', drift)

    def restart(self, how):
        """End the controller with signal `how`, and start a new one."""
        self.controller.send_signal(how)
        self.until(lambda: self.controller.poll() is not None, 'for the end')
        self.start_controller()


def is_active(process):
    """Return whether the log of a controller reports that it is active."""
    return 'active: holding' in process.log.read_text()


def resident(process):
    """Return the resident memory of a process [MiB]; NaN if it has ended."""
    try:
        pages = Path(f'/proc/{process.pid}/statm').read_text().split()[1]
    except OSError:
        return np.nan
    return int(pages) * 4096 / 2**20


def threads(process):
    """What the threads of a process do: name, state and where they sleep in the kernel."""
    found = []
    for task in Path(f'/proc/{process.pid}/task').glob('*'):
        with suppress(OSError):
            state = (task / 'stat').read_text().rpartition(')')[2].split()[0]
            found.append(f"{(task / 'comm').read_text().strip()} {state} "
                         + (task / 'wchan').read_text())
    return ', '.join(found) or 'has ended'


def waiting(process):
    """How long threads of a process and of this one have waited for a processor, and all [s]."""
    stolen = int(Path('/proc/stat').read_text().split(maxsplit=9)[8])
    found = {Path('/proc'): stolen / os.sysconf('SC_CLK_TCK')}
    for pid in (process.pid, 'self'):
        for task in Path(f'/proc/{pid}/task').glob('*/schedstat'):
            with suppress(OSError):
                found[task] = 1e-9 * int(task.read_text().split()[1])
    return found
