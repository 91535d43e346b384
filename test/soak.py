"""The machinery of the soak: arms and their plants, the wire to them, the judge, the processes."""

from collections import Counter
from dataclasses import dataclass, field
import gc
import os
from pathlib import Path
import re
import time as wall

from geometry_msgs.msg import PoseStamped, TwistStamped
from lifecycle_msgs.srv import ChangeState
import numpy as np
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectory
import yaml

from arm import PANDA, READY
from foreign import ForeignPlant
from judge import robot_cases
from osc_ros import Robot
from osc_ros.control.trajectory import figure_of_eight
from osc_ros.nodes import messages
from osc_ros.nodes.controller import PARAMETERS
from osc_ros.nodes.run import EventsExecutor
from osc_ros.nodes.share import share_directory
from osc_ros.sim import Plant

PERIOD = 0.002  # [s]
ROUNDED = 1.0 + 1e-9
UNANSWERED = 0.02  # of wall time: in lockstep the plant then goes on with its last torque [s]
CATCH_UP = 5  # ticks that a late paced plant makes up for before it lets time go
NEAR, TURNED = 1e-3, 2e-3  # the tip is on its target [m, rad]
PATIENCE = 240.0  # of wall time, for a process: it may have to compile its kernels first [s]
ANSWERED = 10.0  # of wall time, within which a service has to answer [s]
ATTEMPTS = 3  # to start over
TOO_FAST = 30.0  # times the limit of speed: the arm is lost, and put back [1]

# What must hold. A torque's step from tick to tick, as a share of its limit:
STEP = 0.05
LATE = 4  # periods: a torque that comes so late, or later, may bring the steps of so many
# The relay needs its time-out (0.1 s here) to replace a controller that was killed or a command
# that makes no sense: in motion the torque has moved on meanwhile, and returns in `fade_time`.
STEPS = {'killed': 0.15, 'foreign torques': 0.15}
SPEED = 1.2  # of a joint, as a share of its limit
OUTSIDE = 5e-3  # of a joint beyond its limit of position [rad, m]
DRIFT = 5e-3  # of a joint in a second, of an arm that was stopped [rad, m]
SILENCE = 25.0  # between commands of a controller that is busy [periods]: the relay's time-out
SILENT = ('long trajectories', 'flood of requests')  # that must not exceed it
MEMORY = 4.0  # that the relay may grow by in a long run [MiB]
RAISED = re.compile(r'Traceback|\b[A-Z][A-Za-z]*(?:Error|Exception|Interrupt)\b')

DECLARED = {entry.name for entry in PARAMETERS}


@dataclass(frozen=True)
class Arm:
    """
    An arm of the soak.

    Attributes
    ----------
    name : str
        Of `judge.robot_cases`.
    home : tuple of float
        Where it begins, and what targets are around [rad].
    wander : float
        Targets are the poses of home ± this, joint by joint [rad].
    tracking : float
        In which the tip has to be on a new target [s].
    target : dict
        Parameters `target.…` that fit the arm's limits of speed.
    period : float
        Of a figure of eight of 10 cm [s].

    """

    name: str
    home: tuple
    wander: float = 0.25
    tracking: float = 2.0
    target: dict = field(default_factory=dict)
    period: float = 3.0


# 7 joints with a light wrist; 6 joints, three of them continuous, that are slow; 7 joints of one
# arm of two, with heavy links for its torques
ARMS = {arm.name: arm for arm in (
    Arm('xarm7', (0.0, -0.3, 0.0, 1.3, 0.0, 1.4, 0.0)),
    Arm('kinova', (4.8, 2.9, 1.0, 4.2, 1.4, 1.3), 0.15, 4.0,
        {'translation.speed': 0.15, 'translation.acceleration': 1.0, 'translation.jerk': 20.0,
         'rotation.speed': 0.4, 'rotation.acceleration': 3.0, 'rotation.jerk': 60.0}, 12.0),
    Arm('baxter', (-0.55, 0.08, 1.24, 2.06, 0.05, 1.05, -1.38), 0.2, 3.0,
        {'translation.speed': 0.4, 'rotation.speed': 1.0, 'rotation.acceleration': 6.0}, 6.0),
    Arm('panda', tuple(READY.tolist())))}


class Foreign(ForeignPlant):
    """A foreign arm, with its limits of position."""

    def __init__(self, arm):
        """Put it at home, without friction."""
        case = robot_cases()[arm.name]
        robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=dict(case.locked))
        super().__init__(arm.name, robot.joint_names)
        at, turns = self.model.idx_qs[1:], np.array(self.model.nqs[1:]) > 1
        self.lower = np.where(turns, -np.inf, self.model.lowerPositionLimit[at])
        self.upper = np.where(turns, np.inf, self.model.upperPositionLimit[at])
        self.reset(arm.home)


class Shipped:
    """The shipped Panda in MuJoCo, with the same methods."""

    def __init__(self, arm):
        """Put it at home, without friction."""
        self.joint_names = tuple(f'panda_joint{i}' for i in range(1, 8))
        self._plant = Plant(PANDA.urdf_text, PANDA.base, self.joint_names, friction=[0.0] * 7,
                            damping=[0.0] * 7)
        self.n = 7
        self.effort = np.array([87.0] * 4 + [12.0] * 3)
        self.velocity = np.array([2.175] * 4 + [2.61] * 3)
        self.lower = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
        self.upper = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
        self.friction = np.zeros(7)  # is ignored
        self.reset(arm.home)

    q = property(lambda self: self._plant.q)
    qd = property(lambda self: self._plant.qd)

    def reset(self, q):
        """Put the arm at q (n,), at rest."""
        self._plant.reset(q)

    def step(self, tau, duration):
        """Apply torques (n,) for a duration [s]."""
        self._plant.step(tau, round(duration / 1e-3))

    def pose(self):
        """Pose (4, 4) of the tip in the base frame."""
        return self._plant.pose(PANDA.tip)

    def weight(self):
        """Torques (n,) that hold the arm where it is."""
        return self._plant.weight


def stated(arm, folder):
    """Return the arguments of a node that name the robot, as a user of that arm would write."""
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


@dataclass
class Figures:
    """What is measured while one kind of fault, or none, lasts, and until the arm is back."""

    times: int = 0
    step: float = 0.0  # largest from one torque to the next, share of the limit
    speed: float = 0.0  # largest, share of the limit
    silence: float = 0.0  # longest of the controller, of wall time [periods]
    gap: int = 0  # longest that the plant was without a new torque [periods]
    drift: float = 0.0  # fastest, of an arm that was stopped [rad/s]
    took: list = field(default_factory=list)  # until the tip was on a new target [s]
    accepted: int = 0  # parameter sets
    refused: int = 0


class Judge:
    """Looks at every tick, and writes down the figures and what must not be, by the fault."""

    def __init__(self, plant):
        """Know the limits of the plant."""
        self._plant = plant
        self.kind = 'none'
        self.figures, self.broken = {}, {}
        self.use = 0.0  # largest torque, share of the limit
        self.last = None

    @property
    def now(self):
        """Figures of the present fault."""
        return self.figures.setdefault(self.kind, Figures())

    def object(self, time, what, value, worst=max):
        """Write down that something must not be."""
        count, first, most = self.broken.get((self.kind, what), (0, time, value))
        self.broken[self.kind, what] = count + 1, first, worst(most, value)

    def accepts(self, time, tau):
        """Whether a command is one at all."""
        limits = ROUNDED * self._plant.effort
        if tau.shape != limits.shape or not np.isfinite(tau).all():
            self.object(time, 'torque not finite', 1.0)
            return False
        if (np.abs(tau) > limits).any():
            self.object(time, 'torque beyond its limit', float((np.abs(tau) / limits).max()))
            return False
        return True

    def command(self, time, tau, missed):
        """Look at a torque that came, so many periods later than it should have."""
        self.use = max(self.use, float((np.abs(tau) / self._plant.effort).max()))
        if self.last is not None:
            step = float((np.abs(tau - self.last) / self._plant.effort).max())
            self.now.step = max(self.now.step, step)
            if step > STEPS.get(self.kind, STEP) * min(1 + missed, LATE):
                self.object(time, 'step of torque', step)
        self.last = tau

    def tick(self, time):
        """Look at where a period brought the arm; false where that is lost."""
        plant, now = self._plant, self.now
        speed = float((np.abs(plant.qd) / plant.velocity).max())
        now.speed = max(now.speed, speed)
        if speed > SPEED:
            self.object(time, 'speed', speed)
        outside = float(np.maximum(plant.lower - plant.q, plant.q - plant.upper).max())
        if outside > OUTSIDE:
            self.object(time, 'joint beyond its limit', outside)
        return speed < TOO_FAST  # false for NaN too


class Hardware(Node):
    """A simulated arm at the end of a wire that loses, repeats, delays and garbles states."""

    def __init__(self, arm, rng):
        """Listen to the relay, and to the controller."""
        super().__init__('hardware')
        self.plant = (Shipped if arm.name == 'panda' else Foreign)(arm)
        self.judge = Judge(self.plant)
        self.home, self.names = self.plant.pose(), list(self.plant.joint_names)
        self.ticks, self.counts = 0, Counter()
        self.rng, self.fault, self.mute, self.brakes = rng, None, False, False
        self._late, self._heard, self._answered = [], None, 0
        self.forget()
        listen, tell = self.create_subscription, self.create_publisher
        listen(Float64MultiArray, 'osc_relay/commands', self._on_command, 10)
        listen(Float64MultiArray, 'osc_controller/commands', self._on_controller, 10)
        self.states = tell(JointState, 'joint_states', 10)
        self.poses = tell(PoseStamped, 'osc_controller/target_pose', 10)
        self.paths = tell(MultiDOFJointTrajectory, 'osc_controller/target_trajectory', 10)
        self.twists = tell(TwistStamped, 'osc_controller/target_twist', 10)
        self.postures = tell(JointState, 'osc_controller/target_posture', 10)
        self.hold = self.create_client(Trigger, 'osc_controller/hold')
        self.change = self.create_client(ChangeState, 'osc_controller/change_state')
        self.set = self.create_client(
            SetParametersAtomically, 'osc_controller/set_parameters_atomically')

    def forget(self):
        """Be as before the first command: the brakes are on."""
        self.tau, self.label, self.asked = None, None, ''
        self.judge.last = None

    @property
    def time(self):
        """Simulated [s]."""
        return self.ticks * PERIOD

    @property
    def stamp(self):
        """Of the next state."""
        return messages.stamp(self.time + 1.0)

    @property
    def is_answered(self):
        """Whether there is a torque for the state that was sent last."""
        return self.label == self.asked

    def _on_command(self, message):
        tau = np.array(message.data)
        self.counts['commands'] += 1
        if not self.judge.accepts(self.time, tau):
            return
        now = self.judge.now
        now.gap = max(now.gap, self.ticks - self._answered)
        self.judge.command(self.time, tau, max(0, self.ticks - self._answered - 1))
        self.tau, self.label = tau, messages.label(message)
        self._answered = self.ticks

    def _on_controller(self, message):
        arrived, before = wall.perf_counter(), self._heard
        self._heard = arrived
        if before is not None:
            now = self.judge.now
            now.silence = max(now.silence, (arrived - before) / PERIOD)

    def tell(self):
        """Send the state, through the wire."""
        if self.mute:
            return False
        plant = self.plant
        tau = plant.weight() if self.tau is None else self.tau
        message = messages.joint_state(self.names, self.time + 1.0, plant.q, plant.qd, tau)
        self.asked = messages.label_of(message.header.stamp)
        kind = self.fault if self.fault and self.rng.random() < 0.3 else None
        if self.fault == 'missing velocities':
            message.velocity = []
        if kind == 'dropped states':
            return False
        if kind == 'garbled states':
            self._garble(message)
        if kind == 'late states':
            self._late.append(message)
            return False
        self.states.publish(message)
        if kind == 'repeated states':
            self.states.publish(message)
        if self._late and self.rng.random() < 0.5:
            self.states.publish(self._late.pop(int(self.rng.integers(len(self._late)))))
        return True

    def repair(self):
        """Let the wire be good again."""
        self.fault, self.mute, self._late = None, False, []
        self.plant.friction[:] = 0.0

    def _garble(self, message):
        n = self.plant.n
        how, i = int(self.rng.integers(6)), int(self.rng.integers(n))
        if how == 0:
            message.position[i] = float(self.rng.choice([np.nan, np.inf, 1e300, 1e9]))
        elif how == 1:
            message.velocity[i] = float(self.rng.choice([np.nan, -np.inf, -1e300, 50.0]))
        elif how == 2:
            message.position[i] += 0.7
        elif how == 3:
            message.name = [f'other_{i}' for i in range(n)]
        elif how == 4:
            message.velocity = message.velocity[:4]
        else:
            message.header.stamp = messages.stamp(float(self.rng.choice([0.0, 1e6])))

    def advance(self):
        """Go on by a period, if there was ever a torque; whether the arm is not lost."""
        if self.tau is None:
            return True
        if not self.brakes:
            self.plant.step(self.tau, PERIOD)
        self.ticks += 1
        return self.judge.tick(self.time)

    def error(self, target):
        """Distance [m] and angle [rad] of the tip from a pose."""
        T = self.plant.pose()
        return (np.linalg.norm(target[:3, 3] - T[:3, 3]),
                Rotation.from_matrix(target[:3, :3] @ T[:3, :3].T).magnitude())


class Lost(Exception):
    """The arm, or the wait for something."""


class System:
    """The hardware, a relay, a controller that may be restarted, and what is asked of them."""

    def __init__(self, arm, processes, folder, paced, seed):
        """Start all."""
        self.arm, self.paced, self.rng = arm, paced, np.random.default_rng(seed)
        self.processes, self._stated = processes, stated(arm, folder)
        self._executor = EventsExecutor()
        self.hardware = Hardware(arm, self.rng)
        self.judge = self.hardware.judge
        self._executor.add_node(self.hardware)
        self.counts, self.memory, self._raised = Counter(), [], 0
        self._probe = (Shipped if arm.name == 'panda' else Foreign)(arm)
        self.paths = [self._path(points) for points in (1000, 3000, 10000)]
        gc.collect()
        gc.freeze()  # a collection of all that was imported would delay a paced plant
        self._spin(0.5)  # others would be seen by then
        self._due = wall.perf_counter()
        self._begin()

    def close(self):
        """End the processes and the node."""
        self.processes.end()
        self._executor.remove_node(self.hardware)
        self.hardware.destroy_node()
        self._executor.shutdown()
        gc.unfreeze()

    def _path(self, points):
        """Return a figure of eight as bytes: making a message of it takes up to a second."""
        path = figure_of_eight(self.hardware.home, 0.1, 0.05, self.arm.period, 1.0, 0.0,
                               (points - 1) / (1.25 * self.arm.period))
        case = robot_cases()[self.arm.name]
        return serialize_message(messages.trajectory_message(path, case.base, case.tip))

    # processes

    def _begin(self):
        count, names = self.hardware.count_subscribers, ('joint_states', 'osc_relay/commands')
        if self.processes.running == [] and [count(name) for name in names] != [0, 1]:
            raise RuntimeError(f'others use the ROS domain {os.environ["ROS_DOMAIN_ID"]}')
        self.relay = self.processes.start('relay', *self._stated, '-p', 'command_timeout:=0.1')
        self.start_controller()

    def start_controller(self):
        """Start a controller, and wait until it has the arm."""
        self.controller = self.processes.start('controller', *self._stated)
        count = self.hardware.count_subscribers
        self.until(lambda: count('joint_states') > 1 and is_active(self.controller),
                   'for a controller')

    def second_controller(self):
        """Start one more controller, of the same names, and return it when it is active."""
        second = self.processes.start('controller', *self._stated)
        self.until(lambda: is_active(second) or second.poll() is not None, 'for a second one')
        return second

    def start_over(self):
        """Put the arm back, and start all anew."""
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
        # what those that were killed have sent
        self._spin(0.2)
        hardware.forget()
        self._begin()

    def check_processes(self):
        """Write down what ended by itself, and what was raised."""
        for process in (self.relay, self.controller):
            if process.poll() is not None:
                raise Lost(f'process ended with {process.returncode}')

    def raised(self):
        """Lines of the logs that have an exception, but for those that were told of before."""
        found = [f'{process.log.name}: {line}' for process in self.processes.running
                 for line in process.log.read_text().splitlines() if RAISED.search(line)]
        new, self._raised = found[self._raised:], len(found)
        return new

    # time

    def _spin(self, duration):
        """Let wall time pass [s], while the plant stands."""
        end = wall.perf_counter() + duration
        while wall.perf_counter() < end:
            self._executor.spin_once(timeout_sec=0.01)

    def step(self):
        """One period: the state goes out, a torque comes, or not, and physics go on."""
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
        else:
            latest = begun + (UNANSWERED if told else PERIOD)
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
        """Step until something is true."""
        deadline = wall.perf_counter() + patience
        while not happened():
            if wall.perf_counter() > deadline:
                raise Lost(f'waited in vain {why}')
            self.step()

    def run(self, duration):
        """Let time pass, simulated [s]."""
        end = self.hardware.time + duration - 0.5 * PERIOD
        self.until(lambda: self.hardware.time > end, 'for time to pass', np.inf)

    def answer(self, client, request, why):
        """Ask a service while the arm goes on."""
        self.until(client.service_is_ready, why, ANSWERED)
        future = client.call_async(request)
        self.until(future.done, why, ANSWERED)
        return future.result()

    # what is asked for

    def pose_at(self, q):
        """Pose (4, 4) of the tip for joint positions (n,)."""
        self._probe.reset(np.clip(q, self._probe.lower, self._probe.upper))
        return self._probe.pose()

    def pose(self):
        """Return a pose at random that is within reach."""
        return self.pose_at(self._posture())

    def _posture(self):
        wander = self.arm.wander
        return self.arm.home + self.rng.uniform(-wander, wander, self._probe.n)

    def heaviest(self):
        """Largest torques (n,) by which the arm is held in the poses that it is asked for."""
        most = np.abs(self.hardware.plant.weight())
        for _ in range(30):
            self._probe.reset(self._posture())
            most = np.maximum(most, np.abs(self._probe.weight()))
        return most

    def ask_pose(self, T):
        """Ask for a pose of the tip, now."""
        self.hardware.poses.publish(messages.pose_message(T, '', messages.stamp(0.0)))

    def ask_posture(self, q):
        """Ask for joint positions."""
        self.hardware.postures.publish(messages.joint_state(
            self.hardware.names, 0.0, np.array(q), np.zeros(len(q)), np.zeros(len(q))))

    def target(self):
        """Ask for something."""
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
        """Return a set of parameters, which may be a bad one."""
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
        """Return the request that sets parameters, all or none."""
        return SetParametersAtomically.Request(parameters=[
            Parameter(name, Parameter.Type.DOUBLE_ARRAY if value == [] else None, value)
            .to_parameter_msg() for name, value in values.items()])

    def parameters(self, **values):
        """Set parameters, all or none; whether they were accepted."""
        result = self.answer(self.hardware.set, self.request(**values), 'for a set').result
        self.judge.now.accepted += result.successful
        self.judge.now.refused += not result.successful
        return result.successful

    # faults

    def wander(self):
        """Do what an arm is for, between two faults."""
        try:
            self.target()
            self.run(float(self.rng.uniform(0.1, 0.6)))
        except Lost as error:
            self.judge.object(self.hardware.time, f'lost: {error}', 1)
            self.start_over()

    def suffer(self, kind, fault):
        """Let one thing go wrong, and be right again; the tip has to be on a new target then."""
        judge, hardware = self.judge, self.hardware
        judge.kind = kind
        judge.now.times += 1
        controller, before = self.controller, resident(self.controller)
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
        if kind in SILENT and judge.now.silence > SILENCE:
            judge.object(hardware.time, 'silence of the controller [periods]', judge.now.silence)
        judge.kind = 'none'

    def _recover(self):
        """Ask for a pose, and wait until the arm is there."""
        hardware, longest = self.hardware, self.arm.tracking
        begun, target, sent = hardware.time, self.pose(), -np.inf
        self.ask_posture(self.arm.home)

        def tracks():
            nonlocal sent
            if hardware.time - sent > 0.5:  # as a client does whose message may be lost
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

    def drift(self):
        """Write down how fast the joints of an arm drift that was told to stop [rad/s]."""
        plant = self.hardware.plant
        before = plant.q.copy()
        self.run(1.0)
        drift = float(np.abs(plant.q - before).max())
        self.judge.now.drift = max(self.judge.now.drift, drift)
        if drift > DRIFT:
            self.judge.object(self.hardware.time, 'drift of an arm that was stopped', drift)

    def restart(self, how):
        """End the controller, and start another one."""
        self.controller.send_signal(how)
        self.until(lambda: self.controller.poll() is not None, 'for the end')
        self.start_controller()


def is_active(process):
    """Whether a controller says that it has the arm."""
    return 'active: holding' in process.log.read_text()


def resident(process):
    """Memory of a process [MiB]; NaN where it has ended."""
    try:
        pages = Path(f'/proc/{process.pid}/statm').read_text().split()[1]
    except OSError:
        return np.nan
    return int(pages) * 4096 / 2**20
